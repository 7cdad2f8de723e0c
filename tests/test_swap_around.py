"""What stands around a fitted swap knows it: commands, ledgers, audit, report, plan, pictures."""

import re
from dataclasses import replace
from shutil import copytree

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.tree import DecisionTreeClassifier

from sklearn_puffer import Ledger, OverspentError, PersonLedger, PufferfishNoiser, audit, report
from sklearn_puffer._noiser import swap_release
from sklearn_puffer._review import auditing
from sklearn_puffer._review.exact_tests import Budget, Exchanged, p_value
from sklearn_puffer._swaps import mean_flows
from sklearn_puffer.cli import main
from sklearn_puffer.displays import (
    AuditDisplay,
    LossDisplay,
    MovesDisplay,
    ReleaseDisplay,
    SpendDisplay,
    SwapDisplay,
    TradeoffDisplay,
)
from sklearn_puffer.noise import RecordSwap
from sklearn_puffer.notions import Pufferfish

KEY = b"blake2b:" + 2 * b"0123456789abcdef"
FIT = ["--sensitive", "loan", "--public", "cars", "--public", "zip", "--public", "income"]
FIT += ["--noise", "swap"]
KEYED = ["--row-id", "client", "--key-file", "key"]
NAMES = ["cars", "income", "zip"]


def make_table(n_rows=600, seed=0):
    rng = np.random.default_rng(seed)
    secret = rng.integers(0, 2, n_rows)
    return pd.DataFrame(
        {
            "client": [f"{k:05d}" for k in rng.permutation(n_rows)],
            "loan": np.where(secret, "yes", "no"),
            "cars": rng.integers(0, 6, n_rows) + secret,
            "income": np.round(rng.normal(10.0, 2.0, n_rows) + secret, 2),
            "zip": rng.choice(["02139", "10001", "94110"], n_rows),
        }
    )


def fitted(epsilon=1.0, table=None, **options):
    options = {"public": NAMES, "noise": RecordSwap(cells=6), **options}
    noiser = PufferfishNoiser(epsilon, sensitive="loan", **options)
    return noiser.fit(make_table() if table is None else table)


def rows_of(table):
    return sorted(map(tuple, table[NAMES].to_numpy().tolist()), key=str)


# ------------------------------------------------------------------------------- the command line


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A folder with a table, a saved swap of it and a key."""
    folder = tmp_path_factory.mktemp("swap")
    make_table().to_csv(folder / "in.csv", index=False)
    (folder / "key").write_bytes(KEY)
    assert main(["fit", str(folder / "in.csv"), str(folder / "s.joblib"), *FIT]) == 0
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch, original):
    """A copy of the folder to work in."""
    copytree(original, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def noiser():
    return fitted()


def read(path):
    return pd.read_csv(path, dtype={"zip": str})


@pytest.mark.slow
def test_a_file_is_swapped_as_one_table_and_keyed_again_alike_in_any_order(folder):
    assert main(["release", "s.joblib", "in.csv", "a.csv"]) == 0
    assert rows_of(read("a.csv")) == rows_of(read("in.csv"))
    assert not read("a.csv").equals(read("in.csv")[NAMES])
    assert main(["release", "s.joblib", "in.csv", "b.csv", *KEYED]) == 0
    make_table()[::-1].to_csv("back.csv", index=False)
    assert main(["release", "s.joblib", "back.csv", "c.csv", *KEYED]) == 0
    assert read("b.csv")[::-1].reset_index(drop=True).equals(read("c.csv"))
    noiser = joblib.load("s.joblib")
    asked = {"row_id": "client", "key": KEY}
    assert noiser.transform(make_table(), **asked).reset_index(drop=True).equals(read("b.csv"))


@pytest.mark.slow
def test_a_column_of_numbers_that_was_passed_is_read_as_it_was_fitted(folder):
    table = make_table().assign(age=np.repeat([20.5, 30.5], 300))
    table.drop(columns="client").to_csv("in.csv", index=False)
    asked = ["fit", "in.csv", "p.joblib", *FIT, "--remainder", "passthrough"]
    assert main(asked) == 0
    assert main(["release", "p.joblib", "in.csv", "p.csv"]) == 0
    assert read("p.csv")["age"].equals(table["age"])


@pytest.mark.parametrize(
    "more", [["s.json"], ["s.pkl"], ["n.joblib", "--noiser", "m.joblib"]], ids=str
)
def test_a_swap_has_no_form_which_is_said_before_any_work(capsys, more):
    assert main(["fit", "absent.csv", more[0], *FIT, *more[1:]]) == 2
    assert "a swap is saved as a whole noiser" in capsys.readouterr().err


@pytest.mark.slow
def test_a_saved_swap_is_checked_reported_and_counted(folder, capsys):
    assert main(["check", "s.joblib", "in.csv", "--sensitive", "loan"]) == 0
    make_table().assign(cars=40).to_csv("new.csv", index=False)
    assert main(["check", "s.joblib", "new.csv"]) == 1
    assert main(["report", "s.joblib"]) == 0
    assert main(["report", "s.joblib", "--kind", "external", "--out", "r.html"]) == 0
    assert main(["ledger", "create", "l.ledger", "s.joblib"]) == 0
    capsys.readouterr()
    asked = ["release", "s.joblib", "in.csv", "out.csv", "--ledger", "l.ledger", *KEYED]
    assert main(asked) == 0
    assert main([*asked, "--force"]) == 0
    assert "on record already" in capsys.readouterr().err
    make_table(seed=1).to_csv("other.csv", index=False)
    other = ["release", "s.joblib", "other.csv", "o.csv", "--ledger", "l.ledger", *KEYED]
    assert main(other) == 1
    assert not (folder / "o.csv").exists()


@pytest.mark.slow
def test_a_file_that_is_too_small_costs_nothing(folder, capsys):
    make_table(9).to_csv("few.csv", index=False)
    assert main(["ledger", "create", "l.ledger", "s.joblib"]) == 0
    assert main(["release", "s.joblib", "few.csv", "o.csv", "--ledger", "l.ledger"]) == 2
    assert Ledger.open("l.ledger", joblib.load("s.joblib")).left().releases == 1


@pytest.mark.slow
def test_a_file_of_persons_is_swapped_once(folder, capsys):
    persons = ["--persons", "p.sqlite", *KEYED]
    assert main(["persons", "create", "p.sqlite", "s.joblib", "--key-file", "key"]) == 0
    assert main(["release", "s.joblib", "in.csv", "a.csv", *persons]) == 0
    assert main(["release", "s.joblib", "in.csv", "b.csv", *persons]) == 0
    assert read("a.csv").equals(read("b.csv"))
    make_table()[:300].to_csv("part.csv", index=False)
    for more in ([], ["--withhold"]):
        assert main(["release", "s.joblib", "part.csv", "c.csv", *persons, *more]) == 1
        assert "release those of others as one" in capsys.readouterr().err


# --------------------------------------------------------------------------------------- ledgers


def test_a_ledger_allows_one_swap_and_says_why_not_two(tmp_path, noiser):
    table = make_table()
    ledger = Ledger.create(tmp_path / "l.ledger", noiser)
    assert rows_of(ledger.transform(noiser, table)) == rows_of(table)
    with pytest.raises(OverspentError, match="Two swaps of the same people can tell everything"):
        ledger.transform(noiser, table)
    with pytest.raises(ValueError, match="there is none here"):
        ledger.transform(noiser, table, factor=2.0)


@pytest.mark.parametrize(
    ("changes", "exhausted"),
    [
        ("refuse", "raise"),
        ("count", "withhold"),
        pytest.param("refuse", "withhold", marks=pytest.mark.slow),
        pytest.param("count", "raise", marks=pytest.mark.slow),
    ],
)
def test_persons_on_record_are_in_no_other_table_of_a_swap(tmp_path, noiser, changes, exhausted):
    """The marks of what was drawn were never filled: they held whatever was in memory."""
    table = make_table()
    ledger = PersonLedger.create(tmp_path / "p", noiser, key=KEY, changes=changes)
    asked = {"row_id": "client", "exhausted": exhausted}
    first = ledger.transform(noiser, table, **asked)
    assert ledger.transform(noiser, table[::-1], **asked)[::-1].equals(first)
    assert [call.new for call in ledger.history()] == [600, 0]
    newcomers = make_table(seed=1).assign(client=[f"new{k}" for k in range(600)])
    others = [
        table[:300],
        pd.concat([table, newcomers]),
        pd.concat([table[:1], newcomers]),
        table.assign(cars=table["cars"].where(table.index > 0, 9)),
    ]
    for other in others:
        with pytest.raises(OverspentError, match="release those of others as one by itself"):
            ledger.transform(noiser, other, **asked)
    for more in ({"release": 1}, {"dataset": "other"}):  # the same swap, by whatever name
        assert ledger.transform(noiser, table, **asked, **more).equals(first)
    assert ledger.n_persons == 600
    assert len(ledger.transform(noiser, newcomers, **asked)) == 600
    assert ledger.n_persons == 1200


# ----------------------------------------------------------------------------------------- audit


def people(n_rows, rng, three=False):
    """Rows of which the number of cars tells all that there is to know of the secret."""
    cars = rng.integers(0, 6, n_rows)
    heights = [0.0 * cars, 1.2 * (cars - 2.5), -0.8 * (cars - 1.0) - 50.0 * (not three)]
    chances = np.exp(heights) / np.exp(heights).sum(axis=0)
    loan = (rng.random(n_rows) > chances.cumsum(axis=0)).sum(axis=0)
    return pd.DataFrame({"loan": np.array(["no", "yes", "maybe"])[loan], "cars": cars})


def audited(noiser, table, **options):
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    return audit(noiser, table, [tree], repeats=1, knows=[], **options)


def swap_of(rng, epsilon=0.5, **options):
    noiser = PufferfishNoiser(epsilon, sensitive="loan", noise=RecordSwap(cells="values"))
    return noiser.fit(people(8000, rng, **options))


def broken(monkeypatch, epsilon):
    """Let swaps keep a larger budget than is asked of them, and prove nothing."""

    def larger(problem):
        return mean_flows(replace(problem, notion=Pufferfish(epsilon)))

    monkeypatch.setattr(swap_release, "mean_flows", larger)
    monkeypatch.setattr(swap_release.SwapRelease, "prove", lambda *given: None)


@pytest.mark.parametrize("three", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_swap_that_keeps_twice_its_budget_is_found_and_a_sound_one_is_not(monkeypatch, three):
    rng = np.random.default_rng(0)
    noiser, held = swap_of(rng, three=three), people(12_000 if three else 6000, rng, three=three)
    sound = audited(noiser, held)
    assert not sound.findings
    assert sound.caught
    assert "swapped as a table of their own" in str(sound)
    broken(monkeypatch, 1.0)
    found = audited(noiser, held)
    assert found.findings
    assert found.exact > 0.9
    assert found.best < 1.0


@pytest.mark.slow
def test_of_60_sound_swaps_no_more_are_findings_than_the_level_allows():
    found = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        noiser = swap_of(rng)
        found += bool(audited(noiser, people(1500, rng), level=0.05, random_state=seed).findings)
    assert found <= binom.isf(0.01, 60, 0.05)


@pytest.mark.slow
def test_of_20_sound_swaps_that_three_attackers_count_few_are_findings():
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        noiser = swap_of(rng)
        options = {"level": 0.2, "random_state": seed, "repeats": 1, "knows": []}
        found += bool(audit(noiser, people(1500, rng), **options).findings)
    assert found <= binom.isf(1e-3, 20, 0.2)


@pytest.mark.parametrize("two", [True, False])
def test_counts_of_dealt_rows_are_beyond_the_guarantee_as_seldom_as_the_level(two):
    """The rows of a cell hang together: the cells that they come from are dealt among them."""
    rng, level = np.random.default_rng(1), 0.2
    chances, flows = np.array([0.2, 0.5, 0.9]), np.array([[40, 5, 5], [5, 40, 5], [5, 5, 40]])
    masses = flows @ chances / 50.0
    odds = masses[2] / (1.0 - masses[2]) * (1.0 - masses.mean()) / masses.mean()
    promise = Budget(float(np.log(odds)))  # what these flows lose
    beyond = 0
    for _ in range(2000):
        coins = [[rng.random(n) < q for n, q in zip(row, chances, strict=True)] for row in flows]
        cells = [rng.permutation(np.concatenate(each)) for each in coins]
        k, n = int(cells[2][:30].sum()), int(np.concatenate(cells).sum())
        beyond += bool(Exchanged(0.0, two).beyond(promise, k, n, 30 - k, 150 - n, level))
    assert beyond <= 2000 * level
    assert p_value(promise, 30, 30, 0, 120, Exchanged(0.0, two)) < 1e-2


def test_attackers_of_a_swap_learn_from_people_of_another_table():
    rng = np.random.default_rng(2)
    held = people(1000, rng)
    rows = auditing._AuditedRows.of(swap_of(rng), held, None, {}, 0)
    released, parts = rows.released(), rows.parts
    assert released.index.equals(held.index)
    for rows in (np.append(parts.train, parts.choose), parts.test):
        assert sorted(released["cars"].iloc[rows]) == sorted(held["cars"].iloc[rows])


@pytest.mark.slow
def test_an_audit_says_what_is_left_within_cells_and_what_strata_tell(monkeypatch):
    table = make_table(2000)
    options = {"noise": RecordSwap(cells=8), "known": "zip"}
    noiser = fitted(table=table.drop(columns="client"), **options)
    told = audited(noiser, make_table(2000, seed=1))
    assert not told.findings
    _, gain, _ = noiser.certificate_.facts.within
    assert f"and {gain:.3f} in those of fit" in str(told)
    low, own, high = told.within
    assert low < own < high
    assert told.to_dict()["within_cells"] == [low, own, high]
    assert "Attackers see the columns that rows keep" in str(told)
    assert told.attacks[0].allowed > 1.0
    beside = make_table(2000, seed=1)
    given = audited(noiser, beside.drop(columns="loan"), sensitive_features=beside["loan"])
    assert [a.n for a in given.attacks] == [a.n for a in told.attacks]


# ---------------------------------------------------------------------------------------- report


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:within the")
def test_what_recipients_read_of_a_swap_is_no_function_of_the_rows():
    own, other = (
        report(fitted(table=make_table(900, seed), known="zip"), kind="external") for seed in (0, 3)
    )
    dates = {"date": "", "fitted": "", "sections": ""}
    assert {**own.to_dict(), **dates} == {**other.to_dict(), **dates}
    # both times are taken out: a second may pass between a fit and its report
    times = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
    told = [times.sub("", page.markdown).splitlines() for page in (own, other)]
    assert [a for a, b in zip(*told, strict=True) if a != b and "fitted" not in a] == []
    text = str(own)
    assert "Whoever sees the whole released table" in text
    assert "noise of a family" not in text
    assert "a fresh model" not in text
    assert "the guarantee holds, on four conditions" in text


@pytest.mark.parametrize("options", [{}, {"adversaries": "confidence"}], ids=str)
def test_the_report_to_sign_and_notebooks_show_the_verdict_of_a_swap(options):
    noiser = fitted(3.0, **options)
    told = str(report(noiser))
    assert "on four conditions" in told.splitlines()[0]
    assert "exchanged with its row" in told
    assert " 1 distinct" not in told
    assert "released by fit_transform as one table" in noiser._repr_html_()
    assert "on four conditions" not in noiser._repr_html_()
    outside = str(report(noiser, kind="external"))
    assert ("It also holds for other rows" in outside) == bool(options)
    with pytest.raises(ValueError, match="the loss of a swap follows from its cells"):
        noiser.certificate_.against({})


# -------------------------------------------------------------------------------------- pictures


def test_a_swap_is_drawn_as_flows_from_what_rows_tell_to_what_is_allowed():
    noiser = swap_of(np.random.default_rng(0))
    display = SwapDisplay.from_noiser(noiser)
    counts = noiser.swap_.counts["loan"]
    k = int(counts.sum(axis=0).argmin())
    shares, flows = counts[:, k] / counts.sum(axis=1), noiser.swap_.flows
    prior = counts[:, k].sum() / counts.sum()
    ends = [1.0 / (1.0 + (1.0 - prior) / prior * np.exp(way)) for way in (0.5, -0.5)]
    assert display.secret == list(noiser.swap_.unchanged_by_secret["loan"])[k]
    assert np.allclose(display.before, shares)
    assert np.allclose(display.band, ends)
    held = [(flows[:, b] @ shares) / flows[:, b].sum() for b in range(len(flows))]
    assert np.allclose(display.after, held)
    assert min(held) >= ends[0] - 1e-9
    assert max(held) <= ends[1] + 1e-9
    axes = display.ax_
    lines = [line for line in axes.lines if len(line.get_xdata()) > 2]
    assert len(lines) == (flows > 1e-4).sum()
    starts = sorted({float(line.get_ydata()[0]) for line in lines})
    assert np.allclose(starts, sorted(set(shares.tolist())))
    said = [text.get_text() for text in axes.get_legend().get_texts()]
    assert said == ["what epsilon 0.5 allows", "stay in their cell", "get a row of another cell"]
    stay = f"{np.trace(flows):.0%} in their cells"
    assert stay in [text.get_text().splitlines()[-1] for text in axes.get_xticklabels()]
    assert axes.get_ylabel() == f"chance that loan is {display.secret}"
    other = SwapDisplay.from_noiser(noiser, secret="no" if display.secret == "yes" else "yes")
    assert np.allclose(other.before, 1.0 - shares)


def test_within_strata_there_is_no_band_for_all():
    display = SwapDisplay.from_noiser(fitted(known="zip"))
    assert display.band is None
    assert "allows" not in str([t.get_text() for t in display.ax_.get_legend().get_texts()])


def test_what_is_no_swap_or_none_of_its_secrets_is_no_picture():
    with pytest.raises(TypeError, match='was fitted with noise="swap"'):
        SwapDisplay.from_noiser(PufferfishNoiser())
    noiser = swap_of(np.random.default_rng(0))
    with pytest.raises(ValueError, match="secret must be one of 'no', 'yes', got 'maybe'"):
        SwapDisplay.from_noiser(noiser, secret="maybe")
    with pytest.raises(ValueError, match="sensitive must be one of 'loan', got 'race'"):
        SwapDisplay.from_noiser(noiser, sensitive="race")


def test_other_displays_show_a_swap_or_say_why_not(tmp_path):
    noiser = swap_of(np.random.default_rng(0))
    held = people(1000, np.random.default_rng(1))
    for kind in (ReleaseDisplay, MovesDisplay):  # which showed that nothing moves
        with pytest.raises(ValueError, match="noiser is a swap, which exchanges whole rows"):
            kind.from_noiser(noiser, held, column="cars")
    assert LossDisplay.from_noiser(noiser).upper[0, 1] <= 0.5
    found = audited(noiser, held)
    assert AuditDisplay.from_audit(found).ax_ is not None
    assert TradeoffDisplay.from_audits(found).ax_ is not None
    ledger = Ledger.create(tmp_path / "l.ledger", noiser)
    ledger.transform(noiser, held)
    assert SpendDisplay.from_ledger(ledger).series["data"][-1] == 1.0
