"""Numbers beyond all floats, odd objects and far-off units: refused by name, never by accident."""

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import (
    PufferfishNoiser,
    PufferfishSGDClassifier,
    PufferfishSGDRegressor,
    PufferfishSum,
)
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture
from sklearn_puffer.users import User

HUGE = 10**400
ENDLESS = 10**5000  # which Python does not even print
FRAME = pd.DataFrame({"s": [0, 1] * 20, "a": [0, 1, 2, 3] * 10, "b": [0.5, 1.5] * 20})
ROWS = np.column_stack([FRAME["a"], FRAME["b"]]).astype(float)
Y = ROWS[:, 0]
OBJECTS = np.array([[HUGE, 1], [0, 1]] * 20, dtype=object)
CROWD = [User(Discrete([0, 1], [0.5, 0.5]), count=5)]
PAIR = (Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.4, 0.6]))


def fitted(**options):
    return PufferfishNoiser(sensitive="s", **options).fit(FRAME)


def answering(**options):
    return PufferfishSum(**options).fit(CROWD)


CASES = {
    "weights": (r"weights\['a'\]", lambda: fitted(weights={"a": HUGE, "b": 1})),
    "weights, endless": (r"weights\['a'\]", lambda: fitted(weights={"a": ENDLESS, "b": 1})),
    "epsilon": ("epsilon must be", lambda: fitted(epsilon=ENDLESS)),
    "delta": ("delta must lie", lambda: fitted(delta=ENDLESS)),
    "alpha": ("alpha must be at most 1e\\+06", lambda: fitted(alpha=1e308)),
    "alpha, endless": ("alpha must be", lambda: fitted(alpha=ENDLESS)),
    "releases": ("releases must be", lambda: fitted(releases=ENDLESS)),
    "n_bins": ("n_bins must be", lambda: fitted(n_bins=ENDLESS)),
    "n_jobs": ("n_jobs must be at most", lambda: fitted(n_jobs=ENDLESS)),
    "atoms": ("atoms must hold", lambda: Discrete([HUGE, 1], [0.5, 0.5])),
    "masses": ("probabilities must hold", lambda: Discrete([0, 1], [HUGE, 0.5])),
    "means": ("means must hold", lambda: GaussianMixture([1], [HUGE], [1])),
    "scales": ("scales must hold", lambda: GaussianMixture([1], [1], [HUGE])),
    "scale": ("scale must be", lambda: Laplace(ENDLESS)),
    "column": ("column 'a'", lambda: PufferfishNoiser(sensitive="s").fit(FRAME.assign(a=HUGE))),
    "secret": ("column 's'", lambda: PufferfishNoiser(sensitive="s").fit(FRAME.assign(s=HUGE))),
    "later": ("column 'a'", lambda: fitted().transform(FRAME.assign(a=HUGE))),
    "report": ("column 'value' holds", lambda: answering().release([HUGE, 0, 0, 0, 0])),
    "sum": ("epsilon must be at most", lambda: answering(epsilon=1e308)),
    "order": (
        "alpha must be at most",
        lambda: PufferfishSGDRegressor(alpha=1e308).fit(ROWS, ROWS[:, 0]),
    ),
    "records": ("X or y", lambda: PufferfishSGDRegressor().fit(OBJECTS, ROWS[:, 0])),
    "targets": ("X or y", lambda: PufferfishSGDRegressor().fit(ROWS, OBJECTS[:, 0])),
    "classes": ("X or y", lambda: PufferfishSGDClassifier().fit(OBJECTS, FRAME["s"])),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_numbers_beyond_all_floats_are_refused_by_name(name):
    message, call = CASES[name]
    with pytest.raises((TypeError, ValueError), match=message) as refusal:
        call()
    assert len(str(refusal.value)) < 400


def of(**attributes):
    return lambda pairs, noise, notion: type("Bound", (), attributes)()


STRATEGIES = {
    "nothing": lambda pairs, noise, notion: None,
    "no losses": of(guess=1.0),
    "no guess": of(losses=lambda self, factor: np.zeros((1, 2))),
    "a guess that is none": of(guess="1", losses=lambda self, factor: np.zeros((1, 2))),
    "losses of another shape": of(guess=1.0, losses=lambda self, factor: np.zeros(3)),
    "losses that are no numbers": of(guess=1.0, losses=lambda self, factor: None),
    "losses that are NaN": of(guess=1.0, losses=lambda self, factor: np.full((1, 2), np.nan)),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_that_gives_no_bound_is_refused_by_name(name):
    with pytest.raises(TypeError, match="strategy"):
        fitted(strategy=STRATEGIES[name], public="a")
    with pytest.raises(TypeError, match="strategy"):
        calibrate([PAIR], Pufferfish(1.0), strategy=STRATEGIES[name])


@pytest.mark.parametrize("n_jobs", ["all", 0, 1.5, True, 10**9])
def test_jobs_changed_after_fit_are_checked_where_they_are_used(n_jobs):
    noiser = fitted(public="a").set_params(n_jobs=n_jobs)
    with pytest.raises((TypeError, ValueError), match="n_jobs must"):
        noiser.transform(FRAME)


NOISES = [
    ("laplace", {}),
    ("gaussian", {"delta": 1e-3}),
    ("gaussian", {"alpha": 2.0}),
    ("cauchy", {}),
]


@pytest.mark.parametrize(("noise", "options"), NOISES)
@pytest.mark.parametrize("unit", [1e300, 1e-300, 5e-324])
def test_a_column_in_an_impossible_unit_is_named_under_every_noise(noise, options, unit):
    far = FRAME.assign(b=FRAME["b"] * 2 * unit)
    with pytest.raises(ValueError, match=r"column 'b'.* give it in another unit"):
        PufferfishNoiser(sensitive="s", public="b", noise=noise, **options).fit(far)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("noise", "options"), NOISES)
@pytest.mark.parametrize("unit", [1e119, pytest.param(1e-118, marks=pytest.mark.slow)])
def test_units_within_the_limits_scale_the_noise_and_nothing_else(noise, options, unit):
    def theta(of):
        frame = FRAME.assign(b=FRAME["a"] * of)
        noiser = PufferfishNoiser(0.2, sensitive="s", public="b", noise=noise, **options)
        return noiser.fit(frame).theta_["b"] / of

    assert theta(unit) == pytest.approx(theta(1.0), rel=1e-9)


@pytest.mark.slow
def test_a_wheel_built_beside_a_stale_build_folder_holds_nothing_of_it(tmp_path):
    checkout = Path(__file__).parents[1]
    copy = tmp_path / "checkout"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (copy / name).write_bytes((checkout / name).read_bytes())
    for source in (checkout / "sklearn_puffer").rglob("*.py"):
        place = copy / source.relative_to(checkout)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(source.read_bytes())
    stale = copy / "build" / "lib" / "sklearn_puffer" / "long_gone.py"
    stale.parent.mkdir(parents=True)
    stale.write_text("", encoding="utf-8")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), "."]
    subprocess.run(build, cwd=copy, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "sklearn_puffer/accounting.py" in names
    assert not [name for name in names if "long_gone" in name]


@pytest.mark.parametrize("epsilon", [1e14, 1e300])
def test_a_budget_that_leaves_nothing_of_delta_is_refused_in_a_sentence(epsilon):
    with pytest.raises(ValueError, match=r"leaves nothing of delta=0.001, .*; take at most 10"):
        fitted(epsilon=epsilon, delta=1e-3, noise="gaussian", public="a")
