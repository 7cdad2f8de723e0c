"""What is drawn agrees with what is certified: releases of the whole estimator, counted.

The worst set of an (epsilon, delta) guarantee is where the odds exceed e^epsilon. How often
released values fall into it, under each secret, estimates the delta that was accounted for.
"""

from __future__ import annotations

import math
from functools import cache, cached_property

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.noise import GeneralizedCauchy
from sklearn_puffer.priors import GaussianMixture

N = 250_000  # releases of each secret
EPSILON, DELTA = 0.4, 0.05
SHARES = {"u": 0.8, "v": 0.25}  # of the larger value
FALSE_ALARM = 1e-6

pytestmark = pytest.mark.filterwarnings("ignore:random_state=")

#: A family, and its distribution at scale 1.
NOISES = {
    "laplace": ("laplace", stats.laplace()),
    "gaussian": ("gaussian", stats.norm()),
    "cauchy": ("cauchy", stats.cauchy()),
    "generalized": (GeneralizedCauchy(1.0, k=4.0), stats.t(3.0, scale=3.0**-0.5)),
}
#: Two values, the type they come in, and how they are released.
KINDS = {
    "integers": ([20, 23], np.int64, "native"),
    "small integers": ([-2, 2], np.int8, "native"),
    "floats": ([0.1, 0.4], np.float64, "native"),
    "raw floats": ([-1e6, 2e6], np.float64, "noisy"),
}


product = pytest.mark.parametrize(
    ("noise", "kind"),
    # of each noise every other kind, and the reverse
    [
        (noise, kind)
        for k, noise in enumerate(NOISES)
        for j, kind in enumerate(KINDS)
        if (k + j) % 2 == 0
    ],
)


class Releases:
    """Many rows of two values, released once, and the distributions they should follow."""

    def __init__(self, noise, kind):
        self.values, dtype, output = KINDS[kind]
        family, self.distribution = NOISES[noise]
        rng = np.random.default_rng(1)
        self.is_larger = {s: rng.random(N) < share for s, share in SHARES.items()}
        self.noiser = PufferfishNoiser(
            EPSILON, delta=DELTA, sensitive="s", noise=family, output=output, random_state=7
        ).fit(self._counted(dtype), sample_weight=[4, 16, 15, 5])
        rows = np.concatenate(
            [np.where(big, *self.values[::-1]) for big in self.is_larger.values()]
        )
        released = self.noiser.transform(pd.DataFrame({"x": rows.astype(dtype)}))["x"].to_numpy()
        self.released = dict(zip(SHARES, np.split(released.astype(float), 2), strict=True))
        self.theta = float(self.noiser.theta_["x"])
        self.is_whole = dtype != np.float64

    def _counted(self, dtype):
        x = np.array([*self.values, *self.values], dtype=dtype)
        return pd.DataFrame({"x": x, "s": ["u", "u", "v", "v"]})

    def below(self, secret, y):
        """Return P(released < y), to the left of whole numbers at half-way points."""
        share = SHARES[secret]
        small, large = ((np.asarray(y) - x) / self.theta for x in self.values)
        return (1.0 - share) * self.distribution.cdf(small) + share * self.distribution.cdf(large)

    @cached_property
    def log_ratios(self):
        """Return the log ratios at what was released of each secret."""
        found = {}
        for secret, seen in self.released.items():
            values, places = np.unique(seen, return_inverse=True)
            found[secret] = self.log_ratio(values)[places]
        return found

    def log_ratio(self, y):
        """Return log h_u / h_v of released values."""
        if self.is_whole:
            p, q = (self.below(s, y + 0.5) - self.below(s, y - 0.5) for s in "uv")
        else:
            small, large = (self.distribution.pdf((y - x) / self.theta) for x in self.values)
            p, q = ((1.0 - SHARES[s]) * small + SHARES[s] * large for s in "uv")
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(np.log(p) - np.log(q))


releases = cache(Releases)


@pytest.mark.slow
@product
def test_the_best_set_catches_no_more_than_the_accounted_delta(noise, kind):
    drawn = releases(noise, kind)
    certificate = drawn.noiser.certificate_
    table = certificate.table.set_index(["secret", "against"])
    assert certificate.holds
    for way, pair in ((1, ("u", "v")), (-1, ("v", "u"))):
        p, q = (float(np.mean(way * drawn.log_ratios[s] > EPSILON)) for s in pair)
        found = p - math.exp(EPSILON) * q
        sigma = math.sqrt((p * (1.0 - p) + math.exp(2.0 * EPSILON) * q * (1.0 - q)) / N)
        accounted = float(table.loc[pair, "upper"])
        assert found <= accounted + 5.0 * sigma
        if not drawn.is_whole:  # rounding to whole numbers may lose less
            assert found == pytest.approx(accounted, abs=5.0 * sigma + 1e-6)


@product
@pytest.mark.parametrize("secret", SHARES)
def test_the_released_values_follow_the_distribution_that_was_accounted_for(noise, kind, secret):
    drawn = releases(noise, kind)
    seen = drawn.released[secret]
    low, high = drawn.values[0] - 4.0 * drawn.theta, drawn.values[1] + 4.0 * drawn.theta
    edges = np.linspace(low, high, 60)
    if drawn.is_whole:
        edges = np.arange(math.floor(low), math.ceil(high)) + 0.5
        last = np.iinfo(KINDS[kind][1])
        edges = edges[(edges > last.min) & (edges < last.max)]
    expected = N * np.diff([0.0, *drawn.below(secret, edges), 1.0])
    counts = np.histogram(seen, [-np.inf, *edges, np.inf])[0]
    common = expected > 10.0
    counts, expected = counts[common], expected[common]
    tail = N - expected.sum()
    if tail > 10.0:
        counts, expected = np.append(counts, N - counts.sum()), np.append(expected, tail)
    # N is that of all cells; what lies in rare ones is one cell
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > FALSE_ALARM


@product
def test_every_released_value_is_on_the_grid(noise, kind):
    drawn = releases(noise, kind)
    [column] = drawn.noiser.certificate_.columns
    for seen in drawn.released.values():
        near = seen[np.abs(seen) < 2.0**52 * column.grid]
        assert np.array_equal(near, np.rint(near / column.grid) * column.grid)
    if not drawn.is_whole:
        assert column.grid <= drawn.theta * 2.0**-19


@pytest.mark.slow
def test_the_last_bits_of_a_release_do_not_tell_the_value():
    """Free columns: X is put on the grid before the noise, whatever its own last bits are."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    frame = pd.DataFrame({"s": ["u", "v"] * 1000, "x": x})
    noiser = PufferfishNoiser(0.2, sensitive="s", prior="gaussian", random_state=3).fit(frame)
    [column] = noiser.certificate_.columns
    assert column.grid > 0.0
    steps = noiser.transform(frame)["x"].to_numpy() / column.grid
    assert np.array_equal(steps, np.rint(steps))
    # the lowest bits are those of the noise: as often even under odd values as under even ones
    parity = np.floor(x / column.grid + 0.5) % 2.0
    table = np.histogram2d(parity, steps % 2.0, bins=2)[0]
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_continuous_priors_lose_what_is_accounted_for(noise):
    """Rows drawn from the very priors that were given."""
    distribution = NOISES[noise][1]
    prior = {"u": GaussianMixture([1], [5.0], [1.0]), "v": GaussianMixture([1], [6.0], [1.3])}
    rng = np.random.default_rng(2)
    x = {"u": rng.normal(5.0, 1.0, N), "v": rng.normal(6.0, 1.3, N)}
    few = pd.DataFrame({"s": ["u", "v"] * 10, "x": np.arange(20.0)})
    noiser = PufferfishNoiser(
        EPSILON, delta=DELTA, sensitive="s", public="x", prior=prior, noise=noise, random_state=5
    ).fit(few)
    theta = float(noiser.theta_["x"])
    nodes = np.linspace(-9.0, 9.0, 401)
    masses = np.exp(-0.5 * nodes**2)

    def density(y, mean, deviation):
        at = distribution.pdf((y[:, None] - mean - deviation * nodes) / theta)
        return at @ masses

    grid = np.linspace(-60.0, 70.0, 4001)
    ratio = np.log(density(grid, 5.0, 1.0) / density(grid, 6.0, 1.3))
    released = {s: noiser.transform(pd.DataFrame({"x": x[s]}))["x"] for s in x}
    ratios = {s: np.interp(y, grid, ratio) for s, y in released.items()}
    for way, (one, other) in ((1, "uv"), (-1, "vu")):
        p, q = (float(np.mean(way * ratios[s] > EPSILON)) for s in (one, other))
        sigma = math.sqrt((p * (1.0 - p) + math.exp(2.0 * EPSILON) * q * (1.0 - q)) / N)
        accounted = noiser.certificate_.table.set_index("secret").loc[one, "upper"]
        found = p - math.exp(EPSILON) * q
        assert found == pytest.approx(accounted, abs=5.0 * sigma + 1e-6)
