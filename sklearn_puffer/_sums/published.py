"""What paper 001 says suffices: its conditions on the scale of Laplace noise, corrected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sklearn_puffer._base import ULP, FloatArray, check_choice, check_positive, rounded_up
from sklearn_puffer._strategies import monotone
from sklearn_puffer._sums.users import UserPair, check_chance, prior_pair, with_mass
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
# that is not below a fraction. Only `_scale_of_psi` takes logarithms; a comment there bounds them.

_LARGEST_PSI = 1e300
TwoDistributions = UserPair | PriorPair  # of one user's report under two secrets


@dataclass(frozen=True)
class Condition:
    """A sufficient condition, solved for the scale of the Laplace noise.

    The scale is the smallest theta that the condition allows, in the unit of the values, and 0
    where no noise is needed; the source is the paper and its number.
    """

    name: str
    scale: float
    source: str


def theorem_1_of_001(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale for one value of a user against another (001, Thm 1).

    .. math:: \theta = \max |a - b| / \varepsilon

    *Formal guarantees.* Noise of this scale keeps every pair within epsilon, whatever the other
    users do, and no smaller scale does: the sum is moved by a - b.
    """
    shifts = [abs(_value(p) - _value(q)) for p, q in _checked(pairs)]
    return Condition("theorem_1_of_001", _per_epsilon(max(shifts), epsilon), "001, Thm 1, Eq. (10)")


def theorem_2_of_001(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale for a value of a user against absence (001, Thm 2).

    .. math:: \theta = \max |a| / \varepsilon

    *Formal guarantees.* As `theorem_1_of_001`: an absent user adds 0. (The proof in 001 has the
    sign of |a| / theta wrong; the theorem is right.)
    """
    sizes = [abs(_value(p)) for p, _ in _against_absence(pairs)]
    return Condition("theorem_2_of_001", _per_epsilon(max(sizes), epsilon), "001, Thm 2, Eq. (12)")


def theorem_3_eq13(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale for the distribution of a user against absence (001, Thm 3, Eq. 13).

    .. math:: \theta = \min\{\theta : E_p[e^{|D|/\theta}] \le e^\varepsilon \text{ for all p}\}

    *Formal guarantees.* An upper bound on the mean is within e^epsilon at the returned scale. The
    mean bounds the loss in both directions (1 / E[e^-Z] <= E[e^Z]). Where D >= 0 it is the loss:
    far to the right the ratio of densities tends to E[e^(D/theta)], with other users or without.
    """
    notion = Pufferfish(check_positive(epsilon, "epsilon"))
    scale = calibrate(_against_absence(pairs), notion, strategy=Relaxed("eq11")).scale
    return Condition("theorem_3_eq13", scale, "001, Thm 3, Eq. (13)")


def theorem_3_eq14(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale for a distribution against absence, from its range (001, Thm 3, Eq. 14).

    .. math:: \theta = \max\{|t| : p(t) > 0\} / \varepsilon

    *Formal guarantees.* As `theorem_3_eq13`, which is never larger.
    """
    sizes = [max(abs(value) for value in _support(p)) for p, _ in _against_absence(pairs)]
    return Condition("theorem_3_eq14", _per_epsilon(max(sizes), epsilon), "001, Thm 3, Eq. (14)")


def theorem_4(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale for one distribution of a user against another (001, Thm 4).

    .. math:: \theta = \max W_\infty(p, q) / \varepsilon, \qquad
              W_\infty = \max_u |F_p^{-1}(u) - F_q^{-1}(u)|

    *Formal guarantees.* Noise of this scale keeps every pair within epsilon, whatever the other
    users do: with the others added to both ends, a coupling of p and q couples the sums.

    The printed distance (Lemma 3) is that of an alphabet without gaps (CORRECTIONS.md). Here u runs
    over the merged breakpoints of both quantile functions.
    """
    scale = _per_epsilon(_largest_move(_checked(pairs)), epsilon)
    return Condition("theorem_4", scale, "001, Thm 4, Eq. (16), corrected")


def lemma_1(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale for one binary distribution of a user against another (001, Lemma 1).

    .. math:: \theta = 1 / \varepsilon \quad \text{(0 where all pairs hold equal distributions)}

    *Formal guarantees.* It is `theorem_4` for binary values.
    """
    moved = any(p != q for p, q in _chances(pairs))
    return Condition("lemma_1", _per_epsilon(Fraction(moved), epsilon), "001, Lemma 1, Eq. (18)")


def lemma_2(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the relaxed scale for one binary distribution against another (001, Lemma 2).

    .. math:: \theta = \max \frac{1}{\log(e^\varepsilon + (e^\varepsilon - 1) \psi)}, \qquad
              \psi = \inf_x \psi(x) = \frac{\min(p, q)}{|p - q|}

    *Formal guarantees.* Noise of this scale keeps every pair within epsilon, whatever the other
    users do. The coupling that moves only |p - q| has, given the end 1 that mass is moved to or
    from, a share |p - q| / max(p, q) that moves by 1, and E[e^(d/theta)] <= e^epsilon there is the
    formula. That is one side of 000, Prop. 3.2, which bounds the loss in both directions.

    As printed, x runs over values of the sum; it must run to max + 1, where the others have no mass
    and psi(x) is smallest: CORRECTIONS.md has an instance that loses .914 at epsilon .1.
    """
    psi = [_ratio(min(p, q), abs(p - q)) for p, q in _chances(pairs)]
    return Condition("lemma_2", _scale_of_psi(psi, epsilon), "001, Lemma 2, Eq. (21), corrected")


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


def lemma_2_both_ends(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale of 001, Lemma 2, with the better of the two ends of the coupling.

    .. math:: \psi = \frac{\max(\min(p, q), 1 - \max(p, q))}{|p - q|}

    *Formal guarantees.* As `lemma_2`, which is never smaller. Given the end 0, a share
    |p - q| / (1 - min(p, q)) moves, so that psi = (1 - max(p, q)) / |p - q| suffices there; either
    end alone bounds the loss in both directions, hence the larger psi of each pair counts.
    """
    chances = _chances(pairs)
    psi = [_ratio(max(min(p, q), 1 - max(p, q)), abs(p - q)) for p, q in chances]
    return Condition("lemma_2_both_ends", _scale_of_psi(psi, epsilon), "001, Lemma 2, both ends")


def relaxed(pairs: Sequence[TwoDistributions], epsilon: float) -> Condition:
    r"""Return the scale of 000, Prop. 3.2, for the user's own distributions.

    .. math:: E_\pi[e^{|X - X'|/\theta} \mid X' = x'] \le e^\varepsilon \; \forall x'
              \quad \text{or} \quad
              E_\pi[e^{|X - X'|/\theta} \mid X = x] \le e^\varepsilon \; \forall x

    *Formal guarantees.* Noise of this scale keeps every pair within epsilon, whatever the other
    users do. Up to rounding it is never above `theorem_4`, and equal to `theorem_3_eq13` against
    absence and to `lemma_2_both_ends` for binary values.
    """
    notion = Pufferfish(check_positive(epsilon, "epsilon"))
    scale = calibrate(_checked(pairs), notion, strategy="relaxed").scale
    return Condition("relaxed", scale, "000, Prop. 3.2, on the user's own distributions")


_BY_SECRETS = {
    "value": (theorem_1_of_001,),
    "value-absence": (theorem_2_of_001,),
    "distribution-absence": (theorem_3_eq14, theorem_3_eq13),
    "distribution": (theorem_4,),
}
_BINARY = (lemma_1, lemma_2, lemma_2_both_ends)

CONDITIONS = tuple(
    condition.__name__
    for conditions_of in (*_BY_SECRETS.values(), _BINARY, (relaxed,))
    for condition in conditions_of
)
"""The names of the published conditions; not every one applies to every set of secrets."""


def conditions(pairs: Sequence[TwoDistributions], secrets: str, epsilon: float) -> list[Condition]:
    """Return every published condition that applies to the pairs, and `relaxed`.

    Parameters
    ----------
    pairs : sequence of TwoDistributions
        From `user_pairs`, or of distributions ``p`` and ``q``.
    secrets : {"value", "value-absence", "distribution-absence", "distribution"}
        Which of the four sets of 001 the pairs are from. The lemmas join in for ``"distribution"``
        where all distributions are on 0 and 1.
    epsilon : float
        Budget in nats.

    Returns
    -------
    list of Condition
        In the order of the paper. Any of them suffices, so the smallest scale may be used.

    Raises
    ------
    ValueError
        If ``secrets`` is none of the four, the pairs are not of that set, or epsilon is not
        positive.

    Examples
    --------
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> from sklearn_puffer.users import conditions
    >>> pair = PriorPair(Discrete([0, 1], [0.8, 0.2]), Discrete([0, 1], [0.1, 0.9]))
    >>> [condition.name for condition in conditions([pair], "distribution", 1.0)]
    ['theorem_4', 'lemma_1', 'lemma_2', 'lemma_2_both_ends', 'relaxed']
    """
    published = _BY_SECRETS[check_choice(secrets, "secrets", _BY_SECRETS)]
    if secrets == "distribution" and all(map(_is_binary, _checked(pairs))):
        published = (*published, *_BINARY)
    return [condition(pairs, epsilon) for condition in (*published, relaxed)]


def _per_epsilon(distance: Fraction, epsilon: float) -> float:
    return rounded_up(distance / Fraction(check_positive(epsilon, "epsilon")))


def _ratio(part: Fraction, whole: Fraction) -> float | None:
    """Return a float not above the ratio, or None where the distributions are equal."""
    if not whole:
        return None
    ratio = part / whole
    return _LARGEST_PSI if ratio > _LARGEST_PSI else max(float(ratio) * (1.0 - ULP), 0.0)


def _scale_of_psi(psi: Sequence[float | None], epsilon: float) -> float:
    """Return the scale of the smallest psi; 0 where there is none."""
    # log(e^eps + (e^eps - 1) psi) = eps + log(1 + (1 - e^-eps) psi). Relative errors in units of
    # 2^-53, which log1p passes on at most as they are: expm1 2, the product 1, log1p 2, the sum 1.
    # 16 are taken off.
    budget = check_positive(epsilon, "epsilon")
    least = min((value for value in psi if value is not None), default=None)
    if least is None:
        return 0.0
    log_of_power = budget + math.log1p(-math.expm1(-budget) * min(least, _LARGEST_PSI))
    with_margin = Fraction(log_of_power) * (1 - Fraction(1, 2**49))
    return min(rounded_up(1 / with_margin), rounded_up(1 / Fraction(budget)))  # psi >= 0


def _largest_move(pairs: Sequence[PriorPair]) -> Fraction:
    """Return the largest W_inf of the pairs, exactly."""
    coupled = monotone(pairs)
    with np.errstate(over="ignore"):
        sizes = np.abs(coupled.shifts[:, 0])
    near = np.flatnonzero(sizes >= sizes.max() * (1.0 - 2.0**-50))  # all that round to the largest
    ends = [
        np.concatenate([pair[side].atoms for pair in pairs])[atoms[near]].tolist()
        for side, atoms in enumerate([coupled.sources, coupled.targets])
    ]
    return max(abs(Fraction(a) - Fraction(b)) for a, b in set(zip(*ends, strict=True)))


def _checked(pairs: Sequence[TwoDistributions]) -> list[PriorPair]:
    checked = list(map(prior_pair, pairs))
    if not checked:
        raise ValueError("pairs must hold at least one pair of distributions, got none.")
    for prior in (prior for pair in checked for prior in pair):
        if not isinstance(prior, Discrete):
            raise TypeError(
                f"pairs must hold Discrete distributions, got {prior!r}; Gaussian users are for "
                "closed_forms.gaussian_users."
            )
        if prior.n_axes != 1:
            raise ValueError(f"pairs must be over one column, got {prior.n_axes}; sum each apart.")
    return checked


def _against_absence(pairs: Sequence[TwoDistributions]) -> list[PriorPair]:
    checked = _checked(pairs)
    for _, q in checked:
        if _support(q) != [0]:
            raise ValueError(
                "pairs must hold a distribution and the point mass at 0 (absence), got "
                f"{_support_shown(q)}; use secrets='distribution' for two distributions."
            )
    return checked


def _support(distribution: Discrete) -> list[Fraction]:
    return [Fraction(atom) for atom in with_mass(distribution).tolist()]


def _value(distribution: Discrete) -> Fraction:
    """Return the only value of a point mass."""
    support = _support(distribution)
    if len(support) > 1:
        raise ValueError(
            "pairs must hold point masses here, got a distribution with mass on "
            f"{_support_shown(distribution)}; use secrets='distribution' or 'distribution-absence'."
        )
    return support[0]


def _is_binary(pair: PriorPair) -> bool:
    return all(value in (0, 1) for prior in pair for value in _support(prior))


def _chances(pairs: Sequence[TwoDistributions]) -> list[tuple[Fraction, Fraction]]:
    """Return the two chances of a 1 of each pair."""
    checked = _checked(pairs)
    for pair in checked:
        if not _is_binary(pair):
            raise ValueError(
                f"pairs must hold distributions of 0 and 1, got {_support_shown(pair.p)} and "
                f"{_support_shown(pair.q)}; use theorem_4 or relaxed."
            )
    return [(_chance(p), _chance(q)) for p, q in checked]


def _chance(distribution: Discrete) -> Fraction:
    return Fraction(int(distribution.counts[distribution.atoms == 1.0].sum()), distribution.total)


def _support_shown(distribution: Discrete) -> str:
    values = with_mass(distribution).tolist()
    return f"{values[:3]}" if len(values) <= 3 else f"{values[:3]} and {len(values) - 3} more"
