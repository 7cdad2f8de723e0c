"""Counts of one public column given two values of a sensitive column, and their loaders.

Counts are facts about public tables of the UCI Machine Learning Repository (CC BY 4.0); the tables
themselves are not part of the package. The five contingencies are those of paper 000, Section 6
and Figures 2b and 3b, in the paper's own coding of the public column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sklearn_puffer.priors import Discrete, PriorPair


@dataclass(frozen=True)
class Contingency:
    """Counts of a public column given the two secrets s_i and s_j.

    Parameters
    ----------
    title : str
        Row name in Table 4 of paper 000.
    sensitive, public : str
        Names of the two columns.
    secrets : tuple of 2 str
        The secret pair (s_i, s_j), in the order of the paper: Eq. (11) and (12) depend on it.
    values : tuple of str, or range, of length n
        Values of the public column; the k-th has code k. Strings make a categorical column.
    counts : tuple of 2 tuples of int, each of length n
        Rows with s_i, and rows with s_j, for each value.

    Examples
    --------
    >>> from sklearn_puffer.datasets import table4_contingencies
    >>> student = table4_contingencies()["Student Performance"]
    >>> student.frame(as_counts=True)
      higher romantic  count
    0    yes       no    376
    1    yes      yes    204
    2     no       no     34
    3     no      yes     35
    >>> prior = student.pair().p
    >>> prior.counts.tolist()
    [376, 204]
    """

    title: str
    sensitive: str
    public: str
    secrets: tuple[str, str]
    values: tuple[str, ...] | range
    counts: tuple[tuple[int, ...], tuple[int, ...]]

    def pair(self) -> PriorPair:
        """Return the pair of empirical priors on the codes 0, ..., n - 1.

        Returns
        -------
        PriorPair
            The laws given s_i and given s_j, whose counts are numbers of rows.
        """
        codes = np.arange(len(self.values))
        p, q = (Discrete.from_counts(codes, row) for row in self.counts)
        return PriorPair(p, q)

    def frame(self, *, as_counts: bool = False) -> pd.DataFrame:
        """Return the rows, or the distinct rows with a column ``count``.

        Parameters
        ----------
        as_counts : bool, default=False
            Return each row that occurs once, with how often it occurs: what ``sample_weight``
            of `PufferfishNoiser.fit` takes.

        Returns
        -------
        pandas.DataFrame
            Columns ``sensitive`` and ``public``, with as many rows as the counts add up to, or
            these and ``count``.
        """
        counts = np.array(self.counts)
        secret, code = np.nonzero(counts)
        repeats = counts[secret, code]
        if not as_counts:
            secret, code = np.repeat(secret, repeats), np.repeat(code, repeats)
        columns = {
            self.sensitive: _categorical(secret, self.secrets),
            self.public: _column(code, self.values),
        }
        return pd.DataFrame(columns | {"count": repeats} if as_counts else columns)


def table4_contingencies() -> dict[str, Contingency]:
    """Return the five contingencies of Table 4 of paper 000, by the names the table gives them.

    Returns
    -------
    dict of str to Contingency
        In the order of the table.

    Examples
    --------
    >>> from sklearn_puffer.datasets import table4_contingencies
    >>> for title, contingency in table4_contingencies().items():
    ...     print(title, contingency.secrets, len(contingency.values))
    Simulation (Figure 2b) ('s_i', 's_j') 2
    Simulation (Figure 3b) ('s_i', 's_j') 4
    Student Performance ('yes', 'no') 2
    Census Income ('Never-married', 'Married-civ-spouse') 9
    Bank Marketing ('yes', 'no') 3
    """
    rows = (_SIMULATION_2B, _SIMULATION_3B, _STUDENT, _CENSUS, _BANK)
    return {row.title: row for row in rows}


def load_student(*, as_counts: bool = False) -> pd.DataFrame:
    """Load ``romantic`` (public) and ``higher`` (sensitive) of Student Performance.

    The 649 students of the Portuguese course: whether they are in a romantic relationship (no, yes
    = 0, 1), and whether they want to take higher education.

    Parameters
    ----------
    as_counts : bool, default=False
        Return the distinct rows with a column ``count``.

    Returns
    -------
    pandas.DataFrame
        Two categorical columns, whose type declares the order of the paper's codes.

    References
    ----------
    Paper 000, Section 6 and Table 4.

    Examples
    --------
    >>> from sklearn_puffer.datasets import load_student
    >>> load_student().shape
    (649, 2)
    """
    return _STUDENT.frame(as_counts=as_counts)


def load_census(*, as_counts: bool = False) -> pd.DataFrame:
    """Load ``workclass`` (public) and ``marital-status`` (sensitive) of Census Income.

    Rows with marital status Never-married or Married-civ-spouse: all training rows, and the test
    rows whose work class is known, which is the choice that gives the paper's figures. The unknown
    work class ``?`` is a value of its own.

    Parameters
    ----------
    as_counts : bool, default=False
        Return the distinct rows with a column ``count``.

    Returns
    -------
    pandas.DataFrame
        Two categorical columns, whose type declares the order of the paper's codes.

    References
    ----------
    Paper 000, Section 6 and Table 4.

    Examples
    --------
    >>> from sklearn_puffer.datasets import load_census
    >>> load_census().shape
    (37736, 2)
    """
    return _CENSUS.frame(as_counts=as_counts)


def load_bank(*, as_counts: bool = False) -> pd.DataFrame:
    """Load ``marital`` (public) and ``loan`` (sensitive) of Bank Marketing.

    The 45,211 clients: marital status (married, single, divorced = 0, 1, 2), and whether they
    have a personal loan.

    Parameters
    ----------
    as_counts : bool, default=False
        Return the distinct rows with a column ``count``.

    Returns
    -------
    pandas.DataFrame
        Two categorical columns, whose type declares the order of the paper's codes.

    References
    ----------
    Paper 000, Section 6 and Table 4.

    Examples
    --------
    >>> from sklearn_puffer.datasets import load_bank
    >>> load_bank().shape
    (45211, 2)
    """
    return _BANK.frame(as_counts=as_counts)


def load_simulation_2b(*, as_counts: bool = False) -> pd.DataFrame:
    """Load the two-point simulation of paper 000, Figure 2b, as the smallest exact table.

    P(X | s_i) = (.52, .48) and P(X | s_j) = (.5, .5).

    Parameters
    ----------
    as_counts : bool, default=False
        Return the distinct rows with a column ``count``.

    Returns
    -------
    pandas.DataFrame
        Categorical ``S`` and integer ``X``, 50 rows for each secret.

    Examples
    --------
    >>> from sklearn_puffer.datasets import load_simulation_2b
    >>> load_simulation_2b(as_counts=True)["count"].tolist()
    [26, 24, 25, 25]
    """
    return _SIMULATION_2B.frame(as_counts=as_counts)


def load_simulation_3b(*, as_counts: bool = False) -> pd.DataFrame:
    """Load the worst case of the W_1 mechanism of paper 000, Figure 3b and Table 2.

    P(X | s_i) = (.50001, 0, .00001, .49998) and P(X | s_j) = (.49996, .00001, 0, .50003).

    Parameters
    ----------
    as_counts : bool, default=False
        Return the distinct rows with a column ``count``.

    Returns
    -------
    pandas.DataFrame
        Categorical ``S`` and integer ``X``, 100,000 rows for each secret.

    Examples
    --------
    >>> from sklearn_puffer.datasets import load_simulation_3b
    >>> load_simulation_3b(as_counts=True)["count"].tolist()
    [50001, 1, 49998, 49996, 1, 50003]
    """
    return _SIMULATION_3B.frame(as_counts=as_counts)


def _column(codes: NDArray[np.intp], values: tuple[str, ...] | range) -> pd.Series[Any]:
    return pd.Series(codes) if isinstance(values, range) else _categorical(codes, values)


def _categorical(codes: NDArray[np.intp], values: tuple[str, ...]) -> pd.Series[Any]:
    return pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(values), ordered=True))


_SIMULATION_2B = Contingency(
    title="Simulation (Figure 2b)",
    sensitive="S",
    public="X",
    secrets=("s_i", "s_j"),
    values=range(2),
    counts=((26, 24), (25, 25)),
)

_SIMULATION_3B = Contingency(
    title="Simulation (Figure 3b)",
    sensitive="S",
    public="X",
    secrets=("s_i", "s_j"),
    values=range(4),
    counts=((50_001, 0, 1, 49_998), (49_996, 1, 0, 50_003)),
)

_STUDENT = Contingency(
    title="Student Performance",
    sensitive="higher",
    public="romantic",
    secrets=("yes", "no"),
    values=("no", "yes"),
    counts=((376, 204), (34, 35)),
)

_CENSUS = Contingency(
    title="Census Income",
    sensitive="marital-status",
    public="workclass",
    secrets=("Never-married", "Married-civ-spouse"),
    values=(
        "State-gov",
        "Self-emp-not-inc",
        "Private",
        "Federal-gov",
        "Local-gov",
        "?",
        "Self-emp-inc",
        "Without-pay",
        "Never-worked",
    ),
    counts=(
        (636, 613, 12_243, 368, 798, 766, 211, 6, 7),
        (890, 2_554, 14_473, 721, 1_536, 636, 1_264, 13, 1),
    ),
)

_BANK = Contingency(
    title="Bank Marketing",
    sensitive="loan",
    public="marital",
    secrets=("yes", "no"),
    values=("married", "single", "divorced"),
    counts=((4_660, 1_663, 921), (22_554, 11_127, 4_286)),
)
