"""`puffer report`, and how any document is shown: as text, a page, Markdown or JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import sklearn_puffer
from sklearn_puffer._base import markdown
from sklearn_puffer._releases import check_free, growing_file
from sklearn_puffer._signoff import check_renders, render
from sklearn_puffer.cli.common import fitted
from sklearn_puffer.cli.run import FINE, NO_PROMISE
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
