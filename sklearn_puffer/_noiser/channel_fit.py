"""What `PufferfishNoiser.fit` does for a channel: from a table to the channel and its proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_puffer._channels import find_channel, whole_rows
from sklearn_puffer._noiser.adversaries import Known, conditional_margins, known_to_adversaries
from sklearn_puffer._noiser.channel_cells import CountedCells, count_cells, count_representatives
from sklearn_puffer._noiser.channel_problem import all_asked, channel_problem, units_of_change
from sklearn_puffer._noiser.channel_proof import check_copies, proof_of
from sklearn_puffer._noiser.channel_result import LearntChannel
from sklearn_puffer._noiser.channel_utility import channel_utilities
from sklearn_puffer._noiser.known_values import known_columns
from sklearn_puffer._noiser.nearest_cells import CellDistance
from sklearn_puffer._noiser.read_table import TableRead, read_table
from sklearn_puffer._noiser.settings import Settings
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
    rows = whole_rows(problem, find_channel(problem))
    check_copies(read, counted, asked, rows, problem.epsilon)
    return LearntChannel(
        read=read,
        columns=[replace(column, raw=None) for column in read.columns],
        counted=counted,
        equal=count_representatives(read, counted),
        adversaries=known.adversaries,
        asked=asked,
        problem=problem,
        rows=rows,
        proof=proof_of(settings, asked, rows),
        utility=channel_utilities(read, known, counted, rows),
        distance=_distance(read, known, counted),
        margins=known.margins,
        conditional=conditional_margins(read, known),
        known=[tuple(read.public[k] for k in each) for each in known_columns(read)],
        remarks=read.remarks(fine=False),
    )


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
