"""Parquet and CSV files, which are read into memory and written.

The columns of a CSV file have one type in the whole file: from the layout, from what was fitted, or
from one look through all rows. A column without a type is text, which comes out as it went in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from sklearn_puffer._tables import check_unique
from sklearn_puffer._words import listed, on_one_line, quoted

TYPES = ("string", "integer", "float", "boolean", "date")
_END = r"([eE][+-]?[0-9]{1,3})?$"
_PATTERNS = {
    "boolean": r"^(true|false|True|False|TRUE|FALSE)$",
    "integer": r"^(0|-?[1-9][0-9]{0,17})$",
    # no leading zeros, and no more digits than a float has: those are ids
    "float": rf"^-?(0|[1-9][0-9]{{0,14}})(\.[0-9]*)?{_END}|^-?\.[0-9]+{_END}",
    "date": r"^[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|"
    r"(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|[12][0-9]))$",
}
"""A column has the first type whose pattern all its values match. Without one it is text."""

_SEPARATORS = ";\t|,"
SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv"}


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
        separator = "," if self.separator is None else self.separator
        if len(separator) != 1 or separator in '"\r\n':
            raise ValueError(f"--separator must be one character, got {quoted(separator)}.")
        for name, kind in self.types.items():
            if kind not in TYPES:
                raise ValueError(
                    f"the type (--type) of column {quoted(name)} is {quoted(kind)}; it must be one "
                    f"of {listed(list(TYPES))}."
                )


class TableFile:
    """A Parquet or CSV file.

    Parameters
    ----------
    path : str or Path
        Its suffix says which of them.
    layout : CsvLayout
    """

    def __init__(self, path: str | Path, layout: CsvLayout) -> None:
        self.path, self.layout = Path(path), layout
        self.kind = kind_of(self.path)
        self._separator = separator_of(self.path, self.layout)
        self._arrow = _arrow()
        if self.path.exists() and not self.path.is_file():
            raise ValueError(
                f"the file {str(self.path)!r} is a folder, a pipe or a device, and tables are read "
                "more than once; write it to a file."
            )
        self.names = self._found_names()

    def rows(self, types: Mapping[str, str]) -> Any:
        """Return an Arrow table; of a CSV file with these types, and text where none is given."""
        if self.kind == "parquet":
            with self._explained(), self._opened_parquet() as file:
                return file.read(use_threads=False)
        known = {**types, **self.layout.types}
        return self._csv({name: known.get(name, "string") for name in self.names})

    def found_types(self, text: Collection[str] = ()) -> dict[str, str]:
        """Return the type of each column of a CSV file: one that all its values have.

        Numbers with leading zeros, or with more digits than are exact, are ids: they are text, and
        so are dates in the columns ``text``.
        """
        if self.kind == "parquet":
            return {}
        absent = [name for name in self.layout.types if name not in self.names]
        if absent:
            raise ValueError(
                f"--type names column {listed(absent)}, and those of {str(self.path)!r} are "
                f"{listed(list(self.names), 10)}."
            )
        compute = import_module("pyarrow.compute")
        types = dict.fromkeys(self.names, "string")
        for name, column in zip(self.names, self._csv(types).columns, strict=True):
            values = compute.drop_null(compute.unique(column))
            for kind, pattern in _PATTERNS.items() if len(values) else ():
                if compute.all(compute.match_substring_regex(values, pattern)).as_py():
                    types[name] = "string" if kind == "date" and name in text else kind
                    break
        return {**types, **self.layout.types}

    def _found_names(self) -> tuple[str, ...]:
        if self.kind == "parquet":
            with self._opened_parquet() as file:
                names = list(file.schema_arrow.names)
        else:
            names = list(self._csv({}, "open_csv").schema.names)
            used = self._separator
            likely = max(_SEPARATORS.replace(used, ""), key=names[0].count) if names else ""
            if self.layout.separator is None and len(names) == 1 and likely in names[0]:
                raise ValueError(
                    f"the file {str(self.path)!r} has one column, {quoted(names[0])}, where its "
                    f"values are separated by {used!r}, and seems to be separated by {likely!r}; "
                    f"pass that as its separator, by --separator, or {used!r} if it really is one "
                    "column."
                )
        check_unique(names, repr(str(self.path)))
        return tuple(names)

    def _opened_parquet(self) -> Any:
        with self._explained():
            return import_module("pyarrow.parquet").ParquetFile(self.path.absolute())

    def _csv(self, types: Mapping[str, str], read: str = "read_csv") -> Any:
        """Return a CSV file, read into columns of these types by a function of pyarrow."""
        pa, csv = self._arrow, import_module("pyarrow.csv")
        plain = {"integer": pa.int64(), "float": pa.float64(), "boolean": pa.bool_()}
        plain |= {"string": pa.string(), "date": pa.date32()}
        convert = csv.ConvertOptions(
            column_types={name: plain[kind] for name, kind in types.items()},
            include_columns=list(types),
            null_values=list(self.layout.missing),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parse = csv.ParseOptions(delimiter=self._separator, newlines_in_values=True)
        how = csv.ReadOptions(use_threads=False, block_size=1 << 22)
        with self.path.open("rb") as file, self._explained():
            return getattr(csv, read)(file, how, parse, convert)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say an error of pyarrow about the file in one sentence."""
        try:
            yield
        except (self._arrow.ArrowException, OSError) as error:
            if isinstance(error, MemoryError):
                raise
            names = getattr(self, "names", ())  # none while the first line is read
            reason = re.sub(  # which counts columns
                r"CSV column #(\d+)",
                lambda match: f"column {names[int(match[1])]!r}" if names else match[0],
                on_one_line(error).rstrip("."),
            )
            raise ValueError(
                f"the file {str(self.path)!r} cannot be read as {self.kind.upper()}: {reason}; "
                "mend it, or say how it is written (--separator, --missing-value, --type)."
            ) from error


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


def write_table(file: BinaryIO, path: Path, table: Any, layout: CsvLayout) -> None:
    """Write an Arrow table to an open file, whose kind is told by the suffix of ``path``."""
    if kind_of(path) == "parquet":
        import_module("pyarrow.parquet").write_table(table, file)
        return
    pa, csv = _arrow(), import_module("pyarrow.csv")
    schema = pa.schema(  # a CSV file has no dictionaries
        [
            one.with_type(one.type.value_type) if pa.types.is_dictionary(one.type) else one
            for one in table.schema
        ]
    )
    options = csv.WriteOptions(delimiter=separator_of(path, layout))
    csv.write_csv(table.cast(schema), file, write_options=options)


def _arrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError(
            "reading and writing files needs pyarrow, which is not installed; "
            'run pip install "sklearn-puffer[cli]", or pip install ".[cli]" in a checkout.'
        ) from error
