"""?"""

from sklearn_puffer._sums import (
    SECRETS,
    User,
    UserPair,
    check_users,
    common_step,
    step_of,
    user_pairs,
)

__all__ = ["SECRETS", "User", "UserPair", "check_users", "common_step", "step_of", "user_pairs"]
