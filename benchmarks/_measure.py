"""What the benchmarks share: interleaved medians, the peak of traced memory, and rows."""

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


def alone(name, seconds, note, *, limit=None, target=None):
    """Return the row of a measurement that has no peer: at most ``limit`` seconds, if given."""
    return {
        "name": name,
        "ours": seconds,
        "peer": None,
        "peer_value": None,
        "ratio": None,
        "target": target or ("" if limit is None else f"<= {limit:g} s"),
        "reached": None if limit is None else seconds <= limit,
        "note": note,
    }
