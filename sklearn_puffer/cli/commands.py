"""What the commands do: fit, plan, check, audit, report, and the ledgers; `releasing` has one more.

A document is shown as text, a page, Markdown or JSON; the status says whether all is well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib

import sklearn_puffer
from sklearn_puffer import (
    Ledger,
    PersonLedger,
    PufferfishNoiser,
    PufferfishRelease,
    UncertifiedError,
)
from sklearn_puffer._noiser import ReleaseTransformer, types_of
from sklearn_puffer._releases import check_free, growing_file
from sklearn_puffer._review import WAYS, check_renders
from sklearn_puffer._tables import Layout, TableFile
from sklearn_puffer.cli.arguments import FINE, NO_PROMISE
from sklearn_puffer.cli.settings import (
    PREFIX,
    audit_parameters,
    merged,
    noiser_parameters,
    plan_parameters,
    read_settings,
    unlisted,
)
from sklearn_puffer.cli.speech import say, tell
from sklearn_puffer.noise import record_swap


def fit(asked: Any) -> int:
    """Fit on a table, write the form, and say what is promised."""
    settings = read_settings(asked.settings)
    noiser = PufferfishNoiser(**_parameters(settings["noiser"], asked))
    swap = record_swap(noiser.noise) is not None
    places = _places(asked, swap)
    file = TableFile(asked.table, layout_of(settings["table"], asked))
    _learn(noiser, file)
    say(_summary(noiser.certificate_))
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


def _summary(certificate: Any) -> str:
    """Return what is promised, the noise, and how much survives: the first parts of the whole."""
    return "\n\n".join(str(certificate).split("\n\n")[:3])


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
    found = unlisted(merged(section, asked, noiser_parameters(), PREFIX))
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
            f"{asked.form!r} is a form, which holds no laws of secrets to compare with; leave "
            "--sensitive out, or give the noiser that `puffer fit --noiser FILE` saved."
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
    how = unlisted(merged(settings["noiser"], asked, plan_parameters(), PREFIX))
    if "sensitive" not in how:
        raise ValueError("plan needs --sensitive NAME, the column whose values are protected.")
    file = TableFile(asked.table, layout_of(settings["table"], asked))
    show(sklearn_puffer.plan(file.stream(file.found_types()).whole(), **how), asked)
    return 0


def audit(asked: Any) -> int:
    """Show what attackers found; the status says whether it is more than was promised."""
    check_out(asked)
    settings = read_settings(asked.settings)
    how = unlisted(merged({}, asked, audit_parameters(), PREFIX))
    noiser = fitted(asked.form)
    check_holds(noiser)
    layout = layout_of(settings["table"], asked)
    named = _named(asked.peers or [])
    peers = {name: _rows(path, layout, noiser) for name, path in named.items()}
    table = _rows(asked.table, layout, noiser)
    found = sklearn_puffer.audit(noiser, table, peers=peers, verbose=not asked.quiet, **how)
    show(found, asked)
    return NO_PROMISE if found.findings else FINE


def _named(texts: Sequence[str]) -> dict[str, str]:
    """Return the file of each peer."""
    found: dict[str, str] = {}
    for text in texts:
        name, _, path = text.partition("=")
        if not (name and path):
            raise ValueError(f"--peer {text!r} is not NAME=FILE; write it as remover=removed.csv.")
        if name in found:
            raise ValueError(f"--peer gives {name!r} twice; name each peer otherwise.")
        found[name] = path
    return found


def _rows(path: str, layout: Layout, noiser: Any) -> Any:
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


def layout_of(section: Mapping[str, Any], asked: Any) -> Layout:
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
    typed = dict(map(_told_type, asked.types or []))
    types = Layout(types=own.get("types", {})).types
    return Layout(own.get("separator"), tuple(missing), {**types, **typed})


def _told_type(text: str) -> tuple[str, str]:
    name, sign, kind = text.rpartition("=")
    if not sign:
        raise ValueError(f"--type {text!r} is not COLUMN=TYPE; write it as zip=string.")
    return name, kind
