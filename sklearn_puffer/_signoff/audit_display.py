"""What attackers reached, beside what the promise allows and what they reach without noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sklearn_puffer._base import FloatArray, check_count, quoted
from sklearn_puffer._signoff.audit import Audit
from sklearn_puffer._signoff.drawing import DARK, WARM, Display, check_axes, label, name_ticks


@dataclass(eq=False)
class AuditDisplay(Display):
    """The area under the ROC curve of each attack, with its interval.

    Parameters
    ----------
    names : list of str
        Of the attacks: the attacker, and the pair of secrets.
    auc, low, high : ndarray of shape (n,)
        Of attacks on the release, and the ends of their intervals.
    allowed : ndarray of shape (n,)
        What the promise allows.
    control : ndarray of shape (n,)
        What the same attack reaches on rows without noise; NaN where it was not made.
    unchanged : float
        The share of values that came out as they were, the mean over columns.
    n_left_out : int
        Attacks that are not drawn: those that reached least.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import AuditDisplay, PufferfishNoiser, audit
    >>> cars = [0, 5, 2, 4, 5, 0, 1, 9, 0, 3]
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 5000, "cars": cars * 1000})
    >>> noiser = PufferfishNoiser(0.5, sensitive="loan", noise="optimal").fit(table)
    >>> display = AuditDisplay.from_audit(audit(noiser, table), most=1)
    >>> display.allowed.round(3), display.n_left_out
    (array([0.622]), 5)
    >>> axes = display.ax_  # drawn, and once more by display.plot(ax=...)
    """

    names: Sequence[str]
    auc: FloatArray
    low: FloatArray
    high: FloatArray
    allowed: FloatArray
    control: FloatArray
    unchanged: float
    n_left_out: int = 0

    @classmethod
    def from_audit(
        cls,
        audit: Any,
        *,
        most: int = 12,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Take the attacks of an audit, those that reached most first.

        Parameters
        ----------
        audit : Audit
            Whose attacks are shown.
        most : int, default=12
            How many attacks at most.
        ax : matplotlib Axes, default=None
            To draw on; None makes a figure.
        **kwargs : dict
            For `plot`.

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
        without = {_key(each): each.auc for each in audit.control}
        auc, low, high, allowed = (
            np.array([getattr(each, name) for each in drawn], dtype=float)
            for name in ("auc", "auc_low", "auc_high", "auc_allowed")
        )
        control = np.array([without.get(_key(each), np.nan) for each in drawn], dtype=float)
        kept = [each.after for each in audit.survived if each.what == "unchanged share"]
        names = [_name(each) for each in drawn]
        unchanged = float(np.mean(kept)) if kept else np.nan
        left_out = len(ranked) - len(drawn)
        display = cls(names, auc, low, high, allowed, control, unchanged, left_out)
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, options: dict[str, Any]) -> None:
        rows = np.arange(len(self.names))
        reach = np.abs(np.stack([self.auc - self.low, self.high - self.auc]))
        said = "on the release"
        if np.isfinite(self.unchanged):
            said += f", where {self.unchanged:.0%} of the values are as they were"
        look = {"fmt": "o", "color": DARK, "capsize": 3, "label": said, **options}
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


def _key(attack: Any) -> tuple[Any, ...]:
    return attack.attacker, attack.sensitive, attack.secret, attack.against


def _name(attack: Any) -> str:
    return (
        f"{label(attack.attacker)}:\n{label(attack.sensitive, 16)} {label(attack.secret, 16)} "
        f"against {label(attack.against, 16)}"
    )
