"""The figures, commands and links of the README and the documentation are the package's."""

import contextlib
import io
import math
import re
import warnings
from pathlib import Path

import pytest
import sklearn
from sklearn.datasets import load_diabetes

import sklearn_puffer
from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.accounting import MAX_CELLS
from sklearn_puffer.bounds import Relaxed
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.datasets import load_student, published_table4, table4_contingencies
from sklearn_puffer.notions import Pufferfish

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
CHOOSING = (DOCS / "choosing.md").read_text(encoding="utf-8")
PAGES = {
    path: path.read_text(encoding="utf-8") for path in (*ROOT.glob("*.md"), *DOCS.glob("*.md"))
}
DRAWINGS = sorted((DOCS / "figures").glob("[!_]*.py"))
RELEASE = {"public": ["age", "bmi", "bp"], "n_bins": 5}
PLUG_IN = {"adversaries": None}


def rows_under(title, page="choosing.md"):
    """Return the cells of the table whose first column is called ``title``, without its head."""
    lines = iter(PAGES[DOCS / page].splitlines())
    next(line for line in lines if line.startswith(f"| {title} "))
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def noise(**parameters):
    """Return the largest scale of a diabetes release, in standard deviations of its column."""
    table = load_diabetes(as_frame=True, scaled=False).data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        theta = PufferfishNoiser(sensitive="sex", **parameters).fit(table).theta_
    relative = theta / table[theta.index].std()
    assert relative.max() == pytest.approx(relative.min())
    return f"{relative.max():.2f}"


def test_what_the_three_estimators_change_is_measured():
    table = load_diabetes(as_frame=True, scaled=False).data
    rows = rows_under("estimator", "getting_started.md")
    assert len(rows) == 3
    for name, *printed in rows:
        options = {"public": RELEASE["public"]}
        options |= RELEASE if name == "`PufferfishNoiser`" else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            fitted = getattr(sklearn_puffer, name.strip("`"))(sensitive="sex", **options).fit(table)
        assert [f"{change:.2f}" for change in fitted.utility_["change_sd"]] == printed


def test_the_first_commands_are_the_two_of_a_fresh_machine():
    blocks = re.findall(r"^```bash\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert blocks[:2] == [
        "pip install . && python examples/first_release.py\n",
        'pip install ".[test]" && pytest\n',
    ]


def test_the_noise_by_budget_is_measured():
    for epsilon, odds, chance, printed in rows_under("epsilon"):
        budget = float(epsilon)
        assert f"{math.exp(budget):.3g}" == odds
        assert f"{100 / (1 + math.exp(-budget)):.0f} %" == chance
        assert noise(epsilon=budget, **RELEASE) == printed


def test_the_noise_by_strategy_is_measured():
    for strategy, _, printed in rows_under("strategy"):
        assert noise(strategy=strategy.strip('`"'), **RELEASE) == printed


@pytest.mark.slow
@pytest.mark.parametrize("row", rows_under("guarantee"), ids=lambda row: row[0])
def test_the_noise_by_guarantee_is_measured(row):
    guarantee, *printed = row
    name, value = guarantee.split()[0].strip("`").split("=")
    for family, shown in zip(("laplace", "gaussian", "cauchy"), printed, strict=True):
        parameters = {name: float(value), "noise": family, "epsilon": 0.5}
        if shown == "refused":
            with pytest.raises(ValueError, match=r"no noise scale|no pure epsilon"):
                noise(public=["bmi"], n_bins=5, **parameters)
        else:
            assert noise(public=["bmi"], n_bins=5, **parameters) == shown


def test_the_price_of_sampling_error_is_measured():
    assert noise(adversaries="confidence", **RELEASE) == "4.11"
    assert "4.11 standard deviations" in CHOOSING
    student = PufferfishNoiser(0.5, sensitive="higher", adversaries="confidence")
    assert f"{student.fit(load_student()).theta_['romantic']:.2f} codes" in CHOOSING


@pytest.mark.tables
def test_the_price_of_sampling_error_on_adult_is_measured(table):
    adult, three = table("adult"), ["age", "education-num", "hours-per-week"]
    how = {"n_bins": 5, "adversaries": "confidence"}
    surely, counted = (fitted(adult, "sex", three, 1.0, **{**how, **a}) for a in ({}, PLUG_IN))
    told = "take {} standard deviations of noise instead of {}. Elsewhere"
    assert told.format(*(relative(each, "age") for each in (surely, counted))) in CHOOSING
    whole = fitted(adult, "sex", None, 1.0, **how).certificate_.columns
    assert 15.0 <= min(column.relative for column in whole) < 16.0


def test_the_price_of_a_row_is_measured():
    narrow, wide = rows_under("released columns")
    for row, parameters in ((narrow, RELEASE), (wide, {"n_bins": 3})):
        for dependence, printed in zip(("joint", "independent"), row[1:], strict=True):
            assert noise(dependence=dependence, **parameters) == printed
    assert f"{3**9:,} cells" in wide[0]
    assert f"{MAX_CELLS:,} cells" in CHOOSING


OFFICE = ["Exec-managerial", "Prof-specialty", "Adm-clerical", "Sales", "Tech-support"]
WORKSHOP = ["Craft-repair", "Machine-op-inspct", "Transport-moving"]
WORKSHOP += ["Handlers-cleaners", "Farming-fishing"]
CLASSES = dict.fromkeys(OFFICE, "office") | dict.fromkeys(WORKSHOP, "workshop")
BANK = ["age", "marital", "education", "default", "balance"]


def fitted(table, sensitive, public, epsilon, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PufferfishNoiser(epsilon, sensitive=sensitive, public=public, **options).fit(table)


def relative(noiser, name):
    return f"{next(c.relative for c in noiser.certificate_.columns if c.name == name):.2f}"


@pytest.mark.tables
def test_what_merged_classes_cost_is_measured(table):
    adult = table("adult")
    merged = adult.replace({"occupation": CLASSES | {"?": "none"}})
    rest = ~merged["occupation"].isin(["office", "workshop", "none"])
    merged.loc[rest, "occupation"] = "service"
    apart, together = (fitted(t, "sex", "occupation", 0.5).utility_ for t in (adult, merged))
    told = "{:.0%} of the rows keep one of the {} occupations, and {:.0%} once"
    kept = (float(each["unchanged"].iloc[0]) for each in (apart, together))
    values = told.format(next(kept), adult["occupation"].nunique(), next(kept))
    assert values.replace("%", " %") in CHOOSING


@pytest.mark.tables
def test_what_independence_costs_is_measured(table):
    bank = table("bank-full")
    found = [
        relative(fitted(bank, sensitive, columns, 1.0, n_bins=2, dependence=dependence), "age")
        for sensitive, columns in (("y", BANK[:4]), ("marital", [BANK[0], *BANK[2:]]))
        for dependence in ("independent", "joint")
    ]
    told = "takes {} instead of {} standard deviations of noise to protect `y`"
    assert told.format(*found) in CHOOSING
    assert "{} instead of {} to protect `marital`".format(*found[2:]) in CHOOSING


def test_the_noise_against_the_published_mechanism_is_measured():
    published = published_table4().xs("relaxed", level="strategy")
    rows = rows_under("data", "comparison.md")
    assert {row[0] for row in rows} == set(published.index)
    for title, epsilon, *printed in rows:
        notion, pair = Pufferfish(float(epsilon)), table4_contingencies()[title].pair()
        scales = [
            published.loc[title, notion.epsilon],
            calibrate([pair], notion, strategy=Relaxed()).scale,
            calibrate([pair], notion).scale,
        ]
        saving = 100 * (1 - scales[2] / scales[0])
        assert [*(f"{scale:.2f}" for scale in scales), f"{saving:.0f} %"] == printed


def test_the_examples_of_the_readme_print_what_it_shows():
    found = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", README, re.DOTALL)
    assert len(found) == 3
    names = {}
    for code, printed in found:
        assert len(code.splitlines()) <= 10
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            exec(compile(code, "README.md", "exec"), names)
        assert shown.getvalue() == printed
    assert list(names["answer"].index) == [7]
    assert len(names["scores"]) == 5


def test_the_readme_and_the_first_page_share_one_picture_and_one_example():
    first_page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n.*?```\n\n```text\n.*?```\n", README, re.DOTALL)[0]
    picture = re.search(r"!\[.*?\]\(.*?\)", README)[0]
    assert example in first_page
    assert picture.replace("docs/images", "images") in first_page


def blocks(page):
    """Return the blocks of Python of a page."""
    return re.findall(r"^```python\n(.*?)^```$", PAGES[page], re.DOTALL | re.MULTILINE)


WHOM = re.compile(r"^For |^Use |^Begin here|Read this page")


@pytest.mark.parametrize(
    "page", [path for path in PAGES if path.parent == DOCS], ids=lambda path: path.stem
)
def test_each_page_of_the_site_says_in_its_first_two_sentences_for_whom_it_is(page):
    first = re.sub(r"\A# .*\n+", "", PAGES[page]).split("\n\n")[0]
    shown_elsewhere = first.startswith("On the site this page is")
    assert shown_elsewhere or any(WHOM.search(s) for s in re.split(r"(?<=[.:]) ", first)[:2])


# pages with no files or engines of their own; those of the others have tests of their own
ELSEWHERE = {"README", "engines"}  # of engines the first two blocks alone run everywhere
SLOW = {"audit", "microaggregation", "plan", "swap"}
PASTED = [
    pytest.param(page, marks=[pytest.mark.slow] * (page.stem in SLOW), id=page.stem)
    for page in PAGES
    if blocks(page) and page.stem not in ELSEWHERE
]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of few rows
@pytest.mark.usefixtures("few_trees")  # what attackers reach is printed, and not looked at
@pytest.mark.parametrize("page", PASTED)
def test_each_block_of_a_page_runs_by_itself_or_says_that_it_goes_on(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    with sklearn.config_context(), contextlib.redirect_stdout(io.StringIO()):
        for block in blocks(page):
            if not block.startswith("# goes on from the block above\n"):
                names = {}
            exec(compile(block, page.name, "exec"), names)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of few rows
def test_the_first_blocks_of_the_page_of_engines_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second, *_ = blocks(ROOT / "docs" / "engines.md")
    names = {}
    exec(compile(first, "engines.md", "exec"), names)
    exec(compile(second, "engines.md", "exec"), names)


def test_files_of_keys_are_written_as_text_since_one_of_128_of_bytes_ends_in_a_line_end():
    files = [*PAGES, *(ROOT / "examples").rglob("*.py")]
    written = re.compile(r"write_bytes\(.*(token_bytes|urandom)")
    assert [file for file in files if written.search(file.read_text(encoding="utf-8"))] == []


def links(text):
    """Return the (file, anchor) of every link to something in the checkout."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"\]\((?!\w+:)([^)#\s]*)#?([^)\s]*)\)", prose)


def anchors(text):
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", re.sub(r"\]\(.*?\)", "", title)) for title in titles]
    return {title.lower().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_points_to_exists(page):
    for target, anchor in links(PAGES[page]):
        file = (page.parent / target).resolve() if target else page
        # the interface, and the gallery, are written when the site is built
        assert file.exists(), f"{page.name} points to {target}, which does not exist"
        assert not anchor or anchor in anchors(PAGES[file]), f"{page.name}: no {target}#{anchor}"


def test_every_page_of_the_documentation_stands_in_a_table_of_contents():
    contents = "\n".join(re.findall(r"```{toctree}(.*?)```", "\n".join(PAGES.values()), re.DOTALL))
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    missing = sorted(pages - set(re.findall(r"[\w/]+", contents)))
    assert not missing, f"name {missing} in a toctree, such as that of docs/guide.md"


def _measured(name):
    """Return the rows of the first benchmark table in a file, by what was measured."""
    text = (ROOT / name).read_text(encoding="utf-8")
    table = re.search(r"^\| measured.*?(?=\n\n|\Z)", text, re.DOTALL | re.MULTILINE).group()
    rows = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()[2:]]
    return {row[1]: row[2:] for row in rows}


def test_the_benchmark_table_quotes_the_last_full_run_and_every_row_that_missed():
    results = _measured("benchmarks/RESULTS.md")
    quoted = _measured("docs/benchmarks.md")
    assert quoted.items() <= results.items()
    assert {name for name, row in results.items() if "**no**" in row} <= set(quoted)
    assert len(quoted) >= 16


def test_the_glossary_is_in_order_and_has_the_words_for_people_and_units_once():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert words == sorted(words, key=str.lower)
    assert len(set(words)) == len(words)
    assert {"Owner", "Holder", "Reader", "Outsider", "Insider", "Nat", "Cell"} <= set(words)
