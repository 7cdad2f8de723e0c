"""Pufferfish privacy for tables: release public columns that tell little about sensitive ones."""

from sklearn_puffer._base import __version__
from sklearn_puffer._descent import PufferfishSGDClassifier, PufferfishSGDRegressor
from sklearn_puffer._noiser import PufferfishNoiser
from sklearn_puffer._releases import (
    Certificate,
    Ledger,
    OverspentError,
    UncertifiedError,
    UtilityWarning,
)
from sklearn_puffer._sums import PufferfishSum

__all__ = [
    "Certificate",
    "Ledger",
    "OverspentError",
    "PufferfishNoiser",
    "PufferfishSGDClassifier",
    "PufferfishSGDRegressor",
    "PufferfishSum",
    "UncertifiedError",
    "UtilityWarning",
    "__version__",
]
