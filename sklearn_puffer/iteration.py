"""?"""

from sklearn_puffer._descent import (
    group_privacy_loss,
    record_losses,
    shuffled_loss,
    uncorrelated_loss,
    worst_record,
)

__all__ = [
    "group_privacy_loss",
    "record_losses",
    "shuffled_loss",
    "uncorrelated_loss",
    "worst_record",
]
