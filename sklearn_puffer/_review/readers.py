"""Readers of a release: what each of them knows, and what he claims of each row.

They know more and more: released rows of others; the list of rows with their secrets, with what the
mechanism publishes of itself; raw rows of others, of which a model is learnt; a label of each
person; or they are in the table themselves and find their own row with somebody else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray, counted, shown
from sklearn_puffer._review.attack import (
    RowSplit,
    _AsTheyCome,
    beside,
    boosted,
    looks,
    trained,
    with_copies,
)
from sklearn_puffer._review.exact_tests import Budget, Reader
from sklearn_puffer._review.measured import Secrets, is_words
from sklearn_puffer._tables import Name, first_values, frame_table, row_digests

_LEAST = 1e-12
_FEW = 0.9  # released rows that are typical rows, below which what is published is no use
_MOST_LABELS, _BINS = 4, 4

FRESH = "fresh models"
LIST = "holds the list"
MODEL = "better model"
INSIDER = "insider"


@dataclass(frozen=True, eq=False)
class Release:
    """Rows before and after a release, and what is public of it.

    Attributes
    ----------
    estimator : TableRelease
        As it was when the tested rows were released.
    raw, released : DataFrame
        The rows, as they are and as they are released.
    before, after : DataFrame
        The same as attackers see them.
    parts : RowSplit
    budget : Budget
    exchanged : bool
        Whether rows are exchanged as a whole table, of which the tested rows are one.
    """

    estimator: Any
    raw: Any
    released: Any
    before: Any
    after: Any
    parts: RowSplit
    budget: Budget
    exchanged: bool

    @property
    def judged(self) -> Array:
        """The rows that events are chosen by, and judged on."""
        return np.concatenate([self.parts.choose, self.parts.test])


def fresh(
    release: Release, secrets: Secrets, codes: Array, attackers: Mapping[str, Any], rows: Any = None
) -> Reader:
    """Return who learns from released rows of people whose secrets are known."""
    seen = release.after if rows is None else rows
    copies = seen if release.budget.alpha is not None else with_copies(seen)
    claims = {}
    for name, attacker in counted(list(attackers.items()), "attackers"):
        takes_copies = isinstance(attacker, _AsTheyCome) or not hasattr(attacker, "steps")
        own = copies if takes_copies else seen
        claims[name] = learnt(attacker, own, own, release, secrets, codes)
    knows = "released rows of people whose secrets are known, and how often rows occur"
    return Reader(FRESH, knows, claims, release.budget, equal_rows(seen))


def learnt(
    attacker: Any, rows: Any, seen: Any, release: Release, secrets: Secrets, codes: Array
) -> FloatArray:
    """Return what a model that learns from some rows claims of what it sees, in log chances."""
    asked = np.flatnonzero([label is not None for label in secrets.labels])
    train = release.parts.train[np.isin(codes[release.parts.train], asked)]
    return claimed(
        trained(attacker, rows.iloc[train], codes[train]), seen, release.judged, len(secrets.labels)
    )


def claimed(model: Any, rows: Any, judged: Array, n_labels: int) -> FloatArray:
    """Return a score of each secret for the judged rows, NaN elsewhere."""
    seen = looks(model, rows.iloc[judged])
    if hasattr(model, "predict_proba"):
        seen = np.log(np.maximum(seen, _LEAST))
    claims = np.full((len(rows), n_labels), np.nan)
    claims[np.ix_(judged, np.asarray(model.classes_, dtype=np.intp))] = seen
    return claims


def equal_rows(rows: Any) -> Array:
    """Return a number of each row, the same for equal ones."""
    by = rows.groupby(list(rows.columns), dropna=False, observed=True, sort=False)
    return np.asarray(by.ngroup())


# ------------------------------------------------------------------- what the mechanism publishes


def covered(
    release: Release, secrets: Secrets, codes: Array, attackers: Mapping[str, Any]
) -> list[Reader]:
    """Return the readers whom every guarantee covers, and the insider of a swap."""
    readers = [fresh(release, secrets, codes, attackers)]
    model = _model_of_raw_rows(release, secrets, codes)
    if release.exchanged:
        return [*readers, *_of_exchanged(release, secrets, codes, model)]
    typical = _channel_and_counts(release, secrets)
    if typical is not None:
        knows = "the fitted table with its secrets, its counts, and the channel"
        cells = equal_rows(release.after)
        readers.append(Reader(LIST, knows, {"Bayes": typical}, release.budget, cells))
    if model is not None:
        knows = "raw rows of other people with their secrets, and what a model learns of them"
        claims = {"boosted": model}
        readers.append(Reader(MODEL, knows, claims, release.budget, equal_rows(release.after)))
    return readers


def _model_of_raw_rows(release: Release, secrets: Secrets, codes: Array) -> FloatArray | None:
    """Return what a model that learnt from raw rows claims of released ones, if it reads them."""
    names = list(release.after.columns)
    raw, seen = release.before[names], release.after
    if any(is_words(raw[name]) != is_words(seen[name]) for name in names):
        return None  # words that come out as codes
    return learnt(boosted(60), raw, seen, release, secrets, codes)


def _of_exchanged(
    release: Release, secrets: Secrets, codes: Array, model: FloatArray | None
) -> list[Reader]:
    """Return the readers of rows that people have exchanged.

    The first has the list of rows with their secrets: he looks each released row up, and knows of
    what secret its owner is. The second has a model instead. The third is in the table.
    """
    owners, alone, own = _looked_up(release, codes, len(secrets.labels))
    flows = _published_flows(release.estimator, secrets)
    cells = np.where(owners.max(axis=1) == 1.0, owners.argmax(axis=1), -1)
    held = np.log(owners @ flows + _LEAST)
    ways = {"published flows": held}
    better = []
    if model is not None:
        ways["flows and a model"] = model
        chances = np.exp(model - np.nanmax(model, axis=1, keepdims=True, initial=-math.inf))
        chances = chances / np.nansum(chances, axis=1, keepdims=True)
        claims = {"boosted, and flows": np.log(np.nan_to_num(chances) @ flows + _LEAST)}
        claims["boosted, and flows"][release.parts.train] = np.nan
        knows = "a model of raw rows of other people, and the published flows"
        better = [Reader(MODEL, knows, claims, release.budget, equal_rows(release.after))]
    knows = "every row of the table with its secret, and the published flows, not whose is which"
    listed = Reader(LIST, knows, ways, release.budget, cells)
    facts = getattr(release.estimator.certificate_, "facts", None)
    insiders = getattr(facts, "insiders", None)
    among = alone & ~own & (cells >= 0)
    knows = "his own row, which he finds with somebody else, and the shares of secrets"
    budget = None if insiders is None else Budget(insiders)
    claims = {"own row": np.log(owners + _LEAST)}
    return [listed, *better, Reader(INSIDER, knows, claims, budget, cells, among, cells)]


def _looked_up(release: Release, codes: Array, n_labels: int) -> tuple[FloatArray, Array, Array]:
    """Return for each released row the shares of secrets of its owners in the list.

    And whether one row alone of the list is equal to it, and whether that is the holder's own.
    """
    names = list(release.after.columns)
    before, after = (_digests(rows, names) for rows in (release.raw, release.released))
    tested = np.zeros(len(codes), dtype=np.int64)
    tested[release.parts.test] = 1
    _, both = np.unique(
        np.stack([np.append(before, after), np.tile(tested, 2)]), axis=1, return_inverse=True
    )
    listed, seen = both.ravel()[: len(before)], both.ravel()[len(before) :]
    counts = np.zeros((int(both.max()) + 1, n_labels))
    there = codes >= 0
    np.add.at(counts, (listed[there], codes[there]), 1.0)
    total = counts.sum(axis=1)
    shares = counts / np.maximum(total, 1.0)[:, None]
    return shares[seen], total[seen] == 1.0, before == after


def _digests(rows: Any, names: Sequence[Name]) -> Array:
    table = frame_table(rows)
    return np.asarray(row_digests({name: first_values(table, name) for name in names}))


def _published_flows(estimator: Any, secrets: Secrets) -> FloatArray:
    """Return the chance of each secret of a holder, by that of the row's owner: (owner, holder)."""
    flows = getattr(estimator, "flows_", None)
    n = len(secrets.labels)
    if flows is None or len(flows) != n:
        return np.eye(n)
    sizes = np.bincount(secrets.codes[secrets.codes >= 0], minlength=n)
    people = np.asarray(flows, dtype=float) * sizes[:, None]  # (holder, owner)
    return np.asarray((people / np.maximum(people.sum(axis=0), _LEAST)).T)


def _channel_and_counts(release: Release, secrets: Secrets) -> FloatArray | None:
    """Return the posterior of each secret given a typical row, where channel and counts are had."""
    estimator = release.estimator
    channel: Any = getattr(estimator, "channel_", None)
    if channel is None or isinstance(channel, dict):  # one for each known value
        return None
    prototypes, counts = estimator.prototypes_, estimator.counts_
    if counts.columns.nlevels > 1:
        counts = counts[secrets.name]
    names = [name for name in release.after.columns if name in prototypes.columns]
    known = {d: k for k, d in enumerate(_digests(prototypes, names).tolist())}
    cells = np.array([known.get(d, -1) for d in _digests(release.released, names).tolist()])
    if (cells >= 0).mean() < _FEW:
        return None
    masses = np.asarray(counts, dtype=float)
    with np.errstate(divide="ignore"):
        posterior = np.log((channel.T @ masses) / masses.sum(axis=0) + _LEAST)
    claims = np.full((len(cells), len(secrets.labels)), np.nan)
    for place, label in enumerate(counts.columns):
        if label in secrets.labels:
            code = list(secrets.labels).index(label)
            claims[:, code] = np.where(cells >= 0, posterior[cells, place], np.nan)
    claims[release.parts.train] = np.nan
    return claims


# ------------------------------------------------------------------------------- further readers


def joining(
    release: Release,
    secrets: Secrets,
    codes: Array,
    label: tuple[Name, Array],
    budget: Budget | None,
) -> Iterator[Reader]:
    """Yield who knows a label of each person, within each of its most frequent values."""
    name, values = label
    kinds = label_kinds(values)
    seen = release.after.copy()
    seen[beside(list(seen.columns), f"{name} as it is")] = kinds
    claims = {"boosted": learnt(boosted(40), seen, seen, release, secrets, codes)}
    counts = np.bincount(kinds[kinds >= 0])  # a quarter of tied numbers may be empty
    often = [kind for kind in np.argsort(-counts, kind="stable").tolist() if counts[kind]]
    for kind in often[:_MOST_LABELS]:
        first = values[np.flatnonzero(kinds == kind)[0]]
        which = shown(first) if len(np.unique(values[kinds == kind])) == 1 else f"near {first:.4g}"
        yield Reader(
            f"joins {shown(name)}: {which}",
            f"the {shown(name)} of each person, and released rows of others with theirs",
            claims,
            budget,
            equal_rows(release.after),
            kinds == kind,
        )


def label_kinds(values: Array) -> Array:
    """Return numbers of the values of a label; many numbers are parted at their quartiles."""
    there = np.array([value == value and value is not None for value in values], dtype=bool)
    kinds = np.full(len(values), -1, dtype=np.intp)
    atoms, kinds[there] = np.unique(values[there], return_inverse=True)
    if values.dtype.kind in "iuf" and len(atoms) > _BINS**2:
        ends = np.quantile(values[there], np.linspace(0.0, 1.0, _BINS + 1)[1:-1])
        kinds[there] = np.searchsorted(ends, values[there])
    return kinds


def averaging(
    release: Release,
    secrets: Secrets,
    codes: Array,
    averages: Any,
    repeats: int,
    attackers: Mapping[str, Any],
) -> Reader:
    """Return who sees the average of several fresh releases of the same rows."""
    first = dict(list(attackers.items())[:1])
    reader = fresh(release, secrets, codes, first, averages)
    return Reader(f"average of {repeats} releases", "further releases of each row", reader.claims)


def averaged(frames: Sequence[Any]) -> Any:
    """Return the means of numbers, and the most frequent of words."""
    means = frames[0].copy()
    for name in means.columns:
        columns, first = [frame[name] for frame in frames], frames[0][name]
        if not is_words(first):
            means[name] = np.mean([np.asarray(values, dtype=float) for values in columns], axis=0)
            continue
        codes = np.stack([np.asarray(values.cat.codes) for values in columns])
        often = np.stack([(codes == kind).sum(axis=0) for kind in codes])
        chosen = np.take_along_axis(codes, often.argmax(axis=0)[None], axis=0)[0]
        means[name] = type(first.array).from_codes(chosen, dtype=first.dtype)
    return means
