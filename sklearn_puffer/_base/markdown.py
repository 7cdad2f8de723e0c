"""A page as Markdown, in which no name or value becomes markup, a link or another row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sklearn_puffer._base.arguments import on_one_line
from sklearn_puffer._base.page import Page, Section

_MARKS = re.compile(r"[\\`*_\[\]<>|#~$&@{}!]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_START = re.compile(r"^(\d*)([-+=.)]+)(?=\s|$)")  # of a list, a rule or a heading


def markdown(page: Page) -> str:
    r"""Return a page as Markdown, whose tables are those of GitHub's kind.

    >>> sky = Section("Sky", cells=[["hour"], ["noon|"]])
    >>> print(markdown(Page("Weather", ["*Of* today."], [sky])))
    # Weather
    <BLANKLINE>
    \*Of\* today.
    <BLANKLINE>
    ## Sky
    <BLANKLINE>
    | hour |
    | --- |
    | noon\| |
    <BLANKLINE>
    """
    parts = [f"# {_inert(page.headline)}", *map(_inert, page.lines)]
    for section in page.sections:
        parts += _parts_of(section)
    return "\n\n".join(parts) + "\n"


def _parts_of(section: Section) -> Iterator[str]:
    yield f"## {_inert(section.title)}"
    if section.note:
        yield f"({_inert(section.note)})"
    if section.cells:
        head, *rows = (_row(cells) for cells in section.cells)
        yield "\n".join([head, _row(["---"] * len(section.cells[0]), inert=False), *rows])
    if section.sentences:
        yield "\n".join(f"- {_inert(sentence)}" for sentence in section.sentences)


def _row(cells: Sequence[str], *, inert: bool = True) -> str:
    return f"| {' | '.join(_inert(cell) if inert else cell for cell in cells)} |"


def _inert(text: str) -> str:
    marked = _MARKS.sub(lambda found: f"\\{found[0]}", on_one_line(text).strip())
    return _START.sub(r"\1\\\2", marked)
