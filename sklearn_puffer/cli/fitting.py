"""`puffer fit`: from a table to the form of its release, or to a saved swap, which has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib

from sklearn_puffer import PufferfishNoiser, UncertifiedError
from sklearn_puffer._releases import check_free, growing_file
from sklearn_puffer._tables import TableFile
from sklearn_puffer.cli.common import check_holds, layout_of
from sklearn_puffer.cli.settings import PREFIX, merged, noiser_parameters, read_settings, unlisted
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
