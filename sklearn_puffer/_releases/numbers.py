"""Numbers as certificates show them."""

from __future__ import annotations

import math


def short_number(value: float) -> str:
    """Return a loss for people: to six digits, or in words."""
    if 0.0 < value < 1e-300:  # as good as nothing, rounded outwards
        return "below 1e-300"
    return "infinite" if math.isinf(value) else f"{value:.6g}"


def counted_loss(loss: float) -> str:
    """Return what is said of the loss under laws that were counted from some rows.

    Such laws differ by chance, which makes it larger, and infinite where some released row comes
    from one of two secrets alone: that says more of how few rows there are than of the release.
    """
    if math.isinf(loss):
        return (
            "No loss is estimated: as these rows were counted, some released row can come from one "
            "of two secrets alone, as happens by chance where rows are few"
        )
    return (
        f"Under the laws of these rows the loss is {short_number(loss)} (chance makes it too large "
        "where rows are few), an ESTIMATE"
    )
