"""What shifts of noise reveal: the formulas of each family, of one column and of scale 1.

Every family is symmetric, and its log ratio L(y) = log K(y) / K(y - u) is positive left of u/2 and
odd about it. So the two halves of a Renyi divergence join into one integral without cancellation,

    e^((alpha - 1) D_alpha) - 1 = int_(y < u/2) K (e^((alpha - 1) L) - 1) (1 - e^(-alpha L)) dy,

and a hockey stick is int_(L > epsilon) K (1 - e^(epsilon - L)) dy: integrands that are nowhere
negative, so that small divergences keep their relative accuracy. (Mirror the right half: it is the
left half of K e^(-L) with -L for L. The mass of both distributions is 1, which gives the -1.)

Rounding
--------
``ROUNDING`` = r is the relative error of a family. A divergence of a shift z is returned within
a factor 1 +- r of the exact divergence of a shift within a factor 1 +- r of z, a mass within 1 +- r
of that of a panel whose ends are off by as much; numbers below 1e-300 are only that small. As
divergences grow with the shift, the divergence of z (1 + r) times 1 + r is an upper bound. Two
exceptions, both upwards: a Renyi divergence of a Cauchy kind that is a quadrature comes with
``QUADRATURE_MARGIN`` added (a lower bound takes it off again), and shifts of Cauchy kinds beyond
1e100 scales, or within 1e-100, may count as their max-divergence allows. Log densities and scores
are right to ``LOG_ROUNDING`` times 1 + their size, at an argument a few ulp away.

All this is the rounding of closed forms and of Gauss-Legendre rules on analytic integrands, cut
into panels where these hardly bend. It is measured, not proven: against 50 digits and against rules
of 40 nodes, for shifts of 1e-12 to 1e12 scales, epsilon to 1e3, alpha to 1e5 and k of 1.01 to 1e4
the largest error seen is 1.4e-13 (Gaussian masses of 1e-250: 3e-13).
"""

from __future__ import annotations

from collections.abc import Callable
from math import gamma, inf, log, pi, sqrt

import numpy as np
from scipy.special import betainc, betaincc, erfcx, logsumexp, ndtr

from sklearn_puffer._base import FloatArray

ROUNDING = 1e-12
LOG_ROUNDING = 2.0**-46
QUADRATURE_MARGIN = 1e-11
"""The relative margin on Renyi divergences that are computed by quadrature."""


def _gauss(n: int) -> tuple[FloatArray, FloatArray]:
    """Return the n Gauss-Legendre nodes on [0, 1], symmetric about 1/2, and their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return 0.5 * nodes + 0.5, 0.5 * weights


_NODES, _WEIGHTS = _gauss(16)
_FEW_NODES, _FEW_WEIGHTS = _gauss(8)  # for panels that are narrow against the noise

_NEAREST, _FARTHEST = 1e-100, 1e100  # the shifts whose squares are floats
_LONGEST_SUM = 256
_BLOCK = 2**20  # floats at a time


def norm(u: FloatArray) -> FloatArray:
    """Return the l2 norm of rows without overflow."""
    largest = u.max(axis=-1, keepdims=True)
    unit = np.where((largest > 0.0) & (largest < inf), largest, 1.0)
    norm: FloatArray = unit[..., 0] * np.sqrt(np.square(u / unit).sum(axis=-1))
    return norm


def log1p_square(u: FloatArray) -> FloatArray:
    """Return log(1 + u^2) without overflow."""
    size = np.abs(u)
    inner = np.log1p(np.square(np.minimum(size, 1e100)))
    return np.where(size > 1e100, 2.0 * np.log(np.maximum(size, 1.0)), inner)


def laplace_renyi(u: FloatArray, alpha: float) -> FloatArray:
    c, width = alpha - 1.0, 2.0 * alpha - 1.0
    large = np.maximum(u, 0.5 / alpha)
    far = large + np.log1p(c / width * np.expm1(-width * large)) / c
    # For alpha u <= 1/2 the linear terms cancel: sum the power series from the square on. Its
    # terms alternate below half the first, and the 18th is below 1e-20 of it.
    w = alpha * np.minimum(u, 0.5 / alpha)
    series, power = np.zeros_like(u), w
    for n in range(2, 19):
        power = power * w / n
        series = series + ((c / alpha) ** (n - 1) + (-1.0) ** n) * power
    return np.where(alpha * u < 0.5, np.log1p(c / width * series) / c, far)


def _mills(t: FloatArray) -> FloatArray:
    """Return Phi(-t) over the normal density at t."""
    ratio: FloatArray = sqrt(pi / 2.0) * erfcx(t / sqrt(2.0))
    return ratio


def gaussian_hockey_stick(u: FloatArray, epsilon: FloatArray) -> FloatArray:
    # With x = epsilon/u - u/2, e^epsilon phi(x + u) = phi(x), so delta is Phi(-x) - phi(x) R(x + u)
    # = phi(x) (R(x) - R(x + u)) for Mills' ratio R. R' = t R - 1, integrated for u <= 1.
    z = np.maximum(u, 1e-300)
    x = np.clip(epsilon / z - 0.5 * z, -50.0, 50.0)  # beyond, delta is 1 or 0 to 1e-500
    density = np.exp(-0.5 * np.square(x)) / sqrt(2.0 * pi)
    step, inner = np.minimum(z, 1.0), np.maximum(x, -0.5)
    t = inner[..., None] + step[..., None] * _NODES
    small = density * step * ((1.0 - t * _mills(t)) @ _WEIGHTS)
    right = density * (_mills(inner) - _mills(inner + z))
    left = ndtr(-x) - density * _mills(np.maximum(x + z, 0.0))
    delta = np.where(z <= 1.0, small, np.where(x < 0.0, left, right))
    return np.where((u > 0.0) & (x < 50.0), delta, 0.0)


def gaussian_mass(a: FloatArray, b: FloatArray, width: FloatArray) -> FloatArray:
    # A narrow panel, on which the density falls by e^1.5 at most, is integrated: a difference of
    # distribution functions would cancel there. A wide one loses no more than a digit.
    narrow = width * (1.0 + np.abs(a)) <= 1.0
    start, h = np.where(narrow, a, 0.0), np.where(narrow, width, 0.0)
    t = h[..., None] * _FEW_NODES
    fall = np.exp(-t * (start[..., None] + 0.5 * t)) @ _FEW_WEIGHTS
    aside = h * np.exp(-0.5 * np.square(start)) / sqrt(2.0 * pi) * fall
    wide = np.where(a < 0.0, ndtr(b) - ndtr(a), ndtr(-a) - ndtr(-b))
    return np.where(narrow, aside, wide)


def density_at_zero(k: float) -> float:
    """Return Gamma(k/2) / (sqrt(pi) Gamma((k-1)/2))."""
    x = (k - 1.0) / 2.0
    if x < 150.0:
        return gamma(x + 0.5) / gamma(x) / sqrt(pi)
    # Gamma(x + 1/2) / Gamma(x) = sqrt(x) (1 - 1/(8x) + ...); the next term is below 1e-16.
    series = 1.0
    for power, term in enumerate((-1 / 8, 1 / 128, 5 / 1024, -21 / 32768, -399 / 262144), 1):
        series += term / x**power
    return sqrt(x / pi) * series


def cauchy_mass(a: FloatArray, b: FloatArray, width: FloatArray) -> FloatArray:
    # The angle between (1, a) and (1, b), with both coordinates over max(1, b) against overflow.
    far = np.maximum(1.0, b)
    angle = np.arctan2(width / far, 1.0 / far + a * (b / far))
    return np.where(np.isfinite(b), angle, np.arctan2(1.0, a)) / pi


def student_mass(a: FloatArray, b: FloatArray, width: FloatArray, k: float) -> FloatArray:
    # Narrow: the density's singularities, at +-i, are 5 half-widths off and it falls by e at most.
    # Wide: tails that differ by a share of at least (k - 1)/4 or so.
    shape, (a, b, width) = np.shape(a), (np.ravel(ends) for ends in (a, b, width))
    narrow = (width * (k + 2.0) <= np.hypot(1.0, a)) & np.isfinite(width)
    across, aside = ~narrow & (a < 0.0), ~narrow & (a >= 0.0)
    mass = np.empty(a.shape)
    t = a[narrow, None] + width[narrow, None] * _FEW_NODES
    densities = density_at_zero(k) * np.exp(-0.5 * k * log1p_square(t))
    mass[narrow] = width[narrow] * (densities @ _FEW_WEIGHTS)
    mass[across] = _student_core(-a[across], k) + _student_core(b[across], k)
    mass[aside] = _student_tail(a[aside], k) - _student_tail(b[aside], k)
    return mass.reshape(shape)


def _student_core(u: FloatArray, k: float) -> FloatArray:
    """Return P(0 < N < u) for u >= 0."""
    inner = np.minimum(u, 1.0)
    near = 0.5 * betainc(0.5, 0.5 * (k - 1.0), np.square(inner / np.hypot(1.0, inner)))
    return np.where(u < 1.0, near, 0.5 - _student_tail(u, k))


def _student_tail(u: FloatArray, k: float) -> FloatArray:
    """Return P(N > u) for u >= 0, from whichever of 1/(1 + u^2) and its complement is small."""
    inner = np.clip(u, 0.0, 1.0)
    near = betaincc(0.5, 0.5 * (k - 1.0), np.square(inner / np.hypot(1.0, inner)))
    far = betainc(0.5 * (k - 1.0), 0.5, np.square(1.0 / np.hypot(1.0, u)))
    return 0.5 * np.where(u < 1.0, near, far)


def cauchy_renyi(u: FloatArray, k: float, alpha: float) -> FloatArray:
    distinct, back = np.unique(u, return_inverse=True)
    top = k * np.arcsinh(0.5 * distinct)
    inner = np.clip(distinct, _NEAREST, _FARTHEST)
    terms = 0.5 * k * (alpha - 1.0)
    if terms.is_integer() and terms <= _LONGEST_SUM:
        loss = _blockwise(lambda v: _renyi_sum(v, k, alpha), inner, int(terms))
    else:
        loss = _blockwise(lambda v: _renyi_integral(v, k, alpha), inner, 2000)
    loss = np.where(distinct <= _FARTHEST, np.minimum(loss, top), top)
    return np.where(distinct > 0.0, loss, 0.0)[back].reshape(u.shape)


def _blockwise(
    function: Callable[[FloatArray], FloatArray], values: FloatArray, cost: int
) -> FloatArray:
    """Apply ``function``, which holds ``cost`` floats a value, to one block after the other."""
    size = max(1, _BLOCK // cost)
    blocks = [values[start : start + size] for start in range(0, values.size, size)]
    return np.concatenate([function(block) for block in blocks]) if blocks else values


def _renyi_sum(u: FloatArray, k: float, alpha: float) -> FloatArray:
    # int (1 + y^2)^-a (1 + (y - u)^2)^-b dy: join the factors by Feynman's formula, integrate over
    # y, and expand in u. Both sides are analytic in b, and the series ends where b = -m. For k = 2
    # it is the Legendre polynomial of degree m at 1 + u^2/2.
    m = round(0.5 * k * (alpha - 1.0))
    n = np.arange(m, dtype=float)
    ratios = (m - n) / (n + 1.0) * (0.5 * (k - 1.0) + n) * (0.5 * k * alpha + n)
    ratios /= (0.5 * k + 2.0 * n) * (0.5 * k + 2.0 * n + 1.0)
    terms = np.cumsum(np.log(ratios)) + 2.0 * (n + 1.0) * np.log(u)[:, None]
    loss: FloatArray = np.logaddexp(0.0, logsumexp(terms, axis=1)) / (alpha - 1.0)
    return loss


def _renyi_integral(u: FloatArray, k: float, alpha: float) -> FloatArray:
    # The integral of the header over v = asinh y: K dy is cosh(v)^(1 - k) dv, analytic for
    # |Im v| < pi/2. Far left L is about k u / |y|, so the integrand falls like e^(-(k+1)|v|) there
    # and less than e^-36 of it lies beyond the cut.
    c = alpha - 1.0
    peak = _renyi_peak(u, alpha)
    ratio_there = 0.5 * k * np.log1p(u * (u - 2.0 * peak) / (1.0 + np.square(peak)))
    top = c * ratio_there - 0.5 * (k - 1.0) * np.log1p(np.square(peak))
    centre = np.arcsinh(peak)
    left = np.arcsinh(u) + log(alpha * k) + 20.0

    def integrand(before: FloatArray, after: FloatArray) -> FloatArray:
        sinh = np.sinh(before + (centre - left)[:, None, None])
        square = np.square(sinh)
        gap = u[:, None, None] * np.maximum(u[:, None, None] - 2.0 * sinh, 0.0)
        ratio = 0.5 * k * np.log1p(gap / (1.0 + square))
        growth = c * ratio - 0.5 * (k - 1.0) * np.log1p(square) - top[:, None, None]
        return np.exp(growth) * np.expm1(-c * ratio) * np.expm1(-alpha * ratio)

    right = np.arcsinh(0.5 * u) - centre
    total = _integral(integrand, left, right, 1.0 / (1.0 + sqrt(k * alpha)))
    logs = top + np.log(density_at_zero(k) * total)
    loss: FloatArray = np.logaddexp(0.0, logs) / c * (1.0 + QUADRATURE_MARGIN)
    return loss


def _renyi_peak(u: FloatArray, alpha: float) -> FloatArray:
    """Return where K^alpha K(. - u)^(1 - alpha) is largest, by bisection of its slope."""
    # It rises where L does, left of -e^-asinh(u/2), and falls at 0. An inexact peak costs panels.
    low, high = -np.exp(-np.arcsinh(0.5 * u)), np.zeros_like(u)
    for _ in range(30):
        y = 0.5 * (low + high)
        gap = u - y
        falls = (alpha - 1.0) * gap * (1.0 + y * y) > -alpha * y * (1.0 + gap * gap)
        low, high = np.where(falls, low, y), np.where(falls, y, high)
    return low


def _integral(
    integrand: Callable[[FloatArray, FloatArray], FloatArray],
    left: FloatArray,
    right: FloatArray,
    width: float,
) -> FloatArray:
    """Integrate over [-left, right]; the integrand gets the distances (n, p, 16) to both ends.

    Panels are ``width`` wide at 0, where the integrand peaks, then grow to at most 1.
    """
    edges, reach = [0.0], float(max(left.max(), right.max()))
    while edges[-1] < reach:
        edges.append(edges[-1] + min(width, 1.0))
        width *= 2.0
    both = np.clip([-edge for edge in edges[:0:-1]] + edges, -left[:, None], right[:, None])
    spans = np.diff(both, axis=1)[..., None]
    before = (both[:, :-1] + left[:, None])[..., None] + spans * _NODES
    after = (right[:, None] - both[:, 1:])[..., None] + spans * _NODES[::-1]
    total: FloatArray = ((integrand(before, after) @ _WEIGHTS) * spans[..., 0]).sum(axis=1)
    return total


def rows_hockey_stick(
    u: FloatArray,
    losses: FloatArray,
    epsilon: float,
    delta_of: Callable[[FloatArray, FloatArray], FloatArray],
) -> FloatArray:
    """Return bounds on the deltas of rows (..., d) of shifts, which are exact in one column.

    *Formal guarantees.* The smaller of two bounds. With e0 the total max-divergence, the (e^e0 -
    e^epsilon)_+ / (1 + e^e0) of a randomised response, which every pair of distributions of that
    max-divergence (both ways) post-processes; and the delta of the largest column at epsilon less
    the max-divergences e' of the others, as q' >= e^(-e') p' there gives
    (p p' - e^epsilon q q')_+ <= p' (p - e^(epsilon - e') q)_+.
    """
    largest = np.argmax(losses, axis=-1)[..., None]
    others = losses.copy()
    np.put_along_axis(others, largest, 0.0, axis=-1)
    rest = others.sum(axis=-1)
    column = np.take_along_axis(u, largest, axis=-1)[..., 0]
    single = np.where(rest <= epsilon, delta_of(column, np.maximum(epsilon - rest, 0.0)), 1.0)
    total = losses.sum(axis=-1)
    response = (0.0 - np.expm1(np.minimum(epsilon - total, 0.0))) / (1.0 + np.exp(-total))
    delta: FloatArray = np.minimum(single, response)
    return delta


def cauchy_hockey_stick(u: FloatArray, k: float, epsilon: FloatArray) -> FloatArray:
    """Return delta of shifts, at an epsilon >= 0 each."""
    reveals = (k * np.arcsinh(0.5 * u) > epsilon) & (u <= _FARTHEST)
    pairs, back = np.unique(u[reveals] + 1j * epsilon[reveals], return_inverse=True)
    formula = _cauchy_delta if k == 2.0 else _student_delta
    values = _blockwise(lambda pair: formula(pair.real, pair.imag, k), pairs, 2000)
    delta = np.where(u > _FARTHEST, 1.0, 0.0)
    delta[reveals] = values.real[back]
    return delta


def _cauchy_delta(u: FloatArray, epsilon: FloatArray, k: float) -> FloatArray:
    # Under the distribution of y, the angle w = 2 atan(y) + const is uniform, and e^L is cosh D +
    # sinh D cos(w) for D the max-divergence. With x = tan(w/2), and tau = x where L = epsilon,
    # delta = (2/pi) int_0^tau 1/(1 + x^2) - e^(epsilon - D) / (1 + (e^-D x)^2) dx = (2/pi) (atan
    # tau - e^epsilon atan(e^-D tau)), which cancels for small D only; and there tau <= e^(D/2),
    # short enough for one panel of the integral.
    top = k * np.arcsinh(0.5 * u)
    tau = np.sqrt(np.expm1(top - epsilon) / -np.expm1(-top - epsilon))
    short, tilt = np.minimum(tau, 1.5), np.exp(-top)
    square = np.square(short[:, None] * _NODES)
    inside = (1.0 - np.square(_NODES)) / (
        (1.0 + square) * (1.0 + np.square(tilt)[:, None] * square)
    )
    near = -np.expm1(epsilon - top) * short * (inside @ _WEIGHTS)
    far = np.arctan(tau) - np.exp(epsilon) * np.arctan(tilt * tau)
    delta: FloatArray = 2.0 / pi * np.where(tau <= 1.5, near, far)
    return delta


def _student_delta(u: FloatArray, epsilon: FloatArray, k: float) -> FloatArray:
    # L > epsilon between the roots of a quadratic, where e^(2 (L - epsilon) / k) - 1 is
    # g/h (y - first) (last - y) / (1 + y^2) with h = e^(epsilon/k), g = h - 1/h. Integrated over
    # v = asinh y. Nodes know their distances to the roots, so nothing cancels at a short range.
    u = np.maximum(u, _NEAREST)
    h, g = np.exp(epsilon / k), 2.0 * np.sinh(epsilon / k)
    root = np.sqrt(np.maximum((u - g) * (u + g), 0.0))
    last = (u * u - g * h) / (u + h * root)
    # For small epsilon the first root is far out: cut where e^-40 of the integrand is left.
    cut = -np.sinh(np.arcsinh(u) + 40.0)
    long = -g * cut < u / h + root
    step = np.where(long, 1.0, g)
    first = np.where(long, cut, -(u / h + root) / step)
    beyond = np.where(long, u / h + root + g * cut, 0.0)  # g (cut - first)
    range_y = np.where(long, last - cut, 2.0 * root / step)
    v_first, v_last = np.arcsinh(first), np.arcsinh(last)
    length = 2.0 * np.arcsinh(0.5 * range_y / np.cosh(0.5 * (v_first + v_last)))
    left = np.clip(-v_first, 0.0, length)  # K is largest at 0, or at the root nearest to it

    def integrand(before: FloatArray, after: FloatArray) -> FloatArray:
        start, stop = v_first[:, None, None], v_last[:, None, None]
        v = start + before
        square = np.square(np.sinh(v))
        rise = 2.0 * np.cosh(0.5 * (v + start)) * np.sinh(0.5 * before)
        fall = 2.0 * np.cosh(0.5 * (v + stop)) * np.sinh(0.5 * after)
        slope = (g[:, None, None] * rise + beyond[:, None, None]) / h[:, None, None]
        drop = -np.expm1(-0.5 * k * np.log1p(slope * fall / (1.0 + square)))
        kept: FloatArray = np.exp(-0.5 * (k - 1.0) * np.log1p(square)) * drop
        return kept

    total = _integral(integrand, left, length - left, 2.0 / (2.0 + k))
    delta: FloatArray = density_at_zero(k) * total
    return delta
