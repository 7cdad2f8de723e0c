"""What the examples share: public tables, and drawing where matplotlib is at hand."""

import argparse
import os
import sys
from pathlib import Path

import pandas as pd

ADULT = [
    "age",
    "workclass",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "hours-per-week",
]
"""Columns of Adult that are published."""


def save(folder, figures):
    """Draw each (name, size in inches, function of a figure) of ``figures`` to a PNG file."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print('No figures: matplotlib is not installed (pip install "sklearn-puffer[plot]").')
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, size, draw in figures:
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=120)
        print(f"Drawn to {path.resolve()}")


def tables_folder():
    """Return the folder that SKLEARN_PUFFER_TABLES names, or one beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("SKLEARN_PUFFER_TABLES", beside))


def adult(about):
    """Return the rows of Adult in another order; ``--tables`` says where they are."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--tables", type=Path, default=tables_folder(), help="folder of adult.csv")
    folder = parser.parse_args().tables
    if not (folder / "adult.csv").is_file():
        sys.exit(f"adult.csv is not in {folder}; give --tables.")
    return pd.read_csv(folder / "adult.csv").sample(frac=1.0, random_state=0)
