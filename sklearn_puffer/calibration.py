"""From a strategy's bound to the smallest noise that keeps it within the budget.

Use this module to find the noise for pairs of priors without a table; `fit` does it for the priors
of a table.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from sklearn_puffer._base import (
    FloatArray,
    PufferfishWarning,
    check_choice,
    check_verbose,
    listening,
    task,
)
from sklearn_puffer._losses import MAX_CELLS, LossTable, all_computable, grid_cells
from sklearn_puffer._numerics import LARGEST, smallest_for_all, smallest_within
from sklearn_puffer._strategies import (
    checked_arguments,
    checked_bound,
    checked_pairs,
    factor_of_shift,
    ground_cost,
    has_pure_loss,
    of_pair,
    reason_of,
)
from sklearn_puffer.bounds import (
    Bound,
    Impossible,
    Relaxed,
    Strategy,
    approximate,
    distribution_aware,
    monge,
    sensitivity,
    tightest,
    wasserstein,
)
from sklearn_puffer.noise import Noise, named_noise
from sklearn_puffer.notions import Notion, PowerMean, RenyiPufferfish, check_notion
from sklearn_puffer.priors import Discrete, GaussianMixture, Prior, PriorPair, numbered

__all__ = ["STRATEGIES", "Calibration", "calibrate", "exact"]

_TOLERANCE = 1e-12  # relative width of the bracket at which the search stops
_ROUGH = 1e-3  # tolerance from which on factors are only compared, and not certified
_WIDEST = (
    "widest components (the log odds of two different normal distributions grow without bound)"
)
_ON_PLANES = 1e-5  # the same, where losses are known to a part in a thousand


@dataclass(frozen=True)
class Calibration:
    """The smallest noise a strategy allows.

    Parameters
    ----------
    scale : float
        What the template's scales are multiplied by; theta itself for ``noise="laplace"``. 0 where
        no noise is needed.
    worst_pair : int
        Position of the pair with the largest bound.
    bound : float
        That bound at ``scale``, in the unit of the notion's loss; at most the budget.

    Examples
    --------
    Which of three secrets asks for the noise:

    >>> from sklearn_puffer.calibration import calibrate
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete
    >>> p, q, r = (Discrete([0, 1], [first, 1.0 - first]) for first in (0.5, 0.4, 0.1))
    >>> pairs = [(p, q), (p, r), (q, r)]
    >>> found = calibrate(pairs, Pufferfish(epsilon=0.5))
    >>> found.worst_pair, round(found.scale, 3), round(found.bound, 9)
    (1, 0.929, 0.5)
    """

    scale: float
    worst_pair: int
    bound: float


@dataclass(frozen=True, eq=False)
class ExactLosses:
    """The upper ends of the exact losses, which are themselves proven intervals."""

    table: LossTable
    noise: Noise
    guess: float
    reason: str = ""  # why some pair has no finite loss under any noise, if that is so

    def losses(self, factor: float) -> FloatArray:
        """Return the upper ends, of shape (n_pairs, 2)."""
        return self.intervals(factor)[1]

    def intervals(self, factor: float) -> tuple[FloatArray, FloatArray]:
        """Return both ends, each of shape (n_pairs, 2)."""
        if factor == 0.0:
            bare = self.table.without_noise()
            return bare, bare
        return self.table.intervals(self.noise.scaled(factor))

    @property
    def notion(self) -> Notion:
        """The notion in whose unit the losses are."""
        return self.table.notion

    @property
    def one_by_one(self) -> bool:
        """Whether pairs take no longer one at a time than all at once."""
        return self.table.one_by_one(self.noise)

    @property
    def tolerance(self) -> float:
        """Relative width at which a search of factors stops: losses over panels jump by as much."""
        return _ON_PLANES if self.table.on_planes(self.noise) else 0.0

    @cached_property
    def distances(self) -> FloatArray:
        """The ground cost between the means of each pair: a guess at the order of their losses."""
        priors, numbers = numbered(self.table.pairs)
        p, q = np.array([_mean(prior) for prior in priors])[numbers.T]
        return np.asarray(ground_cost(self.noise, _noisy(self.noise, p - q)))

    def of_pair(self, k: int, factor: float, budget: float | None) -> FloatArray:
        """Return the losses of a pair, shape (2,); rough ones if they tell the budget's side."""
        if factor == 0.0:
            return self.table.pair_without_noise(k)
        return self.table.interval(k, self.noise.scaled(factor), budget)[1]


def _mean(prior: Prior) -> FloatArray:
    if isinstance(prior, Discrete):
        return prior.probabilities @ prior.rows
    return prior.weights @ prior.rows


def exact(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Compute the loss itself: no sufficient condition, hence the smallest noise there is.

    .. math:: \sup_y \left|\log \frac{\sum_x P_i(x) K(y - x)}{\sum_x P_j(x) K(y - x)}\right|
              \text{, or the notion's divergence of the two sums}

    Parameters
    ----------
    pairs : sequence of PriorPair
        In several columns, as far as ``accounting.is_computable``.
    noise : Noise
        With the scales that factors multiply.
    notion : Pufferfish or RenyiPufferfish
        What the loss is measured in.

    Returns
    -------
    Bound
        `Impossible` for Renyi with a delta, and for mixtures of one column under a noise family of
        your own. For pure epsilon with Gaussian noise it is infinite for pairs that do not share
        their smallest and their largest atom, and for the others it stays above sup_t abs(log
        E[e^(t X)] / E[e^(t X')]) at any scale.

    Notes
    -----
    *Formal guarantees.* The bound is the upper end of the interval that the certificate states. In
    one column, and in any number for pure epsilon and Laplace noise, that is the loss to many
    digits; in two columns otherwise, of up to 1,024 values each, it is at most 1e-3 above it,
    relative to the loss, where 2^18 boxes are enough.

    Examples
    --------
    >>> from sklearn_puffer.calibration import exact
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> from sklearn_puffer.priors import Discrete, PriorPair
    >>> pair = PriorPair(Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75]))
    >>> exact([pair], Laplace(), Pufferfish(1.0)).losses(0.0).round(6).tolist()
    [[0.693147, 0.405465]]
    """
    pairs = checked_arguments(pairs, noise, notion)
    if pairs[0].p.n_axes == 1 and not all_computable(pairs, noise, notion):
        return Impossible(
            "strategy='exact' knows no distribution of Gaussian and mixture priors under "
            f"{type(noise).__name__} noise; use noise='laplace'.",
            len(pairs),
        )
    reason = _unbounded(pairs, noise, notion)
    return ExactLosses(LossTable(pairs, notion), noise, _reach(pairs, noise, notion), reason)


def _unbounded(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> str:
    """Say which pair has an infinite loss whatever the scale, if one has."""
    n_axes = pairs[0].p.n_axes
    if not notion.is_pure or n_axes > 1 or has_pure_loss(noise, n_axes):
        return ""
    for k, (p, q) in enumerate(pairs):
        tails = _tails(p), _tails(q)
        if tails[0] != tails[1]:
            what = "smallest or largest atom" if isinstance(p, Discrete) else _WIDEST
            return (
                f"strategy='exact' has no pure epsilon with {type(noise).__name__} noise where two "
                f"priors differ in their {what}, as those of pair {k} do, {_digits(tails[0])} and "
                f"{_digits(tails[1])}; use delta=1e-05, alpha=2.0 or noise='laplace'."
            )
    return ""


def _digits(numbers: Sequence[float]) -> str:
    return f"({', '.join(f'{number:.6g}' for number in numbers)})"


def _tails(prior: Discrete | GaussianMixture) -> list[float]:
    """Return the numbers that determine the tails of a density with Gaussian noise added.

    Far out the widest component dominates, and of equally wide ones that of the outermost mean;
    atoms have no width. Where two distributions differ in that, their log ratio has no bound.
    """
    if isinstance(prior, Discrete):
        atoms = prior.atoms[prior.counts > 0]
        return [float(atoms.min()), float(atoms.max())]
    widest = float(prior.scales.max())
    means = prior.means[prior.scales == widest]
    return [widest, float(means.min()), float(means.max())]


def _reach(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> float:
    """Return about the factor that a shift across the largest alphabet needs."""
    priors, numbers = numbered(pairs)
    least, most = np.moveaxis(np.array([_ends(prior) for prior in priors])[numbers], 2, 0)
    spans = _noisy(noise, most.max(axis=1) - least.min(axis=1))
    if isinstance(notion.divergence, PowerMean):  # under wide noise it is that of the means
        means = np.array([_mean(prior) for prior in priors])
        apart = _noisy(noise, np.abs(means[numbers[:, 0]] - means[numbers[:, 1]]))
        spans = np.maximum(apart, 1e-3 * spans)
    # where no shift has a pure loss, the factor of another loss is as good a guess as any
    known = has_pure_loss(noise, spans.shape[1]) or not notion.is_pure
    wanted = notion if known else RenyiPufferfish(notion.budget, 2.0)
    return factor_of_shift(spans[ground_cost(noise, spans).argmax()], noise, wanted)


def _noisy(noise: Noise, shifts: FloatArray) -> FloatArray:
    """Return shifts along the axes with noise: along others nothing depends on the factor."""
    return np.asarray(np.where(noise.axis_scales(shifts.shape[-1]) > 0.0, shifts, 0.0))


def _ends(prior: Discrete | GaussianMixture) -> FloatArray:
    """Return the smallest and largest value of each column; of mixtures, one deviation out."""
    rows = prior.rows
    if isinstance(prior, GaussianMixture):
        spread = np.sqrt(np.diagonal(prior.covariances, axis1=1, axis2=2))
        return np.stack([(rows - spread).min(axis=0), (rows + spread).max(axis=0)])
    return np.stack([rows.min(axis=0), rows.max(axis=0)])


#: The strategies by name. A new one is a function (or a frozen callable) and a line here.
STRATEGIES: dict[str, Strategy] = {
    "sensitivity": sensitivity,
    "wasserstein": wasserstein,
    "relaxed": Relaxed(),
    "approximate": approximate,
    "distribution_aware": distribution_aware,
    "monge": monge,
    "exact": exact,
}


def calibrate(
    pairs: Sequence[tuple[Discrete, Discrete] | tuple[GaussianMixture, GaussianMixture]],
    notion: Notion,
    *,
    noise: str | Noise = "laplace",
    strategy: str | Strategy = "exact",
    verbose: int = 0,
) -> Calibration:
    r"""Return the smallest noise scale at which the strategy's bound is within the budget.

    .. math:: \min\{f \ge 0 : \max_{\text{pairs}} \mathrm{bound}(f) \le \text{budget}\}

    Parameters
    ----------
    pairs : sequence of (p, q)
        Priors to be told apart, all over the same columns and of one family.
    notion : Pufferfish or RenyiPufferfish
        What is to be guaranteed, with its budget.
    noise : str or Noise, default="laplace"
        A family by name, at unit scale, or a template whose scales are multiplied by the result.
    strategy : str or Strategy, default="exact"
        A name of `STRATEGIES`, or a function of (pairs, noise, notion) that returns a bound.
    verbose : int, default=0
        1 shows after two seconds on standard error what is done.

    Returns
    -------
    Calibration
        The scale, and which pair asks for it.

    Raises
    ------
    TypeError
        If a pair does not hold two priors, or noise, notion or strategy is of no known kind.
    ValueError
        If there is no pair, the priors are over different columns or of different families, a name
        is unknown, or strategy, noise and notion do not go together (saying what to use instead).

    Warns
    -----
    PufferfishWarning
        If ``"exact"`` is out of reach for rows, so that `bounds.tightest` is used instead.

    Notes
    -----
    *Formal guarantees.* The bound has been evaluated at the returned scale and is within the
    budget there, in both directions of every pair; the smallest such scale is less than 1e-12 of
    it below (1e-5 for two columns cut into boxes,
    whose losses are known to a part in a thousand where 2^18 boxes are enough). Where boxes are too
    few, as for a thousand values under noise of a fifth of a gap between them, several times the
    noise may be asked for. Two columns of more than 1,024 values have the scale of
    `bounds.tightest`. (``"monge"`` with mixtures is no bound: see `bounds.monge`.)

    Examples
    --------
    >>> from sklearn_puffer.calibration import calibrate
    >>> from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
    >>> from sklearn_puffer.priors import Discrete
    >>> pair = (Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75]))
    >>> calibrate([pair], Pufferfish(epsilon=0.5)).scale < calibrate(
    ...     [pair], Pufferfish(epsilon=0.5), strategy="relaxed").scale
    True
    >>> calibrate([pair], Pufferfish(epsilon=1)).scale
    0.0
    >>> notion = RenyiPufferfish(epsilon=1.0, alpha=2.0)
    >>> round(calibrate([pair], notion, noise="gaussian", strategy="wasserstein").scale, 9)
    1.0
    """
    checked = checked_pairs(pairs)
    template = named_noise(noise)
    template.axis_scales(checked[0].p.n_axes)  # refuses a template for another number of columns
    check_notion(notion)
    with listening(check_verbose(verbose), "calibration"), task("calibration", heads=True):
        asked = _check_strategy(strategy)
        chosen = in_reach(asked, checked, template, notion)
        bound = bound_of(chosen, checked, template, notion)
        if reason_of(bound) and bound.losses(0.0).max() > notion.budget:
            raise ValueError(_refusal(chosen, checked, template, notion))
        scale = smallest_factor([bound], notion.budget)
        losses = bound.losses(scale).max(axis=1)
        worst = int(losses.argmax())
    if chosen is not asked and scale > 0.0:  # nothing takes less than no noise
        warnings.warn(
            f"{_out_of_reach(checked, template, notion)}.", PufferfishWarning, stacklevel=2
        )
    return Calibration(scale, worst, float(losses[worst]))


def smallest_factor(
    groups: Sequence[Bound], budget: float, *, tolerance: float = _TOLERANCE
) -> float:
    r"""Return the smallest factor at which the losses of all groups together are within the budget.

    .. math:: \max_{\text{pairs, directions}} \sum_g \mathrm{losses}_g(f) \le \mathrm{budget}

    Groups of columns are independent of each other given the secret, all on the same pairs. Losses
    add up over groups direction by direction, and the maximum over directions and pairs comes last.
    It is 0 where no noise is needed, and else the upper end of a bracket of the relative width
    ``tolerance``.

    *Formal guarantees.* The total has been evaluated at the returned factor and is within the
    budget. Losses never increase with the factor, so no smaller factor than (1 - tolerance) times
    it is, where the tolerance is at least that of a bound that names one.

    Most searches ask for the losses 6 to 15 times, and 50 times where they jump. Where pairs cost
    as much alone as together, a pair is looked at once or twice, and only the worst ones searched.

    >>> from sklearn_puffer.bounds import wasserstein
    >>> from sklearn_puffer.noise import Laplace
    >>> from sklearn_puffer.notions import Pufferfish
    >>> pair = PriorPair(Discrete([0, 3], [0.5, 0.5]), Discrete([0, 1], [0.5, 0.5]))
    >>> bound = wasserstein([pair], Laplace(), Pufferfish(1.0))
    >>> round(smallest_factor([bound, bound], 1.0), 9)
    4.0
    """
    if not budget > 0.0:
        raise ValueError(f"budget must be positive, got {budget!r}; raise epsilon.")

    def losses(factor: float) -> FloatArray:
        return np.asarray(np.sum([bound.losses(factor) for bound in groups], axis=0).max(axis=1))

    bare = _without_noise(groups, budget) if groups else np.zeros(1)
    if bare.max() <= budget:
        return 0.0
    reasons = [reason for reason in map(reason_of, groups) if reason]
    if reasons:
        raise ValueError(reasons[0])
    factor = sum(bound.guess for bound in groups)
    tolerance = max([tolerance, *(getattr(bound, "tolerance", 0.0) for bound in groups)])
    several = len(bare) > 1 or tolerance >= _ROUGH  # rough losses do for few digits
    apart = several and any(getattr(bound, "one_by_one", False) for bound in groups)
    if apart:
        factor = _pair_by_pair(groups, bare, budget, factor, tolerance)
    # pairs searched one by one need no further search if all are within the budget together
    if not (
        apart and (math.isinf(factor) or tolerance >= _ROUGH or losses(factor).max() <= budget)
    ):
        factor = smallest_within(lambda f: float(losses(f).max()), budget, factor, tolerance)
    if math.isinf(factor):
        raise ValueError(
            f"no noise scale up to {LARGEST:g} keeps the loss within {budget:.6g}; use another "
            "noise or notion, a larger budget, or another unit where values lie too far apart."
        )
    return factor


def _without_noise(groups: Sequence[Any], budget: float) -> FloatArray:
    """Return the larger loss of each pair without noise; rough ones if they tell its side."""
    first = groups[0]
    if len(groups) == 1 and getattr(first, "one_by_one", False) and hasattr(first, "distances"):
        pairs = range(len(first.distances))
        return np.array([first.of_pair(k, 0.0, budget).max() for k in pairs])
    return np.asarray(np.sum([bound.losses(0.0) for bound in groups], axis=0).max(axis=1))


def _pair_by_pair(
    groups: Sequence[Bound], bare: FloatArray, budget: float, start: float, tolerance: float
) -> float:
    """Return the factor that all pairs need, with few evaluations of each."""
    rough = budget if len(groups) == 1 else None  # the side of a summand tells nothing of the sum

    def of_pair(bound: Any, k: int, factor: float) -> FloatArray:
        apart = getattr(bound, "one_by_one", False)
        return np.asarray(bound.of_pair(k, factor, rough) if apart else bound.losses(factor)[k])

    def total(k: int, factor: float) -> float:
        return float(np.sum([of_pair(bound, k, factor) for bound in groups], axis=0).max())

    # each pair that needs more than all before it takes a search: the likely worst come first
    nowhere = np.zeros(len(bare))
    distances = np.sum([getattr(bound, "distances", nowhere) for bound in groups], axis=0)
    worst_first = np.argsort(-distances, kind="stable")
    tasks = worst_first[bare[worst_first] > budget].tolist()
    return smallest_for_all(total, tasks, budget, start, tolerance)


def _refusal(strategy: Strategy, pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> str:
    """Return which pair has no bound, why, and what to use instead."""
    reasons = ((k, reason_of(strategy([pair], noise, notion))) for k, pair in enumerate(pairs))
    k, reason = next(((k, reason) for k, reason in reasons if reason), (0, ""))
    reason = reason or reason_of(strategy(pairs, noise, notion))
    return of_pair(reason, f"pair {k}") if len(pairs) > 1 else reason


def bound_of(strategy: Strategy, pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    """Return the bound that a strategy gives; that of a caller's own strategy is checked."""
    bound = strategy(pairs, noise, notion)
    return bound if is_ours(strategy) else checked_bound(bound, len(pairs))


def is_ours(strategy: Strategy) -> bool:
    """Return whether a strategy is one of this package."""
    known: list[Any] = [*STRATEGIES.values(), tightest]
    return strategy in known or isinstance(strategy, Relaxed)


def in_reach(
    strategy: Strategy, pairs: Sequence[PriorPair], noise: Noise, notion: Notion
) -> Strategy:
    """Return the strategy, or the tightest bound where the exact loss is out of reach.

    Elsewhere `exact` is computed, or says itself why it is not.
    """
    if strategy is not exact:
        return strategy
    if pairs[0].p.n_axes == 1 and isinstance(pairs[0].p, Discrete):
        return strategy
    return strategy if all_computable(pairs, noise, notion) else tightest


def _out_of_reach(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> str:
    why = f"is not computed with {type(noise).__name__} noise and this notion"
    if pairs[0].p.n_axes == 1:
        return (
            f"strategy='exact' {why} for Gaussian and mixture priors, and the tightest bound takes "
            "more noise; use noise='laplace'"
        )
    why += f" for rows of {pairs[0].p.n_axes} columns"
    discrete = [pair for pair in pairs if isinstance(pair.p, Discrete)]
    cells = max(map(grid_cells, discrete), default=0)
    if cells > MAX_CELLS:
        why = f"would need a grid of {cells:,} cells and its limit is {MAX_CELLS:,}"
    return (
        f"strategy='exact' {why}, and the tightest joint bound takes more noise; use fewer atoms "
        "or columns"
    )


def _check_strategy(strategy: Any) -> Strategy:
    if isinstance(strategy, str):
        return STRATEGIES[check_choice(strategy, "strategy", STRATEGIES)]
    if not callable(strategy):
        raise TypeError(
            f"strategy must be one of {list(STRATEGIES)} or a strategy object, got {strategy!r}."
        )
    return cast(Strategy, strategy)
