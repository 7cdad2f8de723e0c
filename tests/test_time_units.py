"""Units of times: whole numbers of the coarsest one, and back, as numpy has them."""

import numpy as np
import pytest

from sklearn_puffer._tables.times import time_values, written_times

SIZES = ["D", "s", "ms", "us", "ns"]
OF_NUMPY = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "2D", "15m"]


def moments(kind, size, seed):
    """Return some times of a unit, the first of them multiples of 48 hours."""
    rng = np.random.default_rng(seed)
    few = rng.integers(-50, 50, 6)
    if seed % 2 and size in SIZES:
        few = few * int(np.timedelta64(1, SIZES[seed % 3]) / np.timedelta64(1, size) or 1)
    return few.astype(f"{kind}64[{size}]")


@pytest.mark.parametrize("kind", ["datetime", "timedelta"])
@pytest.mark.parametrize("size", OF_NUMPY)
def test_times_of_numpy_are_whole_numbers_of_the_coarsest_unit_that_holds_them(kind, size):
    if kind == "timedelta" and size in ("Y", "M"):
        return  # of no fixed length
    for seed in range(6):
        times = moments(kind, size, seed)
        found = time_values(times, "x")
        assert found.kind == "integer"
        assert (found.data.astype(found.unit) == times).all()
        whole = [each for each in SIZES if (times.astype(f"{kind}64[{each}]") == times).all()]
        assert found.unit == f"{kind}64[{whole[0]}]"
        for wanted in SIZES:
            one = np.timedelta64(1, wanted)
            other = time_values(times, "x", f"{kind}64[{wanted}]")
            from_start = times.astype(found.unit) - np.array(0, found.unit)
            assert other.data.tolist() == (from_start / one).tolist()
            assert (other.kind == "integer") == (wanted in whole)
            assert other.unit == f"{kind}64[{wanted}]"


@pytest.mark.parametrize("kind", ["datetime", "timedelta"])
@pytest.mark.parametrize("unit", SIZES[:-1])
def test_what_is_the_finest_part_of_a_unit_off_is_no_whole_number_of_it(kind, unit):
    per, rng = int(np.timedelta64(1, unit) / np.timedelta64(1, "ns")), np.random.default_rng(3)
    most = min(2**52, (2**63 - 1) // per) - 2
    starts = np.append([0, 20_000, -20_000, most, -most], rng.integers(-most, most, 99))
    for off in (1, -1, per // 2, per - 1):
        # whole ones first
        times = np.concatenate([starts * per, starts * per + off]).astype(f"{kind}64[ns]")
        read = time_values(times, "x", f"{kind}64[{unit}]").data
        assert (read[: len(starts)] == starts).all()
        assert (read[len(starts) :] % 1.0 != 0.0).all()
        assert (np.abs(read[len(starts) :] - (starts + off / per)) <= 1.0).all()


def test_a_part_of_a_unit_beyond_all_fractions_of_floats_is_no_whole_number_of_it():
    far = 2**52 + np.arange(-3, 4)
    times = np.concatenate([far * 1000, far * 1000 + 1, far * 1000 - 1, -far * 1000 - 1])
    read = time_values(times.astype("timedelta64[ns]"), "x", "timedelta64[us]").data
    assert (read[:7] == far).all()
    assert (read[7:] % 1.0 != 0.0).all()


def test_times_finer_than_nanoseconds_are_read_as_nanoseconds():
    for size, per in (("ps", 10**3), ("fs", 10**6)):
        times = np.array([3 * per, -7 * per]).astype(f"timedelta64[{size}]")
        found = time_values(times, "x")
        assert (found.data.tolist(), found.unit) == ([3, -7], "timedelta64[ns]")


@pytest.mark.parametrize("kind", ["datetime", "timedelta"])
@pytest.mark.parametrize("native", SIZES)
@pytest.mark.parametrize("size", SIZES)
def test_times_are_written_in_the_unit_of_their_column_rounded_down(kind, size, native):
    numbers = np.array([-3, 0, 5, 90_001, -(10**5) - 1])
    like = np.zeros(2, dtype=f"{kind}64[{native}]")
    gone = np.array([False, True, False, False, False])
    written = written_times(numbers, gone, f"{kind}64[{size}]", like)
    wanted = numbers.astype(f"{kind}64[{size}]")
    assert written.dtype == like.dtype
    assert np.isnat(written).tolist() == gone.tolist()
    there = ~gone
    if SIZES.index(size) <= SIZES.index(native):
        assert (written == wanted)[there].all()
    after = written + np.timedelta64(1, native)
    assert ((written <= wanted) & (wanted < after))[there].all()
