"""Channels that change least: which row to release for which, found by linear programming."""

from sklearn_puffer._channels.program import (
    ChannelProblem,
    CostFunction,
    Costs,
    Family,
    find_channel,
    most_cells,
)
from sklearn_puffer._channels.whole_rows import whole_rows
