"""The picture of what pairs of secrets lose: ``from_noiser`` draws it, ``plot`` draws it again.

Use this module to show what a release reveals, in a notebook or to those who decide. Tables of
plans, curves and audits are DataFrames, which draw themselves.

Only this module imports matplotlib, when a picture is drawn. Nothing global is set: sizes, fonts
and grids are those of the caller's ``rcParams``. Marks can be distinguished in grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from sklearn_puffer._base import FloatArray, check_count
from sklearn_puffer._certificates import Certificate
from sklearn_puffer._release import TableRelease
from sklearn_puffer._tables import Name
from sklearn_puffer._words import listed, quoted, shown

__all__ = ["LossDisplay"]

MAP = "cividis"  # perceptually uniform, also in grey

_LONGEST = 24


def check_axes(ax: Any) -> None:
    """Refuse what cannot be drawn on, before anything is computed."""
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
    r"""Return a name or value to draw: on one line, shortened, and without formulas.

    >>> print(label("in $"), label("a_very_long_name_of_a_column", 12))
    in \$ a_very_long…
    """
    text = shown(value)
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    text = (
        f"\N{NO-BREAK SPACE}{text}" if text.startswith("_") else text
    )  # legends omit labels that begin with _
    return text.replace("$", r"\$")


_MOST_WRITTEN = 7  # secrets up to which losses are written into cells
_HALF = 0.5


@dataclass(eq=False)
class LossDisplay:
    """A heat map of the loss of each ordered pair of secrets.

    It is a function of the raw rows, and not noisy: keep it where you keep the table.

    Parameters
    ----------
    secrets : list
        Of one sensitive column.
    upper, lower : ndarray of shape (n, n)
        Ends of the interval that holds the exact loss of secret i against secret j, the largest
        over all adversaries; NaN if the pair is not protected.
    budget : float
        The largest loss that is allowed.
    unit : str
        The unit of losses and budget: "nats" or "delta".
    sensitive : str or int
        The sensitive column.
    most : int
        The number of secrets that are drawn: those with the largest losses.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
        Where it was drawn last.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser
    >>> from sklearn_puffer.displays import LossDisplay
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

    ax_: Any = field(init=False, repr=False)
    figure_: Any = field(init=False, repr=False)

    @classmethod
    def from_noiser(
        cls,
        noiser: TableRelease | Certificate,
        *,
        sensitive: Any = None,
        most: int = 16,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Take the losses of a fitted noiser's certificate.

        Parameters
        ----------
        noiser : fitted estimator or PufferfishRelease, or its certificate
            The certificate lists pairs of secrets.
        sensitive : str or int, default=None
            The sensitive column; may be omitted if there is only one.
        most : int, default=16
            How many secrets are drawn at most, those with the largest losses.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        LossDisplay
            Drawn, with its data, ``ax_`` and ``figure_``.

        Raises
        ------
        ModuleNotFoundError
            Without matplotlib, which the extra ``plot`` brings.
        TypeError, ValueError
            If it is not fitted, or has no such column or no pair of secrets.
        """
        check_axes(ax)
        certificate = getattr(noiser, "certificate_", noiser)
        if not hasattr(certificate, "pairs") or not hasattr(certificate, "notion"):
            raise TypeError(
                f"noiser must be a fitted noiser, or its certificate, got {quoted(noiser)}; call "
                "fit first."
            )
        names = list(dict.fromkeys(p.sensitive for p in certificate.pairs))
        if not names:
            raise ValueError(
                "the certificate lists no pair of secrets, so there is no loss to draw."
            )
        name = _one_of(names, sensitive, "sensitive")
        pairs = [pair for pair in certificate.pairs if pair.sensitive == name]
        secrets = list(dict.fromkeys(s for p in pairs for s in (p.secret, p.against)))
        upper, lower = _worst(pairs, secrets)
        unit = "delta" if certificate.delta and certificate.alpha is None else "nats"
        budget = float(certificate.notion.budget)
        most = check_count(most, "most", minimum=2)
        return cls(secrets, upper, lower, budget, unit, name, most).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw it, without computing or releasing anything.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.
        **kwargs : dict
            Passed to ``imshow``.

        Returns
        -------
        Self
            With ``ax_`` and ``figure_``.

        Raises
        ------
        ModuleNotFoundError
            Without matplotlib, which the extra ``plot`` brings.
        TypeError
            If ``ax`` is not an Axes.
        """
        check_axes(ax)
        axes = _pyplot().subplots(layout="constrained")[1] if ax is None else ax
        self._draw(axes, kwargs)
        self.ax_, self.figure_ = axes, axes.figure
        return self

    def _draw(self, ax: Any, options: dict[str, Any]) -> None:
        # the secrets with the largest losses, in their order
        both = np.nan_to_num(np.fmax(self.upper, self.upper.T), nan=-1.0, posinf=np.inf)
        rows = sorted(np.argsort(-both.max(axis=1), kind="stable")[: self.most].tolist())
        upper, lower = (losses[np.ix_(rows, rows)] for losses in (self.upper, self.lower))
        top = self.budget if self.budget > 0.0 else 1.0
        image = ax.imshow(
            np.ma.masked_invalid(np.minimum(upper, top)),
            **{"cmap": MAP, "vmin": 0.0, "vmax": top, **options},
        )
        names = [label(self.secrets[k]) for k in rows]
        turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        long = max(map(len, names)) * len(names) > 30
        ax.set_xticks(range(len(names)), names, **(turned if long else {}))
        ax.set_yticks(range(len(names)), names)
        cut = len(self.secrets) - len(rows)
        about = f"{label(self.sensitive)}" + f" ({len(rows)} of {len(self.secrets)})" * bool(cut)
        ax.set(xlabel="against", ylabel=f"secret of {about}")
        ax.grid(visible=False)
        self._write(ax, upper, lower, top)
        bar = ax.figure.colorbar(image, ax=ax)
        bar.set_label(f"loss ({self.unit}), at most the budget of {self.budget:g}")

    def _write(self, ax: Any, upper: FloatArray, lower: FloatArray, top: float) -> None:
        """Write losses into the cells of few secrets; cross out pairs that are not protected.

        An interval is one number if both ends are equal to three digits.
        """
        n = len(upper)
        for i, j in np.ndindex(n, n):
            low, high = float(lower[i, j]), float(upper[i, j])
            over, ends = high > self.budget, dict.fromkeys([f"{low:.3g}", f"{high:.3g}"])
            text = " to\n".join(ends) + "\nover budget" * over
            text = text if n <= _MOST_WRITTEN else "!" * over
            colour = "black" if min(high, top) > _HALF * top else "white"
            if np.isnan(high):
                ax.plot([j - _HALF, j + _HALF], [i + _HALF, i - _HALF], color="0.6", linewidth=0.8)
            elif text:
                ax.text(j, i, text, ha="center", va="center", color=colour, fontsize="small")


def _worst(pairs: Sequence[Any], secrets: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
    """Return both ends of the losses, the largest over all adversaries."""
    place = {secret: k for k, secret in enumerate(secrets)}
    upper, lower = (np.full((len(secrets), len(secrets)), np.nan) for _ in range(2))
    for pair in pairs:
        at = place[pair.secret], place[pair.against]
        upper[at], lower[at] = np.fmax(upper[at], pair.upper), np.fmax(lower[at], pair.lower)
    return upper, lower


def _one_of(names: list[Any], choice: Any, argument: str) -> Any:
    if choice is None and len(names) == 1:
        return names[0]
    if choice is None or choice not in names:
        raise ValueError(
            f"{argument} must be one of {listed(names)}, got {quoted(choice)}; a display shows one."
        )
    return next(name for name in names if name == choice)
