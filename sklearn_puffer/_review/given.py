"""What a plan and an audit are given: tables, columns, secrets and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.utils import shuffle

from sklearn_puffer._base import Array, check_count
from sklearn_puffer._codes import (
    WAY_OF_TEXT,
    SecretRule,
    bins_of,
    check_few,
    edges_of,
    identifier_kind,
    in_intervals_of,
    merges_of,
    public_columns,
    resolve,
)
from sklearn_puffer._engines import is_lazy
from sklearn_puffer._release import TableRelease
from sklearn_puffer._review.exact_tests import Secrets
from sklearn_puffer._rows import (
    RowOrder,
    check_one_secret,
    group_codes,
    order_told,
    refuse_twice,
    rows_of,
)
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
    "public": "",
    "task": "not asked for",
    "known": "stays with people",
    "ids": "stays with people",
    "sensitive": "sensitive",
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
        edges = {name: edges_of(name, source.values(name), bins[name], None) for name in bins}
        columns = {name: source.values(name) for name in flat(units)}
        alone = [SecretRule((name,), edges, "category").read(columns) for name in columns]
        order = order_told(rows_of(source, None), alone)
        told = []
        for unit in units:
            names = flat([unit])
            secret = SecretRule(tuple(names), edges, "category").read(columns)
            gaps = [columns[name].missing for name in names]
            codes, there = np.full(source.n_rows, -1), np.full(source.n_rows, True)
            for gone in gaps:
                there &= True if gone is None else ~gone
            kinds, codes[there] = np.unique(secret.codes(source.n_rows)[there], return_inverse=True)
            labels = [secret.labels[kind] for kind in kinds.tolist()]
            if "secret_pairs" not in settings:
                check_few(unit, len(labels))
            if len(labels) < 2:
                raise ValueError(
                    f"sensitive column {quoted(unit)} has one value only ({listed(labels)}): "
                    "there is nothing to tell apart; name another column."
                )
            told.append(Secrets(unit, labels, codes))
        frame = frame.reset_index(drop=True)
        roles, facts = _read(frame, flat(units), asked, settings.get("categories") or {})
        given = {name: list(edges.get(name, [])) or None for name in units} if edges else units
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
    roles["public"] = public if named else []
    alone = [name for name in roles["task"] if name not in roles["known"]]  # readers may know it
    refuse_twice({**roles, "task": alone})
    uses = dict.fromkeys(table.names, "not asked for" if named else "")
    for role, use in _ROLES.items():
        uses |= dict.fromkeys(roles[role], use)
    kinds = dict.fromkeys(orders, "order") | dict.fromkeys(date_columns(frame), "date")
    facts = tuple(
        _fact(table, name, uses[name], kinds.get(name, ""), named=named) for name in table.names
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
    rules, secrets, there = estimator._fitted.rules, [], {*columns, *source.names}
    every = list(rules.sensitive) or list(columns)
    merged = merges_of(getattr(estimator, "secret_groups", None), every)
    for name, pairs in pairs_of(estimator).items():
        labels, names = list(dict.fromkeys(label for pair in pairs for label in pair)), [name]
        if name not in there and isinstance(labels[0], tuple):
            names = [each for each in every if str(each) in str(name)]
        own = {}
        for k, each in enumerate(names):
            if each not in there:
                raise ValueError(
                    f"table lacks the sensitive column {quoted(each)}, which attackers are to "
                    "tell; give it, or sensitive_features as in fit."
                )
            values = columns[each] if each in columns else source.values(each)
            ends = dict.fromkeys(label[k] for label in labels) if len(names) > 1 else labels
            own[each] = in_intervals_of(ends, values)
        secret = SecretRule(tuple(names), {}, rules.missing, merged=merged).read(own)
        if len({*labels} & {*secret.labels}) < 2:
            raise ValueError(
                f"estimator and table do not fit together: column {quoted(name)} has the values "
                f"{listed(list(secret.labels), 5)} in table, and estimator protects "
                f"{listed(sorted(labels, key=str), 5)}; give rows with values as in fit."
            )
        secrets.append(Secrets(name, secret.labels, secret.codes(source.n_rows)))
    return secrets


def chosen_rows(
    estimator: Any, source: Table, secrets: Sequence[Secrets], max_rows: Any, seed: int
) -> tuple[Array, int, tuple[str, ...]]:
    """Return the rows to audit, group by group; how many rows a group has; and notes.

    Groups are of one size, as guarantees take sizes as known.
    """
    groups, rows = estimator._fitted.rules.groups, np.arange(source.n_rows)
    most = len(rows) if max_rows is None else check_count(max_rows, "max_rows")
    if groups is None:
        return _some(rows, most, seed), 1, ()
    [name] = resolve(groups.column, source.names, "groups")
    codes = group_codes(source, name)
    check_one_secret(codes, name, {each.name: each.codes for each in secrets})
    order = np.argsort(codes, kind="stable")
    _, starts, sizes = np.unique(codes[order], return_index=True, return_counts=True)
    size = int(np.argmax(np.bincount(sizes) * np.arange(sizes.max() + 1)))
    kept = _some(starts[sizes == size], max(most // size, 2), seed)
    note = (
        f"Attackers saw all released rows of a group, and had {len(kept):,} groups of "
        f"{quoted(name)}, those of {size} rows, since sizes of groups are taken to be known."
    )
    return order[(kept[:, None] + np.arange(size)).ravel()], size, (note,)


def _some(rows: Array, most: int, seed: int) -> Array:
    """Return at most so many of some rows, drawn by a seed."""
    return np.sort(shuffle(rows, random_state=seed)[:most])
