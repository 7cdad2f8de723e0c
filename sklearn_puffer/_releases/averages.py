"""How releases of one column add up along a coupling, move by move (proofs in `spending`)."""

# Rounding. Every loss is rounded up: a pure one by 17 ulp (see `_strategies.plan_bounds`), a Renyi
# one by the `ROUNDING` of `noise`, and sums by an ulp a term and a product.

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base.rounding import ULP
from sklearn_puffer._base.types import FloatArray
from sklearn_puffer._releases.rules import (
    Axis,
    BaseRule,
    Meter,
    Spent,
    check_draws,
    check_spent,
    count_of,
)
from sklearn_puffer._validation import check_choice, plain
from sklearn_puffer.noise import ROUNDING, Cauchy, Gaussian, GeneralizedCauchy, Laplace, Noise
from sklearn_puffer.notions import Notion, Pufferfish, RenyiPufferfish

_PURE_ULPS = 17.0
_LEAST_LOSS = 1e-300
_LEAST_WEIGHT = 2.0**-1022
_MANY_SCALES = 100
_NOISES: dict[str, type[Laplace | Gaussian | Cauchy]] = {
    "laplace": Laplace,
    "gaussian": Gaussian,
    "cauchy": Cauchy,
}


@dataclass(frozen=True, eq=False)
class Averages(BaseRule):
    r"""Releases of one column whose losses add up along a coupling, move by move.

    Pure and Renyi loss of k releases at scales s_r, for moves of distance d and mass w:

    .. math:: \max_d \sum_r D_\infty(d; s_r), \qquad
              \frac{1}{\alpha - 1} \log \sum w \, e^{(\alpha - 1) \sum_r D_\alpha(d; s_r)}

    Parameters
    ----------
    noise : Noise
        The family; its own scale is of no account.
    notion : Pufferfish or RenyiPufferfish
        With the budget for all releases together; without delta.
    axis : str or int
        Name of the column.
    plans : sequence of (distances, masses)
        A coupling for every pair of secrets: distances \|x - x'\| in the units of the column, and
        the mass of each, in any unit.
    draws : int, optional
        Largest number of releases, as in `Precisions`.

    Notes
    -----
    *Formal guarantees.* The joint law of all releases of an allowed history loses at most the
    budget, between the two laws of every plan, in both directions; under a Renyi notion if
    ``condition`` is kept. The proof is in the header of `spending`.

    Raises
    ------
    TypeError, ValueError
        If the notion has a delta, the family is unknown, or a plan is not one.

    References
    ----------
    004, Thm 4.5 (q = 1), for the product noise of several releases.

    Examples
    --------
    >>> rule = Averages(Cauchy(), Pufferfish(1.0), "age", [([0.0, 1.0], [3, 1])])
    >>> rule.allows({"age": {4.0: 4}}), rule.allows({"age": {4.0: 5}})
    (True, False)
    """

    noise: Noise
    notion: Notion
    axis: Axis
    plans: Sequence[tuple[Any, Any]]
    draws: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.notion, Pufferfish | RenyiPufferfish) or self.notion.delta > 0.0:
            raise ValueError(
                f"notion must be Pufferfish or RenyiPufferfish without delta, got {self.notion!r}; "
                "use Laplace or Gaussian noise under a delta."
            )
        _family(self.noise)
        plans = tuple(_check_plan(distances, masses) for distances, masses in self.plans)
        if not plans:
            raise ValueError("plans must not be empty; give one for every pair of secrets.")
        object.__setattr__(self, "plans", plans)
        object.__setattr__(self, "axis", plain(self.axis))
        object.__setattr__(self, "draws", check_draws(self.draws))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Averages) and self.to_dict() == other.to_dict()

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The name of the column."""
        return (self.axis,)

    @property
    def condition(self) -> str:
        """Under a Renyi notion, that other scales than the noiser's are fixed beforehand."""
        if self._pure:
            return ""
        return (
            "Renyi losses add up like this where the scales of all releases, in their order, are "
            "fixed before the first one; their number may depend on what was seen."
        )

    def _meter(self, spent: Spent) -> Meter:
        return _AverageMeter(self, spent)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values for JSON; for a pure loss, with the largest move only."""
        plans: list[list[Any]] = [[self.distances.tolist(), [1]]]
        if not self._pure:
            plans = [[distances.tolist(), masses.tolist()] for distances, masses in self.plans]
        return {
            "rule": "averages",
            "noise": _family(self.noise),
            "epsilon": self.notion.epsilon,
            "alpha": getattr(self.notion, "alpha", None),
            "axis": self.axis,
            "plans": plans,
            "draws": self.draws,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Averages:
        """Return the rule that ``to_dict`` wrote."""
        epsilon, alpha = record["epsilon"], record["alpha"]
        notion = Pufferfish(epsilon) if alpha is None else RenyiPufferfish(epsilon, alpha)
        plans = [(distances, masses) for distances, masses in record["plans"]]
        return cls(_noise(record["noise"]), notion, record["axis"], plans, record["draws"])

    def is_free(self, axis: Axis) -> bool:
        """Return whether nothing moves."""
        return not self.distances[-1] > 0.0

    @property
    def _pure(self) -> bool:
        return isinstance(self.notion, Pufferfish)

    @cached_property
    def distances(self) -> FloatArray:
        """The distances whose losses count: all that occur, or the largest for a pure loss."""
        every = np.unique(np.concatenate([distances for distances, _ in self.plans]))
        return every[-1:] if self._pure else every

    @cached_property
    def _moves(self) -> tuple[NDArray[Any], FloatArray, NDArray[Any]]:
        """Where each move is in ``distances``, its weight, and where each plan starts."""
        places = np.searchsorted(self.distances, np.concatenate([d for d, _ in self.plans]))
        weights = np.concatenate([_weights(masses) for _, masses in self.plans])
        return places, weights, np.cumsum([0, *(len(d) for d, _ in self.plans[:-1])])

    def losses(self, scales: Mapping[float, int]) -> FloatArray:
        """Return upper bounds of what each distance loses in these releases, in nats."""
        total = np.zeros(len(self.distances))
        with np.errstate(over="ignore", under="ignore"):
            for scale, count in scales.items():
                total += float(count) * self._single(scale) * (1.0 + 2.0 * ULP)
        bounds: FloatArray = total * (1.0 + (len(scales) + 1.0) * ULP)
        return bounds

    def amount(self, losses: FloatArray) -> float:
        """Return what the losses of the distances amount to, for the worst plan, in nats."""
        if self._pure:
            return float(losses[-1])
        places, weights, starts = self._moves
        return float(self.notion.average(losses[places], weights, starts).max())

    def _single(self, scale: float) -> FloatArray:
        known = self._known.get(scale)
        if known is None:
            if len(self._known) >= _MANY_SCALES:
                self._known.clear()
            known = self._known[scale] = self._bound(scale)
        return known

    @cached_property
    def _known(self) -> dict[float, FloatArray]:
        return {}

    def _bound(self, scale: float) -> FloatArray:
        moved = self.distances > 0.0
        if scale == 0.0:  # only where nothing moves
            return np.zeros(len(moved))
        noise = self.noise.with_scale(scale)
        rows = self.distances[:, None]
        if self._pure:
            pure: FloatArray = noise.max_divergence(rows) * (1.0 + _PURE_ULPS * ULP)
            return np.where(moved, pure, 0.0)
        renyi = self.notion.shift_loss(noise, rows * (1.0 + ROUNDING)) * (1.0 + ROUNDING)
        return np.where(moved, renyi + _LEAST_LOSS, 0.0)


class _AverageMeter:
    """What each distance has lost in a history."""

    def __init__(self, rule: Averages, spent: Spent) -> None:
        check_spent(rule, spent)
        self.rule = rule
        scales = spent.get(rule.axis, {})
        self.losses, self.count = rule.losses(scales), count_of(scales)

    def allows(self, extra: Spent) -> bool:
        check_spent(self.rule, extra)
        scales = extra.get(self.rule.axis, {})
        if not scales:
            return True
        draws = self.rule.draws
        if draws is not None and self.count + count_of(scales) > draws:
            return False
        losses = (self.losses + self.rule.losses(scales)) * (1.0 + ULP)
        return self.rule.amount(losses) <= self.rule.notion.epsilon

    def left(self) -> dict[Axis, float]:
        left = self.rule.notion.epsilon - self.rule.amount(self.losses)
        return {self.rule.axis: max(math.nextafter(left, -math.inf), 0.0)}


def _weights(masses: NDArray[Any]) -> FloatArray:
    """Return the probability of each move, within 2 ulp, and never rounded to nothing."""
    if masses.dtype == float:
        return np.maximum(masses / math.fsum(masses), _LEAST_WEIGHT)
    whole = sum(masses.tolist())
    return np.maximum([mass / whole for mass in masses.tolist()], _LEAST_WEIGHT)


def _check_plan(distances: Any, masses: Any) -> tuple[FloatArray, NDArray[Any]]:
    far = np.asarray(distances, dtype=float)
    mass = np.array([plain(each) for each in masses], dtype=object)
    if not all(isinstance(each, int) for each in mass):
        mass = mass.astype(float)
    if far.ndim != 1 or far.shape != mass.shape or not far.size:
        raise ValueError(
            f"plans must hold distances and masses of one length, got shapes {far.shape} and "
            f"{mass.shape}."
        )
    if not (np.isfinite(far).all() and (far >= 0.0).all()):
        raise ValueError("plans must hold finite distances that are not negative.")
    moved = mass > 0
    if not (all(map(math.isfinite, mass)) and (mass >= 0).all() and moved.any()):
        raise ValueError("plans must hold finite masses, not negative and not all zero.")
    return far[moved], mass[moved]


def _family(noise: Any) -> dict[str, Any]:
    """Return a noise family as plain values, without its scale."""
    if type(noise) is GeneralizedCauchy:
        return {"name": "generalized_cauchy", "k": noise.k}
    for name, family in _NOISES.items():
        if type(noise) is family:
            return {"name": name}
    raise TypeError(f"noise must be one of the noise families of this package, got {noise!r}.")


def _noise(record: Mapping[str, Any]) -> Noise:
    if record["name"] == "generalized_cauchy":
        return GeneralizedCauchy(1.0, record["k"])
    return _NOISES[check_choice(record["name"], "noise", _NOISES)]()
