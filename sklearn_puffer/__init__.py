"""Pufferfish privacy for tables: release public columns that tell little about sensitive ones."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn_puffer._base import PufferfishWarning, __version__
    from sklearn_puffer._descent import PufferfishSGDClassifier, PufferfishSGDRegressor
    from sklearn_puffer._noiser import PufferfishNoiser, PufferfishRelease
    from sklearn_puffer._releases import (
        Certificate,
        Ledger,
        LedgerError,
        OverspentError,
        PersonLedger,
        UncertifiedError,
        UtilityWarning,
    )
    from sklearn_puffer._signoff import (
        Audit,
        AuditDisplay,
        LossDisplay,
        MovesDisplay,
        Plan,
        ReleaseDisplay,
        Report,
        SpendDisplay,
        SwapDisplay,
        TradeoffDisplay,
        UtilityDisplay,
        audit,
        plan,
        report,
    )
    from sklearn_puffer._sums import PufferfishSum

__all__ = [
    "Audit",
    "AuditDisplay",
    "Certificate",
    "Ledger",
    "LedgerError",
    "LossDisplay",
    "MovesDisplay",
    "OverspentError",
    "PersonLedger",
    "Plan",
    "PufferfishNoiser",
    "PufferfishRelease",
    "PufferfishSGDClassifier",
    "PufferfishSGDRegressor",
    "PufferfishSum",
    "PufferfishWarning",
    "ReleaseDisplay",
    "Report",
    "SpendDisplay",
    "SwapDisplay",
    "TradeoffDisplay",
    "UncertifiedError",
    "UtilityDisplay",
    "UtilityWarning",
    "__version__",
    "audit",
    "plan",
    "report",
]

_HOMES = {
    "_base": ["PufferfishWarning", "__version__"],
    "_descent": ["PufferfishSGDClassifier", "PufferfishSGDRegressor"],
    "_noiser": ["PufferfishNoiser", "PufferfishRelease"],
    "_releases": [
        "Certificate",
        "Ledger",
        "LedgerError",
        "OverspentError",
        "PersonLedger",
        "UncertifiedError",
        "UtilityWarning",
    ],
    "_signoff": [
        "Audit",
        "AuditDisplay",
        "LossDisplay",
        "MovesDisplay",
        "Plan",
        "ReleaseDisplay",
        "Report",
        "SpendDisplay",
        "SwapDisplay",
        "TradeoffDisplay",
        "UtilityDisplay",
        "audit",
        "plan",
        "report",
    ],
    "_sums": ["PufferfishSum"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = {"accounting", "bounds", "calibration", "closed_forms", "fits", "iteration", "noise"}
_MODULES |= {"couplings", "datasets", "notions", "priors", "users"}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is: the help of the command line needs none of it."""
    if name in _MODULES:
        return import_module(f"sklearn_puffer.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"sklearn_puffer.{_HOME_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
