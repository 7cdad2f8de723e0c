"""Channels that change least: which row to release for which, found by linear programming."""

from sklearn_puffer._channels import nearest
from sklearn_puffer._channels.nearest import nearest_cells
from sklearn_puffer._channels.problem import ChannelProblem, CostFunction, Costs, Family, Found
from sklearn_puffer._channels.resolving import channel_in_blocks
from sklearn_puffer._channels.restricted import Solved, solve_moves
from sklearn_puffer._channels.whole_rows import whole_rows

__all__ = [
    "ChannelProblem",
    "CostFunction",
    "Costs",
    "Family",
    "Found",
    "Solved",
    "channel_in_blocks",
    "nearest",
    "nearest_cells",
    "solve_moves",
    "whole_rows",
]
