"""How far the scales of counted priors of several columns are above those that are needed.

python benchmarks/counted_bounds.py prints the table of docs/mathematics.md: columns of a real table
in four bins each, in deviations, given sex; the scale that `calibrate` finds over the scale at
which a quadrature exhausts the budget. (Under Laplace noise and a pure guarantee it is exact.)
Tables lie in ../shared/data, or where SKLEARN_PUFFER_TABLES says.
"""

import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from sklearn_puffer import PufferfishWarning
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.noise import Cauchy, Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete

TABLES = Path(os.environ.get("SKLEARN_PUFFER_TABLES", Path(__file__).parents[2] / "shared/data"))
COLUMNS = {
    "student: age, absences": ("student-por.csv", ["age", "absences"]),
    "heart: age, thalach": ("heart-cleveland.csv", ["age", "thalach"]),
    "adult: age, hours-per-week": ("adult.csv", ["age", "hours-per-week"]),
    "student: age, absences, G3": ("student-por.csv", ["age", "absences", "G3"]),
    "heart: age, thalach, chol": ("heart-cleveland.csv", ["age", "thalach", "chol"]),
    "adult: age, hours-per-week, education-num": (
        "adult.csv",
        ["age", "hours-per-week", "education-num"],
    ),
}
NOISES = {"Laplace": Laplace(1.0), "Cauchy": Cauchy(1.0), "Gaussian": Gaussian(1.0)}
FAMILIES = {Laplace: stats.laplace, Cauchy: stats.cauchy, Gaussian: stats.norm}
NOTIONS = {
    "epsilon .5": Pufferfish(0.5),
    "delta .01": Pufferfish(0.5, 0.01),
    "alpha 2": RenyiPufferfish(0.5, 2.0),
}
BINS, POINTS, MOST = 4, 96, 64.0


def counted(file, columns):
    """Return the counted priors of both sexes over the bins' middles."""
    table = pd.read_csv(TABLES / file, sep=None, engine="python", na_values="?")
    table = table.dropna(subset=[*columns, "sex"])
    values = table[columns].to_numpy(float)
    low, wide = values.min(axis=0), np.ptp(values, axis=0) / BINS
    middles = low + wide * (np.minimum((values - low) // wide, BINS - 1) + 0.5)
    rows = middles / values.std(axis=0)
    groups = [rows[(table["sex"] == sex).to_numpy()] for sex in sorted(table["sex"].unique())]
    return [Discrete.from_counts(*np.unique(g, axis=0, return_counts=True)) for g in groups]


def axis_points(atoms, noise):
    """Return kernels over their mean, shape (atoms, points): points are its middle quantiles."""
    family = FAMILIES[type(noise)](scale=float(noise.axis_scales(1)[0]))
    wanted = (np.arange(POINTS) + 0.5) / POINTS
    low, high = atoms.min() + family.ppf(wanted), atoms.max() + family.ppf(wanted)
    for _ in range(60):
        middle = 0.5 * (low + high)
        less = family.cdf(middle - atoms[:, None]).mean(axis=0) < wanted
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    kernels = family.pdf(high - atoms[:, None])
    return kernels / kernels.mean(axis=0)


def densities(p, q, noise):
    """Return both densities over that of the points, on the product of the columns' points."""
    rows = np.concatenate([p.rows, q.rows])
    axes = [np.unique(rows[:, k]) for k in range(rows.shape[1])]
    kernels = [axis_points(atoms, noise) for atoms in axes]
    found = []
    for prior in (p, q):
        grid = np.zeros([len(atoms) for atoms in axes])
        places = [np.searchsorted(a, prior.rows[:, k]) for k, a in enumerate(axes)]
        grid[tuple(places)] = prior.probabilities
        for kernel in kernels:  # each sums over the first axis, and puts the points last
            grid = np.tensordot(grid, kernel, axes=(0, 0))
        found.append(grid / grid.mean())
    return found


def needed_loss(p, q, noise, notion):
    """Return the larger loss of both directions, by the quadrature."""
    both = densities(p, q, noise)
    ways = both, both[::-1]
    if notion.is_pure:
        return max(float(np.log(a / b).max()) for a, b in ways)
    if notion.is_chance:
        return max(float(np.maximum(a - np.exp(notion.epsilon) * b, 0.0).mean()) for a, b in ways)
    order = notion.alpha - 1.0
    return max(float(np.log((a * (a / b) ** order).mean())) / order for a, b in ways)


def ratio(p, q, noise, notion):
    """Return the scale of the bound over that of the quadrature, or that no noise is needed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PufferfishWarning)  # where a bound stands in
        high = found = calibrate([(p, q)], notion, noise=noise).scale
    if not found:
        return "no"
    low = found / MOST
    for _ in range(10):
        middle = float(np.sqrt(low * high))
        kept = needed_loss(p, q, noise.scaled(middle), notion) <= notion.budget
        low, high = (low, middle) if kept else (middle, high)
    return f"{found / high:.2f}"


def main():
    """Print the table."""
    settings = [
        (f"{name}, {promise}", noise, notion)
        for name, noise in NOISES.items()
        for promise, notion in NOTIONS.items()
        if not notion.is_pure or name == "Cauchy"
    ]
    print("| columns, given sex |", " | ".join(name for name, *_ in settings), "|")
    print("| --- |", " | ".join("---" for _ in settings), "|")
    for name, (file, columns) in COLUMNS.items():
        p, q = counted(file, columns)
        cells = [ratio(p, q, noise, notion) for _, noise, notion in settings]
        print(f"| {name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
