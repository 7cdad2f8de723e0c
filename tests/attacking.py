"""Audits by the fresh models that a test names, where those of every audit take longer."""

import pytest

import sklearn_puffer
from sklearn_puffer._review import readers


def audit(estimator, table, *models, quick=None, **settings):
    """Return an audit whose fresh models are these."""
    models = {type(model).__name__: model for model in (*models, quick) if model is not None}
    with pytest.MonkeyPatch.context() as patch:
        if models:
            patch.setattr(readers, "attackers", lambda: models)
        return sklearn_puffer.audit(estimator, table, **settings)
