"""What is said of theorems in the place of exact losses."""

import warnings

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._losses import pair_losses
from sklearn_puffer._noiser import problem

OPTIONS = [{"noise": "gaussian", "delta": 1e-5}, {"noise": "cauchy"}, {"alpha": 2.0}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_theorem_in_place_of_the_exact_loss_is_said(options):
    rng = np.random.default_rng(2)
    secret = rng.integers(0, 2, 150)
    table = pd.DataFrame({k: rng.random(150) < 0.4 + 0.2 * secret * j for j, k in enumerate("abc")})
    table = table.astype(int)
    noiser = PufferfishNoiser(epsilon=0.5, **options)
    with pytest.warns(UserWarning, match="best theorem, which may ask for more noise"):
        certificate = noiser.fit(table, sensitive_features=secret).certificate_
    assert certificate.details().startswith("Certificate: holds by a theorem (less noise may do)")
    assert "may ask for more noise than is needed" in " ".join(certificate.assumptions)
    assert (certificate.table["lower"] > 0.0).all()
    assert (certificate.table["lower"] < certificate.table["upper"]).all()


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
    with pytest.warns(UserWarning, match="two columns of fewer secrets or bins"):
        noiser.fit(table, sensitive_features=secret)
    assert not cut
    assert np.all(noiser.theta_ >= exact * (1.0 - 1e-4))
    # a pure epsilon under Laplace noise needs no boxes
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*theorem")
        PufferfishNoiser(epsilon=0.5).fit(table, sensitive_features=secret)


def test_an_exact_loss_says_nothing_of_theorems():
    table = pd.DataFrame({"a": [0, 1] * 4, "b": [0, 0, 1, 1] * 2, "s": [0, 0, 0, 1, 0, 1, 1, 1]})
    certificate = PufferfishNoiser(epsilon=0.5, sensitive="s").fit(table).certificate_
    assert set(certificate.table["source"]) == {"recomputed"}
    assert certificate.details().startswith("Certificate: holds for the counted prior")
