"""The picture of typical rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sklearn_puffer._base import FloatArray
from sklearn_puffer._words import quoted
from sklearn_puffer.displays.noisers import MAP, WARM, Display, check_axes

_LARGEST_COLOUR = 3.0  # budgets of log odds at which colours end


@dataclass(eq=False)
class PrototypeDisplay(Display):
    """The log odds at each typical row, without and with the channel, in two principal components.

    A typical row is a circle, whose area grows with its fitted rows. The colour is the largest log
    odds between two secrets, as counted: on the left if rows were released as their own typical
    row, on the right as they are released.

    Parameters
    ----------
    places : ndarray of shape (n_prototypes, 2)
        Scores of the typical rows on two principal components.
    explained : tuple of float
        The share of their variance that each component explains.
    sizes : ndarray of shape (n_prototypes,)
        Fitted rows of each; rows of the sample, if more than 50,000 distinct rows were fitted.
    before, after : ndarray of shape (n_prototypes,)
        The largest log odds of a protected pair, as counted, without and with the channel.
    budget : float
        The largest log odds that are allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_puffer import PufferfishMicroaggregator
    >>> from sklearn_puffer.displays import PrototypeDisplay
    >>> X = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], 100, axis=0)
    >>> secrets = np.repeat([0, 1, 0, 1], [90, 60, 75, 75])
    >>> rows = PufferfishMicroaggregator(0.5, level=None).fit(X, sensitive_features=secrets)
    >>> display = PrototypeDisplay.from_microaggregator(rows)
    >>> bool((display.after <= 0.5 + 1e-9).all() and display.before.max() > 0.5)
    True
    >>> axes = display.ax_  # drawn, and once more by display.plot(ax=...)
    """

    places: FloatArray
    explained: tuple[float, float]
    sizes: FloatArray
    before: FloatArray
    after: FloatArray
    budget: float

    @classmethod
    def from_microaggregator(cls, rows: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Compute scores and log odds of a fitted microaggregator.

        Parameters
        ----------
        rows : fitted PufferfishMicroaggregator
            Its typical rows, counts and channel are drawn.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a figure.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        PrototypeDisplay
            Drawn, with its data, ``ax_`` and ``figure_``.

        Raises
        ------
        ModuleNotFoundError
            Without matplotlib, which the extra ``plot`` brings.
        TypeError
            If it is not fitted.
        """
        check_axes(ax)
        if not (hasattr(rows, "channel_") and hasattr(rows, "prototypes_")):
            raise TypeError(
                f"rows must be a fitted PufferfishMicroaggregator, got {quoted(rows)}; call fit "
                "first."
            )
        prototypes = rows._mechanism().prototypes
        places, explained = _principal(prototypes.coordinates.rows(prototypes.rows).dense())
        sizes = prototypes.sizes.astype(float)
        before, after = rows._prototype_odds()
        budget = float(rows.certificate_.epsilon)
        return cls(places, explained, sizes, before, after, budget).plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, options: dict[str, Any]) -> None:
        wide = 1.2 * max(float(np.ptp(self.places[:, 0])), 1e-9)
        area = 20.0 + 280.0 * self.sizes / self.sizes.max()
        most = self.before[np.isfinite(self.before)].max(initial=self.budget)
        top = min(float(most), _LARGEST_COLOUR * self.budget)
        for k, told in enumerate((self.before, self.after)):
            look = {"s": area, "cmap": MAP, "vmin": 0.0, "vmax": top, "edgecolor": "0.3", **options}
            x, y = (self.places + np.array([k * wide, 0.0])).T
            drawn = ax.scatter(x, y, c=np.minimum(told, top), linewidth=0.6, **look)
            over = told > self.budget * (1.0 + 1e-9)
            ax.scatter(x[over], y[over], marker="x", color=WARM, s=30, linewidth=1.5)
        middle = self.places[:, 0].mean()
        ax.set_xticks([middle, middle + wide], ["typical", "released"])
        parts = ", ".join(f"{share:.0%}" for share in self.explained)
        ax.set(xlabel=f"first principal component ({parts} of the variance in two)")
        ax.set(ylabel="second principal component")
        bar = ax.figure.colorbar(drawn, ax=ax)
        bar.set_label(f"log odds; crosses: beyond {self.budget:g}")


def _principal(points: FloatArray) -> tuple[FloatArray, tuple[float, float]]:
    """Return the scores on two principal components, and their shares of the variance."""
    centred = points - points.mean(axis=0)
    left, spread, _ = np.linalg.svd(centred, full_matrices=False)
    two = np.zeros((len(points), 2))
    two[:, : min(2, len(spread))] = (left * spread)[:, :2]
    total = max(float((spread**2).sum()), np.finfo(float).tiny)
    shares = np.append(spread**2, 0.0)[:2] / total
    return two, (float(shares[0]), float(shares[1]))
