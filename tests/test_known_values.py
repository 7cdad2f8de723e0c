"""Adversaries who know public columns of a row besides, under additive noise."""

import math
from itertools import permutations

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.priors import Discrete

pytestmark = [
    pytest.mark.filterwarnings("ignore:column.* tell nothing any more"),
    pytest.mark.filterwarnings("ignore:Column.* need no noise"),
]


def people(n_rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Rows in which two columns together tell more than each."""
    rng = np.random.default_rng(seed)
    ill = rng.integers(0, 2, n_rows)
    one = rng.integers(0, 3, n_rows)
    two = np.where(rng.random(n_rows) < 0.3, rng.integers(0, 3, n_rows), (one + ill) % 3)
    return pd.DataFrame({"ill": ill, "one": one, "two": two})


TABLE = people()


def loss_at(noiser, table):
    """Return the largest log ratio of the densities of released rows, on a grid of points.

    Whole numbers of Laplace noise are a rounding of this, so it is only compared from below.
    """
    theta, points = noiser.theta_.to_numpy(), np.linspace(-6.0, 8.0, 57)
    grid = np.stack(np.meshgrid(points, points), axis=-1).reshape(-1, 2)
    laws = []
    for _, own in table.groupby("ill"):
        rows = own[["one", "two"]].to_numpy()
        laws.append(np.exp(-np.abs(grid[:, None] - rows[None]) @ (1.0 / theta)).mean(axis=1))
    return max(float(np.log(p / q).max()) for p, q in permutations(laws, 2))


def fitted(epsilon=1.0, **options):
    return PufferfishNoiser(epsilon, sensitive="ill", **options).fit(TABLE)


@pytest.mark.parametrize("known", ["one", ["one", "two"]])
def test_the_budget_holds_given_each_value_of_what_is_known(known):
    plain, careful = fitted(), fitted(known=known)
    names = [known] if isinstance(known, str) else known
    worst = {}
    for noiser in (plain, careful):
        given = [own for name in names for _, own in TABLE.groupby(name)]
        worst[noiser] = max(loss_at(noiser, own) for own in given)
    assert worst[careful] <= 1.0 + 1e-9
    assert worst[plain] > 1.02  # who knows a value learns more than was promised
    assert (careful.theta_ > plain.theta_).all()
    assert careful.certificate_.holds
    assert careful.certificate_.loss == pytest.approx(worst[careful], abs=0.01)


def test_columns_known_together_tell_nothing_more_of_a_row_with_two_columns():
    # who knows both columns learns nothing from their release
    noiser = fitted(known=[("one", "two")])
    assert (noiser.theta_ == fitted().theta_).all()


@pytest.mark.parametrize(
    "options", [{"dependence": "independent"}, {"delta": 1e-3}, {"alpha": 3.0}]
)
def test_other_promises_are_made_to_who_knows_a_value_too(options):
    noiser = fitted(known="one", public=["one", "two"], **options)
    assert noiser.certificate_.holds
    assert set(noiser.certificate_.table["adversary"]) == {0, 1, 2, 3}
    assert (noiser.theta_ >= fitted(**options).theta_ * (1 - 1e-6)).all()


def test_given_priors_are_known_given_a_value():
    atoms = [[a, b] for a in (0, 1) for b in (0, 1)]
    prior = {0: Discrete(atoms, [0.4, 0.1, 0.1, 0.4]), 1: Discrete(atoms, [0.1, 0.4, 0.4, 0.1])}
    table = pd.DataFrame({"ill": [0, 1] * 4, "one": [0, 0, 1, 1] * 2, "two": [0, 1] * 4})
    noiser = PufferfishNoiser(0.5, sensitive="ill", prior=prior, known="one").fit(table)
    # given one = 0, two is 0 with chances 0.8 and 0.2, whatever is released of one
    theta = float(noiser.theta_["two"])
    share = math.exp(-1.0 / theta)
    assert math.log((0.8 + 0.2 * share) / (0.2 + 0.8 * share)) <= 0.5 + 1e-9


def test_the_certificate_says_who_knows_what():
    certificate = fitted(known=["one", ("one", "two")]).certificate_
    assert "the counted prior, also to who knows one or one and two" in certificate._headline()
    assert any(
        "who knows one or one and two of a row besides" in s for s in certificate.assumptions
    )


def test_known_values_make_too_many_pairs_by_name():
    table = pd.DataFrame({"ill": np.arange(120) % 60, "one": np.arange(120) % 2})
    with pytest.raises(ValueError, match=r"given each value of what may be known.*known="):
        PufferfishNoiser(
            1.0,
            sensitive="ill",
            delta=0.1,
            known="one",
            secret_pairs=[(a, a + 1) for a in range(59)] * 20,
        ).fit(table)
