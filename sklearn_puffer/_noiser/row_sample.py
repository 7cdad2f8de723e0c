"""The sample of the rows that is fitted: rows chosen by a digest of their public values.

All rows with the same public values are in it, or none: so what each of them tells of the secret
is told by all of its rows, and no secret has a part in which are chosen. A reader who computes the
digests himself learns which rows were fitted, and of them little more (`about_sample`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, listed
from sklearn_puffer._noiser.rows import DistinctRows, LazyRows, Rows
from sklearn_puffer._releases import RowSample
from sklearn_puffer._tables import (
    CHANGED,
    Faults,
    Missing,
    Name,
    Secret,
    Values,
    learn_secret,
    read_secret,
    row_digests,
    sample_rows,
    smallest,
)

Tally = dict[Any, int]


@dataclass(frozen=True, eq=False)
class Asked:
    """What a sample is asked of.

    Attributes
    ----------
    most : int
        Most distinct rows of the public columns in it.
    secrets, public : sequences of names
    given : mapping of Values, or None
        The sensitive columns, where they are not columns of the table.
    missing : {"error", "category", "propagate"}
    """

    most: int
    secrets: Sequence[Name]
    public: Sequence[Name]
    given: Mapping[Name, Values] | None
    missing: Missing

    def secret(self, rows: Rows, name: Name) -> Values:
        """Return the values of a secret."""
        return rows.values(name) if self.given is None else rows.kept(self.given[name])

    def tally(self, rows: Rows, secret: Secret) -> Tally:
        """Return how often each of its values occurs."""
        counts = zip(secret.labels, rows.tally(secret).tolist(), strict=True)
        return {label: count for label, count in counts if count}


def row_sample(rows: Rows, n_rows: int, asked: Asked) -> tuple[Rows, RowSample | None]:
    """Return the rows to be fitted, and what there is to say of them; nothing if these are all.

    Raises
    ------
    TypeError, ValueError
        If a column cannot be read, or a value of a secret has no row in the sample.
    """
    faults = Faults()
    secrets = faults.of(
        lambda name: learn_secret(name, asked.secret(rows, name), asked.missing), asked.secrets
    )
    if isinstance(rows, LazyRows):
        faults.refuse()
        whole = [asked.tally(rows, secret) for secret in secrets]
        part, n_distinct = _of_engine(rows, n_rows, asked)
    else:
        columns = faults.of(rows.values, asked.public)
        faults.refuse()
        whole = [asked.tally(rows, secret) for secret in secrets]
        part, n_distinct = _in_memory(rows, dict(zip(asked.public, columns, strict=True)), asked)
    shares = _shares(part, whole, asked)
    n_whole = sum(whole[0].values())
    if part.total == n_whole:
        return (part if isinstance(rows, LazyRows) else rows), None
    return part, RowSample(part.total, n_whole, n_distinct, min(shares), max(shares))


def _in_memory(rows: Rows, columns: Mapping[Name, Values], asked: Asked) -> tuple[Rows, int]:
    digests: Array = row_digests(columns)
    kept = smallest(digests, asked.most)
    return rows.among(kept), len(np.unique(digests[kept]))


def _of_engine(rows: LazyRows, n_rows: int, asked: Asked) -> tuple[Rows, int]:
    n_distinct = sample_rows(rows.table, asked.secrets, asked.public, asked.most, n_rows)
    return DistinctRows(rows.table, [*asked.secrets, *asked.public]), n_distinct


def _shares(part: Rows, whole: Sequence[Tally], asked: Asked) -> list[float]:
    """Return the share of the rows with each secret that are in the sample, all of them positive.

    Raises
    ------
    ValueError
        If some secret is in no row of it: it would not be protected.
    """
    shares = []
    for name, counts in zip(asked.secrets, whole, strict=True):
        own = asked.tally(part, read_secret(name, asked.secret(part, name), asked.missing))
        _check_none_lost(name, [each for each in counts if each not in own], counts, asked)
        if any(count > counts.get(label, 0) for label, count in own.items()):
            raise ValueError(CHANGED)
        shares += [own[label] / count for label, count in counts.items()]
    return shares


def _check_none_lost(name: Name, lost: Sequence[Any], counts: Tally, asked: Asked) -> None:
    if lost:
        raise ValueError(
            f"max_rows={asked.most}: none of the {sum(counts[each] for each in lost)} row(s) with "
            f"{listed(lost, 10)} in column {name!r} are in the sample, so that nothing would be "
            "known of these secrets; raise max_rows, or merge rare values of the column."
        )
