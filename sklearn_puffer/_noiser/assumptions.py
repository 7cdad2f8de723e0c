"""Under which conditions the guarantee of noise holds, and what it does not cover, in sentences."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Sequence

from sklearn_puffer._certificates import KEYED, ColumnNoise, ModelFacts
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._noiser.adversaries import TablePriors
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._noiser.scales import Calibrated
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._rows import RowGroups
from sklearn_puffer._tables import Name
from sklearn_puffer._words import listed, shown
from sklearn_puffer.fits import GaussianFit, MixtureFit
from sklearn_puffer.notions import Notion

_FITTED = {GaussianFit: "a Gaussian", MixtureFit: "a Gaussian mixture"}


def about_quiet(
    table: TableRead, noise: Sequence[ColumnNoise], named: Callable[[Sequence[Name]], str]
) -> list[str]:
    """Return which columns are released without noise, and by how many rows that was found."""
    known = {name for names in table.named(table.known) for name in names}
    names = [c.name for c in noise if c.theta == 0.0 and c.spread > 0.0 and c.name not in known]
    way = "without it (bins as their median)" if {*names} & {*table.merged} else "unchanged"
    rows = table.rows.total, table.fewest_rows
    return [quiet_sentence(named(names), way, *rows)] if names else []


def quiet_sentence(names: str, way: str, n_rows: int, fewest_rows: int) -> str:
    """Return which columns are released without noise, and by how many rows that was found."""
    return (
        f"Column(s) {names} need no noise under this prior and are released {way}; see if "
        f"{n_rows} rows (rarest secret: {fewest_rows}) suffice."
    )


def assumptions_of(
    table: TableRead, priors: TablePriors, calibrated: Calibrated, noise: Sequence[ColumnNoise]
) -> list[str]:
    """Return under which conditions the guarantee holds, and what it does not cover."""
    settings = table.settings
    return [
        _about_prior(table, priors),
        *_about_rows(table.grouped),
        "theta, this table and the priors are computed from the same rows as the release. What "
        "these numbers themselves reveal is not covered.",
        _about_columns(table),
        f"Each protected secret is a value, or a bin, of one sensitive column "
        f"({_all(table.sensitive)})"
        f"{'; combinations of several columns are not secrets' * (len(table.sensitive) > 1)}.",
        _about_releases(settings.noise_name, settings.guarantee.releases, noise),
        *([KEYED] if settings.seed is None else []),
        f"Only column(s) {_all(table.public)} are protected, and only as released by this noiser "
        "without a random_state. The number of rows, their order, their index and the types of the "
        "columns are released unchanged.",
        *([] if settings.knowledge.fit else [_NEW_VALUES]),
        _REFUSALS,
        *about_quiet(table, noise, _all),
        *_about_models(priors.facts),
        *(_about_known(table, priors) if table.known else []),
        *_about_passed(table),
        *([] if calibrated.recomputed.all() else [_about_theorem(settings)]),
        *([] if settings.seed is None else [say.about_seed(settings.seed, "noise", "remove it")]),
        *_about_delta(settings.guarantee.notion),
    ]


_SIDE, _SIDE_END = "The side information, ", ", is released without noise"


def side_information(assumptions: Sequence[str]) -> list[Name]:
    """Return the columns that a certificate names as side information, of any version.

    >>> side_information(["The side information, 'a', 2, is released without noise (theta is 0)."])
    ['a', 2]
    """
    for said in assumptions:
        if said.startswith(_SIDE):
            names = said.removeprefix(_SIDE).rpartition(_SIDE_END)[0]
            return list(literal_eval(f"[{names}]"))
    return []


def _about_known(table: TableRead, priors: TablePriors) -> list[str]:
    """Return the assumptions about side information."""
    known = list(dict.fromkeys(name for names in table.named(table.known) for name in names))
    return [
        f"The guarantee also holds if the adversary knows {_either(table)} of a row, "
        f"given each of their values (adversaries {len(priors.adversaries)} and above of the "
        "table). It does not cover other values of a row as side information, nor these values "
        "together with another prior, within sampling error or not.",
        f"{_SIDE}{_all(known)}{_SIDE_END} (theta is 0). What its values "
        "tell about a secret is part of every loss, once, however often they are released.",
        *say.about_finer([name for name in known if name in table.merged]),
    ]


def _about_passed(table: TableRead) -> list[str]:
    """Return the assumptions about columns released in bins, unchanged, or with gaps."""
    said = []
    if table.merged:
        said.append(
            f"{_all(table.merged)} are read as the representative of their bin, and the guarantee "
            "is about that representative; who knows a value more finely may learn more."
        )
    if table.passed:
        said.append(say.about_passed(table.passed))
    if table.propagated:
        said.append(
            f"Which values of {_all(table.propagated)} are missing is released and NOT protected; "
            "the guarantee is about what the values add to that pattern."
        )
    return said


def _about_rows(rows: RowGroups | None) -> list[str]:
    """Return how rows are assumed to depend on each other."""
    if rows is None:
        return [
            "Rows are independent of each other: what one person's row tells about another person "
            "is not covered."
        ]
    ids = shown(rows.column)
    within = "they may depend on each other in any way."
    if rows.within_group == "independent":
        within = (
            "they are independent of each other. Where they are not, as copies of one value or "
            "visits of one person may be, the group may tell more than epsilon (within_group='any' "
            "assumes nothing)."
        )
    return [
        f"Rows with the same {ids} share their secret. Given the secret each of them has the "
        f"prior's distribution, whatever its position in the group and the group's size, and "
        f"{within} Rows of different groups are independent: what one group tells about another is "
        "not covered.",
        f"The guarantee is for at most {rows.max_group} row(s) of a group in all, over all "
        "releases and tables. transform counts the rows of one call alone: further rows of a group "
        "in later calls are not covered beyond that number. A row that changed counts as a further "
        "one.",
        f"The values of {ids}, and so which rows belong together and how many they are, are "
        "released unchanged. They are taken to be public, or to tell nothing about the secret.",
    ]


_NEW_VALUES = (
    "A value that fit has not seen and that has no bin is refused, or (unknown=) read as one that "
    "fit has seen, by the same rule for every row: a number as the nearest one, a category as the "
    "one named, or as the commonest one. Such rows are outside of the fitted distribution, and "
    "may tell more if the secret affects which rows these are."
)
_REFUSALS = (
    "Refusals and warnings that depend on the rows are not covered. transform refuses values "
    "not seen in fit that unknown= does not move, missing values (or patterns of them) "
    "not seen in fit, and values that are not finite, not of the kind of their column or "
    'beyond the grid of the noise (in an array without missing="propagate" or "category" also '
    "in a sensitive column). A refusal names the values and counts their rows; a release tells "
    "that there are none. One warning counts the values that unknown= moves. Another one "
    "(on_drift=) names columns that are distributed otherwise than in fit, and how far. "
    "Whether fit succeeds, and its warnings, depend on its rows, too."
)
_ROUNDED = (
    "A classifier's probabilities are rounded to whole numbers of 2^-32 (2.3e-10), where a "
    "positive one is never 0. The guarantee is about these; smaller probabilities are not covered."
)


def _about_models(models: Sequence[ModelFacts]) -> list[str]:
    """Return the assumptions that come with classifiers."""
    said = [_ROUNDED] if models else []
    for model in models:
        of = f"{model.argument} ({model.model} for {shown(model.sensitive)})"
        if model.n_models > 1:
            said.append(
                f"{of} is a patchwork of {model.n_models} models, each asked about rows that it "
                "was not fitted to; one model for all rows may know a little more or less."
            )
        if model.n_certain:
            said.append(
                f"{of} claims certainty (a probability of 0 or 1) about {model.n_certain} of "
                f"{model.n_cells} distinct rows; fits.ClassifierFit(smoothing=...) mixes in the "
                "base rate."
            )
    return said


ROBUST = ", outside the confidence set,"
"""Part of a sentence of certificates that hold for every prior within sampling error."""


def prior_of(table: TableRead, priors: TablePriors) -> str:
    """Return whose knowledge the guarantee is about, for the verdict."""
    knowledge = table.settings.knowledge
    n_further = len(priors.adversaries) - 1
    prior = "the counted prior" if knowledge.prior is None else "the given prior"
    if classifiers := _classifiers(priors):
        prior = f"the prior of {', and '.join(model.brief for model in classifiers)}"
    if knowledge.fit is not None:
        prior = f"the fitted {_FITTED[type(knowledge.fit)].removeprefix('a ')} prior"
    if n_further:
        prior += f" and {n_further} further prior(s)"
    return f"{prior}, also to who knows {_either(table)}" if table.known else prior


def _classifiers(priors: TablePriors) -> list[ModelFacts]:
    """Return the classifiers that the first prior is made of."""
    return [model for model in priors.facts if model.argument == "prior"]


def _about_prior(table: TableRead, priors: TablePriors) -> str:
    """Return whose knowledge the guarantee is about."""
    knowledge, n_rows, rarest = table.settings.knowledge, table.rows.total, table.fewest_rows
    n_further, classifiers = len(priors.adversaries) - 1, _classifiers(priors)
    further = f", and the {n_further} further prior(s) of adversaries=" if n_further else ""
    if knowledge.prior is not None:
        return f"The adversary's prior is the one given in prior={further}."
    prior = "The adversary's prior, the distribution of the released columns given each secret, is"
    if classifiers:
        kinds = dict.fromkeys(f"{model.model}, {model.way}" for model in classifiers)
        return (
            f"{prior} what a classifier says of these {n_rows} rows ({', '.join(kinds)}), by "
            f"Bayes' rule on these rows{further}. An adversary who knows more than the classifier "
            "may learn more."
        )
    if knowledge.fit is not None:
        fitted = _FITTED[type(knowledge.fit)]
        return (
            f"{prior} {fitted} fitted to these {n_rows} rows{further}. The guarantee is about "
            f"an adversary who believes this model; the rarest secret has {rarest} rows."
        )
    outside = "" if knowledge.confidence is None else ROBUST
    return (
        f"{prior} the one counted from these {n_rows} rows{further}; the rarest secret has "
        f"{rarest} rows. An adversary with another prior{outside} may learn more."
    )


def _about_columns(table: TableRead) -> str:
    if len(table.groups) == 1:
        return "The released row as a whole is protected, all its columns together."
    groups = "; ".join(f"({_all(group)})" for group in table.named(table.groups))
    return (
        f"These groups of columns are taken as independent given the secret: {groups}. If they are "
        "not, the row as a whole may reveal more than epsilon."
    )


def _about_theorem(settings: Settings) -> str:
    """Return why some loss was not recomputed."""
    why = "Under this noise and guarantee, or with so many cells, the loss is not recomputed"
    if settings.columns.rows_dependent:
        why = "Of rows that may depend on each other in any way no exact loss is known"
    return (
        f"{why}: the upper ends marked theorem are a proven bound, which may ask for more noise "
        "than is needed."
    )


def _about_delta(notion: Notion) -> list[str]:
    if notion.delta == 0.0:
        return []
    # conversely, odds that move by more with a chance of at most delta keep the guarantee
    return [
        "For every row and every pair of secrets, the probability of any set of rows is at most "
        f"e^epsilon times its probability under the other secret, plus delta = {notion.delta:g}; "
        "the odds may move by more than e^epsilon with a chance above delta. Delta should be far "
        "below one over the number of rows."
    ]


_PRECISIONS = {"laplace": ("1/theta", "k"), "gaussian": ("1/theta^2", "sqrt(k)")}


def _about_releases(noise: str, releases: int, columns: Sequence[ColumnNoise]) -> str:
    if noise not in _PRECISIONS:
        return (
            "The guarantee is for one release. A second one of the same rows tells more, and how "
            f"releases add up under {noise} noise is not known: each column may be released once. "
            "Laplace and Gaussian noise have releases=k."
        )
    precision, times = _PRECISIONS[noise]
    count = "one release."
    budget = (
        f"the budget is spent when the sum exceeds {precision} of this certificate. k releases "
        f"need {times} times the noise."
    )
    if releases > 1:
        count = f"{releases} releases of the same rows together, by this noiser, and no more."
        budget = f"the guarantee allows {releases} times {precision} of this certificate."
    kernels, names = "", [c.name for c in columns if c.unordered and c.theta > 0.0]
    if names:  # which have no precisions
        kernels = f" {_all(names)}, without an order, may need more: releases=k or a ledger finds "
        kernels += "how much."
    return (
        f"The guarantee is for {count} Noisy releases of the same rows add up: their precisions "
        f"{precision} are summed, column by column, and {budget} This is proven for releases of "
        "the same values on the same grid. Other bins or another grid start no new budget, and "
        f"this sum does not cover them.{kernels}"
    )


def _all(names: Sequence[Name]) -> str:
    """Join all names."""
    return listed(names, len(names))


def _either(table: TableRead) -> str:
    """Return the alternatives of side information: names of columns known together."""
    return " or ".join(
        " and ".join(f"{shown(name)}{' (in bins)' * (name in table.merged)}" for name in names)
        for names in table.named(table.known)
    )
