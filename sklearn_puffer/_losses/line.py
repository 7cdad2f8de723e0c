r"""The privacy loss of one released column, as a proven interval, for every notion.

The line is cut into panels. A `LinePair` (two distributions, released with the same noise) bounds
the log ratio f = log h_p / h_q and the masses on each. Panels that keep the interval wide are cut
again, until the interval is narrow or the allowed work is done. It is valid at every moment,
because the bounds of each panel are. Both directions share the panels: from q to p the log ratio
is -f.

- *Pure.* The supremum of f lies between its largest value seen and the largest upper bound.
- *(epsilon, delta).* Where f - epsilon has one sign all over a panel, only the masses of maximal
  runs of such panels matter; a panel of unsettled sign adds between 0 and P (1 - e^(epsilon - f)).
- *Renyi.* Bounds for convex functions on each panel, see `_losses.divergences`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import NamedTuple, Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._base import BoolArray, FloatArray, IntArray
from sklearn_puffer._losses.divergences import (
    Ends,
    Panels,
    apart,
    kept,
    renyi_of_terms,
    renyi_terms,
)
from sklearn_puffer._numerics import ULP
from sklearn_puffer.notions import HockeyStick, Notion, PowerMean, Supremum

MassBounds = tuple[FloatArray, FloatArray, FloatArray, FloatArray]

_PURE_TOLERANCE = 1e-11
_DELTA_TOLERANCE = 1e-11
_RENYI_TOLERANCE = 1e-8
# Panels for composition: cut until a Renyi divergence of this order is known so well; tails of
# unbounded losses have at most this share of the budget, a delta.
_CUT_ALPHA, _PANELS_TOLERANCE = 2.0, 1e-4
_TAIL_SHARE, _LEAST_TAIL = 1e-3, 1e-300
# Deltas below this are not resolved: the interval's upper end stays about there.
_SMALLEST_DELTA = 1e-290
_ROUNDS = 48
# Kernel values computed for one interval, about, and panels held at once.
_WORK = 2**27
# Kernel values that cost as much as one mass.
_MASS_COST = 16
_FEW_PANELS = 2**9
_MOST_PANELS = 2**18


class View(NamedTuple):
    """Bounds on each panel; arrays of shape (m,).

    ``log_low`` and ``log_high`` bound f within it. ``seen_high`` is a lower bound on sup f and
    ``seen_low`` an upper bound on inf f there. ``rounding`` is the part of their width that no
    cutting reduces. ``p_least``, ``p_most``, ``q_least``, ``q_most`` bound the masses.
    """

    log_low: FloatArray
    log_high: FloatArray
    seen_low: FloatArray
    seen_high: FloatArray
    rounding: FloatArray
    p_least: FloatArray
    p_most: FloatArray
    q_least: FloatArray
    q_most: FloatArray

    def swapped(self) -> View:
        """Return the same of -f, the log ratio from q to p."""
        low, high, seen_low, seen_high, rounding, *masses = self
        return View(-high, -low, -seen_high, -seen_low, rounding, *masses[2:], *masses[:2])

    def taken(self, chosen: NDArray[np.generic]) -> View:
        """Return the chosen panels."""
        return View(*(field[chosen] for field in self))

    def joined(self, *others: View) -> View:
        """Return these panels and those of the others."""
        return View(*(np.concatenate(fields) for fields in zip(self, *others, strict=True)))


_NOTHING = (-inf, inf, inf, -inf, 0.0, 0.0, 1.0, 0.0, 1.0)  # trivial bounds


def certain(view: View) -> View:
    """Return a view in which a bound that could not be computed says nothing.

    A comparison with NaN is false, so that a panel would be passed over, and a loss with it.
    """
    if not any(np.isnan(field).any() for field in view):
        return view
    return View(*(np.where(np.isnan(f), none, f) for f, none in zip(view, _NOTHING, strict=True)))


def tail_panel(edge: float, side: int) -> Ends:
    """Return y >= edge (side 1) or y <= edge (side -1) as the ends of one panel."""
    ends = (edge, inf) if side == 1 else (-inf, edge)
    return np.array(ends[:1]), np.array(ends[1:])


class LinePair(Protocol):
    """Two distributions of one released column, p and q. Bounds are proven, rounding included.

    Attributes
    ----------
    unit : float
        A length below which nothing changes much: cuts near anchors are graded by it.
    weight : int
        How many kernel values one point costs.
    """

    unit: float
    weight: int

    def anchors(self) -> FloatArray:
        """Return sorted finite points to cut at first, at least one."""

    def look(self, low: FloatArray, high: FloatArray) -> View:
        """Return bounds on finite panels, which no anchor lies strictly within."""

    def tail(self, edge: float, side: int) -> View:
        """Return bounds on y >= edge (side 1) or y <= edge (side -1), as one panel."""

    def masses(self, low: FloatArray, high: FloatArray) -> MassBounds:
        """Return bounds p_low, p_high, q_low, q_high on masses; ends may be infinite."""

    def tail_power(self, edge: float, side: int, alpha: float) -> tuple[float, float]:
        """Return upper bounds on log of int h_p^alpha h_q^(1 - alpha), and swapped, in a tail."""

    def closed_form(self, notion: Notion) -> Ends | None:
        """Return proven ends of the loss both ways, where there is a better way to it."""


def loss_interval(pair: LinePair, notion: Notion) -> Ends:
    """Return proven lower and upper ends of the losses p -> q and q -> p, each of shape (2,)."""
    closed = pair.closed_form(notion)
    divergence = notion.divergence
    if isinstance(divergence, PowerMean):
        return _renyi(pair, divergence, closed)
    if closed is not None:
        return closed
    if isinstance(divergence, HockeyStick):
        return _deltas(pair, divergence.epsilon)
    if isinstance(divergence, Supremum):
        return _suprema(pair)
    assert_never(divergence)


def fine_panels(pair: LinePair, notion: Notion) -> Panels:
    """Return panels that cover the line, to compose the loss of independent columns under a delta.

    A hockey stick ignores losses below epsilon, whose sum may exceed it. A Renyi divergence does
    not: the panels are cut until it is known to 1e-4. Losses without a bound have hardly any mass.
    """
    cover = _Cover.begin(pair, weighed=True)
    for _ in range(_ROUNDS):
        cover, done = _with_shorter_tails(cover, max(_TAIL_SHARE * notion.budget, _LEAST_TAIL))
        if done:
            break
    return _refined_for_sums(cover, PowerMean(_CUT_ALPHA), _PANELS_TOLERANCE).sorted().panels()


def _with_shorter_tails(cover: _Cover, least: float) -> tuple[_Cover, bool]:
    """Cut the tails in which f has no bound and that have more mass than is little."""
    panels = cover.panels()
    lost = np.where(np.isinf(panels.log_high), panels.p_high, 0.0)
    lost = np.maximum(lost, np.where(np.isinf(panels.log_low), panels.q_high, 0.0))
    chosen = cover.tails & (lost > least)
    if not chosen.any():
        return cover, True
    return cover.split(chosen, np.full(len(chosen), 1)), False


@dataclass(frozen=True)
class _Cover:
    """Panels that cover the line, the two tails among them.

    Where they are wanted, ``masses`` are bounds p_low, p_high, q_low, q_high, shape (4, m).
    """

    pair: LinePair
    low: FloatArray
    high: FloatArray
    view: View
    masses: FloatArray | None

    @classmethod
    def begin(cls, pair: LinePair, weighed: bool = False) -> _Cover:
        """Return the panels between anchors, ``weighed`` if their masses are wanted."""
        points = pair.anchors()
        low, high = points[:-1], points[1:]
        view = pair.tail(float(points[0]), -1).joined(pair.tail(float(points[-1]), 1))
        if len(low):
            view = view.joined(pair.look(low, high))
        view = certain(view)
        low = np.concatenate(([-inf, points[-1]], low))
        high = np.concatenate(([points[0], inf], high))
        masses = np.array(pair.masses(low, high)) if weighed else None
        return cls(pair, low, high, view, masses)

    @property
    def room(self) -> int:
        """How many more panels are allowed."""
        cost = self.pair.weight * (1 if self.masses is None else _MASS_COST)
        allowed = min(_MOST_PANELS, _WORK // cost + _FEW_PANELS)
        return max(allowed - len(self.low), 0)

    def split(self, chosen: BoolArray, parts: IntArray) -> _Cover:
        """Cut the chosen panels into ``parts`` each (a tail into a panel and a tail)."""
        pair, rest = self.pair, self.taken(~chosen)
        inner = chosen & ~self.tails
        low, high = cut(self.low[inner], self.high[inner], parts[inner], pair.anchors(), pair.unit)
        views = [pair.look(low, high)] if len(low) else []
        for k in np.flatnonzero(chosen & self.tails):
            ends_low, ends_high, seen = self._shortened(int(k))
            low, high = np.append(low, ends_low), np.append(high, ends_high)
            views.append(seen)
        masses = rest.masses
        if masses is not None:
            masses = np.hstack((masses, pair.masses(low, high)))
        low, high = np.append(rest.low, low), np.append(rest.high, high)
        view = rest.view.joined(*map(certain, views))
        return _Cover(pair, low, high, view, masses)

    @property
    def tails(self) -> BoolArray:
        """Which of the panels are tails."""
        return np.isinf(self.low) | np.isinf(self.high)

    def tail_of(self, k: int) -> tuple[int, float]:
        """Return on which side a tail lies, and where it begins."""
        side = 1 if np.isinf(self.high[k]) else -1
        return side, float(self.low[k] if side == 1 else self.high[k])

    def _shortened(self, k: int) -> tuple[FloatArray, FloatArray, View]:
        """Cut a tail at a point further out."""
        side, edge = self.tail_of(k)
        anchors = self.pair.anchors()
        reach = abs(edge - float(anchors[-1] if side == 1 else anchors[0]))
        further = edge + side * (2.0 * reach + 4.0 * self.pair.unit)
        if not np.isfinite(further) or further == edge:
            return self.low[k : k + 1], self.high[k : k + 1], self.view.taken(np.array([k]))
        near = np.array(sorted((edge, further)))
        seen = self.pair.look(near[:1], near[1:]).joined(self.pair.tail(further, side))
        # both lie in the old tail, whose bounds hold on: far out those of a panel are mere rounding
        seen = seen._replace(
            log_low=np.maximum(seen.log_low, self.view.log_low[k]),
            log_high=np.minimum(seen.log_high, self.view.log_high[k]),
        )
        if side == 1:
            return np.array([edge, further]), np.array([further, inf]), seen
        return np.array([further, -inf]), np.array([edge, further]), seen

    def sorted(self) -> _Cover:
        """Return the panels from left to right."""
        return self.taken(np.argsort(self.low, kind="stable"))

    def taken(self, chosen: NDArray[np.generic]) -> _Cover:
        """Return the chosen panels, in their order."""
        masses = None if self.masses is None else self.masses[:, chosen]
        low, high = self.low[chosen], self.high[chosen]
        return _Cover(self.pair, low, high, self.view.taken(chosen), masses)

    def panels(self) -> Panels:
        """Return the panels with the bounds on their masses, which must be wanted."""
        assert self.masses is not None
        p_low, p_high, q_low, q_high = self.masses
        return Panels(p_low, p_high, q_low, q_high, self.view.log_low, self.view.log_high)


def cut(
    low: FloatArray, high: FloatArray, parts: IntArray, anchors: FloatArray, unit: float
) -> Ends:
    """Cut panels, evenly where they are narrow, graded towards the nearest anchor where not."""
    owner = np.repeat(np.arange(len(low)), parts)
    part = np.arange(len(owner)) - np.repeat(np.cumsum(parts) - parts, parts)
    start, width = low[owner], (high - low)[owner]
    nearest = _nearest(anchors, low + 0.5 * (high - low))[owner]
    from_low, from_high = (start - nearest) / unit, (high[owner] - nearest) / unit
    wide = width > 0.5 * np.maximum(unit, np.minimum(np.abs(from_low), np.abs(from_high)) * unit)
    v0, v1 = np.arcsinh(from_low), np.arcsinh(from_high)

    def at(index: IntArray) -> FloatArray:
        share = index / parts[owner]
        graded = nearest + unit * np.sinh(v0 + share * (v1 - v0))
        y = np.clip(np.where(wide, graded, start + share * width), start, high[owner])
        y = np.where(index == 0, start, y)
        return np.where(index == parts[owner], high[owner], y)

    lows, highs = at(part), at(part + 1)
    real = highs > lows
    return lows[real], highs[real]


def _nearest(anchors: FloatArray, points: FloatArray) -> FloatArray:
    after = (
        np.clip(np.searchsorted(anchors, points), 1, len(anchors) - 1) if len(anchors) > 1 else 0
    )
    before = np.maximum(np.asarray(after) - 1, 0)
    left, right = anchors[before], anchors[after]
    return np.where(points - left <= right - points, left, right)


def _suprema(pair: LinePair) -> Ends:
    """Return bounds on sup f and on sup -f."""
    return _narrowed(pair, _above, _both_suprema, _PURE_TOLERANCE, 0.0)


def _deltas(pair: LinePair, epsilon: float) -> Ends:
    """Return bounds on the hockey-stick divergences of both directions."""
    worth, ends = partial(_unsettled, epsilon), partial(_both_deltas, epsilon)
    return _narrowed(pair, worth, ends, _DELTA_TOLERANCE, _SMALLEST_DELTA)


def _narrowed(
    pair: LinePair,
    worth_of: Callable[[View, float, float], FloatArray],
    ends_of: Callable[[_Cover], Ends],
    tolerance: float,
    least: float,
) -> Ends:
    """Cut the panels that are worth most until none is, and return the ends of both directions."""
    cover = _Cover.begin(pair)
    for _ in range(_ROUNDS):
        views = cover.view, cover.view.swapped()
        worth = np.maximum(*(worth_of(view, tolerance, least) for view in views))
        wanted = np.flatnonzero(worth > 0.0)
        wanted = wanted[np.argsort(-worth[wanted], kind="stable")[: cover.room // 4]]
        if not wanted.size:
            break
        chosen = np.zeros(len(worth), dtype=bool)
        chosen[wanted] = True
        cover = cover.split(chosen, np.full(len(worth), 8 if wanted.size < 64 else 4))
    return ends_of(cover)


def _both_suprema(cover: _Cover) -> Ends:
    directions = (cover.view, cover.view.swapped())
    lower = np.array([max(float(view.seen_high.max()), 0.0) for view in directions])
    upper = np.array([max(float(view.log_high.max()), 0.0) for view in directions])
    return lower, upper


def _above(view: View, tolerance: float, least: float) -> FloatArray:
    """Return by how much each panel may exceed the largest value seen, where cutting may help.

    That is where it may by more than ``tolerance`` of it, and than ``least``.
    """
    best = max(float(view.seen_high.max()), 0.0)
    if best == inf:
        return np.full(len(view.log_low), -inf)
    settled = best + max(tolerance * best, least) + 4.0 * view.rounding
    return np.where(view.log_high > settled, view.log_high - best, -inf)


def _both_deltas(epsilon: float, cover: _Cover) -> Ends:
    cover = cover.sorted()
    forward = _delta(cover, cover.view, epsilon, swapped=False)
    backward = _delta(cover, cover.view.swapped(), epsilon, swapped=True)
    lower, upper = np.array([forward, backward]).T
    return lower, upper


def _straddles(view: View, epsilon: float) -> BoolArray:
    return (view.log_low < epsilon) & (view.log_high > epsilon)


def _unsettled(epsilon: float, view: View, tolerance: float, least: float) -> FloatArray:
    """Return the most that each panel of unsettled sign adds; 0 where cutting it does not pay.

    All together may add ``tolerance`` of the delta, or ``least``.
    """
    at_most = np.where(_straddles(view, epsilon), view.p_most * kept(epsilon, view.log_high), 0.0)
    at_least = float((view.p_least * kept(epsilon, view.log_low)).sum())
    allowed = max(tolerance * at_least, least)
    if float(at_most.sum()) <= allowed:
        return np.zeros(len(at_most))
    count = int((at_most > 0.0).sum())
    hopeless = view.log_high - view.log_low <= 8.0 * view.rounding
    return np.where(hopeless | (at_most < 0.25 * allowed / count), 0.0, at_most)


def _delta(cover: _Cover, view: View, epsilon: float, swapped: bool) -> tuple[float, float]:
    """Return bounds on int (h_p - e^epsilon h_q)_+ from sorted panels.

    A run of panels where f >= epsilon adds P - e^epsilon Q, which is also at least P (1 - e^(eps -
    min f)) and at most P (1 - e^(eps - max f)).
    """
    above = view.log_low >= epsilon
    rest = float(
        np.where(_straddles(view, epsilon), view.p_most, 0.0) @ kept(epsilon, view.log_high)
    )
    if not above.any():
        return 0.0, min(rest * (1.0 + 64.0 * ULP), 1.0)
    starts = np.flatnonzero(above & ~np.append(False, above[:-1]))
    stops = np.flatnonzero(above & ~np.append(above[1:], False))
    masses = cover.pair.masses(cover.low[starts], cover.high[stops])
    p_low, p_high, q_low, q_high = (*masses[2:], *masses[:2]) if swapped else masses
    f_low = np.minimum.reduceat(np.where(above, view.log_low, inf), starts)
    f_high = np.maximum.reduceat(np.where(above, view.log_high, -inf), starts)
    at_least = np.maximum(apart(p_low, q_high, epsilon, -1.0), p_low * kept(epsilon, f_low))
    at_most = np.minimum(apart(p_high, q_low, epsilon, 1.0), p_high * kept(epsilon, f_high))
    # terms are right to within 4 ulp, numpy's pairwise sums to 60 u
    margin = 128.0 * ULP
    lower = max(float(at_least.sum()) * (1.0 - margin), 0.0)
    upper = min((float(at_most.sum()) + rest) * (1.0 + margin), 1.0)
    return lower, upper


def _renyi(pair: LinePair, mean: PowerMean, known: Ends | None) -> Ends:
    """Return bounds on the Renyi divergences of both directions, by panels where none is known."""
    lower, upper = known or (np.zeros(2), np.full(2, inf))
    ways = np.flatnonzero(np.isinf(upper)).tolist()
    if not ways:
        return lower, upper
    cover = _refined_for_sums(_Cover.begin(pair, weighed=True), mean, _RENYI_TOLERANCE, ways)
    for way in ways:
        low, upper[way] = _ends_and_gaps(cover, mean, way)[0]
        lower[way] = max(lower[way], low)
    return lower, upper


def _ends_and_gaps(
    cover: _Cover, mean: PowerMean, direction: int
) -> tuple[tuple[float, float], FloatArray]:
    """Return the ends of a Renyi divergence, and what each panel adds to their distance."""
    panels = cover.panels() if direction == 0 else cover.panels().swapped()
    low, high = renyi_terms(panels, mean.alpha)
    for k in np.flatnonzero(cover.tails).tolist():
        side, edge = cover.tail_of(k)
        power = cover.pair.tail_power(edge, side, mean.alpha)[direction]
        high[k] = min(high[k], power)
        low[k] = min(low[k], high[k])  # as in `renyi_terms`
    ends = renyi_of_terms(low, high, mean.alpha)
    top = max(float(high.max()), -1e300)
    if top == inf:
        return ends, np.where(high == inf, 1.0, 0.0)
    with np.errstate(under="ignore"):
        return ends, np.exp(high - top) - np.exp(low - top)


def _refined_for_sums(
    cover: _Cover, mean: PowerMean, tolerance: float, directions: Sequence[int] = (0, 1)
) -> _Cover:
    """Cut until the sums over panels are within ``tolerance``, or the room is used up."""
    for _ in range(_ROUNDS):
        needed = np.zeros(len(cover.low))
        for direction in directions:
            ends, widths = _ends_and_gaps(cover, mean, direction)
            needed = np.maximum(needed, _parts_needed(*ends, widths, tolerance))
        chosen = needed > 1.0
        if not chosen.any() or cover.room < 2:
            return cover
        extra = float((np.ceil(needed[chosen]) - 1.0).sum())
        scale = min(1.0, cover.room / max(extra, 1.0))
        parts = np.clip(np.ceil(needed * scale), 2.0, 12.0).astype(np.int64)
        cover = cover.split(chosen, parts)
    return cover


def _parts_needed(lower: float, upper: float, width: FloatArray, tolerance: float) -> FloatArray:
    """Return into how many parts each panel should be cut: its gap shrinks as their square."""
    if not upper - lower > tolerance * upper:
        return np.zeros(len(width))
    if upper == inf or lower == 0.0:
        return np.where(width > 1e-3 * width.max(), 4.0, 0.0)
    wanted = tolerance * lower * width.sum() / (upper - lower)
    # gaps shrink as the square of the width, or as its cube
    shares: FloatArray = (2.0 * width * len(width) / max(wanted, 1e-300)) ** 0.4
    return np.where(shares > 1.5, shares, 0.0)
