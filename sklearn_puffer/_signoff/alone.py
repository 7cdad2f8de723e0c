"""What each column asks for by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sklearn_puffer._base import counted
from sklearn_puffer._signoff.candidates import COARSE, Candidate
from sklearn_puffer._signoff.columns import ColumnFacts
from sklearn_puffer._signoff.promises import WHOLE_ROW
from sklearn_puffer._signoff.trials import Clock, fitted, noise_of
from sklearn_puffer._tables import Name

_KEPT = ("missing", "secret_pairs", "delta", "alpha", "releases")


def with_shares(
    columns: Sequence[ColumnFacts],
    sensitive: Sequence[Name],
    epsilon: float,
    fixed: Mapping[str, Any],
    frame: Any,
    clock: Clock,
) -> list[ColumnFacts]:
    """Return the columns with the noise that each asks for if it is released by itself.

    By Laplace noise and few bins, whatever is tried later; as far as time allows.
    """
    params = {key: fixed[key] for key in _KEPT if key in fixed}
    params |= {"sensitive": list(sensitive), "n_bins": COARSE}
    alone = [
        _alone(column, {**params, **_declared(fixed, column)}, epsilon, frame, clock)
        for column in counted(list(columns), "columns")
    ]
    total = sum(column.noise for column in alone if math.isfinite(column.noise))
    if not total:
        return alone
    return [replace(column, share=column.noise / total) for column in alone]


def _declared(fixed: Mapping[str, Any], column: ColumnFacts) -> dict[str, Any]:
    categories = fixed.get("categories") or {}
    own = {n: v for n, v in categories.items() if n == column.name}
    return {"categories": own} if own else {}


def _alone(
    column: ColumnFacts, params: Mapping[str, Any], epsilon: float, frame: Any, clock: Clock
) -> ColumnFacts:
    candidate = Candidate(epsilon, "", WHOLE_ROW, {**params, "public": [column.name]})
    if clock.left <= 0.0:
        return column
    try:
        noiser, _ = fitted(candidate, frame, clock.ends)
    except Exception:
        return column  # the trials will say why
    certificate = noiser.certificate_
    (utility,) = certificate.utility
    return replace(
        column,
        noise=noise_of(certificate.columns, [column]),
        constant=utility.constant_sd,
        constant_unchanged=utility.constant_unchanged,
    )
