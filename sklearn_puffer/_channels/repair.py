"""A channel that a solver found, mended unit by unit until it keeps its limits."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sklearn_puffer._base import BoolArray, FloatArray, IntArray
from sklearn_puffer._channels.columns import factors
from sklearn_puffer._channels.excesses import Limits, allowed, broken
from sklearn_puffer._channels.mixing import floor_factor, mixed
from sklearn_puffer._channels.problem import ChannelProblem
from sklearn_puffer._channels.shares import Shares
from sklearn_puffer._channels.unit_limits import UnitLimits, within
from sklearn_puffer._noise import WHOLE

_CANDIDATES = 32
_MOST_MIXED = 0.5
_SPARE = 1.0 + 1e-6  # for roundings of the part that is mixed in


def repaired(
    problem: ChannelProblem,
    limits: Limits,
    entries: Shares,
    units: IntArray,
    share: float,
    lowered: float,
) -> Shares:
    """Return rows that keep their limits.

    ``share`` of delta is used, and each share may be lowered by ``lowered`` parts of 2^62 for
    rounding.
    """
    kept = allowed(limits, entries, lowered, share)
    bad = broken(limits, entries, lowered, kept)
    wrong = np.unique(units[bad | uneven(problem, entries, units, lowered)])
    parts, sinks = [entries.of(~np.isin(units, wrong))], np.arange(units.size)
    for cells, part in _by_unit(units, entries, wrong):
        unit = within(limits, kept, cells)
        if problem.floor is None:
            sinks[cells] = sink_of(problem, cells)
            parts.append(_by_column(unit, cells, part, bad, sinks[cells[0]], lowered))
        else:
            mended, sinks[cells] = _by_mixing(problem.floor, unit, cells, part, lowered)
            parts.append(mended)
    return Shares.joined(parts, units.size).completed(sinks)


def constant(problem: ChannelProblem, entries: Shares, units: IntArray, which: BoolArray) -> Shares:
    """Return rows of which those of some cells are constant: all of a unit become one cell."""
    sinks = np.arange(units.size)
    wrong = np.unique(units[which])
    for cells, _ in _by_unit(units, entries, wrong):
        sinks[cells] = sink_of(problem, cells)
    return entries.of(~np.isin(units, wrong)).completed(sinks)


def _by_unit(
    units: IntArray, entries: Shares, numbers: IntArray
) -> Iterator[tuple[IntArray, Shares]]:
    """Yield the cells and the entries of some units."""
    for cells, places in zip(
        _members(units, numbers), _members(units[entries.cells], numbers), strict=True
    ):
        yield cells, Shares(*(array[places] for array in entries))


def _members(labels: IntArray, numbers: IntArray) -> Iterator[IntArray]:
    """Yield where each of some labels is, in order."""
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], numbers)
    ends = np.searchsorted(labels[order], numbers, side="right")
    return (order[start:end] for start, end in zip(starts, ends, strict=True))


def sink_of(problem: ChannelProblem, cells: IntArray) -> int:
    """Return to which cell others move at little cost, among the likeliest ones."""
    weights = problem.weights[cells]
    likely = cells[np.argsort(-weights, kind="stable")[:_CANDIDATES]]
    return int(likely[np.argmin(weights @ problem.costs.between(cells, likely))])


def uneven(
    problem: ChannelProblem, entries: Shares, units: IntArray, lowered: float = 0.0
) -> BoolArray:
    """Return which outputs tell more than the floor about the cell of a unit that they are from."""
    if problem.floor is None:
        return np.zeros(units.size, dtype=bool)
    count = np.bincount(entries.targets, minlength=units.size)
    least, most = np.full(units.size, float(WHOLE)), np.zeros(units.size)
    np.minimum.at(least, entries.targets, entries.shares)
    np.maximum.at(most, entries.targets, entries.shares)
    missing = count < np.bincount(units)[units]
    apart = most > floor_factor(problem.floor) * (least - lowered)
    return (count > 0) & (missing | apart)


def _by_column(
    unit: UnitLimits, cells: IntArray, part: Shares, bad: BoolArray, sink: int, lowered: float
) -> Shares:
    """Return smaller entries of which every output keeps its limits, that of the sink when full."""
    places, shares = np.searchsorted(cells, part.cells), part.shares.astype(float)
    order = np.argsort(part.targets, kind="stable")
    for column in np.split(order, np.diff(part.targets[order]).nonzero()[0] + 1):
        if bad[part.targets[column[0]]]:
            shares[column] *= factors(unit, places[column], shares[column], lowered)
    slack = unit.slack(_column(cells, part, sink), lowered)
    part = part.lowered(shares)
    own_part = 1.0 - _for_sink(unit, cells, part, sink, slack, lowered)
    return part.lowered(part.shares.astype(float) * own_part)


def _column(cells: IntArray, part: Shares, output: int) -> FloatArray:
    """Return the shares of one output."""
    here = part.targets == output
    column = np.zeros(cells.size)
    column[np.searchsorted(cells, part.cells[here])] = part.shares[here]
    return column


def _for_sink(
    unit: UnitLimits, cells: IntArray, part: Shares, sink: int, slack: FloatArray, lowered: float
) -> float:
    """Return how much of each row the sink must have besides what is missing there."""
    missing = part.missing(unit.limits.laws.shape[1])[cells].astype(float)
    if not missing.any():
        return 0.0
    longest = float(np.bincount(part.cells).max(initial=0))
    above = unit.excess(missing + _column(cells, part, sink), lowered) - slack
    above += unit.sides(np.full(cells.size, lowered * longest))[0]
    needed = float(unit.mended_by(above, unit.gain).max(initial=0.0))
    mixed_in = _SPARE * needed / (1.0 + needed) if needed < math.inf else 1.0
    return mixed_in if mixed_in < _MOST_MIXED else 1.0


def _by_mixing(
    floor: float, unit: UnitLimits, cells: IntArray, part: Shares, lowered: float
) -> tuple[Shares, int]:
    """Return entries that keep limits and floor, and the output that gets what is missing."""
    outputs, numbers = np.unique(part.targets, return_inverse=True)
    shares: FloatArray = np.zeros((cells.size, outputs.size))
    shares[np.searchsorted(cells, part.cells), numbers] = part.shares
    sink = int(shares.min(axis=0).argmax())
    whole = np.floor(mixed(unit, floor, shares, sink, lowered)).astype(np.int64)
    places, numbers = whole.nonzero()
    return Shares(cells[places], outputs[numbers], whole[places, numbers]), int(outputs[sink])
