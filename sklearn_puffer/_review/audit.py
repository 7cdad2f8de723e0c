"""`audit`: what each reader found out from released rows, and what the rows are still good for."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_puffer._base import PufferfishWarning, check_seed, check_verbose, listening
from sklearn_puffer._base import task as reported
from sklearn_puffer._documents import Document, Page, Section, __version__, jsonable, utc_now
from sklearn_puffer._release import TableRelease
from sklearn_puffer._review import readers
from sklearn_puffer._review.exact_tests import LEVEL, POWER, Attack, RowSplit
from sklearn_puffer._review.measured import Survived, reidentified, task_figures, task_of
from sklearn_puffer._review.plan import framed, records
from sklearn_puffer._tables import as_pandas, frame_table, put_together
from sklearn_puffer._words import listed, quoted, shown, times

SCHEMA = "sklearn_puffer.audit/9"
INTERNAL = "Computed from the raw rows: keep it where you keep the table, and do not release it."
NOT_BY_LIST = "Nobody who holds a list of the people in the released file was tried."
NOT_BY_FIT = "Nor was who knows the fit: that takes the fitted estimator itself, not its file."
NO_PROOF = "No finding is no proof: other attackers, or more rows, may find more."
BEYOND = (
    "Either the release loses more than its certificate says, or these rows do not follow the "
    "distribution that was fitted."
)
BLUNT = 1.0
"""How far beyond its limit a leak must be found from, so that the audit tells little."""
_FACTS = "name", "version", "date", "promise", "fingerprint", "rows"


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
    rows : dict
        How many rows were ``given`` and ``released``, and how many of these attackers learnt from
        (``train``), chose events on (``choose``), and were judged on (``test``).
    survived : tuple of Survived
        What the rows were good for before, and are after.
    others : tuple of Attack
        By readers whom the guarantee does not cover.
    untested : tuple of str
        Pairs with too few rows.
    knows : dict
        What each reader knows.
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
    rows: Mapping[str, int]
    survived: tuple[Survived, ...] = ()
    others: tuple[Attack, ...] = ()
    untested: tuple[str, ...] = ()
    knows: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    version: str = __version__
    fingerprint: str = ""
    date: str = field(default_factory=utc_now, compare=False)
    name: str = field(default="", compare=False)

    def __repr__(self) -> str:
        """Return the first line: the fields are long."""
        return f"<{self._headline()} print() shows all of it>"

    @property
    def findings(self) -> tuple[Attack, ...]:
        """The attacks beyond the guarantee, at the level over all tests, the surest first."""
        return tuple(sorted((a for a in self.attacks if a.p_all <= LEVEL), key=_order))

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
        """A row for each reader: what he reached, what is allowed, power, and what he knows.

        Of each the attack with the smallest p-value, of several the one that is proven to come
        nearest to what is allowed. Shifts are logarithms, as epsilon is; where nothing is
        guaranteed to him ``allowed`` is NaN.
        ``findable`` is the smallest shift that any of his attacks would have found.
        """
        names = ["view", "log_odds", "low", "high", "allowed", "findable", "p_all"]
        frame = framed(self._by_reader(), [*names, "attacker", "secret", "against"])
        frame = frame.rename(columns={"view": "reader"})
        return frame.assign(knows=[self.knows.get(name, "") for name in frame["reader"]])

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
            **{key: jsonable(getattr(self, key)) for key in _FACTS},
            "findings": [*map(str, self.findings)],
            "caught_without_noise": self.caught,
            **{key: records(getattr(self, key)) for key in ("attacks", "control", "others")},
            "utility": records(self.survived),
            "readers": records(self._by_reader()),
            **{key: jsonable(getattr(self, key)) for key in ("knows", "untested", "notes")},
        }

    def _surest(self) -> Attack | None:
        """Return the surest finding, else the attack that is nearest to its limit."""
        return min(self.attacks, key=_order, default=None)

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
        """Return what was found, or which leak would have been found."""
        about = f"Audit of {shown(self.name)}" if self.name else "Audit"
        judged = f"{self.rows['test']:,} rows judged"
        if count := len(self.findings):
            more = f"{count} of {len(self.attacks)} attacks told MORE THAN WAS PROMISED"
            return f"{about}: {more}; {judged}."
        if not self._sees():
            why = "rows are too few to find any leak, however large"
            if not self.caught:
                why = "they find nothing for certain in the rows as they are"
            blind = "BUT THESE ATTACKERS COULD NOT HAVE FOUND IT"
            return f"{about}: nothing found, {blind}: {why}; {judged}."
        best = min(self.attacks, key=lambda attack: attack.findable)
        least = f"{times(best.findable)} to {quoted(best.view)}, {times(best.allowed)} allowed"
        sees = f"a leak of {least}, would have been found (chance {POWER:.0%}), less may be missed"
        none = "no attack tells for certain more than was guaranteed"
        if best.findable > best.allowed + BLUNT:
            return f"{about}: OF LITTLE WEIGHT: {judged}; {sees}; {none}."
        return f"{about}: {none}; {judged}; {sees}."

    def _sees(self) -> bool:
        """Return whether some leak, however large, would have been found."""
        return self.caught and any(math.isfinite(attack.findable) for attack in self.attacks)

    def _page(self) -> Page:
        best, n, lines = self._surest(), self.rows, [f"Promised: {self.promise}", SHIFTED]
        if best is not None:
            lines.append(f"Nearest to its limit: {best}.")
        same = " (the same, each read by a model of others)" * (n["train"] == n["choose"])
        lines.append(
            f"Released: {n['released']:,} of {n['given']:,} rows. Readers learnt from "
            f"{n['train']:,}, chose what to claim on {n['choose']:,}{same} and were judged on "
            f"{n['test']:,}; tests: {len(self.attacks)}, with a chance of {LEVEL:.0%} at most of "
            "a false alarm, if rows are independent and the guarantee is kept."
        )
        lines += [BEYOND if self.findings else NO_PROOF, *self.notes, INTERNAL]
        return Page(self._headline(), lines, list(self._sections()))

    def _sections(self) -> Iterator[Section]:
        if self.findings:
            yield Section("Findings", sentences=[*map(str, self.findings)])
        cells = [["reader", "knows", "odds shifted", "interval", "allowed", "found from", "p"]]
        for own in self._by_reader():
            allowed, p = "not covered", "-"
            if not math.isnan(own.allowed):
                allowed, p = times(own.allowed), f"{own.p_all:.2g}"
            least = times(own.findable) if math.isfinite(own.findable) else "-"
            knows = self.knows.get(own.view, "")
            cells.append([own.view, knows, own.shift(), own.ends(), allowed, least, p])
        yield Section("Readers", _OF_READERS, cells)
        rows = [["what", "column", "before", "after"]]
        for what, column, *ends in self.utility.itertuples(index=False):
            texts = ["" if math.isnan(value) else f"{value:.4g}" for value in ends]
            rows.append([what, shown(column), *texts])
        if self.survived:
            yield Section("What survives", _OF_UTILITY, rows)
        if self.untested:
            yield Section("Not tested: too few rows", sentences=self.untested)


SHIFTED = (
    "Odds shifted three times: among the rows that a reader claims to have a secret, its odds "
    "against the other one are three times those among all rows."
)
_OF_READERS = (
    f"odds shifted: with the {1.0 - LEVEL:.0%} interval; within chance: beyond what is allowed, as "
    "an honest release may be; found from: the smallest shift that is found with a chance of "
    f"{POWER:.0%}, if he claims a secret as often as it occurs; p: of the guarantee, over all tests"
)
_OF_UTILITY = "of the rows as they are, and as released; by chance an AUC is 0.5, and an R2 0"


def _order(attack: Attack) -> tuple[float, float]:
    """Return the sort key: by p-value, then by how far the interval is beyond what is allowed."""
    if math.isnan(attack.p_all):
        return 1.0, -attack.low
    return attack.p_all, attack.allowed - attack.low


def audit(
    estimator: Any,
    table: Any,
    task: Any = None,
    *,
    sensitive_features: Any = None,
    max_rows: int | None = 20_000,
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
    the list* of rows of a swap with their secrets knows the mean flows, too, by the secret of the
    row that somebody holds. Who *knows the fit* of typical rows has the channel and the counts, and
    looks up nobody in a list. Who has a *better model* learnt it from raw rows of others. An
    *insider* of a swap finds his own row with somebody else. Who *joins a label* is covered where
    ``known=`` or ``joined=`` names it; else what he finds is shown, and is no finding.

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
    with listening(check_verbose(verbose), "audit"), stages as done, readers.threads_for(table):
        given = table, task, sensitive_features, max_rows, seed
        release, untested, n_given = _released(estimator, *given)
        done()
        raw, secrets = release.before, release.secrets
        every = [reader for secret in secrets for reader in readers.readers_of(release, secret)]
        done()
        judge = release.judge()
        attacks = judge.attacks([reader for reader in every if reader.budget is not None])
        others = judge.attacks([reader for reader in every if reader.budget is None])
        control = judge.attacks([readers.fresh(release, own, raw, "no release") for own in secrets])
        done()
        rows = raw, release.after
        figures = [] if release.task is None else task_figures(release.task, *rows, release.parts)
        figures += reidentified(*rows, release.parts.test)
        done()
    certificate, knows = estimator.certificate_, {each.name: each.knows for each in every}
    parts = {name: len(part) for name, part in vars(release.parts).items()}
    return Audit(
        attacks=tuple(attacks),
        control=tuple(control),
        others=tuple(others),
        survived=tuple(figures),
        untested=tuple(untested),
        knows=knows,
        promise=certificate.promise(),
        fingerprint=certificate.fingerprint,
        rows={"given": n_given, "released": len(release.raw)} | parts,
        notes=tuple(_notes(release, knows, n_given)),
    )


LEAST = 5
"""Rows of a secret to learn from, and to choose events on, below which it is not attacked."""


def _released(
    estimator: Any, table: Any, task: Any, beside: Any, max_rows: Any, seed: int
) -> tuple[readers.Release, list[str], int]:
    """Return a release of rows of a table, which pairs have too few, and how many it has."""
    frame = readers.in_memory(table, "an audit")
    source = frame_table(frame, "table")
    every = readers.secrets_in(estimator, source, beside, frame)
    chosen = readers.chosen_rows(estimator, source, max_rows, seed)
    raw = frame.iloc[chosen]
    work = task_of(task, frame_table(raw))
    hidden = [*estimator._fitted.rules.sensitive, *(each.name for each in every)]
    if work is not None and work.name in hidden:
        raise ValueError(
            f"task={work.name!r} is a sensitive column, which the release hides; name a column "
            "that released rows are to predict."
        )
    parts = RowSplit.of(len(chosen), seed)
    given = [secret.of(chosen) for secret in every]
    secrets = [secret.with_rows(LEAST, parts.train, parts.choose) for secret in given]
    few = [
        f"{shown(secret.name)}: {listed(secret.named(pair)[1:])}"
        for secret, kept in zip(given, secrets, strict=True)
        for pair in secret.pairs[::2]  # and not each reverse
        if pair not in kept.pairs
    ]
    if not any(secret.pairs for secret in secrets):
        raise ValueError(
            f"table has too few rows to audit ({few[0]}); give some twenty rows of each secret."
        )
    beside = as_pandas(beside)
    # where rows are exchanged as a whole, the tested ones are a table of their own, the last
    by_row, released = estimator._fitted.mechanism.by_row, []
    pieces = [np.arange(len(chosen))] if by_row else [parts.shown, np.sort(parts.test)]
    for piece in pieces:
        own = copy.copy(estimator)
        more: dict[str, Any] = {"on_drift": "ignore"} if by_row else {}
        if not by_row and beside is not None:
            more["sensitive_features"] = getattr(beside, "iloc", np.asarray(beside))[chosen[piece]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PufferfishWarning)
            released.append(own.transform(raw.iloc[piece], **more))
    release = readers.Release(own, raw, put_together(released, pieces), parts, secrets, work)
    return release, few, len(frame)


def _notes(release: readers.Release, knows: Mapping[str, str], n_given: int) -> list[str]:
    estimator, strata, fitted = release.estimator, release.known, release.estimator.certificate_
    covered = [*estimator.utility_.index, *strata]
    unprotected = [name for name in release.released if name not in covered]
    typical = getattr(fitted, "prototypes", None) is not None
    notes = {
        f"Attackers did not look at {listed(unprotected)}, which no guarantee covers: values there "
        "may tell everything.": unprotected,
        f"Readers know {listed(strata)} anyway: shifts are from the odds among rows of equal "
        "values.": strata,
        "Rows that readers were judged on were exchanged as a table of their own: readers know "
        "secrets of people of another table.": release.exchanged,
        NOT_BY_LIST: typical,
        NOT_BY_FIT: typical and readers.FIT not in knows,
        f"The table has {n_given:,} rows, as many as fit had: an audit of fitted rows says nothing "
        "of how others differ, so audit others, too.": fitted.n_rows == n_given
        and not release.exchanged,
        "The estimator has a random_state: who knows it can undo the release, which these "
        "readers do not try.": estimator.random_state is not None,
    }
    return [note for note, applies in notes.items() if applies]
