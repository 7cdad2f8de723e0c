"""Fit a swap: from labelled rows to cells, counts of secrets in them, and flows between them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray, counted, listed, quoted
from sklearn_puffer._fits import Observed, cross_fitted, fitted, folds_of, targets
from sklearn_puffer._noiser.release import ColumnRelease
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.swap_release import Counted, Solved, SwapRelease
from sklearn_puffer._noiser.swap_rows import (
    MOST_LEVELS,
    ONE_STRATUM,
    Distance,
    FoldModels,
    LikeCells,
    Points,
    RowByRow,
    ScoredCells,
    Strata,
    ValueCells,
    WideForm,
    WideRows,
    columns_of,
    fixed_and_numbers,
    learnt_cells,
    learnt_centres,
    likeness,
    log_posteriors,
    size_of,
)
from sklearn_puffer._release import (
    CountedTable,
    FitRows,
    ReserveFacts,
    RowOrder,
    column_of,
    fitted_groups,
    group_names,
    known_columns,
    order_told,
    rows_of,
    secret_of,
)
from sklearn_puffer._sets import ONE, cell_bounds, cell_share
from sklearn_puffer._swaps import least_cost
from sklearn_puffer._tables import (
    AnyTable,
    FeatureForm,
    Features,
    Name,
    Secret,
    Values,
    check_no_identifier,
    public_columns,
    row_digests,
    secret_pairs_of,
)
from sklearn_puffer.fits import ClassifierFit

TRIED = (4, 8, 12, 20, 40)
"""Numbers of cells that "auto" chooses from."""

GAINED = 0.02
"""Nats a row that a fresh model may find within the cells of "auto"."""

LEAST_STRATUM = 30
"""Rows of a stratum, below which it is joined with others."""

_LEVEL = 0.95
_MOST_CELLS = 300  # by default, of rows that are alike
_MOST_VALUES, _FEW_VALUES = 200, 20  # combinations of values that may, or must, be cells
_FEW_COPIES = 10  # rows of each of them, on average
VALUES = "every combination of values"
# rows of each of two cells that are matched for what a move between them costs
_LEAST_MATCHED, _MATCHED = 8, 100
_MANY_ROWS = 5_000  # from here on boosting is not too sure of itself


@dataclass(frozen=True, eq=False)
class SwapRead:
    """The labelled rows of a table, as a swap reads them.

    Attributes
    ----------
    settings : Settings
    secrets : list of Secret
    columns : dict of Values
        The public and the passed columns.
    public, hidden, passed, strata : list of names
        Rows are exchanged within equal values of the columns of strata.
    pairs : dict of list of pairs
    weights : ndarray of int64 of shape (n_rows,)
    codes : dict of ndarray
        The secret of each row, by sensitive column.
    digests : ndarray of int64
        Of the public columns of each row.
    n_columns : int
    groups : Grouped or None
        The single rows, where rows of groups stand side by side.
    order : RowOrder
        What the order of the rows tells about the secrets.
    """

    settings: Settings
    secrets: list[Secret]
    columns: dict[Name, Values]
    public: list[Name]
    hidden: list[Name]
    passed: list[Name]
    strata: list[Name]
    pairs: dict[Name, list[Any]]
    weights: IntArray
    codes: dict[Name, Array]
    digests: Array
    n_columns: int
    groups: Grouped | None = None
    order: RowOrder = field(default_factory=RowOrder)

    @property
    def single(self) -> SwapRead:
        """The single rows; without groups these rows themselves."""
        return self if self.groups is None else self.groups.single

    @property
    def form(self) -> WideForm | None:
        """How rows of groups stand side by side."""
        return None if self.groups is None else self.groups.form

    @property
    def exchanged(self) -> dict[Name, Values]:
        """The public columns."""
        return {name: self.columns[name] for name in self.public}

    @property
    def seen(self) -> list[Name]:
        """The columns that cells depend on."""
        return [*self.public, *self.passed]

    @property
    def n_rows(self) -> int:
        """How many rows there are, each as often as it counts."""
        return int(self.weights.sum())


@dataclass(frozen=True, eq=False)
class Grouped:
    """Wide rows, and the single ones that they are made of."""

    single: SwapRead
    wide: WideRows
    form: WideForm


def read_rows(
    settings: Settings,
    given: FitRows,
    rows: CountedTable | None = None,
    form: WideForm | None = None,
) -> SwapRead:
    """Return the rows of a table, or the ``rows`` of it, their secrets and public columns.

    Rows of groups stand side by side, as many as in ``form``, or as the largest group has.
    """
    asked, table, hidden = settings.columns, given.table, given.hidden()
    rows = rows_of(table, given.sample_weight) if rows is None else rows
    grouping = group_names(asked.grouped, table, hidden)
    public = public_columns(asked.public, table.names, hidden, grouping)
    used = {*public, *hidden, *grouping}
    passed = [] if asked.remainder == "drop" else [n for n in table.names if n not in used]
    together = known_columns(asked.known, table.names, public)
    known = list(dict.fromkeys(public[k] for members in together for k in members))
    names = list(given.secrets) if given.secrets is not None else hidden
    secrets = [secret_of(given, rows, name, asked.missing) for name in names]
    columns = columns_of(rows, [*public, *passed])
    for name in public:
        check_no_identifier(name, columns[name], rows.weights, named=asked.public is not None)
    weights = np.ones(rows.n_rows, np.int64) if rows.weights is None else rows.weights
    read = SwapRead(
        settings=settings,
        secrets=secrets,
        columns=columns,
        public=public,
        hidden=hidden,
        passed=passed,
        strata=[*known, *passed],
        pairs=secret_pairs_of(settings.guarantee.pairs, secrets, 1, alone=False),
        weights=weights,
        codes={secret.name: secret.codes(rows.n_rows) for secret in secrets},
        digests=row_digests({name: columns[name] for name in public}),
        n_columns=len({*table.names, *(given.secrets or ())}),
        order=order_told(rows, secrets),
    )
    return _widened(read, table, grouping[0], form) if grouping else read


def _widened(read: SwapRead, table: AnyTable, column: Name, form: WideForm | None) -> SwapRead:
    """Return the rows of groups side by side; the size of a group stays with its owners."""
    settings = read.settings
    assert settings.columns.grouped is not None
    groups = (
        settings.columns.grouped
        if form is None
        else replace(settings.columns.grouped, most=form.width)
    )
    codes = fitted_groups(groups, table, column, read.codes)[1]
    wide = WideRows.of(codes, None if form is None else form.width)
    form = WideForm(column, wide.width, read.public, read.passed)
    weights = settings.weights
    settings = replace(
        settings,
        weights=form.settings(weights) if isinstance(weights, Mapping) else weights,
        columns=replace(settings.columns, categories=form.settings(settings.columns.categories)),
    )
    columns, public = form.columns(wide, read.columns), form.names(read.public)
    passed = [*form.names(read.passed), size_of(column)]
    known = form.names([name for name in read.strata if name not in read.passed])
    return replace(
        read,
        settings=settings,
        columns=columns,
        public=public,
        passed=passed,
        strata=[*known, *passed],
        weights=read.weights[wide.first],
        codes={name: codes[wide.first] for name, codes in read.codes.items()},
        digests=row_digests({name: columns[name] for name in public}),
        groups=Grouped(read, wide, form),
    )


@dataclass(frozen=True, eq=False)
class Within:
    """What a fresh model finds of a secret within cells, in nats a row, with its standard error."""

    gain: float
    error: float

    @property
    def ends(self) -> tuple[float, float]:
        """The 95 % interval."""
        return self.gain - 1.96 * self.error, self.gain + 1.96 * self.error


@dataclass(frozen=True, eq=False)
class SwapFit:
    """A fitted swap.

    Attributes
    ----------
    read : SwapRead
    release : SwapRelease
    assigned : tuple of ndarray
        Stratum and cell of each fitted row.
    solved : list of Solved
        The mean flows of the fitted rows by their own counts.
    within : Within or None
        Of the first sensitive column; None where cells are values, which tell all there is.
    model : str
        The model from which the cells were learnt.
    points : Points
        The fitted rows.
    tried : tuple of int
        Numbers of cells that were tried.
    reserve : ReserveFacts or None
        The rows set aside for rows that are released one by one, whose flows ``solved`` then has.
    one_by_one : tuple of ndarray or None
        Fitted rows, and the rows that they become in a trial of such releases, which is not
        released.
    """

    read: SwapRead
    release: SwapRelease
    assigned: tuple[Array, Array]
    solved: Sequence[Solved]
    within: Within | None
    model: str
    points: Points
    tried: tuple[int, ...]
    reserve: ReserveFacts | None = None
    one_by_one: tuple[Array, Array] | None = None

    @property
    def n_rows(self) -> int:
        """How many rows are counted, also those that cells were not learnt from."""
        return int(self.release.counted[0].counts.sum())


def find_swap(read: SwapRead) -> SwapFit:
    """Learn cells from labelled rows, count secrets in them, and solve for their own flows."""
    swap = read.settings.swap
    assert swap is not None
    strata = learnt_strata(read)
    rows_in = strata.of(read.columns, len(read.weights))
    distance = distance_of(read)
    points = distance.points(read.exchanged)
    free = distance.without(read.strata).points(read.exchanged)
    values = ValueCells(read.seen, np.unique(row_digests(read.columns)))
    narrow = values.count <= min(_MOST_VALUES, read.n_rows // _FEW_COPIES)
    narrow &= swap.cells == "auto" and swap.within == "stay" and not read.settings.knowledge.models
    trials: list[_Trial] = []
    fits: list[tuple[Name, ClassifierFit]] = []
    if swap.cells != "values" and not (narrow and values.count <= _FEW_VALUES):
        fits = _classifiers(read)
        models = [_fold_models(read, name, fit) for name, fit in fits]
        form = FeatureForm.of(read.columns)
        said = [model.posteriors(form, read.columns, read.digests) for model in models]
        shuffle = swap.within == "shuffle"
        # about a hundred rows a cell, which are alike
        many = int(np.clip(read.n_rows // 100, 8, _MOST_CELLS))
        numbers = (many,) if shuffle else TRIED
        numbers = numbers if swap.cells == "auto" else (swap.cells,)
        level = 1.0 - (1.0 - _LEVEL) / (len(numbers) + narrow)
        for number in counted(numbers, "numbers of cells tried"):
            cells = _cells(read, form, models, said, distance, number)
            at = cells.of(read.columns, read.public)
            trials.append(_trial(read, cells, at, strata, free, level))
    if narrow or swap.cells == "values":
        level = trials[0].level if trials else _LEVEL
        at = values.of(read.columns, read.public)
        trials.append(_trial(read, values, at, strata, free, level))
    chosen = _chosen(read, trials, distance) if len(trials) > 1 else trials[0]
    release = _release(read, strata, chosen, distance)
    sizes = np.zeros((strata.count, chosen.cells.count), dtype=np.int64)
    np.add.at(sizes, (rows_in, chosen.at), read.weights)
    return SwapFit(
        read=read,
        release=release,
        assigned=(rows_in, chosen.at),
        solved=release.solved_for(sizes),
        within=chosen.within,
        model=VALUES if isinstance(chosen.cells, ValueCells) else fits[0][1].name,
        points=points,
        tried=tuple(trial.cells.count for trial in trials),
    )


def recounted(
    fit: SwapFit, codes: dict[Name, Array], strata: Array, cells: Array, weights: IntArray
) -> SwapFit:
    """Return the swap fitted to a part of the rows with the secrets of all rows counted."""
    release = fit.release
    read = replace(fit.read, codes=codes, weights=weights)
    level = 1.0 - (1.0 - _LEVEL) / len(fit.tried)
    whole = count_cells(read, release.cells.count, cells, level)
    sizes = np.zeros((release.strata.count, release.cells.count), dtype=np.int64)
    np.add.at(sizes, (strata, cells), weights)
    release = replace(release, counted=whole)
    return replace(fit, release=release, solved=release.solved_for(sizes))


def _cells(
    read: SwapRead,
    form: FeatureForm,
    models: Sequence[FoldModels],
    said: Sequence[FloatArray],
    distance: Distance,
    number: int,
) -> ScoredCells | LikeCells:
    """Return so many cells by what classifiers say; for a shuffle, by what rows hold, too."""
    assert read.settings.swap is not None
    if read.settings.swap.within == "stay":
        return ScoredCells(form, models, learnt_cells(said, read.weights, number))
    points = likeness(read.columns, said, form, distance)
    return LikeCells(form, models, distance, learnt_centres(points, read.weights, number))


@dataclass(frozen=True, eq=False)
class _Trial:
    """Cells, the cell of each fitted row, counts and costs of cells, and what is left in them."""

    cells: ScoredCells | LikeCells | ValueCells
    at: Array
    counted: list[Counted]
    costs: FloatArray
    within: Within | None
    level: float


def _trial(
    read: SwapRead,
    cells: ScoredCells | LikeCells | ValueCells,
    at: Array,
    strata: Strata,
    points: Points,
    level: float,
) -> _Trial:
    swap = read.settings.swap
    assert swap is not None
    shuffle = swap.within == "shuffle"
    # in small strata there are few to be matched with, and matches are worse
    most = min(max(len(at) // (strata.count * cells.count), _LEAST_MATCHED), _MATCHED)
    return _Trial(
        cells,
        at,
        count_cells(read, cells.count, at, level),
        _cell_costs(read, at, cells.count, points, most, shuffle=shuffle),
        _within(read, at, cells) if isinstance(cells, ScoredCells) else None,
        level,
    )


def _release(read: SwapRead, strata: Strata, trial: _Trial, distance: Distance) -> SwapRelease:
    settings = read.settings
    assert settings.swap is not None
    columns = (column_of(*column) for column in read.single.exchanged.items())
    return SwapRelease(
        columns=[ColumnRelease(column, None, 0.0, "native") for column in columns],
        seen=read.seen,
        strata=strata,
        cells=trial.cells,
        distance=distance,
        counted=trial.counted,
        costs=trial.costs,
        notion=settings.guarantee.notion,
        over_boxes=settings.knowledge.confidence is not None,
        by_secret=settings.swap.balance == "secrets",
        shuffle=settings.swap.within == "shuffle",
        form=read.form,
    )


def _chosen(read: SwapRead, trials: Sequence[_Trial], distance: Distance) -> _Trial:
    """Return the cells that change least over the set, among those with little left to find.

    Strata are ignored: all have the same cells.
    """

    def gain(trial: _Trial) -> float:
        if trial.within is None:  # cells of equal rows, in which there is nothing to find
            return 0.0
        return np.inf if np.isnan(trial.within.gain) else trial.within.gain

    good = [trial for trial in trials if gain(trial) < GAINED]
    if not good:
        return min(trials, key=gain)
    costs = []
    for trial in good:
        release = replace(_release(read, ONE_STRATUM, trial, distance), over_boxes=True)
        [solved] = release.solved_for(trial.counted[0].counts.sum(axis=0)[None])
        costs.append(float((solved.flows * solved.problem.costs).sum()))
    return good[int(np.argmin(costs))]


# ------------------------------------------------------------------------------------ classifiers


def _classifiers(read: SwapRead) -> list[tuple[Name, ClassifierFit]]:
    """Return the classifiers of each adversary and sensitive column."""
    settings = read.settings
    models: list[Any] = list(settings.knowledge.models.values())
    if settings.knowledge.model is None:
        models = [*_default(read), *models]
    names = [secret.name for secret in read.secrets]
    by_column = []
    for model in models:
        by_name = dict.fromkeys(names, model) if isinstance(model, ClassifierFit) else dict(model)
        absent = [name for name in names if name not in by_name]
        if absent:
            raise ValueError(
                f"prior has no classifier for column {quoted(absent[0])}; give one for each "
                f"sensitive column ({listed(names)})."
            )
        by_column += [(name, by_name[name]) for name in names]
    return by_column


def _default(read: SwapRead) -> list[ClassifierFit]:
    """Return boosted trees of rows; for groups trees of wide rows, and the sum over single rows.

    For independent rows given the secret their losses add up, which few groups cannot show.
    """
    whole = _boosted(len(read.weights))
    form = read.form
    if form is None or form.width == 1:
        return [whole]
    single = _boosted(len(read.single.weights)).estimator
    names = [*form.public, *form.passed]
    return [whole, ClassifierFit(RowByRow(single, names, size_of(form.column)), cv=whole.cv)]


def _boosted(n_rows: int) -> ClassifierFit:
    """Return boosted trees, smaller ones for few rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    many = n_rows >= _MANY_ROWS
    model = HistGradientBoostingClassifier(
        categorical_features="from_dtype",
        max_iter=60 if many else 30,
        max_leaf_nodes=15 if many else 7,
        early_stopping=False,
    )
    return ClassifierFit(model, cv=2 if many else 5)


def _fold_models(read: SwapRead, name: Name, fit: ClassifierFit) -> FoldModels:
    """Return a model for each fold of contents, learnt from the rows of all others."""
    secret = next(secret for secret in read.secrets if secret.name == name)
    if fit.is_prefit:
        return FoldModels([copy.deepcopy(fit.estimator)], secret.labels, repr(name))
    if not isinstance(fit.cv, int):
        raise ValueError(
            f"cv={quoted(fit.cv)} deals rows out by their place, and new rows have none; with "
            'noise="swap" give a number of folds, cv=5, or a classifier fitted elsewhere '
            '(cv="prefit").'
        )
    observed = _observed(read, secret, _features(read))
    folds = read.digests % fit.cv
    models = []
    for fold in counted(range(fit.cv), "models of a prior"):
        train = observed.in_order(np.flatnonzero(folds != fold))
        _check_learnt(secret, observed.codes[train], fit.cv, read)
        models.append(fitted(fit.estimator, observed, train))
    return FoldModels(models, list(targets(secret.labels)), repr(name))


def _observed(read: SwapRead, secret: Secret, features: Features) -> Observed:
    return Observed(
        features, read.codes[secret.name], secret.labels, read.weights, repr(secret.name)
    )


def _features(read: SwapRead) -> Features:
    form = FeatureForm.of(read.columns)
    return form.features(read.columns).without_many_levels(MOST_LEVELS)


def _check_learnt(secret: Secret, codes: Array, folds: int, read: SwapRead) -> None:
    absent = np.setdiff1d(np.arange(len(secret.labels)), codes)
    if absent.size:
        if len(np.unique(read.digests)) < 2 * folds:
            raise ValueError(
                "the public columns of these rows are nearly all alike, and a classifier learns of "
                "each from others; pass noise=RecordSwap(cells='values')."
            )
        tally = int(read.weights[read.codes[secret.name] == absent[0]].sum())
        raise ValueError(
            f"secret {quoted(secret.labels[absent[0]])} of column {secret.name!r} has {tally} "
            f"row(s), all of them in one of the {folds} folds by which rows are told apart; merge "
            "rare secrets, or give some ten rows of each."
        )


def _within(read: SwapRead, at: Array, cells: ScoredCells) -> Within:
    """Return the most that a fresh model, or a count of equal rows, finds of a secret in cells.

    For groups the model also gets the scores that cells are cut from, as few groups cannot show
    what their many columns add up to.
    """
    scores = np.zeros((len(at), 0))
    if read.groups is not None:
        scores = log_posteriors(cells.said(read.columns, read.digests))
    gains = [_gain_of_model(read, secret, at, cells.count, scores) for secret in read.secrets]
    gains += [_gain_of_counting(read, secret, at, cells.count) for secret in read.secrets]
    return max(gains, key=lambda gain: np.inf if np.isnan(gain.gain) else gain.gain)


def _gain_of_counting(read: SwapRead, secret: Secret, cells: Array, count: int) -> Within:
    """Return the gain of counting the other rows of equal values, over those of the cell."""
    codes = read.codes[secret.name]
    counts = tallies(codes, cells, read.weights, len(secret.labels), count)
    shares = (counts / counts.sum(axis=0))[:, cells]
    contents = np.unique(read.digests, return_inverse=True)[1].ravel()
    alike = tallies(codes, contents, read.weights, len(secret.labels), int(contents.max()) + 1)
    rows = codes, np.arange(len(codes))
    others = alike[codes, contents] - 1.0 + shares[rows]
    in_cell = counts[codes, cells] - 1.0 + shares[rows]
    gains = np.log(others / alike.sum(axis=0)[contents]) - np.log(
        in_cell / counts.sum(axis=0)[cells]
    )
    return _mean(gains, read.weights)


def _mean(gains: FloatArray, weights: Array) -> Within:
    gain = float(gains @ weights / weights.sum())
    return Within(gain, float(np.sqrt((gains - gain) ** 2 @ weights) / weights.sum()))


def _gain_of_model(
    read: SwapRead, secret: Secret, cells: Array, count: int, scores: FloatArray
) -> Within:
    """Return the gain of a fresh model that knows the cell, for one sensitive column.

    Copies of a row are dealt over the folds, so that the model learns some of them from others;
    for the cells all copies lie in one fold. A row's own share leaves the row out.
    """
    counts = tallies(read.codes[secret.name], cells, read.weights, len(secret.labels), count)
    prior = counts.sum(axis=1) / counts.sum()
    shares = (counts + prior[:, None]) / (counts.sum(axis=0) + 1.0)
    log_odds = np.log(shares[1:]) - np.log(shares[0])
    features = _features(read).beside(np.column_stack([scores, log_odds.T[cells], cells]))
    try:
        observed, folds = folds_of(2, _observed(read, secret, features))
        said = cross_fitted(_boosted(len(cells)).estimator, observed, folds)
    except ValueError:  # too few rows of a secret
        return Within(np.nan, np.nan)
    at = observed.rows.frame.iloc[:, -1].to_numpy().astype(np.intp)
    codes, weights = observed.codes, observed.weights
    in_cell = (counts[codes, at] - 1.0 + prior[codes]) / counts.sum(axis=0)[at]
    gains = np.log(np.maximum(said[np.arange(len(codes)), codes], 1e-12)) - np.log(in_cell)
    return _mean(gains, weights)


def gain_within(read: SwapRead, release: SwapRelease) -> Within | None:
    """Return what is left in the cells of a release for other rows; None where cells tell all."""
    if not isinstance(release.cells, ScoredCells):
        return None
    return _within(read, release.assigned(read.columns)[1], release.cells)


def tallies(codes: Array, cells: Array, weights: Array, n_secrets: int, n_cells: int) -> IntArray:
    """Return how many rows of each cell have each secret, shape (n_secrets, n_cells)."""
    counts = np.zeros((n_secrets, n_cells), dtype=np.int64)
    np.add.at(counts, (codes, cells), weights)
    return counts


def count_cells(read: SwapRead, n_cells: int, cells: Array, level: float) -> list[Counted]:
    """Return the secrets of the rows in each cell, and the boxes around their shares.

    All strata are counted together: cells and strata depend on the same columns.
    """
    share = cell_share(level, [len(secret.labels) for secret in read.secrets] * n_cells)
    columns = []
    for secret in read.secrets:
        counts = tallies(read.codes[secret.name], cells, read.weights, len(secret.labels), n_cells)
        code = {label: k for k, label in enumerate(secret.labels)}
        pairs = np.array([[code[a], code[b]] for a, b in read.pairs[secret.name]])
        boxes = _boxes(counts, share)
        columns.append(Counted(secret.name, secret.labels, counts, pairs, boxes))
    return columns


def _boxes(counts: IntArray, share: float) -> FloatArray:
    """Return the ends of the shares of secrets in each cell, rounded outwards."""
    boxes = np.zeros((2, *counts.shape))
    for cell, tally in enumerate(counts.T):
        lower, upper = cell_bounds(tally, share)
        boxes[0, :, cell] = np.nextafter(lower / ONE, 0.0)
        boxes[1, :, cell] = np.nextafter(upper / ONE, 1.0)
    return boxes


# ------------------------------------------------------------------------------------------ costs


def distance_of(read: SwapRead) -> Distance:
    """Return distances in units of change: standard deviations, or 1 where there is no order."""
    settings = read.settings
    weights = settings.weights if isinstance(settings.weights, Mapping) else {}
    ordered = {}
    for name, values in read.exchanged.items():
        declared = settings.columns.categories.get(name) or (
            values.levels if values.ordered else None
        )
        if declared is not None:
            ordered[name] = {level: rank for rank, level in enumerate(declared)}
    plain = Distance(dict.fromkeys(read.public, 1.0), ordered)
    units = {}
    for name in read.public:
        numbers = plain.numbers(name, read.columns[name])
        spread = 1.0 if numbers is None else _spread(numbers, read.weights)
        units[name] = float(weights.get(name, 1.0)) * (spread if name not in weights else 1.0)
    assert settings.swap is not None
    return Distance(units, ordered, settings.swap.cost)


def _spread(values: FloatArray, weights: Array) -> float:
    """Return the standard deviation of the values that are not missing, summed in their order."""
    there = ~np.isnan(values)
    distinct, codes = np.unique(values[there], return_inverse=True)
    shares = np.bincount(codes.ravel(), weights[there]) / max(weights[there].sum(), 1)
    spread = float(np.sqrt((distinct - distinct @ shares) ** 2 @ shares)) if distinct.size else 0.0
    return spread if spread > 0.0 else 1.0


def _cell_costs(
    read: SwapRead, cells: Array, count: int, points: Points, most: int, *, shuffle: bool
) -> FloatArray:
    """Return the costs of exchanging rows of two cells, by at most ``most`` of each."""
    order = np.lexsort((read.digests, cells))
    ends = np.searchsorted(cells[order], np.arange(count + 1))
    most = _LEAST_MATCHED if shuffle else most
    chosen = [_spaced(order[a:b], read.weights, most) for a, b in pairwise(ends)]
    if shuffle:
        return _mean_costs(chosen, points)
    costs = np.zeros((count, count))
    for a, b in counted(list(combinations(range(count), 2)), "pairs of cells"):
        few = min(len(chosen[a]), len(chosen[b]))
        first, second = (rows[np.arange(few) * len(rows) // few] for rows in (chosen[a], chosen[b]))
        costs[a, b] = costs[b, a] = least_cost(first, second, points.between)
    return costs


def _mean_costs(chosen: Sequence[Array], points: Points) -> FloatArray:
    """Return the mean cost of exchanging a row of each cell with any of each other."""
    every = np.concatenate(chosen)
    starts = np.cumsum([0, *map(len, chosen)])[:-1]
    sizes = np.array([len(rows) for rows in chosen])
    sums = [points.between(rows, every).sum(axis=0) for rows in chosen]
    return np.add.reduceat(np.array(sums), starts, axis=1) / np.outer(sizes, sizes)


def _spaced(rows: Array, weights: Array, most: int) -> Array:
    """Return at most ``most`` rows, evenly spaced, each as often as its weight."""
    ends = np.cumsum(weights[rows])
    few = int(min(ends[-1], most))
    return rows[np.searchsorted(ends, np.arange(few) * int(ends[-1]) // few, side="right")]


# ----------------------------------------------------------------------------------------- strata


def learnt_strata(read: SwapRead) -> Strata:
    """Return the strata of the rows; small ones of side information are joined.

    Raises
    ------
    ValueError
        If a value of a passed column has too few rows to be exchanged among.
    """
    if not read.strata:
        return ONE_STRATUM
    columns = {name: read.columns[name] for name in read.strata}
    numbers = [n for n in columns if columns[n].levels is None and n not in read.passed]
    digests, firsts, back = np.unique(row_digests(columns), return_index=True, return_inverse=True)
    sizes = np.zeros(len(digests), dtype=np.int64)
    np.add.at(sizes, back.ravel(), read.weights)
    fixed, values = (rows[firsts] for rows in fixed_and_numbers(columns, numbers))
    strata = np.empty(len(digests), dtype=np.intp)
    for number, members in enumerate(_joined(read, fixed, values, sizes)):
        strata[members] = number
    return Strata(list(columns), numbers, digests, strata, fixed, values)


def _joined(read: SwapRead, fixed: Array, values: FloatArray, sizes: IntArray) -> Iterator[Array]:
    """Yield the combinations of values of each stratum.

    Numbers are joined with the next ones, within equal values of all other columns. What is then
    still small is joined in one stratum, unless a passed column shows what was joined.
    """
    order = np.lexsort((*values.T[::-1], fixed))
    groups: list[list[int]] = []
    for row in order:
        last = groups[-1] if groups else None
        alike = last is not None and values.shape[1] > 0 and fixed[last[0]] == fixed[row]
        if last is not None and alike and sizes[last].sum() < LEAST_STRATUM:
            last.append(row)
        else:
            groups.append([row])
    groups = _without_small_ends(groups, fixed, sizes)
    groups.sort(key=lambda group: (int(sizes[group].sum()), fixed[group[0]]))
    n_small = sum(int(sizes[group].sum()) < LEAST_STRATUM for group in groups)
    joined = sum(int(sizes[group].sum()) for group in groups if len(group) > 1)
    joined += sum(int(sizes[group].sum()) for group in groups[:n_small] if len(group) == 1)
    if (n_small and read.passed) or 2 * joined > sizes.sum():
        raise ValueError(_too_small(read, len(sizes)))
    rest: list[int] = []
    for number, group in enumerate(groups):
        if number < n_small or (rest and sizes[rest].sum() < LEAST_STRATUM):
            rest += group
        else:
            yield np.array(group)
    if rest:
        yield np.array(rest)


def _without_small_ends(groups: list[list[int]], fixed: Array, sizes: IntArray) -> list[list[int]]:
    """Return groups with a small last one of its kind joined to the one before."""
    joined: list[list[int]] = []
    for group in groups:
        alike = bool(joined) and fixed[joined[-1][0]] == fixed[group[0]]
        if alike and sizes[group].sum() < LEAST_STRATUM:
            joined[-1] += group
        else:
            joined.append(group)
    return joined


def _too_small(read: SwapRead, n_all: int) -> str:
    if read.groups is not None:
        return _too_small_groups(read, read.groups, n_all)
    return (
        f"column(s) {listed(read.strata, 10)} stay with their owners, so rows are exchanged among "
        f"equal values of them, and too many of {n_all} values have fewer than {LEAST_STRATUM} "
        "rows; merge rare values, cut numbers into wider classes, or leave columns out of known= "
        'and remainder="passthrough".'
    )


def _too_small_groups(read: SwapRead, groups: Grouped, n_all: int) -> str:
    sizes, counts = np.unique(groups.wide.sizes, return_counts=True)
    rare = sizes[counts < LEAST_STRATUM].tolist()
    columns = groups.single.strata
    stays = f" and of column(s) {listed(columns, 10)} in each of their rows" if columns else ""
    few = f" (those of {listed(rare, 10)} rows)" if rare and not columns else ""
    return (
        f"groups of {quoted(groups.form.column)} are exchanged among groups of as many rows{stays},"
        f" and some of these {n_all} kinds have fewer than {LEAST_STRATUM} groups{few}; leave rows "
        "or groups of rare sizes out, merge rare values, or leave columns out of known= and "
        'remainder="passthrough".'
    )
