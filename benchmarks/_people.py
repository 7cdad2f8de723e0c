"""Real tables for benchmarks, and what a release of their rows changes and lets others learn."""

import os
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
FOLDER = Path(os.environ.get("SKLEARN_PUFFER_TABLES", BESIDE))
ADULT = [
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
]


def change(before, after, fitted):
    """Return the mean change of a column, in standard deviations, or how many values changed."""
    found = []
    for name in before:
        if pd.api.types.is_numeric_dtype(before[name]):
            found.append((before[name] - after[name]).abs().mean() / fitted[name].std())
        else:
            found.append((before[name] != after[name]).mean())
    return float(np.mean(found))


def auc(train, y, test, truth):
    """Return the AUC on tested rows of a boosted model; of several secrets the mean over them."""
    both = _as_categories(pd.concat([train, test]))
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    said = model.fit(both.iloc[: len(train)], y).predict_proba(both.iloc[len(train) :])
    if said.shape[1] == 2:
        return roc_auc_score(truth == model.classes_[1], said[:, 1])
    aucs = [
        roc_auc_score(truth == label, said[:, k])
        for k, label in enumerate(model.classes_)
        if 0 < (truth == label).sum() < len(truth)
    ]
    return float(np.mean(aucs))


def _as_categories(frame):
    texts = frame.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]]
    return frame.astype(dict.fromkeys(texts, "category"))


@cache
def read(file):
    """Return a table by the name of its file."""
    warnings.simplefilter("ignore", UserWarning)
    separator = ";" if file == "student" else ","
    return pd.read_csv(FOLDER / file, sep=separator, keep_default_na=False)
