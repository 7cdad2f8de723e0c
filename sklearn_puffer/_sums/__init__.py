"""What stands behind `PufferfishSum`: laws of sums, reports, scales and certificates."""

from sklearn_puffer._sums import losses, sum_scales
from sklearn_puffer._sums.answers import SumSettings, make_sum_plan
from sklearn_puffer._sums.estimator import PrivateAnswer, PufferfishSum
from sklearn_puffer._sums.gaussian_queries import exact_sum
from sklearn_puffer._sums.gaussian_users import GaussianUsers, gaussian_users
from sklearn_puffer._sums.limits import least_loss
from sklearn_puffer._sums.losses import SumLosses
from sklearn_puffer._sums.others import Lattice, Others, convolved, row_of
from sklearn_puffer._sums.published_conditions import conditions, lemma_2_psi
from sklearn_puffer._sums.sum_scales import sum_scale, worst_case_scale
from sklearn_puffer._sums.user_losses import system_of
from sklearn_puffer._sums.users import (
    SECRETS,
    User,
    UserPair,
    check_users,
    common_step,
    step_of,
    user_pairs,
)

__all__ = [
    "SECRETS",
    "GaussianUsers",
    "Lattice",
    "Others",
    "PrivateAnswer",
    "PufferfishSum",
    "SumLosses",
    "SumSettings",
    "User",
    "UserPair",
    "check_users",
    "common_step",
    "conditions",
    "convolved",
    "exact_sum",
    "gaussian_users",
    "least_loss",
    "lemma_2_psi",
    "losses",
    "make_sum_plan",
    "row_of",
    "step_of",
    "sum_scale",
    "sum_scales",
    "system_of",
    "user_pairs",
    "worst_case_scale",
]
