"""What a strategy gives: a bound on losses as a function of the noise, and how bounds combine.

A combination that does not exist says why, and what to use instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol, cast

import numpy as np

from sklearn_puffer._base import FloatArray
from sklearn_puffer.noise import Noise, check_noise
from sklearn_puffer.notions import Notion, check_notion
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair, distinct

_PRIORS = (Discrete, GaussianMixture)


class Bound(Protocol):
    """Upper bounds on the losses of some pairs, as functions of the noise level.

    What a strategy returns, and all that calibration and certificate ask of it.

    Examples
    --------
    >>> from sklearn_puffer.bounds import wasserstein
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> pair = PriorPair(Discrete([0, 3], [0.5, 0.5]), Discrete([0, 1], [0.5, 0.5]))
    >>> bound = wasserstein([pair], Laplace(1.0), Pufferfish(0.5))
    >>> [bound.losses(factor).round(6).tolist() for factor in (1.0, bound.guess)]
    [[[2.0, 2.0]], [[0.5, 0.5]]]
    """

    @property
    def guess(self) -> float:
        """A factor near which to start the search for the smallest sufficient one.

        Positive; any value is sound, and 1 says nothing.
        """

    def losses(self, factor: float) -> FloatArray:
        """Return proven bounds, forward and backward.

        Parameters
        ----------
        factor : float
            They hold under noise whose scales are ``factor`` times those given; 0 means no noise
            at all.

        Returns
        -------
        ndarray of shape (n_pairs, 2)
            In the unit of the notion's loss (nats, or delta), rounded outwards; they never
            increase with the factor.
        """


Strategy = Callable[[Sequence[PriorPair], Noise, Notion], Bound]


@dataclass(frozen=True)
class Impossible:
    """The bound of a combination that has none: infinite at every factor.

    Parameters
    ----------
    reason : str
        Why there is none; and, after a semicolon, what to use instead whatever the priors.
    n_pairs : int, default=1
        How many pairs it is about.

    Examples
    --------
    >>> from sklearn_puffer.bounds import Impossible
    >>> Impossible("there is no such bound.", n_pairs=2).losses(1.0).tolist()
    [[inf, inf], [inf, inf]]
    """

    reason: str
    n_pairs: int = 1

    @property
    def guess(self) -> float:
        """One, which says nothing."""
        return 1.0

    def losses(self, factor: float) -> FloatArray:
        """Return infinities of shape (n_pairs, 2)."""
        return np.full((self.n_pairs, 2), math.inf)


@dataclass(frozen=True, eq=False)
class Tightest:
    """The smallest of several bounds on the same pairs, pair by pair and direction by direction.

    Parameters
    ----------
    bounds : sequence of Bound
        At least one, all of them on the same pairs.

    Notes
    -----
    *Formal guarantees.* Each bound holds, so the smallest does.

    Examples
    --------
    A mean over a coupling given where mass comes from, or given where it goes to: which of them is
    smaller differs from pair to pair.

    >>> from sklearn_puffer.bounds import Relaxed, Tightest
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> p, q = Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.1, 0.9])
    >>> pairs, given = [PriorPair(p, q), PriorPair(q, p)], (Laplace(1.0), Pufferfish(1.0))
    >>> sides = [Relaxed(condition)(pairs, *given) for condition in ("eq11", "eq12")]
    >>> [side.losses(1.0).max(axis=1).round(3).tolist() for side in [*sides, Tightest(sides)]]
    [[0.567, 0.865], [0.865, 0.567], [0.567, 0.567]]
    """

    bounds: Sequence[Bound]

    @property
    def guess(self) -> float:
        """The smallest of the bounds' guesses."""
        return min(bound.guess for bound in self.bounds)

    @property
    def tolerance(self) -> float:
        """How finely factors are worth telling apart, by the bound that tells them least apart."""
        return max(getattr(bound, "tolerance", 0.0) for bound in self.bounds)

    def losses(self, factor: float) -> FloatArray:
        """Return the smallest losses, shape (n_pairs, 2)."""
        return np.asarray(np.min([bound.losses(factor) for bound in self.bounds], axis=0))


def checked_bound(bound: Any, n_pairs: int) -> Bound:
    """Return what a strategy from elsewhere gave, once it is seen to be a bound on the pairs.

    Raises
    ------
    TypeError
        If it lacks a positive ``guess``, or its ``losses`` are no array of shape (n_pairs, 2).
    """
    guess, losses = getattr(bound, "guess", None), getattr(bound, "losses", None)
    if not (isinstance(guess, Real) and float(guess) > 0.0 and callable(losses)):
        raise TypeError(
            "the strategy must return a bound with a positive guess and a method losses(factor), "
            f"got {bound!r}; bounds.sensitivity is the shortest example."
        )
    values = np.asarray(losses(1.0))
    if values.shape != (n_pairs, 2) or values.dtype.kind not in "fiu" or np.isnan(values).any():
        raise TypeError(
            f"losses(factor) of the strategy's bound must be numbers of shape ({n_pairs}, 2), "
            f"forward and backward for each pair; got {values!r}."
        )
    return cast(Bound, bound)


def least_of(bounds: Sequence[Bound]) -> Bound:
    """Return the smallest of some bounds on the same pairs."""
    return bounds[0] if len(bounds) == 1 else Tightest(bounds)


def both_ways(losses: FloatArray) -> FloatArray:
    """Return losses (n_pairs,) that hold in both directions as an array of shape (n_pairs, 2).

    >>> both_ways(np.array([1.0, 2.0])).tolist()
    [[1.0, 1.0], [2.0, 2.0]]
    """
    return np.stack([losses, losses], axis=1)


def checked_arguments(pairs: Any, noise: Any, notion: Any) -> list[PriorPair]:
    """Return the pairs of a strategy's arguments, once all of these are checked.

    Raises
    ------
    TypeError, ValueError
        If they are no pairs of priors, or the noise or the notion is none.
    """
    check_noise(noise)
    check_notion(notion)
    return checked_pairs(pairs)


def checked_pairs(pairs: Any) -> list[PriorPair]:
    """Return pairs of priors, of one family and over the same columns.

    >>> from sklearn_puffer.priors import Discrete
    >>> len(checked_pairs([(Discrete([0], [1.0]), Discrete([1], [1.0]))]))
    1
    """
    if not isinstance(pairs, Iterable) or isinstance(pairs, str | bytes):
        raise TypeError(f"pairs must be a sequence of pairs of priors (p, q), got {pairs!r}.")
    checked = list(pairs)
    if set(map(type, checked)) != {PriorPair}:  # else there may be many, and no need to copy them
        for pair in checked:
            if not isinstance(pair, Sequence) or isinstance(pair, str | bytes) or len(pair) != 2:
                raise TypeError(f"pairs must hold two priors (p, q) each, got {pair!r}.")
        checked = [PriorPair(*pair) for pair in checked]
    if not checked:
        raise ValueError("pairs must hold at least one pair of priors (p, q), got none.")
    priors = distinct(checked)
    strange = [prior for prior in priors if not isinstance(prior, _PRIORS)]
    if strange:
        raise TypeError(f"pairs must hold two priors (p, q) each, got {strange[0]!r} in one.")
    axes = sorted({prior.n_axes for prior in priors})
    if len(axes) > 1:
        raise ValueError(f"pairs must be over the same columns, got priors over {axes} columns.")
    families = sorted({type(prior).__name__ for prior in priors})
    if len(families) > 1:
        raise ValueError(
            f"pairs must hold priors of one family, got {families}; calibrate each family apart "
            "and take the largest scale."
        )
    return checked


_ADVICE = re.compile(r";? (?=use |give |leave )")  # where a reason goes over into a way out


def reason_of(bound: Any) -> str:
    """Return why a bound is infinite whatever the noise, or an empty string."""
    return str(getattr(bound, "reason", ""))


def of_pair(reason: str, pair: str) -> str:
    """Return a reason that calls its pair by its name.

    >>> of_pair("there is no such bound; use luck.", "pair 3")
    'there is no such bound (pair 3); use luck.'
    """
    why, *advice = _ADVICE.split(reason, maxsplit=1)
    why = why.replace("pair 0", pair) if "pair 0" in why else f"{why} ({pair})"
    return "; ".join([why, *advice])
