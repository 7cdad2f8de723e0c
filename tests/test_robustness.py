"""The guarantee over sets of priors, as the estimator makes it."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._noiser import against
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import ConfidenceSet, Discrete

STUDENT = pd.DataFrame({"paid": ["no", "no", "yes", "yes"], "choice": [0, 1, 0, 1]})
COUNTS = [376, 204, 34, 35]


def fitted(X, sample_weight=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return PufferfishNoiser(**parameters).fit(X, sample_weight=sample_weight)


def student(level, epsilon=0.5, **parameters):
    own = None if level is None else ConfidenceSet(level)
    return fitted(
        STUDENT, COUNTS, epsilon=epsilon, sensitive="paid", output="noisy", adversaries=own,
        **parameters,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("level", "theta"),
    [(None, 0.0), (0.9, 0.52613218687), (0.95, 0.575966935857), (0.99, 0.668908177595)],
)
def test_the_student_table_needs_the_noise_of_the_reference(level, theta):
    assert student(level).theta_["choice"] == pytest.approx(theta, rel=1e-8)


@pytest.mark.parametrize(("epsilon", "theta"), [(0.1, 3.38382944344), (0.3, 1.08338901496)])
def test_other_budgets_of_the_student_table_do_too(epsilon, theta):
    assert student(0.95, epsilon).theta_["choice"] == pytest.approx(theta, rel=1e-8)


def test_the_certificate_states_the_loss_over_the_set_without_being_asked():
    over = student(None).certificate_.over_set
    assert over.level == 0.95
    assert over.exact
    assert over.loss > 0.5
    assert over.share == 1.0
    verdict, *said = student(None).certificate_.details().splitlines()
    assert verdict == (
        "Certificate: nothing was changed; holds for the counted prior, but NOT for readers who "
        "know the population better"
    )
    assert "95% confidence set" in " ".join(said)
    assert "the guarantee is NOT made to adversaries with such a prior" in " ".join(said)


def test_the_certificate_splits_the_scale_into_prior_and_sampling_error():
    own, robust = student(None, epsilon=0.1), student(0.95, epsilon=0.1)
    assert robust.certificate_.over_set.share == pytest.approx(
        own.theta_["choice"] / robust.theta_["choice"], rel=1e-9
    )
    assert robust.certificate_.over_set.loss == pytest.approx(0.1, abs=1e-9)
    assert robust.certificate_.details().startswith(
        "Certificate: holds for the counted prior, and for every prior within sampling error "
        "(95%)\n"
    )
    told = robust.certificate_.details()
    assert "the budget is kept for them; the fitted prior alone asks for" in told


def test_a_theta_that_pays_for_no_sampling_error_is_not_split():
    certificate = student(None).certificate_
    assert certificate.over_set.share == 1.0
    assert certificate.over_set.loss > certificate.notion.budget
    assert "sampling error for the rest" not in certificate.details()


@pytest.mark.parametrize("strategy", ["relaxed", "wasserstein", "sensitivity", "exact"])
def test_the_scale_is_the_larger_of_the_strategy_s_and_the_set_s(strategy):
    alone = student(None, strategy=strategy).theta_["choice"]
    of_set = student(0.95).theta_["choice"]
    both = student(0.95, strategy=strategy).theta_["choice"]
    assert both == pytest.approx(max(alone, of_set), rel=1e-9)


def test_no_distribution_of_the_set_loses_more_than_the_certificate_states():
    robust = student(0.95)
    theta, over = robust.theta_["choice"], robust.certificate_.over_set
    ends = [(0.3074986, 0.3978756), (0.3679672, 0.6457197)]  # the reference's Clopper-Pearson box
    losses = [
        privacy_loss(
            Discrete([0, 1], [1 - p, p]),
            Discrete([0, 1], [1 - q, q]),
            Laplace(theta),
            Pufferfish(1.0),
        ).upper
        for p in ends[0]
        for q in ends[1]
    ]
    assert max(losses) <= over.loss
    assert max(losses) == pytest.approx(over.loss, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"delta": 1e-3}, {"alpha": 2.0}, {"noise": "cauchy"}, {"noise": "gaussian", "delta": 1e-3}],
    ids=str,
)
def test_other_guarantees_have_a_bound_over_the_set(options):
    robust = student(0.95, **options)
    over = robust.certificate_.over_set
    assert robust.certificate_.holds
    assert over.loss <= robust.certificate_.notion.budget
    assert robust.theta_["choice"] > student(None, **options).theta_["choice"]


def rows(n_rows, seed=0, n_values=4):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "secret": np.array(["a", "b", "c"])[rng.integers(0, 3, n_rows)],
            "other": rng.integers(0, 2, n_rows),
            "x": rng.integers(0, n_values, n_rows),
            "y": rng.integers(0, 3, n_rows),
        }
    )


@pytest.mark.parametrize("dependence", ["joint", "independent"])
def test_more_rows_of_the_same_distribution_need_less_noise(dependence):
    options = {"sensitive": "secret", "public": ["x", "y"], "dependence": dependence}
    few, many = (
        fitted(rows(n), adversaries="confidence", **options).theta_["x"] for n in (300, 30_000)
    )
    assert many < 0.5 * few


@pytest.mark.parametrize("dependence", ["joint", "independent", [["x"], ["y"]]])
def test_the_set_never_asks_for_more_noise_than_sensitivity(dependence):
    options = {"sensitive": "secret", "public": ["x", "y"], "dependence": dependence}
    X = rows(40)
    robust = fitted(X, adversaries="confidence", **options).theta_
    most = fitted(X, strategy="sensitivity", **options).theta_
    assert (robust <= most * (1.0 + 1e-9)).all()


def test_the_error_is_shared_by_all_sensitive_columns():
    X = rows(3_000)
    options = {"epsilon": 0.1, "public": "x", "adversaries": "confidence"}
    one = fitted(X, sensitive="secret", **options)
    two = fitted(X, sensitive=["secret", "other"], **options)
    assert two.theta_["x"] > one.theta_["x"]


def test_a_secret_with_few_rows_is_warned_of():
    X = pd.concat([rows(2_000), pd.DataFrame({"secret": ["rare"] * 2, "x": [0, 3]})])
    noiser = PufferfishNoiser(sensitive="secret", public="x", adversaries="confidence")
    with pytest.warns(UserWarning, match=r"the rarest secret has 2 row\(s\)"):
        noiser.fit(X[["secret", "x"]])


def test_a_grid_too_large_for_the_sets_gets_the_noise_of_sensitivity():
    rng = np.random.default_rng(0)
    X = rows(300).assign(y=rng.integers(0, 100, 300), x=rng.integers(0, 100, 300))
    noiser = PufferfishNoiser(sensitive="secret", public=["x", "y"], adversaries="confidence")
    with pytest.warns(UserWarning, match="confidence set is not computable here"):
        noiser.fit(X)
    most = fitted(X, sensitive="secret", public=["x", "y"], strategy="sensitivity")
    np.testing.assert_allclose(noiser.theta_, most.theta_, rtol=1e-9)
    assert noiser.certificate_.strategy == "sensitivity"


def test_a_given_prior_has_no_set_around_it():
    prior = {"no": Discrete([0, 1], [0.6, 0.4]), "yes": Discrete([0, 1], [0.4, 0.6])}
    noiser = PufferfishNoiser(sensitive="paid", prior=prior, adversaries="confidence")
    with pytest.warns(UserWarning, match="the prior is given, not learnt"):
        noiser.fit(STUDENT, sample_weight=COUNTS)


def wide():
    """Return a table of 600 joint cells: too many to look through unasked."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"secret": rng.integers(0, 2, 90), "x": np.arange(90) % 30, "y": np.arange(90) % 20}
    )


@pytest.mark.slow
def test_a_loss_over_many_cells_is_computed_when_asked_for_and_remembered(monkeypatch):
    X = wide()
    noiser = fitted(X, sensitive="secret")
    certificate, saved = noiser.certificate_, pickle.dumps(noiser)
    assert certificate.known_over_set is None
    assert certificate.to_dict()["over_set"] is None
    assert "(over_set) is computed when it is asked for" in certificate.details()
    assert "NOT proven for readers who know the population better" in certificate._repr_html_()
    over = certificate.over_set
    assert certificate.over_set is over is certificate.known_over_set
    assert certificate.to_dict()["over_set"]["loss"] == over.loss
    assert "when it is asked for" not in certificate.details()
    again = pickle.loads(saved).certificate_
    assert again == certificate
    assert again.fingerprint == certificate.fingerprint
    assert again.over_set == over == pickle.loads(pickle.dumps(noiser)).certificate_.known_over_set
    monkeypatch.setattr(against, "CHEAP", 2**30)
    at_once = fitted(X, sensitive="secret").certificate_
    assert at_once.known_over_set == over
    assert "certificate_.over_set" not in str(at_once)


def test_no_set_is_made_before_it_is_needed(monkeypatch):
    monkeypatch.setattr(against, "set_around", None)
    assert fitted(wide(), sensitive="secret").certificate_.known_over_set is None


def test_a_set_that_was_asked_for_is_looked_through_at_once(monkeypatch):
    monkeypatch.setattr(against, "CHEAP", 0)
    assert student(0.95).certificate_.known_over_set.loss <= 0.5
    assert student(None).certificate_.known_over_set is None
