"""What several commands do: load what was fitted, and read how CSV files are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import joblib

from sklearn_puffer import PufferfishRelease, UncertifiedError
from sklearn_puffer._noiser import ReleaseTransformer
from sklearn_puffer._tables import Layout
from sklearn_puffer.cli.settings import merged


def fitted(path: str) -> ReleaseTransformer:
    """Return what was fitted, from a form or a saved noiser.

    Raises
    ------
    ValueError, TypeError, OSError
        If that is neither.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        return PufferfishRelease.from_json(Path(path))
    if suffix not in (".joblib", ".pkl", ".pickle"):
        raise ValueError(
            f"FORM is {path!r}, and must be a form that ends in .json, or a saved noiser that ends "
            "in .joblib; `puffer fit` writes both."
        )
    found = joblib.load(path)
    if not isinstance(found, ReleaseTransformer):
        raise TypeError(f"{path!r} holds a {type(found).__name__}, and no fitted noiser.")
    return found


def check_holds(noiser: ReleaseTransformer) -> None:
    """Refuse a noiser whose certificate does not hold, whatever it is told to do then."""
    certificate = noiser.certificate_
    if not certificate.holds:
        raise UncertifiedError(
            f"the certificate does not hold, so nothing is released: the proven loss "
            f"{certificate.loss:.6g} exceeds the budget {certificate.notion.budget_name()}; "
            f"{certificate.remedy or 'use another strategy.'}"
        )


def layout_of(section: Mapping[str, Any], asked: Any) -> Layout:
    """Return how CSV files are written, by the settings and the arguments.

    Raises
    ------
    TypeError, ValueError
        If a setting is not what it should be.
    """
    own = merged(section, asked, ["separator"])
    missing = own.get("missing_values", [""])
    if not isinstance(missing, list) or not all(isinstance(each, str) for each in missing):
        raise TypeError(f"missing_values must be a list of strings, got {missing!r}.")
    if asked.missing_values:
        missing = ["", *asked.missing_values]
    typed = dict(map(_told_type, asked.types or []))
    types = Layout(types=own.get("types", {})).types
    return Layout(own.get("separator"), tuple(missing), {**types, **typed})


def _told_type(text: str) -> tuple[str, str]:
    name, sign, kind = text.rpartition("=")
    if not sign:
        raise ValueError(f"--type {text!r} is not COLUMN=TYPE; write it as zip=string.")
    return name, kind
