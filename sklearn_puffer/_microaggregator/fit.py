"""What `fit` learns: typical rows, counts of secrets, the channel, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from sklearn_puffer._base import (
    FloatArray,
    IntArray,
    __version__,
    counted,
    quoted,
    utc_now,
)
from sklearn_puffer._losses import prototype_losses
from sklearn_puffer._microaggregator.certificate import (
    MOST_TABLES,
    PrototypeCertificate,
    PrototypeFacts,
    PrototypeUtility,
    StrataFacts,
    as_matrix,
    as_rows,
    further_odds,
    not_covered,
    share_beyond,
    table_loss,
    utilities,
)
from sklearn_puffer._microaggregator.coordinates import (
    Coordinates,
    Points,
    Sample,
)
from sklearn_puffer._microaggregator.drawn import DrawnCounts, fitted_row_loss, learnt_bins
from sklearn_puffer._microaggregator.program import (
    Bounded,
    ChannelProblem,
    SecretCounts,
    Tally,
    least_change,
    whole_rows,
)
from sklearn_puffer._microaggregator.prototypes import Changes, Prototypes, with_scores
from sklearn_puffer._microaggregator.reading import (
    Batch,
    Settings,
    TableRead,
    read_lazily,
    read_table,
)
from sklearn_puffer._microaggregator.release import TypicalRows
from sklearn_puffer._microaggregator.strata import Known, Strata
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._release import (
    FitRows,
    LearntMechanism,
    PairLoss,
    Refused,
    RowOrder,
    sentences,
)
from sklearn_puffer._tables import (
    LazyTable,
    Name,
    counts_frame,
    resolve,
    values_frame,
)

CANDIDATES = (8, 30, 60, 100)
"""Numbers of prototypes that "auto" tries, ascending, as long as what is minimised falls."""

# ------------------------------------------------------------------------------ one number of them


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


def _posed(settings: Settings, candidate: Candidate, error: float) -> _Posed:
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


def _channels(problems: Sequence[ChannelProblem], n_jobs: int | None) -> Iterator[IntegerRows]:
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


def learn(settings: Settings, given: FitRows) -> LearntRows:
    """Learn typical rows and the channels between them, and compute what is said of them."""
    table = given.table
    if isinstance(table, LazyTable):
        read = read_lazily(settings, given, table)
    else:
        read = read_table(settings, given)
    sample = read.sample
    units = {
        resolve(name, read.public, "weights")[0]: unit for name, unit in settings.weights.items()
    }
    space = with_scores(Coordinates.learnt(sample, units), sample, settings.label_weight)
    numbers = numbers_of(settings, read.total)
    error = 0.0 if settings.level is None else (1.0 - settings.level) / len(numbers)
    tried: list[Tried] = []
    for candidate in _candidates(settings, read, space, numbers):
        posed = _posed(settings, candidate, error)
        problems = [part.problem for part in posed.parts if part.problem is not None]
        tried.append(posed.solved(_channels(problems, settings.n_jobs)))
        if len(tried) > 1 and tried[-1].objective >= tried[-2].objective:
            break  # it falls and then rises, and programs of more are the slow ones
    return LearntRows(settings, read, tried, min(tried, key=lambda each: each.objective))


def _candidates(
    settings: Settings, read: TableRead, space: Coordinates, numbers: Sequence[int]
) -> Iterator[Candidate]:
    """Yield each number of prototypes with its counts; an engine counts for all in one pass."""
    for some in [numbers] if read.is_lazy else [[n] for n in numbers]:
        several = [Prototypes.learnt(space, read.sample, n, settings.min_size) for n in some]
        batch, codes = read.count(several)
        for prototypes, of_rows in zip(several, codes, strict=True):
            candidate = Candidate(settings, read, prototypes)
            candidate.add(batch, of_rows)
            yield candidate


# ------------------------------------------------------------------------------------ what is said


@dataclass(frozen=True, eq=False)
class _Losses:
    """What a stratum loses about one sensitive column, of each pair either way, at least 0.

    Attributes
    ----------
    counted, proven : ndarray of shape (n_pairs, 2)
        As counted, and over the set.
    joint, further : float
    """

    counted: FloatArray
    proven: FloatArray
    joint: float
    further: float


def _losses_of(part: Part, group: SecretCounts, error: float | None) -> _Losses:
    """Return the losses of a stratum with a channel, each computed once, and exactly."""
    assert part.channel is not None
    there = group.occurring()
    both = np.isin(group.pairs, np.flatnonzero(group.counts.sum(axis=0))).all(axis=1)
    as_counted, further = np.zeros((len(group.pairs), 2)), 0.0
    if len(there.pairs):
        found = prototype_losses(part.channel, there.as_counted(), there.pairs)
        as_counted[both] = np.maximum(found.max(axis=2), 0.0)
        further = further_odds(part.channel, there.as_counted(), there.pairs)
    if error is None:
        return _Losses(as_counted, as_counted, 0.0, further)
    boxes = group.boxes(error)
    proven = prototype_losses(part.channel, boxes, group.pairs).max(axis=2)
    joint = prototype_losses(part.channel, group.joint_boxes(error), group.pairs).max()
    further = further_odds(part.channel, boxes, group.pairs)
    return _Losses(as_counted, np.maximum(proven, 0.0), max(float(joint), 0.0), further)


@dataclass(frozen=True, eq=False)
class LearntRows(LearntMechanism):
    """What a fit has learnt; see `LearntMechanism`."""

    settings: Settings
    read: TableRead
    tried: Sequence[Tried]
    best: Tried

    def table_read(self) -> TableRead:
        """Return the columns of the table, and the pairs of secrets."""
        return self.read

    @cached_property
    def typical(self) -> TypicalRows:
        """What releases rows."""
        best, strata = self.best, self.read.strata
        counts = best.candidate.drawn
        drawn = None if counts is None else counts.drawn()
        if strata is None:
            channel = best.parts[0].channel
            assert channel is not None
            return TypicalRows(best.prototypes, channel, drawn)
        channel, rows = best.released_by()
        return TypicalRows(best.prototypes, channel, drawn, Known(strata, rows))

    def mechanism(self) -> TypicalRows:
        """Return what releases rows."""
        return self.typical

    @property
    def order(self) -> RowOrder:
        """What the order of the rows tells about the secrets."""
        return self.read.order

    def released_order(self, names: Sequence[Name]) -> list[Name]:
        """Return the released columns: public ones, known ones, those handed through."""
        return [*self.read.public, *self.read.known, *self.read.handed]

    def attributes(self) -> dict[str, Any]:
        """Return what a fitted estimator shows: prototypes, counts, channel and labels."""
        best, strata = self.best, self.read.strata
        columns = [
            (secret.name, secret.labels[code])
            for secret, used, _ in self.read.groups
            for code in used
        ]
        counts = [
            np.hstack([group.counts for group in best.candidate.counts(k)])
            for k in range(self.read.n_strata)
        ]
        channels = [as_rows(part.matrix(best.shares)) for part in best.parts]
        labels = None if strata is None else (strata.names, strata.labels)
        return {
            "prototypes_": values_frame(best.prototypes.rows),
            "counts_": counts_frame(np.vstack(counts), columns, labels),
            "channel_": channels[0]
            if strata is None
            else dict(zip(strata.labels, channels, strict=True)),
            "_anew": best.anew,
            # groups of the rows of a lazy table have no place among them
            **({} if self.read.is_lazy else {"labels_": best.candidate.codes}),
        }

    @cached_property
    def _losses(self) -> list[list[_Losses]]:
        """The losses of each sensitive column, in each stratum with a channel."""
        best = self.best
        parts = [part for part in best.parts if part.channel is not None]
        return [
            [_losses_of(part, part.groups[k], best.error) for part in parts]
            for k in range(len(self.read.groups))
        ]

    def certificate(self) -> PrototypeCertificate:
        """Return the certificate, without a fingerprint yet."""
        facts, pairs, best = self._facts(), self._pairs(), self.best
        losses = [pair.upper for pair in pairs]
        if self.read.joined:
            losses += [p.problem.loss(p.channel) for p in best.parts if p.problem and p.channel]
        return PrototypeCertificate(
            epsilon=self.settings.guarantee.notion.epsilon,
            loss=max(losses),
            pairs=tuple(pairs),
            columns=(),
            assumptions=[*_TAKEN, *not_covered(facts), *self._beside()],
            strategy="least change",
            noise="microaggregation",
            dependence="joint",
            n_rows=self.read.total,
            rule=Refused(_NO_MORE),
            prior=_prior(self.settings.level),
            n_columns=self.read.n_columns,
            version=__version__,
            date=utc_now(),
            utility=tuple(self._utilities),
            prototypes=facts,
        )

    def _beside(self) -> list[str]:
        """Return what comes out as it is, and who can repeat the draws."""
        passed, seed = self.read.handed, self.settings.seed
        return [
            *([sentences.about_passed(passed)] if passed else []),
            *([] if seed is None else [sentences.about_seed(seed, "draws", "undo them")]),
        ]

    @cached_property
    def _utilities(self) -> list[PrototypeUtility]:
        return utilities(self.read.sample, self.best, self.typical)

    def _changes_more_than_a_constant(self) -> bool:
        """Whether rows do, over all columns; drawn values spread as the table does, and may."""
        changes = [(each.change_sd, each.constant_sd) for each in self._utilities]
        typical, constant = np.mean(changes, axis=0)
        return self.settings.values == "typical" and bool(typical > constant * (1.0 + 1e-9))

    def useless(self) -> list[str]:
        """Return that a constant would do as well: of all columns or in which strata, or of some.

        Drawn values spread as the table does, and may change more.
        """
        best, strata = self.best, self.read.strata
        flat = [k for k, part in enumerate(best.parts) if part.tells_nothing]
        if not flat and not (strata is None and self._changes_more_than_a_constant()):
            drawn = self.settings.values == "drawn"
            return [] if drawn else sentences.worthless(self._utilities, noisy=False)
        if strata is not None:
            share = sum(best.parts[k].total for k in flat) / self.read.total
            most = max(flat, key=lambda k: best.parts[k].total)
            return [
                f"{len(flat)} of {len(strata)} strata ({share:.0%} of the rows), such as "
                f"{quoted(strata.labels[most])[:40]}, are too small for more than a constant; "
                "merge known values, or fit on more rows."
            ]
        names = [
            (int(group.counts[:, k].sum()), secret.labels[code])
            for (secret, used, _), group in zip(self.read.groups, best.parts[0].groups, strict=True)
            for k, code in enumerate(used)
        ]
        few, label = min(names, key=lambda each: each[0])
        return [
            f"typical rows are hardly nearer than a constant: secret {quoted(label)[:40]} has "
            f"{few} rows; merge secrets, leave it out of secret_pairs, fit on more rows, or take "
            "level=None."
        ]

    def _pairs(self) -> list[PairLoss]:
        """Return the losses of each pair, the largest of any stratum."""
        found, bound = [], self.settings.guarantee.notion.epsilon
        for (secret, used, pairs), losses in zip(self.read.groups, self._losses, strict=True):
            none = np.zeros((len(pairs), 2))
            low = np.max([none, *(each.counted for each in losses)], axis=0)
            high = np.max([none, *(each.proven for each in losses)], axis=0)
            for pair, lower, upper in zip(pairs, low.tolist(), high.tolist(), strict=True):
                s, t = (secret.labels[used[k]] for k in pair)
                for way, (first, second) in enumerate([(s, t), (t, s)]):
                    low_one, up_one = lower[way], upper[way]
                    found.append(
                        PairLoss(
                            secret.name, first, second, 0, bound, low_one, up_one, "recomputed"
                        )
                    )
        return found

    def _facts(self) -> PrototypeFacts:
        best, settings = self.best, self.settings
        losses = [each for of_column in self._losses for each in of_column]
        most = max(MOST_TABLES // len(best.parts), 1)
        tables = [
            table_loss(part.channel, part.groups[0].sizes, there, most)
            for part in best.parts
            if part.channel is not None
            if (there := [g for g in (g.occurring() for g in part.groups) if len(g.pairs)])
        ]
        joint = max((each.joint for each in losses), default=0.0)
        return PrototypeFacts(
            n_prototypes=len(best.prototypes),
            smallest=int(np.rint(best.shares * self.read.total).min()),
            tried=tuple((len(each.prototypes), each.change) for each in self.tried),
            level=settings.level,
            grouping=best.grouping,
            moving=best.change - best.grouping,
            counted=max((float(each.counted.max()) for each in losses), default=0.0),
            joint=None if settings.level is None else joint,
            table=max(tables, default=0.0),
            further=max((each.further for each in losses), default=0.0),
            values=settings.values,
            drawn=self._drawn_loss(1),
            drawn_row=self._drawn_loss(best.n_columns),
            joined=tuple(map(str, self.read.joined)),
            labels=self.read.sample.labels is not None and settings.label_weight > 0.0,
            beyond=self._beyond(),
            strata=None if self.read.strata is None else self._strata_facts(self.read.strata),
        )

    def _strata_facts(self, strata: Strata) -> StrataFacts:
        """Return what known values tell by themselves, as shares of the people."""
        parts, total = self.best.parts, self.read.total
        sizes = np.array([part.total for part in parts])
        alike = [
            any((g.counts.sum(axis=0) == g.sizes.sum()).any() for g in part.groups)
            for part in parts
        ]
        return StrataFacts(
            known=tuple(map(str, strata.names)),
            n_strata=len(strata),
            constant=float(sizes[[part.tells_nothing for part in parts]].sum() / total),
            one_secret=float(sizes[alike].sum() / total),
            alone=float(sizes[sizes == 1].sum() / total),
            below_ten=float(sizes[sizes < 10].sum() / total),
        )

    def _drawn_loss(self, n_columns: int) -> float | None:
        """Return what so many drawn columns of a fitted row may lose besides."""
        best = self.best
        if best.candidate.drawn is None:
            return None
        sizes = np.rint(best.shares * self.read.total).astype(np.int64)
        return max(
            fitted_row_loss(group.counts, sizes, part.matrix(best.shares), n_columns)
            for k, part in enumerate(best.parts)
            for group in (each.occurring() for each in best.candidate.counts(k))
        )

    def _beyond(self) -> float | None:
        """Return the share of people beyond the budget within values of y, or of passed columns."""
        best, epsilon, shares = self.best, self.settings.guarantee.notion.epsilon, []
        for which in range(1, len(best.candidate.sizes)):
            share = 0.0
            for k, part in enumerate(best.parts):
                if part.channel is not None:
                    labels = [
                        [group.some(part.there) for group in columns]
                        for columns in best.candidate.labelled(k, which)
                    ]
                    share += part.total * share_beyond(part.channel, labels, epsilon)
            shares.append(share / self.read.total)
        return max(shares) if shares else None


_TAKEN = [
    "Rows are taken to be independent of each other given their public columns, new rows to follow "
    "the distribution of the fitted ones.",
    "The channel keeps the share of every typical row, and was found by a linear program that is "
    "not trusted: the loss is computed exactly, by other code, from whole numbers.",
]
_NO_MORE = (
    "a second independent release of a row may tell far more than the first: release each row "
    "once, or by row_id= and a key."
)


def _prior(level: float | None) -> str:
    if level is None:
        return "shares of secrets as counted"
    return f"all shares of secrets in the {level:.0%} set around the counts"
