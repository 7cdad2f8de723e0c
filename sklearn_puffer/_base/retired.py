"""What was taken out of the package, and the sentence with which it is refused."""

from __future__ import annotations

_INSTEAD = {
    "noise='optimal'": "PufferfishMicroaggregator releases rows of many columns; use it, or "
    "noise='laplace'.",
    "noise.OptimalChannel": "PufferfishMicroaggregator releases rows of many columns; use it, or "
    "noise='laplace'.",
    "output='remapped'": "use output='native', or PufferfishMicroaggregator, whose rows are in "
    "the columns' own types.",
}


class RetiredError(ValueError):
    """What was written belongs to a part of the package that there is no more."""


def gone(name: str) -> str:
    """Return the sentence that says what took the place of a name.

    >>> gone("output='remapped'").partition(":")[0]
    "output='remapped' is gone"
    """
    return f"{name} is gone: {_INSTEAD[name]}"
