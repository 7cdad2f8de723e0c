"""As many pairs of secrets as there is room for: more are refused before one is made."""

import sys
import tracemalloc
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._base import arguments as _validation
from sklearn_puffer._codes import CodeArray, Secret, secret_pairs_of, selection
from sklearn_puffer._noiser import against

pytestmark = pytest.mark.filterwarnings("ignore:sensitive column .* values in .* rows:UserWarning")


def table(n_values, n_rows=40_000):
    rows = np.arange(n_rows)
    return pd.DataFrame({"city": rows % n_values, "x": rows % 2, "t": rows % 3})


def secret(n_values, name="city"):
    return Secret(name, tuple(range(n_values)), CodeArray(np.arange(n_values)))


def all_of(n_values):
    return list(combinations(range(n_values), 2))


def peak_of(call, message):
    """Return the most memory that a refused call held at once, in bytes."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("n_values", [1_500, 20_000])
def test_more_pairs_than_there_is_room_for_are_refused_before_one_is_made(n_values):
    frame = table(n_values)
    message = (
        rf"column 'city' has {n_values:,} values, and 50 are the most.*; read numbers in bins .*, "
        "merge the values, or list the pairs to protect in secret_pairs"
    )
    noiser = PufferfishNoiser(1.0, sensitive="city", public="x")
    assert peak_of(lambda: noiser.fit(frame), message) < 40e6
    assert not hasattr(noiser, "theta_")


def test_the_pairs_of_all_sensitive_columns_and_adversaries_count_together(monkeypatch):
    one, two = secret(5, "city"), secret(4, "street")
    monkeypatch.setattr(_validation, "MOST_PAIRS", 12)
    with pytest.raises(ValueError, match="the 5 values of column 'city' and the other sens"):
        secret_pairs_of("all", [one, two])
    with pytest.raises(ValueError, match="'city' against each of 3 priors make 30 pairs"):
        secret_pairs_of("all", [one], 3)
    with pytest.raises(ValueError, match="the 5 values of column 'city' and the other"):
        secret_pairs_of({"street": [(0, 1), (0, 2), (0, 3)]}, [one, two])
    monkeypatch.setattr(_validation, "MOST_PAIRS", 10)
    with pytest.raises(ValueError, match=r"pairs of 'city' against each of 3 priors make 12 pa"):
        secret_pairs_of([(k, k + 1) for k in range(4)], [one], 3)


def test_listed_pairs_of_many_values_are_protected():
    pairs = [(k, k + 1) for k in range(0, 600, 100)]
    noiser = PufferfishNoiser(1.0, sensitive="city", public="t", secret_pairs=pairs)
    noiser.fit(table(600, 6_000))
    assert noiser.secret_pairs_["city"] == pairs
    assert len(noiser.certificate_.table) == 2 * len(pairs)


def test_all_pairs_of_fifty_values_are_protected_and_no_more():
    [pairs] = secret_pairs_of("all", [secret(50)]).values()
    assert len(pairs) == 1_225
    with pytest.raises(ValueError, match="'city' has 51 values, and 50 are the most"):
        secret_pairs_of("all", [secret(51)])


@pytest.mark.filterwarnings("ignore:Column.* need no noise:UserWarning")
@pytest.mark.parametrize(
    "promise",
    [
        {"delta": 1e-5},
        {"alpha": 2.0},
        {"noise": "cauchy"},
        pytest.param({"prior": "gaussian"}, marks=pytest.mark.slow),
    ],
)
def test_pairs_that_are_looked_at_one_by_one_are_refused_earlier(promise):
    noiser = PufferfishNoiser(1.0, sensitive="city", public="t", **promise)
    noiser.set_params(secret_pairs=all_of(52))
    with pytest.raises(ValueError, match=r"pairs of 'city' make 1,326 pairs, and 1,275"):
        noiser.fit(table(52, 1_000))
    noiser.set_params(secret_pairs=[(0, 1)]).fit(table(52, 1_000))


def test_a_pair_of_many_listed_ones_is_found_without_a_search():
    class Counted(int):
        compared = 0

        def __eq__(self, other):
            Counted.compared += 1
            return int(self) == other

        __hash__ = int.__hash__

    labels = tuple(map(Counted, range(2_000)))
    pairs = [(k, k + 1) for k in range(1_999)]
    found = secret_pairs_of(pairs, [Secret("s", labels, CodeArray(np.arange(2_000)))])
    assert found["s"][-1] == (1_998, 1_999)
    assert Counted.compared < 20_000


def calls_made(work):
    """Return how many Python functions some work calls."""
    n_calls = 0

    def count(frame, event, argument):
        nonlocal n_calls
        n_calls += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return n_calls


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"adversaries": "confidence"}, {"public": ["x", "t"]}])
def test_a_fit_makes_few_calls_for_each_further_pair(monkeypatch, options):
    monkeypatch.setattr(selection, "MOST_SECRETS", 150)
    # what depends on one secret alone (distribution, set, reach, layout) is found once for it
    noiser = PufferfishNoiser(1.0, sensitive="city", **{"public": "x", **options})
    noiser.fit(table(50, 1_000))  # what is made once in a process is not counted
    few, many = (calls_made(lambda n=n: noiser.fit(table(n, 1_000))) for n in (50, 150))
    n_pairs = 150 * 149 // 2 - 50 * 49 // 2
    assert many - few < 12 * n_pairs


def test_a_certificate_of_many_pairs_is_read_with_few_calls():
    noiser = PufferfishNoiser(1.0, sensitive="city", public="x", secret_pairs=all_of(100))
    certificate = noiser.fit(table(100, 1_000)).certificate_
    n_rows = len(certificate.pairs)
    assert calls_made(lambda: certificate.table) < n_rows
    assert calls_made(lambda: certificate.details()) < 2 * n_rows
    assert calls_made(lambda: noiser.transform(table(100, 1_000))) < n_rows
    frame = certificate.table
    assert list(frame.itertuples(index=False, name=None)) == [
        tuple(vars(pair).values()) for pair in certificate.pairs
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("n_paired", "at_once"), [(40, False), (2, True)])
def test_the_set_around_many_pairs_is_looked_through_when_it_is_asked_for(
    monkeypatch, n_paired, at_once
):
    monkeypatch.setattr(against, "CHEAP", 2**10)
    noiser = PufferfishNoiser(1.0, sensitive="city", public="x", secret_pairs=all_of(n_paired))
    certificate = noiser.fit(table(100, 1_000)).certificate_
    assert (certificate.known_over_set is not None) is at_once
    assert certificate.over_set.loss == pytest.approx(certificate.loss)
