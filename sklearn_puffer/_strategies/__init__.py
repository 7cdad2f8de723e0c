"""What strategies are made of: couplings, their bounds, and what to use where there is none."""

from sklearn_puffer._strategies import mixture_bounds, transport
from sklearn_puffer._strategies.bound_types import (
    Bound,
    Impossible,
    Strategy,
    Tightest,
    checked_arguments,
    checked_bound,
    checked_pairs,
    least_of,
    of_pair,
    reason_of,
)
from sklearn_puffer._strategies.coupling_bounds import (
    ConditionalMeans,
    Moves,
    average,
    factor_of_shift,
    has_pure_loss,
    largest,
    moves_that_may_matter,
    of_moves,
    single_moves,
    without_far_moves,
)
from sklearn_puffer._strategies.derived_bounds import FromPure, dependent_rows
from sklearn_puffer._strategies.row_bounds import JointRows, MovedRows, joint_computable
from sklearn_puffer._strategies.transport import couplings, ground_cost, monotone
