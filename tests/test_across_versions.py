"""What is saved in one environment is read in another, and releases the same rows there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).with_name("release_elsewhere.py")

pytestmark = pytest.mark.slow


def _others():
    """Return the interpreters that `PUFFER_PYTHONS` names, as PATH names folders."""
    named = os.environ.get("PUFFER_PYTHONS", "")
    return [each for each in named.split(os.pathsep) if each]


def _run(python, what, *folders, **variables):
    command = [python, str(SCRIPT), what, *map(str, folders)]
    there = {"cwd": folders[0], "env": os.environ | variables}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, **there)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_what_each_environment_saves_is_released_alike_by_itself_and_every_other(tmp_path):
    pythons = [sys.executable, *_others()]
    folders = [tmp_path / str(number) for number in range(len(pythons))]
    for folder in folders:
        folder.mkdir()
    told = [_run(each, "save", folder) for each, folder in zip(pythons, folders, strict=True)]
    assert len({tuple(each["versions"]) for each in told}) == len(pythons)
    saved = [digests for each in told for digests in each["digests"]]
    assert len(saved) == len(folders)
    for python in pythons:  # one process reads what all of them have saved
        assert _run(python, "load", *folders)["digests"] == saved
    if len(pythons) == 1:
        pytest.skip("read here alone: PUFFER_PYTHONS names no interpreter of another environment")


def _lesser_processors():
    """Yield the variables that hide all newer instructions from numpy and BLAS, most, and half."""
    features = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    for first in sorted({0, 1, len(features) // 2} & set(range(len(features)))):
        core = "Haswell" if first else "Prescott"  # a processor of before AVX has no AVX in BLAS
        yield {"NPY_DISABLE_CPU_FEATURES": " ".join(features[first:]), "OPENBLAS_CORETYPE": core}


def test_what_is_saved_is_released_and_what_is_fitted_is_the_same_on_lesser_processors(tmp_path):
    # that another process reads it here is tested above
    saved, here, fitted = _run(sys.executable, "save,load,fit", tmp_path)["digests"]
    assert here == saved
    assert len(set(fitted.values())) == len(fitted)
    for lesser in _lesser_processors():
        told = _run(sys.executable, "load,fit", tmp_path, **lesser)["digests"]
        assert told == [here, fitted]
