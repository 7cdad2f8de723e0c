"""Adversaries whose prior is close
================================

Print the theorems of paper 004, Appendix A.4, beside what a close adversary really learns::

    python examples/close_priors.py

A release protects against the prior it was made for. Theorems A.3 to A.5 and Corollary A.1 say what
is left for an adversary whose prior is close to that one, from the distance between the two priors
alone. The loss itself can be computed instead: `certificate_.against(prior)` does.
"""

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.bounds import wasserstein
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, PriorPair

ALPHA, EPSILON = 2.0, 6.0
SCORES = np.arange(7)
COUNTS = {"day": [20, 30, 30, 20, 0, 0, 0], "evening": [0, 0, 0, 10, 40, 30, 20]}
FITTED = {course: np.array(counts) / 100 for course, counts in COUNTS.items()}


def main():
    believed = priors()
    print("Scores of 0 to 6 in two courses; the course is the secret.\n")
    print(f"Pure epsilon = {EPSILON:g}, Laplace noise by W_inf\n\n{_text(pure(believed))}\n")
    print(
        f"Renyi, alpha = {ALPHA:g}, epsilon = {EPSILON:g}, Gaussian noise by W_inf (Theorem 3.3)\n"
    )
    print(f"{_text(renyi(believed))}\n")
    printed, true = separate_infima()
    print(
        "Theorem A.4 takes the closest prior in each of its terms apart. Two fitted priors, a fair"
    )
    print(
        "bit whatever the secret, and 0 whatever the secret, and a stranger who believes in a fair"
    )
    print(
        f"bit given one secret and in 0 given the other: {printed:.3g} as printed, {true} without"
    )
    print("noise. One prior must stand in both terms; so it does above.")


def priors():
    """Return what adversaries may believe: {name: {course: masses of the scores}}."""
    flat = {
        course: (distribution > 0) / np.count_nonzero(distribution)
        for course, distribution in FITTED.items()
    }
    mixed = {
        f"{share:.0%} of a flat distribution": {
            course: (1 - share) * distribution + share * flat[course]
            for course, distribution in FITTED.items()
        }
        for share in (0.01, 0.1, 0.5)
    }
    nearer = {"day": np.roll(FITTED["day"], 1), "evening": np.roll(FITTED["evening"], -1)}
    sure = {"day": (SCORES == 2).astype(float), "evening": FITTED["evening"]}
    names = {"the fitted distribution": FITTED, **mixed}
    return names | {"one score nearer": nearer, "2 for sure, by day": sure}


def pure(believed):
    """Return Theorem A.3, and what moves say under a pure guarantee, beside the loss."""
    noiser = fit()
    own, scale = noiser.certificate_.loss, noiser.theta_["score"]
    rows = {}
    for name, distribution in believed.items():
        pairs = _pairs(distribution) + [(q, p) for p, q in _pairs(distribution)]
        rows[name] = {
            "Theorem A.3": own + 2 * max(divergence(*pair, np.inf) for pair in pairs),
            "as A.5": own + 2 * farthest(_pairs(distribution)) / scale,
            "loss": _loss(noiser, distribution),
        }
    return pd.DataFrame(rows).T


def renyi(believed):
    """Return Theorems A.4 and A.5 and Corollary A.1 for the best p, q and r, beside the loss."""
    noiser = fit(alpha=ALPHA, noise="gaussian")
    scale, largest = noiser.theta_["score"], farthest([tuple(FITTED.values())])
    rows = {}
    for name, distribution in believed.items():
        largest_move = farthest(_pairs(distribution))
        rows[name] = {
            "Theorem A.4": theorem(
                lambda order: shift_loss(largest, scale, order),
                lambda order, distribution=distribution: _apart(_pairs(distribution), order),
                lambda order, distribution=distribution: _apart(
                    [pair[::-1] for pair in _pairs(distribution)], order
                ),
            ),
            "Theorem A.5": theorem(
                lambda order: shift_loss(largest, scale, order),
                *[lambda order, move=largest_move: shift_loss(move, scale, order)] * 2,
            ),
            "Corollary A.1": corollary(largest, largest_move, scale),
            "loss": _loss(noiser, distribution),
        }
    return pd.DataFrame(rows).T


def theorem(fitted_loss, first, second, alpha=ALPHA):
    """Return the smallest value of Theorem A.4 or A.5 over p, q and r.

    ``fitted_loss`` is the loss under the fitted prior, ``first`` and ``second`` the distance of the
    priors, all as functions of the order.
    """
    p, q, r = choices()
    values = (1 + 1 / (r * (alpha - 1))) * fitted_loss(q * (alpha - 1 / p))
    values = values + (1 + (1 / r + 1 / q) / (alpha - 1)) * first(alpha * p)
    return np.min(values + second((alpha - 1) * r + 1))


def corollary(largest, moved, scale, alpha=ALPHA):
    """Return the smallest value of Corollary A.1 as printed."""
    p, q, r = choices()
    epsilon = q * (alpha - 1 / p) * largest**2 / (2 * scale**2)
    extra = alpha * (p + (p - 1) / (alpha - 1)) + (alpha - 1) * r + 1
    extra *= moved**2 / largest**2 / (q * (alpha - 1 / p))
    return np.min((1 + 1 / (r * (alpha - 1)) + extra) * epsilon)


def choices():
    """Return p, q and r with 1/p + 1/q + 1/r = 1, as three arrays."""
    shares = np.append(np.geomspace(1e-4, 0.1, 40), np.linspace(0.11, 0.98, 88))
    u, w = np.meshgrid(shares, shares)
    u, w = u[u + w < 0.9999], w[u + w < 0.9999]
    return 1 / u, 1 / (1 - u - w), 1 / w


def shift_loss(move, scale, order):
    """Return the Renyi loss of Gaussian noise whose centre moves (Corollary 3.1)."""
    return order * move**2 / (2 * scale**2)


def farthest(pairs):
    """Return the largest W_inf of some pairs of distributions."""
    distributions = [PriorPair(Discrete(SCORES, p), Discrete(SCORES, q)) for p, q in pairs]
    # the pure loss of a move under Laplace noise of scale 1 is its length
    return wasserstein(distributions, Laplace(), Pufferfish(1.0)).losses(1.0).max()


def divergence(p, q, order):
    """Return D_order(p || q) of two rows of masses, for one order or many."""
    with np.errstate(divide="ignore"):
        ratios = np.log(p[p > 0]) - np.log(q[p > 0])
    if np.ndim(order) == 0 and np.isinf(order):
        return ratios.max()
    terms = np.log(p[p > 0]) + np.multiply.outer(order - 1, ratios)
    return logsumexp(terms, axis=-1) / (order - 1)


def separate_infima():
    """Return Theorem A.4 as printed for two fitted priors that tell nothing, and the true loss."""
    fair, zero = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    fitted, stranger = [(fair, fair), (zero, zero)], (fair, zero)

    def closest(pair_of):
        return lambda order: np.min(
            [
                _apart(list(map(pair_of, stranger, distributions)), order)
                for distributions in fitted
            ],
            axis=0,
        )

    printed = theorem(lambda order: 0.0, closest(lambda s, t: (s, t)), closest(lambda s, t: (t, s)))
    return printed, float(divergence(fair, zero, ALPHA))


def fit(**options):
    """Return a noiser that is fitted to a table with the counted scores."""
    rows = [(course, score) for course in COUNTS for score in SCORES]
    table = pd.DataFrame(rows, columns=["course", "score"])
    noiser = PufferfishNoiser(EPSILON, sensitive="course", strategy="wasserstein", **options)
    return noiser.fit(table, sample_weight=np.ravel([*COUNTS.values()]))


def _loss(noiser, distribution):
    prior = {course: Discrete(SCORES, masses) for course, masses in distribution.items()}
    return noiser.certificate_.against(prior).loss


def _pairs(distribution):
    return [(distribution[course], FITTED[course]) for course in FITTED]


def _apart(pairs, order):
    return np.max([divergence(*pair, order) for pair in pairs], axis=0)


def _text(table):
    return table.to_string(float_format="{:.3f}".format)


if __name__ == "__main__":
    main()
