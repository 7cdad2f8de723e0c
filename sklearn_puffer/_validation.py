"""Argument checks: every message names the argument, its value and the way out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np

_BOOLEANS = (bool, np.bool_)  # a tuple: a union would be built anew at every check


def check_positive(value: Any, name: str, remedy: str = "") -> float:
    """Return ``value`` as a positive finite float.

    >>> check_positive(2, "epsilon")
    2.0
    """
    if isinstance(value, _BOOLEANS) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a positive number, got {value!r}{_tail(remedy)}.")
    number = _as_float(value)
    if not 0.0 < number < inf:
        raise ValueError(f"{name} must be positive and finite, got {value!r}{_tail(remedy)}.")
    return number


def check_delta(value: Any, name: str) -> float:
    """Return ``value`` as a probability in [0, 1).

    >>> check_delta(0, "delta")
    0.0
    """
    if isinstance(value, _BOOLEANS) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number in [0, 1), got {value!r}.")
    number = _as_float(value)
    if not 0.0 <= number < 1.0:
        raise ValueError(
            f"{name} must lie in [0, 1), got {value!r}; choose 0 for a pure promise, or a small "
            "probability such as 1e-5."
        )
    return number


def check_above(value: Any, least: float, name: str) -> float:
    """Return ``value`` as a finite float above ``least``.

    >>> check_above(2, 1.0, "alpha")
    2.0
    """
    if isinstance(value, _BOOLEANS) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number above {least:g}, got {value!r}.")
    number = _as_float(value)
    if not least < number < inf:
        raise ValueError(f"{name} must be finite and above {least:g}, got {value!r}.")
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


def check_count(value: Any, name: str, minimum: int = 1) -> int:
    """Return ``value`` as an integer of at least ``minimum``.

    >>> check_count(5, "n_bins", minimum=2)
    5
    """
    if isinstance(value, _BOOLEANS) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer of at least {minimum}, got {value!r}.")
    if int(value) < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value!r}.")
    return int(value)


def listed(names: Sequence[Any], limit: int = 5) -> str:
    """Join names for a message, shortened past ``limit``.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    shown = ", ".join(repr(plain(name)) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def meant(value: Any, names: Iterable[Any]) -> str:
    """Return a name close to a wrong one, as a question to be put behind it, or nothing.

    >>> meant("exat", ["exact", "relaxed"]), meant("best", ["exact", "relaxed"])
    (" (did you mean 'exact'?)", '')
    """
    known = {str(name).lower(): name for name in map(plain, names)}
    close = get_close_matches(str(value).strip().lower(), known, n=1)
    return f" (did you mean {known[close[0]]!r}?)" if close else ""


def plain(value: Any) -> Any:
    """Return a numpy scalar as the Python object that users wrote."""
    return value.item() if isinstance(value, np.generic) else value


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer or a fraction beyond all floats
        return inf if value > 0 else -inf


def _tail(remedy: str) -> str:
    return f"; {remedy}" if remedy else ""
