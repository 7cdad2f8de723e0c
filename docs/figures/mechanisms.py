"""Draw how Laplace noise and the optimal channel change one column under one guarantee.

    python docs/figures/mechanisms.py

The body mass index of the diabetes data in five bins, given the patient's sex, at epsilon 0.5; each
patient stands for a hundred, since a channel asks for many rows of each value.
"""

import numpy as np
from _drawing import canvas, write, written
from sklearn.datasets import load_diabetes

from sklearn_puffer import PufferfishNoiser

EPSILON = 0.5


def fitted(noise):
    """Return the noiser of one column under a kind of noise."""
    table = load_diabetes(as_frame=True, scaled=False).data
    noiser = PufferfishNoiser(EPSILON, sensitive="sex", public=["bmi"], n_bins=5, noise=noise)
    return noiser.fit(table, sample_weight=np.full(len(table), 100))


def draw(path):
    """Draw densities of released values on the left, and chances in cells on the right."""
    figure, (left, right) = canvas(2, height=3.6)
    channel = fitted("optimal").channel_
    cells = channel.cells["bmi"].to_numpy()
    _densities(left, cells, float(fitted("laplace").theta_["bmi"]))
    _table(right, cells, channel.matrix.toarray())
    right.set_title(f"optimal channel: {channel.unchanged:.0%} stay in their bins")
    write(figure, path)


def _densities(axis, cells, theta):
    values = np.linspace(cells[0] - 3 * theta, cells[-1] + 3 * theta, 500)
    shades = np.linspace(0.0, 0.75, len(cells))
    for place, shade in zip(cells, shades, strict=True):
        density = np.exp(-np.abs(values - place) / theta) / (2 * theta)
        axis.plot(values, density, color=str(shade), label=f"{place:g}")
    axis.set(title=f"Laplace noise of scale {theta:.2g}", ylim=(0, None))
    axis.set(xlabel="released bmi", ylabel="density")
    axis.legend(title="true bmi", frameon=False, fontsize="small")


def _table(axis, cells, chances):
    axis.imshow(chances, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    names = [f"{cell:g}" for cell in cells]
    axis.set(xlabel="released bmi", ylabel="true bmi")
    axis.set_xticks(range(len(cells)), names)
    axis.set_yticks(range(len(cells)), names)
    for (row, column), chance in np.ndenumerate(chances):
        if chance >= 0.005:
            colour = "white" if chance > 0.5 else "black"
            axis.text(column, row, f"{chance:.0%}", ha="center", va="center", color=colour)


if __name__ == "__main__":
    written(draw, "mechanisms")
