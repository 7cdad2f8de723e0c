"""Before and after a release: what people look at who decide about it."""

from sklearn_puffer._signoff.audit import Audit
from sklearn_puffer._signoff.auditing import audit
from sklearn_puffer._signoff.plan import Plan
from sklearn_puffer._signoff.planning import plan
from sklearn_puffer._signoff.report import WAYS, Report, check_renders
from sklearn_puffer._signoff.reporting import report
