"""`puffer release`: one release of a file, counted before its first row and whole or absent."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sklearn_puffer import Ledger, PersonLedger, PufferfishWarning
from sklearn_puffer._base import __version__, listening
from sklearn_puffer._noiser import check_stream, keyed_mark, rows_of_stream, types_of
from sklearn_puffer._releases import check_free, growing_file
from sklearn_puffer._tables import Layout, Stream, TableFile, TableWriter, kind_of
from sklearn_puffer.cli.commands import check_holds, fitted, layout_of
from sklearn_puffer.cli.settings import RELEASE, merged, read_settings
from sklearn_puffer.cli.speech import Progress, tell

_TOLD = 5  # warnings: each is of a part of the file


def release(asked: Any) -> int:
    """Release a file into another one."""
    settings = read_settings(asked.settings)
    layout = layout_of(settings["table"], asked)
    how = _how(settings["release"], asked)
    place = _place(asked, how)
    noiser = fitted(asked.form)
    check_holds(noiser)
    file = TableFile(asked.input, layout)
    before = _mark(file.path)
    stream = file.stream(types_of(noiser))
    noiser.verbose = 0  # one way to tell how far it is
    noiser.unknown = how.get("unknown", noiser.unknown)
    with listening(not asked.quiet, "a look at the file"):
        schema, rows = _released(noiser, stream, how)
        TableWriter(io.BytesIO(), place, schema, layout).close()  # types for the file
        record = _record(noiser, stream, how, file)
        rows = _rows(noiser, stream, how, rows)
    with growing_file(place, force=asked.force) as out:
        record()
        _write(out, place, (schema, rows), file, layout, asked.quiet)
        if _mark(file.path) != before:
            raise ValueError(
                f"the file {asked.input!r} was changed while it was released; release it again "
                "when it is complete."
            )
    tell(f"wrote {str(place)!r}")
    return 0


def _how(section: dict[str, Any], asked: Any) -> dict[str, Any]:
    """Return how to release; a key that is typed takes the place of one in the settings."""
    typed = asked.key_file is not None or asked.key_env is not None
    kept = {n: v for n, v in section.items() if not (typed and n in ("key_file", "key_env"))}
    if {"key_file", "key_env"} <= kept.keys():
        raise ValueError("the settings have both key_file and key_env; remove one of them.")
    return merged(kept, asked, RELEASE)


def _keying(how: dict[str, Any]) -> dict[str, Any]:
    key: Any = None
    if how.get("key_file") is not None:
        key = Path(how["key_file"])
    if how.get("key_env") is not None:
        key = f"env:{how['key_env']}"
    keyed = how.get("row_id") is not None
    if key is not None and not keyed:
        raise ValueError(
            "a key is given without --row-id, and keyed noise is drawn for an id; name the column "
            "of ids."
        )
    own = {"row_id": how.get("row_id"), "key": key, "release": how.get("release", 0)}
    return own | ({"dataset": how.get("dataset", "")} if keyed else {})


def _shown(how: dict[str, Any]) -> dict[str, Any]:
    """Return the same for a look at the types, where a ledger of persons counts releases."""
    return _keying(how) | ({"release": 0} if how.get("persons") is not None else {})


def _place(asked: Any, how: dict[str, Any]) -> Path:
    """Return where the output goes, which must not be in the place of anything that is read."""
    place = Path(asked.output)
    kind_of(place)
    read = {"INPUT": asked.input, "FORM": asked.form, "the ledger": how.get("ledger")}
    for what, other in {**read, "the ledger of persons": how.get("persons")}.items():
        if other is not None and _is_same(place, Path(other)):
            raise ValueError(f"OUTPUT is {what} itself ({asked.output!r}); choose another name.")
    check_free(place, force=asked.force)
    return place


def _is_same(place: Path, other: Path) -> bool:
    if place.exists() and other.exists():
        return os.path.samefile(place, other)
    return place.resolve() == other.resolve()


def _mark(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is written to."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _released(noiser: Any, stream: Stream, how: dict[str, Any]) -> tuple[Any, Iterator[Any]]:
    """Return types and batches of the release; of a swap, which is made here, as one table."""
    if not hasattr(noiser, "swap_"):
        reader = noiser.transform_batches(stream, **_shown(how))
        return reader.schema, iter(reader)
    (whole,) = rows_of_stream(noiser, stream, how.get("row_id"))
    whole = noiser.transform(whole, **_shown(how))
    return whole.schema, iter(whole.combine_chunks().to_batches())


def _rows(noiser: Any, stream: Stream, how: dict[str, Any], rows: Iterator[Any]) -> Iterator[Any]:
    """Return the released batches; of a ledger of persons, each on record when it comes."""
    if how.get("persons") is None:
        return rows
    if how.get("ledger") is not None:
        raise ValueError(
            "ledger and persons are both given, and count a release twice; give one of them."
        )
    check_stream(noiser, stream)
    tables = _counted(noiser, stream, how, _keying(how))
    return (batch for table in tables for batch in table.combine_chunks().to_batches())


def _counted(noiser: Any, stream: Stream, how: dict[str, Any], keying: Any) -> Iterator[Any]:
    """Yield released tables, each when all of its persons' parts are on record."""
    if keying["row_id"] is None or keying["key"] is None:
        raise ValueError(
            "persons counts what each has spent by ids and a key; give --row-id, and --key-file or "
            "--key-env."
        )
    own = {name: value for name, value in keying.items() if name != "key"}
    exhausted = "withhold" if how.get("withhold") else "raise"
    more = {**own, "exhausted": exhausted, "note": how.get("note", "")}
    ledger = PersonLedger.open(how["persons"], noiser, key=keying["key"])
    return _each(ledger, noiser, rows_of_stream(noiser, stream, own["row_id"]), more)


def _each(ledger: PersonLedger, noiser: Any, tables: Iterator[Any], more: Any) -> Iterator[Any]:
    told: list[str] = []
    for table in tables:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = ledger.transform(noiser, table, **more)
        told += [str(each.message) for each in caught]
        yield found
    for text in list(dict.fromkeys(told))[:_TOLD]:
        warnings.warn(text, PufferfishWarning, stacklevel=2)


def _write(
    out: Any,
    place: Path,
    released: tuple[Any, Iterator[Any]],
    file: TableFile,
    layout: Layout,
    quiet: bool,
) -> None:
    progress = Progress("release", quiet)
    schema, rows = released
    writer = TableWriter(out, place, schema, layout)
    for batch in rows:
        writer.write(batch)
        progress.add(batch.num_rows, file.done)
    writer.close()
    progress.end()


def _record(noiser: Any, stream: Stream, how: dict[str, Any], file: TableFile) -> Any:
    """Return what puts the release on record, after a look at whether it can be made at all."""
    if how.get("ledger") is None:
        return lambda: None
    ledger = Ledger.open(how["ledger"], noiser)
    check_stream(noiser, stream)  # a file that would be refused costs nothing
    dataset, note = how.get("dataset"), how.get("note", "")
    if (mark := _same_release(noiser, how, file)) is not None:
        note = f"{note} [keyed {mark}]".strip()
        if _is_on_record(ledger, dataset, note):
            tell("this keyed release is on record already, and is made again as it was")
            return lambda: None
    return lambda: ledger.spend(dataset=dataset, note=note)


def _is_on_record(ledger: Ledger, dataset: str | None, note: str) -> bool:
    name = ledger.datasets[0] if dataset is None else dataset
    return any((entry.dataset, entry.note) == (name, note) for entry in ledger.history())


def _same_release(noiser: Any, how: dict[str, Any], file: TableFile) -> str | None:
    """Return what two runs have in common that make the same release, to the last bit.

    That is all that the values and ids of the rows, and what becomes of them, are functions of.
    """
    own = _keying(how)
    if own["key"] is None:
        return None
    with file.path.open("rb") as data:
        content = hashlib.file_digest(data, "sha256").hexdigest()
    layout = file.layout
    read = (file.kind, layout.separator, sorted(layout.missing), sorted(layout.types.items()))
    what = repr((__version__, content, read, noiser.unknown))
    return keyed_mark(noiser, what, **own)
