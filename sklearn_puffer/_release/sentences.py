"""What the certificate and the warnings of `fit` say, in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn_puffer._release.certificate_figures import (
    KEYED,
    MODEST,
    ColumnNoise,
    ColumnUtility,
    ModelFacts,
    RowsTogether,
    SetLoss,
    model_sentences,
)
from sklearn_puffer._tables import Name
from sklearn_puffer._words import brief, briefly, listed, short_number, shown
from sklearn_puffer.noise import FAMILIES
from sklearn_puffer.notions import Notion

_LONG, _FLOAT = 10**7, 10**300  # numbers that are written out, and that floats reach
_MANY_ROWS = 20_000  # from here on boosting is not too sure of itself


OF_A_SAMPLE = " of a sample of "
"""In the name of a prior that earlier versions learnt from some of the rows (max_rows=)."""


@dataclass(frozen=True)
class Facts:
    """What the sentences depend on."""

    sensitive: Sequence[Name]
    groups: Sequence[Sequence[Name]]
    columns: Sequence[ColumnNoise]
    unchanged: Sequence[Name]
    quiet_bins: Sequence[Name]
    binned: Sequence[Name]
    kept_bins: Sequence[Name]
    passed: Sequence[Name]
    propagated: Sequence[Name]
    n_rows: int
    fewest_rows: int
    releases: int
    given_prior: bool
    model: str | None
    n_adversaries: int
    theorem: bool
    least: float | None
    noise: str
    notion: Notion
    seed: int | None
    models: Sequence[ModelFacts] = ()
    known: Sequence[Sequence[Name]] = ()
    over_set: bool = False
    rows: RowsTogether | None = None

    @property
    def classifiers(self) -> list[ModelFacts]:
        """The classifiers that the prior is made of."""
        return [model for model in self.models if model.argument == "prior"]


INDEPENDENT_ROWS = (
    "Rows are independent of each other: what one person's row tells about another person is not "
    "covered."
)


def assumptions_of(facts: Facts) -> list[str]:
    """Return under which conditions the guarantee holds, and what it does not cover."""
    said = [
        _about_prior(facts),
        *_about_rows(facts.rows),
        "theta, this table and the priors are computed from the same rows as the release. What "
        "these numbers themselves reveal is not covered.",
        _about_columns(facts),
        about_secrets(facts.sensitive),
        _about_releases(facts.noise, facts.releases) + _about_kernels(facts),
        *([KEYED] if facts.seed is None else []),
        about_protected([column.name for column in facts.columns]),
        *([] if facts.model else [_NEW_VALUES]),
        _about_refusals(),
    ]
    said += quiet_sentences(facts)
    said += model_sentences(facts.models)
    if facts.known:
        said.append(
            f"The guarantee also holds if the adversary knows {_either(facts.known)} of a row, "
            f"given each of their values (adversaries {facts.n_adversaries} and above of the "
            "table). It does not cover other values of a row as side information, nor these values "
            "together with another prior, within sampling error or not."
        )
        said.append(_about_kept(facts))
    if facts.binned:
        said.append(
            f"{_all(facts.binned)} are released as the representative of their bin, plus noise; "
            "the guarantee is about that representative."
        )
    if facts.passed:
        said.append(about_passed(facts.passed))
    if facts.propagated:
        said.append(
            f"Which values of {_all(facts.propagated)} are missing is released and NOT protected; "
            "the guarantee is about what the values add to that pattern."
        )
    if facts.theorem:
        said.append(
            f"{_why_theorem(facts)}: the upper ends marked theorem are a proven bound, not the "
            f"exact loss{_needed(facts.least)}."
        )
    if facts.seed is not None:
        said.append(about_seed(facts.seed, "noise", "remove it"))
    if facts.notion.delta > 0.0:
        said.append(_about_delta(facts.notion))
    return said


def about_secrets(sensitive: Sequence[Name]) -> str:
    """Return what is a secret, and what is none."""
    return (
        f"Each protected secret is one value of one sensitive column ({_all(sensitive)}); "
        "combinations of several sensitive columns are not secrets."
    )


def about_protected(names: Sequence[Name]) -> str:
    """Return which columns a guarantee covers, and what comes out unchanged beside them."""
    return (
        f"Only column(s) {_all(names)} are protected, and only as released by this noiser without "
        "a random_state. The number of rows, their order, their index and the types of the columns "
        "are released unchanged."
    )


def about_passed(names: Sequence[Name]) -> str:
    """Return what is said of columns that come out as they are, row by row."""
    return (
        f"{_all(names)} are passed through and NOT protected: all that they tell about a secret is "
        "released."
    )


def about_seed(seed: int, drawn: str, undone: str) -> str:
    """Return what is said where ``drawn`` can be repeated."""
    return (
        f"random_state={seed} makes the {drawn} reproducible: who knows the seed can {undone}. "
        "NOTHING is guaranteed outside tests."
    )


def _about_rows(rows: RowsTogether | None) -> list[str]:
    """Return how rows are assumed to depend on each other."""
    if rows is None:
        return [INDEPENDENT_ROWS]
    ids, most = shown(rows.column), rows.max_group
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
        f"The guarantee is for at most {most} row(s) of a group in all, over all releases and "
        "tables. transform counts the rows of one call alone: further rows of a group in later "
        "calls are not covered beyond that number. A row that changed counts as a further one.",
        f"The values of {ids}, and so which rows belong together and how many they are, are "
        "released unchanged. They are taken to be public, or to tell nothing about the secret.",
    ]


def _about_kept(facts: Facts) -> str:
    names = _all(list(dict.fromkeys(name for names in facts.known for name in names)))
    bins = (
        f" Of {_all(facts.kept_bins)} the representative of the bin is released, and may be known; "
        "who knows the value more finely may learn more."
        if facts.kept_bins
        else ""
    )
    return (
        f"The side information, {names}, is released without noise (theta is 0). What its values "
        "tell about a secret is part of every loss, once, however often they are released."
        f"{bins}"
    )


_NEW_VALUES = (
    "A value that fit has not seen and that has no bin is refused, or (unknown=) read as one that "
    "fit has seen, by the same rule for every row: a number as the nearest one, a category as the "
    "one named, or as the commonest one. Such rows are outside of the fitted distribution, and "
    "may tell more if the secret affects which rows these are."
)


def _about_refusals() -> str:
    return (
        "Refusals and warnings that depend on the rows are not covered. transform refuses values "
        "not seen in fit that unknown= does not move, missing values (or patterns of them) "
        "not seen in fit, and values that are not finite, not of the kind of their column or "
        'beyond the grid of the noise (in an array without missing="propagate" or "category" also '
        "in a sensitive column). A refusal names the values and counts their rows; a release tells "
        "that there are none. One warning counts the values that unknown= moves. Another one "
        "(on_drift=) names columns that are distributed otherwise than in fit, and how far. "
        "Whether fit succeeds, and its warnings, depend on its rows, too."
    )


def quiet_sentences(facts: Facts) -> list[str]:
    """Return which columns are released without noise, and on what that rests."""
    return [_quiet(facts, _all(names), way) for names, way in _quiet_ways(facts)]


def quiet_warnings(facts: Facts) -> list[str]:
    """Return the same as one warning, if any."""
    quiet = _quiet_ways(facts)
    names = [name for columns, _ in quiet for name in columns]
    way = quiet[0][1] if len(quiet) == 1 else "without it"
    return [_quiet(facts, briefly(names), way)] if names else []


def _quiet_ways(facts: Facts) -> list[tuple[Sequence[Name], str]]:
    in_bins = "as the median of their bin, without noise"
    ways = ((facts.unchanged, "unchanged"), (facts.quiet_bins, in_bins))
    return [(names, way) for names, way in ways if names]


def _quiet(facts: Facts, names: str, way: str) -> str:
    return (
        f"Column(s) {names} need no noise under this prior and are released {way}; see if "
        f"{facts.n_rows} rows (rarest secret: {facts.fewest_rows}) suffice."
    )


def worthless_sentence(utility: Sequence[ColumnUtility], *, noisy: bool = True) -> str:
    """Return the warning about columns that tell less than a constant would."""
    worse = [column for column in utility if column.worse]
    worst = max(worse, key=lambda column: (column.change_sd, column.median_change))
    figures = f" (by {worst.change_sd:.3g} sd; a constant: {worst.constant_sd:.3g})"
    way = "release fewer columns, or take PufferfishMicroaggregator" if noisy else "leave them out"
    if len(utility) == 1:
        way = "take a larger epsilon"
    return (
        f"{len(worse)} of {len(utility)} columns change more than a constant in their place would, "
        f"most {brief(worst.name)}{figures if math.isfinite(worst.change_sd) else ''}; {way}."
    )


def worthless(utility: Sequence[ColumnUtility], *, noisy: bool = True) -> list[str]:
    """Return the warning about columns that change more than a constant, if there are any."""
    worse = any(column.worse for column in utility)
    return [worthless_sentence(utility, noisy=noisy)] if worse else []


def _and_more(count: int, what: str) -> str:
    return f" ({what} {count} more)" if count else ""


def too_fine_sentence(sizes: Sequence[tuple[Name, int]], n_rows: int) -> str:
    """Return the warning about numeric columns, with so many values, that hardly repeat."""
    name, most = max(sizes, key=lambda size: size[1])
    return (
        f"column {brief(name)} has {most} distinct values in {n_rows} rows"
        f"{_and_more(len(sizes) - 1, 'and so have')}: an empirical prior is too fine for it; "
        f"bin it, as n_bins={{{brief(name)}: 5}} does."
    )


def single_rows_sentence(names: Sequence[Name], share: float, n_rows: int) -> str:
    """Return the warning about a counted distribution that is the list of rows."""
    # few rows make boosting by default surer of itself than it should be
    boosting = "HistGradientBoostingClassifier()" if n_rows >= _MANY_ROWS else MODEST
    return (
        f"{share:.0%} of the {n_rows} rows of {len(names)} columns occur once, so the counted "
        f"prior is this table; release fewer columns, or take prior={boosting}."
    )


def collapsed_sentence(
    columns: Sequence[tuple[Name, int, Sequence[float]]],
) -> str:
    """Return the warning about columns that have more values than bins, and fall into fewer."""
    name, n_bins, medians = columns[0]
    count = f"{len(medians)} bins" if len(medians) > 1 else "one bin"
    constant = f" and is released as the constant {medians[0]:g}" if len(medians) == 1 else ""
    return (
        f"column {brief(name)} falls into {count} instead of n_bins={n_bins}{constant}, as many "
        f"rows share a value{_and_more(len(columns) - 1, 'and so do')}; ask for more bins, or for "
        "none."
    )


def many_secrets_sentence(sizes: Sequence[tuple[Name, int]], n_rows: int) -> str:
    """Return the warning about sensitive columns whose values hardly repeat."""
    name, most = max(sizes, key=lambda size: size[1])
    return (
        f"sensitive column {brief(name)} has {most} values in {n_rows} rows"
        f"{_and_more(len(sizes) - 1, 'and so have')}, so that the priors are little more than "
        "single rows; group its values first."
    )


def wide_sentence(names: Sequence[Name], cells: int, worst: ColumnNoise, n_bins: int) -> str:
    """Return the warning about a group of columns too wide for the exact loss.

    ``n_bins`` is the number of bins that would be exact, or 0.
    """
    way = f"take n_bins={n_bins}" if n_bins else "release fewer columns"
    amount = f"{worst.relative:.3g} standard deviations of noise in"
    if worst.unordered:
        amount = f"{-math.expm1(-worst.theta):.0%} of the values drawn anew in"
    size = cells if cells < _LONG else f"{float(cells):.0e}" if cells < _FLOAT else "over 1e300"
    return (
        f"columns {briefly(names)} span {size} cells jointly, beyond exact losses, and get "
        f"{amount} {brief(worst.name)}; {way}."
    )


def too_large_sentence(names: Sequence[Name], points: int, limit: int, n_bins: int) -> str:
    """Return the error about a group of columns too wide for any joint coupling.

    ``n_bins`` is the number of bins that would be exact, or 0.
    """
    bins = f"n_bins={n_bins}" if n_bins else "fewer bins (n_bins)"
    return (
        f"columns {listed(names)} have up to {points} distinct joint rows to couple, more than "
        f"the {limit} that fit in memory; use {bins}, column groups (dependence=[[...], [...]]) or "
        'dependence="independent".'
    )


def too_many_rows_sentence(names: Sequence[Name], what: str) -> str:
    """Return the error about a lazy table whose distinct rows are not fetched."""
    return (
        f"columns {listed(list(names), 10)} have more different rows than are fetched from an "
        f"engine, and {what} fitted on those; fit a sample of the rows, round, bin or merge "
        "values there, or leave columns out of public=."
    )


def no_secret_message(routing: bool) -> str:
    """Return the error of `fit` without anything sensitive."""
    if routing:
        return (
            "nothing is sensitive: name the columns of X in sensitive=, or pass "
            "sensitive_features to fit after set_fit_request(sensitive_features=True)."
        )
    return (
        'nothing is sensitive: name columns of X, PufferfishNoiser(sensitive="race"), or pass '
        "them to fit, noiser.fit(X, sensitive_features=race); in a Pipeline without metadata "
        "routing that is pipeline.fit(X, y, noiser__sensitive_features=race), with the name of "
        "the step in front."
    )


def uncertified_sentence(certificate: Any) -> str:
    """Return the warning of a release without a guarantee, which was asked for."""
    return (
        f"the certificate does not hold: the proven loss {certificate.loss:.6g} exceeds the budget "
        f"{certificate.notion.budget_name()}, and this release guarantees nothing; do not hand it "
        "out."
    )


def seed_sentence(seed: Any) -> str:
    """Return the warning of `transform` under an integer seed."""
    return (
        f"random_state={seed} is for tests only: who knows it can remove the noise; use "
        "random_state=None for a release."
    )


def moved_sentence(moved: dict[Name, int]) -> str:
    """Return the warning about values that became others."""
    total, worst = sum(moved.values()), max(moved, key=lambda name: moved[name])
    others = f"{total:,}, of these " if len(moved) > 1 else ""
    return (
        f"unknown= moved values that were not seen in fit to values that were: {others}"
        f"{moved[worst]:,} in {brief(worst)}; fit on more rows, or with bins (n_bins=)."
    )


def theorem_sentence(facts: Facts) -> str:
    """Return the warning where strategy="exact" has to make do with a theorem."""
    way = "fewer secrets or values in two columns are exact"
    if facts.model is not None:
        way = "prior='empirical' with n_bins= is exact"
    return (
        f"strategy='exact' uses the best theorem{_needed(facts.least)}; {way} under Laplace noise "
        "without delta and alpha."
    )


def _needed(least: float | None) -> str:
    """Return between which parts of this noise the smallest sufficient one lies."""
    if least is None:
        return ""
    share = math.floor(100.0 * least)
    if share == 0:
        return ", which may ask for far more noise than is needed"
    return f": the smallest sufficient noise lies between {share}% and 100% of this one"


def _why_theorem(facts: Facts) -> str:
    """Return why some loss was not recomputed."""
    notion = facts.notion
    if facts.rows is not None and facts.rows.within_group == "any":
        return "Of rows that may depend on each other in any way no exact loss is known"
    if notion.leaves_events_out:
        return "Under alpha with delta the loss depends on which events are left out"
    if facts.releases > 1 and facts.noise not in _LEDGERS:
        return f"The loss of {facts.releases} releases under {facts.noise} noise is not recomputed"
    counted = facts.model is None and not facts.given_prior
    if counted and facts.noise == "laplace" and notion.is_pure:
        return "The joint grid is too large to recompute the loss"
    return f"Under {facts.noise} noise and this guarantee that loss is not recomputed"


def _all(names: Sequence[Name]) -> str:
    """Join names for a sentence that must leave none out."""
    return listed(names, len(names))


def prior_of(facts: Facts) -> str:
    """Return whose knowledge a guarantee is about, for the certificate's verdict."""
    prior = "the given prior" if facts.given_prior else "the counted prior"
    if classifiers := facts.classifiers:
        prior = f"the prior of {', and '.join(model.brief for model in classifiers)}"
    if facts.model is not None:
        prior = f"the fitted {facts.model.removeprefix('a ')} prior"
    if facts.n_adversaries > 1:
        prior += f" and {facts.n_adversaries - 1} further prior(s)"
    return f"{prior}, also to who knows {_either(facts.known)}" if facts.known else prior


def _either(known: Sequence[Sequence[Name]]) -> str:
    """Return the alternatives of side information: names of columns known together."""
    return " or ".join(" and ".join(map(shown, names)) for names in known)


def _about_prior(facts: Facts) -> str:
    """Return whose knowledge the guarantee is about."""
    n_further, n_rows, rarest = facts.n_adversaries - 1, facts.n_rows, facts.fewest_rows
    further = f", and the {n_further} further prior(s) of adversaries=" if n_further else ""
    if facts.given_prior and not facts.classifiers:
        return f"The adversary's prior is the one given in prior={further}."
    prior = "The adversary's prior, the distribution of the released columns given each secret, is"
    if facts.classifiers:
        kinds = dict.fromkeys(f"{model.model}, {model.way}" for model in facts.classifiers)
        return (
            f"{prior} what a classifier says of these {n_rows} rows ({', '.join(kinds)}), by "
            f"Bayes' rule on these rows{further}. An adversary who knows more than the classifier "
            "may learn more."
        )
    if facts.model is not None:
        return (
            f"{prior} {facts.model} fitted to these {n_rows} rows{further}. The guarantee is about "
            f"an adversary who believes this model; the rarest secret has {rarest} rows."
        )
    return (
        f"{prior} the one counted from these {n_rows} rows{further}; the rarest secret has "
        f"{rarest} rows. An adversary with another prior"
        f"{', outside the confidence set,' if facts.over_set else ''} may learn more."
    )


def _about_delta(notion: Notion) -> str:
    if not notion.is_chance:
        return (
            f"delta = {notion.delta:g} is the probability of the events about which nothing is "
            "guaranteed, for every row and every pair of secrets. It should be far below one over "
            "the number of rows."
        )
    # the converse holds: odds that move by more with a chance of delta at most keep the guarantee
    return (
        "For every row and every pair of secrets, the probability of any set of rows is at most "
        f"e^epsilon times its probability under the other secret, plus delta = {notion.delta:g}; "
        "the odds may move by more than e^epsilon with a chance above delta. Delta should be far "
        "below one over the number of rows."
    )


def _about_columns(facts: Facts) -> str:
    if len(facts.groups) == 1:
        return "The released row as a whole is protected, all its columns together."
    groups = "; ".join(f"({_all(group)})" for group in facts.groups)
    return (
        f"These groups of columns are taken as independent given the secret: {groups}. If they are "
        "not, the row as a whole may reveal more than epsilon."
    )


def decided_sentence(secrets: Sequence[Any], level: float) -> str:
    """Return the warning about secrets with too few rows."""
    return (
        f"secret(s) {briefly(secrets)} have so few rows that the {level:.0%} confidence set says "
        'nothing of them, and the noise is that of strategy="sensitivity"; group rare secrets.'
    )


def no_set_sentence(reason: str) -> str:
    """Return the warning where the loss over the confidence set is not computable."""
    return (
        f"the loss over the confidence set is not computable here ({reason}), so that the noise is "
        'that of strategy="sensitivity"; use fewer columns or bins.'
    )


_LEDGERS = {"laplace": ("1/theta", "k"), "gaussian": ("1/theta^2", "sqrt(k)")}


def _about_releases(noise: str, releases: int) -> str:
    if noise not in _LEDGERS:
        return (
            "The guarantee is for one release. A second one of the same rows tells more, and how "
            f"releases add up under {noise} noise is not known: each column may be released once. "
            "Laplace and Gaussian noise have releases=k."
        )
    precision, times = _LEDGERS[noise]
    count = "one release."
    budget = (
        f"the budget is spent when the sum exceeds {precision} of this certificate. k releases "
        f"need {times} times the noise."
    )
    if releases > 1:
        count = f"{releases} releases of the same rows together, by this noiser, and no more."
        budget = f"the guarantee allows {releases} times {precision} of this certificate."
    return (
        f"The guarantee is for {count} Noisy releases of the same rows add up: their precisions "
        f"{precision} are summed, column by column, and {budget} This is proven for releases of "
        "the same values on the same grid. Other bins or another grid start no new budget, and "
        "this sum does not cover them."
    )


def _about_kernels(facts: Facts) -> str:
    """Return how releases of columns without an order add up, for which no precisions do."""
    names = [column.name for column in facts.columns if column.unordered and column.theta > 0.0]
    if not names or facts.noise not in _LEDGERS:
        return ""
    return (
        f" For {_all(names)}, without an order, log(1 + (1 - rho) / (rho q)) is summed instead; q "
        "is the smallest share of a value among those drawn anew. So many times theta may be too "
        "little there: releases=k or a ledger finds what is needed."
    )


def marked_risks(assumptions: Sequence[str]) -> list[str]:
    """Return the assumptions that take something out of the guarantee, the gravest first."""
    marks = ("NOTHING is guaranteed", "does NOT cover that", "NOT protected")
    return [said for mark in marks for said in assumptions if mark in said]


def printed(assumptions: Sequence[str]) -> list[str]:
    """Return those that apply to every release: a certificate does not know who will have a key."""
    return [said for said in assumptions if said != KEYED]


ONLY_LISTED = (
    "Pairs of secrets that secret_pairs= does not list are NOT protected: a release may tell such "
    "secrets apart for certain."
)


def about_listed(secret_pairs: Any) -> list[str]:
    """Return what a certificate says of pairs of secrets that are not listed."""
    return [] if isinstance(secret_pairs, str) else [ONLY_LISTED]


PRIOR = "The prior is how the released columns are distributed given each secret."
AWAITED = (
    "Adversaries whose prior differs from it by sampling error may learn more: "
    "certificate_.over_set computes the loss over all priors in the 95% confidence set, which "
    "takes a while on so many cells, and then it stands here."
)


ABOUT_MIXING = (
    "; of an unordered column theta is -log(1 - rho): with a chance of rho = 1 - e^-theta a value "
    "is drawn anew, whatever it was, from the shares that all rows together have"
)


def about_theta(noise: str) -> str:
    """Return what theta and the words beside it mean."""
    meaning = f": {FAMILIES[noise].scale_means}" if noise in FAMILIES else ""
    return (
        f"theta is the scale of the noise in the column's unit{meaning}; std is the column's "
        "standard deviation"
    )


def made_line(version: str, date: str, rows: str, n_columns: int | None) -> str:
    """Return by which version, when, and on how much data something was fitted."""
    columns = "" if n_columns is None else f" and {n_columns} columns"
    by = f" by sklearn_puffer {version}" if version else ""
    return f"Fitted{by}{f' at {date}' if date else ''} on {rows}{columns}."


def over_set_sentence(over: SetLoss | None, notion: Notion) -> str:
    """Return what is lost under other priors than the fitted one, in a sentence."""
    if over is None:
        return (
            "Adversaries whose prior differs from it, for instance by sampling error, may learn "
            "more; that is not computed here."
        )
    if over.estimate:
        around = f"{over.level:.0%} of the priors drawn around the fitted ones lose at most about"
        kind = " (an ESTIMATE, not a bound)"
    else:
        around = (
            "Over all priors on the values seen or declared, in the simultaneous "
            f"{over.level:.0%} confidence set around the counted ones, the loss is at most"
        )
        kind = ""
    kept = "the budget is kept for them"
    if over.loss > notion.budget:
        kept = (
            "the guarantee is NOT made to adversaries with such a prior "
            '(adversaries="confidence" makes it)'
        )
    split = ""
    if over.share < 0.995:  # which would show as all of it
        split = (
            f"; the fitted prior alone asks for {over.share:.0%} of theta, and sampling error for "
            "the rest"
        )
    return f"{around} {short_number(over.loss)} at these scales{kind}, so that {kept}{split}."


def about_pairs(notion: Notion) -> str:
    unit = "delta" if notion.is_chance else "nats"
    return (
        f"the exact loss, in {unit}, lies between lower and upper; recomputed: both were found "
        "without the strategy; theorem: upper is what a theorem guarantees, and may be far above"
    )
