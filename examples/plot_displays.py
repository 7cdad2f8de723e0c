"""Displays: pictures to decide by
===============================

Each picture below is a display in scikit-learn's manner: ``from_...`` computes what is shown and
draws it, on axes that you may hand over, and ``plot`` draws it again. No release is made to be
drawn::

    python examples/plot_displays.py [--output FOLDER]

matplotlib draws them (``pip install "sklearn-puffer[plot]"``). Whatever colours tell apart differs
in shape or in lightness, too. They are functions of the raw rows, and stay where the table
does.
"""

# %%
# Made-up people of four regions have an age, an income and a job. The region is protected.

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from _shared import save
from sklearn.linear_model import LogisticRegression

from sklearn_puffer import PufferfishNoiser, audit, plan
from sklearn_puffer.displays import AuditDisplay, LossDisplay, UtilityDisplay

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


def draw(name, display, *of, **how):
    """Draw a display to a file, and list it; in a notebook, ``display(*of, **how)`` draws it."""
    drawn = []

    def draw_on(figure):
        drawn.append(display(*of, ax=figure.subplots(), **how))

    save(arguments.output, [(name, (7, 4.5), draw_on)])
    return drawn


table = people()

# %%
# Which budget
# ------------
#
# `UtilityDisplay.from_plan` draws what the proposed setting of a plan does at other budgets, on
# rows that were not fitted: here the best attack that was found, beside what is allowed, on who
# lives in the north and who in the west.

columns = table.loc[table["region"].isin(["north", "west"]), ["region", "age", "job"]]
planned = plan(columns, "region", n_prototypes=24, n_bins=5)
draw("utility", UtilityDisplay.from_plan, planned, figure="attack")

# %%
# What pairs of secrets lose
# --------------------------
#
# `LossDisplay.from_noiser` draws the proven loss of each secret against each other one, in both
# directions, beside the budget. Read a row: who sees a release shifts the odds of the secret on the
# left against that below by a factor of e to the number, at most. One pair near the budget and all
# others far below it mean that this pair alone asks for the noise.

noiser = PufferfishNoiser(2.0, sensitive="region", n_bins={"age": 5, "income": 5}).fit(table)
draw("losses", LossDisplay.from_noiser, noiser)
print(f"The worst pair loses {noiser.certificate_.loss:.3f} nats of a budget of 2.")

# %%
# What attackers reach
# --------------------
#
# `AuditDisplay.from_audit` draws the area under the ROC curve of each attack of an audit, with its
# interval: 0.5 is a guess, 1 finds out everybody. Only an interval that lies beyond the upright bar
# as a whole speaks against the guarantee. The square is what the same attack reaches without noise:
# far to the right, the attackers can see. The rows of the audit were not in fit.

many, options = people(200_000), {"public": ["age", "job"], "n_bins": {"age": 4}}
two = many[many["region"].isin(["north", "west"])]
rows, held = two[:-5000], two[-5000:]
noiser = PufferfishNoiser(0.6, sensitive="region", **options).fit(rows)
audited = audit(noiser, held, {"linear": LogisticRegression()})
draw("audit", AuditDisplay.from_audit, audited)
