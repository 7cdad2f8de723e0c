"""The estimator's parameters, checked as far as that needs no data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np

from sklearn_puffer._validation import check_choice, check_count, check_positive
from sklearn_puffer.bounds import Strategy
from sklearn_puffer.calibration import STRATEGIES
from sklearn_puffer.columns import Missing
from sklearn_puffer.frame import Name
from sklearn_puffer.noise import FAMILIES, Noise
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.release import Output

_LEAST_EPSILON = 1e-8


@dataclass(frozen=True)
class Settings:
    """The estimator's parameters, checked as far as that needs no data."""

    notion: Pufferfish
    strategy: Strategy
    strategy_name: str
    noise: Noise
    noise_name: str
    sensitive: Any
    public: Any
    secret_pairs: Any
    prior: Any
    adversaries: Sequence[Any]
    dependence: Any
    categories: Mapping[Any, Sequence[Any]]
    n_bins: Any
    missing: Missing
    output: Output
    remainder: Literal["drop", "passthrough"]
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
        check_choice(params["unknown"], "unknown", ["error", "nearest"])
        check_choice(params["on_uncertified"], "on_uncertified", ["raise", "warn"])
        _check_epsilon(params["epsilon"])
        strategy, strategy_name = _named(params["strategy"], "strategy", STRATEGIES)
        noise, noise_name = _named(params["noise"], "noise", FAMILIES)
        return cls(
            notion=Pufferfish(params["epsilon"]),
            strategy=strategy,
            strategy_name=strategy_name,
            noise=noise() if isinstance(noise, type) else noise,
            noise_name=noise_name,
            sensitive=params["sensitive"],
            public=params["public"],
            secret_pairs=params["secret_pairs"],
            prior=_checked_prior(params["prior"]),
            adversaries=_checked_adversaries(params["adversaries"]),
            dependence=params["dependence"],
            categories=_checked_mapping(params["categories"], "categories"),
            n_bins=_checked_bins(params["n_bins"]),
            missing=check_choice(params["missing"], "missing", ["error", "category", "propagate"]),
            output=check_choice(params["output"], "output", ["native", "noisy"]),
            remainder=check_choice(params["remainder"], "remainder", ["drop", "passthrough"]),
            seed=check_seed(params["random_state"]),
            n_jobs=_checked_jobs(params["n_jobs"]),
        )

    def bins_of(self, name: Name) -> int | None:
        """Return the number of bins of a column, or None."""
        found = self.n_bins.get(name) if isinstance(self.n_bins, Mapping) else self.n_bins
        return None if found is None else int(found)


def _named(value: Any, argument: str, known: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the object that an argument names, or the object itself, and what to call it."""
    if isinstance(value, str):
        return known[check_choice(value, argument, known)], value
    if isinstance(value, tuple(t for t in known.values() if isinstance(t, type)) or ()):
        return value, type(value).__name__.lower()
    if argument == "strategy" and callable(value) and not isinstance(value, type):
        return value, getattr(value, "__name__", repr(value))
    raise TypeError(
        f"{argument} must be one of {list(known)} or a {argument} object, got {value!r}."
    )


def _check_epsilon(epsilon: Any) -> None:
    way_out = "choose a budget in nats, such as 1.0"
    if check_positive(epsilon, "epsilon", way_out) < _LEAST_EPSILON:
        raise ValueError(
            f"epsilon must be at least {_LEAST_EPSILON:g}, got {epsilon!r}: less is lost in the "
            f"rounding of the noise; {way_out}."
        )


def _checked_prior(prior: Any) -> Any:
    if isinstance(prior, str):
        return check_choice(prior, "prior", ["empirical"])
    if not isinstance(prior, Mapping):
        raise TypeError(
            f'prior must be "empirical" or a mapping {{secret: prior object}}, got {prior!r}.'
        )
    return prior


def _checked_adversaries(adversaries: Any) -> list[Any]:
    if adversaries is None:
        return []
    if not isinstance(adversaries, Sequence) or isinstance(adversaries, str):
        raise TypeError(
            "adversaries must be None or a list of mappings {secret: prior object}, "
            f"got {adversaries!r}."
        )
    return list(adversaries)


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
