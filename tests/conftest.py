"""Fixtures for every test: the public tables, which are not part of the checkout.

The tables lie in a folder beside the checkout. ``SKLEARN_PUFFER_TABLES`` names another folder, and
``PUFFER_REQUIRE_TABLES=1`` makes a missing table a failure, so that CI cannot skip it unseen.
"""

import contextlib
import gc
import importlib
import itertools
import os
import sys
from collections import Counter
from pathlib import Path

import clusters
import pandas as pd
import pytest
from all_pairs import some
from clusters import dask, ibis, is_on_clusters, spark, spark_session  # noqa: F401  (fixtures)
from hypothesis import settings

# The same examples on every machine, and no deadlines: `--hypothesis-profile=search` looks further.
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=30)
settings.register_profile("search", max_examples=500, deadline=None)
settings.register_profile("few", derandomize=True, deadline=None, max_examples=5)
settings.load_profile("fixed")


def pytest_addoption(parser):
    told = (
        "of each test run two cases of its parameters, and up to so many while they try new values"
    )
    parser.addoption("--cases", type=int, help=told)


# Files of many seconds, longest first: none of them begins when all others are done.
LONG = (
    "examples",
    "audit_readers",
    "across_versions",
    "plan",
    "command_line",
    "microaggregation_readers",
    "queries_gaussian",
    "report_browser",
    "readme",
    "estimator",
    "ledger_faults",
)


def place(item):
    """Return where a test comes: those of clusters first, then long files, then all others."""
    stem = item.path.stem.removeprefix("test_")
    long = LONG.index(stem) if stem in LONG else len(LONG)
    return not is_on_clusters(item.nodeid), long


@pytest.hookimpl(trylast=True)  # slow ones are gone by then
def pytest_collection_modifyitems(config, items):
    items.sort(key=place)
    most = config.getoption("--cases", None)
    if most is not None:
        tests, tried, kept = {}, {}, set()
        for item in items:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item.nodeid)
        for name, cases in tests.items():  # what one test of a file has tried, the next need not
            kept.update(some(cases, most, tried.setdefault(name.partition("::")[0], Counter())))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
        items[:] = [item for item in items if item.nodeid in kept]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """End clusters behind the last of their tests, which come first: see above."""
    if is_on_clusters(item.nodeid) and not (nextitem and is_on_clusters(nextitem.nodeid)):
        clusters.close()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give all tests of a file to one worker, and all tests of clusters: each Spark takes seconds.

    By names: the groups of xdist 3.8 are lost under pytest 9.2, where each worker started its own.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return "clusters" if is_on_clusters(nodeid) else super()._split_scope(nodeid)

    return ByFile(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Use all cores where folders are tested and `-n` is not given, and one thread in each worker.

    Threads of workers that share the cores wait for each other, and burn many times what they do.

    A file or a test by name stays in this process, and so does what somebody watches (`-s`,
    `--trace`, and xdist sees to `--pdb`) or what has to do without xdist (`-p no:xdist`).
    """
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    is_decided = config.getoption("numprocesses", 0) is not None
    is_watched = config.option.capture == "no" or config.option.trace
    if not (is_worker or is_decided or is_watched) and all(map(os.path.isdir, config.args)):
        config.option.numprocesses = "auto"
    if config.getoption("numprocesses", 0):
        if config.option.dist == "no":
            config.option.dist = "loadfile"  # what a file fits once is fitted by one worker
        os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    """Let each worker compile its share of the test files first, which the others then read.

    Tests are collected for good: no garbage is looked for among them, now or later.
    """
    gc.disable()
    worker, here = os.environ.get("PYTEST_XDIST_WORKER"), Path(__file__).parent
    is_whole = here in (Path(argument).resolve() for argument in session.config.args)
    if worker is None or not is_whole or sys.dont_write_bytecode:
        return
    n_workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for path in sorted(here.glob("test_*.py"))[int(worker.removeprefix("gw")) :: n_workers]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # told where it is collected
            importlib.import_module(path.stem)


def pytest_collection_finish(session):
    gc.freeze()
    gc.enable()


def pytest_configure(config):
    """What is released of small tables may be worthless: tests of the warning ask for it.

    Said here and not in ``pyproject.toml``, where pytest would import the installed package before
    it collects the doctests of the checkout's.
    """
    config.addinivalue_line("filterwarnings", "ignore::sklearn_puffer.UtilityWarning")


os.environ.setdefault("MPLBACKEND", "agg")  # displays draw when they are made

_BESIDE_THE_CHECKOUT = Path(__file__).resolve().parents[2] / "shared" / "data"


_TABLES_READ = {}


def _read(path, options):
    key = path, repr(options)
    if key not in _TABLES_READ:
        _TABLES_READ[key] = pd.read_csv(path, **options)
    return _TABLES_READ[key].copy()  # a test may change its own


def _folder():
    return Path(os.environ.get("SKLEARN_PUFFER_TABLES", _BESIDE_THE_CHECKOUT))


@pytest.fixture(autouse=True)
def _no_figure_is_left_open():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@contextlib.contextmanager
def _few_trees():
    """Attack by fewer trees than plans and audits do: they find what is plain to see."""
    from sklearn_puffer._review import readers

    boosted = readers.boosted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "attackers", lambda: {"boosted": boosted(5)})
        patch.setattr(readers, "boosted", lambda _, **kind: boosted(5, **kind))
        yield


@pytest.fixture
def few_trees():
    with _few_trees():
        yield


@pytest.fixture(scope="module")
def quick_attackers():
    with _few_trees():
        yield


@pytest.fixture
def seeded_draws(monkeypatch):
    """Draw releases from seeded bits: one audit of twenty honest ones has a finding by chance."""
    from sklearn_puffer._noise import seeded_entropy
    from sklearn_puffer._release import table_release

    numbers = itertools.count()
    monkeypatch.setattr(table_release, "system_entropy", lambda: seeded_entropy(0, next(numbers)))


@pytest.fixture(scope="session")
def table():
    """Read a public table by the name of its file, without the ending."""

    def read(name, **options):
        path = _folder() / f"{name}.csv"
        if path.is_file():
            return _read(path, options)
        reason = f"the public table {path.name} is not in {path.parent}"
        if os.environ.get("PUFFER_REQUIRE_TABLES") == "1":
            pytest.fail(f"{reason}, and PUFFER_REQUIRE_TABLES=1 asks for it")
        pytest.skip(f"{reason}; set SKLEARN_PUFFER_TABLES to the folder that holds it")

    return read
