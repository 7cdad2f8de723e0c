"""Records: strict reading of JSON, digests, the version, the time.

A digest is equal in every process, and after pickling. It ties a certificate to what is drawn, and
is computed at every draw, so it is fast: arrays count as bytes, all else as one text. Of a
dataclass the fields with ``compare=True`` count, and the name of the class. It detects accidents,
not forgery, as anybody can compute it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import repeat
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from sklearn_puffer._base import FloatArray, IntArray
from sklearn_puffer._words import plain, quoted

_PLAIN = {str, int, float, bool, bytes, type(None)}

Arrays = list[np.ndarray[Any, Any]]


def digest(*values: Any) -> str:
    """Return the SHA-256 digest of values, in hex.

    >>> digest("age", [1, 2]) == digest("age", (1, 2)) != digest("age", [1], [2])
    True
    """
    arrays: Arrays = []
    text = repr(_written(values, arrays))  # with the types and shapes of the arrays, in their order
    taken = hashlib.sha256(text.encode("utf-8", "backslashreplace"))
    for array in arrays:
        taken.update(array.data)
    return taken.hexdigest()


def _written(value: Any, arrays: Arrays) -> Any:
    """Return a value in a form that is equal in every process, with the type unless it is plain.

    Arrays of numbers are appended to ``arrays``.
    """
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list:
        return "list", [item if type(item) in _PLAIN else _written(item, arrays) for item in value]
    if (names := _fields_of(kind)) is not None:
        return kind.__qualname__, [
            part if type(part := getattr(value, name)) in _PLAIN else _written(part, arrays)
            for name in names
        ]
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biuf":
            return "array", _written(value.tolist(), arrays)
        numbers = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        arrays.append(numbers)
        return "array", numbers.dtype.str, numbers.shape
    if isinstance(value, Mapping):
        pairs = [(key, value[key]) for key in sorted(value, key=repr)]
        return "mapping", _written(pairs, arrays)
    if isinstance(value, Set):
        return "set", _written(sorted(value, key=repr), arrays)
    whole = plain(value)
    if type(whole) in _PLAIN:
        return whole
    shown = repr(whole)  # if it has the address, the type stands for it
    has_address = f"{id(whole):x}" in shown.lower()
    return "value", type(whole).__qualname__ if has_address else shown


@cache
def _fields_of(kind: type) -> tuple[str, ...] | None:
    """Return the fields by which objects of a dataclass are compared, None for other types."""
    return tuple(e.name for e in fields(kind) if e.compare) if is_dataclass(kind) else None


_SCALARS = frozenset({type(None), bool, int, float, str})
_FLOATS = {"infinity": math.inf, "NaN": math.nan}  # as `jsonable` writes them
_DEEPEST = 100


class FieldError(ValueError):
    """A field of a record that is wrong."""


def json_record(text: str) -> dict[str, Any]:
    """Parse a JSON object with distinct keys and finite numbers.

    Raises
    ------
    FieldError
        If the text is something else.

    Examples
    --------
    >>> json_record('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    try:
        record = json.loads(
            text, object_pairs_hook=_once, parse_float=_finite, parse_constant=_finite
        )
    except RecursionError as fault:
        raise FieldError("it is nested too deeply") from fault
    except ValueError as fault:
        raise FieldError(f"it is not such a JSON text: {fault}") from fault
    if type(record) is not dict:
        raise FieldError(f"it must be a JSON object, got {_brief(record)}")
    return record


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        raise FieldError(f"the key {_brief(max(keys, key=keys.count))} occurs twice in one object")
    return record


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise FieldError(f"{_brief(text)} is no finite number")
    return number


def read_as(kind: Any, value: Any, field: str) -> Any:
    """Convert a value of JSON to a type: objects to dataclasses, lists to tuples.

    Parameters
    ----------
    kind : type
        A dataclass, a scalar, a Literal, a union, a tuple or list of one type, a dict, or Any (a
        scalar or a nested list of these).
    value : object
    field : str
        Its name in errors.

    Raises
    ------
    FieldError
        If it has another type, naming the field.

    Examples
    --------
    >>> read_as(tuple[int, ...], [1, 2], "codes")
    (1, 2)
    """
    if kind is Any:
        return _anything(value, field, _DEEPEST)
    if is_dataclass(kind):
        return _built(kind, value, field)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _one_of(get_args(kind), value, field)
    if origin is Literal:
        if type(value) is str and value in get_args(kind):
            return value
        raise _wrong(field, f"one of {list(get_args(kind))}", value)
    if origin in (tuple, list):
        return _listed(origin, get_args(kind), value, field)
    return _scalar(origin or kind, value, field)


def _built(kind: Any, value: Any, field: str) -> Any:
    """Return a dataclass from an object; fields with a default may be absent.

    Names in the attribute ``RETIRED`` of the class are those of fields that earlier versions wrote.
    """
    if type(value) is not dict:
        raise _wrong(field, "an object", value)
    retired = getattr(kind, "RETIRED", ())
    value = {name: part for name, part in value.items() if name not in retired}
    declared = {spec.name: spec for spec in fields(kind)}
    if strange := sorted(value.keys() - declared.keys()):
        raise FieldError(f"field {_inside(field, strange[0])} is not known")
    hints = _hints_of(kind)
    for name, spec in declared.items():
        if name not in value and spec.default is MISSING and spec.default_factory is MISSING:
            raise FieldError(f"field {_inside(field, name)} is missing")
    return kind(**{n: read_as(hints[n], part, _inside(field, n)) for n, part in value.items()})


_hints_of = cache(get_type_hints)


def _one_of(kinds: Iterable[Any], value: Any, field: str) -> Any:
    """Convert a value to one of several types; the error is that of the last."""
    scalars = [kind for kind in kinds if kind in _SCALARS]
    if type(value) in scalars:
        return value
    last: FieldError | None = None
    for kind in kinds:
        if kind not in _SCALARS or kind is float:
            try:
                return read_as(kind, value, field)
            except FieldError as fault:
                last = fault
    raise last or _wrong(field, " or ".join(kind.__name__ for kind in scalars), value)


def _listed(origin: Any, kinds: tuple[Any, ...], value: Any, field: str) -> Any:
    """Convert a list of values of one type, or of one type each."""
    if type(value) is not list:
        raise _wrong(field, "a list", value)
    alike = origin is list or kinds[-1] is Ellipsis
    if alike and set(map(type, value)) <= _plain_kinds(kinds[0]):  # quick for a million values
        return origin(value)
    if not alike and len(value) != len(kinds):
        raise _wrong(field, f"a list of {len(kinds)}", value)
    each_kind = repeat(kinds[0], len(value)) if alike else kinds
    pairs = enumerate(zip(each_kind, value, strict=True))
    return origin(read_as(kind, item, f"{field}[{k}]") for k, (kind, item) in pairs)


def _plain_kinds(kind: Any) -> Set[Any]:
    """Return the types whose values need no conversion."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return {scalar for scalar in kinds if scalar in _SCALARS} - {float}


def _scalar(kind: Any, value: Any, field: str) -> Any:
    if kind is float:
        if type(value) is str and value in _FLOATS:
            return _FLOATS[value]
        if type(value) is float or (type(value) is int and abs(value) <= 2**53):
            return float(value)
    elif type(value) is kind:
        return value
    raise _wrong(field, {dict: "an object", type(None): "null"}.get(kind, kind.__name__), value)


def _anything(value: Any, field: str, depth: int) -> Any:
    if type(value) is list and depth:
        return tuple(_anything(item, field, depth - 1) for item in value)
    if type(value) in _SCALARS:
        return value
    raise _wrong(field, "a plain value", value)


def _inside(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name


def _wrong(field: str, wanted: str, value: Any) -> FieldError:
    return FieldError(f"field {field} must be {wanted}, got {_brief(value)}")


def _brief(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = quoted(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


Number = int | str
"""A number in JSON: floats are hexadecimal, and so exact."""

_LARGEST_WHOLE = 2**53


def jsonable(value: Any) -> Any:
    """Return a plain Python value for JSON, with strings for NaN and infinity."""
    value = plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinity"
    if isinstance(value, tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, dict):
        return {key: jsonable(item) for key, item in value.items()}
    return value if isinstance(value, tuple(_SCALARS)) else str(value)


def stated(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without the fields that are None or False."""
    return {
        name: value for name, value in record.items() if value is not None and value is not False
    }


def written(value: float) -> Number:
    """Return a number for JSON.

    >>> written(3.0), written(0.5)
    (3, '0x1.0000000000000p-1')
    """
    value = float(value)
    negative_zero = value == 0.0 and math.copysign(1.0, value) < 0.0
    whole = value.is_integer() and abs(value) <= _LARGEST_WHOLE and not negative_zero
    return int(value) if whole else value.hex()


def all_written(values: FloatArray) -> list[Number]:
    """Return numbers for JSON."""
    return [*map(written, values.tolist())]


class Fields:
    """The fields of a JSON object, each read strictly as a type; unread ones are refused."""

    def __init__(self, value: Any, field: str = "") -> None:
        self._left: dict[str, Any] = dict(read_as(dict, value, field))
        self._field, self._inner = field, list[Fields]()

    def named(self, name: str) -> str:
        """Return the name of a field in errors."""
        return _inside(self._field, name)

    def read(self, name: str, kind: Any, *default: Any) -> Any:
        """Return a field as a type, or the default if it is absent."""
        if name in self._left:
            return read_as(kind, self._left.pop(name), self.named(name))
        if not default:
            raise FieldError(f"field {self.named(name)} is missing")
        return default[0]

    def number(self, name: str) -> float:
        """Return a number that was written."""
        return number(self.read(name, Number), self.named(name))

    def numbers(self, name: str) -> FloatArray:
        """Return numbers that were written."""
        values = self.read(name, tuple[Number, ...])
        return np.array([number(value, self.named(name)) for value in values], dtype=float)

    def whole(self, name: str) -> IntArray:
        """Return whole numbers."""
        values = self.read(name, tuple[int, ...])
        self.check(all(abs(value) < 2**63 for value in values), name)
        return np.array(values, dtype=np.int64)

    def inner(self, name: str) -> Fields | None:
        """Return the fields of an inner object, None if it is absent."""
        value = self._left.pop(name, None)
        return None if value is None else self._added(value, self.named(name))

    def listed(self, name: str) -> list[Fields]:
        """Return the fields of each object of a list."""
        values = read_as(list[dict[str, Any]], self._left.pop(name, None), self.named(name))
        return [self._added(value, f"{self.named(name)}[{k}]") for k, value in enumerate(values)]

    def _added(self, value: Any, field: str) -> Fields:
        self._inner.append(Fields(value, field))
        return self._inner[-1]

    def has(self, name: str) -> bool:
        """Return whether a field is present and not null."""
        return self._left.get(name) is not None

    def check(self, right: bool, name: str) -> None:
        """Refuse a field that does not fit the others."""
        if not right:
            raise FieldError(f"field {self.named(name)} does not fit the others")

    def rest(self) -> dict[str, Any]:
        """Return all unread fields."""
        rest, self._left = self._left, {}
        return rest

    def end(self) -> None:
        """Refuse unread fields."""
        if self._left:
            raise FieldError(f"field {self.named(min(self._left))} is not known")
        for inner in self._inner:
            inner.end()


def plain_tree(value: Any) -> Any:
    """Return nested tuples and mappings for JSON; see `read_tree`.

    Raises
    ------
    ValueError
        If a value is no string, number, boolean or missing.

    Examples
    --------
    >>> plain_tree({"pairs": (("a", 1.5), ("b", None)), "edges": {}})
    {'pairs': [['a', 1.5], ['b', None]], 'edges': {'mapping': []}}
    """
    return {name: _plain_part(part) for name, part in value.items()}


def _plain_part(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {"mapping": [[_plain_part(k), _plain_part(part)] for k, part in value.items()]}
    if isinstance(value, tuple | list):
        return [_plain_part(part) for part in value]
    value = plain(value)
    if type(value) not in _SCALARS:
        raise ValueError(
            f"the value {quoted(value)} is a {type(value).__name__}, and JSON holds strings, "
            "numbers, booleans and missing values; convert the column with astype(str), or save "
            "with joblib."
        )
    return value


def read_tree(value: Any) -> Any:
    """Read what `plain_tree` has written, with tuples for lists.

    >>> read_tree([["a", 1.5], {"mapping": [["b", 2]]}])
    (('a', 1.5), {'b': 2})
    """
    if isinstance(value, dict):
        return {read_tree(k): read_tree(part) for k, part in value["mapping"]}
    return tuple(map(read_tree, value)) if isinstance(value, list) else value


def number(value: Number, field: str) -> float:
    """Return a number that was written.

    Raises
    ------
    FieldError
        If it is no finite number, naming the field.

    Examples
    --------
    >>> number("0x1.8p+0", "scale")
    1.5
    """
    try:
        parsed = float.fromhex(value) if isinstance(value, str) else float(value)
    except (ValueError, OverflowError):
        parsed = math.nan
    if not math.isfinite(parsed):
        raise FieldError(f"field {field} must be a finite number, got {quoted(value)[:60]}")
    return parsed


__version__ = "0.3.0"


def utc_now() -> str:
    """Return the date and time in UTC, to the second, in ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
