"""The figures of CORRECTIONS.md, recomputed, and the priors and printed numbers of the examples."""

from __future__ import annotations

import math
import re
from itertools import combinations
from pathlib import Path

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.special import ndtri

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._sets import SetLosses, error_share
from sklearn_puffer._sets.simultaneous_sets import set_around_counts
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.bounds import Relaxed
from sklearn_puffer.calibration import STRATEGIES, calibrate
from sklearn_puffer.couplings import near, w_infinity, w_p
from sklearn_puffer.datasets import (
    fitted_gaussians,
    fitted_mixtures,
    load_student,
    published_table1,
    published_table4,
    table1_priors,
    table4_contingencies,
)
from sklearn_puffer.iteration import contraction
from sklearn_puffer.noise import Cauchy, Gaussian, Laplace
from sklearn_puffer.notions import Pufferfish, RenyiPufferfish
from sklearn_puffer.priors import ConfidenceSet, Discrete, GaussianMixture, PriorPair

CORRECTIONS = Path(__file__).parents[1] / "CORRECTIONS.md"
PURE, D_2 = Pufferfish(1.0), RenyiPufferfish(1.0, 2.0)

RECOMPUTED = {}


def line(statement, printed=None):
    """Register what recomputes a line: a function that gives (figure in the text, its value)."""

    def register(function):
        RECOMPUTED[statement, printed] = function
        return function

    return register


def counted(atoms, counts):
    return Discrete.from_counts(atoms, counts)


def point(value):
    return Discrete([value], [1.0])


def gaussians(means, sds):
    return tuple(GaussianMixture([1.0], [m], [s]) for m, s in zip(means, sds, strict=True))


def mixtures(weights, first, second, sd):
    return tuple(GaussianMixture(weights, means, [sd, sd]) for means in (first, second))


def scale(strategy, pair, notion, noise="laplace"):
    return calibrate([pair], notion, noise=noise, strategy=strategy).scale


def loss(pair, noise, notion=PURE):
    return privacy_loss(*pair, noise, notion).upper


def rounded_up(figure):
    """Return what is printed of a scale that is to be enough."""
    return math.ceil(100 * figure) / 100


def bound(strategy, pair, noise, notion):
    return float(STRATEGIES[strategy]([PriorPair(*pair)], noise, notion).losses(1.0).max())


# The lines of CORRECTIONS.md


@line("000, Eq. (11) and (12)")
def _either_side():
    pair, notion = table4_contingencies()["Student Performance"].pair(), Pufferfish(0.1)
    yield "3.39", scale(Relaxed("eq11"), pair, notion)
    yield "2.75", scale(Relaxed("eq12"), pair, notion)
    yield "1.58", rounded_up(scale("exact", pair, notion))


@line("000, Prop. 3.3")
def _bracket():
    phi = math.log1p(math.expm1(1.0) / 0.7)  # 0.7 of the mass moves
    yield "0.807", 1 / phi
    yield "1.210", 1.5 / phi
    yield "0.301", scale(Relaxed("eq11"), (counted([0, 0.1, 1.5], [30, 69, 1]), point(0)), PURE)


@line("000, Algorithm 1")
def _algorithm_1():
    pair = counted([0, 2], [1, 9]), point(2)
    yield "2.18", loss(pair, Laplace(0.457359))
    yield "0.690", scale(Relaxed("eq11"), pair, PURE)


@line("000, Thm 4.1 (1)")
def _no_reduction():
    pair = counted([0, 2], [1, 1]), counted([1, 3], [1, 1])
    yield "1", scale("wasserstein", pair, PURE)
    yield "1", scale("relaxed", pair, PURE)


@line("000, Lemma 4.2 (2)")
def _no_reduction_at_any_ratio():
    stay, moved = 10**8 - 1, 1
    pair = counted([0, 1, 2], [stay, moved, 0]), counted([0, 1, 2], [stay, 0, moved])
    yield "99999999", stay / moved
    yield "1", scale("wasserstein", pair, PURE)
    yield "1", scale("relaxed", pair, PURE)


@line("000, section 4.1")
def _reductions_of_two_bits():
    pair = table4_contingencies()["Simulation (Figure 2b)"].pair()
    for printed, epsilon in (("95.5", 0.01), ("92.2", 0.1), ("96", 1e-5)):
        theta = scale(Relaxed("eq11"), pair, Pufferfish(epsilon))
        yield printed, 100 * (1 - epsilon * theta)


@line("000, Table 4")
def _misprint():
    pair = table4_contingencies()["Simulation (Figure 2b)"].pair()
    yield "0.533", scale(Relaxed("eq11"), pair, Pufferfish(0.2))
    assert published_table4().loc[("Simulation (Figure 2b)", "relaxed"), 0.2] == 0.54


@line("001, proof of Thm 2")
def _sign():
    yield "0.0000454", math.exp(-1 / 0.1)
    yield "10", loss((point(1), point(0)), Laplace(0.1))


@line("001, abstract and section 4.3.1")
def _class_of_records():
    one = counted([1, 2], [30, 70])
    theta = 1 / brentq(lambda rate: one.probabilities @ np.exp(rate * one.atoms) - math.e, 0.1, 2.0)
    yield "1.755", theta
    assert loss((one, point(0)), Laplace(theta)) <= 1.0 + 1e-9
    yield "96.87", loss((point(30 + 2 * 70), point(0)), Laplace(theta))


@line("004, proof of Lemma B.1")
def _divergences_are_superadditive():
    one, both = (privacy_loss(point(z), point(0), Laplace(1.0), D_2) for z in (1, 2))
    yield "1.238", 2 * one.upper
    yield "1.596", both.upper


@line("000, Lemma 4.2")
def _no_order():
    for spared, ratio, p, q in (
        ("0.853", "0.042", [22, 77, 1], [3, 10, 87]),
        ("0.132", "0.538", [3, 2, 95], [41, 27, 32]),
    ):
        pair = counted([0, 1, 2], p), counted([0, 1, 2], q)
        yield spared, scale("wasserstein", pair, PURE) - scale(Relaxed("eq11"), pair, PURE)
        assert f"ratio {ratio}" in CORRECTIONS.read_text(encoding="utf-8")


@line("001, Lemma 3")
def _irregular_grid():
    yield "10", w_infinity(counted([0, 10], [1, 1]), counted([0, 1], [6, 4]))


@line("001, Lemma 2")
def _sum_over_users():
    others = np.array([1, 998])
    pair = tuple(
        counted([0, 1, 2], np.convolve(others, [1000 - share, share])) for share in (918, 770)
    )
    notion, growth = Pufferfish(0.1), math.expm1(0.1)
    psi_printed = ((1 - 0.918) * 998 / 1 + 0.77) / 0.148
    printed = 1 / math.log(math.exp(0.1) + growth * psi_printed)
    yield "0.2444", printed
    yield "0.9142", loss(pair, Laplace(printed), notion)
    sound = 1 / math.log(math.exp(0.1) + growth * 0.77 / 0.148)
    yield "1.991", sound
    assert loss(pair, Laplace(sound), notion) <= 0.1
    assert scale("relaxed", pair, notion) == pytest.approx(sound, rel=1e-9)


@line("003, Thm 2")
def _theorem_2():
    pair, notion = mixtures([0.99, 0.01], [0, 100], [0, 0], 0.001), Pufferfish(1.0, 0.001)
    yield "1", scale("monge", pair, notion)
    yield "0.01", loss(pair, Laplace(1.0), notion)
    for strategy in ("approximate", "distribution_aware", "exact"):
        assert loss(pair, Laplace(scale(strategy, pair, notion)), notion) <= 0.001


@line("003, Cor. 2")
def _corollary_2():
    pair = mixtures([0.9, 0.1], [0, 20], [0, 30], 1.0)
    yield "1", scale("monge", pair, PURE)
    yield "10.0", loss(pair, Laplace(1.0))
    yield "7.51", rounded_up(scale("exact", pair, PURE))
    assert scale("wasserstein", pair, PURE) == pytest.approx(10.0)


@line("003, Eq. (33)-(34)")
def _not_minimal():
    def mean_square(stretch):
        edges = [-mpmath.inf, -1, 0, 1, mpmath.inf]
        return float(mpmath.quad(lambda z: mpmath.npdf(z) * (abs(stretch * z) - 1) ** 2, edges))

    yield "1.0", mean_square(0)
    yield "0.743", mean_square(mpmath.sqrt(2))


@line("003, Cor. 1 (a)")
def _no_central_limit():
    chance, notion = 1e-4, Pufferfish(1.0, 1e-5)
    sd = math.sqrt(chance * (1 - chance))
    printed = chance - sd * ndtri(notion.delta / 2)
    yield "0.044", printed
    pair = counted([0, 1], [9999, 1]), point(0)
    yield "1e-4", loss(pair, Laplace(printed), notion)


@line("003, Fig. 1 and Sec. VI-B")
def _gaussian_noise_has_no_largest_ratio():
    pair = gaussians([0.0, 1.0], [1.0, 1.6])
    yield "0.29875", loss(pair, Laplace(4.0))
    assert loss(pair, Gaussian(math.sqrt(32.0))) == math.inf
    with pytest.raises(ValueError, match="pure epsilon"):
        scale("exact", pair, PURE, "gaussian")


@line("004, Def. 2.1")
def _by_outcomes():
    ones = np.ones(1000, int)
    pair = counted(np.arange(1, 1001), ones), counted(np.arange(1001, 2001), ones)
    notion = Pufferfish(1e-9, 0.001)
    yield "0.001", pair[0].probabilities.max()
    yield "1", float(STRATEGIES["exact"]([PriorPair(*pair)], Laplace(), notion).losses(0.0).max())


@line("004, proof of Cor. 3.1")
def _second_derivative():
    alpha, z = mpmath.mpf(3), mpmath.mpf("0.7")
    near, far = alpha * mpmath.exp(z * (alpha - 1)), (alpha - 1) * mpmath.exp(-z * alpha)
    printed = alpha * (2 * alpha**2 - 1) / (2 * alpha - 1) * mpmath.exp(-z) / (near + far)
    yield "0.4081", float(printed)
    step = 1e-3
    losses = Laplace(1.0).renyi_divergence(np.array([[0.7 - step], [0.7], [0.7 + step]]), 3.0)
    yield "0.2418", float(losses @ [1.0, -2.0, 1.0]) / step**2
    corrected = alpha * (2 * alpha - 1) ** 2 * mpmath.exp(-z) / (near + far) ** 2
    assert float(corrected) == pytest.approx(0.241810789721)


@line("004, Thm 4.3, main text")
def _needs_the_max_divergence():
    pair = point(0), point(1)
    yield "0.5005", bound("wasserstein", pair, Gaussian(1.0), RenyiPufferfish(1.0, 1.001))
    yield "0.238", loss(pair, Gaussian(1.0), Pufferfish(0.500501, 1e-6))


@line("004, Lemma D.1 and Def. 4.6")
def _scale_or_rate():
    yield "0.00995", math.log1p(0.1**2)
    yield "3.93", loss((point(0), point(1)), Cauchy(0.1), D_2)


@line("004, Cor. 4.1, d columns")
def _three_columns():
    yield "0.863", 3 * math.log1p(3 / 9)
    yield "1.216", float(Cauchy(1.0).renyi_divergence(np.ones(3), 2.0))


@line("common practice", "Cauchy noise in several columns")
def _not_the_sum_of_shifts():
    half = math.sinh(2.0)
    yield "3.627", half
    yield "4", float(Cauchy(1.0).max_divergence([2 * half]))
    yield "5.43", float(Cauchy(1.0).max_divergence([half, half]))


@line("004, Example 1")
def _counting_query():
    pair = counted([0, 1], [7, 13]), counted([1, 2], [13, 7])
    yield "1", w_infinity(*pair)
    yield "0.7", w_p(*pair, 2.0) ** 2
    yield "0.1", 1 + 3 * -0.3


@line("004, Example 2")
def _translations():
    salary = counted([1, 2, 100], [500, 499, 1])
    for text, share in (("49.5", 0.5), ("99", 1.0)):
        pair = tuple(salary.moved(share * (salary.rows + known)) for known in (1, 100))
        yield text, w_infinity(*pair)
        shifts = np.unique(np.abs(pair[0].rows - pair[1].rows.T))
        yield text, float(next(z for z in shifts if near(*pair, z) <= 0.003))


@line("004, Table 1")
def _table_1():
    heart = list(combinations(table1_priors()["Heart (Cleveland)"].values(), 2))
    yield "13", max(w_infinity(*pair) for pair in heart)
    yield "2.276", w_p(*table1_priors()["Student Scores"].values(), 2.0)
    yield "3.138", max(loss(pair, Laplace(8 / 3)) for pair in heart)


@line("004, Thm 5.2")
def _whole_sequences():
    # two steps of noise N(0, 1) add up to N(0, 2); the sum of the data is -2 or 2, or always 0
    yield "1.325", loss((counted([-2, 2], [1, 1]), point(0)), Gaussian(math.sqrt(2)), D_2)


@line("004, Prop. 6.1")
def _two_users():
    yield "20", w_infinity(counted([10, 20], [1, 9]), counted([0, 10], [9, 1]))


@line("004, Prop. 6.2")
def _negative_covariance():
    yield "-1", -0.5 * 2.0
    yield "1", scale("wasserstein", gaussians([0.0, 1.0], [1.0, 1.0]), PURE)


@line("004, Prop. 6.3")
def _diffusion():
    decay = math.exp(-0.5)  # dX = -X dt + sqrt(2) dB from 0 or from 1, after half a unit of time
    pair = gaussians([0.0, decay], [math.sqrt(1 - decay**2)] * 2)
    yield "0.3679", decay**2
    yield "0.6065", scale("wasserstein", pair, PURE)
    yield "1.649", loss(pair, Laplace(decay**2))


@line("001, Table 5")
def _example_1():
    given_i, given_j = [0.2, 0.225, 0.5, 0.075], [0.075, 0.5, 0.225, 0.2]  # at 1 to 4, and 2 to 5
    f_i, f_j = np.cumsum(given_i), np.cumsum(given_j)
    yield "0.925", f_i[2]
    yield "0.8", f_j[2]
    yield "1", f_j[3]
    yield "2", 2 + int(np.argmax(f_j >= f_i[2])) - 3


@line("004, section 6.4")
def _projection():
    yield "31.7", 100 * math.erfc(1 / math.sqrt(2))


@line("004, Lemma F.1")
def _long_steps():
    yield "2", abs((1 - 3) * 1 - (1 - 3) * 0)
    with pytest.raises(ValueError, match="the map of a longer step is not a contraction"):
        contraction(3.0, 1.0)


@line("004, Thm A.3")
def _one_direction():
    known, stranger = point(0), Discrete([0, 1], [0.5, 0.5])
    there, back = STRATEGIES["exact"]([PriorPair(known, stranger)], Laplace(), PURE).losses(0.0)[0]
    yield "1.386", 2 * there  # no loss under the known prior, and twice the divergence
    assert back == math.inf


@line("004, Thm A.4")
def _two_adversaries():
    pair = PriorPair(Discrete([0, 1], [0.5, 0.5]), point(0))
    losses = STRATEGIES["exact"]([pair], Laplace(), PURE).losses(0.0)
    assert losses.max() == math.inf
    return []


@line("common practice", "columns released apart")
def _columns():
    bits = np.array([0, 1] * 50)
    table = pd.DataFrame({"s": [0] * 50 + [1] * 50, "a": bits, "b": bits ^ ([0] * 50 + [1] * 50)})
    noiser = PufferfishNoiser(1.325003, sensitive="s").fit(table)
    assert noiser.theta_["a"] == pytest.approx(0.5, rel=1e-5)
    yield "1.325", math.log(math.cosh(1 / 0.5))
    yield "0", loss((counted([0, 1], [1, 1]), counted([0, 1], [1, 1])), Laplace(0.5))


@line("common practice", "rounding the values first")
def _off_the_grid():
    yield "5", loss((point(0), point(1)), Laplace(0.2))
    yield "1", loss((point(0.4), point(0.6)), Laplace(0.2))


@line("common practice", "rounding half to even")
def _half_to_even():
    yield "2", loss(tuple(map(point, np.rint([0.5, 1.5]))), Laplace(1.0))
    yield "1", loss((point(0.5), point(1.5)), Laplace(1.0))


@line("common practice", "redrawing")
def _redrawing():
    inside = [1 - 0.5 * math.exp(-x) - 0.5 * math.exp(x - 2) for x in (0, 1)]
    yield "1.38", 1 + math.log(inside[1] / inside[0])
    yield "1", loss((point(0), point(1)), Laplace(1.0))


@line("common practice", "k releases")
def _composition():
    pair = counted([1, 2, 4, 5], [4, 1, 1, 4]), point(0)
    each = scale(Relaxed("eq11"), pair, Pufferfish(0.5))
    yield "6.515", each
    yield "1.0737", loss(pair, Laplace(each / 2))
    assert loss(pair, Laplace(each)) <= 0.5 * (1 + 1e-12)


@line("common practice", "the loss of a household")
def _household():
    near, far = 1.0, math.exp(-1.0)
    yield "0", loss((counted([0, 1], [1, 1]), counted([0, 1], [1, 1])), Laplace(1.0))
    yield "0.4338", math.log((near + far**2) / (2 * far))


@line("common practice", "Gaussian noise for g rows")
def _rows_of_a_household():
    assert math.exp(0.406) * 0.4 > 0.6
    yield "0.1199", 0.6**2 - math.exp(0.406) * 0.4**2


def lines():
    """Return the cells of each line of the table."""
    text = CORRECTIONS.read_text(encoding="utf-8")
    rows = [row for row in text.splitlines() if row.startswith("| ")][2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def test_every_line_of_the_corrections_has_four_cells_and_is_recomputed():
    found = lines()
    assert all(len(cells) == 4 and all(cells) for cells in found)
    wanted = [
        (statement, printed)
        for statement, printed in RECOMPUTED
        for cells in found
        if cells[0] == statement and cells[1].startswith(printed or "")
    ]
    assert len(wanted) == len(set(wanted)) == len(found) == len(RECOMPUTED)


@pytest.mark.parametrize(("statement", "printed"), RECOMPUTED, ids=lambda name: name or "")
def test_a_line_of_the_corrections_says_what_comes_out(statement, printed):
    text = next(
        " ".join(cells[1:])
        for cells in lines()
        if cells[0] == statement and cells[1].startswith(printed or "")
    )
    for figure, value in RECOMPUTED[statement, printed]():
        assert re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d|\.\d)", text), figure
        # half a unit of its last digit
        digits = len(figure.partition("e")[0].partition(".")[2])
        unit = 10.0 ** (-digits + int(figure.partition("e")[2] or 0))
        assert abs(value - float(figure)) <= 0.5001 * unit, (figure, value)


# The priors and figures that the examples print


def test_the_printed_sensitivities_of_table_1_are_right_but_for_two_misprints():
    printed, priors = published_table1(), table1_priors()
    differ = {}
    for title, row in printed.iterrows():
        pairs = list(
            combinations(priors[title if title != "Heart" else "Heart (Cleveland)"].values(), 2)
        )
        ours = {
            "W_inf": max(w_infinity(*pair) for pair in pairs),
            "W_2": max(w_p(*pair, 2.0) for pair in pairs),
        }
        differ |= {
            (title, name): round(value, 6)
            for name, value in ours.items()
            if round(value, 2) != row[name]
        }
    assert differ == {("Student Scores", "W_2"): 2.275966, ("Heart", "W_inf"): 13.0}


def test_the_counts_of_the_hospitals_add_up():
    priors = table1_priors()
    together = priors.pop("Heart (all)")
    hospitals = [found for title, found in priors.items() if title.startswith("Heart")]
    for secret, prior in together.items():
        rows = sum(int(found[secret].counts.sum()) for found in hospitals if secret in found)
        assert prior.counts.sum() == rows
    assert sum(prior.counts.sum() for prior in together.values()) == 920


# Theorems 1 and 2 at epsilon 1, and the exact scale, at delta 0.5, 0.3 and 0.01; 0 is no noise
PAPER_003 = {
    ("Adult", "gaussians"): ([1.82078156374, 2.00670814473, 2.79747938097], 1.69703138631),
    ("Adult", "mixtures"): ([2.3316980769, 2.69524024385, 4.24143491515], 1.45152829371),
    ("Hungarian", "gaussians"): ([9.43485469224, 12.1554679272, 23.726608964], 0.0),
    ("Hungarian", "mixtures"): ([52.6146921886, 60.2078907583, 92.5028051696], 24.1269820515),
}


@pytest.mark.parametrize(("title", "family"), PAPER_003)
def test_figures_3_and_4_ask_for_these_scales(title, family):
    pair = {"gaussians": fitted_gaussians, "mixtures": fitted_mixtures}[family]()[title]
    printed, exact = PAPER_003[title, family]
    for delta, expected in zip((0.5, 0.3, 0.01), printed, strict=True):
        notion = Pufferfish(1.0, delta)
        assert scale("monge", pair, notion) == pytest.approx(expected, rel=1e-9)
        assert loss(pair, Laplace(expected), notion) <= delta
    assert scale("exact", pair, Pufferfish(1.0, 0.01)) == pytest.approx(exact, rel=1e-6)
    assert scale("exact", pair, Pufferfish(1.0, 0.5)) == 0.0


@pytest.mark.parametrize("title", ["Adult", "Hungarian"])
def test_the_fitted_gaussians_are_those_of_the_rows(title, table):
    file, rows, public, sensitive, secrets = {
        "Adult": ("adult", 32_561, "education-num", "race", ("Black", "Asian-Pac-Islander")),
        "Hungarian": ("heart-hungarian", None, "chol", "sex", (0, 1)),
    }[title]
    found = table(file, nrows=rows, usecols=[public, sensitive]).dropna()
    for secret, prior in zip(secrets, fitted_gaussians()[title], strict=True):
        values = found.loc[found[sensitive] == secret, public].to_numpy(float)
        assert prior.means[0] == pytest.approx(values.mean(), rel=1e-9)
        assert prior.scales[0] == pytest.approx(values.std(ddof=1), rel=1e-9)


@pytest.mark.parametrize(
    ("level", "expected"), [(0.9, 0.52613218687), (0.95, 0.575966935857), (0.99, 0.668908177595)]
)
def test_student_at_several_levels(level, expected):
    share = error_share(level, [2, 2])
    counts = table4_contingencies()["Student Performance"].counts
    sets = tuple(set_around_counts([[0, 1]], row, share) for row in counts)
    losses = SetLosses([sets], Laplace(), Pufferfish(0.5))
    assert losses.losses(expected * (1 + 1e-9)).max() <= 0.5
    assert losses.losses(expected * (1 - 1e-9)).max() > 0.5
    noiser = PufferfishNoiser(0.5, sensitive="higher", adversaries=ConfidenceSet(level))
    assert noiser.fit(load_student()).theta_["romantic"] == pytest.approx(expected, rel=1e-7)


def test_student_needs_no_noise_for_the_counted_priors_and_880_by_the_published_mechanism():
    pair, notion = table4_contingencies()["Student Performance"].pair(), Pufferfish(0.5)
    assert scale("exact", pair, notion) == 0.0
    assert scale(Relaxed("eq11"), pair, notion) == pytest.approx(0.879893216894, rel=1e-9)
    assert scale("wasserstein", pair, notion) == pytest.approx(2.0)
