r"""Composition: what several releases of the same data may reveal together.

Let X be fixed data, and Y_r = X + N_r releases of it with independent noise on each axis. Given
outputs y, what they say about X is the weight w(x) = prod_r K_r(y_r - x). The rules below bound the
loss of the joint distribution of (Y_1, ..., Y_k), also where k or the scales are chosen on the way
from earlier outputs.

Laplace noise (`Precisions`, power 1). On one axis let sum 1/theta_r <= 1/s, where theta_r may
depend on y_1, ..., y_(r-1). With h = (log w)', \|h\| <= 1/s, and h falls by 2/theta_r at y_r, so

.. math:: w - s^2 w'' = w (1 - s^2 h^2) + 2 s^2 w \sum_r \delta_{y_r} / \theta_r \ge 0

is a measure m_y, and w(x) = int L_s(z - x) m_y(dz) for the Laplace density L_s, the Green's
function of 1 - s^2 d^2/dx^2. Integrated over y both sides are 1 for every x, so int m_y(dz) dy is
the one measure whose convolution with L_s is 1: Lebesgue's. So m_y(dz) dy is a kernel from z to y:
the releases are a post-processing of the single release Z = X + s L. On several axes w, L_s and m_y
are products, and the same holds, whichever columns were released together or apart.

Gaussian noise (power 2). w is c exp(-(x - m)^2 / (2 t^2)) with 1/t^2 = sum 1/sigma_r^2 <= 1/s^2,
which is a mixture of N(x; z, s^2) over z ~ N(m, t^2 - s^2): the same argument.

So where scales s are certified, for whatever prior, strategy and notion, a history with
sum 1/theta_r^power <= 1/s^power on every axis loses no more than the certificate says.

Rows that change are other data: x_1, x_2, ... with Y_r = x_r + N_r. Given the changes x_r - x_1,
Y_r less its change is a release of x_1, so the rules for noise hold for the distribution of secret
and x_1 given the changes, which is the certified one where the changes tell neither. They hold
under no weaker one: of two rows that are independent given the secret, 0 or 1 with chances 3/4 and
1/4 or the other way round, little noise at any scale tells log 3 each, and log 9 together.

Of other noise nothing like it is known (`Refused`): every column may be released once. Cauchy
precisions do not add up: two releases at twice the scale lose 4 asinh(d / (4 s)) over a move of d,
which is more than the 2 asinh(d / (2 s)) of one.

Releases of rows with unordered columns: precisions of numbers, kappa of the others.

Let L(x) = prod_r K_r(x, y_r) be the likelihood of releases of one unordered axis, with kernels
K_rho = (1 - rho) I + rho 1 q' (`_noise.mixing`). Solving L(x) = sum_z t_z K_rho(x, z) gives
(1 - rho) t_x = L(x) - rho sum_z q_z L(z), so the t are not negative if and only if

.. math:: \min_x L(x) \ge \rho \sum_z q_z L(z).

For two kernels, with u = (1 - rho) / rho for each, that is u >= u_1 + u_2 where y_1 and y_2 differ
and there is a third value, and 1 + u / q_y >= (1 + u_1 / q_y) (1 + u_2 / q_y) where both are y. The
latter at the smallest share implies all: so it is enough that kappa = log(1 + u / min q) adds up.
Products with further kernels are positive combinations of such products, whatever the earlier
outputs they were chosen by, so sum_r kappa_r <= kappa is enough for any history. As above, t is a
kernel from z to y: summed over y both sides are 1 for every x, and K_rho is invertible. On several
axes likelihoods and t are products with those of numbers.

*Planned releases.* So k releases at k s, or at sqrt(k) s, lose at most what one release at s does,
and that one is calibrated and certified. Values are rounded to the grid of the noise that is drawn,
once, and each release is drawn on that grid: a rounding of the continuous releases of the rounded
value.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from operator import add
from types import MappingProxyType
from typing import Any, ClassVar

from sklearn_puffer._base import check_choice, check_count, check_positive
from sklearn_puffer._noise import Mixing, Unchanged, kept_numerator
from sklearn_puffer._words import plain, quoted
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion

Axis = str | int
Amount = int | float | Fraction  # a float only where it is infinite
Spent = Mapping[Axis, Mapping[float, int]]
"""How often each axis was released at each scale."""

_NOTHING: Spent = MappingProxyType({})
_ENDLESS = 1 << 63


def scale_for_releases(theta: float, releases: int, power: int = 1) -> float:
    r"""Return the smallest float at which several releases spend no more than one at ``theta``.

    .. math:: \min \{ s : k / s^p \le 1 / \theta^p \}

    Parameters
    ----------
    theta : float
        Scale of the single release, in the units of the column; 0 stays 0.
    releases : int
        k, at least 1.
    power : {1, 2}
        1 for Laplace noise, 2 for Gaussian noise.

    Notes
    -----
    *Formal guarantees.* The inequality holds in exact arithmetic: the scale is k theta, or
    sqrt(k) theta, rounded up, so that `Precisions` allows all k releases at it.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range, or the scale beyond the largest float.

    Examples
    --------
    >>> scale_for_releases(0.5, 3), scale_for_releases(0.5, 4, power=2)
    (1.5, 1.0)
    >>> scale_for_releases(0.1, 3) == 3 * 0.1
    True
    >>> scale_for_releases(0.7, 3) > 3 * 0.7  # which rounds down
    True
    """
    power = _check_power(power)
    count = check_count(releases, "releases")
    if theta == 0.0:
        return 0.0
    theta = check_positive(theta, "theta")
    least = count * Fraction(theta) ** power
    scale = check_positive(float(count) ** (1.0 / power) * theta, "releases times theta")
    while Fraction(scale) ** power < least:
        scale = check_positive(math.nextafter(scale, math.inf), "releases times theta")
    while Fraction(below := math.nextafter(scale, 0.0)) ** power >= least:
        scale = below
    return scale


WHOLE: Axis = ""
"""Stands for an axis in histories of releases without axes: of whole rows."""


class Rule(ABC):
    """How releases add up: on every axis each costs something, and there is a budget.

    What is allowed at one scale is allowed at larger ones.
    """

    budgets: Mapping[Axis, Amount]  # infinite where no noise is needed
    draws: int | None
    #: Why releases of a changed row do not compose by the rule, whatever the changes tell; or "".
    refuses_changes: ClassVar[str] = ""

    @abstractmethod
    def cost(self, axis: Axis, scales: Mapping[float, int]) -> Amount:
        """Return the exact cost of releases of an axis that needs noise."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values for JSON; `rule_from_dict` reads it."""

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Names of the axes, in order."""
        return tuple(self.budgets)

    def is_free(self, axis: Axis) -> bool:
        """Return whether an axis needs no noise."""
        return isinstance(self.budgets[axis], float)

    def allows(self, release: Spent, before: Spent = _NOTHING) -> bool:
        """Return whether a release {axis: {scale: count}} is within the budget, after a history.

        Raises
        ------
        TypeError, ValueError
            If an axis is unknown, a scale not a positive finite number (0 is one on an axis that
            needs no noise), or a count not a positive integer.
        """
        return self.times(release, before) >= 1

    def times(self, release: Spent, before: Spent = _NOTHING) -> float:
        """Return how often a release may be made after a history; infinite beyond 2^63 times.

        >>> rule = Precisions.of_scales(1, {"age": 2.0})
        >>> rule.times({"age": {7.0: 1}}, {"age": {8.0: 1}})
        2
        """
        _check_spent(self, before)
        if not self.budgets:  # of whole rows: once in all
            if release.keys() - {WHOLE}:
                return 0
            had = _count_of(before.get(WHOLE, {}))
            return max(1 - had, 0) // _count_of(release[WHOLE]) if release else math.inf
        _check_spent(self, release)
        times = [
            self._axis_times(axis, scales, before.get(axis, {}))
            for axis, scales in release.items()
            if scales
        ]
        return most if (most := min(times, default=math.inf)) < _ENDLESS else math.inf

    def _axis_times(
        self, axis: Axis, release: Mapping[float, int], before: Mapping[float, int]
    ) -> float:
        draws = math.inf
        if self.draws is not None:
            draws = (self.draws - _count_of(before)) // _count_of(release)
        if self.is_free(axis):
            return draws
        cost = self.cost(axis, release)
        if not cost:
            return draws
        room = max(self.budgets[axis] - self.cost(axis, before), 0)
        return min(draws, 0 if isinstance(cost, float) else room // cost)


@dataclass(frozen=True)
class Precisions(Rule):
    r"""Releases whose precisions add up: Laplace and Gaussian noise, any prior, any notion.

    .. math:: \sum_r \theta_{r,a}^{-p} \le b_a \quad \text{on every axis } a

    Parameters
    ----------
    power : {1, 2}
        p: 1 for Laplace noise, 2 for Gaussian noise.
    budgets : dict of axis to Fraction or float
        b, in the units of the axis to the power -p, taken as it stands: 1/theta as a float may lie
        above 1/theta, so that `of_scales` is the safe way. Infinite where no noise is needed.
    draws : int, optional
        Largest number of releases of any axis, however large their scales: as many as the budgets
        have left room for, as each draw of noise is off by the relative error of the sampler.

    Notes
    -----
    *Formal guarantees.* If the release at scales theta is certified, whatever the prior, strategy
    and notion, then with ``of_scales(p, theta)`` any history that is allowed loses no more than the
    certificate says; scales may be chosen from earlier outputs. The proof is in this module's
    header. All releases must be of the same representation of the data (atoms, bins, rounding).
    Sums are compared in exact arithmetic.

    Raises
    ------
    TypeError, ValueError
        If ``power`` is not 1 or 2, or a budget not positive.

    Examples
    --------
    >>> rule = Precisions.of_scales(1, {"age": 2.0})
    >>> rule.allows({"age": {4.0: 2}}), rule.allows({"age": {4.0: 2, 1e9: 1}})
    (True, False)
    """

    power: int
    budgets: Mapping[Axis, Amount]
    draws: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "power", _check_power(self.power))
        draws = None if self.draws is None else check_count(self.draws, "draws")
        object.__setattr__(self, "draws", draws)
        budgets = {plain(axis): _check_budget(b, axis) for axis, b in self.budgets.items()}
        object.__setattr__(self, "budgets", budgets)

    @classmethod
    def of_scales(
        cls, power: int, scales: Mapping[Axis, float], draws: int | None = None
    ) -> Precisions:
        """Return the rule whose budget is exactly one release at these certified scales.

        >>> Precisions.of_scales(2, {"age": 3.0, "sex": 0.0}).budgets
        {'age': Fraction(1, 9), 'sex': inf}
        """
        power = _check_power(power)
        thetas = {axis: check_scale(scale, axis, free=True) for axis, scale in scales.items()}
        whole = {a: 1 / Fraction(t) ** power if t > 0.0 else math.inf for a, t in thetas.items()}
        return cls(power, whole, draws)

    def cost(self, axis: Axis, scales: Mapping[float, int]) -> Fraction:
        """Return the sum of the precisions."""
        ratios = [(plain(s).as_integer_ratio(), int(count)) for s, count in scales.items()]
        terms = [Fraction(n * unit**self.power, size**self.power) for (size, unit), n in ratios]
        return reduce(add, terms) if terms else Fraction(0)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values for JSON; an infinite budget is "infinity"."""
        budgets = [
            [axis, "infinity" if budget == math.inf else str(Fraction(budget))]
            for axis, budget in self.budgets.items()
        ]
        return {"rule": "precisions", "power": self.power, "budgets": budgets, "draws": self.draws}


@dataclass(frozen=True)
class Refused(Rule):
    """Releases whose composition is not known: one release, and no more.

    Parameters
    ----------
    reason : str
        Why they do not add up, as a sentence.
    scales : dict of axis to float, optional
        The certified scales: each axis may be released once at its scale or above, and as often as
        one likes where it needs no noise. Without scales no axis may be released, and whole rows
        that have no axes (typical rows, swaps) once.

    Notes
    -----
    *Formal guarantees.* Columns that are released apart, once each, are one release of the row; no
    loss grows with a scale, for noise of a larger scale is noise of a smaller one plus something
    independent (self-decomposable families).

    Examples
    --------
    >>> rule = Refused("Releases of Cauchy noise do not add up.", {"age": 2.0})
    >>> rule.allows({"age": {2.0: 1}}), rule.allows({"age": {2.0: 2}})
    (True, False)
    """

    reason: str
    scales: Mapping[Axis, float] = field(default_factory=dict)
    budgets: Mapping[Axis, Amount] = field(init=False, repr=False, compare=False)
    draws: int | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        scales = {plain(a): check_scale(s, a, free=True) for a, s in self.scales.items()}
        object.__setattr__(self, "scales", scales)
        once = {axis: 1 if scale > 0.0 else math.inf for axis, scale in scales.items()}
        object.__setattr__(self, "budgets", once)

    def cost(self, axis: Axis, scales: Mapping[float, int]) -> Amount:
        """Return the number of releases; infinite where one is below the certified scale."""
        enough = min(scales, default=math.inf) >= self.scales[axis]
        return _count_of(scales) if enough else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values for JSON."""
        scales = [[axis, scale] for axis, scale in self.scales.items()]
        return {"rule": "refused", "reason": self.reason, "scales": scales}


def check_scale(scale: Any, axis: Axis, free: bool) -> float:
    """Return a scale as a positive finite float, or as 0 where no noise is needed."""
    if free and not isinstance(scale, bool) and scale == 0.0:
        return 0.0
    return check_positive(scale, f"the scale of {axis!r}")


def _check_spent(rule: Rule, spent: Spent) -> None:
    """Check the axes, scales and counts of a history."""
    for axis, scales in spent.items():
        if axis == WHOLE and not rule.budgets:
            continue
        if axis not in rule.budgets:
            raise ValueError(f"axis {axis!r} is not one of {list(rule.axes)}; name one of these.")
        for scale, count in scales.items():
            check_scale(scale, axis, free=rule.is_free(axis))
            check_count(count, f"the number of releases of {axis!r}")


def _count_of(scales: Mapping[float, int]) -> int:
    return sum(map(int, scales.values()))


def _check_power(power: Any) -> int:
    if check_count(power, "power") > 2:
        raise ValueError(
            f"power must be 1 for Laplace or 2 for Gaussian noise, got {quoted(power)}."
        )
    return int(power)


def _check_budget(budget: Any, axis: Axis) -> float | Fraction:
    if isinstance(budget, float) and budget == math.inf:
        return math.inf
    if isinstance(budget, Fraction) and budget > 0:  # may be beyond all floats
        return budget
    return Fraction(check_positive(budget, f"the budget of {axis!r}"))


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
    share = kappa(theta, least) / releases * (1.0 - 4.0 * _OFF)
    if not share > 0.0:
        return theta  # nothing is kept
    odds = least * math.expm1(min(share, 700.0))
    scale = math.log1p(1.0 / odds) if odds > 0.0 else math.inf
    scale = min(scale * (1.0 + _OFF), 1e3)
    while kept_numerator(scale) and kappa(scale, least) * (1.0 + _OFF) > share * (1.0 + 2.0 * _OFF):
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
        short = 1 - Fraction(_OFF)  # rounded down
        mixing: dict[Axis, Amount] = {
            axis: Fraction(kappa(scale, least[axis])) * short if scale > 0.0 else math.inf
            for axis, scale in scales.items()
        }
        object.__setattr__(self, "budgets", {**self.numbers.budgets, **mixing})
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


def factor_below(noise: Noise, notion: Notion, releases: int) -> float:
    """Return a factor on the noise of one release at which it tells no more than all of them.

    All Gaussian releases tell as much as their mean, and Laplace releases that all fall on one
    point y have the likelihood ratios of one release that falls there: their pure losses are equal,
    but for the rounding of the scales. Otherwise it is one of the releases.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import RenyiPufferfish
    >>> round(factor_below(Laplace(), RenyiPufferfish(1.0, alpha=2.0), releases=3), 9)
    3.0
    """
    if releases == 1:
        return 1.0
    same = noise.is_normal or notion.is_pure
    return (1.0 if same else releases) * (1.0 + 2.0**-50)


def composition_rule(
    noise: Noise,
    scales: Mapping[Axis, float],
    draws: int,
    mixings: Sequence[Mixing | None] = (),
) -> Rule:
    """Return how releases of the same rows add up, where a guarantee holds.

    Parameters
    ----------
    noise : Noise
        The family, of each release.
    scales : dict of axis to float
        Scale of each column at which all releases together are as one; 0 where a column is released
        unchanged.
    draws : int
        Number of releases, at larger scales, whose sampler's error the budget has room for.
    mixings : sequence of Mixing or None, optional
        One a column where some are unordered; their scales are -log(1 - rho).

    Notes
    -----
    *Formal guarantees.* Any history that the rule allows keeps the guarantee; the planned releases
    at the scales they are drawn at are one of them. No column may be released more often than
    ``draws`` times, however large the scales: each release has the error of the sampler once more.

    Examples
    --------
    >>> from sklearn_puffer.noise import Gaussian
    >>> composition_rule(Gaussian(), {"age": 2.0}, draws=9).times({"age": {4.0: 1}})
    4
    """
    if not any(scales.values()):
        return Precisions.of_scales(1, scales)
    if noise.precision_power is not None:
        pairs = zip(scales, mixings or [None] * len(scales), strict=True)
        drawn = [(a, m) for a, m in pairs if m is not None and not isinstance(m, Unchanged)]
        least = {axis: mixing.least for axis, mixing in drawn}
        numbers = {axis: scale for axis, scale in scales.items() if axis not in least}
        precisions = Precisions.of_scales(noise.precision_power, numbers, draws)
        mixed = {axis: scales[axis] for axis in least}
        return MixedPrecisions(precisions, least, mixed) if least else precisions
    return Refused(
        f"How releases of the same rows under {type(noise).__name__} noise add up is not known: "
        "each column may be released once; fit with noise='laplace' for more.",
        scales,
    )


_FRACTION = re.compile("[0-9]{1,4000}(/[1-9][0-9]{0,3999})?")


def rule_from_dict(record: Mapping[str, Any]) -> Rule:
    """Return the rule that ``to_dict`` wrote.

    >>> rule = Precisions(2, {"age": 0.25, "sex": math.inf})
    >>> rule_from_dict(rule.to_dict()) == rule
    True
    """
    kind = record.get("rule") if isinstance(record, Mapping) else None
    check_choice(kind, "rule", ["precisions", "refused", "mixed"])
    try:
        if kind == "refused":
            return Refused(record["reason"], dict(record["scales"]))
        if kind == "mixed":
            numbers = rule_from_dict(record["numbers"])
            if not isinstance(numbers, Precisions):
                raise ValueError("the rule of its numbers is none of precisions")
            least = {axis: share for axis, share, _ in record["mixed"]}
            scales = {axis: scale for axis, _, scale in record["mixed"]}
            return MixedPrecisions(numbers, least, scales)
        budgets = {axis: _read(budget) for axis, budget in record["budgets"]}
        return Precisions(record["power"], budgets, record["draws"])
    except (LookupError, ArithmeticError, AttributeError, TypeError, ValueError) as fault:
        raise ValueError(
            f"record must be that of a rule as to_dict writes it, and this one is not ({fault}); "
            "put back a whole copy."
        ) from fault


def _read(budget: Any) -> float | Fraction:
    """Return a budget as it was written: with an exponent it might have a billion digits."""
    if isinstance(budget, str) and budget != "infinity" and not _FRACTION.fullmatch(budget):
        raise ValueError(f"a budget is no fraction: {budget[:20]!r}")
    return math.inf if budget == "infinity" else Fraction(budget)
