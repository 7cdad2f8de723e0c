"""What bounds the loss of one column: log ratios, masses and tails beside 30 digits.

Each bound must hold the truth, and must be hardly wider: a loss is only as tight as they are.
"""

import mpmath
import numpy as np
import pytest
from loss_oracle import density
from scipy.special import gammaln, logsumexp

from sklearn_puffer._losses.convolution import PriorGrid
from sklearn_puffer._losses.discrete_distributions import DiscretePair
from sklearn_puffer._losses.laplace_pair import LaplacePair
from sklearn_puffer._losses.quadrature import REACH, RISE
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.priors import Discrete

FAMILIES = [Laplace, Gaussian, Cauchy, lambda scale: GeneralizedCauchy(scale, 3.5)]
SEEDS = range(2)

families = pytest.mark.parametrize("family", FAMILIES, ids=["laplace", "gaussian", "cauchy", "k"])


def pair_of(atoms, counts, noise):
    """Return two priors over common atoms, and what bounds the loss between them."""
    priors = [Discrete.from_counts(atoms, row) for row in counts]
    atoms, masses = np.array(atoms, dtype=float), np.array([p.probabilities for p in priors])
    if isinstance(noise, Laplace):
        logs = PriorGrid([atoms], masses).log_masses
        return priors, LaplacePair(atoms, logs, noise.scale)
    with np.errstate(divide="ignore"):
        return priors, DiscretePair(atoms, masses, np.log(masses), noise)


def drawn(family, seed, zeros=True):
    """Return random priors, their noise, and what bounds the loss."""
    rng = np.random.default_rng(seed)
    noise = family(float(10.0 ** rng.uniform(-3.0, 3.0)))
    atoms = np.cumsum(rng.uniform(0.05, 4.0, 5)) * noise.scale
    counts = rng.integers(1, 9, (2, 5))
    if zeros:
        counts[0, 0] = counts[1, 3] = 0
    return *pair_of(atoms, counts, noise), noise, atoms, rng


def truths(priors, noise, points):
    """Return the log densities of both priors at points, shape (2, m)."""
    with mpmath.workdps(30):
        curves = [density(prior, noise) for prior in priors]
        return [[mpmath.log(h(mpmath.mpf(float(y)))) for y in points] for h in curves]


def ratios(priors, noise, points):
    return [p - q for p, q in zip(*truths(priors, noise, points), strict=True)]


def chance(noise, z):
    """Return P(N <= z) to 30 digits, for z <= 0 without a loss of digits."""
    if z > 0:
        return 1 - chance(noise, -z)
    u = z / mpmath.mpf(noise.scale)
    if isinstance(noise, Laplace):
        return mpmath.exp(u) / 2
    if isinstance(noise, Gaussian):
        return mpmath.ncdf(u)
    k = mpmath.mpf(getattr(noise, "k", 2))
    return mpmath.betainc((k - 1) / 2, 0.5, 0, 1 / (1 + u * u), regularized=True) / 2


@mpmath.workdps(30)
def mass(prior, noise, low, high):
    total = mpmath.mpf(0)
    for x, count in zip(prior.atoms.ravel().tolist(), prior.counts.tolist(), strict=True):
        ends = [mpmath.mpf(float(end)) - x for end in (low, high)]
        if ends[0] > 0:
            ends = [-end for end in ends[::-1]]
        total += count * (chance(noise, ends[1]) - chance(noise, ends[0]))
    return total / int(prior.total)


@families
@pytest.mark.parametrize("seed", SEEDS)
def test_log_densities_and_slopes_are_off_by_no_more_than_is_said_and_that_is_little(family, seed):
    priors, pair, noise, atoms, rng = drawn(family, seed)
    s = noise.scale
    points = np.sort(rng.uniform(atoms[0] - 3.0 * s, atoms[-1] + 3.0 * s, 12))
    points = np.concatenate((points, [atoms[0] - 25.0 * s, atoms[-1] + 60.0 * s]))
    at = pair.densities(points, points)
    exact = truths(priors, noise, points)
    with mpmath.workdps(30):
        for k, prior in enumerate(priors):
            curve = density(prior, noise)
            for j, y in enumerate(points.tolist()):
                found = mpmath.mpf(at.value[k, j]) + mpmath.mpf(at.base[j])
                off = at.error[k, j] + 4e-16 * (1.0 + abs(at.base[j]))
                assert abs(found - exact[k][j]) <= off <= 2e-14 * (3.0 + abs(exact[k][j]))
                step = mpmath.mpf(s) * mpmath.mpf(10) ** -8
                slope = (mpmath.log(curve(y + step)) - mpmath.log(curve(y - step))) / (2 * step)
                off = at.slope_error[k, j] + 1e-13 * (1.0 / s + abs(at.slope[k, j]))
                assert abs(at.slope[k, j] - slope) <= off <= 1e-11 * (1.0 / s + abs(slope))


@families
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("width", [1e-3, 0.1])
def test_log_ratios_and_masses_of_panels_lie_within_their_bounds(family, seed, width):
    priors, pair, noise, _, rng = drawn(family, seed)
    s, anchors = noise.scale, pair.anchors()
    low = rng.uniform(anchors[0], anchors[-1], 4)
    after = anchors[np.searchsorted(anchors, low, side="right")]
    low, high = np.append(low, anchors[:-1]), np.append(low + width * s, anchors[:-1] + width * s)
    high = np.minimum(high, np.append(after, anchors[1:]))
    seen, bounds = pair.look(low, high), pair.masses(low, high)
    for j in range(len(low)):
        f = ratios(priors, noise, np.linspace(low[j], high[j], 5))
        dust = mpmath.mpf(10) ** -18 * (1 + max(map(abs, f)))
        assert seen.log_low[j] <= min(f) + dust
        assert max(f) - dust <= seen.log_high[j]
        assert seen.seen_high[j] <= max(f) + dust  # that of an end, which is among the points
        assert min(f) - dust <= seen.seen_low[j]
        spread = float(max(f) - min(f))
        allowed = 0.0 if isinstance(noise, Laplace) else 4.0 * width**2
        least = 1e-12 * (1.0 + float(max(map(abs, f))))
        assert seen.log_high[j] - seen.log_low[j] <= spread + allowed + least
        assert seen.seen_high[j] - seen.seen_low[j] >= spread - allowed - least
        for k, prior in enumerate(priors):
            exact = mass(prior, noise, low[j], high[j])
            assert seen[5 + 2 * k][j] <= exact <= seen[6 + 2 * k][j]
            assert seen[6 + 2 * k][j] <= seen[5 + 2 * k][j] * np.exp(8.0 * width) + 1e-290
            assert bounds[2 * k][j] <= exact <= bounds[1 + 2 * k][j]
            assert bounds[1 + 2 * k][j] <= bounds[2 * k][j] * (1.0 + 1e-11) + 1e-290


@families
@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("seed", SEEDS)
def test_log_ratios_masses_and_integrals_of_tails_lie_within_their_bounds(family, side, seed):
    priors, pair, noise, *_ = drawn(family, seed)
    s = noise.scale
    last = pair.anchors()[-1 if side == 1 else 0]
    for edge in (last, last + side * 3.0 * s):
        seen = pair.tail(edge, side)
        f = ratios(priors, noise, edge + side * s * np.array([0.0, 0.4, 2.0, 7.0, 30.0]))
        dust = mpmath.mpf(10) ** -18 * (1 + max(map(abs, f)))
        assert seen.log_low[0] <= min(f) + dust
        assert max(f) - dust <= seen.log_high[0]
        ends = (edge, np.inf) if side == 1 else (-np.inf, edge)
        bounds = pair.masses(*(np.array([end]) for end in ends))
        exact = [mass(prior, noise, *ends) for prior in priors]
        for k, whole in enumerate(exact):
            assert seen[5 + 2 * k][0] <= whole <= seen[6 + 2 * k][0]
            assert bounds[2 * k][0] <= whole <= bounds[1 + 2 * k][0]
            assert bounds[1 + 2 * k][0] <= bounds[2 * k][0] * (1.0 + 1e-11) + 1e-290
        for alpha in (1.5, 4.0):
            power = pair.tail_power(edge, side, alpha)
            for k, way in enumerate((priors, priors[::-1])):
                exact_log = log_power(*way, noise, edge, side, alpha)
                assert exact_log <= power[k] + 1e-9
                if isinstance(noise, Laplace):  # the ratio is one number there
                    assert power[k] <= exact_log + 1e-9
                elif not isinstance(noise, Gaussian):
                    wide = (alpha - 1.0) * (seen.log_high[0] - seen.log_low[0])
                    most, least = seen[6 + 2 * k][0], seen[5 + 2 * k][0]
                    assert power[k] <= exact_log + wide + np.log(most / least) + 1e-8


def log_power(p, q, noise, edge, side, alpha):
    """Return log int h_p^alpha h_q^(1 - alpha) beyond an edge, by sums over ever longer parts."""
    nodes, weights = np.polynomial.legendre.leggauss(30)
    ends = noise.scale * np.append(0.0, np.geomspace(0.5, 1e9, 60))
    half = np.diff(ends)[:, None] / 2.0
    y = edge + side * (ends[:-1, None] + half * (1.0 + nodes))
    logs = [np.logaddexp.reduce(log_terms(prior, noise, y), axis=0) for prior in (p, q)]
    return logsumexp(alpha * logs[0] - (alpha - 1.0) * logs[1] + np.log(half * weights))


def log_terms(prior, noise, y):
    """Return the logs of what each value with mass adds to the density."""
    terms = []
    for x, count in zip(prior.atoms.ravel(), prior.counts, strict=True):
        z = (y - x) / noise.scale
        if isinstance(noise, Laplace):
            log_kernel = -np.abs(z) - np.log(2.0)
        elif isinstance(noise, Gaussian):
            log_kernel = -z * z / 2.0 - np.log(2.0 * np.pi) / 2.0
        else:
            k = getattr(noise, "k", 2.0)
            log_kernel = gammaln(k / 2.0) - gammaln((k - 1.0) / 2.0) - np.log(np.pi) / 2.0
            log_kernel = log_kernel - k / 2.0 * np.log1p(z * z)
        if count:
            terms.append(np.log(int(count) / int(prior.total)) + log_kernel - np.log(noise.scale))
    return np.array(terms)


@pytest.mark.parametrize("noise", [Gaussian(2.0), Cauchy(2.0), GeneralizedCauchy(2.0, 3.5)])
@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("edge", [1.0, 5.0, 40.0])
def test_bounds_in_a_tail_are_the_truth_for_two_single_values(noise, side, edge):
    atoms = [0.0, 3.0] if side == 1 else [-3.0, 0.0]
    counts = [[0, 1], [1, 0]] if side == 1 else [[1, 0], [0, 1]]
    priors, pair = pair_of(atoms, counts, noise)
    place = side * (3.0 + edge)
    (f,) = ratios(priors, noise, [place])
    seen = pair.tail(place, side)
    if isinstance(noise, Gaussian):
        assert seen.log_high[0] == np.inf
        alpha, d = 3.0, 1.5
        exact = alpha * (alpha - 1.0) * d * d / 2.0 + float(
            mpmath.log(mpmath.ncdf(-mpmath.mpf(edge) / 2 + (alpha - 1) * d))
        )
        assert exact <= pair.tail_power(place, side, alpha)[0] <= exact + 1e-9 * (1.0 + abs(exact))
    elif edge > 2.0:
        assert float(f) <= seen.log_high[0] <= float(f) * (1.0 + 1e-11)
    else:  # somewhere in this tail the ratio may be the largest of all
        assert seen.log_high[0] == pytest.approx(noise.max_divergence([3.0]), rel=1e-11)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("radius", [0.02, 0.2])
def test_the_integrand_under_laplace_noise_grows_no_more_than_stated_and_hardly_less(seed, radius):
    priors, pair, noise, atoms, _ = drawn(Laplace, seed, zeros=False)
    s, alpha = noise.scale, 2.5
    middles = np.array([atoms[0] - s, (atoms[1] + atoms[2]) / 2.0, atoms[-1] + 2.0 * s])
    radii = np.full(3, radius * s)
    at = pair.densities(middles, middles)
    found = pair.growth(middles, radii, at, alpha)
    turns = REACH * np.cos(np.linspace(0.0, np.pi, 25)) + 1j * RISE * np.sin(
        np.linspace(0.0, np.pi, 25)
    )
    for j, m in enumerate(middles.tolist()):
        rates = []
        for prior in priors:
            total = int(prior.total)
            parts = list(zip(prior.atoms.ravel().tolist(), prior.counts.tolist(), strict=True))

            def h(z, parts=parts, total=total, m=m):
                signs = [(1.0 if x <= m else -1.0, x, c) for x, c in parts]
                return sum(c / total * np.exp(-side * (z - x) / s) for side, x, c in signs)

            rates.append([np.log(abs(h(m + radii[j] * z) / h(m))) for z in turns])
        for k, (own, other) in enumerate((rates, rates[::-1])):
            true = max(alpha * a - (alpha - 1.0) * b for a, b in zip(own, other, strict=True))
            assert true <= found[k, j] <= true + 8.0 * alpha * radius**2 + 1e-8


@pytest.mark.parametrize("noise", [Cauchy(1.0), GeneralizedCauchy(1.0, 3.5)])
@pytest.mark.parametrize("alpha", [1.5, 4.0])
def test_between_two_values_far_apart_the_integrand_grows_as_fast_as_stated(noise, alpha):
    # towards one of them its density rises while the other one falls
    _, pair = pair_of([0.0, 200.0], [[1, 0], [0, 1]], noise)
    middles, radii, k = np.array([100.0]), np.array([0.5]), getattr(noise, "k", 2.0)
    found = pair.growth(middles, radii, pair.densities(middles, middles), alpha)
    share = REACH * radii[0] / 100.0
    exact = k * (alpha * -np.log1p(-share) + (alpha - 1.0) * np.log1p(share))
    assert exact <= found.min() * (1.0 + 1e-4)
    assert found.max() <= exact * 1.02
