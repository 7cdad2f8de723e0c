"""What a notebook shows: the page of a document, in the notebook's own colours, and escaped."""

import re
from html.parser import HTMLParser

import pandas as pd
import pytest

from sklearn_puffer import Ledger, PersonLedger, PufferfishNoiser, plan

pytestmark = pytest.mark.usefixtures("quick_attackers")

CARS = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
NAME = "<script>alert(1)</script>"
TABLE = pd.DataFrame({"loan": ["no", "yes"] * 15, NAME: CARS})


@pytest.fixture(scope="module")
def views(tmp_path_factory, quick_attackers):
    folder = tmp_path_factory.mktemp("ledgers")
    noiser = PufferfishNoiser(1.0, sensitive="loan", releases=2).fit(TABLE)
    ledger = Ledger.create(folder / "tables", noiser, datasets=["<b>x", "y"])
    ledger.transform(noiser, TABLE, dataset="<b>x", note="<i>press")
    persons = PersonLedger.create(folder / "persons", noiser, key=b"blake2b:" + bytes(32))
    persons.transform(noiser, TABLE, row_id=range(30), note="<i>press")
    found = plan(TABLE.loc[list(range(30)) * 8], "loan", n_bins=3, n_prototypes=3)
    certificate = noiser.certificate_
    return {
        "noiser": noiser._repr_html_(),
        "certificate": certificate._repr_html_(),
        "drift": certificate.check(TABLE)._repr_html_(),
        "plan": found._repr_html_(),
        "ledger": ledger._repr_html_(),
        "persons": persons._repr_html_(),
    }


class Balanced(HTMLParser):
    """Which tags are open."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen = [], set()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


TAGS = {
    "div",
    "details",
    "summary",
    "h4",
    "h5",
    "p",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "ul",
    "li",
}
KINDS = ["noiser", "certificate", "drift", "plan", "ledger", "persons"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_view_is_a_box_of_its_own_and_nothing_in_it_is_a_tag_of_the_data(views, kind):
    page = views[kind]
    own = page[page.rindex('<div class="sk-puffer">') :]
    read = Balanced(own)
    assert read.open == []
    assert read.seen <= TAGS
    assert "<script>alert" not in page.replace("&lt;script&gt;alert", "")


@pytest.mark.parametrize("kind", KINDS)
def test_a_view_takes_its_colours_from_the_notebook_around_it(views, kind):
    style = re.findall(r"<style>(.*?)</style>", views[kind], re.DOTALL)[-1]
    assert "color: inherit" in style
    assert "var(--sklearn-color-fitted-level-3" in style
    assert not re.search(r"#[0-9a-f]{3,6}|rgb\(|white|black", style)
    assert all(line.strip().startswith(".sk-puffer") for line in style.split("}") if line.strip())


def test_a_ledger_says_what_is_left_and_what_was_spent(views):
    page = views["ledger"]
    assert "1 release(s) of 2 data set(s) are on record." in page
    assert '<th scope="row">&lt;b&gt;x</th><td>1</td>' in page
    assert '<th scope="row">y</th><td>2</td>' in page
    assert "<td>&lt;i&gt;press</td>" in page


def test_the_text_of_a_ledger_has_the_same(tmp_path):
    noiser = PufferfishNoiser(1.0, sensitive="loan").fit(TABLE)
    told = str(Ledger.create(tmp_path / "tables", noiser))
    assert "0 release(s) of 1 data set(s) are on record." in told
    assert re.search(r"data +1$", told, re.MULTILINE)
