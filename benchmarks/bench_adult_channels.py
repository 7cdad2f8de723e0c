"""Channels of real rows: Adult at epsilon 1, the prior a boosted classifier of other rows.

What is measured is the whole `fit` of the estimator. A row is within its target where time,
rows unchanged, cost (divided by the number of columns) and gap are. The AUC of fresh models, of the
secret and of the income, are means over draws; they are trained and tested on released rows.
"""

import os
import resource
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from _measure import alone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.fits import ClassifierFit
from sklearn_puffer.noise import OptimalChannel

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
ADULT = Path(os.environ.get("SKLEARN_PUFFER_TABLES", BESIDE)) / "adult.csv"
COLUMNS = (
    "age",
    "workclass",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "education",
    "sex",
)
DRAWS = 3


def rows(quick=False):
    if not ADULT.exists():
        return []
    if quick:
        return [_row("sex", 9, 300, seconds=60.0)]
    return [
        _row("sex", 9, 8_000, seconds=60.0, unchanged=0.83, cost=0.0436, gap=1e-3),
        _row("race", 6, 4_000, unchanged=0.82, cost=0.064),
        _row("race", 10, 3_000, unchanged=0.86, cost=0.043, lost=0.01),
        _row("race", 12, 48_842, seconds=1800.0, time_limit=1500.0, n_jobs=2),
    ]


def growth():
    if not ADULT.exists():
        return []
    sizes = (500, 1_000, 2_000, 4_000)
    return [
        {
            "n": n,
            "sex, 9 columns": _row("sex", 9, n)["ours"],
            "race, 6 columns": _row("race", 6, n)["ours"],
        }
        for n in sizes
    ]


def _row(secret, n_columns, n_rows, *, time_limit=None, n_jobs=None, **bars):
    """Measure a channel; ``bars`` are the most of each figure, and the least of unchanged."""
    own, noiser, seconds = _fitted(secret, n_columns, n_rows, time_limit, n_jobs)
    channel = noiser.channel_
    found = {
        "seconds": seconds,
        "unchanged": channel.unchanged,
        "cost": channel.expected_change / n_columns,
        "gap": _gap(channel),
    }
    if n_rows <= 8_000:
        found["attack AUC"], found["attack AUC, released"] = _fresh_models(noiser, own, secret)
        found["income AUC"], found["income AUC, released"] = _fresh_models(noiser, own, "income")
        found["lost"] = found["income AUC"] - found["income AUC, released"]
    name = f"channel of Adult, {secret}, {n_columns} columns, {n_rows:,} rows"
    note = ", ".join(f"{label} {value:.4g}" for label, value in found.items() if label != "seconds")
    row = alone(name, seconds, f"{note}, peak of the process {_peak():.2g} GB")
    return row | {
        "target": ", ".join(_in_words(label, bar) for label, bar in bars.items()),
        "reached": all(_within(label, found[label], bar) for label, bar in bars.items())
        if bars
        else None,
    }


def _in_words(label, bar):
    words = {
        "seconds": f"<= {bar:g} s",
        "unchanged": f">= {bar:.0%} unchanged",
        "lost": f"income AUC within {bar:g}",
    }
    return words.get(label, f"{label} <= {bar:g}")


def _within(label, value, bar):
    return value >= bar if label == "unchanged" else value <= bar


def _fitted(secret, n_columns, n_rows, time_limit, n_jobs):
    adult, order = _adult()
    public = [name for name in COLUMNS[:n_columns] if name != secret]
    own = adult.iloc[order[:n_rows]]
    # where the whole table is released there are no other rows: half of them have to do
    others = adult.iloc[order[n_rows:]] if n_rows < len(adult) else adult.iloc[order[::2]]
    model = HistGradientBoostingClassifier(max_iter=150, learning_rate=0.06)
    fitted = model.fit(_as_categories(others[public]), others[secret])
    noiser = PufferfishNoiser(
        epsilon=1.0,
        sensitive=secret,
        public=public,
        prior=ClassifierFit(fitted, cv="prefit"),
        noise=OptimalChannel(time_limit=time_limit),
        n_jobs=n_jobs,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        start = time.perf_counter()
        noiser.fit(own)
        return own, noiser, time.perf_counter() - start


def _fresh_models(noiser, own, target):
    """Return the AUC of fresh models of a column, on the rows as they are and as released."""
    releases = [noiser.transform(own) for _ in range(DRAWS)]
    rows = own[list(noiser.get_feature_names_out())]
    return _auc(rows, own[target]), float(np.mean([_auc(each, own[target]) for each in releases]))


def _auc(frame, y):
    model = HistGradientBoostingClassifier(max_iter=60, learning_rate=0.08, random_state=0)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    frame = _as_categories(frame)
    probabilities = cross_val_predict(model, frame, y, cv=folds, method="predict_proba")
    if probabilities.shape[1] == 2:
        return roc_auc_score(y, probabilities[:, 1])
    return roc_auc_score(y, probabilities, multi_class="ovr", average="macro")


def _gap(channel):
    if channel.lower_bound is None:
        return np.inf
    return max(0.0, 1.0 - channel.lower_bound / channel.expected_change)


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _as_categories(frame):
    texts = frame.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]]
    return frame.astype(dict.fromkeys(texts, "category"))


@cache
def _adult():
    adult = pd.read_csv(ADULT, keep_default_na=False)
    return adult, np.random.default_rng(0).permutation(len(adult))
