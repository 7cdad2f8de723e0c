"""From priors to scales: groups, parts, the grid, and the proof of what is released."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._losses import joint_grids
from sklearn_puffer._noise import sampler_loss
from sklearn_puffer._noiser import Part, Problem, find_scales, problems, wide
from sklearn_puffer._noiser import adversaries as knowing
from sklearn_puffer._noiser import fit_table as fitting
from sklearn_puffer.calibration import exact
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, PriorPair

pytestmark = pytest.mark.filterwarnings("ignore:.* occur once")  # as rows of random numbers do


def plan_of(*pairs, epsilon=1.0, whole=False, weights=None):
    """Return the plan of one-column pairs."""
    part = Part((0,), [PriorPair(p, q) for p, q in pairs], np.arange(len(pairs)))
    return find_scales(
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
    assume(theta > 0.0)  # else the rows keep the budget by themselves
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


def labelled(X, **n_labels):
    return X.assign(**{k: [f"v{i % n}" for i in range(len(X))] for k, n in n_labels.items()})


def few_valued():
    X = wide_table(n_columns=8)
    return X.assign(**{f"c{k}": [0, 1, 2] * 100 for k in range(6)})


WIDE = {  # against a limit of 500 cells
    "numbers": (wide_table(), {}),
    "in bins": (wide_table(n_columns=8), {"n_bins": {f"c{k}": 4 for k in range(4)}}),
    "few values": (few_valued(), {}),
    "labels": (labelled(wide_table(n_columns=3, n_values=30), d=8, e=9, f=10), {}),
    "groups": (wide_table(n_columns=8), {"dependence": [[f"c{k}" for k in range(7)], ["c7"]]}),
}


@pytest.mark.filterwarnings("ignore:.*need no noise under this prior:UserWarning")
@pytest.mark.parametrize("kind", WIDE)
def test_what_a_warning_about_width_names_leads_to_the_exact_loss(kind, monkeypatch):
    for module in (joint_grids, wide):
        monkeypatch.setattr(module, "MAX_CELLS", 500)
    X, options = WIDE[kind]
    with pytest.warns(UserWarning, match="cells jointly") as told:
        PufferfishNoiser(sensitive="secret", **options).fit(X)
    [said] = [str(each.message) for each in told if "cells jointly" in str(each.message)]
    advice = said.partition("in column")[2].partition("; or trust")[0]
    ways = advice.partition(". ")[2].split(", and so would ")
    assert len(ways) == 2
    for way in ways:
        bins, names = re.findall(r"n_bins=(\d+)", way), re.findall(r"'(\w+)'", way)
        more = {"n_bins": int(bins[0])} if bins else {}
        if kind == "groups" and names:
            more["dependence"] = [
                [c for c in group if c not in names] for group in options["dependence"]
            ]
        noiser = PufferfishNoiser(sensitive="secret", **options | more).fit(X.drop(columns=names))
        assert set(noiser.certificate_.table["source"]) == {"recomputed"}


@pytest.mark.parametrize("parameters", [{"noise": "gaussian", "delta": 1e-3}, {"alpha": 2.0}])
def test_no_exact_loss_is_named_where_there_is_none_for_wide_rows(parameters):
    with pytest.warns(UserWarning, match=r"cells jointly.*\. Drop columns, or trust") as told:
        PufferfishNoiser(sensitive="secret", **parameters).fit(wide_table(40))
    assert "exact, and" not in str(told[0].message)


@pytest.mark.parametrize(
    ("n_labels", "advice"),
    [(40, "n_bins=3 would be exact"), (300, "Leaving out 'c0', 'd', 'e' would")],
)
def test_only_numeric_columns_are_advised_to_be_binned(n_labels, advice):
    X = wide_table(1200, n_columns=4, n_values=20)
    labels = [f"v{k % n_labels}" for k in range(len(X))]
    X = X.assign(d=labels, e=labels[::-1])
    with pytest.warns(UserWarning, match=rf"cells jointly.*\. {advice}"):
        PufferfishNoiser(sensitive="secret").fit(X)


def test_a_coupling_too_large_for_memory_is_refused_before_counting(monkeypatch):
    monkeypatch.setattr(fitting, "MOST_JOINT_POINTS", 100)
    monkeypatch.setattr(knowing, "counted_adversary", None)  # whoever allocates fails otherwise
    exact = r"n_bins=5 would be exact, and so would leaving out 'c0', 'c1'"
    ways = rf"'c0', 'c1'.*; {exact}.*dependence=\[\[.*dependence=\"independent\""
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


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 1e-3, "delta": 1e-5, "noise": "gaussian"},
        {"epsilon": 1e-3, "delta": 1e-5, "noise": "gaussian", "strategy": "sensitivity"},
        {"epsilon": 0.1, "delta": 1e-5, "noise": "gaussian", "weights": {"a": 3000.0, "b": 1.0}},
        {"epsilon": 1e-3, "noise": "cauchy"},
        {"epsilon": 1e-3, "noise": "cauchy", "strategy": "distribution_aware"},
    ],
    ids=str,
)
def test_two_columns_under_a_small_budget_are_released(options):
    table = pd.DataFrame({"a": [0, 1] * 4, "b": [0, 0, 1, 1] * 2, "s": [0, 0, 0, 1, 0, 1, 1, 1]})
    certificate = PufferfishNoiser(**options, sensitive="s").fit(table).certificate_
    assert certificate.holds
    if "strategy" not in options:
        assert certificate.table["lower"].max() >= 0.999 * certificate.loss


@pytest.mark.parametrize("releases", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_delta_over_independent_columns_costs_no_more_than_none(releases):
    rng = np.random.default_rng(2)
    secret = rng.integers(0, 2, 150)
    table = pd.DataFrame({k: rng.random(150) < 0.4 + 0.2 * secret * j for j, k in enumerate("abc")})
    options = {"epsilon": 0.05, "dependence": "independent", "releases": releases}
    pure, delta = (
        PufferfishNoiser(**options, delta=delta).fit(table, sensitive_features=secret)
        for delta in (0.0, 1e-6)
    )
    assert delta.certificate_.holds
    assert np.all(delta.theta_ <= pure.theta_)
