"""Prototypes, and how columns are drawn, as plain values of which JSON is made, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sklearn_puffer._base import LARGEST_INTEGER, Array, FieldError, plain, quoted, read_as
from sklearn_puffer._microaggregator.coordinates import Coordinates, LevelAxis, NumberAxis, Scores
from sklearn_puffer._microaggregator.drawn import Drawn
from sklearn_puffer._microaggregator.prototypes import Prototypes
from sklearn_puffer._tables import UNITS, Kind, Name, Values

_PLAIN = {str, int, float, bool, type(None)}


@dataclass(frozen=True)
class _ColumnRecord:
    """The typical values of a column; None where they are missing."""

    name: Name
    kind: Kind
    dtype: str
    data: tuple[Any, ...]
    levels: tuple[Any, ...] | None
    declared: bool
    ordered: bool
    unit: str | None = None


@dataclass(frozen=True)
class _Record:
    axes: tuple[NumberAxis | LevelAxis, ...]
    scores: Scores | None
    columns: tuple[_ColumnRecord, ...]
    sizes: tuple[int, ...]


def written(prototypes: Prototypes) -> dict[str, Any]:
    """Return prototypes as plain values.

    Raises
    ------
    ValueError
        If a category is no string, number or boolean.
    """
    for axis in prototypes.coordinates.axes:
        if isinstance(axis, LevelAxis):
            _check_plain([*axis.levels, *axis.rarer], axis.name)
    scores = prototypes.coordinates.scores
    return {
        "axes": [_listed(asdict(axis)) for axis in prototypes.coordinates.axes],
        "scores": scores and _listed(asdict(scores)),
        "columns": [_written(name, values) for name, values in prototypes.rows.items()],
        "sizes": prototypes.sizes.tolist(),
    }


def read(record: Any, field: str = "prototypes") -> Prototypes:
    """Return the prototypes that were written.

    Raises
    ------
    FieldError
        If they are no such record, naming the field.
    """
    parts = read_as(_Record, record, field)
    names = [axis.name for axis in parts.axes]
    _check(len(names) > 0 and len(set(names)) == len(names), f"{field}.axes")
    _check([column.name for column in parts.columns] == names, f"{field}.columns")
    _check(all(axis.is_sound() for axis in parts.axes), f"{field}.axes")
    coordinates = Coordinates(parts.axes, parts.scores)
    _check(parts.scores is None or coordinates.fit_together(), f"{field}.scores")
    n = len(parts.sizes)
    _check(n > 0 and min(parts.sizes) > 0, f"{field}.sizes")
    rows = {c.name: _read(c, n, f"{field}.columns.{c.name}") for c in parts.columns}
    return Prototypes(coordinates, rows, np.array(parts.sizes, dtype=np.int64))


@dataclass(frozen=True)
class _DrawnRecord:
    values: _ColumnRecord
    counts: tuple[tuple[int, ...], ...]


def written_drawn(drawn: Drawn) -> list[dict[str, Any]]:
    """Return how columns are drawn as plain values; see `written`."""
    return [
        {"values": _written(name, values), "counts": drawn.counts[name].tolist()}
        for name, values in drawn.values.items()
    ]


def read_drawn(record: Any, n_prototypes: int, field: str = "drawn") -> Drawn:
    """Return how columns are drawn in each of the prototypes, as it was written; see `read`."""
    parts = read_as(tuple[_DrawnRecord, ...], record, field)
    values, counts = {}, {}
    for k, part in enumerate(parts):
        here = f"{field}[{k}].counts"
        widths = {len(row) for row in part.counts}
        _check(len(part.counts) == n_prototypes and len(widths) == 1 and 0 not in widths, here)
        _check(min(map(min, part.counts)) >= 0 < min(map(sum, part.counts)), here)
        _check(max(map(sum, part.counts)) <= LARGEST_INTEGER, here)
        name = part.values.name
        values[name] = _read(part.values, len(part.counts[0]), f"{field}[{k}].values")
        counts[name] = np.array(part.counts, dtype=np.int64)
    _check(len(values) == len(parts) > 0, field)
    return Drawn(values, counts)


def _check(holds: bool, field: str) -> None:
    if not holds:
        raise FieldError(f"field {field} does not fit the others")


def _check_plain(levels: Sequence[Any], name: Name) -> None:
    for level in levels:
        if type(plain(level)) not in _PLAIN:
            raise ValueError(
                f"column {quoted(name)} has the value {quoted(level)} of type "
                f"{type(level).__name__}, and JSON holds categories that are strings, numbers, "
                "booleans or missing; convert the column with astype(str), or save with joblib."
            )


def _listed(value: Any) -> Any:
    """Return tuples as lists, as JSON has them, and numbers as those of Python."""
    if isinstance(value, Mapping):
        return {key: _listed(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_listed(part) for part in value]
    return plain(value)


def _written(name: Name, values: Values) -> dict[str, Any]:
    data: list[Any] = values.data.tolist()
    if values.missing is not None:
        data = [None if gone else x for x, gone in zip(data, values.missing, strict=True)]
    levels = None if values.levels is None else _listed(values.levels)
    _check_plain(levels or (), name)
    return {
        "name": plain(name),
        "kind": values.kind,
        "dtype": values.data.dtype.str,
        "data": data,
        "levels": levels,
        "declared": values.declared,
        "ordered": values.ordered,
        "unit": values.unit,
    }


def _read(record: _ColumnRecord, n: int, field: str) -> Values:
    levels = record.levels
    _check(len(record.data) == n, f"{field}.data")
    _check((levels is None) == (record.kind != "category"), f"{field}.levels")
    timed = record.unit is None or (record.unit in UNITS and record.kind == "integer")
    _check(timed, f"{field}.unit")
    gone: Array = np.array([value is None for value in record.data])
    stand_in: Any = {"float": np.nan, "category": -1, "boolean": False}.get(record.kind, 0)
    bare = [stand_in if value is None else value for value in record.data]
    data = _as_array(bare, record, f"{field}.data")
    if levels is not None:
        _check(bool(((data >= 0) & (data < len(levels)) | gone).all()), f"{field}.data")
    missing = gone if gone.any() else None
    values = Values(record.kind, data, missing, levels, record.declared, record.ordered)
    return replace(values, unit=record.unit)


def _as_array(bare: list[Any], record: _ColumnRecord, field: str) -> Array:
    """Return values in their type, if that holds them."""
    kinds = {"float": "f", "integer": "iu", "boolean": "b", "category": "iu"}
    try:
        dtype = np.dtype(record.dtype)
        _check(dtype.kind in kinds[record.kind], f"{field}: dtype")
        number: Any = {"f": float, "b": bool}.get(dtype.kind, int)
        wanted = [read_as(number, value, field) for value in bare]
        data: Array = np.array(wanted, dtype=dtype)
    except (TypeError, OverflowError):
        raise FieldError(f"field {field} does not fit its type {quoted(record.dtype)}") from None
    return data
