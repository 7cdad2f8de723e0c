"""What a ledger holds at one moment: its rule, its datasets and all spends.

Certificates, as `to_dict` writes them, read again: without the noise and laws behind them.

Rules of how releases add up, as they are written to a ledger, read again.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, NoReturn, Self, get_type_hints

from sklearn_puffer._base import FieldError, check_choice, check_count, listed, quoted, read_as
from sklearn_puffer._releases.certificate import READ_SCHEMAS, SCHEMA, Certificate, SetLoss
from sklearn_puffer._releases.channel_certificate import ChannelCertificate, ChannelLoss
from sklearn_puffer._releases.composition import (
    Axis,
    Draws,
    Meter,
    MixedPrecisions,
    Precisions,
    Refused,
    Rule,
    Spent,
    check_scale,
)
from sklearn_puffer._releases.store import SCHEMAS

_OLD = "sklearn_puffer.ledger/1"


class OverspentError(ValueError):
    """Raised where a release would overspend; nothing is spent.

    Examples
    --------
    The second of two releases, where one was planned:

    >>> import tempfile
    >>> import pandas as pd
    >>> from sklearn_puffer import Ledger, OverspentError, PufferfishNoiser
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> noiser = PufferfishNoiser(epsilon=0.5, sensitive="loan").fit(table)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger.create(f"{folder}/cars.ledger", noiser)
    ...     released = ledger.transform(noiser, table)
    ...     try:
    ...         ledger.transform(noiser, table)
    ...     except OverspentError as error:
    ...         print(str(error).partition(";")[0])
    1 more release(s) of 'data' at {'cars': 1.68038} would overspend the ledger, and nothing was \
spent
    """

    __module__ = "sklearn_puffer"


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
        (Gaussian), or a number of releases where nothing adds up.
    """

    dataset: str
    releases: float
    by_axis: Mapping[Axis, float]


@dataclass(frozen=True)
class Entry:
    """Releases that are on record: how many of one dataset, at which scales, with one note."""

    dataset: str
    scales: Mapping[Axis, float]
    releases: int
    note: str

    @property
    def kind(self) -> tuple[str, str, Mapping[Axis, float]]:
        """What equal releases, which are counted together, have in common."""
        return self.dataset, self.note, self.scales


@dataclass(frozen=True, eq=False)
class State:
    """What a ledger holds at one moment."""

    fingerprint: str
    rule: Rule
    scales: Mapping[Axis, float]
    datasets: tuple[str, ...]
    entries: tuple[Entry, ...]

    @classmethod
    def start(
        cls, fingerprint: str, rule: Rule, scales: Mapping[Axis, float], datasets: tuple[str, ...]
    ) -> Self:
        """Return the state in which nothing is spent."""
        return cls(fingerprint, rule, scales, datasets, ())

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Return the state in a file of version 0.2; any error is that of another file."""
        record = json.loads(data)
        if record.pop("checksum") != checksum_of(record) or record["schema"] != _OLD:
            raise ValueError("its checksum or its schema does not fit")
        return cls.from_record(record)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the state that `to_record` wrote; any error is that of another record."""
        rule = rule_from_dict(record["rule"])
        own, datasets = scales_from(record["scales"]), tuple(record["datasets"])
        if not datasets or not all(isinstance(name, str) for name in datasets):
            raise TypeError("datasets are not names")
        if rule.axes and not own.keys() <= set(rule.axes):
            raise ValueError("the rule does not know the columns")
        spent = tuple(_entry(*entry) for entry in record["spent"])
        if not all(e.dataset in datasets and e.scales.keys() <= own.keys() for e in spent):
            raise ValueError("what was spent is of no dataset or column")
        return cls(record["fingerprint"], rule, own, datasets, spent)

    def to_record(self) -> dict[str, Any]:
        """Return the state as plain values."""
        spent = [
            [entry.dataset, scales_to(entry.scales), entry.releases, entry.note]
            for entry in self.entries
        ]
        return {
            "schema": SCHEMAS["Ledger"],
            "fingerprint": self.fingerprint,
            "rule": self.rule.to_dict(),
            "scales": scales_to(self.scales),
            "datasets": list(self.datasets),
            "spent": spent,
        }

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

    def allows(
        self, scales: Mapping[Axis, float] | None, releases: int, dataset: str | None
    ) -> bool:
        """Return whether the budget suffices for further releases."""
        asked = counts_of([(self._chosen(scales), releases)])
        return self._meter(self.name(dataset)).allows(asked)

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
            raise TypeError(f"note must be a string, got {quoted(note)}.")
        entry = Entry(self.name(dataset), self._chosen(scales), releases, note)
        if not self.allows(scales, releases, dataset):
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

    def plus(self, entry: Entry) -> State:
        """Return the state after further releases."""
        entries = list(self.entries)
        for k, old in enumerate(entries):
            if old.kind == entry.kind:
                entries[k] = replace(old, releases=old.releases + entry.releases)
                return replace(self, entries=tuple(entries))
        return replace(self, entries=(*entries, entry))

    def left(self, dataset: str) -> Left:
        """Return what may still be released of a dataset."""
        meter = self._meter(dataset)
        return Left(dataset, meter.times(counts_of([(self.scales, 1)])), meter.left())

    def spent(self, dataset: str) -> Spent:
        """Return how often each axis of a dataset was released at each scale."""
        return counts_of((e.scales, e.releases) for e in self.entries if e.dataset == dataset)

    def _meter(self, dataset: str) -> Meter:
        meter = self._meters.get(dataset)
        if meter is None:
            meter = self._meters[dataset] = self.rule.meter(self.spent(dataset))
        return meter

    @cached_property
    def _meters(self) -> dict[str, Meter]:
        return {}


def counts_of(releases: Iterable[tuple[Mapping[Axis, float], int]]) -> Spent:
    """Return how often each axis is released at each scale, of releases and how many of each.

    >>> counts_of([({"age": 2.0}, 1), ({"age": 2.0, "sex": 1.0}, 2)])
    {'age': {2.0: 3}, 'sex': {1.0: 2}}
    """
    counts: dict[Axis, dict[float, int]] = {}
    for scales, number in releases:
        for axis, scale in scales.items():
            own = counts.setdefault(axis, {})
            own[scale] = own.get(scale, 0) + number
    return counts


def _entry(dataset: Any, scales: Any, releases: Any, note: Any) -> Entry:
    """Return releases as they stand in a file, if they are any."""
    if not (isinstance(dataset, str) and isinstance(note, str)):
        raise TypeError("no releases on record")
    return Entry(dataset, scales_from(scales), check_count(releases, "releases"), note)


def scales_to(scales: Mapping[Axis, float]) -> list[list[Any]]:
    """Return scales as plain values for JSON."""
    return [[axis, scale] for axis, scale in scales.items()]


def scales_from(pairs: Any) -> dict[Axis, float]:
    """Return scales as `scales_to` wrote them."""
    return {axis: check_scale(scale, axis, free=True) for axis, scale in pairs}


def checksum_of(record: Mapping[str, Any]) -> str:
    """Return what version 0.2 found accidents to a record by; whatever order its keys have."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _short(numbers: Mapping[Axis, float]) -> str:
    """Return numbers by axis, to six digits: a message is no place for sixteen."""
    return "{" + ", ".join(f"{axis!r}: {number:.6g}" for axis, number in numbers.items()) + "}"


_FRACTION = re.compile("[0-9]{1,4000}(/[1-9][0-9]{0,3999})?")


def rule_from_dict(record: Mapping[str, Any]) -> Rule:
    """Return the rule that ``to_dict`` wrote.

    Raises
    ------
    ValueError
        If the record is not that of a rule.

    Examples
    --------
    >>> rule = Precisions(2, {"age": 0.25, "sex": math.inf})
    >>> rule_from_dict(rule.to_dict()) == rule
    True
    """
    kind = record.get("rule") if isinstance(record, Mapping) else None
    check_choice(kind, "rule", ["precisions", "refused", "mixed", "draws"])
    try:
        if kind == "draws":
            return Draws(record["most"], record["reason"])
        if kind == "refused":
            return Refused(record["reason"], dict(record["scales"]))
        if kind == "mixed":
            return _mixed(record)
        budgets = {axis: _read(budget) for axis, budget in record["budgets"]}
        return Precisions(record["power"], budgets, record["draws"])
    except (LookupError, ArithmeticError, AttributeError, TypeError, ValueError) as fault:
        raise ValueError(
            f"record must be that of a rule as to_dict writes it, and this one is not ({fault}); "
            "put back a whole copy."
        ) from fault


def _mixed(record: Mapping[str, Any]) -> MixedPrecisions:
    numbers = rule_from_dict(record["numbers"])
    if not isinstance(numbers, Precisions):
        raise ValueError("the rule of its numbers is none of precisions")
    least = {axis: share for axis, share, _ in record["mixed"]}
    return MixedPrecisions(numbers, least, {axis: scale for axis, _, scale in record["mixed"]})


def _read(budget: Any) -> float | Fraction:
    """Return a budget as it was written: with an exponent it might have a billion digits."""
    if isinstance(budget, str) and budget != "infinity" and not _FRACTION.fullmatch(budget):
        raise ValueError(f"a budget is no fraction: {budget[:20]!r}")
    return math.inf if budget == "infinity" else Fraction(budget)


_APART = {"rule", "around", "fitted"}
_GONE = {"lower_bound", "n_blocks", "stayed"}  # of the facts of a channel


@dataclass(frozen=True)
class Elsewhere:
    """A loss over a set of priors that the noiser computes, and this certificate has not."""

    @property
    def known(self) -> SetLoss | None:
        """None: it was not computed when the certificate was written."""
        return None

    def value(self) -> NoReturn:
        """Refuse."""
        raise ValueError(
            "over_set is computed from the priors, which this certificate was written without; ask "
            "the noiser for certificate_.over_set before it is written."
        )


def certificate_from_dict(record: Mapping[str, Any], *, awaited: bool = False) -> Certificate:
    """Return the certificate that ``to_dict`` wrote; it knows no other priors.

    Parameters
    ----------
    record : dict
    awaited : bool, default=False
        Whether the loss over a set of priors was still to be computed.

    Raises
    ------
    ValueError
        If the record is none of a certificate, naming the field.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> certificate = PufferfishNoiser(sensitive="loan").fit(table).certificate_
    >>> certificate_from_dict(certificate.to_dict()) == certificate
    True
    """
    if record.get("schema") not in READ_SCHEMAS:
        raise FieldError(
            f"field schema must be {SCHEMA!r}, got {quoted(record.get('schema'))}, of version "
            f"{quoted(record.get('version'))} of the library"
        )
    kind = ChannelCertificate if "channel" in record else Certificate
    if kind is ChannelCertificate:
        record = _of_channel(record)
    own = {
        name: read_as(hint, _given(record, name), name)
        for name, (hint, is_needed) in _told(kind).items()
        if is_needed or name in record  # what later versions added has a default
    }
    around: Any = read_as(SetLoss | None, _given(record, "over_set"), "over_set")
    if awaited and around is None:
        around = Elsewhere()
    rule = _given(record, "rule")
    return kind(**own, around=around, rule=None if rule is None else rule_from_dict(rule))


def _of_channel(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record of a channel without what earlier versions wrote besides."""
    for name, what in (("over_set", "a confidence set"), ("models", "a classifier")):
        if record.get(name):
            raise FieldError(
                f"field {name} is about {what}, for which this version knows no channels; release "
                'with the version that wrote it, or fit again with noise="swap"'
            )
    facts = record["channel"]
    if not isinstance(facts, Mapping):
        return record
    if facts.get("known"):
        raise FieldError(
            "field channel.known names columns that may be known, and this version knows no such "
            'channels; release with the version that wrote it, or fit again with noise="swap"'
        )
    kept = [_staying(each) for each in facts.get("kept", ())]
    return {**record, "channel": {**_staying(facts), "kept": kept}}


def _staying(facts: Any) -> Any:
    """Return facts without what is gone; rows that stay in their bins are unchanged now."""
    if not isinstance(facts, Mapping):
        return facts
    name = "share" if "share" in facts else "unchanged"
    stayed = facts.get("stayed")
    own = facts if stayed is None else {**facts, name: stayed}
    return {k: v for k, v in own.items() if k not in _GONE}


@cache
def _told(kind: type[Certificate]) -> dict[str, tuple[Any, bool]]:
    """Return the types of the fields that are written under their own names, and which must be."""
    hints = get_type_hints(kind)
    if kind is ChannelCertificate:
        hints["pairs"] = tuple[ChannelLoss, ...]
    return {
        each.name: (hints[each.name], each.default is MISSING)
        for each in fields(kind)
        if each.name not in _APART
    }


def _given(record: Mapping[str, Any], name: str) -> Any:
    if name not in record:
        raise FieldError(f"field {name} is missing")
    return record[name]
