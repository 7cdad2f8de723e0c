"""The estimator's parameters, checked as far as that needs no data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np

from sklearn_puffer._bound_types import Impossible
from sklearn_puffer._validation import (
    check_above,
    check_choice,
    check_count,
    check_delta,
    check_positive,
)
from sklearn_puffer.bounds import Relaxed, Strategy
from sklearn_puffer.calibration import STRATEGIES
from sklearn_puffer.columns import Missing
from sklearn_puffer.fits import GaussianFit, MixtureFit
from sklearn_puffer.frame import Name
from sklearn_puffer.learning import given_priors
from sklearn_puffer.noise import FAMILIES, KINDS, GeneralizedCauchy, Noise
from sklearn_puffer.notions import Notion, Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import ConfidenceSet, Discrete, GaussianMixture, PriorPair
from sklearn_puffer.release import Output
from sklearn_puffer.repeats import check_releases, why_not

#: How priors are learnt from rows, by name; "empirical" counts them.
FITS: dict[str, Any] = {"empirical": None, "gaussian": GaussianFit(), "gmm": MixtureFit()}

# a pair of each family for which there is a bound if there is one for any: discrete laws that share
# their ends, and a translation
_TRIALS = {
    "discrete": PriorPair(Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75])),
    "mixture": PriorPair(GaussianMixture([1], [0], [1]), GaussianMixture([1], [1], [1])),
}
_LEAST_EPSILON = 1e-8
_LEAST_DELTA = 1e-300


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
    adversaries: Sequence[Any]
    confidence: ConfidenceSet | None
    weights: Mapping[Any, float] | str
    dependence: Any
    categories: Mapping[Any, Sequence[Any]]
    n_bins: Any
    missing: Missing
    output: Output
    remainder: Literal["drop", "passthrough"]
    seed: int | None
    n_jobs: int | None
    releases: int

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Settings:
        """Check the parameters of the estimator.

        Raises
        ------
        TypeError, ValueError
            Naming the parameter, its value and the way out.
        """
        check_choice(params["unknown"], "unknown", ["error", "nearest"])
        check_choice(params["on_uncertified"], "on_uncertified", ["raise", "warn"])
        prior, fit = _checked_prior(params["prior"])
        adversaries, confidence = _checked_adversaries(params["adversaries"])
        strategy, strategy_name = _named(params["strategy"], "strategy", STRATEGIES)
        noise, noise_name = _named(params["noise"], "noise", FAMILIES)
        settings = cls(
            notion=_notion(params["epsilon"], params["delta"], params["alpha"]),
            strategy=strategy,
            strategy_name=strategy_name,
            noise=noise() if isinstance(noise, type) else noise,
            noise_name=noise_name,
            sensitive=params["sensitive"],
            public=params["public"],
            secret_pairs=params["secret_pairs"],
            prior=prior,
            fit=fit,
            adversaries=adversaries,
            confidence=confidence,
            weights=_checked_weights(params["weights"]),
            dependence=params["dependence"],
            categories=_checked_mapping(params["categories"], "categories"),
            n_bins=_checked_bins(params["n_bins"]),
            missing=check_choice(params["missing"], "missing", ["error", "category", "propagate"]),
            output=check_choice(params["output"], "output", ["native", "noisy"]),
            remainder=check_choice(params["remainder"], "remainder", ["drop", "passthrough"]),
            seed=check_seed(params["random_state"]),
            n_jobs=_checked_jobs(params["n_jobs"]),
            releases=check_releases(params["releases"]),
        )
        settings._check_releases()
        settings._check_combination()
        settings._check_confidence()
        return settings

    def _check_releases(self) -> None:
        """Refuse several releases whose losses nobody knows together."""
        if self.releases == 1:
            return
        reason = why_not(self.noise, self.notion, self.strategy, self._has_mixtures)
        if reason is not None:
            raise ValueError(
                f"releases={self.releases} is not possible with noise={self.noise_name!r} and "
                f"strategy={self.strategy_name!r}: {reason}"
            )

    def _check_combination(self) -> None:
        """Refuse prior, strategy, noise and notion that have no bound together, whatever the data.

        The strategy itself is asked, about a pair of priors that leaves it no other reason.
        """
        if self.strategy not in STRATEGIES.values() and not isinstance(self.strategy, Relaxed):
            return  # a strategy from elsewhere is not asked about priors of ours
        trial = _TRIALS["mixture" if self._has_mixtures else "discrete"]
        bound = self.strategy([trial], self.noise.with_scale(1.0), self.notion)
        if isinstance(bound, Impossible):
            raise ValueError(bound.reason)

    def _check_confidence(self) -> None:
        """Refuse draws around mixtures that nothing is drawn for."""
        if self.confidence is None or not self._has_mixtures:
            return
        if self.prior is not None or self.fit.covariance == "common":
            what = "given" if self.prior is not None else "fitted with covariance='common'"
            raise ValueError(
                f"adversaries={self.confidence!r} needs priors that are drawn anew from the rows, "
                f"and prior= is {what}; use prior='gaussian' or 'gmm', or list further priors in "
                "adversaries=."
            )

    @property
    def _has_mixtures(self) -> bool:
        given = given_priors(self.prior)
        return self.fit is not None or any(isinstance(p, GaussianMixture) for p in given)

    def bins_of(self, name: Name) -> int | None:
        """Return the number of bins of a column, or None."""
        found = self.n_bins.get(name) if isinstance(self.n_bins, Mapping) else self.n_bins
        return None if found is None else int(found)


def _named(value: Any, argument: str, known: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the object that an argument names, or the object itself, and what to call it."""
    if isinstance(value, str):
        return known[check_choice(value, argument, known)], value
    if argument == "noise" and isinstance(value, KINDS):
        return value, _noise_name(value)
    if argument == "strategy" and callable(value) and not isinstance(value, type):
        return value, getattr(value, "__name__", repr(value))
    raise TypeError(
        f"{argument} must be one of {list(known)} or a {argument} object, got {value!r}."
    )


def _noise_name(noise: Noise) -> str:
    name = type(noise).__name__.lower()
    return f"{name}(k={noise.k:g})" if isinstance(noise, GeneralizedCauchy) else name


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
            "from a pure promise, which is delta=0."
        )
    if alpha is None:
        return Pufferfish(epsilon, delta)
    check_above(alpha, 1.0, "alpha")
    return RenyiPufferfish(epsilon, alpha, delta)


def _checked_prior(prior: Any) -> tuple[Mapping[Any, Any] | None, Any]:
    """Return the prior that is given, and how it is learnt where it is not."""
    if isinstance(prior, str):
        return None, FITS[check_choice(prior, "prior", FITS)]
    if isinstance(prior, GaussianFit | MixtureFit):
        return None, prior
    if not isinstance(prior, Mapping):
        raise TypeError(
            f"prior must be one of {list(FITS)}, a fits object, or a mapping "
            f"{{secret: prior object}}, got {prior!r}."
        )
    return prior, None


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
            f"{{secret: prior object}}, got {adversaries!r}."
        )
    sets = [each for each in adversaries if isinstance(each, ConfidenceSet)]
    if len(sets) > 1:
        raise ValueError(
            f"adversaries may hold one ConfidenceSet, got {sets!r}; the highest level includes "
            "the others."
        )
    further = [each for each in adversaries if not isinstance(each, ConfidenceSet)]
    return further, sets[0] if sets else None


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


def _checked_bins(n_bins: Any) -> Any:
    if n_bins is None:
        return None
    counts = n_bins.values() if isinstance(n_bins, Mapping) else [n_bins]
    for count in counts:
        check_count(count, "n_bins", minimum=2)
    return n_bins


def _checked_jobs(n_jobs: Any) -> int | None:
    if n_jobs is None:
        return None
    if isinstance(n_jobs, bool | np.bool_) or not isinstance(n_jobs, Integral):
        raise TypeError(f"n_jobs must be None or an integer, got {n_jobs!r}.")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; give a number of threads, or -1 for all cores.")
    return int(n_jobs)


def check_seed(random_state: Any) -> int | None:
    """Return the seed, or None; refuse a generator, whose state would replay its noise."""
    if random_state is None:
        return None
    if isinstance(random_state, bool | np.bool_) or not isinstance(random_state, Integral):
        raise TypeError(
            f"random_state must be None or an integer, got {random_state!r}; a generator would "
            "store its state and could replay its noise."
        )
    return check_count(random_state, "random_state", minimum=0)
