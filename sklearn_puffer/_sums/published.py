"""The sufficient conditions of paper 001 on the scale of Laplace noise, corrected."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from sklearn_puffer._base import FloatArray
from sklearn_puffer._numerics import ULP, rounded_up
from sklearn_puffer._strategies import monotone
from sklearn_puffer._sums.users import check_chance, with_mass
from sklearn_puffer.bounds import Relaxed
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, PriorPair

# Laplace noise, pure epsilon. Users report independent values, and a pair of secrets changes the
# distribution of one user from p to q. A scale that keeps the loss of p against q within epsilon
# keeps the loss of the sum within epsilon, whatever the other users do: with R the distribution of
# the others,
#
#     int h_p(y - r) R(dr) / int h_q(y - r) R(dr) <= sup_z h_p(z) / h_q(z),
#
# as a weighted mean of ratios is at most the largest. So every condition here depends on p and q
# alone. The chance that users are present is a factor of both densities, and cancels.
#
# Rounding. Distances and masses are exact fractions, and `rounded_up` returns the smallest float
# that is not below a fraction. Only `_moved_share` takes logarithms; a comment there bounds them.
#
# The conditions.
#
# - Theorems 1, 2, 3 (Eq. 14), 4 and Lemma 1 are one, theta = max W_inf(p, q) / epsilon. Noise hides
#   the farthest move of a coupling of p and q; with the others added to both ends that couples the
#   sums. For two values W_inf is |a - b|, and no smaller scale is enough; against absence it is the
#   largest |t| with mass; for different binary distributions it is 1.
# - Theorem 3 (Eq. 13): E_p[e^(|D|/theta)] <= e^epsilon. The mean bounds the loss both ways, as
#   1/E[e^-Z] <= E[e^Z]. Where D >= 0 it is the loss: far out the ratio of densities tends to it.
# - Lemma 2: theta = max 1 / log(e^epsilon + (e^epsilon - 1) psi), psi = min(p, q) / |p - q|. The
#   coupling that moves only |p - q| has, given the end 1, a share |p - q| / max(p, q) that moves by
#   1, and E[e^(d/theta)] <= e^epsilon there is the formula. It is one side of 000, Prop. 3.2, which
#   bounds both directions. Given the end 0, psi is (1 - max(p, q)) / |p - q|. Either end alone is
#   enough, so "both ends" takes the larger psi of each pair.
#
# Corrected (CORRECTIONS.md). The printed distance of Theorem 4 (Lemma 3) is that of an alphabet
# without gaps; here u runs over the merged breakpoints of both quantile functions. The x of Lemma 2
# runs over values of the sum, as printed; it must run to max + 1, where the others have no mass and
# psi is smallest (an instance loses .914 at epsilon .1). The proof of Theorem 2 has a wrong sign.

_LARGEST_PSI = Fraction(10) ** 300


def conditions(pairs: Sequence[PriorPair], secrets: str, epsilon: float) -> dict[str, float]:
    """Return the smallest scale that each published condition allows, in the unit of the values.

    The lemmas join in for ``"distribution"`` where all distributions are on 0 and 1. Any condition
    suffices, so the smallest scale may be used; 0 is no noise.

    >>> pair = PriorPair(Discrete([0, 1], [0.8, 0.2]), Discrete([0, 1], [0.1, 0.9]))
    >>> list(conditions([pair], "distribution", 1.0))
    ['theorem_4', 'lemma_1', 'lemma_2', 'lemma_2_both_ends', 'relaxed']
    """
    names = _BY_SECRETS[secrets]
    values = np.concatenate([with_mass(prior) for pair in pairs for prior in pair])
    if secrets == "distribution" and np.isin(values, (0.0, 1.0)).all():
        names = (*names, *_BINARY)
    return {name: _PUBLISHED[name](pairs, epsilon) for name in (*names, "relaxed")}


def lemma_2_psi(p: float, q: float, others: Discrete) -> tuple[FloatArray, FloatArray]:
    r"""Return the printed psi(x) of 001, Lemma 2, wherever it is defined.

    .. math:: \psi(x) = \frac{1}{|p - q|} \left((1 - \max(p, q)) \frac{R(x)}{R(x - 1)}
              + \min(p, q)\right), \qquad R(x - 1) > 0

    Parameters
    ----------
    p, q : float
        Two different chances of a 1.
    others : Discrete
        R, the distribution of the sum of the other users.

    Returns
    -------
    tuple of two ndarrays of shape (n,)
        The values x, and psi there: one for each value x - 1 of the others' sum; the last x is its
        maximum + 1. In floats, not rounded to a safe side.

    Raises
    ------
    TypeError, ValueError
        If p or q is no chance, p equals q, or the others have no discrete distribution.

    References
    ----------
    001, Lemma 2.

    Examples
    --------
    >>> from sklearn_puffer.priors import Discrete
    >>> from sklearn_puffer.users import lemma_2_psi
    >>> lemma_2_psi(0.25, 0.75, Discrete([0, 1], [0.5, 0.5]))[1].tolist()
    [1.0, 0.5]
    """
    if not isinstance(others, Discrete) or others.n_axes != 1:
        raise TypeError(f"others must be a Discrete distribution of one column, got {others!r}.")
    p, q = check_chance(p, "p"), check_chance(q, "q")
    if p == q:
        raise ValueError(
            f"p and q must differ, got {p!r} twice; equal distributions need no noise."
        )
    kept = others.counts > 0
    atoms, masses = others.atoms[kept], others.probabilities[kept]
    nearest = np.minimum(np.searchsorted(atoms, atoms + 1.0), len(atoms) - 1)
    following = np.where(atoms[nearest] == atoms + 1.0, masses[nearest], 0.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(following / masses, nan=0.0)
        psi = ((1.0 - max(p, q)) * ratios + min(p, q)) / abs(p - q)
    return atoms + 1.0, psi


def _farthest(pairs: Sequence[PriorPair], epsilon: float) -> float:
    """Return the largest W_inf of the pairs over epsilon."""
    coupled = monotone(pairs)
    with np.errstate(over="ignore"):
        sizes = np.abs(coupled.shifts[:, 0])
    near = np.flatnonzero(sizes >= sizes.max() * (1.0 - 2.0**-50))  # all that round to the largest
    ends = [
        np.concatenate([pair[side].atoms for pair in pairs])[atoms[near]].tolist()
        for side, atoms in enumerate([coupled.sources, coupled.targets])
    ]
    farthest = max(abs(Fraction(a) - Fraction(b)) for a, b in set(zip(*ends, strict=True)))
    return rounded_up(farthest / Fraction(epsilon))


def _relaxed(condition: str, pairs: Sequence[PriorPair], epsilon: float) -> float:
    return calibrate(pairs, Pufferfish(epsilon), strategy=Relaxed(condition)).scale


def _moved_share(both_ends: bool, pairs: Sequence[PriorPair], epsilon: float) -> float:
    """Return 1 / log(e^epsilon + (e^epsilon - 1) psi) for the smallest psi; 0 without one."""
    chances = [sorted(map(_chance, pair)) for pair in pairs]
    psi = [max(low, (1 - high) * both_ends) / (high - low) for low, high in chances if low < high]
    if not psi:
        return 0.0
    # log(e^eps + (e^eps - 1) psi) = eps + log(1 + (1 - e^-eps) psi). Relative errors in units of
    # 2^-53, which log1p passes on at most as they are: expm1 2, the product 1, log1p 2, the sum 1.
    # 16 are taken off.
    least = max(float(min(*psi, _LARGEST_PSI)) * (1.0 - ULP), 0.0)
    log_of_power = epsilon + math.log1p(-math.expm1(-epsilon) * least)
    with_margin = Fraction(log_of_power) * (1 - Fraction(1, 2**49))
    return min(rounded_up(1 / with_margin), rounded_up(1 / Fraction(epsilon)))  # psi >= 0


def _chance(distribution: Discrete) -> Fraction:
    """Return the chance of a 1."""
    return Fraction(int(distribution.counts[distribution.atoms == 1.0].sum()), distribution.total)


_PUBLISHED: dict[str, Callable[..., float]] = {
    "theorem_1_of_001": _farthest,  # Eq. (10)
    "theorem_2_of_001": _farthest,  # Eq. (12)
    "theorem_3_eq14": _farthest,
    "theorem_3_eq13": partial(_relaxed, "eq11"),
    "theorem_4": _farthest,  # Eq. (16), corrected
    "lemma_1": _farthest,  # Eq. (18)
    "lemma_2": partial(_moved_share, False),  # Eq. (21), corrected
    "lemma_2_both_ends": partial(_moved_share, True),
    "relaxed": partial(_relaxed, "either"),  # 000, Prop. 3.2, the user's own distributions
}
_BY_SECRETS = {
    "value": ("theorem_1_of_001",),
    "value-absence": ("theorem_2_of_001",),
    "distribution-absence": ("theorem_3_eq14", "theorem_3_eq13"),
    "distribution": ("theorem_4",),
}
_BINARY = ("lemma_1", "lemma_2", "lemma_2_both_ends")

CONDITIONS = tuple(_PUBLISHED)
"""The names of the published conditions; not every one applies to every set of secrets."""
