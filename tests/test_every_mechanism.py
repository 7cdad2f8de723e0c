"""What every mechanism does alike: its tables, artifacts, keys, and changes after `fit`."""

import json
import os
import pickle
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import duckdb
import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sklearn_puffer
from sklearn_puffer import (
    PersonLedger,
    PufferfishMicroaggregator,
    PufferfishNoiser,
    PufferfishRelease,
    PufferfishSwap,
)

KEY = b"blake2b:" + bytes(range(32))
N_ROWS = 400


def people(seed):
    rng = np.random.default_rng(seed)
    ill = rng.random(N_ROWS) < 0.4
    return pd.DataFrame(
        {
            "client": rng.permutation(N_ROWS) + 1000,
            "ill": np.where(ill, "yes", "no"),
            "age": 40 + 3 * ill + rng.integers(0, 9, N_ROWS),
            "pay": (rng.integers(0, 5, N_ROWS) + ill).astype(np.float32),
            "town": rng.choice([*"ABC"], N_ROWS),
            "vip": pd.array(rng.random(N_ROWS) < 0.5, dtype="boolean"),
            "ward": pd.Categorical(rng.choice([*"xyz"], N_ROWS), categories=[*"wxyz"]),
            "visits": pd.array(rng.integers(0, 4, N_ROWS), dtype="Int16"),
        },
        index=[f"row {k}" for k in range(N_ROWS)],
    )


TABLE, NUMBERS = people(0), ["client", "age", "pay"]
PUBLIC = ["age", "pay", "town", "vip", "ward", "visits"]
MECHANISMS = {
    "noise": PufferfishNoiser(2.0, sensitive="ill", public=PUBLIC, dependence="independent"),
    "typical rows": PufferfishMicroaggregator(2.0, sensitive="ill", public=PUBLIC, n_prototypes=6),
    "exchange": PufferfishSwap(2.0, sensitive="ill", public=PUBLIC, ids="client"),
}


@pytest.fixture(params=list(MECHANISMS))
def mechanism(request):
    return clone(MECHANISMS[request.param])


@pytest.fixture(scope="module")
def fits():
    return {name: clone(each).fit(TABLE) for name, each in MECHANISMS.items()}


@pytest.fixture(params=list(MECHANISMS))
def fitted(request, fits):
    """Return an estimator that has released nothing."""
    return pickle.loads(pickle.dumps(fits[request.param]))


def keyed(release, table=TABLE, **how):
    return release.transform(table, **{"row_id": "client", "key": KEY} | how)


def test_no_mechanism_is_left_out():
    public = [getattr(sklearn_puffer, name) for name in sklearn_puffer.__all__]
    found = {each for each in public if hasattr(each, "fit_transform") and hasattr(each, "to_json")}
    assert found - {PufferfishRelease} == set(map(type, MECHANISMS.values()))


def test_public_columns_alone_come_out_with_the_labels_and_types_of_the_rows(fitted):
    released = fitted.transform(TABLE)
    assert set(PUBLIC) <= set(released) <= {"client", *PUBLIC}
    assert list(released) == list(fitted.get_feature_names_out())
    assert released.index.equals(TABLE.index)
    assert released.dtypes.equals(TABLE.dtypes[list(released)])
    assert (released[PUBLIC] != TABLE[PUBLIC]).any(axis=None)


def test_a_table_of_polars_comes_out_as_one(mechanism):
    table = pl.from_pandas(TABLE)
    released = mechanism.fit(table).transform(table)
    assert released.schema == table.select(released.columns).schema


def test_an_array_comes_out_as_one(mechanism):
    X = TABLE[NUMBERS].to_numpy()
    places = {"sensitive": None, "public": [1, 2]}
    places |= {"ids": 0} if "ids" in mechanism.get_params() else {}
    mechanism.set_params(**places).fit(X, sensitive_features=TABLE["ill"])
    beside = {"sensitive_features": TABLE["ill"]} if "ids" in places else {}
    released = mechanism.transform(X, **beside)
    assert isinstance(released, np.ndarray)
    assert released.shape == (N_ROWS, len(mechanism.get_feature_names_out()))


@pytest.mark.parametrize("beside", [pd.DataFrame, np.asarray, lambda secrets: secrets])
def test_positions_of_secrets_beside_rows_are_no_columns_of_these(mechanism, beside):
    X = pd.DataFrame(TABLE[["age", "pay", "visits"]].to_numpy(dtype=float), TABLE.index)
    secrets = pd.Series((TABLE["ill"] == "yes").to_numpy(), TABLE.index)
    bare = {"ids": None} if "ids" in mechanism.get_params() else {}
    mechanism.set_params(sensitive=None, public=None, **bare)
    mechanism.fit(X, sensitive_features=beside(secrets))
    assert len(mechanism.get_feature_names_out()) == 3


@pytest.mark.parametrize(("wanted", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_set_output_says_what_comes_back(mechanism, wanted, kind):
    given = pl.from_pandas(TABLE) if wanted == "pandas" else TABLE
    released = mechanism.set_output(transform=wanted).fit(given).transform(given)
    assert isinstance(released, kind)
    assert list(released.columns) == list(mechanism.get_feature_names_out())


def test_under_a_key_rows_are_the_same_in_any_order_and_from_any_copy(fitted):
    artifact = fitted.to_json()
    read, copy = PufferfishRelease.from_json(artifact), pickle.loads(pickle.dumps(fitted))
    assert read.to_json() == artifact
    assert read.certificate_ == fitted.certificate_
    assert str(read.certificate_) == str(fitted.certificate_)
    assert read.utility_.equals(fitted.utility_)
    first = keyed(fitted)
    for other in (read, copy):
        assert keyed(other).equals(first)
    assert keyed(fitted, TABLE[::-1])[::-1].equals(first)


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_a_lazy_table_is_fitted_and_released_as_its_rows_in_memory(mechanism, engine):
    rows = pl.from_pandas(TABLE)
    table = rows.lazy() if engine == "polars" else duckdb.from_arrow(rows.to_arrow())
    here, there = clone(mechanism).fit(rows), mechanism.fit(table)
    assert there.certificate_.fingerprint == here.certificate_.fingerprint
    plan = keyed(there, table)
    assert type(plan) is type(table)
    released = plan.collect() if engine == "polars" else plan.pl()
    expected = keyed(here, rows)
    assert released.columns == expected.columns
    assert released.sort(released.columns).equals(expected.sort(released.columns))


def test_another_key_is_another_release(fitted):
    again = PufferfishRelease.from_json(fitted.to_json())
    assert not keyed(again, key=KEY[:-1] + b"x").equals(keyed(fitted))


def test_without_a_key_two_copies_share_no_draws(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert not again.transform(TABLE).equals(fitted.transform(TABLE))


def test_the_order_of_the_rows_does_not_matter_to_a_fit(mechanism, fits, request):
    fitted = fits[request.node.callspec.params["mechanism"]]
    shuffled = mechanism.fit(TABLE.sample(frac=1.0, random_state=1))
    assert keyed(shuffled).equals(keyed(PufferfishRelease.from_json(fitted.to_json())))


def test_a_clone_has_the_parameters_and_nothing_that_was_learnt(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "certificate_")


def test_nothing_is_released_after_a_parameter_was_changed(fitted):
    fitted.epsilon = 1.0
    with pytest.raises(ValueError, match=r"^epsilon=1\.0 was set after fit"):
        fitted.transform(TABLE)


def test_an_artifact_that_was_changed_is_refused(fitted):
    record = json.loads(fitted.to_json())
    for field in set(record) - {"checksum"}:
        for changed in ({**record, field: None}, {k: record[k] for k in record if k != field}):
            with pytest.raises(ValueError, match=r"artifact|was written|release"):
                PufferfishRelease.from_json(json.dumps(changed))


def test_a_ledger_of_persons_gives_a_release_again_and_counts_no_second_one(fitted, tmp_path):
    ledger = PersonLedger.create(tmp_path / "clients", fitted, key=KEY)
    first = ledger.transform(fitted, TABLE, row_id="client")
    read = PufferfishRelease.from_json(fitted.to_json())
    assert ledger.transform(read, TABLE[::-1], row_id="client")[::-1].equals(first)
    assert [(call.new, call.repeated) for call in ledger.history()] == [(N_ROWS, 0), (0, N_ROWS)]


NAMED = TABLE.assign(name=[f"n{k}" for k in range(N_ROWS)])
TWICE = pd.concat([TABLE, TABLE[["age"]]], axis=1)
REFUSED = {
    "no budget": (TABLE, {"epsilon": 0.0}, "epsilon must be positive and finite, got 0.0"),
    "no number": (TABLE, {"epsilon": np.nan}, "epsilon must be positive and finite, got nan"),
    "no such column": (TABLE, {"public": ["agee"]}, "does not have .did you mean 'age'"),
    "no such secret": (TABLE, {"sensitive": "il"}, "does not have .did you mean 'ill'"),
    "a secret told": (TABLE, {"known": "ill"}, "(sensitive= and in known=|is not public)"),
    "no row": (TABLE[:0], {}, r"X has 0 row\(s\)"),
    "one secret": (TABLE.assign(ill="yes"), {}, "'ill' has one value only"),
    "a column twice": (TWICE, {}, "column 'age' occurs more than once"),
    "an identifier": (NAMED, {"public": ["name"]}, "'name' looks like an identifier"),
}


@pytest.mark.parametrize(("table", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_fitted_is_refused_in_a_sentence(mechanism, table, options, message):
    with pytest.raises(ValueError, match=message) as refusal:
        mechanism.set_params(**options).fit(table)
    assert str(refusal.value).endswith(".")
    for use in (lambda: mechanism.transform(TABLE), mechanism.to_json):
        with pytest.raises(NotFittedError):
            use()


UNRELEASED = {
    "a column less": (TABLE.drop(columns="age"), {}, "X lacks column 'age', which fit released"),
    "one id": (TABLE.assign(client=1), {}, "row_id 'client' has 1 distinct ids in 400 rows"),
    "a short key": (TABLE, {"key": b"x"}, "key of bytes is shorter than 16 bytes"),
    "a key alone": (TABLE, {"row_id": None}, "key is given without row_id"),
}


@pytest.mark.parametrize(("table", "how", "message"), UNRELEASED.values(), ids=UNRELEASED)
def test_what_cannot_be_released_is_refused_in_a_sentence(fitted, table, how, message):
    with pytest.raises(ValueError, match=message) as refusal:
        keyed(fitted, table, **how)
    assert str(refusal.value).endswith(".")


ELSEWHERE = """
import sys, joblib, pandas
from pathlib import Path
from sklearn_puffer import PufferfishRelease
folder = Path(sys.argv[1])
rows = pandas.read_pickle(folder / "rows")
for path in folder.glob("*.json"):
    copies = joblib.load(path.with_suffix(".joblib")), PufferfishRelease.from_json(path.read_text())
    for k, copy in enumerate(copies):
        released = copy.transform(rows, row_id="client", key=b"blake2b:" + bytes(range(32)))
        released.to_pickle(path.with_suffix(f".{k}"))
"""


@pytest.mark.slow
def test_another_process_releases_alike_from_json_and_joblib(fits, tmp_path):
    TABLE.to_pickle(tmp_path / "rows")
    for name, each in fits.items():
        joblib.dump(each, tmp_path / f"{name}.joblib")
        each.to_json(tmp_path / f"{name}.json")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    script = [sys.executable, "-c", ELSEWHERE, str(tmp_path)]
    subprocess.run(script, check=True, timeout=120, env=environment)
    for name, each in fits.items():
        here = keyed(PufferfishRelease.from_json(each.to_json()))
        for k in range(2):
            pd.testing.assert_frame_equal(pd.read_pickle(tmp_path / f"{name}.{k}"), here)


def test_a_certificate_before_fit_names_fit_and_is_no_attribute(mechanism):
    assert not hasattr(mechanism, "certificate_")
    with pytest.raises(NotFittedError, match=r"not fitted yet\. Call 'fit'"):
        attrgetter("certificate_")(mechanism)


def test_a_budget_beyond_ten_is_said_to_guarantee_nothing_on_the_first_screen(mechanism):
    told = str(mechanism.set_params(epsilon=1000.0).fit(TABLE).certificate_)
    assert "Risk: epsilon = 1000 lets odds shift by a factor of e^1000, by which NOTHING" in told


def test_a_budget_of_ten_is_not_said_to_guarantee_nothing(mechanism):
    certificate = mechanism.set_params(epsilon=10.0).fit(TABLE).certificate_
    assert "NOTHING" not in certificate.details()


@pytest.mark.parametrize(
    ("given", "message"),
    {
        "nothing": (None, "X is None; pass a DataFrame, or an array"),
        "a column": (
            TABLE["age"],
            r"X is a Series \(pandas\), a single column or row, and must be",
        ),
        "a polars column": (pl.Series([1, 2]), r"X is a Series \(polars\), a single .*X.to_frame"),
    }.values(),
)
def test_what_is_no_table_is_refused_with_what_to_pass(mechanism, given, message):
    with pytest.raises(TypeError, match=message):
        mechanism.fit(given)


def test_errors_show_the_beginning_of_long_values_and_no_rows(mechanism):
    with pytest.raises(TypeError, match=r"epsilon must be a positive number, got a DataFrame;"):
        mechanism.set_params(epsilon=TABLE).fit(TABLE)
    with pytest.raises(TypeError, match=r"got \{'age': \[0, 1, 2, [0-9, ]+\.\.\.\.$") as caught:
        PufferfishRelease.from_json({"age": [*range(1000)]})
    assert len(str(caught.value)) < 120
