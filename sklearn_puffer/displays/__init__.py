"""Pictures of releases, each computed and drawn by its ``from_...``, and again by ``plot``."""

from sklearn_puffer.displays.noisers import LossDisplay, MovesDisplay, ReleaseDisplay, SwapDisplay
from sklearn_puffer.displays.reviews import (
    AuditDisplay,
    SpendDisplay,
    TradeoffDisplay,
    UtilityDisplay,
)

__all__ = [
    "AuditDisplay",
    "LossDisplay",
    "MovesDisplay",
    "ReleaseDisplay",
    "SpendDisplay",
    "SwapDisplay",
    "TradeoffDisplay",
    "UtilityDisplay",
]
