"""The ledger: what it counts, what it refuses, and what killed processes leave behind."""

import contextlib
import inspect
import json
import math
import os
import pickle
import random
import shutil
import signal
import sqlite3
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from children import processes

from sklearn_puffer import Ledger, LedgerError, OverspentError, PersonLedger, PufferfishNoiser
from sklearn_puffer._certificates import Precisions, Refused, rule_from_dict
from sklearn_puffer._ledgers import store
from sklearn_puffer._ledgers.ledger import Entry


def certificate(rule=None, fingerprint="f00d", holds=True, **scales):
    """Stand in for the certificate of a noiser that plans three releases of two columns."""
    thetas = scales or {"age": 6.0, "pay": 3.0}
    planned = rule or Precisions.of_scales(1, {axis: t / 3.0 for axis, t in thetas.items()})
    columns = tuple(SimpleNamespace(name=name, theta=theta) for name, theta in thetas.items())
    return SimpleNamespace(rule=planned, fingerprint=fingerprint, holds=holds, columns=columns)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "survey.ledger"


@pytest.fixture
def ledger(path):
    return Ledger.create(path, certificate())


def names(path):
    return sorted(each.name for each in path.parent.iterdir())


def test_as_many_releases_as_were_planned_are_allowed_and_no_more(ledger):
    assert [ledger.spend().releases for _ in range(3)] == [2, 1, 0]
    with pytest.raises(OverspentError, match=r"nothing was spent; 0 are left"):
        ledger.spend()
    assert ledger.left().releases == 0


@pytest.mark.parametrize("kind", [Ledger, PersonLedger])
def test_a_ledger_waits_a_minute_for_others_unless_it_is_told_another_time(kind):
    ways = (kind, kind.create, kind.open)
    assert {inspect.signature(way).parameters["timeout"].default for way in ways} == {60.0}


def test_a_refused_spend_changes_nothing(ledger, path):
    ledger.spend(releases=2)
    before = path.read_bytes()
    with pytest.raises(OverspentError, match="nothing was spent"):
        ledger.spend(releases=2)
    assert path.read_bytes() == before
    assert ledger.left().releases == 1


def test_the_history_counts_equal_releases_together(ledger):
    ledger.spend(note="press")
    ledger.spend()
    ledger.spend(note="press")
    assert ledger.history() == (Entry("data", 2, "press"), Entry("data", 1, ""))


def test_every_independent_dataset_has_a_whole_budget(path):
    ledger = Ledger.create(path, certificate(), datasets=["2024", "2025"])
    assert ledger.spend(dataset="2024", releases=3).releases == 0
    assert ledger.left("2025").releases == 3
    with pytest.raises(OverspentError, match="'2024'"):
        ledger.spend(dataset="2024")
    ledger.add("2026")
    assert ledger.datasets == ("2024", "2025", "2026")
    assert ledger.spend(dataset="2026").dataset == "2026"
    with pytest.raises(ValueError, match="different names"):
        ledger.add("2025")


@pytest.mark.parametrize("seed", range(3))
def test_every_spend_is_that_of_an_oracle_that_counts(path, monkeypatch, seed):
    monkeypatch.setattr(store, "_SAFELY", ("synchronous=OFF",))
    rule = Precisions.of_scales(1, {"age": 0.6, "pay": 0.3})
    ledger = Ledger.create(path, certificate(rule), datasets=["a", "b"])
    rest, history, refused, draw = {"a": 10, "b": 10}, {}, 0, random.Random(seed)
    for _ in range(25):
        dataset, releases = draw.choice("ab"), draw.choice([1, 1, 2, 5])
        note = draw.choice(["", "press"])
        options = {"releases": releases, "dataset": dataset, "note": note}
        if releases <= rest[dataset]:
            rest[dataset] -= releases
            history[dataset, note] = history.get((dataset, note), 0) + releases
            assert ledger.spend(**options) == ledger.left(dataset)
        else:
            refused += 1
            with pytest.raises(OverspentError, match=f"^{releases} more .* of '{dataset}' would"):
                ledger.spend(**options)
        assert ledger.left(dataset).releases == rest[dataset]
    assert refused > 2
    assert ledger.history() == tuple(
        Entry(dataset, number, note) for (dataset, note), number in history.items()
    )


def test_a_ledger_shows_what_is_left_and_its_last_ten_entries(path, monkeypatch):
    monkeypatch.setattr(store, "_SAFELY", ("synchronous=OFF",))
    rule = Precisions.of_scales(1, {"age": 0.06, "pay": 0.03})
    ledger = Ledger.create(path, certificate(rule), datasets=["2024", "2025"])
    for number in range(12):
        ledger.spend(releases=1 + number, dataset="2024", note=f"n{number}")
    ledger.spend(dataset="2025", releases=2)
    shown = [" ".join(line.split()) for line in str(ledger).splitlines()]
    assert "80 release(s) of 2 data set(s) are on record." in " ".join(shown)
    assert "2024 22" in shown
    assert "2025 98" in shown
    assert "2024 4 n3" in shown
    assert not any(line.endswith("n2") for line in shown)
    assert "2025 2" in shown


def test_a_refusal_names_the_request_what_is_left_and_the_way_out(path):
    ledger = Ledger.create(path, certificate())
    ledger.spend()
    with pytest.raises(OverspentError) as caught:
        ledger.spend(releases=3)
    assert str(caught.value) == (
        "3 more release(s) of 'data' would overspend the ledger, and nothing was spent; 2 are "
        "left. Fit with more releases before the first one."
    )


@pytest.mark.parametrize("wrong", [None, "2027", ["2024"]])
def test_a_dataset_that_is_not_named_opens_no_new_budget(path, wrong):
    ledger = Ledger.create(path, certificate(), datasets=["2024", "2025"])
    before = path.read_bytes()
    with pytest.raises((ValueError, TypeError)):
        ledger.spend(dataset=wrong)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"releases": 0}, ValueError, "releases must be at least 1"),
        ({"releases": 1.5}, TypeError, "releases must be an integer"),
        ({"releases": -(10**5000)}, ValueError, "releases must be at least 1"),
        ({"dataset": "other"}, ValueError, "dataset must be one of 'data'"),
        ({"dataset": []}, ValueError, "dataset must be one of 'data'"),
        ({"dataset": {}}, ValueError, "dataset must be one of 'data'"),
        ({"dataset": 10**5000}, ValueError, "dataset must be one of 'data'"),
        ({"dataset": np.array(["data", "data"])}, ValueError, "dataset must be one of 'data'"),
        ({"note": 3}, TypeError, "note must be a string"),
    ],
)
def test_bad_arguments_are_refused_by_name_and_spend_nothing(
    ledger, path, arguments, error, message
):
    before = path.read_bytes()
    with pytest.raises(error, match=message):
        ledger.spend(**arguments)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "rule",
    [
        Precisions.of_scales(1, {"age": 1.3}),
        Refused("They do not add up.", {"age": 4.0}),
        Precisions.of_scales(2, {"age": 1.0}, draws=5),
        Precisions.of_scales(1, {"age": 0.0}),
    ],
)
def test_every_rule_serves_a_ledger(path, rule):
    owner = certificate(rule, age=0.0 if rule.is_free("age") else 4.0)
    ledger = Ledger.create(path, owner)
    expected = ledger.left()
    while expected.releases > 0 and expected.releases < math.inf:
        found = ledger.spend()
        assert found.releases == expected.releases - 1
        assert found == Ledger.open(path, owner).left()
        expected = found
    assert expected.releases == (math.inf if rule.is_free("age") else 0)


def test_a_refused_rule_lets_one_release_go_and_says_why_not_two(path):
    owner = certificate(Refused("They do not add up.", {"age": 2.0}), age=2.0)
    ledger = Ledger.create(path, owner)
    assert ledger.spend().releases == 0
    with pytest.raises(OverspentError, match="They do not add up"):
        ledger.spend()


def test_a_ledger_is_pickled_by_its_path(ledger):
    ledger.spend()
    again = pickle.loads(pickle.dumps(ledger))
    assert again.spend().releases == 1
    assert ledger.left().releases == 1
    assert b"age" not in pickle.dumps(ledger)


def test_two_ledgers_of_one_file_see_what_the_other_spends(ledger, path):
    other = Ledger.open(path, certificate())
    for _ in range(3):
        other.spend()
        assert ledger.left() == other.left()
    assert ledger.left().releases == 0


@pytest.mark.parametrize(
    "other",
    [
        certificate(fingerprint="beef"),
        certificate(age=6.0),
        certificate(age=6.5, pay=3.0),
        certificate(Precisions.of_scales(1, {"age": 1.9, "pay": 1.0})),
    ],
)
def test_the_ledger_of_another_noiser_is_refused(ledger, path, other):
    with pytest.raises(LedgerError, match="another noiser"):
        Ledger.open(path, other)
    with pytest.raises(LedgerError, match="another noiser"):
        ledger.transform(SimpleNamespace(certificate_=other), None)
    assert ledger.left().releases == 3


def test_a_ledger_that_was_exchanged_for_that_of_another_noiser_is_not_spent_on(ledger, path):
    path.unlink()
    Ledger.create(path, certificate(fingerprint="beef"))
    with pytest.raises(LedgerError, match="another noiser"):
        ledger.spend()
    with pytest.raises(LedgerError, match="another noiser"):
        ledger.left()


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        (certificate(holds=False), "does not hold"),
        (certificate(fingerprint=""), "must be a fitted noiser"),
        (certificate(Precisions.of_scales(1, {"age": 1.0}), age=1.0, pay=1.0), "not one of"),
        (SimpleNamespace(certificate_=None), "must be a fitted noiser"),
        (PufferfishNoiser(), "must be a fitted noiser"),
    ],
)
def test_what_guarantees_nothing_gets_no_ledger(path, owner, message):
    with pytest.raises(ValueError, match=message):
        Ledger.create(path, owner)
    assert not path.exists()


@pytest.mark.parametrize("wrong", ["data", [], [1], [""], ["a", "a"], 7, [10**5000]])
def test_datasets_are_a_list_of_different_names(path, wrong):
    with pytest.raises((TypeError, ValueError), match="datasets must"):
        Ledger.create(path, certificate(), datasets=wrong)


def loop(path):
    path.symlink_to(path.with_name("there"))
    path.with_name("there").symlink_to(path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (loop, "path must lead to a file, .*loop"),
        (lambda path: os.mkfifo(path), "path must be that of a file, .*pipe"),
        (lambda path: path.mkdir(), "path must be that of a file, .*folder"),
    ],
)
def test_what_can_be_no_file_is_refused_as_a_path_before_any_work(path, make, message):
    make(path)
    before = names(path)
    for start in (Ledger.create, Ledger.open):
        with pytest.raises(ValueError, match=message):
            start(path, certificate())
    assert names(path) == before


@pytest.mark.parametrize(
    ("wrong", "error"), [(3, TypeError), (b"x", TypeError), ("\0", ValueError)]
)
def test_what_is_no_path_is_named(wrong, error):
    with pytest.raises(error, match="path must"):
        Ledger.open(wrong, certificate())


@pytest.mark.parametrize(
    "wrong",
    ["9", True, -1, math.nan],
)
def test_a_timeout_is_a_number_of_seconds(path, wrong):
    with pytest.raises(ValueError, match="timeout must be a number of seconds"):
        Ledger.create(path, certificate(), timeout=wrong)
    assert not path.exists()


EARLIER = Path(__file__).parent / "ledgers"  # written by 626f57f


def owner_of(path):
    """Return the certificate of the noiser that a ledger was made for, and copy the ledger."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        [(text,)] = connection.execute("SELECT text FROM head").fetchall()
    record = json.loads(text)
    rule, [(name, theta)] = rule_from_dict(record["rule"]), record["scales"]
    return certificate(rule, record["fingerprint"], **{name: theta})


def test_a_ledger_of_before_counts_its_releases_with_more_noise_as_whole_ones(path):
    shutil.copy(EARLIER / "tables.db", path)
    ledger = Ledger.open(path, owner_of(path))
    assert ledger.history() == (Entry("data", 1, ""), Entry("data", 1, "noisier"))
    assert [ledger.left(name).releases for name in ("data", "May")] == [2, 4]  # 2.5 of them
    assert ledger.spend(dataset="data", releases=2).releases == 0
    with pytest.raises(OverspentError):
        ledger.spend(dataset="data")
    assert [entry.releases for entry in ledger.history()] == [3, 1]


@pytest.mark.parametrize(
    ("power", "thetas", "scale", "counted"),
    [
        (1, {"age": 4.0}, 3.0, 4),  # 3 of them cost 1
        (2, {"age": 5.5}, 5.0, 4),  # 3 of them cost 3 / 25
        (1, {"age": 4.0}, 1e9, 3),
        (1, {"age": 4.0, "pay": 3.0}, 4.0, 3),  # without pay
    ],
)
def test_no_release_of_before_counts_for_less_than_it_told(path, power, thetas, scale, counted):
    rule = Precisions.of_scales(power, dict.fromkeys(thetas, 1.0))
    ledger = Ledger.create(path, certificate(rule, **thetas))
    every = ledger.left().releases

    def record(sheet):
        sheet.write({**sheet.record, "spent": [["data", [["age", scale]], 3, "of before"]]})

    ledger._change(record)
    assert ledger.history() == (Entry("data", counted, "of before"),)
    exact = rule.times({axis: {theta: 1} for axis, theta in thetas.items()}, {"age": {scale: 3}})
    assert ledger.left().releases == every - counted <= exact


def test_a_ledger_of_persons_of_before_counts_releases_with_more_noise_as_whole_ones(path):
    shutil.copy(EARLIER / "persons.db", path)
    table = pd.DataFrame(
        {"loan": ["no", "yes"] * 20, "cars": [0, 5, 5, 1, 9, 8, 3, 3] * 5, "id": range(40)}
    )
    noiser = PufferfishNoiser(epsilon=1.0, sensitive="loan", public=["cars"], releases=4)
    noiser.fit(table)
    ledger = PersonLedger.open(path, noiser, key=b"blake2b:" + bytes(range(32)))
    assert [ledger.left(person).releases for person in (0, 9, 10, 39)] == [2, 2, 3, 3]
    ledger.transform(noiser, table, row_id="id")
    assert ledger.history()[-1].repeated == 40  # the noise is that of before
    for release, left in ((2, [1, 2]), (3, [0, 1])):
        ledger.transform(noiser, table, row_id="id", release=release)
        assert [ledger.left(person).releases for person in (0, 39)] == left
    with pytest.raises(OverspentError, match="of 40 rows, 10 have no release left"):
        ledger.transform(noiser, table, row_id="id", release=4)
    assert [call.note for call in ledger.history()] == ["", "noisier", "", "", ""]


def test_the_file_stays_small_however_much_is_released(path):
    ledger = Ledger.create(path, certificate(Precisions.of_scales(1, {"age": 1.0}), age=1e9))
    ledger.spend()
    size = path.stat().st_size
    for _ in range(20):
        ledger.spend(releases=10**6)
    assert path.stat().st_size < size + 20


def test_threads_that_spend_at_once_never_overspend(path):
    ledger = Ledger.create(path, certificate(Precisions.of_scales(1, {"age": 1.0}), age=30.0))
    spent, refused = [], []

    def work():
        for _ in range(6):
            try:
                spent.append(ledger.spend().releases)
            except OverspentError:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(spent) == list(range(30))
    assert len(refused) == 18


@pytest.fixture(scope="module")
def fitted():
    table = pd.DataFrame({"loan": ["no", "no", "yes"] * 20, "cars": [0, 1, 2, 1, 0, 3] * 10})
    return PufferfishNoiser(epsilon=0.5, sensitive="loan", releases=2).fit(table), table


def test_a_noiser_releases_as_often_as_it_planned(fitted, path):
    noiser, table = fitted
    ledger = Ledger.create(path, noiser)
    for left in (1, 0):
        assert list(ledger.transform(noiser, table, note="press").columns) == ["cars"]
        assert ledger.left().releases == left
    with pytest.raises(OverspentError):
        ledger.transform(noiser, table)
    assert Ledger.open(path, pickle.loads(pickle.dumps(noiser))).left().releases == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"noise": "gaussian", "alpha": 2.0, "strategy": "wasserstein", "releases": 3},
        {"noise": "cauchy"},
        {"noise": "cauchy", "alpha": 3.0, "strategy": "distribution_aware"},
    ],
)
def test_the_rule_of_every_noise_counts_the_planned_releases(fitted, path, settings):
    _, table = fitted
    noiser = PufferfishNoiser(epsilon=0.5, sensitive="loan", **settings).fit(table)
    ledger = Ledger.create(path, noiser)
    for left in reversed(range(settings.get("releases", 1))):
        assert ledger.spend().releases == left
    with pytest.raises(OverspentError):
        ledger.spend()


def test_rows_that_the_noiser_refuses_cost_nothing(fitted, path):
    noiser, table = fitted
    ledger = Ledger.create(path, noiser)
    with pytest.raises(ValueError, match="cars"):
        ledger.transform(noiser, table.assign(cars=None))
    assert ledger.left().releases == 2


@pytest.mark.parametrize("error", [LedgerError("gone"), OverspentError("too much")])
def test_errors_reach_other_processes(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args) == (type(error), error.args)


# What follows is run in processes of its own.


def spend_on(path, fingerprint, name, receipts):
    """Spend until nothing is left, and acknowledge every spend in a file of one's own."""
    ledger = Ledger(path, fingerprint)
    with open(receipts / name, "ab", buffering=0) as file:
        while True:
            try:
                ledger.spend(note=name)
            except OverspentError:
                return
            file.write(b"1")
            os.fsync(file.fileno())


@pytest.mark.slow
def test_processes_killed_at_random_never_overspend_and_lose_no_recorded_spend(tmp_path):
    context, chance = processes(), random.Random(4)
    path, receipts, budget = tmp_path / "survey.ledger", tmp_path / "receipts", 4000
    receipts.mkdir()
    owner = certificate(Precisions.of_scales(1, {"age": 1.0}), age=float(budget))
    ledger = Ledger.create(path, owner)

    def wave(numbers, kill):
        crowd = [
            context.Process(target=spend_on, args=(path, "f00d", f"{number}", receipts))
            for number in numbers
        ]
        for process in crowd:
            process.start()
        while not all((receipts / f"{number}").exists() for number in numbers):
            time.sleep(0.01)
        for process in chance.sample(crowd, len(crowd)) if kill else ():
            time.sleep(chance.expovariate(50.0))
            process.kill()
        for process in crowd:
            process.join(120)
            assert process.exitcode in ((0, -signal.SIGKILL) if kill else (0,))

    def check():
        recorded = {entry.note: entry.releases for entry in ledger.history()}
        assert sum(recorded.values()) <= budget
        for receipt in receipts.iterdir():
            acknowledged = receipt.stat().st_size
            assert acknowledged <= recorded.get(receipt.name, 0) <= acknowledged + 1
        return sum(recorded.values())

    total = 0
    for first in range(0, 40, 10):
        wave(range(first, first + 10), kill=True)
        before, total = total, check()
        assert before <= total <= budget
        assert ledger.left().releases == budget - total
    assert total > 20
    ledger.spend(releases=max(budget - total - 200, 1))  # so that the last wave meets the end
    wave(range(40, 50), kill=False)
    assert check() == budget
    assert ledger.left().releases == 0
    assert names(path) == ["receipts", "survey.ledger"]
