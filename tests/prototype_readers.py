"""Readers of typical rows, with oracles of their own: known laws, and secrets that are counted.

What a reader learns is measured at the secrets of the rows that he picks, not at what he claims.
"""

import warnings
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import pandas as pd
from scipy.stats import beta

from sklearn_puffer import PufferfishMicroaggregator, PufferfishWarning
from sklearn_puffer._microaggregator.fit import learn
from sklearn_puffer._tables import frame_table


def fitted(table, y=None, **parameters):
    """Return a fitted estimator, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PufferfishWarning)
        return PufferfishMicroaggregator(**parameters).fit(table, y)


def learnt(table, **parameters):
    """Return what `fit` learns, before it computes what is said of it."""
    rows = PufferfishMicroaggregator(**parameters)
    return learn(rows._checked_parameters(), rows._rows_to_fit(table, None, None, None))


# ----------------------------------------------------------------------------------- known laws


@dataclass(frozen=True)
class Law:
    """Public rows, how often each occurs, and the chance of each secret in them."""

    rows: pd.DataFrame
    chances: np.ndarray
    secrets: np.ndarray

    def drawn(self, rng, n_rows):
        """Return a table of so many people, and which public row each of them has."""
        which = rng.choice(len(self.rows), n_rows, p=self.chances)
        ends = self.secrets[which].cumsum(axis=1)
        secret = (rng.random(n_rows)[:, None] > ends[:, :-1]).sum(axis=1)
        table = self.rows.iloc[which].reset_index(drop=True)
        return table.assign(secret=[f"s{k}" for k in secret]), which

    def losses(self, found, which):
        """Return the true loss for public rows as often as in a drawn table, and as in the law."""
        drawn = np.bincount(which, minlength=len(self.rows)) / len(which)
        prototypes = found.best.prototypes
        codes = prototypes.assign(prototypes.coordinates.read(frame_table(self.rows)))
        released = found.attributes()["channel_"].toarray()[codes]
        return [
            loss_of(shares[:, None] * self.secrets, released) for shares in (drawn, self.chances)
        ]


def loss_of(masses, released):
    """Return the largest log odds of two secrets, given who becomes what."""
    chances = (masses / masses.sum(axis=0)).T @ released
    seen = np.log(chances[:, chances.sum(axis=0) > 0.0])
    return float((seen.max(axis=0) - seen.min(axis=0)).max())


def pulled(rng, levels, base=(0.5, 0.5), pull=1.0):
    """Return a law of categories and a last column of numbers, which pull secrets apart."""
    *kinds, n_numbers = levels
    parts = [
        [f"{name}{level}" for level in range(n)] for name, n in zip("xyz", kinds, strict=False)
    ]
    rows = pd.DataFrame(list(product(*parts, range(n_numbers))))
    rows.columns = [*"xyz"[: len(kinds)], "number"]
    codes = [np.unique(rows[name], return_inverse=True)[1] for name in rows]
    pulls = [rng.normal(size=(n, len(base))) for n in levels]
    scores = np.log(base) + pull * sum(p[c] for p, c in zip(pulls, codes, strict=True))
    secrets = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances = rng.dirichlet(np.full(len(rows), 2.0))
    return Law(rows, chances, secrets / secrets.sum(axis=1, keepdims=True))


def one_column(chances):
    """Return a law of equally frequent categories, with the chance of the first secret in each."""
    chances = np.asarray(chances)
    rows = pd.DataFrame({"x": [f"x{k:02d}" for k in range(len(chances))]})
    shares = np.full(len(chances), 1.0 / len(chances))
    return Law(rows, shares, np.stack([chances, 1.0 - chances], axis=1))


# ------------------------------------------------------------------------------------- real rows


def cells_of(release, released):
    """Return the number of the typical row of each released row."""
    known = {row: k for k, row in enumerate(_as_text(release.prototypes_))}
    return np.array([known[row] for row in _as_text(released)])


def _as_text(frame):
    return ["|".join("gone" if v is None or v != v else str(v) for v in row)
            for row in frame.astype(object).to_numpy().tolist()]  # fmt: skip


def proven_shift(cells, secrets, level=0.01):
    """Return how far the odds of two secrets are from the base odds in some cell, at least.

    By Clopper and Pearson, at once for all cells and pairs: beyond sampling error of the rows in
    the cells. The base odds are those of all rows.
    """
    counts = pd.crosstab(np.asarray(cells), np.asarray(secrets)).to_numpy()
    pairs = list(combinations(range(counts.shape[1]), 2))
    error, worst = level / (2 * len(pairs) * len(counts)), 0.0
    for s, t in pairs:
        hits, misses = counts[:, s], counts[:, t]
        base = np.log(hits.sum() / misses.sum())
        low = np.where(hits > 0, beta.ppf(error, np.maximum(hits, 1), misses + 1), 0.0)
        high = np.where(misses > 0, beta.ppf(1 - error, hits + 1, np.maximum(misses, 1)), 1.0)
        with np.errstate(divide="ignore"):
            up, down = np.log(low / (1 - low)) - base, base - np.log(high / (1 - high))
        worst = max(worst, up.max(), down.max())
    return float(worst)


def by_claim(claims, parts=8):
    """Return which rows a reader takes together who sorts them by what he thinks of them."""
    ends = np.unique(np.quantile(claims, np.linspace(0.0, 1.0, parts + 1)[1:-1]))
    return np.searchsorted(ends, claims)
