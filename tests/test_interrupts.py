"""Ctrl-C while a solver is at work."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

from sklearn_puffer import PufferfishMicroaggregator
from sklearn_puffer import _numerics as numerics


@pytest.fixture
def interrupted(monkeypatch):
    """A solver after which Ctrl-C takes effect."""

    def solved(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(numerics, "linprog", solved)


def table_of(n_secrets, n=400):
    rng = np.random.default_rng(n_secrets)
    secret = rng.integers(0, n_secrets, n)
    return pd.DataFrame(
        {"x": rng.integers(0, 9, n) + secret, "y": rng.integers(0, 4, n), "s": secret}
    )


@pytest.mark.usefixtures("interrupted")
@pytest.mark.parametrize("n_secrets", [2, 3])
def test_nothing_is_fitted_where_it_comes_while_a_solver_is_at_work(n_secrets):
    rows = PufferfishMicroaggregator(0.1, sensitive="s")
    with pytest.raises(KeyboardInterrupt):
        rows.fit(table_of(n_secrets))
    assert not hasattr(rows, "certificate_")


@pytest.mark.usefixtures("interrupted")
def test_what_was_fitted_before_is_still_there(monkeypatch):
    rows = PufferfishMicroaggregator(1.0, sensitive="s")
    with monkeypatch.context() as without:
        without.setattr(numerics, "linprog", linprog)
        rows.fit(table_of(2))
    known = dict(vars(rows))
    with pytest.raises(KeyboardInterrupt):
        rows.fit(table_of(3))
    assert vars(rows) == known
