"""What `fit` learns: typical rows, counts of secrets, the channel, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sklearn_puffer._base import (
    Array,
    FloatArray,
    IntArray,
    __version__,
    counted,
    listed,
    quoted,
    utc_now,
)
from sklearn_puffer._losses import prototype_losses
from sklearn_puffer._microaggregator.certificate import (
    PrototypeCertificate,
    PrototypeFacts,
    not_covered,
)
from sklearn_puffer._microaggregator.coordinates import (
    Coordinates,
    Rows,
    Sample,
    sample_rows,
)
from sklearn_puffer._microaggregator.counts import SecretCounts
from sklearn_puffer._microaggregator.drawn import DrawnCounts, fitted_row_loss, learnt_bins
from sklearn_puffer._microaggregator.figures import (
    as_matrix,
    further_odds,
    share_beyond,
    table_loss,
    utilities,
)
from sklearn_puffer._microaggregator.labels import with_scores
from sklearn_puffer._microaggregator.program import Bounded, ChannelProblem, least_change
from sklearn_puffer._microaggregator.prototypes import Changes, Prototypes
from sklearn_puffer._microaggregator.release import TypicalRows
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._release import (
    CountedTable,
    FitRows,
    Guarantee,
    LearntMechanism,
    PairLoss,
    Refused,
    RowOrder,
    order_told,
    rows_of,
    secret_of,
    sentences,
)
from sklearn_puffer._tables import (
    Faults,
    Name,
    Pair,
    Secret,
    Values,
    check_no_identifier,
    counts_frame,
    first_values,
    public_columns,
    resolve,
    row_digests,
    secret_pairs_of,
    values_frame,
)

CANDIDATES = (8, 24, 60, 150)
"""Numbers of prototypes that "auto" tries."""

MOST_JOINED = 20
"""Combinations of joined labels, each of which is a further family of constraints."""

_MOST_LABELS = 20


@dataclass(frozen=True, eq=False)
class Settings:
    """The parameters of a `PufferfishMicroaggregator`, as far as they are checked without data.

    Attributes
    ----------
    guarantee : Guarantee
    public, joined
        As the caller gave them.
    n_prototypes : int or None
        None for "auto".
    min_size : int
    level : float or None
    values : {"typical", "drawn"}
    label_weight : float
    weights : mapping
        The unit of distance of columns.
    remainder : {"drop", "passthrough"}
    seed : int or None
    """

    guarantee: Guarantee
    public: Any
    joined: Any
    n_prototypes: int | None
    min_size: int
    level: float | None
    values: str
    label_weight: float
    weights: Mapping[Any, Any]
    remainder: str
    seed: int | None


@dataclass(frozen=True, eq=False)
class TableRead:
    """A table as it was read."""

    rows: CountedTable
    hidden: list[Name]
    public: list[Name]
    passed: list[Name]
    joined: list[Name]
    columns: dict[Name, Values]
    secrets: list[Secret]
    pairs: dict[Name, list[Pair]]
    label: Values | None
    order: RowOrder
    n_columns: int

    @cached_property
    def groups(self) -> list[tuple[Secret, list[int], Array]]:
        """Of each sensitive column the codes of the protected secrets, and pairs of these."""
        groups = []
        for secret in self.secrets:
            pairs = np.array([[secret.find(a) for a in p] for p in self.pairs[secret.name]])
            used = np.unique(pairs)
            groups.append((secret, used.tolist(), np.searchsorted(used, pairs)))
        return groups

    @cached_property
    def joined_codes(self) -> IntArray | None:
        """The combination of joined labels of each row, where there are any."""
        if not self.joined:
            return None
        codes = [codes_of(name, self.rows.values(name), self.rows) for name in self.joined]
        kinds = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)[1].ravel()
        if kinds.max() >= MOST_JOINED:
            raise ValueError(
                f"joined={listed(self.joined)} has {int(kinds.max()) + 1} combinations of values, "
                f"and at most {MOST_JOINED} labels are constraints; merge values, or join fewer "
                "columns."
            )
        return np.asarray(kinds)


def codes_of(name: Name, values: Values, rows: CountedTable) -> IntArray:
    """Return codes of the values of a column, missing ones among them."""
    if values.levels is not None:
        return np.asarray(values.filled(-1))
    present = np.unique(values.data, return_inverse=True)[1].ravel()
    return np.asarray(present if values.missing is None else np.where(values.missing, -1, present))


def read_table(settings: Settings, given: FitRows) -> TableRead:
    """Return the secrets and public columns of a table, with all that is wrong in one error.

    Raises
    ------
    TypeError, ValueError
        Naming every column that is at fault.
    """
    table, rows = given.table, rows_of(given.table, given.sample_weight)
    names, secrets = table.names, given.secrets
    if given.sensitive is not None:
        hidden = resolve(given.sensitive, names, "sensitive")
    else:
        hidden = [name for name in secrets or () if isinstance(name, str) and name in names]
    joined = [] if settings.joined is None else resolve(settings.joined, names, "joined")
    both = [name for name in joined if name in hidden]
    if both:
        raise ValueError(
            f"column {both[0]!r} is both sensitive and joined; name it in one of them."
        )
    public = public_columns(settings.public, names, [*hidden, *joined])
    faults = Faults()
    read = faults.of(
        lambda name: secret_of(given, rows, name, "category"),
        hidden if secrets is None else list(secrets),
    )
    columns = faults.of(lambda name: _public(rows, name, settings.public is not None), public)
    faults.refuse()
    label = None if given.y is None else rows.kept(given.y)
    if label is not None:
        for secret in read:
            check_label(label, secret, _raw(given, rows, secret.name), rows)
    used = {*hidden, *public, *joined}
    passing = settings.remainder == "passthrough"
    return TableRead(
        rows=rows,
        hidden=hidden,
        public=public,
        passed=[name for name in names if passing and name not in used],
        joined=joined,
        columns=dict(zip(public, columns, strict=True)),
        secrets=read,
        pairs=secret_pairs_of(settings.guarantee.pairs, read),
        label=label,
        order=order_told(rows, read),
        n_columns=len({*names, *(secrets or ())}),
    )


def check_label(label: Values, secret: Secret, raw: Values, rows: CountedTable) -> None:
    """Refuse a y that tells a secret, or is told by it: typical rows are not chosen by secrets.

    That this depends on secrets tells them to nobody but the steward, who passed them.
    """
    y, own = codes_of("y", label, rows), secret.codes(rows.n_rows)
    n_both = len(np.unique(np.stack([y, own]), axis=1).T)
    n_each = len(np.unique(y)), len(np.unique(own))
    told = n_each[0] > 1 and n_both in n_each and max(n_each) <= _MOST_LABELS
    if told or np.array_equal(row_digests({"y": label}), row_digests({"y": raw})):
        raise ValueError(
            f"y and sensitive column {quoted(secret.name)} tell each other, and typical rows would "
            "be chosen by secrets; pass another y, or label_weight=0 to leave it out."
        )


def _raw(given: FitRows, rows: CountedTable, name: Name) -> Values:
    return rows.values(name) if given.secrets is None else rows.kept(given.secrets[name])


def _public(rows: CountedTable, name: Name, named: bool) -> Values:
    values = rows.kept(first_values(rows.table, name))
    check_no_identifier(name, values, rows.weights, named=named)
    return values


# ------------------------------------------------------------------------------ one number of them


@dataclass(frozen=True, eq=False)
class Tried:
    """Prototypes, what was counted of them, and the channel of least change between them."""

    prototypes: Prototypes
    codes: IntArray
    groups: list[SecretCounts]
    joined: list[SecretCounts]
    changes: Changes
    problem: ChannelProblem
    channel: IntegerRows

    @cached_property
    def matrix(self) -> FloatArray:
        """K, shape (n, n)."""
        return np.asarray(as_matrix(self.channel).toarray())

    @property
    def n_columns(self) -> int:
        """How many columns are released."""
        return len(self.prototypes.rows)

    @property
    def change(self) -> float:
        """The change a column, in standard deviations."""
        return self.problem.cost(self.matrix) / self.n_columns

    @property
    def grouping(self) -> float:
        """The same, if every row became its own typical row."""
        return self.problem.cost(np.eye(self.problem.n)) / self.n_columns


def _tried(
    settings: Settings, read: TableRead, sample: Sample, space: Coordinates, n: int, error: float
) -> Tried:
    prototypes = Prototypes.learnt(space, sample, n, settings.min_size)
    rows = space.rows(read.columns)
    codes, changes = prototypes.assign(rows), Changes(prototypes)
    _add(changes, rows, codes, read.rows.weights)
    groups = [_counts(read, group, codes, len(prototypes)) for group in read.groups]
    joined = [
        _counts(read, group, codes, len(prototypes), read.joined_codes == label)
        for group in read.groups
        for label in ([] if read.joined_codes is None else np.unique(read.joined_codes))
    ]
    each = [*groups, *joined]
    bounded = [_bounded(group, settings.level, error / len(each)) for group in each]
    problem = ChannelProblem(
        [one for one in bounded if one is not None],
        changes.sizes,
        changes.mean(),
        settings.guarantee.notion.epsilon,
    )
    return Tried(prototypes, codes, groups, joined, changes, problem, least_change(problem))


def _add(changes: Changes, rows: Rows, codes: IntArray, weights: Array | None) -> None:
    for block in rows.blocks():
        part = None if weights is None else weights[block]
        changes.add(rows.points(block), codes[block], part)


def _counts(
    read: TableRead,
    group: tuple[Secret, list[int], Array],
    codes: IntArray,
    n: int,
    chosen: Array | None = None,
) -> SecretCounts:
    """Return the rows of each protected secret in each prototype, perhaps of some rows only."""
    secret, used, pairs = group
    weights = read.rows.weights
    if chosen is not None:
        weights = chosen * (1 if weights is None else weights)
    n_secrets = len(secret.labels)
    cells = codes * n_secrets + secret.codes(read.rows.n_rows)
    counts = np.bincount(cells, weights, n * n_secrets).reshape(n, n_secrets).astype(np.int64)
    return SecretCounts(counts[:, used], counts.sum(axis=1), pairs)


def _bounded(group: SecretCounts, level: float | None, error: float) -> Bounded | None:
    """Return the masses over which the budget is kept; as counted, of secrets that occur."""
    if level is not None:
        return Bounded(group.boxes(error), group.pairs)
    there = np.flatnonzero(group.counts.sum(axis=0))
    pairs = group.pairs[np.isin(group.pairs, there).all(axis=1)]
    if not len(pairs):
        return None
    counts = SecretCounts(group.counts[:, there], group.sizes, np.searchsorted(there, pairs))
    return Bounded(counts.as_counted(), counts.pairs)


def numbers_of(settings: Settings, n_rows: int) -> list[int]:
    """Return the numbers of prototypes that are tried."""
    if settings.n_prototypes is not None:
        return [settings.n_prototypes]
    most = max(n_rows // settings.min_size, 1)
    return [n for n in CANDIDATES if n <= most] or [most]


def learn(settings: Settings, given: FitRows) -> LearntRows:
    """Learn typical rows and the channel between them, and compute what is said of them."""
    read = read_table(settings, given)
    sample = sample_rows(read.columns, read.label, read.rows.weights)
    units = {
        resolve(name, read.public, "weights")[0]: unit for name, unit in settings.weights.items()
    }
    space = with_scores(Coordinates.learnt(sample, units), sample, settings.label_weight)
    numbers = numbers_of(settings, read.rows.total)
    error = 0.0 if settings.level is None else (1.0 - settings.level) / len(numbers)
    tried = [
        _tried(settings, read, sample, space, n, error)
        for n in counted(numbers, "numbers of prototypes")
    ]
    best = min(tried, key=lambda each: each.change)
    drawn = _drawn(settings, read, sample, best) if settings.values == "drawn" else None
    mechanism = TypicalRows(best.prototypes, best.channel, drawn)
    return LearntRows(settings, read, tried, best, mechanism, error)


def _drawn(settings: Settings, read: TableRead, sample: Sample, best: Tried) -> Any:
    counts = DrawnCounts(learnt_bins(sample, settings.min_size), len(best.prototypes))
    counts.add(read.columns, best.codes, read.rows.weights)
    return counts.drawn()


# ------------------------------------------------------------------------------------ what is said


@dataclass(frozen=True, eq=False)
class LearntRows(LearntMechanism):
    """What a fit has learnt; see `LearntMechanism`."""

    settings: Settings
    read: TableRead
    tried: Sequence[Tried]
    best: Tried
    typical: TypicalRows
    error: float

    def table_read(self) -> TableRead:
        """Return the columns of the table, and the pairs of secrets."""
        return self.read

    def mechanism(self) -> TypicalRows:
        """Return what releases rows."""
        return self.typical

    @property
    def order(self) -> RowOrder:
        """What the order of the rows tells about the secrets."""
        return self.read.order

    def attributes(self) -> dict[str, Any]:
        """Return what a fitted estimator shows: prototypes, counts, channel and labels."""
        best = self.best
        columns = [
            (secret.name, secret.labels[code])
            for secret, used, _ in self.read.groups
            for code in used
        ]
        counts = np.hstack([group.counts for group in best.groups])
        return {
            "prototypes_": values_frame(best.prototypes.rows),
            "counts_": counts_frame(counts, columns),
            "channel_": as_matrix(best.channel),
            "labels_": best.codes,
        }

    def certificate(self) -> PrototypeCertificate:
        """Return the certificate, without a fingerprint yet."""
        facts, pairs = self._facts(), self._pairs()
        return PrototypeCertificate(
            epsilon=self.settings.guarantee.notion.epsilon,
            loss=self.best.problem.loss(self.best.channel),
            pairs=tuple(pairs),
            columns=(),
            assumptions=[*_TAKEN, *not_covered(facts), *self._beside()],
            strategy="least change",
            noise="microaggregation",
            dependence="joint",
            n_rows=self.read.rows.total,
            rule=Refused(_NO_MORE),
            prior=_prior(self.settings.level),
            n_columns=self.read.n_columns,
            version=__version__,
            date=utc_now(),
            utility=tuple(
                utilities(self.read.columns, self.read.rows.weights, self.best, self.typical)
            ),
            prototypes=facts,
        )

    def _beside(self) -> list[str]:
        """Return what comes out as it is, and who can repeat the draws."""
        passed, seed = self.read.passed, self.settings.seed
        return [
            *([sentences.about_passed(passed)] if passed else []),
            *([] if seed is None else [sentences.about_seed(seed, "draws", "undo them")]),
        ]

    def warnings(self) -> list[str]:
        """Return that a constant would do as well, with the secret that costs most."""
        best = self.best
        constant = np.broadcast_to(best.problem.shares, best.matrix.shape)
        if best.change < 0.95 * best.problem.cost(constant) / best.n_columns:
            return []
        names = [
            (int(group.counts[:, k].sum()), secret.labels[code])
            for (secret, used, _), group in zip(self.read.groups, best.groups, strict=True)
            for k, code in enumerate(used)
        ]
        few, label = min(names, key=lambda each: each[0])
        return [
            f"typical rows say hardly more than a constant: secret {quoted(label)[:40]} has {few} "
            "rows; merge secrets, leave it out of secret_pairs, fit on more rows, or take "
            "level=None."
        ]

    def _pairs(self) -> list[PairLoss]:
        losses = []
        for number, (secret, used, pairs) in enumerate(self.read.groups):
            group = self.best.groups[number]
            counted_losses = prototype_losses(self.best.channel, group.as_counted(), pairs).max(
                axis=2
            )
            proven = counted_losses
            if self.settings.level is not None:
                boxes = group.boxes(self.error / self._n_families)
                proven = prototype_losses(self.best.channel, boxes, pairs).max(axis=2)
            for pair, low, high in zip(pairs, counted_losses, proven, strict=True):
                both = [secret.labels[used[k]] for k in pair]
                for way, (s, t) in enumerate([both, both[::-1]]):
                    lower, upper = max(float(low[way]), 0.0), max(float(high[way]), 0.0)
                    bound = self.settings.guarantee.notion.epsilon
                    losses.append(PairLoss(secret.name, s, t, 0, bound, lower, upper, "recomputed"))
        return losses

    @property
    def _n_families(self) -> int:
        return len(self.best.groups) + len(self.best.joined)

    def _facts(self) -> PrototypeFacts:
        best, settings = self.best, self.settings
        counted_losses, joint, further = [], [], []
        for group in best.groups:
            counts = group.as_counted()
            counted_losses.append(prototype_losses(best.channel, counts, group.pairs).max())
            boxes = counts
            if settings.level is not None:
                share = self.error / self._n_families
                boxes = group.boxes(share)
                joint_boxes = group.joint_boxes(share)
                joint.append(prototype_losses(best.channel, joint_boxes, group.pairs).max())
            further.append(further_odds(best.channel, boxes, group.pairs))
        return PrototypeFacts(
            n_prototypes=len(best.prototypes),
            smallest=int(best.problem.sizes.min()),
            tried=tuple((len(each.prototypes), each.change) for each in self.tried),
            level=settings.level,
            grouping=best.grouping,
            moving=best.change - best.grouping,
            counted=max(float(max(counted_losses)), 0.0),
            joint=max(float(max(joint)), 0.0) if joint else None,
            table=table_loss(best.channel, best.problem.sizes, best.groups),
            further=max(further),
            values=settings.values,
            drawn=self._drawn_loss(1),
            drawn_row=self._drawn_loss(best.n_columns),
            joined=tuple(map(str, self.read.joined)),
            labels=self.read.label is not None and settings.label_weight > 0.0,
            beyond=self._beyond(),
        )

    def _drawn_loss(self, n_columns: int) -> float | None:
        """Return what so many drawn columns of a fitted row may lose besides."""
        best = self.best
        if self.typical.drawn is None:
            return None
        return max(
            fitted_row_loss(group.counts, group.sizes, best.matrix, n_columns)
            for group in best.groups
        )

    def _beyond(self) -> float | None:
        """Return the share of people beyond the budget within values of y, or of passed columns."""
        read, best, epsilon = self.read, self.best, self.settings.guarantee.notion.epsilon
        named = [] if read.label is None else [("y", read.label)]
        named += [(str(name), read.rows.values(name)) for name in read.passed]
        shares = []
        for name, values in named:
            codes = codes_of(name, values, read.rows)
            labels = np.unique(codes)
            if len(labels) <= _MOST_LABELS:
                groups = [
                    _counts(read, group, best.codes, len(best.prototypes), codes == label)
                    for group in read.groups
                    for label in labels
                ]
                shares.append(share_beyond(best.channel, groups, epsilon))
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
