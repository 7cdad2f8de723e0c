"""Who gets whose row in a swap, and what a row tells of a secret before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import expit, logit

from sklearn_puffer._base import FloatArray, listed, quoted
from sklearn_puffer._signoff.drawing import (
    DARK,
    LIGHT,
    MIDDLE,
    WARM,
    Display,
    check_axes,
    label,
    name_ticks,
)
from sklearn_puffer._tables import Name

_APART = 0.03  # chances that have bars of their own
_WIDEST = 40.0  # points of a line that all rows would go by
_LONGEST = 0.55  # of a bar, in units between the two sides
_NAMED = 0.03  # share of the rows from which on a bar has it beside it
_FAINT = 1e-4


@dataclass(eq=False)
class SwapDisplay(Display):
    """What a row tells of a secret before a swap and after it, and the flows between its cells.

    Bars are rows: on the left by how probable the secret is of whoever has a row of their cell, on
    the right of whoever holds it when all are released. Lines are rows that go from one to another.

    Parameters
    ----------
    sensitive : str or int
        The sensitive column.
    secret : object
        Of which the chances are.
    before, after : ndarray of shape (n_cells,)
        The chance of the secret in each cell.
    flows : ndarray of shape (n_cells, n_cells)
        Of all rows the share that goes from cell to cell, on average.
    prior : float
        The share of the secret in all rows.
    band : tuple of float or None
        The ends of what the budget allows; None within strata, each of which has its own.
    epsilon : float
        The budget, in nats.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser, SwapDisplay
    >>> from sklearn_puffer.noise import RecordSwap
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 30
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 150, "cars": cars})
    >>> noiser = PufferfishNoiser(sensitive="loan", noise=RecordSwap(cells="values")).fit(table)
    >>> display = SwapDisplay.from_noiser(noiser)
    >>> sorted(display.before.round(2).tolist()), [round(end, 2) for end in display.band]
    ([0.0, 0.0, 0.5, 0.5, 0.67, 1.0], [0.27, 0.73])
    >>> bool(display.after.min() > 0.268), bool(display.after.max() < 0.732)
    (True, True)
    >>> axes = display.ax_  # drawn, and once more by display.plot(ax=...)
    """

    sensitive: Name
    secret: Any
    before: FloatArray
    after: FloatArray
    flows: FloatArray
    prior: float
    band: tuple[float, float] | None
    epsilon: float

    @classmethod
    def from_noiser(
        cls,
        noiser: Any,
        *,
        sensitive: Any = None,
        secret: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Take the cells and flows of a fitted swap; nothing is released.

        Parameters
        ----------
        noiser : fitted PufferfishNoiser
            With ``noise="swap"``.
        sensitive : str or int, default=None
            The sensitive column; may be left out where there is only one.
        secret : object, default=None
            Which of its values the chances are of; None for the one that fewest rows have.
        ax : matplotlib Axes, default=None
            To draw on; None makes a figure.
        **kwargs : dict
            For `plot`.

        Returns
        -------
        SwapDisplay
            Drawn, with its data, ``ax_`` and ``figure_``.

        Raises
        ------
        ModuleNotFoundError
            Without matplotlib, which the extra ``plot`` brings.
        TypeError, ValueError
            If it is no fitted swap, or has no such column or secret.
        """
        check_axes(ax)
        swap = getattr(noiser, "swap_", None)
        if swap is None:
            raise TypeError(
                f'noiser must be a PufferfishNoiser that was fitted with noise="swap", got '
                f"{quoted(noiser)}; other noise has no flows, and MovesDisplay shows what it does."
            )
        name = _one_of(list(swap.counts), sensitive, "sensitive")
        counts = np.asarray(swap.counts[name])
        totals = counts.sum(axis=0)
        secrets = list(swap.unchanged_by_secret[name])
        rarest = secrets[int(totals.argmin())]
        own = secrets.index(_one_of(secrets, rarest if secret is None else secret, "secret"))
        before, prior = counts[:, own] / counts.sum(axis=1), float(totals[own] / totals.sum())
        after = (before @ swap.flows) / swap.flows.sum(axis=0)
        epsilon, one = noiser.certificate_.epsilon, not noiser.certificate_.facts.strata
        low, high = (float(expit(logit(prior) + way * epsilon)) for way in (-1.0, 1.0))
        band = (low, high) if one else None
        display = cls(name, secrets[own], before, after, swap.flows, prior, band, epsilon)
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, options: dict[str, Any]) -> None:
        if self.band is not None:
            told = f"what epsilon {self.epsilon:g} allows"
            ax.axhspan(*self.band, color=LIGHT, alpha=0.6, linewidth=0.0, label=told)
        ax.axhline(self.prior, color="white" if self.band else "0.6", linewidth=1.5)
        self._draw_flows(ax, options)
        sides = [_bars(each, self._sizes) for each in (self.before, self.after)]
        longest = max(share for bars in sides for _, share in bars)
        for way, bars in zip((-1.0, 1.0), sides, strict=True):
            _draw_bars(ax, way, bars, _LONGEST / longest)
        stay = float(np.trace(self.flows))
        name_ticks(ax.xaxis, ["rows as they are", f"rows as released:\n{stay:.0%} in their cells"])
        about = f"{label(self.sensitive)} is {label(self.secret)}"
        room = 1.0 + _LONGEST + 0.15
        ax.set(ylabel=f"chance that {about}", xlim=(1.0 - room, room), ylim=(-0.02, 1.02))
        ax.grid(visible=False)
        ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)

    @property
    def _sizes(self) -> FloatArray:
        return np.asarray(self.flows.sum(axis=0))

    def _draw_flows(self, ax: Any, options: dict[str, Any]) -> None:
        """Draw a line for each flow, as wide as the rows that go by it are many."""
        along = np.linspace(0.0, 1.0, 30)
        bent = along * along * (3.0 - 2.0 * along)
        said = {True: "stay in their cell", False: "get a row of another cell"}
        order = sorted(
            zip(*np.nonzero(self.flows > _FAINT), strict=True), key=lambda at: at[0] != at[1]
        )
        for a, b in order:
            start, end = self.before[a], self.after[b]
            width = max(_WIDEST * float(self.flows[a, b]), 0.4)
            look: dict[str, Any] = {"color": MIDDLE if a == b else WARM, "linewidth": width}
            look |= {"linestyle": "-" if a == b else "--", "alpha": 0.7}
            told = said.pop(bool(a == b), None)
            ax.plot(along, start + (end - start) * bent, **{"label": told, **look, **options})


def _bars(chances: FloatArray, sizes: FloatArray) -> list[tuple[float, float]]:
    """Return chances that are apart, and the share of the rows with each."""
    groups: list[list[int]] = []
    for k in np.argsort(chances, kind="stable").tolist():
        near = groups and chances[k] - chances[groups[-1][0]] < _APART
        groups = [*groups[:-1], [*groups[-1], k]] if near else [*groups, [k]]
    totals = [float(sizes[each].sum()) for each in groups]
    means = [float(chances[each] @ sizes[each]) for each in groups]
    return [(m / t, t) for m, t in zip(means, totals, strict=True) if t > 0.0]


def _draw_bars(ax: Any, side: float, bars: list[tuple[float, float]], scale: float) -> None:
    """Draw which share of the rows has which chance, to the left or the right."""
    foot = 0.0 if side < 0.0 else 1.0
    for chance, share in bars:
        ax.barh(chance, side * scale * share, 0.8 * _APART, left=foot, color=DARK)
        if share >= _NAMED:
            look = {"ha": "right" if side < 0.0 else "left", "va": "center", "fontsize": "small"}
            ax.text(foot + side * (scale * share + 0.02), chance, f"{share:.0%}", **look)


def _one_of(names: list[Any], asked: Any, argument: str) -> Any:
    if asked is None and len(names) == 1:
        return names[0]
    if asked is None or asked not in names:
        raise ValueError(
            f"{argument} must be one of {listed(names)}, got {quoted(asked)}; a display shows one."
        )
    return next(name for name in names if name == asked)
