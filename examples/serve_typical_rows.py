"""A service of typical rows
=========================

A steward fits once; a service loads one file and releases a row for each request, without a table,
a database or anybody's secret::

    python examples/serve_typical_rows.py

``answer`` is what a web framework would call. A person who asks twice is answered alike: two
independent releases of one row would tell far more than one.
"""

import secrets
import tempfile
from pathlib import Path

import joblib
import numpy as np
import pandas as pd

from sklearn_puffer import PufferfishMicroaggregator, PufferfishRelease


def clients(n, seed):
    """Return made-up clients: who has a loan shall not be told by the other columns."""
    random = np.random.default_rng(seed)
    loan = random.random(n) < 0.4
    table = {
        "client": np.arange(n),
        "loan": loan,
        "age": random.integers(20, 60, n) + 8 * loan,
        "cars": random.poisson(0.5 + loan),
        "region": random.choice(["north", "south", "west"], n),
    }
    return pd.DataFrame(table)


# %%
# The steward
# -----------
#
# The file holds typical rows and the channel. It is as confidential as the table.

folder = Path(tempfile.mkdtemp(prefix="typical-rows-"))
PUBLIC = ["age", "cars", "region"]
rows = PufferfishMicroaggregator(1.0, sensitive="loan", public=PUBLIC, n_prototypes=12)
rows.fit(clients(3000, seed=0))
print(rows.certificate_)
(folder / "rows.json").write_text(rows.to_json(), encoding="utf-8")
joblib.dump(rows, folder / "rows.joblib")  # the whole estimator, for the steward alone
(folder / "clients.key").write_text(secrets.token_hex(32), encoding="utf-8")
print(f"\nrows.json: {(folder / 'rows.json').stat().st_size / 1024:.0f} kB")

# %%
# The service
# -----------
#
# It reads the file at its start. The key is the defence against a second release.

service = PufferfishRelease.from_json(folder / "rows.json")
KEY = folder / "clients.key"


def answer(request):
    """Return what may be passed on of one person, as a dictionary."""
    row = pd.DataFrame([request])
    return service.transform(row, row_id="client", key=KEY).iloc[0].to_dict()


newcomers = clients(200, seed=1).drop(columns="loan")
answers = [answer(request) for request in newcomers.to_dict("records")]
print(pd.DataFrame(answers).head(3).to_string())
again = [answer(request) for request in newcomers.to_dict("records")]
print(f"asked twice, answered alike: {answers == again}")

whole = joblib.load(folder / "rows.joblib").transform(newcomers, row_id="client", key=KEY)
print(f"alike from the saved estimator: {whole.to_dict('records') == answers}")
