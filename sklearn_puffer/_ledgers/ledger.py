"""The ledger: how often the same data may be released, kept in a file beside a saved noiser."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from sklearn_puffer._base import check_count
from sklearn_puffer._certificates import OverspentError
from sklearn_puffer._documents import Page, Section
from sklearn_puffer._ledgers.store import (
    SCHEMAS,
    Account,
    LedgerError,
    LedgerTerms,
    Sheet,
    certificate_for,
    foreign,
    reading,
)
from sklearn_puffer._words import listed, quoted, shown


@dataclass(frozen=True)
class Left:
    """What may still be released of one dataset.

    Attributes
    ----------
    dataset : str
    releases : int or float
        How many more releases; infinite without end.
    """

    dataset: str
    releases: float


@dataclass(frozen=True)
class Entry:
    """Releases on record: their dataset, number and note."""

    dataset: str
    releases: int
    note: str


@dataclass(frozen=True, eq=False)
class State(LedgerTerms):
    """What a ledger holds at one moment."""

    datasets: tuple[str, ...]
    entries: tuple[Entry, ...] = ()

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the state that `to_record` wrote; a damaged record raises any error."""
        state = cls.read(record, _check_datasets(record["datasets"]))
        state.remaining(0)
        spent = [
            Entry(state.name(dataset), state.counted(scales, releases), note)
            for dataset, scales, releases, note in record["spent"]
        ]
        return replace(state, entries=tuple(spent))

    def to_record(self) -> dict[str, Any]:
        """Return the state as plain values."""
        spent = [
            [entry.dataset, list(self.scales.items()), entry.releases, entry.note]
            for entry in self.entries
        ]
        datasets = {"datasets": list(self.datasets), "spent": spent}
        return {"schema": SCHEMAS["Ledger"]} | super().to_record() | datasets

    def name(self, dataset: str | None) -> str:
        """Return the name of a dataset, which may be left out where there is only one."""
        if dataset is None and len(self.datasets) == 1:
            return self.datasets[0]
        if not isinstance(dataset, str) or dataset not in self.datasets:
            raise ValueError(
                f"dataset must be one of {listed(self.datasets)}, got {quoted(dataset)}; "
                "Ledger.add adds one that is independent of the others."
            )
        return dataset

    def entry(self, releases: int, dataset: str | None, note: str) -> Entry:
        """Return checked arguments of a spend as an entry; refuse one beyond the budget."""
        count = check_count(releases, "releases")
        if not isinstance(note, str):
            raise TypeError(f"note must be a string, got {quoted(note)}.")
        left = self.left(self.name(dataset))
        if count <= left.releases:
            return Entry(left.dataset, count, note)
        way = getattr(self.rule, "reason", "Fit with more releases before the first one.")
        if not self.rule.axes:  # of whole rows
            way = f"{way} Other people are another data set (dataset=)."
        raise OverspentError(
            f"{count} more release(s) of {left.dataset!r} would overspend the ledger, and nothing "
            f"was spent; {left.releases} are left. {way[0].upper()}{way[1:]}"
        )

    def plus(self, entry: Entry) -> State:
        """Return the state after further releases: equal ones are counted together."""
        entries = list(self.entries)
        for k, old in enumerate(entries):
            if (old.dataset, old.note) == (entry.dataset, entry.note):
                entries[k] = replace(entry, releases=old.releases + entry.releases)
                return replace(self, entries=tuple(entries))
        return replace(self, entries=(*entries, entry))

    def left(self, dataset: str) -> Left:
        """Return what may still be released of a dataset."""
        spent = sum(entry.releases for entry in self.entries if entry.dataset == dataset)
        return Left(dataset, self.remaining(spent))


_SHOWN = 10  # entries on a page


class Ledger(Account[State]):
    """How often the same data may be released, on record in a file (SQLite).

    Made by `Ledger.create` and `Ledger.open`. It may be pickled (the path is, not the record), and
    used after a fork and from several threads and processes.

    Parameters
    ----------
    path : str or Path
        The file.
    fingerprint : str
        That of the noiser, from its certificate.
    timeout : float, default=60.0
        For how many seconds a spend waits while others spend; `math.inf` for ever.

    See Also
    --------
    PersonLedger : Counts what the rows of each person have spent.

    Notes
    -----
    *Formal guarantees.* As long as every release of a dataset was spent here first, the joint
    distribution of all its releases loses no more than the noiser's certificate guarantees for one
    (or for its planned number); see `_certificates.composition` for the rules and proofs.

    The datasets of one ledger have a whole budget each. The loss over all of them is then the
    largest of their losses, not the sum (004, Prop. E.1, for every notion here), provided that the
    datasets are independent of each other, and that each secret is about one of them and
    independent of all others: what is released of the others then has the same distribution under
    both secrets, whatever they are. Rows about the same person in two datasets break this.

    What it cannot see: releases that were never spent, copies of the ledger or of the data, a
    ledger that was put back to an older state, and data that were rounded or binned otherwise than
    in the fit (those are other data: they need a fit and a ledger of their own). Damage of the file
    is noticed, forgery is not.

    Examples
    --------
    Two releases are planned, and a third one is refused.

    >>> import tempfile
    >>> import pandas as pd
    >>> from sklearn_puffer import Ledger, PufferfishNoiser
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> noiser = PufferfishNoiser(epsilon=1.0, sensitive="loan", releases=2).fit(table)
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.create(f"{folder.name}/cars.ledger", noiser)
    >>> released = ledger.transform(noiser, table, note="for the press")
    >>> ledger.left().releases
    1
    >>> released = ledger.transform(noiser, table)
    >>> ledger.transform(noiser, table)
    Traceback (most recent call last):
    ...
    sklearn_puffer...OverspentError: 1 more release(s) of 'data' would overspend the ledger...
    >>> folder.cleanup()
    """

    _kind = "Ledger"

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        noiser: Any,
        *,
        datasets: Sequence[str] | None = None,
        timeout: float = 60.0,
    ) -> Self:
        """Start the ledger of a noiser, with nothing spent.

        Parameters
        ----------
        path : str or Path
            A file that does not exist yet, in a folder that does.
        noiser : fitted noiser or query, or its certificate
            Whose releases are counted.
        datasets : list of str, optional
            Names of independent datasets, each with a whole budget; one, "data", by default.
        timeout : float, default=60.0
            For how many seconds a spend waits while others spend; `math.inf` for ever.

        Returns
        -------
        Ledger
            With the file on the disk.

        Raises
        ------
        FileExistsError
            If there is such a file.
        TypeError, ValueError
            If the certificate does not hold, or names no rule by which releases add up; if the
            path leads to no file, or another argument is out of its range.
        OSError
            If the file cannot be written.
        """
        certificate = certificate_for(noiser)
        names = _check_datasets(["data"] if datasets is None else datasets)
        ledger = cls(path, certificate.fingerprint, timeout)
        state = State.of(certificate, names)
        state.left(names[0])  # a rule that does not know the columns is refused here
        ledger._create(lambda sheet: sheet.write(state.to_record()))
        return ledger

    @classmethod
    def open(cls, path: str | os.PathLike[str], noiser: Any, *, timeout: float = 60.0) -> Self:
        """Open what `create` started.

        Parameters
        ----------
        path : str or Path
            That of `create`.
        noiser : fitted noiser or query, or its certificate
            The one that the ledger was created for, or loaded from where it was saved.
        timeout : float, default=60.0
            For how many seconds a spend waits while others spend; `math.inf` for ever.

        Returns
        -------
        Ledger
            With all that was spent until now.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        LedgerError
            If the file is damaged, of another version, or the ledger of another noiser.
        """
        certificate = certificate_for(noiser)
        ledger = cls(path, certificate.fingerprint, timeout)
        ledger._check_whole(certificate)
        return ledger

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the datasets."""
        return self._held().datasets

    def spend(self, *, releases: int = 1, dataset: str | None = None, note: str = "") -> Left:
        """Put releases on record that are about to happen.

        Parameters
        ----------
        releases : int, default=1
            How many.
        dataset : str, optional
            May be left out where there is only one.
        note : str, default=""
            Releases of the same dataset and note are counted together, so that the file stays
            small; every new note adds to it.

        Returns
        -------
        Left
            What may still be released. The spend is on the disk by then.

        Raises
        ------
        OverspentError
            If the budget does not suffice.
        LedgerError, TypeError, ValueError
            If the ledger is damaged, or an argument out of its range.
        OSError
            If the ledger cannot be read, locked or written; a `TimeoutError` if others held it for
            longer than the ledger's ``timeout``.

        Notes
        -----
        Whatever is raised, nothing is spent, but for an interrupt that comes when the new state is
        on the disk, and for a disk that does not confirm it, which the message says: then the
        spend may be on record, and be more than was released, never less.
        """

        def record(sheet: Sheet) -> Left:
            state = self._state(sheet)
            entry = state.entry(releases, dataset, note)
            after = state.plus(entry)
            sheet.write(after.to_record())
            return after.left(entry.dataset)  # computed before the commit, as it might fail

        return self._change(record)

    def left(self, dataset: str | None = None) -> Left:
        """Return what may still be released of a dataset.

        Parameters
        ----------
        dataset : str, optional
            May be left out where there is only one.

        Returns
        -------
        Left
            How many more releases.
        """
        state = self._held()
        return state.left(state.name(dataset))

    def history(self) -> tuple[Entry, ...]:
        """Return all that was spent.

        Returns
        -------
        tuple of Entry
            In the order in which each dataset and note came first.
        """
        return self._held().entries

    def add(self, dataset: str) -> None:
        """Add a dataset that is independent of all others, with a whole budget of its own.

        Parameters
        ----------
        dataset : str
            Its name.

        Raises
        ------
        ValueError
            If there is a dataset of that name.
        """

        def record(sheet: Sheet) -> None:
            state = self._state(sheet)
            names = _check_datasets([*state.datasets, dataset])
            sheet.write(replace(state, datasets=names).to_record())

        self._change(record)

    def transform(
        self,
        noiser: Any,
        X: Any,
        *,
        dataset: str | None = None,
        note: str = "",
    ) -> Any:
        """Release X by the noiser, and put it on record before anybody sees it.

        Parameters
        ----------
        noiser : fitted noiser
            The one that the ledger belongs to.
        X : DataFrame or array-like
            As in the noiser's ``transform``.
        dataset, note : str
            As in `spend`.

        Returns
        -------
        table of the type of X
            What the noiser's ``transform`` returns.

        Raises
        ------
        OverspentError
            If the budget does not suffice; nothing is released.
        LedgerError
            If the ledger belongs to another noiser, or is damaged; nothing is released.

        Notes
        -----
        The release is computed first, then put on record, then returned. So an X that the noiser
        refuses costs nothing, and a crash may spend without a release, but never release without
        a spend.
        """
        return self._handed_out(noiser, lambda: noiser.transform(X), dataset, note)

    def release(
        self, query: Any, values: Any, *, dataset: str | None = None, note: str = ""
    ) -> Any:
        """Answer a query, and put it on record before anybody sees the answer.

        Parameters
        ----------
        query : fitted PufferfishSum
            The one that the ledger belongs to.
        values : array-like or DataFrame
            As in the query's ``release``: the same reports each time, with the same users absent.
        dataset, note : str
            As in `spend`.

        Returns
        -------
        PrivateAnswer
            What the query's ``release`` returns.

        Raises
        ------
        OverspentError, LedgerError
            As in `transform`.
        """
        return self._handed_out(query, lambda: query.release(values), dataset, note)

    def _handed_out(
        self,
        noiser: Any,
        compute: Callable[[], Any],
        dataset: str | None,
        note: str,
    ) -> Any:
        """Compute a release, put it on record, and only then return it."""
        state = self._check_noiser(certificate_for(noiser))
        state.entry(1, dataset, note)
        released = compute()
        try:
            self.spend(dataset=dataset, note=note)
        except BaseException:
            del released  # tracebacks hold the variables of this frame
            raise
        return released

    def _held(self) -> State:
        return self._read(self._state)

    def _page(self) -> Page:
        state = self._held()
        n = sum(entry.releases for entry in state.entries)
        left = [[shown(name), str(state.left(name).releases)] for name in state.datasets]
        entries = [
            [shown(entry.dataset), str(entry.releases), shown(entry.note) if entry.note else ""]
            for entry in state.entries[-_SHOWN:]
        ]
        heads = ["data set", "releases left"], ["data set", "releases", "note"]
        sections = [
            Section("Left", "", [heads[0], *left]),
            Section(f"Last {_SHOWN} entries", "equal releases are one", [heads[1], *entries]),
        ]
        lines = [f"{n:,} release(s) of {len(state.datasets):,} data set(s) are on record."]
        return Page(f"Ledger {shown(str(self.path))}", lines, sections)

    def _state(self, sheet: Sheet) -> State:
        with reading("record"):
            state = State.from_record(sheet.record)
        if state.fingerprint != self.fingerprint:
            raise LedgerError(foreign(self.path))
        return state


def _check_datasets(names: Sequence[str]) -> tuple[str, ...]:
    every = () if isinstance(names, str) or not isinstance(names, Sequence) else tuple(names)
    named = all(isinstance(name, str) and name for name in every)
    if not (every and named and len(set(every)) == len(every)):
        raise ValueError(
            f"datasets must be a list of different names that are not empty, got {quoted(names)}."
        )
    return every
