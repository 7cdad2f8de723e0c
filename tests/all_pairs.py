"""A few cases of a large product, in which every two values still meet.

Most faults need no more than two options to meet: the fast run takes these cases, and the slow run
takes them all, or all pairs where a case takes long.
"""

import itertools

import pytest

SLOW = pytest.mark.slow


def all_pairs(cases):
    """Return some of the cases, in which any two values meet that meet in one of them.

    Each in turn is the first with the most pairs that none before it has.
    """
    pairs = {case: set(itertools.combinations(enumerate(case), 2)) for case in cases}
    chosen, missing = [], set().union(*pairs.values())
    while missing:
        chosen.append(max(pairs, key=lambda case: len(pairs[case] & missing)))
        missing -= pairs[chosen[-1]]
    return chosen


def pairs_first(cases, among=None):
    """Return cases as parameters of a test, slow but for all pairs among those asked for.

    Where only some are asked for, the others take their time: the slow run then has all pairs of
    the whole product, and not the whole product.
    """
    cases = list(cases)
    quick = set(all_pairs(cases if among is None else [case for case in cases if among(*case)]))
    taken = set(cases if among is None else all_pairs(cases)) | quick
    return [
        pytest.param(*case, id="-".join(map(str, case)), marks=() if case in quick else SLOW)
        for case in cases
        if case in taken
    ]
