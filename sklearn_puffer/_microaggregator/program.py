r"""The channel between prototypes that changes least, over all masses that the counts allow.

A row of prototype a is released as b with probability K(b|a). Let :math:`f_a` be the share of
prototype a. One linear program minimises :math:`\sum_{a,b} f_a K(b|a) d(a, b)` over channels that
keep the share of every prototype, :math:`\sum_a f_a K(b|a) = f_b`, and for which

.. math:: U_s(b) \le e^{\varepsilon} L_t(b)

for every prototype b and protected pair. :math:`\sum_a m(a) K(b|a) \le U \sum_a m(a)` for all
masses in the boxes :math:`l \le m \le u`, :math:`p^- \le \sum_a m(a) \le p^+`, if and only if for
some real :math:`\mu` (linear duality)

.. math:: \sum_a \left[l(a) x_a + (u(a) - l(a)) (x_a)_+\right] + p^+ \mu_+ - p^- \mu_- \le 0,
          \qquad x_a = K(b|a) - U - \mu.

The constraint on L is the one on U with -K for K and -L for U. So both are one block of
constraints, with a sign.

To keep the program small, K(b|a) is a variable of its own only on a mask: where b is one of the
prototypes nearest to a, or one of the largest, or the reverse. Elsewhere :math:`K(b|a) = y_b`, one
variable for all such a, and one variable stands for the sum of their positive parts. The constant
channel, y = f, is always a solution.

The solver is not trusted. Its solution is rounded to whole numbers, and mixed with the constant
channel until the loss, computed exactly by other code, is within the budget.

*Masses.* Counts of secrets in prototypes give simultaneous confidence bounds on their masses.

Of n rows of prototype a, c have secret s. Given the public columns, their secrets are independent,
with unequal probabilities. Two-sided Clopper-Pearson bounds hold for the mean of these,

.. math:: B^{-1}_{e/2}(c, n - c + 1) \le q_s(a) \le B^{-1}_{1 - e/2}(c + 1, n - c),

since a sum of independent events of unequal probabilities has lighter tails than the binomial of
the same mean (Hoeffding 1956), with one exception. If the mean :math:`\mu` of the sum is below 1,
at least one event occurs with a probability of at most :math:`\mu`; if all are equally probable, of
:math:`1 - (1 - \mu/n)^n \ge 1 - e^{-\mu}`. So if c = 1 or c = n - 1, the error e of the bound is
lowered to :math:`2 (1 - e^{-e/2})`.

*New people.* The shares f are taken as counted, and among new people they differ by chance, with
the masses. So tables are drawn from the counted one (a parametric bootstrap), and the channel is
mixed with the constant one until it keeps the budget in all of them but a share of the error. That
is measured and not proven. Real tables change little by it, and few strata of many rows most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, expm1
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import betainccinv, betaincinv, ndtri

from sklearn_puffer._base import Array, BoolArray, FloatArray, IntArray
from sklearn_puffer._losses import MassBoxes, prototype_losses
from sklearn_puffer._noise import WHOLE, IntegerRows, seeded_entropy
from sklearn_puffer._numerics import solved

NEAREST, LARGEST = 60, 10
"""The mask: how many nearest and how many largest prototypes K(b|a) is a variable for."""

_MOST_ARCS = 14_400  # times blocks of constraints, solved in seconds; beyond, the mask is smaller
_FEWEST_NEAREST = 10

_SOLVER_MARGIN = 1e-9  # by which the solver gets less than e^epsilon, relatively
_LARGEST_RATIO = 1e6  # of e^epsilon in the program: a larger one is beyond its tolerances


ONE = 1 << 60
"""The sum of the masses of all secrets in all prototypes, as whole numbers."""

_LEAST_TABLES, _MOST_TABLES = 400, 4_000  # that are drawn
_BEYOND = 5.0  # of them may be beyond the budget at least, if they are no more than that

_OUTWARDS = 2.0**-40  # relative error allowed to quantiles of the beta distribution
_ERROR_OF_SHARES = 0.2  # part of the error for bounds on whole secrets; the rest is for prototypes


@dataclass(frozen=True, eq=False)
class SecretCounts:
    """Rows in each prototype, by protected secret: of everybody, or of one joined label.

    Attributes
    ----------
    counts : ndarray of int64 of shape (n_prototypes, n_secrets)
        Rows of each secret that a protected pair names, at least two.
    sizes : ndarray of int64 of shape (n_prototypes,)
        All rows of each prototype, those of secrets without a pair included.
    pairs : ndarray of intp of shape (n_pairs, 2)
        The protected pairs, as columns of ``counts``.
    """

    counts: IntArray
    sizes: IntArray
    pairs: Array

    def as_counted(self) -> MassBoxes:
        """Return the counts as masses without sampling error."""
        return MassBoxes.as_counted(self.counts)

    def occurring(self) -> SecretCounts:
        """Return the counts of secrets that occur, and the pairs of these."""
        used = np.flatnonzero(self.counts.sum(axis=0))
        pairs = self.pairs[np.isin(self.pairs, used).all(axis=1)]
        return SecretCounts(self.counts[:, used], self.sizes, np.searchsorted(used, pairs))

    def merged(self, cells: IntArray) -> SecretCounts:
        """Return the counts in cells, from the cell of each prototype."""
        present, of = np.unique(cells, return_inverse=True)
        counts = np.zeros((len(present), self.counts.shape[1]), dtype=np.int64)
        np.add.at(counts, of, self.counts)
        sizes = np.bincount(of, self.sizes, len(present)).astype(np.int64)
        return SecretCounts(counts, sizes, self.pairs)

    def boxes(self, error: float) -> MassBoxes:
        r"""Return simultaneous bounds on the masses of the population that the rows are drawn from.

        Parameters
        ----------
        error : float
            The probability that any bound fails, in (0, 1).

        Notes
        -----
        *Formal guarantees.* Given the public columns let the secrets of the rows be independent,
        with any probabilities. Then with a probability of at least 1 - ``error`` every
        :math:`m_s(a) = N_a q_s(a) / N` and every sum over a is within its bounds, in units of
        2^-60, where :math:`q_s(a)` is the mean probability of secret s over the :math:`N_a` of N
        rows that have prototype a. Of two secrets the bounds of one determine those of the other.

        Examples
        --------
        >>> few = SecretCounts(np.array([[9, 1], [2, 8]]), np.array([10, 10]), np.array([[0, 1]]))
        >>> boxes = few.boxes(0.05)
        >>> (boxes.low / ONE).round(3).tolist(), (boxes.high / ONE).round(3).tolist()
        ([[0.248, 0.0], [0.008, 0.194]], [[0.5, 0.252], [0.306, 0.492]])
        """
        total = self.sizes.sum()
        sizes = self.sizes[:, None]
        n_bounds = int(np.count_nonzero(sizes)) * self._free
        share = (1.0 - _ERROR_OF_SHARES) * error / n_bounds
        low, high = clopper_pearson(self.counts, sizes, share)
        weights = sizes / total
        return self._boxes(weights * low, weights * high, error)

    def joint_boxes(self, error: float) -> MassBoxes:
        """Return bounds for new rows, whose prototypes are random, too.

        They assume prototypes that are fixed before the rows are drawn.
        """
        total = self.sizes.sum()
        share = (1.0 - _ERROR_OF_SHARES) * error / self.counts.size
        return self._boxes(*clopper_pearson(self.counts, total, share), error)

    def drawn_shares(self, error: float) -> FloatArray:
        """Return the shares of prototypes among the rows of each secret, in drawn tables.

        Shape (n_tables, n_secrets, n_prototypes). Tables are as many as an ``error`` needs, from a
        public seed. Counts are drawn by their roots, which are nearly normal with a variance of
        1/4 (F. Anscombe, 1948).
        """
        n_tables = int(min(max(_LEAST_TABLES, _BEYOND / error), _MOST_TABLES))
        words = seeded_entropy(0).words(n_tables * self.counts.size) >> np.uint64(11)
        normal = ndtri((words + 0.5) * 2.0**-53).reshape(n_tables, *self.counts.T.shape)
        counts = self.counts.T
        rows = np.where(counts, np.maximum(np.sqrt(counts) + normal / 2.0, 0.0) ** 2, 0.0)
        total = rows.sum(axis=2, keepdims=True)
        # of a secret whose few rows a table lacks they are as counted
        rows = np.where(total > 0.0, rows, counts)
        return np.asarray(rows / rows.sum(axis=2, keepdims=True))

    @property
    def _free(self) -> int:
        """The number of secrets that need bounds of their own."""
        n_secrets = self.counts.shape[1]
        alone = n_secrets == 2 and np.array_equal(self.counts.sum(axis=1), self.sizes)
        return 1 if alone else n_secrets

    def _boxes(self, low: FloatArray, high: FloatArray, error: float) -> MassBoxes:
        share = _ERROR_OF_SHARES * error / self._free
        sums = clopper_pearson(self.counts.sum(axis=0), self.sizes.sum(), share)
        return MassBoxes(_down(low), _up(high), _down(sums[0]), _up(sums[1]))


def clopper_pearson(
    hits: IntArray, trials: IntArray, error: float
) -> tuple[FloatArray, FloatArray]:
    """Return two-sided bounds on the mean probability of independent trials.

    Each interval fails with a probability of at most ``error``.

    Examples
    --------
    >>> low, high = clopper_pearson(np.array([0, 5]), np.array(10), 0.05)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.1871], [0.3085, 0.8129])
    """
    misses = trials - hits
    low = betaincinv(np.maximum(hits, 1), misses + 1.0, _half(error, hits))
    high = betainccinv(hits + 1.0, np.maximum(misses, 1), _half(error, misses))
    return np.where(hits > 0, low, 0.0), np.where(misses > 0, high, 1.0)


def _half(error: float, events: IntArray) -> FloatArray:
    """Return the error of one side: lowered for a single event, as probabilities may be unequal."""
    return np.where(events == 1, -np.expm1(-error / 2.0), error / 2.0)


def _down(masses: FloatArray) -> IntArray:
    return np.floor(masses * (1.0 - _OUTWARDS) * ONE).astype(np.int64)


def _up(masses: FloatArray) -> IntArray:
    return np.ceil(masses * (1.0 + _OUTWARDS) * ONE).astype(np.int64)


# ------------------------------------------------------------------------------------ the problem


class SecretMasses(NamedTuple):
    """A set of masses of secrets in prototypes, and the protected pairs."""

    boxes: MassBoxes
    pairs: Array


@dataclass(frozen=True, eq=False)
class ChannelProblem:
    """Find the channel of least expected change within the budget.

    Attributes
    ----------
    bounded : sequence of SecretMasses
        The budget is kept over each: of every sensitive column, and of every joined label.
    sizes : ndarray of int64 of shape (n,)
        Rows of each prototype, at least one.
    distances : ndarray of shape (n, n)
        Mean change of rows of prototype a that are released as b.
    epsilon : float
        The budget, in nats.
    """

    bounded: Sequence[SecretMasses]
    sizes: IntArray
    distances: FloatArray
    epsilon: float

    @property
    def n(self) -> int:
        """The number of prototypes."""
        return len(self.sizes)

    @property
    def shares(self) -> FloatArray:
        """The share of each prototype."""
        return np.asarray(self.sizes / self.sizes.sum())

    def cost(self, channel: FloatArray) -> float:
        """Return the expected change under a channel of shape (n, n)."""
        return float(self.shares @ (channel * self.distances).sum(axis=1))

    def loss(self, rows: IntegerRows) -> float:
        """Return the exact loss, rounded up."""
        losses = [prototype_losses(rows, *bounded).max(initial=0.0) for bounded in self.bounded]
        return float(max(losses, default=0.0))


def least_change(problem: ChannelProblem) -> IntegerRows:
    """Return the channel of least change, in whole numbers, that keeps the budget.

    Raises
    ------
    ValueError
        If the constant channel, rounded to whole numbers, exceeds the budget.

    Notes
    -----
    *Formal guarantees.* The loss of the returned rows, computed by `prototype_losses`, is within
    the budget.

    Examples
    --------
    >>> boxes = MassBoxes.as_counted(np.array([[30, 10], [10, 30]]))
    >>> distances = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> bounded = [SecretMasses(boxes, np.array([[0, 1]]))]
    >>> problem = ChannelProblem(bounded, np.array([40, 40]), distances, epsilon=0.5)
    >>> rows = least_change(problem)
    >>> (rows.shares / WHOLE).round(4).tolist(), problem.loss(rows) <= 0.5
    ([0.7449, 0.2551, 0.2551, 0.7449], True)
    """
    channel = _solved(problem, _mask(problem))
    if channel is None:  # then the constant one
        channel = np.broadcast_to(problem.shares, (problem.n, problem.n))
    # without entries below the solver's tolerance, in rows that sum to 1
    channel = np.where(channel > 1e-9, channel, 0.0)
    return _mixed(problem, channel / channel.sum(axis=1, keepdims=True))


def _mixed(problem: ChannelProblem, channel: FloatArray, least: float = 0.0) -> IntegerRows:
    """Return a channel mixed with the constant one by at least a share, within the budget."""
    for more in [0.0, *np.geomspace(1e-9, 1.0, 40)]:
        share = least + (1.0 - least) * more
        rows = whole_rows((1.0 - share) * channel + share * problem.shares)
        if problem.loss(rows) <= problem.epsilon:
            return rows
    raise ValueError(
        f"epsilon={problem.epsilon!r} is smaller than the rounding error of the channel; raise it."
    )


def _mask(problem: ChannelProblem) -> BoolArray:
    """Return where K(b|a) is a variable of its own, shape (n, n)."""
    n, mask = problem.n, np.eye(problem.n, dtype=bool)
    n_blocks = 2 * sum(bounded.boxes.n_secrets for bounded in problem.bounded)
    near = min(NEAREST, max(_MOST_ARCS // max(2 * n_blocks * n, 1), _FEWEST_NEAREST))
    order = np.argsort(problem.distances, axis=1, kind="stable")[:, :near]
    np.put_along_axis(mask, order, True, axis=1)
    mask[:, np.argsort(-problem.sizes, kind="stable")[:LARGEST]] = True
    # symmetric, as shares are kept: as much mass enters a prototype as leaves it
    return np.asarray(mask | mask.T)


# ---------------------------------------------------------------------------------- by chance


def drawn_losses(channel: FloatArray, group: SecretCounts, error: float) -> FloatArray:
    """Return the largest loss in each drawn table, of shape (n_tables,)."""
    group = group.occurring()
    released = group.drawn_shares(error) @ channel
    worst = np.zeros(len(released))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(released)
        for s, t in group.pairs:  # NaN where nobody is released so
            worst = np.fmax(worst, np.nanmax(np.abs(logs[:, s] - logs[:, t]), axis=1))
    return worst


def for_new_people(
    problem: ChannelProblem, channel: FloatArray, groups: Sequence[SecretCounts], error: float
) -> IntegerRows | None:
    r"""Return a channel that keeps the budget in drawn tables but a share of ``error``.

    None stands for the channel as it is, which keeps it there already.
    Mixed with the constant channel by a share w, it keeps the budget at b in a table where
    :math:`P(b|s) - e^{\varepsilon} P(b|t) \le (e^{\varepsilon} - 1) f_b w / (1 - w)`.
    """
    epsilon, needed = min(problem.epsilon, 700.0), 0.0
    for group in (each.occurring() for each in groups):
        released = group.drawn_shares(error) @ channel
        excess = np.zeros(len(released))
        for s, t in np.concatenate([group.pairs, group.pairs[:, ::-1]]):
            beyond = released[:, s] - exp(epsilon) * released[:, t]
            excess = np.maximum(excess, (beyond / problem.shares).max(axis=1))
        most = np.quantile(excess, 1.0 - error, method="higher") / expm1(epsilon)
        needed = max(needed, float(most / (1.0 + most)))
    return _mixed(problem, channel, needed) if needed else None


# ------------------------------------------------------------------------------------ the program


def _solved(problem: ChannelProblem, mask: BoolArray) -> FloatArray | None:
    """Return the channel that the solver finds, None if it fails."""
    program = _Program(problem, mask)
    answer = solved(program.objective, most=program.most, equal=program.equal)
    return None if answer is None else program.channel(answer.x)


class _Program:
    """The linear program: K - y on each arc (a, b) of the mask, y, then a block for each U and L.

    A block has, for each prototype b, U - y or L - y, both parts of mu, and the positive parts
    (x_a)_+ on the arcs and off the mask. All variables but those of arcs are in units of f_b.
    """

    def __init__(self, problem: ChannelProblem, mask: BoolArray) -> None:
        self.problem, self.mask = problem, mask
        self.n = problem.n
        self.sources, self.targets = np.nonzero(mask)
        self.n_arcs = len(self.sources)

    @cached_property
    def objective(self) -> FloatArray:
        """The costs of the variables, in units of the largest."""
        problem = self.problem
        arcs = problem.shares[self.sources] * problem.distances[self.mask]
        everybody = problem.shares * (problem.shares @ problem.distances)
        costs = np.concatenate([arcs, everybody])
        return np.append(costs / (costs.max() or 1.0), np.zeros(self.n_variables - len(costs)))

    def channel(self, variables: FloatArray) -> FloatArray:
        """Return K, shape (n, n)."""
        channel = np.zeros((self.n, self.n))
        channel[self.mask] = variables[: self.n_arcs]
        return channel + self.problem.shares * variables[self.n_arcs : self.first]

    @property
    def first(self) -> int:
        """The index of the first variable of the blocks."""
        return self.n_arcs + self.n

    @cached_property
    def blocks(self) -> list[_Block]:
        """The blocks of all secrets, U before L."""
        return [
            _Block(self, bounded.boxes, secret, sign)
            for bounded in self.problem.bounded
            for secret in range(bounded.boxes.n_secrets)
            for sign in (1.0, -1.0)
        ]

    @property
    def n_variables(self) -> int:
        """The number of variables."""
        return self.first + sum(block.n_own for block in self.blocks)

    @property
    def equal(self) -> tuple[Any, FloatArray]:
        """The equations: every row sums to 1, and every prototype keeps its share."""
        arcs, shares = np.arange(self.n_arcs), self.problem.shares
        kept = shares[self.sources] / shares[self.targets]
        shape = (self.n, self.n_arcs)
        rows = sparse.csr_array((np.ones(self.n_arcs), (self.sources, arcs)), shape=shape)
        columns = sparse.csr_array((kept, (self.targets, arcs)), shape=shape)
        everybody = sparse.csr_array(np.broadcast_to(shares, (self.n, self.n)))
        others = sparse.csr_array((self.n, self.n_variables - self.first))
        sums = sparse.hstack([rows, everybody, others], format="csr")
        shares_kept = sparse.hstack([columns, sparse.eye_array(self.n), others], format="csr")
        # the last equation follows from the others, up to rounding
        matrix = sparse.vstack([sums, shares_kept[:-1]], format="csr")
        return matrix, np.ones(2 * self.n - 1)

    @property
    def most(self) -> tuple[Any, FloatArray] | None:
        """The inequalities: blocks, and the budget of each ordered pair; None without secrets."""
        if not self.blocks:
            return None
        n, n_arcs = self.n, self.n_arcs
        arcs = sparse.vstack([block.arcs for block in self.blocks])
        own = sparse.block_diag([block.own for block in self.blocks])
        rows = [sparse.hstack([arcs, sparse.csr_array((arcs.shape[0], n)), own])]
        growth = min(exp(min(self.problem.epsilon, 700.0)) * (1.0 - _SOLVER_MARGIN), _LARGEST_RATIO)
        firsts = self.first + np.cumsum([0, *(block.n_own for block in self.blocks)])
        each, before = np.arange(n), 0
        data = np.repeat([1.0, -growth, 1.0 - growth], n)
        for boxes, pairs in self.problem.bounded:
            for s, t in np.concatenate([pairs, np.asarray(pairs)[:, ::-1]]):
                upper, lower = firsts[before + 2 * s], firsts[before + 2 * t + 1]
                columns = np.concatenate([upper + each, lower + each, n_arcs + each])
                where = np.tile(each, 3), columns  # U(b) - growth L(b)
                rows.append(sparse.csr_array((data, where), shape=(n, self.n_variables)))
            before += 2 * boxes.n_secrets
        matrix = sparse.vstack(rows, format="csr")
        return matrix, np.zeros(matrix.shape[0])


class _Block:
    """The constraints that bound the quotients of one secret by U from above, or L from below.

    Its variables: U - y (or L - y), mu_+ and mu_-, each of shape (n,); the positive parts of the
    arcs whose mass is not exact; and the positive parts off the mask, of shape (n,). In
    x = K - U - mu, y may be subtracted from both K and U; then K is 0 off the mask.
    """

    def __init__(self, program: _Program, boxes: MassBoxes, secret: int, sign: float) -> None:
        unit = float(boxes.share_high[secret])
        self.program, self.sign, self.n = program, sign, program.n
        self.low = boxes.low[:, secret] / unit
        self.room = (boxes.high[:, secret] - boxes.low[:, secret]) / unit
        self.shares = boxes.share_low[secret] / unit, 1.0
        self.loose = np.flatnonzero(self.room[program.sources] > 0.0)

    @property
    def n_own(self) -> int:
        """The number of its variables."""
        return 4 * self.n + len(self.loose)

    @cached_property
    def arcs(self) -> Any:
        """The coefficients of K: of the sums of l x, then of the positive parts."""
        program = self.program
        gains = self.sign / program.problem.shares[program.targets]
        sums = sparse.csr_array(
            (gains * self.low[program.sources], (program.targets, np.arange(program.n_arcs))),
            shape=(self.n, program.n_arcs),
        )
        parts = sparse.csr_array(
            (gains[self.loose], (np.arange(len(self.loose)), self.loose)),
            shape=(len(self.loose) + self.n, program.n_arcs),
        )
        return sparse.vstack([sums, parts])

    @cached_property
    def own(self) -> Any:
        """The coefficients of the block's own variables, in x = sign (K - U) - mu."""
        n, n_loose, sign = self.n, len(self.loose), self.sign
        each, parts, held = np.arange(n), np.arange(n_loose), self.program.targets[self.loose]
        total, (least, most) = self.low.sum(), self.shares
        level = ((0, -sign), (n, -1.0), (2 * n, 1.0))  # the terms of x other than K
        entries: list[Any] = [
            (each, each, -sign * total),
            (each, n + each, most - total),
            (each, 2 * n + each, total - least),
            (held, 3 * n + parts, self.room[self.program.sources[self.loose]]),
            (each, 3 * n + n_loose + each, self.room @ ~self.program.mask),
            *((n + parts, first + held, value) for first, value in level),
            (n + parts, 3 * n + parts, -1.0),
            *((n + n_loose + each, first + each, value) for first, value in level),
            (n + n_loose + each, 3 * n + n_loose + each, -1.0),
        ]
        # rows, columns and values, of the same shape
        where = zip(*(np.broadcast_arrays(*entry) for entry in entries), strict=True)
        rows, columns, values = (np.concatenate(part) for part in where)
        return sparse.coo_array((values, (rows, columns)), shape=(2 * n + n_loose, self.n_own))


# ---------------------------------------------------------------------------------- whole numbers


def whole_rows(channel: FloatArray) -> IntegerRows:
    """Return a channel as shares of 2^62; the largest of a row takes the rounding errors."""
    shares = np.floor(channel * WHOLE).astype(np.int64)
    each = np.arange(len(shares))
    shares[each, shares.argmax(axis=1)] += WHOLE - shares.sum(axis=1)
    sources, targets = np.nonzero(shares)
    starts = np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=len(shares)))])
    return IntegerRows(starts, targets, shares[sources, targets])
