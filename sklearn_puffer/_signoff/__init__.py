"""Before and after a release: what people look at who decide about it."""

from sklearn_puffer._signoff.plan import Plan
from sklearn_puffer._signoff.planning import plan

__all__ = ["Plan", "plan"]
