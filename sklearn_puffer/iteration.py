"""Noisy iterations that show only where they end: the Renyi loss of each record (004, 5).

Use this module to bound a noisy iteration of your own, or to compare the bounds of paper 004; the
SGD estimators do it inside.
"""

from sklearn_puffer._descent import (
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

__all__ = [
    "batch_shifts",
    "contraction",
    "gaussian_shifts",
    "group_privacy_loss",
    "iteration_loss",
    "joint_shifts",
    "optimal_shifts",
    "record_losses",
    "shuffled_loss",
    "smallest_sigma",
    "uncorrelated_loss",
    "worst_shifts",
]
