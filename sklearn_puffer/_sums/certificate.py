"""What a sum over users promises: its certificate, in sentences, and how its answers add up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sklearn_puffer._base import Section, __version__, short_number, shown, utc_now
from sklearn_puffer._releases import (
    Certificate,
    ColumnNoise,
    PairLoss,
    Precisions,
    Refused,
    Rule,
    jsonable,
)
from sklearn_puffer._sums.answers import Answers, SumOfUsers
from sklearn_puffer._sums.reports import Reporters, is_always_there

UNCHANGED = (
    "no noise is needed under these laws (theta is 0), and the answer is released unchanged; that "
    "trusts the laws most of all."
)


@dataclass(frozen=True)
class SumCertificate(Certificate):
    """The certificate of answers to a sum, mean or count: see `Certificate`.

    Attributes
    ----------
    worst : float
        A bound on the loss to whoever knows the other users' reports, in the unit of the budget.
    """

    worst: float = math.inf

    def promise(self) -> str:
        """Return the promise in one sentence."""
        if not self.holds:
            return super().promise()
        secrets = "secrets about one user"
        if self.pairs[0].sensitive != "user":
            by = shown(self.pairs[0].sensitive)
            secrets = f"secrets about one class of {by}"
            if self.dependence == "independent users":
                secrets = f"secrets about one user (by {by})"
        told = self.notion.promise().replace("secrets", secrets)
        seen = f"{self.releases} answers together" if self.releases > 1 else "an answer"
        return f"Whoever sees {seen}, and knows the law of everybody's report, can {told}."

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain Python values, for JSON."""
        return {**super().to_dict(), "worst": jsonable(self.worst)}

    def _beyond(self) -> str:
        if not self.holds:
            return ""
        kept = ", and" if self.worst <= self.notion.budget else ", but NOT"
        return f"{kept} for whoever knows other users' reports: {short_number(self.worst)}"

    def _glossary(self) -> list[str]:
        return [
            "The law of a report is how probable each of its values is; all laws together are the "
            "prior, what somebody may know before the answer. Odds are those between two secrets, "
            "before and after the answer."
        ]

    def _about_noise(self) -> str:
        return (
            "theta is the scale of the noise in an answer's unit: its mean absolute value; std is "
            "the standard deviation of the true answer under these laws; grid is the distance "
            "between neighbouring answers"
        )

    def _further_sections(self) -> list[Section]:
        return []


def sum_certificate(system: SumOfUsers, who: Reporters, answers: Answers) -> SumCertificate:
    """Return the certificate, with both directions of every pair, and no fingerprint yet."""
    settings = answers.settings
    rows = tuple(
        row for k in range(len(system.asked)) for row in _both_ways(system, who, answers, k)
    )
    column = ColumnNoise(
        settings.query if who.source is None else f"{settings.query} of {who.source.value}",
        answers.each,
        who.deviation * answers.unit,
        False,
        answers.grid * answers.unit,
    )
    return SumCertificate(
        epsilon=settings.notion.epsilon,
        delta=settings.notion.delta,
        loss=answers.loss,
        pairs=rows,
        columns=(column,),
        assumptions=_assumptions(system, who, answers),
        strategy=settings.strategy,
        noise="laplace",
        dependence="classes of independent users" if settings.together else "independent users",
        n_rows=who.n_reports,
        releases=settings.releases,
        rule=_rule(answers, column.name),
        prior="the given laws" if who.source is None else "the counted laws",
        version=__version__,
        date=utc_now(),
        worst=answers.worst,
    )


def _both_ways(system: SumOfUsers, who: Reporters, answers: Answers, k: int) -> list[PairLoss]:
    asked, losses = system.asked[k], answers.losses
    return [
        PairLoss(
            who.sensitive,
            secret,
            against,
            0,
            _promised(answers, k, way),
            float(losses.lower[k, way]),
            answers.of_samples(float(losses.upper[k, way])),
            "recomputed" if losses.recomputed[k] else "theorem",
        )
        for way, (secret, against) in enumerate(
            [(asked.secret, asked.against), (asked.against, asked.secret)]
        )
    ]


def _promised(answers: Answers, k: int, way: int) -> float:
    """Return what the strategy promises; a published condition promises the budget."""
    ends = {"exact": answers.losses.upper, "worst_case": answers.losses.worst}
    if answers.settings.strategy in ends:
        return answers.of_samples(float(ends[answers.settings.strategy][k, way]))
    return answers.settings.notion.budget


def _rule(answers: Answers, name: str | int) -> Rule:
    """Return how answers from the same reports add up."""
    if answers.loss > answers.settings.notion.budget:
        return Refused("The certificate does not hold, so that nothing may be released.")
    scales = {name: answers.certified}
    return Precisions.of_scales(1, scales, answers.settings.draws if answers.theta > 0.0 else None)


# ----------------------------------------------------------------------------------- the sentences


def _assumptions(system: SumOfUsers, who: Reporters, answers: Answers) -> list[str]:
    settings = answers.settings
    said = [
        _about_laws(system, who),
        _about_presence(who),
        _about_others(answers),
        _about_unit(system, answers),
        _about_rounding(system, who, answers),
        _about_releases(settings.releases),
        _about_refusals(system, who),
    ]
    if settings.notion.delta > 0.0:
        said.append(
            f"delta = {settings.notion.delta:g} is what the probability of any set of answers may "
            "exceed e^epsilon times its probability under the other secret by; it should be far "
            "below one over the number of users."
        )
    if settings.query == "mean":
        said.append(
            f"The number of reports n = {who.n_reports} that the sum is divided by is public, and "
            "does not change when a user is absent."
        )
    if not (system.bounded or answers.losses.recomputed.all()):
        said.append(
            "The upper ends marked theorem are losses without some or all of the other users, who "
            "never raise a loss; those for the given users are no larger, and were not computed."
        )
    if answers.theta == 0.0:
        said.append(f"N{UNCHANGED[1:]}")
    if settings.seed is not None:
        said.append(
            f"random_state={settings.seed} makes the noise reproducible, so whoever knows the seed "
            "can remove it: NOTHING is promised outside tests."
        )
    return said


def _about_laws(system: SumOfUsers, who: Reporters) -> str:
    if not system.whole:
        return (
            "The adversary's prior of each user's report is the Gaussian law given for that user. "
            "It trusts that the laws are Gaussian: the central limit theorem is no proof of it."
        )
    if who.source is None:
        return "The adversary's prior of each user's report is the law given for that user."
    return (
        "The adversary's prior of each report is the law of its class, counted from these "
        f"{who.n_reports} rows; an adversary who knows another law may learn more. theta, this "
        "table and the laws are functions of the same rows as the answer; nothing is promised "
        "about what these numbers themselves reveal."
    )


def _about_presence(who: Reporters) -> str:
    known = "who the users are, and with which laws and presences"
    if who.source is not None:
        known = "how many rows there are of each class"
    independent = f"What is public is {known}. The reports are independent of each other."
    there = [is_always_there(user, who.secrets) for user in who.users]
    if all(there):
        return (
            f"{independent} Everybody but the user in question is present, and their reports are "
            "unknown to the adversary."
        )
    absent = "Anybody may be absent, and the reports of those present"
    if any(there):
        absent = (
            "Users whose presence is below 1 may be absent, all others but the user in question "
            "are present, and their reports"
        )
    return (
        f"{independent} {absent} are unknown to the adversary. The loss is the "
        "largest over all sets of absent users, who may be known to the adversary; the "
        "probabilities of these sets multiply the chances of an answer under either secret alike, "
        "and cancel."
    )


def _about_refusals(system: SumOfUsers, who: Reporters) -> str:
    """Return which refusals depend on what is protected."""
    wrong = "a report that is not finite"
    if system.whole:
        wrong = "a report that the law of its user (or class) does not have"
    absent = "; a missing report is never refused"
    if any(is_always_there(user, who.secrets) for user in who.users):
        wrong += ", and a missing report of a user whose presence is 1"
        absent = "; presence= below 1 allows absence"
    further = ""
    if who.source is not None:
        wrong += ", and classes that have other numbers of rows than in fit" * bool(who.source.by)
        further = " Whether fit succeeds depends on its rows, too."
    return (
        "Whether there is an answer, its noise and this certificate depend on nothing protected, "
        f"but for reports that contradict what was declared: {wrong}. Such a refusal is not "
        f"covered: whoever sees it learns of that report{absent}.{further}"
    )


def _about_others(answers: Answers) -> str:
    notion = answers.settings.notion
    loss = "the loss is at most" if notion.delta == 0.0 else "delta is at most"
    unit = " nats" if notion.delta == 0.0 else ""
    kept = "so that the budget is kept for them too"
    if answers.worst > notion.budget:
        kept = 'so that the promise is NOT made to them (strategy="worst_case" makes it)'
    return (
        "To whoever knows other users' reports, or is told them by users who collude, "
        f"{loss} {answers.worst:.6g}{unit}, whatever the other users report, {kept}."
    )


def _about_unit(system: SumOfUsers, answers: Answers) -> str:
    if not answers.settings.together:
        return (
            "A user is one report, drawn once from its law: this is no promise about all the users "
            "of a class at once, who may lose as many times as much as there are of them."
        )
    if not system.bounded:
        return (
            "All the users of a class are present, absent or changed together; the loss stated is "
            "that of all of them."
        )
    if answers.losses.recomputed.all():
        kind = "and that is the loss itself"
    else:
        kind = "which is a bound where the reports of a class have both signs, or two laws"
    return (
        "All the users of a class leave or change together; the loss stated is their number times "
        f"that of one of them in the worst case, {kind}."
    )


def _about_rounding(system: SumOfUsers, who: Reporters, answers: Answers) -> str:
    if system.whole:
        return f"Reports are rounded half up to multiples of {who.step:g} before they are summed."
    if answers.theta == 0.0:
        return "The sum is released as the float nearest to it."
    return (
        "The exact sum of the reports is rounded half up to the grid of the noise; what that may "
        "tell is part of the loss."
    )


def _about_releases(releases: int) -> str:
    same = (
        "That is proven for the same query and the same reports, with the same users absent: "
        "another query of them, such as a mean beside a sum, or another step, starts no new "
        "budget, and this sum does not cover it."
    )
    if releases > 1:
        return (
            f"The promise is for {releases} answers from the same reports, all of them together; "
            "nothing is promised about a further one. Their precisions 1/theta are summed, and "
            f"{releases} times 1/theta of this certificate is what the promise allows. {same}"
        )
    return (
        "The promise is for one release. Noisy releases of the same reports add up: their "
        "precisions 1/theta are summed, and the budget is spent when the sum exceeds 1/theta of "
        f"this certificate; k releases need k times the noise, and releases=k plans for them. "
        f"{same}"
    )
