"""From a strategy's bound to the smallest noise that keeps it within the budget."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._search import LARGEST, smallest_within
from sklearn_puffer._strategies.plan_bounds import factor_of_shift, has_pure_loss, is_pure
from sklearn_puffer._strategies.ways_out import (
    Change,
    noise_changes,
    notion_changes,
    reason_of,
    refusal,
    ways_out,
)
from sklearn_puffer._validation import check_choice
from sklearn_puffer.accounting import MAX_CELLS, LossTable, grid_cells, is_computable
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
from sklearn_puffer.noise import FAMILIES, KINDS, Noise
from sklearn_puffer.notions import Notion, Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair
from sklearn_puffer.transport import ground_cost

FloatArray = NDArray[np.float64]

_PRIORS = (Discrete, GaussianMixture)
_TOLERANCE = 1e-12  # relative width of the bracket at which the search stops


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
        That bound at ``scale``, in the unit of the notion's loss; at most the budget.
    """

    scale: float
    worst_pair: int
    bound: float


@dataclass(frozen=True, eq=False)
class _Exact:
    """The upper ends of the exact losses, which are themselves proven intervals."""

    table: LossTable
    noise: Noise
    guess: float
    reason: str = ""  # why some pair has no finite loss under any noise, if that is so

    def losses(self, factor: float) -> FloatArray:
        if factor == 0.0:
            return self.table.without_noise()
        return self.table.intervals(self.noise.scaled(factor))[1]


def exact(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> Bound:
    r"""Compute the loss itself: no sufficient condition, hence the smallest noise there is.

    .. math:: \sup_y \left|\log \frac{\sum_x P_i(x) K(y - x)}{\sum_x P_j(x) K(y - x)}\right|
              \text{, or the notion's divergence of the two sums}

    Parameters
    ----------
    pairs : sequence of PriorPair
        In several columns, as far as ``accounting.is_computable``.
    noise : Noise
    notion : Pufferfish or RenyiPufferfish

    Returns
    -------
    Bound
        `Impossible` for Renyi with a delta. For pure epsilon with Gaussian noise it is infinite
        for pairs that do not share their smallest and their largest atom, and for the others it
        stays above sup_t abs(log E[e^(t X)] / E[e^(t X')]) at any scale.

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
    if notion.delta > 0.0 and not isinstance(notion, Pufferfish):
        return Impossible(
            "strategy='exact' does not exist for alpha= with delta=; use 'approximate', "
            "'wasserstein' or 'sensitivity', or leave out delta or alpha.",
            len(pairs),
        )
    reason = _unbounded(pairs, noise, notion)
    return _Exact(LossTable(pairs, notion), noise, _reach(pairs, noise, notion), reason)


def _unbounded(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> str:
    """Say which pair has an infinite loss whatever the scale, if one has."""
    n_axes = pairs[0].p.n_axes
    if not is_pure(notion) or n_axes > 1 or has_pure_loss(noise, n_axes):
        return ""
    for k, (p, q) in enumerate(pairs):
        tails = _tails(p), _tails(q)
        if tails[0] != tails[1]:
            what = "smallest or largest atom" if isinstance(p, Discrete) else "widest components"
            return (
                f"strategy='exact' has no pure epsilon with {type(noise).__name__} noise where two "
                f"priors differ in their {what}, as those of pair {k} do, {_digits(tails[0])} and "
                f"{_digits(tails[1])}; use delta=, alpha= or noise='laplace'."
            )
    return ""


def _digits(numbers: Sequence[float]) -> str:
    return f"({', '.join(f'{number:.6g}' for number in numbers)})"


def _tails(prior: Discrete | GaussianMixture) -> list[float]:
    """Return what decides how the density of one column falls off, with Gaussian noise added.

    Far out the widest component dominates, and of equally wide ones that of the outermost mean;
    atoms have no width. Where two laws differ in that, their log ratio has no bound.
    """
    if isinstance(prior, Discrete):
        atoms = prior.atoms[prior.counts > 0]
        return [float(atoms.min()), float(atoms.max())]
    widest = float(prior.scales.max())
    means = prior.means[prior.scales == widest]
    return [widest, float(means.min()), float(means.max())]


def _reach(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> float:
    """Return about the factor that a shift across the largest alphabet needs."""
    spans = np.array([np.ptp(np.concatenate([_ends(p), _ends(q)]), axis=0) for p, q in pairs])
    # where no shift has a pure loss, the factor of another loss is as good a guess as any
    known = has_pure_loss(noise, spans.shape[1]) or not is_pure(notion)
    wanted = notion if known else RenyiPufferfish(notion.epsilon, 2.0)
    return factor_of_shift(spans[ground_cost(noise, spans).argmax()], noise, wanted)


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
) -> Calibration:
    r"""Return the smallest noise scale at which the strategy's bound is within the budget.

    .. math:: \min\{f \ge 0 : \max_{\text{pairs}} \mathrm{bound}(f) \le \text{budget}\}

    Parameters
    ----------
    pairs : sequence of (p, q)
        Priors to be told apart, all over the same columns and of one family.
    notion : Pufferfish or RenyiPufferfish
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
    it below. (``"monge"`` with mixtures is no bound: see `bounds.monge`.)

    Raises
    ------
    TypeError
        If a pair does not hold two priors, or noise, notion or strategy is of no known kind.
    ValueError
        If there is no pair, the priors are over different columns or of different families, a name
        is unknown, or strategy, noise and notion do not go together (saying what to use instead).

    Warns
    -----
    UserWarning
        If ``"exact"`` is out of reach for rows, so that `bounds.tightest` is used instead.

    Examples
    --------
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
    checked = _check_pairs(pairs)
    template = _check_noise(noise, checked)
    _check_notion(notion)
    chosen = _choose(_check_strategy(strategy), checked, template, notion)
    bound = chosen(checked, template, notion)
    if reason_of(bound) and bound.losses(0.0).max() > notion.budget:
        raise ValueError(_refusal(chosen, checked, template, notion))
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

    Most searches ask for the losses 6 to 15 times, and 50 times where they jump.

    Raises
    ------
    ValueError
        If the budget is not positive, or no factor up to 1e300 is enough; where a bound is
        `Impossible`, with its reason.

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

    def total(factor: float) -> float:
        return float(np.sum([bound.losses(factor) for bound in groups], axis=0).max())

    if not groups or total(0.0) <= budget:
        return 0.0
    reasons = [reason for reason in map(reason_of, groups) if reason]
    if reasons:
        raise ValueError(reasons[0])
    start = sum(bound.guess for bound in groups)
    factor = smallest_within(total, budget, start, tolerance)
    if math.isinf(factor):
        raise ValueError(
            f"no noise scale up to {LARGEST:g} keeps the loss within {budget:.6g}; use another "
            "noise or notion, a larger budget, or another unit where values lie too far apart."
        )
    return factor


def strategy_changes(strategy: Strategy) -> list[Change]:
    """Return the proven strategies by name, the one with the least noise first."""
    order = ["exact", "distribution_aware", "relaxed", "approximate", "wasserstein", "sensitivity"]
    others = [name for name in order if STRATEGIES[name] is not strategy]
    return [(f"strategy={name!r}", {"strategy": STRATEGIES[name]}) for name in others]


def _refusal(strategy: Strategy, pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> str:
    """Return which pair has no bound, why, and what was tried and would do."""

    def works(new: Mapping[str, Any]) -> bool:
        level = new["noise"].with_scale(noise.scale) if "noise" in new else noise
        asked, chosen = new.get("notion", notion), new.get("strategy", strategy)
        if chosen is exact and not within_reach(pairs, level, asked):
            chosen = tightest
        return not reason_of(chosen(pairs, level, asked))

    asked = ((k, reason_of(strategy([pair], noise, notion))) for k, pair in enumerate(pairs))
    k, reason = next(((k, reason) for k, reason in asked if reason), (0, ""))
    reason = reason or reason_of(strategy(pairs, noise, notion))
    notions = [(f"notion={new['notion']!r}", new) for _, new in notion_changes(notion)]
    changes = [*noise_changes(noise), *notions, *strategy_changes(strategy)]
    return refusal(reason, ways_out(changes, works), f"pair {k}" if len(pairs) > 1 else "")


def _choose(
    strategy: Strategy, pairs: Sequence[PriorPair], noise: Noise, notion: Notion
) -> Strategy:
    """Return the strategy, or the tightest bound where the exact loss of rows is out of reach."""
    if strategy is not exact or within_reach(pairs, noise, notion):
        return strategy
    warnings.warn(
        f"{_out_of_reach(pairs, noise, notion)}; the tightest bound under a joint coupling is "
        "used, which asks for more noise. Fewer atoms a column, or fewer columns in one joint "
        "group, make it exact.",
        UserWarning,
        stacklevel=3,
    )
    return tightest


def within_reach(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> bool:
    """Return whether `exact` is computed, or says itself why it is not."""
    if notion.delta > 0.0 and not isinstance(notion, Pufferfish):
        return True
    return all(is_computable(pair, noise, notion) for pair in pairs)


def _out_of_reach(pairs: Sequence[PriorPair], noise: Noise, notion: Notion) -> str:
    discrete = [pair for pair in pairs if isinstance(pair.p, Discrete)]
    cells = max(map(grid_cells, discrete), default=0)
    if cells > MAX_CELLS:
        return (
            f"strategy='exact' would need a grid of {cells:,} cells and its limit is {MAX_CELLS:,}"
        )
    return (
        f"strategy='exact' is not computed for rows of {pairs[0].p.n_axes} columns with "
        f"{type(noise).__name__} noise and {notion!r}"
    )


def _check_pairs(pairs: Sequence[tuple[Any, Any]]) -> list[PriorPair]:
    checked = []
    for pair in pairs:
        if len(pair) != 2 or not all(isinstance(prior, _PRIORS) for prior in pair):
            raise TypeError(f"pairs must hold two priors (p, q) each, got {pair!r}.")
        checked.append(PriorPair(*pair))
    if not checked:
        raise ValueError("pairs must hold at least one pair of priors (p, q), got none.")
    axes = sorted({prior.n_axes for pair in checked for prior in pair})
    if len(axes) > 1:
        raise ValueError(f"pairs must be over the same columns, got priors over {axes} columns.")
    families = sorted({type(prior).__name__ for pair in checked for prior in pair})
    if len(families) > 1:
        raise ValueError(
            f"pairs must hold priors of one family, got {families}; calibrate each family apart "
            "and take the largest scale."
        )
    return checked


def _check_noise(noise: Any, pairs: Sequence[PriorPair]) -> Noise:
    if isinstance(noise, str):
        return FAMILIES[check_choice(noise, "noise", FAMILIES)](1.0)
    if not isinstance(noise, KINDS):
        names = [kind.__name__ for kind in KINDS]
        raise TypeError(
            f"noise must be one of {list(FAMILIES)} or an object of one of {names}, got {noise!r}."
        )
    template = cast(Noise, noise)
    template.axis_scales(pairs[0].p.n_axes)  # refuses a template for another number of columns
    return template


def _check_notion(notion: Any) -> None:
    if not isinstance(notion, Pufferfish | RenyiPufferfish):
        raise TypeError(f"notion must be a Pufferfish or a RenyiPufferfish object, got {notion!r}.")


def _check_strategy(strategy: Any) -> Strategy:
    if isinstance(strategy, str):
        return STRATEGIES[check_choice(strategy, "strategy", STRATEGIES)]
    if not callable(strategy):
        raise TypeError(
            f"strategy must be one of {list(STRATEGIES)} or a strategy object, got {strategy!r}."
        )
    chosen: Strategy = strategy
    return chosen
