"""Draw what a row of the diabetes data tells of a patient's sex, before and after a release.

    python docs/figures/release.py

The swap of the first example of the README, at epsilon 1.
"""

import numpy as np
from _drawing import DARK, LIGHT, canvas, write, written
from sklearn.datasets import load_diabetes

from sklearn_puffer import PufferfishNoiser

EPSILON = 1.0
BINS = np.linspace(0.0, 1.0, 31)


def fitted():
    """Return the noiser of the README's example."""
    table = load_diabetes(as_frame=True, scaled=False).data
    noiser = PufferfishNoiser(EPSILON, sensitive="sex", public=["age", "bmi", "bp"], noise="swap")
    noiser.fit_transform(table)
    return noiser


def chances(noiser):
    """Return the chance of the first sex given each cell, and the share of each, twice.

    Both sexes are equally likely before. First for the rows as they are, then for the released
    rows: in each cell the mean over the patients who then hold a row of it.
    """
    swap = noiser.swap_
    secrets, rows = swap.posteriors["sex"], swap.counts["sex"]
    joint = secrets / rows.sum(axis=0)
    histograms = []
    for flows in (np.diag(swap.flows.sum(axis=1)), swap.flows):
        masses = flows.T @ joint
        histograms.append((masses[:, 0] / masses.sum(axis=1), flows.sum(axis=0)))
    return histograms


def draw(path):
    """Draw both histograms, one above the band of the guarantee and one inside it."""
    noiser = fitted()
    figure, axes = canvas(2, height=3.2, sharey=True)
    titles = (
        "rows as they are",
        f"rows as released: {noiser.swap_.unchanged:.0%} with their owners",
    )
    for axis, (chance, share), title in zip(axes, chances(noiser), titles, strict=True):
        _band(axis)
        axis.hist(chance, BINS, weights=100 * share, color=DARK)
        axis.set(title=title, xlim=(0, 1), xlabel="chance that the patient is of the first sex")
    axes[0].set(ylabel="rows in per cent", ylim=(0, 42))
    axes[1].text(
        0.5, 0.93, f"what epsilon {EPSILON:g} allows", ha="center", transform=axes[1].transAxes
    )
    write(figure, path)


def _band(axis):
    low = 1 / (1 + np.exp(EPSILON))
    axis.axvspan(low, 1 - low, color=LIGHT)
    axis.axvline(0.5, color="white", linewidth=1)


if __name__ == "__main__":
    written(draw, "release")
