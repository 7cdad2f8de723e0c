"""Confidence sets of priors
=========================

Print and draw what it costs not to trust the counted priors to the last digit::

    python examples/plot_confidence.py [--output FOLDER]

The exact strategy takes the priors from the counts, and asks for no noise at all where their ratio
is within the budget. A confidence set holds every prior that the rows do not rule out, of all
secrets at once; the scale then protects against all of them. Beside it stand the relaxed mechanism
of paper 000, Table 4 and Eq. (11), which trusts the counts too, and W_inf, which here trusts the
alphabet alone. With matplotlib at hand, ``confidence.png`` is drawn.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _shared import save

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.bounds import Relaxed
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.datasets import published_table4, table4_contingencies
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import ConfidenceSet, Discrete

STUDENT = "Student Performance"
LEVELS = (0.5, 0.9, 0.95, 0.99)
BUDGETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
ROWS = (1, 2, 3, 4, 5, 7, 10, 15, 20)
EPSILON = 0.5
STRATEGIES = {"W_inf": "wasserstein", "Eq. (11)": Relaxed(condition="eq11"), "exact": "exact"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder for the figure")
    folder = parser.parse_args().output

    student, others, rows = student_by_budget(), tables_at_one_budget(), student_by_rows()
    print("Scale of the Laplace noise, in units of one code.")
    print("exact: for the counted priors; 0.95: for all priors of the 95 % confidence set.")
    print("saving %: of the 95 % set on the published scale, or on Eq. (11).")
    print(f"\n{STUDENT}, 649 rows:\n\n{_text(student)}")
    print(f"\nThe data of Table 4, epsilon {EPSILON}:\n\n{_text(others)}")
    print(f"\n{STUDENT}, the same shares in more rows, epsilon {EPSILON}:\n\n{_text(rows)}")
    print(f"\nWhat the estimator certifies at level 0.95:\n\n{certified()}\n")
    save(folder, [("confidence", (11, 4.6), lambda figure: _draw(figure, student, rows))])


def student_by_budget():
    """Return a row for each budget: published, W_inf, Eq. (11), exact, and each level's set."""
    counts = table4_contingencies()[STUDENT].counts
    published = published_table4().loc[STUDENT, "relaxed"]
    rows = {epsilon: scales(counts, epsilon) for epsilon in BUDGETS}
    return _beside(published, rows).rename_axis("epsilon")


def tables_at_one_budget():
    """Return the same at one budget, a row for each data set of Table 4 that has rows."""
    published = published_table4().xs("relaxed", level="strategy")[EPSILON]
    tables = {
        name: scales(table.counts, EPSILON)
        for name, table in table4_contingencies().items()
        if not name.startswith("Simulation")
    }
    return _beside(published, tables)


def student_by_rows():
    """Return the same at one budget with the counts multiplied, against Eq. (11)."""
    counts = np.array(table4_contingencies()[STUDENT].counts)
    rows = pd.DataFrame(
        {times * int(counts.sum()): scales(times * counts, EPSILON) for times in ROWS}
    ).T
    return rows.assign(**{"saving %": _saving(rows["0.95"], rows["Eq. (11)"])}).rename_axis("rows")


def scales(counts, epsilon):
    """Return the scale that two rows of counts ask for: each strategy's, and each set's."""
    pair, notion = _priors(counts), Pufferfish(epsilon)
    row = {name: calibrate([pair], notion, strategy=how).scale for name, how in STRATEGIES.items()}
    return row | {f"{level:g}": _scale_over_the_set(counts, epsilon, level) for level in LEVELS}


def certified(level=0.95):
    """Return the scale of the estimator for Student, and what its certificate says of the set."""
    table = table4_contingencies()[STUDENT]
    rows = table.frame().sample(frac=1.0, random_state=0, ignore_index=True)  # in no order
    noiser = PufferfishNoiser(
        EPSILON, sensitive=table.sensitive, adversaries=ConfidenceSet(level)
    ).fit(rows)
    sentence = next(t for t in noiser.certificate_.details().splitlines() if "confidence set" in t)
    sentence = sentence.strip(" -")
    return f"theta = {noiser.theta_[table.public]:.3f}. {sentence}"


def _beside(published, rows):
    table = pd.DataFrame(rows).T
    table.insert(0, "published", published.loc[table.index])
    return table.assign(**{"saving %": _saving(table["0.95"], table["published"])})


def _saving(ours, theirs):
    return 100 * (1 - ours / theirs)


def _priors(counts):
    return tuple(Discrete.from_counts(np.arange(len(row)), row) for row in counts)


def _scale_over_the_set(counts, epsilon, level):
    secrets, codes = np.indices(np.shape(counts)).reshape(2, -1)
    cells = pd.DataFrame({"secret": secrets, "code": codes})
    noiser = PufferfishNoiser(epsilon, sensitive="secret", adversaries=ConfidenceSet(level))
    with warnings.catch_warnings():  # that no noise is needed, or how little is left
        warnings.simplefilter("ignore", UserWarning)
        return noiser.fit(cells, sample_weight=np.ravel(counts)).theta_["code"]


def _text(table):
    return table.to_string(formatters={"saving %": "{:.1f}".format}, float_format="{:.3f}".format)


def _draw(figure, student, rows):
    left, right = figure.subplots(1, 2)
    _lines(left, student)
    _lines(right, rows)
    left.set(title="649 rows", xlabel="epsilon, in nats", ylabel="scale of the noise, in codes")
    left.set_ylim(-0.1, 4.0)
    right.set(title=f"the same shares in more rows, epsilon {EPSILON}", xlabel="rows", xscale="log")
    right.set_xticks(rows.index[::2], [f"{n:,}" for n in rows.index[::2]])
    right.minorticks_off()
    left.legend()
    figure.suptitle("Student Performance: romantic (no, yes = 0, 1) given higher (yes, no)")


def _lines(axes, table):
    shades = {f"{level:g}": shade for level, shade in zip(LEVELS, (0.3, 0.5, 0.75, 1), strict=True)}
    axes.plot(table["W_inf"], marker=".", color="0.6", label="W_inf")
    axes.plot(table["Eq. (11)"], marker=".", color="tab:red", label="published, Eq. (11)")
    for level in reversed(shades):
        colour = (0.1, 0.35, 0.7, shades[level])
        label = f"{float(level):.0%} confidence set"
        axes.plot(table[level], marker=".", color=colour, label=label)
    axes.plot(table["exact"], marker=".", color="black", label="exact, counted priors")
    axes.grid(alpha=0.3)


if __name__ == "__main__":
    main()
