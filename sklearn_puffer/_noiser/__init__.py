"""What stands behind `PufferfishNoiser`: from a table to its priors, scales and release."""

from sklearn_puffer._noiser import (
    adversaries,
    fit_table,
    problems,
    scales,
    worst_case_loss,
)
from sklearn_puffer._noiser.conditional_priors import Part, SecretPair
from sklearn_puffer._noiser.estimator import PufferfishNoiser
from sklearn_puffer._noiser.mechanism import noise_of
from sklearn_puffer._noiser.problems import Problem
from sklearn_puffer._noiser.release import ColumnRelease, fingerprint
from sklearn_puffer._noiser.scales import find_scales
from sklearn_puffer._noiser.utility import RawDistribution, column_moves, released_shares, utilities
from sklearn_puffer._noiser.worst_case_loss import FittedNoise
