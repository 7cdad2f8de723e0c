"""What the benchmarks share: interleaved medians, and the peak of traced memory."""

import gc
import time
import tracemalloc
from statistics import median


def interleaved(*calls, repeats):
    """Return the median seconds of each call, all of them called in turn ``repeats`` times."""
    for call in calls:
        call()
    seconds = [[] for _ in calls]
    for _ in range(repeats):
        for call, taken in zip(calls, seconds, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    return [median(taken) for taken in seconds]


def peak_bytes(call):
    """Return the most bytes that ``call`` holds at once beside its arguments, result included."""
    gc.collect()
    tracemalloc.start()
    try:
        result = call()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    del result
    return peak
