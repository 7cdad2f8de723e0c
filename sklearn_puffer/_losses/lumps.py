"""Lower bounds on the loss of rows of any number of columns: what a coarse view of them tells.

Whoever is told only which cell of a product grid a released row falls into learns no more than from
the row (data processing), so the divergence of the cells' masses is a lower bound.
"""

# Rounding, as in `_losses.boxes`: distances y - x are off by d = 2 u (|y| + |x|), which moves the
# mass of a cell of width w by 4 d (1 / w + 2 |s|) of itself; sums of n non-negative terms are off
# by n u. The bound itself is taken down by 1e-9 of it and 1e-11.

from __future__ import annotations

from functools import reduce
from math import inf

import numpy as np

from sklearn_puffer._base import ULP, FloatArray
from sklearn_puffer._losses.divergences import Panels, divergence_interval
from sklearn_puffer.noise import ROUNDING, Noise
from sklearn_puffer.notions import Notion
from sklearn_puffer.priors import Discrete

MAX_LUMPS = 4096
"""Most cells that the space of released rows is cut into."""

_MAX_ROWS = 2**15
_LOST = 1e-304


def lumped_lower(p: Discrete, q: Discrete, noise: Noise, notion: Notion) -> FloatArray:
    """Return lower bounds on the losses p -> q and q -> p, shape (2,); 0 where there is no view.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> one, two = (Discrete([[x, x, x]], [1.0]) for x in (0.0, 1.0))
    >>> lumped_lower(one, two, Laplace(3.0), Pufferfish(1.0)).round(6).tolist()
    [1.0, 1.0]
    """
    n_axes, n_rows = p.n_axes, max(len(p.rows), len(q.rows))
    lumps = int(MAX_LUMPS ** (1.0 / n_axes) + 1e-9)
    if lumps < 2 or n_rows > _MAX_ROWS or notion.leaves_events_out:
        return np.zeros(2)
    noises = [noise.with_scale(float(scale)) for scale in noise.axis_scales(n_axes)]
    edges = [_edges(p, q, axis, each, lumps) for axis, each in enumerate(noises)]
    (p_mass, p_off), (q_mass, q_off) = (_masses(prior, noises, edges) for prior in (p, q))
    unknown = np.full(p_mass.size, inf)
    panels = Panels(
        *(np.maximum(p_mass * (1.0 - p_off) - _LOST, 0.0), p_mass * (1.0 + p_off) + _LOST),
        *(np.maximum(q_mass * (1.0 - q_off) - _LOST, 0.0), q_mass * (1.0 + q_off) + _LOST),
        -unknown,
        unknown,
    )
    lower = np.array([divergence_interval(side, notion)[0] for side in (panels, panels.swapped())])
    return np.maximum(lower * (1.0 - 1e-9) - 1e-11 * (not notion.is_chance), 0.0)


def _edges(p: Discrete, q: Discrete, axis: int, noise: Noise, lumps: int) -> FloatArray:
    """Return cuts of one axis, evenly from a little before its atoms to a little behind them."""
    atoms = np.concatenate([prior.rows[prior.counts > 0, axis] for prior in (p, q)])
    beyond = 2.5 * float(noise.axis_scales(1)[0])
    if lumps == 2:
        inner = np.array([atoms.min() / 2.0 + atoms.max() / 2.0])
    else:
        inner = np.unique(np.linspace(atoms.min() - beyond, atoms.max() + beyond, lumps - 1))
    return np.concatenate([[-inf], inner, [inf]])


def _masses(
    prior: Discrete, noises: list[Noise], edges: list[FloatArray]
) -> tuple[FloatArray, float]:
    """Return the masses of all cells, and their relative error."""
    kept = prior.counts > 0
    rows, weights = prior.rows[kept], prior.probabilities[kept]
    columns, off = [], 4.0 * ULP * (len(rows) + 8)
    for axis, (noise, cuts) in enumerate(zip(noises, edges, strict=True)):
        x = rows[:, axis, None]
        columns.append(noise.mass(cuts[:-1] - x, cuts[1:] - x))
        off += _error(float(np.abs(x).max()), float(np.ptp(x)), noise, cuts[1:-1])
    half = (len(columns) + 1) // 2
    left, right = (reduce(_crossed, part) for part in (columns[:half], columns[half:] or [_ONE]))
    right = np.broadcast_to(right, (len(rows), right.shape[1]))
    return ((left * weights[:, None]).T @ right).ravel(), off


_ONE = np.ones((1, 1))


def _crossed(one: FloatArray, two: FloatArray) -> FloatArray:
    """Return the products of each row's masses on two axes, for all pairs of cells."""
    products: FloatArray = (one[:, :, None] * two[:, None, :]).reshape(len(one), -1)
    return products


def _error(size: float, span: float, noise: Noise, cuts: FloatArray) -> float:
    moved = 2.0 * ULP * (size + float(np.abs(cuts).max()))
    width = float(np.diff(cuts).min()) if len(cuts) > 1 else inf
    steep = float(noise.steepest(0.0, 2.0 * (span + float(np.ptp(cuts)))))
    return 2.0 * ROUNDING + 4.0 * moved * (1.0 / width + 2.0 * steep)
