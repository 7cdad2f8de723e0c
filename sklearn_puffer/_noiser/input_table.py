"""The X of `fit` and `transform` as a table, checked as those of other estimators are."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import validate_data

from sklearn_puffer._base import as_array
from sklearn_puffer._noiser.rows import check_size
from sklearn_puffer._tables import (
    Source,
    Table,
    array_table,
    check_whole,
    frame_table,
    is_frame,
    is_lazy,
    known,
    lazy_table,
    no_rows,
    way_to_rows,
)


def first_table(estimator: Any, X: Any, weight: str | None = None) -> Source:
    """Return the table of the X of `fit`, and note its columns in the estimator.

    Of a lazy table one column may be weights, and is then none that is read.
    """
    least = 1 if estimator.sensitive is None else 2
    if not (is_frame(X) or is_lazy(X)):
        array = validate_data(
            estimator,
            _unmerged(X),
            dtype=None,
            ensure_all_finite=False,
            ensure_min_samples=2,
            ensure_min_features=least,
        )
        return array_table(array)
    table = lazy_table(X, weight) if is_lazy(X) else frame_table(X)
    # names alone: scikit-learn 1.7 finds none in frames of polars 2
    validate_data(estimator, no_rows(table.names), skip_check_array=True)
    if not is_lazy(X):  # whose rows are not counted yet
        check_size(table.n_rows, 2, "row")
    check_size(len(table.names), least, "column")
    return table


def check_beside(X: Any, sensitive_features: Any, sample_weight: Any) -> None:
    """Refuse what stands beside a lazy table: its rows have no order to align anything with.

    Raises
    ------
    TypeError
        Naming the argument and the way out.
    """
    several = isinstance(sensitive_features, list | tuple) and len(sensitive_features) > 0
    features = sensitive_features if several else [sensitive_features]
    for name, given in (("sensitive_features", features), ("sample_weight", [sample_weight])):
        if not all(each is None or isinstance(each, str) for each in given):
            raise TypeError(
                f"X is a lazy table ({type(X).__name__}), whose rows have no order, and {name}= is "
                "aligned by position; make it a column of X and pass its name, or pass "
                f"{way_to_rows(X)}."
            )


def next_table(estimator: Any, X: Any) -> Table:
    """Return the table of the X of `transform`, with the columns that were fitted."""
    refuse_lazy(X)
    X, rules = known(X), estimator._fitted.rules
    if is_frame(X):
        table = frame_table(X)
        rules.check_columns(table.names)
        check_rows(table.n_rows)
        return table
    X = _unmerged(X)
    array = validate_data(estimator, X, reset=False, dtype=None, ensure_all_finite=False)
    table = array_table(array, rules.names)
    if rules.missing == "error":  # an array is refused whole, as scikit-learn does
        for name in rules.sensitive:
            check_whole(table.values(name), name)
    return table


def refuse_lazy(X: Any) -> None:
    """Refuse to draw fresh noise for a lazy table, which draws again whenever it is computed."""
    if is_lazy(X):
        raise TypeError(
            f"X is a lazy table ({type(X).__name__}), and each time that it is computed (by every "
            "action, retry and repeated task) would be another release; name its column of ids "
            "with row_id=, which makes every computation the same release, or write the table "
            f"once, release that ({way_to_rows(X)} in memory) and count it."
        )


def check_rows(n_rows: int) -> None:
    """Refuse a table without rows."""
    if not n_rows:
        raise ValueError("X has 0 row(s) and a minimum of 1 is required to release.")


def _unmerged(X: Any) -> Any:
    """Return lists as an array in which no two values of theirs are one."""
    if not isinstance(X, list | tuple):
        return X
    try:
        return as_array(X, "X")
    except ValueError:  # rows of different lengths, for which scikit-learn has words
        return X
