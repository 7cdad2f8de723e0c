"""What arrives is what is meant: no values merged, no mask lost, no column taken for another."""

import re
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sklearn_puffer import (
    Ledger,
    PufferfishNoiser,
    PufferfishSGDClassifier,
    PufferfishSGDRegressor,
    PufferfishSum,
)
from sklearn_puffer._base import as_array, floats
from sklearn_puffer.priors import Discrete
from sklearn_puffer.users import User

N_ROWS = 60

# budgets are so large here that columns are easily told apart
pytestmark = pytest.mark.filterwarnings("ignore:.*need no noise under this prior:UserWarning")

FAR = 2**53
# the last two are told apart by x with certainty, the first two hardly
THREE = [0, FAR, FAR + 1]
TELLING = {"x": [0, 0, 1, 1, 1, 0, 0, 1] * 15}


def threes(values):
    """Secrets of which the last goes with x = 1 more often than the others."""
    first, second, third = values
    return [first, second, third, third, third, first, second, first] * 15


def fitted(secrets, **options):
    noiser = PufferfishNoiser(options.pop("epsilon", 0.1), **options)
    return noiser.fit(pd.DataFrame(TELLING), sensitive_features=secrets)


def refusal(call):
    """Return the words with which a call is refused."""
    try:
        call()
    except TypeError as error:
        return str(error)
    return "nothing was refused"


def as_objects(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


# -------------------------------------------------------------------------------------- the secrets

CONTAINERS = {
    "list": list,
    "array": np.array,
    "objects": as_objects,
    "Series": pd.Series,
    "object Series": lambda values: pd.Series(as_objects(values)),
    "nullable": lambda values: pd.Series(values, dtype="Int64"),
    "pyarrow-backed": lambda values: pd.Series(values, dtype="int64[pyarrow]"),
    "category": lambda values: pd.Series(values, dtype="category"),
    "frame": lambda values: pd.DataFrame({"s": as_objects(values)}),
    "polars": pl.Series,
    "chunks": lambda values: pa.chunked_array([values]),
    "arrow array": pa.array,
    "batch": lambda values: pa.RecordBatch.from_pydict({"s": values}),
}


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
@pytest.mark.parametrize("three", [THREE, [0, -FAR, -FAR - 1], [2**62, 2**62 + 1, 1]])
def test_secrets_beyond_2_to_the_53_are_as_many_as_they_were(make, three):
    noiser = fitted(make(threes(three)))
    [priors] = noiser.priors_.values()
    assert set(priors) == set(three)
    [pairs] = noiser.secret_pairs_.values()
    assert len(pairs) == 3
    assert noiser.theta_["x"] > 1.0


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_missing_secrets_take_no_others_along(make):
    secrets = [None, *threes(THREE)[1:]]
    given = make(secrets)
    if getattr(given, "dtype", None) == np.float64:
        pytest.skip("pandas merged them before")
    [priors] = fitted(given, missing="category").priors_.values()
    assert set(priors) == {*THREE, "missing"}


def object_series(values):
    return pd.Series(as_objects(values), dtype=object)


REFUSED = {
    "a float among large integers": [2**60, 2**60 + 1, 0.5],
    "beyond 64 bits": [2**63, 2**63 + 1, -1],
    "a string that is a number": ["1", 1, 2],
    "a string that is NaN": ["nan", float("nan"), "a"],
    "bytes that are a string": [b"a", "a", "b"],
    "a string that is a boolean": [True, "True", "b"],
    "a lone surrogate and how it is written": ["\ud800", "'\\ud800'", "b"],
    "decimals": [Decimal("0.1"), Decimal("0.10000000000000000001"), Decimal(1)],
    "fractions": [Fraction(1, 3), Fraction(6004799503160661, 2**54), Fraction(1)],
}


@pytest.mark.parametrize("three", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("make", [list, as_objects, object_series])
def test_secrets_without_a_type_of_their_own_are_refused_by_name(make, three):
    with pytest.raises((TypeError, ValueError), match=r"column 'sensitive_feature' h"):
        fitted(make(threes(three)))


@pytest.mark.parametrize("make", [list, as_objects, pl.Series])
def test_strings_that_end_in_nothing_stay_apart(make):
    [priors] = fitted(make(threes(["a", "a\0", "a\0b"]))).priors_.values()
    assert set(priors) == {"a", "a\0", "a\0b"}


def extended(values):
    """Return values as long doubles, the last of them a little larger."""
    return np.array(values, dtype=np.longdouble) + np.array([0, 0, 1], dtype=np.longdouble)


@pytest.mark.skipif(np.longdouble(1) + np.longdouble(2) ** -60 == 1, reason="no longer doubles")
def test_long_doubles_are_refused_where_float64_merges_them():
    secrets = np.array(threes(extended([0, FAR, FAR])), dtype=np.longdouble)
    for given in (secrets, pd.Series(secrets), np.array([secrets, secrets]).T):
        with pytest.raises(ValueError, match=r"holds np.longdouble.* no float64 number"):
            fitted(given)
    assert len(fitted(np.array(threes([0.0, 0.1, 0.5]), dtype=np.longdouble)).theta_) == 1
    frame = pd.DataFrame({"s": threes("abc"), "x": secrets})
    with pytest.raises(ValueError, match=r"column 'x' holds .* no float64 number"):
        PufferfishNoiser(1.0, sensitive="s").fit(frame)
    with pytest.raises(ValueError, match=r"column 1 holds .* no float64 number"):
        PufferfishNoiser(1.0, sensitive=0).fit(np.stack([secrets % 2, secrets], axis=1))
    with pytest.raises(ValueError, match=r"atoms hold .* which float64 cannot tell apart"):
        Discrete(extended([0, FAR, FAR]), [0.5, 0.25, 0.25])


def test_a_pair_is_found_by_its_own_values_only():
    floats_there = threes([0.5, 2.0**53, 1.5])
    fitted(floats_there, secret_pairs=[(0.5, FAR)])
    for close in (np.int64(FAR + 1), FAR + 1):
        with pytest.raises(ValueError, match="secret_pairs names 9007199254740993, which"):
            fitted(floats_there, secret_pairs=[(0.5, close)])


# ------------------------------------------------------------------------------- public columns


@pytest.mark.parametrize("dtype", ["int64", "uint64", "Int64", "int64[pyarrow]", object])
def test_public_integers_that_float64_merges_are_refused(dtype):
    frame = pd.DataFrame({"s": threes("abc"), "x": pd.Series(threes(THREE)).astype(dtype)})
    message = r"column 'x' holds integers beyond 2\^53 - 1, such as 9007199254740993"
    with pytest.raises(ValueError, match=message):
        PufferfishNoiser(0.1, sensitive="s").fit(frame)
    with pytest.raises(ValueError, match=message):
        PufferfishNoiser(0.1, sensitive="s").fit(pl.from_pandas(frame.astype({"x": "int64"})))


def test_a_later_integer_is_never_taken_for_one_next_to_it():
    near = [0, FAR - 2, FAR - 1]
    noiser = PufferfishNoiser(0.1, sensitive="s", unknown="error").fit(frame_of(threes(near)))
    for other in (FAR, FAR + 1, -FAR - 1):
        with pytest.raises(ValueError, match="which was not seen in fit"):
            noiser.transform(pd.DataFrame({"x": [other]}))


def frame_of(column):
    return pd.DataFrame({"s": threes("abc"), "x": column})


def test_declared_categories_beyond_2_to_the_53_stay_apart():
    noiser = PufferfishNoiser(1e3, sensitive="s", categories={"x": np.array(THREE)})
    noiser.fit(frame_of(threes(THREE)))
    [distribution] = noiser.priors_["s"]["a"].values()
    assert len(distribution.atoms) == 3
    assert set(noiser.transform(frame_of(threes(THREE)))["x"]) == set(THREE)


def test_lists_of_rows_stay_what_they_were():
    rows = [[s, x] for s, x in zip(threes("abc"), threes([1, "1", 2]), strict=True)]
    with pytest.raises(TypeError, match="column 1 holds mixed"):
        PufferfishNoiser(0.1, sensitive=0).fit(rows)
    rows = [[s, x] for s, x in zip(threes([0.5, *THREE[1:]]), TELLING["x"], strict=True)]
    with pytest.raises(ValueError, match="column 0 holds 9007199254740993, which is no float64"):
        PufferfishNoiser(0.1, sensitive=0).fit(rows)


@pytest.mark.parametrize("atoms", [THREE, [0.5, FAR, FAR + 1], as_objects([0, FAR, FAR + 1])])
def test_atoms_that_float64_merges_are_refused(atoms):
    message = "hold 9007199254740992 and 9007199254740993, which float64 cannot tell apart"
    with pytest.raises(ValueError, match=f"atoms {message}"):
        Discrete(atoms, [0.5, 0.25, 0.25])
    with pytest.raises(ValueError, match=f"atoms {message}"):
        Discrete([[1, atom] for atom in atoms], [0.5, 0.25, 0.25])
    with pytest.raises(ValueError, match=f"values {message}"):
        User(Discrete([0], [1.0]), values=atoms)
    query = PufferfishSum().fit([User(Discrete([0, 1], [0.5, 0.5]), count=3)])
    with pytest.raises(ValueError, match=r"column 'value' holds .*9007199254740993, which"):
        query.release(atoms)


def test_atoms_are_as_many_as_they_were():
    rng = np.random.default_rng(0)
    kinds = [
        lambda: rng.integers(-(2**62), 2**62, 5),
        lambda: rng.integers(0, 2**63, 5, dtype=np.uint64) + np.uint64(2**63),
        lambda: rng.random(5).astype(np.longdouble) + rng.random(5).astype(np.longdouble) / 2**60,
        lambda: as_objects([int(k) + FAR for k in rng.integers(0, 9, 5)]),
        lambda: [Fraction(int(k), 3) + 2**52 for k in rng.integers(0, 9, 5)],
        lambda: [Decimal(int(k)) / 10**20 for k in rng.integers(0, 9, 5)],
    ]
    refused = 0
    for _ in range(50):
        for kind in kinds:
            values = kind()
            try:
                found = floats(values, "values")
            except ValueError:
                refused += 1
                continue
            assert len(set(found.tolist())) == len({Fraction(str(v)) for v in values})
    assert 0 < refused < 200


def test_integer_reports_and_columns_of_a_sum_stay_apart():
    query = PufferfishSum().fit([User(Discrete([0, FAR - 1], [0.5, 0.5]), count=2)])
    for report in (FAR, FAR + 1):
        with pytest.raises(ValueError, match=r"column 'value' holds integers beyond 2\^53 - 1"):
            query.release([0, report])
    with pytest.raises(ValueError, match=r"column 'x' holds integers beyond 2\^53 - 1"):
        PufferfishSum(value="x").fit(frame_of(threes(THREE)))


def test_counts_and_weights_are_whole_and_exact():
    assert Discrete.from_counts([0, 1], [2**70 + 1, 1]).total == 2**70 + 2
    for counts in ([2**70, 0.5], [1 + 1j, 1], ["1", "2"], [float("inf"), 1]):
        with pytest.raises((TypeError, ValueError), match="counts must be"):
            Discrete.from_counts([0, 1], counts)
    X = np.stack([[0, 1] * 30, [1, 0] * 30], axis=1)
    for weights, message in (
        ([1 + 1j] * N_ROWS, "sample_weight must hold real numbers, got complex"),
        ([1] * (N_ROWS - 1) + [FAR + 1], "sample_weight counts 9.007e"),
        (np.full(N_ROWS, 60_000, dtype=np.float16), None),
    ):
        noiser = PufferfishNoiser(1.0, sensitive=0)
        if message is None:
            assert noiser.fit(X, sample_weight=weights).certificate_.holds
            continue
        with pytest.raises((TypeError, ValueError), match=message):
            noiser.fit(X, sample_weight=weights)


def test_half_precision_is_released_in_a_type_that_holds_the_noise():
    column = np.array(threes([0, 6e4, 5e4]), dtype=np.float16)
    released = PufferfishNoiser(0.1, sensitive="s").fit_transform(frame_of(column))["x"]
    assert released.dtype == np.float64
    assert np.isfinite(released).all()


def test_passed_integers_survive_the_way_to_pandas():
    frame = pl.DataFrame(
        {"s": threes("abc"), "x": TELLING["x"], "id": [None, *range(FAR, FAR + 119)]}
    )
    noiser = PufferfishNoiser(1.0, sensitive="s", public="x", remainder="passthrough").fit(frame)
    released = noiser.set_output(transform="pandas").transform(frame)
    assert released["id"].nunique() == 119
    assert released["id"].isna().sum() == 1


# ------------------------------------------------------------------------------------------- masks


def masked(values):
    return np.ma.array(values, mask=np.arange(np.size(values)).reshape(np.shape(values)) % 7 == 0)


TABLE = np.stack([threes([0, 1, 2]), TELLING["x"]], axis=1)


@pytest.mark.parametrize("mask", [masked, np.ma.array], ids=["some masked", "nothing masked"])
def test_a_mask_is_never_lost(mask):
    y = np.array(TELLING["x"])
    noiser = PufferfishNoiser(1.0, sensitive=0).fit(TABLE)
    query = PufferfishSum().fit([User(Discrete([0, 1], [0.5, 0.5]), count=120)])
    model = PufferfishSGDClassifier().fit(TABLE / 3, y)
    calls = {
        "X": lambda: PufferfishNoiser(1.0, sensitive=0).fit(mask(TABLE)),
        "X again": lambda: noiser.transform(mask(TABLE)),
        "rows of X": lambda: noiser.transform([mask(row) for row in TABLE]),
        "sensitive_features": lambda: fitted(mask(threes([0, 1, 2]))),
        "sample_weight": lambda: noiser.fit(TABLE, sample_weight=mask(np.ones(120))),
        "atoms": lambda: Discrete(mask([0, 1]), [0.5, 0.5]),
        "probabilities": lambda: Discrete([0, 1], mask([0.5, 0.5])),
        "counts": lambda: Discrete.from_counts([0, 1], mask([1, 1])),
        "values": lambda: User(Discrete([0], [1.0]), values=mask([0, 1])),
        "reports": lambda: query.release(mask(y)),
        "categories": lambda: fitted(y, categories={"x": mask([0, 1])}),
        "records": lambda: PufferfishSGDRegressor().fit(mask(TABLE / 3), y),
        "targets": lambda: PufferfishSGDRegressor().fit(TABLE / 3, mask(y)),
        "labels": lambda: PufferfishSGDClassifier().fit(TABLE / 3, mask(y)),
        "new records": lambda: model.predict(mask(TABLE / 3)),
        "correlation": lambda: PufferfishSGDRegressor(correlation=mask([1, 0.5])).fit(TABLE / 3, y),
    }
    for name, call in calls.items():
        assert "masked array, whose mask would be lost" in refusal(call), name


# ------------------------------------------------------------------------- tables nobody knows


class Columns:
    """A table with the columns of a frame in another order, and a way to numpy."""

    def __init__(self, frame):
        self.frame = frame

    def __array__(self, dtype=None, copy=None):
        return self.frame.to_numpy(dtype=dtype)

    def __len__(self):
        return len(self.frame)


class NamedColumns(Columns):
    columns = ("a", "s")

    def compute(self):
        return self.frame


class Schema(Columns):
    schema = ("a", "s")

    def toPandas(self):  # noqa: N802
        return self.frame

    def collect(self):
        return [tuple(row) for row in self.frame.to_numpy()]


class Stream(Columns):
    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table(self.frame).__arrow_c_stream__(requested_schema)


class Part(Columns):
    def __arrow_c_array__(self, requested_schema=None):
        raise NotImplementedError


class Interchange(Columns):
    def __dataframe__(self, *args, **kwargs):
        raise NotImplementedError


class Labelled(Columns):
    dims = ("row", "column")

    def to_dataframe(self):
        return self.frame


def structured(frame):
    return frame.to_records(index=False)


STRANGERS = {
    "columns": (NamedColumns, r"X\.compute\(\)"),
    "schema": (Schema, r"X\.toPandas\(\)"),
    "stream": (Stream, "pyarrow Table"),
    "part": (Part, "pyarrow Table"),
    "interchange": (Interchange, "pyarrow Table"),
    "dims": (Labelled, r"X\.to_dataframe\(\)"),
    "reader": (lambda frame: pa.table(frame).to_reader(), r"X\.read_all\(\)"),
    "structured": (structured, "pandas or polars DataFrame"),
}
ROWS = pd.DataFrame({"s": threes([0, 1, 2]), "a": TELLING["x"]})


@pytest.mark.parametrize("make, way", STRANGERS.values(), ids=STRANGERS)  # noqa: PT006
def test_a_table_that_is_not_known_is_refused_everywhere(make, way, tmp_path):
    swapped = ROWS[["a", "s"]]
    noiser = PufferfishNoiser(50.0, sensitive="s").fit(ROWS)
    ledger = Ledger.create(tmp_path / "ledger", noiser)
    model = PufferfishSGDRegressor().fit(ROWS / 3, ROWS["a"])
    query = PufferfishSum(value="a").fit(ROWS)
    calls = {
        "transform": lambda: noiser.transform(make(swapped)),
        "ledger": lambda: ledger.transform(noiser, make(swapped)),
        "fit": lambda: PufferfishNoiser(50.0, sensitive=0).fit(make(swapped)),
        "fit of records": lambda: PufferfishSGDRegressor().fit(make(swapped), ROWS["a"]),
        "prediction": lambda: model.predict(make(swapped)),
        "fit of a sum": lambda: PufferfishSum(value="a").fit(make(swapped)),
    }
    for name, call in calls.items():
        assert re.search(f"X is .*by position; convert it .*{way}", refusal(call)), name
    assert ledger.left().releases == 1
    with pytest.raises(TypeError, match=r"sensitive_features is .*by position; convert it"):
        fitted(make(ROWS[["s"]]))
    with pytest.raises((TypeError, ValueError), match=r"values (is .*by position|must be one)"):
        query.release(make(ROWS[["a"]]))
    with pytest.raises(TypeError, match=r"atoms is .*by position|atoms must be"):
        Discrete(make(ROWS[["a", "s"]]), np.full(120, 1 / 120))


def test_a_column_is_no_table():
    for column in (pd.Series([1, 2]), pl.Series([1, 2]), pa.array([1, 2])):
        with pytest.raises(TypeError, match=r"X is a .*(convert it to a pandas|pass all columns)"):
            PufferfishNoiser(sensitive=0).fit(column)


def test_a_batch_of_rows_is_read_as_a_table():
    batch = pa.RecordBatch.from_pandas(ROWS)
    noiser = PufferfishNoiser(50.0, sensitive="s").fit(batch)
    released = noiser.transform(batch.select(["a"]))
    assert isinstance(released, pa.Table)
    assert released.column_names == ["a"]
    model = PufferfishSGDRegressor().fit(batch, ROWS["a"])
    assert len(model.predict(batch)) == len(ROWS)
    query = PufferfishSum(value="a", by="s").fit(batch)
    assert query.release(batch).theta == query.theta_


# ------------------------------------------------------------------------------- columns by name

FRAMES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": pa.table,
    "batch": pa.RecordBatch.from_pandas,
}


def wide(n_rows=120):
    rng = np.random.default_rng(0)
    codes = {name: rng.integers(0, 3, n_rows) + 10 * k for k, name in enumerate("abcd")}
    return pd.DataFrame({"s": threes("xyz"), **codes, "kept": np.arange(n_rows)})


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("remainder", ["drop", "passthrough"])
def test_columns_are_found_by_name_in_any_order(make, remainder):
    frame = wide()
    noiser = PufferfishNoiser(
        1e9, sensitive="s", public=["c", "a"], remainder=remainder, dependence="independent"
    ).fit(make(frame))
    kept = ["a", "b", "c", "d", "kept"] if remainder == "passthrough" else ["a", "c"]
    assert list(noiser.get_feature_names_out()) == kept
    orders = [list(frame)[::-1], ["kept", "c", "b", "a", "d"], ["d", "c", "a", "b", "kept"]]
    orders += [] if remainder == "passthrough" else [["c", "a"], ["a", "kept", "c"]]
    for order in orders:
        released = noiser.transform(make(frame[order].assign(extra=7)))
        back = released if make is FRAMES["pandas"] else pl.DataFrame(released).to_pandas()
        assert list(back.columns) == kept
        pd.testing.assert_frame_equal(back, frame[kept], check_dtype=False)


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_all_released_columns_that_are_absent_are_named_at_once(make):
    noiser = PufferfishNoiser(
        1e9, sensitive="s", public=["a", "b"], remainder="passthrough", dependence="independent"
    ).fit(make(wide()))
    with pytest.raises(ValueError, match="X lacks column 'a', 'c', 'kept', which fit released"):
        noiser.transform(make(wide()[["s", "b", "d"]]))


def test_a_frame_is_not_read_by_position_after_an_array():
    noiser = PufferfishNoiser(50.0, sensitive=0).fit(ROWS.to_numpy())
    with pytest.raises(ValueError, match=r"fit saw 2 columns without names, .*X\.to_numpy\(\)"):
        noiser.transform(ROWS[["a", "s"]])
    numbered = pd.DataFrame(ROWS.to_numpy())
    assert noiser.transform(numbered).shape == (120, 1)
    with pytest.raises(ValueError, match="fit saw 2 columns without names"):
        noiser.transform(pd.DataFrame(np.column_stack([ROWS, ROWS])))
    named = PufferfishNoiser(50.0, sensitive="s").fit(ROWS)
    with pytest.raises(ValueError, match=r"X lacks column 'a', .* those of X are 0, 1"):
        named.transform(numbered)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert named.transform(ROWS.to_numpy()).shape == (120, 1)


def test_a_name_that_occurs_twice_is_refused():
    noiser = PufferfishNoiser(50.0, sensitive="s").fit(ROWS)
    doubled = ROWS[["s", "a", "a"]]
    table = pa.Table.from_arrays([pa.array(ROWS["a"])] * 3, names=["s", "a", "a"])
    for X in (doubled, table, table.to_batches()[0]):
        with pytest.raises(ValueError, match="column 'a' occurs more than once in X"):
            noiser.transform(X)
        with pytest.raises(ValueError, match="column 'a' occurs more than once in X"):
            PufferfishNoiser(50.0, sensitive="s").fit(X)
        with pytest.raises(ValueError, match="occurs more than once in sensitive_features"):
            fitted(X)


def test_arrays_are_what_they_were():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert as_array([1, 2], "x").dtype == np.int64
        assert as_array([1, 0.5], "x").dtype == np.float64
        assert as_array(["a", "b"], "x").dtype.kind == "U"
        assert as_array([2.0**60, np.nan, 1], "x").dtype == np.float64
        assert as_array([None, 1], "x").dtype == object
        own = np.arange(3)
        assert as_array(own, "x") is own
