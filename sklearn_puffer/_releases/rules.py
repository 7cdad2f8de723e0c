"""What rules of how releases add up have in common: histories, meters, and their checks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sklearn_puffer._validation import check_count, check_positive

Axis = str | int
Spent = Mapping[Axis, Mapping[float, int]]
"""How often each axis was released at each scale."""

_ENDLESS = 1 << 63


class Meter(Protocol):
    """A history that was measured once, so that further releases are judged quickly.

    It judges every axis on its own, and what it allows at one scale it allows at larger ones.
    """

    def allows(self, extra: Spent) -> bool:
        """Return whether the history and the extra releases together are within the budget."""

    def left(self) -> dict[Axis, float]:
        """Return what is left on each axis, rounded down."""


@dataclass(frozen=True)
class BaseRule(ABC):
    """What every rule shares: a history is allowed where it is an allowed addition to nothing."""

    @property
    @abstractmethod
    def axes(self) -> tuple[Axis, ...]:
        """Names of the axes, in order."""

    @abstractmethod
    def is_free(self, axis: Axis) -> bool:
        """Return whether an axis needs no noise."""

    @property
    def condition(self) -> str:
        """Under which condition the releases add up like this, as a sentence; mostly none."""
        return ""

    def meter(self, spent: Spent) -> Meter:
        """Return a meter that stands at this history."""
        own = {axis: dict(scales) for axis, scales in spent.items()}
        return self._meter(own)

    @abstractmethod
    def _meter(self, spent: Spent) -> Meter:
        """Return the meter of a history that nobody else changes."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values for JSON; `rule_from_dict` reads it."""

    def allows(self, spent: Spent) -> bool:
        """Return whether a history {axis: {scale: count}} is within the budget.

        Raises
        ------
        TypeError, ValueError
            If an axis is unknown, a scale not a positive finite number (0 is one on an axis that
            needs no noise), or a count not a positive integer.
        """
        return self.meter({}).allows(spent)

    def left(self, spent: Spent) -> dict[Axis, float]:
        """Return what a history leaves on each axis, rounded down; infinite where nothing counts.

        A sum of precisions for `Precisions`, nats for `Averages`, releases for `Refused`.
        """
        return self.meter(spent).left()


def times_left(meter: Meter, release: Spent) -> float:
    """Return how often a release may still be made; beyond 2^63 times counts as infinite.

    >>> from sklearn_puffer.spending import Precisions
    >>> times_left(Precisions.of_scales(1, {"age": 2.0}).meter({}), {"age": {7.0: 1}})
    3
    """
    high = 1
    while high < _ENDLESS and meter.allows(_repeated(release, high)):
        high *= 2
    if high == _ENDLESS and meter.allows(_repeated(release, high)):
        return math.inf
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if meter.allows(_repeated(release, middle)):
            low = middle
        else:
            high = middle
    return low


def _repeated(release: Spent, times: int) -> Spent:
    return {
        axis: {scale: count * times for scale, count in scales.items()}
        for axis, scales in release.items()
    }


def count_of(scales: Mapping[float, int]) -> int:
    """Return the number of releases of an axis."""
    return sum(map(int, scales.values()))


def is_count(count: Any) -> bool:
    """Return whether a count is a plain one, as most are; `check_count` takes its time."""
    return count.__class__ is int and count > 0


def check_spent(rule: BaseRule, spent: Spent) -> None:
    """Check the axes, scales and counts of a history."""
    axes = rule.axes
    for axis, scales in spent.items():
        if axis not in axes:
            raise ValueError(f"axis {axis!r} is not one of {list(axes)}; name one of these.")
        for scale, count in scales.items():
            if scale.__class__ is not float or not 0.0 < scale < math.inf:
                check_scale(scale, axis, free=rule.is_free(axis))
            if not is_count(count):
                check_count(count, f"the number of releases of {axis!r}")


def check_scale(scale: Any, axis: Axis, free: bool) -> float:
    """Return a scale as a positive finite float, or as 0 where no noise is needed."""
    if free and not isinstance(scale, bool) and scale == 0.0:
        return 0.0
    return check_positive(scale, f"the scale of {axis!r}")


def check_draws(draws: Any) -> int | None:
    """Return the largest number of releases, where there is one."""
    return None if draws is None else check_count(draws, "draws")
