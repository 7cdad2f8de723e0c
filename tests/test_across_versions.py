"""What is saved in one environment is read in another, and releases the same rows there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("release_elsewhere.py")

pytestmark = pytest.mark.slow


def _others():
    """Return the interpreters that `PUFFER_PYTHONS` names, as PATH names folders."""
    named = os.environ.get("PUFFER_PYTHONS", "")
    return [each for each in named.split(os.pathsep) if each]


def _run(python, what, folder):
    command = [python, str(SCRIPT), what, str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_what_is_saved_is_loaded_and_released_alike_here(tmp_path):
    saved = _run(sys.executable, "save", tmp_path)
    assert _run(sys.executable, "load", tmp_path) == saved


def test_what_one_environment_saves_every_other_releases_alike(tmp_path):
    others = _others()
    if not others:
        pytest.skip("PUFFER_PYTHONS names no interpreter of another environment")
    saved = {}
    for python in [sys.executable, *others]:
        folder = tmp_path / str(len(saved))
        folder.mkdir()
        saved[python] = folder, _run(python, "save", folder)
    assert len({tuple(told["versions"]) for _, told in saved.values()}) == 1 + len(others)
    for writer, reader in permutations(saved, 2):
        folder, told = saved[writer]
        assert _run(reader, "load", folder)["digests"] == told["digests"]
