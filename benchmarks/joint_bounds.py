"""How far the scales of joint Gaussian and mixture priors are above those that are needed.

python benchmarks/joint_bounds.py [pairs] prints the tables of docs/mathematics.md: for columns of
real tables given sex, and for random pairs of two columns, the scale of the bound over the scale at
which a quadrature (of tests/joint_oracle.py) exhausts the budget. Tables lie in ../shared/data, or
where SKLEARN_PUFFER_TABLES says.
"""

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from joint_oracle import plane_sums, random_pair, true_losses

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.bounds import tightest
from sklearn_puffer.calibration import smallest_factor
from sklearn_puffer.fits import MixtureFit
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish

NOISES = {
    "Laplace": Laplace(1.0),
    "Cauchy": Cauchy(1.0),
    "generalised Cauchy, k = 4": GeneralizedCauchy(1.0, 4.0),
    "Gaussian": Gaussian(1.0),
}
NOTIONS = {
    "epsilon 1": Pufferfish(1.0),
    "epsilon 1, delta .01": Pufferfish(1.0, 0.01),
    "epsilon 1, alpha 2": RenyiPufferfish(1.0, 2.0),
    "epsilon 1, alpha 8": RenyiPufferfish(1.0, 8.0),
}
TABLES = Path(os.environ.get("SKLEARN_PUFFER_TABLES", Path(__file__).parents[2] / "shared/data"))
COLUMNS = {
    "student: age, absences": ("student-por.csv", ["age", "absences"]),
    "heart: age, thalach": ("heart-cleveland.csv", ["age", "thalach"]),
    "heart: trestbps, chol": ("heart-cleveland.csv", ["trestbps", "chol"]),
    "adult: age, hours-per-week": ("adult.csv", ["age", "hours-per-week"]),
}
COMBINATIONS = [("Laplace", "epsilon 1")]
COMBINATIONS += [(noise, "epsilon 1, alpha 2") for noise in ("Laplace", "Cauchy", "Gaussian")]


def fitted(file, columns, n_components):
    """Return the priors of columns, in deviations, of both sexes of the first 3,000 rows."""
    table = pd.read_csv(TABLES / file, sep=None, engine="python", na_values="?")
    table = table.dropna(subset=[*columns, "sex"]).head(3000)
    rows = table[columns] / table[columns].std()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prior = MixtureFit(n_components=n_components)
        noiser = PufferfishNoiser(1.0, alpha=2.0, sensitive="sex", prior=prior, noise="gaussian")
        of_secrets = noiser.fit(rows.assign(sex=table["sex"])).priors_["sex"]
    return [prior for joint in of_secrets.values() for prior in joint.values()]


def of_tables():
    """Print the table of real columns."""
    print("| columns, given sex | prior |", *(f"{n}, {g} |" for n, g in COMBINATIONS))
    print("|", "--- | " * (2 + len(COMBINATIONS)))
    for name, (file, columns) in COLUMNS.items():
        for prior, n_components in (("Gaussian", 1), ("mixture", 2)):
            p, q = fitted(file, columns, n_components)
            found = [ratio(p, q, NOISES[n], NOTIONS[g]) for n, g in COMBINATIONS]
            cells = ["no" if each is None else f"{each:.2f}" for each in found]
            print(f"| {name} | {prior} |", " | ".join(cells), "|", flush=True)


def quadrature(p, q, noise, notion):
    """Return losses that the true ones are not below."""
    if noise.is_normal and not notion.is_chance:
        return plane_sums(p, q, notion.alpha, noise.axis_scales(2) ** 2)
    return true_losses(p, q, noise, notion)


def ratio(p, q, noise, notion):
    """Return the scale of the bound over that of the quadrature, at most 64; None for no noise."""
    bound = tightest([(p, q)], noise, notion)
    if bound.losses(0.0).max() <= notion.budget:
        return None
    high = found = smallest_factor([bound], notion.budget, tolerance=1e-4)
    low = found / 64.0
    for _ in range(9):
        middle = float(np.sqrt(low * high))
        kept = quadrature(p, q, noise.scaled(middle), notion).max() <= notion.budget
        low, high = (low, middle) if kept else (middle, high)
    return found / high


def main(n_pairs):
    """Print the tables."""
    of_tables()
    print(
        "| noise | guarantee | Gaussian priors: median, 90 %, most | mixtures: median, 90 %, most |"
    )
    print("| --- | --- | --- | --- |")
    for name, noise in NOISES.items():
        for promise, notion in NOTIONS.items():
            if notion.is_pure and noise.is_normal:
                continue
            cells = []
            for most in (1, 3):
                rng = np.random.default_rng(6)
                pairs = [random_pair(rng, 2, most) for _ in range(n_pairs)]
                found = [ratio(p, q, noise, notion) for p, q in pairs]
                found = np.array([each for each in found if each is not None])
                ends = np.median(found), np.quantile(found, 0.9), found.max()
                cells.append(", ".join(f"{each:.2f}" for each in ends))
            print(f"| {name} | {promise} | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
