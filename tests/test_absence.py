"""Who is absent from a sum is a secret: no answer, and no refusal, may tell it.

The oracle enumerates all patterns of presence, and the answers, refusals included, under each.
"""

import functools
import itertools
import math
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from all_pairs import pairs_first
from test_queries_gaussian import distributions_of, gaussian, log_density, points_of

from sklearn_puffer import PufferfishSum
from sklearn_puffer._sums.losses import sum_scale
from sklearn_puffer._sums.users import SECRETS, user_pairs
from sklearn_puffer.priors import Discrete
from sklearn_puffer.users import User

CROWD = [
    User(Discrete([-4, -3, 5], [0.938, 0.001, 0.061]), count=5, presence=0.5),
    User(Discrete([4.0], [1.0]), presence=0.5, name="Ann"),
]
WITH_ANN, WITHOUT_ANN = [-4, -4, -4, -4, 5, 4], [-4, -4, -4, -4, 5, math.nan]
NOBODY = Discrete([0], [1.0])


# ------------------------------------------------------------------------------------- the oracle


def distribution_on(distribution):
    """Return the masses of a distribution on the whole numbers from -5 to 5."""
    masses = np.zeros(11)
    masses[distribution.atoms.astype(int) + 5] = distribution.probabilities
    return masses


def distribution_of_sum(distributions):
    """Return the masses of a sum, on the whole numbers around 0."""
    return functools.reduce(
        np.convolve, [distribution_on(distribution) for distribution in (*distributions, NOBODY)]
    )


def loss_of(p, q, theta):
    """Return the loss of two priors on one range: the largest log ratio lies at a whole number."""
    places = np.arange(len(p))
    kernel = np.exp(-np.abs(places[:, None] - places) / theta)
    return float(np.abs(np.log(kernel @ p) - np.log(kernel @ q)).max())


def two_distributions(user, secrets):
    """Return the distributions of a user's report under two secrets."""
    low, high = (Discrete([float(x)], [1.0]) for x in (user.law.atoms[0], user.law.atoms[-1]))
    largest = max(low, high, key=lambda distribution: abs(distribution.atoms[0]))
    return {
        "value": (low, high),
        "value-absence": (largest, NOBODY),
        "distribution-absence": (user.law, NOBODY),
        "distribution": (user.law, user.alternative),
    }[secrets]


def members_of(crowd):
    """Return the place of each user's class."""
    return [k for k, user in enumerate(crowd) for _ in range(user.count)]


def patterns_of(crowd):
    """Return all patterns of presence that are allowed, one entry for each user."""
    may = [[True] if crowd[k].presence == 1.0 else [True, False] for k in members_of(crowd)]
    return list(itertools.product(*may))


def loss_given(crowd, pattern, query, theta):
    """Return the largest loss about anybody who is present, given who of the others is."""
    here = [k for k, is_here in zip(members_of(crowd), pattern, strict=True) if is_here]
    losses = [0.0]
    for k in set(here):
        changed = here.count(k) if query.unit == "class" else 1
        others = [crowd[j].law for j in here if j != k]
        others += [crowd[k].law] * (here.count(k) - changed)
        distributions = two_distributions(crowd[k], query.secrets)
        losses.append(
            loss_of(
                *(
                    distribution_of_sum([*others, *[distribution] * changed])
                    for distribution in distributions
                ),
                theta,
            )
        )
    return max(losses)


def is_answered(query, crowd, pattern):
    """Return whether there is an answer."""
    seen = [user.law.atoms[user.law.counts > 0][-1] for user in crowd]
    reports = [
        seen[k] if is_here else math.nan
        for k, is_here in zip(members_of(crowd), pattern, strict=True)
    ]
    try:
        answer = query.release(reports)
    except ValueError:
        return False
    assert answer.certificate is query.certificate_
    assert answer.theta == query.certificate_.columns[0].theta
    return math.isfinite(answer.value)


def random_crowd(rng, secrets="distribution-absence"):
    """Return up to five users in up to three classes, some or all of whom may be absent."""
    sure = 0.9 if "absence" in secrets else 1.0
    crowd = []
    for count in rng.permutation([1, 2, 2])[: rng.integers(1, 4)]:
        atoms = np.sort(rng.choice(np.arange(-5, 6), 3, replace=False))
        distribution, other = (Discrete(atoms, rng.dirichlet([0.4] * 3)) for _ in range(2))
        presence = float(rng.choice([0.0, 0.5, sure]))
        crowd.append(User(distribution, presence=presence, alternative=other, count=int(count)))
    return crowd


# ---------------------------------------------------------------------------------- random crowds


@pytest.mark.parametrize(
    ("strategy", "secrets", "unit"),
    pairs_first(itertools.product(["exact", "worst_case", "published"], SECRETS, ["row", "class"])),
)
def test_every_pattern_of_presence_is_answered_within_the_certificate(strategy, secrets, unit):
    rng = np.random.default_rng([len(strategy), len(secrets), len(unit)])
    for _ in range(2):
        crowd, epsilon = random_crowd(rng, secrets), float(rng.choice([0.05, 0.5, 2.0]))
        query = PufferfishSum(epsilon, secrets=secrets, strategy=strategy, unit=unit).fit(crowd)
        certificate = query.certificate_
        patterns = patterns_of(crowd)
        assert all(is_answered(query, crowd, pattern) for pattern in patterns)
        losses = [loss_given(crowd, pattern, query, query.theta_) for pattern in patterns]
        assert certificate.holds
        assert max(losses) <= certificate.loss * (1.0 + 1e-9)
        if unit == "row":  # of which the loss stated is no bound, but the loss itself
            assert max(losses) == pytest.approx(certificate.loss, rel=1e-6)


def test_an_adversary_who_does_not_know_who_is_absent_learns_no_more():
    rng = np.random.default_rng(7)
    for _ in range(5):
        crowd = random_crowd(rng)
        query = PufferfishSum(0.5).fit(crowd)
        for k, user in enumerate(crowd):
            others = members_of(crowd)
            others.remove(k)
            rest = distribution_of_sum([])
            for other in (crowd[j] for j in others):
                mixed = other.presence * distribution_on(other.law) + (
                    1 - other.presence
                ) * distribution_on(NOBODY)
                rest = np.convolve(rest, mixed)
            distributions = (
                np.convolve(rest, distribution_on(distribution))
                for distribution in (user.law, NOBODY)
            )
            assert loss_of(*distributions, query.theta_) <= query.certificate_.loss * (1.0 + 1e-9)


# -------------------------------------------------------------------------------------- one by one


@pytest.mark.parametrize("secrets", ["value-absence", "distribution-absence"])
@pytest.mark.parametrize("crowd", [[User(CROWD[0].law, count=3)], [gaussian(1.0, 1.0, values=[1])]])
def test_whose_absence_is_a_secret_may_be_absent(secrets, crowd):
    query = PufferfishSum(0.5, secrets=secrets).fit(crowd)
    value = 5.0 if crowd[0].count == 3 else 1.0
    for reports in itertools.product([value, math.nan], repeat=crowd[0].count):
        assert math.isfinite(query.release(list(reports)).value)
    declared = [replace(user, presence=0.5) for user in crowd]
    assert query.theta_ == PufferfishSum(0.5, secrets=secrets).fit(declared).theta_


@pytest.mark.parametrize("secrets", ["value-absence", "distribution-absence"])
def test_absence_is_no_secret_of_who_is_certain_to_be_there(secrets):
    why = "whether user (Ann|1) is present, and presence=1 says .* declare a presence below 1"
    sure = replace(CROWD[1], presence=1.0)
    for crowd in ([sure], [CROWD[0], sure]):
        with pytest.raises(ValueError, match=why):
            PufferfishSum(0.5, secrets=secrets).fit(crowd)
    table = pd.DataFrame({"race": ["a", "a", "b"] * 3, "years": [9.0, 10.0, 16.0] * 3})
    query = PufferfishSum(0.5, secrets=secrets, value="years", by="race")
    with pytest.raises(ValueError, match="whether one of race a is present"):
        query.set_params(presence=1).fit(table)
    query.set_params(presence=None).fit(table)
    gone = table["years"].mask(table.index == 2)
    assert math.isfinite(query.release(table.assign(years=gone)).value)
    assert PufferfishSum(0.5, secrets="value").fit([replace(CROWD[0], presence=1.0)]).theta_ > 0.0


def test_an_answer_does_not_prove_that_somebody_is_there():
    query = PufferfishSum(0.05).fit(CROWD)
    for reports in (WITH_ANN, WITHOUT_ANN, [math.nan] * 6):
        assert math.isfinite(query.release(reports).value)
    assert query.certificate_.holds
    # with everybody there it would take less noise than where nobody is sure to be
    pairs = user_pairs(CROWD, "distribution-absence")
    assert sum_scale(CROWD, pairs, 0.05).scale == pytest.approx(80.0, rel=1e-8)
    assert query.theta_ == pytest.approx(query.scales_["worst_case"], rel=1e-9)


def test_objects_are_numbers_even_where_everybody_is_absent():
    query = PufferfishSum(0.05).fit(CROWD)
    missing = [None] * 6
    further = [[pd.NA] * 6, np.array([pd.NA, *missing[1:]]), pd.Series(missing, dtype="Int64")]
    for reports in (missing, pd.Series(missing, dtype=object), *further):
        assert math.isfinite(query.release(reports).value)
    table = pd.DataFrame({"years": pd.Series([1, 2, 3, 1], dtype=object)})
    query = PufferfishSum(0.5, value="years", presence=0.5).fit(table)
    assert math.isfinite(query.release(table.assign(years=None)).value)


def test_the_certificate_of_the_worst_case_counts_on_nobody_who_may_be_absent():
    certificate = PufferfishSum(0.05, strategy="worst_case").fit(CROWD).certificate_
    alone = two_distributions(CROWD[0], "distribution-absence")
    loss = loss_of(*map(distribution_on, alone), certificate.columns[0].theta)
    assert loss == pytest.approx(0.05, rel=1e-9)
    assert certificate.loss == pytest.approx(loss, rel=1e-9)
    assert max(row.lower for row in certificate.pairs) == pytest.approx(loss, rel=1e-9)


def test_those_who_are_always_there_are_counted_on():
    other = User(CROWD[0].law, alternative=NOBODY, count=5)
    some, none = ([replace(other, presence=p), CROWD[1]] for p in (1.0, 0.5))
    query = PufferfishSum(0.05, secrets="distribution")
    scales = [query.fit(crowd).theta_ for crowd in (some, none)]
    assert query.fit([replace(other, presence=None), CROWD[1]]).theta_ == scales[0]
    assert scales[0] < scales[1] * (1.0 - 1e-3)


def test_a_column_alone_is_refused_where_it_matters_whose_values_are_missing():
    table = pd.DataFrame({"race": ["a", "a", "b"] * 3, "years": [9.0, 10.0, 16.0] * 3})
    query = PufferfishSum(0.5, secrets="value", value="years", by="race", presence=0.5)
    query.fit(table)
    missing = table["years"].mask(table.index == 2)
    for column in (table["years"], missing):  # the same for both: that it comes tells nothing
        with pytest.raises(ValueError, match="pass the table, which tells the classes apart"):
            query.release(column)
    assert math.isfinite(query.release(table.assign(years=missing)).value)


def test_the_certificate_says_which_refusals_tell_of_a_report():
    def said(crowd, secrets="distribution-absence"):
        certificate = PufferfishSum(1.0, secrets=secrets).fit(crowd).certificate_
        [line] = [x for x in certificate.assumptions if "refus" in x]
        return line

    sure = [User(CROWD[0].law)]
    assert "a missing report is never refused" in said(CROWD)
    assert "a missing report is never refused" in said(sure)
    assert "a missing report of a user whose presence is 1" in said(sure, "value")
    for crowd in (CROWD, [User(CROWD[0].law)]):
        assert "a report that the distribution of its user (or class) does not have" in said(crowd)
        assert "not covered" in said(crowd)
    assert "a report that is not finite" in said([gaussian(0.0, 1.0)])
    table = pd.DataFrame({"race": ["a", "a", "b"] * 3, "years": [9.0, 10.0, 16.0] * 3})
    learnt = PufferfishSum(0.5, value="years", by="race").fit(table).certificate_.assumptions
    assert any("classes of another number of rows than in fit" in line for line in learnt)


# ---------------------------------------------------------------------------------- Gaussian users


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "delta"),
    [("exact", 0.0), ("exact", 1e-3), ("worst_case", 0.0), ("corollary_1a", 1e-3)],
)
def test_gaussian_users_are_answered_for_whoever_is_absent(strategy, delta):
    kinds = [(1.0, 1.0, 0.5), (-2.0, 0.5, None), (0.5, 2.0, 0.9)]
    crowd = [gaussian(mean, sd, presence=presence) for mean, sd, presence in kinds]
    query = PufferfishSum(0.5, delta=delta, strategy=strategy).fit(crowd)
    for pattern in patterns_of(crowd):
        reports = [0.5 if is_here else math.nan for is_here in pattern]
        assert math.isfinite(query.release(reports).value)
        here = [user for user, is_here in zip(crowd, pattern, strict=True) if is_here]
        for k in range(len(here)):
            first, second = distributions_of(here, k)
            places = points_of(first, second, query.theta_, 4001)
            logs = [
                log_density(places, *distribution, query.theta_) for distribution in (first, second)
            ]
            gaps = np.abs(logs[0] - logs[1])
            if delta == 0.0:
                assert gaps.max() <= query.certificate_.loss * (1.0 + 1e-9)
                continue
            for p, q in (logs, logs[::-1]):
                excess = np.maximum(np.exp(p) - math.exp(0.5) * np.exp(q), 0.0)
                assert np.trapezoid(excess, places) <= query.certificate_.loss + 1e-6
    assert query.certificate_.holds


def test_sums_beyond_the_grid_are_saturated_and_not_refused():
    query = PufferfishSum(1.0).fit([gaussian(0.0, 1.0, count=3)])
    ends = [query.release([x, x, 1.0]).value for x in (1e300, -1e300)]
    assert ends[0] == -ends[1] > 1e5
    crowd = [gaussian(0.0, 1.0, values=[0.0, 1.0], count=30)]
    with pytest.warns(UserWarning, match="no noise is needed"):
        free = PufferfishSum(5.0, delta=0.5, secrets="value").fit(crowd)
    assert free.release([1.7e308] * 3 + [0.0] * 27).value == sys.float_info.max
