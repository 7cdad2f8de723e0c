"""What the certificate and the warnings of `fit` say, in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sklearn_puffer._certificates.certificate_figures import ColumnUtility, PairLoss, SetLoss
from sklearn_puffer._tables import Name
from sklearn_puffer._words import brief, briefly, listed, short_number, shown
from sklearn_puffer.notions import Notion


def about_passed(names: Sequence[Name]) -> str:
    """Return the assumption about columns that are passed through."""
    return (
        f"{listed(names, len(names))} are passed through and NOT protected: all that they tell "
        "about a secret is released."
    )


def about_seed(seed: int, drawn: str, undone: str) -> str:
    """Return the assumption about a seed, with which ``drawn`` can be repeated."""
    return (
        f"random_state={seed} makes the {drawn} reproducible: who knows the seed can {undone}. "
        "NOTHING is guaranteed outside tests."
    )


def worthless(utility: Sequence[ColumnUtility], *, noisy: bool = True) -> list[str]:
    """Return the warning about columns that change more than a constant, if there are any."""
    worse = [column for column in utility if column.worse]
    if not worse:
        return []
    worst = max(worse, key=lambda column: (column.change_sd, column.median_change))
    figures = f" (by {worst.change_sd:.3g} sd; a constant: {worst.constant_sd:.3g})"
    most = f"{brief(worst.name)}{figures if math.isfinite(worst.change_sd) else ''}"
    one = len(worse) == 1
    if len(utility) == 1:
        way = "take a larger epsilon"
    elif noisy:
        way = "release fewer columns, or take PufferfishMicroaggregator"
    else:
        way = "leave it out" if one else "see utility_, and leave them out"
    if one:
        return [f"column {most} changes more than a constant in its place would; {way}."]
    return [
        f"{len(worse)} of {len(utility)} columns change more than a constant in their place would, "
        f"most {most}; {way}."
    ]


def uncertified_sentence(certificate: Any) -> str:
    """Return the warning of a release whose certificate does not hold."""
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


def marked_risks(assumptions: Sequence[str]) -> list[str]:
    """Return the assumptions that limit the guarantee, the gravest first."""
    marks = ("NOTHING is guaranteed", "does NOT cover that", "NOT protected", "are NOT covered")
    return [said for mark in marks for said in assumptions if mark in said]


_OF_ROWS = (
    "need no noise under this prior",
    "are a secret of their own",
    "claims certainty (a probability",
    "smaller probabilities are not covered",
)


def found_in_rows(assumptions: Sequence[str]) -> list[str]:
    """Return the assumptions that say what was found in the fitted rows."""
    return [said for said in assumptions if any(mark in said for mark in _OF_ROWS)]


ONLY_LISTED = (
    "Pairs of secrets that secret_pairs= does not list are NOT protected: a release may tell such "
    "secrets apart for certain."
)


def about_listed(secret_pairs: Any) -> list[str]:
    """Return what a certificate says of pairs of secrets that are not listed."""
    return [] if isinstance(secret_pairs, str) else [ONLY_LISTED]


COARSE_SECRETS = "Secrets are bins or merged values"
"""How the sentence begins that says so, in certificates of earlier versions, too."""
_WITHIN = (
    f"{COARSE_SECRETS}: values within one of them are NOT protected against each other, and a "
    "release may tell them apart for certain."
)


def about_coarse(sensitive: Any, secret_groups: Any) -> list[str]:
    """Return what a certificate says of secrets in bins, or of merged ones.

    >>> about_coarse("income", None), len(about_coarse({"income": [49]}, None))
    ([], 1)
    """
    bins = sensitive.values() if isinstance(sensitive, Mapping) else ()
    return [_WITHIN] * (secret_groups is not None or any(each is not None for each in bins))


def about_finer(coarse: Sequence[Name]) -> list[str]:
    """Return what a certificate says of known columns that are released in bins or merged."""
    if not coarse:
        return []
    return [
        f"Readers who know {listed(coarse, len(coarse))} more finely than in bins (or merged), as "
        "it is released, are NOT covered: a row may tell them its secret for certain."
    ]


def about_apart(pairs: Sequence[PairLoss]) -> list[str]:
    """Return which combinations of columns are no secrets, where there are several secrets."""
    kinds = {pair.sensitive: type(pair.secret) for pair in pairs}
    combined = [name for name, kind in kinds.items() if kind is tuple]
    but = f", but for {listed(combined, len(combined))}" if combined else ""
    told = (
        f"Combinations of several sensitive columns are not secrets{but}; each of "
        f"{listed(list(kinds), len(kinds))} is protected by itself."
    )
    return [told] * (len(kinds) > 1)


BY_THEMSELVES = "; known columns may tell secrets by themselves"
"""What the first line for recipients says where known columns come out as they are."""
_MANY_ALONE = 0.05  # share of people in strata of one secret, above which the headline says so


def about_one_secret(share: float, who: str = "people") -> str:
    """Return the end of a headline about people whose known values tell their secret.

    >>> about_one_secret(1.0), about_one_secret(0.01)
    ('; but 100% of the people are in strata of one secret, which tell it', '')
    """
    told = f"; but {share:.0%} of the {who} are in strata of one secret, which tell it"
    return told if share > _MANY_ALONE else ""


def one_secret_warnings(share: float, known: Sequence[Name], who: str = "people") -> list[str]:
    """Return the warning about them, where they are the most."""
    if share <= 0.5:
        return []
    return [
        f"known columns {briefly(known)} tell the secret of {share:.0%} of the {who} by "
        "themselves, whatever is released beside them; merge their values, or leave them out."
    ]


def about_own_rows(own: float, ids: Sequence[Name], known: Name) -> list[str]:
    """Return what to decide where a share of the people keep their own row, beside these ids.

    Who knows one more fact, such as the column ``known``, sees which of them do.

    >>> [said[:16] for said in about_own_rows(0.6, ["client"], "age")]
    ['One more fact: w', 'Ids: whether cli']
    """
    names, share = ", ".join(map(shown, ids)), f"{100.0 * own:.0f} %"
    told = (
        f"One more fact: who finds a person's row, by {names or 'known columns'}, the index or the "
        f"order, and knows one more fact, such as {shown(known)} or a label joined later, sees if "
        f"it is that person's own, as {share} are; NO limit holds for him, and with a list of "
        "secrets he may be nearly certain. Name such columns as known, leave out what finds a row, "
        "or do not release."
    )
    if not ids:
        return [told]
    about_ids = (
        f"Ids: whether {names} may go out at all: {share} of the rows beside them are that "
        "person's own. Do they tell something, as numbers given by date do? They are NOT protected."
    )
    return [told, about_ids]


_MOST_EPSILON = 10.0  # odds that may shift by more than e^10 = 22,000 times are not protected


def about_large(epsilon: float) -> list[str]:
    """Return what a certificate says of a budget that is as good as none.

    >>> about_large(1.0), len(about_large(1000.0))
    ([], 1)
    """
    if epsilon <= _MOST_EPSILON:
        return []
    return [
        f"epsilon = {epsilon:g} lets odds shift by a factor of e^{epsilon:g}, by which NOTHING is "
        f"guaranteed in effect; take 1, or {_MOST_EPSILON:g} at most."
    ]


PRIOR = "The prior is how the released columns are distributed given each secret."
AWAITED = (
    "Adversaries whose prior differs from it by sampling error may learn more. The loss over all "
    "priors in the 95% confidence set (over_set) is computed when it is asked for, which takes a "
    "while on so many cells, and then it stands here."
)


def made_line(version: str, date: str, rows: str, n_columns: int | None) -> str:
    """Return by which version, when, and on how much data something was fitted."""
    columns = "" if n_columns is None else f" and {n_columns} columns"
    by = f" by sklearn_puffer {version}" if version else ""
    return f"Fitted{by}{f' at {date}' if date else ''} on {rows}{columns}."


def over_set_sentence(over: SetLoss | None, notion: Notion) -> str:
    """Return the loss over the set of priors around the fitted one, in a sentence."""
    if over is None:
        return (
            "Adversaries whose prior differs from it, for instance by sampling error, may learn "
            "more; that is not computed here."
        )
    around = (
        "Over all priors on the values seen or declared, in the simultaneous "
        f"{over.level:.0%} confidence set around the counted ones, the loss is at most"
    )
    kept = "the budget is kept for them"
    if over.loss > notion.budget:
        kept = (
            "the guarantee is NOT made to adversaries with such a prior (a fit against the "
            "confidence set makes it)"
        )
    split = ""
    if over.share < 0.995:  # which would show as all of it
        split = (
            f"; the fitted prior alone asks for {over.share:.0%} of theta, and sampling error for "
            "the rest"
        )
    return f"{around} {short_number(over.loss)} at these scales, so that {kept}{split}."
