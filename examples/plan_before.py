"""Plan a release
==============

What twenty fits by hand would find, in one call and before anything is released::

    python examples/plan_before.py

Prints what each column of the diabetes data is, which settings were tried, what each of them would
change, and what to look at first; then it fits the one to look at first at epsilon 1, and prints
the first line of its certificate. The plan is computed from the raw rows: keep it with the table.
"""

import warnings

from sklearn.datasets import load_diabetes

from sklearn_puffer import plan

COLUMNS = ["bmi", "bp"]


def main():
    table = load_diabetes(as_frame=True, scaled=False).data
    found = plan(table, sensitive="sex", public=COLUMNS, epsilon=[0.5, 1.0], time_limit=20.0)
    print(found)
    chosen = next(k for k, _ in found.recommended() if found.trials[k].candidate.epsilon == 1.0)
    noiser = found.noiser(chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the plan has told what they say
        noiser.fit(table)
    print()
    print(f"Row {chosen} of the plan, fitted:")
    print(str(noiser.certificate_).partition("\n")[0])


if __name__ == "__main__":
    main()
