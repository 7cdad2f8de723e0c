"""Pufferfish privacy for tables: release public columns that tell little about sensitive ones."""

from sklearn_puffer.certificate import Certificate, UncertifiedError
from sklearn_puffer.ledger import Ledger, OverspentError
from sklearn_puffer.noiser import PufferfishNoiser
from sklearn_puffer.queries import PufferfishSum
from sklearn_puffer.sgd import PufferfishSGDClassifier, PufferfishSGDRegressor

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "Ledger",
    "OverspentError",
    "PufferfishNoiser",
    "PufferfishSGDClassifier",
    "PufferfishSGDRegressor",
    "PufferfishSum",
    "UncertifiedError",
    "__version__",
]
