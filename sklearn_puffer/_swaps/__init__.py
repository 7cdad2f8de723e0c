"""Record swapping with a bound: flows between cells of rows, and who gets whose row."""

from sklearn_puffer._swaps.exchange import (
    RUNS_OUT,
    Costs,
    Draws,
    Pool,
    UsedUpError,
    least_cost,
    leavers_and_places,
    matched,
    most_rows,
    whole_rows,
)
from sklearn_puffer._swaps.flows import ROW, SwapProblem, keeps, mean_flows, whole_flows
