"""Pictures of a plan, a release and a ledger
==========================================

Draw what one decides by, each from data that are computed once::

    python examples/plot_displays.py [--output FOLDER]

Made-up people of four regions have an age, an income and a job; the region is protected.
``utility.png`` compares the settings of a plan against epsilon, ``losses.png`` shows the loss of
each pair of regions beside the budget, ``before_and_after.png`` and ``jobs.png`` two columns as
they are and as they are expected to be released, ``moves.png`` which ages become which under an
optimal channel, and ``spend.png`` what a ledger has on record. Nothing is released to be drawn. All
but the last are functions of the raw rows, and stay where the table does. With matplotlib at hand,
they are drawn.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from _shared import save

from sklearn_puffer import (
    Ledger,
    LossDisplay,
    MovesDisplay,
    PufferfishNoiser,
    ReleaseDisplay,
    SpendDisplay,
    UtilityDisplay,
    plan,
)

REGIONS = ["north", "south", "east", "west"]
BINS = {"age": 5, "income": 5}
JOBS = ["sales", "care", "crafts", "office", "none"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder for the figures")
    arguments = parser.parse_args()

    table = people()
    noiser = PufferfishNoiser(2.0, sensitive="region", n_bins=BINS).fit(table)
    displays = {
        "utility": UtilityDisplay.from_plan(compared(table)),
        "losses": LossDisplay.from_noiser(noiser),
        "before_and_after": ReleaseDisplay.from_noiser(noiser, table, column="income"),
        "jobs": ReleaseDisplay.from_noiser(noiser, table, column="job"),
        "moves": MovesDisplay.from_noiser(channel(table), table, column="age"),
        "spend": spent(),
    }
    worst = np.nanmax(displays["losses"].upper)
    print(f"The worst of {len(REGIONS)} regions loses {worst:.3f} nats of a budget of 2.")
    print(f"Spent after each entry: {displays['spend'].series['customers'].round(2).tolist()}")
    save(arguments.output, [(name, (7, 4.5), _drawing(each)) for name, each in displays.items()])


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


def channel(table):
    """Return a channel that changes two of its columns least."""
    columns = ["age", "job"]
    options = {"noise": "optimal", "public": columns, "n_bins": {"age": 8}}
    return PufferfishNoiser(0.3, sensitive="region", **options).fit(table)


def compared(table):
    """Return the plan of two of its columns."""
    columns = table[["region", "age", "job"]]
    return plan(columns, sensitive="region", epsilon=[0.5, 1.0, 2.0], max_rows=500)


def spent():
    """Return what a ledger holds of two data sets, each of which may be released four times."""
    cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    noiser = PufferfishNoiser(2.0, sensitive="loan", releases=4).fit(table)
    folder = tempfile.TemporaryDirectory()
    ledger = Ledger.create(f"{folder.name}/cars", noiser, datasets=["customers", "staff"])
    for dataset, note, factor in [
        ("customers", "for the press", 1.0),
        ("customers", "quarterly", 2.0),
        ("staff", "fleet", 1.0),
        ("customers", "yearly", 1.0),
    ]:
        ledger.transform(noiser, table, dataset=dataset, note=note, factor=factor)
    display = SpendDisplay.from_ledger(ledger)
    folder.cleanup()
    return display


def _drawing(display):
    return lambda figure: display.plot(ax=figure.subplots())


if __name__ == "__main__":
    main()
