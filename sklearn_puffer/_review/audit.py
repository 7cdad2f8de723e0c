"""An audit: what attackers found out from released rows, and what the rows are still good for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sklearn_puffer._base import Document, Page, Section, listed, short_number, shown
from sklearn_puffer._noiser import noise_of
from sklearn_puffer._release import counted_loss, jsonable
from sklearn_puffer._review.attack import Attack
from sklearn_puffer._review.exact_tests import POWER
from sklearn_puffer._review.measured import Survived
from sklearn_puffer._tables import Name, records_frame

SCHEMA = "sklearn_puffer.audit/4"
RELEASED, CONTROL = "released", "no noise"
INTERNAL = (
    "This audit is computed from the raw rows, without noise, and its own releases of them were "
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
    exact : float or None
        The loss under the distributions counted from these rows, an estimate.
    """

    attack: Attack
    n_tests: int
    exact: float | None = None

    def __str__(self) -> str:
        attack = self.attack
        estimate = "" if self.exact is None else f" {counted_loss(self.exact)}."
        return (
            f"{attack.attacker} finds {shown(attack.sensitive)} = {shown(attack.secret)} against "
            f"{shown(attack.against)} with log odds of {attack.log_odds:.2f} "
            f"({_ends(attack.low, attack.high)}), where {short_number(attack.allowed)} was "
            f"guaranteed: p = {attack.p_all:.2g} over {self.n_tests} tests. Either the release "
            "loses more than its certificate says, or these rows do not follow the distribution "
            f"that was fitted.{estimate}"
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
        On the released rows: one for each pair in each direction, and each attacker.
    control : tuple of Attack
        The same on rows without noise.
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
    exact : float or None
        The loss under the distributions counted from these rows, an estimate; None where unknown.
    drifted : bool
        Whether rows differ from those of `fit` by more than chance.
    fitted : bool
        Whether these rows look like those of `fit` themselves.
    best : float
        The loss that an event as good as can be would have shown with a chance of 80 %.
    untested : tuple of str
        Pairs with too few rows.
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
    (True, 6)
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
    exact: float | None = None
    drifted: bool = False
    fitted: bool = False
    best: float = math.inf
    untested: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    version: str = ""
    date: str = field(default="", compare=False)
    name: str = field(default="", compare=False)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The attacks beyond the guarantee, at the level over all tests, the surest first."""
        beyond = sorted((a for a in self.attacks if a.p_all <= self.level), key=lambda a: a.p_all)
        return tuple(Finding(a, len(self.attacks), self.exact) for a in beyond)

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
        """The same of readers whom the guarantee does not cover; ``view`` says what they see."""
        return _frame(self.others)

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
            "level": self.level,
            **{k: getattr(self, k) for k in ("n_rows", "n_given", "n_train", "n_choose", "n_test")},
            "findings": [*map(str, self.findings)],
            "caught_without_noise": self.caught,
            "loss_under_these_rows": jsonable(self.exact),
            "drifted": self.drifted,
            "rows_of_fit": self.fitted,
            "findable_at_best": jsonable(self.best),
            "attacks": _records(self.attacks),
            "control": _records(self.control),
            "readers": _records(self.others),
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
        seen = "none" if math.isinf(least) else f"one of {short_number(least)}"
        best = "none" if math.isinf(self.best) else f"a loss of {short_number(self.best)}"
        lines = [
            f"Power: with these rows the best of all attacks finds {best} with a chance of "
            f"{POWER:.0%}, and the most sensitive of the chosen events {seen}; smaller losses may "
            "be there."
        ]
        control = "Control: without noise the same attacks tell more than was guaranteed."
        if not self.caught:
            control = (
                "Control: the same attacks tell no more than was guaranteed from rows WITHOUT "
                "noise, so that no finding means nothing: the attackers are too weak, the rows too "
                "few, or the columns hardly tell the secrets."
            )
        return [*lines, control, *([] if self.findings else [NO_PROOF])]

    def _about_rows(self) -> list[str]:
        lines = [
            "None of these rows may have been in fit, or differences between the fitted "
            "distribution and the true one are hidden."
        ]
        if self.fitted:
            lines = [
                "These look like the very rows of fit: the audit tests the noise under the fitted "
                "distribution, and cannot see how other rows differ. Hold rows out for that."
            ]
        if self.exact is not None:
            lines.append(f"{counted_loss(self.exact)}.")
        if self.drifted:
            lines.append("These rows do not look like those of fit: certificate_.check says where.")
        return lines

    def _sections(self) -> list[Section]:
        return [
            *[Section("Findings", sentences=[*map(str, self.findings)])] * bool(self.findings),
            self._attacks_section("Attacks on released rows", self.attacks),
            self._attacks_section("Control: the same on rows without noise", self.control),
            *_readers_section(self.others),
            *self._peers_section(),
            *_utility_section(self.survived, self.peers),
            *[Section("Not tested: too few rows", sentences=self.untested)] * bool(self.untested),
        ]

    def _peers_section(self) -> list[Section]:
        if not self.peers:
            return []
        note = (
            "the same attackers on the same rows; peers HAVE NO SUCH PROMISE, and are no findings; "
            "nobody checked that these are releases of the table; of each the pair that is told "
            "best"
        )
        ways = [("this release", self.attacks), *((p.name, p.attacks) for p in self.peers)]
        head = ["way", "attacker", "secret", "against", "AUC", "advantage", "log odds", "interval"]
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
        head = ["sensitive", "secret", "against", "attacker", "rows", "AUC", "allowed", "advantage"]
        head += ["allowed", "log odds", "interval", "allowed", "p", "findable"]
        return Section(title, note, [head, *map(_cells, worst)])


def _cells(attack: Attack) -> list[str]:
    return [
        *(shown(label) for label in (attack.sensitive, attack.secret, attack.against)),
        attack.attacker,
        f"{attack.n} + {attack.n_against}",
        f"{attack.auc:.3f} ({attack.auc_low:.2f} to {attack.auc_high:.2f})",
        f"{attack.auc_allowed:.3f}",
        f"{attack.advantage:.3f} ({attack.advantage_low:.2f} to {attack.advantage_high:.2f})",
        f"{attack.advantage_allowed:.3f}",
        f"{attack.log_odds:.2f}",
        _ends(attack.low, attack.high),
        short_number(attack.allowed),
        f"{attack.p_all:.2g}",
        "-" if math.isinf(attack.findable) else f"{attack.findable:.2f}",
    ]


def _readers_section(others: Sequence[Attack]) -> list[Section]:
    """Return for each reader the pair that is told best."""
    if not others:
        return []
    note = "whom the guarantee does not cover; of each the pair that is told best"
    views = dict.fromkeys(attack.view for attack in others)
    head = ["reader", "secret", "against", "AUC", "advantage", "log odds", "interval"]
    cells = [_best_cells(view, [o for o in others if o.view == view]) for view in views]
    return [Section("Other readers", note, [head, *cells])]


def _best_cells(name: str, attacks: Sequence[Attack], attacker: bool = False) -> list[str]:
    """Return the line of the pair that is told best."""
    best = max(attacks, key=lambda attack: attack.auc)
    return [
        shown(name),
        *([shown(best.attacker)] if attacker else []),
        shown(best.secret),
        shown(best.against),
        f"{best.auc:.3f} ({best.auc_low:.2f} to {best.auc_high:.2f})",
        f"{best.advantage:.3f}",
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


def check_told_of(noiser: Any, page: str) -> None:
    """Refuse a fitted estimator of whose mechanism these pages have no sentences yet."""
    fitted = noiser._fitted
    if noise_of(fitted) is None:
        raise TypeError(
            f"{page} takes what PufferfishNoiser fits, and {type(noiser).__name__} releases by "
            f"{fitted.certificate.noise}; print its certificate_ with details(), and its utility_."
        )
