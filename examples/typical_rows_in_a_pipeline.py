"""Typical rows in a Pipeline, cross-validated
===========================================

Train a model on typical rows inside a Pipeline, and see what that costs::

    python examples/typical_rows_in_a_pipeline.py

The model predicts whether diabetes progresses faster than in the median patient. Its owner shall
not learn the patients' sex from the rows. The Pipeline passes ``y`` on, so that groups of rows part
what the model needs; sex is no column of X and reaches the step by metadata routing.
"""

import warnings

import pandas as pd
import sklearn
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_puffer import PufferfishMicroaggregator, UtilityWarning

PUBLIC = ["bmi", "bp", "s5"]
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


def main():
    sklearn.set_config(enable_metadata_routing=True)
    warnings.simplefilter("ignore", UtilityWarning)  # of few rows; the scores below say it
    bunch = load_diabetes(as_frame=True, scaled=False)
    X, sex = bunch.data[PUBLIC], bunch.data["sex"]
    y = bunch.target > bunch.target.median()

    scores = {"raw rows": scored(make_pipeline(*model()), X, y)}
    # 300 rows: shares as counted, since sampling error would leave little
    rows = PufferfishMicroaggregator(epsilon=1.0, n_prototypes=8, level=None)
    rows.set_fit_request(sensitive_features=True)
    scores["typical rows"] = scored(make_pipeline(rows, *model()), X, y, sensitive_features=sex)
    print("AUC of three folds, trained and tested on the same kind of rows:")
    print(pd.Series(scores).round(3).to_string())

    rows.fit(X, y, sensitive_features=sex)
    for what, table in (("raw", X), ("typical", rows.transform(X))):
        print(f"sex from {what} rows: AUC {attacked(table, sex):.3f}")


def model():
    return StandardScaler(), LogisticRegression()


def scored(pipeline, X, y, **params):
    folds = cross_validate(pipeline, X, y, cv=FOLDS, scoring="roc_auc", params=params)
    return folds["test_score"].mean()


def attacked(rows, sex):
    """Return how well a model learnt on one half of the rows tells sex in the other."""
    fitted = make_pipeline(*model()).fit(rows[::2], sex[::2])
    return roc_auc_score(sex[1::2], fitted.predict_proba(rows[1::2])[:, 1])


if __name__ == "__main__":
    main()
