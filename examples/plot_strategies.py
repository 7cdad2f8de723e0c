"""Strategies, noises and guarantees
=================================

Print and draw the noise that each strategy asks for, by noise family and by guarantee::

    python examples/plot_strategies.py [--output FOLDER] [--budgets EPSILON ...]

The table is Student Performance of paper 004, Table 1: the final grade in mathematics (0 to 20),
which is released, given whether a student takes extra paid classes, which is protected. Guarantees
are pure epsilon, (epsilon, delta) and Renyi of order alpha. Strategies that do not exist for a
noise and a guarantee leave a gap, and the reason is printed. With matplotlib at hand,
``strategies.png`` is drawn.
"""

import argparse
from pathlib import Path

import pandas as pd
from _shared import save

from sklearn_puffer.calibration import STRATEGIES, calibrate
from sklearn_puffer.datasets import table1_priors
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish

DELTA, ALPHA = 0.01, 2.0
PROMISES = {
    "pure": Pufferfish,
    f"delta = {DELTA}": lambda epsilon: Pufferfish(epsilon, DELTA),
    f"Renyi, alpha = {ALPHA:g}": lambda epsilon: RenyiPufferfish(epsilon, ALPHA),
}
NOISES = {
    "Laplace": Laplace(),
    "Gaussian": Gaussian(),
    "Cauchy": Cauchy(),
    "generalised Cauchy, k = 6": GeneralizedCauchy(1.0, 6.0),
}
NAMES = [name for name in STRATEGIES if name != "monge"]  # which is for Gaussian priors
STYLES = {  # marker, colour and width of the line; strategies that agree stay visible
    "sensitivity": ("s", "tab:blue", 1.2),
    "wasserstein": ("D", "tab:orange", 4.0),
    "relaxed": ("^", "tab:green", 1.2),
    "approximate": ("v", "tab:red", 1.8),
    "distribution_aware": ("o", "tab:purple", 1.0),
    "exact": ("*", "black", 2.0),
}
BUDGETS = [0.1, 0.2, 0.5, 1.0, 2.0, 4.0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder for the figure")
    parser.add_argument("--budgets", type=float, nargs="+", default=BUDGETS, metavar="EPSILON")
    arguments = parser.parse_args()

    table, reasons = every_combination(arguments.budgets)
    print("Scale of the noise, in grade points. saving %: of exact on the best of the others.\n")
    for promise, rows in table.groupby(level="promise", sort=False):
        print(f"{promise}\n\n{_text(rows.droplevel('promise'))}\n")
    print("What the gaps are:\n")
    for reason in reasons:
        print(f"- {reason}")
    print()
    save(arguments.output, [("strategies", (13, 9), lambda figure: _draw(figure, table))])


def every_combination(budgets):
    """Return the scales by guarantee, noise and budget, and the reasons for those missing."""
    rows, reasons = {}, {}
    for promise, notion in PROMISES.items():
        for title, noise in NOISES.items():
            for epsilon in budgets:
                rows[promise, title, epsilon] = {
                    name: _scale(noise, notion(epsilon), name, reasons) for name in NAMES
                }
    table = pd.DataFrame(rows).T.rename_axis(["promise", "noise", "epsilon"])
    table["saving %"] = 100 * (1 - table["exact"] / table[NAMES[:-1]].min(axis=1))
    return table, list(reasons)


def _scale(noise, notion, strategy, reasons):
    """Return the scale, or nothing where there is none: then the reason is noted."""
    pair = tuple(table1_priors()["Student Scores"].values())
    try:
        return calibrate([pair], notion, noise=noise, strategy=strategy).scale
    except ValueError as error:
        reasons[str(error).split("; ")[0].split(", got ")[0]] = None
        return float("nan")


def _text(table):
    return table.to_string(
        formatters={"saving %": "{:.1f}".format}, float_format="{:.3f}".format, na_rep="-"
    )


def _draw(figure, table):
    grid = figure.subplots(len(PROMISES), len(NOISES), sharex=True, sharey=True)
    panels = dict(tuple(table.groupby(level=["promise", "noise"])))
    for promise, row in zip(PROMISES, grid, strict=True):
        for noise, axes in zip(NOISES, row, strict=True):
            _panel(axes, panels[promise, noise].droplevel(["promise", "noise"]))
        row[0].set_ylabel(f"{promise}\nscale of the noise, in grade points")
    for noise, axes in zip(NOISES, grid[0], strict=True):
        axes.set_title(noise)
    for axes in grid[-1]:
        axes.set_xlabel("epsilon, in nats")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    figure.suptitle("Student Scores: the grade (0 to 20), given extra paid classes (no, yes)")


def _panel(axes, rows):
    for name, (marker, colour, width) in STYLES.items():
        axes.plot(rows[name], marker=marker, markersize=4, color=colour, lw=width, label=name)
    axes.set_xscale("log")
    axes.set_xticks(rows.index, [f"{epsilon:g}" for epsilon in rows.index])
    axes.set_yscale("symlog", linthresh=0.01)
    axes.set_ylim(-0.002, 1000.0)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    if rows[NAMES].isna().all(axis=None):
        text = "no strategy: the priors differ\nin their largest grade"
        axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)


if __name__ == "__main__":
    main()
