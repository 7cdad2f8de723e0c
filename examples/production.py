"""Release in other processes
==========================

Fit once, write the release artifact, and release new rows in other processes::

    python examples/production.py

The artifact holds the scales, the atoms and the certificate, and no priors: the priors stay in the
noiser, where the table is. It holds no random state, so that two processes that read the same file
draw different noise: with shared noise, two releases would differ by the truth.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
from sklearn.datasets import load_diabetes

from sklearn_puffer import PufferfishNoiser

PUBLIC = ["age", "bmi", "bp"]

# What runs in production: it sees neither the data and priors of the fit nor the sensitive column.
SERVE = """
import sys
import pandas as pd
from sklearn_puffer import PufferfishRelease

artifact, rows, released = sys.argv[1:]
release = PufferfishRelease.from_json(artifact)
release.transform(pd.read_csv(rows)).to_csv(released, index=False)
"""


def main():
    table = load_diabetes(as_frame=True, scaled=False).data[["sex", *PUBLIC]]
    fitted, new = table.iloc[:400], table.iloc[400:]
    noiser = PufferfishNoiser(epsilon=1.0, sensitive="sex", public=PUBLIC, n_bins=5).fit(fitted)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        noiser.to_json(folder / "release.json")
        new[PUBLIC].to_csv(folder / "rows.csv", index=False)
        first, second = (_serve(folder, released) for released in ("first.csv", "second.csv"))

    print(f"fitted on {len(fitted)} rows, loss at most {noiser.certificate_.loss:.6g}")
    print(f"{len(first)} new rows released in another process:\n\n{first.head()}\n")
    same = (first == second).to_numpy().sum()
    print(f"a second process released the same rows: {same} of {first.size} values agree")


def _serve(folder, released):
    paths = [folder / "release.json", folder / "rows.csv", folder / released]
    subprocess.run([sys.executable, "-c", SERVE, *map(str, paths)], check=True)
    return pd.read_csv(folder / released)


if __name__ == "__main__":
    main()
