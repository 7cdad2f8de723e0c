r"""The settings of a `PufferfishSum`: its parameters, the users who report, and the secret pairs.

Users are given, or are the classes of a table's rows. `in_steps` rounds both their distributions
and the reports that are summed, so that the guarantee is about what is released.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

import numpy as np

from sklearn_puffer._base import (
    Array,
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_positive,
    check_seed,
)
from sklearn_puffer._codes import combined, distinct, read_secret, resolve
from sklearn_puffer._noise import SPARE, sampler_loss
from sklearn_puffer._rows import MOST_RELEASES, Guarantee
from sklearn_puffer._sums.published import CONDITIONS
from sklearn_puffer._sums.users import SECRETS, User, UserPair, with_mass
from sklearn_puffer._tables import (
    Name,
    Table,
    Values,
    beside,
    frame_table,
    is_frame,
    readable_column,
)
from sklearn_puffer._words import listed, on_one_line, plain, quoted
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete

PUBLISHED = (*CONDITIONS, "corollary_1a", "corollary_1b")
_STRATEGIES = ("exact", "worst_case", "published", *PUBLISHED)
_FOR_TABLES = ("value", "by", "alternatives", "presence")
_MOST_EPSILON = 1e100


@dataclass(frozen=True)
class SumSettings:
    """The estimator's parameters, with all checks that need no data."""

    notion: Pufferfish
    secrets: str
    query: str
    strategy: str
    together: bool
    step: float | None
    releases: int
    seed: int | None
    table: Mapping[str, Any]  # parameters that are for tables only

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> SumSettings:
        """Check the parameters."""
        guarantee = Guarantee.of(params)
        notion = cast(Pufferfish, guarantee.notion)  # there is no alpha
        if notion.epsilon > _MOST_EPSILON:
            raise ValueError(
                f"epsilon must be at most {_MOST_EPSILON:g}, got {params['epsilon']!r}, which "
                "guarantees nothing; choose a budget in nats, such as 1.0."
            )
        return cls(
            notion=notion,
            secrets=check_choice(params["secrets"], "secrets", SECRETS),
            query=check_choice(params["query"], "query", ["sum", "mean", "count"]),
            strategy=check_choice(params["strategy"], "strategy", _STRATEGIES),
            together=check_choice(params["unit"], "unit", ["row", "class"]) == "class",
            step=None if params["step"] is None else check_positive(params["step"], "step"),
            releases=guarantee.releases,
            seed=check_seed(params["random_state"]),
            table={name: params[name] for name in _FOR_TABLES},
        )

    @property
    def draws(self) -> int:
        """How many answers the budget for the sampler's error covers.

        They are more than ``releases``: a ledger may choose more answers at larger scales.
        """
        spare = SPARE * self.notion.epsilon / sampler_loss(1)
        return self.releases + math.floor(min(spare, MOST_RELEASES))

    def notion_for_distribution(self, drawing: float) -> Pufferfish:
        """Return the notion for continuous noise if drawing it adds so much to a pure loss."""
        if not drawing < self.notion.epsilon:
            raise ValueError(
                f"epsilon={self.notion.epsilon!r} is less than the {drawing:.3g} that drawing the "
                f"noise of releases={self.releases} may lose; raise epsilon, or plan fewer "
                "releases."
            )
        return self.notion.for_distribution(drawing)


def check_no_table(settings: SumSettings) -> None:
    """Refuse arguments that are for tables only."""
    given = [f"{name}={value!r}" for name, value in settings.table.items() if value is not None]
    if given:
        raise ValueError(
            f"{given[0]} is for tables, and users were given; say it in User(...), or pass a "
            "DataFrame."
        )


def _completed(
    users: Sequence[User], labels: Sequence[Any], settings: SumSettings
) -> tuple[User, ...]:
    """Return the users with the alternatives and probabilities that were declared."""
    alternatives, priors = settings.table["alternatives"], {}
    if not isinstance(alternatives, Mapping | None):
        raise TypeError(
            "alternatives must be a mapping {class: class or prior object}, got "
            f"{alternatives!r}."
        )
    for label, other in (alternatives or {}).items():
        if not isinstance(other, Discrete):
            other = users[_class_of(other, labels)].law
        priors[_class_of(label, labels)] = other
    presence = settings.table["presence"]
    return tuple(
        replace(user, alternative=priors.get(k), presence=presence) for k, user in enumerate(users)
    )


def _class_of(label: Any, labels: Sequence[Any]) -> int:
    """Return the position of a class."""
    label = plain(label)
    for k, existing in enumerate(labels):
        if existing == label and isinstance(existing, str) == isinstance(label, str):
            return k
    raise ValueError(
        f"alternatives names class {quoted(label)}, which does not exist; the classes are "
        f"{listed(labels, 10)}."
    )


_MOST = 2.0**61  # sums lie within this many steps, with room for the noise in 64 bits


def read_reports(X: Any, settings: SumSettings) -> Reporters:
    """Read users with discrete distributions, who are given or the classes of a table."""
    if settings.notion.delta > 0.0:
        raise ValueError(
            f"delta={settings.notion.delta!r} is for Gaussian users: discrete reports keep a pure "
            "guarantee; use delta=0."
        )
    if is_frame(X):
        return _on_steps(*_read_table(X, settings), settings)
    check_no_table(settings)
    return _on_steps(tuple(X), labels_of(X), None, settings)


def labels_of(users: Sequence[User]) -> tuple[Any, ...]:
    """Return the labels of users: their names, or their positions where names are not unique."""
    names = [user.name for user in users]
    unique = len(set(names)) == len(names) and None not in names
    return tuple(names) if unique else tuple(range(len(users)))


def _read_table(X: Any, settings: SumSettings) -> tuple[tuple[User, ...], tuple[Any, ...], Source]:
    """Return the classes of a table's rows as users, their labels, and the columns read."""
    table, value, by = frame_table(X), settings.table["value"], settings.table["by"]
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
    values = numeric_values(table, source.value)
    values.check_whole(source.value)
    order = np.argsort(codes, kind="stable")
    parts = np.split(values.data[order], np.cumsum(np.bincount(codes))[:-1])  # one for each class
    users = [
        User(Discrete.from_counts(*distinct(Values(values.kind, part))), count=len(part))
        for part in parts
    ]
    return _completed(users, labels, settings), tuple(labels), source


def _on_steps(
    users: tuple[User, ...], labels: tuple[Any, ...], source: Source | None, settings: SumSettings
) -> Reporters:
    """Return discrete users, whose reports are rounded to a step."""
    step = common_step(users) if settings.step is None else settings.step
    made = Reporters(users, labels, settings.secrets, step, source)
    if not made.reach <= _MOST:
        raise ValueError(
            f"step={step!r} is too fine: sums of these reports lie up to {made.reach:.3g} steps "
            f"from 0, and {_MOST:.3g} is the limit; pass a coarser step."
        )
    if made.reach == 0.0 and any(made.possible(user).any() for user in users):
        raise ValueError(
            f"step={step!r} is too coarse: every report rounds to 0; pass a finer step, or None."
        )
    if settings.query != "count":
        return made
    for k, user in enumerate(users):
        atoms = np.concatenate([prior.atoms for prior in distributions(user)])
        strange = atoms[~np.isin(atoms, (0.0, 1.0))].tolist()
        if strange:
            raise ValueError(
                f"query='count' adds up reports of 0 and 1, and {on_one_line(made.named(k))} may "
                f"report {strange[0]!r}; use query='sum', or report 1 for yes and 0 for no."
            )
    return made


# -------------------------------------------------------------------------------------- who reports


# Values that are larger multiples of a step have no useful common step: they are no decimals.
_MAX_MULTIPLE = 2**40
_FARTHEST = 2.0**53  # up to here floats count steps exactly


def common_step(users: Sequence[User]) -> float:
    """Return a step of which every value that a user may report is a multiple.

    It is 1 where all values are integers, and otherwise the largest step there is, with floats
    read as the decimals they are printed as: 0.1 for 0.1, 0.2 and 0.7. Values without mass count.

    >>> from sklearn_puffer.priors import Discrete
    >>> from sklearn_puffer.users import User
    >>> common_step([User(Discrete([0, 3], [0.5, 0.5])), User(Discrete([7], [1.0]))])
    1.0
    >>> common_step([User(Discrete([0.01, 0.25], [0.5, 0.5]))])
    0.01
    """
    parts = [prior.atoms for user in users for prior in distributions(user)]
    parts += [user.protected for user in users if user.values is not None]
    step = step_of(np.concatenate(parts)) if parts else 1.0
    return 1.0 if step.is_integer() else step


def step_of(values: FloatArray) -> float:
    """Return the largest step of which all ``values`` are multiples; 1 where all are zero.

    >>> import numpy as np
    >>> step_of(np.array([6.0, -9.0])), step_of(np.array([0.5, 0.75]))
    (3.0, 0.25)
    """
    distinct = np.unique(np.abs(values))
    distinct = distinct[distinct > 0.0]
    if not distinct.size:
        return 1.0
    largest = Fraction(float(distinct[-1]))
    read = [Fraction(repr(value)) for value in distinct.tolist()]  # as decimals
    for exact in ([Fraction(value) for value in distinct.tolist()], read):
        # the greatest common divisor of fractions in lowest terms
        step = Fraction(
            math.gcd(*(x.numerator for x in exact)), math.lcm(*(x.denominator for x in exact))
        )
        if largest <= step * _MAX_MULTIPLE:
            return float(step)
    irregular = float(distinct[int(np.argmax([x.denominator for x in read]))])
    other = next(value for value in distinct.tolist()[::-1] if value != irregular)
    raise ValueError(
        f"values must be whole numbers of one common step, and {irregular!r} fits none that "
        f"{other!r} fits too; round the reports: pass step= to PufferfishSum."
    )


def distributions(user: User) -> list[Discrete]:
    """Return the discrete distributions that a user's report may follow."""
    return [prior for prior in (user.law, user.alternative) if isinstance(prior, Discrete)]


def in_steps(values: Any, step: float, what: str) -> IntArray:
    """Return floor(x/step + 1/2): halves of the float x/step go up. ``what`` names the values.

    >>> in_steps([0.75, 0.625, -0.625], 0.25, "reports").tolist()
    [3, 3, -2]
    """
    numbers = np.asarray(values, dtype=float)
    with np.errstate(over="ignore", invalid="ignore"):
        quotient = numbers / step
    wrong = ~(np.abs(quotient) < _FARTHEST)  # where integers round to, too
    if wrong.any():
        bad = float(numbers[wrong].flat[0])
        raise ValueError(
            f"{what} contain {bad!r}, which is not finite or too many steps of {step!r} away from "
            "0; leave it out, or pass a coarser step=."
        )
    floor = np.floor(quotient)
    return (floor + (quotient - floor >= 0.5)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Source:
    """The columns of a table that users were learnt from."""

    value: Name
    by: tuple[Name, ...]

    def classes(self, table: Table) -> tuple[list[Any], Array]:
        """Return the labels of the classes in ascending order, and the code of each row."""
        if not self.by:
            return ["row"], np.zeros(table.n_rows, dtype=np.intp)
        columns = []
        for name in self.by:
            values = table.values(name)
            values.check_whole(name)
            columns.append((read_secret(name, values, "error"), table.n_rows))
        found = combined(columns)
        return list(found.labels), found.codes(table.n_rows)


@dataclass(frozen=True, eq=False)
class Reporters:
    """The users, class by class, and how their reports are counted.

    There is one user for each class, in the units of the reports, and a class has ``count`` users.
    Labels are positions, names, or values of the columns of ``source``, the table that the users
    were learnt from.
    """

    users: tuple[User, ...]
    labels: tuple[Any, ...]
    secrets: str
    step: float
    source: Source | None = None

    @property
    def sensitive(self) -> Name:
        """The columns that the secrets are about, or "user"."""
        if self.source is None or not self.source.by:
            return "user"
        by = self.source.by
        return by[0] if len(by) == 1 else ", ".join(map(str, by))

    def named(self, k: int, together: bool = False) -> str:
        """Return the name of one user of class k for a message, or of each of them."""
        if self.source is None and self.users[k].count == 1:
            return f"user {self.labels[k]}"
        if self.source is None:
            members = f"the users {self.labels[k]}"
        else:
            members = f"{self.sensitive} {self.labels[k]}" if self.source.by else "the rows"
        return f"{'each' if together else 'one'} of {members}"

    @cached_property
    def always_present(self) -> BoolArray:
        """Whether each user is never absent; False where absence is a secret."""
        secret = "absence" in self.secrets
        return np.array([not secret and user.presence in (None, 1.0) for user in self.users])

    @property
    def n_reports(self) -> int:
        """Number of reports that are summed."""
        return sum(user.count for user in self.users)

    @property
    def reach(self) -> float:
        """A bound, in steps, on the sum of any reports that are accepted."""
        farthest = max(float(np.abs(atoms).max()) for atoms in map(self.accepted, self.users))
        return self.n_reports * farthest

    @cached_property
    def users_in_steps(self) -> list[User]:
        """The users with everything that they report in whole steps."""
        return [self._in_steps(user) for user in self.users]

    def _in_steps(self, user: User) -> User:
        law, *alternative = (
            prior.moved(in_steps(prior.atoms, self.step, "distributions").astype(float))
            for prior in distributions(user)
        )
        values = None if user.values is None else self._steps_of(user.values).astype(float)
        return replace(user, law=law, alternative=next(iter(alternative), None), values=values)

    def _steps_of(self, values: Any) -> IntArray:
        return np.unique(in_steps(values, self.step, "values"))

    def accepted(self, user: User) -> IntArray:
        """Return the reports, in steps, that a user may hand in.

        A report with mass under a protected alternative is never refused: the refusal would tell
        which of the two distributions it is from.
        """
        return self._steps_of(self.possible(user))

    def possible(self, user: User) -> FloatArray:
        """Return the values that a user may report, before they are rounded to steps."""
        priors = distributions(user)
        values = list(map(with_mass, priors if self.secrets == "distribution" else priors[:1]))
        if self.secrets.startswith("value"):  # a declared value needs no mass
            values.append(user.protected)
        return np.concatenate(values)

    @property
    def deviation(self) -> float:
        """Standard deviation of the sum, in steps."""
        total = 0.0
        for user in self.users_in_steps:
            prior: Any = user.law
            mean = float(prior.probabilities @ prior.atoms)
            total += user.count * float(prior.probabilities @ (prior.atoms - mean) ** 2)
        return math.sqrt(total)

    def fingerprint_parts(self) -> Iterator[bytes]:
        """Yield what identifies these reports in a fingerprint."""
        for label, user in zip(self.labels, self.users, strict=True):
            yield repr([plain(label), user.count, self.accepted(user).tolist()]).encode()

    def total(self, reports: Any) -> int | Fraction:
        """Return the sum of the reports in steps; an absent user adds nothing."""
        values, classes = self.of_present_users(reports)
        steps = in_steps(values, self.step, "values")
        order = np.argsort(classes, kind="stable")
        firsts = np.searchsorted(classes[order], np.arange(1, len(self.users)))
        parts = zip(np.split(steps[order], firsts), self.users, strict=True)
        strange = np.empty(len(steps), dtype=bool)
        strange[order] = np.concatenate([~np.isin(x, self.accepted(user)) for x, user in parts])
        why = (
            "which its distribution does not have; correct the report, or fit on a distribution "
            "that has it."
        )
        self._refuse(strange, values, classes, why)
        return int(steps.sum())

    def _refuse(self, strange: BoolArray, values: FloatArray, classes: Array, why: str) -> None:
        if strange.any():
            first = int(strange.argmax())
            who = on_one_line(self.named(int(classes[first])))
            raise ValueError(f"{who} reports {float(values[first])!r}, {why}")

    def of_present_users(self, reports: Any) -> tuple[FloatArray, Array]:
        """Return the reports of those who are present, and their classes."""
        values, classes = self._read(reports)
        gone = np.isnan(values)
        wrong = classes[gone & self.always_present[classes]]
        if wrong.size:
            who = on_one_line(self.named(int(wrong[0])))
            raise ValueError(
                f"a report of {who} is missing, and presence= says that none ever is; fill it, "
                "or declare a presence below 1 and fit again."
            )
        return values[~gone], classes[~gone]

    def _read(self, reports: Any) -> tuple[FloatArray, Array]:
        """Return the reports, NaN where one is missing, and their classes."""
        reports = readable_column(reports, "values")
        if self.source is not None and is_frame(reports):
            return self._read_table(reports, self.source)
        values, *more = beside(reports, self.n_reports, None, "values", numeric_values).values()
        if more:
            raise ValueError("values must be one number for each user, got a table; pass a list.")
        if self.source is not None and len(self.users) > 1:
            raise ValueError(
                "values is one column, and by= says whose distribution a report follows; pass the "
                "table, which tells the classes apart."
            )
        classes = np.repeat(np.arange(len(self.users)), [user.count for user in self.users])
        return column_floats(values), classes

    def _read_table(self, reports: Any, source: Source) -> tuple[FloatArray, Array]:
        table = frame_table(reports)
        absent = [name for name in (source.value, *source.by) if name not in table.names]
        if absent:
            raise ValueError(
                f"values lacks column {listed(absent, len(absent))} of fit; its columns are "
                f"{listed(list(table.names), 10)}."
            )
        labels, codes = source.classes(table)
        tally = np.bincount(codes, minlength=len(labels)).tolist()
        counts = dict(zip(labels, tally, strict=True))
        expected = {x: user.count for x, user in zip(self.labels, self.users, strict=True)}
        for label in {**counts, **expected}:
            if counts.get(label, 0) != expected.get(label, 0):
                raise ValueError(
                    f"values has {counts.get(label, 0)} row(s) of class {quoted(label)} and fit "
                    f"had {expected.get(label, 0)}; release the rows of fit, with missing values "
                    "for those who are absent, or fit again."
                )
        index = {label: k for k, label in enumerate(self.labels)}
        classes = np.array([index[label] for label in labels])[codes]
        return column_floats(numeric_values(table, source.value)), classes


@dataclass(frozen=True, eq=False)
class UserSum:
    """Users, and the pairs of secrets about them that are protected.

    ``together`` says that the users of a class leave or change together.
    """

    reports: Reporters
    pairs: list[UserPair]
    together: bool


def numeric_values(table: Table, name: Name) -> Values:
    """Return a column of numbers or booleans."""
    values = table.values(name).of_kind("float")
    if values.kind == "category":
        raise TypeError(
            f"column {name!r} is not numeric (its values are {listed(values.levels or ())}); name "
            "another one, or code its values as numbers."
        )
    if values.kind == "integer":
        values.check_exact(name)
    return values


def column_floats(values: Values) -> FloatArray:
    """Return a column of numbers as floats, with NaN where it is missing."""
    data = np.asarray(values.data, dtype=float)
    return data if values.missing is None else np.where(values.missing, np.nan, data)
