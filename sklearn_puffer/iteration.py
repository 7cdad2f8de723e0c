"""Noisy iterations that show only where they end: the Renyi loss of each record (004, 5).

Use this module to bound a noisy iteration of your own, or to compare the bounds of paper 004; the
SGD estimators do it inside.
"""

# An iteration W_t = psi_t(W_(t-1), X_t) + N_t, t = 1..T, starts at a public W_0 and adds fresh
# noise N_t, independent of everything else. psi_t is a c_t-contraction of its first argument, c_t
# <= 1. Only W_T is released. How far apart are the distributions of W_T under two secrets?
#
# Theorem (004, Thm 5.2, with one joint coupling). Let one coupling of the two *whole* sequences
# have |psi_t(w, X_t) - psi_t(w, X'_t)| <= s_t for every w, almost surely. Let a_t >= 0, z_0 = 0 and
#
#     z_t = max(c_t z_(t-1) + s_t - a_t, 0),    z_T = 0.                                     (1)
#
# Then D_alpha(W_T, W'_T) <= sum_t R_alpha(N_t, a_t), R_alpha(N, a) being the largest Renyi
# divergence of a shift of N by at most a.
#
# Proof. Fix a pair (x, x') of sequences. Claim: some distribution within z_t (W_inf) of that of W_t
# has at most the divergence sum_(u <= t) R_alpha(N_u, a_u) from W'_t. It holds for t = 0. A
# distribution within z of W_(t-1) is mapped by psi_t(., x'_t) to one within c_t z + s_t of
# psi_t(W_(t-1), x_t), and mapping both distributions alike adds no divergence. Of that distance
# min(a_t, c_t z + s_t) is moved into the noise, for at most R_alpha(N_t, a_t): z_t is left. At z_T
# = 0 the distribution is that of W_T itself. Finally both distributions of W_T are mixtures over
# the pairs (x, x') with the same weights, and exp((alpha - 1) D_alpha) = int p^alpha q^(1 - alpha)
# is jointly convex, so the bound stays. QED
#
# As printed, Thm 5.2 takes s_t from the marginals, step by step. That is false: X_2 = X_1 and X_2 =
# -X_1, for a fair sign X_1, have the same marginals (s = 0) and a D_2 of 1.325 after W_t = W_(t-1)
# + X_t + N_t. One joint coupling gives s = (0, 2).
#
# As (1) cuts z_t at 0, too large an a_t is only wasteful: the proof needs z_T = 0 alone. So every
# sequence of shifts made here ends with a pass of (1) in floats, which rounds z upwards at each
# operation, and the last shift hides all that remains. Solved for z_T over suffixes, (1) says
#
#     z_T = 0  if and only if  sum_(t > k) P_t a_t >= sum_(t > k) P_t s_t for every k,       (2)
#
# P_t = c_(t+1) ... c_T. Two consequences. The loss never falls when s grows. And let S and s have
# sum_(t > k) S_t >= sum_(t > k) s_t for all k: as P_t never falls with t, (2) for S implies (2) for
# s (summation by parts), whatever the contractions. So S has the larger loss, for every noise:
# later displacements count more.
#
# Norms: Gaussian noise of standard deviation sigma_t on each axis goes with the Euclidean norm in
# any dimension, Laplace noise with the l1 norm (its Renyi divergence is convex in the shift and 0
# at 0, so on an l1 ball it is largest at a vertex); the other families are for one dimension.

from __future__ import annotations

from math import inf, isfinite, nextafter, sqrt

import numpy as np
from numpy.typing import ArrayLike

from sklearn_puffer._base import (
    FloatArray,
    check_above,
    check_positive,
    real_numbers,
)
from sklearn_puffer._displacements import (
    check_sequence,
    contraction,
    joint_shifts,
    worst_shifts,
)
from sklearn_puffer._numerics import ULP, smallest_within
from sklearn_puffer.noise import ROUNDING, Gaussian, Noise, named_noise

__all__ = [
    "contraction",
    "iteration_loss",
    "joint_shifts",
    "optimal_shifts",
    "smallest_sigma",
    "worst_shifts",
]

_SUM_ROUNDING = 1.0 + 8.0 * ROUNDING  # covers the rounding of a sum over a million steps
_SMALLEST = 1e-299  # divergences below 1e-300 are only that small (see `noise`)
_NEAREST = 1e-150  # shorter shifts, in scales, count as this: their squares are floats
_LEAST_EPSILON = 1e-250


def optimal_shifts(
    s: ArrayLike, sigmas: ArrayLike, contractions: ArrayLike | None = None
) -> FloatArray:
    r"""Return the shifts that noise should hide for the smallest Gaussian loss (004, Thm 5.2).

    .. math:: \min_a \sum_t \frac{a_t^2}{\sigma_t^2} \quad\text{with}\quad
              z_t = c_t z_{t-1} + s_t - a_t \ge 0, \quad z_0 = z_T = 0

    Parameters
    ----------
    s : array-like of shape (T,)
        How far each step can move under the joint coupling, not negative.
    sigmas : float or array-like of shape (T,)
        Standard deviations of the noise, in the units of ``s``.
    contractions : float or array-like of shape (T,), optional
        c_t in [0, 1]; 1 by default.

    Returns
    -------
    ndarray of shape (T,)
        a. Without contractions a_t / sigma_t^2 is the isotonic (non-decreasing) regression of
        s_t / sigma_t^2 with weights sigma_t^2.

    Raises
    ------
    TypeError, ValueError
        If a sequence is empty, not finite, negative, or of another length.

    Notes
    -----
    *Formal guarantees.* In real arithmetic, with z_t cut at 0, the shifts end at z_T = 0. So the
    loss at them is a proven bound. Its excess over the optimum is a rounding error, about 1e-15 T.

    With C_t = c_1 ... c_t, b_t = a_t / C_t and r_t = s_t / C_t the constraints say that no prefix
    sum of b exceeds that of r. So a_t C_t / sigma_t^2 is constant on blocks and does not fall from
    block to block; pooling adjacent blocks that do fall (in O(T)) gives the optimum.

    Examples
    --------
    >>> from sklearn_puffer.iteration import optimal_shifts
    >>> optimal_shifts([2.0, 0.0], 1.0).round(9).tolist()
    [1.0, 1.0]
    >>> optimal_shifts([0.0, 2.0], 1.0).round(9).tolist()
    [0.0, 2.0]
    """
    return _optimal(*_iteration(s, sigmas, contractions))


def _optimal(s: FloatArray, sigmas: FloatArray, factors: FloatArray) -> FloatArray:
    """Return `optimal_shifts` of checked arguments."""
    a = np.zeros_like(s)
    if not s.any():
        return a
    tail = slice(int(np.argmax(s > 0.0)), None)  # from the first step that moves
    a[tail] = _safe(_pooled(s[tail], sigmas[tail], factors[tail]), s[tail], factors[tail])
    return a


def _pooled(s: FloatArray, sigmas: FloatArray, factors: FloatArray) -> FloatArray:
    """Return the optimal shifts by pooling adjacent blocks, raised by more than their rounding."""
    top = float(s.max())
    # Products of many contractions underflow. So every block is in units of its last step, which
    # a rescaling to an isotonic regression would not allow. Sigmas count as at least 1e-100 of the
    # largest.
    variances = np.square(np.maximum(sigmas / sigmas.max(), 1e-100)).tolist()
    a = np.empty_like(s)
    for first, last, level in _blocks((s / top).tolist(), variances, factors.tolist()):
        weight = level * top
        for t in range(last, first - 1, -1):
            a[t] = weight * variances[t]
            weight *= float(factors[t])
        if first == last:
            a[first] = s[first]
    # slightly more than the optimum, so that rounding does not accumulate in the last step
    return a * (1.0 + 4.0 * len(a) * ULP)


def _blocks(
    s: list[float], variances: list[float], factors: list[float]
) -> list[tuple[int, int, float]]:
    """Return (first, last, a_last / sigma_last^2) of the blocks, where the largest s is 1."""
    # each block is (first step, sum of P s, sum of P^2 sigma^2, product of its contractions), where
    # P is the product of the contractions after a step of the block
    stack: list[tuple[int, float, float, float]] = []
    for t, (total, spread, product) in enumerate(zip(s, variances, factors, strict=True)):
        first = t
        while stack and stack[-1][1] * spread > product * total * stack[-1][2]:
            first, before, spread_before, product_before = stack.pop()
            total += product * before
            spread += product * product * spread_before
            product *= product_before
        stack.append((first, total, spread, product))
    ends = [block[0] - 1 for block in stack[1:]] + [len(s) - 1]
    return [(b[0], end, b[1] / b[2]) for b, end in zip(stack, ends, strict=True)]


def _safe(a: FloatArray, s: FloatArray, factors: FloatArray) -> FloatArray:
    """Return ``a`` with no z_t below 0, and with its last entry such that z_T is 0.

    z is rounded upwards at every operation: it is never below the exact z of (1) for these shifts.
    """
    taken: list[float] = []
    z = reach = 0.0
    for a_t, s_t, c_t in zip(a.tolist(), s.tolist(), factors.tolist(), strict=True):
        carried = z if c_t == 1.0 else nextafter(c_t * z, inf) if z and c_t else 0.0
        reach = nextafter(carried + s_t, inf) if carried and s_t else carried + s_t
        taken.append(min(a_t, reach))
        z = 0.0 if a_t >= reach else nextafter(reach - a_t, inf)
    taken[-1] = reach
    return np.array(taken)


def iteration_loss(
    s: ArrayLike,
    sigmas: ArrayLike,
    alpha: float,
    *,
    contractions: ArrayLike | None = None,
    noise: str | Noise = "gaussian",
) -> float:
    r"""Return a bound on the Renyi loss of releasing the last step of a noisy iteration.

    .. math:: D_\alpha(W_T, W'_T) \le \sum_t R_\alpha(N_t, a_t), \qquad
              R_\alpha(N_t, a) = \frac{\alpha a^2}{2 \sigma_t^2} \text{ for Gaussian noise}

    Parameters
    ----------
    s : array-like of shape (T,)
        How far each step can move under *one* joint coupling of the two whole sequences
        (`joint_shifts`, `worst_shifts`).
    sigmas : float or array-like of shape (T,)
        Scales of the noise of each step (standard deviations for Gaussian noise), in units of s.
    alpha : float
        Renyi order, above 1.
    contractions : float or array-like of shape (T,), optional
        c_t in [0, 1]; 1 by default. See `contraction`.
    noise : str or noise family
        Step t adds sigma_t times a draw of it; a name stands for the family of scale 1.

    Returns
    -------
    float
        In nats; 0 if nothing moves.

    Raises
    ------
    TypeError, ValueError
        If a sequence is not valid, or a number out of range.

    Notes
    -----
    *Formal guarantees.* The a_t are those of `optimal_shifts`, or, for other noise than Gaussian
    noise, a_t = s_t (004, Prop. 6.4) where that is less. It is an upper bound in real arithmetic,
    rounded up, for every contractive iteration with such displacements, by the theorem at the top
    of the module's source, which also has the norm for each noise in several dimensions. It is not
    exact: maps that bring points closer than c_t lose less.

    Examples
    --------
    >>> from sklearn_puffer.iteration import iteration_loss
    >>> round(iteration_loss([2.0, 0.0, 0.0], 1.0, alpha=2.0), 6)  # 2^2 / 3
    1.333333
    """
    order = check_above(alpha, 1.0, "alpha")
    displacements, scales, factors = _iteration(s, sigmas, contractions)
    family = named_noise(noise)
    choices = [_optimal(displacements, scales, factors)]
    if not family.is_normal:
        choices.append(displacements)
    return min(_total(family, a, scales, order) for a in choices)


def _total(family: Noise, a: FloatArray, sigmas: FloatArray, alpha: float) -> float:
    """Return the sum of the divergences of the shifts, rounded up."""
    hidden = a > 0.0
    if not hidden.any():
        return 0.0
    with np.errstate(over="ignore"):  # infinity is a valid bound
        # in scales, rounded up by more than the divergences of `noise` need
        units = np.maximum(a[hidden] / sigmas[hidden] * (1.0 + 2.0 * ROUNDING), _NEAREST)
        losses = family.renyi_divergence(units[:, None], alpha) + _SMALLEST
        return float(losses.sum() * _SUM_ROUNDING)


def smallest_sigma(
    s: ArrayLike, alpha: float, epsilon: float, *, contractions: ArrayLike | None = None
) -> float:
    r"""Return the smallest Gaussian noise, the same at every step, that keeps a Renyi budget.

    .. math:: \sigma = \sqrt{\frac{\alpha}{2 \varepsilon} \sum_t a_t^2}

    Parameters
    ----------
    s : array-like of shape (T,)
        As for `iteration_loss`.
    alpha, epsilon : float
        The order, above 1, and the budget in nats, at least 1e-250.
    contractions : float or array-like of shape (T,), optional
        c_t in [0, 1]; 1 by default.

    Returns
    -------
    float
        sigma, rounded up: ``iteration_loss(s, sigma, alpha) <= epsilon``. 0 if nothing moves.

    Raises
    ------
    TypeError, ValueError
        If a number or a sequence is out of range.
    OverflowError
        If no finite noise is enough.

    Notes
    -----
    *Formal guarantees.* The optimal shifts do not depend on a common sigma. The loss has been
    evaluated at the returned one, and no sigma smaller by more than 1e-12 of it is enough.

    Examples
    --------
    >>> from sklearn_puffer.iteration import smallest_sigma
    >>> round(smallest_sigma([2.0, 0.0, 0.0], alpha=2.0, epsilon=1.0), 6)
    1.154701
    """
    order, budget = check_above(alpha, 1.0, "alpha"), check_positive(epsilon, "epsilon")
    if budget < _LEAST_EPSILON:
        raise ValueError(f"epsilon must be at least {_LEAST_EPSILON:g}, got {epsilon!r}.")
    a = optimal_shifts(s, 1.0, contractions)
    if not a.any():
        return 0.0

    def loss(sigma: float) -> float:
        return _total(Gaussian(1.0), a, np.full_like(a, sigma), order)

    sigma = smallest_within(loss, budget, sqrt(order / budget / 2.0) * float(a.max()), 1e-12)
    if not isfinite(sigma):
        raise OverflowError(f"no finite noise keeps epsilon {budget:g}; raise it, or scale s down.")
    return sigma


def _iteration(
    s: ArrayLike, sigmas: ArrayLike, contractions: ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return displacements, scales and contractions, one of each for every step, checked."""
    displacements = check_sequence(s, "s")
    n_steps = len(displacements)
    scales = _by_step(sigmas, n_steps, "sigmas")
    if not np.all((scales > 0.0) & (scales < inf)):
        raise ValueError(f"sigmas must be positive and finite, got {scales.min():g}.")
    factors = _by_step(1.0 if contractions is None else contractions, n_steps, "contractions")
    valid = (factors >= 0.0) & (factors <= 1.0)
    if not valid.all():
        raise ValueError(
            f"contractions must lie in [0, 1], got {factors[~valid][0]:g}; shorten the step until "
            "its map is a contraction (see contraction)."
        )
    return displacements, scales, factors


def _by_step(values: ArrayLike, n_steps: int, name: str) -> FloatArray:
    array = real_numbers(values, name)
    if array.shape not in ((), (n_steps,)):
        raise ValueError(
            f"{name} must be one number or {n_steps}, one for each step, got an array of shape "
            f"{array.shape}."
        )
    return np.broadcast_to(array, (n_steps,)).copy()
