"""Users who each report a random value, and the noise that hides them in a sum (paper 001).

Use this module to describe users to `PufferfishSum`, or to calibrate a sum without an estimator.
"""

from sklearn_puffer._sums import (
    SumLosses,
    User,
    UserPair,
    conditions,
    lemma_2_psi,
    sum_scale,
    user_pairs,
    worst_case_scale,
)

__all__ = [
    "SumLosses",
    "User",
    "UserPair",
    "conditions",
    "lemma_2_psi",
    "sum_scale",
    "user_pairs",
    "worst_case_scale",
]
