"""A column before and after its release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sklearn_puffer._base import FloatArray, check_count, check_verbose, heading, listening
from sklearn_puffer._noiser import column_moves, released_shares
from sklearn_puffer._signoff.drawing import (
    DARK,
    LIGHT,
    MIDDLE,
    Display,
    and_more,
    are_long,
    check_axes,
    label,
    name_ticks,
)
from sklearn_puffer._tables import Name

_MOST = 12  # values that have bars
_MARGIN = 1.25  # of the highest bar, for the legend


@dataclass(eq=False)
class ReleaseDisplay(Display):
    """One column before and after: bars of categories, and stretches of numbers.

    Parameters
    ----------
    name : str or int
        The column.
    labels : list or None
        Its values, where they are categories.
    edges : ndarray of shape (n + 1,) or None
        Ends of stretches, where they are numbers.
    before, after : ndarray of shape (n,)
        Shares of the rows that have a value.
    stayed : ndarray of shape (n,) or None
        Of categories: the part of ``after`` that had the value before. None of what was released.
    beyond : float
        The share of rows that are released below or above all stretches.
    left_out : float
        The share of all rows that are missing, or hold what `fit` has not seen.
    expected : bool
        Whether ``after`` is what is expected, and not what was released.

    Notes
    -----
    Nothing is released to be drawn: ``after`` is the exact mean over all releases of these rows,
    computed from the law of the noise or the channel, or that of a release that is handed in.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser, ReleaseDisplay
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> noiser = PufferfishNoiser(epsilon=2.0, sensitive="loan").fit(table)
    >>> display = ReleaseDisplay.from_noiser(noiser, table, n_bins=4)
    >>> display.edges
    array([-3.5,  0.5,  4.5,  8.5, 12.5])
    >>> display.before.round(2), display.after.round(2)
    (array([0.3, 0.3, 0.3, 0.1]), array([0.26, 0.37, 0.27, 0.1 ]))
    >>> axes = display.ax_  # drawn, and once more by display.plot(ax=...)
    """

    name: Name
    labels: Sequence[Any] | None
    edges: FloatArray | None
    before: FloatArray
    after: FloatArray
    stayed: FloatArray | None = None
    beyond: float = 0.0
    left_out: float = 0.0
    expected: bool = True

    @classmethod
    def from_noiser(
        cls,
        noiser: Any,
        table: Any,
        *,
        column: Any = None,
        released: Any = None,
        n_bins: int = 30,
        verbose: int = 0,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Compare a column of a table with what is released of it.

        Parameters
        ----------
        noiser : fitted PufferfishNoiser
            Whose release it is.
        table : DataFrame or array-like
            The raw rows, as `PufferfishNoiser.transform` takes them.
        column : str or int, default=None
            Which column; may be left out where one is released.
        released : DataFrame, default=None
            What `PufferfishNoiser.transform` returned, to be drawn; None computes what is expected,
            and draws no noise.
        n_bins : int, default=30
            Into how many stretches numbers go.
        verbose : int, default=0
            1 shows after two seconds on standard error what is done, and how much is left.
        ax : matplotlib Axes, default=None
            To draw on; None makes a figure.
        **kwargs : dict
            For `plot`.

        Returns
        -------
        ReleaseDisplay
            Drawn, with its data, ``ax_`` and ``figure_``.

        Raises
        ------
        ModuleNotFoundError
            Without matplotlib, which the extra ``plot`` brings.
        NotFittedError
            If there was no fit.
        TypeError, ValueError
            If the table does not fit, or there is no such column.
        """
        check_axes(ax)
        with (
            listening(check_verbose(verbose), "moves of the values"),
            heading("moves of the values"),
        ):
            moves = column_moves(noiser, table, column, check_count(n_bins, "n_bins"))
        groups, numbers = moves.groups, moves.groups.edges is not None
        stayed = None if numbers or released is not None else np.diag(moves.joint)
        after = moves.joint.sum(axis=0)
        if released is not None:
            after = released_shares(noiser, moves, released)
        return cls(
            moves.name,
            groups.labels,
            groups.edges,
            moves.joint.sum(axis=1),
            after[1:-1] if numbers else after,
            stayed,
            float(after[0] + after[-1]) if numbers else 0.0,
            moves.left_out,
            released is None,
        ).plot(ax=ax, **kwargs)

    @property
    def _said(self) -> str:
        return "expected after" if self.expected else "released"

    def _draw(self, ax: Any, options: dict[str, Any]) -> None:
        if self.edges is None:
            self._draw_bars(ax, options)
        else:
            self._draw_stretches(ax, options)
        top = 100.0 * float(max(self.before.max(), self.after.max()))
        ax.set_ylim(0.0, _MARGIN * top)
        ax.legend(fontsize="small")

    def _draw_bars(self, ax: Any, options: dict[str, Any]) -> None:
        names, before, after, stayed = self._bars()
        places = np.arange(len(names))
        look = {"width": 0.4, "edgecolor": DARK, "linewidth": 0.8, **options}
        ax.bar(places - 0.2, before, label="before", **{"color": DARK, **look})
        if stayed is not None:
            ax.bar(places + 0.2, stayed, label="stays", **{"color": MIDDLE, **look})
        below = np.zeros(len(names)) if stayed is None else stayed
        said = self._said if stayed is None else "comes from other values"
        hatched = {"color": LIGHT, "hatch": "//", **look}
        ax.bar(places + 0.2, after - below, bottom=below, label=said, **hatched)
        name_ticks(ax.xaxis, names, rotate=are_long(names))
        ax.set(xlabel=label(self.name, 60), ylabel="rows (%)")

    def _bars(self) -> tuple[list[str], FloatArray, FloatArray, FloatArray | None]:
        """Return names and heights, the rarest values in one."""
        assert self.labels is not None
        before, after = 100.0 * self.before, 100.0 * self.after
        stayed = None if self.stayed is None else 100.0 * self.stayed
        names = ["missing" if each is None else label(each) for each in self.labels]
        if len(names) <= _MOST:
            return names, before, after, stayed
        order = np.argsort(-np.maximum(before, after), kind="stable")
        kept = np.sort(order[: _MOST - 1])
        names = [*(names[k] for k in kept), and_more(len(names) - len(kept))]
        rest = None if stayed is None else _lumped(stayed, kept)
        return names, _lumped(before, kept), _lumped(after, kept), rest

    def _draw_stretches(self, ax: Any, options: dict[str, Any]) -> None:
        assert self.edges is not None
        said = self._said + f", {self.beyond:.0%} beyond the axis" * (self.beyond >= 0.005)
        filled = {"fill": True, "color": LIGHT, "edgecolor": MIDDLE, "label": "before"}
        ax.stairs(100.0 * self.before, self.edges, **{**filled, **options})
        line = {"color": DARK, "linewidth": 1.8, "label": said}
        ax.stairs(100.0 * self.after, self.edges, baseline=None, **{**line, **options})
        width = float(self.edges[1] - self.edges[0])
        ax.set(xlabel=label(self.name, 60), ylabel=f"rows (%) in each stretch of {width:.3g}")


def _lumped(shares: FloatArray, kept: Any) -> FloatArray:
    return np.append(shares[kept], shares.sum() - shares[kept].sum())
