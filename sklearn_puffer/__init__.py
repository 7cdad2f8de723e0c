"""Pufferfish privacy for tables: release public columns that tell little about sensitive ones."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn_puffer._base import PufferfishWarning, UnseenValuesWarning
    from sklearn_puffer._certificates import (
        Certificate,
        OverspentError,
        UncertifiedError,
        UtilityWarning,
    )
    from sklearn_puffer._descent import PufferfishSGDClassifier, PufferfishSGDRegressor
    from sklearn_puffer._documents import __version__ as __version__
    from sklearn_puffer._ledgers import Ledger, LedgerError, PersonLedger
    from sklearn_puffer._microaggregator import PufferfishMicroaggregator
    from sklearn_puffer._noiser import PufferfishNoiser
    from sklearn_puffer._release import PufferfishRelease
    from sklearn_puffer._review import Audit, Plan, Report, audit, plan, report
    from sklearn_puffer._sums import PufferfishSum
    from sklearn_puffer._swap import PufferfishSwap

# `__version__` is there, and not among these: `import *` leaves that of its reader alone
__all__ = ["PufferfishWarning", "UnseenValuesWarning", "UtilityWarning"]
# to release
__all__ += ["Certificate", "PufferfishMicroaggregator", "PufferfishNoiser", "PufferfishRelease"]
__all__ += ["PufferfishSum", "PufferfishSwap"]
__all__ += ["PufferfishSGDClassifier", "PufferfishSGDRegressor", "UncertifiedError"]
# to keep account
__all__ += ["Ledger", "LedgerError", "OverspentError", "PersonLedger"]
# to review
__all__ += ["Audit", "Plan", "Report", "audit", "plan", "report"]

_HOMES = {
    "_base": ["PufferfishWarning", "UnseenValuesWarning"],
    "_documents": ["__version__"],
    "_descent": ["PufferfishSGDClassifier", "PufferfishSGDRegressor"],
    "_microaggregator": ["PufferfishMicroaggregator"],
    "_noiser": ["PufferfishNoiser"],
    "_certificates": ["Certificate", "OverspentError", "UncertifiedError", "UtilityWarning"],
    "_ledgers": ["Ledger", "LedgerError", "PersonLedger"],
    "_release": ["PufferfishRelease"],
    "_review": ["Audit", "Plan", "Report", "audit", "plan", "report"],
    "_sums": ["PufferfishSum"],
    "_swap": ["PufferfishSwap"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
# what is released by: an artifact may be that of any
_MECHANISMS = ("_noiser", "_microaggregator", "_swap")
_MODULES = {"accounting", "bounds", "calibration", "closed_forms", "fits", "iteration", "noise"}
_MODULES |= {"couplings", "datasets", "displays", "notions", "priors", "users"}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is: the help of the command line needs none of it."""
    if name in _MODULES:
        return import_module(f"sklearn_puffer.{name}")
    home = "displays" if name.endswith("Display") else _HOME_OF.get(name)  # where these once stood
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for mechanism in _MECHANISMS if name == "PufferfishRelease" else ():
        import_module(f"sklearn_puffer.{mechanism}")
    value = getattr(import_module(f"sklearn_puffer.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
