"""What is said of rows that may not look like those of `fit`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn_puffer._base import Document, Page, Section, listed, quoted, short_number, shown
from sklearn_puffer._releases.certificate import jsonable, plain_record
from sklearn_puffer._tables import Name, records_frame

SCHEMA = "sklearn_puffer.drift/1"
LEVEL = 0.01
"""The chance of a false alarm, over all columns and values together."""
LEAST_ROWS = 30
"""Fewer rows say nothing about their law."""
_NAMED = 5
_WORST = 10
_TINY = 1e-9
_OF_COLUMN = ["name", "outside", "missing", "distance", "p", "drifted"]
_OF_SECRET = ["sensitive", "secret", "n_rows", "n_fitted"]


def counted_loss(loss: float) -> str:
    """Return what is said of the loss under laws that were counted from some rows.

    Such laws differ by chance, which makes it larger, and infinite where some released row comes
    from one of two secrets alone: that says more of how few rows there are than of the release.
    """
    if math.isinf(loss):
        return (
            "No loss is estimated: as these rows were counted, some released row can come from one "
            "of two secrets alone, as happens by chance where rows are few"
        )
    return (
        f"Under the laws of these rows the loss is {short_number(loss)} (chance makes it too large "
        "where rows are few), an ESTIMATE"
    )


@dataclass(frozen=True)
class ColumnDrift:
    """How the values of one column differ from those of the rows of `fit`.

    Attributes
    ----------
    name : str or int
    outside : float
        Share of the rows whose value `fit` has not seen; 0 of bins and of columns that take any
        number, where every value has its place.
    missing : float
        Share of the rows in which it is missing.
    distance : float
        Of the two laws: of numbers and ordered values the largest difference of P(X <= x), of
        others their total variation. As it was seen: chance alone makes it larger than 0.
    p : float
        Largest chance of so large a difference if all rows follow one law, corrected for all
        values and columns that were looked at.
    """

    name: Name
    outside: float
    missing: float
    distance: float
    p: float

    @property
    def drifted(self) -> bool:
        """Whether so large a difference has a chance of 1 % at most if there is none."""
        return self.p <= LEVEL

    def record(self) -> dict[str, Any]:
        """Return all facts by name."""
        return {name: getattr(self, name) for name in _OF_COLUMN}


@dataclass(frozen=True)
class SecretDrift:
    """How the values of one column differ among the rows of one secret.

    Attributes
    ----------
    sensitive : str or int
    secret : object
    n_rows, n_fitted : int
        Rows that have it, here and in `fit`.
    column : ColumnDrift
    """

    sensitive: Name
    secret: Any
    n_rows: int
    n_fitted: int
    column: ColumnDrift

    def record(self) -> dict[str, Any]:
        """Return all facts by name."""
        return {name: getattr(self, name) for name in _OF_SECRET} | self.column.record()


@dataclass(frozen=True)
class Drift(Document):
    """Whether rows still look like those of `fit`: made by ``certificate_.check``.

    Parameters
    ----------
    columns : tuple of ColumnDrift
        One a public column.
    n_rows, n_fitted : int
        Rows that were looked at, and of `fit`.
    new_rows : float or None
        Of an optimal channel: the share of rows that `fit` has not seen as a whole, which it
        refuses, or moves.
    secrets : tuple of SecretDrift
        With the secrets at hand: one for each secret and public column.
    loss : float or None
        With them: the loss of the release under the laws counted from these rows, an estimate, in
        the unit of the budget, and infinite where chance makes it so; None where it cannot be
        computed, and ``why`` says why.
    why : str
    new_secrets : tuple
        Sensitive columns with the values that `fit` has not seen.
    budget : str
        What is promised, in words.
    together : bool
        Whether rows come in groups, so that they are not exchangeable: nothing is tested.
    """

    columns: tuple[ColumnDrift, ...]
    n_rows: int
    n_fitted: int
    new_rows: float | None = None
    secrets: tuple[SecretDrift, ...] = ()
    loss: float | None = None
    why: str = ""
    new_secrets: tuple[tuple[Name, tuple[Any, ...]], ...] = ()
    budget: str = ""
    together: bool = False

    @property
    def tested(self) -> bool:
        """Whether there were rows enough, of nobody twice, to say anything."""
        return not self.together and min(self.n_rows, self.n_fitted) >= LEAST_ROWS

    @property
    def drifted(self) -> bool:
        """Whether some column differs by more than chance makes one table in a hundred differ."""
        public = any(column.drifted for column in self.columns)
        return not self.together and (public or any(each.column.drifted for each in self.secrets))

    @property
    def table(self) -> Any:
        """The columns as a DataFrame, a row for each."""
        return _frame(self.columns, _OF_COLUMN)

    @property
    def by_secret(self) -> Any:
        """The columns among the rows of each secret as a DataFrame."""
        return _frame(self.secrets, _OF_SECRET + _OF_COLUMN)

    def warning(self) -> str:
        """Return what there is to warn of, with the figures of at most five columns."""
        worst = sorted((c for c in self.columns if c.drifted), key=lambda c: -c.distance)
        told = ", ".join(f"{quoted(c.name)} ({_figures(c)})" for c in worst[:_NAMED])
        more = f" and {len(worst) - _NAMED} more" if len(worst) > _NAMED else ""
        return (
            f"the {self.n_rows} rows do not look like the {self.n_fitted} of fit in column(s) "
            f"{told}{more}: the promise is about rows that follow the fitted law; "
            "certificate_.check(X) tells more, fit on rows such as these, or pass "
            'on_drift="ignore".'
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain Python values, for JSON."""
        return {
            "schema": SCHEMA,
            "n_rows": self.n_rows,
            "n_fitted": self.n_fitted,
            "tested": self.tested,
            "drifted": self.drifted,
            "level": LEVEL,
            "new_rows": self.new_rows,
            "columns": [plain_record(column.record()) for column in self.columns],
            "secrets": [plain_record(each.record()) for each in self.secrets],
            "new_secrets": [
                {"sensitive": jsonable(name), "secrets": jsonable(values)}
                for name, values in self.new_secrets
            ],
            "loss": jsonable(self.loss),
            "why_no_loss": self.why,
        }

    def _page(self) -> Page:
        return Page(f"Drift: {self._verdict()}", self._lines(), self._sections())

    def _verdict(self) -> str:
        if self.together:
            return "not tested, as rows of a group hang together"
        if not self.tested:
            return f"not tested, of fewer than {LEAST_ROWS} rows"
        if not self.drifted:
            return "none found"
        return "these rows DO NOT LOOK LIKE THOSE OF FIT"

    def _lines(self) -> list[str]:
        return [
            f"{self.n_rows} rows, against {self.n_fitted} of fit.",
            "The promise is about rows that follow the fitted law. That no difference is found "
            "proves none: it may be small, or lie in several columns together.",
            *self._about_rows(),
            *self._about_secrets(),
        ]

    def _about_rows(self) -> list[str]:
        if self.new_rows is None:
            return []
        return [
            f"{self.new_rows:.1%} of the rows have values that fit has not seen together: the "
            'channel refuses them, or (unknown="nearest") moves them to the nearest rows of fit.'
        ]

    def _about_secrets(self) -> list[str]:
        if not (self.secrets or self.why):
            return []
        new = [f"{quoted(n)}: {listed(list(values))}" for n, values in self.new_secrets]
        told = [f"Secrets that fit has not seen, of which nothing is said: {'; '.join(new)}."]
        if self.loss is None:
            return [*told[: len(new)], f"No loss is estimated: {self.why.rstrip('.')}."]
        budget = f"; the budget is {self.budget}" if self.budget else ""
        return [
            *told[: len(new)],
            f"{counted_loss(self.loss)}{budget}. It counts rows that fit has seen.",
        ]

    def _sections(self) -> list[Section]:
        note = (
            "outside: share of rows with a value that fit has not seen; distance: of numbers and "
            "ordered values the largest difference of P(X <= x), of others total variation; p: the "
            "largest chance of such a difference if there is none, over all columns and values "
            f"together; differs: p is at most {LEVEL:.0%}"
        )
        found = [Section("Columns", note, _cells(self.columns))]
        if self.secrets:
            worst = sorted(self.secrets, key=lambda s: (s.column.p, -s.column.distance))[:_WORST]
            title = f"Columns among the rows of a secret, the worst of {len(self.secrets)}"
            found.append(Section(title, "", _secret_cells(worst)))
        return found


def _frame(drifts: Sequence[ColumnDrift | SecretDrift], names: Sequence[str]) -> Any:
    return records_frame([tuple(each.record().values()) for each in drifts], names)


def _secret_cells(secrets: Sequence[SecretDrift]) -> list[list[str]]:
    columns = [each.column for each in secrets]
    own = [[shown(s.sensitive), shown(s.secret), str(s.n_rows)] for s in secrets]
    return [
        [*before, *cells]
        for before, cells in zip(
            [["sensitive", "secret", "rows"], *own], _cells(columns), strict=True
        )
    ]


def _figures(column: ColumnDrift) -> str:
    outside = f", {column.outside:.0%} not seen in fit" if column.outside >= 0.005 else ""
    missing = f", {column.missing:.0%} missing" if column.missing >= 0.005 else ""
    return f"distance {column.distance:.3g}{outside}{missing}"


def _cells(columns: Sequence[ColumnDrift]) -> list[list[str]]:
    head = ["column", "outside", "missing", "distance", "p", "differs"]
    return [head] + [
        [
            shown(c.name),
            f"{c.outside:.3f}",
            f"{c.missing:.3f}",
            f"{c.distance:.3f}",
            f"{c.p:.2g}" if c.p > _TINY else f"< {_TINY:g}",
            "YES" if c.drifted else "no",
        ]
        for c in columns
    ]
