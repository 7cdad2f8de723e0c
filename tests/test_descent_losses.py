"""Losses of a noisy descent for given numbers, beside recursions of two runs record by record."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sklearn_puffer._descent.guarantee import Dependence, Iteration
from sklearn_puffer.iteration import iteration_loss

ALPHA = 3.0


def descent(**changes):
    numbers = {
        "n_records": 11,
        "batch_size": 3,
        "n_weights": 4,
        "step": 0.2,
        "factor": 0.9,
        "gradient_bound": 1.5,
        "diameter": 1e6,
        "reach": 2.0,
        "rounding": 1e-13,
        "at_every_step": False,
    }
    return Iteration(**{**numbers, **changes})


def moves(iteration, dependence):
    """Return how far a step with one record alone moves with the secret one, and with another."""
    full = 2.0 * iteration.gradient_bound
    smooth = dependence.sensitivity * dependence.distance
    other = min(full, smooth * dependence.correlation) if dependence.correlation else 0.0
    return iteration.step * min(full, smooth), iteration.step * other


def shifts(iteration, dependence, record):
    """Return how far each step of a batch moves, in the order of records."""
    secret, other = moves(iteration, dependence)
    each = np.full(iteration.n_records, other)
    each[record] = secret
    starts = range(0, iteration.n_records, iteration.batch_size)
    return np.array([each[k : k + iteration.batch_size].sum() for k in starts]) / (
        iteration.batch_size
    )


def distances(iteration, s):
    z = [0.0]
    for shift in s:
        z.append(iteration.factor * min(z[-1], iteration.diameter) + shift)
    return np.array(z[1:])


DEPENDENCES = [
    Dependence(0.0, 1.0, 0.8),
    Dependence(0.4, 1.0, 0.8),
    Dependence(0.4, math.inf, 0.8),
    Dependence(0.3, 0.5, 1.0),
]
dependences = pytest.mark.parametrize("dependence", DEPENDENCES, ids=range(4))


@dependences
@pytest.mark.parametrize("averaged", [1, 3])
@pytest.mark.parametrize("factor", [1.0, 0.7])
@pytest.mark.parametrize("n_records", [11, 12, 3])
def test_noise_at_the_end_hides_how_far_two_runs_are_apart(dependence, averaged, factor, n_records):
    if n_records == 3:
        averaged = 1
    iteration = descent(factor=factor, n_records=n_records, n_averaged=averaged)
    losses = []
    for record in range(n_records):
        z = distances(iteration, shifts(iteration, dependence, record))
        losses.append(ALPHA * float(np.mean(z[-averaged:])) ** 2 / 2.0)
    found = iteration.unit_loss(dependence, ALPHA)
    assert max(losses) <= found
    if averaged == 1 or n_records == 12:
        assert found <= max(losses) * (1.0 + 1e-10)
    else:  # a last step of fewer records counts as a full one where all move alike
        assert found <= max(losses) * 1.5


@dependences
@pytest.mark.parametrize("averaged", [1, 2])
def test_a_ball_keeps_two_runs_together(dependence, averaged):
    iteration = descent(diameter=0.15, factor=1.0, n_averaged=averaged)
    found = iteration.unit_loss(dependence, ALPHA)
    for record in range(11):
        z = distances(iteration, shifts(iteration, dependence, record))
        assert ALPHA * float(np.mean(z[-averaged:])) ** 2 / 2.0 <= found
    free = descent(factor=1.0, n_averaged=averaged).unit_loss(dependence, ALPHA)
    assert found <= free * (1.0 + 1e-10)


@dependences
def test_noise_at_every_step_loses_what_the_steps_say(dependence):
    iteration = descent(at_every_step=True)
    losses = []
    for record in range(11):
        s = shifts(iteration, dependence, record)
        s = s[np.flatnonzero(s)[0] :]
        losses.append(iteration_loss(s, 1.0, ALPHA, contractions=iteration.factor))
    found = iteration.unit_loss(dependence, ALPHA)
    assert max(losses) <= found <= max(losses) * (1.0 + 1e-10)
    held = replace(iteration, diameter=0.1).unit_loss(dependence, ALPHA)
    assert held <= found


@pytest.mark.parametrize("at_every_step", [True, False])
@pytest.mark.parametrize("epsilon", [0.01, 3.0])
def test_the_smallest_noise_has_the_budget_for_its_loss_with_what_rounding_adds(
    at_every_step, epsilon
):
    iteration = descent(at_every_step=at_every_step, rounding=1e-3)
    assert iteration.n_steps == 4
    assert iteration.n_draws == (16 if at_every_step else 4)
    sigma = iteration.smallest_sigma(0.7, ALPHA, epsilon)
    apart = math.sqrt(2.0 * 0.7 / ALPHA) + 2.0 * 4 * 1e-3
    assert sigma == pytest.approx(apart * math.sqrt(ALPHA / 2.0 / epsilon), rel=1e-9)
    assert iteration.loss(0.7, sigma, ALPHA) <= epsilon
    assert iteration.loss(0.7, sigma * (1.0 - 1e-9), ALPHA) > epsilon
    steps = 4 if at_every_step else 1
    coarse = replace(iteration, rounding=0.0, reach=2.0**60)
    assert coarse.error(1.0) == pytest.approx(steps * math.sqrt(4), rel=1e-9)
    assert iteration.loss(0.0, sigma, ALPHA) == 0.0
    assert iteration.smallest_sigma(0.0, ALPHA, epsilon) == 0.0
