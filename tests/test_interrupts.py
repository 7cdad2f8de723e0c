"""Ctrl-C and time limits in the search of a channel, and what it says meanwhile."""

import re
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishNoiser, UncertifiedError, UtilityWarning
from sklearn_puffer._base import progress
from sklearn_puffer._channels import highs, resolving, search
from sklearn_puffer._channels.highs import Calls, Clock, aside
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


def test_whoever_ends_waits_for_calls_at_work_but_not_for_ever():
    calls = Calls()
    assert calls.wait(0.0)
    with calls.one_more(), calls.one_more():
        assert not calls.wait(0.001)
    assert calls.wait(0.0)
    with pytest.raises(LookupError), calls.one_more():
        raise LookupError
    assert calls.wait(0.0)


def test_what_a_call_raises_is_raised_where_it_was_made():
    def fails():
        raise LookupError(threading.current_thread() is threading.main_thread())

    with pytest.raises(LookupError, match="False"):
        aside(fails)


# -------------------------------------------------------------------------------------- time limits


def wide_table(n=170):
    rng = np.random.default_rng(0)
    x = rng.permutation(n)
    secret = (x + rng.integers(0, n, n)) * 3 // (2 * n)
    return pd.DataFrame({"x": x // 12, "y": rng.permutation(n) + 0.5, "s": np.minimum(secret, 2)})


SAYS = pytest.mark.filterwarnings("ignore:.*occur once", "ignore:no row needs to change")


@SAYS
@pytest.mark.parametrize("seconds", [1e-9, 0.02])
def test_in_little_time_no_whole_program_is_begun_and_the_budget_is_kept(monkeypatch, seconds):
    monkeypatch.setattr(search, "whole_channel", None)  # what is not called need not be there
    noise = OptimalChannel(time_limit=seconds)
    noiser = PufferfishNoiser(sensitive="s", noise=noise).fit(wide_table())
    assert noiser.certificate_.holds
    if seconds < 1e-6:
        assert noiser.channel_.unchanged < 0.02  # a constant


@SAYS
def test_where_a_channel_tells_nothing_the_warning_names_what_helps_a_channel():
    noise, weights = OptimalChannel(time_limit=1e-9), {"x": 1e6, "y": 1.0}
    noiser = PufferfishNoiser(sensitive="s", noise=noise, weights=weights)
    with pytest.warns(UtilityWarning, match=r"columns, use bins .* OptimalChannel more time") as it:
        noiser.fit(wide_table())  # x may become anything
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
    with pytest.raises(UncertifiedError, match=r"the proof accepts; use bins .*smoothing=0\.01"):
        noiser.transform(table_of(3))


@SAYS
def test_without_a_limit_it_says_how_far_the_bound_is(monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    PufferfishNoiser(sensitive="s", noise="optimal", verbose=1).fit(wide_table())
    lines = capsys.readouterr().err.splitlines()
    said = [line for line in lines if "rounds of a channel for all rows" in line]
    assert any(re.search(r": \d+ done, gap so far \d+\.\d\d%$", line) for line in said)


@SAYS
def test_blocks_say_what_the_last_turn_has_saved(monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    noise = OptimalChannel(block_size=40)
    noiser = PufferfishNoiser(sensitive="s", noise=noise, verbose=1).fit(wide_table())
    err = capsys.readouterr().err
    assert "blocks of a channel: 1 of" in err
    assert re.search(r"turn 2 across blocks \(the last one saved \d+\.\d%\)", err)
    assert noiser.certificate_.holds


def test_little_time_asks_for_small_blocks():
    clocks = {seconds: Clock.of(seconds) for seconds in (5.0, 3600.0)}
    problem = SimpleNamespace(n_cells=1500, families=[])
    sizes = [
        resolving._size_of(SimpleNamespace(clock=clock, n_jobs=1, problem=problem, largest=1500))
        for clock in (*clocks.values(), Clock())
    ]
    assert sizes == [resolving.QUICK_SIZE, resolving.BLOCK_SIZE, resolving.BLOCK_SIZE]
