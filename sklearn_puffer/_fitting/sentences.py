"""What the certificate and the warnings of `fit` say, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn_puffer._validation import listed
from sklearn_puffer.certificate import ColumnNoise, SetLoss
from sklearn_puffer.frame import Name
from sklearn_puffer.notions import Notion, Pufferfish


@dataclass(frozen=True)
class Facts:
    """What the sentences depend on."""

    sensitive: Sequence[Name]
    groups: Sequence[Sequence[Name]]
    columns: Sequence[ColumnNoise]
    unchanged: Sequence[Name]
    binned: Sequence[Name]
    passed: Sequence[Name]
    propagated: Sequence[Name]
    n_rows: int
    fewest_rows: int
    releases: int
    given_prior: bool
    model: str | None
    n_adversaries: int
    theorem: bool
    noise: str
    notion: Notion
    over_set: SetLoss | None
    seed: int | None


def assumptions_of(facts: Facts) -> list[str]:
    """Return under which conditions the promise holds, and what it does not cover."""
    said = [
        _about_prior(facts),
        _about_set(facts),
        "Rows are independent of each other: what one person's row tells about another person is "
        "not covered.",
        "theta, this table and the priors are functions of the same rows as the release; nothing "
        "is promised about what these numbers themselves reveal.",
        _about_columns(facts),
        "Each protected secret is one value of one sensitive column "
        f"({_all(facts.sensitive)}); combinations of several sensitive columns are not secrets.",
        _about_releases(facts.noise, facts.releases),
        f"Only column(s) {_all([c.name for c in facts.columns])} are protected, and only as "
        "released by this noiser without a random_state; the number of rows, their order, their "
        "index and the types of the columns are handed through.",
    ]
    if facts.unchanged:
        said.append(unchanged_sentence(facts))
    if facts.binned:
        said.append(
            f"{_all(facts.binned)} are released as the representative of their bin, plus noise; "
            "the promise is about that representative."
        )
    if facts.passed:
        said.append(
            f"{_all(facts.passed)} are passed through and NOT protected: whatever they tell about "
            "a secret is told."
        )
    if facts.propagated:
        said.append(
            f"Which values of {_all(facts.propagated)} are missing is released as it is and NOT "
            "protected; the promise is about what the values add to that pattern."
        )
    if facts.theorem:
        said.append(
            f"{_why_theorem(facts)}: the upper ends marked theorem are a proven bound, not the "
            "exact loss."
        )
    if facts.seed is not None:
        said.append(
            f"random_state={facts.seed} makes the noise reproducible, so whoever knows the seed "
            "can remove it: NOTHING is promised outside tests."
        )
    if facts.notion.delta > 0.0:
        said.append(_about_delta(facts.notion))
    return said


def unchanged_sentence(facts: Facts) -> str:
    """Return the warning about columns that are released without noise."""
    return (
        f"Column(s) {_all(facts.unchanged)} need no noise under this prior and are released "
        f"unchanged (theta is 0); that trust rests on {facts.n_rows} rows, of which the rarest "
        f"secret has {facts.fewest_rows}."
    )


def too_fine_sentence(name: Name, n_atoms: int, n_rows: int) -> str:
    """Return the warning about a numeric column whose values hardly repeat."""
    return (
        f"column {name!r} has {n_atoms} distinct values in {n_rows} rows: an empirical prior is "
        "too fine for it and asks for much noise; pass n_bins, for example "
        f"n_bins={{{name!r}: 5}}."
    )


def identifier_sentence(name: Name, n_atoms: int, n_rows: int) -> str:
    """Return the error about a string column that looks like an identifier."""
    return (
        f"column {name!r} has {n_atoms} distinct strings in {n_rows} rows and looks like an "
        "identifier; drop it from X, or list it in public= if it is to be released."
    )


def many_secrets_sentence(name: Name, n_values: int, n_rows: int) -> str:
    """Return the warning about a sensitive column whose values hardly repeat."""
    return (
        f"sensitive column {name!r} has {n_values} values in {n_rows} rows: with so few rows a "
        "value, the priors are little more than single rows; group its values first."
    )


def wide_sentence(
    names: Sequence[Name], cells: int, limit: int, bins: int, worst: ColumnNoise
) -> str:
    """Return the warning about a group of columns too wide for the exact loss."""
    exact = f"n_bins={bins} would be exact; otherwise use" if bins > 1 else "Use"
    ways = f"{exact} column groups or independence (dependence=), or drop columns."
    return (
        f"columns {listed(names)} span {cells} cells jointly, more than the {limit} up to which "
        "the loss is exact; the tightest proven bound is used instead, with noise of "
        f"{worst.relative:.2f} standard deviations in column {worst.name!r}. {ways}"
    )


def too_large_sentence(names: Sequence[Name], points: int, limit: int) -> str:
    """Return the error about a group of columns too wide for any joint coupling."""
    return (
        f"columns {listed(names)} have up to {points} distinct joint rows to couple, more than "
        f"the {limit} that fit in memory; use fewer bins (n_bins), column groups "
        '(dependence=[[...], [...]]) or dependence="independent".'
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


def seed_sentence(seed: Any) -> str:
    """Return the warning of `transform` under an integer seed."""
    return (
        f"random_state={seed} is for tests only: whoever knows it can remove the noise; use "
        "random_state=None for a release."
    )


def moved_sentence(moved: dict[Name, int]) -> str:
    """Return the warning about values moved to the nearest known one."""
    listing = ", ".join(f"{count} in {name!r}" for name, count in moved.items())
    return (
        f'unknown="nearest" moved values that were not seen in fit to the nearest ones: {listing}.'
    )


def _why_theorem(facts: Facts) -> str:
    """Return why some loss was not recomputed."""
    notion = facts.notion
    if notion.delta > 0.0 and notion.budget == notion.epsilon:
        return "Under alpha with delta the loss depends on which events are left out"
    if facts.releases > 1 and facts.noise not in _LEDGERS:
        return f"The loss of {facts.releases} releases under {facts.noise} noise is not recomputed"
    counted = facts.model is None and not facts.given_prior
    if counted and facts.noise == "laplace" and isinstance(notion, Pufferfish) and notion.adds_up:
        return "The joint grid is too large to recompute the loss"
    return (
        f"Under {facts.noise} noise and this promise the loss of such joint rows is not recomputed"
    )


def _all(names: Sequence[Name]) -> str:
    """Join names for a sentence that must leave none out."""
    return listed(names, len(names))


def _about_prior(facts: Facts) -> str:
    others = facts.n_adversaries - 1
    further = f", and the {others} further prior(s) of adversaries=" if others else ""
    if facts.given_prior:
        return f"The adversary's prior is the one given in prior={further}."
    if facts.model is not None:
        return (
            "The adversary's prior, the law of the released columns given each secret, is "
            f"{facts.model} fitted to these {facts.n_rows} rows{further}; it is a model: the "
            "promise is about an adversary who believes it, and the rarest secret has "
            f"{facts.fewest_rows} rows."
        )
    return (
        "The adversary's prior, the law of the released columns given each secret, is the one "
        f"counted from these {facts.n_rows} rows{further}; the rarest secret has "
        f"{facts.fewest_rows} rows, and an adversary who knows another law may learn more."
    )


def _about_delta(notion: Notion) -> str:
    low = "it should be far below one over the number of rows."
    if notion.budget == notion.epsilon:
        return (
            f"delta = {notion.delta:g} is the probability of the events about which nothing is "
            f"promised, for every row and every pair of secrets; {low}"
        )
    # the converse holds: odds that move by more with a chance of delta at most keep the promise
    return (
        f"delta = {notion.delta:g} is what the probability of any set of rows may exceed e^epsilon "
        "times its probability under the other secret by, for every row and every pair of "
        "secrets; the odds may move by more than e^epsilon with a chance above delta. "
        f"{low.capitalize()}"
    )


def _about_columns(facts: Facts) -> str:
    if len(facts.groups) == 1:
        return "The released row as a whole is protected, all its columns together."
    groups = "; ".join(f"({_all(group)})" for group in facts.groups)
    return (
        "The adversary takes these groups of columns as independent of each other given the "
        f"secret: {groups}. If they are not, the row as a whole may reveal more than epsilon."
    )


def _about_set(facts: Facts) -> str:
    over = facts.over_set
    if over is None:
        return (
            "What adversaries learn whose prior differs from it, for instance by sampling error, "
            "is not computed here and may be more."
        )
    within = "within" if over.loss <= facts.notion.budget else "ABOVE"
    if over.estimate:
        around = f"{over.level:.0%} of the priors drawn around the fitted ones lose at most about"
        kind = " (an ESTIMATE, not a bound)"
    else:
        around = (
            "Over all priors on the values seen or declared, in the simultaneous "
            f"{over.level:.0%} confidence set around the counted ones, the loss is at most"
        )
        kind = ""
    return (
        f"{around} {over.loss:.6g} at these scales{kind}, {within} the budget; the fitted prior "
        f"alone asks for {over.share:.0%} of theta, and sampling error for the rest."
    )


def decided_sentence(secrets: Sequence[Any], level: float) -> str:
    """Return the warning about secrets with too few rows."""
    return (
        f"secret(s) {_all(secrets)} have so few rows that the {level:.0%} confidence set says next "
        'to nothing about them, and the noise is that of strategy="sensitivity"; group rare '
        "secrets, use fewer bins or categories, or fit on more rows."
    )


def no_set_sentence(reason: str) -> str:
    """Return the warning where the loss over the confidence set is not computable."""
    return (
        f"the loss over the confidence set is not computable here ({reason}); the noise is that of "
        'strategy="sensitivity", which serves every prior over the same values.'
    )


_LEDGERS = {"laplace": ("1/theta", "k"), "gaussian": ("1/theta^2", "sqrt(k)")}


def _about_releases(noise: str, releases: int) -> str:
    promised = "The promise is for one release."
    if releases > 1:
        promised = (
            f"The promise is for {releases} releases of the same rows together, by this noiser; "
            "nothing is promised about a further one."
        )
    if noise not in _LEDGERS:
        if releases > 1:
            return (
                f"{promised} Under {noise} noise the losses of a shift add up over releases, in a "
                "bound along one coupling of the laws; with alpha, for scales that do not depend "
                "on earlier releases."
            )
        return (
            f"{promised} Several noisy releases of the same rows under {noise} noise reveal more; "
            'releases=k with strategy="distribution_aware" or "wasserstein" plans for k of them.'
        )
    precision, times = _LEDGERS[noise]
    if releases > 1:
        return (
            f"{promised} Noisy releases of the same rows add up: their precisions {precision} are "
            f"summed, column by column, and {releases} times {precision} of this certificate is "
            "what the promise allows. That is proven for releases of the same values on the same "
            "grid: other bins or another grid start no new budget, and this sum does not cover "
            "them."
        )
    return (
        f"{promised} Noisy releases of the same rows add up: their precisions "
        f"{precision} are summed, column by column, and the budget is spent when the sum exceeds "
        f"{precision} of this certificate; k releases need {times} times the noise. That is proven "
        "for releases of the same values on the same grid: other bins or another grid start no new "
        "budget, and this sum does not cover them."
    )
