"""The settings of an estimator are made once, from its parameters, and nobody replaces them."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishMicroaggregator, PufferfishNoiser, PufferfishSwap
from sklearn_puffer._noiser.settings import Knowledge
from sklearn_puffer._rows import Columns, Guarantee

VALUES = (Guarantee, Columns, Knowledge)


def table():
    rng = np.random.default_rng(5)
    rows = {"sex": ["f", "m"] * 60, "home": np.repeat(np.arange(60), 2)}
    rows |= {name: rng.integers(0, 3, 120) for name in ("cars", "rooms")}
    return pd.DataFrame(rows)


def noiser(**settings):
    given = {"epsilon": 4.0, "sensitive": "sex", "public": ["cars", "rooms"]}
    return PufferfishNoiser(**(given | settings))


ESTIMATORS = {
    "noise": noiser(),
    "all priors that the rows leave possible": noiser(adversaries="confidence"),
    "side information": noiser(known="cars"),
    "groups": noiser(sensitive="rooms", public="cars", groups="home", max_group="count"),
    "a strategy": noiser(strategy="sensitivity", weights="optimal", n_bins=2),
    "a Gaussian": noiser(prior="gaussian", public="cars", noise="gaussian", delta=1e-3),
    "rows exchanged": PufferfishSwap(epsilon=2.0, sensitive="sex", public=["cars", "rooms"]),
    "typical rows": PufferfishMicroaggregator(
        epsilon=2.0, sensitive="sex", public=["cars", "rooms"], n_prototypes=3, random_state=0
    ),
}


@pytest.fixture
def made(monkeypatch):
    """Collect all settings that are made, by copies and by `dataclasses.replace` as well."""
    found = {kind: [] for kind in VALUES}
    for kind in VALUES:

        def noted(self, *values, kind=kind, init=kind.__init__, **named):
            init(self, *values, **named)
            found[kind].append(self)

        monkeypatch.setattr(kind, "__init__", noted)
    return found


@pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_settings_are_made_once_in_a_fit_and_replaced_by_nobody(made, name):
    X = table()
    if name == "groups":
        X["rooms"] = X["home"] % 2
    ESTIMATORS[name].fit(X)
    assert len(made[Guarantee]) == 1
    assert len(made[Columns]) <= 1
    assert len(made[Knowledge]) == isinstance(ESTIMATORS[name], PufferfishNoiser)


@pytest.mark.parametrize("kind", VALUES)
def test_settings_do_not_change_once_they_are_made(kind):
    assert kind.__dataclass_params__.frozen
    value = kind.of(noiser().get_params())
    field = dataclasses.fields(kind)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, None)


def test_a_replaced_setting_would_be_noticed(made):
    value = Guarantee.of(noiser().get_params())
    dataclasses.replace(value, releases=2)
    assert len(made[Guarantee]) == 2
