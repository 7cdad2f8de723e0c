"""The release artifact: what `transform` needs of a fit as plain values, without the table.

A mechanism writes and reads its own fields; names, rules, margins and certificate are those of all.
Default values are left out.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from sklearn_puffer._base import RetiredError, gone
from sklearn_puffer._certificates import NO_PRIOR
from sklearn_puffer._codes import Column
from sklearn_puffer._documents import (
    FieldError,
    Fields,
    Number,
    __version__,
    all_written,
    json_record,
    number,
    stated,
    written,
)
from sklearn_puffer._release.drift import PARTS, Drift, Margin, compared_rows, n_cells
from sklearn_puffer._release.mechanism import (
    FittedMechanism,
    Mechanism,
    TableRules,
    certificate_from_dict,
)
from sklearn_puffer._rows import RowGroups
from sklearn_puffer._tables import UNITS, Kind, Missing, Name
from sklearn_puffer._words import listed, plain, quoted

SCHEMA = "sklearn_puffer.release/3"


# 1 had no margins, and 2 no groups of rows
_READ = (SCHEMA, "sklearn_puffer.release/2", "sklearn_puffer.release/1")


KEY_MATERIAL = (
    "What rows are drawn from tells of those who were counted: keep this file where you keep the "
    "table."
)
MOST_CHARACTERS = 1 << 28
NONSENSE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What is raised in reading a text that is not what it should be."""


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


def plain_names(names: Sequence[Any]) -> Names:
    return tuple(plain(name) for name in names)


def written_level(level: Any, what: str) -> Any:
    if type(level) is float and math.isfinite(level):
        return {"float": level.hex()}
    if isinstance(level, str | int | None):
        return level
    raise ValueError(
        f"{what} has the value {quoted(level)} of type {type(level).__name__}, and a release "
        "artifact holds categories that are strings, finite numbers, booleans or missing; convert "
        "the column with astype(str), or save the estimator with joblib."
    )


def artifact_text(fitted: FittedMechanism, unknown: Any) -> str:
    """Return a fitted release, and its rule for values it has not seen, as JSON in one line."""
    rules, certificate, mechanism = fitted.rules, fitted.certificate, fitted.mechanism
    record = {
        # an artifact that is key material says so first
        "key_material": KEY_MATERIAL if mechanism.is_key_material else None,
        "schema": SCHEMA,
        "version": __version__,
        "mechanism": mechanism.kind or None,
        "fingerprint": certificate.fingerprint,
        "names": plain_names(rules.names),
        "named": rules.named,
        "sensitive": plain_names(rules.sensitive),
        "passed": plain_names(rules.passed),
        "order": plain_names(rules.order),
        "output": None,  # the place of what some mechanisms write
        "missing": rules.missing,
        "unknown": unknown,
        # the sets of columns that occurred together, in a fixed order
        "patterns": [
            (plain_names(group), sorted(map(plain_names, known), key=repr))
            for group, known in sorted(rules.patterns.items(), key=repr)
        ],
        "columns": None,
        "certificate": certificate.to_dict(),
    }
    if isinstance(unknown, Mapping):
        record["unknown"] = [
            (plain(name), written_level(plain(value), f"unknown[{name!r}]"))
            for name, value in unknown.items()
        ]
    record |= mechanism.to_record()
    record["groups"] = _written_groups(rules.groups)
    # the values of the fitted rows, in the records of columns
    for column, margin in zip(record["columns"] or [], rules.margins, strict=False):
        present = None if margin.present == margin.total else margin.present
        place = None if margin.place is None else tuple(map(written, margin.place))
        parts = margin.parts.tolist()
        column["margin"] = {"parts": parts} | stated({"present": present, "place": place})
    return signed_text({name: value for name, value in record.items() if value is not None})


def written_column(column: Column) -> dict[str, Any]:
    """Return the record of a column: its name, kind and values."""
    levels, what = column.levels, f"column {column.name!r}"
    return {
        "name": plain(column.name),
        "kind": column.kind,
        "atoms": all_written(column.atoms),
    } | stated(
        {
            "unit": column.unit,
            "levels": levels and [written_level(plain(level), what) for level in levels],
            "edges": None if column.edges is None else all_written(column.edges),
            "known": None if column.known.all() else column.known.tolist(),
            "merged": bool(column.merged),
            "missing_code": plain(column.missing_code),
            "spread": None if column.spread is None else written(column.spread),
            "ordered": bool(column.ordered),
            "free": bool(column.free),
        }
    )


def _written_groups(groups: RowGroups | None) -> dict[str, Any] | None:
    if groups is None:
        return None
    return {"column": groups.column, "most": groups.max_group, "within": groups.within_group}


def read_artifact(text: str) -> tuple[FittedMechanism, Any]:
    """Return the fitted release that was written, and its rule for values it has not seen.

    It does not compare its fingerprint with that of its certificate.
    """
    record = Fields(_whole_record(text))
    record.read("schema", str)
    record.read("version", str)
    record.read("key_material", str, "")
    name = record.read("mechanism", str, "")
    if name not in Mechanism.kinds:
        raise FieldError(
            f"field mechanism is {quoted(name)[:80]}, and this version knows "
            f"{listed(list(Mechanism.kinds))}"
        )
    kind = Mechanism.kinds[name]
    certificate = certificate_from_dict(record.read("certificate", dict), kind.certificate)
    record.read("awaited", bool, False)  # which was written until 0.3
    record.check(certificate.fingerprint == record.read("fingerprint", str), "fingerprint")
    columns = record.listed("columns") if record.has("columns") else []
    mechanism = kind.from_record(record, columns)
    public = mechanism.released_columns
    margins = [
        _read_margin(margin, column, certificate.n_rows)
        for fields, column in zip(columns, public, strict=True)
        if (margin := fields.inner("margin")) is not None
    ]
    record.check(len(margins) in (0, len(public)), "columns[].margin")
    groups = certificate.groups
    record.check(record.read("groups", dict | None, None) == _written_groups(groups), "groups")
    rules = _read_rules(record, {column.name for column in public}, margins, groups)
    record.check(groups is None or groups.column in rules.passed, "groups.column")
    if margins:
        known = FittedMargins(list(public), margins)
        other_priors = replace(certificate.other_priors, fitted=known)
        certificate = replace(certificate, other_priors=other_priors)
    unknown = record.read("unknown", str | tuple[tuple[Name, Level], ...])
    if not isinstance(unknown, str):
        unknown = {name: read_level(value, "unknown") for name, value in unknown}
    record.end()
    return FittedMechanism(rules, mechanism, certificate), unknown


def _whole_record(text: str) -> dict[str, Any]:
    """Return the record of a text, without its checksum."""
    if len(text) > MOST_CHARACTERS:
        raise FieldError(f"it has {len(text):,} characters, more than {MOST_CHARACTERS:,}")
    record = json_record(text)
    schema, version = record.get("schema"), record.get("version")
    if schema is None:
        raise FieldError("it is JSON of something else, without the field schema")
    if schema not in _READ:
        raise FieldError(
            f"field schema must be {SCHEMA!r}, got {quoted(schema)[:80]}, written by version "
            f"{quoted(version)[:40]} of the library, and this is version {__version__!r}"
        )
    if record.pop("checksum", None) != checksum(record):
        raise FieldError("it was changed or damaged: its checksum is another one")
    if record.get("output") == "remapped":
        raise RetiredError(gone("output='remapped'"))
    if "channel" in record:
        raise RetiredError(gone("noise='optimal'"))
    return record


def _read_rules(
    record: Fields, public: set[Name], margins: list[Margin], groups: RowGroups | None
) -> TableRules:
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
        groups=groups,
    )
    released = public | set(rules.passed)
    record.check(len(rules.order) == len(released) and set(rules.order) == released, "order")
    record.check(released <= set(rules.names), "names")
    return rules


def read_level(level: Level, field: str) -> Any:
    return number(level.float, field) if isinstance(level, FloatLevel) else level


def read_column(record: Fields) -> Column:
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
    unit = record.read("unit", str | None, None)
    record.check(unit is None or (unit in UNITS and kind == "integer"), "unit")
    column = Column(
        record.read("name", Name),
        kind,
        atoms,
        np.ones(n, dtype=bool) if known is None else np.array(known, dtype=bool),
        levels and tuple(read_level(level, record.named("levels")) for level in levels),
        edges,
        record.read("merged", bool, False),
        missing_code,
        record.number("spread") if record.has("spread") else None,
        record.read("ordered", bool, False),
        record.read("free", bool, False),
    )
    return column.of_times(unit)


@dataclass(frozen=True, eq=False)
class FittedMargins:
    """The margins of the fitted rows, in the certificate of a release artifact."""

    columns: Sequence[Column]
    margins: Sequence[Margin]

    def compared(self, table: Any) -> Drift:
        """Return how other rows compare with those of `fit`."""
        return compared_rows(self, table)

    def against(self, prior: Any) -> NoReturn:
        """Refuse, with the sentence of a certificate without its noiser."""
        raise ValueError(NO_PRIOR)


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
    return Margin.over(column, parts, present, total, location)
