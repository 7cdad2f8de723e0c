"""Typical rows of a CSV file on the command line
==============================================

Fit and release a CSV file with ``puffer``; each ``puffer(...)`` is what stands in a shell::

    python examples/typical_rows_of_files.py

The table is breast cancer of scikit-learn: four measurements are published, and shall not tell
whether the tumour was malignant. Needs the extra ``cli``.
"""

import shlex
import tempfile
from pathlib import Path

import pandas as pd
from sklearn.datasets import load_breast_cancer

from sklearn_puffer.cli import main

folder = Path(tempfile.mkdtemp(prefix="typical-rows-"))
PUBLIC = ["mean texture", "mean smoothness", "mean symmetry", "texture error"]


def puffer(command):
    """Run a command in the folder of this example, and stop if it fails."""
    files = (".csv", ".json")
    words = [str(folder / word) if word.endswith(files) else word for word in shlex.split(command)]
    print(f"\n$ puffer {command}", flush=True)
    if main(words) != 0:
        raise SystemExit("the command failed")


table = load_breast_cancer(as_frame=True)
rows = table.data[PUBLIC].rename(columns=lambda name: name.replace(" ", "_"))
rows["tumour"] = table.target.map({0: "malignant", 1: "benign"})
rows = rows.sample(frac=1.0, random_state=0)  # their order tells much of the tumour
rows.to_csv(folder / "patients.csv", index=False)

# %%
# 569 rows are few: the shares are taken as counted (``--level none``), which the certificate says.

puffer(
    "fit patients.csv rows.json --mechanism typical-rows --sensitive tumour --n-prototypes 8 "
    "--level none"
)
puffer("release rows.json patients.csv released.csv --quiet")
released = pd.read_csv(folder / "released.csv")
print(f"\n{len(released)} rows of {released.shape[1]} columns")
print(released.head(3).to_string())
