"""How ``certificate_.check`` compares rows with those that were fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from sklearn_puffer._base import Array, as_array, counted, listed, way_to_table
from sklearn_puffer._losses import SwapDistributions
from sklearn_puffer._release import NO_PRIOR, Drift, Margin, SecretDrift, Seen, margin_of
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
)
from sklearn_puffer.priors import Discrete

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
        return check_rows(self, X, None)

    def against(self, prior: Any) -> NoReturn:
        """Refuse, with the sentence of a certificate without its noiser."""
        raise ValueError(NO_PRIOR)


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
        return check_rows(self, X, sensitive)

    def against(self, prior: Any) -> NoReturn:
        """Refuse: the fitted rows are counted in cells, not as distributions of the columns."""
        raise ValueError(
            "prior is compared with noise, and the loss of a swap follows from its cells; give "
            "other adversaries as classifiers (prior=, adversaries=) and fit again."
        )

    def estimated(
        self, table: AnyTable, rows_of_secrets: RowsOfSecrets
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


def column_of(name: Name, values: Values) -> Column:
    """Return a column in which any value may occur, and which keeps no values but categories."""
    if values.kind in ("float", "integer"):
        return Column(name, values.kind, np.zeros(1), np.ones(1, dtype=bool), free=True)
    size = 2 if values.levels is None else max(len(values.levels), 1)
    known, levels = np.ones(size, dtype=bool), values.levels
    atoms = np.arange(size, dtype=np.float64)
    return Column(name, values.kind, atoms, known, levels, ordered=values.ordered)


def margin_of_rows(column: Column, values: Values, weights: Array, rows: Array) -> Margin:
    there = rows if values.missing is None else rows & ~values.missing
    total = int(weights[rows].sum())
    return margin_of(column, values.data[there].astype(float), weights[there], total)


def check_rows(fitted: Any, X: Any, sensitive: Any) -> Drift:
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
    return table.values_in(column) if isinstance(table, LazyTable) else table.values(column.name)


def _whole(placed: Sequence[Placed]) -> Array:
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
    swap = isinstance(fitted, FittedSwap)
    margins = fitted.by_secret if swap else fitted.conditional.margins()
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
    if swap:
        loss, why = fitted.estimated(table, rows_of_secrets)
    else:
        loss, why = _estimated(fitted, placed, rows_of_secrets)
    return replace(
        drift,
        secrets=tuple(drifts),
        new_secrets=tuple((name, labels) for name, labels in new if labels),
        loss=loss,
        why=why,
        budget=(fitted.release if swap else fitted).notion.budget_name(),
    )


def _estimated(
    fitted: Any, placed: Sequence[Placed], rows_of_secrets: RowsOfSecrets
) -> tuple[float | None, str]:
    """Return the loss under the distributions counted from the rows, or why it has none."""
    if any(column.free for column in fitted.columns):
        return None, "the noise is for continuous distributions, and rows have none"
    whole = _whole(placed)
    distributions: dict[Name, dict[Any, Discrete]] = {}
    for name, label, rows in rows_of_secrets:
        if (rows & whole).any():
            distributions.setdefault(name, {})[label] = _distribution(
                fitted.columns, placed, rows & whole
            )
    among = fitted.among({name: list(of) for name, of in distributions.items()})
    if not any(among.pairs.values()):
        return None, "no protected pair of secrets has rows whose values fit has seen"
    try:
        return float(among.against({n: distributions[n] for n in among.secrets}).loss), ""
    except ValueError:  # which names values and secrets of a prior that nobody gave
        return None, "no loss is computed for such rows, as where values were missing in fit"


def _distribution(columns: Sequence[Column], placed: Sequence[Placed], rows: Array) -> Discrete:
    """Return the distribution of the values that rows are released from."""
    values = [c.atoms[p.codes[rows]] for c, p in zip(columns, placed, strict=True)]
    cells, counts = np.unique(np.stack(values, axis=1), axis=0, return_counts=True)
    return Discrete.from_counts(cells[:, 0] if len(columns) == 1 else cells, counts)
