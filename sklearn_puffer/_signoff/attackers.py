"""Who attacks: classifiers that are trained on released rows to tell one secret from another."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer

from sklearn_puffer._base import Array, FloatArray, quoted

MOST_LEVELS = 250
"""Categories of a column that a boosted classifier takes; of more it is given ranks."""
_QUANTILES = 200
_NEIGHBOURS = 25
_LEAST = 1e-12


def attackers_of(attackers: Any) -> dict[str, Any]:
    """Return the classifiers by name: the default ones, or those that are given.

    >>> list(attackers_of(None))
    ['boosted', 'neighbours', 'linear']
    """
    if attackers is None:
        return _default()
    if isinstance(attackers, Mapping):
        named = {str(name): each for name, each in attackers.items()}
    else:
        given = list(attackers) if isinstance(attackers, Sequence) else [attackers]
        named = {}
        for each in given:
            own = type(each).__name__
            count = sum(name.partition(" ")[0] == own for name in named)
            named[own if not count else f"{own} {count + 1}"] = each
    for name, each in named.items():
        _check(name, each)
    if not named:
        raise ValueError("attackers is empty; give at least one classifier, or None for three.")
    return named


def _check(name: str, attacker: Any) -> None:
    learns = hasattr(attacker, "fit") and not isinstance(attacker, type)
    if not learns or not is_classifier(attacker):
        raise TypeError(
            f"attackers holds {quoted(attacker)} ({quoted(name)}), which is no classifier; give "
            "objects such as sklearn.linear_model.LogisticRegression()."
        )


def _default() -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression  # heavy, and few ask for it
    from sklearn.neighbors import KNeighborsClassifier

    return {
        "boosted": boosted(60),
        "neighbours": KNeighborsClassifier(_NEIGHBOURS),
        "linear": LogisticRegression(max_iter=300),
    }


class _AsTheyCome(Pipeline):
    """A pipeline that takes any columns."""


def counts_copies(attacker: Any) -> bool:
    """Return whether an attacker is given one column more; a pipeline may be made for some."""
    return isinstance(attacker, _AsTheyCome) or not isinstance(attacker, Pipeline)


def boosted(max_iter: int) -> Any:
    """Return boosted trees that take columns as they are."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # heavy, and few ask for it

    model = HistGradientBoostingClassifier(
        max_iter=max_iter,
        max_leaf_nodes=15,
        early_stopping=False,
        categorical_features="from_dtype",
    )
    return _AsTheyCome([("boosted", model)])


def trained(attacker: Any, rows: Any, labels: Array) -> Any:
    """Return a fitted copy; a pipeline is given the rows as they are, and others numbers."""
    model = clone(attacker)
    if not isinstance(model, Pipeline):
        model = make_pipeline(encoder(rows), _fitting(model, len(rows)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # an attack that is not over is one
        return model.fit(rows, labels)


def _fitting(model: Any, n_rows: int) -> Any:
    """Return a model that asks for no more neighbours than there are rows."""
    asked = getattr(model, "n_neighbors", None)
    if isinstance(asked, int) and asked > n_rows:
        model.set_params(n_neighbors=n_rows)
    return model


def encoder(rows: Any) -> Any:
    """Return what makes numbers between 0 and 1 of columns, by rank: noise may have heavy tails."""
    words = [name for name, kind in rows.dtypes.items() if str(kind) == "category"]
    others = [name for name in rows.columns if name not in words]
    ranks = QuantileTransformer(n_quantiles=min(_QUANTILES, len(rows)), subsample=None)
    gaps = SimpleImputer(strategy="constant", fill_value=0.5, add_indicator=True)
    one_hot = OneHotEncoder(handle_unknown="ignore", max_categories=MOST_LEVELS)
    return ColumnTransformer(
        [("ranks", make_pipeline(ranks, gaps), others), ("is", one_hot, words)]
    )


def scored(model: Any, rows: Any, secret: int, against: int) -> FloatArray:
    """Return how much more each row looks like one secret than like the other."""
    classes = list(model.classes_)
    i, j = classes.index(secret), classes.index(against)
    if hasattr(model, "predict_proba"):
        chances = np.maximum(np.asarray(model.predict_proba(rows), dtype=float), _LEAST)
        return np.asarray(np.log(chances[:, i]) - np.log(chances[:, j]))
    if hasattr(model, "decision_function"):
        margin = np.asarray(model.decision_function(rows), dtype=float)
        if margin.ndim == 1:
            return margin if i else -margin
        return np.asarray(margin[:, i] - margin[:, j], dtype=float)
    guess = np.asarray(model.predict(rows))
    return np.asarray((guess == secret).astype(float) - (guess == against))
