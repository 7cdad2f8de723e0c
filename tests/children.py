"""Processes of their own, which tests kill or interrupt."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def processes():
    """Return what starts them, or skip where none can be killed."""
    if not hasattr(signal, "SIGKILL"):
        pytest.skip("this system kills no processes by signals")
    context = multiprocessing.get_context("forkserver")
    # what children need, and would import one by one: the package itself imports when it is used
    context.set_forkserver_preload(["sklearn_puffer._noiser", "pandas", "pytest"])
    return context


def interrupted(code, *args, after):
    """Return what a script prints that gets Ctrl-C so many seconds after its first line."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    ) as script:
        first = script.stdout.readline()
        time.sleep(after)
        script.send_signal(signal.SIGINT)
        rest, errors = script.communicate(timeout=60.0)
    assert script.returncode == 0, errors
    return first + rest
