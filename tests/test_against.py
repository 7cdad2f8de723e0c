"""What is guaranteed to an adversary whose prior is not the fitted one."""

from __future__ import annotations

import math
import pickle
import warnings
from dataclasses import replace

import mpmath
import numpy as np
import pandas as pd
import pytest
from oracle import directed_losses

from sklearn_puffer import PufferfishNoiser, PufferfishRelease
from sklearn_puffer._codes import Column
from sklearn_puffer._noise import sampler_loss
from sklearn_puffer._noiser import FittedNoise, Problem
from sklearn_puffer.calibration import exact
from sklearn_puffer.noise import Cauchy, Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture

FINE = 2.0**-38
DRAWN = 2.2e-10  # the sampler's error of all draws that are paid for, at epsilon = 1


def release_of(fitted, noise=None, notion=None, theta=(1.0,), grids=None, groups=None, atoms=None):
    """Return a release made for mappings {secret: prior}, over float columns with those atoms."""
    noise, notion = noise or Laplace(), notion or Pufferfish(1.0)
    theta = np.array(theta, dtype=float)
    groups = groups or [list(range(len(theta)))]
    rows = np.concatenate([distribution.rows for distribution in fitted.values()])
    values = [np.unique(axis) for axis in rows.T] if atoms is None else atoms
    columns = [
        Column(f"x{k}", "float", np.array(of, dtype=float), np.ones(len(of), dtype=bool))
        for k, of in enumerate(values)
    ]
    labels = list(fitted)
    pairs = {"s": [(a, b) for k, a in enumerate(labels) for b in labels[k + 1 :]]}
    grids = np.where(theta > 0, FINE, 0.0) if grids is None else np.array(grids, dtype=float)
    whole, names = np.zeros(len(theta), dtype=bool), list(range(len(theta)))
    problem = Problem([], 0, theta, whole, names, notion, exact, noise)
    members = [tuple(group) for group in groups]
    return FittedNoise(problem, grids, columns, groups, members, {"s": labels}, pairs)


def random_distributions(rng, n_atoms=4, labels="ab", sparse=False):
    """Return a mapping of distributions on some of the numbers 0 to n - 1, and one near it."""
    first, second = {}, {}
    for label in labels:
        counts = rng.integers(0 if sparse else 1, 9, n_atoms) + np.eye(n_atoms, dtype=int)[0]
        further = counts + rng.integers(0, 3, n_atoms)
        first[label] = Discrete.from_counts(np.arange(n_atoms), counts)
        second[label] = Discrete.from_counts(np.arange(n_atoms), further)
    return first, second


def density(distribution, noise):
    """Return the density of a one-column release, as a function of a number."""
    theta = float(noise.axis_scales(1)[0])

    def at(y):
        u = (np.asarray(y)[..., None] - distribution.atoms) / theta
        if isinstance(noise, Laplace):
            kernel = np.exp(-np.abs(u)) / 2
        elif isinstance(noise, Gaussian):
            kernel = np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi)
        else:
            kernel = 1 / (math.pi * (1 + u**2))
        return kernel @ distribution.probabilities / theta

    return at


NODES, WEIGHTS = np.polynomial.legendre.leggauss(120)


def integral(integrand, atoms, noise):
    """Return an integral over the line, cut at the atoms."""
    theta = float(noise.axis_scales(1)[0])
    if isinstance(noise, Cauchy):  # the angle runs over a bounded interval
        ends = np.concatenate([[-np.pi / 2], np.arctan(atoms / theta), [np.pi / 2]])
        inner, integrand = integrand, lambda u: inner(theta * np.tan(u)) * theta / np.cos(u) ** 2
    else:
        far = theta * np.array([2, 5, 9, 14, 34] if isinstance(noise, Laplace) else [2, 5, 9])
        ends = np.concatenate([atoms[0] - far[::-1], atoms, atoms[-1] + far])
    half = np.diff(ends)[:, None] / 2
    places = ends[:-1, None] + half * (NODES + 1)
    return float(np.sum(half * WEIGHTS * integrand(places)))


def renyi_loss(p, q, noise, alpha):
    of_p, of_q = density(p, noise), density(q, noise)
    atoms = np.union1d(p.atoms, q.atoms)
    mean = integral(lambda y: of_p(y) ** alpha * of_q(y) ** (1 - alpha), atoms, noise)
    return math.log(mean) / (alpha - 1)


def delta_loss(p, q, noise, epsilon):
    of_p, of_q = density(p, noise), density(q, noise)
    atoms = np.union1d(p.atoms, q.atoms)
    # kinks where the sign changes: a fine sum that errs by less than the test allows
    fine = np.linspace(atoms[0] - 12, atoms[-1] + 12, 8001)
    sticks = np.maximum(of_p(fine) - math.exp(epsilon) * of_q(fine), 0.0)
    return float(sticks.sum() * (fine[1] - fine[0]))


def pure_loss(p, q, noise):
    """Return the largest log ratio on a grid: never above the loss."""
    fine = np.concatenate([np.linspace(-30, 40, 701), np.arange(0, 10)])
    of_p, of_q = density(p, noise), density(q, noise)
    return float(np.log(of_p(fine) / of_q(fine)).max())


def ordered(distributions):
    """Return all ordered pairs of different distributions."""
    return [(p, q) for a, p in distributions.items() for b, q in distributions.items() if a != b]


# ------------------------------------------------------------------------------- the exact loss


@pytest.mark.parametrize("seed", range(20))
def test_the_loss_is_the_exact_one_of_the_further_prior(seed):
    fitted, further = random_distributions(np.random.default_rng(seed), sparse=True)
    told = release_of(fitted, theta=[1.7]).against(further)
    true = max(directed_losses(further["a"], further["b"], 1.7))
    assert true <= mpmath.mpf(told.loss) <= true + DRAWN + 1e-12
    assert told.lower <= told.loss
    both = {(pair.secret, pair.against): pair for pair in told.pairs}
    forth, back = directed_losses(further["a"], further["b"], 1.7)
    assert both["a", "b"].upper == pytest.approx(float(forth), abs=DRAWN)
    assert both["b", "a"].upper == pytest.approx(float(back), abs=DRAWN)


def test_atoms_are_rounded_to_the_grid_as_in_the_release():
    distribution = Discrete([0.0, 0.4, 0.6, 1.0], [0.25] * 4)
    release = release_of({"a": distribution, "b": distribution}, theta=[1.0], grids=[1.0])
    same = release.against(
        {"a": Discrete([0.0, 0.6], [0.5, 0.5]), "b": Discrete([0.4, 1.0], [0.5, 0.5])}
    )
    assert same.loss <= DRAWN  # both are fair between 0 and 1 once rounded


def test_two_joint_columns_are_looked_at_together():
    # each column alone tells nothing: the second equals the first, or is its opposite
    rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    fair = Discrete(rows, [0.25] * 4)
    same, opposite = Discrete(rows, [0.5, 0, 0, 0.5]), Discrete(rows, [0, 0.5, 0.5, 0])
    release = release_of({"a": fair, "b": fair}, theta=[1.0, 1.0])
    told = release.against({"a": same, "b": opposite})
    assert told.loss == pytest.approx(math.log(math.cosh(1.0)), abs=1e-9)
    assert told.loss >= math.log(math.cosh(1.0))
    apart = release_of({"a": fair, "b": fair}, theta=[1.0, 1.0], groups=[[0], [1]])
    assert apart.against({"a": same, "b": opposite}).loss <= DRAWN


def test_losses_add_up_over_independent_groups():
    rng = np.random.default_rng(3)
    (_, one), (_, two) = random_distributions(rng), random_distributions(rng)
    joint = {
        label: Discrete.from_counts(
            [[x, y] for x in one[label].atoms for y in two[label].atoms],
            np.outer(one[label].counts, two[label].counts).ravel(),
        )
        for label in "ab"
    }
    release = release_of(joint, theta=[1.0, 2.0], groups=[[0], [1]])
    parts = [
        directed_losses(one["a"], one["b"], 1.0),
        directed_losses(two["a"], two["b"], 2.0),
    ]
    assert release.against(joint).loss == pytest.approx(
        float(max(parts[0][way] + parts[1][way] for way in (0, 1))), abs=DRAWN
    )


@pytest.mark.parametrize("label", ["laplace", "renyi", "delta", "cauchy"])
def test_against_the_exact_loss_of_every_notion(label):
    fitted, further = random_distributions(np.random.default_rng(5))
    p, q = further["a"], further["b"]
    noise = {"laplace": Laplace(), "cauchy": Cauchy()}.get(label, Gaussian())
    notion = {"renyi": RenyiPufferfish(1.0, 3.0), "delta": Pufferfish(0.05, 1e-3)}.get(label)
    told = release_of(fitted, noise=noise, notion=notion).against(further)
    if label == "renyi":
        true = max(renyi_loss(p, q, noise, 3.0), renyi_loss(q, p, noise, 3.0))
    elif label == "delta":
        true = max(delta_loss(p, q, noise, 0.05), delta_loss(q, p, noise, 0.05))
    else:
        true = max(pure_loss(p, q, noise), pure_loss(q, p, noise))
    assert told.loss == pytest.approx(true, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize(("noise", "instances"), [(Laplace(0.8), 20), (Cauchy(1.0), 8)])
def test_a_pure_loss_is_never_below_a_log_ratio(noise, instances):
    for seed in range(instances):
        rng = np.random.default_rng(seed)
        fitted, further = random_distributions(
            rng, labels="abc"[: 2 + seed % 2], sparse=seed % 3 == 0
        )
        theta = noise.axis_scales(1)
        told = release_of(fitted, noise=noise, theta=theta).against(further)
        true = max(pure_loss(p, q, noise) for p, q in ordered(further))
        assert true * (1 - 1e-12) <= told.loss <= true * 1.01 + DRAWN


def _loss_agrees(seed, noise, notion):
    rng = np.random.default_rng(seed)
    fitted, further = random_distributions(rng, labels="abc"[: 2 + seed % 2], sparse=seed % 3 == 0)
    told = release_of(fitted, noise=noise, notion=notion, theta=[1.5]).against(further)
    if isinstance(notion, RenyiPufferfish):
        true = max(renyi_loss(p, q, noise, notion.alpha) for p, q in ordered(further))
        assert true - 1e-9 <= told.loss <= true * 1.001 + 1e-9
    else:
        true = max(delta_loss(p, q, noise, notion.epsilon) for p, q in ordered(further))
        assert abs(told.loss - true) <= 1e-4


NOISES = [Laplace(1.5), Gaussian(1.5), Cauchy(1.5)]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("alpha", [1.2, 7.0])
def test_a_renyi_loss_is_that_of_an_integral(noise, alpha):
    _loss_agrees(0, noise, RenyiPufferfish(1.0, alpha))


@pytest.mark.parametrize("noise", NOISES)
def test_a_delta_is_that_of_an_integral(noise):
    _loss_agrees(1, noise, Pufferfish(0.5, 1e-3))


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "notion", [Pufferfish(0.3, 1e-2), *(RenyiPufferfish(1.0, a) for a in (1.1, 2.0, 3.5, 8.0))]
)
def test_losses_are_those_of_integrals_on_many_instances(noise, notion):
    for seed in range(100, 105 if isinstance(noise, Cauchy) else 115):
        _loss_agrees(seed, noise, notion)


def test_only_protected_pairs_are_looked_at():
    fitted, further = random_distributions(np.random.default_rng(9), labels="abc")
    release = release_of(fitted)
    release.pairs["s"] = [("a", "b")]
    told = release.against({**further, "c": Discrete([0], [1.0])})
    assert told.loss == pytest.approx(
        max(map(float, directed_losses(further["a"], further["b"], 1)))
    )
    assert len(told.pairs) == 2


@pytest.mark.parametrize(
    ("scale", "theta"), [(1e-12, 1e-12), (1.0, 1e-6), (1.0, 1e6), (1e12, 1e12)]
)
@pytest.mark.parametrize(
    ("noise", "notion"),
    [
        (Laplace(), Pufferfish(750.0)),
        (Laplace(), Pufferfish(1e-3)),
        (Cauchy(), Pufferfish(1.0)),
        (Laplace(), Pufferfish(0.1, 1e-300)),
        (Gaussian(), Pufferfish(750.0, 1e-300)),
        (Gaussian(), Pufferfish(1e-3, 0.5)),
        (Laplace(), RenyiPufferfish(1.0, 1.001)),
        (Gaussian(), RenyiPufferfish(1.0, 1e3)),
    ],
    ids=str,
)
def test_extreme_scales_and_budgets_give_ordered_numbers(scale, theta, noise, notion):
    fitted, further = random_distributions(np.random.default_rng(4))
    fitted, further = (
        {
            label: Discrete.from_counts(distribution.atoms * scale, distribution.counts)
            for label, distribution in distributions.items()
        }
        for distributions in (fitted, further)
    )
    step = 2.0 ** math.floor(math.log2(scale * 2.0**-40))
    release = release_of(fitted, noise=noise, notion=notion, theta=[theta], grids=[step])
    told = release.against(further)
    assert told.lower <= told.loss
    assert not math.isnan(told.loss)


def test_masses_that_floats_cannot_hold_have_a_loss():
    fitted, _ = random_distributions(np.random.default_rng(4))
    tiny = Discrete.from_counts(np.arange(4), [1, 1, 1, 10**320])
    told = release_of(fitted).against({**fitted, "a": tiny})
    assert 0.0 < told.lower <= told.loss <= 3.0 + DRAWN


def test_several_releases_have_the_error_of_several_draws():
    fitted, further = random_distributions(np.random.default_rng(4))
    one = release_of(fitted)
    three = replace(one, problem=replace(one.problem, releases=3))
    more = three.against(further).loss - one.against(further).loss
    assert more == pytest.approx(2 * sampler_loss(1), rel=1e-2)


# ---------------------------------------------------------------------------- without the noise


def test_a_column_without_noise_loses_what_the_prior_says():
    fair = Discrete([0, 1], [0.5, 0.5])
    release = release_of({"a": fair, "b": fair}, theta=[0.0])
    told = release.against({"a": fair, "b": Discrete([0, 1], [0.2, 0.8])})
    assert told.loss == pytest.approx(math.log(0.5 / 0.2), rel=1e-9)
    sure = release.against({"a": fair, "b": Discrete([1], [1.0])})
    assert sure.loss == math.inf
    assert not sure.holds
    assert release.against({"a": fair, "b": fair}).loss == 0.0


def test_noise_on_another_column_is_not_counted_for_one_without():
    rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    fitted = {label: Discrete(rows, [0.5, 0, 0.5, 0]) for label in "ab"}
    release = release_of(fitted, theta=[1.0, 0.0])
    told = release.against({"a": fitted["a"], "b": Discrete(rows, [0.25] * 4)})
    # the second column is 1 under b alone
    assert told.loss == math.inf
    assert release.against(fitted).loss <= DRAWN


# ----------------------------------------------------------------------- through a fitted noiser


def fit(table, **options):
    """Fit a noiser; return it, and what its certificate is asked with."""
    one = PufferfishNoiser(sensitive="s", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        one.fit(table)
    return one, one.certificate_.fitted


def some_table(n_rows=300):
    rng = np.random.default_rng(0)
    secret = rng.integers(0, 2, n_rows)
    return pd.DataFrame(
        {
            "s": np.where(secret, "yes", "no"),
            "a": rng.integers(0, 4, n_rows) + secret,
            "b": rng.choice([0.1, 0.7, 1.9], n_rows),
        }
    )


def own_prior(table, public, change=0):
    """Return the distribution of the rows of each secret, or one near it."""
    distributions = {}
    for secret, rows in table.groupby("s"):
        counts = rows[public].value_counts().sort_index()
        atoms = np.array([np.atleast_1d(row) for row in counts.index], dtype=float)
        extra = change * (np.arange(len(counts)) % 3)
        distributions[secret] = Discrete.from_counts(
            atoms if len(public) > 1 else atoms[:, 0], counts.to_numpy() + extra
        )
    return distributions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("public", "options"),
    [
        (["a", "b"], {"epsilon": 0.5}),
        (["a", "b"], {"epsilon": 0.5, "dependence": "independent"}),
        (["a"], {"epsilon": 0.5, "noise": "cauchy"}),
        (["a"], {"epsilon": 0.1, "alpha": 2.0}),
        (
            ["a", "b"],
            {"epsilon": 0.1, "alpha": 2.0, "noise": "gaussian", "dependence": "independent"},
        ),
        (["a"], {"epsilon": 0.1, "delta": 1e-3, "noise": "gaussian"}),
        (["a", "b"], {"epsilon": 0.2, "delta": 1e-2, "dependence": "independent"}),
        (["a"], {"epsilon": 0.1, "alpha": 2.0, "strategy": "wasserstein"}),
    ],
    ids=str,
)
def test_the_fitted_prior_keeps_the_loss_of_the_certificate(public, options):
    table = some_table()
    one, release = fit(table, public=public, **options)
    told = release.against(own_prior(table, public))
    assert told.loss <= one.certificate_.loss * (1 + 1e-9)
    if options.get("strategy") != "wasserstein":
        assert told.loss == pytest.approx(one.certificate_.loss, rel=1e-9)
    assert told.holds
    near = release.against(own_prior(table, public, change=1))
    assert near.loss != told.loss


@pytest.mark.slow
def test_a_gaussian_prior_is_compared_with_a_gaussian_one():
    rng = np.random.default_rng(0)
    table = some_table().assign(b=rng.normal(size=300) + rng.integers(0, 2, 300))
    one, release = fit(table, public=["b"], prior="gaussian", epsilon=0.2)
    assert [len(column.atoms) for column in release.columns] == [1]  # numbers are not kept
    distributions = {label: of[("b",)] for label, of in one.priors_["s"].items()}
    told = release.against(distributions)
    assert told.loss == pytest.approx(one.certificate_.loss, rel=1e-6)
    distribution = distributions["no"]
    moved = {
        **distributions,
        "no": GaussianMixture(distribution.weights, distribution.means + 0.01, distribution.scales),
    }
    told = release.against(moved)
    assert told.loss != pytest.approx(one.certificate_.loss, rel=1e-3)
    with pytest.raises(ValueError, match="give GaussianMixture priors"):
        release.against({"no": Discrete([0], [1]), "yes": Discrete([1], [1])})


def test_values_fall_into_bins_as_rows_do():
    table = some_table().assign(a=np.arange(300) % 50)
    _, release = fit(table, public=["a"], n_bins=3, epsilon=0.1)
    by_row = {"no": Discrete([0, 30], [0.5, 0.5]), "yes": Discrete([1, 30], [0.5, 0.5])}
    assert release.against(by_row).loss <= DRAWN


@pytest.mark.slow
def test_a_grid_that_is_too_large_leaves_a_theorem():
    table = some_table().assign(c=np.arange(300) % 2)
    _, release = fit(
        table, public=["a", "b", "c"], alpha=2.0, epsilon=0.5, noise="gaussian", strategy="exact"
    )
    told = release.against(own_prior(table, ["a", "b", "c"], change=1))
    assert {pair.source for pair in told.pairs} == {"theorem"}
    assert told.lower <= told.loss < math.inf
    assert "out of reach" in str(told)


# --------------------------------------------------------------------------------- how it is told


def test_it_is_told_in_sentences():
    fitted, further = random_distributions(np.random.default_rng(1))
    told = release_of(fitted, theta=[100.0]).against(further)
    assert told.holds
    assert "this prior (holds): epsilon = 1" in str(told)
    assert "another prior has a loss of its own" in str(told)
    assert list(told.table["secret"]) == ["a", "b"]
    assert told.table["upper"].max() == told.loss
    apart = {"a": Discrete([0], [1.0]), "b": Discrete([3], [1.0])}
    assert release_of(fitted, theta=[0.0]).against(apart).loss == math.inf
    broken = release_of(fitted, theta=[0.5]).against(
        {"a": Discrete([0], [1.0]), "b": Discrete([3], [1.0])}
    )
    assert broken.loss == pytest.approx(6.0)
    assert "(DOES NOT HOLD): epsilon = 1, proven loss 6" in str(broken)
    same = release_of(fitted, theta=[0.0]).against({"a": further["a"], "b": further["a"]})
    assert "proven loss 0" in str(same)


def test_a_copy_that_was_pickled_answers_the_same():
    fitted, further = random_distributions(np.random.default_rng(1))
    release = release_of(fitted)
    again = pickle.loads(pickle.dumps(release))
    assert again.against(further) == release.against(further)
    assert len(pickle.dumps(release)) < 5000


# ---------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("empirical", "prior must map every secret"),
        ({"a": Discrete([0], [1])}, "no prior for 'b'"),
        ({"a": Discrete([[0, 1]], [1]), "b": Discrete([[0, 1]], [1])}, "2 column"),
        ({"a": Discrete([0], [1]), "b": 0.5}, "must hold priors.Discrete"),
        ({"a": Discrete([0], [1]), "b": Discrete([0, 7.5], [0.5, 0.5])}, "7.5 in column 'x0'"),
        ({"a": Discrete([0], [1]), "b": GaussianMixture([1], [0], [1])}, "give Discrete priors"),
    ],
)
def test_a_prior_that_cannot_be_is_refused(prior, message):
    fitted, _ = random_distributions(np.random.default_rng(0))
    with pytest.raises((TypeError, ValueError), match=message):
        release_of(fitted).against(prior)


def test_a_value_of_mass_zero_may_be_unknown():
    fitted, further = random_distributions(np.random.default_rng(0))
    told = release_of(fitted).against(further)
    distribution = further["a"]
    wider = Discrete.from_counts(
        np.append(distribution.atoms, 99.0), np.append(distribution.counts, 0)
    )
    assert release_of(fitted).against({**further, "a": wider}) == told


def test_a_code_that_was_not_seen_is_named_by_its_label():
    kinds = pd.Categorical(np.arange(300) % 2, categories=[0, 1, 2]).rename_categories(
        ["amber", "blue", "green"]
    )
    _, release = fit(some_table().assign(b=kinds), public=["b"], epsilon=0.2)
    with pytest.raises(ValueError, match=r"'green' \(code 2\) in column 'b'.*adversaries="):
        release.against({"no": Discrete([0], [1]), "yes": Discrete([2], [1])})


def test_rows_that_may_be_incomplete_are_refused():
    table = some_table()
    table.loc[::7, "b"] = np.nan
    _, release = fit(table, public=["a", "b"], missing="propagate", epsilon=0.5)
    prior = own_prior(table.dropna(), ["a", "b"])
    with pytest.raises(ValueError, match="'b' is missing"):
        release.against(prior)
    _, release = fit(
        table, public=["a", "b"], missing="propagate", epsilon=0.5, dependence="independent"
    )
    told = release.against(prior)
    assert told.loss > 0.0


# ------------------------------------------------------------------------ through the certificate


def test_a_certificate_tells_what_another_prior_would_learn_also_when_it_was_saved():
    rng = np.random.default_rng(8)
    table = pd.DataFrame({"s": rng.integers(0, 2, 200), "x": rng.integers(0, 4, 200)})
    fitted = PufferfishNoiser(0.3, sensitive="s", strategy="wasserstein").fit(table)
    believed = {0: Discrete([0, 3], [0.5, 0.5]), 1: Discrete([1, 2], [0.5, 0.5])}
    told = fitted.certificate_.against(believed)
    expected = max(directed_losses(believed[0], believed[1], fitted.theta_["x"]))
    assert told.lower <= expected <= told.loss <= expected + 1e-6
    saved = pickle.loads(pickle.dumps(fitted))
    assert saved.certificate_ == fitted.certificate_
    assert saved.certificate_.against(believed) == told


def test_the_fitted_prior_learns_what_the_certificate_says():
    rng = np.random.default_rng(9)
    s = rng.integers(0, 2, 300)
    table = pd.DataFrame({"s": s, "x": rng.integers(0, 3, 300) + s})
    fitted = PufferfishNoiser(0.5, sensitive="s", releases=2).fit(table)
    prior = {label: distributions["x",] for label, distributions in fitted.priors_["s"].items()}
    assert fitted.certificate_.against(prior).loss == pytest.approx(fitted.certificate_.loss)


def test_a_certificate_without_distributions_says_where_to_get_one_with_them():
    table = pd.DataFrame({"s": [0, 1] * 20, "x": [0, 1, 0, 3] * 10})
    saved = PufferfishNoiser(sensitive="s").fit(table).to_json()
    bare = PufferfishRelease.from_json(saved).certificate_
    with pytest.raises(ValueError, match="take that of a fitted PufferfishNoiser, or fit again"):
        bare.against({0: Discrete([0], [1.0]), 1: Discrete([1], [1.0])})


@pytest.mark.parametrize("options", [{"alpha": 4.0}, {"delta": 1e-2}, {}, {"noise": "gaussian"}])
def test_the_lower_end_for_several_releases_is_that_of_the_certificate(options):
    options = options | ({"alpha": 2.0} if "noise" in options else {})
    rng = np.random.default_rng(10)
    s = rng.integers(0, 2, 300)
    table = pd.DataFrame({"s": s, "x": rng.integers(0, 3, 300) + 2 * s})
    fitted = PufferfishNoiser(0.8, sensitive="s", releases=3, **options).fit(table)
    prior = {label: distributions["x",] for label, distributions in fitted.priors_["s"].items()}
    told = fitted.certificate_.against(prior)
    assert told.lower == pytest.approx(fitted.certificate_.table["lower"].max(), rel=1e-6)
    if "delta" in options or ("alpha" in options and "noise" not in options):
        assert told.lower < 0.9 * told.loss  # that of one of them, not of one at their scale
