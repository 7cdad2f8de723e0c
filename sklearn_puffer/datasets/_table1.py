"""Table 1 of paper 004: the counts of a public column by secret, and the figures it prints.

Counts are facts about public tables of the UCI Machine Learning Repository (CC BY 4.0).
"""

from __future__ import annotations

from collections import Counter

import pandas as pd

from sklearn_puffer.priors import Discrete


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
    return pd.DataFrame(
        {"sensitivity": [20.0, 100.0, 1.0], "W_inf": [8.0, 8.0, 1.0], "W_2": [2.76, 7.80, 0.42]},
        index=["Student Scores", "Heart", "Adult"],
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
    counts = {
        title: {secret: _parsed(text) for secret, text in secrets.items()}
        for title, secrets in _COUNTS.items()
    }
    hospitals = [name for name in counts if name.startswith("Heart")]
    together: dict[str, Counter[int]] = {}
    for name in hospitals:
        for secret, found in counts[name].items():
            together.setdefault(secret, Counter()).update(found)
    adult = counts.pop("Adult")
    counts |= {"Heart (all)": together, "Adult": adult}
    return {
        title: {secret: _prior(found) for secret, found in secrets.items()}
        for title, secrets in counts.items()
    }


def _parsed(text: str) -> Counter[int]:
    pairs = (pair.split(":") for pair in text.split())
    return Counter({int(value): int(count) for value, count in pairs})


def _prior(counts: Counter[int]) -> Discrete:
    return Discrete.from_counts(list(counts), list(counts.values()))


# value:rows
_COUNTS = {
    "Student Scores": {
        "no": (
            "0:30 5:5 6:9 7:7 8:12 9:16 10:26 11:21 12:19 13:14 14:14 15:14 16:12 17:5 18:6 "
            "19:3 20:1"
        ),
        "yes": (
            "0:8 4:1 5:2 6:6 7:2 8:20 9:12 10:30 11:26 12:12 13:17 14:13 15:19 16:4 17:1 18:6 19:2"
        ),
    },
    "Heart (Cleveland)": {
        "0": (
            "29:1 34:2 35:2 37:2 38:1 39:3 40:1 41:9 42:7 43:5 44:8 45:6 46:4 47:3 48:4 49:3 "
            "50:4 51:9 52:9 53:6 54:10 55:3 56:5 57:7 58:7 59:5 60:3 61:1 62:4 63:3 64:6 65:4 "
            "66:4 67:3 68:2 69:2 70:1 71:3 74:1 76:1"
        ),
        "1": (
            "35:2 40:1 41:1 43:1 44:1 45:1 46:2 47:2 48:1 49:1 50:1 51:1 52:2 53:1 54:2 56:2 "
            "57:7 58:4 59:4 60:4 61:3 62:2 63:2 64:2 65:2 67:2 70:1"
        ),
        "2": (
            "42:1 43:1 44:2 46:1 51:1 52:1 54:1 55:1 56:3 57:1 58:2 59:4 60:3 61:3 62:2 63:2 "
            "65:1 66:2 67:2 68:1 69:1"
        ),
        "3": (
            "39:1 40:1 43:1 45:1 48:2 49:1 50:1 51:1 52:1 53:1 54:3 55:3 56:1 57:1 58:4 59:1 "
            "60:1 62:3 63:1 64:1 66:1 67:2 68:1 70:1"
        ),
        "4": "38:1 50:1 55:1 57:1 58:2 60:1 61:1 63:1 64:1 65:1 70:1 77:1",
    },
    "Heart (Hungarian)": {
        "0": (
            "28:1 29:2 30:1 31:1 32:3 33:1 34:3 35:4 36:4 37:7 38:3 39:10 40:5 41:7 42:7 43:8 "
            "44:4 45:7 46:7 47:5 48:11 49:8 50:7 51:7 52:8 53:9 54:16 55:10 56:5 57:3 58:4 59:5 "
            "60:1 61:2 62:2"
        ),
        "1": (
            "31:1 32:1 33:1 34:1 35:1 36:1 37:1 38:4 39:1 40:2 41:4 43:4 44:3 45:1 46:6 47:5 "
            "48:8 49:7 50:5 51:2 52:9 53:3 54:9 55:5 56:5 57:2 58:5 59:3 60:1 63:1 65:3 66:1"
        ),
    },
    "Heart (Switzerland)": {
        "0": "38:1 45:1 53:2 55:1 56:1 65:1 72:1",
        "1": (
            "32:1 34:1 36:1 38:3 42:1 46:2 47:2 50:2 51:1 53:3 54:1 55:1 56:2 57:2 58:2 59:3 "
            "60:3 61:3 62:3 63:2 64:2 65:1 66:1 68:1 69:1 70:1 73:1 74:1"
        ),
        "2": (
            "38:2 40:1 41:1 42:1 43:1 47:1 48:1 51:4 52:4 53:1 54:1 55:1 56:4 57:2 59:1 61:2 "
            "62:2 63:1 67:1"
        ),
        "3": (
            "35:1 43:1 47:1 50:2 51:1 53:1 54:1 56:1 57:2 59:1 60:3 61:4 62:2 63:2 64:1 65:2 "
            "66:1 68:1 69:1 70:1"
        ),
        "4": "43:1 51:1 53:1 55:1 58:1",
    },
    "Heart (VA)": {
        "0": (
            "35:1 37:1 40:1 41:2 42:1 44:1 45:1 48:1 51:4 53:1 54:2 55:3 56:2 57:2 58:3 59:2 "
            "60:4 61:2 62:4 63:4 64:1 65:1 66:2 68:2 69:1 74:1 75:1"
        ),
        "1": (
            "38:1 40:1 43:1 46:1 48:2 50:2 51:1 53:2 54:3 55:6 56:4 57:4 58:3 59:4 60:3 61:1 "
            "62:6 63:3 64:2 65:1 66:1 68:1 72:1 74:1 75:1"
        ),
        "2": (
            "46:1 49:1 51:1 52:2 53:1 55:2 56:1 57:1 58:5 59:1 60:3 61:2 62:3 63:4 64:3 67:1 "
            "68:1 69:5 70:1 72:1 74:1"
        ),
        "3": (
            "48:1 49:1 51:1 53:1 54:2 55:3 57:2 58:1 59:1 60:2 61:6 63:3 64:2 65:3 67:4 69:2 "
            "71:2 72:1 74:2 75:1 77:1"
        ),
        "4": "56:2 57:1 61:1 62:2 63:1 64:1 65:1 76:1",
    },
    "Adult": {
        "Amer-Indian-Eskimo": "0:275 1:36",
        "Asian-Pac-Islander": "0:763 1:276",
        "Black": "0:2737 1:387",
        "Other": "0:246 1:25",
        "White": "0:20699 1:7117",
    },
}
