"""A few cases of a large product, in which every two values still meet.

Most faults need no more than two options to meet: the fast run takes these cases, and the slow run
others, in which each two meet once more.
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
    """Return cases as parameters of a test: all pairs among those asked for, and slow ones.

    The slow ones are all pairs of the cases that are left, so that two options meet twice or more;
    where only some are asked for, since the others take their time, they are all pairs of all.
    """
    cases = list(cases)
    quick = set(all_pairs(cases if among is None else [case for case in cases if among(*case)]))
    others = cases if among is not None else [case for case in cases if case not in quick]
    taken = quick | set(all_pairs(others))
    return [
        pytest.param(*case, id="-".join(map(str, case)), marks=() if case in quick else SLOW)
        for case in cases
        if case in taken
    ]
