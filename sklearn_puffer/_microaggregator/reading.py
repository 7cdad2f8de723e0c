"""How `fit` reads a table: the roles of columns, secrets, strata, and a sample of the rows.

For a lazy table the engine finds the sample and counts all rows. A function is applied to each part
of the table, and adds the digest of each row, or its stratum and its prototypes. The engine groups
by these numbers. Memory holds the sample and the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, IntArray
from sklearn_puffer._codes import (
    Pair,
    Secret,
    check_known_bins,
    check_no_identifier,
    combined,
    public_columns,
    resolve,
    secret_pairs_of,
)
from sklearn_puffer._engines import CHANGED, LazyTable, lazy_table, plans
from sklearn_puffer._microaggregator.coordinates import (
    Sample,
    by_priority,
    content_digests,
    most_rows,
    sample_rows,
)
from sklearn_puffer._microaggregator.prototypes import Prototypes
from sklearn_puffer._microaggregator.release import KnownColumn, Strata
from sklearn_puffer._numerics import combinations_of
from sklearn_puffer._rows import (
    Columns,
    CountedTable,
    FitRows,
    Guarantee,
    check_size,
    distinct_rows,
    refuse_twice,
    rows_of,
)
from sklearn_puffer._tables import (
    LARGEST_DIGEST,
    Faults,
    Name,
    Values,
    frame_table,
    row_digests,
)
from sklearn_puffer._words import listed, quoted

MOST_JOINED = 30
"""The most joined labels, of one column or several; each adds constraints to the program."""

MOST_LABELS = 20
"""The most values of a y that is refused where it tells a secret."""


@dataclass(frozen=True, eq=False)
class Settings:
    """The parameters of a `PufferfishMicroaggregator`, checked as far as that needs no data.

    Attributes
    ----------
    guarantee : Guarantee
    columns : Columns
    joined : object
        As the caller gave it.
    n_prototypes : int or None
        None for "auto".
    min_size : int
    level : float or None
    values : {"typical", "drawn"}
    label_weight : float
    weights : mapping
        The unit of distance of columns.
    seed : int or None
    n_jobs : int or None
    """

    guarantee: Guarantee
    columns: Columns
    joined: Any
    n_prototypes: int | None
    min_size: int
    level: float | None
    values: str
    label_weight: float
    weights: Mapping[Any, Any]
    seed: int | None
    n_jobs: int | None = None


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of a table, to be counted.

    Attributes
    ----------
    columns : dict of Values
        The public columns; none of a lazy table.
    secrets : list of ndarray
        The code of each row's secret in each sensitive column.
    strata : ndarray of int
    joined : ndarray of int
        The combination of the values of all joined columns; 0 without any.
    labels : list of list of int
        The combinations that share a label: the values of some joined columns.
    weights : ndarray of int or None
    """

    columns: dict[Name, Values]
    secrets: list[IntArray]
    strata: IntArray
    joined: IntArray
    labels: list[list[int]]
    weights: Array | None


Counting = Callable[[Sequence[Prototypes]], tuple[Batch, list[IntArray]]]
"""Returns the rows to be counted, and for each set of prototypes the one of each row."""


@dataclass(frozen=True, eq=False)
class TableRead:
    """A table as it was read: the roles of columns, a sample, and how its rows are counted.

    ``batch`` has all secrets and labels; the rows of a lazy table are grouped by these.
    """

    roles: Roles
    people: People
    sample: Sample
    batch: Batch
    count: Counting

    @property
    def strata(self) -> Strata | None:
        """The combinations of known values."""
        return self.people.strata

    @property
    def total(self) -> int:
        """The number of rows."""
        return self.people.rows.total

    @property
    def is_lazy(self) -> bool:
        """Whether the table is lazy."""
        return not self.batch.columns

    @cached_property
    def groups(self) -> list[tuple[Secret, list[int], Array]]:
        """Each sensitive column, the codes of its protected secrets, and pairs of their indices."""
        groups = []
        for secret in self.people.secrets:
            named = self.people.pairs[secret.name]
            pairs = np.array([[secret.find(a) for a in pair] for pair in named])
            used = np.unique(pairs)
            groups.append((secret, used.tolist(), np.searchsorted(used, pairs)))
        return groups


@dataclass(frozen=True, eq=False)
class Roles:
    """The roles of the columns of X.

    Attributes
    ----------
    sets : list of list of names
        The sensitive columns; those whose combination is protected are in one list.
    hidden : list of names
        The sensitive columns that X has.
    public, joined : list of names
    known : dict
        The number of bins of each known column, or None.
    remainder : list of names
        The columns that are passed through.
    """

    sets: list[list[Name]]
    hidden: list[Name]
    public: list[Name]
    known: dict[Name, int | None]
    joined: list[Name]
    remainder: list[Name]


def known_bins(known: Any, names: Sequence[Name]) -> dict[Name, int | None]:
    """Return the number of bins of each known column, None for values as they are.

    >>> known_bins({"age": 10, "town": None}, ["town", "age"])
    {'age': 10, 'town': None}
    """
    if known is None:
        return {}
    columns = resolve(list(known) if isinstance(known, Mapping) else known, names, "known")
    bins = list(known.values()) if isinstance(known, Mapping) else [None] * len(columns)
    for name, number in zip(columns, bins, strict=True):
        if number is not None:
            check_known_bins(name, number)
    return dict(zip(columns, bins, strict=True))


def roles_of(settings: Settings, given: FitRows) -> Roles:
    """Return the roles of the columns.

    Raises
    ------
    TypeError, ValueError
        If a column is not there, or has two roles.
    """
    names, sets, asked = given.table.names, sensitive_sets(given), settings.columns
    hidden = [*dict.fromkeys(chain(*sets))] if given.secrets is None else given.hidden()
    joined = [] if settings.joined is None else resolve(settings.joined, names, "joined")
    known = known_bins(asked.known, names)
    chosen = [] if asked.public is None else resolve(asked.public, names, "public")
    refuse_twice({"sensitive": hidden, "known": [*known], "joined": joined, "public": chosen})
    public = public_columns(asked.public, names, [*hidden, *known, *joined])
    remainder = asked.passed(names, {*hidden, *public, *known, *joined})
    return Roles(sets, hidden, public, known, joined, remainder)


def read_table(settings: Settings, given: FitRows) -> TableRead:
    """Return a table as it was read, or raise one error with all its faults.

    Raises
    ------
    TypeError, ValueError
        Naming every column that is at fault.
    """
    roles, rows = roles_of(settings, given), rows_of(given.table, given.sample_weight)

    def public(name: Name) -> Values:
        values = rows.public_values(name)
        named = settings.columns.public is not None
        check_no_identifier(name, values, rows.weights, named=named)
        return values

    faults = Faults()
    columns = dict(zip(roles.public, faults.of(public, roles.public), strict=False))
    people = read_people(settings, given, roles, rows, faults)
    label = None if given.y is None else rows.kept(given.y)
    if label is not None:
        check_label(label, given, roles, people)
    batch = people.batch(roles.joined, columns)
    of_rows = None if people.strata is None else batch.strata

    def count(several: Sequence[Prototypes]) -> tuple[Batch, list[IntArray]]:
        return batch, [each.assign(each.coordinates.rows(columns)) for each in several]

    sample = sample_rows(columns, label, rows.weights, strata=of_rows)
    return TableRead(roles, people, sample, batch, count)


def check_label(label: Values, given: FitRows, roles: Roles, people: People) -> None:
    """Refuse a y that is a sensitive column, a function of a secret, or the reverse.

    It chooses typical rows. The refusal depends on secrets, and reaches only the steward, who has
    them.
    """
    rows, y, told = people.rows, label.ranks(), []
    for secret in people.secrets:
        own = secret.codes(rows.n_rows)
        n_both = len(np.unique(np.stack([y, own]), axis=1).T)
        n_each = len(np.unique(y)), len(np.unique(own))
        if n_each[0] > 1 and n_both in n_each and max(n_each) <= MOST_LABELS:
            told.append(secret.name)
    for name in dict.fromkeys(chain(*roles.sets)):
        raw = rows.values(name) if given.secrets is None else rows.kept(given.secrets[name])
        if np.array_equal(row_digests({"y": label}), row_digests({"y": raw})):
            told.append(name)
    if told:
        raise ValueError(
            f"y and sensitive column {quoted(told[0])} tell each other, and typical rows would be "
            "chosen by secrets; pass another y, or label_weight=0 to leave it out."
        )


@dataclass(frozen=True, eq=False)
class People:
    """The secrets and strata of rows.

    Attributes
    ----------
    rows : CountedTable
    secrets : list of Secret
    pairs : dict
        The protected pairs by sensitive column.
    strata : Strata or None
    codes : list of ndarray
        The value of each row in each known column.
    """

    rows: CountedTable
    secrets: list[Secret]
    pairs: dict[Name, list[Pair]]
    strata: Strata | None
    codes: list[IntArray]

    def batch(
        self,
        joined: Sequence[Name],
        columns: dict[Name, Values] | None = None,
        strata: IntArray | None = None,
    ) -> Batch:
        """Return the rows to be counted, which ``self`` was read from."""
        rows = self.rows
        values = [rows.values(name).ranks() for name in joined]
        together = combinations_of(values, rows.n_rows)
        firsts = np.unique(together, return_index=True)[1]
        labels = labels_of([each[firsts] for each in values])
        if labels is None:
            raise ValueError(
                f"joined={listed(joined)} has more than {MOST_JOINED} labels (values, and "
                "combinations of those of several columns), each of which is a constraint; merge "
                "values, or join fewer columns."
            )
        if strata is None:
            none = np.zeros(rows.n_rows, dtype=np.int64)
            strata = none if self.strata is None else self.strata.of(self.codes)
        secrets = [secret.codes(rows.n_rows) for secret in self.secrets]
        return Batch(columns or {}, secrets, strata, together, labels, rows.weights)


def labels_of(columns: Sequence[IntArray]) -> list[list[int]] | None:
    """Return the sets of rows with the same values in some of the columns; None of too many.

    Who knows some of the columns mixes the rows of a set in other shares for each secret, so a
    bound for who knows all columns does not hold for him.

    >>> labels_of([np.array([0, 0, 1]), np.array([0, 1, 1])])
    [[0, 1], [2], [0], [1, 2], [1]]
    """
    found: dict[frozenset[int], None] = {}
    for values in columns:
        of_values = [np.flatnonzero(values == value).tolist() for value in np.unique(values)]
        each = [frozenset(rows) for rows in of_values]
        both = [one & other for one in found for other in each]
        found |= dict.fromkeys([*each, *filter(None, both)])
        if len(found) > MOST_JOINED:
            return None
    return [sorted(rows) for rows in found]


def read_people(
    settings: Settings, given: FitRows, roles: Roles, rows: CountedTable, faults: Faults
) -> People:
    """Return the secrets and strata of rows.

    Raises
    ------
    TypeError, ValueError
        Naming every column that is at fault, those in ``faults`` too.
    """

    def secret_of(columns: Sequence[Name]) -> Secret:
        """Return a sensitive column, or the combination of several."""
        secrets = [given.secret(rows, name, "category") for name in columns]
        return combined([(secret, rows.n_rows) for secret in secrets])

    def known(name: Name) -> tuple[KnownColumn, IntArray]:
        values = rows.public_values(name)
        column = KnownColumn.learnt(name, values, roles.known[name], rows.weights)
        return column, column.codes(column.axis.fitted(values))

    secrets = faults.of(secret_of, roles.sets)
    columns = faults.of(known, list(roles.known))
    faults.refuse()
    asked = settings.guarantee.pairs
    if isinstance(asked, Mapping):  # tuples stand for combinations, whose names are as here
        named = ((n if isinstance(n, tuple) else (n,), of) for n, of in asked.items())
        asked = {n[0] if len(n) == 1 else " and ".join(map(str, n)): of for n, of in named}
    pairs, codes = secret_pairs_of(asked, secrets), [of_rows for _, of_rows in columns]
    strata = Strata.learnt([column for column, _ in columns], codes) if columns else None
    return People(rows, secrets, pairs, strata, codes)


def sensitive_sets(given: FitRows) -> list[list[Name]]:
    """Return the sensitive columns; the columns of a combination, a tuple, are in one list."""
    if given.secrets is not None:
        return [[name] for name in given.secrets]
    sensitive, names = given.sensitive, given.table.names
    if not isinstance(sensitive, list) or not any(isinstance(each, tuple) for each in sensitive):
        return [[name] for name in resolve(sensitive, names, "sensitive")]
    sets = [resolve(each, names, "sensitive") for each in sensitive]
    called = [" and ".join(map(str, each)) for each in sets]
    doubled = [name for name in called if called.count(name) > 1]
    if doubled:
        raise ValueError(
            f"sensitive names {doubled[0]} twice; name each once, and give a column that is "
            "called as a combination of others another name."
        )
    return sets


# ------------------------------------------------------------------------------- lazy tables

_GROWTH = 16.0


def read_lazily(settings: Settings, given: FitRows) -> TableRead:
    """Return what `read_table` returns of the same rows in memory.

    Raises
    ------
    TypeError, ValueError
        If columns do not fit, or a parameter needs rows in memory.
    """
    table: Any = given.table
    _refuse_rest(settings, given)
    roles = roles_of(settings, given)
    for name in (*roles.hidden, *roles.public, *roles.known, *roles.joined, *roles.remainder):
        table.check_type(name)
    n_rows = table.n_rows
    check_size(n_rows, 2, "row")
    faults = Faults()

    def check_public(name: Name) -> None:
        if not table.types[str(name)].is_float():  # floats do not look like identifiers
            named = settings.columns.public is not None
            check_no_identifier(name, table.values(name), named=named)

    faults.of(check_public, roles.public)
    together = [*dict.fromkeys([*_labels(roles), *roles.known])]
    if not table.count(together):
        raise ValueError(
            f"columns {listed(together, 10)} have more different rows than are fetched from an "
            "engine; merge their values, or fit a sample of the rows."
        )
    people = read_people(settings, given, roles, distinct_rows(table, together), faults)
    sample = _sampled(table, roles, people.strata, n_rows)

    def count(several: Sequence[Prototypes]) -> tuple[Batch, list[IntArray]]:
        return _counted(settings, given, roles, people, several)

    return TableRead(roles, people, sample, people.batch(roles.joined), count)


def _refuse_rest(settings: Settings, given: FitRows) -> None:
    given.refuse_bins()
    if given.y is not None and settings.label_weight > 0.0:
        raise TypeError(
            "y is aligned by position, and the rows of a lazy table have no order; leave it out, "
            "or fit on rows in memory."
        )
    if settings.values == "drawn":
        raise ValueError(
            'values="drawn" counts values in bins, and X is a lazy table; take values="typical", '
            "or fit on rows in memory."
        )


class _Task(partial[Any]):
    """A function to apply to each part; its repr, which engines log, shows no arguments."""

    def __repr__(self) -> str:
        return f"{self.func.__name__}()"


def _numbered(table: LazyTable, names: Sequence[Name], task: Any) -> LazyTable:
    """Return some columns of a lazy table with the numbers that a task adds."""
    sent = {*map(str, names)}
    numbered = lazy_table(plans.planned(table.native, [n for n in table.types if n in sent], task))
    return replace(numbered, levels=table.levels)


# ---------------------------------------------------------------------------------- the sample


def _sampled(table: LazyTable, roles: Roles, strata: Strata | None, n_rows: int) -> Sample:
    """Return the sample that `sample_rows` takes of the same rows."""
    seen = [*roles.public, *roles.known]
    name, stratum = plans.free_names(table.types, ["digest", "stratum"]).values()
    levels = [
        len(table.values(public).levels or ())
        for public in roles.public
        if not table.types[str(public)].is_numeric()
    ]
    most = most_rows([*levels, *[0] * (len(roles.public) - len(levels))])
    digests, counts = _smallest_priorities(
        _numbered(table, seen, _Task(_add_digests, roles.public, strata, name)), name, most, n_rows
    )
    chosen, weights = by_priority(digests, counts, most)
    task = _Task(_add_indices, roles.public, strata, digests[chosen], [name, stratum])
    part = _numbered(table, seen, task).where(name, len(chosen) - 1)
    if not part.count([*roles.public, name, stratum]):
        raise ValueError(CHANGED)
    columns = part.rows([*roles.public, name, stratum])[0]
    indices, rows = np.unique(columns[name].data, return_index=True)
    if len(indices) != len(chosen):
        raise ValueError(CHANGED)
    public = {name: columns[name].taken(rows) for name in roles.public}
    return Sample(public, None, columns[stratum].data[rows], counts[chosen], weights)


def _smallest_priorities(
    table: LazyTable, name: Name, most: int, n_rows: int
) -> tuple[IntArray, IntArray]:
    """Return digests and counts of more than ``most`` rows of the smallest priorities, or of all.

    At most n t of n rows, on average, have a priority of at most t.
    """
    share = min(2.0 * most / n_rows, 1.0)
    while True:
        found = table.least(name, share * (LARGEST_DIGEST + 1.0))
        if found is not None and (len(found[0]) > most or share == 1.0):
            return found
        if found is None:
            raise ValueError(CHANGED)
        share = min(_GROWTH * share, 1.0)


def _digests(
    public: Sequence[Name], strata: Strata | None, part: Any
) -> tuple[IntArray, IntArray | None]:
    """Return the digest of each row of a part of the table, and its stratum."""
    table = frame_table(part)
    of_rows = None if strata is None else strata.read(table)
    return content_digests({name: table.values(name) for name in public}, None, of_rows), of_rows


def _add_digests(public: Sequence[Name], strata: Strata | None, name: str, part: Any) -> Any:
    """Return a part of the table with a column of digests."""
    return plans.with_numbers(part, {name: _digests(public, strata, part)[0]})


def _add_indices(
    public: Sequence[Name],
    strata: Strata | None,
    chosen: IntArray,
    names: Sequence[str],
    part: Any,
) -> Any:
    """Return a part with the index of each row in the sample, and its stratum.

    Rows that are not sampled have the size of the sample as their index.
    """
    digests, of_rows = _digests(public, strata, part)
    indices = np.searchsorted(chosen, digests)
    sampled = np.take(chosen, indices, mode="clip") == digests
    none = np.zeros(len(digests), dtype=np.int64)
    numbers = [np.where(sampled, indices, len(chosen)), none if of_rows is None else of_rows]
    return plans.with_numbers(part, dict(zip(names, numbers, strict=True)))


# ---------------------------------------------------------------------------------- the counts


def _counted(
    settings: Settings,
    given: FitRows,
    roles: Roles,
    people: People,
    several: Sequence[Prototypes],
) -> tuple[Batch, list[IntArray]]:
    """Return rows grouped by secrets, labels, stratum and prototypes, in one query."""
    table: Any = given.table
    labels = _labels(roles)
    numbers = (f"number {k}" for k in range(len(several) + 1))
    added = [*plans.free_names(table.types, numbers).values()]
    sent = [*labels, *roles.known, *roles.public]
    placed = _numbered(table, sent, _Task(_add_codes, people.strata, several, added))
    if not placed.count([*labels, *added]):
        raise ValueError(
            f"columns {listed(labels, 10)} have more different rows, beside typical rows, than are "
            "fetched from an engine; merge their values, or fit a sample of the rows."
        )
    rows = distinct_rows(placed, [*labels, *added])
    again = read_people(settings, given, replace(roles, known={}), rows, Faults())
    same = [secret.labels for secret in again.secrets] == [s.labels for s in people.secrets]
    if rows.total != people.rows.total or not same:
        raise ValueError(CHANGED)
    strata, *codes = (rows.table.values(name).data.astype(np.intp) for name in added)
    return again.batch(roles.joined, strata=strata), codes


def _labels(roles: Roles) -> list[Name]:
    """Return the columns by which rows are counted."""
    return [*dict.fromkeys([*roles.hidden, *roles.joined])]


def _add_codes(
    strata: Strata | None, several: Sequence[Prototypes], names: Sequence[str], part: Any
) -> Any:
    """Return a part of the table with the stratum and the prototypes of each row."""
    table = frame_table(part)
    rows = several[0].coordinates.read(table)
    of_rows = np.zeros(len(rows), dtype=np.int64) if strata is None else strata.read(table)
    numbers = of_rows, *(each.assign(rows) for each in several)
    return plans.with_numbers(part, dict(zip(names, numbers, strict=True)))
