"""A service that releases rows one by one
=======================================

A model predicts the income of one person at a time. Its owner shall not learn anybody's sex from
the rows that are sent. A swap needs people to exchange rows with: `fit` sets donors aside, whose
rows stand in for others and are never released otherwise::

    python examples/serve_rows_one_by_one.py [--tables FOLDER]

``adult.csv`` of the UCI repository is not part of the checkout; this takes half a minute.
"""

# %%
# Four parts of a table
# ---------------------
#
# Rows to fit on, donors, and those whose owners ask; the model learns from fitted rows, swapped as
# one table.

from _shared import ADULT, adult
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from sklearn_puffer import OverspentError, PufferfishNoiser
from sklearn_puffer.noise import RecordSwap

rows = adult(__doc__)
table, donors, asking = rows[:20_000], rows[20_000:32_000], rows[32_000:]
print(f"{len(table)} fitted rows, {len(donors)} donors, {len(asking)} people who may ask")

# %%
# A pipeline that predicts single rows
# ------------------------------------
#
# In `fit` the pipeline swaps the table as a whole, and its model learns from that. In `predict`
# each row is released by itself: it stays as it is, or becomes a donor's. `fit` warns that readers
# with a better model of the rows, or with the list of secrets, are not covered.


def classifier():
    """Return a model of rows as they are."""
    texts = make_column_selector(dtype_exclude="number")
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_pipeline(
        make_column_transformer((codes, texts), remainder="passthrough"),
        HistGradientBoostingClassifier(random_state=0),
    )


noiser = PufferfishNoiser(
    epsilon=1.0, sensitive="sex", public=ADULT, noise=RecordSwap(cells=12, donors=donors)
)
service = make_pipeline(noiser, classifier())
service.fit(table, table["income"])
certificate = noiser.certificate_
print(certificate.promise())
print(f"for {certificate.reserve.rows[0]} rows, of which {noiser.swap_.unchanged:.0%} stay")

# %%
# Answer, person by person
# ------------------------

people = asking[: min(1000, certificate.reserve.rows[0])]
for k in range(3):
    print(f"person {k}: {service.predict(people.iloc[[k]])[0]}")
released = noiser.transform(people[ADULT].iloc[3:])
true = people.iloc[3:]

rich, raw = true["income"] == ">50K", classifier().fit(table[ADULT], table["income"])
for what, model, rows in (
    ("true rows", raw, true[ADULT]),
    ("released rows", service[-1], released),
):
    print(f"income from {what}: AUC {roc_auc_score(rich, model.predict_proba(rows)[:, 1]):.3f}")

# %%
# Attack it
# ---------
#
# The attacker learnt from a survey how rows tell the sex, and sees the rows that were sent. (With
# the donors an attacker sees more: which rows are donors' rows, so that their owners were moved.)

attacker = classifier().fit(table[ADULT], table["sex"])
male = true["sex"] == "Male"
for what, rows in (("true", true[ADULT]), ("released", released)):
    print(
        f"sex from {what} rows: AUC {roc_auc_score(male, attacker.predict_proba(rows)[:, 1]):.3f}"
    )

# %%
# When the donors are used up
# ---------------------------
#
# No donor is given twice. How many rows are released is fixed in `fit`, so that a refusal tells
# nothing of anybody's row; then fit again with other donors, and erase these.

left = noiser.donors_left_
print(f"{left['rows_left'][0]} rows left, {left['donors'].sum()} donors")
try:
    noiser.transform(asking[ADULT])
except OverspentError as refused:
    print(refused)
