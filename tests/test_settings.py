"""The settings of an estimator are made once, from its parameters, and nobody replaces them."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishMicroaggregator, PufferfishNoiser, PufferfishSwap
from sklearn_puffer._noiser.settings import Knowledge
from sklearn_puffer._rows import Columns, Guarantee, RowGroups, check_units
from sklearn_puffer.notions import MOST_ALPHA, Pufferfish

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
    "a strategy": noiser(strategy="sensitivity", weights={"cars": 1.0, "rooms": 2.0}, n_bins=2),
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


def groups(most):
    return Columns.of({"groups": "home", "max_group": most, "within_group": "any"})


def guarantee(**given):
    return Guarantee.of({"epsilon": 1.0} | given)


# what is read, the last number that it takes, and the first that it does not
LIMITS = {
    "epsilon": (lambda x: guarantee(epsilon=x), 1e-8, 0.999e-8),
    "delta": (lambda x: guarantee(delta=x), 1e-300, 0.999e-300),
    "alpha": (lambda x: guarantee(alpha=x), MOST_ALPHA, np.nextafter(MOST_ALPHA, np.inf)),
    "an alpha of 1": (lambda x: guarantee(alpha=x), np.nextafter(1.0, 2.0), 1.0),
    "releases": (lambda x: guarantee(releases=x), 10**9, 10**9 + 1),
    "no release": (lambda x: guarantee(releases=x), 1, 0),
    "n_bins": (lambda x: Columns.of({"n_bins": x}), 10**6, 10**6 + 1),
    "one bin": (lambda x: Columns.of({"n_bins": {"cars": x}}), 2, 1),
    "max_group": (groups, 256, 257),
    "no row": (groups, 1, 0),
    "large units": (lambda x: check_units({"cars": x}), 1e100, 1.001e100),
    "small units": (lambda x: check_units({"cars": x}), 1e-100, 0.999e-100),
}


@pytest.mark.parametrize("what", LIMITS)
def test_numbers_are_taken_up_to_their_limit_and_not_beyond(what):
    read, last, beyond = LIMITS[what]
    assert read(last) is not None
    with pytest.raises(ValueError, match="must"):
        read(beyond)


def test_what_an_estimator_does_not_ask_for_is_not_in_its_guarantee():
    assert Guarantee.of({"epsilon": 2.0}) == Guarantee(Pufferfish(2.0), "all", 1)
    assert Columns.of({"public": "cars"}) == Columns(public="cars")
    assert Columns().passed(["sex", "cars"], {"sex"}) == []
    assert Columns().passed(["sex", "home"], {"sex"}, ["home"]) == ["home"]
    assert Columns(remainder="passthrough").passed(["sex", "cars"], {"sex"}) == ["cars"]
    assert "1 row with one value" in RowGroups("home", 1, "any").seen()
    assert "2 rows with one value" in RowGroups("home", 2, "any").seen()


def test_side_information_is_found_among_the_public_columns_by_its_place():
    names, public = ["sex", "cars", "rooms", "pets"], ["rooms", "cars", "pets"]
    assert Columns(known="cars").known_together(names, public) == [[1]]
    assert Columns(known=["pets", ("cars", "rooms")]).known_together(names, public) == [[2], [1, 0]]
    assert Columns().known_together(names, public) == []
    with pytest.raises(ValueError, match="known is empty"):
        Columns(known=[]).known_together(names, public)
    with pytest.raises(ValueError, match="'sex', which is not public"):
        Columns(known=["cars", "sex"]).known_together(names, public)


def test_each_column_has_its_own_bins_and_order():
    specs = Columns(categories={"size": ["S", "L"]}, n_bins={"cars": 3}).specs(["cars", "size"])
    assert [(spec.n_bins, spec.numeric, spec.categories) for spec in specs] == [
        (3, True, None),
        (None, False, ["S", "L"]),
    ]
    assert [spec.n_bins for spec in Columns(n_bins=4).specs(["cars", "size"])] == [4, 4]
    assert not any(spec.numeric for spec in Columns(n_bins=4).specs(["cars", "size"]))
    for argument in ("categories", "n_bins"):
        with pytest.raises(ValueError, match=f"{argument} names column 'sex', which is not public"):
            Columns(**{argument: {"sex": [1]}}).specs(["cars"])
