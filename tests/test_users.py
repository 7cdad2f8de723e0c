"""Users, the four sets of secret pairs about one of them, and the step their reports lie on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_puffer._sums.reports import common_step, step_of
from sklearn_puffer._sums.users import SECRETS, check_users, user_pairs
from sklearn_puffer.priors import Discrete, GaussianMixture
from sklearn_puffer.users import User

COIN = Discrete([0, 1], [0.75, 0.25])
OTHER = Discrete([0, 1], [0.5, 0.5])
GAUSSIAN = GaussianMixture([1.0], [3.0], [2.0])


@pytest.mark.parametrize("distribution", [None, [0.5, 0.5], "bernoulli", 3])
def test_a_user_without_a_distribution_is_refused(distribution):
    with pytest.raises(TypeError, match="law must be a Discrete or a GaussianMixture"):
        User(distribution)


def test_distributions_of_rows_are_refused():
    with pytest.raises(ValueError, match="law must be of one column"):
        User(Discrete([[0, 1], [1, 1]], [0.5, 0.5]))
    with pytest.raises(ValueError, match="alternative must be of one column"):
        User(COIN, alternative=Discrete([[0, 1], [1, 1]], [0.5, 0.5]))


def test_a_distribution_with_covariance_matrices_is_refused_even_of_one_column():
    distribution = GaussianMixture([1.0], [[3.0]], [[[4.0]]])
    with pytest.raises(ValueError, match=r"law must have standard deviations.*marginal\(\[0\]\)"):
        User(distribution)
    assert User(distribution.marginal([0])).law.scales.tolist() == GAUSSIAN.scales.tolist()


@pytest.mark.parametrize("presence", [-0.1, 1.1, np.nan, np.inf])
def test_presence_is_a_probability(presence):
    with pytest.raises(ValueError, match="presence must lie in"):
        User(COIN, presence=presence)


@pytest.mark.parametrize("presence", [True, "1", []])
def test_presence_is_a_number(presence):
    with pytest.raises(TypeError, match="presence must be a number"):
        User(COIN, presence=presence)


@pytest.mark.parametrize("presence", [0, 1, 0.5])
def test_both_ends_of_presence_are_allowed(presence):
    assert User(COIN, presence=presence).presence == presence


@pytest.mark.parametrize(("count", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError)])
def test_a_class_has_at_least_one_user(count, error):
    with pytest.raises(error, match="count must be"):
        User(COIN, count=count)


@pytest.mark.parametrize("values", [[np.nan, 1.0], [np.inf], [], [[1.0]]])
def test_protected_values_must_be_finite_numbers(values):
    with pytest.raises(ValueError, match="values must be"):
        User(COIN, values=values)


def test_protected_values_need_no_mass():
    user = User(COIN, values=[7, 3, 3])
    assert [pair.shift for pair in user_pairs([user], "value")] == [4.0]


def test_a_name_is_a_string():
    with pytest.raises(TypeError, match="name must be a string"):
        User(COIN, name=3)


def test_absence_is_a_report_of_zero():
    [pair] = user_pairs([User(Discrete([-3, 2], [0.5, 0.5]))], "value-absence")
    assert (pair.shift, pair.priors.q) == (3.0, Discrete([0], [1.0]))
    distribution = user_pairs([User(COIN)], "distribution-absence")[0]
    assert distribution.priors == (COIN, Discrete([0], [1.0]))
    assert distribution.shift is None


@pytest.mark.parametrize(("secrets", "shifts"), [("value", [7.0, 9.0]), ("value-absence", [4, -9])])
def test_the_farthest_pair_of_each_user_is_protected(secrets, shifts):
    users = [User(Discrete([-4, 1, 3], [0.2, 0.3, 0.5])), User(Discrete([0, 9], [0.5, 0.5]))]
    pairs = user_pairs(users, secrets)
    assert [pair.user for pair in pairs] == [0, 1]
    assert [pair.shift for pair in pairs] == shifts


def test_a_distribution_is_told_from_the_alternative():
    users = [User(OTHER, alternative=COIN), User(COIN, alternative=OTHER)]
    pairs = user_pairs(users, "distribution")
    assert [(pair.user, *pair.priors) for pair in pairs] == [(0, OTHER, COIN), (1, COIN, OTHER)]


def test_a_missing_alternative_names_the_user():
    assert len(user_pairs([User(COIN, alternative=OTHER), User(COIN)], "distribution")) == 1
    with pytest.raises(ValueError, match="'Ada' has no alternative; pass alternative="):
        user_pairs([User(COIN, name="Ada")], "distribution")
    with pytest.raises(ValueError, match=r"users\[0\]"):
        user_pairs([User(COIN), User(COIN)], "distribution")


def test_values_of_a_gaussian_user_must_be_given():
    with pytest.raises(ValueError, match="values must be given"):
        user_pairs([User(GAUSSIAN)], "value")
    assert len(user_pairs([User(GAUSSIAN, values=[0, 5])], "value")) == 1
    assert user_pairs([User(GAUSSIAN)], "distribution-absence")[0].priors.p == GAUSSIAN


def test_a_single_value_has_nothing_to_be_told_from():
    with pytest.raises(ValueError, match="needs a user with two values"):
        user_pairs([User(Discrete([3], [1.0]))], "value")


def test_what_is_no_user_is_refused():
    with pytest.raises(ValueError, match="at least one User"):
        check_users([])
    with pytest.raises(TypeError, match=r"users\[1\] is"):
        check_users([User(COIN), COIN])
    with pytest.raises(TypeError, match="list of User objects"):
        check_users(User(COIN))


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([0, 1, 5], 1.0),
        ([2, 4], 1.0),
        ([0.25, 1.5], 0.25),
        ([0.1, 0.2, 0.7], 0.1),
        ([0.01, 19.99], 0.01),
        ([-2.5, 5.0], 2.5),
        ([0.0], 1.0),
        ([2.0**-30, 2.0**-28], 2.0**-30),
    ],
)
def test_the_common_step_is_the_largest_decimal_one(values, step):
    assert common_step([User(Discrete([0], [1.0]), values=values)]) == step


def test_distributions_alternatives_and_protected_values_share_the_step():
    user = User(COIN, alternative=Discrete([0.5], [1.0]), values=[0.2])
    assert common_step([user, User(GAUSSIAN)]) == 0.1


def test_irregular_values_have_no_common_step_and_the_message_names_one():
    with pytest.raises(ValueError, match=r"1\.4142135623730951 fits none.*step= to PufferfishSum"):
        common_step([User(Discrete([1.0, 2.0**0.5], [0.5, 0.5]))])


@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=6),
    st.integers(0, 4),
)
def test_all_values_are_whole_numbers_of_steps(integers, places):
    values = np.array([float(f"{k}e-{places}") for k in integers])
    step = step_of(values)
    steps = np.rint(values / step)
    assert np.allclose(steps * step, values, rtol=1e-15, atol=0.0)
    assert np.gcd.reduce(steps.astype(np.int64)) <= 1


@given(st.sampled_from(SECRETS), st.floats(0.0, 1.0))
def test_pairs_do_not_depend_on_presence(secrets, presence):
    first = user_pairs([User(COIN, alternative=OTHER)], secrets)
    second = user_pairs([User(COIN, alternative=OTHER, presence=presence)], secrets)
    assert [a.priors for a in first] == [b.priors for b in second]
