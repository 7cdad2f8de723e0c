"""`puffer persons`, and releases that are counted for each person."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sklearn_puffer import Ledger, PersonLedger, PufferfishWarning
from sklearn_puffer._noiser import rows_of_stream
from sklearn_puffer._tables import Stream
from sklearn_puffer.cli.common import fitted
from sklearn_puffer.cli.speech import say, tell

_TOLD = 5  # warnings: each is of a part of the file


def create(asked: Any) -> int:
    """Start a ledger of persons."""
    key, changes = _key(asked), asked.changes
    PersonLedger.create(asked.persons, fitted(asked.form), key=key, changes=changes)
    tell(f"wrote {asked.persons!r}")
    return 0


def migrate(asked: Any) -> int:
    """Start one in which everybody has spent what a ledger of tables says."""
    noiser = fitted(asked.form)
    ledger = Ledger.open(asked.ledger, noiser)
    how = {"key": _key(asked), "dataset": asked.dataset, "changes": asked.changes}
    PersonLedger.migrate(ledger, asked.persons, noiser, **how)
    tell(f"wrote {asked.persons!r}; {asked.ledger!r} is closed")
    return 0


def show(asked: Any) -> int:
    """Show what is on record."""
    say(str(_opened(asked)))
    return 0


def left(asked: Any) -> int:
    """Show what may still be released of a person."""
    person = int(asked.person) if asked.integer else asked.person
    found = _opened(asked).left(person)
    say(f"{found.releases} more release(s) at the noiser's own scales; {found.released} on record")
    return 0


def _opened(asked: Any) -> PersonLedger:
    return PersonLedger.open(asked.persons, fitted(asked.form), key=_key(asked))


def _key(asked: Any) -> Path | str:
    return Path(asked.key_file) if asked.key_file is not None else f"env:{asked.key_env}"


def released(noiser: Any, stream: Stream, how: dict[str, Any], keying: Any) -> Iterator[Any]:
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
