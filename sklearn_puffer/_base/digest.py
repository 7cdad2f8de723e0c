"""A digest of plain values, arrays and dataclasses: the same in every process, and after pickling.

It ties a certificate to what will be drawn, at every draw, so it is quick: arrays count as bytes,
all else as one text. Of a dataclass those fields count that its objects are compared by. It tells
accidents, not forgers, who could compute it anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np

from sklearn_puffer._base.arguments import plain

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
    """Return a value as one that is written alike in every process; all but a plain one has a mark.

    Numbers of arrays are put aside.
    """
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list:
        return "list", [each if type(each) in _PLAIN else _written(each, arrays) for each in value]
    if (names := _fields_of(kind)) is not None:
        return kind.__qualname__, [
            own if type(own := getattr(value, name)) in _PLAIN else _written(own, arrays)
            for name in names
        ]
    if isinstance(value, np.ndarray):
        return _written_array(value, arrays)
    if isinstance(value, Mapping):
        pairs = [(key, value[key]) for key in sorted(value, key=repr)]
        return "mapping", _written(pairs, arrays)
    if isinstance(value, Set):
        return "set", _written(sorted(value, key=repr), arrays)
    whole = plain(value)
    return whole if type(whole) in _PLAIN else ("value", _text_of(whole))


@cache
def _fields_of(kind: type) -> tuple[str, ...] | None:
    """Return the names of the fields that make two objects of a dataclass differ, or None."""
    return tuple(e.name for e in fields(kind) if e.compare) if is_dataclass(kind) else None


def _written_array(values: np.ndarray[Any, Any], arrays: Arrays) -> Any:
    if values.dtype.kind not in "biuf":
        return "array", _written(values.tolist(), arrays)
    numbers = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    arrays.append(numbers)
    return "array", numbers.dtype.str, numbers.shape


def _text_of(value: Any) -> str:
    """Return how a value is written; one that writes its address is known by its type."""
    shown = repr(value)
    return type(value).__qualname__ if f"{id(value):x}" in shown.lower() else shown
