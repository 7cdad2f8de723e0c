r"""Couplings of two priors, and what follows from them: the objects of the papers.

Use this module to follow a paper, to check a figure by hand, or to bound the loss to an adversary
whose prior is close to the one that a release was made for; `fit` does all of this inside.

A coupling is a joint distribution of two priors; how far its values lie apart says how much noise
is enough. All priors here are `Discrete`, and over one column where distances between values count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from sklearn_puffer._base import FloatArray
from sklearn_puffer._losses import bare_losses
from sklearn_puffer._numerics import quotient_rounded_up
from sklearn_puffer._strategies import monotone
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion, Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, PriorPair

__all__ = [
    "Plan",
    "close_adversary",
    "near",
    "optimal_plan",
    "renyi_divergence",
    "shift_reduction",
    "w_infinity",
    "w_p",
]

_OUTWARDS = 1.0 + 1e-12  # more than the rounding of sums of logs and powers


class Plan(NamedTuple):
    """A transport plan between two priors.

    Parameters
    ----------
    x, y : ndarray of shape (n_entries,)
        A value of the first prior, and the value of the second that it is coupled with.
    probability : ndarray of shape (n_entries,)
        The mass of the entry, positive; they sum to 1.

    Examples
    --------
    >>> from sklearn_puffer.couplings import optimal_plan
    >>> from sklearn_puffer.priors import Discrete
    >>> optimal_plan(Discrete([0], [1.0]), Discrete([2, 3], [0.5, 0.5])).y.tolist()
    [2.0, 3.0]
    """

    x: FloatArray
    y: FloatArray
    probability: FloatArray


def optimal_plan(p: Discrete, q: Discrete) -> Plan:
    r"""Return the optimal transport plan of two priors over one column.

    .. math:: \pi^* = \operatorname{distribution}(F^{-1}(U), G^{-1}(U)), \qquad
              \pi^*((-\infty, x] \times (-\infty, y]) = \min\{F(x), G(y)\}

    Parameters
    ----------
    p, q : Discrete
        Over one column.

    Returns
    -------
    Plan
        At most as many entries as both priors have values, less one, sorted by both values. It has
        the least mean distance of all couplings, to every power of at least 1, and the least
        largest distance.

    Raises
    ------
    TypeError
        If a prior is not `Discrete`.
    ValueError
        If a prior is over several columns.

    References
    ----------
    000, Eq. (20)-(22); 001, Appendix A.1.

    Examples
    --------
    >>> from sklearn_puffer.couplings import optimal_plan
    >>> from sklearn_puffer.priors import Discrete
    >>> plan = optimal_plan(Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75]))
    >>> [column.tolist() for column in plan]
    [[0.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.25, 0.25, 0.5]]
    """
    _check_one_column(p, q)
    coupled = monotone([PriorPair(p, q)])
    sources, targets, masses = coupled.of_pair(0)
    total = int(sum(masses.tolist()))
    probability = np.array([mass / total for mass in masses.tolist()])
    return Plan(p.rows[sources, 0], q.rows[targets, 0], probability)


def w_infinity(p: Discrete, q: Discrete) -> float:
    r"""Return W_inf of two priors over one column.

    .. math:: W_\infty = \max_u |F^{-1}(u) - G^{-1}(u)|, \quad u \text{ over the merged breakpoints}

    Parameters
    ----------
    p, q : Discrete
        Over one column.

    Returns
    -------
    float
        In the unit of the column.

    Raises
    ------
    TypeError
        If a prior is not `Discrete`.
    ValueError
        If the priors are over several columns.

    Notes
    -----
    This is 001, Lemma 3, which as printed holds on unit grids only. Where the two differ by
    cumulative probabilities within rounding of each other, the integers still tell them apart.

    Examples
    --------
    >>> from sklearn_puffer.couplings import w_infinity
    >>> from sklearn_puffer.priors import Discrete
    >>> w_infinity(Discrete([0, 10], [0.5, 0.5]), Discrete([0, 1], [0.6, 0.4]))
    10.0
    """
    _check_one_column(p, q)
    return float(np.abs(monotone([PriorPair(p, q)]).shifts).max())


def w_p(p: Discrete, q: Discrete, order: float) -> float:
    r"""Return the Wasserstein distance of an order of two priors over one column.

    .. math:: W_p = \left(\int_0^1 |F^{-1}(u) - G^{-1}(u)|^p du\right)^{1/p}

    Parameters
    ----------
    p, q : Discrete
        Over one column.
    order : float
        At least 1; infinity gives `w_infinity`.

    Returns
    -------
    float
        In the unit of the column.

    Raises
    ------
    TypeError
        If a prior is not `Discrete`.
    ValueError
        If the order is below 1, or a prior is over several columns.

    References
    ----------
    004, section 4.2.

    Examples
    --------
    >>> from sklearn_puffer.couplings import w_p
    >>> from sklearn_puffer.priors import Discrete
    >>> p, q = Discrete([0, 10], [0.5, 0.5]), Discrete([0], [1.0])
    >>> w_p(p, q, 1), round(w_p(p, q, 2), 6), w_p(p, q, float("inf"))
    (5.0, 7.071068, 10.0)
    """
    if not order >= 1.0:
        raise ValueError(f"order must be at least 1, got {order!r}; 1 is the mean distance.")
    if math.isinf(order):
        return w_infinity(p, q)
    plan = optimal_plan(p, q)
    moves = np.abs(plan.x - plan.y)
    largest = float(moves.max()) or 1.0  # powers of large moves may leave the floats
    mean = float(plan.probability @ (moves / largest) ** order)
    return largest * math.pow(mean, 1.0 / order)


def near(p: Discrete, q: Discrete, distance: float) -> float:
    r"""Return the least delta with which two priors are (distance, delta)-near.

    .. math:: \delta = \min_{\pi \in \Pi(p, q)} \pi(|X - Y| > z)

    Parameters
    ----------
    p, q : Discrete
        Over one column.
    distance : float
        z, in the unit of the column, not negative.

    Returns
    -------
    float
        0 from `w_infinity` on, and the total variation distance where z is 0. It is counted in
        whole numbers and rounded up.

    Raises
    ------
    TypeError
        If a prior is not `Discrete`.
    ValueError
        If the distance is negative or no number, or a prior is over several columns.

    References
    ----------
    004, Definition 4.2.

    Examples
    --------
    >>> from sklearn_puffer.couplings import near
    >>> from sklearn_puffer.priors import Discrete
    >>> p, q = Discrete([0, 1, 9], [0.5, 0.25, 0.25]), Discrete([0, 1], [0.5, 0.5])
    >>> near(p, q, 0.0), near(p, q, 7.9), near(p, q, 8.0)
    (0.25, 0.25, 0.0)
    """
    _check_one_column(p, q)
    if not distance >= 0.0:
        raise ValueError(f"distance must be a number from 0 on, got {distance!r}.")
    total = math.lcm(p.total, q.total)
    (x, have), (y, want) = (_sorted_masses(prior, total) for prior in (p, q))
    matched = i = j = 0
    while i < len(x) and j < len(y):
        if abs(x[i] - y[j]) <= distance:  # on a line the first that fits is as good as any
            moved = min(have[i], want[j])
            matched, have[i], want[j] = matched + moved, have[i] - moved, want[j] - moved
            i, j = i + (have[i] == 0), j + (want[j] == 0)
        else:
            i, j = i + (x[i] < y[j]), j + (y[j] < x[i])
    return quotient_rounded_up(total - matched, total)


def renyi_divergence(p: Discrete, q: Discrete, alpha: float) -> float:
    r"""Return the Renyi divergence of two priors, without noise, rounded up.

    .. math:: D_\alpha(p \| q) = \frac{1}{\alpha - 1} \log \sum_x p(x)^\alpha q(x)^{1 - \alpha}

    Parameters
    ----------
    p, q : Discrete
        Over the same columns.
    alpha : float
        Above 1; infinity gives the largest log ratio.

    Returns
    -------
    float
        In nats; infinity where p has a value that q has not.

    Raises
    ------
    ValueError
        If alpha is not above 1.

    References
    ----------
    004, Eq. (1).

    Examples
    --------
    >>> from sklearn_puffer.couplings import renyi_divergence
    >>> from sklearn_puffer.priors import Discrete
    >>> p, q = Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75])
    >>> round(renyi_divergence(p, q, 2.0), 6), round(renyi_divergence(p, q, float("inf")), 6)
    (0.287682, 0.693147)
    """
    if not alpha > 1.0:
        raise ValueError(f"alpha must be above 1, got {alpha!r}; infinity is the pure case.")
    return float(bare_losses(p, q, _of_order(alpha))[0])


def shift_reduction(
    p: Discrete, near_p: Discrete, q: Discrete, noise: Noise, notion: Notion
) -> float:
    r"""Return the bound of the shift-reduction lemma on the loss of p against q behind noise.

    .. math:: D_\alpha(p * K \| q * K) \le D_\alpha(p' \| q) + R_\alpha(K, W_\infty(p, p')),
              \qquad R_\alpha(K, z) = \sup_{|x| \le z} D_\alpha(K \| K(\cdot - x))

    Parameters
    ----------
    p, near_p, q : Discrete
        Over one column; any p' gives a bound. With q in its place the bound is that of W_inf.
    noise : Noise
        What is added, at its scale.
    notion : Notion
        Pure or Renyi Pufferfish privacy: alpha is infinity, or that of the notion.

    Returns
    -------
    float
        In nats.

    Raises
    ------
    TypeError
        If a prior is not `Discrete`.
    ValueError
        If the notion has a delta, or a prior is over several columns.

    Notes
    -----
    *Formal guarantees.* It is never below the loss in the direction of p against q.

    References
    ----------
    004, Lemma 3.1, after Feldman, Mironov, Talwar and Thakurta (2018).

    Examples
    --------
    >>> from sklearn_puffer.couplings import shift_reduction
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete
    >>> p, q = Discrete([0, 1], [0.5, 0.5]), Discrete([0, 2], [0.5, 0.5])
    >>> round(shift_reduction(p, q, q, Laplace(2.0), Pufferfish(1.0)), 9)
    0.5
    """
    if notion.delta > 0.0:
        raise ValueError(f"notion must be pure or Renyi Pufferfish privacy, got {notion!r}.")
    shift = notion.shift_loss(noise, np.array([w_infinity(p, near_p)]))
    return float(bare_losses(near_p, q, notion)[0] + shift) * _OUTWARDS


def close_adversary(
    loss: Callable[[float], float],
    fitted: Mapping[Any, Discrete],
    believed: Mapping[Any, Discrete],
    *,
    alpha: float = math.inf,
    noise: Noise | None = None,
) -> float:
    r"""Return a bound on the loss under a prior that is close to the fitted one.

    .. math:: \varepsilon' = \left(1 + \frac{1}{r(\alpha - 1)}\right)
              \varepsilon\left(q(\alpha - \tfrac1p)\right)
              + \left(1 + \frac{1/r + 1/q}{\alpha - 1}\right) \Delta_{\alpha p}
              + \Delta'_{(\alpha - 1) r + 1},
              \qquad \tfrac1p + \tfrac1q + \tfrac1r = 1

    The deltas are the largest divergences between what the two believe of a secret, each in its
    direction; with ``noise``, those of noise that is shifted by the largest W_inf. At alpha =
    infinity it is :math:`\varepsilon + 2 \Delta`, both directions counted.

    Parameters
    ----------
    loss : callable
        The loss under the fitted prior, of an order: ``lambda order: certificate_.loss`` for a
        pure guarantee.
    fitted, believed : mapping of secret to Discrete
        What the prior of the release, and what the adversary takes as the distribution given each
        secret.
    alpha : float, default=inf
        Above 1: the order of the answer.
    noise : Noise, optional
        What was added. With it the distance of the priors counts behind the noise, which helps
        where it is large; the priors are then over one column.

    Returns
    -------
    float
        In nats: the least over choices of p, q and r, each of which is sound.

    Raises
    ------
    ValueError
        If the two have other secrets, or alpha is not above 1.

    Notes
    -----
    *Formal guarantees.* The adversary's loss is at most that, whatever the mechanism, if ``loss``
    holds under ``fitted``. `Certificate.against` gives the loss itself, which is never more.

    References
    ----------
    004, Theorems A.3 to A.5; Corollary A.1 is the case of Gaussian noise. As printed A.3 takes one
    direction twice, and A.4 another prior in each of its terms: neither holds.

    Examples
    --------
    >>> from sklearn_puffer.couplings import close_adversary
    >>> from sklearn_puffer.priors import Discrete
    >>> fitted = {"a": Discrete([0, 1], [0.5, 0.5]), "b": Discrete([0, 1], [0.3, 0.7])}
    >>> believed = {**fitted, "b": Discrete([0, 1], [0.31, 0.69])}
    >>> round(close_adversary(lambda order: 1.0, fitted, believed), 4)
    1.0656
    """
    if fitted.keys() != believed.keys():
        raise ValueError(f"believed must be of the secrets {[*fitted]}, got {[*believed]}.")
    if not alpha > 1.0:
        raise ValueError(f"alpha must be above 1, got {alpha!r}; infinity is the pure case.")
    pairs = [(believed[secret], fitted[secret]) for secret in fitted]
    farthest = np.array([0.0 if noise is None else max(w_infinity(*pair) for pair in pairs)])

    def divergence(order: float, back: bool) -> float:
        if noise is not None:
            return float(_of_order(order).shift_loss(noise, farthest))
        return max(renyi_divergence(*(pair[::-1] if back else pair), order) for pair in pairs)

    if math.isinf(alpha):
        return (
            loss(math.inf) + 2.0 * max(divergence(alpha, False), divergence(alpha, True))
        ) * _OUTWARDS

    def bound(in_p: float, in_q: float, in_r: float) -> float:
        """Return the bound for one choice of 1/p, 1/q and 1/r."""
        fitted_loss = (1.0 + in_r / (alpha - 1.0)) * loss((alpha - in_p) / in_q)
        forwards = (1.0 + (in_r + in_q) / (alpha - 1.0)) * divergence(alpha / in_p, False)
        return fitted_loss + forwards + divergence((alpha - 1.0) / in_r + 1.0, True)

    return min(bound(*shares) for shares in _SHARES) * _OUTWARDS


# 1/p, 1/q and 1/r: any that sum to 1 are sound, and neighbours differ little
_SHARES = [(a / 20, b / 20, (20 - a - b) / 20) for a in range(1, 19) for b in range(1, 20 - a)]


def _of_order(order: float) -> Notion:
    return Pufferfish(1.0) if math.isinf(order) else RenyiPufferfish(1.0, order)


def _sorted_masses(prior: Discrete, total: int) -> tuple[list[float], list[int]]:
    """Return the values that have mass, in order, and the mass of each in parts of a total."""
    kept = prior.counts > 0
    counts = [count * (total // prior.total) for count in prior.counts[kept].tolist()]
    return prior.rows[kept, 0].tolist(), counts


def _check_one_column(p: Discrete, q: Discrete) -> None:
    for prior in (p, q):
        if not isinstance(prior, Discrete):
            raise TypeError(f"p and q must be Discrete priors, got {prior!r}; round its values.")
    if p.n_axes != 1 or q.n_axes != 1:
        raise ValueError(
            f"p and q must be over one column, got {p.n_axes} and {q.n_axes}; the strategies of "
            "sklearn_puffer.bounds couple whole rows."
        )
