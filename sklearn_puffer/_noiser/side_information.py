r"""Side information: adversaries who know some public columns of a row, and their losses.

These columns are released unchanged, and must tell little by themselves. With the value v of such a
column and the noisy values y of the others, the loss at a row (v, y) is

.. math:: \log \frac{p_s(v)}{p_{s'}(v)} + \log \frac{p_s(y \mid v)}{p_{s'}(y \mid v)},

whose first part does not depend on the noise on the other columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import isinf, prod
from operator import methodcaller

import numpy as np

from sklearn_puffer._base import FloatArray, check_pairs
from sklearn_puffer._losses import LossTable
from sklearn_puffer._noiser.priors import Adversary, Distributions, Members, Part, changed
from sklearn_puffer._noiser.problem import Problem, has_exact_loss
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._words import listed, quoted
from sklearn_puffer.calibration import exact
from sklearn_puffer.priors import Discrete

_CLOSE = 1e-9  # share of the budget that must be left for the noise

RowValues = Mapping[int, float | None]  # column -> value, None where it is missing
_Choices = tuple[Adversary, list[list[RowValues]]]


def who_know_values(adversaries: Sequence[Adversary], read: TableRead) -> list[Adversary]:
    """Return the adversaries with side information, one for each of its values.

    A secret that does not occur with a value has no distribution there: the guarantee is about
    possible secrets. Of columns known together some may be missing; that they are is then known.
    Values in groups that are taken as independent occur in all combinations.

    Raises
    ------
    ValueError
        If ``known`` makes more pairs than there is time for.
    """
    choices = _choices_of(adversaries, read.known, read.groups)
    n_adversaries = sum(prod(map(len, values)) for _, values in choices)
    check_pairs(
        n_adversaries * sum(map(len, read.pairs.values())),
        f"the pairs of {listed(list(read.pairs))}, given each value of what may be known,",
        "bin those columns (n_bins), or list fewer in known=",
        alone=not read.settings.at_once,
    )
    return _who_know(choices, read.groups)


def with_known(
    adversary: Adversary, known: Sequence[Sequence[int]], groups: Sequence[Sequence[int]]
) -> list[Adversary]:
    """Return an adversary, and after it those with side information, as in a fit."""
    return [adversary, *_who_know(_choices_of([adversary], known, groups), groups)]


def known_among(known: Sequence[Sequence[int]], positions: Sequence[int]) -> list[list[int]]:
    """Return the side information within the columns at some positions.

    >>> known_among([[0, 4], [1]], [2, 4])
    [[1]]
    """
    inside = [[positions.index(k) for k in columns if k in positions] for columns in known]
    return [columns for columns in inside if columns]


def _choices_of(
    adversaries: Sequence[Adversary],
    known: Sequence[Sequence[int]],
    groups: Sequence[Sequence[int]],
) -> list[_Choices]:
    """Return what each adversary may know of each set of known columns, by group."""
    choices = []
    for members in known:
        inside = [([k for k in members if k in group], group) for group in groups]
        for adversary in adversaries:
            values_of = [_values(adversary, columns, group) for columns, group in inside if columns]
            choices.append((adversary, values_of))
    return choices


def _who_know(choices: Sequence[_Choices], groups: Sequence[Sequence[int]]) -> list[Adversary]:
    """Return the adversaries who know values, one for each combination."""
    known_by = [
        (adversary, {k: v for of_group in values for k, v in of_group.items()})
        for adversary, values_of in choices
        for values in product(*values_of)
    ]
    return [
        changed(adversary, partial(_conditional, known=known, groups=groups))
        for adversary, known in known_by
        if any(value is not None for value in known.values())
    ]


def _values(adversary: Adversary, members: Sequence[int], group: Sequence[int]) -> list[RowValues]:
    """Return the values of some columns of a group that have mass under any distribution."""
    rows: set[tuple[float | None, ...]] = set()
    every = [of for of_secrets in adversary.values() for of in of_secrets.values()]
    for axes, distribution in (pair for of in every for pair in of.items()):
        if set(axes) <= set(group):
            held = distribution.rows[np.asarray(distribution.counts > 0, dtype=bool)]
            gaps = [None] * len(held)
            values_of = [held[:, axes.index(k)].tolist() if k in axes else gaps for k in members]
            rows |= set(zip(*values_of, strict=True))
    in_order = sorted(rows, key=lambda row: [(v is None, 0.0 if v is None else v) for v in row])
    return [dict(zip(members, values, strict=True)) for values in in_order]


def _conditional(
    distributions: Distributions, known: RowValues, groups: Sequence[Sequence[int]]
) -> Distributions:
    """Return the priors given these values; a group without any of them keeps its own."""
    conditional: Distributions = {}
    for members, distribution in distributions.items():
        group = next(group for group in groups if members[0] in group)
        matching = _with_values(distribution, members, {k: known[k] for k in group if k in known})
        if matching.any():
            conditional[members] = Discrete.from_counts(
                distribution.atoms[matching], distribution.counts[matching]
            )
    return conditional


def _with_values(distribution: Discrete, members: Members, known: RowValues) -> FloatArray:
    matching = np.asarray(distribution.counts > 0, dtype=bool)
    for column, value in known.items():
        if column in members and value is not None:
            matching &= distribution.rows[:, members.index(column)] == value
        elif column in members or value is not None:  # present and known to be missing, or reversed
            matching[:] = False
    return matching


# ----------------------------------------------------------------------- what known columns reveal


def check_kept(read: TableRead, problem: Problem) -> None:
    """Refuse side information that reveals too much by itself, or has no computable loss.

    Raises
    ------
    ValueError
        If the known columns reveal more than the budget by themselves, or the exact loss of rows
        with them is not computable.
    """
    kept = sorted({k for members in read.known for k in members})
    if not kept:
        return
    _check_bare_loss(read, problem, kept)
    for part in _parts_with(problem, kept):
        if problem.strategy is not exact:
            raise ValueError(
                f"known={quoted(read.settings.columns.known)} keeps columns unchanged, for which "
                "there is the exact loss and no other bound, got "
                f"strategy={read.settings.knowledge.strategy_name!r}; "
                "leave it out, or leave out known."
            )
        if not has_exact_loss(problem, part, problem.notion):
            raise ValueError(_out_of_reach(read, part))


def _parts_with(problem: Problem, kept: Sequence[int]) -> Iterator[Part]:
    """Yield the parts in which a known column varies."""
    for group in problem.groups:
        for part in group:
            axes = [axis for axis, k in enumerate(part.members) if k in kept]
            rows = np.concatenate([distribution.rows[:, axes] for distribution in part.priors])
            if axes and np.ptp(rows, axis=0).any():
                yield part


def _check_bare_loss(read: TableRead, problem: Problem, kept: Sequence[int]) -> None:
    """Refuse known columns that reveal more than the budget by themselves."""
    notion, lost = problem.notion, float(_bare_losses(problem, kept).max(initial=0.0))
    if lost <= notion.budget * (1.0 - _CLOSE):
        return
    names = [read.public[k] for k in kept]
    how = "by itself that already tells" if len(names) == 1 else "together they already tell"
    last = "choose a larger epsilon"
    if isinf(lost):
        last = "allow a delta, for some value rules a secret out"
    raise ValueError(
        f"known={quoted(read.settings.columns.known)} leaves {listed(names, len(names))} "
        f"unchanged, and {how} {lost:.3g} ({'delta' if notion.is_chance else 'nats'}) about "
        f"{listed(read.sensitive)}, more than {notion.budget_name()} allows; leave columns out of "
        f"known=, bin or merge them more coarsely (n_bins, categories), or {last}."
    )


def _bare_losses(problem: Problem, members: Sequence[int]) -> FloatArray:
    """Return the losses of the pairs of secrets in some columns alone, shape (n_pairs, 2)."""
    groups = [np.zeros((problem.n_pairs, 2))]
    for group in problem.groups:
        lost = np.zeros((problem.n_pairs, 2))
        for part in group:
            axes = [axis for axis, k in enumerate(part.members) if k in members]
            if axes:
                seen = part.mapped(methodcaller("marginal", axes), ())
                losses = LossTable(seen.pairs, problem.notion).without_noise()
                np.maximum.at(lost, part.owners, losses)
        groups.append(lost)
    how = np.sum if problem.notion.adds_up else np.max
    total: FloatArray = how(groups, axis=0)
    return total


def _out_of_reach(read: TableRead, part: Part) -> str:
    names = [read.public[k] for k in part.members]
    return (
        f"known={quoted(read.settings.columns.known)} keeps columns unchanged, which needs the "
        f"exact loss of rows of {listed(names, 10)}, and under {read.settings.noise_name} noise "
        "and this guarantee it is not computed for so many columns, values or secrets; use fewer "
        "of them, bins (n_bins), Laplace noise without delta and alpha, or "
        "PufferfishMicroaggregator(known=)."
    )
