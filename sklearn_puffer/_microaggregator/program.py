r"""The channel between prototypes that changes least, over all masses that the counts allow.

A row of prototype a is released as b with probability K(b|a). Let :math:`f_a` be the share of
prototype a. One linear program minimises :math:`\sum_a f_a K(b|a) d(a, b)` over channels that keep
the share of every prototype, :math:`\sum_a f_a K(b|a) = f_b`, and for which

.. math:: U_s(b) \le e^{\varepsilon} L_t(b)

for every prototype b and protected pair. :math:`\sum_a m(a) K(b|a) \le U \sum_a m(a)` for all
masses in the boxes :math:`l \le m \le u`, :math:`p^- \le \sum_a m(a) \le p^+`, if and only if for
some real :math:`\mu` (linear duality)

.. math:: \sum_a \left[l(a) x_a + (u(a) - l(a)) (x_a)_+\right] + p^+ \mu_+ - p^- \mu_- \le 0,
          \qquad x_a = K(b|a) - U - \mu.

L is the mirror image: with -K in the place of K the largest quotient is -L. So both are one block
of constraints with another sign.

Every row may become b with a chance :math:`y_b`, and has further chances of its own to become one
of the prototypes near its own, or of the largest, and the other way round: what leaves a prototype
has to come back. Off this mask :math:`K(b|a) = y_b`, and one variable stands for all the positive
parts, with the sums of their l and u. With y = f and nothing more the channel tells nothing: there
is always a solution.

The solver is not believed: its answer becomes whole numbers, and is mixed with that constant
channel until the loss, computed by other code and exactly, is within the budget.

*Masses.* What counts of secrets in prototypes say: simultaneous bounds on their masses.

Of n rows of prototype a, c have secret s. Given the public columns, their secrets are independent,
with unequal chances. Two-sided Clopper-Pearson bounds hold the mean of these chances,

.. math:: B^{-1}_{e/2}(c, n - c + 1) \le q_s(a) \le B^{-1}_{1 - e/2}(c + 1, n - c),

since a sum of unequal chances is less spread than a binomial of the same mean (Hoeffding 1956),
with one exception. That at least one of n happens, with a mean :math:`\mu` below 1, has a chance of
:math:`\mu` at most, and with equal chances of :math:`1 - (1 - \mu/n)^n \ge 1 - e^{-\mu}`. Where
c = 1 or c = n - 1 the part e is lowered for it, to :math:`2 (1 - e^{-e/2})`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import betainccinv, betaincinv

from sklearn_puffer._base import Array, BoolArray, FloatArray, IntArray
from sklearn_puffer._losses import MassBoxes, prototype_losses
from sklearn_puffer._noise import WHOLE, IntegerRows
from sklearn_puffer._numerics import solved

NEAREST, LARGEST = 60, 10
"""How many prototypes a row has chances of its own for, those near its own and the largest; and
they for their rows to become its own."""

_MOST_ARCS = 14_400  # times blocks of constraints, for programs of seconds: then fewer are near
_FEWEST = 10

_INSIDE = 1e-9  # of e^epsilon, which the solver does not get
_MOST = 1e6  # of e^epsilon: beyond, tolerances are all that counts


ONE = 1 << 60
"""What the masses of all secrets in all prototypes sum to, as whole numbers."""

_OUTWARDS = 2.0**-40  # relatively: more than quantiles of the beta distribution are off by
_FOR_SHARES = 0.2  # of the error; bounds within prototypes have the rest


@dataclass(frozen=True, eq=False)
class SecretCounts:
    """Rows in prototypes, in all and by protected secret: of everybody, or of one joined label.

    Attributes
    ----------
    counts : ndarray of int64 of shape (n_prototypes, n_secrets)
        Rows of each secret that a protected pair names, at least two.
    sizes : ndarray of int64 of shape (n_prototypes,)
        All rows of each prototype, those of other secrets among them.
    pairs : ndarray of intp of shape (n_pairs, 2)
        The protected pairs, as columns of ``counts``.
    """

    counts: IntArray
    sizes: IntArray
    pairs: Array

    def as_counted(self) -> MassBoxes:
        """Return the counts, as if all people had been counted."""
        return MassBoxes.as_counted(self.counts)

    def occurring(self) -> SecretCounts:
        """Return the counts of the secrets that occur, and the pairs of which both do."""
        there = np.flatnonzero(self.counts.sum(axis=0))
        pairs = self.pairs[np.isin(self.pairs, there).all(axis=1)]
        return SecretCounts(self.counts[:, there], self.sizes, np.searchsorted(there, pairs))

    def some(self, prototypes: IntArray) -> SecretCounts:
        """Return the counts in some prototypes."""
        return SecretCounts(self.counts[prototypes], self.sizes[prototypes], self.pairs)

    def boxes(self, error: float) -> MassBoxes:
        r"""Return bounds that hold at once for the people of whom these rows are a sample.

        Parameters
        ----------
        error : float
            What all bounds together may miss, in (0, 1).

        Notes
        -----
        *Formal guarantees.* Given the public columns let the secrets of the rows be independent,
        with any chances. Then with a probability of at least 1 - ``error`` every
        :math:`m_s(a) = N_a q_s(a) / N` and every sum of them is within its bounds, in units of
        2^-60, where :math:`q_s(a)` is the mean chance of secret s over the rows of prototype a.
        Bounds of one of two secrets say those of the other.

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
        share = (1.0 - _FOR_SHARES) * error / n_bounds
        low, high = clopper_pearson(self.counts, sizes, share)
        weights = sizes / total
        return self._boxes(weights * low, weights * high, error)

    def joint_boxes(self, error: float) -> MassBoxes:
        """Return bounds that hold for new rows too: the shares of prototypes are a sample as well.

        The prototypes are taken to be fixed before the rows are drawn.
        """
        total = self.sizes.sum()
        share = (1.0 - _FOR_SHARES) * error / self.counts.size
        return self._boxes(*clopper_pearson(self.counts, total, share), error)

    @property
    def _free(self) -> int:
        """How many secrets have bounds of their own."""
        n_secrets = self.counts.shape[1]
        alone = n_secrets == 2 and np.array_equal(self.counts.sum(axis=1), self.sizes)
        return 1 if alone else n_secrets

    def _boxes(self, low: FloatArray, high: FloatArray, error: float) -> MassBoxes:
        share = _FOR_SHARES * error / self._free
        sums = clopper_pearson(self.counts.sum(axis=0), self.sizes.sum(), share)
        return MassBoxes(_down(low), _up(high), _down(sums[0]), _up(sums[1]))


def clopper_pearson(
    hits: IntArray, trials: IntArray, error: float
) -> tuple[FloatArray, FloatArray]:
    """Return bounds on the mean chance of independent trials, each pair missing with ``error``.

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
    """Return what one side may miss; less for one event, where chances may be unequal."""
    return np.where(events == 1, -np.expm1(-error / 2.0), error / 2.0)


def _down(masses: FloatArray) -> IntArray:
    return np.floor(masses * (1.0 - _OUTWARDS) * ONE).astype(np.int64)


def _up(masses: FloatArray) -> IntArray:
    return np.ceil(masses * (1.0 + _OUTWARDS) * ONE).astype(np.int64)


class Tally:
    """How often each secret occurs in each prototype, within parts of the rows that are added.

    Parameters
    ----------
    groups : sequence of tuple
        Of each sensitive column how many secrets there are, which of these are protected, and the
        pairs of them.
    n_prototypes, n_parts : int
    """

    def __init__(
        self, groups: Sequence[tuple[int, list[int], Array]], n_prototypes: int, n_parts: int
    ) -> None:
        self._groups = groups
        self._counts = [np.zeros((n_parts, n_prototypes, n), dtype=np.int64) for n, *_ in groups]

    def add(
        self, secrets: Sequence[IntArray], codes: IntArray, parts: IntArray, weights: Array | None
    ) -> None:
        """Add some rows: their secret in each sensitive column, prototype, part, and weight."""
        for each, counts in zip(secrets, self._counts, strict=True):
            cells = (parts * counts.shape[1] + codes) * counts.shape[2] + each
            counts += (
                np.bincount(cells, weights, counts.size).astype(np.int64).reshape(counts.shape)
            )

    def of(self, parts: slice) -> list[SecretCounts]:
        """Return the counts of each sensitive column in some of the parts together."""
        found = []
        for (_, used, pairs), counts in zip(self._groups, self._counts, strict=True):
            both = counts[parts].sum(axis=0)
            found.append(SecretCounts(both[:, used], both.sum(axis=1), pairs))
        return found


# ------------------------------------------------------------------------------------ the problem


class Bounded(NamedTuple):
    """Masses of some people's secrets, and which pairs of them are protected."""

    boxes: MassBoxes
    pairs: Array


@dataclass(frozen=True, eq=False)
class ChannelProblem:
    """Find the channel of least expected change within the budget.

    Attributes
    ----------
    bounded : sequence of Bounded
        The budget holds within each: of every sensitive column, and of every joined label.
    sizes : ndarray of int64 of shape (n,)
        Rows of each prototype, at least one.
    distances : ndarray of shape (n, n)
        What rows of prototype a change by, on average, if they are released as b.
    epsilon : float
        The budget, in nats.
    """

    bounded: Sequence[Bounded]
    sizes: IntArray
    distances: FloatArray
    epsilon: float

    @property
    def n(self) -> int:
        """How many prototypes there are."""
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
        If the budget is smaller than what rounding leaves of it.

    Notes
    -----
    *Formal guarantees.* The loss of the returned rows, computed by `prototype_losses`, is within
    the budget.

    Examples
    --------
    >>> boxes = MassBoxes.as_counted(np.array([[30, 10], [10, 30]]))
    >>> distances = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> bounded = [Bounded(boxes, np.array([[0, 1]]))]
    >>> problem = ChannelProblem(bounded, np.array([40, 40]), distances, epsilon=0.5)
    >>> rows = least_change(problem)
    >>> (rows.shares / WHOLE).round(4).tolist(), problem.loss(rows) <= 0.5
    ([0.7449, 0.2551, 0.2551, 0.7449], True)
    """
    channel = _solved(problem, _mask(problem))
    constant = np.broadcast_to(problem.shares, (problem.n, problem.n))
    return _within(problem, constant if channel is None else channel)


def _mask(problem: ChannelProblem) -> BoolArray:
    """Return which prototypes the rows of each have chances of their own for."""
    n, mask = problem.n, np.eye(problem.n, dtype=bool)
    n_blocks = 2 * sum(bounded.boxes.n_secrets for bounded in problem.bounded)
    near = min(NEAREST, max(_MOST_ARCS // max(2 * n_blocks * n, 1), _FEWEST))
    order = np.argsort(problem.distances, axis=1, kind="stable")[:, :near]
    np.put_along_axis(mask, order, True, axis=1)
    mask[:, np.argsort(-problem.sizes, kind="stable")[:LARGEST]] = True
    # shares are kept: for what leaves a prototype as much has to come back
    return np.asarray(mask | mask.T)


# ------------------------------------------------------------------------------------ the program


def _solved(problem: ChannelProblem, mask: BoolArray) -> FloatArray | None:
    """Return the solver's channel, or None where it found none."""
    program = _Program(problem, mask)
    answer = solved(program.objective, most=program.most, equal=program.equal)
    if answer is None:
        return None
    return program.channel(answer.x)


class _Program:
    """Variables: K - y of each arc, y, then a block for each secret and side.

    A block has, for each prototype b, U - y or L - y, the two parts of mu, and the positive parts
    (x_a)_+ of its arcs and of all else. All but those of the arcs are in units of f_b.
    """

    def __init__(self, problem: ChannelProblem, mask: BoolArray) -> None:
        self.problem, self.mask = problem, mask
        self.n = problem.n
        self.sources, self.targets = np.nonzero(mask)
        self.n_arcs = len(self.sources)

    @cached_property
    def objective(self) -> FloatArray:
        """The change, in units of its largest part."""
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
        """Where the blocks begin."""
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
        """How many variables there are."""
        return self.first + sum(block.n_own for block in self.blocks)

    @property
    def equal(self) -> tuple[Any, FloatArray]:
        """Every row sums to 1, and every prototype keeps its share."""
        arcs, shares = np.arange(self.n_arcs), self.problem.shares
        kept = shares[self.sources] / shares[self.targets]
        shape = (self.n, self.n_arcs)
        rows = sparse.csr_array((np.ones(self.n_arcs), (self.sources, arcs)), shape=shape)
        columns = sparse.csr_array((kept, (self.targets, arcs)), shape=shape)
        everybody = sparse.csr_array(np.broadcast_to(shares, (self.n, self.n)))
        others = sparse.csr_array((self.n, self.n_variables - self.first))
        sums = sparse.hstack([rows, everybody, others], format="csr")
        shares_kept = sparse.hstack([columns, sparse.eye_array(self.n), others], format="csr")
        # the last follows from the others; a second word on it might contradict them
        matrix = sparse.vstack([sums, shares_kept[:-1]], format="csr")
        return matrix, np.ones(2 * self.n - 1)

    @property
    def most(self) -> tuple[Any, FloatArray] | None:
        """The blocks, and the budget of each ordered pair; None without secrets."""
        if not self.blocks:
            return None
        arcs = sparse.vstack([block.arcs for block in self.blocks])
        own = sparse.block_diag([block.own for block in self.blocks])
        everybody = sparse.csr_array((arcs.shape[0], self.n))
        blocks = sparse.hstack([arcs, everybody, own])
        matrix = sparse.vstack([blocks, *self._budgets()], format="csr")
        return matrix, np.zeros(matrix.shape[0])

    def _budgets(self) -> list[Any]:
        growth = min(exp(min(self.problem.epsilon, 700.0)) * (1.0 - _INSIDE), _MOST)
        firsts = self.first + np.cumsum([0, *(block.n_own for block in self.blocks)])
        budgets, before = [], 0
        for boxes, pairs in self.problem.bounded:
            for s, t in np.concatenate([pairs, np.asarray(pairs)[:, ::-1]]):
                upper, lower = firsts[before + 2 * s], firsts[before + 2 * t + 1]
                budgets.append(self._difference(upper, lower, growth))
            before += 2 * boxes.n_secrets
        return budgets

    def _difference(self, upper: int, lower: int, growth: float) -> Any:
        """Return the rows U(b) - growth L(b) of blocks that begin there; both are above y."""
        each = np.arange(self.n)
        data = np.repeat([1.0, -growth, 1.0 - growth], self.n)
        columns = np.concatenate([upper + each, lower + each, self.n_arcs + each])
        where = (np.tile(each, 3), columns)
        return sparse.csr_array((data, where), shape=(self.n, self.n_variables))


class _Block:
    """The constraints that hold the largest quotient of one secret below U, or above L.

    Its variables: U - y (or L - y), mu_+, mu_-, of shape (n,), the positive parts of the arcs whose
    mass has room, and the positive parts off the mask, of shape (n,). In x = K - U - mu both K and
    U may be taken above y, and off the mask K - y is 0.
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
        """How many variables it has."""
        return 4 * self.n + len(self.loose)

    @cached_property
    def arcs(self) -> Any:
        """The constraints over K: the sums of l x, then the positive parts of arcs."""
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
        """The same constraints over the block's variables.

        x is sign (K - U) - mu: with the sign it is the quotient's excess over U, or below L.
        """
        n, n_loose, sign = self.n, len(self.loose), self.sign
        each, parts, held = np.arange(n), np.arange(n_loose), self.program.targets[self.loose]
        total, (least, most) = self.low.sum(), self.shares
        level = ((0, -sign), (n, -1.0), (2 * n, 1.0))  # what all x of b have in common
        return _of_entries(
            [
                (each, each, -sign * total),
                (each, n + each, most - total),
                (each, 2 * n + each, total - least),
                (held, 3 * n + parts, self.room[self.program.sources[self.loose]]),
                (each, 3 * n + n_loose + each, self.room @ ~self.program.mask),
                *((n + parts, first + held, value) for first, value in level),
                (n + parts, 3 * n + parts, -1.0),
                *((n + n_loose + each, first + each, value) for first, value in level),
                (n + n_loose + each, 3 * n + n_loose + each, -1.0),
            ],
            (2 * n + n_loose, self.n_own),
        )


def _of_entries(entries: Sequence[tuple[IntArray, IntArray, Any]], shape: tuple[int, int]) -> Any:
    """Return a sparse matrix of rows, columns and their values."""
    alike = [np.broadcast_arrays(*each) for each in entries]
    rows, columns, values = (np.concatenate(each) for each in zip(*alike, strict=True))
    return sparse.coo_array((values, (rows, columns)), shape=shape)


# ---------------------------------------------------------------------------------- whole numbers


def _within(problem: ChannelProblem, channel: FloatArray) -> IntegerRows:
    """Return rows of whole numbers, mixed with the constant ones until the loss is in the budget.

    First with none of them, then with a share that grows from a hair to all.
    """
    for share in [0.0, *np.geomspace(1e-9, 1.0, 40)]:
        rows = whole_rows((1.0 - share) * _cleaned(channel) + share * problem.shares)
        if problem.loss(rows) <= problem.epsilon:
            return rows
    raise ValueError(
        f"epsilon={problem.epsilon!r} is smaller than what rounding leaves of it; allow more."
    )


def _cleaned(channel: FloatArray) -> FloatArray:
    """Return rows that are not negative, without dust, and sum to 1."""
    kept = np.where(channel > 1e-9, channel, 0.0)
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))


def whole_rows(channel: FloatArray) -> IntegerRows:
    """Return a channel as shares of 2^62; what rounding leaves goes to the largest of a row."""
    shares = np.floor(channel * WHOLE).astype(np.int64)
    each = np.arange(len(shares))
    shares[each, shares.argmax(axis=1)] += WHOLE - shares.sum(axis=1)
    sources, targets = np.nonzero(shares)
    starts = np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=len(shares)))])
    return IntegerRows(starts, targets, shares[sources, targets])
