r"""Channels that change least: which cell to release for which, as an optimum in whole numbers.

A channel W(y|x) is the solution of one linear program, by HiGHS. Let
:math:`q_s(y) = \sum_x p_s(x) W(y|x)` be the distribution of what is released under secret s. Each
output y keeps the budget of a family of distributions in one of two ways:

- epsilon alone, all pairs: one more variable m(y), with m <= q_s(y) <= e^epsilon m for every s;
- otherwise, for each ordered pair: q_s(y) - e^epsilon q_s'(y) <= v(y), where v = 0 under epsilon
  alone, and v >= 0 of sum at most delta under (epsilon, delta).

With a floor W(y|x) = b(y) + f(x, y) and 0 <= f <= (e^floor - 1) b. Rows of an output are divided by
its mass, so that outputs of very different mass look alike.

The solver is not trusted: its solution is turned into whole numbers that keep the budget. Let a(y)
be the excess of output y over its limits, each divided by what a row for all cells leaves to that
limit, and A their sum. Then :math:`(1 - t) W + t \, a/A` with :math:`t = A / (1 + A)` keeps them,
as :math:`(1 - t) a(y) \le t a(y) / A`; and that holds for all families, and for a floor, at once.
Under a delta a pair keeps the share of its excesses that delta allows, and a(y) covers the rest.
"""

# The certificate is computed elsewhere, by code that shares nothing with this. Its upper end is
# above the loss by at most (4 r + 8 epsilon + 160) ULP of either side, for r cells.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from math import exp, isqrt
from typing import Any

import numpy as np
from scipy import sparse

from sklearn_puffer._base import ULP, Array, FloatArray, IntArray, solved
from sklearn_puffer._noise import WHOLE, IntegerRows

Sparse = Any  # scipy's sparse arrays, of any format

_MOST_CELLS, _MOST_WITH_FLOOR = 256, 100
_MOST_ENTRIES = 1 << 19  # cells squared times rows that hold the budget of an output
_INSIDE = 1e-6  # share of e^epsilon - 1, of delta and of e^floor - 1 that the solver does not get
_LARGEST = 1e6  # of e^epsilon: beyond, tolerances are all that counts, and hardly a row moves

_LARGEST_EPSILON = 600.0  # e^600 times 2^62 is a float; a smaller budget is a sound one
_ROUNDING = 2.0**-52 * 64.0  # for each cell: the relative error of rounding shares to whole numbers
_LEAST = 2.0**-44  # of a row that is mixed in, so that it is many whole numbers
_SHARES = (1.0 - 1e-9, 1.0 - 1e-3, 0.5)  # of delta that is used, one after the other


@dataclass(frozen=True, eq=False)
class Family:
    """Distributions of the secrets of one sensitive column, for one adversary.

    Attributes
    ----------
    masses : ndarray of int64 or of Python's int of shape (k, n)
        Distribution s is masses[s] / masses[s].sum().
    pairs : ndarray of intp of shape (n_pairs, 2) or None
        The protected pairs, without order; None for all of them.
    """

    masses: IntArray
    pairs: Array | None = None

    @cached_property
    def distributions(self) -> FloatArray:
        """The distributions p_s, shape (k, n)."""
        shares = self.masses / self.masses.sum(axis=1, keepdims=True)
        return np.asarray(shares, dtype=np.float64)

    @cached_property
    def ordered_pairs(self) -> Array:
        """The protected pairs in both orders, shape (2 n_pairs, 2)."""
        if self.pairs is None:
            every = list(permutations(range(len(self.masses)), 2))
            return np.array(every, dtype=np.intp).reshape(-1, 2)
        pairs = np.asarray(self.pairs, dtype=np.intp)
        return np.concatenate([pairs, pairs[:, ::-1]])


@dataclass(frozen=True, eq=False)
class ChannelProblem:
    """Find W(y|x) of least expected cost for which every protected pair keeps the budget.

    Attributes
    ----------
    families : sequence of Family
        The guarantee holds within each.
    weights : ndarray of shape (n,)
        The distribution pi of the cells over which the cost is averaged; it sums to 1.
    costs : ndarray of shape (n, n)
        The cost of releasing cell y in place of x: never negative, 0 for itself.
    epsilon, delta : float
        The budget.
    floor : float or None
        The most that a release may tell to anyone: W(y|x) <= e^floor W(y|x').
    """

    families: Sequence[Family]
    weights: FloatArray
    costs: FloatArray
    epsilon: float
    delta: float = 0.0
    floor: float | None = None

    @property
    def n_cells(self) -> int:
        """How many cells there are."""
        return len(self.weights)


def most_cells(n_rows: int, *, floor: bool) -> int:
    """Return the most cells for which a program was solved in about ten seconds.

    Parameters
    ----------
    n_rows : int
        The rows that hold the budget of an output: distributions, or ordered pairs where they are
        more.
    floor : bool
        Whether there is a floor.

    Examples
    --------
    >>> most_cells(2, floor=False), most_cells(40, floor=False), most_cells(2, floor=True)
    (256, 114, 100)
    """
    most = _MOST_WITH_FLOOR if floor else _MOST_CELLS
    return min(most, isqrt(_MOST_ENTRIES // max(n_rows, 1)))


# ------------------------------------------------------------------------------------ the program


def find_channel(problem: ChannelProblem) -> FloatArray:
    """Return the solver's W(y|x) of least cost within the budget, shape (n, n).

    `whole_rows`, which does not trust it, must turn it into whole numbers before anything is drawn.
    If the solver fails, every cell stays as it is.
    """
    n = problem.n_cells
    if n == 1:
        return np.eye(1)
    program = _Program(problem)
    answer = solved(
        program.objective, most=(program.matrix, program.sides), equal=(program.sums, np.ones(n))
    )
    if answer is None:
        return np.eye(n)
    return np.asarray(program.shares @ answer.x).reshape(n, n)


class _Program:
    """Variables: W of each arc from cell x to y, or its f and b; then those of each family."""

    def __init__(self, problem: ChannelProblem) -> None:
        self.problem = problem
        self.n = n = problem.n_cells
        self.xs, self.ys = np.indices((n, n)).reshape(2, -1)  # where each arc starts and ends

    @cached_property
    def _bases(self) -> Sparse:
        """The b(y) of each arc, shape (n_arcs, n); none without a floor."""
        if self.problem.floor is None:
            return sparse.csr_array((self.n**2, 0))
        where = (np.arange(self.n**2), self.ys)
        return sparse.csr_array((np.ones(self.n**2), where))

    @cached_property
    def _of_arcs(self) -> Sparse:
        """W of each arc from its variables: f + b."""
        return sparse.hstack([sparse.eye_array(self.n**2), self._bases], format="csr")

    @cached_property
    def shares(self) -> Sparse:
        """W of each arc from all variables."""
        nothing = sparse.csr_array((self.n**2, self.matrix.shape[1] - self._of_arcs.shape[1]))
        return sparse.hstack([self._of_arcs, nothing], format="csr")

    @cached_property
    def objective(self) -> FloatArray:
        """What each variable costs, in units of the largest cost of an arc."""
        costs = self.problem.weights[self.xs] * self.problem.costs.ravel()
        return np.asarray(self.shares.T @ (costs / (costs.max() or 1.0)), dtype=np.float64)

    @cached_property
    def sums(self) -> Sparse:
        """The rows that sum to 1."""
        where = (self.xs, np.arange(self.n**2))
        return sparse.csr_array((np.ones(self.n**2), where)) @ self.shares

    @cached_property
    def matrix(self) -> Sparse:
        """The rows of the budget, and of the floor, over all variables."""
        parts = [self._budget(family) for family in self.problem.families]
        arcs = sparse.vstack([of_arcs for of_arcs, _ in parts]) @ self._of_arcs
        rows = [sparse.hstack([arcs, sparse.block_diag([others for _, others in parts])])]
        if self.problem.floor is not None:
            gain = (1.0 - _INSIDE) * (exp(min(self.problem.floor, 14.0)) - 1.0)
            floor = sparse.hstack([sparse.eye_array(self.n**2), -gain * self._bases])
            floor.resize(self.n**2, rows[0].shape[1])  # it has no variables of families
            rows.append(floor)
        return sparse.csr_array(sparse.vstack(rows))

    @cached_property
    def sides(self) -> FloatArray:
        """The right-hand sides: delta in the rows of sums, 0 elsewhere."""
        delta = (1.0 - _INSIDE) * self.problem.delta
        sides = []
        for family in self.problem.families:
            if self._is_pure(family):
                sides.append(np.zeros(2 * len(family.masses) * self.n))
            else:
                n_pairs = len(family.ordered_pairs)
                sides.append(np.zeros(n_pairs * self.n))
                sides.append(np.full(n_pairs if delta else 0, delta))
        held = np.concatenate(sides)
        return np.append(held, np.zeros(self.matrix.shape[0] - len(held)))

    def _is_pure(self, family: Family) -> bool:
        """Whether all pairs keep epsilon alone, so that one variable lies between."""
        k = len(family.masses)
        return self.problem.delta == 0.0 and len(family.ordered_pairs) == k * (k - 1)

    def _budget(self, family: Family) -> tuple[Sparse, Sparse]:
        """Return the rows of a family over arcs, and over its own variables."""
        growth = 1.0 + (min(exp(min(self.problem.epsilon, 700.0)), _LARGEST) - 1.0) * (1 - _INSIDE)
        released, k = self._released(family), len(family.masses)
        if self._is_pure(family):
            middle = sparse.vstack([sparse.eye_array(self.n)] * k)
            return _below(released, -released), _below(-growth * middle, middle)
        pairs = family.ordered_pairs
        signs = np.eye(k)[pairs[:, 0]] - growth * np.eye(k)[pairs[:, 1]]
        differences = sparse.kron(signs, sparse.eye_array(self.n)) @ released
        if self.problem.delta == 0.0:
            return differences, sparse.csr_array((differences.shape[0], 0))
        sums = sparse.kron(sparse.eye_array(len(pairs)), self._masses(family)[None])
        nothing = sparse.csr_array((len(pairs), released.shape[1]))
        return _below(differences, nothing), _below(-sparse.eye_array(differences.shape[0]), sums)

    def _masses(self, family: Family) -> FloatArray:
        """Return what the rows of each output are divided by."""
        masses = family.distributions.mean(axis=0) + self.problem.weights
        return np.where(masses > 0.0, masses, 1.0)

    def _released(self, family: Family) -> Sparse:
        """Return q_s(y) over arcs, divided by the mass of y: s-major."""
        masses, where = self._masses(family)[self.ys], (self.ys, np.arange(self.n**2))
        rows = [
            sparse.csr_array((distribution[self.xs] / masses, where))
            for distribution in family.distributions
        ]
        return sparse.csr_array(sparse.vstack(rows))


def _below(upper: Sparse, lower: Sparse) -> Sparse:
    return sparse.csr_array(sparse.vstack([upper, lower]))


# ---------------------------------------------------------------------------------- whole numbers


def whole_rows(problem: ChannelProblem, channel: FloatArray) -> IntegerRows:
    r"""Return a channel in parts of 2^62, changed so that it keeps its budget.

    Parameters
    ----------
    problem : ChannelProblem
    channel : ndarray of shape (n, n)
        W(y|x), which may exceed the budget by any amount.

    Returns
    -------
    IntegerRows
        Each row sums to 2^62.

    Raises
    ------
    ValueError
        If the budget is smaller than what rounding leaves of it.

    Notes
    -----
    *Formal guarantees.* The returned rows keep every limit :math:`q_s(y) \le e^{\varepsilon}
    q_{s'}(y)` with room for the rounding of their certificate (or, under a delta, the sum of the
    excesses), and the floor. This is checked last, on the returned rows. Where nothing else helps,
    all cells become one cell.

    Examples
    --------
    >>> distribution = np.array([[3, 1], [1, 3]])
    >>> costs = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> problem = ChannelProblem([Family(distribution)], np.array([0.5, 0.5]), costs, epsilon=1.0)
    >>> rows = whole_rows(problem, np.eye(2))  # log 3 is more than the budget
    >>> (rows.shares / 2**62).round(3).tolist()
    [0.962, 0.038, 0.038, 0.962]
    """
    limits = _Limits(problem)
    shares = _cleaned(channel)
    for share in _SHARES:
        whole = _rounded(*_mixed(limits, shares, share))
        if limits.kept(whole):
            return _compressed(whole)
    whole = np.zeros(channel.shape, dtype=np.int64)
    whole[:, np.argmin(problem.weights @ problem.costs)] = WHOLE
    if limits.kept(whole):
        return _compressed(whole)
    raise ValueError(
        f"epsilon={problem.epsilon!r} is too small for any channel, or for what rounding leaves "
        "of it; allow more."
    )


class _Limits:
    """The limits of each output, q_first <= factor q_second, in all families."""

    def __init__(self, problem: ChannelProblem) -> None:
        self.problem = problem
        distributions = [family.distributions for family in problem.families]
        before = np.cumsum([0, *map(len, distributions[:-1])])
        pairs = [f.ordered_pairs + n for f, n in zip(problem.families, before, strict=True)]
        self.distributions = np.concatenate(distributions)  # (K, n), family after family
        self.first, self.second = np.concatenate(pairs).reshape(-1, 2).T.astype(np.intp)
        self.factor = exp(min(problem.epsilon, _LARGEST_EPSILON)) * (1.0 - 4.0 * ULP)

    @property
    def room(self) -> float:
        """The relative room that each side of a limit leaves to the certificate."""
        epsilon = min(self.problem.epsilon, _LARGEST_EPSILON)
        return (160.0 + 8.0 * epsilon + 4.0 * self.problem.n_cells) * ULP

    def excess(self, shares: FloatArray, room: float, lowered: float = 0.0) -> FloatArray:
        """Return an upper bound of the excess over each limit at each output, shape (P, n).

        Each share may be lowered by ``lowered`` later.
        """
        most = (1.0 + room) * self.distributions @ shares
        least = (1.0 - room) * self.distributions @ shares
        least -= lowered * (self.distributions @ (shares > 0.0))
        excess: FloatArray = most[self.first] - self.factor * least[self.second]
        return excess

    def gain(self) -> FloatArray:
        """Return what a row for all cells leaves to each limit, shape (P,)."""
        masses = np.asfortranarray(self.distributions).sum(axis=1)  # cell after cell
        room = self.room + _ROUNDING * self.problem.n_cells
        least = (1.0 - room) * self.factor * masses[self.second]
        return np.asarray(least - (1.0 + room) * masses[self.first], dtype=np.float64)

    def kept(self, whole: IntArray) -> bool:
        """Return whether rows in parts of 2^62 keep budget and floor."""
        shares = whole / WHOLE
        beyond = np.maximum(self.excess(shares, self.room), 0.0).sum(axis=1)
        most = (1.0 - 1e-12) * self.problem.delta
        uneven = _uneven(self.problem.floor, whole.astype(float), 8.0 * ULP)
        return bool((beyond <= most).all()) and not (uneven > 0.0).any()


def _uneven(floor: float | None, shares: FloatArray, room: float) -> FloatArray:
    """Return an upper bound of the excess of each output over the floor."""
    if floor is None:
        return np.zeros(shares.shape[1])
    factor = exp(min(floor, _LARGEST_EPSILON)) * (1.0 - 32.0 * ULP)
    most, least = shares.max(axis=0), shares.min(axis=0)
    return np.asarray((1.0 + room) * most - factor * (1.0 - room) * least)


def _cleaned(channel: FloatArray) -> FloatArray:
    """Return rows of sum 1; a row without shares becomes that of a cell that stays."""
    kept = np.isfinite(channel) & (channel > 0.0)
    shares = np.where(kept, np.minimum(channel, 1.0), 0.0)
    shares[~kept.any(axis=1)] = np.eye(len(channel))[~kept.any(axis=1)]
    shares /= shares.max(axis=1, keepdims=True)  # whose sums are no subnormal numbers
    normed: FloatArray = shares / shares.sum(axis=1, keepdims=True)
    return normed


def _mixed(limits: _Limits, shares: FloatArray, share: float) -> tuple[FloatArray, IntArray]:
    """Return what is left of the rows, and what is added to each row, in parts of 2^62."""
    room = limits.room + _ROUNDING * len(shares)
    excess = np.maximum(limits.excess(shares, room, 2.0 / WHOLE), 0.0)
    totals = excess.sum(axis=1)
    spent = share * limits.problem.delta
    spared = np.divide(spent, totals, out=np.ones(len(totals)), where=totals > 0.0)
    needed = excess * np.maximum(1.0 - spared, 0.0)[:, None]
    beyond = _beyond(limits, needed, shares, room)
    total = float(beyond.sum())
    if not 0.0 < total < np.inf:
        return shares, np.zeros(shares.shape, dtype=np.int64)
    part = total / (1.0 + total)
    more = np.ceil(part * WHOLE * (beyond / total)).astype(np.int64)
    return shares * (1.0 - part), np.broadcast_to(more, shares.shape)


def _beyond(limits: _Limits, needed: FloatArray, shares: FloatArray, room: float) -> FloatArray:
    """Return a(y) of the outputs: infinite where a constant row gains nothing."""
    gain, floor = limits.gain()[:, None], limits.problem.floor
    never = np.inf if limits.problem.delta == 0.0 else 0.0  # one more excess that is added up
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(needed > 0.0, np.where(gain > 0.0, needed / gain, never), 0.0)
    beyond: FloatArray = parts.max(axis=0, initial=0.0)
    if floor is not None:
        even = exp(min(floor, _LARGEST_EPSILON)) * (1.0 - room) - (1.0 + room)
        uneven = _uneven(floor, shares, room)
        spare = np.where(uneven > 0.0, uneven / even if even > 0.0 else np.inf, 0.0)
        beyond = np.maximum(beyond, spare)
    return np.where(beyond > 0.0, np.maximum(beyond, _LEAST), 0.0)


def _rounded(left: FloatArray, more: IntArray) -> IntArray:
    """Return rows that sum to 2^62: their largest share makes up for the rest."""
    whole: IntArray = np.floor(left * WHOLE).astype(np.int64) + more
    whole[np.arange(len(whole)), whole.argmax(axis=1)] += WHOLE - whole.sum(axis=1)
    return whole


def _compressed(whole: IntArray) -> IntegerRows:
    cells, targets = whole.nonzero()
    starts = np.append(0, np.cumsum(np.bincount(cells, minlength=len(whole))))
    return IntegerRows(starts, targets, whole[cells, targets])
