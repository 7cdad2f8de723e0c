"""A first release
===============

From a raw table of many columns to a release that is proven, in one go::

    python examples/first_release.py [--output FOLDER]

The table is the diabetes data that scikit-learn carries: nine measurements of 442 patients, and how
far their disease progressed in a year. A clinic hands the measurements to a partner, who predicts
the progression. The patients' sex is nobody's business there, and the measurements give it away.
`plan` compares a swap, typical rows and noise, and the first row of its table is written. What is
proven is for a partner who does not know each patient's progression: who gets it as well has it
named in `known=`.
"""

import argparse
from pathlib import Path

import joblib
from sklearn.datasets import load_diabetes

from sklearn_puffer import plan

SHOWN = ["setting", "change", "attack", "task", "loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder to write to")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)

    table = load_diabetes(as_frame=True, scaled=False).frame
    table.insert(0, "patient", range(1001, 1001 + len(table)))
    found = plan(table, "sex", epsilon=1.0, task="target", ids="patient", n_bins=3)
    show(found)

    # the partner gets the rows; certificate and estimator stay with the table
    best = found.estimator(found.proposed, refit=table)
    best.transform(table).to_csv(folder / "released.csv", index=False)
    (folder / "certificate.json").write_text(best.certificate_.to_json(), encoding="utf-8")
    (folder / "estimator.json").write_text(best.to_json(), encoding="utf-8")
    joblib.dump(best, folder / "estimator.joblib")
    verdict = "holds" if best.certificate_.holds else "DOES NOT HOLD"
    print(f"Row {found.proposed}, fitted to all patients: the certificate {verdict}. Written to")
    print(f"{folder.resolve()}: released.csv, certificate.json, estimator.json, estimator.joblib")


def show(found):
    """Print what the raw table tells, and what was tried side by side."""
    auc, low, high = found.table.iloc[0][["attack", "low", "high"]]
    print(f"The rows as they are tell a patient's sex: AUC {auc:.2f} ({low:.2f} to {high:.2f}).")
    print(
        "Released at epsilon 1, the odds about it move by at most a factor 2.72. What was tried:\n"
    )
    print(found.table[SHOWN].round(2).to_string(na_rep=""))
    print("\nchange: of a value, in standard deviations; attack: AUC of the best one found, a mean")
    print("task: R2 for the progression, learnt on released rows and tested on true ones")
    print(
        "loss: the log of the factor, proven; grouped for target: by what tells the progression\n"
    )
    print("Each is proven for another reader:")
    for promise in dict.fromkeys(row.promise for row in found.trials):
        rows = [str(k) for k, row in enumerate(found.trials) if row.promise == promise]
        print(f"  {', '.join(rows)}: {promise}")
    print()


if __name__ == "__main__":
    main()
