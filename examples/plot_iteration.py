"""Noisy iterations (paper 004, Figures 5 and 6)
=============================================

Print Figures 5 and 6 of paper 004 beside what holds, and draw them::

    python examples/plot_iteration.py [--output FOLDER]

W_t = W_(t-1) + X_t + N_t adds a record and noise at every step, and only the last W is released.
How much does it tell about one record, when the others are correlated with it? "published (1)" and
"published (2)" are the paper's formulas, computed apart: the first spreads the moves equally over
the noises (Prop. F.2), the second hides each where it occurs (Prop. 6.4). "ours" spreads them
optimally. All three bound the loss of any iteration whose steps move as far. "exact" is the loss of
this linear one, for jointly Gaussian records of variance 1, whose own randomness hides a part.
With matplotlib at hand, ``iteration_figures56.png`` and ``iteration_place.png`` are drawn.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from _shared import save

from sklearn_puffer.iteration import iteration_loss, joint_shifts, worst_shifts
from sklearn_puffer.noise import Gaussian

ALPHA = 2.0  # with noise and moves of size 1, as in the paper: a move a costs a^2
FIGURE_5 = {"0": 0.0, "0.1": 0.1, "0.2": 0.2, "0.8": 0.8, "1": 1.0}
FIGURE_6 = {"0": 0.0, "0.1": 0.1, "1/t": lambda t: 1 / t, "1/t^2": lambda t: 1 / t**2}
PRINTED = [1, 10, 100, 1000]
PLACES = [1, 25, 50, 75, 100]
CONTRACTIONS = [1.0, 0.99, 0.9, 0.5]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder for the figures")
    arguments = parser.parse_args()

    both = FIGURE_5 | FIGURE_6
    sections = {
        "Figures 5 and 6: the secret is the first record; rho_t correlates it with record t": (
            pd.concat({name: by_iterations(rho, PRINTED) for name, rho in both.items()})
        ),
        "100 iterations: the secret is record i": pd.concat(
            {name: by_place(both[name], PLACES) for name in ("0", "0.1", "1/t")}
        ),
        "100 iterations that bring points closer, by a factor c each; the first record": pd.concat(
            {name: by_contraction(both[name], CONTRACTIONS) for name in ("0", "0.1", "1/t")}
        ),
        "Theorem 5.2: X_2 = X_1 against X_2 = -X_1, a fair sign; what W_2 tells": theorem_52(),
    }
    for title, table in sections.items():
        text = table.to_string(float_format="{:.4g}".format, na_rep="-")
        print(f"{title}\n\n{text}\n")
    print(FOOTNOTES)
    figures = [
        ("iteration_figures56", (11, 5.0), _draw_figures),
        ("iteration_place", (11, 4.4), _draw_place),
    ]
    save(arguments.output, figures)


FOOTNOTES = """\
In nats, of Renyi order 2, for moves and noise of size 1. Where rho is 1, or records have no
randomness of their own, (1) is exact. It needs moves that do not grow, so the secret must be the
first record; other places have Lemma F.1 for rho 0, and only (2) else. Neither knows c. Theorem 5.2
as printed looks at each step apart, where the two distributions agree; one joint coupling finds the
move."""


# The three tables


def by_iterations(rho, counts):
    """Return a row for each number of iterations, the secret being the first record."""
    return _rows("T", counts, lambda steps: losses(rho, steps, 0))


def by_place(rho, places, steps=100):
    """Return a row for each record, counted from 1, that is the secret."""
    return _rows("i", places, lambda place: losses(rho, steps, place - 1))


def by_contraction(rho, factors, steps=100):
    """Return a row for each factor by which a step brings any two points closer."""
    return _rows("c", factors, lambda factor: losses(rho, steps, 0, factor))


def losses(rho, steps, index, factor=1.0):
    """Return the losses as the paper has them, as the package bounds them, and as they are."""
    moves = np.abs(correlations(rho, steps)[np.abs(np.arange(steps) - index)])
    shifts = worst_shifts(_declared(rho, steps), steps, distance=1.0, records=[index])
    ours = iteration_loss(shifts, 1.0, ALPHA, contractions=factor)
    return {
        "published (1)": spread_equally(rho, moves, index),
        "published (2)": (moves**2).sum(),
        "ours": ours,
        "exact": exact(rho, steps, index, factor),
    }


def spread_equally(rho, moves, index):
    """Return Eq. (1) for the first record, and Lemma F.1 for another that is independent."""
    if index == 0:
        return moves.sum() ** 2 / len(moves)
    return 1.0 / (len(moves) - index) if rho == 0.0 else np.nan


def exact(rho, steps, index, factor=1.0):
    """Return the divergence of two Gaussian W_T, of other means and the same variance."""
    weights = factor ** np.arange(steps - 1, -1, -1.0)  # of each record and noise in W_T
    table = correlations(rho, steps)
    to_secret = table[np.abs(np.arange(steps) - index)]
    # the sum over all pairs of records, by how far they lie apart
    products = [weights[k:] @ weights[: steps - k] for k in range(steps)]
    of_records = 2.0 * table @ products - products[0]
    moved = weights @ to_secret
    spread = max(of_records - moved**2, 0.0) + weights @ weights
    return float(Gaussian(np.sqrt(spread)).renyi_divergence([moved], ALPHA))


def correlations(rho, steps):
    """Return the correlations of records k = 0, 1, ... steps apart."""
    apart = np.arange(1.0, steps + 1)
    return rho(apart) if callable(rho) else np.where(apart == 1.0, 1.0, rho)


def _declared(rho, steps):
    return correlations(rho, steps) if callable(rho) else rho


def theorem_52():
    """Return the bound as printed, ours by one joint coupling, and the exact divergence."""
    left, right = np.array([[1, 1], [-1, -1]]), np.array([[1, -1], [-1, 1]])
    apart = joint_shifts(np.sort(left, axis=0), np.sort(right, axis=0))  # each step by itself
    joint = joint_shifts(left, right)
    row = {
        "published": iteration_loss(apart, 1.0, ALPHA),
        "ours": iteration_loss(joint, 1.0, ALPHA),
        "exact": np.log(np.cosh(2.0)),  # N(-2, 2) or N(2, 2), against N(0, 2)
    }
    return pd.DataFrame([row], index=["D_2"])


def _rows(name, keys, row):
    return pd.DataFrame({key: row(key) for key in keys}).T.rename_axis(name)


# The figures

STYLES = {"published (1)": "x", "published (2)": ":", "ours": "-", "exact": "--"}


def _draw_figures(figure):
    counts = np.unique(np.geomspace(1, 1000, 25).astype(int))
    for axes, (title, distributions) in zip(
        figure.subplots(1, 2, sharey=True),
        {"Figure 5": FIGURE_5, "Figure 6": FIGURE_6}.items(),
        strict=True,
    ):
        _draw_curves(
            axes, {name: by_iterations(rho, counts) for name, rho in distributions.items()}
        )
        axes.set(title=title, xscale="log", yscale="log", xlabel="number of iterations")
    figure.suptitle("004, Figures 5 and 6: what the last iterate tells about the first record")
    _label(figure)


def _draw_place(figure):
    places = np.arange(1, 101, 3)
    left, right = figure.subplots(1, 2, sharey=True)
    distributions = {name: (FIGURE_5 | FIGURE_6)[name] for name in ("0", "0.1", "1/t")}
    _draw_curves(left, {name: by_place(rho, places) for name, rho in distributions.items()})
    left.set(title="the secret is another record", xlabel="place of the record")
    left.set(yscale="log", ylim=(3e-4, 5.0))
    away = np.geomspace(0.001, 0.5, 25)
    tables = {name: by_contraction(rho, 1.0 - away) for name, rho in distributions.items()}
    _draw_curves(right, {name: table.set_index(away) for name, table in tables.items()})
    right.set(
        title="the first record, steps that contract",
        xscale="log",
        xlabel="1 - c, c the contraction",
    )
    figure.suptitle("100 iterations: what the paper's formulas leave out")
    _label(figure)


def _draw_curves(axes, tables):
    for number, (name, table) in enumerate(tables.items()):
        for column, style in STYLES.items():
            label = f"rho {name}" if column == "ours" else None
            axes.plot(table[column], style, color=f"C{number}", label=label, alpha=0.9)
    axes.grid(alpha=0.3)
    axes.legend()


def _label(figure):
    figure.axes[0].set_ylabel("Renyi loss of order 2, in nats")
    lines = [figure.axes[0].plot([], [], style, color="black")[0] for style in STYLES.values()]
    figure.legend(lines, list(STYLES), loc="outside lower center", ncols=len(STYLES))


if __name__ == "__main__":
    main()
