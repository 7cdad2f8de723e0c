"""Adversaries: the distributions that they know of the columns of a table.

They are counted from the rows, given, fitted, or predicted by classifiers. How much a classifier
knows is measured here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._certificates import ModelFacts
from sklearn_puffer._codes import (
    Coded,
    Column,
    Reader,
    Secret,
    read_secret,
    standard_deviation,
    tally,
)
from sklearn_puffer._engines import CHANGED
from sklearn_puffer._fits import (
    MOST_WEIGHT,
    Observed,
    Quality,
    cell_masses,
    counted_losses,
    cross_fitted,
    folds_of,
    is_better,
    mean_loss,
    numbered,
    predicted,
    quality_of,
    spread_masses,
    whole_masses,
)
from sklearn_puffer._noise import Mixing, Unchanged
from sklearn_puffer._noiser.priors import (
    Adversary,
    empirical_adversary,
    fitted_adversary,
    given_adversary,
    weighed_adversary,
)
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._noiser.settings import Model
from sklearn_puffer._noiser.utility import RawDistribution
from sklearn_puffer._release import Margin
from sklearn_puffer._rows import LazyRows
from sklearn_puffer._tables import Features, Name
from sklearn_puffer._words import listed, quoted, shown
from sklearn_puffer.fits import ClassifierFit

_MOST_COMPARED = 1 << 16  # rows, beyond which the boosted default is not fitted
_MOST_LEVELS = 255  # of a category in the boosted default; codes of more are numbers to it
_FOLDS = 5
_LEAST_ROWS = 100  # of a table, for a warning about rows that occur once
_MOST_SINGLE = 0.5


def model_distributions(read: TableRead) -> dict[str, tuple[Adversary, list[ModelFacts]]]:
    """Return the distributions of the classifiers, and facts about them, by their argument.

    Raises
    ------
    ValueError
        If a classifier knows too little: it names the argument, the sensitive column and the
        secret.
    """
    models = read.settings.knowledge.models
    if not models:
        return {}
    by_column = {argument: _by_column(model, argument, read) for argument, model in models.items()}
    rows, found = _ClassifierRows(read), {}
    for argument, fits in by_column.items():
        asked = {name: _asked(argument, name, fit, rows) for name, fit in fits.items()}
        masses = {name: of_rows for name, (of_rows, _) in asked.items()}
        columns, readers = read.columns, read.readers
        adversary = weighed_adversary(read.secrets, columns, readers, read.groups, masses)
        found[argument] = adversary, [facts for _, facts in asked.values()]
    return found


def _by_column(model: Model, argument: str, read: TableRead) -> dict[Name, ClassifierFit]:
    """Return the classifier of each sensitive column."""
    names = [secret.name for secret in read.secrets]
    if isinstance(model, ClassifierFit):
        if model.is_prefit and len(names) > 1:
            raise ValueError(
                f"{argument} is one fitted classifier, and several columns are sensitive "
                f"({listed(names)}); give one for each, {{column: classifier}}."
            )
        return dict.fromkeys(names, model)
    strange = [name for name in model if name not in names]
    absent = [name for name in names if name not in model]
    if strange or absent:
        wrong = f"names column {quoted(strange[0])}, which is not sensitive" if strange else ""
        raise ValueError(
            f"{argument} {wrong or f'has no classifier for column {quoted(absent[0])}'}; give one "
            f"for each sensitive column ({listed(names)})."
        )
    return dict(model)


class _ClassifierRows:
    """The rows as classifiers see them, with what does not depend on the classifier."""

    def __init__(self, read: TableRead) -> None:
        rows = read.rows
        if rows.total > MOST_WEIGHT:
            raise ValueError(
                f"sample_weight counts {rows.total} rows, more than the {MOST_WEIGHT} for which "
                "classifier priors are computed; divide it by a common factor."
            )
        self.read = read
        self.weights = np.ones(rows.n_rows, np.int64) if rows.weights is None else rows.weights
        self.features = Features.of({name: rows.values(name) for name in read.public})
        self.observed = {
            secret.name: Observed(
                self.features,
                secret.codes(rows.n_rows),
                secret.labels,
                self.weights,
                repr(secret.name),
            )
            for secret in read.secrets
        }

    @cached_property
    def cells(self) -> Array:
        """The number of the released cell of each row."""
        table = np.empty((len(self.weights), 2 * len(self.read.readers)), dtype=np.intp)
        for k, reader in enumerate(self.read.readers):
            gone = reader.missing(slice(None))
            reader.codes(slice(None), table[:, 2 * k])
            table[:, 2 * k + 1] = 0 if gone is None else gone
        return numbered(table, np.lexsort(table.T[::-1]))

    @cached_property
    def boosted(self) -> dict[Name, Quality | None]:
        """The quality of scikit-learn's boosted default, cross-fitted; None of many rows."""
        return {name: self._fit_boosted(observed) for name, observed in self.observed.items()}

    def _fit_boosted(self, observed: Observed) -> Quality | None:
        if int(self.weights.sum()) > _MOST_COMPARED:
            return None
        coded = replace(observed, rows=self.features.without_many_levels(_MOST_LEVELS))
        from sklearn.ensemble import HistGradientBoostingClassifier  # heavy, and few ask for it

        boosted = HistGradientBoostingClassifier(categorical_features="from_dtype")
        try:
            merged, folds = folds_of(_FOLDS, coded)
            probabilities = cross_fitted(boosted, merged, folds)
        except ValueError:  # too few rows of a secret for the folds
            return None
        return quality_of(probabilities, merged)


def _asked(
    argument: str, name: Name, fit: ClassifierFit, rows: _ClassifierRows
) -> tuple[Array, ModelFacts]:
    """Return the masses of the rows for each secret by a classifier, and facts about it.

    The mass of a row is its probability times its weight, in units of 2^-32. Of equal rows the
    first has the mass of all.
    """
    observed = rows.observed[name]
    try:
        if fit.is_prefit:
            merged, n_models = observed.merged, 1
            probabilities = predicted(fit.estimator, merged)
        else:
            merged, folds = folds_of(fit.cv, observed)
            probabilities, n_models = cross_fitted(fit.estimator, merged, folds), len(folds)
    except ValueError as error:
        raise ValueError(f"{argument}: {error}") from error
    if fit.smoothing > 0.0:
        probabilities = (1.0 - fit.smoothing) * probabilities + fit.smoothing * merged.shares
    nowhere = np.flatnonzero(~(probabilities > 0.0).any(axis=0))
    if nowhere.size:
        raise ValueError(
            f"{argument}: {fit.name} gives secret {quoted(observed.labels[nowhere[0]])} of column "
            f"{observed.name} probability zero for every row, so that it has no distribution; take "
            "a classifier that knows it, or mix in its share, fits.ClassifierFit(..., "
            "smoothing=0.01)."
        )
    masses = spread_masses(whole_masses(probabilities, merged.weights), merged, observed)
    cells, boosted, weights = rows.cells, rows.boosted[name], observed.merged.weights
    n_cells = int(cells.max()) + 1
    quality, counting = quality_of(probabilities, merged), counted_losses(observed, cells)
    others = None if rows.read.settings.knowledge.counts else counting
    return masses, ModelFacts(
        argument=argument,
        sensitive=name,
        model=shown(fit.name),
        way=fit.way,
        smoothing=fit.smoothing,
        n_models=n_models,
        log_loss=quality.log_loss,
        constant_log_loss=quality.constant_log_loss,
        auc=quality.auc,
        boosted_log_loss=None if boosted is None else boosted.log_loss,
        boosted_auc=None if boosted is None else boosted.auc,
        counting_log_loss=mean_loss(counting, weights),
        weak=_weak(quality, boosted, others, weights),
        n_cells=n_cells,
        # cells for which some secret has probability 0
        n_certain=int((cell_masses(masses, cells, n_cells) == 0).any(axis=0).sum()),
    )


def _weak(
    quality: Quality, boosted: Quality | None, counting: FloatArray | None, weights: Array
) -> str:
    """Return who knows more than the model, or how else it is weak; "" if it is not.

    ``counting`` is None where the counted distribution is an adversary anyway. An overconfident
    model may have a large log loss and still know more than others.
    """
    if boosted is not None and boosted.knows_more(quality, weights):
        return "boosting"
    if is_better(quality.constant_log_loss, quality.losses, weights):
        return "overconfident" if quality.tells_apart else "constant"
    if counting is not None and is_better(counting, quality.losses, weights):
        return "counting"
    knows = quality.tells_apart or is_better(quality.losses, quality.constant_log_loss, weights)
    return "" if knows else "constant"


@dataclass(frozen=True, eq=False)
class TablePriors:
    """The priors of all adversaries of a table, and the distribution of each column."""

    # the distributions counted from the rows; of single columns where the prior is given
    counted: Adversary
    adversaries: list[Adversary]  # all of them, the fitted one first
    facts: tuple[ModelFacts, ...]  # about the classifiers among them
    # standard deviation of each column before binning, 1 for an unordered one that varies; shape
    # (n_columns,)
    spreads: FloatArray
    raw: list[RawDistribution]  # of the values of each column before binning
    # what each unordered column is redrawn from: the shares of its values among all rows
    mixings: tuple[Mixing | None, ...]
    margins: list[Margin]  # the distribution of each column, to compare new rows with


def table_priors(read: TableRead) -> TablePriors:
    """Return the priors of the adversaries of a table."""
    knowledge, total, columns = read.settings.knowledge, read.rows.total, read.columns
    priors_of = knowledge.priors
    gaps = {k for k, reader in enumerate(read.readers) if reader.propagates}
    distributions_of = {
        name: given_adversary(prior, name, read.labels, read.groups, columns, gaps)
        for name, prior in priors_of.items()
        if name not in knowledge.models and not isinstance(prior, str)
    }
    models = model_distributions(read)
    joint = any(isinstance(prior, str) for prior in priors_of.values())
    counted = counted_adversary(read, read.groups if joint else [[k] for k in range(len(columns))])
    of_secrets = counted[read.secrets[0].name]
    seen = [(c, *_values_seen(c, k, of_secrets)) for k, c in enumerate(columns)]
    kept = {k for members in read.known for k in members}  # released unchanged
    spreads = np.array([_spread(*of) for of in seen])
    distributions_of |= {name: adversary for name, (adversary, _) in models.items()}
    if knowledge.fit is not None:
        distributions_of["prior"] = fitted_adversary(counted, knowledge.fit, spreads, columns)
    return TablePriors(
        counted=counted,
        adversaries=[distributions_of.get(name, counted) for name in priors_of],
        facts=tuple(fact for _, facts in models.values() for fact in facts),
        spreads=spreads,
        raw=[
            RawDistribution.of(values, counts, total, reader.values)
            for (_, values, counts), reader in zip(seen, read.readers, strict=True)
        ],
        mixings=tuple(
            Unchanged.of_values(of[0].atoms.tolist()) if k in kept else _mixing(*of)
            for k, of in enumerate(seen)
        ),
        margins=[Margin.of(*of, total) for of in seen],
    )


def _mixing(column: Column, values: FloatArray, counts: Array) -> Mixing | None:
    """Return what an unordered column is redrawn from; declared values without rows count once."""
    if not column.unordered:
        return None
    totals = np.bincount(np.searchsorted(column.atoms, values), counts, len(column.atoms))
    return Mixing.of_counts(column.atoms.tolist(), np.rint(totals).astype(np.int64).tolist())


def _values_seen(
    column: Column, position: int, distributions_of: Mapping[Any, Any]
) -> tuple[FloatArray, Array]:
    """Return the values of a column before binning, in any order, and their counts."""
    if column.raw is not None:
        return column.raw
    distributions = [
        distribution.marginal([members.index(position)])
        for distributions in distributions_of.values()
        for members, distribution in distributions.items()
        if position in members
    ]
    values = np.concatenate([distribution.atoms for distribution in distributions])
    return values, np.concatenate([distribution.counts for distribution in distributions])


def _spread(column: Column, values: FloatArray, counts: Array) -> float:
    """Return the standard deviation of a column; 1 for an unordered one that varies."""
    if column.unordered:
        return float(len(np.unique(values[counts > 0])) > 1)
    return standard_deviation(values, counts) if column.spread is None else column.spread


def counted_adversary(read: TableRead, groups: Sequence[Sequence[int]]) -> Adversary:
    """Return the distributions of groups of columns, counted from a table in memory or lazy."""
    rows = read.rows
    if not isinstance(rows, LazyRows):
        return read.counted(groups)
    adversary: Adversary = {}
    for secret in read.secrets:
        distributions = adversary[secret.name] = {label: {} for label in secret.labels}
        for group in groups:
            for label, of_secret in _of_group(read, rows, secret, group).items():
                moved = {
                    tuple(group[k] for k in members): distribution
                    for members, distribution in of_secret.items()
                }
                distributions[label].update(moved)
    return adversary


def _of_group(
    read: TableRead, rows: LazyRows, secret: Secret, group: Sequence[int]
) -> dict[Any, Any]:
    """Return the distribution of a group of columns given each secret, from grouped rows."""
    columns = [read.columns[k] for k in group]
    [of_secret, *of_columns] = rows.table.cells(secret.name, columns)
    counts = of_secret.counts
    assert counts is not None
    try:
        now = read_secret(secret.name, of_secret, read.settings.columns.missing)
        readers = [
            Reader(read.columns[k], values, missing=read.specs[k].missing)
            for k, values in zip(group, of_columns, strict=True)
        ]
        same = (int(counts.sum()), now.labels) == (rows.total, secret.labels)
        same = same and np.array_equal(rows.tally(secret), tally(now.coded, len(counts), counts))
        same = same and all(
            _has_counts(read.readers[k], reader, counts)
            for k, reader in zip(group, readers, strict=True)
        )
    except ValueError:  # a value that was not there when the values were fetched
        same = False
    if not same:
        raise ValueError(CHANGED)
    everything = [list(range(len(group)))]
    return empirical_adversary([now], columns, readers, everything, len(counts), counts)[now.name]


def _has_counts(before: Reader, now: Reader, counts: Array) -> bool:
    """Return whether the values of grouped rows have the counts that were fetched before."""
    size, weights = len(now.column.atoms), before.values.counts
    seen = tally(Coded(before, size), len(before.values), weights)
    return np.array_equal(seen, tally(Coded(now, size), len(counts), counts))


def about_rows(read: TableRead, priors: TablePriors) -> list[str]:
    """Return the warnings of weak classifiers, and of wide tables whose rows mostly occur once."""
    settings, found = read.settings, []
    said = [facts.warning() for facts in priors.facts if facts.weak][:1]
    covered = settings.knowledge.confidence is not None or not settings.knowledge.is_counted
    if covered or read.rows.total < _LEAST_ROWS:
        return said
    of_secrets = list(next(iter(priors.counted.values())).values())
    for group in (group for group in read.groups if len(group) > 1):
        alone = sum(
            int((distribution.counts == 1).sum())
            for distributions in of_secrets
            for members, distribution in distributions.items()
            if set(members) <= set(group)
        )
        found.append((alone / read.rows.total, [read.columns[k].name for k in group]))
    share, names = max(found, key=lambda group: (group[0], len(group[1])), default=(0.0, []))
    once = [single_rows_sentence(names, share, read.rows.total)] if share > _MOST_SINGLE else []
    return [*said, *once]


def single_rows_sentence(names: Sequence[Name], share: float, n_rows: int) -> str:
    """Return the warning about a counted distribution that is the list of rows."""
    return (
        f"{share:.0%} of the {n_rows} rows of {len(names)} columns occur once given their secret: "
        "the counted prior is this table; release fewer columns, or take PufferfishMicroaggregator."
    )
