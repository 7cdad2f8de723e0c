"""Sums over users (paper 001)
===========================

Print and draw the figures and tables of paper 001 beside what the same users need here::

    python examples/plot_users.py [--output FOLDER] [--budgets EPSILON ...]

Users report random values, and their sum is released with Laplace noise that hides something about
one of them. Figures 1 to 4 and 6 to 8: a fourth user beside the three of Table 2. Tables 4 to 6:
Lemma 3. Figures 5 and 9: classes of users in three real tables, whose counts come with the package.

The paper draws its scales and prints none, so "published" holds its formulas as they are printed,
computed apart; "ours" is the same condition, corrected; "relaxed" is that of paper 000, Prop. 3.2,
for the user's own distributions. "exact" is the smallest scale for the given users, "all others"
the smallest one that is enough whoever the other users are. With matplotlib at hand,
``users_plans.png``, ``users_scales.png`` and ``users_classes.png`` are drawn.
"""

import argparse
import warnings
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd
from _shared import save
from scipy.optimize import brentq

from sklearn_puffer import PufferfishSum
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.couplings import optimal_plan, w_infinity
from sklearn_puffer.datasets import removed_classes, replaced_classes
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, PriorPair
from sklearn_puffer.users import User, lemma_2_psi

BUDGETS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]

FOOTNOTES = """\
its loss: the true epsilon at the published scale.
saving %: of exact on the published scale; in Figure 5 on Eq. (14), in Figure 9 on Lemma 2. Below 0
the published noise is too small.
A scale of 0 is no noise at all: the distributions alone keep the budget, and are trusted to be
right. Lemma 2 is published for x among the values of the other users' sum; ours goes on to their
maximum plus 1, without which it does not hold in general. Table 5 prints F_j(4) = .925, which is
.8, and so Delta*(3) comes out as 1; it is 2.

Figures 5 and 9: the other users are the other rows of the class, or of both classes. The paper does
not say how it codes the columns. Codes by first appearance are those of paper 000, by the same
author, and with them Eq. (13) is a quarter of (14) for Adult and epsilon 0.1: "much smaller", as
the text has it; by the others it is two thirds. Of Figure 9 the text says that noise is reduced at
small epsilon, which is so for all readings: which one is nearest cannot be told from it.

What is protected in Figures 5 and 9 is ONE row, one draw from the distribution of its class:
whether it is in the sum, or which of the two distributions it follows. The paper speaks of all
records of the class. To remove or replace them all is another secret, which needs the noise of the
column "whole class": in Figure 5 about 1/epsilon times what the class adds to the sum."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder for the figures")
    parser.add_argument("--budgets", type=float, nargs="+", default=BUDGETS, metavar="EPSILON")
    arguments = parser.parse_args()

    budgets = arguments.budgets
    few = sorted({budgets[0], budgets[-1]})
    (first5, other5), (first9, other9) = readings(removed_classes()), readings(replaced_classes())
    fourth = fourth_user(budgets)
    removed, replaced = figure5(first5, budgets), figure9(first9, budgets)
    sections = {
        "Figures 1 to 4 and 6 to 8: what is hidden about user 4": fourth,
        "Tables 4 and 5: two distributions, and how far Lemma 3 moves": tables_4_and_5(),
        "Table 6: the optimal plan of Table 4": table_6(),
        "Lemma 3, epsilon 1: values next to each other, and values with gaps": lemma_3(),
        "Figure 5: is one row of the class in the sum?": removed,
        "Figure 5, other readings of what the paper counts": figure5(other5, few),
        "Figure 9: does one row follow its own class, or another?": replaced,
        "Figure 9, other readings of what the paper counts": figure9(other9, few),
    }
    for title, table in sections.items():
        print(f"{title}\n\n{_text(table)}\n")
    print(FOOTNOTES)
    figures = [
        ("users_plans", (15, 3.9), _draw_plans),
        ("users_scales", (13, 4.4), lambda figure: _draw_scales(figure, fourth)),
        ("users_classes", (13, 8), lambda figure: _draw_classes(figure, removed, replaced)),
    ]
    save(arguments.output, figures)


# Figures 1 to 4 and 6 to 8: a fourth user


def _distribution(counts, first=1):
    return Discrete.from_counts(range(first, first + len(counts)), counts)


TABLE_2 = [
    User(_distribution(counts))
    for counts in ([1, 4, 10, 20, 65], [70, 20, 5, 4, 1], [1, 1, 1, 1, 1])
]
P_4, Q_4 = _distribution([4, 1, 0, 1, 4]), _distribution([0, 1, 18, 1, 0])  # Table 3
BITS = _distribution([8, 2], first=0), _distribution([1, 9], first=0)

FIGURES = {  # the set of secrets, user 4, and the condition that the figure is about
    "1: reports 5 or 3": ("value", User(P_4, values=[3, 5]), "theorem_1_of_001"),
    "2: reports 5, or absent": ("value-absence", User(P_4, values=[5]), "theorem_2_of_001"),
    "3: P_4, or absent": ("distribution-absence", User(P_4), "theorem_3_eq14"),
    "4: P_4, or absent": ("distribution-absence", User(P_4), "theorem_3_eq13"),
    "6: P_4 or Q_4": ("distribution", User(P_4, alternative=Q_4), "theorem_4"),
    "7: .2 or .9": ("distribution", User(BITS[0], alternative=BITS[1]), "lemma_1"),
    "8: .2 or .9": ("distribution", User(BITS[0], alternative=BITS[1]), "lemma_2"),
}


def fourth_user(budgets):
    """Return a row for each figure and budget."""
    rows = {}
    for figure, (secrets, user, name) in FIGURES.items():
        pair = _told_apart(user, secrets)
        sums = _sums(pair)
        for epsilon in budgets:
            published = PUBLISHED[name](*pair, epsilon)
            ours, notion = _scales([user], secrets, epsilon), Pufferfish(epsilon)
            rows[figure, epsilon] = {
                "published": published,
                "its loss": privacy_loss(*sums, Laplace(published), notion).upper,
                "ours": ours[name],
                "relaxed": ours["relaxed"],
                "exact": calibrate([sums], notion).scale,
                "all others": ours["worst_case"],
            }
    return _with_saving(rows, ["figure", "epsilon"], "published")


def _told_apart(user, secrets):
    """Return the distributions of what user 4 reports under two secrets; absence reports 0."""
    if secrets == "distribution":
        return PriorPair(user.law, user.alternative)
    if secrets == "distribution-absence":
        return PriorPair(user.law, _point(0))
    return PriorPair(*map(_point, ([*user.protected[::-1], 0])[:2]))


def _point(value):
    return Discrete([value], [1.0])


def _sums(pair):
    """Return the distributions of the sum of users 1 to 4 under both secrets about user 4."""
    return PriorPair(*(sum_of([*(user.law for user in TABLE_2), own]) for own in pair))


def _scales(users, secrets, epsilon, **options):
    """Return the scale of each condition by name."""
    query = PufferfishSum(epsilon, secrets=secrets, **options)
    with warnings.catch_warnings():  # that some distributions need no noise
        warnings.simplefilter("ignore")
        return query.fit(users).scales_


def sum_of(distributions):
    """Return the distribution of a sum, exactly; all values are integers."""
    lowest = sum(distribution.atoms[0] for distribution in distributions)
    counts = reduce(
        np.convolve, [distribution.counts.astype(np.int64) for distribution in distributions]
    )
    return Discrete.from_counts(lowest + np.arange(len(counts)), counts)


# The conditions as the paper prints them


def largest(p, epsilon):
    """Return the scale of Eq. (14), and of Eq. (12) for a single value."""
    return float(np.abs(p.atoms[p.counts > 0]).max()) / epsilon


def equation_13(p, epsilon):
    """Return the root of Eq. (13) by Brent's method."""
    masses, sizes = p.probabilities, np.abs(p.atoms)
    enough = (epsilon + 1.0 - np.log(masses[sizes.argmax()])) / sizes.max()
    return 1.0 / brentq(lambda u: np.log(masses @ np.exp(u * sizes)) - epsilon, 0.0, enough)


def delta_star(first, second):
    """Return Delta* of Lemma 3 at the integers x = 1, 2, .., from distribution functions."""
    moves = []
    for x, at_x in enumerate(first):
        reach = [0.0, *second]  # second at 0, 1, ..
        if at_x == second[x]:
            moves.append(0)
        elif at_x > second[x]:
            moves.append(min(k for k in range(1, len(second) - x) if at_x <= second[x + k]))
        else:
            moves.append(min(k for k in range(1, x + 2) if at_x >= reach[x + 1 - k]))
    return moves


def equation_21(psi, epsilon):
    """Return the scale of Lemma 2 for the smallest psi(x)."""
    return 1.0 / np.log(np.exp(epsilon) + (np.exp(epsilon) - 1.0) * psi)


def least_psi(p, q):
    """Return the smallest psi(x) over the values x of the sum of the users of Table 2."""
    others = sum_of([user.law for user in TABLE_2])
    return lemma_2_psi(p.probabilities[1], q.probabilities[1], others)[1][:-1].min()


PUBLISHED = {
    "theorem_1_of_001": lambda p, q, epsilon: float(abs(p.atoms[0] - q.atoms[0])) / epsilon,
    "theorem_2_of_001": lambda p, _, epsilon: largest(p, epsilon),
    "theorem_3_eq14": lambda p, _, epsilon: largest(p, epsilon),
    "theorem_3_eq13": lambda p, _, epsilon: equation_13(p, epsilon),
    "theorem_4": lambda p, q, epsilon: max(delta_star(_cumulative(p), _cumulative(q))) / epsilon,
    "lemma_1": lambda _, __, epsilon: 1.0 / epsilon,
    "lemma_2": lambda p, q, epsilon: equation_21(least_psi(p, q), epsilon),
}


def _cumulative(distribution):
    return (np.cumsum(distribution.counts) / distribution.total).tolist()


# Tables 4 to 6: Lemma 3

TABLE_4 = PriorPair(_distribution([8, 9, 20, 3, 0]), _distribution([0, 3, 20, 9, 8]))
TABLE_5 = [0.2, 0.42, 0.925, 1.0, 1.0], [0.0, 0.075, 0.575, 0.925, 1.0]  # as printed
TABLE_6 = {
    (1, 2): 0.075,
    (1, 3): 0.125,
    (2, 3): 0.225,
    (3, 3): 0.15,
    (3, 4): 0.225,
    (3, 5): 0.125,
    (4, 5): 0.075,
}


def tables_4_and_5():
    """Return a row for each x: masses, their sums, and Delta* of Lemma 3 from these."""
    (p, q), ours = TABLE_4, [_cumulative(distribution) for distribution in TABLE_4]
    columns = {
        "P_i": p.probabilities,
        "P_j": q.probabilities,
        "F_i published": TABLE_5[0],
        "F_i": ours[0],
        "F_j published": TABLE_5[1],
        "F_j": ours[1],
        "Delta* of Table 5": delta_star(*TABLE_5),
        "Delta*": delta_star(*ours),
    }
    return pd.DataFrame(columns, index=p.atoms.astype(int)).rename_axis("x")


def table_6():
    """Return a row for each entry of the plan."""
    ours = {(int(x), int(y)): mass for x, y, mass in zip(*optimal_plan(*TABLE_4), strict=True)}
    table = pd.DataFrame({"published": TABLE_6, "ours": ours})
    return table.rename_axis(["x", "x'"]).sort_index()


def lemma_3():
    """Return a row for two pairs of priors: the distance as printed and as it is, and scales."""
    gaps = PriorPair(*(Discrete.from_counts([0, 1, 10], some) for some in ([5, 0, 5], [6, 4, 0])))
    rows = {}
    for name, pair, distance in (("Table 4", TABLE_4, 2.0), ("atoms 0, 1, 10", gaps, 1.0)):
        notion = Pufferfish(1.0)
        rows[name] = {
            "published": distance,
            "its loss": privacy_loss(*pair, Laplace(distance), notion).upper,
            "ours": w_infinity(*pair),
            "relaxed": calibrate([pair], notion, strategy="relaxed").scale,
            "exact": calibrate([pair], notion).scale,
        }
    return _with_saving(rows, ["laws"], "published")


# Figures 5 and 9: classes of users

FIRST = {  # the reading of each table that is drawn
    "Adult, first appearance",
    "Adult, Husband or Wife",
    "Student (por)",
    "Bank, first appearance",
    "Bank",
}


def readings(classes):
    """Return the classes by the reading that is drawn, and by all others."""
    first, other = {}, {}
    for name, distributions in classes.items():
        (first if name in FIRST else other)[name] = distributions
    return first, other


def figure5(classes, budgets):
    """Return a row for each reading and budget: Theorem 3, for one row of a class."""
    rows = {}
    for reading, distribution in classes.items():
        users = [User(distribution, count=int(distribution.counts.sum()))]
        for epsilon in budgets:
            scales = _scales(users, "distribution-absence", epsilon)
            rows[reading, epsilon] = {
                "Eq. (14)": largest(distribution, epsilon),
                "Eq. (13)": equation_13(distribution, epsilon),
                "ours": scales["theorem_3_eq13"],
                "exact": scales["exact"],
                "all others": scales["worst_case"],
                "whole class": _whole_class(users, "distribution-absence", epsilon),
            }
    return _with_saving(rows, ["reading", "epsilon"], "Eq. (14)")


def figure9(classes, budgets):
    """Return a row for each reading and budget: Lemmas 1 and 2, for one row of a class."""
    rows = {}
    for reading, (p, q) in classes.items():
        sizes = [int(distribution.counts.sum()) for distribution in (p, q)]
        users = [User(p, alternative=q, count=sizes[0]), User(q, count=sizes[1])]
        for epsilon in budgets:
            ours = _scales(users, "distribution", epsilon)
            rows[reading, epsilon] = {
                "Lemma 1": 1.0 / epsilon,
                "Lemma 2": equation_21(least_psi_of_rows(p, q), epsilon),
                "ours": ours["lemma_2"],
                "relaxed": ours["relaxed"],
                "exact": ours["exact"],
                "all others": ours["worst_case"],
                "whole class": _whole_class(users[:1], "distribution", epsilon),
            }
    return _with_saving(rows, ["reading", "epsilon"], "Lemma 2")


def least_psi_of_rows(p, q):
    """Return the smallest psi(x) where the other users are the other rows of both classes.

    R(x) / R(x - 1) falls with x for a sum of bits; at the largest x it is 1 over the sum of odds.
    """
    (zeros, ones), (more_zeros, more_ones) = p.counts.tolist(), q.counts.tolist()
    odds = (zeros + ones - 1) * zeros / ones + (more_zeros + more_ones) * more_zeros / more_ones
    high, low = (choose(p.probabilities[1], q.probabilities[1]) for choose in (max, min))
    return ((1.0 - high) / odds + low) / (high - low)


def _whole_class(users, secrets, epsilon):
    """Return the scale that hides all rows of a class at once."""
    return _scales(users, secrets, epsilon, unit="class")["exact"]


# What the sections share


def _with_saving(rows, names, published):
    table = pd.DataFrame(rows).T.rename_axis(names)
    saving = (100 * (1 - table["exact"] / table[published])).round(6) + 0.0  # never -0.0
    return table.assign(**{"saving %": saving})


def _text(table):
    return table.to_string(
        formatters={"saving %": "{:.1f}".format}, float_format="{:.4g}".format, na_rep="-"
    )


# The figures


def _draw_plans(figure):
    shown = [name for name in FIGURES if name[0] in "12367"]
    for axes, name in zip(figure.subplots(1, len(shown)), shown, strict=True):
        secrets, user, _ = FIGURES[name]
        x, y, masses = optimal_plan(*_sums(_told_apart(user, secrets)))
        axes.plot([2, 21], [2, 21], ":", color="grey", lw=1)
        axes.scatter(x, y, s=8 + 900 * masses, color="tab:blue", alpha=0.7, edgecolor="black")
        axes.set(title=f"Figure {name}", aspect="equal", xlim=(2, 21), ylim=(2, 21))
        axes.set(xlabel=f"x   (moves by {abs(x - y).max():g} at most)")
        axes.set(xticks=range(5, 21, 5), yticks=range(5, 21, 5))
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("x'")
    figure.suptitle("001: optimal plans for the sum of users 1 to 4; larger dots, more mass")


def _draw_scales(figure, table):
    by_figure = {name[0]: table.xs(name, level="figure") for name in FIGURES}
    panels = {
        "4: P_4, or absent": {
            "Eq. (14)": by_figure["3"]["published"],
            "Eq. (13)": by_figure["4"]["published"],
        },
        "6: P_4 or Q_4": {
            "Theorem 4": by_figure["6"]["published"],
            "relaxed": by_figure["6"]["relaxed"],
        },
        "8: Bernoulli .2 or .9": {
            "Lemma 1": by_figure["7"]["published"],
            "Lemma 2": by_figure["8"]["published"],
            "Lemma 2, ours": by_figure["8"]["ours"],
        },
    }
    for axes, (title, lines) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        exact = by_figure[title[0]][["all others", "exact"]]
        _lines(axes, lines | exact.to_dict("series"))
        axes.set(title=f"Figure {title}", ylim=(0.0, None))
    figure.axes[0].set_ylabel("scale of the Laplace noise")
    figure.suptitle("001: the scale for user 4 beside users 1 to 3")


def _draw_classes(figure, removed, replaced):
    panels = {
        "Figure 5": (removed, ["Eq. (14)", "Eq. (13)", "all others", "exact"]),
        "Figure 9": (replaced, ["Lemma 1", "Lemma 2", "relaxed", "all others", "exact"]),
    }
    for row, (title, (table, names)) in zip(figure.subplots(2, 3), panels.items(), strict=True):
        for axes, reading in zip(row, table.index.unique("reading"), strict=True):
            _lines(axes, table.xs(reading, level="reading")[names].to_dict("series"))
            axes.set_title(f"{title}: {reading}")
            if title == "Figure 5":
                axes.set_ylim(0.0, None)
            else:  # from no noise at all to 10
                axes.set_yscale("symlog", linthresh=0.1)
                axes.set(ylim=(-0.02, 60.0), yticks=[0, 0.1, 1, 10])
                axes.set_yticklabels(["no noise", "0.1", "1", "10"])
        row[0].set_ylabel("scale of the Laplace noise")
    figure.suptitle("001, Figures 5 and 9: the scale that hides ONE row of a class")


STYLES = {  # marker, colour and width of the line; scales that agree stay visible
    "Eq. (14)": ("s", "tab:blue", 1.2),
    "Eq. (13)": ("x", "tab:red", 1.2),
    "Theorem 4": ("s", "tab:blue", 1.2),
    "Lemma 1": ("s", "tab:blue", 1.2),
    "Lemma 2": ("x", "tab:red", 1.2),
    "Lemma 2, ours": ("+", "tab:green", 1.2),
    "relaxed": ("^", "tab:green", 1.2),
    "all others": (None, "gold", 7.0),
    "exact": ("*", "black", 1.8),
}


def _lines(axes, lines):
    for name, line in lines.items():
        marker, colour, width = STYLES[name]
        over = 2 if name == "all others" else 3
        size = 9 if marker in ("x", "+") else 6
        axes.plot(line, marker=marker, ms=size, color=colour, lw=width, label=name, zorder=over)
    axes.set(xlabel="epsilon, in nats")
    axes.legend(loc="upper right", ncols=2)
    axes.grid(alpha=0.3)


if __name__ == "__main__":
    main()
