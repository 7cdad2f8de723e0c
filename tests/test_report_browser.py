"""Reports in a real browser: rendered, silent, alone, readable, and inert whatever names hold."""

import os
import re
import shutil
import warnings
from contextlib import contextmanager

import pytest
from test_report import HOSTILE, make_table

from sklearn_puffer import (
    PufferfishMicroaggregator,
    PufferfishNoiser,
    PufferfishSwap,
    audit,
    report,
)

CHROMIUM = os.environ.get("PUFFER_BROWSER") or shutil.which("chromium") or ""
VIEWS = {
    "desktop": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 375, "height": 700}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    "dark phone": {"viewport": {"width": 320, "height": 600}, "color_scheme": "dark"},
}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    required = os.environ.get("PUFFER_REQUIRE_BROWSER") == "1"
    if not CHROMIUM and not required:
        pytest.skip("there is no chromium; PUFFER_BROWSER names one")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        if required:
            raise
        pytest.skip("the extra `browser` is not installed")
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def hostile_table():
    table = make_table(n=400)
    for k, name in enumerate(HOSTILE):
        table[name] = (table["cars"] + k) % 2
    return table


@pytest.fixture(scope="module")
def pages(tmp_path_factory, quick_attackers):
    """Return each kind of report as a file, with hostile names wherever a name can be."""
    table, folder = hostile_table(), tmp_path_factory.mktemp("reports")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noiser = PufferfishNoiser(sensitive="loan", public=HOSTILE, dependence="independent")
        noiser.fit(table)
        found = audit(noiser, table)
    for kind, beside in {"internal": found, "external": None}.items():
        told = report(noiser, beside, kind=kind, name=HOSTILE[0], by=HOSTILE[1])
        told.save(folder / f"{kind}.html")
    return {kind: folder / f"{kind}.html" for kind in ("internal", "external")}


@contextmanager
def shown(browser, path, view):
    """Open a page, and give what it said and asked for beside it."""
    context = browser.new_context(**VIEWS[view])
    try:
        page, said, asked = context.new_page(), [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri(), wait_until="load")
        yield page, said, asked
    finally:
        context.close()


@pytest.mark.parametrize(
    ("kind", "view"), [*(("internal", view) for view in VIEWS), ("external", "dark phone")]
)
def test_a_report_renders_alone_and_readable(browser, pages, kind, view):
    from axe_playwright_python.sync_playwright import Axe

    with shown(browser, pages[kind], view) as (page, said, asked):
        assert page.inner_text("h1").startswith("Report of <script>alert(1)</script>")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        for tag in ("script", "img", "iframe", "object", "link", "a", "svg"):
            assert page.locator(tag).count() == 0
        found = Axe().run(page).response["violations"]
        assert not [(each["id"], [n["html"][:200] for n in each["nodes"]]) for each in found]
    assert asked == [pages[kind].as_uri()]
    assert said == []


def test_a_report_prints_dark_on_white_and_nothing_is_cut_off(browser, pages):
    with shown(browser, pages["internal"], "dark") as (page, said, asked):
        page.emulate_media(media="print", color_scheme="dark")
        page.set_viewport_size({"width": 660, "height": 935})  # A4 between its margins
        colors = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body)"
            ".backgroundColor]"
        )
        assert colors == ["rgb(27, 31, 36)", "rgb(255, 255, 255)"]
        wide = "[...document.querySelectorAll('table')].filter(t => t.getBoundingClientRect()"
        cut = page.evaluate(f"{wide}.right > innerWidth).map(t => t.parentElement.innerText)")
        assert cut == []
        assert page.pdf().startswith(b"%PDF")
    assert said == []
    assert len(asked) == 1


def test_tables_that_are_too_wide_scroll_by_the_keyboard(browser, pages):
    with shown(browser, pages["internal"], "phone") as (page, *_):
        wide = (
            "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)"
        )
        assert page.evaluate(f"{wide}.length") > 0
        assert page.evaluate(f"{wide}.every(e => e.tabIndex === 0)")
        page.evaluate(f"{wide}[0].focus()")
        page.keyboard.press("ArrowRight")
        # asked again and again from here: what waits within the page is forbidden there
        for _ in range(50):
            if scrolled := page.evaluate(f"{wide}[0].scrollLeft > 0"):
                break
            page.wait_for_timeout(100)
        assert scrolled


def noise_of(rows, public):
    return PufferfishNoiser(sensitive="sex", public=public, n_bins=5).fit(rows)


def typical_rows_of(rows, public):
    return PufferfishMicroaggregator(sensitive="sex", public=public, n_prototypes=8).fit(rows)


def swap_of(rows, public):
    return PufferfishSwap(sensitive="sex", public=public, ids="client").fit(rows)


@pytest.fixture(scope="module")
def adult(table):
    rows = table("adult", keep_default_na=False, nrows=5000).drop(columns=["income", "fnlwgt"])
    return rows.assign(client=range(5000))


@pytest.mark.tables
@pytest.mark.parametrize("fitted", [noise_of, typical_rows_of, swap_of])
def test_a_real_release_is_decided_on_one_screen_and_printed_on_few_pages(
    browser, adult, tmp_path, fitted
):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noiser = fitted(adult[:3000], ["age", "education"])
        audited = adult[:3000] if fitted is swap_of else adult[3000:]
        found = audit(noiser, audited, task="hours-per-week")
    beside = {"internal": found, "external": None}
    for kind, most in (("internal", 4), ("external", 1)):
        path = tmp_path / f"{kind}.html"
        report(noiser, beside[kind], kind=kind, name="Adult", by="A. Clerk").save(path)
        with shown(browser, path, "desktop") as (page, *_):
            assert bottom(page, ".pair") <= 900  # all that is decided by
            assert bottom(page, ".front") <= (900 if fitted is noise_of else 1000)
            assert pages_of(page.pdf(prefer_css_page_size=True)) <= most
            page.emulate_media(media="print")
            page.set_viewport_size({"width": 688, "height": 1017})  # A4 between its margins
            assert bottom(page, ".front") <= 1017


def bottom(page, part):
    return page.evaluate(f"document.querySelector('{part}').getBoundingClientRect().bottom")


def pages_of(document):
    """Return how many pages a PDF has, by the objects that are pages."""
    return len(re.findall(rb"/Type\s*/Page\b", document))
