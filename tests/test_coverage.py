"""Coverage of confidence sets by simulation: how often the true loss exceeds the budget.

Datasets are drawn from known distributions on a declared alphabet. The scale is calibrated over the
sets around the counts, and the loss of the *true* distributions at that scale is held against the
budget.
"""

import numpy as np
import pytest
from brute_force import lies_in

from sklearn_puffer._sets import SetLosses, error_share
from sklearn_puffer._sets.simultaneous_sets import set_around_counts
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish

ATOMS = np.array([0.0, 1.0, 3.0, 4.0, 7.0])
LAWS = np.array([[0.35, 0.25, 0.2, 0.15, 0.05], [0.15, 0.2, 0.2, 0.25, 0.2]])
ROWS = (150, 90)
BUDGET = Pufferfish(0.5)
LEVEL = 0.95
GAPS = np.abs(ATOMS[:, None] - ATOMS)


def _loss(p, q, scale):
    """Return the loss of two distributions, both ways: the largest log ratio at an atom."""
    with np.errstate(divide="ignore", invalid="ignore"):
        kernel = np.exp(-GAPS / scale) if scale > 0.0 else np.eye(len(ATOMS))
        return float(np.nanmax(np.abs(np.log(kernel @ p) - np.log(kernel @ q))))


def _smallest(loss):
    """Return the upper end of a bracket of the smallest scale that keeps the budget."""
    low, high = 0.0, (ATOMS[-1] - ATOMS[0]) / BUDGET.epsilon
    if loss(0.0) <= BUDGET.epsilon:
        return 0.0
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if loss(middle) <= BUDGET.epsilon else (middle, high)
    return high


def _violations(n_datasets, seed):
    """Return the shares of datasets whose scale is too small, and the share of sets that miss."""
    rng = np.random.default_rng(seed)
    share = error_share(LEVEL, [len(ATOMS)] * 2)
    over_sets = plugged_in = missed = 0
    for _ in range(n_datasets):
        counts = [
            rng.multinomial(rows, distribution)
            for rows, distribution in zip(ROWS, LAWS, strict=True)
        ]
        sets = tuple(set_around_counts([ATOMS], count, share) for count in counts)
        losses = SetLosses([sets], Laplace(), BUDGET)
        scale = _smallest(lambda factor, bound=losses: float(bound.losses(factor).max()))
        over_sets += _loss(*LAWS, scale) > BUDGET.epsilon
        plugs = [count / count.sum() for count in counts]
        scale = _smallest(lambda factor, distributions=plugs: _loss(*distributions, factor))
        plugged_in += _loss(*LAWS, scale) > BUDGET.epsilon
        missed += not all(
            lies_in(around, distribution) for around, distribution in zip(sets, LAWS, strict=True)
        )
    return np.array([over_sets, plugged_in, missed]) / n_datasets


@pytest.mark.slow
def test_the_true_loss_exceeds_the_budget_in_at_most_five_of_a_hundred_datasets():
    over_sets, plugged_in, missed = _violations(600, seed=2)
    assert over_sets <= missed <= 0.05
    assert plugged_in >= 0.3  # counts taken for the distribution itself


@pytest.mark.slow
@pytest.mark.parametrize("n_cells", [2, 5, 16])
def test_sets_hold_the_true_distributions_as_often_as_they_say(n_cells):
    rng = np.random.default_rng(n_cells)
    distribution = rng.dirichlet(np.ones(n_cells))
    held = dict.fromkeys((0.95, 0.3), 0)
    for _ in range(600):
        counts = rng.multinomial(400, distribution)
        for level in held:
            around = set_around_counts([np.arange(n_cells)], counts, error_share(level, [n_cells]))
            held[level] += lies_in(around, distribution)
    # 3.5 standard deviations of the share of 600 trials, and a control that can fail
    assert held[0.95] / 600 >= 0.95 - 3.5 * np.sqrt(0.95 * 0.05 / 600)
    assert 0.3 - 0.07 <= held[0.3] / 600 < 0.95
