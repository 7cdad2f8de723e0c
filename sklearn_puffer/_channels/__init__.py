"""Channels that change least: which row to release for which, found by linear programming."""

from sklearn_puffer._channels.problem import ChannelProblem, CostFunction, Costs, Family, Found
from sklearn_puffer._channels.restricted import Solved, solve_moves

__all__ = [
    "ChannelProblem",
    "CostFunction",
    "Costs",
    "Family",
    "Found",
    "Solved",
    "solve_moves",
]
