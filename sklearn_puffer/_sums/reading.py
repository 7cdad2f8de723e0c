"""Reading the users, once: as they are given, or as the classes of a table's rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, listed, on_one_line
from sklearn_puffer._sums.reports import (
    GaussianReporters,
    Reporters,
    Source,
    gaussian_classes,
)
from sklearn_puffer._sums.settings import SumSettings, is_all
from sklearn_puffer._sums.users import User, check_users, common_step
from sklearn_puffer._tables import Values, check_whole, distinct, frame_table, is_frame, resolve
from sklearn_puffer.priors import Discrete, GaussianMixture

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
