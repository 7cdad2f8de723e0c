"""What stands behind `PufferfishSum`: distributions of sums, reports, scales and certificates."""

from sklearn_puffer._sums import losses
from sklearn_puffer._sums.convolution import convolved, laplace_sums, sum_of
from sklearn_puffer._sums.estimator import PrivateAnswer, PufferfishSum
from sklearn_puffer._sums.gaussian import GaussianUsers, exact_sum, gaussian_users
from sklearn_puffer._sums.losses import SumLosses, least_loss, sum_scale, worst_case_scale
from sklearn_puffer._sums.published import conditions, lemma_2_psi
from sklearn_puffer._sums.reports import common_step, step_of
from sklearn_puffer._sums.users import SECRETS, User, UserPair, user_pairs
