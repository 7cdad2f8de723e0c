"""Ctrl-C at every point at which a long computation reports: nothing is left half done."""

from __future__ import annotations

import os
import pickle
import threading
import time

import numpy as np
import pandas as pd
import pytest
from children import interrupted

from sklearn_puffer import (
    Ledger,
    PersonLedger,
    PufferfishNoiser,
    PufferfishSGDRegressor,
    PufferfishSum,
    audit,
)
from sklearn_puffer._base import counted, progress, stopping
from sklearn_puffer._ledgers import persons
from sklearn_puffer._noiser import against
from sklearn_puffer.priors import Discrete
from sklearn_puffer.users import User

KEY = b"blake2b:" + bytes(32)


class Stops:
    """Raises Ctrl-C at the k-th report, in place of showing it."""

    def __init__(self, monkeypatch):
        self.at, self.seen = -1, 0
        monkeypatch.setattr(progress._Reporter, "tell", lambda reporter: self.report())

    def report(self):
        if threading.current_thread() is not threading.main_thread():
            return  # Ctrl-C comes to the main thread alone
        self.seen += 1
        if self.seen - 1 == self.at:
            raise KeyboardInterrupt

    def reports_of(self, work):
        self.at, self.seen = -1, 0
        work()
        return range(self.seen)

    def stop(self, at, work):
        self.at, self.seen = at, 0
        with pytest.raises(KeyboardInterrupt):
            work()
        self.at = -1


@pytest.fixture
def stops(monkeypatch):
    return Stops(monkeypatch)


def table(n_rows=40):
    rng = np.random.default_rng(3)
    secret = np.arange(n_rows) % 2
    visits = rng.integers(0, 5, n_rows)
    town = np.where(visits > 2, "a", "b")
    return pd.DataFrame({"visits": visits, "town": town, "s": secret, "id": range(n_rows)})


def fitted(**params):
    params = {"sensitive": "s", "public": ["visits", "town"], "verbose": 1, **params}
    return PufferfishNoiser(**params).fit(table())


def state(noiser):
    """Return all that a noiser holds, as bytes."""
    return pickle.dumps(vars(noiser))


def stopped_everywhere(stops, work, check, least=1):
    """Stop the work at each of its reports, and look at what there is then."""
    reports = stops.reports_of(work)
    assert len(reports) >= least
    for at in reports:
        stops.stop(at, work)
        check()
        assert progress._reporter.get() is None
    assert stops.reports_of(work) == reports  # and in the end it is done, from its beginning


@pytest.mark.filterwarnings("ignore:.*occur once", "ignore:no row needs to change")
@pytest.mark.parametrize("how", [{}, {"row_id": "id", "key": KEY}])
def test_transform_leaves_the_noiser_and_the_table(stops, how):
    noiser, rows = fitted(), table()
    before = state(noiser)

    def unchanged():
        assert state(noiser) == before
        assert rows.equals(table())

    stopped_everywhere(stops, lambda: noiser.transform(rows, **how), unchanged, least=3)


def test_checks_and_losses_leave_the_certificate(stops, monkeypatch):
    monkeypatch.setattr(against, "CHEAP", 0)
    certificate = fitted(public=["visits"], dependence="independent").certificate_
    prior = {0: Discrete([0, 1], [0.5, 0.5]), 1: Discrete([0, 1], [0.25, 0.75])}
    before = certificate.to_json()

    def unchanged():
        assert certificate.known_over_set is None
        assert certificate.to_json() == before

    for work in (
        lambda: certificate.check(table(), verbose=1),
        lambda: certificate.against(prior, verbose=1),
    ):
        stopped_everywhere(stops, work, unchanged)
    stops.stop(0, lambda: certificate.over_set)
    unchanged()
    assert certificate.over_set is certificate.known_over_set


@pytest.mark.slow
def test_a_ledger_of_persons_holds_all_of_a_call_or_nothing(stops, monkeypatch, tmp_path):
    monkeypatch.setattr(persons, "_MOST", 8)
    noiser, rows = fitted(releases=2), table()
    ledger = PersonLedger.create(tmp_path / "people.sqlite", noiser, key=KEY)
    reports = stops.reports_of(lambda: ledger.transform(noiser, rows[:2], row_id="id"))
    calls = len(ledger.history())
    assert calls == 1
    work = {"row_id": "id", "release": 1}
    at, done = 0, False
    while not done:
        try:
            stops.stop(at, lambda: ledger.transform(noiser, rows, **work))
        except pytest.fail.Exception:
            done = True  # there were no more reports
            continue
        assert (len(ledger.history()), ledger.n_persons) == (calls, 2)
        at += 1
    assert at > len(reports)
    assert ledger.n_persons == 40
    assert [path.name for path in tmp_path.iterdir()] == ["people.sqlite"]


def test_a_ledger_counts_what_was_handed_out_and_no_other(stops, tmp_path):
    noiser = fitted(releases=9)
    ledger = Ledger.create(tmp_path / "ledger.json", noiser)
    for at in range(3):
        stops.stop(at, lambda: ledger.transform(noiser, table()))
        assert Ledger.open(tmp_path / "ledger.json", noiser).history() == ()
    ledger.transform(noiser, table())
    assert len(Ledger.open(tmp_path / "ledger.json", noiser).history()) == 1


@pytest.mark.slow
def test_fits_leave_what_was_fitted_before(stops):
    X = np.random.default_rng(0).uniform(-0.5, 0.5, size=(60, 2))
    users = [User(Discrete([0, 1, 3], [0.5, 0.3, 0.2]), count=5)]
    noisy = {"epsilon": 0.05, "alpha": 2.0, "noise": "gaussian", "public": ["visits"]}
    for estimator, given in (
        (fitted(**noisy), (table(),)),
        (PufferfishSum(epsilon=0.1, verbose=1).fit(users), (users,)),
        (PufferfishSGDRegressor(verbose=1, batch_size=1).fit(X, X[:, 0]), (X, X[:, 0])),
    ):
        before = state(estimator)
        reports = stops.reports_of(lambda e=estimator, g=given: type(e)(**e.get_params()).fit(*g))
        assert len(reports) >= 1
        for at in [*reports][:: max(len(reports) // 8, 1)]:
            stops.stop(at, lambda e=estimator, g=given: e.fit(*g))
            assert state(estimator) == before


@pytest.mark.slow
def test_an_audit_leaves_the_noiser(stops):
    noiser = fitted()
    before = state(noiser)
    work = {"verbose": 1}
    reports = stops.reports_of(lambda: audit(noiser, table(400), **work))
    assert len(reports) >= 5
    for at in [*reports][:: max(len(reports) // 6, 1)]:
        stops.stop(at, lambda: audit(noiser, table(400), **work))
        assert state(noiser) == before


def test_when_one_thread_fails_the_others_end_at_their_next_part():
    ends, begun = [], threading.Event()

    def works(told):
        try:
            for _ in counted(range(10**6), "parts"):
                begun.set()
                told()
                time.sleep(0.001)
        except progress._StoppedError:
            ends.append("stopped")

    def stopped():
        with stopping(lambda n=1: None) as told:
            threads.append(threading.Thread(target=works, args=(told,)))
            threads[0].start()
            begun.wait()
            raise KeyboardInterrupt

    threads = []
    with pytest.raises(KeyboardInterrupt):
        stopped()
    threads[0].join(timeout=10.0)
    assert ends == ["stopped"]


# ------------------------------------------------------------------------------- by a real signal

LONG = """
import numpy as np, pandas as pd, sys, time, warnings
from sklearn_puffer import PufferfishNoiser

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
secret = np.arange(4000) % 2
small = pd.DataFrame({"s": secret, "a": rng.integers(0, 40, 4000) + 9 * secret})
params = {"epsilon": 0.1, "sensitive": "s", "verbose": 1, "n_jobs": eval(sys.argv[1])}
noiser = PufferfishNoiser(**params).fit(small)
rows = small.sample(1_000_000, replace=True, random_state=0, ignore_index=True)
key = {"row_id": rows.index.to_numpy(), "key": b"blake2b:" + bytes(32)} if sys.argv[2] else {}
print("releasing", flush=True)
try:
    while True:
        noiser.transform(rows, **key)
except KeyboardInterrupt:
    print("stopped", noiser.transform(rows[:5]).shape, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no such signal there")
@pytest.mark.parametrize(("n_jobs", "keyed"), [("None", ""), ("2", "keyed")])
def test_a_signal_stops_a_release_of_many_rows(n_jobs, keyed):
    assert interrupted(LONG, n_jobs, keyed, after=0.5) == "releasing\nstopped (5, 1)\n"
