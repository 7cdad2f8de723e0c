r"""Columns that may be known, under noise: they stay, and must tell little by themselves.

The released row holds the value v of a known column, so that at a row (v, y) it loses

.. math:: \log \frac{p_s(v)}{p_{s'}(v)} + \log \frac{p_s(y \mid v)}{p_{s'}(y \mid v)},

whose first part no noise on the other columns takes away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np

from sklearn_puffer._base import Array, FloatArray, listed, quoted
from sklearn_puffer._losses import LossTable, bare_ratios
from sklearn_puffer._noise import Mixing, Unchanged
from sklearn_puffer._noiser.conditional_priors import Part
from sklearn_puffer._noiser.known_values import told_value, too_telling
from sklearn_puffer._noiser.problems import Problem, known
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer.calibration import exact
from sklearn_puffer.priors import Discrete, PriorPair

_CLOSE = 1e-9  # of the budget: what no noise could do with


def kept_places(read: TableRead) -> list[int]:
    """Return the positions of the columns that stay as they are."""
    return sorted({k for members in read.known for k in members})


def with_kept(read: TableRead, mixings: tuple[Mixing | None, ...]) -> tuple[Mixing | None, ...]:
    """Return the kernels of the columns, of which those that may be known stay as they are."""
    found = list(mixings)
    for k in kept_places(read):
        found[k] = Unchanged.of_values(read.columns[k].atoms.tolist())
    return tuple(found)


def check_kept(read: TableRead, problem: Problem, n_adversaries: int) -> None:
    """Refuse what no noise on the other columns helps, and what cannot be computed.

    Raises
    ------
    ValueError
        If the columns that stay tell more than the budget by themselves, or the exact loss of rows
        that hold them is out of reach.
    """
    kept = kept_places(read)
    if not kept:
        return
    unaware = np.array([pair.adversary < n_adversaries for pair in problem.asked], dtype=bool)
    _check_told(read, problem, kept, unaware)
    for part in _parts_with(problem, kept):
        if problem.strategy is not exact:
            raise ValueError(
                f"known={quoted(read.settings.known)} keeps columns unchanged, for which there is "
                f"the exact loss and no other bound, got strategy={read.settings.strategy_name!r}; "
                "leave it out, or leave out known."
            )
        if not known(problem, part, problem.notion):
            raise ValueError(_out_of_reach(read, part))


def _parts_with(problem: Problem, kept: Sequence[int]) -> Iterator[Part]:
    """Yield the parts in which a column that stays varies."""
    for group in problem.groups:
        for part in group:
            axes = [axis for axis, k in enumerate(part.members) if k in kept]
            rows = np.concatenate([law.rows[:, axes] for law in part.priors()])
            if axes and np.ptp(rows, axis=0).any():
                yield part


def _check_told(read: TableRead, problem: Problem, kept: Sequence[int], unaware: Array) -> None:
    """Refuse where columns that stay tell more than the budget by themselves.

    Named are those that tell most to who knows nothing else, or else all that stay.
    """
    most = problem.notion.budget * (1.0 - _CLOSE)
    told = float(_told(problem, kept).max(initial=0.0))
    if told <= most:
        return
    alone = [(float(_told(problem, each)[unaware].max()), each) for each in read.known]
    lost, members = max(alone)
    asked = unaware
    if not lost > most:
        lost, members, asked = told, list(kept), np.ones(problem.n_pairs, dtype=bool)
    names = [read.public[k] for k in members]
    raise ValueError(too_telling(read, names, lost, _worst(read, problem, members, asked)))


def _told(problem: Problem, members: Sequence[int]) -> FloatArray:
    """Return what each pair of secrets loses to who sees some columns alone, shape (n_pairs, 2)."""
    groups = [np.zeros((problem.n_pairs, 2))]
    for group in problem.groups:
        lost = np.zeros((problem.n_pairs, 2))
        for part in group:
            pairs = _seen(part, members)
            if pairs:
                losses = LossTable(pairs, problem.notion).without_noise()
                np.maximum.at(lost, part.owners, losses)
        groups.append(lost)
    how = np.sum if problem.notion.adds_up else np.max
    total: FloatArray = how(groups, axis=0)
    return total


def _seen(part: Part, members: Sequence[int]) -> list[PriorPair]:
    """Return the laws of some columns of a part."""
    axes = [axis for axis, k in enumerate(part.members) if k in members]
    return part.mapped(lambda law: law.marginal(axes), ()).pairs if axes else []


def _worst(read: TableRead, problem: Problem, members: Sequence[int], asked: Array) -> str:
    """Return the values that tell most about some pairs of secrets, as people know them."""
    worst, told = -1.0, ""
    for part in (part for group in problem.groups for part in group):
        own = [k for k in part.members if k in members]
        seen = zip(part.owners.tolist(), _seen(part, members), strict=False)
        for p, q in (pair for owner, pair in seen if asked[owner]):
            rows, ratios = bare_ratios(cast(Discrete, p), cast(Discrete, q))
            place = int(np.abs(ratios).argmax())
            if abs(ratios[place]) > worst:
                worst, told = abs(float(ratios[place])), _named(read, own, rows[place])
    return told


def _named(read: TableRead, members: Sequence[int], row: Array) -> str:
    values = []
    for k, value in zip(members, row.tolist(), strict=True):
        place = int(np.searchsorted(read.columns[k].atoms, value))
        values.append(f"{read.public[k]}={quoted(told_value(read.columns[k], place))}")
    return " and ".join(values)


def _out_of_reach(read: TableRead, part: Part) -> str:
    names = [read.public[k] for k in part.members]
    return (
        f"known={quoted(read.settings.known)} keeps columns unchanged, which needs the exact loss "
        f"of rows of {listed(names, 10)}, and under {read.settings.noise_name} noise and this "
        "promise it is not computed for so many columns, values or secrets; use fewer of them, "
        "bins (n_bins), Laplace noise without delta and alpha, or noise='swap'."
    )
