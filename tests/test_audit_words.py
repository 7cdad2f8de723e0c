"""What an audit says of attacks that are given: their figures, and which of its sentences apply."""

import math
import re
from dataclasses import replace

import pandas as pd
import pytest

from sklearn_puffer._review.audit import Audit
from sklearn_puffer._review.exact_tests import Attack
from sklearn_puffer._review.measured import Survived, reidentified


def attack(view="a reader", p_all=1.0, **other):
    figures = {
        "attacker": "trees",
        "sensitive": "sex",
        "secret": "F",
        "against": "M",
        "n": 300,
        "n_against": 500,
        "certified": 0.9,
        "share": 0.25,
        "p": p_all / 4,
        "log_odds": math.log(2),
        "low": math.log(1.5),
        "high": math.log(3),
        "allowed": 1.0,
    }
    return Attack(view, **figures | {"findable": math.log(4)} | other, p_all=p_all)


NOTHING = Audit(
    attacks=(
        attack(),
        attack("one inside", 0.4, allowed=1.2, log_odds=1.5, low=0.1, high=math.inf),
    ),
    control=(attack("raw", 0.001),),
    promise="a promise",
    rows={"given": 1000, "released": 900, "train": 300, "choose": 200, "test": 400},
    survived=(
        Survived("different rows", "all", 1500.0, 80.0),
        Survived("R2 on true rows", "pay", math.nan, 0.512345),
    ),
    others=(attack("everybody", math.nan, allowed=math.nan, log_odds=math.inf),),
    knows={"a reader": "its row", "everybody": "all rows"},
    notes=("A note.",),
    name="people",
)
FOUND = replace(
    NOTHING,
    attacks=(
        attack(p_all=0.002, log_odds=2.0, low=1.2, high=3.0),
        attack(p_all=0.004, secret="M", against="F"),
        attack(p_all=0.05, n=301),
        attack(p_all=0.051, n=302),
    ),
    name="",
    rows={"given": 900, "released": 900, "train": 300, "choose": 300, "test": 400},
    untested=("a pair",),
    others=(),
)
BLIND = replace(NOTHING, attacks=NOTHING.attacks[:1], control=(attack("raw", 0.5),), survived=())
DEAF = replace(NOTHING, attacks=(attack(findable=math.inf, share=0.0),), notes=())


def figures(lines):
    """Return the numbers of each line that has some."""
    found = (re.findall(r"\d[\d.,]*\d%?|\d%?", line) for line in lines)
    return [" ".join(each) for each in found if each]


LIMIT, POWER = "2.72", "400 4.00 2.72 80%"
LINES = {
    "nothing": (
        NOTHING,
        ["300 500 4.49 1.10 3.33 0.4", "900 1,000 300 200 400 2 5%"],
    ),
    "found": (FOUND, ["300 500 7.39 3.32 21 2.72 0.002", "900 900 300 300 400 4 5%"]),
    "blind": (BLIND, ["300 500 2.00 1.50 3.01 2.72 1", "900 1,000 300 200 400 1 5%"]),
    "deaf": (DEAF, ["300 500 2.00 2.72 1", "900 1,000 300 200 400 1 5%"]),
}


@pytest.mark.parametrize("case", LINES)
def test_the_first_lines_have_the_figures_of_the_surest_attack_and_of_the_rows(case):
    audit, expected = LINES[case]
    assert figures(audit._page().lines) == expected


def test_beside_each_secret_of_an_attack_stands_how_many_people_have_it():
    assert "claims sex = F (300 people) against M (500): odds" in NOTHING._page().lines[2]
    assert str(FOUND.findings[0]).count("people)") == 1


def test_the_headline_says_whether_a_leak_was_found_or_could_have_been():
    one = replace(FOUND, attacks=FOUND.attacks[:1])
    heads = [audit._page().headline for audit in (NOTHING, FOUND, one, BLIND, DEAF)]
    assert figures(heads) == [POWER, "3 4 400", "1 1 400", "400", "400"]
    assert ["MORE THAN" in head for head in heads] == [False, True, True, False, False]
    assert ["COULD NOT" in head for head in heads] == [False, False, False, True, True]
    assert ["people" in head for head in heads] == [True, False, False, True, True]
    assert [head in repr(audit) for head, audit in zip(heads, [NOTHING, FOUND], strict=False)]


def test_an_audit_that_would_miss_a_leak_of_e_times_its_limit_begins_with_how_little_it_weighs():
    found = {at: replace(NOTHING, attacks=(attack(findable=at),)) for at in (1.9, 2.1)}
    heads = {at: each._page().headline for at, each in found.items()}
    said = "OF LITTLE WEIGHT: 400 rows judged; a leak of 8.17 times to 'a reader', 2.72 times"
    assert said in heads[2.1]
    assert heads[2.1].index(said) < heads[2.1].index("no attack tells for certain more")
    assert "OF LITTLE WEIGHT" not in heads[1.9]


def test_sentences_are_said_where_they_apply_alone():
    page = {name: "\n".join(audit._page().lines) for name, (audit, _) in LINES.items()}
    applies = {
        "No finding is no proof": ["nothing", "blind", "deaf"],
        "A note.": ["nothing", "found", "blind"],
        "each read by a model of others": ["found"],
        "within chance": ["nothing"],
    }
    for sentence, cases in applies.items():
        assert [name for name in LINES if sentence in page[name]] == cases


SHIFT = ["2.00 times", "1.50 to 3.01 times", "2.72 times", "4.00 times"]


def test_tables_have_a_row_for_each_reader_and_for_each_figure():
    of = {section.title: section for section in NOTHING._page().sections}
    assert list(of) == ["Readers", "What survives"]
    readers, useful = (section.cells[1:] for section in of.values())
    beyond = ["4.49 times, within chance", "1.10 or more", "3.33 times", "4.00 times", "0.4"]
    assert readers == [
        ["a reader", "its row", *SHIFT, "1"],
        ["one inside", "", *beyond],
        ["everybody", "all rows", "without limit", SHIFT[1], "not covered", SHIFT[3], "-"],
    ]
    rows = [["different rows", "all", "1500", "80"], ["R2 on true rows", "pay", "", "0.5123"]]
    assert useful == rows
    titles = [section.title.split(":")[0] for section in FOUND._page().sections]
    assert (titles[0], titles[-1], len(titles)) == ("Findings", "Not tested", 4)
    assert len(BLIND._page().sections) == 1
    assert "no row" in str(DEAF)


def test_findings_are_the_attacks_at_the_level_the_surest_first():
    assert [each.p_all for each in FOUND.findings] == [0.002, 0.004, 0.05]
    assert figures(map(str, FOUND.findings))[0] == "300 500 7.39 3.32 21 2.72 0.002"
    assert str(NOTHING.others[0]).endswith("(1.50 to 3.01 times); not covered by the guarantee")
    assert (NOTHING.caught, BLIND.caught) == (True, False)


def test_a_record_has_every_figure_and_none_where_a_number_means_nothing():
    record = NOTHING.to_dict()
    everybody = record["readers"][-1]
    assert (everybody["view"], record["knows"]["everybody"]) == ("everybody", "all rows")
    assert (everybody["log_odds"], everybody["allowed"]) == ("infinity", None)
    assert record["attacks"][0]["low"] == math.log(1.5)
    assert record["utility"][1] == {"what": "R2 on true rows", "column": "pay"} | {
        "before": None,
        "after": 0.512345,
    }
    assert record["caught_without_noise"] is True
    assert (
        replace(NOTHING, others=(attack(log_odds=-math.inf),)).to_dict()["others"][0]["log_odds"]
        == "-infinity"
    )
    assert [*NOTHING.readers["findable"]] == [math.log(4)] * 3


def test_rows_point_to_one_person_as_often_as_they_are_unique_and_nearest_to_their_own():
    """Of numbers, where everything can be counted: ranks of 0, 1, 2, 3 are thirds apart."""
    before = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0]})
    after = pd.DataFrame({"x": [0.0, 0.0, 3.0, 3.0]})
    found = {each.what: (each.before, each.after) for each in reidentified(before, after, [0, 1])}
    assert found["different rows"] == (4.0, 2.0)
    assert found["unique rows"] == (1.0, 0.0)
    assert found["fewest equal rows (k)"] == (1.0, 2.0)
    assert found["nearest to its own of 2"] == (1.0, 0.5)
    closest = found["distance to the closest record"]
    assert closest[0] > 0.1
    assert closest[1] == 0.0
