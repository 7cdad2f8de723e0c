"""Draw what a row of the diabetes data tells of a patient's sex, and what it is still good for.

    python docs/figures/release.py

The release is the first example of the README: nine columns as typical rows, at epsilon 1.
"""

import warnings

import numpy as np
from _drawing import DARK, LIGHT, canvas, write, written
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, cross_val_predict
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


def explained(table, progression, release):
    """Return R2 for how far the disease progressed, learnt on released rows, held to true ones."""
    model, guesses = RandomForestRegressor(min_samples_leaf=5, random_state=0), progression.copy()
    for train, test in KFold(10, shuffle=True, random_state=0).split(table):
        learnt = release(table.iloc[train]).to_numpy()
        model.fit(learnt, progression[train])
        guesses[test] = model.predict(table.drop(columns="sex").iloc[test].to_numpy())
    return r2_score(progression, guesses)


def draw(path):
    """Draw both histograms, beyond the band of the guarantee and inside it, and the task beside."""
    bunch = load_diabetes(as_frame=True, scaled=False)
    table, progression = bunch.data, bunch.target.to_numpy()
    rows = PufferfishMicroaggregator(epsilon=EPSILON, sensitive="sex", random_state=0)
    raw, (chance, often) = as_they_are(table), as_released(rows.fit(table))
    figure, axes = canvas(3, height=3.2, width_ratios=[3, 3, 2])
    shown = (("rows as they are", raw, np.ones(len(raw))), ("rows as released", chance, often))
    for axis, (title, chances, weights) in zip(axes, shown, strict=False):
        _band(axis)
        axis.hist(chances, BINS, weights=100 * weights / weights.sum(), color=DARK)
        axis.set(title=title, xlim=(0, 1), ylim=(0, 40), xlabel="chance of the first sex")
    axes[0].set(ylabel="rows in per cent")
    axes[1].text(
        0.5, 0.93, f"what epsilon {EPSILON:g} allows", ha="center", transform=axes[1].transAxes
    )
    ways = {"as they are": lambda some: some.drop(columns="sex"), "as released": rows.fit_transform}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "random_state=0 is for tests only")  # as this picture is
        scores = [explained(table, progression, way) for way in ways.values()]
    bars = axes[2].bar(list(ways), scores, color=DARK, width=0.5)
    axes[2].bar_label(bars, fmt="%.2f")
    axes[2].set(title="R2 for the progression", ylim=(0, 0.6))
    write(figure, path)


def _band(axis):
    low = 1 / (1 + np.exp(EPSILON))
    axis.axvspan(low, 1 - low, color=LIGHT)
    axis.axvline(0.5, color="white", linewidth=1)


if __name__ == "__main__":
    written(draw, "release")
