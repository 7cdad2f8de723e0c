"""Engines of a cluster, each the real one: Dask on processes of its own, Spark on a local one.

All their tests share a worker, one Spark and one Dask: these take seconds to start.

Where one is absent its tests skip and say so; with ``PUFFER_REQUIRE_ENGINES=1`` they fail.
"""

import contextlib
import functools
import gc
import os
import shutil
import warnings

import pytest

MARKS = [
    pytest.mark.slow,
    # what engines leave open at the end, and what Spark says of the newest pandas
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def is_on_clusters(nodeid):
    """Return whether a test goes to the worker of clusters, by its name: all that it sees."""
    return any(part in nodeid for part in ("test_cluster_", "test_swap_engines", "on_a_cluster"))


def on_clusters(test):
    """Mark one test of a file that has others."""
    return functools.reduce(lambda marked, mark: mark(marked), MARKS, test)


RUNNING = contextlib.ExitStack()


def close():
    """End the clusters that run: idle ones take a tenth of a core."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last test of all may have nothing to do with it
        RUNNING.close()
        gc.collect()


def needs(module, program=None):
    """Return a module, or skip where it is absent; in CI that is a failure."""
    try:
        if program is not None and shutil.which(program) is None:
            raise ImportError(f"no {program}")
        return __import__(module, fromlist=["*"])
    except ImportError as error:
        if os.environ.get("PUFFER_REQUIRE_ENGINES") == "1":
            pytest.fail(f"{module} is required here: {error}")
        pytest.skip(f"{module} is absent: {error}")


@pytest.fixture(scope="session")
def dask():
    frames, distributed = needs("dask.dataframe"), needs("distributed")
    needs("dask").config.set({"distributed.worker.profile.enabled": False})  # a hundred a second
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    cluster = distributed.LocalCluster(**settings, dashboard_address="127.0.0.1:0")
    RUNNING.callback(cluster.close)
    RUNNING.callback(distributed.Client(cluster).close)
    yield lambda frame: frames.from_pandas(frame, npartitions=3)
    close()


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory):
    sql = needs("pyspark.sql", "java")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    builder = sql.SparkSession.builder.master("local[2,3]")  # a task is tried three times
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    RUNNING.callback(session.stop)
    yield session
    close()


@pytest.fixture(scope="module")
def spark(spark_session, tmp_path_factory):
    yield lambda frame: _by_file(spark_session, frame, tmp_path_factory.mktemp("rows"))
    gc.collect()  # what is left open is found here, and by no other test


def _by_file(session, frame, folder):
    own = _in_polars(frame)
    for part in range(3):
        own[part::3].write_parquet(folder / f"{part}.parquet")
    return session.read.parquet(str(folder))


@pytest.fixture(scope="module")
def ibis():
    module = needs("ibis")

    def in_ibis(frame):
        return module.memtable(_in_polars(frame).to_arrow())

    return in_ibis


def read_parquet(engine, path):
    """Return the rows of a file as the users of an engine read it."""
    if engine == "dask":
        return needs("dask.dataframe").read_parquet(path, split_row_groups=True)
    if engine == "spark":
        return needs("pyspark.sql").SparkSession.getActiveSession().read.parquet(path)
    return needs("ibis").read_parquet(path)


def _in_polars(frame):
    from engine_cases import in_polars  # not before the tests that need it: it brings the package

    return in_polars(frame)
