"""Checks of what users pass: numbers, choices, names and arrays. Every message names the way out.

If a conversion made two values equal, a guarantee about the two would be about nothing. So values
that are distinct stay distinct as float64. No mask is lost, and no table is read by position.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import getattr_static
from math import inf, isnan
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._words import meant, on_one_line, plain, quoted

Array = NDArray[Any]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Integers of a type of their own, such as short codes, or Python's where 64 bits do not hold.
Integers = NDArray[Any]


class PufferfishWarning(UserWarning):
    """A warning about a fit or a release: the base of all warnings of this package.

    It is a class of its own, so that it can be filtered. The clones of a noiser that a search makes
    warn of their fits once together.

    Examples
    --------
    >>> import warnings
    >>> from sklearn_puffer import PufferfishWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", PufferfishWarning)
    ...     warnings.warn("told to nobody", PufferfishWarning)
    """


class UnseenValuesWarning(PufferfishWarning):
    """Warns that `transform` moved values that `fit` has not seen to values that it has.

    It can be filtered apart from warnings about the guarantee.

    Examples
    --------
    >>> import warnings
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser, UnseenValuesWarning
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> noiser = PufferfishNoiser(sensitive="loan").fit(table)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", UnseenValuesWarning)
    ...     released = noiser.transform(pd.DataFrame({"cars": [4]}))  # read as 5
    """


MOST_PAIRS = 1 << 18
"""Largest number of pairs of secrets, some 10 s of a fit.

A pair takes 20 to 30 microseconds and a kilobyte if losses are computed for all pairs at once: with
counted priors, the pure guarantee and Laplace noise.
"""

MOST_ALONE = 1275
"""Largest number elsewhere.

The loss of each pair is then an integral or a search of its own, of 1 ms (Laplace noise and a
delta) to some 10 ms (Gaussian noise under Renyi, Cauchy noise) on a column of ten values.
"""

_BOOLEANS = (bool, np.bool_)  # a tuple: a union would be built anew at every check
_MOST_JOBS = 1024


_gathered: ContextVar[list[str] | None] = ContextVar("_gathered", default=None)


@contextmanager
def once_warned() -> Iterator[list[str]]:
    """Collect the warnings of a block, and give the first one when the outermost block ends.

    So a call that fits many mixtures warns once that some have not converged.
    """
    outer = _gathered.get()
    if outer is not None:
        yield outer
        return
    said: list[str] = []
    token = _gathered.set(said)
    try:
        yield said
    finally:
        _gathered.reset(token)
    if said:
        # the caller of the function with the block, past contextlib and this generator
        warnings.warn(said[0], PufferfishWarning, stacklevel=4)


def check_positive(value: Any, name: str, remedy: str = "") -> float:
    """Return ``value`` as a positive finite float.

    >>> check_positive(2, "epsilon")
    2.0
    """
    if type(value) is float and 0.0 < value < inf:
        return value  # most are, and the abstract class takes its time
    way_out = f"; {remedy}" if remedy else ""
    number = _real(value, f"{name} must be a positive number", way_out)
    if not 0.0 < number < inf:
        raise ValueError(f"{name} must be positive and finite, got {quoted(value)}{way_out}.")
    return number


def _real(value: Any, wanted: str, way_out: str = "") -> float:
    if isinstance(value, _BOOLEANS) or not isinstance(value, Real):
        raise TypeError(f"{wanted}, got {quoted(value)}{way_out}.")
    return as_float(value)


def check_delta(
    value: Any,
    name: str,
    remedy: str = "choose 0 for a pure guarantee, or a small probability such as 1e-5",
) -> float:
    """Return ``value`` as a probability in [0, 1).

    >>> check_delta(0, "delta")
    0.0
    """
    number = _real(value, f"{name} must be a number in [0, 1)")
    if not 0.0 <= number < 1.0:
        raise ValueError(f"{name} must lie in [0, 1), got {quoted(value)}; {remedy}.")
    return number


def check_above(value: Any, least: float, name: str) -> float:
    """Return ``value`` as a finite float above ``least``.

    >>> check_above(2, 1.0, "alpha")
    2.0
    """
    number = _real(value, f"{name} must be a number above {least:g}")
    if not least < number < inf:
        raise ValueError(f"{name} must be finite and above {least:g}, got {quoted(value)}.")
    return number


def check_choice(value: Any, name: str, choices: Iterable[Any]) -> Any:
    """Return ``value`` if it is one of ``choices``.

    >>> check_choice("exact", "strategy", ["exact", "relaxed"])
    'exact'
    """
    options = list(choices)
    if not any(isinstance(value, str) and value == choice for choice in options):
        raise ValueError(
            f"{name} must be one of {options}, got {quoted(value)}{meant(value, options)}."
        )
    return value


def check_verbose(value: Any) -> bool:
    """Return whether progress is to be printed.

    >>> check_verbose(1)
    True
    """
    if isinstance(value, _BOOLEANS):
        return bool(value)
    return check_count(value, "verbose", minimum=0) > 0


def check_count(value: Any, name: str, minimum: int = 1, way_out: str = "") -> int:
    """Return ``value`` as an integer of at least ``minimum``; ``way_out`` ends the errors.

    >>> check_count(5, "n_bins", minimum=2)
    5
    """
    if type(value) is int and value >= minimum:
        return value  # most are, and the abstract class takes its time
    if isinstance(value, _BOOLEANS) or not isinstance(value, Integral):
        raise TypeError(
            f"{name} must be an integer of at least {minimum}, got {quoted(value)}{way_out}."
        )
    if int(value) < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {quoted(value)}{way_out}.")
    return int(value)


def check_seed(random_state: Any) -> int | None:
    """Return the seed, or None; refuse a generator, whose stored state could replay its noise."""
    if random_state is None:
        return None
    if isinstance(random_state, _BOOLEANS) or not isinstance(random_state, Integral):
        raise TypeError(
            f"random_state must be None or an integer, got {quoted(random_state)}; a generator "
            "would store its state and could replay its noise."
        )
    return check_count(random_state, "random_state", minimum=0)


def check_jobs(n_jobs: Any) -> int | None:
    """Return ``n_jobs`` as joblib takes it: None, or a whole number that is not 0.

    >>> check_jobs(-1)
    -1
    """
    if n_jobs is None:
        return None
    if isinstance(n_jobs, _BOOLEANS) or not isinstance(n_jobs, Integral):
        raise TypeError(f"n_jobs must be None or an integer, got {quoted(n_jobs)}.")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; give a number of threads, or -1 for all cores.")
    if abs(int(n_jobs)) > _MOST_JOBS:
        raise ValueError(
            f"n_jobs must be at most {_MOST_JOBS}, got {quoted(n_jobs)}; -1 takes all cores."
        )
    return int(n_jobs)


def as_float(value: Any) -> float:
    """Return a real number as a float, infinite where no float is as large.

    >>> as_float(10**400)
    inf
    """
    try:
        return float(value)
    except OverflowError:  # an integer or a fraction beyond all floats
        return inf if value > 0 else -inf


def check_pairs(n_pairs: int, what: str, way_out: str, *, alone: bool = False) -> None:
    """Refuse more pairs of secrets than a fit has time for, before any of them is made.

    ``alone`` says that the loss of each is computed on its own.

    >>> check_pairs(3, "the 3 values of 's'", "group them")
    """
    most = MOST_ALONE if alone else MOST_PAIRS
    if n_pairs > most:
        cost = (
            "a millisecond or more under this noise and guarantee" if alone else "about a kilobyte"
        )
        raise ValueError(
            f"{what} make {n_pairs:,} pairs, and {most:,} is the limit, as each takes {cost}; "
            f"{way_out}."
        )


LARGEST_INTEGER = 2**53 - 1
"""Up to here different integers are different floats; larger ones may round to 2^53."""

# Attributes of tables, whose columns have names; arrays have none of them.
_MARKS_OF_TABLES = ("columns", "schema", "__dataframe__", "dims")
_MARKS_OF_ARROW = ("__arrow_c_stream__", "__arrow_c_array__")
# Methods that return a known table, the surest first: Spark has `collect`, too.
_WAYS = (
    *("toPandas", "to_native", "to_dataframe", "df", "read_all"),
    *("compute", "to_frame", "to_pandas", "collect", "to_table"),
)


def refuse_tables(values: Any, name: str) -> None:
    """Refuse an unknown table: read by position, its named columns could be mistaken for others.

    Dicts are refused, too: errors about arrays show what is in them.

    >>> refuse_tables([[1, 2]], "X")
    """
    path = str(values) if isinstance(values, str | PathLike) else ""
    if path.lower().endswith((".parquet", ".csv")):
        raise TypeError(
            f"{name} is the path {path!r}, and must hold rows; read it, or pass a lazy "
            "table, such as polars.scan_parquet(path)."
        )
    first = values[0] if isinstance(values, list) and values else values
    if isinstance(first, Mapping) and not hasattr(first, "shape"):  # as some sparse arrays are
        rows = f"[{name}]" if first is values else name
        raise TypeError(f"{name} has rows as dicts; give a table, pandas.DataFrame({rows}).")
    if _is_table(values, (*_MARKS_OF_TABLES, *_MARKS_OF_ARROW)):
        way = way_to_table(values, name)
        if way.endswith(".to_frame()"):
            raise TypeError(
                f"{name} is {_kind(values)}, a single column or row, and must be a table; pass all "
                f"columns, {way}, or for one row table.iloc[[0]]."
            )
        raise TypeError(
            f"{name} is {_kind(values)}, whose columns would be taken by position; convert it to a "
            "pandas or polars DataFrame or a pyarrow Table"
            f"{f', for example {way}' if way else ''}."
        )


def way_to_table(values: Any, name: str) -> str:
    """Return the call that converts an unknown table to a known one, or an empty text."""
    ways = [way for way in _WAYS if callable(getattr(type(values), way, None))]
    return f"{name}.{ways[0]}()" if ways else ""


def check_same_index(values: Any, name: str, rows: Any, rows_name: str = "X") -> None:
    """Refuse values aligned with rows by position where both have an index, and the two differ.

    >>> check_same_index([1, 2], "y", [[3], [4]])
    """
    labels: Any
    others: Any
    labels, others = (getattr(each, "index", None) for each in (values, rows))
    if not (hasattr(labels, "equals") and hasattr(others, "equals")):
        return  # lists have a method of that name
    if len(labels) == len(others) and not labels.equals(others):
        raise ValueError(
            f"{name} has an index that differs from {rows_name}'s; rows are aligned by position, "
            f"so reindex it to {rows_name}.index, or call its set_axis({rows_name}.index) if it is "
            "in that order."
        )


def _is_table(values: Any, marks: Sequence[str]) -> bool:
    if isinstance(values, np.ndarray):
        return values.dtype.names is not None
    # without reading an attribute, which would make a lazy table compute
    if any(getattr_static(values, mark, None) is not None for mark in marks):
        return True
    return hasattr(type(values), "__getattr__") and any(hasattr(values, mark) for mark in marks)


def _kind(values: Any) -> str:
    if isinstance(values, np.ndarray):
        return "a structured array"
    return f"a {type(values).__name__} ({type(values).__module__.partition('.')[0]})"


def refuse_masked(values: Any, name: str) -> None:
    """Refuse masked arrays, also in a list: a conversion would reveal the values behind the mask.

    >>> refuse_masked(np.ma.array([1, 2]), "X")
    Traceback (most recent call last):
    ...
    TypeError: X is a masked array, whose mask would be lost; pass X.filled(...), ...
    """
    parts = values if isinstance(values, list | tuple) else ()
    inside = any(isinstance(part, np.ma.MaskedArray) and part.ndim for part in parts)
    if isinstance(values, np.ma.MaskedArray) or inside:
        raise TypeError(
            f"{name} {'holds' if inside else 'is'} a masked array, whose mask would be lost; pass "
            f"{name}.filled(...), with NaN where a value is missing, or leave those rows out."
        )


def as_array(values: Any, name: str) -> Array:
    """Return values as an array, of objects where no numpy type keeps different values different.

    Masked arrays, tables, and lists of lists of different lengths are refused.

    >>> as_array([1, 0.5], "x"), as_array([1, "1"], "x")
    (array([1. , 0.5]), array([1, '1'], dtype=object))
    """
    refuse_masked(values, name)
    try:
        array = None if _is_table(values, _MARKS_OF_TABLES) else np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a list, or rows of one length: {error}") from error
    if array is None or (array.ndim > 1 and _is_table(values, _MARKS_OF_ARROW)):
        raise TypeError(
            f"{name} is {_kind(values)}, whose columns would be taken by position; pass an array "
            "of them in the order that is asked for."
        )
    if array is values or hasattr(values, "dtype") or not _may_have_merged(array):
        return array
    objects, found = np.array(values, dtype=object), array.astype(object)
    if found.shape != objects.shape:
        return objects
    # NaN is equal to NaN, and no string to a number
    same = (found == objects) | ((found != found) & (objects != objects))
    return array if np.all(same) else objects


def _may_have_merged(array: Array) -> bool:
    """Return whether numpy may have changed values of a list, to strings or to large floats."""
    if array.dtype.kind in "fc":
        far = np.abs(array[np.isfinite(array)]).max(initial=0.0)
        return bool(far > LARGEST_INTEGER)
    return array.dtype.kind in "US"


def real_numbers(values: Any, name: str) -> FloatArray:
    """Return numbers as the nearest float64; refuse what is no real number or beyond all floats.

    >>> real_numbers([1, 2], "scales").tolist()
    [1.0, 2.0]
    """
    return _converted(as_array(values, name), name)


def floats(values: Any, name: str) -> FloatArray:
    """Return numbers of shape (n,) or (n, d) as float64; refuse two of a column that become equal.

    >>> floats([2**53, 2**53 + 1], "atoms")
    Traceback (most recent call last):
    ...
    ValueError: atoms hold 9007199254740992 and 9007199254740993, which float64 cannot tell ...
    """
    array = as_array(values, name)
    converted = _converted(array, name)
    small = array.dtype.kind in "biuf" and array.dtype.itemsize <= 4
    if array.dtype == np.float64 or small or not array.size:
        return converted  # these are float64 numbers all
    columns = array.reshape(-1, array.shape[-1] if array.ndim > 1 else 1)
    for before, after in zip(columns.T, converted.reshape(columns.shape).T, strict=True):
        merged = merged_values(before, after)
        if merged is not None:
            raise ValueError(
                f"{name} hold {merged[0]!r} and {merged[1]!r}, which float64 cannot tell apart; "
                "subtract an offset, or round them first."
            )
    return converted


def _converted(array: Array, name: str) -> FloatArray:
    parts = array.ravel().tolist() if array.dtype.kind == "O" else ()
    strange = any(isinstance(part, str | bytes | complex) for part in parts)
    if array.dtype.kind not in "biufO" or strange:
        sort = {"c": "complex ones", "S": "bytes", "U": "strings"}
        got = sort.get(array.dtype.kind, "other values")
        raise TypeError(f"{name} must hold real numbers, got {got}; convert them first.")
    try:
        with np.errstate(over="ignore"):  # infinity is refused where it has no place
            return np.asarray(array, dtype=np.float64)
    except OverflowError as error:
        raise ValueError(
            f"{name} must hold numbers below 1e308, got a larger one; choose another unit."
        ) from error
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold numbers: {on_one_line(error)}.") from error


def merged_values(before: Array, after: FloatArray) -> tuple[Any, Any] | None:
    """Return two different values of one column that a conversion made equal, or None.

    >>> merged_values(np.array([2**53, 2**53 + 1]), np.array([2.0**53, 2.0**53]))
    (9007199254740992, 9007199254740993)
    """
    if before.dtype.kind in "iu" and np.abs(after).max(initial=0.0) <= LARGEST_INTEGER:
        return None
    first_with: dict[float, Any] = {}
    for value, number in zip(map(plain, before.tolist()), after.tolist(), strict=True):
        other = first_with.setdefault(number, value)
        if other != value and not isnan(number):
            return other, value
    return None


def inexact(before: Array, after: FloatArray) -> Any:
    """Return a value that a conversion to float64 changed, or None.

    >>> inexact(np.array([2**53, 2**53 + 1]), np.array([2.0**53, 2.0**53]))
    9007199254740993
    """
    objects = before.astype(object)
    changed = (objects != after.astype(object)) & ~np.isnan(after)
    return plain(objects[changed][0]) if np.any(changed) else None


_NO_PROMISE = (
    "its promise was false for readers with a better model of the rows; PufferfishSwap keeps one "
    "for whole tables, PufferfishMicroaggregator for single rows."
)
_ROWS_INSTEAD = (
    "PufferfishMicroaggregator releases rows of many columns; use it, or noise='laplace'."
)
_INSTEAD = {
    "unknown={column: value}": "replace the values of a column by one of those that fit sees, "
    "X[column].where(X[column].isin(known), value), or pass unknown='nearest'.",
    "noise='swap'": _NO_PROMISE,
    "noise.RecordSwap": _NO_PROMISE,
    "noise='optimal'": _ROWS_INSTEAD,
    "noise.OptimalChannel": _ROWS_INSTEAD,
    "noisier": "fit again, with releases= for the number of releases.",
    "output='remapped'": "use output='native', or PufferfishMicroaggregator, whose rows are in "
    "the columns' own types.",
}


class RetiredError(ValueError):
    """A file was written by a part of the package that has been removed."""


def gone(name: str) -> str:
    """Return the sentence that says what replaced a name.

    >>> gone("output='remapped'").partition(":")[0]
    "output='remapped' is gone"
    """
    return f"{name} is gone: {_INSTEAD[name]}"
