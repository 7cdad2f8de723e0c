"""Couplings of two priors from integer counts, and what is read off them.

A coupling is a joint distribution of X ~ P(X | s_i) and X' ~ P(X | s_j). Every coupling gives a
valid bound on the privacy loss; a better one needs less noise. Its marginals must be exact: all
masses are integers over the least common multiple of the two totals.

A bottleneck flow minimises the largest cost, over integers of any size.

*Mixtures.* A coupling of the components of two mixtures is one of the mixtures: within a coupled
pair the monotone map moves one Gaussian onto the other, so that in one column X - X' = dmu + dsd Z
with Z standard normal. Weights are read as in `priors.rational_counts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import lcm
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from sklearn_puffer._base import Array, FloatArray, IntArray, Integers
from sklearn_puffer._numerics import solved
from sklearn_puffer.noise import Noise
from sklearn_puffer.priors import GaussianMixture, PriorPair, rational_counts

#: Largest number of cells (atoms of p times atoms of q) of a pair whose bottleneck is searched for.
BOTTLENECK_CELLS = 2**22
#: The same over all pairs together; beyond it pairs keep a north-west coupling.
BOTTLENECK_WORK = 2**23

_INT64 = 2**62  # sums below it leave room for one more addition
_OVERHEAD = 2**14  # cells that take as long as the fixed part of a pair's search


@dataclass(frozen=True, eq=False)
class Couplings:
    """One coupling for each pair of priors, as flat arrays of entries sorted by pair.

    Attributes
    ----------
    pairs : sequence of PriorPair
    sources, targets : ndarray of int of shape (n_entries,)
        Position of the atom of ``p`` and of ``q`` among those of all pairs, one pair after another.
    masses : ndarray of shape (n_entries,)
        Positive integers (int64, or Python integers where those are too small); those of one pair
        add up to lcm(p.total, q.total).
    shifts : ndarray of shape (n_entries, d)
        x - x', what the entry moves by.
    starts : ndarray of int of shape (n_pairs,)
        First entry of each pair.
    """

    pairs: Sequence[PriorPair]
    sources: Array
    targets: Array
    masses: Array
    shifts: FloatArray
    starts: Array

    def of_pair(self, index: int) -> tuple[Array, Array, Array]:
        """Return one pair's sources and targets, as positions in its own priors, and masses."""
        stop = [*self.starts[index + 1 : index + 2], len(self.masses)][0]
        here = slice(self.starts[index], stop)
        p_first, q_first = (offsets[index] for offsets in self.offsets)
        return self.sources[here] - p_first, self.targets[here] - q_first, self.masses[here]

    @cached_property
    def owners(self) -> Array:
        """The pair of each entry, shape (n_entries,)."""
        lengths = np.diff(self.starts, append=len(self.masses))
        return np.repeat(np.arange(len(self.starts)), lengths)

    @cached_property
    def offsets(self) -> tuple[Array, Array]:
        """Position of the first atom of ``p``, and of ``q``, of each pair."""
        p_sizes, q_sizes = ([len(pair[side].atoms) for pair in self.pairs] for side in (0, 1))
        return np.cumsum(p_sizes) - p_sizes, np.cumsum(q_sizes) - q_sizes


def monotone(pairs: Sequence[PriorPair]) -> Couplings:
    r"""Couple the quantiles of p and q: the north-west corner rule along the sorted atoms.

    .. math:: \pi = \operatorname{distribution}(F^{-1}(U), G^{-1}(U)), \quad U \text{ uniform}

    In one column it has the smallest maximal distance of all couplings, and the smallest mean
    distance. In several columns atoms are sorted by the first column, then the second, and so on.
    A pair of m and n atoms has at most m + n - 1 entries.

    >>> from sklearn_puffer.priors import Discrete
    >>> p, q = Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75])
    >>> [column.tolist() for column in monotone([PriorPair(p, q)]).of_pair(0)]
    [[0, 0, 1], [0, 1, 1], [1, 1, 2]]
    """
    return _finish(pairs, _north_west(_sides(pairs)))


def ground_cost(noise: Noise, shifts: FloatArray) -> FloatArray:
    r"""Return how costly shifts (..., d) are under the noise: what couplings of rows keep small.

    .. math:: D_\infty(K \| K(\cdot - z)) \text{ where that is finite, else } D_2(K \| K(\cdot - z))

    For Laplace noise it is the weighted l1 norm of the shift; for Gaussian noise the square of its
    weighted l2 norm; for Cauchy kinds :math:`\sum_k k \operatorname{asinh}(|z_k| / (2 s_k))`, where
    a norm would not do: the loss of one long move is less than that of many short ones. It never
    falls when a shift grows in some column.

    >>> from sklearn_puffer.noise import Gaussian, Laplace
    >>> shifts = np.array([[3.0, 4.0]])
    >>> ground_cost(Laplace(), shifts).tolist(), ground_cost(Gaussian(), shifts).tolist()
    ([7.0], [25.0])
    """
    unit = noise.axis_scales(shifts.shape[-1])
    with np.errstate(over="ignore"):
        if np.isfinite(noise.max_divergence(unit)):
            return noise.max_divergence(shifts)
        return noise.renyi_divergence(shifts, 2.0)


def couplings(pairs: Sequence[PriorPair], noise: Noise) -> list[Couplings]:
    """Return the couplings that are tried, the one with the smallest largest shift first.

    One column of numbers, or a single atom on one side of every pair: the monotone coupling, which
    is the best and in the second case the only one. Elsewhere: a bottleneck coupling for the
    `ground_cost` of the noise, then north-west couplings along several orders, for pairs too large
    for the first.
    """
    natural = monotone(pairs)
    axes = pairs[0].p.n_axes
    in_line = axes == 1 and not any(noise.mixings)
    if in_line or all(min(np.count_nonzero(side.counts) for side in pair) == 1 for pair in pairs):
        return [natural]
    # orders of the rows: along the axes that spread most, and along their weighted sum
    rows = np.concatenate([side.rows for pair in pairs for side in pair])
    scales = noise.axis_scales(axes)
    order = np.argsort(-np.ptp(rows, axis=0) / scales, kind="stable")
    leading = [axis for axis in order[:3] if axis != 0]
    directions = (*np.eye(axes)[leading], 1.0 / scales)
    north_west = [natural, *(_along(pairs, direction) for direction in directions)]
    return [bottleneck(pairs, noise, north_west), *north_west]


class _Sides(NamedTuple):
    """The atoms of p and of q of all pairs, one pair after another, over each pair's common total.

    ``owners`` name the pair of each atom; along an order, both sides are sorted within each pair.
    """

    rows: tuple[FloatArray, FloatArray]
    masses: tuple[Integers, Integers]
    owners: tuple[Array, Array]

    def ordered(self, p: Array, q: Array) -> _Sides:
        """Return the atoms in another order."""
        return _Sides(*((of_p[p], of_q[q]) for of_p, of_q in self))


class _Entries(NamedTuple):
    sources: Array
    targets: Array
    masses: Integers


def _along(pairs: Sequence[PriorPair], direction: FloatArray) -> Couplings:
    """Couple the quantiles of all pairs along a direction."""
    sides = _sides(pairs)
    columns = zip(sides.rows, sides.owners, strict=True)
    p, q = (np.lexsort((rows @ direction, owner)) for rows, owner in columns)
    entries = _north_west(sides.ordered(p, q))
    return _finish(pairs, _Entries(p[entries.sources], q[entries.targets], entries.masses))


def _finish(pairs: Sequence[PriorPair], entries: _Entries) -> Couplings:
    rows = [_joined([pair[side].rows for pair in pairs]) for side in (0, 1)]
    # numpy is fastest at taking by its own kind of index
    shifts = rows[0].take(entries.sources.astype(np.intp), axis=0)
    shifts -= rows[1].take(entries.targets.astype(np.intp), axis=0)
    ends = np.cumsum([len(pair.p.atoms) for pair in pairs])
    owners = np.searchsorted(ends, entries.sources, side="right") if len(pairs) > 1 else None
    starts = np.zeros(1, dtype=int) if owners is None else first_of_each(owners)
    return Couplings(pairs, *entries, shifts=shifts, starts=starts)


def first_of_each(owners: Array) -> Array:
    """Return where each run of equal numbers begins."""
    new = np.ones(len(owners), dtype=bool)
    np.not_equal(owners[1:], owners[:-1], out=new[1:])
    return np.flatnonzero(new)


def _sides(pairs: Sequence[PriorPair]) -> _Sides:
    totals = [lcm(pair.p.total, pair.q.total) for pair in pairs]
    kind: Any = np.int64 if sum(totals) < _INT64 else object
    rows, masses, owners = [], [], []
    for side in (0, 1):
        priors = [pair[side] for pair in pairs]
        owner = np.repeat(
            np.arange(len(pairs), dtype=np.int32), [len(prior.atoms) for prior in priors]
        )
        scales = [total // prior.total for total, prior in zip(totals, priors, strict=True)]
        counts = _joined([prior.counts for prior in priors]).astype(kind, copy=False)
        scale = np.array(scales, dtype=kind)
        masses.append(counts * (scale[0] if len(pairs) == 1 else scale[owner]))
        rows.append(_joined([prior.rows for prior in priors]))
        owners.append(owner)
    return _Sides((rows[0], rows[1]), (masses[0], masses[1]), (owners[0], owners[1]))


def _joined(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _north_west(sides: _Sides) -> _Entries:
    """Cut the unit interval at all breakpoints of both cumulative sums, all pairs laid end to end.

    Both sums run over all pairs and meet exactly at each pair's end, so no entry leaves its pair.
    """
    # fresh memory costs more than the arithmetic: sums go into place, and positions are short
    p, q = sides.masses
    ends = np.empty(len(p) + len(q), dtype=p.dtype)
    np.cumsum(p, out=ends[: len(p)])
    np.cumsum(q, out=ends[len(p) :])
    order = np.argsort(ends, kind="stable")  # two sorted runs: one linear merge
    ends = ends.take(order)
    masses = ends.copy()
    masses[1:] -= ends[:-1]
    # a piece belongs to the atom after as many as have their breakpoint before the piece's end
    from_p = order < len(p)
    kind = np.int32 if len(order) < 2**31 else np.int64
    before_p: Array = np.cumsum(from_p, dtype=kind)
    before_p -= from_p
    before_q = np.arange(len(order), dtype=kind) - before_p
    # both sides end together, and mostly nowhere else: then only the last piece is empty
    real = masses > 0
    chosen = slice(-1) if real[:-1].all() else real
    return _Entries(before_p[chosen], before_q[chosen], masses[chosen])


def bottleneck(pairs: Sequence[PriorPair], noise: Noise, known: Sequence[Couplings]) -> Couplings:
    r"""Couple each pair so that the largest `ground_cost` of a move is as small as possible.

    .. math:: \min_\pi \max_{(x, x') \in \mathrm{supp}\,\pi} \mathrm{cost}(x - x')

    The first coupling that is known serves pairs above ``BOTTLENECK_CELLS``, and those beyond
    ``BOTTLENECK_WORK`` in the order of their smallest largest cost, costliest first. The smallest
    feasible threshold is found by bisection over the distinct costs; below it, mass is moved as
    little as the coarser thresholds tried on the way allow.
    """
    chosen = _affordable(pairs, noise, known)
    parts = []
    p_first, q_first = known[0].offsets
    for k, pair in enumerate(pairs):
        sources, targets, masses = _bottleneck(pair, noise) if k in chosen else known[0].of_pair(k)
        parts.append((sources + p_first[k], targets + q_first[k], masses))
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _finish(pairs, _Entries(*columns))


def _affordable(pairs: Sequence[PriorPair], noise: Noise, known: Sequence[Couplings]) -> set[int]:
    """Return the pairs to search: the costliest, for they decide how much noise is needed."""
    costs = [
        np.maximum.reduceat(ground_cost(noise, coupled.shifts), coupled.starts) for coupled in known
    ]
    cells = np.array([len(pair.p.atoms) * len(pair.q.atoms) for pair in pairs])
    order = np.argsort(-np.min(costs, axis=0), kind="stable")
    order = order[cells[order] <= BOTTLENECK_CELLS]
    work = np.cumsum(cells[order] + _OVERHEAD)
    return set(order[work <= BOTTLENECK_WORK].tolist())


def _bottleneck(pair: PriorPair, noise: Noise) -> _Entries:
    sides = _sides([pair])
    alive = [np.flatnonzero(masses > 0) for masses in sides.masses]
    rows = [side[kept] for side, kept in zip(sides.rows, alive, strict=True)]
    costs = np.stack([ground_cost(noise, row - rows[1]) for row in rows[0]])
    supply, demand = (masses[kept] for masses, kept in zip(sides.masses, alive, strict=True))
    flow = Network(costs, supply, demand).bottleneck_flow()
    i, j = np.nonzero(flow)
    return _Entries(alive[0][i], alive[1][j], flow[i, j])


_FLOW = 2**30  # scipy's maximum flow counts in 32 bits


@dataclass(frozen=True, eq=False)
class Network:
    """Supplies, demands and the cost of each arc between them, (m, n); flows are exact integers.

    >>> costs = np.array([[0.0, 2.0], [1.0, 0.0]])
    >>> Network(costs, np.array([1, 2]), np.array([2, 1])).bottleneck_flow().tolist()
    [[1, 0], [1, 1]]
    """

    costs: FloatArray
    supply: Integers
    demand: Integers

    def bottleneck_flow(self) -> Integers:
        """Return a complete flow whose largest cost is the smallest possible, shape (m, n)."""
        needed = max(self.costs.min(axis=1).max(), self.costs.min(axis=0).max())
        levels = np.unique(self.costs[self.costs >= needed])
        # most often some atom's nearest partner decides, so the first level is tried first
        low, high, middle = 0, len(levels) - 1, 0
        largest = nothing = np.zeros(self.costs.shape, dtype=self.supply.dtype)
        while low < high:
            flow = self.flow(float(levels[middle]), largest)
            if flow.sum() == self.supply.sum():
                high = middle
            else:
                low, largest = middle + 1, flow
            middle = (low + high) // 2
        # now fill up from below, so that mass moves far only where it must
        below = np.unique(self.costs[self.costs < levels[high]])
        flow = nothing
        first = below[[0, len(below) // 4, len(below) // 2]].tolist() if len(below) else []
        for level in (*first, float(levels[high])):
            flow = self.flow(level, flow)
        return flow

    def flow(self, threshold: float, flow: Integers) -> Integers:
        """Enlarge ``flow`` to a maximum one over the arcs of at most ``threshold``.

        scipy counts in 32 bits, so amounts are taken in units: what remains is first sent in
        large ones, and what their rounding left behind in ever smaller ones, down to single counts.
        Some cut has less than one unit of room on each of its arcs once no further unit can be
        sent; if more than that remains, no complete flow exists.
        """
        i, j = np.nonzero(self.costs <= threshold)
        arcs = len(i) + sum(self.costs.shape)
        remaining = int(self.supply.sum()) - int(flow.sum())
        unit = 0
        while remaining and unit != 1 and (unit == 0 or remaining <= arcs * unit):
            unit = max(1, -(-remaining // _FLOW))
            flow = flow + unit * self._augment(i, j, flow, unit)
            remaining = int(self.supply.sum()) - int(flow.sum())
        return flow

    def _augment(self, i: Array, j: Array, flow: Integers, unit: int) -> Integers:
        """Return the change, in units, that a maximum flow in the residual network makes."""
        m, n = self.costs.shape
        room = [
            _units(self.supply - flow.sum(axis=1), unit),
            _units(self.demand - flow.sum(axis=0), unit),
            np.full(len(i), _FLOW),
            _units(flow[i, j], unit),
        ]
        sources, targets = np.arange(m) + 2, np.arange(n) + m + 2
        tails = np.concatenate([np.zeros(m, int), targets, i + 2, j + m + 2])
        heads = np.concatenate([sources, np.ones(n, int), j + m + 2, i + 2])
        amounts = np.concatenate(room)
        used = amounts > 0
        size = m + n + 2
        arcs = amounts[used].astype(np.int32), (tails[used], heads[used])
        graph = csr_array(arcs, shape=(size, size))
        net = maximum_flow(graph, 0, 1).flow[i + 2, j + m + 2]
        change = np.zeros((m, n), dtype=self.supply.dtype)
        change[i, j] = np.asarray(net).ravel().astype(np.int64)
        return change


def _units(amounts: Integers, unit: int) -> Array:
    return np.asarray(np.minimum(amounts // unit, _FLOW).astype(np.int64))


@dataclass(frozen=True, eq=False)
class ComponentCoupling:
    """A coupling of the components of p and q, as its entries of positive mass.

    Attributes
    ----------
    sources, targets : ndarray of shape (m,)
        Components of p and of q.
    masses : ndarray of shape (m,)
        Positive Python integers, which have exact marginals.
    shifts : ndarray of shape (m, d)
        Differences of the means.
    stretches : ndarray of shape (m,)
        In one column ``|sd_i - sd_j|``. For rows 0 where the covariances are equal, and otherwise
        infinite: X - X' then is no translation.
    """

    sources: IntArray
    targets: IntArray
    masses: Integers
    shifts: FloatArray
    stretches: FloatArray

    @cached_property
    def weights(self) -> FloatArray:
        """The masses over their total, each the nearest float."""
        total = self.masses.sum()
        return np.array([mass / total for mass in self.masses.tolist()])

    def matrix(self) -> FloatArray:
        """Return the weights as a matrix, a row for each component of p."""
        dense = np.zeros((int(self.sources.max()) + 1, int(self.targets.max()) + 1))
        dense[self.sources, self.targets] = self.weights
        return dense


def squared_distances(p: GaussianMixture, q: GaussianMixture) -> FloatArray:
    r"""Return the squared W_2 distances between components, shape (k, l).

    .. math:: |\mu_m - \mu_l|^2 + \mathrm{tr}(A + B - 2 (A^{1/2} B A^{1/2})^{1/2})

    The second term is (sd_m - sd_l)^2 in one column.

    >>> p = GaussianMixture([1.0], [0.0], [1.0])
    >>> squared_distances(p, GaussianMixture([0.5, 0.5], [3.0, 0.0], [1.0, 3.0])).tolist()
    [[9.0, 4.0]]
    """
    if p.means.ndim == 1:
        stretched = np.square(p.scales[:, None] - q.scales[None])
    else:
        stretched = np.array([[_bures(a, b) for b in q.scales] for a in p.scales])
    return np.asarray(np.square(p.rows[:, None] - q.rows[None]).sum(axis=-1) + stretched)


def _bures(a: FloatArray, b: FloatArray) -> float:
    if np.array_equal(a, b):
        return 0.0
    root = root_of(a)
    shared = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ b @ root), 0.0)).sum()
    return max(float(np.trace(a) + np.trace(b) - 2.0 * shared), 0.0)


def root_of(matrix: FloatArray) -> FloatArray:
    """Return the symmetric square root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T)


def stretches(p: GaussianMixture, q: GaussianMixture) -> FloatArray:
    """Return by how much each component has to stretch to become another, shape (k, l).

    Zero where one is a translation of the other; for rows infinite where it is not.
    """
    if p.means.ndim == 1:
        return np.asarray(np.abs(p.scales[:, None] - q.scales[None]))
    return np.array([[0.0 if np.array_equal(a, b) else np.inf for b in q.scales] for a in p.scales])


def shortest_coupling(p: GaussianMixture, q: GaussianMixture) -> ComponentCoupling:
    """Return the coupling of the smallest mean squared W_2 distance (003, Eq. 12)."""
    return cheapest_coupling(p, q, squared_distances(p, q))


def cheapest_coupling(
    p: GaussianMixture, q: GaussianMixture, costs: FloatArray
) -> ComponentCoupling:
    """Return the coupling of the smallest mean of ``costs`` (k, l), which are finite.

    It is optimal up to the tolerance of the solver; a coarser one only costs noise. Its marginals
    are exact: integers flow through the cells of the optimum, which are a forest, and what is left
    for the solver's rounding goes through the cheapest of the others that do.

    >>> p = GaussianMixture([0.25, 0.75], [0.0, 5.0], [1.0, 1.0])
    >>> cheapest_coupling(p, p, np.array([[0.0, 1.0], [1.0, 0.0]])).matrix().tolist()
    [[0.25, 0.0], [0.0, 0.75]]
    """
    unit = float(costs.max()) or 1.0
    first = np.where(_solved(p, q, costs / unit) > 0.0, 0.0, 1.0 + costs / unit)
    return _coupling(p, q, Network(first, *_supplies_and_demands(p, q)).bottleneck_flow())


def bottleneck_coupling(
    p: GaussianMixture, q: GaussianMixture, costs: FloatArray
) -> ComponentCoupling | None:
    """Return a coupling of the smallest maximum of ``costs`` (k, l), or None if that is infinite.

    >>> p = GaussianMixture([0.5, 0.5], [0.0, 1.0], [1.0, 2.0])
    >>> q = GaussianMixture([0.5, 0.5], [1.0, 0.0], [2.0, 1.0])
    >>> apart = np.where(stretches(p, q) > 0.0, np.inf, 1.0)
    >>> bottleneck_coupling(p, q, apart).shifts.ravel().tolist()
    [0.0, 0.0]
    """
    coupling = _coupling(p, q, Network(costs, *_supplies_and_demands(p, q)).bottleneck_flow())
    within = np.isfinite(costs[coupling.sources, coupling.targets])
    return coupling if within.all() else None


def _coupling(p: GaussianMixture, q: GaussianMixture, flow: Integers) -> ComponentCoupling:
    sources, targets = np.nonzero(flow)
    shifts, stretched = p.rows[sources] - q.rows[targets], stretches(p, q)[sources, targets]
    return ComponentCoupling(sources, targets, flow[sources, targets], shifts, stretched)


def _supplies_and_demands(p: GaussianMixture, q: GaussianMixture) -> list[Integers]:
    """Return both mixtures' weights as integers of the same total."""
    counts = [_integers(tuple(x.weights.tolist())) for x in (p, q)]
    total = lcm(*map(sum, counts))
    return [np.array([n * (total // sum(side)) for n in side], dtype=object) for side in counts]


@lru_cache(maxsize=256)  # it takes longer than the rest of a coupling
def _integers(weights: tuple[float, ...]) -> list[int]:
    return [int(count) for count in rational_counts(np.array(weights))]


def _solved(p: GaussianMixture, q: GaussianMixture, costs: FloatArray) -> FloatArray:
    """Return an approximate optimum of the transport problem, shape (k, l)."""
    n_rows, n_columns = costs.shape
    if min(costs.shape) == 1:
        return np.outer(p.weights, q.weights)
    rows = np.kron(np.eye(n_rows), np.ones(n_columns))
    columns = np.kron(np.ones(n_rows), np.eye(n_columns))[:-1]  # the last follows from the others
    marginals = np.concatenate([p.weights, q.weights[:-1]])
    optimum = solved(costs.ravel(), equal=(np.vstack([rows, columns]), marginals))
    return np.zeros_like(costs) if optimum is None else optimum.x.reshape(costs.shape)
