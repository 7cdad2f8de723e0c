"""The search for the smallest factor, whatever the shape of the bounds, and what it refuses."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_puffer import calibration
from sklearn_puffer._noiser import Part, Problem, SecretPair, find_scales
from sklearn_puffer._numerics import smallest_within
from sklearn_puffer.bounds import Relaxed, tightest, wasserstein
from sklearn_puffer.calibration import STRATEGIES, calibrate, exact, smallest_factor
from sklearn_puffer.noise import Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair

PURE = [name for name in STRATEGIES if name not in ("approximate", "monge")]
P = Discrete([0, 1, 3], [0.5, 0.25, 0.25])
Q = Discrete([0, 1, 3], [0.25, 0.25, 0.5])
NORMAL = GaussianMixture([1.0], [0.0], [1.0])


@dataclass
class Shape:
    """A bound of any shape, which counts how often it is asked."""

    curve: Any
    guess: float = 1.0
    asked: list = field(default_factory=list)

    def losses(self, factor):
        self.asked.append(factor)
        return np.full((1, 2), self.curve(factor))


def _step(at):
    return lambda f: 0.5 if f >= at else 2.0


def _plateau(f):
    """Return a loss that is the budget itself over a decade."""
    if f < 0.1:
        return math.inf if f == 0.0 else 0.1 / f
    return 1.0 if f < 1.0 else 1.0 / f


def _tail(f):
    """Return a delta like that of Gaussian noise, in units of 1e-10."""
    return 1e10 * math.exp(-min(0.5 * f * f, 700.0))


def _edge(f):
    """Return a delta like that of Laplace noise: it reaches zero, in units of 1e-6."""
    return -1e6 * math.expm1(min(1.0 - 3.0 / f, 0.0) / 2.0) if f else 1e6


def _log_cosh(f):
    return np.logaddexp(1.0 / f, -1.0 / f) - math.log(2.0) if f else math.inf


SHAPES = {
    "inverse": (lambda f: 3.0 / f if f else math.inf, 3.0),
    "inverse square": (lambda f: (1.0 / f) * (1.0 / f) if f else math.inf, 1.0),
    "square root": (lambda f: f**-0.5 if f else math.inf, 1.0),
    "a log of a cosine": (_log_cosh, 1.0 / math.acosh(math.e)),
    "a step": (_step(0.125), 0.125),
    "a plateau at the budget": (_plateau, 0.1),
    "finite without noise": (lambda f: 1.5 * math.exp(-f), math.log(1.5)),
    "infinite below its root": (lambda f: 0.9 if f >= 2.0 else math.inf, 2.0),
    "a Gaussian tail": (_tail, math.sqrt(2.0 * math.log(1e10))),
    "an edge": (_edge, 3.0 / (1.0 - 2.0 * math.log1p(-1e-6))),
    "nothing above its root": (lambda f: 0.0 if f >= 2.0 else 5.0, 2.0),
}


@pytest.mark.parametrize("guess", [1e-250, 1e-3, 1.0, 1e3, 1e250])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_smallest_factor_is_found_from_any_start_and_never_less(shape, guess):
    curve, root = SHAPES[shape]
    bound = Shape(curve, guess)
    found = smallest_factor([bound], 1.0)
    assert found in bound.asked
    assert curve(found) <= 1.0
    assert curve(found * (1.0 - 2e-12)) > 1.0
    assert found == pytest.approx(root, rel=2e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-9, 1.0, 1e9, 1e200, 1e299])
def test_factors_may_be_of_any_size(scale):
    bound = Shape(lambda f: scale / f if f else math.inf, scale)
    assert smallest_factor([bound], 1.0) == pytest.approx(scale, rel=3e-12)


def test_few_evaluations_are_enough():
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.exponential(size=50))
    asked = []
    for _ in range(20):
        pair = PriorPair(*(Discrete.from_counts(x, rng.integers(1, 50, 50)) for _ in "pq"))
        for strategy in (STRATEGIES[name] for name in PURE):
            bound = strategy([pair], Laplace(), Pufferfish(0.5))
            counted = Shape(lambda f, bound=bound: bound.losses(f).max(), bound.guess)
            smallest_factor([counted], 0.5)
            asked.append(len(counted.asked))
    assert np.median(asked) <= 15
    assert max(asked) <= 25


def test_no_noise_is_needed_where_none_is_enough():
    assert smallest_factor([Shape(lambda f: 0.7 * math.exp(-f))], 1.0) == 0.0
    assert smallest_factor([], 1.0) == 0.0
    assert calibrate([(P, P)], Pufferfish(0.1)).scale == 0.0
    assert calibrate([(P, Q)], Pufferfish(math.log(2) * (1 + 1e-9))).scale == 0.0


def test_a_jump_at_no_noise_leaves_the_smallest_factor_that_was_tried():
    found = smallest_factor([Shape(lambda f: 0.5 if f else math.inf)], 1.0)
    assert 0.0 < found <= 1e-299


def test_a_budget_that_no_noise_can_keep_is_an_error():
    with pytest.raises(ValueError, match="no noise scale up to 1e"):
        smallest_factor([Shape(lambda f: 2.0)], 1.0)
    with pytest.raises(ValueError, match=r"budget must be positive, got -1\.0"):
        smallest_factor([Shape(lambda f: 2.0)], -1.0)


@dataclass
class Fixed:
    """Losses of several pairs that differ by direction, inversely proportional to the factor."""

    at_one: Any

    @property
    def guess(self):
        return float(np.max(self.at_one))

    def losses(self, factor):
        return (
            np.asarray(self.at_one) / factor if factor else np.full(np.shape(self.at_one), np.inf)
        )


@dataclass
class OneByOne:
    """A bound on two pairs, which says of a loss within a budget no more than that it is."""

    slopes: tuple[float, float]
    guess: float = 1.0
    one_by_one: bool = True

    def losses(self, factor):
        return np.stack([self.of_pair(k, factor, None) for k in (0, 1)])

    def of_pair(self, k, factor, budget):
        exact = self.slopes[k] / factor if factor else math.inf
        told = exact if budget is None or exact > budget else max(exact, 0.9 * budget)
        return np.full(2, told)


@pytest.mark.parametrize("n_groups", [1, 2, 3])
def test_a_loss_that_is_one_of_several_summands_is_never_told_roughly(n_groups):
    groups = [OneByOne((3.0, 0.5)) for _ in range(n_groups)]
    assert smallest_factor(groups, 1.0) == pytest.approx(3.0 * n_groups, rel=3e-12)


def test_losses_add_up_over_groups_before_directions_and_pairs_are_compared():
    one, two = Fixed([[1.0, 4.0], [2.0, 2.0]]), Fixed([[4.0, 1.0], [2.0, 2.5]])
    # by direction 5 and 5, 4 and 4.5; the largest of each alone would add up to 8
    assert smallest_factor([one, two], 1.0) == pytest.approx(5.0, rel=2e-12)


@pytest.mark.slow
@given(st.lists(st.integers(1, 50), min_size=4, max_size=4), st.floats(0.01, 5.0))
def test_more_budget_never_needs_more_noise(counts, epsilon):
    pair = (P, Discrete.from_counts([0, 1, 3, 8], counts))
    for strategy in PURE:
        scales = [
            calibrate([pair], Pufferfish(e), strategy=strategy).scale
            for e in (epsilon, 1.1 * epsilon)
        ]
        assert scales[1] <= scales[0] * (1 + 2e-12)


@pytest.mark.parametrize("strategy", PURE)
def test_the_scale_goes_with_the_unit_of_the_column(strategy):
    stretched = [Discrete.from_counts(1000.0 * prior.atoms, prior.counts) for prior in (P, Q)]
    scales = [
        calibrate([pair], Pufferfish(0.3), strategy=strategy).scale for pair in ((P, Q), stretched)
    ]
    assert scales[1] == pytest.approx(1000.0 * scales[0], rel=1e-11)


@pytest.mark.parametrize("strategy", PURE)
def test_a_template_multiplies_the_scales_of_each_axis(strategy):
    rows = [np.column_stack([prior.atoms, 10.0 * prior.atoms]) for prior in (P, Q)]
    pair = [Discrete.from_counts(r, prior.counts) for r, prior in zip(rows, (P, Q), strict=True)]
    even = [
        Discrete.from_counts(r / [1.0, 10.0], prior.counts)
        for r, prior in zip(rows, (P, Q), strict=True)
    ]
    weighted = calibrate([pair], Pufferfish(0.3), noise=Laplace((1.0, 10.0)), strategy=strategy)
    plain = calibrate([even], Pufferfish(0.3), strategy=strategy)
    assert weighted.scale == pytest.approx(plain.scale, rel=1e-11)


def test_the_worst_pair_and_its_bound_are_reported():
    far = Discrete([0, 50], [0.5, 0.5])
    found = calibrate([(P, P), (P, Q), (P, far), (Q, P)], Pufferfish(1.0), strategy="wasserstein")
    assert found.worst_pair == 2
    assert found.scale == pytest.approx(49.0, rel=2e-12)
    assert 1.0 - 1e-11 < found.bound <= 1.0


@pytest.mark.parametrize(
    ("pair", "notion"),
    [
        (PriorPair(P, Q), RenyiPufferfish(0.05, alpha=2.0)),
        (PriorPair(NORMAL, GaussianMixture([1.0], [2.0], [1.0])), Pufferfish(0.5, delta=1e-3)),
    ],
    ids=["discrete priors under an alpha", "mixtures under a delta"],
)
def test_no_smaller_scale_by_a_billionth_is_enough_where_losses_are_exact(pair, notion):
    scale = calibrate([pair], notion, noise="gaussian").scale
    losses = exact([pair], Gaussian(1.0), notion).losses
    assert losses(scale).max() <= notion.budget < losses(scale * (1.0 - 1e-9)).max()


def test_exact_beyond_its_limit_warns_and_takes_the_tightest_bound(monkeypatch):
    rng = np.random.default_rng(1)
    pair = tuple(Discrete.from_counts(rng.normal(size=(9, 3)), rng.integers(1, 9, 9)) for _ in "pq")
    monkeypatch.setattr(calibration, "all_computable", lambda *_: False)
    monkeypatch.setattr(calibration, "MAX_CELLS", 1000)
    with pytest.warns(UserWarning, match=r"grid of 5,832 cells and its limit is 1,000"):
        found = calibrate([pair], Pufferfish(1.0))
    assert found == calibrate([pair], Pufferfish(1.0), strategy=tightest)


def test_the_tightest_bound_is_relaxed_over_all_couplings_and_within_wasserstein():
    rng = np.random.default_rng(2)
    pair = tuple(Discrete.from_counts(rng.normal(size=(9, 3)), rng.integers(1, 9, 9)) for _ in "pq")
    scales = [
        calibrate([pair], Pufferfish(1.0), strategy=s).scale
        for s in ("exact", tightest, wasserstein)
    ]
    assert scales[0] < scales[1] <= scales[2]


def test_strategies_may_be_objects_and_noise_a_name_or_an_object():
    named = calibrate([(P, Q)], Pufferfish(0.2), strategy="relaxed", noise="laplace")
    assert named == calibrate([(P, Q)], Pufferfish(0.2), strategy=Relaxed(), noise=Laplace(1.0))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"pairs": []}, ValueError, "pairs must hold at least one pair"),
        ({"pairs": [(P, 3)]}, TypeError, "pairs must hold two priors"),
        ({"pairs": [(P, Q, P)]}, TypeError, "pairs must hold two priors"),
        ({"pairs": [(P, Discrete([[0, 1]], [1.0]))]}, ValueError, r"over \[1, 2\] columns"),
        ({"strategy": "best"}, ValueError, "strategy must be one of .*'exact'.*got 'best'"),
        ({"strategy": 3}, TypeError, "strategy must be one of .*got 3"),
        ({"noise": "uniform"}, ValueError, "noise must be one of .*'laplace'.*got 'uniform'"),
        ({"noise": 2.0}, TypeError, "noise must be one of .*got 2.0"),
        ({"noise": Laplace((1.0, 2.0))}, ValueError, "2 entries and the prior 1 columns"),
    ],
)
def test_bad_arguments_are_refused_with_the_way_out(arguments, error, message):
    pairs = arguments.pop("pairs", [(P, Q)])
    with pytest.raises(error, match=message):
        calibrate(pairs, Pufferfish(1.0), **arguments)


NARROW = Discrete([0, 1 / 3], [0.5, 0.5])


def test_the_pair_without_a_bound_is_named_with_rounded_numbers_and_ways_that_work():
    message = (
        r"as those of pair 2 do, \(0, 3\) and \(0, 0\.333333\); use delta=1e-05, alpha=2.0 or "
        r"noise='laplace'\.$"
    )
    pairs = [(P, Q), (Q, P), (P, NARROW)]
    with pytest.raises(ValueError, match=message):
        calibrate(pairs, Pufferfish(0.1), noise="gaussian")
    notions = Pufferfish(0.1, 1e-5), RenyiPufferfish(0.1, 2.0)
    for other in ({"noise": "laplace"}, *({"notion": notion} for notion in notions)):
        assert (
            calibrate(pairs, **{"notion": Pufferfish(0.1), "noise": "gaussian"} | other).scale > 0
        )


def test_a_plan_that_does_not_exist_names_the_secrets_and_the_columns():
    secret_pairs = [SecretPair(0, "loan", "no", "yes"), SecretPair(0, "race", np.str_("a"), 7)]
    part = Part((0,), [PriorPair(P, Q), PriorPair(P, NARROW)], np.arange(2))
    problem = Problem(
        groups=[[part]],
        n_pairs=2,
        weights=np.ones(1),
        whole=np.array([False]),
        names=["age"],
        notion=Pufferfish(0.1),
        strategy=STRATEGIES["exact"],
        noise=Gaussian(),
        secret_pairs=secret_pairs,
    )
    message = r"as those of secrets 'a' and 7 of 'race' in column\(s\) 'age' do, \(0, 3\) and"
    with pytest.raises(ValueError, match=message):
        find_scales(problem)


def test_a_search_from_far_above_takes_few_losses_and_ends_once_its_bracket_is_narrow():
    """Steps of their own size took eleven; Brent's method goes on to a root that nobody wants."""
    calls = []

    def total(factor):
        calls.append(factor)
        return 1.1 / (factor / 0.03) / (1.0 + factor / 0.3)

    found = smallest_within(total, 1.0, start=1.9, tolerance=5e-7)
    assert len(calls) <= 9
    assert total(found) <= 1.0 < total(found * (1.0 - 5e-7))
