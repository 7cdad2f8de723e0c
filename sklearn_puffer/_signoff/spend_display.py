"""What a ledger has on record, in its order: the part of the budget, or rows of persons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from sklearn_puffer._base import FloatArray, quoted
from sklearn_puffer._releases import Call, Entry, Ledger, PersonLedger, Rule
from sklearn_puffer._signoff.drawing import (
    DARK,
    LIGHT,
    WARM,
    Display,
    are_long,
    check_axes,
    label,
    style,
)

_MOST = 6  # lines
_BARS: dict[str, dict[str, Any]] = {
    "new releases": {"color": DARK},
    "the same again, free": {"color": LIGHT, "hatch": "//", "edgecolor": DARK},
    "withheld": {"color": "white", "hatch": "xx", "edgecolor": WARM},
}
_LABELLED = 12  # calls that are named


@dataclass(eq=False)
class SpendDisplay(Display):
    """What was spent, entry by entry: the part of the budget, or the rows of persons.

    Parameters
    ----------
    names : list of str
        Of the entries, in the order of the record: their notes or data sets.
    series : dict of str to ndarray of shape (n,)
        Of a `Ledger` the part of the budget that is spent after each entry, by data set; of a
        `PersonLedger` how many rows of each call were new releases, came out as before, and were
        withheld.
    of_persons : bool
        Whether it is that of a `PersonLedger`.

    Notes
    -----
    Ledgers hold no times: entries are in their order, and equal releases of a `Ledger`, which are
    counted together, stand where the first of them was.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from sklearn_puffer import Ledger, PufferfishNoiser, SpendDisplay
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> noiser = PufferfishNoiser(epsilon=1.0, sensitive="loan", releases=2).fit(table)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger.create(f"{folder}/cars.ledger", noiser)
    ...     released = ledger.transform(noiser, table, note="for the press")
    ...     released = ledger.transform(noiser, table, factor=2)
    ...     display = SpendDisplay.from_ledger(ledger)
    >>> display.series["data"].round(3)
    array([0.5 , 0.75])
    >>> axes = display.ax_  # drawn, and once more by display.plot(ax=...)
    """

    internal: ClassVar[str] = (
        "It is a function of what was released when, and of notes and names of data sets; for a "
        "ledger of persons also of who is in each table. It depends on no value."
    )

    names: Sequence[str]
    series: Mapping[str, FloatArray]
    of_persons: bool = False

    @classmethod
    def from_ledger(cls, ledger: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Take what is on record.

        Parameters
        ----------
        ledger : Ledger or PersonLedger
            Of any noiser.
        ax : matplotlib Axes, default=None
            To draw on; None makes a figure.
        **kwargs : dict
            For `plot`.

        Returns
        -------
        SpendDisplay
            Drawn, with its data, ``ax_`` and ``figure_``.

        Raises
        ------
        ModuleNotFoundError
            Without matplotlib, which the extra ``plot`` brings.
        TypeError
            If it is none.
        LedgerError, OSError
            If its file cannot be read.
        """
        check_axes(ax)
        if isinstance(ledger, PersonLedger):
            calls = ledger.history()
            display = cls([_name(each) for each in calls], _rows(calls), of_persons=True)
        elif isinstance(ledger, Ledger):
            entries, rule = ledger.history(), ledger.rule
            series = {name: _shares(rule, name, entries) for name in ledger.datasets}
            display = cls([_name(each) for each in entries], series)
        else:
            raise TypeError(
                f"ledger must be a Ledger or PersonLedger, got {quoted(ledger)}; open it with "
                "Ledger.open."
            )
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, options: dict[str, Any]) -> None:
        if self.of_persons:
            self._draw_rows(ax, options)
        else:
            self._draw_shares(ax, options)
        _name_entries(ax, self.names)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(fontsize="small")

    def _draw_rows(self, ax: Any, options: dict[str, Any]) -> None:
        below = np.zeros(len(self.names))
        for name, rows in self.series.items():
            bars = {"label": name, "linewidth": 0.8, **_BARS[name], **options}
            ax.bar(np.arange(1, len(rows) + 1), rows, bottom=below, **bars)
            below = below + rows
        ax.set(xlabel="call", ylabel="rows")

    def _draw_shares(self, ax: Any, options: dict[str, Any]) -> None:
        places = np.arange(len(self.names) + 1)
        most = sorted(self.series, key=lambda name: -self.series[name].max(initial=0.0))
        for k, name in enumerate(most[:_MOST]):
            shares = 100.0 * np.append(0.0, self.series[name])
            line = {"label": label(name), "drawstyle": "steps-post", **style(k), **options}
            ax.plot(places, shares, **line)
        if len(most) > _MOST:
            ax.plot([], [], " ", label=f"{len(most) - _MOST} more with less")
        ax.axhline(100.0, color=WARM, linewidth=1.0, label="the whole budget")
        ax.set(xlabel="entry", ylabel="spent (% of the budget)", ylim=(0.0, 108.0))


def _name(entry: Entry | Call) -> str:
    """Return what stands under an entry: its note, or its data set and number."""
    return entry.note or entry.dataset


def _rows(calls: Sequence[Call]) -> dict[str, FloatArray]:
    fields = zip(_BARS, ("new", "repeated", "withheld"), strict=True)
    return {name: np.array([float(getattr(c, own)) for c in calls]) for name, own in fields}


def _shares(rule: Rule, dataset: str, entries: Sequence[Entry]) -> FloatArray:
    """Return the part of the budget of a data set that is spent after each entry."""
    spent: dict[Any, dict[float, int]] = {}
    shares = []
    for entry in entries:
        if entry.dataset == dataset:
            for axis, scale in entry.scales.items():
                counts = spent.setdefault(axis, {})
                counts[scale] = counts.get(scale, 0) + entry.releases
        shares.append(max((_share(rule, axis, own) for axis, own in spent.items()), default=0.0))
    return np.array(shares)


def _share(rule: Rule, axis: Any, scales: Mapping[float, int]) -> float:
    """Return the part of what an axis may spend: of its budget, or of its draws."""
    drawn = Fraction(sum(scales.values()), rule.draws) if rule.draws else Fraction(0)
    if rule.is_free(axis):
        return float(drawn)
    return float(max(drawn, Fraction(rule.cost(axis, scales)) / Fraction(rule.budgets[axis])))


def _name_entries(ax: Any, names: Sequence[str]) -> None:
    ax.set_xlim(0.0 if ax.lines else 0.4, len(names) + 0.6)
    if len(names) <= _LABELLED:
        told = [f"{k} {label(name, 16)}" if name else f"{k}" for k, name in enumerate(names, 1)]
        turned = (
            {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if are_long(told) else {}
        )
        ax.set_xticks(range(1, len(names) + 1), told, **turned)
    else:
        ax.xaxis.get_major_locator().set_params(integer=True)
