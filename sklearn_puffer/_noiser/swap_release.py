"""Where files of the swap of 0.2 look for its class, and find what keeps its promise instead."""

from __future__ import annotations

from typing import NoReturn

from sklearn_puffer._base import gone


def __getattr__(name: str) -> NoReturn:
    if name == "SwapRelease":  # an AttributeError would lose its sentence in an import
        raise ImportError(gone("noise='swap'"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
