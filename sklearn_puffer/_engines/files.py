"""Streams of tables as small Arrow tables of one schema, and files of tables.

Parquet and CSV files are read as streams, and written batch by batch. The columns of a CSV file
have one type in the whole file: from the layout, from what was fitted, or from one look through all
rows. A column without a type is text, which comes out as it went in.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from sklearn_puffer._codes import Column
from sklearn_puffer._engines.engine import PATTERNS, check_separator, is_lazy
from sklearn_puffer._tables import Name, check_unique, frame_table, is_frame
from sklearn_puffer._words import listed, on_one_line, quoted

MOST_ROWS = 1 << 16
"""How many rows are handled at a time."""

_READ_AHEAD = 2


def arrow(what: str) -> Any:
    """Return pyarrow.

    Raises
    ------
    ImportError
        If it is absent, naming what needs it and the extra.
    """
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError(
            f'{what} needs pyarrow, which is not installed; run pip install "sklearn-puffer[cli]".'
        ) from error


@dataclass(frozen=True, eq=False)
class TableStream:
    """Tables that come one after the other.

    Attributes
    ----------
    schema : pyarrow.Schema
        Types of all of them.
    again : bool
        Whether they can be read more than once.
    """

    schema: Any
    again: bool
    _open: Callable[[Sequence[str]], Iterable[Any]]
    _count: Callable[[], int | None] = lambda: None

    @property
    def names(self) -> tuple[Name, ...]:
        """Column names."""
        return tuple(self.schema.names)

    def with_labels(self, names: Iterable[Name]) -> TableStream:
        """Return the stream with strings for these columns wherever they have no type.

        If all labels of the first piece are missing, Arrow cannot tell what the others are.
        """
        pa, schema = arrow("a stream"), self.schema
        for k, one in enumerate(schema):
            if one.name in names and one.type == pa.null():
                schema = schema.set(k, one.with_type(pa.string()))
        return replace(self, schema=schema)

    def n_rows(self) -> int | None:
        """Return how many rows there are, if that is known without reading them."""
        return self._count()

    def tables(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield the rows of some columns as Arrow tables, none of which is empty.

        Raises
        ------
        TypeError, ValueError
            If a piece is no table, lacks a column, or has one of another type.
        """
        wanted = arrow("a stream").schema([self.schema.field(name) for name in names])
        for piece in self._open(names):
            table = _of_types(_as_arrow(piece), wanted)
            for start in range(0, table.num_rows, MOST_ROWS):
                yield table.slice(start, MOST_ROWS)

    def whole(self) -> Any:
        """Return all rows as one Arrow table."""
        pa = arrow("a stream")
        return pa.concat_tables([self.schema.empty_table(), *self.tables(self.schema.names)])


def stream_of(source: Any) -> TableStream:
    """Return the stream of a source of rows, of which at most the first piece is read.

    Parameters
    ----------
    source : pyarrow Dataset, RecordBatchReader, Table or RecordBatch, DataFrame, or iterable
        Of tables and batches; or a Stream, as it is.

    Raises
    ------
    TypeError, ValueError
        If it is none of these, or the iterable is empty.
    ImportError
        If pyarrow is absent.

    Examples
    --------
    >>> stream = stream_of(pd.DataFrame({"a": [1, 2], "b": [3, 4]}))
    >>> stream.names, [table.num_rows for table in stream.tables(["a"])]
    (('a', 'b'), [2])
    """
    if isinstance(source, TableStream):
        return source
    pa = arrow("a stream of batches")
    datasets = sys.modules.get("pyarrow.dataset")  # none of them is there before it is imported
    if datasets is not None and isinstance(source, datasets.Dataset):
        scan, count = partial(_scanned, source), partial(_in_dataset, source)
        return _checked(TableStream(source.schema, True, scan, count))
    if is_frame(source) or isinstance(source, pa.RecordBatch):
        whole = _as_arrow(source)
        return _checked(
            TableStream(whole.schema, True, lambda names: [whole], lambda: whole.num_rows)
        )
    if isinstance(source, pa.RecordBatchReader):
        return _checked(TableStream(source.schema, False, lambda names: source))
    if hasattr(source, "__arrow_c_stream__") and not nw.dependencies.is_into_series(source):
        return stream_of(pa.RecordBatchReader.from_stream(source))
    _refuse_others(source)
    return _checked(_of_pieces(source))


def _scanned(dataset: Any, names: Sequence[str]) -> Any:
    """Return the batches of a data set, few of them ahead of time."""
    return dataset.to_batches(
        columns=list(names),
        batch_size=MOST_ROWS,
        batch_readahead=_READ_AHEAD,
        fragment_readahead=1,
    )


def _in_dataset(dataset: Any) -> int | None:
    """Return how many rows a data set has, if its files say so."""
    kind = getattr(getattr(dataset, "format", None), "default_extname", "parquet")
    return int(dataset.count_rows()) if kind == "parquet" else None


def _refuse_others(source: Any) -> None:
    if isinstance(source, str | os.PathLike):
        raise TypeError(
            f"batches is a path ({str(source)!r}), and a stream is of rows; open it with "
            "pyarrow.dataset.dataset(path), or with pyarrow.parquet or pyarrow.csv."
        )
    if is_lazy(source):
        raise TypeError(
            f"batches is a lazy table ({type(source).__name__}), and a stream is of rows; pass "
            "what its engine makes of it piece by piece, for example X.collect_batches()."
        )
    one = isinstance(source, np.ndarray | Mapping) or nw.dependencies.is_into_series(source)
    if one or not isinstance(source, Iterable):
        raise TypeError(
            f"batches is a {type(source).__name__}, and must be a pyarrow Dataset, "
            "RecordBatchReader or Table, a DataFrame, or an iterable of batches or tables."
        )


def _of_pieces(source: Iterable[Any]) -> TableStream:
    """Return the stream of an iterable; a list can be read again, an iterator cannot."""
    again = isinstance(source, list | tuple)
    pieces = iter(source)
    first = next(pieces, None)
    if first is None:
        raise ValueError("batches is empty, and a minimum of 1 row is required to release.")
    schema = _as_arrow(first).schema
    if again:
        return TableStream(schema, True, lambda names: source, lambda: sum(map(len, source)))
    rest = chain([first], pieces)
    return TableStream(schema, False, lambda names: rest)


def _as_arrow(piece: Any) -> Any:
    pa = arrow("a stream of batches")
    if isinstance(piece, pa.Table):
        return piece
    if isinstance(piece, pa.RecordBatch):
        return pa.Table.from_batches([piece])
    if isinstance(piece, pd.DataFrame):
        return _from_pandas(piece)
    if is_frame(piece) and hasattr(piece, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(piece).read_all()
    raise TypeError(
        f"batches holds a {type(piece).__name__}, and must hold pyarrow batches or tables, or "
        "DataFrames."
    )


def _from_pandas(piece: pd.DataFrame) -> Any:
    """Return a pandas frame as an Arrow table; what Arrow has no type for is refused by name."""
    pa, table = arrow("a stream of batches"), frame_table(piece, "batches")
    convert = partial(pa.Table.from_pandas, preserve_index=False)
    try:
        return convert(piece)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        if len(table.names) > 1:
            for name in table.names:
                _from_pandas(piece[[name]])
        table.values(table.names[0])  # which has words for most
        raise TypeError(
            f"column {table.names[0]!r} of batches has no type in Arrow ({on_one_line(error)}); "
            "drop it, or convert it to numbers or strings."
        ) from error


def _checked(stream: TableStream) -> TableStream:
    """Return a stream none of whose names stands for two columns."""
    check_unique(stream.schema.names, "batches")
    return stream


def _of_types(table: Any, wanted: Any) -> Any:
    """Return the wanted columns of a table, which must have the wanted types."""
    pa = arrow("a stream")
    absent = [name for name in wanted.names if name not in table.schema.names]
    if absent:
        raise ValueError(
            f"batches has a later piece without column {listed(absent)}; give all pieces the "
            "same columns."
        )
    table = table.select(wanted.names)
    for one, got in zip(wanted, table.schema, strict=True):
        strings = {got.type, one.type} <= {pa.string(), pa.large_string()}
        if not strings and got.type not in (one.type, pa.null()):
            raise TypeError(
                f"column {one.name!r} is of type {one.type} in the first piece of batches and "
                f"{got.type} in a later one; give all pieces the same types."
            )
    return table.cast(pa.schema([pa.field(f.name, f.type) for f in wanted]))


TYPES = ("string", "integer", "float", "boolean")
SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv"}

_NEEDED_BY = "reading and writing files"


@dataclass(frozen=True)
class CsvLayout:
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
        separator = self.separator
        if separator is not None and not (
            isinstance(separator, str) and len(separator) == 1 and separator not in '"\r\n'
        ):
            raise ValueError(f"separator must be one character, got {quoted(separator)}.")
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
    layout : CsvLayout
    """

    def __init__(self, path: str | Path, layout: CsvLayout | None = None) -> None:
        self.path, self.layout = Path(path), CsvLayout() if layout is None else layout
        self.kind = kind_of(self.path)
        self._separator = separator_of(self.path, self.layout)
        self._whole = arrow(_NEEDED_BY)
        self.n_read = 0  # of so many bytes
        if self.path.exists() and not self.path.is_file():
            raise ValueError(
                f"the file {str(self.path)!r} is a folder, a pipe or a device, and tables are read "
                "more than once; write it to a file."
            )
        with self.path.open("rb"):  # Python's own error for a file that cannot be read
            self.size = max(self.path.stat().st_size, 1)
        self.names = self._found_names()

    def stream(self, types: Mapping[str, str]) -> TableStream:
        """Return the rows; of a CSV file with these types, and text where none is given."""
        if self.kind == "parquet":
            with self._opened_parquet() as file:
                schema = file.schema_arrow
            return TableStream(schema, True, self._parquet)
        known = {**types, **self.layout.types}
        plain = {name: _arrow_type(known.get(name, "string")) for name in self.names}
        schema = self._whole.schema(list(plain.items()))
        return TableStream(schema, True, lambda names: self._csv({n: plain[n] for n in names}))

    def lazy(self, types: Mapping[str, str]) -> Any:
        """Return the rows as `fit` takes them without reading them into memory.

        A Parquet file is a path, which polars reads. Without polars, and for CSV, it is a pyarrow
        Dataset, which DuckDB reads. It is None without a library that reads it, and for categories
        in DuckDB, since parts of a file may list different ones.
        """
        if self.kind == "parquet" and find_spec("polars") is not None:
            return self.path.absolute()
        schema = self.stream(types).schema
        listed_types = any(map(self._whole.types.is_dictionary, schema.types))
        if listed_types or find_spec("duckdb") is None:
            return None
        return self._dataset(schema)

    def _dataset(self, schema: Any) -> Any:
        datasets = import_module("pyarrow.dataset")
        file_format = "parquet"
        if self.kind == "csv":
            read, parse, convert = self._options(dict(zip(schema.names, schema.types, strict=True)))
            convert.include_columns = []  # which each query says anew
            file_format = datasets.CsvFileFormat(parse, convert_options=convert, read_options=read)
        return datasets.dataset(str(self.path.absolute()), schema, file_format)

    def found_types(self) -> dict[str, str]:
        """Return the type of each column of a CSV file: one that all its values have.

        Numbers with leading zeros, or with more digits than are exact, are ids: they are text.
        """
        if self.kind == "parquet":
            return {}
        absent = [name for name in self.layout.types if name not in self.names]
        if absent:
            raise ValueError(
                f"types names column {listed(absent)}, and those of {str(self.path)!r} are "
                f"{listed(list(self.names), 10)}."
            )
        compute = import_module("pyarrow.compute")
        left = {name: list(PATTERNS) for name in self.names}
        filled = set()
        for table in self._csv(dict.fromkeys(self.names, self._whole.string())):
            for name in self.names:
                values = compute.drop_null(compute.unique(table.column(name)))
                filled |= {name} if len(values) else set()
                left[name] = [
                    kind
                    for kind in left[name]
                    if compute.all(
                        compute.match_substring_regex(values, PATTERNS[kind]), min_count=0
                    ).as_py()
                ]
        types = {name: left[name][0] for name in self.names if left[name] and name in filled}
        return {**dict.fromkeys(self.names, "string"), **types, **self.layout.types}

    def _found_names(self) -> tuple[str, ...]:
        if self.kind == "parquet":
            with self._opened_parquet() as file:
                names = list(file.schema_arrow.names)
        else:
            with self.path.open("rb") as file, self._explained():
                names = list(self._reader(file, {}).schema.names)
            if self.layout.separator is None:
                way = f"by --separator, or {self._separator!r} if it really is one column"
                check_separator(str(self.path), names, way, self._separator)
        check_unique(names, repr(str(self.path)))
        return tuple(names)

    def _parquet(self, names: Sequence[str]) -> Iterator[Any]:
        with self._opened_parquet() as file:
            rows, total = 0, max(file.metadata.num_rows, 1)
            batches = file.iter_batches(MOST_ROWS, columns=list(names), use_threads=False)
            for batch in self._each(batches):
                rows += batch.num_rows
                self.n_read = int(self.size * rows / total)
                yield batch

    def _opened_parquet(self) -> Any:
        with self._explained():
            return import_module("pyarrow.parquet").ParquetFile(self.path.absolute())

    def _csv(self, types: Mapping[str, Any]) -> Iterator[Any]:
        with self.path.open("rb") as file:
            with self._explained():
                reader = self._reader(file, types)
            for batch in self._each(reader):
                self.n_read = file.tell()
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

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say an error of pyarrow about the file in one sentence."""
        try:
            yield
        except (self._whole.ArrowException, OSError) as error:
            if isinstance(error, MemoryError):
                raise
            reason = self._named(on_one_line(error).rstrip("."))
            raise ValueError(
                f"the file {str(self.path)!r} cannot be read as {self.kind.upper()}: {reason}; "
                "mend it, or say how it is written (its separator, what stands for missing values, "
                "types of columns)."
            ) from error

    def _named(self, reason: str) -> str:
        """Name the column that pyarrow counts."""
        names = getattr(self, "names", ())

        def name(match: re.Match[str]) -> str:
            k = int(match[1])
            return f"column {names[k]!r}" if k < len(names) else match[0]

        return re.sub(r"CSV column #(\d+)", name, reason)


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


def separator_of(path: Path, layout: CsvLayout) -> str:
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
    layout : CsvLayout
    """

    def __init__(self, file: BinaryIO, path: Path, schema: Any, layout: CsvLayout) -> None:
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
