"""The ledger: how often the same data may be released, kept in a file beside a saved noiser.

What is on record never falls short of what was released, whatever happens to the processes:

- A spend holds an exclusive lock of the operating system on a file of its own (``.lock``) while it
  reads, checks and writes, so spends happen one after the other. The system lets go of the lock
  when a process dies. The lock file itself is empty, and stays.
- The new state is written to another file of the folder (``.tmp``), brought to the disk, and then
  takes the place of the old one in a single step. Who reads, at any moment, reads one state whole;
  a writer that dies leaves at most a file of which the next writer disposes.
- `Ledger.spend` returns when the new state is on the disk, so whoever releases after that has paid.

No clock, no process number and no randomness decides anything.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from sklearn_puffer._ledger_file import Snapshot, exclusive, write
from sklearn_puffer._rules import is_count
from sklearn_puffer._validation import check_count, listed, plain
from sklearn_puffer.spending import Axis, Meter, Rule, Spent, rule_from_dict, times_left

SCHEMA = "sklearn_puffer.ledger/1"

_Question = tuple[dict[Axis, float] | None, int, str | None]


class LedgerError(ValueError):
    """Raised where a ledger cannot be read, or belongs to another noiser; nothing is spent."""


class OverspentError(ValueError):
    """Raised where a release would overspend; nothing is spent."""


@dataclass(frozen=True)
class Left:
    """What may still be released of one dataset.

    Attributes
    ----------
    dataset : str
    releases : int or float
        How many more releases of all columns at the noiser's own scales; infinite without end.
    by_axis : dict
        What is left on each axis, rounded down: a sum of precisions 1/theta (Laplace) or 1/sigma^2
        (Gaussian), or nats.
    condition : str
        Under which condition releases add up like this, where there is one.
    """

    dataset: str
    releases: float
    by_axis: Mapping[Axis, float]
    condition: str = ""


@dataclass(frozen=True)
class Entry:
    """Releases that are on record: how many of one dataset, at which scales, with one note."""

    dataset: str
    scales: Mapping[Axis, float]
    releases: int
    note: str


class Ledger:
    """How often the same data may be released, on record in a file.

    Made by `Ledger.create` and `Ledger.open`. It may be pickled (the path is, not the record), and
    used after a fork and from several threads and processes.

    Parameters
    ----------
    path : str or Path
    fingerprint : str
        That of the noiser, from its certificate.

    Notes
    -----
    *Formal guarantees.* As long as every release of a dataset was spent here first, the joint law
    of all its releases loses no more than the noiser's certificate promises for one (or for its
    planned number); see `spending` for the rules and proofs, `Left.condition` for conditions.

    The datasets of one ledger have a whole budget each. The loss over all of them is then the
    largest of their losses, not the sum (004, Prop. E.1, for every notion here), provided that the
    datasets are independent of each other, and that each secret is about one of them and
    independent of all others: what is released of the others then has the same law under both
    secrets, whatever they are. Rows about the same person in two datasets break this.

    What it cannot see: releases that were never spent, copies of the ledger or of the data, a
    ledger that was put back to an older state, and data that were rounded or binned otherwise than
    in the fit (those are other data: they need a fit and a ledger of their own). The checksum finds
    accidents, not forgers.

    Examples
    --------
    >>> import tempfile, pandas as pd
    >>> from sklearn_puffer.certificate import Certificate, ColumnNoise
    >>> from sklearn_puffer.spending import Precisions
    >>> from types import SimpleNamespace
    >>> age = ColumnNoise("age", 2.0, 4.0, True, 1.0)
    >>> rule = Precisions.of_scales(1, {"age": 1.0})
    >>> noiser = SimpleNamespace(holds=True, columns=(age,), rule=rule, fingerprint="f00d")
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.create(f"{folder.name}/survey.ledger", noiser)
    >>> ledger.spend(note="for the press").releases, ledger.allows({"age": 1.5})
    (1, False)
    >>> ledger.spend({"age": 8.0}, releases=4).by_axis
    {'age': 0.0}
    >>> ledger.spend()
    Traceback (most recent call last):
    ...
    sklearn_puffer.ledger.OverspentError: 1 more release(s) of 'data' at {'age': 2} would ...
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        # Behind symbolic links: a file that takes the place of a link would hide the record.
        self.path = Path(path).resolve()
        self.fingerprint = fingerprint
        self._seen: _Seen | None = None

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        noiser: Any,
        *,
        datasets: Sequence[str] | None = None,
    ) -> Self:
        """Start a ledger with nothing spent.

        Parameters
        ----------
        path : str or Path
            A file that does not exist yet, in a folder that does.
        noiser : fitted noiser or certificate
        datasets : list of str, optional
            Names of independent datasets, each with a whole budget; one, "data", by default.

        Raises
        ------
        FileExistsError
            If there is such a file.
        ValueError
            If the certificate does not hold, or names no rule by which releases add up.
        OSError
            If the file cannot be written.
        """
        certificate = _certificate(noiser)
        names = _check_datasets(["data"] if datasets is None else datasets)
        ledger = cls(path, certificate.fingerprint)
        state = _State(certificate.fingerprint, certificate.rule, _scales(certificate), names, ())
        state.left(names[0])  # a rule that does not know the columns is refused here
        with exclusive(ledger.path) as hold:
            if ledger.path.exists():
                raise FileExistsError(
                    errno.EEXIST, "there is a ledger already; open it with Ledger.open", str(path)
                )
            write(ledger.path, state.to_bytes(), hold, None)
        return ledger

    @classmethod
    def open(cls, path: str | os.PathLike[str], noiser: Any) -> Self:
        """Open the ledger of a noiser.

        Parameters
        ----------
        path : str or Path
        noiser : fitted noiser or certificate

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        LedgerError
            If the file is damaged, of another version, or the ledger of another noiser.
        """
        certificate = _certificate(noiser)
        ledger = cls(path, certificate.fingerprint)
        ledger._check_noiser(certificate)
        return ledger

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_seen": None}

    @property
    def rule(self) -> Rule:
        """How releases add up, and the budget."""
        return self._current().state.rule

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the datasets."""
        return self._current().state.datasets

    def spend(
        self,
        scales: Mapping[Axis, float] | None = None,
        *,
        releases: int = 1,
        dataset: str | None = None,
        note: str = "",
    ) -> Left:
        """Put releases on record that are about to happen.

        Parameters
        ----------
        scales : dict of column to float, optional
            Scales of the noise, in the columns' units, where they are not the noiser's own; only
            these columns are then released.
        releases : int, default=1
        dataset : str, optional
            May be left out where there is only one.
        note : str, default=""
            Releases of the same dataset, scales and note are counted together, so that the file
            stays small; every new note adds a line.

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
            If the ledger cannot be read, locked or written.

        Notes
        -----
        Whatever is raised, nothing is spent, but for an interrupt that comes after the new state
        is in its place, and for a disk that does not confirm it, which the message says: then the
        spend is on record, and may be more than was released, never less.
        """
        with exclusive(self.path) as hold:
            state, seen = self._load()
            entry = state.entry(_numbers(scales), releases, dataset, note)
            after = state.plus(entry)
            left = after.left(entry.dataset)  # nothing may fail once the state is written
            write(self.path, after.to_bytes(), hold, seen)
        return left

    def allows(
        self,
        scales: Mapping[Axis, float] | None = None,
        *,
        releases: int = 1,
        dataset: str | None = None,
    ) -> bool:
        """Return whether `spend` would succeed now; another process may be faster.

        Parameters and errors are those of `spend`.
        """
        seen = self._current()
        count = releases if is_count(releases) else check_count(releases, "releases")
        question = _numbers(scales), count, dataset
        last, answer = seen.last
        if question != last:
            answer = seen.state.allows(*question)
            seen.last = question, answer  # in one step, for other threads may be asking
        return answer

    def left(self, dataset: str | None = None) -> Left:
        """Return what may still be released of a dataset."""
        state = self._current().state
        return state.left(state.name(dataset))

    def history(self) -> tuple[Entry, ...]:
        """Return all that was spent, in the order in which each kind of release came first."""
        return self._current().state.entries

    def add(self, dataset: str) -> None:
        """Add a dataset that is independent of all others, with a whole budget of its own.

        Raises
        ------
        ValueError
            If there is a dataset of that name.
        """
        with exclusive(self.path) as hold:
            state, seen = self._load()
            names = _check_datasets([*state.datasets, dataset])
            write(self.path, replace(state, datasets=names).to_bytes(), hold, seen)

    def transform(
        self,
        noiser: Any,
        X: Any,
        *,
        factor: float = 1.0,
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
        factor : float, default=1.0
            How many times the noiser's noise is added (see `PufferfishNoiser.noisier`): a release
            at larger scales spends less.
        dataset, note : str
            As in `spend`.

        Returns
        -------
        table of the type of X

        Raises
        ------
        OverspentError
            If the budget does not suffice; nothing is released.
        LedgerError
            If the ledger belongs to another noiser, or is damaged; nothing is released.

        Notes
        -----
        The answer is computed first, and handed out only after it is on record: an X that the
        noiser refuses costs nothing, and a crash in between has spent at most, never released.
        """
        used = noiser if factor == 1.0 else noiser.noisier(factor)
        scales = None if used is noiser else _scales(used.certificate_)
        return self._handed_out(noiser, lambda: used.transform(X), scales, dataset, note)

    def release(
        self, query: Any, values: Any, *, dataset: str | None = None, note: str = ""
    ) -> Any:
        """Answer a query, and put the answer on record before anybody sees it.

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

        Raises
        ------
        OverspentError
            If the budget does not suffice; nothing is released.
        LedgerError
            If the ledger belongs to another query, or is damaged; nothing is released.

        Notes
        -----
        In the order of `transform`: what the query refuses costs nothing.
        """
        return self._handed_out(query, lambda: query.release(values), None, dataset, note)

    def _handed_out(
        self,
        noiser: Any,
        compute: Callable[[], Any],
        scales: Mapping[Axis, float] | None,
        dataset: str | None,
        note: str,
    ) -> Any:
        """Return what is computed, when it is on record."""
        state = self._check_noiser(_certificate(noiser))
        state.entry(scales, 1, dataset, note)
        released = compute()
        try:
            self.spend(scales, dataset=dataset, note=note)
        except BaseException:
            del released  # tracebacks hold the variables of this frame
            raise
        return released

    def _check_noiser(self, certificate: Any) -> _State:
        state = self._current().state
        own = (state.fingerprint, dict(state.scales), state.rule)
        if own != (certificate.fingerprint, _scales(certificate), certificate.rule):
            raise LedgerError(_foreign(self.path))
        return state

    def _current(self) -> _Seen:
        """Return the state of the file, read again only where the file is another one."""
        seen = self._seen
        if seen is None or not seen.snapshot.is_current():
            snapshot = Snapshot(self.path)
            seen = self._seen = _Seen(snapshot, self._state(snapshot))
        return seen

    def _load(self) -> tuple[_State, Snapshot]:
        """Return the state of the file, which nobody else changes while the lock is held."""
        snapshot = Snapshot(self.path)
        if (names := snapshot.found.st_nlink) > 1:
            raise LedgerError(
                f"the ledger {str(self.path)!r} has {names} names (hard links), of which a spend "
                "would change one; remove the others."
            )
        return self._state(snapshot), snapshot

    def _state(self, snapshot: Snapshot) -> _State:
        state = _State.from_bytes(snapshot.data, self.path)
        if state.fingerprint != self.fingerprint:
            raise LedgerError(_foreign(self.path))
        return state


@dataclass(frozen=True, eq=False)
class _State:
    """What a ledger holds at one moment."""

    fingerprint: str
    rule: Rule
    scales: Mapping[Axis, float]
    datasets: tuple[str, ...]
    entries: tuple[Entry, ...]

    @classmethod
    def from_bytes(cls, data: bytes, path: Path) -> Self:
        """Return the state in a file.

        Raises
        ------
        LedgerError
            If the file does not hold one, or not whole.
        """
        try:
            record = json.loads(data)
            if record["schema"] == SCHEMA and record.pop("checksum") == _checksum(record):
                return cls._from_record(record)
            schema = record["schema"]
        except (ValueError, TypeError, KeyError, RecursionError) as fault:
            raise LedgerError(f"{str(path)!r} is not a ledger, or a damaged one.") from fault
        if schema == SCHEMA:
            raise LedgerError(
                f"the ledger {str(path)!r} is damaged: its checksum does not fit; put back the "
                "last whole copy, and spend what was released since."
            )
        raise LedgerError(
            f"{str(path)!r} was written as {schema!r}, and this version reads {SCHEMA!r}; use the "
            "version that wrote it."
        )

    @classmethod
    def _from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(
            record["fingerprint"],
            rule_from_dict(record["rule"]),
            dict(record["scales"]),
            tuple(record["datasets"]),
            tuple(Entry(name, dict(scales), *rest) for name, scales, *rest in record["spent"]),
        )

    def to_bytes(self) -> bytes:
        """Return the state as JSON, with its checksum."""
        record = {
            "schema": SCHEMA,
            "fingerprint": self.fingerprint,
            "rule": self.rule.to_dict(),
            "scales": list(map(list, self.scales.items())),
            "datasets": list(self.datasets),
            "spent": [
                [entry.dataset, list(map(list, entry.scales.items())), entry.releases, entry.note]
                for entry in self.entries
            ],
        }
        whole = record | {"checksum": _checksum(record)}
        return (json.dumps(whole, indent=1, allow_nan=False) + "\n").encode()

    def name(self, dataset: str | None) -> str:
        """Return the name of a dataset, which may be left out where there is only one."""
        if dataset is None and len(self.datasets) == 1:
            return self.datasets[0]
        if dataset is None or dataset not in self.datasets:
            raise ValueError(
                f"dataset must be one of {listed(self.datasets)}, got {dataset!r}; Ledger.add adds "
                "one that is independent of the others."
            )
        return dataset

    def allows(
        self, scales: Mapping[Axis, float] | None, releases: int, dataset: str | None
    ) -> bool:
        """Return whether the budget suffices for further releases."""
        extra = {axis: {scale: releases} for axis, scale in self._chosen(scales).items()}
        return self._meter(dataset).allows(extra)

    def entry(
        self, scales: Mapping[Axis, float] | None, releases: int, dataset: str | None, note: str
    ) -> Entry:
        """Return releases as they will be on record.

        Raises
        ------
        OverspentError
            If the budget does not suffice.
        """
        if not isinstance(note, str):
            raise TypeError(f"note must be a string, got {note!r}.")
        count = check_count(releases, "releases")
        entry = Entry(self.name(dataset), self._chosen(scales), count, note)
        if not self.allows(scales, count, dataset):
            raise OverspentError(self._overspent(entry))
        return entry

    def _chosen(self, scales: Mapping[Axis, float] | None) -> Mapping[Axis, float]:
        if scales is None:
            return self.scales
        if not scales or not scales.keys() <= self.scales.keys():
            names = listed(tuple(self.scales))
            raise ValueError(f"scales must name some of the columns {names}, got {dict(scales)}.")
        return scales

    def _overspent(self, entry: Entry) -> str:
        left, draws = self.left(entry.dataset), getattr(self.rule, "draws", None)
        most = f" (each column {draws} time(s) at most)" if draws else ""
        advice = "Ask for larger scales, or fit with more releases before the first one."
        return (
            f"{entry.releases} more release(s) of {entry.dataset!r} at {_short(entry.scales)} "
            f"would overspend the ledger, and nothing was spent; left are {left.releases} "
            f"release(s) at {_short(self.scales)}, or {_short(left.by_axis)} by column{most}. "
            f"{getattr(self.rule, 'reason', advice)}"
        )

    def plus(self, entry: Entry) -> _State:
        """Return the state after further releases."""
        entries = list(self.entries)
        for k, old in enumerate(entries):
            if replace(old, releases=entry.releases) == entry:
                entries[k] = replace(old, releases=old.releases + entry.releases)
                return replace(self, entries=tuple(entries))
        return replace(self, entries=(*entries, entry))

    def left(self, dataset: str) -> Left:
        """Return what may still be released of a dataset."""
        meter = self._meter(dataset)
        once = {axis: {scale: 1} for axis, scale in self.scales.items()}
        return Left(dataset, times_left(meter, once), meter.left(), self.rule.condition)

    def spent(self, dataset: str) -> Spent:
        """Return how often each axis of a dataset was released at each scale."""
        spent: dict[Axis, dict[float, int]] = {}
        for entry in self.entries:
            if entry.dataset == dataset:
                for axis, scale in entry.scales.items():
                    counts = spent.setdefault(axis, {})
                    counts[scale] = counts.get(scale, 0) + entry.releases
        return spent

    def _meter(self, dataset: str | None) -> Meter:
        meter = self._meters.get(dataset)
        if meter is None:
            meter = self._meters[dataset] = self.rule.meter(self.spent(self.name(dataset)))
        return meter

    @cached_property
    def _meters(self) -> dict[str | None, Meter]:
        return {}


class _Seen:
    """A state that was read, the last question that was asked of it, and the answer."""

    def __init__(self, snapshot: Snapshot, state: _State) -> None:
        self.snapshot, self.state = snapshot, state
        self.last: tuple[_Question | None, bool] = None, False


def _certificate(noiser: Any) -> Any:
    certificate = getattr(noiser, "certificate_", noiser)
    if not getattr(certificate, "fingerprint", "") or getattr(certificate, "rule", None) is None:
        raise ValueError(
            f"noiser must be a fitted noiser, or its certificate, with a rule for repeated "
            f"releases, got {type(noiser).__name__}; call fit first."
        )
    if not certificate.holds:
        raise ValueError(
            "the certificate of the noiser does not hold, so there is nothing to spend; print it "
            "to see the remedy."
        )
    return certificate


def _scales(certificate: Any) -> dict[Axis, float]:
    return {plain(column.name): float(column.theta) for column in certificate.columns}


def _short(numbers: Mapping[Axis, float]) -> str:
    """Return numbers by axis, to six digits: a message is no place for sixteen."""
    return "{" + ", ".join(f"{axis!r}: {number:.6g}" for axis, number in numbers.items()) + "}"


def _numbers(scales: Any) -> dict[Axis, float] | None:
    if scales is None:
        return None
    try:
        return {plain(axis): float(scale) for axis, scale in scales.items()}
    except (AttributeError, TypeError, ValueError, OverflowError) as fault:
        raise TypeError(
            f"scales must be a dict of columns to numbers, or None, got {scales!r}."
        ) from fault


def _check_datasets(names: Sequence[str]) -> tuple[str, ...]:
    every = tuple(names) if not isinstance(names, str) else ()
    if not every or not all(isinstance(name, str) for name in every):
        raise TypeError(f"datasets must be a list of names, got {names!r}.")
    if len(set(every)) < len(every):
        raise ValueError(f"datasets must have different names, got {listed(every)}.")
    return every


def _foreign(path: Path) -> str:
    return (
        f"the ledger {str(path)!r} belongs to another noiser; open it with the noiser it was "
        "created for, or create a ledger for data that were never released."
    )


def _checksum(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
