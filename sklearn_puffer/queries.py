"""`PufferfishSum`: a private answer to a sum, mean or count over users who report at random."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_puffer import sentences as say
from sklearn_puffer._reports import Reporters, TableChoice, read_reporters
from sklearn_puffer._user_losses import CONDITIONS, Losses, System, system_of
from sklearn_puffer._validation import check_choice, check_positive
from sklearn_puffer.certificate import Certificate, ColumnNoise, PairLoss, UncertifiedError
from sklearn_puffer.frame import series
from sklearn_puffer.noise import Laplace
from sklearn_puffer.planning import sampler_loss
from sklearn_puffer.priors import Discrete, Prior
from sklearn_puffer.sampling import (
    Entropy,
    coarse_enough,
    grid_step,
    release,
    sampler,
    seeded_entropy,
    system_entropy,
    to_steps,
)
from sklearn_puffer.settings import check_seed
from sklearn_puffer.users import SECRETS

_LEAST_EPSILON = 1e-8  # less is lost in the rounding of the noise
_STRATEGIES = ("exact", "worst_case", "published", *CONDITIONS)
_SLACK = 1e-13  # of the budget, for the roundings between a calibration and its certificate
_HARDLY, _NUDGES = 1.0 + 1e-4, (1e-12, 1e-10, 1e-8, 1e-6, 1e-5)  # where that is not enough

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


class PufferfishSum(BaseEstimator):
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
    secrets : str, default="distribution-absence"
        What is protected about a user: "value" (which value was reported), "value-absence" (a value
        against absence), "distribution-absence" (presence) or "distribution" (which of two laws
        the report follows).
    query : {"sum", "mean", "count"}, default="sum"
        The mean is the sum divided by the number of reports, which is public; a count is a sum of
        reports that are 0 or 1.
    strategy : str, default="exact"
        "exact" is the smallest scale for the given users; "worst_case" is the smallest one whatever
        the other users do, recommended where users may know each other's reports; "published" is
        the smallest of the published conditions that apply, and a name such as "theorem_3_eq13"
        is one of them (see `user_conditions`).
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
        For tables: the probability that a user is present, or {class: probability}. It changes no
        scale, but allows missing reports.
    step : float, default=None
        Reports are rounded half up to its multiples. None for a step that the values have in
        common, such as 1 or 0.01.
    on_uncertified : {"raise", "warn"}, default="raise"
        What `release` does where the certificate does not hold.
    random_state : int or None, default=None
        None draws from the operating system's generator. An integer is for tests: it warns.

    Attributes
    ----------
    theta_ : float
        Noise scale of the sum, in the unit of the reports; 0 where no noise is needed.
    scales_ : pandas.Series
        The scale that each condition asks for: "exact", "worst_case" and the published ones.
    certificate_ : Certificate
        What is promised and what was checked.
    users_ : tuple of User
        The users, class by class.
    classes_ : tuple
        What the classes are called.
    step_ : float
        The step that reports are rounded to.
    n_reports_ : int
        How many reports are summed.

    Notes
    -----
    *Formal guarantees.* One call of `release` on independent reports that follow the laws of
    ``users_`` is epsilon-Pufferfish private for all pairs of the certificate (001, Eq. 1), given
    that all other users are present and unknown to the adversary, the error of the sampler
    included. The proof is recomputed without the strategy. Under ``strategy="worst_case"`` and
    the sound published conditions it holds whatever the other users report or know, because

    .. math:: \frac{\int h_p(y - r) R(dr)}{\int h_q(y - r) R(dr)} \le \sup_z \frac{h_p(z)}{h_q(z)}

    for every law R of the others' sum. Of n rows that leave together (``unit="class"``) the loss is
    at most n times that of one; where their values have one sign this is the loss itself.

    Laws learnt from a table are trusted as they are: an adversary who knows other laws may learn
    more.

    Raises
    ------
    TypeError, ValueError
        In `fit` and `release`, naming the argument, its value and the way out.
    UncertifiedError
        In `release`, where the certificate does not hold, or users are absent whose presence it
        needs.

    References
    ----------
    001: Multi-user Pufferfish privacy (Thm 1 to 4, Lemmas 1 to 3).

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"race": ["a", "a", "b", "b"] * 9, "years": [9, 10, 9, 16] * 9})
    >>> query = PufferfishSum(epsilon=0.5, value="years", by="race").fit(table)
    >>> query.certificate_.holds, bool(query.theta_ < query.scales_["theorem_3_eq14"])
    (True, True)
    >>> answer = query.release(table)
    >>> answer.theta == query.theta_
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
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
        on_uncertified: str = "raise",
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
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
        self.on_uncertified = on_uncertified
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Calibrate the noise.

        Parameters
        ----------
        X : sequence of User, or DataFrame of shape (n_rows, n_columns)
            The users, or the table that their laws are learnt from.
        y : ignored

        Returns
        -------
        self
        """
        before = dict(self.__dict__)
        try:
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
            NaN for a user who is absent, where the presence is below 1.

        Returns
        -------
        PrivateAnswer
        """
        check_is_fitted(self)
        self._check_certified()
        total, absent = self._reporters.total(values)
        if absent:
            self._check_without(absent)
        steps = self._noisy(total)
        theta = self._unit * self._scale
        return PrivateAnswer(steps * self._unit, theta, self.certificate_, theta)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.no_validation = True
        return tags

    def _fit(self, X: Any) -> None:
        settings = _Settings.of(self.get_params(deep=False))
        who = read_reporters(X, settings.columns, settings.secrets, self.step)
        if settings.query == "count":
            _check_binary(who)
        system = system_of(who, settings.secrets, settings.together, self.alternatives, self.values)
        plan = _make_plan(system, settings, who.reach)
        divisor = who.n_reports if settings.query == "mean" else 1
        self._reporters, self._unit = who, who.step / divisor
        self._scale, self._grid, self._worst = plan.theta, plan.grid, plan.worst
        self.theta_ = plan.theta * who.step
        self.scales_ = series({k: x * who.step for k, x in plan.scales.items()}, "theta")
        self.users_, self.classes_, self.step_ = who.users, who.labels, who.step
        self.n_reports_ = who.n_reports
        self.certificate_ = _certificate(system, who, plan, self._unit)
        _calls[self] = itertools.count()
        if plan.theta == 0.0:
            warnings.warn(_UNCHANGED, UserWarning, stacklevel=3)

    def _check_certified(self) -> None:
        if not self.certificate_.holds:
            self._uncertified(
                f"the certificate does not hold: the proven loss {self.certificate_.loss:.6g} "
                f'exceeds epsilon={self.certificate_.epsilon:g}; use strategy="exact".'
            )

    def _check_without(self, absent: int) -> None:
        """Refuse a sum without some users, where the promise needs the presence of all others."""
        if self._worst > self.certificate_.epsilon:
            self._uncertified(
                f"{absent} user(s) are absent, and the promise is given that all others are "
                f"present: without that the loss is up to {self._worst:.6g}, above "
                f'epsilon={self.certificate_.epsilon:g}; use strategy="worst_case".'
            )

    def _uncertified(self, message: str) -> None:
        way = check_choice(self.on_uncertified, "on_uncertified", ["raise", "warn"])
        message += ' Or pass on_uncertified="warn" to release all the same, without a guarantee.'
        if way == "raise":
            raise UncertifiedError(message)
        warnings.warn(message, UserWarning, stacklevel=4)

    def _noisy(self, total: int) -> float:
        """Return the sum in steps, plus noise."""
        entropy = self._entropy()
        if self._scale == 0.0:
            return float(total)
        noise = sampler(Laplace(self._scale), self._grid, entropy)
        answer = np.empty(1)
        release(to_steps(np.array([total], dtype=np.int64), self._grid), noise, answer)
        return float(answer[0])

    def _entropy(self) -> Entropy:
        seed = check_seed(self.random_state)
        if seed is None:
            return system_entropy()
        warnings.warn(say.seed_sentence(seed), UserWarning, stacklevel=4)
        return seeded_entropy(seed, 0, next(_calls.setdefault(self, itertools.count())))


@dataclass(frozen=True)
class _Settings:
    """The estimator's parameters, checked as far as that needs no data."""

    epsilon: float
    secrets: str
    query: str
    strategy: str
    together: bool
    columns: TableChoice
    seed: int | None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> _Settings:
        check_choice(params["on_uncertified"], "on_uncertified", ["raise", "warn"])
        epsilon = check_positive(params["epsilon"], "epsilon")
        if epsilon < _LEAST_EPSILON:
            raise ValueError(
                f"epsilon must be at least {_LEAST_EPSILON:g}, got {epsilon!r}: less is lost in "
                "the rounding of the noise; choose a larger budget."
            )
        return cls(
            epsilon=epsilon,
            secrets=check_choice(params["secrets"], "secrets", SECRETS),
            query=check_choice(params["query"], "query", ["sum", "mean", "count"]),
            strategy=check_choice(params["strategy"], "strategy", _STRATEGIES),
            together=check_choice(params["unit"], "unit", ["row", "class"]) == "class",
            columns=TableChoice(
                **{name: params[name] for name in TableChoice.__dataclass_fields__}
            ),
            seed=check_seed(params["random_state"]),
        )


def _check_binary(who: Reporters) -> None:
    for k, user in enumerate(who.users):
        strange = [x for law in who.laws(user) for x in law.atoms.tolist() if x not in (0.0, 1.0)]
        if strange:
            raise ValueError(
                f"query='count' adds up reports of 0 and 1, and {who.named(k)} may report "
                f"{strange[0]!r}; use query='sum', or report whether something is so."
            )


# ----------------------------------------------------------------------------------- the noise


@dataclass(frozen=True, eq=False)
class _Plan:
    """The noise, in steps, and what is lost with it; ``drawing`` is what drawing it adds."""

    theta: float
    grid: float
    drawing: float
    scales: dict[str, float]
    settings: _Settings
    losses: Losses

    @property
    def loss(self) -> float:
        """Proven upper end of the loss for the given users."""
        return _outwards(float(self.losses.upper.max()) + self.drawing)

    @property
    def worst(self) -> float:
        """A bound on the loss over all other users."""
        return _outwards(float(self.losses.worst.max()) + self.drawing)

    @property
    def is_hardly_above(self) -> bool:
        """Whether a loss exceeds the budget by no more than the width of its interval."""
        epsilon, losses = self.settings.epsilon, [self.loss]
        if self.settings.strategy != "exact":  # the other strategies promise the worst case too
            losses.append(self.worst)
        return any(epsilon < loss < epsilon * _HARDLY for loss in losses)


def _make_plan(system: System, settings: _Settings, reach: float) -> _Plan:
    """Calibrate the noise, choose the grid it is drawn on, and recompute the loss."""
    drawing = sampler_loss(1)
    while True:
        budget = (settings.epsilon - drawing) * (1.0 - _SLACK)
        scales = system.scales(budget, exact=settings.strategy == "exact")
        theta = _chosen(scales, settings)
        if theta == 0.0:
            losses = system.losses(0.0, settings.epsilon)
            return _Plan(0.0, 0.0, 0.0, scales, settings, losses)
        for more in (0.0, *_NUDGES):
            larger = theta * (1.0 + more)
            grid = coarse_enough(grid_step(larger), larger, reach)
            added = sampler_loss(1) + _of_rounding(grid, larger)
            plan = _Plan(larger, grid, added, scales, settings, system.losses(larger, budget))
            if not plan.is_hardly_above:
                break
        if added <= drawing:
            return plan
        drawing = 2.0 * added


def _of_rounding(grid: float, theta: float) -> float:
    """Return what rounding the sum to the grid adds to a loss: half a step under either secret.

    A sum is a whole number, which is on every grid of step 1 or less.
    """
    return grid / theta if grid > 1.0 else 0.0


def _chosen(scales: Mapping[str, float], settings: _Settings) -> float:
    if settings.strategy == "published":
        return min(scale for name, scale in scales.items() if name in CONDITIONS)
    if settings.strategy not in scales:
        raise ValueError(
            f"strategy={settings.strategy!r} does not apply to secrets={settings.secrets!r} of "
            f"these users; those that do are {sorted(scales)}."
        )
    return scales[settings.strategy]


def _outwards(loss: float) -> float:
    return math.nextafter(loss, math.inf) if loss > 0.0 else 0.0


# ----------------------------------------------------------------------------------- the promise


def _certificate(system: System, who: Reporters, plan: _Plan, unit: float) -> Certificate:
    settings = plan.settings
    rows = tuple(row for k in range(len(system.asked)) for row in _both_ways(system, who, plan, k))
    deviation = math.sqrt(sum(user.count * _variance(user.law) for user in who.in_steps()))
    column = ColumnNoise(
        settings.query if who.source is None else who.source.value,
        plan.theta * unit,
        deviation * unit,
        False,
        plan.grid * unit,
    )
    return Certificate(
        epsilon=settings.epsilon,
        loss=plan.loss,
        pairs=rows,
        columns=(column,),
        assumptions=_assumptions(who, plan),
        strategy=settings.strategy,
        noise="laplace",
        dependence="independent users",
        n_rows=who.n_reports,
    )


def _both_ways(system: System, who: Reporters, plan: _Plan, k: int) -> list[PairLoss]:
    asked, losses = system.asked[k], plan.losses
    return [
        PairLoss(
            who.sensitive,
            secret,
            against,
            0,
            _promised(plan, k, way),
            float(losses.lower[k, way]),
            _outwards(float(losses.upper[k, way]) + plan.drawing),
            "recomputed" if losses.recomputed[k] else "theorem",
        )
        for way, (secret, against) in enumerate(
            [(asked.secret, asked.against), (asked.against, asked.secret)]
        )
    ]


def _promised(plan: _Plan, k: int, way: int) -> float:
    """Return what the strategy promises; a published condition promises the budget."""
    ends = {"exact": plan.losses.upper, "worst_case": plan.losses.worst}
    if plan.settings.strategy in ends:
        return _outwards(float(ends[plan.settings.strategy][k, way]) + plan.drawing)
    return plan.settings.epsilon


def _variance(law: Prior) -> float:
    assert isinstance(law, Discrete)
    mean = float(law.probabilities @ law.atoms)
    return float(law.probabilities @ (law.atoms - mean) ** 2)


_UNCHANGED = (
    "no noise is needed under these laws (theta is 0), and the answer is released unchanged; that "
    "trusts the laws most of all."
)


def _assumptions(who: Reporters, plan: _Plan) -> list[str]:
    settings = plan.settings
    said = [
        _about_laws(who),
        "The reports are independent of each other. Everybody but the user in question is present, "
        "and their reports are unknown to the adversary.",
        _about_others(plan),
        _about_unit(plan),
        f"Reports are rounded half up to multiples of {who.step:g} before they are summed.",
        "The promise is for one release. Noisy releases of the same reports add up: their "
        "precisions 1/theta are summed, and the budget is spent when the sum exceeds 1/theta of "
        "this certificate; k releases need k times the noise.",
    ]
    if any(user.presence < 1.0 for user in who.users):
        said.append(
            "The probabilities that users are present change nothing: they multiply the chances of "
            "an answer under either secret alike, and cancel. Where other users may be absent, the "
            "loss is that over all other users."
        )
    if settings.query == "mean":
        said.append(
            f"The number of reports n = {who.n_reports} that the sum is divided by is public, and "
            "does not change when a user is absent."
        )
    if not (settings.together or plan.losses.recomputed.all()):
        said.append(
            "The upper ends marked theorem are the losses over all other users, which keep the "
            "budget; those for the given users are no larger, and were not computed."
        )
    if plan.theta == 0.0:
        said.append(f"N{_UNCHANGED[1:]}")
    if settings.seed is not None:
        said.append(
            f"random_state={settings.seed} makes the noise reproducible, so whoever knows the seed "
            "can remove it: NOTHING is promised outside tests."
        )
    return said


def _about_laws(who: Reporters) -> str:
    if who.source is None:
        return "The adversary's prior of each user's report is the law given for that user."
    return (
        "The adversary's prior of each report is the law of its class, counted from these "
        f"{who.n_reports} rows; an adversary who knows another law may learn more. theta, this "
        "table and the laws are functions of the same rows as the answer; nothing is promised "
        "about what these numbers themselves reveal."
    )


def _about_others(plan: _Plan) -> str:
    within = "within" if plan.worst <= plan.settings.epsilon else "ABOVE"
    remedy = "" if within == "within" else '; strategy="worst_case" keeps it within'
    return (
        "To whoever knows other users' reports, or is told them by users who collude, the loss is "
        f"at most {plan.worst:.6g} nats, whatever the other users report: {within} the budget"
        f"{remedy}."
    )


def _about_unit(plan: _Plan) -> str:
    if not plan.settings.together:
        return (
            "A user is one report, drawn once from its law: this is no promise about all the users "
            "of a class at once, who may lose as many times as much as there are of them."
        )
    if plan.losses.recomputed.all():
        kind = "and that is the loss itself"
    else:
        kind = "which is a bound where the reports of a class have both signs, or two laws"
    return (
        "All the users of a class leave or change together; the loss stated is their number times "
        f"that of one of them in the worst case, {kind}."
    )
