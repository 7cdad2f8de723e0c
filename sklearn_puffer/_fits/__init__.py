"""Behind `fits.ClassifierFit`: rows with their secrets, and what models make of them."""

from sklearn_puffer._fits.crossfit import (
    cross_fitted,
    folds_of,
    learnable,
    name_of,
    predicted,
)
from sklearn_puffer._fits.observed import (
    MOST_WEIGHT,
    UNIT,
    Observed,
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
