"""How rows are released: each becomes its prototype, and then the typical row of the drawn one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sklearn_puffer._base import Array, IntArray, digest, task
from sklearn_puffer._microaggregator.certificate import PrototypeCertificate
from sklearn_puffer._microaggregator.drawn import Drawn
from sklearn_puffer._microaggregator.prototype_records import (
    read,
    read_drawn,
    written,
    written_drawn,
)
from sklearn_puffer._microaggregator.prototypes import Prototypes
from sklearn_puffer._noise import CheckedEntropy, IntegerRows
from sklearn_puffer._release import (
    Draw,
    Fields,
    KeyedRows,
    Mechanism,
    Moved,
    Released,
    TableRules,
    certificate_from_dict,
    column_of,
    read_column,
    written_column,
)
from sklearn_puffer._tables import Column, Finished, Name, Table, row_blocks

_UNTESTED = (
    'on_drift="raise" is for columns that noise releases, and rows become typical rows, whatever '
    'their distribution; compare shares of prototypes by assign(X), and pass on_drift="ignore".'
)


class Unseen(Moved):
    """Values that `fit` has not seen, of rows that became the nearest typical row all the same."""

    def sentence(self) -> str:
        """Return the warning."""
        worst = max(self.counts, key=lambda name: self.counts[name])
        return (
            f"{sum(self.counts.values()):,} values were not seen in fit, most of them in column "
            f"{str(worst)[:40]!r}; their rows became the nearest typical row: fit on rows that "
            "have them."
        )


@dataclass(frozen=True, eq=False)
class TypicalRows(Mechanism):
    """Releases typical rows.

    Attributes
    ----------
    prototypes : Prototypes
    channel : IntegerRows
        K(b|a), as shares of 2^62.
    drawn : Drawn or None
        How the columns of a released row are drawn, where not its typical row is released.
    """

    prototypes: Prototypes
    channel: IntegerRows
    drawn: Drawn | None = None

    kind: ClassVar[str | None] = "microaggregation"
    is_key_material: ClassVar[bool] = True
    untested: ClassVar[str] = _UNTESTED

    @property
    def released_columns(self) -> list[Column]:
        """The public columns, in the order of the table that was fitted."""
        return [column_of(name, values) for name, values in self.prototypes.rows.items()]

    def released(self, table: Table, rules: TableRules, draw: Draw) -> Released:
        """Return a table of typical rows, in the caller's own type, and what fit had not seen.

        Raises
        ------
        TypeError, ValueError
            If a column holds another kind of values than in `fit`, or an infinite number.
        """
        rows = self.prototypes.coordinates.read(table)
        with task("rows assigned"):
            codes = self.prototypes.assign(rows)
        finished = self._finished(table, codes, draw)
        passed = {
            name: Finished(table.original(name), passed=True)
            for name in rules.order
            if name not in finished
        }
        columns = {**finished, **passed}
        return (
            table.build({name: columns[name] for name in rules.order}),
            Unseen(rows.unseen(), len(codes)),
        )

    def _finished(self, table: Table, codes: IntArray, draw: Draw) -> dict[Name, Finished]:
        source = _Fresh(draw) if draw.keyed is None else _Keyed(draw.keyed, codes)
        sampler = self.channel.sampler()
        released = np.empty(len(codes), dtype=np.int64)
        bins: dict[Name, IntArray] = {}
        for block in row_blocks(len(codes)):
            words = source.of(block)
            released[block] = sampler.draw(codes[block], words.words(len(codes[block])))
            if self.drawn is not None:
                for name, column in self.drawn.draw(released[block], words).items():
                    bins.setdefault(name, np.empty(len(codes), dtype=np.int64))[block] = column
        if self.drawn is not None:
            return self.drawn.finished(table, bins)
        return self.prototypes.finished(table, released)

    def fingerprint(self, certificate: Any, *about: Any) -> str:
        """Return the digest of the typical rows, of the channel, and of what else counts."""
        told = [
            (name, values.kind, values.data, values.missing, values.levels, values.ordered)
            for name, values in self.prototypes.rows.items()
        ]
        channel = (self.channel.starts, self.channel.targets, self.channel.shares)
        drawn = None if self.drawn is None else _told(self.drawn)
        parts = (self.prototypes.coordinates, told, self.prototypes.sizes, channel, drawn)
        return digest("sklearn_puffer.microaggregation/1", parts, *about)

    def to_record(self) -> dict[str, Any]:
        """Return the fields of a release artifact."""
        record: dict[str, Any] = {
            "columns": [written_column(column) for column in self.released_columns],
            "prototypes": written(self.prototypes),
            "numerators": {
                name: getattr(self.channel, name).tolist()
                for name in ("starts", "targets", "shares")
            },
        }
        if self.drawn is not None:
            record["drawn"] = written_drawn(self.drawn)
        return record

    @classmethod
    def from_record(cls, record: Fields, columns: Sequence[Fields]) -> TypicalRows:
        """Return the mechanism whose fields were written."""
        for column in columns:
            read_column(column)
        prototypes = read(record.read("prototypes", dict), record.named("prototypes"))
        channel = record.inner("numerators")
        record.check(channel is not None, "numerators")
        assert channel is not None
        parts = [channel.whole(name) for name in ("starts", "targets", "shares")]
        try:
            rows = IntegerRows(*parts)
        except (TypeError, ValueError, IndexError):
            rows = None
        record.check(rows is not None and rows.n_cells == len(prototypes), "numerators")
        assert rows is not None
        drawn = None
        if record.has("drawn"):
            drawn = read_drawn(record.read("drawn", list), len(prototypes), record.named("drawn"))
        return cls(prototypes, rows, drawn)

    @classmethod
    def read_certificate(cls, record: Mapping[str, Any], *, awaited: bool) -> Any:
        """Return the certificate that ``to_dict`` wrote."""
        return certificate_from_dict(record, awaited=awaited, kind=PrototypeCertificate)


def _told(drawn: Drawn) -> Any:
    return [
        (name, values.kind, values.data, values.missing, values.levels, drawn.counts[name])
        for name, values in drawn.values.items()
    ]


class _Fresh:
    """Fresh bits for every row."""

    def __init__(self, draw: Draw) -> None:
        self._entropy = CheckedEntropy(draw.entropy(0))

    def of(self, rows: slice) -> Any:
        """Return the source of bits of some rows."""
        return self._entropy


class _Keyed:
    """The bits of each row, a function of the key, its id and its prototype."""

    def __init__(self, keyed: KeyedRows, codes: Array) -> None:
        self._keyed, self._codes = keyed, codes.astype(np.int64)

    def of(self, rows: slice) -> Any:
        """Return the source of bits of some rows."""
        return self._keyed.columns(rows, [self._codes[rows]], [self._codes[rows]])[0]
