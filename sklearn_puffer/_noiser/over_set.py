"""What is lost over a set of priors around the fitted one: what ``certificate_.over_set`` tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import prod
from typing import Any, Protocol

import numpy as np

from sklearn_puffer._base import FloatArray, is_listening, listening, task
from sklearn_puffer._noiser.conditional_priors import Adversary, Members
from sklearn_puffer._noiser.drawn_priors import CLOSE, drawn_around
from sklearn_puffer._noiser.problems import Mixings, Problem, WorstPart, noise_of, on_steps
from sklearn_puffer._noiser.scales import Calibrated
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._releases import SetLoss
from sklearn_puffer._releases import sentences as say
from sklearn_puffer._sets import (
    SetLosses,
    SimultaneousSet,
    computable,
    error_share,
    set_around,
    work,
)
from sklearn_puffer._tables import Column, Name, Pair
from sklearn_puffer.bounds import sensitivity
from sklearn_puffer.calibration import smallest_factor
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion

CHEAP = 1 << 20
"""What the loss over sets may take, in numbers, to be computed without being asked for."""

DEFAULT_LEVEL = 0.95
"""Level of the set about which the certificate speaks where no other was asked for."""


class Around(Protocol):
    """The priors around the fitted ones."""

    @property
    def remarks(self) -> list[str]:
        """What the user should be warned of."""

    def within(self, problem: Problem) -> Problem:
        """Return the problem with these priors among its adversaries, where that was asked for."""

    def loss(self, problem: Problem, calibrated: Calibrated) -> SetLoss | Later | None:
        """Return the loss over these priors at the scales, where it is computable.

        At once where it was asked for or is cheap, and otherwise as something to be asked.
        """


@dataclass(frozen=True)
class Unknown:
    """No set: the prior was given, or the sets are too large to look through.

    Attributes
    ----------
    reason : str or None
        Why there is no set, where one was asked for.
    """

    reason: str | None = None

    @property
    def remarks(self) -> list[str]:
        """Why the noise is that of `sensitivity`, where a set was asked for."""
        return [] if self.reason is None else [say.no_set_sentence(self.reason)]

    def within(self, problem: Problem) -> Problem:
        """Return the problem under `sensitivity`, which serves every prior, if a set was asked."""
        return problem if self.reason is None else replace(problem, strategy=sensitivity)

    def loss(self, problem: Problem, calibrated: Calibrated) -> SetLoss | None:
        """Return None."""
        return None


@dataclass(frozen=True, eq=False)
class SetBound:
    """The worst loss of each pair over its sets, and which sets decide it.

    Attributes
    ----------
    losses_of : SetLosses
        Of the pairs, and then of every set against itself.
    n_pairs : int
    """

    losses_of: SetLosses
    n_pairs: int

    @property
    def guess(self) -> float:
        """A factor near which the loss meets the budget."""
        return self.losses_of.guess

    @property
    def tolerance(self) -> float:
        """How finely factors are worth telling apart."""
        return self.losses_of.tolerance

    def losses(self, factor: float) -> FloatArray:
        """Return the worst losses over the sets, shape (n_pairs, 2)."""
        return self.losses_of.losses(factor)[: self.n_pairs]

    def decided(self) -> list[bool]:
        """Return for each set whether its secret has so few rows that all noise is for that."""
        found: list[bool] = self.losses_of.decided(self.guess)[self.n_pairs :].tolist()
        return found


@dataclass(frozen=True, eq=False)
class SetPart:
    """Columns that are released together, and the sets to be told apart on them.

    Attributes
    ----------
    members : tuple of int
        Positions of the public columns.
    sets : dict
        The set of each secret, (sensitive column, value).
    pairs, owners : list
        The secrets of each pair, and the place of the pair among all.
    """

    members: Members
    sets: dict[tuple[Name, Any], SimultaneousSet]
    pairs: list[tuple[tuple[Name, Any], tuple[Name, Any]]]
    owners: list[int]
    made: dict[Any, SetBound] = field(default_factory=dict)

    def bound(self, problem: Problem, notion: Notion, grids: FloatArray | None) -> SetBound:
        """Return the bound over the sets, on the grid where that is known."""
        noise = noise_of(problem.noise, problem.mixings, self.members, problem.weights)
        steps = None if grids is None else grids[list(self.members)]
        sets = self._on_grid(steps)
        key = (noise, notion, () if steps is None or sets is self.sets else tuple(steps))
        if key not in self.made:
            self.made.clear()  # the last one is the one that is asked for again
            pairs = [(sets[p], sets[q]) for p, q in self.pairs]
            alone = [(around, around) for around in sets.values()]
            self.made[key] = SetBound(SetLosses([*pairs, *alone], noise, notion), len(pairs))
        return self.made[key]

    def _on_grid(self, steps: FloatArray | None) -> dict[tuple[Name, Any], SimultaneousSet]:
        """Return the sets over the atoms on the grid: the same ones where those are on it."""
        if steps is None:
            return self.sets
        axes = next(iter(self.sets.values())).axes
        moved = tuple(
            on_steps(axis[:, None], np.array([step]))[:, 0] if step > 0.0 else axis
            for axis, step in zip(axes, steps, strict=True)
        )
        if all(np.array_equal(old, new) for old, new in zip(axes, moved, strict=True)):
            return self.sets
        return {secret: replace(around, axes=moved) for secret, around in self.sets.items()}


@dataclass(frozen=True, eq=False)
class CountedSets:
    """Simultaneous confidence sets around counted laws.

    Attributes
    ----------
    level : float
    asked : bool
        Whether the noise has to serve all of their priors.
    counted, pairs, columns, partition
        As `priors_around` takes them; the sets are made when they are first needed.
    """

    level: float
    asked: bool
    counted: Adversary
    pairs: Mapping[Name, Sequence[Pair]]
    columns: Sequence[Column]
    partition: Sequence[Sequence[int]]

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def groups(self) -> list[list[SetPart]]:
        """The sets of each group of columns."""
        sets = _sets_of(self.counted, self.pairs, self.columns, self.level)
        return [_parts(sets, self.pairs, set(group)) for group in self.partition]

    @property
    def n_pairs(self) -> int:
        """Number of secret pairs."""
        return sum(len(of_column) for of_column in self.pairs.values())

    @property
    def remarks(self) -> list[str]:
        """Nothing: what the sets tell stands in the certificate."""
        return []

    def within(self, problem: Problem) -> Problem:
        """Return the problem with the sets in it, if they were asked for."""
        return replace(problem, sets=self.factor) if self.asked else problem

    def factor(
        self,
        problem: Problem,
        notion: Notion,
        grids: FloatArray | None,
        budget: float,
        tolerance: float,
    ) -> float:
        """Return the smallest factor that serves every prior of the sets."""
        bounds = self.bounds(problem, notion, grids)
        # integrals of extremes are that wide, and a finer search would only follow their steps
        close = tolerance if self._is_exact(problem, bounds) else max(tolerance, CLOSE)
        close = max(close, *(bound.tolerance for bound in bounds))
        return smallest_factor(bounds, budget, tolerance=close)

    def bounds(self, problem: Problem, notion: Notion, grids: FloatArray | None) -> list[WorstPart]:
        """Return bounds over the sets whose sum is that of the whole row."""
        own = notion if notion.adds_up else notion.shared(len(self.groups))
        return [
            WorstPart(
                [part.bound(problem, own, grids) for part in group],
                [np.array(part.owners) for part in group],
                self.n_pairs,
            )
            for group in self.groups
        ]

    def loss(self, problem: Problem, calibrated: Calibrated) -> SetLoss | Later:
        """Return the loss over the sets, or who computes it when asked."""
        about = self.columns, problem.mixings, problem.noise, problem.notion
        n_numbers = _numbers(self.counted, self.n_pairs, *about)
        if self.asked or n_numbers <= CHEAP:
            return self.loss_at(problem, calibrated.factor, calibrated.grids, calibrated.share)
        # neither the priors nor what was made of them: only what is asked about
        asked = replace(problem, groups=(), asked=(), strategy=sensitivity, sets=None)
        own = calibrated.factor, calibrated.grids, calibrated.share
        return Later(self, asked, *own, loud=is_listening())  # who listens now will then, too

    def loss_at(self, problem: Problem, factor: float, grids: FloatArray, share: float) -> SetLoss:
        """Return the loss over the sets at some scales, sampler included."""
        ratio = problem.drawing_loss
        inner = problem.notion.for_law(ratio)
        bounds = self.bounds(problem, inner, grids if factor > 0.0 else None)
        losses = np.sum([bound.losses(factor) for bound in bounds], axis=0)
        if factor > 0.0:
            losses = np.nextafter(problem.notion.of_samples(losses, ratio), np.inf)
        return SetLoss(
            level=self.level,
            loss=float(losses.max()),
            exact=self._is_exact(problem, bounds),
            estimate=False,
            share=share,
            decided=self._decided(bounds),
        )

    def _is_exact(self, problem: Problem, bounds: Sequence[WorstPart]) -> bool:
        alone = problem.notion.adds_up or len(self.groups) == 1
        return alone and all(each.losses_of.exact for bound in bounds for each in bound.bounds)

    def _decided(self, bounds: Sequence[WorstPart]) -> tuple[Any, ...]:
        """Return the secrets about which the rows say next to nothing."""
        found: dict[Any, None] = {}
        for group, bound in zip(self.groups, bounds, strict=True):
            for part, each in zip(group, bound.bounds, strict=True):
                decided = zip(part.sets, each.decided(), strict=True)
                found |= {label: None for (_, label), is_decided in decided if is_decided}
        return tuple(found)


@dataclass(eq=False)
class Later:
    """The loss over the sets, computed when it is first asked for."""

    sets: CountedSets
    problem: Problem
    factor: float
    grids: FloatArray
    share: float
    known: SetLoss | None = None
    loud: bool = False

    def value(self) -> SetLoss:
        """Return the loss, and remember it; two threads at once compute the same."""
        if self.known is None:
            # sets of its own: what was made of them is not kept
            own = replace(self.sets)
            with (
                listening(self.loud, "loss over the set of priors"),
                task("loss over the set of priors", heads=True),
            ):
                self.known = own.loss_at(self.problem, self.factor, self.grids, self.share)
        return self.known


def priors_around(
    settings: Settings,
    counted: Adversary,
    pairs: Mapping[Name, Sequence[Pair]],
    columns: Sequence[Column],
    groups: Sequence[Sequence[int]],
    mixings: Mixings,
) -> Around:
    """Return the set of priors around the fitted ones.

    Parameters
    ----------
    settings : Settings
    counted : Adversary
        The laws counted from the rows.
    pairs : mapping
        The protected pairs of each sensitive column.
    columns : sequence of Column
        Their atoms are the declared alphabet: cells without rows have a place in the sets.
    groups : sequence of sequences of int
        Columns that are independent of each other group by group.
    mixings : sequence of Mixing or None
        What each unordered column is drawn anew from.
    """
    asked = settings.confidence is not None
    if settings.grouped is not None:
        return Unknown()
    if settings.prior is not None:
        return Unknown("the prior is given, not learnt from the rows" if asked else None)
    level = settings.confidence.level if settings.confidence is not None else DEFAULT_LEVEL
    if settings.fit is not None:
        return drawn_around(settings, counted, pairs, groups, level) if asked else Unknown()
    reason = _too_large(settings, counted, columns, mixings)
    if reason is not None or settings.known is not None:
        return Unknown(reason if asked else None)
    return CountedSets(level, asked, counted, pairs, columns, groups)


Sets = dict[Name, dict[Any, dict[Members, SimultaneousSet]]]


def _sets_of(
    counted: Adversary,
    pairs: Mapping[Name, Sequence[Pair]],
    columns: Sequence[Column],
    level: float,
) -> Sets:
    """Return the sets of the secrets that a pair names, at a level for those of all together."""
    laws = [law for of_secret in counted.values() for law in of_secret.values()]
    cells = [prod(_shape(members, columns)) for of in laws for members in of]
    share = error_share(level, cells)
    named = {name: {label for pair in of for label in pair} for name, of in pairs.items()}
    return {
        name: {
            label: {
                members: set_around(law, share, [columns[k].atoms for k in members])
                for members, law in of.items()
            }
            for label, of in of_secret.items()
            if label in named[name]
        }
        for name, of_secret in counted.items()
    }


def _parts(sets: Sets, pairs: Mapping[Name, Sequence[Pair]], group: set[int]) -> list[SetPart]:
    found: dict[Members, SetPart] = {}
    asked = [(name, a, b) for name, of_column in pairs.items() for a, b in of_column]
    secrets = {name: {label: (name, label) for label in of} for name, of in sets.items()}
    for owner, (name, a, b) in enumerate(asked):
        p, q = sets[name][a], sets[name][b]
        first, second = secrets[name][a], secrets[name][b]
        for members in p:
            if members in q and group.issuperset(members):
                part = found.get(members) or found.setdefault(members, SetPart(members, {}, [], []))
                part.sets.setdefault(first, p[members])
                part.sets.setdefault(second, q[members])
                part.pairs.append((first, second))
                part.owners.append(owner)
    return [found[members] for members in sorted(found)]


def _too_large(
    settings: Settings, counted: Adversary, columns: Sequence[Column], mixings: Mixings
) -> str | None:
    """Return why the sets cannot be looked through, or None."""
    for members, count in _set_sizes(counted).items():
        noise = noise_of(settings.noise, mixings, members, np.ones(len(columns)))
        shape = _shape(members, columns)
        if not computable(shape, count, noise, settings.notion):
            return f"{prod(shape)} cells in {len(members)} column(s) under this noise and notion"
    return None


def _numbers(
    counted: Adversary,
    n_pairs: int,
    columns: Sequence[Column],
    mixings: Mixings,
    noise: Noise,
    notion: Notion,
) -> int:
    """Return about how many numbers it takes to look through all sets, and at all pairs of them."""
    total = 0
    for members, count in _set_sizes(counted).items():
        shape, own = (
            _shape(members, columns),
            noise_of(noise, mixings, members, np.ones(len(columns))),
        )
        of_a_point = work(shape, 1, own, notion) // prod(shape)
        total += work(shape, count, own, notion) + n_pairs * of_a_point
    return total


def _set_sizes(counted: Adversary) -> dict[Members, int]:
    """Return how many sets there are over each combination of columns."""
    n_sets: dict[Members, int] = {}
    for of_secret in counted.values():
        for laws in of_secret.values():
            for members in laws:
                n_sets[members] = n_sets.get(members, 0) + 1
    return n_sets


def _shape(members: Members, columns: Sequence[Column]) -> list[int]:
    return [len(columns[k].atoms) for k in members]
