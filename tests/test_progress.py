"""What a long fit says of itself, how few losses it computes, and that it can be stopped."""

from __future__ import annotations

import os
import re

import numpy as np
import pandas as pd
import pytest
from children import interrupted
from sklearn.base import clone

from sklearn_puffer import (
    PufferfishNoiser,
    PufferfishSGDClassifier,
    PufferfishSGDRegressor,
    PufferfishSum,
)
from sklearn_puffer._base import progress as _progress
from sklearn_puffer._losses.discrete_distributions import DiscretePair
from sklearn_puffer._losses.pair_losses import DiscreteBoxes, DiscreteLine
from sklearn_puffer.accounting import LossTable, privacy_loss
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.fits import MixtureFit
from sklearn_puffer.noise import Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete
from sklearn_puffer.users import User

ESTIMATORS = [
    PufferfishNoiser,
    PufferfishSum,
    PufferfishSGDRegressor,
    PufferfishSGDClassifier,
]
RENYI = RenyiPufferfish(0.5, alpha=2.0)


@pytest.fixture
def at_once(monkeypatch):
    """Let every report be printed, and not only those two seconds apart."""
    monkeypatch.setattr(_progress, "EVERY", 0.0)


def table(n_rows=300, n_secrets=6, n_values=4):
    rng = np.random.default_rng(5)
    secret = np.arange(n_rows) % n_secrets
    visits = (rng.integers(0, n_values, n_rows) + secret % 2) % n_values
    return pd.DataFrame({"visits": visits, "illness": [f"illness {k}" for k in secret]})


def distributions(n_distributions, atoms):
    rng = np.random.default_rng(3)
    return [
        Discrete.from_counts(atoms, rng.integers(1, 40, len(atoms))) for _ in range(n_distributions)
    ]


def all_pairs(priors):
    return [(p, q) for k, p in enumerate(priors) for q in priors[:k]]


@pytest.fixture
def evaluations(monkeypatch):
    """Count the losses of single pairs that are computed."""
    count = []
    for kind in (DiscreteLine, DiscreteBoxes):

        def counting(self, *arguments, interval=kind.interval):
            count.append(self)
            return interval(self, *arguments)

        monkeypatch.setattr(kind, "interval", counting)
    return count


# ------------------------------------------------------------------------------------- reports


def test_a_verbose_fit_tells_what_it_does_on_standard_error(at_once, capsys):
    PufferfishNoiser(alpha=2.0, epsilon=0.05, sensitive="illness", verbose=1).fit(table())
    out, err = capsys.readouterr()
    assert out == ""
    assert all(line.startswith("sklearn_puffer: ") for line in err.splitlines())
    assert "secret pairs: 3 of " in err
    assert re.search(r"; about \d\d:\d\d left", err)


def test_a_report_names_no_secret_and_no_value(at_once, capsys):
    PufferfishNoiser(alpha=2.0, epsilon=0.05, sensitive="illness", verbose=1).fit(table())
    err = capsys.readouterr().err
    assert err
    assert "illness" not in err
    assert "." not in err  # no loss and no scale: counts are whole


@pytest.mark.parametrize("verbose", [0, False])
def test_without_verbose_nothing_is_printed(at_once, verbose, capsys):
    noiser = PufferfishNoiser(alpha=2.0, epsilon=0.05, sensitive="illness", verbose=verbose)
    noiser.fit(table())
    assert capsys.readouterr() == ("", "")


def test_a_fit_that_is_done_at_once_says_nothing(capsys):
    PufferfishNoiser(epsilon=0.01, sensitive="illness", verbose=1).fit(
        table(n_secrets=2, n_values=3)
    )
    assert capsys.readouterr() == ("", "")


def test_a_sum_reports_too(at_once, capsys):
    users = [User(Discrete([0, 1, 3], [0.5, 0.3, 0.2]), count=5)]
    PufferfishSum(epsilon=0.1, verbose=1).fit(users)
    assert "noise scales tried" in capsys.readouterr().err


def test_nobody_listens_after_a_fit_that_failed(at_once, capsys):
    with pytest.raises(ValueError, match="strategy"):
        PufferfishNoiser(sensitive="illness", strategy="none", verbose=1).fit(table())
    capsys.readouterr()
    list(_progress.counted([1, 2], "columns"))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_takes_verbose_and_keeps_it(estimator):
    assert estimator().get_params()["verbose"] == 0
    assert clone(estimator(verbose=2)).verbose == 2
    assert "verbose=2" in repr(estimator(verbose=2))


@pytest.mark.parametrize("verbose", [-1, "yes", 0.5])
def test_a_verbose_that_is_no_count_is_refused(verbose):
    with pytest.raises((TypeError, ValueError), match="verbose must be"):
        PufferfishNoiser(sensitive="illness", verbose=verbose).fit(table())


# ---------------------------------------------------------------------------------- few losses


@pytest.mark.parametrize(
    ("noise", "notion"),
    [
        pytest.param(Gaussian(1.0), RENYI, marks=pytest.mark.slow),
        (Laplace(1.0), RENYI),
        pytest.param(Gaussian(1.0), Pufferfish(0.3, delta=1e-3), marks=pytest.mark.slow),
    ],
)
def test_of_many_pairs_only_the_worst_are_searched(noise, notion, evaluations):
    pairs = all_pairs(distributions(6, np.arange(3.0)))
    found = calibrate(pairs, notion, noise=noise)
    assert len(evaluations) < 3 * len(pairs)  # each step of the search for all of them: ten times
    alone = [calibrate([pair], notion, noise=noise).scale for pair in pairs]
    assert found.scale == pytest.approx(max(alone), rel=1e-9)
    assert found.scale >= max(alone) * (1.0 - 1e-12)
    assert alone[found.worst_pair] == max(alone)


@pytest.mark.slow
def test_a_fit_computes_each_loss_about_once(evaluations):
    noiser = PufferfishNoiser(alpha=2.0, epsilon=0.05, noise="gaussian", sensitive="illness")
    noiser.fit(table(n_secrets=12))
    assert len(evaluations) < 1.5 * 66
    assert noiser.certificate_.holds


def test_the_order_of_pairs_changes_no_scale():
    pairs = all_pairs(distributions(5, np.arange(3.0)))
    one = calibrate(pairs, RENYI, noise="gaussian").scale
    assert calibrate(pairs[::-1], RENYI, noise="gaussian").scale == pytest.approx(one, rel=1e-11)


def test_the_losses_at_the_scale_of_many_pairs_are_within_the_budget():
    pairs = all_pairs(distributions(5, np.arange(3.0)))
    scale = calibrate(pairs, RENYI, noise="gaussian").scale
    upper = LossTable(pairs, RENYI).intervals(Gaussian(scale))[1]
    assert upper.max() <= RENYI.budget
    assert upper.max() == pytest.approx(RENYI.budget, rel=1e-6)


@pytest.mark.slow
def test_a_search_on_the_plane_ends_where_its_losses_are_no_finer(evaluations):
    atoms = np.array([[a, b] for a in range(6) for b in range(6)], dtype=float)
    pairs = all_pairs(distributions(3, atoms))
    found = calibrate(pairs, RENYI, noise="laplace")
    assert len(evaluations) < 30  # 60 where each step is taken for all pairs, and to the last digit
    upper = LossTable(pairs, RENYI).intervals(Laplace(found.scale))[1]
    assert 0.998 * RENYI.budget < upper.max() <= RENYI.budget


def test_tails_that_hardly_fall_are_reached_in_few_steps(monkeypatch):
    steps = []

    def counting(self, edge, side, tail=DiscretePair.tail):
        steps.append(edge)
        return tail(self, edge, side)

    monkeypatch.setattr(DiscretePair, "tail", counting)
    p, q = Discrete([0, 1], [0.7, 0.3]), Discrete([0, 1], [0.3, 0.7])
    loss = privacy_loss(p, q, GeneralizedCauchy(0.1, k=1.01), RENYI)
    assert len(steps) < 450  # 3,168 where each step is half as long again as the last
    assert loss.upper - loss.lower <= 1e-8 * loss.upper


def test_joint_columns_without_a_bound_are_refused_before_anything_is_fitted(monkeypatch):
    monkeypatch.setattr(MixtureFit, "fit_all", None)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40)})
    frame["s"] = np.arange(40) % 2
    with pytest.raises(ValueError, match="use noise='laplace' with strategy='exact'"):
        PufferfishNoiser(sensitive="s", prior="gmm", strategy="wasserstein").fit(frame)


# ------------------------------------------------------------------------------------- a way out

LONG = """
import numpy as np, pandas as pd, sys
from sklearn_puffer import PufferfishNoiser

rng = np.random.default_rng(0)
table = pd.DataFrame({"s": np.arange(3000) % 50, "a": rng.integers(0, 80, 3000)})
noiser = PufferfishNoiser(epsilon=0.05, alpha=8.0, noise="gaussian", sensitive="s", verbose=1)
print("fitting", flush=True)
try:
    noiser.fit(table)
except KeyboardInterrupt:
    print("stopped", sorted(name for name in vars(noiser) if name.endswith("_")), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no such signal there")
def test_ctrl_c_stops_a_long_fit_and_leaves_nothing_half_done():
    assert interrupted(LONG, after=2.0) == "fitting\nstopped []\n"
