"""Rules of how releases add up, as they are written to a ledger, read again."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sklearn_puffer._base import check_choice
from sklearn_puffer._releases.composition import Draws, Precisions, Refused, Rule
from sklearn_puffer._releases.mixed_composition import MixedPrecisions

_FRACTION = re.compile("[0-9]{1,4000}(/[1-9][0-9]{0,3999})?")


def rule_from_dict(record: Mapping[str, Any]) -> Rule:
    """Return the rule that ``to_dict`` wrote.

    Raises
    ------
    ValueError
        If the record is not that of a rule.

    Examples
    --------
    >>> rule = Precisions(2, {"age": 0.25, "sex": math.inf})
    >>> rule_from_dict(rule.to_dict()) == rule
    True
    """
    kind = record.get("rule") if isinstance(record, Mapping) else None
    check_choice(kind, "rule", ["precisions", "refused", "mixed", "draws"])
    try:
        if kind == "draws":
            return Draws(record["most"], record["reason"])
        if kind == "refused":
            return Refused(record["reason"], dict(record["scales"]))
        if kind == "mixed":
            return _mixed(record)
        budgets = {axis: _read(budget) for axis, budget in record["budgets"]}
        return Precisions(record["power"], budgets, record["draws"])
    except (LookupError, ArithmeticError, AttributeError, TypeError, ValueError) as fault:
        raise ValueError(
            f"record must be that of a rule as to_dict writes it, and this one is not ({fault}); "
            "put back a whole copy."
        ) from fault


def _mixed(record: Mapping[str, Any]) -> MixedPrecisions:
    numbers = rule_from_dict(record["numbers"])
    if not isinstance(numbers, Precisions):
        raise ValueError("the rule of its numbers is none of precisions")
    least = {axis: share for axis, share, _ in record["mixed"]}
    return MixedPrecisions(numbers, least, {axis: scale for axis, _, scale in record["mixed"]})


def _read(budget: Any) -> float | Fraction:
    """Return a budget as it was written: with an exponent it might have a billion digits."""
    if isinstance(budget, str) and budget != "infinity" and not _FRACTION.fullmatch(budget):
        raise ValueError(f"a budget is no fraction: {budget[:20]!r}")
    return math.inf if budget == "infinity" else Fraction(budget)
