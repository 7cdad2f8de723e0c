r"""The rows of the X of `fit` and `transform`: in memory or lazy, with weights, and their checks.

*What their order reveals.* Nothing in this package changes the order of rows: released row k is row
k of the table, under its own label. Where the order reveals the secret, so does every release,
whatever its values are. `fit` looks for that by two tests of the null hypothesis that all orders of
the secrets are equally probable, as in shuffled rows:

1. ranks (W. Kruskal and W. Wallis, 1952): whether the rows of some secret come early or late;
2. runs: the number of runs of a secret that n of N rows have is hypergeometric, of n draws among N
   of which N - n + 1 are runs (W. Stevens, 1939), and its tails are bounded by
   :math:`e^{-n\,D(r \| p)}` at a share r (W. Hoeffding, 1963, which holds for draws without
   replacement, too). Long runs are few, an alternation has many.

The level is shared among all tests of a table. Some patterns pass both, such as pairs of rows that
alternate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtrc, xlogy
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from sklearn_puffer._base import Array, FloatArray, as_array, real_numbers, way_to_table
from sklearn_puffer._codes import (
    Secret,
    SecretRule,
    bins_of,
    resolve,
    tally,
)
from sklearn_puffer._engines import LazyTable, is_lazy, lazy_table
from sklearn_puffer._tables import (
    AnyTable,
    Missing,
    Name,
    Table,
    Values,
    array_table,
    first_values,
    frame_table,
    is_frame,
    label_ranks,
    readable,
    records_frame,
)
from sklearn_puffer._words import briefly, listed

_MOST_ROWS = 2.0**53  # up to here floats count exactly


class CountedTable:
    """The rows of positive weight, with their weights."""

    def __init__(self, table: AnyTable, weights: Array | None) -> None:
        self.table, self.weights = table, weights
        self.mask = None
        if weights is not None and not weights.all():
            self.mask = weights > 0
            self.weights = weights[self.mask]
        self._tallies: dict[Name, Array] = {}

    @property
    def n_rows(self) -> int:
        """How many rows count."""
        return self.table.n_rows if self.mask is None else int(self.mask.sum())

    @property
    def total(self) -> int:
        """The sum of their weights."""
        return self.n_rows if self.weights is None else int(self.weights.sum())

    @property
    def in_order(self) -> bool:
        """Whether the rows have an order that may reveal secrets: each counts once, in memory."""
        one_each = self.weights is None or bool((self.weights == 1).all())
        return one_each and not isinstance(self.table, LazyTable | _Distinct)

    def kept(self, values: Values) -> Values:
        """Return the values of the rows that count."""
        if self.mask is None:
            return values
        kept = values.taken(self.mask)
        missing = kept.missing if kept.n_missing else None
        return replace(kept, missing=missing).without_unused()

    def values(self, name: Name) -> Values:
        """Return a column's values of the rows that count."""
        return self.kept(self.table.values(name))

    def public_values(self, name: Name) -> Values:
        """Return a public column, with the unit of dates and durations."""
        return self.kept(first_values(self.table, name))

    def tally(self, secret: Secret) -> Array:
        """Return the summed weights of each value of a secret."""
        if secret.name not in self._tallies:
            self._tallies[secret.name] = tally(secret.coded, self.n_rows, self.weights)
        return self._tallies[secret.name]

    def numbers(self, secret: Secret) -> Array:
        """Return how many rows each value of a secret has, whatever their weights."""
        if self.weights is None:
            return self.tally(secret)
        return tally(secret.coded, self.n_rows)


class LazyRows(CountedTable):
    """The rows of a lazy table, whose columns are distinct values with counts."""

    table: LazyTable

    def tally(self, secret: Secret) -> Array:
        """Return how many rows each value of a secret has."""
        values = self.values(secret.name)
        return tally(secret.coded, len(values), values.counts)


@dataclass(frozen=True, eq=False)
class _Distinct:
    """The distinct rows of a lazy table, in memory and in their order."""

    names: tuple[Name, ...]
    n_rows: int
    columns: Mapping[Name, Values]

    def values(self, name: Name) -> Values:
        """Return a column."""
        return self.columns[name]


def distinct_rows(table: LazyTable, names: Sequence[Name]) -> CountedTable:
    """Return the distinct rows of a lazy table, with their counts as weights.

    They depend neither on the engine nor on the order of the rows.
    """
    columns, counts = table.rows(names)
    return CountedTable(_Distinct(table.names, len(counts), columns), counts)


def check_named(what: str, names: Sequence[Name], wanted: Sequence[Name]) -> None:
    """Refuse a table in which a released column cannot be found by its name."""
    absent = [name for name in wanted if name not in names]
    if absent:
        raise ValueError(
            f"{what} lacks column {listed(absent, len(absent))}, which fit released; columns are "
            f"found by name, and those of {what} are {listed(list(names), 10)}."
        )


def check_size(count: int, least: int, what: str) -> None:
    """Refuse a table with too few rows or columns."""
    if count < least:
        raise ValueError(
            f"X has {count} {what}(s) and a minimum of {least} is required; give more {what}s."
        )


def rows_of(table: AnyTable, sample_weight: Any) -> CountedTable:
    """Return the rows of a table in memory, or of a lazy one."""
    if isinstance(table, LazyTable):
        return LazyRows(table, None)
    return CountedTable(table, checked_weights(sample_weight, table.n_rows))


def checked_weights(sample_weight: Any, n_rows: int) -> Array | None:
    if sample_weight is None:
        return None
    weights = as_array(sample_weight, "sample_weight")
    numbers = real_numbers(weights, "sample_weight")
    if weights.ndim == 0:
        numbers = np.full(n_rows, numbers)
    if numbers.ndim != 1:
        raise ValueError(f"sample_weight must be 1D array or scalar, got shape {weights.shape}.")
    if len(numbers) != n_rows:
        raise ValueError(
            f"sample_weight has {len(numbers)} entries and X {n_rows} rows; give one a row."
        )
    whole = np.isfinite(numbers) & (numbers >= 0) & (np.floor(numbers) == numbers)
    if not whole.all():
        raise ValueError(
            "sample_weight must hold non-negative whole numbers, as it counts rows; got "
            f"{float(numbers[~whole][0])!r}."
        )
    if not numbers.any():
        raise ValueError("sample_weight is zero for every row; give some row a positive count.")
    with np.errstate(over="ignore"):
        total = numbers.sum()
    if total >= _MOST_ROWS:
        raise ValueError(
            f"sample_weight counts {total:.4g} rows, more than {_MOST_ROWS:.4g}; divide "
            "the counts by a common factor."
        )
    return numbers.astype(np.int64)


def first_table(estimator: Any, X: Any) -> AnyTable:
    """Return the table of the X of `fit`, and note its columns in the estimator."""
    least = 1 if estimator.sensitive is None else 2
    if not (is_frame(X) or is_lazy(X)):
        X = _unmerged(X)
        if len(getattr(X, "shape", (0, 0))) == 1:
            raise ValueError(
                f"X must be a table or a 2D array of shape (n_rows, n_features), got {len(X):,} "
                "value(s) in one dimension; pass all columns, each row with its own values."
            )
        array = validate_data(
            estimator,
            X,
            dtype=None,
            ensure_all_finite=False,
            ensure_min_samples=2,
            ensure_min_features=least,
        )
        return array_table(array)
    table = lazy_table(X) if is_lazy(X) else frame_table(X)
    # names alone: scikit-learn 1.7 finds none in frames of polars 2
    validate_data(estimator, records_frame([], table.names), skip_check_array=True)
    if not is_lazy(X):  # whose rows are not counted yet
        check_size(table.n_rows, 2, "row")
    check_size(len(table.names), least, "column")
    return table


def check_beside(X: Any, sensitive_features: Any, sample_weight: Any) -> None:
    """Refuse arrays beside a lazy table: its rows have no order to align them with."""
    several = isinstance(sensitive_features, list | tuple) and len(sensitive_features) > 0
    features = sensitive_features if several else [sensitive_features]
    named = all(value is None or isinstance(value, str) for value in features)
    if not named or sample_weight is not None:
        way = "pass" if named else "make it a column of X and pass its name, or pass"
        raise TypeError(
            f"X is a lazy table ({type(X).__name__}), whose rows have no order, and "
            f"{'sample_weight' if named else 'sensitive_features'}= is aligned by position; {way} "
            f"{way_to_table(X, 'X')}."
        )


def next_table(estimator: Any, X: Any) -> Table:
    """Return the table of the X of `transform`, with the columns that were fitted."""
    refuse_lazy(X)
    X, rules = readable(X), estimator._fitted.rules
    if is_frame(X):
        table = frame_table(X)
        rules.check_columns(table.names)
        check_size(table.n_rows, 1, "row")
        return table
    X = _unmerged(X)
    if _is_narrow(estimator, X):
        array = check_array(X, dtype=None, ensure_all_finite=False)
        return array_table(array, rules.order)
    array = validate_data(estimator, X, reset=False, dtype=None, ensure_all_finite=False)
    table = array_table(array, rules.names)
    if rules.missing == "error":  # an array is refused whole, as scikit-learn does
        for name in rules.sensitive:
            table.values(name).check_whole(name)
    return table


def _is_narrow(estimator: Any, X: Any) -> bool:
    """Return whether an array has the released columns alone; refuse other widths than all."""
    rules, shape = estimator._fitted.rules, tuple[int, ...](getattr(X, "shape", ()))
    if len(shape) != 2 or shape[1] == len(rules.names) or not shape[1]:
        return False
    if shape[1] != len(rules.order):
        raise ValueError(
            f"X has {shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{len(rules.names)} features as input, or the {len(rules.order)} that it releases; "
            f"give all columns of fit in their order, or {listed(list(rules.order), 10)} alone."
        )
    in_order = [name for name in rules.names if name in rules.order]
    if in_order != list(rules.order):
        raise ValueError(
            f"X has {shape[1]} features and no names, and which is which cannot be told: fit saw "
            f"them as {listed(in_order, 10)}, and {listed(list(rules.order), 10)} is the order of "
            "a release; give all columns of fit in their order, or fit on a DataFrame."
        )
    return True


def refuse_lazy(X: Any) -> None:
    """Refuse fresh noise for a lazy table, which would be drawn anew at each computation."""
    if is_lazy(X):
        raise TypeError(
            f"X is a lazy table ({type(X).__name__}), and each time that it is computed (by every "
            "action, retry and repeated task) would be another release; name its column of ids "
            "with row_id=, which makes every computation the same release, or write the table "
            f"once, release that ({way_to_table(X, 'X')} in memory) and count it."
        )


def _unmerged(X: Any) -> Any:
    """Return lists as an array, without dtype coercion."""
    if X is None:
        raise TypeError("X is None; pass a DataFrame, or an array of shape (n_rows, n_features).")
    if not isinstance(X, list | tuple):
        return X
    try:
        return as_array(X, "X")
    except ValueError:  # rows of different lengths, which scikit-learn refuses
        return X


# --------------------------------------------------------------------------- the order of the rows

_ERROR = 1e-6
UNCOVERED = "The guarantee does NOT cover that"
_RELEASED = (
    "The order of the rows and their index are released as they are, and not protected. Tests of "
    "ranks and runs in fit warn where these tell a secret, but look at no lazy table and no counts."
)
_KNOWN = "or take what they say for known"
_FEWEST = 20  # rows of a stratum whose ids are tested
_N_BLOCKS, _BLOCK = 64, 1024  # blocks and their rows that are tested, where there are more


@dataclass(frozen=True)
class RowOrder:
    """Sensitive columns that the order of the rows, or their index, reveals by two tests."""

    positions: tuple[Name, ...] = ()  # revealed by the order
    index: tuple[Name, ...] = ()  # revealed by the index
    ids: tuple[Name, ...] = ()  # columns of released ids whose order reveals a secret

    @property
    def told(self) -> list[Name]:
        """The columns revealed by either."""
        return list(dict.fromkeys([*self.positions, *self.index]))

    def warnings(self) -> list[str]:
        """Return the warning, if any."""
        if not self.told:
            about = f"ids {briefly(self.ids)} are in an order that tells a secret"
            return [f"{about}, and are released; draw new ones first, {_KNOWN}."] * bool(self.ids)
        what, ways = self._words()
        told = listed(self.told, 3)  # a warning has at most 200 characters
        told = told if len(told) <= 80 else f"{len(self.told)} sensitive column(s)"
        return [f"the {what} of the rows tells {told} and is released; {ways} first."]

    def sentences(self) -> list[str]:
        """Return the sentences of the certificate about the order."""
        erring = "by tests that err once in a million tables"
        ids = [
            f"The order of ids ({listed(self.ids, 20)}) tells a secret, {erring}, and they are "
            f"released. {UNCOVERED}: draw new ids at random, {_KNOWN}."
        ] * bool(self.ids)
        if not self.told:
            return [_RELEASED, *ids]
        what, ways = self._words()
        return [
            f"The {what} of the rows tells {listed(self.told, 20)}, {erring}, and is released. "
            f"{UNCOVERED}: {ways}.",
            *ids,
        ]

    def _words(self) -> tuple[str, str]:
        if self.positions and self.index:
            return "order (and the index)", "shuffle the rows and reset the index"
        if self.index:
            return "index", "reset the index"
        return "order", "shuffle the rows (and reset the index)"


def order_told(rows: CountedTable, secrets: Sequence[Secret], *of_ids: Any) -> RowOrder:
    """Return which secrets the order of the rows that count, and their index, reveal.

    Of many rows evenly spaced blocks are tested: shuffled rows stay shuffled. ``of_ids`` are the
    arguments of `ids_told`, where ids are released.
    """
    if not rows.in_order or not secrets:
        return RowOrder()
    starts, size = [0], rows.n_rows
    if size > _N_BLOCKS * _BLOCK:
        starts, size = np.linspace(0, size - _BLOCK, _N_BLOCKS).astype(int).tolist(), _BLOCK
    seen = np.concatenate([np.arange(start, start + size) for start in starts])
    kept = seen if rows.mask is None else np.flatnonzero(rows.mask)[seen]
    codes = {secret.name: np.empty(len(seen), dtype=np.intp) for secret in secrets}
    for secret in secrets:
        for k, start in enumerate(starts):
            own = codes[secret.name][k * size : (k + 1) * size]
            secret.source.codes(slice(start, start + size), own)
    found = order_of(codes, label_ranks(rows.table, kept))
    return replace(found, ids=ids_told(*of_ids)) if of_ids else found


def ids_told(
    ids: Mapping[Name, Array], codes: Array, strata: Array, groups: Array | None = None
) -> tuple[Name, ...]:
    """Return the columns of ids whose order tells secrets within some stratum.

    ``ids`` has their ranks, and ``codes`` the secret of each row. One row of a group is tested, as
    all have one secret, and of many rows evenly spaced ones.
    """
    some = np.arange(len(codes))
    if groups is not None:
        some = np.unique(groups, return_index=True)[1]
    some = some[:: -(-len(some) // (_N_BLOCKS * _BLOCK)) or 1]
    order = some[np.argsort(strata[some], kind="stable")]
    parts = np.split(order, np.flatnonzero(np.diff(strata[order])) + 1)
    parts = [rows for rows in parts if len(rows) >= _FEWEST]
    told, share = [], _ERROR / max(2 * len(ids) * len(parts), 1)
    for name, ranks in ids.items():
        each = ((codes[rows], np.unique(ranks[rows], return_inverse=True)[1]) for rows in parts)
        if any(_least_p_value(*both) <= share for both in each):
            told.append(name)
    return tuple(told)


def order_of(
    codes: Mapping[Name, Array], labels: Sequence[Array], error: float = _ERROR
) -> RowOrder:
    """Return which secrets the order of rows, and their labels, reveal.

    ``codes`` has the secret of each row, and ``labels`` the ranks of the labels of each level of
    the index that is in another order. The tests have the joint level ``error``.
    """
    share = error / max(2 * len(codes) * (1 + len(labels)), 1)
    positions = [name for name, rows in codes.items() if _least_p_value(rows, None) <= share]
    index = [
        name
        for name, rows in codes.items()
        if any(_least_p_value(rows, x) <= share for x in labels)
    ]
    return RowOrder(tuple(positions), tuple(index))


def _least_p_value(codes: Array, labels: Array | None) -> float:
    """Return the least p-value of the tests of secrets in the order of the rows, or of labels."""
    sizes, ordered, ranks = np.bincount(codes), codes, np.arange(len(codes), dtype=float)
    if labels is not None:
        each = np.bincount(labels)
        ranks = (np.cumsum(each) - (each + 1) / 2)[labels]
        if each.max() > 1:  # equal labels have no order, and so no runs
            return _p_value_of_tied_labels(codes, sizes, ranks)
        ordered = codes[np.argsort(labels)]
    return min(_p_value_of_ranks(codes, sizes, ranks), _p_value_of_runs(ordered, sizes))


def _p_value_of_ranks(codes: Array, sizes: Array, ranks: FloatArray) -> float:
    """Return the p-value of the Kruskal-Wallis test, for ranks with or without ties."""
    there = sizes > 0
    centred = ranks - ranks.mean()
    spread = float(centred @ centred)
    sums = np.bincount(codes, weights=centred)[there]
    if spread == 0.0 or len(sums) < 2:
        return 1.0
    between = float((sums**2 / sizes[there]).sum())
    return float(chdtrc(len(sums) - 1, (len(codes) - 1) * between / spread))


def _p_value_of_tied_labels(codes: Array, sizes: Array, ranks: FloatArray) -> float:
    """Return a bound on the p-value of the mean ranks, two-sided and for all secrets.

    Bennett's inequality, which holds for draws without replacement, too (Hoeffding 1963, Theorem
    4). With many ties the chi-squared approximation fails for rare secrets.
    """
    centred = ranks - ranks.mean()
    spread, reach = float(centred @ centred) / len(codes), float(np.abs(centred).max())
    there = sizes > 0
    if spread == 0.0 or there.sum() < 2:
        return 1.0
    means = np.abs(np.bincount(codes, weights=centred)[there]) / sizes[there]
    far = reach * means / spread
    apart = sizes[there] * spread / reach**2 * ((1.0 + far) * np.log1p(far) - far)
    return float(2 * there.sum() * np.exp(-apart.max()))


def _p_value_of_runs(codes: Array, sizes: Array) -> float:
    """Return a bound on the p-value of the number of runs, two-sided and for all secrets."""
    starts = codes[np.flatnonzero(codes[1:] != codes[:-1]) + 1]
    runs = np.bincount(np.append(starts, codes[0]), minlength=len(sizes))
    there = sizes > 0
    sizes, runs = sizes[there], runs[there]
    shares, expected = runs / sizes, (len(codes) - sizes + 1) / len(codes)
    apart = xlogy(shares, shares / expected)
    apart += xlogy(1.0 - shares, np.divide(1.0 - shares, np.maximum(1.0 - expected, 1e-300)))
    return float(2 * len(sizes) * np.exp(-(sizes * apart).max()))


@dataclass(frozen=True, eq=False)
class FitRows:
    """The rows of a fit."""

    table: AnyTable  # lazy: then secrets and weights are columns of it
    secrets: Mapping[Name, Values] | None  # None where they are columns of the table
    sample_weight: Any
    sensitive: Any  # columns of the table, as the caller named them
    y: Any = None  # likewise

    def hidden(self) -> list[Name]:
        """Return the sensitive columns of X, those included that sensitive_features names."""
        if self.sensitive is not None:
            return resolve(self.sensitive, self.table.names, "sensitive")
        given = self.secrets or ()
        return [name for name in given if isinstance(name, str) and name in self.table.names]

    def refuse_bins(self) -> None:
        """Refuse a lazy table whose secrets are to be read in bins."""
        for name in bins_of(self.sensitive, self.table.names):
            raise ValueError(
                f"sensitive[{name!r}] asks for bins, and X is a lazy table; add a column of the "
                "bins in the engine, and name that one."
            )

    def secret(self, counted: CountedTable, name: Name, missing: Missing) -> Secret:
        """Return a sensitive column of the rows that count, in its bins if it has any."""
        values = counted.values(name) if self.secrets is None else counted.kept(self.secrets[name])
        bins = bins_of(self.sensitive, counted.table.names)
        own = {name: bins[name]} if name in bins else {}
        return SecretRule.learnt({name: values}, own, missing, {}, counted.weights)[1]
