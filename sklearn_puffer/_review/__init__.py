"""Before and after a release: what people look at who decide about it."""

from sklearn_puffer._review.audit import Audit, audit
from sklearn_puffer._review.candidates import plan
from sklearn_puffer._review.plan import Plan
from sklearn_puffer._review.report import Report, report
