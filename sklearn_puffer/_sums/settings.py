"""The parameters of `PufferfishSum`, checked as far as that needs no data.

Reading the users, once: as they are given, or as the classes of a table's rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sklearn_puffer._base import (
    Array,
    check_choice,
    check_delta,
    check_positive,
    check_seed,
    listed,
    on_one_line,
    plain,
    quoted,
)
from sklearn_puffer._noise import SPARE, sampler_loss
from sklearn_puffer._releases import MOST_RELEASES, check_releases
from sklearn_puffer._sums.reports import GaussianReporters, Reporters, Source, gaussian_classes
from sklearn_puffer._sums.users import SECRETS, User, check_users, common_step
from sklearn_puffer._tables import Values, check_whole, distinct, frame_table, is_frame, resolve
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture

#: The names of the published conditions; not every one applies to every set of secrets.
CONDITIONS = (
    "theorem_1_of_001",
    "theorem_2_of_001",
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
# What estimators that were saved call them; 003 has theorems of these numbers, too.
_BEFORE = {"theorem_1": "theorem_1_of_001", "theorem_2": "theorem_2_of_001"}
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
            strategy=_strategy(params["strategy"]),
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


def _strategy(name: Any) -> str:
    """Return the name of a strategy, which may be one of before."""
    if isinstance(name, str) and name in _BEFORE:
        return _BEFORE[name]
    return str(check_choice(name, "strategy", _STRATEGIES))


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


_MOST = 2.0**61  # sums lie within this many steps, with room for the noise in 64 bits
_OF_GAUSSIANS = ("distribution-absence", "value", "value-absence")


def read_reports(X: Any, settings: SumSettings) -> Reporters:
    """Return who reports, from users or from a table.

    Raises
    ------
    TypeError, ValueError
        Naming the argument or column, its value and the way out.
    """
    if _has_gaussians(X):
        return _read_gaussians(X, settings)
    if settings.notion.delta > 0.0:
        raise ValueError(
            f"delta={settings.notion.delta!r} is for Gaussian users: discrete reports keep a pure "
            "promise; use delta=0."
        )
    made = _read_discrete(X, settings)
    if settings.query == "count":
        _check_binary(made)
    return made


def _read_users(X: Any) -> tuple[tuple[User, ...], tuple[Any, ...]]:
    """Return a sequence of users, and what to call them."""
    if isinstance(X, str | np.ndarray) or not isinstance(X, Sequence):
        raise TypeError(
            "users must be a sequence of users.User objects, or a DataFrame with value= the column "
            f"to sum, got {type(X).__name__}."
        )
    users = check_users(X)
    return tuple(users), _labels_of(users)


def _labels_of(users: Sequence[User]) -> tuple[Any, ...]:
    """Return what to call users: their names, or their positions where these are not unique."""
    names = [user.name for user in users]
    unique = len(set(names)) == len(names) and None not in names
    return tuple(names) if unique else tuple(range(len(users)))


def _read_table(X: Any, value: Any, by: Any) -> tuple[tuple[User, ...], tuple[Any, ...], Source]:
    """Return the classes of a table's rows as users, what to call them, and the columns read."""
    table = frame_table(X)
    if value is None:
        raise ValueError("value is None; name the numeric column that is summed, value='age'.")
    if not table.n_rows:
        raise ValueError("users is a table of 0 rows; give at least one row.")
    summed = resolve(value, table.names, "value")
    if len(summed) > 1:
        raise ValueError(f"value must name one column, got {listed(summed)}; sum one at a time.")
    source = Source(summed[0], () if by is None else tuple(resolve(by, table.names, "by")))
    if source.value in source.by:
        raise ValueError(f"column {source.value!r} is in both value and by; name another in by.")
    labels, codes = source.classes(table)
    values = source.values(table)
    check_whole(values, source.value)
    users = tuple(
        User(Discrete.from_counts(*distinct(Values(values.kind, part))), count=len(part))
        for part in _split_by(values.data, codes)
    )
    return users, tuple(labels), source


def _split_by(values: Array, codes: Array) -> list[Array]:
    """Return the values of each code, in ascending order of the codes; each occurs."""
    order = np.argsort(codes, kind="stable")
    return np.split(values[order], np.cumsum(np.bincount(codes))[:-1])


def _read_discrete(X: Any, settings: SumSettings) -> Reporters:
    columns, secrets = settings.columns, settings.secrets
    source = None
    if is_frame(X):
        users, labels, source = _read_table(X, columns.value, columns.by)
        users = columns.completed(users, labels)
    else:
        columns.check_unused()
        users, labels = _read_users(X)
    found = common_step(users) if settings.step is None else settings.step
    crossed = secrets == "distribution" and is_all(columns.alternatives)
    made = Reporters(users, labels, secrets, found, source, crossed)
    if not made.reach <= _MOST:
        raise ValueError(
            f"step={found!r} is too fine: sums of these reports lie up to {made.reach:.3g} steps "
            f"from 0, and {_MOST:.3g} is the limit; pass a coarser step."
        )
    if made.reach == 0.0 and any(law.atoms.any() for user in users for law in made.laws(user)):
        raise ValueError(
            f"step={found!r} is too coarse: every report rounds to 0; pass a finer step, or None."
        )
    return made


def _has_gaussians(X: Any) -> bool:
    """Return whether these are users some of whom have Gaussian laws."""
    return isinstance(X, Sequence) and any(
        isinstance(law, GaussianMixture)
        for user in X
        if isinstance(user, User)
        for law in (user.law, user.alternative)
    )


def _read_gaussians(users: Sequence[User], settings: SumSettings) -> GaussianReporters:
    settings.columns.check_unused()
    for k, user in enumerate(users):
        if isinstance(user, User) and isinstance(user.law, Discrete):
            raise ValueError(
                f"users[{k}] has a discrete law, and other laws are Gaussian: their sums are not "
                "calibrated together; give all users discrete laws, in whole steps."
            )
    gaussian_classes(users)
    if settings.secrets not in _OF_GAUSSIANS:
        raise ValueError(
            f"secrets={settings.secrets!r} is not for Gaussian users, of whom 003, Corollary 1 "
            f"knows {list(_OF_GAUSSIANS)}; round the reports to a step, and use discrete laws."
        )
    if settings.query == "count":
        raise ValueError(
            "query='count' adds up reports of 0 and 1, and Gaussian users report any numbers; use "
            "query='sum'."
        )
    if settings.step is not None:
        raise ValueError(
            f"step={settings.step!r} is for discrete users; the sum of Gaussian users is rounded "
            "to the grid of its noise: leave step out."
        )
    return GaussianReporters(tuple(users), _labels_of(users), settings.secrets, 1.0)


def _check_binary(who: Reporters) -> None:
    for k, user in enumerate(who.users):
        strange = [x for law in who.laws(user) for x in law.atoms.tolist() if x not in (0.0, 1.0)]
        if strange:
            raise ValueError(
                f"query='count' adds up reports of 0 and 1, and {on_one_line(who.named(k))} may "
                f"report {strange[0]!r}; use query='sum', or report whether something is so."
            )
