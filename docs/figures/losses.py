"""Draw the proven loss of every pair of secrets, both ways, of a release with four secrets.

    python docs/figures/losses.py

A made-up table: the hours that people of four departments work.
"""

import numpy as np
import pandas as pd
from _drawing import DARK, MIDDLE, WARM, canvas, write, written

from sklearn_puffer import PufferfishNoiser

EPSILON = 1.0
MEANS = {"care": 36, "kitchen": 35, "office": 38, "surgery": 39}


def table():
    """Return the rows, the same ones each time."""
    random = np.random.default_rng(7)
    hours = {name: random.normal(mean, 5, 400) for name, mean in MEANS.items()}
    return pd.DataFrame(
        [(name, value) for name, values in hours.items() for value in values],
        columns=["department", "hours"],
    )


def draw(path):
    """Draw two bars for each pair, and the budget."""
    noiser = PufferfishNoiser(EPSILON, sensitive="department", n_bins=4).fit(table())
    losses = noiser.certificate_.table
    first = losses[losses["secret"] < losses["against"]]
    back = losses.set_index(["against", "secret"])["upper"]
    heights = np.arange(len(first))
    figure, (axis,) = canvas(height=3.6)
    axis.barh(heights - 0.2, first["upper"], 0.38, color=DARK, label="first against second")
    other = [back[pair] for pair in zip(first["secret"], first["against"], strict=True)]
    look = {"color": MIDDLE, "hatch": "//", "edgecolor": "white"}
    axis.barh(heights + 0.2, other, 0.38, label="second against first", **look)
    axis.axvline(EPSILON, color=WARM, linestyle="--", label="budget")
    axis.set_yticks(heights, first["secret"] + " / " + first["against"])
    axis.set(xlabel="proven loss in nats", xlim=(0, 1.5))
    axis.legend(frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.7))
    axis.invert_yaxis()
    write(figure, path)


if __name__ == "__main__":
    written(draw, "losses")
