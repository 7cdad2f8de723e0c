"""`PersonLedger`: the releases that each person has had, in an SQLite file.

All persons of a call are judged and put on record in one transaction.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np

from sklearn_puffer._base import (
    check_choice,
    check_verbose,
    listening,
    way_to_table,
)
from sklearn_puffer._certificates import OverspentError
from sklearn_puffer._documents import Page, Section
from sklearn_puffer._engines import is_lazy, row_ids
from sklearn_puffer._ledgers.persons import (
    CHANGES,
    About,
    Book,
    Call,
    PersonLeft,
    Verdict,
    record_of,
)
from sklearn_puffer._ledgers.store import (
    Account,
    LedgerError,
    Sheet,
    certificate_for,
    foreign,
)
from sklearn_puffer._noise import PersonPseudonyms, fresh_salt, integer_ids, read_key
from sklearn_puffer._tables import taken_rows
from sklearn_puffer._words import quoted, shown

Answer = TypeVar("Answer")
Changes = Literal["refuse", "count"]
Exhausted = Literal["raise", "withhold"]

_SHOWN = 10  # histories, and calls, on a page
_CHANGES = {
    "refuse": "A row that changed is not released again.",
    "count": "A row that changed is one more release of its person, and that it changed is taken "
    "to tell nothing.",
}


class PersonLedger(Account[About]):
    r"""What the rows of each person have spent, on record in a database (SQLite).

    Made by `PersonLedger.create` and `PersonLedger.open`. A person is an id of ``row_id=``, one row
    of a table. The same noise again is the same release, and spends nothing; another ``release`` or
    ``dataset``, and a row that changed, where that is allowed, is one more release of its person.

    Parameters
    ----------
    path : str or Path
        The file.
    fingerprint : str
        That of the noiser, from its certificate.
    key : bytes, Path or "env:NAME"
        That of the noise: persons are recognised by it. A `Path` or "env:NAME" is read at each
        use; with bytes the ledger cannot be pickled.
    timeout : float, default=60.0
        For how many seconds a call waits while others spend; `math.inf` for ever.

    See Also
    --------
    Ledger : Counts releases of whole tables.

    Notes
    -----
    *Formal guarantees.* As long as every release of a person's rows was spent here first:

    - A person whose row did not change has had releases of one row, which add up by the noiser's
      rule: their joint distribution loses no more than the certificate guarantees. Sums are exact,
      a person at a time, over all data sets together.
    - With ``changes="refuse"`` a person has no other: a row that is not the one on record, as noise
      is drawn for it (values in bins, not columns that are passed), is not released.
    - With ``changes="count"`` a changed row is one more release of its person, of all columns.
      Given whether and how much each row changed, releases less the changes are releases of the
      first row. So their joint distribution loses no more than the certificate guarantees, *if the
      changes tell nothing about secret and first row*, as when all ages grow by one; what the
      changes themselves tell is not counted. Two rows that are independent given the secret can
      tell twice as much.

    *What a changed row reveals.* That and when it changed, and that it changed back (the same
    release as before), is seen in sticky releases and not protected; and its unchanged columns are
    released a second time, which is counted.

    *Refusals.* Whether a row is released depends on its id, on how many different releases the id
    has had, on whether this is one of them, and on what every release of it shows anyway: that it
    changed, and which values are missing. A reader of all releases knows
    that. It depends on no value, secret or noise.

    *What the file tells.* Persons, rows and noise are in it as keyed pseudonyms of 128, 64 and 64
    bits (see `_noise.keyed`), so that without the key it tells neither who nor what; with the key,
    ids and rows can be guessed and checked. It tells how many persons and calls there are, which
    releases are of one pseudonym and how many, the names and scales of columns, and the data sets
    and notes as they were given. Who watches the file sees when it changes.

    *What it cannot see.* Releases that were never spent here, other noisers on the same rows,
    copies of the file, and an older state that was put back. It needs its ``-journal`` file after a
    crash, and the key for ever: another key would know nobody.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from sklearn_puffer import PersonLedger, PufferfishNoiser
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars, "client": range(30)})
    >>> options = {"sensitive": "loan", "public": ["cars"], "releases": 2}
    >>> noiser = PufferfishNoiser(epsilon=1.0, **options).fit(table)
    >>> folder = tempfile.TemporaryDirectory()
    >>> key = b"blake2b:" + bytes(32)  # secrets.token_bytes(32), for noise that is secret
    >>> ledger = PersonLedger.create(f"{folder.name}/clients.sqlite", noiser, key=key)
    >>> monday = ledger.transform(noiser, table, row_id="client")
    >>> tuesday = ledger.transform(noiser, table, row_id="client")  # the same, and free
    >>> tuesday.equals(monday), ledger.left(7).releases
    (True, 1)
    >>> anew = ledger.transform(noiser, table[:10], row_id="client", release=1)
    >>> ledger.left(7).releases, ledger.left(17).releases
    (0, 1)
    >>> ledger.transform(noiser, table, row_id="client", release=2)
    Traceback (most recent call last):
    ...
    sklearn_puffer.OverspentError: of 30 rows, 10 have no release left...
    >>> rest = ledger.transform(noiser, table, row_id="client", release=2, exhausted="withhold")
    >>> len(rest), ledger.history()[-1].withheld
    (20, 10)
    >>> folder.cleanup()
    """

    def __init__(
        self, path: str | os.PathLike[str], fingerprint: str, key: Any, timeout: float = 60.0
    ) -> None:
        super().__init__(path, fingerprint, timeout)
        read_key(key)
        self._key = _SecretKey(key) if isinstance(key, bytes) else key

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        noiser: Any,
        *,
        key: Any,
        changes: Changes = "refuse",
        timeout: float = 60.0,
    ) -> Self:
        """Start the ledger of a noiser, in which nobody has spent anything.

        Parameters
        ----------
        path : str or Path
            A file that does not exist yet, in a folder that does.
        noiser : fitted PufferfishNoiser or PufferfishRelease, or its certificate
            Whose releases are counted.
        key : bytes, Path or "env:NAME"
            That of the noise, as in `PufferfishNoiser.transform`, and for good.
        changes : {"refuse", "count"}, default="refuse"
            What becomes of a row that is not the one its person had before: it is not released, or
            counts as one more release, which takes the changes to tell nothing (see above).
        timeout : float, default=60.0
            For how many seconds a call waits while others spend; `math.inf` for ever.

        Returns
        -------
        PersonLedger
            With the file on the disk.

        Raises
        ------
        FileExistsError
            If there is such a file.
        TypeError, ValueError
            If the certificate does not hold, or names no rule by which releases add up; of
            ``changes="count"`` with columns without an order; if the path leads to no file, or the
            key is none.
        OSError
            If the file cannot be written.
        """
        certificate = certificate_for(noiser)
        if certificate.groups is not None:
            raise ValueError(
                "a PersonLedger counts the releases of each row's id, and this certificate is "
                f"about all rows of a group (groups={quoted(certificate.groups.column)}); use a "
                "Ledger, which counts those of whole tables, or fit without groups."
            )
        ledger = cls(path, certificate.fingerprint, key, timeout)
        check_choice(changes, "changes", CHANGES)
        salt = fresh_salt()
        check = PersonPseudonyms(read_key(key), salt).check
        about = About.of(certificate, changes, salt, check)
        if changes == "count" and about.rule.refuses_changes:
            raise ValueError(
                f'changes="count" asks for releases of rows that changed, and '
                f'{about.rule.refuses_changes}, or leave changes="refuse".'
            )
        about.remaining(0)  # or raises
        ledger._create(partial(_fill, about))
        return ledger

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], noiser: Any, *, key: Any, timeout: float = 60.0
    ) -> Self:
        """Open what `create` started.

        Parameters
        ----------
        path : str or Path
            That of `create`.
        noiser : fitted PufferfishNoiser or PufferfishRelease, or its certificate
            The one that the ledger was created for, or loaded from where it was saved.
        key : bytes, Path or "env:NAME"
            The same as in `create`.
        timeout : float, default=60.0
            For how many seconds a call waits while others spend; `math.inf` for ever.

        Returns
        -------
        PersonLedger
            With all that was spent until now.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        LedgerError
            If the file is damaged, of another version, or the ledger of another noiser or key.
        """
        certificate = certificate_for(noiser)
        ledger = cls(path, certificate.fingerprint, key, timeout)
        ledger._check_whole(certificate)
        return ledger

    _kind = "PersonLedger"

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(self._key, _SecretKey):
            raise TypeError(
                "a PersonLedger whose key was given as bytes cannot be pickled or copied, for the "
                "copy would hold the key; open it with key=Path(...) or key='env:NAME'."
            )
        return self.__dict__

    @property
    def changes(self) -> str:
        """What becomes of rows that changed: "refuse" or "count"."""
        return self._held().changes

    @property
    def n_persons(self) -> int:
        """How many persons are on record."""
        return self._look_up(lambda book: sum(n for n, _ in book.tally()))

    def left(self, person: Any) -> PersonLeft:
        """Return what may still be released of a person.

        Parameters
        ----------
        person : str, int, Decimal, UUID, bytes, date or datetime
            The id, as in the column of ids.

        Returns
        -------
        PersonLeft
            In releases; of a person who is not on record, all that there are.

        Raises
        ------
        TypeError
            If that is no id of the kind that the ledger knows.
        """

        def look(book: Book) -> PersonLeft:
            about = book.about
            kind = "string" if isinstance(known, str) else "integer"
            _check_kind(about, kind, f"person {quoted(person)}")
            pseudonyms = self._pseudonyms(about)
            number = np.array([known], dtype=object)
            ids = pseudonyms.ids_of([known]) if isinstance(known, str) else integer_ids(number)
            return book.left(pseudonyms.persons(ids))

        known = row_ids.canonical_id(person)
        if known is None:
            raise TypeError(f"person must be an id, such as a str or an int, got {quoted(person)}.")
        return self._look_up(look)

    def history(self) -> tuple[Call, ...]:
        """Return the calls that are on record.

        Returns
        -------
        tuple of Call
            In their order.
        """
        return self._look_up(lambda book: book.calls())

    def transform(
        self,
        noiser: Any,
        X: Any,
        *,
        row_id: Any,
        dataset: str = "",
        release: int = 0,
        exhausted: Exhausted = "raise",
        note: str = "",
    ) -> Any:
        """Release X by the noiser, with keyed noise, and put each person's part on record before.

        Parameters
        ----------
        noiser : fitted PufferfishNoiser or PufferfishRelease
            The one that the ledger belongs to.
        X : DataFrame or array-like
            As in the noiser's ``transform``; no lazy table.
        row_id : str, int or array-like
            The column of X, or the column beside it, that holds the person of each row: all
            different.
        dataset : str, default=""
            As in the noiser's ``transform``: another one draws anew, and is one more release.
        release : int, default=0
            Likewise.
        exhausted : {"raise", "withhold"}, default="raise"
            What becomes of the call if some persons have no release left, or changed where that is
            refused: nothing is released, or their rows are left out; `history` counts them.
        note : str, default=""
            Kept with the call.

        Returns
        -------
        table of the type of X
            What the noiser's ``transform`` returns, but for rows that are withheld.

        Raises
        ------
        OverspentError
            If rows may not be released; nothing is released or spent.
        LedgerError
            If the ledger belongs to another noiser or key, or is damaged; nothing is released.
        TypeError, ValueError
            If X or an argument does not fit; nothing is spent.
        OSError
            If the ledger cannot be read, locked or written; a `TimeoutError` if others held it for
            longer than the ledger's ``timeout``.

        Notes
        -----
        The release is computed first, then all its persons are judged and put on record in one
        transaction, and only then it is handed out. A call that died in between is repeated for
        free: the same rows get the same noise, which is on record.
        """
        check_choice(exhausted, "exhausted", ["raise", "withhold"])
        if not isinstance(note, str):
            raise TypeError(f"note must be a string, got {quoted(note)}.")
        if is_lazy(X):
            raise TypeError(
                f"X is a lazy table ({type(X).__name__}), and who is in it is not known before it "
                f"is computed; pass {way_to_table(X, 'X')}, or its parts one after the other."
            )
        if row_id is None:
            raise ValueError("row_id is None, and persons are known by it; name the column of ids.")
        certificate = certificate_for(noiser)
        about = self._check_noiser(certificate)
        options = {"marks": self._pseudonyms(about), "whole": about.whole}
        options |= {"dataset": dataset, "release": release}
        draw = getattr(noiser, "_release_noted", None)
        if draw is None:
            raise TypeError(
                f"noiser is a {type(noiser).__name__}, which has no rows of persons; pass a fitted "
                "PufferfishNoiser or PufferfishRelease."
            )
        with listening(check_verbose(noiser.verbose), "release"):
            released, noted = draw(X, row_id, self._key_now(), **options)
            named = dataset, int(release), note
            try:
                withheld = self._spend(noted, named, exhausted)
            except BaseException:
                del released, noted  # tracebacks hold the variables of this frame
                raise
        return taken_rows(released, ~withheld) if withheld.any() else released

    def _spend(self, noted: Any, named: tuple[str, int, str], exhausted: str) -> Any:
        """Put the release of these rows on record, and return which may not be released."""

        def record(sheet: Sheet) -> Any:
            book = self._book(sheet)
            kind = "string" if noted.is_text else "integer"
            _check_kind(book.about, kind, "row_id")
            book.about = replace(book.about, ids=kind)
            verdict = book.judged(noted)
            if (exhausted == "raise" or noted.together) and verdict.withheld.any():
                raise OverspentError(_overspent(verdict, book.about, noted.together))
            if verdict.new.any():
                book.put(noted, verdict)
            book.write(named, verdict)
            return verdict.withheld

        return self._change(record)

    def _book(self, sheet: Sheet) -> Book:
        book = Book(sheet)
        if book.about.fingerprint != self.fingerprint:
            raise LedgerError(foreign(self.path))
        if self._pseudonyms(book.about).check != book.about.check:
            raise LedgerError(
                f"the ledger {str(self.path)!r} knows persons by another key, and would take "
                "everybody for somebody new; open it with the key it was created with."
            )
        return book

    def _look_up(self, look: Callable[[Book], Answer]) -> Answer:
        return self._read(lambda sheet: look(self._book(sheet)))

    def _pseudonyms(self, about: About) -> PersonPseudonyms:
        return PersonPseudonyms(self._key_now(), about.salt)

    def _key_now(self) -> bytes:
        key = self._key
        return read_key(key.get() if isinstance(key, _SecretKey) else key)

    def _held(self) -> About:
        return self._look_up(lambda book: book.about)

    def _page(self) -> Page:
        return self._look_up(lambda book: _page(book, self.path))


class _SecretKey:
    """A key in memory, kept out of every repr."""

    def __init__(self, key: bytes) -> None:
        self.get: Callable[[], bytes] = lambda: key

    def __repr__(self) -> str:
        return "<key>"


def _check_kind(about: About, kind: str, what: str) -> None:
    if about.ids and about.ids != kind:
        known = {"string": "strings", "integer": "whole numbers"}[about.ids]
        raise TypeError(
            f"{what} is none of the ids that the ledger knows, which are {known}: others would be "
            "other persons; convert it."
        )


def _fill(about: About, sheet: Sheet) -> None:
    """Write the first state: the terms, and no persons."""
    sheet.divide(1)
    sheet.put(0, b"", b"")
    sheet.write(record_of(about, [(0, 0)]))


def _overspent(verdict: Verdict, about: About, together: bool) -> str:
    overspent, changed = int(verdict.overspent.sum()), int(verdict.changed.sum())
    said = []
    if overspent:
        said.append(f"{overspent:,} have no release left")
    if changed and about.whole:
        said.append(f"{changed:,} changed since their last release")
    elif changed:
        said.append(f"{changed:,} lack other values, or are in another block, than before")
    way = (
        'pass exhausted="withhold" to leave them out, or plan more releases of each row '
        "(releases=) in the fit before the first one."
    )
    if reason := getattr(about.rule, "reason", ""):
        way = f'pass exhausted="withhold" to leave them out: {reason}'
    if together:  # in a swap, another person may hold the row of a person who is left out
        way = "rows are exchanged with all of a table; release those of others as one by itself."
    return (
        f"of {len(verdict.changed):,} rows, {' and '.join(said)}, and nothing was spent or "
        f"released; {way}"
    )


def _page(book: Book, path: Path) -> Page:
    """Return what a ledger holds, for people."""
    about, tally, calls = book.about, book.tally(), book.calls()
    n_new, n_rows = (sum(getattr(call, name) for call in calls) for name in ("new", "rows"))
    lines = [
        f"{sum(n for n, _ in tally):,} person(s) on record have had {n_new:,} release(s), in "
        f"{len(calls):,} call(s) of {n_rows:,} row(s).",
        _CHANGES[about.changes],
    ]
    head = ["persons", "releases had", "releases left"]
    cells = [[f"{n:,}", str(left.released), str(left.releases)] for n, left in tally]
    recent = [
        [str(value) for value in (shown(call.dataset), call.release, call.rows, call.new)]
        + [str(value) for value in (call.repeated, call.withheld, shown(call.note))]
        for call in calls[-_SHOWN:]
    ]
    columns = ["data set", "release", "rows", "new", "repeated", "withheld", "note"]
    return Page(
        f"Ledger of persons {shown(str(path))}",
        lines,
        [
            Section("Persons", cells=[head, *cells[:_SHOWN]]),
            Section(f"Last {_SHOWN} calls", cells=[columns, *recent]),
        ],
    )
