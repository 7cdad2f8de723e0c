r"""Secrets that move the released value by a known distance.

Use this module where you know how two secrets differ, as a model of the data says (weak dependence,
Gaussian attributes, Langevin dynamics), and have no table to fit.

If a coupling of the distributions under two secrets keeps values within W_inf of each other, noise
loses at most what it loses by a shift of that length (004, Thm 3.3). Section 6 of 004 bounds W_inf
for three kinds of data; each is a function here that returns a `Shift`, which calibrates any noise.
Corollary 1(b) of 003 is a fourth. The rest of that corollary, sums of Gaussian users, and the
factor of its Theorem 1 by Lambert's function are here too.
"""

# Rounding. Distances are exact fractions, rounded up. `langevin` and `lambert_tau` say what they
# add.

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import wrightomega

from sklearn_puffer._base import (
    FloatArray,
    as_array,
    as_float,
    check_choice,
    check_delta,
    real_numbers,
)
from sklearn_puffer._numerics import ULP, rounded_up
from sklearn_puffer._sums import GaussianUsers, gaussian_users
from sklearn_puffer.calibration import Calibration, calibrate
from sklearn_puffer.noise import Noise, named_noise
from sklearn_puffer.notions import Notion
from sklearn_puffer.priors import Discrete

__all__ = [
    "GaussianUsers",
    "Shift",
    "corollary_1b",
    "gaussian_attributes",
    "gaussian_users",
    "lambert_tau",
    "langevin",
    "weakly_dependent",
]

Exact = NDArray[Any]  # of fractions

_NORMS = {"absolute": None, "l1": "Laplace", "l2": "Gaussian"}
_SINGULAR = 1e-12  # of the largest eigenvalue
_LEAST = 1e-300
_SMALLEST_EXPONENT = -700.0  # e to the power of it is a normal float


# --------------------------------------------------------------------------- shifts, 004 section 6


@dataclass(frozen=True)
class Shift:
    """A bound on W_inf: how far the released value lies apart under two secrets.

    Parameters
    ----------
    distance : float
        In the unit of the released value, not negative.
    norm : {"absolute", "l1", "l2"}
        What the distance is measured in: ``"absolute"`` for one number.
    theorem : str
        Where the bound is from.
    assumptions : tuple of str
        What it stands on.

    Raises
    ------
    TypeError, ValueError
        If the distance is no number, negative or not finite, or the norm is not one of the three.

    Examples
    --------
    >>> from sklearn_puffer.closed_forms import Shift
    >>> from sklearn_puffer.notions import Pufferfish
    >>> round(Shift(3.0, "absolute", "001, Thm 1").calibrate(Pufferfish(0.5)).scale, 9)
    6.0
    """

    distance: float
    norm: str
    theorem: str
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice(self.norm, "norm", _NORMS)
        object.__setattr__(self, "distance", _not_negative(self.distance, "distance"))

    def calibrate(self, notion: Notion, noise: str | Noise = "laplace") -> Calibration:
        r"""Return the smallest noise that keeps a shift of this distance within the notion.

        Parameters
        ----------
        notion : Pufferfish or RenyiPufferfish
            What is to be guaranteed, with its budget.
        noise : str or Noise, default="laplace"
            For ``"l1"`` Laplace noise, for ``"l2"`` Gaussian noise, of one scale on all axes.

        Returns
        -------
        Calibration
            The scale, in the unit of the distance.

        Raises
        ------
        TypeError, ValueError
            If notion or noise is none, noise and norm do not go together, or the noise has no such
            guarantee.

        Notes
        -----
        *Formal guarantees.* Noise of this scale keeps the notion for all distributions whose W_inf
        is at most the distance (004, Thm 3.3), and no smaller scale does for a translation by it.
        In several columns a shift along one axis is the worst of its norm. Gaussian noise looks the
        same in all directions. The pure loss of Laplace noise is the l1 norm over theta, its delta
        at most that of one column at the l1 norm (`noise.Laplace`), and its Renyi loss a convex
        function of each coordinate that is 0 at 0, so that sums do not exceed its value at the sum.

        Examples
        --------
        >>> from sklearn_puffer.closed_forms import Shift
        >>> from sklearn_puffer.notions import RenyiPufferfish
        >>> shift = Shift(2.0, "l2", "a translation")
        >>> round(shift.calibrate(RenyiPufferfish(1.0, alpha=2.0), noise="gaussian").scale, 9)
        2.0
        """
        distribution = named_noise(noise)
        if self.norm not in ("absolute", distribution.norm):
            raise ValueError(
                f"noise must be {_NORMS[self.norm]} for a distance in the {self.norm} norm, got "
                f"{noise!r}; for d columns the l1 norm is at most sqrt(d) times the l2 norm, which "
                "is at most the l1 norm."
            )
        ends = Discrete([0.0], [1.0]), Discrete([self.distance], [1.0])
        return calibrate([ends], notion, noise=distribution, strategy="wasserstein")


def weakly_dependent(
    sensitivity: float, dependence: float, *, same_user: bool = True, norm: str = "absolute"
) -> Shift:
    r"""Return how far a query moves when the rows are nearly independent (004, Prop. 6.1).

    .. math:: W_\infty \le 2 \lambda + \Delta \quad \text{for secrets of one user}, \qquad
              2 \lambda + 2 \Delta \quad \text{for secrets of two users}

    Parameters
    ----------
    sensitivity : float
        Delta, how far the query moves at most when one row changes, in the unit of the query.
    dependence : float
        lambda, the largest W_inf between the query's distribution given a secret and the
        distribution that it would have if the rows were independent.
    same_user : bool, default=True
        Whether both secrets of each pair are about the same row.
    norm : {"absolute", "l1", "l2"}, default="absolute"
        In which both numbers are measured.

    Returns
    -------
    Shift
        In that norm.

    Raises
    ------
    TypeError, ValueError
        If a number is negative or not finite, or the norm is not one of the three.

    Notes
    -----
    *Formal guarantees.* W_inf is a metric: from the distribution given s_i to that of independent
    rows it is lambda, and back again lambda; independent rows given two values of one row couple
    all the others as they are. Given values of two different rows, both of these rows move, and
    with Delta = 10 and lambda = 0 the distance is 20 where 10 is printed.

    References
    ----------
    004, Prop. 6.1, corrected for pairs of different users.

    Examples
    --------
    >>> from sklearn_puffer.closed_forms import weakly_dependent
    >>> weakly_dependent(1.0, 0.25).distance, weakly_dependent(10, 0, same_user=False).distance
    (1.5, 20.0)
    """
    step, drift = (
        Fraction(_not_negative(value, name))
        for value, name in [(sensitivity, "sensitivity"), (dependence, "dependence")]
    )
    if not isinstance(same_user, bool | np.bool_):
        raise TypeError(f"same_user must be True or False, got {same_user!r}.")
    whose = "of one user" if same_user else "of any users"
    return Shift(
        rounded_up(2 * drift + (1 if same_user else 2) * step),
        norm,
        "004, Prop. 6.1, corrected",
        (
            f"given any secret, the query lies within W_inf = {float(drift):g} of what it would be "
            "for independent rows",
            f"secrets are pairs of values {whose}",
        ),
    )


def gaussian_attributes(
    covariance: ArrayLike,
    released: ArrayLike,
    secret: ArrayLike,
    distance: ArrayLike,
    *,
    norm: str = "l2",
) -> Shift:
    r"""Return how far statistics of a Gaussian record move with others (004, Prop. 6.2, F.1).

    .. math:: W_\infty = \max_{a, b \in K} \left\| \mathrm{Cov}(MX, NX)\, \mathrm{Cov}(NX)^{-1}
              (a - b) \right\|

    Parameters
    ----------
    covariance : array-like of shape (m, m)
        That of one record X.
    released, secret : int, sequence of int, or array-like of shape (l, m)
        M and N: positions of columns, or the rows of a matrix.
    distance : float, array-like of shape (k,), or of shape (n, k)
        |a - b| for one secret number, the vector a - b, or the points of K (its vertices, where K
        is convex), of which all differences are tried.
    norm : {"l1", "l2"}, default="l2"
        For several released numbers; for one it is the absolute value.

    Returns
    -------
    Shift
        In that norm.

    Raises
    ------
    TypeError, ValueError
        If the covariance is not symmetric and positive semidefinite, that of the secrets is
        singular, shapes disagree, or the norm is neither of the two.

    Notes
    -----
    *Formal guarantees.* Given NX = a, MX is Gaussian with a covariance that does not depend on a,
    so that another a translates it: the distance is W_inf itself. It is computed in fractions and
    rounded up once. A norm is convex, so the vertices of K decide.

    As printed for two columns, a negative covariance gives a negative distance: the variance 1,
    covariance -0.5 and |a - b| = 2 give -1, where W_inf is 1.

    References
    ----------
    004, Prop. 6.2 (with the absolute value) and Prop. F.1.

    Examples
    --------
    >>> from sklearn_puffer.closed_forms import gaussian_attributes
    >>> gaussian_attributes([[1.0, -0.5], [-0.5, 1.0]], released=1, secret=0, distance=2.0).distance
    1.0
    """
    check_choice(norm, "norm", ["l1", "l2"])
    sigma = _check_covariance(covariance)
    m_rows = _rows(released, len(sigma), "released")
    n_rows = _rows(secret, len(sigma), "secret")
    differences = _differences(distance, len(n_rows))
    slopes = _slopes(sigma, m_rows, n_rows)
    moves = [slopes @ difference for difference in differences]
    single = len(m_rows) == 1
    if norm == "l1" or single:
        distances = [rounded_up(Fraction(sum(abs(value) for value in move))) for move in moves]
    else:
        distances = [_root_of_squares(move) for move in moves]
    return Shift(
        max(distances),
        "absolute" if single else norm,
        "004, Prop. 6.2 and F.1, with |Cov|",
        ("each record is drawn independently from a Gaussian distribution with this covariance",),
    )


def langevin(
    convexity: float, times: ArrayLike, diameter: float, *, lipschitz: float = 1.0
) -> Shift:
    r"""Return how far a query of a Langevin diffusion moves with its start (004, Prop. 6.3).

    .. math:: dX_t = -\nabla V(X_t) dt + \sqrt{2} dB_t, \quad \nabla^2 V \succeq C I: \qquad
              W_\infty \le L \operatorname{diam}(K) \sum_i e^{-C t_i}

    Parameters
    ----------
    convexity : float
        C, of any sign.
    times : array-like of shape (n,)
        The times t_i at which the path is read: increasing, not negative.
    diameter : float
        The largest l2 distance of two starting points.
    lipschitz : float, default=1.0
        L: the query moves by at most L times the sum of the l2 distances at the times.

    Returns
    -------
    Shift
        In the l2 norm.

    Raises
    ------
    TypeError, ValueError
        If a number is not finite, diameter or lipschitz is negative, or the times are not
        increasing from 0 on.

    Notes
    -----
    *Formal guarantees.* Two paths with one Brownian motion lie apart by a vector z_t whose squared
    l2 norm falls: d|z|^2/dt = -2 <z, grad V(x) - grad V(y)> <= -2 C |z|^2, so that |z_t| <=
    e^(-C t) |z_0|. Four roundings are added upwards.

    As printed, the exponent is -2 C t, and the norm l1. With C = 1, t = 0.5 and diameter 1 the
    distance is 0.6065 where 0.3679 is printed, and noise for that loses 1.65 instead of 1. The l1
    norm contracts less: curvatures 1 and 50 in oblique directions leave 0.988 of it at t = 0.2,
    which is 1.207 times e^(-C t).

    References
    ----------
    004, Prop. 6.3, corrected.

    Examples
    --------
    >>> from sklearn_puffer.closed_forms import langevin
    >>> round(langevin(1.0, [0.5], diameter=1.0).distance, 12)
    0.606530659713
    """
    rate = _number(convexity, "convexity")
    instants = np.atleast_1d(real_numbers(times, "times"))
    increasing = instants.ndim == 1 and instants.size > 0 and bool(np.all(np.diff(instants) > 0.0))
    if not (increasing and np.isfinite(instants).all() and instants[0] >= 0.0):
        raise ValueError(
            f"times must increase, from 0 or later, got {instants.tolist()}; sort them."
        )
    apart, reach = _not_negative(diameter, "diameter"), _not_negative(lipschitz, "lipschitz")
    moves = apart > 0.0 and reach > 0.0
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        exponents = np.maximum(-rate * instants, _SMALLEST_EXPONENT)
        # a product that rounds by u of itself moves e^x by u |x|
        factors = np.exp(exponents + np.abs(exponents) * ULP)
        total = float(factors.sum()) * (apart * reach) * (1.0 + (len(instants) + 8) * ULP)
    if moves and not math.isfinite(total):
        raise ValueError(
            f"the distance is beyond all floats for convexity={rate:g}, times up to "
            f"{instants[-1]:g}, diameter={apart:g} and lipschitz={reach:g}; "
            "read the path earlier (paths part where convexity is negative), or use another unit."
        )
    return Shift(
        max(total, _LEAST) if moves else 0.0,
        "l2",
        "004, Prop. 6.3, corrected",
        (
            f"the potential has curvature of at least {rate:g} everywhere",
            "only the starting point is secret, and a reader of the release knows the dynamics",
        ),
    )


def corollary_1b(first: float, second: float) -> Shift:
    r"""Return how far one user's value moves the sum: 003, Corollary 1(b).

    .. math:: W_\infty = |a - a'|

    Parameters
    ----------
    first, second : float
        Two values of one user, in the unit of the sum.

    Returns
    -------
    Shift
        In absolute value.

    Raises
    ------
    TypeError, ValueError
        If a value is not a finite number.

    Notes
    -----
    *Formal guarantees.* The sum is translated, whatever the distributions of the other users: no
    Gaussian is needed.

    References
    ----------
    003, Corollary 1(b), Eq. (10).

    Examples
    --------
    >>> from sklearn_puffer.closed_forms import corollary_1b
    >>> corollary_1b(3.0, 5.0).distance
    2.0
    """
    distance = abs(Fraction(_number(first, "first")) - Fraction(_number(second, "second")))
    return Shift(
        rounded_up(distance), "absolute", "003, Cor. 1(b)", ("users report independent values",)
    )


def lambert_tau(delta: float) -> float:
    r"""Return the factor of a difference in deviation by Lambert's function (003, Eq. 22 and 23).

    .. math:: \tau(\delta) = \sqrt{W_0\left(\frac{2}{\pi \delta^2}\right)}, \qquad
              b = \frac{|\mu_i - \mu_j| + \tau(\delta)\, |\sigma_i - \sigma_j|}{\varepsilon}

    Parameters
    ----------
    delta : float
        Above 0 and below 1.

    Returns
    -------
    float
        tau, without a unit.

    Raises
    ------
    TypeError, ValueError
        If delta is not a number above 0 and below 1.

    Notes
    -----
    *Formal guarantees.* P(\|Z\| > tau) <= delta for a standard normal Z, by the tail bound of
    003, Eq. (21); with it Laplace noise of scale b keeps two Gaussian priors within (epsilon,
    delta), as in 003, Theorem 1. Eq. (22) is the same number, as W_0(x e^x) = x. Eight roundings
    are added upwards.

    The quantile Q^-1(delta/2) of Theorem 1 is the smallest such factor, and ``strategy="monge"``
    takes that one; ``"exact"`` asks for less noise than either.

    References
    ----------
    003, Eq. (22) and (23).

    Examples
    --------
    >>> from sklearn_puffer.closed_forms import lambert_tau
    >>> round(lambert_tau(0.3), 6)
    1.237199
    """
    probability = check_delta(delta, "delta")
    if probability == 0.0:
        raise ValueError(
            "delta must be above 0, got 0.0: no factor covers all of a normal distribution; give a "
            "small probability such as 1e-5."
        )
    # omega(log x) = W_0(x), also where x is no float
    squared = float(wrightomega(math.log(2.0 / math.pi) - 2.0 * math.log(probability)))
    return math.sqrt(squared) * (1.0 + 8.0 * ULP)


# ------------------------------------------------------------------------------- exact arithmetic


def _slopes(sigma: Exact, m_rows: Exact, n_rows: Exact) -> Exact:
    """Return Cov(MX, NX) Cov(NX)^-1."""
    with_secret = sigma @ n_rows.T
    of_secret = n_rows @ with_secret
    values = np.linalg.eigvalsh(of_secret.astype(float))
    if values[0] <= _SINGULAR * values[-1]:
        raise ValueError(
            "secret must be statistics whose covariance is not singular, got "
            f"{of_secret.astype(float).tolist()}; leave out those that others determine."
        )
    # solved in fractions, by elimination: a symmetric positive definite matrix needs no pivots
    size = len(of_secret)
    rows = np.concatenate([of_secret, (m_rows @ with_secret).T], axis=1)
    for k in range(size):
        rows[k] = rows[k] / rows[k, k]
        for other in range(size):
            if other != k:
                rows[other] = rows[other] - rows[other, k] * rows[k]
    return rows[:, size:].T


def _root_of_squares(vector: Exact) -> float:
    """Return the l2 norm, rounded up."""
    square = sum((value * value for value in vector), Fraction(0))
    # sqrt(n/d) = sqrt(n d 4^s) / (d 2^s), where s makes the root an integer of at least 60 bits
    product = square.numerator * square.denominator
    shift = max(60 - product.bit_length() // 2, 0)
    root = math.isqrt(product << (2 * shift))
    root += root * root < product << (2 * shift)
    return rounded_up(Fraction(root, square.denominator << shift))


def _fractions(values: FloatArray) -> Exact:
    exact = np.empty(values.shape, dtype=object)
    exact.ravel()[:] = [Fraction(value) for value in values.ravel().tolist()]
    return exact


def _check_covariance(covariance: ArrayLike) -> Exact:
    values = real_numbers(covariance, "covariance")
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not values.size:
        raise ValueError(f"covariance must be a square matrix, got shape {values.shape}.")
    if not np.isfinite(values).all():
        raise ValueError("covariance must be finite, got NaN or infinity.")
    largest = float(np.abs(values).max())
    if not np.allclose(values, values.T, rtol=0.0, atol=_SINGULAR * largest):
        raise ValueError(
            f"covariance must be symmetric, got {values.tolist()}; average it with its transpose."
        )
    least = float(np.linalg.eigvalsh(values)[0])
    if least < -_SINGULAR * largest * len(values):
        raise ValueError(
            f"covariance must be positive semidefinite, got an eigenvalue of {least!r}; estimate "
            "it from complete rows, or take the nearest matrix that is."
        )
    exact = _fractions(values)
    return np.asarray((exact + exact.T) / 2)


def _rows(which: ArrayLike, width: int, name: str) -> Exact:
    """Return positions of columns, or a matrix, as rows of fractions."""
    values = as_array(which, name)
    if values.ndim == 2 and values.shape[1] == width and len(values):
        matrix = real_numbers(values, name)
        if not np.isfinite(matrix).all():
            raise ValueError(f"{name} must be finite, got NaN or infinity.")
        return _fractions(matrix)
    positions = np.atleast_1d(values)
    if positions.ndim != 1 or not positions.size or positions.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be positions of columns or a matrix with {width} columns, got {which!r}."
        )
    if positions.min() < 0 or positions.max() >= width:
        raise ValueError(f"{name} must be positions from 0 to {width - 1}, got {which!r}.")
    return _fractions(np.eye(width)[positions])


def _differences(distance: ArrayLike, n_secrets: int) -> list[Exact]:
    """Return the vectors a - b to try."""
    values = real_numbers(distance, "distance")
    if not np.isfinite(values).all() or not values.size:
        raise ValueError(f"distance must be finite, got {distance!r}.")
    if values.ndim < 2:
        vector = np.atleast_1d(values)
        if len(vector) != n_secrets:
            raise ValueError(
                f"distance must hold a number for each of {n_secrets} secrets, got {distance!r}; "
                "or list the points of K as rows."
            )
        return [_fractions(vector)]
    if values.ndim > 2 or values.shape[1] != n_secrets:
        raise ValueError(
            f"distance must be points with {n_secrets} numbers each, got shape {values.shape}."
        )
    points = _fractions(values)
    return [points[j] - points[i] for i in range(len(points)) for j in range(i, len(points))]


# --------------------------------------------------------------------------------------- arguments


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    number = as_float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {value!r}; give it in another unit.")
    return number


def _not_negative(value: Any, name: str) -> float:
    number = _number(value, name)
    if number < 0.0:
        raise ValueError(f"{name} must not be negative, got {value!r}.")
    return number
