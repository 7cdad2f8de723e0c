"""Boxes that a plane of two columns is cut into: log ratios and masses at points within each."""

from itertools import pairwise, product

import numpy as np
import pytest
from loss_oracle_small import distribution_of
from scipy.special import logsumexp

from sklearn_puffer._losses import boxes
from sklearn_puffer._losses.boxes import _Plane, first_edges, split_edges
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete

FAMILIES = [Laplace((0.7, 2.0)), Gaussian((0.7, 2.0)), Cauchy((0.7, 2.0))]
FAMILIES += [GeneralizedCauchy((0.7, 2.0), 5.0)]
NOTION = Pufferfish(0.3, 1e-3)


def priors(seed):
    rng = np.random.default_rng(seed)
    atoms = np.cumsum(rng.uniform(0.3, 2.0, (2, 3)), axis=1)
    rows = np.array(list(product(*atoms)))
    counts = rng.integers(0, 9, (2, 9)) + (np.arange(9) == 4)
    return [Discrete.from_counts(rows, row) for row in counts], atoms


def log_density(prior, noise, y):
    """Return the log density at points (m, 2)."""
    weights = np.log(prior.probabilities[prior.counts > 0])
    logs = sum(
        distribution_of(noise, axis).logpdf(y[:, axis, None] - prior.rows[prior.counts > 0, axis])
        for axis in (0, 1)
    )
    return logsumexp(logs + weights, axis=1)


def chance(prior, noise, ends):
    """Return the mass of a box."""
    parts = [
        np.diff(distribution_of(noise, axis).cdf(np.array(ends[axis]) - prior.rows[:, [axis]]))
        for axis in (0, 1)
    ]
    return float((parts[0] * parts[1])[:, 0] @ prior.probabilities)


@pytest.mark.slow
@pytest.mark.parametrize("noise", FAMILIES, ids=lambda noise: type(noise).__name__)
@pytest.mark.parametrize("width", [0.02, 0.4])
def test_every_box_holds_its_masses_and_log_ratios_and_hardly_more(noise, width):
    (p, q), atoms = priors(0)
    scales = noise.axis_scales(2)
    edges = []
    for k in (0, 1):
        starts = np.array([atoms[k, 1] - 0.1 * width, atoms[k, -1]])  # the outermost are edges
        near = np.concatenate((starts, starts + width * scales[k], atoms[k, :1] + [0.0, 0.01]))
        edges.append(np.concatenate(([-np.inf], np.unique(near), [np.inf])))
    panels, shares = _Plane.of(p, q, noise).cut(edges, NOTION)
    assert [share.size for share in shares] == [e.size - 1 for e in edges]
    found = zip(*(getattr(panels, name) for name in panels.__dataclass_fields__), strict=True)
    for ends, bounds in zip(product(*map(pairwise, edges)), found, strict=True):
        p_low, p_high, q_low, q_high, low, high = bounds
        for least, most, prior in ((p_low, p_high, p), (q_low, q_high, q)):
            exact = chance(prior, noise, ends)
            assert least - 1e-15 <= exact <= most + 1e-15
            assert most - least <= 1e-10 * most + 1e-300
        lines = [
            np.linspace(
                *np.clip(end, atoms[k, 0] - 40.0 * scales[k], atoms[k, -1] + 40.0 * scales[k]), 5
            )
            for k, end in enumerate(ends)
        ]
        points = np.array(list(product(*lines)))
        f = log_density(p, noise, points) - log_density(q, noise, points)
        dust = 1e-9 * (1.0 + np.abs(f).max())
        assert low <= f.min() + dust
        assert f.max() - dust <= high
        sizes = [(end[1] - end[0]) / scale for end, scale in zip(ends, scales, strict=True)]
        if max(sizes) <= width * 1.01:
            # with a kink inside, the bound is of first order
            bent = 4.0 * width if isinstance(noise, Laplace) else 8.0 * width**2
            assert high - low <= np.ptp(f) + bent + dust


def test_only_the_axis_that_tells_something_is_cut():
    rows = np.array(list(product([0.0, 1.0, 3.0], [0.0, 2.0])))
    p = Discrete(rows, np.outer([0.5, 0.3, 0.2], [0.4, 0.6]).ravel())
    q = Discrete(rows, np.outer([0.2, 0.3, 0.5], [0.4, 0.6]).ravel())
    edges = [np.array([-np.inf, *np.linspace(-2.0, 5.0, 15), np.inf])] * 2
    for noise in (Gaussian(1.0), Cauchy(1.0)):
        first, second = _Plane.of(p, q, noise).cut(edges, NOTION)[1]
        assert first[1:-1].sum() > 2.0 * second[1:-1].sum()
        turned = [Discrete(x.rows[:, ::-1], x.probabilities) for x in (p, q)]
        second, first = _Plane.of(*turned, noise).cut(edges, NOTION)[1]
        assert first[1:-1].sum() > 2.0 * second[1:-1].sum()


@pytest.mark.parametrize("noise", [Gaussian(2.0), Cauchy(2.0), GeneralizedCauchy(2.0, 5.0)])
@pytest.mark.parametrize("delta", [1e-2, 1e-4, 1e-7])
def test_an_axis_is_cut_out_to_where_a_tail_hardly_matters_and_no_further(noise, delta):
    notion, atoms = Pufferfish(0.5, delta), np.array([0.0, 1.0, 5.0])
    edges = first_edges(atoms, 0.0, noise, notion)
    assert edges[0] == -np.inf
    assert edges[-1] == np.inf
    assert (np.diff(edges) > 0.0).all()
    beyond = np.array([edges[-2] - 5.0, edges[-3] - 5.0])
    assert edges[1] == -beyond[0]
    moved = np.minimum(noise.drift(beyond, 5.0), 1.0)
    lost = distribution_of(noise).sf(beyond) * moved
    assert lost[0] <= 1e-5 * delta * (1.0 + 1e-9)
    assert lost[1] > 1e-5 * delta or beyond[1] < 4.0


def test_the_reach_grows_as_budgets_shrink_and_noise_with_a_kink_needs_none():
    atoms = np.array([0.0, 1.0, 5.0])
    for noise in (Gaussian(1.0), Cauchy(1.0), GeneralizedCauchy(1.0, 5.0)):
        for make in (
            lambda e: RenyiPufferfish(e, 2.0),
            lambda e: RenyiPufferfish(e, 20.0),
            Pufferfish,
        ):
            if make is not Pufferfish or not isinstance(noise, Gaussian):
                reaches = [first_edges(atoms, 0.0, noise, make(e))[-2] for e in (1.0, 0.1, 1e-3)]
                assert 7.0 <= reaches[0] <= reaches[1] <= reaches[2]
                assert reaches[0] < reaches[2] or isinstance(noise, Gaussian)
    assert first_edges(atoms, 0.0, Laplace(1.0), NOTION)[[1, -2]].tolist() == [0.0, 5.0]
    for atom in atoms:
        assert atom in first_edges(atoms, 0.0, Laplace(1.0), NOTION)
    assert first_edges(atoms[:1], 0.0, Laplace(1.0), NOTION).tolist() == [-np.inf, 0.0, np.inf]


def test_intervals_that_widen_the_loss_most_are_halved_within_the_room(monkeypatch):
    edges = [np.array([-np.inf, 0.0, 2.0, 4.0, np.inf]), np.array([-np.inf, 0.0, 1.0, np.inf])]
    shares = [np.array([9.0, 1.0, 8.0, 9.0]), np.array([0.0, 0.1, 0.0])]
    finer = split_edges(edges, shares)
    assert finer[0].tolist() == [-np.inf, 0.0, 2.0, 3.0, 4.0, np.inf]
    assert finer[1].tolist() == edges[1].tolist()
    shares[1][1] = 30.0
    assert split_edges(edges, shares)[1].tolist() == [-np.inf, 0.0, 0.5, 1.0, np.inf]
    monkeypatch.setattr(boxes, "MAX_BOXES", 12)
    assert split_edges(edges, shares) is None
    monkeypatch.setattr(boxes, "MAX_BOXES", 15)
    assert [e.size for e in split_edges(edges, [np.array([0.0, 1.0, 8.0, 0.0]), np.zeros(3)])] == [
        6,
        4,
    ]
