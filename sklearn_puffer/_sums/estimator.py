"""`PufferfishSum`: a private answer to a sum, mean or count over users who report at random."""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self
from weakref import WeakKeyDictionary

from sklearn.utils.validation import check_is_fitted

from sklearn_puffer._base import (
    PufferfishWarning,
    check_choice,
    check_seed,
    check_verbose,
    digest,
    listening,
)
from sklearn_puffer._noise import MAX_STEPS, Entropy, sampler, seeded_entropy, system_entropy
from sklearn_puffer._releases import Certificate, CertifiedEstimator, UncertifiedError
from sklearn_puffer._releases import sentences as say
from sklearn_puffer._sums.answers import Answers, answers_about
from sklearn_puffer._sums.certificate import UNCHANGED, sum_certificate
from sklearn_puffer._sums.discrete_sum import DiscreteSum
from sklearn_puffer._sums.gaussian_sum import GaussianSum
from sklearn_puffer._sums.reports import GaussianReporters, Reporters
from sklearn_puffer._sums.secrets import asked_of
from sklearn_puffer._sums.settings import SumSettings, read_reports
from sklearn_puffer._tables import known, series
from sklearn_puffer.noise import Laplace

# how often each seeded query has been released: beside the estimator, so that it is never saved
_calls: WeakKeyDictionary[PufferfishSum, Iterator[int]] = WeakKeyDictionary()


@dataclass(frozen=True)
class PrivateAnswer:
    """A private answer, with its promise and its utility.

    Attributes
    ----------
    value : float
        The noisy sum, mean or count.
    theta : float
        Scale of the noise in ``value``, in its unit.
    certificate : Certificate
        What is promised and what was checked.
    error : float
        Expected distance of ``value`` from the true answer, E|N| = theta.

    Examples
    --------
    >>> from sklearn_puffer.priors import Discrete
    >>> from sklearn_puffer.users import User
    >>> query = PufferfishSum(epsilon=1.0).fit([User(Discrete([0, 1], [0.5, 0.5]), count=3)])
    >>> answer = query.release([1, 0, 1])
    >>> answer.error == answer.theta, round(answer.half_width / answer.theta, 6)
    (True, 2.995732)
    """

    value: float
    theta: float
    certificate: Certificate = field(repr=False)
    error: float

    @property
    def half_width(self) -> float:
        """The true answer lies within this distance of ``value`` with probability 0.95."""
        return self.theta * math.log(20.0)


class PufferfishSum(CertifiedEstimator):
    r"""Answer a sum, mean or count over users privately.

    Each user reports a random value, independently of the others, and Y = X + N is released, where
    X is the sum of the reports and N is Laplace noise. `fit` finds the smallest noise scale theta
    for which, whatever y is released,

    .. math:: \left|\log \frac{P(Y = y \mid s)}{P(Y = y \mid s')}\right| \le \varepsilon

    for every two protected secrets s and s' about one user; `release` adds that noise.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget in nats: odds between two secrets move by at most a factor e^epsilon.
    delta : float, default=0.0
        For Gaussian users: what the probability of any set of answers may exceed that factor by.
    secrets : str, default="distribution-absence"
        What is protected about a user: "value" (which value was reported), "value-absence" (a value
        against absence), "distribution-absence" (presence) or "distribution" (which of two laws
        the report follows). Where absence is a secret, anybody may be absent: a presence of 1 is
        refused, and the noise is what each user needs alone.
    query : {"sum", "mean", "count"}, default="sum"
        The mean is the sum divided by the number of reports, which is public; a count is a sum of
        reports that are 0 or 1.
    strategy : str, default="exact"
        "exact" is the smallest scale for the given users; "worst_case" is the smallest one whatever
        the other users do, recommended where users may know each other's reports; "published" is
        the smallest of the published conditions that apply, and a name is one of them:
        "theorem_1_of_001", "theorem_2_of_001", "theorem_3_eq13", "theorem_3_eq14", "theorem_4",
        "lemma_1", "lemma_2" and "lemma_2_both_ends" (001), "relaxed" (000, Prop. 3.2),
        "corollary_1a", which needs a delta, and "corollary_1b" (003, of Gaussian users).
    value : str or int, default=None
        For tables: the numeric column that is summed; an int is a position, a str a name.
    by : str, int or list of these, default=None
        For tables: the columns whose values are the classes of users; None for one class.
    unit : {"row", "class"}, default="row"
        Whether one row is a user, who reports one draw from the law of its class, or all the rows
        of a class leave or change together. A promise about one draw is no promise about all the
        rows of a class: those lose up to as many times as much as there are rows.
    alternatives : "all" or mapping, default=None
        For tables with ``secrets="distribution"``: {class: another class, or a prior object}, or
        every class against every other.
    values : list of pairs, default=None
        For tables with ``secrets="value"``: the values to protect against each other; None for the
        smallest and the largest of each class, which need the most noise.
    presence : float or mapping, default=None
        For tables: the probability that a user is present, or {class: probability}. Below 1 it
        allows missing reports; the noise then counts on none of these users' reports to hide those
        of others, whoever is absent in the end. How far below does not matter. None is 1 where
        absence is no secret, and below 1 where it is one.
    step : float, default=None
        Reports are rounded half up to its multiples. None for a step that the values have in
        common, such as 1 or 0.01. Gaussian users have none: their sum is rounded to the grid of the
        noise.
    releases : int, default=1
        How often the same reports may be answered about: the promise is then kept by all these
        answers together, and each has that many times the noise. `Ledger` keeps count.
    on_uncertified : {"raise", "warn"}, default="raise"
        What `release` does where the certificate does not hold.
    random_state : int or None, default=None
        None draws from the operating system's generator. An integer is for tests: it warns.
    verbose : int, default=0
        1 prints to stderr what `fit` is doing, where that takes more than two seconds.

    Attributes
    ----------
    theta_ : float
        Noise scale of the sum in each answer, in the unit of the reports; 0 where no noise is
        needed.
    scales_ : pandas.Series
        The same for each condition: "exact", "worst_case" and the published ones.
    certificate_ : Certificate
        What is promised and what was checked; its ``rule`` and ``fingerprint`` are for a
        `Ledger`.
    users_ : tuple of User
        The users, class by class.
    classes_ : tuple
        What the classes are called.
    step_ : float
        The step that reports are rounded to; of Gaussian users, the sum.
    n_reports_ : int
        How many reports are summed.

    Raises
    ------
    TypeError, ValueError
        In `fit` and `release`, naming the argument, its value and the way out.
    UncertifiedError
        In `release`, where the certificate does not hold.

    Notes
    -----
    *Formal guarantees.* All of ``releases`` calls of `release` together, on the same independent
    reports, which follow the laws of ``users_``, are (epsilon, delta)-Pufferfish private for all
    pairs of the certificate (001, Eq. 1), for every set of absent users who may be absent, known to
    the adversary or not, given that all others are present and their reports unknown to the
    adversary, the error of the sampler included. The proof is recomputed without the strategy.
    Under ``strategy="worst_case"`` and the sound published conditions of 001 it holds whatever the
    other users report or know, because

    .. math:: \frac{\int h_p(y - r) R(dr)}{\int h_q(y - r) R(dr)} \le \sup_z \frac{h_p(z)}{h_q(z)}

    for every law R of the others' sum. Of n rows that leave together (``unit="class"``) the loss is
    at most n times that of one; where their values have one sign this is the loss itself. Several
    answers are a post-processing of one with the sum of their precisions (`repeats`).

    Gaussian users (003, Cor. 1) report any numbers. Their presence, or declared values, may be the
    secrets; with and without a user the sum is Gaussian, so that its loss is known as it stands.
    That trusts the laws; the central limit theorem is no proof of them.

    Laws learnt from a table are trusted as they are: an adversary who knows other laws may learn
    more.

    Whether there is an answer, its noise and its certificate depend on no report and on nobody's
    absence, as long as the reports are such as the laws and presences allow. Others are refused,
    which tells of them.

    References
    ----------
    001: Multi-user Pufferfish privacy (Thm 1 to 4, Lemmas 1 to 3). 003, Corollary 1.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishSum
    >>> table = pd.DataFrame({"race": ["a", "a", "b", "b"] * 9, "years": [9, 10, 9, 16] * 9})
    >>> query = PufferfishSum(epsilon=0.5, value="years", by="race").fit(table)
    >>> query.certificate_.holds, bool(query.theta_ < query.scales_["theorem_3_eq14"])
    (True, True)
    >>> answer = query.release(table)
    >>> answer.theta == query.theta_
    True

    Two answers from the same rows, of which a ledger keeps count:

    >>> import tempfile
    >>> from sklearn_puffer import Ledger
    >>> query = PufferfishSum(epsilon=0.5, value="years", by="race", releases=2).fit(table)
    >>> query.certificate_.releases, round(query.theta_ / answer.theta, 6)
    (2, 2.0)
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.create(f"{folder.name}/years.ledger", query)
    >>> answers = [ledger.release(query, table, note=who) for who in ("press", "board")]
    >>> ledger.left().releases
    0
    >>> ledger.release(query, table)
    Traceback (most recent call last):
    ...
    sklearn_puffer.OverspentError: 1 more release(s) of 'data' at ... would overspend ...
    >>> folder.cleanup()
    """

    _later = frozenset({"on_uncertified", "random_state", "verbose"})

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 0.0,
        secrets: str = "distribution-absence",
        query: str = "sum",
        strategy: str = "exact",
        value: Any = None,
        by: Any = None,
        unit: str = "row",
        alternatives: Any = None,
        values: Any = None,
        presence: Any = None,
        step: float | None = None,
        releases: int = 1,
        on_uncertified: str = "raise",
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.secrets = secrets
        self.query = query
        self.strategy = strategy
        self.value = value
        self.by = by
        self.unit = unit
        self.alternatives = alternatives
        self.values = values
        self.presence = presence
        self.step = step
        self.releases = releases
        self.on_uncertified = on_uncertified
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Calibrate the noise.

        Parameters
        ----------
        X : sequence of User, or DataFrame of shape (n_rows, n_columns)
            The users, or the table that their laws are learnt from.
        y : ignored
            There is no target.

        Returns
        -------
        self
            The fitted query, also where its certificate does not hold.
        """
        before = dict(self.__dict__)
        try:
            with listening(check_verbose(self.verbose), "fit"):
                self._fit(X)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def release(self, values: Any) -> PrivateAnswer:
        """Return the noisy answer.

        Parameters
        ----------
        values : array-like of shape (n_reports,), or DataFrame
            The reports, one for each user in the order of `fit`; or the table again, or its column.
            NaN for a user who is absent, where the presence is below 1, or absence a secret.

        Returns
        -------
        PrivateAnswer
            The noisy answer, its scale, and the certificate.
        """
        self._check_as_certified()
        self._check_certified()
        total = self._reporters.total(values)
        theta = self.certificate_.columns[0].theta
        return PrivateAnswer(self._noisy(total) * self._unit, theta, self.certificate_, theta)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.no_validation = True
        return tags

    def _fit(self, X: Any) -> None:
        settings = SumSettings.of(self.get_params(deep=False))
        reports = read_reports(known(X), settings)
        asked = asked_of(reports, settings)
        kind = GaussianSum if isinstance(reports, GaussianReporters) else DiscreteSum
        users_sum = kind.of(reports, asked, settings)
        answers = answers_about(users_sum, settings, reports.reach, reports.unit(settings.query))
        certificate = sum_certificate(users_sum, reports, answers)
        self._remember(reports, answers)
        self.certificate_ = replace(certificate, fingerprint=self._fingerprint(certificate))
        self._note_parameters()
        _calls[self] = itertools.count()
        if answers.theta == 0.0:
            warnings.warn(UNCHANGED, PufferfishWarning, stacklevel=3)

    def _remember(self, reports: Reporters, answers: Answers) -> None:
        self._reporters, self._unit = reports, answers.unit
        self._scale, self._grid, self._together = answers.theta, answers.grid, answers.together
        self.theta_ = answers.theta * reports.step
        self._asked = {k: x * reports.step for k, x in answers.asked.items()}
        self.users_, self.classes_ = reports.users, reports.labels
        self.n_reports_ = reports.n_reports
        self.step_ = answers.grid if isinstance(reports, GaussianReporters) else reports.step

    @property
    def scales_(self) -> Any:
        """The scales of the conditions, the exact one among them: a Series by name."""
        check_is_fitted(self)
        return series(self._asked, "theta")

    def _fingerprint(self, certificate: Any) -> str:
        who = self._reporters
        return digest(
            "sklearn_puffer.sum/2",
            (certificate.notion, certificate.releases, certificate.rule),
            (certificate.loss, certificate.worst, certificate.columns, certificate.dependence),
            (type(who).__name__, who.secrets, who.step, who.source),
            [user.presence for user in who.users],
            (self._unit, self._scale, self._grid, self._together),
            *who.parts(),
        )

    def _check_certified(self) -> None:
        if not self.certificate_.holds:
            self._uncertified(
                f"the certificate does not hold: the proven loss {self.certificate_.loss:.6g} "
                f'exceeds the budget {self._budget}; use strategy="exact".'
            )

    @property
    def _budget(self) -> str:
        return self.certificate_.notion.budget_name()

    def _uncertified(self, message: str) -> None:
        way = check_choice(self.on_uncertified, "on_uncertified", ["raise", "warn"])
        message += ' Or pass on_uncertified="warn" to release all the same, without a guarantee.'
        if way == "raise":
            raise UncertifiedError(message)
        warnings.warn(message, PufferfishWarning, stacklevel=4)

    def _noisy(self, total: int | Fraction) -> float:
        """Return the sum in steps, plus noise; what no float or no 64 bits hold is saturated.

        A refusal of large sums would tell of them: so the sum is exact until the noise is added.
        """
        if self._scale == 0.0:
            return _nearest_float(total)
        steps = math.floor(Fraction(total) / Fraction(self._grid) + Fraction(1, 2))
        steps += int(sampler(Laplace(self._scale), self._grid, self._entropy()).draw(1)[0])
        return float(min(max(steps, -MAX_STEPS), MAX_STEPS)) * self._grid

    def _entropy(self) -> Entropy:
        seed = check_seed(self.random_state)
        if seed is None:
            return system_entropy()
        warnings.warn(say.seed_sentence(seed), PufferfishWarning, stacklevel=4)
        return seeded_entropy(seed, 0, next(_calls.setdefault(self, itertools.count())))


def _nearest_float(total: int | Fraction) -> float:
    """Return the nearest float there is."""
    try:
        return float(total)
    except OverflowError:
        return sys.float_info.max if total > 0 else -sys.float_info.max
