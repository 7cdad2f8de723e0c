"""Ways out of a combination that does not exist: they are tried, and not only named."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from sklearn_puffer.noise import FAMILIES, Noise
from sklearn_puffer.notions import ADDED_ALPHA, ADDED_DELTA, Notion

Change = tuple[str, dict[str, Any]]  # in words, and the arguments that are replaced

_MOST_CHANGES, _MOST_WAYS = 3, 4
_ADVICE = re.compile(r";? (?=use |give |leave )")  # where a reason goes over into a way out


def reason_of(bound: Any) -> str:
    """Return why a bound is infinite whatever the noise, or an empty string."""
    return str(getattr(bound, "reason", ""))


def noise_changes(noise: Noise) -> list[Change]:
    """Return the families by name, other than that of a noise."""
    others = [name for name in FAMILIES if name != noise.name]
    return [(f"noise={name!r}", {"noise": FAMILIES[name](1.0)}) for name in others]


def notion_changes(notion: Notion) -> list[Change]:
    """Return the notions that may be tried in the place of one, by their arguments.

    >>> from sklearn_puffer.notions import Pufferfish
    >>> [words for words, _ in notion_changes(Pufferfish(1.0, delta=0.1))]
    ['delta=0.0']
    """
    return [(words, {"notion": other}) for words, other in notion.changes()]


def ways_out(changes: Sequence[Change], works: Callable[[Mapping[str, Any]], bool]) -> list[str]:
    """Return the smallest sets of changes that were tried and work, in words.

    Parameters
    ----------
    changes : sequence of Change
        In the order of preference.
    works : callable
        Takes arguments, and returns whether the combination exists with them.

    Examples
    --------
    >>> changes = [("a=1", {"a": 1}), ("a=2", {"a": 2}), ("b=3", {"b": 3})]
    >>> ways_out(changes, lambda new: sum(new.values()) > 2)
    ['b=3']
    >>> ways_out(changes, lambda new: sum(new.values()) > 3)
    ['a=1 with b=3', 'a=2 with b=3']
    """
    for size in range(1, _MOST_CHANGES + 1):
        found: list[str] = []
        for chosen in combinations(changes, size):
            keys = [key for _, arguments in chosen for key in arguments]
            merged = {key: value for _, own in chosen for key, value in own.items()}
            if len(keys) == len(merged) and works(merged):
                found.append(" with ".join(words for words, _ in chosen))
            if len(found) == _MOST_WAYS:
                break
        if found:
            return found
    return []


def refusal(reason: str, ways: Sequence[str], pair: str = "") -> str:
    """Return a reason as one sentence that ends with ways out that were tried.

    Parameters
    ----------
    reason : str
        Of a single pair, which it calls "pair 0".
    ways : sequence of str
        Where there is none, the reason keeps its own advice.
    pair : str, optional
        What to call that pair.

    Examples
    --------
    >>> refusal("there is no such bound; use luck.", ["noise='cauchy'", "alpha=2.0"], "pair 3")
    "there is no such bound (pair 3); use noise='cauchy' or alpha=2.0."
    """
    why, *advice = _ADVICE.split(reason.rstrip("."), maxsplit=1)
    if pair:
        why = why.replace("pair 0", pair) if "pair 0" in why else f"{why} ({pair})"
    if not ways:
        return f"{'; '.join([why, *advice])}."
    *first, last = ways
    listing = f"{', '.join(first)} or {last}" if first else last
    adds = ways[0] in (f"delta={ADDED_DELTA!r}", f"alpha={ADDED_ALPHA!r}")
    return f"{why}{'' if ';' in why else ';'} {'give' if adds else 'use'} {listing}."
