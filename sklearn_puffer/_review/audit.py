"""`audit`: what each reader found out from released rows, and what the rows are still good for."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_puffer._base import PufferfishWarning, check_seed, check_verbose, listening
from sklearn_puffer._base import task as reported
from sklearn_puffer._documents import Document, Page, Section, __version__, utc_now
from sklearn_puffer._release import TableRelease
from sklearn_puffer._review.exact_tests import (
    LEVEL,
    POWER,
    TRAIN,
    Attack,
    Reader,
    RowSplit,
    Secrets,
)
from sklearn_puffer._review.measured import Survived, reidentified, task_figures, task_of
from sklearn_puffer._review.plan import framed, records
from sklearn_puffer._review.readers import (
    LIST,
    Release,
    chosen_rows,
    fresh,
    in_memory,
    readers_of,
    secrets_in,
    threads_for,
)
from sklearn_puffer._tables import Name, as_pandas, frame_table, is_frame, put_together
from sklearn_puffer._words import listed, quoted, shown, times

SCHEMA = "sklearn_puffer.audit/9"
CONTROL = "no release"
INTERNAL = (
    "This audit is computed from the raw rows, and its own releases of them were "
    "dropped: keep it where you keep the table, and do not release it."
)
NOT_BY_LIST = (
    "Nobody who holds the list of fitted people was tried: that takes the fitted estimator itself, "
    "not its file."
)
NO_PROOF = (
    "No finding is no proof: other attackers, or more rows, may find more. The certificate says "
    "what is guaranteed."
)
_BLUNT = math.log(10.0)
"""How far beyond its limit a leak must be found from, so that the audit tells little."""
_FACTS = ["name", "version", "date", "promise", "fingerprint"]
_FACTS += ["n_rows", "n_given", "n_train", "n_choose", "n_test"]


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
            f"{attack.view} ({attack.attacker}) finds {_about(attack)}, where "
            f"{times(attack.allowed)} were guaranteed: p = {attack.p_all:.2g} (tests: "
            f"{self.n_tests}). Either the release loses more than its certificate says, or these "
            "rows do not follow the distribution that was fitted."
        )


@dataclass(frozen=True, repr=False)
class Audit(Document):
    """What `audit` found.

    Parameters
    ----------
    attacks : tuple of Attack
        By readers whom the guarantee covers: one for each pair in each direction, each reader and
        each way in which he reads rows.
    control : tuple of Attack
        Those of fresh models on the rows as they are.
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
    untested : tuple of str
        Pairs with too few rows.
    knows : tuple of (str, str)
        The readers, and what each of them knows.
    notes : tuple of str
        What else to know.
    version, fingerprint, date, name : str
        Of the library, of the certificate, the time (UTC, ISO 8601), and the name that `named`
        gave the table.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser, audit
    >>> cars = [0, 5, 2, 4, 5, 0, 1, 9, 0, 3]
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 5000, "cars": cars * 1000})
    >>> noiser = PufferfishNoiser(4.0, sensitive="loan").fit(table)
    >>> found = audit(noiser, table)
    >>> found.caught, len(found.table)
    (True, 8)
    """

    attacks: tuple[Attack, ...]
    control: tuple[Attack, ...]
    promise: str
    n_rows: int
    n_given: int
    n_train: int
    n_choose: int
    n_test: int
    survived: tuple[Survived, ...] = ()
    others: tuple[Attack, ...] = ()
    untested: tuple[str, ...] = ()
    knows: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    version: str = ""
    fingerprint: str = ""
    date: str = field(default="", compare=False)
    name: str = field(default="", compare=False)

    def __repr__(self) -> str:
        """Return the first line: the fields are long."""
        return f"<{self._headline()} print() shows all of it>"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The attacks beyond the guarantee, at the level over all tests, the surest first."""
        beyond = sorted((a for a in self.attacks if a.p_all <= LEVEL), key=_order)
        return tuple(Finding(a, len(self.attacks)) for a in beyond)

    @property
    def caught(self) -> bool:
        """Whether the same attacks catch rows without noise: else they are too weak to tell."""
        return any(attack.p_all <= LEVEL for attack in self.control)

    @property
    def table(self) -> Any:
        """The attacks as a DataFrame: a row for each pair in each direction, and each attacker."""
        return framed(self.attacks, tuple(Attack.__dataclass_fields__))

    @property
    def readers(self) -> Any:
        """A row for each reader: what he reached (in nats), what is allowed, power, what he knows.

        Of each the attack with the smallest p-value, of several the one that is proven to come
        nearest to what is allowed; where nothing is guaranteed to him ``allowed`` is NaN.
        ``findable`` is the smallest shift that any of his attacks would have found.
        """
        names = ["view", "log_odds", "low", "high", "allowed", "findable", "p_all"]
        best, knows = self._by_reader(), dict(self.knows)
        frame = framed(best, [*names, "attacker", "secret", "against"])
        frame = frame.rename(columns={"view": "reader"})
        return frame.assign(knows=[knows.get(attack.view, "") for attack in best])

    def _by_reader(self) -> list[Attack]:
        """Return the attack of each reader that counts, with the power of all that are his."""
        of: dict[str, list[Attack]] = {}
        for attack in (*self.attacks, *self.others):
            of.setdefault(attack.view, []).append(attack)
        return [
            replace(min(own, key=_order), findable=min(each.findable for each in own))
            for own in of.values()
        ]

    @property
    def utility(self) -> Any:
        """What survived as a DataFrame: what was measured, before and after."""
        return framed(self.survived, ["what", "column", "before", "after"])

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
            "level": LEVEL,
            **{key: getattr(self, key) for key in _FACTS},
            "findings": [*map(str, self.findings)],
            "caught_without_noise": self.caught,
            **{key: records(getattr(self, key)) for key in ("attacks", "control", "others")},
            "utility": records(self.survived),
            "readers": [
                {"reader": own["view"], "knows": dict(self.knows).get(own["view"], ""), **own}
                for own in records(self._by_reader())
            ],
            "untested": list(self.untested),
            "notes": list(self.notes),
        }

    def _surest(self) -> Attack | None:
        """Return the surest finding, else the attack that is nearest to its limit."""
        return min(self.attacks, key=_order, default=None)

    def _findable(self) -> str:
        """Return the power of the audit: the smallest shift that any attack would have found."""
        if not self.caught:
            return "they find nothing for certain in the rows as they are, either"
        if not self._sees():
            return "rows are too few to find any leak, however large"
        best = min(self.attacks, key=lambda attack: attack.findable)
        least, allowed = times(best.findable), times(best.allowed)
        if best.findable > best.allowed + _BLUNT:
            only = f"only a leak of {least} or more would have been found"
            return f"but rows are so few that {only}, where {allowed} are allowed"
        leak = f"a leak of {least} or more to {quoted(best.view)}, where {allowed} are allowed"
        return f"{leak}, would have been found (chance {POWER:.0%}); less may be missed"

    def _as_they_are(self) -> Attack | None:
        """Return the attack on the rows as they are by the secrets of the surest attack.

        Of several the one that is proven to shift odds furthest.
        """
        surest = self._surest()
        if surest is None:
            return None
        pair = surest.sensitive, surest.secret, surest.against
        same = [a for a in self.control if (a.sensitive, a.secret, a.against) == pair]
        return max(same, key=lambda attack: attack.low, default=None)

    def _headline(self) -> str:
        about = f"Audit of {shown(self.name)}" if self.name else "Audit"
        if count := len(self.findings):
            subject = "one attack tells" if count == 1 else f"{count} attacks tell"
            return f"{about}: {subject} MORE THAN WAS PROMISED."
        if self._sees():
            kept = "no attack tells for certain more than was guaranteed"
            return f"{about}: {kept}; {self._findable()}."
        why = "BUT THESE ATTACKERS COULD NOT HAVE FOUND IT"
        return f"{about}: nothing found, {why}: {self._findable()}."

    def _sees(self) -> bool:
        """Return whether some leak, however large, would have been found."""
        return self.caught and any(math.isfinite(attack.findable) for attack in self.attacks)

    def _page(self) -> Page:
        sees, best = self._sees(), self._surest()
        lines = [f"Promised: {self.promise}"]
        if best is not None:
            lines.append(
                f"Nearest to its limit: {best.view} ({best.attacker}) claims {_about(best)}; "
                f"allowed are {times(best.allowed)}. {_blind(best)}."
            )
        part = "" if self.n_rows == self.n_given else f" (of {self.n_given:,})"
        learnt = f"learnt from {self.n_train:,}, chose what to claim on {self.n_choose:,}"
        if self.n_train == self.n_choose:
            learnt = f"learnt what to claim from {self.n_train:,}, each read by a model of others,"
        lines.append(
            f"Released: {self.n_rows:,} rows{part}. Readers {learnt} and were judged on "
            f"{self.n_test:,}; tests: {len(self.attacks)}, with a chance of {LEVEL:.0%} at most of "
            "a false alarm, if rows are independent and the guarantee is kept."
        )
        if sees:
            lines.append(
                f"Power: a leak is found with a chance of {POWER:.0%}, by the reader who finds "
                "most easily, if he claims a secret as often as it occurs."
            )
        if sees or not self.findings:  # what was found has been seen
            can = "so these attackers can see a breach"
            if not self.caught:
                can = "attackers are too weak, rows too few, or columns hardly tell the secrets"
            elif not sees:
                can = "rows are too few to see a breach; audit more"
            more = "more than is allowed" if self.caught else "nothing beyond the limit for certain"
            lines.append(f"Control: from the rows AS THEY ARE fresh models tell {more}: {can}.")
        lines += [*([] if self.findings else [NO_PROOF]), *self.notes, INTERNAL]
        return Page(self._headline(), lines, list(self._sections()))

    def _sections(self) -> Iterator[Section]:
        if self.findings:
            yield Section("Findings", sentences=[*map(str, self.findings)])
        knows, cells = dict(self.knows), [_READERS]
        for own in self._by_reader():
            allowed, p = "not covered", "-"
            if not math.isnan(own.allowed):
                allowed, p = times(own.allowed), f"{own.p_all:.2g}"
            least = times(own.findable) if math.isfinite(own.findable) else "-"
            said = shift(own) + within_chance(own), ends(own), allowed, least, p
            cells.append([own.view, knows.get(own.view, ""), *said])
        yield Section("Readers", _OF_READERS, cells)
        rows = [["what", "column", "before", "after"]]
        for figure in self.survived:
            ends_of = figure.before, figure.after
            texts = ["" if math.isnan(value) else f"{value:.4g}" for value in ends_of]
            rows.append([figure.what, shown(figure.column), *texts])
        if self.survived:
            yield Section("What survives", _OF_UTILITY, rows)
        if self.untested:
            yield Section("Not tested: too few rows", sentences=self.untested)


_OF_READERS = (
    "odds shifted: how many times the base odds of two secrets are where the reader claims one, "
    f"with the {1.0 - LEVEL:.0%} interval, and what is allowed; within chance: beyond that, as an "
    f"honest release may be; found from: the smallest shift that is found with a chance of "
    f"{POWER:.0%}, if he claims a secret as often as it occurs; p: that of the guarantee, over all "
    "tests"
)
_OF_UTILITY = (
    "what the rows say before the release, and after; by chance an AUC is 0.5, and an R2 0"
)
_READERS = ["reader", "knows", "odds shifted", "interval", "allowed", "found from", "p"]


def within_chance(attack: Attack) -> str:
    """Return the words about a shift beyond what is allowed that is no finding."""
    beyond = attack.log_odds > attack.allowed and attack.p_all > LEVEL
    return ", within chance" * beyond


def _blind(attack: Attack) -> str:
    """Return how often who sees nothing, and guesses the commoner of two secrets, is right."""
    commoner = attack.secret if attack.n >= attack.n_against else attack.against
    share = max(attack.n, attack.n_against) / max(attack.n + attack.n_against, 1)
    return f"Without the release a guess of {shown(commoner)} is right for {share:.1%} of them"


def _about(attack: Attack) -> str:
    """Return what a reader claims, and how far odds are from the base odds."""
    return (
        f"{shown(attack.sensitive)} = {shown(attack.secret)} against {shown(attack.against)}: odds "
        f"shifted {shift(attack)} ({ends(attack)}){within_chance(attack)}"
    )


def shift(attack: Attack) -> str:
    """Return how far odds are from the base odds; where all rows have the secret, in words."""
    return "without limit" if attack.log_odds == math.inf else times(attack.log_odds)


def _order(attack: Attack) -> tuple[float, float]:
    """Return the sort key: by p-value, then by how far the interval is beyond what is allowed."""
    if math.isnan(attack.p_all):
        return 1.0, -attack.low
    return attack.p_all, attack.allowed - attack.low


def ends(attack: Attack) -> str:
    """Return the ends of the interval of a shift, if any row was claimed."""
    if not attack.share:
        return "no row"
    low = times(attack.low, at_least=True).removesuffix(" times")
    return f"{low} or more" if attack.high == math.inf else f"{low} to {times(attack.high)}"


_MOST_ROWS = 20_000


def audit(
    estimator: Any,
    table: Any,
    task: Any = None,
    *,
    sensitive_features: Any = None,
    max_rows: int | None = _MOST_ROWS,
    random_state: int = 0,
    verbose: int = 0,
) -> Audit:
    r"""Attack what a fitted estimator releases, as readers of the release would.

    The rows are released once. Each reader learns from some rows, claims a secret of others, and
    the event that tells most (what he claims above a threshold, in a bin, in a group of rows that
    look alike) is chosen on a fifth of the rows, and judged on the rest by their true secrets:
    within the event the odds of two secrets may differ from the base odds by e^epsilon at most.
    Of fewer than 1,000 rows two fifths train and choose, each read by a model of the others.

    Parameters
    ----------
    estimator : PufferfishNoiser, PufferfishMicroaggregator, PufferfishSwap or PufferfishRelease
        Fitted, or read from its release artifact.
    table : DataFrame
        In memory, of pandas, polars or pyarrow: rows that were not in `fit`, with the sensitive
        columns and those that are released; of a swap any rows. Rows must be independent of each
        other: keep one row of each person, and of an estimator with groups one row of each group.
    task : name of a column, default=None
        What the rows are used for: how well boosted trees predict it on true rows that learnt from
        released ones, next to those that learnt from true ones: the area under their ROC curve, or
        R2 of a number. One reader joins it to the released rows.
    sensitive_features : Series, DataFrame or array-like of n_rows, default=None
        The secrets, where `fit` had them beside the table.
    max_rows : int or None, default=20000
        Most rows that are released, drawn from the table; None for all.
    random_state : int, default=0
        Draws which rows train, choose and test; never what is released.
    verbose : int, default=0
        1 prints to standard error how far it has come.

    Returns
    -------
    Audit
        ``findings``, ``readers``, ``table`` and ``utility``; printed, it says all that in words.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, its value and the way out; of rows that `transform` refuses; and if
        fewer than five rows of a secret are there to learn from.
    UncertifiedError
        If the certificate does not hold.

    Notes
    -----
    *Formal guarantees.* If the rows with their secrets are independent draws of one distribution
    (or, of a swap, people are exchangeable within strata), and the release keeps its guarantee,
    there is a finding with a chance of 5 % at most, whatever the readers do: the p-value
    holds at any number of rows, and those of all readers, pairs and directions are corrected
    together (S. Holm, 1979): half the level is for the claim of each reader that looked best
    before it was judged, and half for all alike. A tenth of each share is for base odds that are
    larger than they are taken to be. `sklearn_puffer._review.exact_tests` has the proof. Intervals
    are those of C. Clopper and E. Pearson (1934). Each misses with a chance of 5 % at most by
    itself, not all together.

    The readers whom a guarantee covers: *fresh models* (boosted trees, nearest neighbours and a
    linear model) learn from released rows of others, and know how often each row occurs. Who *holds
    the list* of rows with their secrets knows what the mechanism publishes, too: the mean flows of
    a swap, by the secret of the row that somebody holds; the channel and the counts of typical
    rows. Who has a *better model* learnt it from raw rows of others. An *insider* of a swap finds
    his own row with somebody else. Who *joins a label* is covered where ``known=`` or ``joined=``
    names it; else what he finds is shown, and is no finding.

    Rows that are judged are exchanged as a table of their own, so that readers learn from people of
    another table. The certificate is about the distribution that was fitted, and held-out rows
    follow the true one: a finding says that *either* the release loses more than was certified,
    *or* these rows follow another distribution. Of an order alpha the epsilon is allowed that
    follows with a delta of .001, which few rows can tell from none at all.

    The audit draws releases of its own and drops them: to hand one on beside another release of the
    same rows would make two.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser, audit
    >>> cars = [0, 5, 2, 4, 1, 9, 0, 3] * 2000
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 8000, "cars": cars})
    >>> fitted, held = table[:-2000], table[-2000:]
    >>> noiser = PufferfishNoiser(4.0, sensitive="loan").fit(fitted)
    >>> found = audit(noiser, held)
    >>> found.findings, found.caught
    ((), True)
    >>> found.readers[["reader", "allowed"]]
             reader  allowed
    0  fresh models      4.0
    1  better model      4.0
    """
    if not isinstance(estimator, TableRelease):
        raise TypeError(
            "estimator must be a fitted PufferfishNoiser, PufferfishMicroaggregator or "
            f"PufferfishSwap, or a PufferfishRelease, got {type(estimator).__name__}; of a "
            "pipeline give its last step and the table as it comes there."
        )
    check_is_fitted(estimator)
    seed = check_seed(random_state) or 0
    stages = reported("stages of an audit", 4)  # release, readers, attacks, what survived
    with listening(check_verbose(verbose), "audit"), stages as done, threads_for(table):
        given = table, task, sensitive_features, max_rows, seed
        release, untested, n_given = _released(estimator, *given)
        done()
        readers = [reader for secret in release.secrets for reader in readers_of(release, secret)]
        done()
        judge = release.judge()
        attacks = judge.attacks([reader for reader in readers if reader.budget is not None])
        others = judge.attacks([reader for reader in readers if reader.budget is None])
        raw = [fresh(release, secret, release.before, CONTROL) for secret in release.secrets]
        control = judge.attacks(raw)
        done()
        rows = release.before, release.after
        figures = [] if release.task is None else task_figures(release.task, *rows, release.parts)
        figures += reidentified(*rows, release.parts.test)
        done()
    certificate, parts = estimator.certificate_, release.parts
    return Audit(
        attacks=tuple(attacks),
        control=tuple(control),
        others=tuple(others),
        survived=tuple(figures),
        untested=tuple(untested),
        knows=tuple({reader.name: reader.knows for reader in readers}.items()),
        promise=certificate.promise(),
        fingerprint=certificate.fingerprint,
        n_rows=len(release.raw),
        n_given=n_given,
        n_train=len(parts.train),
        n_choose=len(parts.choose),
        n_test=len(parts.test),
        notes=tuple(_notes(release, estimator, readers, n_given)),
        version=__version__,
        date=utc_now(),
    )


def _released(
    estimator: Any, table: Any, task: Any, beside: Any, max_rows: Any, seed: int
) -> tuple[Release, list[str], int]:
    """Return a release of rows of a table, which pairs have too few, and how many it has."""
    frame = in_memory(table, "an audit")
    source = frame_table(frame, "table")
    every = secrets_in(estimator, source, beside, frame)
    chosen, work = chosen_rows(estimator, source, max_rows, seed), task_of(task, source)
    hidden = [*estimator._fitted.rules.sensitive, *(each.name for each in every)]
    if work is not None and work.name in hidden:
        raise ValueError(
            f"task={work.name!r} is a sensitive column, which the release hides; name a column "
            "that released rows are to predict."
        )
    parts = RowSplit.of(len(chosen), seed)
    secrets, untested = _with_pairs([secret.of(chosen) for secret in every], parts)
    beside = as_pandas(beside) if is_frame(beside) else beside
    # where rows are exchanged as a whole, the tested ones are a table of their own, the last
    by_row, released = estimator._fitted.mechanism.by_row, []
    pieces = [np.arange(len(chosen))] if by_row else [parts.shown, np.sort(parts.test)]
    for piece in pieces:
        own, of = copy.copy(estimator), chosen[piece]
        more: dict[str, Any] = {"on_drift": "ignore"} if by_row else {}
        if not by_row and beside is not None:
            apart = hasattr(beside, "iloc")
            more["sensitive_features"] = beside.iloc[of] if apart else np.asarray(beside)[of]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PufferfishWarning)
            released.append(own.transform(frame.iloc[of], **more))
    work = None if work is None else work.of(chosen)
    rows = frame.iloc[chosen], put_together(released, pieces)
    release = Release(own, *rows, parts, secrets, work)
    return release, untested, len(frame)


LEAST = 5
"""Rows of a secret to learn from, and to choose events on, below which it is not attacked."""


def _with_pairs(secrets: Sequence[Secrets], parts: RowSplit) -> tuple[list[Secrets], list[str]]:
    """Return secrets with the pairs that are attacked, and which pairs have too few rows."""
    told, few = [], list[tuple[int, tuple[Name, Any, Any]]]()
    for secret in secrets:
        rows = np.minimum(secret.counts(parts.train), secret.counts(parts.choose))
        least = [int(rows[list(pair)].min()) for pair in secret.pairs]
        both = list(zip(least, secret.pairs, strict=True))
        told.append(replace(secret, pairs=[pair for n, pair in both if n >= LEAST]))
        few += [(n, secret.named(pair)) for n, pair in both[::2] if n < LEAST]  # not each reverse
    if not any(secret.pairs for secret in told):
        n, (name, a, b) = max(few, key=lambda pair: pair[0])
        raise ValueError(
            f"table has too few rows to audit: of column {quoted(name)} {listed([a, b])} have {n} "
            f"rows to learn from, where {LEAST} of each are needed; give some "
            f"{math.ceil(LEAST / TRAIN) + LEAST} rows of each."
        )
    return told, [
        f"{shown(name)}: {listed([a, b])} ({n} rows to learn from)" for n, (name, a, b) in few
    ]


def _notes(
    release: Release, estimator: TableRelease, readers: Sequence[Reader], n_given: int
) -> list[str]:
    columns, strata = [*estimator.utility_.index], release.known
    fitted = estimator.certificate_.n_rows
    typical = getattr(estimator.certificate_, "prototypes", None) is not None
    holds_list = any(reader.name == LIST for reader in readers)
    unprotected = [name for name in release.released if name not in (*columns, *strata)]
    notes = {
        f"Attackers did not look at {listed(unprotected)}, which no guarantee covers: values there "
        "may tell everything.": unprotected,
        f"Readers know {listed(strata)} anyway: shifts are from the odds among rows of equal "
        "values.": strata,
        "Rows that readers were judged on were exchanged as a table of their own: readers know "
        "secrets of people of another table.": release.exchanged,
        NOT_BY_LIST: typical and not holds_list,
        f"The table has {n_given:,} rows, as many as fit had: an audit of fitted rows says nothing "
        "of how others differ, so audit others, too.": fitted == n_given and not release.exchanged,
        "The estimator has a random_state: who knows it can undo the release, which these "
        "readers do not try.": estimator.random_state is not None,
    }
    return [note for note, applies in notes.items() if applies]
