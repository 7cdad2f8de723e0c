"""Draw what a row of the diabetes data tells of a patient's sex, before and after a release.

    python docs/figures/release.py

The release is the first example of the README: nine columns as typical rows, at epsilon 1.
"""

import numpy as np
from _drawing import DARK, LIGHT, canvas, write, written
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_puffer import PufferfishMicroaggregator

EPSILON = 1.0
BINS = np.linspace(0.0, 1.0, 31)


def as_they_are(table):
    """Return the chance of the first sex in each row, by a model that has not seen the row.

    Both sexes are equally likely before.
    """
    model = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
    rows, sex = table.drop(columns="sex"), table["sex"] == table["sex"].min()
    return cross_val_predict(model, rows, sex, cv=10, method="predict_proba")[:, 1]


def as_released(rows):
    """Return the chance of the first sex given each typical row, and how often it is released."""
    counts = rows.counts_.to_numpy()
    released = (counts / counts.sum(axis=0)).T @ rows.channel_.toarray()
    often = counts.sum(axis=1) @ rows.channel_.toarray()
    return released[0] / released.sum(axis=0), often


def draw(path):
    """Draw both histograms, one beyond the band of the guarantee and one inside it."""
    table = load_diabetes(as_frame=True, scaled=False).data
    rows = PufferfishMicroaggregator(epsilon=EPSILON, sensitive="sex").fit(table)
    raw, (chance, often) = as_they_are(table), as_released(rows)
    figure, axes = canvas(2, height=3.2, sharey=True)
    shown = (("rows as they are", raw, np.ones(len(raw))), ("rows as released", chance, often))
    for axis, (title, chances, weights) in zip(axes, shown, strict=True):
        _band(axis)
        axis.hist(chances, BINS, weights=100 * weights / weights.sum(), color=DARK)
        axis.set(title=title, xlim=(0, 1), xlabel="chance that the patient is of the first sex")
    axes[0].set(ylabel="rows in per cent", ylim=(0, 40))
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
