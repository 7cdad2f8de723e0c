"""The worst loss over confidence sets of unordered columns, against linear programs."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._noise import MixedNoise, Mixing
from sklearn_puffer._sets import ONE, SetLosses, computable, error_share
from sklearn_puffer._sets.laminar import OrderedAxis, Tree, UnorderedAxis, nearest_masses
from sklearn_puffer._sets.simultaneous_sets import set_around_counts
from sklearn_puffer.bounds import sensitivity
from sklearn_puffer.noise import Cauchy, Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import ConfidenceSet, Discrete, PriorPair

PURE = Pufferfish(1.0)


def kernel(shares, theta):
    """Return the kernel from its definition: rows are values, columns what is released."""
    rho = 1.0 - np.exp(-theta)
    return (1.0 - rho) * np.eye(len(shares)) + rho * np.asarray(shares)


def instance(seed, kinds, sizes, rows=300, n_sets=2):
    """Return sets on a grid, mixings and scales; ``kinds`` has a 1 for each unordered column."""
    rng = np.random.default_rng(seed)
    axes = [
        np.arange(n, dtype=float) if unordered else np.cumsum(rng.uniform(0.2, 2.0, n))
        for n, unordered in zip(sizes, kinds, strict=True)
    ]
    cells = int(np.prod(sizes))
    share = error_share(0.95, [cells] * n_sets)
    distributions = rng.dirichlet(np.ones(cells), n_sets)
    sets = [
        set_around_counts(axes, rng.multinomial(rows, distribution), share)
        for distribution in distributions
    ]
    mixings = tuple(
        Mixing.of_counts(range(n), rng.integers(0, 20, n).tolist()) if unordered else None
        for n, unordered in zip(sizes, kinds, strict=True)
    )
    return sets, mixings, rng.uniform(0.3, 2.0, len(sizes))


def likelihoods(axes, mixings, thetas, released):
    """Return the likelihood of all cells for one released row: its categories and numbers."""
    total = np.ones(1)
    for axis, mixing, theta, value in zip(axes, mixings, thetas, released, strict=True):
        if mixing is None:
            own = np.exp(-np.abs(axis - value) / theta)
        else:
            own = kernel(mixing.probabilities, theta)[:, int(value)]
        total = np.multiply.outer(total, own).ravel()
    return total


def program(around, costs):
    """Return the smallest mean cost over a set, by scipy's solver."""
    tree = around.tree
    nodes = np.zeros((len(around.lower), tree.n_cells))
    for node, (start, stop) in enumerate(zip(tree.start, tree.stop, strict=True)):
        nodes[node, tree.cells[start:stop]] = 1.0
    found = linprog(
        costs / costs.max(),
        A_ub=np.vstack([nodes, -nodes]),
        b_ub=np.append(around.upper / ONE, -around.lower / ONE),
        A_eq=np.ones((1, tree.n_cells)),
        b_eq=[1.0],
        bounds=(0.0, 1.0),
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return found.fun * costs.max()


def extremes(around, values):
    """Return the largest and the smallest mean of some values over a set."""
    spare = 1.001 * values.max()
    return spare - program(around, spare - values), program(around, values)


def released_rows(axes, mixings):
    """Return categories with numbers on the atoms, between them and beyond them."""
    along = [
        axis if mixing is not None else np.append(axis, [axis[0] - 0.7, axis[:2].mean()])
        for axis, mixing in zip(axes, mixings, strict=True)
    ]
    return itertools.product(*along)


def log_extremes(sets, mixings, thetas):
    """Return the largest and the smallest likelihoods of each set, by linear programs, in logs."""
    axes = sets[0].axes
    found = [
        [extremes(each, likelihoods(axes, mixings, thetas, released)) for each in sets]
        for released in released_rows(axes, mixings)
    ]
    return np.log(np.array(found)).transpose(2, 1, 0)


CASES = [
    ((1,), (4,), 0.4),
    ((1, 1), (3, 2), 1.0),
    ((1, 1, 1), (2, 3, 2), 0.3),
    ((1, 0), (3, 4), 0.2),
    ((0, 1), (4, 3), 1.5),
    ((1, 0, 1), (2, 3, 2), 0.5),
    ((0, 1, 0), (2, 3, 2), 3.0),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kinds", "sizes", "factor"), CASES)
def test_the_worst_loss_is_that_of_linear_programs_at_every_released_row(kinds, sizes, factor):
    sets, mixings, thetas = instance(sum(sizes), kinds, sizes)
    noise = MixedNoise(Laplace(tuple(thetas)), mixings)
    (most_p, most_q), (least_p, least_q) = log_extremes(sets, mixings, factor * thetas)
    expected = [(most_p - least_q).max(), (most_q - least_p).max()]
    found = SetLosses([tuple(sets)], noise, PURE).losses(factor)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("noise", [Laplace(1.0), Gaussian(1.0), Cauchy(1.0)], ids=str)
def test_columns_without_numbers_have_the_sum_of_the_extremes_under_any_notion(noise):
    sets, mixings, thetas = instance(3, (1, 1), (3, 3))
    logs = log_extremes(sets, mixings, 0.5 * thetas)
    mixed = MixedNoise(noise.with_scale(tuple(thetas)), mixings)
    for p, q in ((0, 1), (1, 0)):
        most, least = np.exp(logs[0, p]), np.exp(logs[1, q])
        expected = {
            PURE: np.log(most / least).max(),
            Pufferfish(0.2, 0.1): np.maximum(most - np.exp(0.2) * least, 0.0).sum(),
            RenyiPufferfish(1.0, 3.0): np.log((most**3 / least**2).sum()) / 2.0,
        }
        for notion, loss in expected.items():
            found = SetLosses([tuple(sets)], mixed, notion).losses(0.5)[0, p]
            assert found == pytest.approx(loss, rel=1e-6)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([(1,), (1, 1), (1, 0), (0, 1, 1)]))
def test_no_distribution_of_the_sets_loses_more_and_more_noise_never_does(seed, kinds):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, len(kinds)).tolist()
    sets, mixings, thetas = instance(seed, kinds, sizes, rows=int(rng.integers(5, 2000)))
    losses = SetLosses([tuple(sets)], MixedNoise(Laplace(tuple(thetas)), mixings), PURE)
    found = [losses.losses(factor)[0] for factor in (0.0, 1e-3, 0.1, 0.5, 2.0, 30.0)]
    assert all((after <= before).all() for before, after in itertools.pairwise(found))
    distributions = [_distribution_of(each, rng) for each in sets]
    axes = sets[0].axes
    for released in released_rows(axes, mixings):
        p, q = (
            likelihoods(axes, mixings, 0.5 * thetas, released) @ distribution
            for distribution in distributions
        )
        assert np.log(p / q) <= found[3][0] + 1e-9
        assert np.log(q / p) <= found[3][1] + 1e-9


def _distribution_of(around, rng):
    """Return a distribution of the set: what serves a random cost best."""
    tree = around.tree
    nodes = np.zeros((len(around.lower), tree.n_cells))
    for node, (start, stop) in enumerate(zip(tree.start, tree.stop, strict=True)):
        nodes[node, tree.cells[start:stop]] = 1.0
    bounds = np.append(around.upper / ONE, -around.lower / ONE)
    equal = {"A_eq": np.ones((1, tree.n_cells)), "b_eq": [1.0]}
    sides = np.vstack([nodes, -nodes])
    return linprog(rng.standard_normal(tree.n_cells), sides, bounds, **equal).x


@pytest.mark.parametrize("factor", [1e-300, 1e-12, 1e-3, 1.0, 1e3, 1e300])
def test_the_worst_loss_is_never_above_that_of_a_change_of_all_columns(factor):
    sets, mixings, thetas = instance(7, (1, 0, 1), (3, 2, 2), rows=20)
    noise = MixedNoise(Laplace(tuple(thetas)), mixings)
    cells = list(itertools.product(*sets[0].axes))
    distribution = Discrete.from_counts(cells, [1] * len(cells))
    most = sensitivity([PriorPair(distribution, distribution)], noise, PURE).losses(factor)
    found = SetLosses([tuple(sets)], noise, PURE).losses(factor)
    assert (found <= most * (1.0 + 1e-9)).all()
    assert (found >= 0.0).all()


def test_noise_too_small_for_floats_counts_as_none():
    sets, mixings, thetas = instance(1, (1, 0), (3, 3), rows=3000)
    losses = SetLosses([tuple(sets)], MixedNoise(Laplace(tuple(thetas)), mixings), PURE)
    np.testing.assert_allclose(losses.losses(5e-324), losses.losses(0.0))
    np.testing.assert_allclose(losses.losses(1e-9), losses.losses(0.0), rtol=1e-6)
    alone, mixings, thetas = instance(1, (1, 1), (3, 3), rows=3000)
    noise = MixedNoise(Gaussian(tuple(thetas)), mixings)
    bare = SetLosses([tuple(alone)], noise, Pufferfish(0.1, 0.1))
    np.testing.assert_allclose(bare.losses(5e-324), bare.losses(0.0))


def test_cells_are_nearest_in_the_order_of_the_sums_of_jumps_and_gaps():
    shape = (3, 4, 2)
    tree, rng = Tree.over(shape), np.random.default_rng(4)
    costs, points = rng.integers(1, 9, 3), np.cumsum(rng.integers(0, 5, 4))
    axes = [UnorderedAxis(costs), OrderedAxis(points), UnorderedAxis(np.array([6, 6]))]
    around = set_around_counts([np.arange(n) for n in shape], rng.integers(0, 50, 24), 0.01)
    order, most, _ = nearest_masses(tree, axes, around.lower[None], around.upper[None])
    cells = list(itertools.product(*map(range, shape)))
    for released, row in zip(cells, order, strict=True):
        distances = [
            (a != x) * costs[a] + abs(points[b] - points[y]) + 6 * (c != z)
            for a, b, c in [released]
            for x, y, z in (cells[k] for k in row)
        ]
        assert distances == sorted(distances)
    assert (np.diff(most[0], axis=1) >= 0).all()


def test_sets_are_looked_through_where_an_order_of_the_cells_is_all_it_takes():
    two = tuple(Mixing.of_counts(range(4), [1] * 4) for _ in "ab")
    mixed, number = MixedNoise(Laplace((1.0, 1.0)), two), (two[0], None)
    delta = Pufferfish(1.0, 1e-3)
    assert computable((4, 4), 2, mixed, delta)
    assert computable((4, 4), 2, MixedNoise(Laplace((1.0, 1.0)), number), PURE)
    other = MixedNoise(Gaussian((1.0, 1.0)), number)
    assert computable((4, 1), 2, other, delta)
    assert computable((4, 128), 2, other, delta)
    assert not computable((4, 129), 2, other, delta)
    two_numbers = MixedNoise(Gaussian((1.0, 1.0, 1.0)), (*number, None))
    assert not computable((2, 2, 2), 2, two_numbers, delta)
    alone = MixedNoise(Laplace((1.0,)), two[:1])
    assert computable((2048,), 2, alone, PURE)
    assert not computable((2049,), 2, alone, PURE)


# --------------------------------------------------------------------------------- the estimator


def table(n, seed=0, jobs="abc"):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    job = np.array(list(jobs))[np.minimum(rng.integers(0, len(jobs), n) + s, len(jobs) - 1)]
    age = rng.integers(20, 24, n) + s
    return pd.DataFrame({"s": s, "job": job, "flag": rng.random(n) < 0.4 + 0.2 * s, "age": age})


def true_distribution(s):
    """Return the distribution of `table` given a secret, from its definition: (job, flag, age)."""
    jobs = np.array([[1, 1, 1], [0, 1, 2]][s]) / 3.0
    ages = np.array([[1, 1, 1, 1, 0], [0, 1, 1, 1, 1]][s]) / 4.0
    flag = 0.4 + 0.2 * s
    return np.multiply.outer(np.multiply.outer(jobs, [1.0 - flag, flag]), ages)


def released_distribution(noiser, frame, s):
    """Return the true likelihoods of released rows: categories, and ages on the atoms."""
    distribution, theta = true_distribution(s), noiser.theta_
    for axis, name in enumerate(("job", "flag")):
        counts = frame[name].value_counts().sort_index().to_numpy() + 1.0
        own = kernel(counts / counts.sum(), theta[name])
        distribution = np.moveaxis(np.tensordot(distribution, own, axes=(axis, 0)), -1, axis)
    gaps = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    return distribution @ np.exp(-gaps / theta["age"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:column")
def test_the_true_distribution_keeps_the_budget_in_nearly_all_tables():
    kept, plain = [], []
    for seed in range(20):
        frame = table(250, seed)
        for adversaries, told in ((ConfidenceSet(0.5), kept), (None, plain)):
            noiser = PufferfishNoiser(0.5, sensitive="s", adversaries=adversaries).fit(frame)
            p, q = (released_distribution(noiser, frame, s) for s in (0, 1))
            told.append(np.abs(np.log(p / q)).max() <= 0.5)
    assert sum(kept) == 20  # where half of them would do
    assert sum(plain) < 20


@pytest.mark.filterwarnings("ignore:column")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"public": "job"},
        {"public": ["job", "flag"], "delta": 1e-3, "noise": "gaussian"},
        {"public": ["flag"], "alpha": 4.0, "noise": "cauchy", "epsilon": 0.1},
        pytest.param(
            {"public": ["flag", "age"], "delta": 1e-2, "noise": "gaussian"},
            marks=pytest.mark.slow,
        ),
        {"dependence": "independent"},
        {"dependence": [["job", "age"], ["flag"]]},
        {"sensitive": ["s", "flag"], "public": ["job", "age"]},
        {"releases": 2},
        {"weights": {"job": 1.0, "flag": 2.0, "age": 1.0}},
    ],
    ids=str,
)
def test_the_whole_set_is_served_with_more_noise_than_the_counts_ask_for(options):
    frame, options = table(600), {"epsilon": 0.8, "sensitive": "s", **options}
    robust = PufferfishNoiser(adversaries="confidence", **options).fit(frame)
    plain = PufferfishNoiser(**options).fit(frame)
    most = PufferfishNoiser(strategy="sensitivity", **options).fit(frame)
    over = robust.certificate_.over_set
    assert over.loss <= robust.certificate_.notion.budget
    assert over.loss > 0.99 * robust.certificate_.notion.budget
    assert over.share < 1.0
    assert (plain.theta_ < robust.theta_).all()
    assert (robust.theta_ < most.theta_).all()
    assert plain.certificate_.over_set.loss > plain.certificate_.notion.budget


@pytest.mark.filterwarnings("ignore:column")
def test_the_certificate_says_how_much_of_the_noise_is_for_sampling_error():
    noiser = PufferfishNoiser(0.8, sensitive="s", adversaries="confidence").fit(table(600))
    certificate = noiser.certificate_
    assert (
        "95% confidence set around the counted ones, the loss is at most" in certificate.details()
    )
    assert certificate.to_dict()["over_set"]["exact"]


def test_where_two_numbers_have_other_noise_that_of_the_largest_change_stands_in():
    noiser = PufferfishNoiser(
        1.0, delta=0.01, noise="gaussian", sensitive="s", adversaries="confidence"
    )
    frame = table(600)
    with pytest.warns(UserWarning, match="confidence set is not computable here"):
        noiser.fit(frame.assign(years=frame["age"] % 3))
    assert noiser.certificate_.strategy == "sensitivity"
    assert noiser.certificate_.holds
