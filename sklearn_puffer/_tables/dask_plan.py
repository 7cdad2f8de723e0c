"""Parts of a Dask DataFrame that pass through a function of pandas frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from sklearn_puffer._base import quoted
from sklearn_puffer._tables.values import check_objects

Release = Callable[[Any], Any]


def on_dask(X: Any, names: Sequence[str], release: Release) -> Any:
    """Return the Dask DataFrame of what ``release`` makes of some columns; nothing is computed."""
    own = X[list(names)]
    # the types are known without a part: an index has no place in them but its name
    empty = pd.DataFrame({name: pd.Series(dtype=own.dtypes[name]) for name in names})
    like = release(empty)
    like.index = _no_index(X)
    part = partial(_part, release=release, dtypes=dict(like.dtypes))
    return own.map_partitions(part, meta=like, align_dataframes=False)


def checked_labels(column: pd.Series[Any], name: str) -> pd.Series[Any]:
    """Return a part of a column of categories as strings, or of objects; called in a worker."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        check_objects(column, name)
        return column
    if fault := refused_category(column.dtype, name):
        raise fault
    return column.astype("string")


def refused_category(dtype: Any, name: str) -> TypeError | None:
    """Return the error about a category that is no string."""
    strange = [level for level in dtype.categories if not isinstance(level, str)]
    if not strange:
        return None
    return TypeError(
        f"column {name!r} has the category {quoted(strange[0])}, which is no string; convert it to "
        "numbers, or to strings with astype(str)."
    )


def _no_index(X: Any) -> Any:
    """Return an index without rows of the type that X has."""
    index = X.index
    return pd.Index([], dtype=index.dtype, name=index.name)


def _part(frame: pd.DataFrame, release: Release, dtypes: dict[str, Any]) -> pd.DataFrame:
    """Release a part, which keeps its index; called in a worker."""
    released: pd.DataFrame = release(frame)
    # no integer of numpy is missing: Dask has floats in such a part, and so has its release
    whole = [name for name, dtype in dtypes.items() if isinstance(dtype, np.dtype)]
    gaps = {name for name in whole if dtypes[name].kind in "iu" and released[name].isna().any()}
    return released.astype({name: dtypes[name] for name in dtypes if name not in gaps})
