"""A noise family added by the recipe in CONTRIBUTING alone: all of it works, or refuses by name."""

from __future__ import annotations

import itertools
import json
import math
import pickle

import loss_oracle as oracle
import mpmath
import numpy as np
import pandas as pd
import pytest
from mpmath import mp, mpf
from own_noise import Logistic
from scipy.stats import chi2, logistic

from sklearn_puffer import Ledger, OverspentError, PufferfishNoiser
from sklearn_puffer._noise import sampler, seeded_entropy
from sklearn_puffer.accounting import LossTable, privacy_loss
from sklearn_puffer.bounds import Impossible
from sklearn_puffer.calibration import STRATEGIES, calibrate
from sklearn_puffer.closed_forms import Shift
from sklearn_puffer.iteration import iteration_loss
from sklearn_puffer.noise import FAMILIES, ROUNDING, Cauchy, Gaussian, Laplace, is_family
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair

NOTIONS = [
    Pufferfish(1.0),
    Pufferfish(0.3, 1e-5),
    RenyiPufferfish(1.0, 2.0),
    RenyiPufferfish(0.5, 8.0),
]
PAIRS = {
    "near": ([0, 1, 3], [5, 3, 2], [0, 1, 4], [2, 2, 6]),
    "the same values": ([0, 2, 3], [1, 2, 5], [0, 2, 3], [4, 2, 1]),
    "one value each": ([1], [1], [3], [1]),
    "far apart": ([0, 1, 40], [1, 8, 1], [0, 2, 41], [3, 3, 3]),
    "crowded": (np.arange(9) / 50.0, np.arange(1, 10), np.arange(9) / 50.0, np.arange(1, 10)[::-1]),
}
QUICK = ["the same values", "one value each"]
notions = pytest.mark.parametrize(
    "notion", [*NOTIONS[:3], pytest.param(NOTIONS[3], marks=pytest.mark.slow)], ids=str
)


def priors(name):
    first, counts, second, others = PAIRS[name]
    return Discrete.from_counts(first, counts), Discrete.from_counts(second, others)


# --- what the family says of itself ---------------------------------------------------------------


def test_it_is_a_family_without_a_name_of_its_own():
    assert is_family(Logistic())
    assert Logistic not in FAMILIES.values()
    assert Logistic(2.0).name == "logistic"


@pytest.mark.parametrize(
    "u", [1e-6, 1.0, 40.0, *(pytest.param(x, marks=pytest.mark.slow) for x in (0.1, 5.0))]
)
def test_its_divergences_are_those_of_its_density(u):
    noise = Logistic()
    for alpha in (1.5, 20.0):
        found = float(noise.renyi_divergence([u], alpha))
        assert found == pytest.approx(float(renyi_of_a_shift(mpf(u), mpf(alpha))), rel=1e-11)
    for epsilon in (0.0, 0.05, 0.9):
        found = float(noise.hockey_stick([u], epsilon))
        exact = float(delta_of_a_shift(mpf(u), mpf(epsilon)))
        assert found == pytest.approx(exact, rel=1e-11, abs=1e-300)


def log_ratio(y, u):
    return 2 * mpmath.log(mpmath.sech(y / 2) / mpmath.sech((y - u) / 2))


def renyi_of_a_shift(u, alpha):
    with mp.workdps(25):
        cuts = [-400, -100, -20, -5, u / 2, u + 5, u + 20, u + 100, u + 400]
        terms = mpmath.quad(
            lambda y: mpmath.exp((alpha - 1) * log_ratio(y, u)) * mpmath.sech(y / 2) ** 2 / 4, cuts
        )
        return mpmath.log(terms) / (alpha - 1)


def delta_of_a_shift(u, epsilon):
    if epsilon >= u:
        return mpf(0)
    with mp.workdps(30):
        # log_ratio falls from u to -u
        low, high = u / 2 - 100, u / 2
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if log_ratio(middle, u) > epsilon else (low, middle)
        root = low
        tails = [1 / (1 + mpmath.exp(m - root)) for m in (0, u)]
        return tails[0] - mpmath.exp(epsilon) * tails[1]


def test_its_masses_keep_their_digits_in_the_tails():
    low = np.array([-3.0, 0.0, 1.0, 30.0, 500.0, -np.inf])
    high = np.array([2.0, 1e-9, np.inf, 31.0, 501.0, -700.0])
    with mp.workdps(400):
        shares = [1 / (1 + mpmath.exp(-mpf(y))) for y in (*high.tolist(), *low.tolist())]
        exact = [float(b - a) for b, a in zip(shares[:6], shares[6:], strict=True)]
    assert Logistic().mass(low, high) == pytest.approx(exact, rel=ROUNDING)


# --- exact losses ---------------------------------------------------------------------------------


def truth(p, q, noise, notion):
    if isinstance(notion, RenyiPufferfish):
        return oracle.renyi(p, q, noise, notion.alpha)
    if notion.delta > 0.0:
        return oracle.delta(p, q, noise, notion.epsilon)
    return oracle.supremum(p, q, noise)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pair", "scale", "notion"),
    [
        ("one value each", 0.7, NOTIONS[0]),
        ("one value each", 0.7, NOTIONS[2]),
        ("crowded", 2.0, NOTIONS[1]),
        ("crowded", 2.0, NOTIONS[3]),
    ],
)
def test_exact_losses_hold_the_truth_closely(pair, notion, scale):
    p, q = priors(pair)
    lower, upper = LossTable([PriorPair(p, q)], notion).intervals(Logistic(scale))
    exact = truth(p, q, Logistic(scale), notion)
    assert lower[0, 0] - 1e-15 * (1.0 + lower[0, 0]) <= exact <= upper[0, 0] + mpf(10) ** -30
    assert np.all(upper - lower <= 2e-8 * upper + 1e-9)


class Plain(Laplace):
    is_exponential = False


@notions
@pytest.mark.parametrize(
    "pair", [*QUICK, *(pytest.param(x, marks=pytest.mark.slow) for x in PAIRS if x not in QUICK)]
)
def test_the_long_way_and_the_special_one_agree(pair, notion):
    special, long = (privacy_loss(*priors(pair), n, notion) for n in (Laplace(), Plain()))
    assert long.lower <= special.upper
    assert special.lower <= long.upper
    assert long.upper - long.lower <= 2e-8 * long.upper + 1e-9


@notions
def test_two_columns_lose_at_least_what_each_does_and_at_most_what_shifts_do(notion):
    p = Discrete([[0, 0], [1, 1]], [0.5, 0.5])
    q = Discrete([[0, 1], [1, 2]], [0.25, 0.75])
    noise = Logistic((1.0, 2.0))
    both = privacy_loss(p, q, noise, notion)
    assert both.upper - both.lower <= 2e-3 * both.upper
    assert both.lower <= notion.shift_loss(noise, np.array([[1.0, 2.0]]))
    columns = zip(p.rows.T, q.rows.T, noise.scale, strict=True)
    for first, second, scale in columns:
        pair = Discrete(first, [0.5, 0.5]), Discrete(second, [0.25, 0.75])
        assert privacy_loss(*pair, Logistic(scale), notion).lower <= both.upper


# --- strategies -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "notion"),
    [
        pytest.param(strategy, notion, marks=[pytest.mark.slow] * (strategy == "exact" and k > 1))
        for strategy in STRATEGIES
        for k, notion in enumerate(NOTIONS)
    ],
    ids=str,
)
def test_every_strategy_calibrates_it_or_says_why_not(strategy, notion):
    p, q = priors("the same values")
    bound = STRATEGIES[strategy]([PriorPair(p, q)], Logistic(), notion)
    if isinstance(bound, Impossible):
        with pytest.raises(ValueError, match="strategy='"):
            calibrate([(p, q)], notion, noise=Logistic(), strategy=strategy)
        return
    found = calibrate([(p, q)], notion, noise=Logistic(), strategy=strategy)
    loss = privacy_loss(p, q, Logistic(found.scale), notion)
    assert loss.lower <= notion.budget
    if strategy == "exact":
        assert loss.upper == pytest.approx(notion.budget, rel=1e-4)


def test_the_published_strategies_refuse_it_by_name():
    p, q = priors("near")
    with pytest.raises(ValueError, match="strategy='relaxed' is a bound for Laplace noise"):
        calibrate([(p, q)], NOTIONS[0], noise=Logistic(), strategy="relaxed")


@notions
@pytest.mark.filterwarnings("ignore:strategy='exact' is not computed")
def test_gaussian_priors_work_or_refuse_by_name(notion):
    p, q = (GaussianMixture([1.0], [m], [1.0]) for m in (0.0, 1.0))
    for strategy in STRATEGIES:
        try:
            found = calibrate([(p, q)], notion, noise=Logistic(), strategy=strategy)
        except ValueError as refused:
            assert strategy in str(refused) or "scale" in str(refused)  # noqa: PT017
        else:
            assert 0.0 < found.scale < math.inf


# --- the sampler ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "step"), [(1.0, 2.0**-3), (1.7, 1.0), (40.0, 0.5)])
def test_it_is_drawn_from_its_distribution(scale, step):
    count = 200_000
    drawn = np.empty(count, dtype=np.int64)
    sampler(Logistic(scale), step, seeded_entropy(5)).fill(drawn)
    edges = np.unique(np.floor(logistic.ppf(np.linspace(0.0, 1.0, 60)[1:-1], scale=scale) / step))
    shares = np.diff(logistic.cdf(edges * step, scale=scale), prepend=0.0, append=1.0)
    seen = np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=len(shares))
    statistic = (np.square(seen - count * shares) / (count * shares)).sum()
    assert statistic < chi2.isf(1e-6, len(shares) - 1)


def test_it_is_a_value_that_can_be_pickled():
    assert pickle.loads(pickle.dumps(Logistic((1.0, 2.0)))) == Logistic((1.0, 2.0))


# --- the noiser, from fit to what is asked of a release -------------------------------------------


def table(rows=400):
    generator = np.random.default_rng(0)
    secret = generator.integers(0, 2, rows)
    return pd.DataFrame(
        {
            "secret": np.where(secret == 1, "x", "y"),
            "a": generator.binomial(4, 0.2 + 0.5 * secret),
            "b": generator.binomial(3, 0.2 + 0.5 * secret),
        }
    )


def noiser(**settings):
    given = {"epsilon": 1.0, "sensitive": "secret", "public": ["a"], "noise": Logistic()}
    return PufferfishNoiser(**{**given, **settings})


def distributions(fitted):
    """The distribution of column a given each secret."""
    [by_secret] = fitted.priors_.values()
    return {
        secret: distribution
        for secret, by_columns in by_secret.items()
        for distribution in by_columns.values()
    }


WORKS = {
    "pure": {},
    "delta": {"delta": 1e-3},
    "renyi": {"alpha": 2.0},
    "sensitivity": {"strategy": "sensitivity"},
    "wasserstein": {"strategy": "wasserstein"},
    "distribution_aware": {"strategy": "distribution_aware"},
    "approximate": {"strategy": "approximate", "delta": 1e-3},
    "joint": {"public": ["a", "b"]},
    "joint, delta": {"public": ["a", "b"], "delta": 1e-3},
    "independent": {"public": ["a", "b"], "dependence": "independent", "delta": 1e-2},
    "confidence": {"adversaries": "confidence", "delta": 1e-2},
    "gaussian": {"prior": "gaussian", "strategy": "approximate", "delta": 1e-2},
}
REFUSED = {
    "several releases": ({"releases": 3}, "releases=3 .* noise='logistic'"),
    "relaxed": ({"strategy": "relaxed"}, "'relaxed' is a bound for Laplace noise.* got Logistic"),
    "monge": ({"strategy": "monge"}, "strategy='monge'"),
    "gaussian": (
        {"prior": "gaussian"},
        "no bound takes its place: .* use noise='laplace' with strategy='exact'",
    ),
    "gaussian, distribution_aware": (
        {"prior": "gaussian", "strategy": "distribution_aware", "delta": 1e-2},
        "averages the moves .* under Laplace noise.* use strategy='exact' or noise='laplace'",
    ),
    "renyi with a delta": ({"alpha": 2.0, "delta": 1e-3}, "delta must be 0.0 with alpha=2.0"),
}


@pytest.fixture(scope="module")
def once():
    """Return a noiser that is fitted once for all that only ask it."""
    return noiser().fit(table())


LONGEST = {"renyi", "joint, delta", "independent"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(settings, id=name, marks=[pytest.mark.slow] * (name in LONGEST))
        for name, settings in WORKS.items()
    ],
)
def test_a_table_is_released_under_it(settings):
    data = table()
    fitted = noiser(**settings).fit(data)
    certificate = fitted.certificate_
    assert certificate.holds
    assert certificate.noise == "logistic"
    assert np.all(fitted.theta_ > 0.0)
    assert fitted.transform(data).shape == (len(data), len(fitted.theta_))
    assert "logistic noise" in certificate.details()


@pytest.mark.parametrize(("settings", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_exist_for_it_is_refused_by_name(settings, reason):
    with pytest.raises(ValueError, match=reason):
        noiser(**settings).fit(table())


@pytest.mark.slow
def test_the_noise_of_a_release_is_the_exact_least(once):
    [theta] = once.theta_
    loss = {
        scale: max(
            privacy_loss(*pair, Logistic(scale), NOTIONS[0]).upper
            for pair in itertools.combinations(distributions(once).values(), 2)
        )
        for scale in (theta, 0.999 * theta)
    }
    assert loss[theta] <= 1.0 < loss[0.999 * theta]


@pytest.mark.slow
def test_a_release_is_pickled_and_asked_about_others(once):
    data = table()
    again = pickle.loads(pickle.dumps(once))
    assert again.transform(data).shape == (len(data), 1)
    assert again.certificate_.to_json() == once.certificate_.to_json()
    assert json.loads(once.certificate_.to_json())["noise"] == "logistic"
    assert once.certificate_.over_set.loss > 1.0
    assert once.certificate_.against(distributions(once)).loss == pytest.approx(1.0, rel=1e-6)


def test_a_ledger_allows_one_release_and_no_more(tmp_path, once):
    ledger = Ledger.create(tmp_path / "counts", once)
    assert ledger.left().releases == 1
    ledger.spend()
    with pytest.raises(OverspentError, match="1 more release"):
        ledger.spend()


# --- what else takes noise ------------------------------------------------------------------------


def test_distances_and_iterations_take_it_where_a_theorem_does():
    assert Shift(2.0, "absolute", "a move").calibrate(NOTIONS[0], Logistic()).scale == (
        pytest.approx(2.0)
    )
    with pytest.raises(ValueError, match="noise must be Laplace for a distance in the l1 norm"):
        Shift(2.0, "l1", "a move").calibrate(NOTIONS[0], Logistic())
    assert 0.0 < iteration_loss([2.0, 0.0], 1.0, alpha=2.0, noise=Logistic()) < math.inf


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("family", [Laplace, Gaussian, Cauchy, Logistic])
def test_a_ratio_of_densities_moves_no_further_than_is_said(family, scale):
    noise, y = family(scale), np.linspace(0.0, 60.0, 601)
    for near in (0.0, 0.7, 4.0):
        for span in (0.1, 1.0, 5.0):
            told = float(noise.drift(near, span))
            for x in (0.3 * span, span):
                ratio = noise.log_density((near + y)[:, None])
                ratio = ratio - noise.log_density((near + y + x)[:, None])
                assert np.abs(ratio - ratio[0]).max() <= told
