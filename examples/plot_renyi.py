"""Renyi privacy (paper 004)
=========================

Print the closed forms, examples and Table 1 of paper 004 beside what holds, and draw them::

    python examples/plot_renyi.py [--output FOLDER] [--budgets EPSILON ...]

Corollary 3.1 and Lemma D.1: the Renyi loss of a shift. Examples 1 to 3. Table 1: sensitivities of
three real tables, and the noise that follows from them. Last, Cauchy noise by the mechanisms of the
paper, GWM (``"wasserstein"``), GAWM (by ``couplings.near``) and DAGWM (``"distribution_aware"``),
at the same budget. With matplotlib at hand, ``renyi_shifts.png``, ``renyi_example1.png`` and
``renyi_mechanisms.png`` are drawn. All counts come with the package.
"""

import argparse
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from _shared import save
from scipy.special import eval_legendre

from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.calibration import STRATEGIES, calibrate
from sklearn_puffer.couplings import near, w_infinity, w_p
from sklearn_puffer.datasets import published_table1, table1_priors
from sklearn_puffer.noise import Cauchy, Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import Discrete, PriorPair

ALPHA, DELTA = 2.0, 0.05
BUDGETS = [0.2, 0.5, 1.0, 2.0, 4.0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder for the figures")
    parser.add_argument("--budgets", type=float, nargs="+", default=BUDGETS, metavar="EPSILON")
    arguments = parser.parse_args()

    examples, mechanisms = example1(), cauchy_mechanisms(arguments.budgets)
    sections = {
        "Corollary 3.1 and Lemma D.1: Renyi loss of a shift by 1, in nats": shifts(),
        "Example 1: a counting query of two fair bits, Cauchy noise of scale 2, D_2": examples,
        "Example 2: two salaries, the pair (1, 100); Laplace noise, epsilon 1": example2(),
        "Example 3: X1 in 0..2, X2 in 0..3, r = 5; Laplace noise, epsilon 1": example3(),
        "Table 1: sensitivities, in the units of the column": table1(),
        "Table 1: Laplace noise for Heart, whose W_inf is printed as 8": heart_with_8(),
        "Table 1: scale of the noise for alpha 2 and epsilon 1": noise_of_table1(),
        f"Cauchy noise: its scale for alpha {ALPHA:g}; GAWM with delta {DELTA}": mechanisms,
    }
    for title, table in sections.items():
        print(f"{title}\n\n{_text(table)}\n")
    print("saving %: of exact on the published figure, on DAGWM in Example 1, GAWM in Example 2.")
    figures = [
        ("renyi_shifts", (12, 4.2), _draw_shifts),
        ("renyi_example1", (10, 4.2), lambda figure: _draw_example1(figure, examples)),
        ("renyi_mechanisms", (10, 4.6), lambda figure: _draw_mechanisms(figure, mechanisms)),
    ]
    save(arguments.output, figures)


# Corollary 3.1 and Lemma D.1


def laplace_loss(z, scale, alpha):
    """Return the loss of a Laplace shift as Corollary 3.1 prints it, which is right."""
    u = z / scale
    near, far = alpha * np.exp((alpha - 1) * u), (alpha - 1) * np.exp(-alpha * u)
    return np.log((near + far) / (2 * alpha - 1)) / (alpha - 1)


def gaussian_loss(z, scale, alpha):
    """Return the loss of a Gaussian shift as Corollary 3.1 prints it, which is right."""
    return alpha * z**2 / (2 * scale**2)


def cauchy_loss(z, scale, alpha):
    """Return the loss of a Cauchy shift as Lemma D.1 prints it, lambda taken for the scale.

    The argument should be 1 + z^2 / (2 scale^2).
    """
    return np.log(eval_legendre(int(alpha) - 1, 1 + (z / scale) ** 2)) / (alpha - 1)


PRINTED = {
    "Laplace": (laplace_loss, Laplace),
    "Gaussian": (gaussian_loss, Gaussian),
    "Cauchy": (cauchy_loss, Cauchy),
}


def shifts():
    """Return a row for each noise, order and scale: published, ours, exact, and the difference."""
    rows = {}
    for name, (printed, family) in PRINTED.items():
        for alpha in (2.0, 8.0):
            for scale in (0.5, 2.0):
                notion = RenyiPufferfish(1.0, alpha)
                rows[name, alpha, scale] = {
                    "published": float(printed(1.0, scale, alpha)),
                    "ours": float(family(scale).renyi_divergence([1.0], alpha)),
                    "exact": privacy_loss(_point(0), _point(1), family(scale), notion).upper,
                }
    table = pd.DataFrame(rows).T.rename_axis(["noise", "alpha", "scale"])
    return table.assign(**{"saving %": _saving(table["exact"], table["published"])})


# Examples 1 to 3


def counting_query(correlation):
    """Return the priors of X1 + X2 given X1 = 0 and X1 = 1, for fair bits."""
    share = (1 + Fraction(str(correlation))) / 2
    same, other = share.numerator, share.denominator - share.numerator
    first, second = ([0, 1], [same, other]), ([1, 2], [other, same])
    return Discrete.from_counts(*first), Discrete.from_counts(*second)


def example1(scale=2.0):
    """Return a row for each correlation: distances and losses, as printed and as they are."""
    noise, notion = Cauchy(scale), RenyiPufferfish(1.0, 2.0)
    rows = {}
    for tenths in range(-8, 11, 2):
        rho = tenths / 10
        pair = counting_query(rho)
        rows[rho] = {
            "W_2^2 published": 1 + 3 * rho,
            "W_2^2": w_p(*pair, 2) ** 2,
            "GWM published": cauchy_loss(2.0, scale, 2.0),
            "GWM": _loss("wasserstein", pair, noise, notion),
            "DAGWM published": np.log1p((1 + 3 * rho) / scale**2),
            "DAGWM": _loss("distribution_aware", pair, noise, notion),
            "exact": privacy_loss(*pair, noise, notion).upper,
        }
    table = pd.DataFrame(rows).T.rename_axis("rho")
    return table.assign(**{"saving %": _saving(table["exact"], table["DAGWM"])})


def example2():
    """Return a row for the average and the sum of two salaries, of which one is the secret."""
    salary = Discrete.from_counts([1, 2, 100], [500, 499, 1])
    rows = {}
    for query, share in (("average", 0.5), ("sum", 1.0)):
        pair = tuple(salary.moved(share * (salary.rows + known)) for known in (1, 100))
        notion = Pufferfish(1.0, 0.003)
        rows[query] = {
            "Delta_G published": 98.0 if query == "average" else np.nan,
            "Delta_G": w_infinity(*pair),
            "Delta_G,.003 published": 1.0 if query == "average" else np.nan,
            "Delta_G,.003": _near(pair, 0.003),
            "GWM": _scale("wasserstein", [pair], Pufferfish(1.0)),
            "GAWM": _scale("approximate", [pair], notion),
            "exact": _scale("exact", [pair], notion),
        }
    table = pd.DataFrame(rows).T
    return table.assign(**{"saving %": _saving(table["exact"], table["GAWM"])})


def example3():
    """Return a row for each dependence of two users: group privacy, published, ours and exact."""
    together = np.array([[2, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 2]])  # rows: X1, columns: X2
    joint = {
        "independent": np.ones_like(together),
        "half and half": np.ones_like(together) + 2 * together,
        "rising together": together,
    }
    sums = np.add.outer(np.arange(3), np.arange(4))
    rows = {}
    for name, counts in joint.items():
        pairs = _priors_of_sums(sums, counts) + _priors_of_sums(sums.T, counts.T)
        rows[name] = {
            "group privacy, 2 r": 10.0,
            "published, r1 + r2": 5.0,
            "W_inf": max(w_infinity(*pair) for pair in pairs),
            "exact": _scale("exact", pairs, Pufferfish(1.0)),
        }
    table = pd.DataFrame(rows).T
    return table.assign(**{"saving %": _saving(table["exact"], table["published, r1 + r2"])})


def _priors_of_sums(sums, counts):
    """Return the pairs of priors of the sum, given the value of the first user."""
    priors = [Discrete.from_counts(row, some) for row, some in zip(sums, counts, strict=True)]
    return list(combinations(priors, 2))


# Table 1 and the mechanisms


def table1():
    """Return a row for each table: its three sensitivities, as printed and as they are."""
    published, rows = published_table1(), {}
    for title in table1_priors():
        pairs = _pairs(title)
        ours = {
            "sensitivity": max(np.ptp(np.concatenate([p.rows, q.rows])) for p, q in pairs),
            "W_inf": max(w_infinity(*pair) for pair in pairs),
            "W_2": max(w_p(*pair, 2) for pair in pairs),
        }
        printed = title.replace(" (Cleveland)", "")
        rows[title] = {
            key: value
            for name in ours
            for key, value in (
                (f"{name} published", published[name].get(printed, np.nan)),
                (name, ours[name]),
            )
        }
    return pd.DataFrame(rows).T


def heart_with_8():
    """Return a row for each budget: the noise that W_inf = 8 asks for, and what it loses."""
    pairs, rows = _pairs("Heart (Cleveland)"), {}
    for epsilon in (1.0, 2.0, 3.0, 6.0, 10.0):
        notion, noise = Pufferfish(epsilon), Laplace(8.0 / epsilon)
        rows[epsilon] = {
            "published": noise.scale,
            "its loss": max(privacy_loss(*pair, noise, notion).upper for pair in pairs),
            "W_inf": _scale("wasserstein", pairs, notion),
            "exact": _scale("exact", pairs, notion),
        }
    table = pd.DataFrame(rows).T.rename_axis("epsilon")
    return table.assign(**{"saving %": _saving(table["exact"], table["published"])})


def noise_of_table1():
    """Return a row for each table and noise: by the printed sensitivities, ours and exact."""
    notion, rows = RenyiPufferfish(1.0, ALPHA), {}
    for title, printed in published_table1().iterrows():
        pairs = _pairs("Heart (Cleveland)" if title == "Heart" else title)
        published = {"gaussian": printed["W_inf"], "cauchy": _cauchy_scale(printed["W_2"], 1.0)}
        for noise, scale in published.items():
            rows[title, noise] = {
                "published": scale,
                "GWM": _scale("wasserstein", pairs, notion, noise),
                "DAGWM": _scale("distribution_aware", pairs, notion, noise),
                "exact": _scale("exact", pairs, notion, noise),
            }
    table = pd.DataFrame(rows).T.rename_axis(["table", "noise"])
    return table.assign(**{"saving %": _saving(table["exact"], table["published"])})


def cauchy_mechanisms(budgets):
    """Return a row for each table and budget: the scale of Cauchy noise by each mechanism."""
    rows = {}
    for title in ("Student Scores", "Heart (Cleveland)"):
        pairs = _pairs(title)
        for epsilon in budgets:
            notion = RenyiPufferfish(epsilon, ALPHA)
            rows[title, epsilon] = {
                "GWM": _scale("wasserstein", pairs, notion, "cauchy"),
                "GAWM published": _printed_gawm(pairs, epsilon),
                "GAWM": _gawm(pairs, notion),
                "DAGWM published": _cauchy_scale(max(w_p(*pair, 2) for pair in pairs), epsilon),
                "DAGWM": _scale("distribution_aware", pairs, notion, "cauchy"),
                "exact": _scale("exact", pairs, notion, "cauchy"),
            }
    table = pd.DataFrame(rows).T.rename_axis(["table", "epsilon"])
    return table.assign(**{"saving %": _saving(table["exact"], table["DAGWM published"])})


def _cauchy_scale(w_2, epsilon):
    """Return what Corollary 4.1 prints for alpha = k = 2: log(1 + W_2^2 / scale^2) = epsilon."""
    return w_2 / np.sqrt(np.expm1(epsilon))


def _printed_gawm(pairs, epsilon):
    """Return the scale of Theorem 4.3 with its term in log 1/(1 - delta), which is not needed."""
    left = epsilon + ALPHA / (ALPHA - 1) * np.log1p(-DELTA)
    if left <= 0.0:
        return np.nan
    return _gawm(pairs, RenyiPufferfish(left, ALPHA))


def _gawm(pairs, notion):
    """Return the scale for shifts by the z for which priors are (z, delta)-near (Theorem 4.3)."""
    z = max(_near(pair, DELTA) for pair in pairs)
    return _scale("wasserstein", [(_point(0), _point(z))], notion, "cauchy")


# What the sections share


def _pairs(title):
    return list(combinations(table1_priors()[title].values(), 2))


def _point(value):
    return Discrete([float(value)], [1.0])


def _near(pair, delta):
    """Return the least z for which the priors are (z, delta)-near."""
    p, q = pair
    return next(z for z in np.unique(np.abs(p.rows - q.rows.T)) if near(p, q, z) <= delta)


def _loss(strategy, pair, noise, notion):
    return float(STRATEGIES[strategy]([PriorPair(*pair)], noise, notion).losses(1.0).max())


def _scale(strategy, pairs, notion, noise="laplace"):
    return calibrate(pairs, notion, noise=noise, strategy=strategy).scale


def _saving(ours, theirs):
    return (100 * (1 - ours / theirs)).round(6) + 0.0  # never -0.0


def _text(table):
    return table.to_string(
        formatters={"saving %": "{:.1f}".format}, float_format="{:.4g}".format, na_rep="-"
    )


def _draw_shifts(figure):
    scales = np.geomspace(0.2, 10.0, 25)
    for axes, (name, (printed, family)) in zip(
        figure.subplots(1, 3, sharey=True), PRINTED.items(), strict=True
    ):
        for alpha, colour in ((2.0, "tab:blue"), (8.0, "tab:orange")):
            ours = [float(family(scale).renyi_divergence([1.0], alpha)) for scale in scales]
            axes.plot(scales, ours, color=colour, label=f"alpha {alpha:g}")
            axes.plot(
                scales[::3], printed(1.0, scales[::3], alpha), "x", color=colour, label="as printed"
            )
        axes.set(title=name, xscale="log", yscale="log", xlabel="scale of the noise / shift")
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("Renyi loss of the shift, in nats")
    figure.axes[0].legend()
    figure.suptitle("004, Corollary 3.1 and Lemma D.1: only the Cauchy form is misprinted")


def _draw_example1(figure, table):
    left, right = figure.subplots(1, 2)
    left.plot(table["W_2^2 published"], "x--", color="tab:red", label="as printed, 1 + 3 rho")
    left.plot(table["W_2^2"], "o-", color="black", label="as it is")
    left.set(ylabel="W_2 squared")
    for name, style in {
        "GWM published": "x--",
        "GWM": "s-",
        "DAGWM published": "+--",
        "DAGWM": "o-",
        "exact": "*-",
    }.items():
        line = right.plot(table[name], style, label=name)[0]
        if name == "GWM":  # W_inf is 1 up to rho = 0 and 2 beyond
            line.set_drawstyle("steps-pre")
        if name == "exact":
            line.set_color("black")
    right.set(ylabel="loss of order 2, in nats, at scale 2")
    for axes in (left, right):
        axes.set(xlabel="correlation rho")
        axes.grid(alpha=0.3)
        axes.legend()
    figure.suptitle("004, Example 1: a counting query of two fair bits, Cauchy noise")


def _draw_mechanisms(figure, table):
    titles = table.index.unique("table")
    styles = {
        "GWM": "s-",
        "GAWM": "v-",
        "DAGWM published": "x--",
        "DAGWM": "o-",
        "exact": "*-",
    }
    for axes, title in zip(figure.subplots(1, len(titles)), titles, strict=True):
        rows = table.xs(title, level="table")
        for name, style in styles.items():
            label = f"{name}, delta {DELTA}" if name == "GAWM" else name
            axes.plot(rows[name], style, color="black" if name == "exact" else None, label=label)
        axes.set(title=title, xscale="log", yscale="log", xlabel="epsilon, in nats")
        axes.set_xticks(rows.index, [f"{epsilon:g}" for epsilon in rows.index])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("scale of the Cauchy noise")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    figure.suptitle(f"Cauchy noise by the mechanisms of 004, Renyi of order {ALPHA:g}")


if __name__ == "__main__":
    main()
