"""A customers' table for a partner
================================

A shop hands its customers' table to a partner, with the customer numbers: he sends letters by them.
Some customers are ill, and the other columns give that away. People of either kind exchange their
rows. Then the partner attacks what he got, with a model that has learnt from the true table.
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from sklearn_puffer import PufferfishSwap
from sklearn_puffer.datasets import make_people

PUBLIC = ["age", "visits", "weight", "pulse"]
customers = make_people(12_000, random_state=0)[["client", "ill", *PUBLIC]]
ill = customers["ill"].to_numpy()

swap = PufferfishSwap(epsilon=1.0, sensitive="ill", ids="client", public=PUBLIC)
released = swap.fit_transform(customers)
print(swap.certificate_)


def in_order(table):
    return table[PUBLIC].sort_values(PUBLIC).reset_index(drop=True)


def odds(share):
    return share / (1 - share)


# The partner has a former file with the illness of each row, so that no model knows rows better.
# He picks the customers whose rows look most like those of the ill.
model = HistGradientBoostingClassifier(random_state=0).fit(customers[PUBLIC], ill)
shifts = []
for rows in (customers, released):
    picked = np.argsort(-model.predict_proba(rows[PUBLIC])[:, 1])[:2_000]
    shifts.append(odds(ill[picked].mean()) / odds(ill.mean()))

print(f"the same rows: {in_order(released).equals(in_order(customers))}")
print(f"odds of the 2,000 whom he picks, over those of all: {shifts[0]:.1f} before the swap")
print(f"and {shifts[1]:.2f} after it; e^1 = 2.72 is allowed, and chance adds or takes up to 0.3")
print(
    "The partner can count and model these columns as if nothing had happened; of no customer "
    "can he find out the illness beyond 2.72 times the odds of all, whatever model he has."
)
