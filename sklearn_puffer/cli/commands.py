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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib

import sklearn_puffer
from sklearn_puffer import (
    Ledger,
    PersonLedger,
    PufferfishRelease,
    PufferfishWarning,
    UncertifiedError,
)
from sklearn_puffer._base import listening
from sklearn_puffer._documents import WAYS, __version__, check_free, growing_file, templates
from sklearn_puffer._release import TableRelease, keyed_mark, types_of
from sklearn_puffer.cli.files import CsvLayout, TableFile, kind_of, write_table
from sklearn_puffer.cli.settings import (
    FINE,
    MECHANISMS,
    NAMES,
    NO_PROMISE,
    PREFIX,
    RELEASE,
    check_there,
    merged,
    parameters_of,
    read_settings,
    say,
    tell,
    told,
)


def fit(args: Any) -> None:
    """Fit to a table, write the release artifact, and show the certificate."""
    settings = read_settings(args.settings)
    mechanism = _mechanism(settings, args)
    name, section = MECHANISMS[mechanism]
    parameters = _parameters(settings[section], args, mechanism)
    check_sensitive("fit", parameters)
    noiser = getattr(sklearn_puffer, name)(**parameters)
    _check_new("ARTIFACT", args.artifact, (".json",), {}, args)
    _check_new("--noiser", args.noiser, (".joblib",), {}, args)
    file = TableFile(args.table, layout_of(settings["table"], args))
    _check_repeated(args, file.names)
    noiser.fit(file.rows(file.found_types()))
    say(str(noiser.certificate_))
    check_holds(noiser)
    artifact = noiser.to_json().encode()
    if args.noiser is not None:
        with growing_file(args.noiser, force=args.force, private=True) as out:
            joblib.dump(noiser, out)
    private = mechanism != "noise"  # artifacts of the others hold what only the steward may see
    with growing_file(args.artifact, force=args.force, private=private) as out:
        out.write(artifact)
    paths = ", ".join(filter(None, (args.artifact, args.noiser)))
    tell(f"wrote {paths}; puffer report {args.artifact} shows all of it")


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


def _mechanism(settings: Mapping[str, Any], args: Any) -> str:
    """Return the mechanism of --mechanism, or that whose section the settings have."""
    named = [name for name, (_, section) in MECHANISMS.items() if settings[section]]
    mechanism = args.mechanism or (named[0] if named else "noise")
    other = [name for name in named if name != mechanism]
    if other:
        section = MECHANISMS[other[0]][1]
        raise ValueError(
            f"the settings have [{section}], and {mechanism} is fitted; remove that section, or "
            f"fit with --mechanism {other[0]}."
        )
    return str(mechanism)


def _parameters(section: dict[str, Any], args: Any, mechanism: str) -> dict[str, Any]:
    """Return the estimator's parameters: those of the settings, overridden by arguments."""
    names = told(MECHANISMS[mechanism][0])
    typed = [name.removeprefix(PREFIX) for name, value in vars(args).items() if value is not None]
    others = {name for kind, _ in MECHANISMS.values() for name in told(kind)} - names.keys()
    if strange := [name for name in typed if name in others]:
        raise ValueError(
            f"--{strange[0].replace('_', '-')} is no parameter of {mechanism}; leave it out, or "
            "choose another --mechanism."
        )
    parameters = merged(section, args, names, PREFIX)
    if parameters.get("random_state") is not None:
        raise ValueError(
            f"random_state={parameters['random_state']!r} makes releases that can be undone, and a "
            "release artifact holds no seed; leave it out."
        )
    return parameters


def report(args: Any) -> int:
    """Show or write the report of a release; the status is 1 if it has a finding."""
    check_out(args)
    settings = read_settings(args.settings)
    if args.kind == "external" and args.audit:
        raise ValueError("--audit is for who signs; leave it out for recipients.")
    noiser, found = fitted(args.artifact), None
    if args.audit is not None:
        check_holds(noiser)
        rows = _rows_of(args.audit, layout_of(settings["table"], args), types_of(noiser))
        found = sklearn_puffer.audit(noiser, rows, task=args.task, verbose=1)
    about = {"kind": args.kind, "name": args.name, "by": args.by}
    document = sklearn_puffer.report(noiser, found, **about)
    show(document, args)
    well = document.holds and not (found is not None and found.findings)
    return FINE if well else NO_PROMISE


def _rows_of(path: str, layout: CsvLayout, types: Mapping[str, Any] | None = None) -> Any:
    """Return the rows of a file, with ``types`` before those that are found."""
    file = TableFile(path, layout)
    return file.rows({**file.found_types(), **(types or {})})


def check_out(args: Any) -> None:
    """Refuse a page that cannot be written, or needs an extra, before any work."""
    names = ("ARTIFACT", "TABLE", "--settings", "--audit")
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
        say(str(document))
        return
    text = WAYS[Path(args.out).suffix.lower()](document)
    with growing_file(args.out, force=args.force) as out:
        out.write(text.encode("utf-8", "backslashreplace"))
    tell(f"wrote {args.out!r}")


def check(args: Any) -> int:
    """Test rows for drift; the status is 1 if they have drifted."""
    check_out(args)
    settings = read_settings(args.settings)
    noiser = fitted(args.artifact)
    if noiser._fitted.mechanism.untested or not hasattr(noiser.certificate_, "check"):
        raise ValueError(
            f"{args.artifact!r} releases no noise, and holds no distribution to compare new rows "
            "with; run `puffer audit` on new rows with their secrets, or fit again on them."
        )
    file = TableFile(args.table, layout_of(settings["table"], args))
    drift = noiser.certificate_.check(file.rows(types_of(noiser)))
    show(drift, args)
    return NO_PROMISE if drift.drifted else FINE


def plan(args: Any) -> None:
    """Compare estimators; each takes the settings that it has."""
    check_out(args)
    settings = read_settings(args.settings)
    sections = [settings[section] for _, section in MECHANISMS.values()]
    every = {name: value for section in sections for name, value in section.items()}
    how = merged(every, args, parameters_of("plan"), PREFIX)
    check_sensitive("plan", how)
    rows = _rows_of(args.table, layout_of(settings["table"], args))
    _check_repeated(args, rows.column_names)
    found = sklearn_puffer.plan(rows, **how)
    show(found, args)
    fits = (_fit_of(args, row) for row in found.trials if row.is_useful(found.bare))
    if (command := next(filter(None, fits), None)) is not None:
        tell(f"to fit the best row that a command can fit: {command}")
    else:
        tell(
            "no command is told: no row that holds, and that a command can fit, changes less than "
            "constants do; try a larger --epsilon, or fewer columns as --public."
        )


def _fit_of(args: Any, candidate: Any) -> str | None:
    """Return the command that fits a candidate; None if it has a label, or secrets in bins."""
    named = {name: candidate.params.get(name) for name in NAMES}
    several = [list(names) for names in named.values() if names is not None]
    if candidate.label_column is not None or isinstance(named["sensitive"], Mapping):
        return None
    if not all(isinstance(name, str) for names in several for name in names):
        return None
    mechanism = next(m for m, (kind, _) in MECHANISMS.items() if kind == candidate.kind.__name__)
    words = ["puffer", "fit", args.table, "release.json", "--mechanism", mechanism]
    words += ["--separator", args.separator] if args.separator else []
    for option, texts in (("--missing-value", args.missing_values), ("--type", args.types)):
        words += [word for text in texts or () for word in (option, text)]
    for name, value in candidate.params.items():
        option = f"--{name.replace('_', '-')}"
        if name in NAMES:
            words += [word for each in value for word in (option, each)]
        else:
            words += [option, value if isinstance(value, str) else json.dumps(value)]
    return shlex.join(words)


def audit(args: Any) -> int:
    """Audit a release; the status is 1 if attackers found more than is guaranteed."""
    check_out(args)
    settings = read_settings(args.settings)
    how = merged({}, args, parameters_of("audit"), PREFIX)
    noiser = fitted(args.artifact)
    check_holds(noiser)
    rows = _rows_of(args.table, layout_of(settings["table"], args), types_of(noiser))
    result = sklearn_puffer.audit(noiser, rows, verbose=not args.quiet, **how)
    show(result, args)
    return NO_PROMISE if result.findings else FINE


def create_ledger(args: Any) -> None:
    """Create a ledger."""
    ledger = Ledger.create(args.ledger, fitted(args.artifact), datasets=args.datasets)
    tell(f"wrote {args.ledger!r}, for {', '.join(map(repr, ledger.datasets))}")


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


def _key(args: Any) -> Path | str:
    return Path(args.key_file) if args.key_file is not None else f"env:{args.key_env}"


def fitted(path: str) -> TableRelease:
    """Return the fitted estimator of a release artifact, or of a joblib file.

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
            f"ARTIFACT is {path!r}, and must end in .json, or in .joblib if it is a saved noiser; "
            "`puffer fit` writes both."
        )
    noiser = joblib.load(path)
    if not isinstance(noiser, TableRelease):
        raise TypeError(f"{path!r} holds a {type(noiser).__name__}, and no fitted noiser.")
    return noiser


def check_holds(noiser: TableRelease) -> None:
    """Refuse an estimator whose certificate does not hold, whatever its on_uncertified is."""
    certificate = noiser.certificate_
    if not certificate.holds:
        raise UncertifiedError(
            f"the certificate does not hold, so nothing is released: the proven loss "
            f"{certificate.loss:.6g} exceeds the budget {certificate.notion.budget_name()}; "
            f"{certificate.remedy or 'use another strategy.'}"
        )


def layout_of(section: Mapping[str, Any], args: Any) -> CsvLayout:
    """Return the layout of CSV files, by the settings and the arguments.

    Raises
    ------
    TypeError, ValueError
        If a setting is wrong.
    """
    settings = merged(section, args, ["separator"])
    missing = settings.get("missing_values", [""])
    if not isinstance(missing, list) or not all(isinstance(text, str) for text in missing):
        raise TypeError(f"missing_values must be a list of strings, got {missing!r}.")
    if args.missing_values:
        missing = ["", *args.missing_values]
    typed = {}
    for text in args.types or []:
        name, _, kind = text.rpartition("=")
        if not (name and kind):
            raise ValueError(f"--type {text!r} is not COLUMN=TYPE; write it as zip=string.")
        typed[name] = kind
    known = CsvLayout(types=settings.get("types", {})).types
    return CsvLayout(settings.get("separator"), tuple(missing), {**known, **typed})


def release(args: Any) -> None:
    """Release a file into another one."""
    settings = read_settings(args.settings)
    layout = layout_of(settings["table"], args)
    how = _how(settings["release"], args)
    keying = _keying(how)
    path, read = Path(args.output), {"INPUT": args.input, "ARTIFACT": args.artifact}
    kind_of(path)
    read |= {"the ledger": how.get("ledger"), "the ledger of persons": how.get("persons")}
    _check_new("OUTPUT", args.output, (), read, args)
    noiser = fitted(args.artifact)
    check_holds(noiser)
    _warn_uncounted(noiser, how)
    file = TableFile(args.input, layout)
    before = _version_of(file.path)
    # a swap reads secrets, too, with types found as in fit
    found = {} if noiser._fitted.mechanism.by_row else file.found_types()
    table = file.rows({**found, **types_of(noiser)})
    noiser._fitted.rules.check_columns(table.column_names)
    kept = table.select([str(name) for name in noiser._fitted.rules.order])
    write_table(io.BytesIO(), path, kept.slice(0, 0), layout)  # types for the file
    noiser.verbose = 0  # progress is shown here
    noiser.unknown = how.get("unknown", noiser.unknown)
    # of a swap before the certificate is that of the rows, and no longer that of the ledger
    record = _record(noiser, how, keying, file)
    with growing_file(path, force=args.force) as out:
        with listening(not args.quiet, "release"):
            released = _released(noiser, table, how, keying)
        record()
        write_table(out, path, released, layout)
        if _version_of(file.path) != before:
            raise ValueError(
                f"the file {args.input!r} was changed while it was released; release it again "
                "when it is complete."
            )
    if not noiser._fitted.mechanism.by_row:
        say(str(noiser.certificate_))  # of this table
    tell(f"wrote {str(path)!r}, {released.num_rows:,} rows")


def _warn_uncounted(noiser: TableRelease, how: Mapping[str, Any]) -> None:
    """Say what another release of the same rows, which nothing counts, would do."""
    by_row, counted = noiser._fitted.mechanism.by_row, how.get("ledger") or how.get("persons")
    keyed = how.get("key_file") is not None or how.get("key_env") is not None
    if counted or (by_row and keyed):  # unchanged rows come out the same
        return
    sentence = (
        "nothing counts this swap, and another one of some of these people, in any file, undoes "
        "it; count it in a ledger of them (--ledger, by puffer ledger create)."
    )
    if by_row:
        sentence = (
            "each run draws anew, nothing counts this one, and the certificate is for "
            f"{noiser.certificate_.releases} release(s) of a row; use --ledger, or --row-id and "
            "--key-file to draw the same again."
        )
    warnings.warn(sentence, PufferfishWarning, stacklevel=2)


def _how(section: dict[str, Any], args: Any) -> dict[str, Any]:
    """Return the options of a release; a key in the arguments replaces that of the settings."""
    typed = args.key_file is not None or args.key_env is not None
    kept = {n: v for n, v in section.items() if not (typed and n in ("key_file", "key_env"))}
    if {"key_file", "key_env"} <= kept.keys():
        raise ValueError("the settings have both key_file and key_env; remove one of them.")
    return merged(kept, args, [*RELEASE, "key_file", "key_env"])


def _keying(how: dict[str, Any]) -> dict[str, Any]:
    key: Any = None
    if how.get("key_file") is not None:
        check_there("key_file", how["key_file"])
        key = Path(how["key_file"])
    if how.get("key_env") is not None:
        key = f"env:{how['key_env']}"
    keyed = how.get("row_id") is not None
    if key is not None and not keyed:
        raise ValueError(
            "a key is given without --row-id, and keyed noise is drawn for an id; name the column "
            "of ids."
        )
    keying = {"row_id": how.get("row_id"), "key": key, "release": how.get("release", 0)}
    return keying | ({"dataset": how.get("dataset", "")} if keyed else {})


def _is_same(path: Path, other: Path) -> bool:
    if path.exists() and other.exists():
        return os.path.samefile(path, other)
    return path.resolve() == other.resolve()


def _version_of(path: Path) -> tuple[int, ...]:
    """Return the state of a file, which changes when it is written to."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _released(noiser: TableRelease, table: Any, how: dict[str, Any], keying: dict[str, Any]) -> Any:
    """Return the released table, counted by a ledger of persons if there is one."""
    if noiser._fitted.mechanism.by_row:
        if how.get("persons") is not None:
            return _counted(noiser, table, how, keying)
        return noiser.transform(table, **keying)
    if keying["row_id"] is None or keying["key"] is None:
        raise ValueError(
            "two swaps of the same people undo each other, and only a key makes the same one "
            "again; give --row-id, and --key-file or --key-env."
        )
    if how.get("persons") is not None:
        raise ValueError(
            "--persons counts rows that are released one by one, and a swap exchanges a whole "
            "table; leave --persons out."
        )
    return noiser.transform(table, **keying)


def _counted(noiser: TableRelease, table: Any, how: dict[str, Any], keying: dict[str, Any]) -> Any:
    """Return the released table, when all of its persons are recorded."""
    if how.get("ledger") is not None:
        raise ValueError(
            "--ledger and --persons are both given, and count a release twice; give one of them."
        )
    if keying["row_id"] is None or keying["key"] is None:
        raise ValueError(
            "--persons counts what each has spent by ids and a key; give --row-id, and --key-file "
            "or --key-env."
        )
    more = {name: value for name, value in keying.items() if name != "key"}
    exhausted = "withhold" if how.get("withhold") else "raise"
    more |= {"exhausted": exhausted, "note": how.get("note", "")}
    ledger = PersonLedger.open(how["persons"], noiser, key=keying["key"])
    return ledger.transform(noiser, table, **more)


def _record(
    noiser: TableRelease,
    how: dict[str, Any],
    keying: dict[str, Any],
    file: TableFile,
) -> Any:
    """Return a function that records the release; refuse first what cannot be released."""
    if how.get("ledger") is None:
        return lambda: None
    ledger = Ledger.open(how["ledger"], noiser)
    dataset, note = how.get("dataset"), how.get("note", "")
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
