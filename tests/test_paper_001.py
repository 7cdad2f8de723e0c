"""Sums over users, as 001 has them: its figures, its tables, its misprints and its classes.

Counts come from the public tables that the paper uses; figures were computed from them apart.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import mpmath
import numpy as np
import pytest

from sklearn_puffer import PufferfishSum
from sklearn_puffer._sums.losses import SumLosses, sum_scale, worst_case_scale
from sklearn_puffer._sums.published import conditions
from sklearn_puffer._sums.users import user_pairs
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.couplings import optimal_plan, w_infinity
from sklearn_puffer.datasets import removed_classes, replaced_classes
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, PriorPair
from sklearn_puffer.users import User, lemma_2_psi

GOLDEN = json.loads(Path(__file__).with_name("golden_001.json").read_text(encoding="utf-8"))
BUDGETS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


def distribution(*counts, first=1):
    return Discrete.from_counts(range(first, first + len(counts)), counts)


TABLE_2 = [
    User(distribution(1, 4, 10, 20, 65)),
    User(distribution(70, 20, 5, 4, 1)),
    User(distribution(1, 1, 1, 1, 1)),
]
P_4, Q_4 = distribution(4, 1, 0, 1, 4), distribution(0, 1, 18, 1, 0)
BITS = distribution(8, 2, first=0), distribution(1, 9, first=0)
FOURTH = {
    "1": ("value", User(P_4, values=[3, 5])),
    "2": ("value-absence", User(P_4, values=[5])),
    "3 and 4": ("distribution-absence", User(P_4)),
    "6": ("distribution", User(P_4, alternative=Q_4)),
    "7 and 8": ("distribution", User(BITS[0], alternative=BITS[1])),
}
BY_DISTANCE = {  # the conditions that are a distance over epsilon
    "1": "theorem_1_of_001",
    "2": "theorem_2_of_001",
    "3 and 4": "theorem_3_eq14",
    "6": "theorem_4",
    "7 and 8": "lemma_1",
}
TABLE_4 = PriorPair(distribution(8, 9, 20, 3, 0), distribution(0, 3, 20, 9, 8))


def by_name(pairs, secrets, epsilon):
    return conditions([pair.priors for pair in pairs], secrets, epsilon)


def close(expected):
    return pytest.approx(expected, rel=1e-9, abs=1e-12)


def sum_of(distributions):
    """Return the distribution of a sum of independent integers, exactly."""
    lowest, counts = sum(each.atoms[0] for each in distributions), np.ones(1, dtype=np.int64)
    for each in distributions:
        counts = np.convolve(counts, each.counts.astype(np.int64))
    return Discrete.from_counts(lowest + np.arange(len(counts)), counts)


@pytest.fixture(params=FOURTH)
def fourth(request):
    """Return the figure, its set of secrets, all users and the pair about user 4."""
    secrets, user = FOURTH[request.param]
    return request.param, secrets, [user, *TABLE_2], user_pairs([user], secrets)


# ------------------------------------------------------- Figures 1 to 4 and 6 to 8: a fourth user


def test_the_conditions_give_the_scales_of_the_figures(fourth):
    figure, secrets, _, pairs = fourth
    golden = GOLDEN["fourth user"][figure]
    for k, epsilon in enumerate(BUDGETS):
        ours = by_name(pairs, secrets, epsilon)
        assert ours[BY_DISTANCE[figure]] == close(golden["by distance"][k])
        assert ours["relaxed"] == close(golden["relaxed"][k])
        others = [value for name, value in ours.items() if name != "relaxed"]
        assert min(others) == close(golden["published"][k])


def test_the_exact_scales_for_the_users_and_for_all_others_are_those_found_apart(fourth):
    figure, _, users, pairs = fourth
    golden = GOLDEN["fourth user"][figure]
    for k, epsilon in enumerate(BUDGETS):
        assert sum_scale(users, pairs, epsilon).scale == close(golden["exact"][k])
        assert worst_case_scale(pairs, epsilon).scale == close(golden["all others"][k])


def test_the_true_loss_at_the_published_scale_is_the_one_found_apart(fourth):
    figure, _, users, pairs = fourth
    golden, losses = GOLDEN["fourth user"][figure], SumLosses(users, pairs)
    for scale, loss in zip(golden["published"], golden["its loss"], strict=True):
        lower, upper = (ends.max() for ends in losses.interval_of(0, scale))
        assert lower * (1 - 1e-9) <= loss <= upper * (1 + 1e-9)
        assert upper == pytest.approx(lower, rel=1e-9)


def test_lemma_2_as_printed_stops_at_the_largest_value_of_the_others():
    golden = GOLDEN["fourth user"]["7 and 8"]
    x, psi = lemma_2_psi(0.2, 0.9, sum_of([user.law for user in TABLE_2]))
    assert x[-1] == 16.0
    assert psi[-1] < psi[:-1].min()
    secrets, user = FOURTH["7 and 8"]
    losses = SumLosses([user, *TABLE_2], user_pairs([user], secrets))
    for k, epsilon in enumerate(BUDGETS):
        printed = 1 / np.log(np.exp(epsilon) + np.expm1(epsilon) * psi[:-1].min())
        assert printed == close(golden["lemma 2 as printed"][k])
        assert printed < golden["published"][k]
        assert losses.interval_of(0, printed)[1].max() == close(golden["its loss as printed"][k])


@pytest.mark.parametrize(
    ("figure", "farthest"), [("1", 2), ("2", 5), ("3 and 4", 5), ("6", 2), ("7 and 8", 1)]
)
def test_the_plans_of_the_sums_move_as_far_as_the_figures_say(figure, farthest):
    secrets, user = FOURTH[figure]
    (pair,) = user_pairs([user], secrets)
    others = [each.law for each in TABLE_2]
    assert w_infinity(*(sum_of([*others, own]) for own in pair.priors)) == farthest


# ------------------------------------------------------------------------ Tables 4 to 6: Lemma 3


def test_table_6_is_the_monotone_plan_of_table_4():
    plan = optimal_plan(*TABLE_4)
    shares = {(x, y): share for x, y, share in zip(*plan, strict=True)}
    assert shares == close(
        {
            (1, 2): 0.075,
            (1, 3): 0.125,
            (2, 3): 0.225,
            (3, 3): 0.15,
            (3, 4): 0.225,
            (3, 5): 0.125,
            (4, 5): 0.075,
        }
    )
    assert w_infinity(*TABLE_4) == 2.0


def test_table_5_prints_one_sum_of_masses_wrong():
    printed = [0.0, 0.075, 0.575, 0.925, 1.0]
    ours = np.cumsum(TABLE_4.q.probabilities)
    assert np.flatnonzero(~np.isclose(ours, printed)).tolist() == [3]
    assert ours[3] == pytest.approx(0.8)


def test_an_atom_far_away_needs_more_than_lemma_3_as_printed_gives():
    gaps = PriorPair(*(Discrete.from_counts([0, 1, 10], some) for some in ([5, 0, 5], [6, 4, 0])))
    assert w_infinity(*gaps) == 10.0
    assert privacy_loss(*gaps, Laplace(1.0), Pufferfish(1.0)).lower == close(8.78376105473)
    assert privacy_loss(*gaps, Laplace(9.0), Pufferfish(1.0)).upper == close(0.656599695578)
    assert calibrate([gaps], Pufferfish(1.0)).scale < 9.0


# --------------------------------------------------------- Figures 5 and 9: classes of users


@pytest.mark.slow
@pytest.mark.parametrize("reading", removed_classes())
def test_figure_5_is_eq_13_which_is_exact(reading):
    found = removed_classes()[reading]
    users = [User(found, count=int(found.counts.sum()))]
    pairs = user_pairs(users, "distribution-absence")
    golden = GOLDEN["figure 5"][reading]
    for k, epsilon in enumerate(BUDGETS):
        ours = by_name(pairs, "distribution-absence", epsilon)
        for name in ("theorem_3_eq14", "theorem_3_eq13"):
            assert ours[name] == close(golden[name][k])
        assert sum_scale(users, pairs, epsilon).scale == close(golden["exact"][k])
        assert worst_case_scale(pairs, epsilon).scale == close(golden["exact"][k])


@pytest.mark.parametrize("reading", replaced_classes())
def test_figure_9_is_lemma_2_and_less_is_enough(reading):
    p, q = replaced_classes()[reading]
    users = [User(p, alternative=q, count=int(p.counts.sum())), User(q, count=int(q.counts.sum()))]
    pairs = user_pairs(users[:1], "distribution")
    golden = GOLDEN["figure 9"][reading]
    for k, epsilon in enumerate(BUDGETS):
        ours = by_name(pairs, "distribution", epsilon)
        for name in ("lemma_1", "lemma_2", "lemma_2_both_ends"):
            assert ours[name] == close(golden[name][k])
        assert worst_case_scale(pairs, epsilon).scale == close(golden["exact"][k])
        if k in (0, 4):  # the sum of so many users takes a moment
            assert sum_scale(users, pairs, epsilon).scale == close(golden["exact"][k])


def test_all_readings_are_covered():
    assert set(removed_classes()) == set(GOLDEN["figure 5"])
    assert set(replaced_classes()) == set(GOLDEN["figure 9"])


@pytest.mark.parametrize("reading", ["Adult, first appearance", "Student (mat)", "Bank, from 1"])
def test_a_whole_class_that_leaves_loses_what_its_rows_lose_together(reading):
    found = removed_classes()[reading]
    rows = int(found.counts.sum())
    query = PufferfishSum(0.5, secrets="distribution-absence", unit="class")
    theta = query.fit([User(found, count=rows)]).theta_
    with mpmath.workdps(50):
        mean = sum(
            mpmath.mpf(int(count)) / rows * mpmath.exp(mpmath.mpf(float(value)) / theta)
            for value, count in zip(found.atoms, found.counts, strict=True)
        )
        loss = rows * mpmath.log(mean)
    assert loss <= 0.5
    assert float(loss) == pytest.approx(0.5, rel=1e-6)
    mean_report = float(found.probabilities @ found.atoms)
    assert theta == pytest.approx(rows * mean_report / 0.5, rel=0.01)


# ------------------------------------------------------------------------ the tables themselves


TRAINING = 32_561
MARRIED = {"Husband or Wife": ["Husband", "Wife"], "Unmarried": ["Unmarried"]}


def assert_counts(found, column, codes):
    """Assert that a distribution counts the rows of a column, given the code of each value."""
    counts = Counter(column.map(codes))
    assert dict(zip(found.atoms.tolist(), found.counts.tolist(), strict=True)) == counts


def in_order(values, first=0):
    return {value: first + k for k, value in enumerate(values)}


@pytest.mark.parametrize(("rows", "n"), [("Adult", TRAINING), ("Adult (all rows)", None)])
def test_the_classes_of_adult_are_counted_in_the_table(table, rows, n):
    adult, distributions = table("adult", nrows=n), removed_classes()
    schools, white = adult["education"], adult["race"] == "White"
    codings = {
        "first appearance": in_order(schools.unique()),
        "alphabetical": in_order(sorted(schools.unique())),
        "education-num": dict(zip(schools, adult["education-num"], strict=True)),
    }
    for name, codes in codings.items():
        assert_counts(distributions[f"{rows}, {name}"], schools[white], codes)
    for name, values in MARRIED.items():
        pair = replaced_classes()[f"{rows}, {name}"]
        for found, race in zip(pair, ("Asian-Pac-Islander", "Amer-Indian-Eskimo"), strict=True):
            married = adult.loc[adult["race"] == race, "relationship"].isin(values)
            assert_counts(found, married, {False: 0, True: 1})


@pytest.mark.parametrize("course", ["por", "mat"])
def test_the_classes_of_student_are_counted_in_the_table(table, course):
    student, codes = table(f"student-{course}"), {"no": 0, "yes": 1}
    higher = student.loc[student["higher"] == "yes", "romantic"]
    assert_counts(removed_classes()[f"Student ({course})"], higher, codes)
    for found, time in zip(replaced_classes()[f"Student ({course})"], (5, 2), strict=True):
        assert_counts(found, student.loc[student["freetime"] == time, "romantic"], codes)


def test_the_classes_of_bank_are_counted_in_the_table(table):
    bank, distributions = table("bank-full"), removed_classes()
    marital = bank["marital"]
    codings = {
        "first appearance": in_order(marital.unique()),
        "alphabetical": in_order(sorted(marital.unique())),
        "from 1": in_order(marital.unique(), first=1),
    }
    for name, codes in codings.items():
        assert_counts(distributions[f"Bank, {name}"], marital[bank["loan"] == "yes"], codes)
    for found, job in zip(replaced_classes()["Bank"], ("blue-collar", "management"), strict=True):
        assert_counts(found, bank.loc[bank["job"] == job, "loan"], {"no": 0, "yes": 1})
