"""Release inside a Pipeline
=========================

Release inside a Pipeline, train a model on the release, and see what that costs in accuracy::

    python examples/pipeline_accuracy.py

The model predicts whether diabetes progresses faster than in the median patient. The noise is a
step of the Pipeline, so each fold of the cross-validation fits it on its own training rows, and the
model is tested on released rows that it has not seen. The sex of the patients is no column of X: it
reaches the step as ``sensitive_features``, by metadata routing.
"""

import warnings

import pandas as pd
import sklearn
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_puffer import PufferfishNoiser, UtilityWarning

PUBLIC = ["bmi", "bp", "s5"]
BUDGETS = (0.5, 1.0, 2.0, 4.0)


def main():
    sklearn.set_config(enable_metadata_routing=True)
    bunch = load_diabetes(as_frame=True, scaled=False)
    X, sex = bunch.data[PUBLIC], bunch.data["sex"]
    y = bunch.target > bunch.target.median()

    accuracy = {"no noise": _accuracy(make_pipeline(*_model()), X, y)}
    # a model learns from many rows, where no single one tells anything any more
    warnings.simplefilter("ignore", UtilityWarning)
    for epsilon in BUDGETS:
        noiser = PufferfishNoiser(epsilon=epsilon, n_bins=4)
        noiser.set_fit_request(sensitive_features=True)
        pipeline = make_pipeline(noiser, *_model())
        accuracy[f"epsilon {epsilon}"] = _accuracy(pipeline, X, y, sensitive_features=sex)

    table = pd.Series(accuracy).to_frame("accuracy")
    table["loss"] = table.loc["no noise", "accuracy"] - table["accuracy"]
    print("Mean accuracy of 3 x 5 folds; the secret is the patient's sex.\n")
    print(table.to_string(float_format="{:.3f}".format))


def _model():
    return StandardScaler(), LogisticRegression()


def _accuracy(pipeline, X, y, **params):
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=3, random_state=0)
    return cross_validate(pipeline, X, y, cv=folds, params=params)["test_score"].mean()


if __name__ == "__main__":
    main()
