"""What was missing or unseen in `fit`: every type of table must be able to say so in a release."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from sklearn_puffer import PufferfishNoiser, PufferfishRelease, UnseenValuesWarning
from sklearn_puffer._codes import identifier_kind
from sklearn_puffer._tables import Values

N_ROWS = 240
RNG = np.random.default_rng(0)
SECRET = RNG.integers(0, 2, N_ROWS)
FLAGS = RNG.random(N_ROWS) < 0.3 + 0.4 * SECRET
GONE = RNG.random(N_ROWS) < 0.3

pytestmark = pytest.mark.filterwarnings("ignore:.*need no noise under this prior:UserWarning")
seeded = pytest.mark.filterwarnings("ignore:random_state=.* is for tests only:UserWarning")


def noiser(**options):
    """A noiser of so small a budget that every value is drawn nearly evenly, and repeatably."""
    return PufferfishNoiser(**{"epsilon": 0.05, "sensitive": "secret", "random_state": 7} | options)


def frame(column):
    return pd.DataFrame({"x": column, "secret": SECRET})


def objects(values):
    """The values as Python objects, None where something is missing."""
    return [None if pd.isna(value) else value for value in list(values)]


def arrow(values):
    pytest.importorskip("pyarrow")
    return pd.array(values, dtype="bool[pyarrow]")


COMPLETE = {
    "bool": lambda: frame(FLAGS),
    "nullable": lambda: frame(pd.array(FLAGS, dtype="boolean")),
    "arrow": lambda: frame(arrow(FLAGS)),
    "int": lambda: frame(FLAGS.astype(int)),
    "uint8": lambda: frame(FLAGS.astype(np.uint8)),
    "Int64": lambda: frame(pd.array(FLAGS.astype(int), dtype="Int64")),
    "float": lambda: frame(FLAGS.astype(float)),
    "polars": lambda: pl.DataFrame({"x": FLAGS, "secret": SECRET}),
    "polars integers": lambda: pl.DataFrame({"x": FLAGS.astype(int), "secret": SECRET}),
}


@seeded
@pytest.mark.parametrize("kind", COMPLETE)
@pytest.mark.parametrize("container", ["default", "pandas"])
def test_a_boolean_drawn_as_missing_is_missing_in_a_table_that_has_no_missing_values(
    kind, container
):
    gappy = frame(np.where(GONE, None, FLAGS).astype(object))
    fitted = noiser(missing="category").set_output(transform=container).fit(gappy)
    expected = objects(fitted.transform(frame(FLAGS.astype(object)))["x"])
    again = noiser(missing="category").set_output(transform=container).fit(gappy)
    assert objects(again.transform(COMPLETE[kind]())["x"]) == expected
    assert {None, False, True} == set(expected)


@seeded
@pytest.mark.parametrize("dtype", [bool, int, float, object])
def test_a_boolean_drawn_as_missing_is_missing_in_an_array(dtype):
    gappy = np.column_stack([np.where(GONE, None, FLAGS), SECRET]).astype(object)
    fitted = noiser(missing="category", sensitive=1).fit(gappy)
    expected = objects(fitted.transform(gappy)[:, 0])
    rows = np.column_stack([FLAGS, SECRET]).astype(object)
    rows[GONE, 0] = None
    complete = np.column_stack([FLAGS, SECRET]).astype(dtype)
    drawn = noiser(missing="category", sensitive=1).fit(gappy).transform(complete)[:, 0]
    some = [value for value, gone in zip(objects(drawn), GONE, strict=True) if not gone]
    assert some == [value for value, gone in zip(expected, GONE, strict=True) if not gone]
    assert None in some


LABELLED = {
    "bool": (FLAGS, [False, True]),
    "int": (FLAGS.astype(np.int8), [0, 1]),
    "float": (FLAGS.astype(float), [0.0, 1.0]),
    "text": (np.where(FLAGS, "b", "a"), ["a", "b"]),
}


@seeded
@pytest.mark.parametrize("kind", LABELLED)
def test_a_category_drawn_as_missing_is_missing_in_a_table_that_has_no_missing_values(kind):
    column, levels = LABELLED[kind]
    gappy = frame(pd.Series(column, dtype=object).where(~GONE, None))
    options = {"missing": "category", "categories": {"x": levels}}
    expected = objects(noiser(**options).fit(gappy).transform(frame(column.astype(object)))["x"])
    drawn = noiser(**options).fit(gappy).transform(frame(column))["x"]
    assert objects(drawn) == expected
    assert {None, *levels} == set(expected)


@seeded
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64])
def test_a_category_of_fit_that_an_array_cannot_hold_widens_the_array(dtype):
    levels = [0, 1, 0.5, 300]
    seen = np.array(levels)[RNG.integers(0, 4, N_ROWS)]
    fitted = noiser(sensitive=1, categories={0: levels}).fit(np.column_stack([seen, SECRET]))
    rows = np.column_stack([FLAGS, SECRET]).astype(dtype)
    assert set(fitted.transform(rows)[:, 0].tolist()) == {0.0, 1.0, 0.5, 300.0}


@seeded
def test_what_is_left_missing_stays_so_in_arrays_of_objects():
    rows = np.column_stack([np.where(GONE, None, FLAGS), np.where(GONE, None, 3), SECRET])
    released = noiser(missing="propagate", sensitive=2).fit(rows).transform(rows)
    for column, kind in ((released[:, 0], bool), (released[:, 1], int)):
        assert [value is None for value in column] == GONE.tolist()
        assert {type(value) for value in column} <= {kind, type(None)}


# ---------------------------------------------------------------------------- unseen categories

JOBS = np.array(["cook", "nurse", "clerk"])[RNG.integers(0, 3, N_ROWS)]
LATER = np.resize(["cook", "pilot", "judge", "pilot", "clerk"], N_ROWS)


def table(job=JOBS, **more):
    return pd.DataFrame({"job": job, "secret": SECRET, **more})


def harmless(**options):
    """A noiser that adds next to nothing, so that what is released is what was read."""
    return noiser(**{"epsilon": 1e6, "random_state": None} | options)


def test_a_value_for_the_unseen_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"unknown={column: value} is gone: replace .*'nearest'"):
        harmless(unknown={"job": "other"}).fit(table())
    with pytest.raises(
        ValueError, match=r"must be one of \['auto', 'error', 'nearest'\], got 'oth"
    ):
        harmless(unknown="other").fit(table())


def test_a_value_for_the_unseen_in_an_artifact_of_before_is_kept():
    before = harmless().fit(table(COMMON)).set_params(unknown={"job": "cook"})
    release = PufferfishRelease.from_json(before.to_json())
    assert release.unknown == {"job": "cook"}
    with pytest.warns(UserWarning, match=r"moved values .* not seen in fit .*: 144 in 'job'"):
        released = release.transform(table(LATER))["job"]
    assert list(released) == np.where(np.isin(LATER, ["pilot", "judge"]), "cook", LATER).tolist()


def test_a_value_for_the_unseen_that_fit_has_not_seen_is_refused():
    fitted = harmless().fit(table()).set_params(unknown={"job": "other"})
    with pytest.raises(ValueError, match="which fit was not told of; fit again"):
        fitted.transform(table(LATER))


# ---------------------------------------------------------------------- one rule for all of them

COMMON = np.where(np.arange(N_ROWS) % 3 > 0, "nurse", JOBS)  # most rows have "nurse"
SOME = np.resize([20, 30], N_ROWS)
WAYS = {
    "at fit": lambda: harmless(unknown="nearest").fit(table(COMMON, age=SOME)),
    "after fit": lambda: harmless().fit(table(COMMON, age=SOME)).set_params(unknown="nearest"),
    "a form": lambda: PufferfishRelease.from_json(
        harmless().fit(table(COMMON, age=SOME)).to_json()
    ).set_params(unknown="nearest"),
}


@pytest.mark.parametrize("way", WAYS)
def test_nearest_takes_numbers_and_categories_alike_however_it_is_said(way):
    later = table(LATER, age=np.resize([19, 29, 30], N_ROWS))
    with pytest.warns(UserWarning, match=r"moved values .*: 304, of these 160 in 'age'"):
        released = WAYS[way]().transform(later, on_drift="ignore")
    expected = np.where(np.isin(LATER, ["pilot", "judge"]), "nurse", LATER)
    assert list(released["job"]) == expected.tolist()
    assert list(released["age"]) == np.resize([20, 30, 30], N_ROWS).tolist()


def test_a_refusal_names_what_then_works_without_another_fit():
    """Two messages asked for what the other one refused."""
    fitted = harmless(unknown="error").fit(table(COMMON, age=SOME))
    for later in (table(LATER, age=SOME), table(COMMON, age=99)):
        with pytest.raises(ValueError, match=r'not seen in fit.*pass unknown="nearest" \(to set_p'):
            fitted.transform(later)
    fitted.set_params(unknown="nearest")
    with pytest.warns(UserWarning, match="moved values"):
        fitted.transform(table(LATER, age=99), on_drift="ignore")


@pytest.mark.filterwarnings("ignore:unknown= moved")
def test_what_is_missing_where_fit_lacked_nothing_is_an_unseen_category():
    later = table(pd.Series(COMMON, dtype=object).where(~GONE, None))
    fitted = harmless(missing="category").fit(table(COMMON))
    with pytest.raises(ValueError, match=r"'job' contains None, which was not seen in fit; pass"):
        fitted.transform(later)
    released = fitted.set_params(unknown="nearest").transform(later, on_drift="ignore")
    assert list(released["job"]) == np.where(GONE, "nurse", COMMON).tolist()


def test_a_boolean_missing_where_fit_lacked_nothing_is_refused_with_what_works():
    fitted = harmless(missing="category", unknown="nearest").fit(frame(FLAGS))
    with pytest.raises(ValueError, match=r"72 missing .* had none in fit; drop or fill"):
        fitted.transform(frame(pd.array(np.where(np.arange(240) < 72, None, FLAGS), "boolean")))


@pytest.mark.filterwarnings("ignore:unknown= moved")
@pytest.mark.parametrize("options", [{}, {"missing": "category"}, {"weights": {"job": 2.0}}])
def test_the_commonest_category_is_one_that_was_seen_and_is_no_missing_value(options):
    gappy = pd.Series(COMMON, dtype=object).where(~np.isin(np.arange(N_ROWS) % 9, range(7)), None)
    seen = gappy if options.get("missing") else COMMON
    known = gappy.value_counts().index[0] if options.get("missing") else "nurse"
    fitted = harmless(unknown="nearest", **options).fit(table(seen))
    assert set(fitted.transform(table("judge"), on_drift="ignore")["job"]) == {known}
    declared = harmless(unknown="nearest", categories={"job": ["cook", "nurse", "clerk", "none"]})
    released = declared.fit(table(COMMON)).transform(table("judge"), on_drift="ignore")
    assert set(released["job"]) == {"nurse"}


# ------------------------------------------------------------- numbers move, categories are refused

NUMBERS = np.resize([20, 30], N_ROWS)
NEW_NUMBERS = np.resize([19, 20, 26, 30], N_ROWS)
READ_AS = np.resize([20, 20, 30, 30], N_ROWS)


def array_of(numbers):
    return np.column_stack([numbers, SECRET])


OF_NUMBERS = {
    "int": lambda numbers: frame(numbers),
    "int8": lambda numbers: frame(numbers.astype(np.int8)),
    "float": lambda numbers: frame(numbers / 4),
    "float32": lambda numbers: frame((numbers / 4).astype(np.float32)),
    "Int64": lambda numbers: frame(pd.array(numbers, dtype="Int64")),
    "objects": lambda numbers: frame(pd.Series(numbers.tolist(), dtype=object)),
    "polars": lambda numbers: pl.DataFrame({"x": numbers, "secret": SECRET}),
    "arrow": lambda numbers: pa.table({"x": numbers, "secret": SECRET}),
    "array": array_of,
}


def released_numbers(released):
    column = released[:, 0] if isinstance(released, np.ndarray) else released["x"]
    return np.asarray(column, dtype=float)


WAYS_TO_RELEASE = {
    "transform": lambda fitted, rows: fitted.transform(rows, on_drift="ignore"),
    "artifact": lambda fitted, rows: PufferfishRelease.from_json(fitted.to_json()).transform(
        rows, on_drift="ignore"
    ),
}


@pytest.mark.filterwarnings("ignore:.*distributed.*:UserWarning")
@pytest.mark.parametrize("kind", OF_NUMBERS)
@pytest.mark.parametrize("way", WAYS_TO_RELEASE)
def test_unseen_numbers_are_read_as_the_nearest_and_one_warning_counts_them(kind, way):
    given, sensitive = OF_NUMBERS[kind], 1 if kind == "array" else "secret"
    fitted = harmless(sensitive=sensitive).fit(given(NUMBERS))
    with pytest.warns(UnseenValuesWarning, match=r": 120 in ('x'|0);") as told:
        released = WAYS_TO_RELEASE[way](fitted, given(NEW_NUMBERS))
    assert [each.category for each in told].count(UnseenValuesWarning) == 1
    units = 4 if kind.startswith("float") else 1
    assert np.rint(units * released_numbers(released)).tolist() == READ_AS.tolist()


REFUSED = {
    "text": (JOBS, LATER, "'x' contains 2 values that were not seen in fit.*'pilot' "),
    "categories": (pd.Categorical(JOBS), pd.Categorical(LATER), "'x' contains 2 values that were"),
    "booleans": (np.ones(N_ROWS, dtype=bool), FLAGS, "'x' contains .*, which was not seen in fit"),
    "declared": (NUMBERS, NEW_NUMBERS, "'x' contains 2 values that were not seen in fit"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_unseen_categories_and_booleans_are_refused_by_name(kind):
    seen, new, message = REFUSED[kind]
    listed = {"x": [20, 30]} if kind == "declared" else None
    fitted = harmless(categories=listed).fit(frame(seen))
    with pytest.raises(ValueError, match=message):
        fitted.transform(frame(new))


def test_the_warning_is_one_sentence_of_200_characters_however_long_the_name():
    name = "how long it took " * 30
    rows = table(**{name: NUMBERS, "b": NUMBERS}).drop(columns="job")
    fitted = harmless().fit(rows)
    with pytest.warns(UnseenValuesWarning) as told:
        fitted.transform(rows + 1_000_000, on_drift="ignore")
    [sentence] = [str(each.message) for each in told if each.category is UnseenValuesWarning]
    assert len(sentence) <= 200
    assert sentence.endswith(".")


def test_the_rule_for_the_unseen_changes_no_fingerprint_and_no_keyed_bit():
    rows, key = table(age=NUMBERS).assign(id=range(N_ROWS)), b"blake2b:" + bytes(32)
    options = {"public": ["job", "age"], "random_state": None, "epsilon": 0.5}
    found = [noiser(unknown=u, **options).fit(rows) for u in ("auto", "error", "nearest")]
    assert len({each.certificate_.fingerprint for each in found}) == 1
    first, *others = [each.transform(rows, row_id="id", key=key) for each in found]
    for other in others:
        pd.testing.assert_frame_equal(first, other)
    strict = PufferfishRelease.from_json(found[1].to_json())  # as all earlier ones were
    with pytest.raises(ValueError, match="'age' contains 99, which was not seen"):
        strict.transform(rows.assign(age=99))


@pytest.mark.filterwarnings("ignore::sklearn_puffer.UtilityWarning")
def test_a_search_scores_folds_with_numbers_of_their_own():
    """Five numbers of one fold, which the others lack, made every score NaN."""
    rng = np.random.default_rng(3)
    secret = rng.integers(0, 2, 300)
    rows = pd.DataFrame({"race": secret, "age": rng.integers(0, 40, 300) + 5 * secret})
    rows.loc[:4, "age"] = [90, 91, 92, 93, 94]
    model = make_pipeline(PufferfishNoiser(1.0, sensitive="race"), HistGradientBoostingClassifier())
    with pytest.warns(UnseenValuesWarning):
        scores = cross_val_score(model, rows, secret, cv=3, error_score="raise")
    assert np.isfinite(scores).all()


# ------------------------------------------------------------------------- all faults in one error


def test_all_unseen_values_are_named_at_once_with_their_counts():
    column = np.resize([20, 30], N_ROWS)
    fitted = harmless(unknown="error").fit(table(age=column, size=column / 4))
    later = np.where(np.arange(N_ROWS) < 3, 99, np.where(np.arange(N_ROWS) > 234, 7, column))
    size = np.where(np.arange(N_ROWS) == N_ROWS - 1, np.inf, column / 4)
    with pytest.raises(ValueError, match="3 faults were found") as told:
        fitted.transform(table(LATER, age=later, size=size))
    _, job, age, infinite = str(told.value).splitlines()
    assert "'job' contains 2 values" in job
    assert "'pilot' (96), 'judge' (48)" in job
    assert "'age' contains 2 values" in age
    assert "7 (5), 99 (3)" in age
    assert "'size' contains infinity" in infinite


def test_faults_of_every_kind_are_collected_at_transform():
    numbers = np.resize([20, 30], N_ROWS)
    fitted = harmless(unknown="error").fit(
        table(a=numbers, b=numbers, c=numbers / 4, d=numbers > 20)
    )
    mixed = np.resize(np.array(["cook", 3], dtype=object), N_ROWS)
    later = table(mixed, a="x", b=np.where(GONE, np.nan, 20), c=0.1, d=numbers > 20)
    with pytest.raises(ValueError, match="4 faults") as told:
        fitted.transform(later)
    patterns = ["'job' holds mixed", "'a' holds category", "'b' has .* missing", "'c' contains 0.1"]
    for line, pattern in zip(str(told.value).splitlines()[1:], patterns, strict=True):
        assert re.search(pattern, line)


@pytest.mark.slow
def test_faults_of_numbers_that_any_number_may_follow_are_collected():
    columns = {name: np.arange(N_ROWS) % 9 for name in "abc"}
    frame = pd.DataFrame({"secret": SECRET, **columns})
    options = {"epsilon": 1.0, "alpha": 2.0, "noise": "gaussian", "dependence": "independent"}
    fitted = noiser(prior="gaussian", random_state=None, **options).fit(frame)
    with pytest.raises(ValueError, match="3 faults") as told:
        fitted.transform(frame.assign(a=0.5, b=np.inf, c=np.nan))
    lines = str(told.value).splitlines()[1:]
    for line, pattern in zip(
        lines, ["'a' .* 0.5 and held whole", "'b' .* infin", "'c' has 240 missing"], strict=True
    ):
        assert re.search(pattern, line)


def test_faults_of_all_columns_are_collected_in_fit():
    names = [f"n{k}" for k in range(N_ROWS)]
    frame = table(
        SECRET,
        gone=np.where(GONE, np.nan, 1.0),
        when=pd.Period("2020-01", "M"),
        name=names,
        key=np.arange(N_ROWS) + 1000,
        fine=FLAGS,
    ).assign(secret=np.where(GONE, None, "s"))
    with pytest.raises(ValueError, match="5 faults") as told:
        harmless().fit(frame)
    patterns = [
        "'secret' has .* missing",
        "'gone' has",
        "'when' holds dates",
        "'name' looks like an identifier.*different",
    ]
    patterns.append("'key' looks like an identifier: 240 values in 240 rows")
    for line, pattern in zip(str(told.value).splitlines()[1:], patterns, strict=True):
        assert re.search(pattern, line)


def test_faults_of_types_alone_are_a_type_error():
    frame = table(a=pd.Period("2020-01", "M"), b=pd.Period("2020-01", "M"))
    with pytest.raises(TypeError, match="2 faults"):
        harmless().fit(frame)


# ---------------------------------------------------------------------------------- integer keys

KEYS = RNG.permutation(N_ROWS) + 5000


@pytest.mark.parametrize("keys", [KEYS, KEYS.astype(float), np.where(np.arange(240) < 9, 5, KEYS)])
def test_whole_numbers_that_number_the_rows_are_identifiers(keys):
    with pytest.raises(ValueError, match=r"'key' looks like an identifier.*leave it out of X"):
        noiser().fit(table(key=keys))


@pytest.mark.filterwarnings("ignore:column 'key' has .* an empirical prior is too fine")
@pytest.mark.parametrize(
    "options",
    [{"public": ["key"]}, {"n_bins": {"key": 3}}, {"public": "key", "prior": "gaussian"}],
)
def test_whole_numbers_that_are_asked_for_are_no_identifiers(options):
    frame = pd.DataFrame({"key": KEYS, "secret": SECRET})
    assert noiser(**options).fit(frame).theta_["key"] > 0.0


@pytest.mark.filterwarnings("ignore:column 'x' has .* an empirical prior is too fine")
@pytest.mark.parametrize("column", [KEYS / 7, np.where(np.arange(240) < 80, 5, KEYS)])
def test_measurements_and_amounts_that_repeat_are_no_identifiers(column):
    assert noiser().fit(frame(column)).theta_["x"] > 0.0


@pytest.mark.tables
def test_the_weights_of_the_census_are_no_identifiers(table):
    weights = table("adult")["fnlwgt"]
    assert not identifier_kind(Values("integer", weights.to_numpy()))
    assert identifier_kind(Values("float", np.arange(len(weights)) + 1.0)) == "number"
