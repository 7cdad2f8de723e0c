"""Record swapping with a bound: cells of rows, flows between them, and who gets whose row."""

from sklearn_puffer._swaps.cells import (
    Cells,
    learnt_cells,
    learnt_centres,
    log_posteriors,
    nearest_centres,
)
from sklearn_puffer._swaps.exchange import (
    Costs,
    least_cost,
    leavers_and_places,
    matched,
)
from sklearn_puffer._swaps.flows import ROW, keeps, mean_flows, whole_flows
from sklearn_puffer._swaps.program import SwapProblem
from sklearn_puffer._swaps.reserve import RUNS_OUT, Pool, UsedUpError, most_rows
from sklearn_puffer._swaps.rounding import Draws, whole_rows
