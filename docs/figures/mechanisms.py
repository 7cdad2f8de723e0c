"""Draw how Laplace noise changes one column.

    python docs/figures/mechanisms.py

The body mass index of the diabetes data in five bins, given the patient's sex, at epsilon 0.5.
"""

import numpy as np
from _drawing import canvas, write, written
from sklearn.datasets import load_diabetes

from sklearn_puffer import PufferfishNoiser

EPSILON = 0.5


def draw(path):
    """Draw the densities of released values."""
    table = load_diabetes(as_frame=True, scaled=False).data
    noiser = PufferfishNoiser(EPSILON, sensitive="sex", public=["bmi"], n_bins=5).fit(table)
    [prior] = noiser.priors_["sex"][1.0].values()
    bins = np.unique(prior.rows)
    figure, (axis,) = canvas(1, height=3.6)
    _densities(axis, bins, float(noiser.theta_["bmi"]))
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


if __name__ == "__main__":
    written(draw, "mechanisms")
