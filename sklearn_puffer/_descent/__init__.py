"""What stands behind the SGD estimators: displacements, losses and steps of a noisy descent."""

from sklearn_puffer._descent.descent import Descent, Logistic, Squares, scale_rows
from sklearn_puffer._descent.estimators import PufferfishSGDClassifier, PufferfishSGDRegressor
from sklearn_puffer._descent.guarantee import Dependence, Iteration
from sklearn_puffer._descent.iteration import (
    batch_shifts,
    contraction,
    gaussian_shifts,
    group_privacy_loss,
    iteration_loss,
    joint_shifts,
    optimal_shifts,
    record_losses,
    shuffled_loss,
    smallest_sigma,
    uncorrelated_loss,
    worst_shifts,
)
