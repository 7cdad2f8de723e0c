"""What stands behind the SGD estimators: moves, losses and steps of a noisy descent."""

from sklearn_puffer._descent import moves
from sklearn_puffer._descent.descent import Descent, Logistic, Squares, random_order, scale_rows
from sklearn_puffer._descent.estimators import PufferfishSGDClassifier, PufferfishSGDRegressor
from sklearn_puffer._descent.iteration import (
    group_privacy_loss,
    record_losses,
    shuffled_loss,
    uncorrelated_loss,
    worst_record,
)
from sklearn_puffer._descent.iteration_losses import (
    contraction,
    iteration_loss,
    optimal_shifts,
    smallest_sigma,
)
from sklearn_puffer._descent.moves import batch_shifts, gaussian_shifts, joint_shifts, worst_shifts
from sklearn_puffer._descent.promise import Dependence, Iteration
