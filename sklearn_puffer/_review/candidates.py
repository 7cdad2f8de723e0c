"""The few settings that a plan measures, the good ones first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sklearn_puffer._base import quoted
from sklearn_puffer._review.columns import ColumnFacts
from sklearn_puffer.accounting import MAX_CELLS
from sklearn_puffer.noise import OPTIMAL, RecordSwap, optimal_channel, record_swap

BINS = 5
CELLS = (8, 20)
_NARROW = 60  # combinations of values, up to which an optimal channel is solved quickly
_FEW = 200  # values of a number, up to which noise is tried without bins
_SET = "over the 95 % set"

ROW = "who reads one row"
GROUP = "who reads the rows of one group"
TABLE = "who reads the table"


@dataclass(frozen=True)
class Candidate:
    """One setting that is measured.

    Attributes
    ----------
    epsilon : float
    label : str
        What it is, in words.
    promise : str
        Whom the promise is for.
    params : mapping
        Of `PufferfishNoiser`, but ``epsilon``.
    """

    epsilon: float
    label: str
    promise: str
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_channel(self) -> bool:
        """Whether the promise is for who reads one row, and counts no copies."""
        return optimal_channel(self.params.get("noise")) is not None

    @property
    def is_swap(self) -> bool:
        """Whether rows change owners."""
        return record_swap(self.params.get("noise")) is not None


def candidates_of(
    epsilon: float, fixed: Mapping[str, Any], columns: Sequence[ColumnFacts], lookup: Sequence[Any]
) -> list[Candidate]:
    """Return the settings for some columns; what the caller fixed is not varied.

    >>> [each.label for each in candidates_of(1.0, {"noise": "swap"}, [], [])]
    ['swap', 'swap, over the 95 % set']
    """
    found = []
    for label, params in _plain(fixed, columns):
        own = {**fixed, **params}
        swap = record_swap(own["noise"]) is not None
        found.append(
            Candidate(epsilon, label, TABLE if swap else GROUP if "groups" in fixed else ROW, own)
        )
        if swap and fixed.get("adversaries") is None:
            own = {**own, "adversaries": "confidence"}
            found.append(Candidate(epsilon, f"{label}, {_SET}", f"{TABLE}, {_SET}", own))
    if not lookup:
        return found
    known = [_with_known(each, tuple(lookup)) for each in found if each.is_swap]
    return [*known, *found]


def _with_known(candidate: Candidate, lookup: tuple[Any, ...]) -> Candidate:
    params = {**candidate.params, "known": lookup}
    told = ", lookup= known"
    return Candidate(candidate.epsilon, candidate.label + told, candidate.promise + told, params)


def _plain(
    fixed: Mapping[str, Any], columns: Sequence[ColumnFacts]
) -> list[tuple[str, dict[str, Any]]]:
    """Return labels and parameters, but for the set and what may be known."""
    if "noise" in fixed:
        noise = fixed["noise"]
        return [(noise if isinstance(noise, str) else quoted(noise), {})]
    tried: list[tuple[str, dict[str, Any]]] = [
        (f"swap, {number} cells", {"noise": RecordSwap(cells=number)}) for number in CELLS
    ]
    if "groups" in fixed:  # of which there is no channel
        pass
    elif _cells(columns, None) <= _NARROW:
        tried.append(("optimal channel", {"noise": OPTIMAL}))
    elif _cells(columns, BINS) <= _NARROW:
        tried.append((f"optimal channel, {BINS} bins", {"noise": OPTIMAL, "n_bins": BINS}))
    if _cells(columns, BINS) <= MAX_CELLS:
        noise = {"noise": "laplace", "n_bins": BINS}
        tried.append((f"Laplace noise, remapped, {BINS} bins", {**noise, "output": "remapped"}))
        tried.append((f"Laplace noise, {BINS} bins", noise))
    if _cells(columns, None) <= MAX_CELLS and all(each.distinct <= _FEW for each in columns):
        tried.append(("Laplace noise", {"noise": "laplace"}))
    return [each for each in tried if not (set(each[1]) - {"noise"}) & set(fixed)]


def _cells(columns: Sequence[ColumnFacts], bins: int | None) -> float:
    """Return how many combinations of values there may be, with so many bins for numbers."""
    return math.prod(
        float(min(each.distinct, bins) if bins and each.numeric else max(each.distinct, 1))
        for each in columns
    )
