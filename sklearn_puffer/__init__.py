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
    from sklearn_puffer._signoff import Plan, plan
    from sklearn_puffer._sums import PufferfishSum

__all__ = [
    "Certificate",
    "Ledger",
    "LedgerError",
    "OverspentError",
    "Plan",
    "PufferfishNoiser",
    "PufferfishRelease",
    "PufferfishSGDClassifier",
    "PufferfishSGDRegressor",
    "PufferfishSum",
    "UncertifiedError",
    "UtilityWarning",
    "__version__",
    "plan",
]


def __getattr__(name: str) -> Any:
    """Import what few need when it is asked for: sums, descents, and what is done before."""
    if name == "PufferfishSum":
        from sklearn_puffer import _sums

        return _sums.PufferfishSum
    if name in ("PufferfishSGDClassifier", "PufferfishSGDRegressor"):
        from sklearn_puffer import _descent

        return getattr(_descent, name)
    if name in ("Plan", "plan"):
        from sklearn_puffer import _signoff

        return getattr(_signoff, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
