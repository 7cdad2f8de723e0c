"""What displays share: axes, marks that are told apart in grey, and names that are safe to draw.

The only module that imports matplotlib, and only when axes are asked for. Nothing global is set:
sizes, fonts and grids are those of the caller's ``rcParams``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from sklearn_puffer._base import quoted, shown

DARK, MIDDLE, LIGHT, WARM = "#1b3a5c", "#6f9bc4", "#c9d8e6", "#d55e00"
"""The first three differ in grey; warm differs from them for every kind of colour blindness."""

COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Those of Okabe and Ito. Some are alike in grey, so that each has a marker of its own."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", "-", "--", "-.")
MAP = "cividis"  # its lightness grows evenly, so that it reads in grey

_LONGEST = 24


class Display(ABC):
    """A picture whose data are computed by ``from_...``, which draws it; `plot` draws it again.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
        Where it was drawn last.
    """

    #: What the picture is a function of, in a sentence: who may see it.
    internal: ClassVar[str] = (
        "It is a function of the raw rows, and not noisy: keep it where you keep the table."
    )

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw it, without computing or releasing anything.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            To draw on; None makes a figure.
        **kwargs : dict
            For the method of the axes that draws what is shown: lines, bars or the image.

        Returns
        -------
        Self
            With ``ax_`` and ``figure_``.

        Raises
        ------
        ModuleNotFoundError
            Without matplotlib, which the extra ``plot`` brings.
        TypeError
            If ``ax`` is none.
        """
        axes = axes_of(ax)
        self._draw(axes, kwargs)
        self.ax_, self.figure_ = axes, axes.figure
        return self

    @abstractmethod
    def _draw(self, ax: Any, options: dict[str, Any]) -> None:
        """Draw on the axes; ``options`` are the caller's, for the main artists."""


def axes_of(ax: Any) -> Any:
    """Return the axes, or those of a new figure."""
    check_axes(ax)
    return _pyplot().subplots(layout="constrained")[1] if ax is None else ax


def check_axes(ax: Any) -> None:
    """Refuse what cannot be drawn on: called before anything is computed to be drawn."""
    if ax is None:
        _pyplot()
    elif not (hasattr(ax, "figure") and hasattr(ax, "set_xlabel")):
        raise TypeError(
            f"ax must be one Axes of matplotlib, got {quoted(ax)}; leave it out for a new figure."
        )


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as fault:
        raise ModuleNotFoundError(
            "displays draw with matplotlib, which is not installed; "
            'pip install "sklearn-puffer[plot]".'
        ) from fault
    return pyplot


def label(value: Any, longest: int = _LONGEST) -> str:
    r"""Return a name or value to draw: on one line, not too long, and never a formula.

    >>> print(label("in $"), label("a_very_long_name_of_a_column", 12))
    in \$ a_very_long…
    """
    text = shown(value)
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    text = f"\N{NO-BREAK SPACE}{text}" if text.startswith("_") else text  # else no legend has it
    return text.replace("$", r"\$")


def style(k: int) -> dict[str, Any]:
    """Return how the k-th line looks: no two of seven alike, in grey neither."""
    n = len(COLOURS)
    return {"color": COLOURS[k % n], "marker": MARKERS[k % n], "linestyle": LINES[k % n]}


def name_ticks(axis: Any, labels: Sequence[str], rotate: bool = False) -> None:
    """Name the places 0, 1, ... of an axis; turned, where names are long."""
    turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if rotate else {}
    axis.set_ticks(range(len(labels)), labels, **turned)


def are_long(labels: Sequence[str]) -> bool:
    """Return whether names would touch each other in a row."""
    return sum(len(each) + 2 for each in labels) > 60


def and_more(n: int) -> str:
    """Return what stands for those that are not drawn."""
    return f"and {n} more"
