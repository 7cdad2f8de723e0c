"""The ledger: what it counts, what it refuses, and what killed processes leave behind."""

import contextlib
import gc
import hashlib
import importlib
import json
import math
import os
import pickle
import random
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from children import processes

from sklearn_puffer import Ledger, OverspentError, PufferfishNoiser
from sklearn_puffer._releases import SCHEMA, Entry, LedgerError, Precisions, Refused, ledger_file


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
    assert not ledger.allows()
    with pytest.raises(OverspentError, match=r"left are 0 release.* or {'age': 0, 'pay': 0} by"):
        ledger.spend()
    assert ledger.left().releases == 0


def test_a_refused_spend_changes_nothing(ledger, path):
    ledger.spend(releases=2)
    before = path.read_bytes()
    for wrong in (
        {"releases": 2},
        {"scales": {"age": 5.9}, "releases": 2},
        {"scales": {"age": 100.0, "pay": 2.9}},
    ):
        assert not ledger.allows(**wrong)
        with pytest.raises(OverspentError, match="nothing was spent"):
            ledger.spend(**wrong)
    assert path.read_bytes() == before
    assert ledger.allows()


def test_columns_released_apart_spend_on_their_own_axes_only(ledger):
    left = ledger.spend({"age": 2.0})
    assert left.by_axis == {"age": 0.0, "pay": 1.0}
    assert left.releases == 0
    assert not ledger.allows({"age": 1e9})
    assert ledger.allows({"pay": 1.0})
    assert ledger.spend({"pay": 4.0}, releases=2).by_axis["pay"] == 0.5


def test_the_same_question_with_another_type_of_count_is_no_answered_question(ledger):
    assert ledger.allows(releases=1)
    with pytest.raises(TypeError, match="releases must be an integer"):
        ledger.allows(releases=1.0)


@pytest.mark.parametrize("wide", [9, np.float64(9.0), np.int64(9), np.float32(9.0)])
def test_scales_of_any_number_type_are_as_good_as_floats(ledger, wide):
    for _ in range(2):
        assert ledger.allows({"age": wide})
        assert ledger.allows({np.str_("age"): wide}, releases=np.int64(4))
        assert not ledger.allows({"age": wide}, releases=np.int64(5))
    ledger.spend({"age": wide}, releases=np.int64(4))
    assert ledger.history() == (Entry("data", {"age": 9.0}, 4, ""),)
    assert not ledger.allows({"age": wide})


def test_what_was_allowed_is_refused_once_it_was_spent(ledger):
    for scale in (1e9, 2.5, 4.0, 2.0):
        assert ledger.allows({"age": scale})
    assert not ledger.allows({"age": 1.9})
    ledger.spend({"age": 4.0})
    assert [ledger.allows({"age": scale}) for scale in (2.0, 2.5, 4.0, 1e9)] == [False] * 2 + [
        True
    ] * 2
    ledger.spend({"age": 4.0})
    assert not any(ledger.allows({"age": scale}) for scale in (2.0, 4.0, 1e9, 1e300))


def test_the_history_counts_equal_releases_together(ledger):
    ledger.spend(note="press")
    ledger.spend({"pay": 30.0}, note="press")
    ledger.spend(note="press")
    ledger.spend({"pay": 30.0})
    assert ledger.history() == (
        Entry("data", {"age": 6.0, "pay": 3.0}, 2, "press"),
        Entry("data", {"pay": 30.0}, 1, "press"),
        Entry("data", {"pay": 30.0}, 1, ""),
    )


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
        ({"scales": {"wage": 1.0}}, ValueError, "some of the columns"),
        ({"scales": {}}, ValueError, "some of the columns"),
        ({"scales": 7.0}, TypeError, "dict of columns to numbers"),
        ({"scales": {"age": "wide"}}, TypeError, "dict of columns to numbers"),
        ({"scales": {"age": "7"}}, TypeError, "dict of columns to numbers"),
        ({"scales": {"age": True}}, TypeError, "dict of columns to numbers"),
        ({"scales": {"age": 10**400}}, TypeError, "dict of columns to numbers"),
        ({"scales": {"age": 10**5000}}, TypeError, "too long to be written"),
        ({"scales": {"age": b"7"}}, TypeError, "dict of columns to numbers"),
        ({"scales": {"age": bytearray(b"7")}}, TypeError, "dict of columns to numbers"),
        ({"scales": {"age": np.True_}}, TypeError, "dict of columns to numbers"),
        ({"scales": {"age": 1 + 1j}}, TypeError, "dict of columns to numbers"),
        ({"scales": {"age": -1.0}}, ValueError, "scale of 'age' must be positive"),
        ({"scales": {"age": 0.0}}, ValueError, "scale of 'age' must be positive"),
        ({"scales": {"age": math.nan}}, ValueError, "scale of 'age' must be positive"),
        ({"scales": {"age": math.inf}}, ValueError, "scale of 'age' must be positive"),
        ({"releases": 0}, ValueError, "releases must be at least 1"),
        ({"releases": 1.5}, TypeError, "releases must be an integer"),
        ({"releases": 10**5000}, ValueError, "releases must lie between 1 and 2.*16610 bits"),
        ({"releases": -(10**5000)}, ValueError, "releases must lie between 1 and 2"),
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
    assert [ledger.allows({"age": scale, "pay": 1.0}) for scale in (1.0, 2.0)] == [False, True]
    with pytest.raises(error, match=message):
        ledger.spend(**arguments)
    if "note" not in arguments:
        with pytest.raises(error, match=message):
            ledger.allows(**arguments)
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
    owner = certificate(rule, age=0.0 if rule.left({})["age"] == math.inf else 4.0)
    ledger = Ledger.create(path, owner)
    expected = ledger.left()
    while expected.releases > 0 and expected.releases < math.inf:
        found = ledger.spend()
        assert found.releases == expected.releases - 1
        assert found == Ledger.open(path, owner).left()
        expected = found
    assert ledger.allows() == (expected.releases == math.inf)


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
        assert ledger.allows() is other.allows() is True
        other.spend()
    assert ledger.allows() is other.allows() is False


def test_what_others_spend_is_seen_however_fast_they_are(path, monkeypatch):
    owner = certificate(Precisions.of_scales(1, {"age": 1.0}), age=999.0)
    ledger, other = Ledger.create(path, owner), Ledger.open(path, owner)
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    other.spend(releases=100)
    for spent in range(100, 300, 2):
        assert ledger.left().releases == 999 - spent
        other.spend()
        other.spend()  # its file may get the number that the first one had


def test_a_symbolic_link_leads_to_the_one_ledger(ledger, path):
    link = path.with_name("link")
    link.symlink_to(path)
    Ledger.open(link, certificate()).spend()
    assert link.is_symlink()
    assert ledger.left().releases == 2
    assert names(path) == ["link", "survey.ledger", "survey.ledger.lock"]


def test_a_second_name_of_the_file_is_refused(ledger, path):
    os.link(path, path.with_name("other"))
    with pytest.raises(LedgerError, match="2 names"):
        ledger.spend()
    assert ledger.left().releases == 3


def test_create_never_overwrites(ledger, path):
    ledger.spend()
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"Ledger\.open"):
        Ledger.create(path, certificate())
    assert path.read_bytes() == before


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
        ledger.allows()


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
def test_what_promises_nothing_gets_no_ledger(path, owner, message):
    with pytest.raises(ValueError, match=message):
        Ledger.create(path, owner)
    assert not path.exists()


@pytest.mark.parametrize("wrong", ["data", [], [1], [""], ["a", "a"], 7, [10**5000]])
def test_datasets_are_a_list_of_different_names(path, wrong):
    with pytest.raises((TypeError, ValueError), match="datasets must"):
        Ledger.create(path, certificate(), datasets=wrong)


def edited(path, change):
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


DAMAGES = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "zeros": lambda path: path.write_bytes(b"\0" * 500),
    "not a ledger": lambda path: path.write_text("[1, 2]"),
    "not text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "nested": lambda path: path.write_text("[" * 100_000),
    "fewer releases": lambda path: edited(path, lambda r: r["spent"][0].__setitem__(2, 0)),
    "other budget": lambda path: edited(path, lambda r: r["rule"].update(power=2)),
    "no checksum": lambda path: edited(path, lambda r: r.pop("checksum")),
    "other checksum": lambda path: edited(path, lambda r: r.update(checksum="0")),
    "other schema": lambda path: edited(path, lambda r: r.update(schema=f"{SCHEMA}0")),
    "other document": lambda path: edited(path, lambda r: r.clear()),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_ledger_is_refused_and_left_as_it_is(ledger, path, damage):
    ledger.spend()
    damage(path)
    before = path.read_bytes()
    for use in (
        ledger.spend,
        ledger.allows,
        ledger.left,
        ledger.history,
        lambda: Ledger.open(path, certificate()),
        lambda: ledger.add("more"),
    ):
        with pytest.raises(LedgerError, match=r"ledger|was written as"):
            use()
    assert path.read_bytes() == before


def checksummed(record):
    """Return a record with its checksum, as the format has it."""
    bare = {key: value for key, value in record.items() if key != "checksum"}
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"))
    return bare | {"checksum": hashlib.sha256(text.encode()).hexdigest()}


def test_a_file_is_one_json_object_whose_checksum_anybody_can_compute(path):
    owner = certificate(fingerprint='"rule": {} \\ é')
    ledger = Ledger.create(path, owner, datasets=["a", '"rule": {'])
    ledger.spend({"pay": 30.0}, dataset="a", note='é "rule": {}')
    record = json.loads(path.read_bytes())
    assert record == checksummed(record)
    assert record == {
        "schema": SCHEMA,
        "fingerprint": owner.fingerprint,
        "rule": owner.rule.to_dict(),
        "scales": [["age", 6.0], ["pay", 3.0]],
        "datasets": ["a", '"rule": {'],
        "spent": [["a", [["pay", 30.0]], 1, 'é "rule": {}']],
        "checksum": record["checksum"],
    }
    assert ledger.spend(dataset="a").releases == 1


def test_a_file_in_which_every_number_has_its_line_is_read_and_spent_on(ledger, path):
    ledger.spend(releases=2)
    record = json.loads(path.read_bytes())
    record["spent"][0][2] = 1
    path.write_text(json.dumps(checksummed(record), indent=1))
    assert ledger.spend().releases == 1
    assert Ledger.open(path, certificate()).spend().releases == 0


@pytest.mark.parametrize("indent", [None, 1])
def test_a_rule_that_changed_in_the_file_is_read_again(ledger, path, indent):
    assert ledger.allows({"age": 2.0})
    record = json.loads(path.read_bytes())
    record["rule"] = Precisions.of_scales(1, {"age": 4.0, "pay": 1.0}).to_dict()
    path.write_text(json.dumps(checksummed(record), indent=indent))
    assert not ledger.allows({"age": 2.0})
    assert ledger.allows({"age": 4.0})


def test_a_rule_that_stands_elsewhere_in_the_file_is_not_the_rule(ledger, path):
    assert ledger.allows({"age": 2.0})
    [line] = [line for line in path.read_text().splitlines() if line.startswith('"rule": ')]
    record = json.loads(path.read_bytes())
    record["rule"] = Precisions.of_scales(1, {"age": 4.0, "pay": 1.0}).to_dict()
    whole = checksummed({"before": json.loads(f"{{{line[:-1]}}}")} | record)
    rest = {key: value for key, value in whole.items() if key != "before"}
    path.write_text(f'{{"before": {{{line[:-1]}}}, {json.dumps(rest)[1:]}')
    assert json.loads(path.read_bytes()) == whole
    assert [ledger.allows({"age": scale}) for scale in (2.0, 4.0)] == [False, True]


FORGED = {
    "a budget of a billion digits": lambda r: r["rule"].update(budgets=[["age", "1e999999999"]]),
    "a budget of as many places": lambda r: r["rule"].update(budgets=[["age", "1e-999999999"]]),
    "a budget over nought": lambda r: r["rule"].update(budgets=[["age", "1/0"]]),
    "a rule that is a list": lambda r: r.update(rule=[1]),
    "a scale that is a word": lambda r: r.update(scales=[["age", "wide"]]),
    "a dataset without a name": lambda r: r.update(datasets=[1]),
    "a spend of no number": lambda r: r.update(spent=[["data", [["age", 1.0]], "x", ""]]),
    "a spend that gives back": lambda r: r.update(spent=[["data", [["age", 1.0]], -5, ""]]),
    "a spend of another dataset": lambda r: r.update(spent=[["other", [["age", 1.0]], 1, ""]]),
    "a spend of another column": lambda r: r.update(spent=[["data", [["wage", 1.0]], 1, ""]]),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_file_whose_checksum_fits_nonsense_is_refused_at_once(ledger, path, change):
    record = json.loads(path.read_bytes())
    change(record)
    path.write_text(json.dumps(checksummed(record)))
    for use in (Ledger(path, "f00d").left, Ledger(path, "f00d").spend):
        with pytest.raises(LedgerError, match="is not a ledger, or a damaged one"):
            use()


def test_a_later_version_is_named_whatever_it_holds(ledger, path):
    ledger.allows()
    path.write_text('{"schema": "sklearn_puffer.ledger/2"}')
    for use in (ledger, Ledger(path, "f00d")):
        with pytest.raises(LedgerError, match=r"was written as 'sklearn_puffer\.ledger/2'"):
            use.allows()


def test_blanks_do_not_count_as_damage(ledger, path):
    ledger.spend()
    path.write_text(json.dumps(json.loads(path.read_text()), indent=7))
    assert ledger.spend().releases == 1


def test_a_ledger_that_was_removed_is_not_started_anew(ledger, path):
    path.unlink()
    for use in (ledger.spend, ledger.allows, lambda: Ledger.open(path, certificate())):
        with pytest.raises(FileNotFoundError, match="the ledger cannot be"):
            use()
    assert not path.exists()


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


def test_a_file_that_became_a_pipe_is_not_waited_for(ledger, path):
    path.unlink()
    os.mkfifo(path)
    for use in (ledger.spend, ledger.allows):
        with pytest.raises(OSError, match="it is no regular file"):
            use()


@pytest.mark.parametrize(
    ("wrong", "error"), [(3, TypeError), (b"x", TypeError), ("\0", ValueError)]
)
def test_what_is_no_path_is_named(wrong, error):
    with pytest.raises(error, match="path must"):
        Ledger.open(wrong, certificate())


@pytest.mark.parametrize(
    ("wrong", "error"),
    [("9", TypeError), (True, TypeError), (-1, ValueError), (math.nan, ValueError)],
)
def test_a_timeout_is_a_number_of_seconds(path, wrong, error):
    with pytest.raises(error, match="timeout must be a number of seconds"):
        Ledger.create(path, certificate(), timeout=wrong)
    assert not path.exists()


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="cannot be locked, and nothing was spent"):
        Ledger.create(tmp_path / "nowhere" / "ledger", certificate())


@pytest.mark.parametrize(
    ("place", "call"), [(ledger_file, "FileIO"), (os, "replace"), (os, "fsync")]
)
def test_a_read_only_or_full_disk_spends_nothing(ledger, path, monkeypatch, place, call):
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError(30 if call == "FileIO" else 28, "No space, or read only")

    with monkeypatch.context() as patch:
        patch.setattr(place, call, fail)
        with pytest.raises(OSError, match="nothing was spent"):
            ledger.spend()
    assert path.read_bytes() == before
    assert names(path) == ["survey.ledger", "survey.ledger.lock"]
    assert ledger.spend().releases == 2


@pytest.mark.parametrize("call", ["replace", "fsync"])
@pytest.mark.parametrize("fault", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_in_the_middle_of_a_write_leaves_the_old_state(
    ledger, path, monkeypatch, call, fault
):
    before = path.read_bytes()

    def interrupt(*args):
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(os, call, interrupt)
        with pytest.raises(fault):
            ledger.spend()
    assert path.read_bytes() == before
    assert ledger.spend().releases == 2


def test_a_state_that_the_disk_does_not_confirm_counts_as_spent(ledger, monkeypatch):
    calls, fsync = [], os.fsync

    def second_fails(handle):
        calls.append(handle)
        if len(calls) == 2:
            raise OSError(5, "Input/output error")
        fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", second_fails)
        with pytest.raises(OSError, match="is on record"):
            ledger.spend()
    assert ledger.left().releases == 2


def test_what_a_killed_writer_left_is_disposed_of(ledger, path):
    path.with_name("survey.ledger.tmp").write_bytes(b'{"schema": "sklearn_p')
    assert ledger.left().releases == 3
    assert ledger.spend().releases == 2
    assert names(path) == ["survey.ledger", "survey.ledger.lock"]


def test_the_mode_of_the_file_is_kept(ledger, path):
    path.chmod(0o640)
    ledger.spend()
    assert path.stat().st_mode & 0o777 == 0o640


def test_the_file_stays_small_however_much_is_released(path):
    ledger = Ledger.create(path, certificate(Precisions.of_scales(1, {"age": 1.0}), age=1e9))
    ledger.spend()
    size = path.stat().st_size
    for _ in range(20):
        ledger.spend(releases=10**6)
    assert path.stat().st_size < size + 20


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_who_waits_for_a_lock_too_long_is_told_and_spends_nothing(ledger, path, timeout):
    waiting = Ledger.open(path, certificate(), timeout=timeout)

    def meanwhile(lock):
        with pytest.raises(TimeoutError, match=r"nothing was spent .*after .* s; .*longer timeout"):
            waiting.spend()

    ledger_file.exclusively(path, 0.0, meanwhile)
    assert waiting.left().releases == 3
    assert waiting.spend().releases == 2


def test_who_waits_for_a_lock_gets_it_when_it_is_given_back(ledger, path):
    held, spent = threading.Event(), []
    thread = threading.Thread(target=lambda: (held.wait(), spent.append(ledger.spend().releases)))

    def hold(lock):
        thread.start()
        held.set()
        time.sleep(0.02)
        assert not spent

    ledger_file.exclusively(path, 0.0, hold)
    thread.join(30)
    assert spent == [2]


def test_a_lock_that_is_not_given_back_is_told_with_what_is_on_record(ledger, path, monkeypatch):
    def fail(handle):
        raise OSError(37, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr(ledger_file, "_unlock", fail)
        with pytest.raises(OSError, match="the spend is on record, but the lock"):
            ledger.spend()
        with pytest.raises(OSError, match="nothing was spent, but the lock"):
            ledger.spend(releases=9)
    assert Ledger(path, "f00d", timeout=0.0).spend().releases == 1  # the file was closed, at least


def interrupted_at(number, call):
    """Interrupt a call at an instruction of the ledger's own modules, or of `contextlib`.

    Return what was raised, if anything was, and how many instructions were begun.
    """
    begun, raised, before = 0, None, sys.gettrace()

    def instruction(frame, event, argument):
        nonlocal begun
        begun += event == "opcode"
        if event == "opcode" and begun == number:
            raise KeyboardInterrupt
        return instruction

    def entered(frame, event, argument):
        own = frame.f_code.co_filename in TRACED
        frame.f_trace_opcodes = own
        return instruction if own else None

    sys.settrace(entered)
    try:
        call()
    except KeyboardInterrupt as interrupt:
        raised = interrupt
    finally:
        sys.settrace(before)
    return raised, begun


TRACED = {
    ledger_file.__file__,
    importlib.import_module(Ledger.__module__).__file__,
    contextlib.__file__,
}


def interrupt_everywhere(path, monkeypatch, every):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    ledger = Ledger.create(
        path, certificate(Precisions.of_scales(1, {"age": 1.0}), age=1e9), timeout=0.0
    )
    ledger.spend()
    number, spent, interrupts, on_record = 1, 1, 0, 0
    while True:
        raised, _ = interrupted_at(number, ledger.spend)
        found = Ledger(path, "f00d").history()[0].releases
        assert found - spent in ((0, 1) if raised else (1,))
        if raised is None:
            gc.collect()  # what an interrupt left open, while the warning of it is let pass
            return interrupts, on_record
        interrupts, on_record = interrupts + 1, on_record + found - spent
        Ledger(path, "f00d", timeout=0.0).spend()  # while the traceback is kept, in `raised`
        spent, number = found + 1, number + every


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a file is closed by its own end
def test_an_interrupt_at_any_instruction_leaves_a_whole_state_and_a_free_lock(path, monkeypatch):
    interrupts, on_record = interrupt_everywhere(path, monkeypatch, every=11)
    assert 0 < on_record < interrupts


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_interrupt_at_each_instruction_leaves_a_whole_state_and_a_free_lock(path, monkeypatch):
    interrupts, on_record = interrupt_everywhere(path, monkeypatch, every=1)
    assert 0 < on_record < interrupts


def hold_fork_and_die(path, until):
    """Take the lock in a thread, fork a child that outlives this process, and be killed."""
    held = threading.Event()

    def hold(lock):
        held.set()
        time.sleep(60)

    threading.Thread(target=ledger_file.exclusively, args=(path, 10.0, hold), daemon=True).start()
    held.wait(10)
    if os.fork() == 0:
        os.read(until, 1)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_child_forked_while_another_thread_holds_the_lock_does_not_keep_it(ledger, path):
    until, end = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(end)
        hold_fork_and_die(path, until)
    os.close(until)
    try:
        os.waitpid(process, 0)
        ledger.timeout = 0.0
        assert ledger.spend().releases == 2
    finally:
        os.close(end)  # which ends the child


def test_a_spend_in_the_middle_of_which_its_process_forks_is_not_the_childs(ledger, path):
    lock = ledger_file.Lock(path)
    lock.take(0.0)
    lock.close()  # what the child does
    with pytest.raises(OSError, match="the process forked"):
        lock.check(None)
    lock.give_back()


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


def test_a_lock_file_that_was_removed_while_waiting_locks_nothing(ledger, path, monkeypatch):
    lock, locked, removed = path.with_name("survey.ledger.lock"), ledger_file._try_to_lock, []

    def remove_first(handle):
        if not removed:
            removed.append(lock.unlink())
        return locked(handle)

    monkeypatch.setattr(ledger_file, "_try_to_lock", remove_first)
    assert ledger.spend().releases == 2
    assert lock.exists()


@pytest.mark.parametrize("what", ["survey.ledger.lock", "survey.ledger"])
def test_a_spend_whose_lock_or_ledger_goes_in_the_middle_fails_and_is_not_forgotten(
    ledger, path, monkeypatch, what
):
    write_through, before = ledger_file.write_through, path.read_bytes()

    def remove_meanwhile(*args):
        write_through(*args)
        path.with_name(what).unlink()

    with monkeypatch.context() as patch:
        patch.setattr(ledger_file, "write_through", remove_meanwhile)
        with pytest.raises(OSError, match="nothing was spent"):
            ledger.spend()
    assert not path.exists() or path.read_bytes() == before
    assert not path.with_name("survey.ledger.tmp").exists()


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


def test_releases_with_more_noise_spend_less(fitted, path):
    noiser, table = fitted
    ledger = Ledger.create(path, noiser)
    ledger.transform(noiser, table)
    for left in (0, 0, 0, 0):
        released = ledger.transform(noiser, table, factor=4.0)
        assert len(released) == len(table)
        assert ledger.left().releases == left
    with pytest.raises(OverspentError):
        ledger.transform(noiser, table, factor=4.0)
    [own, larger] = [entry.scales["cars"] for entry in ledger.history()]
    assert larger == pytest.approx(4.0 * own, rel=1e-15)
    with pytest.raises(ValueError, match=r"factor must be at least 1, got 0\.5"):
        ledger.transform(noiser, table, factor=0.5)


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
        ledger.transform(noiser, table.assign(cars=99))
    assert ledger.left().releases == 2


def test_nothing_is_handed_out_that_is_not_on_record(fitted, path, monkeypatch):
    noiser, table = fitted
    ledger = Ledger.create(path, noiser)

    def fail(*args):
        raise OSError(28, "No space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="nothing was spent") as caught:
            ledger.transform(noiser, table)
    frames = [frame.tb_frame.f_locals for frame in _frames(caught.value.__traceback__)]
    assert not any("released" in variables for variables in frames)
    assert ledger.left().releases == 2


def _frames(traceback):
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


@pytest.mark.parametrize("error", [LedgerError("gone"), OverspentError("too much")])
def test_errors_reach_other_processes(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args) == (type(error), error.args)


# What follows is run in processes of its own.


def die_at(path, fingerprint, call):
    """Spend, and die where the given call begins."""
    module, name = call
    place = os if module == "os" else importlib.import_module(f"sklearn_puffer.{module}")
    setattr(place, name, lambda *args: os.kill(os.getpid(), signal.SIGKILL))
    Ledger(path, fingerprint).spend()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "spent"),
    [
        (("os", "fsync"), 0),
        (("os", "replace"), 0),
        (("_releases.ledger", "write"), 0),
        (("_releases.ledger_file", "sync_folder"), 1),
        (("_releases.ledger_file", "_unlock"), 1),
    ],
)
def test_a_process_that_is_killed_while_it_writes_leaves_a_whole_state(ledger, path, call, spent):
    process = processes().Process(target=die_at, args=(path, "f00d", call))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert ledger.left().releases == 3 - spent
    assert ledger.spend().releases == 2 - spent
    assert names(path) == ["survey.ledger", "survey.ledger.lock"]


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
    for first in range(0, 180, 20):
        wave(range(first, first + 20), kill=True)
        before, total = total, check()
        assert before <= total <= budget
        assert ledger.left().releases == budget - total
    assert total > 100
    ledger.spend(releases=max(budget - total - 200, 1))  # so that the last wave meets the end
    wave(range(180, 200), kill=False)
    assert check() == budget
    assert ledger.left().releases == 0
    assert Path(f"{path}.tmp").exists() is False
