"""What a ledger of persons counts: which releases a person has had, and what they leave.

A *kind* of release is its scales. A *history* is how many releases of each kind a person has had:
few differ, however many persons there are, so that the rule judges each once and exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sklearn_puffer._base import check_choice
from sklearn_puffer._releases.composition import Axis, Rule
from sklearn_puffer._releases.ledger_state import scales_from, scales_to
from sklearn_puffer._releases.store import SCHEMAS
from sklearn_puffer._releases.written_rules import rule_from_dict

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
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return what `to_record` wrote; any error is that of a record that it did not write."""
        rule, scales = rule_from_dict(record["rule"]), scales_from(record["scales"])
        check_choice(record["changes"], "changes", CHANGES)
        own = (record[name] for name in ("changes", "salt", "check", "ids"))
        return cls(record["fingerprint"], rule, scales, *own)

    def to_record(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "schema": SCHEMAS["PersonLedger"],
            "fingerprint": self.fingerprint,
            "rule": self.rule.to_dict(),
            "scales": scales_to(self.scales),
            "changes": self.changes,
            "salt": self.salt,
            "check": self.check,
            "ids": self.ids,
        }

    @property
    def whole(self) -> bool:
        """Whether another release of a person must be of the same row."""
        return self.changes == "refuse"


def followed(counts: Counts, kind: int) -> Counts:
    """Return a history with one more release of a kind.

    >>> followed(((0, 2),), 1), followed(((0, 2),), 0)
    (((0, 2), (1, 1)), ((0, 3),))
    """
    some = dict(counts)
    some[kind] = some.get(kind, 0) + 1
    return tuple(sorted(some.items()))
