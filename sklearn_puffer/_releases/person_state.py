"""What a ledger of persons counts: which releases a person has had, and what they leave.

A *kind* of release is its scales. A *history* is how many releases of each kind a person has had:
few differ, however many persons there are, so that the rule judges each once and exactly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from sklearn_puffer._base import check_choice
from sklearn_puffer._releases.composition import Axis, Rule, check_scale
from sklearn_puffer._releases.ledger_state import checksum_of
from sklearn_puffer._releases.written_rules import rule_from_dict

SCHEMA = "sklearn_puffer.persons/1"
CHANGES = ["refuse", "count"]

Counts = tuple[tuple[int, int], ...]
"""Of a history: (kind, how many releases), ascending."""


@dataclass(frozen=True)
class PersonLeft:
    """What may still be released of one person.

    Attributes
    ----------
    releases : int or float
        How many more releases of all columns at the noiser's own scales; infinite without end.
    by_axis : dict
        What is left on each axis, rounded down, as in `Ledger.left`.
    released : int
        How many releases are on record; the same noise again is none.
    """

    releases: float
    by_axis: Mapping[Axis, float]
    released: int


@dataclass(frozen=True)
class Call:
    """A call to `transform` that is on record.

    Attributes
    ----------
    dataset : str
    release : int
    note : str
    scales : dict
    rows : int
        Of the table.
    new : int
        Rows that were one more release of their person.
    repeated : int
        Rows whose noise was on record: they came out as before, and spent nothing.
    withheld : int
        Rows that were not released.
    """

    dataset: str
    release: int
    note: str
    scales: Mapping[Axis, float]
    rows: int = 0
    new: int = 0
    repeated: int = 0
    withheld: int = 0


@dataclass(frozen=True)
class About:
    """What a ledger of persons is about: the same from its first day on, but for the kind of ids.

    Attributes
    ----------
    fingerprint, rule, scales
        Of the noiser.
    changes : {"refuse", "count"}
        What becomes of rows that changed.
    salt, check : str
        What tells its marks from those of other ledgers, and other keys from its own.
    ids : {"", "integer", "string"}
        What ids are, once one was seen.
    """

    fingerprint: str
    rule: Rule
    scales: Mapping[Axis, float]
    changes: str
    salt: str
    check: str
    ids: str = ""

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return what `to_text` wrote; any error is that of a text that it did not write."""
        record = json.loads(text)
        if (schema := record["schema"]) != SCHEMA:
            raise UnknownSchemaError(str(schema))
        if record.pop("checksum") != checksum_of(record):
            raise ValueError("its checksum does not fit")
        rule, scales = rule_from_dict(record["rule"]), scales_from(record["scales"])
        check_choice(record["changes"], "changes", CHANGES)
        own = (record[name] for name in ("changes", "salt", "check", "ids"))
        return cls(record["fingerprint"], rule, scales, *own)

    def to_text(self) -> str:
        """Return all of it as JSON, with its checksum."""
        record = {
            "schema": SCHEMA,
            "fingerprint": self.fingerprint,
            "rule": self.rule.to_dict(),
            "scales": scales_to(self.scales),
            "changes": self.changes,
            "salt": self.salt,
            "check": self.check,
            "ids": self.ids,
        }
        return json.dumps(record | {"checksum": checksum_of(record)})

    @property
    def whole(self) -> bool:
        """Whether another release of a person must be of the same row."""
        return self.changes == "refuse"


class UnknownSchemaError(Exception):
    """Raised for a ledger that another version wrote."""


def scales_to(scales: Mapping[Axis, float]) -> list[list[Any]]:
    """Return scales as plain values for JSON."""
    return [[axis, scale] for axis, scale in scales.items()]


def scales_from(pairs: Any) -> dict[Axis, float]:
    """Return scales as `scales_to` wrote them."""
    return {axis: check_scale(scale, axis, free=True) for axis, scale in pairs}


class Judge:
    """What histories leave, and which may be followed by a release of a kind.

    Parameters
    ----------
    rule : Rule
    kinds : sequence of dict of axis to float
        The scales of each kind.
    """

    def __init__(self, rule: Rule, kinds: Sequence[Mapping[Axis, float]]) -> None:
        self._rule, self._kinds = rule, kinds

    def allows(self, counts: Counts, kind: int) -> bool:
        """Return whether a release of a kind may follow."""
        return self._rule.meter(self._spent(counts)).allows(_once(self._kinds[kind]))

    def left(self, counts: Counts, scales: Mapping[Axis, float]) -> PersonLeft:
        """Return what a history leaves, in releases at these scales, too."""
        meter = self._rule.meter(self._spent(counts))
        return PersonLeft(meter.times(_once(scales)), meter.left(), sum(n for _, n in counts))

    def _spent(self, counts: Counts) -> dict[Axis, dict[float, int]]:
        spent: dict[Axis, dict[float, int]] = {}
        for kind, count in counts:
            for axis, scale in self._kinds[kind].items():
                own = spent.setdefault(axis, {})
                own[scale] = own.get(scale, 0) + count
        return spent


def followed(counts: Counts, kind: int) -> Counts:
    """Return a history with one more release of a kind.

    >>> followed(((0, 2),), 1), followed(((0, 2),), 0)
    (((0, 2), (1, 1)), ((0, 3),))
    """
    some = dict(counts)
    some[kind] = some.get(kind, 0) + 1
    return tuple(sorted(some.items()))


def _once(scales: Mapping[Axis, float]) -> dict[Axis, dict[float, int]]:
    return {axis: {scale: 1} for axis, scale in scales.items()}
