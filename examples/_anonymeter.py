"""Attack a release by singling out, linking and inference, as the library anonymeter does it.

    python examples/_anonymeter.py ROWS.csv RELEASED.csv OTHERS.csv SECRET > risks.csv

anonymeter needs numpy before 1.27, so that this program runs in another interpreter. ROWS are the
true rows, RELEASED the same rows as released, with the true secret. OTHERS were not released:
anonymeter subtracts what its attacks learn of them, which is no fault of the release.

The linking attack matches two halves of the columns. The inference attack has all columns, and
reads the secret off the nearest released row.
"""

import contextlib
import sys
import warnings

import pandas as pd

ATTACKS = 100


def main():
    rows, released, others = (pd.read_csv(name, keep_default_na=False) for name in sys.argv[1:4])
    with contextlib.redirect_stdout(sys.stderr):
        attacks = pd.DataFrame(risks(rows, released, others, sys.argv[4]))
    attacks.to_csv(sys.stdout, index=False)


def risks(rows, released, others, secret):
    """Yield the risk of each attack, with the ends of its interval at 95 %."""
    from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

    warnings.simplefilter("ignore")  # of attacks that hardly succeed
    public = [name for name in released if name != secret]
    n = min(ATTACKS, len(rows) // 2, len(others))
    tables = {"ori": rows, "syn": released, "control": others, "n_attacks": n}
    hidden = {key: x[public] if key != "n_attacks" else x for key, x in tables.items()}
    yield measured("singling out", SinglingOutEvaluator(**hidden), mode="univariate")
    if len(public) > 1:
        halves = public[: len(public) // 2], public[len(public) // 2 :]
        yield measured("linking", LinkabilityEvaluator(**hidden, aux_cols=halves))
    yield measured("inference", InferenceEvaluator(**tables, aux_cols=public, secret=secret))


def measured(name, attack, **how):
    """Return the risk of one attack."""
    risk = attack.evaluate(**how).risk(confidence_level=0.95)
    return {"attack": name, "risk": risk.value, "low": risk.ci[0], "high": risk.ci[1]}


if __name__ == "__main__":
    main()
