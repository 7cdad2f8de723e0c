"""Losses up to a delta: calibration for every noise, and Google's accountant beside it."""

import time
import warnings
from statistics import median

import numpy as np
import pandas as pd
from _measure import alone, interleaved
from _people import FOLDER

from sklearn_puffer import PufferfishNoiser, PufferfishWarning
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.noise import Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair

BUDGET = Pufferfish(epsilon=0.5, delta=1e-3)
SHIFT_BUDGET = Pufferfish(epsilon=1.0, delta=1e-5)
# The accountant's own default: losses are rounded up to multiples of it.
INTERVAL = 1e-4


def rows(quick=False):
    """Return the measurements for the table."""
    return [
        _calibration("laplace", 1_000 if quick else 10_000, 0.2, quick),
        _calibration("gaussian", 100 if quick else 1_000, 2.0, quick),
        _calibration("cauchy", 100 if quick else 1_000, 2.0, quick),
        _mixtures("laplace", quick),
        _mixtures("gaussian", quick),
        *_fitted_mixtures(quick),
        *_shifts(Gaussian(1.5), quick),
        *_shifts(Laplace(0.5), quick),
    ]


def growth():
    """Return seconds of one calibration for n atoms."""
    table = []
    for n in (100, 300, 1_000, 3_000):
        calls = [_calibrate(_counted(n), noise) for noise in ("laplace", "gaussian", "cauchy")]
        seconds = interleaved(*calls, repeats=3)
        table.append({"n": n, **dict(zip(("laplace", "gaussian", "cauchy"), seconds, strict=True))})
    return table


def _calibration(noise, n, target, quick):
    name = f"exact (epsilon, delta) scale, {noise}, one pair of n = {n:,} atoms"
    return _row(name, _calibrate(_counted(n), noise), target, quick)


def _mixtures(noise, quick):
    rng = np.random.default_rng(4)
    pair = PriorPair(
        *(
            GaussianMixture(
                rng.dirichlet(np.full(5, 5.0)), rng.normal(0.0, 3.0, 5), rng.uniform(0.5, 1.5, 5)
            )
            for _ in "pq"
        )
    )
    name = f"exact (epsilon, delta) scale, {noise}, two mixtures of 5 components"
    return _row(name, _calibrate(pair, noise), 0.5, quick)


def _fitted_mixtures(quick):
    """Measure a fit in CPU seconds: mixtures of Adult's age given race, fitted and calibrated."""
    if not (FOLDER / "adult.csv").exists():
        return []
    table = pd.read_csv(FOLDER / "adult.csv", nrows=3_000)[["race", "age"]]
    noiser = PufferfishNoiser(1.0, alpha=2.0, sensitive="race", prior="gmm")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PufferfishWarning)
        seconds = [_cpu_seconds(lambda: noiser.fit(table)) for _ in range(1 if quick else 5)]
    name = "the whole fit, Adult age given race, mixtures, Laplace noise, alpha = 2, 3,000 rows"
    note = f"theta {noiser.theta_.iloc[0]:.6g} years; seconds of one core"
    return [alone(name, median(seconds), note, limit=2.0)]


def _cpu_seconds(call):
    start = time.process_time()
    call()
    return time.process_time() - start


def _row(name, call, target, quick):
    seconds = interleaved(call, repeats=1 if quick else 5)[0]
    return alone(
        name, seconds, f"epsilon = {BUDGET.epsilon:g}, delta = {BUDGET.delta:g}", limit=target
    )


def _calibrate(pair, noise):
    return lambda: calibrate([pair], BUDGET, noise=noise)


def _counted(n):
    """Return two distributions over a range of ten units, whatever the number of atoms."""
    rng = np.random.default_rng(2)
    atoms = np.sort(rng.uniform(0.0, 10.0, n))
    rising = np.linspace(1.0, 2.0, n)
    return PriorPair(
        *(
            Discrete.from_counts(atoms, rng.poisson(50.0 * tilt) + 1)
            for tilt in (rising, rising[::-1])
        )
    )


def _shifts(noise, quick):
    """Measure the delta of a shift by one: a closed form, an interval, and the accountant's."""
    try:
        from dp_accounting.pld import privacy_loss_distribution as pld
        from dp_accounting.pld import privacy_loss_mechanism as mechanism
    except ImportError:
        return []
    epsilon, family = SHIFT_BUDGET.epsilon, type(noise).__name__
    if isinstance(noise, Gaussian):
        distribution, closed = pld.from_gaussian_mechanism, mechanism.GaussianPrivacyLoss
    else:
        distribution, closed = pld.from_laplace_mechanism, mechanism.LaplacePrivacyLoss
    here, there = Discrete([0.0], [1.0]), Discrete([1.0], [1.0])

    def theirs():
        whole = distribution(noise.scale, value_discretization_interval=INTERVAL)
        return whole.get_delta_for_epsilon(epsilon)

    def exact():
        return privacy_loss(here, there, noise, SHIFT_BUDGET)

    def ours():
        return float(noise.hockey_stick([1.0], epsilon))

    form = closed(noise.scale).get_delta_for_epsilon(epsilon)
    # Rounding all losses up moves epsilon by at most the interval.
    moved = float(noise.hockey_stick([1.0], epsilon - INTERVAL))
    loss = exact()
    right = (
        abs(ours() - form) <= 1e-9 * max(form, 1e-300)
        and loss.lower * (1.0 - 1e-9) <= form <= loss.upper * (1.0 + 1e-9)
        and ours() * (1.0 - 1e-6) - 1e-12 <= theirs() <= moved * (1.0 + 1e-6) + 1e-12
    )
    found = []
    for name, call in (("closed form", ours), ("interval of the exact loss", exact)):
        mine, peer = interleaved(call, theirs, repeats=1 if quick else 9)
        found.append(
            {
                "name": f"delta of a {family} shift, {name}",
                "ours": mine,
                "peer": "dp_accounting PLD",
                "peer_value": peer,
                "ratio": peer / mine,
                "target": "right, and faster",
                "reached": bool(right and peer > mine),
                "note": (
                    f"dp_accounting's closed form {form:.12g}, ours {ours():.12g}, "
                    f"the interval [{loss.lower:.12g}, {loss.upper:.12g}], its PLD {theirs():.9g}"
                ),
            }
        )
    return found
