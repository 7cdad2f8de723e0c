"""Certificates and reports claim no protection that a release does not give."""

import warnings

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import (
    PufferfishMicroaggregator,
    PufferfishNoiser,
    PufferfishRelease,
    PufferfishSwap,
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
        assert within in str(report(release, kind="external"))
        [said] = section(release, "Protected secrets").sentences
        assert said.startswith(
            "Each secret is one value of income, or all values in one interval or merged into one"
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
