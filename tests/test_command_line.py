"""The command line: whole files or none, true ledgers, one sentence for what is wrong."""

import inspect
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from children import processes

from sklearn_puffer import (
    Ledger,
    PufferfishMicroaggregator,
    PufferfishNoiser,
    PufferfishRelease,
    PufferfishSwap,
    audit,
    plan,
)
from sklearn_puffer._base import progress
from sklearn_puffer._documents import document, templates
from sklearn_puffer._release import TableRelease
from sklearn_puffer._review.plan import UNOWNED
from sklearn_puffer.cli import commands, main
from sklearn_puffer.cli.files import CsvLayout, TableFile
from sklearn_puffer.cli.settings import as_typed, text_of
from sklearn_puffer.datasets import make_people

pytestmark = pytest.mark.usefixtures("quick_attackers")

KEY = b"blake2b:" + 2 * b"0123456789abcdef"
COMMANDS = [["plan"], ["fit"], ["release"], ["check"], ["audit"], ["report"], ["ledger"]]
COMMANDS += [["persons"]]
COMMANDS += [["ledger", action] for action in ("create", "show", "spend")]
COMMANDS += [["persons", action] for action in ("create", "show", "left")]


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
            "owner": rng.random(n_rows) < 0.4 + 0.2 * secret,
            "since": pd.date_range("2020-01-01", periods=n_rows).astype(str),
        }
    )


@cache
def table_as_csv():
    return make_table().to_csv(index=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table, in which the commands are run."""
    (tmp_path / "in.csv").write_text(table_as_csv())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEST_KEY", KEY.decode())
    (tmp_path / "key").write_bytes(KEY)
    return tmp_path


@pytest.fixture(scope="module")
def form(tmp_path_factory):
    """The form of a release, fitted once; every test gets a copy of its own."""
    source = tmp_path_factory.mktemp("form") / "in.csv"
    source.write_text(table_as_csv())
    assert main(["fit", str(source), str(source.with_name("r.json")), *FIT]) == 0
    return source.with_name("r.json").read_bytes()


@pytest.fixture
def fitted(folder, form):
    """The same folder, with the form of a release."""
    (folder / "r.json").write_bytes(form)
    return folder


FIT = ["--sensitive", "loan", "--public", "cars", "--public", "zip", "--public", "owner"]
KEYED = ["--row-id", "client", "--key-file", "key", "--dataset", "data"]


def left_behind(folder):
    return [path.name for path in folder.iterdir() if path.name.endswith((".partial", ".tmp"))]


def told(capsys):
    """Return what was said on standard error of the last run: one sentence, no traceback."""
    text = capsys.readouterr().err.strip().splitlines()[-1]
    assert "Traceback" not in text
    return text


def test_unseen_values_are_released_as_known_ones_where_that_is_said(fitted, capsys):
    """The advice of the refusal was an argument that `release` did not have."""
    new = make_table().assign(zip="60601", cars=99)
    new.to_csv("new.csv", index=False)
    assert main(["release", "r.json", "new.csv", "out.csv"]) == 2
    assert "pass --unknown nearest (to puffer release)" in told(capsys)
    assert main(["release", "r.json", "new.csv", "out.csv", "--unknown", "nearest"]) == 0
    assert "1,200, of these 600 in '" in capsys.readouterr().err
    given = ["release", "r.json", "new.csv", "out.csv", "--force"]
    assert main([*given, "--unknown", '{ cars = "nearest", zip = "02139" }']) == 0
    assert main([*given, "--unknown", "error"]) == 2
    assert main([*given, "--unknown", "far"]) == 2
    assert "unknown must be one of ['auto', 'error', 'nearest'], got 'far'" in told(capsys)


# ------------------------------------------------------------------------------------- what it is


@pytest.mark.parametrize("command", [[], *COMMANDS], ids=" ".join)
def test_every_help_has_an_example_and_says_what_the_status_means(command, capsys):
    assert main([*command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Exit status: 0" in text
    assert len(command) == 2 or f"  puffer {' '.join(command)}" in text


def test_the_help_is_there_before_anything_heavy_is_imported():
    code = (
        "import sys; from sklearn_puffer.cli import main; status = main(['--help']);"
        "heavy = {'sklearn', 'pandas', 'numpy', 'pyarrow', 'joblib'} & set(sys.modules);"
        "sys.exit(status or bool(heavy))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_it_runs_as_a_module():
    run = subprocess.run(
        [sys.executable, "-m", "sklearn_puffer", "--version"], capture_output=True, text=True
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("puffer ")


def test_fit_takes_every_parameter_of_the_noiser_and_no_other(capsys):
    main(["fit", "--help"])
    text = capsys.readouterr().out
    both = text.partition("parameters of PufferfishNoiser")[2]
    of_noise, _, others = both.partition("parameters of PufferfishMicroaggregator")
    of_rows, _, of_swap = others.partition("parameters of PufferfishSwap")
    names = inspect.signature(PufferfishNoiser).parameters
    assert options_in(of_noise) == {f"--{name.replace('_', '-')}" for name in names}
    known = set(names)
    for text, estimator in ((of_rows, PufferfishMicroaggregator), (of_swap, PufferfishSwap)):
        own = set(inspect.signature(estimator).parameters) - known
        assert options_in(text) == {f"--{name.replace('_', '-')}" for name in own}
        known |= own


def options_in(text):
    return {line.split()[0] for line in text.splitlines() if line.startswith("  --")}


TYPICAL = [*FIT, "--mechanism", "typical-rows", "--n-prototypes", "6"]


def test_typical_rows_are_fitted_and_released_by_the_same_commands(folder, capsys):
    saved = ["--min-size", "40", "--level", "0.9"]
    assert main(["fit", "in.csv", "rows.json", *TYPICAL, *saved]) == 0
    said = capsys.readouterr().out
    assert "A row that was not fitted: whoever knows" in said
    assert "by one fit with --row-id and a key" in said
    assert "puffer report has all losses" in said
    rows = PufferfishRelease.from_json(Path("rows.json"))
    assert rows.certificate_.prototypes.n_prototypes <= 6
    assert rows.certificate_.facts.level == 0.9
    assert Path("rows.json").stat().st_mode & 0o077 == 0  # it holds counts and the channel
    assert main(["release", "rows.json", "in.csv", "one.csv", *KEYED]) == 0
    released = pd.read_csv("one.csv", dtype={"zip": "string"})
    assert (len(released), list(released)) == (600, ["cars", "zip", "owner"])
    assert len(released.drop_duplicates()) <= 6


@pytest.fixture(scope="module")
def form_of_typical_rows(tmp_path_factory):
    source = tmp_path_factory.mktemp("typical") / "in.csv"
    source.write_text(table_as_csv())
    assert main(["fit", str(source), str(source.with_name("rows.json")), *TYPICAL]) == 0
    return source.with_name("rows.json").read_bytes()


def test_another_draw_of_typical_rows_is_warned_of_unless_it_is_keyed(
    folder, capsys, form_of_typical_rows
):
    Path("rows.json").write_bytes(form_of_typical_rows)
    sentence = "each run draws anew, nothing counts this one, and the certificate is for 1 release"
    capsys.readouterr()
    assert main(["release", "rows.json", "in.csv", "keyed.csv", *KEYED]) == 0
    assert sentence not in capsys.readouterr().err
    assert main(["release", "rows.json", "in.csv", "a.csv"]) == 0
    assert capsys.readouterr().err.count(sentence) == 1


def test_a_release_that_nothing_counts_is_warned_of_and_no_other_one(fitted, capsys):
    assert main(["ledger", "create", "l", "r.json"]) == 0
    sentence = "nothing counts this one, and the certificate is for 1 release(s) of a row"
    by_id = "--row-id without a key each run draws anew"
    ways = [([], 1, 0), (["--row-id", "client"], 1, 1), (KEYED, 0, 0), (["--ledger", "l"], 0, 0)]
    for n, (how, *said) in enumerate(ways):
        capsys.readouterr()
        assert main(["release", "r.json", "in.csv", f"{n}.csv", *how]) == 0
        err = capsys.readouterr().err
        assert [err.count(sentence), err.count(by_id)] == said


def test_swaps_of_files_that_share_people_are_warned_of_and_refused_by_a_ledger(folder, capsys):
    assert main(SWAP) == 0
    assert main(["ledger", "create", "l", "swap.json"]) == 0
    make_table()[:400].to_csv("first.csv", index=False)
    make_table()[200:].to_csv("second.csv", index=False)
    for counted, status in (([], 0), (["--ledger", "l"], 1)):
        for name, want in (("first", 0), ("second", status)):
            capsys.readouterr()
            out = f"{name}-{len(counted)}.csv"
            assert main(["release", "swap.json", f"{name}.csv", out, *KEYED, *counted]) == want
            assert Path(out).exists() == (want == 0)
            err = capsys.readouterr().err
            assert err.count("another one of some of these people") == (not counted)
    assert "0 are left. Two swaps of the same people tell more than either" in err
    assert "Other people are another data set (--dataset)" in err
    assert main(["ledger", "show", "l", "swap.json"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "data: 0 more release(s)"


@pytest.mark.parametrize(
    "how",
    [
        ["--n-bins", "4"],
        ["--mechanism", "typical-rows"],
        ["--mechanism", "swap", "--ids", "client"],
    ],
    ids=["noise", "typical rows", "swap"],
)
def test_dates_of_a_csv_file_are_dates_unless_another_type_is_told(folder, capsys, how):
    typed = ["--sensitive", "loan", "--public", "since", *how]
    assert main(["fit", "in.csv", "s.json", *typed, "--type", "since=string"]) == 2
    way = "parse dates (--type COLUMN=date) and name it in --public"
    assert way in told(capsys)
    assert main(["fit", "in.csv", "s.json", *typed]) == 0
    assert main(["release", "s.json", "in.csv", "out.csv", *KEYED]) == 0
    released = pd.read_csv("out.csv")["since"]
    assert pd.to_datetime(released, format="%Y-%m-%d").between("2020-01-01", "2021-12-31").all()


@pytest.mark.parametrize("mechanism", ["noise", "typical-rows", "swap"])
def test_the_refusal_of_a_raw_table_prints_the_command_that_releases_the_rest(
    tmp_path, monkeypatch, capsys, mechanism
):
    monkeypatch.chdir(tmp_path)
    make_people(300, random_state=0).to_csv("people.csv", index=False)
    ids = ["--ids", "client"] * (mechanism == "swap")
    asked = ["fit", "people.csv", "r.json", "--sensitive", "ill", "--mechanism", mechanism, *ids]
    assert main([*asked, "--epsilon", "3"]) == 2
    said = capsys.readouterr().err
    for name in ("mail", "since") if ids else ("client", "mail", "since"):
        assert f"column '{name}' " in said
    command = shlex.split(said.splitlines()[-1].partition("to release the other columns: ")[2])
    assert command[1 : len(asked) + 1] == asked
    assert main(command[1:]) == 0
    assert main(["fit", "people.csv", "r.json", "--sensitive", "sick"]) == 2
    assert "to release the other columns" not in capsys.readouterr().err


def test_a_column_that_cannot_be_read_is_left_out_of_the_command_that_is_printed(folder, capsys):
    rows = pa.Table.from_pandas(make_table().drop(columns="income"))
    odd = pa.array([[k] for k in range(600)])
    pa.parquet.write_table(rows.append_column("odd", odd), "odd.parquet")
    asked = ["fit", "odd.parquet", "s.json", "--sensitive", "loan", "--epsilon", "4"]
    assert main(asked) == 2
    said = capsys.readouterr().err
    assert "column 'odd' " in said
    assert "column 'client' " in said
    assert main(shlex.split(said.rpartition("columns: puffer ")[2])) == 0


@pytest.mark.parametrize("mechanism", ["noise", "typical-rows", "swap"])
def test_dates_that_are_secrets_or_are_passed_on_stay_text(folder, mechanism):
    table = make_table().assign(quarter=lambda t: np.where(t["owner"], "2020-04-01", "2020-01-01"))
    table.to_csv("q.csv", index=False)
    more = ["--ids", "client"] if mechanism == "swap" else []
    asked = ["--sensitive", "quarter", "--public", "cars", "--remainder", "passthrough", *more]
    assert main(["fit", "q.csv", "q.json", "--mechanism", mechanism, "--epsilon", "4", *asked]) == 0
    assert main(["release", "q.json", "q.csv", "out.csv", *KEYED]) == 0
    release = PufferfishRelease.from_json(Path("q.json"))
    assert release.certificate_.pairs[0].secret in ("2020-01-01", "2020-04-01")
    assert sorted(pd.read_csv("out.csv")["since"]) == sorted(table["since"])


def test_dates_are_found_where_every_value_is_one(tmp_path):
    days = {"leap": "2020-02-29", "thirty": "2020-04-31", "short": "2020-2-1", "code": "2020-01-00"}
    path = tmp_path / "days.csv"
    path.write_text(
        "\n".join(",".join(["2021-12-31"] * 4) if k else ",".join(days) for k in (0, 1))
    )
    with path.open("a") as file:
        file.write("\n" + ",".join(days.values()) + "\n")
    types = TableFile(path, CsvLayout()).found_types()
    assert types == {**dict.fromkeys(days, "string"), "leap": "date"}


WRONG_WORDS = {
    "an option's choice": (
        ["report", "r.json", "--external"],
        "try puffer report --kind external.",
    ),
    "a choice of another command": (["plan", "in.csv", "--external"], "puffer report --kind exter"),
    "an option of others": (
        ["audit", "r.json", "in.csv", "--sensitive", "loan"],
        "puffer audit takes no --sensitive; try puffer fit --sensitive or puffer plan --sensitive.",
    ),
    "a misspelt option": (["fit", "in.csv", "s.json", "--sensitiv", "loan"], "'--sensitive'?"),
    "one file too many": (
        ["release", "r.json", "in.csv", "o.csv", "x"],
        "try puffer release --help",
    ),
    "a wrong mechanism": (
        ["fit", "in.csv", "s.json", "--mechanism", "rows"],
        "(choose from 'noise', 'typical-rows', 'swap'); puffer fit --help",
    ),
    "no file": (["fit", "in.csv"], "are required: ARTIFACT; puffer fit --help"),
    "no command": ([], "are required: COMMAND; puffer --help"),
}


@pytest.mark.parametrize("case", WRONG_WORDS)
def test_words_that_a_command_does_not_take_are_refused_in_a_line_with_the_way_out(
    fitted, capsys, case
):
    words, way = WRONG_WORDS[case]
    assert main(words) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith("puffer: ")
    assert way in said


def test_each_fault_of_a_column_has_a_line_and_names_options(folder, capsys):
    make_table().assign(owner=None, income=np.nan).to_csv("in.csv", index=False)
    assert main(["fit", "in.csv", "s.json", "--sensitive", "loan"]) == 2
    first, *lines, way = capsys.readouterr().err.splitlines()
    assert way.startswith("puffer: to release the other columns: puffer fit in.csv s.json --sens")
    assert first.endswith(f"{len(lines)} faults were found in the columns of the table:")
    assert all(line.startswith("  column '") and "--" in line for line in lines)
    assert not re.search(r"\bX\b|[a-z]=", "".join(lines))


def test_messages_name_options_and_leave_names_of_columns_as_they_are():
    said = """column 'X' of X (sensitive={'age': 5}) has missing="error"; known='X', level=None."""
    assert as_typed(said) == (
        "column 'X' of the table (--sensitive '{age = 5}') has --missing error; "
        "--known X, --level none."
    )
    assert as_typed(UNOWNED).endswith("number them: in a column named id, --ids id.")
    assert as_typed("public names column 'a=b'; fit public columns, or n_bins.") == (
        "--public names column 'a=b'; fit public columns, or --n-bins."
    )


def test_the_notes_of_a_page_name_options_and_its_figures_stay():
    page = "  row  way\n  0    X=None\n  - 'mail' is left out: name it in public=."
    assert (
        text_of(page) == "  row  way\n  0    X=None\n  - 'mail' is left out: name it in --public."
    )


def test_secrets_that_are_numbers_are_binned_by_a_typed_table(folder):
    asked = ["--sensitive", "{income = 3}", "--public", "cars"]
    assert main(["fit", "in.csv", "r.json", *asked]) == 0
    pairs = PufferfishRelease.from_json(Path("r.json")).certificate_.pairs
    assert len({pair.secret for pair in pairs}) == 3


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("give it, or sensitive_features as in fit.", "give a table that has it."),
        ("leave it out, see utility_, and", "leave it out, see puffer report, and"),
        ("certificate_.details() has all losses", "puffer report has all losses"),
        ('pass exhausted="withhold" to leave', "pass --withhold to leave"),
        ("convert it with astype(str).", "convert it with --type COLUMN=string."),
    ],
)
def test_messages_name_commands_where_python_has_attributes(said, typed):
    assert as_typed(said) == typed


def test_an_audit_without_secrets_asks_for_a_table_and_for_no_option_that_there_is_not(
    fitted, capsys
):
    make_table().drop(columns="loan").to_csv("held.csv", index=False)
    assert main(["audit", "r.json", "held.csv"]) == 2
    text = told(capsys)
    assert "give a table that has it" in text
    assert "sensitive-features" not in text


def test_what_cannot_be_checked_of_typical_rows_is_answered_with_a_command(
    folder, capsys, form_of_typical_rows
):
    Path("rows.json").write_bytes(form_of_typical_rows)
    assert main(["check", "rows.json", "in.csv"]) == 2
    text = told(capsys)
    assert "run `puffer audit` on new rows" in text
    assert "numpy" not in text


SWAP = ["fit", "in.csv", "swap.json", "--mechanism", "swap", "--sensitive", "loan"]
SWAP += ["--public", "cars", "--public", "owner", "--ids", "client", "--known", "zip"]


def test_a_swap_of_a_file_is_fitted_and_released_as_in_memory_under_a_key(folder, capsys):
    assert main(SWAP) == 0
    assert Path("swap.json").stat().st_mode & 0o077 == 0
    table = pd.read_csv("in.csv", dtype={"client": str, "zip": str})
    options = {"ids": "client", "known": "zip", "public": ["cars", "owner"]}
    swap = PufferfishSwap(sensitive="loan", **options).fit(table)
    want = swap.transform(table, row_id="client", key=KEY, dataset="data")
    capsys.readouterr()
    assert main(["release", "swap.json", "in.csv", "one.csv", *KEYED]) == 0
    assert "Certificate: holds" in capsys.readouterr().out
    released = pd.read_csv("one.csv", dtype={"client": str, "zip": str})
    pd.testing.assert_frame_equal(released, want, check_dtype=False)
    assert (released["cars"] != table["cars"]).any()
    persons = ["--persons", "p.sqlite"]
    assert main(["release", "swap.json", "in.csv", "three.csv", *KEYED, *persons]) == 2
    assert "leave --persons out" in told(capsys)
    assert main(["check", "swap.json", "in.csv"]) == 2
    assert "run `puffer audit`" in told(capsys)
    assert not Path("three.csv").exists()


def test_the_release_of_a_swap_that_fit_tells_is_made_as_told_and_again_the_same(folder, capsys):
    assert main(SWAP) == 0
    said = capsys.readouterr().err
    [command] = re.findall(r"to release by it: puffer (release .*)\n", said)
    assert command.endswith("released.csv --row-id client --key-file people.key")
    assert said.index("to make a key") < said.index("to release by it")  # which needs it
    assert "puffer report swap.json --out report.html --audit in.csv\n" in said
    assert main(shlex.split(command)) == 2  # there is no key yet
    [made] = re.findall(r"to make a key that only you can read, once: (.*)\n", said)
    said = capsys.readouterr().err
    assert "--key-file is 'people.key', and there is no such file" in said
    assert f"once: {made}\n" in said
    subprocess.run(["bash", "-euc", made.replace("python", sys.executable)], check=True)
    assert Path("people.key").stat().st_mode & 0o077 == 0
    assert Path("people.key").read_text().startswith("blake2b:")
    assert main(shlex.split(command)) == 0
    released = Path("released.csv").read_bytes()
    assert main([*shlex.split(command), "--force"]) == 0
    assert Path("released.csv").read_bytes() == released
    capsys.readouterr()
    assert main([*SWAP, "--force"]) == 0
    assert "to make a key" not in capsys.readouterr().err  # another one would make another swap


def test_a_swap_of_a_file_without_ids_is_made_once_as_fit_tells(folder, capsys):
    make_table().drop(columns="client").to_csv("in.csv", index=False)
    without = [word for word in SWAP if word not in ("--ids", "client")]
    assert main(without) == 0
    [command] = re.findall(r"to release by it: puffer (release .*)\n", capsys.readouterr().err)
    assert main([*shlex.split(command), "--key-file", "key"]) == 2
    assert "or leave the key out if there are none" in told(capsys)
    assert main(shlex.split(command)) == 0
    assert "keep this output, and release them no second time" in capsys.readouterr().err
    assert sorted(pd.read_csv("released.csv")["cars"]) == sorted(make_table()["cars"])
    assert main(["ledger", "create", "l", "swap.json"]) == 0
    for out, status in (("two.csv", 0), ("three.csv", 1)):
        capsys.readouterr()
        assert main(["release", "swap.json", "in.csv", out, "--ledger", "l"]) == status
        assert "no second time" not in capsys.readouterr().err
    assert not Path("three.csv").exists()


def test_the_command_that_mends_a_swap_names_one_column_of_ids(folder, capsys):
    asked = ["fit", "in.csv", "swap.json", "--mechanism", "swap", "--sensitive", "loan"]
    assert main(asked) == 2
    [command] = re.findall(r"the other columns: puffer (.*)\n", capsys.readouterr().err)
    assert command.endswith("--public zip --public owner --ids client")
    assert main(shlex.split(command)) == 0


def test_messages_about_keys_say_how_one_begins_as_it_is_typed():
    said = "key asks for AES; begin every key with b'blake2b:', on all machines"
    assert as_typed(said).endswith("begin every key with blake2b:, on all machines")


def test_a_swap_of_another_table_shows_the_certificate_of_that_table_once_it_is_released(
    folder, capsys
):
    assert main(SWAP) == 0
    make_table()[:400].to_csv("some.csv", index=False)
    assert main(["ledger", "create", "l", "swap.json"]) == 0
    counted = [*KEYED, "--ledger", "l"]
    for out in ("one.csv", "two.csv"):  # the second repeats the first, for which the ledger is
        capsys.readouterr()
        assert main(["release", "swap.json", "some.csv", out, *counted]) == 0
        assert " on 400 rows and " in capsys.readouterr().out
    assert main(["release", "swap.json", "in.csv", "three.csv", *counted]) == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ([*TYPICAL, "--noise", "swap"], "--noise is no parameter of typical-rows"),
        ([*FIT, "--n-prototypes", "6"], "--n-prototypes is no parameter of noise"),
        ([*FIT, "--matching", "random"], "--matching is no parameter of noise"),
    ],
)
def test_a_parameter_of_another_mechanism_is_refused_by_name(folder, capsys, typed, message):
    assert main(["fit", "in.csv", "r.json", *typed]) == 2
    assert message in told(capsys)
    assert not Path("r.json").exists()


def test_plan_takes_every_parameter_of_the_function_but_the_table(capsys):
    main(["plan", "--help"])
    group = capsys.readouterr().out.partition("parameters of plan")[2]
    options = {line.split()[0] for line in group.splitlines() if line.startswith("  --")}
    names = set(inspect.signature(plan).parameters) - {"table", "settings"}
    assert options == {f"--{name.replace('_', '-')}" for name in names}


def test_a_key_is_never_an_argument_that_a_list_of_processes_shows(fitted, capsys):
    assert main(["release", "r.json", "in.csv", "out.csv", "--row-id", "client", "--key", "k"]) == 2
    assert "puffer release takes no --key (did you mean" in capsys.readouterr().err


# -------------------------------------------------------------------------------------- releasing


def in_memory(name):
    """Return the release by the public interface, of what another reader makes of the table."""
    table = pd.read_csv(name, dtype={"client": str, "zip": str})
    release = PufferfishRelease.from_json(Path("r.json"))
    return release.transform(table, row_id="client", key=Path("key"), dataset="data")


@pytest.mark.parametrize("out", ["out.csv", "out.parquet", "out.tsv"])
@pytest.mark.parametrize("source", ["csv", "parquet"])
def test_under_a_key_a_file_is_released_as_in_memory_to_the_last_bit(fitted, source, out):
    if source == "parquet":
        table = pd.read_csv("in.csv", dtype={"client": str, "zip": str})
        table.to_parquet("in.parquet")
    assert main(["release", "r.json", f"in.{source}", out, *KEYED]) == 0
    if out.endswith(".parquet"):
        found = pd.read_parquet(out)
    else:
        separator = "\t" if out.endswith(".tsv") else ","
        found = pd.read_csv(out, dtype={"zip": str}, sep=separator)
    want = in_memory("in.csv")
    assert found.astype(want.dtypes).equals(want)
    assert left_behind(fitted) == []


def test_a_key_comes_from_the_environment_too(fitted):
    by_name = ["--row-id", "client", "--key-env", "TEST_KEY", "--dataset", "data"]
    assert main(["release", "r.json", "in.csv", "one.csv", *KEYED]) == 0
    assert main(["release", "r.json", "in.csv", "two.csv", *by_name]) == 0
    assert Path("one.csv").read_bytes() == Path("two.csv").read_bytes()


def test_without_a_key_every_run_is_a_release_of_its_own(fitted):
    for name in ("one.csv", "two.csv"):
        assert main(["release", "r.json", "in.csv", name]) == 0
    assert Path("one.csv").read_bytes() != Path("two.csv").read_bytes()


def test_columns_that_are_passed_come_out_as_they_were_written(folder):
    rows = ['007,"a, ""b""",2020-01-01,yes,1', ",,,no,3", '1e5,"",01/02/2020,yes,2'] * 20
    Path("in.csv").write_text("\n".join(["id,text,day,loan,cars", *rows, ""]))
    options = ["--sensitive", "loan", "--public", "cars", "--remainder", "passthrough"]
    assert main(["fit", "in.csv", "r.json", *options]) == 0
    assert main(["release", "r.json", "in.csv", "out.csv"]) == 0
    options = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(["id", "text", "day"], pa.string()),
        strings_can_be_null=True,
        null_values=[""],
        quoted_strings_can_be_null=False,
    )
    before, after = (
        pa.csv.read_csv(name, convert_options=options) for name in ("in.csv", "out.csv")
    )
    assert after.column_names == ["id", "text", "day", "cars"]
    for name in ("id", "text", "day"):
        assert after[name].equals(before[name])


@pytest.mark.slow
def test_types_are_found_in_the_whole_file_and_not_in_its_beginning(folder):
    cars = ["1", "2"] * 300_000 + ["03"]
    Path("in.csv").write_text(
        "loan,cars\n" + "".join(f"{'yn'[k % 2]},{v}\n" for k, v in enumerate(cars))
    )
    options = ["--sensitive", "loan", "--public", "cars", "--epsilon", "30"]
    assert main(["fit", "in.csv", "r.json", *options]) == 0
    [column] = json.loads(Path("r.json").read_text())["columns"]
    assert sorted(column["levels"]) == ["03", "1", "2"]


def test_separators_missing_values_and_types_can_be_told(folder):
    Path("in.csv").write_text("loan;cars;code\n" + "yes;1;7\nno;?;8\nno;3;7\nyes;3;8\n" * 20)
    options = ["--sensitive", "loan", "--public", "cars", "--public", "code"]
    told = ["--separator", ";", "--missing-value", "?", "--type", "code=string"]
    assert main(["fit", "in.csv", "r.json", *options, *told, "--missing", "propagate"]) == 0
    kinds = {c["name"]: c["kind"] for c in json.loads(Path("r.json").read_text())["columns"]}
    assert kinds == {"cars": "integer", "code": "category"}
    assert main(["release", "r.json", "in.csv", "out.csv", *told]) == 0
    assert Path("out.csv").read_text().splitlines()[0] == '"cars";"code"'
    assert pd.read_csv("out.csv", sep=";")["cars"].isna().sum() == 20


ODD_CSV = """zip,flag,day,x,"^n.*$",gap,big,s,text
007,true,2020-01-01,1.5,1,,123456789012345678,a,"x,
y"
010,False,2020-01-02,-.5e1,2,,12345678901234567,b,""
007,,,3,-3,NA,1,a,z
"""


def test_a_column_has_the_type_that_all_of_its_values_have(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text(ODD_CSV)
    file = TableFile(path, CsvLayout())
    rows = file.rows(file.found_types())
    assert rows["zip"].to_pylist() == ["007", "010", "007"]
    found = dict(zip(rows.column_names, map(str, rows.schema.types), strict=True))
    others = {"day": "date32[day]", "flag": "bool", "x": "double", "^n.*$": "int64", "big": "int64"}
    assert found == {**dict.fromkeys(found, "string"), **others}


def test_hostile_names_of_files_and_columns_are_names_alone(folder):
    table = make_table().rename(columns={"cars": 'a "b",\n--force', "zip": "=1+1"})
    source, out = "-in put;$(x)\u00e9.csv", "out {}'\n.csv"
    table.to_csv(source, index=False)
    names = ["--public", 'a "b",\n--force', "--public", "=1+1", "--sensitive", "loan"]
    assert main(["fit", "r.json", *names, "--", source, "r.json"]) == 2
    assert main(["fit", *names, "--", source, "r.json"]) == 0
    assert main(["release", "--", "r.json", source, out]) == 0
    assert list(pd.read_csv(out).columns) == ['a "b",\n--force', "=1+1"]


def form_of(source):
    """Return the form of a fit, but for its date, and what this changes."""
    asked = [source, "r.json", "--sensitive", "loan", *FIT[2:], "--force"]
    assert main(["fit", *asked]) == 0
    dated = r'"date":"[^"]*"|"checksum":"[^"]*"'
    return re.subn(dated, "", Path("r.json").read_text())


@pytest.mark.parametrize("mechanism", ["noise", "typical-rows"])
@pytest.mark.parametrize("source", ["in.csv", "in.parquet"])
def test_a_file_whose_order_tells_the_secret_is_named(folder, capsys, source, mechanism):
    ordered = make_table().sort_values("loan")
    ordered.to_csv("in.csv", index=False)
    ordered.to_parquet("in.parquet", index=False)
    asked = ["--sensitive", "loan", "--public", "cars", "--mechanism", mechanism]
    assert main(["fit", source, "r.json", *asked]) == 0
    told = capsys.readouterr()
    assert "the order of the rows tells 'loan' and is released; shuffle the rows" in told.err
    assert "The order of the rows tells 'loan'" in told.out
    kept = PufferfishRelease.from_json("r.json").certificate_.assumptions
    assert [said for said in kept if "order of the rows" in said and "NOT cover" in said]
    assert not [said for said in kept if "look at no lazy table" in said]


@pytest.mark.parametrize("place", ["loan=1", "a*[b]", "a {b}?"])
def test_no_name_of_a_folder_is_a_pattern_or_a_column(folder, place):
    Path(place).mkdir()
    for other in ("ab", "loan=2"):
        Path(other).mkdir()
        make_table(seed=1).to_parquet(f"{other}/in.parquet", index=False)
    make_table().to_parquet(f"{place}/in.parquet", index=False)
    expected = form_of("in.csv")
    assert form_of(f"{place}/in.parquet") == expected


# --------------------------------------------------------------------------- what is not released


def test_nothing_is_overwritten_without_force(fitted, capsys):
    Path("out.csv").write_text("mine")
    assert main(["release", "r.json", "in.csv", "out.csv"]) == 2
    assert "pass --force" in told(capsys)
    assert Path("out.csv").read_text() == "mine"
    assert main(["release", "r.json", "in.csv", "out.csv", "--force"]) == 0
    assert Path("out.csv").read_text().startswith('"cars"')
    form = Path("r.json").read_bytes()
    assert main(["fit", "in.csv", "r.json", *FIT]) == 2
    assert Path("r.json").read_bytes() == form


@pytest.mark.parametrize("other", ["in.csv", "./in.csv", "link.csv", "hard.csv"])
def test_the_output_is_never_the_input_even_by_force(fitted, capsys, other):
    os.symlink("in.csv", "link.csv")
    os.link("in.csv", "hard.csv")
    before = Path("in.csv").read_bytes()
    assert main(["release", "r.json", "in.csv", other, "--force"]) == 2
    assert "OUTPUT is INPUT itself" in told(capsys)
    assert Path("in.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Empty CSV"),
        (b"client,loan,cars,zip,owner\n", "the table has 0 row(s)"),
        (b"client,cars,zip\na,1,02139\n", "lacks column 'owner'"),
        (b"client,cars,cars,zip,owner\na,1,2,02139,true\n", "more than once"),
        (b"client,cars,zip,owner\na,1,02139\n", "Expected 4 columns"),
        (b"client,cars,zip,owner\na,1,\xff\xfe,true\n", "column 'zip'"),
        (b"client,cars,zip,owner\na,many,02139,true\n", "column 'cars'"),
        (b"client,cars,zip,owner\na,1,99999,true\n", "99999"),
        (b"client,cars,zip,owner\na,,02139,true\n", "cars"),
        (b"client,cars,zip,owner\na,1,02139,true\na,1,02139,true\n", "--row-id 'client'"),
        (b"client,cars,zip,owner\na,1,02139,true\n,1,02139,true\n", "--row-id 'client' is missing"),
    ],
)
def test_a_file_that_does_not_fit_gets_one_sentence_and_leaves_nothing(
    fitted, capsys, content, message
):
    Path("bad.csv").write_bytes(content)
    assert main(["ledger", "create", "l", "r.json", "--dataset", "data"]) == 0
    assert main(["release", "r.json", "bad.csv", "out.csv", *KEYED, "--ledger", "l"]) == 2
    assert message in told(capsys)
    assert not Path("out.csv").exists()
    assert left_behind(fitted) == []
    release = PufferfishRelease.from_json(Path("r.json"))
    assert Ledger.open("l", release).history() == ()  # what is refused costs nothing


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_refused_and_not_waited_for(fitted, capsys):
    os.mkfifo("pipe.csv")
    assert main(["release", "r.json", "pipe.csv", "out.csv"]) == 2
    assert "read more than once" in told(capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["release", "r.json", "absent.csv", "out.csv"], "INPUT is 'absent.csv', and there is no"),
        (["release", "absent", "in.csv", "out.csv"], "ARTIFACT is 'absent', and there is no"),
        (["fit", "absent.csv", "s.json", *FIT], "TABLE is 'absent.csv', and there is no such file"),
        (["release", "r.json", "in.csv", "out.csv", "--key-file", "no"], '32))" > no)'),
        (["report", "r.json", "--audit", "no.csv"], "--audit is 'no.csv', and there is no"),
        (["fit", "in.csv", "s.json"], "fit needs --sensitive NAME"),
        (
            ["fit", "in.csv", "s.json", "--sensitive", "loan", "--public", "cars,zip"],
            "repeat it for several: --public cars --public zip",
        ),
        (["plan", "in.csv", "--sensitive", "loan,zip"], "--sensitive loan --sensitive zip"),
        (["fit", "in.csv", "s.json", *FIT, "--secret-pairs", "[1]"], "--secret-pairs "),
        (["release", "r.json", "in.csv", "there.csv", "--force"], "'there.csv' is a folder"),
        (["fit", "in.csv", "r.json", *FIT], "there is a file 'r.json' already; choose another"),
        (["release", "r.json", ".", "out.csv"], "tables are files that end in"),
        (["release", "r.json", "in.csv", "out.xlsx"], "rename or convert"),
        (["release", "r.json", "in.csv", "no/out.csv"], "No such file"),
        (["release", "in.csv", "in.csv", "out.csv"], "in.csv' is no whole release artifact"),
        (["release", "bad.json", "in.csv", "out.csv"], "no whole release artifact"),
        (["release", "r.json", "bad.parquet", "out.csv"], "cannot be read as PARQUET"),
        (["release", "r.json", "in.csv", "out.csv", "--key-file", "key"], "without --row-id"),
        (["release", "r.json", "in.csv", "out.csv", "--row-id", "nobody"], "--row-id"),
        (
            ["release", "r.json", "in.csv", "out.csv", "--row-id", "zip", "--key-env", "NO"],
            "--key-env names the environment variable 'NO', which is not set",
        ),
        (["release", "r.json", "in.csv", "out.csv", "--ledger", "absent"], "ledger"),
        (["release", "r.json", "in.csv", "out.csv", "--separator", "::"], "one character"),
        (["fit", "semicolons.csv", "s.json", *FIT], "to be separated by ';'; pass that as its sep"),
        (["plan", "tabs.csv", "--sensitive", "loan"], "to be separated by '\\t'; pass that as its"),
        (["release", "r.json", "in.csv", "out.csv", "--type", "cars"], "COLUMN=TYPE"),
        (["release", "r.json", "in.csv", "out.csv", "--type", "cars=day"], "must be one of"),
        (["fit", "in.csv", "r.txt", *FIT], "must end in .json"),
        (["fit", "in.csv", "s.json", "--sensitive", "lone"], "lone"),
        (["fit", "in.csv", "s.json", *FIT, "--epsilon", "-1"], "epsilon"),
        (["fit", "in.csv", "s.json", *FIT, "--noise", "gamma"], "noise"),
        (["fit", "in.csv", "s.json", *FIT, "--random-state", "1"], "holds no seed"),
        (["fit", "in.csv", "s.json", *FIT, "--type", "lone=string"], "--type names column 'lone'"),
        (["report", "r.json", "--out", "r.pdf"], ".html, .json or .txt"),
        (["report", "r.json", "--audit", "in.csv", "--out", "in.csv"], "must end in .html"),
        (["audit", "r.json", "in.csv", "--out", "r.pdf"], ".html, .json or .txt"),
        (["audit", "r.json", "in.csv", "--out", "in.csv"], "must end in .html"),
        (["audit", "r.json", "semicolons.csv"], "separated by ';'"),
        (["audit", "r.json", "in.csv", "--task", "lone"], "task names column 'lone'"),
        (["audit", "r.json", "few.csv"], "table has too few rows to audit (loan"),
    ],
)
def test_wrong_usage_gets_one_sentence_and_status_2(fitted, capsys, arguments, message):
    Path("semicolons.csv").write_text("loan;cars\nno;1\nyes;2\n")
    Path("few.csv").write_text("\n".join(Path("in.csv").read_text().splitlines()[:12]))
    Path("there.csv").mkdir()
    Path("tabs.csv").write_text("loan\tcars\nno\t1\nyes\t2\n")
    Path("bad.json").write_text("{}")
    Path("bad.parquet").write_bytes(b"PAR1 no")
    capsys.readouterr()
    assert main(arguments) == 2
    assert message in told(capsys)
    assert not {"out.csv", "s.json"} & {path.name for path in fitted.iterdir()}
    assert left_behind(fitted) == []


def broken_table():
    """Return rows for whose mixtures the printed theorem is wrong."""
    rng = np.random.default_rng(0)
    secret = np.repeat([0, 1], 300)
    far = np.tile(np.arange(300) < 30, 2)
    values = rng.normal(size=600) + far * np.where(secret, 30, 20)
    return pd.DataFrame({"loan": np.where(secret, "y", "n"), "x": values})


BROKEN = {"prior": "gmm", "strategy": "monge", "delta": 1e-3}


@pytest.mark.slow
def test_where_the_certificate_does_not_hold_the_status_is_1_and_nothing_is_written(folder, capsys):
    broken_table().to_csv("in.csv", index=False)
    options = [f"--{name}={value}" for name, value in BROKEN.items()]
    asked = ["fit", "in.csv", "r.json", "--sensitive", "loan", *options]
    assert main(asked) == 1
    out, err = capsys.readouterr()
    assert out.startswith("Certificate: DOES NOT HOLD")
    assert "the certificate does not hold" in err.splitlines()[-1]
    assert {path.name for path in folder.iterdir()} == {"in.csv", "key"}


def test_a_missing_extra_is_named(fitted, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["release", "r.json", "in.csv", "out.csv"]) == 2
    assert 'pip install "sklearn-puffer[cli]"' in told(capsys)


def test_a_page_without_its_extra_is_refused_before_any_work(fitted, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    templates.cache_clear()
    for command in (["report", "r.json"], ["plan", "in.csv", "--sensitive", "loan"]):
        assert main([*command, "--out", "page.html"]) == 2
        assert 'pip install "sklearn-puffer[report]"' in told(capsys)
    assert main(["report", "r.json", "--out", "page.txt"]) == 0


def test_the_traceback_is_shown_to_whoever_asks_for_it(fitted, capsys):
    assert main(["report", "absent.json", "--traceback"]) == 2
    assert "Traceback" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------- ledgers


def spent(path="l"):
    return sum(each.releases for each in ledger(path).history())


def ledger(path="l"):
    return Ledger.open(path, PufferfishRelease.from_json(Path("r.json")))


def writing(monkeypatch, do):
    """Let something happen before the released rows are written, and what it returns after."""
    write = commands.write_table

    def writes(file, path, table, layout):
        after = do() if table.num_rows else None
        write(file, path, table, layout)
        if after is not None:
            after()

    monkeypatch.setattr(commands, "write_table", writes)


def test_a_release_is_on_record_before_its_first_row(fitted, monkeypatch):
    main(["ledger", "create", "l", "r.json"])
    seen = []
    writing(monkeypatch, lambda: seen.append((spent(), Path("out.csv").exists())))
    assert main(["release", "r.json", "in.csv", "out.csv", "--ledger", "l"]) == 0
    assert seen == [(1, False)]
    assert spent() == 1


def test_what_is_spent_is_not_released_again(fitted, capsys):
    main(["ledger", "create", "l", "r.json"])
    assert main(["release", "r.json", "in.csv", "one.csv", "--ledger", "l"]) == 0
    assert main(["release", "r.json", "in.csv", "two.csv", "--ledger", "l"]) == 1
    assert "overspend" in told(capsys)
    assert not Path("two.csv").exists()
    assert main(["ledger", "show", "l", "r.json"]) == 0
    assert capsys.readouterr().out.endswith("data: 0 more release(s)\n")


def test_a_keyed_release_is_made_again_without_being_counted_twice(fitted, capsys):
    main(["ledger", "create", "l", "r.json"])
    for name in ("one.csv", "two.csv"):
        assert main(["release", "r.json", "in.csv", name, *KEYED, "--ledger", "l"]) == 0
    assert Path("one.csv").read_bytes() == Path("two.csv").read_bytes()
    assert spent() == 1
    assert KEY not in Path("l").read_bytes()


@pytest.mark.parametrize("change", ["rows", "key", "release", "dataset", "type", "no key"])
def test_any_other_keyed_release_is_counted(fitted, capsys, change):
    main(["ledger", "create", "l", "r.json"])
    assert main(["release", "r.json", "in.csv", "one.csv", *KEYED, "--ledger", "l"]) == 0
    asked = list(KEYED)
    if change == "rows":
        table = pd.read_csv("in.csv", dtype=str)
        table["cars"] = table["cars"].to_numpy()[::-1]
        table.to_csv("in.csv", index=False)
    if change == "key":
        Path("key").write_bytes(KEY + b"more")
    if change == "release":
        asked += ["--release", "1"]
    if change == "type":
        asked += ["--type", "client=integer"]
    if change == "no key":
        asked = ["--row-id", "client"]
    if change == "dataset":
        ledger().add("other")
        asked = [*KEYED[:-1], "other"]
    status = main(["release", "r.json", "in.csv", "two.csv", *asked, "--ledger", "l"])
    assert status == (0 if change == "dataset" else 1)


def test_ledgers_are_created_shown_and_spent_from(fitted, capsys):
    assert main(["ledger", "create", "one", "r.json"]) == 0
    assert told(capsys) == "puffer: wrote 'one'"
    assert main(["ledger", "create", "l", "r.json", "--dataset", "a", "--dataset", "b"]) == 0
    assert told(capsys) == "puffer: wrote 'l', for --dataset a and b"
    assert main(["ledger", "spend", "l", "r.json", "--dataset", "b", "--note", "by hand"]) == 0
    assert main(["ledger", "spend", "l", "r.json", "--dataset", "b"]) == 1
    capsys.readouterr()
    assert main(["ledger", "show", "l", "r.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "b: 1 release(s)  by hand"
    assert [line.split(" more")[0] for line in lines[1:]] == ["a: 1", "b: 0"]
    assert main(["ledger", "create", "l", "r.json"]) == 2


# ------------------------------------------------------------------------------------------ persons

BY = ["--row-id", "client", "--key-file", "key", "--dataset", "data", "--persons", "p"]


@pytest.fixture
def by_person(fitted):
    """The same, with a ledger of persons."""
    assert main(["persons", "create", "p", "r.json", "--key-file", "key"]) == 0
    return fitted


def left_of(person, capsys):
    capsys.readouterr()
    assert main(["persons", "left", "p", "r.json", person, "--key-file", "key"]) == 0
    return capsys.readouterr().out


def test_what_each_person_has_spent_is_counted_and_the_same_again_is_free(by_person, capsys):
    assert main(["release", "r.json", "in.csv", "one.csv", *BY]) == 0
    assert main(["release", "r.json", "in.csv", "two.csv", *BY]) == 0
    assert main(["release", "r.json", "in.csv", "three.csv", *KEYED]) == 0
    assert len({Path(f"{name}.csv").read_bytes() for name in ("one", "two", "three")}) == 1
    assert left_of("00017", capsys).startswith("0 more release(s)")
    assert left_of("nobody", capsys).startswith("1 more release(s)")


def test_persons_who_have_spent_all_are_refused_or_withheld(by_person, capsys):
    some = pd.read_csv("in.csv", dtype=str)
    some[:100].to_csv("some.csv", index=False)
    assert main(["release", "r.json", "some.csv", "one.csv", *BY]) == 0
    again = [*BY, "--release", "1"]
    assert main(["release", "r.json", "in.csv", "two.csv", *again]) == 1
    assert "have no release left" in told(capsys)
    assert not Path("two.csv").exists()
    assert main(["release", "r.json", "in.csv", "two.csv", *again, "--withhold"]) == 0
    assert len(pd.read_csv("two.csv")) == 500


def test_a_second_draw_that_nobody_counts_is_refused(by_person, capsys):
    assert main(["release", "r.json", "in.csv", "out.csv", *KEYED, "--release", "1"]) == 1
    assert "--release 1 is beyond the --releases 1 that the certificate is for" in told(capsys)
    assert not Path("out.csv").exists()
    assert main(["release", "r.json", "in.csv", "out.csv", *BY, "--release", "1"]) == 0


def test_a_file_that_is_refused_costs_nobody_anything(by_person, capsys):
    rows = pd.read_csv("in.csv", dtype=str)
    pd.concat([rows, rows[:1].assign(zip="99999", client="x")]).to_csv("bad.csv", index=False)
    assert main(["release", "r.json", "bad.csv", "out.csv", *BY]) == 2
    pd.concat([rows, rows[:1]]).to_csv("bad.csv", index=False)
    assert main(["release", "r.json", "bad.csv", "out.csv", *BY]) == 2
    assert "--row-id 'client'" in told(capsys)
    assert left_of("00017", capsys).startswith("1 more release(s)")


def interrupted():
    raise KeyboardInterrupt


def test_what_was_stopped_is_on_record_and_is_done_again_for_free(by_person, capsys, monkeypatch):
    with monkeypatch.context() as patched:
        writing(patched, interrupted)
        assert main(["release", "r.json", "in.csv", "out.csv", *BY]) == 130
    assert not Path("out.csv").exists()
    assert left_of("00017", capsys).startswith("0 more release(s)")
    assert main(["release", "r.json", "in.csv", "out.csv", *BY]) == 0
    assert len(pd.read_csv("out.csv")) == 600


@pytest.mark.parametrize(
    "asked", [["--persons", "p"], ["--row-id", "client", "--persons", "p"], [*BY, "--ledger", "l"]]
)
def test_persons_are_known_by_ids_and_a_key_and_counted_in_one_place(by_person, capsys, asked):
    main(["ledger", "create", "l", "r.json", "--dataset", "data"])
    assert main(["release", "r.json", "in.csv", "out.csv", *asked]) == 2
    assert "persons" in told(capsys)
    assert not Path("out.csv").exists()


# ------------------------------------------------------------------------------------- interrupts


def test_after_ctrl_c_there_is_no_output_and_the_ledger_has_counted(fitted, capsys, monkeypatch):
    writing(monkeypatch, interrupted)
    main(["ledger", "create", "l", "r.json"])
    assert main(["release", "r.json", "in.csv", "out.csv", "--ledger", "l"]) == 130
    assert "stopped" in told(capsys)
    assert not Path("out.csv").exists()
    assert left_behind(fitted) == []
    assert spent() == 1


def test_a_full_disk_leaves_nothing(fitted, capsys, monkeypatch):
    def full():
        raise OSError(28, "No space left on device")

    writing(monkeypatch, full)
    assert main(["release", "r.json", "in.csv", "out.csv"]) == 2
    assert "No space left" in told(capsys)
    assert left_behind(fitted) == []


def test_an_input_that_changes_meanwhile_is_not_handed_out(fitted, capsys, monkeypatch):
    def changed():
        with open("in.csv", "a") as file:
            file.write("\n")

    writing(monkeypatch, lambda: changed)
    assert main(["release", "r.json", "in.csv", "out.csv"]) == 2
    assert "was changed" in told(capsys)
    assert not Path("out.csv").exists()


def test_an_output_that_appears_meanwhile_is_not_replaced(fitted, capsys, monkeypatch):
    writing(monkeypatch, lambda: lambda: Path("out.csv").write_text("mine"))
    assert main(["release", "r.json", "in.csv", "out.csv"]) == 2
    assert Path("out.csv").read_text() == "mine"
    assert left_behind(fitted) == []


def test_a_released_file_has_the_rights_of_any_new_file(fitted):
    assert main(["release", "r.json", "in.csv", "out.csv"]) == 0
    Path("plain").write_text("")
    rights = [stat.S_IMODE(Path(name).stat().st_mode) for name in ("out.csv", "plain")]
    assert rights[0] == rights[1]


@pytest.mark.skipif(os.name == "nt", reason="this system has no such rights")
def test_key_material_is_for_its_owner_alone_from_its_first_byte(folder, monkeypatch):
    def rights():
        return {path.name: stat.S_IMODE(path.stat().st_mode) for path in Path().iterdir()}

    asked = ["in.csv", "r.json", "--sensitive", "loan", "--public", "cars"]
    named, before = document._put, rights()
    seen = []
    monkeypatch.setattr(
        document, "_put", lambda fresh, place: (seen.append(rights()), named(fresh, place))
    )
    mask = os.umask(0)
    try:
        assert main(["fit", *asked]) == 0
        assert main(["ledger", "create", "l.ledger", "r.json"]) == 0
        assert main(["fit", "in.csv", "rows.json", *TYPICAL]) == 0
    finally:
        os.umask(mask)
    form = 0o666  # which is no key material
    wanted = {"rows.json": 0o600, "l.ledger": 0o600, "r.json": form}
    assert {name: mode for name, mode in rights().items() if name not in before} == wanted
    first = [mode for each in seen for name, mode in each.items() if name.startswith(".puffer")]
    assert first == [form, 0o600, 0o600]


# ---------------------------------------------------------------------------------------- reports


def test_the_report_is_shown_and_written(fitted, capsys):
    capsys.readouterr()
    assert main(["report", "r.json"]) == 0
    assert capsys.readouterr().out.startswith("Report: the certificate holds")
    for name in ("c.txt", "c.html", "c.json"):
        assert main(["report", "r.json", "--out", name]) == 0
    certificate = PufferfishRelease.from_json(Path("r.json")).certificate_
    assert json.loads(Path("c.json").read_text())["certificate"] == certificate.to_dict()
    assert Path("c.html").read_text().startswith("<!doctype html>")
    assert Path("c.txt").read_text().startswith("Report: the certificate holds")
    form = Path("r.json").read_bytes()
    assert main(["report", "r.json", "--out", "./r.json", "--force"]) == 2
    assert Path("r.json").read_bytes() == form


def test_a_report_for_recipients_has_no_certificate(fitted, capsys):
    told = ["--kind", "external", "--name", "clients", "--by", "me", "--out"]
    assert main(["report", "r.json", *told, "c.json"]) == 0
    found = json.loads(Path("c.json").read_text())
    assert (found["kind"], found["name"], found["by"]) == ("external", "clients", "me")
    assert "certificate" not in found


@pytest.mark.slow
def test_a_report_has_the_audit_that_is_asked_for(fitted, capsys):
    make_table(seed=5).to_csv("held.csv", index=False)
    asked = ["report", "r.json", "--audit", "held.csv"]
    assert main([*asked, "--out", "c.json"]) == 0
    found = json.loads(Path("c.json").read_text())
    sections = {section["title"]: section for section in found["sections"]}
    figures = {row[0]: row[1:] for row in sections["At a glance"]["table"]["rows"]}
    assert "2.72 times allowed" in figures["Nearest to the limit"][1]
    assert any(line.startswith("Audit") for line in found["lines"])
    assert found["audit"]["rows"]["given"] == 600


def test_no_name_reaches_the_terminal_as_a_command(fitted, capsys):
    assert main(["report", "a\x1b[2J.json"]) == 2
    assert main(["fit", "in.csv", "s.json", "--sensitive", "\x1b[2J"]) == 2
    assert "\x1b" not in capsys.readouterr().err


# ------------------------------------------------------------------------------- before and after


@pytest.mark.slow
def test_a_plan_is_that_of_the_function(folder, capsys):
    asked = ["plan", "in.csv", "--sensitive", "loan", "--epsilon", "0.5"]
    asked += ["--public", "cars", "--public", "owner"]
    assert main([*asked, "--out", "plan.json"]) == 0
    found = json.loads(Path("plan.json").read_text())
    table = pd.read_csv("in.csv", dtype={"client": str, "zip": str})
    want = plan(table, "loan", epsilon=0.5, public=["cars", "owner"]).to_dict()
    kept = ("setting", "promise", "change", "attack", "loss")
    assert [[row[k] for k in kept] for row in found["settings"]] == [
        [row[k] for k in kept] for row in want["settings"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--ids", "client", "--task", "owner"]])
def test_a_plan_tells_a_command_that_fits_the_setting_that_it_measured(
    folder, capsys, monkeypatch, more
):
    seen = []
    asked = ["--sensitive", "loan", "--public", "cars", "--public", "zip"]
    assert main(["plan", "in.csv", *asked, *more, "--epsilon", "2", "--out", "p.json"]) == 0
    command = capsys.readouterr().err.rpartition("to fit row 0: puffer ")[2]
    with monkeypatch.context() as patched:
        patched.setattr(TableRelease, "to_json", lambda fitted: seen.append(fitted) or "{}")
        assert main(shlex.split(command)) == 0
    [fitted] = seen
    settings = json.loads(Path("p.json").read_text())["settings"]
    row = settings[0]
    assert row["estimator"] == type(fitted).__name__
    assert fitted.certificate_.epsilon == 2.0
    for name, wanted in row["params"].items():
        value = getattr(fitted, name)
        assert wanted in (repr(value), repr([value]))  # a name alone is one in a list


def test_a_plan_needs_to_know_what_is_sensitive(folder, capsys):
    assert main(["plan", "in.csv"]) == 2
    assert "--sensitive" in told(capsys)
    assert main(["plan", "in.csv", "--sensitive", "loan", "--out", "plan.pdf"]) == 2


def test_the_command_that_a_plan_tells_reads_the_file_as_the_plan_did(folder, capsys):
    Path("in.txt.csv").write_text(table_as_csv().replace(",", ";"))
    layout = ["--separator", ";", "--missing-value", "?", "--type", "zip=string"]
    asked = ["--sensitive", "loan", "--public", "cars", "--epsilon", "2"]
    assert main(["plan", "in.txt.csv", *asked, *layout]) == 0
    [command] = re.findall(r"to fit row 0: puffer (fit .*)", told(capsys))
    assert main(shlex.split(command)) == 0
    [command] = re.findall(r"to release by it: puffer (release .*)", told(capsys))
    assert main(shlex.split(command)) == 0  # so does the one that fit tells


def test_the_command_that_a_plan_tells_has_the_bins_of_secrets(folder, capsys):
    asked = ["--sensitive", "{income = 3}", "--public", "cars", "--public", "zip"]
    assert main(["plan", "in.csv", *asked, "--epsilon", "2"]) == 0
    [command] = re.findall(r"to fit row 0: puffer (fit .*)", told(capsys))
    assert "--sensitive '{income = 3}' --public cars --public zip" in command
    assert main(shlex.split(command)) == 0


def test_the_notes_of_a_plan_name_options_on_its_pages_too(folder):
    asked = ["plan", "in.csv", "--sensitive", "loan", "--public", "cars", "--task", "owner"]
    assert main([*asked, "--out", "plan.json"]) == 0
    notes = " ".join(json.loads(Path("plan.json").read_text())["notes"])
    assert "name it in --known, too" in notes
    asked = ["plan", "in.csv", "--sensitive", "loan", "--public", "cars", "--epsilon", "0.001"]
    assert main([*asked, "--out", "plan.html"]) == 0
    page = Path("plan.html").read_text()
    assert "name it in --ids, or shuffle the rows and number them" in page
    assert "ids=" not in page


def test_typical_rows_are_grouped_for_a_label_on_the_command_line_as_in_memory(folder, capsys):
    asked = ["fit", "in.csv", "rows.json", "--mechanism", "typical-rows", "--sensitive", "loan"]
    asked += ["--n-prototypes", "6", "--label", "owner"]
    table = pd.read_csv("in.csv", dtype={"client": str, "zip": str})
    table = table[["loan", "cars", "zip", "owner"]]
    table.to_csv("in.csv", index=False)
    assert main(asked) == 0
    rows = PufferfishRelease.from_json(Path("rows.json"))
    want = PufferfishMicroaggregator(sensitive="loan", public=["cars", "zip"], n_prototypes=6)
    want.fit(table.drop(columns="owner"), table["owner"])
    assert list(rows.get_feature_names_out()) == ["cars", "zip"]
    assert rows.certificate_.fingerprint == want.certificate_.fingerprint
    assert main(["release", "rows.json", "in.csv", "out.csv"]) == 0
    assert list(pd.read_csv("out.csv")) == ["cars", "zip"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--label", "owner"], "--label 'owner' groups typical rows, and noise has none"),
        (["--label", "own", "--mechanism", "typical-rows"], "--label names column 'own', and"),
        (["--label", "loan", "--mechanism", "typical-rows"], "take another --label"),
    ],
)
def test_a_label_that_groups_nothing_is_refused(folder, capsys, more, message):
    assert main(["fit", "in.csv", "r.json", *FIT[:4], *more]) == 2
    assert message in told(capsys)


def test_a_plan_without_a_row_worth_a_command_says_so(folder, capsys):
    asked = ["--sensitive", "loan", "--public", "cars", "--epsilon", "0.001"]
    assert main(["plan", "in.csv", *asked]) == 0
    assert "no command is told: no row that holds" in told(capsys)


def test_rows_that_look_otherwise_are_told_by_the_status(folder, capsys):
    assert main(["fit", "in.csv", "r.json", *FIT]) == 0
    make_table().assign(cars=6).to_csv("new.csv", index=False)
    assert main(["check", "r.json", "in.csv"]) == 0
    assert main(["check", "r.json", "new.csv", "--out", "c.json"]) == 1
    noiser = PufferfishRelease.from_json(Path("r.json"))
    want = noiser.certificate_.check(pd.read_csv("new.csv", dtype={"zip": str}))
    assert Path("c.json").read_text() == want.to_json()


@pytest.mark.slow
@pytest.mark.usefixtures("seeded_draws")  # a finding would be a status
def test_an_audit_is_that_of_the_function_and_tells_how_far_it_is(folder, capsys, monkeypatch):
    make_table(500, seed=1).to_csv("held.csv", index=False)
    options = ["--epsilon", "1", "--unknown", "nearest"]
    assert main(["fit", "in.csv", "r.json", *FIT, *options]) == 0
    monkeypatch.setattr(progress, "EVERY", 0.01)
    asked = ["audit", "r.json", "held.csv", "--task", "income"]
    assert main([*asked, "--out", "a.json"]) == 0
    assert "stages of an audit" in capsys.readouterr().err
    found = json.loads(Path("a.json").read_text())
    table = pd.read_csv("held.csv", dtype={"zip": str, "client": str})
    want = audit(PufferfishRelease.from_json(Path("r.json")), table, task="income").to_dict()
    drawn_alike = ("attacker", "secret", "against", "n", "n_against", "allowed", "certified")
    assert [[own[k] for k in drawn_alike] for own in found["attacks"]] == [
        [own[k] for k in drawn_alike] for own in want["attacks"]
    ]
    for key in ("promise", "rows", "control", "notes", "untested"):
        assert found[key] == want[key]


@pytest.mark.slow
def test_an_audit_that_finds_more_than_was_guaranteed_is_told_by_the_status(folder, capsys):
    """Fitted where cars tell nothing, and audited where they tell all."""
    table = make_table(2000)
    table.assign(cars=np.arange(2000) % 5).to_csv("in.csv", index=False)
    asked = ["--sensitive", "loan", "--public", "cars", "--unknown", "nearest"]
    assert main(["fit", "in.csv", "r.json", *asked]) == 0
    table.assign(cars=np.where(table["loan"] == "yes", 4, 0)).to_csv("held.csv", index=False)
    capsys.readouterr()
    assert main(["audit", "r.json", "held.csv", "--quiet"]) == 1
    said = capsys.readouterr()
    assert "MORE THAN WAS PROMISED" in said.out
    assert "stages" not in said.err


# ------------------------------------------------------------------------------ killed, and large


def run_until(ready, how, *arguments):
    """Run a command, and end it by a signal when something is so; return its status."""
    run = processes().Process(target=run_quietly, args=arguments)
    run.start()
    while run.is_alive() and not ready():
        time.sleep(0.005)
    os.kill(run.pid, how)
    run.join()
    return run.exitcode


def run_quietly(*arguments):
    """Run a command as `python -m sklearn_puffer` does, in a process of its own."""
    with open(os.devnull, "w") as sys.stderr:
        sys.exit(main(arguments))


def partial(folder, size):
    """Return whether a part of the output of more than that size is there."""
    return any(path.stat().st_size > size for path in folder.glob(".puffer-*.partial"))


@pytest.fixture
def large(fitted):
    pd.concat([make_table(50_000, seed) for seed in range(2)]).assign(
        client=[f"{k:07d}" for k in range(100_000)]
    ).to_csv("large.csv", index=False)
    return fitted


@pytest.mark.slow
def test_a_run_that_is_ended_leaves_nothing_and_is_done_again(large):
    Path("key").write_bytes(KEY.removeprefix(b"blake2b:"))
    ends = {
        signal.SIGTERM: ((0,), 143),
        signal.SIGINT: ((0,), 130),
        signal.SIGKILL: ((-1, 0, 900_000), -9),
    }
    for how, (sizes, status) in ends.items():
        ledger_file = f"l{status}"
        main(["ledger", "create", ledger_file, "r.json"])
        asked = ["release", "r.json", "large.csv", "out.csv", *KEYED, "--ledger", ledger_file]
        for size in sizes:
            ended = run_until(lambda size=size: partial(large, size), how, *asked, "--quiet")
            assert ended == status
            assert not Path("out.csv").exists()
            assert size < 0 or spent(ledger_file) == 1
            assert how == signal.SIGKILL or left_behind(large) == []
            for path in large.glob(".puffer-*.partial"):
                path.unlink()
    assert main([*asked, "--quiet"]) == 0
    assert spent(ledger_file) == 1
    whole = in_memory("large.csv")
    assert pd.read_csv("out.csv", dtype={"zip": str}).astype(whole.dtypes).equals(whole)


PAGE = Path(__file__).parents[1] / "docs" / "command_line.md"


def run_line(line):
    """Run a line of a shell, in this process if it is ours."""
    if line.startswith("puffer "):
        return main(shlex.split(line)[1:])
    return subprocess.run(["bash", "-euc", line]).returncode


@pytest.mark.slow
@pytest.mark.usefixtures("seeded_draws")  # a finding would be a status
def test_the_page_about_the_command_line_runs_from_top_to_bottom(tmp_path, monkeypatch):
    """As a reader would copy it: what is written to files is written, and all commands succeed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for kind, text in re.findall(r"```(python|bash)\n(.*?)```", PAGE.read_text(), re.DOTALL):
        if kind == "python":
            exec(text, {})
        elif "pip install" not in text:
            lines = text.replace("\\\n", " ").splitlines()
            assert [line for line in lines if run_line(line) != 0] == []
    assert {"plan.html", "audit.html", "first.csv", "by_person.csv"} <= set(os.listdir())
