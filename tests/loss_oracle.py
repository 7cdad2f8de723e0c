"""Losses of one released column under every notion, by quadrature in 50 digits.

Shares nothing with the package but the atoms, the integer counts, the weights, and the scales.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import mpmath

DIGITS = 50
Density = Callable[[mpmath.mpf], mpmath.mpf]


def kernel(noise: Any) -> Density:
    """The density of the noise; a family is told by its name."""
    s, name = mpmath.mpf(noise.scale), type(noise).__name__
    if name == "Laplace":
        return lambda z: mpmath.exp(-abs(z) / s) / (2 * s)
    if name == "Gaussian":
        return lambda z: mpmath.exp(-((z / s) ** 2) / 2) / (s * mpmath.sqrt(2 * mpmath.pi))
    if name == "Logistic":
        return lambda z: mpmath.sech(z / (2 * s)) ** 2 / (4 * s)
    k = mpmath.mpf(2 if name == "Cauchy" else noise.k)
    constant = mpmath.gamma(k / 2) / mpmath.gamma((k - 1) / 2) / mpmath.sqrt(mpmath.pi) / s
    return lambda z: constant * (1 + (z / s) ** 2) ** (-k / 2)


def density(prior: Any, noise: Any, shape: Density | None = None) -> Density:
    """The density of a discrete prior's value plus noise, whose own may be given."""
    total = mpmath.mpf(int(prior.total))
    terms = [
        (mpmath.mpf(int(count)) / total, mpmath.mpf(float(atom)))
        for atom, count in zip(prior.atoms.ravel(), prior.counts, strict=True)
        if count
    ]
    shape = shape or kernel(noise)
    return lambda y: mpmath.fsum(weight * shape(y - atom) for weight, atom in terms)


def _densities(p: Any, q: Any, noise: Any) -> list[Density]:
    """The densities of two priors, whose noise at an atom of both is computed once."""
    shape = cache(kernel(noise))
    return [density(prior, noise, shape) for prior in (p, q)]


def points(p: Any, q: Any, noise: Any, reach: float = 0.0) -> list[mpmath.mpf]:
    """Where to split the line: at the atoms, and at growing distances from them."""
    atoms = sorted({float(x) for prior in (p, q) for x in prior.atoms.ravel()})
    s = mpmath.mpf(noise.scale)
    steps = [s * mpmath.mpf(2) ** k / 4 for k in range(9)]
    found = {mpmath.mpf(x) for x in atoms}
    for left, right in pairwise(atoms):
        gap = mpmath.mpf(right) - mpmath.mpf(left)
        found |= {mpmath.mpf(left) + step for step in steps if step < gap / 2}
        found |= {mpmath.mpf(right) - step for step in steps if step < gap / 2}
        found.add(mpmath.mpf(left) + gap / 2)
    for step in [*steps, mpmath.mpf(reach)]:
        found |= {atoms[0] - step, atoms[-1] + step}
    return sorted(found)


def delta(p: Any, q: Any, noise: Any, epsilon: float) -> mpmath.mpf:
    """The integral of the positive part of h_p - e^epsilon h_q, split at its sign changes."""
    with mpmath.workdps(DIGITS):
        h_p, h_q = _densities(p, q, noise)
        power = mpmath.exp(mpmath.mpf(epsilon))

        def excess(y: mpmath.mpf) -> mpmath.mpf:
            return h_p(y) - power * h_q(y)

        nodes = _refined(points(p, q, noise), 6)
        roots = _roots(excess, nodes)
        cuts = sorted({*points(p, q, noise), *roots})
        whole = [-mpmath.inf, *cuts, mpmath.inf]
        return _positive_part(excess, whole)


def _positive_part(excess: Density, cuts: Sequence[mpmath.mpf]) -> mpmath.mpf:
    total = mpmath.mpf(0)
    for left, right in pairwise(cuts):
        if left == -mpmath.inf:
            middle = right - 1e6 * abs(cuts[1] - cuts[-2])
        elif right == mpmath.inf:
            middle = left + 1e6 * abs(cuts[1] - cuts[-2])
        else:
            middle = (left + right) / 2
        if excess(middle) > 0:
            total += mpmath.quad(excess, [left, right])
    return total


def _refined(nodes: Sequence[mpmath.mpf], parts: int) -> list[mpmath.mpf]:
    fine = [nodes[0]]
    for left, right in pairwise(nodes):
        fine += [left + (right - left) * k / parts for k in range(1, parts + 1)]
    return fine


def _roots(function: Density, nodes: Sequence[mpmath.mpf]) -> list[mpmath.mpf]:
    values = [function(y) for y in nodes]
    changes = [k for k in range(len(nodes) - 1) if values[k] * values[k + 1] < 0]
    return [_bisect(function, nodes[k], nodes[k + 1]) for k in changes]


def _bisect(function: Density, low: mpmath.mpf, high: mpmath.mpf) -> mpmath.mpf:
    rising = function(low) < 0
    for _ in range(90):  # a root off by e costs e^2
        middle = (low + high) / 2
        if (function(middle) < 0) == rising:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def renyi(p: Any, q: Any, noise: Any, alpha: float) -> mpmath.mpf:
    """The Renyi divergence from p to q."""
    with mpmath.workdps(DIGITS):
        h_p, h_q, order = *_densities(p, q, noise), mpmath.mpf(alpha)
        atoms = [float(x) for prior in (p, q) for x in prior.atoms.ravel()]
        reach = float(alpha) * (max(atoms) - min(atoms)) + 40.0 * float(noise.scale)
        cuts = points(p, q, noise, reach)
        if type(noise).__name__ == "Gaussian":
            cuts = _refined([cuts[0] - reach, *cuts, cuts[-1] + reach], 2)
        else:
            cuts = [-mpmath.inf, *cuts, mpmath.inf]
        total = mpmath.quad(lambda y: h_p(y) ** order * h_q(y) ** (1 - order), cuts)
        return mpmath.log(total) / (order - 1)


def log_ratio(p: Any, q: Any, noise: Any, y: float) -> mpmath.mpf:
    """The log ratio of the released densities at one point."""
    with mpmath.workdps(DIGITS):
        point = mpmath.mpf(y)
        return mpmath.log(density(p, noise)(point) / density(q, noise)(point))


def supremum(p: Any, q: Any, noise: Any, parts: int = 12) -> mpmath.mpf:
    """The largest log ratio over a fine grid, narrowed by golden sections, and its limits."""
    with mpmath.workdps(DIGITS):
        h_p, h_q = _densities(p, q, noise)

        def ratio(y: mpmath.mpf) -> mpmath.mpf:
            return mpmath.log(h_p(y) / h_q(y))

        reach = 400 * max(float(noise.scale), 1e-3)
        nodes = _refined(points(p, q, noise, reach), parts)
        values = [ratio(y) for y in nodes]
        best = max(range(len(nodes)), key=lambda k: values[k])
        low, high = nodes[max(best - 1, 0)], nodes[min(best + 1, len(nodes) - 1)]
        return max(mpmath.mpf(0), values[best], _golden(ratio, low, high))


def _golden(function: Density, low: mpmath.mpf, high: mpmath.mpf) -> mpmath.mpf:
    share = (mpmath.sqrt(5) - 1) / 2
    for _ in range(110):
        a, b = high - share * (high - low), low + share * (high - low)
        if function(a) < function(b):
            low = a
        else:
            high = b
    return function((low + high) / 2)
