"""What the first page of a report tells at once: what is kept, and what attacks found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sklearn_puffer._base import Bar, Bars, Section, percent_at_most, shown, times
from sklearn_puffer._release import Certificate
from sklearn_puffer._review.findings import Audit
from sklearn_puffer.notions import Notion


def bounds_odds(certificate: Certificate) -> bool:
    """Return whether no odds shift further, not with a small chance or in a mean alone."""
    return certificate.delta == 0.0 and certificate.alpha is None


def promise_picture(notion: Notion) -> Bars:
    """Return how well a reader may guess which of two secrets it is, before and after."""
    most = notion.best_guess()
    rows = [
        Bar("before the release", 0.5, percent_at_most(0.5)),
        Bar("after it, at most", most, percent_at_most(most)),
    ]
    return Bars("Chance of naming one of two equally probable secrets rightly", rows)


_FIGURE = "Best attack found"
_SCORES = ("AUC on true rows", "R2 on true rows")


def first_figures(certificate: Certificate, audit: Audit | None) -> tuple[Section, tuple[str, ...]]:
    """Return the figures, with their picture, and the names of those that ask for attention."""
    cells = [
        ["figure", "value", "beside it"],
        *_kept(certificate.utility),
        *_distinct(certificate),
        *_whole(certificate),
        _attack(audit, certificate),
        _task(audit),
    ]
    calm = audit is not None and audit.attacks and audit.caught and not audit.findings
    picture = promise_picture(certificate.notion) if certificate.holds else None
    if audit is not None and audit.attacks:
        picture = audit._picture()
    section = Section("At a glance", cells=cells, picture=picture)
    return section, () if calm else (_FIGURE,)


def _kept(utility: Sequence[Any]) -> list[list[str]]:
    """Return how much values change, beside constants, and how many stay."""
    change, constant, stay = means(utility, "change_sd", "constant_sd", "unchanged")
    beside = f"sd: standard deviations; a constant in each place: {constant:.2f} sd"
    return [
        ["Mean change", f"{change:.2f} sd", beside],
        ["Values that stay equal", f"{stay:.1%}", "of all values, on average"],
    ]


def means(utility: Sequence[Any], *names: str) -> tuple[float, ...]:
    return tuple(
        math.fsum(getattr(column, name) for column in utility) / max(len(utility), 1)
        for name in names
    )


def _distinct(certificate: Any) -> list[list[str]]:
    """Return how many different rows are released, where the certificate tells."""
    typical = getattr(certificate, "prototypes", None)
    if typical is None or typical.drawn is not None:  # whose columns are drawn one by one
        return []
    beside = f"at most, each typical of {typical.smallest} fitted rows or more"
    if typical.strata is not None:
        beside += "; beside known columns"
    return [["Different rows", f"{typical.n_prototypes}", beside]]


def _whole(certificate: Any) -> list[list[str]]:
    """Return what the whole file of fitted people told who holds their list, if simulated."""
    typical = getattr(certificate, "prototypes", None)
    if typical is None:
        return []
    beside = "simulated, not proven: shift of odds for who holds the list of the fitted people"
    if typical.table > certificate.epsilon:
        beside += "; MORE THAN OF ONE ROW: keep it from such readers"
    return [["Whole file", times(typical.table), beside]]


def _attack(audit: Audit | None, certificate: Certificate) -> list[str]:
    attack = None if audit is None else audit._surest()
    if audit is None or attack is None:
        return [_FIGURE, "none tried", "an audit (audit=) measures it"]
    allowed = f"{audit._limit(attack)} allowed"
    if not bounds_odds(certificate):
        allowed = f"allowed: {certificate.notion.budget_name()}"
    chance = ", beyond it within chance" * (attack.low > attack.allowed and not audit.findings)
    beside = f"{attack.view}: surely shifted odds; {allowed}{chance}; {audit._findable()}"
    return [
        _FIGURE,
        times(attack.low, at_least=True) if attack.low > 0.0 else "no sure shift",
        beside,
    ]


def _task(audit: Audit | None) -> list[str]:
    """Return how well a model does that learns from released rows, beside one from true rows."""
    survived = () if audit is None else audit.survived
    for figure in survived:
        if figure.what in _SCORES:
            score = figure.what.split()[0]
            beside = f"{shown(figure.column)}; learnt from true rows: {figure.before:.3f}"
            return ["Task", f"{figure.after:.3f} {score}", beside]
    return ["Task", "not measured", "an audit with task= measures one"]
