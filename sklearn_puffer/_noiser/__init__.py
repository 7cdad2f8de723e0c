"""What stands behind `PufferfishNoiser`: from a table to its priors, scales and release."""

from sklearn_puffer._noiser import adversaries, against, fit, problem, scales
from sklearn_puffer._noiser.against import FittedNoise
from sklearn_puffer._noiser.estimator import PufferfishNoiser
from sklearn_puffer._noiser.priors import Part, SecretPair
from sklearn_puffer._noiser.problem import Problem
from sklearn_puffer._noiser.release import ColumnRelease, fingerprint
from sklearn_puffer._noiser.scales import find_scales
from sklearn_puffer._noiser.utility import RawDistribution, utilities
