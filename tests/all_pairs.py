"""A few cases of a large product, in which every two values still meet.

Most faults need no more than two options to meet: the fast run takes these cases, and the slow run
others, in which each two meet once more. CI takes some of these, in which every value is tried.
"""

import itertools
import math

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


def some(cases, most, tried):
    """Return so many cases of a test at most, by their ids, and count their values as tried.

    ``tried`` counts the values of the tests of a file, which are the words between the brackets.
    Of two cases the second has a value that is new to the test, each further one a value that is
    new to the file. Among cases with as many new values, the least tried comes first.
    """
    golden, kept, own = (math.sqrt(5.0) - 1.0) / 2.0, [], set()
    # one after the other in step with no factor of a product
    left = [cases[k] for k in sorted(range(len(cases)), key=lambda place: place * golden % 1.0)]

    def gain(case):
        words = values(case)
        times = [tried[word] for word in words]
        return times.count(0), len(words - own), -sum(times)

    while left and len(kept) < most:
        best = max(left, key=gain)
        new_to_file, new_to_test, _ = gain(best)
        if kept and not new_to_file and not (new_to_test and len(kept) == 1):
            break
        left.remove(best)
        kept.append(best)
        own |= values(best)
        tried.update(values(best))
    return kept


def values(case):
    return set(case.partition("[")[2].removesuffix("]").split("-"))
