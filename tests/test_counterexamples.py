"""Where the papers, or common practice, break their guarantee: rounding, redrawing, Algorithm 1.

Each instance is a figure of the audit that the design rests on, with what is done here instead.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._noise import sampler, seeded_entropy, to_indices
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.bounds import Relaxed
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete


def point(value: float) -> Discrete:
    return Discrete([value], [1.0])


def loss(p: Discrete, q: Discrete, theta: float) -> float:
    return privacy_loss(p, q, Laplace(theta), Pufferfish(1.0)).upper


# distances and masses of one column of a coupling, the published scale, and the smallest sound one
ALGORITHM_1 = [
    ([0, 1], [0.9, 0.1], 1.0, 0.344770865706, 0.344770865706),
    ([0, 2], [0.5, 0.5], 1.0, 1.09389527011, 1.34238987793),
    ([0, 2], [0.9, 0.1], 1.0, 0.457359003168, 0.689541731412),
    ([0, 3], [0.9, 0.1], 1.0, 0.486401105217, 1.03431259712),
    ([0, 1, 2], [0.5, 0.3, 0.2], 1.0, 1.14440221092, 1.02067165756),
    ([0, 1, 2], [0.9, 0.05, 0.05], 0.5, 0.905179710402, 0.816780527488),
    ([0, 1, 3], [0.8, 0.1, 0.1], 0.5, 1.92669032266, 1.58843521988),
    ([0, 5], [0.9, 0.1], 0.5, 0.799528780265, 2.48361238904),
    ([0, 8], [0.9, 0.1], 1.0, 0.513185701633, 2.75816692565),
    ([0, 1, 8], [0.9, 0.05, 0.05], 1.0, 2.75816692565, 2.25363395945),
]


@pytest.mark.parametrize(("atoms", "masses", "epsilon", "printed", "smallest"), ALGORITHM_1)
def test_the_root_is_found_where_algorithm_1_as_printed_ends_elsewhere(
    atoms, masses, epsilon, printed, smallest
):
    pair = Discrete(atoms, masses), point(0.0)  # one column of the plan, all mass going to 0
    scale = calibrate([pair], Pufferfish(epsilon), strategy=Relaxed("eq11")).scale
    assert scale == pytest.approx(smallest, rel=1e-9)
    column = np.dot(masses, np.exp(np.array(atoms) / printed))
    promise_kept = np.log(column) <= epsilon * (1 + 1e-9)
    assert promise_kept == (printed >= smallest * (1 - 1e-9))


def test_rounding_off_the_grid_multiplies_the_loss_by_five_and_is_not_done_here():
    p, q, theta = point(0.4), point(0.6), 0.2
    assert loss(p, q, theta) == pytest.approx(1.0, abs=1e-12)
    on_whole_numbers = [point(float(to_indices(x.atoms, 1.0)[0])) for x in (p, q)]
    assert loss(*on_whole_numbers, theta) == pytest.approx(5.0, abs=1e-12)

    X = pd.DataFrame({"s": [0, 1] * 10, "x": [0.4, 0.6] * 10})
    noiser = PufferfishNoiser(1.0, sensitive="s").fit(X)
    grid = noiser.certificate_.columns[0].grid
    released = [point(float(to_indices(x.atoms, grid)[0]) * grid) for x in (p, q)]
    assert loss(*released, float(noiser.theta_["x"])) <= 1.0
    assert noiser.theta_["x"] == pytest.approx(theta, rel=1e-9)


def test_rounding_half_to_even_doubles_the_loss_and_half_up_does_not():
    halves = np.array([0.5, 1.5])
    to_even = [point(x) for x in np.rint(halves)]
    half_up = [point(float(k)) for k in to_indices(halves, 1.0)]
    assert loss(*to_even, 1.0) == pytest.approx(2.0, abs=1e-12)
    assert loss(*half_up, 1.0) == pytest.approx(1.0, abs=1e-12)


def test_redrawing_until_in_range_costs_more_than_clipping():
    low, high = 0.0, 2.0
    inside = [
        0.5 * (2.0 - np.exp(-(x - low)) - np.exp(-(high - x))) for x in (0.0, 1.0)
    ]  # the mass of a Laplace distribution of scale 1 around x within the range
    redrawn = 1.0 + np.log(inside[1] / inside[0])  # at the lower end of the range
    assert redrawn == pytest.approx(1.379885, abs=1e-6)
    beyond = [0.5 * np.exp(-(x - low)) for x in (0.0, 1.0)]
    assert np.log(beyond[0] / beyond[1]) == pytest.approx(1.0)  # what clipping piles up there


def test_a_release_is_clipped_to_its_type_and_never_redrawn():
    X = pd.DataFrame({"s": [0, 1] * 5000, "x": np.array([0, 1] * 5000, dtype=np.uint8)})
    released = PufferfishNoiser(1.0, sensitive="s").fit_transform(X)["x"]
    at_zero = (released[X["x"] == 0] == 0).mean()
    # whatever falls below 1/2, all negative noise included: 1/2 + (1 - e^-1/2)/2
    assert at_zero == pytest.approx(0.697, abs=0.03)
    steps = np.empty(20_000, dtype=np.int64)
    sampler(Laplace(1.0), 1.0, seeded_entropy(0), nearest=True).fill(steps)
    assert (steps <= 0).mean() == pytest.approx(0.697, abs=0.02)


def test_bits_that_agree_column_by_column_differ_as_a_row():
    bits = np.array([0, 1] * 50)
    X = pd.DataFrame({"s": np.repeat([0, 1], 50), "x1": bits, "x2": bits ^ np.repeat([0, 1], 50)})
    joint = PufferfishNoiser(0.5, sensitive="s").fit(X)
    theta = joint.theta_["x1"]
    assert np.log(np.cosh(1.0 / theta)) == pytest.approx(0.5, rel=1e-9)
    with pytest.warns(UserWarning, match="'x1', 'x2' need no noise"):
        apart = PufferfishNoiser(0.5, sensitive="s", dependence="independent").fit(X)
    assert (apart.theta_ == 0.0).all()
    assert any("as independent given the secret" in text for text in apart.certificate_.assumptions)
