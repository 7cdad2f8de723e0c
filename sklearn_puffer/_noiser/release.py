"""Release a table: every value becomes its atom, plus noise on the column's grid.

Rows are released in blocks, so that scratch stays in the cache. The output is built beside the
input, and handed over when whole.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from joblib import Parallel, delayed

from sklearn_puffer._base import Array, IntArray, PufferfishWarning, counted, stopping, task
from sklearn_puffer._codes import LARGEST_SINGLE, Column, Reader, rule_of
from sklearn_puffer._documents import digest
from sklearn_puffer._noise import (
    MAX_STEPS,
    ByRow,
    Entropy,
    Mixing,
    Noise,
    NoiseSource,
    RowWords,
    sampler,
    to_indices,
)
from sklearn_puffer._noise import release as add_noise
from sklearn_puffer._release import Draw, KeyedRows, Moved, Patterns, Released, TableRules
from sklearn_puffer._rows import Output
from sklearn_puffer._tables import Faults, Finished, Name, Table, Values, check_finite, values_of
from sklearn_puffer._words import listed
from sklearn_puffer.notions import Notion

# The largest grid index of a value: sums of larger ones with heavy-tailed noise are saturated.
_FARTHEST = 2.0**61
_SINGLE_END = np.finfo(np.float32).max
_BLOCK = 1 << 16  # rows of a column at a time: fewer make more calls, more leave the cache
# Rows of one column in a row: the tables of its noise stay in the cache.
_STRETCH = 1 << 17
_GONE = np.int64(-(2**63))  # no index, no code, and the bits of no number but -0.0
Done = Callable[[int], None]  # called with the number of values released


@dataclass(frozen=True, eq=False)
class ColumnRelease:
    """How one public column is released.

    Attributes
    ----------
    column : Column
    noise : Noise or None
        Noise of one axis, a kernel for an unordered column, or None for a column that is released
        unchanged.
    grid : float
        Step of the grid that atoms and noise lie on; 0 without noise.
    output : {"native", "noisy"}
        Whether values keep their own type, in which whole numbers stay whole.
    unused : None
        Nothing; fingerprints of saved releases count it.
    """

    column: Column
    noise: Noise | None
    grid: float
    output: Output
    unused: None = None

    @property
    def whole(self) -> bool:
        """Whether the noisy values are whole numbers."""
        return self.column.whole and self.output == "native"

    def dtype(self, values: Values) -> np.dtype[Any]:
        """Return the type that is filled: that of the input wherever it can hold the release."""
        if self.output == "noisy":
            return np.dtype(np.float64)
        kind = self.column.kind
        if kind in ("boolean", "category"):
            return np.dtype(np.intp)
        if self.column.unit is not None:
            return np.dtype(np.int64)
        if kind == "integer" and values.kind == "integer":
            return values.data.dtype
        low, high = self.column.atoms[[0, -1]]
        held = max(-low, high) <= LARGEST_SINGLE  # so that noise hardly ever overflows
        small = kind == "float" and values.data.dtype == np.float32 and held
        return np.dtype(np.float32 if small else np.float64)

    @property
    def mixing(self) -> Mixing | None:
        """The distribution from which values of an unordered column are drawn anew."""
        return self.noise.mixings[0] if self.noise is not None and self.noise.mixings else None

    @property
    def last_code(self) -> int | None:
        """The largest code of a boolean or categorical column; codes are clipped to it."""
        if self.output == "noisy" or self.column.kind in ("float", "integer"):
            return None
        if self.column.levels is not None:
            return len(self.column.levels) - 1
        return 1 if self.column.missing_code is None else 2


def scale_of(release: ColumnRelease) -> float:
    """Return theta, 0 where nothing is added."""
    return 0.0 if release.noise is None else float(release.noise.axis_scales(1)[0])


def release_table(
    table: Table, releases: Sequence[ColumnRelease], rules: TableRules, draw: Draw
) -> Released:
    """Return the released table in the caller's own type, and how many values were moved.

    Raises
    ------
    TypeError, ValueError
        If the table does not fit, naming all columns that are at fault.
    """

    def opened(release: ColumnRelease) -> Reader:
        column = release.column
        rule = rule_of(draw.unknown, column.name, column.kind)
        return Reader(column, values_of(table, column), rule, rules.missing)

    def check(release: ColumnRelease) -> None:
        reader = opened(release)
        reader.check()
        if release.column.free:
            _check_numbers(reader.data(slice(None)), release)

    try:
        readers = [opened(release) for release in counted(releases, "columns read")]
        done = _released(table, readers, releases, rules, draw)
        if draw.watch is not None:
            draw.watch.add([r.column for r in readers], [r.values for r in readers])
        if draw.by is not None and not draw.repeatable and table.n_rows > _FEWEST:
            _warn_again(draw.by, readers, table.n_rows)
        return done
    except (TypeError, ValueError):
        faults = Faults()  # a table without fault is not read twice
        faults.of(check, releases)
        faults.refuse()
        raise


_AGAIN = (
    "these {:,} rows were released before, and another time is more than the certificate counts; "
    "pass row_id= and a key to release them alike each time, or fit with releases=."
)
# how often an object has released each table without a key: copies and files do not hold it
_before: WeakKeyDictionary[Any, Counter[str]] = WeakKeyDictionary()
_MOST_TABLES = 4096
_SAMPLE, _FEWEST = 1024, 20  # rows, and changes along them, that tell tables apart


def _warn_again(by: Any, readers: Sequence[Reader], n_rows: int) -> None:
    """Warn once where a table is released more often than is certified, by a sample of its rows."""
    rows = slice(None, None, max(n_rows // _SAMPLE, 1))
    sample = [np.ascontiguousarray(reader.data(rows)) for reader in readers]
    if sum(int(np.count_nonzero(np.diff(each))) for each in sample) < _FEWEST:
        return
    tables, certificate = _before.setdefault(by, Counter()), by.certificate_
    mark = digest(certificate.fingerprint, n_rows, *sample)
    if mark in tables or len(tables) < _MOST_TABLES:
        tables[mark] += 1
    if tables[mark] == certificate.releases + 1:
        warnings.warn(_AGAIN.format(n_rows), PufferfishWarning, stacklevel=7)


def _released(
    table: Table,
    readers: Sequence[Reader],
    releases: Sequence[ColumnRelease],
    rules: TableRules,
    draw: Draw,
) -> Released:
    _check_patterns({reader.column.name: reader for reader in readers}, rules.patterns)
    dtypes = {
        reader.column.name: release.dtype(reader.values)
        for release, reader in zip(releases, readers, strict=True)
    }
    outputs = table.empty_columns({name: dtypes[name] for name in rules.order if name in dtypes})
    workers = [
        _Worker(release, reader, outputs[release.column.name], draw.entropy(k))
        for k, (release, reader) in enumerate(zip(releases, readers, strict=True))
    ]
    with task("values released", len(workers) * table.n_rows) as done:
        if draw.keyed is None:
            _run(workers, table.n_rows, done, draw.n_jobs)
        else:
            _run_keyed(workers, table.n_rows, done, draw.keyed)
    done_with: dict[Name, Finished] = {
        name: Finished(table.original(name), passed=True) for name in rules.passed
    }
    for release, reader in zip(releases, readers, strict=True):
        gone = reader.values.missing if reader.propagates else None
        name = release.column.name
        done_with[name] = finished(release, outputs[name], gone)
    moved = Moved({r.column.name: r.moved for r in readers if r.moved}, table.n_rows)
    return table.build({name: done_with[name] for name in rules.order}), moved


def _check_patterns(readers: Mapping[Name, Reader], patterns: Patterns) -> None:
    """Refuse rows with patterns of missing values that fit has not seen: they have no prior."""
    for group, known in patterns.items():
        gone = [name for name in group if readers[name].propagates]
        masks = [np.asarray(readers[name].values.missing, dtype=bool) for name in gone]
        codes = sum(mask.astype(np.int64) << bit for bit, mask in enumerate(masks))
        for code in np.unique(codes).tolist():
            absent = [name for bit, name in enumerate(gone) if code >> bit & 1]
            present = tuple(name for name in group if name not in absent)
            if present and present not in known:
                lacking = f"that lack {listed(absent)}" if absent else "that lack none"
                raise ValueError(
                    f"no row of fit had the same values missing as rows {lacking} of columns "
                    f"{listed(group)}, so nothing is guaranteed for them; fill the missing values, "
                    "or fit on data that has such rows."
                )


def _run(workers: Sequence[_Worker], n_rows: int, done: Done, n_jobs: int | None) -> None:
    if n_jobs in (None, 1):
        _run_blocks(workers, n_rows, done)
    else:
        with stopping(done) as counting:
            Parallel(n_jobs=n_jobs, require="sharedmem")(  # it writes into the released table
                delayed(_run_blocks)([worker], n_rows, counting) for worker in workers
            )


def _run_blocks(workers: Sequence[_Worker], n_rows: int, done: Done) -> None:
    # columns of one array share cache lines, and are filled together
    apart = all(worker.output.flags.c_contiguous for worker in workers)
    for stretch in _slices(0, n_rows, _STRETCH if apart else _BLOCK):
        for worker in workers:
            for rows in _slices(stretch.start, stretch.stop, _BLOCK):
                worker.run(rows, worker.indices(rows))
                done(rows.stop - rows.start)


def _run_keyed(workers: Sequence[_Worker], n_rows: int, done: Done, keyed: KeyedRows) -> None:
    for rows in _slices(0, n_rows, _BLOCK):
        indices = [worker.indices(rows) for worker in workers]
        entries = [w.entries(rows, column) for w, column in zip(workers, indices, strict=True)]
        # which values are missing is released, and part of what identifies a row
        gone = [] if keyed.noted is None else [(e == _GONE).astype(np.int64) for e in entries]
        bits = keyed.columns(rows, entries, gone)
        for worker, column, words in zip(workers, indices, bits, strict=True):
            worker.run(rows, column, words)
            done(rows.stop - rows.start)


def _slices(start: int, stop: int, length: int) -> Iterator[slice]:
    return (slice(at, min(at + length, stop)) for at in range(start, stop, length))


class _Worker:
    """The release of one column, block by block, with its own scratch arrays."""

    def __init__(
        self, release: ColumnRelease, reader: Reader, output: Array, entropy: Entropy
    ) -> None:
        self.release, self.reader, self.output = release, reader, output
        self.codes = np.empty(min(len(output), _BLOCK), dtype=np.intp)
        self.mixer = self.sampler = None
        self.reach = MAX_STEPS
        atoms, free = release.column.atoms, release.column.free
        if release.mixing is not None:
            self.mixer = release.mixing.sampler(scale_of(release), entropy)
        elif release.noise is not None:
            self.sampler = sampler(release.noise, release.grid, entropy, nearest=release.whole)
            self.scratch = np.empty(len(self.codes), dtype=np.int64)
        if self.sampler is None and not free:
            if output.dtype.kind != "f":  # values beyond the range of its integers are clipped
                ends = np.iinfo(output.dtype)
                atoms = np.clip(atoms, float(ends.min), float(ends.max))
            self.table = atoms.astype(output.dtype)
        elif not free:
            self.table = to_indices(atoms, release.grid)
            self.reach = int(np.abs(self.table).max(initial=0))

    def indices(self, rows: slice) -> IntArray:
        """Return the values of ``rows`` as grid indices, codes, or the bits of their numbers."""
        n_rows, free = rows.stop - rows.start, self.release.column.free
        if free and self.sampler is None:
            numbers = self._numbers(rows).astype(np.float64) + 0.0  # -0.0 is 0.0
            return numbers.view(np.int64)
        if free:
            return to_indices(self._numbers(rows), self.release.grid)
        codes = self.codes[:n_rows]
        self.reader.codes(rows, codes)
        if self.sampler is None:
            return codes.astype(np.int64, copy=False)
        return np.take(self.table, codes, out=self.scratch[:n_rows], mode="clip")

    def entries(self, rows: slice, indices: IntArray) -> IntArray:
        """Return what keyed bits depend on: the index of each value, or that it is missing."""
        gone = self.reader.missing(rows) if self.reader.propagates else None
        return indices if gone is None else np.where(gone, _GONE, indices)

    def run(self, rows: slice, indices: IntArray, words: RowWords | None = None) -> None:
        """Release a block of rows, given their indices, and by the bits of each row, if it has."""
        out = self.output[rows]
        if self.sampler is not None:
            self._add(indices, self.sampler if words is None else ByRow(self.sampler, words), out)
        elif self.release.column.free:
            out[:] = self.reader.data(rows)  # checked in `indices`
        else:
            if self.mixer is not None and words is None:
                self.mixer.release(indices)
            elif self.mixer is not None and words is not None:
                self.mixer.release_from(indices, words)
            np.take(self.table, indices, out=out, mode="clip")

    def _add(self, indices: IntArray, source: NoiseSource, out: Array) -> None:
        with np.errstate(over="ignore"):
            add_noise(indices, source, out, reach=self.reach)
        if out.dtype == np.float32:  # clipped to its range, as integers are
            np.clip(out, -_SINGLE_END, _SINGLE_END, out=out)
        if self.release.last_code is not None:
            np.clip(out, 0, self.release.last_code, out=out)

    def _numbers(self, rows: slice) -> Array:
        block = self.reader.data(rows)
        _check_numbers(block, self.release)
        return block


def finished(release: ColumnRelease, output: Array, gone: Array | None) -> Finished:
    """Return a filled column as its table takes it, with ``gone`` values missing."""
    column, native = release.column, release.output != "noisy"
    if native and column.kind == "integer" and (unit := column.unit) is not None:
        return Finished(output, gone, unit=unit)
    if not native or column.kind in ("float", "integer"):
        return Finished(output, gone, native=native)
    if column.kind == "category":
        return Finished(output, gone, levels=column.levels)
    if column.missing_code is not None:
        gone = output == 2
    return Finished(output == 1, gone)


def _check_numbers(block: Array, release: ColumnRelease) -> None:
    """Refuse numbers that even a continuous column does not take."""
    column = release.column
    if block.dtype.kind == "f":
        check_finite(block, column.name)
        if column.whole and (block % 1.0 != 0.0).any():
            raise ValueError(
                f"column {column.name!r} contains {float(block[block % 1.0 != 0.0][0])!r} and "
                "held whole numbers in fit; round it, or fit on fractions."
            )
    far = max(abs(float(block.min())), abs(float(block.max())))
    if release.noise is not None and far > _FARTHEST * release.grid:
        raise ValueError(
            f"column {column.name!r} contains a value {far:.6g} away from 0, beyond the reach of "
            f"noise on a grid of {release.grid:.3g}; remove it, or fit on data that has such "
            "values."
        )


def fingerprint(
    columns: Sequence[ColumnRelease], notion: Notion, releases: int, *about: Any
) -> str:
    """Return the SHA-256 digest, in hex, that identifies a fitted mechanism.

    Names, kinds, values, bins, grids and noise of the columns go into it, and ``about``, what else
    identifies the release. It is a function of numbers and labels alone, the same in every process.
    """
    return digest("sklearn_puffer.fingerprint/2", columns, notion, releases, *about)
