"""Records of plain values that are written as JSON and read strictly, certificates among them.

Floats are written in hexadecimal, so that they are read back exactly; whole ones as whole numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, NoReturn, get_type_hints

import numpy as np

from sklearn_puffer._base import (
    FieldError,
    FloatArray,
    IntArray,
    RetiredError,
    gone,
    plain,
    quoted,
    read_as,
)
from sklearn_puffer._release.certificate import READ_SCHEMAS, Certificate
from sklearn_puffer._release.certificate_figures import SetLoss
from sklearn_puffer._release.composition import rule_from_dict
from sklearn_puffer._tables import Name

_LARGEST_WHOLE = 2**53


_PLAIN = (type(None), bool, int, str)


Number = int | str


@dataclass(frozen=True)
class FloatLevel:
    """A category, or the replacement of unseen ones, that is a float."""

    float: str


Level = None | bool | int | str | FloatLevel


Names = tuple[Name, ...]


def signed_text(record: dict[str, Any]) -> str:
    """Return the JSON of a record, with a checksum at its end."""
    return _compact(record | {"checksum": checksum(record)})


def _compact(record: dict[str, Any], *, sort_keys: bool = False) -> str:
    return json.dumps(record, separators=(",", ":"), allow_nan=False, sort_keys=sort_keys)


def checksum(record: dict[str, Any]) -> str:
    return hashlib.sha256(_compact(record, sort_keys=True).encode()).hexdigest()


def stated(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without the fields that are None or False."""
    return {
        name: value for name, value in record.items() if value is not None and value is not False
    }


def plain_names(names: Sequence[Any]) -> Names:
    return tuple(plain(name) for name in names)


def written_level(level: Any, what: str) -> Any:
    if type(level) is float:
        return {"float": level.hex()}
    if type(level) in _PLAIN:
        return level
    raise ValueError(
        f"{what} has the value {quoted(level)} of type {type(level).__name__}, and a release "
        "artifact holds categories that are strings, numbers, booleans or missing; convert the "
        "column with astype(str), or save the noiser with joblib."
    )


def written(value: float) -> Number:
    """Return a number as it is written.

    >>> written(3.0), written(0.5)
    (3, '0x1.0000000000000p-1')
    """
    value = float(value)
    negative_zero = value == 0.0 and math.copysign(1.0, value) < 0.0
    whole = value.is_integer() and abs(value) <= _LARGEST_WHOLE and not negative_zero
    return int(value) if whole else value.hex()


def all_written(values: FloatArray) -> list[Number]:
    """Return numbers as they are written."""
    return [*map(written, values.tolist())]


class Fields:
    """The fields of a JSON object: each is read strictly as a type, and none may be left over."""

    def __init__(self, value: Any, field: str = "") -> None:
        self._left: dict[str, Any] = dict(read_as(dict, value, field))
        self._field, self._inner = field, list[Fields]()

    def named(self, name: str) -> str:
        """Return what an error calls a field."""
        return f"{self._field}.{name}" if self._field else name

    def read(self, name: str, kind: Any, *default: Any) -> Any:
        """Return a field as a value of a type, or the default where it is absent."""
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
        """Return the fields of an object in a field, where there is one."""
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
        """Return whether a field is there."""
        return self._left.get(name) is not None

    def check(self, right: bool, name: str) -> None:
        """Refuse a field that does not fit the others."""
        if not right:
            raise FieldError(f"field {self.named(name)} does not fit the others")

    def rest(self) -> dict[str, Any]:
        """Return all fields that were not read, as they are."""
        rest, self._left = self._left, {}
        return rest

    def end(self) -> None:
        """Refuse fields that were not read."""
        if self._left:
            raise FieldError(f"field {self.named(min(self._left))} is not known")
        for inner in self._inner:
            inner.end()


def plain_tree(value: Any) -> Any:
    """Return values in tuples and mappings as JSON has them; see `read_tree`.

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
    if type(value) not in (*_PLAIN, float):
        raise ValueError(
            f"the value {quoted(value)} is a {type(value).__name__}, and JSON holds strings, "
            "numbers, booleans and missing values; convert the column with astype(str), or save "
            "with joblib."
        )
    return value


def read_tree(value: Any) -> Any:
    """Return what `plain_tree` has written, lists as tuples.

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


def read_level(level: Level, field: str) -> Any:
    return number(level.float, field) if isinstance(level, FloatLevel) else level


_APART = {"rule", "around", "fitted"}


@dataclass(frozen=True)
class Elsewhere:
    """A loss over a set of priors that only the noiser can compute."""

    @property
    def known(self) -> SetLoss | None:
        """None: it was not computed when the certificate was written."""
        return None

    def value(self) -> NoReturn:
        """Refuse."""
        raise ValueError(
            "over_set is computed from the priors, which this certificate was written without; ask "
            "the noiser for certificate_.over_set before it is written."
        )


def certificate_from_dict(
    record: Mapping[str, Any], *, awaited: bool = False, kind: type[Certificate] = Certificate
) -> Any:
    """Return the certificate that ``to_dict`` wrote, without priors.

    Parameters
    ----------
    record : dict
    awaited : bool, default=False
        Whether the loss over a set of priors was still to be computed.
    kind : type of Certificate
        That of the mechanism, a dataclass.

    Raises
    ------
    ValueError
        If the record is not that of a certificate, naming the field.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> certificate = PufferfishNoiser(sensitive="loan").fit(table).certificate_
    >>> certificate_from_dict(certificate.to_dict()) == certificate
    True
    """
    if record.get("schema") not in READ_SCHEMAS:
        raise FieldError(
            f"field schema must be {READ_SCHEMAS[0]!r}, got {quoted(record.get('schema'))}, of "
            f"version {quoted(record.get('version'))} of the library"
        )
    for field, name in (("channel", "noise='optimal'"), ("swap", "noise='swap'")):
        if field in record:
            raise RetiredError(gone(name))
    hints = get_type_hints(kind)
    reader = Fields(record)
    facts = {
        # what later versions added has a default
        entry.name: reader.read(entry.name, hints[entry.name], *_default_of(entry))
        for entry in fields(kind)
        if entry.name not in _APART
    }
    around: Any = reader.read("over_set", SetLoss | None)
    if awaited and around is None:
        around = Elsewhere()
    rule = reader.read("rule", dict | None)
    return kind(**facts, around=around, rule=None if rule is None else rule_from_dict(rule))


def _default_of(field: Any) -> list[Any]:
    return [] if field.default is MISSING else [field.default]
