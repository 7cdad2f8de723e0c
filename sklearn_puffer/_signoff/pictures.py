"""Pictures of a report: bars as SVG, which need no library and follow the colours of their page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from sklearn_puffer._base import on_one_line

_WIDTH, _ROW, _LENGTH = 400, 44, 330
_LETTERS, _MOST = 44, 30


def bars(
    title: str, rows: Sequence[tuple[str, float, str]], limits: Sequence[float] | None = None
) -> str:
    """Return shares as a picture of bars: the same rows give the same bytes.

    Parameters
    ----------
    title : str
        What the picture shows, for who cannot see it.
    rows : sequence of (label, share, text)
        The share is between 0 and 1, and the text says it.
    limits : sequence of float, default=None
        Shares at which a line crosses the bars, one for each.

    Returns
    -------
    str
        A figure of HTML; nothing where there are no rows.
    """
    drawn = rows[:_MOST]
    if not drawn:
        return ""
    height = _ROW * len(drawn)
    parts = "".join(_bar(k, *row) for k, row in enumerate(drawn))
    parts += "".join(_line(k, limit) for k, limit in enumerate((limits or ())[:_MOST]))
    more = f" (the first {_MOST} of {len(rows)})" if len(rows) > _MOST else ""
    told = _safe(f"{title}{more}: " + "; ".join(f"{label} {text}" for label, _, text in drawn))
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{told}" '
        f'font-family="sans-serif" font-size="15">{parts}</svg>'
        f"<figcaption>{_safe(title)}{more}</figcaption></figure>\n"
    )


def _bar(k: int, label: str, share: float, text: str) -> str:
    top = k * _ROW
    length = _LENGTH * min(max(share, 0.0), 1.0)
    return (
        f'<text x="0" y="{top + 15}" fill="currentColor">{_safe(_cut(label))}</text>'
        f'<rect class="track" x="0" y="{top + 21}" width="{_LENGTH}" height="16" fill="#dfe4e9"/>'
        f'<rect class="bar" x="0" y="{top + 21}" width="{length:.1f}" height="16" fill="#2f6fb3"/>'
        f'<text x="{_LENGTH + 8}" y="{top + 35}" fill="currentColor">{_safe(text)}</text>'
    )


def _line(k: int, limit: float) -> str:
    place = min(_LENGTH * min(max(limit, 0.0), 1.0), _LENGTH - 3.0)
    return (
        f'<rect class="limit" x="{place:.1f}" y="{k * _ROW + 18}" width="3" height="22" '
        'fill="#b04a00"/>'
    )


def _cut(label: str) -> str:
    line = on_one_line(label)
    return line if len(line) <= _LETTERS else f"{line[: _LETTERS - 3]}..."


def _safe(text: str) -> str:
    return escape(on_one_line(text))
