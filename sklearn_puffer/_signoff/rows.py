"""The rows that a plan or an audit looks at."""

from __future__ import annotations

from typing import Any

from sklearn_puffer._tables import as_pandas, is_frame, is_lazy, known


def in_memory(table: Any, who: str) -> Any:
    """Return the table as a pandas DataFrame.

    Parameters
    ----------
    table : DataFrame
    who : str
        Who looks at it, such as "a plan".

    Raises
    ------
    TypeError
        If it is lazy, or no DataFrame.
    """
    if is_lazy(table):
        raise TypeError(
            f"table is lazy ({type(table).__name__}), and {who} looks at rows many times; collect "
            "it, or some thousand rows of it, into memory first."
        )
    table = known(table, "table")
    if not is_frame(table):
        raise TypeError(
            f"table must be a DataFrame, got {type(table).__name__}; give its columns names, such "
            "as pandas.DataFrame(table, columns=[...])."
        )
    return as_pandas(table)
