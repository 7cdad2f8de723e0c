r"""What counts of an event say about a guarantee, exactly and at any number of rows.

Of the tested rows in an event that was chosen by other rows, k have the one secret and h the other.
Given what a reader sees these secrets are independent coins, each with odds of at most e^epsilon
times its base odds, so that k of k + h is held against a binomial distribution.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from scipy.special import bdtrc, betainccinv, betaincinv, expit, logit
from sklearn.isotonic import IsotonicRegression
from sklearn.utils import shuffle

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._tables import Name
from sklearn_puffer._words import shown, times
from sklearn_puffer.notions import RenyiPufferfish

TRAIN, CHOOSE = 0.4, 0.2
SMALL, FOLDS = 1_000, 5
"""Rows below which those that train also choose: each by a model of the other folds."""


@dataclass(frozen=True)
class RowSplit:
    """Which rows train, choose and test: drawn by a seed, whatever they hold, secrets included."""

    train: Array
    choose: Array
    test: Array

    @classmethod
    def of(cls, n_rows: int, seed: int) -> RowSplit:
        """Return the parts of so many rows; of few the same ones train and choose.

        >>> parts = RowSplit.of(1000, 0)
        >>> len(parts.train), len(parts.choose), len(parts.test)
        (400, 200, 400)
        >>> parts = RowSplit.of(100, 0)
        >>> len(parts.train), len(parts.choose), len(parts.test)
        (40, 40, 60)
        """
        rows = shuffle(np.arange(n_rows), random_state=seed)
        train, rest = np.split(rows, [int(TRAIN * n_rows)])
        if n_rows < SMALL:
            return cls(train, train, rest)
        return cls(train, *np.split(rest, [int(CHOOSE * n_rows)]))

    @property
    def shown(self) -> Array:
        """The rows whose secrets readers are shown: those that train and choose."""
        return np.union1d(self.train, self.choose)

    @property
    def rounds(self) -> list[tuple[Array, Array]]:
        """Which rows are learnt from, and which a model of them reads."""
        if not np.array_equal(self.choose, self.train):
            return [(self.train, np.concatenate([self.choose, self.test]))]
        folds = [self.train[k::FOLDS] for k in range(FOLDS)]
        return [(self.train, self.test), *((np.setdiff1d(self.train, f), f) for f in folds)]


_SPARED = 1e-9  # chance that delta tells of more rows than are spared
_RARE = 1e-3  # chance of releases that an order alpha does not limit
LEVEL = 0.05
"""The chance of a false alarm over all tests of an audit, and of each interval to miss."""
POWER = 0.8
"""The chance with which a loss must be found to be called findable."""


@dataclass(frozen=True)
class Budget:
    r"""How probable an event may be under one secret, given how probable it is under the other.

    Pure or with a delta :math:`p \le e^\varepsilon q + \delta`.
    """

    epsilon: float
    delta: float = 0.0

    @classmethod
    def of(cls, epsilon: float, delta: float = 0.0, alpha: float | None = None) -> Budget:
        """Return the budget of a guarantee; of an order alpha the one that follows from it.

        An order limits a mean over releases, and so single ones but for a chance: one in 1,000.

        >>> Budget.of(1.0, alpha=8.0)
        Budget(epsilon=1.98..., delta=0.001)
        """
        if alpha is None:
            return cls(epsilon, delta)
        follows = RenyiPufferfish(epsilon, alpha).to_pufferfish(_RARE)
        return cls(follows.epsilon, follows.delta)

    def spared(self, n: int) -> int:
        """Return how many of n rows delta may give away at most, but for a chance of 1e-9."""
        return int(next(k for k in range(n + 1) if bdtrc(k, n, self.delta) <= _SPARED))

    def auc(self) -> float:
        """Return the largest area under a ROC curve."""
        return 1.0 - (1.0 - self.delta) ** 2 / (1.0 + math.exp(self.epsilon))


def lower(k: Any, n: Any, alpha: float) -> Any:
    """Return the lower end of Clopper and Pearson's interval, which misses with chance alpha."""
    return np.nan_to_num(betaincinv(k, np.asarray(n) - k + 1.0, alpha), nan=0.0)


def upper(k: Any, n: Any, alpha: float) -> Any:
    """Return the upper end, which misses with chance alpha.

    >>> round(float(upper(0, 10, 0.05)), 3)
    0.259
    """
    return np.nan_to_num(betainccinv(k + 1.0, np.asarray(n) - k, alpha), nan=1.0)


def p_value(guarantee: Budget, event: tuple[int, int], tested: int, most: float) -> float:
    r"""Return a p-value of "the guarantee is kept", which may be too large but never too small.

    ``event`` are rows of the one secret and of the other in the event, ``tested`` how many rows of
    both there are. ``most`` is the mean over the rows of the event of the largest chance that the
    guarantee leaves them to have the first secret.

    Notes
    -----
    *Formal guarantees.* Let rows and their secrets be independent draws of one distribution, and
    the tested ones chosen whatever they hold. Given the release, and the secrets of the rows that
    the event was chosen by, each tested row has the one secret by itself, at odds of at most
    e^epsilon times its base odds. How many rows of the event have it is then a sum of independent
    coins, whose upper tail beyond its mean and 1 is below that of the binomial distribution of the
    same mean (W. Hoeffding, 1956). With a delta both distributions are pure ones in all but a part
    delta (P. Kairouz, S. Oh and P. Viswanath, 2015): `Budget.spared` rows, which may be of it, come
    off k.

    Where rows are exchanged, owners are uniform given the list of rows, and whole flows are drawn
    as randomised response given margins: the secrets of the holders are independent coins given how
    many have each secret. The number that falls into an event is then a sum of independent coins (a
    stable polynomial: J. Borcea, P. Braenden and T. Liggett, 2009), and the same bound holds.

    Examples
    --------
    >>> most = 1.0 / (1.0 + math.exp(-1.0))  # even base odds
    >>> p_value(Budget(1.0), (95, 5), 200, most) < 1e-4
    True
    >>> p_value(Budget(1.0), (70, 30), 200, most)
    1.0
    """
    k, h = event
    k -= guarantee.spared(tested)
    if k < (k + h) * most + 1.0:
        return 1.0
    return min(1.0, float(bdtrc(k - 1, k + h, most)) + _SPARED * (guarantee.delta > 0.0))


def findable(
    guarantee: Budget, rows: int, tested: int, most: float, base: float, level: float
) -> float:
    r"""Return the smallest loss that is found with a chance of 80 %, or infinity.

    ``rows`` tested rows with either secret are in the event, ``base`` is the share of the first
    secret by the base odds, and the test has level ``level``.

    >>> 1.0 < findable(Budget(1.0), 500, 1000, 0.74, 0.5, 0.05) < 1.6
    True
    """

    def is_found(k: int) -> bool:
        return p_value(guarantee, (k, rows - k), tested, most) <= level

    few = bisect_left(range(rows + 1), True, key=is_found)  # of the first secret
    if few > rows:
        return math.inf
    # the loss at which so many are as probable as asked for
    chance = float(betaincinv(few, rows - few + 1, POWER))
    return max(guarantee.epsilon, float(logit(chance) - logit(base)))


@dataclass(frozen=True)
class Attack:
    """What one reader found out about one secret against another, in this direction.

    Attributes
    ----------
    view : str
        The reader.
    attacker : str
        How he reads rows.
    sensitive : str or int
    secret, against
        The log odds are those of the one against the other.
    n, n_against : int
        Test rows of the two.
    log_odds, low, high, allowed : float
        Of the event that was chosen on other rows: how far the log odds of the two secrets among
        its rows are from the base ones, the interval (Clopper and Pearson's), and epsilon.
    certified : float
        The proven loss of the pair in the certificate, in its unit.
    share : float
        Of the test rows of the two secrets that are in the event.
    p : float
        p-value of "the guarantee is kept"; ``p_all`` is corrected for all tests. NaN
        where nothing is guaranteed to the reader, as is what is allowed.
    p_all : float
    findable : float
        The power: the smallest loss that is found with a chance of 80 % of a reader who claims the
        secret of as many tested rows as have it.
    """

    view: str
    attacker: str
    sensitive: Name
    secret: Any
    against: Any
    n: int
    n_against: int
    log_odds: float
    low: float
    high: float
    allowed: float
    certified: float
    share: float
    p: float
    findable: float = math.nan
    p_all: float = math.nan

    def shift(self) -> str:
        """Return how many times the base odds the odds are; where all have the secret, in words.

        A shift beyond what is allowed that is no finding is within chance.
        """
        told = "without limit" if self.log_odds == math.inf else times(self.log_odds)
        chance = self.log_odds > self.allowed and self.p_all > LEVEL
        return told + ", within chance" * chance

    def ends(self) -> str:
        """Return the ends of the interval of the shift, if any row was claimed."""
        if not self.share:
            return "no row"
        low = times(self.low, at_least=True).removesuffix(" times")
        return f"{low} or more" if self.high == math.inf else f"{low} to {times(self.high)}"

    def __str__(self) -> str:
        limit = "not covered by the guarantee"
        if not math.isnan(self.allowed):
            limit = f"{times(self.allowed)} allowed; p = {self.p_all:.2g}"
        return (
            f"{self.view} ({self.attacker}) claims {shown(self.sensitive)} = {shown(self.secret)} "
            f"({self.n} people) against {shown(self.against)} ({self.n_against}): odds shifted "
            f"{self.shift()} ({self.ends()}); {limit}"
        )


@dataclass(frozen=True, eq=False)
class Secrets:
    """The secrets of the rows, of a column or a combination, and the pairs that are attacked.

    ``codes`` are places in ``labels``, -1 of what is missing; ``pairs`` are two codes each, of
    which an audit tells the first from the second.
    """

    name: Any
    labels: Sequence[Any]
    codes: Array
    pairs: Sequence[tuple[int, int]] = ()

    def of(self, rows: Array) -> Secrets:
        """Return the same of some rows."""
        return replace(self, codes=self.codes[rows])

    def with_rows(self, least: int, *parts: Array) -> Secrets:
        """Return the same with the pairs of which each part has so many rows of either secret."""
        counts = [np.bincount(self.codes[p] + 1, minlength=len(self.labels) + 1) for p in parts]
        rows = np.min(counts, axis=0)[1:]
        return replace(self, pairs=[p for p in self.pairs if rows[list(p)].min() >= least])

    def named(self, pair: tuple[int, int]) -> tuple[Name, Any, Any]:
        """Return the name of what is secret, and the two secrets of a pair."""
        return self.name, self.labels[pair[0]], self.labels[pair[1]]


@dataclass(frozen=True, eq=False)
class Reader:
    """Somebody who reads a release, and what he claims of each row.

    By each way to read rows ``claims`` has a score of each secret, such as its log chance, of shape
    (n_rows, n_secrets): NaN for rows that he has learnt from, and for secrets that he does not
    know. ``budget`` is what is guaranteed to him, if anything. Rows look alike to him whose
    ``cells`` are equal; negative are those of none. He picks from the rows ``among``, and of his
    ``own`` secret each row has one person less.
    """

    name: str
    knows: str
    secrets: Secrets
    claims: Mapping[str, FloatArray]
    budget: Budget | None = None
    cells: Array | None = None
    among: Array | bool = True
    own: Array | None = None

    def picks(self, pair: tuple[int, int]) -> Array:
        """Return the rows of a pair of secrets that he picks from."""
        return np.isin(self.secrets.codes, pair) & self.among


_Claimed = tuple[Attack, float, tuple[Budget, int, int, float, float] | None]


@dataclass(frozen=True, eq=False)
class Judge:
    """Compares what readers claim with the true secrets of the tested rows.

    ``certified`` is the proven loss of each pair, by sensitive column, secret and the other one:
    where it is more than ``epsilon``, as between distant bins of numbers, that is allowed. The
    guarantee is made within ``strata``, numbers of what known columns say of each row; of rows that
    are ``exchanged`` base odds are known, and the tested ones are strata of their own.
    """

    parts: RowSplit
    certified: Mapping[tuple[Any, Any, Any], float] = field(default_factory=dict)
    strata: Array | None = None
    exchanged: bool = False
    epsilon: float = math.inf

    def attacks(self, readers: Sequence[Reader]) -> list[Attack]:
        """Return the attack of each claim, with p-values corrected over all of them."""
        tests = sum(len(reader.claims) * len(reader.secrets.pairs) for reader in readers)
        # the chance that some base odds are larger than they are taken to be
        error = 0.0 if self.exchanged or not tests else 0.1 * LEVEL / tests
        claims = [claim for reader in readers for claim in self._claims(reader, error)]
        looks = [(attack.view, worth) for attack, worth, _ in claims]
        weights, attacks = shares(looks, tests, len({reader.name for reader in readers})), []
        for (attack, _, asked), share in zip(claims, weights, strict=True):
            power = findable(*asked, LEVEL * share - error) if asked else math.nan
            attacks.append(replace(attack, findable=power))
        return corrected(attacks, weights)

    def _claims(self, reader: Reader, error: float) -> Iterator[_Claimed]:
        """Yield what comes of each claim of a reader on the tested rows, by their true secrets.

        He claims one secret against another, for each pair in each direction and in each of his
        ways, in an event that other rows choose. With an attack come how much more than is allowed
        odds shift at least on the rows that chose its event, and what `findable` asks but for the
        level. Where nothing is guaranteed this is None, and what is allowed and the p-value NaN.
        """
        secrets, parts = reader.secrets, self.parts
        for (way, claims), pair in product(reader.claims.items(), secrets.pairs):
            scores, first = claims[:, pair[0]] - claims[:, pair[1]], secrets.codes == pair[0]
            base, most = self.base(reader, pair, error)
            there = reader.picks(pair) & ~np.isnan(scores) & np.isfinite(base)
            choose, test = (part[there[part]] for part in (parts.choose, parts.test))
            if min(len(np.unique(first[rows])) for rows in (choose, test)) < 2:
                continue
            chosen, worth = best_event(scores, first, base, choose, reader.cells)
            event, named = test[chosen[test]], secrets.named(pair)
            n, k, rows = int(first[test].sum()), int(first[event].sum()), len(event)
            odds = float(logit(expit(base[event if rows else test]).mean()))
            allowed, p, asked = math.nan, math.nan, None
            budget, certified = reader.budget, self.certified.get(named, math.nan)
            if budget is not None:
                if certified > self.epsilon:
                    budget = replace(budget, epsilon=budget.epsilon * certified / self.epsilon)
                chances = expit(most + budget.epsilon)
                largest = float(chances[event].mean()) if rows else 1.0
                p = min(1.0, p_value(budget, (k, rows - k), len(test), largest) + error)
                means = float(chances[test].mean()), float(expit(base[test]).mean())
                asked = budget, n, len(test), *means
                allowed, worth = budget.epsilon, worth - budget.epsilon
            attack = Attack(
                reader.name,
                way,
                *named,
                n=n,
                n_against=len(test) - n,
                log_odds=float(logit(k / rows)) - odds if rows else 0.0,
                low=float(logit(lower(k, rows, LEVEL / 2.0))) - odds,
                high=float(logit(upper(k, rows, LEVEL / 2.0))) - odds,
                allowed=allowed,
                certified=certified,
                share=rows / len(test),
                p=p,
            )
            yield attack, worth, asked

    def base(
        self, reader: Reader, pair: tuple[int, int], error: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the base log odds at each row, and the largest ones that they are taken to be.

        The latter are too small with a chance of ``error`` over all strata. Both are finite where
        both secrets occur.
        """
        codes, own = reader.secrets.codes, reader.own
        among = np.full(len(codes), True) if self.exchanged else reader.picks(pair)
        strata = np.zeros(len(codes), dtype=np.intp) if self.strata is None else self.strata
        n, m = (
            np.bincount(strata, among & (codes == code))[strata] - (own is not None and own == code)
            for code in pair
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            base = np.log(n) - np.log(m)
            return base, logit(upper(n, n + m, error / len(np.unique(strata)))) if error else base


def shares(claims: Sequence[tuple[str, float]], tests: int, readers: int) -> list[float]:
    """Return the share of the level that each claim is tested at, by its reader and its worth.

    One half is for the claim of each reader that looks best on the rows that chose it, so that few
    rows are enough for it; all tests have the other half alike. Tested rows have no say in it.
    """
    best: dict[str, int] = {}
    for k, (reader, worth) in enumerate(claims):
        if worth > claims[best.setdefault(reader, k)][1]:
            best[reader] = k
    return [0.5 / tests + 0.5 / readers * (k in best.values()) for k in range(len(claims))]


_THRESHOLDS, _BINS, _WITHIN = 60, 10, 3
_MOST_CELLS = 400


def best_event(
    scores: FloatArray, first: Array, base: FloatArray, choose: Array, cells: Array | None
) -> tuple[Array, float]:
    """Return the event whose odds are proven to be furthest from the base odds, and how far.

    Rows that choose it have a first secret or not, and base log odds. Events are scores above a
    threshold, in a bin, on a step of an isotonic fit, in a cell, and parts of a cell by scores.
    """
    labels, chances = first[choose], expit(base[choose])
    whole = np.zeros(len(scores), dtype=np.intp)
    ways = [(_parted(whole, scores, choose, _THRESHOLDS), True)]
    ways += [(_parted(whole, scores, choose, _BINS), False)]
    ways += [(_steps(scores, choose, labels), False)]
    if cells is not None and cells.max() < _MOST_CELLS:
        ways += [(_parted(cells, scores, choose, n), False) for n in (1, _WITHIN)]
    best, value = np.ones(len(scores), dtype=bool), -math.inf
    for blocks, nested in ways:
        worth = _worth(blocks[choose], labels, chances, nested)
        at = int(np.argmax(worth))
        if worth[at] > value:
            value, best = float(worth[at]), (blocks >= at) if nested else (blocks == at)
    return best, value


def _parted(cells: Array, scores: FloatArray, choose: Array, n: int) -> Array:
    """Return which of n parts of its cell each row is in, by its score; negative outside of cells.

    Each part has as many of the different scores of the rows that choose.
    """
    blocks = np.full(len(cells), -1)
    for cell in np.unique(cells[choose]):
        inside = cells == cell
        atoms = np.unique(scores[choose[inside[choose]]])
        starts = atoms[np.arange(n) * len(atoms) // n]
        part = np.searchsorted(starts, scores[inside], side="right") - 1
        blocks[inside] = cell * n + np.maximum(part, 0)
    return np.where(cells < 0, -1, blocks)


def _steps(scores: FloatArray, choose: Array, labels: Array) -> Array:
    """Return the step of an isotonic fit of the secret by its score; of no score the lowest."""
    finite = np.nan_to_num(np.clip(scores, -1e9, 1e9), nan=-1e9)
    fit = IsotonicRegression(out_of_bounds="clip").fit(finite[choose], labels)
    heights: FloatArray = fit.predict(finite).round(9)
    return np.searchsorted(np.unique(heights[choose]), heights)


def _worth(blocks: Array, labels: Array, base: FloatArray, nested: bool) -> FloatArray:
    """Return a lower bound on the log odds of each block, less its base log odds.

    If they are nested, a block stands for itself and all blocks of larger numbers.
    """
    there = blocks >= 0
    sums = [np.bincount(blocks[there], w[there], minlength=1) for w in (there, labels, base)]
    if nested:
        sums = [each[::-1].cumsum()[::-1] for each in sums]
    total, k, odds = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = logit(lower(k, total, LEVEL)) - logit(odds / total)
    return np.where(np.isnan(worth), -np.inf, worth)


def corrected(attacks: Sequence[Attack], weights: Sequence[float]) -> list[Attack]:
    """Return the attacks with p-values over all of them: S. Holm's of 1979, by shares of the level.

    >>> one, two = (Attack(*"abcde", *[0.0] * 8, p=p) for p in (0.01, 0.03))
    >>> [round(attack.p_all, 9) for attack in corrected([one, two], [0.5, 0.5])]
    [0.02, 0.03]
    """
    results, largest, left = list(attacks), 0.0, 1.0
    for k in sorted(range(len(attacks)), key=lambda k: attacks[k].p / weights[k]):
        largest = max(largest, min(1.0, attacks[k].p * left / weights[k]))
        results[k] = replace(attacks[k], p_all=largest)
        left -= weights[k]
    return results
