"""From a fitted noiser to its form, and back to what `transform` needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FieldError, IntArray, __version__, plain, quoted
from sklearn_puffer._noise import IntegerRows, MixedNoise, Mixing, Noise, without_mixings
from sklearn_puffer._noiser.channel_release import CellDistance, ChannelRelease, DistinctRows
from sklearn_puffer._noiser.checked_rows import KnownMargins
from sklearn_puffer._noiser.margins import PARTS, Margin, margin_over, n_cells
from sklearn_puffer._noiser.mechanism import FittedMechanism, Least, NoiseOfColumns
from sklearn_puffer._noiser.release import (
    ColumnRelease,
    Output,
    Patterns,
    TableRules,
    scale_of,
)
from sklearn_puffer._noiser.remapping import Remapping
from sklearn_puffer._noiser.written_release import (
    SCHEMA,
    ChannelForm,
    ColumnForm,
    FamilyForm,
    FloatLevel,
    LeastForm,
    Level,
    MapForm,
    MarginForm,
    ReleaseForm,
    all_written,
    number,
    numbers,
    written,
)
from sklearn_puffer._releases import KEY_MATERIAL, certificate_from_dict
from sklearn_puffer._tables import Column
from sklearn_puffer.noise import family_of, written_family

_NO_SHARES = np.zeros(0)
_PLAIN = (type(None), bool, int, str)


def form_of(fitted: FittedMechanism, unknown: Any) -> ReleaseForm:
    """Return the form of a fitted release, and of what is done with values it has not seen.

    Raises
    ------
    ValueError
        If it has what no form holds: a family, cost or category of the user's own.
    """
    rules, noise, channel = fitted.rules, fitted.noise, fitted.channel
    certificate, releases = fitted.certificate, fitted.columns
    margins: Sequence[Margin | None] = rules.margins or [None] * len(releases)
    least = [None] * len(releases) if noise is None else noise.least
    return ReleaseForm(
        schema=SCHEMA,
        version=__version__,
        key_material="" if channel is None else KEY_MATERIAL,
        fingerprint=certificate.fingerprint,
        names=_names(rules.names),
        named=rules.named,
        sensitive=_names(rules.sensitive),
        passed=_names(rules.passed),
        order=_names(rules.order),
        output=releases[0].output,
        missing=rules.missing,
        unknown=_rules(unknown),
        patterns=_patterns(rules.patterns),
        noise=_family(releases),
        columns=tuple(map(_column, releases, least, margins)),
        channel=None if channel is None else _channel(channel),
        certificate=certificate.to_dict(),
        awaited=certificate.around is not None and certificate.known_over_set is None,
        groups=rules.groups,
    )


def _names(names: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(plain(name) for name in names)


def _patterns(patterns: Patterns) -> tuple[Any, ...]:
    """Return which columns occurred together, in an order that is always the same."""
    return tuple(
        (_names(group), tuple(sorted(map(_names, known), key=repr)))
        for group, known in sorted(patterns.items(), key=repr)
    )


def _rules(unknown: Any) -> Any:
    if not isinstance(unknown, Mapping):
        return unknown
    return tuple(
        (plain(name), _level(plain(value), f"unknown[{name!r}]")) for name, value in unknown.items()
    )


def _family(releases: Sequence[ColumnRelease]) -> FamilyForm | None:
    for release in releases:
        if release.noise is not None:
            own = without_mixings(release.noise)
            if (found := written_family(own)) is None:
                raise ValueError(
                    f"noise={own.name} is a family of your own, which a form does not hold, for "
                    "whoever reads it may lack it; use one of sklearn_puffer.noise, or save the "
                    "noiser with joblib."
                )
            name, parameters = found
            return FamilyForm(name, **{key: written(value) for key, value in parameters.items()})
    return None


def _column(release: ColumnRelease, least: Least | None, margin: Margin | None) -> ColumnForm:
    column, mixing = release.column, release.mixing
    whole = column.known.all()
    scale = scale_of(release)
    return ColumnForm(
        name=plain(column.name),
        kind=column.kind,
        atoms=all_written(column.atoms),
        levels=None if column.levels is None else _levels(column),
        edges=None if column.edges is None else all_written(column.edges),
        known=None if whole else tuple(column.known.tolist()),
        merged=bool(column.merged),
        missing_code=plain(column.missing_code),
        spread=None if column.spread is None else written(column.spread),
        ordered=bool(column.ordered),
        free=bool(column.free),
        scale=None if release.noise is None else written(scale),
        grid=written(release.grid),
        drawn=None if mixing is None else all_written(np.array(mixing.values)),
        shares=None if mixing is None else mixing.shares,
        remapping=_map(release.remapping),
        certified=None if least is None else _least(release, least),
        margin=None if margin is None else _margin(margin),
    )


def _least(release: ColumnRelease, least: Least) -> LeastForm | None:
    scale, grid, remapping = least
    if (scale, grid) == (scale_of(release), release.grid):
        return None
    return LeastForm(float(scale).hex(), written(grid), _map(remapping))


def _margin(margin: Margin) -> MarginForm:
    return MarginForm(
        parts=tuple(margin.parts.tolist()),
        present=None if margin.present == margin.total else margin.present,
        place=None
        if margin.place is None
        else (written(margin.place[0]), written(margin.place[1])),
    )


def _map(remapping: Remapping | None) -> MapForm | None:
    if remapping is None:
        return None
    return MapForm(tuple(remapping.starts.tolist()), tuple(remapping.codes.tolist()))


def _levels(column: Column) -> tuple[Level, ...]:
    what = f"column {column.name!r}"
    return tuple(_level(plain(level), what) for level in column.levels or ())


def _level(level: Any, what: str) -> Level:
    if type(level) is float:
        return FloatLevel(level.hex())
    if type(level) in _PLAIN:
        kept: Level = level
        return kept
    raise ValueError(
        f"{what} has the value {quoted(level)} of type {type(level).__name__}, and a form holds "
        "categories that are strings, numbers, booleans or missing; convert the column with "
        "astype(str), or save the noiser with joblib."
    )


def _channel(channel: ChannelRelease) -> ChannelForm:
    if channel.distance.cost is not None:
        raise ValueError(
            f"cost={quoted(channel.distance.cost)} is code of your own, which a form does not "
            "hold; leave cost out for distances in units of change, or save the noiser with joblib."
        )
    rows = channel.rows
    return ChannelForm(
        cells=tuple(map(tuple, channel.cells.codes.tolist())),
        lengths=tuple(np.diff(rows.starts).tolist()),
        targets=tuple(rows.targets.tolist()),
        shares=tuple(rows.shares.tolist()),
        units=all_written(channel.distance.units),
        stay=(),
    )


# ------------------------------------------------------------------------------------------- back


def releases_of(form: ReleaseForm) -> list[ColumnRelease]:
    """Return how each column is released.

    Raises
    ------
    FieldError
        Naming the field that is not what it should be.
    """
    family = None
    if form.noise is not None:
        more = {key: number(k, "noise.k") for key, k in [("k", form.noise.k)] if k is not None}
        family = family_of(form.noise.family, more)
    return [
        _release(own, family, form.output, f"columns[{k}]") for k, own in enumerate(form.columns)
    ]


def _release(own: ColumnForm, family: Noise | None, output: Output, field: str) -> ColumnRelease:
    column = _read_column(own, field)
    grid, noise = number(own.grid, f"{field}.grid"), None
    if own.scale is not None:
        if family is None:
            raise FieldError("field noise is missing")
        noise = family.with_scale(number(own.scale, f"{field}.scale"))
        if own.shares is not None:
            values = numbers(own.drawn or (), f"{field}.drawn")
            _check(len(values) == len(own.shares) == len(column.atoms), f"{field}.drawn")
            noise = MixedNoise(noise, (Mixing(tuple(values.tolist()), own.shares),))
        elif column.unordered:
            raise FieldError(f"field {field}.shares is missing")
        _check(grid > 0.0 or own.shares is not None, f"{field}.grid")
    return ColumnRelease(column, noise, grid, output, _read_map(own.remapping, column, field))


def _read_column(own: ColumnForm, field: str) -> Column:
    atoms = numbers(own.atoms, f"{field}.atoms")
    n = len(atoms)
    _check(n > 0 and bool((np.diff(atoms) > 0.0).all()), f"{field}.atoms")
    edges = None if own.edges is None else numbers(own.edges, f"{field}.edges")
    _check(edges is None or len(edges) == n - 1, f"{field}.edges")
    _check((own.levels is None) == (own.kind != "category"), f"{field}.levels")
    _check(own.levels is None or len(own.levels) == n, f"{field}.levels")
    _check(own.known is None or len(own.known) == n, f"{field}.known")
    _check(own.missing_code in (None, n - 1), f"{field}.missing_code")
    return Column(
        own.name,
        own.kind,
        atoms,
        np.ones(n, dtype=bool) if own.known is None else np.array(own.known, dtype=bool),
        None if own.levels is None else tuple(_read_level(each, field) for each in own.levels),
        edges,
        own.merged,
        own.missing_code,
        None if own.spread is None else number(own.spread, f"{field}.spread"),
        own.ordered,
        own.free,
    )


def _read_level(level: Level, field: str) -> Any:
    if isinstance(level, FloatLevel):
        return number(level.float, f"{field}.levels")
    return level


def _read_map(own: MapForm | None, column: Column, field: str) -> Remapping | None:
    if own is None:
        return None
    starts, codes = _whole(own.starts, f"{field}.remapping.starts"), np.array(own.codes, np.intp)
    ascends = len(codes) == len(starts) + 1 and bool((np.diff(starts) > 0).all())
    within = 0 <= codes.min(initial=0) <= codes.max(initial=0) < len(column.atoms)
    _check(ascends and within, f"{field}.remapping")
    return Remapping(_NO_SHARES, starts, codes)


def least_of(form: ReleaseForm, releases: Sequence[ColumnRelease]) -> list[Least]:
    """Return the scale, grid and map of each column that the certificate is about."""
    found: list[Least] = []
    for k, (own, release) in enumerate(zip(form.columns, releases, strict=True)):
        field = f"columns[{k}].certified"
        if own.certified is None:
            found.append((scale_of(release), release.grid, release.remapping))
        else:
            least = own.certified
            remapping = _read_map(least.remapping, release.column, field)
            scale, grid = number(least.scale, field), number(least.grid, field)
            found.append((scale, grid, remapping))
    return found


def margins_of(form: ReleaseForm, releases: Sequence[ColumnRelease], total: int) -> list[Margin]:
    """Return how the values of each column were distributed, or nothing where that is not told."""
    own = [each.margin for each in form.columns]
    found = [
        _read_margin(margin, release.column, total, f"columns[{k}].margin")
        for k, (margin, release) in enumerate(zip(own, releases, strict=True))
        if margin is not None
    ]
    _check(len(found) in (0, len(releases)), "columns[].margin")
    return found


def _read_margin(own: MarginForm, column: Column, total: int, field: str) -> Margin:
    parts, present = _whole(own.parts, f"{field}.parts"), own.present
    present = total if present is None else present
    _check(0 <= present <= total, f"{field}.present")
    _check(len(parts) == n_cells(column) and bool((parts >= 0).all()), f"{field}.parts")
    _check(sum(own.parts) == (PARTS if present else 0), f"{field}.parts")
    _check((own.place is not None) == column.free, f"{field}.place")
    place = None
    if own.place is not None:
        place = number(own.place[0], f"{field}.place"), number(own.place[1], f"{field}.place")
    return margin_over(column, parts, present, total, place)


def channel_of(form: ReleaseForm, releases: list[ColumnRelease]) -> ChannelRelease | None:
    """Return the channel, if it is one: without the laws that it was found for."""
    if form.channel is None:
        return None
    own, columns = form.channel, [release.column for release in releases]
    sizes = tuple(len(column.atoms) for column in columns)
    cells = DistinctRows(_codes(own.cells, sizes), sizes)
    units = numbers(own.units, "channel.units")
    _check(len(units) == len(columns) and bool((units > 0.0).all()), "channel.units")
    _check(not own.stay, "channel.stay")
    unordered = np.array([column.unordered for column in columns])
    distance = CellDistance(cells.values(columns), unordered, units)
    return ChannelRelease(releases, cells, _rows(own), distance)


def _codes(cells: Sequence[Sequence[int]], sizes: Sequence[int]) -> Array:
    _check(bool(cells) and all(len(cell) == len(sizes) for cell in cells), "channel.cells")
    _check(min(map(min, cells)) >= 0, "channel.cells")
    codes = np.array(cells, dtype=np.intp)
    _check(bool((codes < np.array(sizes)).all()), "channel.cells")
    _check(len(np.unique(codes, axis=0)) == len(codes), "channel.cells")
    return codes


def _rows(own: ChannelForm) -> IntegerRows:
    lengths = _whole(own.lengths, "channel.lengths")
    _check(len(lengths) == len(own.cells) and bool((lengths > 0).all()), "channel.lengths")
    starts = np.append(0, np.cumsum(lengths))
    return IntegerRows(
        starts, _whole(own.targets, "channel.targets"), _whole(own.shares, "channel.shares")
    )


def _whole(values: Sequence[int], field: str) -> IntArray:
    _check(all(abs(value) < 2**63 for value in values), field)
    return np.array(values, dtype=np.int64)


def _check(right: bool, field: str) -> None:
    if not right:
        raise FieldError(f"field {field} does not fit the others")


def fitted_of(form: ReleaseForm) -> FittedMechanism:
    """Return the fitted release that a form is of.

    Raises
    ------
    FieldError
        Naming the field that is not what it should be.
    """
    releases = releases_of(form)
    channel = channel_of(form, releases)
    certificate = certificate_from_dict(form.certificate, awaited=form.awaited)
    _check(certificate.fingerprint == form.fingerprint, "fingerprint")
    released = {own.name for own in form.columns} | set(form.passed)
    _check(len(form.order) == len(released) and set(form.order) == released, "order")
    _check(released <= set(form.names), "names")
    told = None if form.groups is None else form.groups.told()
    _check(told == certificate.groups, "groups")
    _check(told is None or told.column in form.passed, "groups.column")
    margins = margins_of(form, releases, certificate.n_rows)
    if margins:
        known = KnownMargins([release.column for release in releases], margins)
        certificate = replace(certificate, fitted=known)
    noise = NoiseOfColumns(releases, least_of(form, releases))
    return FittedMechanism(_read_table_rules(form, margins), channel or noise, certificate)


def _read_table_rules(form: ReleaseForm, margins: list[Margin]) -> TableRules:
    return TableRules(
        names=form.names,
        named=form.named,
        sensitive=list(form.sensitive),
        passed=list(form.passed),
        order=list(form.order),
        missing=form.missing,
        patterns={group: set(known) for group, known in form.patterns},
        margins=margins,
        groups=form.groups,
    )


def unknown_of(form: ReleaseForm) -> Any:
    """Return what is done with values that `fit` has not seen."""
    if isinstance(form.unknown, str):
        return form.unknown
    return {name: _read_level(value, "unknown") for name, value in form.unknown}
