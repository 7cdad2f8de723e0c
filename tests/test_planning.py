"""From priors to scales: groups, parts, the grid, and the proof of what is released."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._fitting import fitting, problems
from sklearn_puffer._fitting.learning import Part
from sklearn_puffer._fitting.planning import make_plan
from sklearn_puffer._fitting.problems import Problem, sampler_loss
from sklearn_puffer.calibration import exact
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, PriorPair


def plan_of(*pairs, epsilon=1.0, whole=False, weights=None):
    """Return the plan of one-column pairs."""
    part = Part((0,), [PriorPair(p, q) for p, q in pairs], np.arange(len(pairs)))
    return make_plan(
        Problem(
            groups=[[part]],
            n_pairs=len(pairs),
            weights=np.ones(1) if weights is None else weights,
            whole=np.array([whole]),
            names=["age"],
            notion=Pufferfish(epsilon),
            strategy=exact,
            noise=Laplace(),
        )
    )


def random_pair(seed, n_atoms=6, scale=1.0):
    rng = np.random.default_rng(seed)
    atoms = np.sort(rng.normal(size=n_atoms)) * scale
    counts = rng.integers(0, 20, (2, n_atoms)) + np.eye(n_atoms, dtype=int)[:2]
    return Discrete.from_counts(atoms, counts[0]), Discrete.from_counts(atoms, counts[1])


def largest_ratio(p, q, theta):
    """Return the loss by dense sums at the atoms of both priors."""
    y = np.union1d(p.atoms, q.atoms)
    of_p, of_q = (
        np.exp(-np.abs(y[:, None] - prior.atoms) / theta) @ prior.probabilities for prior in (p, q)
    )
    return float(np.abs(np.log(of_p / of_q)).max())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from([1e-12, 1e-3, 1.0, 1e3, 1e12]))
def test_atoms_off_the_grid_are_rounded_and_the_rounded_rows_keep_the_budget(seed, scale):
    p, q = random_pair(seed, scale=scale)
    plan = plan_of((p, q), epsilon=0.5, weights=np.array([scale]))
    theta, grid = plan.theta[0], plan.grids[0]
    assert plan.upper.max() <= 0.5
    if theta == 0.0:
        return
    assert grid <= theta * 2.0**-39
    rounded = [
        Discrete.from_counts(np.floor(x.atoms / grid + 0.5) * grid, x.counts) for x in (p, q)
    ]
    assert largest_ratio(*rounded, theta) <= 0.5
    assert largest_ratio(p, q, theta) == pytest.approx(0.5, abs=1e-8)


def test_the_certificate_adds_the_error_of_the_sampler():
    p, q = Discrete([0, 1], [0.9, 0.1]), Discrete([0, 1], [0.1, 0.9])
    plan = plan_of((p, q), whole=True)
    exact_loss = largest_ratio(p, q, plan.theta[0])
    assert plan.upper.max() >= exact_loss + sampler_loss(1) - 1e-15
    assert plan.upper.max() <= 1.0
    assert plan.lower.max() <= exact_loss + 1e-15


def test_values_too_large_for_64_bits_of_grid_are_refused_by_name_of_the_remedy():
    p, q = Discrete([0.0, 1.0, 1e30], [0.5, 0.2, 0.3]), Discrete([0.0, 1.0, 1e30], [0.2, 0.5, 0.3])
    with pytest.raises(ValueError, match=r"column 'age': scale .* too small for values of up to"):
        plan_of((p, q), epsilon=0.5)


def wide_table(n_rows=300, n_columns=7, n_values=8):
    rng = np.random.default_rng(0)
    secret = rng.integers(0, 2, n_rows)
    values = rng.integers(0, n_values, (n_rows, n_columns)) + secret[:, None]
    columns = {f"c{k}": values[:, k] for k in range(n_columns)}
    return pd.DataFrame({"secret": secret, **columns})


def test_a_grid_too_wide_for_the_exact_loss_warns_and_uses_a_theorem():
    X = wide_table()
    noiser = PufferfishNoiser(sensitive="secret")
    with pytest.warns(
        UserWarning, match=r"span 4782969 cells jointly.*standard deviations.*n_bins=5 would be"
    ):
        noiser.fit(X)
    certificate = noiser.certificate_
    assert certificate.holds
    assert set(certificate.table["source"]) == {"theorem"}
    assert certificate.loss == pytest.approx(1.0, abs=1e-9)
    assert (certificate.table["lower"] <= certificate.table["upper"]).all()
    assert any("too large to recompute" in sentence for sentence in certificate.assumptions)


def test_the_theorem_of_a_wide_grid_bounds_the_loss_at_every_row_seen():
    X = wide_table(60)
    with pytest.warns(UserWarning, match="cells jointly"):
        noiser = PufferfishNoiser(sensitive="secret").fit(X)
    rows = X.drop(columns="secret").to_numpy(dtype=float)
    theta = noiser.theta_.to_numpy()
    kernel = np.exp(-(np.abs(rows[:, None] - rows[None]) / theta).sum(axis=2))
    secret = X["secret"].to_numpy() == 1
    ratio = np.log(kernel[:, secret].mean(axis=1) / kernel[:, ~secret].mean(axis=1))
    assert np.abs(ratio).max() <= 1.0
    # the certificate's lower end, the worst single column, is below what the rows show
    assert noiser.certificate_.table["lower"].max() <= 1.0


def test_the_number_of_bins_the_warning_names_is_exact():
    X = wide_table()
    noiser = PufferfishNoiser(sensitive="secret", n_bins=5).fit(X)
    assert set(noiser.certificate_.table["source"]) == {"recomputed"}


@pytest.mark.parametrize(
    ("n_labels", "advice"), [(40, "n_bins=3 would be exact"), (300, "Use col")]
)
def test_only_numeric_columns_are_advised_to_be_binned(n_labels, advice):
    X = wide_table(1200, n_columns=4, n_values=20)
    labels = [f"v{k % n_labels}" for k in range(len(X))]
    X = X.assign(d=labels, e=labels[::-1])
    with pytest.warns(UserWarning, match=rf"cells jointly.*\. {advice}"):
        PufferfishNoiser(sensitive="secret").fit(X)


def test_a_coupling_too_large_for_memory_is_refused_before_counting(monkeypatch):
    monkeypatch.setattr(fitting, "MOST_JOINT_POINTS", 100)
    monkeypatch.setattr(fitting, "empirical_adversary", None)  # whoever allocates fails otherwise
    ways = r"'c0', 'c1'.*n_bins.*dependence=\[\[.*dependence=\"independent\""
    with pytest.raises(ValueError, match=ways):
        PufferfishNoiser(sensitive="secret").fit(wide_table())


def test_a_relaxed_joint_strategy_is_recomputed_exactly_where_the_grid_allows():
    X = wide_table(n_columns=2)
    for strategy in ("relaxed", "wasserstein", "sensitivity"):
        noiser = PufferfishNoiser(sensitive="secret", strategy=strategy).fit(X)
        table = noiser.certificate_.table
        assert set(table["source"]) == {"recomputed"}
        assert (table["upper"] <= table["bound"] + 1e-9).all()
        assert noiser.certificate_.holds


def test_sensitivity_looks_at_the_whole_alphabet_of_every_column():
    X = pd.DataFrame(
        {"s": ["a", "a", "b", "b", "c", "c"], "u": [0, 1, 0, 1, 0, 9], "v": [0, 1, 1, 0, 7, 0]}
    )
    noiser = PufferfishNoiser(0.5, sensitive="s", secret_pairs=[("a", "b")], strategy="sensitivity")
    noiser.fit(X)
    spread = X[["u", "v"]].std(ddof=0)
    factor = (9 / spread["u"] + 7 / spread["v"]) / 0.5
    np.testing.assert_allclose(noiser.theta_, factor * spread, rtol=1e-9)


def test_the_certificate_reads_back_from_json():
    noiser = PufferfishNoiser(0.1, sensitive="secret", n_bins=2).fit(wide_table(n_columns=2))
    read = json.loads(noiser.certificate_.to_json())
    assert read == noiser.certificate_.to_dict()
    assert read["holds"] is True
    assert read["loss"] == noiser.certificate_.loss
    assert len(read["pairs"]) == 2


def test_an_infinite_loss_is_valid_json_and_does_not_hold():
    p, q = Discrete([0, 1], [1, 0]), Discrete([0, 1], [0, 1])
    losses = problems.recompute([PriorPair(p, q)], Laplace(), Pufferfish(1.0), 0.0)[1]
    assert math.isinf(losses.max())


def test_certificate_html_and_text_escape_and_name_everything():
    X = wide_table(n_columns=2).rename(columns={"c0": "<b>"})
    certificate = PufferfishNoiser(sensitive="secret").fit(X).certificate_
    assert "&lt;b&gt;" in certificate._repr_html_()
    assert "<b>" in str(certificate)
    assert "e^1 = 2.718" in str(certificate)
    for sentence in certificate.assumptions:
        assert sentence in str(certificate)


def test_a_certificate_says_when_nothing_is_promised():
    X = wide_table(n_columns=1)
    certificate = PufferfishNoiser(sensitive="secret").fit(X).certificate_
    broken = type(certificate)(**{**certificate.__dict__, "loss": math.inf})
    assert "NOTHING IS PROMISED" in str(broken)
    assert json.loads(broken.to_json())["loss"] == "infinity"
