"""The house, read from the imports of every module: who may know whom."""

import ast
import configparser
import functools
import graphlib
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from clusters import is_on_clusters

import sklearn_puffer
from sklearn_puffer import noise, notions
from sklearn_puffer._release import Mechanism

PACKAGE = Path(sklearn_puffer.__file__).parent
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
README = PYPROJECT.with_name("README.md")

# What a stranger has to read.
MOST_LINES_OF_A_MODULE = 700
MOST_LINES_OF_A_FUNCTION = 60  # of code
MOST_LINES_OF_THE_SWAP = 1600  # of code: engines, groups and its checker included
MOST_NAMES = 22  # at the front door
MOST_WORDS = 700  # of the README
MOST_NAMES_OF_A_FACE = 40

# A rank, and what lies there: a folder, or public modules that may know each other. An import goes
# to a lower rank, or stays in its line.
HOUSE = (
    (0, {"_base", "_words", "_numerics", "_documents"}),
    (1, {"_tables"}),
    (2, {"_codes"}),
    (3, {"_engines"}),
    (1, {"priors", "_fits", "_samples", "fits", "_notion", "notions"}),
    (2, {"noise", "_noise", "_formulas"}),
    (3, {"_losses"}),
    (3, {"_strategies"}),
    (3, {"_sets"}),
    (4, {"accounting", "bounds", "calibration"}),
    (4, {"iteration", "_displacements"}),
    (4, {"_rows"}),
    (5, {"_certificates"}),
    (6, {"_release"}),
    (7, {"_noiser"}),
    (7, {"_microaggregator"}),
    (7, {"_sums"}),
    (7, {"_descent"}),
    (7, {"_swap"}),
    (8, {"_ledgers"}),
    (8, {"users", "closed_forms", "couplings", "datasets"}),
    (9, {"_review"}),
    (10, {"displays"}),
    (11, {"__init__"}),
    (12, {"cli", "__main__"}),
)
LINE_OF = {unit: line for line, (_, units) in enumerate(HOUSE) for unit in units}

IMPORT_NAMES = {"scikit-learn": "sklearn"}
FRAMES = ["narwhals", "polars", "pyarrow", "pandas"]
RANDOM_SOURCES = {"random", "secrets", "ssl", "numpy.random", "os.urandom", "uuid"}
RANDOM_SOURCES |= {"sklearn.utils.check_random_state", "scipy.stats"}


class Import(NamedTuple):
    """One imported name: the dotted path it stands for, and whether only annotations use it."""

    path: str
    for_types: bool


def imports_of(nodes):
    """Return every import in a tree, at any depth, and each attribute reached through one."""
    typed = {id(node) for block in nodes if _is_type_block(block) for node in _body(block)}
    found, names = set(), {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.add(Import(alias.name, id(node) in typed))
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                found.add(Import(f"{base}.{alias.name}", id(node) in typed))
    for node in nodes:
        path = _dotted(node, names)
        if path:
            found.add(Import(path, False))
    return found


def _is_type_block(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _body(block):
    return [node for statement in block.body for node in ast.walk(statement)]


def _dotted(node, names):
    """Return the path of an attribute that is reached through an imported name, else None."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if parts and isinstance(node, ast.Name) and node.id in names:
        return ".".join([names[node.id], *reversed(parts)])
    return None


class Module(NamedTuple):
    """One file of the package."""

    name: str  # dotted, below the package: "_losses.line"; the face of a folder is "_losses"
    unit: str  # the folder or public module it belongs to
    text: str
    tree: ast.Module
    nodes: list[ast.AST]  # of the tree
    imports: frozenset[Import]

    @property
    def inner(self):
        """Return the dotted paths below the package that are imported."""
        inside = "sklearn_puffer."
        return {i.path.removeprefix(inside) for i in self.imports if i.path.startswith(inside)}


def _nodes(text):
    """Return the tree of a text and every node in it."""
    return list(ast.walk(ast.parse(text)))


def _module(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    name = ".".join(parts if len(parts) == 1 or parts[-1] != "__init__" else parts[:-1])
    text = path.read_text(encoding="utf-8")
    nodes = _nodes(text)
    return Module(name, parts[0], text, nodes[0], nodes, frozenset(imports_of(nodes)))


@functools.cache
def modules():
    """Return every module by its name, each file read once, and none where tests are collected."""
    return {module.name: module for module in map(_module, sorted(PACKAGE.rglob("*.py")))}


@functools.cache
def faces():
    return {name for name, each in modules().items() if name == each.unit and _is_folder(name)}


def _is_folder(name):
    return (PACKAGE / name).is_dir()


def _unit(path):
    head = path.split(".")[0]
    return head if head in LINE_OF else "__init__"


def _starts_with(path, prefixes):
    return any(path == prefix or path.startswith(f"{prefix}.") for prefix in prefixes)


def _outside(units, wanted):
    """Return which modules outside of ``units`` import something that starts with ``wanted``."""
    return {
        (module.name, found.path)
        for module in modules().values()
        for found in module.imports
        if module.unit not in units and _starts_with(found.path, wanted)
    }


def test_every_module_has_a_rank_and_every_rank_a_module():
    assert {module.unit for module in modules().values()} == set(LINE_OF)


def test_an_import_goes_to_a_lower_rank_or_stays_in_its_line():
    def allowed(unit, other):
        return LINE_OF[unit] == LINE_OF[other] or HOUSE[LINE_OF[other]][0] < HOUSE[LINE_OF[unit]][0]

    up = {
        (module.name, path)
        for module in modules().values()
        for path in module.inner
        if not allowed(module.unit, _unit(path))
    }
    assert up == set()


def _siblings(module):
    """Return the modules of the same line that a module imports."""
    paths = {path for path in module.inner if LINE_OF[_unit(path)] == LINE_OF[module.unit]}
    known = {path if path in modules() else path.rpartition(".")[0] for path in paths}
    return (known & set(modules())) - {module.name}


MECHANISMS = {unit for rank, units in HOUSE if rank == 7 for unit in units}
# What certificates and ledgers say of noise and of channels; the base itself knows neither.
ABOUT_PROOFS = {"certificate", "certificate_figures", "composition", "ledger", "sentences", "store"}
OF_MECHANISMS = {"noise", "channel", "swap", "theta", "theta_", "scale", "prototypes"}


def test_no_mechanism_imports_another():
    assert {"_noiser", "_sums", "_descent", "_swap"} <= MECHANISMS
    for unit in MECHANISMS:
        assert _units_behind(unit) & MECHANISMS <= {unit}


def _names_in(nodes):
    for node in nodes:
        parts = [getattr(node, part, None) for part in ("attr", "id", "arg", "name", "module")]
        yield from (word for part in parts if isinstance(part, str) for word in part.split("."))


def test_the_base_of_all_estimators_names_no_mechanism():
    units = {"_rows", "_certificates", "_release", "_ledgers"}
    base = [m for m in modules().values() if m.unit in units and m.name not in units]
    for module in base:
        if module.name.partition(".")[2] not in ABOUT_PROOFS:
            assert OF_MECHANISMS & set(_names_in(module.nodes)) == set(), module.name
    assert {"_release.table_release", "_release.mechanism"} <= {module.name for module in base}


def test_nobody_outside_its_folder_asks_which_mechanism_there_is():
    kinds = [kind for kind in modules().values() for kind in _subclasses_in(kind, "Mechanism")]
    assert {name for _, name in kinds} >= {"NoiseOfColumns", "RowExchange"}
    for module in modules().values():
        own = {name for unit, name in kinds if unit == module.unit}
        assert {name for _, name in kinds} & set(_asked_by_type(module.nodes)) <= own, module.name


def test_nobody_outside_the_folders_of_mechanisms_compares_with_the_name_of_one():
    for name in ("PufferfishNoiser", "PufferfishMicroaggregator", "PufferfishSwap"):
        getattr(sklearn_puffer, name)
    kinds = {kind for kind, each in Mechanism.kinds.items() if "puffer." in each.__module__} - {""}
    assert kinds >= {"microaggregation", "exchange"}
    for module in modules().values():
        if module.unit not in MECHANISMS:
            assert kinds & set(_compared_with(module.nodes)) == set(), module.name
    assert set(_compared_with(_nodes("a == 'x'\nb in ('y', 'z')"))) == {"x", "y", "z"}


def _compared_with(nodes):
    """Return the words that code compares values with."""
    for node in nodes:
        parts = ast.walk(node) if isinstance(node, ast.Compare) else ()
        words = (part.value for part in parts if isinstance(part, ast.Constant))
        yield from (word for word in words if isinstance(word, str))


def _subclasses_in(module, base):
    for node in module.nodes:
        if isinstance(node, ast.ClassDef) and base in map(ast.unparse, node.bases):
            yield module.unit, node.name


def test_scales_are_found_without_what_makes_sets_reads_tables_or_releases():
    known = {"_noiser.priors", "_noiser.problem"}
    assert _siblings(modules()["_noiser.scales"]) == known
    assert _siblings(modules()["_noiser.problem"]) == {"_noiser.priors"}


def test_whoever_reads_an_artifact_knows_every_mechanism_that_writes_one():
    for name in ("PufferfishNoiser", "PufferfishMicroaggregator", "PufferfishSwap"):
        getattr(sklearn_puffer, name)
    written = {kind for kind, each in Mechanism.kinds.items() if "puffer." in each.__module__}
    assert {Mechanism.kinds[kind].__module__ for kind in written - {""}} <= _loaded(READ)


def test_the_modules_of_a_line_form_no_circle():
    order = graphlib.TopologicalSorter(
        {name: _siblings(module) for name, module in modules().items()}
    )
    order.prepare()  # raises CycleError, which names the circle


def test_a_folder_is_entered_by_its_face():
    past_the_face = {
        (module.name, path)
        for module in modules().values()
        for path in module.inner
        if _unit(path) in faces() and _unit(path) != module.unit and path.count(".") > 1
        if ".".join(path.split(".")[:2]) in modules()
    }
    assert past_the_face == set()


def test_modules_import_each_other_by_absolute_names():
    relative = {i.path for m in modules().values() for i in m.imports if i.path.startswith(".")}
    assert relative == set()


def test_a_face_holds_nothing_but_names_that_others_use():
    for name in faces():
        tree = modules()[name].tree
        body = tree.body[1:]  # after the docstring
        assert ast.get_docstring(tree)
        assert all(isinstance(node, ast.ImportFrom | ast.Assign) for node in body), name
    private = [name for name in faces() if name.startswith("_")]
    assert {f"{name}.{idle}" for name in private for idle in _idle_names(name)} == set()


def test_a_face_is_small_enough_to_be_known_by_heart():
    for name in faces():
        assert len(names_that_others_use(name)) <= MOST_NAMES_OF_A_FACE, name
    assert {"frame_table", "row_digests"} < names_that_others_use("_tables")
    assert {"lazy_table", "plans.planned", "row_ids.read_ids"} < names_that_others_use("_engines")


def names_that_others_use(face):
    """Return the names of a folder that others import; of a module the names they take from it."""
    used = set()
    for module in (each for each in modules().values() if each.unit != face):
        taken = {path.partition(".")[2] for path in module.inner if _unit(path) == face}
        files = {name for name in taken if f"{face}.{name}" in modules()}
        used |= taken - files
        used |= {path for path in _attributes(module.name) if path.partition(".")[0] in files}
    return used


@functools.cache
def _attributes(name):
    """Return the attributes that a module reads of a name, as in `plans.planned`."""
    return {
        f"{node.value.id}.{node.attr}"
        for node in modules()[name].nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }


def _idle_names(face):
    """Return the names that a face holds and nobody uses: no other folder, and no test."""
    wanted = {path for module in modules().values() if module.unit != face for path in module.inner}
    held = {path.rpartition(".")[2] for path in modules()[face].inner}
    return {name for name in held if f"{face}.{name}" not in wanted} - _words_of_tests()


@functools.cache
def _words_of_tests():
    files = [path for path in Path(__file__).parent.glob("*.py") if path != Path(__file__)]
    return {word for path in files for word in re.findall(r"\w+", path.read_text("utf-8"))}


def test_public_modules_say_what_is_public():
    public = [name for name in LINE_OF if not name.startswith("_")]
    for name in public:
        module = importlib.import_module(f"sklearn_puffer.{name}")
        assert sorted(module.__all__) == sorted(set(module.__all__)), name
        assert all(hasattr(module, each) for each in module.__all__), name


def test_each_public_module_says_first_when_one_needs_it():
    for name in (name for name in LINE_OF if not name.startswith("_") and name != "cli"):
        _, second = ast.get_docstring(modules()[name].tree).split("\n\n")[:2]
        assert second.startswith("Use this module "), name


_PRIVATE = re.compile(r"`(?:sklearn_puffer/)?(_[a-z]+/[\w.]*)`")


def test_every_file_that_contributors_are_sent_to_is_there():
    text = PYPROJECT.with_name("CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./]+/[\w.]*|\w+\.py)`", text)) - {
        *("docs/NAME.md", "docs/figures/NAME.py", "docs/images/NAME.png"),
        *("../shared/data", ".ci/run"),
    }
    roots = (PYPROJECT.parent, PACKAGE)
    assert len(named) > 50
    assert {path for path in named if not any((root / path).exists() for root in roots)} == set()


def test_every_private_module_that_a_page_names_is_there():
    pages = {page: page.read_text(encoding="utf-8") for page in PYPROJECT.parent.glob("docs/*.md")}
    named = {(page.name, path) for page in pages for path in _PRIVATE.findall(pages[page])}
    assert named
    assert {(page, path) for page, path in named if not (PACKAGE / path).exists()} == set()


def lines_of_code(text, nodes):
    """Return the numbers of the lines that are neither blank, nor comments, nor docstrings."""
    lines = enumerate(map(str.strip, text.splitlines()), start=1)
    code = {number for number, line in lines if line and not line.startswith("#")}
    for each in filter(_has_docstring, nodes):
        code -= set(range(each.body[0].lineno, each.body[0].end_lineno + 1))
    return code


def _has_docstring(node):
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None


def test_no_module_and_no_function_is_longer_than_a_reader_keeps_in_mind():
    for module in modules().values():
        assert len(module.text.splitlines()) <= MOST_LINES_OF_A_MODULE, module.name
        code = lines_of_code(module.text, module.nodes)
        for function in filter(_is_function, module.nodes):
            own = code & set(range(function.lineno, function.end_lineno + 1))
            assert len(own) <= MOST_LINES_OF_A_FUNCTION, function.name


def test_the_swap_is_told_in_few_lines_of_code():
    of_swap = [m for m in modules().values() if m.unit == "_swap" or m.name == "_losses.swap_odds"]
    assert len(of_swap) > 5
    lines = sum(len(lines_of_code(module.text, module.nodes)) for module in of_swap)
    assert lines <= MOST_LINES_OF_THE_SWAP


def test_no_module_takes_what_is_private_to_another():
    taken = [
        f"{module.name}: {each.path}"
        for module in modules().values()
        for each in module.imports
        if each.path.startswith("sklearn_puffer.") and each.path.count(".") > 1
        if re.match("_[a-zA-Z]", each.path.rpartition(".")[2])
        if each.path.removeprefix("sklearn_puffer.") not in modules()
    ]
    assert taken == []


def _is_function(node):
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def test_the_house_keeps_its_size():
    assert len(sklearn_puffer.__all__) <= MOST_NAMES
    assert 500 < len(README.read_text(encoding="utf-8").split()) <= MOST_WORDS


def test_the_count_of_lines_sees_code_alone():
    source = '''
"""A docstring
of two lines."""

import a  # a comment


# a comment of its own
class B:
    """One line."""

    x = (
        1,
        """a text
        is no docstring""",
    )
'''
    assert len(lines_of_code(source, _nodes(source))) == 7


def _units_behind(unit):
    """Return every unit that ``unit`` imports, and those that they import, and so on."""
    behind, left = set(), [unit]
    while left:
        current = left.pop()
        used = {
            _unit(path)
            for module in modules().values()
            if module.unit == current
            for path in module.inner
        }
        left += used - behind
        behind |= used
    return behind


def test_the_checker_shares_no_code_with_what_it_checks():
    behind = _units_behind("accounting")
    assert "_losses" in behind
    assert behind & {"_strategies", "bounds", "calibration"} == set()


def test_dataframe_libraries_are_known_to_the_tables_alone():
    at_run_time = {
        (module.name, found.path)
        for module in modules().values()
        for found in module.imports
        if not found.for_types and _starts_with(found.path, FRAMES)
        if module.unit not in {"_tables", "_engines", "datasets"}
    }
    assert at_run_time == set()


def test_random_bits_come_from_the_noise_alone():
    # invented people and priors of a bootstrap are no noise, and drawn alike with the same number
    assert _outside({"_noise", "datasets", "fits"}, RANDOM_SOURCES) == set()


def test_only_the_public_interface_of_a_library_is_used():
    private = {
        (module.name, found.path)
        for module in modules().values()
        for found in module.imports
        if not _starts_with(found.path, ["sklearn_puffer"]) and re.search(r"\._[a-z]", found.path)
    }
    assert private == set()


def _project():
    return tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]


def test_run_time_imports_are_declared_dependencies():
    names = {re.match(r"[\w-]+", each).group() for each in _project()["dependencies"]}
    known = {IMPORT_NAMES.get(name, name) for name in names} | {"sklearn_puffer", "__future__"}
    used = {
        found.path.split(".")[0]
        for module in modules().values()
        for found in module.imports
        if not found.for_types
    }
    assert used - known - sys.stdlib_module_names == {
        *("cryptography", "jinja2", "matplotlib"),
    }


def test_an_extra_is_imported_by_the_module_that_does_without_it_alone():
    extra = _project()["optional-dependencies"]["keyed"]
    assert [re.match(r"[\w-]+", each).group() for each in extra] == ["cryptography"]
    users = {m.name for m in modules().values() if any(_is_aes(i.path) for i in m.imports)}
    assert users == {"_noise.keyed"}
    assert "cryptography" not in _loaded("import sklearn_puffer")


def test_pages_are_made_by_one_module_which_asks_for_jinja_when_it_makes_one():
    extra = _project()["optional-dependencies"]["report"]
    assert [re.match(r"[\w-]+", each).group() for each in extra] == ["jinja2"]
    assert set(extra) <= set(_project()["optional-dependencies"]["test"])
    users = {m.name for m in modules().values() for i in m.imports if i.path == "jinja2"}
    assert users == {"_documents.document"}
    assert "jinja2" not in _loaded("sklearn_puffer.report")


def test_every_warning_is_of_a_kind_of_its_own():
    """Only classes of other libraries' warnings are named elsewhere, to be ignored."""
    for module in modules().values():
        for node in module.nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
                kind = ast.unparse(node.args[1])
                assert kind in ("PufferfishWarning", "UnseenValuesWarning", "kind"), (
                    module.name,
                    node.lineno,
                )


def test_pictures_are_drawn_by_one_module_which_asks_for_matplotlib_when_it_draws():
    extra = _project()["optional-dependencies"]["plot"]
    assert [re.match(r"[\w-]+", each).group() for each in extra] == ["matplotlib"]
    drawing = {(m.name, i.path) for m in modules().values() for i in m.imports}
    users = {name for name, path in drawing if path.split(".")[0] == "matplotlib"}
    assert users == {"displays"}
    assert "matplotlib" not in _loaded("sklearn_puffer.displays")


def test_bars_are_drawn_by_one_module_which_asks_for_tqdm_when_it_draws():
    drawing = {(m.name, i.path) for m in modules().values() for i in m.imports}
    users = {name for name, path in drawing if path.split(".")[0] == "tqdm"}
    assert users == {"_base.progress"}
    assert "tqdm" not in _loaded("import sklearn_puffer")


def _is_aes(path):
    return path.split(".")[0] == "cryptography"


def test_setup_cfg_holds_what_tools_read_from_nowhere_else_and_no_metadata():
    found = configparser.ConfigParser()
    found.read_string(PYPROJECT.with_name("setup.cfg").read_text(encoding="utf-8"))
    assert found.sections() == ["flake8", "coverage:run", "coverage:report", "codespell"]
    tools = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["tool"]
    assert {"flake8", "coverage", "codespell"} & tools.keys() == set()
    assert found.getint("flake8", "max-line-length") == tools["ruff"]["line-length"]
    assert found["coverage:run"]["source_pkgs"] == "sklearn_puffer"
    assert found.getint("coverage:report", "fail_under") >= 84
    for path in re.findall(r"tests/\w+\.py", found["coverage:run"]["command_line"]):
        told = (PYPROJECT.parent / path).read_text(encoding="utf-8")
        assert not re.search("settrace|setitimer|raise_signal", told), path


def test_dependencies_state_a_minimum_version():
    project = _project()
    assert all(re.search(r">=\d", requirement) for requirement in project["dependencies"])
    engines = {"polars", "duckdb", "dask", "spark", "ibis", "engines"}
    extras = {"cli", "test", "check", "bench", "plot", "keyed", "mutation", "docs"}
    extras |= {"browser", "report"}
    assert set(project["optional-dependencies"]) == engines | extras


# What a fresh process does, one after the other.
READ = "sklearn_puffer.PufferfishRelease"
STATEMENTS = (
    "import sklearn.base, sklearn, pandas",
    "import sklearn_puffer",
    READ,
    "sklearn_puffer.report",
    "sklearn_puffer.displays",
)


@functools.cache
def _all_loaded():
    code = ["import sys", *(f"{each}; print(*sys.modules)" for each in STATEMENTS)]
    run = [sys.executable, "-c", "\n".join(code)]
    shown = subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(zip(STATEMENTS, map(frozenset, map(str.split, shown)), strict=True))


def _loaded(statement):
    """Return the modules that a fresh process holds after ``statement``, and those before it."""
    return _all_loaded()[statement]


def test_the_import_brings_little_beyond_scikit_learn_and_pandas():
    before = _loaded("import sklearn.base, sklearn, pandas")
    extra = _loaded("import sklearn_puffer") - before
    heavy = ["scipy.signal", "scipy.stats", "sklearn.mixture", "sklearn.linear_model"]
    heavy += ["sklearn_puffer._sums", "sklearn_puffer._descent", "sklearn_puffer._review"]
    heavy += ["matplotlib"]
    assert [name for name in heavy if name in extra] == []
    assert len(extra) <= 250  # today 105, of which 104 are our own


def _asked_by_type(nodes):
    """Return the names of the classes that code asks whether a value is of."""
    for node in nodes:
        called = node.func.id if _calls_a_name(node) else ""
        asks = isinstance(node, ast.Compare) and any(
            _calls_a_name(part) and part.func.id == "type" for part in ast.walk(node)
        )
        if called in ("isinstance", "issubclass") or asks:
            for part in ast.walk(node):
                yield part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", None)
        if isinstance(node, ast.MatchClass):
            yield getattr(node.cls, "id", None)


def _calls_a_name(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def _classes_of(module):
    """Return the names of the classes that a module of the package defines."""
    classes = {each for each in vars(module).values() if isinstance(each, type)}
    return {each.__name__ for each in classes if each.__module__ == module.__name__}


def test_nothing_outside_them_asks_which_noise_or_notion_it_has_in_hand():
    classes = {part.__name__.rpartition(".")[2]: _classes_of(part) for part in (noise, notions)}
    asked = {
        (module.name, name)
        for module in modules().values()
        for name in _asked_by_type(module.nodes)
        for part, own in classes.items()
        if module.unit != part and name in own
    }
    assert asked == set()


def test_the_reader_of_types_sees_every_way_to_ask_for_one():
    ways = "isinstance(x, A | B), issubclass(x, m.C), type(x) is D, E == type(x), type(x) in (F,)"
    match = "match x:\n    case G(): pass"
    asked = set(_asked_by_type(_nodes(f"{ways}\n{match}")))
    assert set("ABCDEFG") <= asked


def test_the_reader_of_imports_sees_every_kind_of_import():
    source = """
import numpy as np
import scipy.stats
from sklearn_puffer.bounds import Relaxed
if TYPE_CHECKING:
    import pandas as pd
def late():
    from . import transport
    return np.random.default_rng(), scipy.stats.laplace
"""
    assert imports_of(_nodes(source)) == {
        Import("numpy", False),
        Import("scipy.stats", False),
        Import("sklearn_puffer.bounds.Relaxed", False),
        Import("pandas", True),
        Import("..transport", False),
        Import("numpy.random", False),
        Import("numpy.random.default_rng", False),
        Import("scipy.stats.laplace", False),
    }


TABLES = {"DataFrame", "_FrameTable", "_ArrayTable", "Rows", "TableRead"}


def _walk_of_the_table(call):
    """Return the modules in which a function is entered that has the table, or what wraps it."""
    entered = set()

    def look(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event in ("call", "return") and PACKAGE in path.parents:
            kinds = {kind.__name__ for own in frame.f_locals.values() for kind in type(own).__mro__}
            if kinds & TABLES:
                entered.add(path.relative_to(PACKAGE).with_suffix("").as_posix())

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered


def test_a_table_walks_through_thirteen_modules_at_most():
    rows = np.random.default_rng(0).integers(0, 4, (60, 2))
    table = pd.DataFrame(rows, columns=["cars", "rooms"])
    table["sex"] = ["f", "m"] * 30
    noiser = sklearn_puffer.PufferfishNoiser(
        epsilon=1, sensitive="sex", public=["cars", "rooms"], noise="laplace"
    )
    walk = _walk_of_the_table(lambda: noiser.fit(table))
    walk |= _walk_of_the_table(lambda: noiser.transform(table))
    assert {"_tables/frame", "_noiser/read_table"} <= walk
    assert len(walk) <= 13, sorted(walk)  # those of the base of all estimators included


def test_mutants_are_held_against_modules_and_tests_that_exist():
    """The script itself needs Cosmic Ray, so it is read, and not imported."""
    tree = ast.parse((PYPROJECT.parent / "tests" / "mutate.py").read_text(encoding="utf-8"))
    names = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id in ("LOSSES", "TESTS"):
            exec(ast.unparse(node), names)
    for module, tests in names["TESTS"].items():
        path = PYPROJECT.parent / "sklearn_puffer" / module.replace(".", "/")
        assert path.with_suffix(".py").exists(), module
        for test in tests.split():
            assert (PYPROJECT.parent / "tests" / f"test_{test}.py").exists(), (module, test)


def test_tests_that_start_clusters_are_known_by_their_names():
    names = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        marked = re.findall(r"^@on_clusters\n(?:@.*\n)*def (\w+)", text, re.MULTILINE)
        names |= {f"tests/{path.name}::{name}" for name in marked}
        names |= {f"tests/{path.name}::"} if "pytestmark = MARKS\n" in text else set()
    assert len(names) > 3
    assert [name for name in sorted(names) if not is_on_clusters(name)] == []
