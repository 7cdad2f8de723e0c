"""Types of arrays, by what their entries are."""

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
