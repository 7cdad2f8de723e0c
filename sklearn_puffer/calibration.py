"""From a strategy's bound to the smallest noise that keeps it within the budget."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sklearn_puffer._validation import check_choice
from sklearn_puffer.accounting import MAX_CELLS, LossTable, grid_cells, is_computable
from sklearn_puffer.bounds import Bound, Relaxed, Strategy, sensitivity, tightest, wasserstein
from sklearn_puffer.noise import FAMILIES, Noise
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, PriorPair

FloatArray = NDArray[np.float64]

_TOLERANCE = 1e-12  # relative width of the bracket at which the search stops
_SMALLEST, _LARGEST = 1e-300, 1e300


@dataclass(frozen=True)
class Calibration:
    """The smallest noise a strategy allows.

    Attributes
    ----------
    scale : float
        What the template's scales are multiplied by; theta itself for ``noise="laplace"``. 0 where
        no noise is needed.
    worst_pair : int
        Position of the pair with the largest bound.
    bound : float
        That bound at ``scale``, in nats; at most the budget.
    """

    scale: float
    worst_pair: int
    bound: float


@dataclass(frozen=True, eq=False)
class _Exact:
    """The upper ends of the exact losses, which are themselves intervals a few roundings wide."""

    table: LossTable
    noise: Any  # the table itself refuses a family whose exact loss it does not know
    reach: float

    def losses(self, factor: float) -> FloatArray:
        if factor == 0.0:
            return self.table.without_noise()
        return self.table.intervals(self.noise.scaled(factor))[1]


def exact(pairs: Sequence[PriorPair], noise: Noise, notion: Pufferfish) -> Bound:
    r"""Compute the loss itself: no sufficient condition, hence the smallest noise there is.

    .. math:: \sup_y \left|\log \frac{\sum_x P_i(x) K(y - x)}{\sum_x P_j(x) K(y - x)}\right|

    Parameters
    ----------
    pairs : sequence of PriorPair
        In several columns, over at most ``accounting.MAX_CELLS`` cells of the grid of their atoms.
    noise : Noise
    notion : Pufferfish

    Notes
    -----
    *Formal guarantees.* The bound is the upper end of the interval that the certificate states.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> pair = PriorPair(Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75]))
    >>> exact([pair], Laplace(), Pufferfish(1.0)).losses(0.0).round(6).tolist()
    [[0.693147, 0.405465]]
    """
    return _Exact(LossTable(pairs), noise, sensitivity(pairs, noise, notion).reach)


#: The strategies by name. A new one is a function (or a frozen callable) and a line here.
STRATEGIES: dict[str, Strategy] = {
    "sensitivity": sensitivity,
    "wasserstein": wasserstein,
    "relaxed": Relaxed(),
    "exact": exact,
}


def calibrate(
    pairs: Sequence[tuple[Discrete, Discrete]],
    notion: Pufferfish,
    *,
    noise: str | Noise = "laplace",
    strategy: str | Strategy = "exact",
) -> Calibration:
    r"""Return the smallest noise scale at which the strategy's bound is within the budget.

    .. math:: \min\{f \ge 0 : \max_{\text{pairs}} \mathrm{bound}(f) \le \varepsilon\}

    Parameters
    ----------
    pairs : sequence of (p, q)
        Priors to be told apart, all over the same columns.
    notion : Pufferfish
    noise : str or Noise, default="laplace"
        A family by name, at unit scale, or a template whose scales are multiplied by the result.
    strategy : str or Strategy, default="exact"

    Returns
    -------
    Calibration

    Notes
    -----
    *Formal guarantees.* The bound has been evaluated at the returned scale and is within the
    budget there, in both directions of every pair; the smallest such scale is less than 1e-12 of
    it below.

    Raises
    ------
    TypeError
        If a pair does not hold two priors, or noise or strategy is of no known kind.
    ValueError
        If there is no pair, the priors are over different columns, or a name is unknown.

    Warns
    -----
    UserWarning
        If ``"exact"`` has too many cells, so that `bounds.tightest` is used instead.

    Examples
    --------
    >>> pair = (Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75]))
    >>> calibrate([pair], Pufferfish(epsilon=0.5)).scale < calibrate(
    ...     [pair], Pufferfish(epsilon=0.5), strategy="relaxed").scale
    True
    >>> calibrate([pair], Pufferfish(epsilon=1)).scale
    0.0
    """
    checked = _check_pairs(pairs)
    template = _check_noise(noise, checked)
    bound = _choose(_check_strategy(strategy), checked)(checked, template, notion)
    scale = smallest_factor([bound], notion.budget)
    losses = bound.losses(scale).max(axis=1)
    worst = int(losses.argmax())
    return Calibration(scale, worst, float(losses[worst]))


def smallest_factor(
    groups: Sequence[Bound], budget: float, *, tolerance: float = _TOLERANCE
) -> float:
    r"""Return the smallest factor at which the losses of all groups together are within the budget.

    .. math:: \max_{\text{pairs, directions}} \sum_g \mathrm{losses}_g(f) \le \mathrm{budget}

    Parameters
    ----------
    groups : sequence of Bound
        One for each group of columns that is independent of the others given the secret, all on
        the same pairs. Losses add up over groups direction by direction, and the maximum over
        directions and pairs comes last.
    budget : float
    tolerance : float, default=1e-12
        Relative width of the final bracket.

    Returns
    -------
    float
        The upper end of the final bracket; 0 where no noise is needed.

    Notes
    -----
    *Formal guarantees.* The total has been evaluated at the returned factor and is within the
    budget. Losses never increase with the factor, so no smaller factor than (1 - tolerance) times
    it is.

    Raises
    ------
    ValueError
        If the budget is not positive, or no factor up to 1e300 is enough.

    Examples
    --------
    >>> from sklearn_puffer.noise import Laplace
    >>> pair = PriorPair(Discrete([0, 3], [0.5, 0.5]), Discrete([0, 1], [0.5, 0.5]))
    >>> bound = wasserstein([pair], Laplace(), Pufferfish(1.0))
    >>> round(smallest_factor([bound, bound], 1.0), 9)
    4.0
    """
    if not budget > 0.0:
        raise ValueError(f"budget must be positive, got {budget!r}; raise epsilon.")
    search = _Search(groups, budget)
    if not groups or search.excess(0.0) < 0.0:
        return 0.0
    search.bracket(sum(bound.reach for bound in groups) / budget)
    search.close(tolerance)
    return search.high


class _Search:
    """A bracket [low, high] of the smallest sufficient factor; only evaluations move its ends."""

    def __init__(self, groups: Sequence[Bound], budget: float) -> None:
        self.groups, self.budget = groups, budget
        self.low, self.high = 0.0, math.inf

    def excess(self, factor: float) -> float:
        """Return log(total / budget), negative where the total is within the budget."""
        total = float(np.sum([bound.losses(factor) for bound in self.groups], axis=0).max())
        if total <= self.budget:
            self.high = min(self.high, factor)
            # never zero, so that no root-finder stops on a plateau at the budget
            return min(math.log(max(total, 1e-300) / self.budget), -1e-15)
        self.low = max(self.low, factor)
        return min(math.log(total / self.budget), 700.0)

    def bracket(self, start: float) -> None:
        """Enclose the factor, from a first guess at its upper end."""
        factor = min(max(start, _SMALLEST), _LARGEST)
        excess = self.excess(factor)
        step = 1e-12
        while excess > 0.0:
            if factor >= _LARGEST:
                raise ValueError(
                    f"no noise scale up to {_LARGEST} keeps the loss within {self.budget}; "
                    "the atoms are too far apart: rescale the column."
                )
            factor = min(factor * (1.0 + step), _LARGEST)
            step = step * 1e3 if step < 1.0 else step * step + 1.0
            excess = self.excess(factor)
        # with losses inversely proportional to the factor the guess is a hair below the root
        ratio = math.exp(max(excess, -1.0)) * (1.0 - 0.5 * _TOLERANCE)
        while self.high > _SMALLEST and self.low == 0.0:
            self.excess(max(self.high * ratio, _SMALLEST))
            ratio = min(ratio * ratio, 0.5)

    def close(self, tolerance: float) -> None:
        """Narrow the bracket by Brent's method, on logarithmic scales."""
        if self.low == 0.0:
            return
        if self.high > self.low * (1.0 + tolerance):
            brentq(
                lambda log_factor: self.excess(math.exp(log_factor)),
                math.log(self.low),
                math.log(self.high),
                xtol=tolerance / 4.0,
                rtol=8.9e-16,
                maxiter=200,
            )
        while self.high > self.low * (1.0 + tolerance):
            self.excess(math.sqrt(self.low) * math.sqrt(self.high))


def _choose(strategy: Strategy, pairs: Sequence[PriorPair]) -> Strategy:
    """Return the strategy, or the tightest bound where the exact loss has too many cells."""
    if strategy is not exact or all(is_computable(pair) for pair in pairs):
        return strategy
    cells = max(grid_cells(pair) for pair in pairs)
    warnings.warn(
        f"strategy='exact' would need a grid of {cells:,} cells and its limit is {MAX_CELLS:,}; "
        "the tightest bound under a joint coupling is used, which asks for more noise. Fewer "
        "atoms a column, or fewer columns in one joint group, make it exact.",
        UserWarning,
        stacklevel=3,
    )
    return tightest


def _check_pairs(pairs: Sequence[tuple[Discrete, Discrete]]) -> list[PriorPair]:
    checked = []
    for pair in pairs:
        if len(pair) != 2 or not all(isinstance(prior, Discrete) for prior in pair):
            raise TypeError(f"pairs must hold two priors (p, q) each, got {pair!r}.")
        checked.append(PriorPair(*pair))
    if not checked:
        raise ValueError("pairs must hold at least one pair of priors (p, q), got none.")
    axes = sorted({prior.n_axes for pair in checked for prior in pair})
    if len(axes) > 1:
        raise ValueError(f"pairs must be over the same columns, got priors over {axes} columns.")
    return checked


def _check_noise(noise: Any, pairs: Sequence[PriorPair]) -> Noise:
    if isinstance(noise, str):
        return FAMILIES[check_choice(noise, "noise", FAMILIES)](1.0)
    families: tuple[type, ...] = tuple(FAMILIES.values())
    if not isinstance(noise, families):
        raise TypeError(
            f"noise must be one of {list(FAMILIES)} or an object of such a family, got {noise!r}."
        )
    template = cast(Noise, noise)
    template.axis_scales(pairs[0].p.n_axes)  # refuses a template for another number of columns
    return template


def _check_strategy(strategy: Any) -> Strategy:
    if isinstance(strategy, str):
        return STRATEGIES[check_choice(strategy, "strategy", STRATEGIES)]
    if not callable(strategy):
        raise TypeError(
            f"strategy must be one of {list(STRATEGIES)} or a strategy object, got {strategy!r}."
        )
    chosen: Strategy = strategy
    return chosen
