"""Audit a release
===============

Attack what is released, on rows that were held out, and say what the attacks can see::

    python examples/audit_after.py

A survey has a sensitive answer that moves the others. An honest release is audited, and then one
by somebody who fitted to few rows of another year: its certificate holds, for a distribution that
these rows do not follow, and the attackers find it.
"""

import warnings

import numpy as np
import pandas as pd

from sklearn_puffer import PufferfishNoiser, audit


def main():
    warnings.simplefilter("ignore", UserWarning)
    rng = np.random.default_rng(0)
    this_year, last_year = survey(rng, 6000, pull=2), survey(rng, 60, pull=0)
    fitted, held = this_year[:3000], this_year[3000:]
    settings = {
        "sensitive": "ill",
        "public": ["visits"],
        "categories": {"visits": range(6)},
    }
    honest = PufferfishNoiser(1.0, **settings).fit(fitted)
    print(audit(honest, held, task="late"))
    print()
    stale = PufferfishNoiser(1.0, **settings).fit(last_year)
    result = audit(stale, held)
    print(f"Fitted to last year: certificate holds: {stale.certificate_.holds}")
    print(str(result).partition("\n")[0])
    print(result.findings[0])


def survey(rng, n_rows, pull):
    """Return a table in which the ill go to the doctor more often."""
    ill = rng.random(n_rows) < 0.4
    visits = rng.integers(0, 4, n_rows) + pull * ill
    late = rng.random(n_rows) < 0.1 + 0.15 * visits
    return pd.DataFrame({"ill": ill, "visits": visits, "late": late})


if __name__ == "__main__":
    main()
