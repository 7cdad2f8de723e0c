"""What stands behind `PufferfishSum`: distributions of sums, reports, scales and certificates."""

from sklearn_puffer._sums.estimator import PrivateAnswer, PufferfishSum
from sklearn_puffer._sums.gaussian import GaussianUsers, gaussian_users
from sklearn_puffer._sums.published import lemma_2_psi
from sklearn_puffer._sums.users import User
