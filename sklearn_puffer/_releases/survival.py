"""How much of the data survives a release, as the certificate and `utility_` tell it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sklearn_puffer._base import PufferfishWarning, Section, shown
from sklearn_puffer._tables import Name, named_frame


class UtilityWarning(PufferfishWarning):
    """Warns that a release tells less about a column than a constant in its place would.

    Of its own kind, so that it can be filtered apart from warnings about the promise.

    Examples
    --------
    A tenth of the budget takes more noise than the column has to tell; the median in its place
    would change it less:

    >>> import warnings
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> for epsilon in (1.0, 0.1):
    ...     with warnings.catch_warnings(record=True) as caught:
    ...         warnings.simplefilter("always")
    ...         noiser = PufferfishNoiser(epsilon, sensitive="loan").fit(table)
    ...     change, constant = noiser.utility_.loc["cars", ["change", "constant"]]
    ...     print(f"{change:.1f} {constant:.1f}", [each.category.__name__ for each in caught])
    0.9 2.6 []
    5.0 2.6 ['UtilityWarning']
    """


@dataclass(frozen=True)
class ColumnUtility:
    """How much of one public column survives a release: expectations over rows and noise.

    All of them are computed from the laws, for rows as those of `fit`. A change is the distance
    between the released value and the original one as it stood in the table, before binning; of
    categories with an order it is that of their codes, and of others 1. Values left missing do not
    count in it.

    Attributes
    ----------
    name : str or int
    change, change_sd : float
        The mean change, in the column's unit and in its standard deviations; infinite under Cauchy
        noise, unless a type or a list of codes cuts it off.
    median_change : float
        The change that one half of the released values do not exceed.
    unchanged : float
        The chance that the released value is the original one; a missing one stays missing.
    constant, constant_sd, constant_median, constant_unchanged : float
        The same for the best constant, the column's median, or its most frequent category.
    """

    name: Name
    change: float
    change_sd: float
    median_change: float
    unchanged: float
    constant: float
    constant_sd: float
    constant_median: float
    constant_unchanged: float

    def changed(self, other: ColumnUtility) -> ColumnUtility:
        """Return what survives where the values change as in another release of them."""
        return replace(
            self,
            change=other.change,
            change_sd=other.change_sd,
            median_change=other.median_change,
            unchanged=other.unchanged,
        )

    @property
    def worse(self) -> bool:
        """Whether a constant would be nearer on average (where that is infinite, by medians)."""
        if math.isinf(self.change):
            return self.median_change > self.constant_median
        return self.change > self.constant * (1.0 + 1e-9)


def utility_frame(utility: Sequence[ColumnUtility]) -> Any:
    """Return how much survives as a DataFrame, a row for each column."""
    records = {column.name: asdict(column) for column in utility}
    return named_frame(records, [n for n in ColumnUtility.__dataclass_fields__ if n != "name"])


def survival(utility: Sequence[ColumnUtility]) -> str:
    """Return in a sentence in how many columns a constant would change values less."""
    worse = [shown(column.name) for column in utility if column.worse]
    if not worse:
        return "In no column do values change more than if a constant stood in their place."
    return (
        f"In {len(worse)} of {len(utility)} columns values change more than if a constant stood in "
        f"their place: {', '.join(worse)}."
    )


def utility_section(utility: Sequence[ColumnUtility]) -> Section:
    """Return the table of all columns."""
    note = (
        "change is the expected distance between a released and an original value, in the column's "
        "unit and (sd) in its standard deviations; constant is that of the best constant, the "
        "median (where values have no order a change counts 1, and it is the most frequent one); "
        "unchanged is the share of rows whose value comes out as it was, missing ones that stay "
        "missing included"
    )
    head = ["column", "change", "constant", "change sd", "constant sd", "unchanged"]
    cells = [
        [
            shown(column.name),
            *(f"{value:.4g}" for value in (column.change, column.constant)),
            *(f"{value:.3f}" for value in (column.change_sd, column.constant_sd)),
            f"{column.unchanged:.1%}",
        ]
        for column in utility
    ]
    return Section("How much of the data survives", note, [head, *cells])
