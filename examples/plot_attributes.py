"""Attributes of three real tables (paper 004)
===========================================

Draw Figures 2 to 4 of paper 004, what a public column tells of a sensitive one::

    python examples/plot_attributes.py [--output FOLDER]

The final grade in mathematics given extra paid classes (Student Performance), the age given the
diagnosis (Heart Disease, Cleveland), and whether somebody earns more than 50,000 dollars given race
(Adult). Below each figure of the paper stand the distances that its text gives, beside those of the
counts, which come with the package. With matplotlib at hand, ``attributes.png`` is drawn.
"""

import argparse
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from _shared import save

from sklearn_puffer.couplings import w_infinity, w_p
from sklearn_puffer.datasets import table1_priors

PRINTED = {  # Appendix F.2.3
    "Student Scores": {"W_inf": 8, "W_2": 2.76},
    "Heart (Cleveland)": {"W_inf": 8, "W_2": 7.80},
    "Adult": {"W_inf": 1, "W_2": 0.42},
}
AXES = {
    "Student Scores": ("Figure 2", "final grade in mathematics", "extra paid classes"),
    "Heart (Cleveland)": ("Figure 3", "age in years", "diagnosis"),
    "Adult": ("Figure 4", "income above 50,000 dollars", "race"),
}

HATCHES = ["", "//", "..", "xx", "--"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder for the figure")
    folder = parser.parse_args().output

    print("The largest distances over all pairs of secrets, as printed and as they are\n")
    print(distances().to_string(float_format="{:.4g}".format))
    print("\nThe two pairs of secrets of each table that lie furthest apart (W_2)\n")
    print(furthest().to_string(index=False, float_format="{:.4g}".format))
    save(folder, [("attributes", (15, 4.4), _draw)])


def distances():
    """Return a row for each table and distance: the printed one, and that of the counts."""
    found = apart()
    rows = {}
    for title, printed in PRINTED.items():
        largest = found[found["table"] == title].max(numeric_only=True)
        for name, figure in printed.items():
            rows[title, name] = {"printed": figure, "here": largest[name]}
    return pd.DataFrame(rows).T


def apart():
    """Return a row for each pair of secrets of each table: how far its two priors lie apart."""
    rows = []
    for title in PRINTED:
        for (s, p), (t, q) in combinations(table1_priors()[title].items(), 2):
            rows.append((title, s, t, w_infinity(p, q), w_p(p, q, 2)))
    return pd.DataFrame(rows, columns=["table", "secret", "other", "W_inf", "W_2"])


def furthest():
    """Return the two pairs of each table with the largest W_2."""
    return apart().sort_values("W_2", ascending=False).groupby("table", sort=False).head(2)


def _draw(figure):
    for axes, title in zip(figure.subplots(1, len(AXES)), AXES, strict=True):
        number, public, sensitive = AXES[title]
        _draw_priors(axes, table1_priors()[title])
        axes.set(title=f"{number}: {title}", xlabel=public)
        axes.legend(title=sensitive, fontsize="small")
        axes.set_ylabel(axes.get_ylabel() or "share of the rows with each secret")
    figure.axes[0].set_xticks(range(0, 21, 4))
    figure.axes[-1].set(xticks=[0, 1], xticklabels=["no", "yes"])
    figure.suptitle("004: what is released, given what is protected")


def _draw_priors(axes, priors):
    """Draw bars for two secrets or two values, and shares up to each value for more of both."""
    values = np.unique(np.concatenate([prior.rows[:, 0] for prior in priors.values()]))
    if min(len(priors), len(values)) > 2:
        for secret, prior in priors.items():
            upto = np.cumsum(prior.probabilities)
            axes.step(prior.rows[:, 0], upto, where="post", label=_label(secret, prior))
        axes.set_ylabel("share up to each value")
        return
    width = 0.8 / len(priors)
    for k, (secret, prior) in enumerate(priors.items()):
        bars = prior.rows[:, 0] + width * (k - 0.5 * (len(priors) - 1))
        axes.bar(bars, prior.probabilities, width, hatch=HATCHES[k], label=_label(secret, prior))


def _label(secret, prior):
    return f"{secret} ({int(prior.counts.sum()):,} rows)"


if __name__ == "__main__":
    main()
