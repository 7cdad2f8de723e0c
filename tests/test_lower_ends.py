"""Lower ends of losses of several columns together: those of the column that tells most."""

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.noise import Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import GaussianMixture

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning")

TABLE = pd.DataFrame({"s": [0, 1] * 50, "x": np.arange(100) % 7, "y": np.arange(100) % 5}) * 1.0
TELLING = {"a mean": [(0.0, 1.0), (1.5, 1.0)], "a variance": [(0.0, 1.0), (0.0, 3.0)]}
SILENT = [(0.1, 1.0), (0.0, 1.0)]
PROMISES = {
    "gaussian": (Gaussian, {"delta": 1e-2}, Pufferfish(1.0, 1e-2)),
    "laplace": (Laplace, {}, Pufferfish(1.0)),
}


def mixture(means, deviations):
    """Return two components about some means."""
    rows = np.array([means, means]) + np.array([[-0.3], [0.3]])
    return GaussianMixture([0.5, 0.5], rows, [np.diag(np.square(deviations))] * 2)


def marginal(mean, deviation):
    return GaussianMixture([0.5, 0.5], [mean - 0.3, mean + 0.3], [deviation] * 2)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["x", "y"])
@pytest.mark.parametrize("noise", PROMISES)
@pytest.mark.parametrize("telling", ["a mean", pytest.param("a variance", marks=pytest.mark.slow)])
def test_the_loss_of_mixtures_is_at_least_that_of_the_column_that_tells_most(telling, noise, first):
    family, budget, notion = PROMISES[noise]
    of = {"x": SILENT, "y": SILENT, first: TELLING[telling]}
    priors = {
        float(secret): mixture(*zip(of["x"][secret], of["y"][secret], strict=True))
        for secret in (0, 1)
    }
    noiser = PufferfishNoiser(
        1.0, sensitive="s", public=["x", "y"], prior=priors, noise=noise, **budget
    ).fit(TABLE)
    p, q = (marginal(*of[first][secret]) for secret in (0, 1))
    scale = family(noiser.theta_[first])
    ways = [privacy_loss(*pair, scale, notion).lower for pair in ((p, q), (q, p))]
    table = noiser.certificate_.table
    assert (table["lower"] <= table["upper"]).all()
    assert table["lower"].max() == pytest.approx(max(ways), rel=1e-7)
    assert 0.5 * notion.budget < max(ways) <= notion.budget


def test_numbers_that_a_continuous_column_does_not_take_are_named_in_all_columns_at_once():
    table = TABLE.astype({"x": int, "y": int}).assign(x=lambda X: X["x"] + 5 * (X["s"] > 0))
    noiser = PufferfishNoiser(sensitive="s", prior="gaussian", delta=1e-2).fit(table)
    new = table.astype(float).copy()
    new.loc[[4, 7], "x"], new.loc[9, "y"] = [2.5, 3.25], np.inf
    with pytest.raises(ValueError, match="2 faults") as fault:
        noiser.transform(new)
    assert "'x' contains 2.5 and held whole numbers" in str(fault.value)
    assert "'y' contains infinity" in str(fault.value)
    with pytest.raises(ValueError, match=r"'x' contains a value 1e\+300 away from 0"):
        noiser.transform(table.astype({"x": float}).replace({"x": {3.0: -1e300}}))
