"""A report for the person who signs a release: one page, as HTML, Markdown, text and JSON.

Pages of HTML are made by the templates beside it, and here is the only import of Jinja2. A page is
one file without scripts, fonts or pictures from elsewhere, and tells browsers to fetch nothing
(Content-Security-Policy), so that what stands in a name cannot. Whatever is filled in is escaped,
and stays on one line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sklearn_puffer._base import Document, Page, Section, markdown, on_one_line, quoted, shown
from sklearn_puffer._releases import write_new

SCHEMA = "sklearn_puffer.report/1"
_FIELDS = ("Release, or not", "Name", "Role", "Place and date", "Signature")
SIGNATURE = Section("Signature", cells=[_FIELDS, [""] * len(_FIELDS)])
_WHOM = {"internal": "For the person who signs", "external": "For recipients"}


@dataclass(frozen=True)
class Report(Document):
    """What a release promises and costs, for the person who signs it.

    Made by `report`; as text it is the page that ``html`` and ``markdown`` are.

    Parameters
    ----------
    kind : {"internal", "external"}
    holds : bool
        Whether the certificate holds.
    verdict : str
        That of the certificate, and for whom it holds.
    lines : tuple of str
        What stands right below it.
    front : tuple of Section
        What is looked at first: the figures, then the conditions.
    sections : tuple of Section
        What stands in the appendix.
    about : mapping
        What was released, when and by which version.
    record : mapping
        What the JSON has besides the page.
    name, by : str
        The data set, and who made the report, where that is told.
    alarms : tuple of str
        Names of figures that ask for attention.
    date : str
        When it was made (UTC, ISO 8601).

    See Also
    --------
    report : Makes one.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser, report
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> noiser = PufferfishNoiser(epsilon=0.5, sensitive="loan").fit(table)
    >>> told = report(noiser, kind="external", name="loans")
    >>> print(told.markdown.splitlines()[0])
    # Report of loans, for recipients: the promise holds
    >>> told.to_dict()["schema"], told.holds
    ('sklearn_puffer.report/1', True)
    """

    kind: str
    holds: bool
    verdict: str
    lines: tuple[str, ...]
    front: tuple[Section, ...]
    sections: tuple[Section, ...]
    about: Mapping[str, str]
    record: Mapping[str, Any]
    name: str = ""
    by: str = ""
    alarms: tuple[str, ...] = ()
    date: str = field(default="", compare=False)

    @property
    def html(self) -> str:
        """The report as one HTML file, without scripts and without anything from elsewhere.

        Jinja2 makes it, of the extra ``report``; without it this is a ModuleNotFoundError.
        """
        return render("report.html", report=self, page=self._page())

    @property
    def markdown(self) -> str:
        """The report as Markdown, without pictures."""
        return markdown(self._page())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a new file.

        Parameters
        ----------
        path : str or Path
            Ends in .html, .md, .json or .txt, and that is what is written.

        Raises
        ------
        FileExistsError
            If there is such a file: a report is never replaced.
        TypeError, ValueError, OSError
            If that is no path, it ends otherwise, or the file cannot be written.
        ModuleNotFoundError
            If it is to be HTML, and Jinja2 is not installed.
        """
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"path must be the name of a file to write, got {quoted(path)}.")
        suffix = Path(os.fsdecode(path)).suffix.lower()
        if suffix not in WAYS:
            raise ValueError(f"path must end in {', '.join(WAYS)}, got {quoted(str(path))}.")
        write_new(path, WAYS[suffix](self).encode("utf-8", "backslashreplace"))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain Python values, for JSON.

        Returns
        -------
        dict
            With a ``schema``, which changes with its keys: ``headline``, ``lines`` and
            ``sections`` (each ``title``, ``note``, ``table`` of ``columns`` and ``rows``, or None,
            and ``sentences``) are the page; the other keys are facts for machines.
        """
        page = self._page()
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            "headline": page.headline,
            "holds": self.holds,
            "name": self.name,
            "by": self.by,
            "date": self.date,
            **self.record,
            "lines": list(page.lines),
            "sections": [_told(section) for section in page.sections],
        }

    @property
    def whom(self) -> str:
        """For whom it is, when it was made, and who made it."""
        return f"{_WHOM[self.kind]} · {self.date}{f' · by {shown(self.by)}' if self.by else ''}"

    def _page(self) -> Page:
        """Return the page: what is looked at first, room to sign, and the rest as appendix."""
        sign = [SIGNATURE] if self.kind == "internal" else []
        parts = [*self.front, *sign, *self.sections, self._about_section()]
        return Page(self._headline(), self.lines, parts)

    def _headline(self) -> str:
        of = f" of {shown(self.name)}" if self.name else ""
        whom = ", for recipients" if self.kind == "external" else ""
        return f"Report{of}{whom}: {self.verdict}"

    def _about_section(self) -> Section:
        own = {"data set": shown(self.name) if self.name else "not named"}
        own |= {"report made": self.date, "by": shown(self.by) if self.by else "not told"}
        told = {**own, **self.about}
        mark = [f"Fingerprint: {told.pop('fingerprint')}."] if "fingerprint" in told else []
        return Section("About this report", cells=[[*told], [*told.values()]], sentences=mark)


def _told(section: Section) -> dict[str, Any]:
    table = None
    if section.cells:
        head, *rows = (list(row) for row in section.cells)
        table = {"columns": head, "rows": rows}
    return {
        "title": section.title,
        "note": section.note,
        "table": table,
        "sentences": list(section.sentences),
    }


def _html(document: Any) -> str:
    """Return a file of HTML: a report has its own, which leaves room for a signature."""
    if isinstance(document, Report):
        return document.html
    return render("document.html", page=document._page())


WAYS: dict[str, Callable[[Any], str]] = {
    ".html": _html,
    ".md": lambda document: markdown(document._page()),
    ".json": lambda document: str(document.to_json()),
    ".txt": lambda document: f"{document}\n",
}
"""How a document is written to a file, by what its name ends in."""


def render(template: str, **values: Any) -> str:
    """Return a page as an HTML file, from its document type to its end.

    Raises
    ------
    ModuleNotFoundError
        If Jinja2 is not installed.
    """
    return str(_templates().get_template(template).render(values))


def check_renders() -> None:
    """Refuse pages of HTML, before any work is done, where Jinja2 is not installed."""
    _templates()


@cache
def _templates() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise ModuleNotFoundError(
            "pages of HTML are made with Jinja2, which is not installed; "
            'pip install "sklearn-puffer[report]", or take .md, .txt or .json.'
        ) from error
    return jinja2.Environment(
        loader=jinja2.PackageLoader("sklearn_puffer._review"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _inert(value: Any) -> Any:
    """Return a text on one line; what a template made of such is whole already."""
    return value if hasattr(value, "__html__") else on_one_line(str(value))
