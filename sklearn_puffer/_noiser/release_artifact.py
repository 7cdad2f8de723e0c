"""The release artifact: what `transform` needs of a fitted noiser as plain values, without priors.

Floats are written in hexadecimal, so that they come back as they were; whole ones as whole numbers.
What is as by default is left out.
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
    Array,
    FieldError,
    FloatArray,
    IntArray,
    __version__,
    json_record,
    plain,
    quoted,
    read_as,
)
from sklearn_puffer._noise import IntegerRows, MixedNoise, Mixing, Noise, without_mixings
from sklearn_puffer._noiser.channel_release import CellDistance, ChannelRelease, DistinctRows
from sklearn_puffer._noiser.checked_rows import FittedMargins
from sklearn_puffer._noiser.drift import PARTS, Margin, margin_over, n_cells
from sklearn_puffer._noiser.mechanism import FittedMechanism, Least, NoiseOfColumns
from sklearn_puffer._noiser.release import ColumnRelease, Patterns, TableRules, scale_of
from sklearn_puffer._noiser.remapping import Remapping
from sklearn_puffer._noiser.settings import Output, RowGroups
from sklearn_puffer._releases import (
    KEY_MATERIAL,
    READ_SCHEMAS,
    Certificate,
    ChannelCertificate,
    ChannelLoss,
    SetLoss,
    rule_from_dict,
)
from sklearn_puffer._tables import Column, Kind, Missing, Name
from sklearn_puffer.noise import family_of, written_family

SCHEMA = "sklearn_puffer.release/3"
# the first one had no margins, the second one no groups of rows
_READ = (SCHEMA, "sklearn_puffer.release/2", "sklearn_puffer.release/1")
MOST_CHARACTERS = 1 << 28
_LARGEST_WHOLE = 2**53
_NO_SHARES = np.zeros(0)
_PLAIN = (type(None), bool, int, str)

Number = int | str


@dataclass(frozen=True)
class FloatLevel:
    """A category that is a float, or what unseen ones become."""

    float: str


Level = None | bool | int | str | FloatLevel
Names = tuple[Name, ...]


# ---------------------------------------------------------------------------------------- writing


def artifact_text(fitted: FittedMechanism, unknown: Any) -> str:
    """Return a fitted release, and what is done with values it has not seen, as JSON in one line.

    Raises
    ------
    ValueError
        If it has what no artifact holds: a family, cost or category of the user's own.
    """
    rules, certificate, releases = fitted.rules, fitted.certificate, fitted.columns
    awaited = certificate.around is not None and certificate.known_over_set is None
    groups = None if rules.groups is None else vars(rules.groups)
    channel = None if fitted.channel is None else _written_channel(fitted.channel)
    # what is key material says so first
    return signed_text(
        _stated({"key_material": None if channel is None else KEY_MATERIAL})
        | {
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
                "awaited": awaited,
                "noise": _written_family(releases),
                "channel": channel,
                "groups": groups,
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
    """Return a record without what is not there, or not so."""
    return {
        name: value for name, value in record.items() if value is not None and value is not False
    }


def _names(names: Sequence[Any]) -> Names:
    return tuple(plain(name) for name in names)


def _written_patterns(patterns: Patterns) -> list[Any]:
    """Return which columns occurred together, in an order that is always the same."""
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
    own = without_mixings(noises[0])
    if (found := written_family(own)) is None:
        raise ValueError(
            f"noise={own.name} is a family of your own, which a form does not hold, for "
            "whoever reads it may lack it; use one of sklearn_puffer.noise, or save the "
            "noiser with joblib."
        )
    name, parameters = found
    return {"family": name} | {key: written(value) for key, value in parameters.items()}


def _written_columns(fitted: FittedMechanism) -> list[dict[str, Any]]:
    """Return the columns, with the noise that is certified and the values of the fitted rows."""
    records = [_written_release(release) for release in fitted.columns]
    if fitted.noise is not None:
        for record, release, least in zip(records, fitted.columns, fitted.noise.least, strict=True):
            scale, grid, remapping = least
            if (scale, grid) != (scale_of(release), release.grid):
                of_map = _stated({"remapping": _written_map(remapping)})
                record["certified"] = {"scale": float(scale).hex(), "grid": written(grid)} | of_map
    for record, margin in zip(records, fitted.rules.margins, strict=False):
        present = None if margin.present == margin.total else margin.present
        place = None if margin.place is None else tuple(map(written, margin.place))
        parts = margin.parts.tolist()
        record["margin"] = {"parts": parts} | _stated({"present": present, "place": place})
    return records


def _written_release(release: ColumnRelease) -> dict[str, Any]:
    column, mixing = release.column, release.mixing
    what = f"column {column.name!r}"
    levels = column.levels
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
            "remapping": _written_map(release.remapping),
        }
    )


def _written_map(remapping: Remapping | None) -> dict[str, Any] | None:
    if remapping is None:
        return None
    return {"starts": remapping.starts.tolist(), "codes": remapping.codes.tolist()}


def _written_level(level: Any, what: str) -> Any:
    if type(level) is float:
        return {"float": level.hex()}
    if type(level) in _PLAIN:
        return level
    raise ValueError(
        f"{what} has the value {quoted(level)} of type {type(level).__name__}, and a form holds "
        "categories that are strings, numbers, booleans or missing; convert the column with "
        "astype(str), or save the noiser with joblib."
    )


def _written_channel(channel: ChannelRelease) -> dict[str, Any]:
    """Return the cells, their rows in shares of 2^62, and what moves to the cells cost."""
    if channel.distance.cost is not None:
        raise ValueError(
            f"cost={quoted(channel.distance.cost)} is code of your own, which a form does not "
            "hold; leave cost out for distances in units of change, or save the noiser with joblib."
        )
    return {
        "cells": channel.cells.codes.tolist(),
        "lengths": np.diff(channel.rows.starts).tolist(),
        "targets": channel.rows.targets.tolist(),
        "shares": channel.rows.shares.tolist(),
        "units": all_written(channel.distance.units),
        "stay": [],
    }


def written(value: float) -> Number:
    """Return a number as it is written.

    >>> written(3.0), written(0.5)
    (3, '0x1.0000000000000p-1')
    """
    own = float(value)
    whole = own.is_integer() and abs(own) <= _LARGEST_WHOLE and math.copysign(1.0, own) == 1.0
    negative = own.is_integer() and -_LARGEST_WHOLE <= own < 0.0
    return int(own) if whole or negative else own.hex()


def all_written(values: FloatArray) -> list[Number]:
    """Return numbers as they are written."""
    return [*map(written, values.tolist())]


# ---------------------------------------------------------------------------------------- reading


class Fields:
    """The fields of a JSON object: each is read strictly as a type, and none may be left."""

    def __init__(self, value: Any, field: str = "") -> None:
        self._left: dict[str, Any] = dict(read_as(dict, value, field))
        self._field, self._inner = field, list[Fields]()

    def named(self, name: str) -> str:
        """Return what an error calls a field."""
        return f"{self._field}.{name}" if self._field else name

    def read(self, name: str, kind: Any, *default: Any) -> Any:
        """Return a field as one of a type, or the default where it is not there."""
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
        """Return the fields of an object in it, where there is one."""
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
        """Refuse what nobody has read."""
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
        found = float.fromhex(value) if isinstance(value, str) else float(value)
    except (ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise FieldError(f"field {field} must be a finite number, got {quoted(value)[:60]}")
    return found


def read_artifact(text: str) -> tuple[FittedMechanism, Any]:
    """Return the fitted release that was written, and what is done with values it has not seen.

    Whether it is the one that its certificate is about, its fingerprint tells.

    Raises
    ------
    FieldError
        If a text is no artifact, was changed or damaged, or a field does not fit the others.
    """
    own = Fields(_whole_record(text))
    for name in ("schema", "version"):
        own.read(name, str)
    own.read("key_material", str, "")
    certificate = certificate_from_dict(
        own.read("certificate", dict), awaited=own.read("awaited", bool, False)
    )
    own.check(certificate.fingerprint == own.read("fingerprint", str), "fingerprint")
    columns, family, output = own.listed("columns"), own.inner("noise"), own.read("output", Output)
    noise = None if family is None else _read_family(family)
    releases = [_read_release(column, noise, output) for column in columns]
    least = [_read_least(*pair) for pair in zip(columns, releases, strict=True)]
    margins = _read_margins(own, columns, releases, certificate.n_rows)
    rules = _read_rules(own, {release.column.name for release in releases}, margins)
    told = None if rules.groups is None else rules.groups.for_certificate()
    own.check(told == certificate.groups, "groups")
    own.check(told is None or told.column in rules.passed, "groups.column")
    if margins:
        known = FittedMargins([release.column for release in releases], margins)
        certificate = replace(certificate, fitted=known)
    cells, unknown = own.inner("channel"), _read_unknown(own)
    channel = None if cells is None else _read_channel(cells, releases)
    own.end()
    return FittedMechanism(rules, channel or NoiseOfColumns(releases, least), certificate), unknown


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
    return record


def _read_rules(own: Fields, public: set[Name], margins: list[Margin]) -> TableRules:
    patterns = own.read("patterns", tuple[tuple[Names, tuple[Names, ...]], ...])
    rules = TableRules(
        names=own.read("names", Names),
        named=own.read("named", bool),
        sensitive=list(own.read("sensitive", Names)),
        passed=list(own.read("passed", Names)),
        order=list(own.read("order", Names)),
        missing=own.read("missing", Missing),
        patterns={group: set(known) for group, known in patterns},
        margins=margins,
        groups=own.read("groups", RowGroups | None, None),
    )
    released = public | set(rules.passed)
    own.check(len(rules.order) == len(released) and set(rules.order) == released, "order")
    own.check(released <= set(rules.names), "names")
    return rules


def _read_unknown(own: Fields) -> Any:
    unknown = own.read("unknown", str | tuple[tuple[Name, Level], ...])
    if isinstance(unknown, str):
        return unknown
    return {name: _read_level(value, "unknown") for name, value in unknown}


def _read_level(level: Level, field: str) -> Any:
    return number(level.float, field) if isinstance(level, FloatLevel) else level


def _read_family(own: Fields) -> Noise:
    parameters = {"k": own.number("k")} if own.has("k") else {}
    return family_of(own.read("family", str), parameters)


def _read_release(own: Fields, family: Noise | None, output: Output) -> ColumnRelease:
    column, noise = _read_column(own), None
    grid = own.number("grid") if own.has("grid") else 0.0
    mixed = own.has("shares")
    if own.has("scale"):
        if family is None:
            raise FieldError("field noise is missing")
        noise = family.with_scale(own.number("scale"))
        own.check(grid > 0.0 or mixed, "grid")
        own.check(mixed or not column.unordered, "shares")
    if mixed and noise is not None:
        values, shares = own.numbers("drawn"), own.read("shares", tuple[int, ...])
        own.check(len(values) == len(shares) == len(column.atoms), "drawn")
        noise = MixedNoise(noise, (Mixing(tuple(values.tolist()), shares),))
    return ColumnRelease(column, noise, grid, output, _read_map(own.inner("remapping"), column))


def _read_column(own: Fields) -> Column:
    kind, atoms = own.read("kind", Kind), own.numbers("atoms")
    n = len(atoms)
    own.check(n > 0 and bool((np.diff(atoms) > 0.0).all()), "atoms")
    levels = own.read("levels", tuple[Level, ...] | None, None)
    own.check((levels is None) == (kind != "category"), "levels")
    own.check(levels is None or len(levels) == n, "levels")
    edges = own.numbers("edges") if own.has("edges") else None
    own.check(edges is None or len(edges) == n - 1, "edges")
    known = own.read("known", tuple[bool, ...] | None, None)
    own.check(known is None or len(known) == n, "known")
    missing_code = own.read("missing_code", int | None, None)
    own.check(missing_code in (None, n - 1), "missing_code")
    return Column(
        own.read("name", Name),
        kind,
        atoms,
        np.ones(n, dtype=bool) if known is None else np.array(known, dtype=bool),
        levels and tuple(_read_level(each, own.named("levels")) for each in levels),
        edges,
        own.read("merged", bool, False),
        missing_code,
        own.number("spread") if own.has("spread") else None,
        own.read("ordered", bool, False),
        own.read("free", bool, False),
    )


def _read_map(own: Fields | None, column: Column) -> Remapping | None:
    if own is None:
        return None
    starts, codes = own.whole("starts"), own.whole("codes").astype(np.intp)
    ascends = len(codes) == len(starts) + 1 and bool((np.diff(starts) > 0).all())
    own.check(ascends, "starts")
    own.check(codes.min() >= 0 and codes.max() < len(column.atoms), "codes")
    return Remapping(_NO_SHARES, starts, codes)


def _read_least(own: Fields, release: ColumnRelease) -> Least:
    """Return the scale, grid and map that the certificate is about, where there is more noise."""
    least = own.inner("certified")
    if least is None:
        return scale_of(release), release.grid, release.remapping
    remapping = _read_map(least.inner("remapping"), release.column)
    return least.number("scale"), least.number("grid"), remapping


def _read_margins(
    own: Fields, columns: Sequence[Fields], releases: Sequence[ColumnRelease], total: int
) -> list[Margin]:
    """Return how the values of each column were distributed, or nothing where that is not told."""
    given = [column.inner("margin") for column in columns]
    margins = [
        _read_margin(margin, release.column, total)
        for margin, release in zip(given, releases, strict=True)
        if margin is not None
    ]
    own.check(len(margins) in (0, len(releases)), "columns[].margin")
    return margins


def _read_margin(own: Fields, column: Column, total: int) -> Margin:
    parts, present = own.whole("parts"), own.read("present", int | None, None)
    present = total if present is None else present
    own.check(0 <= present <= total, "present")
    own.check(len(parts) == n_cells(column) and bool((parts >= 0).all()), "parts")
    own.check(sum(parts.tolist()) == (PARTS if present else 0), "parts")
    own.check(own.has("place") == column.free, "place")
    place = None
    if column.free:
        low, factor = own.read("place", tuple[Number, Number])
        place = number(low, own.named("place")), number(factor, own.named("place"))
    return margin_over(column, parts, present, total, place)


def _read_channel(own: Fields, releases: list[ColumnRelease]) -> ChannelRelease:
    """Return the channel without the distributions that it was found for."""
    columns = [release.column for release in releases]
    sizes = tuple(len(column.atoms) for column in columns)
    cells = DistinctRows(_read_codes(own, sizes), sizes)
    lengths, units = own.whole("lengths"), own.numbers("units")
    own.check(len(lengths) == len(cells) and bool((lengths > 0).all()), "lengths")
    starts = np.append(0, np.cumsum(lengths))
    rows = IntegerRows(starts, own.whole("targets"), own.whole("shares"))
    own.check(len(units) == len(columns) and bool((units > 0.0).all()), "units")
    own.check(not own.read("stay", tuple[int, ...]), "stay")
    unordered = np.array([column.unordered for column in columns])
    distance = CellDistance(cells.values(columns), unordered, units)
    return ChannelRelease(releases, cells, rows, distance)


def _read_codes(own: Fields, sizes: Sequence[int]) -> Array:
    cells = own.read("cells", tuple[tuple[int, ...], ...])
    own.check(bool(cells) and all(len(cell) == len(sizes) for cell in cells), "cells")
    own.check(len(set(cells)) == len(cells) and min(map(min, cells)) >= 0, "cells")
    codes = np.array(cells, dtype=np.intp)
    own.check(bool((codes < np.array(sizes)).all()), "cells")
    return codes


# ------------------------------------------------------------------------------- the certificate


_APART = {"rule", "around", "fitted"}


_GONE = {"lower_bound", "n_blocks", "stayed"}  # of the facts of a channel


@dataclass(frozen=True)
class Elsewhere:
    """A loss over a set of priors that the noiser computes, and this certificate has not."""

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
    """Return the certificate that ``to_dict`` wrote; it knows no other priors.

    Parameters
    ----------
    record : dict
    awaited : bool, default=False
        Whether the loss over a set of priors was still to be computed.

    Raises
    ------
    ValueError
        If the record is none of a certificate, naming the field.

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
    kind = ChannelCertificate if "channel" in record else Certificate
    if kind is ChannelCertificate:
        record = _of_channel(record)
    hints = get_type_hints(kind)
    if kind is ChannelCertificate:
        hints["pairs"] = tuple[ChannelLoss, ...]
    own = Fields(record)
    told = {
        # what later versions added has a default
        each.name: own.read(each.name, hints[each.name], *_default_of(each))
        for each in fields(kind)
        if each.name not in _APART
    }
    around: Any = own.read("over_set", SetLoss | None)
    if awaited and around is None:
        around = Elsewhere()
    rule = own.read("rule", dict | None)
    return kind(**told, around=around, rule=None if rule is None else rule_from_dict(rule))


def _of_channel(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record of a channel without what earlier versions wrote besides."""
    for name, what in (("over_set", "a confidence set"), ("models", "a classifier")):
        if record.get(name):
            raise FieldError(
                f"field {name} is about {what}, for which this version knows no channels; release "
                'with the version that wrote it, or fit again with noise="swap"'
            )
    facts = record["channel"]
    if not isinstance(facts, Mapping):
        return record
    if facts.get("known"):
        raise FieldError(
            "field channel.known names columns that may be known, and this version knows no such "
            'channels; release with the version that wrote it, or fit again with noise="swap"'
        )
    kept = [_staying(each) for each in facts.get("kept", ())]
    return {**record, "channel": {**_staying(facts), "kept": kept}}


def _staying(facts: Any) -> Any:
    """Return facts without what is gone; rows that stay in their bins are unchanged now."""
    if not isinstance(facts, Mapping):
        return facts
    name = "share" if "share" in facts else "unchanged"
    stayed = facts.get("stayed")
    own = facts if stayed is None else {**facts, name: stayed}
    return {k: v for k, v in own.items() if k not in _GONE}


def _default_of(field: Any) -> list[Any]:
    return [] if field.default is MISSING else [field.default]
