"""What `fit` learns: typical rows, counts of secrets, channels, and their certificate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.sparse import csr_array, vstack

from sklearn_puffer._base import FloatArray, IntArray, counted
from sklearn_puffer._certificates import Guaranteed, Made, Method, PairLoss, Proof, Refused
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._engines import LazyTable
from sklearn_puffer._losses import prototype_losses
from sklearn_puffer._microaggregator.certificate import (
    MOST_TABLES,
    PrototypeCertificate,
    PrototypeFacts,
    PrototypeUtility,
    StrataFacts,
    about_missing,
    as_matrix,
    missing_warnings,
    not_covered,
    table_loss,
    utilities,
)
from sklearn_puffer._microaggregator.coordinates import Coordinates
from sklearn_puffer._microaggregator.program import (
    ChannelProblem,
    SecretCounts,
    SecretMasses,
    drawn_losses,
    for_new_people,
    least_change,
    whole_rows,
)
from sklearn_puffer._microaggregator.prototypes import (
    ColumnSampler,
    MeanChanges,
    Prototypes,
    column_sampler,
    fitted_row_loss,
    learnt_bins,
    mean_changes,
    with_scores,
)
from sklearn_puffer._microaggregator.reading import (
    Batch,
    Settings,
    TableRead,
    read_lazily,
    read_table,
)
from sklearn_puffer._microaggregator.release import TypicalRows
from sklearn_puffer._noise import WHOLE, IntegerRows
from sklearn_puffer._release import LearntMechanism
from sklearn_puffer._rows import FitRows, check_units, order_told
from sklearn_puffer._tables import counts_frame, values_frame
from sklearn_puffer._words import quoted

CANDIDATES = (8, 30, 60, 100)
"""Numbers of prototypes that "auto" tries, ascending, until the objective rises."""


def learn(settings: Settings, given: FitRows) -> LearntRows:
    """Learn typical rows and the channels between them."""
    lazy = isinstance(given.table, LazyTable)
    read = read_lazily(settings, given) if lazy else read_table(settings, given)
    most = max(read.total // settings.min_size, 1)
    numbers = [n for n in CANDIDATES if n <= most] or [most]
    if settings.n_prototypes is not None:
        numbers = [settings.n_prototypes]
    error = None if settings.level is None else (1.0 - settings.level) / len(numbers)
    tried: list[Candidate] = []
    for counts in _counts(settings, read, numbers):
        tried.append(solved(settings, read, *counts, error))
        if len(tried) > 1 and tried[-1].objective >= tried[-2].objective:
            break  # the objective falls, then rises, and larger programs are slow
    best = min(tried, key=lambda each: each.objective)
    n_columns = len({*given.table.names, *(given.secrets or ())})
    return LearntRows(settings, read, tried, best, n_columns)


def _counts(
    settings: Settings, read: TableRead, numbers: Sequence[int]
) -> Iterator[tuple[Prototypes, Batch, IntArray]]:
    """Yield prototypes, and all rows with theirs; an engine counts all numbers in one pass."""
    units = check_units(settings.weights, read.roles.public)
    plain = Coordinates.learnt(read.sample, units)
    space = with_scores(plain, read.sample, settings.label_weight)
    for some in [numbers] if read.is_lazy else [[n] for n in numbers]:
        several = [Prototypes.learnt(space, read.sample, n, settings.min_size) for n in some]
        batch, codes = read.count(several)
        for prototypes, of_rows in zip(several, codes, strict=True):
            yield prototypes, batch, of_rows


# ---------------------------------------------------------------------------------- the channels


@dataclass(frozen=True, eq=False)
class StratumChannel:
    """The counts of one stratum, and its channel of least change between its cells.

    Attributes
    ----------
    cells : ndarray of int of shape (n_prototypes,)
        The prototype whose cell each one is part of; see `joined_cells`.
    groups, joined : list of SecretCounts
        The counts in these cells, for each sensitive column; and for each joined label that
        occurs.
    counts : ndarray of int64 of shape (n_prototypes, n_secrets)
        The rows of each prototype and secret, those of all sensitive columns beside each other.
    sizes : ndarray of int64 of shape (n_prototypes,)
        The rows of each prototype.
    problem : ChannelProblem or None
        The program between the cells; None where the stratum has too few rows.
    channel : IntegerRows or None
        Its solution.
    """

    cells: IntArray
    groups: list[SecretCounts]
    joined: list[SecretCounts]
    counts: IntArray
    sizes: IntArray
    problem: ChannelProblem | None = None
    channel: IntegerRows | None = None

    @property
    def total(self) -> int:
        """The number of rows."""
        return int(self.sizes.sum())

    @property
    def shares(self) -> FloatArray:
        """The share of each prototype."""
        return np.asarray(self.sizes / self.total)

    @cached_property
    def present(self) -> IntArray:
        """The prototypes that have a cell, and may be released."""
        return np.unique(self.cells)

    @cached_property
    def row_of(self) -> IntArray:
        """The row of the channel that each prototype has."""
        return np.searchsorted(self.present, self.cells)

    def everywhere(self, counts: IntArray) -> IntArray:
        """Return counts in cells as counts in all prototypes."""
        every = np.zeros((len(self.cells), counts.shape[1]), dtype=np.int64)
        every[self.present] = counts
        return every

    def matrix(self, constant: FloatArray) -> FloatArray:
        """Return K between all prototypes; a stratum without a channel has the ``constant`` one."""
        n = len(constant)
        if self.channel is None:
            return np.broadcast_to(constant, (n, n))
        whole = _rows_between(self.present, self.channel, n).toarray()
        return np.asarray(whole[self.row_of] / WHOLE)

    @cached_property
    def is_nearly_constant(self) -> bool:
        """Whether the channel changes as much as a constant one, and typical rows alone less."""
        if self.problem is None or self.channel is None:
            return True
        n, cost = self.problem.n, self.problem.cost
        little = 0.95 * cost(np.broadcast_to(self.problem.shares, (n, n)))
        return cost(as_matrix(self.channel).toarray()) >= little > cost(np.eye(n))


def _rows_between(prototypes: IntArray, channel: IntegerRows, n_targets: int) -> Any:
    """Return the rows of a channel between some prototypes."""
    entries = channel.shares, prototypes[channel.targets], channel.starts
    return csr_array(entries, shape=(channel.n_cells, n_targets))


def joined_cells(sizes: IntArray, distances: FloatArray, least: int) -> IntArray:
    """Return the prototype whose cell each one joins, so that all cells have ``least`` rows.

    The smallest cell, the first among ties, joins the one that its rows are nearest to.

    >>> far = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]])
    >>> joined_cells(np.array([40, 3, 50]), far, 30).tolist()
    [0, 0, 2]
    """
    cells, sizes, left = np.arange(len(sizes)), sizes.copy(), np.arange(len(sizes))
    while len(left) > 1 and sizes[left].min() < least:
        smallest = left[sizes[left].argmin()]
        left = left[left != smallest]
        nearest = left[distances[smallest, left].argmin()]
        cells[cells == smallest] = nearest
        sizes[nearest] += sizes[smallest]
    return cells


def _stacked(rows: Sequence[Any]) -> IntegerRows:
    """Return rows as one channel, with copies of the last to at least the number of targets."""
    n_rows, n_targets = sum(each.shape[0] for each in rows), rows[0].shape[1]
    whole = vstack([*rows, *[rows[-1]] * max(n_targets - n_rows, 0)], format="csr")
    return IntegerRows(whole.indptr, whole.indices, whole.data)


@dataclass(frozen=True, eq=False)
class Candidate:
    """Prototypes, and the channel of least change between them for each stratum.

    Attributes
    ----------
    prototypes : Prototypes
    codes : ndarray of int
        The prototype of each row that is counted.
    drawn : ColumnSampler or None
        How columns are drawn, where they are.
    parts : list of StratumChannel
    sample_codes : ndarray of int
        The prototype of each sampled row.
    error : float or None
        Error of the confidence set of each stratum, sensitive column and joined label; None takes
        masses as counted.
    changes : MeanChanges
        Those of the sampled rows, of all strata together.
    """

    prototypes: Prototypes
    codes: IntArray
    drawn: ColumnSampler | None
    parts: list[StratumChannel]
    sample_codes: IntArray
    error: float | None
    changes: MeanChanges

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

    def released_by(self) -> tuple[IntegerRows, IntArray]:
        """Return the channels of all strata stacked, and which row each prototype of each has.

        The last row is the constant channel of the whole table.
        """
        n, n_rows = len(self.shares), 0
        rows: list[Any] = []
        of_strata = np.full((len(self.parts) + 1, n), -1)
        for k, part in enumerate(self.parts):
            if part.channel is None:
                continue
            of_strata[k] = n_rows + part.row_of
            rows.append(_rows_between(part.present, part.channel, n))
            n_rows += len(part.present)
        of_strata[of_strata < 0] = n_rows
        constant = whole_rows(np.broadcast_to(self.shares, (n, n)))
        return _stacked([*rows, _rows_between(np.arange(n), constant, n)[:1]]), of_strata


def solved(
    settings: Settings,
    read: TableRead,
    prototypes: Prototypes,
    batch: Batch,
    codes: IntArray,
    error: float | None,
) -> Candidate:
    """Return prototypes with their channels, by all rows, whose prototypes are ``codes``."""
    rows = prototypes.coordinates.rows(read.sample.columns)
    points = rows.points(slice(0, len(rows)))
    sample_codes = prototypes.nearest(points)
    changes = mean_changes(prototypes, points, sample_codes, read.sample.weights)
    least = settings.min_size if read.strata is not None else 0
    cost, problems = changes.distances + changes.scores, []
    parts = _counted_parts(read, batch, codes, cost, least)
    large = [k for k, part in enumerate(parts) if part.total >= least]
    n_families = sum(len(parts[k].groups) + len(parts[k].joined) for k in large)
    share = None if error is None else error / max(n_families, 1)
    for part in (parts[k] for k in large):
        groups = [*part.groups, *part.joined]
        if share is None:  # as counted, without sampling error
            occurring = [each for each in (g.occurring() for g in groups) if len(each.pairs)]
            bounded = [SecretMasses(each.as_counted(), each.pairs) for each in occurring]
        else:
            bounded = [SecretMasses(group.boxes(share), group.pairs) for group in groups]
        sizes, epsilon = part.groups[0].sizes, settings.guarantee.notion.epsilon
        problems.append(ChannelProblem(bounded, sizes, _between_cells(part, cost), epsilon))
    tasks = map(delayed(least_change), problems)
    channels = Parallel(n_jobs=settings.n_jobs, return_as="generator")(tasks)
    each = zip(large, problems, counted(channels, "programs", len(problems)), strict=True)
    for k, problem, channel in each:
        if share is not None:
            groups, dense = [*parts[k].groups, *parts[k].joined], as_matrix(channel).toarray()
            channel = for_new_people(problem, dense, groups, share) or channel
        parts[k] = replace(parts[k], problem=problem, channel=channel)
    drawn = None
    if settings.values == "drawn":
        bins, n = learnt_bins(read.sample, settings.min_size), len(prototypes)
        drawn = column_sampler(bins, n, batch.columns, codes, batch.weights)
    return Candidate(prototypes, codes, drawn, parts, sample_codes, share, changes)


def _between_cells(part: StratumChannel, cost: FloatArray) -> FloatArray:
    """Return the mean costs of the rows of each cell that are released as each cell's prototype."""
    n, total = len(part.present), np.zeros((len(part.present), len(part.present)))
    np.add.at(total, part.row_of, part.sizes[:, None] * cost[:, part.present])
    return total / np.bincount(part.row_of, part.sizes, n)[:, None]


def _counted_parts(
    read: TableRead, batch: Batch, codes: IntArray, cost: FloatArray, least: int
) -> list[StratumChannel]:
    """Return the counts of each stratum in its cells, without programs yet."""
    n_strata, n_prototypes = 1 if read.strata is None else len(read.strata), len(cost)
    n_labels, counts = int(read.batch.joined.max()) + 1, []
    cells = (batch.strata * n_labels + batch.joined) * n_prototypes + codes
    for (secret, *_), of_row in zip(read.groups, batch.secrets, strict=True):
        shape = n_strata, n_labels, n_prototypes, len(secret.labels)
        found = np.bincount(cells * shape[-1] + of_row, batch.weights, math.prod(shape))
        counts.append(found.astype(np.int64).reshape(shape))

    def of_columns(stratum: int, labels: Any) -> list[SecretCounts]:
        totals = [each[stratum, labels].sum(axis=0) for each in counts]
        both = zip(totals, read.groups, strict=True)
        return [SecretCounts(n[:, used], n.sum(axis=1), pairs) for n, (_, used, pairs) in both]

    parts = []
    for k in range(n_strata):
        groups = of_columns(k, slice(None))
        labels = [g for of in batch.labels for g in of_columns(k, of) if g.sizes.any()]
        sizes, every = groups[0].sizes, np.hstack([group.counts for group in groups])
        of = joined_cells(sizes, cost, least)
        parts.append(
            StratumChannel(
                of, [g.merged(of) for g in groups], [g.merged(of) for g in labels], every, sizes
            )
        )
    return parts


# ------------------------------------------------------------------------------- the certificate


class _Losses(NamedTuple):
    """The losses of a stratum about one sensitive column, at least 0.

    As counted, and the worst over the confidence set, of each pair in both directions; and the
    worst if the shares of prototypes differ, too: ``joint`` and ``chance`` of `PrototypeFacts`.
    """

    counted: FloatArray
    proven: FloatArray
    joint: float = 0.0
    chance: float = 0.0


def _losses_of(part: StratumChannel, group: SecretCounts, error: float | None) -> _Losses:
    """Return the exact losses of a stratum that has a channel."""
    assert part.channel is not None
    occurring = group.occurring()
    both = np.isin(group.pairs, np.flatnonzero(group.counts.sum(axis=0))).all(axis=1)
    as_counted = np.zeros((len(group.pairs), 2))
    if len(occurring.pairs):
        found = prototype_losses(part.channel, occurring.as_counted(), occurring.pairs)
        as_counted[both] = np.maximum(found.max(axis=2), 0.0)
    if error is None:
        return _Losses(as_counted, as_counted)
    boxes = group.boxes(error)
    proven = prototype_losses(part.channel, boxes, group.pairs).max(axis=2)
    joint = prototype_losses(part.channel, group.joint_boxes(error), group.pairs).max()
    drawn = drawn_losses(as_matrix(part.channel).toarray(), group, error)
    chance = float(np.quantile(drawn, 1.0 - error, method="higher"))
    return _Losses(as_counted, np.maximum(proven, 0.0), max(float(joint), 0.0), chance)


@dataclass(frozen=True, eq=False)
class LearntRows:
    """The typical rows and channels of a fit, with certificate and fitted attributes."""

    settings: Settings
    read: TableRead
    tried: Sequence[Candidate]
    best: Candidate
    n_columns: int

    def mechanism(self) -> LearntMechanism:
        """Return all that the fitted estimator takes."""
        roles, people, certificate = self.read.roles, self.read.people, self.certificate()
        strata, known = certificate.facts.strata, [*roles.known]
        told = [] if strata is None else say.one_secret_warnings(strata.one_secret, known)
        told += missing_warnings(people.secrets, people.rows)
        return LearntMechanism(
            hidden=roles.hidden,
            public=roles.public,
            passed=[*(c.name for c in self.typical.known_columns), *roles.remainder],
            pairs=people.pairs,
            mechanism=self.typical,
            certificate=certificate,
            order=order_told(people.rows, people.secrets),
            columns=[*roles.public, *roles.known, *roles.remainder],
            warnings=told,
            useless=self.useless(),
            attributes=self.attributes(),
        )

    @cached_property
    def typical(self) -> TypicalRows:
        """The mechanism."""
        best, strata = self.best, self.read.strata
        if strata is None:
            channel = best.parts[0].channel
            assert channel is not None
            return TypicalRows(best.prototypes, channel, best.drawn)
        channel, rows = best.released_by()
        return TypicalRows(best.prototypes, channel, best.drawn, strata, rows)

    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes: prototypes, counts, channel and labels."""
        best, strata = self.best, self.read.strata
        columns = [
            (secret.name, secret.labels[code])
            for secret, used, _ in self.read.groups
            for code in used
        ]
        counts = np.vstack([part.counts for part in best.parts])
        channels: Any = [csr_array(part.matrix(best.shares)) for part in best.parts]
        labels = None
        if strata is not None:  # each has a program of its own
            labels = strata.names, strata.labels
            channels = [dict(zip(strata.labels, channels, strict=True))]
        return {
            "prototypes_": values_frame(best.prototypes.rows),
            "counts_": counts_frame(counts, columns, labels),
            "channel_": channels[0],
            "_secret_rows": dict(zip(columns, counts.sum(axis=0).tolist(), strict=True)),
            # rows of a lazy table have no order
            **({} if self.read.is_lazy else {"labels_": best.codes}),
        }

    @cached_property
    def _losses(self) -> list[list[_Losses]]:
        """The losses in each stratum with a channel: of each sensitive column, then of labels."""
        return [
            [_losses_of(part, group, self.best.error) for group in (*part.groups, *part.joined)]
            for part in self.best.parts
            if part.channel is not None
        ]

    def certificate(self) -> PrototypeCertificate:
        """Return the certificate, without a fingerprint yet."""
        facts, level, seed = self._facts(), self.settings.level, self.settings.seed
        passed, prior = self.read.roles.remainder, "shares of secrets as counted"
        if level is not None:
            prior = f"all shares of secrets in the {level:.0%} set around the counts"
        proven = [each.proven.max(initial=0.0) for of_part in self._losses for each in of_part]
        pairs = self._pairs()
        return PrototypeCertificate(
            Guaranteed(self.settings.guarantee.notion, prior),
            Proof(float(max(proven, default=0.0)), tuple(pairs), Refused(_NO_MORE)),
            Method("least change", "microaggregation"),
            Made.now(self.read.total, self.n_columns),
            [
                *_TAKEN,
                *not_covered(facts),
                *about_missing(pairs),
                *say.about_apart(pairs),
                *([say.about_passed(passed)] if passed else []),
                *say.about_finer(self.typical.coarse),
                *([] if seed is None else [say.about_seed(seed, "draws", "undo them")]),
            ],
            tuple(self._utilities),
            prototypes=facts,
        )

    @cached_property
    def _utilities(self) -> list[PrototypeUtility]:
        return utilities(self.read.sample, self.best, self.typical)

    def useless(self) -> list[str]:
        """Return a warning if a constant would do as well, for some columns or strata."""
        parts, strata, drawn = self.best.parts, self.read.strata, self.settings.values == "drawn"
        flat = [k for k, part in enumerate(parts) if part.is_nearly_constant]
        changes = [(each.change_sd, each.constant_sd) for each in self._utilities]
        typical, constant = np.mean(changes, axis=0)
        beyond = bool(typical > constant * (1.0 + 1e-9)) and not drawn
        if not flat and (strata is not None or not beyond):
            return [] if drawn else say.worthless(self._utilities, noisy=False)
        if strata is not None:
            share = sum(parts[k].total for k in flat) / self.read.total
            most = max(flat, key=lambda k: parts[k].total)
            return [
                f"{len(flat)} of {len(strata)} strata ({share:.0%} of the rows), such as "
                f"{quoted(strata.labels[most])[:40]}, are too small for more than a constant; "
                "merge known values, or fit on more rows."
            ]
        names = [
            (int(group.counts[:, k].sum()), secret.labels[code])
            for (secret, used, _), group in zip(self.read.groups, parts[0].groups, strict=True)
            for k, code in enumerate(used)
        ]
        few, label = min(names, key=lambda each: each[0])
        where = "farther from" if beyond else "hardly nearer to"
        return [
            f"typical rows are {where} the true rows than a constant: secret "
            f"{quoted(label)[:40]} has {few} rows; merge secrets, leave it out of secret_pairs, "
            "fit on more rows, or take level=None."
        ]

    def _pairs(self) -> list[PairLoss]:
        """Return the loss of each pair in both directions, the largest of any stratum."""
        found, bound = [], self.settings.guarantee.notion.epsilon
        for k, (secret, used, pairs) in enumerate(self.read.groups):
            none = np.zeros((len(pairs), 2))
            low = np.max([none, *(of_part[k].counted for of_part in self._losses)], axis=0)
            high = np.max([none, *(of_part[k].proven for of_part in self._losses)], axis=0)
            for pair, lower, upper in zip(pairs, low.tolist(), high.tolist(), strict=True):
                s, t = (secret.labels[used[k]] for k in pair)
                for way, both in enumerate([(s, t), (t, s)]):
                    ends = bound, lower[way], upper[way]
                    found.append(PairLoss(secret.name, *both, 0, *ends, "recomputed"))
        return found

    def _facts(self) -> PrototypeFacts:
        best, settings = self.best, self.settings
        parts = [part for part in best.parts if part.channel is not None]
        losses = [each for of_part in self._losses for each in of_part]
        most = max(MOST_TABLES // len(best.parts), 1)
        tables = [
            table_loss(part.channel, groups[0].sizes, occurring, most)
            for part in parts
            if part.channel is not None
            for groups in (part.groups, *([label] for label in part.joined))
            if (occurring := [g for g in (g.occurring() for g in groups) if len(g.pairs)])
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
            chance=None if settings.level is None else max((e.chance for e in losses), default=0.0),
            table=max(tables, default=0.0),
            values=settings.values,
            drawn=self._drawn_loss(1),
            drawn_row=self._drawn_loss(best.n_columns),
            joined=tuple(map(str, self.read.roles.joined)),
            labels=self.read.sample.labels is not None and settings.label_weight > 0.0,
            strata=self._strata_facts(),
        )

    def _strata_facts(self) -> StrataFacts | None:
        """Return what strata tell by themselves."""
        if self.read.strata is None:
            return None
        parts, total = self.best.parts, self.read.total
        sizes = np.array([part.total for part in parts])
        one_secret = [
            any((g.counts.sum(axis=0) == g.sizes.sum()).any() for g in part.groups)
            for part in parts
        ]
        coarse = self.typical.coarse
        return StrataFacts(
            known=tuple(
                f"{name}{' (in bins)' * (name in coarse)}" for name in self.read.strata.names
            ),
            n_strata=len(parts),
            constant=float(sizes[[part.is_nearly_constant for part in parts]].sum() / total),
            one_secret=float(sizes[one_secret].sum() / total),
            alone=float(sizes[sizes == 1].sum() / total),
            below_ten=float(sizes[sizes < 10].sum() / total),
        )

    def _drawn_loss(self, n_columns: int) -> float | None:
        """Return the extra loss of ``n_columns`` drawn columns of a fitted row."""
        best = self.best
        if best.drawn is None:
            return None
        sizes = np.rint(best.shares * self.read.total).astype(np.int64)
        people = [
            (part.matrix(best.shares), part.everywhere(group.occurring().counts))
            for part in best.parts
            for group in (*part.groups, *part.joined)
        ]
        return max(
            fitted_row_loss(counts, sizes, channel, n_columns)
            for channel, counts in people
            if counts.any()
        )


_TAKEN = [
    "Rows are taken to be independent of each other given their public columns, new rows to follow "
    "the distribution of the fitted ones.",
    "The draw keeps the share of every group of rows, and was found by a linear program that is "
    "not trusted: the loss is computed exactly, by other code, from whole numbers.",
]
_NO_MORE = (
    "a second independent release of a row may tell far more than the first: release each row "
    "once, or by row_id= and a key."
)
