"""What stands in the certificate about adversaries whose knowledge is a classifier's.

A weak classifier certifies anything, so whoever reads the promise has to see how much it knows, and
what the same release tells to somebody who simply counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sklearn_puffer._base import Section, short_number, shown
from sklearn_puffer._tables import Name

_SHOWN = 5
MODEST = "HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=7)"
"""Boosting that some thousand rows do not make surer of itself than it should be."""
_ROUNDED = (
    "What a classifier says of a row is taken in whole numbers of 2^-32 (2.3e-10), of which a "
    "positive one is never 0, and the promise is about these: what depends on smaller "
    "probabilities is not covered."
)


@dataclass(frozen=True)
class ModelFacts:
    """How much a classifier knows that is taken for an adversary, about one sensitive column.

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
        Of how many models the adversary is put together.
    log_loss, constant_log_loss : float
        In nats for each row, of its probabilities and of the shares of the secrets.
    auc : float
        Of one secret against the rest, the mean over the secrets; a constant has 0.5.
    boosted_log_loss, boosted_auc : float or None
        Of scikit-learn's gradient boosting by default, cross-fitted to the same rows; None where
        it was not asked.
    counting_log_loss : float
        Of who counts the other rows of each released cell.
    weak : {"boosting", "counting", "constant", "overconfident", ""}
        Who knows more, by more than noise, or that a constant knows as much, or that the model is
        so sure of itself that a constant errs less; nothing where none.
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


@dataclass(frozen=True)
class CountedLoss:
    """What is lost of the same release to somebody who counted a column, or a pair of columns.

    Attributes
    ----------
    columns : tuple of str or int
        The columns that are looked at, and whose laws given each secret are counted.
    loss : float
        Proven upper end for the worst pair of secrets, in the unit of the budget.
    beyond : float or None
        Where a pure loss is above epsilon: the delta at which epsilon is kept all the same, if
        that is soon computed. Counted laws have values that one secret alone was seen with.
    """

    columns: tuple[Name, ...]
    loss: float
    beyond: float | None = None

    @property
    def words(self) -> str:
        """The loss, and how much of it lies beyond the budget."""
        told = short_number(self.loss)
        return (
            told if self.beyond is None else f"{told} (epsilon is kept but for {self.beyond:.3g})"
        )


def model_lines(models: Sequence[ModelFacts], counted: Sequence[CountedLoss]) -> list[str]:
    """Return what stands right below the verdict."""
    if not models:
        return []
    named = "; ".join(f"{model.argument} is {model.brief}, {model.way}" for model in models)
    said = [f"The adversary knows as much as a classifier, and no more: {named}."]
    said += [f"WARNING: {weak_sentence(model)}" for model in models if model.weak]
    for size, what in ((1, "column"), (2, "pair of columns")):
        found = [each for each in counted if len(each.columns) == size]
        if found:
            worst = max(found, key=_size)
            names = ", ".join(shown(name) for name in worst.columns)
            said.append(
                f"To whoever instead counted a single {what}, and looks at that alone, the same "
                f"release loses at most {worst.words}, the worst of {len(found)}: {names}."
            )
    return said


def _size(counted: CountedLoss) -> tuple[float, float]:
    return counted.loss, counted.beyond or 0.0


def weak_sentence(model: ModelFacts) -> str:
    """Return the warning about a classifier that knows less than others, or less than it says."""
    known = f"{model.argument}: {model.model} has log loss {model.log_loss:.4g} and AUC "
    known += f"{model.auc:.3f} for column {model.sensitive!r}"
    if model.weak == "constant":
        return (
            f"{known}, no better than the shares of the secrets alone: either nothing can be "
            "learnt about it from the public columns, or this adversary knows next to nothing, and "
            "a weak model certifies anything; hold a better one against it."
        )
    if model.weak == "overconfident":
        return (
            f"{known}, and is so sure of itself that the shares of the secrets alone have log loss "
            f"{model.constant_log_loss:.4g}: rows are changed to hide what nobody knows; let it "
            f"learn less, for example {MODEST}, or calibrate it (CalibratedClassifierCV of "
            "sklearn.calibration)."
        )
    if model.weak == "counting":
        return (
            f"{known}, and whoever counts the other rows with the same released values has log "
            f"loss {model.counting_log_loss:.4g}: this adversary knows less than that; add "
            'the counted law, adversaries=["empirical"], or take a better classifier.'
        )
    return (
        f"{known}, and HistGradientBoostingClassifier() by default {model.boosted_log_loss:.4g} "
        f"and {model.boosted_auc:.3f}: this adversary knows less than can be learnt, and a weak "
        "model certifies anything; take that one, or a better one."
    )


def model_section(models: Sequence[ModelFacts], counted: Sequence[CountedLoss]) -> list[Section]:
    """Return the tables about the models, where there are any."""
    if not models:
        return []
    head = ["adversary", "sensitive", "model", "log loss", "constant", "boosted", "counting", "AUC"]
    cells = [
        [
            model.argument,
            shown(model.sensitive),
            model.model,
            f"{model.log_loss:.4g}",
            f"{model.constant_log_loss:.4g}",
            "" if model.boosted_log_loss is None else f"{model.boosted_log_loss:.4g}",
            f"{model.counting_log_loss:.4g}",
            f"{model.auc:.3f}",
        ]
        for model in models
    ]
    note = (
        "log loss in nats for each row, the lower the more is known: of the model, of the shares "
        "of the secrets, of scikit-learn's gradient boosting, and of who counts the other rows of "
        "a cell; AUC of one secret against the rest, the mean over the secrets"
    )
    return [Section("What the classifiers know", note, [head, *cells]), *_counted_section(counted)]


def _counted_section(counted: Sequence[CountedLoss]) -> list[Section]:
    if not counted:
        return []
    worst = sorted(counted, key=_size, reverse=True)[:_SHOWN]
    cells = [[", ".join(shown(n) for n in each.columns), each.words] for each in worst]
    return [
        Section(
            f"The same release under counted laws (worst of {len(counted)})",
            "what it tells about these columns alone to somebody who counted them in these rows",
            [["columns", "loss"], *cells],
        )
    ]


def model_sentences(models: Sequence[ModelFacts]) -> list[str]:
    """Return the assumptions that come with classifiers."""
    said = [_ROUNDED] if models else []
    for model in models:
        of = f"{model.argument} ({model.model} for {shown(model.sensitive)})"
        if model.n_models > 1:
            said.append(
                f"{of} is a patchwork of {model.n_models} models, each asked about rows that it "
                "was not fitted to; somebody with one model for all rows may know a little more "
                "or less."
            )
        if model.n_certain:
            said.append(
                f"{of} gives {model.n_certain} of {model.n_cells} distinct rows a probability of 0 "
                "or 1 for some secret, which is a claim of certainty; "
                "fits.ClassifierFit(smoothing=...) mixes in the base rate."
            )
    return said
