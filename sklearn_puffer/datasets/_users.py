"""The classes of users of paper 001, Figures 5 and 9: what their rows report.

Counts are facts about public tables of the UCI Machine Learning Repository (CC BY 4.0). The paper
says neither how it codes the columns nor which rows of Adult or which course of Student it takes,
so several readings are kept. The first of each table goes by paper 000, whose Table 4 is
reproduced by codes in the order in which the values first appear, and by the Portuguese course.
"""

from __future__ import annotations

from collections.abc import Sequence

from sklearn_puffer.priors import Discrete, PriorPair


def removed_classes() -> dict[str, Discrete]:
    """Return what a row of the classes of paper 001, Figure 5, reports, by reading.

    Adult: education given that race is White. Student: a romantic relationship (no, yes = 0, 1)
    given the wish for higher education. Bank: marital status given a loan.

    Returns
    -------
    dict of str to Discrete
        Laws on the codes; their counts are numbers of rows. The codes of education are 0 to 15 in
        the order of first appearance, or in alphabetical order, or 1 to 16, the column
        ``education-num``. Those of marital status are 0 to 2 in the order of first appearance
        (married, single, divorced), or in alphabetical order, or 1 to 3.

    References
    ----------
    001, Figure 5.

    Examples
    --------
    >>> from sklearn_puffer.datasets import removed_classes
    >>> for reading, law in removed_classes().items():
    ...     print(f"{reading}: {int(law.counts.sum())} rows")
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
    laws = {}
    for rows, counts in _EDUCATION.items():
        by_name = dict(zip(_SCHOOLS, counts, strict=True))
        laws[f"{rows}, first appearance"] = _coded([by_name[name] for name in _FIRST_SEEN])
        laws[f"{rows}, alphabetical"] = _coded([by_name[name] for name in sorted(by_name)])
        laws[f"{rows}, education-num"] = _coded(counts, first=1)
    laws |= {course: _coded(counts) for course, counts in _ROMANTIC.items()}
    married, single, divorced = _MARITAL
    laws["Bank, first appearance"] = _coded(_MARITAL)
    laws["Bank, alphabetical"] = _coded([divorced, married, single])
    laws["Bank, from 1"] = _coded(_MARITAL, first=1)
    return laws


def replaced_classes() -> dict[str, PriorPair]:
    """Return what a row of the two classes of paper 001, Figure 9, reports, by reading.

    Adult: relationship (1 for the value or values named) of Asian-Pac-Islander against
    Amer-Indian-Eskimo. Student: a romantic relationship given free time 5 against 2. Bank: a loan
    given the job blue-collar against management.

    Returns
    -------
    dict of str to PriorPair
        Laws on 0 and 1; their counts are numbers of rows.

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
        for reading, classes in _BINARY.items()
    }


def _coded(counts: Sequence[int], first: int = 0) -> Discrete:
    return Discrete.from_counts(range(first, first + len(counts)), counts)


# In the order of education-num.
_SCHOOLS = (
    "Preschool",
    "1st-4th",
    "5th-6th",
    "7th-8th",
    "9th",
    "10th",
    "11th",
    "12th",
    "HS-grad",
    "Some-college",
    "Assoc-voc",
    "Assoc-acdm",
    "Bachelors",
    "Masters",
    "Prof-school",
    "Doctorate",
)

_FIRST_SEEN = (
    "Bachelors",
    "HS-grad",
    "11th",
    "Masters",
    "9th",
    "Some-college",
    "Assoc-acdm",
    "Assoc-voc",
    "7th-8th",
    "Doctorate",
    "Prof-school",
    "5th-6th",
    "10th",
    "1st-4th",
    "Preschool",
    "12th",
)

# fmt: off
_EDUCATION = {  # rows whose race is White
    "Adult": (
        38, 134, 279, 553, 403, 762, 977, 335,
        8_904, 6_207, 1_207, 915, 4_682, 1_537, 514, 369,
    ),
    "Adult (all rows)": (
        61, 196, 415, 818, 611, 1_158, 1_485, 515,
        13_387, 9_289, 1_803, 1_368, 7_034, 2_348, 748, 526,
    ),
}
# fmt: on

_ROMANTIC = {"Student (por)": (376, 204), "Student (mat)": (254, 121)}  # no, yes

_MARITAL = (4_660, 1_663, 921)  # married, single, divorced

_BINARY = {  # for either class: rows with a 1, and all its rows
    "Adult, Husband or Wife": ((479, 1_039), (111, 311)),
    "Adult, Unmarried": ((91, 1_039), (58, 311)),
    "Adult (all rows), Husband or Wife": ((692, 1_519), (163, 470)),
    "Adult (all rows), Unmarried": ((130, 1_519), (93, 470)),
    "Student (por)": ((30, 68), (45, 107)),
    "Student (mat)": ((13, 40), (25, 64)),
    "Bank": ((1_684, 9_732), (1_253, 9_458)),
}
