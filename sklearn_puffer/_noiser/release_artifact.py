"""The release artifact: what `transform` needs of a fitted noiser as plain values, without priors.

Floats are written in hexadecimal, so that they are read back exactly; whole ones as whole numbers.
Default values are left out.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, NoReturn, get_type_hints

import numpy as np

from sklearn_puffer._base import (
    FieldError,
    FloatArray,
    IntArray,
    RetiredError,
    __version__,
    gone,
    json_record,
    plain,
    quoted,
    read_as,
)
from sklearn_puffer._noise import MixedNoise, Mixing, Noise, without_mixings
from sklearn_puffer._noiser.checked_rows import FittedMargins
from sklearn_puffer._noiser.mechanism import FittedMechanism, Least, NoiseOfColumns
from sklearn_puffer._noiser.release import ColumnRelease, scale_of
from sklearn_puffer._noiser.settings import Output
from sklearn_puffer._release import (
    PARTS,
    READ_SCHEMAS,
    Certificate,
    Margin,
    Patterns,
    RowGroups,
    SetLoss,
    TableRules,
    margin_over,
    n_cells,
    rule_from_dict,
)
from sklearn_puffer._tables import Column, Kind, Missing, Name
from sklearn_puffer.noise import family_of, written_family

SCHEMA = "sklearn_puffer.release/3"
# 1 had no margins, and 2 no groups of rows
_READ = (SCHEMA, "sklearn_puffer.release/2", "sklearn_puffer.release/1")
MOST_CHARACTERS = 1 << 28
_LARGEST_WHOLE = 2**53
_PLAIN = (type(None), bool, int, str)

Number = int | str


@dataclass(frozen=True)
class FloatLevel:
    """A category, or the replacement of unseen ones, that is a float."""

    float: str


Level = None | bool | int | str | FloatLevel
Names = tuple[Name, ...]


# ---------------------------------------------------------------------------------------- writing


def artifact_text(fitted: FittedMechanism, unknown: Any) -> str:
    """Return a fitted release, and its rule for values it has not seen, as JSON in one line.

    Raises
    ------
    ValueError
        If it has a family, cost or category of the user's own, which no artifact holds.
    """
    rules, certificate, releases = fitted.rules, fitted.certificate, fitted.columns
    return signed_text(
        {
            "schema": SCHEMA,
            "version": __version__,
            "fingerprint": certificate.fingerprint,
            "names": _names(rules.names),
            "named": rules.named,
            "sensitive": _names(rules.sensitive),
            "passed": _names(rules.passed),
            "order": _names(rules.order),
            "output": releases[0].output,
            "missing": rules.missing,
            "unknown": _written_unknown(unknown),
            "patterns": _written_patterns(rules.patterns),
            "columns": _written_columns(fitted),
            "certificate": certificate.to_dict(),
        }
        | _stated(
            {
                "awaited": certificate.around is not None and certificate.known_over_set is None,
                "noise": _written_family(releases),
                "groups": None if rules.groups is None else vars(rules.groups),
            }
        )
    )


def signed_text(record: dict[str, Any]) -> str:
    """Return the JSON of a record, with a checksum at its end."""
    return _compact(record | {"checksum": _checksum(record)})


def _compact(record: dict[str, Any], *, sort_keys: bool = False) -> str:
    return json.dumps(record, separators=(",", ":"), allow_nan=False, sort_keys=sort_keys)


def _checksum(record: dict[str, Any]) -> str:
    return hashlib.sha256(_compact(record, sort_keys=True).encode()).hexdigest()


def _stated(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without the fields that are None or False."""
    return {
        name: value for name, value in record.items() if value is not None and value is not False
    }


def _names(names: Sequence[Any]) -> Names:
    return tuple(plain(name) for name in names)


def _written_patterns(patterns: Patterns) -> list[Any]:
    """Return the sets of columns that occurred together, in a fixed order."""
    return [
        (_names(group), sorted(map(_names, known), key=repr))
        for group, known in sorted(patterns.items(), key=repr)
    ]


def _written_unknown(unknown: Any) -> Any:
    if not isinstance(unknown, Mapping):
        return unknown
    return [
        (plain(name), _written_level(plain(value), f"unknown[{name!r}]"))
        for name, value in unknown.items()
    ]


def _written_family(releases: Sequence[ColumnRelease]) -> dict[str, Any] | None:
    noises = [release.noise for release in releases if release.noise is not None]
    if not noises:
        return None
    noise = without_mixings(noises[0])
    if (family := written_family(noise)) is None:
        raise ValueError(
            f"noise={noise.name} is a family of your own, which a release artifact does not hold: "
            "its reader may lack it; use one of sklearn_puffer.noise, or save the noiser with "
            "joblib."
        )
    name, parameters = family
    return {"family": name} | {key: written(value) for key, value in parameters.items()}


def _written_columns(fitted: FittedMechanism) -> list[dict[str, Any]]:
    """Return the columns, with the noise that is certified and the values of the fitted rows."""
    records = [_written_release(release) for release in fitted.columns]
    if fitted.noise is not None:
        for record, release, least in zip(records, fitted.columns, fitted.noise.least, strict=True):
            scale, grid = least
            if least != (scale_of(release), release.grid):
                record["certified"] = {"scale": float(scale).hex(), "grid": written(grid)}
    for record, margin in zip(records, fitted.rules.margins, strict=False):
        present = None if margin.present == margin.total else margin.present
        location = None if margin.place is None else tuple(map(written, margin.place))
        parts = margin.parts.tolist()
        record["margin"] = {"parts": parts} | _stated({"present": present, "place": location})
    return records


def _written_release(release: ColumnRelease) -> dict[str, Any]:
    column, mixing, levels = release.column, release.mixing, release.column.levels
    what = f"column {column.name!r}"
    return {
        "name": plain(column.name),
        "kind": column.kind,
        "atoms": all_written(column.atoms),
    } | _stated(
        {
            "levels": levels and [_written_level(plain(level), what) for level in levels],
            "edges": None if column.edges is None else all_written(column.edges),
            "known": None if column.known.all() else column.known.tolist(),
            "merged": bool(column.merged),
            "missing_code": plain(column.missing_code),
            "spread": None if column.spread is None else written(column.spread),
            "ordered": bool(column.ordered),
            "free": bool(column.free),
            "scale": None if release.noise is None else written(scale_of(release)),
            "grid": written(release.grid) or None,
            "drawn": None if mixing is None else all_written(np.array(mixing.values)),
            "shares": None if mixing is None else mixing.shares,
        }
    )


def _written_level(level: Any, what: str) -> Any:
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


# ---------------------------------------------------------------------------------------- reading


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

    def end(self) -> None:
        """Refuse fields that were not read."""
        if self._left:
            raise FieldError(f"field {self.named(min(self._left))} is not known")
        for inner in self._inner:
            inner.end()


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


def read_artifact(text: str) -> tuple[FittedMechanism, Any]:
    """Return the fitted release that was written, and its rule for values it has not seen.

    It does not compare its fingerprint with that of its certificate.

    Raises
    ------
    FieldError
        If a text is no artifact, was changed or damaged, or a field does not fit the others.
    RetiredError
        If it is about what there is no more.
    """
    record = Fields(_whole_record(text))
    for name in ("schema", "version"):
        record.read(name, str)
    certificate = certificate_from_dict(
        record.read("certificate", dict), awaited=record.read("awaited", bool, False)
    )
    record.check(certificate.fingerprint == record.read("fingerprint", str), "fingerprint")
    columns, family = record.listed("columns"), record.inner("noise")
    noise = None if family is None else _read_family(family)
    output = record.read("output", Output)
    releases = [_read_release(column, noise, output) for column in columns]
    least = [_read_least(*pair) for pair in zip(columns, releases, strict=True)]
    margins = _read_margins(record, columns, releases, certificate.n_rows)
    rules = _read_rules(record, {release.column.name for release in releases}, margins)
    groups = rules.groups and rules.groups.for_certificate()
    record.check(groups == certificate.groups, "groups")
    record.check(groups is None or groups.column in rules.passed, "groups.column")
    if margins:
        known = FittedMargins([release.column for release in releases], margins)
        certificate = replace(certificate, fitted=known)
    unknown = _read_unknown(record)
    record.end()
    return FittedMechanism(rules, NoiseOfColumns(releases, least), certificate), unknown


def _whole_record(text: str) -> dict[str, Any]:
    """Return the record of a text, without its checksum."""
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
    if record.get("output") == "remapped":
        raise RetiredError(gone("output='remapped'"))
    if "channel" in record:
        raise RetiredError(gone("noise='optimal'"))
    return record


def _read_rules(record: Fields, public: set[Name], margins: list[Margin]) -> TableRules:
    patterns = record.read("patterns", tuple[tuple[Names, tuple[Names, ...]], ...])
    rules = TableRules(
        names=record.read("names", Names),
        named=record.read("named", bool),
        sensitive=list(record.read("sensitive", Names)),
        passed=list(record.read("passed", Names)),
        order=list(record.read("order", Names)),
        missing=record.read("missing", Missing),
        patterns={group: set(known) for group, known in patterns},
        margins=margins,
        groups=record.read("groups", RowGroups | None, None),
    )
    released = public | set(rules.passed)
    record.check(len(rules.order) == len(released) and set(rules.order) == released, "order")
    record.check(released <= set(rules.names), "names")
    return rules


def _read_unknown(record: Fields) -> Any:
    unknown = record.read("unknown", str | tuple[tuple[Name, Level], ...])
    if isinstance(unknown, str):
        return unknown
    return {name: _read_level(value, "unknown") for name, value in unknown}


def _read_level(level: Level, field: str) -> Any:
    return number(level.float, field) if isinstance(level, FloatLevel) else level


def _read_family(record: Fields) -> Noise:
    parameters = {"k": record.number("k")} if record.has("k") else {}
    return family_of(record.read("family", str), parameters)


def _read_release(record: Fields, family: Noise | None, output: Output) -> ColumnRelease:
    column, noise = _read_column(record), None
    grid = record.number("grid") if record.has("grid") else 0.0
    mixed = record.has("shares")
    if record.has("scale"):
        if family is None:
            raise FieldError("field noise is missing")
        noise = family.with_scale(record.number("scale"))
        record.check(grid > 0.0 or mixed, "grid")
        record.check(mixed or not column.unordered, "shares")
    if mixed and noise is not None:
        values, shares = record.numbers("drawn"), record.read("shares", tuple[int, ...])
        record.check(len(values) == len(shares) == len(column.atoms), "drawn")
        noise = MixedNoise(noise, (Mixing(tuple(values.tolist()), shares),))
    return ColumnRelease(column, noise, grid, output)


def _read_column(record: Fields) -> Column:
    kind, atoms = record.read("kind", Kind), record.numbers("atoms")
    n = len(atoms)
    record.check(n > 0 and bool((np.diff(atoms) > 0.0).all()), "atoms")
    levels = record.read("levels", tuple[Level, ...] | None, None)
    record.check((levels is None) == (kind != "category"), "levels")
    record.check(levels is None or len(levels) == n, "levels")
    edges = record.numbers("edges") if record.has("edges") else None
    record.check(edges is None or len(edges) == n - 1, "edges")
    known = record.read("known", tuple[bool, ...] | None, None)
    record.check(known is None or len(known) == n, "known")
    missing_code = record.read("missing_code", int | None, None)
    record.check(missing_code in (None, n - 1), "missing_code")
    return Column(
        record.read("name", Name),
        kind,
        atoms,
        np.ones(n, dtype=bool) if known is None else np.array(known, dtype=bool),
        levels and tuple(_read_level(level, record.named("levels")) for level in levels),
        edges,
        record.read("merged", bool, False),
        missing_code,
        record.number("spread") if record.has("spread") else None,
        record.read("ordered", bool, False),
        record.read("free", bool, False),
    )


def _read_least(record: Fields, release: ColumnRelease) -> Least:
    """Return the scale and grid that the certificate covers, where there is more noise."""
    least = record.inner("certified")
    if least is None:
        return scale_of(release), release.grid
    return least.number("scale"), least.number("grid")


def _read_margins(
    record: Fields, columns: Sequence[Fields], releases: Sequence[ColumnRelease], total: int
) -> list[Margin]:
    """Return the distribution of the values of each column, or nothing where it is not written."""
    margins = [
        _read_margin(margin, release.column, total)
        for column, release in zip(columns, releases, strict=True)
        if (margin := column.inner("margin")) is not None
    ]
    record.check(len(margins) in (0, len(releases)), "columns[].margin")
    return margins


def _read_margin(record: Fields, column: Column, total: int) -> Margin:
    parts, present = record.whole("parts"), record.read("present", int | None, None)
    present = total if present is None else present
    record.check(0 <= present <= total, "present")
    record.check(len(parts) == n_cells(column) and bool((parts >= 0).all()), "parts")
    record.check(sum(parts.tolist()) == (PARTS if present else 0), "parts")
    record.check(record.has("place") == column.free, "place")
    location = None
    if column.free:
        low, factor = record.read("place", tuple[Number, Number])
        location = number(low, record.named("place")), number(factor, record.named("place"))
    return margin_over(column, parts, present, total, location)


# ------------------------------------------------------------------------------- the certificate


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


def certificate_from_dict(record: Mapping[str, Any], *, awaited: bool = False) -> Certificate:
    """Return the certificate that ``to_dict`` wrote, without priors.

    Parameters
    ----------
    record : dict
    awaited : bool, default=False
        Whether the loss over a set of priors was still to be computed.

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
    if "channel" in record:
        raise RetiredError(gone("noise='optimal'"))
    hints = get_type_hints(Certificate)
    reader = Fields(record)
    facts = {
        # what later versions added has a default
        entry.name: reader.read(entry.name, hints[entry.name], *_default_of(entry))
        for entry in fields(Certificate)
        if entry.name not in _APART
    }
    around: Any = reader.read("over_set", SetLoss | None)
    if awaited and around is None:
        around = Elsewhere()
    rule = reader.read("rule", dict | None)
    return Certificate(**facts, around=around, rule=None if rule is None else rule_from_dict(rule))


def _default_of(field: Any) -> list[Any]:
    return [] if field.default is MISSING else [field.default]
