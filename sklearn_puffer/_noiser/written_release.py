"""The form of a release: what `transform` needs of a fitted noiser as plain values, and no laws.

Floats are written in hexadecimal, so that they come back as they were; whole ones as whole numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import FieldError, FloatArray, __version__, json_record, quoted, read_as
from sklearn_puffer._noiser.groups import RowGroups
from sklearn_puffer._noiser.release import Output
from sklearn_puffer._tables import Kind, Missing, Name

SCHEMA = "sklearn_puffer.release/3"
# the first one had no margins, the second one no groups of rows
_READ = (SCHEMA, "sklearn_puffer.release/2", "sklearn_puffer.release/1")
MOST_CHARACTERS = 1 << 28
_LARGEST_WHOLE = 2**53

Number = int | str


@dataclass(frozen=True)
class FloatLevel:
    """A category that is a float, or what unseen ones become."""

    float: str


Level = None | bool | int | str | FloatLevel


@dataclass(frozen=True)
class MapForm:
    """Which value each noisy one becomes: a `Remapping` without the shares behind it."""

    starts: tuple[int, ...]
    codes: tuple[int, ...]


@dataclass(frozen=True)
class LeastForm:
    """The scale, grid and map that the certificate is about, where there is more noise."""

    scale: str
    grid: Number
    remapping: MapForm | None = None


@dataclass(frozen=True)
class MarginForm:
    """How the values of a column were distributed over the rows of `fit`, in thousandths."""

    parts: tuple[int, ...]
    present: int | None = None
    place: tuple[Number, Number] | None = None


@dataclass(frozen=True)
class ColumnForm:
    """One public column; ``known`` is left out where every atom is."""

    name: Name
    kind: Kind
    atoms: tuple[Number, ...]
    levels: tuple[Level, ...] | None = None
    edges: tuple[Number, ...] | None = None
    known: tuple[bool, ...] | None = None
    merged: bool = False
    missing_code: int | None = None
    spread: Number | None = None
    ordered: bool = False
    free: bool = False
    scale: Number | None = None
    grid: Number = 0
    drawn: tuple[Number, ...] | None = None
    shares: tuple[int, ...] | None = None
    remapping: MapForm | None = None
    certified: LeastForm | None = None
    margin: MarginForm | None = None


@dataclass(frozen=True)
class FamilyForm:
    """A family of noise, and its parameters but the scale."""

    family: str
    k: Number | None = None


@dataclass(frozen=True)
class ChannelForm:
    """The cells of a channel, its rows in shares of 2^62, and what moves to its cells cost."""

    cells: tuple[tuple[int, ...], ...]
    lengths: tuple[int, ...]
    targets: tuple[int, ...]
    shares: tuple[int, ...]
    units: tuple[Number, ...]
    stay: tuple[int, ...]


@dataclass(frozen=True)
class ReleaseForm:
    """All of it, but for its checksum."""

    schema: str
    version: str
    fingerprint: str
    names: tuple[Name, ...]
    named: bool
    sensitive: tuple[Name, ...]
    passed: tuple[Name, ...]
    order: tuple[Name, ...]
    output: Output
    missing: Missing
    unknown: str | tuple[tuple[Name, Level], ...]
    patterns: tuple[tuple[tuple[Name, ...], tuple[tuple[Name, ...], ...]], ...]
    columns: tuple[ColumnForm, ...]
    certificate: dict[str, Any]
    awaited: bool = False
    key_material: str = ""
    noise: FamilyForm | None = None
    channel: ChannelForm | None = None
    groups: RowGroups | None = None


# ------------------------------------------------------------------------------------- to and fro


def as_text(form: ReleaseForm) -> str:
    """Return the JSON of a form, in one line, with a checksum at its end."""
    record = _bare(form)
    if form.key_material:  # the first thing that anybody sees
        record = {"key_material": form.key_material} | record
    return _compact(record | {"checksum": _checksum(record)})


def from_text(text: str) -> ReleaseForm:
    """Return the form that a JSON text is.

    Raises
    ------
    FieldError
        If it is none, or was changed or damaged.
    """
    if len(text) > MOST_CHARACTERS:
        raise FieldError(f"it has {len(text):,} characters, more than {MOST_CHARACTERS:,}")
    record = json_record(text)
    schema, version = record.get("schema"), record.get("version")
    if schema not in _READ:
        raise FieldError(
            f"field schema must be {SCHEMA!r}, got {quoted(schema)[:80]}, written by version "
            f"{quoted(version)[:40]} of the library, and this is version {__version__!r}"
        )
    if record.pop("checksum", None) != _checksum(record):
        raise FieldError("it was changed or damaged: its checksum is another one")
    form: ReleaseForm = read_as(ReleaseForm, record, "")
    return form


def _bare(value: Any) -> Any:
    """Return dataclasses as dicts without what is as by default."""
    if is_dataclass(value) and not isinstance(value, type):
        own = [(each, getattr(value, each.name)) for each in fields(value)]
        return {
            each.name: _bare(held)
            for each, held in own
            if each.default is MISSING or held != each.default
        }
    return [_bare(each) for each in value] if isinstance(value, tuple | list) else value


def _compact(record: dict[str, Any], *, sort_keys: bool = False) -> str:
    return json.dumps(record, separators=(",", ":"), allow_nan=False, sort_keys=sort_keys)


def _checksum(record: dict[str, Any]) -> str:
    return hashlib.sha256(_compact(record, sort_keys=True).encode()).hexdigest()


# ---------------------------------------------------------------------------------------- numbers


def written(value: float) -> Number:
    """Return a number as it is written.

    >>> written(3.0), written(0.5)
    (3, '0x1.0000000000000p-1')
    """
    own = float(value)
    whole = own.is_integer() and abs(own) <= _LARGEST_WHOLE and math.copysign(1.0, own) == 1.0
    negative = own.is_integer() and -_LARGEST_WHOLE <= own < 0.0
    return int(own) if whole or negative else own.hex()


def all_written(values: FloatArray) -> tuple[Number, ...]:
    """Return numbers as they are written."""
    return tuple(map(written, values.tolist()))


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
        found = float.fromhex(value) if isinstance(value, str) else float(value)
    except (ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise FieldError(f"field {field} must be a finite number, got {quoted(value)[:60]}")
    return found


def numbers(values: Sequence[Number], field: str) -> FloatArray:
    """Return numbers that were written."""
    return np.array([number(value, field) for value in values], dtype=float)
