r"""The loss of one pair of priors, for one noise after another: each kind of pair its own class.

The law of discrete values plus noise of any family, of which no closed form is known.

Each atom with its noise is one part of a mixture (see `_losses.mixture_parts`), about which the
family says how dense it is, how steep, how bent, and what mass it has.
"""

from __future__ import annotations

from math import inf
from typing import Protocol, Self

import numpy as np

from sklearn_puffer._base import LN2, UNIT, FloatArray
from sklearn_puffer._losses.boxes import box_panels, boxes_computable
from sklearn_puffer._losses.convolution import Grid
from sklearn_puffer._losses.discrete_laws import DiscretePair
from sklearn_puffer._losses.divergences import Panels, divergence_interval
from sklearn_puffer._losses.gaussian_rows import row_interval, rows_computable
from sklearn_puffer._losses.laplace_line import LaplacePair
from sklearn_puffer._losses.law_pair import LawPair
from sklearn_puffer._losses.line import Source, fine_panels, loss_interval
from sklearn_puffer._losses.mixture_laws import computable, law_of
from sklearn_puffer._losses.mixture_parts import ARGUMENT, MixtureLaw, Ranges, Values
from sklearn_puffer.noise import LOG_ROUNDING, ROUNDING, Noise
from sklearn_puffer.notions import Notion
from sklearn_puffer.priors import Discrete, GaussianMixture

Ends = tuple[FloatArray, FloatArray]

# One panel of a mixture costs as much as so many kernel values; with Cauchy noise, times so much.
_LAW_WEIGHT = 2**8
_CAUCHY_WEIGHT = 2**4
_PART_WEIGHT = 2**6  # one with noise of any family, for each of its atoms
# Scales beyond these are computed with as if they were these; the interval is widened to be valid.
_SHORTEST = 2.0**-400
_LONGEST_SCALE = 1e280


class PairLoss(Protocol):
    """The loss between two priors, both ways."""

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends, each of shape (2,): p to q, q to p.

        Where a budget is given they may be farther apart, if the larger loss is well on one side of
        it: 1e-6 of it in one column, in two as far as leaves them there.
        """

    def panels(self, noise: Noise, notion: Notion) -> Panels:
        """Return panels that cover all released values, from p to q."""

    def without_noise(self, notion: Notion) -> FloatArray:
        """Return upper bounds on the losses without any noise, shape (2,)."""


class DiscreteLine:
    """Discrete priors that vary along one column.

    Parameters
    ----------
    atoms : ndarray of shape (n,)
        All atoms with mass, sorted.
    grid : Grid
        Both priors on them, of whose columns ``axis`` is the one.
    axis : int
    same : bool, default=False
        Whether the priors are equal.
    """

    def __init__(self, atoms: FloatArray, grid: Grid, axis: int, *, same: bool = False) -> None:
        self._same = same
        self._atoms = _centred(atoms)
        self._grid, self._column, self._n_axes = grid, axis, grid.n_axes
        self._limits: dict[Notion, FloatArray] = {}
        masses = grid.masses()
        with np.errstate(divide="ignore", under="ignore"):
            logs = np.log(masses.mantissa) + masses.exponent * LN2
            self._log_masses = np.where(masses.mantissa > 0.0, logs, -np.inf)
            exponents = np.maximum(masses.exponent, -2000).astype(int)
            self._masses = np.ldexp(masses.mantissa, exponents)

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends, each of shape (2,): p to q, q to p."""
        if self._same:
            return np.zeros(2), np.zeros(2)
        scale = float(noise.axis_scales(self._n_axes)[self._column])
        used = self._usable(scale, noise)
        lower, upper = loss_interval(self._source(noise.with_scale(used)), notion, budget)
        # less noise loses more, and none at all the most
        limit = self.without_noise(notion)
        upper = np.minimum(upper, limit) if used <= scale else limit
        if used < scale:
            lower = np.zeros(2)
        return np.minimum(lower, upper), upper

    def panels(self, noise: Noise, notion: Notion) -> Panels:
        """Return panels that cover the line, from p to q."""
        scale = float(noise.axis_scales(self._n_axes)[self._column])
        return fine_panels(self._source(noise.with_scale(self._usable(scale, noise))), notion)

    def without_noise(self, notion: Notion) -> FloatArray:
        """Return upper bounds on the losses without any noise, shape (2,)."""
        if self._same:
            return np.zeros(2)
        if notion not in self._limits:
            self._limits[notion] = _apart(self._masses, self._log_masses, notion)
        return self._limits[notion]

    def _usable(self, scale: float, noise: Noise) -> float:
        if noise.is_exponential:
            return max(scale, float(self._grid.shortest_scales[self._column]))
        span = float(self._atoms[-1] - self._atoms[0])
        return min(max(scale, span * _SHORTEST), _LONGEST_SCALE)

    def _source(self, noise: Noise) -> Source:
        if noise.is_normal or noise.power is not None:
            return DiscretePair(self._atoms, self._masses, self._log_masses, noise)
        if not noise.is_exponential:
            p, q = (NoiseLaw(self._atoms, logs, noise) for logs in self._log_masses)
            return LawPair(p, q, _PART_WEIGHT * len(self._atoms))
        theta = np.ones(self._n_axes)
        theta[self._column] = scale = float(noise.axis_scales(1)[0])
        rounding = self._grid.wide_rounding(theta)
        return LaplacePair(self._atoms, self._grid.masses(), scale, rounding)


class MixtureLine:
    """Gaussian mixtures of one column."""

    def __init__(self, p: GaussianMixture, q: GaussianMixture) -> None:
        self._p, self._q = p, q

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends, each of shape (2,): p to q, q to p."""
        if self._p == self._q:
            return np.zeros(2), np.zeros(2)
        if not self._is_known(noise):  # what is lost without noise bounds what is lost with it
            return np.zeros(2), self.without_noise(notion)
        return loss_interval(self._source(noise), notion, budget)

    def panels(self, noise: Noise, notion: Notion) -> Panels:
        """Return panels that cover the line, from p to q."""
        return fine_panels(self._source(noise if self._is_known(noise) else None), notion)

    def without_noise(self, notion: Notion) -> FloatArray:
        """Return upper bounds on the losses without any noise, shape (2,)."""
        if self._p == self._q:
            return np.zeros(2)
        return loss_interval(self._source(None), notion)[1]

    def _is_known(self, noise: Noise) -> bool:
        return computable(self._p, noise) and computable(self._q, noise)

    def _source(self, noise: Noise | None) -> Source:
        if noise is not None:
            noise = noise.with_scale(float(noise.axis_scales(1)[0]))
        tabulated = noise is not None and noise.power is not None
        weight = _LAW_WEIGHT * (_CAUCHY_WEIGHT if tabulated else 1)
        return LawPair(law_of(self._p, noise), law_of(self._q, noise), weight)


class DiscreteBoxes:
    """Discrete priors of two columns."""

    def __init__(self, p: Discrete, q: Discrete) -> None:
        self._p, self._q = p, q

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends, each of shape (2,): p to q, q to p.

        Where a budget is given they may be as far apart as leaves them on one side of it.
        """
        if self._p == self._q:
            return np.zeros(2), np.zeros(2)
        panels = self.panels(noise, notion, budget)
        ends = [divergence_interval(side, notion) for side in (panels, panels.swapped())]
        lower, upper = np.array(ends).T
        return lower, upper

    def panels(self, noise: Noise, notion: Notion, budget: float | None = None) -> Panels:
        """Return boxes that cover the plane, from p to q."""
        if not boxes_computable([self._p, self._q], noise, notion):
            raise ValueError(
                f"the loss of these joint columns is not computed for {noise!r} and {notion!r}: "
                "it is for pure epsilon with Laplace noise, and for two columns on few cells; "
                "use fewer bins, groups of columns, or independence."
            )
        return box_panels(self._p, self._q, noise, notion, budget)

    def without_noise(self, notion: Notion) -> FloatArray:
        """Return upper bounds on the losses without any noise, shape (2,)."""
        return discrete_without_noise(self._p, self._q, notion)


class GaussianRows:
    """Gaussian priors of rows."""

    def __init__(self, p: GaussianMixture, q: GaussianMixture) -> None:
        self._p, self._q = p, q

    def interval(self, noise: Noise, notion: Notion, budget: float | None = None) -> Ends:
        """Return proven lower and upper ends, each of shape (2,): p to q, q to p."""
        return row_interval(self._p, self._q, noise, notion)

    def panels(self, noise: Noise, notion: Notion) -> Panels:
        """Refuse: a closed form has no panels."""
        raise ValueError(
            f"rows of {self._p.n_axes} Gaussian columns have a closed form and no panels; "
            'a joint group of them cannot be composed with other columns: use dependence="joint".'
        )

    def without_noise(self, notion: Notion) -> FloatArray:
        """Return upper bounds on the losses without any noise, shape (2,)."""
        if rows_computable(self._p, self._q, None, notion):
            return row_interval(self._p, self._q, None, notion)[1]
        return np.zeros(2) if self._p == self._q else np.full(2, np.inf)


def bare_ratios(p: Discrete, q: Discrete) -> tuple[FloatArray, FloatArray]:
    """Return the rows of two priors, and the log ratio of their shares at each, no bound."""
    rows, _, logs = _side_by_side(p, q)
    return rows, logs[0] - logs[1]


def discrete_without_noise(p: Discrete, q: Discrete, notion: Notion) -> FloatArray:
    """Return upper bounds on the losses of discrete priors of any number of columns."""
    _, masses, logs = _side_by_side(p, q)
    return _apart(masses, logs, notion)


def _side_by_side(p: Discrete, q: Discrete) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rows that have mass, and the masses and their logs, shape (2, n_rows)."""
    rows, places = np.unique(np.concatenate((p.rows, q.rows)), axis=0, return_inverse=True)
    masses, logs = np.zeros((2, len(rows))), np.full((2, len(rows)), -np.inf)
    for k, (prior, at) in enumerate(
        zip((p, q), np.split(places.ravel(), [len(p.rows)]), strict=True)
    ):
        masses[k, at] = prior.probabilities
        logs[k, at] = [_log_share(int(count), prior.total) for count in prior.counts]
    some = np.isfinite(logs).any(axis=0)
    return rows[some], masses[:, some], logs[:, some]


def _log_share(count: int, total: int) -> float:
    """Return log(count/total) of integers of any size."""
    if count == 0:
        return -np.inf
    shift = total.bit_length() - count.bit_length()
    return float(np.log((count << shift) / total)) - shift * LN2


def _apart(masses: FloatArray, logs: FloatArray, notion: Notion) -> FloatArray:
    """Return the upper ends for laws on points: each point is a panel."""
    low, high = masses * (1.0 - 4.0 * UNIT), masses * (1.0 + 4.0 * UNIT) + 5e-324
    high = np.where(np.isneginf(logs), 0.0, np.minimum(high, 1.0))
    ratio = logs[0] - logs[1]
    finite = np.where(np.isfinite(logs), np.abs(logs), 0.0).sum(axis=0)
    error = UNIT * (16.0 + 4.0 * finite)
    panels = Panels(low[0], high[0], low[1], high[1], ratio - error, ratio + error)
    return np.array([divergence_interval(side, notion)[1] for side in (panels, panels.swapped())])


def _centred(atoms: FloatArray) -> FloatArray:
    """Return the atoms moved to begin at 0, where that is exact: fine scales are resolved there."""
    moved = atoms - atoms[0]
    lost = moved - atoms
    rest = (atoms - (moved - lost)) - (atoms[0] + lost)
    return moved if not rest.any() else atoms


_CLOSEST = 0.25  # two anchors are never closer than this share of the scale, but around kinks
_OUTER = np.array([2.0, 6.0, 18.0])  # the first cuts beyond the atoms, in scales


class NoiseLaw(MixtureLaw):
    """Atoms with noise around each of them.

    Parameters
    ----------
    atoms : ndarray of shape (n,)
        Sorted and distinct.
    log_masses : ndarray of shape (n,)
        Those of atoms without mass are -inf.
    noise : Noise
        Of one column.
    """

    def __init__(self, atoms: FloatArray, log_masses: FloatArray, noise: Noise) -> None:
        some = np.isfinite(log_masses)
        with np.errstate(under="ignore", divide="ignore"):
            super().__init__(np.exp(log_masses[some]), atoms[some], None)
        self._log_weights = log_masses[some][:, None]  # of masses too small for floats as well
        self._atoms, self._noise = atoms[some], noise

    def anchors(self) -> FloatArray:
        """Return the outermost atoms, points beyond them, and a selection in between."""
        atoms, s = self._atoms, float(self._noise.axis_scales(1)[0])
        low, gap = atoms[:-1], np.diff(atoms)
        near = gap > 3.0 * s
        points = np.unique(np.concatenate((atoms, low[near] + 1.5 * s, atoms[1:][near] - 1.5 * s)))
        if self._noise.steepest(0.0, 0.0) == 0.0:  # no kink that must be an anchor
            cells = np.floor((points - atoms[0]) / (_CLOSEST * s))
            points = points[np.append(True, cells[1:] > cells[:-1])]
        outer = _OUTER * s
        return np.unique(np.concatenate((points, atoms[0] - outer, atoms[-1:], atoms[-1] + outer)))

    def _values(self, z: FloatArray) -> Values:
        value = self._noise.log_density(z[..., None])
        score = self._score(z)
        bent = np.abs(self._noise.curvature(z, z)).max(axis=0)
        error = LOG_ROUNDING * (1.0 + np.abs(value)) + 2.0 * ARGUMENT * z * score
        return Values(value, error, score, LOG_ROUNDING * score + 2.0 * ARGUMENT * z * bent)

    def _score(self, z: FloatArray) -> FloatArray:
        return np.abs(self._noise.score(np.nextafter(z, inf)))  # on its own side of a kink at 0

    def _ranges(self, near: FloatArray, far: FloatArray) -> Ranges:
        first, last = self._values(near), self._values(far)
        low, high = self._noise.curvature(near, far)
        # |score| rises, and then falls: it is least at an end
        return Ranges(
            last.log - last.log_error,
            first.log + first.log_error,
            np.minimum(first.score - first.score_error, last.score - last.score_error),
            self._noise.steepest(near, far) * (1.0 + ROUNDING),
            low - ROUNDING * np.abs(low),
            high + ROUNDING * np.abs(high),
        )

    def _part_masses(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        left, right = low - self.centres, high - self.centres
        start, stop = np.nextafter(left, inf), np.nextafter(right, -inf)
        least = self._noise.mass(start, np.maximum(start, stop))
        most = self._noise.mass(np.nextafter(left, -inf), np.nextafter(right, inf))
        return least * (1.0 - ROUNDING), most * (1.0 + ROUNDING)

    def beyond(self, other: Self, edge: float, side: int) -> tuple[float, float]:
        """Return bounds on log h / h_other over a tail."""
        ends = [law._atoms[place] for law in (self, other) for place in (0, -1)]
        span = (max(ends) - min(ends)) * (1.0 + ROUNDING)
        near = max((edge - max(ends)) if side == 1 else (min(ends) - edge), 0.0)
        ratio, error = self._ratio(other, edge)
        moved = float(self._noise.drift(near * (1.0 - ROUNDING), span)) + error
        most = float(self._noise.max_divergence([span])) * (1.0 + ROUNDING)
        least_mass, most_mass = self._mass_ratios(other)
        low, high = max(ratio - moved, -most, least_mass), min(ratio + moved, most, most_mass)
        return min(low, high), max(low, high)

    def _ratio(self, other: Self, edge: float) -> tuple[float, float]:
        """Return log h / h_other at a point, and its error."""
        point = np.array([edge])
        here, there = (law.expansion(point, np.zeros(1)) for law in (self, other))
        error = here.value_error + there.value_error
        error += LOG_ROUNDING * (np.abs(here.value) + np.abs(there.value))
        return float((here.value - there.value)[0]), float(error[0])

    def _mass_ratios(self, other: Self) -> tuple[float, float]:
        """Return bounds on f that hold everywhere, a mean of the ratios of common atoms' masses."""
        if not np.array_equal(self._atoms, other._atoms):
            return -inf, inf
        ratios = self._log_weights - other._log_weights
        size = ROUNDING * (1.0 + float(np.abs(self._log_weights).max()))
        size += ROUNDING * float(np.abs(other._log_weights).max())
        return float(ratios.min()) - size, float(ratios.max()) + size
