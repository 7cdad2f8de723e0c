"""Adult as a table to publish
===========================

The census table Adult is to be published without telling anybody's sex. Most of its rows occur
once, so that no counted distribution describes them, and readers of the table can count copies.
People swap their rows instead::

    python examples/publish_adult.py [--tables FOLDER]

Each figure is measured by code that knows nothing of the swap, on rows that nothing was fitted to.
``adult.csv`` of the UCI repository is not part of the checkout; this takes half a minute.
"""

# %%
# The table
# ---------

import numpy as np
import pandas as pd
from _shared import ADULT, adult
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from sklearn_puffer import PufferfishNoiser

rows = adult(__doc__)
labelled, table = rows[:20_000], rows[20_000:40_000]
print(f"{len(labelled)} rows with their sex, {len(table)} to publish")

# %%
# Fit, and publish other rows
# ---------------------------
#
# A reader may know how old somebody is, in tens of years: people swap within these, and the
# guarantee holds for who knows it. It does not hold for readers with a better model of the rows, or
# with the list of secrets: each `fit` of a swap warns of that.


def prepared(rows):
    """Return the public columns, and the age in tens of years."""
    return rows[ADULT].assign(decade=rows["age"] // 10)


noiser = PufferfishNoiser(epsilon=1.0, sensitive="sex", noise="swap", known="decade")
noiser.fit(prepared(labelled).assign(sex=labelled["sex"]))
print(noiser.certificate_.promise())
print(noiser.swap_)

before = prepared(table)
released = noiser.transform(before)
same = sorted(map(tuple, released.to_numpy())) == sorted(map(tuple, before.to_numpy()))
print(f"the same rows: {same}; with their owners: {(released == before).all(axis=1).mean():.0%}")

# %%
# Attack it
# ---------
#
# A fresh model learns the sex from one half of the released rows, with the number of copies of each
# as a further column, and predicts it for the other half. At random, the same share of
# rows would be swapped for nothing.


def area(train, y, test, truth):
    """Return the AUC on the test rows of a fresh model of the training rows."""
    both = pd.concat([train, test])
    texts = [name for name in both if not pd.api.types.is_numeric_dtype(both[name])]
    both = both.astype(dict.fromkeys(texts, "category"))
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    said = model.fit(both[: len(train)], y).predict_proba(both[len(train) :])[:, 1]
    return roc_auc_score(truth, said)


def attack(rows):
    """Return the AUC of an attacker who reads the whole table, and counts copies."""
    copies = rows.groupby(list(rows), dropna=False)["age"].transform("size")
    known, half = rows.assign(copies=copies), len(rows) // 2
    male = table["sex"] == "Male"
    return area(known[:half], male[:half], known[half:], male[half:])


def at_random(rows, share):
    """Return rows of which a share changes hands by lot."""
    rng = np.random.default_rng(0)
    moved = rng.choice(len(rows), round(share * len(rows)), replace=False)
    order = np.arange(len(rows))
    order[moved] = rng.permutation(moved)
    return rows.iloc[order].set_axis(rows.index)


moved = (released != before).any(axis=1).mean()
for what, rows in (
    ("as they are", before),
    ("swapped within the bound", released),
    ("swapped at random, as many", at_random(before, moved)),
):
    print(f"{what:27} attack {attack(rows):.3f}")

# %%
# Use it
# ------
#
# A model of the income learns from released rows, and predicts for true ones. Any figure of the
# public columns alone stays as it was.

half, rich = len(table) // 2, table["income"] == ">50K"
for what, rows in (("true", before), ("released", released)):
    learnt = area(rows[:half], rich[:half], before[half:], rich[half:])
    print(f"income learnt from {what} rows: AUC {learnt:.3f}")
print(f"mean age {before['age'].mean():.3f}, released {released['age'].mean():.3f}")
