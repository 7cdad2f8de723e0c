"""What is promised: the privacy notions, their budgets, and how losses are read under them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_puffer._base.rounding import ULP
from sklearn_puffer._base.types import FloatArray, Integers
from sklearn_puffer._validation import check_above, check_delta, check_positive
from sklearn_puffer.noise import Noise

__all__ = ["Notion", "Pufferfish", "RenyiPufferfish"]

#: The largest Renyi order that estimators take: beyond, the mean is the worst case.
MOST_ALPHA = 1e6


class Notion(Protocol):
    """A notion of privacy, with its budget, and how losses are read under it.

    Examples
    --------
    One shift, read under three notions, each in the unit of its own budget:

    >>> from sklearn_puffer.noise import Laplace
    >>> for notion in (Pufferfish(1.0), Pufferfish(1.0, 0.01), RenyiPufferfish(1.0, 2.0)):
    ...     loss = float(notion.shift_loss(Laplace(2.0), [3.0]))
    ...     print(f"{loss:.3f} where {notion.budget_name()}")
    1.500 where epsilon = 1
    0.221 where delta = 0.01 at epsilon = 1
    1.100 where epsilon = 1 of order alpha = 2
    """

    @property
    def epsilon(self) -> float:
        """The budget in nats."""

    @property
    def delta(self) -> float:
        """The probability that may be left out."""

    @property
    def budget(self) -> float:
        """What a loss is held against, in the unit of the loss."""

    @property
    def adds_up(self) -> bool:
        """Whether the losses of independent columns add up."""

    def shift_loss(self, noise: Noise, shift: ArrayLike) -> FloatArray:
        """Return what is lost where noise moves by a shift.

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

    def average(self, losses: FloatArray, weights: FloatArray, starts: Integers) -> FloatArray:
        """Return what losses amount to where chance decides which of them it is.

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

    def for_law(self, ratio: float) -> Self:
        """Return the notion that a continuous law must keep for its samples to keep this one.

        Parameters
        ----------
        ratio : float
            By how much the sampler moves the log of a probability, at most.

        Returns
        -------
        Notion
            With a budget that is less by what the sampler may add.
        """

    def of_samples(self, loss: FloatArray, ratio: float) -> FloatArray:
        """Return what a loss of the law under `for_law` is at most for its samples.

        Parameters
        ----------
        loss : ndarray
            Losses of the continuous law, in the unit of the budget.
        ratio : float
            As for `for_law`.

        Returns
        -------
        ndarray
            Of the same shape, in the same unit.
        """

    def allowing(self, loss: float) -> Self:
        """Return the notion whose budget is this loss.

        Parameters
        ----------
        loss : float
            In the unit of the budget.

        Returns
        -------
        Notion
            Of the same kind.
        """

    def promise(self) -> str:
        """Return the promise in words.

        Returns
        -------
        str
            The end of a sentence that begins with who sees what.
        """

    def budget_name(self) -> str:
        """Return the budget in words.

        Returns
        -------
        str
            Such as "epsilon = 1".
        """


@dataclass(frozen=True)
class Pufferfish:
    r"""Pufferfish privacy, pure or up to a probability delta.

    .. math:: P(Y \in B \mid s_i) \le e^{\varepsilon} P(Y \in B \mid s_j) + \delta
              \quad \text{for all sets } B

    Parameters
    ----------
    epsilon : float
        Budget in nats, positive and finite.
    delta : float, default=0.0
        Probability in [0, 1). At 0 the promise is pure.

    Raises
    ------
    TypeError, ValueError
        If ``epsilon`` is not a positive finite number, or ``delta`` not in [0, 1).

    Notes
    -----
    *Formal guarantees.* Pure: whoever knows the prior of X given S and sees the release Y has
    posterior odds between s_i and s_j within a factor e^epsilon of the prior odds (000, Def. 2.1).
    With delta: the inequality above holds for sets, which is stronger than for single outcomes
    (003, Def. 1; 004, Def. 2.1 as printed is about outcomes, and promises nothing: uniform laws on
    two disjoint sets of 1,000 outcomes keep it with epsilon 0 and delta 0.001).

    The loss under delta is the smallest delta that goes with epsilon, the hockey-stick divergence.

    Examples
    --------
    >>> Pufferfish(epsilon=1).budget, Pufferfish(epsilon=1, delta=1e-5).budget
    (1.0, 1e-05)
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", check_delta(self.delta, "delta"))

    @property
    def budget(self) -> float:
        """Epsilon for the pure promise, delta otherwise."""
        return self.delta if self.delta > 0.0 else self.epsilon

    @property
    def adds_up(self) -> bool:
        """Whether losses of independent columns add up: where the promise is pure."""
        return self.delta == 0.0

    def shift_loss(self, noise: Noise, shift: ArrayLike) -> FloatArray:
        """Return the max-divergence of a shift, or its hockey-stick divergence at epsilon.

        >>> from sklearn_puffer.noise import Laplace
        >>> float(Pufferfish(1.0).shift_loss(Laplace(2.0), [3.0]))
        1.5
        """
        if self.delta == 0.0:
            return noise.max_divergence(shift)
        return noise.hockey_stick(shift, self.epsilon)

    def average(self, losses: FloatArray, weights: FloatArray, starts: Integers) -> FloatArray:
        """Return the largest loss of each group, or the mean of its deltas (004, Thm 4.5)."""
        if self.delta == 0.0:
            return _largest(losses, weights, starts)
        means: FloatArray = np.add.reduceat(weights * losses, starts)
        return np.minimum(means * _sum_margin(losses.size), 1.0)

    def shared(self, n_groups: int) -> Pufferfish:
        """Return equal shares of epsilon and delta (basic composition)."""
        if n_groups <= 1:
            return self
        return Pufferfish(self.epsilon / n_groups, self.delta / n_groups)

    def for_law(self, ratio: float) -> Pufferfish:
        """Return a smaller epsilon, and with it a smaller delta."""
        return Pufferfish(_left_of(self.epsilon, ratio), self.delta * math.exp(-ratio))

    def of_samples(self, loss: FloatArray, ratio: float) -> FloatArray:
        """Return the loss plus the ratio, or delta times its exponential."""
        # Where p' <= a p and q' >= b q with log(a/b) = ratio and a <= e^ratio:
        # int (p' - e^eps q')_+ <= a int (p - e^(eps - ratio) q)_+.
        return loss + ratio if self.delta == 0.0 else np.minimum(loss * math.exp(ratio), 1.0)

    def allowing(self, loss: float) -> Pufferfish:
        """Return the notion with this epsilon, or with this delta where there is one.

        >>> Pufferfish(1.0, delta=1e-5).allowing(1e-3)
        Pufferfish(epsilon=1.0, delta=0.001)
        """
        return replace(self, epsilon=loss) if self.delta == 0.0 else replace(self, delta=loss)

    def promise(self) -> str:
        """Return the promise as the end of a sentence."""
        # Odds may move further with a chance above delta: that is about events, not outcomes.
        if self.delta > 0.0:
            return (
                f"find no event more than {_power(self.epsilon)} times as probable, plus delta = "
                f"{self.delta:g}, under one of two secrets as under the other"
            )
        return f"shift their odds between two secrets by at most a factor of {_power(self.epsilon)}"

    def budget_name(self) -> str:
        """Return the budget in words: epsilon alone, or the delta that goes with it."""
        if self.delta == 0.0:
            return f"epsilon = {self.epsilon:g}"
        return f"delta = {self.delta:g} at epsilon = {self.epsilon:g}"


@dataclass(frozen=True)
class RenyiPufferfish:
    r"""Renyi Pufferfish privacy, exact or up to events of probability delta.

    .. math:: D_\alpha(P_{Y | s_i} \| P_{Y | s_j}) \le \varepsilon, \qquad
              D_\alpha(P \| Q) = \frac{1}{\alpha - 1} \log \int p^\alpha q^{1 - \alpha}

    Parameters
    ----------
    epsilon : float
        Budget in nats, positive and finite.
    alpha : float
        Order, above 1 and finite.
    delta : float, default=0.0
        With delta > 0 the divergence is that given events E, E' of probability at least
        1 - delta (004, Def. 4.1).

    Raises
    ------
    TypeError, ValueError
        If ``epsilon`` is not positive, ``alpha`` not above 1, or ``delta`` not in [0, 1).

    Notes
    -----
    *Formal guarantees.* The odds between two secrets move by at most a factor e^epsilon in the
    mean of order alpha; `to_pufferfish` says what follows for single outcomes (004, Def. 2.2).

    Examples
    --------
    >>> RenyiPufferfish(epsilon=1.0, alpha=2.0).to_pufferfish(1e-5)
    Pufferfish(epsilon=12.51292546497023, delta=1e-05)
    """

    epsilon: float
    alpha: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "alpha", check_above(self.alpha, 1.0, "alpha"))
        object.__setattr__(self, "delta", check_delta(self.delta, "delta"))

    @property
    def budget(self) -> float:
        """Epsilon, in nats."""
        return self.epsilon

    @property
    def adds_up(self) -> bool:
        """Whether losses of independent columns add up: where no event is left out."""
        return self.delta == 0.0

    def to_pufferfish(self, delta: float | None = None) -> Pufferfish:
        r"""Return the (epsilon', delta) promise that follows.

        .. math:: \varepsilon' = \varepsilon + \frac{\log(1/\delta)}{\alpha - 1}

        Parameters
        ----------
        delta : float, optional
            Probability in (0, 1); given by the notion itself where that has a delta, and then the
            promise is (epsilon', 2 delta).

        Returns
        -------
        Pufferfish
            The promise about single events, its epsilon' rounded up.

        Raises
        ------
        ValueError
            If delta is not in (0, 1), or given twice.

        References
        ----------
        004, Prop. 2.2 and, for delta > 0, Prop. 4.1.

        Examples
        --------
        >>> RenyiPufferfish(epsilon=1.0, alpha=3.0, delta=1e-6).to_pufferfish().delta
        2e-06
        """
        if (delta is None) == (self.delta == 0.0):
            raise ValueError(
                f"delta must be given here or in the notion, got {delta!r} and {self.delta!r}."
            )
        left_out = check_positive(self.delta if delta is None else delta, "delta")
        epsilon = self.epsilon - math.log(left_out) / (self.alpha - 1.0)
        return Pufferfish(
            math.nextafter(epsilon, math.inf), left_out if delta is not None else 2.0 * left_out
        )

    def shift_loss(self, noise: Noise, shift: ArrayLike) -> FloatArray:
        """Return the Renyi divergence of a shift.

        >>> from sklearn_puffer.noise import Gaussian
        >>> float(RenyiPufferfish(1.0, alpha=2.0).shift_loss(Gaussian(1.0), [3.0]))
        9.0
        """
        return noise.renyi_divergence(shift, self.alpha)

    def average(self, losses: FloatArray, weights: FloatArray, starts: Integers) -> FloatArray:
        """Return log E[e^((alpha - 1) D)] / (alpha - 1) of each group (004, Thm 4.5)."""
        order = self.alpha - 1.0
        tops = _largest(losses, weights, starts)
        finite = np.where(np.isfinite(tops), tops, 0.0)
        lengths = np.diff(starts, append=losses.size)
        with np.errstate(over="ignore"):
            powers = np.exp(np.minimum(order * (losses - np.repeat(finite, lengths)), 0.0))
        logs = np.log(np.add.reduceat(weights * powers, starts) * _sum_margin(losses.size))
        below = np.minimum(finite + logs / order, finite)
        rounded = below + (8.0 + 4.0 / order) * ULP * (1.0 + np.abs(finite))
        return np.where(np.isfinite(tops), np.minimum(rounded, tops), np.inf)

    def shared(self, n_groups: int) -> RenyiPufferfish:
        """Return equal shares of epsilon and delta."""
        if n_groups <= 1:
            return self
        return RenyiPufferfish(self.epsilon / n_groups, self.alpha, self.delta / n_groups)

    def for_law(self, ratio: float) -> RenyiPufferfish:
        """Return a smaller epsilon, and delta where there is one."""
        return RenyiPufferfish(
            _left_of(self.epsilon, self._extra(ratio)), self.alpha, self.delta * math.exp(-ratio)
        )

    def of_samples(self, loss: FloatArray, ratio: float) -> FloatArray:
        """Return the loss plus what the ratio adds at most."""
        return loss + self._extra(ratio)

    def allowing(self, loss: float) -> RenyiPufferfish:
        """Return the notion with this epsilon."""
        return replace(self, epsilon=loss)

    def _extra(self, ratio: float) -> float:
        # int p'^a q'^(1-a) <= A^a B^(1-a) int p^a q^(1-a) for p' <= A p and q' >= B q, where
        # log(A/B) = ratio, A >= 1 >= B; given an event, its probability moves likewise.
        return ratio * self.alpha / (self.alpha - 1.0) * (1.0 if self.delta == 0.0 else 2.0)

    def promise(self) -> str:
        """Return the promise as the end of a sentence."""
        left_out = f", given events of probability 1 - {self.delta:g}" if self.delta > 0.0 else ""
        return (
            "shift their odds between two secrets by at most a factor of "
            f"{_power(self.epsilon)} in the mean of Renyi order alpha = {self.alpha:g}{left_out}"
        )

    def budget_name(self) -> str:
        """Return the budget in words."""
        left_out = f" up to delta = {self.delta:g}" if self.delta > 0.0 else ""
        return f"epsilon = {self.epsilon:g} of order alpha = {self.alpha:g}{left_out}"


def _largest(losses: FloatArray, weights: FloatArray, starts: Integers) -> FloatArray:
    largest: FloatArray = np.maximum.reduceat(np.where(weights > 0.0, losses, 0.0), starts)
    return largest


def _sum_margin(n_terms: int) -> float:
    return 1.0 + (n_terms + 8.0) * ULP


def _left_of(epsilon: float, extra: float) -> float:
    if not extra < epsilon:
        raise ValueError(
            f"epsilon={epsilon!r} is less than the {extra:.3g} that drawing the noise on its grid "
            "may lose; raise epsilon (or alpha, where it is close to 1), or subtract an offset "
            "from columns whose values lie far from 0."
        )
    return epsilon - extra


def _power(epsilon: float) -> str:
    value = f"{math.exp(epsilon):.4g}" if epsilon < 700.0 else "a number beyond all bounds"
    return f"e^{epsilon:g} = {value}"
