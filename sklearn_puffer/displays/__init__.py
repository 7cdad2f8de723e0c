"""Pictures of releases, each computed and drawn by its ``from_...``, and again by ``plot``.

Use this module to show what a release costs and tells: in a notebook, or to those who decide.
"""

from sklearn_puffer.displays.noisers import LossDisplay, ReleaseDisplay
from sklearn_puffer.displays.prototypes import PrototypeDisplay, PrototypesTriedDisplay
from sklearn_puffer.displays.reviews import AuditDisplay, TradeoffDisplay, UtilityDisplay

__all__ = [
    "AuditDisplay",
    "LossDisplay",
    "PrototypeDisplay",
    "PrototypesTriedDisplay",
    "ReleaseDisplay",
    "TradeoffDisplay",
    "UtilityDisplay",
]
