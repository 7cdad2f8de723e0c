"""`PufferfishSum` as users call it: the scales, the guarantee, the release, and what is refused."""

import copy
import dataclasses
import io
import json
import math
import pickle
import sys
import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import product

import joblib
import mpmath
import numpy as np
import oracle
import pandas as pd
import polars as pl
import pytest
from all_pairs import all_pairs
from claims import altered
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from sklearn_puffer import Ledger, LedgerError, OverspentError, PufferfishSum, UncertifiedError
from sklearn_puffer._noise import sampler_loss, system_entropy
from sklearn_puffer._sums import PrivateAnswer
from sklearn_puffer._sums.estimator import _rule
from sklearn_puffer._sums.reports import SumSettings
from sklearn_puffer._sums.sums import DiscreteSum, answers_about, secret_pairs
from sklearn_puffer._sums.users import SECRETS
from sklearn_puffer.priors import Discrete, GaussianMixture
from sklearn_puffer.users import User

VALUES = [1, 2, 3, 4, 5]
# 001, Tables 2 and 3
THREE = [
    Discrete(VALUES, masses)
    for masses in ([0.01, 0.04, 0.1, 0.2, 0.65], [0.7, 0.2, 0.05, 0.04, 0.01], [0.2] * 5)
]
P4 = Discrete(VALUES, [0.4, 0.1, 0, 0.1, 0.4])
Q4 = Discrete(VALUES, [0, 0.05, 0.9, 0.05, 0])
BERNOULLI = Discrete([0, 1], [0.8, 0.2]), Discrete([0, 1], [0.1, 0.9])
EPSILONS = [0.1, 0.5, 1.0]
# scales at these budgets: exact for the four users, over all other users, and published
FIGURES = {
    "figure 1": (
        ("value", "theorem_1_of_001"),
        ([20.0, 4.0, 2.0], [20.0, 4.0, 2.0], [20.0, 4.0, 2.0]),
    ),
    "figure 2": (
        ("value-absence", "theorem_2_of_001"),
        ([50.0, 10.0, 5.0], [50.0, 10.0, 5.0], [50.0, 10.0, 5.0]),
    ),
    "figures 3 and 4": (
        ("distribution-absence", "theorem_3_eq13"),
        (
            [30.5560385049, 6.51543678649, 3.46976961268],
            [30.5560385049, 6.51543678649, 3.46976961268],
            [30.5560385049, 6.51543678649, 3.46976961268],
        ),
    ),
    "figure 6": (
        ("distribution", "theorem_4"),
        (
            [4.98441223725, 1.67392075156, 1.09470305987],
            [16.9784173449, 3.37442606722, 1.66940742106],
            [20.0, 4.0, 2.0],
        ),
    ),
    "figures 7 and 8": (
        ("distribution", "lemma_2"),
        (
            [7.04400594385, 1.42087508684, 0.690757310382],
            [7.04400594385, 1.42087508684, 0.690757310382],
            [7.88480326877, 1.64870226141, 0.857612515743],
        ),
    ),
}


def users_of(figure):
    """Return the four users of a figure; only the fourth has secrets of any weight."""
    if figure == "figure 1":
        return [
            *(User(distribution, values=[1]) for distribution in THREE),
            User(P4, values=[3, 5]),
        ]
    if figure == "figure 2":
        return [*(User(distribution, values=[1]) for distribution in THREE), User(P4, values=[5])]
    if figure == "figures 3 and 4":
        # the figures are about the fourth user alone; the others may leave unnoticed
        return [User(P4), *(User(distribution) for distribution in THREE)]
    distributions = BERNOULLI if "7" in figure else (P4, Q4)
    return [
        *(User(distribution, alternative=distribution) for distribution in THREE),
        User(distributions[0], alternative=distributions[1]),
    ]


def convolved(*distributions):
    """Return the distribution of a sum, with exact integer counts."""
    total = {0.0: 1}
    for distribution in distributions:
        following = {}
        atoms = zip(distribution.atoms.tolist(), distribution.counts.tolist(), strict=True)
        for (x, n), (y, m) in product(total.items(), list(atoms)):
            following[x + y] = following.get(x + y, 0) + n * m
        total = following
    return Discrete.from_counts(list(total), np.array(list(total.values()), dtype=object))


def brute_force(others, p, q, theta):
    """Return both directed losses of the sum of one user and the others."""
    return oracle.directed_losses(convolved(*others, p), convolved(*others, q), theta)


def point(value):
    return Discrete([value], [1.0])


def table_of(n=6):
    """Return a small table of two classes."""
    return pd.DataFrame(
        {
            "race": ["a", "a", "b"] * n,
            "years": [9, 10, 16] * n,
            "cents": [0.25, 0.5, 1.75] * n,
            "owns": [True, False, True] * n,
        }
    )


# ------------------------------------------------------------------------------ the papers' figures


@pytest.mark.parametrize("figure", [name for name in FIGURES if "3" not in name])
@pytest.mark.parametrize("k", range(3))
def test_the_scales_are_those_of_the_figures(figure, k):
    (secrets, published), (exact, worst, printed) = FIGURES[figure]
    users = users_of(figure)
    query = PufferfishSum(EPSILONS[k], secrets=secrets).fit(users)
    if "value" not in figure and figure == "figures 7 and 8":
        # the lemmas are for binary users only: asked of the fourth user
        query_of_fourth = PufferfishSum(EPSILONS[k], secrets=secrets).fit(users[3:])
        assert query_of_fourth.scales_[published] == pytest.approx(printed[k], rel=1e-8)
    else:
        assert query.scales_[published] == pytest.approx(printed[k], rel=1e-8)
    assert query.theta_ == pytest.approx(exact[k], rel=1e-8)
    assert query.scales_["exact"] == query.theta_
    assert query.scales_["worst_case"] == pytest.approx(worst[k], rel=1e-8)


@pytest.mark.parametrize("k", range(3))
def test_the_scales_of_presence_are_those_of_figure_4(k):
    (secrets, published), (exact, worst, printed) = FIGURES["figures 3 and 4"]
    assert secrets == PufferfishSum().secrets
    query = PufferfishSum(EPSILONS[k]).fit([User(P4)])
    assert query.theta_ == pytest.approx(exact[k], rel=1e-8)
    assert query.scales_["worst_case"] == pytest.approx(worst[k], rel=1e-8)
    assert query.scales_[published] == pytest.approx(printed[k], rel=1e-8)
    # with the three others present too, the first of them asks for most
    query = PufferfishSum(EPSILONS[k]).fit([User(distribution) for distribution in (*THREE, P4)])
    assert query.theta_ >= exact[k]


# ------------------------------------------------------------------------------ against brute force


@pytest.mark.parametrize("secrets", SECRETS)
@pytest.mark.parametrize("strategy", ["exact", "worst_case", "published"])
def test_the_certificate_holds_the_loss_of_a_dense_convolution(secrets, strategy):
    distributions = [
        Discrete([-1, 0, 2], [0.25, 0.5, 0.25]),
        Discrete([0, 3], [0.1, 0.9]),
        Discrete([-2, 1], [0.5, 0.5]),
    ]
    others = [Discrete([-1, 2], [0.5, 0.5]), Discrete([0, 3], [0.4, 0.6]), Discrete([1], [1])]
    users = [
        User(distribution, alternative=q)
        for distribution, q in zip(distributions, others, strict=True)
    ]
    query = PufferfishSum(0.7, secrets=secrets, strategy=strategy).fit(users)
    rows, most = query.certificate_.pairs, 0.0
    for k in range(3):
        rest = [] if "absence" in secrets else distributions[:k] + distributions[k + 1 :]
        p, q = {
            "value": (point(distributions[k].atoms[0]), point(distributions[k].atoms[-1])),
            "value-absence": (point(max(distributions[k].atoms, key=abs)), point(0.0)),
            "distribution-absence": (distributions[k], point(0.0)),
            "distribution": (distributions[k], others[k]),
        }[secrets]
        for way, true in enumerate(brute_force(rest, p, q, query.theta_)):
            row = rows[2 * k + way]
            assert row.lower <= true * (1 + mpmath.mpf(10) ** -14) + mpmath.mpf(10) ** -15
            assert true <= row.upper
            assert row.upper <= float(true) + 1e-9
            assert row.source == "recomputed"
            most = max(most, float(true))
    assert len(rows) == 6
    assert most <= query.certificate_.loss <= 0.7
    if strategy == "exact":
        assert most == pytest.approx(0.7, rel=1e-9)


@pytest.mark.slow
@settings(max_examples=15)
@given(st.data())
def test_random_systems_lose_what_brute_force_says(data):
    masses = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any)
    distributions = [
        Discrete.from_counts([low, low + 1, low + 2], data.draw(masses))
        for low in data.draw(st.lists(st.integers(-2, 1), min_size=2, max_size=4))
    ]
    query = PufferfishSum(data.draw(st.sampled_from([0.05, 1.0, 4.0]))).fit(
        [*map(User, distributions)]
    )
    losses = [
        max(brute_force([], distribution, point(0.0), query.theta_ or 1e-3))
        for distribution in distributions
    ]
    if query.theta_ > 0.0:
        assert float(max(losses)) == pytest.approx(query.epsilon, rel=1e-8)
        assert max(losses) <= query.certificate_.loss <= query.epsilon
    worst = PufferfishSum(query.epsilon, strategy="worst_case").fit([*map(User, distributions)])
    assert query.theta_ <= worst.theta_ * (1 + 1e-9)
    assert worst.certificate_.loss <= query.epsilon


def test_the_worst_case_is_that_of_users_who_know_each_other():
    users = [User(P4, alternative=Q4), User(THREE[0], alternative=THREE[0])]
    query = PufferfishSum(0.5, secrets="distribution", strategy="worst_case").fit(users)
    alone = brute_force([], P4, Q4, query.theta_)
    assert float(max(alone)) == pytest.approx(0.5, rel=1e-9)
    exact = PufferfishSum(0.5, secrets="distribution").fit(users)
    alone = float(max(brute_force([], P4, Q4, exact.theta_)))
    assert exact.certificate_.worst == pytest.approx(alone, rel=1e-9)
    assert (
        f"but NOT for whoever knows other users' reports: {alone:.5g}"
        in exact.certificate_.details()
    )
    (said,) = [line for line in exact.certificate_.assumptions if "does NOT cover them" in line]
    assert f"{alone:.5g}" in said
    assert 'strategy="worst_case"' in said
    assert any("the guarantee covers them too" in line for line in query.certificate_.assumptions)
    assert "and for whoever knows other users' reports: 0.5" in query.certificate_.details()


@pytest.mark.parametrize("name", ["theorem_4", "relaxed", "lemma_1", "lemma_2"])
def test_a_published_condition_is_chosen_by_its_name(name):
    users = [
        User(BERNOULLI[0], alternative=BERNOULLI[1]),
        User(BERNOULLI[1], alternative=BERNOULLI[1]),
    ]
    query = PufferfishSum(0.5, secrets="distribution", strategy=name).fit(users)
    assert query.theta_ == query.scales_[name] >= query.scales_["worst_case"] * (1 - 1e-9)
    assert query.certificate_.strategy == name
    assert query.certificate_.holds
    smallest = PufferfishSum(0.5, secrets="distribution", strategy="published").fit(users)
    published = query.scales_.drop(["exact", "worst_case"])
    assert smallest.theta_ == published.min()


def test_a_condition_that_does_not_apply_is_refused():
    with pytest.raises(
        ValueError, match="'theorem_1_of_001' does not apply to secrets='distribution-abs"
    ):
        PufferfishSum(strategy="theorem_1_of_001").fit([User(P4)])


# ------------------------------------------------------------------------------------------- tables


def test_each_row_of_a_table_is_a_user_with_the_distribution_of_its_class():
    table = table_of()
    query = PufferfishSum(0.5, value="years", by="race").fit(table)
    assert query.classes_ == ("a", "b")
    assert [user.count for user in query.users_] == [12, 6]
    assert query.n_reports_ == 18
    distributions = [Discrete([9, 10], [0.5, 0.5])] * 12 + [point(16)] * 6
    same = PufferfishSum(0.5).fit([*map(User, distributions)])
    assert query.theta_ == pytest.approx(same.theta_, rel=1e-9)
    assert query.certificate_.table["sensitive"].unique().tolist() == ["race"]
    assert query.certificate_.pairs[0].secret == "one of race a is present"


def test_a_class_of_one_row_each_is_the_same_as_rows():
    table = pd.DataFrame({"k": ["a", "b"], "x": [3, 5]})
    thetas = [PufferfishSum(value="x", by="k", unit=u).fit(table).theta_ for u in ("row", "class")]
    assert thetas == pytest.approx([5.0, 5.0], rel=1e-9)


def test_the_scale_of_a_class_removed_whole_is_that_of_its_convolved_distribution():
    table = pd.DataFrame({"k": ["a"] * 6 + ["b"] * 2, "x": [0, 1, 1, 3, 0, 1, 2, 2]})
    query = PufferfishSum(0.8, value="x", by="k", unit="class").fit(table)
    distribution, other = Discrete([0, 1, 3], [1 / 3, 1 / 2, 1 / 6]), point(2)
    true = brute_force([other] * 2, convolved(*[distribution] * 6), point(0), query.theta_)
    assert float(max(true)) == pytest.approx(0.8, rel=1e-8)
    for row, loss in zip(query.certificate_.pairs, true, strict=False):
        assert row.lower <= float(loss) + 1e-12
        assert float(loss) <= row.upper
    assert query.certificate_.pairs[0].source == "recomputed"
    assert query.certificate_.pairs[0].secret == "each of k a is present"


def test_a_class_whose_reports_have_both_signs_keeps_a_bound():
    table = pd.DataFrame({"k": ["a"] * 4 + ["b"], "x": [-1, 2, 2, -3, 1]})
    query = PufferfishSum(0.8, value="x", by="k", unit="class").fit(table)
    distribution = Discrete([-3, -1, 2], [0.25, 0.25, 0.5])
    true = brute_force([point(1)], convolved(*[distribution] * 4), point(0), query.theta_)
    row = query.certificate_.pairs[int(true[1] > true[0])]
    assert row.lower <= float(max(true)) <= row.upper <= 0.8
    assert {each.source for each in query.certificate_.pairs} <= {"theorem", "recomputed"}
    assert row.source == "theorem"
    assert any("in the worst case" in line for line in query.certificate_.assumptions)


def test_a_class_loses_as_many_values_as_it_has_rows():
    table = pd.DataFrame({"k": ["a"] * 5, "x": [1, 1, 4, 2, 2]})
    query = PufferfishSum(0.5, secrets="value", value="x", by="k", unit="class").fit(table)
    assert query.theta_ == pytest.approx(5 * 3 / 0.5, rel=1e-9)
    assert query.scales_["theorem_1_of_001"] == pytest.approx(30.0, rel=1e-9)


def test_the_certificate_says_what_a_unit_is():
    said = [
        " ".join(
            PufferfishSum(value="years", by="race", unit=u).fit(table_of()).certificate_.assumptions
        )
        for u in ("row", "class")
    ]
    assert "no guarantee about all users of a class at once" in said[0]
    assert "leave or change together" in said[1]
    assert "one draw is no guarantee about all rows" in PufferfishSum.__doc__.replace(
        "\n        ", " "
    )


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_tables_of_either_kind_give_the_same_answers(kind):
    columns = table_of().to_dict("list")
    table = kind(columns)
    query = PufferfishSum(0.5, value="cents", by=["race", "owns"], random_state=3)
    query.fit(table)
    assert query.step_ == 0.25
    assert query.classes_ == (("a", False), ("a", True), ("b", True))
    assert query.certificate_.pairs[0].sensitive == "race, owns"
    with pytest.warns(UserWarning, match="random_state=3 is for tests only"):
        answer = query.release(table)
    with pytest.raises(ValueError, match="pass the table, which tells the classes apart"):
        query.release(table["cents"])
    whole = clone(query).set_params(by=None)
    with pytest.warns(UserWarning, match="tests only"):
        answer = whole.fit(pd.DataFrame(columns)).release(columns["cents"])
    with pytest.warns(UserWarning, match="tests only"):
        column = whole.fit(table).release(table["cents"])
    assert column.value == answer.value


def test_a_table_without_classes_is_one_class():
    table = table_of()
    query = PufferfishSum(value="years").fit(table)
    assert query.certificate_.pairs[0].secret == "one of the rows is present"
    assert query.certificate_.table["sensitive"].unique().tolist() == ["user"]


def test_a_class_may_be_told_from_another_and_from_a_prior():
    table = table_of()
    query = PufferfishSum(0.4, secrets="distribution", value="years", by="race")
    one = clone(query).set_params(alternatives={"a": "b"}).fit(table)
    distribution = clone(query).set_params(alternatives={"a": point(16)}).fit(table)
    assert one.theta_ == distribution.theta_
    assert len(one.certificate_.pairs) == 2
    p = Discrete([9, 10], [0.5, 0.5])
    others = [p] * 11 + [point(16)] * 6
    true = float(max(brute_force(others, p, point(16), one.theta_)))
    assert true == pytest.approx(0.4, rel=1e-8)


def test_a_user_who_always_reports_0_is_answered_for_whatever_values_have_no_mass():
    users = [User(Discrete([0.0, 0.1], [1.0, 0.0]))]
    with pytest.warns(UserWarning, match="no noise is needed"):
        query = PufferfishSum().fit(users)
    assert query.theta_ == query.release([0.0]).value == 0.0


def test_no_report_that_an_alternative_has_is_refused():
    alternatives = {"a": "b", "b": "a"}
    table = pd.DataFrame({"who": list("aaabb"), "x": [0, 1, 1, 5, 6]})
    query = PufferfishSum(value="x", by="who", secrets="distribution", alternatives=alternatives)
    query.fit(table)
    for row, report in [(0, 5), (1, 6), (3, 0), (4, 1)]:
        other = table.assign(x=table["x"].where(table.index != row, report))
        assert math.isfinite(query.release(other).value)
    with pytest.raises(ValueError, match=r"reports 7\.0, which its distribution does not have"):
        query.release(table.assign(x=7))


def test_values_of_a_class_are_declared_with_its_user():
    query = PufferfishSum(0.5, secrets="value", value="years", by="race")
    assert query.fit(table_of()).theta_ == pytest.approx(2.0, rel=1e-9)
    [first, *_] = query.users_
    chosen = PufferfishSum(0.5, secrets="value").fit([replace(first, values=[9, 10], name="a")])
    assert chosen.certificate_.pairs[0].secret == "one of the users a reports 9"
    assert chosen.certificate_.pairs[0].against == "one of the users a reports 10"


def test_values_default_to_the_smallest_and_the_largest():
    query = PufferfishSum(0.5, secrets="value").fit([User(P4), User(THREE[0])])
    assert query.theta_ == pytest.approx(8.0, rel=1e-9)
    assert len(query.certificate_.pairs) == 4


# ------------------------------------------------------------------------- queries, steps, presence


def test_the_mean_is_the_sum_divided_by_a_public_number():
    table = table_of()
    total = PufferfishSum(0.5, value="years", by="race", random_state=0).fit(table)
    mean = clone(total).set_params(query="mean").fit(table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = total.release(table), mean.release(table)
    assert mean.theta_ == pytest.approx(total.theta_, rel=1e-15)
    assert answers[1].value == pytest.approx(answers[0].value / 18, rel=1e-12)
    assert answers[1].error == pytest.approx(answers[0].error / 18, rel=1e-12)
    assert mean.certificate_.columns[0].theta == answers[1].theta
    assert any("n = 18" in line and "public" in line for line in mean.certificate_.assumptions)


def test_a_count_adds_up_zeros_and_ones():
    query = PufferfishSum(1.0, query="count", value="owns", by="race").fit(table_of())
    assert query.theta_ == pytest.approx(1.0, rel=1e-9)
    assert math.isfinite(query.release(table_of()).value)
    with pytest.raises(ValueError, match=r"one of race a may report 9\.0; use query='sum'"):
        PufferfishSum(query="count", value="years", by="race").fit(table_of())


@pytest.mark.parametrize("scale", [1.0, 0.25, 0.01, 1e-7, 3.0])
def test_the_unit_of_the_reports_does_not_matter(scale):
    distributions = [
        Discrete(distribution.atoms * scale, distribution.probabilities)
        for distribution in (*THREE, P4)
    ]
    plain = PufferfishSum(0.5).fit([User(distribution) for distribution in (*THREE, P4)])
    scaled = PufferfishSum(0.5).fit([*map(User, distributions)])
    assert scaled.theta_ == pytest.approx(plain.theta_ * scale, rel=1e-12)
    assert scaled.certificate_.loss == pytest.approx(0.5, rel=1e-9)


def test_reports_are_rounded_half_up_to_the_step():
    distribution = Discrete([0.1, 0.5, 1.3, -0.5], [0.25] * 4)
    query = PufferfishSum(0.5, step=1.0, random_state=1).fit([User(distribution)])
    same = PufferfishSum(0.5, random_state=1).fit([User(Discrete([0, 1], [0.5, 0.5]))])
    assert query.theta_ == same.theta_
    for reported, rounded in [(0.1, 0), (0.5, 1), (1.3, 1), (-0.5, 0), (1.49, 1)]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert (
                clone(query).fit([User(distribution)]).release([reported]).value
                == clone(same).fit([User(Discrete([0, 1], [0.5, 0.5]))]).release([rounded]).value
            )
    assert any("rounded half up to multiples of 1" in x for x in query.certificate_.assumptions)


def test_how_likely_presence_is_cancels():
    users = [User(distribution) for distribution in (*THREE, P4)]
    some, few = ([User(user.law, presence=p) for user in users] for p in (0.7, 0.3))
    unsaid, first, second = (PufferfishSum(0.5).fit(each) for each in (users, some, few))
    assert unsaid.theta_ == first.theta_ == second.theta_
    assert unsaid.certificate_.pairs == first.certificate_.pairs == second.certificate_.pairs
    for query in (unsaid, second):
        assert any("cancel" in line for line in query.certificate_.assumptions)
    sure = PufferfishSum(0.5, secrets="value").fit(users)
    assert not any("cancel" in line for line in sure.certificate_.assumptions)


def test_an_absent_user_needs_a_declared_presence():
    query = PufferfishSum(secrets="value").fit([User(P4, presence=0.5), User(P4)])
    with pytest.raises(ValueError, match="a report of user 1 is missing, and presence="):
        query.release([1, math.nan])
    assert math.isfinite(query.release([None, 5]).value)


def test_rows_of_a_table_may_be_missing_if_their_presence_is_below_1():
    table = table_of()
    missing = table.assign(years=table["years"].astype("Int64").mask(table.index == 2))
    query = PufferfishSum(0.5, secrets="value", value="years", by="race")
    some, none = (clone(query).set_params(presence=p).fit(table) for p in (0.5, 1.0))
    assert some.theta_ == none.theta_
    assert math.isfinite(some.release(missing).value)
    with pytest.raises(ValueError, match="a report of one of race b is missing"):
        none.release(missing)


# -------------------------------------------------------------------------------------- the release


def test_an_answer_states_its_utility_and_its_guarantee():
    query = PufferfishSum(0.5).fit([User(P4), User(THREE[0])])
    answer = query.release([1, 5])
    assert isinstance(answer, PrivateAnswer)
    assert answer.theta == answer.error == query.theta_
    assert answer.half_width == pytest.approx(query.theta_ * math.log(20.0))
    assert answer.certificate is query.certificate_
    assert "certificate" not in repr(answer)
    with pytest.raises(AttributeError):
        answer.value = 0.0


def released(query, reports, n, users):
    """Return n answers of a seeded query."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        query.fit(users)
        return np.array([query.release(reports).value for _ in range(n)])


@pytest.mark.slow
def test_the_noise_has_the_distribution_that_is_guaranteed():
    users, reports = [User(P4), User(THREE[0]), User(THREE[1])], [5, 4, 2]
    query = PufferfishSum(0.5, random_state=11)
    values = released(query, reports, 2000, users)
    noise = (values - 11.0) / query.theta_
    uniform = np.where(noise < 0, 0.5 * np.exp(noise), 1 - 0.5 * np.exp(-np.abs(noise)))
    counts = np.histogram(uniform, bins=20, range=(0, 1))[0]
    statistic = float(((counts - 100.0) ** 2 / 100.0).sum())
    assert chi2.sf(statistic, 19) > 1e-6
    # and another distribution would be noticed
    other = np.histogram(np.clip(uniform**1.2, 0, 1), bins=20, range=(0, 1))[0]
    assert chi2.sf(float(((other - 100.0) ** 2 / 100.0).sum()), 19) < 1e-6


@pytest.mark.parametrize("epsilon", [1e-8, 0.5, 30.0])
def test_answers_lie_on_the_grid_of_the_noise(epsilon):
    query = PufferfishSum(epsilon, random_state=5)
    users = [User(Discrete([0, 0.5, 2.25], [0.5, 0.25, 0.25])), User(Discrete([0, 1], [0.5, 0.5]))]
    values = released(query, [2.25, 1], 50, users)
    grid = query.certificate_.columns[0].grid
    assert grid <= query.theta_ * 2.0**-39
    assert np.all(np.abs(values / grid) % 1.0 == 0.0)
    assert len(set(values.tolist())) == 50


def test_the_sampler_enters_the_certificate():
    query = PufferfishSum(0.5).fit([User(point(1))])
    row = query.certificate_.pairs[0]
    assert row.upper - row.lower >= 0.9 * sampler_loss(1)
    assert query.certificate_.loss <= 0.5


@pytest.mark.parametrize("width", [1e10, 2.0**38])
def test_noise_too_wide_for_the_grid_of_the_reports_is_charged_for_rounding_the_sum(width):
    users = [User(Discrete([0, 1, width], [0.5, 0.25, 0.25]))]
    query = PufferfishSum(1e-4, secrets="value", random_state=0).fit(users)
    row = query.certificate_.pairs[0]
    grid = query.certificate_.columns[0].grid
    assert grid > 1.0
    moved = grid / query.theta_
    assert row.upper >= width / query.theta_ + sampler_loss(1) + 0.99 * moved
    assert row.upper <= 1e-4
    assert all(released(query, [width], 5, users) % grid == 0.0)


def test_no_noise_is_said_and_the_sum_released_as_it_is():
    users = [User(P4, alternative=P4), User(THREE[0], alternative=THREE[0])]
    with pytest.warns(UserWarning, match="no noise is needed under these distributions"):
        query = PufferfishSum(0.5, secrets="distribution").fit(users)
    assert query.theta_ == 0.0
    assert query.certificate_.holds
    assert query.certificate_.loss == 0.0
    assert query.release([5, 4]).value == 9.0
    assert any(line.startswith("No noise is needed") for line in query.certificate_.assumptions)


def test_distributions_that_are_alike_enough_need_no_noise():
    p, q = Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.45, 0.55])
    with pytest.warns(UserWarning, match="no noise is needed"):
        query = PufferfishSum(0.5, secrets="distribution", strategy="worst_case").fit(
            [User(p, alternative=q)]
        )
    assert query.certificate_.loss == pytest.approx(math.log(0.5 / 0.45), rel=1e-9)


def test_noise_is_fresh_and_none_of_its_state_is_kept():
    query = PufferfishSum(0.5).fit([User(P4)])
    values = {query.release([5]).value for _ in range(20)}
    values |= {pickle.loads(pickle.dumps(query)).release([5]).value for _ in range(3)}
    assert len(values) == 23


def test_a_seed_warns_and_its_stream_moves_on_with_every_call():
    users = [User(P4)]
    query = PufferfishSum(0.5, random_state=7)
    first = released(query, [5], 3, users)
    assert len(set(first.tolist())) == 3
    assert released(clone(query), [5], 3, users).tolist() == first.tolist()
    loaded = pickle.loads(pickle.dumps(query))
    with pytest.warns(UserWarning, match="random_state=7 is for tests only"):
        assert loaded.release([5]).value == first[0]
    assert any("NOTHING is guaranteed" in line for line in query.certificate_.assumptions)


def test_a_value_can_be_released_however_the_reports_are_handed_in():
    query = PufferfishSum(0.5, random_state=2)
    users = [User(P4), User(THREE[0])]
    values = {
        released(clone(query), reports, 1, users)[0]
        for reports in (
            [1, 5],
            (1.0, 5.0),
            np.array([1, 5]),
            pd.Series([1, 5], name="x", index=[4, 4]),
            pl.Series([1, 5]),
            pd.Series([1, 5], dtype="Int64"),
        )
    }
    assert len(values) == 1


def test_users_alike_are_given_once_with_their_number():
    one = PufferfishSum(0.5).fit([User(P4, count=3), User(THREE[0])])
    each = PufferfishSum(0.5).fit([User(P4), User(P4), User(P4), User(THREE[0])])
    assert one.theta_ == pytest.approx(each.theta_, rel=1e-9)
    assert one.n_reports_ == 4
    assert math.isfinite(one.release([1, 2, 4, 3]).value)
    with pytest.raises(ValueError, match=r"user 1 reports 0\.0"):
        one.release([1, 2, 4, 0])
    with pytest.raises(
        ValueError, match=r"one of the users 0 reports 3\.0, which its distribution"
    ):
        one.release([1, 2, 3, 3])


# ---------------------------------------------------------------------------- estimator conventions


def test_a_query_is_an_estimator():
    query = PufferfishSum(0.5, secrets="value", query="mean")
    assert query.get_params()["secrets"] == "value"
    assert clone(query).get_params() == query.get_params()
    assert query.set_params(epsilon=2.0).epsilon == 2.0
    assert repr(query) == "PufferfishSum(epsilon=2.0, query='mean', secrets='value')"
    assert get_tags(query).non_deterministic
    with pytest.raises(NotFittedError):
        query.release([1])
    assert query.fit([User(P4)]) is query
    assert set(vars(clone(query))) == set(query.get_params())


def test_init_stores_and_fit_checks():
    assert PufferfishSum(epsilon="much", query=3, step=[]).step == []
    with pytest.raises(TypeError, match="epsilon must be a positive number"):
        PufferfishSum(epsilon="much").fit([User(P4)])


def test_a_query_survives_joblib_and_copies():
    query = PufferfishSum(0.5, value="years", by="race").fit(table_of())
    buffer = io.BytesIO()
    joblib.dump(query, buffer)
    buffer.seek(0)
    for loaded in (joblib.load(buffer), copy.deepcopy(query)):
        assert loaded.theta_ == query.theta_
        assert loaded.certificate_ == query.certificate_
        assert loaded.scales_.equals(query.scales_)
        assert math.isfinite(loaded.release(table_of()).value)


def test_the_certificate_can_be_read_and_written():
    certificate = PufferfishSum(0.5, value="years", by="race").fit(table_of()).certificate_
    told = json.loads(certificate.to_json())
    assert told["holds"]
    assert told["noise"] == "laplace"
    assert told["dependence"] == "independent users"
    assert "one of race a is present" in certificate.details()
    assert len(certificate.table) == 4


def test_a_failed_fit_changes_nothing():
    query = PufferfishSum(0.5).fit([User(P4)])
    before = dict(vars(query))
    with pytest.raises(TypeError):
        query.fit([User(P4), "somebody"])
    assert vars(query) == before
    new = PufferfishSum(0.5)
    with pytest.raises(ValueError, match="users must hold at least one"):
        new.fit([])
    assert not hasattr(new, "theta_")


def test_a_failed_release_draws_no_noise(monkeypatch):
    query = PufferfishSum(0.5).fit([User(P4)])
    monkeypatch.setattr(sys.modules[system_entropy.__module__], "SystemEntropy", None)
    with pytest.raises(ValueError, match="reports 7"):
        query.release([7])


# ---------------------------------------------------------------------------------------- bad input

BAD_USERS = {
    "no user": ([], ValueError, "at least one User"),
    "not a sequence": (5, TypeError, "must be a list of User objects, or a DataFrame"),
    "an array": (np.zeros(3), TypeError, r"users\[0\] is"),
    "a distribution without its user": ([P4], TypeError, r"users\[0\] is Discrete"),
    "a Gaussian among others": (
        [User(GaussianMixture([1], [0], [1])), User(P4)],
        ValueError,
        r"got Discrete.* for users\[1\].*give all users Discrete distributions",
    ),
    "values without a common step": (
        [User(Discrete([0, math.pi, math.e], [0.5, 0.25, 0.25]))],
        ValueError,
        "step=",
    ),
}


@pytest.mark.parametrize("case", list(BAD_USERS))
def test_what_are_no_users_is_refused(case):
    users, error, message = BAD_USERS[case]
    with pytest.raises(error, match=message):
        PufferfishSum().fit(users)


def test_a_user_without_a_distribution_is_refused():
    with pytest.raises(TypeError, match="law must be a Discrete"):
        PufferfishSum().fit([User(None)])


BAD_PARAMETERS = {
    "epsilon": (0.0, "epsilon must be positive"),
    "secrets": ("values", "secrets must be one of"),
    "query": ("median", "query must be one of"),
    "strategy": ("best", "strategy must be one of"),
    "unit": ("rows", "unit must be one of"),
    "step": (-1.0, "step must be positive"),
    "value": ("height", "value names column 'height', which X does not have"),
    "by": (["race", "race"], "by names column 'race' twice"),
    "presence": (1.5, r"presence must lie in \[0, 1\]"),
}


@pytest.mark.parametrize("name", list(BAD_PARAMETERS))
def test_bad_parameters_are_named(name):
    value, message = BAD_PARAMETERS[name]
    query = PufferfishSum(value="years", by="race").set_params(**{name: value})
    with pytest.raises(ValueError, match=message):
        query.fit(table_of())


BAD_TABLES = {
    "too small a budget": ({"epsilon": 1e-9}, "epsilon must be at least 1e-08"),
    "no value": ({"value": None}, "name the numeric column"),
    "two values": ({"value": ["years", "cents"]}, "value must name one column"),
    "value in by": ({"by": ["years"]}, "is in both value and by"),
    "presence above 1": ({"presence": 1.5}, r"presence must lie in \[0, 1\]"),
    "alternatives of other secrets": (
        {"alternatives": {"a": "b"}},
        "goes with secrets='distribution'",
    ),
    "no alternatives": ({"secrets": "distribution"}, r"alternatives=\{class"),
    "unknown class": (
        {"secrets": "distribution", "alternatives": {"a": "z"}},
        "alternatives names class 'z'",
    ),
    "unknown class to protect": (
        {"secrets": "distribution", "alternatives": {"z": "a"}},
        "alternatives names class 'z'",
    ),
    "too fine a step": ({"step": 1e-30}, "coarser step"),
    "too coarse a step": ({"step": 1e30}, "every report rounds to 0"),
}


@pytest.mark.parametrize("case", list(BAD_TABLES))
def test_what_does_not_go_together_is_refused(case):
    params, message = BAD_TABLES[case]
    query = PufferfishSum(value="years", by="race").set_params(**params)
    with pytest.raises(ValueError, match=message):
        query.fit(table_of())


@pytest.mark.parametrize("name", ["value", "by", "alternatives", "presence"])
def test_arguments_of_tables_are_refused_with_users(name):
    with pytest.raises(ValueError, match=f"{name}=.* is for tables"):
        PufferfishSum(**{name: "x"}).fit([User(P4)])


def test_bad_columns_are_named():
    table = table_of()
    query = PufferfishSum(value="years", by="race")
    with pytest.raises(TypeError, match="column 'race' is not numeric"):
        PufferfishSum(value="race").fit(table)
    with pytest.raises(ValueError, match="users is a table of 0 rows"):
        query.fit(table.iloc[:0])
    with pytest.raises(ValueError, match="column 'years' has 1 missing value"):
        query.fit(table.assign(years=table["years"].mask(table.index == 3)))
    with pytest.raises(ValueError, match="column 'race' has 1 missing value"):
        query.fit(table.assign(race=table["race"].mask(table.index == 3)))
    with pytest.raises(ValueError, match="contains infinity"):
        query.fit(table.assign(years=[math.inf, *table["years"][1:]]))


def test_bad_reports_are_named():
    query = PufferfishSum(value="years", by="race").fit(table_of())
    with pytest.raises(ValueError, match=r"values has 3 rows and X has 18"):
        query.release([1, 2, 3])
    with pytest.raises(
        ValueError, match=r"one of race a reports 16\.0, which its distribution does"
    ):
        query.release(table_of().assign(years=16))
    with pytest.raises(ValueError, match="values lacks column 'years' of fit"):
        query.release(table_of().drop(columns="years"))
    with pytest.raises(ValueError, match=r"values has 14 row\(s\) of class 'a' and fit had 12"):
        query.release(table_of(7))
    for strange in ("years", 5, None):
        with pytest.raises(ValueError, match="values must be a column or a table of columns"):
            query.release(strange)
    for strings in (["a"] * 18, ["9"] * 18):
        with pytest.raises(TypeError, match="column 'value' is not numeric"):
            query.release(strings)
    with pytest.raises(ValueError, match="values must be one number for each user"):
        query.release(np.zeros((18, 2)))
    with pytest.raises(ValueError, match="not finite or too many steps"):
        query.release(table_of().assign(years=math.inf))
    with pytest.raises(TypeError, match="random_state must be None or an integer"):
        query.set_params(random_state=np.random.default_rng(0)).release(table_of())


def test_values_without_mass_may_be_protected_but_not_reported_as_a_distribution_forbids():
    distribution = Discrete([0, 1, 9], [0.5, 0.5, 0.0])
    protected = PufferfishSum(1.0, secrets="value").fit([User(distribution)])
    assert protected.theta_ == pytest.approx(9.0, rel=1e-9)
    assert math.isfinite(protected.release([9]).value)
    present = PufferfishSum(1.0).fit([User(distribution)])
    with pytest.raises(ValueError, match=r"user 0 reports 9\.0"):
        present.release([9])


def test_a_certificate_that_does_not_hold_is_not_released():
    query = PufferfishSum(0.5).fit([User(P4)])
    broken = pickle.loads(pickle.dumps(query))
    told = altered(query.certificate_, loss=0.6)
    broken.certificate_ = dataclasses.replace(told, fingerprint=broken._fingerprint(told))
    with pytest.raises(UncertifiedError, match=r"proven loss 0\.6 exceeds the budget eps.* = 0\.5"):
        broken.release([5])


# ------------------------------------------------------------------------------- several answers


def repeated(distribution, times):
    """Return the distribution of the row (x, ..., x)."""
    rows = np.repeat(distribution.atoms[:, None], times, axis=1)
    return Discrete.from_counts(rows, distribution.counts)


@pytest.mark.parametrize("secrets", ["distribution", "distribution-absence", "value"])
@pytest.mark.parametrize(("releases", "query"), [(2, "sum"), (3, "mean"), (2, "mean")])
def test_all_answers_together_lose_what_the_certificate_says(secrets, releases, query):
    distributions = Discrete([0, 1, 2], [0.25, 0.5, 0.25]), Discrete([-1, 1], [0.4, 0.6])
    other = Discrete([0, 2], [0.1, 0.9])
    users = [User(distribution, alternative=other) for distribution in distributions]
    made = PufferfishSum(0.7, secrets=secrets, query=query, releases=releases).fit(users)
    certificate, most = made.certificate_, 0.0
    for k in range(2):
        p, q = {
            "distribution": (distributions[k], other),
            "distribution-absence": (distributions[k], point(0.0)),
            "value": (point(distributions[k].atoms[0]), point(distributions[k].atoms[-1])),
        }[secrets]
        alone = secrets == "distribution-absence"  # the other may be absent
        sums = [
            repeated(
                distribution if alone else convolved(distributions[1 - k], distribution), releases
            )
            for distribution in (p, q)
        ]
        for way, true in enumerate(oracle.directed_losses(*sums, (made.theta_,) * releases)):
            row = certificate.pairs[2 * k + way]
            assert row.lower <= true * (1 + mpmath.mpf(10) ** -14) + mpmath.mpf(10) ** -15
            assert true <= row.upper
            most = max(most, float(true))
    assert most == pytest.approx(0.7, rel=1e-9)
    assert certificate.holds
    assert certificate.releases == releases
    assert f"{releases} answers together" in certificate.promise()
    once = PufferfishSum(0.7, secrets=secrets, query=query).fit(users)
    assert made.theta_ == pytest.approx(releases * once.theta_, rel=1e-9)
    assert made.scales_.to_numpy() == pytest.approx(releases * once.scales_.to_numpy(), rel=1e-9)


@pytest.mark.parametrize(
    ("step", "query", "releases"),
    all_pairs(product([1.0, 0.01, 0.3, 1e-7, 7.0], ["sum", "mean"], [1, 2, 3, 7, 1000])),
)
def test_the_rule_allows_as_many_answers_as_were_planned_and_no_more(step, query, releases):
    users = [User(Discrete(np.array(VALUES) * step, [0.2] * 5), count=7)]
    made = PufferfishSum(0.3, query=query, step=step, releases=releases).fit(users)
    certificate = made.certificate_
    (column,) = certificate.columns
    assert certificate.rule.allows({column.name: {column.theta: releases}})
    assert not certificate.rule.allows({column.name: {column.theta: releases + 1}})
    assert not certificate.rule.allows({column.name: {column.theta * (1 - 1e-12): releases}})
    # what is drawn is no less noise than what is on record, and the certified scale no more
    drawn = Fraction(made._scale) * Fraction(made._unit)
    assert drawn >= Fraction(column.theta)
    assert drawn <= Fraction(column.theta) * (1 + Fraction(1, 2**50))


def test_every_answer_is_charged_for_the_sampler():
    users = [User(point(1))]
    once, often = (PufferfishSum(0.5, releases=k).fit(users) for k in (1, 10**6))
    assert often.certificate_.rule.draws >= 10**6
    assert often.theta_ / 10**6 >= once.theta_ * (1.0 + 0.9 * sampler_loss(10**6) / 0.5)
    assert often.certificate_.holds
    with pytest.raises(ValueError, match=r"epsilon=1e-05 is less than.*releases=1000000000 may"):
        PufferfishSum(1e-5, releases=10**9).fit(users)


def test_bad_numbers_of_releases_are_named():
    for value, error in ((0, ValueError), (1.5, TypeError), (10**10, ValueError)):
        with pytest.raises(error, match="releases must be"):
            PufferfishSum(releases=value).fit([User(P4)])


@pytest.mark.slow
def test_several_answers_have_the_noise_of_each():
    query = PufferfishSum(0.5, releases=4, random_state=11)
    values = released(query, [5, 4], 4000, [User(P4), User(THREE[0])])
    distances = np.abs(values - 9.0) / query.theta_
    assert abs(distances.mean() - 1.0) < 0.1


@pytest.fixture
def ledger_of(tmp_path):
    """Return a function that starts the ledger of a query."""
    return lambda query: Ledger.create(tmp_path / "sum.ledger", query)


def test_a_ledger_hands_out_the_planned_answers_and_no_more(ledger_of):
    table = table_of()
    query = PufferfishSum(0.5, value="years", by="race", query="mean", releases=3).fit(table)
    ledger = ledger_of(query)
    answers = {ledger.release(query, table, note="press").value for _ in range(2)}
    assert len(answers) == 2
    assert ledger.left().releases == 1
    assert ledger.history()[0].releases == 2
    ledger.spend()
    query.release(table)
    with pytest.raises(OverspentError, match="would overspend"):
        ledger.release(query, table)
    again = Ledger.open(ledger.path, pickle.loads(pickle.dumps(query)))
    assert again.left().releases == 0


def test_what_a_query_refuses_costs_nothing(ledger_of):
    query = PufferfishSum(0.5, releases=2).fit([User(P4)])
    ledger = ledger_of(query)
    with pytest.raises(ValueError, match=r"reports 7\.0"):
        ledger.release(query, [7])
    assert ledger.left().releases == 2


def test_a_ledger_is_that_of_one_query(ledger_of):
    users = [User(P4)]
    query = PufferfishSum(0.5, releases=2).fit(users)
    ledger = ledger_of(query)
    Ledger.open(ledger.path, clone(query).fit(users))
    changes = [{"epsilon": 0.6}, {"query": "mean", "secrets": "value-absence"}, {"step": 0.5}]
    changes += [{"releases": 3}, {"secrets": "value-absence"}]
    for change in changes:
        other = clone(query).set_params(**change).fit(users)
        with pytest.raises(LedgerError, match="belongs to another"):
            ledger.release(other, [5])
    other = clone(query).fit([User(Discrete([1, 5], [0.5, 0.5]))])
    assert other.certificate_.fingerprint != query.certificate_.fingerprint
    assert ledger.left().releases == 2


def test_an_answer_without_noise_may_be_repeated_without_end(ledger_of):
    with pytest.warns(UserWarning, match="no noise is needed"):
        query = PufferfishSum(0.5, secrets="distribution").fit([User(P4, alternative=P4)])
    ledger = ledger_of(query)
    assert ledger.release(query, [5]).value == 5.0
    assert ledger.left().releases == math.inf


def test_a_certificate_that_does_not_hold_has_no_budget():
    query = PufferfishSum(0.5).fit([User(P4)])
    settings, reports = SumSettings.of(query.get_params()), query._reporters
    everybody = DiscreteSum(reports, secret_pairs(reports, settings), settings.together)
    answers = answers_about(everybody, settings)
    broken = dataclasses.replace(
        answers, losses=dataclasses.replace(answers.losses, upper=answers.losses.upper + 1)
    )
    assert not _rule(broken, "sum").allows({"sum": {1e9: 1}})
    assert _rule(answers, "sum").allows({"sum": {1e9: 1}})


def test_a_delta_is_refused_for_discrete_users():
    with pytest.raises(ValueError, match=r"delta=0\.1 is for Gaussian users.*use delta=0"):
        PufferfishSum(0.5, delta=0.1).fit([User(P4)])
    with pytest.raises(ValueError, match="delta must lie in"):
        PufferfishSum(0.5, delta=1.0).fit([User(P4)])


# ------------------------------------------------------------------------------------ long sums


@pytest.mark.slow
def test_of_sums_too_long_to_convolve_some_users_are_counted_on():
    distribution = Discrete([0, 1, 99], [0.5, 0.25, 0.25])
    other = Discrete([0, 1, 99], [0.25, 0.5, 0.25])
    users = [User(distribution, alternative=other, count=200_000)]
    present = PufferfishSum(0.5).fit(users)
    assert present.theta_ == pytest.approx(
        PufferfishSum(0.5).fit([User(distribution)]).theta_, rel=1e-9
    )
    assert present.certificate_.pairs[0].source == "recomputed"
    many = [User(P4, alternative=Q4, count=3_000_000)]
    query = PufferfishSum(0.5, secrets="distribution").fit(many)
    assert query.certificate_.holds
    assert query.certificate_.pairs[0].source == "theorem"
    fewer = PufferfishSum(0.5, secrets="distribution").fit(
        [dataclasses.replace(many[0], count=300)]
    )
    assert fewer.theta_ == pytest.approx(query.theta_, rel=1e-6)
    assert query.certificate_.pairs[0].lower == pytest.approx(0.5, rel=1e-8)
    value = PufferfishSum(0.5, secrets="value").fit(many)  # a translation, whatever the others do
    assert value.theta_ == pytest.approx(8.0, rel=1e-9)


def test_where_one_user_has_values_too_far_apart_the_worst_case_is_left():
    wide = Discrete([0, 1, 10**7], [0.5, 0.25, 0.25])
    users = [User(wide, alternative=Discrete([0, 1, 10**7], [0.4, 0.35, 0.25]), count=3)]
    query = PufferfishSum(0.1, secrets="distribution", strategy="worst_case").fit(users)
    assert "exact" not in query.scales_
    assert query.certificate_.holds
    with pytest.raises(ValueError, match=r"step= of PufferfishSum.*worst case"):
        PufferfishSum(0.1, secrets="distribution").fit(users)


def test_pairs_that_keep_the_budget_anyway_are_not_convolved():
    near = [Discrete(VALUES, [0.2, 0.2 + d, 0.2 - d, 0.2, 0.2]) for d in np.arange(1, 9) / 100]
    flat = Discrete(VALUES, [0.2] * 5)
    users = [User(distribution, alternative=flat, count=500) for distribution in near]
    query = PufferfishSum(0.5, secrets="distribution").fit([*users, User(P4, alternative=Q4)])
    certificate = query.certificate_
    rows = certificate.pairs
    assert [row.source for row in rows] == ["theorem"] * 16 + ["recomputed"] * 2
    assert all(row.lower <= row.upper <= 0.5 for row in rows)
    assert any(
        "marked theorem are losses without some or all" in x for x in certificate.assumptions
    )
    assert certificate.loss == rows[16].upper == pytest.approx(0.5, rel=1e-8)
    for distribution, row in zip(near, rows[::2], strict=False):
        assert float(brute_force([], distribution, flat, query.theta_)[0]) <= row.upper


# ---------------------------------------------------------------------------- extreme budgets


@pytest.mark.parametrize(
    ("epsilon", "strategy", "secrets"),
    all_pairs(
        product([1e-8, 1e-5, 1e-3, 20.0, 800.0], ["exact", "worst_case", "published"], SECRETS)
    ),
)
def test_the_certificate_holds_at_every_budget(epsilon, strategy, secrets):
    pairs = [(P4, Q4), (Discrete([-4, 2, 3], [0.2, 0.5, 0.3]), Discrete([-1, 4], [0.5, 0.5]))]
    users = [User(p, alternative=q, presence=0.5) for p, q in pairs]
    for unit in ("row", "class"):
        query = PufferfishSum(epsilon, secrets=secrets, strategy=strategy, unit=unit).fit(users)
        assert query.certificate_.holds
        assert query.certificate_.loss == pytest.approx(epsilon, rel=0.9)
        assert query.theta_ >= query.scales_["exact"] * (1.0 - (1e-5 if epsilon < 1e-6 else 1e-9))
        assert math.isfinite(query.release([1, math.nan]).value)  # and without the other user
