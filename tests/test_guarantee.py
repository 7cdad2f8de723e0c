"""Guarantees of single tables, sets, priors and weights, and what else might tell a value.

Every option against every other is in ``test_product``.
"""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from all_pairs import pairs_first
from scipy import stats
from test_product import SECRETS, table

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._losses import joint_grids
from sklearn_puffer._noise import sampler_loss
from sklearn_puffer.priors import Discrete

FALSE_ALARM = 1e-6

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*need no noise under this prior:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*instead of n_bins=:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*distinct values in .* rows:UserWarning"),
    pytest.mark.filterwarnings("ignore:columns .* span .* cells jointly:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*moved values that were not seen:UserWarning"),
]


@pytest.mark.usefixtures("seeded_draws")
def test_what_is_drawn_follows_the_distribution_that_is_certified():
    """Integers: X plus Laplace noise, rounded to the nearest integer."""
    frame = table(("whole",), n_rows=30_000)
    noiser = PufferfishNoiser(sensitive="s", epsilon=0.5).fit(frame)
    released = noiser.transform(frame)["whole"].to_numpy()
    theta = noiser.theta_["whole"]
    edges = np.arange(-9.5, 15.0)
    for secret in SECRETS:
        chosen = (frame["s"] == secret).to_numpy()
        values = frame["whole"].to_numpy()[chosen].astype(float)
        below = stats.laplace.cdf(edges[:, None], values, theta).mean(axis=1)
        expected = np.diff([0.0, *below, 1.0]) * chosen.sum()
        seen = np.histogram(released[chosen], [-np.inf, *edges, np.inf])[0]
        assert stats.chisquare(seen, expected).pvalue > FALSE_ALARM


# --------------------------------------------------------------------- what priors and rows may do


def two_values(x=(0.0, 0.0, 100.0, 100.0)):
    return pd.DataFrame({"s": list("ab") * 50, "x": np.resize(x, 100)})


NEAR_THE_MIDDLE = {"a": Discrete([49], [1]), "b": Discrete([51], [1])}


@pytest.mark.parametrize("unknown", ["error", "nearest"])
def test_values_that_only_an_adversary_knows_are_not_moved_before_the_noise(unknown):
    """Moved to 0 and 100 they would be 100 apart, under noise for a distance of 2."""
    noiser = PufferfishNoiser(
        sensitive="s", unknown=unknown, output="noisy", adversaries=[NEAR_THE_MIDDLE]
    ).fit(two_values())
    assert noiser.certificate_.holds
    rows = pd.DataFrame({"x": np.repeat([49.0, 51.0], 4000)})
    released = noiser.transform(rows)["x"].to_numpy()
    assert abs(np.median(released[:4000]) - 49.0) < 0.5
    assert abs(np.median(released[4000:]) - 51.0) < 0.5


def test_an_adversary_of_raw_values_sees_the_bins_they_fall_into():
    frame = two_values(np.r_[0:50, 51:101])
    noiser = PufferfishNoiser(sensitive="s", n_bins=2, adversaries=[NEAR_THE_MIDDLE]).fit(frame)
    low, high = noiser._fitted.mechanism.columns[0].column.atoms
    assert noiser.theta_["x"] >= high - low


def test_a_prior_with_an_impossible_code_is_refused():
    frame = two_values().assign(x=np.resize(["p", "q", "p"], 100))
    impossible = {"a": Discrete([0, 7], [0.5, 0.5]), "b": Discrete([0], [1])}
    with pytest.raises(ValueError, match=r"a prior has the atom 7\.0 in column 'x', .* category"):
        PufferfishNoiser(sensitive="s", adversaries=[impossible]).fit(frame)


def test_a_level_that_an_adversary_knows_can_be_released():
    levels = pd.CategoricalDtype(list("pqr"))
    frame = two_values().assign(x=pd.Series(np.resize(["p", "q", "p"], 100), dtype=levels))
    third = {"a": Discrete([0, 2], [0.5, 0.5]), "b": Discrete([0], [1])}
    noiser = PufferfishNoiser(sensitive="s", adversaries=[third]).fit(frame)
    assert len(noiser.transform(pd.DataFrame({"x": pd.Series(["r"], dtype=levels)}))) == 1


def test_far_values_of_a_secret_outside_all_pairs_are_released_too():
    frame = pd.DataFrame({"s": list("abc") * 20, "x": np.tile([0, 1, 0, 1, 0, 1e9], 10)})
    prior = {
        "a": Discrete([0, 1], [0.5, 0.5]),
        "b": Discrete([0, 1], [0.1, 0.9]),
        "c": Discrete([0, 1e9], [0.5, 0.5]),
    }
    noiser = PufferfishNoiser(0.2, sensitive="s", prior=prior, secret_pairs=[("a", "b")])
    assert len(noiser.fit(frame).transform(frame)) == 60


@pytest.mark.slow
def test_a_scale_that_grows_past_its_grid_gets_a_coarser_one():
    """Rounding the atoms may ask for a little more noise, and that for a coarser grid."""
    rng = np.random.default_rng(0)
    grown = 0
    for _ in range(60):
        # a scale of 1 is a factor of 2, 2.5 or 4, which is rounded to itself
        distance, short_of_one = rng.choice([0.5, 0.8, 1.0]), rng.uniform(-1.2e-12, 4e-13)
        epsilon = distance * (1.0 - short_of_one)
        draws = 1 + int(2e-10 * epsilon / sampler_loss(1))  # as many as are paid for
        epsilon += 4e-12 * (1.0 + epsilon) + sampler_loss(draws)  # what the search leaves to spare
        frame = two_values((0.0, distance))
        noiser = PufferfishNoiser(epsilon, sensitive="s", strategy="sensitivity").fit(frame)
        noiser.transform(frame)
        grown += noiser.theta_["x"] > 1.0
        assert noiser.certificate_.holds
    assert 0 < grown < 60


def test_a_column_that_no_pair_of_secrets_shares_does_not_stop_fit():
    frame = pd.DataFrame({"s": list("ab") * 20, "x": [1.0, np.nan] * 20, "y": [0, 1, 1, 1] * 10})
    noiser = PufferfishNoiser(0.01, sensitive="s", missing="propagate", dependence="independent")
    assert noiser.fit(frame).certificate_.holds


# -------------------------------------------------------------------- what else might tell a value


@pytest.mark.parametrize("value", ["x", "y", "z"])
def test_the_list_of_categories_tells_nothing_about_the_rows(value):
    frame = pd.DataFrame({"s": list("ab") * 60, "c": list("xyzyxxzzyx") * 12})
    noiser = PufferfishNoiser(0.2, sensitive="s", strategy="sensitivity").fit(frame)
    one = noiser.transform(pd.DataFrame({"c": pd.Categorical([value])}))
    assert one["c"].cat.categories.tolist() == list("xyz")
    one = noiser.transform(pl.DataFrame({"c": pl.Series([value], dtype=pl.Enum([value]))}))
    assert one.schema["c"] == pl.Enum(list("xyz"))


@pytest.mark.parametrize("options", [{"remainder": "passthrough", "public": "c"}, {}])
def test_secrets_that_are_columns_of_x_as_well_are_never_part_of_the_output(options):
    frame = pd.DataFrame({"sex": list("ab") * 60, "c": list("xyzyxxzzyx") * 12})
    noiser = PufferfishNoiser(**options).fit(frame, sensitive_features=frame["sex"])
    assert noiser.transform(frame).columns.tolist() == ["c"]
    assert noiser.transform(frame[["c"]]).columns.tolist() == ["c"]


class Nothing:
    """A bound that claims that nothing is ever lost."""

    guess = 1.0

    def __init__(self, n_pairs):
        self.n_pairs = n_pairs

    def losses(self, factor):
        return np.zeros((self.n_pairs, 2))


def claims_nothing_is_lost(pairs, noise, notion):
    return Nothing(len(pairs))


@pytest.mark.parametrize("cells", [1, 2**17], ids=["theorem", "recomputed"])
def test_a_strategy_of_the_user_is_not_taken_at_its_word(cells, monkeypatch):
    monkeypatch.setattr(joint_grids, "MAX_CELLS", cells)
    frame = table(("number", "whole"))
    noiser = PufferfishNoiser(0.1, sensitive="s", strategy=claims_nothing_is_lost).fit(frame)
    assert not noiser.certificate_.holds


@pytest.mark.parametrize(
    "changed",
    [
        {"output": "noisy"},
        {"missing": "propagate"},
        {"epsilon": 50.0},
        {"noise": "other"},
        {"n_bins": 2},
        {"categories": {"whole": [0]}},
        {"public": "s"},
        {"remainder": "passthrough"},
        {"sensitive": "whole"},
    ],
    ids=str,
)
def test_parameters_set_after_fit_change_nothing_that_was_guaranteed(changed):
    frame = table(("number", "whole"))
    noiser = PufferfishNoiser(0.1, sensitive="s").fit(frame)
    before = (
        noiser._fitted.mechanism.columns,
        noiser._fitted.rules.passed,
        noiser._fitted.rules.order,
        noiser._fitted.rules.missing,
    )
    with pytest.raises(ValueError, match=r"was set after fit.*call fit again"):
        noiser.set_params(**changed).transform(frame)
    assert (
        noiser._fitted.mechanism.columns,
        noiser._fitted.rules.passed,
        noiser._fitted.rules.order,
        noiser._fitted.rules.missing,
    ) == before


def test_the_certificate_says_that_a_seed_is_not_covered():
    said = PufferfishNoiser(sensitive="s").fit(table(("whole",))).certificate_.assumptions
    assert any("without a random_state" in sentence for sentence in said)


# ------------------------------------------------------------------ other notions, sets and weights


def bare_losses(frame, epsilon, alpha):
    """Return the losses of the values themselves, both ways: pure, delta and Renyi."""
    p, q = pd.crosstab(frame["x"], frame["s"], normalize="columns").to_numpy().T
    ways = [(p, q), (q, p)]
    return {
        "pure": max(np.log(a / b).max() for a, b in ways),
        "delta": max(np.maximum(a - np.exp(epsilon) * b, 0.0).sum() for a, b in ways),
        "renyi": max(np.log((a**alpha * b ** (1.0 - alpha)).sum()) for a, b in ways) / (alpha - 1),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "notion", "above"),
    pairs_first(
        itertools.product(
            ["laplace", "gaussian", "cauchy"], ["pure", "delta", "renyi"], [True, False]
        )
    ),
)
def test_nothing_is_added_only_where_the_values_themselves_keep_the_guarantee(noise, notion, above):
    frame = pd.DataFrame({"s": ["a"] * 10 + ["b"] * 10, "x": [0] * 4 + [1] * 10 + [3] * 6})
    frame.loc[[0, 10], "x"] = [3, 0]
    epsilon, alpha = 0.3, 3.0
    bare = bare_losses(frame, epsilon, alpha)[notion]
    budget = float(bare) * (1.0001 if above else 0.9999)
    options = {
        "pure": {"epsilon": budget},
        "delta": {"epsilon": epsilon, "delta": budget},
        "renyi": {"epsilon": budget, "alpha": alpha},
    }[notion]
    if (noise, notion, above) == ("gaussian", "pure", False):
        return  # then no scale may be enough
    noiser = PufferfishNoiser(sensitive="s", noise=noise, **options).fit(frame)
    assert (noiser.theta_["x"] == 0.0) == above
    assert noiser.certificate_.holds
    if above:
        assert noiser.certificate_.loss == pytest.approx(bare, rel=1e-9)
        assert noiser.transform(frame)["x"].tolist() == frame["x"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-12, 1e-40, 1e-299])
def test_a_tiny_delta_is_held_to_the_last_digit(delta):
    for epsilon in (0.5, 50.0, 700.0):
        noiser = PufferfishNoiser(epsilon, delta=delta, sensitive="s").fit(table(("whole",)))
        assert noiser.certificate_.loss <= delta


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-4])
def test_independent_columns_keep_a_small_delta_together(delta):
    frame = table(("whole", "flag"))
    noiser = PufferfishNoiser(0.5, delta=delta, sensitive="s", dependence="independent")
    assert noiser.fit(frame).certificate_.loss <= delta


def test_a_loss_of_next_to_nothing_is_not_rounded_above_a_tiny_delta():
    close = pd.DataFrame({"s": ["a", "b"] * 200, "x": np.resize([0.1, 0.3, 1.7], 400)})
    noiser = PufferfishNoiser(700.0, delta=1e-300, sensitive="s", prior="gaussian").fit(close)
    assert noiser.certificate_.holds


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["laplace", "cauchy"])
@pytest.mark.parametrize("strategy", ["exact", "distribution_aware", "wasserstein", "sensitivity"])
def test_no_delta_needs_more_noise_than_delta_zero(strategy, noise):
    frame = pd.DataFrame({"s": list("aabbbab") * 3, "x": [0, 2, 3, 1, 3, 2, 0] * 3})
    options = {"sensitive": "s", "strategy": strategy, "noise": noise}
    pure, *others = (
        PufferfishNoiser(0.4, delta=delta, **options).fit(frame) for delta in (0.0, 1e-300, 1e-9)
    )
    for other in others:
        assert other.certificate_.holds
        assert other.theta_["x"] <= pure.theta_["x"] * (1.0 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_columns_whose_loss_is_known_to_a_part_in_a_thousand_are_released(seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"s": rng.integers(0, 2, 200), "x": rng.integers(0, 5, 200)})
    frame = frame.assign(x=frame.x + frame.s, z=rng.integers(0, 3, 200))
    noiser = PufferfishNoiser(0.5, sensitive="s", noise="cauchy").fit(frame)
    assert 0.499 <= noiser.certificate_.loss <= 0.5


@pytest.mark.slow
def test_independent_columns_under_a_delta_need_no_more_than_their_sum():
    """One after the other, at half of epsilon and of delta each, they need more."""
    frame = table(("number", "whole"), n_rows=200)
    options = {"epsilon": 0.5, "delta": 0.01, "sensitive": "s", "noise": "cauchy"}
    together = PufferfishNoiser(dependence="independent", **options).fit(frame)
    options |= {"epsilon": 0.25, "delta": 0.005}
    for name in ("number", "whole"):
        alone = PufferfishNoiser(public=name, **options).fit(frame)
        assert together.theta_[name] < max(alone.theta_[name], 0.9 * together.theta_[name] * 2)
    table_ = together.certificate_.table
    assert table_["upper"].max() <= 1.01 * table_["lower"].max()


def test_the_error_of_confidence_sets_is_shared_over_all_sensitive_columns():
    frame = table(("whole",), n_rows=600)
    other = frame.assign(t=np.resize(list("pqqp"), 600))
    options = {"epsilon": 0.5, "adversaries": "confidence"}
    one = PufferfishNoiser(sensitive="s", public="whole", **options).fit(other)
    both = PufferfishNoiser(sensitive=["s", "t"], **options).fit(other)
    assert both.theta_["whole"] > one.theta_["whole"]


def test_sets_are_those_of_rows_however_they_are_counted():
    frame = table(("whole", "letter"), n_rows=90)
    options = {"sensitive": "s", "epsilon": 0.5, "adversaries": "confidence"}
    options["categories"] = {"letter": list("hgfedcba")}
    weights = np.arange(90) % 4
    counted = PufferfishNoiser(**options).fit(frame, sample_weight=weights)
    repeated = PufferfishNoiser(**options).fit(frame.loc[np.repeat(np.arange(90), weights)])
    pd.testing.assert_series_equal(counted.theta_, repeated.theta_, rtol=1e-12)


def test_a_declared_category_without_rows_belongs_to_the_sets():
    frame = two_values().assign(x=np.resize(["p", "q", "p"], 100))
    options = {"sensitive": "s", "adversaries": "confidence"}
    seen = PufferfishNoiser(**options, categories={"x": ["p", "q"]}).fit(frame)
    more = PufferfishNoiser(**options, categories={"x": ["p", "q", "r", "t"]}).fit(frame)
    assert more.theta_["x"] > seen.theta_["x"]


@pytest.mark.parametrize("prior", ["gaussian", pytest.param("gmm", marks=pytest.mark.slow)])
def test_a_stored_noiser_does_not_hold_the_rows_of_continuous_columns(prior):
    rng = np.random.default_rng(0)
    sizes = []
    for n_rows in (200, 4000):
        frame = pd.DataFrame({"s": np.resize(list("ab"), n_rows), "x": rng.normal(size=n_rows)})
        noiser = PufferfishNoiser(sensitive="s", prior=prior, delta=1e-3).fit(frame)
        stored = pickle.dumps(noiser)
        assert frame["x"].to_numpy()[7].tobytes() not in stored
        assert len(pickle.loads(stored).transform(frame)) == n_rows
        sizes.append(len(stored))
    assert sizes[1] < sizes[0] + 500


def test_an_epsilon_that_drawing_on_the_grid_would_spend_is_refused_with_the_way_out():
    frame = table(("whole",))
    noiser = PufferfishNoiser(1e-3, alpha=1.0 + 1e-9, sensitive="s", noise="gaussian")
    with pytest.raises(ValueError, match=r"epsilon=0\.001 is less than .* raise epsilon"):
        noiser.fit(frame)
