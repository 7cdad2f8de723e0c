"""A fitted swap, and what follows from it: certificate, `swap_`, warnings.

Its rows may be swapped beside labels that stay with their owners. Other rows are solved anew, and
never released: at other budgets, with other columns known, and as an audit asks about them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray, __version__, shown, utc_now
from sklearn_puffer._losses import SwapDistributions
from sklearn_puffer._noise import Choices, Stream
from sklearn_puffer._noiser.checked_rows import FittedSwap
from sklearn_puffer._noiser.settings import RowGroups, Settings
from sklearn_puffer._noiser.swap_fit import (
    LEAST_STRATUM,
    SwapFound,
    SwapRead,
    count_cells,
    distance_of,
    found_within,
    learnt_strata,
    read_rows,
)
from sklearn_puffer._noiser.swap_release import Counted, Solved, SwapRelease
from sklearn_puffer._noiser.swap_rows import Distance, Points, WideRows, size_of
from sklearn_puffer._noiser.utility import RawDistribution, utility_of, utility_without_order
from sklearn_puffer._releases import (
    ColumnUtility,
    Draws,
    Kept,
    PairLoss,
    SetLoss,
    SwapCertificate,
    SwapFacts,
    swap_assumptions,
)
from sklearn_puffer._swaps import ROW
from sklearn_puffer._tables import Name, Table, beside, known_column, ranks_of
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
    """A fitted swap, to be looked at.

    Attributes
    ----------
    posteriors : dict of ndarray of shape (n_cells, n_secrets)
        By sensitive column: the share of each secret in each cell.
    counts : dict of ndarray of int64 of shape (n_cells, n_secrets)
        How many fitted rows have which secret.
    costs : ndarray of shape (n_cells, n_cells)
        What it costs that a row of one cell takes the place of one of another.
    flows : ndarray of shape (n_cells, n_cells)
        Of all fitted rows the share that goes from cell to cell, on average.
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
class LearntSwap:
    """Everything that was found out, and what follows from it."""

    found: SwapFound

    @property
    def read(self) -> SwapRead:
        """The single rows that were fitted, also where groups of them are exchanged."""
        return self.found.read.single

    @property
    def grouped(self) -> RowGroups | None:
        """Which rows are exchanged as a whole, however they hang together, and the most of them."""
        form = self.found.read.form
        return None if form is None else RowGroups(form.column, form.width, "any")

    @property
    def settings(self) -> Settings:
        """The parameters."""
        return self.read.settings

    @property
    def always_alike(self) -> list[Name]:
        """Nothing: every value is released."""
        return []

    def mechanism(self) -> SwapRelease:
        """Return how rows are swapped."""
        return self.found.release

    def swap(self) -> Swap:
        """Return the swap as users look at it."""
        counted = self.found.release.counted
        posteriors = {each.sensitive: (each.counts / each.counts.sum(axis=0)).T for each in counted}
        by_secret: dict[Name, dict[Any, float]] = {}
        for kept in self.kept:
            by_secret.setdefault(kept.sensitive, {})[kept.secret] = kept.share
        return Swap(
            posteriors=posteriors,
            counts={each.sensitive: each.counts.T for each in counted},
            costs=self.found.release.costs,
            flows=self.flows,
            unchanged=self.unchanged,
            unchanged_by_secret=by_secret,
        )

    @property
    def unchanged(self) -> float:
        """The share of the rows that stay with their owners, on average."""
        if self.found.release.shuffle:
            return 0.0
        if self.found.reserve is None:
            return float(np.trace(self.flows))
        return self.found.reserve.unchanged

    @cached_property
    def flows(self) -> FloatArray:
        """The mean flows of all strata together, as shares of the rows."""
        size = self.found.release.cells.count
        flows = np.zeros((size, size))
        for each in self.found.solved:
            flows[np.ix_(each.cells, each.cells)] += each.flows / ROW
        return np.asarray(flows / flows.sum())

    @cached_property
    def kept(self) -> tuple[Kept, ...]:
        """The share of rows of each secret that stay with their owners."""
        size = self.found.release.cells.count
        total = self.flows.sum(axis=1)
        stay = np.divide(np.diag(self.flows), total, out=np.zeros(size), where=total > 0.0)
        stay *= not self.found.release.shuffle
        return tuple(
            Kept(own.sensitive, label, share)
            for own in self.found.release.counted
            for label, share in zip(
                own.labels, (own.counts @ stay / own.counts.sum(axis=1)).tolist(), strict=True
            )
        )

    def certificate(self) -> SwapCertificate:
        """Return the certificate, with both directions of every pair, and no fingerprint yet."""
        settings, read = self.settings, self.read
        pairs, what = self._pairs(), "rows" if self.grouped is None else "groups"
        return SwapCertificate(
            **settings.notion.to_dict(),
            loss=max((pair.upper for pair in pairs), default=0.0),
            pairs=pairs,
            columns=(),
            assumptions=swap_assumptions(
                sensitive=[secret.name for secret in read.secrets],
                released=read.public,
                passed=read.passed,
                delta=settings.notion.delta,
                seed=settings.seed,
                one_by_one=self.found.reserve is not None,
                missing=[n for n in read.public if read.columns[n].n_missing],
                groups=None if self.found.read.form is None else self.found.read.form.column,
            ),
            strategy="exact",
            noise=settings.noise_name,
            dependence="joint",
            n_rows=self.found.n_rows if self.grouped is None else self.read.n_rows,
            releases=1,
            rule=Draws(1, ONE_SWAP),
            prior=f"the {self.found.n_rows} {what} fitted",
            n_columns=read.n_columns,
            version=__version__,
            date=utc_now(),
            utility=self.utility,
            around=self._over_set(),
            fitted=FittedSwap.of(self.read, self.mechanism()),
            swap=self._facts(),
            asked_of_set=settings.confidence is not None,
            reserve=self.found.reserve,
            groups=None if self.grouped is None else self.grouped.for_certificate(),
        )

    def _losses(self, *, boxes: bool) -> list[FloatArray]:
        """Return the worst loss of each pair of each sensitive column over all strata."""
        found = [np.zeros((len(own.pairs), 2, 2)) for own in self.found.release.counted]
        for solved in self.found.solved:
            pairs = zip(self.found.release.counted, found, strict=True)
            for place, (own, worst) in enumerate(pairs):
                distributions = solved.distributions_of(place, own, boxes=boxes)
                np.maximum(worst, solved.losses(distributions), out=worst)
        return found

    def _pairs(self) -> tuple[PairLoss, ...]:
        found = []
        for own, losses in zip(self.found.release.counted, self._losses(boxes=False), strict=True):
            for (a, b), ways in zip(own.pairs, losses.tolist(), strict=True):
                for (s, t), (low, high) in zip([(a, b), (b, a)], ways, strict=True):
                    names = own.labels[s], own.labels[t]
                    found.append(PairLoss(own.sensitive, *names, 0, high, low, high, "recomputed"))
        return tuple(found)

    def _over_set(self) -> SetLoss:
        losses = self._losses(boxes=True)
        worst = max((float(each[..., 1].max()) for each in losses if each.size), default=0.0)
        level = 0.95
        return SetLoss(level, worst, exact=False, estimate=False, share=1.0, decided=())

    def _facts(self) -> SwapFacts:
        found = self.found
        swap = self.settings.swap
        assert swap is not None
        within, form = found.within, found.read.form
        strata = [*self.read.strata, *([] if form is None else [size_of(form.column)])]
        return SwapFacts(
            n_cells=found.release.cells.count,
            tried=found.tried,
            model=found.model,
            strata=tuple(map(shown, strata)),
            n_strata=found.release.strata.count,
            n_values=len(found.release.strata.digests),
            unchanged=self.unchanged,
            kept=self.kept,
            expected_change=self._expected_change(),
            learnt=self.read.n_rows,
            within=None if within is None else (within.ends[0], within.gain, within.ends[1]),
            moved_loss=self._moved_loss(),
            strata_loss=self._strata_loss(),
            balance=swap.balance,
            shuffle=found.release.shuffle,
            groups=None if form is None else shown(form.column),
        )

    def _expected_change(self) -> float:
        found = self.found
        if found.one_by_one is None:
            return float((self.flows * found.release.costs).sum())
        pairs = [(own, got) for own, got in zip(*found.one_by_one, strict=True) if own != got]
        moved = [float(found.points.between(*np.array(each)[:, None])[0, 0]) for each in pairs]
        return sum(moved) / max(len(found.one_by_one[0]), 1)

    def _moved_loss(self) -> float:
        """Return how far odds move for who finds that the holder of his own row is somebody else.

        That holder came from another cell, or from another place of the same one (shuffled).
        """
        worst = 0.0 if self.found.reserve is None else self.found.reserve.moved_loss
        for solved in self.found.solved if self.found.reserve is None else ():
            flows = solved.flows.astype(float)
            # of rows that are shuffled one of the cell's comes back to its owner
            stay = 1.0 / solved.problem.sizes if self.found.release.shuffle else 1.0
            flows[np.diag_indices_from(flows)] *= 1.0 - stay
            for distributions in solved.problem.distributions:
                worst = max(worst, _odds_moved(flows, solved, distributions))
        return worst

    def _strata_loss(self) -> float:
        """Return how far odds move for who learns the stratum of a row from the release, too."""
        if not self.found.read.strata:
            return 0.0
        worst = 0.0
        for place, own in enumerate(self.found.release.counted):
            for solved in self.found.solved:
                prior = own.counts.sum(axis=1)
                shares = solved.distributions_of(place, own, boxes=False).shares
                masses = shares @ (solved.flows / ROW)
                worst = max(worst, largest_gap(masses, prior, own.pairs))
        return worst

    @cached_property
    def utility(self) -> tuple[ColumnUtility, ...]:
        """How much survives in a swap of the fitted rows that is drawn for this alone."""
        found = self.found
        rows, gets = self._tried() if found.one_by_one is None else found.one_by_one
        if found.read.groups is not None:
            rows, gets = found.read.groups.wide.rows(gets, rows)
        distance = distance_of(self.read)
        return tuple(_utility(name, self.read, distance, rows, gets) for name in self.read.public)

    def _tried(self) -> tuple[Array, Array]:
        """Return rows, in an order of their own, and whose rows their owners get."""
        found, weights = self.found, self.found.read.weights
        order = np.argsort(found.read.digests, kind="stable")
        copies = np.repeat(order, weights[order])
        few = min(len(copies), _MOST_TRIED)
        rows = copies[np.arange(few) * len(copies) // few]
        places = found.places[0][rows], found.places[1][rows]
        whole = len(rows) == found.n_rows
        solved = found.solved if whole else found.release.solved(*places)
        choices = Choices(Stream(_SEED))

        def points(leaving: Array) -> Points:
            return found.points.taken(rows[leaving])

        return rows, rows[found.release.permutation(places, points, choices, solved)]

    def warnings(self) -> list[str]:
        """Return what the user should be warned of."""
        found, said = self.found, []
        if found.release.cells.count < 2:
            raise ValueError(
                "the classifier tells all rows alike, so that there is one cell and nothing to "
                "swap; take one that knows the secret, or release the rows as they are if nobody "
                "can tell it."
            )
        if found.within is not None and np.isnan(found.within.gain):
            said.append(
                "what a row tells within its cell was not measured, as some secret has too few "
                "rows for a fresh model; merge rare secrets, or give more rows."
            )
        if found.within is not None and found.within.ends[0] > 0.02:
            said.append(
                f"within the {found.release.cells.count} cells a fresh model still finds "
                f"{found.within.gain:.3g} nats a row of the secret, which the bound leaves out; "
                "take more cells (RecordSwap(cells=...)), a better classifier (prior=), or "
                'within="shuffle", which needs none.'
            )
        return said


def _odds_moved(flows: Array, solved: Solved, distributions: SwapDistributions) -> float:
    shares = distributions.shares
    some = flows.sum(axis=0) > 0
    masses = shares @ (flows[:, some] / ROW)
    return largest_gap(masses, shares @ solved.problem.sizes, distributions.pairs)


def largest_gap(masses: FloatArray, prior: FloatArray, pairs: Array) -> float:
    """Return how far the odds of a pair are at most from what they were, in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(masses) - np.log(prior)[:, None]
        gaps = [np.abs(logs[a] - logs[b]) for a, b in pairs]
    # where neither secret leads nothing is told
    return float(max((np.nanmax(gap, initial=0.0) for gap in gaps), default=0.0))


def _utility(
    name: Name, read: SwapRead, distance: Distance, rows: Array, gets: Array
) -> ColumnUtility:
    """Return what survives of a column."""
    values = read.columns[name]
    numbers = distance.numbers(name, values)
    weights, total = read.weights, read.n_rows
    if numbers is None:
        ranks = ranks_of(values)
        some = ranks >= 0
        distribution = RawDistribution.of(
            *_distribution(ranks[some].astype(float), weights[some]), total, values
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
    distinct, places = np.unique(values, return_inverse=True)
    return distinct, np.bincount(places.ravel(), weights, len(distinct))


# ----------------------------------------------------------------------------- beside labels


def label_codes(y: Any, n_rows: int, X: Any, wide: WideRows | None = None) -> Array | None:
    """Return a number for each label, the same for equal ones; None where they are too many.

    Of wide rows it is one for all labels of a group, in their order.

    Raises
    ------
    ValueError
        If a label has too few rows to be exchanged among.
    """
    if y is None:
        return None
    [values] = beside(known_column(y, "y"), n_rows, X, "y").values()
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
    """Return the release of fitted rows within labels that stay with their owners, and its places.

    A label tells something of the secret besides the row, so cells are those of both, and their
    secrets are counted: of these very rows.
    """
    strata, cells = release.places(read.columns)
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
    """What a fitted swap does to the rows of a table; nothing of it is a release."""

    settings: Settings
    release: SwapRelease
    read: SwapRead
    places: tuple[Array, Array]

    @classmethod
    def of(cls, noiser: Any, table: Table) -> SwapCurve:
        """Return that of a fitted noiser and a table with the sensitive columns."""
        settings = Settings.of(noiser.get_params(deep=False))
        swap = noiser._fitted.swap
        read = read_rows(settings, table, None, None, form=swap.form)
        return cls(settings, swap, read, swap.places(read.columns))

    def at(self, epsilon: float) -> tuple[Array, float]:
        """Return whose row each owner gets at another budget, and the loss that is proven."""
        notion = self.settings.notion
        notion = promised(epsilon, notion.delta, notion.to_dict()["alpha"])
        release = replace(self.release, notion=notion)
        solved = release.solved(*self.places)
        points = release.distance.points(self.read.own)
        gets = release.permutation(self.places, points.taken, Choices(Stream(_SEED_AT)), solved)
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
        at = learnt.of(read.columns, len(read.weights)), self.places[1]
        flows = [each.flows for each in release.solved(*at)]
        return float(sum(np.trace(each) for each in flows) / sum(each.sum() for each in flows))


def _loss(solved: Sequence[Solved]) -> float:
    losses: list[FloatArray] = [
        each.losses(distributions)[..., 1]
        for each in solved
        for distributions in each.problem.distributions
    ]
    return float(max(own.max() for own in losses))


@dataclass(frozen=True, eq=False)
class HeldSwap:
    """A swap of some rows, of which no flow is drawn.

    Attributes
    ----------
    strata : float
        How far odds in some stratum of these rows are from those in all, in nats.
    slack : ndarray of shape (n_tested,)
        How far drawn flows, whole numbers, may be from mean ones, in rows of one secret among all
        that are released in the cell of this one: the part of one of them.
    within : Within or None
        What a fresh model finds of the first secret in these rows within the cells of `fit`.
    """

    strata: float
    slack: FloatArray
    within: Any


def held_swap(noiser: Any, table: Table, given: Any, tested: Array) -> HeldSwap | None:
    """Return what there is to say of the swap of the tested rows of a table; None of no swap."""
    if noiser._fitted.swap is None:
        return None
    settings = Settings.of(noiser.get_params(deep=False))
    settings = settings if given is None else replace(settings, sensitive=None)
    read = read_rows(settings, table, given, None, form=noiser._fitted.swap.form)
    strata, cells = noiser._fitted.swap.places(read.columns)
    strata, cells = strata[tested], cells[tested]
    found, slack = noiser._fitted.swap.solved(strata, cells), np.zeros(len(tested))
    for each in found:
        for cell, flows in zip(each.cells, each.flows.T, strict=True):
            rows = (strata == each.stratum) & (cells == cell)
            slack[rows] = (
                max(
                    _rounded(flows, distributions.shares)
                    for distributions in each.problem.distributions
                )
                / rows.sum()
            )
    return HeldSwap(
        strata=_from_strata(noiser._fitted.swap.counted, found),
        slack=slack,
        within=found_within(read, noiser._fitted.swap),
    )


def _from_strata(counted: Sequence[Counted], found: Sequence[Solved]) -> float:
    worst = 0.0
    for own in counted if len(found) > 1 else ():
        shares = own.counts / own.counts.sum(axis=0)
        masses = np.array([shares[:, each.cells] @ each.problem.sizes for each in found]).T
        worst = max(worst, largest_gap(masses, masses.sum(axis=1), own.pairs))
    return worst


def _rounded(flows: IntArray, shares: FloatArray) -> float:
    """Return by how many rows of a secret whole flows into a cell may differ from mean ones."""
    parts = (flows % ROW) / ROW
    ups = round(float(parts.sum()))
    ranked = np.sort(np.where(parts > 0.0, shares, np.nan), axis=1)  # those that are whole last
    some = ranked[:, : int((parts > 0.0).sum())]
    means = np.where(parts > 0.0, shares, 0.0) @ parts
    most, least = (some[:, ::way][:, :ups].sum(axis=1) for way in (-1, 1))
    return float(max((most - means).max(), (means - least).max(), 0.0))
