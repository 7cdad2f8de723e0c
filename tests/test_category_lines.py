"""Worst losses over confidence sets of categories and a number, against linear programs."""

from functools import cache

import numpy as np
import pytest
from scipy.optimize import linprog

from sklearn_puffer._noise import MixedNoise, Mixing
from sklearn_puffer._sets import ONE, SetLosses, error_share
from sklearn_puffer._sets.laminar import Tree, ordered_masses
from sklearn_puffer._sets.simultaneous_sets import set_around_counts
from sklearn_puffer.noise import Cauchy, Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish

ATOMS = np.array([0.0, 0.7, 2.0])
MIXING = Mixing.of_counts(range(2), [5, 11])
THETAS = np.array([0.6, 1.1])  # of the categories, and of the number
DENSITIES = {
    Laplace: lambda z: np.exp(-np.abs(z)) / 2.0,
    Gaussian: lambda z: np.exp(-(z**2) / 2.0) / np.sqrt(2.0 * np.pi),
    Cauchy: lambda z: 1.0 / (np.pi * (1.0 + z**2)),
}


POINTS = np.union1d(ATOMS, np.linspace(-7.0, 9.0, 49))
FAMILIES = [Gaussian, Cauchy]


@pytest.fixture(scope="module")
def sets():
    return the_sets()


@cache
def the_sets():
    share = error_share(0.95, [6, 6])
    counts = [[60, 30, 25, 20, 10, 5], [15, 20, 30, 10, 45, 30]]
    return [set_around_counts([[0, 1], ATOMS], each, share) for each in counts]


def sides(around):
    """Return the set as inequalities."""
    tree = around.tree
    nodes = np.zeros((len(around.lower), tree.n_cells))
    for node, (start, stop) in enumerate(zip(tree.start, tree.stop, strict=True)):
        nodes[node, tree.cells[start:stop]] = 1.0
    bounds = np.append(around.upper / ONE, -around.lower / ONE)
    equal = {"A_eq": np.ones((1, tree.n_cells)), "b_eq": [1.0]}
    return {"A_ub": np.vstack([nodes, -nodes]), "b_ub": bounds, **equal}


@cache
def log_extremes(family):
    """Return log largest and smallest densities, by linear programs: (2, set, category, point)."""
    sets, points = the_sets(), POINTS
    rho, theta = 1.0 - np.exp(-THETAS[0]), THETAS[1]
    found = np.zeros((2, 2, 2, len(points)))
    for of_set, around in enumerate(sets):
        inside = sides(around)
        for category, share in enumerate(MIXING.probabilities):
            kept = rho * share + (1.0 - rho) * (np.arange(2) == category)
            for place, y in enumerate(points):
                values = np.outer(kept, DENSITIES[family]((y - ATOMS) / theta) / theta).ravel()
                costs = values / values.max()
                most, least = -linprog(-costs, **inside).fun, linprog(costs, **inside).fun
                found[:, of_set, category, place] = np.log([most, least]) + np.log(values.max())
    return found


def losses(sets, family, notion):
    noise = MixedNoise(family(tuple(THETAS)), (MIXING, None))
    return SetLosses([tuple(sets)], noise, notion).losses(1.0)[0]


@pytest.mark.slow
@pytest.mark.parametrize("family", [*FAMILIES, Laplace])
def test_pure_losses_are_the_largest_ratio_of_the_extremes(sets, family):
    most, least = log_extremes(family)
    for way, loss in enumerate(losses(sets, family, Pufferfish(1.0))):
        seen = (most[way] - least[1 - way]).max()
        assert seen <= loss + 1e-9
        assert loss <= 1.02 * seen


def test_several_pairs_lose_together_what_each_loses_alone(sets):
    third = set_around_counts([[0, 1], ATOMS], [30, 5, 60, 10, 20, 40], error_share(0.95, [6, 6]))
    first, second = sets
    pairs = [(first, second), (third, first), (second, third)]
    noise = MixedNoise(Cauchy(tuple(THETAS)), (MIXING, None))
    together = SetLosses(pairs, noise, Pufferfish(1.0)).losses(1.0)
    alone = [SetLosses([pair], noise, Pufferfish(1.0)).losses(1.0)[0] for pair in pairs]
    assert together == pytest.approx(np.array(alone), rel=1e-12)
    assert len(np.unique(together)) == 6


@pytest.mark.slow
@pytest.mark.parametrize("family", [Gaussian, Laplace])
def test_other_losses_are_integrals_of_the_extremes_over_all_categories(sets, family):
    logs, points = log_extremes(family), POINTS
    for way, other in ((0, 1), (1, 0)):
        most, least = np.exp(logs[0, way]), np.exp(logs[1, other])
        excess = np.maximum(most - np.exp(0.3) * least, 0.0)
        powers = most**2 / least
        expected = {
            Pufferfish(0.3, 0.01): np.trapezoid(excess, points).sum(),
            RenyiPufferfish(1.0, 2.0): np.log(np.trapezoid(powers, points).sum()),
        }
        for notion, loss in expected.items():
            assert losses(sets, family, notion)[way] == pytest.approx(loss, rel=2e-2)


@pytest.mark.slow
@pytest.mark.parametrize("notion", [Pufferfish(1.0), Pufferfish(0.3, 0.01), RenyiPufferfish(1, 2)])
@pytest.mark.parametrize("family", FAMILIES)
def test_more_noise_never_loses_more_and_none_loses_most(sets, family, notion):
    noise = MixedNoise(family(tuple(THETAS)), (MIXING, None))
    bound = SetLosses([tuple(sets)], noise, notion)
    found = np.array([bound.losses(factor)[0] for factor in (0.0, 1e-3, 0.4, 3.0)])
    assert (np.diff(found, axis=0) <= 1e-3 * found[:-1]).all()
    assert (found <= bound.losses(5e-324)[0]).all()


def test_cells_come_in_any_order_and_their_masses_are_those_of_programs(sets):
    rng = np.random.default_rng(0)
    costs = rng.random((4, 6))
    bounds = (sets[0].lower[None], sets[0].upper[None])
    order, most, least = ordered_masses(sets[0].tree, costs, *bounds)
    inside = sides(sets[0])
    for row, of_row in enumerate(order):
        assert (np.diff(costs[row, of_row]) >= 0.0).all()
        for k in range(6):
            held = np.isin(np.arange(6), of_row[: k + 1]).astype(float)
            assert most[0, row, k] / ONE == pytest.approx(-linprog(-held, **inside).fun, abs=1e-9)
            assert least[0, row, k] / ONE == pytest.approx(linprog(held, **inside).fun, abs=1e-9)
    one = ordered_masses(Tree.over((1,)), costs[:, :1], *(np.array([[ONE]]),) * 2)
    assert (one[1] == ONE).all()
