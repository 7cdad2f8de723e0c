"""Who reports what: users or the rows of a table as classes, and their reports in whole steps.

The laws of the users and the reports that are summed go through one rounding, `in_steps`, so that
what is released is what the promise is about.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sklearn_puffer._base import (
    Array,
    FloatArray,
    IntArray,
    floats,
    listed,
    on_one_line,
    plain,
    quoted,
)
from sklearn_puffer._sums.users import User, check_users
from sklearn_puffer._tables import (
    Name,
    Table,
    Values,
    as_levels,
    check_integers,
    check_whole,
    frame_table,
    is_frame,
    known_column,
    of_kind,
    present,
    without_na,
)
from sklearn_puffer.priors import Discrete, GaussianMixture, Prior

_FAR = 64.0  # deviations of Gaussian sums within which the grid has room for reports
_FARTHEST = 2.0**53  # up to here floats count steps exactly


def in_steps(values: Any, step: float, what: str) -> IntArray:
    r"""Return :math:`\lfloor x / \text{step} + 1/2 \rfloor`: halves of the float x/step go up.

    Parameters
    ----------
    values : array-like of float
    step : float
    what : str
        What an error calls the values.

    Raises
    ------
    ValueError
        If a value is not finite, or more than 2^53 steps from 0.

    Examples
    --------
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


def is_always_there(user: User, secrets: str) -> bool:
    """Return whether a user is never absent: nobody whose absence is a secret."""
    return "absence" not in secrets and (user.presence is None or user.presence >= 1.0)


@dataclass(frozen=True, eq=False)
class Source:
    """The columns of a table that users were learnt from."""

    value: Name
    by: tuple[Name, ...]

    def values(self, table: Table) -> Values:
        """Return the column that is summed."""
        return numeric_values(table, self.value)

    def classes(self, table: Table) -> tuple[list[Any], Array]:
        """Return the labels of the classes in ascending order, and the code of each row."""
        if not self.by:
            return ["row"], np.zeros(table.n_rows, dtype=np.intp)
        levels, codes = [], []
        for name in self.by:
            values = table.values(name)
            check_whole(values, name)
            coded = as_levels(values)
            assert coded.levels is not None
            levels.append([plain(level) for level in coded.levels])
            codes.append(np.asarray(coded.data, dtype=np.int64))
        rows, inverse = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
        labels = [tuple(of[k] for of, k in zip(levels, row, strict=True)) for row in rows.tolist()]
        return [x[0] if len(x) == 1 else x for x in labels], inverse.reshape(-1)


@dataclass(frozen=True, eq=False)
class Reporters:
    """The users, class by class, and how their reports are counted.

    Attributes
    ----------
    users : tuple of User
        One for each class, in its own units; ``count`` of them are alike.
    labels : tuple
        What the classes are called: positions, names, or values of the columns of ``source``.
    secrets : str
        One of `users.SECRETS`.
    step : float
        Reports are rounded to its multiples.
    source : Source or None
        Where the users were learnt from a table.
    crossed : bool
        Whether the secret is which class's law a user follows, whatever class the user is of.
    """

    users: tuple[User, ...]
    labels: tuple[Any, ...]
    secrets: str
    step: float
    source: Source | None = None
    crossed: bool = False

    @property
    def sensitive(self) -> Name:
        """What the secrets are about."""
        if self.source is None or not self.source.by:
            return "user"
        by = self.source.by
        return by[0] if len(by) == 1 else ", ".join(map(str, by))

    def named(self, k: int, together: bool = False) -> str:
        """Return what a message calls a user of the class at position k, or each user of it."""
        if self.source is None and self.users[k].count == 1:
            return f"user {self.labels[k]}"
        if self.source is None:
            members = f"the users {self.labels[k]}"
        else:
            members = f"{self.sensitive} {self.labels[k]}" if self.source.by else "the rows"
        return f"{'each' if together else 'one'} of {members}"

    @property
    def n_reports(self) -> int:
        """Number of reports that are summed."""
        return sum(user.count for user in self.users)

    def unit(self, query: str) -> float:
        """Return what a step is worth in an answer."""
        return self.step / (self.n_reports if query == "mean" else 1)

    @property
    def reach(self) -> float:
        """A bound, in steps, on the sum of any reports that are accepted."""
        farthest = max(float(np.abs(atoms).max()) for atoms in map(self.accepted, self.users))
        return self.n_reports * farthest

    def on_steps(self, law: Discrete) -> Discrete:
        """Return a law of reports in whole steps."""
        return law.moved(in_steps(law.atoms, self.step, "laws").astype(float))

    @cached_property
    def in_steps(self) -> list[User]:
        """The users with everything that they report in whole steps."""
        return [self._in_steps(user) for user in self.users]

    def _in_steps(self, user: User) -> User:
        law, *others = map(self.on_steps, self.laws(user))
        values = None if user.values is None else self._steps_of(user.values).astype(float)
        return replace(user, law=law, alternative=others[0] if others else None, values=values)

    def _steps_of(self, values: Any) -> IntArray:
        return np.unique(in_steps(values, self.step, "values"))

    def laws(self, user: User) -> list[Discrete]:
        """Return the laws that a user's report may follow."""
        return [law for law in (user.law, user.alternative) if isinstance(law, Discrete)]

    def accepted(self, user: User) -> IntArray:
        """Return the reports, in steps, that a user may hand in: the laws allow no others.

        A report that a protected alternative has must never be refused: that would tell of it.
        """
        if self.crossed:
            return self._of_all_classes
        about_laws = self.secrets == "distribution"
        laws = self.laws(user) if about_laws else self.laws(user)[:1]
        possible = [law.atoms[law.counts > 0] for law in laws]
        if self.secrets.startswith("value"):  # then the reported value is given, and needs no mass
            possible.append(user.protected)
        return self._steps_of(np.concatenate(possible))

    @cached_property
    def _of_all_classes(self) -> IntArray:
        """The reports, in steps, that the law of some class has."""
        laws = [law for user in self.users for law in self.laws(user)]
        return self._steps_of(np.concatenate([law.atoms[law.counts > 0] for law in laws]))

    @property
    def deviation(self) -> float:
        """Standard deviation of the sum, in steps."""
        return math.sqrt(sum(user.count * _variance(user.law) for user in self.in_steps))

    def parts(self) -> Iterator[bytes]:
        """Return what tells these reports from others, for a fingerprint."""
        for label, user in zip(self.labels, self.users, strict=True):
            yield repr([plain(label), user.count, self.accepted(user).tolist()]).encode()

    def total(self, reports: Any) -> int | Fraction:
        """Return the sum of the reports in steps, whoever is absent.

        Raises
        ------
        TypeError, ValueError
            If there is not one report for each user, or one is not in the law of its user.
        """
        values, classes = self.present(reports)
        steps = in_steps(values, self.step, "values")
        strange = ~self._allowed(steps, classes)
        if strange.any():
            first = int(strange.argmax())
            raise ValueError(
                f"{self.called(classes, first)} reports {float(values[first])!r}, which its law "
                "does not have; correct the report, or fit on a law that has it."
            )
        return int(steps.sum())

    def present(self, reports: Any) -> tuple[FloatArray, Array | None]:
        """Return the reports of those who are present, and their classes."""
        values, classes = self._read(reports)
        gone = np.isnan(values)
        if not gone.any():
            return values, classes
        self._check_absent(classes if classes is None else classes[gone])
        return values[~gone], classes if classes is None else classes[~gone]

    def _allowed(self, steps: IntArray, classes: Array | None) -> Array:
        """Return which reports the laws of their users have, or some law where none is known."""
        levels, pairs = self._alphabet
        places = np.minimum(np.searchsorted(levels, steps), len(levels) - 1)
        known: Array = levels[places] == steps
        return known if classes is None else known & np.isin(classes * len(levels) + places, pairs)

    @cached_property
    def _alphabet(self) -> tuple[IntArray, IntArray]:
        """All accepted reports, and which of them each class may hand in, as one number a pair."""
        own = [self.accepted(user) for user in self.users]
        levels = np.unique(np.concatenate(own))
        pairs = [k * len(levels) + np.searchsorted(levels, steps) for k, steps in enumerate(own)]
        return levels, np.concatenate(pairs)

    def _check_absent(self, classes: Array | None) -> None:
        present = np.array([is_always_there(user, self.secrets) for user in self.users])
        wrong = np.flatnonzero(present if classes is None else present[classes])
        if wrong.size:
            raise ValueError(
                f"a report of {self.called(classes, int(wrong[0]))} is missing, and presence= says "
                "that none ever is; fill it, or declare a presence below 1 and fit again."
            )

    def _check_alike(self) -> None:
        """Refuse a column alone, missing values or not, where it matters whose they are."""
        if len({is_always_there(user, self.secrets) for user in self.users}) > 1:
            raise ValueError(
                "values is one column, and presence= allows missing reports of some classes only; "
                "pass the table, which tells the classes apart."
            )

    def called(self, classes: Array | None, row: int) -> str:
        """Return what a message calls the user of a report."""
        return "one of the rows" if classes is None else on_one_line(self.named(int(classes[row])))

    def _read(self, reports: Any) -> tuple[FloatArray, Array | None]:
        """Return the reports, NaN where one is missing, and their classes where these are known."""
        reports = known_column(reports, "values")
        if self.source is not None and is_frame(reports):
            return self._read_table(reports, self.source)
        values = _column_of(reports)
        if len(values) != self.n_reports:
            raise ValueError(
                f"values has {len(values)} report(s) and {self.n_reports} were learnt in fit; give "
                "one for each user, in the order of fit, and NaN for a user who is absent."
            )
        if self.source is not None and len(self.users) > 1:
            self._check_alike()
            return values, None  # a column alone does not tell whose class a row is of
        return values, np.repeat(np.arange(len(self.users)), [user.count for user in self.users])

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
        places = {label: k for k, label in enumerate(self.labels)}
        return column_floats(source.values(table)), np.array([places[x] for x in labels])[codes]


class GaussianReporters(Reporters):
    """Users who report any numbers; their sum is exact, and rounded once, to the grid."""

    def _in_steps(self, user: User) -> User:
        return user

    @property
    def reach(self) -> float:
        """How far from 0 the grid has room for the sum."""
        means, sds, counts = gaussian_classes(self.users)
        return float(counts @ (np.abs(means) + _FAR * sds))

    @property
    def deviation(self) -> float:
        """Standard deviation of the sum."""
        _, sds, counts = gaussian_classes(self.users)
        return float(np.linalg.norm(np.sqrt(counts) * sds))

    def total(self, reports: Any) -> Fraction:
        """Return the exact sum of the reports, whoever is absent.

        Raises
        ------
        TypeError, ValueError
            If there is not one finite number for each user who is present.
        """
        values, classes = self.present(reports)
        strange = ~np.isfinite(values)
        if strange.any():
            first = int(strange.argmax())
            raise ValueError(
                f"{self.called(classes, first)} reports {float(values[first])!r}, which is not "
                "finite; correct the report."
            )
        return exact_sum(values)

    def parts(self) -> Iterator[bytes]:
        """Return what tells these reports from others, for a fingerprint."""
        for label, *column in zip(self.labels, *gaussian_classes(self.users), strict=True):
            yield repr([label, "gaussian", *map(float, column)]).encode()


def exact_sum(values: FloatArray) -> Fraction:
    """Return the sum of floats without rounding.

    >>> exact_sum(np.array([1e300, 0.1, -1e300])) == Fraction(0.1)
    True
    """
    mantissas, exponents = np.frexp(values)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    total = Fraction(0)
    for exponent in np.unique(exponents).tolist():
        part = whole[exponents == exponent]
        # halves of 26 bits: sums of up to 2^35 of them fit into 64 bits
        units = (int((part >> 26).sum()) << 26) + int((part & (2**26 - 1)).sum())
        total += units * Fraction(2) ** (exponent - 53)
    return total


def gaussian_classes(users: Sequence[User]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means, standard deviations and counts of users who are Gaussian, and refuse others."""
    columns = []
    for k, user in enumerate(check_users(users)):
        law = user.law
        if not (isinstance(law, GaussianMixture) and _is_gaussian(law)):
            raise ValueError(
                f"users must be Gaussian for 003, Corollary 1, got {law!r} for users[{k}]; the "
                "central limit theorem is no proof of it: round the reports to a step, and use "
                "Discrete laws."
            )
        columns.append([float(law.means[0]), float(law.scales[0]), float(user.count)])
    means, sds, counts = np.array(columns).T
    return means, sds, counts


def _is_gaussian(law: GaussianMixture) -> bool:
    """Return whether all components are the same."""
    return (
        law.n_axes == 1 and len(set(zip(law.means.tolist(), law.scales.tolist(), strict=True))) == 1
    )


def numeric_values(table: Table, name: Name) -> Values:
    """Return a column of numbers or booleans."""
    values = of_kind("float", table.values(name))
    if values.kind == "category":
        raise TypeError(
            f"column {name!r} is not numeric (its values are {listed(values.levels or ())}); name "
            "a numeric column in value=, or code its values as numbers."
        )
    if values.kind == "integer":
        check_integers(present(values), name)
    return values


def column_floats(values: Values) -> FloatArray:
    """Return a column of numbers as floats, with NaN where it is missing."""
    data = np.asarray(values.data, dtype=float)
    return data if values.missing is None else np.where(values.missing, np.nan, data)


def _column_of(reports: Any) -> FloatArray:
    if isinstance(reports, str | Mapping):
        raise TypeError(f"values must be a list or a column of numbers, got {reports!r}.")
    if hasattr(reports, "to_frame") and is_frame(reports.to_frame("values")):
        return column_floats(numeric_values(frame_table(reports.to_frame("values")), "values"))
    values = floats(without_na(reports), "values")
    if values.ndim != 1:
        raise ValueError(
            f"values must be one number for each user, got shape {values.shape}; pass a list."
        )
    return values


def _variance(law: Prior) -> float:
    assert isinstance(law, Discrete)
    mean = float(law.probabilities @ law.atoms)
    return float(law.probabilities @ (law.atoms - mean) ** 2)
