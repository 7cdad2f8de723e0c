"""No two releases share noise, however a noiser is copied, saved, forked or scheduled."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from sklearn_puffer import PufferfishNoiser

N_ROWS = 300


def table() -> pd.DataFrame:
    """Return a table whose public column needs noise."""
    loan = np.arange(N_ROWS) % 2
    return pd.DataFrame({"loan": loan, "age": 20 + 10 * loan + np.arange(N_ROWS) % 3})


@pytest.fixture
def noiser() -> PufferfishNoiser:
    return PufferfishNoiser(0.5, sensitive="loan", output="noisy").fit(table())


def noise_of(noiser: PufferfishNoiser) -> np.ndarray:
    """Return the noise of one release."""
    return (noiser.transform(table())["age"] - table()["age"]).to_numpy()


def assert_unshared(*noises: np.ndarray) -> None:
    """Each value is drawn from 2^40 or so, so that two equal ones are no accident."""
    everything = np.concatenate(noises)
    assert len(np.unique(everything)) == len(everything)


def test_two_calls_share_no_noise(noiser):
    assert_unshared(noise_of(noiser), noise_of(noiser))


def test_a_pickle_shares_no_noise_with_its_original(noiser):
    saved = pickle.dumps(noiser)
    assert_unshared(noise_of(noiser), noise_of(pickle.loads(saved)), noise_of(pickle.loads(saved)))


def test_a_copy_and_a_clone_share_no_noise(noiser):
    twin = clone(noiser).fit(table())
    assert_unshared(noise_of(noiser), noise_of(copy.deepcopy(noiser)), noise_of(twin))


def _send_noise(noiser, connection):
    connection.send(noise_of(noiser))
    connection.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_forked_processes_share_no_noise(noiser):
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this platform cannot fork")
    first = noise_of(noiser)  # whatever could be kept in memory is there before the fork
    context = multiprocessing.get_context("fork")
    children = []
    for _ in range(2):
        here, there = context.Pipe(duplex=False)
        child = context.Process(target=_send_noise, args=(noiser, there))
        child.start()
        children.append((child, here.recv()))
        child.join()
    assert_unshared(first, *(noise for _, noise in children), noise_of(noiser))


@pytest.mark.slow
def test_loky_workers_share_no_noise(noiser):
    noises = Parallel(n_jobs=2)(delayed(noise_of)(noiser) for _ in range(4))
    assert_unshared(*noises)


def test_threads_share_no_noise(noiser):
    noises = Parallel(n_jobs=4, prefer="threads")(delayed(noise_of)(noiser) for _ in range(8))
    assert_unshared(*noises)


def test_two_branches_of_a_column_transformer_share_no_noise():
    noiser = PufferfishNoiser(0.5, sensitive="loan", output="noisy")
    branches = ColumnTransformer(
        [("one", noiser, ["loan", "age"]), ("two", noiser, ["loan", "age"])]
    )
    released = branches.fit_transform(table())
    assert_unshared(*(released - table()[["age"]].to_numpy()).T)


def test_columns_share_no_noise():
    wide = table().assign(copy=lambda frame: frame["age"])
    released = PufferfishNoiser(0.5, sensitive="loan", output="noisy").fit_transform(wide)
    assert_unshared(*(released - wide[["age", "copy"]]).to_numpy().T)


def test_a_memory_pipeline_hands_back_the_same_release_for_the_same_input(tmp_path):
    pipeline = Pipeline(
        [
            ("noiser", PufferfishNoiser(0.5, sensitive="loan", output="noisy")),
            ("last", "passthrough"),
        ],
        memory=str(tmp_path),
    )
    first, second = pipeline.fit_transform(table()), pipeline.fit_transform(table())
    pd.testing.assert_frame_equal(first, second)  # a cached release: the documentation says so
    assert "memory=" in PufferfishNoiser.__doc__


def test_nothing_that_draws_is_stored(noiser):
    noise_of(noiser)
    state = pickle.dumps(noiser)
    for word in (b"Generator", b"BitGenerator", b"RandomState", b"Entropy"):
        assert word not in state


def test_a_generator_is_refused():
    noiser = PufferfishNoiser(sensitive="loan", random_state=np.random.default_rng(0))
    with pytest.raises(TypeError, match="random_state must be None or an integer"):
        noiser.fit(table())
