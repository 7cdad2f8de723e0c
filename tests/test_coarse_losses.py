"""Lower bounds on the loss of rows from a coarse view of them, and what is said of theorems."""

import warnings

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._losses import coarse_lower, pair_losses
from sklearn_puffer._noiser import problem
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.noise import Cauchy, Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete

CASES = [
    (Laplace(0.8), Pufferfish(1.0)),
    (Gaussian(1.5), Pufferfish(0.1, 1e-5)),
    (Gaussian(1.0), RenyiPufferfish(1.0, 3.0)),
    (Cauchy((0.7, 2.0)), Pufferfish(0.3)),
    (Laplace(1e3), RenyiPufferfish(1e-6, 2.0)),
    (Gaussian(1e-3), Pufferfish(0.5, 1e-3)),
]


def distributions(seed, n_axes):
    rng = np.random.default_rng(seed)
    rows = [[(k >> axis) & 1 for axis in range(n_axes)] for k in range(2**n_axes)]
    counts = rng.integers(0, 9, (2, 2**n_axes))
    counts[:, seed % 2] += 1
    return [Discrete.from_counts(rows, [int(c) for c in each]) for each in counts]


@pytest.mark.parametrize(("noise", "notion"), CASES, ids=str)
def test_a_coarse_view_never_tells_more_than_the_row_and_hardly_less(noise, notion):
    for seed in range(3):
        p, q = distributions(seed, 2)
        exact, lower = privacy_loss(p, q, noise, notion), coarse_lower(p, q, noise, notion).max()
        assert lower <= exact.upper
        assert lower >= 0.9 * exact.lower - 1e-6 * notion.budget


def test_rows_of_three_columns_lose_at_least_what_the_view_tells():
    for seed in range(4):
        p, q = distributions(seed, 3)
        exact = privacy_loss(p, q, Laplace(2.0), Pufferfish(1.0))
        assert 0.9 * exact.lower <= coarse_lower(p, q, Laplace(2.0), Pufferfish(1.0)).max()
        assert coarse_lower(p, q, Laplace(2.0), Pufferfish(1.0)).max() <= exact.upper
    # a shift of three columns has the norm of it
    p, q = (Discrete([[x, x, x]], [1.0]) for x in (0, 1))
    for notion in (Pufferfish(0.1, 1e-5), RenyiPufferfish(1.0, 2.0)):
        exact = float(notion.shift_loss(Gaussian(4.0), np.ones(3)))
        assert 0.9 * exact <= coarse_lower(p, q, Gaussian(4.0), notion).max() <= exact


def test_what_has_no_view_is_bounded_by_nothing():
    p, q = distributions(0, 3)
    assert coarse_lower(p, q, Gaussian(1.0), RenyiPufferfish(1.0, 2.0, 1e-3)).tolist() == [0, 0]


def counted(rows):
    counts = rows.astype(int).value_counts()
    return Discrete.from_counts([list(row) for row in counts.index], [int(c) for c in counts])


OPTIONS = [{"noise": "gaussian", "delta": 1e-5}, {"noise": "cauchy"}, {"alpha": 2.0}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_theorem_in_place_of_the_exact_loss_is_said_and_how_close_it_is(options):
    rng = np.random.default_rng(2)
    secret = rng.integers(0, 2, 150)
    table = pd.DataFrame({k: rng.random(150) < 0.4 + 0.2 * secret * j for j, k in enumerate("abc")})
    table = table.astype(int)
    noiser = PufferfishNoiser(epsilon=0.5, **options)
    with pytest.warns(UserWarning, match="best theorem: the smallest sufficient noise lies"):
        certificate = noiser.fit(table, sensitive_features=secret).certificate_
    assert certificate.details().startswith("Certificate: holds by a theorem (between ")
    assert "smallest sufficient noise lies between" in " ".join(certificate.assumptions)
    assert 0.4 < certificate.least < 1.0
    assert certificate.to_dict()["least"] == certificate.least
    # with less noise than that the loss is above the budget
    p, q = (counted(table[secret == value]) for value in (0, 1))
    kinds = {"laplace": Laplace, "gaussian": Gaussian, "cauchy": Cauchy}
    noise = kinds[certificate.noise](tuple(certificate.least * noiser.theta_))
    lower = coarse_lower(p, q, noise, certificate.notion)
    assert lower.max() > certificate.notion.budget


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"delta": 1e-3, "noise": "gaussian"}, {"alpha": 2.0}], ids=str)
def test_many_secrets_on_two_columns_have_a_theorem_and_no_boxes(options, monkeypatch):
    rng = np.random.default_rng(3)
    secret = np.arange(160) % 4
    table = pd.DataFrame({k: rng.random(160) < 0.3 + 0.1 * secret for k in "ab"}).astype(int)
    cut, box_panels = [], pair_losses.box_panels
    monkeypatch.setattr(pair_losses, "box_panels", lambda *of: cut.append(of) or box_panels(*of))
    noiser = PufferfishNoiser(epsilon=0.5, **options)
    exact = noiser.fit(table, sensitive_features=secret).theta_
    assert cut
    cut.clear()
    monkeypatch.setattr(problem, "MOST_WORK", 11.0)  # six pairs of four cells are a work of 12
    with pytest.warns(UserWarning, match="fewer secrets or values in two columns"):
        certificate = noiser.fit(table, sensitive_features=secret).certificate_
    assert not cut
    assert np.all(noiser.theta_ >= exact * (1.0 - 1e-4))
    assert np.all(certificate.least * noiser.theta_ <= exact * (1.0 + 1e-4))
    # a pure epsilon under Laplace noise needs no boxes
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*theorem")
        PufferfishNoiser(epsilon=0.5).fit(table, sensitive_features=secret)


def test_an_exact_loss_says_nothing_of_theorems():
    table = pd.DataFrame({"a": [0, 1] * 4, "b": [0, 0, 1, 1] * 2, "s": [0, 0, 0, 1, 0, 1, 1, 1]})
    certificate = PufferfishNoiser(epsilon=0.5, sensitive="s").fit(table).certificate_
    assert certificate.least is None
    assert certificate.details().startswith("Certificate: holds for the counted prior")
