"""Channels that change least: which row to release for which, found by linear programming."""

from sklearn_puffer._channels import nearest, pricing_rounds
from sklearn_puffer._channels.bounded_problem import BoundedFamily, BoundedProblem
from sklearn_puffer._channels.bounded_rows import bounded_rows
from sklearn_puffer._channels.bounded_search import find_bounded
from sklearn_puffer._channels.dual import lower_bound
from sklearn_puffer._channels.nearest import nearest_cells
from sklearn_puffer._channels.problem import ChannelProblem, CostFunction, Costs, Family, Found
from sklearn_puffer._channels.resolving import channel_in_blocks
from sklearn_puffer._channels.restricted import Solved, solve_moves
from sklearn_puffer._channels.search import find_channel
from sklearn_puffer._channels.whole_rows import whole_rows

__all__ = [
    "BoundedFamily",
    "BoundedProblem",
    "ChannelProblem",
    "CostFunction",
    "Costs",
    "Family",
    "Found",
    "Solved",
    "bounded_rows",
    "channel_in_blocks",
    "find_bounded",
    "find_channel",
    "lower_bound",
    "nearest",
    "nearest_cells",
    "pricing_rounds",
    "solve_moves",
    "whole_rows",
]
