"""What settings of a plan change, against epsilon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sklearn_puffer._base import FloatArray, check_choice, check_count, quoted
from sklearn_puffer._signoff.drawing import Display, check_axes, label, style
from sklearn_puffer._signoff.plan import Plan

FIGURES = {
    "change": "expected change of a value\n(standard deviations of its column)",
    "unchanged": "share of values that stay as they are",
}
_WIDE = 8.0  # budgets further apart lie on a scale of powers
_LONGEST = 44
_ROOM = 1.4  # for the legend above the lines


@dataclass(eq=False)
class UtilityDisplay(Display):
    """What is left of the columns against epsilon, a line for each setting of a plan.

    Parameters
    ----------
    epsilons : ndarray of shape (n,)
        The budgets, ascending.
    lines : dict of str to ndarray of shape (n,)
        For each setting its figure at each budget, the best setting first; NaN where its
        certificate does not hold, or it was not tried.
    constant : float
        The figure of a constant in the place of each column.
    figure : {"change", "unchanged"}
        Which figure it is.
    n_left_out : int
        Settings that are not among the lines.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import UtilityDisplay, plan
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 300
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 1500, "cars": cars})
    >>> display = UtilityDisplay.from_plan(plan(table, sensitive="loan", epsilon=[0.5, 1.0]))
    >>> list(display.lines)[:3]
    ['optimal channel', 'optimal channel, 5 bins', 'Laplace noise, remapped, 5 bins']
    >>> display.lines["Laplace noise, remapped, 5 bins"].round(2)
    array([0.23, 0.13])
    >>> axes = display.ax_  # drawn, and once more by display.plot(ax=...)
    """

    epsilons: FloatArray
    lines: Mapping[str, FloatArray]
    constant: float
    figure: str = "change"
    n_left_out: int = 0

    @classmethod
    def from_plan(
        cls,
        plan: Any,
        *,
        figure: str = "change",
        most: int = 6,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Take the settings of a plan that keep its promise, the best ones first.

        Parameters
        ----------
        plan : Plan
            Its settings with the plain promise are compared, or, if none of them holds, all.
        figure : {"change", "unchanged"}, default="change"
            The expected change in standard deviations, or the share of values left as they are.
        most : int, default=6
            How many lines at most.
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
            If it is no plan, or none of its settings holds.
        """
        check_axes(ax)
        if not isinstance(plan, Plan):
            raise TypeError(f"plan must be a Plan, got {quoted(plan)}; plan(table, ...) makes one.")
        check_choice(figure, "figure", list(FIGURES))
        trials = _compared(plan)
        epsilons = np.unique([trial.candidate.epsilon for trial in trials])
        lines = _lines(trials, epsilons, figure)
        best = _best_first(lines, figure)
        shown = {name: lines[name] for name in best[: check_count(most, "most")]}
        display = cls(epsilons, shown, _constant(plan, figure), figure, len(lines) - len(shown))
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, options: dict[str, Any]) -> None:
        for k, (name, values) in enumerate(self.lines.items()):
            told = label(name, _LONGEST) + " (infinite)" * bool(np.isinf(values).any())
            finite = np.where(np.isfinite(values), values, np.nan)
            ax.plot(self.epsilons, finite, **{"label": told, **style(k), **options})
        if math.isfinite(self.constant):
            ax.axhline(self.constant, color="0.4", linewidth=1.0, label="a constant instead")
        if self.epsilons[-1] > _WIDE * self.epsilons[0]:
            ax.set_xscale("log")
        ax.set_xticks(self.epsilons, [f"{epsilon:g}" for epsilon in self.epsilons])
        ax.set_xticks([], minor=True)
        ax.set(xlabel="epsilon (nats)", ylabel=FIGURES[self.figure])
        ax.set_ylim(0.0, _ROOM * max(ax.get_ylim()[1], 1e-9))
        title = f"{self.n_left_out} more not drawn" if self.n_left_out else None
        ax.legend(title=title, fontsize="small", title_fontsize="small")


def _compared(plan: Plan) -> list[Any]:
    """Return the settings that promise the same, and keep it."""
    held = [trial for trial in plan.trials if trial.verdict == "holds" and not trial.weak]
    if not held:
        raise ValueError(
            "none of the settings of this plan keeps its promise, so there is nothing to compare; "
            "print it for the reasons."
        )
    plain = [trial for trial in held if trial.candidate.promise == plan.promise]
    return plain or held


def _lines(trials: Any, epsilons: FloatArray, figure: str) -> dict[str, FloatArray]:
    several = len({trial.candidate.promise for trial in trials}) > 1
    lines: dict[str, FloatArray] = {}
    for trial in trials:
        own = trial.candidate
        name = f"{own.label} ({own.promise})" if several else own.label
        values = lines.setdefault(name, np.full(len(epsilons), np.nan))
        values[np.searchsorted(epsilons, own.epsilon)] = getattr(trial, figure)
    return lines


def _best_first(lines: Mapping[str, FloatArray], figure: str) -> list[str]:
    """Return the names of lines: those known at most budgets first, then by their mean."""
    sign = 1.0 if figure == "change" else -1.0

    def rank(name: str) -> tuple[float, float]:
        known = lines[name][~np.isnan(lines[name])]
        return -len(known), sign * float(known.mean()) if len(known) else math.inf

    return sorted(lines, key=rank)


def _constant(plan: Plan, figure: str) -> float:
    released = [facts for facts in plan.facts if facts.use == "release"]
    varying = [facts for facts in released if facts.distinct > 1 or facts.missing] or released
    name = "constant" if figure == "change" else "constant_unchanged"
    return float(np.mean([getattr(facts, name) for facts in varying])) if varying else math.nan
