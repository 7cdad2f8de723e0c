"""Where an axis of the plane is cut: around the atoms at first, then where most is unknown."""

from __future__ import annotations

from math import inf, log

import numpy as np

from sklearn_puffer._base import FloatArray
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion, PowerMean

MAX_BOXES = 2**18
"""Most boxes that the plane is cut into."""

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
    kinks = atoms if has_kink(noise) else atoms[[0, -1]]
    parts = (
        kinks,
        np.sort(around)[kept[kept < around.size]],
        atoms[0] - beyond,
        atoms[-1] + beyond,
    )
    return np.concatenate([[-inf], np.unique(np.concatenate(parts)), [inf]])


def has_kink(noise: Noise) -> bool:
    """Return whether the density has a kink at 0, so that atoms must be edges."""
    scale = float(noise.axis_scales(1)[0])
    return bool(steepness(noise, np.zeros(1))[0] * scale > 1e-9)


def steepness(noise: Noise, distance: FloatArray) -> FloatArray:
    """Return |score| just beyond a distance: at a kink, its outer side."""
    return np.abs(noise.score(np.nextafter(distance, inf)))


def _reach(span: float, last: float, noise: Noise, notion: Notion) -> FloatArray:
    """Return distances beyond the outermost atoms to cut at: up to where little is left to know."""
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
    while True:
        kept = [chosen[: int(part * chosen.size)] for chosen in wanted]
        finer = (shares[0].size + kept[0].size) * (shares[1].size + kept[1].size)
        if finer <= MAX_BOXES:
            break
        part *= 0.8
    if finer == boxes or (part < 1.0 and finer < 1.2 * boxes):
        return None
    return [np.sort(np.append(e, m[k])) for e, m, k in zip(edges, middles, kept, strict=True)]
