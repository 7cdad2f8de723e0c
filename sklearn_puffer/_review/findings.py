"""An audit: what it is given, what readers found out, and what the rows are still good for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import shuffle

from sklearn_puffer._base import (
    Array,
    Document,
    Page,
    Section,
    check_count,
    check_same_index,
    listed,
    quoted,
    short_number,
    shown,
)
from sklearn_puffer._release import check_one_secret, group_codes, jsonable
from sklearn_puffer._review.attack import Groups
from sklearn_puffer._review.exact_tests import POWER, Attack
from sklearn_puffer._review.measured import Secrets, Survived, in_memory
from sklearn_puffer._tables import (
    Name,
    Table,
    as_pandas,
    in_intervals_of,
    is_frame,
    is_lazy,
    read_secret,
    records_frame,
    resolve,
    secret_columns,
)


def pairs_of(noiser: Any) -> dict[Name, list[tuple[Any, Any]]]:
    """Return the protected pairs, without order; an artifact has them in its certificate alone."""
    if hasattr(noiser, "secret_pairs_"):
        return dict(noiser.secret_pairs_)
    pairs: dict[Name, dict[tuple[Any, Any], None]] = {}
    for loss in noiser.certificate_.pairs:
        of_column = pairs.setdefault(loss.sensitive, {})
        if (loss.against, loss.secret) not in of_column:
            of_column[loss.secret, loss.against] = None
    return {name: list(of_column) for name, of_column in pairs.items()}


def frame_of(table: Any) -> Any:
    """Return the table as a pandas DataFrame, in memory."""
    frame = in_memory(table, "an audit")
    if not len(frame):
        raise ValueError("table has 0 rows; give some hundred that were not in fit.")
    odd = [label for label in frame.columns if not isinstance(label, str)]
    if odd:
        raise TypeError(
            f"table has a column called {odd[0]!r}, and an audit needs strings; fit and audit it "
            "with table.columns = table.columns.astype(str)."
        )
    return frame


def check_aligned(table: Any, task: Any, peers: Any) -> None:
    """Refuse targets and peers whose row labels say that they are in another order."""
    if isinstance(task, tuple):
        check_same_index(task[-1], "y of task", table, "table")
    for name, rows in peers.items() if isinstance(peers, Mapping) else ():
        check_same_index(rows, f"peers[{name!r}]", table, "table")


def secrets_in(estimator: Any, source: Table, given: Any, frame: Any) -> list[Secrets]:
    """Return the secrets of the rows, by sensitive column, or by combinations of several."""
    columns = {} if given is None else secret_columns(given, source.n_rows, frame)
    secrets = []
    for name, pairs in pairs_of(estimator).items():
        labels = list(dict.fromkeys(label for pair in pairs for label in pair))
        names = [name]
        if name not in columns and name not in source.names and isinstance(labels[0], tuple):
            names = list(estimator._fitted.rules.sensitive) or list(columns)
            names = [n for n in names if str(n) in str(name)]
        parts = [
            _codes(estimator, source, columns, each, [lab[k] for lab in labels])
            if len(names) > 1
            else _codes(estimator, source, columns, each, labels)
            for k, each in enumerate(names)
        ]
        found, codes = parts[0] if len(parts) == 1 else _combined(parts)
        _check_values(name, found, set(labels))
        secrets.append(Secrets(name, found, codes))
    return secrets


def _codes(
    estimator: Any, source: Table, columns: Mapping[Name, Any], name: Name, labels: Sequence[Any]
) -> tuple[Sequence[Any], Array]:
    """Return the secrets of a column, and the number of that of each row."""
    if name not in columns and name not in source.names:
        raise ValueError(
            f"table lacks the sensitive column {quoted(name)}, which attackers are to tell; "
            "give it, or sensitive_features as in fit."
        )
    values = columns[name] if name in columns else source.values(name)
    values = in_intervals_of(dict.fromkeys(labels), values)
    secret = read_secret(name, values, estimator._fitted.rules.missing)
    codes = np.empty(source.n_rows, dtype=np.intp)
    secret.source.codes(slice(None), codes)
    return _merged(getattr(estimator, "secret_groups", None), name, secret.labels, codes)


def _merged(
    groups: Any, name: Name, labels: Sequence[Any], codes: Array
) -> tuple[Sequence[Any], Array]:
    """Return secrets, and that of each row, where the estimator takes several values for one."""
    if groups is None:
        return labels, codes
    of_column = groups.get(name, {}) if isinstance(groups.get(name), Mapping) else groups
    group_of = {value: group for group, values in of_column.items() for value in values}
    merged = [group_of.get(label, label) for label in labels]
    kinds = list(dict.fromkeys(merged))
    return kinds, np.array([kinds.index(each) for each in merged])[codes]


def _combined(parts: Sequence[tuple[Sequence[Any], Array]]) -> tuple[Sequence[Any], Array]:
    """Return the combinations of secrets that occur."""
    every = np.stack([codes for _, codes in parts], axis=1)
    kinds, codes = np.unique(every, axis=0, return_inverse=True)
    labels = [
        tuple(found[code] for (found, _), code in zip(parts, kind, strict=True))
        for kind in kinds.tolist()
    ]
    return labels, codes.ravel()


def _check_values(name: Name, labels: Sequence[Any], fitted: set[Any]) -> None:
    """Refuse a table without two of the secrets that were fitted: it is another one."""
    if len(fitted.intersection(labels)) < 2:
        raise ValueError(
            f"estimator and table do not fit together: column {quoted(name)} has the values "
            f"{listed(list(labels), 5)} in table, and estimator protects "
            f"{listed(sorted(fitted, key=str), 5)}; give rows with values as in fit."
        )


_Chosen = tuple[Array, Name | None, tuple[str, ...]]


def chosen_rows(
    estimator: Any, source: Table, secrets: Sequence[Secrets], groups: Any, max_rows: Any, seed: int
) -> _Chosen:
    """Return the rows to audit, the column of the groups that are attacked, and what to say."""
    rules = estimator._fitted.rules
    column = None if rules.groups is None else rules.groups.column
    if column is None and groups is None:
        return _rows(source.n_rows, max_rows, seed), None, ()
    [name] = resolve(column if groups is None else groups, source.names, "groups")
    if column not in (None, name):
        raise ValueError(
            f"groups={quoted(name)}, and estimator guarantees groups of {quoted(column)}; leave "
            "groups out."
        )
    codes = group_codes(source, name)
    units = Groups.of(codes)
    if column is None:
        note = f"One row of each of {len(units):,} groups of {quoted(name)} was audited, by lot."
        order = shuffle(np.arange(source.n_rows), random_state=seed)
        alone = np.sort(order[np.unique(codes[order], return_index=True)[1]])
        return alone[_rows(len(alone), max_rows, seed)], None, (note,)
    check_one_secret(codes, column, {each.name: each.codes for each in secrets})
    return _chosen_groups(column, units, max_rows, seed)


def _chosen_groups(column: Name, units: Groups, max_rows: Any, seed: int) -> _Chosen:
    """Return the rows of groups, all of one size where no guarantee hides their sizes."""
    sizes, which = units.wide.sizes, ""
    kept = np.arange(len(units))
    if len(np.unique(sizes)) > 1:
        size = int(np.argmax(np.bincount(sizes) * np.arange(sizes.max() + 1)))
        kept = np.flatnonzero(sizes == size)
        which = f", those of {size} rows, since sizes of groups are taken to be known"
    if max_rows is not None:
        most = check_count(max_rows, "max_rows")
        share = max(most * len(kept) // int(sizes[kept].sum()), 2)
        kept = kept[_rows(len(kept), share, seed)]
    note = (
        f"Attackers saw all released rows of a group, and had {len(kept):,} groups of "
        f"{quoted(column)}{which}."
    )
    return units.rows(kept), column, (note,)


def _rows(n_rows: int, max_rows: Any, seed: int) -> Array:
    every = np.arange(n_rows)
    if max_rows is None or check_count(max_rows, "max_rows") >= n_rows:
        return every
    chosen: Array = np.sort(train_test_split(every, train_size=max_rows, random_state=seed)[0])
    return chosen


def peers_of(peers: Any, n_rows: int, columns: Sequence[Name]) -> dict[str, Any]:
    """Return by name those of the released columns that each peer has, as pandas DataFrames."""
    if peers is None:
        return {}
    if not isinstance(peers, Mapping):
        raise TypeError(
            f"peers is {quoted(peers)}; give {{name: DataFrame}}, the rows of table as another way "
            "released them (examples/peers_of_a_release.py makes some)."
        )
    return {str(name): _given(name, rows, n_rows, columns) for name, rows in peers.items()}


def _given(name: Any, rows: Any, n_rows: int, columns: Sequence[Name]) -> Any:
    if is_lazy(rows) or not is_frame(rows):
        raise TypeError(
            f"peers gives {quoted(name)} as {type(rows).__name__}; give a DataFrame in memory, of "
            "the rows of table as this peer released them."
        )
    if len(frame := as_pandas(rows)) != n_rows:
        raise ValueError(
            f"peers gives {quoted(name)} {len(frame)} rows beside {n_rows} of table; give every "
            "row of table as it was released, in the same order."
        )
    if not (names := [column for column in columns if column in frame.columns]):
        raise ValueError(
            f"peers gives {quoted(name)} without any of the released columns "
            f"{listed(list(columns), 5)}; give these, as the peer released them."
        )
    return frame[names]


SCHEMA = "sklearn_puffer.audit/6"
CONTROL = "no release"
INTERNAL = (
    "This audit is computed from the raw rows, and its own releases of them were "
    "dropped: keep it where you keep the table, and do not release it."
)
NO_PROOF = (
    "No finding is no proof: other attackers, or more rows, may find more. The certificate says "
    "what is guaranteed."
)
_MOST_LINES = 12


@dataclass(frozen=True)
class Finding:
    """An attack that tells more than was guaranteed, beyond what chance explains.

    Attributes
    ----------
    attack : Attack
    n_tests : int
        Over which its p-value is corrected.
    """

    attack: Attack
    n_tests: int

    def __str__(self) -> str:
        attack = self.attack
        return (
            f"{attack.view} ({attack.attacker}) finds {shown(attack.sensitive)} = "
            f"{shown(attack.secret)} against {shown(attack.against)}: odds shift by "
            f"{attack.log_odds:.2f} ({_ends(attack.low, attack.high)}), where "
            f"{short_number(attack.allowed)} was "
            f"guaranteed: p = {attack.p_all:.2g} over {self.n_tests} tests. Either the release "
            "loses more than its certificate says, or these rows do not follow the distribution "
            "that was fitted."
        )


@dataclass(frozen=True)
class Peer:
    """What another way to hide the secret came to.

    Attributes
    ----------
    name : str
    attacks : tuple of Attack
        By the same attackers on the same rows. What is allowed is what the audited release
        guaranteed, and not they: there is no p-value, and no certified loss.
    survived : tuple of Survived
        What its rows were good for before, and are after.
    """

    name: str
    attacks: tuple[Attack, ...]
    survived: tuple[Survived, ...]


@dataclass(frozen=True)
class Audit(Document):
    """What `audit` found.

    Parameters
    ----------
    attacks : tuple of Attack
        By readers whom the guarantee covers: one for each pair in each direction, each reader and
        each way in which he reads rows.
    control : tuple of Attack
        Those of fresh models on the rows as they are.
    level : float
        The chance of a false alarm, and of each interval to miss.
    promise : str
        What was guaranteed.
    n_rows, n_given : int
        Rows that were released, and rows of the table.
    n_train, n_choose, n_test : int
        Rows that attackers learnt from, chose events on, and were judged on.
    survived : tuple of Survived
        What the rows were good for before, and are after.
    others : tuple of Attack
        By readers whom the guarantee does not cover.
    peers : tuple of Peer
        Other ways to hide the secrets, attacked alike.
    drifted : bool
        Whether rows differ from those of `fit` by more than chance.
    fitted : bool
        Whether these rows look like those of `fit` themselves.
    untested : tuple of str
        Pairs with too few rows.
    knows : tuple of (str, str)
        The readers, and what each of them knows.
    released_by : str
        The mechanism, as its certificate names it.
    notes : tuple of str
        What else to know.
    version, date, name : str
        Of the library, the time (UTC, ISO 8601), and the name that `named` gave the table.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser, audit
    >>> cars = [0, 5, 2, 4, 5, 0, 1, 9, 0, 3]
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 5000, "cars": cars * 1000})
    >>> noiser = PufferfishNoiser(4.0, sensitive="loan").fit(table)
    >>> found = audit(noiser, table)
    >>> found.fitted, len(found.table)
    (True, 8)
    """

    attacks: tuple[Attack, ...]
    control: tuple[Attack, ...]
    level: float
    promise: str
    n_rows: int
    n_given: int
    n_train: int
    n_choose: int
    n_test: int
    survived: tuple[Survived, ...] = ()
    others: tuple[Attack, ...] = ()
    peers: tuple[Peer, ...] = ()
    drifted: bool = False
    fitted: bool = False
    untested: tuple[str, ...] = ()
    knows: tuple[tuple[str, str], ...] = ()
    released_by: str = ""
    notes: tuple[str, ...] = ()
    version: str = ""
    date: str = field(default="", compare=False)
    name: str = field(default="", compare=False)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The attacks beyond the guarantee, at the level over all tests, the surest first."""
        beyond = sorted((a for a in self.attacks if a.p_all <= self.level), key=lambda a: a.p_all)
        return tuple(Finding(a, len(self.attacks)) for a in beyond)

    @property
    def caught(self) -> bool:
        """Whether the same attacks catch rows without noise: else they are too weak to tell."""
        return any(attack.p_all <= self.level for attack in self.control)

    @property
    def table(self) -> Any:
        """The attacks as a DataFrame: a row for each pair in each direction, and each attacker.

        Rows whose ``view`` begins with "peer:" are of peers, which have no such guarantee: what is
        allowed there is that of the release, and there is no p-value.
        """
        return _frame([*self.attacks, *(attack for peer in self.peers for attack in peer.attacks)])

    @property
    def control_table(self) -> Any:
        """The same of the rows without noise."""
        return _frame(self.control)

    @property
    def readers(self) -> Any:
        """A row for each reader: what he knows, what he reached, what is allowed, and the power.

        Of each the attack with the smallest p-value, or where nothing is guaranteed to him the one
        whose shift of the odds is proven to be largest; ``allowed`` is NaN then.
        """
        names = ["reader", "knows", "attacker", "secret", "against", "auc", "log_odds", "low"]
        names += ["high", "allowed", "p_all", "findable"]
        records = [
            (reader, knows, *(getattr(best, name) for name in names[2:]))
            for reader, knows, best in self._by_reader()
        ]
        return records_frame(records, names)

    def _by_reader(self) -> list[tuple[str, str, Attack]]:
        of: dict[str, list[Attack]] = {}
        for attack in (*self.attacks, *self.others):
            of.setdefault(attack.view, []).append(attack)
        best = {view: min(attacks, key=_order) for view, attacks in of.items()}
        knows = dict(self.knows)
        return [(view, knows.get(view, ""), attack) for view, attack in best.items()]

    @property
    def utility(self) -> Any:
        """What survived as a DataFrame: what was measured, before and after, and of each peer."""
        names = ["what", "column", "before", "after"]
        records = [
            (*vars(f).values(), *(_after(peer, f.what, f.column) for peer in self.peers))
            for f in self.survived
        ]
        return records_frame(records, [*names, *(f"peer: {peer.name}" for peer in self.peers)])

    @property
    def power(self) -> Any:
        """What would have been found: for each attack the loss that has a chance of 80 %."""
        names = ["attacker", "sensitive", "secret", "against", "share", "allowed", "findable"]
        return records_frame([tuple(getattr(a, n) for n in names) for a in self.attacks], names)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain Python values, for JSON.

        Returns
        -------
        dict
            With all attacks, and the findings as sentences.
        """
        return {
            "schema": SCHEMA,
            "internal": INTERNAL,
            "name": self.name,
            "version": self.version,
            "date": self.date,
            "promise": self.promise,
            "released_by": self.released_by,
            "level": self.level,
            **{k: getattr(self, k) for k in ("n_rows", "n_given", "n_train", "n_choose", "n_test")},
            "findings": [*map(str, self.findings)],
            "caught_without_noise": self.caught,
            "drifted": self.drifted,
            "rows_of_fit": self.fitted,
            "attacks": _records(self.attacks),
            "control": _records(self.control),
            "readers": [
                {"reader": reader, "knows": knows, **_records([best])[0]}
                for reader, knows, best in self._by_reader()
            ],
            "others": _records(self.others),
            "utility": _records(self.survived),
            "peers": [
                {
                    "name": peer.name,
                    "attacks": _records(peer.attacks),
                    "utility": _records(peer.survived),
                }
                for peer in self.peers
            ],
            "untested": list(self.untested),
            "notes": list(self.notes),
        }

    def _page(self) -> Page:
        return Page(self._headline(), self._lines(), self._sections())

    def _headline(self) -> str:
        about = f" of {shown(self.name)}" if self.name else ""
        count = len(self.findings)
        if count:
            subject = "one attack tells" if count == 1 else f"{count} attacks tell"
            return f"Audit{about}: {subject} MORE THAN WAS PROMISED."
        if not self.caught:
            return f"Audit{about}: nothing found, BUT THESE ATTACKERS COULD NOT HAVE FOUND IT."
        return f"Audit{about}: no attack tells more than was guaranteed, as far as it can see."

    def _lines(self) -> list[str]:
        part = "" if self.n_rows == self.n_given else f" (of {self.n_given:,})"
        lines = [
            f"Promised: {self.promise}",
            f"{self.n_rows:,} rows{part} were released: attackers learnt from {self.n_train:,}, "
            f"chose events on {self.n_choose:,}, and were judged on {self.n_test:,}. "
            f"False alarms have a chance of {self.level:.0%} at most, over all "
            f"{len(self.attacks)} tests, if rows are independent and the guarantee is kept.",
            *self._power_lines(),
            *self._about_rows(),
        ]
        return [*lines, *self.notes, INTERNAL]

    def _power_lines(self) -> list[str]:
        least = min((a.findable for a in self.attacks), default=math.inf)
        loss = "no loss at all" if math.isinf(least) else f"a loss of {short_number(least)}"
        lines = [
            f"Power: with a chance of {POWER:.0%} the most sensitive of the chosen events shows "
            f"{loss}; smaller losses may be there."
        ]
        control = "Control: on the rows as they are fresh models tell more than was guaranteed."
        if not self.caught:
            control = (
                "Control: fresh models tell no more than was guaranteed from the rows AS THEY ARE, "
                "so that no finding means nothing: the attackers are too weak, the rows too few, "
                "or the columns hardly tell the secrets."
            )
        return [*lines, control, *([] if self.findings else [NO_PROOF])]

    def _about_rows(self) -> list[str]:
        lines = []
        if self.fitted:
            lines = [
                "These look like the very rows of fit: the audit tests the noise under the fitted "
                "distribution, and cannot see how other rows differ. Hold rows out for that."
            ]
        if self.drifted:
            lines.append("These rows do not look like those of fit: certificate_.check says where.")
        return lines

    def _sections(self) -> list[Section]:
        return [
            *[Section("Findings", sentences=[*map(str, self.findings)])] * bool(self.findings),
            self._readers_section(),
            self._attacks_section("Attacks on released rows", self.attacks),
            self._attacks_section("Control: fresh models on the rows as they are", self.control),
            *self._peers_section(),
            *_utility_section(self.survived, self.peers),
            *[Section("Not tested: too few rows", sentences=self.untested)] * bool(self.untested),
        ]

    def _readers_section(self) -> Section:
        note = (
            "shift: how far the odds of two secrets are from the base odds where the reader says "
            f"so, in nats, with its {1.0 - self.level:.0%} interval; power: the shift that would "
            f"have been found with a chance of {POWER:.0%}"
        )
        head = ["reader", "knows", "shift", "interval", "allowed", "power", "p"]
        cells = [
            [reader, knows, f"{a.log_odds:.2f}", _ends(a.low, a.high), *_allowed(a)]
            for reader, knows, a in self._by_reader()
        ]
        return Section("Readers", note, [head, *cells])

    def _peers_section(self) -> list[Section]:
        if not self.peers:
            return []
        note = (
            "the same attackers on the same rows; peers HAVE NO SUCH PROMISE, and are no findings; "
            "nobody checked that these are releases of the table; of each the pair that is told "
            "best"
        )
        ways = [("this release", self.attacks), *((p.name, p.attacks) for p in self.peers)]
        head = ["way", "attacker", "secret", "against", "AUC", "shift", "interval"]
        cells = [_best_cells(name, attacks, attacker=True) for name, attacks in ways]
        return [Section("Peers", note, [head, *cells])]

    def _attacks_section(self, title: str, attacks: Sequence[Attack]) -> Section:
        note = (
            f"intervals at {1.0 - self.level:.0%}, each by itself; p is that of the guarantee, "
            "over all tests; findable is the loss that the event would have shown with a chance of "
            f"{POWER:.0%}"
        )
        if len(attacks) > _MOST_LINES:
            note += f"; the {_MOST_LINES} with the smallest p of {len(attacks)}, .table has all"
        worst = sorted(attacks, key=lambda a: (a.p, -a.auc))[:_MOST_LINES]
        head = ["reader", "attacker", "secret", "against", "rows", "AUC", "allowed"]
        head += ["shift", "interval", "allowed", "p", "power"]
        return Section(title, note, [head, *map(_cells, worst)])


def _cells(attack: Attack) -> list[str]:
    allowed, power, p = _allowed(attack)
    area = "-" if math.isnan(attack.auc_allowed) else f"{attack.auc_allowed:.3f}"
    return [
        *(shown(what) for what in (attack.view, attack.attacker, attack.secret, attack.against)),
        f"{attack.n} + {attack.n_against}",
        f"{attack.auc:.3f} ({attack.auc_low:.2f} to {attack.auc_high:.2f})",
        area,
        f"{attack.log_odds:.2f}",
        _ends(attack.low, attack.high),
        allowed,
        p,
        power,
    ]


def _order(attack: Attack) -> tuple[float, float]:
    """Return what is small for what an attack that was found says most."""
    return (1.0 if math.isnan(attack.p_all) else attack.p_all, -attack.low)


def _best_cells(name: str, attacks: Sequence[Attack], attacker: bool = False) -> list[str]:
    """Return the line of the pair that is told best."""
    best = max(attacks, key=lambda attack: attack.auc)
    return [
        shown(name),
        *([shown(best.attacker)] if attacker else []),
        shown(best.secret),
        shown(best.against),
        f"{best.auc:.3f} ({best.auc_low:.2f} to {best.auc_high:.2f})",
        f"{best.log_odds:.2f}",
        _ends(best.low, best.high),
    ]


def _utility_section(survived: Sequence[Survived], peers: Sequence[Peer]) -> list[Section]:
    if not survived:
        return []
    note = "what the rows say before the release, and after; by chance an AUC is 0.5, and an R2 0"
    cells = [["what", "column", "before", "after", *(shown(peer.name) for peer in peers)]]
    for figure in survived:
        after_peers = [_after(peer, figure.what, figure.column) for peer in peers]
        figures = [figure.before, figure.after, *after_peers]
        texts = ["" if math.isnan(value) else f"{value:.4g}" for value in figures]
        cells.append([figure.what, shown(figure.column), *texts])
    return [Section("What survives", note, cells)]


def _after(peer: Peer, what: str, column: Name) -> float:
    """Return what the same figure is of a peer, NaN where it has none."""
    same = (s.after for s in peer.survived if s.what == what and str(s.column) == str(column))
    return next(same, math.nan)


def _allowed(attack: Attack) -> list[str]:
    """Return what is allowed, the power and the p-value, in words where nothing is guaranteed."""
    if math.isnan(attack.allowed):
        return ["not covered", "-", "-"]
    power = "-" if math.isinf(attack.findable) else f"{attack.findable:.2f}"
    return [short_number(attack.allowed), power, f"{attack.p_all:.2g}"]


def _ends(low: float, high: float) -> str:
    return f"{low:.2f} to {high:.2f}"


def _frame(attacks: Iterable[Attack]) -> Any:
    records = [tuple(vars(attack).values()) for attack in attacks]
    return records_frame(records, tuple(Attack.__dataclass_fields__))


def _records(facts: Iterable[Attack | Survived]) -> list[dict[str, Any]]:
    return [{key: jsonable(_number(value)) for key, value in vars(f).items()} for f in facts]


def _number(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    if math.isnan(value):
        return None
    return "infinity" if value > 0.0 else "-infinity"


def pair_names(pairs: Iterable[tuple[Any, Any, Any, int, int]]) -> tuple[str, ...]:
    """Return pairs that have too few rows, with their numbers of rows."""
    return tuple(
        f"{shown(name)}: {listed([a, b])} ({n} and {m} test rows)" for name, a, b, n, m in pairs
    )
