r"""`PufferfishSum`: a private answer to a sum, mean or count, its noise and its certificate.

Several answers from the same reports lose as much as one answer at the scale s, where precisions
add up (`repeats`). That one is calibrated and certified, and each of k answers is drawn at k s. The
loss includes the sampler's error for every answer, and the rounding of the sum to the grid once,
under noise of scale s.
"""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from typing import Any, Self
from weakref import WeakKeyDictionary

from sklearn.utils.validation import check_is_fitted

from sklearn_puffer._base import PufferfishWarning, as_float, check_seed, fitting
from sklearn_puffer._certificates import (
    Certificate,
    CertifiedEstimator,
    ColumnNoise,
    Guaranteed,
    Made,
    Method,
    PairLoss,
    Precisions,
    Proof,
    Refused,
    Rule,
    UncertifiedError,
    scale_for_releases,
)
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._documents import Section, digest, jsonable
from sklearn_puffer._noise import MAX_STEPS, Entropy, sampler, seeded_entropy, system_entropy
from sklearn_puffer._sums.gaussian import GaussianReporters
from sklearn_puffer._sums.reports import Reporters, SumSettings
from sklearn_puffer._sums.sums import Answers, SumOfUsers, answers_about, read_sum
from sklearn_puffer._tables import Name, readable, series
from sklearn_puffer._words import short_number, shown
from sklearn_puffer.noise import Laplace

# ---------------------------------------------------------------------------------- the certificate


UNCHANGED = (
    "no noise is needed under these distributions (theta is 0), and the answer is released "
    "unchanged; the guarantee rests on the distributions alone, so make sure of them."
)


@dataclass(frozen=True)
class SumCertificate(Certificate):
    """The certificate of answers to a sum, mean or count: see `Certificate`.

    Attributes
    ----------
    worst : float
        A bound on the loss to an adversary who knows the other users' reports, in the unit of the
        budget.
    """

    worst: float = math.inf

    def promise(self) -> str:
        """Return the guarantee in one sentence."""
        if not self.holds:
            return super().promise()
        secrets = "secrets about one user"
        if self.pairs[0].sensitive != "user":
            by = shown(self.pairs[0].sensitive)
            secrets = f"secrets about one class of {by}"
            if self.dependence == "independent users":
                secrets = f"secrets about one user (by {by})"
        claim = self.notion.promise().replace("secrets", secrets)
        seen = f"{self.releases} answers together" if self.releases > 1 else "an answer"
        return (
            f"Whoever sees {seen}, and knows the distribution of everybody's report, can {claim}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain Python values, for JSON."""
        return {**super().to_dict(), "worst": jsonable(self.worst)}

    def _beyond(self) -> str:
        if not self.holds:
            return ""
        kept = ", and" if self.worst <= self.notion.budget else ", but NOT"
        return f"{kept} for whoever knows other users' reports: {short_number(self.worst)}"

    def _what_changes(self) -> list[str]:
        answer = self.columns[0]
        if answer.theta == 0.0:
            return ["The answer is released unchanged."]
        beside = f", {answer.relative:.3g} standard deviations of it" if answer.relative else ""
        return [f"Laplace noise moves an answer by {answer.theta:.3g} on average{beside}."]

    def _risks(self) -> list[str]:
        known = []
        if self.worst > self.notion.budget:
            known = [
                "who knows other users' reports may reach a loss of "
                f"{short_number(self.worst)}; if yours may, take a smaller epsilon."
            ]
        return [
            *known,
            "the distributions are taken as true; where they are not, an answer may tell more.",
            "a second answer about the same users tells more; fit with releases= for several.",
        ]

    def _glossary(self) -> list[str]:
        return [
            "The distribution of a report is how probable each of its values is. All distributions "
            "together are the prior: what an adversary may know before the answer. Odds are the "
            "odds between two secrets, before and after the answer.",
            *super()._glossary()[1:],
        ]

    def _about_noise(self) -> str:
        return (
            "theta is the scale of the noise in an answer's unit: its mean absolute value; std is "
            "the standard deviation of the true answer under these distributions"
        )

    def _further_sections(self) -> list[Section]:
        return []


def sum_certificate(system: SumOfUsers, answers: Answers) -> SumCertificate:
    """Return the certificate, with both directions of every pair, and no fingerprint yet."""
    settings, reports = answers.settings, system.reports
    column = ColumnNoise(
        settings.query if reports.source is None else f"{settings.query} of {reports.source.value}",
        scale_for_releases(answers.certified, settings.releases),  # no more than what is drawn
        reports.deviation * answers.unit,
        False,
        answers.grid * answers.unit,
    )
    return SumCertificate(
        Guaranteed(
            settings.notion,
            "the given distributions" if reports.source is None else "the counted distributions",
            settings.releases,
        ),
        Proof(answers.loss, _both_ways(system, answers), _rule(answers, column.name)),
        Method(
            settings.strategy,
            "laplace",
            "classes of independent users" if settings.together else "independent users",
            columns=(column,),
        ),
        Made.now(reports.n_reports),
        _assumptions(system, answers),
        worst=answers.worst,
    )


def _both_ways(system: SumOfUsers, answers: Answers) -> tuple[PairLoss, ...]:
    losses, rows = answers.losses, []
    # bounds by the strategy; a published condition guarantees the budget
    ends = {"exact": losses.upper, "worst_case": losses.worst}.get(answers.settings.strategy)
    for k, pair in enumerate(system.pairs):
        for way, names in enumerate([(pair.secret, pair.against), (pair.against, pair.secret)]):
            budget = answers.settings.notion.budget
            rows.append(
                PairLoss(
                    system.reports.sensitive,
                    *names,
                    0,
                    budget if ends is None else answers.of_samples(float(ends[k, way])),
                    float(losses.lower[k, way]),
                    answers.of_samples(float(losses.upper[k, way])),
                    "recomputed" if losses.recomputed[k] else "theorem",
                )
            )
    return tuple(rows)


def _rule(answers: Answers, name: str | int) -> Rule:
    """Return the rule by which answers from the same reports compose."""
    if answers.loss > answers.settings.notion.budget:
        return Refused("The certificate does not hold, so that nothing may be released.")
    scales = {name: answers.certified}
    return Precisions.of_scales(1, scales, answers.settings.draws if answers.theta > 0.0 else None)


# ----------------------------------------------------------------------------------- the sentences


def _assumptions(system: SumOfUsers, answers: Answers) -> list[str]:
    settings, reports = answers.settings, system.reports
    sentences = [
        _about_distributions(reports, system.whole),
        _about_presence(reports),
        _about_others(answers),
        _about_unit(system, answers),
        _about_rounding(system, answers),
        _about_releases(settings.releases),
        _about_refusals(reports, system.whole),
    ]
    if settings.notion.delta > 0.0:
        sentences.append(
            f"delta = {settings.notion.delta:g}: the probability of a set of answers exceeds "
            "e^epsilon times its probability under the other secret by at most delta. It should be "
            "far below one over the number of users."
        )
    if settings.query == "mean":
        sentences.append(
            f"The sum is divided by the number of reports n = {reports.n_reports}, which is public "
            "and does not change when a user is absent."
        )
    if not ((system.together and system.whole) or answers.losses.recomputed.all()):
        sentences.append(
            "The upper ends marked theorem are losses without some or all of the other users. "
            "Other users never raise a loss: the losses for the given users are no larger."
        )
    if answers.theta == 0.0:
        sentences.append(f"N{UNCHANGED[1:]}")
    if settings.seed is not None:
        sentences.append(
            f"random_state={settings.seed} makes the noise reproducible. Whoever knows the seed "
            "can remove it: NOTHING is guaranteed outside tests."
        )
    return sentences


def _about_distributions(reports: Reporters, whole: bool) -> str:
    if reports.source is not None:
        return (
            "The adversary's prior of each report is the distribution of its class, counted from "
            f"these {reports.n_reports} rows. An adversary who knows another distribution may "
            "learn more. theta, this table and the distributions are functions of the same rows as "
            "the answer. Nothing is guaranteed about what these numbers themselves reveal."
        )
    no_proof = ". The reports must be Gaussian: the central limit theorem is no proof of it"
    return (
        "The adversary's prior of each user's report is the distribution given for that user"
        f"{'' if whole else no_proof}."
    )


def _about_presence(reports: Reporters) -> str:
    public = "Public are the users, their distributions and their presences."
    if reports.source is not None:
        public = "The number of rows of each class is public."
    present = "Everybody but the user in question is present."
    if not reports.always_present.all():
        present = (
            "Users whose presence is below 1, and anybody where absence is a secret, may be "
            "absent. The loss is the largest over all sets of absent users, which the adversary "
            "may know: the probability of such a set is a factor of the chance of an answer under "
            "either secret, and cancels."
        )
    return (
        f"{public} The reports are independent of each other, and those of others are unknown to "
        f"the adversary. {present}"
    )


def _about_refusals(reports: Reporters, whole: bool) -> str:
    """Return the sentence on refusals that depend on protected values."""
    wrong = "a report that is not finite"
    if whole:
        wrong = "a report that the distribution of its user (or class) does not have"
    absent = "; a missing report is never refused"
    if reports.always_present.any():
        wrong += ", and a missing report of a user whose presence is 1"
        absent = "; presence= below 1 allows absence"
    further = ""
    if reports.source is not None:
        wrong += ", and classes of another number of rows than in fit" * bool(reports.source.by)
        further = " Whether fit succeeds depends on its rows, too."
    return (
        "Whether there is an answer, its noise and this certificate depend on nothing protected, "
        f"except for reports that contradict what was declared: {wrong}. Such a refusal is not "
        f"covered: whoever sees it learns of that report{absent}.{further}"
    )


def _about_others(answers: Answers) -> str:
    notion = answers.settings.notion
    loss = "the loss is at most" if notion.delta == 0.0 else "delta is at most"
    unit = " nats" if notion.delta == 0.0 else ""
    kept = "the guarantee covers them too"
    if answers.worst > notion.budget:
        kept = 'the guarantee does NOT cover them (strategy="worst_case" does)'
    return (
        "To adversaries who know other users' reports, or collude with other users, "
        f"{loss} {answers.worst:.6g}{unit}, whatever the other users report: {kept}."
    )


def _about_unit(system: SumOfUsers, answers: Answers) -> str:
    if not answers.settings.together:
        return (
            "A user is one report, drawn once from its distribution. This is no guarantee about "
            "all users of a class at once: n of them may lose n times as much."
        )
    stated = "the loss of all of them"
    if system.whole:
        stated = "their number times the loss of one of them in the worst case"
    return f"All users of a class leave or change together; the loss stated is {stated}."


def _about_rounding(system: SumOfUsers, answers: Answers) -> str:
    if system.whole:
        step = system.reports.step
        return f"Reports are rounded half up to multiples of {step:g} before they are summed."
    if answers.theta == 0.0:
        return "The sum is released as the float nearest to it."
    return (
        "The exact sum of the reports is rounded half up to the grid of the noise; the loss "
        "includes that rounding."
    )


def _about_releases(releases: int) -> str:
    same = (
        "That is proven for the same query and the same reports, with the same users absent. "
        "Another query of them, such as a mean beside a sum, or another step, has no budget of its "
        "own, and is not covered."
    )
    answers = "one answer" if releases == 1 else f"{releases} answers, all of them together"
    return (
        f"The guarantee is for {answers}, from the same reports. Answers add up: their precisions "
        f"1/theta are summed, and the guarantee allows {releases} times 1/theta of this "
        f"certificate. k answers need k times the noise; releases=k plans for them. {same}"
    )


# ------------------------------------------------------------------------------------ the estimator


# how many answers each seeded query has released; outside the estimator, so that it is never saved
_calls: WeakKeyDictionary[PufferfishSum, Iterator[int]] = WeakKeyDictionary()


@dataclass(frozen=True)
class PrivateAnswer:
    """A private answer, with its guarantee and its utility.

    Attributes
    ----------
    value : float
        The noisy sum, mean or count.
    theta : float
        Scale of the noise in ``value``, in its unit.
    certificate : Certificate
        The guarantee and its figures.
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


@dataclass(eq=False, repr=False)
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
        For Gaussian users: by how much the probability of a set of answers may exceed e^epsilon
        times its probability under the other secret.
    secrets : str, default="distribution-absence"
        What is protected about a user: "value" (which value was reported), "value-absence" (a value
        against absence), "distribution-absence" (presence) or "distribution" (which of two
        distributions the report follows). Where absence is a secret, anybody may be absent: a
        presence of 1 is refused, and no other users are counted on.
    query : {"sum", "mean", "count"}, default="sum"
        The mean is the sum divided by the number of reports, which is public; a count is a sum of
        reports that are 0 or 1.
    strategy : str, default="exact"
        "exact" is the smallest scale for the given users; "worst_case" is the smallest one whatever
        the other users do, recommended where users may know each other's reports; "published" is
        the smallest of the published conditions that apply. Or one of these conditions:
        "theorem_1_of_001", "theorem_2_of_001", "theorem_3_eq13", "theorem_3_eq14", "theorem_4",
        "lemma_1", "lemma_2" and "lemma_2_both_ends" (001), "relaxed" (000, Prop. 3.2),
        "corollary_1a", which needs a delta, and "corollary_1b" (003, of Gaussian users).
    value : str or int, default=None
        For tables: the numeric column that is summed; an int is a position, a str a name.
    by : str, int or list of these, default=None
        For tables: the columns whose values are the classes of users; None for one class.
    unit : {"row", "class"}, default="row"
        Whether one row is a user, who reports one draw from the distribution of its class, or all
        rows of a class leave or change together. A guarantee about one draw is no guarantee about
        all rows of a class: n rows may lose n times as much.
    alternatives : mapping, default=None
        For tables with ``secrets="distribution"``: {class: another class, or a prior object}.
    presence : float, default=None
        For tables: the probability that a user is present. Below 1, how far does not matter:
        reports may be missing, and the noise counts on nobody to hide others. None is 1 where
        absence is no secret, and below 1 where it is one.
    step : float, default=None
        Reports are rounded half up to its multiples. None for a step that the values have in
        common, such as 1 or 0.01. Gaussian users have no step: their sum is rounded to the grid of
        the noise.
    releases : int, default=1
        How many answers from the same reports there may be. All of them together keep the
        guarantee, and each has that many times the noise. `Ledger` keeps count.
    random_state : int or None, default=None
        None draws from the operating system's generator. An integer is for tests: it warns.
    verbose : int, default=0
        1 prints to stderr what `fit` is doing if it takes more than two seconds.

    Attributes
    ----------
    theta_ : float
        Noise scale of the sum in each answer, in the unit of the reports; 0 where no noise is
        needed.
    scales_ : pandas.Series
        The scale of each condition: "exact", "worst_case" and the published ones.
    certificate_ : Certificate
        The guarantee and its figures; its ``rule`` and ``fingerprint`` are for a `Ledger`.
    users_ : tuple of User
        The users, class by class.
    classes_ : tuple
        Names of the classes.
    step_ : float
        The step that reports are rounded to; for Gaussian users, the grid of the sum.
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
    *Formal guarantees.* Let independent reports follow the distributions of ``users_``. Then
    ``releases`` calls of `release` on them are, all together, (epsilon, delta)-Pufferfish private
    for all pairs of the certificate (001, Eq. 1), with the error of the sampler. That holds for
    every set of users who may be absent, known to the adversary or not; all others are present,
    and their reports unknown to the adversary. The proof is recomputed without the strategy. Under
    ``strategy="worst_case"`` and the sound published conditions of 001 the guarantee holds whatever
    the other users report or know, because

    .. math:: \frac{\int h_p(y - r) R(dr)}{\int h_q(y - r) R(dr)} \le \sup_z \frac{h_p(z)}{h_q(z)}

    for every distribution R of the sum of the others. If n rows leave together (``unit="class"``),
    the loss is at most n times the loss of one row, and equal to it where their values have one
    sign. Several answers are a post-processing of one with the sum of their precisions (`repeats`).

    Gaussian users (003, Cor. 1) report any numbers. Their presence, or declared values, may be the
    secrets. The sum is Gaussian with and without a user, so that its loss is known without rounding
    the reports. The reports must be Gaussian; the central limit theorem is no proof of it.

    Distributions learnt from a table are trusted as they are: an adversary who knows other
    distributions may learn more.

    Whether there is an answer, its noise and its certificate depend on no report and on nobody's
    absence, as long as the distributions and presences allow the reports. Other reports are
    refused, and a refusal tells of them.

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

    A ledger keeps count of two answers from the same rows:

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
    sklearn_puffer.OverspentError: 1 more release(s) of 'data' would overspend ...
    >>> folder.cleanup()
    """

    epsilon: float = 1.0
    _: KW_ONLY
    delta: float = 0.0
    secrets: str = "distribution-absence"
    query: str = "sum"
    strategy: str = "exact"
    value: Any = None
    by: Any = None
    unit: str = "row"
    alternatives: Any = None
    presence: Any = None
    step: float | None = None
    releases: int = 1
    random_state: int | None = None
    verbose: int = 0

    _later = frozenset({"random_state", "verbose"})

    def fit(self, X: Any, y: Any = None) -> Self:
        """Calibrate the noise.

        Parameters
        ----------
        X : sequence of User, or DataFrame of shape (n_rows, n_columns)
            The users, or the table that their distributions are learnt from.
        y : ignored
            There is no target.

        Returns
        -------
        self
            The fitted query, also where its certificate does not hold.
        """
        with fitting(self):
            self._fit(X)
        return self

    def release(self, values: Any) -> PrivateAnswer:
        """Return the noisy answer.

        Parameters
        ----------
        values : array-like of shape (n_reports,), or DataFrame
            The reports, one for each user in the order of `fit`; or the table again (without
            ``by`` its column is enough).
            NaN for an absent user, where the presence is below 1, or absence a secret.

        Returns
        -------
        PrivateAnswer
            The noisy answer, its scale, and the certificate.
        """
        self._check_as_certified()
        if not self.certificate_.holds:
            raise UncertifiedError(say.uncertified_sentence(self.certificate_))
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
        system = read_sum(readable(X), settings)
        reports = system.reports
        answers = answers_about(system, settings)
        certificate = sum_certificate(system, answers)
        self._reporters, self._unit = reports, answers.unit
        self._scale, self._grid = answers.theta, answers.grid
        self._joint_scale = answers.joint_scale
        self.theta_ = answers.theta * reports.step
        self._scales: dict[Name, float] = {  # for each of several answers
            name: reports.step
            * (scale_for_releases(scale, settings.releases) if scale < math.inf else scale)
            for name, scale in answers.scales.items()
        }
        self.users_, self.classes_ = reports.users, reports.labels
        self.n_reports_ = reports.n_reports
        self.step_ = answers.grid if isinstance(reports, GaussianReporters) else reports.step
        self.certificate_ = replace(certificate, fingerprint=self._fingerprint(certificate))
        self._note_parameters()
        _calls[self] = itertools.count()
        if answers.theta == 0.0:
            warnings.warn(UNCHANGED, PufferfishWarning, stacklevel=3)

    @property
    def scales_(self) -> Any:
        """The scales of the conditions, the exact one among them: a Series by name."""
        check_is_fitted(self)
        return series(self._scales, "theta")

    def _fingerprint(self, certificate: Any) -> str:
        reports = self._reporters
        return digest(
            "sklearn_puffer.sum/2",
            (certificate.notion, certificate.releases, certificate.rule),
            (certificate.loss, certificate.worst, certificate.columns, certificate.dependence),
            (type(reports).__name__, reports.secrets, reports.step, reports.source),
            [user.presence for user in reports.users],
            (self._unit, self._scale, self._grid, self._joint_scale),
            *reports.fingerprint_parts(),
        )

    def _noisy(self, total: int | Fraction) -> float:
        """Return the sum in steps, plus noise, saturated at the ends of floats or 64 bits.

        The sum is exact until the noise is added: a refusal of large sums would tell of them.
        """
        if self._scale == 0.0:
            return min(max(as_float(total), -sys.float_info.max), sys.float_info.max)
        steps = math.floor(Fraction(total) / Fraction(self._grid) + Fraction(1, 2))
        steps += int(sampler(Laplace(self._scale), self._grid, self._entropy()).draw(1)[0])
        return float(min(max(steps, -MAX_STEPS), MAX_STEPS)) * self._grid

    def _entropy(self) -> Entropy:
        seed = check_seed(self.random_state)
        if seed is None:
            return system_entropy()
        warnings.warn(say.seed_sentence(seed), PufferfishWarning, stacklevel=4)
        return seeded_entropy(seed, 0, next(_calls.setdefault(self, itertools.count())))
