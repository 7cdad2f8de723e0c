"""One column of any table as numpy arrays: numbers, or codes into a list of levels.

Here are the kinds of values, their checks, how columns of pandas and of narwhals are read, and the
pandas frames and series that are made of values: features of a classifier, and results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from sklearn_puffer._base import LARGEST_INTEGER, Array, IntArray, inexact
from sklearn_puffer._words import listed, on_one_line

Kind = Literal["float", "integer", "boolean", "category"]
Missing = Literal["error", "category", "propagate"]
Name = int | str

LABEL_TYPES = (nw.String, nw.Object, nw.Categorical, nw.Enum)
"""Types of narwhals whose values are labels, or may be."""

_NUMBER_KINDS: dict[str, Kind] = {"b": "boolean", "i": "integer", "u": "integer", "f": "float"}
_INFERRED_KINDS: dict[str, Kind] = {
    "string": "category",
    "empty": "category",
    "boolean": "boolean",
    "integer": "integer",
    "floating": "float",
    "mixed-integer-float": "float",
    "integer-na": "integer",
    "decimal": "float",
}


@dataclass(frozen=True, eq=False)
class Values:
    """One column as numpy arrays.

    Attributes
    ----------
    kind : {"float", "integer", "boolean", "category"}
    data : ndarray of shape (n,)
        Numbers, or codes into ``levels`` for a categorical column; arbitrary where missing.
    missing : ndarray of bool of shape (n,), or None
        Where the column is missing; None where nothing is. Floats carry their NaN in ``data``.
    levels : tuple or None
        The values of a categorical column, in its declared order, or sorted.
    declared : bool
        Whether the column's own type declares the levels (values outside the data included).
    ordered : bool
        Whether it declares an order of them, too.
    counts : ndarray of int of shape (n,), or None
        The number of rows of each entry, if the data are distinct values; None if each is a row.
    unit : str or None
        The unit of dates and durations, such as "datetime64[D]"; the data are integers then.
    """

    kind: Kind
    data: Array
    missing: Array | None = None
    levels: tuple[Any, ...] | None = None
    declared: bool = False
    ordered: bool = False
    counts: Array | None = None
    unit: str | None = None

    def __len__(self) -> int:
        return len(self.data)

    @property
    def n_missing(self) -> int:
        """Number of rows in which the column is missing."""
        if self.missing is None:
            return 0
        return int((self.missing if self.counts is None else self.counts[self.missing]).sum())

    def filled(self, stand_in: Any) -> Array:
        """Return the data with ``stand_in`` for missing values."""
        return self.data if self.missing is None else np.where(self.missing, stand_in, self.data)

    def taken(self, rows: Array) -> Values:
        """Return some of the rows, without counts."""
        missing = None if self.missing is None else self.missing[rows]
        return replace(self, data=self.data[rows], missing=missing, counts=None)

    @property
    def present(self) -> Array:
        """The data of the rows that are not missing."""
        return self.data if self.missing is None else self.data[~self.missing]

    def ranks(self) -> IntArray:
        """Return ranks of the values, whatever the order of rows; -1 is missing."""
        if self.levels is not None:
            return np.asarray(self.filled(-1), dtype=np.int64)
        ranks = np.unique(self.filled(0), return_inverse=True)[1].ravel()
        return ranks if self.missing is None else np.where(self.missing, -1, ranks)

    def labels(self) -> Array:
        """Return the values of a categorical column as objects; None is missing."""
        assert self.levels is not None
        return take_levels(self.levels, self.filled(-1))

    def in_days(self) -> Values:
        """Return dates and durations as days, whatever their unit; other columns as they are.

        >>> Values("integer", np.array([43200]), unit="timedelta64[s]").in_days().data.tolist()
        [0.5]
        """
        if self.unit is None:
            return self
        one = np.timedelta64(1, np.datetime_data(np.dtype(self.unit))[0])  # type: ignore[call-overload]
        days = self.data * (one / np.timedelta64(1, "D"))
        if self.missing is not None:
            days[self.missing] = np.nan
        return Values("float", days, self.missing)

    def of_kind(self, kind: Kind) -> Values:
        """Return a column of missing objects only, which has no kind of its own, as ``kind``.

        Otherwise rows without the value would be refused alone, and accepted beside others.
        """
        if self.kind != "category" or self.present.size:
            return self
        types: dict[Kind, type] = {"float": np.float64, "integer": np.int64, "boolean": np.bool_}
        data: Array = np.full(len(self), np.nan if kind == "float" else 0, dtype=types[kind])
        return Values(kind, data, self.missing, counts=self.counts)

    def as_levels(self) -> Values:
        """Return a column of numbers as codes into its distinct numbers; others as they are."""
        if self.kind == "category":
            return self
        levels = np.unique(self.present)
        codes = np.searchsorted(levels, self.data)
        codes = codes if self.missing is None else np.where(self.missing, -1, codes)
        return Values("category", codes, self.missing, tuple(levels.tolist()), counts=self.counts)

    def way_to_numbers(self) -> str:
        """Return what to do with labels where numbers are expected; they are not shown.

        >>> Values("category", np.array([0, 1, 0]), None, ("1", "one")).way_to_numbers()
        'mend row 1 (from 0), the first that holds no number, and '
        """
        numbers = pd.to_numeric(pd.Series(self.levels or (), dtype=object), errors="coerce")
        odd = np.flatnonzero(np.isin(self.data, np.flatnonzero(numbers.isna())))
        if self.kind != "category" or self.counts is not None or not odd.size:
            return ""
        return f"mend row {odd[0]} (from 0), the first that holds no number, and "

    def used_levels(self) -> list[Any]:
        """Return the levels that occur, in their order."""
        assert self.levels is not None
        return [self.levels[code] for code in np.unique(self.present)]

    def without_unused(self) -> Values:
        """Return a column with only the levels that occur, unless its type declares levels."""
        if self.levels is None or self.declared:
            return self
        seen = np.unique(self.present)
        codes = np.where(self.data < 0, -1, np.searchsorted(seen, self.data))
        return replace(self, data=codes, levels=tuple(self.used_levels()))

    def check_missing(self, name: Name, missing: Missing) -> None:
        """Refuse missing values under ``missing="error"``, and in numbers under "category"."""
        if self.missing is None:
            return
        if missing == "error":
            ways = 'missing="category" or ' if self.kind in ("category", "boolean") else ""
            raise ValueError(
                f"column {name!r} has {self.n_missing} missing value(s) (NaN); drop or fill those "
                f'rows, or pass {ways}missing="propagate".'
            )
        if missing == "category" and self.kind in ("float", "integer"):
            raise ValueError(
                f'missing="category" gives {name!r} no place for its {self.n_missing} missing '
                "value(s) (NaN): the column is numeric; fill them, make it categorical, or use "
                'missing="propagate".'
            )

    def check_whole(self, name: Name) -> None:
        """Refuse missing values and infinities."""
        self.check_missing(name, "error")
        check_finite(self.data, name)

    def check_exact(self, name: Name) -> None:
        """Refuse integers, or times of so fine a unit, that float64 cannot tell apart."""
        data = self.present
        if not data.size or data.dtype.itemsize < 8:
            return
        farthest = max(int(data.max()), int(data.min()), key=abs)
        if abs(farthest) > LARGEST_INTEGER and self.unit is not None:
            raise ValueError(
                f"column {name!r} has times in {self.unit[-3:-1]}, of which float64 cannot tell "
                f"some apart; round them, X[{name!r}].dt.floor('us'), or take their day."
            )
        if abs(farthest) > LARGEST_INTEGER:
            raise ValueError(
                f"column {name!r} holds integers beyond 2^53 - 1, such as {farthest}, which "
                "float64 cannot tell apart; subtract an offset, or drop it if it is an identifier."
            )


def check_unique(names: Iterable[Name], table: str) -> None:
    """Refuse a table two columns of which have one name."""
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise ValueError(
            f"column {listed(doubled)} occurs more than once in {table}; rename or drop one."
        )


def take_levels(levels: Sequence[Any], codes: Array) -> Array:
    """Return the labels of codes as objects; -1 is missing."""
    table = np.empty(len(levels) + 1, dtype=object)
    table[:-1] = list(levels)
    table[-1] = None
    return table[codes]


def pandas_values(column: pd.Series[Any], name: Name) -> Values:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        inferred = pd.api.types.infer_dtype(dtype.categories)
        # categories that cannot be ordered: pandas leaves them as they appear in the rows
        if not dtype.ordered and inferred.startswith("mixed"):
            raise TypeError(_mixed_message(column.astype(object), name, inferred))
        return declared_values(column.cat.codes.to_numpy(), dtype.categories, bool(dtype.ordered))
    if isinstance(dtype, pd.SparseDtype):
        raise TypeError(
            f"column {name!r} is sparse ({on_one_line(dtype)}); make it dense, "
            f"X[{name!r}].sparse.to_dense()."
        )
    if pd.api.types.is_object_dtype(dtype) or pd.api.types.is_string_dtype(dtype):
        return object_values(column, name)
    if isinstance(dtype, np.dtype):
        return number_values(column.to_numpy(), name)
    kind = _number_kind(dtype, name)  # of a nullable column of numbers or booleans
    numpy_dtype = np.dtype(getattr(dtype, "numpy_dtype", np.float64))
    missing = column.isna().to_numpy()
    data = column.to_numpy(dtype=numpy_dtype, na_value=numpy_dtype.type(0))
    if kind == "float":  # of which Arrow and Float64 may hold NaN beside missing ones
        data = np.where(missing, np.nan, data)
        missing = np.isnan(data)
    return Values(kind, data, _some(missing))


def declared_values(codes: Array, levels: pd.Index[Any], ordered: bool) -> Values:
    """Return codes into the levels that a type lists, sorted if it declares no order.

    The order of appearance in a file is no order, and engines do not keep it.
    """
    missing = _some(codes < 0)
    if not (ordered or levels.is_monotonic_increasing):
        order = levels.argsort()
        ranks = np.append(np.argsort(order), -1).astype(codes.dtype)  # -1, the last, is missing
        codes, levels = ranks[codes], levels[order]
    return Values("category", codes, missing, tuple(levels), declared=True, ordered=ordered)


def _number_kind(dtype: Any, name: Name) -> Kind:
    """Return the kind of a numeric type; refuse dates, complex numbers and all others."""
    if dtype.kind in "mM" or isinstance(dtype, pd.PeriodDtype):
        raise TypeError(
            f"column {name!r} holds dates or durations ({on_one_line(dtype)}); convert it to "
            "a number, such as days or years, or to a category."
        )
    if dtype.kind == "c":
        raise TypeError(
            f"column {name!r} holds complex numbers; Complex data not supported, "
            "give the real and imaginary parts as two columns."
        )
    if dtype.kind not in _NUMBER_KINDS:
        raise TypeError(
            f"column {name!r} has type {on_one_line(dtype)}; convert it to numbers or strings."
        )
    return _NUMBER_KINDS[dtype.kind]


def number_values(data: Array, name: Name) -> Values:
    kind = _number_kind(data.dtype, name)
    if kind != "float":
        return Values(kind, data)
    if data.dtype.itemsize > np.dtype(np.float64).itemsize:
        data = _as_floats(data, name)
    return Values(kind, data, _some(np.isnan(data)))


def check_objects(column: pd.Series[Any], name: Name) -> Kind:
    """Return the kind of a column of Python objects; refuse mixtures."""
    inferred = pd.api.types.infer_dtype(column, skipna=True)
    if inferred not in _INFERRED_KINDS:  # NaT beside strings is missing, and no mixture
        inferred = pd.api.types.infer_dtype(column.dropna(), skipna=True)
    if inferred not in _INFERRED_KINDS:
        raise TypeError(_mixed_message(column, name, inferred))
    return _INFERRED_KINDS[inferred]


def object_values(column: pd.Series[Any], name: Name) -> Values:
    """Read a column of Python objects: strings, booleans or numbers, but one kind only."""
    kind = check_objects(column, name)
    missing = column.isna().to_numpy()
    if kind == "category":
        codes, levels = pd.factorize(column, sort=True)
        if getattr(column.dtype, "storage", None) != "pyarrow":  # whose strings are Unicode
            _check_unicode(name, tuple(levels), codes[~missing], column[~missing])
        return Values("category", codes, _some(missing), tuple(levels))
    if kind == "boolean":
        return Values("boolean", np.where(missing, False, column).astype(bool), _some(missing))
    if kind == "integer":
        return Values("integer", _whole_numbers(column, missing, name), _some(missing))
    if any(isinstance(value, Decimal) for value in column):
        return Values("float", _of_decimals(column[~missing], missing, name), _some(missing))
    values = np.where(missing, np.nan, column.to_numpy(dtype=object))
    return Values("float", _as_floats(values, name), _some(missing))


def _check_unicode(name: Name, levels: tuple[Any, ...], codes: Array, column: Any) -> None:
    """Refuse strings that pandas takes for others, and releases of Arrow's strings cannot hold."""
    try:
        "".join(map(str, levels)).encode()
        known = (take_levels(levels, codes) == column.to_numpy(dtype=object)).all()
    except UnicodeEncodeError:
        known = False
    if not known:
        raise ValueError(
            f"column {name!r} holds strings that are no Unicode (lone surrogates), which cannot be "
            "told apart from others; decode them in another way."
        )


def _of_decimals(present: pd.Series[Any], missing: Array, name: Name) -> Array:
    """Round decimals to floats; refuse a column in which two decimals become one float."""
    floats = np.full(len(missing), np.nan)
    floats[~missing] = [float(value) for value in present]
    if len({*present}) != len(np.unique(floats[~missing])):
        raise ValueError(
            f"column {name!r} holds decimals of more digits than float64 has; convert it with "
            "astype(float) if values may be rounded, or with astype(str) if each is a category."
        )
    return floats


def _as_floats(data: Array, name: Name) -> Array:
    """Convert numbers to float64; refuse those that would change, as two might become equal."""
    try:
        with np.errstate(over="ignore"):
            converted = data.astype(np.float64)
        changed = inexact(data, converted)
    except OverflowError:
        changed = max(data, key=abs)
    if changed is not None:
        raise ValueError(
            f"column {name!r} holds {changed!r}, which is no float64 number; convert it with "
            "astype(float) if values may be rounded, or with astype(str) if each is a category."
        )
    return converted


def _whole_numbers(column: pd.Series[Any], missing: Array, name: Name) -> Array:
    try:
        return np.where(missing, 0, column).astype(np.int64)
    except OverflowError as error:
        raise ValueError(
            f"column {name!r} holds integers beyond 64 bits; subtract an offset, or convert it "
            "with astype(float)."
        ) from error


def _mixed_message(column: pd.Series[Any], name: Name, inferred: str) -> str:
    kinds = pd.Series([type(value).__name__ for value in column.dropna()])
    rarest = kinds.value_counts().index[-1]
    place = [type(value).__name__ for value in column].index(rarest)
    first = f", the first {rarest} in row {place} (from 0)" if kinds.nunique() > 1 else ""
    return (
        f"column {name!r} holds {inferred} values ({', '.join(sorted({*kinds}))}){first}; every "
        "argument must be a string or a number, and a column only one of them: mend such rows, or "
        "convert it with pd.to_numeric or astype(str)."
    )


def narwhals_values(column: nw.Series[Any], name: Name) -> Values:
    dtype = column.dtype
    if dtype in (nw.String, nw.Object):
        return object_values(pd.Series(column.to_list(), dtype=object), name)
    if dtype in (nw.Categorical, nw.Enum):
        return narwhals_categories(column, name)
    check_type(dtype, name, column.to_native())
    missing = column.is_null().to_numpy()
    if dtype.is_float() or not missing.any():
        return number_values(column.to_numpy(), name)
    filled = column.fill_null(False if dtype == nw.Boolean else 0).to_numpy()
    return Values("boolean" if dtype == nw.Boolean else "integer", filled, missing)


def fetched_values(
    column: nw.Series[Any], name: Name, levels: tuple[tuple[str, ...], bool] | None
) -> Values:
    """Read a column that an engine returned; its labels may be bytes.

    ``levels`` are the labels that its type lists, and whether they are ordered.
    """
    if levels is None and column.dtype != nw.Binary:
        return narwhals_values(column, name)
    labels = [cell.decode() if isinstance(cell, bytes) else cell for cell in column.to_list()]
    if levels is None:
        return object_values(pd.Series(labels, dtype=object), name)
    index = pd.Index(levels[0], dtype=object)
    codes = index.get_indexer(pd.Index(labels, dtype=object))
    strange = {*labels} - {*levels[0], None}
    if strange:  # their code would be that of missing values
        raise ValueError(
            f"column {name!r} holds {min(strange)!r}, which its type does not list; convert it "
            "to strings with astype(str)."
        )
    return declared_values(codes, index, levels[1])


def check_type(dtype: Any, name: Name, native: Any = None) -> None:
    """Refuse a type of narwhals whose values cannot be released.

    ``native`` is the column in its own library, which names types that narwhals does not know.
    """
    numbers = dtype.is_numeric() or dtype == nw.Boolean
    unread = dtype.is_decimal() or dtype in (nw.Int128, nw.UInt128)
    if not (dtype in LABEL_TYPES or (numbers and not unread)):
        own = getattr(native, "type", getattr(native, "dtype", dtype))  # of Arrow, of others
        shown = own if dtype == nw.Unknown else dtype
        raise TypeError(
            f"column {name!r} has type {on_one_line(shown)}; convert dates, durations and "
            "other types to numbers of at most 64 bits, or to strings, or leave it out."
        )


def narwhals_categories(column: nw.Series[Any], name: Name) -> Values:
    # the levels of a Categorical come in order of appearance, which codes must not depend on
    arrow_type = getattr(column.to_native(), "type", None)
    ordered = column.dtype == nw.Enum or getattr(arrow_type, "ordered", False)
    labels = column.to_list()
    try:
        levels = column.cat.get_categories().to_list() if ordered else sorted({*labels} - {None})
    except (TypeError, NotImplementedError):  # such as intervals, which Arrow cannot compare
        raise TypeError(
            f"column {name!r} has categories that are neither strings nor numbers "
            f"({on_one_line(arrow_type)}); convert it to one of them."
        ) from None
    codes = pd.Index(levels, dtype=object).get_indexer(pd.Index(labels, dtype=object))
    return Values("category", codes, _some(codes < 0), tuple(levels), ordered, ordered)


def _some(mask: Array) -> Array | None:
    return mask if mask.any() else None


Item = TypeVar("Item")
Result = TypeVar("Result")


class Faults:
    """Faults of the columns of a table, to be reported together.

    >>> faults = Faults()
    >>> faults.of(float, ["1", "x", "2", "y"])
    [1.0, 2.0]
    >>> faults.refuse()
    Traceback (most recent call last):
    ...
    ValueError: 2 faults were found in the columns of the table:
    could not convert string to float: 'x'
    could not convert string to float: 'y'
    """

    def __init__(self) -> None:
        self._found: list[TypeError | ValueError] = []

    def of(self, check: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return the results of ``check``, and collect its errors."""
        done = []
        for item in items:
            try:
                done.append(check(item))
            except (TypeError, ValueError) as fault:
                self._found.append(fault)
        return done

    def refuse(self) -> None:
        """Raise the fault, or one error with a line for each of several; return if there is none.

        Raises
        ------
        TypeError, ValueError
            A TypeError where all faults are.
        """
        if len(self._found) == 1:
            raise self._found[0]
        if not self._found:
            return
        kind = TypeError if all(isinstance(f, TypeError) for f in self._found) else ValueError
        lines = "\n".join(map(str, self._found))
        raise kind(
            f"{len(self._found)} faults were found in the columns of the table:\n{lines}"
        ) from self._found[0]


def check_finite(block: Array, name: Name) -> None:
    """Refuse NaN and infinities by name."""
    if block.size and not (np.isfinite(block.min()) and np.isfinite(block.max())):
        bad = block[~np.isfinite(block)]
        word = "NaN" if np.isnan(bad[0]) else "infinity"
        raise ValueError(
            f"column {name!r} contains {word}; drop or replace such values in fit and transform."
        )


# ------------------------------------------------------------------------- frames of pandas


@dataclass(frozen=True, eq=False)
class Features:
    """The rows of a classifier.

    Attributes
    ----------
    frame : DataFrame of shape (n_rows, n_columns)
        Numbers, booleans, and strings and categories as ``category`` with all their levels;
        missing values stay missing, and columns have the names of the table.
    keys : ndarray of int of shape (n_rows, n_columns)
        The rank of each value in its column: rows are equal if their keys are, and keys do not
        depend on the order of rows.
    """

    frame: Any
    keys: Array

    @classmethod
    def of(cls, columns: Mapping[Name, Values]) -> Features:
        """Return the rows of some columns.

        >>> features = Features.of({"age": Values("integer", np.array([30, 20, 30]))})
        >>> features.frame["age"].tolist(), features.keys[:, 0].tolist()
        ([30, 20, 30], [1, 0, 1])
        """
        data = {name: _feature(values) for name, values in columns.items()}
        keys = [values.ranks() for values in columns.values()]
        return cls(pd.DataFrame(data), np.stack(keys, axis=1))

    def take(self, rows: Array) -> Any:
        """Return some rows as a DataFrame, numbered from 0."""
        return self.frame.iloc[rows].reset_index(drop=True)

    def taken(self, rows: Array) -> Features:
        """Return some rows."""
        return Features(self.take(rows), self.keys[rows])

    def without_many_levels(self, most: int) -> Features:
        """Return the rows with columns of more than ``most`` levels as codes."""
        codes = {
            name: self.keys[:, k]
            for k, (name, dtype) in enumerate(self.frame.dtypes.items())
            if isinstance(dtype, pd.CategoricalDtype) and len(dtype.categories) > most
        }
        frame = self.frame.copy(deep=False)
        for name, column in codes.items():
            frame[name] = column
        return Features(frame, self.keys)


def _feature(values: Values) -> Any:
    if values.kind == "category":
        levels: Any = pd.Index(list(values.levels or ()))
        return pd.Categorical.from_codes(values.filled(-1), levels)
    if values.kind == "float":
        return values.data + 0.0  # -0.0 is 0.0
    if values.missing is None:
        return values.data
    return np.where(values.missing, np.nan, values.data.astype(float))


def series(data: Mapping[Name, float], name: str) -> pd.Series[float]:
    """Return a float Series indexed by column name or position."""
    return pd.Series(list(data.values()), index=pd.Index(list(data)), name=name, dtype=float)


def named_frame(
    records: Mapping[Name, Mapping[str, float]], columns: Sequence[str]
) -> pd.DataFrame:
    """Return a DataFrame of floats with a row for each column, by name or position."""
    rows = [[record[column] for column in columns] for record in records.values()]
    return pd.DataFrame(rows, index=pd.Index(list(records)), columns=list(columns), dtype=float)


def records_frame(records: list[tuple[Any, ...]], columns: Sequence[Name]) -> pd.DataFrame:
    """Return the DataFrame of a certificate's rows."""
    return pd.DataFrame.from_records(records, columns=list(columns))


def values_frame(columns: Mapping[Name, Values]) -> pd.DataFrame:
    """Return columns of values as a DataFrame, in types that allow missing values."""
    data = {name: _bare_column(values) for name, values in columns.items()}
    return pd.DataFrame(data, columns=pd.Index(list(data)))


def _bare_column(values: Values) -> Any:
    if values.levels is not None:
        codes: Any = values.filled(-1)
        if values.declared:
            return pd.Categorical.from_codes(codes, pd.Index(values.levels), values.ordered)
        return take_levels(values.levels, codes)
    if values.unit is not None:
        times: Array = values.data.astype(values.unit)
        if values.missing is not None:
            times[values.missing] = "NaT"
        return times
    if values.missing is None or values.kind == "float":
        return values.data
    dtype: Any = "boolean" if values.kind == "boolean" else "Int64"
    column = pd.array(values.data, dtype=dtype)
    column[values.missing] = pd.NA
    return column


def counts_frame(
    counts: Array,
    columns: Sequence[tuple[Any, ...]],
    strata: tuple[Sequence[Name], Sequence[Any]] | None = None,
) -> pd.DataFrame:
    """Return counts, with columns named by a sensitive column and a secret, or by a secret.

    ``strata`` are the names of their columns, and their values; each has equally many rows.
    """
    index: Any = None
    if strata is not None:
        names, labels = strata
        each = [label if len(names) > 1 else (label,) for label in labels]
        rows = [(*label, k) for label in each for k in range(len(counts) // len(labels))]
        index = pd.MultiIndex.from_tuples(rows, names=[*names, "prototype"])
    if len({column for column, _ in columns}) == 1:
        labels = pd.Index([secret for _, secret in columns], tupleize_cols=False)
        return pd.DataFrame(counts, index, labels)
    return pd.DataFrame(counts, index, pd.MultiIndex.from_tuples(columns))
