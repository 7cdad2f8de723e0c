"""A noise of one's own (paper 003, section VI-B)
==============================================

Release a table under a noise that the package does not have::

    python examples/own_noise.py

Section VI-B of paper 003 says that noise of density K(z) ~ e^(-d(z)) can take the place of Laplace
noise. This is logistic noise, d(z) = 2 log cosh(z / (2 s)): as smooth as a normal distribution in
the middle and as heavy as Laplace noise in its tails. A shift by z changes d by at most abs(z) / s,
as much as it does for Laplace noise of scale s, so every scale that is derived from that, such as
W_inf / epsilon and Theorem 1 of 003, holds for it, too. What it really loses is computed: the exact
loss asks for less.

The family must be self-decomposable, so that more noise is never less private. This one is: its
characteristic function pi t / sinh(pi t) = prod_n 1 / (1 + t^2 / n^2) (Euler) makes it an infinite
sum of independent Laplace variables of scales 1/n, each of which is self-decomposable, a property
that sums and limits keep (Steutel and van Harn, Infinite Divisibility of Probability Distributions
on the Real Line, 2004, Prop. V.2.2 and V.2.4).
"""

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pandas as pd
from scipy.special import zeta
from scipy.stats import norm

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.noise import Laplace, ProductNoise, Steep
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture

_TERMS = np.arange(1, 21)
_SERIES = -((-1.0) ** _TERMS) * zeta(2.0 * _TERMS) / _TERMS  # of log(sinh z / z) in (z / pi)^2


@dataclass(frozen=True)
class Logistic(ProductNoise):
    """Logistic noise, independent on each axis; the losses are those of a shift by u scales."""

    # |score| rises to 1 all the way out, and (log K)'' to 0
    _steepest_at = math.inf
    _most_convex_at = math.inf

    def _log_density(self, u):
        return -np.abs(u) - 2.0 * np.log1p(np.exp(-np.abs(u)))

    def _score(self, u):
        return -np.tanh(0.5 * u)

    def _bend(self, u):
        falling = np.exp(-np.abs(u))
        return -2.0 * falling / np.square(1.0 + falling)

    def _turn(self, u):
        return -self._bend(u)  # times tanh(u / 2)

    def _max_divergence(self, u):
        return u

    def _renyi(self, u, alpha):
        # e^((alpha - 1) D) = sinh((2 alpha - 1) u / 2) / ((2 alpha - 1) sinh(u / 2))
        half = 0.5 * u
        return (_log_sinhc((2.0 * alpha - 1.0) * half) - _log_sinhc(half)) / (alpha - 1.0)

    def _delta(self, u, epsilon):
        lost = np.expm1(0.5 * np.minimum(epsilon - u, 0.0))
        return np.square(lost) / -np.expm1(-np.where(u > 0.0, u, 1.0))

    def _mass(self, a, b, width):
        ends = (1.0 + np.exp(-np.abs(a))) * (1.0 + np.exp(-np.abs(b)))
        return -np.expm1(-width) * np.exp(-np.maximum(a, 0.0)) / ends

    def _shape(self):
        return LogisticShape()


def _log_sinhc(z):
    """Return log(sinh z / z) with a small relative error."""
    small = np.minimum(z, 1.0)
    series = np.square(small / math.pi)[..., None] ** _TERMS @ _SERIES
    large = np.maximum(z, 1.0)
    return np.where(z < 1.0, series, large + np.log(-np.expm1(-2.0 * large) / (2.0 * large)))


@dataclass(frozen=True)
class LogisticShape(Steep):
    """The density of |N|, p(x) = sech^2(x/2) / 2; x^2 p falls from x = 2.4 on, and |p''| <= p."""

    @property
    def cell_exponent(self):
        return -7

    def at_zero(self):
        return Decimal("0.5")

    def decay(self, x):
        return 2.0 * (np.logaddexp(0.5 * x, -0.5 * x) - math.log(2.0))

    def decays_to(self, level):
        return 2.0 * math.acosh(math.exp(0.5 * level))


def main():
    print(
        "Scores of two courses, epsilon = 1, delta = 0.01: the scale, its bound, the exact delta\n"
    )
    print(f"{scales(Pufferfish(1.0, 0.01)).to_string(float_format='{:.4g}'.format)}\n")
    print("N(0, 0.5) against N(0, 4), epsilon = 1, delta = 0.5: the scale of Theorem 1 of 003")
    scale, delta = of_gaussians()
    print(f"for Laplace noise, {scale:.4f}, has delta {delta:.2g} with logistic noise\n")
    noiser, released = release(table())
    print(noiser.certificate_.promise())
    print(f"theta = {noiser.theta_['score']:.4f}; released: {released['score'].tolist()[:10]}")


COUNTS = {"day": [12, 22, 28, 20, 10, 5, 3], "evening": [3, 7, 20, 28, 22, 12, 8]}


def scales(notion):
    """Return a row for each noise and strategy: the scale, its proven bound, and the loss."""
    pair = tuple(Discrete.from_counts(range(7), counts) for counts in COUNTS.values())
    rows = {}
    for noise in (Laplace(), Logistic()):
        for strategy in ("wasserstein", "distribution_aware", "approximate", "exact"):
            calibration = calibrate([pair], notion, noise=noise, strategy=strategy)
            loss = privacy_loss(*pair, noise.with_scale(calibration.scale), notion)
            row = {"scale": calibration.scale, "bound": calibration.bound, "exact": loss.upper}
            rows[noise.name, strategy] = row
    return pd.DataFrame(rows).T


def of_gaussians(epsilon=1.0, delta=0.5):
    """Return the scale of Theorem 1, and delta of logistic noise of that scale, by a sum.

    It is the larger of the two directions over a fine grid of released values: no proof.
    """
    priors = [(0.0, 0.5), (0.0, 4.0)]
    pair = tuple(GaussianMixture([1.0], [mean], [sd]) for mean, sd in priors)
    scale = calibrate([pair], Pufferfish(epsilon, delta), strategy="monge").scale
    x, y = np.linspace(-40.0, 40.0, 1601), np.linspace(-150.0, 150.0, 6001)
    kernel = np.exp(Logistic(scale).log_density((y[:, None] - x)[..., None]))
    p, q = (kernel @ norm.pdf(x, *prior) * np.diff(x)[0] for prior in priors)
    gaps = [np.maximum(a - math.exp(epsilon) * b, 0.0) for a, b in ((p, q), (q, p))]
    return scale, max(float(gap.sum() * np.diff(y)[0]) for gap in gaps)


def table():
    """Return a row for each person, in an order that does not tell the course."""
    rows = [(course, k) for course, n in COUNTS.items() for k in np.repeat(range(7), n)]
    table = pd.DataFrame(rows, columns=["course", "score"])
    return table.sample(frac=1.0, random_state=0, ignore_index=True)


def release(rows):
    """Return a fitted noiser and what it releases of the scores."""
    noiser = PufferfishNoiser(1.0, delta=0.01, sensitive="course", noise=Logistic()).fit(rows)
    return noiser, noiser.transform(rows)


if __name__ == "__main__":
    main()
