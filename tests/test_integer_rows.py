"""Channels in whole numbers: what is accepted, and that draws follow them exactly."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sklearn_puffer._documents import digest
from sklearn_puffer._noise import WHOLE, IntegerRows, seeded_entropy

FALSE_ALARM = 1e-6


class Script:
    """Words that were written down before, and no others."""

    def __init__(self, words):
        self._words = np.array(words, dtype=np.uint64)

    def words(self, count):
        assert count == self._words.size
        return self._words


def drawn_by(rows, words, x):
    """Return what a sampler draws for cell x by some words, which no health test looks at."""
    source = rows.sampler()
    source._entropy = Script(words)
    return source.draw(np.full(len(words), x)).tolist()


def rows_of(*rows):
    """Return a channel from one mapping {target: share} a row."""
    lengths = [len(row) for row in rows]
    return IntegerRows(
        np.cumsum([0, *lengths]),
        np.array([target for row in rows for target in sorted(row)], dtype=np.int64),
        np.array([row[target] for row in rows for target in sorted(row)], dtype=np.int64),
    )


@st.composite
def channels(draw):
    """Draw channels of up to six cells, with shares of 1 among others."""
    n = draw(st.integers(1, 6))
    cuts = st.integers(1, 9) | st.integers(1, WHOLE - 1)
    rows = []
    for _ in range(n):
        ends = sorted(draw(st.sets(cuts, max_size=n - 1)))
        targets = draw(st.permutations(range(n)))[: len(ends) + 1]
        rows.append(dict(zip(sorted(targets), np.diff([0, *ends, WHOLE]).tolist(), strict=True)))
    return rows_of(*rows)


# --------------------------------------------------------------------------------------- the value


def test_rows_are_read_only_copies():
    shares = np.array([WHOLE, WHOLE])
    rows = IntegerRows(np.array([0, 1, 2]), np.array([1, 0]), shares)
    shares[0] = 1
    assert rows.shares[0] == WHOLE
    for array in (rows.starts, rows.targets, rows.shares):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5


@given(channels())
def test_a_pickle_has_the_same_digest_and_stays_read_only(rows):
    for other in (pickle.loads(pickle.dumps(rows)), copy.deepcopy(rows)):
        assert digest(other) == digest(rows)
        assert not other.shares.flags.writeable


def test_digests_tell_channels_apart():
    one = rows_of({0: 1, 1: WHOLE - 1}, {1: WHOLE})
    two = rows_of({0: 2, 1: WHOLE - 2}, {1: WHOLE})
    three = rows_of({0: 1, 1: WHOLE - 1}, {0: WHOLE})
    assert len({digest(one), digest(two), digest(three)}) == 3


BAD = {
    "begin with 0": ([1, 2], [0, 0], [WHOLE, WHOLE]),
    "each row has an entry": ([0, 1, 1], [0], [WHOLE]),
    "starts must end": ([0, 1, 3], [0, 1], [WHOLE, WHOLE]),
    "targets and 1 shares": ([0, 1, 2], [0, 1], [WHOLE]),
    "targets must lie from 0 to 1, got 0 to 2": ([0, 1, 2], [0, 2], [WHOLE, WHOLE]),
    "got -1 to 0": ([0, 1, 2], [0, -1], [WHOLE, WHOLE]),
    "ascend within each row": ([0, 2, 3], [1, 0, 0], [1, WHOLE - 1, WHOLE]),
    "add up equal ones": ([0, 2, 3], [1, 1, 0], [1, WHOLE - 1, WHOLE]),
    "leave out entries of 0": ([0, 2, 3], [0, 1, 0], [0, WHOLE, WHOLE]),
    "row 1 do not": ([0, 1, 3], [0, 0, 1], [WHOLE, 1, WHOLE - 2]),
    "row 0 do not": ([0, 1, 2], [0, 1], [WHOLE - 1, WHOLE]),
    # 5 WHOLE is 2^62 modulo 2^64, and 2^62 - 2^31 and 2^31 carry over the halves
    "those of row 0": ([0, 5, 6, 7, 8, 9], [0, 1, 2, 3, 4, 0, 0, 0, 0], [WHOLE] * 9),
    "of row 0 do not": ([0, 2, 3], [0, 1, 1], [WHOLE - 2**31, 2**32, WHOLE]),
}


@pytest.mark.parametrize("message", BAD)
def test_what_is_no_channel_is_refused(message):
    with pytest.raises(ValueError, match=message):
        IntegerRows(*BAD[message])


@pytest.mark.parametrize("shares", [[1.0], [[WHOLE]], [True], ["1"]])
def test_what_is_no_line_of_whole_numbers_is_refused(shares):
    with pytest.raises(TypeError, match="shares must be a line of whole numbers"):
        IntegerRows([0, 1], [0], shares)


def test_shares_beyond_signed_integers_are_refused():
    with pytest.raises(ValueError, match="leave out entries of 0"):
        IntegerRows([0, 1], [0], np.array([2**63 + WHOLE], dtype=np.uint64))


def test_shares_that_carry_from_half_to_half_are_a_row():
    rows = rows_of({0: 2**31 - 1, 1: 1, 2: WHOLE - 2**31}, {1: WHOLE}, {1: WHOLE})
    assert rows.n_cells == 3


# --------------------------------------------------------------------------------------- the draws


@given(channels())
def test_each_word_leads_to_the_entry_whose_share_of_all_words_it_is_in(rows):
    for x in range(rows.n_cells):
        part = slice(rows.starts[x], rows.starts[x + 1])
        targets, shares = rows.targets[part].tolist(), rows.shares[part].tolist()
        wanted, words, end = [], [], 0
        for target, share in zip(targets, shares, strict=True):
            # both ends of the share, the two bits that are spared set and not
            words += [4 * end, 4 * (end + share) - 1]
            wanted += [target, target]
            end += share
        assert drawn_by(rows, words, x) == wanted
        assert end == WHOLE


SEEDS = [(1,), (2, 7)]
LAW = {0: WHOLE // 2, 2: WHOLE // 4 + 1, 3: WHOLE // 8, 4: WHOLE // 8 - 1}


@pytest.mark.parametrize("seed", SEEDS)
def test_draws_have_the_distribution_of_their_rows(seed):
    rows = rows_of(LAW, {1: WHOLE}, {0: WHOLE // 3, 4: WHOLE - WHOLE // 3}, {3: WHOLE}, {0: WHOLE})
    cells = np.tile([0, 1, 2, 0, 3], 40_000)
    drawn = rows.sampler(seeded_entropy(*seed)).draw(cells)
    assert (drawn[cells == 1] == 1).all()
    assert (drawn[cells == 3] == 3).all()
    for x, distribution in ((0, LAW), (2, {0: 1 / 3, 4: 2 / 3})):
        seen = np.bincount(drawn[cells == x], minlength=5)[sorted(distribution)]
        assert seen.sum() == (cells == x).sum()
        wanted = np.array([distribution[y] for y in sorted(distribution)]) / sum(
            distribution.values()
        )
        assert stats.chisquare(seen, wanted * seen.sum()).pvalue > FALSE_ALARM


def test_draws_of_one_call_do_not_depend_on_each_other():
    rows = rows_of(*[{0: WHOLE // 2, 1: WHOLE // 2}] * 2)
    drawn = rows.sampler(seeded_entropy(4)).draw(np.zeros(200_000, dtype=np.int64))
    pairs = np.bincount(2 * drawn[:-1:2] + drawn[1::2], minlength=4)
    assert stats.chisquare(pairs).pvalue > FALSE_ALARM


def test_a_share_of_one_in_all_is_drawn_by_one_word_in_all():
    rows = rows_of({0: 1, 1: WHOLE - 1}, {0: WHOLE - 1, 1: 1})
    ends = [0, 4, 4 * WHOLE - 4, 4 * WHOLE - 5]
    assert drawn_by(rows, ends, 0) == [0, 1, 1, 1]
    assert drawn_by(rows, ends, 1) == [0, 0, 1, 0]


def test_long_rows_beside_short_ones_are_drawn_right():
    n = 1000
    share = WHOLE // n
    even = dict.fromkeys(range(n - 1), share) | {n - 1: WHOLE - share * (n - 1)}
    rows = rows_of(even, *[{x: WHOLE} for x in range(1, n)])
    cells = np.concatenate([np.zeros(100_000, int), np.arange(1, n)])
    drawn = rows.sampler(seeded_entropy(3)).draw(cells)
    assert np.array_equal(drawn[100_000:], np.arange(1, n))
    seen = np.bincount(drawn[:100_000], minlength=n)
    assert stats.chisquare(seen).pvalue > FALSE_ALARM


def test_no_cells_and_one_cell_can_be_drawn_for():
    rows = rows_of({0: WHOLE})
    assert rows.sampler().draw(np.array([], dtype=int)).size == 0
    assert rows.sampler().draw(np.array([0], dtype=np.uint8)).tolist() == [0]


@pytest.mark.parametrize("cells", [[-1, 0], [0, 2]])
def test_cells_outside_are_refused_and_not_counted_from_the_end(cells):
    with pytest.raises(ValueError, match="cells must lie from 0 to 1"):
        rows_of({0: WHOLE}, {1: WHOLE}).sampler().draw(np.array(cells))


def test_two_draws_share_no_bits_and_a_sampler_is_never_copied():
    rows = rows_of(*[dict.fromkeys(range(64), WHOLE // 64) for _ in range(64)])
    source = rows.sampler()
    cells = np.arange(64)
    assert not np.array_equal(source.draw(cells), source.draw(cells))
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        pickle.dumps(source)


def test_a_broken_source_of_bits_is_found_before_anything_is_drawn():
    class Stuck:
        def words(self, count):
            return np.full(count, 7, dtype=np.uint64)

    with pytest.raises(RuntimeError, match="source of random bits is broken"):
        rows_of({0: WHOLE}).sampler(Stuck()).draw(np.array([0]))
