r"""Gaussian-Student convolution: N(0, 1) plus noise of density ~ (1 + (z/a)^2)^(-k/2), any a.

The noise is a Gaussian of variance a^2/(2 lambda), lambda of a Gamma distribution. So the sum is a
mixture of centred Gaussians, and a completely monotone function of s = t^2,

.. math:: h(t) = \frac{1}{\Gamma(\frac{k-1}{2})} \int_0^\infty \lambda^{(k-3)/2} e^{-\lambda}
          \sqrt{\theta/\pi} \, e^{-s \theta} \, d\lambda, \qquad
          \theta = \frac{1/2}{1 + a^2/(2\lambda)} < \frac12 .

Given s, theta has a distribution with E[theta | s] = -d log h / ds, and all E[theta^n | s] fall
with s.
"""

# The trapezoidal rule in v = log(lambda), of step e. At v + ib, with c = cos b, |A + B e^(ib)| >=
# (A + B) cos(b/2) and Re(1/(1 + B e^(-ib))) >= 1/(1 + B/c) (which is c^2 <= 1). So |exp(-s theta)|
# is at most its value at c lambda, |theta| <= theta(c lambda)/(c cos(b/2)), as theta is concave in
# lambda, and the integral of |integrand| at v + ib is at most C = c^(-(k-1)/2 - m) cos(b/2)^-m
# times that at v, m = n + 1/2, for E[theta^n; s]: the sum is off by 2C/(e^(2 pi b/e) - 1) of it.
#
# Cells. To the left of its end s_c, at s_c - u, h is a power series in u with coefficients
# E[theta^n | s_c]/n!, all positive: sums and derivatives lose nothing. What follows degree N is at
# most E[(theta U)^(N+1) e^(theta U)]/(N+1)! over a cell of width U, a sum that is computed; the
# width is chosen for it to be slight, and whatever it is, it goes into the cell's error.
# Nodes left out on the left have weights that fall by e^(-ek/2); those on the right are at most
# e^(-s theta) times the tail of the Gamma distribution.
#
# Far out. With D^2 = a^2 + t^2 and x = lambda/a^2, x(1 - 2x) <= theta <= x, and theta = x is the
# noise alone. E[theta^n e^(-s theta)] is at least (1 - 2n E[x]) of its own, and, from x <= q, at
# most (1 - 2q)^(-k/2-n) of it; what is beyond q is at most 2^(k/2) e^(-L), q = 4L/D^2. L is taken
# so large that this is e^-40 of the whole.
#
# Masses. For Re z^2 >= w >= 0, |h(z)| <= h(sqrt w). For w < 0 it is at most e^(|w|/2) h(0), and, as
# theta <= x, at most (1 - |w|/a^2)^(-k/2) times the noise at 0. Gauss-Legendre sums of 9 nodes miss
# less than 4.2 r max|h| 8^-18/(7/8), the maximum over the ellipse with rho = 8.

from __future__ import annotations

from functools import lru_cache
from math import comb, cos, exp, factorial, gamma, inf, lgamma, log, pi
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaincc

from sklearn_puffer._base import FloatArray, IntArray
from sklearn_puffer._numerics import UNIT
from sklearn_puffer.noise import ROUNDING, Cauchy, GeneralizedCauchy

_DEGREE = 20
_CHUNK = 48
_WAYS = np.array([[float(comb(n, order)) for n in range(_DEGREE + 1)] for order in range(3)])
# ends of the scales, in deviations, and of the exponents that are tabulated
NARROWEST, WIDEST, STEEPEST = 1e-100, 1e100, 1024.0
_FACTORIALS = np.array([[float(factorial(n))] for n in range(_DEGREE + 1)])
_FAR = 2.0**57
_NODES, _WEIGHTS = (np.asarray(part) for part in np.polynomial.legendre.leggauss(9))
_RULE = 1e-14  # numpy's nodes and weights together: a test looks
_RHO = 8.0
_MISSED = 4.2 * _RHO**-18 / (1.0 - 1.0 / _RHO)


WithError = tuple[FloatArray, FloatArray]  # numbers, and what they are off by


class Moments(NamedTuple):
    """Log density, E[theta | t] and E[theta^2 | t]; relative errors of density and means."""

    log: FloatArray
    first: FloatArray
    second: FloatArray
    error: FloatArray


class _Series(NamedTuple):
    """Log density at the ends of cells, coefficients (degree + 1, cells), errors of the sums."""

    log: FloatArray
    coefficients: FloatArray
    error: FloatArray


class GaussianStudent:
    """The density of N(0, 1) plus noise of scale ``a`` and exponent ``k``."""

    def __init__(self, a: float, k: float) -> None:
        self.a, self.k = a, k
        self._noise = Cauchy(a) if k == 2.0 else GeneralizedCauchy(a, k)
        self._log_top = lgamma(0.5 * k) - lgamma(0.5 * (k - 1.0)) - 0.5 * log(pi) - log(a)
        self._start = _FAR * (k + 2.0) ** 2  # of D^2
        bulk = k * (0.5 * log(self._start) - log(a)) + max(log(a), 0.0) + k + 60.0
        self._bulk = max(bulk, 60.0) + 2.0 * log(self._start) - min(log(0.5 * (k - 1.0)), 0.0)
        self.crossing = _crossing(self)
        self._edges = _cells(self)
        self._series = _tabulate(self, self._edges)
        self._log_left = self._log_at_left_ends()
        self._roots = np.sqrt(self._edges)
        self.end = float(self._roots[-1])  # from here on the noise alone is enough
        self._tails, self._tail_error = self._tail_masses()

    def log_noise(self, t: FloatArray) -> FloatArray:
        """Return the log density of the noise alone."""
        return np.asarray(self._log_top - self.k * np.log(np.hypot(1.0, t / self.a)))

    def moments(self, t: FloatArray) -> Moments:
        """Return log h and means of theta at distances t >= 0."""
        flat = t.ravel()
        far = flat >= self.end
        moments = np.empty((4, flat.size))
        moments[:, far] = self._far(flat[far])
        moments[:, ~far] = self._near(flat[~far])
        return Moments(*moments.reshape(4, *t.shape))

    def _far(self, t: FloatArray) -> Moments:
        wide = np.hypot(self.a, t)
        value = self.log_noise(t)
        half = 0.5 * self.k
        first = half / wide / wide
        off = 8.0 * self._bulk / np.square(wide) * (self.k + 6.0) + 2.0**-56
        size = self.k * (2.0 + np.log(wide / self.a)) + np.abs(value) + abs(log(self.a)) + 2.0
        error = 3.0 * off + 8.0 * UNIT * (size + 4.0 * abs(self._log_top))
        return Moments(value, first, first * (half + 1.0) / wide / wide, error)

    def _near(self, t: FloatArray) -> Moments:
        s = np.square(t)
        cell = self._cell(s)
        width, q = self._polynomials(s, cell, 3)
        first = q[1] / q[0] / width
        second = 2.0 * q[2] / q[0] / width / width
        value = self._series.log[cell] + np.log(q[0])
        moved = 16.0 * UNIT * (s + width) * second / first
        error = 2.0 * self._series.error[cell] + moved + 4.0 * UNIT * (1.0 + np.abs(value))
        return Moments(value, first, second, error)

    def _polynomials(
        self, s: FloatArray, cell: IntArray, count: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the cells' widths, and Taylor coefficients at the points, shape (count, m)."""
        right = self._edges[cell + 1]
        width = right - self._edges[cell]
        powers = _powers((right - s) / width)
        rows = self._series.coefficients[:, cell]
        q = np.empty((count, s.size))
        for order in range(count):  # the sum of binom(n, order) c_n x^(n - order)
            left = powers[: _DEGREE + 1 - order]
            q[order] = np.einsum("n,nm,nm->m", _WAYS[order, order:], rows[order:], left)
        return width, q

    def _density(self, t: FloatArray, cell: IntArray) -> FloatArray:
        """Return h at distances that lie within the cells, both of shape (m, points)."""
        right = self._edges[cell + 1]
        x = ((right[:, None] - np.square(t)) / (right - self._edges[cell])[:, None]).T
        q = np.zeros(x.shape)
        for row in self._series.coefficients[:, cell][::-1]:
            q *= x
            q += row
        return np.asarray((np.exp(self._series.log[cell]) * q).T)

    def _log_at_left_ends(self) -> FloatArray:
        """Return log h at the left ends of cells: each is the right end of the cell before."""
        first = np.log(self._series.coefficients[:, :1].sum(axis=0))  # all x^n are 1 there
        return np.append(self._series.log[:1] + first, self._series.log[:-1])

    def _cell(self, s: FloatArray) -> IntArray:
        """Return in which cell s lies, the last one for all that is farther out."""
        cell = np.searchsorted(self._edges, s, side="right") - 1
        return np.minimum(cell, len(self._edges) - 2)

    # ------------------------------------------------------------------------------------- masses

    def masses(self, left: FloatArray, right: FloatArray, width: FloatArray) -> WithError:
        """Return masses of 0 <= left <= right, ``width`` apart, and their absolute errors."""
        mass, error = np.empty(left.size), np.empty(left.size)
        far = left >= self.end
        mass[far], error[far] = self._far_masses(left[far], right[far], width[far])
        near = ~far
        mass[near], error[near] = self._near_masses(left[near], right[near], width[near])
        out = np.flatnonzero(near & (right >= self.end))
        if out.size:
            end, beyond = np.full(out.size, self.end), right[out]
            rest, rest_error = self._far_masses(end, beyond, beyond - self.end)
            mass[out] += rest
            error[out] += rest_error
        return mass, error

    def _far_masses(self, left: FloatArray, right: FloatArray, width: FloatArray) -> WithError:
        if not left.size:
            return np.zeros(0), np.zeros(0)
        if self.k == 2.0:
            mass = _cauchy_mass(left / self.a, right / self.a, width / self.a)
        else:
            mass = self._noise.mass(left, right)
        off = self._far(left).error + 4.0 * ROUNDING
        return mass, mass * off + self._moved(left) + self._moved(right)

    def _moved(self, t: FloatArray) -> FloatArray:
        """Return what a distance that is off by rounding gains and loses at an end."""
        finite = np.isfinite(t)
        point = np.where(finite, t, 0.0)
        far = point >= self.end
        # h falls: within a cell it is at most what it is at the cell's left end
        log = np.append(self._log_left, 0.0)[np.where(far, -1, self._cell(np.square(point)))]
        log[far] = self.log_noise(point[far])
        with np.errstate(under="ignore"):
            moved: FloatArray = 16.0 * UNIT * point * np.exp(log + 1e-9)
        return np.where(finite, moved, 0.0)

    def _near_masses(self, left: FloatArray, right: FloatArray, width: FloatArray) -> WithError:
        """Return masses of the parts of panels that lie within the cells."""
        if not left.size:
            return np.zeros(0), np.zeros(0)
        cells = len(self._edges) - 1
        first, last = (
            np.clip(np.searchsorted(self._roots, t, side="right") - 1, 0, cells)
            for t in (left, right)
        )
        edge = self._roots[first + 1]
        one = right <= edge
        stop, length = np.where(one, right, edge), np.where(one, width, edge - left)
        mass, error = self._summed(left, stop, length, first)
        many = np.flatnonzero(~one)
        if many.size:
            more, more_error = self._rest(first[many] + 1, last[many], right[many])
            mass[many] += more
            error[many] += more_error + self._moved(left[many])
        return mass, error

    def _rest(self, first: IntArray, last: IntArray, right: FloatArray) -> WithError:
        """Return masses from the edges ``first`` on to ``right``, in cells ``last``."""
        mass = self._tails[first] - self._tails[last]
        error = self._tail_error[first] + 2.0 * UNIT * self._tails[first]
        ends = np.flatnonzero(last < len(self._edges) - 1)
        if ends.size:
            start, stop = self._roots[last[ends]], right[ends]
            more, more_error = self._summed(start, stop, stop - start, last[ends])
            mass[ends] += more
            error[ends] += more_error + self._moved(stop)
        return mass, error

    def _summed(
        self, left: FloatArray, right: FloatArray, width: FloatArray, cell: IntArray
    ) -> WithError:
        """Return Gauss-Legendre sums over panels that lie in one cell each, and their errors."""
        middle, radius = 0.5 * (left + right), 0.5 * width
        density = self._density(middle[:, None] + radius[:, None] * _NODES, cell)
        mass = radius * (density * _WEIGHTS).sum(axis=1)
        along = 0.5 * radius * (_RHO + 1.0 / _RHO)
        across = 0.5 * radius * (_RHO - 1.0 / _RHO)
        lowest = np.square(np.maximum(middle - along, 0.0)) - np.square(across)
        s = np.maximum(lowest, 0.0)
        at = self._density(np.sqrt(s)[:, None], self._cell(s))[:, 0]
        with np.errstate(over="ignore", divide="ignore"):
            beneath = np.maximum(-lowest, 0.0)
            gap = np.maximum(1.0 - beneath / self.a / self.a, 0.0)
            heavy = np.exp(self._log_top - 0.5 * self.k * np.log(gap))
            largest = at * np.exp(0.5 * beneath)
            largest = np.where(lowest < 0.0, np.minimum(largest, heavy), largest) * (1.0 + 1e-9)
            missed = np.where(radius > 0.0, _MISSED * radius * largest, 0.0)
        # a cell's error is above 8u times its largest -s d log h / ds: it covers a moved middle too
        return mass, missed + mass * (6.0 * self._series.error[cell] + _RULE)

    def _tail_masses(self) -> WithError:
        """Return the masses beyond each edge, and their errors."""
        left, right = self._roots[:-1], self._roots[1:]
        last, last_error = self._far_masses(self._roots[-1:], np.array([inf]), np.array([inf]))
        if not left.size:
            return last, last_error
        cell = np.arange(left.size)
        mass, error = self._summed(left, right, right - left, cell)
        error = error + 8.0 * UNIT * right * self._density(right[:, None], cell)[:, 0]
        parts = (mass, last), (error, last_error)
        sums = [np.append(part, more)[::-1].cumsum()[::-1] for part, more in parts]
        return sums[0], sums[1] + 2.0 * UNIT * left.size * sums[0]


@lru_cache(maxsize=32)
def gaussian_student(a: float, k: float) -> GaussianStudent:
    """Return the convolution for a scale and an exponent; the last ones are kept."""
    with np.errstate(under="ignore"):
        return GaussianStudent(a, k)


def _powers(x: FloatArray) -> FloatArray:
    """Return x^n for n of 0 to the degree, shape (degree + 1, m)."""
    powers = np.empty((_DEGREE + 1, x.size))
    powers[0], powers[1] = 1.0, x
    done = 2
    while done <= _DEGREE:
        more = powers[1 : min(done, _DEGREE + 2 - done)]
        np.multiply(more, powers[done - 1], out=powers[done : done + len(more)])
        done += len(more)
    return powers


def _crossing(density: GaussianStudent) -> float:
    """Return about where the noise alone overtakes the Gaussian, as s = t^2; 0 if everywhere."""
    s = 1.0
    for _ in range(8):
        s = max(-2.0 * float(density.log_noise(np.array(s**0.5))) - log(2.0 * pi), 1.0)
    return s if density.a < 8.0 else 0.0


def _cells(density: GaussianStudent) -> FloatArray:
    """Return edges in s: two wide where theta is near 1/2, and wider where only tails are left."""
    square = density.a * density.a if density.a < 1e30 else inf
    edges, s = [0.0], 0.0
    while square + s < density._start:
        clear = 0.125 * (s - density.crossing) if density.crossing > 0.0 else inf
        s += max(2.0, min(clear, (square + s) / (8.0 + density.k)))
        edges.append(s)
    return np.array(edges)


class _Rule(NamedTuple):
    """Nodes in v = log(lambda), log weights and thetas, and the rule's relative error."""

    v: FloatArray
    log_weights: FloatArray
    theta: FloatArray
    error: float
    step: float


def _rule(density: GaussianStudent) -> _Rule:
    shape = 0.5 * (density.k - 1.0)

    def growth(b: float) -> float:
        return -(shape + 2.5) * log(cos(b)) - 2.5 * log(cos(0.5 * b))

    angle = max(np.linspace(0.05, 1.5, 59), key=lambda b: b / (40.0 + growth(b)))
    step = 2.0 * pi * float(angle) / (40.0 + growth(angle))
    error = 2.0 * exp(growth(angle)) / float(np.expm1(2.0 * pi * angle / step))
    least = _leftmost(density, float(density._start))
    most = log(shape + 200.0 + 10.0 * shape**0.5)
    v = step * np.arange(np.floor(least / step), np.ceil(most / step) + 1.0)
    # log(1 + b), b = a^2/(2 lambda)
    theta = 0.5 * np.exp(-np.logaddexp(0.0, 2.0 * log(density.a) - log(2.0) - v))
    logs = log(step) - lgamma(shape) + shape * v - np.exp(v) + 0.5 * np.log(theta / pi)
    return _Rule(v, logs, theta, error, step)


def _leftmost(density: GaussianStudent, s: float) -> float:
    """Return log(lambda) below which next to nothing is left out at s."""
    half = 0.5 * density.k
    return (lgamma(half) - 48.0) / half - float(
        np.logaddexp(0.0, log(s + 1.0) - 2.0 * log(density.a))
    )


def _rightmost(density: GaussianStudent, s: float) -> float:
    """Return log(lambda) beyond which next to nothing is left out at s."""
    need = 100.0 + max(-float(density.log_noise(np.array(max(s, 1.0) ** 0.5))), 0.0)
    need += 2.0 * float(np.logaddexp(log(s + 1.0), 2.0 * log(density.a)))
    if need >= 0.45 * s:
        return inf
    return 2.0 * log(density.a) - log(s / need - 2.0)


def _tabulate(density: GaussianStudent, edges: FloatArray) -> _Series:
    """Return the series at the right end of each cell."""
    count = len(edges) - 1
    if count == 0:
        return _Series(np.zeros(0), np.zeros((_DEGREE + 1, 0)), np.zeros(0))
    rule = _rule(density)
    starts = range(0, count, _CHUNK)
    parts = [_part(density, rule, edges[k : min(k + _CHUNK, count) + 1]) for k in starts]
    logs, tables, errors = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    return _Series(logs, tables, errors)


def _part(density: GaussianStudent, rule: _Rule, edges: FloatArray) -> _Series:
    """Return the series of some neighbouring cells."""
    start = np.searchsorted(rule.v, _leftmost(density, float(edges[-1])))
    stop = np.searchsorted(rule.v, _rightmost(density, float(edges[0]))) + 1
    v, weights, theta = (part[start:stop] for part in (rule.v, rule.log_weights, rule.theta))
    logs = weights - edges[1:, None] * theta
    top = logs.max(axis=1)
    term = np.exp(logs - top[:, None])
    sums = term.sum(axis=1)
    value = top + np.log(sums)
    term /= sums[:, None]
    # moves are widths times thetas: all sums over nodes are of powers of theta
    largest = float(theta.max())
    moves, powers = np.diff(edges) * largest, _powers(theta / largest)
    table = np.ascontiguousarray((term @ powers.T).T)
    table *= _powers(moves) / _FACTORIALS
    table[0] = 1.0
    # the same at the left end of each cell, in one exponent: the weights alone may underflow
    at_left = np.exp(logs - value[:, None] + np.diff(edges)[:, None] * theta)
    second, third, last = (at_left @ np.stack([powers[2], powers[3], powers[-1] * powers[1]]).T).T
    spread = largest * third / second  # E[theta^3]/E[theta^2] falls
    rest = last * moves ** (_DEGREE + 1) / gamma(_DEGREE)
    error = rule.error + rest / np.minimum(2.0 * table[2], np.minimum(table[1], 1.0))
    error += _left_out(density, rule, int(start), int(stop), edges, value, table)
    shape = 0.5 * (density.k - 1.0)
    size = shape * float(np.abs(v).max()) + abs(lgamma(shape)) + density.k + edges[1:] * spread
    size += 0.25 * len(theta)  # sums of so many products, in any order
    return _Series(value, table, error + 8.0 * UNIT * (40.0 + size))


def _left_out(
    density: GaussianStudent,
    rule: _Rule,
    start: int,
    stop: int,
    edges: FloatArray,
    value: FloatArray,
    table: FloatArray,
) -> FloatArray:
    """Return what the nodes left out add, relatively, to h and to both means of theta."""
    half, shape = 0.5 * density.k, 0.5 * (density.k - 1.0)
    v = rule.v[start] - rule.step
    left = log(rule.step) - lgamma(shape) - 0.5 * log(pi) - log(density.a) + half * v
    left -= log(-np.expm1(-rule.step * half))
    last = min(stop, len(rule.v)) - 1
    rate = float(np.exp(rule.v[last]))
    share = float(gammaincc(shape, rate)) if rate > shape else 2.0
    right = log(max(share, 1e-300)) - 0.5 * log(2.0 * pi) - edges[:-1] * rule.theta[last]
    # theta to the right of all nodes is at most 1/2
    width = np.diff(edges)
    worth = np.maximum(2.0 * np.log(0.5 * width) - np.log(2.0 * table[2]), 0.0)
    with np.errstate(over="ignore"):
        error: FloatArray = np.exp(left - value) + np.exp(right - value + worth)
    return error


def _cauchy_mass(left: Any, right: Any, width: Any) -> FloatArray:
    """Return (atan right - atan left)/pi as one angle, whose relative error is a few u."""
    finite = np.isfinite(right)
    b = np.where(finite, right, 0.0)
    inside = np.arctan2(np.where(finite, width, 0.0), 1.0 + left * b)
    return np.asarray(np.where(finite, inside, np.arctan2(1.0, left)) / pi)
