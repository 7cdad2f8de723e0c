"""How fast and how accurate the exact loss is: a million atoms, joint grids, and the growth."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from statistics import median
from time import perf_counter
from typing import Any

import mpmath
import numpy as np
from _measure import alone

from sklearn_puffer._losses.convolution import PriorGrid
from sklearn_puffer.accounting import LossTable, privacy_loss
from sklearn_puffer.noise import Cauchy, Gaussian, Laplace, Noise
from sklearn_puffer.notions import Notion, Pufferfish
from sklearn_puffer.priors import Discrete, PriorPair

NOTION = Pufferfish(epsilon=1.0)
ATOMS = 10**6
# A root search over the scale evaluates the loss about this many times.
EVALUATIONS = 40
_DELTA_NOTION = Pufferfish(epsilon=0.5, delta=1e-5)
# Scales at which delta lies between 1e-5 and 1e-3, and the most atoms they are measured with.
_DELTA_NOISES = ((Laplace(6.0), 10**6), (Gaussian(10.0), 10**4), (Cauchy(4.0), 10**3))


def rows(quick: bool = False) -> list[dict[str, Any]]:
    """Measure everything; ``quick`` takes a tenth of the atoms and fewer repetitions."""
    atoms, repeats = (ATOMS // 10, 3) if quick else (ATOMS, 9)
    return [
        *_line_rows(atoms, repeats),
        _row(
            "joint exact, 5 secrets (10 pairs), 320 cells, whole root search",
            _root_search((16, 20), 5),
            repeats,
            0.1,
        ),
        _row(
            "joint exact, one pair, 45,000 cells, whole root search",
            _root_search((36, 50, 25), 2),
            3,
            3.0,
        ),
        _row(
            "joint exact, one pair, 9 columns in 3 bins (19,683 cells), whole root search",
            _root_search((3,) * 9, 2),
            3,
            3.0,
        ),
        _row(
            "exact, 150 secrets (11,175 pairs), 150 atoms, whole root search",
            _root_search((150,), 150),
            3,
            2.0,
        ),
    ]


def growth(quick: bool = False) -> list[dict[str, Any]]:
    """Seconds of one exact loss against the number of atoms, at easy and at wild spacing."""
    table = []
    for size in [10**k for k in range(2, 6 if quick else 7)]:
        repeats = 3 if size > 10**5 else 9
        tame, wild = tame_pair(size), wild_pair(size)
        table.append(
            {
                "n": size,
                "range/theta <= 1e5": _seconds(_one_loss(tame, 1.0), repeats),
                "any spacing": _seconds(_one_loss(wild, 1.0), repeats),
                **_delta_seconds(size),
            }
        )
    return table


def _delta_seconds(size: int) -> dict[str, float]:
    """Seconds of one exact (epsilon, delta) loss for each noise; NaN where that takes too long."""
    pair, seconds = _unit_pair(size), {}
    for noise, most in _DELTA_NOISES:
        name = f"delta, {type(noise).__name__}"
        affordable = size <= most
        seconds[name] = _seconds(_one(pair, noise, _DELTA_NOTION), 5) if affordable else math.nan
    return seconds


def _unit_pair(size: int) -> tuple[Discrete, Discrete]:
    """Atoms one apart with random counts."""
    counts = np.random.default_rng(4).integers(1, 50, (2, size))
    return _pair(np.arange(float(size)), counts)


def _one(pair: tuple[Discrete, Discrete], noise: Noise, notion: Notion) -> Callable[[], Any]:
    return lambda: privacy_loss(*pair, noise, notion)


def tame_pair(size: int) -> tuple[Discrete, Discrete]:
    """Irregular atoms on [0, 1e5], all with mass."""
    rng = np.random.default_rng(0)
    atoms = np.unique(rng.uniform(0.0, 1e5, size))
    return _pair(atoms, rng.integers(1, 1000, (2, len(atoms))))


def wild_pair(size: int) -> tuple[Discrete, Discrete]:
    """Gaps from 1e-12 to 1e12 as far as floats can hold them, and half of the masses zero."""
    rng = np.random.default_rng(1)
    steps = 10.0 ** np.sort(rng.uniform(-12.0, 12.0, size))
    atoms = np.unique(np.cumsum(steps))
    counts = rng.integers(0, 2, (2, len(atoms))) * 10 ** rng.integers(0, 12, (2, len(atoms)))
    counts[:, 0] = 1
    return _pair(atoms, counts)


def _pair(atoms: np.ndarray, counts: np.ndarray) -> tuple[Discrete, Discrete]:
    p, q = (Discrete.from_counts(atoms, row) for row in counts)
    return p, q


def _line_rows(atoms: int, repeats: int) -> list[dict[str, Any]]:
    found = []
    cases = (
        (f"exact loss, {atoms:,} atoms, range/theta 1e5", tame_pair(atoms), 0.06),
        (f"exact loss, {atoms:,} atoms, gaps from 1e-12 to 1e12 theta", wild_pair(atoms), 0.3),
    )
    for name, pair, target in cases:
        error = _largest_error(pair, 1.0)
        row = _row(name, _one_loss(pair, 1.0), repeats, target)
        row["note"] = f"{len(pair[0].atoms):,} distinct atoms; error against 50 digits {error:.1e}"
        row["reached"] = bool(row["reached"] and error <= 1e-12)
        found.append(row)
    return found


def _row(
    name: str, action: Callable[[], Any], repeats: int, target: float, note: str = ""
) -> dict[str, Any]:
    ours = _seconds(action, repeats)
    return alone(name, ours, note, limit=target, target=f"<= {target * 1e3:g} ms")


def _one_loss(pair: tuple[Discrete, Discrete], theta: float) -> Callable[[], Any]:
    return lambda: privacy_loss(*pair, Laplace(theta), NOTION)


def _root_search(shape: tuple[int, ...], n_secrets: int) -> Callable[[], Any]:
    """All pairs of random priors on a grid, evaluated at as many scales as a root search visits."""
    rng = np.random.default_rng(2)
    cells = np.indices(shape).reshape(len(shape), -1).T.astype(float)
    atoms = cells[:, 0] if len(shape) == 1 else cells
    priors = [Discrete.from_counts(atoms, rng.integers(0, 9, len(cells))) for _ in range(n_secrets)]
    pairs = [PriorPair(p, q) for p, q in combinations(priors, 2)]
    weights = np.array(shape) / 2.0
    noises = [Laplace(tuple(weights * f)) for f in np.geomspace(0.05, 5.0, EVALUATIONS)]

    def search() -> None:
        table = LossTable(pairs)
        for noise in noises:
            table.intervals(noise)

    return search


def _largest_error(pair: tuple[Discrete, Discrete], theta: float, samples: int = 6) -> float:
    """Error of the loss and of the log ratio at some atoms against 50 digits, over max(1, loss)."""
    p, q = pair
    counts = np.stack((p.counts, q.counts))
    masses = counts / counts.sum(axis=1, keepdims=True)
    logs = PriorGrid([p.atoms], masses).log_sums(np.array([theta]))
    ratios = logs[0] - logs[1]
    at = np.append(np.random.default_rng(3).integers(0, len(p.atoms), samples), ratios.argmax())
    errors = []
    for k in at:
        exact = _log_sum(p, p.atoms[k], theta) - _log_sum(q, p.atoms[k], theta)
        errors.append(float(abs(ratios[k] - exact) / max(1, abs(exact))))
    best = float(LossTable([PriorPair(p, q)]).intervals(Laplace(theta))[1][0, 0])
    return max(*errors, abs(best - ratios.max()) / max(1.0, best))


def _log_sum(prior: Discrete, point: float, theta: float) -> Any:
    """Log of the sum over the atoms that can matter to 50 digits."""
    with_mass = prior.counts > 0
    gaps = np.abs(prior.atoms[with_mass] - point) / theta
    counts = prior.counts[with_mass]
    sizes = np.log(counts.astype(float)) - gaps
    # A million terms below e^-60 of the largest cannot change the 18th digit.
    near = np.flatnonzero(sizes >= sizes.max() - 60.0)
    with mpmath.workdps(50):
        atoms, centre = prior.atoms[with_mass][near].tolist(), mpmath.mpf(float(point))
        exponents = [-abs(mpmath.mpf(x) - centre) / mpmath.mpf(theta) for x in atoms]
        top = max(exponents)
        terms = [
            c * mpmath.exp(e - top) for c, e in zip(counts[near].tolist(), exponents, strict=True)
        ]
        return top + mpmath.log(mpmath.fsum(terms)) - mpmath.log(prior.total)


def _seconds(action: Callable[[], Any], repeats: int) -> float:
    action()
    times = []
    for _ in range(repeats):
        start = perf_counter()
        action()
        times.append(perf_counter() - start)
    return median(times)


if __name__ == "__main__":
    for row in rows() + growth():
        print(row)
