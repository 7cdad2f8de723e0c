"""Where progress appears, what it looks like, and that it is silent and harmless elsewhere."""

from __future__ import annotations

import re
import sys
import threading
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sklearn_puffer import PersonLedger, PufferfishNoiser, PufferfishRelease
from sklearn_puffer._base import counted, listening, progress, task
from sklearn_puffer._ledgers import persons
from sklearn_puffer._noiser import against
from sklearn_puffer._sets import SetLosses
from sklearn_puffer._sets.simultaneous_sets import set_around_counts
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.cli import main
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete

LINE = re.compile(r"sklearn_puffer: [^\x00-\x1f]+\n")
KEY = b"blake2b:" + bytes(32)


class Terminal:
    """A standard error that keeps what is written to it."""

    encoding = "utf-8"

    def __init__(self, moves=True):
        self.parts, self.moves = [], moves

    def write(self, text):
        self.parts.append(text)
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return self.moves

    @property
    def text(self):
        return "".join(self.parts)


@pytest.fixture
def at_once(monkeypatch):
    """Let every report be shown, and not only those two seconds apart."""
    monkeypatch.setattr(progress, "EVERY", 0.0)


def shown_on(monkeypatch, moves=True, kind="xterm"):
    """Return a standard error that stands in the place of ours."""
    found = Terminal(moves)
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", kind)
    monkeypatch.setenv("COLUMNS", "80")
    return found


def count_to(n):
    for _ in counted(range(n), "columns"):
        time.sleep(0.001)  # so that there is a time left


def stopped(k):
    if k == 5:
        raise KeyboardInterrupt


# ------------------------------------------------------------------------------------- the screens


def test_a_terminal_gets_a_bar(at_once, monkeypatch):
    terminal = shown_on(monkeypatch)
    with listening(1, "work"):
        count_to(4)
    assert "columns: 3 of 4 (75%)" in terminal.text
    assert "about 00:00 left" in terminal.text
    assert "|" in terminal.text


def test_a_bar_is_gone_when_the_work_is_done(at_once, monkeypatch):
    terminal = shown_on(monkeypatch)
    with listening(1, "work"):
        count_to(3)
    assert terminal.text.endswith("\r")  # the line is blank again
    assert terminal.text.count("\x1b[?25l") == terminal.text.count("\x1b[?25h")  # the cursor


def test_no_control_codes_go_where_there_is_no_terminal(at_once, monkeypatch):
    for moves, kind in ((False, "xterm"), (True, "dumb")):
        stream = shown_on(monkeypatch, moves, kind)
        with listening(1, "work"):
            count_to(4)
        assert stream.parts
        assert all(LINE.fullmatch(part) for part in stream.parts)


def test_a_notebook_gets_a_bar(at_once, monkeypatch):
    class Shell:
        kernel = None

    class Python:
        get_ipython = staticmethod(Shell)

    monkeypatch.setitem(sys.modules, "IPython", Python)
    notebook = shown_on(monkeypatch, moves=False)
    with listening(1, "work"):
        count_to(3)
    assert "\r" in notebook.text


def test_nothing_is_shown_before_two_seconds(monkeypatch, capsys):
    assert progress.EVERY == 2.0
    now = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    with listening(1, "work"), task("columns", 10) as done:
        for _ in range(3):
            now[0] += 0.6
            done()
        assert capsys.readouterr() == ("", "")
        now[0] += 0.6
        done()
        assert capsys.readouterr().err == (
            "sklearn_puffer: columns: 4 of 10 (40%); about 00:03 left\n"
        )
        now[0] += 1.5
        done()
        assert capsys.readouterr().err == ""  # a line every two seconds


@pytest.mark.slow
def test_a_call_that_reports_nothing_is_told_of_all_the_same(at_once, capsys):
    with listening(1, "work"), task("ids counted"):
        time.sleep(0.35)
    assert "sklearn_puffer: ids counted (0 s so far)\n" in capsys.readouterr().err
    assert not [each for each in threading.enumerate() if "sklearn_puffer" in each.name]


@pytest.mark.slow
def test_what_reports_nothing_is_told_of_by_its_name(at_once, capsys):
    with listening(1, "fit"):
        time.sleep(0.35)
    assert "sklearn_puffer: fit (0 s so far)\n" in capsys.readouterr().err


@pytest.mark.parametrize("stream", [None, object()])
def test_work_goes_on_without_a_standard_error(at_once, monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    with listening(1, "work"):
        count_to(3)


def test_ctrl_c_leaves_no_bar_and_nobody_who_listens(at_once, monkeypatch):
    terminal = shown_on(monkeypatch)
    with pytest.raises(KeyboardInterrupt), listening(1, "work"):
        list(map(stopped, counted(range(9), "columns")))
    told = terminal.text
    count_to(3)
    assert terminal.text == told
    assert told.count("\x1b[?25l") == told.count("\x1b[?25h")


def test_there_is_one_reporter_however_many_listen(at_once, capsys):
    with listening(1, "work"), task("settings", 2) as done, listening(1, "work"):
        count_to(3)
        done()
    assert "settings: 0 of 2 (0%); columns: 2 of 3 (67%)" in capsys.readouterr().err


def test_parts_done_in_other_threads_count(at_once, capsys):
    with listening(1, "work"), task("values", 800) as done:
        threads = [threading.Thread(target=lambda: [done(10) for _ in range(10)]) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        done(0)
    assert "values: 800 of 800 (100%)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "00:00"), (119.0, "01:59"), (90_000.0, "25:00:00")]
)
def test_the_time_left_is_said_in_minutes_and_in_hours(seconds, words):
    half = progress._Task("columns", 2)
    half.done = 1
    # half a second more, as sums of floats may lie a little below
    assert half.rest(half.began + seconds + 0.5) == f"; about {words} left"


# --------------------------------------------------------------------------------------- transform


def table(n_rows=40):
    rng = np.random.default_rng(3)
    secret = np.arange(n_rows) % 2
    visits = rng.integers(0, 5, n_rows)
    return pd.DataFrame({"visits": visits, "town": np.where(visits > 2, "a", "b"), "s": secret})


def fitted(**params):
    params = {"sensitive": "s", "epsilon": 1.0, **params}
    return PufferfishNoiser(**params).fit(table()).set_params(verbose=1)


@pytest.mark.parametrize(
    ("params", "how"),
    [
        ({}, {}),
        ({"n_jobs": 2}, {}),
        ({}, {"row_id": "id", "key": KEY}),
    ],
)
def test_a_verbose_transform_tells_how_far_it_is(at_once, capsys, params, how):
    noiser, rows = fitted(**params), table().assign(id=range(40))
    noiser.transform(rows, **how)
    out, err = capsys.readouterr()
    assert out == ""
    assert "columns read: 1 of 2 (50%); about 00:00 left" in err
    assert "values released: 80 of 80 (100%)" in err
    assert "visits" not in err
    assert "town" not in err
    noiser.set_params(verbose=0).transform(rows, **how)
    assert capsys.readouterr() == ("", "")


def test_a_short_transform_says_nothing(capsys):
    fitted().transform(table())
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("verbose", [-1, "yes", 0.5])
def test_a_verbose_that_is_no_count_is_refused_before_anything_is_drawn(verbose):
    noiser = fitted().set_params(verbose=verbose)
    with pytest.raises((TypeError, ValueError), match="verbose must be"):
        noiser.transform(table())


# ----------------------------------------------------------------------------- and all that is long


def told(capsys):
    out, err = capsys.readouterr()
    assert out == ""
    assert "visits" not in err
    return err


def test_a_form_tells_too(at_once, capsys):
    text = fitted().to_json()
    PufferfishRelease.from_json(text).transform(table())
    assert told(capsys) == ""
    PufferfishRelease.from_json(text, verbose=1).transform(table())
    assert "values released: 80 of 80" in told(capsys)
    with pytest.raises(TypeError, match="verbose must be"):
        PufferfishRelease.from_json(text, verbose="yes")


def test_a_fit_tells_of_columns_and_of_queries(at_once, capsys):
    params = {"sensitive": "s", "public": ["visits", "town"], "verbose": 1}
    PufferfishNoiser(**params).fit(table())
    assert "columns read: 1 of 2 (50%)" in told(capsys)
    rows = pl.from_pandas(table().assign(id=range(40))).lazy()
    noiser = PufferfishNoiser(**params).fit(rows)
    assert "query of the engine (0 s so far)" in told(capsys)
    noiser.transform(rows, row_id="id", key=KEY)
    assert "ids counted by the engine; query of the engine (0 s so far)" in told(capsys)


def test_a_check_of_rows_tells(at_once, capsys):
    certificate = fitted().certificate_
    certificate.check(table())
    assert told(capsys) == ""
    certificate.check(table(), verbose=1)
    err = told(capsys)
    assert "columns read: 1 of 2 (50%)" in err
    assert "columns compared: 2 of 2 (100%)" in err
    with pytest.raises(TypeError, match="verbose must be"):
        certificate.check(table(), verbose="yes")


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_loss_under_another_prior_tells(at_once, capsys, noise):
    alpha = None if noise == "laplace" else 2.0
    params = {"epsilon": 0.01, "noise": noise, "alpha": alpha}
    fit = PufferfishNoiser(**params, sensitive="s", public=["visits"]).fit(table())
    prior = {0: Discrete([0, 1], [0.5, 0.5]), 1: Discrete([0, 1], [0.25, 0.75])}
    fit.certificate_.against(prior)
    assert told(capsys) == ""
    fit.certificate_.against(prior, verbose=1)
    assert "losses under the prior; " in told(capsys)
    with pytest.raises(TypeError, match="verbose must be"):
        fit.certificate_.against(prior, verbose="yes")


def test_a_calibration_tells(at_once, capsys):
    pair = (Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75]))
    calibrate([pair], Pufferfish(0.1))
    assert told(capsys) == ""
    calibrate([pair], Pufferfish(0.1), verbose=1)
    assert "calibration; noise scales tried: 2 done" in told(capsys)
    with pytest.raises(TypeError, match="verbose must be"):
        calibrate([pair], Pufferfish(0.1), verbose="yes")


@pytest.mark.parametrize("verbose", [0, 1])
def test_a_loss_over_the_set_tells_where_the_fit_did(at_once, monkeypatch, capsys, verbose):
    monkeypatch.setattr(against, "CHEAP", 0)
    noiser = PufferfishNoiser(sensitive="s", public=["visits"], verbose=verbose).fit(table())
    capsys.readouterr()
    assert noiser.certificate_.known_over_set is None
    assert noiser.certificate_.over_set.loss > 0.0
    assert ("loss over the set of priors" in told(capsys)) == bool(verbose)


def test_cells_on_a_plane_are_ordered_with_a_time_left(at_once, capsys):
    axes = [np.arange(4.0)] * 2
    around = [set_around_counts(axes, np.full(16, 1 + k), 0.01) for k in range(2)]
    with listening(1, "work"):
        SetLosses([tuple(around)], Laplace(), Pufferfish(0.5)).losses(1.0)
    assert re.search(r"cells ordered: [\d,]+ of [\d,]+ \(\d\d%\); about 00:00 left\n", told(capsys))


def test_a_ledger_of_persons_tells(at_once, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(persons, "_MOST", 8)
    noiser, rows = fitted(releases=2), table().assign(id=range(40))
    ledger = PersonLedger.create(tmp_path / "people.sqlite", noiser, key=KEY)
    ledger.transform(noiser, rows, row_id="id")
    err = told(capsys)
    assert "values released: 80 of 80 (100%)" in err
    assert re.search(r"persons put on record: \d+ of 40 \(\d\d%\); about 00:00 left", err)
    ledger.transform(noiser, rows, row_id="id")
    assert re.search(r"parts of the ledger read: \d+ of \d\d \(\d+%\)", told(capsys))
    ledger.transform(noiser, rows[:2], row_id="id", release=1)
    assert re.search(r"parts of the ledger read: 1 of [12] \(", told(capsys))
    ledger.transform(noiser.set_params(verbose=0), rows, row_id="id")
    assert told(capsys) == ""


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_command_line_tells_the_time_left(at_once, capsys, tmp_path, kind):
    form, rows, out = (tmp_path / name for name in ("r.json", f"rows.{kind}", f"out.{kind}"))
    form.write_text(fitted().to_json())
    table().to_csv(rows, index=False) if kind == "csv" else table().to_parquet(rows)
    assert main(["release", str(form), str(rows), str(out)]) == 0
    err = told(capsys)
    assert re.search(r"values released: 80 of 80 \(100%\); about 00:00 left\n", err)
    assert err.endswith(f"puffer: wrote {str(out)!r}, 40 rows\n")
    assert main(["release", str(form), str(rows), str(out), "--force", "--quiet"]) == 0
    quiet = told(capsys)  # but for what nothing counts
    assert quiet.endswith(f"puffer: wrote {str(out)!r}, 40 rows\n")
    assert "values released" not in quiet
