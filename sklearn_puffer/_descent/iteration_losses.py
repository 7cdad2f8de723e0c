r"""The Renyi loss of noisy iterations that show only where they end (004, section 5, corrected).

An iteration W_t = psi_t(W_(t-1), X_t) + N_t, t = 1..T, starts at a public W_0 and adds fresh noise
N_t, independent of everything else. psi_t is a c_t-contraction of its first argument, c_t <= 1.
Only W_T is released. How far do the laws of W_T under two secrets lie apart?

Theorem (004, Thm 5.2, with one joint coupling). Let one coupling of the two *whole* sequences have
|psi_t(w, X_t) - psi_t(w, X'_t)| <= s_t for every w, almost surely. Let a_t >= 0, z_0 = 0 and

    z_t = max(c_t z_(t-1) + s_t - a_t, 0),    z_T = 0.                                     (1)

Then D_alpha(W_T, W'_T) <= sum_t R_alpha(N_t, a_t), R_alpha(N, a) being the largest Renyi divergence
of a shift of N by at most a.

Proof. Fix a pair (x, x') of sequences. Claim: some law within z_t (W_inf) of that of W_t has at
most the divergence sum_(u <= t) R_alpha(N_u, a_u) from W'_t. It holds for t = 0. A law within z of
W_(t-1) is mapped by psi_t(., x'_t) to one within c_t z + s_t of psi_t(W_(t-1), x_t), and mapping
both laws alike adds no divergence. Of that distance min(a_t, c_t z + s_t) is moved into the noise,
for at most R_alpha(N_t, a_t): z_t is left. At z_T = 0 the law is that of W_T itself. Finally both
laws of W_T are mixtures over the pairs (x, x') with the same weights, and
exp((alpha - 1) D_alpha) = int p^alpha q^(1 - alpha) is jointly convex, so the bound stays. QED

Printed, Thm 5.2 takes s_t from the marginals, step by step. That is not true: X_2 = X_1 against
X_2 = -X_1, X_1 a fair sign, has the same marginals (s = 0) and a D_2 of 1.325 after W_t = W_(t-1) +
X_t + N_t. The one joint coupling gives s = (0, 2).

As (1) cuts z_t at 0, an a_t that is too large only wastes: what must be right is z_T = 0. So every
sequence of shifts made here ends with a pass of (1) in floats, z rounded upwards at each operation,
whose last shift takes all that is left. Written over suffixes (solve (1) for z_T),

    z_T = 0  if and only if  sum_(t > k) P_t a_t >= sum_(t > k) P_t s_t for every k,       (2)

P_t = c_(t+1) ... c_T. Two consequences. The loss never falls when s grows. And let S and s have
sum_(t > k) S_t >= sum_(t > k) s_t for all k: as P_t never falls with t, (2) for S implies (2) for s
(summation by parts), whatever the contractions. So S has the larger loss, for every noise: moves
count the more the later they come.

Norms: Gaussian noise of standard deviation sigma_t on each axis goes with the Euclidean norm in any
dimension, Laplace noise with the l1 norm (its Renyi divergence is convex in the shift and 0 at 0,
so on an l1 ball it is largest at a vertex); the other families are for one dimension.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf, isfinite, nextafter, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_puffer._base import (
    ULP,
    FloatArray,
    check_above,
    check_choice,
    check_positive,
    real_numbers,
)
from sklearn_puffer._descent.moves import check_moves
from sklearn_puffer.noise import ROUNDING, Gaussian, Noise, named_noise

SUM_ROUNDING = (
    1.0 + 8.0 * ROUNDING
)  # what rounding may take off a sum of divergences of some million steps
SMALLEST = 1e-299  # divergences below 1e-300 are only that small (see `noise`)
_NEAREST = 1e-150  # moves below as many scales count as that: their squares are floats
_LEAST_EPSILON = 1e-250
_TOLERANCE = 1e-9  # how far shifts given by the caller may miss the end by rounding


def contraction(step: float, smoothness: float, strong_convexity: float = 0.0) -> float:
    r"""Return by how much a gradient step brings any two points closer.

    .. math:: \|w - \eta \nabla f(w) - (v - \eta \nabla f(v))\| \le c \|w - v\|, \qquad
              c = \max(|1 - \eta \mu|, |1 - \eta \beta|)

    Parameters
    ----------
    step : float
        eta, positive.
    smoothness : float
        beta: the gradient of the convex f is beta-Lipschitz. 0 for a linear f.
    strong_convexity : float
        mu, at most beta.

    Returns
    -------
    float
        c, at most 1, rounded up. A projection on a convex set after the step keeps it.

    Raises
    ------
    TypeError, ValueError
        If the step is longer than 2 / beta, where the step need not be a contraction (and 004,
        Lemma F.1 is misprinted: it asks for eta > 2 / beta), or a number is out of range.

    Notes
    -----
    *Formal guarantees.* The comparison with 2 / beta is exact, and c is never too small. (f minus
    mu |w|^2 / 2 is convex and (beta - mu)-smooth, so its gradient is cocoercive; Nesterov, 2004,
    Thm 2.1.12.)

    Examples
    --------
    >>> from sklearn_puffer.iteration import contraction
    >>> contraction(0.5, 4.0)
    1.0
    >>> round(contraction(0.5, 2.0, strong_convexity=1.0), 12)
    0.5
    """
    eta = check_positive(step, "step")
    beta = check_size(smoothness, "smoothness")
    mu = check_size(strong_convexity, "strong_convexity")
    if mu > beta:
        raise ValueError(
            f"strong_convexity must be at most smoothness ({beta!r}), got {mu!r}; give a bound on "
            "the curvature from below."
        )
    if Fraction(eta) * Fraction(beta) > 2:
        raise ValueError(
            f"step must be at most 2 / smoothness, here {_longest_step(beta)!r}, got {eta!r}: the "
            "map of a longer step is not a contraction; shorten it."
        )
    return max(_factor(eta, mu), _factor(eta, beta))


def _factor(eta: float, curvature: float) -> float:
    """Return |1 - eta curvature|, rounded up, for eta curvature in [0, 2]."""
    exact = abs(1 - Fraction(eta) * Fraction(curvature))
    near = float(exact)
    return near if Fraction(near) >= exact else min(nextafter(near, inf), 1.0)


def _longest_step(beta: float) -> float:
    longest = 2.0 / beta
    while Fraction(longest) * Fraction(beta) > 2:
        longest = nextafter(longest, 0.0)
    return longest


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
    *Formal guarantees.* The shifts satisfy (1) of the module exactly, in real arithmetic, so the
    loss at them is a proven bound. Its excess over the optimum is a rounding error, about 1e-15 T.

    With C_t = c_1 ... c_t, b_t = a_t / C_t and r_t = s_t / C_t the constraints lose their factors:
    prefix sums of b stay below those of r. So a_t C_t / sigma_t^2 is constant on blocks and does
    not fall from block to block; pooling neighbours that do fall (in O(T)) gives the blocks.

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
    first = int(np.argmax(s > 0.0))  # before it there is nothing to hide
    tail = slice(first, None)
    a = np.zeros_like(s)
    a[tail] = _safe(_pooled(s[tail], sigmas[tail], factors[tail]), s[tail], factors[tail])
    return a


def _pooled(s: FloatArray, sigmas: FloatArray, factors: FloatArray) -> FloatArray:
    """Return the optimal shifts, a rounding error too large, by pooling neighbours."""
    top = float(s.max())
    if top == 0.0:
        return np.zeros_like(s)
    # Products of many contractions underflow, so every block is in units of its last step, which
    # a rescaling to an isotonic regression would not allow. Far smaller noises count as 1e-100.
    variances = np.square(np.maximum(sigmas / sigmas.max(), 1e-100)).tolist()
    a = np.empty_like(s)
    for first, last, level in _blocks((s / top).tolist(), variances, factors.tolist()):
        weight = level * top
        for t in range(last, first - 1, -1):
            a[t] = weight * variances[t]
            weight *= float(factors[t])
        if first == last:
            a[first] = s[first]
    # A little more than the optimum, so that rounding does not pile up on the last step.
    return a * (1.0 + 4.0 * len(a) * ULP)


def _blocks(
    s: list[float], variances: list[float], factors: list[float]
) -> list[tuple[int, int, float]]:
    """Return (first, last, a_last / sigma_last^2) of the blocks, for a top of s of 1."""
    # (first step, sum of P s, sum of P^2 sigma^2, product of the contractions) of each block, P
    # leading from a step to the last of its block
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
    """Return ``a`` cut to what there is to hide, its last entry raised so that z_T is 0.

    z is rounded upwards at every operation, so it is never below the exact z of (1) for the shifts
    returned, and the last of them takes all that is left.
    """
    taken: list[float] = []
    z = reach = 0.0
    for shift, move, factor in zip(a.tolist(), s.tolist(), factors.tolist(), strict=True):
        carried = z if factor == 1.0 else _above(factor * z) if z and factor else 0.0
        reach = move if carried == 0.0 else carried if move == 0.0 else _above(carried + move)
        taken.append(min(shift, reach))
        z = 0.0 if shift >= reach else _above(reach - shift)
    taken[-1] = reach
    return np.array(taken)


def _above(x: float) -> float:
    return nextafter(x, inf)


def iteration_loss(
    s: ArrayLike,
    sigmas: ArrayLike,
    alpha: float,
    *,
    contractions: ArrayLike | None = None,
    noise: str | Noise = "gaussian",
    shifts: str | ArrayLike = "optimal",
) -> float:
    r"""Return a bound on the Renyi loss of releasing the last step of a noisy iteration.

    .. math:: D_\alpha(W_T, W'_T) \le \sum_t R_\alpha(N_t, a_t), \qquad
              R_\alpha(N_t, a) = \frac{\alpha a^2}{2 \sigma_t^2} \text{ for Gaussian noise}

    Parameters
    ----------
    s : array-like of shape (T,)
        How far each step can move under *one* joint coupling of the two whole sequences
        (`joint_shifts`, `gaussian_shifts`, `batch_shifts`, `worst_shifts`).
    sigmas : float or array-like of shape (T,)
        Scales of the noise of each step (standard deviations for Gaussian noise), in units of s.
    alpha : float
        Renyi order, above 1.
    contractions : float or array-like of shape (T,), optional
        c_t in [0, 1]; 1 by default. See `contraction`.
    noise : str or noise family
        Step t adds sigma_t times a draw of it; a name stands for the family of scale 1.
    shifts : {"optimal", "equal", "each"} or array-like of shape (T,)
        How the moves are spread over the noises. ``"each"``: a_t = s_t (004, Prop. 6.4).
        ``"equal"``: a_t = mean of s (004, Prop. F.2), for non-increasing s.
        ``"optimal"``: the smallest total for Gaussian noise; for another noise the best of the
        Gaussian optimum and "each". An array is taken as it is, if it is feasible.

    Returns
    -------
    float
        In nats; 0 if nothing moves.

    Raises
    ------
    TypeError, ValueError
        If a sequence is not valid, "equal" meets moves that grow, or the given shifts hide more
        than there is or leave something at the end.

    Notes
    -----
    *Formal guarantees.* An upper bound in real arithmetic, rounded up, for every contractive
    iteration with such moves, by the theorem at the head of the module (which has the norms that go
    with each noise in several dimensions). It is not exact: maps that bring points closer than c_t
    lose less.

    Examples
    --------
    >>> from sklearn_puffer.iteration import iteration_loss
    >>> round(iteration_loss([2.0, 0.0, 0.0], 1.0, alpha=2.0), 6)  # 2^2 / 3
    1.333333
    >>> round(iteration_loss([2.0, 0.0, 0.0], 1.0, alpha=2.0, shifts="each"), 6)
    4.0
    """
    order = check_above(alpha, 1.0, "alpha")
    moves, scales, factors = _iteration(s, sigmas, contractions)
    law = named_noise(noise)
    choices = [_chosen(shifts, moves, scales, factors)]
    if isinstance(shifts, str) and shifts == "optimal" and not law.is_normal:
        choices.append(moves)
    return min(_total(law, a, scales, order) for a in choices)


def _chosen(
    shifts: str | ArrayLike, s: FloatArray, sigmas: FloatArray, factors: FloatArray
) -> FloatArray:
    if not isinstance(shifts, str):
        return _given(shifts, s, factors)
    name = check_choice(shifts, "shifts", ["optimal", "equal", "each"])
    if name == "optimal":
        return _optimal(s, sigmas, factors)
    if name == "each":
        return s
    if np.any(np.diff(s) > 0.0):
        t = int(np.argmax(np.diff(s) > 0.0))
        raise ValueError(
            f"shifts='equal' needs moves that do not grow, and s grows from {s[t]:g} to "
            f"{s[t + 1]:g} at step {t + 1}; use shifts='optimal'."
        )
    # Equal shifts ignore the contractions, which a pass of (1) uses all the same at the end.
    return _safe(np.full_like(s, s.mean() * (1.0 + 4.0 * len(s) * ULP)), s, factors)


def _given(shifts: ArrayLike, s: FloatArray, factors: FloatArray) -> FloatArray:
    """Return shifts of the caller, made to end at 0 exactly, if they do so but for rounding."""
    a = check_moves(shifts, "shifts")
    if len(a) != len(s):
        raise ValueError(f"shifts has {len(a)} entries and s {len(s)}; give one for each step.")
    safe, scale = _safe(a, s, factors), _TOLERANCE * max(float(s.sum()), SMALLEST)
    if np.any(a > safe + scale):
        t = int(np.argmax(a > safe + scale))
        raise ValueError(
            f"shifts hides {a[t]:g} at step {t}, where only {safe[t]:g} has moved: z_{t} would be "
            "negative; hide it later, or use optimal_shifts."
        )
    if safe[-1] > a[-1] + scale:
        raise ValueError(
            f"shifts leaves {safe[-1] - a[-1]:g} unhidden at the last step; raise the shifts, or "
            "use optimal_shifts."
        )
    return safe


def _total(law: Noise, a: FloatArray, sigmas: FloatArray, alpha: float) -> float:
    """Return the sum of the divergences of the shifts, rounded up."""
    hidden = a > 0.0
    if not hidden.any():
        return 0.0
    with np.errstate(over="ignore"):  # infinity is a valid bound
        units = in_scales(a[hidden], sigmas[hidden])
        losses = law.renyi_divergence(units[:, None], alpha) + SMALLEST
        return float(losses.sum() * SUM_ROUNDING)


def in_scales(a: Any, sigma: Any) -> Any:
    """Return moves in scales, rounded up by more than the divergences of `noise` ask for."""
    units = np.maximum(a / sigma * (1.0 + 2.0 * ROUNDING), _NEAREST)
    return np.where(a > 0.0, units, 0.0)


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
    *Formal guarantees.* The optimal shifts do not depend on a common sigma, so the formula is
    solved, not searched; the loss is then evaluated at the result, which is raised until it fits.

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
    top = float(a.max())
    if top == 0.0:
        return 0.0
    sigma = sqrt(order / 2.0) / sqrt(budget) * top * sqrt(float(np.square(a / top).sum()))
    sigma = max(sigma * (1.0 + 8.0 * ROUNDING), float(np.finfo(float).tiny))
    growth = ROUNDING
    while isfinite(sigma) and _total(Gaussian(1.0), a, np.full_like(a, sigma), order) > budget:
        sigma, growth = sigma * (1.0 + growth), 2.0 * growth
    if not isfinite(sigma):
        raise OverflowError(f"no finite noise keeps epsilon {budget:g}; raise it, or scale s down.")
    return sigma


def _iteration(
    s: ArrayLike, sigmas: ArrayLike, contractions: ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return moves, scales and contractions, one of each a step, checked."""
    moves = check_moves(s, "s")
    scales = _each_step(sigmas, len(moves), "sigmas")
    if not np.all((scales > 0.0) & (scales < inf)):
        raise ValueError(f"sigmas must be positive and finite, got {scales.min():g}.")
    factors = _each_step(1.0 if contractions is None else contractions, len(moves), "contractions")
    valid = (factors >= 0.0) & (factors <= 1.0)
    if not valid.all():
        raise ValueError(
            f"contractions must lie in [0, 1], got {factors[~valid][0]:g}; shorten the step until "
            "its map is a contraction (see contraction)."
        )
    return moves, scales, factors


def _each_step(values: ArrayLike, steps: int, name: str) -> FloatArray:
    array = real_numbers(values, name)
    if array.shape not in ((), (steps,)):
        raise ValueError(
            f"{name} must be one number or {steps}, one a step, got an array of shape "
            f"{array.shape}."
        )
    return np.broadcast_to(array, (steps,)).copy()


def check_size(value: Any, name: str) -> float:
    """Return a finite number that is not negative."""
    return 0.0 if not isinstance(value, bool) and value == 0 else check_positive(value, name)
