"""The papers' couplings, held against linear programs, quantiles and exact losses."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import wasserstein_distance

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.couplings import (
    close_adversary,
    near,
    optimal_plan,
    renyi_divergence,
    shift_reduction,
    w_infinity,
    w_p,
)
from sklearn_puffer.noise import Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture

close = pytest.approx


@st.composite
def distributions(draw):
    atoms = draw(st.lists(st.integers(-20, 20), min_size=1, max_size=5, unique=True))
    counts = draw(st.lists(st.integers(1, 9), min_size=len(atoms), max_size=len(atoms)))
    return Discrete.from_counts(np.array(atoms) / 4.0, counts)


def transported(p, q, costs):
    """Return the least mean cost over all couplings, by a linear program."""
    n, m = costs.shape
    rows = [np.repeat(np.eye(n), m, axis=1), np.tile(np.eye(m), n)]
    found = linprog(
        costs.ravel(), A_eq=np.vstack(rows), b_eq=np.r_[p.probabilities, q.probabilities]
    )
    assert found.status == 0
    return found.fun


@given(distributions(), distributions())
def test_the_optimal_plan_has_both_marginals_and_the_cumulative_masses_of_the_paper(p, q):
    plan = optimal_plan(p, q)
    assert plan.probability.sum() == close(1.0)
    for x, y in itertools.product(p.rows[:, 0], q.rows[:, 0]):
        below = plan.probability[(plan.x <= x) & (plan.y <= y)].sum()
        f, g = (prior.probabilities[prior.rows[:, 0] <= v].sum() for prior, v in ((p, x), (q, y)))
        assert below == close(min(f, g), abs=1e-12)


@pytest.mark.slow
@given(distributions(), distributions())
def test_distances_are_those_of_linear_programs(p, q):
    moves = np.abs(p.rows - q.rows.T)
    for order in (1, 2, 3.5):
        least = transported(p, q, moves**order) ** (1 / order)
        assert w_p(p, q, order) == close(least, rel=1e-6, abs=1e-6)
    values = p.rows[:, 0], q.rows[:, 0], p.probabilities, q.probabilities
    assert w_p(p, q, 1) == close(wasserstein_distance(*values), abs=1e-12)
    assert w_p(p, q, math.inf) == w_infinity(p, q) >= w_p(p, q, 50) * (1 - 1e-12)


@given(distributions(), distributions(), st.integers(0, 40))
def test_nearness_is_the_least_mass_that_any_coupling_moves_farther(p, q, quarters):
    z = quarters / 4
    far = (np.abs(p.rows - q.rows.T) > z).astype(float)
    assert near(p, q, z) == close(transported(p, q, far), abs=1e-9)
    assert near(p, q, w_infinity(p, q)) == 0.0


@settings(max_examples=30)
@given(
    distributions(),
    distributions(),
    distributions(),
    st.sampled_from([Laplace(1.5), Gaussian(1.5)]),
)
def test_the_shift_reduction_is_never_below_the_loss(p, middle, q, noise):
    notions = [RenyiPufferfish(1.0, 2.5)]
    notions += [Pufferfish(1.0)] if isinstance(noise, Laplace) else []
    for notion in notions:
        bound = shift_reduction(p, middle, q, noise, notion)
        exact = privacy_loss(p, q, noise, notion)
        assert bound >= exact.lower * (1 - 1e-9)


def test_the_divergence_is_that_of_its_definition():
    p, q = Discrete([0, 1, 2], [0.2, 0.3, 0.5]), Discrete([2, 1, 0], [0.25, 0.25, 0.5])
    a, b = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.25, 0.25])
    for alpha in (1.5, 2.0, 7.0):
        assert renyi_divergence(p, q, alpha) == close(
            np.log((a**alpha * b ** (1 - alpha)).sum()) / (alpha - 1)
        )
    assert renyi_divergence(p, q, math.inf) == close(math.log(2))
    assert renyi_divergence(p, Discrete([0, 1], [0.5, 0.5]), 2.0) == math.inf


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("alpha", [math.inf, 2.0])
def test_no_close_adversary_learns_more_than_the_theorems_say(seed, alpha):
    rng = np.random.default_rng(seed)
    atoms = np.arange(5.0)
    fitted, believed = (
        {s: Discrete(atoms, rng.dirichlet(np.full(5, 4.0))) for s in "ab"} for _ in range(2)
    )
    noise = Laplace(3.0) if math.isinf(alpha) else Gaussian(3.0)

    @cache
    def loss(order, whose="fitted"):
        priors = fitted if whose == "fitted" else believed
        notion = Pufferfish(1.0) if math.isinf(order) else RenyiPufferfish(1.0, order)
        return privacy_loss(priors["a"], priors["b"], noise, notion).upper

    for behind in (None, noise):
        bound = close_adversary(loss, fitted, believed, alpha=alpha, noise=behind)
        assert loss(alpha, "believed") <= bound
    # a prior is as close to itself as can be
    assert alpha < math.inf or close_adversary(loss, fitted, fitted) == close(loss(math.inf))


@pytest.mark.parametrize("alpha", [1.5, 2.0, 8.0])
def test_the_bound_of_a_close_adversary_is_the_least_that_a_search_of_the_formula_finds(alpha):
    fitted = {"a": Discrete([0, 1], [0.5, 0.5]), "b": Discrete([0, 1], [0.3, 0.7])}
    believed = {"a": Discrete([0, 1], [0.45, 0.55]), "b": Discrete([0, 1], [0.31, 0.69])}

    def apart(order, ps, qs):
        pairs = [(ps[s].counts / ps[s].total, qs[s].counts / qs[s].total) for s in "ab"]
        return max(math.log(np.sum(p**order * q ** (1 - order))) / (order - 1) for p, q in pairs)

    def bound(p, q, r):
        own = (1 + 1 / (r * (alpha - 1))) * 0.1 * q * (alpha - 1 / p)
        there = (1 + (1 / r + 1 / q) / (alpha - 1)) * apart(alpha * p, believed, fitted)
        return own + there + apart((alpha - 1) * r + 1, fitted, believed)

    parts = range(1, 40)
    shares = [(a, b, 40 - a - b) for a in parts for b in parts if a + b < 40]
    least = min(bound(*(40 / part for part in share)) for share in shares)
    found = close_adversary(lambda order: 0.1 * order, fitted, believed, alpha=alpha)
    assert least <= found <= 1.05 * least


def test_a_certificate_of_the_loss_itself_is_within_the_theorem():
    import pandas as pd

    table = pd.DataFrame({"s": list("aaabbb") * 20, "x": [0, 1, 1, 0, 0, 1] * 20})
    noiser = PufferfishNoiser(0.5, sensitive="s").fit(table)
    fitted = {"a": Discrete([0, 1], [1 / 3, 2 / 3]), "b": Discrete([0, 1], [2 / 3, 1 / 3])}
    believed = {"a": Discrete([0, 1], [0.3, 0.7]), "b": Discrete([0, 1], [0.7, 0.3])}
    told = noiser.certificate_.against(believed).loss
    assert told <= close_adversary(lambda order: noiser.certificate_.loss, fitted, believed)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, w: optimal_plan(w, p), "p and q must be over one column, got 2 and 1"),
        (lambda p, w: w_p(p, p, 0.5), "order must be at least 1, got 0.5"),
        (lambda p, w: near(p, p, -1.0), "distance must be a number from 0 on, got -1.0"),
        (lambda p, w: renyi_divergence(p, p, 1.0), "alpha must be above 1, got 1.0"),
        (
            lambda p, w: shift_reduction(p, p, p, Laplace(), Pufferfish(1.0, 0.1)),
            "notion must be pure or Renyi",
        ),
        (
            lambda p, w: close_adversary(lambda order: 1.0, {"a": p}, {"b": p}),
            "believed must be of the secrets",
        ),
    ],
)
def test_what_has_no_answer_is_refused_in_one_sentence(call, message):
    one, two = Discrete([0, 1], [0.5, 0.5]), Discrete([[0, 1], [1, 0]], [0.5, 0.5])
    with pytest.raises(ValueError, match=message):
        call(one, two)


def test_mixtures_have_no_plan():
    one, mixture = Discrete([0, 1], [0.5, 0.5]), GaussianMixture([1.0], [0.0], [1.0])
    for distance in (optimal_plan, w_infinity, lambda p, q: w_p(p, q, 2.0)):
        with pytest.raises(TypeError, match="p and q must be Discrete priors, got GaussianMixture"):
            distance(one, mixture)
