"""Losses under other priors: a given one (``against``), or the worst of a confidence set.

They are computed as under the fitted prior, at the fitted scales. The worst-case loss over the set
around the counted priors is ``certificate_.over_set``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from sklearn_puffer._base import Array, FloatArray, is_listening, listening, task
from sklearn_puffer._certificates import PairLoss, SetLoss
from sklearn_puffer._codes import Column, Pair
from sklearn_puffer._noiser.priors import (
    Adversary,
    Group,
    Members,
    SecretPair,
    changed,
    choices_of,
    given_adversary,
    make_groups,
    who_know,
)
from sklearn_puffer._noiser.problem import Bounds, Mixings, Problem, noise_of
from sklearn_puffer._noiser.scales import Calibrated, Solution, exact_over_sets, rounded
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._release import Drift, Margin, compared_rows
from sklearn_puffer._sets import computable, error_share, set_around, work
from sklearn_puffer._tables import Name, records_frame
from sklearn_puffer._words import quoted, short_number
from sklearn_puffer.bounds import sensitivity
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion
from sklearn_puffer.priors import Discrete, GaussianMixture


@dataclass(frozen=True)
class Against:
    """What is guaranteed against adversaries who hold one further prior, and no others.

    With side information (``known=``) these also include adversaries who know a value of it.

    Attributes
    ----------
    notion : Notion
        What the release guarantees under the fitted prior.
    loss : float
        Proven upper end of the loss of the worst pair under this prior, in the unit of the
        notion's budget, the error of the sampler included.
    lower : float
        Lower end of that loss.
    pairs : tuple of PairLoss
        Both directions of every secret pair; with side information (``known=``) the worst over
        adversaries without any, and with any value of it.

    Notes
    -----
    *Formal guarantees.* If the values of a row follow this prior given each secret, no odds of
    secrets change by more than ``loss`` says.
    """

    notion: Notion
    loss: float
    lower: float
    pairs: tuple[PairLoss, ...]

    @property
    def holds(self) -> bool:
        """Whether the loss under this prior is within the budget all the same."""
        return self.loss <= self.notion.budget

    @property
    def table(self) -> Any:
        """The pairs as a DataFrame, a row for each ordered pair of secrets."""
        names = ["sensitive", "secret", "against", "lower", "upper", "source"]
        return records_frame([*map(attrgetter(*names), self.pairs)], names)

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        budget, loss = self.notion.budget_name(), short_number(self.loss)
        bound = ""
        if any(pair.source == "theorem" for pair in self.pairs):
            bound = ", a bound, as the exact loss is out of reach"
        return (
            f"Against this prior ({verdict}): {budget}, proven loss {loss}{bound}; another prior "
            "has a loss of its own."
        )


@dataclass(frozen=True, eq=False)
class FittedNoise:
    """The noise of a fitted release, its columns and secrets, without priors.

    It holds no rows, and distributions of single columns only, in thousandths. So it is small.
    """

    # without priors; its weights are the scales of all releases together
    problem: Problem
    grids: FloatArray  # steps; 0 where the column is released unchanged; shape (n_columns,)
    columns: Sequence[Column]
    groups: Sequence[Sequence[int]]  # positions of the columns that are released jointly
    # positions of the columns that fitted distributions are over: several to a group, where a row
    # may be incomplete
    members: Sequence[Members]
    secrets: Mapping[Name, Sequence[Any]]  # the values of each sensitive column
    pairs: Mapping[Name, Sequence[Pair]]  # the protected pairs of each sensitive column
    # the distribution of the values of each column, in thousandths of the rows
    margins: Sequence[Margin] = ()
    # positions of the columns that may be known besides, those known together in one
    known: Sequence[Sequence[int]] = ()

    def against(self, prior: Mapping[Any, Any]) -> Against:
        """Return what is still guaranteed against another prior.

        Parameters
        ----------
        prior : dict
            {secret: prior object}, or {sensitive column: {secret: prior object}}, over all public
            columns, like an entry of ``adversaries=``.

        Returns
        -------
        Against

        Raises
        ------
        TypeError, ValueError
            If it is no such mapping, lacks a secret of the fitted table,
            is of another kind than the fitted priors, or gives mass to a value that no released
            row can have.

        Examples
        --------
        >>> from sklearn_puffer.calibration import exact
        >>> from sklearn_puffer.noise import Laplace
        >>> from sklearn_puffer.notions import Pufferfish
        >>> cars = Column("cars", "float", np.array([0.0, 1.0]), np.ones(2, dtype=bool))
        >>> scale, whole = np.ones(1), np.zeros(1, dtype=bool)
        >>> problem = Problem(
        ...     [], 0, scale, whole, ["cars"], Pufferfish(0.5), exact, Laplace()
        ... )
        >>> release = FittedNoise(
        ...     problem, np.full(1, 2.0**-40), [cars], [[0]], [(0,)],
        ...     {"loan": ["no", "yes"]}, {"loan": [("no", "yes")]},
        ... )
        >>> distribution = Discrete([0, 1], [0.25, 0.75])
        >>> told = release.against({"no": Discrete([0], [1.0]), "yes": distribution})
        >>> round(told.loss, 6), told.holds
        (0.827989, False)
        """
        return self._against(self._checked(prior), self.groups)

    def counted_loss(self, counted: Adversary, members: Members) -> float:
        """Return the loss to a reader who counted some columns, whose rows are complete."""
        alone = changed(counted, lambda distributions: {members: distributions[members]})
        return self._against(alone, [members]).loss

    def _against(self, alone: Adversary, groups: Sequence[Sequence[int]]) -> Against:
        """Return what is guaranteed of groups of columns against a prior."""
        seen = [[k for k in some if any(k in group for group in groups)] for some in self.known]
        further = [alone, *who_know(choices_of([alone], list(filter(None, seen)), groups), groups)]
        secret_pairs, parts = make_groups(further, self.pairs, groups)
        parts = [[part.rounded(self.grids) for part in group] for group in parts]
        lower, upper, recomputed = self._as_drawn(parts, len(secret_pairs))
        # the worst over adversaries with the prior alone, and with each value of side information
        lower, upper = (ends.reshape(len(further), -1, 2).max(axis=0) for ends in (lower, upper))
        lower = np.minimum(lower, upper)
        recomputed = np.asarray(recomputed.reshape(len(further), -1).all(axis=0))
        return Against(
            notion=self.problem.notion,
            loss=float(upper.max()),
            lower=float(lower.max()),
            pairs=pair_losses(secret_pairs[: len(lower)], recomputed, upper, lower, upper),
        )

    def compared(self, table: Any) -> Drift:
        """Return how other rows compare with those of `fit`."""
        return compared_rows(self, table)

    def _checked(self, prior: Any) -> Adversary:
        """Return the distributions of a prior, by the rules of ``adversaries=``.

        They are without atoms of mass zero; values that cannot be released are refused.
        """
        parts = [(group, m) for group in self.groups for m in self.members if set(m) < set(group)]
        gaps = {k for group, members in parts for k in set(group) - set(members)}
        further = given_adversary(prior, "prior", self.secrets, self.groups, self.columns, gaps)
        every = [pair for of_secrets in further.values() for pair in of_secrets.items()]
        for label, distributions in every:
            for members, distribution in distributions.items():
                columns = [self.columns[k] for k in members]
                if isinstance(distribution, GaussianMixture) != columns[0].free:
                    kind = "GaussianMixture" if columns[0].free else "Discrete"
                    raise ValueError(
                        f"prior holds {distribution!r} for {quoted(label)}, and the noiser was "
                        f"fitted with {kind} priors; give {kind} priors."
                    )
                if columns[0].free:
                    continue
                possible = distribution.counts > 0
                for column, values in zip(columns, distribution.rows[possible].T, strict=True):
                    _check_known(column, values, label)
                distributions[members] = Discrete.from_counts(
                    distribution.atoms[possible], distribution.counts[possible]
                )
        return further

    def _as_drawn(
        self, groups: Sequence[Group], n_pairs: int
    ) -> tuple[FloatArray, FloatArray, Array]:
        """Return the interval of the loss of each pair as drawn, and whether it is exact."""
        problem = replace(self.problem, groups=groups, n_pairs=n_pairs)
        noisy = problem.weights > 0.0
        ratio = problem.grid_loss(1.0, self.grids, problem.free) if noisy.any() else 0.0
        inner = problem.notion.for_distribution(ratio)
        solution = Solution(problem, 1.0, Bounds(problem, inner).whole(), inner, ratio)
        varies_bare = problem.moving & ~noisy
        varies_bare[problem.kept] = False
        if not varies_bare.any():
            return solution.as_drawn(1.0)
        # noise on the other columns only lowers the loss
        lower, upper, recomputed = solution.interval(0.0)
        if noisy.any():
            lower = np.minimum(solution.as_drawn(1.0)[0], upper)
            upper = np.nextafter(problem.notion.of_samples(upper, ratio), np.inf)
            recomputed = np.zeros(n_pairs, dtype=bool)
        return np.maximum(lower, 0.0), upper, recomputed


def pair_losses(
    secret_pairs: Sequence[SecretPair],
    recomputed: Array,
    bound: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> tuple[PairLoss, ...]:
    """Return the losses of each pair, forward and backward."""
    losses: list[PairLoss] = []
    # arrays are converted as a whole: number by number takes longer than all the rest
    numbers = np.stack([bound, lower, upper], axis=2).tolist()
    for pair, ends, known in zip(secret_pairs, numbers, recomputed.tolist(), strict=True):
        source: Literal["recomputed", "theorem"] = "recomputed" if known else "theorem"
        adversary, of, *way = pair
        for (one, other), (most, low, high) in zip((way, way[::-1]), ends, strict=True):
            losses.append(PairLoss(of, one, other, adversary, most, low, high, source))
    return tuple(losses)


def _check_known(column: Column, values: FloatArray, label: Any) -> None:
    """Refuse values that a released row cannot have."""
    strange = np.setdiff1d(values, column.atoms[column.known])
    if strange.size:
        shown = repr(float(strange[0]))
        if column.levels is not None and float(strange[0]).is_integer():
            code = int(strange[0])
            if code < len(column.levels):
                shown = f"{quoted(column.levels[code])} (code {code})"
        raise ValueError(
            f"prior gives mass to {shown} in column {column.name!r} for {quoted(label)}, which "
            "was not seen in fit, so that such rows are refused, or moved; give it mass zero, or "
            "name this prior in adversaries= and fit again."
        )


CHEAP = 1 << 20
"""`fit` computes a loss over sets unasked where it takes at most so many numbers."""

DEFAULT_LEVEL = 0.95
"""Level of the set in the certificate where no other was asked for."""


@dataclass(frozen=True, eq=False)
class CountedSets:
    """Simultaneous confidence sets around counted distributions."""

    level: float
    counted: Adversary  # the distributions counted from the rows
    pairs: Mapping[Name, Sequence[Pair]]  # the protected pairs of each sensitive column
    columns: Sequence[Column]
    groups: Sequence[Sequence[int]]  # columns that are independent of each other group by group

    @property
    def counts(self) -> Counter[Members]:
        """How many distributions there are over each combination of columns."""
        every = [of for of_secret in self.counted.values() for of in of_secret.values()]
        return Counter(members for distributions in every for members in distributions)

    def shape(self, members: Members) -> list[int]:
        """Return the shape of the grid of some columns."""
        return [len(self.columns[k].atoms) for k in members]

    def parts(self) -> list[Group]:
        """Return the sets of each group of columns; all hold together with probability ``level``.

        Cells of the declared alphabet without rows have a place in them.
        """
        share = error_share(self.level, (prod(self.shape(m)) for m in self.counts.elements()))
        protected = {
            (name, label) for name, pairs in self.pairs.items() for pair in pairs for label in pair
        }
        sets: Adversary = {
            name: {
                label: {
                    members: set_around(prior, share, [self.columns[k].atoms for k in members])
                    for members, prior in distributions.items()
                }
                for label, distributions in of_secret.items()
                if (name, label) in protected
            }
            for name, of_secret in self.counted.items()
        }
        return make_groups([sets], self.pairs, self.groups)[1]


@dataclass(eq=False)
class DeferredLoss:
    """The loss over the confidence sets at some scales, computed when it is first asked for."""

    sets: CountedSets
    problem: Problem
    factor: float
    grids: FloatArray
    share: float
    loud: bool
    known: SetLoss | None = None

    def value(self) -> SetLoss:
        """Return the loss, and remember it; two threads at once compute the same."""
        if self.known is None:
            with (
                listening(self.loud, "loss over the set of priors"),
                task("loss over the set of priors", heads=True),
            ):
                self.known = self.computed()
        return self.known

    def computed(self) -> SetLoss:
        """Return the loss, sampler included; the sets are made here, and not kept."""
        problem, factor = self.problem, self.factor
        problem = problem if problem.sets else replace(problem, sets=self.sets.parts())
        problem = rounded(problem, self.grids) if factor > 0.0 else problem
        ratio = problem.drawing_loss
        bounds = Bounds(problem, problem.notion.for_distribution(ratio)).over_sets()
        losses = np.sum([bound.losses(factor) for bound in bounds], axis=0)
        if factor > 0.0:
            losses = np.nextafter(problem.notion.of_samples(losses, ratio), np.inf)
        return SetLoss(
            level=self.sets.level,
            loss=float(losses.max()),
            exact=exact_over_sets(problem, bounds),
            estimate=False,
            share=self.share,
        )


def loss_over(
    sets: CountedSets, problem: Problem, calibrated: Calibrated
) -> SetLoss | DeferredLoss:
    """Return the loss over the sets, deferred unless it was asked for or is cheap.

    A deferred loss holds no priors but the counted ones.
    """
    bare = replace(problem, groups=(), secret_pairs=(), strategy=sensitivity, sets=calibrated.sets)
    at = calibrated.factor, calibrated.grids, calibrated.share
    deferred = DeferredLoss(sets, bare, *at, loud=is_listening())  # as this fit is
    n_pairs, numbers = sum(map(len, sets.pairs.values())), 0  # that the losses take, roughly
    for shape, count, noise in _sizes(sets, problem.noise, problem.mixings):
        numbers += work(shape, count, noise, problem.notion)
        numbers += n_pairs * (work(shape, 1, noise, problem.notion) // prod(shape))
    return deferred.computed() if bare.sets or numbers <= CHEAP else deferred


def too_large(sets: CountedSets, settings: Settings, mixings: Mixings) -> str:
    """Return why the loss over the sets is not computable; "" if it is."""
    for shape, count, noise in _sizes(sets, settings.noise, mixings):
        if not computable(shape, count, noise, settings.guarantee.notion):
            size = min(float(prod(shape)), 1e300) if len(shape) < 100 else 1e300
            return f"{size:.3g} cells in {len(shape)} column(s) under this noise and notion"
    return ""


def _sizes(
    sets: CountedSets, noise: Noise, mixings: Mixings
) -> Iterator[tuple[list[int], int, Noise]]:
    """Yield the grid of each combination of columns, how many sets it has, and its noise."""
    ones = np.ones(len(sets.columns))
    for members, count in sets.counts.items():
        yield sets.shape(members), count, noise_of(noise, mixings, members, ones)
