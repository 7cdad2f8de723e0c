"""`PufferfishSum` over Gaussian users: its losses in 50 digits, its noise, and what is refused."""

import copy
import math
import pickle
import warnings
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_ndtr
from scipy.stats import chi2
from sklearn.base import clone

from sklearn_puffer import Ledger, OverspentError, PufferfishSum
from sklearn_puffer._noise import sampler_loss
from sklearn_puffer._sums.gaussian import exact_sum
from sklearn_puffer.closed_forms import corollary_1b, gaussian_users
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture
from sklearn_puffer.users import User


def gaussian(mean, sd, **more):
    """Return a Gaussian user."""
    return User(GaussianMixture([1.0], [mean], [sd]), **more)


def log_density(y, mean, sd, theta):
    """Log density of N(mean, sd^2) plus Laplace noise, by its closed form."""
    y = np.asarray(y, dtype=float)
    if sd == 0.0:
        return -np.abs(y - mean) / theta - math.log(2 * theta)
    z, u = (y - mean) / sd, sd / theta
    halves = [u * u / 2 + side * z * u + log_ndtr(-(u + side * z)) for side in (1, -1)]
    return np.logaddexp(*halves) - math.log(2 * theta)


def distributions_of(users, k, values=None):
    """Return mean and deviation of the sum under both secrets about one of the users k."""
    rest = [(u.law.means[0], u.law.scales[0]) for u in users for _ in range(u.count)]
    before = sum(u.count for u in users[:k])
    own = rest.pop(before)
    mean, variance = sum(m for m, _ in rest), sum(s * s for _, s in rest)
    if values is not None:
        return [(mean + value, math.sqrt(variance)) for value in values]
    return (mean + own[0], math.sqrt(variance + own[1] ** 2)), (mean, math.sqrt(variance))


def alone(users, k):
    """Return the same of one of the users k where nobody else is there."""
    return distributions_of([User(users[k].law)], 0)


def points_of(p, q, theta, n):
    """Return points on the scale of each prior, of the noise and of the gap, and their centres."""
    widths = {p[1], q[1], theta, abs(p[0] - q[0])} - {0.0}
    ends = [(mean, width) for mean in (p[0], q[0]) for width in widths]
    return np.unique(
        np.concatenate([np.linspace(m - 12 * w, m + 12 * w, n) for m, w in ends] + [[p[0], q[0]]])
    )


def pure_losses(p, q, theta):
    """Return lower ends of both directed losses, from many points and the limits far out."""
    points = points_of(p, q, theta, 4001)
    ratios = (log_density(points, *p, theta) - log_density(points, *q, theta)).tolist()
    spread = (p[1] ** 2 - q[1] ** 2) / (2 * theta**2)
    ratios += [side * (p[0] - q[0]) / theta + spread for side in (1, -1)]
    return max(ratios), -min(ratios)


def hockey_stick(p, q, theta, epsilon):
    """Return the delta of p against q at epsilon, by the trapezoidal rule on many points."""
    width = max(p[1], q[1], theta)
    wide = np.linspace(min(p[0], q[0]) - 40 * width, max(p[0], q[0]) + 40 * width, 400_001)
    points = np.union1d(wide, points_of(p, q, theta, 40_001))
    first = np.exp(log_density(points, *p, theta))
    second = np.exp(epsilon + log_density(points, *q, theta))
    return np.trapezoid(np.maximum(first - second, 0.0), points)


# ------------------------------------------------------------------------------------ pure
# guarantees

SYSTEMS = {
    "ten alike": [gaussian(1.0, 2.0, count=10)],
    "one alone": [gaussian(1.5, 0.5)],
    "one alone around 0": [gaussian(0.0, 1.0)],
    "two classes": [gaussian(-1.0, 0.3, count=3), gaussian(0.5, 2.0, count=2)],
    "one among wide ones": [gaussian(0.25, 0.25), gaussian(0.0, 5.0, count=4)],
}


@pytest.mark.parametrize("system", list(SYSTEMS))
@pytest.mark.parametrize("strategy", ["exact", "worst_case"])
@pytest.mark.parametrize("epsilon", [pytest.param(0.2, marks=pytest.mark.slow), 1.0, 6.0])
def test_pure_losses_are_those_of_the_densities(system, strategy, epsilon):
    users = SYSTEMS[system]
    query = PufferfishSum(epsilon, strategy=strategy).fit(users)
    rows, most = query.certificate_.pairs, 0.0
    for k in range(len(users)):
        for way, true in enumerate(pure_losses(*alone(users, k), query.theta_)):
            row = rows[2 * k + way]
            assert true <= row.upper
            assert row.lower <= true + 1e-5 * epsilon  # the points miss the peak
            assert row.source == "recomputed"
            most = max(most, float(true))
    assert query.certificate_.loss <= epsilon
    if strategy == "exact":
        assert most == pytest.approx(epsilon, rel=1e-5)
        notion = Pufferfish(epsilon)
        each = [gaussian_users(u.law.means, u.law.scales, notion).exact.scale for u in users]
        assert query.theta_ == pytest.approx(max(each), rel=1e-5)
        assert query.theta_ >= max(each) * (1.0 - 1e-9)


# epsilon that is small against the spread of several users takes long to calibrate
BUDGETS = [
    pytest.param(name, epsilon, marks=pytest.mark.slow)
    for name in list(SYSTEMS)[1:3]
    for epsilon in (1e-8, 1e-3)
]
BUDGETS += [(name, epsilon) for name in list(SYSTEMS)[1:4] for epsilon in (30.0, 800.0)]


@pytest.mark.parametrize(("system", "epsilon"), BUDGETS)
@pytest.mark.parametrize("unit", ["row", "class"])
def test_the_certificate_holds_at_every_budget(system, epsilon, unit):
    for strategy in ("exact", "worst_case"):
        query = PufferfishSum(epsilon, strategy=strategy, unit=unit).fit(SYSTEMS[system])
        assert query.certificate_.holds
        reached = query.certificate_.worst if strategy == "worst_case" else query.certificate_.loss
        assert reached == pytest.approx(epsilon, rel=1e-3)
        assert reached <= epsilon


@pytest.mark.parametrize("size", [1e-12, 1e-3, 1e12])
def test_the_unit_of_the_reports_does_not_matter(size):
    users = [gaussian(1.0 * size, 2.0 * size, count=10), gaussian(-1.0 * size, 0.1 * size)]
    plain = PufferfishSum(0.5).fit([gaussian(1.0, 2.0, count=10), gaussian(-1.0, 0.1)])
    scaled = PufferfishSum(0.5).fit(users)
    assert scaled.theta_ == pytest.approx(plain.theta_ * size, rel=1e-9)
    assert math.isfinite(scaled.release([size] * 11).value)


@pytest.mark.slow
def test_users_who_know_each_other_make_the_worst_case_one_user_alone():
    users = SYSTEMS["one among wide ones"]
    query = PufferfishSum(0.05, strategy="worst_case").fit(users)
    exact = PufferfishSum(0.05).fit(users)
    assert query.theta_ >= exact.theta_
    for k in range(2):
        (mean, _), (without, _) = distributions_of(users, k)
        alone = (mean - without, users[k].law.scales[0]), (0.0, 0.0)
        assert max(pure_losses(*alone, query.theta_)) <= query.certificate_.worst <= 0.05


def test_a_class_that_leaves_together_is_one_gaussian():
    users = [gaussian(1.0, 0.5, count=4), gaussian(-0.5, 2.0, count=3)]
    together = PufferfishSum(0.8, unit="class").fit(users)
    one = PufferfishSum(0.8).fit([gaussian(4.0, 1.0), gaussian(-1.5, 2.0 * math.sqrt(3.0))])
    assert together.theta_ == pytest.approx(one.theta_, rel=1e-9)
    assert any("the loss of all of them" in line for line in together.certificate_.assumptions)


# ----------------------------------------------------------------------------- guarantees with
# delta


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["exact", "worst_case", "corollary_1a"])
def test_deltas_are_those_of_the_densities(strategy):
    users = [gaussian(1.0, 1.0), gaussian(0.0, 2.0, count=2)]
    query = PufferfishSum(0.6, delta=1e-3, strategy=strategy).fit(users)
    certificate, most = query.certificate_, 0.0
    assert certificate.holds
    for k in range(2):
        p, q = alone(users, k)
        for way, (a, b) in enumerate([(p, q), (q, p)]):
            true = hockey_stick(a, b, query.theta_, 0.6)
            row = certificate.pairs[2 * k + way]
            assert row.lower * (1 - 1e-4) <= true <= row.upper * (1 + 1e-4)
            most = max(most, true)
            assert true <= certificate.worst * (1 + 1e-4)
    if strategy == "exact":
        assert most == pytest.approx(1e-3, rel=1e-4)
    assert "delta = 0.001: the probability of a set" in " ".join(certificate.assumptions)
    assert "find no event more than" in certificate.promise()


@pytest.mark.slow
def test_the_published_conditions_stand_beside_the_exact_scale():
    users, notion = [gaussian(1.0, 2.0, count=10)], Pufferfish(1.0, 1e-5)
    query = PufferfishSum(1.0, delta=1e-5).fit(users)
    found = gaussian_users([1.0], [2.0], notion)  # the others may be absent
    assert query.scales_["corollary_1a"] == pytest.approx(found.corollary_1a, rel=1e-7)
    gap = 2.0
    tau = -float(mpmath.sqrt(2) * mpmath.erfinv(mpmath.mpf(1e-5) - 1))
    assert query.scales_["corollary_1a"] == pytest.approx(1.0 + gap * abs(tau), rel=1e-6)
    assert query.theta_ == query.scales_["exact"] < query.scales_["corollary_1a"]
    published = clone(query).set_params(strategy="published").fit(users)
    assert published.theta_ == pytest.approx(query.scales_["corollary_1a"], rel=1e-7)
    assert published.certificate_.pairs[0].bound == 1e-5
    assert published.certificate_.pairs[0].upper < 1e-5


def test_the_corollary_is_refused_without_a_delta():
    with pytest.raises(ValueError, match=r"'published' has no scale .* without a delta"):
        PufferfishSum(1.0, strategy="published").fit(SYSTEMS["ten alike"])


def test_without_noise_the_sum_is_released_as_it_is():
    users = [gaussian(0.1, 0.1, values=[0.0, 0.1], count=50)]
    with pytest.warns(UserWarning, match="no noise is needed"):
        query = PufferfishSum(1.0, delta=0.3, secrets="value").fit(users)
    assert query.release([0.1] * 50).value == float(50 * Fraction(0.1))
    assert query.certificate_.holds
    true = hockey_stick(*distributions_of(users, 0, [0.0, 0.1]), 1e-3, 1.0)
    assert query.certificate_.pairs[0].upper >= true
    worst = clone(query).set_params(strategy="worst_case").fit(users)
    assert worst.theta_ > 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "strategy"), [(1e-300, "exact"), (0.5, "worst_case")])
def test_every_delta_has_a_certificate_that_holds(delta, strategy):
    query = PufferfishSum(2.0, delta=delta, strategy=strategy)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no noise is needed")
        query.fit([gaussian(3.0, 0.5, count=2)])
    assert query.certificate_.holds
    pure = PufferfishSum(2.0, strategy=strategy).fit([gaussian(3.0, 0.5, count=2)])
    assert query.theta_ <= pure.theta_ * (1 + 1e-9)


# -------------------------------------------------------------------------------------- the values


@pytest.mark.parametrize("secrets", ["value", "value-absence"])
@pytest.mark.parametrize("delta", [0.0, pytest.param(1e-4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("strategy", ["exact", "worst_case", "published"])
def test_values_are_translations(secrets, delta, strategy):
    users = [gaussian(1.0, 1.0, values=[0.5, 1.0, 2.75]), gaussian(0.0, 0.5, values=[-1, 1])]
    query = PufferfishSum(0.5, delta=delta, secrets=secrets, strategy=strategy).fit(users)
    assert query.certificate_.holds
    farthest = corollary_1b(0.5 if secrets == "value" else 0.0, 2.75).distance
    if delta == 0.0:
        assert query.theta_ == pytest.approx(farthest / 0.5, rel=1e-8)
    name = {"value": "corollary_1b", "value-absence": "theorem_2_of_001"}[secrets]
    assert query.scales_[name] == pytest.approx(farthest / 0.5, rel=1e-8)
    values = (0.5, 2.75) if secrets == "value" else (2.75, 0.0)
    p, q = distributions_of(users if secrets == "value" else users[:1], 0, values)
    row = query.certificate_.pairs[0]
    if delta == 0.0:
        assert row.upper >= max(pure_losses(p, q, query.theta_)) >= row.lower * (1 - 1e-3)
        return
    true = hockey_stick(p, q, query.theta_, 0.5)
    assert row.lower * (1 - 1e-4) <= true <= row.upper * (1 + 1e-4)
    alone = hockey_stick((values[0], 0.0), (values[1], 0.0), query.theta_, 0.5)
    assert alone <= query.certificate_.worst * (1 + 1e-4)
    if strategy == "exact":
        assert true == pytest.approx(delta, rel=1e-4)
    if strategy == "worst_case":
        assert alone == pytest.approx(delta, rel=1e-4)


def test_values_of_a_class_add_up():
    users = [gaussian(0.0, 1.0, values=[0, 2], count=5)]
    query = PufferfishSum(0.5, secrets="value", unit="class").fit(users)
    assert query.theta_ == pytest.approx(5 * 2 / 0.5, rel=1e-8)


def test_a_value_of_nought_is_as_good_as_absent():
    users = [gaussian(1.0, 2.0, values=[value]) for value in (0.0, 3.0)]
    certificate = PufferfishSum(epsilon=0.5, secrets="value-absence").fit(users).certificate_
    assert certificate.holds
    assert [pair.lower for pair in certificate.pairs] == pytest.approx([0.0, 0.0, 0.5, 0.5])
    assert max(pair.upper for pair in certificate.pairs[:2]) < 1e-6


def test_values_must_be_declared():
    with pytest.raises(ValueError, match="for a user with a Gaussian distribution"):
        PufferfishSum(0.5, secrets="value").fit([gaussian(0.0, 1.0)])


# -------------------------------------------------------------------------------------- the release


@given(st.lists(st.floats(-1e300, 1e300), max_size=30))
def test_sums_of_reports_are_exact(values):
    assert exact_sum(np.array(values, dtype=float)) == sum(map(Fraction, values), Fraction(0))


def answers_of(query, reports, n, users):
    """Return n answers of a seeded query."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        query.fit(users)
        return np.array([query.release(reports).value for _ in range(n)])


@pytest.mark.parametrize("query", [pytest.param("sum", marks=pytest.mark.slow), "mean"])
def test_the_noise_has_the_distribution_that_is_guaranteed(query):
    users, reports = [gaussian(1.0, 2.0, count=2), gaussian(0.0, 1.0)], [1.25, math.pi, -0.3]
    made = PufferfishSum(0.5, query=query, random_state=3)
    values = answers_of(made, reports, 1000, users)
    true = sum(reports) / (3 if query == "mean" else 1)
    noise = (values - true) / made.certificate_.columns[0].theta
    uniform = np.where(noise < 0, 0.5 * np.exp(-np.abs(noise)), 1 - 0.5 * np.exp(-np.abs(noise)))
    counts = np.histogram(uniform, bins=20, range=(0, 1))[0]
    assert chi2.sf(float(((counts - 50.0) ** 2 / 50.0).sum()), 19) > 1e-6


def test_the_sum_is_rounded_once_to_the_grid_and_paid_for():
    users = [gaussian(1.0, 2.0, count=1000)]
    made = PufferfishSum(0.5, random_state=3)
    values = answers_of(made, np.linspace(0, 1, 1000), 30, users)
    grid = made.step_
    assert grid == made.certificate_.columns[0].grid <= made.theta_ * 2.0**-39
    assert np.all(np.abs(values / grid) % 1.0 == 0.0)
    row = made.certificate_.pairs[0]
    paid = sampler_loss(1) + grid / made.theta_
    assert row.upper >= row.lower + 0.99 * paid
    assert row.upper <= 0.5


def test_far_values_make_the_grid_coarser_and_cost_more():
    users = [gaussian(1.0, 1e10, count=3, values=[0, 1])]
    made = PufferfishSum(1.0, secrets="value", random_state=1)
    values = answers_of(made, [1e10, 2.0, -3e9], 5, users)
    assert made.step_ > made.theta_ * 2.0**-38
    assert np.all(values % made.step_ == 0.0)
    assert made.theta_ >= 1.0 / (1.0 - 0.99 * made.step_ / made.theta_)
    assert made.certificate_.holds
    with pytest.raises(ValueError, match="is too small for values of up to"):
        PufferfishSum(1.0, secrets="value").fit([gaussian(0.0, 1e30, values=[0, 1])])


def test_any_finite_number_may_be_reported():
    crowd = [gaussian(0.0, 1.0, presence=0.5), gaussian(0.0, 1.0)]
    crowd = [replace(user, values=[0.0, 1.0]) for user in crowd]
    query = PufferfishSum(1.0, secrets="value").fit(crowd)
    assert math.isfinite(query.release([1e4, -math.pi]).value)
    assert math.isfinite(query.release([math.nan, 0.1]).value)
    with pytest.raises(ValueError, match=r"user 1 reports inf, which is not finite"):
        query.release([0.0, math.inf])
    with pytest.raises(ValueError, match="a report of user 1 is missing"):
        query.release([0.0, math.nan])
    with pytest.raises(ValueError, match=r"values has 3 rows and X has 2"):
        query.release([0.0, 1.0, 2.0])
    with pytest.raises(TypeError, match="column 'value' is not numeric"):
        query.release(["1", "2"])


def test_several_answers_and_their_ledger(tmp_path):
    users = [gaussian(1.0, 2.0, count=3)]
    once = PufferfishSum(0.5).fit(users)
    query = PufferfishSum(0.5, releases=2).fit(users)
    assert query.theta_ == pytest.approx(2 * once.theta_, rel=1e-9)
    ledger = Ledger.create(tmp_path / "sum.ledger", query)
    loaded = pickle.loads(pickle.dumps(query))
    values = {ledger.release(made, [1.0, 2.0, 3.0]).value for made in (query, loaded)}
    assert len(values) == 2
    with pytest.raises(OverspentError):
        ledger.release(query, [1.0, 2.0, 3.0])
    other = clone(query).fit([gaussian(1.0, 2.5, count=3)])
    assert other.certificate_.fingerprint != query.certificate_.fingerprint


@pytest.mark.slow
def test_two_answers_together_lose_what_the_certificate_says():
    # where both answers lie at one point, their ratio is that of one at half the scale
    users = [gaussian(1.0, 1.0), gaussian(0.0, 0.5)]
    query = PufferfishSum(0.8, releases=2).fit(users)
    (m, s), (n, t) = distributions_of(users, 0)
    theta = query.theta_

    def joint(y, z, mean, sd):
        # exp(-|y - x|/theta - |z - x|/theta) over x, in pieces that are smooth
        ends = sorted({mean - 12 * sd, min(y, z), max(y, z), mean, mean + 12 * sd})
        return mpmath.quad(
            lambda x: mpmath.npdf(x, mean, sd) * mpmath.exp(-(abs(y - x) + abs(z - x)) / theta),
            ends,
        )

    with mpmath.workdps(15):
        for y in (-5.0, 0.0, 1.0, 3.0):
            for z in (y, y + 7.0):
                ratio = mpmath.log(joint(y, z, m, s) / joint(y, z, n, t))
                assert abs(ratio) <= query.certificate_.loss
        far = mpmath.log(joint(40.0, 40.0, m, s) / joint(40.0, 40.0, n, t))
    assert float(far) == pytest.approx(0.8, rel=1e-6)


# --------------------------------------------------------------------------- conventions, bad input


def test_a_gaussian_query_is_an_estimator():
    query = PufferfishSum(0.5, delta=1e-3, releases=3)
    assert clone(query).get_params() == query.get_params()
    assert query.get_params()["delta"] == 1e-3
    query.set_params(delta=0.0).fit([gaussian(1.0, 1.0, name="me"), gaussian(0.0, 1.0, name="you")])
    assert query.classes_ == ("me", "you")
    assert query.certificate_.pairs[0].secret == "user me is present"
    loaded = copy.deepcopy(query)
    assert loaded.certificate_ == query.certificate_
    assert loaded.certificate_.promise() == query.certificate_.promise()
    said = " ".join(query.certificate_.assumptions)
    assert "the central limit theorem is no proof" in said
    assert "rounded half up to the grid" in said


MIXTURE = GaussianMixture([0.5, 0.5], [0.0, 5.0], [1.0, 1.0])
REFUSED = {
    "discrete users beside them": (
        {},
        [gaussian(0, 1), User(Discrete([0, 1], [0.5, 0.5]))],
        r"got Discrete.* for users\[1\].* give all users Discrete distributions",
    ),
    "a Gaussian alternative": (
        {"secrets": "distribution"},
        [User(Discrete([0], [1]), alternative=MIXTURE)],
        r"got Discrete.* for users\[0\]",
    ),
    "a mixture": ({}, [User(MIXTURE)], "central limit theorem is no proof"),
    "two distributions": (
        {"secrets": "distribution"},
        [gaussian(0, 1)],
        "round the reports to a step",
    ),
    "a count": ({"query": "count"}, [gaussian(0, 1)], "use query='sum'"),
    "a step": ({"step": 0.5}, [gaussian(0, 1)], r"step=0\.5 is for discrete users"),
    "classes": ({"by": "race"}, [gaussian(0, 1)], "by='race' is for tables"),
    "a theorem": ({"strategy": "theorem_4"}, [gaussian(0, 1)], "'theorem_4' does not apply"),
    "a delta": ({"delta": -0.1}, [gaussian(0, 1)], "delta must lie in"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_does_not_go_together_is_refused(case):
    params, users, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        PufferfishSum(**params).fit(users)


def test_many_users_are_not_looked_at_one_by_one():
    users = [gaussian(1.0 + k / 100, 1.0) for k in range(80)]
    certificate = PufferfishSum(0.5).fit(users).certificate_
    assert certificate.holds
    assert {row.source for row in certificate.pairs} == {"theorem"}
    assert any("marked theorem" in line for line in certificate.assumptions)
