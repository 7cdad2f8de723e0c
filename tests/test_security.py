"""What SECURITY.md says is so."""

import inspect
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sklearn_puffer import (
    Ledger,
    PersonLedger,
    PufferfishNoiser,
    PufferfishSGDClassifier,
    PufferfishSGDRegressor,
    PufferfishSum,
    PufferfishSwap,
)
from sklearn_puffer._noise import grid_step, sampler
from sklearn_puffer._noise.sampler import BATCH
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_threat_model_is_linked(page):
    assert "](SECURITY.md)" in (ROOT / page).read_text(encoding="utf-8")


def test_every_parameter_that_is_named_exists():
    known = {
        name
        for call in (
            PufferfishNoiser,
            PufferfishNoiser.transform,
            PufferfishSum,
            PufferfishSGDRegressor,
            PufferfishSGDClassifier,
            Ledger.create,
            Ledger.spend,
            PersonLedger.create,
            PufferfishSwap,
        )
        for name in inspect.signature(call).parameters
    }
    named = set(re.findall(r"`(\w+)=", PAGE))
    assert len(named) > 8
    assert named <= known


def beyond(noise, distribution):
    """Return where the sampler's tables end, in scales, and the mass beyond."""
    tables = sampler(noise, grid_step(1.0))._distribution
    end = (int(tables.last) << int(tables.cell_bits)) * abs(float(tables.rate))
    return end, 2.0 * distribution.sf(end)


def test_the_draws_whose_time_tells_are_as_rare_as_it_says():
    assert f"a batch of {BATCH:,}" in PAGE
    end, mass = beyond(Laplace(1.0), stats.laplace())
    assert (math.floor(end), f"{mass:.0e}") == (12, "6e-06")
    end, mass = beyond(Gaussian(1.0), stats.norm())
    assert (f"{end:.1f}", f"{mass:.0e}") == ("5.5", "4e-08")
    end, mass = beyond(GeneralizedCauchy(1.0, 4.0), stats.t(3.0, scale=1.0 / math.sqrt(3.0)))
    assert (f"{end:.0f}", f"{mass:.0e}") == ("16", "1e-04")
    _, mass = beyond(Cauchy(1.0), stats.cauchy())
    assert (1.0 - mass) ** BATCH < 1e-4


@pytest.fixture(scope="module")
def fitted():
    table = pd.DataFrame({"loan": ["no", "no", "yes"] * 20, "cars": [0, 1, 2, 1, 0, 3] * 10})
    return PufferfishNoiser(epsilon=0.5, sensitive="loan", unknown="error").fit(table)


@pytest.mark.parametrize("value", [7, None, math.inf, "many", 0.5, 1e300])
def test_the_refusals_that_depend_on_a_row_are_those_it_lists(fitted, value):
    with pytest.raises((ValueError, TypeError), match="cars"):
        fitted.transform(pd.DataFrame({"cars": [1, value]}))


def test_a_noiser_stores_no_generator_and_no_noise(fitted):
    before = set(vars(fitted))
    fitted.transform(pd.DataFrame({"cars": [1, 2]}))
    assert set(vars(fitted)) == before
    assert not any(isinstance(v, np.random.Generator) for v in vars(fitted).values())
