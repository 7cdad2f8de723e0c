"""What is promised: the privacy notions and their budgets."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn_puffer._validation import check_positive


@dataclass(frozen=True)
class Pufferfish:
    r"""Pure Pufferfish privacy: no odds between two secrets move by more than e^epsilon.

    .. math:: \sup_y \left|\log \frac{p(y \mid s_i)}{p(y \mid s_j)}\right| \le \varepsilon

    Parameters
    ----------
    epsilon : float
        Budget in nats, positive and finite.

    Notes
    -----
    *Formal guarantees.* Whoever knows the prior of X given S and sees the release Y has
    posterior odds between s_i and s_j within a factor e^epsilon of the prior odds (000, Def. 2.1).

    Raises
    ------
    TypeError, ValueError
        If ``epsilon`` is not a positive finite number.

    Examples
    --------
    >>> Pufferfish(epsilon=1).budget
    1.0
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive(self.epsilon, "epsilon"))

    @property
    def budget(self) -> float:
        """What a loss is held against, in nats."""
        return self.epsilon
