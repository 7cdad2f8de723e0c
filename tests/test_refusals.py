"""Whether there is a release depends on nothing that the distribution of the rows allows.

What else a refusal may tell is said in the certificate.
"""

import pandas as pd
import polars as pl
import pytest

from sklearn_puffer import PufferfishNoiser, PufferfishSGDClassifier, PufferfishSGDRegressor

SECRETS = [0, 1, 1, 0, 0, 1] * 4
COLUMNS = {
    "object booleans": pd.Series([True, False, None] * 8, dtype=object),
    "object integers": pd.Series([1, 2, None] * 8, dtype=object),
    "object floats": pd.Series([1.5, 2.5, None] * 8, dtype=object),
    "object strings": pd.Series(["a", "b", None] * 8, dtype=object),
    "floats": pd.Series([1.0, 2.5, None] * 8),
    "nullable integers": pd.Series([1, 2, None] * 8, dtype="Int64"),
    "nullable booleans": pd.Series([True, False, None] * 8, dtype="boolean"),
    "categories": pd.Series(["a", "b", None] * 8, dtype="category"),
    "strings": pd.Series(["a", "b", None] * 8, dtype="string"),
}
RELEASED = [
    *((column, "propagate") for column in COLUMNS),
    # numbers have no place for missing values, in fit neither
    *((column, "category") for column in COLUMNS if not column.endswith(("integers", "floats"))),
]
TABLES = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "numpy": lambda table: table.to_numpy(dtype=object, na_value=None),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(("column", "missing"), RELEASED)
def test_every_row_of_fit_is_released_by_itself(column, missing, table):
    X = TABLES[table](pd.DataFrame({"x": COLUMNS[column], "s": SECRETS}))
    noiser = PufferfishNoiser(0.5, sensitive=1, missing=missing).fit(X)
    for k in range(3):
        rows = slice(k, k + 1)
        assert len(noiser.transform(X.iloc[rows] if table == "pandas" else X[rows])) == 1


def test_certificates_say_which_refusals_are_not_covered():
    X = pd.DataFrame({"x": [1, 2, 3, 1, 2, 3], "s": [0, 0, 1, 0, 1, 1]})
    assumptions = PufferfishNoiser(0.1, sensitive="s").fit(X).certificate_.assumptions
    [line] = [line for line in assumptions if line.startswith("Refusals and warnings")]
    for cause in ("not seen in fit", "missing", "not finite", "kind of their column", "warning"):
        assert cause in line
    assert "not covered" in line
    for estimator in (PufferfishSGDClassifier(), PufferfishSGDRegressor(target_bound=1.0)):
        said = " ".join(estimator.fit(X[["x"]] / 10, X["s"]).certificate_.assumptions)
        assert "Refusals and warnings that depend on the records are not covered" in said
        assert ("a third, are refused" in said) == hasattr(estimator, "classes_")
