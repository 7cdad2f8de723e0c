"""Names and numbers as sentences say them: on one line, no two alike, bounds rounded outwards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

_SHOWN_BITS = 333  # of a whole number: some hundred digits
_LONGEST = 80  # characters of a value that is no name
_BRIEF = 26  # characters of a name, or of several, in a warning


def listed(names: Sequence[Any], limit: int = 5) -> str:
    """Join names for a message, shortened past ``limit``.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    first = ", ".join(quoted(name) for name in names[:limit])
    return first if len(names) <= limit else f"{first} and {len(names) - limit} more"


def brief(value: Any) -> str:
    """Return a name or value for a warning, cut short where it is long.

    >>> brief("race"), brief("a" * 50)
    ("'race'", "'aaaaaaaaaaaaaaaaaaaa...'")
    """
    text = quoted(value)
    return text if len(text) <= _BRIEF else f"{text[: _BRIEF - 5]}...{text[-1]}"


def briefly(names: Sequence[Any]) -> str:
    """Join names for a warning: the first that are short together, and how many more there are.

    >>> briefly(["a", "b"]), briefly(["x" * 20, "y" * 20, "z"])
    ("'a', 'b'", "'xxxxxxxxxxxxxxxxxxxx' and 2 more")
    """
    fit = 1
    while fit < len(names) and len(", ".join(map(brief, names[: fit + 1]))) <= _BRIEF:
        fit += 1
    first = ", ".join(map(brief, names[:fit]))
    return first if fit == len(names) else f"{first} and {len(names) - fit} more"


def meant(value: Any, names: Iterable[Any]) -> str:
    """Return a suggestion for a misspelt name, to be appended to a message, or nothing.

    >>> meant("exat", ["exact", "relaxed"]), meant("best", ["exact", "relaxed"])
    (" (did you mean 'exact'?)", '')
    """
    spellings = {str(name).lower(): name for name in map(plain, names)}
    close = get_close_matches(str(value).strip().lower(), spellings, n=1)
    return f" (did you mean {quoted(spellings[close[0]])}?)" if close else ""


def on_one_line(value: Any) -> str:
    r"""Return a text with all characters escaped that could move, hide or turn the text around it.

    These are control and format characters, separators other than the blank, surrogates and
    unassigned code points: line breaks, escape sequences, marks of the direction of writing. A
    second call changes nothing.

    >>> print(on_one_line("a\nb"))
    a\nb
    """
    text = str(value)
    if text.isprintable():
        return text
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return "".join(escaped)


def shown(value: Any) -> str:
    r"""Return a name or value for people: different texts never look alike.

    >>> print(shown("race"), shown("a\nb"), shown(r"a\nb"), shown("a  b"))
    race a\nb a\\nb 'a  b'
    """
    text = str(plain(value)).replace("\\", "\\\\")
    blank = "  " in text or text != text.strip()
    return on_one_line(f"'{text}'" if blank or not text else text)


def quoted(value: Any) -> str:
    """Return a name or value as Python writes it, on one line, and never rows of data.

    Huge whole numbers are shown by their size, tables and arrays by their type, and of other long
    values the beginning.

    >>> quoted("race"), quoted(1), quoted(10**5000)
    ("'race'", '1', 'a whole number of 16610 bits')
    >>> quoted(np.zeros(3)), quoted([0] * 100)
    ('a ndarray', '[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ...')
    """
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"a whole number of {value.bit_length()} bits"
    within = value.values() if isinstance(value, dict) else value
    if _is_data(value) or (isinstance(value, list | tuple | dict) and any(map(_is_data, within))):
        return f"a {type(value).__name__}"
    try:
        text = on_one_line(repr(plain(value)))
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return f"a {type(value).__name__} with a number too long to be written"
    return text if len(text) <= _LONGEST or isinstance(value, str) else f"{text[: _LONGEST - 3]}..."


def _is_data(value: Any) -> bool:
    """Return whether a value is a table, a column or an array, of any library."""
    marks = () if isinstance(value, np.generic) else ("shape", "columns")
    return any(hasattr(type(value), mark) for mark in marks)


def plain(value: Any) -> Any:
    """Return a numpy scalar as the Python object that users wrote."""
    return value.item() if isinstance(value, np.generic) else value


def short_number(value: float) -> str:
    """Return a loss for people: to six digits, or in words."""
    if 0.0 < value < 1e-13:  # rounding errors, or as good as nothing
        return "0 (below 1e-13)"
    return "infinite" if math.isinf(value) else f"{value:.6g}"


def times(nats: float, *, at_least: bool = False) -> str:
    """Return a shift of log odds as the factor by which it multiplies odds, rounded up.

    Rounded down where it is ``at_least`` so much.

    >>> times(0.2), times(0.2, at_least=True), times(7.5), times(800.0)
    ('1.23 times', '1.22 times', '1,809 times', 'over a million times')
    """
    if nats > math.log(1e6):
        return "over a million times"
    factor = math.exp(nats)
    digits = 2 if factor < 10.0 else 0
    whole = (math.floor if at_least else math.ceil)(factor * 10**digits)
    return f"{whole / 10**digits:,.{digits}f} times"


def percent_at_most(share: float) -> str:
    """Return a share as a percentage, rounded up: a bound stays one.

    >>> percent_at_most(0.7310586), percent_at_most(1.0)
    ('73.2 %', '100.0 %')
    """
    return f"{min(math.ceil(share * 1000.0) / 10.0, 100.0):.1f} %"
