"""Pages: a headline, lines and sections, as text and HTML; and the files they go to.

Files appear complete or not at all, and replace others only on request.

Names and values come from data, and may hold line breaks, escape sequences or bidirectional control
characters: these are escaped, so that every line and cell is one line.

The templates beside this module make all HTML, and only this module imports Jinja2, when it makes a
page. A page in a file has no scripts, fonts and pictures, and its Content-Security-Policy lets
browsers fetch nothing. Every value is escaped.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, BinaryIO, Self

from sklearn_puffer._words import on_one_line, quoted

Cells = Sequence[Sequence[str]]
_BRIEF = 3


@dataclass(frozen=True)
class Section:
    """A part of a page: a title, a note on its words, and a table or sentences.

    Attributes
    ----------
    title : str
    note : str
        Explains the terms of the section.
    cells : sequence of rows, each a sequence of str
        A table, its head first.
    sentences : sequence of str
    """

    title: str
    note: str = ""
    cells: Cells = ()
    sentences: Sequence[str] = ()

    def record(self) -> dict[str, Any]:
        """Return the section for JSON."""
        head, *rows = (list(row) for row in self.cells) if self.cells else [None]
        table = None if head is None else {"columns": head, "rows": rows}
        sentences = list(self.sentences)
        return {"title": self.title, "note": self.note, "table": table, "sentences": sentences}

    def lines(self) -> list[str]:
        """Return the section as lines of text."""
        return [
            f"{self.title}:",
            *([f"  ({self.note})"] if self.note else []),
            *(f"  {line}" for line in _aligned(self.cells)),
            *(f"  - {on_one_line(sentence)}" for sentence in self.sentences),
        ]


@dataclass(frozen=True)
class Page:
    r"""A headline, some lines, and sections.

    Examples
    --------
    >>> sky = Section("Sky", cells=[["hour"], ["noon\n"]])
    >>> print(Page("Weather", ["Of today."], [sky]).text())
    Weather
    Of today.
    <BLANKLINE>
    Sky:
      hour
      noon\n
    """

    headline: str
    lines: Sequence[str]
    sections: Sequence[Section]

    def text(self) -> str:
        """Return the page as text."""
        lines = [on_one_line(line) for line in (self.headline, *self.lines)]
        for section in self.sections:
            lines += ["", *map(on_one_line, section.lines())]
        return "\n".join(lines)

    def brief(self) -> Page:
        """Return the headline, the first lines and the first section."""
        return replace(self, lines=self.lines[:_BRIEF], sections=self.sections[:1])

    def notebook(self, folded: Page | None = None) -> str:
        """Return the page for a notebook, with ``folded`` in a closed element below.

        Without Jinja2 it is text.
        """
        try:
            page = render("notebook.html", page=self, folded=folded)
        except ModuleNotFoundError:
            return f"<pre>{escape(self.text())}</pre>"
        return "".join(line.strip() for line in page.split("\n"))


def render(template: str, **values: Any) -> str:
    """Return HTML that a template makes.

    Raises
    ------
    ModuleNotFoundError
        If Jinja2 is not installed.
    """
    return str(templates().get_template(template).render(values))


@cache
def templates() -> Any:
    """Return the templates of Jinja2.

    Raises
    ------
    ModuleNotFoundError
        If it is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise ModuleNotFoundError(
            "pages of HTML are made with Jinja2, which is not installed; "
            'pip install "sklearn-puffer[report]", or take .txt or .json.'
        ) from error
    return jinja2.Environment(
        loader=jinja2.PackageLoader("sklearn_puffer._documents"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        # a text is on one line, unless a template has made it
        finalize=lambda value: value if hasattr(value, "__html__") else on_one_line(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@dataclass(frozen=True)
class Document(ABC):
    """A page that is saved as JSON, too, and may have the name of its table."""

    def to_json(self, indent: int | None = 2) -> str:
        """Return it as JSON.

        Parameters
        ----------
        indent : int or None, default=2
            As in `json.dumps`.

        Returns
        -------
        str
            ``to_dict`` as JSON; an infinite loss is the string "infinity".
        """
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a new file.

        Parameters
        ----------
        path : str or Path
            Its suffix decides what is written: .html, .json or .txt.

        Raises
        ------
        FileExistsError
            If the file exists: none is replaced.
        TypeError, ValueError, OSError
            If ``path`` is no path or has another suffix, or the file cannot be written.
        ModuleNotFoundError
            For HTML, if Jinja2 is not installed.
        """
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"path must be the name of a file to write, got {quoted(path)}.")
        suffix = Path(os.fsdecode(path)).suffix.lower()
        if suffix not in WAYS:
            raise ValueError(f"path must end in {', '.join(WAYS)}, got {quoted(str(path))}.")
        write_new(path, WAYS[suffix](self).encode("utf-8", "backslashreplace"))

    def named(self, name: str) -> Self:
        """Return a copy with the name of the table, which text and JSON show.

        Parameters
        ----------
        name : str
            Such as the name of its file.

        Returns
        -------
        Self
            To be set as ``noiser.certificate_ = noiser.certificate_.named("adult.csv")``; the name
            is not part of the fingerprint.
        """
        if not isinstance(name, str):
            raise TypeError(f"name must be a string, got {quoted(name)}.")
        return replace(self, name=name)  # type: ignore[call-arg]  # a field of those that have one

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return it as plain Python values, for JSON."""

    @abstractmethod
    def _page(self) -> Page: ...

    def __str__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().notebook()

    def _html(self) -> str:
        """Return it as one file of HTML, without scripts and external resources."""
        return render("document.html", page=self._page())


@dataclass(frozen=True)
class FoldedDocument(Document):
    """A document that prints its first screen; `details` returns all of it."""

    def details(self) -> str:
        """Return the whole document as text.

        Returns
        -------
        str
            With figures and assumptions, in sections.
        """
        return self._page().text()

    @abstractmethod
    def _first_screen(self) -> Page:
        """Return at most 12 lines: what is guaranteed, what changes and the largest risks."""

    def __str__(self) -> str:
        return self._first_screen().text()

    def _repr_html_(self) -> str:
        return self._first_screen().notebook(folded=self._page())


def _aligned(cells: Cells) -> list[str]:
    rows = [[on_one_line(cell) for cell in row] for row in cells]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


WAYS: dict[str, Callable[[Any], str]] = {
    ".html": lambda document: str(document._html()),
    ".json": lambda document: str(document.to_json()),
    ".txt": lambda document: f"{document}\n",
}
"""How a document is written to a file, by the suffix."""


_FAILED = "the file cannot be written, and there is none now; choose another path"


def located(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file, which may not exist yet, with symbolic links followed.

    Raises
    ------
    TypeError, ValueError
        If it is no path, or that of a folder, a pipe or a device.
    """
    try:
        place = Path(path).resolve()
    except TypeError as fault:
        raise TypeError(f"path must be a str or a Path, got {quoted(path)}.") from fault
    except (RuntimeError, ValueError) as fault:  # a loop of links, or a null byte
        raise ValueError(
            f"path must lead to a file, got {quoted(path)} ({fault}); choose another name."
        ) from fault
    if os.path.exists(place) and not os.path.isfile(place):
        raise ValueError(
            f"path must be that of a file, got {str(path)!r}, a folder, a pipe or a device; choose "
            "another name."
        )
    return place


@contextmanager
def explained(path: Path, sentence: str) -> Iterator[None]:
    """Add a sentence and the path to errors of the operating system."""
    try:
        yield
    except OSError as fault:
        raise told(fault, path, sentence) from fault


def told(fault: OSError, path: Path, sentence: str) -> OSError:
    """Return the same kind of error with a sentence and the path."""
    code = fault.errno or errno.EIO
    return OSError(code, f"{sentence} ({fault.strerror or fault})", str(path))


def write_new(path: str | os.PathLike[str], data: bytes, *, private: bool = False) -> None:
    """Write a file that does not exist yet.

    Raises
    ------
    FileExistsError
        If the file exists.
    TypeError, ValueError, OSError
        If it is no path, or the file cannot be written.
    """
    check_free(
        located(path),
        way="choose another name, or delete the file first, as by pathlib.Path(...).unlink()",
    )
    with growing_file(path, private=private) as file, explained(Path(path), _FAILED):
        file.write(data)


@contextmanager
def growing_file(
    path: str | os.PathLike[str], *, force: bool = False, private: bool = False
) -> Iterator[BinaryIO]:
    """Open a file to be written in parts; it gets its name when it is complete and synced.

    Until then it is ``.puffer-*.partial`` in the same folder, readable by its owner alone. An error
    removes it; only a killed process leaves it behind.

    Parameters
    ----------
    path : str or Path
    force : bool, default=False
        Whether it may replace another file.
    private : bool, default=False
        Whether it stays readable by its owner alone (0600), as key material.

    Raises
    ------
    FileExistsError
        If the file exists, without ``force``, before anything is written or at the end.
    TypeError, ValueError, OSError
        If that is no path, or the file cannot be written.
    """
    place = located(path)
    check_free(place, force=force)
    with explained(place, _FAILED):
        handle, name = tempfile.mkstemp(prefix=".puffer-", suffix=".partial", dir=place.parent)
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            with explained(place, _FAILED):
                file.flush()
                os.fsync(file.fileno())
        with explained(place, _FAILED):
            if not private:
                mask = os.umask(0o077)  # which can only be read by setting it
                os.umask(mask)
                with suppress(OSError):  # a file system without permissions
                    fresh.chmod(0o666 & ~mask)
            if force:
                os.replace(fresh, place)
            else:
                _put(fresh, place)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
    sync_folder(place.parent)


_TYPED = "choose another name, or pass --force to replace it"


def check_free(place: Path, *, force: bool = False, way: str = _TYPED) -> None:
    """Refuse a path that exists, unless it is a file that may be replaced.

    Raises
    ------
    FileExistsError
        With the way out.
    """
    if place.is_dir():
        raise FileExistsError(f"{str(place)!r} is a folder; choose the name of a file.")
    if place.exists() and not (force and place.is_file()):
        raise FileExistsError(f"there is a file {str(place)!r} already; {way}.")


def _put(fresh: Path, place: Path) -> None:
    """Give a file its name, without replacing one that was written meanwhile."""
    if os.name == "nt":
        os.rename(fresh, place)  # replaces nothing on Windows
        return
    try:
        os.link(fresh, place)
    except PermissionError:  # a file system without hard links
        if place.exists():
            raise
        os.replace(fresh, place)


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to the disk, if the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as fault:
        if fault.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)
