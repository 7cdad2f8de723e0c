"""The arguments of a noisy descent, checked: declared bounds, correlations, and secret records."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from sklearn_puffer._base import as_array, check_choice, check_positive, plain, refuse_masked

_LEAST, _MOST = 1e-50, 1e50  # of declared bounds: their squares and products stay finite


def check_bound(value: Any, name: str) -> float:
    """Return a declared bound, whose squares and products stay finite."""
    number = check_positive(value, name, "it must be declared without looking at the records")
    if not _LEAST <= number <= _MOST:
        raise ValueError(
            f"{name} must lie between {_LEAST:g} and {_MOST:g}, got {value!r}; rescale the data."
        )
    return number


def check_bound_or(value: Any, name: str, default: float) -> float:
    """Return a declared bound, or a default where there is none."""
    return default if value is None else check_bound(value, name)


def check_penalty(value: Any) -> float:
    """Return the weight of the l2 penalty."""
    if isinstance(value, Real) and not isinstance(value, bool) and value == 0:
        return 0.0
    return check_bound(value, "l2")


def check_flag(value: Any, name: str) -> bool:
    """Return what is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_correlation(value: Any, n_records: int) -> Any:
    """Return the correlation as a float or as an array of floats."""
    if isinstance(value, Real) and not isinstance(value, bool):
        least = -1.0 / max(n_records - 1, 1)
        if not least - 1e-9 <= float(value) <= 1.0:
            raise ValueError(
                f"correlation must lie between {least:.6g} and 1 for {n_records} records that are "
                f"all alike, got {value!r}."
            )
        return float(value)
    refuse_masked(value, "correlation")
    try:
        if isinstance(value, bool):
            raise TypeError
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            "correlation must be a number, an array by distance in the order, or a matrix of "
            f"shape {(n_records, n_records)}, got {value!r}."
        ) from None


def off_diagonal(correlation: Any) -> Any:
    """Return the correlations of different records."""
    if np.ndim(correlation) == 2:
        return correlation - np.diag(np.diag(correlation))
    return correlation[1:] if np.ndim(correlation) == 1 else correlation


def check_records(secrets: Any, n_records: int) -> tuple[int, ...] | None:
    """Return the positions of the secret records, or None for all."""
    if isinstance(secrets, str):
        check_choice(secrets, "secrets", ["all"])
        return None
    positions = as_array(secrets, "secrets")
    if positions.ndim != 1 or positions.size == 0 or positions.dtype.kind not in "iu":
        raise TypeError(
            f'secrets must be "all" or a list of positions of records, got {secrets!r}.'
        )
    if positions.min() < 0 or positions.max() >= n_records:
        raise ValueError(
            f"secrets must hold positions from 0 to {n_records - 1}, got "
            f"{plain(positions.min())} to {plain(positions.max())}."
        )
    return tuple(np.unique(positions).tolist())


def which_secrets(records: tuple[int, ...] | None) -> str:
    """Return in a sentence what is protected."""
    if records is None:
        return "any two values of any record are protected against each other."
    return f"any two values of each of {len(records)} chosen records are protected."
