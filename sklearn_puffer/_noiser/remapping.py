r"""Map noisy values back to the values of their column, so that they change least on average.

Let X be the value before noise, with the shares pi of the rows of `fit`, and J the noisy value, as
a grid index. Each J becomes the posterior median of X, the smallest x_j with

.. math:: \sum_{i \le j} \pi_i P(J \mid x_i) \ge \sum_{i > j} \pi_i P(J \mid x_i).

It minimises E|X - r(J)| for every J, and so on the whole, over all maps r, among them J itself and
constants. As a function of J it is post-processing.
"""

# Whole numbers: K = floor(N/g + 1/2), so J is drawn where x + N lies within g/2 of J g. Others:
# K = floor(N/g), and x + N lies between J g and (J + 1) g. Either way the chances of J are masses
# of the noise between `edge(J)` and `edge(J + 1)`, seen from x.

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._noise import to_indices
from sklearn_puffer._tables import Column
from sklearn_puffer.noise import Noise

MOST_VALUES = 500
"""Values that a column may have under noise whose sums over them have no short form."""

_FARTHEST = 2**61  # sums of values and heavy-tailed noise are saturated here
_NEGLIGIBLE = 1e-17  # chances, of draws beyond the reach of a map
_FINE = 2.0**-20  # steps in scales over which a density is flat, up to 1e-13
_FAR = 2.0**30  # steps beyond which it is flat, too
_SMALL = 1e-290
_INDIFFERENT = 1e-7  # of the largest weight; the cost of a wrong choice there is its square
_PART = 1 << 16  # numbers that are held at a time, in the cache


@dataclass(frozen=True, eq=False)
class Remapping:
    """The map of noisy values to values of a column.

    Attributes
    ----------
    shares : ndarray of shape (n_atoms,)
        The pooled distribution of the column's atoms among the rows of `fit`, from which the map
        was made.
    starts : ndarray of int64 of shape (m,)
        Ascending grid indices; a new stretch begins at each.
    codes : ndarray of intp of shape (m + 1,)
        The code of the atom that noisy values in each stretch become.
    """

    shares: FloatArray = field(compare=False)
    starts: IntArray
    codes: Array

    def at(self, steps: IntArray) -> Array:
        """Return the codes of the atoms that noisy values become."""
        return self.codes[np.searchsorted(self.starts, steps, side="right")]

    @property
    def constant(self) -> bool:
        """Whether every noisy value becomes the same one."""
        return len(self.codes) == 1


@dataclass(frozen=True, eq=False)
class Drawn:
    """The distribution of the noise K that is drawn for a value, in steps of the grid.

    Attributes
    ----------
    noise : Noise
    grid : float
    whole : bool
        Whether noise is rounded to the nearest step, and not down.
    """

    noise: Noise
    grid: float
    whole: bool

    def edge(self, steps: Array) -> FloatArray:
        """Return the least noise for which K is at least ``steps``, which may be infinite."""
        edge: FloatArray = (steps - (0.5 if self.whole else 0.0)) * np.float64(self.grid)
        return edge

    def chance(self, low: Array, high: Array) -> FloatArray:
        """Return P(low <= K < high)."""
        return self.noise.mass(self.edge(low), self.edge(high))

    def between(self, steps: FloatArray) -> FloatArray:
        """Return the chances of the stretches that ascending steps, one row each, leave."""
        ends = np.pad(steps, ((0, 0), (1, 1)), constant_values=np.inf)
        ends[:, 0] = -np.inf
        return self.chance(ends[:, :-1], ends[:, 1:])

    def log_chance(self, steps: IntArray) -> FloatArray:
        """Return log P(K = steps), up to 1e-13 of the chance."""
        middle = 0.5 * (self.edge(steps) + self.edge(steps + 1))
        logs: FloatArray = self.noise.log_density(middle[..., None]) + np.log(self.grid)
        if self.grid <= _FINE * self.noise.axis_scales(1)[0]:
            return logs
        chance = self.chance(steps, steps + 1)
        near = (np.abs(steps) < _FAR) & (chance > _SMALL)
        logs[near] = np.log(chance[near])
        return logs

    @property
    def reach(self) -> int:
        """The steps beyond which noise has a negligible chance."""
        reach = 1
        while reach < _FARTHEST and float(self.noise.mass(reach * self.grid, np.inf)) > _NEGLIGIBLE:
            reach *= 2
        return reach


def check_remappable(columns: Sequence[Column], noise: Noise) -> None:
    """Refuse columns of too many values, unless they are unordered, whose map is cheap."""
    for column in columns:
        name, size = column.name, len(column.atoms)
        if size > MOST_VALUES and not (noise.is_exponential or column.unordered):
            raise ValueError(
                f"output='remapped' maps {noise.name} noise back to at most {MOST_VALUES} values, "
                f"and column {name!r} has {size}; bin it, for example n_bins={{{name!r}: 20}}, or "
                "use noise='laplace' or output='native'."
            )


def remapping(atoms: FloatArray, shares: FloatArray, drawn: Drawn) -> Remapping:
    """Return the map of a column that changes its values least.

    Parameters
    ----------
    atoms : ndarray of shape (n,)
        Ascending values of the column.
    shares : ndarray of shape (n,)
        The frequency of each in the rows of `fit`; 0 for one that no noisy value becomes.
    drawn : Drawn
    """
    distribution = _Distribution.of(atoms, shares, drawn)
    if drawn.noise.is_exponential:
        starts, codes = _steps(distribution, _exponential(distribution))
    elif float(drawn.noise.curvature(0.0, np.inf)[1]) <= 0.0:
        starts, codes = _steps(
            distribution, lambda steps: distribution.median(steps) > np.arange(len(steps))
        )
    else:
        starts, codes = _stretches(distribution)
    return Remapping(shares, starts, distribution.codes[codes])


def most_probable(shares: FloatArray, kept: float, drawn: FloatArray) -> Remapping:
    r"""Return the map of an unordered column that leaves most of its values as they are.

    A value x is kept with the chance ``kept``, and otherwise drawn anew from q. Given z, the value
    was z with the weight :math:`\pi_z (\kappa + (1 - \kappa) q_z)`, and any other x with
    :math:`\pi_x (1 - \kappa) q_z`; the most probable one is taken.

    Parameters
    ----------
    shares : ndarray of shape (n,)
        The frequency of each value in the rows of `fit`, pi.
    kept : float
        The chance kappa.
    drawn : ndarray of shape (n,)
        q.
    """
    codes, top = np.arange(len(shares)), int(np.argmax(shares))
    anew = (1.0 - kept) * drawn
    stays = shares * (kept + anew) >= shares[top] * anew
    return Remapping(shares, codes[1:], np.where(stays, codes, top))


@dataclass(frozen=True, eq=False)
class _Distribution:
    """The values that occur, as grid indices, and their shares."""

    indices: IntArray
    shares: FloatArray
    codes: Array  # of the atoms
    drawn: Drawn

    @classmethod
    def of(cls, atoms: FloatArray, shares: FloatArray, drawn: Drawn) -> _Distribution:
        indices = to_indices(atoms, drawn.grid)
        # the most frequent value of each index stands for all
        order = np.lexsort((-shares, indices))
        order = order[shares[order] > 0.0]
        indices, firsts, which = np.unique(indices[order], return_index=True, return_inverse=True)
        sums = np.zeros(len(indices))
        np.add.at(sums, which, shares[order])
        return cls(indices, sums, order[firsts], drawn)

    @property
    def ends(self) -> tuple[int, int]:
        """The indices between which the map is looked for; beyond them it is constant."""
        reach = self.drawn.reach
        low, high = int(self.indices[0]) - reach, int(self.indices[-1]) + reach
        return max(low, -_FARTHEST), min(high, _FARTHEST)

    def median(self, steps: IntArray) -> Array:
        """Return the position of the posterior median given each J."""
        medians = np.empty(len(steps), dtype=np.intp)
        for part in _parts(len(steps), len(self.indices)):
            logs = self.drawn.log_chance(steps[part, None] - self.indices) + np.log(self.shares)
            weights = np.exp(logs - logs.max(axis=1, keepdims=True))
            medians[part] = _first_half(weights, weights)
        return medians


def _first_half(low: FloatArray, high: FloatArray) -> Array:
    """Return the first position up to which ``low`` weighs no less than ``high`` beyond it."""
    up_to, beyond = np.cumsum(low, axis=1), np.cumsum(high[:, ::-1], axis=1)[:, ::-1]
    first: Array = np.argmax(up_to >= np.pad(beyond[:, 1:], ((0, 0), (0, 1))), axis=1)
    return first


def _parts(n_rows: int, width: int) -> Iterator[slice]:
    length = max(1, _PART // width)
    return (slice(at, at + length) for at in range(0, n_rows, length))


# ------------------------------------------------------------------ log-concave noise: a step each


def _steps(
    distribution: _Distribution, is_above: Callable[[IntArray], Array]
) -> tuple[IntArray, Array]:
    """Return the map where the ratios of the chances of J are monotone in J, by bisection.

    ``is_above`` takes one J for each value but the last, and returns whether the median lies beyond
    that value. For log-concave noise, whose draws are log-concave, too, it does from some J on.
    """
    first, last = distribution.ends
    low = np.full(len(distribution.indices) - 1, first)
    high = np.full(len(distribution.indices) - 1, last + 1)
    while (low < high).any():
        middle = low + (high - low) // 2
        above = is_above(middle)
        low, high = np.where(above, low, middle + 1), np.where(above, middle, high)
    begins = np.maximum.accumulate(np.minimum(low, high))
    starts = np.unique(begins[(begins > first) & (begins <= last)])
    return starts, np.searchsorted(begins, np.append(first, starts), side="right")


def _exponential(distribution: _Distribution) -> Callable[[IntArray], Array]:
    """Return ``is_above`` of `_steps` for K of chances e^(-rate |K|), without sums over values.

    The values left of J weigh e^(-rate (J - x)), so that the sum over them at one value is the sum
    at its neighbour times a factor.
    """
    indices, shares, whole = distribution.indices, distribution.shares, distribution.drawn.whole
    rate = distribution.drawn.grid / float(distribution.drawn.noise.axis_scales(1)[0])
    fading = np.exp(-rate * np.diff(indices).astype(np.float64))
    left = _faded_sums(shares, fading)
    right = _faded_sums(shares[::-1], fading[::-1])[::-1]
    last, values = len(indices) - 1, np.arange(len(indices) - 1)
    # where K is rounded to the nearest step, K = 0 is rarer than e^0 by this part of its weight
    missing = 1.0 - 2.0 / (np.exp(0.5 * rate) + 1.0) if whole else 0.0

    def is_above(steps: IntArray) -> Array:
        before = np.searchsorted(indices, steps, side="right") - 1  # the last value up to J
        after = np.minimum(before + 1, last)
        back = np.where(before >= 0, rate * (steps - indices[before]), np.inf)
        ahead = np.where(before < last, rate * (indices[after] - steps - (not whole)), np.inf)
        base = np.minimum(back, ahead)
        hit = (before >= 0) & (indices[before] == steps)
        lefts = np.exp(base - back) * left[before] - hit * missing * shares[before]
        rights = np.exp(base - ahead) * right[after]
        inner = values < before  # the value lies left of the last one up to J
        to_value = np.where(inner, steps - indices[:-1], indices[1:] - steps - (not whole))
        part = np.exp(base - rate * to_value) * np.where(inner, left[:-1], right[1:])
        below = np.where(inner, part, lefts + rights - part)
        return below < np.where(inner, lefts - part + rights, part)

    return is_above


def _faded_sums(shares: FloatArray, fading: FloatArray) -> FloatArray:
    """Return the sums of shares up to each, discounted by the factor of each gap."""
    sums, total = [], 0.0
    for share, factor in zip(shares.tolist(), [0.0, *fading.tolist()], strict=True):
        total = total * factor + share
        sums.append(total)
    return np.array(sums)


# -------------------------------------------------------------- other noise: stretch after stretch


def _stretches(distribution: _Distribution) -> tuple[IntArray, Array]:
    """Return the map by halving stretches of J until the median is the same all over each.

    The median is computed from the density of x + N, whose integrals are the chances of J, down to
    a single J, or until two values hardly differ in their cost.
    """
    first, last = distribution.ends
    # kinks of the density, at values, lie in stretches of their own
    cuts = np.unique([first, *distribution.indices, *(distribution.indices + 1), last + 1])
    low, high = cuts[:-1], cuts[1:] - 1
    stretches: list[tuple[IntArray, Array]] = []
    while low.size:
        decided, medians = _all_over(distribution, low, high)
        alone = low == high
        medians[alone] = distribution.median(low[alone])
        decided |= alone
        stretches.append((low[decided], medians[decided]))
        low, high = low[~decided], high[~decided]
        middle = low + (high - low) // 2
        low, high = np.concatenate([low, middle + 1]), np.concatenate([middle, high])
    starts, codes = (np.concatenate(parts) for parts in zip(*stretches, strict=True))
    order = np.argsort(starts)
    starts, codes = starts[order], codes[order]
    new = np.diff(codes, prepend=-1) != 0
    return starts[new][1:], codes[new]


def _all_over(distribution: _Distribution, low: IntArray, high: IntArray) -> tuple[Array, Array]:
    """Return for each stretch whether one value is the median all over it, and which."""
    decided, medians = np.empty(len(low), dtype=bool), np.empty(len(low), dtype=np.intp)
    for part in _parts(len(low), len(distribution.indices)):
        weights, vary = _weights(distribution, low[part], high[part])
        least, most = weights * np.exp(-vary), weights * np.exp(vary)
        first, last = _first_half(most, least), _first_half(least, most)
        indifferent = (most - least).sum(axis=1) <= _INDIFFERENT
        medians[part] = np.where(indifferent, _first_half(weights, weights), first)
        decided[part] = (first == last) | indifferent
    return decided, medians


def _weights(
    distribution: _Distribution, low: IntArray, high: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the weights of the values in the middle of stretches, and how far their logs vary.

    Both are relative to the heaviest value. With L = log K, and by Taylor's theorem, the log of a
    ratio K(y - x) / K(y - x') varies over a distance h by at most
    h |L'(y - x) - L'(y - x')| + h^2 / 2 max |L''(y - x) - L''(y - x')|, and the last difference is
    at most |x - x'| max |L'''| where x and x' lie on the same side of y.
    """
    noise, grid = distribution.drawn.noise, distribution.drawn.grid
    start, stop = (distribution.drawn.edge(values)[:, None] for values in (low, high + 1))
    away = 0.5 * (start + stop) - distribution.indices * grid
    half = 0.5 * (stop - start)
    near, far = np.maximum(np.abs(away) - half, 0.0), np.abs(away) + half
    logs = noise.log_density(away[..., None]) + np.log(distribution.shares)
    heaviest = logs.argmax(axis=1)[:, None]

    def apart(values: FloatArray) -> FloatArray:
        return np.abs(values - np.take_along_axis(values, heaviest, axis=1))

    bend = np.maximum(*(np.abs(values) for values in noise.curvature(near, far)))
    bends = bend + np.take_along_axis(bend, heaviest, axis=1)
    turn = noise.turning(np.minimum(near, np.take_along_axis(near, heaviest, axis=1)))
    one_side = apart(np.sign(away)) == 0.0
    # in whole numbers: far out the differences of floats vanish
    between = np.abs(distribution.indices - distribution.indices[heaviest]) * grid
    bends = np.where(one_side, np.minimum(bends, between * turn), bends)
    vary = half * (apart(noise.score(away)) + 0.5 * half * bends)
    np.put_along_axis(vary, heaviest, 0.0, axis=1)
    weights: FloatArray = np.exp(logs - logs.max(axis=1, keepdims=True))
    return weights, np.minimum(vary, 600.0)
