"""What `fit` learns: typical rows, counts of secrets, channels, and their certificate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from sklearn_puffer._base import FloatArray
from sklearn_puffer._certificates import (
    Guaranteed,
    Made,
    Method,
    PairLoss,
    Proof,
    Refused,
)
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._engines import LazyTable
from sklearn_puffer._losses import prototype_losses
from sklearn_puffer._microaggregator.candidates import (
    Candidate,
    SolvedCandidate,
    StratumChannel,
    prototype_numbers,
    solved,
)
from sklearn_puffer._microaggregator.certificate import (
    MOST_TABLES,
    PrototypeCertificate,
    PrototypeFacts,
    PrototypeUtility,
    StrataFacts,
    not_covered,
    table_loss,
    utilities,
)
from sklearn_puffer._microaggregator.coordinates import Coordinates
from sklearn_puffer._microaggregator.drawn import fitted_row_loss
from sklearn_puffer._microaggregator.program import SecretCounts
from sklearn_puffer._microaggregator.prototypes import Prototypes, with_scores
from sklearn_puffer._microaggregator.reading import Settings, TableRead, read_lazily, read_table
from sklearn_puffer._microaggregator.release import TypicalRows
from sklearn_puffer._microaggregator.strata import ChannelIndex, Strata
from sklearn_puffer._release import LearntMechanism
from sklearn_puffer._rows import FitRows, check_units, order_told
from sklearn_puffer._tables import counts_frame, values_frame
from sklearn_puffer._words import quoted


def learn(settings: Settings, given: FitRows) -> LearntRows:
    """Learn typical rows and the channels between them."""
    table = given.table
    if isinstance(table, LazyTable):
        read = read_lazily(settings, given, table)
    else:
        read = read_table(settings, given)
    sample = read.sample
    units = check_units(settings.weights, read.roles.public)
    space = with_scores(Coordinates.learnt(sample, units), sample, settings.label_weight)
    numbers = prototype_numbers(settings, read.total)
    error = 0.0 if settings.level is None else (1.0 - settings.level) / len(numbers)
    tried: list[SolvedCandidate] = []
    for candidate in _candidates(settings, read, space, numbers):
        tried.append(solved(settings, candidate, error))
        if len(tried) > 1 and tried[-1].objective >= tried[-2].objective:
            break  # the objective falls, then rises, and larger programs are slow
    best = min(tried, key=lambda each: each.objective)
    n_columns = len({*table.names, *(given.secrets or ())})
    return LearntRows(settings, read, tried, best, n_columns)


def _candidates(
    settings: Settings, read: TableRead, space: Coordinates, numbers: Sequence[int]
) -> Iterator[Candidate]:
    """Yield each number of prototypes with its counts; an engine counts all in one pass."""
    for some in [numbers] if read.is_lazy else [[n] for n in numbers]:
        several = [Prototypes.learnt(space, read.sample, n, settings.min_size) for n in some]
        batch, codes = read.count(several)
        for prototypes, of_rows in zip(several, codes, strict=True):
            yield Candidate(settings, read, prototypes, batch, of_rows)


# ------------------------------------------------------------------------------- the certificate


@dataclass(frozen=True, eq=False)
class _Losses:
    """The losses of a stratum about one sensitive column, at least 0.

    Attributes
    ----------
    counted, proven : ndarray of shape (n_pairs, 2)
        As counted, and the worst over the confidence set, of each pair in both directions.
    joint : float
        See `PrototypeFacts`.
    """

    counted: FloatArray
    proven: FloatArray
    joint: float


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
        return _Losses(as_counted, as_counted, 0.0)
    boxes = group.boxes(error)
    proven = prototype_losses(part.channel, boxes, group.pairs).max(axis=2)
    channel, extended = part.with_absent_prototypes(group)
    joint = prototype_losses(channel, extended.joint_boxes(error), group.pairs).max()
    return _Losses(as_counted, np.maximum(proven, 0.0), max(float(joint), 0.0))


@dataclass(frozen=True, eq=False)
class LearntRows:
    """The typical rows and channels of a fit, with certificate and fitted attributes."""

    settings: Settings
    read: TableRead
    tried: Sequence[SolvedCandidate]
    best: SolvedCandidate
    n_columns: int

    def mechanism(self) -> LearntMechanism:
        """Return all that the fitted estimator takes."""
        read, roles, people = self.read, self.read.roles, self.read.people
        return LearntMechanism(
            hidden=roles.hidden,
            public=roles.public,
            passed=read.passed,
            pairs=people.pairs,
            mechanism=self.typical,
            certificate=self.certificate(),
            order=order_told(people.rows, people.secrets),
            columns=[*roles.public, *roles.known, *roles.remainder],
            useless=self.useless(),
            attributes=self.attributes(),
        )

    @cached_property
    def typical(self) -> TypicalRows:
        """The mechanism."""
        best, strata = self.best, self.read.strata
        counts = best.candidate.drawn
        drawn = None if counts is None else counts.drawn()
        if strata is None:
            channel = best.parts[0].channel
            assert channel is not None
            return TypicalRows(best.prototypes, channel, drawn)
        channel, rows = best.released_by()
        return TypicalRows(best.prototypes, channel, drawn, ChannelIndex(strata, rows))

    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes: prototypes, counts, channel and labels."""
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
        channels = [csr_array(part.matrix(best.shares)) for part in best.parts]
        labels = None if strata is None else (strata.names, strata.labels)
        return {
            "prototypes_": values_frame(best.prototypes.rows),
            "counts_": counts_frame(np.vstack(counts), columns, labels),
            "channel_": channels[0]
            if strata is None
            else dict(zip(strata.labels, channels, strict=True)),
            "_budget_curve": best.budget_curve,
            # rows of a lazy table have no order
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

    @cached_property
    def _of_labels(self) -> list[_Losses]:
        """The losses to readers who know a joined label, in each stratum with a channel."""
        return [
            _losses_of(part, group, self.best.error)
            for part in self.best.parts
            if part.channel is not None
            for group in part.joined
        ]

    def certificate(self) -> PrototypeCertificate:
        """Return the certificate, without a fingerprint yet."""
        facts, pairs = self._facts(), self._pairs()
        losses = [pair.upper for pair in pairs]
        losses += [float(each.proven.max(initial=0.0)) for each in self._of_labels]
        return PrototypeCertificate(
            Guaranteed(self.settings.guarantee.notion, _prior(self.settings.level)),
            Proof(max(losses), tuple(pairs), Refused(_NO_MORE)),
            Method("least change", "microaggregation"),
            Made.now(self.read.total, self.n_columns),
            [*_TAKEN, *not_covered(facts), *self._beside()],
            tuple(self._utilities),
            prototypes=facts,
        )

    def _beside(self) -> list[str]:
        """Return sentences on columns passed through and on a seed."""
        passed, seed = self.read.roles.remainder, self.settings.seed
        return [
            *([say.about_passed(passed)] if passed else []),
            *([] if seed is None else [say.about_seed(seed, "draws", "undo them")]),
        ]

    @cached_property
    def _utilities(self) -> list[PrototypeUtility]:
        return utilities(self.read.sample, self.best, self.typical)

    def _changes_more_than_a_constant(self) -> bool:
        """Whether typical rows do, on average over columns; drawn values are not judged."""
        changes = [(each.change_sd, each.constant_sd) for each in self._utilities]
        typical, constant = np.mean(changes, axis=0)
        return self.settings.values == "typical" and bool(typical > constant * (1.0 + 1e-9))

    def useless(self) -> list[str]:
        """Return a warning if a constant would do as well, for some columns or strata."""
        best, strata = self.best, self.read.strata
        flat = [k for k, part in enumerate(best.parts) if part.is_nearly_constant]
        if not flat and not (strata is None and self._changes_more_than_a_constant()):
            drawn = self.settings.values == "drawn"
            return [] if drawn else say.worthless(self._utilities, noisy=False)
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
        """Return the loss of each pair in both directions, the largest of any stratum."""
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
        losses = [*(each for of_column in self._losses for each in of_column), *self._of_labels]
        most = max(MOST_TABLES // len(best.parts), 1)
        tables = [
            table_loss(part.channel, groups[0].sizes, occurring, most)
            for part in best.parts
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
            table=max(tables, default=0.0),
            values=settings.values,
            drawn=self._drawn_loss(1),
            drawn_row=self._drawn_loss(best.n_columns),
            joined=tuple(map(str, self.read.roles.joined)),
            labels=self.read.sample.labels is not None and settings.label_weight > 0.0,
            strata=None if self.read.strata is None else self._strata_facts(self.read.strata),
        )

    def _strata_facts(self, strata: Strata) -> StrataFacts:
        """Return what strata tell by themselves."""
        parts, total = self.best.parts, self.read.total
        sizes = np.array([part.total for part in parts])
        one_secret = [
            any((g.counts.sum(axis=0) == g.sizes.sum()).any() for g in part.groups)
            for part in parts
        ]
        return StrataFacts(
            known=tuple(map(str, strata.names)),
            n_strata=len(strata),
            constant=float(sizes[[part.is_nearly_constant for part in parts]].sum() / total),
            one_secret=float(sizes[one_secret].sum() / total),
            alone=float(sizes[sizes == 1].sum() / total),
            below_ten=float(sizes[sizes < 10].sum() / total),
        )

    def _drawn_loss(self, n_columns: int) -> float | None:
        """Return the extra loss of ``n_columns`` drawn columns of a fitted row."""
        best = self.best
        if best.candidate.drawn is None:
            return None
        sizes = np.rint(best.shares * self.read.total).astype(np.int64)
        people = [
            (part.matrix(best.shares), group.occurring().counts)
            for k, part in enumerate(best.parts)
            for groups in (best.candidate.counts(k), *best.candidate.counts_by_label(k))
            for group in groups
        ]
        return max(
            fitted_row_loss(counts, sizes, channel, n_columns)
            for channel, counts in people
            if counts.any()
        )


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
