r"""Bounds on what a release tells somebody whose prior is close to a fitted one.

The loss under a further prior is computed as that under the fitted one. Beside it stand bounds
that know only how far the two priors are apart. Let p_i be the law of the values given secret i
under a prior that was fitted or named in ``adversaries=``, p'_i that under the further prior, K
the density of the noise, and M_i = p_i * K, M'_i = p'_i * K what is released under either.

*Divergences of the priors* (004, Thm A.3). Where p'_i <= e^a p_i and p_j <= e^b p'_j for all
secrets, adding noise keeps both, so M'_i <= e^a M_i and M_j <= e^b M'_j, and

.. math:: M_i \le e^\varepsilon M_j \Rightarrow M'_i \le e^{\varepsilon + a + b} M'_j, \qquad
          \int (M'_i - e^\varepsilon M'_j)_+ \le e^a \int (M_i - e^{\varepsilon - a - b} M_j)_+.

*Moves* (after 004, Thm A.5). If a coupling of p_i and p'_i moves nothing by more than W, then
p'_i * K = sum pi(x, x') K(. - x') <= e^R p_i * K with R the max-divergence of the noise moved by
W, and back: the same again with a = b = R. The hockey sticks of moves need no finite R:

.. math:: \delta' \le \delta_W(e_1) + e^{e_1} \delta(e_2) + e^{e_1 + e_2} \delta_W(e_3), \qquad
          e_1 + e_2 + e_3 = \varepsilon,

from M'_i(B) <= e^e1 M_i(B) + delta_W(e1), M_i(B) <= e^e2 M_j(B) + delta(e2), and so on.

*Renyi* (004, Thm A.4 and A.5). Let u = 1/p, v = 1/q, w = 1/r be positive with sum 1. Hoelder's
inequality for the factors M'_i^alpha / M_i^(alpha - u), (M_i / M_j)^(alpha - u) M_j^v and
M_j^(alpha - 1 + w) / M'_j^(alpha - 1), whose product is M'_i^alpha M'_j^(1 - alpha), gives

.. math:: D_\alpha(M'_i \| M'_j) \le
          \Bigl(1 + \frac{v + w}{\alpha - 1}\Bigr) D_{\alpha / u}(M'_i \| M_i) +
          \Bigl(1 + \frac{w}{\alpha - 1}\Bigr) D_{(\alpha - u) / v}(M_i \| M_j) +
          D_{(\alpha - 1) / w + 1}(M_j \| M'_j).

One fitted prior stands in all three terms. As printed, the infimum over fitted priors is taken in
the first and in the last term apart, and that is no bound: with nothing but the identity for a
release, and the fitted priors "uniform on {0, 1}" and "always 0", whatever the secret, the further
prior "uniform given i, always 0 given j" is at distance 0 from one of them in either term, and its
loss is infinite. The limit u, w -> 0 reads alpha/(alpha - 1) a + D_alpha(M_i || M_j) + b.

Groups of columns are independent given the secret under every prior, so the divergences of rows
are sums over the groups, those of moves too.
"""

# Rounding. Divergences never fall with their order, nor hockey sticks with a smaller epsilon: all
# orders are raised by a factor 1 + _MARGIN, all epsilons lowered by as much of the budget, which
# covers the rounding of u, v, w and of the splits; sums and coefficients are raised likewise. What
# they are applied to (`accounting`, `bounds.wasserstein`, `divergence_interval`) is rounded up.

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from sklearn_puffer._base.types import Array, FloatArray
from sklearn_puffer._fitting.drawing import Drawing, on_steps
from sklearn_puffer._fitting.learning import Adversary, Group, Part, make_groups
from sklearn_puffer._fitting.planning import losses_at
from sklearn_puffer._fitting.problems import Problem, bare_panels, template
from sklearn_puffer._fitting.selection import Pair
from sklearn_puffer._losses.divergences import Panels, divergence_interval
from sklearn_puffer._releases.repeats import factor_below
from sklearn_puffer._strategies.bound_types import Tightest
from sklearn_puffer._strategies.plan_bounds import MoveBound, largest, moves_that_may_matter
from sklearn_puffer.accounting import LossTable, is_computable
from sklearn_puffer.bounds import wasserstein
from sklearn_puffer.calibration import exact
from sklearn_puffer.frame import Name
from sklearn_puffer.noise import Gaussian, Noise
from sklearn_puffer.notions import Notion, PowerMean, Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture, Prior, PriorPair
from sklearn_puffer.transport import couplings

Interval = tuple[FloatArray, FloatArray, Array]
Losses = Callable[[Notion], FloatArray]
Pairs = Mapping[Name, Sequence[Pair]]
Groups = Sequence[Sequence[int]]

_MARGIN = 1e-10
_LEAST_MASS = 2.0**-1000  # smaller masses may have lost digits: nothing is said about them
# Any p, q and r are sound: these multiples of alpha stand for q (alpha - 1/p), and these shares of
# what 1/p may then be at most for 1/p.
_MULTIPLES = (1.04, 1.15, 1.4, 2.0, 3.5, 10.0)
_SHARES = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95)
_LARGEST_ORDER = 1e5  # up to which divergences of moves are known that well
_SPLITS = (0.98, 0.9, 0.75, 0.5, 0.25, 0.1)  # of epsilon, for the fitted prior's part


@dataclass(frozen=True, eq=False)
class Release:
    """The noise as it is drawn, and what it leaves of priors.

    Attributes
    ----------
    names : tuple of str or int
    free : tuple of bool
        Columns that take any number: their priors are continuous.
    theta, grids : ndarray of shape (n_columns,)
        Scale and grid step of each column; 0 where the column is released unchanged.
    whole : ndarray of bool of shape (n_columns,)
        Columns that are released on whole numbers.
    noise : Noise
        Of any scale; that of all releases together.
    notion : Notion
    releases : int
        How often the same rows are released; ``theta`` is that of all releases together.
    """

    names: tuple[Name, ...]
    free: tuple[bool, ...]
    theta: FloatArray
    grids: FloatArray
    whole: Array
    noise: Noise
    notion: Notion
    releases: int = 1

    @property
    def noisy(self) -> Array:
        """Which columns have noise, shape (n_columns,)."""
        noisy: Array = self.theta > 0.0
        return noisy

    @property
    def ratio(self) -> float:
        """What drawing on the grid adds to a pure loss."""
        if not self.noisy.any():
            return 0.0
        problem = self.problem([], 0, self.notion)
        free = [k for k, is_free in enumerate(self.free) if is_free]
        # any continuous priors will do: they only name the columns on which values are rounded
        some = GaussianMixture([1.0], [0.0], [1.0])
        parts = [Part((k,), [PriorPair(some, some)], np.zeros(1, dtype=int)) for k in free]
        return Drawing(problem).loss([[part] for part in parts], 1.0, self.grids)

    @property
    def inner(self) -> Notion:
        """The notion that the continuous law keeps, for what is drawn to keep the one asked for."""
        return self.notion.for_law(self.ratio)

    def problem(self, groups: Sequence[Group], n_pairs: int, notion: Notion) -> Problem:
        """Return the problem whose noise is that of the release at factor 1.

        A column without noise gets some: it must not vary, or be looked at by `varies_bare`.
        """
        return Problem(
            groups=groups,
            n_pairs=n_pairs,
            weights=np.where(self.noisy, self.theta, 1.0),
            whole=self.whole,
            names=self.names,
            notion=notion,
            strategy=exact,
            noise=self.noise,
            releases=self.releases,
        )

    def varies_bare(self, part: Part) -> bool:
        """Return whether the priors of a part differ in a column without noise."""
        bare = [axis for axis, k in enumerate(part.members) if not self.noisy[k]]
        if not bare or part.is_free:
            return bool(bare)
        discrete = [prior for prior in part.priors() if isinstance(prior, Discrete)]
        rows = np.concatenate([prior.rows[:, bare][prior.counts > 0] for prior in discrete])
        return bool(np.ptp(rows, axis=0).any())

    def drawn(self, groups: Sequence[Group], n_pairs: int) -> Interval:
        """Return the interval of the loss of each pair as drawn, and whether it is exact."""
        lower, upper, recomputed = self.law(groups, n_pairs, self.inner)
        if self.noisy.any():
            upper = np.nextafter(self.notion.of_samples(upper, self.ratio), np.inf)
        return np.maximum(lower, 0.0), upper, recomputed

    def law(self, groups: Sequence[Group], n_pairs: int, notion: Notion) -> Interval:
        """Return the same for the continuous law of the release."""
        problem = self.problem(groups, n_pairs, notion)
        if any(self.varies_bare(part) for group in groups for part in group):
            # noise on the other columns takes nothing but information away
            without = losses_at(problem, notion, 0.0)
            if not self.noisy.any():
                return without
            lower = np.minimum(self._lower(problem, notion), without[1])
            return lower, without[1], np.zeros(n_pairs, dtype=bool)
        lower, upper, recomputed = losses_at(problem, notion, 1.0)
        if self.releases > 1:
            lower = self._lower(problem, notion)
        return lower, upper, recomputed

    def _lower(self, problem: Problem, notion: Notion) -> FloatArray:
        """Return lower ends for all releases, of which one at their joint scale is an upper end."""
        below = factor_below(problem.noise, notion, self.releases)
        return losses_at(problem, notion, below)[0]

    def moves(self, part: Part) -> Losses:
        """Return the loss of the largest move between the priors of each pair, for any notion."""
        shape = len(part.pairs), 2
        if all(p == q for p, q in part.pairs):
            return lambda notion: np.zeros(shape)
        if self.varies_bare(part):
            return lambda notion: np.full(shape, np.inf)
        noise = template(self.problem([], 0, self.notion), part)
        if part.is_free:
            return lambda notion: wasserstein(part.pairs, noise, notion).losses(1.0)
        # the same bound, of couplings that are looked for only once
        plans = [moves_that_may_matter(each, noise) for each in couplings(part.pairs, noise)]
        return lambda notion: Tightest(
            [MoveBound(each, noise, notion, largest) for each in plans]
        ).losses(1.0)

    def on_grid(self, adversary: Adversary) -> Adversary:
        """Return the laws of the values as they are rounded before the noise."""
        return {
            name: {
                label: {members: self._rounded(law, members) for members, law in laws.items()}
                for label, laws in of_secrets.items()
            }
            for name, of_secrets in adversary.items()
        }

    def _rounded(self, law: Prior, members: tuple[int, ...]) -> Prior:
        steps = self.grids[list(members)]
        noisy = steps > 0.0
        if isinstance(law, GaussianMixture) or not noisy.any():
            return law
        rows = law.rows.copy()
        rows[:, noisy] = on_steps(rows[:, noisy], steps[noisy])
        return law if np.array_equal(rows, law.rows) else law.moved(rows)


class _Base:
    """The largest loss of a fitted prior, for one notion after another."""

    def __init__(self, release: Release, groups: Sequence[Group], n_pairs: int) -> None:
        self.release, self.groups, self.n_pairs = release, groups, n_pairs
        self._found: dict[Notion, float] = {}

    def loss(self, notion: Notion) -> float:
        """Return an upper bound on the loss of the continuous law, both ways, over all pairs."""
        if notion not in self._found:
            upper = self.release.law(self.groups, self.n_pairs, notion)[1]
            self._found[notion] = float(upper.max())
        return self._found[notion]

    def largest_move(self, notion: Notion) -> float:
        """Return the largest loss that the moves between two secrets' laws allow."""
        moved = _summed(self.groups, self.n_pairs, lambda part: self.release.moves(part)(notion))
        return float(moved.max())


@dataclass(frozen=True, eq=False)
class _Apart:
    """How far a further prior is from a fitted one: the worst secret counts.

    ``groups`` hold the pairs (further law, fitted law), with the secrets as owners. By the id of a
    part: ``panels`` of its pairs, None for laws about which nothing is said, and the losses of its
    ``moves``.
    """

    groups: list[Group]
    n_secrets: int
    is_whole: bool
    panels: dict[int, list[Panels | None]]
    moves: dict[int, Losses]

    @classmethod
    def between(
        cls, release: Release, pairs: Pairs, groups: Groups, further: Adversary, fitted: Adversary
    ) -> _Apart:
        """Pair the laws of all secrets that some pair names."""
        secrets = [
            (name, label)
            for name, of_column in pairs.items()
            for label in dict.fromkeys(label for pair in of_column for label in pair)
        ]
        parts: list[Group] = []
        is_whole = True
        for members in map(tuple, groups):
            found = [
                (owner, further[name][label][members], fitted[name][label].get(members))
                for owner, (name, label) in enumerate(secrets)
            ]
            is_whole &= all(known is not None for _, _, known in found)
            both = [PriorPair(p, q) for _, p, q in found if q is not None]
            owners = np.array([owner for owner, _, q in found if q is not None], dtype=int)
            parts.append([Part(members, both, owners)] if both else [])
        every = [part for group in parts for part in group]
        panels = {id(part): [_panels(pair) for pair in part.pairs] for part in every}
        moves = {id(part): release.moves(part) for part in every}
        return cls(parts, len(secrets), is_whole, panels, moves)

    def bare(self, notion: Notion) -> tuple[float, float]:
        """Return the largest divergence of priors, further from fitted, and fitted from further."""
        return self._worst(lambda part: self._divergences(part, notion))

    def moved(self, notion: Notion) -> float:
        """Return the largest loss that the moves from one prior to the other allow."""
        return max(self._worst(lambda part: self.moves[id(part)](notion)))

    def _worst(self, losses_of: Callable[[Part], FloatArray]) -> tuple[float, float]:
        if not self.is_whole:
            return math.inf, math.inf
        forth, back = _summed(self.groups, self.n_secrets, losses_of).max(axis=0)
        return float(forth), float(back)

    def _divergences(self, part: Part, notion: Notion) -> FloatArray:
        pairs = zip(part.pairs, self.panels[id(part)], strict=True)
        return np.array([_divergence(pair, panels, notion) for pair, panels in pairs])


def _summed(
    groups: Sequence[Group], n_owners: int, losses_of: Callable[[Part], FloatArray]
) -> FloatArray:
    """Return the sum over groups of the worst part of each owner, shape (n_owners, 2)."""
    total = np.zeros((n_owners, 2))
    for group in groups:
        worst = np.zeros((n_owners, 2))
        for part in group:
            np.maximum.at(worst, part.owners, losses_of(part))
        total += worst
    return total * (1.0 + _MARGIN)


def _panels(pair: PriorPair) -> Panels | None:
    """Return two discrete priors as panels, unless a mass is too small for floats."""
    p, q = pair
    if isinstance(p, GaussianMixture) or p == q:
        return None
    masses = np.concatenate([side.probabilities[side.counts > 0] for side in pair])
    return None if masses.min() < _LEAST_MASS else bare_panels(pair)


def _divergence(pair: PriorPair, panels: Panels | None, notion: Notion) -> tuple[float, float]:
    """Return upper bounds on the divergence of p from q, and of q from p."""
    if pair.p == pair.q:
        return 0.0, 0.0
    if panels is not None:
        forth, back = (divergence_interval(side, notion)[1] for side in (panels, panels.swapped()))
        return forth, back
    if isinstance(pair.p, Discrete) or not is_computable(pair, Gaussian(1.0), notion):
        return math.inf, math.inf
    forth, back = LossTable([pair], notion).without_noise()[0]
    return float(forth), float(back)


# ---------------------------------------------------------------------------------- the theorems


def distance_bounds(
    release: Release,
    pairs: Pairs,
    groups: Groups,
    further: Adversary,
    fitted: Sequence[Adversary],
) -> dict[str, float]:
    """Return each bound on the loss under a further prior, from the fitted prior that serves best.

    Parameters
    ----------
    release : Release
    pairs : mapping of list
        The protected pairs of each sensitive column.
    groups : sequence of sequence of int
        Positions of the columns that are released jointly.
    further : dict
        The laws of the further prior, on the grid.
    fitted : sequence of dict
        Those of each prior that was fitted or named beforehand, on the grid.

    Notes
    -----
    *Formal guarantees.* None is below the loss of any pair, in either direction, of what is drawn.
    None is given where alpha and delta are both asked for.
    """
    best: dict[str, float] = {}
    for known in fitted:
        asked, parts = make_groups([known], pairs, groups)
        base = _Base(release, parts, len(asked))
        apart = _Apart.between(release, pairs, groups, further, known)
        for name, bound in _bounds_of(base, apart).items():
            best[name] = min(best.get(name, math.inf), bound)
    return best


def _bounds_of(base: _Base, apart: _Apart) -> dict[str, float]:
    """Return all bounds that follow from one fitted prior, for the release as drawn."""
    release = base.release
    notion, inner, ratio = release.notion, release.inner, release.ratio
    if isinstance(inner.divergence, PowerMean):
        found = (
            {} if inner.delta > 0.0 else _renyi_bounds(base, apart, cast(RenyiPufferfish, inner))
        )
    elif inner.delta > 0.0:
        found = _delta_bounds(base, apart, inner)
    else:
        found = _pure_bounds(base, apart, inner)
    bounds = notion.of_samples(np.array(list(found.values())), ratio) * (1.0 + _MARGIN)
    bounds = np.nextafter(bounds, np.inf)
    trivial = 1.0 if notion.budget == notion.delta else math.inf  # a delta of 1 says nothing
    bounds = np.where(bounds < trivial, bounds, np.inf)
    return dict(zip(found, bounds.tolist(), strict=True))


def _pure_bounds(base: _Base, apart: _Apart, notion: Notion) -> dict[str, float]:
    epsilon = base.loss(notion)
    return {
        "004 Thm A.3": epsilon + 2.0 * max(apart.bare(notion)),
        "as 004 Thm A.5, pure": epsilon + 2.0 * apart.moved(notion),
    }


def _delta_bounds(base: _Base, apart: _Apart, notion: Notion) -> dict[str, float]:
    pure = Pufferfish(notion.epsilon)
    forth, back = apart.bare(pure)
    return {
        "as 004 Thm A.3, with delta": _raised(base, notion, forth, back),
        "as 004 Thm A.5, with delta": _moved_delta(base, apart, notion, apart.moved(pure)),
    }


def _raised(base: _Base, notion: Notion, forth: float, back: float) -> float:
    """Return e^a times the delta at epsilon - a - b."""
    epsilon = notion.epsilon * (1.0 - _MARGIN) - forth - back
    if forth == back == 0.0:
        return base.loss(notion)
    if not epsilon > 0.0:
        return 1.0
    return _raise(base.loss(Pufferfish(epsilon, notion.delta)), forth)


def _raise(delta: float, exponent: float) -> float:
    """Return delta times e^exponent, at most 1."""
    return math.exp(min(math.log(delta) + exponent, 0.0)) if delta > 0.0 else 0.0


def _moved_delta(base: _Base, apart: _Apart, notion: Notion, largest: float) -> float:
    """Return the smallest delta over ways to split epsilon, the max-divergence of moves known."""
    best = _raised(base, notion, largest, largest)
    if largest == 0.0:
        return best
    whole = notion.epsilon * (1.0 - _MARGIN)
    for split in _SPLITS:
        own = Pufferfish(whole * split, notion.delta)
        for share in (0.05, 0.2, 0.5, 0.8):
            first = whole * (1.0 - split) * share
            last = whole * (1.0 - split) * (1.0 - share)
            ends = [_moved_by(apart, spent, notion.delta) for spent in (first, last)]
            if ends[0] >= best:
                continue
            middle = ends[0] + _raise(base.loss(own), first)
            best = min(best, middle + _raise(ends[1], first + own.epsilon))
    return best


def _moved_by(apart: _Apart, epsilon: float, delta: float) -> float:
    """Return the delta of the moves at an epsilon, by basic composition over the groups."""
    return apart.moved(Pufferfish(epsilon, delta).shared(len(apart.groups)))


@dataclass(frozen=True)
class _Orders:
    """One choice of p, q and r: the orders it asks for, and what the terms count."""

    moved: float  # alpha p
    own: float  # q (alpha - 1/p)
    back: float  # (alpha - 1) r + 1
    moved_weight: float
    own_weight: float

    @classmethod
    def all(cls, alpha: float) -> Iterator[_Orders]:
        """Return choices for every multiple of alpha, all of whose 1/p, 1/q, 1/r are positive."""
        for own in [alpha * multiple for multiple in _MULTIPLES]:
            for share in _SHARES:
                u = share * (own - alpha) / (own - 1.0)
                w = (1.0 - share) * (own - alpha) / own
                moved, back = alpha / u, (alpha - 1.0) / w + 1.0
                if max(own, moved, back) <= _LARGEST_ORDER:
                    weights = 1.0 + (1.0 - u) / (alpha - 1.0), 1.0 + w / (alpha - 1.0)
                    yield cls(moved, own, back, *weights)


def _renyi_bounds(base: _Base, apart: _Apart, notion: RenyiPufferfish) -> dict[str, float]:
    alpha = notion.alpha
    pure = Pufferfish(notion.epsilon)
    limit = alpha / (alpha - 1.0)
    bare, moved = apart.bare(pure), apart.moved(pure)
    own = base.loss(notion)
    found = {
        "004 Thm A.4 (corrected)": own + limit * bare[0] + bare[1],
        "004 Thm A.5": own + limit * moved + moved,
    }
    distances: dict[str, Callable[[Notion], tuple[float, float]]] = {
        "004 Thm A.4 (corrected)": apart.bare,
        "004 Thm A.5": lambda order: (apart.moved(order),) * 2,
    }
    for name, distance in distances.items():
        found[name] = min(found[name], _hoelder(base, distance, notion, found[name]))
    if isinstance(base.release.noise, Gaussian):
        found["004 Cor. A.1"] = _gaussian_bound(base, apart, notion)
    return found


def _hoelder(
    base: _Base,
    distance: Callable[[Notion], tuple[float, float]],
    notion: RenyiPufferfish,
    best: float,
) -> float:
    """Return the smallest bound over the choices of p, q and r that are tried."""
    least = base.loss(notion)  # losses do not fall with the order
    for orders in _Orders.all(notion.alpha):
        weight, far = orders.own_weight, 0.0
        if weight * least < best:  # what is cheap to know comes first
            far = orders.moved_weight * distance(_of_order(notion, orders.moved))[0]
        if weight * least + far < best:
            far += distance(_of_order(notion, orders.back))[1]
        if weight * least + far < best:
            least = base.loss(_of_order(notion, orders.own))
            best = min(best, (weight * least + far) * (1.0 + _MARGIN))
    return best


def _gaussian_bound(base: _Base, apart: _Apart, notion: RenyiPufferfish) -> float:
    """Return Cor. A.1: both the mechanism and the moves lose alpha W^2 / (2 sigma^2)."""
    two = RenyiPufferfish(notion.epsilon, 2.0)
    unit, moved = base.largest_move(two) / 2.0, apart.moved(two) / 2.0
    best = math.inf if moved > 0.0 else notion.alpha * unit  # the limit of p, r without end
    for orders in _Orders.all(notion.alpha):
        terms = (
            orders.own_weight * orders.own * unit,
            (orders.moved_weight * orders.moved + orders.back) * moved,
        )
        best = min(best, sum(terms) * (1.0 + _MARGIN))
    return best


def _of_order(notion: RenyiPufferfish, alpha: float) -> RenyiPufferfish:
    return RenyiPufferfish(notion.epsilon, alpha * (1.0 + _MARGIN))
