"""Synthetic people to try a release on, and the counts behind the figures of the four papers.

Use this module for sample data (`make_people`: with ids, dates and missing values) or to reproduce
the papers' figures. The numbers of the papers are in a file of the package,
``_paper_counts.json``; no function needs another one.

The counts are those of public tables of the UCI Machine Learning Repository (CC BY 4.0); the tables
themselves are not part of the package. The five contingencies are those of paper 000, Section 6
and Figures 2b and 3b, in the paper's own coding of the public column. The Gaussian and mixture
priors are those behind Figures 3 and 4 of paper 003, which plots its fits without parameters; the
mixtures are fitted by scikit-learn, with three components.

Paper 001 gives neither the codes of columns, nor which rows of Adult and which course of Student it
takes, so there are several readings of its classes of users. The first of each table follows paper
000, whose Table 4 is reproduced by codes in the order of first appearance, and by the Portuguese
course.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sklearn_puffer._base import check_count
from sklearn_puffer.priors import Discrete, GaussianMixture, PriorPair

__all__ = [
    "Contingency",
    "fitted_gaussians",
    "fitted_mixtures",
    "load_bank",
    "load_census",
    "load_simulation_2b",
    "load_simulation_3b",
    "load_student",
    "make_people",
    "published_table1",
    "published_table4",
    "removed_classes",
    "replaced_classes",
    "table1_priors",
    "table4_contingencies",
]


def make_people(n: int = 3000, random_state: int | None = None) -> pd.DataFrame:
    """Draw a table of synthetic people, with a secret, a label, ids, dates and missing values.

    Nobody of the table exists, and no figure is estimated from real people. About a third of them
    are ill, which other columns reveal; ``attrs["note"]`` says that they are invented.

    Parameters
    ----------
    n : int, default=3000
        The number of rows.
    random_state : int or None, default=None
        An integer draws the same people each time.

    Returns
    -------
    pandas.DataFrame of shape (n, 11)
        ``client`` and ``mail``, which identify a person; ``since``, a date; ``age``, ``region``,
        ``visits``, ``weight`` in kilograms, ``pulse`` (missing for a tenth), ``smoker`` (missing
        for a twentieth); the secret ``ill``; the label ``renewed``, which depends on visits and
        age.

    Raises
    ------
    TypeError, ValueError
        If ``n`` is no positive integer.

    Examples
    --------
    >>> from sklearn_puffer.datasets import make_people
    >>> people = make_people(5, random_state=0)
    >>> people.attrs["note"]
    'Invented people: nobody of this table exists.'
    >>> people[["client", "age", "region", "visits", "ill"]].shape
    (5, 5)
    """
    n = check_count(n, "n")
    rng = np.random.default_rng(random_state)
    ill = rng.random(n) < 1 / 3
    age = np.clip(rng.normal(44, 14, n) + 9 * ill, 18, 95).astype(int)
    smoker = rng.random(n) < 0.2 + 0.2 * ill
    visits = rng.poisson(2 + 2.5 * ill + smoker)
    client = rng.choice(9 * n, n, replace=False) + 100_000
    since = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3650, n), unit="D")
    people = pd.DataFrame(
        {
            "client": client,
            "mail": [f"person{number}@example.org" for number in client],
            "since": since,
            "age": age,
            "region": pd.Categorical(rng.choice(["north", "south", "east", "west"], n)),
            "visits": visits,
            "weight": (70 + 0.15 * (age - 44) + 6 * ill + rng.normal(0, 12, n)).round(1),
            "pulse": np.where(rng.random(n) < 0.1, np.nan, 68 + 8 * ill + rng.normal(0, 9, n)),
            "smoker": pd.array(smoker, dtype="boolean"),
            "ill": ill,
            "renewed": rng.random(n) < 1 / (1 + np.exp(1.5 - 0.4 * visits - 0.02 * (age - 44))),
        }
    )
    people["pulse"] = people["pulse"].round()
    people.loc[rng.random(n) < 0.05, "smoker"] = pd.NA
    people.attrs["note"] = "Invented people: nobody of this table exists."
    return people


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
            The distributions given s_i and given s_j, whose counts are numbers of rows.
        """
        codes = np.arange(len(self.values))
        p, q = (Discrete.from_counts(codes, row) for row in self.counts)
        return PriorPair(p, q)

    def frame(self, *, as_counts: bool = False) -> pd.DataFrame:
        """Return the rows, or the distinct rows with a column ``count``.

        Parameters
        ----------
        as_counts : bool, default=False
            Return each distinct row once with its count, as ``sample_weight`` of
            `PufferfishNoiser.fit` takes it.

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
            self.public: pd.Series(code)
            if isinstance(self.values, range)
            else _categorical(code, self.values),
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
    return {title: _contingency(title) for title in _numbers()["contingencies"]}


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
    return _contingency("Student Performance").frame(as_counts=as_counts)


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
    return _contingency("Census Income").frame(as_counts=as_counts)


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
    return _contingency("Bank Marketing").frame(as_counts=as_counts)


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
    return _contingency("Simulation (Figure 2b)").frame(as_counts=as_counts)


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
    return _contingency("Simulation (Figure 3b)").frame(as_counts=as_counts)


@cache
def _numbers() -> dict[str, Any]:
    """Return the numbers of the papers, and the counts of the tables that they are about."""
    path = Path(__file__).with_name("_paper_counts.json")
    numbers: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return numbers


def _contingency(title: str) -> Contingency:
    """Return one of the contingencies of paper 000, whose values are names, or so many numbers."""
    row = _numbers()["contingencies"][title]
    values, (first, second) = row["values"], row["counts"]
    return Contingency(
        title=title,
        sensitive=row["sensitive"],
        public=row["public"],
        secrets=tuple(row["secrets"]),
        values=range(values) if isinstance(values, int) else tuple(values),
        counts=(tuple(first), tuple(second)),
    )


def _coded(counts: Sequence[int], first: int = 0) -> Discrete:
    return Discrete.from_counts(range(first, first + len(counts)), counts)


def _categorical(codes: NDArray[np.intp], values: tuple[str, ...]) -> pd.Series[Any]:
    return pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(values), ordered=True))


def published_table4() -> pd.DataFrame:
    r"""Return the 150 noise scales that Table 4 of paper 000 prints.

    Laplace scales :math:`\theta` in units of one code of the public column, as printed: rounded to
    two decimals by the authors. One of them, the relaxed mechanism on the simulation of Figure 2b
    at epsilon 0.2, is printed 0.54 where the paper's own condition, Eq. (11), gives 0.5327.

    Returns
    -------
    pandas.DataFrame of shape (15, 10)
        Indexed by data set and by the strategy that the mechanism is called here:
        ``sensitivity`` (Eq. (26)), ``wasserstein`` (Eq. (4)) and ``relaxed`` (Algorithm 1, which
        is ``Relaxed(condition="eq11")``). The columns are the budgets epsilon, in nats.

    Examples
    --------
    >>> from sklearn_puffer.datasets import published_table4
    >>> float(published_table4().loc[("Student Performance", "relaxed"), 0.1])
    3.39
    """
    printed = _numbers()["table4"]
    rows = {
        (title, strategy): scales
        for title, strategies in printed["scales"].items()
        for strategy, scales in strategies.items()
    }
    budgets = pd.Index(printed["budgets"], name="epsilon")
    table = pd.DataFrame.from_dict(rows, orient="index", columns=budgets)
    table.index = pd.MultiIndex.from_tuples(list(rows), names=["dataset", "strategy"])
    return table


def fitted_gaussians() -> dict[str, PriorPair]:
    """Return one Gaussian for each secret of Figures 3 and 4 of paper 003.

    Adult: years of education given race, Black (3,124 training rows) or Asian-Pac-Islander
    (1,039). Hungarian: cholesterol in mg/dl given sex, female (74 rows) or male (197).

    Returns
    -------
    dict of str to PriorPair
        Means and standard deviations (n - 1 in the denominator) of the rows.

    Examples
    --------
    >>> from sklearn_puffer.datasets import fitted_gaussians
    >>> for title, (p, q) in fitted_gaussians().items():
    ...     print(title, p.means.round(2), q.means.round(2))
    Adult [9.49] [10.96]
    Hungarian [247.68] [252.04]
    """
    return {
        title: PriorPair(*(GaussianMixture([1.0], [mean], [scale]) for mean, scale in secrets))
        for title, secrets in _numbers()["gaussians"].items()
    }


def fitted_mixtures() -> dict[str, PriorPair]:
    """Return the mixtures of three Gaussians for each secret of Figures 3 and 4 of paper 003.

    Returns
    -------
    dict of str to PriorPair
        The tables and secrets of `fitted_gaussians`. One component for Asian-Pac-Islander has a
        standard deviation of 0.001: a single value, 13 years.

    Examples
    --------
    >>> from sklearn_puffer.datasets import fitted_mixtures
    >>> for title, (p, q) in fitted_mixtures().items():
    ...     print(title, p.means.round(1), q.means.round(1))
    Adult [ 6.1  9.4 12.8] [ 9.2 13.  14.7]
    Hungarian [202.7 274.4 384.4] [239.3 250.9 514.5]
    """
    return {
        title: PriorPair(*(GaussianMixture(*parameters) for parameters in secrets))
        for title, secrets in _numbers()["mixtures"].items()
    }


def published_table1() -> pd.DataFrame:
    r"""Return the sensitivities that Table 1 of paper 004 prints.

    Returns
    -------
    pandas.DataFrame of shape (3, 3)
        Columns: ``sensitivity``, the range of the public column, ``W_inf`` (:math:`\Delta_G`)
        and ``W_2`` (:math:`\Delta_{G,2}`), each the largest over the secret pairs and in the units
        of the public column. The range of ages in Heart is printed as "at least 100".

    Notes
    -----
    Two figures are misprints: W_2 of Student Scores is 2.276, and W_inf of Heart is 13.

    Examples
    --------
    >>> from sklearn_puffer.datasets import published_table1
    >>> published_table1()
                    sensitivity  W_inf   W_2
    Student Scores         20.0    8.0  2.76
    Heart                 100.0    8.0  7.80
    Adult                   1.0    1.0  0.42
    """
    return pd.DataFrame.from_dict(
        _numbers()["table1"], orient="index", columns=["sensitivity", "W_inf", "W_2"]
    )


def table1_priors() -> dict[str, dict[str, Discrete]]:
    """Return the priors behind Table 1 of paper 004, by table and by secret.

    Student Scores: final grades in mathematics (0 to 20) given extra paid classes. Heart: ages
    given the diagnosis (0 to 4), for each of the four hospitals; the figures of the paper are those
    of Cleveland. Adult: income above 50,000 dollars (0, 1) given race, training rows.

    Returns
    -------
    dict of str to dict of str to Discrete
        Their counts are numbers of rows. ``"Heart (all)"`` is the four hospitals together.

    Examples
    --------
    >>> from sklearn_puffer.datasets import table1_priors
    >>> for title, priors in table1_priors().items():
    ...     print(title, {secret: int(prior.counts.sum()) for secret, prior in priors.items()})
    Student Scores {'no': 214, 'yes': 181}
    Heart (Cleveland) {'0': 164, '1': 55, '2': 36, '3': 35, '4': 13}
    Heart (Hungarian) {'0': 188, '1': 106}
    Heart (Switzerland) {'0': 8, '1': 48, '2': 32, '3': 30, '4': 5}
    Heart (VA) {'0': 51, '1': 56, '2': 41, '3': 42, '4': 10}
    Heart (all) {'0': 411, '1': 265, '2': 109, '3': 107, '4': 28}
    Adult {'Amer-Indian-Eskimo': 311, 'Asian-Pac-Islander': 1039, 'Black': 3124, 'Other': 271, \
'White': 27816}
    """
    return {
        title: {
            secret: Discrete.from_counts([*map(int, rows)], [*rows.values()])
            for secret, rows in secrets.items()
        }
        for title, secrets in _numbers()["values_and_rows"].items()
    }


def removed_classes() -> dict[str, Discrete]:
    """Return the distribution of a report in the class of paper 001, Figure 5, by reading.

    Adult: education given that race is White. Student: a romantic relationship (no, yes = 0, 1)
    given the wish for higher education. Bank: marital status given a loan.

    Returns
    -------
    dict of str to Discrete
        Distributions on the codes; their counts are numbers of rows. The codes of education are 0
        to 15 in the order of first appearance, or in alphabetical order, or 1 to 16, the column
        ``education-num``. Those of marital status are 0 to 2 in the order of first appearance
        (married, single, divorced), or in alphabetical order, or 1 to 3.

    References
    ----------
    001, Figure 5.

    Examples
    --------
    >>> from sklearn_puffer.datasets import removed_classes
    >>> for reading, distribution in removed_classes().items():
    ...     print(f"{reading}: {int(distribution.counts.sum())} rows")
    Adult, first appearance: 27816 rows
    Adult, alphabetical: 27816 rows
    Adult, education-num: 27816 rows
    Adult (all rows), first appearance: 41762 rows
    Adult (all rows), alphabetical: 41762 rows
    Adult (all rows), education-num: 41762 rows
    Student (por): 580 rows
    Student (mat): 375 rows
    Bank, first appearance: 7244 rows
    Bank, alphabetical: 7244 rows
    Bank, from 1: 7244 rows
    """
    return {
        reading: _coded(counts, first)
        for reading, (first, counts) in _numbers()["removed_classes"].items()
    }


def replaced_classes() -> dict[str, PriorPair]:
    """Return the distributions of a report in both classes of paper 001, Figure 9, by reading.

    Adult: relationship (1 for the value or values named) of Asian-Pac-Islander against
    Amer-Indian-Eskimo. Student: a romantic relationship given free time 5 against 2. Bank: a loan
    given the job blue-collar against management.

    Returns
    -------
    dict of str to PriorPair
        Distributions on 0 and 1; their counts are numbers of rows.

    References
    ----------
    001, Figure 9.

    Examples
    --------
    >>> from sklearn_puffer.datasets import replaced_classes
    >>> for reading, (p, q) in replaced_classes().items():
    ...     print(f"{reading}: {p.probabilities[1]:.3f} against {q.probabilities[1]:.3f}")
    Adult, Husband or Wife: 0.461 against 0.357
    Adult, Unmarried: 0.088 against 0.186
    Adult (all rows), Husband or Wife: 0.456 against 0.347
    Adult (all rows), Unmarried: 0.086 against 0.198
    Student (por): 0.441 against 0.421
    Student (mat): 0.325 against 0.391
    Bank: 0.173 against 0.132
    """
    return {
        reading: PriorPair(*(_coded([rows - ones, ones]) for ones, rows in classes))
        for reading, classes in _numbers()["ones_and_rows"].items()
    }
