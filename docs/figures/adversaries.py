"""Draw what one release loses to adversaries with other priors than the one that it was made for.

    python docs/figures/adversaries.py

Body mass index and blood pressure of the diabetes data in three bins, given the patient's sex.
"""

import pandas as pd
from _drawing import DARK, LIGHT, WARM, canvas, write, written
from sklearn.datasets import load_diabetes

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.priors import Discrete

EPSILON = 1.0
PUBLIC = ["bmi", "bp"]


def table():
    """Return the rows with the medians of three bins in the place of the values."""
    rows = load_diabetes(as_frame=True, scaled=False).data
    for name in PUBLIC:
        bins = pd.qcut(rows[name], 3, labels=False)
        rows[name] = rows.groupby(bins)[name].transform("median")
    return rows


def counted(rows):
    """Return the distribution of the two columns given each sex, counted from these rows."""
    shares = rows.groupby("sex")[PUBLIC].value_counts(normalize=True)
    return {
        sex: Discrete(list(distribution.index), distribution)
        for sex, distribution in _by_sex(shares)
    }


def _by_sex(shares):
    return [(sex, shares.loc[sex]) for sex in shares.index.unique("sex")]


def losses():
    """Return the proven loss under each prior, by what its owner did."""
    rows = table()
    noiser = PufferfishNoiser(EPSILON, sensitive="sex", public=PUBLIC)
    certificate = noiser.fit(rows).certificate_
    subsets = {
        "counted 221 of the rows": rows[::2],
        "knows that the patient is over 55": rows[rows["age"] > 55],
        "knows that the patient is 35 at most": rows[rows["age"] <= 35],
    }
    by_prior = {"counted these 442 rows: the prior": certificate.loss}
    for name, subset in subsets.items():
        by_prior[name] = certificate.against(counted(subset)).loss
    return by_prior | {"any prior within sampling error": certificate.over_set.loss}


def draw(path):
    """Draw a bar for each adversary, and the budget."""
    figure, (axis,) = canvas(height=3.0)
    names, values = zip(*losses().items(), strict=True)
    colours = [DARK if value <= EPSILON * (1 + 1e-9) else LIGHT for value in values]
    bars = axis.barh(names, values, color=colours, edgecolor=DARK)
    axis.bar_label(bars, fmt=" %.2f")
    axis.axvline(EPSILON, color=WARM, linestyle="--", label="budget: epsilon 1")
    axis.set_xlabel("loss of the same release in nats")
    axis.legend(frameon=False, loc="upper right")
    axis.invert_yaxis()
    write(figure, path)


if __name__ == "__main__":
    written(draw, "adversaries")
