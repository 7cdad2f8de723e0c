"""Every example runs, and prints and writes what it says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import joblib
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def run(tmp_path):
    """Run an example in an empty folder, without a warning of ours, and return what it prints."""

    def run_example(name, *arguments):
        command = [
            sys.executable,
            "-W",
            "error::UserWarning",
            str(EXAMPLES / f"{name}.py"),
            *arguments,
        ]
        environment = os.environ | {"MPLCONFIGDIR": str(tmp_path / ".matplotlib")}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_example


def test_every_example_is_run_here():
    here = Path(__file__).read_text(encoding="utf-8")
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == set(re.findall(r'run\("(\w+)"', here))


def test_the_diabetes_release_keeps_the_table_and_costs_64_hundredths(run, tmp_path):
    printed = run("release_diabetes")
    table = load_diabetes(as_frame=True, scaled=False).data[["age", "bmi", "bp"]]
    released = pd.read_csv(tmp_path / "released.csv")
    assert released.shape == table.shape
    assert list(released) == list(table)
    certificate = json.loads((tmp_path / "certificate.json").read_text(encoding="utf-8"))
    assert certificate["holds"] is True
    noiser = joblib.load(tmp_path / "noiser.joblib")
    assert noiser.certificate_.loss <= 1.0
    in_deviations = noiser.theta_ / table.std()
    assert in_deviations.between(0.62, 0.66).all()
    for name, scale in in_deviations.items():
        assert re.search(rf"^{name} +{scale:.2f} ", printed, re.MULTILINE)


def test_the_diabetes_release_goes_where_it_is_told(run, tmp_path):
    run("release_diabetes", "--output", "elsewhere")
    names = {path.name for path in (tmp_path / "elsewhere").iterdir()}
    assert names == {"released.csv", "certificate.json", "noiser.joblib"}


def test_table_4_is_printed_side_by_side_and_drawn(run, tmp_path):
    printed = run("plot_table4")
    student = re.search(r"Student Performance.*?\n0\.1 (.*?)\n", printed, re.DOTALL).group(1)
    assert [float(figure) for figure in student.split()] == [3.39, 3.39, 2.75, 1.57, 53.56]
    assert "saves 47 to 100 %" in printed
    assert (tmp_path / "table4.png").stat().st_size > 0


def test_a_pipeline_learns_from_its_release_and_loses_accuracy_to_small_budgets(run):
    printed = run("pipeline_accuracy")
    loss = dict(
        re.findall(r"^(no noise|epsilon [\d.]+) +[\d.]+ +(-?[\d.]+)$", printed, re.MULTILINE)
    )
    assert list(loss) == ["no noise", *(f"epsilon {budget}" for budget in (0.5, 1.0, 2.0, 4.0))]
    assert 0.05 < float(loss["epsilon 0.5"]) < 0.25
    assert abs(float(loss["epsilon 4.0"])) < 0.05


def test_two_processes_of_production_share_no_noise(run):
    printed = run("production")
    assert "a second process released the same rows: 0 of 126 values agree" in printed
