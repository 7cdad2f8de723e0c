"""From a raw table to a release
=============================

A hospital group wants to hand a table of its staff to a research group: what people earn, how many
hours they work, how long they have been there. Their department must not be told by it, because
three departments went through a round of complaints and people must not be traced to them::

    python examples/case_study.py [--output FOLDER]

This is the whole way, from the raw table to a release that is on record.
"""

# %%
# The raw table
# -------------
#
# Made up here, so that everybody can run this. A real one comes from `pandas.read_csv`.

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from sklearn_puffer import Ledger, OverspentError, plan, report

DEPARTMENTS = {"kitchen": (31, 24.0, 7.0), "office": (36, 31.0, 9.0), "ward": (38, 34.0, 6.0)}
ROWS = 18_000


def staff(random):
    """Return a table of people: hours a week, pay in thousands, years, department."""
    parts = []
    for department, (hours, pay, years) in DEPARTMENTS.items():
        parts.append(
            pd.DataFrame(
                {
                    "department": department,
                    "hours": np.clip(random.normal(hours, 6.0, ROWS), 5, 60).round(),
                    "pay": random.lognormal(np.log(pay), 0.25, ROWS).round(1),
                    "years": random.exponential(years, ROWS).round(),
                }
            )
        )
    return pd.concat(parts).sample(frac=1.0, random_state=0).reset_index(drop=True)


parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("--output", type=Path, help="folder to write to; a temporary one if absent")
folder = parser.parse_args().output or Path(tempfile.mkdtemp(prefix="case-study-"))
folder.mkdir(parents=True, exist_ok=True)

table = staff(np.random.default_rng(2026))
print(table.head().to_string())
print(table.groupby("department").mean().round(1).to_string())

# %%
# What the columns tell as they are
# ---------------------------------
#
# The pay alone gives many people away. Of five groups of as many people each, by pay, these shares
# work in each department (one third would be a guess):

fifths = pd.qcut(table["pay"], 5, labels=["least", "less", "middle", "more", "most"])
print(pd.crosstab(fifths, table["department"], normalize="index").round(2).to_string())

# %%
# What a release would cost
# -------------------------
#
# A plan fits a few settings on one part of the rows, and measures them on the rest; it releases
# nothing. Epsilon is a limit on odds, so it is chosen first: at 1.5 an even chance between two
# departments becomes 82 % at most.

PUBLIC = ["pay", "years"]
compared = plan(
    table, "department", epsilon=1.5, public=PUBLIC, n_bins=3, n_prototypes=24, max_rows=None
)
print(compared.advice())
print(compared.table[["setting", "change", "attack", "loss"]].round(2).to_string())

# %%
# ``change`` is the mean change of a value in standard deviations, and ``attack`` the area under the
# ROC curve of the best attack found on rows that were not fitted. Typical rows change less than
# noise in three bins, and each may be released once. The research group will ask again next year,
# so the hospitals take noise, whose releases a ledger counts. It is then fitted to all rows.

k = compared.table["setting"].tolist().index("Laplace noise, n_bins=3") - 2
chosen = compared.estimator(k, refit=table)

# %%
# The certificate
# ---------------
#
# It is computed from the prior and the noise, without the code that found the scale.

print(chosen.certificate_.named("staff 2026"))

# %%
# Its assumptions are in the hands of the hospital as far as they can be: the saved noiser and the
# raw table stay where they are, and no other column of these people goes to this reader (``known=``
# protects against somebody who knows one).
#
# The release, on record
# ----------------------
#
# A ledger writes a release down before anybody sees the rows. The budget is for one release, so a
# second release of the same people is refused. People who come in December are new rows, with
# another release.

ledger = Ledger.create(folder / "staff.ledger", chosen, datasets=["november", "december"])
released = ledger.transform(chosen, table, dataset="november", note="to the research group")
released.to_csv(folder / "released.csv", index=False)
print(released.head().to_string())
try:
    ledger.transform(chosen, table, dataset="november")
except OverspentError as refused:
    print(f"\nagain: {refused}")

newcomers = staff(np.random.default_rng(7)).head(100)
print(f"\nin December: {ledger.transform(chosen, newcomers, dataset='december').shape}")

# %%
# The report to sign
# ------------------
#
# The person who answers for the release signs a page with the guarantee and its cost; the plan and
# the ledger have pages of their own. It is computed from the raw rows and stays with the table,
# like everything else in this folder but two files: the reader gets the released rows, and a report
# that is made of settings and names alone.

about = {"name": "staff 2026", "by": "data office"}
report(chosen, **about).save(folder / "to_sign.html")
external = report(chosen, kind="external", **about)
external.save(folder / "report.html")
print(*str(external).splitlines()[:3], sep="\n")
print(sorted(path.name for path in folder.iterdir()))

# %%
# What the release still tells
# ----------------------------
#
# How often each fifth of the released pay occurs, by department: at most e^1.5 times as often in
# one as in another, but for the chance of these draws. This table is the steward's check, and is
# not handed out.

paid = pd.qcut(released["pay"], 5, labels=list(fifths.cat.categories))
print(pd.crosstab(paid, table["department"], normalize="columns").round(3).to_string())
