"""Who holds the channel
=====================

Show what a reader who holds a channel learns of single rows: why it is key material::

    python examples/who_holds_the_channel.py [--data FOLDER] [--rows N] [--epsilon EPSILON]

The diabetes study of scikit-learn (secret: sex) needs no download. Where the folder has it, there
is Adult (secret: sex), too. A boosted classifier learns the secret from other rows than those that
are fitted or released: that is the adversary of the promise, and every reader below has it.

What a reader does. He sees all released rows, and holds ``channel_``: the cells x and the chances
W(y|x). For a released row y he works out from which cell it came: P(x | y). Then the odds of its
secret are those of the classifier, averaged over these cells, and the row is *pinned* if they
differ from the odds before the release by a factor beyond e^epsilon. Readers differ in what they
know of the rows that were released:

law
    How probable each cell is, and nothing of the rows: P(x | y) is proportional to
    P(x) W(y|x). This is the reader of the promise, who pins no row if the released rows
    follow the fitted law.
fitted rows
    Besides, the public values of all fitted rows, and not which row is whose. Where
    these are the rows that were released, he knows how many rows n(x) each cell had, and
    sees how many came out as y. So P(x | y) is the expected share of rows from x among
    them, given that number: with one row that always stays at y, and one y that came
    out, that row is it. (He looks at each y by itself; at all together he would learn
    more.)
released rows
    The same of the rows that were released, whichever were fitted.

Three ways to fit:

released rows
    The very rows that are released.
other rows
    Other rows of the same table, so that a released row becomes its nearest cell first
    (``unknown="nearest"``). The list of fitted rows then excludes nothing. But rows that
    follow the fitted law only roughly are not quite covered by the promise: what "law"
    says is an estimate, from rows that were neither fitted nor learnt from (of which a
    small table has few, so that it is too high there).
binned rows
    The released rows, with numbers in bins beforehand, and all but the most frequent
    words of a column merged, so that cells hold many rows. Who knows how many rows each
    cell had still sees by how many it grew. That moves odds on both sides of e^epsilon,
    at which a channel that changes least leaves many cells, but not far beyond: look at
    the moves, of which the largest but one in twenty is printed, in nats.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _shared import tables_folder
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._signoff.exclusion import expected_origins
from sklearn_puffer.fits import ClassifierFit

MOST_UNUSED = 8000  # rows that tell how new rows are distributed
BINS, WORDS = 2, 0.2  # of a number, and the least share of a word, where rows are binned
ADULT = ["age", "workclass", "education-num", "marital-status", "occupation", "hours-per-week"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=tables_folder(), help="folder of the tables")
    parser.add_argument("--rows", type=int, default=1500, help="most rows that are released")
    parser.add_argument("--epsilon", type=float, default=1.0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # of classifiers, and of rows that are moved

    for name, table in tables(arguments.data):
        found = pd.DataFrame(ways_to_fit(table, arguments.rows, arguments.epsilon))
        print(f"{name}: share of released rows that are pinned, and 95 % of moves, in nats\n")
        print(found.set_index("fitted to").to_string(), end="\n\n")


def tables(folder):
    """Yield the table that needs no download, and Adult if it is in the folder."""
    bunch = load_diabetes(as_frame=True, scaled=False).data
    sex = bunch["sex"].map({1.0: "one", 2.0: "two"})
    yield "Diabetes", bunch[["age", "bmi", "bp", "s3", "s5"]].assign(secret=sex)
    if (folder / "adult.csv").exists():
        adult = pd.read_csv(folder / "adult.csv")
        rows = adult[ADULT].fillna("none").assign(secret=adult["sex"])
        rare = rows.ne(rows.apply(merged, share=0.01)).any(axis=1)
        yield "Adult", rows[~rare]


def ways_to_fit(table, most_rows, epsilon):
    """Yield a line of the table for each way to fit the channel."""
    table = table.sample(frac=1.0, random_state=0, ignore_index=True)
    size = min(most_rows, len(table) // 3)
    own, other, rest = table[:size], table[size : 2 * size], table[2 * size :]
    learnt_from, unused = rest[: max(len(rest) // 2, size)], rest[max(len(rest) // 2, size) :]
    population = pd.concat([own, unused[:MOST_UNUSED]])
    yield line("released rows", learnt_from, own, own, own, epsilon)
    yield line("other rows", learnt_from, other, own, population, epsilon)
    coarse = binned(table)
    rows = coarse.loc[own.index]
    yield line("binned rows", coarse.loc[learnt_from.index], rows, rows, rows, epsilon)


def line(name, learnt_from, fitted, released, population, epsilon):
    """Return what the readers pin of one release."""
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    model.fit(as_model_input(public(learnt_from)), learnt_from["secret"])
    noiser = PufferfishNoiser(
        epsilon,
        sensitive="secret",
        noise="optimal",
        prior=ClassifierFit(model, cv="prefit"),
        unknown="nearest",
    ).fit(fitted)
    channel = noiser.channel_
    out = count(channel.cells, places(channel.cells, noiser.transform(public(released))))
    known = Rows(model, channel.cells, public(population), public(fitted))
    own = Rows(model, channel.cells, public(released), public(fitted))
    by_law = moves(out, by_chance(channel, known.counts), known)
    listed = moves(out, by_exclusion(channel, own.counts, out), own)
    return {
        "fitted to": name,
        "alone in their cell": f"{(own.counts == 1).sum() / len(released):.0%}",
        "unchanged": f"{channel.unchanged:.0%}",
        "law": told(by_law, out, epsilon),
        "fitted rows": told(listed if fitted is released else by_law, out, epsilon),
        "released rows": told(listed, out, epsilon),
    }


# ------------------------------------------------------------------------------- what is known


class Rows:
    """Rows in the cells of a channel: how many each has, and the odds of their secrets."""

    def __init__(self, model, cells, rows, fitted):
        at = nearest(cells, rows, fitted)
        chances = model.predict_proba(as_model_input(rows))
        self.counts = count(cells, at)
        self.secrets = np.stack([np.bincount(at, one, len(cells)) for one in chances.T], axis=1)
        self.before = np.log(self.secrets[:, 0].sum() / self.secrets[:, 1].sum())


def public(rows):
    """Return what may be released."""
    return rows.drop(columns="secret")


def as_model_input(rows):
    """Return rows whose words are categories, as boosted trees take them."""
    return rows.apply(lambda c: c if pd.api.types.is_numeric_dtype(c) else c.astype("category"))


def binned(table):
    """Return the table with medians of bins for numbers, and all rare words merged."""
    coarse = table.copy()
    for name in public(table):
        column = table[name]
        if pd.api.types.is_numeric_dtype(column):
            bins = pd.qcut(column, BINS, duplicates="drop")
            coarse[name] = column.groupby(bins, observed=True).transform("median")
    return coarse.apply(merged, share=WORDS)


def merged(column, share):
    """Return a column whose words that fewer than a share of the rows have are one."""
    if pd.api.types.is_numeric_dtype(column):
        return column
    shares = column.value_counts(normalize=True)
    return column.where(column.map(shares) >= share, "other")


def places(cells, rows):
    """Return which cell each row is, -1 for none."""
    at = {cell: k for k, cell in enumerate(cells.itertuples(index=False, name=None))}
    return np.array([at.get(row, -1) for row in rows.itertuples(index=False, name=None)])


def nearest(cells, rows, fitted):
    """Return the nearest cell of each row: by standard deviations, and 1 for another word."""
    at = places(cells, rows)
    for k in np.flatnonzero(at < 0):
        row, apart = rows.iloc[k], np.zeros(len(cells))
        for name in cells:
            if pd.api.types.is_numeric_dtype(cells[name]):
                apart += np.abs(cells[name].to_numpy() - row[name]) / fitted[name].std(ddof=0)
            else:
                apart += cells[name].to_numpy() != row[name]
        at[k] = apart.argmin()
    return at


def count(cells, at):
    """Return how many rows each cell has."""
    return np.bincount(at, minlength=len(cells))


# ---------------------------------------------------------------------------------- the attack


def moves(out, origins, rows):
    """Return by how much the odds of the secret move at each released cell, in nats."""
    moved = np.zeros(len(out))
    secrets = rows.secrets / np.maximum(rows.counts, 1)[:, None]
    for y in np.flatnonzero(out):
        cells, shares = origins(y)
        first, second = shares @ secrets[cells]
        moved[y] = abs(np.log(first / second) - rows.before)
    return moved


def told(moved, out, epsilon):
    """Return the share of rows that are pinned, and what 95 % of all rows are not moved beyond."""
    each = np.repeat(moved, out)
    return f"{(each > epsilon + 1e-6).mean():.1%} {np.quantile(each, 0.95):.2f}"


def by_chance(channel, counts):
    """Return a function of y: the cells it may come from, and P(x | y) by their law."""
    columns = channel.matrix.tocsc()

    def origins(y):
        cells, chances = sources(columns, y)
        return cells, chances * counts[cells] / (chances @ counts[cells])

    return origins


def by_exclusion(channel, counts, out):
    """Return a function of y: the same, given how many rows each cell had, and came out as y.

    The rows of x that come out as y follow a binomial law; how many of them are expected, given how
    many came out in all, is computed by what `audit` uses for the same reader.
    """
    columns = channel.matrix.tocsc()

    def origins(y):
        cells, chances = sources(columns, y)
        cells, chances = cells[counts[cells] > 0], chances[counts[cells] > 0]
        expected = expected_origins(counts[cells], chances, most=out[y])[:, -1]
        return cells, expected / expected.sum()

    return origins


def sources(columns, y):
    """Return the cells that may become y, and the chance of each."""
    here = slice(columns.indptr[y], columns.indptr[y + 1])
    return columns.indices[here], columns.data[here]


if __name__ == "__main__":
    main()
