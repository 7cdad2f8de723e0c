"""Pictures of the internal report: what pairs lose, what columns change, what attacks reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sklearn_puffer._base import shown
from sklearn_puffer._releases import Ledger, short_number
from sklearn_puffer._signoff.pictures import bars
from sklearn_puffer._signoff.spend_display import SpendDisplay

_MOST = 10
_BESIDE = 0.75  # of the width of a picture: where its limit stands, if bars do not ask for more


def losses_picture(certificate: Any) -> str:
    """Return the largest losses of pairs, beside the budget."""
    budget = certificate.notion.budget
    worst = sorted(certificate.pairs, key=lambda pair: -pair.upper)[:_MOST]
    rows = [
        (f"{shown(pair.secret)} against {shown(pair.against)}", pair.upper, budget)
        for pair in worst
    ]
    of = f" (the worst {_MOST} of {len(certificate.pairs)})" * (len(certificate.pairs) > _MOST)
    return _beside(f"Loss of each pair of secrets{of}; the line is the budget", rows)


def changes_picture(utility: Sequence[Any]) -> str:
    """Return what columns change by, beside the best constant."""
    rows = [(shown(each.name), each.change_sd, each.constant_sd) for each in utility]
    title = (
        "Mean change of a value, in standard deviations; the line is what a constant in its place "
        "would change: beyond it a column tells nothing"
    )
    return _beside(title, rows)


def attacks_picture(audit: Any) -> str:
    """Return what attacks reached, beside what is allowed, and what they reach without noise."""
    ranked = sorted(audit.attacks, key=lambda attack: -attack.auc)[:_MOST]
    without = sorted(audit.control, key=lambda attack: -attack.auc)[:1]
    rows = [(_attack(each), each.auc, f"{each.auc:.2f}") for each in ranked]
    rows += [(f"without noise, {_attack(each)}", each.auc, f"{each.auc:.2f}") for each in without]
    title = (
        "Area under the ROC curve of each attack, from 0 to 1 (a guess has a half); the line is "
        "what the promise allows"
    )
    return bars(title, rows, [each.auc_allowed for each in (*ranked, *without)])


def _attack(attack: Any) -> str:
    return f"{shown(attack.attacker)}: {shown(attack.secret)} against {shown(attack.against)}"


def settings_picture(plan: Any) -> str:
    """Return what the best settings of a plan change, beside a constant in each column's place."""
    held = [each for each in plan.trials if each.verdict == "holds" and math.isfinite(each.change)]
    varying = [each.constant for each in plan.facts if each.use == "release" and each.distinct > 1]
    constant = sum(varying) / len(varying) if varying else math.nan
    rows = [
        (f"{each.candidate.label}, epsilon {each.candidate.epsilon:g}", each.change, constant)
        for each in held[:_MOST]
    ]
    title = (
        "Mean change of a value under the settings that change least, in standard deviations; the "
        "line is that of constants"
    )
    return _beside(title, rows)


def spent_picture(ledger: Any) -> str:
    """Return how much of the budget of each data set is spent."""
    if not isinstance(ledger, Ledger):
        return ""
    spent = SpendDisplay.from_ledger(ledger).series
    ends = {name: float(parts[-1]) for name, parts in spent.items() if len(parts)}
    rows = [(shown(name), ends.get(name, 0.0)) for name in ledger.datasets]
    return bars("Part of the budget that is spent", [(n, part, f"{part:.0%}") for n, part in rows])


def _beside(title: str, rows: Sequence[tuple[str, float, float]]) -> str:
    """Return bars of values of one unit, each beside its limit; what is too long ends with them."""
    known = [limit for *_, limit in rows if math.isfinite(limit) and limit > 0.0]
    if not known:
        return ""
    longest = max((value for _, value, _ in rows if math.isfinite(value)), default=0.0)
    whole = min(max(longest, max(known) / _BESIDE), 2.0 * max(known))
    drawn = [(name, _share(value, whole), _brief(value)) for name, value, _ in rows]
    return bars(title, drawn, [_share(limit, whole) for *_, limit in rows])


def _share(value: float, whole: float) -> float:
    return 1.0 if not value < whole else value / whole


def _brief(value: float) -> str:
    return short_number(value) if not math.isfinite(value) else f"{value:.3g}"
