"""Pufferfish privacy for tables: release public columns that tell little about sensitive ones."""

from sklearn_puffer._survival import UtilityWarning
from sklearn_puffer._version import __version__
from sklearn_puffer.certificate import Certificate, UncertifiedError
from sklearn_puffer.ledger import Ledger, OverspentError
from sklearn_puffer.noiser import PufferfishNoiser
from sklearn_puffer.queries import PufferfishSum
from sklearn_puffer.sgd import PufferfishSGDClassifier, PufferfishSGDRegressor

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
