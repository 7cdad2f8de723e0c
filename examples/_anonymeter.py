"""Attack a release by singling out, linking and inference, as the library anonymeter does it.

    python examples/_anonymeter.py ROWS.csv RELEASED.csv OTHERS.csv SECRET > risks.csv

A program of its own, because anonymeter asks for numpy before 1.27: it is run by whichever
interpreter has it. ROWS are as they were, RELEASED the same rows as released with the secret as it
was beside them, and OTHERS rows that were not released: what is found of these, too, is no fault of
the release, and anonymeter takes it off.

One who links has half of the columns, and another one the other half. One who infers has all of
them, and reads the secret off the nearest released row.
"""

import contextlib
import sys
import warnings

import pandas as pd

ATTACKS = 100


def main():
    rows, released, others = (pd.read_csv(name, keep_default_na=False) for name in sys.argv[1:4])
    with contextlib.redirect_stdout(sys.stderr):
        found = pd.DataFrame(risks(rows, released, others, sys.argv[4]))
    found.to_csv(sys.stdout, index=False)


def risks(rows, released, others, secret):
    """Yield the risk of each attack, with the ends of its interval at 95 %."""
    from anonymeter.evaluators import (
        InferenceEvaluator,
        LinkabilityEvaluator,
        SinglingOutEvaluator,
    )

    warnings.simplefilter("ignore")  # of attacks that hardly succeed
    public = [name for name in released if name != secret]
    n = min(ATTACKS, len(rows) // 2, len(others))
    tables = {"ori": rows, "syn": released, "control": others, "n_attacks": n}
    hidden = {key: each[public] if key != "n_attacks" else each for key, each in tables.items()}
    yield told("singling out", SinglingOutEvaluator(**hidden), mode="univariate")
    if len(public) > 1:
        halves = public[: len(public) // 2], public[len(public) // 2 :]
        yield told("linking", LinkabilityEvaluator(**hidden, aux_cols=halves))
    yield told("inference", InferenceEvaluator(**tables, aux_cols=public, secret=secret))


def told(name, attack, **how):
    """Return what one attack came to."""
    risk = attack.evaluate(**how).risk(confidence_level=0.95)
    return {"attack": name, "risk": risk.value, "low": risk.ci[0], "high": risk.ci[1]}


if __name__ == "__main__":
    main()
