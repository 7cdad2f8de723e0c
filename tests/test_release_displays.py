"""Before and after a release: what is expected, held against sums by hand and against releases."""

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.displays import ReleaseDisplay

pytestmark = [
    pytest.mark.filterwarnings("ignore:random_state=1 is for tests only"),
    pytest.mark.filterwarnings("ignore:column.s. .* tell nothing any more"),
]

BITS = np.random.default_rng(3)
N = 4_000
LOAN = BITS.integers(0, 2, N)
TABLE = pd.DataFrame(
    {
        "loan": np.array(["no", "yes"])[LOAN],
        "cars": BITS.poisson(2 + LOAN),
        "debt": np.round(BITS.normal(10 + LOAN, 3, N), 1),
        "home": np.array(["own", "rent", "_$none"])[np.minimum(BITS.poisson(0.5 + LOAN), 2)],
        "size": pd.Categorical(
            np.array(["s", "m", "l"])[np.minimum(BITS.poisson(0.5 + LOAN / 2), 2)],
            ["s", "m", "l"],
            ordered=True,
        ),
    }
)


def fitted(column, epsilon=1.0, **options):
    options = {"sensitive": "loan", "public": [column], "random_state": 1, **options}
    return PufferfishNoiser(epsilon, **options).fit(TABLE)


def axes():
    return Figure(layout="constrained").subplots()


def laplace(x, scale):
    """The distribution function."""
    return 0.5 * math.exp(x / scale) if x < 0.0 else 1.0 - 0.5 * math.exp(-x / scale)


def test_whole_numbers_have_the_distribution_of_rounded_laplace_noise():
    noiser = fitted("cars")
    theta = float(noiser.theta_["cars"])
    display = ReleaseDisplay.from_noiser(noiser, TABLE, n_bins=1000)
    counts = TABLE["cars"].value_counts(normalize=True)
    assert (np.diff(display.edges) == 1.0).all()
    expected = [
        sum(p * (laplace(high - x, theta) - laplace(low - x, theta)) for x, p in counts.items())
        for low, high in zip(display.edges[:-1], display.edges[1:], strict=True)
    ]
    np.testing.assert_allclose(display.after, expected, atol=1e-12)
    middles = display.edges[:-1] + 0.5
    before = counts.reindex(middles, fill_value=0.0)
    np.testing.assert_allclose(display.before, before, atol=1e-12)
    assert display.beyond == pytest.approx(1.0 - sum(expected))


def test_names_stay_or_are_drawn_anew_and_the_part_that_stays_is_known():
    noiser = fitted("home")
    display = ReleaseDisplay.from_noiser(noiser, TABLE)
    kept = math.exp(-noiser.theta_["home"])
    before = TABLE["home"].value_counts(normalize=True)[display.labels].to_numpy()
    anew = (before * N + 1) / (N + 3)  # each value counts once more
    np.testing.assert_allclose(display.before, before)
    np.testing.assert_allclose(display.after, kept * before + (1 - kept) * anew)
    np.testing.assert_allclose(display.stayed, before * (kept + (1 - kept) * anew))
    assert display.stayed.sum() == pytest.approx(noiser.utility_["unchanged"]["home"])


@pytest.mark.parametrize("output", ["native", "noisy"])
@pytest.mark.parametrize(
    ("column", "bins"),
    [("cars", None), ("debt", None), ("debt", 6), ("home", None), ("size", None)],
)
def test_what_is_expected_is_the_mean_of_what_is_released(column, bins, output):
    noiser = fitted(column, epsilon=0.3, output=output, n_bins=bins)
    released = noiser.transform(TABLE)[column]
    expected = ReleaseDisplay.from_noiser(noiser, TABLE, n_bins=8)
    if expected.edges is None:
        names = range(3) if pd.api.types.is_float_dtype(released) else expected.labels
        found = released.value_counts(normalize=True).reindex(names, fill_value=0.0)
    else:
        found = np.histogram(released.astype(float), expected.edges)[0] / N
    assert expected.after.sum() + expected.beyond == pytest.approx(1.0)
    np.testing.assert_allclose(found, expected.after, atol=5 * 0.5 / math.sqrt(N))
    expected.plot(ax=axes()).figure_.canvas.draw()


def test_bars_say_what_stays_and_names_are_no_formulas():
    ax = ReleaseDisplay.from_noiser(fitted("home"), TABLE).plot(ax=axes()).ax_
    assert len(ax.containers) == 3
    told = [text.get_text() for text in ax.get_legend().get_texts()]
    assert told == ["before", "stays", "comes from other values"]
    ticks = [text.get_text() for text in ax.get_xticklabels()]
    assert ticks == ["\N{NO-BREAK SPACE}_\\$none", "own", "rent"]
    assert ax.get_ylabel() == "rows (%)"
    assert any(bar.get_hatch() for bar in ax.containers[2])
    ax.figure.canvas.draw()


def test_stretches_say_their_width_and_what_lies_beyond():
    ax = ReleaseDisplay.from_noiser(fitted("cars"), TABLE, n_bins=9).plot(ax=axes()).ax_
    told = [text.get_text() for text in ax.get_legend().get_texts()]
    assert told[0] == "before"
    assert told[1].startswith("expected after")
    assert "in each stretch of" in ax.get_ylabel()


@pytest.mark.slow
def test_of_many_values_the_rarest_are_one():
    names = np.array([f"a rather long name of job {k}" for k in range(30)])
    table = pd.DataFrame({"loan": TABLE["loan"], "job": names[BITS.integers(0, 30, N)]})
    noiser = PufferfishNoiser(0.3, sensitive="loan").fit(table)
    display = ReleaseDisplay.from_noiser(noiser, table)
    ax = display.plot(ax=axes()).ax_
    ticks = [text.get_text() for text in ax.get_xticklabels()]
    assert (len(ticks), ticks[-1]) == (12, "and 19 more")
    ax.figure.canvas.draw()


def test_missing_and_unseen_values_are_left_out_and_counted():
    table = TABLE[["loan", "debt"]].copy()
    table.loc[:399, "debt"] = np.nan
    noiser = PufferfishNoiser(1.0, sensitive="loan", missing="propagate").fit(table)
    display = ReleaseDisplay.from_noiser(noiser, table)
    assert display.left_out == pytest.approx(0.1)
    assert display.before.sum() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="has no value in these rows"):
        ReleaseDisplay.from_noiser(noiser, table[:400])


def test_one_row_and_other_frames_are_drawn():
    polars = pytest.importorskip("polars")
    noiser = fitted("cars")
    one = ReleaseDisplay.from_noiser(noiser, TABLE[:1])
    assert one.before.sum() == pytest.approx(1.0)
    one.plot(ax=axes()).figure_.canvas.draw()
    other = ReleaseDisplay.from_noiser(noiser, polars.from_pandas(TABLE[["cars"]]))
    same = ReleaseDisplay.from_noiser(noiser, TABLE)
    np.testing.assert_array_equal(other.after, same.after)


def test_nothing_is_drawn_from_the_noise():
    noiser = fitted("cars")
    first = noiser.transform(TABLE[:50])
    again = fitted("cars")
    ReleaseDisplay.from_noiser(again, TABLE)
    pd.testing.assert_frame_equal(again.transform(TABLE[:50]), first)


def test_wrong_arguments_are_refused_by_name():
    noiser = fitted(None, public=["cars", "debt"], dependence="independent")
    with pytest.raises(ValueError, match="column must be one of 'cars', 'debt', got None"):
        ReleaseDisplay.from_noiser(noiser, TABLE)
    with pytest.raises(ValueError, match="n_bins"):
        ReleaseDisplay.from_noiser(noiser, TABLE, column="cars", n_bins=0)
    with pytest.raises(TypeError, match="noiser must be a fitted PufferfishNoiser"):
        ReleaseDisplay.from_noiser(3, TABLE)
    with pytest.raises(NotFittedError):
        ReleaseDisplay.from_noiser(PufferfishNoiser(sensitive="loan"), TABLE)
    with pytest.raises(ValueError, match="X lacks column"):
        ReleaseDisplay.from_noiser(noiser, TABLE[["loan"]], column="cars")


def test_a_changed_noiser_is_not_shown():
    noiser = fitted("cars")
    noiser.epsilon = 5.0
    with pytest.raises(ValueError, match="was set after fit"):
        ReleaseDisplay.from_noiser(noiser, TABLE)
