"""Ctrl-C in the search of a channel, and what is said where it found nothing of use."""

import signal
import threading

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishNoiser, UncertifiedError, UtilityWarning
from sklearn_puffer._base import numerics
from sklearn_puffer._noise import WHOLE, IntegerRows
from sklearn_puffer._noiser import channel_fit
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

    monkeypatch.setattr(numerics, "linprog", endless)
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


@pytest.mark.parametrize(("n_secrets", "settings"), [(2, {}), (3, {}), (2, {"floor": 0.2})])
def test_it_comes_while_the_solver_goes_on(solver, n_secrets, settings):
    table = table_of(n_secrets)
    noiser = PufferfishNoiser(sensitive="s", noise=OptimalChannel(**settings))
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


# ------------------------------------------------------------------------------------ what it says


SAYS = pytest.mark.filterwarnings("ignore:no row needs to change")


class Opposite:
    """A cost that asks for rows to become their opposite."""

    def between(self, x, y):
        return (x[:, None] != -y[None]).any(axis=2) * 1.0

    def along(self, x, y):
        return (x != -y).any(axis=1) * 1.0


def test_where_a_channel_tells_nothing_the_warning_names_what_helps_a_channel():
    table = pd.DataFrame({"x": [-1, -1, 1, 1] * 500, "s": [0, 1, 0, 1] * 500})
    noiser = PufferfishNoiser(sensitive="s", noise=OptimalChannel(cost=Opposite()))
    with pytest.warns(UtilityWarning, match=r"columns, use bins .* a larger floor") as it:
        noiser.fit(table)
    assert not any("dependence" in str(each.message) for each in it)


@SAYS
def test_an_uncertified_channel_says_what_helps_a_channel(monkeypatch):
    def unmended(problem, found):
        n = problem.n_cells
        return IntegerRows(np.arange(n + 1), np.arange(n), np.full(n, WHOLE))

    monkeypatch.setattr(channel_fit, "whole_rows", unmended)
    noiser = PufferfishNoiser(sensitive="s", noise="optimal").fit(table_of(3))
    assert not noiser.certificate_.holds
    assert "n_bins" in noiser.certificate_.remedy
    with pytest.raises(UncertifiedError, match=r"the proof accepts; use bins .*noise=.swap"):
        noiser.transform(table_of(3))
