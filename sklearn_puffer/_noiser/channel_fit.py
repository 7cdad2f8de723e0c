"""What `PufferfishNoiser.fit` does for a channel: from a table to the channel and its proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_puffer._channels import ChannelProblem, find_channel, whole_rows
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._noiser.adversaries import Known, conditional_margins, known_to_adversaries
from sklearn_puffer._noiser.channel_cells import CountedCells, count_cells
from sklearn_puffer._noiser.channel_problem import (
    Asked,
    all_asked,
    channel_problem,
    units_of_change,
)
from sklearn_puffer._noiser.channel_proof import proof_of
from sklearn_puffer._noiser.channel_refits import loss_over_refits, refits_asked
from sklearn_puffer._noiser.channel_result import LearntChannel
from sklearn_puffer._noiser.channel_sets import (
    found_over_sets,
    loss_over_sets,
    sets_around_counts,
)
from sklearn_puffer._noiser.channel_utility import channel_utilities
from sklearn_puffer._noiser.counted_views import about_rows
from sklearn_puffer._noiser.known_values import known_columns
from sklearn_puffer._noiser.nearest_cells import CellDistance
from sklearn_puffer._noiser.read_table import TableRead, read_table
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._releases import SetLoss
from sklearn_puffer._tables import Name, Source, Values
from sklearn_puffer.priors import Discrete


def learn_channel(
    settings: Settings,
    table: Source,
    given_secrets: Mapping[Name, Values] | None,
    sample_weight: Any,
) -> LearntChannel:
    """Learn the priors of a table, find the channel and prove what it tells.

    Parameters
    ----------
    settings : Settings
    table : Source
    given_secrets : mapping of Values, or None
        The sensitive columns, where they are not columns of the table.
    sample_weight : array-like of shape (n_rows,) or None
    """
    read = read_table(settings, table, given_secrets, sample_weight)
    known_columns(read)  # refused here, before anything is counted
    units_of_change(read, np.zeros(len(read.columns)))
    known = known_to_adversaries(read)
    counted = count_cells(read, _further_laws(read, known))
    asked = all_asked(read, known, counted)
    problem = channel_problem(read, known, counted, asked)
    (rows, block, lower_bound), around = _found_around(read, counted, problem, asked)
    return LearntChannel(
        read=read,
        columns=[replace(column, raw=None) for column in read.columns],
        counted=counted,
        adversaries=known.adversaries,
        models=tuple(facts for model in known.models for facts in model.facts),
        asked=asked,
        problem=problem,
        rows=rows,
        block=block,
        lower_bound=lower_bound,
        proof=proof_of(settings, asked, rows),
        around=around,
        utility=channel_utilities(read, known, counted, rows),
        distance=_distance(read, known, counted),
        margins=known.margins,
        conditional=conditional_margins(read, known),
        known=[tuple(read.public[k] for k in each) for each in known_columns(read)],
        remarks=[*read.remarks(fine=False), *about_rows(read, known)],
    )


_Channel = tuple[IntegerRows, Any, float | None]


def _found_around(
    read: TableRead, counted: CountedCells, problem: ChannelProblem, asked: Sequence[Asked]
) -> tuple[_Channel, SetLoss | None]:
    """Return the channel, and what it loses to the priors around the fitted one, if asked for."""
    settings = read.settings
    if settings.confidence is None:
        return _found(settings, problem), None
    if settings.has_sets:
        sets = sets_around_counts(settings, counted, asked)
        rows = found_over_sets(read, counted, problem, sets, asked)
        return (rows, np.zeros(rows.n_cells, int), None), loss_over_sets(settings, sets, rows)
    refits = refits_asked(read, counted)
    families = [*problem.families, *(each.family for each in refits)]
    found = _found(settings, replace(problem, families=families))
    return found, loss_over_refits(settings, refits, found[0])


def _found(settings: Settings, problem: ChannelProblem) -> _Channel:
    channel = settings.channel
    assert channel is not None
    found = find_channel(
        problem,
        gap=channel.gap,
        block_size=channel.block_size,
        time_limit=channel.time_limit,
        n_jobs=settings.n_jobs,
    )
    return whole_rows(problem, found), found.block, found.lower_bound


def _further_laws(read: TableRead, known: Known) -> list[Discrete]:
    """Return the laws that may give mass to rows that `fit` has not seen."""
    counted = 1 if read.settings.prior is None else 0
    return [
        law
        for adversary in known.adversaries[counted:]
        for of_secrets in adversary.values()
        for laws in of_secrets.values()
        for law in laws.values()
    ]


def _distance(read: TableRead, known: Known, counted: CountedCells) -> CellDistance:
    assert read.settings.channel is not None
    return CellDistance(
        counted.cells.values(read.columns),
        read.unordered,
        units_of_change(read, known.spreads),
        read.settings.channel.cost,
        tuple(sorted({k for each in known_columns(read) for k in each})),
    )
