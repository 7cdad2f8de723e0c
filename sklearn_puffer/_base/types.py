"""Types of arrays, by what their entries are, and of warnings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Integers of a type of their own, such as short codes, or Python's where 64 bits do not hold.
Integers = NDArray[Any]


class PufferfishWarning(UserWarning):
    """Warns of what a fit or a release does: the base of all warnings of this package.

    Of its own kind, so that it can be filtered. Clones of a noiser, as a search makes them, warn of
    their fits once for all.

    Examples
    --------
    >>> import warnings
    >>> from sklearn_puffer import PufferfishWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", PufferfishWarning)
    ...     warnings.warn("told to nobody", PufferfishWarning)
    """
