"""What the certificate states beside the proof: further releases, whole tables, labels, utility.

A reader of a whole released table, who holds the list of the fitted rows, counts how often every
prototype was released. That moves what he takes for the channel: he scales the expected flows
between prototypes until they sum to what he knows and to what he counted (the most probable flows,
by iterative proportional fitting), and reads the odds of each released prototype off them. How far
that goes is simulated on drawn tables: a figure, and no proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._losses import MassBoxes, prototype_losses
from sklearn_puffer._microaggregator.certificate import PrototypeUtility
from sklearn_puffer._microaggregator.coordinates import Axis, NumberAxis, Sample
from sklearn_puffer._microaggregator.program import SecretCounts
from sklearn_puffer._noise import WHOLE, IntegerRows, seeded_entropy
from sklearn_puffer._tables import Name, Values

MOST_TABLES = 60
_MOST_ROWS = 2_000_000  # drawn in all tables together
_LEAST_TABLES = 5
_MOST_FLOWS = 1 << 21  # of some tables, held at a time
_MOST_STEPS = 1_000
_CLOSE = 1e-6


def as_matrix(rows: IntegerRows) -> Any:
    """Return a channel as a sparse matrix of probabilities, whose rows sum to 1."""
    shape = (rows.n_cells, rows.n_cells)
    return csr_array((rows.shares / WHOLE, rows.targets.copy(), rows.starts.copy()), shape=shape)


def as_rows(matrix: FloatArray) -> Any:
    """Return a matrix of probabilities as a sparse one."""
    return csr_array(matrix)


def further_odds(rows: IntegerRows, boxes: MassBoxes, pairs: Array) -> float:
    """Return the log odds that ever more releases of one row come up to, over the set.

    They tell which row of the channel it is; infinite where one secret may be absent there.

    Examples
    --------
    >>> rows = IntegerRows([0, 2, 4], [0, 1, 0, 1], [3, 1, 1, 3] * np.array(WHOLE // 4))
    >>> boxes = MassBoxes.as_counted(np.array([[30, 10], [10, 30]]))
    >>> round(further_odds(rows, boxes, np.array([[0, 1]])), 6)  # log 3
    1.098612
    """
    channel = as_matrix(rows).toarray()
    kinds = np.unique(channel, axis=0, return_inverse=True)[1].ravel()
    n = rows.n_cells
    told = IntegerRows(np.arange(n + 1), kinds, np.full(n, WHOLE))
    return float(prototype_losses(told, boxes, pairs).max())


def odds_of(counts: FloatArray, flows: FloatArray, pairs: Array) -> FloatArray:
    """Return the largest log odds of any pair at each released prototype.

    Parameters
    ----------
    counts : ndarray of shape (n_prototypes, n_secrets)
        Rows of each secret.
    flows : ndarray of shape (..., n_prototypes, n_prototypes)
        The share of the rows of a that are released as b.
    pairs : ndarray of shape (n_pairs, 2)
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        released = np.log((counts / counts.sum(axis=0)).T @ flows)
        apart = np.abs(released[..., pairs[:, 0], :] - released[..., pairs[:, 1], :])
    return np.asarray(np.nan_to_num(apart, nan=0.0, posinf=np.inf).max(axis=-2))


def table_loss(
    rows: IntegerRows, sizes: IntArray, groups: Sequence[SecretCounts], most: int = MOST_TABLES
) -> float:
    """Return the largest log odds at a prototype that readers of whole drawn tables reach.

    At most so many tables are drawn, but five at least.

    Examples
    --------
    >>> rows = IntegerRows([0, 2, 4], [0, 1, 0, 1], [3, 1, 1, 3] * np.array(WHOLE // 4))
    >>> counts = np.array([[300, 100], [100, 300]])
    >>> group = SecretCounts(counts, counts.sum(axis=1), np.array([[0, 1]]))
    >>> 0.5 < table_loss(rows, group.sizes, [group]) < 0.8  # a single row: .511
    True
    """
    n_tables = int(max(min(_MOST_ROWS // sizes.sum(), most), _LEAST_TABLES))
    expected, together = sizes[:, None] * as_matrix(rows).toarray(), len(sizes) ** 2
    worst = 0.0
    for some in np.array_split(np.arange(n_tables), -(-n_tables * together // _MOST_FLOWS)):
        seen = np.stack([_drawn_counts(rows, sizes, number) for number in some])
        flows = fitted_flows(expected, sizes, seen) / sizes[:, None]
        for group in groups:
            odds = odds_of(group.counts.astype(float), flows, group.pairs)
            worst = max(worst, float(odds[seen > 0].max()))
    return worst


def _drawn_counts(rows: IntegerRows, sizes: IntArray, number: int) -> IntArray:
    """Return how many rows of a drawn table are released as each prototype."""
    cells = np.repeat(np.arange(len(sizes)), sizes)
    drawn = rows.sampler(seeded_entropy(0, int(number))).draw(cells)
    return np.bincount(drawn, minlength=len(sizes))


def fitted_flows(flows: FloatArray, rows: IntArray, columns: IntArray) -> FloatArray:
    """Return flows scaled until they sum to given rows, and columns of one or more tables.

    Parameters
    ----------
    flows : ndarray of shape (n, n)
    rows : ndarray of shape (n,)
    columns : ndarray of shape (..., n)

    Examples
    --------
    >>> expected = np.array([[3.0, 1.0], [1.0, 3.0]])
    >>> fitted_flows(expected, np.array([4, 4]), np.array([5, 3])).round(3)
    array([[3.419, 0.581],
           [1.581, 2.419]])
    """
    by_row, by_column = np.ones(columns.shape), np.ones(columns.shape)
    for _ in range(_MOST_STEPS):
        sums = by_row @ flows
        by_column = np.divide(columns, sums, out=np.zeros(sums.shape), where=sums > 0.0)
        before, by_row = by_row, rows / (by_column @ flows.T)
        if np.abs(by_row / before - 1.0).max() < _CLOSE:
            break
    return np.asarray(by_row[..., :, None] * flows * by_column[..., None, :])


def share_beyond(rows: IntegerRows, groups: Sequence[SecretCounts], epsilon: float) -> float:
    """Return the share of people whose odds move beyond epsilon for who knows their label.

    Parameters
    ----------
    rows : IntegerRows
    groups : sequence of SecretCounts
        As counted, of the people of each label.
    epsilon : float
    """
    channel = as_matrix(rows).toarray()
    beyond, total = 0.0, 0
    for group in groups:
        there = group.counts.sum(axis=0) > 0
        pairs = group.pairs[there[group.pairs].all(axis=1)]
        total += int(group.sizes.sum())
        if len(pairs):
            counts = np.where(there, group.counts, 1.0)
            odds = odds_of(counts, channel, pairs)
            beyond += float(group.sizes @ channel @ (odds > epsilon * (1.0 + 1e-9)))
    return beyond / max(total, 1)


# --------------------------------------------------------------------------------------- utility


def utilities(sample: Sample, best: Any, mechanism: Any) -> list[PrototypeUtility]:
    """Return what survives of each column.

    Typical rows change values by what is expected; drawn ones, and medians of changes, by what was
    measured of one drawn release of the sampled rows.

    Parameters
    ----------
    sample : Sample
    best : Tried
    mechanism : TypicalRows
    """
    axes, weights = best.prototypes.coordinates.axes, sample.weights
    moved, alone, same = best.expected(sample)
    released = _released(sample, best, mechanism, moves=True)
    grouped = _released(sample, best, mechanism, moves=False)
    found = []
    for axis in axes:
        name, spread = axis.name, _spread(axis)
        fitted = axis.fitted(sample.columns[name])
        changes = _apart(axis, fitted, released[name])
        change, typical, unchanged = moved[name], alone[name], same[name]
        if mechanism.drawn is not None:
            change = _mean(changes, weights) / spread
            typical = _mean(_apart(axis, fitted, grouped[name]), weights) / spread
            unchanged = _mean(changes == 0.0, weights)
        constant = _apart(axis, fitted, _constant(fitted, weights))
        found.append(
            PrototypeUtility(
                name=name,
                change=change * spread,
                change_sd=change,
                median_change=_median(changes, weights),
                unchanged=unchanged,
                constant=_mean(constant, weights),
                constant_sd=_mean(constant, weights) / spread,
                constant_median=_median(constant, weights),
                constant_unchanged=_mean(constant == 0.0, weights),
                grouping=typical,
                moving=change - typical,
            )
        )
    return found


def _mean(values: Array, weights: Array) -> float:
    return float(np.average(values, weights=weights))


def _spread(axis: Axis) -> float:
    return axis.scale if isinstance(axis, NumberAxis) else 1.0


def _released(sample: Sample, best: Any, mechanism: Any, *, moves: bool) -> dict[Name, Values]:
    """Return the columns of the sampled rows in one release, by bits that are no secret."""
    codes = best.sample_codes
    if moves:
        cells = mechanism.cells(sample.strata, codes)
        codes = mechanism.channel.sampler(seeded_entropy(0, 1)).draw(cells)
    if mechanism.drawn is None:
        return {name: values.taken(codes) for name, values in best.prototypes.rows.items()}
    bins = mechanism.drawn.draw(codes, seeded_entropy(0, 2))
    return {name: mechanism.drawn.values[name].taken(which) for name, which in bins.items()}


def _apart(axis: Axis, originals: Values, released: Values) -> FloatArray:
    """Return how far values are from others; without an order, or if one is missing, one unit."""
    if isinstance(axis, NumberAxis):
        gone, other = _gone(originals), _gone(released)
        with np.errstate(invalid="ignore"):
            apart = np.abs(originals.data.astype(float) - released.data.astype(float))
        return np.where(gone | other, np.where(gone == other, 0.0, axis.scale), apart)
    return np.asarray(_levels(originals) != _levels(released), dtype=float)


def _gone(values: Values) -> Array:
    return np.zeros(len(values), dtype=bool) if values.missing is None else values.missing


def _levels(values: Values) -> Array:
    """Return values as objects, None where they are missing."""
    known: Sequence[Any] = (False, True) if values.levels is None else values.levels
    table = np.array([*known, None], dtype=object)
    return table[values.filled(-1).astype(np.intp)]


def _constant(values: Values, weights: Array) -> Values:
    """Return the best constant in the place of each value: the median, or most frequent one."""
    if values.kind in ("float", "integer"):
        there = np.flatnonzero(~_gone(values))
        order = there[np.argsort(values.data[there], kind="stable")]
        counts = weights[order]
        at = np.searchsorted(np.cumsum(counts), counts.sum() / 2.0) if len(order) else 0
        best = order[at] if len(order) else 0
    else:
        codes = values.filled(-1).astype(np.intp) + 1
        counts = np.bincount(codes, weights)
        best = np.flatnonzero(codes == counts.argmax())[0]
    return values.taken(np.full(len(values), best))


def _median(changes: FloatArray, weights: Array) -> float:
    order = np.argsort(changes, kind="stable")
    counts = weights[order].astype(float)
    at = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2.0))
    return float(changes[order[min(at, len(order) - 1)]])
