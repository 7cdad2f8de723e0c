r"""What counts of an event say about a guarantee, exactly and at any number of rows.

Of the tested rows in an event that was chosen by other rows, k have the one secret and h the other.
Given what a reader sees these secrets are independent coins, each with odds of at most e^epsilon
times its base odds, so that k of k + h is held against a binomial distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import betainc, betaincc, betaincinv, expit, logit
from sklearn.isotonic import IsotonicRegression
from sklearn.utils import shuffle

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._tables import Name

TRAIN, CHOOSE = 0.4, 0.2


@dataclass(frozen=True)
class RowSplit:
    """Which rows train, choose and test: drawn by a seed, whatever they hold, secrets included."""

    train: Array
    choose: Array
    test: Array

    @property
    def all(self) -> tuple[Array, Array, Array]:
        """All three of them."""
        return self.train, self.choose, self.test

    @classmethod
    def of(cls, n_rows: int, seed: int) -> RowSplit:
        """Return the parts of so many rows.

        >>> parts = RowSplit.of(100, 0)
        >>> len(parts.train), len(parts.choose), len(parts.test)
        (40, 20, 40)
        """
        rows = shuffle(np.arange(n_rows), random_state=seed)
        ends = [int(TRAIN * n_rows), int(TRAIN * n_rows) + int(CHOOSE * n_rows)]
        return cls(*np.split(rows, ends))


def twice_below(x: FloatArray, y: FloatArray) -> Array:
    """Return for each x twice the number of y below it, ties as one half."""
    ranked = np.sort(y)
    return np.searchsorted(ranked, x, side="left") + np.searchsorted(ranked, x, side="right")


_STEPS = 60
_FINE = 20_001
_KEPT = 4096
_SPARED = 1e-9
POWER = 0.8
"""The chance with which a loss must be found to be called findable."""


@dataclass(frozen=True)
class Budget:
    r"""How probable an event may be under one secret, given how probable it is under the other.

    Pure or with a delta :math:`p \le e^\varepsilon q + \delta`. Under Renyi privacy of order alpha
    an event is a release of one bit, so :math:`p^\alpha q^{1 - \alpha} \le e^{(\alpha - 1)
    \varepsilon}`, and :math:`p \le (e^\varepsilon q)^{(\alpha - 1)/\alpha}`; with a delta besides
    that holds of the parts of both distributions of mass 1 - delta.

    >>> round(float(Budget(math.log(3.0)).most(0.25)), 9)
    0.75
    """

    epsilon: float
    delta: float = 0.0
    alpha: float | None = None

    def most(self, q: Any) -> Any:
        """Return the largest chance that is allowed."""
        return np.minimum(1.0, self._kept * self._raised(q) + self.delta)

    def least(self, p: Any) -> Any:
        """Return the smallest chance under the other secret."""
        part = np.maximum(np.asarray(p) - self.delta, 0.0) / self._kept
        return self._kept * part ** (1.0 / self._power) * math.exp(-self.epsilon)

    def tilted(self, prior: Any) -> Any:
        """Return the largest chance of a secret given a release, delta aside."""
        return expit(logit(prior) + self.epsilon)

    def spared(self, n: int) -> int:
        """Return of how many of n rows delta may tell everything, but for a chance of 1e-9."""
        k = 0
        while self.delta > 0.0 and at_least(k + 1, n, self.delta) > _SPARED:
            k += 1
        return k

    def auc(self) -> float:
        """Return the largest area under a ROC curve: of (epsilon, delta) in closed form."""
        if self.alpha is None:
            return 1.0 - (1.0 - self.delta) ** 2 / (1.0 + math.exp(self.epsilon))
        return float(self._curve()[1:].mean())  # it increases, so right ends are above it

    def _curve(self) -> FloatArray:
        grid = np.linspace(0.0, 1.0, _FINE)
        curve: FloatArray = np.minimum(self.most(grid), 1.0 - self.least(1.0 - grid))
        return curve

    @property
    def _kept(self) -> float:
        return 1.0 if self.alpha is None else 1.0 - self.delta

    @property
    def _power(self) -> float:
        return 1.0 if self.alpha is None else (self.alpha - 1.0) / self.alpha

    def _raised(self, q: Any) -> Any:
        # as a logarithm: e^epsilon may be no float
        with np.errstate(divide="ignore"):
            log = self.epsilon + np.log(np.minimum(np.asarray(q) / self._kept, 1.0))
        return np.exp(np.minimum(self._power * log, 1.0))


def at_least(k: Any, n: Any, p: Any) -> Any:
    """Return the chance that k or more of n rows are in an event of chance p.

    >>> round(float(at_least(2, 2, 0.5)), 3)
    0.25
    """
    k = np.asarray(k)
    inside = betainc(np.maximum(k, 1), np.maximum(n - k + 1, 1), p)
    return np.where(k <= 0, 1.0, np.where(k > n, 0.0, inside))


def at_most(k: Any, n: Any, p: Any) -> Any:
    """Return the chance that k or fewer of n rows are.

    >>> round(float(at_most(0, 2, 0.5)), 3)
    0.25
    """
    k = np.asarray(k)
    inside = betaincc(np.maximum(k + 1, 1), np.maximum(n - k, 1), p)
    return np.where(k >= n, 1.0, np.where(k < 0, 0.0, inside))


def lower(k: Any, n: Any, alpha: float) -> Any:
    """Return the lower end of Clopper and Pearson's interval, which misses with chance alpha."""
    k = np.asarray(k)
    return np.where(k <= 0, 0.0, betaincinv(np.maximum(k, 1), np.maximum(n - k + 1, 1), alpha))


def upper(k: Any, n: Any, alpha: float) -> Any:
    """Return the upper end, which misses with chance alpha.

    >>> round(float(upper(0, 10, 0.05)), 3)
    0.259
    """
    k = np.asarray(k)
    ends = betaincinv(np.maximum(k + 1, 1), np.maximum(n - k, 1), 1.0 - alpha)
    return np.where(k >= n, 1.0, ends)


@dataclass(frozen=True)
class Counts:
    """What is known of the rows that an event is judged on.

    Attributes
    ----------
    n, m : int
        Tested rows of the one secret and of the other.
    whole : (int, int) or None
        How many rows have either in all that the base odds are estimated from; None where these
        odds are known.
    base : float
        The mean of the largest chances that are allowed to the rows of the event, where base odds
        are known.
    """

    n: int
    m: int
    whole: tuple[int, int] | None = None
    base: float = 0.0


@lru_cache(maxsize=_KEPT)  # pairs of secrets often have as many rows as each other
def p_value(guarantee: Budget, k: int, h: int, counts: Counts) -> float:
    r"""Return a p-value of "the guarantee is kept", which may be too large but never too small.

    Parameters
    ----------
    guarantee : Budget
    k, h : int
        Tested rows in the event, of either secret.
    counts : Counts

    Notes
    -----
    *Formal guarantees.* Let rows and their secrets be independent draws of one distribution, and
    the tested ones chosen whatever they hold. Given the release, and the secrets of the rows that
    the event was chosen by, each tested row has the one secret by itself, at odds of at most
    e^epsilon times q/(1 - q), q being the share of that secret among the two. For every q let A(q)
    be the chance that k or more of the k + h rows in the event have it, of chance `Budget.tilted`,
    which increases, and B(q) that so few or fewer of ``whole`` have it, which decreases. What is
    returned is at least :math:`2 \min_q \max(A(q), B(q))`. At the true q* each q above has
    :math:`A(q) \ge A(q^*)` and each q below :math:`B(q) \ge B(q^*)`, so that this is at least twice
    the smaller of two p-values. With a delta both distributions are pure ones in all but a part
    delta (P. Kairouz, S. Oh and P. Viswanath, 2015): `Budget.spared` rows, which may be of it, come
    off k. Under an order alpha k of n rows and h of m are in the event with chances p and q, the
    first at most `Budget.most` of the second, and both are compared in the same way.

    Where rows are exchanged, owners are uniform given the list of rows, and whole flows are drawn
    as randomised response given margins: the secrets of the holders are independent coins given how
    many have each secret. The number that falls into an event is then a sum of independent coins (a
    stable polynomial: J. Borcea, P. Braenden and T. Liggett, 2009), whose upper tail beyond its
    mean and 1 is below that of the binomial distribution of the same mean (W. Hoeffding, 1956).
    Base odds are those of the released table, and known.

    Examples
    --------
    >>> counts = Counts(100, 100, (250, 250))
    >>> p_value(Budget(1.0), 95, 5, counts) < 1e-4, p_value(Budget(1.0), 70, 30, counts)
    (True, 1.0)
    """
    if guarantee.alpha is not None:
        return _worst(
            lambda q: at_least(k, counts.n, guarantee.most(q)), lambda q: at_most(h, counts.m, q)
        )
    spared = _SPARED * (guarantee.delta > 0.0)
    events = k - guarantee.spared(counts.n + counts.m)
    if counts.whole is None:
        beyond = events >= (events + h) * counts.base + 1.0
        return (
            min(1.0, spared + float(at_least(events, events + h, counts.base))) if beyond else 1.0
        )
    first, total = counts.whole[0], sum(counts.whole)
    worst = _worst(
        lambda q: at_least(events, events + h, guarantee.tilted(q)),
        lambda q: at_most(first, total, q),
    )
    return min(1.0, worst + spared)


def _worst(rising: Callable[[float], Any], falling: Callable[[float], Any]) -> float:
    """Return twice the least of the larger of two chances, no less than it is."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rising(middle) < falling(middle) else (low, middle)
    return min(1.0, 2.0 * float(max(rising(high), falling(low))))


def rows_needed(guarantee: Budget, level: float, known: bool = False) -> int:
    """Return of how many tested rows of each secret an attack that is always right is significant.

    They are two fifths of all rows, unless base odds are known.

    >>> rows_needed(Budget(1.0), 0.05)
    18
    """

    def least(n: int) -> float:
        whole = None if known else (round(2.5 * n),) * 2
        return p_value(guarantee, n, 0, Counts(n, n, whole, float(guarantee.tilted(0.5))))

    n = 1
    while least(n) > level:
        n *= 2
        if n > 1 << 40:
            return n
    below = n // 2
    while n - below > 1:
        middle = (n + below) // 2
        below, n = (below, middle) if least(middle) <= level else (middle, n)
    return n


@lru_cache(maxsize=_KEPT)
def findable(guarantee: Budget, rows: int, counts: Counts, level: float, share: float) -> float:
    r"""Return the smallest loss that is found with a chance of 80 %, or infinity.

    It is the loss of an event of so many tested rows that have one of the two secrets, of which a
    ``share`` has the first by its base odds.

    >>> 1.0 < findable(Budget(1.0), 500, Counts(500, 500, (1250, 1250)), 0.05, 0.5) < 1.6
    True
    """
    low, high = 0, rows + 1  # the fewest rows of the first secret that are significant
    while high - low > 1:
        middle = (low + high) // 2
        small = p_value(guarantee, middle, rows - middle, counts) <= level
        low, high = (low, middle) if small else (middle, high)
    if high > rows:
        return math.inf
    # the loss at which so many are as probable as asked for
    chance = float(betaincinv(high, rows - high + 1, POWER))
    return max(guarantee.epsilon, float(logit(chance) - logit(share)))


_THRESHOLDS, _BINS, _WITHIN = 60, 10, 3
_MOST_CELLS = 400


@dataclass(frozen=True)
class Question:
    """Which secret is to be told from which other: codes of a sensitive column, and its rows."""

    sensitive: Name
    secret: Any
    against: Any
    i: int
    j: int


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
    auc, auc_low, auc_high, auc_allowed : float
        Area under the ROC curve, its interval (Hoeffding's), and what the guarantee allows.
    log_odds, low, high, allowed : float
        Of the event that was chosen on other rows: how far the odds of the two secrets among its
        rows are from the base odds, in nats, the interval (Clopper and Pearson's), and epsilon.
    certified : float
        The proven loss of the pair in the certificate, in its unit.
    share : float
        Of the test rows of the two secrets that are in the event.
    p : float
        p-value of "the guarantee is kept"; ``p_all`` is corrected for all tests of the view. NaN
        where nothing is guaranteed to the reader, as is what is allowed.
    p_all : float
    findable : float
        The smallest loss that this event would have shown with a chance of 80 %.
    """

    view: str
    attacker: str
    sensitive: Name
    secret: Any
    against: Any
    n: int
    n_against: int
    auc: float
    auc_low: float
    auc_high: float
    auc_allowed: float
    log_odds: float
    low: float
    high: float
    allowed: float
    certified: float
    share: float
    p: float
    findable: float
    p_all: float = math.nan


@dataclass(frozen=True, eq=False)
class Reader:
    """Somebody who reads a release, and what he claims of each row.

    Attributes
    ----------
    name, knows : str
    claims : dict of ndarray of shape (n_rows, n_secrets)
        By how he reads rows: a score of each secret, such as its log chance; NaN for rows that he
        has learnt from, and for secrets that he does not know.
    budget : Budget or None
        What is guaranteed to him; None for nothing.
    cells : ndarray of int or None
        A number of each row, the same for rows that look alike to him; negative for none.
    among : ndarray of bool or None
        The rows that he picks from.
    own : ndarray of int or None
        A secret of which each row has one person less: that of the reader himself.
    """

    name: str
    knows: str
    claims: Mapping[str, FloatArray]
    budget: Budget | None = None
    cells: Array | None = None
    among: Array | None = None
    own: Array | None = None


@dataclass(frozen=True, eq=False)
class Field:
    """What all attacks on one sensitive column share.

    Attributes
    ----------
    codes : ndarray of int
        The secret of the person that each row is released with.
    parts : RowSplit
    questions : sequence of Question
    certified : dict
        The proven loss of each pair.
    level : float
    tests : int
        Over which p-values are corrected.
    strata : ndarray of int or None
        What known columns say of each row, within which the guarantee is made; of rows that are
        exchanged the tested ones are strata of their own.
    exchanged : bool
        Whether base odds are those of the rows themselves, and known, and not estimates.
    epsilon : float
        The budget of a pair; where more was certified for one, as between distant bins of numbers,
        that is allowed.
    """

    codes: Array
    parts: RowSplit
    questions: Sequence[Question]
    certified: Mapping[tuple[Any, Any], float]
    level: float
    tests: int
    strata: Array | None = None
    exchanged: bool = False
    epsilon: float = math.inf

    def budget(self, reader: Reader, question: Question) -> Budget | None:
        """Return what is guaranteed to a reader about one pair; None for nothing."""
        certified = self.certified.get((question.secret, question.against), 0.0)
        if reader.budget is None or certified <= self.epsilon:
            return reader.budget
        return replace(reader.budget, epsilon=reader.budget.epsilon * certified / self.epsilon)

    @property
    def apart(self) -> bool:
        """Whether known columns tell something by themselves."""
        if self.strata is None:
            return False
        return len(np.unique(self.strata)) > 1 + self.exchanged

    @property
    def error(self) -> float:
        """The chance that some base odds in strata are larger than they are taken to be."""
        estimated = self.strata is not None and not self.exchanged
        return 0.1 * self.level / self.tests if estimated else 0.0

    def base(
        self, question: Question, among: Array, own: Array | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the base log odds at each row, and the largest ones that they are taken to be.

        NaN where only one of the two secrets occurs.
        """
        rows = np.zeros(len(self.codes), dtype=np.intp) if self.strata is None else self.strata
        n, m = (
            np.bincount(rows[among & (self.codes == code)], minlength=rows.max() + 1)[rows]
            for code in (question.i, question.j)
        )
        if own is not None:
            n, m = n - (own == question.i), m - (own == question.j)
        alone = (n < 1) | (m < 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            base = np.where(alone, np.nan, np.log(n) - np.log(m))
            if not self.error:
                return base, base
            most = logit(upper(n, n + m, self.error / len(np.unique(rows))))
        return base, np.where(alone, np.nan, most)


def attacks_of(reader: Reader, field: Field) -> list[Attack]:
    """Return what a reader finds out about each pair in each direction, by each of his ways."""
    return [
        attack
        for name, claims in reader.claims.items()
        for question in field.questions
        for attack in [_judged(reader, name, claims, field, question)]
        if attack is not None
    ]


def _judged(
    reader: Reader, name: str, claims: FloatArray, field: Field, question: Question
) -> Attack | None:
    scores = claims[:, question.i] - claims[:, question.j]
    first = field.codes == question.i
    pair = first | (field.codes == question.j)
    among = pair if reader.among is None else pair & reader.among
    base, most = field.base(question, pair if field.exchanged else among, reader.own)
    there = among & ~np.isnan(scores) & np.isfinite(base)
    choose, test = (part[there[part]] for part in (field.parts.choose, field.parts.test))
    n, m = int(first[test].sum()), int((~first[test]).sum())
    if min(n, m, int(first[choose].sum()), int((~first[choose]).sum())) == 0:
        return None
    found = _Found(scores, first, base, choose, field.level)
    event = test[found.best(reader.cells)[test]]
    k, h = int(first[event].sum()), int((~first[event]).sum())
    share = float(expit(base[event]).mean()) if len(event) else float(expit(base[test]).mean())
    shift, low, high = _shift(k, k + h, share, field.level)
    own, other = int((first & among).sum()), int((~first & among).sum())
    whole = (own, other) if field.strata is None and not field.exchanged else None
    return Attack(
        view=reader.name,
        attacker=name,
        sensitive=question.sensitive,
        secret=question.secret,
        against=question.against,
        n=n,
        n_against=m,
        **_area(scores, test, first, field.level),
        log_odds=shift,
        low=low,
        high=high,
        certified=field.certified.get((question.secret, question.against), math.nan),
        share=len(event) / len(test),
        **_held(field.budget(reader, question), field, (k, h), (n, m), most[event], whole, share),
    )


def _held(
    budget: Budget | None,
    field: Field,
    event: tuple[int, int],
    tested: tuple[int, int],
    base: FloatArray,
    whole: tuple[int, int] | None,
    share: float,
) -> dict[str, float]:
    """Return what is allowed, the p-value and the power; NaN where nothing is guaranteed."""
    if budget is None:
        names = ("auc_allowed", "allowed", "p", "findable")
        return dict.fromkeys(names, math.nan)
    largest = float(expit(base + budget.epsilon).mean()) if len(base) else 1.0
    counts = Counts(*tested, whole, largest if whole is None else 0.0)
    corrected_level = field.level / field.tests - field.error
    return {
        # known columns tell by themselves, and what they tell is no finding
        "auc_allowed": math.nan if field.apart else budget.auc(),
        "allowed": budget.epsilon,
        "p": min(1.0, p_value(budget, *event, counts) + field.error),
        "findable": findable(budget, sum(event), counts, corrected_level, share),
    }


def _shift(k: int, rows: int, share: float, level: float) -> tuple[float, float, float]:
    """Return how far odds are from the base odds, and the ends of the interval."""
    if not rows:
        return 0.0, -math.inf, math.inf
    ends = (k / rows, float(lower(k, rows, level / 2.0)), float(upper(k, rows, level / 2.0)))
    shift, low, high = (float(logit(end)) - float(logit(share)) for end in ends)
    return shift, low, high


def _area(scores: FloatArray, test: Array, first: Array, level: float) -> dict[str, float]:
    x, y = scores[test[first[test]]], scores[test[~first[test]]]
    auc = float(twice_below(x, y).mean() / (2.0 * len(y)))
    off = math.sqrt(math.log(2.0 / level) / (2.0 * min(len(x), len(y))))
    return {"auc": auc, "auc_low": max(0.0, auc - off), "auc_high": min(1.0, auc + off)}


def _log_odds(n: int, m: int) -> float:
    return math.log(n / m) if n and m else math.nan


@dataclass(frozen=True, eq=False)
class _Found:
    """What a reader sees on the rows that events are chosen by."""

    scores: FloatArray
    first: Array
    base: FloatArray
    choose: Array
    level: float

    def best(self, cells: Array | None) -> Array:
        """Return the rows of the event whose odds are proven to be furthest from the base odds."""
        best, value = np.ones(len(self.scores), dtype=bool), -math.inf
        for blocks, nested in self._partitions(cells):
            worth = self._worth(blocks, nested)
            at = int(np.argmax(worth))
            if worth[at] > value:
                value, best = float(worth[at]), (blocks >= at) if nested else (blocks == at)
        return best

    def _partitions(self, cells: Array | None) -> Iterator[tuple[Array, bool]]:
        """Yield numbers of all rows, and whether an event is all from a number on."""
        yield np.searchsorted(self._edges(_THRESHOLDS), self.scores, side="right"), True
        yield np.searchsorted(self._edges(_BINS), self.scores, side="right"), False
        yield self._steps(), False
        if cells is not None and cells.max() < _MOST_CELLS:
            yield cells, False
            yield self._within(cells), False

    def _edges(self, n: int) -> FloatArray:
        scores = np.unique(self.scores[self.choose])
        return np.asarray(scores[np.linspace(0, len(scores) - 1, min(n, len(scores))).astype(int)])

    def _steps(self) -> Array:
        """Return the step of an isotonic fit of the secret by the score."""
        scores = _finite(self.scores)
        fit = IsotonicRegression(out_of_bounds="clip")
        fit.fit(scores[self.choose], self.first[self.choose])
        heights = np.full(len(scores), -1.0)
        there = ~np.isnan(scores)
        heights[there] = fit.predict(scores[there])
        steps = np.unique(heights[self.choose].round(9))
        return np.searchsorted(steps, heights.round(9))

    def _within(self, cells: Array) -> Array:
        """Return cells cut at the scores of their rows."""
        blocks = np.full(len(cells), -1)
        for cell in np.unique(cells[self.choose]):
            inside = cells == cell
            scores = self.scores[self.choose[inside[self.choose]]]
            ends = np.quantile(scores, np.linspace(0.0, 1.0, _WITHIN + 1)[1:-1], method="lower")
            blocks[inside] = cell * _WITHIN + np.searchsorted(ends, self.scores[inside])
        return np.where(cells < 0, -1, blocks)

    def _worth(self, blocks: Array, nested: bool) -> FloatArray:
        """Return for each block by how much the odds of its rows exceed the base odds at least."""
        rows = self.choose[blocks[self.choose] >= 0]
        at, size = blocks[rows], int(blocks.max(initial=0)) + 1
        weights = (None, self.first[rows], expit(self.base[rows]))
        sums = [np.bincount(at, each, size) for each in weights]
        if nested:
            sums = [each[::-1].cumsum()[::-1] for each in sums]
        total, k, base = sums
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = logit(lower(k, total, self.level)) - logit(base / total)
        return np.where(np.isnan(worth), -np.inf, worth)


def _finite(scores: FloatArray) -> FloatArray:
    """Return scores without infinite ones; what is not known stays NaN."""
    return np.clip(scores, -1e9, 1e9)


def corrected(attacks: Sequence[Attack]) -> list[Attack]:
    """Return the attacks with p-values over all of them (Holm's), so none is smaller by chance."""
    order = sorted(range(len(attacks)), key=lambda k: attacks[k].p)
    results, largest = list(attacks), 0.0
    for rank, k in enumerate(order):
        largest = max(largest, min(1.0, (len(attacks) - rank) * attacks[k].p))
        results[k] = replace(attacks[k], p_all=largest)
    return results
