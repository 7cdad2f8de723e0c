"""Who holds a channel and the list of fitted rows, against all outcomes, one by one."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.naive_bayes import GaussianNB

from sklearn_puffer import PufferfishNoiser, PufferfishRelease, audit
from sklearn_puffer._noiser import HeldChannel, held_channel
from sklearn_puffer._review.exact_tests import Promise
from sklearn_puffer._review.readers import EXCLUDES, HOLDS, exclusion

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.usefixtures("thin_cells"),
]
PLAIN = {"repeats": 1, "knows": []}
CHANNEL = [[4, 0, 0], [1, 2, 1], [0, 1, 3]]  # quarters
COUNTS = [2, 1, 2]
SECRETS = [[1.5, 0.25, 1.0], [0.5, 0.75, 1.0]]


def by_hand():
    """Return the mass of each view given each secret, over all 3^5 outcomes."""
    rows = [x for x, n in enumerate(COUNTS) for _ in range(n)]
    masses = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for out in product(range(3), repeat=len(rows)):
        chance = math.prod(Fraction(CHANNEL[x][y], 4) for x, y in zip(rows, out, strict=True))
        for x, y in zip(rows, out, strict=True):
            for s in (0, 1):
                own = Fraction(SECRETS[s][x]) / COUNTS[x]
                masses[y, out.count(y)][s] += chance * own
    return [each for each in masses.values() if any(each)]


def held():
    pairs = [(0, 1)]
    chances = csr_array(np.array(CHANNEL) / 4)
    return HeldChannel("s", ["a", "b"], pairs, chances, np.array(COUNTS), np.array(SECRETS))


def test_figures_are_those_of_all_outcomes():
    masses = by_hand()
    p, q = ([own[s] / sum(m[s] for m in masses) for own in masses] for s in (0, 1))
    views = list(zip(p, q, strict=True))
    auc = sum(
        a * d * (1 if a * d > b * c else Fraction(1, 2) if a * d == b * c else 0)
        for (a, b), (c, d) in product(views, repeat=2)
    )
    epsilon = 0.2
    beyond = [max(a, b) > math.exp(epsilon) * min(a, b) for a, b in views]
    total = sum(sum(own) for own in masses)
    pinned = sum(sum(own) for own, far in zip(masses, beyond, strict=True) if far) / total
    found = exclusion(held(), Promise(epsilon))
    (first, second) = [each for each in found.attacks if each.view == EXCLUDES]
    assert first.auc == pytest.approx(float(auc), abs=1e-12)
    assert first.auc_low == first.auc_high == first.auc
    assert first.advantage == pytest.approx(float(sum(max(a - b, 0) for a, b in views)), abs=1e-12)
    event = [(a, b) for a, b in views if a > math.exp(epsilon) * b]
    odds = math.log(sum(a for a, _ in event) / sum(b for _, b in event))
    assert first.log_odds == pytest.approx(odds)
    assert found.pinned == pytest.approx(float(pinned), abs=1e-12)
    assert 0.0 < found.pinned < 1.0
    assert (found.n_rows, found.alone) == (5, 0.2)
    assert (first.secret, second.secret) == ("a", "b")


def test_who_holds_the_channel_alone_sees_what_each_cell_tells():
    laws = [
        [sum(of[x] * CHANNEL[x][y] for x in range(3)) / 4 / sum(of) for y in range(3)]
        for of in SECRETS
    ]
    own = next(each for each in exclusion(held(), Promise(0.2)).attacks if each.view == HOLDS)
    assert own.advantage == pytest.approx(sum(max(a - b, 0) for a, b in zip(*laws, strict=True)))


def people(n_rows=240, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n_rows)
    age, score = rng.integers(20, 60, n_rows), rng.integers(0, 4, n_rows) + 2 * (sex == "m")
    return pd.DataFrame({"sex": sex, "age": age, "score": score})


def test_the_list_is_that_of_the_rows_of_fit():
    table = people()
    noiser = PufferfishNoiser(0.5, sensitive="sex", noise="optimal").fit(table)
    found = held_channel(noiser)
    cells = noiser.channel_.cells.astype(int)
    own = table.groupby(["age", "score"]).size()
    assert found.counts.tolist() == [own[row] for row in cells.itertuples(index=False, name=None)]
    np.testing.assert_allclose(found.secrets.sum(axis=0), found.counts, atol=1e-6)
    assert held_channel(PufferfishNoiser(sensitive="sex").fit(table)) is None


def test_an_audit_shows_the_reader_who_holds_the_channel_and_never_as_a_finding():
    noiser = PufferfishNoiser(0.5, sensitive="sex", noise="optimal", unknown="nearest")
    found = audit(noiser.fit(people()), people(seed=1), GaussianNB(), **PLAIN)
    readers = found.readers
    alone, listed = (readers[readers["view"] == view] for view in (HOLDS, EXCLUDES))
    assert (alone["auc"] <= alone["auc_allowed"] + 1e-9).all()  # that is the promise
    assert (alone["log_odds"] <= 0.5 + 1e-6).all()
    assert (listed["auc"].to_numpy() > alone["auc"].to_numpy() + 0.05).all()
    assert found.exclusion.pinned > 0.1
    assert f"{found.exclusion.pinned:.0%}" in str(found)
    assert json.loads(found.to_json())["exclusion"]["n_rows"] == 240
    assert all(each.attack.view == "released" for each in found.findings)


def test_rows_in_few_large_cells_are_hardly_pinned():
    table = people(600).assign(age=0)
    noiser = PufferfishNoiser(0.5, sensitive="sex", public=["score"], noise="optimal").fit(table)
    fine = PufferfishNoiser(0.5, sensitive="sex", noise="optimal").fit(people())
    few, many = (exclusion(held_channel(each), Promise(0.5)) for each in (noiser, fine))
    assert (few.alone, many.alone > 0.2) == (0.0, True)
    assert few.move < many.move


def test_a_form_holds_no_laws_so_that_this_reader_is_named_and_not_computed():
    table = people()
    noiser = PufferfishNoiser(0.5, sensitive="sex", noise="optimal", unknown="nearest").fit(table)
    release = PufferfishRelease.from_json(noiser.to_json())
    found = audit(release, table, GaussianNB(), **PLAIN)
    assert found.exclusion is None
    assert "was not computed" in str(found)
    assert len(found.readers) == 0
