"""The estimator's parameters, checked as far as that needs no data.

Which values there are, what does not go together, and what would be possible in its place.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal

import numpy as np

from sklearn_puffer._base import (
    check_above,
    check_choice,
    check_count,
    check_delta,
    check_jobs,
    check_positive,
    check_seed,
    plain,
    quoted,
)
from sklearn_puffer._noiser.conditional_priors import given_priors
from sklearn_puffer._releases import RowsTogether, adds_up, check_releases
from sklearn_puffer._strategies import (
    Change,
    dependent_rows,
    noise_changes,
    notion_changes,
    reason_of,
    refusal,
    ways_out,
)
from sklearn_puffer._tables import Missing, Name
from sklearn_puffer.accounting import is_computable
from sklearn_puffer.bounds import Strategy, tightest
from sklearn_puffer.calibration import STRATEGIES, exact, is_ours, strategy_changes, within_reach
from sklearn_puffer.fits import ClassifierFit, GaussianFit, MixtureFit
from sklearn_puffer.noise import (
    FAMILIES,
    OPTIMAL,
    SWAP,
    Noise,
    OptimalChannel,
    RecordSwap,
    is_family,
    optimal_channel,
    record_swap,
)
from sklearn_puffer.notions import MOST_ALPHA, Notion, Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import ConfidenceSet, Discrete, GaussianMixture, PriorPair

#: How priors are learnt from rows, by name; "empirical" counts them.
FITS: dict[str, Any] = {"empirical": None, "gaussian": GaussianFit(), "gmm": MixtureFit()}

#: An adversary who knows the distribution that is counted from the rows.
COUNTED = "empirical"

#: Classifiers whose knowledge a prior is: one for all sensitive columns, or one for each.
Model = ClassifierFit | Mapping[Any, ClassifierFit]

_LEAST_EPSILON = 1e-8
_LEAST_DELTA = 1e-300
_MOST_BINS = 10**6
# checked where the table is read, whose columns they name
_FOR_THE_TABLE = ("sensitive", "public", "secret_pairs", "dependence", "known")
_SPARE = 1.0 + 1e-6  # for the floor as it is recomputed

Output = Literal["native", "remapped", "noisy"]
OUTPUTS: list[Output] = ["native", "remapped", "noisy"]
Within = Literal["independent", "any"]
WITHIN: tuple[Within, ...] = ("independent", "any")

COUNT = "count"
"""The ``max_group`` that is counted from the rows of `fit`, where sizes of groups are public."""


MOST_ROWS = 256
"""Rows of a group, above which noise for all of them leaves nothing of a row."""


@dataclass(frozen=True)
class RowGroups:
    """Which rows are together, how many at most, and how they hang together given the secret.

    Attributes
    ----------
    column : str or int
        The column of group ids: as it is asked for, and in a fitted noiser its name.
    most : int or None
        Rows of the largest group that is guaranteed; None where it is yet to be counted.
    within : {"independent", "any"}
    """

    column: Name
    most: int | None
    within: Within

    def told(self) -> RowsTogether | None:
        """Return what a certificate says of fitted groups."""
        return None if self.most is None else RowsTogether(self.column, self.most, self.within)


@dataclass(frozen=True)
class Settings:
    """The estimator's parameters, checked as far as that needs no data."""

    notion: Notion
    strategy: Strategy
    strategy_name: str
    noise: Noise
    noise_name: str
    sensitive: Any
    public: Any
    secret_pairs: Any
    prior: Mapping[Any, Any] | None  # given beforehand; None where it is learnt
    fit: Any  # how it is learnt; None for counting
    model: Model | None  # the classifier whose knowledge it is; None where it is none's
    adversaries: Sequence[Any]  # mappings of priors, classifiers, or COUNTED
    confidence: ConfidenceSet | None
    weights: Mapping[Any, float] | str
    dependence: Any
    categories: Mapping[Any, Sequence[Any]]
    n_bins: Any
    missing: Missing
    unknown: Any
    output: Output
    remainder: Literal["drop", "passthrough"]
    seed: int | None
    n_jobs: int | None
    releases: int
    channel: OptimalChannel | None = None  # in the place of noise, which then is not used
    swap: RecordSwap | None = None  # the same
    known: Any = None
    grouped: RowGroups | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Settings:
        """Check the parameters of the estimator.

        Raises
        ------
        TypeError, ValueError
            Naming the parameter, its value and the way out.
        """
        check_choice(params["on_uncertified"], "on_uncertified", ["raise", "warn"])
        prior, fit, model = _checked_prior(params["prior"])
        adversaries, confidence = _checked_adversaries(params["adversaries"])
        strategy, strategy_name = _named(params["strategy"], "strategy", STRATEGIES)
        channel = optimal_channel(params["noise"])
        swap = record_swap(params["noise"])
        noise, noise_name = _noise("laplace" if channel or swap else params["noise"])
        if channel or swap:
            noise_name = "optimal channel" if channel else "record swap"
        settings = cls(
            notion=_notion(params["epsilon"], params["delta"], params["alpha"]),
            strategy=strategy,
            strategy_name=strategy_name,
            noise=noise() if isinstance(noise, type) else noise,
            noise_name=noise_name,
            **{name: params[name] for name in _FOR_THE_TABLE},
            prior=prior,
            fit=fit,
            model=model,
            adversaries=adversaries,
            confidence=confidence,
            weights=_checked_weights(params["weights"]),
            categories=_checked_mapping(params["categories"], "categories"),
            n_bins=_checked_bins(params["n_bins"]),
            missing=check_choice(params["missing"], "missing", ["error", "category", "propagate"]),
            unknown=check_unknown(params["unknown"]),
            output=check_choice(params["output"], "output", OUTPUTS),
            remainder=check_choice(params["remainder"], "remainder", ["drop", "passthrough"]),
            seed=check_seed(params["random_state"]),
            n_jobs=check_jobs(params["n_jobs"]),
            releases=check_releases(params["releases"]),
            channel=channel,
            swap=swap,
            grouped=row_groups(params),
        )
        settings._check_together()
        return settings

    def _check_together(self) -> None:
        """Refuse what does not go together, whatever the data, with ways out that were tried."""
        for refused, sentence in _conflicts(self):
            if refused:
                raise ValueError(sentence)
        if self.channel is not None:
            epsilon_of_one(self)
        elif self.swap is None:
            self._check_pair(_pair(1, mixtures=self._has_mixtures))

    @property
    def hangs_together(self) -> bool:
        """Whether rows of a group may depend on each other in any way."""
        return self.grouped is not None and self.grouped.within == "any"

    def check_fitted_rows(self, n_columns: int) -> None:
        """Refuse what no priors fitted to joint columns have, before any is fitted.

        Those of two secrets hardly ever have the same covariance, be they ever so close.
        """
        alike = getattr(self.fit, "covariance", "") == "common"
        if self.fit is not None and n_columns > 1 and not alike:
            self._check_pair(_pair(n_columns, mixtures=True, apart=1e-3))

    def _check_pair(self, pair: PriorPair) -> None:
        """Refuse what has no bound for a pair of priors, with changes that have one."""
        reason = self._refusal(pair)
        if reason is None:
            return

        def works(new: Mapping[str, Any]) -> bool:
            altered = replace(self, **new)
            return all(altered._refusal(likely) is None for likely in altered._likely_pairs())

        changes, further = self._changes()
        ways = ways_out(changes, works) or ways_out([*further, *changes], works)
        raise ValueError(refusal(reason, ways))

    def _refusal(self, pair: PriorPair) -> str | None:
        """Return why a pair of priors has no bound, or None.

        The strategy itself is asked. Of a strategy from elsewhere nothing is asked about priors of
        ours.
        """
        if self.releases > 1 and not adds_up(self.noise):
            return (
                f"releases={self.releases} is not possible with noise={self.noise_name!r}: how "
                "releases of the same rows under it add up is not known"
            )
        noise = self.noise.with_scale((1.0,) * pair.p.n_axes)
        return self._why_no_bound(pair, noise) or self._why_no_draws(pair, noise)

    def _why_no_bound(self, pair: PriorPair, noise: Noise) -> str | None:
        if not is_ours(self.strategy):
            return None
        if self.hangs_together:
            return reason_of(dependent_rows([pair], noise, self.notion, 2)) or None
        beyond = self.strategy is exact and not within_reach([pair], noise, self.notion)
        strategy = tightest if beyond else self.strategy
        reason = reason_of(strategy([pair], noise, self.notion))
        return reason.partition(", as those of pair")[0] or None  # which are not the caller's

    def _why_no_draws(self, pair: PriorPair, noise: Noise) -> str | None:
        """Return why mixtures cannot be drawn anew for a confidence set, where one is asked for."""
        if self.confidence is None or not self._has_mixtures:
            return None
        if self.prior is not None or self.fit.covariance == "common":
            what = "given" if self.prior is not None else "fitted with covariance='common'"
            return (
                f"adversaries={self.confidence!r} needs priors that are drawn anew from the rows, "
                f"and prior= is {what}"
            )
        if is_computable(pair, noise, self.notion):
            return None
        return (
            f"adversaries={self.confidence!r} asks for draws of the fitted priors, and the exact "
            "loss of such rows is not computed"
        )

    def _likely_pairs(self) -> list[PriorPair]:
        """Return what a change is tried on: priors like those that data may lead to."""
        given = given_priors(self.prior)
        single = isinstance(self.public, str | Integral)
        single |= isinstance(self.public, Sequence) and len(self.public) == 1
        n_axes = given[0].n_axes if given else 1 if single else 2
        several = any(isinstance(p, GaussianMixture) and p.n_components > 1 for p in given)
        alike = getattr(self.fit, "covariance", "") == "common"
        most = 1 if self.dependence == "independent" else min(n_axes, 2)
        return [
            _pair(
                n_axes,
                mixtures=self._has_mixtures,
                apart=0.0 if alike else 1.0,
                several=several or isinstance(self.fit, MixtureFit),
                further=1.0,
            )
            for n_axes in range(1, most + 1)
        ]

    def _changes(self) -> tuple[list[Change], list[Change]]:
        """Return what may be changed, in the order of preference, and what only where need be."""
        notions = notion_changes(self.notion)
        n_added = sum(words.startswith(("delta=1e", "alpha=2")) for words, _ in notions)
        changes: list[Change] = []
        if self.grouped is not None and self.hangs_together:
            alone = replace(self.grouped, within="independent")
            changes.append(("within_group='independent'", {"grouped": alone}))
        changes += [*noise_changes(self.noise), *notions[:n_added]]
        changes += [*strategy_changes(self.strategy), *notions[n_added:]]
        learnt = self.prior is None and self.model is None and not self.adversaries
        if learnt and self.n_bins is None and not self.categories:
            changes.append(("prior='gaussian'", {"fit": FITS["gaussian"]}))
        if self.dependence != "independent":
            changes.append(("dependence='independent'", {"dependence": "independent"}))
        further: list[Change] = []
        if learnt and self.fit is not None:
            if self.fit.covariance != "common":
                alike = replace(self.fit, covariance="common")
                words = f"prior={type(alike).__name__}(covariance='common')"
                changes.append((words, {"fit": alike}))
            further.append(("prior='empirical'", {"fit": None}))
        if self.releases > 1:
            further.append(("releases=1", {"releases": 1}))
        if self.confidence is not None:
            further.append(("adversaries=None", {"confidence": None}))
        return changes, further

    @property
    def is_counted(self) -> bool:
        """Whether the prior is the distribution that is counted from the rows."""
        return self.prior is None and self.fit is None and self.model is None

    @property
    def counts(self) -> bool:
        """Whether the distribution that is counted from the rows is among the adversaries."""
        return self.is_counted or any(isinstance(each, str) for each in self.adversaries)

    @property
    def models(self) -> dict[str, Model]:
        """The classifiers among the adversaries, by the argument that gives them."""
        given: dict[str, Any] = {"prior": self.model}
        given |= {f"adversaries[{k}]": each for k, each in enumerate(self.adversaries)}
        return {name: each for name, each in given.items() if is_model(each)}

    @property
    def at_once(self) -> bool:
        """Whether the losses of all pairs are computed together, and not each on its own."""
        pure = self.notion.is_pure and self.noise.is_exponential and not self._has_mixtures
        return (pure and not self.hangs_together) or self.channel is not None

    @property
    def _has_mixtures(self) -> bool:
        given = given_priors(self.prior)
        return self.fit is not None or any(isinstance(p, GaussianMixture) for p in given)


def _pair(
    n_axes: int,
    *,
    mixtures: bool,
    apart: float = 0.0,
    several: bool = False,
    further: float = 0.0,
) -> PriorPair:
    """Return a pair of priors that a combination is tried on.

    Mixtures have covariances that are ``apart`` by that part of them, and ``several`` components.
    Discrete distributions share their ends, unless one lies ``further`` out: for those that share
    them there is a bound if there is for any.
    """
    if not mixtures:
        low, high, out = ([end] * n_axes for end in (0.0, 1.0, 1.0 + further))
        return PriorPair(Discrete([low, high], [0.5, 0.5]), Discrete([low, out], [0.25, 0.75]))

    def mixture(mean: float, scale: float) -> GaussianMixture:
        middles = [mean, mean + 3.0] if several else [mean]
        shape, size = (n_axes,) * (n_axes > 1), len(middles)
        means = [np.full(shape, middle) for middle in middles]
        covariance = scale * np.eye(n_axes).reshape(2 * shape)
        return GaussianMixture([1.0 / size] * size, means, [covariance] * size)

    return PriorPair(mixture(0.0, 1.0), mixture(1.0, 1.0 + apart))


def _named(value: Any, argument: str, known: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the object that an argument names, or the object itself, and what to call it."""
    if isinstance(value, str):
        return known[check_choice(value, argument, known)], value
    if argument == "noise" and is_family(value):
        return value, value.name
    if argument == "strategy" and callable(value) and not isinstance(value, type):
        return value, getattr(value, "__name__", repr(value))
    raise TypeError(
        f"{argument} must be one of {list(known)} or a {argument} object, got {value!r}."
    )


def _noise(value: Any) -> tuple[Any, str]:
    """Return the family that ``noise`` names, or the object of one, and what to call it."""
    if isinstance(value, str):
        check_choice(value, "noise", [*FAMILIES, OPTIMAL, SWAP])
    return _named(value, "noise", FAMILIES)


def _notion(epsilon: Any, delta: Any, alpha: Any) -> Notion:
    way_out = "choose a budget in nats, such as 1.0"
    if check_positive(epsilon, "epsilon", way_out) < _LEAST_EPSILON:
        raise ValueError(
            f"epsilon must be at least {_LEAST_EPSILON:g}, got {epsilon!r}: less is lost in the "
            f"rounding of the noise; {way_out}."
        )
    if 0.0 < check_delta(delta, "delta") < _LEAST_DELTA:
        raise ValueError(
            f"delta must be 0 or at least {_LEAST_DELTA:g}, got {delta!r}; less is no different "
            "from a pure guarantee, which is delta=0."
        )
    if alpha is None:
        return Pufferfish(epsilon, delta)
    if check_above(alpha, 1.0, "alpha") > MOST_ALPHA:
        raise ValueError(
            f"alpha must be at most {MOST_ALPHA:g}, got {quoted(alpha)}; leave it out for the pure "
            "guarantee, to which such orders come close."
        )
    return RenyiPufferfish(epsilon, alpha, delta)


def _checked_prior(prior: Any) -> tuple[Mapping[Any, Any] | None, Any, Model | None]:
    """Return the prior that is given, how it is learnt where it is not, and whose it is."""
    if isinstance(prior, str):
        return None, FITS[check_choice(prior, "prior", FITS)], None
    if isinstance(prior, GaussianFit | MixtureFit):
        return None, prior, None
    model = _model_of(prior, "prior")
    if model is not None:
        return None, None, model
    if not isinstance(prior, Mapping):
        raise TypeError(
            f"prior must be one of {list(FITS)}, a fits object, a classifier, or a mapping "
            f"{{secret: prior object}}, got {prior!r}."
        )
    return prior, None, None


def is_model(given: Any) -> bool:
    """Return whether an adversary is a classifier, or one for each sensitive column."""
    nested = list(given.values()) if isinstance(given, Mapping) else [given]
    return bool(nested) and all(isinstance(each, ClassifierFit) for each in nested)


def _model_of(given: Any, argument: str) -> Model | None:
    """Return classifiers as fits of them; None for anything else."""
    if not isinstance(given, Mapping):
        return _classifier_of(given, argument) if _looks_like_classifier(given) else None
    kinds = [_looks_like_classifier(each) for each in given.values()]
    if not any(kinds):
        return None
    if not all(kinds):
        other = next(each for each in given.values() if not _looks_like_classifier(each))
        raise TypeError(
            f"{argument} must map every sensitive column to a classifier, or every secret to a "
            f"prior object, and not some of both; got {quoted(other)} beside a classifier."
        )
    return {name: _classifier_of(each, argument) for name, each in given.items()}


def _looks_like_classifier(given: Any) -> bool:
    learns = hasattr(given, "fit") and hasattr(given, "predict")
    return isinstance(given, ClassifierFit) or hasattr(given, "predict_proba") or learns


def _classifier_of(given: Any, argument: str) -> ClassifierFit:
    try:
        return given if isinstance(given, ClassifierFit) else ClassifierFit(given)
    except TypeError as error:
        raise TypeError(f"{argument}: {error}") from None


def _checked_adversaries(adversaries: Any) -> tuple[list[Any], ConfidenceSet | None]:
    """Return the further priors, and the confidence set."""
    if adversaries is None:
        return [], None
    if isinstance(adversaries, ConfidenceSet):
        return [], adversaries
    if isinstance(adversaries, str) and adversaries == "confidence":
        return [], ConfidenceSet()
    if isinstance(adversaries, str) or not isinstance(adversaries, Sequence):
        raise TypeError(
            'adversaries must be None, "confidence", a ConfidenceSet, or a list of mappings '
            f"{{secret: prior object}}, classifiers and {COUNTED!r}, got {adversaries!r}."
        )
    sets = [each for each in adversaries if isinstance(each, ConfidenceSet)]
    if len(sets) > 1:
        raise ValueError(
            f"adversaries may hold one ConfidenceSet, got {sets!r}; the highest level includes "
            "the others."
        )
    further = [each for each in adversaries if not isinstance(each, ConfidenceSet)]
    checked = [_checked_adversary(each, f"adversaries[{k}]") for k, each in enumerate(further)]
    return checked, sets[0] if sets else None


def _checked_adversary(given: Any, argument: str) -> Any:
    if isinstance(given, str):
        return check_choice(given, argument, [COUNTED])
    model = _model_of(given, argument)
    return given if model is None else model


def _checked_weights(weights: Any) -> Mapping[Any, float] | str:
    if isinstance(weights, str):
        return str(check_choice(weights, "weights", ["spread", "optimal"]))
    if not isinstance(weights, Mapping):
        raise TypeError(
            'weights must be "spread", "optimal" or a mapping {column: scale relative to the '
            f"others}}, got {weights!r}."
        )
    return {name: check_positive(value, f"weights[{name!r}]") for name, value in weights.items()}


def _checked_mapping(mapping: Any, argument: str) -> Mapping[Any, Any]:
    if mapping is None:
        return {}
    if not isinstance(mapping, Mapping):
        raise TypeError(f"{argument} must map columns to lists of values, got {mapping!r}.")
    return mapping


def check_unknown(unknown: Any) -> Any:
    """Return what is done with values that `fit` has not seen, as it is given."""
    if isinstance(unknown, Mapping):
        for name, value in unknown.items():
            if value is None or not isinstance(value, Hashable):
                raise TypeError(f"unknown[{name!r}] must be a value of that column, got {value!r}.")
        return dict(unknown)
    return check_choice(unknown, "unknown", ["error", "nearest"])


def _checked_bins(n_bins: Any) -> Any:
    if n_bins is None:
        return None
    counts = n_bins.values() if isinstance(n_bins, Mapping) else [n_bins]
    for count in counts:
        if check_count(count, "n_bins", minimum=2) > _MOST_BINS:
            raise ValueError(
                f"n_bins must be at most {_MOST_BINS:,}, got {quoted(count)}; leave it out to "
                "release the values themselves."
            )
    return n_bins


def epsilon_of_one(settings: Settings) -> float:
    r"""Return the budget of one draw, where all ``releases`` together have the whole one.

    .. math:: \varepsilon_1 = \varepsilon - (j - 1) \lambda

    Raises
    ------
    ValueError
        If releases are planned without a floor, or the floor leaves nothing.
    """
    epsilon, releases = settings.notion.epsilon, settings.releases
    if releases == 1:
        return epsilon
    floor = settings.channel.floor if settings.channel is not None else None
    if floor is None:
        raise ValueError(
            f'releases={releases} needs a floor with noise="optimal", for a second draw from a '
            "channel without one may tell everything; pass "
            f"noise=OptimalChannel(floor={epsilon / (2 * releases):.3g}), or releases=1."
        )
    left = epsilon - (releases - 1) * floor * _SPARE
    if left <= 0.0:
        raise ValueError(
            f"floor={floor:g} leaves nothing of epsilon={epsilon:g} for the first of "
            f"releases={releases}: epsilon - (releases - 1) floor is {left:.3g}; choose a floor "
            f"below {epsilon / (releases - 1):.3g}, or fewer releases."
        )
    return left


def row_groups(params: Mapping[str, Any]) -> RowGroups | None:
    """Return what the parameters of the estimator say about groups, as far as it needs no data.

    Raises
    ------
    TypeError, ValueError
        Naming the parameter, its value and the way out.
    """
    column, most = plain(params["groups"]), params["max_group"]
    within = check_choice(params["within_group"], "within_group", [*WITHIN])
    if column is None:
        _refuse_rest(most, within)
        return None
    if isinstance(column, bool) or not isinstance(column, str | int):
        raise TypeError(
            "groups must be the name (str) or position (int) of the column of group ids, got "
            f"{quoted(column)}."
        )
    if most is None:
        raise ValueError(
            f"groups={quoted(column)} needs max_group, the most rows of a group that the guarantee "
            f"is for; give a number, such as max_group=5, or max_group={COUNT!r} where the sizes "
            "of groups are public."
        )
    if isinstance(most, str):
        check_choice(most, "max_group", [COUNT])
        return RowGroups(column, None, within)
    return RowGroups(column, checked_most(check_count(most, "max_group")), within)


def checked_most(most: int) -> int:
    if most > MOST_ROWS:
        raise ValueError(
            f"max_group must be at most {MOST_ROWS:,}, got {quoted(most)}: noise for so many rows "
            "leaves nothing of each; release a sum or mean of each group (PufferfishSum), or fewer "
            "of its rows."
        )
    return most


def _refuse_rest(most: Any, within: Within) -> None:
    """Refuse what says something about groups where there are none."""
    for name, value, usual in (("max_group", most, None), ("within_group", within, WITHIN[0])):
        if value != usual:
            raise ValueError(
                f"{name}={quoted(value)} is about groups of rows, and groups= names no column of "
                f"their ids; name it, such as groups='household', or leave {name} out."
            )


_Conflicts = list[tuple[Any, str]]
"""What does not go together: what is true where it is asked for, and what is then said."""


def _conflicts(s: Settings) -> _Conflicts:
    """Return what is refused whatever the data; sentences name the argument and the way out."""
    if s.swap is not None:
        return [(asked, f'noise="swap" {why}.') for asked, why in _against_swap(s, s.swap)]
    if s.channel is not None:
        return [(asked, f'noise="optimal" {why}.') for asked, why in _against_channel(s)]
    remapped = s.output == "remapped" and s._has_mixtures
    return [
        *(_against_groups(s, f"groups={quoted(s.grouped.column)}") if s.grouped else []),
        (
            remapped,
            "output='remapped' releases values that the column had in fit, and Gaussian and "
            "mixture priors are distributions of all numbers; use prior='empirical', with n_bins= "
            "for numbers that hardly repeat, or output='native'.",
        ),
        (
            s.known is not None and (_some_mixtures(s) or s.confidence),
            f"known={quoted(s.known)} needs distributions of rows that are counted, given or a "
            'classifier\'s, and no Gaussian priors or confidence sets; use prior="empirical" '
            "with adversaries=None, or leave known out.",
        ),
    ]


def _against_groups(s: Settings, groups: str) -> _Conflicts:
    """Return what noise does not do for groups of rows."""
    return [
        (
            s.confidence,
            f"adversaries={quoted(s.confidence)} counts rows as drawn one by one, and those of "
            f"{groups} come together; leave it out, or fit on one row of each group.",
        ),
        (
            s.models,
            f"{next(iter(s.models), '')} is a classifier, which looks at rows one by one, and "
            f"{groups} at all of a group; use prior='empirical' with fewer columns or bins "
            "(n_bins), or leave groups out.",
        ),
        (
            s.known is not None,
            f"known={quoted(s.known)} is about a value of one row, and {groups} about all of a "
            "group; leave one of the two out.",
        ),
        (
            s.hangs_together and s.missing == "propagate",
            "missing='propagate' shows which values of a group are missing, and with "
            "within_group='any' these may tell all others; fill missing values, or use "
            "within_group='independent'.",
        ),
        (
            s.hangs_together and s.strategy is not exact,
            "within_group='any' has a bound of its own, got "
            f"strategy={quoted(s.strategy_name)}; leave strategy out.",
        ),
    ]


def _alone(s: Settings, usual: Mapping[str, tuple[Any, str]]) -> _Conflicts:
    """Return what is refused where a parameter has any other value than the usual one."""
    values = {
        "alpha": s.notion.to_dict().get("alpha"),
        "strategy": s.strategy_name,
        "groups": None if s.grouped is None else s.grouped.column,
    }
    values |= {name: getattr(s, name) for name in usual if name not in values}
    return [
        (
            values[name] != value,
            f'{why}, got {name}={quoted(values[name])}; leave {name} out, or use noise="laplace"',
        )
        for name, (value, why) in usual.items()
    ]


def _against_channel(s: Settings) -> _Conflicts:
    """Return what does not go with a channel."""
    usual = {
        "alpha": (None, "has no Renyi guarantee"),
        "strategy": ("exact", "is found for the exact loss"),
        "dependence": ("joint", "protects the released row as a whole"),
        "output": ("native", "releases rows and no noise"),
        "groups": (None, "is for readers of one row"),
    }
    model = next(iter(s.models), "")
    return [
        *_alone(s, usual),
        (
            _some_mixtures(s),
            "releases rows that fit saw, and Gaussian and mixture priors are distributions of all "
            "numbers; "
            'use prior="empirical" with n_bins, or noise="laplace"',
        ),
        (
            s.weights == "optimal",
            'weighs changes in units that you set, got weights="optimal"; leave weights out for '
            "standard deviations, or pass {column: unit of change}",
        ),
        (
            s.missing == "propagate",
            'releases whole rows, got missing="propagate"; fill missing values, or pass '
            'missing="category", which makes them a value of categories and booleans',
        ),
        (
            s.confidence,
            "is found for one distribution of each secret, got "
            f"adversaries={quoted(s.confidence)}; use "
            'noise="swap", whose certificate covers sampling error, or leave it out',
        ),
        (
            s.known is not None,
            f"is for readers who know nothing else of a row, got known={quoted(s.known)}; use "
            'noise="swap", which exchanges rows within the values that may be known, or leave '
            "known out",
        ),
        (
            model,
            f"is found for distributions that are counted or given, and {model} is a classifier, "
            "which "
            f'knows wide rows; use noise="swap", or leave {model} out',
        ),
    ]


def _against_swap(s: Settings, swap: RecordSwap) -> _Conflicts:
    """Return what does not go with a swap."""
    usual = {
        "alpha": (None, "has no Renyi guarantee"),
        "n_bins": (None, "releases the rows as they are"),
        "output": ("native", "releases the rows as they are"),
        "strategy": ("exact", "has an exact loss"),
        "dependence": ("joint", "protects the released row as a whole"),
    }
    values, learnt = swap.cells == "values", [s.prior, s.fit, *s.adversaries]
    given = [each for each in learnt if each is not None and each != COUNTED]
    return [
        *_alone(s, usual),
        (
            s.releases != 1,
            f"releases rows once, got releases={s.releases}: two swaps of the same people can tell "
            'everything; release once, or use noise="laplace"',
        ),
        (
            s.grouped and swap.donors is not None,
            "with donors releases rows one by one, and a bound for one row says nothing about a "
            "group; leave donors out, or groups",
        ),
        (
            s.grouped and swap.cost is not None,
            "with cost= is asked about single rows, and groups= are wider; leave cost out",
        ),
        (
            not all(map(is_model, given)),
            "counts what cells of rows tell, and a classifier or the default cuts rows into cells; "
            "pass a classifier as prior= and in adversaries=, or leave them out",
        ),
        (
            values and s.models,
            'with cells="values" has no classifier; leave prior and adversaries out',
        ),
        (
            values and swap.within == "shuffle",
            'with cells="values" has nothing to shuffle within cells; leave within out',
        ),
        (
            s.weights == "optimal",
            'weighs changes in units that you set, got weights="optimal"; leave weights out',
        ),
    ]


def _some_mixtures(s: Settings) -> bool:
    """Return whether the prior, or a further one, is a distribution of all numbers."""
    further = [prior for given in s.adversaries for prior in given_priors(given)]
    return s._has_mixtures or any(isinstance(prior, GaussianMixture) for prior in further)
