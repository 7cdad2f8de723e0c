"""The loss of what a fitted noiser releases, by brute force, from the raw table.

Nothing of the package but the scales, grids and alphabets of a fitted noiser is used for the truth,
and for fitted mixtures their parameters. The distributions are counted from the rows. The space of
released values is cut into small cells, whose probabilities come from distribution functions;
losing sight of where in its cell a value lies is a post-processing, so such a loss is never above
the true one, and close to it. A pure loss is the largest ratio of densities at many points, the
atoms among them: never above the true one, either, and for Laplace noise that one itself.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats


def represented(noiser, frame):
    """Return the numbers that noise is added to, rounded to the grid; NaN for what is missing."""
    columns = []
    for release in noiser._fitted.mechanism.columns:
        column, values = release.column, frame[release.column.name]
        if column.edges is not None:
            places = [sum(value > edge for edge in column.edges) for value in values]
            numbers = column.atoms[places]
        elif column.levels is not None:
            code = {level: k for k, level in enumerate(column.levels)}
            gone = code.get(None, np.nan)
            numbers = np.array([gone if pd.isna(v) else code[v] for v in values], dtype=float)
        else:
            numbers = values.to_numpy(dtype=float)
        grid = release.grid
        columns.append(np.floor(numbers / grid + 0.5) * grid if grid else numbers)
    return np.stack(columns, axis=1)


def shares_of(noiser, rows, counts):
    """Return for each unordered column the share of each code, one more row for each."""
    shares = []
    for release, codes in zip(noiser._fitted.mechanism.columns, rows.T, strict=True):
        column = release.column
        if column.kind in ("boolean", "category") and not column.ordered:
            seen = [1 + int(counts[codes == atom].sum()) for atom in column.atoms]
            shares.append(
                {float(x): n / sum(seen) for x, n in zip(column.atoms, seen, strict=True)}
            )
        else:
            shares.append(None)
    return shares


@dataclass(frozen=True)
class Distribution:
    """Noise of scale 1: its density and its distribution function, both sides precise."""

    pdf: Any
    cdf: Any

    def densities(self, gaps, theta):
        return self.pdf(gaps / theta) / theta

    def masses(self, edges, atoms, theta):
        """Return P(cell | atom), shape (n_atoms, n_cells)."""
        ends = (edges[None, :] - atoms[:, None]) / theta
        left, right = ends[:, :-1], ends[:, 1:]
        # right of 0 by the mirrored tails, which do not cancel
        turned = left > 0.0
        low, high = np.where(turned, -right, left), np.where(turned, -left, right)
        return self.cdf(high) - self.cdf(low)


def student(k):
    """Return the distribution of density proportional to (1 + z^2)^(-k/2)."""
    root = math.sqrt(k - 1.0)
    return Distribution(
        lambda z: stats.t.pdf(z * root, k - 1.0) * root,
        lambda z: stats.t.cdf(z * root, k - 1.0),
    )


LAWS = {
    "laplace": Distribution(
        lambda z: 0.5 * np.exp(-np.abs(z)),
        lambda z: np.where(z < 0.0, 0.5 * np.exp(np.minimum(z, 0.0)), 1 - 0.5 * np.exp(-abs(z))),
    ),
    "gaussian": Distribution(
        lambda z: np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi), special.ndtr
    ),
    "cauchy": student(2.0),
    "generalized": student(4.0),
}


def divergence(p, q, notion, is_noisy):
    """Return the loss from masses p to masses q, other than a pure one."""
    if "alpha" in notion:
        # cells that floats cannot hold are left out, which makes the loss smaller
        some = (p > 1e-290) & (q > 1e-290) if is_noisy else p > 0.0
        if (q[some] == 0.0).any():
            return math.inf
        alpha = notion["alpha"]
        logs = alpha * np.log(p[some]) + (1.0 - alpha) * np.log(q[some])
        top = logs.max()
        return max(top + math.log(np.exp(logs - top).sum()), 0.0) / (alpha - 1.0)
    return float(np.maximum(p - math.exp(notion["epsilon"]) * q, 0.0).sum())


def points_around(atoms, theta, n):
    """Return the atoms, points among them, and points far away."""
    low, high = atoms.min(), atoms.max()
    reach = 8.0 * max(theta, 1e-3 * (high - low))
    inside = np.linspace(low - reach, high + reach, n)
    far = reach * np.geomspace(1.0, 1e5, n // 8)
    return np.unique(np.concatenate([low - far, inside, atoms, high + far]))


@dataclass(frozen=True)
class Released:
    """Two distributions of a part of the columns: rows, and probabilities under each secret.

    ``shares`` holds for each column what its codes are drawn anew from, if it is unordered.
    """

    rows: np.ndarray  # (n, d)
    p: np.ndarray
    q: np.ndarray
    shares: tuple[dict[float, float] | None, ...] = (None,) * 9

    def loss_terms(self, theta, distribution, notion, n):
        """Return two arrays whose largest log ratio is the pure loss, or masses of cells."""
        axes, places = zip(*(np.unique(x, return_inverse=True) for x in self.rows.T), strict=True)
        tables = []
        for masses in (self.p, self.q):
            table = np.zeros([len(axis) for axis in axes])
            np.add.at(table, tuple(places), masses)
            tables.append(table)
        for k, (atoms, scale) in enumerate(zip(axes, theta, strict=True)):
            if scale == 0.0:
                continue
            if (own := self.shares[k]) is not None:
                drawn = -np.expm1(-scale) * np.array(list(own.values()))
                kernel = drawn + np.exp(-scale) * (np.array(list(own)) == atoms[:, None])
                tables = [np.moveaxis(np.tensordot(each, kernel, (k, 0)), -1, k) for each in tables]
                continue
            points = points_around(atoms, scale, n)
            if "pure" in notion:
                kernel = distribution.densities(points[None, :] - atoms[:, None], scale)
            else:
                kernel = distribution.masses(
                    np.concatenate([[-np.inf], points, [np.inf]]), atoms, scale
                )
            tables = [np.moveaxis(np.tensordot(table, kernel, (k, 0)), -1, k) for table in tables]
        return [table.ravel() for table in tables]


def pure_loss(p, q):
    # densities as small as these may have lost terms that are no floats
    some = (p > 1e-280) | (q > 1e-280)
    p, q = p[some], q[some]
    with np.errstate(divide="ignore"):
        return float((np.log(p) - np.log(q))[p > 0.0].max())


def loss_of(parts, scales, distribution, notion, n):
    """Return the loss of independent parts together, from p to q."""
    if "delta" not in notion and "alpha" not in notion:
        notion = {**notion, "pure": True}
    terms = [
        part.loss_terms(theta, distribution, notion, n)
        for part, theta in zip(parts, scales, strict=True)
    ]
    if "pure" in notion:
        return sum(max(pure_loss(p, q), 0.0) for p, q in terms)
    is_noisy = all(theta.all() for theta in scales)
    if "alpha" in notion:
        return sum(divergence(p, q, notion, is_noisy) for p, q in terms)
    p, q = terms[0]
    for other_p, other_q in terms[1:]:
        p, q = np.outer(p, other_p).ravel(), np.outer(q, other_q).ravel()
    return divergence(p, q, notion, is_noisy)


def swapped(part):
    return Released(part.rows, part.q, part.p, part.shares)


def truth(combinations, theta, distribution, notion, n):
    """Return the largest loss, both ways, of lists of (columns, part)."""
    worst = 0.0
    for combination in combinations:
        scales = [theta[list(columns)] for columns, _ in combination]
        parts = [part for _, part in combination]
        for way in (parts, [swapped(part) for part in parts]):
            worst = max(worst, loss_of(way, scales, distribution, notion, n))
    return worst


def part_of(rows, secret, pair, counts, shares):
    """Return the distributions of the rows under both secrets, counted one by one, or None."""
    totals = [Counter(), Counter()]
    for row, value, count in zip(map(tuple, rows), secret, counts, strict=True):
        if value in pair:
            totals[pair.index(value)][row] += int(count)
    if not all(total.total() for total in totals):
        return None
    keys = sorted({*totals[0], *totals[1]})
    p, q = (np.array([total[key] / total.total() for key in keys]) for total in totals)
    return Released(np.array(keys, dtype=float), p, q, tuple(shares))


def combinations_of(noiser, frame, groups, pairs, counts):
    """Return for each pair of secrets and choice of patterns of missing values the parts."""
    rows, secret = represented(noiser, frame), frame["s"].to_numpy()
    shares = shares_of(noiser, rows, counts)
    found = []
    for pair in pairs:
        of_groups = []
        for group in groups:
            shown = ~np.isnan(rows[:, group])
            parts = []
            for pattern in {tuple(mask) for mask in shown.tolist() if any(mask)}:
                columns = [k for k, here in zip(group, pattern, strict=True) if here]
                same = (shown == pattern).all(axis=1)
                own = [shares[k] for k in columns]
                part = part_of(rows[same][:, columns], secret[same], list(pair), counts[same], own)
                parts += [] if part is None else [(columns, part)]
            of_groups.append(parts)
        found += list(itertools.product(*[parts for parts in of_groups if parts]))
    return found


def on_a_grid(p, q, n):
    """Return two mixtures on a fine grid: smooth densities lose next to nothing."""
    spreads = [np.sqrt(np.diagonal(prior.covariances, axis1=1, axis2=2)) for prior in (p, q)]
    low = np.min([(m.rows - 8.5 * s).min(axis=0) for m, s in zip((p, q), spreads, strict=True)], 0)
    high = np.max([(m.rows + 8.5 * s).max(axis=0) for m, s in zip((p, q), spreads, strict=True)], 0)
    axes = [np.linspace(*ends, n) for ends in zip(low, high, strict=True)]
    rows = np.stack([x.ravel() for x in np.meshgrid(*axes, indexing="ij")], axis=1)
    distributions = []
    for prior in (p, q):
        parts = zip(prior.weights, prior.rows, prior.covariances, strict=True)
        masses = sum(w * stats.multivariate_normal.pdf(rows, m, c) for w, m, c in parts)
        distributions.append(masses / masses.sum())
    return Released(rows, *distributions)


def lies_in(region, masses, tolerance=1e-12):
    """Return whether a distribution, given by the masses of the cells, lies in a confidence set."""
    tree, unit = region.tree, 2.0**60
    sums = np.append(0.0, np.cumsum(np.asarray(masses, dtype=float).ravel()[tree.cells]))
    held = sums[tree.stop] - sums[tree.start]
    above = held >= region.lower / unit - tolerance
    return bool(np.all(above & (held <= region.upper / unit + tolerance)))
