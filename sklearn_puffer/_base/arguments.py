"""Argument checks: every message names the argument, its value and the way out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np

MOST_PAIRS = 1 << 18
"""Largest number of pairs of secrets, those of 724 values: what a fit looks at in some 10 s.

Each takes 20 to 30 microseconds and a kilobyte, where losses are computed for all pairs at once:
counted priors, the pure promise and Laplace noise.
"""

MOST_ALONE = 1275
"""Largest number elsewhere, those of 51 values.

The loss of each pair is then an integral or a search of its own, of 1 ms (Laplace noise and a
delta) to some 10 ms (Gaussian noise under Renyi, Cauchy noise) on a column of ten values.
"""

_BOOLEANS = (bool, np.bool_)  # a tuple: a union would be built anew at every check
_SHOWN_BITS = 333  # of a whole number: some hundred digits
_MOST_JOBS = 1024


def check_positive(value: Any, name: str, remedy: str = "") -> float:
    """Return ``value`` as a positive finite float.

    >>> check_positive(2, "epsilon")
    2.0
    """
    if type(value) is float and 0.0 < value < inf:
        return value  # most are, and the abstract class takes its time
    if isinstance(value, _BOOLEANS) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a positive number, got {quoted(value)}{_tail(remedy)}.")
    number = as_float(value)
    if not 0.0 < number < inf:
        raise ValueError(f"{name} must be positive and finite, got {quoted(value)}{_tail(remedy)}.")
    return number


def check_delta(value: Any, name: str) -> float:
    """Return ``value`` as a probability in [0, 1).

    >>> check_delta(0, "delta")
    0.0
    """
    if isinstance(value, _BOOLEANS) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number in [0, 1), got {quoted(value)}.")
    number = as_float(value)
    if not 0.0 <= number < 1.0:
        raise ValueError(
            f"{name} must lie in [0, 1), got {quoted(value)}; choose 0 for a pure promise, or a "
            "small probability such as 1e-5."
        )
    return number


def check_above(value: Any, least: float, name: str) -> float:
    """Return ``value`` as a finite float above ``least``.

    >>> check_above(2, 1.0, "alpha")
    2.0
    """
    if isinstance(value, _BOOLEANS) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number above {least:g}, got {quoted(value)}.")
    number = as_float(value)
    if not least < number < inf:
        raise ValueError(f"{name} must be finite and above {least:g}, got {quoted(value)}.")
    return number


def check_choice(value: Any, name: str, choices: Iterable[Any]) -> Any:
    """Return ``value`` if it is one of ``choices``.

    >>> check_choice("exact", "strategy", ["exact", "relaxed"])
    'exact'
    """
    known = list(choices)
    if not any(isinstance(value, str) and value == choice for choice in known):
        raise ValueError(f"{name} must be one of {known}, got {value!r}{meant(value, known)}.")
    return value


def check_verbose(value: Any) -> bool:
    """Return whether progress is to be printed.

    >>> check_verbose(1)
    True
    """
    if isinstance(value, _BOOLEANS):
        return bool(value)
    return check_count(value, "verbose", minimum=0) > 0


def check_count(value: Any, name: str, minimum: int = 1) -> int:
    """Return ``value`` as an integer of at least ``minimum``.

    >>> check_count(5, "n_bins", minimum=2)
    5
    """
    if type(value) is int and value >= minimum:
        return value  # most are, and the abstract class takes its time
    if isinstance(value, _BOOLEANS) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer of at least {minimum}, got {quoted(value)}.")
    if int(value) < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {quoted(value)}.")
    return int(value)


def check_seed(random_state: Any) -> int | None:
    """Return the seed, or None; refuse a generator, whose state would replay its noise."""
    if random_state is None:
        return None
    if isinstance(random_state, bool | np.bool_) or not isinstance(random_state, Integral):
        raise TypeError(
            f"random_state must be None or an integer, got {random_state!r}; a generator would "
            "store its state and could replay its noise."
        )
    return check_count(random_state, "random_state", minimum=0)


def check_jobs(n_jobs: Any) -> int | None:
    """Return ``n_jobs`` as joblib takes it: None, or a whole number that is not 0.

    >>> check_jobs(-1)
    -1
    """
    if n_jobs is None:
        return None
    if isinstance(n_jobs, _BOOLEANS) or not isinstance(n_jobs, Integral):
        raise TypeError(f"n_jobs must be None or an integer, got {n_jobs!r}.")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; give a number of threads, or -1 for all cores.")
    if abs(int(n_jobs)) > _MOST_JOBS:
        raise ValueError(
            f"n_jobs must be at most {_MOST_JOBS}, got {quoted(n_jobs)}; -1 takes all cores."
        )
    return int(n_jobs)


def as_float(value: Any) -> float:
    """Return a real number as a float, infinite where no float is as large.

    >>> as_float(10**400)
    inf
    """
    try:
        return float(value)
    except OverflowError:  # an integer or a fraction beyond all floats
        return inf if value > 0 else -inf


def check_pairs(n_pairs: int, what: str, way_out: str, *, alone: bool = False) -> None:
    """Refuse more pairs of secrets than a fit has time for, before any of them is made.

    ``alone`` says that the loss of each is computed on its own.

    >>> check_pairs(3, "the 3 values of 's'", "group them")
    """
    most = MOST_ALONE if alone else MOST_PAIRS
    if n_pairs > most:
        each = "a millisecond or more under this noise and promise" if alone else "about a kilobyte"
        raise ValueError(
            f"{what} make {n_pairs:,} pairs, and {most:,} is the limit, as each takes {each}; "
            f"{way_out}."
        )


def listed(names: Sequence[Any], limit: int = 5) -> str:
    """Join names for a message, shortened past ``limit``.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    first = ", ".join(quoted(name) for name in names[:limit])
    return first if len(names) <= limit else f"{first} and {len(names) - limit} more"


def meant(value: Any, names: Iterable[Any]) -> str:
    """Return a name close to a wrong one, as a question to be put behind it, or nothing.

    >>> meant("exat", ["exact", "relaxed"]), meant("best", ["exact", "relaxed"])
    (" (did you mean 'exact'?)", '')
    """
    known = {str(name).lower(): name for name in map(plain, names)}
    close = get_close_matches(str(value).strip().lower(), known, n=1)
    return f" (did you mean {quoted(known[close[0]])}?)" if close else ""


def on_one_line(value: Any) -> str:
    r"""Return a text without what moves, hides or turns what stands around it.

    Control and format characters, separators other than the blank, surrogates and unassigned code
    points are written as Python escapes them: line breaks, escape sequences, marks that turn the
    direction of writing. Applied twice it changes nothing more.

    >>> print(on_one_line("a\nb"))
    a\nb
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def shown(value: Any) -> str:
    r"""Return a name or value for people: different texts never look alike, or like a table.

    >>> print(shown("race"), shown("a\nb"), shown(r"a\nb"), shown("a  b"))
    race a\nb a\\nb 'a  b'
    """
    text = str(plain(value)).replace("\\", "\\\\")
    blank = "  " in text or text != text.strip()
    return on_one_line(f"'{text}'" if blank or not text else text)


def quoted(value: Any) -> str:
    """Return how Python writes a name or value, on one line; of huge whole numbers only the size.

    >>> quoted("race"), quoted(1), quoted(10**5000)
    ("'race'", '1', 'a whole number of 16610 bits')
    """
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"a whole number of {value.bit_length()} bits"
    try:
        return on_one_line(repr(plain(value)))
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return f"a {type(value).__name__} with a number too long to be written"


def plain(value: Any) -> Any:
    """Return a numpy scalar as the Python object that users wrote."""
    return value.item() if isinstance(value, np.generic) else value


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _tail(remedy: str) -> str:
    return f"; {remedy}" if remedy else ""
