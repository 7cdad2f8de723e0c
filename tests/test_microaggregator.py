"""`PufferfishMicroaggregator`: what it releases, to whom it keeps its word, and what it says."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import chi2
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import check_estimator

from sklearn_puffer import (
    Ledger,
    OverspentError,
    PersonLedger,
    PufferfishMicroaggregator,
    PufferfishRelease,
    PufferfishWarning,
    UnseenValuesWarning,
    report,
)
from sklearn_puffer._microaggregator import fit
from sklearn_puffer._microaggregator.release import ReleasedRows
from sklearn_puffer._release import certificate_from_dict

KEY = b"blake2b:" + bytes(32)


def people(n=1500, seed=0):
    """Return people whose age, pay and job depend on whether they are ill, and a column on none."""
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.3
    gaps = rng.random(n) < 0.1
    table = pd.DataFrame(
        {
            "ill": np.where(ill, "yes", "no"),
            "age": 40 + 9 * ill + rng.integers(0, 20, n),
            "pay": (rng.normal(size=n) + ill).astype(np.float32),
            "job": np.where(rng.random(n) < 0.2 + 0.4 * ill, "cook", "clerk"),
            "vip": rng.random(n) < 0.5,
            "grade": pd.Categorical.from_codes(rng.integers(0, 3, n), list("abc"), ordered=True),
            "visits": pd.Series(rng.integers(0, 9, n), dtype="Int64").mask(gaps),
        }
    )
    return table.set_index(pd.Index([f"p{k}" for k in range(n)]))


TABLE = people()


@pytest.fixture(scope="module")
def rows():
    return PufferfishMicroaggregator(sensitive="ill", n_prototypes=12).fit(TABLE)


def odds(counts, channel):
    """Return the largest log odds at each prototype, of two columns of counts."""
    first, second = ((counts[:, k] / counts[:, k].sum()) @ channel for k in (0, 1))
    return np.abs(np.log(first / second))


def test_released_rows_are_typical_rows_in_the_types_of_the_table(rows):
    released = rows.transform(TABLE)
    assert list(released.columns) == ["age", "pay", "job", "vip", "grade", "visits"]
    assert released.index.equals(TABLE.index)
    assert released.dtypes.equals(TABLE.dtypes[released.columns])
    known = set(rows.prototypes_.astype(object).fillna("gone").itertuples(index=False))
    assert set(released.astype(object).fillna("gone").itertuples(index=False)) <= known


def test_what_is_shown_fits_together(rows):
    n = len(rows.prototypes_)
    assert rows.counts_.shape == (n, 2)
    assert list(rows.counts_.columns) == ["no", "yes"]
    assert rows.counts_.to_numpy().sum() == len(TABLE)
    assert rows.counts_.to_numpy().sum(axis=1).min() >= 30
    assert (np.bincount(rows.labels_) == rows.counts_.sum(axis=1)).all()
    assert (rows.assign(TABLE) == rows.labels_).all()
    np.testing.assert_allclose(rows.channel_.sum(axis=1), 1.0)


def test_the_certificate_states_what_own_arithmetic_finds(rows):
    certificate = rows.certificate_
    counts, channel = rows.counts_.to_numpy(), rows.channel_.toarray()
    as_counted = odds(counts, channel).max()
    assert certificate.facts.counted == pytest.approx(as_counted, abs=1e-9)
    assert 0.999 < certificate.loss <= 1.0
    assert certificate.holds
    assert as_counted < 1.0 < certificate.facts.joint
    assert certificate.table["upper"].max() == pytest.approx(certificate.loss)
    assert as_counted < certificate.facts.table < 2.0


def test_a_value_of_one_person_in_a_typical_row_is_not_called_that_of_many():
    place, k = np.repeat([0, 100], 30), np.arange(60)
    jobs = np.array([f"j{each:02}" for each in range(30)] * 2)  # each once in a place
    pay = np.where(k % 30 < 15, k % 5, np.nan)  # of half of the people of a place
    table = pd.DataFrame({"ill": k % 2, "place": place, "job": jobs, "pay": pay})
    told = PufferfishMicroaggregator(sensitive="ill", n_prototypes=2, level=None).fit(table)
    ((people,), (one,)) = ({*told.counts_.sum(axis=1)}, {*told.prototypes_["job"]})
    assert (people, (jobs[told.labels_ == 0] == one).sum()) == (30, 1)
    assert told.prototypes_["pay"].notna().all()
    said = " ".join(told.certificate_.assumptions)
    assert "each of at least 30 rows: medians of the numbers that half of these have" in said
    assert "most frequent categories, be they of one person" in said


def test_two_readers_and_what_is_not_covered_have_a_line_each(rows):
    assert "Risk: a second independent release" in str(rows.certificate_)
    text = rows.certificate_.details()
    assert "A row that was not fitted: whoever knows the distribution" in text
    assert (
        "A fitted row, of the table that typical rows were learnt from: whoever holds the list"
        in text
    )
    assert text.count("Not covered: ") == 5
    assert text.startswith(
        "Certificate: holds, with sampling error of shares of secrets allowed for (95%)"
    )
    assert "as frequent among similar rows as counted, within sampling error (95%)" in text
    counted = PufferfishMicroaggregator(sensitive="ill", n_prototypes=4, level=None).fit(TABLE)
    assert "sampling error may move the odds" in counted.certificate_.details()
    assert "Not covered: who knows whose a fitted row is" in counted.certificate_.details()
    assert "within sampling error" not in counted.certificate_.promise()
    assert counted.certificate_.facts.joint is None


def test_the_change_is_parted_into_grouping_and_moving(rows):
    utility = rows.utility_
    assert list(utility.index) == ["age", "pay", "job", "vip", "grade", "visits"]
    np.testing.assert_allclose(utility["grouping"] + utility["moving"], utility["change_sd"])
    age = TABLE["age"].to_numpy()
    typical = rows.prototypes_["age"].to_numpy()
    flows = rows.channel_.toarray()[rows.labels_]
    moved = (np.abs(age[:, None] - typical) * flows).sum(axis=1).mean()
    alone = np.abs(age - typical[rows.labels_]).mean()
    assert utility.loc["age", "change"] == pytest.approx(moved, rel=1e-3)
    assert utility.loc["age", "grouping"] == pytest.approx(alone / age.std(), rel=1e-3)
    constant = np.abs(age - np.median(age)).mean()
    assert utility.loc["age", "constant"] == pytest.approx(constant, rel=1e-9)
    facts = rows.certificate_.facts
    assert utility["change_sd"].mean() == pytest.approx(facts.grouping + facts.moving)


@pytest.mark.slow
def test_the_sampler_draws_the_channel_and_rows_are_independent(rows):
    typical = int(np.bincount(rows.labels_).argmax())
    n, person = 200_000, int(np.flatnonzero(rows.labels_ == typical)[0])
    fresh = pickle.loads(pickle.dumps(rows))  # of which no test has had a release
    drawn = rows.assign(fresh.transform(TABLE.iloc[np.full(n, person)].reset_index(drop=True)))
    expected = rows.channel_.toarray()[typical] * n
    counts = np.bincount(drawn, minlength=len(expected))
    there = expected > 5.0
    assert counts[expected == 0.0].sum() == 0
    statistic = ((counts - expected)[there] ** 2 / expected[there]).sum()
    assert statistic < chi2.ppf(0.9999, there.sum())
    common = int(expected.argmax())
    same = (drawn[:-1] == common) & (drawn[1:] == common)
    chance = (expected[common] / n) ** 2
    assert abs(same.mean() - chance) < 6.0 * np.sqrt(chance / n)


def test_another_dataset_under_a_key_is_another_release(rows):
    table = TABLE.assign(number=range(len(TABLE)))
    first = rows.transform(table, row_id="number", key=KEY)
    assert not rows.transform(table, row_id="number", key=KEY, dataset="other").equals(first)


def test_a_saved_file_holds_nothing_of_single_rows_and_grows_with_none(rows):
    copy = pickle.loads(pickle.dumps(rows))
    assert not hasattr(copy, "labels_")
    assert (copy.assign(TABLE) == rows.labels_).all()
    twice = PufferfishMicroaggregator(sensitive="ill", n_prototypes=12).fit(pd.concat([TABLE] * 8))
    sizes = [len(pickle.dumps(each)) for each in (rows, twice)]
    assert max(sizes) < 200_000
    assert sizes[1] < sizes[0] + 20_000  # of seven tables more


def test_the_artifact_is_small_and_says_what_it_is(rows):
    text = rows.to_json()
    assert len(text) < 200_000
    assert json.loads(text)["mechanism"] == "microaggregation"
    assert "keep this file where you keep the table" in text


def test_a_changed_artifact_is_refused(rows):
    record = json.loads(rows.to_json())
    shares = record["numerators"]["shares"]
    shares[0], shares[1] = shares[1], shares[0]
    with pytest.raises(ValueError, match=r"changed or damaged|does not fit"):
        PufferfishRelease.from_json(json.dumps(record))


def test_a_second_unkeyed_release_by_an_artifact_warns_once(rows):
    service = PufferfishRelease.from_json(rows.to_json())
    one = TABLE[:1]
    service.transform(one)
    with pytest.warns(PufferfishWarning, match="1 of 1 rows were released before"):
        service.transform(one)
    service.transform(one)


def test_a_second_release_by_ids_without_a_key_warns_as_one_without_ids(rows):
    """The key that was drawn for the first is forgotten, so that the second is drawn anew."""
    service = PufferfishRelease.from_json(rows.to_json())
    ids = np.arange(len(TABLE))
    service.transform(TABLE, row_id=ids)
    with pytest.warns(PufferfishWarning, match="rows were released before"):
        service.transform(TABLE, row_id=ids)


def test_a_second_unkeyed_release_of_some_rows_warns_once(rows):
    copy = pickle.loads(pickle.dumps(rows))
    copy.transform(TABLE[:800])
    with pytest.warns(PufferfishWarning, match="100 of 800 rows were released before"):
        copy.transform(pd.concat([people(700, seed=5), TABLE[700:800]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy.transform(TABLE)
        again = pickle.loads(pickle.dumps(rows))
        for _ in range(2):
            again.transform(TABLE.assign(n=range(len(TABLE))), row_id="n", key=KEY)


def test_people_who_are_alike_are_not_taken_for_rows_released_before():
    rng, alike, unlike = np.random.default_rng(0), ReleasedRows(), ReleasedRows()
    for _ in range(30):
        alike.add(rng.integers(0, 500, 100))
        unlike.add(rng.integers(0, 2**62, 100))
    assert not alike.warned
    assert not unlike.warned
    assert unlike.add(np.concatenate([unlike._rows[::500], rng.integers(0, 2**62, 100)])) == 6
    assert unlike.warned
    table = rng.integers(0, 500, 100)
    alike.add(table)
    assert not alike.warned
    alike.add(table[::-1])  # the same rows
    assert alike.warned


def test_a_certificate_of_typical_rows_says_what_to_compare(rows):
    with pytest.raises(ValueError, match=r"rows\.assign\(table\)"):
        rows.certificate_.check(TABLE)


def test_certificates_that_told_of_more_are_read(rows):
    record = rows.certificate_.to_dict()
    record["prototypes"] |= {"further": 2.5, "beyond": None}
    again = certificate_from_dict(record, type(rows.certificate_))
    assert again.facts == rows.certificate_.facts


def test_a_ledger_of_persons_refuses_a_second_typical_row_and_repeats_the_first(rows, tmp_path):
    few = TABLE[:40].assign(person=range(40))
    ledger = PersonLedger.create(tmp_path / "persons.db", rows, key=KEY)
    first = ledger.transform(rows, few, row_id="person")
    near = few.assign(pay=few["pay"] + np.float32(1e-6))  # the same typical rows
    assert (rows.assign(near) == rows.assign(few)).all()
    assert ledger.transform(rows, near, row_id="person").equals(first)
    changed = few.assign(age=np.where(few["age"] > 55, 30, 80))
    assert (rows.assign(changed) != rows.assign(few)).any()
    with pytest.raises(OverspentError, match="have no release left"):
        ledger.transform(rows, changed, row_id="person")


@pytest.mark.parametrize("changes", ["refuse", "count"])
@pytest.mark.parametrize("other", [{"release": 1}, {"dataset": "June"}])
def test_a_ledger_of_persons_grants_a_row_one_release_under_any_name(
    rows, tmp_path, changes, other
):
    few = TABLE[:40].assign(person=range(40))
    service = PufferfishRelease.from_json(rows.to_json())
    ledger = PersonLedger.create(tmp_path / "persons.db", rows, key=KEY, changes=changes)
    assert ledger.left(3).releases == 1
    first = ledger.transform(rows, few, row_id="person")
    assert (ledger.left(3).releases, ledger.left(50).releases) == (0, 1)
    with pytest.raises(OverspentError, match=r"have no release left.*by row_id= and a key"):
        ledger.transform(service, few, row_id="person", **other)
    assert ledger.transform(service, few, row_id="person").equals(first)


def test_a_ledger_of_tables_grants_typical_rows_once(rows, tmp_path):
    service = PufferfishRelease.from_json(rows.to_json())  # which remembers no rows
    ledger = Ledger.create(tmp_path / "tables.db", rows, datasets=["May", "June"])
    assert ledger.left("May").releases == 1
    ledger.transform(service, TABLE[:40], dataset="May")
    assert [ledger.left(name).releases for name in ("May", "June")] == [0, 1]
    with pytest.raises(OverspentError, match="A second independent release of a row"):
        ledger.transform(service, TABLE[:40], dataset="May")
    again = Ledger.open(tmp_path / "tables.db", rows)
    assert [again.left(name).releases for name in ("May", "June")] == [0, 1]


def test_values_that_fit_never_saw_are_counted_and_released_as_the_nearest_row(rows):
    strange = TABLE[:3].assign(job=["smith", "cook", "smith"], age=[1e6, 41, 41])
    with pytest.warns(UnseenValuesWarning, match=r"2 values were not seen in fit.*'job'"):
        released = rows.transform(strange)
    assert released["job"].isin(["cook", "clerk"]).all()


def test_infinite_numbers_and_other_kinds_of_columns_are_refused(rows):
    with pytest.raises(ValueError, match="pay"):
        rows.transform(TABLE.assign(pay=np.inf))
    with pytest.raises(TypeError, match="age"):
        rows.transform(TABLE.assign(age="old"))


@pytest.mark.slow
def test_columns_may_be_drawn_in_bins_of_many_rows():
    rows = PufferfishMicroaggregator(sensitive="ill", n_prototypes=12, values="drawn").fit(TABLE)
    typical = PufferfishMicroaggregator(sensitive="ill", n_prototypes=12).fit(TABLE)
    released, flat = rows.transform(TABLE), typical.transform(TABLE)
    assert abs(released["pay"].std() / TABLE["pay"].std() - 1.0) < 0.1
    assert flat["pay"].std() < 0.9 * TABLE["pay"].std()
    assert rows.certificate_.loss == typical.certificate_.loss
    assert rows.certificate_.facts.drawn > 0.0
    table = TABLE.assign(number=range(len(TABLE)))
    first = rows.transform(table, row_id="number", key=KEY)
    for copy in (PufferfishRelease.from_json(rows.to_json()), pickle.loads(pickle.dumps(rows))):
        assert copy.transform(table, row_id="number", key=KEY).equals(first)
    assert rows.utility_["change_sd"].mean() > typical.utility_["change_sd"].mean()


def joined_people(n=3000, seed=1):
    """Return people whose secret hangs together with their place only where a label is known."""
    rng = np.random.default_rng(seed)
    ill, label = rng.random(n) < 0.5, rng.random(n) < 0.5
    high = rng.random(n) < np.where(ill == label, 0.85, 0.15)
    return pd.DataFrame({"ill": ill, "label": label, "place": np.where(high, 3.0, 1.0)})


def test_a_joined_label_is_bounded_and_costs_more():
    table = joined_people()
    alone = PufferfishMicroaggregator(sensitive="ill", public="place").fit(
        table.drop(columns="label"), table["label"]
    )
    joined = PufferfishMicroaggregator(sensitive="ill", joined="label").fit(table)
    assert "labels that are joined later, y among them" in alone.certificate_.details()
    assert "with or without knowing 'label'" in joined.certificate_.promise()
    assert "how many there are was chosen" in joined.certificate_.details()
    assert list(joined.transform(table).columns) == ["place"]
    assert joined.certificate_.facts.moving > alone.certificate_.facts.moving + 0.05
    for label in (False, True):
        of_label = table["label"].to_numpy() == label
        for rows, low, high in ((alone, 1.2, 3.0), (joined, 0.0, 1.0)):
            counts = np.array(
                [
                    np.bincount(rows.labels_[of_label & (table["ill"] == s)], minlength=2)
                    for s in (False, True)
                ]
            ).T
            assert low <= odds(counts, rows.channel_.toarray()).max() <= high


def test_who_joins_one_of_two_joined_labels_is_bounded_too():
    """He mixes the rows of the other label in other shares for each secret."""
    rng = np.random.default_rng(2)
    ill, first = rng.random((2, 1500)) < 0.5
    second = rng.random(1500) < np.where(ill, np.where(first, 0.9, 0.1), 0.4)
    place = 2 * (2 * (ill ^ first) - 1.0) * (2 * second - 1) + rng.normal(size=1500)
    table = pd.DataFrame({"ill": ill, "first": first, "second": second, "place": place})
    rows = PufferfishMicroaggregator(
        sensitive="ill", joined=["first", "second"], level=None, n_prototypes=8
    ).fit(table)
    everybody = np.ones(len(table), dtype=bool)
    known = first, ~first, second, ~second, everybody, first & second, ~first & ~second
    for people in known:
        counts = [np.bincount(rows.labels_[people & (ill == s)], minlength=8) for s in (0, 1)]
        assert odds(np.array(counts).T, rows.channel_.toarray()).max() <= 1.0
    assert "with any of 'first', 'second' or without" in rows.certificate_.details()


def test_as_counted_who_finds_his_own_row_in_the_list_may_be_certain_of_others():
    """So the certificate says it; over the set he stays within the budget, or nearly."""
    rng = np.random.default_rng(0)
    ill = rng.permutation(np.arange(1500) < 29)
    table = pd.DataFrame(rng.normal(size=(1500, 3)) + 1.5 * ill[:, None]).assign(ill=ill)
    table.columns = ["u", "v", "w", "ill"]
    for level, low, high in ((None, np.inf, np.inf), (0.95, 0.9, 1.001)):
        rows = PufferfishMicroaggregator(sensitive="ill", n_prototypes=20, level=level).fit(table)
        counts, worst = rows.counts_.to_numpy(), 0.0
        for own in np.argwhere(counts):
            others = counts.copy()
            others[tuple(own)] -= 1
            with np.errstate(divide="ignore", invalid="ignore"):
                worst = max(worst, np.nanmax(odds(others, rows.channel_.toarray())))
        assert low <= worst <= high


def test_who_holds_the_list_of_a_part_of_the_fitted_people_is_named_as_not_covered():
    """He counts the secrets of these, which no box allows for: even one row tells him more."""
    table = people(3000, seed=5)[["ill", "age", "pay", "job"]]
    rows = PufferfishMicroaggregator(sensitive="ill", n_prototypes=20).fit(table)
    beyond = []
    for some in (table, table.sample(50, random_state=0)):
        cells = rows.assign(some)
        counts = [np.bincount(cells[some["ill"] == s], minlength=20) for s in ("no", "yes")]
        with np.errstate(divide="ignore", invalid="ignore"):
            told = odds(np.array(counts).T, rows.channel_.toarray())
        beyond.append(float(np.bincount(cells, minlength=20) @ (told > 1.0) / len(some)))
    assert beyond[0] == 0.0
    assert beyond[1] > 0.1
    assert "in a released file, be they fitted or not" in rows.certificate_.details()


def test_figures_of_a_certificate_show_the_last_secret_to_who_knows_all_others():
    """So it names him as not covered, and recipients get the report, which has no figures."""
    table, pages, figures = people(600, seed=6)[["ill", "age", "job"]], [], []
    for last in ("yes", "no"):
        secrets = [*table["ill"][:-1], last]
        rows = PufferfishMicroaggregator(sensitive="ill", n_prototypes=6)
        certificate = rows.fit(table.assign(ill=secrets)).certificate_
        figures.append(certificate.facts.counted)
        pages.append(str(report(rows, kind="external")).partition("not named")[0])
        assert "figures of this certificate, which show the last one's secret" in str(
            certificate.details()
        )
    assert figures[0] != figures[1]
    assert pages[0] == pages[1]


def test_what_is_said_as_counted_is_said_of_readers_who_join_a_label_too():
    table = joined_people(n=600, seed=3)
    rows = PufferfishMicroaggregator(sensitive="ill", joined="label", n_prototypes=8).fit(table)
    worst = 0.0
    for those in (table, table[table["label"]], table[~table["label"]]):
        codes = rows.assign(those)
        counts = [np.bincount(codes[those["ill"] == s], minlength=2) for s in (False, True)]
        worst = max(worst, odds(np.array(counts).T, rows.channel_.toarray()).max())
    assert rows.certificate_.facts.counted == pytest.approx(worst, rel=1e-9)
    assert "was chosen by" not in rows.certificate_.details()  # one number was asked for
    assert "readers who join a label other than 'label', or a coarser form of it, to a row" in str(
        rows.certificate_
    )


def test_passed_columns_are_told_of():
    table = joined_people()
    rows = PufferfishMicroaggregator(sensitive="ill", public="place", remainder="passthrough")
    rows.fit(table)
    assert list(rows.transform(table).columns) == ["place", "label"]
    assert first_risk(rows).startswith("Risk: 'label' are passed through and NOT protected")


def first_risk(rows):
    return next(x for x in str(rows.certificate_).splitlines() if x.startswith("Risk"))


def test_draws_that_can_be_repeated_are_the_first_risk(rows):
    seeded = PufferfishMicroaggregator(sensitive="ill", n_prototypes=8, random_state=3).fit(TABLE)
    assert "random_state=3 makes the draws reproducible" in first_risk(seeded)
    assert first_risk(seeded).endswith("NOTHING is guaranteed outside tests.")
    assert not any("random_state" in said for said in rows.certificate_.assumptions)


def test_several_sensitive_columns_are_all_protected():
    table = people(seed=3).drop(columns=["grade", "visits"])
    rows = PufferfishMicroaggregator(sensitive=["ill", "job"], n_prototypes=8).fit(table)
    assert set(rows.secret_pairs_) == {"ill", "job"}
    assert rows.counts_.columns.nlevels == 2
    counts, channel = rows.counts_.to_numpy(), rows.channel_.toarray()
    assert odds(counts[:, :2], channel).max() < 1.0
    assert odds(counts[:, 2:], channel).max() < 1.0
    assert rows.certificate_.loss <= 1.0


@pytest.mark.slow
def test_a_tuple_of_sensitive_columns_is_a_combination():
    """Neither column tells anything by itself, and both together tell the place."""
    rng = np.random.default_rng(6)
    table = pd.DataFrame(rng.integers(0, 2, (2000, 3)), columns=["race", "sex", "loan"])
    place = 2.0 * ((table["race"] ^ table["sex"]) ^ (rng.random(2000) < 0.1))
    table = table.assign(place=place).astype({"race": str})

    def told(rows):
        counts = table.groupby([rows.labels_, "race", "sex"]).size().unstack([1, 2], fill_value=0)
        return max(
            odds(counts.to_numpy()[:, [k, j]], rows.channel_.toarray()).max()
            for k in range(4)
            for j in range(k)
        )

    parameters = {"public": "place", "level": None}
    both = PufferfishMicroaggregator(sensitive=[("race", "sex"), "loan"], **parameters).fit(table)
    each = PufferfishMicroaggregator(sensitive=["race", "sex", "loan"], **parameters).fit(table)
    assert told(each) > 1.5
    assert told(both) == pytest.approx(both.certificate_.loss, abs=1e-6)
    assert both.certificate_.loss <= 1.0
    assert set(both.secret_pairs_) == {"race and sex", "loan"}
    assert len(both.secret_pairs_["race and sex"]) == 6
    assert set(both.certificate_.table["sensitive"]) == {"race and sex", "loan"}
    assert PufferfishRelease.from_json(both.to_json()).certificate_ == both.certificate_
    pairs = {("race", "sex"): [(("0", 0), ("1", 1))]}
    few = PufferfishMicroaggregator(
        sensitive=[("race", "sex"), "loan"], secret_pairs=pairs, **parameters
    ).fit(table)
    assert few.secret_pairs_["race and sex"] == [(("0", 0), ("1", 1))]
    assert few.certificate_.facts.moving < both.certificate_.facts.moving


def test_secrets_that_are_numbers_come_in_bins():
    rows = PufferfishMicroaggregator(sensitive={"pay": 3}, public=["age"], n_prototypes=6)
    rows.fit(TABLE)
    assert rows.counts_.shape[1] == 3
    assert rows.certificate_.holds


@pytest.mark.slow
def test_weights_count_rows():
    weights = np.random.default_rng(2).integers(0, 3, len(TABLE))
    repeated = TABLE.loc[np.repeat(TABLE.index, weights)]
    weighed = PufferfishMicroaggregator(sensitive="ill", n_prototypes=6)
    weighed.fit(TABLE, sample_weight=weights)
    rows = PufferfishMicroaggregator(sensitive="ill", n_prototypes=6).fit(repeated)
    assert weighed.counts_.equals(rows.counts_)
    assert weighed.prototypes_.equals(rows.prototypes_)
    assert (weighed.channel_ != rows.channel_).nnz == 0
    assert weighed.certificate_.n_rows == weights.sum()


@pytest.mark.slow
def test_the_order_of_rows_does_not_matter():
    rows = PufferfishMicroaggregator(sensitive="ill", n_prototypes=6).fit(TABLE)
    turned = PufferfishMicroaggregator(sensitive="ill", n_prototypes=6).fit(TABLE[::-1])
    assert rows.prototypes_.equals(turned.prototypes_)
    assert rows.counts_.equals(turned.counts_)


def test_auto_goes_on_as_long_as_the_change_falls(monkeypatch):
    monkeypatch.setattr(fit, "CANDIDATES", (2, 4, 8, 12, 16))
    rows = PufferfishMicroaggregator(0.3, sensitive="ill", public=["age", "job"])
    facts = rows.fit(TABLE).certificate_.facts
    changes = [change for _, change in facts.tried]
    assert 2 < len(changes) < 5
    assert (np.diff(changes[:-1]) < 0.0).all()
    assert changes[-1] > changes[-2] == facts.grouping + facts.moving


@pytest.mark.slow
def test_auto_takes_the_number_that_changes_least_and_shares_the_error():
    rows = PufferfishMicroaggregator(sensitive="ill", public=["age", "pay"]).fit(TABLE)
    facts = rows.certificate_.facts
    assert len(facts.tried) == 2  # 8 and 30: 1,500 rows are 50 times 30
    assert facts.grouping + facts.moving == min(change for _, change in facts.tried)
    alone = PufferfishMicroaggregator(
        sensitive="ill", public=["age", "pay"], n_prototypes=facts.n_prototypes
    ).fit(TABLE)
    if len(alone.prototypes_) == len(rows.prototypes_):
        assert alone.certificate_.facts.moving < facts.moving


@pytest.mark.slow
def test_a_pipeline_keeps_what_its_model_needs():
    table, y = people(3000, seed=7), None
    y = np.where(table["pay"] + 0.05 * table["age"] > 3.0, "rich", "poor")
    public = ["age", "pay", "job", "vip"]
    scores = []
    for labels in (y, None):
        rows = PufferfishMicroaggregator(sensitive="ill", public=public, n_prototypes=8)
        released = rows.fit(table, labels).transform(table)
        scores.append(
            (LogisticRegression().fit(released[["age", "pay"]], y)).score(
                released[["age", "pay"]], y
            )
        )
    assert scores[0] > scores[1]
    release = PufferfishMicroaggregator(sensitive="ill", public=public, n_prototypes=8)
    model = make_pipeline(release, OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PufferfishWarning)  # predict releases the rows again
        assert model.fit(table, y).score(table, y) > 0.6
    assert model[0].certificate_.facts.labels


def test_dates_stay_dates():
    rng = np.random.default_rng(4)
    days = pd.to_timedelta(rng.integers(0, 400, 600), "D")
    table = pd.DataFrame({"ill": rng.random(600) < 0.4, "day": pd.Timestamp("2020-01-01") + days})
    table.loc[::50, "day"] = pd.NaT
    rows = PufferfishMicroaggregator(sensitive="ill", public="day", n_prototypes=6).fit(table)
    released = rows.transform(table)["day"]
    assert released.dtype == table["day"].dtype
    assert released.dropna().isin(table["day"]).all()
    assert rows.prototypes_["day"].dtype.kind == "M"


def test_a_rare_secret_that_leaves_a_constant_is_named():
    table = TABLE.assign(ill=np.where(np.arange(len(TABLE)) < 4, "rare", TABLE["ill"]))
    table = table.sample(frac=1.0, random_state=0)
    with pytest.warns(PufferfishWarning, match="secret 'rare' has 4 rows; merge secrets"):
        rows = PufferfishMicroaggregator(sensitive="ill", n_prototypes=8, epsilon=0.2).fit(table)
    assert rows.certificate_.holds


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"n_prototypes": "many"}, "n_prototypes"),
        ({"n_prototypes": 0}, "n_prototypes"),
        ({"min_size": 1}, "min_size"),
        ({"level": 1.0}, "level must lie in"),
        ({"values": "raw"}, "values"),
        ({"label_weight": -1}, "label_weight"),
        ({"weights": "spread"}, "weights must map"),
        (
            {"weights": {"age": 1e-300}},
            r"weights\['age'\] must lie between 1e-100 and 1e\+100, got",
        ),
        ({"weights": {"ill": 1.0}}, "weights"),
        ({"joined": "ill"}, "named in sensitive= and in joined="),
        ({"sensitive": [("ill", "job"), ("ill", "job")]}, "sensitive names ill and job twice"),
        ({"joined": ["age", "job"]}, "more than 30 labels"),
        ({"public": "ill"}, "named in sensitive= and in public="),
        ({"min_size": 5000}, "fewer than min_size=5000"),
    ],
)
def test_what_cannot_be_is_refused_by_name(parameters, error):
    with pytest.raises((TypeError, ValueError), match=error):
        PufferfishMicroaggregator(sensitive="ill").set_params(**parameters).fit(TABLE)


def test_a_rare_secret_that_leaves_less_than_a_constant_is_named_with_what_helps():
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b", "rare"], 1000, p=[0.6, 0.388, 0.012])
    values = (
        rng.normal(size=(1000, 6)) + np.select([group == "b", group == "rare"], [0.5, 2])[:, None]
    )
    table = pd.DataFrame(values, columns=list("uvwxyz")).assign(group=group)
    rows = PufferfishMicroaggregator(sensitive="group", n_prototypes=32)
    with pytest.warns(
        PufferfishWarning,
        match=r"farther from the true rows than a constant: secret 'rare' has 12 rows",
    ):
        rows.fit(table)
    survives = rows.utility_[["change_sd", "constant_sd"]].mean()
    assert survives["change_sd"] > survives["constant_sd"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows.set_params(secret_pairs=[("a", "b")]).fit(table)


@pytest.mark.slow
def test_the_checks_of_scikit_learn_pass():
    # some checks pass the sensitive column for y, which is refused where y has a part in groups
    estimator = PufferfishMicroaggregator(sensitive=0, min_size=2, n_prototypes=4, label_weight=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_skip=None, on_fail=None)
    assert [each["check_name"] for each in results if each["status"] == "failed"] == []


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize("unit", ["datetime64[ms]", "timedelta64[ms]"])
def test_dates_and_durations_are_passed_on_as_they_are(make, unit):
    table = {"ill": [False, True] * 40, "age": np.arange(80) % 4, "when": np.arange(80) // 40}
    table["when"] = table["when"].astype(unit)
    rows = PufferfishMicroaggregator(sensitive="ill", public="age", remainder="passthrough")
    released = rows.fit(make(table)).transform(make(table))
    assert list(released["when"]) == list(make(table)["when"])


def test_the_certificate_says_that_missing_secrets_are_a_secret_of_their_own(rows):
    said = "Missing values of ill are a secret of their own, 'missing'."
    assert said not in rows.certificate_.assumptions
    gaps = TABLE.assign(ill=TABLE["ill"].where(np.arange(len(TABLE)) % 5 > 0))
    n_gaps = gaps["ill"].isna().sum()
    with pytest.warns(PufferfishWarning, match=f"^{n_gaps:,} row.s. have no 'ill', which is prot"):
        lacking = PufferfishMicroaggregator(sensitive="ill", n_prototypes=8).fit(gaps)
    assert said in lacking.certificate_.assumptions
