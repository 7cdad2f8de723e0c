"""Parquet and CSV files: read as streams of one type, and written batch by batch.

The types of a CSV file are those it is told, the same in every part of it, and whatever has none is
text that comes out as it went in. What is told is found by one look through the whole file, or by
what was fitted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from sklearn_puffer._base import listed, on_one_line, quoted
from sklearn_puffer._tables.batches import MOST_ROWS, Stream, arrow
from sklearn_puffer._tables.columns import Column
from sklearn_puffer._tables.csv_types import PATTERNS, other_separator

TYPES = ("string", "integer", "float", "boolean")
SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv"}

_NEEDED_BY = "reading and writing files"


@dataclass(frozen=True)
class Layout:
    """How a CSV file is read and written.

    Attributes
    ----------
    separator : str or None
        Between two values; None for a comma, or a tab in a ``.tsv`` file.
    missing : tuple of str
        What stands for no value, where it is not quoted.
    types : mapping of column to type
        What is told of columns: one of `TYPES`.
    """

    separator: str | None = None
    missing: tuple[str, ...] = ("",)
    types: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        own = self.separator
        if own is not None and not (isinstance(own, str) and len(own) == 1 and own not in '"\r\n'):
            raise ValueError(f"separator must be one character, got {quoted(own)}.")
        if not isinstance(self.types, Mapping):
            raise TypeError(f"types must map columns to types, got {quoted(self.types)}.")
        for name, kind in self.types.items():
            if kind not in TYPES:
                raise ValueError(
                    f"types says {quoted(kind)} of column {quoted(name)}; it must be one of "
                    f"{listed(list(TYPES))}."
                )


class TableFile:
    """A Parquet or CSV file.

    Parameters
    ----------
    path : str or Path
        Its suffix says which of them.
    layout : Layout
    """

    def __init__(self, path: str | Path, layout: Layout | None = None) -> None:
        self.path, self.layout = Path(path), Layout() if layout is None else layout
        self.kind = kind_of(self.path)
        self._whole = arrow(_NEEDED_BY)
        self._read = 0
        if self.path.exists() and not self.path.is_file():
            raise ValueError(
                f"the file {str(self.path)!r} is a folder, a pipe or a device, and tables are read "
                "more than once; write it to a file."
            )
        with self.path.open("rb"):  # what cannot be read says so as Python does
            self._size = max(self.path.stat().st_size, 1)
        self.names = self._found_names()

    @property
    def done(self) -> float:
        """How much of the file was read last, between 0 and 1."""
        return min(self._read / self._size, 1.0)

    def stream(self, types: Mapping[str, str]) -> Stream:
        """Return the rows; of a CSV file with these types, and text where none is given."""
        if self.kind == "parquet":
            with self._opened_parquet() as file:
                schema = file.schema_arrow
            return Stream(schema, True, self._parquet)
        told = {**types, **self.layout.types}
        plain = {name: _arrow_type(told.get(name, "string")) for name in self.names}
        schema = self._whole.schema(list(plain.items()))
        return Stream(schema, True, lambda names: self._csv({n: plain[n] for n in names}))

    def lazy(self, types: Mapping[str, str]) -> Any:
        """Return the rows as `fit` takes them without reading them into memory.

        Of Parquet a path, which polars reads; where polars is absent, and of CSV, a pyarrow
        Dataset, which DuckDB reads. None where what reads it is absent, and of categories in
        DuckDB, since parts of a file may list other ones.
        """
        if self.kind == "parquet" and find_spec("polars") is not None:
            return self.path.absolute()
        schema = self.stream(types).schema
        listed_types = any(map(self._whole.types.is_dictionary, schema.types))
        if listed_types or find_spec("duckdb") is None:
            return None
        return self._dataset(schema)

    def _dataset(self, schema: Any) -> Any:
        own = import_module("pyarrow.dataset")
        told = "parquet"
        if self.kind == "csv":
            read, parse, convert = self._options(dict(zip(schema.names, schema.types, strict=True)))
            convert.include_columns = []  # which each query says anew
            told = own.CsvFileFormat(parse, convert_options=convert, read_options=read)
        return own.dataset(str(self.path.absolute()), schema, told)

    def found_types(self) -> dict[str, str]:
        """Return the type of each column of a CSV file that every value of it has.

        Numbers with leading zeros, or more digits than are exact, are text: they are ids.
        """
        if self.kind == "parquet":
            return {}
        self._check_told(self.layout.types)
        left = {name: list(PATTERNS) for name in self.names}
        some = set()
        for table in self._csv(dict.fromkeys(self.names, self._whole.string())):
            for name in self.names:
                values = self._unique(table.column(name))
                some |= {name} if len(values) else set()
                left[name] = [kind for kind in left[name] if self._all(values, PATTERNS[kind])]
        found = {name: left[name][0] for name in self.names if left[name] and name in some}
        return {**dict.fromkeys(self.names, "string"), **found, **self.layout.types}

    def _unique(self, column: Any) -> Any:
        compute = import_module("pyarrow.compute")
        return compute.drop_null(compute.unique(column))

    def _all(self, values: Any, pattern: str) -> bool:
        compute = import_module("pyarrow.compute")
        fits = compute.all(compute.match_substring_regex(values, pattern), min_count=0)
        return bool(fits.as_py())

    def _check_told(self, types: Mapping[str, str]) -> None:
        absent = [name for name in types if name not in self.names]
        if absent:
            raise ValueError(
                f"types names column {listed(absent)}, and those of {str(self.path)!r} are "
                f"{listed(list(self.names), 10)}."
            )

    def _found_names(self) -> tuple[str, ...]:
        if self.kind == "parquet":
            with self._opened_parquet() as file:
                names = list(file.schema_arrow.names)
        else:
            with self.path.open("rb") as file, self._explained():
                names = list(self._reader(file, {}).schema.names)
            self._check_separator(names)
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(
                f"column {listed(doubled)} occurs more than once in {str(self.path)!r}; rename or "
                "drop one."
            )
        return tuple(names)

    def _check_separator(self, names: Sequence[str]) -> None:
        """Refuse a file whose only column looks like several, unless its separator is told."""
        other = other_separator(names, self._separator)
        if self.layout.separator is None and other is not None:
            raise ValueError(
                f"the file {str(self.path)!r} has one column, {quoted(names[0])}, where its values "
                f"are separated by {self._separator!r}, and seems to be separated by {other!r}; "
                f"pass that as its separator (--separator), or {self._separator!r} if it really is "
                "one column."
            )

    def _parquet(self, names: Sequence[str]) -> Iterator[Any]:
        with self._opened_parquet() as file:
            rows, total = 0, max(file.metadata.num_rows, 1)
            batches = file.iter_batches(MOST_ROWS, columns=list(names), use_threads=False)
            for batch in self._each(batches):
                rows += batch.num_rows
                self._read = int(self._size * rows / total)
                yield batch

    def _opened_parquet(self) -> Any:
        with self._explained():
            return import_module("pyarrow.parquet").ParquetFile(self.path.absolute())

    def _csv(self, types: Mapping[str, Any]) -> Iterator[Any]:
        with self.path.open("rb") as file:
            with self._explained():
                reader = self._reader(file, types)
            for batch in self._each(reader):
                self._read = file.tell()
                yield self._whole.Table.from_batches([batch])

    def _each(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield batches; a fault of the file names it."""
        iterator = iter(batches)
        while True:
            with self._explained():
                batch = next(iterator, None)
            if batch is None:
                return
            yield batch

    def _reader(self, file: BinaryIO, types: Mapping[str, Any]) -> Any:
        read, parse, convert = self._options(types)
        return import_module("pyarrow.csv").open_csv(file, read, parse, convert)

    def _options(self, types: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """Return how a CSV file is read into columns of these types, and parsed, and converted."""
        csv = import_module("pyarrow.csv")
        convert = csv.ConvertOptions(
            column_types=dict(types),
            include_columns=list(types),
            null_values=list(self.layout.missing),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parse = csv.ParseOptions(delimiter=self._separator, newlines_in_values=True)
        read = csv.ReadOptions(use_threads=False, block_size=1 << 22)
        return read, parse, convert

    @property
    def _separator(self) -> str:
        return separator_of(self.path, self.layout)

    def _explained(self) -> _Explained:
        return _Explained(self)


class _Explained:
    """What makes one sentence of what pyarrow says of a file."""

    def __init__(self, file: TableFile) -> None:
        self._file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        own = arrow(_NEEDED_BY).ArrowException
        if isinstance(error, own | OSError) and not isinstance(error, MemoryError):
            told = on_one_line(error).rstrip(".")
            raise ValueError(
                f"the file {str(self._file.path)!r} cannot be read as {self._file.kind.upper()}: "
                f"{self._named(told)}; mend it, or say how it is written (its separator, what "
                "stands for missing values, types of columns)."
            ) from error

    def _named(self, told: str) -> str:
        """Name the column that pyarrow counts."""
        names = getattr(self._file, "names", ())

        def name(found: re.Match[str]) -> str:
            place = int(found[1])
            return f"column {names[place]!r}" if place < len(names) else found[0]

        return re.sub(r"CSV column #(\d+)", name, told)


def kind_of(path: Path) -> str:
    """Return whether a file is one of Parquet or of CSV, by its suffix.

    Raises
    ------
    ValueError
        If it has another one.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"the file {str(path)!r} ends in {path.suffix!r}, and tables are files that end in "
            f"{listed(list(SUFFIXES))}; rename or convert it."
        )
    return SUFFIXES[path.suffix.lower()]


def separator_of(path: Path, layout: Layout) -> str:
    """Return what stands between two values."""
    if layout.separator is not None:
        return layout.separator
    return "\t" if path.suffix.lower() == ".tsv" else ","


def type_of(column: Column) -> str:
    """Return the type of a column of a CSV file that was fitted so.

    >>> import numpy as np
    >>> type_of(Column("age", "integer", np.arange(3.0), np.ones(3, dtype=bool)))
    'integer'
    """
    if column.kind != "category":
        return column.kind
    levels = [level for level in column.levels or () if level is not None]
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "float")):
        if levels and all(type(level) is kind for level in levels):
            return name
    return "string"


def _arrow_type(name: str) -> Any:
    pa = arrow(_NEEDED_BY)
    makers = {"integer": pa.int64, "float": pa.float64, "boolean": pa.bool_, "string": pa.string}
    return makers[name]()


class TableWriter:
    """What writes batches of one type to an open file.

    Parameters
    ----------
    file : binary file
    path : Path
        Whose suffix says what is written.
    schema : pyarrow.Schema
    layout : Layout
    """

    def __init__(self, file: BinaryIO, path: Path, schema: Any, layout: Layout) -> None:
        self._schema = schema if kind_of(path) == "parquet" else _without_dictionaries(schema)
        if kind_of(path) == "parquet":
            self._own = import_module("pyarrow.parquet").ParquetWriter(file, self._schema)
        else:
            csv = import_module("pyarrow.csv")
            options = csv.WriteOptions(delimiter=separator_of(path, layout))
            self._own = csv.CSVWriter(file, self._schema, write_options=options)

    def write(self, batch: Any) -> None:
        """Write a batch."""
        table = arrow(_NEEDED_BY).Table.from_batches([batch])
        self._own.write(table.cast(self._schema))

    def close(self) -> None:
        """Write what ends the file, which stays open."""
        self._own.close()


def _without_dictionaries(schema: Any) -> Any:
    """Return the types that CSV has."""
    pa = arrow(_NEEDED_BY)
    types = {
        one.name: one.type.value_type if pa.types.is_dictionary(one.type) else one.type
        for one in schema
    }
    return pa.schema(list(types.items()))
