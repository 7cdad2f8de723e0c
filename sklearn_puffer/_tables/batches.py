"""Streams of tables as Arrow tables of a few rows each, one after the other, all of one type."""

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

from sklearn_puffer._base import listed, on_one_line
from sklearn_puffer._tables.frame import frame_table, is_frame
from sklearn_puffer._tables.opening import is_lazy
from sklearn_puffer._tables.values import Name

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
class Stream:
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

    def with_labels(self, names: Iterable[Name]) -> Stream:
        """Return the stream with strings for those of the columns that have no type.

        Where all labels of the first piece are missing, Arrow cannot tell what the others are.
        """
        pa, schema = arrow("a stream"), self.schema
        for k, field in enumerate(schema):
            if field.name in names and field.type == pa.null():
                schema = schema.set(k, field.with_type(pa.string()))
        return replace(self, schema=schema)

    def n_rows(self) -> int | None:
        """Return how many rows there are, where that is known without reading them."""
        return self._count()

    def tables(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield the rows of some columns as Arrow tables, none of which is empty.

        Raises
        ------
        TypeError, ValueError
            If something that comes is no table, lacks a column, or has one of another type.
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


def stream_of(source: Any) -> Stream:
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
    if isinstance(source, Stream):
        return source
    pa = arrow("a stream of batches")
    datasets = sys.modules.get("pyarrow.dataset")  # none of them is there before it is imported
    if datasets is not None and isinstance(source, datasets.Dataset):
        scan, count = partial(_scanned, source), partial(_in_dataset, source)
        return _checked(Stream(source.schema, True, scan, count))
    if is_frame(source) or isinstance(source, pa.RecordBatch):
        whole = _as_arrow(source)
        return _checked(Stream(whole.schema, True, lambda names: [whole], lambda: whole.num_rows))
    if isinstance(source, pa.RecordBatchReader):
        return _checked(Stream(source.schema, False, lambda names: source))
    if hasattr(source, "__arrow_c_stream__") and not nw.dependencies.is_into_series(source):
        return stream_of(pa.RecordBatchReader.from_stream(source))
    _refuse_others(source)
    return _checked(_of_pieces(source))


def reader_of(schema: Any, batches: Iterator[Any]) -> Any:
    """Return batches as what other libraries read; an error comes out as it is."""
    return arrow("a stream of batches").RecordBatchReader.from_batches(schema, batches)


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


def _of_pieces(source: Iterable[Any]) -> Stream:
    """Return the stream of an iterable; a list can be read again, an iterator cannot."""
    again = isinstance(source, list | tuple)
    pieces = iter(source)
    first = next(pieces, None)
    if first is None:
        raise ValueError("batches is empty, and a minimum of 1 row is required to release.")
    schema = _as_arrow(first).schema
    rest = chain([first], pieces)
    return Stream(schema, again, lambda names: source if again else rest, partial(_in_all, source))


def _in_all(pieces: Any) -> int | None:
    """Return how many rows the pieces of a list have."""
    return sum(map(_n_rows, pieces)) if isinstance(pieces, list | tuple) else None


def _n_rows(piece: Any) -> int:
    return int(piece.num_rows) if hasattr(piece, "num_rows") else len(piece)


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


def _checked(stream: Stream) -> Stream:
    """Return a stream none of whose names stands for two columns."""
    names = stream.schema.names
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(
            f"column {listed(doubled)} occurs more than once in batches; rename or drop one."
        )
    return stream


def _of_types(table: Any, wanted: Any) -> Any:
    """Return the columns that are wanted, all of which must have their types."""
    pa = arrow("a stream")
    absent = [name for name in wanted.names if name not in table.schema.names]
    if absent:
        raise ValueError(
            f"batches has a later piece without column {listed(absent)}; give all pieces the "
            "same columns."
        )
    table = table.select(wanted.names)
    for field, own in zip(wanted, table.schema, strict=True):
        strings = {own.type, field.type} <= {pa.string(), pa.large_string()}
        if not strings and own.type not in (field.type, pa.null()):
            raise TypeError(
                f"column {field.name!r} is of type {field.type} in the first piece of batches and "
                f"{own.type} in a later one; give all pieces the same types."
            )
    return table.cast(pa.schema([pa.field(f.name, f.type) for f in wanted]))
