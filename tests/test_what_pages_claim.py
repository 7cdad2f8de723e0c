"""Certificates and reports claim no protection that a release does not give."""

import itertools
import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import (
    PufferfishMicroaggregator,
    PufferfishNoiser,
    PufferfishRelease,
    PufferfishSwap,
    audit,
    report,
)

MECHANISMS = {
    "typical rows": PufferfishMicroaggregator,
    "swap": PufferfishSwap,
    "noise": PufferfishNoiser,
}


def table_of(n=1200, seed=0):
    """Return people whose x tells who is ill to who knows their ages, and not their bins."""
    rng = np.random.default_rng(seed)
    ill, age = rng.integers(0, 2, n), rng.integers(20, 60, n)
    own = {"ill": ill, "age": age, "x": (ill + age) % 2, "k": rng.integers(0, 2, n)}
    return pd.DataFrame(own | {"income": rng.integers(0, 100, n)})


def fitted(how, table=None, epsilon=0.5, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MECHANISMS[how](epsilon, **settings).fit(table_of() if table is None else table)


def in_bins(how):
    if how == "noise":
        own = {"public": ["age", "x"], "known": "age", "n_bins": {"age": 2}}
        return fitted(how, sensitive="ill", **own)
    return fitted(how, sensitive="ill", public="x", known={"age": 2})


def section(release, title):
    [part] = [p for p in report(release, kind="external").page.sections if p.title == title]
    return part


def both(release):
    """Return an estimator, and the release that is read from its artifact."""
    return release, PufferfishRelease.from_json(release.to_json())


@pytest.mark.parametrize("how", MECHANISMS)
def test_who_knows_a_column_more_finely_than_its_bin_is_told_not_to_be_covered(how):
    finer = "Readers who know 'age' more finely than in bins (or merged)"
    for release in both(in_bins(how)):
        certificate = release.certificate_
        assert "age (in bins)" in str(certificate).splitlines()[0] + certificate.promise()
        assert finer in str(certificate)
        assert finer in str(certificate.details())
        assert finer in str(report(release, kind="external"))
        ways = dict(section(release, "Released columns").cells[1:])
        assert ways["age"] == "in bins or merged, since a reader may know it"


@pytest.mark.parametrize("how", MECHANISMS)
def test_a_known_column_as_it_is_has_no_sentence_about_bins(how):
    public = ["x", "k"] if how == "noise" else "x"
    for release in both(fitted(how, sensitive="ill", public=public, known="k")):
        ways = dict(section(release, "Released columns").cells[1:])
        assert ways["k"].startswith("as it is, ")
        for page in (release.certificate_.details(), report(release, kind="external")):
            assert "more finely" not in str(page)


@pytest.mark.parametrize("how", MECHANISMS)
@pytest.mark.parametrize("bins", [[49], 3])
def test_values_within_an_interval_of_secrets_are_said_not_to_be_protected(how, bins):
    known = {"known": "k"} if how == "swap" else {}
    table = table_of().assign(code=lambda t: t["income"] % 2)
    settings = {"sensitive": {"income": bins}, "public": "code"} | known
    for release in both(fitted(how, table, **settings)):
        within = "values within one of them are NOT protected against each other"
        assert within in str(release.certificate_)
        assert "one value of one sensitive column" not in str(release.certificate_.details())
        assert within in str(report(release, kind="external"))
        [said] = section(release, "Protected secrets").sentences
        assert said.startswith(
            "Each secret is one value of income or all values in one interval or merged into one"
        )


def test_merged_secrets_of_a_swap_are_said_not_to_be_protected_also_of_a_later_table():
    rng = np.random.default_rng(0)
    ill = rng.choice(["flu", "hiv", "no"], 600, p=[0.2, 0.2, 0.6])
    table = pd.DataFrame({"ill": ill, "drug": ill, "k": rng.integers(0, 2, 600)})
    groups = {"secret_groups": {"sick": ["flu", "hiv"]}}
    swap = fitted("swap", table, sensitive="ill", public="drug", known="k", **groups)
    for release in both(swap):
        release.transform(table)
        for page in (release.certificate_, report(release, kind="external")):
            assert "NOT protected against each other" in str(page)


def test_a_report_of_a_swap_by_distances_is_the_same_of_its_artifact():
    rng = np.random.default_rng(0)
    inc = rng.integers(0, 4, 800)
    table = pd.DataFrame({"inc": inc, "x": inc, "k": rng.integers(0, 2, 800)})
    edges = {"sensitive": {"inc": [0.5, 1.5, 2.5]}, "metric": "steps"}
    for release in both(fitted("swap", table, public="x", known="k", **edges)):
        page = str(report(release, kind="external"))
        assert "even chance" not in page
        [shift] = [line for line in page.splitlines() if "Shift of odds" in line]
        assert shift.endswith("for secrets at distance 1")
        assert "pairs have it times their distance" in page


COMBINED = [("race", "sex"), "hiv"]


def table_of_three(n=1200):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.integers(0, 2, n) for name in ("race", "sex", "hiv")})
    return table.assign(x=table["hiv"] ^ table["race"])


def test_pages_name_which_combinations_are_secrets_and_that_others_are_not():
    rows = fitted("typical rows", table_of_three(), sensitive=COMBINED, public="x")
    others = "Combinations of several sensitive columns are not secrets, but for 'race and sex'"
    for release in both(rows):
        [said] = section(release, "Protected secrets").sentences
        assert said.startswith(
            "Each secret is a combination of values of race and sex or one value of hiv; every one"
        )
        assert others in str(release.certificate_.details())
        assert others in str(report(release, kind="external"))
    for sensitive, told in ((["race", "hiv"], True), ("hiv", False), ([("race", "hiv")], False)):
        plain = fitted("typical rows", table_of_three(), sensitive=sensitive, public="x")
        for page in (plain.certificate_.details(), report(plain, kind="external")):
            assert ("Combinations of several sensitive columns are not" in str(page)) == told


@pytest.mark.parametrize("pairs", [{"s": [(0, 1)], "h": "all"}, {"s": [(0, 1)]}])
def test_a_column_all_of_whose_secrets_are_protected_is_listed_beside_listed_pairs(pairs):
    table = table_of().rename(columns={"ill": "s", "k": "h"})
    rows = fitted("typical rows", table, sensitive=["s", "h"], secret_pairs=pairs, public="x")
    told = section(rows, "Protected secrets")
    assert told.cells == [["sensitive", "secret", "against"], ["s", "0", "1"]]
    [said] = told.sentences
    assert said.startswith("Each secret is one value of h; every one is protected against every")
    read = PufferfishRelease.from_json(rows.to_json())
    [said] = section(read, "Protected secrets").sentences
    assert said.endswith("only some pairs of them are protected: ask who released the table which.")


@pytest.mark.slow
def test_combinations_are_audited_by_the_columns_that_they_are_of():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.integers(0, 2, 200) for name in ("b", "an", "x")})
    table["d"] = table["b"]
    rows = fitted("typical rows", table, sensitive=[("b", "d"), "an"], public="x")
    for release in both(rows):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attacks = audit(release, table, random_state=0).attacks
        assert {attack.sensitive for attack in attacks} == {"b and d", "an"}


def test_a_column_that_is_called_as_a_combination_is_refused_by_its_name():
    table = table_of_three().rename(columns={"hiv": "race and sex"})
    with pytest.raises(ValueError, match="sensitive names race and sex twice"):
        fitted("typical rows", table, sensitive=[("race", "sex"), "race and sex"], public="x")


@pytest.mark.slow
def test_an_artifact_of_a_swap_of_merged_secrets_is_audited_as_the_swap_is():
    rng = np.random.default_rng(0)
    ill = rng.choice(["flu", "hiv", "no"], 600, p=[0.2, 0.2, 0.6])
    table = pd.DataFrame({"ill": ill, "k": rng.integers(0, 2, 600), "x": rng.random(600)})
    groups = {"secret_groups": {"sick": ["flu", "hiv"]}}
    swap, read = both(fitted("swap", table, sensitive="ill", public="x", known="k", **groups))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own, again = (audit(each, table, random_state=0) for each in (swap, read))
    assert [a.secret for a in again.attacks] == [a.secret for a in own.attacks]


@pytest.mark.slow
def test_an_audit_takes_known_bins_as_known():
    release = in_bins("typical rows")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = audit(release, table_of(), random_state=0)
    assert any(note.startswith("Readers know 'age' anyway") for note in found.notes)


@pytest.mark.filterwarnings("ignore::sklearn_puffer.UtilityWarning")
@pytest.mark.parametrize("how", ["typical rows", "swap"])
def test_both_first_lines_and_a_warning_say_that_known_columns_tell_the_secret(how):
    table = table_of().assign(ward=lambda t: np.where(t["ill"], "oncology", "other"))
    made = MECHANISMS[how](sensitive="ill", known="ward", public="x")
    with pytest.warns(UserWarning, match="'ward' tell the secret of 100% of the people by them"):
        made.fit(table)
    said = "; but 100% of the people are in strata of one secret, which tell it"
    assert str(made.certificate_).splitlines()[0].endswith(said)
    assert said in report(made).page.headline
    for release in both(made):
        headline = report(release, kind="external").page.headline
        assert headline.endswith("; known columns may tell secrets by themselves")
    plain = fitted(how, table, sensitive="ill", known="k", public="x")
    assert "one secret" not in str(plain.certificate_).splitlines()[0]


def test_who_joins_a_coarser_form_of_a_joined_label_is_said_not_to_be_covered():
    rows = fitted("typical rows", sensitive="ill", joined="k", public="x")
    said = "Not covered: who joins a coarser form of 'k'"
    for release in both(rows):
        assert said in str(release.certificate_.details())
        assert said in str(report(release, kind="external"))
        assert "or a coarser form of it" in str(release.certificate_)
    plain = fitted("typical rows", sensitive="ill", public="x")
    assert "coarser form" not in str(plain.certificate_.details())


@pytest.mark.parametrize("read", [False, True])
def test_the_largest_group_is_told_to_recipients_only_where_it_was_given(read):
    def page_of(most, max_group="count"):
        rng = np.random.default_rng(0)
        home = np.repeat(np.arange(400), most)
        ill = rng.integers(0, 2, 400)[home]
        table = pd.DataFrame({"home": home, "ill": ill, "x": rng.integers(0, 3, len(home))})
        groups = {"groups": "home", "max_group": max_group}
        noiser = both(fitted("noise", table, epsilon=2.0, sensitive="ill", **groups))[read]
        return re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "", str(report(noiser, kind="external")))

    assert page_of(2) == page_of(3)
    assert ("at most 3 rows with one value of home" in page_of(2, 3)) == (not read)


def pages_of(release):
    """Return both reports of an estimator, and of the release that is read from its artifact."""
    kinds = ("internal", "external")
    return [str(report(each, kind=kind)) for each in both(release) for kind in kinds]


LIST = (
    "Who holds the list of the fitted rows, those that the noise was learnt from, with or without"
)


def test_who_holds_the_list_of_rows_is_covered_by_noise_for_one_row_and_not_for_a_file():
    table = pd.DataFrame({"loan": ["no", "no", "yes", "yes"], "city": ["a", "a", "b", "b"]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noiser = PufferfishNoiser(1.0, sensitive="loan").fit(table)
    kept = 1.0 - -math.expm1(-noiser.theta_["city"]) / 2.0  # a half of what is drawn anew is alike
    row = math.log(kept / (1.0 - kept))
    assert row == pytest.approx(1.0)
    odds = {True: 0.0, False: 0.0}  # of the first person's secret, who sees a, a, b, b
    for people in itertools.combinations(range(4), 2):
        right = sum((k in people) == (city == "a") for k, city in enumerate("aabb"))
        odds[0 in people] += kept**right * (1.0 - kept) ** (4 - right)
    assert math.log(odds[True] / odds[False]) > 1.4
    for page in pages_of(noiser):
        assert f"{LIST} secrets, but not which person each row" in page
        assert "is covered for one released row of them, NOT for the whole file" in page


@pytest.mark.parametrize(
    "settings",
    [
        {"dependence": "independent"},
        {"prior": "gaussian", "public": "income", "n_bins": None},
        {"remainder": "passthrough"},
    ],
)
def test_who_holds_the_list_of_rows_is_not_covered_by_noise_for_another_prior(settings):
    noiser = fitted("noise", sensitive="ill", **{"public": ["age", "k"], "n_bins": 3, **settings})
    for page in pages_of(noiser):
        assert LIST not in page
        assert "Who holds a list of the rows, with or without secrets, knows more than" in page


def test_pages_say_what_the_certificate_leaves_open_where_they_do_not_repeat_it():
    table = table_of(600).assign(home=np.arange(600) // 2)
    table["ill"] = table.groupby("home")["ill"].transform("first")
    knowing = fitted("noise", sensitive="ill", public=["age", "x"], known="x", n_bins={"age": 3})
    homes = fitted("swap", table, sensitive="ill", groups="home", public=["age"])
    labelled = PufferfishMicroaggregator(0.5, n_prototypes=4)
    labelled.fit(table[["age", "k"]], table["income"], sensitive_features=table["ill"])
    for release, said in (
        (knowing, "Known columns are covered by themselves, not with other facts or another"),
        (knowing, "The noise is as large as the fitted rows ask for: what its size"),
        (knowing, "A row with a value that no fitted row had may tell more."),
        (knowing, "Who knows age more finely than in bins may learn more."),
        (homes, "Sizes of groups, and which rows are in one, stay and are known."),
        (labelled, "A label chose typical rows: rows are taken as independent given the label"),
    ):
        for page in pages_of(release):
            assert said in page


def test_who_signs_reads_which_columns_get_no_noise_and_recipients_do_not():
    same = pd.DataFrame({"loan": ["no", "yes"] * 40, "cars": [1, 1, 2, 2] * 20})
    noiser = fitted("noise", same, sensitive="loan")
    said = "Column(s) 'cars' need no noise under this prior and are released unchanged"
    assert said in str(report(noiser))
    assert said not in str(report(noiser, kind="external"))
    assert "nothing was changed" in str(noiser.certificate_).splitlines()[0]
