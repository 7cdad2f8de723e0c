"""Behind `fits`: the rows that a prior is fitted to, and what is made of them."""

from sklearn_puffer._fits.crossfit import (
    cross_fitted,
    fitted,
    name_of,
    posteriors_of,
    predicted,
    refitted,
)
from sklearn_puffer._fits.folds import folds_of
from sklearn_puffer._fits.observed import Observed, targets
from sklearn_puffer._fits.posteriors import (
    MOST_WEIGHT,
    UNIT,
    Quality,
    cell_masses,
    counted_losses,
    is_better,
    mean_loss,
    quality_of,
    smoothed,
    spread_masses,
    whole_masses,
)
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
