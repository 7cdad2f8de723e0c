"""Release a table
===============

Release three columns of the diabetes data without giving the sex of a patient away::

    python examples/release_diabetes.py [--output FOLDER]

Fits a `PufferfishNoiser` on data that scikit-learn carries, prints its certificate and what the
release costs, and writes the released table, the certificate and the fitted estimator.
"""

import argparse
from pathlib import Path

import joblib
from sklearn.datasets import load_diabetes

from sklearn_puffer import PufferfishNoiser

PUBLIC = ["age", "bmi", "bp"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder to write to")
    folder = parser.parse_args().output

    table = load_diabetes(as_frame=True, scaled=False).data
    noiser = PufferfishNoiser(epsilon=1.0, sensitive="sex", public=PUBLIC, n_bins=5)
    released = noiser.fit_transform(table)

    print(noiser.certificate_)
    print("\nExpected change of a value, and of the best constant, in standard deviations:\n")
    print(noiser.utility_[["change_sd", "constant_sd"]].round(2))

    folder.mkdir(parents=True, exist_ok=True)
    released.to_csv(folder / "released.csv", index=False)
    (folder / "certificate.json").write_text(noiser.certificate_.to_json(), encoding="utf-8")
    joblib.dump(noiser, folder / "noiser.joblib")
    print(f"\nWritten to {folder.resolve()}: released.csv, certificate.json, noiser.joblib")


if __name__ == "__main__":
    main()
