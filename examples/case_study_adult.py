"""Adult, from twenty trials to one call
=====================================

The census table Adult says how old people are, how long they learnt, how many hours a week they
work, and whether they are married. It is to be released without telling their sex::

    python examples/case_study_adult.py [--tables FOLDER] [--output FOLDER]

First the way that a steward goes without help: one fit after the other. Then `plan` in one call, on
the same rows and with the same measure. What it finds is fitted, attacked, put on record and
released. ``adult.csv`` of the UCI repository is not part of the checkout; this takes a minute.
"""

# %%
# The table
# ---------
#
# Half of it is planned on, fitted and released; the other half is for the attackers.

import argparse
import itertools
import sys
import tempfile
import textwrap
import time
import warnings
from pathlib import Path

import pandas as pd
from _shared import tables_folder

from sklearn_puffer import Ledger, PufferfishNoiser, audit, plan, report

PUBLIC = ["age", "education-num", "hours-per-week", "marital-status"]
ROWS = 16_000


def tell(*sentences):
    """Print sentences in lines of a readable length."""
    print(*(textwrap.fill(each, 92, subsequent_indent="  ") for each in sentences), sep="\n")


parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("--tables", type=Path, default=tables_folder(), help="folder of adult.csv")
parser.add_argument("--output", type=Path, help="folder to write to; a temporary one if absent")
arguments = parser.parse_args()
if not (arguments.tables / "adult.csv").is_file():
    sys.exit(f"adult.csv is not in {arguments.tables}; give --tables.")

adult = pd.read_csv(arguments.tables / "adult.csv").sample(frac=1.0, random_state=0)
adult = adult[["sex", *PUBLIC, "income"]].reset_index(drop=True)
rows, held = adult[:ROWS].drop(columns="income"), adult[ROWS : 2 * ROWS]
print(f"{len(rows)} rows to release, {len(held)} to attack with")
print(pd.crosstab(rows["marital-status"], rows["sex"], normalize="index").round(2).to_string())

# %%
# Nine in ten of the married are men, and most of the widowed women: the column gives many away.
#
# Twenty trials by hand
# ---------------------
#
# Epsilon is 1, and the prior is counted from the rows. What is left to find are a mechanism and
# bins. Each line is a fit; `utility_` says what it would do.

FIXED = {"epsilon": 1.0, "sensitive": "sex", "public": PUBLIC}
KINDS = {
    "Laplace noise": {},
    "Laplace noise, remapped": {"output": "remapped"},
    "each column apart": {"dependence": "independent"},
    "optimal channel": {"noise": "optimal"},
}


def fitted(estimator):
    """Return the estimator, fitted; what it warns of is in the table below, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return estimator.fit(rows)


def trial(kind, n_bins):
    """Return what one setting would do to a value, averaged over the columns."""
    own = {"kind": kind, "bins": "all values" if n_bins is None else f"{n_bins} bins"}
    try:
        noiser = fitted(PufferfishNoiser(**FIXED, **KINDS[kind], n_bins=n_bins))
    except ValueError as refused:
        return {**own, "outcome": "refused", "reason": str(refused)}
    survives = noiser.utility_
    change, unchanged = survives[["change_sd", "unchanged"]].mean()
    worse = (survives["change_sd"] > survives["constant_sd"]).sum()
    outcome = "holds" if noiser.certificate_.holds else "does not hold"
    return {**own, "outcome": outcome, "change": change, "unchanged": unchanged, "worse": worse}


began = time.process_time()
trials = pd.DataFrame(
    [trial(kind, n_bins) for kind, n_bins in itertools.product(KINDS, (3, 4, 5, 10, None))]
)
by_hand = time.process_time() - began
figures = trials.sort_values("change").drop(columns="reason").round(3)
print(figures.to_string(index=False, na_rep="-"))
tell(trials["reason"].dropna().iloc[0])

# %%
# ``change`` is in standard deviations, ``worse`` counts the columns that a constant in their place
# would change less. The channel is refused: its cells would hold too few rows. Who begins with
# Laplace noise and finer bins, as most would, sees nothing but noise and refusals.
#
# One call
# --------
#
# The same rows, epsilon and promise; nothing is said of mechanisms or bins. Losses are exact, as by
# hand, so that no published strategies are tried.

began = time.process_time()
asked = {"epsilon": 1.0, "strategy": "exact"}
found = plan(rows, "sex", public=PUBLIC, **asked)
in_one_call = time.process_time() - began
columns = ["setting", "verdict", "change", "unchanged", "worse"]
print(found.table[columns].head(8).round(3).to_string())
tell(*found.cliffs)

# %%
# Side by side, in seconds of processor time. The plan also left out the column that gives most
# people away, and then cells are filled: few trials by hand do that.

best = trials.loc[trials["change"].idxmin()]
first = found.table.iloc[0]
print(
    pd.DataFrame(
        {
            "setting": [f"{best['kind']}, {best['bins']}", first["setting"]],
            "change": [best["change"], first["change"]],
            "unchanged": [best["unchanged"], first["unchanged"]],
            "calls": [len(trials), 1],
            "tried": [len(trials), len(found.table)],
            "seconds": [by_hand, in_one_call],
        },
        index=["by hand", "plan"],
    )
    .round(3)
    .to_string()
)

# %%
# Fit, and attack
# ---------------
#
# The attackers get rows that were not in fit. Rows that fit has not seen come out as their nearest
# cell.

tell(found.why(0))
noiser = fitted(found.noiser(0).set_params(unknown="nearest"))
attacked = audit(noiser, held, task="income")
tell(*str(attacked).splitlines()[:5])
survived = attacked.utility.round(3)
print(survived[survived["what"].str.contains("unchanged|AUC|base rate")].to_string(index=False))

# %%
# A model that learns incomes from released rows is held against true rows. What each attacker
# reached, what he reaches without noise, and what the promise allows:

try:
    import matplotlib  # noqa: F401  # an extra
except ImportError:
    print('No picture: matplotlib is not installed (pip install "sklearn-puffer[plot]").')
else:
    from sklearn_puffer import AuditDisplay

    AuditDisplay.from_audit(attacked)

# %%
# Report, and release
# -------------------
#
# The page to sign has the plan, the audit and the ledger in it. The rows go out with a page that is
# made of settings and names alone.

folder = arguments.output or Path(tempfile.mkdtemp(prefix="case-study-adult-"))
folder.mkdir(parents=True, exist_ok=True)
ledger = Ledger.create(folder / "adult.ledger", noiser, datasets=["adult"])
about = {"name": "adult.csv", "by": "data office"}
to_sign = report(noiser, attacked, found, ledger=ledger, **about)
to_sign.save(folder / "to_sign.html")
tell(*str(to_sign).splitlines()[:4])

released = ledger.transform(noiser, rows, dataset="adult", note="signed")
released.to_csv(folder / "released.csv", index=False)
report(noiser, kind="external", **about).save(folder / "report.html")
print(*sorted(path.name for path in folder.iterdir()), sep=", ")
