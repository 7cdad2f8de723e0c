"""`puffer report`, and how any document is shown: as text, a page, Markdown or JSON.

`puffer check`: whether rows still look like those of fit.

`puffer plan`: settings compared on a table, before anything is released.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import sklearn_puffer
from sklearn_puffer import PufferfishRelease
from sklearn_puffer._base import markdown
from sklearn_puffer._noiser import types_of
from sklearn_puffer._releases import check_free, growing_file
from sklearn_puffer._signoff import check_renders, render
from sklearn_puffer._tables import TableFile
from sklearn_puffer.cli.common import fitted, layout_of
from sklearn_puffer.cli.run import FINE, NO_PROMISE
from sklearn_puffer.cli.settings import PREFIX, merged, plan_parameters, read_settings, unlisted
from sklearn_puffer.cli.speech import say, tell


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
    if Path(asked.out).suffix.lower() not in _WAYS:
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
    text = _WAYS[Path(asked.out).suffix.lower()](document)
    with growing_file(asked.out, force=asked.force) as out:
        out.write(text.encode("utf-8", "backslashreplace"))
    tell(f"wrote {asked.out!r}")


def _page(document: Any) -> str:
    """Return a file of HTML: a report has its own, which leaves room for a signature."""
    own = getattr(document, "html", None)
    return own if isinstance(own, str) else render("document.html", page=document._page())


_WAYS: dict[str, Callable[[Any], str]] = {
    ".txt": lambda document: f"{document}\n",
    ".html": _page,
    ".md": lambda document: markdown(document._page()),
    ".json": lambda document: str(document.to_json()),
}


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
