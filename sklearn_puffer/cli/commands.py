"""What the commands do: fit, plan, check, audit, report, release, and the ledgers.

A document is shown as text, a page, Markdown or JSON; the status says whether all is well. One
release of a file is counted before its first row and whole or absent.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import joblib

import sklearn_puffer
from sklearn_puffer import (
    Ledger,
    PersonLedger,
    PufferfishNoiser,
    PufferfishRelease,
    PufferfishWarning,
    UncertifiedError,
)
from sklearn_puffer._base import __version__, listening, task
from sklearn_puffer._noiser import (
    ReleaseTransformer,
    check_stream,
    keyed_mark,
    rows_of_stream,
    types_of,
)
from sklearn_puffer._releases import check_free, growing_file
from sklearn_puffer._review import WAYS, check_renders
from sklearn_puffer._tables import CsvLayout, TableFile, TableStream, TableWriter, kind_of
from sklearn_puffer.cli.arguments import (
    FINE,
    NO_PROMISE,
    PREFIX,
    RELEASE,
    merged,
    parameters_of,
    read_settings,
    say,
    tell,
    unlisted,
)
from sklearn_puffer.noise import record_swap


def fit(asked: Any) -> int:
    """Fit on a table, write the form, and say what is guaranteed."""
    settings = read_settings(asked.settings)
    noiser = PufferfishNoiser(**_parameters(settings["noiser"], asked))
    swap = record_swap(noiser.noise) is not None
    places = _places(asked, swap)
    file = TableFile(asked.table, layout_of(settings["table"], asked))
    _learn(noiser, file)
    say(
        "\n\n".join(str(noiser.certificate_).split("\n\n")[:3])
    )  # the guarantee, the noise, what survives
    check_holds(noiser)
    form = b"" if swap else noiser.to_json().encode()
    saved = asked.form if swap else asked.noiser
    if saved is not None:
        with growing_file(saved, force=asked.force, private=True) as out:
            joblib.dump(noiser, out)
    if not swap:
        is_key = form.startswith(b'{"key_material"')
        with growing_file(asked.form, force=asked.force, private=is_key) as out:
            out.write(form)
    tell(f"wrote {', '.join(map(str, places))}; puffer report {asked.form} shows all of it")
    return 0


def _learn(noiser: PufferfishNoiser, file: TableFile) -> None:
    """Fit where the rows are, and in memory what has no place there, which is the same fit.

    What an engine cannot do, it says in words and kinds of errors of its own; in memory it can be
    done, or is refused in the words for files.
    """
    types = file.found_types()
    rows = file.lazy(types)
    if rows is not None:
        try:
            noiser.fit(rows)
        except (UncertifiedError, MemoryError):
            raise
        except Exception:  # what an engine raises is of any kind
            rows = None
    if rows is None:
        noiser.fit(file.stream(types).whole())


def _places(asked: Any, swap: bool) -> list[Path]:
    """Return the files that are written, all of which must be free before any work is done."""
    places = [Path(asked.form)]
    if swap and (places[0].suffix.lower() != ".joblib" or asked.noiser is not None):
        raise ValueError(
            f"FORM is {asked.form!r}, and a swap has no form, for JSON holds no classifier: it is "
            "saved whole; give a name that ends in .joblib as FORM, and no --noiser."
        )
    if not swap and places[0].suffix.lower() != ".json":
        raise ValueError(f"FORM is {asked.form!r}, and a form ends in .json; choose such a name.")
    if asked.noiser is not None:
        places.append(Path(asked.noiser))
        if places[1].suffix.lower() != ".joblib":
            raise ValueError(f"--noiser is {asked.noiser!r}, and must end in .joblib.")
    for place in places:
        check_free(place, force=asked.force)
    return places


def _parameters(section: dict[str, Any], asked: Any) -> dict[str, Any]:
    """Return the noiser's parameters: those of the settings, and those typed, which win."""
    found = unlisted(merged(section, asked, parameters_of("fit"), PREFIX))
    if found.get("random_state") is not None:
        raise ValueError(
            f"random_state={found['random_state']!r} makes releases that whoever knows it can "
            "undo, and a form holds no seed; leave it out."
        )
    return found


def report(asked: Any) -> int:
    """Show the report of a release, or write it; the status says whether its certificate holds."""
    check_out(asked)
    noiser = fitted(asked.form)
    told = sklearn_puffer.report(noiser, kind=asked.kind, name=asked.name, by=asked.by)
    show(told, asked)
    return FINE if told.holds else NO_PROMISE


def check_out(asked: Any) -> None:
    """Refuse a file that cannot be written, before any work is done.

    Raises
    ------
    ValueError, OSError, ModuleNotFoundError
        If it is of no kind that is known, or there already, or needs an extra.
    """
    if asked.out is None:
        return
    if Path(asked.out).suffix.lower() not in WAYS:
        raise ValueError(f"--out is {asked.out!r}, and must end in .txt, .html, .md or .json.")
    read = [getattr(asked, name, None) for name in ("form", "table", "settings")]
    if Path(asked.out).resolve() in [Path(each).resolve() for each in read if each is not None]:
        raise ValueError(f"--out is {asked.out!r}, which is read; choose another name.")
    check_free(Path(asked.out), force=asked.force)
    if Path(asked.out).suffix.lower() == ".html":
        check_renders()


def show(document: Any, asked: Any) -> None:
    """Show a document, or write it to the file that is asked for."""
    if asked.out is None:
        say(str(document))
        return
    text = WAYS[Path(asked.out).suffix.lower()](document)
    with growing_file(asked.out, force=asked.force) as out:
        out.write(text.encode("utf-8", "backslashreplace"))
    tell(f"wrote {asked.out!r}")


def check(asked: Any) -> int:
    """Show what there is to tell of the rows; the status says whether they differ."""
    check_out(asked)
    settings = read_settings(asked.settings)
    noiser = fitted(asked.form)
    if asked.sensitive and isinstance(noiser, PufferfishRelease):
        raise ValueError(
            f"{asked.form!r} is a form, which holds no distributions of secrets to compare with; "
            "leave --sensitive out, or give the noiser that `puffer fit --noiser FILE` saved."
        )
    file = TableFile(asked.table, layout_of(settings["table"], asked))
    types = {**(file.found_types() if asked.sensitive else {}), **types_of(noiser)}
    found = noiser.certificate_.check(file.stream(types).whole(), asked.sensitive)
    show(found, asked)
    return NO_PROMISE if found.drifted else FINE


def plan(asked: Any) -> int:
    """Compare settings; those of the noiser in a settings file hold for all of them."""
    check_out(asked)
    settings = read_settings(asked.settings)
    how = unlisted(merged(settings["noiser"], asked, parameters_of("plan"), PREFIX))
    if "sensitive" not in how:
        raise ValueError("plan needs --sensitive NAME, the column whose values are protected.")
    file = TableFile(asked.table, layout_of(settings["table"], asked))
    show(sklearn_puffer.plan(file.stream(file.found_types()).whole(), **how), asked)
    return 0


def audit(asked: Any) -> int:
    """Show what attackers found; the status says whether it is more than was guaranteed."""
    check_out(asked)
    settings = read_settings(asked.settings)
    how = unlisted(merged({}, asked, parameters_of("audit"), PREFIX))
    noiser = fitted(asked.form)
    check_holds(noiser)
    layout = layout_of(settings["table"], asked)
    peers: dict[str, Any] = {}
    for text in asked.peers or []:
        name, path = _two_parts(text, "--peer", "NAME=FILE", "remover=removed.csv")
        if name in peers:
            raise ValueError(f"--peer gives {name!r} twice; name each peer otherwise.")
        peers[name] = _rows_of(path, layout, noiser)
    table = _rows_of(asked.table, layout, noiser)
    found = sklearn_puffer.audit(noiser, table, peers=peers, verbose=not asked.quiet, **how)
    show(found, asked)
    return NO_PROMISE if found.findings else FINE


def _two_parts(text: str, option: str, form: str, example: str) -> tuple[str, str]:
    """Return what stands before and behind the sign of equality."""
    name, _, value = text.rpartition("=") if option == "--type" else text.partition("=")
    if not (name and value):
        raise ValueError(f"{option} {text!r} is not {form}; write it as {example}.")
    return name, value


def _rows_of(path: str, layout: CsvLayout, noiser: Any) -> Any:
    """Return the rows of a file, whose released columns have the types that were fitted."""
    file = TableFile(path, layout)
    return file.stream({**file.found_types(), **types_of(noiser)}).whole()


def create_ledger(asked: Any) -> int:
    """Start a ledger."""
    ledger = Ledger.create(asked.ledger, fitted(asked.form), datasets=asked.datasets)
    tell(f"wrote {asked.ledger!r}, for {', '.join(map(repr, ledger.datasets))}")
    return 0


def show_ledger(asked: Any) -> int:
    """Show all that is on record, and what is left of each dataset."""
    ledger = _ledger(asked)
    for entry in ledger.history():
        note = f"  {entry.note}" if entry.note else ""
        say(f"{entry.dataset}: {entry.releases} release(s){note}")
    for name in ledger.datasets:
        say(_left(ledger.left(name)))
    return 0


def left_ledger(asked: Any) -> int:
    """Show what may still be released of a dataset."""
    say(_left(_ledger(asked).left(asked.dataset)))
    return 0


def spend_ledger(asked: Any) -> int:
    """Put releases on record that are made elsewhere."""
    ledger = _ledger(asked)
    say(_left(ledger.spend(releases=asked.releases, dataset=asked.dataset, note=asked.note)))
    return 0


def _ledger(asked: Any) -> Ledger:
    return Ledger.open(asked.ledger, fitted(asked.form))


def _left(found: Any) -> str:
    return f"{found.dataset}: {found.releases} more release(s) at the noiser's own scales"


def create_persons(asked: Any) -> int:
    """Start a ledger of persons."""
    key, changes = _key(asked), asked.changes
    PersonLedger.create(asked.persons, fitted(asked.form), key=key, changes=changes)
    tell(f"wrote {asked.persons!r}")
    return 0


def migrate_persons(asked: Any) -> int:
    """Start one in which everybody has spent what a ledger of tables says."""
    noiser = fitted(asked.form)
    ledger = Ledger.open(asked.ledger, noiser)
    how = {"key": _key(asked), "dataset": asked.dataset, "changes": asked.changes}
    PersonLedger.migrate(ledger, asked.persons, noiser, **how)
    tell(f"wrote {asked.persons!r}; {asked.ledger!r} is closed")
    return 0


def show_persons(asked: Any) -> int:
    """Show what is on record."""
    say(str(_persons(asked)))
    return 0


def left_persons(asked: Any) -> int:
    """Show what may still be released of a person."""
    person = int(asked.person) if asked.integer else asked.person
    found = _persons(asked).left(person)
    say(f"{found.releases} more release(s) at the noiser's own scales; {found.released} on record")
    return 0


def _persons(asked: Any) -> PersonLedger:
    return PersonLedger.open(asked.persons, fitted(asked.form), key=_key(asked))


def _key(asked: Any) -> Path | str:
    return Path(asked.key_file) if asked.key_file is not None else f"env:{asked.key_env}"


def fitted(path: str) -> ReleaseTransformer:
    """Return what was fitted, from a form or a saved noiser.

    Raises
    ------
    ValueError, TypeError, OSError
        If that is neither.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        return PufferfishRelease.from_json(Path(path))
    if suffix not in (".joblib", ".pkl", ".pickle"):
        raise ValueError(
            f"FORM is {path!r}, and must be a form that ends in .json, or a saved noiser that ends "
            "in .joblib; `puffer fit` writes both."
        )
    found = joblib.load(path)
    if not isinstance(found, ReleaseTransformer):
        raise TypeError(f"{path!r} holds a {type(found).__name__}, and no fitted noiser.")
    return found


def check_holds(noiser: ReleaseTransformer) -> None:
    """Refuse a noiser whose certificate does not hold, whatever it is told to do then."""
    certificate = noiser.certificate_
    if not certificate.holds:
        raise UncertifiedError(
            f"the certificate does not hold, so nothing is released: the proven loss "
            f"{certificate.loss:.6g} exceeds the budget {certificate.notion.budget_name()}; "
            f"{certificate.remedy or 'use another strategy.'}"
        )


def layout_of(section: Mapping[str, Any], asked: Any) -> CsvLayout:
    """Return how CSV files are written, by the settings and the arguments.

    Raises
    ------
    TypeError, ValueError
        If a setting is not what it should be.
    """
    own = merged(section, asked, ["separator"])
    missing = own.get("missing_values", [""])
    if not isinstance(missing, list) or not all(isinstance(each, str) for each in missing):
        raise TypeError(f"missing_values must be a list of strings, got {missing!r}.")
    if asked.missing_values:
        missing = ["", *asked.missing_values]
    types = asked.types or []
    typed = dict(_two_parts(text, "--type", "COLUMN=TYPE", "zip=string") for text in types)
    known = CsvLayout(types=own.get("types", {})).types
    return CsvLayout(own.get("separator"), tuple(missing), {**known, **typed})


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
        rows = _batches(noiser, stream, how, rows)
    with growing_file(place, force=asked.force) as out:
        record()
        with listening(not asked.quiet, "release"):
            n_rows = _write(TableWriter(out, place, schema, layout), rows, file)
        if _mark(file.path) != before:
            raise ValueError(
                f"the file {asked.input!r} was changed while it was released; release it again "
                "when it is complete."
            )
    tell(f"wrote {str(place)!r}, {n_rows:,} rows")
    return 0


def _how(section: dict[str, Any], asked: Any) -> dict[str, Any]:
    """Return how to release; a key that is typed takes the place of one in the settings."""
    typed = asked.key_file is not None or asked.key_env is not None
    kept = {n: v for n, v in section.items() if not (typed and n in ("key_file", "key_env"))}
    if {"key_file", "key_env"} <= kept.keys():
        raise ValueError("the settings have both key_file and key_env; remove one of them.")
    return merged(kept, asked, [*RELEASE, "key_file", "key_env"])


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


def _released(noiser: Any, stream: TableStream, how: dict[str, Any]) -> tuple[Any, Iterator[Any]]:
    """Return types and batches of the release; of a swap, which is made here, as one table."""
    if not hasattr(noiser, "swap_"):
        reader = noiser.transform_batches(stream, **_shown(how))
        return reader.schema, iter(reader)
    (whole,) = rows_of_stream(noiser, stream, how.get("row_id"))
    whole = noiser.transform(whole, **_shown(how))
    return whole.schema, iter(whole.combine_chunks().to_batches())


def _batches(
    noiser: Any, stream: TableStream, how: dict[str, Any], rows: Iterator[Any]
) -> Iterator[Any]:
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


def _counted(noiser: Any, stream: TableStream, how: dict[str, Any], keying: Any) -> Iterator[Any]:
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


def _write(writer: TableWriter, rows: Iterator[Any], file: TableFile) -> int:
    """Write the released batches, and return how many rows they have."""
    n_rows = n_read = 0
    with task("bytes read", file.size) as done:
        for batch in rows:
            writer.write(batch)
            n_rows += batch.num_rows
            done(file.n_read - n_read)
            n_read = file.n_read
    writer.close()
    return n_rows


def _record(noiser: Any, stream: TableStream, how: dict[str, Any], file: TableFile) -> Any:
    """Return what puts the release on record, after a look at whether it can be made at all."""
    if how.get("ledger") is None:
        return lambda: None
    ledger = Ledger.open(how["ledger"], noiser)
    check_stream(noiser, stream)  # a file that would be refused costs nothing
    dataset, note = how.get("dataset"), how.get("note", "")
    if (mark := _same_release(noiser, how, file)) is not None:
        note = f"{note} [keyed {mark}]".strip()
        name = ledger.datasets[0] if dataset is None else dataset
        if any((entry.dataset, entry.note) == (name, note) for entry in ledger.history()):
            tell("this keyed release is on record already, and is made again as it was")
            return lambda: None
    return lambda: ledger.spend(dataset=dataset, note=note)


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
