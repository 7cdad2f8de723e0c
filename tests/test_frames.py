"""Tables in, tables of the same kind out: types, labels, missing values, bins and categories."""

import copy
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from oracle import loss

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._codes import learn_column
from sklearn_puffer._noise import grid_step
from sklearn_puffer._tables import frame_table

N_ROWS = 240
LETTERS = np.array(list("abcde"))


def rows(seed=0):
    """Secrets, and whole numbers from 0 to 4 that depend on them."""
    rng = np.random.default_rng(seed)
    secret = rng.integers(0, 2, N_ROWS)
    return secret, rng.integers(0, 4, N_ROWS) + secret


SECRET, VALUES = rows()
LABELS = np.where(SECRET == 1, "yes", "no")


def noiser(**options):
    """A noiser of so small a budget that every column of these tables needs noise."""
    defaults = {"epsilon": 0.01, "sensitive": "secret", "dependence": "independent"}
    return PufferfishNoiser(**defaults | options)


def released(frame, **options):
    return noiser(**options).fit(frame).transform(frame)


def pandas_frame(column, name="x"):
    return pd.DataFrame({"secret": LABELS, name: column})


def polars_frame(column, name="x"):
    return pl.DataFrame({"secret": LABELS, name: column})


def with_gaps(column, every=7):
    """The column as a list with None at every so many rows."""
    return [None if k % every == 0 else value for k, value in enumerate(column)]


# ------------------------------------------------------------------------------------------ types

WHOLE = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
NULLABLE = ["Int8", "Int64", "UInt8", "UInt64", "Float32", "Float64"]


@pytest.mark.parametrize("dtype", [*WHOLE, *NULLABLE, "float32", "float64"])
def test_a_pandas_number_keeps_its_type(dtype):
    column = released(pandas_frame(pd.array(VALUES, dtype=dtype)))["x"]
    assert column.dtype == dtype
    assert not column.isna().any()


@pytest.mark.parametrize("dtype", ["bool", "boolean"])
def test_a_pandas_boolean_comes_back_as_itself(dtype):
    column = released(pandas_frame(pd.array(VALUES > 3, dtype=dtype)))["x"]
    assert column.dtype == dtype
    assert set(column) == {True, False}


@pytest.mark.parametrize("dtype", ["str", "string", "object", "category"])
def test_pandas_strings_come_back_as_themselves(dtype):
    column = released(pandas_frame(pd.Series(LETTERS[VALUES]).astype(dtype)))["x"]
    assert column.dtype == pd.Series(LETTERS[VALUES]).astype(dtype).dtype
    assert set(column) <= set(LETTERS)


@pytest.mark.parametrize(("ordered", "unseen"), [(False, 5), (True, 1)])
def test_a_categorical_keeps_its_declared_levels_and_is_sorted_without_an_order(ordered, unseen):
    dtype = pd.CategoricalDtype(["e", "unseen", "d", "c", "b", "a"], ordered=ordered)
    fitted = noiser().fit(pandas_frame(pd.Categorical(LETTERS[VALUES], dtype=dtype)))
    column = fitted.transform(pandas_frame(pd.Categorical(LETTERS[VALUES], dtype=dtype)))["x"]
    assert column.dtype == dtype
    [distribution] = fitted.priors_["secret"]["yes"].values()
    assert_array_equal(distribution.atoms, np.arange(6.0))
    assert distribution.counts[unseen] == 0 < distribution.counts[4]


@pytest.mark.parametrize("listed", ["edcba", "abcde", "cabde"])
def test_the_order_in_which_a_categorical_without_an_order_lists_its_values_is_nothing(listed):
    given = [LETTERS[VALUES], pd.Categorical(LETTERS[VALUES], list(listed))]
    plain, listed = (noiser().fit(pandas_frame(column)) for column in given)
    assert plain.theta_.to_dict() == listed.theta_.to_dict()
    assert plain.priors_ == listed.priors_
    assert plain.utility_.equals(listed.utility_)


def test_an_ordered_dictionary_of_arrow_is_an_ordered_categorical_of_pandas():
    frame = pandas_frame(pd.Categorical(LETTERS[VALUES], list("ebcda"), ordered=True))
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    expected, found = (frame_table(each).values("x") for each in (frame, arrow))
    assert found.levels == expected.levels == tuple("ebcda")
    assert found.ordered
    assert found.declared
    assert_array_equal(found.data, expected.data)


ARROW = [
    pa.large_string(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint32(), pa.large_string(), ordered=True),
]


def arrow_frame(labels, kind):
    """Return a table of Arrow, the dictionary of which lists its labels in another order."""
    listed = [*"ebcda", *{*labels} - {*"ebcda", None}]
    column = pa.chunked_array([[*listed, *labels]]).cast(kind)[len(listed) :]
    return pa.table({"secret": LABELS, "x": column})


@pytest.mark.parametrize("kind", ARROW)
def test_labels_of_arrow_come_back_in_their_type_with_the_levels_of_fit_in_order(kind):
    fitted = noiser(missing="propagate").fit(arrow_frame(with_gaps(LETTERS[VALUES]), kind))
    for labels in (with_gaps(LETTERS[VALUES]), [None] * N_ROWS, with_gaps(np.resize(["b"], 240))):
        column = fitted.transform(arrow_frame(labels, kind))["x"]
        assert column.type == kind
        assert [x is None for x in column.to_pylist()] == [x is None for x in labels]
        if kind != pa.large_string():
            [chunk] = column.chunks
            assert chunk.dictionary.to_pylist() == list("ebcda" if kind.ordered else "abcde")
            codes = np.frombuffer(chunk.indices.buffers()[1], kind.index_type.to_pandas_dtype())
            gone = np.flatnonzero([x is None for x in labels]) + chunk.offset
            assert len({*codes[gone].tolist()}) == 1  # nothing is left beneath missing values


def test_a_dictionary_of_arrow_too_narrow_for_the_levels_of_fit_gets_wider_codes():
    levels = [*"abcde", *(f"level {k}" for k in range(145))]
    wide, narrow = (pa.dictionary(codes, pa.string()) for codes in (pa.int16(), pa.int8()))
    fitted = noiser(categories={"x": levels}).fit(arrow_frame(LETTERS[VALUES], wide))
    for kind in (wide, narrow):
        column = fitted.transform(arrow_frame(LETTERS[VALUES], kind))["x"]
        assert (column.type == kind) == (kind == wide)
        assert column.null_count == 0
        assert set(column.to_pylist()) <= set(levels)


def test_a_categorical_of_intervals_comes_back_as_itself():
    frame = pandas_frame(pd.cut(VALUES, [-1, 0, 2, 4]))
    assert released(frame)["x"].dtype == frame["x"].dtype


def test_python_integers_in_an_object_column_stay_integers():
    column = released(pandas_frame(VALUES.astype(object)))["x"]
    assert column.dtype == object
    assert all(isinstance(value, int) for value in column)


@pytest.mark.parametrize(
    "dtype",
    [pl.Int8, pl.Int64, pl.UInt8, pl.UInt64, pl.Float32, pl.Float64],
)
def test_a_polars_number_keeps_its_type(dtype):
    result = released(polars_frame(pl.Series(VALUES, dtype=dtype)))
    assert isinstance(result, pl.DataFrame)
    assert result.schema["x"] == dtype


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["f", *"edcba"])])
def test_polars_strings_come_back_as_themselves(dtype):
    result = released(polars_frame(pl.Series(LETTERS[VALUES]).cast(dtype)))
    assert result.schema["x"] == dtype
    assert set(result["x"]) <= {*"abcdef"}


def test_a_polars_boolean_comes_back_as_itself():
    result = released(polars_frame(VALUES > 3))
    assert result.schema == {"x": pl.Boolean}


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float32", "float64"])
def test_an_array_keeps_its_type(dtype):
    X = np.column_stack([SECRET, VALUES]).astype(dtype)
    result = released(X, sensitive=0)
    assert result.dtype == dtype
    assert result.shape == (N_ROWS, 1)


def test_an_integer_array_behaves_as_an_integer_column():
    X = np.column_stack([SECRET, VALUES])
    by_array = noiser(sensitive=0).fit(X)
    by_column = noiser().fit(pandas_frame(VALUES))
    assert by_array.theta_[1] == by_column.theta_["x"]
    assert by_array.certificate_.columns[0].grid == by_column.certificate_.columns[0].grid == 1.0


def test_an_object_array_of_strings_and_numbers_comes_back_as_objects():
    X = np.column_stack([LABELS, LETTERS[VALUES]]).astype(object)
    X = np.column_stack([X, VALUES.astype(object)])
    result = released(X, sensitive=0)
    assert result.dtype == object
    assert set(result[:, 0]) <= set(LETTERS)
    assert all(isinstance(value, int) for value in result[:, 1])


def test_declared_categories_of_a_number_array_come_back_in_its_type():
    for dtype in (np.int64, np.float32):
        X = np.column_stack([SECRET, VALUES]).astype(dtype)
        result = released(X, sensitive=0, categories={1: [4, 3, 2, 1, 0]})
        assert result.dtype == dtype
        assert set(result[:, 0].tolist()) <= {0, 1, 2, 3, 4}


@pytest.mark.parametrize("frame", [pandas_frame, polars_frame])
@pytest.mark.parametrize("column", [VALUES, VALUES / 2])
def test_noisy_output_is_float64_on_the_grid(frame, column):
    fitted = noiser(output="noisy").fit(frame(column))
    raw = fitted.transform(frame(column))["x"].to_numpy()
    step = fitted.certificate_.columns[0].grid
    assert raw.dtype == np.float64
    assert step == grid_step(fitted.theta_["x"])
    assert_array_equal(raw / step, np.round(raw / step))
    assert len(np.unique(raw)) == N_ROWS  # not whole numbers


@pytest.mark.parametrize("frame", [pandas_frame, polars_frame])
@pytest.mark.parametrize("column", [VALUES > 2, LETTERS[VALUES]])
def test_noisy_output_of_a_column_without_an_order_is_the_code_of_what_was_drawn(frame, column):
    fitted = noiser(output="noisy", random_state=0).fit(frame(column))
    native = noiser(random_state=0).fit(frame(column))
    levels = sorted(set(column.tolist()))
    with pytest.warns(UserWarning, match="random_state"):
        raw = fitted.transform(frame(column))["x"].to_numpy()
    with pytest.warns(UserWarning, match="random_state"):
        drawn = native.transform(frame(column))["x"].to_list()
    assert raw.dtype == np.float64
    assert raw.tolist() == [float(levels.index(value)) for value in drawn]


def test_native_floats_lie_on_the_grid_and_are_not_clipped():
    fitted = noiser(epsilon=0.1).fit(pandas_frame(VALUES * 1.0))
    raw = fitted.transform(pandas_frame(VALUES * 1.0))["x"].to_numpy()
    step = fitted.certificate_.columns[0].grid
    assert_array_equal(raw / step, np.round(raw / step))
    assert raw.min() < -1.0
    assert raw.max() > 5.0


@pytest.mark.parametrize("dtype", ["int8", "uint8", "UInt8", "Int8"])
def test_native_integers_are_clipped_to_the_range_of_the_type_and_not_of_the_data(dtype):
    small = released(pandas_frame(pd.array(VALUES, dtype=dtype)), epsilon=1e-3)["x"]
    low, high = (-128, 127) if dtype.lower() == "int8" else (0, 255)
    assert (small.min(), small.max()) == (low, high)
    assert len(np.unique(small)) > 5


def test_integers_under_noise_of_a_coarse_grid_stay_in_the_range_of_their_type():
    fitted = noiser(epsilon=1e-6).fit(pandas_frame(VALUES.astype(np.int64) * 10**8))
    values = fitted.transform(pandas_frame(VALUES.astype(np.int64) * 10**8))["x"]
    assert fitted.certificate_.columns[0].grid > 1.0
    assert values.dtype == np.int64
    assert values.abs().max() > 10**13
    few = pandas_frame((VALUES * 0).astype(np.int32))
    clipped = fitted.transform(few)["x"]
    assert clipped.dtype == np.int32
    assert clipped.min() < -(2**30) < 2**30 < clipped.max()


def test_other_integer_types_at_transform_are_clipped_to_their_own_range():
    fitted = noiser(unknown="nearest").fit(pandas_frame(VALUES * 0 + 1000 * (VALUES > 2)))
    few = pandas_frame((VALUES > 2).astype(np.int8))
    with pytest.warns(UserWarning, match="moved values"):
        clipped = fitted.transform(few)["x"]
    assert clipped.dtype == np.int8


# --------------------------------------------------------------------------- labels, order, index


def test_the_index_is_kept_even_where_it_is_duplicated():
    frame = pandas_frame(VALUES)
    frame.index = pd.Index(np.arange(N_ROWS) // 3, name="person")
    pd.testing.assert_index_equal(released(frame).index, frame.index)


def test_columns_come_back_in_the_order_of_x_whatever_the_order_of_public():
    frame = pd.DataFrame({"z": VALUES, "secret": LABELS, "a": VALUES, "m": LETTERS[VALUES]})
    assert list(released(frame, public=["m", "a", "z"]).columns) == ["z", "a", "m"]
    result = released(frame, public=["m"], remainder="passthrough")
    assert list(result.columns) == ["z", "a", "m"]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_the_sensitive_columns_may_be_absent_at_transform_and_are_never_released(kind):
    frame = pandas_frame(VALUES) if kind == "pandas" else polars_frame(VALUES)
    fitted = noiser().fit(frame)
    bare = frame.drop(columns="secret") if kind == "pandas" else frame.drop("secret")
    for table in (frame, bare):
        assert list(fitted.transform(table).columns) == ["x"]


def test_a_noiser_fitted_on_pandas_releases_polars_and_the_other_way_round():
    assert isinstance(
        noiser().fit(pandas_frame(VALUES)).transform(polars_frame(VALUES)), pl.DataFrame
    )
    assert isinstance(
        noiser().fit(polars_frame(VALUES)).transform(pandas_frame(VALUES)), pd.DataFrame
    )


def test_a_plain_range_of_column_labels_is_read_as_positions():
    frame = pd.DataFrame(np.column_stack([SECRET, VALUES]))
    fitted = noiser(sensitive=0).fit(frame)
    assert list(fitted.transform(frame).columns) == [1]
    assert fitted.theta_.index.tolist() == [1]
    assert not hasattr(fitted, "feature_names_in_")


def test_names_in_and_out():
    fitted = noiser().fit(pd.DataFrame({"x": VALUES, "secret": LABELS, "y": VALUES}))
    assert fitted.n_features_in_ == 3
    assert fitted.feature_names_in_.tolist() == ["x", "secret", "y"]
    assert fitted.get_feature_names_out().tolist() == ["x", "y"]
    by_position = noiser(sensitive=0).fit(np.column_stack([SECRET, VALUES]))
    assert by_position.get_feature_names_out().tolist() == ["x1"]
    assert by_position.get_feature_names_out(["s", "v"]).tolist() == ["v"]


@pytest.mark.parametrize("given", ["pandas", "polars", "array"])
@pytest.mark.parametrize("wanted", ["pandas", "polars", "default"])
def test_set_output_gives_the_kind_of_table_that_was_asked_for(given, wanted):
    frame = pd.DataFrame({"secret": SECRET, "x": VALUES, "y": VALUES / 2})
    X = {"pandas": frame, "polars": pl.from_pandas(frame), "array": frame.to_numpy()}[given]
    fitted = noiser(sensitive=0).set_output(transform=wanted).fit(X)
    result = fitted.transform(X)
    expected = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "array": np.ndarray}
    assert isinstance(result, expected[given if wanted == "default" else wanted])
    if not isinstance(result, np.ndarray):
        assert list(result.columns) == fitted.get_feature_names_out().tolist()
    if given == "polars" and wanted == "pandas":
        assert result.dtypes.astype(str).tolist() == ["int64", "float64"]


def test_set_output_survives_a_clone():
    from sklearn.base import clone

    frame = polars_frame(LETTERS[VALUES])
    copied = clone(noiser().set_output(transform="pandas"))
    assert isinstance(copied.fit(frame).transform(frame), pd.DataFrame)


def test_a_categorical_of_polars_becomes_one_of_pandas():
    frame = polars_frame(pl.Series(LETTERS[VALUES], dtype=pl.Enum(list("edcba"))))
    column = noiser().set_output(transform="pandas").fit(frame).transform(frame)["x"]
    assert column.dtype == pd.CategoricalDtype(list("edcba"), ordered=True)


# ------------------------------------------------------------------------- nothing else may change


def tables():
    mixed = pd.DataFrame(
        {"secret": LABELS, "i": VALUES, "f": VALUES / 2, "s": LETTERS[VALUES], "b": VALUES > 2}
    )
    mixed["c"] = pd.Categorical(LETTERS[VALUES], list("edcba"))
    return {
        "pandas": mixed,
        "polars": pl.from_pandas(mixed),
        "array": np.column_stack([SECRET, VALUES]) / 2,
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "array"])
def test_the_input_is_not_modified(kind):
    X = tables()[kind]
    before = copy.deepcopy(X)
    released(X, sensitive=0)
    if kind == "array":
        assert_array_equal(X, before)
    else:
        assert X.equals(before)


def test_a_change_of_the_release_does_not_reach_the_input():
    frame = pd.DataFrame({"secret": LABELS, "x": VALUES, "kept": VALUES / 2})
    result = released(frame, public="x", remainder="passthrough")
    result.iloc[0, 1] = -99.0
    assert frame["kept"].min() >= 0.0


def test_a_failed_fit_keeps_what_was_fitted_before():
    fitted = noiser().fit(pandas_frame(VALUES))
    before = dict(vars(fitted))
    with pytest.raises(ValueError, match="NaN"):
        fitted.fit(pd.DataFrame({"secret": LABELS, "other": np.nan, "more": 1}))
    after = vars(fitted)
    assert after.keys() == before.keys()
    assert all(after[key] is before[key] for key in before)
    assert fitted.transform(pandas_frame(VALUES)).shape == (N_ROWS, 1)


def test_a_warning_turned_into_an_error_leaves_the_noiser_unfitted():
    fitted = noiser()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="too fine"):
            fitted.fit(pandas_frame(np.arange(N_ROWS) / 7))
    assert not hasattr(fitted, "theta_")


def test_a_failed_transform_leaves_no_partial_output():
    X = np.column_stack([SECRET, VALUES]).astype(float)
    fitted = noiser(sensitive=0, unknown="error").fit(X)
    X[-1, 1] = 77.0
    before = X.copy()
    with pytest.raises(ValueError, match=r"77\.0"):
        fitted.transform(X)
    assert_array_equal(X, before)


@pytest.mark.parametrize("dependence", ["joint", "independent"])
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_the_order_of_rows_never_matters(dependence, kind):
    frame = tables()["pandas"].drop(columns=["s"] if dependence == "joint" else [])
    frame["b"] = pd.Series(with_gaps(VALUES > 2, every=9), dtype="boolean")
    shuffled = frame.sample(frac=1.0, random_state=1)
    fits = []
    for table in (frame, shuffled):
        given = table if kind == "pandas" else pl.DataFrame(table.to_dict("list"))
        fits.append(noiser(dependence=dependence, missing="category", n_bins={"f": 3}).fit(given))
    one, two = fits
    pd.testing.assert_series_equal(one.theta_, two.theta_, check_exact=True)
    assert one.priors_ == two.priors_
    assert one.certificate_ == two.certificate_


def test_the_order_of_rows_does_not_matter_to_a_polars_categorical():
    letters = LETTERS[VALUES]
    thetas = [
        noiser().fit(
            pl.DataFrame({"secret": LABELS[o], "x": pl.Series(letters[o], dtype=pl.Categorical)})
        )
        for o in (np.arange(N_ROWS), np.arange(N_ROWS)[::-1])
    ]
    assert thetas[0].priors_ == thetas[1].priors_


# ------------------------------------------------------------------------- weights instead of rows


def test_weights_count_as_repeated_rows():
    frame = tables()["pandas"]
    weights = np.random.default_rng(3).integers(0, 4, N_ROWS)
    weighted = noiser(n_bins={"f": 3}).fit(frame, sample_weight=weights)
    rows = frame.loc[frame.index.repeat(weights)].sample(frac=1.0, random_state=0)
    repeated = noiser(n_bins={"f": 3}).fit(rows)  # in no order that might tell a secret
    pd.testing.assert_series_equal(weighted.theta_, repeated.theta_, check_exact=True)
    assert weighted.priors_ == repeated.priors_
    assert weighted.certificate_ == repeated.certificate_


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_rows_of_weight_zero_are_as_good_as_removed(kind):
    frame = tables()["pandas"].drop(columns="c")
    frame.loc[frame["s"] == "b", "f"] = np.nan  # even a missing value does not count
    weights = (frame["s"] != "b").to_numpy().astype(int)
    fits = []
    for table, given in ((frame, weights), (frame[weights > 0], None)):
        X = table if kind == "pandas" else pl.from_pandas(table.reset_index(drop=True))
        fits.append(noiser().fit(X, sample_weight=given))
    assert fits[0].certificate_ == fits[1].certificate_
    assert fits[0].priors_ == fits[1].priors_


# -------------------------------------------------------------------------------------------- bins


def bins_of(column, n_bins):
    fitted = noiser(n_bins=n_bins).fit(pandas_frame(column))
    [distribution] = fitted.priors_["secret"]["yes"].values()
    return fitted, distribution.atoms


def test_bins_are_represented_by_their_medians():
    column = np.repeat(np.arange(8.0), N_ROWS // 8) ** 2
    _, atoms = bins_of(column, 4)
    assert atoms.tolist() == [0.5, 6.5, 20.5, 42.5]


def test_the_representative_of_an_integer_bin_is_an_integer():
    column = np.repeat(np.arange(8), N_ROWS // 8) ** 2
    fitted, atoms = bins_of(column, 4)
    assert atoms.tolist() == [0, 4, 16, 36]
    assert fitted.transform(pandas_frame(column))["x"].dtype == np.int64


def test_ties_and_few_values_give_fewer_bins():
    _, atoms = bins_of(np.where(VALUES > 3, 5.0, 1.0), 10)
    assert atoms.tolist() == [1.0, 5.0]
    with pytest.warns(UserWarning, match=r"'x' falls into 2 bins instead of n_bins=4, "):
        _, atoms = bins_of(np.r_[np.zeros(N_ROWS - 60), np.arange(60.0)], 4)
    assert atoms.tolist() == [0.0, 30.0]


def test_bins_agree_with_pandas_qcut():
    column = np.random.default_rng(5).normal(size=N_ROWS).round(1)
    fitted, atoms = bins_of(column, 6)
    cut = pd.Series(column).groupby(pd.qcut(column, 6, duplicates="drop"), observed=True).median()
    assert len(atoms) == len(cut)
    np.testing.assert_allclose(atoms, cut.to_numpy(), atol=0.06)
    assert fitted.certificate_.columns[0].spread == pytest.approx(column.std())


def test_any_later_value_falls_into_a_bin():
    fitted, _ = bins_of(VALUES * 1.0, 2)
    later = pandas_frame(np.resize([-1e9, 1.7, 1e9], N_ROWS))
    assert fitted.transform(later)["x"].notna().all()


def test_n_bins_by_column_bins_only_that_column():
    frame = pd.DataFrame({"secret": LABELS, "x": VALUES, "y": VALUES})
    fitted = noiser(n_bins={"y": 2}).fit(frame)
    sizes = {
        columns: len(distribution.atoms)
        for columns, distribution in fitted.priors_["secret"]["yes"].items()
    }
    assert sizes == {("x",): 5, ("y",): 2}
    assert any("'y' are read as the representative" in s for s in fitted.certificate_.assumptions)


def test_n_bins_as_a_number_leaves_categories_and_booleans_alone():
    fitted = noiser(n_bins=2).fit(tables()["pandas"])
    sizes = {
        columns[0]: len(distribution.atoms)
        for columns, distribution in fitted.priors_["secret"]["yes"].items()
    }
    assert sizes == {"i": 2, "f": 2, "s": 5, "b": 2, "c": 5}


# -------------------------------------------------------------------------------------- categories


@pytest.mark.parametrize("frame", [pandas_frame, polars_frame])
def test_declared_categories_are_coded_in_their_order(frame):
    order = list("cabedz")
    fitted = noiser(categories={"x": order}).fit(frame(LETTERS[VALUES]))
    [distribution] = fitted.priors_["secret"]["yes"].values()
    assert distribution.atoms.tolist() == [0, 1, 2, 3, 4, 5]
    yes = LETTERS[VALUES][SECRET == 1]
    assert distribution.counts.tolist() == [int((yes == level).sum()) for level in order]


def test_a_declared_category_may_come_for_the_first_time_at_transform():
    fitted = noiser(categories={"x": list("abcdez")}).fit(pandas_frame(LETTERS[VALUES]))
    assert fitted.transform(pandas_frame(["z"] * N_ROWS)).shape == (N_ROWS, 1)


def test_strings_in_a_polars_column_of_objects_are_released_as_strings():
    letters = np.array(list("abcde"))[VALUES].tolist()
    table = pl.DataFrame({"secret": LABELS, "x": pl.Series(letters, dtype=pl.Object)})
    plain = table.with_columns(x=pl.Series(letters))
    fitted = noiser().fit(table)
    released = fitted.transform(table)
    assert released.schema["x"] == pl.String
    assert set(released["x"]) == set(letters)
    assert fitted.theta_["x"] == noiser().fit(plain).theta_["x"]


def test_a_level_of_the_type_that_was_not_seen_in_fit_is_refused():
    dtype = pd.CategoricalDtype([*LETTERS, "z"])
    fitted = noiser().fit(pandas_frame(pd.Categorical(LETTERS[VALUES], dtype=dtype)))
    with pytest.raises(ValueError, match="'x' contains 'z', which was not seen in fit"):
        fitted.transform(pandas_frame(pd.Categorical(["z"] * N_ROWS, dtype=dtype)))


def test_a_type_at_transform_that_lacks_levels_of_fit_is_given_them():
    """Noise may lead to any level of fit; a batch's own list may tell which values it has."""
    fitted = noiser().fit(pandas_frame(pd.Categorical(LETTERS[VALUES])))
    few = np.resize(["b", "a"], N_ROWS)
    column = fitted.transform(pandas_frame(pd.Categorical(few, ["b", "a"])))["x"]
    assert column.cat.categories.tolist() == list("abcde")
    assert column.notna().all()
    result = fitted.transform(polars_frame(pl.Series(few, dtype=pl.Enum(["b", "a"]))))
    assert result.schema["x"] == pl.Enum(list("abcde"))
    assert result["x"].null_count() == 0


def test_declared_categories_of_numbers_may_be_missing():
    column = pd.array(with_gaps(VALUES), dtype="Int64")
    fitted = noiser(categories={"x": [4, 3, 2, 1, 0]}, missing="category").fit(pandas_frame(column))
    result = fitted.transform(pandas_frame(column))["x"]
    assert result.dtype == "Int64"
    assert set(result.dropna()) <= {0, 1, 2, 3, 4}


# ---------------------------------------------------------------------------------- missing values

GAPPY = {
    "float": pd.Series(with_gaps(VALUES), dtype="float64"),
    "Int64": pd.Series(with_gaps(VALUES), dtype="Int64"),
    "UInt8": pd.Series(with_gaps(VALUES), dtype="UInt8"),
    "Float32": pd.Series(with_gaps(VALUES), dtype="Float32"),
    "boolean": pd.Series(with_gaps(VALUES > 2), dtype="boolean"),
    "str": pd.Series(with_gaps(LETTERS[VALUES]), dtype="str"),
    "category": pd.Series(with_gaps(LETTERS[VALUES]), dtype="category"),
    "object": pd.Series(with_gaps((VALUES > 2).tolist()), dtype="object"),
}


@pytest.mark.parametrize("kind", GAPPY)
def test_missing_values_are_refused_by_default(kind):
    with pytest.raises(ValueError, match=r"'x' has 35 missing value\(s\) \(NaN\)"):
        noiser().fit(pandas_frame(GAPPY[kind]))


@pytest.mark.parametrize("kind", GAPPY)
@pytest.mark.parametrize("output", ["native", "noisy"])
def test_propagated_values_are_missing_where_they_were_and_nowhere_else(kind, output):
    frame = pandas_frame(GAPPY[kind])
    result = released(frame, missing="propagate", output=output)["x"]
    assert_array_equal(result.isna(), frame["x"].isna())
    assert result.dtype == (frame["x"].dtype if output == "native" else np.float64)


@pytest.mark.parametrize(
    "dtype", [pl.Int8, pl.UInt64, pl.Float32, pl.String, pl.Categorical, pl.Boolean]
)
def test_propagated_values_of_polars_are_null_where_they_were(dtype):
    bare = {pl.String: LETTERS[VALUES], pl.Categorical: LETTERS[VALUES], pl.Boolean: VALUES > 2}
    column = pl.Series(with_gaps(bare.get(dtype, VALUES).tolist()), dtype=dtype)
    result = released(polars_frame(column), missing="propagate")
    assert result.schema["x"] == dtype
    assert_array_equal(result["x"].is_null(), column.is_null())


def test_the_certificate_says_that_a_propagated_pattern_is_not_protected():
    fitted = noiser(missing="propagate").fit(pandas_frame(GAPPY["float"]))
    assert any(
        re.search("Which values of 'x' are missing .* NOT protected", sentence)
        for sentence in fitted.certificate_.assumptions
    )
    [plain] = [noiser().fit(pandas_frame(VALUES)).certificate_]
    assert not any("are missing" in sentence for sentence in plain.assumptions)


def test_the_loss_is_conditional_on_the_pattern_of_missing_values():
    """Brute force: the priors of each pattern on its own, the worst of them all."""
    rng = np.random.default_rng(11)
    frame = pd.DataFrame(
        {"secret": SECRET, "x": VALUES * 1.0, "y": rng.integers(0, 3, N_ROWS) * 2.0}
    )
    frame.loc[rng.random(N_ROWS) < 0.3, "x"] = np.nan
    frame.loc[rng.random(N_ROWS) < 0.2, "y"] = np.nan
    fitted = noiser(dependence="joint", missing="propagate", epsilon=0.7).fit(frame)
    distributions = fitted.priors_["secret"]
    assert set(distributions[0]) == {("x",), ("y",), ("x", "y")}
    for columns, distribution in distributions[0].items():
        present = frame[list(columns)].notna().all(axis=1)
        absent = frame[[c for c in ("x", "y") if c not in columns]].isna().all(axis=1)
        assert distribution.total == int((present & absent & (frame["secret"] == 0)).sum())
    losses = [
        float(
            loss(
                distributions[0][columns],
                distributions[1][columns],
                fitted.theta_[list(columns)].tolist(),
            )
        )
        for columns in distributions[0]
    ]
    assert max(losses) == pytest.approx(0.7, abs=1e-9)
    assert fitted.certificate_.loss == pytest.approx(max(losses), abs=1e-9)


def test_a_pattern_of_missing_values_that_fit_did_not_see_is_refused():
    frame = pd.DataFrame({"secret": SECRET, "x": VALUES * 1.0, "y": VALUES * 1.0})
    frame.loc[::5, "x"] = np.nan
    fitted = noiser(dependence="joint", missing="propagate").fit(frame)
    other = frame.assign(y=frame["x"], x=frame["y"])
    with pytest.raises(ValueError, match=r"lack 'y' .*nothing is guaranteed"):
        fitted.transform(other)
    assert noiser(missing="propagate").fit(frame).transform(other)["y"].isna().sum() == 48


def test_complete_rows_are_refused_where_fit_saw_none():
    frame = pd.DataFrame({"secret": SECRET, "x": VALUES * 1.0, "y": VALUES * 1.0})
    frame.loc[::2, "x"] = np.nan
    frame.loc[1::2, "y"] = np.nan
    fitted = noiser(dependence="joint", missing="propagate").fit(frame)
    assert fitted.transform(frame).isna().to_numpy().sum() == N_ROWS
    with pytest.raises(ValueError, match=r"lack none .*nothing is guaranteed"):
        fitted.transform(frame.fillna(0.0))


@pytest.mark.parametrize("kind", ["boolean", "str", "category", "object"])
def test_missing_may_be_a_category_of_its_own(kind):
    frame = pandas_frame(GAPPY[kind])
    fitted = noiser(missing="category").fit(frame)
    [distribution] = fitted.priors_["secret"]["yes"].values()
    assert distribution.counts[-1] == int((frame["x"].isna() & (SECRET == 1)).sum())
    result = fitted.transform(frame)["x"]
    assert result.dtype == frame["x"].dtype
    assert 0 < result.isna().sum() < N_ROWS
    assert not np.array_equal(result.isna(), frame["x"].isna())  # the pattern is noisy as well


def test_a_numeric_column_has_no_place_for_missing_as_a_category():
    with pytest.raises(ValueError, match="'x' no place for its 35 missing"):
        noiser(missing="category").fit(pandas_frame(GAPPY["float"]))


def test_missing_values_of_a_sensitive_column_become_a_secret():
    frame = pd.DataFrame({"secret": with_gaps(LABELS), "x": VALUES})
    fitted = noiser(missing="category").fit(frame)
    assert fitted.secret_pairs_["secret"] == [("missing", "no"), ("missing", "yes"), ("no", "yes")]
    for missing in ("error", "propagate"):
        with pytest.raises(ValueError, match="sensitive column 'secret' has 35 missing"):
            noiser(missing=missing).fit(frame)


def test_a_secret_called_missing_is_not_mixed_up_with_missing_values():
    labels = np.where(SECRET == 1, "missing", "no")
    with pytest.raises(ValueError, match="both missing values and the value 'missing'"):
        noiser(missing="category").fit(pd.DataFrame({"secret": with_gaps(labels), "x": VALUES}))


# --------------------------------------------------------------------------- unknown and passed on


def test_unknown_numbers_are_moved_to_the_nearest_and_counted():
    fitted = noiser(unknown="nearest", output="noisy", epsilon=1e6).fit(pandas_frame(VALUES * 1.0))
    later = pandas_frame(np.resize([0.0, 1.2, 99.0], N_ROWS))
    with pytest.warns(UserWarning, match="160 in 'x'"):
        result = fitted.transform(later)["x"]
    assert_array_equal(result.round(2), np.resize([0.0, 1.0, 4.0], N_ROWS))


def test_passed_columns_are_untouched_and_named_as_unprotected():
    when = pd.date_range("2020-01-01", periods=N_ROWS)
    frame = pd.DataFrame({"secret": LABELS, "x": VALUES, "when": when, "y": VALUES / 3})
    fitted = noiser(public="x", remainder="passthrough").fit(frame)
    result = fitted.transform(frame)
    pd.testing.assert_frame_equal(result[["when", "y"]], frame[["when", "y"]])
    assert any(
        "'when', 'y' are passed through and NOT protected" in s
        for s in fitted.certificate_.assumptions
    )


def test_every_passed_column_is_named_however_many_they_are():
    frame = pd.DataFrame({"secret": LABELS, "x": VALUES} | {f"p{k}": VALUES for k in range(12)})
    sentences = noiser(public="x", remainder="passthrough").fit(frame).certificate_.assumptions
    [sentence] = [s for s in sentences if "NOT protected" in s]
    assert all(f"'p{k}'" in sentence for k in range(12))


def test_dropped_columns_are_gone():
    frame = pd.DataFrame({"secret": LABELS, "x": VALUES, "id": [f"id{k}" for k in range(N_ROWS)]})
    assert list(released(frame, public="x").columns) == ["x"]


# -------------------------------------------------------------------------------- hardly repeating


def test_a_sensitive_column_that_hardly_repeats_warns():
    frame = pd.DataFrame({"secret": np.arange(N_ROWS) // 2 * 2 % 200, "x": VALUES % 2})
    frame.loc[0:200, "secret"] = np.arange(201)
    with pytest.warns(UserWarning, match="sensitive column 'secret' has .* values in 240 rows"):
        noiser(epsilon=5.0, secret_pairs=[(0, 2)]).fit(frame)


def test_a_numeric_column_that_hardly_repeats_warns():
    with pytest.warns(UserWarning, match=r"'x' has 240 distinct values .*n_bins=\{'x': 5\}"):
        noiser().fit(pandas_frame(np.arange(N_ROWS) / 7))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_declared_levels_that_the_type_cannot_hold_come_back_in_their_own_type(make):
    X = make({"s": ["a", "b"] * 20, "x": [True, False, True, True] * 10})
    noiser = PufferfishNoiser(0.5, sensitive="s", categories={"x": [0, 1, 2, 3]})
    released = noiser.fit_transform(X)["x"]
    assert set(released.to_list()) <= {0, 1, 2, 3}
    assert not any(isinstance(value, bool) for value in released.to_list())


# ------------------------------------------------------------------------------- continuous priors

FREE = {"epsilon": 0.5, "delta": 0.01, "strategy": "distribution_aware", "prior": "gaussian"}


@pytest.mark.parametrize("dtype", [*WHOLE, *NULLABLE, "float32", "float64", "object"])
def test_a_pandas_number_keeps_its_type_under_a_gaussian_prior(dtype):
    column = pd.Series(VALUES).astype(dtype)
    frame = pandas_frame(column).set_index(pd.Index(np.arange(N_ROWS)[::-1], name="row"))
    frame = frame.assign(x=column.to_numpy() if dtype == "object" else column.array)
    result = released(frame, **FREE)
    assert result["x"].dtype == dtype
    assert not result["x"].isna().any()
    pd.testing.assert_index_equal(result.index, frame.index)
    if "loat" not in dtype:
        assert all(float(value).is_integer() for value in result["x"])


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt64, pl.Float32, pl.Float64])
def test_a_polars_number_keeps_its_type_under_a_gaussian_prior(dtype):
    result = released(polars_frame(pl.Series(VALUES, dtype=dtype)), **FREE)
    assert isinstance(result, pl.DataFrame)
    assert result.schema == {"x": dtype}


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "float64"])
def test_an_array_keeps_its_type_under_a_gaussian_prior(dtype):
    result = released(np.column_stack([SECRET, VALUES]).astype(dtype), sensitive=0, **FREE)
    assert result.dtype == dtype
    assert result.shape == (N_ROWS, 1)


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "float64"])
def test_propagated_values_stay_missing_under_a_gaussian_prior(dtype):
    frame = pandas_frame(pd.array(with_gaps(VALUES), dtype="Int64").astype(dtype))
    result = released(frame, missing="propagate", **FREE)
    assert result["x"].dtype == dtype
    assert_array_equal(result["x"].isna(), frame["x"].isna())
    with pytest.raises(ValueError, match=r"'x' has 35 missing .*or pass missing=\"propagate\""):
        released(frame, **FREE)


def test_any_later_number_is_released_under_a_gaussian_prior():
    fitted = noiser(**FREE).fit(pandas_frame(VALUES))
    later = pd.DataFrame({"x": [-1000, 1000, 17]})
    result = fitted.transform(later)["x"]
    assert result.dtype == later["x"].dtype
    assert (abs(result - later["x"]) < 60.0 * fitted.theta_["x"]).all()


def test_columns_keep_their_names_and_order_under_a_gaussian_prior():
    frame = pd.DataFrame({"b": VALUES / 4, "secret": LABELS, "a": VALUES, "kept": LETTERS[VALUES]})
    options = {"public": ["a", "b"], "remainder": "passthrough", "output": "noisy"} | FREE
    result = noiser(**options).fit(frame).set_output(transform="polars").transform(frame)
    assert result.columns == ["b", "a", "kept"]
    assert result.schema["a"] == pl.Float64
    plain = noiser(**options | {"output": "native"}).fit(frame).transform(frame)
    assert plain.dtypes.to_dict() == frame[["b", "a", "kept"]].dtypes.to_dict()


@pytest.mark.parametrize(
    ("values", "categories", "unordered"),
    [
        (pd.Series(["b", "a"]), None, True),
        (pd.Series(["b", "a"], dtype="category"), None, True),
        (pd.Series(pd.Categorical(["b", "a"], ordered=True)), None, False),
        (pd.Series(["b", "a"]), ["b", "a"], False),
        (pd.Series([True, False]), None, True),
        (pd.Series([3, 1]), None, False),
        (pd.Series([3, 1]), [3, 1], False),
        (pl.Series("x", ["b", "a"], dtype=pl.Enum(["b", "a"])), None, False),
        (pl.Series("x", ["b", "a"], dtype=pl.Categorical), None, True),
    ],
)
def test_an_order_is_known_where_it_is_declared(values, categories, unordered):
    frame = values.to_frame() if isinstance(values, pl.Series) else values.to_frame("x")
    column = learn_column("x", frame_table(frame).values("x"), categories=categories)
    assert column.unordered is unordered
