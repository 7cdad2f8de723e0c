"""What stands on the first screen of a report to sign: four figures and a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sklearn_puffer._base import Bar, Bars, Section, shown
from sklearn_puffer._signoff.plain_words import promise_picture

ATTACK = "Best attack found"
_SCORES = ("AUC on true rows", "R2 on true rows")


def glance(certificate: Any, audit: Any) -> tuple[Section, tuple[str, ...]]:
    """Return the figures, with their picture, and the names of those that ask for attention."""
    attack = None if audit is None else strongest(audit)
    cells = [
        ["figure", "value", "beside it"],
        _change(certificate.utility),
        _stays(certificate),
        _attack(attack),
        _task(audit),
    ]
    picture = promise_picture(certificate.notion) if certificate.holds else None
    if attack is not None:
        picture = attack_picture(audit, attack)
    alarms = (ATTACK,) if attack is None or audit.findings or not audit.caught else ()
    return Section("At a glance", cells=cells, picture=picture), alarms


def strongest(audit: Any) -> Any:
    """Return the surest finding, else the attack that tells two secrets apart best."""
    if audit.findings:
        return audit.findings[0].attack
    return max(audit.attacks, key=lambda each: each.auc, default=None)


def _change(utility: Sequence[Any]) -> list[str]:
    if not utility:
        return ["Mean change", "not known", "of these columns"]
    own, constant = (
        math.fsum(getattr(each, name) for each in utility) / len(utility)
        for name in ("change_sd", "constant_sd")
    )
    return ["Mean change", f"{own:.2f} sd", f"a constant in each place: {constant:.2f} sd"]


def _stays(certificate: Any) -> list[str]:
    """Return how many rows stay, or values where rows are not changed as a whole."""
    for facts in ("swap", "channel"):
        if (found := getattr(certificate, facts, None)) is not None:
            return ["Rows that stay equal", f"{found.unchanged:.1%}", "as they were, on average"]
    shares = [each.unchanged for each in certificate.utility]
    told = f"{math.fsum(shares) / len(shares):.1%}" if shares else "not known"
    return ["Values that stay equal", told, "of all values, on average"]


def _attack(attack: Any) -> list[str]:
    if attack is None:
        return [ATTACK, "none tried", "pass audit= to measure it"]
    interval = f"{attack.auc_low:.2f} to {attack.auc_high:.2f}"
    return [ATTACK, f"{attack.auc:.3f} AUC", f"({interval}); allowed: {attack.auc_allowed:.3f}"]


def _task(audit: Any) -> list[str]:
    """Return how well a model does that learns from released rows, beside one from true rows."""
    survived = () if audit is None else audit.survived
    for each in survived:
        if each.what in _SCORES:
            score = each.what.split()[0]
            told = f"{shown(each.column)}; learnt from true rows: {each.before:.3f}"
            return ["Task", f"{each.after:.3f} {score}", told]
    return ["Task", "not measured", "audit(..., task=) measures one"]


def attack_picture(audit: Any, attack: Any) -> Bars:
    """Return what an attack reaches, beside a guess and the rows as they are."""
    same = [
        e.auc for e in audit.control if (e.secret, e.against) == (attack.secret, attack.against)
    ]
    rows = [("a guess", 0.5), ("the best attack on the release", attack.auc)]
    rows += [("the best attack on the rows as they are", max(same))] if same else []
    title = (
        f"How well attackers tell {shown(attack.secret)} from {shown(attack.against)}: area under "
        f"the ROC curve; the line is what the promise allows, {attack.auc_allowed:.3f}"
    )
    bars = [Bar(label, share, f"{share:.3f}") for label, share in rows]
    return Bars(title, bars, attack.auc_allowed)
