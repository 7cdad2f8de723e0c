"""How far answers about single scales reach: they decide most of the questions that follow.

No precision and no loss of a shift grows with the scale (noise of a larger scale is noise of a
smaller one plus something independent), none falls with the number of releases, and a meter judges
every axis on its own. So for a history and an axis, what is allowed is allowed also at larger
scales and less often, and what is refused is refused also at smaller scales and more often. Two
floats for a number of releases, the largest scale that is known to be refused and the smallest one
that is known to be allowed, answer all questions but those about scales between the two. They are
kept for round numbers only, of which there are sixteen between a number and its double.

*Rounding.* `Precisions` compares exact sums, so its answers are the same with and without this.
`Averages` compares bounds that are rounded up: where one of them is within the budget, so is the
true loss, there and wherever it is less. It may allow a scale whose own bound, a few units in the
last place off, would have been refused; never one whose loss is beyond the budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sklearn_puffer._releases.rules import Axis, Meter, is_count

_Reach = tuple[float, float]  # what is refused up to the first is allowed from the second

_NOTHING: _Reach = (0.0, math.inf)
_DIGITS = 5  # binary, of a round number


class Judge:
    """A meter that remembers how far its answers reach.

    Threads may share it: they may lose what another one learnt, and never learn anything wrong.

    >>> from sklearn_puffer.spending import Precisions
    >>> judge = Judge(Precisions.of_scales(1, {"age": 2.0}).meter({}))
    >>> judge.known({"age": 3.0}, 1), judge.allows({"age": 2.5}, 1), judge.known({"age": 3.0}, 1)
    (None, True, True)
    """

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self._reaches: dict[int, dict[Axis, _Reach]] = {}

    def known(self, scales: Any, releases: Any) -> bool | None:
        """Return what follows from earlier answers, and None where they decide nothing.

        Anything but a dict of axes that were asked about to positive finite floats, and a plain
        number of releases, is left to `allows`.
        """
        if scales.__class__ is not dict or not scales or not is_count(releases):
            return None
        less = more = self._reaches.get(releases)
        if less is None or more is None:
            low, high = _rounded(releases)
            less, more = self._reaches.get(low, {}), self._reaches.get(high, {})
        allowed = True
        for axis, scale in scales.items():
            if scale.__class__ is not float:
                return None
            if more.get(axis, _NOTHING)[1] <= scale < math.inf:
                continue
            if not 0.0 < scale <= less.get(axis, _NOTHING)[0]:
                return None
            allowed = False
        return allowed

    def allows(self, scales: Mapping[Axis, float], releases: int) -> bool:
        """Return whether the budget suffices for this many releases at these scales.

        Raises
        ------
        TypeError, ValueError
            Those of `Meter.allows`.
        """
        answer = self.known(scales, releases)
        if answer is None:  # every axis is asked about, so that all are checked
            answers = [self._asked(axis, scale, releases) for axis, scale in scales.items()]
            answer = all(answers)
        return answer

    def _asked(self, axis: Axis, scale: float, releases: int) -> bool:
        low, high = _rounded(releases)
        if low == high:
            return self._learnt(axis, scale, releases)
        answer = self._measured(axis, scale, releases)
        nearest = high if answer else low
        refused, sure = self._reaches.get(nearest, {}).get(axis, _NOTHING)
        if refused < scale < sure:
            self._learnt(axis, scale, nearest)
        return answer

    def _learnt(self, axis: Axis, scale: float, releases: int) -> bool:
        """Return the answer of the meter, and keep how far it reaches."""
        answer = self._measured(axis, scale, releases)
        reaches = self._reaches.setdefault(releases, {})
        before = reaches.get(axis)
        reach = _further(before or _NOTHING, scale, answer)
        if before is not None:  # a second question between the two: there may be many, so halve
            middle = _between(*reach)
            if reach[0] < middle < reach[1]:
                reach = _further(reach, middle, self._measured(axis, middle, releases))
        reaches[axis] = reach
        return answer

    def _measured(self, axis: Axis, scale: float, releases: int) -> bool:
        return self.meter.allows({axis: {scale: releases}})


def _rounded(releases: int) -> tuple[int, int]:
    """Return the round numbers next to a number: it is both where it is one of them."""
    shift = max(releases.bit_length() - _DIGITS, 0)
    low = releases >> shift << shift
    return low, low if low == releases else low + (1 << shift)


def _further(reach: _Reach, scale: float, allowed: bool) -> _Reach:
    refused, sure = reach
    return (refused, min(sure, scale)) if allowed else (max(refused, scale), sure)


def _between(refused: float, sure: float) -> float:
    """Return a scale between two, by ratio; half or double of one where the other is unknown."""
    if refused == 0.0:
        return sure / 2.0
    if sure == math.inf:
        return refused * 2.0
    return math.sqrt(refused) * math.sqrt(sure)
