"""The commands: fit, plan, check, audit, report, release, and the ledgers.

A document is shown as text, or written as text, HTML or JSON. A release is counted before
its first row, and its file is complete or absent.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shlex
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import sklearn_puffer
from sklearn_puffer import (
    Ledger,
    PersonLedger,
    PufferfishRelease,
    PufferfishWarning,
)
from sklearn_puffer._base import listening
from sklearn_puffer._codes import identifier_kind
from sklearn_puffer._documents import WAYS, __version__, check_free, growing_file, templates
from sklearn_puffer._release import TableRelease, keyed_mark, types_of
from sklearn_puffer._review import Plan
from sklearn_puffer._tables import Faults, first_values, frame_table
from sklearn_puffer._words import listed, on_one_line
from sklearn_puffer.cli.files import CsvLayout, TableFile, kind_of, write_table
from sklearn_puffer.cli.settings import (
    FINE,
    KEY_FILE,
    MECHANISMS,
    NAMES,
    NO_PROMISE,
    PREFIX,
    as_typed,
    key_made,
    parameters_of,
    say,
    tell,
    text_of,
    told,
    typed,
)


def fit(args: Any) -> None:
    """Fit to a table, write the release artifact, and show the certificate."""
    parameters = _parameters(args)
    check_sensitive("fit", parameters)
    noiser = getattr(sklearn_puffer, MECHANISMS[args.mechanism])(**parameters)
    _check_new("ARTIFACT", args.artifact, (".json",), {}, args)
    file = TableFile(args.table, layout_of(args))
    _check_repeated(args, file.names)
    _check_label(args, file.names)
    text = {*_named(parameters, NAMES - _DATED), *filter(None, [args.label])}
    table, y = _apart(file.rows(file.found_types(text)), args.label, _named(parameters, NAMES))
    try:
        noiser.fit(table, y)
    except ValueError as error:
        if command := _mended(args, table, parameters, str(error)):
            error.add_note(f"to release the other columns: {on_one_line(command)}")
        raise
    say(text_of(noiser.certificate_))
    artifact = noiser.to_json().encode()  # raises if the certificate does not hold
    private = args.mechanism != "noise"  # the others hold what only the steward may see
    with growing_file(args.artifact, force=args.force, private=private) as out:
        out.write(artifact)
    words, ids = ["puffer", "release", args.artifact, args.table, "released.csv"], _ids(parameters)
    words += _layout_words(args)
    if args.mechanism == "swap" and len(ids) == 1:
        words += ["--row-id", *ids, "--key-file", KEY_FILE]  # the same again, if it is repeated
    released = on_one_line(shlex.join(words))
    page = on_one_line(shlex.join(["puffer", "report", args.artifact]))
    # a swap learns nothing of its rows, so that any serve
    held = args.table if args.mechanism == "swap" else "held_out.csv (rows that fit has not seen)"
    tell(f"wrote {args.artifact}; {page} shows all of it")
    tell(f"for a page to sign, after an attack: {page} --out report.html --audit {held}")
    if KEY_FILE in words and not Path(KEY_FILE).exists():
        tell(key_made(KEY_FILE))
    tell(f"to release by it: {released}")


def _check_label(args: Any, columns: Sequence[str]) -> None:
    """Refuse a label that is no column, or that the mechanism has no use for."""
    if args.label is None:
        return
    if args.mechanism != "typical-rows":
        raise ValueError(
            f"--label {args.label!r} groups typical rows, and {args.mechanism} has none; leave it "
            "out, or take --mechanism typical-rows."
        )
    if args.label not in columns:
        raise ValueError(
            f"--label names column {args.label!r}, and those of {args.table!r} are "
            f"{listed(list(columns), 10)}; name one of them."
        )


def _apart(table: Any, label: str | None, named: Collection[str]) -> tuple[Any, Any]:
    """Return a table and its label, which stays in the table only where another option names it."""
    if label is None:
        return table, None
    return table if label in named else table.drop_columns([label]), table[label]


def _ids(parameters: Mapping[str, Any]) -> set[str]:
    """Return the columns of ids that are another one in each row."""
    return set() if parameters.get("groups") else _named(parameters, ["ids"])


def _mended(args: Any, table: Any, parameters: Mapping[str, Any], error: str) -> str:
    """Return the command that releases what can be, without what the error names; "" if none."""
    named, source = _named(parameters, NAMES), frame_table(table)
    columns = [name for name in table.column_names if name not in named]
    read = Faults().of(lambda name: (name, first_values(source, name)), columns)
    values = dict(read)  # without what cannot be read
    public = [name for name in values if not identifier_kind(values[name])]
    absent = [name for name in public if values[name].n_missing and args.mechanism == "noise"]
    mended = [name for name in columns if name not in public or name in absent]
    if parameters.get("public") or not any(repr(name) in error for name in mended):
        return ""
    words = [word for name in public for word in ("--public", name)]
    words += ["--missing", "propagate"] * (bool(absent) and "missing" not in parameters)
    if args.mechanism == "swap" and not parameters.get("ids"):
        named_once = [name for name in mended if name in values and _differs(values[name])]
        words += [word for name in named_once[:1] for word in ("--ids", name)]
    return shlex.join(["puffer", *args.words, *words])


def _differs(values: Any) -> bool:
    """Return whether a column, which holds no dates, has another value in each row."""
    different = len({*values.present.tolist()}) == len(values)
    return different and identifier_kind(values) != "date"


_DATED = {"public", "known"}  # columns of CSV files that may hold dates; those of others are text


def _named(parameters: Mapping[str, Any], options: Iterable[str]) -> set[str]:
    """Return the columns that some parameters name."""
    given = (parameters.get(option) for option in options)
    return {name for each in given for name in ([each] if isinstance(each, str) else each or ())}


def check_sensitive(command: str, parameters: Mapping[str, Any]) -> None:
    """Refuse a table of which nothing is sensitive."""
    if parameters.get("sensitive") is None:
        raise ValueError(
            f"{command} needs --sensitive NAME, the column whose values are protected."
        )


def _check_repeated(args: Any, columns: Sequence[str]) -> None:
    """Refuse several columns that are typed as one name."""
    for option in NAMES:
        for text in getattr(args, f"{PREFIX}{option}", None) or []:
            names = [name.strip() for name in text.split(",")]
            if text not in columns and {*names} <= {*columns}:
                each = " ".join(f"--{option} {shlex.quote(name)}" for name in names)
                raise ValueError(
                    f"--{option} names one column, {text!r}, which the table does not have; "
                    f"repeat it for several: {each}."
                )


def _parameters(args: Any) -> dict[str, Any]:
    """Return the typed parameters, all of which the estimator must have."""
    names = told(MECHANISMS[args.mechanism])
    given = typed(args, {name for kind in MECHANISMS.values() for name in told(kind)})
    if strange := [name for name in given if name not in names]:
        raise ValueError(
            f"--{strange[0].replace('_', '-')} is no parameter of {args.mechanism}; leave it out, "
            "or choose another --mechanism."
        )
    if given.get("random_state") is not None:
        raise ValueError(
            f"random_state={given['random_state']!r} makes releases that can be undone, and a "
            "release artifact holds no seed; leave it out."
        )
    return given


def report(args: Any) -> int:
    """Show or write the report of a release; the status is 1 if it has a finding."""
    check_out(args)
    if args.kind == "external" and args.audit:
        raise ValueError("--audit is for who signs; leave it out for recipients.")
    noiser, found = fitted(args.artifact), None
    if args.audit is not None:
        rows = _rows_of(args.audit, layout_of(args), types_of(noiser))
        found = sklearn_puffer.audit(noiser, rows, task=args.task, verbose=1)
    about = {"kind": args.kind, "name": args.name, "by": args.by}
    document = sklearn_puffer.report(noiser, found, **about)
    show(document, args)
    well = document.holds and not (found is not None and found.findings)
    return FINE if well else NO_PROMISE


def _rows_of(path: str, layout: CsvLayout, types: Mapping[str, Any]) -> Any:
    """Return the rows of a file, with the fitted ``types`` before those that are found."""
    file = TableFile(path, layout)
    return file.rows({**file.found_types(file.names), **types})


def check_out(args: Any) -> None:
    """Refuse a page that cannot be written, or needs an extra, before any work."""
    names = ("ARTIFACT", "TABLE", "--audit")
    read = {name: getattr(args, name.strip("-").lower(), None) for name in names}
    _check_new("--out", args.out, tuple(WAYS), read, args)
    if args.out is not None and Path(args.out).suffix.lower() == ".html":
        templates()


def _check_new(
    what: str, path: str | None, ends: Sequence[str], read: Mapping[str, str | None], args: Any
) -> None:
    """Refuse an output of another kind, or that is an input, or exists."""
    if path is None:
        return
    if ends and Path(path).suffix.lower() not in ends:
        kinds = " or ".join(filter(None, [", ".join(ends[:-1]), ends[-1]]))
        raise ValueError(f"{what} is {path!r}, and must end in {kinds}.")
    for name, other in read.items():
        if other is not None and _is_same(Path(path), Path(other)):
            raise ValueError(f"{what} is {name} itself ({path!r}); choose another name.")
    check_free(Path(path), force=args.force)


def show(document: Any, args: Any) -> None:
    """Show a document, or write it to --out."""
    if args.out is None:
        say(text_of(document))
        return
    text = WAYS[Path(args.out).suffix.lower()](document)
    with growing_file(args.out, force=args.force) as out:
        out.write(text.encode("utf-8", "backslashreplace"))
    tell(f"wrote {args.out!r}")


def check(args: Any) -> int:
    """Test rows for drift; the status is 1 if they have drifted."""
    check_out(args)
    noiser = fitted(args.artifact)
    if noiser._fitted.mechanism.untested or not hasattr(noiser.certificate_, "check"):
        raise ValueError(
            f"{args.artifact!r} releases no noise, and holds no distribution to compare new rows "
            "with; run `puffer audit` on new rows with their secrets, or fit again on them."
        )
    file = TableFile(args.table, layout_of(args))
    drift = noiser.certificate_.check(file.rows(types_of(noiser)))
    show(drift, args)
    return NO_PROMISE if drift.drifted else FINE


class _TypedPlan(Plan):
    """A plan whose advice names options, in each kind of file."""

    def advice(self) -> str:
        return as_typed(super().advice())


def plan(args: Any) -> None:
    """Compare estimators; each takes the settings that it has."""
    check_out(args)
    how = typed(args, parameters_of("plan"))
    check_sensitive("plan", how)
    file = TableFile(args.table, layout_of(args))
    rows = file.rows(file.found_types(_named(how, {*NAMES, "task"} - _DATED)))
    _check_repeated(args, rows.column_names)
    found = sklearn_puffer.plan(rows, **how)
    typed_notes = tuple(map(as_typed, found.notes))
    show(_TypedPlan(**{**vars(found), "notes": typed_notes}), args)
    if (k := found.proposed) is not None:
        tell(f"to fit row {k}: {on_one_line(_fit_of(args, found.trials[k]))}")
    else:
        tell(
            "no command is told: no row that holds changes less than constants do; try --epsilon "
            f"{2 * found.epsilon:g}, or fewer columns as --public."
        )


def _fit_of(args: Any, candidate: Any) -> str:
    """Return the command that fits a candidate."""
    mechanism = next(m for m, kind in MECHANISMS.items() if kind == candidate.kind.__name__)
    words = ["puffer", "fit", args.table, "release.json", "--mechanism", mechanism]
    words += _layout_words(args)
    for name, value in candidate.params.items():
        option = f"--{name.replace('_', '-')}"
        if name in NAMES:
            each_typed = vars(args)[f"{PREFIX}sensitive"] if name == "sensitive" else value
            words += [word for each in each_typed for word in (option, each)]  # secrets with bins
        else:
            words += [option, value if isinstance(value, str) else json.dumps(value)]
    words += [] if candidate.label_column is None else ["--label", str(candidate.label_column)]
    return shlex.join(words)


def _layout_words(args: Any) -> list[str]:
    """Return the options on CSV files, as they are typed."""
    words = ["--separator", args.separator] if args.separator else []
    for option, texts in (("--missing-value", args.missing_values), ("--type", args.types)):
        words += [word for text in texts or () for word in (option, text)]
    return words


def audit(args: Any) -> int:
    """Audit a release; the status is 1 if attackers found more than is guaranteed."""
    check_out(args)
    how = typed(args, parameters_of("audit"))
    noiser = fitted(args.artifact)
    rows = _rows_of(args.table, layout_of(args), types_of(noiser))
    result = sklearn_puffer.audit(noiser, rows, verbose=not args.quiet, **how)
    show(result, args)
    return NO_PROMISE if result.findings else FINE


def create_ledger(args: Any) -> None:
    """Create a ledger."""
    ledger = Ledger.create(args.ledger, fitted(args.artifact), datasets=args.datasets)
    named = f", for --dataset {' and '.join(map(shlex.quote, ledger.datasets))}"
    tell(f"wrote {args.ledger!r}{named * bool(args.datasets)}")


def show_ledger(args: Any) -> None:
    """Show the history, and how many releases each dataset has left."""
    ledger = _ledger(args)
    for entry in ledger.history():
        note = f"  {entry.note}" if entry.note else ""
        say(f"{entry.dataset}: {entry.releases} release(s){note}")
    for name in ledger.datasets:
        say(_left(ledger.left(name)))


def spend_ledger(args: Any) -> None:
    """Record releases that are made elsewhere."""
    ledger = _ledger(args)
    say(_left(ledger.spend(releases=args.releases, dataset=args.dataset, note=args.note)))


def _ledger(args: Any) -> Ledger:
    return Ledger.open(args.ledger, fitted(args.artifact))


def _left(left: Any) -> str:
    return f"{left.dataset}: {left.releases} more release(s)"


def create_persons(args: Any) -> None:
    """Create a ledger of persons."""
    key, changes = _key(args), args.changes
    PersonLedger.create(args.persons, fitted(args.artifact), key=key, changes=changes)
    tell(f"wrote {args.persons!r}")


def show_persons(args: Any) -> None:
    """Show a ledger of persons."""
    say(str(_persons(args)))


def left_persons(args: Any) -> None:
    """Show how many releases a person has left."""
    person = int(args.person) if args.integer else args.person
    left = _persons(args).left(person)
    say(f"{left.releases} more release(s); {left.released} on record")


def _persons(args: Any) -> PersonLedger:
    return PersonLedger.open(args.persons, fitted(args.artifact), key=_key(args))


def _key(args: Any) -> Path | str | None:
    if args.key_env is not None:
        return f"env:{args.key_env}"
    return None if args.key_file is None else Path(args.key_file)


def fitted(path: str) -> PufferfishRelease:
    """Return the fitted release of an artifact."""
    return PufferfishRelease.from_json(Path(path))


def layout_of(args: Any) -> CsvLayout:
    """Return the layout of CSV files, by the arguments."""
    types = {}
    for text in args.types or []:
        name, _, kind = text.rpartition("=")
        if not (name and kind):
            raise ValueError(f"--type {text!r} is not COLUMN=TYPE; write it as zip=string.")
        types[name] = kind
    return CsvLayout(args.separator, ("", *(args.missing_values or ())), types)


def release(args: Any) -> None:
    """Release a file into another one."""
    layout, keying = layout_of(args), _keying(args)
    path, read = Path(args.output), {"INPUT": args.input, "ARTIFACT": args.artifact}
    kind_of(path)
    read |= {"the ledger": args.ledger, "the ledger of persons": args.persons}
    _check_new("OUTPUT", args.output, (), read, args)
    noiser = fitted(args.artifact)
    _warn_uncounted(noiser, args)
    file = TableFile(args.input, layout)
    before = _version_of(file.path)
    # a swap reads secrets, too, with types found as in fit
    found = {} if noiser._fitted.mechanism.by_row else file.found_types(file.names)
    table = file.rows({**found, **types_of(noiser)})
    noiser._fitted.rules.check_columns(table.column_names)
    kept = table.select([str(name) for name in noiser._fitted.rules.order])
    write_table(io.BytesIO(), path, kept.slice(0, 0), layout)  # types for the file
    noiser.verbose = 0  # progress is shown here
    noiser.unknown = noiser.unknown if args.unknown is None else args.unknown
    # of a swap before the certificate is that of the rows, and no longer that of the ledger
    record = _record(noiser, args, keying, file)
    with growing_file(path, force=args.force) as out:
        with listening(not args.quiet, "release"):
            released = _released(noiser, table, args, keying)
        record()
        write_table(out, path, released, layout)
        if _version_of(file.path) != before:
            raise ValueError(
                f"the file {args.input!r} was changed while it was released; release it again "
                "when it is complete."
            )
    if not noiser._fitted.mechanism.by_row:
        say(text_of(noiser.certificate_))  # of this table
    tell(f"wrote {str(path)!r}, {released.num_rows:,} rows")


def _warn_uncounted(noiser: TableRelease, args: Any) -> None:
    """Say what another release of the same rows, which nothing counts, would do."""
    by_row, keyed = noiser._fitted.mechanism.by_row, _key(args) is not None
    if args.ledger or args.persons or (by_row and keyed):  # unchanged rows come out the same
        return
    sentence = (
        "nothing counts this swap, and with another one of some of these people, in any file, it "
        "tells more; count it in a ledger of them (--ledger, by puffer ledger create)."
    )
    if not keyed:
        sentence = (
            "this swap has no key and cannot be made again, and with another one of some of these "
            "people it tells more; keep this output, and release them no second time (--ledger "
            "refuses that)."
        )
    if by_row:
        why = "--row-id without a key" if args.row_id else "without --row-id and a key"
        sentence = (
            f"{why} each run draws anew, nothing counts this one, and the certificate is for "
            f"{noiser.certificate_.releases} release(s) of a row; use --ledger, or --row-id and "
            "--key-file to draw the same again."
        )
    warnings.warn(sentence, PufferfishWarning, stacklevel=2)


def _keying(args: Any) -> dict[str, Any]:
    key = _key(args)
    if key is not None and args.row_id is None:
        raise ValueError(
            "a key is given without --row-id, and draws by a key need ids; name the column of "
            "ids, or leave the key out if there are none."
        )
    keying = {"row_id": args.row_id, "key": key, "release": args.release}
    return keying | ({} if args.row_id is None else {"dataset": args.dataset or ""})


def _is_same(path: Path, other: Path) -> bool:
    if path.exists() and other.exists():
        return os.path.samefile(path, other)
    return path.resolve() == other.resolve()


def _version_of(path: Path) -> tuple[int, ...]:
    """Return the state of a file, which changes when it is written to."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _released(noiser: TableRelease, table: Any, args: Any, keying: dict[str, Any]) -> Any:
    """Return the released table, counted by a ledger of persons if there is one."""
    if args.persons is None:
        return noiser.transform(table, **keying)
    if not noiser._fitted.mechanism.by_row:
        raise ValueError(
            "--persons counts rows that are released one by one, and a swap exchanges a whole "
            "table; leave --persons out."
        )
    if None in (keying["row_id"], keying["key"]):
        raise ValueError(
            "--persons counts what each has spent by ids and a key; give --row-id, and --key-file "
            "or --key-env."
        )
    more = {name: value for name, value in keying.items() if name != "key"}
    more |= {"exhausted": "withhold" if args.withhold else "raise", "note": args.note}
    ledger = PersonLedger.open(args.persons, noiser, key=keying["key"])
    return ledger.transform(noiser, table, **more)


def _record(noiser: TableRelease, args: Any, keying: dict[str, Any], file: TableFile) -> Any:
    """Return a function that records the release; refuse first what cannot be released."""
    if args.ledger is None:
        return lambda: None
    ledger = Ledger.open(args.ledger, noiser)
    dataset, note = args.dataset, args.note
    if keying["key"] is not None:
        # two runs share this digest of all that the released values depend on, if they make the
        # same release, to the last bit
        with file.path.open("rb") as data:
            content = hashlib.file_digest(data, "sha256").hexdigest()
        layout = file.layout
        read = (file.kind, layout.separator, sorted(layout.missing), sorted(layout.types.items()))
        what = repr((__version__, content, read, noiser.unknown))
        note = f"{note} [keyed {keyed_mark(noiser, what, **keying)}]".strip()
        name = ledger.datasets[0] if dataset is None else dataset
        if any((entry.dataset, entry.note) == (name, note) for entry in ledger.history()):
            tell("this keyed release is on record already, and is repeated as it was")
            return lambda: None
    return lambda: ledger.spend(dataset=dataset, note=note)
