"""A panel whose people can be found
=================================

A panel is handed to a partner who may know in which region each person lives, and how old he is to
ten years: by that he can find people. So these columns are named in ``known=``: they stay with
people, who exchange the rest of their rows among those of equal region and age.
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from sklearn_puffer import PufferfishSwap
from sklearn_puffer.datasets import make_people

KNOWN, PUBLIC = ["region", "decade"], ["visits", "weight", "pulse"]
people = make_people(12_000, random_state=0)
people["decade"] = people["age"] // 10 * 10
panel = people[["client", *KNOWN, "ill", *PUBLIC]]
ill = panel["ill"].to_numpy()

swap = PufferfishSwap(epsilon=1.0, sensitive="ill", ids="client", known=KNOWN, public=PUBLIC)
released = swap.fit_transform(panel)
print(swap.certificate_)


def odds(share):
    return share / (1 - share)


# The partner has a former file with the illness of each row, and knows region and age of everybody.
# So he knows how many are ill among people of one region and age: that is where he starts from.
start = panel.groupby(KNOWN, observed=True)["ill"].transform("mean").to_numpy()
features = ["decade", *PUBLIC]
model = HistGradientBoostingClassifier(random_state=0).fit(panel[features], ill)
shifts = []
for rows in (panel, released):
    gain = model.predict_proba(rows[features])[:, 1] - start
    picked = np.argsort(-gain)[:2_000]
    shifts.append(odds(ill[picked].mean()) / odds(start[picked].mean()))

stayed = (released[KNOWN] == panel[KNOWN]).all(axis=None)
print(f"region and age stay with people: {stayed}")
print(f"odds of the 2,000 whom he picks, over those of their like: {shifts[0]:.1f} before the swap")
print(f"and {shifts[1]:.2f} after it; e^1 = 2.72 is allowed, and chance adds or takes up to 0.3")
print(
    "The partner finds out how many people of a region and an age are ill, exactly; beyond that no "
    "person's row moves the odds by more than 2.72 times, whatever else he knows of the rows."
)
