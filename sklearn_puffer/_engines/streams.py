"""Streams of tables as small Arrow tables of one schema."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from sklearn_puffer._engines.engine import is_lazy
from sklearn_puffer._tables import Name, check_unique, frame_table, is_frame
from sklearn_puffer._words import listed, on_one_line

MOST_ROWS = 1 << 16
"""The most rows that are handled at a time."""

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
    """A stream of tables.

    Attributes
    ----------
    schema : pyarrow.Schema
        Their common schema.
    again : bool
        Whether the stream can be read more than once.
    """

    schema: Any
    again: bool
    _open: Callable[[Sequence[str]], Iterable[Any]]

    @property
    def names(self) -> tuple[Name, ...]:
        """Column names."""
        return tuple(self.schema.names)

    def with_labels(self, names: Iterable[Name]) -> TableStream:
        """Return the stream with type string for those of these columns whose type is null.

        Arrow does not know the type of a column whose values are all missing in the first piece.
        """
        pa, schema = arrow("a stream"), self.schema
        for k, one in enumerate(schema):
            if one.name in names and one.type == pa.null():
                schema = schema.set(k, one.with_type(pa.string()))
        return replace(self, schema=schema)

    def tables(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield the rows of some columns as non-empty Arrow tables.

        Raises
        ------
        TypeError, ValueError
            If a piece is no table, or a column is absent or of another type.
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
    """Return the stream of a source of rows; at most its first piece is read.

    Parameters
    ----------
    source : pyarrow Dataset, RecordBatchReader, Table or RecordBatch, DataFrame, or iterable
        An iterable of tables and batches. A TableStream is returned as it is.

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
    datasets = sys.modules.get("pyarrow.dataset")  # without this module there are no data sets
    if datasets is not None and isinstance(source, datasets.Dataset):

        def scanned(names: Sequence[str]) -> Any:
            ahead = {"batch_readahead": _READ_AHEAD, "fragment_readahead": 1}  # little
            return source.to_batches(columns=list(names), batch_size=MOST_ROWS, **ahead)

        return _checked(TableStream(source.schema, True, scanned))
    if is_frame(source) or isinstance(source, pa.RecordBatch):
        whole = _as_arrow(source)
        return _checked(TableStream(whole.schema, True, lambda names: [whole]))
    if isinstance(source, pa.RecordBatchReader):
        return _checked(TableStream(source.schema, False, lambda names: source))
    if hasattr(source, "__arrow_c_stream__") and not nw.dependencies.is_into_series(source):
        return stream_of(pa.RecordBatchReader.from_stream(source))
    _refuse_others(source)
    pieces = iter(source)
    first = next(pieces, None)
    if first is None:
        raise ValueError("batches is empty, and a minimum of 1 row is required to release.")
    again = isinstance(source, list | tuple)  # iterators cannot be read again
    rest = source if again else chain([first], pieces)
    return _checked(TableStream(_as_arrow(first).schema, again, lambda names: rest))


def _refuse_others(source: Any) -> None:
    if isinstance(source, str | os.PathLike):
        raise TypeError(
            f"batches is a path ({str(source)!r}), and must hold rows; open it with "
            "pyarrow.dataset.dataset(path), or with pyarrow.parquet or pyarrow.csv."
        )
    if is_lazy(source):
        raise TypeError(
            f"batches is a lazy table ({type(source).__name__}), and must hold rows; pass "
            "what its engine makes of it piece by piece, for example X.collect_batches()."
        )
    one = isinstance(source, np.ndarray | Mapping) or nw.dependencies.is_into_series(source)
    if one or not isinstance(source, Iterable):
        raise TypeError(
            f"batches is a {type(source).__name__}, and must be a pyarrow Dataset, "
            "RecordBatchReader or Table, a DataFrame, or an iterable of batches or tables."
        )


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
    """Convert a pandas frame to Arrow; refuse by name a column that has no type in Arrow."""
    pa, table = arrow("a stream of batches"), frame_table(piece, "batches")
    convert = partial(pa.Table.from_pandas, preserve_index=False)
    try:
        return convert(piece)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        if len(table.names) > 1:
            for name in table.names:
                _from_pandas(piece[[name]])
        table.values(table.names[0])  # which refuses most such columns by name
        raise TypeError(
            f"column {table.names[0]!r} of batches has no type in Arrow ({on_one_line(error)}); "
            "drop it, or convert it to numbers or strings."
        ) from error


def _checked(stream: TableStream) -> TableStream:
    """Refuse duplicate names, and replace views of strings by strings."""
    check_unique(stream.schema.names, "batches")
    pa, schema = arrow("a stream"), stream.schema
    for k, one in enumerate(schema):
        if one.type == pa.string_view():
            schema = schema.set(k, one.with_type(pa.string()))
    return replace(stream, schema=schema)


def _of_types(table: Any, wanted: Any) -> Any:
    """Return the wanted columns of a table; refuse other types."""
    pa = arrow("a stream")
    absent = [name for name in wanted.names if name not in table.schema.names]
    if absent:
        raise ValueError(
            f"batches has a later piece without column {listed(absent)}; give all pieces the "
            "same columns."
        )
    table = table.select(wanted.names)
    for one, got in zip(wanted, table.schema, strict=True):
        strings = {got.type, one.type} <= {pa.string(), pa.large_string(), pa.string_view()}
        if not strings and got.type not in (one.type, pa.null()):
            raise TypeError(
                f"column {one.name!r} is of type {one.type} in the first piece of batches and "
                f"{got.type} in a later one; give all pieces the same types."
            )
    return table.cast(pa.schema([pa.field(f.name, f.type) for f in wanted]))
