"""What a solver found, made a channel in whole numbers that keeps its budget."""

from __future__ import annotations

import numpy as np

from sklearn_puffer._base import BoolArray, IntArray
from sklearn_puffer._channels.excesses import Limits, failed, limits_of
from sklearn_puffer._channels.problem import ChannelProblem, Found
from sklearn_puffer._channels.repair import constant, repaired, uneven
from sklearn_puffer._channels.shares import Shares, read
from sklearn_puffer._noise import IntegerRows

#: How much of delta is used, and by how many parts of 2^62 a share may be lowered for rounding.
_ATTEMPTS = ((1.0 - 1e-10, 4.0), (1.0 - 1e-3, 2.0**8), (0.5, 2.0**16))


def whole_rows(problem: ChannelProblem, found: Found) -> IntegerRows:
    r"""Return the channel found in parts of 2^62, mended so that it keeps its budget.

    Parameters
    ----------
    problem : ChannelProblem
    found : Found
        Nothing of it is believed: it may exceed the budget, by whatever.

    Returns
    -------
    IntegerRows
        Each row sums to 2^62 and leads to cells of its place alone.

    Raises
    ------
    ValueError
        If no constant channel keeps the budget in each place.

    Notes
    -----
    *Formal guarantees.* What is returned keeps every limit :math:`q_s(y) \le e^{\varepsilon}
    q_{s'}(y)` with room for the rounding of its certificate (or, under a delta, the sum of the
    excesses), and the floor: that is looked at last, whatever was done before. Where a solver's
    rows exceed it, first the entries of such outputs are made a little smaller (with a floor, a
    constant row is mixed in), and what is missing then goes to one cell of the unit; if that is not
    enough, all cells of a unit become one cell, and at last all cells of a place.

    Examples
    --------
    >>> from sklearn_puffer._channels.problem import Costs, Family
    >>> law = np.array([[3, 1], [1, 3]])
    >>> costs = Costs(np.array([[0.0], [1.0]]), np.array([False]), np.ones(1))
    >>> problem = ChannelProblem([Family(law)], np.array([0.5, 0.5]), costs, epsilon=1.0)
    >>> stays = Found(np.arange(3), np.arange(2), np.ones(2), np.zeros(2, dtype=int))
    >>> rows = whole_rows(problem, stays)  # log 3 is more than the budget: both become one cell
    >>> rows.targets.tolist()
    [0, 0]
    """
    limits = limits_of(problem)
    entries, units = read(problem, found)
    for share, lowered in _ATTEMPTS:
        tried = repaired(problem, limits, entries, units, share, lowered)
        if not (bad := _failed(problem, limits, tried, units)).any():
            return tried.rows(problem.n_cells)
    places = np.zeros(units.size, dtype=np.int64) if problem.places is None else problem.places
    everywhere = np.ones(units.size, dtype=bool)
    for merged, where in ((units, bad), (units, everywhere), (places, everywhere)):
        tried = constant(problem, tried, np.asarray(merged), where)
        if not _failed(problem, limits, tried, np.asarray(merged)).any():
            return tried.rows(problem.n_cells)
    raise ValueError(_in_the_way(problem, limits, np.asarray(places)))


def _failed(problem: ChannelProblem, limits: Limits, entries: Shares, units: IntArray) -> BoolArray:
    return failed(limits, entries) | uneven(problem, entries, units)


def _in_the_way(problem: ChannelProblem, limits: Limits, places: IntArray) -> str:
    """Return why no channel keeps the budget: two laws and a place."""
    names, numbers = np.unique(places, return_inverse=True)
    mass = np.stack([limits.laws[:, numbers == k].sum(axis=1) for k in range(names.size)], axis=1)
    above = mass[limits.first] - limits.factor * mass[limits.second]
    pair, place = np.unravel_index(int(above.argmax()), above.shape)
    one, other = int(limits.first[pair]), int(limits.second[pair])
    family = next(k for k, (rows, _) in enumerate(limits.families) if rows.start <= one < rows.stop)
    start = limits.families[family][0].start
    return (
        f"epsilon={problem.epsilon!r} is too small for any channel, or for what rounding leaves "
        f"of it: the cells of place {names[place]} have probability {mass[one, place]:.6g} under "
        f"law {one - start} of family {family}, and {mass[other, place]:.6g} under law "
        f"{other - start}, and no row leaves its place; allow more, or let more of a row change."
    )
