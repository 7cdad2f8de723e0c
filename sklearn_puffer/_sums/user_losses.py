r"""The pairs of secrets of users who report to a sum, the scales they need, and what they lose.

A whole class, n users who leave or change together, is a chain of n single changes, in each of
which the rest of the class is among the other users. So with w(theta) the loss of one of its users
in the worst case over all others,

.. math:: \text{loss of the class} \le n \, w(\theta),

and far to either side the loss tends to n times the difference of log E[e^(x/theta)], or of
log E[e^(-x/theta)], of the two laws of one user. Where the reports of a class have one sign, or its
pairs are values, the two are equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sklearn_puffer._base import BoolArray, FloatArray, IntArray, as_array, check_pairs, floats
from sklearn_puffer._sums.limits import least_loss
from sklearn_puffer._sums.losses import FEW, MAX_STEPS, SumLosses, reach_of
from sklearn_puffer._sums.published_conditions import conditions
from sklearn_puffer._sums.reports import Reporters, in_steps, is_all, is_always_there
from sklearn_puffer._sums.sum_scales import sum_scale, worst_case_scale
from sklearn_puffer._sums.users import User, UserPair, step_of, user_pairs
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, Prior

#: The names of the published conditions; not every one applies to every set of secrets.
CONDITIONS = (
    "theorem_1",
    "theorem_2",
    "theorem_3_eq14",
    "theorem_3_eq13",
    "theorem_4",
    "lemma_1",
    "lemma_2",
    "lemma_2_both_ends",
    "relaxed",
    "corollary_1a",
    "corollary_1b",
    "equation_11",
)
_CLOSED, _CLOSED_CLASS = 1e-9, 1e-6  # relative width of an interval that stands for one number
_QUICK = 2**17  # pairs times steps of the sum up to which every loss is computed
_NOBODY = User(Discrete.from_counts([0.0], [1]))


@dataclass(frozen=True)
class Asked:
    """Two secrets of one user, in words, and the laws of the user's report in whole steps."""

    pair: UserPair
    secret: str
    against: str


@dataclass(frozen=True, eq=False)
class Losses:
    """Losses at a scale, for each pair in both directions, shape (n_pairs, 2): nats, or deltas.

    ``lower`` and ``upper`` hold the loss for the given users, the largest over who of the others is
    present, and ``worst`` is a bound over all other users. ``recomputed`` says of each pair whether
    that interval is the loss itself, and not only a bound on it.
    """

    lower: FloatArray
    upper: FloatArray
    worst: FloatArray
    recomputed: BoolArray


@dataclass(frozen=True, eq=False)
class System:
    """All users, in whole steps, and the pairs of secrets that are asked for.

    Attributes
    ----------
    users : list of User
    asked : list of Asked
    secrets : str
    together : bool
        Whether the users of a class leave or change together.
    """

    users: list[User]
    asked: list[Asked]
    secrets: str
    together: bool

    whole = True  # sums are whole numbers of steps

    @property
    def bounded(self) -> bool:
        """Whether the losses of classes may be bounds only."""
        return self.together

    @property
    def pairs(self) -> list[UserPair]:
        """The laws of each pair."""
        return [each.pair for each in self.asked]

    @cached_property
    def counted_on(self) -> list[User]:
        """The users as the others of a pair: whoever may be absent adds nothing.

        Other users never increase a loss, so the largest over all patterns of presence is the loss
        with those others only who are always there.
        """
        return [user if is_always_there(user) else _NOBODY for user in self.users]

    def scales(self, notion: Pufferfish, *, exact: bool) -> dict[str, float]:
        """Return the smallest scale, in steps, of every condition that applies.

        "exact" is for the given users, whoever of them is present, "worst_case" over all others;
        of a class that leaves together both are those of the bound. Where ``exact`` is False,
        "exact" may be missing: values that lie too many steps apart are not computed with.
        """
        epsilon = notion.epsilon
        if not self.together:
            scales = _sufficient(self.users, self.pairs, self.secrets, epsilon)
            if exact or self._is_computable:
                scales = {"exact": sum_scale(self.counted_on, self.pairs, epsilon).scale} | scales
            return scales
        found: dict[str, list[float]] = {}
        for k, pairs in self._by_class().items():
            share = epsilon / self.users[k].count
            for name, scale in _sufficient(self.users, pairs, self.secrets, share).items():
                found.setdefault(name, []).append(scale)
        everywhere = len(self._by_class())
        scales = {name: max(of) for name, of in found.items() if len(of) == everywhere}
        return {"exact": scales["worst_case"]} | scales

    def losses(self, theta: float, notion: Pufferfish) -> Losses:
        """Return what is lost with noise of a scale in steps.

        A pair that is within the budget in the worst case, or with a few of the other users, is not
        looked at more closely where that takes long, but for the largest of them.
        """
        worst = self._worst(theta)
        counts = np.ones((len(self.pairs), 1))
        if self.together:
            counts[:, 0] = [self.users[pair.user].count for pair in self.pairs]
            worst = np.nextafter(counts * worst, np.inf)
        lower = np.clip(counts * self._least(theta), 0.0, worst)
        upper = worst.copy()
        # of a class, an interval is as many times as wide as it has users
        known = _closed(lower, upper, _CLOSED_CLASS if self.together else _CLOSED)
        chosen = self._looked_at(np.flatnonzero(~known), worst.max(axis=1), notion.epsilon)
        if len(chosen) * self._work > _QUICK:
            few = self._with_few(chosen, theta)
            upper[chosen] = np.minimum(upper[chosen], few[:, None])
            chosen = chosen[(few > notion.epsilon) | (few == few.max(initial=0.0))]
        if len(chosen):
            least, ends, known[chosen] = self._given(chosen, theta)
            lower[chosen] = np.maximum(lower[chosen], least)
            upper[chosen] = np.minimum(upper[chosen], ends)
        return Losses(lower, upper, worst, known)

    def _looked_at(self, unknown: IntArray, worst: FloatArray, budget: float) -> IntArray:
        """Return the pairs whose loss is computed for the given users, and not bounded only."""
        if self.together or not self._is_computable:
            return unknown[:0]
        if len(unknown) * self._work <= _QUICK:
            return unknown
        return unknown[worst[unknown] > budget]

    def _with_few(self, chosen: IntArray, theta: float) -> FloatArray:
        """Return upper ends that count on some of the other users only."""
        losses = SumLosses(self.counted_on, [self.pairs[k] for k in chosen.tolist()])
        return np.array([losses.upper(k, theta, FEW) for k in range(len(chosen))])

    def _given(self, chosen: IntArray, theta: float) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return both ends of the losses of some pairs, and whether all users are counted on."""
        losses = SumLosses(self.counted_on, [self.pairs[k] for k in chosen.tolist()])
        if theta > 0.0:
            all_count = np.array([losses.counts_all(k) for k in range(len(chosen))])
            return *losses.intervals(theta), all_count
        upper = np.array([[losses.upper(k, 0.0)] * 2 for k in range(len(chosen))])
        return np.zeros_like(upper), upper, np.ones(len(chosen), dtype=bool)

    def _worst(self, theta: float) -> FloatArray:
        """Return a bound on the losses of single users over all other users."""
        losses = SumLosses(self.users, self.pairs)
        if theta > 0.0:
            return losses.worst_case(theta)[1]
        return np.stack([losses.worst_of(k, 0.0) for k in range(len(self.pairs))])

    def _least(self, theta: float) -> FloatArray:
        """Return lower ends of the losses of single users, whatever the other users report."""
        if theta == 0.0:
            return np.zeros((len(self.pairs), 2))
        return np.stack([least_loss(pair, theta) for pair in self.pairs])

    @cached_property
    def _lengths(self) -> tuple[int, int]:
        """Return how many steps apart one user's values lie, and the ends of the sum of all."""
        free = [pair for pair in self.pairs if pair.shift is None]
        laws = [_with_mass(user.law) for user in self.counted_on]
        further = [_with_mass(law) for pair in free for law in (pair.p, pair.q)]
        step = step_of(np.concatenate([*laws, *further]))
        sums = [user.count * np.ptp(x) for user, x in zip(self.counted_on, laws, strict=True)]
        return int(max(map(reach_of, free), default=0.0) / step), int(sum(sums) / step)

    @property
    def _work(self) -> int:
        """Steps that are looked at for one pair."""
        return sum(self._lengths)

    @property
    def _is_computable(self) -> bool:
        """Whether the exact loss of every pair is within reach; translations always are."""
        return self._lengths[0] <= MAX_STEPS

    def _by_class(self) -> dict[int, list[UserPair]]:
        found: dict[int, list[UserPair]] = {}
        for pair in self.pairs:
            found.setdefault(pair.user, []).append(pair)
        return found


def _closed(lower: FloatArray, upper: FloatArray, width: float) -> BoolArray:
    """Return which intervals stand for one number, in both directions."""
    closed: BoolArray = np.all(upper * (1.0 - width) <= lower, axis=1)
    return closed


def _sufficient(
    users: Sequence[User], pairs: Sequence[UserPair], secrets: str, epsilon: float
) -> dict[str, float]:
    """Return the worst case over other users and the published scales, for single users."""
    found = {"worst_case": worst_case_scale(users, pairs, epsilon).scale}
    return found | {each.name: each.scale for each in conditions(pairs, secrets, epsilon)}


def _with_mass(law: Prior) -> FloatArray:
    assert isinstance(law, Discrete)
    atoms: FloatArray = law.atoms[law.counts > 0]
    return atoms


# --------------------------------------------------------------------------------------- the pairs


def system_of(
    reporters: Reporters, secrets: str, together: bool, alternatives: Any, values: Any
) -> System:
    """Return the users in whole steps, with the pairs of secrets to protect.

    Parameters
    ----------
    reporters : Reporters
    secrets : {"value", "value-absence", "distribution-absence", "distribution"}
    together : bool
    alternatives : "all" or other
        Whether every class is an alternative of every other; otherwise the users have theirs.
    values : list of pairs, or None
        Values to protect against each other; None for the farthest two of each user.

    Raises
    ------
    TypeError, ValueError
        If there is nothing to protect, an argument does not go with the secrets, or a value is
        not in the alphabet.
    """
    _check_fitting(secrets, together, alternatives, values)
    if secrets == "distribution" and alternatives is None and reporters.source is not None:
        raise ValueError(
            "secrets='distribution' of a table needs alternatives=: a mapping {class: class or "
            'prior object}, or "all" for every pair of classes.'
        )
    users = reporters.in_steps()
    if values is not None:
        pairs = _declared_pairs(reporters, users, values)
    elif secrets == "distribution" and is_all(alternatives):
        pairs = _crossed_pairs(reporters, users)
    elif secrets == "distribution":
        told = [k for k, user in enumerate(users) if user.alternative is not None] or [0]
        found = user_pairs([users[k] for k in told], secrets)
        pairs = [replace(pair, user=told[pair.user]) for pair in found]
    else:
        pairs = user_pairs(users, secrets, farthest_only=True)
    asked = [asked_of(reporters, pair, secrets, together) for pair in pairs]
    return System(users, asked, secrets, together)


def _check_fitting(secrets: str, together: bool, alternatives: Any, values: Any) -> None:
    """Refuse arguments that say nothing about the secrets."""
    if alternatives is not None and secrets != "distribution":
        raise ValueError(
            f"alternatives={alternatives!r} goes with secrets='distribution', and secrets is "
            f"{secrets!r}; leave one of them out."
        )
    if values is not None and (secrets != "value" or together):
        raise ValueError(
            f"values={values!r} goes with secrets='value' and unit='row', and secrets is "
            f"{secrets!r}; leave values out."
        )


def _declared_pairs(reporters: Reporters, users: Sequence[User], values: Any) -> list[UserPair]:
    """Return the pairs of values, for every class that may report both."""
    pairs = []
    for first, second in _checked_values(values):
        steps = in_steps([first, second], reporters.step, "values").astype(float)
        if steps[0] == steps[1]:
            raise ValueError(
                f"values holds ({first!r}, {second!r}), which is one value in steps of "
                f"{reporters.step!r}; drop that pair, or pass a finer step=."
            )
        found = [k for k, user in enumerate(users) if np.isin(steps, user.protected).all()]
        if not found:
            raise ValueError(
                f"values holds ({first!r}, {second!r}), and no user has both in the alphabet; "
                "name values that are reported."
            )
        laws = [Discrete.from_counts([step], [1]) for step in steps.tolist()]
        pairs += [UserPair(k, repr(first), repr(second), *laws) for k in found]
    return pairs


def _checked_values(values: Any) -> list[tuple[float, float]]:
    array = as_array(values, "values")
    pairs: FloatArray = floats(array.ravel(), "values").reshape(array.shape)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
        raise ValueError(f"values must be a list of pairs of numbers, got {values!r}.")
    return [(first, second) for first, second in pairs.tolist()]


def _crossed_pairs(reporters: Reporters, users: Sequence[User]) -> list[UserPair]:
    """Return every class against every other: a user of the one who follows the law of the other.

    Both orders count: the other users are those left when a user of the first class is taken out.
    """
    if len(users) < 2:
        raise ValueError("alternatives='all' needs two classes at least; name columns in by=.")
    labels = reporters.labels
    check_pairs(
        len(users) * (len(users) - 1),
        f"alternatives='all' and {len(users):,} classes",
        "name fewer columns in by=, or map each class to its alternative",
    )
    return [
        UserPair(i, str(labels[i]), str(labels[j]), users[i].law, users[j].law)
        for i, j in itertools.permutations(range(len(users)), 2)
    ]


def asked_of(reporters: Reporters, pair: UserPair, secrets: str, together: bool) -> Asked:
    """Return the secrets of a pair in words."""
    name = reporters.named(pair.user, together)
    if secrets.startswith("value"):
        first, second = (_only_atom(law) * reporters.step for law in (pair.p, pair.q))
        against = f"reports {second:g}" if secrets == "value" else "is absent"
        return Asked(pair, f"{name} reports {first:g}", f"{name} {against}")
    if secrets == "distribution-absence":
        return Asked(pair, f"{name} is present", f"{name} is absent")
    other = "its alternative" if pair.against == "alternative" else f"the law of {pair.against}"
    return Asked(pair, f"{name} follows its law", f"{name} follows {other}")


def _only_atom(law: Prior) -> float:
    return float(_with_mass(law)[0])
