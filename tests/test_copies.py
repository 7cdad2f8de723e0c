"""A reader who counts the copies of a released value, against all outcomes and against draws."""

import math
from collections import defaultdict
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from channel_oracle import channel, dense
from scipy.stats import binom

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._losses import Readers, moved_by_copies
from sklearn_puffer._losses.channel_losses import copies_distribution
from sklearn_puffer._noise import WHOLE
from sklearn_puffer.priors import Discrete

SECRETS = [[2, 1, 1], [1, 0, 2]]  # rows with each secret in each cell


def views(rows, secrets, places=None):
    """Return {(value, copies): expected rows with each secret}, over all owners' outcomes."""
    chances = dense(rows)
    people = [(x, s) for s, own in enumerate(secrets) for x, n in enumerate(own) for _ in range(n)]
    n = len(chances)
    found = defaultdict(lambda: [Fraction(0)] * len(secrets))
    for out in product(range(n), repeat=len(people)):
        chance = math.prod(chances[x][y] for (x, _), y in zip(people, out, strict=True))
        if chance:
            for (_, s), y in zip(people, out, strict=True):
                found[y, out.count(y)][s] += chance
    return found


def told_by_hand(rows, secrets, bound, pairs):
    """Return the rows in views that shift the odds of some pair beyond the bound."""
    before = [Fraction(sum(own)) for own in secrets]
    chances, beyond = dense(rows), Fraction(0)
    for (y, _), masses in views(rows, secrets).items():
        alone = [
            sum(n * w[y] for n, w in zip(own, chances, strict=True)) / total
            for own, total in zip(secrets, before, strict=True)
        ]
        after = [mass / total for mass, total in zip(masses, before, strict=True)]
        if any(_far(after[s], after[t], bound) > _far(alone[s], alone[t], bound) for s, t in pairs):
            beyond += sum(masses)
    return float(beyond)


def _far(one, other, bound):
    return one == 0 or other == 0 or abs(math.log(one / other)) > bound


def readers_of(secrets, pairs):
    counts = np.array(secrets)
    distributions = counts / counts.sum(axis=1, keepdims=True)
    return Readers(distributions, counts.sum(axis=1), np.array(pairs))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("bound", [0.1, 0.3, 0.7])
def test_rows_told_beyond_the_bound_are_those_of_all_outcomes(seed, bound):
    rng = np.random.default_rng(seed)
    rows = channel(rng.integers(0, 4, (3, 3)) * (rng.random((3, 3)) < 0.7) + np.eye(3, dtype=int))
    found = moved_by_copies(
        rows, np.array(SECRETS).sum(axis=0), readers_of(SECRETS, [[0, 1]]), bound
    )
    assert found == pytest.approx(told_by_hand(rows, SECRETS, bound, [(0, 1)]), abs=1e-6)


def test_pairs_that_are_not_protected_do_not_count_and_the_worst_of_several_does():
    secrets = [[1, 1, 0], [1, 0, 1], [0, 1, 1]]
    rows = channel(np.array([[3, 1, 0], [1, 3, 1], [0, 1, 3]]))
    counts = np.array(secrets).sum(axis=0)
    for pairs in ([[0, 1]], [[0, 2], [1, 2]], list(combinations(range(3), 2))):
        found = moved_by_copies(rows, counts, readers_of(secrets, pairs), 0.5)
        assert found == pytest.approx(told_by_hand(rows, secrets, 0.5, pairs), abs=1e-6)


def test_the_distribution_of_copies_is_that_of_a_sum_of_binomials():
    counts, chances = np.array([40, 1, 3]), np.array([0.3, 1.0, 0.5])
    distribution, expected = copies_distribution(counts, chances, np.eye(3))
    sums = np.convolve(binom.pmf(range(41), 40, 0.3), binom.pmf(range(4), 3, 0.5))
    np.testing.assert_allclose(
        distribution, sums, atol=1e-12
    )  # of 1 and more, as one row always comes
    np.testing.assert_allclose(expected.sum(axis=1), counts * chances, rtol=1e-10)
    np.testing.assert_allclose(expected.sum(axis=0), np.arange(1, 45) * sums, atol=1e-10)


def test_cells_of_the_same_chance_share_their_copies_by_their_rows():
    counts, posteriors = np.array([1, 5, 2]), np.array([[1.0, 0.2, 0.5], [0.0, 0.8, 0.5]])
    one = copies_distribution(counts, np.full(3, 0.3), posteriors)[1]
    apart = copies_distribution(counts, np.array([0.3, 0.3 + 1e-12, 0.3 - 1e-12]), posteriors)[1]
    np.testing.assert_allclose(one, apart, atol=1e-9)


@pytest.mark.parametrize("n", [10**3, 10**5, 10**7])
def test_large_cells_are_summed_by_fourier_transforms_to_the_same_distribution(n):
    distribution, expected = copies_distribution(np.array([n, n]), np.array([0.5, 0.25]), np.eye(2))
    assert distribution.sum() == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(expected.sum(axis=1), [n / 2, n / 4], rtol=1e-6)
    spread = math.sqrt(n / 4 + 3 * n / 16)
    assert distribution.max() == pytest.approx(1 / (spread * math.sqrt(2 * math.pi)), rel=1e-2)


@pytest.mark.slow
def test_draws_of_a_table_are_told_beyond_the_bound_so_often():
    rng = np.random.default_rng(0)
    secrets = np.array([[30, 5, 9], [5, 30, 12]])
    rows = channel(np.array([[1, 0, 0], [1, 3, 0], [0, 1, 3]]))
    chances = np.array(dense(rows), dtype=float)
    alone = np.log(secrets @ chances / secrets.sum(axis=1, keepdims=True))
    bound, n_draws = 1.05 * float(abs(alone[0] - alone[1]).max()), 20_000
    seen = defaultdict(lambda: np.zeros(2))
    for _ in range(n_draws):
        came = np.array([sum(map(rng.multinomial, own, chances)) for own in secrets])
        for y, masses in enumerate(came.T):
            seen[y, masses.sum()] += masses / n_draws
    beyond = 0.0
    for masses in seen.values():
        with np.errstate(divide="ignore"):
            one, other = np.log(masses / secrets.sum(axis=1))
        beyond += masses.sum() * (abs(one - other) > bound)
    readers = readers_of(secrets.tolist(), [[0, 1]])
    found = moved_by_copies(rows, secrets.sum(axis=0), readers, bound)
    assert 1.0 < found == pytest.approx(beyond, rel=0.05)


# ---------------------------------------------------------------------------------- what fit does


def table_of(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    ill = rng.random(n_rows) < 0.4
    return pd.DataFrame(
        {"ill": np.where(ill, "yes", "no"), "age": rng.integers(0, 4, n_rows) + ill, "home": ill}
    ).assign(home=lambda t: t["home"] ^ (rng.random(n_rows) < 0.45))


def noiser_of(**options):
    return PufferfishNoiser(**{"epsilon": 0.5, "sensitive": "ill", "noise": "optimal"} | options)


def test_a_table_of_few_rows_is_refused_and_one_of_the_same_distribution_and_many_rows_is_not():
    few, many = table_of(300), table_of(60_000)
    with pytest.raises(ValueError, match=r'300 rows lie in 10: .*copies .*; use noise="swap"'):
        noiser_of().fit(few)
    assert noiser_of().fit(many).certificate_.holds
    assert noiser_of().fit(few, sample_weight=np.full(300, 1000)).certificate_.holds


def test_a_refused_fit_leaves_nothing_behind_and_the_way_out_releases_the_table():
    noiser = noiser_of()
    with pytest.raises(ValueError, match="counts the copies"):
        noiser.fit(table_of(300))
    assert not hasattr(noiser, "certificate_")
    table = table_of(900)
    swapped = noiser_of(noise="swap").fit_transform(table)
    assert sorted(swapped["age"]) == sorted(table["age"])


def test_rows_that_stay_as_they_are_tell_nothing_by_their_number():
    table = pd.DataFrame({"ill": [*"ny"] * 20, "age": [0, 0, 1, 1] * 10})
    with pytest.warns(UserWarning, match="no row needs to change"):
        assert noiser_of().fit(table).certificate_.holds


def test_what_a_delta_allows_is_not_laid_to_the_copies():
    table = table_of(40_000)
    noiser = noiser_of(epsilon=0.1, delta=0.1).fit(table, sample_weight=np.full(40_000, 1000))
    distributions = np.array(noiser.channel_.numerators.toarray(), dtype=object)
    assert (np.diag(distributions) > WHOLE // 2).any()
    assert noiser.certificate_.holds


def test_further_adversaries_count_copies_too():
    table = table_of(30_000)
    distribution = {
        "no": Discrete(range(5), [0.2] * 5),
        "yes": Discrete(range(5), [0.1] * 4 + [0.6]),
    }
    noiser = noiser_of(public="age", adversaries=[distribution])
    with pytest.raises(ValueError, match="counts the copies"):
        noiser.fit(table.head(100))
    assert noiser.fit(table).certificate_.holds
