"""Pictures of releases: ``from_...`` computes and draws one, ``plot`` draws it again.

Use this module to show what a release changes and reveals, in a notebook or to those who decide.
"""

from sklearn_puffer.displays.noisers import LossDisplay
from sklearn_puffer.displays.reviews import AuditDisplay, UtilityDisplay

__all__ = [
    "AuditDisplay",
    "LossDisplay",
    "UtilityDisplay",
]
