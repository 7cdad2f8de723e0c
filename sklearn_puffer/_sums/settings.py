"""The parameters of `PufferfishSum`, checked as far as that needs no data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn_puffer._base import (
    check_choice,
    check_delta,
    check_positive,
    check_seed,
    listed,
    plain,
    quoted,
)
from sklearn_puffer._noise import SPARE, sampler_loss
from sklearn_puffer._releases import MOST_RELEASES, check_releases
from sklearn_puffer._sums.users import SECRETS, User
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete

#: The names of the published conditions; not every one applies to every set of secrets.
CONDITIONS = (
    "theorem_1",
    "theorem_2",
    "theorem_3_eq14",
    "theorem_3_eq13",
    "theorem_4",
    "lemma_1",
    "lemma_2",
    "lemma_2_both_ends",
    "relaxed",
    "corollary_1a",
    "corollary_1b",
)
_STRATEGIES = ("exact", "worst_case", "published", *CONDITIONS)
_LEAST_EPSILON = 1e-8  # less is lost in the rounding of the noise
_MOST_EPSILON = 1e100


@dataclass(frozen=True)
class SumSettings:
    """The estimator's parameters, checked as far as that needs no data."""

    notion: Pufferfish
    secrets: str
    query: str
    strategy: str
    together: bool
    columns: TableChoice
    step: float | None
    releases: int
    seed: int | None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> SumSettings:
        """Return the parameters.

        Raises
        ------
        TypeError, ValueError
            Naming the argument, its value and the way out.
        """
        check_choice(params["on_uncertified"], "on_uncertified", ["raise", "warn"])
        epsilon = check_positive(params["epsilon"], "epsilon")
        if epsilon < _LEAST_EPSILON:
            raise ValueError(
                f"epsilon must be at least {_LEAST_EPSILON:g}, got {epsilon!r}: less is lost in "
                "the rounding of the noise; choose a larger budget."
            )
        if epsilon > _MOST_EPSILON:
            raise ValueError(
                f"epsilon must be at most {_MOST_EPSILON:g}, got {epsilon!r}, which promises "
                "nothing; choose a budget in nats, such as 1.0."
            )
        return cls(
            notion=Pufferfish(epsilon, check_delta(params["delta"], "delta")),
            secrets=check_choice(params["secrets"], "secrets", SECRETS),
            query=check_choice(params["query"], "query", ["sum", "mean", "count"]),
            strategy=check_choice(params["strategy"], "strategy", _STRATEGIES),
            together=check_choice(params["unit"], "unit", ["row", "class"]) == "class",
            columns=TableChoice(
                **{name: params[name] for name in TableChoice.__dataclass_fields__}
            ),
            step=None if params["step"] is None else check_positive(params["step"], "step"),
            releases=check_releases(params["releases"]),
            seed=check_seed(params["random_state"]),
        )

    @property
    def draws(self) -> int:
        """How many answers there may be, as far as the sampler's error is paid for.

        More than are planned: a ledger may choose more of them, at larger scales.
        """
        spare = SPARE * self.notion.epsilon / sampler_loss(1)
        return self.releases + math.floor(min(spare, MOST_RELEASES))

    def notion_for_law(self, drawing: float) -> Pufferfish:
        """Return what the continuous law must keep, where drawing adds this much to a pure loss."""
        if not drawing < self.notion.epsilon:
            raise ValueError(
                f"epsilon={self.notion.epsilon!r} is less than the {drawing:.3g} that drawing the "
                f"noise of releases={self.releases} may lose; raise epsilon, or plan fewer "
                "releases."
            )
        return self.notion.for_law(drawing)


@dataclass(frozen=True)
class TableChoice:
    """The arguments that say how a table becomes users; users bring these with them."""

    value: Any
    by: Any
    alternatives: Any
    values: Any
    presence: Any

    def check_unused(self) -> None:
        """Refuse arguments that are for tables only."""
        for name, value in vars(self).items():
            if value is not None:
                raise ValueError(
                    f"{name}={value!r} is for tables, and users were given; say it in User(...), "
                    "or pass a DataFrame."
                )

    def completed(self, users: tuple[User, ...], labels: tuple[Any, ...]) -> tuple[User, ...]:
        """Return the users with the alternatives and probabilities that were declared."""
        presence = dict.fromkeys(labels, self.presence)
        if isinstance(self.presence, Mapping):
            presence = _by_label(self.presence, labels, "presence")
        others = {}
        if self.alternatives is not None and not is_all(self.alternatives):
            if not isinstance(self.alternatives, Mapping):
                raise TypeError(
                    'alternatives must be "all" or a mapping {class: class or prior object}, got '
                    f"{self.alternatives!r}."
                )
            others = _by_label(self.alternatives, labels, "alternatives")
        laws = {label: self._law(other, users, labels) for label, other in others.items()}
        return tuple(
            replace(
                user,
                alternative=laws.get(label),
                presence=presence.get(label),
            )
            for user, label in zip(users, labels, strict=True)
        )

    def _law(self, other: Any, users: Sequence[User], labels: Sequence[Any]) -> Discrete:
        if isinstance(other, Discrete):
            return other
        law = users[class_of(other, labels, "alternatives")].law
        assert isinstance(law, Discrete)
        return law


def is_all(alternatives: Any) -> bool:
    """Return whether every class is an alternative of every other."""
    return isinstance(alternatives, str) and alternatives == "all"


def _by_label(given: Mapping[Any, Any], labels: Sequence[Any], argument: str) -> dict[Any, Any]:
    return {labels[class_of(label, labels, argument)]: value for label, value in given.items()}


def class_of(label: Any, labels: Sequence[Any], argument: str) -> int:
    """Return the position of a class."""
    label = plain(label)
    for k, known in enumerate(labels):
        if known == label and isinstance(known, str) == isinstance(label, str):
            return k
    raise ValueError(
        f"{argument} names class {quoted(label)}, which is not there; the classes are "
        f"{listed(labels, 10)}."
    )
