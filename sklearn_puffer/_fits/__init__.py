"""Behind `fits`: the rows that a prior is fitted to, and what is made of them."""

from sklearn_puffer._fits.samples import (
    MOST_ROWS,
    Sample,
    check_any_varies,
    check_varies,
    checked_groups,
    checked_sample,
    floored,
    gaussian,
    given_secret,
    in_units,
    mixture,
    pooled_covariance,
    standardised,
    uniform_numbers,
    with_covariance,
)

__all__ = [
    "MOST_ROWS",
    "Sample",
    "check_any_varies",
    "check_varies",
    "checked_groups",
    "checked_sample",
    "floored",
    "gaussian",
    "given_secret",
    "in_units",
    "mixture",
    "pooled_covariance",
    "standardised",
    "uniform_numbers",
    "with_covariance",
]
