"""Laplace noise on the grid against numpy's floating-point noise, which is not private, and others.

Ours makes a new sampler at each call and takes its bits from OpenSSL. numpy draws into a new array
as well. The mechanisms of opendp and diffprivlib add noise to a vector of zeros, one value at a
time as far as they offer nothing else, so they are measured on fewer values.
"""

import numpy as np
from _measure import interleaved, peak_bytes

from sklearn_puffer.sampling import laplace

SCALE = 1.3
TARGETS = {10_000: 1.5, 1_000_000: 2.0}
FEW = 10_000


def rows(quick=False):
    generator = np.random.default_rng(0)
    measured = [_one_value(3 if quick else 2000)]
    for n, target in TARGETS.items():
        measured.append(_against_numpy(generator, n, target, 3 if quick else 30_000_000 // n))
    measured.append(_memory(100_000 if quick else 1_000_000))
    measured += [
        _against_mechanism(name, noise, n, 1 if quick else 5) for name, noise, n in _mechanisms()
    ]
    return measured


def growth():
    generator = np.random.default_rng(0)
    table = []
    for n in (1, 100, 10_000, 1_000_000, 10_000_000):
        repeats = max(5, min(500, 5_000_000 // n))
        ours, peer = interleaved(
            lambda n=n: laplace(n, SCALE),
            lambda n=n: generator.laplace(scale=SCALE, size=n),
            repeats=repeats,
        )
        table.append({"n": n, "ours": ours, "numpy": peer})
    return table


def _one_value(repeats):
    generator = np.random.default_rng(0)
    ours, peer = interleaved(
        lambda: laplace(1, SCALE), lambda: generator.laplace(scale=SCALE), repeats=repeats
    )
    return {
        "name": "Laplace noise, one value, sampler included",
        "ours": ours,
        "peer": "numpy Generator.laplace",
        "peer_value": peer,
        "ratio": peer / ours,
        "target": "<= 25 us",
        "reached": ours <= 25e-6,
        "note": "",
    }


def _against_numpy(generator, n, target, repeats):
    ours, peer = interleaved(
        lambda: laplace(n, SCALE),
        lambda: generator.laplace(scale=SCALE, size=n),
        repeats=min(repeats, 500),
    )
    return {
        "name": f"Laplace noise, n = {n:,}",
        "ours": ours,
        "peer": "numpy Generator.laplace",
        "peer_value": peer,
        "ratio": peer / ours,
        "target": f">= {target} times as fast",
        "reached": peer >= target * ours,
        "note": "",
    }


def _memory(n):
    laplace(n, SCALE)  # the tables of a scale are made once
    ours = peak_bytes(lambda: laplace(n, SCALE)) / n
    return {
        "name": f"Laplace noise, n = {n:,}: peak memory, result included",
        "ours": ours,
        "unit": "bytes a value",
        "peer": None,
        "peer_value": None,
        "ratio": None,
        "target": "<= 9 bytes a value",
        "reached": ours <= 9.0,
        "note": "",
    }


def _against_mechanism(name, noise, n, repeats):
    ours, peer = interleaved(lambda: laplace(n, SCALE), noise, repeats=repeats)
    return {
        "name": f"Laplace noise, n = {n:,}, against {name}",
        "ours": ours,
        "peer": name,
        "peer_value": peer,
        "ratio": peer / ours,
        "target": None,
        "reached": None,
        "note": "",
    }


def _mechanisms():
    """Return the name, a call and its number of values for each peer that is installed."""
    found = []
    try:
        from diffprivlib.mechanisms import Laplace
    except ImportError as error:
        print(f"diffprivlib is left out: {error}")
    else:
        mechanism = Laplace(epsilon=1.0 / SCALE, sensitivity=1.0)
        found.append(("diffprivlib", lambda: [mechanism.randomise(0.0) for _ in range(FEW)], FEW))
    try:
        import opendp.prelude as dp
    except ImportError as error:
        print(f"opendp is left out: {error}")
    else:
        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
        measurement, zeros = dp.m.make_laplace(*space, scale=SCALE), [0.0] * FEW
        found.append(("opendp", lambda: measurement(zeros), FEW))
    return found
