"""The estimator's parameters, checked as far as that needs no data.

Allowed values, refused combinations, and the way out of each refusal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import (
    RetiredError,
    check_choice,
    check_jobs,
    check_positive,
    check_seed,
    gone,
)
from sklearn_puffer._noiser.priors import given_priors
from sklearn_puffer._rows import Columns, Guarantee
from sklearn_puffer._strategies import dependent_rows, reason_of
from sklearn_puffer._words import quoted
from sklearn_puffer.bounds import Strategy
from sklearn_puffer.calibration import STRATEGIES, exact, in_reach, is_ours
from sklearn_puffer.fits import ClassifierFit, GaussianFit, MixtureFit
from sklearn_puffer.noise import FAMILIES, Noise, is_family
from sklearn_puffer.priors import ConfidenceSet, Discrete, GaussianMixture, PriorPair

#: How priors are learnt from rows, by name; "empirical" counts them.
FITS: dict[str, Any] = {"empirical": None, "gaussian": GaussianFit(), "gmm": MixtureFit()}

#: An adversary who knows the distribution that is counted from the rows.
COUNTED = "empirical"

#: A classifier for all sensitive columns, or one for each.
Model = ClassifierFit | Mapping[Any, ClassifierFit]


@dataclass(frozen=True)
class Knowledge:
    """What adversaries know, how columns depend on each other, and how the loss is bounded."""

    prior: Mapping[Any, Any] | None  # the prior, None where it is learnt
    fit: Any  # how it is learnt; None for counting
    model: Model | None  # the classifier that is the adversary, if there is one
    adversaries: Sequence[Any]  # mappings of priors, classifiers, or `COUNTED`
    confidence: ConfidenceSet | None
    dependence: Any  # "joint", "independent" or list of column groups
    strategy: Strategy
    strategy_name: str  # what to call it

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Knowledge:
        """Check the parameters of the estimator.

        Raises
        ------
        TypeError, ValueError
            Naming the parameter, its value and the way out.
        """
        prior, fit, model = _checked_prior(params["prior"])
        adversaries, confidence = _checked_adversaries(params["adversaries"])
        strategy, strategy_name = _checked_strategy(params["strategy"])
        dependence = params["dependence"]
        return cls(prior, fit, model, adversaries, confidence, dependence, strategy, strategy_name)

    @property
    def is_counted(self) -> bool:
        """Whether the prior is the distribution that is counted from the rows."""
        return self.prior is None and self.fit is None and self.model is None

    @property
    def counts(self) -> bool:
        """Whether the distribution that is counted from the rows is among the adversaries."""
        return self.is_counted or any(isinstance(x, str) for x in self.adversaries)

    @property
    def models(self) -> dict[str, Model]:
        """The classifiers among the adversaries, by the argument that gives them."""
        return {name: value for name, value in self.priors.items() if is_model(value)}

    @property
    def priors(self) -> dict[str, Any]:
        """What each adversary knows, the fitted one first, by the argument that gives it."""
        first = self.prior if self.model is None else self.model
        further = {f"adversaries[{k}]": value for k, value in enumerate(self.adversaries)}
        return {"prior": COUNTED if first is None else first} | further

    @property
    def has_mixtures(self) -> bool:
        """Whether the prior is a distribution of all numbers."""
        return self.fit is not None or _mixtures_among(self.prior)


@dataclass(frozen=True)
class Settings:
    """The parameters of a noiser, checked as far as that needs no data."""

    guarantee: Guarantee
    columns: Columns
    knowledge: Knowledge
    noise: Noise  # the family; what it is called stands in ``noise_name``
    noise_name: str
    weights: Mapping[Any, float] | str
    seed: int | None
    n_jobs: int | None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Settings:
        """Check the parameters of the estimator.

        Raises
        ------
        TypeError, ValueError
            Naming the parameter, its value and the way out.
        """
        check_choice(params["on_uncertified"], "on_uncertified", ["raise", "warn"])
        noise, noise_name = _checked_noise(params["noise"])
        settings = cls(
            guarantee=Guarantee.of(params),
            columns=Columns.of(params),
            knowledge=Knowledge.of(params),
            noise=noise,
            noise_name=noise_name,
            weights=_checked_weights(params["weights"]),
            seed=check_seed(params["random_state"]),
            n_jobs=check_jobs(params["n_jobs"]),
        )
        settings._check_together()
        return settings

    def _check_together(self) -> None:
        """Refuse combinations that no data make possible, with a way out."""
        for refused, sentence in _conflicts(self):
            if refused:
                raise ValueError(sentence)
        if self.guarantee.releases > 1 and self.noise.precision_power is None:
            raise ValueError(
                f"releases={self.guarantee.releases} is not possible with "
                f"noise={self.noise_name!r}: how releases of the same rows under it add up is not "
                "known; use noise='laplace' or releases=1."
            )
        if is_ours(self.knowledge.strategy):  # another strategy may not know these priors
            self.check_bound(1)

    def check_bound(self, n_columns: int) -> None:
        """Refuse what has no bound for any priors of so many columns, by one pair of them.

        Its discrete distributions have the same support: if any pair has a bound, this one has.
        Covariances that are fitted to two secrets may be close, but are hardly ever the same.
        """
        notion, noise = self.guarantee.notion, self.noise.with_scale((1.0,) * n_columns)
        pair = PriorPair(Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75]))
        if n_columns > 1:
            mean, unit = np.ones(n_columns), np.eye(n_columns)
            first = GaussianMixture([1.0], [0.0 * mean], [unit])
            pair = PriorPair(first, GaussianMixture([1.0], [mean], [1.001 * unit]))
        elif self.knowledge.has_mixtures:
            pair = PriorPair(*(GaussianMixture([1.0], [mean], [1.0]) for mean in (0.0, 1.0)))
        if self.columns.rows_dependent:
            reason = reason_of(dependent_rows([pair], noise, notion, 2))
        else:
            strategy = in_reach(self.knowledge.strategy, [pair], noise, notion)
            reason = reason_of(strategy([pair], noise, notion))
            # numbers of the pair are not the caller's
            why, of_pair, advice = reason.partition(", as those of pair")
            reason = f"{why}; use{advice.rpartition('; use')[2]}" if of_pair else reason
        if reason:
            raise ValueError(reason)

    @property
    def at_once(self) -> bool:
        """Whether the losses of all pairs are computed together, and not each on its own."""
        pure = (
            self.guarantee.notion.is_pure
            and self.noise.is_exponential
            and not self.knowledge.has_mixtures
        )
        return pure and not self.columns.rows_dependent


def _checked_strategy(value: Any) -> tuple[Strategy, str]:
    """Return the strategy, and what to call it."""
    if isinstance(value, str):
        return STRATEGIES[check_choice(value, "strategy", STRATEGIES)], value
    if callable(value) and not isinstance(value, type):
        return value, getattr(value, "__name__", repr(value))
    raise TypeError(
        f"strategy must be one of {list(STRATEGIES)} or a strategy object, got {quoted(value)}."
    )


def _checked_noise(value: Any) -> tuple[Noise, str]:
    """Return noise of the family, and what to call it."""
    if isinstance(value, str):
        if value in ("optimal", "swap"):
            raise RetiredError(gone(f"noise={value!r}"))
        return FAMILIES[check_choice(value, "noise", FAMILIES)](), value
    if is_family(value):
        return value, value.name
    raise TypeError(
        f"noise must be one of {list(FAMILIES)} or a noise object, got {quoted(value)}."
    )


def _checked_prior(prior: Any) -> tuple[Mapping[Any, Any] | None, Any, Model | None]:
    """Return the prior if it is given, else how it is learnt, or its classifier."""
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
            f"{{secret: prior object}}, got {quoted(prior)}."
        )
    return prior, None, None


def is_model(adversary: Any) -> bool:
    """Return whether an adversary is a classifier, or one for each sensitive column."""
    models = list(adversary.values()) if isinstance(adversary, Mapping) else [adversary]
    return bool(models) and all(isinstance(model, ClassifierFit) for model in models)


def _model_of(value: Any, argument: str) -> Model | None:
    """Return classifiers as fits of them; None for anything else."""
    if not isinstance(value, Mapping):
        return _classifier_of(value, argument) if _looks_like_classifier(value) else None
    others = [item for item in value.values() if not _looks_like_classifier(item)]
    if len(others) == len(value):
        return None
    if others:
        raise TypeError(
            f"{argument} must map every sensitive column to a classifier, or every secret to a "
            f"prior object, and not some of both; got {quoted(others[0])} beside a classifier."
        )
    return {name: _classifier_of(item, argument) for name, item in value.items()}


def _looks_like_classifier(value: Any) -> bool:
    learns = hasattr(value, "fit") and hasattr(value, "predict")
    return isinstance(value, ClassifierFit) or hasattr(value, "predict_proba") or learns


def _classifier_of(value: Any, argument: str) -> ClassifierFit:
    try:
        return value if isinstance(value, ClassifierFit) else ClassifierFit(value)
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
            f"{{secret: prior object}}, classifiers and {COUNTED!r}, got {quoted(adversaries)}."
        )
    sets = [item for item in adversaries if isinstance(item, ConfidenceSet)]
    if len(sets) > 1:
        raise ValueError(
            f"adversaries may hold one ConfidenceSet, got {quoted(sets)}; the highest level "
            "includes the others."
        )
    further = [item for item in adversaries if not isinstance(item, ConfidenceSet)]
    for k, item in enumerate(further):
        if isinstance(item, str):
            check_choice(item, f"adversaries[{k}]", [COUNTED])
        else:
            model = _model_of(item, f"adversaries[{k}]")
            further[k] = item if model is None else model
    return further, sets[0] if sets else None


def _checked_weights(weights: Any) -> Mapping[Any, float] | str:
    if isinstance(weights, str) and weights == "spread":
        return weights
    if not isinstance(weights, Mapping):
        wrong = ValueError if isinstance(weights, str) else TypeError
        raise wrong(
            'weights must be "spread", or a mapping {column: scale relative to the others} as in '
            f'weights={{"age": 1.0, "income": 500.0}}; got {quoted(weights)}.'
        )
    return {name: check_positive(value, f"weights[{name!r}]") for name, value in weights.items()}


_Conflicts = list[tuple[Any, str]]
"""Refused combinations: a condition, and the error."""


def _conflicts(s: Settings) -> _Conflicts:
    """Return the combinations that are refused whatever the data."""
    known, grouped = s.columns.known, s.columns.grouped
    further = map(_mixtures_among, s.knowledge.adversaries)
    some_mixtures = s.knowledge.has_mixtures or any(further)
    return [
        *(_against_groups(s, f"groups={quoted(grouped.column)}") if grouped else []),
        (
            known is not None and (some_mixtures or s.knowledge.confidence),
            f"known={quoted(known)} needs distributions of rows that are counted, given or a "
            'classifier\'s, and no Gaussian priors or confidence sets; use prior="empirical" '
            "with adversaries=None, or leave known out.",
        ),
        (
            s.knowledge.confidence is not None and s.knowledge.has_mixtures,
            f"adversaries={s.knowledge.confidence!r} is a set around counted distributions, and "
            "the prior is Gaussian or a mixture (fits.bootstrap draws others around it, which may "
            "be named in adversaries=); use adversaries=None.",
        ),
    ]


def _against_groups(s: Settings, groups: str) -> _Conflicts:
    """Return the combinations that are refused with groups of rows."""
    columns, knowledge, known = s.columns, s.knowledge, s.columns.known
    return [
        (
            knowledge.confidence,
            f"adversaries={quoted(knowledge.confidence)} counts rows as drawn one by one, and "
            f"those of {groups} come together; leave it out, or fit on one row of each group.",
        ),
        (
            knowledge.models,
            f"{next(iter(knowledge.models), '')} is a classifier, which looks at rows one by one, "
            f"and {groups} at all of a group; use prior='empirical' with fewer columns or bins "
            "(n_bins), or leave groups out.",
        ),
        (
            known is not None,
            f"known={quoted(known)} is about a value of one row, and {groups} about all of a "
            "group; leave one of the two out.",
        ),
        (
            columns.rows_dependent and columns.missing == "propagate",
            "missing='propagate' shows which values of a group are missing, and with "
            "within_group='any' these may tell all others; fill missing values, or use "
            "within_group='independent'.",
        ),
        (
            columns.rows_dependent and knowledge.strategy is not exact,
            "within_group='any' has a bound of its own, got "
            f"strategy={quoted(knowledge.strategy_name)}; leave strategy out.",
        ),
    ]


def _mixtures_among(priors: Any) -> bool:
    return any(isinstance(prior, GaussianMixture) for prior in given_priors(priors))
