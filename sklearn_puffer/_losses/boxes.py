r"""Released rows of two columns cut into boxes: both ends of their loss.

The plane of two columns is cut around the atoms at first, then where most is unknown. The bounds
hold for every noise and every notion. For discrete priors the density of a released row is a sum of
products,

.. math:: h_p(y) = \sum_x p(x) \, K_1(y_1 - x_1) \, K_2(y_2 - x_2),

so masses and values on a grid of boxes are products of three matrices. Within a box, f = log h_p /
h_q is expanded around the centre. Given y, the row x has a posterior distribution, and with s_k =
(log K_k)'

.. math:: \partial_k f = E_p[s_k] - E_q[s_k], \quad
          \partial_k \partial_l \log h = E[s_k' \, 1_{k = l}] + \mathrm{Cov}(s_k, s_l) .

Where at each point of an interval s_k lies in a range of width R_k, and its slope s_k' in one of
width C_k: :math:`|\partial_k f| \le R_k`, :math:`|\partial_k^2 f| \le C_k + R_k^2 / 4` and
:math:`|\partial_1 \partial_2 f| \le R_1 R_2 / 2`, because a variance is at most a quarter of a
squared range. So f is known to second order in the size of the box, for any family.

Where the atoms lie far apart those ranges are wide, although a posterior distribution is narrow.
There, with -m_k the least s_k', a covariance matrix has no negative eigenvalue, so log h plus the
sum of m_k (y_k - c_k)^2 / 2 is convex: it lies above its tangent T at the centre c, and less a
linear function it is largest at a corner v. For half widths r_k,

.. math:: f \le \max_v \bigl( \log h_p(v) - T_q(v) \bigr) + \sum_k m_k r_k^2 / 2,

and the lower bound with p and q exchanged. For Gaussian noise the squares cancel.

Where the density has a kink at each atom, atoms are edges, so that no slope jumps within a box. Of
very many atoms some are not: in a box with one inside only the bound by ranges counts.

*Coarsening.* For rows of any number of columns: a reader who is told only which cell of a product
grid a released row falls into learns no more than from the row (data processing), so the divergence
of the cells' masses is a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log
from typing import NamedTuple

import numpy as np

from sklearn_puffer._base import FloatArray
from sklearn_puffer._losses.axis_noise import NOTHING, AxisNoise, column_over, has_kink
from sklearn_puffer._losses.divergences import (
    Panels,
    both_intervals,
    gaps,
    interval_of,
)
from sklearn_puffer._numerics import ULP
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion, PowerMean
from sklearn_puffer.priors import Discrete

MAX_BOXES = 2**18
"""Most boxes that the plane is cut into."""

_MOST_FIRST = 360
"""About how many edges of an axis are around atoms at first, so that there is room for others."""

SHARE = 1e-2
"""The least chance that counts in how deep the last atoms of a tail lie."""


def first_edges(atoms: FloatArray, last: float, noise: Noise, notion: Notion) -> FloatArray:
    """Return a few edges around each atom and beyond the last ones, the infinite ones included."""
    if atoms.size == 1:
        return np.array([-inf, atoms[0], inf])
    scale = float(noise.axis_scales(1)[0])
    steps = scale * np.array([-4.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 4.0])
    around = (atoms[:, None] + steps).ravel()
    around = around[(around > atoms[0]) & (around < atoms[-1])]
    kept = np.unique(np.floor((around - atoms[0]) / (0.4 * scale)), return_index=True)[1]
    beyond = _reach(float(atoms[-1] - atoms[0]), last, noise, notion)
    kinks = _some(atoms if has_kink(noise) else atoms[[0, -1]], _MOST_FIRST)
    inner = _some(np.sort(around)[kept[kept < around.size]], _MOST_FIRST - kinks.size)
    parts = kinks, atoms[[0, -1]], inner, atoms[0] - beyond, atoms[-1] + beyond
    return np.concatenate([[-inf], np.unique(np.concatenate(parts)), [inf]])


def _some(places: FloatArray, most: int) -> FloatArray:
    """Return every k-th index, k being the least for which there are at most so many."""
    return places[:: -(-places.size // max(most, 1)) or 1]


def _reach(span: float, last: float, noise: Noise, notion: Notion) -> FloatArray:
    """Return distances beyond the outermost atoms to cut at, out to a negligible tail."""
    scale = float(noise.axis_scales(1)[0])
    if has_kink(noise):
        return np.zeros(0)
    steps = (np.arange(0.5, 5.0, 0.5), 5.0 * 1.25 ** np.arange(60), 2.0 ** np.arange(22, 72))
    near = scale * np.concatenate(steps)
    mass = noise.mass(near, np.full_like(near, inf))
    with np.errstate(invalid="ignore", over="ignore"):
        moved = noise.drift(near, span)
    divergence = notion.divergence
    if isinstance(divergence, PowerMean):
        order = divergence.order
        worth = min(order * notion.budget, 1.0)
        here, there = (noise.log_density((near + d)[:, None]) for d in (0.0, last))
        left = here + order * (here - there) - order * log(SHARE) + log(scale)
        # a chord lies above its function by the square of what f moves
        bent = divergence.alpha * order * np.square(np.minimum(moved, 1.0)) * mass
        enough = (left <= log(1e-6 * worth)) | ((moved <= 1.0) & (bent <= 1e-4 * worth))
    elif notion.is_chance:
        enough = mass * np.minimum(moved, 1.0) <= 1e-5 * notion.budget
    else:
        enough = moved <= 1e-4 * notion.budget
    enough &= near >= 2.0 * scale
    stop = int(np.argmax(enough)) if enough.any() else near.size - 1
    return near[: stop + 1]


def split_edges(edges: list[FloatArray], shares: list[FloatArray]) -> list[FloatArray] | None:
    """Halve the intervals that widen the loss most; None where there is no room for enough."""
    # a row costs as many new boxes as there are columns, so shares compare as parts of a mean
    most = max(float(share.sum()) for share in shares)
    middles = [old[:-1] / 2.0 + old[1:] / 2.0 for old in edges]
    wanted = []
    for old, middle, share in zip(edges, middles, shares, strict=True):
        possible = np.isfinite(middle) & (middle > old[:-1]) & (middle < old[1:])
        chosen = np.flatnonzero(possible & (share > 0.5 * most / share.size))
        wanted.append(chosen[np.argsort(-share[chosen])])
    boxes, part = shares[0].size * shares[1].size, 1.0
    if boxes >= MAX_BOXES:  # a fine grid begins with as many under little noise
        return None
    while True:
        kept = [chosen[: int(part * chosen.size)] for chosen in wanted]
        finer = (shares[0].size + kept[0].size) * (shares[1].size + kept[1].size)
        if finer <= MAX_BOXES:
            break
        part *= 0.8
    if finer == boxes or (part < 1.0 and finer < 1.2 * boxes):
        return None
    return [np.sort(np.append(e, m[k])) for e, m, k in zip(edges, middles, kept, strict=True)]


MOST_VALUES = 1024
"""Most values of a column, of which a plane is cut into boxes."""

_LOST = 2.5e-308  # more than a product that underflows, or is set to zero
_UNKNOWN = 1e-280  # below this what underflows could matter
_TOLERANCE = 1e-3


def boxes_computable(priors: Sequence[Discrete], noise: Noise, notion: Notion) -> bool:
    """Return whether `box_panels` is for these priors: two columns of not too many values.

    A pure loss must exist at all, which for Gaussian noise in two columns it hardly ever does.

    >>> from sklearn_puffer.noise import Cauchy, Gaussian
    >>> from sklearn_puffer.notions import Pufferfish
    >>> prior = Discrete([[0, 0], [1, 5]], [0.5, 0.5])
    >>> boxes_computable([prior], Gaussian(1.0), Pufferfish(1.0, delta=1e-5))
    True
    >>> boxes_computable([prior], Gaussian(1.0), Pufferfish(1.0))
    False
    """
    if any(not isinstance(prior, Discrete) or prior.n_axes != 2 for prior in priors):
        return False
    if max(atoms.size for atoms in _axes_of(priors)) > MOST_VALUES:
        return False
    if not notion.is_pure:
        return True
    return bool(np.isfinite(noise.max_divergence(np.ones(2))))


def box_panels(
    p: Discrete, q: Discrete, noise: Noise, notion: Notion, budget: float | None = None
) -> Panels:
    """Return the plane in boxes, cut until the losses under ``notion`` are tight, both ways.

    Parameters
    ----------
    p, q : Discrete
        Over two columns.
    noise : Noise
    notion : Notion
    budget : float, optional
        Where it is given, cutting stops as soon as the larger loss is known to be above it, or not.

    Returns
    -------
    Panels
        For `divergence_interval` under this notion; swapped, for the loss from q to p. Under a
        Renyi notion the log ratio of the last panel is made to fit its share at that order alone.

    Notes
    -----
    *Formal guarantees.* The interval holds the loss whatever its width; cutting stops at a width
    of 1e-3 of the loss (where that is below 1/100 of the budget, 1e-5 of the budget), or at
    `MAX_BOXES` boxes, or under a delta where the masses, known to 1e-12, allow no more.

    Examples
    --------
    >>> from sklearn_puffer._losses.divergences import divergence_interval
    >>> from sklearn_puffer.noise import Gaussian
    >>> from sklearn_puffer.notions import Pufferfish
    >>> one, two = (Discrete([[x, x]], [1.0]) for x in (0.0, 1.0))
    >>> notion = Pufferfish(1.0, delta=1e-3)
    >>> low, high = divergence_interval(box_panels(one, two, Gaussian(1.0), notion), notion)
    >>> low <= float(Gaussian(1.0).hockey_stick([1.0, 1.0], 1.0)) <= high
    True
    """
    plane = _Plane.of(p, q, noise)
    edges = [first_edges(plane.atoms[k], plane.last(k), plane.noises[k], notion) for k in (0, 1)]
    while True:
        panels, shares = plane.cut(edges, notion)
        if _is_tight(panels, notion):
            return panels
        if budget is not None:
            lower, upper = both_intervals(panels, notion)
            if upper.max() <= budget or lower.max() > budget:
                return panels
        finer = split_edges(edges, shares)
        if finer is None:
            return panels
        edges = finer


def _axes_of(priors: Sequence[Discrete]) -> list[FloatArray]:
    """Return the values of each column that have mass in any of the priors."""
    rows = np.concatenate([prior.rows[prior.counts > 0] for prior in priors])
    return [np.unique(rows[:, k]) for k in range(rows.shape[1])]


def _is_tight(panels: Panels, notion: Notion) -> bool:
    for one_way in (panels, panels.swapped()):
        low, high = interval_of(one_way, notion.divergence)
        # finer boxes do not make masses more exact
        known = 0.5 * float((one_way.p_high - one_way.p_low).sum()) if notion.is_chance else 0.0
        if not high - low <= max(_TOLERANCE * max(high, 1e-2 * notion.budget), known):
            return False
    return True


# --------------------------------------------------------------------------------- the plane


@dataclass(frozen=True)
class _Plane:
    """Two priors as matrices over the grid of their atoms, and the noise of each column."""

    atoms: list[FloatArray]
    weights: list[FloatArray]
    noises: list[Noise]

    @classmethod
    def of(cls, p: Discrete, q: Discrete, noise: Noise) -> _Plane:
        atoms = _axes_of([p, q])
        weights = []
        for prior in (p, q):
            table = np.zeros((atoms[0].size, atoms[1].size))
            kept = prior.counts > 0
            rows, columns = (np.searchsorted(atoms[k], prior.rows[kept, k]) for k in (0, 1))
            table[rows, columns] = prior.probabilities[kept]
            weights.append(table)
        noises = [noise.with_scale(float(scale)) for scale in noise.axis_scales(2)]
        return cls(atoms, weights, noises)

    def cut(self, edges: list[FloatArray], notion: Notion) -> tuple[Panels, list[FloatArray]]:
        """Return the panels, and how much each interval of each axis widens the loss."""
        columns = zip(self.atoms, edges, self.noises, strict=True)
        one, two = (column_over(*column) for column in columns)
        shape = (one.half.size, two.half.size)
        panels, portion = _boxes(self.weights[0], self.weights[1], one, two)
        divergence = notion.divergence
        if isinstance(divergence, PowerMean):
            panels = self._with_tail(panels, edges, (one, two), divergence.alpha)
        shares = np.zeros(shape)
        for one_way in (panels, panels.swapped()):
            with np.errstate(invalid="ignore"):
                part = np.nan_to_num(gaps(one_way, notion), nan=0.0, posinf=1e300, neginf=0.0)
            part = np.maximum(part[: shares.size].reshape(shape), 0.0)
            shares += part / max(float(part.max()), 1e-300)
        parts = shares * portion, shares * (1.0 - portion)
        return panels, [parts[0].sum(axis=1), parts[1].sum(axis=0)]

    def last(self, axis: int) -> float:
        """Return how far into an axis, from either side, both priors always have some mass."""
        atoms = self.atoms[axis]
        depths = [
            np.abs(atoms - end)[_shares(w, axis, side) >= SHARE].min()
            for w in self.weights
            for side, end in ((-1, atoms[0]), (1, atoms[-1]))
        ]
        return float(max(depths))

    def _with_tail(
        self,
        panels: Panels,
        edges: list[FloatArray],
        columns: tuple[AxisNoise, AxisNoise],
        alpha: float,
    ) -> Panels:
        """Put all boxes of unbounded ratio into a panel for each direction, with its integral.

        Only one distribution has mass in each: in the other direction it adds nothing, and in its
        own at most p e^((alpha - 1) f), f being what gives the bound on the integral.
        """
        outside = (np.isinf(columns[0].lip)[:, None] | np.isinf(columns[1].lip)).ravel()
        if not outside.any():
            return panels
        p, q = self.weights
        forward = self._log_tail((p, q), edges, columns, alpha)
        backward = self._log_tail((q, p), edges, columns, alpha)
        rest = panels.taken(outside)
        p_mass, q_mass = (float(m.sum()) * (1.0 + 1e-9) for m in (rest.p_high, rest.q_high))
        f = np.array([forward - log(p_mass), log(q_mass) - backward]) / (alpha - 1.0)
        names = panels.__dataclass_fields__
        inner = Panels(*(np.where(outside, 0.0, getattr(panels, name)) for name in names))
        none = np.zeros(2)
        tails = Panels(none, np.array([p_mass, 0.0]), none, np.array([0.0, q_mass]), f, f)
        return Panels.joined(inner, tails)

    def _log_tail(
        self,
        distributions: tuple[FloatArray, FloatArray],
        edges: list[FloatArray],
        columns: tuple[AxisNoise, AxisNoise],
        alpha: float,
    ) -> float:
        tails = [
            _log_tail(self.atoms[k], distributions[1], k, edges[k], self.noises[k], alpha - 1.0)
            if np.isinf(columns[k].lip).any()
            else -inf
            for k in (0, 1)
        ]
        alone = [_log_inside(distributions, k, columns[k], alpha) for k in (0, 1)]
        others = float(np.logaddexp(alone[1], tails[1])), alone[0]
        # where an axis has no tail, nothing is lost in it, however much the other one loses
        both = [o + t if t > -inf else -inf for o, t in zip(others, tails, strict=True)]
        total = float(np.logaddexp(both[0], both[1]))
        return total + 1e-9 * (1.0 + abs(total))


def _extremes(p: FloatArray, q: FloatArray) -> tuple[float, float]:
    """Return the extremes of log p/q over the atoms: h_p / h_q is a mean of such ratios."""
    positive = (p > 0.0) | (q > 0.0)
    with np.errstate(divide="ignore"):
        ratios = np.log(p[positive]) - np.log(q[positive])
    slack = 8.0 * ULP * (1.0 + np.abs(np.where(np.isfinite(ratios), ratios, 0.0)))
    return float((ratios - slack).min()), float((ratios + slack).max())


def _shares(weights: FloatArray, axis: int, side: int) -> FloatArray:
    """Return for each atom of an axis the least P(at or beyond it | the other column)."""
    table = weights if axis == 0 else weights.T
    table = table[:, table.sum(axis=0) > 0.0]
    sums = np.cumsum(table[::-side], axis=0)[::-side]
    return np.asarray((sums / table.sum(axis=0)).min(axis=1))


def _log_inside(
    distributions: tuple[FloatArray, FloatArray], axis: int, column: AxisNoise, alpha: float
) -> float:
    """Bound log int h_p^alpha h_q^(1 - alpha) of one column, between its outer edges."""
    alone = [w.sum(axis=1 - axis, keepdims=True).reshape(-1, 1) for w in distributions]
    panels = _boxes(alone[0], alone[1], column, NOTHING)[0].taken(np.isfinite(column.lip))
    return (alpha - 1.0) * interval_of(panels, PowerMean(alpha))[1]


def _log_tail(
    atoms: FloatArray, other: FloatArray, axis: int, edges: FloatArray, noise: Noise, order: float
) -> float:
    r"""Return the log of the integral of K(y - x0)^alpha (c K(y - a))^(1 - alpha) beyond the edges.

    Along the axis the integrand is e^psi, and if psi is concave and falls at the edge, its integral
    from there is at most e^psi / |psi'|. The best atom a is taken on each side.
    """
    logs = []
    for side, near in ((-1, atoms[0] - edges[1]), (1, edges[-2] - atoms[-1])):
        shares = _shares(other, axis, side)
        depth = (atoms[-1] - atoms) if side > 0 else (atoms - atoms[0])
        least, most = (float(end) for end in noise.curvature(near, inf))
        if most + order * (most - least) > 0.0:
            return inf
        fall = (order + 1.0) * np.abs(noise.score(near)) - order * np.abs(noise.score(near + depth))
        usable = (fall > 0.0) & (shares > 0.0)
        if not usable.any():
            return inf
        here, there = (noise.log_density((near + d)[:, None]) for d in (0.0 * depth, depth[usable]))
        psi = (order + 1.0) * here[0] - order * (there + np.log(shares[usable]))
        logs.append(float((psi - np.log(fall[usable])).min()))
    return float(np.logaddexp(logs[0], logs[1])) + 1e-9 * (1.0 + abs(logs[0]) + abs(logs[1]))


def _boxes(
    p: FloatArray, q: FloatArray, one: AxisNoise, two: AxisNoise
) -> tuple[Panels, FloatArray]:
    """Return the boxes of two priors row by row, and the first axis' portion of f's moves."""
    margin = one.margin[:, None] + two.margin + 4.0 * ULP * (sum(p.shape) + 8)
    p_mass, q_mass = (one.mass.T @ w @ two.mass for w in (p, q))
    lost = _LOST * (p.shape[0] + 1) * (p.shape[1] + 1)
    low, high, portion = _log_ratios(p, q, one, two)
    least, most = _extremes(p, q)
    ends = (
        *(np.maximum(p_mass * (1.0 - margin) - lost, 0.0), p_mass * (1.0 + margin) + lost),
        *(np.maximum(q_mass * (1.0 - margin) - lost, 0.0), q_mass * (1.0 + margin) + lost),
        np.maximum(low, least),
        np.minimum(high, most),
    )
    return Panels(*(end.ravel() for end in ends)), portion


def _log_ratios(
    p_distribution: FloatArray, q_distribution: FloatArray, one: AxisNoise, two: AxisNoise
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return bounds on f in each box, roundings included, and the first axis' portion."""
    p, q = (_values(distribution, one, two) for distribution in (p_distribution, q_distribution))
    ratio = p.centre - q.centre
    moved, portion = _moved(p, q, one, two)
    low, high = ratio - moved, ratio + moved
    with np.errstate(invalid="ignore"):
        stoop = one.stoop[:, None] + two.stoop
        high = np.fmin(high, _highest(p, q, one, two) + stoop)
        low = np.fmax(low, -_highest(q, p, one, two) - stoop)
        blur = one.blur[:, None] + two.blur + 8.0 * ULP * (sum(p_distribution.shape) + 8)
        blur = blur + 1e-12 * moved + 8.0 * ULP * np.abs(ratio)
    blur = np.where(np.isnan(blur), inf, blur)
    with np.errstate(invalid="ignore"):
        low, high = low - blur, high + blur
    low, high = np.where(np.isnan(low), -inf, low), np.where(np.isnan(high), inf, high)
    return low, high, portion


class _Logs(NamedTuple):
    """Logs of one distribution's density at centres and corners, and its slopes at the centres.

    NaN where a density is too small to be computed.
    """

    centre: FloatArray
    up: FloatArray
    across: FloatArray
    corner: FloatArray


def _values(weights: FloatArray, one: AxisNoise, two: AxisNoise) -> _Logs:
    right = weights @ two.kernel
    value = one.kernel.T @ right
    value = np.where(value > _UNKNOWN, value, np.nan)
    corner = one.corner_kernel.T @ weights @ two.corner_kernel
    corner = np.where(corner > _UNKNOWN, corner, np.nan)
    return _Logs(
        np.log(value) + one.top[:, None] + two.top,
        (one.kernel * one.score).T @ right / value + one.middle[:, None],
        one.kernel.T @ (weights @ (two.kernel * two.score)) / value + two.middle,
        np.log(corner) + one.corner_top[:, None] + two.corner_top,
    )


def _moved(p: _Logs, q: _Logs, one: AxisNoise, two: AxisNoise) -> tuple[FloatArray, FloatArray]:
    """Return how far f moves from each centre, by the ranges of the scores; the first's portion."""
    with np.errstate(invalid="ignore"):
        first = np.abs(p.up - q.up) * one.half[:, None] + one.bend[:, None]
        second = np.abs(p.across - q.across) * two.half + two.bend
        lips = one.lip[:, None], two.lip
        both = first + second + 0.5 * lips[0] * lips[1]
        apart = np.fmin(lips[0] + second, first + lips[1])
        moved: FloatArray = np.fmin(np.fmin(lips[0] + lips[1], apart), both)
        parts = np.fmin(first, lips[0]), np.fmin(second, lips[1])
        portion = parts[0] / (parts[0] + parts[1])
    return moved, np.where(np.isnan(portion), 0.5, portion)


def _highest(p: _Logs, q: _Logs, one: AxisNoise, two: AxisNoise) -> FloatArray:
    """Return the largest log h_p less the tangent of log h_q, over the corners of each box."""
    up, across = q.up * one.half[:, None], q.across * two.half
    corners = (
        p.corner[:-1, :-1] + up + across,
        p.corner[:-1, 1:] + up - across,
        p.corner[1:, :-1] - up + across,
        p.corner[1:, 1:] - up - across,
    )
    return np.asarray(np.maximum.reduce(corners) - q.centre)
