"""The numbers of typical rows that `fit` tries, and the channel of least change for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from joblib import Parallel, delayed

from sklearn_puffer._base import FloatArray, IntArray, counted
from sklearn_puffer._microaggregator.certificate import as_matrix
from sklearn_puffer._microaggregator.coordinates import EncodedRows, Sample
from sklearn_puffer._microaggregator.drawn import BinCounts, learnt_bins
from sklearn_puffer._microaggregator.program import (
    ChannelProblem,
    SecretCounts,
    SecretMasses,
    Tally,
    least_change,
    whole_rows,
)
from sklearn_puffer._microaggregator.prototypes import MeanDistances, Prototypes
from sklearn_puffer._microaggregator.reading import Batch, Settings, TableRead
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._tables import Name

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
        self.sizes = [int(each.max()) + 1 for each in (read.batch.joined, *read.batch.label_codes)]
        labels = zip(self.sizes, (batch.joined, *batch.label_codes), strict=True)
        n, n_strata, groups = len(prototypes), read.n_strata, read.groups
        self.tallies = [
            Tally(
                groups,
                batch.secrets,
                (batch.strata * size + of_row, codes),
                batch.weights,
                (n_strata * size, n),
            )
            for size, of_row in labels
        ]
        self.drawn = None
        if settings.values == "drawn":
            self.drawn = BinCounts(learnt_bins(read.sample, settings.min_size), n)
            self.drawn.add(batch.columns, codes, batch.weights)

    def counts(self, stratum: int) -> list[SecretCounts]:
        """Return the counts of each sensitive column in a stratum."""
        size = self.sizes[0]
        return self.tallies[0].of(slice(stratum * size, (stratum + 1) * size))

    def counts_by_label(self, stratum: int, which: int) -> list[list[SecretCounts]]:
        """Return the counts in a stratum for each joined label (0), or of the k-th label column."""
        size = self.sizes[which]
        cells = range(stratum * size, (stratum + 1) * size)
        return [self.tallies[which].of(slice(cell, cell + 1)) for cell in cells]


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
    change, grouping : float
        The mean change of a column, in standard deviations; and if every row became its own typical
        row.
    objective : float
        What is minimised: the change, plus that of the scores of labels.
    budget_curve : BudgetCurve or None
        None with known columns, where each stratum has a program.
    """

    candidate: Candidate
    parts: list[StratumChannel]
    sample_codes: IntArray
    error: float | None
    change: float
    grouping: float
    objective: float
    budget_curve: BudgetCurve | None

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

    def flows(self) -> Iterator[FloatArray]:
        """Yield for each stratum the share of all rows that are of a and are released as b."""
        total = sum(part.total for part in self.parts)
        for part in self.parts:
            yield (part.total / total * part.shares)[:, None] * part.matrix(self.shares)

    def expected(self, sample: Sample) -> tuple[dict[Name, float], ...]:
        """Return by column the change, that of typical rows alone, and the unchanged share."""
        axes = self.prototypes.coordinates.axes
        sums = np.zeros((len(axes), 3))
        changes = _changes(self.prototypes, sample, self.sample_codes, self.parts)
        for flows, change in zip(self.flows(), changes, strict=True):
            by_column, same = change.in_deviations(), change.unchanged()
            stay = flows.sum(axis=1)
            for total, axis in zip(sums, axes, strict=True):
                apart = by_column[axis.name]
                total += (
                    (flows * apart).sum(),
                    stay @ np.diag(apart),
                    (flows * same[axis.name]).sum(),
                )
        names = [axis.name for axis in axes]
        first, second, third = (dict(zip(names, of.tolist(), strict=True)) for of in sums.T)
        return first, second, third

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


def _changes(
    prototypes: Prototypes, sample: Sample, codes: IntArray, parts: Sequence[StratumChannel]
) -> Iterator[MeanDistances]:
    """Yield the mean distances of each stratum, over its sampled rows.

    For a prototype of which no row of the stratum was sampled, the rows of all strata count.
    """
    rows = prototypes.coordinates.rows(sample.columns)
    points = rows.points(slice(0, len(rows)))
    for k, part in enumerate(parts):
        own = sample.strata == k
        lacking = np.setdiff1d(part.present, codes[own])
        which = np.flatnonzero(own | np.isin(codes, lacking))
        changes = MeanDistances(prototypes)
        some = EncodedRows(points.numbers[which], [each[which] for each in points.indicators])
        changes.add(some, codes[which], sample.weights[which])
        yield changes


@dataclass(frozen=True, eq=False)
class _PosedCandidate:
    """A candidate whose programs are posed, not yet solved; see `SolvedCandidate`.

    Attributes
    ----------
    distances, scores : list of ndarray
        For each stratum the mean change of rows of a that are released as b, and of their scores.
    """

    candidate: Candidate
    parts: list[StratumChannel]
    sample_codes: IntArray
    error: float | None
    distances: list[FloatArray]
    scores: list[FloatArray]

    def solved(self, channels: Iterator[IntegerRows]) -> SolvedCandidate:
        """Return the candidate with the next of the channels for each of its programs."""
        parts = [p if p.problem is None else replace(p, channel=next(channels)) for p in self.parts]
        total = sum(part.total for part in parts)
        constant = np.asarray(sum(part.shares * part.total for part in parts)) / total
        change, grouping, objective = 0.0, 0.0, 0.0
        for part, distances, scores in zip(parts, self.distances, self.scores, strict=True):
            weight = part.total / total / len(self.candidate.read.public)
            flows = part.shares[:, None] * part.matrix(constant)
            change += weight * float((flows * distances).sum())
            objective += weight * float((flows * (distances + scores)).sum())
            grouping += weight * float(part.shares @ np.diag(distances))
        curve = self._budget_curve(parts)
        return SolvedCandidate(
            self.candidate, parts, self.sample_codes, self.error, change, grouping, objective, curve
        )

    def _budget_curve(self, parts: Sequence[StratumChannel]) -> BudgetCurve | None:
        part, read = parts[0], self.candidate.read
        if read.strata is not None or part.problem is None:
            return None
        distances = self.distances[0][np.ix_(part.present, part.present)]
        return BudgetCurve(part.problem, distances, len(read.public))


def posed_programs(settings: Settings, candidate: Candidate, error: float) -> _PosedCandidate:
    """Return the programs for the channels of a candidate, whose rows were counted."""
    read, prototypes = candidate.read, candidate.prototypes
    codes = prototypes.assign(prototypes.coordinates.rows(read.sample.columns))
    least = settings.min_size if read.strata is not None else 0
    parts = [_counted_part(candidate, k, least) for k in range(read.n_strata)]
    n_families = sum(len(p.groups) + len(p.joined) for p in parts if p.total >= least)
    share = None if settings.level is None else error / max(n_families, 1)
    changes = list(_changes(prototypes, read.sample, codes, parts))
    distances, scores = [each.mean() for each in changes], [each.scores() for each in changes]
    epsilon = settings.guarantee.notion.epsilon
    for k, part in enumerate(parts):
        if part.total >= least:
            inner = (distances[k] + scores[k])[np.ix_(part.present, part.present)]
            problem = ChannelProblem(_bounded(part, share), part.groups[0].sizes, inner, epsilon)
            parts[k] = replace(part, problem=problem)
    return _PosedCandidate(candidate, parts, codes, share, distances, scores)


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
    if candidate.read.joined and sizes.sum() >= least:
        labels = candidate.counts_by_label(stratum, 0)
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
