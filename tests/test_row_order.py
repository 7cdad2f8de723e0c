"""The order of rows and their index are released, so `fit` looks whether they tell the secret."""

import itertools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sklearn_puffer import PufferfishNoiser, PufferfishSwap, PufferfishWarning, report
from sklearn_puffer._rows import rows
from sklearn_puffer._rows.rows import (
    _p_value_of_ranks,
    _p_value_of_runs,
    order_of,
)

N = 400
RNG = np.random.default_rng(7)
SECRETS = RNG.permutation(np.repeat(["a", "b"], N // 2))
SHUFFLED = pd.DataFrame({"secret": SECRETS, "cars": RNG.integers(0, 2, N)})
SORTED = SHUFFLED.sort_values("secret")
AS_THEY_ARE = "The order of the rows and their index are released as they are, and not protected."

TOLD = {
    "sorted": (SORTED.reset_index(drop=True), "order"),
    "sorted, with the old labels": (SORTED, "order"),
    "sorted downwards": (SORTED[::-1].reset_index(drop=True), "order"),
    "shuffled after labels were given": (
        SORTED.reset_index(drop=True).sample(frac=1, random_state=1),
        "index",
    ),
    "labels that are the secret": (SHUFFLED.set_axis(SHUFFLED["secret"].to_numpy()), "index"),
    "labels of text": (
        SHUFFLED.set_axis([f"{s}-{k % 97}" for k, s in enumerate(SECRETS)]),
        "index",
    ),
    "labels of two levels": (
        SHUFFLED.set_axis(pd.MultiIndex.from_arrays([RNG.permutation(N), SECRETS])),
        "index",
    ),
    "runs of ten": (SHUFFLED.assign(secret=np.tile(["a"] * 10 + ["b"] * 10, N // 20)), "order"),
    "one by one": (SHUFFLED.assign(secret=np.tile(["a", "b"], N // 2)), "order"),
}


def fitted(table, **params):
    """Return a fitted noiser, and what it warned of the order."""
    sensitive = None if "sensitive_features" in params else "secret"
    fit = {x: params.pop(x) for x in ("sensitive_features", "sample_weight") if x in params}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PufferfishWarning)
        noiser = PufferfishNoiser(3.0, sensitive=sensitive, **params).fit(table, **fit)
    return noiser, [
        str(each.message) for each in caught if "of the rows tells" in str(each.message)
    ]


def said(noiser):
    return [
        x for x in noiser.certificate_.assumptions if " of the rows" in x[:40] and "released" in x
    ]


def swapped(table, **params):
    """Return what a swap warns of, and what its certificate says of ids."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PufferfishWarning)
        swap = PufferfishSwap(3.0, sensitive="secret", ids="client", **params)
        swap.fit_transform(table)
    told = [x for x in swap.certificate_.assumptions if "The order of ids" in x]
    return [str(each.message)[:60] for each in caught], told


@pytest.mark.parametrize("form", ["{}", "c{:04}"])
def test_a_swap_says_where_ids_that_it_releases_are_in_an_order_that_tells_the_secret(form):
    numbered = SORTED.assign(client=[form.format(k) for k in range(N)])
    numbered["client"] = numbered["client"].astype(int) if form == "{}" else numbered["client"]
    shuffled = numbered.sample(frac=1, random_state=2).reset_index(drop=True)
    warned, told = swapped(shuffled)
    assert warned == ["ids 'client' are in an order that tells a secret, and are re"]
    assert len(told) == 1
    assert "The guarantee does NOT cover that: draw new ids" in told[0]
    at_random = shuffled.assign(client=np.random.default_rng(3).permutation(N))
    assert swapped(at_random) == ([], [])


def test_ids_may_tell_what_is_known_of_people_and_what_groups_they_are_in():
    town = RNG.integers(0, 4, N)
    ill = np.where(RNG.random(N) < 0.1 + 0.2 * town, "a", "b")
    towns = SHUFFLED.assign(secret=ill, town=town, client=1000 * town + RNG.permutation(N))
    assert swapped(towns)[1]
    assert swapped(towns, known="town") == ([], [])
    homes = pd.DataFrame({"home": np.arange(N) // 2, "client": range(N)})
    homes = homes.assign(secret=SECRETS[homes["home"]], cars=SHUFFLED["cars"])
    shuffled = homes.sample(frac=1, random_state=4).reset_index(drop=True)
    assert swapped(shuffled, groups="home") == ([], [])


@pytest.mark.parametrize("kind", ["internal", "external"])
def test_a_report_says_beside_its_conditions_that_the_order_is_not_covered(kind):
    sorted_rows, _ = fitted(SORTED.reset_index(drop=True), n_bins=2)
    shuffled, _ = fitted(SHUFFLED, n_bins=2)
    told, quiet = (str(report(each, kind=kind)) for each in (sorted_rows, shuffled))
    told = told.partition("\nSettings:")[0]
    assert "The order of the rows tells 'secret'" in told
    # the way out is the sender's
    ways_out = {"internal": "does NOT cover that: shuffle the rows", "external": "NOT cover that."}
    assert ways_out[kind] in told
    assert "does NOT cover that" not in quiet


UNCHANGED = pytest.mark.filterwarnings("ignore:Column.s. 'cars' need no noise")


@pytest.mark.parametrize("kind", TOLD)
def test_an_order_or_an_index_that_tells_is_warned_of_and_certified(kind):
    table, what = TOLD[kind]
    noiser, told = fitted(table)
    assert len(told) == 1
    assert told[0].startswith(f"the {what}")
    assert "tells 'secret' and is released" in told[0]
    way = "reset the index" if what == "index" else "shuffle the rows"
    assert way in told[0]
    [risk] = [x for x in str(noiser.certificate_).splitlines() if "does NOT cover that" in x]
    assert risk.startswith("Risk: The ")
    assert len(told[0]) <= 200
    assert any("does NOT cover that" in x and way in x for x in said(noiser))


@pytest.mark.parametrize(
    "table",
    [SHUFFLED, SHUFFLED.set_axis(RNG.permutation(N)), pl.from_pandas(SHUFFLED)],
    ids=["pandas", "an index of lots", "polars"],
)
def test_nothing_is_said_of_shuffled_rows_but_that_their_order_is_released(table):
    noiser, told = fitted(table)
    assert told == []
    [sentence] = said(noiser)
    assert AS_THEY_ARE in sentence


@pytest.mark.parametrize("kind", ["polars", "array", "beside"])
def test_tables_without_an_index_have_an_order(kind):
    array = SORTED[["cars"]].to_numpy()
    noiser, told = {
        "polars": lambda: fitted(pl.from_pandas(SORTED)),
        "array": lambda: fitted(array, sensitive_features=SORTED["secret"].to_numpy()),
        "beside": lambda: fitted(SORTED[["cars"]], sensitive_features=SORTED["secret"]),
    }[kind]()
    assert len(told) == 1
    assert "does NOT cover" in said(noiser)[-1]


def test_a_lazy_table_has_no_order():
    noiser, told = fitted(pl.from_pandas(SORTED).lazy())
    assert told == []
    assert AS_THEY_ARE in said(noiser)[0]


def test_a_table_of_counts_has_no_order_and_rows_of_weight_zero_none():
    counted, told = fitted(SORTED.reset_index(drop=True), sample_weight=1 + np.arange(N) % 2)
    assert told == []
    assert AS_THEY_ARE in said(counted)[0]
    both = pd.concat([SORTED, SHUFFLED], ignore_index=True)
    first = np.arange(2 * N) < N
    assert fitted(both, sample_weight=1 * ~first)[1] == []
    assert len(fitted(both, sample_weight=1 * first)[1]) == 1


@UNCHANGED
def test_the_warning_is_short_whatever_the_columns_are_called():
    names = [f"{k}{'very ' * 12}long" for k in range(5)]
    frame = SORTED.reset_index(drop=True)[["cars"]].assign(
        **dict.fromkeys(names, SORTED["secret"].to_numpy())
    )
    with pytest.warns(PufferfishWarning, match=r"order of the rows tells 5 sensitive") as caught:
        PufferfishNoiser(3.0, sensitive=names).fit(frame)
    assert max(len(str(x.message)) for x in caught if "tells" in str(x.message)) <= 200


@UNCHANGED
def test_only_the_columns_that_are_told_are_named():
    frame = SORTED.reset_index(drop=True).assign(other=SECRETS)
    with pytest.warns(PufferfishWarning, match=r"order of the rows tells 'secret' and"):
        PufferfishNoiser(3.0, sensitive=["other", "secret"], public="cars").fit(frame)


def test_many_rows_are_looked_at_in_blocks(monkeypatch):
    monkeypatch.setattr(rows, "_N_BLOCKS", 8)
    monkeypatch.setattr(rows, "_BLOCK", 20)
    for kind, (table, what) in TOLD.items():
        _, told = fitted(table)
        assert [x.startswith(f"the {what}") for x in told] == [True], kind
    assert fitted(SHUFFLED)[1] == []


@pytest.mark.slow
@pytest.mark.parametrize(("n_rows", "n_secrets"), [(24, 2), (24, 12), (60, 3), (300, 2), (300, 12)])
def test_shuffled_rows_are_told_at_most_as_often_as_the_error_says(n_rows, n_secrets):
    rng = np.random.default_rng(n_rows + n_secrets)
    error, draws, found = 0.02, 1500, 0
    for _ in range(draws):
        sizes = rng.dirichlet(np.full(n_secrets, 0.7))
        codes = np.unique(rng.choice(n_secrets, n_rows, p=sizes), return_inverse=True)[1]
        labels = [
            rng.permutation(n_rows),
            np.unique(rng.integers(0, 9, n_rows), return_inverse=True)[1],
        ]
        found += bool(order_of({"secret": codes}, labels, error).told)
    assert stats.binomtest(found, draws, error, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize(("n_rare", "n_secret"), [(1, 2), (8, 12), (3, 200)])
def test_a_rare_label_that_meets_a_rare_secret_by_chance_tells_nothing(n_rare, n_secret):
    """The chance of each meeting is known, and is held against the bound on it."""
    rare, secret = np.zeros(N, dtype=int), np.zeros(N, dtype=int)
    rare[:n_rare] = 1
    for shared in range(max(0, n_rare + n_secret - N), min(n_rare, n_secret) + 1):
        secret[:] = 0
        secret[n_rare - shared : n_rare - shared + n_secret] = 1
        chance = stats.hypergeom.pmf(shared, N, n_rare, n_secret)
        if order_of({"secret": secret}, [rare]).index:
            assert chance <= rows._ERROR
        if chance < 1e-12:
            assert order_of({"secret": secret}, [rare]).index


@given(
    st.lists(st.integers(0, 2), min_size=3, max_size=40).filter(lambda x: len(set(x)) > 1),
    st.integers(1, 40),
)
def test_ranks_are_tested_as_scipy_does(secrets, n_labels):
    codes = np.unique(secrets, return_inverse=True)[1]
    values = np.random.default_rng(n_labels).integers(0, n_labels, len(codes))
    ours = _p_value_of_ranks(codes, np.bincount(codes), stats.rankdata(values))
    if len(set(values.tolist())) == 1:
        assert ours == 1.0
    else:
        theirs = stats.kruskal(*(values[codes == k] for k in range(codes.max() + 1)))
        assert ours == pytest.approx(theirs.pvalue, rel=1e-9)


@pytest.mark.parametrize("secrets", ["aaabbb", "aabbcc", "aaaaab", "aaaabbb", "abcdef", "aaaabbcc"])
def test_runs_are_hardly_ever_as_odd_as_their_bound_says(secrets):
    every = np.array(list(itertools.permutations(np.unique(list(secrets), return_inverse=True)[1])))
    orders, times = np.unique(every, axis=0, return_counts=True)
    sizes = np.bincount(orders[0])
    bounds = np.array([_p_value_of_runs(order, sizes) for order in orders])
    for level in np.unique(bounds):
        assert times[bounds <= level].sum() / times.sum() <= level * (1 + 1e-9)
