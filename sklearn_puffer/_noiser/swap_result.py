"""A fitted swap and what follows from it: certificate, `swap_`, warnings.

Its rows may be swapped beside labels that stay with their owners. For audits and for curves over
budgets or side information other rows are solved anew, and never released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray, __version__, shown, utc_now
from sklearn_puffer._losses import SwapDistributions
from sklearn_puffer._noise import Choices, Stream
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.swap_fit import (
    LEAST_STRATUM,
    SwapFit,
    SwapRead,
    count_cells,
    distance_of,
    gain_within,
    learnt_strata,
    read_rows,
)
from sklearn_puffer._noiser.swap_release import Counted, Solved, SwapRelease, swap_of
from sklearn_puffer._noiser.swap_rows import Distance, Points, WideRows, size_of
from sklearn_puffer._noiser.utility import RawDistribution, utility_of, utility_without_order
from sklearn_puffer._release import (
    SWAP_WARNING,
    ColumnUtility,
    Draws,
    Drift,
    FitRows,
    FittedMargins,
    Kept,
    LearntMechanism,
    Margin,
    PairLoss,
    ReadColumns,
    RowGroups,
    RowOrder,
    RowsOfSecrets,
    SetLoss,
    SwapCertificate,
    SwapFacts,
    column_of,
    compared_rows,
    margin_of,
    swap_assumptions,
)
from sklearn_puffer._release import sentences as say
from sklearn_puffer._swaps import ROW
from sklearn_puffer._tables import (
    AnyTable,
    Column,
    Missing,
    Name,
    Placed,
    Table,
    Values,
    beside,
    ranks_of,
    readable_column,
)
from sklearn_puffer.notions import promised

ONE_SWAP = (
    "Two swaps of the same people can tell everything, so one release is all: keep it, and hand "
    "out that."
)
_SEED = b"sklearn_puffer: a swap that is never released, to see what it changes"
_MOST_TRIED = 1 << 16  # rows of that swap
_SEED_AT = b"sklearn_puffer: a swap at another budget, which is never released"

MOST_LABELS = 20
"""Distinct labels beside a table, above which they are numbers and no classes."""


@dataclass(frozen=True, eq=False, repr=False)
class Swap:
    """A fitted swap, for display.

    Attributes
    ----------
    posteriors : dict of ndarray of shape (n_cells, n_secrets)
        By sensitive column: the share of each secret in each cell.
    counts : dict of ndarray of int64 of shape (n_cells, n_secrets)
        How many fitted rows of each cell have each secret.
    costs : ndarray of shape (n_cells, n_cells)
        The cost at which a row of one cell takes the place of a row of another.
    flows : ndarray of shape (n_cells, n_cells)
        The share of all fitted rows that goes from cell to cell, on average.
    unchanged : float
        The share of fitted rows that stay with their owners, on average.
    unchanged_by_secret : dict
        ``unchanged_by_secret[sensitive][secret]``: the same of the rows of each secret.
    """

    posteriors: Mapping[Any, FloatArray]
    counts: Mapping[Any, Array]
    costs: FloatArray
    flows: FloatArray
    unchanged: float
    unchanged_by_secret: Mapping[Any, Mapping[Any, float]]

    def __repr__(self) -> str:
        kept = "; ".join(
            f"{shown(secret)} {share:.1%}"
            for shares in self.unchanged_by_secret.values()
            for secret, share in shares.items()
        )
        return f"Swap({len(self.costs)} cells, unchanged {self.unchanged:.1%} ({kept}))"


@dataclass(frozen=True, eq=False)
class LearntSwap(LearntMechanism):
    """A fitted swap, and what follows from it."""

    fit: SwapFit
    service: Any = None  # that gives donors to single rows

    @property
    def read(self) -> SwapRead:
        """The single rows that were fitted, also where groups are exchanged."""
        return self.fit.read.single

    @property
    def grouped(self) -> RowGroups | None:
        """The groups that are exchanged, whose rows may depend on each other in any way."""
        form = self.fit.read.form
        return None if form is None else RowGroups(form.column, form.width, "any")

    @property
    def settings(self) -> Settings:
        """The parameters."""
        return self.read.settings

    def table_read(self) -> ReadColumns:
        """Return the columns of the table, and the pairs of secrets."""
        return self.read

    @property
    def missing(self) -> Missing:
        """How missing values are read."""
        return self.settings.columns.missing

    @property
    def order(self) -> RowOrder:
        """What the order of the rows tells about the secrets."""
        return self.read.order

    def useless(self) -> list[str]:
        """Return what a `UtilityWarning` says of the columns."""
        return say.worthless(self.utility)

    def mechanism(self) -> SwapRelease:
        """Return how rows are swapped."""
        return self.fit.release

    def attributes(self) -> dict[str, Any]:
        """Return the swap as users look at it; it has no priors."""
        return {"priors_": {}, "swap_": self._swap()}

    def _swap(self) -> Swap:
        counted = self.fit.release.counted
        posteriors = {column.sensitive: column.shares.T for column in counted}
        by_secret: dict[Name, dict[Any, float]] = {}
        for kept in self.kept:
            by_secret.setdefault(kept.sensitive, {})[kept.secret] = kept.share
        return Swap(
            posteriors=posteriors,
            counts={column.sensitive: column.counts.T for column in counted},
            costs=self.fit.release.costs,
            flows=self.flows,
            unchanged=self.unchanged,
            unchanged_by_secret=by_secret,
        )

    @property
    def unchanged(self) -> float:
        """The share of the rows that stay with their owners, on average."""
        if self.fit.release.shuffle:
            return 0.0
        if self.fit.reserve is None:
            return float(np.trace(self.flows))
        return self.fit.reserve.unchanged

    @cached_property
    def flows(self) -> FloatArray:
        """The mean flows of all strata together, as shares of the rows."""
        size = self.fit.release.cells.count
        flows = np.zeros((size, size))
        for stratum in self.fit.solved:
            flows[np.ix_(stratum.cells, stratum.cells)] += stratum.flows / ROW
        return np.asarray(flows / flows.sum())

    @cached_property
    def kept(self) -> tuple[Kept, ...]:
        """The share of rows of each secret that stay with their owners."""
        size = self.fit.release.cells.count
        total = self.flows.sum(axis=1)
        stay = np.divide(np.diag(self.flows), total, out=np.zeros(size), where=total > 0.0)
        stay *= not self.fit.release.shuffle
        kept: list[Kept] = []
        for column in self.fit.release.counted:
            shares = column.counts @ stay / column.counts.sum(axis=1)
            named = zip(column.labels, shares.tolist(), strict=True)
            kept += [Kept(column.sensitive, label, share) for label, share in named]
        return tuple(kept)

    def certificate(self) -> SwapCertificate:
        """Return the certificate, with both directions of every pair, and no fingerprint yet."""
        settings, read = self.settings, self.read
        pairs, what = self._pairs(), "rows" if self.grouped is None else "groups"
        return SwapCertificate(
            **settings.guarantee.notion.to_dict(),
            loss=max((pair.upper for pair in pairs), default=0.0),
            pairs=pairs,
            columns=(),
            assumptions=swap_assumptions(
                sensitive=[secret.name for secret in read.secrets],
                released=read.public,
                passed=read.passed,
                delta=settings.guarantee.notion.delta,
                seed=settings.seed,
                one_by_one=self.fit.reserve is not None,
                missing=[n for n in read.public if read.columns[n].n_missing],
                groups=None if self.fit.read.form is None else self.fit.read.form.column,
            ),
            strategy="exact",
            noise=settings.noise_name,
            dependence="joint",
            n_rows=self.fit.n_rows if self.grouped is None else self.read.n_rows,
            releases=1,
            rule=Draws(1, ONE_SWAP),
            prior=f"the {self.fit.n_rows} {what} fitted",
            n_columns=read.n_columns,
            version=__version__,
            date=utc_now(),
            utility=self.utility,
            around=self._over_set(),
            fitted=FittedSwap.of(self.read, self.mechanism()),
            swap=self._facts(),
            asked_of_set=settings.knowledge.confidence is not None,
            reserve=self.fit.reserve,
            groups=None if self.grouped is None else self.grouped.for_certificate(),
        )

    def _losses(self, *, boxes: bool) -> list[FloatArray]:
        """Return the worst loss of each pair of each sensitive column over all strata."""
        losses = [np.zeros((len(column.pairs), 2, 2)) for column in self.fit.release.counted]
        for stratum in self.fit.solved:
            pairs = zip(self.fit.release.counted, losses, strict=True)
            for position, (column, worst) in enumerate(pairs):
                distributions = stratum.distributions_of(position, column, boxes=boxes)
                np.maximum(worst, stratum.losses(distributions), out=worst)
        return losses

    def _pairs(self) -> tuple[PairLoss, ...]:
        pairs = []
        for column, losses in zip(self.fit.release.counted, self._losses(boxes=False), strict=True):
            for (a, b), ways in zip(column.pairs, losses.tolist(), strict=True):
                for (s, t), (low, high) in zip([(a, b), (b, a)], ways, strict=True):
                    names = column.labels[s], column.labels[t]
                    ends = (0, high, low, high)
                    pairs.append(PairLoss(column.sensitive, *names, *ends, "recomputed"))
        return tuple(pairs)

    def _over_set(self) -> SetLoss:
        losses = self._losses(boxes=True)
        worst = max((float(ends[..., 1].max()) for ends in losses if ends.size), default=0.0)
        level = 0.95
        return SetLoss(level, worst, exact=False, estimate=False, share=1.0, decided=())

    def _facts(self) -> SwapFacts:
        fit = self.fit
        swap = self.settings.swap
        assert swap is not None
        within, form = fit.within, fit.read.form
        strata = [*self.read.strata, *([] if form is None else [size_of(form.column)])]
        return SwapFacts(
            n_cells=fit.release.cells.count,
            tried=fit.tried,
            model=fit.model,
            strata=tuple(map(shown, strata)),
            n_strata=fit.release.strata.count,
            n_values=len(fit.release.strata.digests),
            unchanged=self.unchanged,
            kept=self.kept,
            expected_change=self._expected_change(),
            learnt=self.read.n_rows,
            within=None if within is None else (within.ends[0], within.gain, within.ends[1]),
            moved_loss=self._moved_loss(),
            strata_loss=self._strata_loss(),
            balance=swap.balance,
            shuffle=fit.release.shuffle,
            groups=None if form is None else shown(form.column),
        )

    def _expected_change(self) -> float:
        fit = self.fit
        if fit.one_by_one is None:
            return float((self.flows * fit.release.costs).sum())
        pairs = [(row, got) for row, got in zip(*fit.one_by_one, strict=True) if row != got]
        moved = [float(fit.points.between(*np.array(pair)[:, None])[0, 0]) for pair in pairs]
        return sum(moved) / max(len(fit.one_by_one[0]), 1)

    def _moved_loss(self) -> float:
        """Return how far odds change for a reader who finds his own row held by somebody else.

        That holder came from another cell or, in a shuffle, from another place of the same one.
        """
        worst = 0.0 if self.fit.reserve is None else self.fit.reserve.moved_loss
        for solved in self.fit.solved if self.fit.reserve is None else ():
            flows = solved.flows.astype(float)
            # a shuffle gives one row of the cell back to its owner, on average
            stay = 1.0 / solved.problem.sizes if self.fit.release.shuffle else 1.0
            flows[np.diag_indices_from(flows)] *= 1.0 - stay
            for distributions in solved.problem.distributions:
                worst = max(worst, _odds_moved(flows, solved, distributions))
        return worst

    def _strata_loss(self) -> float:
        """Return how far odds change for a reader who also learns the stratum of a row."""
        worst = 0.0
        if not self.fit.read.strata:
            return worst
        for position, column in enumerate(self.fit.release.counted):
            for solved in self.fit.solved:
                prior = column.counts.sum(axis=1)
                shares = solved.distributions_of(position, column, boxes=False).shares
                masses = shares @ (solved.flows / ROW)
                worst = max(worst, largest_gap(masses, prior, column.pairs))
        return worst

    @cached_property
    def utility(self) -> tuple[ColumnUtility, ...]:
        """The utility of a swap of the fitted rows that is drawn for this alone."""
        fit = self.fit
        rows, gets = self._tried() if fit.one_by_one is None else fit.one_by_one
        if fit.read.groups is not None:
            rows, gets = fit.read.groups.wide.rows(gets, rows)
        distance = distance_of(self.read)
        return tuple(_utility(name, self.read, distance, rows, gets) for name in self.read.public)

    def _tried(self) -> tuple[Array, Array]:
        """Return rows in the order of their digests, and the rows that their owners get."""
        fit, weights = self.fit, self.fit.read.weights
        order = np.argsort(fit.read.digests, kind="stable")
        copies = np.repeat(order, weights[order])
        few = min(len(copies), _MOST_TRIED)
        rows = copies[np.arange(few) * len(copies) // few]
        assigned = fit.assigned[0][rows], fit.assigned[1][rows]
        whole = len(rows) == fit.n_rows
        solved = fit.solved if whole else fit.release.solved(*assigned)
        choices = Choices(Stream(_SEED))

        def points(leaving: Array) -> Points:
            return fit.points.taken(rows[leaving])

        return rows, rows[fit.release.permutation(assigned, points, choices, solved)]

    def warnings(self) -> list[str]:
        """Return the warnings for the user."""
        fit, said = self.fit, []
        if fit.release.cells.count < 2:
            raise ValueError(
                "the classifier tells all rows alike, so that there is one cell and nothing to "
                "swap; take one that knows the secret, or release the rows as they are if nobody "
                "can tell it."
            )
        if fit.within is not None and np.isnan(fit.within.gain):
            said.append(
                "what a row tells within its cell was not measured, as some secret has too few "
                "rows for a fresh model; merge rare secrets, or give more rows."
            )
        if fit.within is not None and fit.within.ends[0] > 0.02:
            said.append(
                f"within the {fit.release.cells.count} cells a fresh model still finds "
                f"{fit.within.gain:.3g} nats a row of the secret, which the bound leaves out; "
                'take RecordSwap(within="shuffle"), or a better classifier (prior=).'
            )
        return [*said, SWAP_WARNING]


def _odds_moved(flows: Array, solved: Solved, distributions: SwapDistributions) -> float:
    shares = distributions.shares
    reached = flows.sum(axis=0) > 0
    masses = shares @ (flows[:, reached] / ROW)
    return largest_gap(masses, shares @ solved.problem.sizes, distributions.pairs)


def largest_gap(masses: FloatArray, prior: FloatArray, pairs: Array) -> float:
    """Return the largest change of the odds of a pair, in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(masses) - np.log(prior)[:, None]
        gaps = [np.abs(logs[a] - logs[b]) for a, b in pairs]
    # an outcome that neither secret reaches tells nothing
    return float(max((np.nanmax(gap, initial=0.0) for gap in gaps), default=0.0))


def _utility(
    name: Name, read: SwapRead, distance: Distance, rows: Array, gets: Array
) -> ColumnUtility:
    """Return the utility of a column."""
    values = read.columns[name]
    numbers = distance.numbers(name, values)
    weights, total = read.weights, read.n_rows
    if numbers is None:
        ranks = ranks_of(values)
        present = ranks >= 0
        distribution = RawDistribution.of(
            *_distribution(ranks[present].astype(float), weights[present]), total, values
        )
        return utility_without_order(name, distribution, float((ranks[rows] == ranks[gets]).mean()))
    there = ~np.isnan(numbers)
    distribution = RawDistribution.of(*_distribution(numbers[there], weights[there]), total, values)
    both = there[rows] & there[gets]
    moves = np.abs(numbers[rows] - numbers[gets])[both]
    same = float(((numbers[rows] == numbers[gets]) | ~(there[rows] | there[gets])).mean())
    spread = distance.units[name]
    change = float(moves.mean()) if moves.size else 0.0
    median = float(np.median(moves)) if moves.size else 0.0
    return utility_of(name, distribution, spread, change, same, median)


def _distribution(values: FloatArray, weights: Array) -> tuple[FloatArray, Array]:
    distinct, codes = np.unique(values, return_inverse=True)
    return distinct, np.bincount(codes.ravel(), weights, len(distinct))


# ----------------------------------------------------------------------------- beside labels


def label_codes(y: Any, n_rows: int, X: Any, wide: WideRows | None = None) -> Array | None:
    """Return a code for each label, the same for equal ones; None where they are too many.

    Wide rows have one code for all labels of a group, in their order.

    Raises
    ------
    ValueError
        If a label has too few rows to be exchanged among.
    """
    if y is None:
        return None
    [values] = beside(readable_column(y, "y"), n_rows, X, "y").values()
    codes = np.unique(ranks_of(values), return_inverse=True)[1].ravel()
    if codes.max() >= MOST_LABELS:
        return None
    if wide is not None:
        of_groups = np.where(wide.places >= 0, codes[wide.places], -1)
        codes = np.unique(of_groups, axis=0, return_inverse=True)[1].ravel()
    counts, what = np.bincount(codes), "row" if wide is None else "group"
    if counts.min() < LEAST_STRATUM:
        raise ValueError(
            f"y has a label with {counts.min()} {what}(s), and {what}s are exchanged among those "
            f"whose labels are equal, {LEAST_STRATUM} at least; merge rare labels, or call fit(X) "
            "and transform(X), which guarantee nothing about labels that are joined later."
        )
    return np.asarray(codes)


def beside_labels(
    release: SwapRelease, read: SwapRead, labels: Array | None
) -> tuple[SwapRelease, tuple[Array, Array]]:
    """Return the release of fitted rows within labels, and the stratum and cell of each row.

    Labels stay with their owners. A label tells something of the secret besides the row, so a cell
    is a cell of rows with a label, and its secrets are counted in these very rows.
    """
    strata, cells = release.assigned(read.columns)
    if labels is None:
        return release, (strata, cells)
    n_labels = int(labels.max()) + 1
    strata, cells = strata * n_labels + labels, cells * n_labels + labels
    costs = np.repeat(np.repeat(release.costs, n_labels, axis=0), n_labels, axis=1)
    counted = count_cells(read, len(costs), cells, 0.95)
    return replace(release, costs=costs, counted=counted), (strata, cells)


# ------------------------------------------------------------------------- other rows, solved anew


@dataclass(frozen=True, eq=False)
class SwapCurve:
    """A fitted swap of the rows of a table, which is never released."""

    settings: Settings
    release: SwapRelease
    read: SwapRead
    assigned: tuple[Array, Array]

    @classmethod
    def of(cls, noiser: Any, table: Table) -> SwapCurve:
        """Return the swap of a fitted noiser for a table with the sensitive columns."""
        settings = Settings.of(noiser.get_params(deep=False))
        swap = swap_of(noiser._fitted)
        assert swap is not None
        read = read_rows(settings, FitRows(table, None, None, noiser.sensitive), form=swap.form)
        return cls(settings, swap, read, swap.assigned(read.columns))

    def at(self, epsilon: float) -> tuple[Array, float]:
        """Return whose row each owner gets at another budget, and the proven loss."""
        notion = self.settings.guarantee.notion
        notion = promised(epsilon, notion.delta, notion.to_dict()["alpha"])
        release = replace(self.release, notion=notion)
        solved = release.solved(*self.assigned)
        points = release.distance.points(self.read.exchanged)
        gets = release.permutation(self.assigned, points.taken, Choices(Stream(_SEED_AT)), solved)
        if self.read.groups is not None:
            gets = self.read.groups.wide.row_by_row(gets)
        return gets, _loss(solved)

    def kept_if_known(self, names: Sequence[Name]) -> float:
        """Return the share of rows that stay with their owners if some columns may be known.

        Raises
        ------
        ValueError
            If too many of their values have too few rows.
        """
        form = self.read.form
        strata = list(names) if form is None else [*form.names(names), size_of(form.column)]
        read = replace(self.read, strata=strata)
        learnt = learnt_strata(read)
        release = replace(self.release, strata=learnt)
        at = learnt.of(read.columns, len(read.weights)), self.assigned[1]
        flows = [stratum.flows for stratum in release.solved(*at)]
        return float(sum(map(np.trace, flows)) / sum(matrix.sum() for matrix in flows))


def _loss(solved: Sequence[Solved]) -> float:
    return max(
        float(stratum.losses(distributions)[..., 1].max())
        for stratum in solved
        for distributions in stratum.problem.distributions
    )


@dataclass(frozen=True, eq=False)
class HeldSwap:
    """A swap of some rows, of which no flow is drawn.

    Attributes
    ----------
    strata : float
        How far odds in some stratum of these rows are from those in all, in nats.
    slack : ndarray of shape (n_tested,)
        For each tested row the most that drawn flows, in whole rows, may differ from mean ones: in
        rows of one secret, over all rows that are released in its cell.
    within : Within or None
        What a fresh model finds of a secret in these rows within the cells of `fit`.
    """

    strata: float
    slack: FloatArray
    within: Any


def held_swap(noiser: Any, table: Table, features: Any, tested: Array) -> HeldSwap | None:
    """Return figures of the swap of the tested rows of a table; None without a swap."""
    swap = swap_of(noiser._fitted)
    if swap is None:
        return None
    settings = Settings.of(noiser.get_params(deep=False))
    rows = FitRows(table, features, None, noiser.sensitive if features is None else None)
    read = read_rows(settings, rows, form=swap.form)
    strata, cells = swap.assigned(read.columns)
    strata, cells = strata[tested], cells[tested]
    solved, slack = swap.solved(strata, cells), np.zeros(len(tested))
    for stratum in solved:
        for cell, flows in zip(stratum.cells, stratum.flows.T, strict=True):
            rows = (strata == stratum.stratum) & (cells == cell)
            shares = [distributions.shares for distributions in stratum.problem.distributions]
            slack[rows] = max(_rounded(flows, of_column) for of_column in shares) / rows.sum()
    return HeldSwap(
        strata=_from_strata(swap.counted, solved),
        slack=slack,
        within=gain_within(read, swap),
    )


def _from_strata(counted: Sequence[Counted], solved: Sequence[Solved]) -> float:
    worst = 0.0
    for column in counted if len(solved) > 1 else ():
        sizes = [column.shares[:, stratum.cells] @ stratum.problem.sizes for stratum in solved]
        masses = np.array(sizes).T
        worst = max(worst, largest_gap(masses, masses.sum(axis=1), column.pairs))
    return worst


def _rounded(flows: IntArray, shares: FloatArray) -> float:
    """Return the most rows of a secret by which whole flows into a cell differ from mean ones."""
    parts = (flows % ROW) / ROW
    ups = round(float(parts.sum()))
    ranked = np.sort(np.where(parts > 0.0, shares, np.nan), axis=1)  # those that are whole last
    fractional = ranked[:, : int((parts > 0.0).sum())]
    means = np.where(parts > 0.0, shares, 0.0) @ parts
    most, least = (fractional[:, ::way][:, :ups].sum(axis=1) for way in (-1, 1))
    return float(max((most - means).max(), (means - least).max(), 0.0))


@dataclass(frozen=True, eq=False)
class FittedSwap(FittedMargins):
    """The margins and the cells of the fitted rows, in the certificate of a swap.

    Attributes
    ----------
    by_secret : dict of dict of list of Margin
        The margins of the rows of each secret, by sensitive column.
    stays : sequence of Column
        Those that stay with their owners.
    release : SwapRelease
    """

    by_secret: Mapping[Name, Mapping[Any, Sequence[Margin]]]
    stays: Sequence[Column]
    release: Any

    @classmethod
    def of(cls, read: Any, release: Any) -> FittedSwap:
        """Return the margins and cells of the rows that were read."""
        columns = [column_of(*column) for column in read.exchanged.items()]

        def margins(rows: Array) -> list[Margin]:
            return [margin_of_rows(c, read.columns[c.name], read.weights, rows) for c in columns]

        by_secret = {
            secret.name: {
                x: margins(read.codes[secret.name] == k) for k, x in enumerate(secret.labels)
            }
            for secret in read.secrets
        }
        everyone = np.ones(len(read.weights), dtype=bool)
        stays = [column_of(name, read.columns[name]) for name in read.passed]
        return cls(columns, margins(everyone), by_secret, stays, release)

    @property
    def secrets(self) -> dict[Name, list[Any]]:
        """The values of the sensitive columns."""
        return {name: list(of_secret) for name, of_secret in self.by_secret.items()}

    def check(self, X: Any, sensitive: Any = None) -> Drift:
        """Return whether rows look like those of `fit`, and the loss by their secrets in cells."""
        return compared_rows(self, X, sensitive)

    def against(self, prior: Any) -> NoReturn:
        """Refuse: the fitted rows are counted in cells, not as distributions of the columns."""
        raise ValueError(
            "prior is compared with noise, and the loss of a swap follows from its cells; give "
            "other adversaries as classifiers (prior=, adversaries=) and fit again."
        )

    def margins_of_secrets(self) -> Mapping[Name, Mapping[Any, Sequence[Margin]]]:
        """Return the margins of the rows of each secret."""
        return self.by_secret

    def budget(self) -> str:
        """Return what is guaranteed, in words."""
        return str(self.release.notion.budget_name())

    def estimated(
        self, table: AnyTable, placed: Sequence[Placed], rows_of_secrets: RowsOfSecrets
    ) -> tuple[float | None, str]:
        """Return the loss of a swap of these rows, by their own secrets, or why there is none."""
        try:
            wide, columns = self.release.read(table)
            strata, cells = self.release.assigned(columns)
        except (TypeError, ValueError) as error:
            return None, str(error)
        parts, worst = self.release.solved(strata, cells), 0.0
        cells_of = {
            (name, label): cells[rows if wide is None else rows[wide.first]]
            for name, label, rows in rows_of_secrets
        }
        for secrets in self.release.counted:
            counts = np.zeros_like(secrets.counts)
            for k, label in enumerate(secrets.labels):
                np.add.at(counts[k], cells_of.get((secrets.sensitive, label), cells[:0]), 1)
            seen = counts.sum(axis=1) > 0
            pairs = [pair for pair in secrets.pairs.tolist() if seen[pair].all()]
            for part in parts if pairs else ():
                if not counts[:, part.cells].sum(axis=0).all():
                    return None, "some cell has no row whose secret fit has seen"
                distributions = SwapDistributions(counts[:, part.cells], np.array(pairs))
                worst = max(worst, float(part.losses(distributions)[..., 1].max()))
        return worst, ""


def margin_of_rows(column: Column, values: Values, weights: Array, rows: Array) -> Margin:
    there = rows if values.missing is None else rows & ~values.missing
    total = int(weights[rows].sum())
    return margin_of(column, values.data[there].astype(float), weights[there], total)
