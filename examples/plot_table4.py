"""Table 4 of paper 000
====================

Print Table 4 of paper 000 side by side with what the same data needs here::

    python examples/plot_table4.py [--output FOLDER]

For five data sets and ten budgets: the published scale of the relaxed mechanism, the same condition
computed here (Eq. (11)), the smaller of the two sides, the exact strategy, and what exact saves on
the published figure. With matplotlib at hand, the table is also drawn to ``table4.png``.
"""

import argparse
from pathlib import Path

from _shared import save

from sklearn_puffer.bounds import Relaxed
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.datasets import published_table4, table4_contingencies
from sklearn_puffer.notions import Pufferfish

OURS = {"Eq. (11)": Relaxed(condition="eq11"), "smaller side": Relaxed(), "exact": "exact"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder for the figure")
    folder = parser.parse_args().output

    table = side_by_side()
    for title, rows in table.groupby(level="dataset", sort=False):
        print(f"\n{title}: scale of the Laplace noise, in units of one code\n")
        print(rows.droplevel("dataset").to_string(float_format="{:.2f}".format))
    saving = table["saving %"]
    print(f"\nThe exact strategy saves {saving.min():.0f} to {saving.max():.0f} % of the noise.")
    n_tables = table.index.unique("dataset").size
    save(folder, [("table4", (3.2 * n_tables, 3.2), lambda figure: _draw(figure, table))])


def side_by_side():
    """Return a row for each data set and budget: published, ours and the saving in per cent."""
    published = published_table4().xs("relaxed", level="strategy").stack()
    table = published.to_frame("published")
    for name, strategy in OURS.items():
        table[name] = [_scale(title, epsilon, strategy) for title, epsilon in table.index]
    table["saving %"] = 100 * (1 - table["exact"] / table["published"])
    return table


def _scale(title, epsilon, strategy):
    pair = table4_contingencies()[title].pair()
    return calibrate([pair], Pufferfish(epsilon), strategy=strategy).scale


def _draw(figure, table):
    titles = table.index.unique("dataset")
    for axes, title in zip(figure.subplots(1, len(titles)), titles, strict=True):
        for name in ["published", *OURS]:
            axes.plot(table.loc[title, name], marker=".", label=name)
        axes.set(title=title, xlabel="epsilon")
    axes.legend()
    figure.axes[0].set_ylabel("scale of the noise")


if __name__ == "__main__":
    main()
