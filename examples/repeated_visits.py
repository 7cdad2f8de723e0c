"""People with several rows
========================

Release the answers of students who came several times, so that all rows of one tell little::

    python examples/repeated_visits.py

Two public tables (UCI, Student Performance; SKLEARN_PUFFER_TABLES names their folder) hold a row
for each student of a course, mathematics or Portuguese. Many took both. School, age, home and
parents identify a student in both tables, as their authors say. A student's rows are a group, and
the sex is the secret that they share. Drinking at weekends is released, from 1 to 5.

A guarantee for a row does not hold for a student, whose two rows have separate noise. Nor are the
rows independent given the secret: a student tends to answer alike twice. ``within_group="any"``
covers them too. Last, the loss is computed from the joint distribution of both answers, which no
fit has seen, under the noise of each guarantee.
"""

import warnings

import numpy as np
import pandas as pd
from _shared import tables_folder

from sklearn_puffer import PufferfishNoiser, UtilityWarning
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete

EPSILON = 0.5
COURSES = {"mathematics": "student-mat.csv", "Portuguese": "student-por.csv"}
# the columns that identify a student
SAME = ["school", "sex", "age", "address", "famsize", "Pstatus", "Medu", "Fedu", "Mjob", "Fjob"]
SAME += ["reason", "nursery", "internet", "guardian", "traveltime", "famsup"]
STUDENTS = {"groups": "student", "max_group": 2}
PROMISES = {
    "each row": {},
    "each student, rows independent": STUDENTS,
    "each student, any rows": {**STUDENTS, "within_group": "any"},
}


def main():
    rows = read()
    twice = int((rows.groupby("student").size() == 2).sum())
    print(f"{len(rows)} rows of {rows['student'].nunique()} students, {twice} of whom came twice\n")
    noisers = {name: fitted(rows, **own) for name, own in PROMISES.items()}
    certificate = noisers["each student, any rows"].certificate_
    print(certificate.promise(), end="\n\n")
    print(compared(rows, noisers).to_string(), end="\n\n")
    print(certificate.about_count(2).promise())


def read():
    """Return the rows of both courses, with a number for each student."""
    tables = [pd.read_csv(tables_folder() / f).assign(course=c) for c, f in COURSES.items()]
    rows = pd.concat(tables, ignore_index=True)
    rows["student"] = rows.groupby(SAME).ngroup()
    # students whom these columns do not tell apart within a course are left out
    alone = ~rows.duplicated(["student", "course"], keep=False)
    return rows.loc[alone, ["student", "course", "sex", "Walc"]].reset_index(drop=True)


def fitted(rows, **groups):
    """Return a noiser for what students drink, which guarantees for rows or for students."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)  # one column and a small budget
        return PufferfishNoiser(EPSILON, sensitive="sex", public=["Walc"], **groups).fit(rows)


def compared(rows, noisers):
    """Return the noise of each guarantee, and what a student's two rows tell under it."""
    p, q = distributions_of_two(rows)
    scales = [noiser.theta_["Walc"] for noiser in noisers.values()]
    told = [privacy_loss(p, q, Laplace((s, s)), Pufferfish(EPSILON)).upper for s in scales]
    figures = {"noise": scales, "asked for": EPSILON, "two rows tell": told}
    return pd.DataFrame(figures, index=list(noisers)).round(3)


def distributions_of_two(rows):
    """Return the counted distributions of both answers of a student, given each sex."""
    both = rows.pivot(index=["sex", "student"], columns="course", values="Walc").dropna()
    distributions = []
    for _, own in both.groupby("sex"):
        answers, counts = np.unique(own.to_numpy(), axis=0, return_counts=True)
        distributions.append(Discrete.from_counts(answers, counts))
    return distributions


if __name__ == "__main__":
    main()
