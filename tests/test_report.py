"""The report for the person who signs: what it says, what it leaves out, and that it is inert."""

import html
import itertools
import json
import math
import re
import sys
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import jinja2
import markupsafe
import numpy as np
import pandas as pd
import pytest
from claims import altered, half
from sklearn.exceptions import NotFittedError

from sklearn_puffer import (
    PufferfishMicroaggregator,
    PufferfishNoiser,
    PufferfishRelease,
    PufferfishSwap,
    UncertifiedError,
    audit,
    report,
)
from sklearn_puffer._documents import render, templates
from sklearn_puffer._review.measured import Survived
from sklearn_puffer.notions import promised

pytestmark = pytest.mark.usefixtures("quick_attackers")

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '" onload="alert(1)',
    "](javascript:alert(1)) ![x](http://x.example/y)",
    "| a | b |\n# Report: all is well",
    "\u202egnp.exe\x1b[2J",
    "</style></title><svg onload=alert(1)>",
    "&lt;b&gt;",
]
VOID = {"meta", "br", "img", "link", "input"}
TAGS = {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "section", "div"}
TAGS |= {"table", "thead", "tbody", "tr", "th", "td", "ul", "li", "figure", "figcaption"}
TAGS |= {"svg", "rect", "text"}


class Reader(HTMLParser):
    """What a browser would see, by a parser that shares no code with what writes."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.words = [], [], [], {}

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.setdefault(self.open[-1] if self.open else "", []).append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


def make_table(seed=0, n=120, name="cars", shift=1):
    rng = np.random.default_rng(seed)
    loan = np.tile(["no", "yes"], n // 2)
    values = rng.integers(0, 4, n) + shift * (loan == "yes")
    return pd.DataFrame({"loan": loan, name: values, "old": rng.random(n) < 0.5})


def make_noiser(table=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noiser = PufferfishNoiser(sensitive="loan", **settings)
        return noiser.fit(make_table() if table is None else table)


KINDS = ["internal", "external"]


@pytest.fixture(scope="module")
def noiser():
    return make_noiser()


@pytest.fixture(scope="module")
def audited(noiser):
    """An audit of the noiser; nobody else reads the release, which would take time."""
    return audit(noiser, make_table(7, 400))


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_is_whole_and_needs_nothing_from_elsewhere(noiser, kind):
    page = read(report(noiser, kind=kind, name="loans", by="me").html)
    assert set(page.tags) <= TAGS
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on") or name in ("src", "href", "style")}
    assert not [value for _, value in page.attributes if value and "://" in value]
    assert "url(" not in page.words["style"][0]
    assert "@import" not in page.words["style"][0]
    headings = [tag for tag in page.tags if re.fullmatch(r"h\d", tag)]
    assert headings[0] == "h1"
    assert set(headings[1:]) == {"h2"}
    assert page.tags.count("th") == sum(name == "scope" for name, _ in page.attributes)
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {v for n, v in page.attributes if n == "aria-labelledby"} == set(ids)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_words(name, kind):
    table = make_table(name=name).rename(columns={"loan": f"s{name}"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noiser = PufferfishNoiser(sensitive=f"s{name}").fit(table)
    told = report(noiser, kind=kind, name=name, by=name)
    page = read(told.html)
    assert set(page.tags) <= TAGS
    assert not [each for each, _ in page.attributes if each.startswith("on")]
    assert "\n" not in page.words["h1"][0]
    shown = on_a_line(name)
    assert shown in " ".join(page.words["th"])
    assert not told.html.count("\u202e") + str(told).count("\u202e") + told.html.count("\x1b")
    assert shown in str(told)


@pytest.mark.parametrize("kind", KINDS)
def test_what_calls_itself_safe_is_escaped_like_any_name(kind):
    name = markupsafe.Markup("<script>alert(1)</script>")
    table = make_table(name=name).rename(columns={"loan": name + "2"})
    pairs = [(markupsafe.Markup("<i>no</i>"), markupsafe.Markup("<i>yes</i>"))]
    table[name + "2"] = [pairs[0][value == "yes"] for value in table[name + "2"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noiser = PufferfishNoiser(sensitive=name + "2", secret_pairs=pairs).fit(table)
    page = report(noiser, kind=kind, name=name, by=name).html
    assert set(read(page).tags) <= TAGS
    assert "&lt;i&gt;" in page


def on_a_line(name):
    text = name.replace("\\", "\\\\")
    return text.replace("\n", "\\n").replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")


@pytest.mark.parametrize("kind", KINDS)
def test_the_json_has_its_schema_and_comes_back_as_it_was(noiser, kind):
    told = report(noiser, kind=kind)
    assert json.loads(told.to_json()) == told.to_dict()
    found = told.to_dict()
    assert found["schema"] == "sklearn_puffer.report/2"
    own = {"schema", "kind", "headline", "holds", "name", "by", "date", "version", "lines"}
    further = {"internal": {"certificate", "audit"}, "external": set()}
    assert set(found) == own | {"sections"} | further[kind]
    for section in found["sections"]:
        assert set(section) == {"title", "note", "table", "sentences"}


@pytest.mark.parametrize("kind", KINDS)
def test_all_forms_begin_with_the_same_verdict(noiser, kind):
    told = report(noiser, kind=kind, name="loans")
    first = told.to_dict()["headline"]
    assert "holds" in first
    assert str(told).splitlines()[0] == first
    assert read(told.html).words["h1"] == read(told.html).words["title"] == [first]
    assert f"<h4>{first}" in told._repr_html_()


def dropped(text, *dates):
    for date in dates:
        text = text.replace(date, "then")
    return text


SETTINGS = [
    {},
    {"n_bins": 2, "missing": "propagate"},
    {"noise": "gaussian", "delta": 1e-3, "releases": 2},
    {"alpha": 3.0, "dependence": "independent"},
    {"adversaries": "confidence", "public": "cars", "remainder": "passthrough"},
    {"secret_pairs": [("no", "yes")]},
    {"prior": "gaussian", "public": "cars", "delta": 1e-3},
    {"known": "old"},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_what_recipients_get_is_the_same_for_very_different_rows(settings):
    told = []
    for table in (make_table(), make_table(1, 400, shift=2)):
        noiser = make_noiser(table, **settings)
        whole = "alpha" in settings
        form = None if whole else PufferfishRelease.from_json(noiser.to_json())
        for each in (noiser, form or noiser):
            found = report(each, kind="external", name="loans", by="me")
            dates = found.date, noiser.certificate_.date
            ways = found.html, found.to_json(), str(found)
            told.append([dropped(way, *dates) for way in ways])
    assert told[0] == told[2]
    assert told[1] == told[3]


def test_what_recipients_get_names_no_value_that_was_found(noiser):
    renamed = make_table().replace({"loan": {"no": "zebra", "yes": "quagga"}})
    told = report(make_noiser(renamed), kind="external")
    for way in (told.html, told.to_json(), str(told)):
        assert "zebra" not in way
        assert "quagga" not in way
    fingerprint = noiser.certificate_.fingerprint
    external, internal = (report(noiser, kind=kind).html for kind in ("external", "internal"))
    assert fingerprint not in external
    assert fingerprint in internal


def test_declared_pairs_are_told_to_recipients():
    told = report(make_noiser(secret_pairs={"loan": [("no", "yes")]}), kind="external")
    tables = {each["title"]: each["table"] for each in told.to_dict()["sections"]}
    assert tables["Protected secrets"]["rows"] == [["loan", "no", "yes"]]


OPEN = "Conditions, and what is left open"


def test_passed_columns_are_told_first_among_what_is_not_guaranteed():
    noiser = make_noiser(public="cars", remainder="passthrough")
    for kind in KINDS:
        sections = {s["title"]: s for s in report(noiser, kind=kind).to_dict()["sections"]}
        place = {"internal": OPEN, "external": "What is not guaranteed"}
        first = sections[place[kind]]["sentences"][0]
        assert first.startswith("old: passed through and NOT protected")


def test_a_certificate_that_does_not_hold_is_told_on_the_first_line_and_to_no_recipient():
    noiser = make_noiser(strategy=half)
    told = report(noiser, name="loans")
    assert not told.holds
    assert '<main class="internal broken">' in told.html
    assert str(told).startswith("Report of loans: the certificate DOES NOT HOLD")
    assert read(told.html).words["h1"][0].startswith("Report of loans: the certificate DOES NOT")
    assert "even chance" not in told.html
    with pytest.raises(UncertifiedError, match='use kind="internal"'):
        report(noiser, kind="external")


def test_a_seed_is_told_on_the_first_line_and_to_no_recipient(noiser):
    seeded = make_noiser(random_state=3)
    hidden = make_noiser(random_state=3).set_params(random_state=None)
    older = make_noiser(random_state=3).set_params(random_state=None)
    words = [said.replace("guaranteed", "promised") for said in older.certificate_.assumptions]
    older.certificate_ = replace(older.certificate_, assumptions=words)  # of an earlier version
    later = make_noiser().set_params(random_state=3)
    for each in (seeded, hidden, older, later):
        told = report(each)
        assert "NOTHING IS PROMISED outside tests" in str(told).splitlines()[0]
        assert '<main class="internal broken">' in told.html  # and no green beside it
        with pytest.raises(ValueError, match="random_state"):
            report(each, kind="external")


def test_who_signs_sees_how_columns_are_released_and_that_nobody_attacked(noiser):
    told = report(noiser, by="me")
    sections = {section["title"]: section for section in told.to_dict()["sections"]}
    survives = sections["How much of the data survives"]["table"]["rows"]
    assert [row[0] for row in survives] == ["cars", "old"]
    assert list(sections)[:3] == ["At a glance", OPEN, "What you must decide"]
    assert sections["Audit"]["sentences"][0].startswith("None was given")


@pytest.mark.slow
def test_what_an_audit_found_stands_right_below_the_verdict(noiser, audited):
    found = audited
    told = report(noiser, audit=found)
    assert str(told).splitlines()[2] == str(found).splitlines()[0]
    assert told.to_dict()["audit"] == json.loads(found.to_json())
    titles = [section["title"] for section in told.to_dict()["sections"]]
    assert any(title.startswith("Audit: ") for title in titles)
    with pytest.raises(ValueError, match="audit is of a release of fingerprint"):
        report(make_noiser(epsilon=0.3), audit=found)
    assert "attack" not in report(noiser, kind="external").html


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"kind": "both"}, ValueError, "kind must be one of"),
        ({"kind": 3}, (TypeError, ValueError), "kind"),
        ({"audit": "none"}, TypeError, "audit must be"),
        ({"name": 3}, TypeError, "name must be a string"),
        ({"by": None}, TypeError, "by must be a string"),
        ({"noiser": 3}, TypeError, "noiser must be a fitted PufferfishNoiser"),
        ({"noiser": PufferfishNoiser()}, NotFittedError, "not fitted"),
    ],
)
def test_what_is_wrong_is_refused_by_name(noiser, arguments, error, message):
    with pytest.raises(error, match=message):
        report(**{"noiser": noiser, **arguments})


def test_an_audit_is_refused_of_a_report_for_recipients(noiser, audited):
    with pytest.raises(ValueError, match=r"^audit is for who signs.*leave it out"):
        report(noiser, audited, kind="external")


def test_a_noiser_that_was_changed_since_gets_no_report(noiser):
    changed = make_noiser()
    changed.epsilon = 9.0
    with pytest.raises(ValueError, match="set after fit"):
        report(changed)


def test_a_report_is_written_once_as_its_suffix_says(noiser, tmp_path):
    told = report(noiser, name="\ud800")
    ways = {"html": told.html, "json": told.to_json(), "txt": f"{told}\n"}
    for suffix, text in ways.items():
        path = tmp_path / f"report.{suffix.upper()}"
        told.save(path)
        assert path.read_bytes() == text.encode("utf-8", "backslashreplace")
        way = r"choose another name, or delete the file first, as by pathlib.Path\(...\).unlink"
        with pytest.raises(FileExistsError, match=way):
            told.save(str(path))
    assert json.loads((tmp_path / "report.JSON").read_text())["name"] == "\ud800"
    for wrong, error in ((tmp_path / "a.pdf", ValueError), (tmp_path / "a", ValueError)):
        with pytest.raises(error, match=r"\.html, \.json, \.txt"):
            told.save(wrong)
    with pytest.raises(TypeError, match="path"):
        told.save(3)
    assert len(list(tmp_path.iterdir())) == 3


def test_who_signs_reads_which_columns_are_left_out():
    few, all_of_them = (make_noiser(public=names) for names in ("cars", ["cars", "old"]))
    assert report(few).page.lines[0].endswith(" Left out of the file: loan, old.")
    assert report(all_of_them).page.lines[0].endswith(" Left out of the file: loan.")
    # of recipients only what is protected
    assert report(few, kind="external").page.lines[0].endswith(" Left out of the file: loan.")


@pytest.mark.parametrize("how", ["noise", "typical row", "exchanged with its row"])
def test_all_pages_say_second_that_the_file_is_not_anonymous(how):
    release = {"noise": make_noiser, **OTHERS}[how](make_table(0, 400))
    said = (
        "Only loan is protected. The file is not anonymous: other columns, and who is in the "
        "table, are not protected."
    )
    for kind in KINDS:
        assert str(report(release, kind=kind)).splitlines()[1].startswith(said)


def test_ids_and_columns_that_pass_through_have_a_line_of_their_own_above_the_figures():
    for release, said in (
        (exchanged(make_table(0, 200)), "client, old"),  # which is taken as known
        (make_noiser(public="cars", remainder="passthrough"), "old"),
    ):
        line = f"Goes out as it is, and is NOT protected: {said}."
        for kind in KINDS:
            assert report(release, kind=kind).page.lines[1] == line
    assert not any("Goes out as it is" in line for line in report(make_noiser()).page.lines)


def made_of_shares(how, labels):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"loan": labels, "cars": rng.integers(0, 3, len(labels))})
    table = table.sample(frac=1.0, random_state=1, ignore_index=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if how == "noise":
            return PufferfishNoiser(sensitive="loan").fit(table)
        if how == "typical row":
            return PufferfishMicroaggregator(sensitive="loan", n_prototypes=3).fit(table)
        return PufferfishSwap(sensitive="loan").fit(table)


@pytest.mark.parametrize("how", ["noise", "typical row", "exchanged with its row"])
def test_examples_start_from_shares_of_the_fitted_rows_which_recipients_do_not_read(how):
    two = made_of_shares(how, ["no"] * 126 + ["yes"] * 74)
    [told] = [line for line in report(two).page.lines if line.startswith("For example")]
    chances = [37.0 * math.e / (37.0 * math.e + 63.0), 63.0 * math.e / (63.0 * math.e + 37.0)]
    ends = [math.ceil(1000.0 * chance) / 10.0 for chance in chances]
    assert told.endswith(
        "becomes at most 73.2 %. In the fitted rows 37.0 % have loan = yes: of one such person a "
        f"reader who starts from that believes it at most {ends[0]:.1f} %; 63.0 % have loan = no: "
        f"of such a one at most {ends[1]:.1f} %."
    )
    assert ends == [61.5, 82.3]
    several = made_of_shares(how, ["no"] * 130 + ["yes"] * 90 + ["late"] * 80)
    [told] = [line for line in report(several).page.lines if line.startswith("For example")]
    assert re.findall(r"(\S+) % have (loan = \w+)", told) == [
        ("26.7", "loan = late"),
        ("43.3", "loan = no"),
    ]
    artifact = PufferfishRelease.from_json(two.to_json())
    for page in (report(two, kind="external"), report(artifact)):
        assert "In the fitted rows" not in str(page).partition("At a glance")[0]


def test_no_example_starts_from_shares_that_no_reader_is_held_to(noiser):
    knowing = make_noiser(make_table(), known="old")
    some = make_noiser(make_table().assign(loan=["a", "b", "c"] * 40), secret_pairs=[("a", "b")])
    for release in (knowing, some):
        assert "% have loan" not in str(report(release))
    assert "% have loan" in str(report(noiser))


def test_who_signs_reads_what_insiders_reached_if_anybody_tried(noiser, audited):
    own = replace(audited.attacks[0], view="insider", log_odds=0.0, low=-1.0, high=1.0, share=0.5)
    for allowed, said in ((math.log(3.0), "3.01 times allowed"), (math.nan, "no limit is")):
        found = replace(audited, others=(replace(own, allowed=allowed, p_all=1.0),))
        shifted, beside = figures_of(report(noiser, found))["Insiders"]
        assert shifted == "1.00 times"
        assert "odds shifted (0.36 to 2.72 times, the 95 % interval)" in beside
        assert said in beside
    assert "Insiders" not in figures_of(report(noiser, audited))


def test_two_reports_of_one_moment_are_the_same_bytes(noiser):
    pages = [report(noiser).html for _ in range(2)]
    one, two = (re.sub(r"\d{4}-\d\d-\d\dT[\d:]{8}Z", "then", page) for page in pages)
    assert one == two


# ------------------------------------------------------------------------------ the plain words


def test_an_even_chance_is_told_rounded_up(noiser):
    told = str(report(noiser))
    assert math.e / (1.0 + math.e) < 0.732
    assert "an even chance between two secrets becomes at most 73.2 %" in told


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_no_distributions_within_the_guarantee_make_a_rare_secret_likelier_than_is_said(epsilon):
    told = promised(epsilon).example()
    most = float(re.search(r"one of 1 % at most ([\d.]+) %", told)[1]) / 100.0
    p, q = np.array([math.exp(epsilon), 1.0]), np.array([1.0, math.exp(epsilon)])
    p, q = p / p.sum(), q / q.sum()  # randomized response, which attains the guarantee
    attained = max(0.01 * p / (0.01 * p + 0.99 * q))
    assert attained <= most < attained + 0.0011


@pytest.mark.parametrize(("epsilon", "useless"), [(0.01, True), (3.0, False)])
def test_who_signs_reads_where_a_release_keeps_no_more_than_constants_would(epsilon, useless):
    noiser = make_noiser(make_table(1, 400), epsilon=epsilon)
    own = noiser.utility_
    assert (own["change_sd"].mean() > own["constant_sd"].mean()) == useless
    told = report(noiser)
    headline = told.to_dict()["headline"]
    assert "the certificate holds" in headline
    assert ("BUT OF LITTLE USE: A CONSTANT" in headline) == useless
    assert not any("a constant would change" in line for line in told.page.lines)


def test_who_signs_reads_which_columns_keep_no_more_than_constants_would():
    rng = np.random.default_rng(0)
    secret, group = rng.random(800) < 0.2, rng.integers(0, 4, 800)
    told_by = np.where(rng.random(800) < 0.9, secret, ~secret)  # which only moved rows hide
    table = pd.DataFrame({"a": group + rng.random(800), "b": group, "told_by": told_by})
    rows = PufferfishMicroaggregator(0.3, n_prototypes=6).fit(table, sensitive_features=secret)
    own = rows.utility_
    assert list(own.index[own["change"] > own["constant"]]) == ["told_by"]
    assert any(
        line.startswith("In 1 of 3 columns a constant would change values less")
        for line in report(rows).page.lines
    )


def right_guesses(p, q):
    """Return how often the best guess between two distributions is right, from its definition."""
    return sum(max(one, two) for one, two in zip(p, q, strict=True)) / 2.0


def distributions(rng):
    p, q = rng.dirichlet(np.full(4, 0.7), 2)
    return p, q


def pure(p, q):
    return max(abs(math.log(one / two)) for one, two in zip(p, q, strict=True))


def excess(p, q, epsilon):
    return sum(max(one - math.exp(epsilon) * two, 0.0) for one, two in zip(p, q, strict=True))


def renyi(p, q, alpha):
    total = sum(one**alpha * two ** (1.0 - alpha) for one, two in zip(p, q, strict=True))
    return math.log(total) / (alpha - 1.0)


def test_no_two_distributions_within_a_guarantee_are_told_apart_more_often_than_is_said():
    rng = np.random.default_rng(5)
    for _, alpha in itertools.product(range(150), (1.5, 2.0, 8.0)):
        p, q = distributions(rng)
        guess = right_guesses(p, q)
        assert guess <= promised(pure(p, q)).best_guess() + 1e-12
        for epsilon in (0.1, 1.0):
            delta = max(excess(p, q, epsilon), excess(q, p, epsilon))
            if 0.0 < delta < 1.0:
                assert guess <= promised(epsilon, delta).best_guess() + 1e-12
        most = max(renyi(p, q, alpha), renyi(q, p, alpha))
        assert guess <= promised(most, alpha=alpha).best_guess() + 1e-12


def test_what_is_said_of_the_best_guess_is_attained():
    epsilon, delta = 1.0, 0.05
    share = (1.0 - delta) * math.exp(epsilon) / (1.0 + math.exp(epsilon))
    p = (delta, share, 1.0 - delta - share, 0.0)
    q = (0.0, 1.0 - delta - share, share, delta)
    assert excess(p, q, epsilon) == pytest.approx(delta)
    assert promised(epsilon, delta).best_guess() == pytest.approx(right_guesses(p, q))


def test_a_headline_calls_a_release_of_constants_useless_and_one_without_a_change_not():
    same = pd.DataFrame({"loan": ["no", "yes"] * 40, "cars": [1, 1, 2, 2] * 20})
    assert "LITTLE USE" not in report(make_noiser(same)).page.headline
    table = pd.DataFrame({"a": np.tile(np.arange(8.0), 20)})
    constant = PufferfishMicroaggregator(n_prototypes=1, min_size=160)
    constant.fit(table, sensitive_features=np.arange(160) // 2 % 2)
    assert "LITTLE USE" in report(constant).page.headline


NOT_FOR = {
    "the population": (make_noiser, ", but NOT for readers who know the population better"),
    "within sampling error": (lambda table: make_noiser(table, adversaries="confidence"), ""),
    "a whole file": (
        lambda table: typical_rows(table),
        ", but of fitted people for one row alone, NOT for a whole file",
    ),
    "a list": (lambda table: exchanged(table, known=None), ""),
    "a list, with known columns": (
        lambda table: exchanged(table),
        "; known columns may tell secrets by themselves",
    ),
}


@pytest.mark.parametrize("whom", NOT_FOR)
def test_the_first_line_for_recipients_says_for_whom_the_guarantee_does_not_hold(whom):
    made, said = NOT_FOR[whom]
    mixed = make_table(0, 400).sample(frac=1.0, random_state=0, ignore_index=True)
    release = made(mixed)
    for each in (release, PufferfishRelease.from_json(release.to_json())):
        headline = report(each, kind="external", name="loans").page.headline
        told = f"Report of loans, for recipients: the guarantee holds for readers named below{said}"
        assert headline == told


@pytest.mark.parametrize("how", ["noise", "typical row"])
def test_recipients_of_an_artifact_read_that_only_listed_pairs_are_protected(how):
    made = {"noise": make_noiser, "typical row": typical}[how]
    release = made(make_table(0, 400), secret_pairs=[("no", "yes")])
    read_back = PufferfishRelease.from_json(release.to_json())
    told = report(read_back, kind="external").to_dict()["sections"]
    [secrets] = [part for part in told if part["title"] == "Protected secrets"]
    [said] = secrets["sentences"]
    assert said.endswith(
        "; only some pairs of them are protected: ask who released the table which."
    )


def typical(table, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PufferfishMicroaggregator(n_prototypes=4, sensitive="loan", **settings).fit(table)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"level": None}, "nor for people of the list who know which rows are theirs"),
        ({"level": None}, "of few others with his secret he may be certain"),
        ({"values": "drawn"}, "more may be told of a fitted row than the budget"),
        ({"values": "drawn"}, "as a value drawn from those of a group"),
        ({"joined": "paid"}, "labels that are joined later (other than 'paid')"),
        ({}, "may be one person's"),
        ({}, "(if typical rows are more or less frequent, odds shift further)"),
        ({}, "Whole file, no list: people who were not fitted are covered"),
    ],
)
def test_recipients_of_typical_rows_read_what_the_settings_leave_open(settings, said):
    table = make_table(0, 400).assign(paid=np.arange(400) % 3 == 0)
    told = str(report(typical(table, **settings), kind="external"))
    assert said in " ".join(told.split())
    if settings:
        plain = str(report(typical(table), kind="external"))
        assert said not in " ".join(plain.split())


@pytest.mark.parametrize("made", [typical, lambda table, **known: exchanged(table, **known)])
def test_known_columns_in_bins_are_not_said_to_be_released_as_they_are(made):
    table = make_table(0, 400).assign(age=np.random.default_rng(2).permutation(400))
    told = report(made(table, known={"age": 3}), kind="external").to_dict()["sections"]
    [columns] = [part for part in told if part["title"] == "Released columns"]
    ways = dict(columns["table"]["rows"])
    assert ways["age"] == "in bins or merged, since a reader may know it"


def test_the_first_line_says_that_a_swap_without_a_limit_for_insiders_leaves_them_out():
    table = make_table(0, 400).sample(frac=1.0, random_state=0, ignore_index=True)
    swap = exchanged(table, known=None, insiders=None)
    headline = report(swap, kind="external").page.headline
    assert headline.endswith("readers named below, but NOT for people in the table")


@pytest.mark.parametrize("whom", NOT_FOR)
def test_the_first_line_for_who_signs_is_no_milder_than_that_for_recipients(whom):
    made, said = NOT_FOR[whom]
    release = made(make_table(0, 400).sample(frac=1.0, random_state=0, ignore_index=True))
    assert said in report(release).page.headline
    assert report(release).page.headline.count("NOT for readers who know the population") <= 1


@pytest.mark.parametrize(
    ("high", "p", "value"),
    [
        (math.log(3.36), 1.0, "no breach found"),
        (math.log(9.0), 1.0, "too few rows to tell"),
        (math.log(3.36), 1e-9, "2.73 times"),
    ],
)
def test_a_shift_beyond_its_limit_that_is_no_finding_stands_beside_what_is_concluded_of_it(
    noiser, audited, high, p, value
):
    figures = {"log_odds": math.log(2.729), "low": math.log(2.21), "high": high, "p_all": p}
    found = replace(audited, attacks=(replace(audited.attacks[0], findable=2.0, **figures),))
    figures = figures_of(report(noiser, found))
    told, beside = figures["Beyond the limit" if p < 0.05 else "Nearest to the limit"]
    assert told == value
    ends = f"({found.attacks[0].ends()})"
    if p == 1.0:
        assert beside.endswith(f": 2.73 times {ends}, as chance has it; 2.72 times allowed")
    assert ('class="tile alarm"' in report(noiser, found).html) == (value != "no breach found")


def test_who_signs_decides_about_a_label_by_which_a_reader_shifted_odds_beyond_the_limit(
    noiser, audited
):
    own = {"allowed": math.nan, "p_all": math.nan, "low": 0.2, "high": 2.0, "share": 0.5}
    joins = replace(audited.attacks[0], view="joins paid: yes", log_odds=0.9, **own)
    beyond = replace(joins, view="joins paid: no", log_odds=math.log(3.21), low=0.1)
    for others, said in (((joins,), False), ((joins, beyond), True), ((beyond,), True)):
        told = decisions(noiser, audit=replace(audited, others=others))[0]
        assert ("NOT covered: who joins paid: no: 3.21 times (1.10 to 7.39 times)" in told) == said


def test_an_audit_of_another_release_is_refused(audited):
    with pytest.raises(ValueError, match="audit is of a release of fingerprint"):
        report(make_noiser(make_table(5)), audited)


def test_recipients_read_on_the_first_line_that_the_order_tells_a_secret(noiser):
    told = report(noiser, kind="external")
    assert told.page.headline.endswith("BUT THE ORDER OF ROWS OR IDS, OR THE INDEX, TELLS A SECRET")
    assert not told.sound


def test_both_first_lines_say_that_ids_are_in_an_order_that_tells_a_secret():
    table = make_table(0, 400)
    table["client"] = np.argsort(np.argsort(table["loan"].to_numpy(), kind="stable"))
    table = table.sample(frac=1.0, random_state=0, ignore_index=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        swap = PufferfishSwap(sensitive="loan", ids="client").fit(table)
    for kind in KINDS:
        assert "BUT THE ORDER OF ROWS OR IDS" in report(swap, kind=kind).page.headline


def test_who_signs_reads_the_settings_that_are_no_defaults():
    sections = report(make_noiser(n_bins=2, public="cars")).to_dict()["sections"]
    [told] = [each["sentences"][0] for each in sections if each["title"] == "Settings"]
    assert "n_bins=2" in told
    assert "epsilon=1.0" in told
    assert "None" not in told
    assert "strategy" not in told


def test_recipients_read_which_numbers_are_in_bins():
    about = {}
    for bins in (None, 2):
        told = report(make_noiser(n_bins=bins), kind="external").to_dict()["sections"]
        about[bins] = next(each for each in told if each["title"] == "Released columns")["note"]
    assert about[2] == f"cars in bins, each value as the middle one of its bin; {about[None]}"


@pytest.mark.parametrize("how", ["noise", "typical row", "exchanged with its row"])
def test_no_page_for_officers_has_words_of_python_outside_its_settings(how):
    made = {"noise": make_noiser, **OTHERS}[how]
    release = made(make_table(0, 400))
    for kind in KINDS:
        told = report(release, kind=kind).to_dict()
        parts = [p for p in told["sections"] if p["title"] not in ("Settings", "Assumptions")]
        said = [*told["lines"], *(s for p in parts for s in (p["note"], *p["sentences"]))]
        for words in said:
            assert not re.search(r"\w=|_\.|\(\)", words), words


@pytest.mark.parametrize("ids", [None, "client"])
def test_both_pages_of_a_swap_say_where_nothing_says_whose_row_is_whose(ids):
    table = make_table(0, 200).assign(client=np.arange(200))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        swap = PufferfishSwap(sensitive="loan", ids=ids, public=["cars", "old"]).fit(table)
        swap.transform(table)
    for each in (swap, PufferfishRelease.from_json(swap.to_json())):
        for kind in KINDS:
            assert ("shuffling the rows is the same release" in str(report(each, kind=kind))) == (
                ids is None
            )


def test_pages_of_a_swap_say_of_missing_values_and_mechanism_what_is_true():
    table = make_table(0, 200).assign(client=np.arange(200))
    table["cars"] = table["cars"].astype(float).mask(np.arange(200) % 7 == 0)
    swap = PufferfishSwap(sensitive="loan", ids="client").fit(table)
    for kind in KINDS:
        page = str(report(swap, kind=kind))
        assert "missing values with them" in page
        assert not re.search("missing(:|=)", page)
    assert "noise" not in page
    assert "classifier" not in page


# ---------------------------------------------------------------------------------- the pictures


def test_a_first_line_is_green_unless_it_names_a_danger(noiser):
    assert '<main class="internal broken">' in report(noiser).html  # whose order tells the secret
    mixed = make_noiser(make_table().sample(frac=1.0, random_state=0, ignore_index=True))
    for kind in ("internal", "external"):
        assert f'<main class="{kind} sound">' in report(mixed, kind=kind).html


def test_a_task_that_no_column_tells_is_not_measured(noiser, audited):
    figure = Survived("AUC on true rows", "old", math.nan, math.nan)
    told = report(noiser, replace(audited, survived=(figure,)))
    assert figures_of(told)["Task"][0] == "not measured"


def check_shift(words, attack):
    """Assert that words have the estimate and the interval of an attack."""
    told = [float(each) for each in re.findall(r"\d+(?:\.\d+)?", " ".join(words))]
    expected = np.exp([attack.log_odds, attack.low, attack.high])
    for number, right in zip(told, expected, strict=False):  # from 10 on whole numbers
        assert number == pytest.approx(right, abs=0.011 if right < 10.0 else 1.0)


@pytest.mark.parametrize("epsilon", [0.1, 0.2, 0.7, 1.0, 3.0])
def test_the_shift_of_odds_that_recipients_read_is_no_smaller_than_the_guarantee(epsilon):
    told = report(make_noiser(epsilon=epsilon, public="cars"), kind="external")
    factor = float(figures_of(told)["Shift of odds"][0].removesuffix(" times"))
    assert math.exp(epsilon) <= factor < math.exp(epsilon) * 1.05


def figures_of(told):
    first, *_ = told.to_dict()["sections"]
    return {row[0]: row[1:] for row in first["table"]["rows"]}


def test_a_report_says_where_an_audit_could_not_have_found_anything(noiser, audited):
    blind = replace(audited, attacks=tuple(replace(a, findable=math.inf) for a in audited.attacks))
    assert figures_of(report(noiser, blind))["Nearest to the limit"][0] == "none could be found"


def test_five_figures_stand_first_and_say_what_was_not_measured(noiser):
    figures = figures_of(report(noiser))
    own = noiser.utility_
    other, use = "Who knows the population better", ["Mean change", "Task"]
    assert list(figures) == ["Shift of odds", "Nearest to the limit", other, *use]
    over = math.exp(noiser.certificate_.over_set.loss)
    assert float(figures[other][0].removesuffix(" times")) == pytest.approx(over, abs=0.011)
    assert figures["Shift of odds"][0] == "2.72 times"
    assert figures["Mean change"][0] == f"{own['change_sd'].mean():.2f} sd"
    equal = f"{own['unchanged'].mean():.1%} of values stay equal"
    assert figures["Mean change"][1].endswith(equal)
    assert figures["Nearest to the limit"][0] == "none tried"
    assert figures["Task"][0] == "not measured"


@pytest.mark.slow
@pytest.mark.usefixtures("seeded_draws")
def test_the_figures_of_an_audit_are_those_of_its_table():
    noiser = make_noiser()
    table = make_table(7, 400)
    found = audit(noiser, table, task="old")
    told = report(noiser, found)
    figures, attacks = figures_of(told), found.table
    left = attacks["allowed"] - attacks["low"]  # to its limit
    best = attacks.assign(left=left).sort_values(["p_all", "left"]).iloc[0]
    check_shift(figures["Nearest to the limit"], best)
    beside = figures["Nearest to the limit"][1]
    assert beside.startswith(f"{best['view']}: odds shifted (")
    raw = found._as_they_are()
    assert figures["Rows as they are"][0] == raw.shift().removesuffix(", within chance")
    assert figures["Rows as they are"][1].startswith(
        f"odds shifted ({raw.ends()}, by this test alone), if "
    )
    assert "the 95 % interval); 2.72 times allowed" in beside
    own = found.utility.set_index("what").loc["AUC on true rows"]
    assert figures["Task"][0] == f"{own['after']:.3f} AUC"
    assert f"{own['before']:.3f}" in figures["Task"][1]


@pytest.mark.slow
@pytest.mark.usefixtures("seeded_draws")
def test_a_finding_is_what_stands_first_and_asks_for_attention():
    table = make_table(7, 9_000)
    noiser = make_noiser(table, strategy=half, on_uncertified="warn", public="cars")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = audit(noiser, table)
    assert found.findings
    told = report(noiser, found)
    check_shift(figures_of(told)["Beyond the limit"], found.findings[0])
    assert told.html.count('class="tile alarm"') == 1
    assert '<main class="internal broken">' in told.html
    assert str(found.findings[0]) in str(told)


def test_templates_escape_whatever_is_filled_in():
    made = templates()
    assert made.autoescape is True
    assert made.undefined is jinja2.StrictUndefined
    pages = {"document.html", "notebook.html", "report.html"}
    assert set(made.list_templates()) == {*pages, "parts.html", "style.css", "notebook.css"}
    for name in made.list_templates():
        source = made.loader.get_source(made, name)[0]
        assert not re.search(r"\|\s*safe|autoescape|Markup", source)
    with pytest.raises(jinja2.UndefinedError):
        render("document.html")


def test_without_jinja_a_sentence_says_how_to_get_it_and_text_goes_without(noiser, monkeypatch):
    told = report(noiser)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    templates.cache_clear()
    with pytest.raises(ModuleNotFoundError, match=r'pip install "sklearn-puffer\[report\]"'):
        _ = told.html
    assert all((told.to_json(), str(told)))
    assert told._repr_html_() == f"<pre>{html.escape(str(told))}</pre>"


def typical_rows(table):
    return PufferfishMicroaggregator(sensitive="loan", n_prototypes=4).fit(table)


def exchanged(table, known="old", **settings):
    table = table.assign(client=np.arange(len(table)))
    return PufferfishSwap(sensitive="loan", ids="client", known=known, **settings).fit(table)


OTHERS = {"typical row": typical_rows, "exchanged with its row": exchanged}
WHOLE = {
    "typical row": "gets all of them: not proven, and odds may shift further.",
    "exchanged with its row": "Who gets the whole file is covered, and may hold the list",
}


def test_who_signs_and_who_receives_read_once_what_is_promised_and_whether_of_a_whole_file(noiser):
    covered = "Who gets the whole file is covered if rows are independent of each other"
    for kind in KINDS:
        page = str(report(noiser, kind=kind))
        assert page.count("2.72 times") == 1
        assert page.count(noiser.certificate_.promise()) == 1
        assert covered in page.partition("At a glance")[0]
    assert "Who gets the whole file" not in str(report(make_noiser(strategy=half)))


@pytest.mark.parametrize("settings", [{"delta": 1e-3}, {"alpha": 3.0}])
def test_no_report_says_that_odds_are_bounded_where_they_are_so_in_part_or_in_a_mean(settings):
    noiser = make_noiser(public="cars", **settings)
    assert "Shift of odds" not in str(report(noiser, kind="external"))
    value, beside = figures_of(report(noiser, kind="external"))["Odds of a secret"]
    assert value == "no fixed limit"
    assert beside.endswith("some releases may tell more")
    assert "times allowed" not in str(report(noiser))


def test_who_signs_typical_rows_reads_how_many_different_rows_there_are():
    rows = typical_rows(make_table(0, 400))
    released = rows.transform(make_table(1, 400))
    value, beside = figures_of(report(rows))["Different rows"]
    assert len(released.drop_duplicates()) <= int(value) == len(rows.prototypes_)
    assert f"typical of {rows.certificate_.prototypes.smallest} fitted rows" in beside


@pytest.mark.slow
@pytest.mark.parametrize("how", OTHERS)
def test_recipients_of_the_other_estimators_read_their_guarantee_and_nothing_of_the_rows(how):
    made = [OTHERS[how](make_table(seed, n)) for seed, n in ((0, 400), (1, 600))]
    pages = [report(each, kind="external", name="loans") for each in made]
    told = [
        dropped(str(page), page.date, each.certificate_.date)
        for page, each in zip(pages, made, strict=True)
    ]
    assert told[0] == told[1]
    assert how in told[0]
    assert WHOLE[how] in told[0]
    assert made[0].certificate_.promise() in told[0].replace("\n", " ")  # a line for each reader
    assert "is a distribution that was fitted" not in told[0]
    assert "noise of a family" not in told[0]


@pytest.mark.parametrize("insiders", ["double", 1.5, None])
def test_recipients_of_a_swap_do_not_read_that_just_two_people_have_a_secret(insiders):
    told = []
    for rare in (2, 9):
        table = make_table(0, 300).assign(client=np.arange(300))
        table.loc[: rare - 1, "loan"] = "late"
        swap = PufferfishSwap(1.0, sensitive="loan", ids="client", insiders=insiders).fit(table)
        assert (swap.certificate_.facts.rare > 0.0) == (rare == 2)
        assert ("are such two" in str(swap.certificate_)) == (rare == 2 and insiders is not None)
        page = report(swap, kind="external", name="loans")
        told.append(dropped(str(page), page.date, swap.certificate_.date))
    assert told[0] == told[1]


@pytest.mark.slow
@pytest.mark.parametrize("how", OTHERS)
def test_who_signs_the_other_estimators_sees_what_he_must_decide_and_what_readers_reached(how):
    table = make_table(0, 600)
    estimator = OTHERS[how](table)
    held = table.assign(client=np.arange(len(table)))
    found = audit(estimator, held)
    sections = {s["title"]: s for s in report(estimator, found).to_dict()["sections"]}
    decide = " ".join(sections["What you must decide"]["sentences"])
    for what in (
        "Second releases:",
        "Order:",
        "Attacks: whether those tried are enough",
        "Use:",
    ):
        assert what in decide
    assert ("Ids:" in decide) == (how != "typical row")
    readers = [row[0] for row in sections["Audit: what each reader reached"]["table"]["rows"]]
    second = "knows the fit" if how == "typical row" else "holds the list"
    assert readers[:2] == ["fresh models", second]
    page = str(report(estimator, found)).replace("\n", " ")
    assert page.count(estimator.certificate_.promise()) == 1
    assert WHOLE[how] in page.partition("At a glance")[0]
    assert "would have been found" in page.partition("At a glance")[0]


def test_the_first_page_says_in_odds_what_a_whole_file_of_typical_rows_told_its_insiders(noiser):
    table = make_table(0, 600)
    rows, told = OTHERS["typical row"](table), {}
    for budget in (1e-3, 50.0):
        certificate = altered(rows.certificate_, epsilon=budget)
        told[budget] = next(row for row in certificate._figures() if row[0] == "Whole file")
    figure = math.exp(rows.certificate_.prototypes.table)
    assert float(told[50.0][1].removesuffix(" times")) == pytest.approx(figure, abs=0.011)
    assert "if all 600 fitted rows, to who holds their list; simulated" in told[50.0][2]
    assert "MORE THAN OF ONE ROW" in told[1e-3][2]
    assert "MORE THAN OF ONE ROW" not in told[50.0][2]
    first, _, appendix = str(report(rows)).partition("Signature")
    assert "Whole file" in first
    assert f"moved odds up to about {told[50.0][1]} in simulated releases" in appendix
    assert "Whole file" not in str(report(noiser))


def test_both_reports_of_a_swap_say_how_far_insiders_shift_odds_beside_the_limit_for_others():
    table = make_table(0, 300)
    for insiders, said in (
        ("double", "the holder at most 7.39 times"),
        (None, "Not covered: insiders."),
    ):
        for kind in KINDS:
            page = str(report(exchanged(table, insiders=insiders), kind=kind))
            assert "e^1 = 2.718" in page
            assert said in page


def test_who_signs_reads_above_the_figures_whether_the_released_rows_are_the_fitted_ones(noiser):
    for release, said in (
        (noiser, "the 120 fitted rows, be these released or others"),
        (exchanged(make_table(0, 300)), "the 300 fitted rows, and these are released"),
    ):
        assert said in str(report(release)).partition("At a glance")[0]


def test_combinations_of_sensitive_columns_are_named_where_there_are_several(noiser):
    both = PufferfishNoiser(sensitive=["loan", "old"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both.fit(make_table())
    for kind in KINDS:
        assert report(both, kind=kind).page.lines[0].startswith("Only loan and old are protected.")
        assert "combinations of several" not in str(report(noiser, kind=kind)).lower()
        assert "combinations of several" in str(report(both, kind=kind)).lower()


@pytest.mark.parametrize("how", ["typical row", "exchanged with its row"])
def test_pages_speak_of_rows_and_not_of_attributes_of_an_estimator(how):
    page = str(report(OTHERS[how](make_table(0, 400)))).partition("\nSettings:")[0]
    assert not re.findall(r"channel|prototype|\w+_\b|undo", page)


def test_settings_are_cut_nowhere():
    names = [f"column {k}" for k in range(30)]
    table = make_table().assign(**{name: np.arange(120) % 2 for name in names})
    told = str(report(make_noiser(table, public=names, dependence="independent")))
    assert repr(names) in told.partition("\nSettings:")[2]


def decisions(release, **more):
    sections = {s["title"]: s for s in report(release, **more).to_dict()["sections"]}
    return sections["What you must decide"]["sentences"]


@pytest.mark.parametrize("known", [None, "old", {"cars": {1: 0}}])
def test_who_signs_a_swap_that_was_read_from_json_decides_what_who_fitted_it_does(known):
    table = make_table(0, 200).assign(client=np.arange(200))
    settings = {"sensitive": "loan", "ids": "client", "known": known, "insiders": None}
    swap = PufferfishSwap(epsilon=2.0, **settings).fit(table)
    told = decisions(swap)
    name = "none" if known is None else next(iter(known)) if isinstance(known, dict) else known
    assert f"(taken as known: {name})" in told[2]
    own = f"{100.0 * swap.certificate_.facts.stay:.0f} %"
    fact = "old" if isinstance(known, dict) else "cars"
    assert told[0].startswith(
        "One more fact: who finds a person's row, by client, the index or the order, and knows one "
        f"more fact, such as {fact} or a label joined later, sees if it is that person's own, as "
        f"{own} are; NO limit holds for him, and with a list of secrets he may be nearly certain. "
    )
    assert told[1].startswith(f"Ids: whether client may go out at all: {own} of the rows beside")
    assert told[1].endswith("They are NOT protected.")
    assert decisions(PufferfishRelease.from_json(swap.to_json())) == told


def test_who_signs_noise_that_was_read_from_json_reads_which_columns_are_known(noiser):
    knowing = make_noiser(make_table(), known="old")
    for release, name in ((noiser, "none"), (knowing, "old")):
        read = PufferfishRelease.from_json(release.to_json())
        for each in (release, read):
            assert f"(taken as known: {name}" in decisions(each)[0]  # of noise nothing else


@pytest.mark.parametrize("joined", ["paid", ["paid", "old"]])
def test_who_signs_typical_rows_reads_which_labels_may_be_joined_also_of_an_artifact(joined):
    rows = typical(make_table(0, 400).assign(paid=np.arange(400) % 3 == 0), joined=joined)
    said = ", ".join(map(repr, [joined] if isinstance(joined, str) else joined))
    for each in (rows, PufferfishRelease.from_json(rows.to_json())):
        assert f"(taken as known: none; as joined later: {said})" in decisions(each)[1]
        assert decisions(each)[0].startswith("Rows: which go out: all fitted ones, a part")


def test_who_signs_a_whole_file_that_tells_more_reads_what_helps():
    rows = typical(make_table(0, 400))
    way_out = "A smaller epsilon, fewer columns, or a swap, may tell less of a whole file."
    for budget, applies in ((1e-3, True), (50.0, False)):
        certificate = altered(rows.certificate_, epsilon=budget)
        assert (way_out in certificate._decisions([])[0]) == applies


def test_recipients_do_not_read_what_only_the_sender_can_do_about_an_order_that_tells(noiser):
    page = str(report(noiser, kind="external"))
    assert "The guarantee does NOT cover that.\n" in page
    assert "shuffle" not in page
    assert "shuffle" in str(report(noiser))


def test_recipients_of_a_swap_read_that_one_more_fact_shows_whose_row_it_is():
    page = str(report(exchanged(make_table(0, 200)), kind="external"))
    assert "no limit, as he sees if the row is that person's own; with a list" in page
    assert "ids, order and index tell nothing of secrets and values" in page


def test_a_headline_never_contradicts_a_finding_and_says_where_nothing_was_changed(noiser, audited):
    worst = replace(audited.attacks[0], p=1e-9, p_all=1e-9, low=2.0)
    found = replace(audited, attacks=(worst, *audited.attacks[1:]))
    told = report(noiser, found)
    assert told.to_dict()["headline"].startswith("Report: AN AUDIT FOUND MORE THAN WAS GUARANTEED")
    assert "release nothing before it is explained" in str(told)
    assert "whether those tried are enough" not in str(told)
    assert not told.sound
    same = pd.DataFrame({"loan": ["no", "yes"] * 40, "cars": [1, 1, 2, 2] * 20})
    assert "nothing was changed" in report(make_noiser(same)).to_dict()["headline"]


@pytest.mark.parametrize("told", ["order", "index"])
def test_who_signs_reads_right_at_the_top_that_the_order_tells_the_secret(told):
    shuffled = make_table(3, 200).sample(frac=1, random_state=0).reset_index(drop=True)
    rows = shuffled.sort_values("loan").reset_index(drop=True)
    rows = rows if told == "order" else rows.sample(frac=1, random_state=1)
    fitted, mixed = make_noiser(rows), make_noiser(shuffled)
    said = report(fitted).to_dict()
    assert said["headline"].endswith("BUT THE ORDER OF ROWS OR IDS, OR THE INDEX, TELLS A SECRET")
    assert said["lines"][1].startswith(f"The {told} of the rows tells 'loan'")
    assert "of the rows tells" not in str(report(mixed))
