"""How ``certificate_.check`` compares rows with those that were fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from sklearn_puffer._base import Array, as_array, counted, listed, way_to_table
from sklearn_puffer._release.certificate import NO_PRIOR
from sklearn_puffer._release.drift import Drift, Margin, SecretDrift, Seen
from sklearn_puffer._tables import (
    AnyTable,
    Column,
    Faults,
    LazyTable,
    Name,
    Placed,
    Secret,
    Values,
    array_table,
    beside,
    frame_table,
    in_intervals_of,
    is_frame,
    is_lazy,
    lazy_table,
    placed_in,
    read_secret,
    readable,
    values_of,
)

RowsOfSecrets = Sequence[tuple[Name, Any, Array]]  # sensitive column, secret, mask of its rows

_EARLIER = (
    "this certificate does not know how the fitted values were distributed, as it was saved by an "
    "earlier version; fit again."
)


@dataclass(frozen=True, eq=False)
class FittedMargins:
    """The margins of the fitted rows, in the certificate of a release artifact.

    Attributes
    ----------
    columns : sequence of Column
    margins : sequence of Margin
    """

    columns: Sequence[Column]
    margins: Sequence[Margin]

    def check(self, X: Any, sensitive: Any = None) -> Drift:
        """Return whether rows still look like those of `fit`, by their public columns alone."""
        if sensitive is not None:
            raise ValueError(
                "sensitive= asks for the distributions of the secrets, and a release artifact "
                "holds none; "
                "leave it out, or take the certificate of the fitted PufferfishNoiser."
            )
        return compared_rows(self, X, None)

    def against(self, prior: Any) -> NoReturn:
        """Refuse, with the sentence of a certificate without its noiser."""
        raise ValueError(NO_PRIOR)


def compared_rows(fitted: Any, X: Any, sensitive: Any) -> Drift:
    """Return how rows compare with those of `fit`; with their secrets also within each secret.

    Parameters
    ----------
    fitted : FittedRelease
    X : DataFrame, lazy table or array-like
    sensitive : str, int, list of these, array-like of n_rows, or None
    """
    if not fitted.margins:
        raise ValueError(_EARLIER)
    table = _table(X, [column.name for column in fitted.columns])
    secrets = _secrets(fitted, table, X, sensitive)
    faults = Faults()
    columns = counted(fitted.columns, "columns read")
    placed = faults.of(lambda c: placed_in(c, _values(table, c)), columns)
    faults.refuse()
    everyone = [np.ones(len(of_column.codes), dtype=bool) for of_column in placed]
    n_fitted = max(margin.total for margin in fitted.margins)
    tests = len(placed) * (2 if secrets else 1)  # half of the error for each
    rows = list(zip(fitted.margins, placed, everyone, strict=True))
    compared = [
        Seen.of(*of_column).compared(tests, table.n_rows)
        for of_column in counted(rows, "columns compared")
    ]
    drift = Drift(tuple(compared), table.n_rows, n_fitted)
    return _with_secrets(drift, fitted, table, placed, secrets) if secrets else drift


def _values(table: AnyTable, column: Column) -> Values:
    return table.values_in(column) if isinstance(table, LazyTable) else values_of(table, column)


def whole_rows(placed: Sequence[Placed]) -> Array:
    """Return which rows have in every column a value that `fit` has seen."""
    whole: Array = ~np.any([column.gone | column.strange for column in placed], axis=0)
    return whole


def _table(X: Any, names: Sequence[Name]) -> AnyTable:
    """Return the table of rows that are checked, which has the released columns."""
    table: AnyTable
    if is_lazy(X):
        table = lazy_table(X)
    else:
        X = readable(X, "table")
        table = frame_table(X, "table") if is_frame(X) else array_table(_matrix(X))
    absent = [name for name in names if name not in table.names]
    if absent:
        raise ValueError(
            f"table lacks column {listed(absent, len(absent))}, which fit released; columns are "
            f"found by name, and those of table are {listed(list(table.names), 10)}."
        )
    if not table.n_rows:
        raise ValueError("table has 0 rows; give at least one.")
    return table


def _matrix(X: Any) -> Array:
    array = as_array(X, "table")
    if array.ndim != 2:
        raise ValueError(f"table must have rows and columns, got shape {array.shape}.")
    return array


# ------------------------------------------------------------------------------------ the secrets


def _secrets(fitted: Any, table: AnyTable, X: Any, sensitive: Any) -> list[Secret]:
    """Return the secrets of the rows, under the names that `fit` knew them by."""
    if sensitive is None:
        return []
    if is_lazy(X):
        raise ValueError(
            f"table is a lazy table ({type(X).__name__}), of whose rows the public columns alone "
            f"are counted here; pass {way_to_table(X, 'table')}, or leave sensitive= out."
        )
    values = _named_secrets(fitted, table, sensitive)
    if values is None:
        values = _given_secrets(
            fitted, beside(sensitive, table.n_rows, X, "sensitive", rows_name="table")
        )
    return [
        read_secret(name, in_intervals_of(fitted.secrets[name], of_column), "category")
        for name, of_column in values.items()
    ]


def _named_secrets(fitted: Any, table: AnyTable, sensitive: Any) -> dict[Name, Values] | None:
    """Return the columns of the table that are named, or None where none is."""
    names = [sensitive] if isinstance(sensitive, str | int | np.integer) else sensitive
    if not isinstance(names, list | tuple) or not all(isinstance(n, str | int) for n in names):
        return None
    if names is sensitive and not {*names} & {*fitted.secrets, *table.names}:
        return None  # a list of secrets, one a row
    for name in names:
        if name not in fitted.secrets or name not in table.names:
            where = "fitted" if name not in fitted.secrets else "of table"
            raise ValueError(
                f"sensitive names {name!r}, which is no sensitive column {where}; those of fit "
                f"are {listed(list(fitted.secrets))}. Name one that table has, or pass its values, "
                "one a row."
            )
    return {name: table.values(name) for name in names}


def _given_secrets(fitted: Any, values: Mapping[Name, Values]) -> dict[Name, Values]:
    names = list(fitted.secrets)
    if len(values) == len(names) == 1:
        return {names[0]: next(iter(values.values()))}
    strange = [name for name in values if name not in names]
    if strange or not values:
        raise ValueError(
            f"sensitive has the column(s) {listed(list(values))}, and the sensitive columns of fit "
            f"are {listed(names)}; give columns of those names."
        )
    return dict(values)


def _with_secrets(
    drift: Drift, fitted: Any, table: AnyTable, placed: Sequence[Placed], secrets: Sequence[Secret]
) -> Drift:
    """Return the drift with that of each secret, and with the loss of these rows."""
    margins = fitted.margins_of_secrets()
    codes = {secret.name: secret.codes(drift.n_rows) for secret in secrets}
    rows_of_secrets = [
        (secret.name, label, codes[secret.name] == code)
        for secret in secrets
        for code, label in enumerate(secret.labels)
        if label in margins[secret.name]
    ]
    tests = 2 * len(rows_of_secrets) * len(placed)
    drifts = [
        SecretDrift(name, label, n, margin.total, Seen.of(margin, column, rows).compared(tests, n))
        for name, label, rows in counted(rows_of_secrets, "secrets compared")
        for n in [int(rows.sum())]
        for margin, column in zip(margins[name][label], placed, strict=True)
    ]
    new = [(s.name, tuple(x for x in s.labels if x not in margins[s.name])) for s in secrets]
    loss, why = fitted.estimated(table, placed, rows_of_secrets)
    return replace(
        drift,
        secrets=tuple(drifts),
        new_secrets=tuple((name, labels) for name, labels in new if labels),
        loss=loss,
        why=why,
        budget=fitted.budget(),
    )
