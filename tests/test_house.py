"""The layering of the house, read from the imports of every module of the package."""

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

import sklearn_puffer

PACKAGE = Path(sklearn_puffer.__file__).parent
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"

RANKS = {
    "_validation": 0,
    "_wide_integers": 0.5,
    "frame": 1,
    "_search": 0.5,
    "_bound_types": 2.2,
    "_plan_bounds": 2.6,
    "_relaxed_bounds": 2.6,
    "priors": 1,
    "_shifts": 0.5,
    "noise": 1,
    "_convolution": 1,
    "_grid": 1.1,
    "_sampler": 1.2,
    "_shapes": 1.3,
    "_laplace_sampler": 1.3,
    "_table_sampler": 1.4,
    "sampling": 2,
    "_mixture_parts": 2.3,
    "_heavy_profiles": 2.35,
    "_cauchy_mixtures": 2.4,
    "_mixture_laws": 2.5,
    "_gaussian_rows": 2.5,
    "notions": 2,
    "transport": 2,
    "columns": 2,
    "certificate": 2.1,
    "_component_plans": 2,
    "_shift_means": 2.8,
    "_mixture_bounds": 2.9,
    "fits": 2,
    "accounting": 3,
    "bounds": 3,
    "counting": 2.5,
    "selection": 3,
    "release": 3,
    "sentences": 3,
    "_ways_out": 3,
    "calibration": 4,
    "learning": 4,
    "settings": 4.5,
    "problems": 4.25,
    "drawing": 4.27,
    "refusing": 4.27,
    "planning": 4.3,  # calibrates what was learnt ...
    "robustness": 4.55,
    "weighting": 4.4,
    "learnt": 4.58,  # ... and says what follows ...
    "fitting": 4.6,  # ... for the estimator
    "noiser": 5,
    "datasets": 6,
    "__init__": 7,
    "_laws": 2,
    "_divergences": 2.2,
    "_line": 2.3,
    "_quadrature": 2.4,
    "_discrete_laws": 2.5,
    "_laplace_line": 2.5,
    "_pair_losses": 2.97,
    "_laminar": 1,
    "_confidence_boxes": 2.1,
    "_envelopes": 2.9,
    "confidence": 3,
    "_boxes": 2.95,
    "composition": 2.95,
    "users": 2,
    "_others": 2.9,
    "_choices": 2.9,
    "_crowds": 2.91,
    "_log_ratios": 2.92,
    "sums": 4.05,
    "user_conditions": 4.1,
    "gaussian_sums": 4.2,
    "closed_forms": 4.3,
    "_user_losses": 4.4,
    "_gaussian_queries": 4.45,
    "_sum_plans": 4.55,
    "_sum_certificate": 4.6,
    "queries": 5,
    "_rules": 2.02,
    "_averages": 2.03,
    "spending": 2.05,
    "_ledger_file": 1,
    "_reach": 2.03,
    "_ledger_state": 2.1,
    "ledger": 2.15,
    "repeats": 4,
    "_moves": 0.5,
    "_iteration_losses": 2.5,
    "iteration": 3,
    "_reports": 3.1,
    "_close_priors": 4.45,
    "against": 4.55,
    "sgd_certificate": 4.4,
    "_descent": 4.5,
    "_descent_arguments": 4.5,
    "_noisy_descent": 4.6,
    "sgd": 5,
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
    """Return the unit of the house that a file belongs to: a module, or a whole subpackage."""
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


FILES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}


@pytest.fixture(params=list(FILES))
def module(request):
    """Yield the unit of a file of the package, and the imports in that file."""
    path = FILES[request.param]
    return unit_of(path), imports_of(path.read_text(encoding="utf-8"))


def _starts_with(path, prefixes):
    return any(path == prefix or path.startswith(f"{prefix}.") for prefix in prefixes)


def test_every_module_has_a_rank_and_every_rank_a_module():
    assert {unit_of(path) for path in FILES.values()} == set(RANKS)


def test_a_module_imports_only_modules_of_a_lower_rank(module):
    unit, imports = module
    inner = [found.path for found in imports if _starts_with(found.path, ["sklearn_puffer"])]
    used = {_unit_behind(path) for path in inner} - {unit}
    assert {other for other in used if RANKS[other] >= RANKS[unit]} == set()


def _unit_behind(path):
    second = [*path.split("."), "__init__"][1]
    return second if second in RANKS else "__init__"


def test_modules_import_each_other_by_absolute_names(module):
    _, imports = module
    assert [found.path for found in imports if found.path.startswith(".")] == []


def test_the_checker_shares_no_code_with_what_it_checks():
    imports = imports_of((PACKAGE / "accounting.py").read_text(encoding="utf-8"))
    strategies = [f"sklearn_puffer.{name}" for name in ("transport", "bounds", "calibration")]
    assert [found for found in imports if _starts_with(found.path, strategies)] == []


def test_dataframe_libraries_are_known_to_frame_alone(module):
    unit, imports = module
    if unit == "frame":
        return
    libraries = ["narwhals", "polars", "pyarrow"] + ["pandas"] * (RANKS[unit] < TOP)
    at_run_time = {found.path for found in imports if not found.for_types}
    assert [path for path in at_run_time if _starts_with(path, libraries)] == []


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
