"""Noise on the grid against numpy's floating-point noise, which is not private, and others.

Ours makes a new sampler at each call, takes its bits from OpenSSL, and counts in steps of the grid.
numpy draws into a new array as well. The mechanisms of opendp and diffprivlib add noise to a vector
of zeros, one value at a time as far as they offer nothing else, so they are measured on fewer
values.
"""

import numpy as np
from _measure import interleaved, peak_bytes

from sklearn_puffer._noise import grid_step, sampler
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace

SCALE = 1.3
FEW = 10_000
ONE_VALUE = {"Laplace": 25e-6, "Cauchy": 30e-6}  # seconds
DEGREES = 3.0  # of Student's t, which generalised Cauchy noise is with k - 1 degrees, rescaled


def drawn(family):
    """Return what draws noise of a family: so many values at a scale."""

    def steps(size, scale):
        noise = np.empty(size, dtype=np.int64)
        sampler(family(scale), grid_step(scale)).fill(noise)
        return noise

    return steps


laplace, gaussian, cauchy = drawn(Laplace), drawn(Gaussian), drawn(Cauchy)
generalised = drawn(lambda scale: GeneralizedCauchy(scale, DEGREES + 1.0))


def families(generator):
    """Return for each family its name, ours, numpy's, the peer's name and the targets by size."""
    return [
        (
            "Laplace",
            laplace,
            lambda n: generator.laplace(scale=SCALE, size=n),
            "numpy Generator.laplace",
            {10_000: 1.5, 1_000_000: 2.0},
        ),
        (
            "Gaussian",
            gaussian,
            lambda n: generator.normal(scale=SCALE, size=n),
            "numpy Generator.normal",
            {10_000: None, 1_000_000: 0.5},
        ),
        (
            "Cauchy",
            cauchy,
            lambda n: SCALE * generator.standard_cauchy(size=n),
            "numpy Generator.standard_cauchy",
            {10_000: None, 1_000_000: 1.5},
        ),
        (
            "generalised Cauchy (k = 4)",
            generalised,
            lambda n: SCALE / np.sqrt(DEGREES) * generator.standard_t(DEGREES, size=n),
            "numpy Generator.standard_t",
            {1_000_000: None},
        ),
    ]


def rows(quick=False):
    generator = np.random.default_rng(0)
    measured = []
    for name, ours, peer, of_numpy, targets in families(generator):
        measured.append(_one_value(name, ours, peer, of_numpy, 3 if quick else 2000))
        for n, target in targets.items():
            calls = (name, lambda n=n, ours=ours: ours(n, SCALE), lambda n=n, peer=peer: peer(n))
            repeats = 3 if quick else min(30_000_000 // n, 500)
            measured.append(_against_numpy(*calls, of_numpy, n, target, repeats))
    measured.append(_new_scale(3 if quick else 50))
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
        row = {"n": n}
        for name, ours, peer, _, _ in families(generator)[:3]:
            row[name], row[f"numpy {name}"] = interleaved(
                lambda n=n, ours=ours: ours(n, SCALE),
                lambda n=n, peer=peer: peer(n),
                repeats=repeats,
            )
        table.append(row)
    return table


def _one_value(name, ours, peer, of_numpy, repeats):
    seconds, of_peer = interleaved(lambda: ours(1, SCALE), lambda: peer(1), repeats=repeats)
    limit = ONE_VALUE.get(name)
    return {
        "name": f"{name} noise, one value, sampler included",
        "ours": seconds,
        "peer": of_numpy,
        "peer_value": of_peer,
        "ratio": of_peer / seconds,
        "target": None if limit is None else f"<= {limit * 1e6:g} us",
        "reached": None if limit is None else seconds <= limit,
        "note": "all parts are drawn, whichever is needed: the time does not tell",
    }


def _against_numpy(name, ours, peer, of_numpy, n, target, repeats):
    seconds, of_peer = interleaved(ours, peer, repeats=repeats)
    return {
        "name": f"{name} noise, n = {n:,}",
        "ours": seconds,
        "peer": of_numpy,
        "peer_value": of_peer,
        "ratio": of_peer / seconds,
        "target": None if target is None else f">= {target} times as fast",
        "reached": None if target is None else of_peer >= target * seconds,
        "note": "",
    }


def _new_scale(repeats):
    """Return what a scale costs that was not drawn before: the worst family's tables."""
    families = (Laplace, Gaussian, Cauchy, lambda scale: GeneralizedCauchy(scale, 2.0 + scale))
    scales = iter(np.random.default_rng(0).uniform(0.5, 1.0, 10 * repeats + 10))
    seconds = interleaved(
        *[lambda make=make: _sampler_of(make(float(next(scales)))) for make in families],
        repeats=repeats,
    )
    return {
        "name": "tables of a new scale, the slowest family",
        "ours": max(seconds),
        "peer": None,
        "peer_value": None,
        "ratio": None,
        "target": None,
        "reached": None,
        "note": "",
    }


def _sampler_of(noise):
    return sampler(noise, grid_step(noise.scale))


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
