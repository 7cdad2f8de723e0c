"""What a setting promises, in a few words, and what that rests on: only equals are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WHOLE_ROW = "whole row"
APART, GROUPS = "each column apart", "column groups apart"
SAMPLING = "sampling error included"
FURTHER = "further adversaries"
MODEL = "against a classifier"
GIVEN = "against the prior given"
FITTED = "against a fitted Gaussian law"
FEWER_PAIRS = "fewer pairs"
MERGED = "against the rest as one"

_TRUSTS = {
    APART: "It trusts that the columns are independent given the sensitive one: what they tell "
    "together is not limited by the budget.",
    GROUPS: "It trusts that the groups of columns are independent given the sensitive one: what "
    "they tell together is not limited by the budget.",
    SAMPLING: "It holds for every law within sampling error of the counted one.",
    MODEL: "It covers whoever knows as much of the sensitive column as the classifier learns, and "
    "a weak one certifies anything: read what the certificate says of it.",
    FITTED: "It covers who takes the fitted law for true.",
    GIVEN: "It covers who knows the prior that was given.",
    FEWER_PAIRS: "It keeps the most frequent value and each other one within the budget; two of "
    "the others may be told apart by more, under a pure promise by twice the budget at most.",
    MERGED: "It keeps the most frequent value and all others taken as one within the budget, and "
    "says nothing of any single one of the others.",
}

CHANNEL_TRUSTS = (
    "A channel takes for granted that the reader knows neither the fitted rows nor anything else "
    "about a row."
)


def promise_of(params: Mapping[str, Any], *, fewer_pairs: bool, merged: bool) -> str:
    """Return in words what settings promise.

    >>> promise_of({"adversaries": "confidence"}, fewer_pairs=False, merged=False)
    'whole row, sampling error included'
    """
    parts = [_together(params.get("dependence", "joint")), *_adversary(params)]
    parts += [FEWER_PAIRS] * fewer_pairs + [MERGED] * merged
    return ", ".join(parts)


def trusts_of(promise: str) -> list[str]:
    """Return what such a promise rests on, in sentences; nothing of the plain one."""
    return [_TRUSTS[part] for part in promise.split(", ") if part in _TRUSTS]


def _together(dependence: Any) -> str:
    if not isinstance(dependence, str):
        return GROUPS
    return APART if dependence == "independent" else WHOLE_ROW


def _adversary(params: Mapping[str, Any]) -> list[str]:
    prior, further = params.get("prior", "empirical"), params.get("adversaries")
    if isinstance(prior, str):
        parts = [] if prior == "empirical" else [FITTED]
    else:
        parts = [MODEL] if hasattr(prior, "estimator") or hasattr(prior, "fit") else [GIVEN]
    if further is not None:
        parts.append(SAMPLING if isinstance(further, str) else FURTHER)
    return parts
