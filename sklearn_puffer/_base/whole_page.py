"""A page as one HTML file, which needs nothing else: no script, no font, no picture from elsewhere.

Browsers are told to fetch nothing (Content-Security-Policy), so that what stands in a name cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from sklearn_puffer._base.arguments import on_one_line
from sklearn_puffer._base.page import Cells, Page, Section

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #4a525c; --line: #c3c9d0;
  --paper: #ffffff; --head: #eef1f4; --bar: #2f6fb3; --track: #dfe4e9;
  --limit: #b04a00; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --soft: #b3bac2; --line: #4a525c; --paper: #16191d; --head: #23282e;
    --bar: #6ea8e6; --track: #333a42;
    --limit: #ffb070; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: anywhere;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.3; margin: 0 0 1rem; padding-bottom: .75rem;
  border-bottom: 3px solid var(--ink); }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
p, li { max-width: 46rem; }
.note { color: var(--soft); font-size: .925rem; }
.scroll { overflow-x: auto; margin: .75rem 0; }
.scroll:focus-visible { outline: 2px solid var(--bar); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-size: .925rem; }
th, td { border: 1px solid var(--line); padding: .3rem .55rem; text-align: left;
  vertical-align: top; max-width: 24rem; overflow-wrap: break-word; }
th { background: var(--head); }
figure { margin: .75rem 0; max-width: 27rem; }
figure svg { display: block; width: 100%; height: auto; }
.track { fill: var(--track); } .bar { fill: var(--bar); }
.limit { fill: var(--limit); } svg text { fill: var(--ink); }
.sign td { height: 2.75rem; } .sign th[scope="row"] { width: 40%; }
@page { margin: 18mm; }
@page wide { size: A4 landscape; margin: 12mm; }
@media print {
  table { font-size: 9pt; } th, td { padding: .15rem .3rem; overflow-wrap: anywhere; }
  .wide { page: wide; } .wide table { font-size: 7.5pt; }
  body { font-size: 10.5pt; } main { max-width: none; padding: 0; } .scroll { overflow: visible; }
  h2 { break-after: avoid; } tr, figure, .sign { break-inside: avoid; }
  thead { display: table-header-group; }
  th, .track, .bar, .limit { -webkit-print-color-adjust: exact; print-color-adjust: exact; } }
"""
_MANY = 7  # columns of a table that is printed across
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def whole_page(page: Page, *, to_fill: Sequence[str] = ()) -> str:
    """Return a page as an HTML file.

    Parameters
    ----------
    page : Page
    to_fill : sequence of str
        Titles of sections whose tables get room to write in.

    Returns
    -------
    str
        From its document type to its end.
    """
    title = _safe(page.headline)
    lines = "\n".join(f"<p>{_safe(line)}</p>" for line in page.lines)
    sections = "\n".join(
        _section(section, k, fill=section.title in to_fill)
        for k, section in enumerate(page.sections, start=1)
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n{lines}\n{sections}\n</main>\n</body>\n</html>\n"
    )


def _section(section: Section, number: int, *, fill: bool) -> str:
    name = f"part-{number}"
    kind = ' class="sign"' if fill else ""
    if section.cells and len(section.cells[0]) > _MANY:
        kind = ' class="wide"'
    note = f'<p class="note">{_safe(section.note)}</p>\n' if section.note else ""
    items = "".join(f"<li>{_safe(sentence)}</li>" for sentence in section.sentences)
    return (
        f'<section{kind} aria-labelledby="{name}">\n<h2 id="{name}">{_safe(section.title)}</h2>\n'
        f"{note}{section.figure}{_table(section.cells, name)}"
        f"{f'<ul>{items}</ul>' if items else ''}\n</section>"
    )


def _table(cells: Cells, name: str) -> str:
    """Return a table that scrolls by itself, and by the keyboard, where a screen is narrow."""
    if not cells:
        return ""
    head = "".join(map(_head, cells[0]))
    body = "".join(f"<tr>{_data(row)}</tr>\n" for row in cells[1:])
    return (
        f'<div class="scroll" role="group" tabindex="0" aria-labelledby="{name}">\n<table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>\n"
    )


def _head(cell: str) -> str:
    return f'<th scope="col">{_safe(cell)}</th>' if cell else "<td></td>"  # a head has a name


def _data(row: Sequence[str]) -> str:
    first, *others = row
    rest = "".join(f"<td>{_safe(cell)}</td>" for cell in others)
    return f'<th scope="row">{_safe(first)}</th>{rest}'


def _safe(text: str) -> str:
    return escape(on_one_line(text))
