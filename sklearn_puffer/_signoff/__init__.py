"""Before and after a release: what people look at who decide about it."""

from sklearn_puffer._signoff.audit import Audit
from sklearn_puffer._signoff.audit_display import AuditDisplay
from sklearn_puffer._signoff.auditing import audit
from sklearn_puffer._signoff.loss_display import LossDisplay
from sklearn_puffer._signoff.moves_display import MovesDisplay
from sklearn_puffer._signoff.plan import Plan
from sklearn_puffer._signoff.planning import plan
from sklearn_puffer._signoff.release_display import ReleaseDisplay
from sklearn_puffer._signoff.rendering import check_renders, render
from sklearn_puffer._signoff.report import Report
from sklearn_puffer._signoff.reporting import report
from sklearn_puffer._signoff.spend_display import SpendDisplay
from sklearn_puffer._signoff.swap_display import SwapDisplay
from sklearn_puffer._signoff.tradeoff_display import TradeoffDisplay
from sklearn_puffer._signoff.utility_display import UtilityDisplay

__all__ = [
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
    "check_renders",
    "plan",
    "render",
    "report",
]
