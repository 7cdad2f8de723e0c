r"""How releases of the same data add up: what all of them together may reveal.

Let X be fixed data, and Y_r = X + N_r releases of it with independent noise on each axis. Given
outputs y, what they say about X is the weight w(x) = prod_r K_r(y_r - x). All the rules below bound
the loss of the joint law of (Y_1, ..., Y_k), also where k or the scales are chosen on the way from
earlier outputs, unless a rule's `condition` says otherwise.

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

Couplings (`Averages`). Let pi be a coupling of p = P(X | s_i) and q = P(X | s_j), with masses w of
moves from x to x' at a distance d. The joint densities of the outputs are the sums over the moves
of w prod K_r(y_r - x) and of w prod K_r(y_r - x'). A ratio of sums is at most the largest ratio,
and each factor's ratio is at most e^D_inf(d; s_r): for every y, so for scales chosen from y too,

.. math:: D_\infty \le \max_{d : w > 0} \sum_r D_\infty(d; s_r).

e^((alpha - 1) D_alpha) is jointly convex, and D_alpha adds up over independent noise:

.. math:: D_\alpha \le \frac{1}{\alpha - 1} \log \sum w \, e^{(\alpha - 1) \sum_r D_\alpha(d; s_r)}

for scales that are fixed beforehand (stopping early is a post-processing of not stopping). Where
scales follow from outputs, each move is averaged over histories of its own, and the bound does not
hold: answers that tell small moves from large ones can give each the scales that are worst for it.
Noise is even, so a plan serves both directions.
"""

# Rounding. Precisions are compared exactly: a sum in steps of 2^-128 of the budget, every term
# rounded up, decides all but ties, and fractions decide those.

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from sklearn_puffer._base.rounding import rounded_down
from sklearn_puffer._releases.averages import Averages
from sklearn_puffer._releases.rules import (
    Axis,
    BaseRule,
    Meter,
    Spent,
    check_draws,
    check_scale,
    check_spent,
    count_of,
    times_left,
)
from sklearn_puffer._validation import check_choice, check_count, check_positive, plain, quoted

__all__ = [
    "Averages",
    "Axis",
    "Meter",
    "Precisions",
    "Refused",
    "Rule",
    "Spent",
    "rule_from_dict",
    "scale_for_releases",
    "times_left",
]

_BITS = 128
_WHOLE = 1 << _BITS
_FRACTION = re.compile("[0-9]{1,4000}(/[1-9][0-9]{0,3999})?")


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


@dataclass(frozen=True)
class Precisions(BaseRule):
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

    References
    ----------
    004, section 5, knows no such rule; "epsilon / k each" is not one (two releases of which each
    loses 0.5 can lose 1.07).

    Examples
    --------
    >>> rule = Precisions.of_scales(1, {"age": 2.0})
    >>> rule.allows({"age": {4.0: 2}}), rule.allows({"age": {4.0: 2, 1e9: 1}})
    (True, False)
    >>> rule.left({"age": {4.0: 1}})
    {'age': 0.25}
    """

    power: int
    budgets: Mapping[Axis, float | Fraction]
    draws: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "power", _check_power(self.power))
        object.__setattr__(self, "draws", check_draws(self.draws))
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

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Names of the axes, in order."""
        return tuple(self.budgets)

    def is_free(self, axis: Axis) -> bool:
        """Return whether an axis needs no noise."""
        return self.budgets[axis] == math.inf

    def _meter(self, spent: Spent) -> Meter:
        return _PrecisionMeter(self, spent)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values for JSON; an infinite budget is "infinity"."""
        budgets = [[axis, _written(budget)] for axis, budget in self.budgets.items()]
        return {"rule": "precisions", "power": self.power, "budgets": budgets, "draws": self.draws}

    @cached_property
    def _ratios(self) -> dict[Axis, tuple[int, int]]:
        """Numerator and denominator of 2^128 / budget; 0 where the budget is infinite."""
        whole = {a: Fraction(b) for a, b in self.budgets.items() if b != math.inf}
        ratios = {a: (b.denominator << _BITS, b.numerator) for a, b in whole.items()}
        return dict.fromkeys(self.budgets, (0, 1)) | ratios

    def steps(self, axis: Axis, scales: Mapping[float, int]) -> int:
        """Return the share of the budget of an axis, in steps of 2^-128, each term rounded up."""
        top, bottom = self._ratios[axis]
        if top == 0:
            return 0
        total = 0
        for scale, count in scales.items():
            number = scale if scale.__class__ is float else plain(scale)
            size, unit = number.as_integer_ratio()
            if self.power == 2:
                size, unit = size * size, unit * unit
            total -= -int(count) * unit * top // (size * bottom)
        return total

    def exceeded(self, axis: Axis, parts: Sequence[Mapping[float, int]]) -> bool:
        """Return whether the exact sum over the parts is beyond the budget of an axis."""
        terms = [
            int(count) / Fraction(scale) ** self.power
            for scales in parts
            for scale, count in scales.items()
        ]
        return _total(terms) > self.budgets[axis]


class _PrecisionMeter:
    """The precisions that a history has used of each axis."""

    def __init__(self, rule: Precisions, spent: Spent) -> None:
        check_spent(rule, spent)
        self.rule, self.spent = rule, spent
        self.used = {axis: rule.steps(axis, scales) for axis, scales in spent.items()}
        self.counts = {axis: count_of(scales) for axis, scales in spent.items()}

    def allows(self, extra: Spent) -> bool:
        check_spent(self.rule, extra)
        return all(map(self._axis_allows, extra, extra.values()))

    def left(self) -> dict[Axis, float]:
        return {axis: self._axis_left(axis) for axis in self.rule.axes}

    def _axis_allows(self, axis: Axis, scales: Mapping[float, int]) -> bool:
        draws = self.rule.draws
        if draws is not None and self.counts.get(axis, 0) + count_of(scales) > draws:
            return False
        total = self.used.get(axis, 0) + self.rule.steps(axis, scales)
        if total <= _WHOLE:
            return True
        before = self.spent.get(axis, {})
        if total - len(before) - len(scales) >= _WHOLE:  # each term was rounded up by less than 1
            return False
        return not self.rule.exceeded(axis, [before, scales])

    def _axis_left(self, axis: Axis) -> float:
        budget = self.rule.budgets[axis]
        if budget == math.inf:
            return math.inf
        unused = max(_WHOLE - self.used.get(axis, 0), 0)
        return rounded_down(Fraction(budget) * Fraction(unused, _WHOLE))


@dataclass(frozen=True)
class Refused(BaseRule):
    """Releases of which nothing is known together: one release, and no more.

    Parameters
    ----------
    reason : str
        Why they do not add up, as a sentence.
    scales : dict of axis to float, optional
        The certified scales: each axis may be released once at its scale or above, and as often as
        one likes where it needs no noise. Without scales nothing may be released.

    Notes
    -----
    *Formal guarantees.* Columns that are released apart, once each, are one release of the row; no
    loss grows with a scale, for noise of a larger scale is noise of a smaller one plus something
    independent (self-decomposable families).

    Examples
    --------
    >>> rule = Refused("Deltas of Cauchy noise do not add up.", {"age": 2.0})
    >>> rule.allows({"age": {2.0: 1}}), rule.allows({"age": {2.0: 2}})
    (True, False)
    """

    reason: str
    scales: Mapping[Axis, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        scales = {plain(a): check_scale(s, a, free=True) for a, s in self.scales.items()}
        object.__setattr__(self, "scales", scales)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Names of the axes, in order."""
        return tuple(self.scales)

    def is_free(self, axis: Axis) -> bool:
        """Return whether an axis needs no noise."""
        return self.scales[axis] == 0.0

    def _meter(self, spent: Spent) -> Meter:
        return _OnceMeter(self, spent)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values for JSON."""
        scales = [[axis, scale] for axis, scale in self.scales.items()]
        return {"rule": "refused", "reason": self.reason, "scales": scales}


class _OnceMeter:
    """Which axes a history has released."""

    def __init__(self, rule: Refused, spent: Spent) -> None:
        self.rule, self.spent = rule, spent

    def allows(self, extra: Spent) -> bool:
        if self.rule.scales:
            check_spent(self.rule, extra)
        return all(self._axis_allows(axis, scales) for axis, scales in extra.items())

    def left(self) -> dict[Axis, float]:
        free = {axis: scale == 0.0 for axis, scale in self.rule.scales.items()}
        once = {axis: 0.0 if self.spent.get(axis) else 1.0 for axis in free}
        return {axis: math.inf if free[axis] else once[axis] for axis in free}

    def _axis_allows(self, axis: Axis, scales: Mapping[float, int]) -> bool:
        least = self.rule.scales.get(axis, math.inf)
        if least == 0.0 or not scales:
            return True
        once = not self.spent.get(axis) and count_of(scales) == 1
        return once and min(scales) >= least


Rule = Precisions | Averages | Refused


def rule_from_dict(record: Mapping[str, Any]) -> Rule:
    """Return the rule that ``to_dict`` wrote.

    Raises
    ------
    ValueError
        If the record is not that of a rule.

    Examples
    --------
    >>> rule = Precisions(2, {"age": 0.25, "sex": math.inf})
    >>> rule_from_dict(rule.to_dict()) == rule
    True
    """
    kind = record.get("rule") if isinstance(record, Mapping) else None
    read = _READERS[check_choice(kind, "rule", list(_READERS))]
    try:
        return read(record)
    except (LookupError, ArithmeticError, AttributeError, TypeError, ValueError) as fault:
        raise ValueError(
            f"record must be that of a rule as to_dict writes it, and this one is not ({fault}); "
            "put back a whole copy."
        ) from fault


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Rule]] = {
    "precisions": lambda record: Precisions(
        record["power"], {a: _read(budget) for a, budget in record["budgets"]}, record["draws"]
    ),
    "averages": Averages.from_dict,
    "refused": lambda record: Refused(record["reason"], dict(record["scales"])),
}


def _total(terms: Sequence[Fraction]) -> Fraction:
    """Return the sum, halves first: the numbers stay as short as they can."""
    if len(terms) < 2:
        return sum(terms, Fraction(0))
    half = len(terms) // 2
    return _total(terms[:half]) + _total(terms[half:])


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


def _written(budget: float | Fraction) -> str:
    return "infinity" if budget == math.inf else str(Fraction(budget))


def _read(budget: Any) -> float | Fraction:
    """Return a budget as it was written: with an exponent it might have a billion digits."""
    if isinstance(budget, str) and budget != "infinity" and not _FRACTION.fullmatch(budget):
        raise ValueError(f"a budget is no fraction: {budget[:20]!r}")
    return math.inf if budget == "infinity" else Fraction(budget)
