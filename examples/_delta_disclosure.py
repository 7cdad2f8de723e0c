"""Release rows with delta-disclosure privacy by generalisation, as the library anjana finds it.

    python examples/_delta_disclosure.py SECRET DELTA SUPPRESSED < rows.csv > released.csv

A program of its own, because anjana asks for old versions of numpy and pandas: it is run by
whichever interpreter has it. SUPPRESSED is the largest share of rows in per cent that may be left
out; the first column of both files numbers the rows.

Numbers become the medians of eight, four and two bins of as many rows each, categories that are not
among the seven, three and one most common become "other", and at last every column is a star.
"""

import contextlib
import sys

import pandas as pd


def main():
    secret, delta, suppressed = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    table = pd.read_csv(sys.stdin, index_col=0, keep_default_na=False)
    with contextlib.redirect_stdout(sys.stderr):  # anjana prints what it finds
        released = disclosed(table, secret, delta, suppressed)
    released.to_csv(sys.stdout)


def disclosed(table, secret, delta, suppressed):
    """Return the generalised rows that are left, under the numbers they had, without the secret."""
    from anjana.anonymity import delta_disclosure

    public = [name for name in table if name != secret]
    steps = {name: hierarchy(table[name]) for name in public}
    texts = table.astype(str).assign(row=table.index).reset_index(drop=True)
    found = delta_disclosure(texts, [], public, secret, 2, delta, suppressed, steps)
    return found.set_index("row")[public] if len(found) else table.loc[:, public].iloc[:0]


def hierarchy(column):
    """Return the values of a column and what becomes of each, step by step, up to a star."""
    generalised = binned if pd.api.types.is_numeric_dtype(column) else merged
    steps = [column, *(generalised(column, size) for size in (8, 4, 2)), column.map(lambda _: "*")]
    table = pd.DataFrame(dict(enumerate(steps))).drop_duplicates(0).astype(str)
    sizes = table.nunique()
    coarser = [0, *(k for k in sizes.index[1:] if sizes[k] < sizes[k - 1])]
    return {level: table[k].reset_index(drop=True) for level, k in enumerate(coarser)}


def binned(numbers, size):
    """Return the median of each number's bin, of so many bins."""
    places = pd.qcut(numbers, size, duplicates="drop")
    return numbers.groupby(places, observed=True).transform("median")


def merged(names, size):
    """Return the names with all but the most common ones as one, so that so many are left."""
    common = names.value_counts(sort=True).index[: size - 1]
    return names.where(names.isin(common), "other")


if __name__ == "__main__":
    main()
