"""Pufferfish privacy for tables: release public columns that tell little about sensitive ones."""

from typing import TYPE_CHECKING, Any

from sklearn_puffer._base import __version__
from sklearn_puffer._noiser import PufferfishNoiser, PufferfishRelease
from sklearn_puffer._releases import (
    Certificate,
    Ledger,
    LedgerError,
    OverspentError,
    UncertifiedError,
    UtilityWarning,
)

if TYPE_CHECKING:
    from sklearn_puffer._descent import PufferfishSGDClassifier, PufferfishSGDRegressor
    from sklearn_puffer._sums import PufferfishSum

__all__ = [
    "Certificate",
    "Ledger",
    "LedgerError",
    "OverspentError",
    "PufferfishNoiser",
    "PufferfishRelease",
    "PufferfishSGDClassifier",
    "PufferfishSGDRegressor",
    "PufferfishSum",
    "UncertifiedError",
    "UtilityWarning",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Import the estimators of sums and descents when they are asked for: few need them."""
    if name == "PufferfishSum":
        from sklearn_puffer import _sums

        return _sums.PufferfishSum
    if name in ("PufferfishSGDClassifier", "PufferfishSGDRegressor"):
        from sklearn_puffer import _descent

        return getattr(_descent, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
