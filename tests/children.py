"""Processes of their own, which tests kill."""

import multiprocessing
import signal

import pytest


def processes():
    """Return what starts them, or skip where none can be killed."""
    if not hasattr(signal, "SIGKILL"):
        pytest.skip("this system kills no processes by signals")
    context = multiprocessing.get_context("forkserver")
    # what children need, and would import one by one: the package itself imports when it is used
    context.set_forkserver_preload(["sklearn_puffer._noiser", "pandas", "pytest"])
    return context
