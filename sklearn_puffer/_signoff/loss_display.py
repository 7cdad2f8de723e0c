"""The privacy losses of pairs of secrets, both ways, beside the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sklearn_puffer._base import FloatArray, check_count, listed, quoted
from sklearn_puffer._signoff.drawing import (
    DARK,
    LIGHT,
    MAP,
    MIDDLE,
    WARM,
    Display,
    check_axes,
    label,
    name_ticks,
)
from sklearn_puffer._tables import Name

_WRITTEN = 7  # secrets up to which losses stand in the cells
_HALF = 0.5
_ROOM = 1.25  # to the right of the budget, or the largest bar


@dataclass(eq=False)
class LossDisplay(Display):
    """The loss of each secret against each other one, both ways: bars of two, of more a heat map.

    Parameters
    ----------
    secrets : list
        Of one sensitive column.
    upper, lower : ndarray of shape (n, n)
        Ends of the interval that holds the exact loss of secret i against secret j, the worst over
        all adversaries; NaN where the pair is not protected.
    budget : float
        What no loss may exceed.
    unit : str
        Of losses and budget.
    sensitive : str or int
        The column.
    most : int
        How many secrets are drawn: those with the largest losses.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import LossDisplay, PufferfishNoiser
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> noiser = PufferfishNoiser(epsilon=0.5, sensitive="loan").fit(table)
    >>> display = LossDisplay.from_noiser(noiser)
    >>> display.secrets, display.upper.round(3), display.budget
    (['no', 'yes'], array([[  nan, 0.5  ],
           [0.456,   nan]]), 0.5)
    >>> axes = display.ax_  # drawn, and once more by display.plot(ax=...)
    """

    secrets: Sequence[Any]
    upper: FloatArray
    lower: FloatArray
    budget: float
    unit: str
    sensitive: Name
    most: int = 16

    @classmethod
    def from_noiser(
        cls,
        noiser: Any,
        *,
        sensitive: Any = None,
        most: int = 16,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Take the losses of a fitted noiser's certificate.

        Parameters
        ----------
        noiser : fitted PufferfishNoiser or PufferfishRelease, or its certificate
            Whose certificate lists pairs of secrets.
        sensitive : str or int, default=None
            The sensitive column; may be left out where there is only one.
        most : int, default=16
            How many secrets are drawn at most, those with the largest losses.
        ax : matplotlib Axes, default=None
            To draw on; None makes a figure.
        **kwargs : dict
            For `plot`.

        Returns
        -------
        LossDisplay
            Drawn, with its data, ``ax_`` and ``figure_``.

        Raises
        ------
        ModuleNotFoundError
            Without matplotlib, which the extra ``plot`` brings.
        TypeError, ValueError
            If it is not fitted, or has no such column.
        """
        check_axes(ax)
        certificate = getattr(noiser, "certificate_", noiser)
        if not hasattr(certificate, "pairs") or not hasattr(certificate, "notion"):
            raise TypeError(
                f"noiser must be a fitted noiser, or its certificate, got {quoted(noiser)}; call "
                "fit first."
            )
        name = _chosen(list(dict.fromkeys(p.sensitive for p in certificate.pairs)), sensitive)
        pairs = [pair for pair in certificate.pairs if pair.sensitive == name]
        secrets = list(dict.fromkeys(s for p in pairs for s in (p.secret, p.against)))
        upper, lower = _worst(pairs, secrets)
        unit = "delta" if certificate.delta and certificate.alpha is None else "nats"
        budget = float(certificate.notion.budget)
        display = cls(
            secrets, upper, lower, budget, unit, name, check_count(most, "most", minimum=2)
        )
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, options: dict[str, Any]) -> None:
        rows = self._drawn()
        if len(rows) == 2:
            self._draw_bars(ax, rows, options)
        else:
            self._draw_map(ax, rows, options)

    def _draw_bars(self, ax: Any, rows: Sequence[int], options: dict[str, Any]) -> None:
        """Draw the loss of either of two secrets against the other, and the budget across."""
        ways = [(i, j) for i, j in (rows, rows[::-1]) if not np.isnan(self.upper[i, j])]
        ends = np.array([(self.lower[way], self.upper[way]) for way in ways])
        right = _ROOM * max(self.budget, ends[np.isfinite(ends)].max(initial=0.0)) or 1.0
        look = {"height": 0.5, "edgecolor": DARK, "linewidth": 0.8}
        for k, (told, colour) in enumerate([("at least", MIDDLE), ("at most", LIGHT)]):
            bars = {**look, "color": colour, "zorder": 2 - k, "label": told, **options}
            ax.barh(range(len(ways)), np.minimum(ends[:, k], right), **bars)
        ax.axvline(self.budget, color=WARM, linewidth=2.0, label=f"budget: {self.budget:g}")
        for k, (low, high) in enumerate(ends.tolist()):
            told = self._text(low, high, written=True).replace("to\n", "to ").replace("\n", ", ")
            ax.text(0.02 * right, k, told, va="center", fontsize="small", zorder=3)
        names = [label(each) for each in self.secrets]
        name_ticks(ax.yaxis, [f"{names[i]} against {names[j]}" for i, j in ways])
        ax.set(xlabel=f"loss ({self.unit})", ylabel=f"secret of {label(self.sensitive)}")
        ax.set(xlim=(0.0, right), ylim=(len(ways) - _HALF, -_HALF))
        ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)

    def _draw_map(self, ax: Any, rows: Sequence[int], options: dict[str, Any]) -> None:
        upper, lower = (each[np.ix_(rows, rows)] for each in (self.upper, self.lower))
        top = self.budget if self.budget > 0.0 else 1.0
        image = ax.imshow(
            np.ma.masked_invalid(np.minimum(upper, top)),
            **{"cmap": MAP, "vmin": 0.0, "vmax": top, **options},
        )
        self._name(ax, rows)
        self._write(ax, upper, lower, top)
        bar = ax.figure.colorbar(image, ax=ax)
        bar.set_label(f"loss ({self.unit}), at most the budget of {self.budget:g}")

    def _drawn(self) -> list[int]:
        """Return the secrets with the largest losses, in their order."""
        both = np.nan_to_num(np.fmax(self.upper, self.upper.T), nan=-1.0, posinf=np.inf)
        return sorted(np.argsort(-both.max(axis=1), kind="stable")[: self.most].tolist())

    def _name(self, ax: Any, rows: Sequence[int]) -> None:
        names = [label(self.secrets[k]) for k in rows]
        name_ticks(ax.yaxis, names)
        name_ticks(ax.xaxis, names, rotate=max(map(len, names)) * len(names) > 30)
        cut = len(self.secrets) - len(rows)
        about = f"{label(self.sensitive)}" + f" ({len(rows)} of {len(self.secrets)})" * bool(cut)
        ax.set(xlabel="against", ylabel=f"secret of {about}")
        ax.grid(visible=False)

    def _write(self, ax: Any, upper: FloatArray, lower: FloatArray, top: float) -> None:
        """Write losses into few cells, and cross out those that are not protected."""
        n = len(upper)
        for i, j in np.ndindex(n, n):
            low, high = float(lower[i, j]), float(upper[i, j])
            text = self._text(low, high, written=n <= _WRITTEN)
            colour = "black" if min(high, top) > _HALF * top else "white"
            if np.isnan(high):
                _cross(ax, i, j)
            elif text:
                ax.text(j, i, text, ha="center", va="center", color=colour, fontsize="small")

    def _text(self, low: float, high: float, written: bool) -> str:
        """Return what stands in a cell: the interval where there is room, and what is too much."""
        over = high > self.budget
        if not written:
            return "!" if over else ""
        return _interval(low, high) + "\nover budget" * over


def _interval(lower: float, upper: float) -> str:
    """Return one number where both ends are the same to three digits."""
    low, high = f"{lower:.3g}", f"{upper:.3g}"
    return high if low == high else f"{low} to\n{high}"


def _cross(ax: Any, i: int, j: int) -> None:
    ax.plot([j - _HALF, j + _HALF], [i + _HALF, i - _HALF], color="0.6", linewidth=0.8)


def _chosen(names: Sequence[Name], sensitive: Any) -> Name:
    if sensitive is None and len(names) == 1:
        return names[0]
    if not names:
        raise ValueError("the certificate lists no pair of secrets, so there is no loss to draw.")
    if sensitive is None or sensitive not in names:
        raise ValueError(
            f"sensitive must be one of {listed(names)}, got {quoted(sensitive)}; a display shows "
            "the pairs of one column."
        )
    return next(name for name in names if name == sensitive)


def _worst(pairs: Sequence[Any], secrets: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
    """Return both ends of the losses, the worst of all adversaries."""
    place = {secret: k for k, secret in enumerate(secrets)}
    upper, lower = (np.full((len(secrets), len(secrets)), np.nan) for _ in range(2))
    for pair in pairs:
        at = place[pair.secret], place[pair.against]
        upper[at], lower[at] = np.fmax(upper[at], pair.upper), np.fmax(lower[at], pair.lower)
    return upper, lower
