"""Record swapping with a bound: cells of rows, flows between them, and who gets whose row."""

from sklearn_puffer._swaps.cells import (
    Cells,
    NearestCells,
    OddsCells,
    learnt_cells,
    learnt_centres,
    log_posteriors,
    nearest_centres,
)
from sklearn_puffer._swaps.exchange import (
    Costs,
    exchanged,
    least_cost,
    leavers_and_places,
    matched,
)
from sklearn_puffer._swaps.flows import ROW, keeps, mean_flows, whole_flows
from sklearn_puffer._swaps.program import SwapProblem
from sklearn_puffer._swaps.reserve import RUNS_OUT, Pool, UsedUpError, most_rows
from sklearn_puffer._swaps.rounding import Draws, whole_rows

__all__ = [
    "ROW",
    "RUNS_OUT",
    "Cells",
    "Costs",
    "Draws",
    "NearestCells",
    "OddsCells",
    "Pool",
    "SwapProblem",
    "UsedUpError",
    "exchanged",
    "keeps",
    "learnt_cells",
    "learnt_centres",
    "least_cost",
    "leavers_and_places",
    "log_posteriors",
    "matched",
    "mean_flows",
    "most_rows",
    "nearest_centres",
    "whole_flows",
    "whole_rows",
]
