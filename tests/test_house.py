"""The layering of the house, read from the imports of every module of the package."""

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

import sklearn_puffer
from sklearn_puffer import noise

PACKAGE = Path(sklearn_puffer.__file__).parent
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"

RANKS = {
    "_base.notion": 0.15,
    "_base.rounding": 0.1,
    "_base.types": 0,
    "_progress": 0,
    "_validation": 0,
    "_version": 0,
    "_arrays": 0.2,
    "_digest": 0.5,
    "_iterations.moves": 0.5,
    "_page": 0.5,
    "_search": 0.5,
    "_shifts": 0.5,
    "_certified": 0.7,
    "_losses.convolution": 1,
    "_releases.ledger_file": 1,
    "_sets.laminar": 1,
    "frame": 1,
    "noise": 1,
    "priors": 1,
    "_drawing.entropy": 0.6,
    "_drawing.grid": 0.6,
    "_drawing.sampler": 0.7,
    "_drawing.laplace_sampler": 0.8,
    "_drawing.shapes": 0.8,
    "_drawing.table_sampler": 0.9,
    "_fitting.binning": 1,
    "_fitting.faults": 0.5,
    "_fitting.lookup": 1,
    "_fitting.unseen": 1.5,
    "_fitting.columns": 2,
    "_losses.laws": 2,
    "_strategies.component_plans": 2,
    "fits": 2,
    "notions": 1,
    "sampling": 2,
    "_strategies.bottleneck_flow": 1.9,
    "transport": 2,
    "users": 2,
    "spending": 2.05,
    "_releases.ledger_state": 2.1,
    "_sets.simultaneous_sets": 2.1,
    "_survival": 1.5,
    "certificate": 2.1,
    "_iterations.descent_certificate": 2.15,
    "ledger": 2.15,
    "_losses.divergences": 2.2,
    "_strategies.bound_types": 2.2,
    "_losses.line": 2.3,
    "_losses.mixture_parts": 2.3,
    "_losses.heavy_profiles": 2.35,
    "_losses.cauchy_mixtures": 2.4,
    "_losses.quadrature": 2.4,
    "_fitting.counting": 2.5,
    "_iterations.iteration_losses": 2.5,
    "_losses.discrete_laws": 2.5,
    "_losses.gaussian_rows": 2.5,
    "_losses.laplace_line": 2.5,
    "_losses.mixture_laws": 2.5,
    "_strategies.plan_bounds": 2.6,
    "_strategies.relaxed_bounds": 2.6,
    "_strategies.shift_means": 2.8,
    "_sets.envelopes": 2.9,
    "_strategies.mixture_bounds": 2.9,
    "_sums.limits": 2.9,
    "_sums.others": 2.9,
    "_sums.log_ratios": 2.92,
    "_losses.boxes": 2.95,
    "_losses.lumps": 2.95,
    "composition": 2.95,
    "_losses.pair_losses": 2.97,
    "_fitting.release": 3,
    "_fitting.selection": 3,
    "_fitting.utility": 3.1,
    "_fitting.sentences": 3,
    "_sets.worst_case": 3,
    "_strategies.ways_out": 3,
    "accounting": 3,
    "bounds": 3,
    "iteration": 3,
    "_sums.reports": 3.1,
    "_fitting.learning": 4,
    "_releases.repeats": 4,
    "calibration": 4,
    "_sums.losses": 4.01,
    "sums": 4.05,
    "user_conditions": 4.1,
    "gaussian_sums": 4.2,
    "_fitting.problems": 4.25,
    "_fitting.drawing": 4.27,
    "_fitting.refusing": 4.27,
    "_fitting.planning": 4.3,
    "closed_forms": 4.3,
    "_fitting.weighting": 4.4,
    "_fitting.wide": 4.4,
    "_sums.user_losses": 4.4,
    "sgd_certificate": 4.4,
    "_sums.gaussian_queries": 4.45,
    "_fitting.settings": 4.5,
    "_iterations.descent": 4.5,
    "_iterations.descent_arguments": 4.5,
    "_fitting.other_priors": 4.55,
    "_fitting.over_set": 4.55,
    "_sums.sum_plans": 4.55,
    "_fitting.learnt": 4.58,
    "_fitting.fitting": 4.6,
    "_iterations.noisy_descent": 4.6,
    "_sums.sum_certificate": 4.6,
    "noiser": 5,
    "queries": 5,
    "sgd": 5,
    "datasets": 6,
    "__init__": 7,
}
TOP = 6  # from here up a module is a client of the package, and may hold tables of its own

IMPORT_NAMES = {"scikit-learn": "sklearn"}
RANDOM_SOURCES = {"random", "secrets", "ssl", "numpy.random", "os.urandom", "uuid"}
RANDOM_SOURCES |= {"sklearn.utils.check_random_state", "scipy.stats"}


class Import(NamedTuple):
    """One imported name: the dotted path it stands for, and whether only annotations use it."""

    path: str
    for_types: bool


def imports_of(source):
    """Return every import in ``source``, at any depth, and each attribute reached through one."""
    tree = ast.parse(source)
    typed = {id(node) for block in ast.walk(tree) if _is_type_block(block) for node in _body(block)}
    found, names = set(), {}
    for node in ast.walk(tree):
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
    for node in ast.walk(tree):
        path = _dotted(node, names)
        if path:
            found.add(Import(path, False))
    return found


def _is_type_block(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _body(block):
    return [node for statement in block.body for node in ast.walk(statement)]


def _dotted(node, names):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if parts and isinstance(node, ast.Name) and node.id in names:
        return ".".join([names[node.id], *reversed(parts)])
    return None


def unit_of(path):
    """Return the unit of the house that a file belongs to: a module, or all of `datasets`."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts) if parts[0].startswith("_") else parts[0]


# a private subpackage is a folder and no more: nothing stands in its __init__.py
FOLDERS = sorted(PACKAGE.glob("_*/__init__.py"))
FILES = {
    str(path.relative_to(PACKAGE)): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path not in FOLDERS
}


@pytest.fixture(params=list(FILES))
def module(request):
    """Yield the unit of a file of the package, and the imports in that file."""
    path = FILES[request.param]
    return unit_of(path), imports_of(path.read_text(encoding="utf-8"))


def _starts_with(path, prefixes):
    return any(path == prefix or path.startswith(f"{prefix}.") for prefix in prefixes)


def test_every_module_has_a_rank_and_every_rank_a_module():
    assert {unit_of(path) for path in FILES.values()} == set(RANKS)


@pytest.mark.parametrize("path", FOLDERS, ids=lambda path: path.parent.name)
def test_a_private_folder_holds_nothing_but_modules(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree) is not None
    assert len(tree.body) == 1


def test_a_module_imports_only_modules_of_a_lower_rank(module):
    unit, imports = module
    inner = [found.path for found in imports if _starts_with(found.path, ["sklearn_puffer"])]
    used = {_unit_behind(path) for path in inner} - {unit}
    assert {other for other in used if RANKS[other] >= RANKS[unit]} == set()


def _unit_behind(path):
    parts = path.split(".")[1:]
    known = (".".join(parts[:length]) for length in (2, 1))
    return next((unit for unit in known if unit in RANKS), "__init__")


def test_modules_import_each_other_by_absolute_names(module):
    _, imports = module
    assert [found.path for found in imports if found.path.startswith(".")] == []


def _units_behind(unit):
    """Return every unit that ``unit`` imports, and those that they import, and so on."""
    behind, left = set(), [unit]
    while left:
        path = PACKAGE.joinpath(*left.pop().split(".")).with_suffix(".py")
        inner = [found.path for found in imports_of(path.read_text(encoding="utf-8"))]
        used = {_unit_behind(path) for path in inner if _starts_with(path, ["sklearn_puffer"])}
        left += used - behind - {"__init__"}
        behind |= used - {"__init__"}
    return behind


def test_the_checker_shares_no_code_with_what_it_checks():
    strategies = {"transport", "bounds", "calibration"}
    strategies |= {unit for unit in RANKS if unit.startswith("_strategies.")}
    behind = _units_behind("accounting")
    assert "_losses.line" in behind
    assert behind & strategies == set()


def test_dataframe_libraries_are_known_to_frame_alone(module):
    unit, imports = module
    if unit == "frame":
        return
    libraries = ["narwhals", "polars", "pyarrow"] + ["pandas"] * (RANKS[unit] < TOP)
    at_run_time = {found.path for found in imports if not found.for_types}
    assert [path for path in at_run_time if _starts_with(path, libraries)] == []


_TO_GO = {"_releases/averages.py", "_releases/repeats.py"}


def _families():
    classes = [each for each in vars(noise).values() if isinstance(each, type)]
    return {each.__name__ for each in classes if issubclass(each, noise.ProductNoise)}


def _asked_by_type(tree):
    """Return the names of the classes that code asks whether a value is of."""
    for node in ast.walk(tree):
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


def test_nothing_outside_a_noise_family_asks_which_one_it_is():
    asked = {
        path: _families() & set(_asked_by_type(ast.parse(file.read_text(encoding="utf-8"))))
        for path, file in FILES.items()
        if path != "noise.py" and path not in _TO_GO
    }
    assert {path: names for path, names in asked.items() if names} == {}


def test_the_reader_of_types_sees_every_way_to_ask_for_one():
    ways = "isinstance(x, A | B), issubclass(x, m.C), type(x) is D, E == type(x), type(x) in (F,)"
    match = "match x:\n    case G(): pass"
    asked = set(_asked_by_type(ast.parse(f"{ways}\n{match}")))
    assert set("ABCDEFG") <= asked


def test_random_bits_come_from_sampling_alone(module):
    unit, imports = module
    if unit == "sampling":
        return
    assert [found for found in imports if _starts_with(found.path, RANDOM_SOURCES)] == []


def test_only_the_public_interface_of_a_library_is_used(module):
    _, imports = module
    foreign = [found.path for found in imports if not _starts_with(found.path, ["sklearn_puffer"])]
    private = [path for path in foreign if re.search(r"\._[a-z]", path)]
    assert private == []


def test_run_time_imports_are_declared_dependencies(module):
    unit, imports = module
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    declared = [*project["dependencies"]]
    if RANKS[unit] == TOP:
        declared += project["optional-dependencies"]["plot"]
    names = {re.match(r"[\w-]+", requirement).group() for requirement in declared}
    known = {IMPORT_NAMES.get(name, name) for name in names} | {"sklearn_puffer", "__future__"}
    used = {found.path.split(".")[0] for found in imports if not found.for_types}
    assert used - known - sys.stdlib_module_names == set()


def test_dependencies_state_a_minimum_version():
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    assert all(re.search(r">=\d", requirement) for requirement in project["dependencies"])
    assert set(project["optional-dependencies"]) == {"test", "bench", "plot"}


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
    assert imports_of(source) == {
        Import("numpy", False),
        Import("scipy.stats", False),
        Import("sklearn_puffer.bounds.Relaxed", False),
        Import("pandas", True),
        Import("..transport", False),
        Import("numpy.random", False),
        Import("numpy.random.default_rng", False),
        Import("scipy.stats.laplace", False),
    }
