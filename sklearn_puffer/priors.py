"""What an adversary knows: the public columns' distribution given a secret; and pairs of such.

Use this module to give ``prior=`` or ``adversaries=`` distributions that you know, or a confidence
set with another level.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from math import ceil, inf, lcm, nextafter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_puffer._base import (
    Array,
    FloatArray,
    Integers,
    as_array,
    check_positive,
    check_same_index,
    floats,
    real_numbers,
)
from sklearn_puffer._words import on_one_line

__all__ = ["ConfidenceSet", "Discrete", "GaussianMixture", "Prior", "PriorPair"]

_SUM_TOLERANCE = 1e-9
_LARGEST_DENOMINATOR = 2**53


class Discrete:
    r"""A prior with finitely many atoms, held as integer counts over a common total.

    .. math:: P(X = x_k \mid S = s) = c_k / \sum_l c_l

    Parameters
    ----------
    atoms : array-like of shape (n,) or (n, d)
        Values of one public column, or rows of d columns, in any order; a repeated atom is merged.
    probabilities : array-like of shape (n,)
        Masses, non-negative, summing to one within 1e-9. Masses such as 0.3 are read as the
        simplest fraction that rounds to them, so that equal priors have equal cumulative sums.

    Attributes
    ----------
    atoms : ndarray of shape (n,) or (n, d)
        Sorted, distinct, read-only.
    counts : ndarray of shape (n,)
        Non-negative integers (int64, or Python integers where those are too small).
    total : int
        Their sum.
    probabilities : ndarray of shape (n,)

    Raises
    ------
    ValueError
        If shapes disagree, an atom is not finite, or the masses are not a distribution.

    Notes
    -----
    Atoms of mass zero are kept: they belong to the alphabet, which ``sensitivity`` looks at.

    Examples
    --------
    >>> from sklearn_puffer.priors import Discrete
    >>> prior = Discrete([0, 1], [0.25, 0.75])
    >>> prior.counts.tolist(), prior.total
    ([1, 3], 4)
    """

    __slots__ = ("atoms", "counts", "probabilities", "total")

    atoms: FloatArray
    counts: Integers
    probabilities: FloatArray
    total: int

    def __init__(self, atoms: ArrayLike, probabilities: ArrayLike) -> None:
        check_same_index(probabilities, "probabilities", atoms, "atoms")
        masses = _check_masses(probabilities)
        self._set(_checked_atoms(atoms, masses.size), rational_counts(masses))

    @classmethod
    def from_counts(cls, atoms: ArrayLike, counts: ArrayLike) -> Discrete:
        """Build the empirical prior of a table of counts, exactly.

        Parameters
        ----------
        atoms : array-like of shape (n,) or (n, d)
            As for the class.
        counts : array-like of shape (n,)
            Non-negative integers, at least one of them positive.

        Returns
        -------
        Discrete
            With these counts, those of equal atoms added up.

        Examples
        --------
        >>> from sklearn_puffer.priors import Discrete
        >>> Discrete.from_counts([2, 0, 2], [1, 2, 1]).probabilities.tolist()
        [0.5, 0.5]
        """
        check_same_index(counts, "counts", atoms, "atoms")
        array = as_array(counts, "counts")
        if array.ndim != 1 or array.size == 0:
            raise ValueError(
                f"counts must be a non-empty list of integers, got shape {array.shape}."
            )
        integers = _whole_counts(array)
        if integers.min() < 0 or integers.max() == 0:
            raise ValueError("counts must not be negative, and at least one must be positive.")
        prior = cls.__new__(cls)
        prior._set(_checked_atoms(atoms, integers.size), integers)
        return prior

    @property
    def n_axes(self) -> int:
        """Number of public columns the prior describes."""
        return 1 if self.atoms.ndim == 1 else self.atoms.shape[1]

    @property
    def rows(self) -> FloatArray:
        """The atoms as rows, shape (n, d)."""
        return self.atoms.reshape(len(self.atoms), self.n_axes)

    def marginal(self, axes: Sequence[int]) -> Discrete:
        """Return the prior of some of the columns.

        Parameters
        ----------
        axes : sequence of int
            Positions of the columns, in the order wanted.

        Returns
        -------
        Discrete
            Of one column where there is one axis.

        Raises
        ------
        IndexError
            If there is no such column.

        Examples
        --------
        >>> from sklearn_puffer.priors import Discrete
        >>> both = Discrete([[0, 0], [0, 1], [1, 1]], [0.5, 0.25, 0.25])
        >>> both.marginal([1]).probabilities.tolist()
        [0.5, 0.5]
        """
        rows = self.rows[:, list(axes)]
        return Discrete.from_counts(rows[:, 0] if len(axes) == 1 else rows, self.counts)

    def moved(self, rows: FloatArray) -> Discrete:
        """Return the distribution of other values.

        Parameters
        ----------
        rows : ndarray of shape (n,) or (n, d)
            One value for each atom, in their order; equal ones are merged.

        Returns
        -------
        Discrete
            With the same masses.
        """
        return Discrete.from_counts(rows.reshape(self.atoms.shape), self.counts)

    def __repr__(self) -> str:
        return f"Discrete({len(self.atoms)} atoms, {self.n_axes} column(s), total {self.total})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Discrete):
            return NotImplemented
        return (
            self.atoms.shape == other.atoms.shape
            and bool(np.all(self.atoms == other.atoms))
            and _times(self.counts, other.total) == _times(other.counts, self.total)
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return (Discrete.from_counts, (self.atoms, self.counts))

    def _set(self, atoms: FloatArray, counts: Integers) -> None:
        order = np.lexsort(atoms[None, :] if atoms.ndim == 1 else atoms.T[::-1])
        rows = atoms.reshape(len(atoms), -1)[order]
        new = np.append(True, (rows[1:] != rows[:-1]).any(axis=1))
        starts = np.flatnonzero(new)  # of runs of equal atoms
        self.atoms = atoms[order[starts]]
        self.counts = np.add.reduceat(counts[order], starts)
        self.total = int(self.counts.sum())
        self.probabilities = (self.counts / self.total).astype(float)
        for array in (self.atoms, self.counts, self.probabilities):
            array.setflags(write=False)


class GaussianMixture:
    r"""A prior that is a mixture of Gaussians; a single component is a Gaussian prior.

    .. math:: P(x \mid S = s) = \sum_k w_k \, \mathcal{N}(x; \mu_k, \Sigma_k)

    Parameters
    ----------
    weights : array-like of shape (k,)
        Positive, summing to one within 1e-9; they are divided by their sum.
    means : array-like of shape (k,) or (k, d)
        Of one column, or of rows of d columns.
    scales : array-like of shape (k,) or (k, d, d)
        Standard deviations for one column, covariance matrices for rows. All positive (definite).

    Attributes
    ----------
    weights, means, scales : ndarray
        Read-only, in the order given.

    Raises
    ------
    ValueError
        If shapes disagree, a number is not finite, a weight or scale is not positive, or a
        covariance matrix is not symmetric and positive definite.

    Examples
    --------
    >>> from sklearn_puffer.priors import GaussianMixture
    >>> GaussianMixture([0.25, 0.75], [0.0, 3.0], [1.0, 0.5]).n_axes
    1
    >>> rows = GaussianMixture([1.0], [[0.0, 1.0]], [[[1.0, 0.5], [0.5, 1.0]]])
    >>> rows.marginal([1]).means.tolist()
    [1.0]
    """

    __slots__ = ("means", "scales", "weights")

    weights: FloatArray
    means: FloatArray
    scales: FloatArray

    def __init__(self, weights: ArrayLike, means: ArrayLike, scales: ArrayLike) -> None:
        for name, values in (("means", means), ("scales", scales)):
            check_same_index(values, name, weights, "weights")
        masses = _check_masses(weights)
        if masses.min() == 0.0:
            raise ValueError("weights must be positive, got 0.0; leave that component out.")
        self.weights = masses / masses.sum()
        self.means = _checked_points(means, masses.size, "means", "drop those components")
        self.scales = _check_scales(scales, self.means)
        for array in (self.weights, self.means, self.scales):
            array.setflags(write=False)

    @property
    def n_axes(self) -> int:
        """Number of public columns the prior describes."""
        return 1 if self.means.ndim == 1 else self.means.shape[1]

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.weights)

    @property
    def rows(self) -> FloatArray:
        """The means as rows, shape (k, d)."""
        return self.means.reshape(self.n_components, self.n_axes)

    @property
    def covariances(self) -> FloatArray:
        """The covariance matrices, shape (k, d, d)."""
        if self.means.ndim == 2:
            return self.scales
        squares: FloatArray = (self.scales**2)[:, None, None]
        return squares

    def marginal(self, axes: Sequence[int]) -> GaussianMixture:
        """Return the prior of some of the columns.

        Parameters
        ----------
        axes : sequence of int
            Positions of the columns, in the order wanted.

        Returns
        -------
        GaussianMixture
            With standard deviations where there is one axis, else covariance matrices.

        Raises
        ------
        IndexError
            If there is no such column.
        """
        kept = list(axes)
        means, covariances = self.rows[:, kept], self.covariances[:, kept][:, :, kept]
        if len(kept) == 1:
            return GaussianMixture(self.weights, means[:, 0], np.sqrt(covariances[:, 0, 0]))
        return GaussianMixture(self.weights, means, covariances)

    def __repr__(self) -> str:
        return f"GaussianMixture({self.n_components} component(s), {self.n_axes} column(s))"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GaussianMixture):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return (GaussianMixture, (self.weights, self.means, self.scales))


Prior = Discrete | GaussianMixture


class PriorPair(NamedTuple):
    """Two priors to be told apart: P(X | s_i) and P(X | s_j), in that order.

    Parameters
    ----------
    p, q : Discrete or GaussianMixture
        Both of one kind, over the same columns.

    Examples
    --------
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> pair = PriorPair(Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75]))
    >>> pair.q.probabilities.tolist()
    [0.25, 0.75]
    """

    p: Any
    q: Any


def distinct(pairs: Iterable[tuple[Any, Any]]) -> list[Any]:
    """Return the prior objects of some pairs, each once, in order of appearance.

    >>> first, second = Discrete([0], [1.0]), Discrete([1], [1.0])
    >>> distinct([(first, second), (second, first)]) == [first, second]
    True
    """
    priors = list(chain.from_iterable(pairs))
    return list(dict(zip(map(id, priors), priors, strict=True)).values())


def numbered(pairs: Sequence[tuple[Any, Any]]) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the `distinct` priors and the numbers of each pair's two, shape (n_pairs, 2).

    What depends on a single prior is then computed once for all its pairs.

    >>> first, second = Discrete([0], [1.0]), Discrete([1], [1.0])
    >>> numbered([(first, second), (second, first)])[1].tolist()
    [[0, 1], [1, 0]]
    """
    priors = distinct(pairs)
    number = {id(prior): k for k, prior in enumerate(priors)}
    ids = map(id, chain.from_iterable(pairs))
    numbers = np.fromiter(map(number.__getitem__, ids), np.int64, 2 * len(pairs))
    return priors, numbers.reshape(-1, 2)


@dataclass(frozen=True)
class ConfidenceSet:
    """Adversaries whose prior lies in a simultaneous confidence set around the counted one.

    Parameters
    ----------
    level : float, default=0.95
        Probability in (0, 1) with which the set holds all true distributions at once.

    Raises
    ------
    TypeError, ValueError
        If ``level`` is not a number in (0, 1).

    Examples
    --------
    >>> from sklearn_puffer.priors import ConfidenceSet
    >>> ConfidenceSet().level
    0.95
    """

    level: float = 0.95

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", check_positive(self.level, "level"))
        if self.level >= 1.0:
            raise ValueError(
                f"level must lie in (0, 1), got {self.level!r}; 0.95 is usual, and certainty "
                'about a prior is strategy="sensitivity".'
            )


def rational_counts(masses: FloatArray) -> Integers:
    """Return integers proportional to ``masses``, undoing decimal rounding where that is possible.

    Each mass is read as the simplest fraction that rounds to it. If the fractions have a common
    denominator up to 2^53 and add up to one, the integers are the numerators. Otherwise they are
    the binary values of the floats, over a common power of two.

    >>> rational_counts(np.array([0.1, 0.2, 0.7])).tolist()
    [1, 2, 7]
    """
    denominator = 1
    while denominator <= _LARGEST_DENOMINATOR:
        counts = np.rint(masses * denominator)
        wrong = np.flatnonzero(counts / denominator != masses)
        if not wrong.size:
            whole = counts.astype(np.int64)
            return whole if int(whole.sum()) == denominator else _binary_counts(masses)
        value = float(masses[wrong[0]])
        # the fraction of the smallest denominator that rounds to the value
        around = (Fraction(nextafter(value, end)) for end in (0.0, inf))
        ends = [(Fraction(value) + neighbour) / 2 for neighbour in around]
        larger = lcm(denominator, _simplest_between(*ends).denominator)
        if larger == denominator:  # the fraction has this denominator, and its float is another
            break
        denominator = larger
    return _binary_counts(masses)


def _simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction of the smallest denominator in an interval, by its continued fraction."""
    whole = ceil(low)
    if whole <= high:
        return Fraction(whole)
    whole -= 1
    return whole + 1 / _simplest_between(1 / (high - whole), 1 / (low - whole))


def _binary_counts(masses: FloatArray) -> Integers:
    """Return the floats' own binary values over a common power of two."""
    mantissas, exponents = np.frexp(masses)
    integers = (mantissas * 2.0**53).astype(np.int64)
    shifts = np.where(masses > 0, exponents - exponents[masses > 0].min(), 0)
    wide = [whole << shift for whole, shift in zip(integers.tolist(), shifts.tolist(), strict=True)]
    return np.array(wide, dtype=object if sum(wide) >= 2**62 else np.int64)


def _check_masses(probabilities: ArrayLike) -> FloatArray:
    masses = real_numbers(probabilities, "probabilities")
    if masses.ndim != 1 or masses.size == 0:
        raise ValueError(
            f"probabilities must be a non-empty list of numbers, got shape {masses.shape}."
        )
    strange = masses[~(np.isfinite(masses) & (masses >= 0.0))]
    if strange.size:
        raise ValueError(
            f"probabilities must be finite and not negative, got {float(strange[0])!r}; "
            "use zero for an impossible atom."
        )
    if abs(float(masses.sum()) - 1.0) > _SUM_TOLERANCE:
        raise ValueError(
            f"probabilities must sum to 1, got {float(masses.sum())!r}; divide by the sum, "
            "or pass counts to Discrete.from_counts."
        )
    return masses


def _checked_atoms(atoms: ArrayLike, size: int) -> FloatArray:
    return _checked_points(atoms, size, "atoms", "drop or encode those values")


def _checked_points(points: ArrayLike, size: int, name: str, way_out: str) -> FloatArray:
    """Return a number or a row for each mass: a copy, in which -0.0 is 0.0."""
    values = floats(points, name)
    if values.ndim not in (1, 2) or len(values) != size or 0 in values.shape:
        raise ValueError(
            f"{name} must have shape ({size},) or ({size}, d), one for each mass, "
            f"got {values.shape}."
        )
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} must be finite, got NaN or infinity; {way_out}.")
    return values + 0.0


def _check_scales(scales: ArrayLike, means: FloatArray) -> FloatArray:
    values = real_numbers(scales, "scales") + 0.0
    expected = means.shape if means.ndim == 1 else (*means.shape, means.shape[1])
    if values.shape != expected:
        raise ValueError(
            f"scales must have shape {expected}: standard deviations for one column, covariance "
            f"matrices for rows; got {values.shape}."
        )
    if not np.all(np.isfinite(values)):
        raise ValueError("scales must be finite, got NaN or infinity; drop those components.")
    if means.ndim == 1:
        if values.min() <= 0.0:
            raise ValueError(
                f"scales must be positive, got {float(values.min())!r}; put a floor under them."
            )
        return values
    for matrix in values:
        asymmetric = not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0.0)
        if asymmetric or np.linalg.eigvalsh(matrix)[0] <= 0.0:
            raise ValueError(
                "scales must be symmetric positive definite covariance matrices, got "
                f"{matrix.tolist()!r}; add a floor to the diagonal."
            )
    return values


def _whole_counts(counts: Array) -> Integers:
    """Return whole numbers as int64, or as Python integers where their sum needs more."""
    try:
        with np.errstate(invalid="ignore"):
            whole = counts % 1 == 0
        if not np.all(whole):
            raise ValueError("got fractions, or what is not finite")
        if counts.dtype != object and float(np.abs(counts.astype(float)).sum()) < 2.0**62:
            return counts.astype(np.int64)
        return np.array([int(count) for count in counts.tolist()], dtype=object)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(
            f"counts must be whole numbers ({on_one_line(error)}); pass probabilities to "
            "Discrete instead."
        ) from error


def _times(counts: Integers, factor: int) -> list[int]:
    """Return exact products, which 64 bits may not hold."""
    return [int(count) * factor for count in counts]
