"""All faults of a table in one error: whoever mends it wants to know of every column at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Faults:
    """What was refused of the columns of a table, to be said together.

    >>> faults = Faults()
    >>> faults.of(float, ["1", "x", "2", "y"])
    [1.0, 2.0]
    >>> faults.refuse()
    Traceback (most recent call last):
    ...
    ValueError: 2 faults were found in the columns of the table, one in each line:
    could not convert string to float: 'x'
    could not convert string to float: 'y'
    """

    def __init__(self) -> None:
        self._found: list[TypeError | ValueError] = []

    def of(self, check: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return what ``check`` makes of the items that it does not refuse."""
        done = []
        for item in items:
            try:
                done.append(check(item))
            except (TypeError, ValueError) as fault:
                self._found.append(fault)
        return done

    def refuse(self) -> None:
        """Raise the one fault there is, or an error with a line for each; return if there is none.

        Raises
        ------
        TypeError, ValueError
            A TypeError where all faults are.
        """
        if len(self._found) == 1:
            raise self._found[0]
        if not self._found:
            return
        kind = TypeError if all(isinstance(f, TypeError) for f in self._found) else ValueError
        lines = "\n".join(map(str, self._found))
        raise kind(
            f"{len(self._found)} faults were found in the columns of the table, one in each line:\n"
            f"{lines}"
        ) from self._found[0]
