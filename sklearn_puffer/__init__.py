"""Pufferfish privacy for tables: release public columns that tell little about sensitive ones."""

from sklearn_puffer.certificate import Certificate, UncertifiedError
from sklearn_puffer.noiser import PufferfishNoiser

__version__ = "0.1.0"

__all__ = ["Certificate", "PufferfishNoiser", "UncertifiedError", "__version__"]
