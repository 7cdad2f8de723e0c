"""Confidence sets of priors, and the worst case over them."""

from sklearn_puffer._sets.laminar import ONE, Jumps, Line, Tree, interval_masses, nearest_masses
from sklearn_puffer._sets.simultaneous_sets import (
    SimultaneousSet,
    cell_bounds,
    cell_share,
    error_share,
    n_events,
    rows_needed,
    set_around,
    set_around_counts,
)
from sklearn_puffer._sets.worst_case import SetLosses, computable, work
