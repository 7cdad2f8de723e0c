"""Gaussian priors and mixtures (paper 003)
========================================

Print and draw Figures 1 to 5 of paper 003 beside what the same priors need here::

    python examples/plot_gaussian_priors.py [--output FOLDER] [--tables FOLDER]

Gaussian priors and mixtures of three Gaussians, Laplace noise. ``monge`` is the closed form of the
paper, Theorems 1 and 2; ``approximate`` and ``distribution_aware`` are sound for mixtures too;
``exact`` is the smallest scale there is. The paper draws its scales and prints none, so the column
"published" holds its formulas, computed apart.

The mixtures come with the package. With the public tables ``adult.csv`` and ``heart-hungarian.csv``
at hand they are fitted again, and the rows are drawn behind them. With matplotlib at hand,
``gaussian_figure1.png``, ``..2.png``, ``..34.png`` and ``..5.png`` are drawn.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from _shared import save, tables_folder
from scipy.optimize import linprog
from scipy.special import lambertw, log_ndtr, ndtri
from scipy.stats import norm

from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.datasets import fitted_gaussians, fitted_mixtures
from sklearn_puffer.fits import MixtureFit
from sklearn_puffer.noise import Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import GaussianMixture, PriorPair

OURS = ("monge", "approximate", "distribution_aware", "exact")
DELTAS = (0.5, 0.3, 0.1, 0.01)
SECRETS = {  # file, rows of it, public and sensitive column, the two secrets, unit
    "Adult": ("adult.csv", 32_561, "education-num", "race", ("Black", "Asian-Pac-Islander")),
    "Hungarian": ("heart-hungarian.csv", None, "chol", "sex", (0, 1)),
}
LABELS = {
    "Adult": ("years of education", "Black", "Asian-Pac-Islander"),
    "Hungarian": ("cholesterol, mg/dl", "female", "male"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder for the figures")
    parser.add_argument(
        "--tables",
        type=Path,
        default=tables_folder(),
        help="folder of the public tables",
    )
    arguments = parser.parse_args()

    rows, missing = read_rows(arguments.tables)
    users, tables = figure2(), figures3_and_4(fitted_mixtures(), DELTAS)
    sections = {
        "Figure 1: largest abs(log P(y)/P'(y)), X ~ N(0, 1), X' ~ N(1, 1.6^2)": figure1(),
        "Figure 2: scale for K users of mean 1; epsilon 1, delta 0.3": users,
        "Theorem 1: one Gaussian for each secret; epsilon 1": figures3_and_4(fitted_gaussians()),
        "Figures 3 and 4, Theorem 2: three Gaussians for each secret; epsilon 1": tables,
        "Theorem 2 and Corollary 2 where they break their guarantee; epsilon 1": broken_promises(),
        "Figure 5: tau(delta), the scale for N(0, 1) and N(0, 2^2); epsilon 1": figure5(),
    }
    if rows:
        fitted = {title: fit(found) for title, found in rows.items()}
        sections["Figures 3 and 4, fitted here"] = figures3_and_4(fitted, (0.5, 0.3))
    for title, table in sections.items():
        print(f"{title}\n\n{_text(table)}\n")
    print("its loss: the true delta at the published scale (for Corollary 2 the true epsilon).")
    print("saving %: of exact on the published scale; below 0 the published noise is too small.")
    for reason in missing:
        print(f"Skipped fitting again: {reason}")
    figures = [
        ("gaussian_figure1", (12, 3.8), _draw_figure1),
        ("gaussian_figure2", (14, 3.8), lambda figure: _draw_figure2(figure, users)),
        ("gaussian_figure34", (15, 7), lambda figure: _draw_figures34(figure, tables, rows)),
        ("gaussian_figure5", (5.5, 3.8), _draw_figure5),
    ]
    save(arguments.output, figures)


# Figure 1: noise of the same variance


def figure1():
    """Return a row for each noise: the published figure, the largest in a window, and exact.

    The paper prints neither its priors nor the range of y that it looked at. These priors give
    about its figure for Laplace noise. With Gaussian noise the log ratio grows like y^2, since the
    variances differ: there is no largest.
    """
    pair, y = _figure1_priors(), np.linspace(-20.0, 20.0, 4001)
    rows = {}
    for name, noise, published in (
        ("Laplace(4), variance 32", Laplace(4.0), 0.2992),
        ("Gaussian, variance 32", Gaussian(np.sqrt(32.0)), 0.0156),
        ("Gaussian, variance 8", Gaussian(np.sqrt(8.0)), 0.0156),
    ):
        log_p, log_q = (log_density(prior, noise, y) for prior in pair)
        exact = privacy_loss(*pair, noise, Pufferfish(1.0)).upper
        rows[name] = {
            "published": published,
            "abs(y) <= 20": np.abs(log_p - log_q).max(),
            "exact": exact,
        }
    return pd.DataFrame(rows).T


def _figure1_priors():
    return _gaussians((0.0, 1.0), (1.0, 1.6))


def log_density(prior, noise, y):
    """Return the log density of X + N at each y, for X from a mixture."""
    z, spread = y[:, None] - prior.means, prior.scales
    if isinstance(noise, Gaussian):
        parts = norm.logpdf(z, scale=np.hypot(spread, noise.scale))
    else:
        b = noise.scale
        sides = [log_ndtr(sign * z / spread - spread / b) - sign * z / b for sign in (-1, 1)]
        parts = 0.5 * (spread / b) ** 2 - np.log(2 * b) + np.logaddexp(*sides)
    return np.logaddexp.reduce(np.log(prior.weights) + parts, axis=1)


# Figure 2: sums over users


def figure2():
    """Return a row for each variance and number of users, Eq. (11) beside ours."""
    rows = {}
    for variance in (1, 4, 9, 16, 25):
        for users in (1, 2, 3, 5, 10, 30, 100, 1000):
            sd, others = np.sqrt(variance), np.sqrt(users - 1.0)
            published = 1.0 + (np.sqrt(users) - others) * sd * tau(0.3)
            # a single user who is absent leaves a sum of 0: a point, here a very narrow Gaussian
            pair = _gaussians(
                (users - 1.0, max(others * sd, 1e-9)), (float(users), np.sqrt(users) * sd)
            )
            rows[variance, users] = {"published": published, **scales(pair, 0.3)}
    return _with_saving(rows, ["variance", "K"])


def tau(delta):
    """Return Q^-1(delta / 2), Theorem 1."""
    return -float(ndtri(delta / 2.0))


def scales(pair, delta, epsilon=1.0):
    """Return the scale of the Laplace noise by each strategy, within (epsilon, delta)."""
    notion = Pufferfish(epsilon, delta)
    return {name: calibrate([pair], notion, strategy=name).scale for name in OURS}


# Figures 3 and 4: two tables


def figures3_and_4(priors, deltas=DELTAS):
    """Return a row for each table and delta: Theorem 2, its loss, and ours."""
    rows = {}
    for title, pair in priors.items():
        for delta in deltas:
            published = theorem2(pair, delta)
            loss = privacy_loss(*pair, Laplace(published), Pufferfish(1.0, delta)).upper
            rows[title, delta] = {
                "published": published,
                "its loss": loss,
                **scales(pair, delta),
            }
    return _with_saving(rows, ["table", "delta"])


def theorem2(pair, delta, epsilon=1.0):
    """Return the scale of Theorem 2: the mean over the plan between components; Thm 1 for one."""
    p, q = pair
    means, spreads = (
        np.abs(np.subtract.outer(getattr(p, name), getattr(q, name)))
        for name in ("means", "scales")
    )
    weights = plan(p.weights, q.weights, means**2 + spreads**2)
    shift = weights @ means.ravel()
    return float(shift + (tau(delta) * (weights @ spreads.ravel()) if delta else 0.0)) / epsilon


def plan(p, q, costs):
    """Return the transport plan of least cost, row by row, by linear programming."""
    rows, columns = np.eye(len(p)).repeat(len(q), axis=1), np.tile(np.eye(len(q)), len(p))
    marginals = np.concatenate([p, q / q.sum() * p.sum()])
    return linprog(costs.ravel(), A_eq=np.vstack([rows, columns]), b_eq=marginals).x


def broken_promises():
    """Return two instances in which the mean over components is not what counts."""
    rows = {}
    for name, weights, means, sd, delta in (
        ("Theorem 2", [0.99, 0.01], ([0.0, 100.0], [0.0, 0.0]), 0.001, 0.001),
        ("Corollary 2", [0.9, 0.1], ([0.0, 20.0], [0.0, 30.0]), 1.0, 0.0),
    ):
        pair = PriorPair(*(GaussianMixture(weights, mean, [sd, sd]) for mean in means))
        notion, published = (
            Pufferfish(1.0, delta),
            float(np.dot(weights, np.abs(np.subtract(*means)))),
        )
        rows[name, notion.budget] = {
            "published": published,
            "its loss": privacy_loss(*pair, Laplace(published), notion).upper,
            "wasserstein": _scale("wasserstein", pair, Pufferfish(1.0)),
            "distribution_aware": _scale("distribution_aware", pair, notion),
            "exact": _scale("exact", pair, notion),
        }
    return _with_saving(rows, ["statement", "budget"])


def read_rows(folder):
    """Return the rows of each table by secret, and why some are missing."""
    found, missing = {}, []
    for title, (name, n_rows, public, sensitive, secrets) in SECRETS.items():
        path = Path(folder) / name
        if not path.is_file():
            missing.append(f"{name} is not in {folder}; give --tables.")
            continue
        table = pd.read_csv(path, nrows=n_rows, usecols=[public, sensitive]).dropna()
        found[title] = [
            table.loc[table[sensitive] == secret, public].to_numpy(float) for secret in secrets
        ]
    return found, missing


def fit(secrets):
    """Return mixtures of three Gaussians fitted to the rows of two secrets."""
    spread = [np.concatenate(secrets).std()]
    model = MixtureFit(n_components=3)
    return PriorPair(*(model.fit(rows[:, None], np.ones(len(rows)), spread) for rows in secrets))


# Figure 5: the factor of the difference in deviation


def figure5():
    """Return a row for each delta: Eq. (22), which is Eq. (23), and the quantile of Theorem 1.

    They are the scales for priors of the same mean, whose deviations differ by 1, at epsilon 1.
    """
    deltas = [0.001, 0.01, 0.1, 0.3, 0.5, 0.9, 0.999]
    pair = _gaussians((0.0, 1.0), (0.0, 2.0))
    table = pd.DataFrame(
        {
            "published": [tau_lambert(delta) for delta in deltas],
            "Q^-1(delta/2)": [tau(delta) for delta in deltas],
            "monge": [_scale("monge", pair, Pufferfish(1.0, delta)) for delta in deltas],
            "exact": [_scale("exact", pair, Pufferfish(1.0, delta)) for delta in deltas],
        },
        index=pd.Index(deltas, name="delta"),
    )
    return table.assign(**{"saving %": _saving(table["exact"], table["published"])})


def tau_lambert(delta):
    """Return the square root of W_0(2 / (pi delta^2)), Eq. (23)."""
    return float(np.sqrt(lambertw(2.0 / (np.pi * delta**2)).real))


# What the sections share


def _gaussians(*parameters):
    return PriorPair(*(GaussianMixture([1.0], [mean], [sd]) for mean, sd in parameters))


def _scale(strategy, pair, notion):
    return calibrate([pair], notion, strategy=strategy).scale


def _with_saving(rows, names):
    table = pd.DataFrame(rows).T.rename_axis(names)
    return table.assign(**{"saving %": _saving(table["exact"], table["published"])})


def _saving(ours, theirs):
    return (100 * (1 - ours / theirs)).round(6) + 0.0  # never -0.0


def _text(table):
    return table.to_string(
        formatters={"saving %": "{:.1f}".format}, float_format="{:.4g}".format, na_rep="-"
    )


# The figures


def _draw_figure1(figure):
    y = np.linspace(-12.0, 12.0, 601)
    noises = {
        "no noise": None,
        "Laplace(4)": Laplace(4.0),
        "Gaussian of the same variance": Gaussian(np.sqrt(32.0)),
    }
    for axes, (title, noise) in zip(figure.subplots(1, 3), noises.items(), strict=True):
        for prior, label, style in zip(_figure1_priors(), ("X", "X'"), ("-", "--"), strict=True):
            axes.plot(
                y,
                _density(prior, noise, y),
                style,
                label=label if noise is None else f"{label} + N",
            )
        axes.set(title=title, xlabel="released value", ylim=(0.0, None))
        axes.legend(loc="upper left")
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("density")
    figure.suptitle("003, Figure 1: X ~ N(0, 1), X' ~ N(1, 1.6²)")


def _density(prior, noise, y):
    if noise is None:
        return norm.pdf(y[:, None], prior.means, prior.scales) @ prior.weights
    return np.exp(log_density(prior, noise, y))


def _draw_figure2(figure, table):
    variances = table.index.unique("variance")
    for axes, variance in zip(
        figure.subplots(1, len(variances), sharey=True), variances, strict=True
    ):
        rows = table.xs(variance, level="variance")
        _scale_lines(axes, rows, ["published", "approximate", "distribution_aware", "exact"])
        axes.set(title=f"variance {variance}", xscale="log", xlabel="number of users K")
    figure.axes[0].set_ylabel("scale of the Laplace noise")
    figure.axes[-1].legend()
    figure.suptitle("003, Figure 2: mean 1, epsilon 1, delta 0.3; published is Eq. (11)")


def _scale_lines(axes, rows, names):
    colours = {
        "published": "tab:red",
        "approximate": "tab:orange",
        "distribution_aware": "tab:purple",
        "exact": "black",
    }
    for name in names:
        axes.plot(rows[name], marker=".", color=colours[name], label=name)
    axes.grid(alpha=0.3)


def _draw_figures34(figure, tables, rows):
    for row, (title, pair) in zip(figure.subplots(2, 4), fitted_mixtures().items(), strict=True):
        unit, *secrets = LABELS[title]
        table = tables.xs(title, level="table")
        _draw_priors(row[0], pair, secrets, rows.get(title))
        row[0].set(title=f"{title}: the mixtures", xlabel=unit, ylabel="density")
        for axes, delta in zip(row[1:3], (0.5, 0.3), strict=True):
            scale = table.loc[delta, "published"]
            _draw_released(axes, pair, secrets, scale)
            axes.set(title=f"released, delta {delta}: Laplace({scale:.3g})", xlabel=unit)
        _scale_lines(row[3], table, ["published", "approximate", "distribution_aware", "exact"])
        row[3].set(title="scale of the noise, epsilon 1", xscale="log", xlabel="delta")
        row[3].set_xticks(table.index, [f"{delta:g}" for delta in table.index])
        row[3].minorticks_off()
    handles, labels = row[3].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    figure.suptitle("003, Figures 3 and 4; published is Theorem 2")


def _draw_priors(axes, pair, secrets, rows):
    low, high = _range(pair)
    y = np.sort(np.append(np.linspace(low, high, 1500), [prior.means for prior in pair]))
    for k, (prior, label) in enumerate(zip(pair, secrets, strict=True)):
        line = axes.plot(y, _density(prior, None, y), label=label)[0]
        if rows is not None:
            whole = len(np.unique(rows[k])) < 20
            bins = np.arange(low, high) - 0.5 if whole else 30
            axes.hist(rows[k], bins=bins, density=True, color=line.get_color(), alpha=0.25)
    # a component that is all but a single value would dwarf the others
    peaks = np.concatenate([prior.weights / prior.scales for prior in pair])
    wide = np.concatenate([prior.scales for prior in pair]) > 0.01 * (high - low)
    axes.set_ylim(0.0, 0.6 * peaks[wide].max())
    axes.legend(loc="upper left" if high < 100.0 else "upper right")
    axes.grid(alpha=0.3)


def _range(pair):
    low = min((prior.means - 3.5 * prior.scales).min() for prior in pair)
    high = max((prior.means + 3.5 * prior.scales).max() for prior in pair)
    return np.floor(low), np.ceil(high)


def _draw_released(axes, pair, secrets, scale):
    (low, high), noise = _range(pair), Laplace(scale)
    y = np.linspace(low - 3 * scale, high + 3 * scale, 800)
    densities = [_density(prior, noise, y) for prior in pair]
    for density, label, style in zip(densities, secrets, ("-", "--"), strict=True):
        axes.plot(y, density, style, label=label)
    axes.set_ylim(0.0, 1.35 * np.max(densities))
    axes.legend(loc="upper right")
    axes.grid(alpha=0.3)


def _draw_figure5(figure):
    deltas = np.linspace(0.001, 0.999, 300)
    axes = figure.subplots()
    axes.plot(deltas, [tau_lambert(delta) for delta in deltas], "--", label="Eq. (22) and (23)")
    axes.plot(deltas, [tau(delta) for delta in deltas], color="black", label="Q⁻¹(delta/2)")
    axes.set(title="003, Figure 5", xlabel="delta", ylabel="tau", ylim=(0.0, None))
    axes.legend()
    axes.grid(alpha=0.3)


if __name__ == "__main__":
    main()
