"""The warnings of a noiser's `fit`, and its errors about too many cells or rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sklearn_puffer._certificates import MODEST, ColumnNoise
from sklearn_puffer._tables import Name
from sklearn_puffer._words import brief, briefly, listed

_LONG, _FLOAT = 10**7, 10**300  # numbers written in full; numbers within the range of floats
_MANY_ROWS = 20_000  # with fewer, boosting by default is overconfident


def _and_more(count: int, what: str) -> str:
    return f" ({what} {count} more)" if count else ""


def too_fine_sentence(sizes: Sequence[tuple[Name, int]], n_rows: int) -> str:
    """Return the warning about numeric columns whose values hardly repeat."""
    name, most = max(sizes, key=lambda size: size[1])
    return (
        f"column {brief(name)} has {most} distinct values in {n_rows} rows"
        f"{_and_more(len(sizes) - 1, 'and so have')}: an empirical prior is too fine for it; "
        f"bin it, as n_bins={{{brief(name)}: 5}} does."
    )


def single_rows_sentence(names: Sequence[Name], share: float, n_rows: int) -> str:
    """Return the warning about a counted distribution that is the list of rows."""
    boosting = "HistGradientBoostingClassifier()" if n_rows >= _MANY_ROWS else MODEST
    return (
        f"{share:.0%} of the {n_rows} rows of {len(names)} columns occur once given their secret: "
        f"the counted prior is this table; release fewer columns, or take prior={boosting}."
    )


def collapsed_sentence(
    columns: Sequence[tuple[Name, int, Sequence[float]]],
) -> str:
    """Return the warning about columns that have more values than bins, and fall into fewer."""
    name, n_bins, medians = columns[0]
    count = f"{len(medians)} bins" if len(medians) > 1 else "one bin"
    constant = f" and is released as the constant {medians[0]:g}" if len(medians) == 1 else ""
    return (
        f"column {brief(name)} falls into {count} instead of n_bins={n_bins}{constant}, as many "
        f"rows share a value{_and_more(len(columns) - 1, 'and so do')}; ask for more bins, or for "
        "none."
    )


def many_secrets_sentence(sizes: Sequence[tuple[Name, int]], n_rows: int) -> str:
    """Return the warning about sensitive columns whose values hardly repeat."""
    name, most = max(sizes, key=lambda size: size[1])
    return (
        f"sensitive column {brief(name)} has {most} values in {n_rows} rows"
        f"{_and_more(len(sizes) - 1, 'and so have')}, so that the priors are little more than "
        "single rows; group its values first."
    )


def quiet_sentence(names: str, way: str, n_rows: int, fewest_rows: int) -> str:
    """Return which columns are released without noise, and by how many rows that was found."""
    return (
        f"Column(s) {names} need no noise under this prior and are released {way}; see if "
        f"{n_rows} rows (rarest secret: {fewest_rows}) suffice."
    )


def theorem_sentence(*, counted: bool) -> str:
    """Return the warning where strategy="exact" falls back on a theorem."""
    way = "prior='empirical' with n_bins= is exact"
    if counted:
        way = "fewer secrets or values in two columns are exact"
    return (
        "strategy='exact' uses the best theorem, which may ask for more noise than is needed; "
        f"{way} under Laplace noise without delta and alpha."
    )


def wide_sentence(names: Sequence[Name], cells: int, worst: ColumnNoise, n_bins: int) -> str:
    """Return the warning about a group of columns too wide for the exact loss.

    ``n_bins`` is the number of bins that would be exact, or 0.
    """
    way = f"take n_bins={n_bins}" if n_bins else "release fewer columns"
    amount = f"{worst.relative:.3g} standard deviations of noise in"
    if worst.unordered:
        amount = f"{-math.expm1(-worst.theta):.0%} of the values drawn anew in"
    size = cells if cells < _LONG else f"{float(cells):.0e}" if cells < _FLOAT else "over 1e300"
    return (
        f"columns {briefly(names)} span {size} cells jointly, beyond exact losses, and get "
        f"{amount} {brief(worst.name)}; {way}."
    )


def too_large_sentence(names: Sequence[Name], points: int, limit: int, n_bins: int) -> str:
    """Return the error about a group of columns too wide for any joint coupling.

    ``n_bins`` is the number of bins that would be exact, or 0.
    """
    bins = f"n_bins={n_bins}" if n_bins else "fewer bins (n_bins)"
    return (
        f"columns {listed(names)} have up to {points} distinct joint rows to couple, more than "
        f"the {limit} that fit in memory; use {bins}, column groups (dependence=[[...], [...]]) or "
        'dependence="independent".'
    )


def too_many_rows_sentence(names: Sequence[Name], what: str) -> str:
    """Return the error about a lazy table whose distinct rows are not fetched."""
    return (
        f"columns {listed(list(names), 10)} have more different rows than are fetched from an "
        f"engine, and {what} fitted on those; fit a sample of the rows, round, bin or merge "
        "values there, or leave columns out of public=."
    )


def few_rows_sentence(level: float, fewest_rows: int) -> str:
    """Return the warning about secrets with few rows under confidence sets."""
    return (
        f"the rarest secret has {fewest_rows} row(s), of which the {level:.0%} confidence set says "
        "next to nothing, so that the noise is large; group rare secrets."
    )


def no_set_sentence(reason: str) -> str:
    """Return the warning where the loss over the confidence set is not computable."""
    return (
        f"the loss over the confidence set is not computable here ({reason}), so that the noise is "
        'that of strategy="sensitivity"; use fewer columns or bins.'
    )
