"""What a plan and an audit are given: tables, columns, secrets and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from sklearn_puffer._base import Array, check_count
from sklearn_puffer._codes import (
    WAY_OF_TEXT,
    Secret,
    bins_of,
    check_few,
    edges_of,
    identifier_kind,
    in_intervals,
    in_intervals_of,
    public_columns,
    read_secret,
    resolve,
)
from sklearn_puffer._engines import is_lazy
from sklearn_puffer._release import TableRelease
from sklearn_puffer._review.exact_tests import Secrets
from sklearn_puffer._rows import RowOrder, check_one_secret, group_codes, order_told, rows_of
from sklearn_puffer._tables import (
    Name,
    Table,
    as_pandas,
    beside,
    date_columns,
    first_values,
    frame_table,
    has_row_labels,
    is_frame,
    readable,
)
from sklearn_puffer._words import listed, quoted


def in_memory(table: Any, who: str) -> Any:
    """Return a table as a pandas DataFrame; ``who``, such as "a plan", is named in refusals."""
    if is_lazy(table):
        raise TypeError(
            f"table is lazy ({type(table).__name__}), and {who} looks at rows many times; collect "
            "it, or some thousand rows of it, into memory first."
        )
    table = readable(table, "table")
    if not is_frame(table):
        raise TypeError(
            f"table must be a DataFrame, got {type(table).__name__}; give its columns names, such "
            "as pandas.DataFrame(table, columns=[...])."
        )
    frame = as_pandas(table)
    if not len(frame):
        raise ValueError(f"table has 0 rows, and {who} measures some; give some hundred.")
    return frame


# ------------------------------------------------------------------------------------ of a plan


@dataclass(frozen=True)
class ColumnFacts:
    """What one column is, and what the plan does with it.

    Attributes
    ----------
    name : str or int
    use : {"sensitive", "release", "stays with people", "leave out", "not asked for"}
    kind : str
        In words: "number", "whole number", "yes or no", "order", "category", "date",
        "identifier" (whole numbers), "text", "nothing" or "unreadable".
    distinct, missing : int
        How many different values it has, and in how many rows it has none.
    remark : str
        What there is to say of it, such as why it is left out.
    """

    name: Name
    use: str
    kind: str
    distinct: int = 0
    missing: int = 0
    remark: str = ""

    @property
    def numeric(self) -> bool:
        """Whether bins are possible."""
        return self.kind in ("number", "whole number", "date", "identifier")


_ROLES = {
    "sensitive": "sensitive",
    "ids": "stays with people",
    "known": "stays with people",
    "task": "not asked for",
    "public": "",
}
"""The use of columns by the argument that names them; of public ones their values decide."""

_KINDS = {"boolean": "yes or no", "integer": "whole number", "float": "number"}
_REMARKS = {
    "date": "name it in public= if dates are to be released",
    "nothing": "every value is missing",
    "unreadable": "it contains infinity; drop or replace such values",
    "text": "{n} different values in {rows} rows look like an identifier; {way}",
    "identifier": "{n} different values in {rows} rows look like an identifier; name it in public= "
    "if it is to be released",
}
_IF_NAMED = ("date", "identifier")  # are released; the others of these never


def _fact(table: Table, name: Name, use: str, kind: str, *, named: bool) -> ColumnFacts:
    """Return what a column is; text that identifies people is never released.

    ``use`` is empty where it may be released, and ``kind`` where it is no date and has no order.
    """
    try:
        values = first_values(table, name)
        data = values.present
        n = len(np.unique(data))
        what = identifier_kind(values)
    except (TypeError, ValueError) as error:
        return ColumnFacts(name, use or "leave out", "unreadable", remark=str(error))
    applies = {
        "date": kind == "date" or (what == "date" and len(data) > 0),
        "nothing": not len(data),
        "unreadable": values.kind == "float" and not np.isfinite(data).all(),
        "text": what == "text",
        "identifier": what == "number" and kind != "order",
        "order": kind == "order" or values.ordered,
        _KINDS.get(values.kind, "category"): True,
    }
    kind = next(each for each, true in applies.items() if true)
    suits = kind not in _REMARKS or (named and kind in _IF_NAMED)
    remark = "" if use or suits else _REMARKS[kind]
    remark = remark.format(n=n, rows=len(data), way=WAY_OF_TEXT)
    use = use or ("release" if suits else "leave out")
    return ColumnFacts(name, use, kind, n, values.n_missing, remark)


def _uses(roles: Mapping[str, Sequence[Name]]) -> dict[Name, str]:
    """Return the use of columns that a caller names; one that has two roles is refused."""
    first: dict[Name, str] = {}
    for role, names in roles.items():
        for name in names:
            other = first.setdefault(name, role)
            if other != role and (other, role) != ("known", "task"):  # a label that readers know
                raise ValueError(
                    f"column {quoted(name)} is named in {other}= and in {role}=; name it in one."
                )
    return {name: _ROLES[role] for name, role in first.items()}


@dataclass(frozen=True, eq=False)
class Given:
    """What a plan is given: rows, and the roles of columns.

    ``told`` are the secrets of each protected column, or combination of columns, and ``sensitive``
    names them as an estimator takes them. ``labelled`` says whether an index tells whose row is
    whose, and ``order`` what it and the order of the rows tell of the secrets.
    """

    frame: Any
    told: list[Secrets]
    sensitive: Any
    labelled: bool
    order: RowOrder
    roles: Mapping[str, list[Name]]
    facts: tuple[ColumnFacts, ...]

    @classmethod
    def of(cls, table: Any, sensitive: Any, asked: Mapping[str, Any], settings: Any) -> Given:
        """Return what is read of a table; ``asked`` names its columns by role."""
        if sensitive is None:
            raise ValueError(
                'sensitive is missing; name the columns to protect, such as sensitive="race".'
            )
        frame = in_memory(table, "a plan")
        source = frame_table(frame, "table")
        units: list[Any] = []
        for each in sensitive if isinstance(sensitive, list | tuple) else [sensitive]:
            names = resolve(each, source.names, "sensitive")
            units += [tuple(names)] if isinstance(each, tuple) else names
        bins = bins_of(sensitive, source.names)
        edges = {name: list(edges_of(name, source.values(name), bins[name], None)) for name in bins}
        alone = [_column(source, name, edges)[0] for name in flat(units)]
        order = order_told(rows_of(source, None), alone)
        told = [_secrets_of(source, unit, edges) for unit in units]
        frame = frame.reset_index(drop=True)
        roles, facts = _read(frame, flat(units), asked, settings.get("categories") or {})
        _check_secrets(told, all_pairs="secret_pairs" not in settings)
        given = {name: edges.get(name) for name in units} if edges else units
        return cls(frame, told, given, has_row_labels(source), order, roles, facts)

    @property
    def task(self) -> Name | None:
        """The column that is predicted from released rows."""
        return next(iter(self.roles["task"]), None)

    def secrets(self, held: Any, pairs: Any) -> list[Secrets]:
        """Return the secrets of rows that are held out, with the pairs that are protected."""
        rows = np.asarray(held.index)
        return [replace(each.of(rows), pairs=_protected(each, pairs)) for each in self.told]


def _read(
    frame: Any, hidden: list[Name], asked: Mapping[str, Any], orders: Mapping[Any, Any]
) -> tuple[dict[str, list[Name]], tuple[ColumnFacts, ...]]:
    """Return the columns by role, those to release last, and what each is.

    ``orders`` are the declared values of some columns, as in ``categories=``.
    """
    table, named = frame_table(frame), asked["public"] is not None
    roles = {"sensitive": hidden}
    for role in ("ids", "known", "task"):
        roles[role] = [] if asked[role] is None else resolve(asked[role], table.names, role)
    public = public_columns(asked["public"], table.names, hidden)
    uses = _uses({**roles, "public": public if named else []})
    if named:
        uses = dict.fromkeys(table.names, "not asked for") | uses
    kinds = dict.fromkeys(orders, "order") | dict.fromkeys(date_columns(frame), "date")
    facts = tuple(
        _fact(table, name, uses.get(name, ""), kinds.get(name, ""), named=named)
        for name in table.names
    )
    roles["public"] = [fact.name for fact in facts if fact.use == "release"]
    if not roles["public"]:
        raise ValueError(
            "no column is proposed for the release: each is sensitive, a task, stays with "
            "people, or looks like an identifier or a date; name those to release in public=."
        )
    return roles, facts


def flat(units: Sequence[Any]) -> list[Name]:
    """Return the columns of combinations of columns."""
    parts = [unit if isinstance(unit, tuple) else (unit,) for unit in units]
    return list(dict.fromkeys(name for part in parts for name in part))


def _column(source: Table, name: Name, edges: Mapping[Name, Any]) -> tuple[Secret, int]:
    """Return the secrets of a column, and whether the first of them is what is missing."""
    values = source.values(name)
    if name in edges:
        values = in_intervals(name, values, tuple(edges[name]))
    return read_secret(name, values, "category"), int(values.missing is not None)


def _secrets_of(source: Table, name: Any, edges: Mapping[Name, Any]) -> Secrets:
    """Return the secrets of the rows, or combinations of them; of missing ones the code is -1."""
    if isinstance(name, tuple):
        return Secrets(name, *_combined([_secrets_of(source, each, edges) for each in name]))
    secret, n_gaps = _column(source, name, edges)
    return Secrets(name, secret.labels[n_gaps:], secret.codes(source.n_rows) - n_gaps)


def _check_secrets(secrets: Sequence[Secrets], *, all_pairs: bool) -> None:
    for each in secrets:
        if all_pairs:
            check_few(each.name, len(each.labels))
        if len(each.labels) < 2:
            raise ValueError(
                f"sensitive column {quoted(each.name)} has one value only ({listed(each.labels)}): "
                "there is nothing to tell apart; name another column."
            )


def _protected(secret: Secrets, pairs: Any) -> list[tuple[int, int]]:
    """Return the codes of the pairs that are protected."""
    if isinstance(pairs, Mapping):
        pairs = pairs.get(secret.name, "all")
    labels, every = secret.labels, combinations(range(len(secret.labels)), 2)
    if isinstance(pairs, str):
        return list(every)
    asked = [list(pair) for pair in pairs]
    both = [(i, j, [labels[i], labels[j]]) for i, j in every]
    return [(i, j) for i, j, pair in both if pair in asked or pair[::-1] in asked]


# ----------------------------------------------------------------------------------- of an audit


def pairs_of(estimator: TableRelease) -> dict[Name, list[tuple[Any, Any]]]:
    """Return the protected pairs, one of both directions, by sensitive column."""
    found: dict[Name, dict[tuple[Any, Any], None]] = {}
    for loss in estimator.certificate_.pairs:
        of_column = found.setdefault(loss.sensitive, {})
        if (loss.against, loss.secret) not in of_column:
            of_column[loss.secret, loss.against] = None
    return {name: list(of_column) for name, of_column in found.items()}


def secrets_in(estimator: Any, source: Table, given: Any, frame: Any) -> list[Secrets]:
    """Return the secrets of the rows, by sensitive column, or by combinations of several."""
    columns = {} if given is None else beside(given, source.n_rows, frame, "sensitive_features")
    secrets = []
    for name, pairs in pairs_of(estimator).items():
        labels = list(dict.fromkeys(label for pair in pairs for label in pair))
        names = [name]
        if name not in columns and name not in source.names and isinstance(labels[0], tuple):
            names = list(estimator._fitted.rules.sensitive) or list(columns)
            names = [n for n in names if str(n) in str(name)]
        of_each = list(zip(*labels, strict=True)) if len(names) > 1 else [labels]
        every = zip(names, of_each, strict=True)
        parts = [_told_in(estimator, source, columns, *each) for each in every]
        found = replace(parts[0], name=name)
        if len(parts) > 1:
            found = Secrets(name, *_combined(parts))
        _check_values(name, found.labels, set(labels))
        secrets.append(found)
    return secrets


def _told_in(
    estimator: Any, source: Table, columns: Mapping[Name, Any], name: Name, labels: Sequence[Any]
) -> Secrets:
    """Return the secrets of a column, with the values merged that ``secret_groups`` merges."""
    if name not in columns and name not in source.names:
        raise ValueError(
            f"table lacks the sensitive column {quoted(name)}, which attackers are to tell; "
            "give it, or sensitive_features as in fit."
        )
    values = columns[name] if name in columns else source.values(name)
    values = in_intervals_of(dict.fromkeys(labels), values)
    secret = read_secret(name, values, estimator._fitted.rules.missing)
    codes = secret.codes(source.n_rows)
    merged = getattr(estimator, "secret_groups", None)
    if merged is None:
        return Secrets(name, secret.labels, codes)
    merged = merged[name] if isinstance(merged.get(name), Mapping) else merged
    group_of = {value: group for group, values in merged.items() for value in values}
    groups = [group_of.get(label, label) for label in secret.labels]
    kinds = list(dict.fromkeys(groups))
    return Secrets(name, kinds, np.array([kinds.index(each) for each in groups])[codes])


def _combined(parts: Sequence[Secrets]) -> tuple[Sequence[Any], Array]:
    """Return the combinations of secrets that occur; with a missing one the code is -1."""
    every = np.stack([part.codes for part in parts], axis=1)
    there, combined = (every >= 0).all(axis=1), np.full(len(every), -1)
    kinds, codes = np.unique(every[there], axis=0, return_inverse=True)
    combined[there] = codes.ravel()
    labels = [
        tuple(part.labels[code] for part, code in zip(parts, kind, strict=True))
        for kind in kinds.tolist()
    ]
    return labels, combined


def _check_values(name: Name, labels: Sequence[Any], fitted: set[Any]) -> None:
    """Refuse a table without two of the secrets that were fitted: it is another one."""
    if len(fitted.intersection(labels)) < 2:
        raise ValueError(
            f"estimator and table do not fit together: column {quoted(name)} has the values "
            f"{listed(list(labels), 5)} in table, and estimator protects "
            f"{listed(sorted(fitted, key=str), 5)}; give rows with values as in fit."
        )


def chosen_rows(
    estimator: Any, source: Table, secrets: Sequence[Secrets], max_rows: Any, seed: int
) -> tuple[Array, int, tuple[str, ...]]:
    """Return the rows to audit, group by group; how many rows a group has; and notes.

    Groups are of one size, as guarantees take sizes as known.
    """
    rules = estimator._fitted.rules
    if rules.groups is None:
        return _rows(source.n_rows, max_rows, seed), 1, ()
    [name] = resolve(rules.groups.column, source.names, "groups")
    codes = group_codes(source, name)
    check_one_secret(codes, name, {each.name: each.codes for each in secrets})
    order = np.argsort(codes, kind="stable")
    _, starts, sizes = np.unique(codes[order], return_index=True, return_counts=True)
    size = int(np.argmax(np.bincount(sizes) * np.arange(sizes.max() + 1)))
    alike, most = starts[sizes == size], max_rows
    if max_rows is not None:
        most = max(check_count(max_rows, "max_rows") // size, 2)
    kept = alike[_rows(len(alike), most, seed)]
    note = (
        f"Attackers saw all released rows of a group, and had {len(kept):,} groups of "
        f"{quoted(name)}, those of {size} rows, since sizes of groups are taken to be known."
    )
    return order[(kept[:, None] + np.arange(size)).ravel()], size, (note,)


def _rows(n_rows: int, max_rows: Any, seed: int) -> Array:
    every = np.arange(n_rows)
    if max_rows is None or check_count(max_rows, "max_rows") >= n_rows:
        return every
    chosen: Array = np.sort(train_test_split(every, train_size=max_rows, random_state=seed)[0])
    return chosen
