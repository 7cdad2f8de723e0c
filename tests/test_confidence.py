"""Confidence sets and the worst loss over them, against linear programs, dense grids and papers."""

import itertools
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from brute_force import lies_in
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog
from scipy.special import logsumexp

from sklearn_puffer._sets import ONE, SetLosses, computable, error_share, set_around
from sklearn_puffer._sets.laminar import OrderedAxis, Tree, interval_masses, nearest_masses
from sklearn_puffer._sets.simultaneous_sets import _errors, n_events, set_around_counts
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.bounds import sensitivity
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, PriorPair

STUDENT = [[376, 204], [34, 35]]
NOISES = [Laplace(1.5), Gaussian(1.5), Cauchy(1.5), GeneralizedCauchy(1.5, 5.0)]
NOTIONS = [Pufferfish(0.3), Pufferfish(0.3, 1e-3), RenyiPufferfish(0.5, 2.0)]
PURE = Pufferfish(1.0)


def _random_bounds(rng, tree):
    """Return bounds around a random distribution, some of them void, and none that excludes it."""
    distribution = rng.dirichlet(np.full(tree.n_cells, rng.choice([0.2, 1.0, 5.0])))
    sums = np.append(0.0, np.cumsum(distribution[tree.cells]))
    held = sums[tree.stop] - sums[tree.start]
    slack = rng.choice([0.02, 0.1, 0.5], held.size)
    lower = np.where(rng.random(held.size) < 0.3, 0.0, held - slack * rng.random(held.size))
    upper = np.where(rng.random(held.size) < 0.3, 1.0, held + slack * rng.random(held.size))
    whole = [np.floor(np.clip(lower, 0, 1) * ONE), np.ceil(np.clip(upper, 0, 1) * ONE)]
    return [bound.astype(np.int64) for bound in whole]


def _program(tree, lower, upper, costs):
    """Return the smallest mean cost over the set, by scipy's solver."""
    nodes = np.zeros((len(lower), tree.n_cells))
    for node, (start, stop) in enumerate(zip(tree.start, tree.stop, strict=True)):
        nodes[node, tree.cells[start:stop]] = 1.0
    return linprog(
        costs,
        A_ub=np.vstack([nodes, -nodes]),
        b_ub=np.append(upper / ONE, -lower / ONE),
        A_eq=np.ones((1, tree.n_cells)),
        b_eq=[1.0],
        bounds=(0.0, 1.0),
    ).fun


def _most(tree, lower, upper, held):
    """Return the most mass of the places ``held``, node by node: the proof in `_sets.laminar`."""

    def corner(node):
        if node >= tree.n_inner:
            inside = bool(held[node - tree.n_inner])
            return (upper[node], 0) if inside else (0, lower[node])
        halves = [corner(child) for child in (tree.left[node], tree.right[node])]
        s, r = (sum(int(part) for part in parts) for parts in zip(*halves, strict=True))
        return min(s, int(upper[node]) - r), max(r, int(lower[node]) - s)

    return corner(0)[0]


def chain_masses(tree, lower, upper, chains):
    """Return the most and the least mass of growing sets of places, one set at a time."""
    held = np.zeros((*chains.shape, tree.n_cells), dtype=bool)
    for row, chain in enumerate(chains):
        for k, place in enumerate(chain):
            held[row, k:, place] = True
    sides = [
        [
            [[_most(tree, *around, own) for own in of_chain] for of_chain in held]
            for around in bounds
        ]
        for bounds in (zip(lower, upper, strict=True), zip(-upper, -lower, strict=True))
    ]
    return np.array(sides[0]), -np.array(sides[1])


def _sets_of(seed, n_atoms=6, rows=400, level=0.95, n_sets=2):
    rng = np.random.default_rng(seed)
    atoms = np.cumsum(rng.uniform(0.2, 2.0, n_atoms))
    share = error_share(level, [n_atoms] * n_sets)
    distributions = rng.dirichlet(np.ones(n_atoms), n_sets)
    return [
        set_around_counts([atoms], rng.multinomial(rows, distribution), share)
        for distribution in distributions
    ]


def _scale(losses):
    """Return the factor at which the worst loss meets the budget, 0 if none is needed."""
    budget = losses.notion.budget
    if losses.losses(0.0).max() <= budget:
        return 0.0

    def excess(log):
        return losses.losses(np.exp(log)).max() - budget

    high = np.log(losses.guess)
    return float(np.exp(brentq(excess, high - 25.0, high + 1.0, xtol=1e-13)))


@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (12,), (3, 4), (2, 3, 4), (1, 5)])
def test_filling_solves_the_linear_programs_over_a_tree(shape):
    tree, rng = Tree.over(shape), np.random.default_rng(sum(shape))
    for _ in range(8):
        lower, upper = _random_bounds(rng, tree)
        kernel = np.exp(-4.0 * rng.random(tree.n_cells))
        order = np.argsort(-kernel)
        tight = tree.tightened(lower[None], upper[None])
        extremes = chain_masses(tree, *tight, np.argsort(tree.cells)[order][None])
        most, least = ((np.diff(part[0, 0] / ONE, prepend=0) @ kernel[order]) for part in extremes)
        assert most == pytest.approx(-_program(tree, lower, upper, -kernel), abs=1e-9)
        assert least == pytest.approx(_program(tree, lower, upper, kernel), abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 5, 13])
def test_intervals_and_chains_agree_to_the_last_unit(n):
    tree, rng = Tree.over((n,)), np.random.default_rng(n)
    lower, upper = (np.stack(side) for side in zip(*[_random_bounds(rng, tree)] * 2, strict=True))
    tight = tree.tightened(lower, upper)
    most, least = interval_masses(tree, *tight)
    for first in range(n):
        chain = np.array([[*range(first, n), *range(first)]])
        some, few = chain_masses(tree, *tight, chain)
        np.testing.assert_array_equal(most[:, first, first:], some[:, 0, : n - first])
        np.testing.assert_array_equal(least[:, first, first:], few[:, 0, : n - first])


@pytest.mark.parametrize("shape", [(2, 3), (1, 4, 2), (2, 2, 2, 1)])
def test_the_nearest_cells_of_a_grid_are_masses_of_a_chain_to_the_last_unit(shape):
    tree, rng = Tree.over(shape), np.random.default_rng(len(shape))
    axes = [np.cumsum(rng.integers(1, 4, n)) for n in shape]
    lower, upper = (np.stack(side) for side in zip(*[_random_bounds(rng, tree)] * 2, strict=True))
    tight = tree.tightened(lower, upper)
    order, most, least = nearest_masses(tree, [*map(OrderedAxis, axes)], *tight)
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    distances = np.abs(points[:, None] - points).sum(axis=2)
    sorted_by = np.take_along_axis(distances, order, axis=1)
    np.testing.assert_array_equal(sorted_by, np.sort(distances, axis=1))
    some, few = chain_masses(tree, *tight, np.argsort(tree.cells)[order])
    np.testing.assert_array_equal(most, some)
    np.testing.assert_array_equal(least, few)


def test_cells_sorted_a_little_wrong_cost_what_moved_them():
    # 1/3 and 0.1 are no floats, so that sums which should be equal differ by a rounding
    axes = [np.arange(4) / 3.0, np.arange(5) * 0.1, np.arange(3) * 1.1]
    share = error_share(0.95, [60, 60])
    rng = np.random.default_rng(0)
    sets = [set_around_counts(axes, rng.multinomial(900, np.full(60, 1 / 60)), share) for _ in "pq"]
    moved = SetLosses([tuple(sets)], Laplace((1.0, 0.3, 3.3)), PURE)
    whole = [replace(each, axes=(np.arange(4.0), np.arange(5.0), np.arange(3.0))) for each in sets]
    exact = SetLosses([tuple(whole)], Laplace((3.0, 3.0, 3.0)), PURE)
    for factor in (1e-3, 0.1, 5.0):
        np.testing.assert_allclose(moved.losses(factor), exact.losses(factor), rtol=1e-10)


def test_tightened_bounds_are_attained():
    tree, rng = Tree.over((2, 3)), np.random.default_rng(5)
    lower, upper = _random_bounds(rng, tree)
    low, high = tree.tightened(lower, upper)
    for node, (start, stop) in enumerate(zip(tree.start, tree.stop, strict=True)):
        costs = np.zeros(tree.n_cells)
        costs[tree.cells[start:stop]] = 1.0
        assert low[node] / ONE == pytest.approx(_program(tree, lower, upper, costs), abs=1e-9)
        assert high[node] / ONE == pytest.approx(-_program(tree, lower, upper, -costs), abs=1e-9)


@pytest.mark.parametrize(("hits", "rows"), [(0, 7), (3, 7), (7, 7), (1, 10**6), (150, 400)])
@pytest.mark.parametrize("share", [0.5, 0.025, 1e-9])
def test_intervals_miss_with_no_more_than_their_share(hits, rows, share):
    low, high = (
        side[0] for side in set_around_counts([[0, 1]], [hits, rows - hits], share).cell_bounds
    )
    with mpmath.workdps(50):
        tails = [
            mpmath.betainc(hits, rows - hits + 1, 0, low, regularized=True) if hits else 0,
            mpmath.betainc(hits + 1, rows - hits, high, 1, regularized=True) if hits < rows else 0,
        ]
    assert max(tails) <= share / 2
    assert max(tails) >= share / 2 * (1.0 - 1e-6)
    assert (low == 0.0) == (hits == 0)
    assert (high == 1.0) == (hits == rows)


@given(st.integers(1, 40), st.floats(1e-12, 0.4))
def test_the_errors_of_all_intervals_add_up_to_the_error_of_the_set(n_cells, share):
    tree = Tree.over((n_cells,))
    errors = _errors(tree, share)
    independent = errors[1:].sum() - (errors[int(tree.right[0])] if n_cells > 1 else 0.0)
    assert independent <= n_events(n_cells) * share
    assert errors.min() > 0.0


def test_the_observed_distribution_and_only_distributions_near_it_lie_in_the_set():
    counts = np.array([0, 5, 0, 95, 400])
    around = set_around_counts([np.arange(5.0)], counts, 0.01)
    assert lies_in(around, counts / counts.sum())
    assert not lies_in(around, [0.2, 0.2, 0.2, 0.2, 0.2])


@pytest.mark.parametrize(
    ("level", "bounds", "scale"),
    [
        (0.9, [0.312841601866, 0.392125737029, 0.38405828886, 0.62979278158], 0.52613218687),
        (0.95, [0.307498599967, 0.397875604785, 0.367967174718, 0.645719774941], 0.575966935857),
        (0.99, [0.296868165099, 0.409484003211, 0.336313469566, 0.676986919085], 0.668908177595),
    ],
)
def test_student_boxes_and_scales_are_those_known(level, bounds, scale):
    share = error_share(level, [2, 2])
    sets = [set_around_counts([[0, 1]], counts, share) for counts in STUDENT]
    found = [side[1] for around in sets for side in around.cell_bounds]
    np.testing.assert_allclose(found, bounds, atol=1e-11)
    assert _scale(SetLosses([tuple(sets)], Laplace(), Pufferfish(0.5))) == pytest.approx(
        scale, abs=2e-11
    )


@pytest.mark.parametrize(
    ("epsilon", "scale"), [(0.1, 3.38382944344), (0.3, 1.08338901496), (1.0, 0.0)]
)
def test_student_scales_at_other_budgets_are_those_known(epsilon, scale):
    share = error_share(0.95, [2, 2])
    sets = [set_around_counts([[0, 1]], counts, share) for counts in STUDENT]
    losses = SetLosses([tuple(sets)], Laplace(), Pufferfish(epsilon))
    assert _scale(losses) == pytest.approx(scale, abs=1e-10)


@pytest.mark.parametrize("factor", [0.0, 0.01, 0.7, 30.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_supremum_is_what_linear_programs_find(seed, factor):
    p, q = sets = _sets_of(seed, n_atoms=5)
    losses = SetLosses([tuple(sets)], Laplace(), PURE)
    found = np.zeros(2)
    for side, (one, other) in enumerate([(p, q), (q, p)]):
        for y in p.axes[0]:
            gaps = np.abs(p.axes[0] - y)
            kernel = np.exp(-gaps / factor) if factor > 0.0 else (gaps == 0.0).astype(float)
            most = -_program(one.tree, one.lower, one.upper, -kernel)
            least = max(_program(other.tree, other.lower, other.upper, kernel), 1e-300)
            found[side] = max(found[side], np.log(most) - np.log(least))
    if found.max() < 20.0:  # linear programs see no smaller masses
        np.testing.assert_allclose(losses.losses(factor)[0], found, rtol=1e-5)
    if factor > 0.0:
        level = Laplace(factor)
        filled = [_log_ratios(*pair, level, p.axes[0]).max() for pair in ((p, q), (q, p))]
        np.testing.assert_allclose(losses.losses(factor)[0], filled, rtol=1e-12)


def test_rows_are_treated_like_linear_programs():
    rng = np.random.default_rng(0)
    axes, noise = [[0.0, 1.0, 4.0], [0.0, 0.5]], Laplace((2.0, 0.5))
    p, q = (set_around_counts(axes, rng.multinomial(200, np.full(6, 1 / 6)), 0.01) for _ in "pq")
    cells = np.array(list(itertools.product(*axes)))
    worst = 0.0
    for y in cells:
        kernel = np.exp(-(np.abs(cells - y) / [2.0, 0.5]).sum(axis=1) / 1.3)
        most = -_program(p.tree, p.lower, p.upper, -kernel)
        worst = max(worst, np.log(most / _program(q.tree, q.lower, q.upper, kernel)))
    assert SetLosses([(p, q)], noise, PURE).losses(1.3)[0, 0] == pytest.approx(worst, rel=1e-9)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("factor", [0.05, 1.0, 20.0])
def test_the_pure_supremum_over_all_y_is_met_from_above(noise, factor):
    p, q = sets = _sets_of(11, n_atoms=5)
    level = noise.scaled(factor)
    upper = SetLosses([tuple(sets)], noise, PURE).losses(factor)[0]
    around = level.scale * np.concatenate([-np.geomspace(1e-4, 30, 60), np.geomspace(1e-4, 30, 60)])
    y = np.concatenate([np.linspace(-20.0, 20.0, 501), *(p.axes[0] + shift for shift in around)])
    grid = np.array([_log_ratios(*pair, level, y).max() for pair in ((p, q), (q, p))])
    assert np.all(upper >= grid * (1.0 - 1e-12))
    if not isinstance(noise, Gaussian):  # whose supremum is at infinity
        np.testing.assert_allclose(upper, grid, rtol=2e-3)


def test_gaussian_noise_has_a_pure_loss_where_the_outermost_atoms_have_a_least_mass():
    some, none = ([40, 20, 30], [10, 50, 30]), ([40, 20, 0], [10, 50, 30])
    for counts, finite in ((some, True), (none, False)):
        pair = tuple(set_around_counts([[0, 1, 2]], c, 0.01) for c in counts)
        losses = SetLosses([pair], Gaussian(0.7), PURE).losses(1.0)
        assert bool(np.isfinite(losses).all()) == finite
    pair = tuple(set_around_counts([[0, 1, 2]], c, 0.01) for c in some)
    least, most = (
        around.cell_bounds[side] for around, side in zip(pair[::-1], (0, 1), strict=True)
    )
    ends = np.log(most[[0, -1]] / least[[0, -1]])
    assert SetLosses([pair], Gaussian(0.7), PURE).losses(1.0)[0, 0] >= ends.max()


def _extremes(p, q, noise, points):
    """Return the log extremes at each point, filled in the order of the noise's density."""
    kernel = noise.log_density((points[:, None] - p.axes[0])[..., None])
    order = np.argsort(-kernel, axis=1, kind="stable")
    ranked = np.take_along_axis(kernel, order, axis=1)
    orders, places = np.unique(order, axis=0, return_inverse=True)
    logs = []
    for around, side in ((p, 0), (q, 1)):
        masses = chain_masses(around.tree, around.lower[None], around.upper[None], orders)[side][0]
        steps = np.diff(masses / ONE, axis=1, prepend=0.0)[places.ravel()]
        logs.append(logsumexp(ranked, b=steps, axis=1))
    return logs


def _log_ratios(p, q, noise, points):
    most, least = _extremes(p, q, noise, points)
    return most - least


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("notion", NOTIONS[1:])
@pytest.mark.parametrize("factor", [0.3, 2.0])
def test_integral_bounds_are_met_from_above(noise, notion, factor):
    p, q = sets = _sets_of(2, n_atoms=3)
    level = noise.scaled(factor)
    upper = SetLosses([tuple(sets)], noise, notion).losses(factor)[0, 0]
    atoms = p.axes[0]
    # the order of the atoms changes at middles between two of them
    middles = [0.5 * (a + b) for a, b in itertools.combinations(atoms, 2)]
    tails = level.scale * np.geomspace(1e-3, 40.0 if noise.steepest(1e9, 1e9) > 0.1 else 1e7, 60)
    cuts = np.unique(np.concatenate([atoms[0] - tails, atoms, middles, atoms[-1] + tails]))
    y, weights = _gauss_legendre(np.unique(np.concatenate([cuts, *_between(cuts, 20)])))
    most, least = _extremes(p, q, level, y)
    if isinstance(notion, RenyiPufferfish):
        order = notion.alpha - 1.0
        truth = logsumexp(most + order * (most - least), b=weights) / order
    else:
        kept = -np.expm1(np.minimum(notion.epsilon + least - most, 0.0))
        truth = float(np.exp(most) @ (weights * kept))
    cap = float(notion.shift_loss(level, [atoms[-1] - atoms[0]]))
    assert upper >= min(truth, cap) * (1.0 - 1e-6)
    assert upper <= min(truth * 1.001 + 3e-4, cap * (1.0 + 1e-9))


def _between(cuts, pieces):
    return [cuts[:-1] + np.diff(cuts) * piece / pieces for piece in range(1, pieces)]


def _gauss_legendre(edges):
    nodes, weights = np.polynomial.legendre.leggauss(6)
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (1.0 + nodes)).ravel(), (half * weights).ravel()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("notion", NOTIONS)
def test_no_distribution_in_the_sets_loses_more(noise, notion):
    sets = _sets_of(7, n_atoms=4, rows=300)
    rng = np.random.default_rng(1)
    upper = SetLosses([tuple(sets)], noise, notion).losses(1.0)[0, 0]
    y = np.linspace(-30.0, 40.0, 7001)
    kernel = noise.log_density((y[:, None] - sets[0].axes[0])[..., None])
    for _ in range(15):
        p, q = (_distribution_within(rng, around) for around in sets)
        one, other = (logsumexp(kernel, b=distribution, axis=1) for distribution in (p, q))
        if isinstance(notion, RenyiPufferfish):
            loss = np.log(np.trapezoid(np.exp(one + (notion.alpha - 1) * (one - other)), y))
        elif notion.delta > 0.0:
            kept = np.exp(one) - np.exp(notion.epsilon + other)
            loss = np.trapezoid(np.maximum(kept, 0.0), y)
        else:
            loss = (one - other).max()
        assert loss <= upper * (1.0 + 1e-6) + 1e-6


def _distribution_within(rng, around):
    """Return a vertex of the set, in the order of random costs."""
    chain = rng.permutation(around.n_cells)[None]
    most, _ = chain_masses(around.tree, around.lower[None], around.upper[None], chain)
    distribution = np.zeros(around.n_cells)
    distribution[around.tree.cells[chain[0]]] = np.diff(most[0, 0] / ONE, prepend=0.0)
    assert lies_in(around, distribution)
    return distribution


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(1, 5000))
def test_the_loss_never_grows_with_the_factor_nor_shrinks_with_the_level(seed, n_atoms, rows):
    factors = [0.0, 0.03, 0.5, 4.0, 1e3]
    tables = []
    for level in (0.5, 0.95, 0.999):
        pair = tuple(_sets_of(seed, n_atoms, rows, level))
        tables.append([SetLosses([pair], Laplace(), PURE).losses(f)[0] for f in factors])
    table = np.array(tables)
    with np.errstate(invalid="ignore"):
        assert not np.any(table[:, 1:] > table[:, :-1] * (1.0 + 1e-12))
        assert not np.any(table[:-1] > table[1:] * (1.0 + 1e-12))


def test_many_rows_and_a_level_near_zero_approach_the_plug_in_loss():
    counts = [[3 * 10**13, 5 * 10**13, 2 * 10**13], [2 * 10**13, 2 * 10**13, 6 * 10**13]]
    sets = tuple(set_around_counts([[0, 1, 5]], c, error_share(1e-9, [3, 3])) for c in counts)
    losses = SetLosses([sets], Laplace(), PURE).losses(2.0).max()
    plug_in = privacy_loss(
        *(Discrete.from_counts([0, 1, 5], c) for c in counts), Laplace(2.0), PURE
    ).upper
    assert plug_in < losses < plug_in + 1e-5


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("factor", [0.1, 3.0])
def test_the_loss_is_never_above_that_of_a_shift_across_the_alphabet(noise, notion, factor):
    atoms, counts = [0.0, 1.0, 4.0], [[1, 0, 2], [0, 3, 0]]
    sets = tuple(set_around_counts([atoms], c, 0.001) for c in counts)
    pair = PriorPair(*(Discrete.from_counts(atoms, c) for c in counts))
    shift = sensitivity([pair], noise, notion).losses(factor)
    assert np.all(SetLosses([sets], noise, notion).losses(factor) <= shift)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("notion", NOTIONS)
def test_one_possible_value_needs_no_noise(noise, notion):
    pair = tuple(set_around_counts([[3.0]], [c], 0.01) for c in (5, 9))
    losses = SetLosses([pair], noise, notion)
    assert losses.losses(0.0).max() == losses.losses(1.0).max() == 0.0


def test_a_secret_without_rows_may_have_any_distribution():
    pair = (
        set_around_counts([[0, 1, 2]], [0, 0, 0], 0.01),
        set_around_counts([[0, 1, 2]], [9, 9, 9], 0.01),
    )
    losses = SetLosses([pair], Laplace(), PURE)
    assert losses.losses(0.0).max() == np.inf
    both = SetLosses([(pair[0], pair[0])], Laplace(), PURE)
    assert both.losses(0.5).max() == pytest.approx(4.0)


@pytest.mark.parametrize("factor", [1e-12, 1e-3, 1.0, 1e12])
def test_losses_are_right_at_the_ends_of_the_floats(factor):
    sets = tuple(
        set_around_counts([[0.0, 1e-6, 1e6]], c, 0.001) for c in ([0, 5, 900], [800, 0, 1])
    )
    losses = SetLosses([sets], Laplace(), PURE)
    found = losses.losses(factor)[0]
    assert np.all(found <= 1e6 / factor * (1.0 + 1e-11))
    p, q = sets
    filled = [_log_ratios(*pair, Laplace(factor), p.axes[0]).max() for pair in ((p, q), (q, p))]
    np.testing.assert_allclose(found, filled, rtol=1e-12, atol=1e-12)


def test_pairs_that_share_sets_lose_what_each_loses_alone():
    first, second, third = _sets_of(1, n_sets=3)
    pairs = [(first, second), (third, first), (second, first)]
    together = SetLosses(pairs, Laplace(), PURE).losses(1.0)
    apart = [SetLosses([pair], Laplace(), PURE).losses(1.0)[0] for pair in pairs]
    np.testing.assert_allclose(together, apart, rtol=1e-12)
    np.testing.assert_allclose(together[2], together[0][::-1], rtol=1e-12)


def test_groups_of_cells_make_the_set_of_joint_rows_much_smaller():
    rng = np.random.default_rng(1)
    axes = [np.arange(16.0), np.arange(20.0)]
    share = error_share(0.95, [320, 320])
    sets = tuple(
        set_around_counts(axes, rng.multinomial(300, np.full(320, 1 / 320)), share) for _ in "pq"
    )
    losses = SetLosses([sets], Laplace((15.0, 19.0)), PURE)
    assert losses.losses(0.4 * losses.guess).max() < 1.0  # 0.74 with bounds on cells alone


def test_a_grid_of_rows_takes_its_counts_from_the_rows():
    prior = Discrete.from_counts([[0, 5], [1, 7], [0, 7]], [2, 3, 4])
    around = set_around(prior, 0.01, [[0, 1, 2], [5, 7]])
    low, high = around.cell_bounds
    assert [bool(x) for x in low > 0] == [True, True, False, True, False, False]
    assert lies_in(around, np.array([2, 4, 0, 3, 0, 0]) / 9)
    assert np.all(low <= high)


@pytest.mark.parametrize(("n_cells", "count"), [(2, 23), (20, 58), (200, 79)])
def test_the_rows_that_choosing_names_are_the_first_count_of_a_cell_that_suffices(n_cells, count):
    """The count is taken as Poisson, which is a little wider than binomial."""
    tree = Tree.over((n_cells,))
    tail = _errors(tree, error_share(0.95, [n_cells] * 2))[tree.n_inner :].min() / 2
    cases = [(count, 1.0, True), (count - 1, 1.0, False)]
    cases += [(round(4.5 * count), 0.5, True), (round(3.5 * count), 0.5, False)]
    with mpmath.workdps(20):
        for rows, epsilon, enough in cases:
            low = _root(lambda x, c=rows: mpmath.gammainc(c, 0, x, regularized=True) < tail, rows)
            high = _root(lambda x, c=rows: mpmath.gammainc(c + 1, x, regularized=True) > tail, rows)
            assert (mpmath.log(high / low) <= epsilon) == enough


def _root(below, size):
    low, high = mpmath.mpf(0), mpmath.mpf(4 * size + 60)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return high


def test_what_cannot_be_computed_is_said_and_refused():
    assert computable((4096,), 2, Laplace(), PURE)
    assert not computable((4097,), 2, Laplace(), PURE)
    assert not computable((10, 10), 2, Cauchy(), PURE)
    assert not computable((10, 10), 2, Laplace(), RenyiPufferfish(1.0, 2.0))
    around = set_around_counts([[0, 1], [0, 1]], [1, 2, 3, 4], 0.01)
    with pytest.raises(ValueError, match="`computable` allows"):
        SetLosses([(around, around)], Cauchy(), PURE).losses(1.0)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\)"):
        error_share(2.0, [20])
    with pytest.raises(ValueError, match=r"5\.0 is in none"):
        set_around(Discrete.from_counts([0, 5], [3, 3]), 0.01, [[0, 1]])
    sets = [set_around_counts([atoms], [1, 2], 0.01) for atoms in ([0, 1], [0, 2])]
    with pytest.raises(ValueError, match="the same grid"):
        SetLosses([tuple(sets)], Laplace(), PURE).losses(1.0)
