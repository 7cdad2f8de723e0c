"""What a person reads of a certificate: one verdict, its words explained, and no forged lines."""

import dataclasses
import html
import json
import re
import textwrap
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from claims import altered

import sklearn_puffer
from sklearn_puffer import (
    PufferfishMicroaggregator,
    PufferfishNoiser,
    PufferfishSGDClassifier,
    PufferfishSGDRegressor,
    PufferfishSum,
    PufferfishSwap,
)
from sklearn_puffer._certificates.certificate_figures import KEYED
from sklearn_puffer.priors import ConfidenceSet, Discrete, GaussianMixture
from sklearn_puffer.users import User

LAWS = {"n": Discrete([0, 1], [0.5, 0.5]), "y": Discrete([0, 1], [0.25, 0.75])}
BELLS = {"n": GaussianMixture([1.0], [0.0], [1.0]), "y": GaussianMixture([1.0], [1.0], [1.0])}


def table_of(n=60):
    return pd.DataFrame({"s": ["n", "y", "y"] * (n // 3), "x": [0, 1, 1, 1, 1, 0] * (n // 6)})


def noiser(epsilon=0.1, **options):
    return PufferfishNoiser(epsilon, sensitive="s", **options).fit(table_of())


def descent(kind):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (100, 2))
    return kind(1.0).fit(X, (X[:, 0] > 0).astype(float))


def query():
    return PufferfishSum(0.5).fit([User(Discrete([0, 1], [0.5, 0.5]), count=9)])


MAKERS = {
    "noiser": noiser,
    "sum": query,
    "regressor": lambda: descent(PufferfishSGDRegressor),
    "classifier": lambda: descent(PufferfishSGDClassifier),
}


@pytest.fixture(params=list(MAKERS))
def certificate(request):
    return MAKERS[request.param]().certificate_


def verdict(certificate):
    return certificate.details().splitlines()[0]


# ------------------------------------------------------------------------------------- one verdict


@pytest.mark.parametrize(
    ("options", "whose"),
    [
        ({}, "the counted prior, but NOT for readers who know the population better"),
        ({"adversaries": [LAWS]}, "the counted prior and 1 further prior(s), but NOT for readers "),
        (
            {"adversaries": [ConfidenceSet(0.9)]},
            "the counted prior, and for every prior within sampling error (90%)",
        ),
        ({"prior": LAWS}, "the given prior"),
        ({"prior": BELLS}, "the given prior"),
        ({"prior": "gaussian"}, "the fitted Gaussian prior"),
        pytest.param({"prior": "gmm"}, "the fitted Gaussian mixture prior", marks=pytest.mark.slow),
    ],
)
def test_the_verdict_names_the_prior_and_what_sampling_error_does_to_it(options, whose):
    certificate = noiser(**options).certificate_
    assert verdict(certificate).startswith(f"Certificate: holds for {whose}")


def test_a_guarantee_that_is_broken_has_no_second_verdict():
    certificate = altered(noiser().certificate_, loss=9.0)
    assert verdict(certificate) == "Certificate: DOES NOT HOLD for the counted prior"


def test_no_line_says_that_a_loss_is_above_the_budget_of_a_guarantee_that_holds(certificate):
    assert "holds" in verdict(certificate)
    assert "above the budget" not in certificate.details().lower()


def test_html_has_the_headings_the_lines_and_the_sentences_of_the_text(certificate):
    text, page = certificate.details(), certificate._repr_html_()
    shown = html.unescape(re.sub(r"<[^>]*>", "\n", page)).split("\n")
    titles = [line.removesuffix(":") for line in text.splitlines() if line.endswith(":")]
    assert titles
    assert [html.unescape(title) for title in re.findall("<h5>(.*?)</h5>", page)] == titles
    assert html.unescape(re.search("<h4>(.*?)</h4>", page)[1]) == verdict(certificate)
    for line in text.split("\n\n")[0].splitlines():
        assert line in shown
    for sentence in certificate.assumptions:
        assert (sentence in shown) == (sentence != KEYED)
    assert page.index("<details>") < page.index("<h5>")


def test_the_words_of_the_certificate_are_explained_where_they_stand():
    lines = noiser().certificate_.details().splitlines()
    after = {line: lines[k + 1] for k, line in enumerate(lines[:-1])}
    assert "theta is the scale of the noise" in after["Noise by column:"]
    assert "grid" not in after["Noise by column:"]
    assert "recomputed: " in after["Worst pairs of secrets (of 2):"]
    assert "theorem: " in after["Worst pairs of secrets (of 2):"]
    assert any(
        "The prior is what somebody may know" in line and "distribution" in line for line in lines
    )


# ------------------------------------------------------------------------------- the first screen


def lines_of(certificate):
    """Return the lines that a window of 100 columns shows."""
    lines = str(certificate).splitlines()
    return [part for line in lines for part in textwrap.wrap(line, 100)]


def test_the_first_screen_has_at_most_twelve_lines_and_nothing_that_does_not_apply(certificate):
    lines = lines_of(certificate)
    assert len(lines) <= 12, "\n".join(lines)
    assert verdict(certificate) == str(certificate).splitlines()[0]
    assert certificate.promise() in str(certificate)
    assert sum(line.startswith("Risk: ") for line in lines) == 2
    for word in ("AES", "grid", "keyed"):
        assert word not in str(certificate)
        assert word not in certificate.details().replace(" on the same grid", "").replace(
            "Other bins or another grid", ""
        ).replace("beyond the grid of the noise", "")
    assert "certificate_.details()" in str(certificate)


def test_the_first_screen_says_whether_to_worry_about_sampling_error_and_what_to_do():
    worried, calm = noiser(), noiser(adversaries="confidence")
    [said] = [line for line in str(worried.certificate_).splitlines() if "population" in line][1:]
    loss = worried.certificate_.over_set.loss
    assert "Risk: readers who know the population better than these 60 rows may reach" in said
    assert f"a loss of {loss:.3g}" in said
    assert said.endswith('if yours may, fit with adversaries="confidence".')
    assert "population" not in str(calm.certificate_)
    assert "and for every prior within sampling error (95%)" in str(calm.certificate_)


@pytest.mark.parametrize("prior", ["gaussian", LAWS], ids=["fitted", "given"])
def test_that_a_prior_is_taken_as_true_is_a_risk(prior):
    first = next(x for x in str(noiser(prior=prior).certificate_).splitlines() if "Risk" in x)
    assert first.startswith("Risk: readers whose prior differs from this one may learn more")
    assert "certificate_.against(prior)" in first
    for calm in noiser(), noiser(adversaries="confidence"), noiser(strategy="sensitivity"):
        assert "differs from this one" not in str(calm.certificate_)


def test_an_answer_says_how_far_noise_moves_it():
    certificate = query().certificate_
    answer = certificate.columns[0]
    said = f"by {answer.theta:.3g} on average, {answer.theta / answer.spread:.3g} standard dev"
    assert said in str(certificate)
    unchanged = dataclasses.replace(answer, theta=0.0)
    free = altered(certificate, columns=(unchanged,))
    assert "The answer is released unchanged." in str(free)


def test_what_is_not_protected_is_the_first_risk():
    table = table_of().assign(passed=1)
    made = PufferfishNoiser(0.1, sensitive="s", public="x", remainder="passthrough").fit(table)
    first = next(line for line in str(made.certificate_).splitlines() if "Risk" in line)
    assert first.startswith("Risk: 'passed' are passed through and NOT protected")
    seeded = noiser(random_state=3)
    assert "NOTHING is guaranteed outside tests" in str(seeded.certificate_)


def test_a_broken_guarantee_promises_nothing_on_the_first_screen():
    broken = altered(noiser().certificate_, loss=9.0, remedy="use another strategy.")
    assert "DOES NOT HOLD" in str(broken).splitlines()[0]
    assert "NOTHING IS PROMISED" in str(broken)
    assert "use another strategy." in str(broken)


# --------------------------------------------------------------------------- date, version and size


def test_a_certificate_tells_its_date_its_version_and_its_table(certificate):
    told = json.loads(certificate.to_json())
    date = datetime.fromisoformat(told["date"])
    assert date.utcoffset() == timedelta(0)
    assert timedelta(0) <= datetime.now(UTC) - date < timedelta(hours=1)
    assert told["version"] == sklearn_puffer.__version__
    assert (
        f"Fitted by sklearn_puffer {told['version']} at {told['date']} on " in certificate.details()
    )
    assert told["schema"][-2:] != "/1"


def test_a_certificate_counts_all_columns_of_the_table():
    assert noiser().certificate_.n_columns == 2
    apart = PufferfishNoiser(0.1).fit(table_of()[["x"]], sensitive_features=table_of()["s"])
    assert apart.certificate_.n_columns == 2
    assert "on 60 rows and 2 columns." in apart.certificate_.details()
    assert "on 100 records and 3 columns." in descent(PufferfishSGDRegressor).certificate_.details()


def test_a_certificate_may_be_given_the_name_of_the_table(certificate):
    named = certificate.named("bank.csv")
    assert verdict(named).startswith("Certificate of bank.csv: holds")
    assert json.loads(named.to_json())["name"] == "bank.csv"
    assert named == certificate
    assert certificate.name == ""
    with pytest.raises(TypeError, match="name must be a string, got 7"):
        certificate.named(7)


def test_the_date_is_no_part_of_what_makes_certificates_equal():
    certificate = noiser().certificate_
    later = altered(certificate, date="2999-01-01T00:00:00Z")
    assert later == certificate
    assert later.fingerprint == certificate.fingerprint


def test_the_html_of_a_fitted_estimator_says_whether_the_guarantee_holds():
    fitted = noiser()
    assert "holds for the counted prior" in fitted._repr_html_()
    fitted.certificate_ = altered(fitted.certificate_, loss=9.0)
    assert "DOES NOT HOLD" in fitted._repr_html_()


@pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning")
@pytest.mark.filterwarnings("ignore::sklearn_puffer.UtilityWarning")
@pytest.mark.parametrize("kind", [PufferfishNoiser, PufferfishMicroaggregator, PufferfishSwap])
def test_a_pair_of_secrets_that_is_not_listed_is_said_to_be_open(kind):
    """A swap of a and b alone leaves everybody with secret c the own row."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"s": rng.choice(["a", "b", "c"], 600), "x": rng.integers(0, 3, 600)})
    table["id"] = range(600)
    options = {"ids": "id"} if kind is PufferfishSwap else {}
    for pairs in ("all", [("a", "b")]):
        release = kind(sensitive="s", public="x", secret_pairs=pairs, **options).fit(table)
        released = release.transform(table)
        for text in (str(release.certificate_), release.certificate_.details()):
            assert ("secrets of a listed pair of s" in text) == (pairs != "all")
            assert ("does not list are NOT protected" in text) == (pairs != "all")
    assert "Risk: Pairs of secrets" in str(release.certificate_)
    open_pairs = "Pairs of secrets that secret_pairs= does not list are NOT protected"
    assert open_pairs in str(sklearn_puffer.report(release, kind="external"))
    if kind is PufferfishSwap:  # and that is said after a release, too
        c = table["s"] == "c"
        assert (released["x"] == table["x"])[c].all()
        assert not (released["x"] == table["x"])[~c].all()
