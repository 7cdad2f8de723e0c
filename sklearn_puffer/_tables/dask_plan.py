"""Parts of a Dask DataFrame that pass through a function of pandas frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pandas as pd

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


def _no_index(X: Any) -> Any:
    """Return an index without rows of the type that X has."""
    index = X.index
    return pd.Index([], dtype=index.dtype, name=index.name)


def _part(frame: pd.DataFrame, release: Release, dtypes: dict[str, Any]) -> pd.DataFrame:
    """Release a part, which keeps its index; called in a worker."""
    released: pd.DataFrame = release(frame)
    return released.astype(dtypes)
