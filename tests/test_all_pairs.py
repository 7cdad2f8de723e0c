"""The few cases that stand for a product, held against the whole of it."""

import itertools
from collections import Counter

import pytest
from all_pairs import all_pairs, pairs_first, some

PRODUCT = list(itertools.product("abcd", range(5), "xyz", [True, False]))
EXISTING = [case for case in PRODUCT if not ("a" in case and 3 in case)]


def pairs_of(cases):
    """Return every two values that meet, found by position."""
    return {
        (i, j, case[i], case[j])
        for case in cases
        for i in range(len(case))
        for j in range(i + 1, len(case))
    }


@pytest.mark.parametrize("cases", [PRODUCT, EXISTING])
def test_every_pair_of_values_that_can_meet_does(cases):
    chosen = all_pairs(cases)
    assert set(chosen) <= set(cases)
    assert pairs_of(chosen) == pairs_of(cases)


def test_the_chosen_are_few_and_each_is_there_once():
    chosen = all_pairs(PRODUCT)
    assert 20 <= len(chosen) <= 25  # of 120; 20 pairs of the two longest lists need a case each
    assert len(set(chosen)) == len(chosen)


def test_nothing_of_two_options_is_left_out():
    pairs = list(itertools.product(range(3), range(4)))
    assert sorted(all_pairs(pairs)) == pairs


def test_pairs_meet_in_the_fast_run_and_once_more_in_the_slow_one():
    found = pairs_first(PRODUCT)
    quick = {each.values for each in found if not each.marks}
    slow = {each.values for each in found if each.marks}
    assert quick == set(all_pairs(PRODUCT))
    assert len(slow) < len(PRODUCT) / 3
    assert pairs_of(slow) == pairs_of({*PRODUCT} - quick)


def test_pairs_are_those_among_the_cases_that_are_asked_for():
    found = pairs_first(PRODUCT, among=lambda *case: case in EXISTING)
    quick = {each.values for each in found if not each.marks}
    assert quick == set(all_pairs(EXISTING))
    assert [each.values for each in found] == [
        case for case in PRODUCT if case in {*quick, *all_pairs(PRODUCT)}
    ]


def test_some_cases_try_every_value_of_a_file_and_two_of_each_test():
    ids = ["-".join(map(str, case)) for case in PRODUCT]
    tried = Counter()
    first = some([f"test_first[{each}]" for each in ids], 8, tried)
    assert set(tried) == {*"abcd", *"01234", *"xyz", "True", "False"}
    assert len(first) == 5  # the longest list of values
    second = some([f"test_second[{each}]" for each in ids], 8, tried)
    assert len(second) == 2
    assert len(some([f"test_third[{each}]" for each in "abcdefghijk"], 4, tried)) == 4
    assert some(["test_alone"], 8, tried) == ["test_alone"]


def test_tests_of_the_same_values_try_others_in_turn():
    tried, ids = Counter(), ["dask", "spark", "ibis"]
    some([f"test_first[{each}]" for each in ids], 8, tried)
    for number in range(6):
        found = some([f"test_{number}[{each}]" for each in ids], 8, tried)
        assert len(found) == 2
    assert max(tried.values()) - min(tried.values()) <= 1
