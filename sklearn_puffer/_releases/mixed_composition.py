r"""Releases of rows with unordered columns: precisions of numbers, kappa of the others.

Let L(x) = prod_r K_r(x, y_r) be the likelihood of releases of one unordered axis, with kernels
K_rho = (1 - rho) I + rho 1 q' (`_noise.mixing`). Solving L(x) = sum_z t_z K_rho(x, z) gives
(1 - rho) t_x = L(x) - rho sum_z q_z L(z), so the t are not negative if and only if

.. math:: \min_x L(x) \ge \rho \sum_z q_z L(z).

For two kernels, with u = (1 - rho) / rho for each, that is u >= u_1 + u_2 where y_1 and y_2 differ
and there is a third value, and 1 + u / q_y >= (1 + u_1 / q_y) (1 + u_2 / q_y) where both are y. The
latter at the smallest share implies all: so it is enough that kappa = log(1 + u / min q) adds up.
Products with further kernels are positive combinations of such products, whatever the earlier
outputs they were chosen by, so sum_r kappa_r <= kappa is enough for any history. As in
`_releases.composition`, t is a kernel from z to y: summed over y both sides are 1 for every x, and
K_rho is invertible. On several axes likelihoods and t are products with those of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from sklearn_puffer._noise import kept_numerator
from sklearn_puffer._releases.composition import (
    Amount,
    Axis,
    Precisions,
    Rule,
    check_scale,
)

_OFF = 2.0**-44  # of kappa in floats, with room


def kappa(theta: float, least: float) -> float:
    """Return log(1 + (1 - rho) / (rho min q)) at theta = -log(1 - rho), within `_OFF` of itself."""
    kept = math.exp(-theta)
    return math.log1p(kept / -math.expm1(-theta) / least)


def mixing_scale(least: float, theta: float, releases: int) -> float:
    """Return about the smallest scale at which several releases tell no more than one at theta.

    *Formal guarantees.* k kappa at that scale is at most kappa at theta.

    >>> 1.0 < mixing_scale(0.25, 1.0, 2) < 2.0
    True
    """
    if theta == 0.0:
        return 0.0
    each = kappa(theta, least) / releases * (1.0 - 4.0 * _OFF)
    if not each > 0.0:
        return theta  # nothing is kept
    odds = least * math.expm1(min(each, 700.0))
    scale = math.log1p(1.0 / odds) if odds > 0.0 else math.inf
    scale = min(scale * (1.0 + _OFF), 1e3)
    while kept_numerator(scale) and kappa(scale, least) * (1.0 + _OFF) > each * (1.0 + 2.0 * _OFF):
        scale *= 1.0 + _OFF
    return max(scale, theta)


@dataclass(frozen=True)
class MixedPrecisions(Rule):
    r"""Releases whose precisions add up on axes of numbers, and whose kappas on unordered ones.

    Parameters
    ----------
    numbers : Precisions
        Of the other axes.
    least : dict of axis to float
        The smallest share that an unordered axis is drawn anew from.
    scales : dict of axis to float
        The certified scale -log(1 - rho) of each unordered axis; 0 where it is released unchanged.

    Notes
    -----
    *Formal guarantees.* Any history that is allowed loses no more than the certificate at these
    scales says; scales may be chosen from earlier outputs. The proof is in this module's header.
    """

    numbers: Precisions
    least: Mapping[Axis, float]
    scales: Mapping[Axis, float]
    budgets: Mapping[Axis, Amount] = field(init=False, repr=False, compare=False)
    draws: int | None = field(init=False, repr=False, compare=False, default=None)
    refuses_changes: ClassVar[str] = (
        "columns without an order have no differences that could tell nothing; declare their order "
        "by categories="
    )

    def __post_init__(self) -> None:
        scales = {axis: check_scale(s, axis, free=True) for axis, s in self.scales.items()}
        object.__setattr__(self, "scales", scales)
        least = {axis: check_scale(self.least[axis], axis, free=False) for axis in scales}
        object.__setattr__(self, "least", least)
        own: dict[Axis, Amount] = {
            axis: _down(kappa(scale, least[axis])) if scale > 0.0 else math.inf
            for axis, scale in scales.items()
        }
        object.__setattr__(self, "budgets", {**self.numbers.budgets, **own})
        object.__setattr__(self, "draws", self.numbers.draws)

    def cost(self, axis: Axis, scales: Mapping[float, int]) -> Amount:
        """Return the sum of the precisions, or of the kappas.

        A single release at the certified scale or above costs no more than all.
        """
        if axis not in self.scales:
            return self.numbers.cost(axis, scales)
        least = self.least[axis]
        costs = [
            Fraction(kappa(float(scale), least)) * (1 + Fraction(_OFF)) * int(count)
            for scale, count in scales.items()
            if kept_numerator(float(scale))
        ]
        total = sum(costs, Fraction(0))
        alone = sum(map(int, scales.values())) == 1 and min(scales) >= self.scales[axis]
        whole = self.budgets[axis]
        return min(total, whole) if alone and isinstance(whole, Fraction) else total

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values for JSON."""
        mixed = [[axis, self.least[axis], scale] for axis, scale in self.scales.items()]
        return {"rule": "mixed", "numbers": self.numbers.to_dict(), "mixed": mixed}


def _down(value: float) -> Fraction:
    return Fraction(value) * (1 - Fraction(_OFF))
