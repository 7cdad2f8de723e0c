"""Ctrl-C in the search of a channel: it waits for no solver, and leaves the estimator as it was."""

import signal
import threading

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._channels import highs
from sklearn_puffer._channels.highs import Clock, aside
from sklearn_puffer.noise import OptimalChannel


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

    monkeypatch.setattr(highs, "linprog", endless)
    yield calls
    going_on.set()
    for thread in set(threading.enumerate()) - others:
        thread.join(60.0)  # or it would ask the solver of the next test
    signal.signal(signal.SIGINT, ctrl_c)


def table_of(n_secrets, n=60):
    rng = np.random.default_rng(n_secrets)
    secret = rng.integers(0, n_secrets, n)
    return pd.DataFrame(
        {"x": rng.integers(0, 9, n) + secret, "y": rng.integers(0, 4, n), "s": secret}
    )


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize(
    ("n_secrets", "settings"), [(2, {}), (3, {}), (3, {"block_size": 10}), (2, {"floor": 0.2})]
)
def test_it_comes_while_the_solver_goes_on(solver, n_secrets, settings, n_jobs):
    table = table_of(n_secrets)
    noiser = PufferfishNoiser(sensitive="s", noise=OptimalChannel(**settings), n_jobs=n_jobs)
    with pytest.raises(KeyboardInterrupt):
        noiser.fit(table)
    assert solver
    assert not hasattr(noiser, "channel_")


@pytest.mark.filterwarnings("ignore:no row needs to change")
def test_what_was_fitted_before_is_still_there(solver):
    before = pd.DataFrame({"x": [4] * 12, "s": [0, 1] * 6})  # one cell: nothing to solve
    noiser = PufferfishNoiser(sensitive="s", noise=OptimalChannel()).fit(before)
    known = dict(vars(noiser))
    assert not solver
    with pytest.raises(KeyboardInterrupt):
        noiser.fit(table_of(2))
    assert vars(noiser) == known
    assert noiser.transform(before)["x"].tolist() == before["x"].tolist()


def test_whoever_shares_a_clock_stops_when_one_of_them_fails():
    clock = Clock.of(3600.0)
    part = clock.part(0.5)
    assert 0.0 < part.left < 1801.0
    with pytest.raises(KeyboardInterrupt), clock.stopping():
        raise KeyboardInterrupt
    assert clock.is_over
    assert part.is_over
    assert part.left == clock.left == 0.0
    assert Clock().left is None


def test_what_a_call_raises_is_raised_where_it_was_made():
    def fails():
        raise LookupError(threading.current_thread() is threading.main_thread())

    with pytest.raises(LookupError, match="False"):
        aside(fails)
