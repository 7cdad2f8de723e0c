r"""The exact privacy loss of a release, as an interval that holds the truth.

Use this module to compute what a release loses under priors of your own, apart from any estimator;
`fit` uses it for its certificate.

For discrete priors, pure epsilon and Laplace noise, all of which this module does itself, the
density of the released row is proportional to

.. math:: h_p(y) = \sum_x p(x) e^{-\sum_k |x_k - y_k| / \theta_k}

and the loss from p to q is the supremum of log h_p / h_q over all real y. Along one axis, between
two neighbouring atoms, both densities are of the form a e^t + b e^-t, so their ratio is a Moebius
function of e^2t, hence monotone, and it is constant outside the atoms: the supremum is attained at
an atom. Applied to one axis after the other: at a vertex of the grid that the axes' atoms span.

Every other notion, noise and prior is left to `_losses.pair_losses`, one pair at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sklearn_puffer._losses import MAX_CELLS, LossTable
from sklearn_puffer._losses import is_computable as _is_computable
from sklearn_puffer.noise import Laplace, Noise, check_noise
from sklearn_puffer.notions import Notion, Pufferfish, check_notion
from sklearn_puffer.priors import Discrete, GaussianMixture, Prior, PriorPair

__all__ = ["MAX_CELLS", "Loss", "LossTable", "is_computable", "privacy_loss"]

_LAPLACE, _PURE = Laplace(1.0), Pufferfish(1.0)
_PRIORS = (Discrete, GaussianMixture)


@dataclass(frozen=True)
class Loss:
    """An interval that contains the privacy loss, in the notion's unit.

    Parameters
    ----------
    lower, upper : float
        The two ends.

    Notes
    -----
    *Formal guarantees.* The true loss is at least ``lower`` and at most ``upper``; rounding errors
    are bounded and accounted for.

    Examples
    --------
    A value that is either 0 or 3 loses 3/2 under Laplace noise of scale 2:

    >>> from sklearn_puffer.accounting import privacy_loss
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete
    >>> loss = privacy_loss(
    ...     Discrete([0], [1.0]), Discrete([3], [1.0]), Laplace(2.0), Pufferfish(epsilon=2.0)
    ... )
    >>> loss.lower <= 1.5 <= loss.upper < 1.5 + 1e-12
    True
    """

    lower: float
    upper: float


def privacy_loss(p: Prior, q: Prior, noise: Noise, notion: Notion) -> Loss:
    r"""Return the exact privacy loss between two priors, the larger of both directions.

    With h_p and h_q the released densities, pure, up to a delta, and Renyi:

    .. math:: \sup_y \log \frac{h_p}{h_q}, \qquad \int (h_p - e^\varepsilon h_q)_+, \qquad
              \frac{1}{\alpha - 1} \log \int h_p^\alpha h_q^{1 - \alpha}

    Parameters
    ----------
    p, q : Discrete or GaussianMixture
        P(X | s_i) and P(X | s_j), of one kind, over the same columns; their atoms may differ.
    noise : Noise
        One scale for all columns, or one a column.
    notion : Pufferfish or RenyiPufferfish
        The notion of privacy in which the loss is measured.

    Returns
    -------
    Loss
        In nats, or a probability where the notion has an epsilon and a delta. For one discrete
        column ``upper - lower`` is about 1e-10 of the loss (pure with Laplace noise: 1e-13, and
        1e-11 of 20,000 values), for two at most 1e-3 of it, or 1e-5 of the budget, unless 2^18
        boxes are too few; a delta is right to 6e-12 at best there.

    Raises
    ------
    TypeError
        If a prior, the noise or the notion is of another family.
    ValueError
        If the priors describe different numbers of columns, or `is_computable` is False.

    Notes
    -----
    *Formal guarantees.* The interval contains the loss over all real y, not over a sample of them:
    rounding, discretisation and tails are bounded.

    References
    ----------
    000, Def. 2.1; the Moebius argument is in this module's header.

    Examples
    --------
    Two priors on two points, one apart; the noise has scale 1/2.

    >>> from sklearn_puffer.accounting import privacy_loss
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete
    >>> loss = privacy_loss(
    ...     Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75]),
    ...     Laplace(0.5), Pufferfish(epsilon=1.0),
    ... )
    >>> round(loss.upper, 6)
    0.479322
    >>> 0 <= loss.upper - loss.lower < 1e-13
    True
    """
    lower, upper = LossTable([PriorPair(p, q)], notion).intervals(noise)
    return Loss(float(lower.max()), float(upper.max()))


def is_computable(priors: Sequence[Prior], noise: Noise = _LAPLACE, notion: Notion = _PURE) -> bool:
    """Return whether the loss is computed for these priors, this noise and this notion.

    In one column it is, except for mixtures under noise other than Laplace and Gaussian. In
    several: discrete priors on a small grid, for pure epsilon with Laplace noise, in two columns,
    or in unordered ones and one number, each beside columns without noise; and Gaussian priors
    where a closed form exists.

    Parameters
    ----------
    priors : sequence of Discrete or GaussianMixture
        All of them are to be told apart.
    noise : Noise, default=Laplace(1.0)
        Its scale does not matter.
    notion : Pufferfish or RenyiPufferfish, default=Pufferfish(1.0)
        Its budget does not matter.

    Returns
    -------
    bool
        Where it is False, `bounds` has theorems instead.

    Raises
    ------
    TypeError, ValueError
        If they are no priors over the same columns, or the noise or the notion is none.

    Examples
    --------
    Three columns under Laplace noise, and under Gaussian noise with a delta:

    >>> from sklearn_puffer.accounting import is_computable
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete
    >>> rows = [Discrete([[0, 0, 0], [1, 5, 2]], [0.5, 0.5]), Discrete([[0, 1, 2]], [1.0])]
    >>> is_computable(rows)
    True
    >>> from sklearn_puffer.noise import Gaussian
    >>> is_computable(rows, Gaussian(1.0), Pufferfish(1.0, delta=1e-5))
    False
    """
    if not isinstance(priors, Sequence) or not all(isinstance(p, _PRIORS) for p in priors):
        raise TypeError(f"priors must be a sequence of prior objects, got {priors!r}.")
    if len({prior.n_axes for prior in priors}) != 1:
        raise ValueError(f"priors must be one or more over the same columns, got {priors!r}.")
    check_noise(noise)
    check_notion(notion)
    return _is_computable(priors, noise, notion)
