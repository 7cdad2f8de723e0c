"""The numbers of typical rows that `fit` tries, and the channel of least change for each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from joblib import Parallel, delayed

from sklearn_puffer._base import FloatArray, IntArray, counted
from sklearn_puffer._microaggregator.certificate import as_matrix
from sklearn_puffer._microaggregator.drawn import BinCounts, learnt_bins
from sklearn_puffer._microaggregator.program import (
    ChannelProblem,
    SecretCounts,
    SecretMasses,
    least_change,
    whole_rows,
)
from sklearn_puffer._microaggregator.prototypes import MeanChanges, Prototypes, mean_changes
from sklearn_puffer._microaggregator.reading import Batch, Settings, TableRead
from sklearn_puffer._noise import IntegerRows

CANDIDATES = (8, 30, 60, 100)
"""Numbers of prototypes that "auto" tries, ascending, until the objective rises."""


class Candidate:
    """Some prototypes, and the counts of all rows, whose prototypes are ``codes``."""

    def __init__(
        self,
        settings: Settings,
        read: TableRead,
        prototypes: Prototypes,
        batch: Batch,
        codes: IntArray,
    ) -> None:
        self.prototypes, self.read, self.codes = prototypes, read, codes
        self.n_labels, n = int(read.batch.joined.max()) + 1, len(prototypes)
        cells = (batch.strata * self.n_labels + batch.joined) * n + codes
        self._counts = []
        for (secret, *_), of_row in zip(read.groups, batch.secrets, strict=True):
            shape = read.n_strata, self.n_labels, n, len(secret.labels)
            counts = np.bincount(cells * shape[-1] + of_row, batch.weights, math.prod(shape))
            self._counts.append(counts.astype(np.int64).reshape(shape))
        self.drawn = None
        if settings.values == "drawn":
            self.drawn = BinCounts(learnt_bins(read.sample, settings.min_size), n)
            self.drawn.add(batch.columns, codes, batch.weights)

    def counts(self, stratum: int, labels: slice = slice(None)) -> list[SecretCounts]:
        """Return the counts of each sensitive column in a stratum, of some joined labels."""
        found = []
        for (_, used, pairs), counts in zip(self.read.groups, self._counts, strict=True):
            total = counts[stratum, labels].sum(axis=0)
            found.append(SecretCounts(total[:, used], total.sum(axis=1), pairs))
        return found

    def counts_by_label(self, stratum: int) -> list[list[SecretCounts]]:
        """Return the counts in a stratum for each joined label."""
        return [self.counts(stratum, slice(k, k + 1)) for k in range(self.n_labels)]


@dataclass(frozen=True, eq=False)
class StratumChannel:
    """The counts of one stratum, and its channel of least change.

    Attributes
    ----------
    present : ndarray of int of shape (n,)
        The prototypes of which the stratum has rows.
    groups, joined : list of SecretCounts
        The counts in these prototypes, for each sensitive column; and for each joined label that
        occurs.
    shares : ndarray of shape (n_prototypes,)
        The share of each prototype among the rows of the stratum.
    problem : ChannelProblem or None
        The program between these prototypes; None where the stratum has too few rows.
    channel : IntegerRows or None
        Its solution.
    """

    present: IntArray
    groups: list[SecretCounts]
    joined: list[SecretCounts]
    shares: FloatArray
    problem: ChannelProblem | None
    channel: IntegerRows | None

    @property
    def total(self) -> int:
        """The number of rows."""
        return int(self.groups[0].sizes.sum())

    def matrix(self, constant: FloatArray) -> FloatArray:
        """Return K between all prototypes; a stratum without a channel has the ``constant`` one."""
        if self.channel is None:
            return np.broadcast_to(constant, (len(constant), len(constant)))
        matrix = np.tile(self.shares, (len(constant), 1))
        matrix[np.ix_(self.present, self.present)] = as_matrix(self.channel).toarray()
        return matrix

    def with_absent_prototypes(self, group: SecretCounts) -> tuple[IntegerRows, SecretCounts]:
        """Return channel and counts with one more prototype, for all absent ones together.

        New rows may have an absent prototype. Its row of the channel is the stratum's shares.
        """
        assert self.channel is not None
        if len(self.present) == len(self.shares):
            return self.channel, group
        rows = _ChannelBuilder()
        rows.channel(self.channel, np.arange(len(self.present)))
        rows.constant(self.shares[self.present])
        counts, sizes = np.pad(group.counts, ((0, 1), (0, 0))), np.append(group.sizes, 0)
        return rows.stacked(len(sizes)), SecretCounts(counts, sizes, group.pairs)

    @cached_property
    def is_nearly_constant(self) -> bool:
        """Whether the channel changes as much as a constant one, and typical rows alone less."""
        if self.problem is None or self.channel is None:
            return True
        n, cost = self.problem.n, self.problem.cost
        little = 0.95 * cost(np.broadcast_to(self.problem.shares, (n, n)))
        return cost(as_matrix(self.channel).toarray()) >= little > cost(np.eye(n))


@dataclass(frozen=True, eq=False)
class BudgetCurve:
    """The change under the channel of least change, as a function of the budget.

    Attributes
    ----------
    problem : ChannelProblem
    distances : ndarray of shape (n, n)
        The change of all columns, in standard deviations, of rows of a that are released as b,
        without the scores of labels.
    n_columns : int
    """

    problem: ChannelProblem
    distances: FloatArray
    n_columns: int

    def change(self, epsilon: float) -> float:
        """Return the mean change of a column for a budget."""
        problem = replace(self.problem, epsilon=epsilon)
        channel = as_matrix(least_change(problem)).toarray()
        return replace(problem, distances=self.distances).cost(channel) / self.n_columns


@dataclass(frozen=True, eq=False)
class SolvedCandidate:
    """Prototypes, and the channel of least change between them for each stratum.

    Attributes
    ----------
    candidate : Candidate
    parts : list of StratumChannel
    sample_codes : ndarray of int
        The prototype of each sampled row.
    error : float or None
        Error of the confidence set of each stratum, sensitive column and joined label; None takes
        masses as counted.
    changes : MeanChanges
        Those of the sampled rows, of all strata together.
    """

    candidate: Candidate
    parts: list[StratumChannel]
    sample_codes: IntArray
    error: float | None
    changes: MeanChanges

    @property
    def prototypes(self) -> Prototypes:
        """The typical rows."""
        return self.candidate.prototypes

    @property
    def n_columns(self) -> int:
        """The number of public columns."""
        return len(self.prototypes.rows)

    @cached_property
    def shares(self) -> FloatArray:
        """The share of each prototype among all rows."""
        total = sum(part.total for part in self.parts)
        return np.asarray(sum(part.shares * (part.total / total) for part in self.parts))

    @cached_property
    def flows(self) -> FloatArray:
        """The share of all rows that are of a and are released as b."""
        total = sum(part.total for part in self.parts)
        each = (
            (part.total / total * part.shares)[:, None] * part.matrix(self.shares)
            for part in self.parts
        )
        return np.asarray(sum(each))

    @property
    def objective(self) -> float:
        """What is minimised: the change, plus that of the scores of labels."""
        return self.change + float((self.flows * self.changes.scores).sum()) / self.n_columns

    @property
    def change(self) -> float:
        """The mean change of a column, in its unit of distance."""
        return float((self.flows * self.changes.distances).sum()) / self.n_columns

    @property
    def grouping(self) -> float:
        """The mean change of a column if every row became its own typical row."""
        return float(self.shares @ np.diag(self.changes.distances)) / self.n_columns

    @property
    def budget_curve(self) -> BudgetCurve | None:
        """The change for other budgets; None with known columns, where each stratum has its own."""
        part = self.parts[0]
        if self.candidate.read.strata is not None or part.problem is None:
            return None
        distances = self.changes.distances[np.ix_(part.present, part.present)]
        return BudgetCurve(part.problem, distances, self.n_columns)

    def released_by(self) -> tuple[IntegerRows, IntArray]:
        """Return the channels of all strata stacked, and which row each prototype of each has.

        Prototypes that are absent in a stratum have its shares as their row. The last row is the
        constant channel of the whole table.
        """
        n, rows = len(self.shares), _ChannelBuilder()
        of_strata = np.empty((len(self.parts) + 1, n), dtype=np.int64)
        for k, part in enumerate(self.parts):
            if part.channel is None:
                of_strata[k] = -1
                continue
            if len(part.present) < n:
                of_strata[k] = rows.constant(part.shares)
            of_strata[k, part.present] = rows.channel(part.channel, part.present)
        of_strata[-1] = -1
        of_strata[of_strata < 0] = rows.constant(self.shares)
        return rows.stacked(n), of_strata


class _ChannelBuilder:
    """A channel, row by row."""

    def __init__(self) -> None:
        self._rows: list[tuple[IntArray, IntArray]] = []

    def constant(self, shares: FloatArray) -> int:
        """Append a row of shares, and return its index."""
        targets = np.flatnonzero(shares)
        row = whole_rows(np.tile(shares[targets], (len(targets), 1)))
        self._rows.append((targets[row.targets[: row.starts[1]]], row.shares[: row.starts[1]]))
        return len(self._rows) - 1

    def channel(self, rows: IntegerRows, prototypes: IntArray) -> IntArray:
        """Append a channel between some prototypes, and return the indices of its rows."""
        first = len(self._rows)
        for start, end in pairwise(rows.starts.tolist()):
            self._rows.append((prototypes[rows.targets[start:end]], rows.shares[start:end]))
        return np.arange(first, len(self._rows))

    def stacked(self, n_targets: int) -> IntegerRows:
        """Return all rows, padded with copies of the last to at least the number of targets."""
        while len(self._rows) < n_targets:
            self._rows.append(self._rows[-1])
        targets, shares = (np.concatenate(each) for each in zip(*self._rows, strict=True))
        return IntegerRows(np.cumsum([0, *(len(each) for each, _ in self._rows)]), targets, shares)


def solved(settings: Settings, candidate: Candidate, error: float) -> SolvedCandidate:
    """Return a candidate, whose rows were counted, with its channels."""
    read, prototypes = candidate.read, candidate.prototypes
    rows = prototypes.coordinates.rows(read.sample.columns)
    points = rows.points(slice(0, len(rows)))
    codes = prototypes.nearest(points)
    changes = mean_changes(prototypes, points, codes, read.sample.weights)
    least = settings.min_size if read.strata is not None else 0
    parts = [_counted_part(candidate, k, least) for k in range(read.n_strata)]
    large = [k for k, part in enumerate(parts) if part.total >= least]
    n_families = sum(len(parts[k].groups) + len(parts[k].joined) for k in large)
    share = None if settings.level is None else error / max(n_families, 1)
    cost, epsilon = changes.distances + changes.scores, settings.guarantee.notion.epsilon
    problems = [
        ChannelProblem(
            _bounded(parts[k], share),
            parts[k].groups[0].sizes,
            cost[np.ix_(parts[k].present, parts[k].present)],
            epsilon,
        )
        for k in large
    ]
    channels = channels_of(problems, settings.n_jobs)
    for k, problem, channel in zip(large, problems, channels, strict=True):
        parts[k] = replace(parts[k], problem=problem, channel=channel)
    return SolvedCandidate(candidate, parts, codes, share, changes)


def channels_of(problems: Sequence[ChannelProblem], n_jobs: int | None) -> Iterator[IntegerRows]:
    """Yield the channel of each program in order, solved by ``n_jobs`` processes."""
    solved = Parallel(n_jobs=n_jobs, return_as="generator")(map(delayed(least_change), problems))
    return counted(solved, "programs", len(problems))


def _counted_part(candidate: Candidate, stratum: int, least: int) -> StratumChannel:
    """Return the counts of a stratum, without a program yet."""
    groups = candidate.counts(stratum)
    sizes = groups[0].sizes
    present = np.flatnonzero(sizes)
    joined: list[SecretCounts] = []
    if candidate.read.roles.joined and sizes.sum() >= least:
        labels = candidate.counts_by_label(stratum)
        joined = [g.some(present) for of in labels for g in of if g.sizes.any()]
    some = [group.some(present) for group in groups]
    return StratumChannel(present, some, joined, sizes / sizes.sum(), None, None)


def _bounded(part: StratumChannel, error: float | None) -> list[SecretMasses]:
    """Return the sets of masses over which the budget is kept; as counted without an error."""
    groups = [*part.groups, *part.joined]
    if error is not None:
        return [SecretMasses(group.boxes(error), group.pairs) for group in groups]
    occurring = [group.occurring() for group in groups]
    return [SecretMasses(each.as_counted(), each.pairs) for each in occurring if len(each.pairs)]


def prototype_numbers(settings: Settings, n_rows: int) -> list[int]:
    """Return the numbers of prototypes to try."""
    if settings.n_prototypes is not None:
        return [settings.n_prototypes]
    most = max(n_rows // settings.min_size, 1)
    return [n for n in CANDIDATES if n <= most] or [most]
