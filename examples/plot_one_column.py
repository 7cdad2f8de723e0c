"""One column, mechanism by mechanism
==================================

Print and draw what the release of one column changes its values by, mechanism by mechanism::

    python examples/plot_one_column.py [--tables FOLDER] [--output FOLDER]

For the data of Table 4 of paper 000, in the paper's codes, and for columns of public tables where
the folder has them: the expected change of a value if it is replaced by the best constant, by the
published relaxed mechanism (000, Eq. (11) and (12); for several secrets, the worst pair), by the
smallest Laplace noise. All of them keep the same guarantee, and the constant tells nothing. With
matplotlib at hand, ``one_column.png`` is drawn.
"""

import argparse
import warnings
from pathlib import Path

import pandas as pd
from _shared import save, tables_folder

from sklearn_puffer import PufferfishNoiser, UtilityWarning
from sklearn_puffer.datasets import table4_contingencies

MECHANISMS = {
    "relaxed": {"strategy": "relaxed"},
    "Laplace": {},
}
COLUMNS = [
    ("adult", "education-num", "race", 1.0),
    ("adult", "education-num", "race", 0.1),
    ("adult", "hours-per-week", "sex", 1.0),
    ("adult", "age", "race", 1.0),
    ("bank-full", "age", "marital", 1.0),
    ("student-por", "G3", "sex", 0.5),
]
EPSILON = 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=Path, default=tables_folder(), help="public tables")
    parser.add_argument("--output", type=Path, default=Path(), help="folder for the figure")
    arguments = parser.parse_args()

    published, (real, missing) = table_4(), real_columns(arguments.tables)
    print("Expected change of a value, in its unit.")
    print(f"\nThe data of Table 4, epsilon {EPSILON}:\n\n{_text(published)}")
    if len(real):
        print(f"\nColumns of public tables:\n\n{_text(real)}")
    for name in missing:
        print(f"Skipped {name}: {name}.csv is not in {arguments.tables}")
    save(
        arguments.output, [("one_column", (9, 4), lambda f: _draw(f, pd.concat([published, real])))]
    )


def table_4():
    """Return a row for each data set of Table 4 of paper 000."""
    rows = {}
    for title, counted in table4_contingencies().items():
        frame = pd.DataFrame(
            [
                (secret, code, count)
                for secret, counts in zip(counted.secrets, counted.counts, strict=True)
                for code, count in enumerate(counts)
            ],
            columns=["secret", "code", "count"],
        )
        rows[title] = changes(frame[["secret", "code"]], "secret", EPSILON, frame["count"])
    return pd.DataFrame(rows).T


def real_columns(folder):
    """Return a row for each column of a public table, and the tables that are not there."""
    rows, missing = {}, set()
    for name, public, sensitive, epsilon in COLUMNS:
        path = folder / f"{name}.csv"
        if not path.is_file():
            missing.add(name)
            continue
        table = pd.read_csv(path, sep=None, engine="python")[[sensitive, public]]
        title = f"{name}: {public} | {sensitive}, epsilon {epsilon}"
        rows[title] = changes(table, sensitive, epsilon)
    return pd.DataFrame(rows).T, sorted(missing)


def changes(table, sensitive, epsilon, weights=None):
    """Return the expected change of the public column under each mechanism."""
    by_mechanism = {}
    for title, options in MECHANISMS.items():
        noiser = PufferfishNoiser(epsilon, sensitive=sensitive, **options)
        with warnings.catch_warnings():
            # a constant changes some of these columns less: that is what the table shows
            warnings.simplefilter("ignore", UtilityWarning)
            warnings.filterwarnings("ignore", "Column.* need no noise")
            utility = noiser.fit(table, sample_weight=weights).utility_.iloc[0]
        by_mechanism["constant"] = utility["constant"]
        by_mechanism[title] = utility["change"]
    return by_mechanism


def _text(rows):
    return rows.to_string(float_format="{:.4g}".format)


def _draw(figure, rows):
    axes = figure.subplots()
    shares = rows.div(rows["constant"], axis=0).drop(columns="constant")
    shares.plot.barh(ax=axes, width=0.8)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set(xscale="log", xlim=(1e-3, None))
    axes.set_xlabel("expected change, in that of the best constant")
    axes.invert_yaxis()
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


if __name__ == "__main__":
    main()
