"""Numbers of typical rows that are tried: the channels, losses and changes of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from joblib import Parallel, delayed

from sklearn_puffer._base import FloatArray, IntArray, counted
from sklearn_puffer._microaggregator.certificate import as_matrix
from sklearn_puffer._microaggregator.coordinates import Points, Sample
from sklearn_puffer._microaggregator.drawn import DrawnCounts, learnt_bins
from sklearn_puffer._microaggregator.program import (
    Bounded,
    ChannelProblem,
    SecretCounts,
    Tally,
    least_change,
    whole_rows,
)
from sklearn_puffer._microaggregator.prototypes import Changes, Prototypes
from sklearn_puffer._microaggregator.reading import Batch, Settings, TableRead
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._tables import Name

CANDIDATES = (8, 30, 60, 100)
"""Numbers of prototypes that "auto" tries, ascending, as long as what is minimised falls."""


class Candidate:
    """One number of prototypes, and what is counted of all rows, which are added."""

    def __init__(self, settings: Settings, read: TableRead, prototypes: Prototypes) -> None:
        self.prototypes, self.read = prototypes, read
        groups = [(len(secret.labels), used, pairs) for secret, used, pairs in read.groups]
        self.sizes = [int(each.max()) + 1 for each in (read.batch.joined, *read.batch.named)]
        n = len(prototypes)
        self.tallies = [Tally(groups, n, read.n_strata * size) for size in self.sizes]
        self.drawn = None
        if settings.values == "drawn":
            self.drawn = DrawnCounts(learnt_bins(read.sample, settings.min_size), n)
        self.codes: IntArray = np.zeros(0, dtype=np.intp)

    def add(self, batch: Batch, codes: IntArray) -> None:
        """Add some rows, and their prototypes."""
        labels = [batch.joined, *batch.named]
        for tally, size, each in zip(self.tallies, self.sizes, labels, strict=True):
            tally.add(batch.secrets, codes, batch.strata * size + each, batch.weights)
        if self.drawn is not None:
            self.drawn.add(batch.columns, codes, batch.weights)
        self.codes = codes

    def counts(self, stratum: int) -> list[SecretCounts]:
        """Return the counts of each sensitive column in a stratum."""
        return self.labelled(stratum, 0, together=True)[0]

    def labelled(
        self, stratum: int, which: int, *, together: bool = False
    ) -> list[list[SecretCounts]]:
        """Return the counts of a stratum by label: of the joined ones, or of others."""
        size = self.sizes[which]
        start, width = stratum * size, size if together else 1
        steps = range(start, start + size, width)
        return [self.tallies[which].of(slice(first, first + width)) for first in steps]


@dataclass(frozen=True, eq=False)
class Part:
    """One stratum: its counts, and the channel of least change.

    Attributes
    ----------
    there : ndarray of int of shape (n,)
        The prototypes that its rows have.
    groups, joined : list of SecretCounts
        Of these prototypes, for each sensitive column; and of each joined label that occurs.
    shares : ndarray of shape (n_prototypes,)
    problem, channel : ChannelProblem, IntegerRows, or None
        Between these prototypes; None where the rows are too few for a program.
    """

    there: IntArray
    groups: list[SecretCounts]
    joined: list[SecretCounts]
    shares: FloatArray
    problem: ChannelProblem | None
    channel: IntegerRows | None

    @property
    def total(self) -> int:
        """How many rows there are."""
        return int(self.groups[0].sizes.sum())

    def matrix(self, constant: FloatArray) -> FloatArray:
        """Return K between all prototypes; rows of no channel are released in constant shares."""
        if self.channel is None:
            return np.broadcast_to(constant, (len(constant), len(constant)))
        matrix = np.tile(self.shares, (len(constant), 1))
        matrix[np.ix_(self.there, self.there)] = as_matrix(self.channel).toarray()
        return matrix

    def with_others(self, group: SecretCounts) -> tuple[IntegerRows, SecretCounts]:
        """Return the channel and counts with one more prototype, for all that no row has.

        Their rows are released in the stratum's shares, so that they are one; new rows may have
        them.
        """
        assert self.channel is not None
        if len(self.there) == len(self.shares):
            return self.channel, group
        rows = _RowList()
        rows.channel(self.channel, np.arange(len(self.there)))
        rows.constant(self.shares[self.there])
        counts, sizes = np.pad(group.counts, ((0, 1), (0, 0))), np.append(group.sizes, 0)
        return rows.stacked(len(sizes)), SecretCounts(counts, sizes, group.pairs)

    @cached_property
    def tells_nothing(self) -> bool:
        """Whether the channel leaves hardly more than a constant, and typical rows alone do."""
        if self.problem is None or self.channel is None:
            return True
        n, cost = self.problem.n, self.problem.cost
        little = 0.95 * cost(np.broadcast_to(self.problem.shares, (n, n)))
        return cost(as_matrix(self.channel).toarray()) >= little > cost(np.eye(n))


@dataclass(frozen=True, eq=False)
class Anew:
    """The program between the prototypes that were taken, to be solved for other budgets.

    Attributes
    ----------
    problem : ChannelProblem
    moves : ndarray of shape (n, n)
        The change of all columns, in standard deviations, where rows of a are released as b.
    n_columns : int
    """

    problem: ChannelProblem
    moves: FloatArray
    n_columns: int

    def change(self, epsilon: float) -> float:
        """Return the change a column under the channel of least change within a budget."""
        problem = replace(self.problem, epsilon=epsilon)
        channel = as_matrix(least_change(problem)).toarray()
        return replace(problem, distances=self.moves).cost(channel) / self.n_columns


@dataclass(frozen=True, eq=False)
class Tried:
    """Prototypes, and the channels of least change between them, one a stratum.

    Attributes
    ----------
    candidate : Candidate
    parts : list of Part
    sample_codes : ndarray of int
        The prototype of each sampled row.
    error : float or None
        Of the set of each stratum, sensitive column and joined label; None: as counted.
    change, grouping : float
        The change a column, in standard deviations; and if every row became its own typical row.
    objective : float
        What is minimised: the change, and where there are labels that of their scores as well.
    anew : Anew or None
        The program, to be solved for other budgets; None with known columns, where there are many.
    """

    candidate: Candidate
    parts: list[Part]
    sample_codes: IntArray
    error: float | None
    change: float
    grouping: float
    objective: float
    anew: Anew | None

    @property
    def prototypes(self) -> Prototypes:
        """The typical rows."""
        return self.candidate.prototypes

    @property
    def n_columns(self) -> int:
        """How many columns are released as typical ones."""
        return len(self.prototypes.rows)

    @cached_property
    def shares(self) -> FloatArray:
        """The share of each prototype among all rows."""
        total = sum(part.total for part in self.parts)
        return np.asarray(sum(part.shares * (part.total / total) for part in self.parts))

    def flows(self) -> Iterator[FloatArray]:
        """Yield for each stratum the shares of all rows that are of a and released as b."""
        total = sum(part.total for part in self.parts)
        for part in self.parts:
            yield (part.total / total * part.shares)[:, None] * part.matrix(self.shares)

    def expected(self, sample: Sample) -> tuple[dict[Name, float], ...]:
        """Return the change of each column, that by typical rows alone, and what is unchanged."""
        axes = self.prototypes.coordinates.axes
        sums = np.zeros((len(axes), 3))
        changes = _changes(self.prototypes, sample, self.sample_codes, self.parts)
        for flows, change in zip(self.flows(), changes, strict=True):
            by_column, same = change.by_column(), change.unchanged()
            stay = flows.sum(axis=1)
            for total, axis in zip(sums, axes, strict=True):
                apart = by_column[axis.name] / axis.factor
                total += (
                    (flows * apart).sum(),
                    stay @ np.diag(apart),
                    (flows * same[axis.name]).sum(),
                )
        names = [axis.name for axis in axes]
        first, second, third = (dict(zip(names, of.tolist(), strict=True)) for of in sums.T)
        return first, second, third

    def released_by(self) -> tuple[IntegerRows, IntArray]:
        """Return the channels of all strata as rows of one, and which of them are whose.

        The rows of a stratum are those of its prototypes, and one for others: its shares. The last
        row is the constant one.
        """
        n, rows = len(self.shares), _RowList()
        of_strata = np.empty((len(self.parts) + 1, n), dtype=np.int64)
        for k, part in enumerate(self.parts):
            if part.channel is None:
                of_strata[k] = -1
                continue
            if len(part.there) < n:
                of_strata[k] = rows.constant(part.shares)
            of_strata[k, part.there] = rows.channel(part.channel, part.there)
        of_strata[-1] = -1
        of_strata[of_strata < 0] = rows.constant(self.shares)
        return rows.stacked(n), of_strata


class _RowList:
    """Rows of a channel, which are added."""

    def __init__(self) -> None:
        self._rows: list[tuple[IntArray, IntArray]] = []

    def constant(self, shares: FloatArray) -> int:
        """Add a row of shares, and return its number."""
        targets = np.flatnonzero(shares)
        row = whole_rows(np.tile(shares[targets], (len(targets), 1)))
        self._rows.append((targets[row.targets[: row.starts[1]]], row.shares[: row.starts[1]]))
        return len(self._rows) - 1

    def channel(self, rows: IntegerRows, prototypes: IntArray) -> IntArray:
        """Add a channel between some prototypes, and return the numbers of its rows."""
        first = len(self._rows)
        for start, end in pairwise(rows.starts.tolist()):
            self._rows.append((prototypes[rows.targets[start:end]], rows.shares[start:end]))
        return np.arange(first, len(self._rows))

    def stacked(self, n_targets: int) -> IntegerRows:
        """Return all rows; there are as many as targets, the last of them for nobody."""
        while len(self._rows) < n_targets:
            self._rows.append(self._rows[-1])
        targets, shares = (np.concatenate(each) for each in zip(*self._rows, strict=True))
        return IntegerRows(np.cumsum([0, *(len(each) for each, _ in self._rows)]), targets, shares)


def _changes(
    prototypes: Prototypes, sample: Sample, codes: IntArray, parts: Sequence[Part]
) -> Iterator[Changes]:
    """Yield the changes of each stratum, over its sampled rows.

    Of a prototype of which no row of the stratum was sampled, over those of all strata.
    """
    rows = prototypes.coordinates.rows(sample.columns)
    points = rows.points(slice(0, len(rows)))
    for k, part in enumerate(parts):
        own = sample.strata == k
        lacking = np.setdiff1d(part.there, codes[own])
        which = np.flatnonzero(own | np.isin(codes, lacking))
        changes = Changes(prototypes)
        some = Points(points.numbers[which], [places[which] for places in points.places])
        changes.add(some, codes[which], sample.weights[which])
        yield changes


@dataclass(frozen=True, eq=False)
class _Posed:
    """A candidate whose programs are posed, and not solved yet; see `Tried`.

    Attributes
    ----------
    distances, scores : list of ndarray
        What rows of a change by, and their scores, where they are released as b.
    """

    candidate: Candidate
    parts: list[Part]
    sample_codes: IntArray
    error: float | None
    distances: list[FloatArray]
    scores: list[FloatArray]

    def solved(self, channels: Iterator[IntegerRows]) -> Tried:
        """Return it with the next of the channels for each of its programs."""
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
        told = (change, grouping, objective, self._anew(parts))
        return Tried(self.candidate, parts, self.sample_codes, self.error, *told)

    def _anew(self, parts: Sequence[Part]) -> Anew | None:
        part, read = parts[0], self.candidate.read
        if read.strata is not None or part.problem is None:
            return None
        moves = self.distances[0][np.ix_(part.there, part.there)]
        if not self.scores[0].any():
            moves = part.problem.distances  # the same, kept once
        return Anew(part.problem, moves, len(read.public))


def posed_programs(settings: Settings, candidate: Candidate, error: float) -> _Posed:
    """Return the programs for the channels of a candidate, whose rows were counted."""
    read, prototypes = candidate.read, candidate.prototypes
    codes = prototypes.assign(prototypes.coordinates.rows(read.sample.columns))
    least = settings.min_size if read.strata is not None else 0
    parts = [_counted_part(candidate, k, least) for k in range(read.n_strata)]
    n_families = sum(len(p.groups) + len(p.joined) for p in parts if p.total >= least)
    share = None if settings.level is None else error / max(n_families, 1)
    changes = list(_changes(prototypes, read.sample, codes, parts))
    apart, scores = [each.mean() for each in changes], [each.scores() for each in changes]
    epsilon = settings.guarantee.notion.epsilon
    for k, part in enumerate(parts):
        if part.total >= least:
            inner = (apart[k] + scores[k])[np.ix_(part.there, part.there)]
            problem = ChannelProblem(_bounded(part, share), part.groups[0].sizes, inner, epsilon)
            parts[k] = replace(part, problem=problem)
    return _Posed(candidate, parts, codes, share, apart, scores)


def channels_of(problems: Sequence[ChannelProblem], n_jobs: int | None) -> Iterator[IntegerRows]:
    """Yield the channel of each program, in their order, by so many processes."""
    solved = Parallel(n_jobs=n_jobs, return_as="generator")(map(delayed(least_change), problems))
    return counted(solved, "programs", len(problems))


def _counted_part(candidate: Candidate, stratum: int, least: int) -> Part:
    """Return a stratum as it was counted, without a channel yet."""
    groups = candidate.counts(stratum)
    sizes = groups[0].sizes
    there = np.flatnonzero(sizes)
    joined: list[SecretCounts] = []
    if candidate.read.joined and sizes.sum() >= least:
        labels = candidate.labelled(stratum, 0)
        joined = [g.some(there) for of in labels for g in of if g.sizes.any()]
    some = [group.some(there) for group in groups]
    return Part(there, some, joined, sizes / sizes.sum(), None, None)


def _bounded(part: Part, error: float | None) -> list[Bounded]:
    """Return the masses over which the budget is kept; as counted, of secrets that occur."""
    each = [*part.groups, *part.joined]
    if error is not None:
        return [Bounded(group.boxes(error), group.pairs) for group in each]
    there = [group.occurring() for group in each]
    return [Bounded(group.as_counted(), group.pairs) for group in there if len(group.pairs)]


def numbers_of(settings: Settings, n_rows: int) -> list[int]:
    """Return the numbers of prototypes that are tried."""
    if settings.n_prototypes is not None:
        return [settings.n_prototypes]
    most = max(n_rows // settings.min_size, 1)
    return [n for n in CANDIDATES if n <= most] or [most]
