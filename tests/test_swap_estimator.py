"""`PufferfishSwap`: true secrets of whoever holds a row, and all else that a release is."""

import copy
import dataclasses
import json
import math
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from claims import altered
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from sklearn_puffer import (
    OverspentError,
    PersonLedger,
    PufferfishNoiser,
    PufferfishRelease,
    PufferfishSwap,
    PufferfishWarning,
)
from sklearn_puffer._losses import insider_loss, outsider_loss
from sklearn_puffer._release.artifact import checksum
from sklearn_puffer._swap.exchange import sizes_of_piece
from sklearn_puffer._swap.release import RowExchange
from sklearn_puffer._tables import frame_table, id_values, row_digests

KEY = b"blake2b:" + bytes(range(32))


def people(n=400, seed=0, secrets=("no", "yes"), shares=(0.7, 0.3)):
    rng = np.random.default_rng(seed)
    ill = rng.choice(len(secrets), n, p=shares)
    return pd.DataFrame(
        {
            "client": np.arange(n) + 1000,
            "ill": np.array(secrets)[ill],
            "age": 40 + 9 * ill + rng.integers(0, 20, n),
            "pay": rng.normal(size=n) + ill,
            "town": rng.choice(list("ABC"), n),
        }
    )


TABLE = people()


def swap_of(**params):
    return PufferfishSwap(**{"sensitive": "ill", "ids": "client"} | params)


def released_often(table, params, times):
    """Return a fitted swap, and fresh releases of a table with the secret of each row."""
    fitted = swap_of(**{"public": ["ill", "pay", "age"]} | params).fit(table)
    # a copy is another object, which has released nothing
    return fitted, [copy.copy(fitted).transform(table) for _ in range(times)]


# ------------------------------------------------------------------------- what a reader finds out


@pytest.mark.slow
@pytest.mark.parametrize("matching", ["nearest", "parts", "random"])
def test_holders_of_rows_of_a_secret_have_a_secret_as_often_as_mean_flows_say(matching):
    """The reader has the list with the secrets; three secrets tell transposed flows apart."""
    secrets = ("cold", "flu", "none")
    table, times = people(300, 0, secrets, (0.1, 0.3, 0.6)), 60
    counts = np.zeros((3, 3))
    params = {"matching": matching, "secret_pairs": PAIRS}
    fitted, releases = released_often(table, params, times)
    for released in releases:
        counts += pd.crosstab(table["ill"], released["ill"]).to_numpy() / times
    sizes = table["ill"].value_counts()[list(secrets)].to_numpy()
    wanted = fitted.flows_.loc[list(secrets), list(secrets)].to_numpy() * sizes[:, None]
    assert np.abs(wanted - wanted.T).max() > 3.0  # transposed flows would be found out
    assert (np.abs(counts - wanted) < 4.5 * np.sqrt(wanted / times) + 0.05).all()


PAIRS = [("cold", "flu"), ("flu", "none")]  # so that flows are not symmetric


@pytest.fixture
def adult(table):
    columns = ["age", "relationship", "education-num", "hours-per-week", "income"]
    rows = table("adult")[["sex", *columns]].sample(1200, random_state=5).reset_index(drop=True)
    return rows.assign(client=rows.index)


def odds_of(people_of, others_of, shares):
    return abs(math.log(people_of / others_of * shares[1] / shares[0]))


@pytest.mark.slow
def test_readers_who_know_that_a_column_tells_the_sex_do_not_shift_true_odds_of_adults(adult):
    """A husband's row says male at 99 to 1, a wife's female: the best model of any cell."""
    params = {"sensitive": "sex", "public": [c for c in adult.columns if c != "client"]}
    fitted, releases = released_often(adult, params, 40)
    held = pd.concat(releases, ignore_index=True)
    own = pd.concat([adult["sex"]] * len(releases), ignore_index=True)
    male = (adult["sex"] == "Male").mean()
    flows, sizes = fitted.flows_, adult["sex"].value_counts()
    for picked in (
        held["relationship"] == "Husband",
        held["relationship"] == "Wife",
        held["relationship"].isin(["Not-in-family", "Own-child"]) & (held["age"] < 30),
        held["hours-per-week"] > 45,
    ):
        for b in ("Male", "Female"):
            rows = picked & (held["sex"] == b)
            n = int(rows.sum())
            if n < 800:
                continue
            share = float((own[rows] == "Male").mean())
            wanted = flows.loc["Male", b] * sizes["Male"] / sizes[b]
            # releases of one table are independent, rows of one release nearly
            assert abs(share - wanted) < 5.0 * math.sqrt(wanted * (1 - wanted) / n) + 0.002
            assert odds_of(share, 1.0 - share, (male, 1.0 - male)) < 1.0 + 0.15


@pytest.mark.slow
def test_insiders_find_true_secrets_within_their_budget():
    """Over releases: who holds the row of somebody else, by the row's secret and the holder's."""
    table, times = people(120, 1), 150
    table["pay"] = np.arange(120) + 0.25  # whose row it is
    foreign = np.zeros((2, 2))
    fitted, releases = released_often(table, {}, times)
    for released in releases:
        moved = released["pay"].to_numpy() != table["pay"].to_numpy()
        for a, own in enumerate(("no", "yes")):
            for b, held in enumerate(("no", "yes")):
                here = moved & (table["ill"] == own) & (released["ill"] == held)
                foreign[a, b] += here.sum()
    sizes = table["ill"].value_counts()[["no", "yes"]].to_numpy()
    for b in (0, 1):
        left = sizes - (np.arange(2) == b)
        odds = abs(math.log(foreign[0, b] / left[0] / (foreign[1, b] / left[1])))
        assert odds < fitted.certificate_.facts.insiders + 0.25
        assert fitted.certificate_.facts.insiders == 2.0


def test_the_certificate_states_what_own_arithmetic_finds_of_the_flows_shown():
    for params in ({}, {"insiders": None}, {"epsilon": 0.4, "insiders": 0.5}):
        swap = swap_of(**params).fit(TABLE)
        epsilon = params.get("epsilon", 1.0)
        flows = swap.flows_.to_numpy()
        odds = np.abs(np.log(flows[0] / flows[1])).max()  # F(s, b) / n_s are the shares shown
        assert odds == pytest.approx(swap.certificate_.loss, abs=1e-6)
        assert odds <= swap.certificate_.loss <= epsilon
        np.testing.assert_allclose(flows.sum(axis=1), 1.0)
        assert (swap.stays_.to_numpy() <= np.diag(flows) + 1e-12).all()
        assert swap.certificate_.holds
        assert swap.certificate_.table["upper"].max() == swap.certificate_.loss


def test_a_delta_is_spent_and_proven():
    swap = swap_of(epsilon=0.5, delta=0.05).fit(TABLE)
    flows = swap.flows_.to_numpy()
    spent = max(
        np.maximum(flows[s] - math.exp(0.5) * flows[t], 0.0).sum() for s, t in ((0, 1), (1, 0))
    )
    assert spent == pytest.approx(0.05, rel=1e-4)
    assert swap.certificate_.loss == pytest.approx(spent, rel=1e-6)
    assert "delta = 0.05" in swap.certificate_.promise()


def test_realised_flows_leave_no_trace_in_what_is_shown_or_saved():
    fitted = swap_of().fit(TABLE)
    told_of, tables = [], []
    for _ in range(3):
        again = copy.copy(fitted)
        tables.append(again.transform(TABLE))
        record = again.certificate_.to_dict() | {"date": ""}
        told_of.append((record, again.flows_.to_dict(), again.stays_.to_dict()))
    assert told_of[0] == told_of[1] == told_of[2]
    assert not tables[0].equals(tables[1])


# ------------------------------------------------------------------------------- what is exchanged


def as_rows(frame):
    """Return the rows of a table in an order of their own, with one zero and one missing value."""
    cells = frame.astype(object).where(frame.notna(), "gone")
    return sorted(tuple(repr(0.0 if x == 0 else x) for x in row) for row in cells.to_numpy())


def test_rows_stay_whole_and_people_stay_where_they_were():
    table = TABLE.set_index(pd.Index([f"p{k}" for k in range(len(TABLE))], name="person"))
    swap = swap_of(public=["pay", "ill", "age"], known="town")
    released = swap.fit_transform(table)
    assert list(released.columns) == ["client", "ill", "age", "pay", "town"]
    assert list(swap.get_feature_names_out()) == list(released.columns)
    assert released.index.equals(table.index)
    assert released.dtypes.equals(table.dtypes)
    assert (released[["client", "town"]] == table[["client", "town"]]).all(axis=None)
    for town in "ABC":
        both = [t.loc[t["town"] == town, ["ill", "age", "pay"]] for t in (table, released)]
        assert as_rows(both[0]) == as_rows(both[1])
    own = (released["pay"] == table["pay"]).mean()
    assert 0.4 < own < 0.95


def test_the_secret_is_released_only_where_public_names_it():
    assert "ill" not in swap_of().fit_transform(TABLE)
    assert "ill" in swap_of(public=["ill", "pay"]).fit_transform(TABLE)


@pytest.mark.parametrize(
    "columns", [{"public": ["pay", "age"], "remainder": "passthrough"}, {"public": None}]
)
def test_a_sensitive_column_that_is_given_beside_the_rows_as_well_is_not_released(columns):
    swap = swap_of(sensitive=None, **columns)
    released = swap.fit_transform(TABLE, sensitive_features=TABLE["ill"])
    assert "ill" not in released
    assert list(released) == list(swap.get_feature_names_out())
    rows, swap = TABLE.drop(columns="ill"), clone(swap).fit(TABLE, sensitive_features=TABLE["ill"])
    beside = {"sensitive_features": TABLE["ill"], "row_id": "client", "key": KEY}
    assert swap.transform(rows, **beside).equals(swap.transform(TABLE, **beside))


def test_a_sensitive_column_that_is_given_beside_the_rows_as_well_has_one_role():
    known = swap_of(sensitive=None, public=["pay"], known="ill")
    with pytest.raises(ValueError, match="'ill' is named in sensitive= and in known="):
        known.fit(TABLE, sensitive_features=TABLE["ill"])
    moving = swap_of(sensitive=None, public=["pay", "ill"])
    released = moving.fit_transform(TABLE, sensitive_features=TABLE["ill"])
    both = TABLE.set_index("pay")["ill"], released.set_index("pay")["ill"]
    assert both[1].loc[both[0].index].equals(both[0])  # it moves with its row


def test_known_columns_are_released_in_bins_or_by_a_mapping_and_people_exchange_within_these():
    towns = {"A": "north", "B": "north"}
    table = TABLE.assign(day=pd.Timestamp("2020-01-01") + pd.to_timedelta(TABLE["age"], "D"))
    swap = swap_of(known={"age": 3, "town": towns, "day": 2}, public=["pay", "ill"])
    released = swap.fit_transform(table)
    assert released["age"].dtype == table["age"].dtype
    assert released["day"].dtype == table["day"].dtype
    assert set(released["town"]) == {"north", "C"}
    assert released["age"].nunique() == 3
    cuts = pd.qcut(table["age"], 3, labels=False)
    assert (released["age"] == table["age"].groupby(cuts).transform("median")).mean() > 0.6
    medians = table["age"].groupby(released["age"]).median()
    assert (np.abs(medians - medians.index) < 1).all()
    for _, rows in table.groupby([released["age"], released["town"], released["day"]]):
        assert sorted(released.loc[rows.index, "pay"]) == sorted(rows["pay"])
    assert swap.certificate_.facts.n_strata == len(
        released.groupby(["age", "town", "day"], observed=True)
    )
    assert swap.certificate_.facts.strata == ("age (in bins)", "town (merged)", "day (in bins)")
    later = people(50, 8).assign(client=range(50), day=table["day"].iloc[:50])
    again = swap.transform(later)
    assert set(again["age"]) <= set(released["age"])  # representatives are those of fit


def test_known_numbers_may_lack_values_and_stand_beside_passed_columns():
    table = TABLE.assign(pay=TABLE["pay"].mask(TABLE.index % 7 == 0))
    swap = swap_of(known={"pay": 2}, public=["age"], remainder="passthrough")
    released = swap.fit_transform(table)
    assert released["pay"].isna().equals(table["pay"].isna())
    assert released["pay"].nunique() == 2
    assert released["town"].equals(table["town"])


def test_passed_columns_are_strata_too():
    swap = swap_of(public=["pay"], remainder="passthrough")
    rows = TABLE.assign(age=TABLE["age"] // 20)
    released = swap.fit_transform(rows)
    for both in rows.groupby(["age", "town"]).groups.values():
        assert sorted(released.loc[both, "pay"]) == sorted(rows.loc[both, "pay"])
    assert swap.certificate_.facts.strata == ("age", "town")


def typed():
    rng = np.random.default_rng(7)
    n = 300
    zeros = rng.choice([0.0, -0.0, 1.5, np.nan], n)
    return pd.DataFrame(
        {
            "ill": rng.random(n) < 0.4,
            "zero": zeros,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 50, n), "D"),
            "visits": pd.Series(rng.integers(0, 9, n), dtype="Int64").mask(rng.random(n) < 0.2),
            "word": pd.Series(rng.choice(["a", "b", None, np.nan], n), dtype=object),
            "grade": pd.Categorical.from_codes(rng.integers(0, 3, n), list("xyz"), ordered=True),
            "few": rng.integers(0, 5, n).astype(np.int8),
            "client": [f"c{k}" for k in range(n)],
        }
    )


def test_every_type_goes_out_as_it_came_in_and_equal_values_look_alike():
    table = typed()
    released = swap_of(public=[c for c in table if c not in ("client",)]).fit_transform(table)
    assert released.dtypes.equals(table.dtypes)
    assert as_rows(released.drop(columns="client")) == as_rows(table.drop(columns="client"))
    zeros = released["zero"].to_numpy()
    assert not np.signbit(zeros[zeros == 0.0]).any()
    gone = {repr(value) for value in released["word"] if value is None or value != value}
    assert len(gone) == 1


def test_infinite_numbers_change_hands_as_any_other():
    table = TABLE.assign(pay=TABLE["pay"].mask(TABLE["pay"] > 0.0, np.inf))
    released = swap_of(public=["pay"]).fit_transform(table)
    assert sorted(released["pay"]) == sorted(table["pay"])


def test_polars_and_arrays_come_out_as_what_they_were():
    pl = pytest.importorskip("polars")
    table = pl.DataFrame(TABLE)
    released = swap_of().fit_transform(table)
    assert isinstance(released, pl.DataFrame)
    assert released.columns == ["client", "age", "pay", "town"]
    assert sorted(released["pay"]) == sorted(table["pay"])
    X = TABLE[["client", "age", "pay"]].to_numpy()
    swap = PufferfishSwap(ids=0)
    out = swap.fit_transform(X, sensitive_features=TABLE["ill"])
    assert isinstance(out, np.ndarray)
    assert (out[:, 0] == X[:, 0]).all()
    assert as_rows(pd.DataFrame(out[:, 1:])) == as_rows(pd.DataFrame(X[:, 1:]))
    assert (out[:, 2] != X[:, 2]).any()


# ------------------------------------------------------------------------------------------- keyed


def test_the_same_table_and_key_are_the_same_release_in_any_order_of_the_rows():
    shuffled = TABLE.sample(frac=1.0, random_state=2)
    first = swap_of(known="town").fit_transform(TABLE, row_id="client", key=KEY)
    second = swap_of(known="town").fit_transform(shuffled, row_id="client", key=KEY)
    assert second.sort_index().equals(first)
    other = swap_of(known="town").fit_transform(TABLE, row_id="client", key=KEY[:-1] + b"x")
    assert not other.equals(first)
    assert (first["pay"] != TABLE["pay"]).mean() > 0.1
    named = swap_of(known="town").fit_transform(TABLE, row_id="client", key=KEY, dataset="b")
    assert named.equals(first)  # another name would be a second swap of the same people


def test_any_other_row_is_another_swap_under_the_same_key():
    later = TABLE.copy()
    later.loc[0, "pay"] += 1e-9
    swap = swap_of().fit(TABLE)
    first = swap.transform(TABLE, row_id="client", key=KEY)
    second = copy.copy(swap).transform(later, row_id="client", key=KEY)
    gets = [dict(zip(t["pay"].round(6), t["client"], strict=True)) for t in (first, second)]
    assert sum(gets[0][pay] != gets[1][pay] for pay in gets[0]) > 40


def test_a_second_swap_of_the_same_people_is_refused():
    swap = swap_of().fit(TABLE)
    swap.transform(TABLE)
    for again in (TABLE, TABLE.iloc[:50], TABLE.assign(pay=TABLE["pay"] + 1.0)):
        with pytest.raises(OverspentError, match="tell more together"):
            swap.transform(again)
    with pytest.raises(OverspentError, match="tell more together"):
        swap.transform(TABLE, row_id="client", key=KEY)
    newcomers = people(200, 9).assign(client=range(200))
    assert len(swap.transform(newcomers)) == 200


def test_clones_and_copies_from_files_start_anew():
    swap = swap_of().fit(TABLE)
    swap.transform(TABLE)
    for other in (clone(swap).fit(TABLE), pickle.loads(pickle.dumps(swap))):
        assert len(other.transform(TABLE)) == len(TABLE)


def test_a_keyed_release_is_given_again_and_no_other_one():
    swap = swap_of().fit(TABLE)
    first = swap.transform(TABLE, row_id="client", key=KEY)
    assert swap.transform(TABLE[::-1], row_id="client", key=KEY)[::-1].equals(first)
    with pytest.raises(OverspentError, match="tell more together"):
        swap.transform(TABLE, row_id="client", key=KEY[:-1] + b"x")
    with pytest.raises(OverspentError, match="tell more together"):
        swap.transform(TABLE)
    with pytest.raises(OverspentError, match="beyond the releases=1"):
        swap.transform(TABLE, row_id="client", key=KEY, release=1)


def test_without_ids_the_same_rows_are_known_by_their_values():
    swap = swap_of(ids=None, known="town", public=["age", "pay"]).fit(TABLE)
    swap.transform(TABLE)
    with pytest.raises(OverspentError, match="100% of these rows"):
        swap.transform(TABLE.sample(frac=1.0, random_state=0))


# ----------------------------------------------------------------------------- secrets as they are


def test_combinations_of_several_sensitive_columns_are_protected():
    table = TABLE.assign(poor=np.random.default_rng(2).random(len(TABLE)) < 0.4)
    swap = swap_of(sensitive=["ill", "poor"]).fit(table)
    assert swap.flows_.shape == (4, 4)
    assert list(swap.stays_.index) == [("no", False), ("no", True), ("yes", False), ("yes", True)]
    flows = swap.flows_.to_numpy()
    worst = max(np.abs(np.log(flows[s] / flows[t])).max() for s in range(4) for t in range(s))
    assert worst == pytest.approx(1.0, abs=1e-6)
    assert len(swap.certificate_.pairs) == 12
    one = swap_of(sensitive=["ill", "poor"], secret_pairs=[(("no", True), ("yes", True))])
    assert len(one.fit(table).certificate_.pairs) == 2


def test_missing_secrets_are_refused_or_a_group():
    table = TABLE.assign(ill=TABLE["ill"].mask(np.arange(len(TABLE)) % 9 == 0))
    with pytest.raises(ValueError, match="missing"):
        swap_of().fit(table)
    swap = swap_of(missing="category").fit(table)
    assert set(swap.flows_.index) == {"no", "yes", "missing"}
    assert len(swap.transform(table)) == len(table)


def test_numbers_are_secrets_in_bins():
    swap = swap_of(sensitive={"age": 4}).fit(TABLE)
    assert len(swap.flows_) == 4
    released = swap.transform(TABLE)
    assert "age" not in released
    edges = swap_of(sensitive={"age": [50, 60]}).fit(TABLE)
    assert len(edges.flows_) == 3


def test_merged_secrets_are_exchanged_as_one_and_the_certificate_says_so():
    table = people(600, 3, ("cold", "flu", "none"), (0.15, 0.35, 0.5))
    swap = swap_of(secret_groups={"ill": ["cold", "flu"]}, public=["ill", "pay"])
    released = swap.fit_transform(table)
    assert list(swap.flows_.index) == ["ill", "none"]
    assert sorted(released["ill"]) == sorted(table["ill"])  # values travel as they are
    beside = table.assign(ill=np.where(table["ill"] == "none", "none", "ill"))
    other = swap_of(public=["ill", "pay"]).fit(beside)
    assert swap.certificate_.loss == pytest.approx(other.certificate_.loss, abs=1e-6)
    assert any(
        "merged values: values within one of them are NOT" in said
        for said in swap.certificate_.assumptions
    )
    two = table.assign(poor=np.random.default_rng(2).random(len(table)) < 0.4)
    named = swap_of(sensitive=["ill", "poor"], secret_groups={"ill": {"any": ["cold", "flu"]}})
    assert list(named.fit(two).stays_.index)[:2] == [("any", False), ("any", True)]
    with pytest.raises(ValueError, match="name the column"):
        swap_of(sensitive=["ill", "poor"], secret_groups={"any": ["cold"]}).fit(two)


def test_what_insiders_learn_grows_with_the_distance_of_secrets_as_the_certificate_says():
    rng, n = np.random.default_rng(0), 40
    table = pd.DataFrame({"age": np.repeat(range(5), n), "pay": rng.normal(size=5 * n)})
    table["id"] = range(5 * n)
    bins = {"age": [0.5, 1.5, 2.5, 3.5]}
    swap = PufferfishSwap(0.5, sensitive=bins, public="pay", ids="id", metric="steps").fit(table)
    foreign = n * swap.flows_.to_numpy() - n * np.diag(swap.stays_)
    told = np.log(foreign / (n - np.eye(5)))
    steps = np.abs(np.subtract.outer(range(5), range(5)))
    apart = np.abs(told[:, None] - told[None]).max(axis=2)
    assert (apart <= 1.0 * steps + 1e-6).all()
    assert apart.max() > 1.2
    far = (apart / np.maximum(steps, 1)).max()  # of a unit of distance
    assert far <= swap.certificate_.facts.insider_loss + 1e-6 <= 1.0 + 2e-6
    assert far > swap.certificate_.facts.insider_loss - 1e-6
    said = "about the holder at most 2.72 times, to the power of their distance, if he goes"
    assert said in str(swap.certificate_)


@pytest.mark.parametrize("metric", ["steps", lambda a, b: 0.5 * abs(LABELS[a] - LABELS[b])])
def test_each_pair_of_bins_has_a_budget_of_its_own_that_grows_with_their_distance(metric):
    swap = swap_of(sensitive={"age": [45, 52, 60]}, metric=metric, insiders=None).fit(TABLE)
    flows, scale = swap.flows_.to_numpy(), 1.0 if metric == "steps" else 0.5
    odds = np.abs(np.log(flows[:, None] / flows[None])).max(axis=2)
    steps = np.abs(np.arange(4)[:, None] - np.arange(4))
    assert (odds <= scale * steps + 1e-9).all()
    assert odds.max() > 1.5 * scale  # more than one budget for all pairs would allow
    certificate = swap.certificate_
    assert certificate.holds
    assert certificate.loss <= 1.0
    table = certificate.table
    assert (table["upper"] <= table["bound"]).all()
    assert table["bound"].max() == 3.0 * scale
    assert "to the power of their distance" in certificate.promise()
    assert any("values within one of them are NOT" in said for said in certificate.assumptions)
    near = table[table["bound"] == scale].index[0]
    pairs = list(certificate.pairs)
    pairs[near] = dataclasses.replace(pairs[near], upper=1.2 * scale)  # within the widest budget
    assert not altered(certificate, pairs=tuple(pairs)).holds


LABELS = {"(-inf, 45]": 0, "(45, 52]": 1, "(52, 60]": 2, "(60, inf)": 3}


def test_pairs_that_are_not_protected_may_be_told():
    table = people(300, 3, ("cold", "flu", "none"), (0.15, 0.35, 0.5))
    swap = swap_of(secret_pairs=[("cold", "flu")], insiders=None).fit(table)
    assert swap.stays_["none"] == 1.0
    assert swap.stays_["flu"] < 0.9


def test_a_rare_secret_is_told_of_by_its_share():
    table = TABLE.assign(ill=["rare", "rare", *TABLE["ill"][2:]])
    swap = swap_of().fit(table)
    assert swap.certificate_.facts.rare == 2 / len(table)
    assert "a share of 0.005 of the people are such two" in str(swap.certificate_)
    assert "a share of 0.005 of the people" in str(swap.certificate_)
    assert swap.stays_["rare"] < 0.1
    assert len(swap.transform(table)) == len(table)


# ------------------------------------------------------------------------------ groups of rows


def homes(n=300, seed=0):
    """Return people in homes of one to three, with one secret, whose rows tell home and person."""
    rng = np.random.default_rng(seed)
    home = np.repeat(np.arange(n), rng.integers(1, 4, n))
    owns = (rng.random(n) < 0.4)[home]
    table = pd.DataFrame({"home": home, "owns": owns, "child": rng.random(len(home)) < 0.3})
    return table.assign(
        row=np.arange(len(home)) + 1000, age=rng.integers(0, 80, len(home)) + 9 * owns
    )


HOMES = homes()


def swapped_homes(table=HOMES, **params):
    params = {"sensitive": "owns", "groups": "home", "known": "child", "public": ["age"]} | params
    return PufferfishSwap(**params).fit(table)


def test_a_person_in_several_homes_is_refused_as_each_home_is_exchanged_by_itself():
    ids = HOMES.groupby("home").cumcount()  # numbers within a home, which tell nobody apart
    people = HOMES.assign(person=ids)
    with pytest.raises(ValueError, match=r"ids \('person'\) stand in .*'home' in ids= as well"):
        swapped_homes(people, ids="person")
    assert swapped_homes(people, ids=["person", "home"]).certificate_.holds
    twice = HOMES.assign(person=HOMES["home"])  # rows of one person in one home
    swap = swapped_homes(twice, ids="person")
    assert swap.certificate_.holds
    twice.loc[twice["home"] == 7, "person"] = 3
    with pytest.raises(ValueError, match="1 more group"):
        swapped_homes(twice, ids="person")
    saved = PufferfishRelease.from_json(swap.to_json())
    for release in (swap, saved):
        with pytest.raises(ValueError, match="1 more group"):
            release.transform(twice)
    assert saved.transform(HOMES.assign(person=HOMES["home"])).shape == (len(HOMES), 4)


def test_whole_homes_are_exchanged_among_homes_of_equal_size_and_known_members():
    swap = swapped_homes(public=["row", "age"])
    released = swap.transform(HOMES)
    assert list(released) == ["home", "child", "row", "age"]
    origin = HOMES.set_index("row").loc[released["row"]].reset_index()
    assert sorted(released["row"]) == sorted(HOMES["row"])
    assert (origin["age"].to_numpy() == released["age"].to_numpy()).all()
    assert (origin["child"].to_numpy() == HOMES["child"].to_numpy()).all()
    by_home = origin["home"].groupby(HOMES["home"].to_numpy())
    assert (by_home.nunique() == 1).all()  # all rows of a home are from one home, and of as many
    sizes = HOMES["home"].value_counts()
    assert (sizes.loc[by_home.first()].to_numpy() == sizes.sort_index().to_numpy()).all()
    own = (by_home.first() == by_home.first().index).mean()
    assert abs(own - swap.certificate_.facts.stay) < 0.12
    assert 0.3 < own < 0.95
    assert swap.certificate_.holds


@pytest.mark.slow
def test_the_rows_of_a_home_go_to_its_members_in_any_order_and_homes_as_flows_say():
    """Members of whom the same is known receive either row equally often; homes by mean flows."""
    table = HOMES.assign(child=False)
    fitted, times = swapped_homes(table, public=["row", "age"]), 20
    secret = table.groupby("home")["owns"].first()
    home, ordered, counts = table.set_index("row")["home"], [], np.zeros((2, 2))
    for _ in range(times):
        released = copy.copy(fitted).transform(table)["row"]
        origin = home.loc[released].to_numpy()
        pairs = table["home"].duplicated(keep=False).to_numpy() & (origin != table["home"])
        first = pairs & ~table["home"].duplicated().to_numpy()
        second = np.roll(first, 1)
        ordered.append(released[first].to_numpy() < released[second].to_numpy())
        one = ~table["home"].duplicated().to_numpy()
        counts += (
            np.bincount(
                2 * table.loc[one, "owns"] + secret.loc[origin[one]].to_numpy(), minlength=4
            ).reshape(2, 2)
            / times
        )
    share = np.concatenate(ordered)
    assert abs(share.mean() - 0.5) < 4 * 0.5 / math.sqrt(len(share))
    wanted = fitted.flows_.to_numpy() * np.bincount(secret)[:, None]
    assert (np.abs(counts - wanted) < 4.5 * np.sqrt(wanted / times) + 0.05).all()


def test_the_certificate_of_groups_speaks_of_groups():
    certificate = swapped_homes().certificate_
    assert certificate.groups.max_group == 3
    assert "the group with whom a row is released" in certificate.promise()
    assert "of the groups keep their own rows" in str(certificate)
    assert any("Sizes of groups" in said for said in certificate.assumptions)
    assert certificate.n_rows == len(HOMES)


def test_keyed_homes_are_the_same_in_any_order_and_larger_ones_are_refused():
    swap = swapped_homes(ids="row", public=["age"])
    first = swap.transform(HOMES, row_id="row", key=KEY)
    shuffled = HOMES.sample(frac=1.0, random_state=1)
    assert swap.transform(shuffled, row_id="row", key=KEY).sort_index().equals(first)
    with pytest.raises(ValueError, match="more than max_group=3 rows"):
        swap.transform(HOMES.assign(home=HOMES["home"] // 2))
    with pytest.raises(ValueError, match="more than max_group=2 rows"):
        swapped_homes(max_group=2)
    torn = HOMES.assign(owns=HOMES.index % 2 == 0)
    with pytest.raises(ValueError, match="have rows of different 'owns'"):
        swap.transform(torn)


@pytest.mark.slow
def test_rows_that_are_exchanged_singly_would_tell_more_of_a_home_than_of_a_row():
    """Whose home is it? With groups a majority of rows tells no more than one of them."""
    table = homes(400, 3).assign(child=False)
    table = table[table["home"].map(table["home"].value_counts()) == 3].reset_index(drop=True)
    owns = table.groupby("home")["owns"].first().to_numpy()
    base = owns.mean() / (1 - owns.mean())

    def odds(fitted):
        kept = np.zeros((2, 2))
        for _ in range(20):
            released = copy.copy(fitted).transform(table)
            held = released.groupby(table["home"])["owns"].sum().to_numpy()
            for whole in (0, 3):
                kept[whole // 3] += [(owns[held == whole] == b).sum() for b in (False, True)]
        return np.abs(np.log(kept[:, 1] / kept[:, 0] / base)).max()

    grouped = swapped_homes(table, public=["owns", "row", "age"], known=None)
    alone = PufferfishSwap(sensitive="owns", ids="row", public=["owns", "age"], known=None).fit(
        table
    )
    assert odds(grouped) < 1.2
    assert odds(alone) > 1.8


# ------------------------------------------------------------------------------------ what is said


def test_the_first_screen_has_a_dozen_lines_with_reader_insiders_and_what_is_not_covered():
    text = str(swap_of(known="town").fit(TABLE).certificate_)
    assert len(text.splitlines()) <= 12
    assert "holds the list of all rows with their secrets" in text
    assert "An insider" in text
    assert text.count("Not covered: ") == 3
    for part in ("third parties", "second swap", "not named as known"):
        assert part in text
    assert "among people of the same 'town'" in text
    alone = str(swap_of(insiders=None, matching="random").fit(TABLE).certificate_)
    assert "Not covered: insiders." in alone
    assert "third parties" not in alone


def test_a_certificate_of_groups_counts_groups_and_says_that_their_sizes_tell():
    home = np.concatenate([np.arange(10), np.repeat(np.arange(10, 20), 5)])
    ill = np.where(home < 10, home % 2, 1)  # all families of five are ill
    table = pd.DataFrame({"home": home, "ill": ill, "x": np.arange(60) % 9})
    told = str(PufferfishSwap(sensitive="ill", groups="home").fit(table).certificate_)
    assert "50% of the groups are in strata of one secret" in told.splitlines()[0]
    assert "among groups of the same size." in told
    assert "tells by itself: 50.0% of the groups" in told
    assert "Of two groups who alone have a secret" in told
    assert "are such two" not in told  # which is nobody here
    assert "of the people" not in told


def test_strata_of_one_secret_are_in_the_headline_and_tell_by_themselves():
    table = TABLE.assign(town=np.where(TABLE["ill"] == "yes", "A", "B"))
    swap = swap_of(known="town")
    with pytest.warns(PufferfishWarning, match="'town' tell the secret of 100% of the people"):
        released = swap.fit_transform(table)
    assert released.equals(table[released.columns])
    first = str(swap.certificate_).splitlines()[0]
    assert "nothing was changed" in first
    assert "100% of the people are in strata of one secret" in first
    facts = swap.certificate_.facts
    assert (facts.one_secret, facts.alone, facts.beyond, facts.stay) == (1.0, 0.0, 1.0, 1.0)


def test_a_table_of_equal_rows_says_that_nothing_was_changed():
    text = str(swap_of(public=["pay"]).fit(TABLE.assign(pay=3.5)).certificate_)
    assert "nothing was changed" in text.splitlines()[0]
    assert "nothing was changed" not in str(swap_of().fit(TABLE).certificate_)


def test_what_is_said_of_known_columns_is_counted():
    table = pd.concat([TABLE, TABLE.iloc[[0]].assign(town="alone", client=1)], ignore_index=True)
    facts = swap_of(known="town").fit(table).certificate_.facts
    assert facts.alone == facts.one_secret == facts.below_ten == 1 / len(table)
    assert facts.beyond == facts.alone
    assert facts.n_strata == 4


@pytest.mark.slow
def test_utility_is_near_to_what_releases_change():
    fitted = swap_of(public=["age", "pay", "town"]).fit(TABLE)
    changes = []
    for _ in range(120):  # one of them differs by a third in a column
        released = copy.copy(fitted).transform(TABLE)
        changes.append(
            [
                (released["age"] - TABLE["age"]).abs().mean(),
                (released["pay"] - TABLE["pay"]).abs().mean(),
                (released["town"] != TABLE["town"]).mean(),
            ]
        )
    found = np.mean(changes, axis=0)
    np.testing.assert_allclose(fitted.utility_["change"], found, rtol=0.25)
    assert (fitted.utility_["change"] < fitted.utility_["constant"]).all()


def test_the_nearest_are_matched_and_units_weigh_columns():
    rng = np.random.default_rng(4)
    table = TABLE[["client", "ill"]].assign(u=rng.normal(size=400), v=rng.normal(size=400))

    def change(**params):
        return swap_of(insiders=None, **params).fit(table).utility_["change_sd"]

    assert change().sum() < 0.5 * change(matching="random").sum()
    for first, second in ("uv", "vu"):
        by_one = change(weights={first: 0.01})
        assert by_one[first] < 0.5 * by_one[second]


def test_parts_change_less_than_random_places_and_are_solved_against_the_shares_of_the_stratum():
    table = people(3000, 5)
    parts, apart = (swap_of(matching=m).fit(table) for m in ("parts", "random"))
    assert parts.utility_["change_sd"].sum() < 0.75 * apart.utility_["change_sd"].sum()
    rows = parts._fitted.mechanism.read(frame_table(table))
    [solved] = parts._fitted.mechanism.solved(rows)
    assert solved.stratum[-2:] == (1, 64)
    assert len(solved.flows) == 64
    # as many sizes as there are secrets, and one more
    assert len({tuple(exchange.sizes.tolist()) for exchange in solved.flows}) == 3
    for exchange in solved.flows:
        assert exchange.people.tolist() == solved.stratum.people.tolist()
        assert outsider_loss(exchange, [(0, 1)]) <= 1.0
    assert "third parties" not in str(parts.certificate_)


def test_large_strata_are_cut_into_shards_by_lot_and_keep_their_statistics(monkeypatch):
    whole = swap_of().fit(TABLE)
    monkeypatch.setattr(RowExchange, "shard", 100)
    swap = swap_of().fit(TABLE)
    rows = swap._fitted.mechanism.read(frame_table(TABLE))
    solved = swap._fitted.mechanism.solved(rows)
    assert [each.stratum.shards for each in solved] == [4] * 4
    sizes = [sizes_of_piece(solved[0].stratum.people, 4, k).tolist() for k in range(4)]
    assert [[*map(len, each.groups)] for each in solved] == sizes
    # each shard has all people of its sizes, and is solved by its own rows
    assert sorted(np.concatenate([x for each in solved for x in each.groups])) == [*range(400)]
    assert len({tuple(each.exchange.flows.ravel()) for each in solved}) > 1
    assert swap.certificate_.loss <= 1.0
    assert swap.stays_["no"] == pytest.approx(whole.stays_["no"], abs=0.03)
    shuffled = TABLE.sample(frac=1.0, random_state=2)
    first = swap.transform(TABLE, row_id="client", key=KEY)
    second = swap.transform(shuffled, row_id="client", key=KEY)
    assert second.sort_index().equals(first)
    assert sorted(first["pay"]) == sorted(TABLE["pay"])


def test_a_table_without_a_link_to_people_is_warned_of():
    with pytest.warns(PufferfishWarning, match="nothing here says whose row is whose") as caught:
        swap_of(ids=None, public=["pay"]).fit(TABLE)
    assert len(str(caught[0].message)) <= 200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        swap_of(ids=None, known="town", public=["pay"]).fit(TABLE)
        named = TABLE.set_index("client")
        swap_of(ids=None, public=["pay"]).fit(named)


@pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning")
def test_what_takes_something_out_of_the_guarantee_is_on_the_first_screen():
    seeded, ordered, plain = swap_of(random_state=3), swap_of(), swap_of()
    seeded.fit_transform(TABLE)
    ordered.fit_transform(TABLE.sort_values("ill").reset_index(drop=True))
    plain.fit_transform(TABLE)
    assert "Risk: random_state=3 makes the release reproducible" in str(seeded.certificate_)
    assert "does NOT cover that: shuffle the rows" in str(ordered.certificate_)
    assert "Risk" not in str(plain.certificate_)
    assert max(len(str(x.certificate_).splitlines()) for x in (seeded, ordered)) <= 12


def test_a_table_sorted_by_its_secret_is_warned_of():
    with pytest.warns(PufferfishWarning, match="order"):
        swap_of().fit(TABLE.sort_values("ill"))


# ---------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"secret_groups": [["a"]]}, "secret_groups must be {name"),
        ({"secret_groups": {"a": "yes"}}, "must be a list of values"),
        ({"secret_groups": {"a": ["yes"], "b": ["yes"]}}, "twice"),
        ({"secret_groups": {"a": ["flu"]}}, "does not have"),
        ({"metric": "l1"}, "metric must be"),
        ({"metric": "steps"}, "ask for bins"),
        ({"metric": lambda a, b: float(a < b)}, "must be symmetric"),
        ({"metric": lambda a, b: 0.0}, "positive"),
        ({"groups": "town"}, "have rows of different 'ill'"),
        ({"groups": "ill"}, "which is sensitive"),
        ({"max_group": 3}, "max_group=3 is about groups of rows"),
        ({"ids": "town", "public": ["pay"]}, "397 row.s. have the ids"),
        ({"matching": "near"}, "matching"),
        ({"insiders": "thrice"}, 'must be a positive number, got .*"double", or None to leave'),
        ({"insiders": -1.0}, "insiders"),
        ({"known": {"age": 1}}, "from 2 to 1000 bins"),
        ({"known": {"town": 3}}, "asks for bins"),
        ({"known": {"town": {"Z": "A"}}}, "does not have"),
        ({"known": "client"}, "named in ids= and in known="),
        ({"public": ["client", "pay"]}, "named in public= and in ids="),
        ({"ids": None}, "looks like an identifier"),
        ({"weights": {"pay": 0.0}}, "weights"),
        ({"missing": "propagate"}, "missing"),
        ({"sensitive": "pay"}, "at most 50"),
    ],
)
def test_what_is_not_built_or_wrong_is_refused_in_a_sentence(params, message):
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        swap_of(**params).fit(TABLE)
    assert str(caught.value).rstrip().endswith(".")


def test_text_that_looks_like_an_identifier_is_refused_even_if_named():
    table = TABLE.assign(name=[f"n{k}" for k in range(len(TABLE))])
    with pytest.raises(ValueError, match="'name' looks like an identifier"):
        swap_of(public=["pay", "name"]).fit(table)


def test_rows_without_secrets_are_refused():
    swap = swap_of().fit(TABLE)
    with pytest.raises(ValueError, match="exchanges people of different secrets: give the"):
        swap.transform(TABLE.drop(columns="ill"))
    with pytest.raises(ValueError, match="fit has not seen"):
        swap.transform(TABLE.assign(ill="other"))
    beside = swap.transform(TABLE.drop(columns="ill"), sensitive_features=TABLE["ill"])
    assert len(beside) == len(TABLE)


def test_columns_beside_rows_have_the_row_labels_of_these():
    rows, other = TABLE.drop(columns="ill"), TABLE["ill"][::-1]
    swap = swap_of().fit(TABLE)
    calls = [
        lambda: swap_of(sensitive=None).fit(rows, sensitive_features=other),
        lambda: swap_of(sensitive=None).fit_transform(rows, sensitive_features=other),
        lambda: swap.transform(rows, sensitive_features=other),
        lambda: swap.transform(TABLE, row_id=TABLE["client"][::-1], key=KEY),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="has an index that differs from"):
            call()


def test_lazy_tables_without_ids_are_refused_and_joblib_saves_all(tmp_path):
    pl = pytest.importorskip("polars")
    swap = swap_of().fit(TABLE)
    for release in (swap, PufferfishRelease.from_json(swap.to_json())):
        with pytest.raises(TypeError, match="name its column of ids with row_id="):
            release.transform(pl.LazyFrame(TABLE))
    joblib.dump(swap, tmp_path / "swap.joblib")
    assert len(joblib.load(tmp_path / "swap.joblib").transform(TABLE)) == len(TABLE)


# --------------------------------------------------------------------------------------- saved


def of_every_kind():
    two = typed().assign(score=np.random.default_rng(1).normal(size=300))
    two = two.drop(columns="word").assign(word=np.resize(["a", "b", "c"], 300))
    yield (
        two,
        {
            "sensitive": ["ill", "word"],
            "secret_groups": {"word": {"x": ["a", "b"]}},
            "known": {"score": 2, "day": 2, "grade": {"x": "y"}},
            "delta": 0.01,
        },
    )
    yield (
        TABLE,
        {"sensitive": {"age": 3}, "metric": "steps", "matching": "parts", "weights": {"pay": 2.0}},
    )
    yield (
        HOMES,
        {"sensitive": "owns", "groups": "home", "known": "child", "public": ["age"], "ids": "row"},
    )


@pytest.mark.parametrize("kind", [pytest.param(0, marks=pytest.mark.slow), 1, 2])
def test_an_artifact_swaps_as_the_fitted_estimator_does(kind, tmp_path):
    table, params = list(of_every_kind())[kind]
    swap = swap_of(**params).fit(table)
    text = swap.to_json(tmp_path / "swap.json")
    release = PufferfishRelease.from_json(tmp_path / "swap.json")
    assert release.to_json() == text
    assert release.certificate_ == swap.certificate_
    assert str(release.certificate_) == str(swap.certificate_)
    row_id = params.get("ids", "client")
    first = swap.transform(table, row_id=row_id, key=KEY)
    assert release.transform(table, row_id=row_id, key=KEY).equals(first)
    with pytest.raises(OverspentError, match="this PufferfishRelease has exchanged 100%"):
        release.transform(table)


@pytest.mark.parametrize("kind", [pytest.param(0, marks=pytest.mark.slow), 1, 2])
def test_an_artifact_that_releases_other_rows_has_their_certificate_as_the_estimator_has(kind):
    table, params = list(of_every_kind())[kind]
    other = table[table["home"] < 70] if "home" in table else table[: len(table) * 2 // 3]
    swap = swap_of(**params).fit(table)
    release = PufferfishRelease.from_json(swap.to_json())
    row_id = params.get("ids", "client")
    for each in (swap, release):
        each.transform(other, row_id=row_id, key=KEY)
    assert release.certificate_.n_rows == len(other) < len(table)
    assert release.certificate_ == swap.certificate_
    pd.testing.assert_frame_equal(release.flows_, swap.flows_)
    pd.testing.assert_series_equal(release.stays_, swap.stays_)
    release.transform(other, row_id=row_id, key=KEY)  # as the fingerprint is that of the rows
    again = PufferfishRelease.from_json(release.to_json())
    assert again.certificate_ == release.certificate_


def test_an_artifact_takes_secrets_beside_rows_and_holds_no_row():
    table = TABLE.assign(pay=TABLE["pay"] + 1234.5)
    swap = swap_of().fit(table)
    release = PufferfishRelease.from_json(swap.to_json())
    rows = table.drop(columns="ill")
    out = release.transform(rows, sensitive_features=table["ill"], row_id="client", key=KEY)
    assert out.equals(swap.transform(table, row_id="client", key=KEY))
    for pay in table["pay"][:50]:
        assert repr(float(pay)) not in swap.to_json()
    with pytest.raises(ValueError, match="exchanges people of different secrets: give the"):
        release.transform(rows)
    noiser = PufferfishNoiser(sensitive="ill", public=["age"]).fit(table)
    other = PufferfishRelease.from_json(noiser.to_json())
    with pytest.raises(ValueError, match="needs none"):
        other.transform(table, sensitive_features=table["ill"])


def test_a_ledger_of_persons_refuses_another_swap_of_them(tmp_path):
    swap = swap_of(public=["pay", "age"]).fit(TABLE)
    ledger = PersonLedger.create(tmp_path / "clients", swap, key=KEY)
    ledger.transform(swap, TABLE, row_id="client")
    with pytest.raises(OverspentError):
        ledger.transform(swap, TABLE.assign(pay=TABLE["pay"] + 1.0), row_id="client")


def test_a_damaged_artifact_is_refused():
    text = swap_of().fit(TABLE).to_json()
    for old, new in (('"matching":"nearest"', '"matching":"random"'), ('"budget"', '"budgets"')):
        record = json.loads(new.join(text.rsplit(old, 1)))
        record["checksum"] = checksum({k: v for k, v in record.items() if k != "checksum"})
        with pytest.raises(ValueError, match="no whole release artifact"):
            PufferfishRelease.from_json(json.dumps(record))


def test_rows_of_one_secret_and_single_rows_are_refused():
    swap = swap_of().fit(TABLE)
    for rows in (TABLE.iloc[:1], TABLE[TABLE["ill"] == "no"]):
        with pytest.raises(ValueError, match="rows of one secret alone"):
            swap.transform(rows)


def test_flows_beyond_the_budget_are_never_released(monkeypatch):
    """The solver is not believed: the checker alone says what is within the budget."""
    from sklearn_puffer import UncertifiedError
    from sklearn_puffer._swap import release

    swap = swap_of().fit(TABLE)
    least = release.least_exchange

    def careless(problem):
        budget = problem.budget._replace(epsilon=3.0, insiders=None)
        return least(dataclasses.replace(problem, budget=budget))

    monkeypatch.setattr(release, "least_exchange", careless)
    with pytest.raises(UncertifiedError, match="within the budget"):
        swap.transform(TABLE)


def test_each_stratum_keeps_both_budgets_by_itself():
    swap = swap_of(known="town").fit(TABLE)
    mechanism = swap._fitted.mechanism
    rows = mechanism.read(frame_table(TABLE))
    for each in mechanism.solved(rows):
        assert 3 > len(each.stratum.secrets) > 1
        for exchange in each.flows:
            pairs = [pair[:2] for pair in each.stratum.pairs]
            assert outsider_loss(exchange, pairs) <= 1.0
            assert insider_loss(exchange, pairs) <= 2.0


# ------------------------------------------------------------------ what scikit-learn asks for


class KeyedSwap(PufferfishSwap):
    """A swap by a key, of ids and secrets by the place of a row, as checks hand over no others."""

    def fit(self, X, y=None, *, sensitive_features=None):
        return super().fit(X, y, sensitive_features=places(X) % 2)

    def transform(self, X, **beside):
        seed, self.random_state = self.random_state, None
        try:
            rows = {"sensitive_features": places(X) % 2, "row_id": places(X)}
            return super().transform(X, key=KEY, **rows)
        finally:
            self.random_state = seed

    def fit_transform(self, X, y=None, **beside):
        return self.fit(X, y).transform(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        return tags


def places(X):
    return np.arange(len(X) if hasattr(X, "__len__") else np.asarray(X).shape[0])


EXPECTED = {
    "check_methods_sample_order_invariance": "ids and secrets are places, so these are other rows",
    "check_methods_subset_invariance": "rows are exchanged, so that none is released by itself",
    "check_dict_unchanged": "transform sets what is said of the rows that were exchanged last",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_check_of_scikit_learn_fails_but_those_that_no_swap_can_pass():
    results = check_estimator(
        KeyedSwap(matching="random"), on_skip=None, on_fail=None, expected_failed_checks=EXPECTED
    )
    statuses = {each["check_name"]: each["status"] for each in results}
    assert [name for name, status in statuses.items() if status == "failed"] == []
    assert {name for name, status in statuses.items() if status == "xfail"} == set(EXPECTED)
    assert {name for name, status in statuses.items() if status == "skipped"} <= {
        "check_array_api_input"
    }
    assert sum(each["status"] == "passed" for each in results) >= 42


@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_a_budget_beyond_all_numbers_is_certified(delta):
    swap = swap_of(epsilon=3000.0, delta=delta).fit(TABLE)
    assert swap.certificate_.holds
    assert swap.certificate_.facts.stay > 0.99


# -------------------------------------------------------------------------------- ids of any type

DAYS = pd.Series(pd.date_range("2020-02-01", periods=60, freq="D").repeat(2))
OF_ANY_TYPE = {
    "dates": DAYS,
    "dates with gaps": DAYS.where(np.arange(120) % 7 > 0),
    "dates of a zone": DAYS.dt.tz_localize("Europe/Berlin"),
    "days as objects": pd.Series(DAYS.dt.date, dtype=object),
    "durations": DAYS - DAYS[0],
    "periods": DAYS.dt.to_period("D"),
    "complex numbers": pd.Series(np.arange(120) // 2 + 1j),
    "words beside numbers": pd.Series(
        [k if k % 4 < 2 else str(k) for k in np.arange(120) // 2 * 2]
    ),
    "pairs": pd.Series([(k // 2, "a") for k in range(120)], dtype=object),
}


@pytest.mark.parametrize("kind", OF_ANY_TYPE)
def test_ids_of_any_type_come_out_as_they_went_in_and_tell_people_apart(kind):
    table = people(120)[["client", "ill", "age"]].assign(since=OF_ANY_TYPE[kind])
    swap = swap_of(ids=["client", "since"], insiders=None, epsilon=2.0)
    released = swap.fit_transform(table)
    pd.testing.assert_series_equal(released["since"], table["since"])
    assert (released["age"] != table["age"]).any()
    with pytest.raises(OverspentError):
        swap.transform(table.iloc[::-1])
    with pytest.raises(ValueError, match=r"have the ids \('since'\) of another one"):
        swap_of(ids="since").fit(table.drop(columns="client"))


def test_marks_of_people_are_the_same_whatever_unit_dates_have():
    day, hours = DAYS[:3], pd.Series([*DAYS[:3], pd.Timestamp("2021-03-04 05:06:07")])
    some, all_of = (
        row_digests({"since": id_values(frame_table(pd.DataFrame({"since": each})), "since")})
        for each in (day.astype("datetime64[s]"), hours.astype("datetime64[ns]"))
    )
    assert (some == all_of[:3]).all()
    assert len({*all_of.tolist()}) == 3  # two of the days are one


def test_a_refusal_on_drift_names_the_argument_and_the_way_out():
    fitted = swap_of().fit(TABLE)
    with pytest.raises(ValueError, match=r'on_drift="raise" is for .* pass on_drift="ignore"'):
        fitted.transform(TABLE, on_drift="raise")
    assert len(fitted.transform(TABLE, on_drift="ignore")) == len(TABLE)
