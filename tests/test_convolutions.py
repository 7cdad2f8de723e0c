"""Sums of decaying masses over grids of any size, beside one long sum after the other."""

import numpy as np
import pytest

from sklearn_puffer._losses.convolution import PriorGrid
from sklearn_puffer._losses.laplace_pair import LaplacePair


def decayed(atoms, masses, theta):
    """Return the log of sum_x m(x) e^(-|y - x| / theta) at each atom, in extended precision."""
    gaps = np.diff(atoms).astype(np.longdouble) / np.longdouble(theta)
    logs = []
    for row in masses.astype(np.longdouble):
        with np.errstate(divide="ignore"):
            own = np.log(row)
        left, right = own.copy(), own.copy()
        for k in range(1, len(atoms)):
            left[k] = np.logaddexp(own[k], left[k - 1] - gaps[k - 1])
        for k in range(len(atoms) - 2, -1, -1):
            right[k] = np.logaddexp(own[k], right[k + 1] - gaps[k])
        before = np.append(-np.inf, left[:-1] - gaps)
        logs.append(np.logaddexp(before, right))
    return np.array(logs), left, right


def made(rng, size, spread):
    atoms = np.cumsum(rng.exponential(size=size) * 10.0 ** rng.uniform(-spread, spread, size))
    masses = rng.random((2, size)) * (rng.random((2, size)) > 0.2)
    masses[:, 0] += 0.01
    return atoms, masses / masses.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("size", [1, 2, 7, 65, 300, 1500])
@pytest.mark.parametrize("spread", [0.0, 2.0])
def test_sums_over_one_axis_are_those_of_single_steps(size, spread):
    rng = np.random.default_rng(size)
    atoms, masses = made(rng, size, spread)
    grid = PriorGrid([atoms], masses)
    for theta in (0.3, 20.0):
        exact = decayed(atoms, masses, theta)[0]
        scale = np.array([theta])
        logs = grid.log_sums(scale)
        relative, more = grid.log_rounding
        error = relative * np.abs(logs) + more
        assert (np.abs(logs - exact) <= error).all()
        assert error.max() <= 1e-8
        plain = grid.sums(scale)
        if plain is None:
            assert exact.min() < np.log(np.finfo(float).tiny) + 1.0
            continue
        error = grid.rounding(float(np.log(plain.min())))
        off = np.abs(np.log(plain.astype(np.longdouble)) - exact).max()
        assert off <= error <= 1e-9
        assert off <= 1e-12


@pytest.mark.parametrize("sizes", [(3, 40), (40, 3), (5, 200), (2, 3, 4), (1, 6)])
def test_sums_over_several_axes_are_taken_one_axis_at_a_time(sizes):
    rng = np.random.default_rng(0)
    axes = [np.cumsum(rng.exponential(size=size)) for size in sizes]
    masses = rng.random((2, int(np.prod(sizes))))
    masses /= masses.sum(axis=1, keepdims=True)
    theta = np.array([0.7, 2.0, 5.0])[: len(sizes)]
    exact = masses.reshape(2, *sizes)
    for k, atoms in enumerate(axes):
        kernel = np.exp(-np.abs(atoms[:, None] - atoms) / theta[k])
        exact = np.moveaxis(np.moveaxis(exact, k + 1, -1) @ kernel, -1, k + 1)
    grid = PriorGrid(axes, masses)
    for found in (grid.sums(theta), np.exp(grid.log_sums(theta))):
        assert found == pytest.approx(exact.reshape(2, -1), rel=1e-12)
    assert grid.sums(theta, floor=2.0) is None


def test_values_that_are_kept_or_drawn_anew_have_the_masses_of_their_kernel():
    rng = np.random.default_rng(1)
    atoms, shares = np.cumsum(rng.exponential(size=5)), np.array([0.1, 0.2, 0.3, 0.4])
    masses = rng.random((2, 20))
    masses /= masses.sum(axis=1, keepdims=True)
    theta = np.array([1.3, 0.6])
    kernels = [
        np.exp(-np.abs(atoms[:, None] - atoms) / theta[0]),
        np.exp(-theta[1]) * np.eye(4) + (1.0 - np.exp(-theta[1])) * shares,
    ]
    for order in (1, -1):
        axes = [atoms, np.arange(4.0)][::order]
        table = masses.reshape(2, 5, 4)
        exact = np.einsum("pxs,xy,st->pyt", table, *kernels)
        if order == -1:
            table, exact = table.swapaxes(1, 2), exact.swapaxes(1, 2)
        grid = PriorGrid(axes, table.reshape(2, -1), shares=[None, shares][::order])
        plain, logs = grid.sums(theta[::order]), grid.log_sums(theta[::order])
        for found in (plain, np.exp(logs)):
            assert found == pytest.approx(exact.reshape(2, -1), rel=1e-13)


@pytest.mark.parametrize("size", [2, 65, 300])
@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_densities_between_many_values_are_those_of_single_steps(size, spread):
    atoms, masses = made(np.random.default_rng(size), size, spread)
    theta = 0.5
    pair = LaplacePair(atoms, PriorGrid([atoms], masses).log_masses, theta)
    middles = atoms[:-1] + 0.25 * np.diff(atoms)
    at = pair.densities(middles, middles)
    for k in (0, 1):
        _, left, right = decayed(atoms, masses[[k]], theta)
        exact = np.logaddexp(
            left[:-1] - (middles - atoms[:-1]) / theta, right[1:] - (atoms[1:] - middles) / theta
        )
        off = np.abs(at.value[k] - exact)
        assert (off <= at.error[k]).all()
        assert (at.error[k] <= 1e-10 * (1.0 + np.abs(exact))).all()
