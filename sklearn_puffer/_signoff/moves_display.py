"""Which values of a column go where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from sklearn_puffer._base import FloatArray, check_count, check_verbose, heading, listening
from sklearn_puffer._noiser import column_moves
from sklearn_puffer._signoff.drawing import MAP, Display, and_more, check_axes, label, name_ticks
from sklearn_puffer._tables import Name

_WRITTEN = 8  # groups up to which shares stand in the cells
_SEEN = 0.005


@dataclass(eq=False)
class MovesDisplay(Display):
    """What the values of a column become: a heat map of the law of each.

    Parameters
    ----------
    name : str or int
        The column.
    labels : list of str
        Of its values or stretches, as they are written.
    shares : ndarray of shape (n, m)
        Of the rows with value i, the share that is expected to be released as j; of numbers, m is
        n + 2, as the first and last lie below and above all stretches.
    before : ndarray of shape (n,)
        The share of the rows with each value.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import MovesDisplay, PufferfishNoiser
    >>> home = ["rent", "own", "own", "rent", "own", "rent"]
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 1500, "home": home * 500})
    >>> noiser = PufferfishNoiser(epsilon=0.3, sensitive="loan", noise="optimal").fit(table)
    >>> display = MovesDisplay.from_noiser(noiser, table)
    >>> display.labels, display.shares.round(2)
    (['own', 'rent'], array([[0.72, 0.28],
           [0.28, 0.72]]))
    >>> axes = display.ax_  # drawn, and once more by display.plot(ax=...)
    """

    name: Name
    labels: Sequence[str]
    shares: FloatArray
    before: FloatArray

    @classmethod
    def from_noiser(
        cls,
        noiser: Any,
        table: Any,
        *,
        column: Any = None,
        n_bins: int = 12,
        most: int = 12,
        verbose: int = 0,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Compute what becomes of the values of a column; no noise is drawn.

        Parameters
        ----------
        noiser : fitted PufferfishNoiser
            With noise, or an optimal channel.
        table : DataFrame or array-like
            The raw rows, as `PufferfishNoiser.transform` takes them.
        column : str or int, default=None
            Which column; may be left out where one is released.
        n_bins : int, default=12
            Into how many stretches numbers go.
        most : int, default=12
            How many values at most; the rarest are one.
        verbose : int, default=0
            1 shows after two seconds on standard error what is done, and how much is left.
        ax : matplotlib Axes, default=None
            To draw on; None makes a figure.
        **kwargs : dict
            For `plot`.

        Returns
        -------
        MovesDisplay
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
        check_count(most, "most", minimum=2)
        joint, groups = moves.joint, moves.groups
        if groups.edges is not None:
            labels = _stretches(groups.edges)
        else:
            labels = ["missing" if each is None else label(each) for each in groups.labels or ()]
            joint, labels = _lumped(joint, labels, most)
        before = joint.sum(axis=1)
        some = before > 0.0
        shares = np.full(joint.shape, np.nan)
        shares[some] = joint[some] / before[some, None]
        return cls(moves.name, labels, shares, before).plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, options: dict[str, Any]) -> None:
        look = {"cmap": MAP, "vmin": 0.0, "vmax": 100.0, "aspect": "auto", **options}
        image = ax.imshow(np.ma.masked_invalid(100.0 * self.shares), **look)
        columns = list(self.labels)
        if self.shares.shape[1] > len(columns):
            columns = ["below", *columns, "above"]
        name_ticks(ax.yaxis, self.labels)
        name_ticks(ax.xaxis, columns, rotate=sum(map(len, columns)) > 30)
        about = label(self.name, 40)
        ax.set(xlabel=f"released {about}", ylabel=f"{about} as it was")
        ax.grid(visible=False)
        if len(columns) <= _WRITTEN:
            self._write(ax)
        ax.figure.colorbar(image, ax=ax).set_label("share of the rows with this value (%)")

    def _write(self, ax: Any) -> None:
        for (i, j), share in np.ndenumerate(self.shares):
            if share >= _SEEN:
                colour = "black" if share > 0.5 else "white"
                look = {"ha": "center", "va": "center", "color": colour, "fontsize": "small"}
                ax.text(j, i, f"{share:.0%}", **look)


def _stretches(edges: FloatArray) -> list[str]:
    """Return what stands for stretches: their ends, or the whole number in them."""
    single = np.allclose(np.diff(edges), 1.0) and edges[0] % 1.0 == 0.5
    if single:
        return [f"{low + 0.5:g}" for low in edges[:-1]]
    if (edges % 1.0 == 0.5).all():
        return [f"{low + 0.5:g} to {high - 0.5:g}" for low, high in pairwise(edges)]
    return [f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges)]


def _lumped(joint: FloatArray, labels: list[str], most: int) -> tuple[FloatArray, list[str]]:
    """Return the moves with the rarest values in one."""
    if len(labels) <= most:
        return joint, labels
    shares = np.maximum(joint.sum(axis=0), joint.sum(axis=1))
    kept = np.sort(np.argsort(-shares, kind="stable")[: most - 1])
    to = np.full(len(labels), len(kept))
    to[kept] = np.arange(len(kept))
    onto = np.eye(len(kept) + 1)[to]
    names = [*(labels[k] for k in kept), and_more(len(labels) - len(kept))]
    return onto.T @ joint @ onto, names
