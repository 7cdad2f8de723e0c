"""Adversaries who know what a classifier knows: the masses of rows, and how good they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sklearn_puffer._base import Array, FloatArray, counted, listed, quoted, shown
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
    predicted,
    quality_of,
    refitted,
    smoothed,
    spread_masses,
    whole_masses,
)
from sklearn_puffer._noiser.conditional_priors import Adversary, weighed_adversary
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._noiser.settings import Model
from sklearn_puffer._releases import ModelFacts
from sklearn_puffer._tables import Features, Name, Secret
from sklearn_puffer.fits import ClassifierFit

_MOST_COMPARED = 1 << 16  # rows, beyond which the boosted default is not asked
_MOST_LEVELS = 255  # of a category that it takes for one; codes of more are numbers to it
_FOLDS = 5


@dataclass(frozen=True, eq=False)
class ModelLaws:
    """What one adversary's classifiers say of the rows.

    Attributes
    ----------
    argument : str
        Which adversary it is: "prior", or "adversaries[0]".
    masses : dict of ndarray of int64 of shape (n_secrets, n_rows)
        Of each sensitive column: the mass of each row that counts for each of its values, in units
        of 2^-32, its weight included; of equal rows the first has the mass of all.
    facts : tuple of ModelFacts
        One for each sensitive column.
    """

    argument: str
    masses: Mapping[Name, Array]
    facts: tuple[ModelFacts, ...]

    def of_cells(self, sensitive: Name, cells: Array, n_cells: int) -> Array:
        """Return the mass of each cell for each secret, shape (n_secrets, n_cells), int64.

        ``cells`` has the cell of each row; a law is a row of this, divided by its sum.
        """
        return cell_masses(self.masses[sensitive], cells, n_cells)

    def adversary(self, read: TableRead) -> Adversary:
        """Return the laws over the columns of the table."""
        return weighed_adversary(read.secrets, read.columns, read.readers, read.groups, self.masses)


def model_laws(read: TableRead) -> dict[str, ModelLaws]:
    """Return what the classifiers among the adversaries say of the rows, by their argument.

    Raises
    ------
    ValueError
        Naming the argument, the sensitive column and the secret, where a classifier knows too
        little to be asked.
    """
    models = read.settings.models
    if not models:
        return {}
    by_column = {argument: _by_column(model, argument, read) for argument, model in models.items()}
    seen = _Seen(read)
    return {argument: _laws_of(argument, own, seen) for argument, own in by_column.items()}


def refitted_laws(read: TableRead, n_draws: int) -> list[ModelLaws]:
    """Return what the prior's classifiers say when they are fitted to rows that are drawn again.

    An estimate of what sampling error does to them, and no set of priors with a proof. Of the
    rows that are asked about each counts as before.
    """
    assert read.settings.model is not None
    own = _by_column(read.settings.model, "prior", read)
    seen = _Seen(read)
    dealt = {name: folds_of(fit.cv, seen.observed[name]) for name, fit in own.items()}
    laws = []
    for draw in counted(range(n_draws), "refits of the prior"):
        masses = {}
        for name, fit in own.items():
            observed, parts = dealt[name]
            found = refitted(fit.estimator, observed, parts, draw)
            masses[name] = seen.masses(
                name, observed, smoothed(found, observed.shares, fit.smoothing)
            )
        laws.append(ModelLaws("prior", masses, ()))
    return laws


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


class _Seen:
    """The rows as classifiers see them, and what does not depend on the classifier."""

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
        self.observed = {secret.name: self._observed(secret) for secret in read.secrets}
        self._boosted: dict[Name, Quality | None] = {}

    def _observed(self, secret: Secret) -> Observed:
        codes = np.empty(self.read.rows.n_rows, dtype=np.intp)
        secret.source.codes(slice(None), codes)
        return Observed(self.features, codes, secret.labels, self.weights, repr(secret.name))

    @cached_property
    def cells(self) -> Array:
        """The number of the released cell of each row."""
        table = np.empty((len(self.weights), 2 * len(self.read.readers)), dtype=np.intp)
        for k, reader in enumerate(self.read.readers):
            gone = reader.missing(slice(None))
            reader.codes(slice(None), table[:, 2 * k])
            table[:, 2 * k + 1] = 0 if gone is None else gone
        order = np.lexsort(table.T[::-1])
        cells = np.empty(len(order), dtype=np.intp)
        steps = (table[order][1:] != table[order][:-1]).any(axis=1)
        cells[order] = np.cumsum(np.append(False, steps))
        return cells

    def boosted(self, name: Name) -> Quality | None:
        """Return how much scikit-learn's boosted default knows, cross-fitted, where it is asked."""
        if name not in self._boosted:
            self._boosted[name] = self._ask_boosted(self.observed[name])
        return self._boosted[name]

    def _ask_boosted(self, observed: Observed) -> Quality | None:
        if int(self.weights.sum()) > _MOST_COMPARED:
            return None
        coded = replace(observed, rows=self.features.without_many_levels(_MOST_LEVELS))
        try:
            asked, folds = folds_of(_FOLDS, coded)
            found = cross_fitted(boosted_default(), asked, folds)
        except ValueError:  # too few rows of a secret for the folds
            return None
        return quality_of(found, asked)

    def masses(self, name: Name, asked: Observed, probabilities: FloatArray) -> Array:
        """Return the masses of the rows of the table, from what was said of those asked about."""
        of_asked = whole_masses(probabilities, asked.weights)
        return spread_masses(of_asked, asked, self.observed[name])


def _laws_of(argument: str, own: Mapping[Name, ClassifierFit], seen: _Seen) -> ModelLaws:
    masses, facts = {}, []
    for name, fit in own.items():
        said = _said(fit, argument, seen.observed[name])
        masses[name] = seen.masses(name, said.asked, said.probabilities)
        facts.append(_facts(argument, name, fit, said, masses[name], seen))
    return ModelLaws(argument, masses, tuple(facts))


class _Said(NamedTuple):
    """The probabilities of the secrets of the rows asked about, and how many models gave them."""

    asked: Observed
    probabilities: FloatArray
    n_models: int


def _said(fit: ClassifierFit, argument: str, observed: Observed) -> _Said:
    try:
        if fit.is_prefit:
            asked, n_models = observed.merged, 1
            found = predicted(fit.estimator, asked)
        else:
            asked, folds = folds_of(fit.cv, observed)
            found, n_models = cross_fitted(fit.estimator, asked, folds), len(folds)
    except ValueError as error:
        raise ValueError(f"{argument}: {error}") from error
    found = smoothed(found, asked.shares, fit.smoothing)
    _check_somewhere(found, fit, argument, observed)
    return _Said(asked, found, n_models)


def _check_somewhere(
    found: FloatArray, fit: ClassifierFit, argument: str, observed: Observed
) -> None:
    nowhere = np.flatnonzero(~(found > 0.0).any(axis=0))
    if nowhere.size:
        raise ValueError(
            f"{argument}: {fit.name} gives secret {quoted(observed.labels[nowhere[0]])} of column "
            f"{observed.name} probability zero for every row, so that it has no law; take a "
            "classifier that knows it, or mix in its share, fits.ClassifierFit(..., "
            "smoothing=0.01)."
        )


def _facts(
    argument: str,
    name: Name,
    fit: ClassifierFit,
    said: _Said,
    masses: Array,
    seen: _Seen,
) -> ModelFacts:
    observed, cells = seen.observed[name], seen.cells
    weights = observed.merged.weights
    quality = quality_of(said.probabilities, said.asked)
    boosted = quality if _is_default(fit) else seen.boosted(name)
    counting = counted_losses(observed, cells)
    return ModelFacts(
        argument=argument,
        sensitive=name,
        model=shown(fit.name),
        way=fit.way,
        smoothing=fit.smoothing,
        n_models=said.n_models,
        log_loss=quality.log_loss,
        constant_log_loss=quality.constant_log_loss,
        auc=quality.auc,
        boosted_log_loss=None if boosted is None else boosted.log_loss,
        boosted_auc=None if boosted is None else boosted.auc,
        counting_log_loss=mean_loss(counting, weights),
        weak=_weak(quality, boosted, None if seen.read.settings.counts else counting, weights),
        n_cells=int(cells.max()) + 1,
        n_certain=_certain(masses, cells),
    )


def _weak(
    quality: Quality, boosted: Quality | None, counting: FloatArray | None, weights: Array
) -> str:
    """Return who knows more than the model, or what else is wrong with it; nothing where nothing.

    Who counts is None where the counted law is among the adversaries anyhow. A model that is too
    sure of itself has a log loss that says little about who knows more.
    """
    constant = quality.constant_losses
    if is_better(constant, quality.losses, weights):
        by_counts = counting is not None and is_better(counting, constant, weights)
        if not by_counts and (boosted is None or boosted.auc <= quality.auc):
            return "overconfident" if quality.tells_apart else "constant"
    counts = counting is not None and is_better(counting, quality.losses, weights)
    if boosted is not None and boosted.knows_more(quality, weights):
        also = counting is not None and is_better(counting, boosted.losses, weights)
        return "counting" if also else "boosting"
    if counts:
        return "counting"
    return "" if quality.knows_something(weights) else "constant"


def boosted_default() -> Any:
    """Return the classifier that others are held against."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # heavy, and few ask for it

    return HistGradientBoostingClassifier(categorical_features="from_dtype")


def _is_default(fit: ClassifierFit) -> bool:
    """Return whether a classifier is the boosted default itself, cross-fitted in as many folds."""
    default = boosted_default()
    if type(fit.estimator) is not type(default) or fit.cv != _FOLDS or fit.smoothing:
        return False
    own = {**fit.estimator.get_params(), "random_state": None}
    return repr(own) == repr(default.get_params())


def _certain(masses: Array, cells: Array) -> int:
    """Return the number of cells for which some secret is ruled out, or all others are."""
    of_cells = cell_masses(masses, cells, int(cells.max()) + 1)
    return int((of_cells == 0).any(axis=0).sum())
