"""The pairs of secrets that are asked for: about values, presence or laws of users, in words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray, as_array, check_pairs, floats, on_one_line
from sklearn_puffer._sums.losses import with_mass
from sklearn_puffer._sums.reports import Reporters, in_steps
from sklearn_puffer._sums.settings import SumSettings, is_all
from sklearn_puffer._sums.users import User, UserPair, user_pairs
from sklearn_puffer.priors import Discrete, Prior


@dataclass(frozen=True)
class Asked:
    """Two secrets of one user, in words, and the laws of the user's report in whole steps."""

    pair: UserPair
    secret: str
    against: str


def asked_of(reporters: Reporters, settings: SumSettings) -> list[Asked]:
    """Return the pairs of secrets to protect.

    Raises
    ------
    TypeError, ValueError
        If there is nothing to protect, an argument does not go with the secrets, or a value is
        not in the alphabet.
    """
    _check_fitting(reporters, settings)
    return [_in_words(reporters, pair, settings) for pair in _pairs(reporters, settings)]


def _pairs(reporters: Reporters, settings: SumSettings) -> list[UserPair]:
    users, secrets, columns = reporters.in_steps, settings.secrets, settings.columns
    if columns.values is not None:
        return _declared_pairs(reporters, users, columns.values)
    if secrets == "distribution" and is_all(columns.alternatives):
        return _crossed_pairs(reporters, users)
    if secrets == "distribution":
        told = [k for k, user in enumerate(users) if user.alternative is not None] or [0]
        found = user_pairs([users[k] for k in told], secrets)
        return [replace(pair, user=told[pair.user]) for pair in found]
    return user_pairs(users, secrets, farthest_only=True)


def _check_fitting(reporters: Reporters, settings: SumSettings) -> None:
    """Refuse arguments that say nothing about the secrets, or contradict them."""
    secrets = settings.secrets
    sure = [k for k, user in enumerate(reporters.users) if user.presence == 1.0]
    if "absence" in secrets and sure:
        name = on_one_line(reporters.named(sure[0], settings.together))
        raise ValueError(
            f"secrets={secrets!r} protects whether {name} is present, and presence=1 says that "
            "this is certain: a missing report would be refused and any other answered, which "
            "tells the two apart; declare a presence below 1 (how far below does not matter), "
            "leave presence out, or protect secrets='value'."
        )
    alternatives, values = settings.columns.alternatives, settings.columns.values
    if alternatives is not None and secrets != "distribution":
        raise ValueError(
            f"alternatives={alternatives!r} goes with secrets='distribution', and secrets is "
            f"{secrets!r}; leave one of them out."
        )
    if values is not None and (secrets != "value" or settings.together):
        raise ValueError(
            f"values={values!r} goes with secrets='value' and unit='row', and secrets is "
            f"{secrets!r}; leave values out."
        )
    if secrets == "distribution" and alternatives is None and reporters.source is not None:
        raise ValueError(
            "secrets='distribution' of a table needs alternatives=: a mapping {class: class or "
            'prior object}, or "all" for every pair of classes.'
        )


def _declared_pairs(reporters: Reporters, users: Sequence[User], values: Any) -> list[UserPair]:
    """Return the pairs of values, for every class that may report both."""
    pairs = []
    for first, second in _checked_values(values):
        steps = in_steps([first, second], reporters.step, "values").astype(float)
        if steps[0] == steps[1]:
            raise ValueError(
                f"values holds ({first!r}, {second!r}), which is one value in steps of "
                f"{reporters.step!r}; drop that pair, or pass a finer step=."
            )
        found = [k for k, user in enumerate(users) if np.isin(steps, user.protected).all()]
        if not found:
            raise ValueError(
                f"values holds ({first!r}, {second!r}), and no user has both in the alphabet; "
                "name values that are reported."
            )
        laws = [Discrete.from_counts([step], [1]) for step in steps.tolist()]
        pairs += [UserPair(k, repr(first), repr(second), *laws) for k in found]
    return pairs


def _checked_values(values: Any) -> list[tuple[float, float]]:
    array = as_array(values, "values")
    pairs: FloatArray = floats(array.ravel(), "values").reshape(array.shape)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
        raise ValueError(f"values must be a list of pairs of numbers, got {values!r}.")
    return [(first, second) for first, second in pairs.tolist()]


def _crossed_pairs(reporters: Reporters, users: Sequence[User]) -> list[UserPair]:
    """Return every class against every other: a user of the one who follows the law of the other.

    Both orders count: the other users are those left when a user of the first class is taken out.
    """
    if len(users) < 2:
        raise ValueError("alternatives='all' needs two classes at least; name columns in by=.")
    labels = reporters.labels
    check_pairs(
        len(users) * (len(users) - 1),
        f"alternatives='all' and {len(users):,} classes",
        "name fewer columns in by=, or map each class to its alternative",
    )
    return [
        UserPair(i, str(labels[i]), str(labels[j]), users[i].law, users[j].law)
        for i, j in itertools.permutations(range(len(users)), 2)
    ]


def _in_words(reporters: Reporters, pair: UserPair, settings: SumSettings) -> Asked:
    secrets = settings.secrets
    name = reporters.named(pair.user, settings.together)
    if secrets.startswith("value"):
        first, second = (_only_atom(law) * reporters.step for law in (pair.p, pair.q))
        against = f"reports {second:g}" if secrets == "value" else "is absent"
        return Asked(pair, f"{name} reports {first:g}", f"{name} {against}")
    if secrets == "distribution-absence":
        return Asked(pair, f"{name} is present", f"{name} is absent")
    other = "its alternative" if pair.against == "alternative" else f"the law of {pair.against}"
    return Asked(pair, f"{name} follows its law", f"{name} follows {other}")


def _only_atom(law: Prior) -> float:
    return float(with_mass(law)[0])
