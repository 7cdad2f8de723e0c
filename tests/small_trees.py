"""Boosted trees that are soon learnt, for swaps whose classifier is not what is looked at."""

from sklearn.ensemble import HistGradientBoostingClassifier

from sklearn_puffer.fits import ClassifierFit

SMALL_TREES = ClassifierFit(
    HistGradientBoostingClassifier(
        categorical_features="from_dtype", max_iter=6, max_leaf_nodes=5, early_stopping=False
    ),
    cv=2,
)
