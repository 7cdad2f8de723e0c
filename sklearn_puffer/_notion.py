"""A notion of privacy: one of three divergences of two released distributions, and a budget.

The code that computes losses knows the integrand of each divergence. Here are the loss of a shift
and the average of losses with probabilities. The notions themselves are in `notions`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from sklearn_puffer._base import FloatArray, Integers, check_above
from sklearn_puffer._numerics import ULP
from sklearn_puffer._words import percent_at_most


class ShiftLosses(Protocol):
    """The losses of a shift of noise under each divergence."""

    def max_divergence(self, shift: ArrayLike) -> FloatArray:
        """Return the max-divergence between the noise and the noise moved by ``shift`` (..., d)."""

    def hockey_stick(self, shift: ArrayLike, epsilon: float) -> FloatArray:
        """Return the smallest delta that goes with ``epsilon`` for a ``shift`` (..., d)."""

    def renyi_divergence(self, shift: ArrayLike, alpha: float) -> FloatArray:
        """Return the Renyi divergence of order ``alpha`` of a ``shift`` (..., d), in nats."""


@dataclass(frozen=True)
class Supremum:
    r"""The largest log ratio of two densities, :math:`\sup_y \log h_p / h_q`, in nats.

    Attributes
    ----------
    adds_up : bool
        Whether losses of independent columns add up: they do.
    worst : float
        The loss of distributions that share no outcome.

    Examples
    --------
    >>> from sklearn_puffer.notions import Supremum
    >>> Supremum().adds_up, Supremum().worst
    (True, inf)
    """

    adds_up: ClassVar[bool] = True
    worst: ClassVar[float] = math.inf

    def shift_loss(self, noise: ShiftLosses, shift: ArrayLike) -> FloatArray:
        """Return the loss of noise that moves by ``shift`` (..., d), of shape (...)."""
        return noise.max_divergence(shift)

    def average(self, losses: FloatArray, weights: FloatArray, starts: Integers) -> FloatArray:
        """Return the largest loss of each group that has a chance."""
        return _largest(losses, weights, starts)


@dataclass(frozen=True)
class HockeyStick:
    r"""The smallest delta that goes with an epsilon, :math:`\int (h_p - e^\varepsilon h_q)_+`.

    Parameters
    ----------
    epsilon : float
        At least 0; at 0 it is the total variation.

    Attributes
    ----------
    adds_up : bool
        Whether losses of independent columns add up: not at one and the same epsilon.
    worst : float
        The loss of distributions that share no outcome.

    Raises
    ------
    ValueError
        If epsilon is negative or no number.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import HockeyStick
    >>> round(float(HockeyStick(0.0).shift_loss(Laplace(1.0), [2.0])), 6)  # 1 - e^-1
    0.632121
    """

    epsilon: float

    adds_up: ClassVar[bool] = False
    worst: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not self.epsilon >= 0.0:
            raise ValueError(
                f"epsilon must be at least 0, got {self.epsilon!r}; 0 is the total variation."
            )

    def shift_loss(self, noise: ShiftLosses, shift: ArrayLike) -> FloatArray:
        """Return the loss of noise that moves by ``shift`` (..., d), of shape (...)."""
        return noise.hockey_stick(shift, self.epsilon)

    def average(self, losses: FloatArray, weights: FloatArray, starts: Integers) -> FloatArray:
        """Return the mean delta of each group, rounded up (004, Thm 4.5)."""
        means: FloatArray = np.add.reduceat(weights * losses, starts)
        return np.minimum(means * _sum_margin(losses.size), 1.0)


@dataclass(frozen=True)
class PowerMean:
    r"""The Renyi divergence, :math:`\log(\int h_p^\alpha h_q^{1 - \alpha}) / (\alpha - 1)`.

    Parameters
    ----------
    alpha : float
        Order, above 1.

    Attributes
    ----------
    adds_up : bool
        Whether losses of independent columns add up.
    worst : float
        The loss of distributions that share no outcome.

    Raises
    ------
    TypeError, ValueError
        If alpha is not above 1.

    Examples
    --------
    >>> from sklearn_puffer.notions import PowerMean
    >>> PowerMean(2.0).adds_up, PowerMean(2.0).order
    (True, 1.0)
    """

    adds_up: ClassVar[bool] = True
    worst: ClassVar[float] = math.inf

    alpha: float

    def __post_init__(self) -> None:
        check_above(self.alpha, 1.0, "alpha")

    @property
    def order(self) -> float:
        """The exponent of the likelihood ratio, alpha - 1."""
        return self.alpha - 1.0

    def shift_loss(self, noise: ShiftLosses, shift: ArrayLike) -> FloatArray:
        """Return the loss of noise that moves by ``shift`` (..., d), of shape (...)."""
        return noise.renyi_divergence(shift, self.alpha)

    def average(self, losses: FloatArray, weights: FloatArray, starts: Integers) -> FloatArray:
        """Return log E[e^((alpha - 1) D)] / (alpha - 1) of each group (004, Thm 4.5)."""
        order = self.order
        tops = _largest(losses, weights, starts)
        finite = np.where(np.isfinite(tops), tops, 0.0)
        lengths = np.diff(starts, append=losses.size)
        with np.errstate(over="ignore"):
            powers = np.exp(np.minimum(order * (losses - np.repeat(finite, lengths)), 0.0))
        logs = np.log(np.add.reduceat(weights * powers, starts) * _sum_margin(losses.size))
        below = np.minimum(finite + logs / order, finite)
        rounded = below + (8.0 + 4.0 / order) * ULP * (1.0 + np.abs(finite))
        return np.where(np.isfinite(tops), np.minimum(rounded, tops), np.inf)


Divergence = Supremum | HockeyStick | PowerMean


_WHOM = "of one such person a reader who starts from that believes it", "of such a one"


class Notion(ABC):
    """A notion of privacy, with its budget: a divergence, and how much of it is allowed.

    Attributes
    ----------
    epsilon : float
        In nats; 0 where a notion has none.
    delta : float
        The probability that may be left out; 0 where a notion has none.

    Notes
    -----
    A notion is a frozen dataclass with the abstract methods below. What computes losses, strategies
    and calibration ask it for nothing else, and never which notion it is.

    Examples
    --------
    One shift, read under three notions, each in the unit of its own budget:

    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
    >>> for notion in (Pufferfish(1.0), Pufferfish(1.0, 0.01), RenyiPufferfish(1.0, 2.0)):
    ...     loss = float(notion.shift_loss(Laplace(2.0), [3.0]))
    ...     print(f"{loss:.3f} where {notion.budget_name()}")
    1.500 where epsilon = 1
    0.221 where delta = 0.01 at epsilon = 1
    1.100 where epsilon = 1 of order alpha = 2
    """

    epsilon: float
    delta: float

    @property
    @abstractmethod
    def divergence(self) -> Divergence:
        """What a loss is: one of the three divergences."""

    @property
    @abstractmethod
    def budget(self) -> float:
        """The largest loss that is allowed, in the unit of a loss."""

    @abstractmethod
    def shared(self, n_groups: int) -> Self:
        """Return the notion that each of some independent groups must keep for all to keep this.

        Parameters
        ----------
        n_groups : int
            Number of the groups of columns.

        Returns
        -------
        Notion
            With an equal share of the budget.
        """

    def best_guess(self) -> float:
        """Return the largest probability of guessing right between two secrets of even chance.

        Of distributions P, Q it is (1 + TV)/2, with their distance TV in total variation.

        Returns
        -------
        float
            Between .5 and 1.
        """
        return 1.0

    def example(self, shares: Mapping[str, float] | None = None) -> str:
        """Return an example of the guarantee: a reader to whom two secrets are equally probable.

        Parameters
        ----------
        shares : mapping of str to float, default=None
            The shares of secrets in the fitted rows, where odds are bounded: further examples. Each
            secret is protected against all others.

        Returns
        -------
        str
            A sentence or two, with the `best_guess` rounded up.
        """
        most, told = percent_at_most(self.best_guess()), self.to_dict()
        if told["delta"] == 0.0 and told["alpha"] is None:
            even = "For example: to such a reader an even chance between two secrets becomes"
            chances = [0.01, *(shares or {}).values()]
            rare, *ends = map(percent_at_most, expit(logit(chances) + told["epsilon"]).tolist())
            if not shares:
                return f"{even} at most {most}, and one of 1 % at most {rare}."
            found = [
                f"{100.0 * share:.1f} % have {name}: {whom} at most {end}"
                for (name, share), end, whom in zip(shares.items(), ends, _WHOM, strict=False)
            ]
            return f"{even} at most {most}. In the fitted rows {'; '.join(found)}."
        return (
            "For example: if two secrets are equally probable to such a reader before the release, "
            f"a guess afterwards is right at most {most} of the time. Single releases may tell "
            "more, but seldom."
        )

    @abstractmethod
    def for_distribution(self, ratio: float) -> Notion:
        """Return the notion that a continuous distribution must keep, for samples to keep this one.

        Parameters
        ----------
        ratio : float
            By how much the sampler changes the log ratio of two probabilities, at most.

        Returns
        -------
        Notion
            With a budget that is less by what the sampler may add.
        """

    @abstractmethod
    def of_samples(self, loss: FloatArray, ratio: float) -> FloatArray:
        """Return a bound on the loss of samples, from that of the continuous distribution.

        Parameters
        ----------
        loss : ndarray
            Losses of the continuous distribution, in the unit of the budget.
        ratio : float
            As for `for_distribution`.

        Returns
        -------
        ndarray
            Of the same shape, in the same unit.
        """

    @abstractmethod
    def promise(self) -> str:
        """Return the guarantee in words.

        Returns
        -------
        str
            The end of a sentence that begins with who sees what.
        """

    @abstractmethod
    def budget_name(self) -> str:
        """Return the budget in words.

        Returns
        -------
        str
            Such as "epsilon = 1".
        """

    @property
    def is_pure(self) -> bool:
        """Whether the loss is that of the worst outcome, without exceptions."""
        return isinstance(self.divergence, Supremum)

    @property
    def is_chance(self) -> bool:
        """Whether losses are probabilities, and not nats."""
        return isinstance(self.divergence, HockeyStick)

    @property
    def adds_up(self) -> bool:
        """Whether the losses of independent columns add up."""
        return self.divergence.adds_up

    def shift_loss(self, noise: ShiftLosses, shift: ArrayLike) -> FloatArray:
        """Return the loss between noise and the same noise moved by a shift.

        Parameters
        ----------
        noise : Noise
            The family, at its scale.
        shift : array-like of shape (..., d)
            In the units of the columns.

        Returns
        -------
        ndarray of shape (...)
            In the unit of the budget.
        """
        return self.divergence.shift_loss(noise, shift)

    def average(self, losses: FloatArray, weights: FloatArray, starts: Integers) -> FloatArray:
        """Return the average of losses under probabilities, as the divergence takes it.

        Parameters
        ----------
        losses, weights : ndarray of shape (n,)
            Each loss and its probability; those of a group add up to one.
        starts : ndarray of shape (n_groups,)
            Where each group begins.

        Returns
        -------
        ndarray of shape (n_groups,)
            Rounded up.
        """
        return self.divergence.average(losses, weights, starts)

    def spent_on(self, ratio: float) -> float:
        """Return the part of epsilon that `for_distribution` sets aside for a ratio.

        Parameters
        ----------
        ratio : float
            As for `for_distribution`.

        Returns
        -------
        float
            In nats.
        """
        return ratio

    def changes(self) -> list[tuple[str, Notion]]:
        """Return other notions to try where this one has no bound.

        Returns
        -------
        list of (str, Notion)
            Each with the argument of an estimator that asks for it, such as "delta=1e-05".
        """
        return []

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers of the guarantee.

        Returns
        -------
        dict
            Of plain values, for JSON: epsilon, delta and alpha, which may be None.
        """
        return {"epsilon": self.epsilon, "delta": self.delta, "alpha": None}


def _largest(losses: FloatArray, weights: FloatArray, starts: Integers) -> FloatArray:
    largest: FloatArray = np.maximum.reduceat(np.where(weights > 0.0, losses, 0.0), starts)
    return largest


def _sum_margin(n_terms: int) -> float:
    return 1.0 + (n_terms + 8.0) * ULP
