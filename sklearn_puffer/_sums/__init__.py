"""What stands behind `PufferfishSum`: distributions of sums, reports, scales and certificates."""

from sklearn_puffer._sums import losses
from sklearn_puffer._sums.estimator import PrivateAnswer, PufferfishSum
from sklearn_puffer._sums.losses import SumLosses, least_loss, sum_scale, worst_case_scale
from sklearn_puffer._sums.others import Lattice, Others, convolved, row_of
from sklearn_puffer._sums.reports import exact_sum
from sklearn_puffer._sums.sums import GaussianUsers, conditions, gaussian_users, lemma_2_psi
from sklearn_puffer._sums.users import SECRETS, User, UserPair, common_step, step_of, user_pairs
