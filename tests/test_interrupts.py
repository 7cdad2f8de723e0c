"""Ctrl-C while a solver is at work."""

import signal
import threading

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

from sklearn_puffer import PufferfishMicroaggregator
from sklearn_puffer import _numerics as numerics


@pytest.fixture
def solver(monkeypatch):
    """A solver during which Ctrl-C comes, and which would go on until the end of the test."""
    ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)
    others = set(threading.enumerate())
    going_on, calls, first = threading.Event(), [], threading.Lock()

    def endless(*args, **options):
        calls.append(options["method"])
        if first.acquire(blocking=False):
            signal.raise_signal(signal.SIGINT)
        going_on.wait()
        raise RuntimeError("the test is over")

    monkeypatch.setattr(numerics, "linprog", endless)
    yield calls
    going_on.set()
    for thread in set(threading.enumerate()) - others:
        thread.join(60.0)  # or it would ask the solver of the next test
    signal.signal(signal.SIGINT, ctrl_c)


def table_of(n_secrets, n=400):
    rng = np.random.default_rng(n_secrets)
    secret = rng.integers(0, n_secrets, n)
    return pd.DataFrame(
        {"x": rng.integers(0, 9, n) + secret, "y": rng.integers(0, 4, n), "s": secret}
    )


@pytest.mark.parametrize("n_secrets", [2, 3])
def test_it_comes_while_the_solver_goes_on(solver, n_secrets):
    rows = PufferfishMicroaggregator(0.1, sensitive="s")
    with pytest.raises(KeyboardInterrupt):
        rows.fit(table_of(n_secrets))
    assert solver
    assert not hasattr(rows, "certificate_")


def test_what_was_fitted_before_is_still_there(solver, monkeypatch):
    rows = PufferfishMicroaggregator(1.0, sensitive="s")
    with monkeypatch.context() as without:
        without.setattr(numerics, "linprog", linprog)
        rows.fit(table_of(2))
    known = dict(vars(rows))
    assert not solver
    with pytest.raises(KeyboardInterrupt):
        rows.fit(table_of(3))
    assert vars(rows) == known


def test_whoever_ends_waits_for_calls_at_work_but_not_for_ever():
    assert numerics.wait_for_solver(0.0)
    with numerics.at_work(), numerics.at_work():
        assert not numerics.wait_for_solver(0.001)
    assert numerics.wait_for_solver(0.0)
    with pytest.raises(LookupError), numerics.at_work():
        raise LookupError
    assert numerics.wait_for_solver(0.0)


def test_what_a_call_raises_is_raised_where_it_was_made():
    def fails():
        raise LookupError(threading.current_thread() is threading.main_thread())

    with pytest.raises(LookupError, match="False"):
        numerics.aside(fails)
