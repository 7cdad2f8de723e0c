"""Confidence sets of priors, and the worst case over them."""

from sklearn_puffer._sets.laminar import ONE
from sklearn_puffer._sets.simultaneous_sets import (
    computable,
    error_share,
    set_around,
    work,
)
from sklearn_puffer._sets.worst_case import SetLosses
