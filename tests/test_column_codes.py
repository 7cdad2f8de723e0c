"""Codes of values in the alphabet of a column that was fitted, beside plain lists."""

from dataclasses import replace

import numpy as np
import pytest

from sklearn_puffer._codes import Column, Reader, learn_column, placed_in
from sklearn_puffer._codes.columns import Other, rule_of, unseen_message
from sklearn_puffer._tables import Values

GONE = [False, True, False, False]


def numbers(*data, kind="float", gaps=None):
    """Return a column of numbers; at a gap stands a number that no row has."""
    data = np.array(data, dtype={"float": float, "integer": int, "boolean": bool}[kind])
    gone = None if gaps is None else np.array(gaps)
    return Values(kind, np.where(gone, np.nan, data) if kind == "float" and gaps else data, gone)


def words(*listed):
    """Return a column of strings, of which None is missing."""
    levels = tuple(sorted({word for word in listed if word is not None}))
    codes = np.array([-1 if word is None else levels.index(word) for word in listed])
    return Values("category", codes, codes < 0 if None in listed else None, levels)


def read(column, values, *how):
    """Return the codes of all rows, and how many rows had a value that `fit` has not seen."""
    reader, codes = Reader(column, values, *how), np.full(len(values), -9, dtype=np.intp)
    reader.codes(slice(None), codes)
    halves = [np.full(2, -9, dtype=np.intp) for _ in range(len(values) // 2)]
    again = Reader(column, values, *how)
    for k, half in enumerate(halves):
        again.codes(slice(2 * k, 2 * k + 2), half)
    assert np.concatenate(halves).tolist() == codes.tolist()
    assert again.moved == reader.moved
    return codes.tolist(), reader.moved


AGES = learn_column("x", numbers(10.0, 20.0, 40.0, 20.0))
JOBS = learn_column("x", words("cook", "smith", "clerk"))


@pytest.mark.parametrize("kind", ["float", "integer"])
def test_numbers_have_the_code_of_their_atom_or_of_the_nearest_one(kind):
    column = learn_column("x", numbers(10, 20, 40, kind=kind))
    assert read(column, numbers(40, 10, 20, 20, kind=kind)) == ([2, 0, 1, 1], 0)
    new = numbers(31, 29, -5, 99, kind=kind)
    assert read(column, new, "nearest") == ([2, 1, 0, 2], 4)
    with pytest.raises(ValueError, match="4 values that were not seen in fit"):
        read(column, new)
    one = numbers(10, 31, 20, 31, kind=kind)
    assert read(column, one, "nearest") == ([0, 2, 1, 2], 2)
    shown = "31" if kind == "integer" else "31.0"
    with pytest.raises(ValueError, match=rf"contains {shown}, which was not .* \(2 row\(s\)"):
        read(column, one)


def test_what_is_missing_takes_the_code_of_an_atom_and_moves_nothing():
    assert read(AGES, numbers(40, 7, 20, 10, gaps=GONE), "error", "propagate") == ([2, 0, 1, 0], 0)
    whole = learn_column("x", numbers(1, 5, 9, 1, kind="integer"))
    new = numbers(5, 7, 9, 1, kind="integer", gaps=GONE)
    assert read(whole, new, "error", "propagate") == ([1, 0, 2, 0], 0)
    for column, values in ((AGES, numbers(1.0, 2.0, gaps=[True, False])), (JOBS, words(None, "a"))):
        with pytest.raises(ValueError, match="has 1 missing value"):
            Reader(column, values)
        reader = Reader(column, values, "nearest", "propagate")
        assert reader.propagates
        assert reader.missing(slice(0, 2)).tolist() == [True, False]


def test_words_have_the_code_of_their_level_whatever_their_own_codes():
    assert JOBS.levels == ("clerk", "cook", "smith")
    assert read(JOBS, words("smith", "cook", "cook", "clerk")) == ([2, 1, 1, 0], 0)
    new = words("smith", "nurse", "nurse", "clerk")
    assert read(JOBS, new, "nearest") == ([2, 0, 0, 0], 2)
    assert read(JOBS, new, Other("cook")) == ([2, 1, 1, 0], 2)
    with pytest.raises(ValueError, match=r"contains 'nurse', which .* \(2 row\(s\) hold it\)"):
        read(JOBS, new)
    with pytest.raises(ValueError, match=r"unknown\['x'\] is 'other', which fit was not told of"):
        read(JOBS, new, Other("other"))
    unused = replace(
        words("smith", "cook", "cook", "clerk"), levels=("clerk", "cook", "smith", "z")
    )
    assert read(JOBS, unused) == ([2, 1, 1, 0], 0)


def test_missing_as_a_category_has_a_code_of_its_own_if_fit_had_some():
    fitted = learn_column("x", words("a", None, "b"), missing="category")
    assert fitted.levels == ("a", "b", None)
    assert fitted.missing_code == 2
    assert read(fitted, words("b", None, "a", None), "error", "category") == ([1, 2, 0, 2], 0)
    assert read(fitted, words("b", "a"), "error", "category") == ([1, 0], 0)
    with pytest.raises(ValueError, match=r"contains None, which was not seen .* \(1 row"):
        read(JOBS, words("cook", None), "error", "category")
    assert read(JOBS, words("cook", None), "nearest", "category") == ([1, 0], 1)
    truth = learn_column(
        "x",
        numbers(True, False, True, kind="boolean", gaps=[False, False, True]),
        missing="category",
    )
    assert truth.atoms.tolist() == [0.0, 1.0, 2.0]
    assert truth.missing_code == 2
    some = numbers(False, True, kind="boolean", gaps=[False, True])
    assert read(truth, some, "error", "category") == ([0, 2], 0)
    plain = learn_column("x", numbers(True, False, kind="boolean"))
    with pytest.raises(ValueError, match=r"has 1 missing value\(s\) \(NaN\), and had none in fit"):
        Reader(plain, some, "error", "category")


def test_bins_take_any_number_and_each_edge_belongs_to_the_bin_below():
    column = learn_column("x", numbers(*range(10)), n_bins=2)
    assert column.edges.tolist() == [4.0]
    assert column.atoms.tolist() == [2.0, 7.0]
    assert read(column, numbers(-9, 4, 4.1, 99)) == ([0, 0, 1, 1], 0)
    assert column.placed(np.array([4.0, 5.0])).tolist() == [2.0, 7.0]
    assert column.knots.tolist() == column.edges.tolist()
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="'x' contains"):
            read(column, numbers(1, bad))
        with pytest.raises(ValueError, match="'x' contains"):
            read(AGES, numbers(10, bad), "nearest")


@pytest.mark.parametrize("gaps", [None, GONE])
def test_values_are_placed_without_a_refusal_and_strange_ones_are_marked(gaps):
    there = np.array([gaps is None or not gap for gap in GONE])
    for column, values, codes, strange in (
        (AGES, numbers(40, 20, 31, np.inf, gaps=gaps), [2, 1, 2, 0], [0, 0, 1, 1]),
        (
            learn_column("x", numbers(*range(10)), n_bins=2),
            numbers(40, 2, 4, -np.inf, gaps=gaps),
            [1, 0, 0, 0],
            [0, 0, 0, 1],
        ),
        (replace(AGES, free=True), numbers(1, 2, 3, np.inf, gaps=gaps), [0] * 4, [0, 0, 0, 1]),
    ):
        found = placed_in(column, values)
        assert found.codes[there].tolist() == np.array(codes)[there].tolist()
        assert found.strange.tolist() == (np.array(strange, dtype=bool) & there).tolist()
        assert found.gone.tolist() == (~there).tolist()
        assert found.data is values.data
    listed = ["smith", None if gaps else "cook", "nurse", "clerk"]
    found = placed_in(JOBS, words(*listed))
    assert found.codes[there].tolist() == np.array([2, 1, 0, 0])[there].tolist()
    assert found.strange.tolist() == [False, False, True, False]
    assert found.gone.tolist() == (~there).tolist()


def test_missing_values_with_a_code_are_placed_there_and_are_not_gone():
    fitted = learn_column("x", words("a", None, "b"), missing="category")
    found = placed_in(fitted, words("b", None, "c"))
    assert found.codes.tolist() == [1, 2, 0]
    assert found.strange.tolist() == [False, False, True]
    assert not found.gone.any()


def test_another_kind_of_values_than_fit_has_seen_is_refused():
    for place in (placed_in, Reader):
        with pytest.raises(TypeError, match="'x' holds category values, and held float values"):
            place(AGES, words("a"))
        timed = replace(numbers(1, 2, kind="integer"), unit="datetime64[D]")
        with pytest.raises(TypeError, match="holds dates or durations, and held numbers"):
            place(AGES, timed)
        days = learn_column("x", timed)
        with pytest.raises(TypeError, match="holds numbers, and held dates or durations"):
            place(days, numbers(1, 2, kind="integer"))
        place(days, timed)
        place(JOBS, numbers(1, 2, gaps=[True, True])) if place is placed_in else None


def test_a_column_takes_further_atoms_which_may_all_be_released():
    few = replace(AGES, known=np.array([True, False, True]))
    wider = few.extended(np.array([20.0, 30.0]))
    assert wider.atoms.tolist() == [10.0, 20.0, 30.0, 40.0]
    assert wider.known.tolist() == [True, True, True, True]
    same = few.extended(np.array([10.0]))
    assert same.known.tolist() == [True, False, True]
    assert wider.missing_code is None
    coded = replace(AGES, missing_code=2).extended(np.array([15.0]))
    assert coded.missing_code == 3


def test_priors_place_values_among_the_codes_of_a_column():
    assert JOBS.placed(np.array([2.0, 0.0])).tolist() == [2.0, 0.0]
    truth = learn_column("x", numbers(True, kind="boolean"))
    assert truth.placed(np.array([0.0, 1.0])).tolist() == [0.0, 1.0]
    assert AGES.placed(np.array([33.0])).tolist() == [33.0]
    for column, strange in ((JOBS, 3.0), (truth, 2.0)):
        with pytest.raises(ValueError, match=f"has the atom {strange} in column 'x', which is"):
            column.placed(np.array([0.0, strange]))


def test_numbers_alone_and_without_bins_take_any_number():
    assert AGES.with_any_number().free
    assert not AGES.free
    with pytest.raises(TypeError, match="'x' is category"):
        JOBS.with_any_number()
    with pytest.raises(ValueError, match="n_bins bins column 'x'"):
        learn_column("x", numbers(*range(9)), n_bins=2).with_any_number()


def test_columns_know_whether_their_codes_have_an_order_and_must_stay_whole():
    declared = learn_column("x", words("a", "b"), categories=["b", "a"])
    truth = learn_column("x", numbers(True, False, kind="boolean"))
    columns = (AGES, JOBS, declared, truth, learn_column("x", numbers(1, 2, kind="integer")))
    assert [each.unordered for each in columns] == [False, True, False, True, False]
    assert [each.whole for each in columns] == [False, True, True, True, True]
    assert declared.levels == ("b", "a")


RULES = {
    "error": ["error"] * 4,
    "nearest": ["nearest"] * 4,
    "auto": ["nearest", "nearest", "error", "error"],
}


def test_the_rule_for_unseen_values_is_that_of_the_kind_and_of_the_column():
    kinds = ["float", "integer", "boolean", "category"]
    for unknown, expected in RULES.items():
        assert [rule_of(unknown, "x", kind) for kind in kinds] == expected
    for value in ("error", "nearest"):
        found = [rule_of({"x": value}, "x", kind) for kind in kinds]
        assert found == [value] * 3 + [Other(value)]
        assert rule_of({"y": value}, "x", "float") == "error"


def test_unseen_values_are_told_the_most_frequent_first_and_a_hundred_at_most():
    message = unseen_message("x", ["a", "b", "c"], [1, 7, 3], numeric=False)
    assert "3 values that were not seen" in message
    assert "'b' (7), 'c' (3), 'a' (1); pass" in message
    assert "turn them into a known category" in message
    one = unseen_message("x", [5], [2], numeric=True)
    assert "move it to the nearest" in one
    assert "(2 row(s) hold it)" in one
    for n, more in ((100, ""), (101, " and 1 more"), (140, " and 40 more")):
        many = unseen_message("x", list(range(n)), [1] * n, numeric=True)
        assert f"99 (1){more};" in many
        assert "100 (1)" not in many


def test_a_column_of_times_keeps_its_unit():
    days = learn_column("x", replace(numbers(1, 2, kind="integer"), unit="datetime64[D]"))
    assert days.unit == "datetime64[D]"
    assert AGES.unit is None
    assert AGES.of_times(None) is AGES
    assert isinstance(days, Column)
