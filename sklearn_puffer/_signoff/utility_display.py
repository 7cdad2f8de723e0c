"""What the setting of a plan changes, tells and is good for, against epsilon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sklearn_puffer._base import FloatArray, check_choice, quoted
from sklearn_puffer._signoff.drawing import Display, check_axes, style
from sklearn_puffer._signoff.plan import Plan

FIGURES = {
    "change": "change of a value\n(standard deviations of its column)",
    "rows_equal": "share of rows that stay as they are",
    "attack": "area under the ROC curve\nof the best attack found",
    "task": "score on true rows",
}
_WIDE = 8.0  # budgets further apart lie on a scale of powers
_ROOM = 1.4  # for the legend above the lines


@dataclass(eq=False)
class UtilityDisplay(Display):
    """A figure of one setting of a plan against epsilon, measured on rows that were held out.

    Parameters
    ----------
    epsilons : ndarray of shape (n,)
        The budgets, ascending.
    lines : dict of str to ndarray of shape (n,)
        The figure of the setting; of an attack also what is allowed.
    constant : float
        The figure of a constant in the place of each column.
    figure : {"change", "rows_equal", "attack", "task"}
        Which figure it is.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_puffer import UtilityDisplay, plan
    >>> table = load_diabetes(as_frame=True, scaled=False).data
    >>> found = plan(table, "sex", public=["bmi", "bp"], noise="swap")
    >>> display = UtilityDisplay.from_plan(found, figure="attack")
    >>> list(display.lines)
    ['swap', 'allowed']
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
            Whose rows are measured anew at other budgets.
        k : int, default=0
            The number of the row.
        figure : {"change", "rows_equal", "attack", "task"}, default="change"
            The change in standard deviations, the share of rows that stay as they are, the AUC of
            the best attack, or the score of the task.
        ax : matplotlib Axes, default=None
            To draw on; None makes a figure.
        **kwargs : dict
            For `plot`.

        Returns
        -------
        UtilityDisplay
            Drawn, with its data, ``ax_`` and ``figure_``.

        Raises
        ------
        ModuleNotFoundError
            Without matplotlib, which the extra ``plot`` brings.
        TypeError, ValueError
            If it is no plan, has no task to draw, or the row was not measured.
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
