"""Channels where there is next to nothing to choose, and how few moves an optimum needs."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from channel_oracle import costs_between, exact
from scipy.optimize import linprog

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._channels import ChannelProblem, Family, find_channel
from sklearn_puffer.notions import Pufferfish

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*occur once", "ignore:no row needs to change"),
    pytest.mark.filterwarnings("ignore:.*has log loss", "ignore:.*has a single value"),
]
RNG = np.random.default_rng(0)
MANY = np.repeat(np.arange(50), 8)
TABLES = {
    "one cell": pd.DataFrame({"x": [3] * 8, "s": list("aabbabab")}),
    "constant columns": pd.DataFrame(
        {"x": [3] * 12, "y": [0, 1, 2, 1, 0, 0] * 2, "z": ["u"] * 12, "s": list("aaabbb") * 2}
    ),
    "equal distributions": pd.DataFrame({"x": [0, 1, 2] * 4, "s": list("aaabbb") * 2}),
    "disjoint distributions": pd.DataFrame({"x": [0, 1, 5, 6] * 3, "s": list("aabb") * 3}),
    "50 secrets": pd.DataFrame({"x": (MANY + RNG.integers(0, 40, 400)) % 5, "s": MANY}),
}


def exact_loss(noiser, masses, notion):
    """Return the worst loss of what is released, in fractions; masses by secret and cell."""
    whole = noiser.channel_.numerators.toarray().astype(object)
    cells = [tuple(cell) for cell in noiser.channel_.cells.itertuples(index=False, name=None)]
    distributions = []
    for of_secret in masses.values():
        total = sum(of_secret.values())
        distribution = [Fraction(of_secret.get(cell, 0), total) for cell in cells]
        outputs = range(len(cells))
        distributions.append(
            [sum(p * int(w[y]) for p, w in zip(distribution, whole, strict=True)) for y in outputs]
        )
    scaled = [[value / 2**62 for value in distribution] for distribution in distributions]
    return float(max(exact(p, q, notion) for p, q in permutations(scaled, 2)))


def counted(table, weights=None):
    weights = [1] * len(table) if weights is None else weights
    masses = {}
    rows = table.drop(columns="s").itertuples(index=False, name=None)
    for row, secret, weight in zip(rows, table["s"], weights, strict=True):
        of_secret = masses.setdefault(secret, {})
        of_secret[row] = of_secret.get(row, 0) + int(weight)
    return masses


@pytest.mark.parametrize(
    ("kind", "delta"),
    [
        (kind, delta)
        for kind in TABLES
        for delta in (0.0, 0.01)
        if kind != "50 secrets" or not delta
    ],
)
def test_degenerate_tables_have_a_channel_within_the_budget(kind, delta):
    table, notion = TABLES[kind], Pufferfish(0.5, delta)
    public = [name for name in table if name != "s"]
    noiser = PufferfishNoiser(0.5, sensitive="s", public=public, noise="optimal", delta=delta)
    noiser.fit(table, sample_weight=np.full(len(table), 3_000))
    assert noiser.certificate_.holds
    assert exact_loss(noiser, counted(table), notion) <= (delta or 0.5)
    assert (
        noiser.transform(table)[public]
        .isin({name: set(table[name]) for name in public})
        .all(axis=None)
    )
    if kind in ("one cell", "equal distributions"):
        assert noiser.channel_.unchanged == 1.0


def test_counts_a_million_million_times_apart_keep_the_budget():
    table = pd.DataFrame({"x": [0, 1, 2, 3] * 2, "s": list("aaaabbbb")})
    weights = [10**12, 1, 3, 10**11, 1, 10**12, 10**12, 2]
    noiser = PufferfishNoiser(0.5, sensitive="s", noise="optimal")
    noiser.fit(table, sample_weight=weights)
    loss = exact_loss(noiser, counted(table, weights), Pufferfish(0.5))
    assert loss <= noiser.certificate_.loss <= 0.5
    assert noiser.certificate_.loss == pytest.approx(loss, rel=1e-9)


# ------------------------------------------------------------------------------- rays and vertices


def rows_of(distributions, epsilon):
    """Return the rows of the cone of columns: p_s . w <= e^epsilon p_s' . w."""
    pairs = permutations(range(len(distributions)), 2)
    return np.array([distributions[s] - np.exp(epsilon) * distributions[t] for s, t in pairs])


@pytest.mark.parametrize(
    ("ks", "most"), [((2,), 2), ((3,), 3), ((5,), 5), ((2, 3), 4), ((2, 2, 3), 5)]
)
def test_extreme_columns_have_few_cells(ks, most):
    """A vertex of a section of the cone is one of its rays: at most sum k_j - J + 1 cells."""
    n, used = 12, []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        rows = np.concatenate([rows_of(rng.dirichlet(np.ones(n), k), 0.3) for k in ks])
        found = linprog(
            rng.normal(size=n), rows, np.zeros(len(rows)), np.ones((1, n)), [1.0], method="highs-ds"
        )
        used.append(int((found.x > 1e-9).sum()))
    assert max(used) <= most
    assert max(used) > 1


def problem_of(ks, seed, n=24, delta=0.0):
    rng = np.random.default_rng(seed)
    families = [Family(rng.integers(1, 40, (k, n))) for k in ks]
    costs = costs_between(rng.normal(size=(n, 2)))
    return ChannelProblem(families, rng.dirichlet(np.ones(n)), costs, 0.3, delta)


@pytest.mark.parametrize("ks", [(2,), (3,), (4,), (2, 3), (2, 2, 2)])
@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_an_optimum_has_few_entries(ks, delta):
    """At most n rays, or n and one for each bound on an excess; of as many cells as above."""
    for seed in range(3):
        problem = problem_of(ks, seed, delta=delta)
        rays = problem.n_cells + (sum(k * (k - 1) for k in ks) if delta else 0)
        assert (find_channel(problem) > 1e-9).sum() <= rays * (sum(ks) - len(ks) + 1)
