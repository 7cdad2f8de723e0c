"""Displays: pictures to decide by
===============================

A curve of a plan is a DataFrame, which pandas draws. `LossDisplay` is a display in scikit-learn's
manner: ``from_noiser`` computes what is shown and draws it, on axes that you may hand over, and
``plot`` draws it again. No release is made to be drawn::

    python examples/plot_displays.py [--output FOLDER]

matplotlib draws them (``pip install "sklearn-puffer[plot]"``). They are functions of the raw rows,
and stay where the table does.
"""

# %%
# Made-up people of four regions have an age, an income and a job. The region is protected.

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from _shared import save

from sklearn_puffer import PufferfishNoiser, plan
from sklearn_puffer.displays import LossDisplay

REGIONS = ["north", "south", "east", "west"]
JOBS = ["sales", "care", "crafts", "office", "none"]


def people(n=2_000):
    """Return made-up people; a job and an income say something about the region."""
    bits = np.random.default_rng(7)
    region = bits.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    jobs = np.array([bits.dirichlet([8.0, 5.0, 4.0, 6.0, 2.0]) for _ in REGIONS])
    job = [bits.choice(JOBS, p=jobs[each]) for each in region]
    income = np.round(bits.gamma(6.0, 6.0, n) + 2.0 * region, 1)
    age = np.clip(np.round(bits.normal(44 + region, 14, n)), 18, 90).astype(int)
    return pd.DataFrame(
        {"region": np.array(REGIONS)[region], "age": age, "income": income, "job": job}
    )


parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("--output", type=Path, default=Path(), help="folder for the figures")
arguments = parser.parse_args()


table = people()

# %%
# Which budget
# ------------
#
# `Plan.curve` has what a setting of a plan does at other budgets, on rows that were not fitted:
# here the best attack that was found on who lives in the north and who in the west, beside how far
# values are changed, in standard deviations.

columns = table.loc[table["region"].isin(["north", "west"]), ["region", "age", "job"]]
planned = plan(columns, "region", n_prototypes=24, n_bins=5)
curve = planned.curve(0)


def draw_curve(figure):
    """Draw the best attack and the change at each budget."""
    curve.plot(x="epsilon", y=["attack", "change"], ax=figure.subplots(), logx=True, marker="o")


save(arguments.output, [("utility", (7, 4.5), draw_curve)])

# %%
# What pairs of secrets lose
# --------------------------
#
# `LossDisplay.from_noiser` draws the proven loss of each secret against each other one, in both
# directions, beside the budget. Read a row: who sees a release shifts the odds of the secret on the
# left against that below by a factor of e to the number, at most. One pair near the budget and all
# others far below it mean that this pair alone asks for the noise.

noiser = PufferfishNoiser(2.0, sensitive="region", n_bins={"age": 5, "income": 5}).fit(table)


def draw_losses(figure):
    """Draw the losses; in a notebook, ``LossDisplay.from_noiser(noiser)`` does."""
    LossDisplay.from_noiser(noiser, ax=figure.subplots())


save(arguments.output, [("losses", (7, 4.5), draw_losses)])
print(f"The worst pair loses {noiser.certificate_.loss:.3f} nats of a budget of 2.")
