"""The figures of a certificate: losses, noise, utility, and how much classifiers know.

A weak classifier certifies anything. So the certificate shows how much it knows, and the loss of
the same release to a reader who counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._documents import Section
from sklearn_puffer._tables import Name, Values, named_frame
from sklearn_puffer._words import brief, short_number, shown
from sklearn_puffer.notions import Notion

LossOrigin = Literal["recomputed", "theorem"]


@dataclass(frozen=True)
class PairLoss:
    """The privacy loss of one secret against another, in this direction.

    In nats for pure and Renyi privacy; under a delta it is the delta that goes with epsilon.

    Attributes
    ----------
    sensitive : str or int
        The sensitive column.
    secret, against
        The two secrets: the loss is that of p(y | secret) against p(y | against).
    adversary : int
        0 for the fitted prior, k for the k-th further prior.
    bound : float
        What the strategy guaranteed at the chosen scale.
    lower, upper : float
        Ends of the interval that holds the exact loss.
    source : {"recomputed", "theorem"}
        Whether ``upper`` was recomputed without the strategy, or is the strategy's theorem.
    """

    sensitive: Name
    secret: Any
    against: Any
    adversary: int
    bound: float
    lower: float
    upper: float
    source: LossOrigin


@dataclass(frozen=True)
class ColumnNoise:
    """The noise of one public column.

    Attributes
    ----------
    name : str or int
    theta : float
        Scale in the column's own units (in codes for a categorical column); 0 for none.
    spread : float
        Standard deviation of the column, same units (of the values before binning).
    whole : bool
        Whether noise is rounded to whole numbers.
    grid : float
        Distance between neighbouring noisy values; 0 where nothing is added.
    unordered : bool, default=False
        Whether the column has a kernel and no noise: theta is -log(1 - rho), where rho is the
        chance that a value is drawn anew, and spread 1.
    """

    name: Name
    theta: float
    spread: float
    whole: bool
    grid: float
    unordered: bool = False

    @property
    def relative(self) -> float:
        """The scale theta, in standard deviations of the column."""
        return self.theta / self.spread if self.spread > 0 else 0.0


@dataclass(frozen=True)
class SetLoss:
    """The loss to adversaries whose prior lies in a confidence set around the fitted one.

    Attributes
    ----------
    level : float
        Confidence with which the set holds the true distributions.
    loss : float
        Of the worst pair under the worst prior of the set, in the unit of the budget: a proven
        bound.
    exact : bool
        Whether some prior of the set loses as much; otherwise ``loss`` is only a bound.
    estimate : bool
        False: earlier versions had estimates, too.
    share : float
        The part of theta that the fitted prior alone needs; the rest is for sampling error.
    decided : tuple
        Empty: earlier versions named secrets with few rows.
    """

    level: float
    loss: float
    exact: bool
    estimate: bool
    share: float
    decided: tuple[Any, ...] = ()


@dataclass(frozen=True)
class AboutCount:
    """What a certificate says about how many rows, or groups, have a sensitive value.

    Attributes
    ----------
    m : int
        By how much two counts differ.
    notion : Notion
        What is guaranteed about them.
    unit : str
        What is counted: "rows", or "groups" where rows are counted together.

    Notes
    -----
    *Formal guarantees.* Let units be drawn independently of each other by the prior, given how many
    of them have the one and the other of two protected values, at places that are equally likely.
    Then a reader of all that is released can tell two numbers that differ by m apart by no more
    than ``notion``. For the positions of the smaller number can be drawn among those of the larger
    one, so that m units differ; their losses add up, with a delta m times the delta at m times the
    epsilon; and no divergence grows when positions are mixed.

    References
    ----------
    004, Definition F.1.
    """

    m: int
    notion: Notion
    unit: str

    def promise(self) -> str:
        """Return the guarantee in one sentence."""
        others = "all others having a value that it is protected from"
        counts = f"counts of a sensitive value that differ by {self.m}, {others},"
        shift = self.notion.promise().replace("secrets", counts)
        return (
            f"Whoever sees all that is released, and knows the prior, by which {self.unit} are "
            f"independent of each other, can {shift}."
        )


@dataclass(frozen=True)
class ColumnUtility:
    """How much of one public column survives a release: expectations over rows and noise.

    All of them are computed from the distributions, for rows as those of `fit`. A change is the
    distance between the released value and the original one as it stood in the table, before
    binning; of categories with an order it is that of their codes, and of others 1. Values left
    missing do not count in it.

    Attributes
    ----------
    name : str or int
    change, change_sd : float
        The mean change, in the column's unit and in its standard deviations; infinite under Cauchy
        noise, unless a type or a list of codes cuts it off.
    median_change : float
        The change that one half of the released values do not exceed.
    unchanged : float
        The chance that the released value is the original one; a missing one stays missing.
    constant, constant_sd, constant_median, constant_unchanged : float
        The same for the best constant, the column's median, or its most frequent category.
    """

    name: Name
    change: float
    change_sd: float
    median_change: float
    unchanged: float
    constant: float
    constant_sd: float
    constant_median: float
    constant_unchanged: float

    @property
    def worse(self) -> bool:
        """Whether a constant would be nearer on average (where that is infinite, by medians)."""
        if math.isinf(self.change):
            return self.median_change > self.constant_median
        return self.change > self.constant * (1.0 + 1e-9)


def measured_utility(
    name: Name, unit: float, changes: FloatArray, weights: Array, values: Values, counts: Array
) -> ColumnUtility:
    """Return the utility of a column, by measured changes and their weights.

    ``values``, each of which occurs ``counts`` times, are what the constant is compared with.
    ``unit`` is their standard deviation, or 1 without an order.
    """
    constant = changes_of(values, _constant(values, counts), unit)
    change, median, same = summary(changes, weights)
    error, middle, alike = summary(constant, counts)
    return ColumnUtility(
        name, change, change / unit, median, same, error, error / unit, middle, alike
    )


def summary(changes: FloatArray, weights: Array) -> tuple[float, float, float]:
    """Return the mean of weighted changes, their lower median, and the share of none."""
    with np.errstate(over="ignore"):  # a sum beyond all floats is infinite
        mean, same = (float(np.average(x, weights=weights)) for x in (changes, changes == 0.0))
    return mean, lower_median(changes, weights), same


def lower_median(values: FloatArray, weights: Array) -> float:
    """Return the lower median of weighted values."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order], dtype=float)
    return float(values[order[np.searchsorted(below, 0.5 * (1.0 - 1e-12) * below[-1])]])


def changes_of(values: Values, others: Values, unit: float) -> FloatArray:
    """Return distances of values; without an order, or to a missing value, they are one unit."""
    if values.kind not in ("float", "integer"):
        return np.asarray(_labels(values) != _labels(others), dtype=float)
    gone, other = _no_numbers(values), _no_numbers(others)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(values.data.astype(float) - others.data.astype(float))
    apart = np.minimum(apart, np.finfo(float).max)  # finite: times a weight of 0 it is 0
    return np.where(gone | other, np.where(gone == other, 0.0, unit), apart)


def _no_numbers(values: Values) -> Array:
    gone: Array = ~np.isfinite(values.data)
    return gone if values.missing is None else gone | values.missing


def _labels(values: Values) -> Array:
    """Return values as objects, None where they are missing."""
    known: Sequence[Any] = (False, True) if values.levels is None else values.levels
    table = np.array([*known, None], dtype=object)
    return table[values.filled(-1).astype(np.intp)]


def _constant(values: Values, counts: Array) -> Values:
    """Return the best constant, repeated for each value: the median, or the most frequent one."""
    if values.kind in ("float", "integer"):
        there = np.flatnonzero(~_no_numbers(values))
        order = there[np.argsort(values.data[there], kind="stable")]
        below = np.cumsum(counts[order])
        best = order[np.searchsorted(below, below[-1] / 2.0)] if len(order) else 0
    else:
        codes = values.filled(-1).astype(np.intp) + 1
        best = np.flatnonzero(codes == np.bincount(codes, counts).argmax())[0]
    return values.taken(np.full(len(values), best))


def utility_frame(utility: Sequence[ColumnUtility]) -> Any:
    """Return the utility as a DataFrame, a row for each column."""
    kind = type(utility[0]) if utility else ColumnUtility  # a mechanism may have further fields
    fields = [name for name in kind.__dataclass_fields__ if name != "name"]
    return named_frame({column.name: asdict(column) for column in utility}, fields)


def changes(utility: Sequence[ColumnUtility]) -> str:
    """Return in a sentence how much columns change, beside a constant."""
    worse = [column for column in utility if column.worse]
    most = max(worse or utility, key=lambda column: (column.change_sd, column.median_change))
    by = f"by {most.change_sd:.3g} standard deviations (a constant: {most.constant_sd:.3g})"
    if math.isinf(most.change_sd):
        by = f"by {most.median_change:.3g} in the median (a constant: {most.constant_median:.3g})"
    if most.change_sd == 0.0:
        return "No value changes."
    if not worse:
        name = brief(most.name)
        return f"Values change less than if a constant stood for them; most in {name}, {by}."
    return (
        f"In {len(worse)} of {len(utility)} columns a constant would change values less; these "
        f"change most in {brief(most.name)}, {by}."
    )


def utility_section(utility: Sequence[ColumnUtility]) -> Section:
    """Return the table of all columns."""
    note = (
        "change is the expected distance between a released and an original value, in the column's "
        "unit and (sd) in its standard deviations; constant is that of the best constant, the "
        "median (without an order a change counts 1, and it is the most frequent value); unchanged "
        "is the share of rows whose value comes out as it was, or missing as it was"
    )
    head = ["column", "change", "constant", "change sd", "constant sd", "unchanged"]
    cells = [
        [
            shown(column.name),
            *(f"{value:.4g}" for value in (column.change, column.constant)),
            *(f"{value:.3f}" for value in (column.change_sd, column.constant_sd)),
            f"{column.unchanged:.1%}",
        ]
        for column in utility
    ]
    return Section("How much of the data survives", note, [head, *cells])


KEYED = (
    "With row_id= noise is keyed. The guarantee then assumes that the key is secret, and that "
    "AES-256 (or keyed blake2b) cannot be told from a random function. Readers see that a row "
    "changed. Each different row of an id is a further release of all its columns; it adds up with "
    "the others only if the changes tell nothing about the secret and the first row (PersonLedger "
    "counts them, or refuses)."
)
"""What keyed noise assumes; in every certificate, since keys are given after the fit."""
_LONGEST_MODEL = 32  # characters of its name in a warning
_MODEST = "HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=7)"
"""Boosting that is not overconfident on a few thousand rows."""


@dataclass(frozen=True)
class ModelFacts:
    """How much a classifier that is an adversary knows about one sensitive column.

    Attributes
    ----------
    argument : str
        Which adversary it is: "prior", or "adversaries[0]".
    sensitive : str or int
    model, way : str
        Its type, and how its probabilities were found.
    smoothing : float
        The share of the base rate in them.
    n_models : int
        How many cross-fitted models the adversary consists of.
    log_loss, constant_log_loss : float
        In nats for each row, of its probabilities and of the shares of the secrets.
    auc : float
        Of one secret against the rest, the mean over the secrets; a constant has 0.5.
    boosted_log_loss, boosted_auc : float or None
        Of scikit-learn's gradient boosting with its defaults, cross-fitted to the same rows; None
        where it was not fitted.
    counting_log_loss : float
        Of a reader who counts the other rows of each released cell.
    weak : {"boosting", "counting", "constant", "overconfident", ""}
        Why the model is weak: boosting or counting predicts significantly better, a constant
        predicts as well, or the model is overconfident, so that a constant has a lower log loss.
    n_cells, n_certain : int
        Distinct released rows, and those for which some secret has probability 0 or 1.
    """

    argument: str
    sensitive: Name
    model: str
    way: str
    smoothing: float
    n_models: int
    log_loss: float
    constant_log_loss: float
    auc: float
    boosted_log_loss: float | None
    boosted_auc: float | None
    counting_log_loss: float
    weak: str
    n_cells: int
    n_certain: int

    @property
    def brief(self) -> str:
        """The model with its figures beside those of a constant."""
        return (
            f"{self.model} for {shown(self.sensitive)} (log loss {self.log_loss:.4g} beside "
            f"{self.constant_log_loss:.4g} of a constant, AUC {self.auc:.3f} beside 0.5)"
        )

    def warning(self) -> str:
        """Return the warning about a weak model."""
        long = len(self.model) > _LONGEST_MODEL
        model = f"{self.model[:_LONGEST_MODEL]}..." if long else self.model
        told = f"{self.argument}: {model} has log loss {self.log_loss:.3g} for "
        told += brief(self.sensitive)
        boosted = "" if self.boosted_log_loss is None else f"{self.boosted_log_loss:.3g}"
        beside = {
            "constant": "no better than the shares of the secrets; take a better one",
            "overconfident": f"as it is so sure of itself; try {_MODEST}",
            "counting": f"and who counts equal rows {self.counting_log_loss:.3g}; add "
            'adversaries=["empirical"], or take a better classifier',
            "boosting": f"HistGradientBoostingClassifier() {boosted}; take that one",
        }
        return f"{told}, {beside[self.weak]}."


@dataclass(frozen=True)
class CountedLoss:
    """The loss of the same release to a reader who counted a column, or a pair of columns.

    Attributes
    ----------
    columns : tuple of str or int
        The columns that the reader sees, whose distributions given each secret are counted.
    loss : float
        Proven upper end for the worst pair of secrets, in the unit of the budget.
    beyond : float or None
        None: earlier versions had the delta at which epsilon is kept nevertheless.
    """

    columns: tuple[Name, ...]
    loss: float
    beyond: float | None = None


def model_lines(models: Sequence[ModelFacts], counted: Sequence[CountedLoss]) -> list[str]:
    """Return the lines about classifiers below the verdict."""
    if not models:
        return []
    named = "; ".join(f"{model.argument} is {model.brief}, {model.way}" for model in models)
    said = [f"The adversary knows as much as a classifier, and no more: {named}."]
    said += [f"WARNING: {model.warning()}" for model in models if model.weak]
    for size, what in ((1, "column"), (2, "pair of columns")):
        losses = [loss for loss in counted if len(loss.columns) == size]
        if losses:
            worst = max(losses, key=lambda each: each.loss)
            names, loss = ", ".join(map(shown, worst.columns)), short_number(worst.loss)
            said.append(
                f"To somebody who counted a single {what} and looks at that alone, the same "
                f"release loses at most {loss}, the worst of {len(losses)}: {names}."
            )
    return said
