"""Pictures of plans and audits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sklearn_puffer._base import FloatArray, check_choice, check_count
from sklearn_puffer._review import Audit, Plan
from sklearn_puffer._words import quoted
from sklearn_puffer.displays.noisers import (
    DARK,
    WARM,
    Display,
    check_axes,
    label,
    name_ticks,
    style,
)

FIGURES = {
    "change": "change of a value\n(standard deviations of its column)",
    "rows_equal": "share of rows that stay as they are",
    "attack": "area under the ROC curve\nof the best attack found",
    "task": "score on true rows",
}
_WIDE = 8.0  # ratio of budgets from which on the scale is logarithmic
_ROOM = 1.4  # for the legend above the lines


@dataclass(eq=False)
class UtilityDisplay(Display):
    """A figure of one setting of a plan against epsilon, measured on rows that were held out.

    Parameters
    ----------
    epsilons : ndarray of shape (n,)
        The budgets, ascending.
    lines : dict of str to ndarray of shape (n,)
        The figure of the setting; with "attack" also the largest that is allowed.
    constant : float
        The figure if each column were replaced by a constant.
    figure : {"change", "rows_equal", "attack", "task"}
        The figure that is shown.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_puffer import plan
    >>> from sklearn_puffer.displays import UtilityDisplay
    >>> table = load_diabetes(as_frame=True, scaled=False).data
    >>> found = plan(table, "sex", public=["bmi", "bp"], n_prototypes=8)
    >>> display = UtilityDisplay.from_plan(found, figure="attack")
    >>> display.epsilons
    array([0.1 , 0.25, 0.5 , 1.  , 2.  , 4.  ])
    >>> axes = display.ax_  # drawn, and once more by display.plot(ax=...)
    """

    epsilons: FloatArray
    lines: Mapping[str, FloatArray]
    constant: float
    figure: str = "change"

    @classmethod
    def from_plan(
        cls, plan: Any, *, k: int = 0, figure: str = "change", ax: Any = None, **kwargs: Any
    ) -> Self:
        """Take a figure of a setting from `Plan.curve`.

        Parameters
        ----------
        plan : Plan
            The plan; its settings are measured at other budgets.
        k : int, default=0
            The index of the setting in the plan.
        figure : {"change", "rows_equal", "attack", "task"}, default="change"
            The change in standard deviations, the share of unchanged rows, the AUC of the best
            attack, or the score of the task.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        UtilityDisplay
            Drawn, with its data, ``ax_`` and ``figure_``.

        Raises
        ------
        ModuleNotFoundError
            Without matplotlib, which the extra ``plot`` brings.
        TypeError, ValueError
            If it is no plan, has no task to draw, or the setting was not measured.
        """
        check_axes(ax)
        if not isinstance(plan, Plan):
            raise TypeError(f"plan must be a Plan, got {quoted(plan)}; plan(table, ...) makes one.")
        check_choice(figure, "figure", list(FIGURES))
        if figure == "task" and plan.task is None:
            raise ValueError("figure='task' needs a plan with a task; pass task= to plan.")
        curve = plan.curve(k)
        lines = {plan.trials[k].label: curve[figure].to_numpy()}
        if figure == "attack":
            lines["allowed"] = curve["allowed"].to_numpy()
        constant = 0.5 if figure == "attack" else getattr(plan.bare, figure)
        display = cls(curve["epsilon"].to_numpy(), lines, float(constant), figure)
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, options: dict[str, Any]) -> None:
        for k, (name, values) in enumerate(self.lines.items()):
            finite = np.where(np.isfinite(values), values, np.nan)
            ax.plot(self.epsilons, finite, **{"label": name, **style(k), **options})
        if math.isfinite(self.constant):
            ax.axhline(self.constant, color="0.4", linewidth=1.0, label="a constant instead")
        if self.epsilons[-1] > _WIDE * self.epsilons[0]:
            ax.set_xscale("log")
        ax.set_xticks(self.epsilons, [f"{epsilon:g}" for epsilon in self.epsilons])
        ax.set_xticks([], minor=True)
        ax.set(xlabel="epsilon (nats)", ylabel=FIGURES[self.figure])
        if self.figure != "task":
            ax.set_ylim(0.0, _ROOM * max(ax.get_ylim()[1], 1e-9))
        ax.legend(fontsize="small")


@dataclass(eq=False)
class AuditDisplay(Display):
    """The area under the ROC curve of each attack, with its interval.

    Parameters
    ----------
    names : list of str
        Names of the attacks: the attacker, and the pair of secrets.
    auc, low, high : ndarray of shape (n,)
        AUC of the attacks on the release, and the ends of their intervals.
    allowed : ndarray of shape (n,)
        The largest AUC that the guarantee allows.
    control : ndarray of shape (n,)
        AUC of the same attack on the raw rows; NaN if it was not made.
    n_left_out : int
        The number of attacks that are not drawn, those of the smallest AUC.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser, audit
    >>> from sklearn_puffer.displays import AuditDisplay
    >>> cars = [0, 5, 2, 4, 5, 0, 1, 9, 0, 3]
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 5000, "cars": cars * 1000})
    >>> noiser = PufferfishNoiser(4.0, sensitive="loan").fit(table)
    >>> display = AuditDisplay.from_audit(audit(noiser, table), most=1)
    >>> display.allowed.round(3), display.n_left_out
    (array([0.982]), 7)
    >>> axes = display.ax_  # drawn, and once more by display.plot(ax=...)
    """

    names: Sequence[str]
    auc: FloatArray
    low: FloatArray
    high: FloatArray
    allowed: FloatArray
    control: FloatArray
    n_left_out: int = 0

    @classmethod
    def from_audit(cls, audit: Any, *, most: int = 12, ax: Any = None, **kwargs: Any) -> Self:
        """Take the attacks of an audit, those of the largest AUC first.

        Parameters
        ----------
        audit : Audit
            The audit that made the attacks.
        most : int, default=12
            The most attacks that are drawn.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        AuditDisplay
            Drawn, with its data, ``ax_`` and ``figure_``.

        Raises
        ------
        ModuleNotFoundError
            Without matplotlib, which the extra ``plot`` brings.
        TypeError
            If it is no audit.
        """
        check_axes(ax)
        if not isinstance(audit, Audit):
            raise TypeError(
                f"audit must be an Audit, got {quoted(audit)}; audit(noiser, table) makes one."
            )
        ranked = sorted(audit.attacks, key=lambda attack: -attack.auc)
        drawn = ranked[: check_count(most, "most")]
        without = {_key(attack): attack.auc for attack in audit.control}
        control = np.array([without.get(_key(attack), np.nan) for attack in drawn], dtype=float)
        names, left_out = [_name(attack) for attack in drawn], len(ranked) - len(drawn)
        display = cls(names, *_reached(drawn), control, left_out)
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, options: dict[str, Any]) -> None:
        rows = np.arange(len(self.names))
        reach = np.abs(np.stack([self.auc - self.low, self.high - self.auc]))
        look = {"fmt": "o", "color": DARK, "capsize": 3, "label": "on the release", **options}
        ax.errorbar(self.auc, rows, xerr=reach, **look)
        hollow = {"marker": "s", "facecolors": "none", "edgecolors": DARK}
        ax.scatter(self.control, rows, label="on rows without noise", **hollow)
        ax.scatter(self.allowed, rows, marker="|", s=160, color=WARM, label="allowed at most")
        ax.axvline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        name_ticks(ax.yaxis, self.names)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        more = f" ({self.n_left_out} attacks that reach less are not drawn)"
        ax.set_xlabel("area under the ROC curve" + more * bool(self.n_left_out))
        ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _reached(attacks: Sequence[Any]) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the AUC of attacks, both ends of their intervals, and the largest allowed."""
    auc, low, high, allowed = (
        np.array([getattr(attack, f"auc{end}") for attack in attacks], dtype=float)
        for end in ("", "_low", "_high", "_allowed")
    )
    return auc, low, high, allowed


def _key(attack: Any) -> tuple[Any, ...]:
    return attack.attacker, attack.sensitive, attack.secret, attack.against


def _name(attack: Any) -> str:
    return (
        f"{label(attack.attacker)}:\n{label(attack.sensitive, 16)} {label(attack.secret, 16)} "
        f"against {label(attack.against, 16)}"
    )
