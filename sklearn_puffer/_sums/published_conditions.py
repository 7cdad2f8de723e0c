r"""Published sufficient conditions for sums over users, corrected: Laplace noise, pure epsilon.

Users report independent values, X is their sum, and a pair of secrets changes the law of one user
from p to q. Whatever the other users do, a scale that keeps the loss of p against q within epsilon
keeps that of the sum: with R the law of the others,

.. math:: \frac{\int h_p(y - r) R(dr)}{\int h_q(y - r) R(dr)} \le \sup_z \frac{h_p(z)}{h_q(z)},

a weighted mean of ratios being at most the largest. So every condition here reads the user's own
laws only, and the chance that users are present, a factor of both sides, cancels.
"""

# Rounding. Distances and masses are exact fractions, and `rounded_up` returns the smallest float
# that is not below one. Only `_scale_of_psi` takes logarithms; it says what it adds.

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from sklearn_puffer._base import ULP, FloatArray, check_choice, check_positive, rounded_up
from sklearn_puffer._strategies import monotone
from sklearn_puffer._sums.users import check_chance
from sklearn_puffer.bounds import Relaxed
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, Prior, PriorPair

_LARGEST_PSI = 1e300


class TwoLaws(Protocol):
    """What one user reports under two secrets: ``users.UserPair``, or ``priors.PriorPair``."""

    @property
    def p(self) -> Prior:
        """The law under the first secret."""

    @property
    def q(self) -> Prior:
        """The law under the second secret."""


@dataclass(frozen=True)
class Condition:
    """A sufficient condition, solved for the scale of the Laplace noise.

    Attributes
    ----------
    name : str
        That of the function, as in ``"theorem_4"``.
    scale : float
        The smallest theta that the condition allows, in the unit of the values; 0 where no noise
        is needed.
    source : str
        The paper and its number.
    """

    name: str
    scale: float
    source: str


def theorem_1_of_001(pairs: Sequence[TwoLaws], epsilon: float) -> Condition:
    r"""Return the scale for one value of a user against another (001, Thm 1).

    .. math:: \theta = \max |a - b| / \varepsilon

    Notes
    -----
    *Formal guarantees.* Noise of this scale keeps every pair within epsilon, whatever the other
    users do, and no smaller scale does: the sum is moved by a - b.

    References
    ----------
    001, Thm 1, Eq. (10).

    Examples
    --------
    >>> theorem_1_of_001([PriorPair(Discrete([5], [1]), Discrete([3], [1]))], epsilon=0.5).scale
    4.0
    """
    moves = [abs(_value(p) - _value(q)) for p, q in _checked(pairs)]
    return Condition("theorem_1_of_001", _per_epsilon(max(moves), epsilon), "001, Thm 1, Eq. (10)")


def theorem_2_of_001(pairs: Sequence[TwoLaws], epsilon: float) -> Condition:
    r"""Return the scale for a value of a user against absence (001, Thm 2).

    .. math:: \theta = \max |a| / \varepsilon

    Notes
    -----
    *Formal guarantees.* As `theorem_1_of_001`: who is absent adds 0. (The proof in 001 has the sign
    of |a| / theta wrong; the theorem is right.)

    References
    ----------
    001, Thm 2, Eq. (12).

    Examples
    --------
    >>> theorem_2_of_001([PriorPair(Discrete([5], [1]), Discrete([0], [1]))], epsilon=0.5).scale
    10.0
    """
    moves = [abs(_value(p)) for p, _ in _against_absence(pairs)]
    return Condition("theorem_2_of_001", _per_epsilon(max(moves), epsilon), "001, Thm 2, Eq. (12)")


def theorem_3_eq13(pairs: Sequence[TwoLaws], epsilon: float) -> Condition:
    r"""Return the scale for the law of a user against absence (001, Thm 3, Eq. 13).

    .. math:: \theta = \min\{\theta : E_p[e^{|D|/\theta}] \le e^\varepsilon \text{ for all p}\}

    Notes
    -----
    *Formal guarantees.* The mean has been bounded from above at the returned scale and is within
    e^epsilon there. It bounds the loss in both directions (1 / E[e^-Z] <= E[e^Z]), and where
    D >= 0 it is the loss: far to the right the ratio of densities tends to E[e^(D/theta)], with
    other users or without.

    References
    ----------
    001, Thm 3, Eq. (13): 000, Prop. 3.2 for the only coupling with a point mass.

    Examples
    --------
    >>> user = Discrete([0, 1], [0.5, 0.5])
    >>> condition = theorem_3_eq13([PriorPair(user, Discrete([0], [1]))], epsilon=1.0)
    >>> round(condition.scale * math.log(2 * math.e - 1), 9)
    1.0
    """
    notion = Pufferfish(check_positive(epsilon, "epsilon"))
    scale = calibrate(_against_absence(pairs), notion, strategy=Relaxed("eq11")).scale
    return Condition("theorem_3_eq13", scale, "001, Thm 3, Eq. (13)")


def theorem_3_eq14(pairs: Sequence[TwoLaws], epsilon: float) -> Condition:
    r"""Return the scale for a law against absence, from its range (001, Thm 3, Eq. 14).

    .. math:: \theta = \max\{|t| : p(t) > 0\} / \varepsilon

    Notes
    -----
    *Formal guarantees.* As `theorem_3_eq13`, which is never larger.

    References
    ----------
    001, Thm 3, Eq. (14).

    Examples
    --------
    >>> user = Discrete([0, 1, 9], [0.5, 0.5, 0])
    >>> theorem_3_eq14([PriorPair(user, Discrete([0], [1]))], epsilon=1.0).scale
    1.0
    """
    moves = [max(abs(value) for value in _support(p)) for p, _ in _against_absence(pairs)]
    return Condition("theorem_3_eq14", _per_epsilon(max(moves), epsilon), "001, Thm 3, Eq. (14)")


def theorem_4(pairs: Sequence[TwoLaws], epsilon: float) -> Condition:
    r"""Return the scale for one law of a user against another (001, Thm 4).

    .. math:: \theta = \max W_\infty(p, q) / \varepsilon, \qquad
              W_\infty = \max_u |F_p^{-1}(u) - F_q^{-1}(u)|

    Notes
    -----
    *Formal guarantees.* Noise of this scale keeps every pair within epsilon, whatever the other
    users do: with the others added to both ends, a coupling of p and q couples the sums.

    The printed distance (Lemma 3) is that of an alphabet without gaps: for masses (.5, 0, .5) and
    (.6, .4, 0) on 0, 1 and 10 it is 1, or 9 over the atoms, where 10 is needed and scale 1 loses
    8.78 instead of 1. Here u runs over the merged breakpoints of both quantile functions.

    References
    ----------
    001, Thm 4, Eq. (16) and (17), and Lemma 3, corrected.

    Examples
    --------
    >>> pair = PriorPair(Discrete([0, 10], [0.5, 0.5]), Discrete([0, 1], [0.6, 0.4]))
    >>> theorem_4([pair], epsilon=1.0).scale
    10.0
    """
    scale = _per_epsilon(_largest_move(_checked(pairs)), epsilon)
    return Condition("theorem_4", scale, "001, Thm 4, Eq. (16), corrected")


def lemma_1(pairs: Sequence[TwoLaws], epsilon: float) -> Condition:
    r"""Return the scale for one binary law of a user against another (001, Lemma 1).

    .. math:: \theta = 1 / \varepsilon \quad \text{(0 where all pairs hold equal laws)}

    Notes
    -----
    *Formal guarantees.* It is `theorem_4` for binary values.

    References
    ----------
    001, Lemma 1, Eq. (18).

    Examples
    --------
    >>> pair = PriorPair(Discrete([0, 1], [0.8, 0.2]), Discrete([0, 1], [0.1, 0.9]))
    >>> lemma_1([pair], epsilon=0.5).scale
    2.0
    """
    moved = any(p != q for p, q in _chances(pairs))
    return Condition("lemma_1", _per_epsilon(Fraction(moved), epsilon), "001, Lemma 1, Eq. (18)")


def lemma_2(pairs: Sequence[TwoLaws], epsilon: float) -> Condition:
    r"""Return the relaxed scale for one binary law against another (001, Lemma 2).

    .. math:: \theta = \max \frac{1}{\log(e^\varepsilon + (e^\varepsilon - 1) \psi)}, \qquad
              \psi = \inf_x \psi(x) = \frac{\min(p, q)}{|p - q|}

    Notes
    -----
    *Formal guarantees.* Noise of this scale keeps every pair within epsilon, whatever the other
    users do. The coupling that moves only |p - q| has, given the end 1 that mass is moved to or
    from, a share |p - q| / max(p, q) that moves by 1, and E[e^(d/theta)] <= e^epsilon there is the
    formula. That is one side of 000, Prop. 3.2, which bounds the loss in both directions.

    As printed, x runs over values of the sum; it must run to max + 1, where the others have no
    mass and psi(x) is smallest. For p = .918, q = .77, one other user with a chance of .999 and
    epsilon .1, the shorter range gives theta = .2444, and a loss of .914; theta = 1.9913 is right.

    References
    ----------
    001, Lemma 2, Eq. (21), corrected.

    Examples
    --------
    >>> pair = PriorPair(Discrete([0, 1], [0.082, 0.918]), Discrete([0, 1], [0.23, 0.77]))
    >>> round(lemma_2([pair], epsilon=0.1).scale, 6)
    1.991259
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
        R, the law of the sum of the other users.

    Returns
    -------
    tuple of two ndarrays of shape (n,)
        The places x, and psi there: one for each value x - 1 that the others' sum takes; the last
        x is its maximum + 1. In floats, not rounded to a safe side.

    Raises
    ------
    TypeError, ValueError
        If p or q is no chance, p equals q, or the others have no discrete law.

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
        raise TypeError(f"others must be a Discrete law of one column, got {others!r}.")
    p, q = check_chance(p, "p"), check_chance(q, "q")
    if p == q:
        raise ValueError(f"p and q must differ, got {p!r} twice; equal laws need no noise.")
    kept = others.counts > 0
    atoms, masses = others.atoms[kept], others.probabilities[kept]
    places = np.minimum(np.searchsorted(atoms, atoms + 1.0), len(atoms) - 1)
    following = np.where(atoms[places] == atoms + 1.0, masses[places], 0.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(following / masses, nan=0.0)
        psi = ((1.0 - max(p, q)) * ratios + min(p, q)) / abs(p - q)
    return atoms + 1.0, psi


def lemma_2_both_ends(pairs: Sequence[TwoLaws], epsilon: float) -> Condition:
    r"""Return the scale of 001, Lemma 2, with the better of the two ends of the coupling.

    .. math:: \psi = \frac{\max(\min(p, q), 1 - \max(p, q))}{|p - q|}

    Notes
    -----
    *Formal guarantees.* As `lemma_2`, which is never smaller. Given the end 0, a share
    |p - q| / (1 - min(p, q)) moves, so that psi = (1 - max(p, q)) / |p - q| suffices there; either
    end alone bounds the loss in both directions, hence the larger psi of each pair counts.

    References
    ----------
    001, Lemma 2, with 000, Eq. (11) and (12) of the user's own laws.

    Examples
    --------
    >>> pair = PriorPair(Discrete([0, 1], [0.9, 0.1]), Discrete([0, 1], [0.8, 0.2]))
    >>> lemma_2_both_ends([pair], 0.5).scale < lemma_2([pair], 0.5).scale
    True
    """
    chances = _chances(pairs)
    psi = [_ratio(max(min(p, q), 1 - max(p, q)), abs(p - q)) for p, q in chances]
    return Condition("lemma_2_both_ends", _scale_of_psi(psi, epsilon), "001, Lemma 2, both ends")


def relaxed(pairs: Sequence[TwoLaws], epsilon: float) -> Condition:
    r"""Return the scale of 000, Prop. 3.2, for the user's own laws.

    .. math:: E_\pi[e^{|X - X'|/\theta} \mid X' = x'] \le e^\varepsilon \; \forall x'
              \quad \text{or} \quad
              E_\pi[e^{|X - X'|/\theta} \mid X = x] \le e^\varepsilon \; \forall x

    Notes
    -----
    *Formal guarantees.* Noise of this scale keeps every pair within epsilon, whatever the other
    users do. Up to rounding it is never above `theorem_4`, and equal to `theorem_3_eq13` against
    absence and to `lemma_2_both_ends` for binary values.

    References
    ----------
    000, Prop. 3.2, Eq. (11) and (12).

    Examples
    --------
    >>> pair = PriorPair(Discrete([0, 1], [0.8, 0.2]), Discrete([0, 1], [0.1, 0.9]))
    >>> round(relaxed([pair], epsilon=1.0).scale, 6), theorem_4([pair], epsilon=1.0).scale
    (0.857613, 1.0)
    """
    notion = Pufferfish(check_positive(epsilon, "epsilon"))
    scale = calibrate(_checked(pairs), notion, strategy="relaxed").scale
    return Condition("relaxed", scale, "000, Prop. 3.2, on the user's own laws")


_BY_SECRETS = {
    "value": (theorem_1_of_001,),
    "value-absence": (theorem_2_of_001,),
    "distribution-absence": (theorem_3_eq14, theorem_3_eq13),
    "distribution": (theorem_4,),
}
_BINARY = (lemma_1, lemma_2, lemma_2_both_ends)


def conditions(pairs: Sequence[TwoLaws], secrets: str, epsilon: float) -> list[Condition]:
    """Return every published condition that applies to the pairs, and `relaxed`.

    Parameters
    ----------
    pairs : sequence of TwoLaws
        From `user_pairs`, or of laws ``p`` and ``q``.
    secrets : {"value", "value-absence", "distribution-absence", "distribution"}
        Which of the four sets of 001 the pairs are from. The lemmas join in for ``"distribution"``
        where all laws are on 0 and 1.
    epsilon : float
        Budget in nats.

    Returns
    -------
    list of Condition
        In the order of the paper; each one suffices, so the smallest scale may be used.

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
    """Return a float not above the ratio, or none where the laws are equal."""
    if not whole:
        return None
    ratio = part / whole
    return _LARGEST_PSI if ratio > _LARGEST_PSI else max(float(ratio) * (1.0 - ULP), 0.0)


def _scale_of_psi(psi: Sequence[float | None], epsilon: float) -> float:
    """Return the largest scale of some psi; none of them is no noise."""
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
        moves = np.abs(coupled.shifts[:, 0])
    near = np.flatnonzero(moves >= moves.max() * (1.0 - 2.0**-50))  # whatever rounds to the largest
    ends = [
        np.concatenate([pair[side].atoms for pair in pairs])[places[near]].tolist()
        for side, places in enumerate([coupled.sources, coupled.targets])
    ]
    return max(abs(Fraction(a) - Fraction(b)) for a, b in set(zip(*ends, strict=True)))


def _checked(pairs: Sequence[TwoLaws]) -> list[PriorPair]:
    laws = [PriorPair(pair.p, pair.q) for pair in pairs]
    if not laws:
        raise ValueError("pairs must hold at least one pair of laws, got none.")
    for law in (law for pair in laws for law in pair):
        if not isinstance(law, Discrete):
            raise TypeError(
                f"pairs must hold Discrete laws, got {law!r}; Gaussian users are for "
                "closed_forms.gaussian_users."
            )
        if law.n_axes != 1:
            raise ValueError(f"pairs must be over one column, got {law.n_axes}; sum each apart.")
    return laws


def _against_absence(pairs: Sequence[TwoLaws]) -> list[PriorPair]:
    checked = _checked(pairs)
    for _, q in checked:
        if _support(q) != [0]:
            raise ValueError(
                f"pairs must hold a law and the point mass at 0 (absence), got {_shown(q)}; use "
                "secrets='distribution' for two laws."
            )
    return checked


def _support(law: Discrete) -> list[Fraction]:
    return [Fraction(atom) for atom in law.atoms[law.counts > 0].tolist()]


def _value(law: Discrete) -> Fraction:
    """Return the only value of a point mass."""
    support = _support(law)
    if len(support) > 1:
        raise ValueError(
            f"pairs must hold point masses here, got a law with mass on {_shown(law)}; use "
            "secrets='distribution' or 'distribution-absence'."
        )
    return support[0]


def _is_binary(pair: PriorPair) -> bool:
    return all(value in (0, 1) for law in pair for value in _support(law))


def _chances(pairs: Sequence[TwoLaws]) -> list[tuple[Fraction, Fraction]]:
    """Return the chances of a 1."""
    checked = _checked(pairs)
    for pair in checked:
        if not _is_binary(pair):
            raise ValueError(
                f"pairs must hold laws of 0 and 1, got {_shown(pair.p)} and {_shown(pair.q)}; use "
                "theorem_4 or relaxed."
            )
    return [(_chance(p), _chance(q)) for p, q in checked]


def _chance(law: Discrete) -> Fraction:
    return Fraction(int(law.counts[law.atoms == 1.0].sum()), law.total)


def _shown(law: Discrete) -> str:
    values = law.atoms[law.counts > 0].tolist()
    return f"{values[:3]}" if len(values) <= 3 else f"{values[:3]} and {len(values) - 3} more"
