"""What is guaranteed: the privacy notions, their budgets, and how losses are read under them.

Use this module to say to `accounting` and `calibration` what may be lost; the estimators take
numbers (``epsilon``, ``delta``, ``alpha``).

A notion compares a divergence of two released distributions with a budget. The code that computes
losses knows three divergences. Nothing outside this module asks which notion it has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray, check_above, check_delta, check_positive
from sklearn_puffer._notion import Divergence, HockeyStick, Notion, PowerMean, Supremum

__all__ = ["HockeyStick", "Notion", "PowerMean", "Pufferfish", "RenyiPufferfish", "Supremum"]

#: The largest Renyi order that estimators take: beyond, the mean is the worst case.
MOST_ALPHA = 1e6


def check_notion(notion: Any) -> None:
    """Refuse an object that is no notion, or whose divergence is none of the three.

    >>> check_notion(Pufferfish(1.0))
    """
    if not isinstance(notion, Notion):
        raise TypeError(
            f"notion must be a Pufferfish or a RenyiPufferfish object, got {notion!r}; "
            "use Pufferfish(epsilon)."
        )
    if not isinstance(notion.divergence, Divergence):
        raise TypeError(
            f"notion must hold a Supremum, HockeyStick or PowerMean, got {notion!r} with "
            f"{notion.divergence!r}."
        )


def check_pufferfish(notion: Any) -> None:
    """Refuse notions other than (epsilon, delta) Pufferfish privacy.

    >>> check_pufferfish(Pufferfish(1.0))
    """
    if not isinstance(notion, Pufferfish):
        raise TypeError(f"notion must be a Pufferfish object, got {notion!r}.")


def promised(epsilon: float, delta: float = 0.0, alpha: float | None = None) -> Notion:
    """Return the notion of an epsilon, a delta and an order, where there is one.

    >>> promised(1.0, alpha=2.0)
    RenyiPufferfish(epsilon=1.0, alpha=2.0, delta=0.0)
    """
    if alpha is None:
        return Pufferfish(epsilon, delta)
    return RenyiPufferfish(epsilon, alpha, delta)


@dataclass(frozen=True)
class Pufferfish(Notion):
    r"""Pufferfish privacy, pure or up to a probability delta.

    .. math:: P(Y \in B \mid s_i) \le e^{\varepsilon} P(Y \in B \mid s_j) + \delta
              \quad \text{for all sets } B

    Parameters
    ----------
    epsilon : float
        Budget in nats, positive and finite.
    delta : float, default=0.0
        Probability in [0, 1). At 0 the guarantee is pure.

    Raises
    ------
    TypeError, ValueError
        If ``epsilon`` is not a positive finite number, or ``delta`` not in [0, 1).

    Notes
    -----
    *Formal guarantees.* Pure: an adversary who knows the prior of X given S and sees the release Y
    has posterior odds between s_i and s_j within a factor e^epsilon of the prior odds (000, Def.
    2.1).
    With delta: the inequality above holds for sets, which is stronger than for single outcomes
    (003, Def. 1; 004, Def. 2.1 as printed is about outcomes, and guarantees nothing: uniform
    distributions on two disjoint sets of 1,000 outcomes keep it with epsilon 0 and delta 0.001).

    The loss under delta is the smallest delta that goes with epsilon, the hockey-stick divergence.

    Examples
    --------
    >>> from sklearn_puffer.notions import Pufferfish
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
        """Epsilon for the pure guarantee, delta otherwise."""
        return self.delta if self.delta > 0.0 else self.epsilon

    @property
    def divergence(self) -> Supremum | HockeyStick:
        """The supremum, or the hockey stick at epsilon.

        >>> from sklearn_puffer.noise import Laplace
        >>> float(Pufferfish(1.0).shift_loss(Laplace(2.0), [3.0]))
        1.5
        """
        return Supremum() if self.delta == 0.0 else HockeyStick(self.epsilon)

    def best_guess(self) -> float:
        r"""Return the largest probability of guessing right between two secrets of even chance.

        :math:`TV \le (e^\epsilon - 1 + 2 \delta)/(e^\epsilon + 1)`.

        Returns
        -------
        float
            Between .5 and 1; it is attained.
        """
        rest = 2.0 * self.delta / (1.0 + math.exp(min(self.epsilon, 700.0)))
        return min((1.0 + math.tanh(self.epsilon / 2.0) + rest) / 2.0, 1.0)

    def shared(self, n_groups: int) -> Pufferfish:
        """Return equal shares of epsilon and delta (basic composition)."""
        n = max(n_groups, 1)
        return replace(self, epsilon=self.epsilon / n, delta=self.delta / n)

    def for_distribution(self, ratio: float) -> Pufferfish:
        """Return a smaller epsilon, and with it a smaller delta."""
        return Pufferfish(_left_of(self.epsilon, ratio), self.delta * math.exp(-ratio))

    def of_samples(self, loss: FloatArray, ratio: float) -> FloatArray:
        """Return the loss plus the ratio, or delta times its exponential."""
        # Where p' <= a p and q' >= b q with log(a/b) = ratio and a <= e^ratio:
        # int (p' - e^eps q')_+ <= a int (p - e^(eps - ratio) q)_+.
        return loss + ratio if self.delta == 0.0 else np.minimum(loss * math.exp(ratio), 1.0)

    def promise(self) -> str:
        """Return the guarantee as the end of a sentence."""
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
class RenyiPufferfish(Notion):
    r"""Renyi Pufferfish privacy.

    .. math:: D_\alpha(P_{Y | s_i} \| P_{Y | s_j}) \le \varepsilon, \qquad
              D_\alpha(P \| Q) = \frac{1}{\alpha - 1} \log \int p^\alpha q^{1 - \alpha}

    Parameters
    ----------
    epsilon : float
        Budget in nats, positive and finite.
    alpha : float
        Order, above 1 and finite.
    delta : float, default=0.0
        Nothing else: the divergence given events of probability 1 - delta (004, Def. 4.1) is not
        offered.

    Raises
    ------
    TypeError, ValueError
        If ``epsilon`` is not positive, ``alpha`` not above 1, or ``delta`` not 0.

    Notes
    -----
    *Formal guarantees.* The odds between two secrets move by at most a factor e^epsilon in the
    mean of order alpha; `to_pufferfish` says what follows for single outcomes (004, Def. 2.2).

    Examples
    --------
    >>> from sklearn_puffer.notions import RenyiPufferfish
    >>> RenyiPufferfish(epsilon=1.0, alpha=2.0).to_pufferfish(1e-5)
    Pufferfish(epsilon=12.51292546497023, delta=1e-05)
    """

    epsilon: float
    alpha: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "alpha", check_above(self.alpha, 1.0, "alpha"))
        if check_delta(self.delta, "delta") > 0.0:
            raise ValueError(
                f"delta must be 0.0 with alpha={self.alpha!r}, got {self.delta!r}: ask for "
                "(epsilon, delta) with alpha=None, or for alpha without a delta."
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()  # pickles of before may have a delta

    @property
    def budget(self) -> float:
        """Epsilon, in nats."""
        return self.epsilon

    @property
    def divergence(self) -> PowerMean:
        """The Renyi divergence.

        >>> from sklearn_puffer.noise import Gaussian
        >>> float(RenyiPufferfish(1.0, alpha=2.0).shift_loss(Gaussian(1.0), [3.0]))
        9.0
        """
        return PowerMean(self.alpha)

    def to_pufferfish(self, delta: float) -> Pufferfish:
        r"""Return the (epsilon', delta) guarantee that follows.

        .. math:: \varepsilon' = \varepsilon + \frac{\log(1/\delta)}{\alpha - 1}

        Parameters
        ----------
        delta : float
            Probability in (0, 1).

        Returns
        -------
        Pufferfish
            The guarantee about single events, its epsilon' rounded up.

        Raises
        ------
        TypeError, ValueError
            If delta is not in (0, 1).

        References
        ----------
        004, Prop. 2.2.

        Examples
        --------
        >>> from sklearn_puffer.notions import RenyiPufferfish
        >>> RenyiPufferfish(epsilon=1.0, alpha=3.0).to_pufferfish(1e-6).delta
        1e-06
        """
        epsilon = self.epsilon - math.log(check_positive(delta, "delta")) / (self.alpha - 1.0)
        return Pufferfish(math.nextafter(epsilon, math.inf), delta)

    def best_guess(self) -> float:
        r"""Return the largest probability of guessing right between two secrets of even chance.

        The divergence is no less than that of Kullback and Leibler, so that Pinsker's bound
        :math:`\sqrt{\epsilon/2}` of TV and that of Bretagnolle and Huber,
        :math:`\sqrt{1 - e^{-\epsilon}}`, hold.

        Returns
        -------
        float
            Between .5 and 1.
        """
        far = min(math.sqrt(self.epsilon / 2.0), math.sqrt(-math.expm1(-self.epsilon)))
        return min((1.0 + far) / 2.0, 1.0)

    def shared(self, n_groups: int) -> RenyiPufferfish:
        """Return equal shares of epsilon."""
        return replace(self, epsilon=self.epsilon / max(n_groups, 1))

    def for_distribution(self, ratio: float) -> RenyiPufferfish:
        """Return a smaller epsilon."""
        return RenyiPufferfish(_left_of(self.epsilon, self.spent_on(ratio)), self.alpha)

    def of_samples(self, loss: FloatArray, ratio: float) -> FloatArray:
        """Return the loss plus what the ratio adds at most."""
        return loss + self.spent_on(ratio)

    def spent_on(self, ratio: float) -> float:
        """Return the part of epsilon that `for_distribution` sets aside for a ratio."""
        # int p'^a q'^(1-a) <= A^a B^(1-a) int p^a q^(1-a) for p' <= A p and q' >= B q, where
        # log(A/B) = ratio, A >= 1 >= B.
        return ratio * self.alpha / (self.alpha - 1.0)

    def promise(self) -> str:
        """Return the guarantee as the end of a sentence."""
        return (
            "shift their odds between two secrets by at most a factor of "
            f"{_power(self.epsilon)} in the mean of Renyi order alpha = {self.alpha:g}"
        )

    def budget_name(self) -> str:
        """Return the budget in words."""
        return f"epsilon = {self.epsilon:g} of order alpha = {self.alpha:g}"

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers of the guarantee, for JSON."""
        return {**super().to_dict(), "alpha": self.alpha}


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
    if epsilon < 1e-3:  # which is no factor of 1
        value = f"1 + {math.expm1(epsilon):.4g}"
    return f"e^{epsilon:g} = {value}"
