"""Numbers as certificates show them."""

from __future__ import annotations

import math


def short_number(value: float) -> str:
    """Return a loss for people: to six digits, or in words."""
    if 0.0 < value < 1e-300:  # as good as nothing, rounded outwards
        return "below 1e-300"
    return "infinite" if math.isinf(value) else f"{value:.6g}"
