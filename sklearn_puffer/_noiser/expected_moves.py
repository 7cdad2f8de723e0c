"""What becomes of the values of one column, in expectation: from the law, without a draw.

Each row is in a state (its atom, or its cell of a channel), and each state has a law of what is
released. Both are summed up over groups: values, or stretches of numbers. A picture of a fresh draw
would be another release of the same rows; this is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import coo_array

from sklearn_puffer._base import Array, FloatArray, counted, listed, quoted
from sklearn_puffer._noise import WHOLE, kept_numerator, to_steps
from sklearn_puffer._noiser.channel_release import ChannelRelease, as_matrix
from sklearn_puffer._noiser.read_table import next_table
from sklearn_puffer._noiser.release import ColumnRelease, scale_of
from sklearn_puffer._noiser.remapping import Drawn
from sklearn_puffer._tables import (
    Column,
    Name,
    Placed,
    Table,
    Values,
    frame_table,
    is_frame,
    known,
    placed_in,
)

_AT_ONCE = 1 << 20  # chances that are held at a time
_TAIL = 0.01  # of the noise beyond either end of the axis


@dataclass(frozen=True, eq=False)
class ColumnMoves:
    """How often values of a group are released in each group.

    Attributes
    ----------
    name : str or int
    groups : Groups
    joint : ndarray of shape (n, m)
        Shares of the rows that have a value: [i, j] of those in group i that are released in j; of
        stretches the first and last of n + 2 columns lie beyond them.
    left_out : float
        The share of all rows that are missing or hold what `fit` has not seen.
    """

    name: Name
    groups: Groups
    joint: FloatArray
    left_out: float


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of values of one column: single values, or stretches of numbers.

    Attributes
    ----------
    labels : list or None
        Of codes; None stands for missing.
    edges : ndarray of shape (n + 1,) or None
        Of stretches, ascending.
    """

    labels: list[Any] | None = None
    edges: FloatArray | None = None

    @cached_property
    def size(self) -> int:
        """How many groups raw values have."""
        return len(self.labels or ()) if self.edges is None else len(self.edges) - 1

    @property
    def n_released(self) -> int:
        """How many groups released values have."""
        return self.size if self.edges is None else self.size + 2

    def before(self, values: FloatArray) -> Array:
        """Return the groups of raw values or codes."""
        first = 0 if self.edges is None else 1
        groups: Array = np.clip(self.after(values) - first, 0, self.size - 1)
        return groups

    def after(self, values: FloatArray) -> Array:
        """Return the groups of released values or codes."""
        if self.edges is None:
            return np.clip(values, 0, self.size - 1).astype(np.intp)
        found: Array = np.searchsorted(self.edges, values, side="right")
        return found

    @property
    def cuts(self) -> FloatArray:
        """Between which a released number is in one group."""
        return np.arange(0.5, self.size - 1.0) if self.edges is None else self.edges


def column_moves(noiser: Any, table: Any, name: Any, n_bins: int) -> ColumnMoves:
    """Return what becomes of the values that a column has in a table; nothing is drawn."""
    if not hasattr(noiser, "_check_as_certified") or not hasattr(noiser, "transform_batches"):
        raise TypeError(
            f"noiser must be a fitted PufferfishNoiser, got {quoted(noiser)}; call fit first."
        )
    noiser._check_as_certified()
    if noiser._fitted.swap is not None:
        raise ValueError(
            "noiser is a swap, which exchanges whole rows: every column as a whole stays what it "
            "was, and its values have no law by which they move; look at SwapDisplay and utility_."
        )
    read = next_table(noiser, table)
    place, release = release_of(noiser, name)
    column, channel = release.column, noiser._fitted.channel
    placed = placed_in(column, read.values(column.name))
    there = ~(placed.gone | placed.strange)
    cells = placed.codes if channel is None else _cells(channel, read)
    there &= cells >= 0
    _check_some(column, there)
    raw = _raw(column, placed)[there]
    groups = groups_of(release, raw, channel is not None, n_bins)
    atoms = raw if column.free else column.atoms[placed.codes[there]]
    if channel is None:
        states, kept = np.unique(atoms, return_inverse=True)
        laws = _laws(release, states, groups)
    else:
        kept, laws = cells[there], _channel_laws(channel, place, groups)
    joint = _joint(groups.before(raw), kept, laws, groups.size)
    return ColumnMoves(column.name, groups, joint, 1.0 - float(there.mean()))


def released_shares(noiser: Any, moves: ColumnMoves, released: Any) -> FloatArray:
    """Return the shares of what was released, over the same groups."""
    if not is_frame(known(released, "released")):
        raise TypeError(
            f"released must be the DataFrame that transform returned, got "
            f"{type(released).__name__}; leave it out to see what is expected."
        )
    table = frame_table(known(released, "released"), "released")
    if moves.name not in table.names:
        raise ValueError(
            f"released lacks column {quoted(moves.name)}; it has {listed(list(table.names), 10)}."
        )
    _, release = release_of(noiser, moves.name)
    found = moves.groups.after(_released_values(release.column, table.values(moves.name), moves))
    shares: FloatArray = np.bincount(found, minlength=moves.groups.n_released) / max(len(found), 1)
    return shares


def _released_values(column: Column, values: Values, moves: ColumnMoves) -> FloatArray:
    if moves.groups.labels is not None and values.kind == column.kind:
        placed = placed_in(column, values)
        return column.atoms[placed.codes[~(placed.gone | placed.strange)]]
    if values.kind == "category":
        raise TypeError(
            f"column {quoted(moves.name)} of released holds names, and numbers are released; pass "
            "the table that transform returned."
        )
    data: FloatArray = values.data.astype(np.float64)
    there = np.isfinite(data)
    if values.missing is not None:
        there &= ~values.missing
    numbers: FloatArray = data[there]
    return numbers


def release_of(noiser: Any, name: Any) -> tuple[int, ColumnRelease]:
    """Return the release of a column, and its place; the name may be left out of a single one."""
    releases = noiser._fitted.columns
    names = [release.column.name for release in releases]
    if name is None and len(names) == 1:
        return 0, releases[0]
    if name is None or name not in names:
        raise ValueError(
            f"column must be one of {listed(names, 10)}, got {quoted(name)}; a display shows one "
            "released column."
        )
    return names.index(name), releases[names.index(name)]


def _check_some(column: Column, there: Array) -> None:
    if not there.any():
        raise ValueError(
            f"column {quoted(column.name)} has no value in these rows that fit has seen, so there "
            "is nothing to show; pass rows of the table that was fitted."
        )


def _raw(column: Column, placed: Placed) -> FloatArray:
    """Return numbers as they stand in the table, and codes of what has none."""
    if column.kind in ("float", "integer"):
        return placed.data.astype(float)
    return column.atoms[placed.codes]


def groups_of(release: ColumnRelease, raw: FloatArray, channel: bool, n_bins: int) -> Groups:
    """Return the values of a column as groups, or stretches of its numbers."""
    column = release.column
    if column.unordered or (column.kind == "category" and release.output != "noisy"):
        some = [False, True, None][: 2 + (column.missing_code is not None)]
        return Groups(labels=list(column.levels) if column.levels is not None else some)
    pad = 0.0 if channel else _pad(release)
    low, high = float(raw.min()), float(raw.max())
    if release.remapping is not None or channel:
        low, high = min(low, float(column.atoms.min())), max(high, float(column.atoms.max()))
    pad = min(pad, high - low) if high > low else pad
    return Groups(edges=_edges(low - pad, high + pad, column.whole, n_bins))


def _pad(release: ColumnRelease) -> float:
    """Return how far noise carries values, but for a small share of them."""
    if release.noise is None or release.remapping is not None:
        return 0.0
    far = scale_of(release)
    while float(release.noise.mass(far, math.inf)) > _TAIL:
        far *= 1.25
    return far


def _edges(low: float, high: float, whole: bool, n_bins: int) -> FloatArray:
    if whole:
        first, last = math.floor(low), math.ceil(high)
        width = max(1, math.ceil((last - first + 1) / n_bins))
        n = math.ceil((last - first + 1) / width)
        edges: FloatArray = first - 0.5 + width * np.arange(n + 1.0)
        return edges
    if low == high:
        return np.array([low - 0.5, low + 0.5])
    edges = np.linspace(low, high, n_bins + 1)
    edges[-1] = np.nextafter(high, np.inf)
    return edges


def _joint(before: Array, states: Array, laws: Any, size: int) -> FloatArray:
    """Return the shares of rows by group and by what they become."""
    ones = np.full(len(before), 1.0 / len(before))
    rows = coo_array((ones, (before, states)), shape=(size, laws.shape[0])).tocsr()
    joint = rows @ laws
    dense: FloatArray = joint if isinstance(joint, np.ndarray) else joint.toarray()
    return dense


def _laws(release: ColumnRelease, atoms: FloatArray, groups: Groups) -> FloatArray:
    """Return the law of the group that each atom is released in."""
    if release.mixing is not None:
        return _mixed(release, atoms, groups)
    length = max(1, _AT_ONCE // _width(release, groups))
    starts = counted(range(0, len(atoms), length), "parts of the values followed")
    return np.concatenate([_noisy(release, atoms[at : at + length], groups) for at in starts])


def _width(release: ColumnRelease, groups: Groups) -> int:
    return groups.n_released if release.remapping is None else len(release.remapping.codes)


def _noisy(release: ColumnRelease, atoms: FloatArray, groups: Groups) -> FloatArray:
    if release.noise is None:
        return _at(groups.after(atoms), groups.n_released)
    drawn = Drawn(release.noise, release.grid, release.whole)
    places = to_steps(atoms, release.grid)[:, None]
    if release.remapping is None:
        # x + g K lies below a cut where K is smaller than the first whole number at or beyond it
        steps = np.ceil(groups.cuts / release.grid - places)
        return _between(drawn, steps)
    chances = _between(drawn, (release.remapping.starts - places).astype(float))
    ends = groups.after(release.column.atoms[release.remapping.codes])
    return chances @ _at(ends, groups.n_released)


def _between(drawn: Drawn, steps: FloatArray) -> FloatArray:
    """Return the chances of the stretches between ascending steps."""
    ends = np.pad(steps, ((0, 0), (1, 1)), constant_values=np.inf)
    ends[:, 0] = -np.inf
    chances: FloatArray = drawn.chance(ends[:, :-1], ends[:, 1:])
    return chances


def _mixed(release: ColumnRelease, atoms: FloatArray, groups: Groups) -> FloatArray:
    """Return the law of values that stay or are drawn anew."""
    assert release.mixing is not None
    alphabet = np.array(release.mixing.values)
    kept = kept_numerator(scale_of(release)) / WHOLE
    laws = np.tile((1.0 - kept) * release.mixing.probabilities, (len(atoms), 1))
    laws[np.arange(len(atoms)), release.mixing.places(atoms)] += kept
    if release.remapping is not None:
        alphabet = release.column.atoms[release.remapping.codes]
    return laws @ _at(groups.after(alphabet), groups.n_released)


def _at(places: Array, size: int) -> FloatArray:
    """Return rows that are 1 at these places."""
    rows = np.zeros((len(places), size))
    rows[np.arange(len(places)), places] = 1.0
    return rows


def _cells(channel: ChannelRelease, table: Table) -> Array:
    """Return the cell of each row; -1 of rows that are none."""
    placed = [placed_in(each.column, table.values(each.column.name)) for each in channel.columns]
    found: Array = channel.cells.find(np.column_stack([each.codes for each in placed]))
    strange: Sequence[Array] = [each.gone | each.strange for each in placed]
    return np.where(np.any(strange, axis=0), -1, found)


def _channel_laws(channel: ChannelRelease, place: int, groups: Groups) -> Any:
    """Return the law of the group that each cell is released in."""
    atoms = channel.columns[place].column.atoms[channel.cells.codes[:, place]]
    ends, n = groups.after(atoms), len(channel.cells)
    onto = coo_array((np.ones(n), (np.arange(n), ends)), shape=(n, groups.n_released))
    return as_matrix(channel.rows) @ onto.tocsr()
