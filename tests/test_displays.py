"""Displays: the data that are drawn, held against hand-made numbers, and what is on the axes."""

import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import sklearn_puffer
from sklearn_puffer import Certificate, PufferfishNoiser, displays
from sklearn_puffer._certificates import Guaranteed, Made, Method, PairLoss, Proof
from sklearn_puffer.displays import LossDisplay
from sklearn_puffer.notions import promised

CARS = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
TABLE = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": CARS, "client": range(30)})
DISPLAYS = displays.__all__


def axes():
    return Figure(layout="constrained").subplots()


def test_displays_are_found_at_the_front_door_too_where_they_once_stood():
    for name in DISPLAYS:
        assert getattr(sklearn_puffer, name) is getattr(displays, name)
        assert name not in sklearn_puffer.__all__


def pair(secret, against, lower, upper, adversary=0, sensitive="race"):
    return PairLoss(sensitive, secret, against, adversary, 9.0, lower, upper, "recomputed")


def a_certificate(*pairs, **more):
    return Certificate(
        Guaranteed(promised(1.0, **more)),
        Proof(1.5, pairs),
        Method("exact", "laplace"),
        Made(30),
        [],
    )


def test_losses_are_both_directions_and_the_worst_of_all_adversaries():
    certificate = a_certificate(
        pair("a", "b", 0.1, 0.2),
        pair("b", "a", 0.3, 0.4),
        pair("a", "b", 0.15, 0.18, adversary=1),
        pair("c", "a", 1.5, 1.5),
    )
    display = LossDisplay.from_noiser(certificate)
    nan = np.nan
    assert display.secrets == ["a", "b", "c"]
    expected = [[nan, 0.2, nan], [0.4, nan, nan], [1.5, nan, nan]]
    np.testing.assert_array_equal(display.upper, expected)
    assert (display.lower[0, 1], display.budget, display.unit) == (0.15, 1.0, "nats")
    ax = display.plot(ax=axes()).ax_
    assert [t.get_text() for t in ax.texts] == ["0.15 to\n0.2", "0.3 to\n0.4", "1.5\nover budget"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b", "c"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("against", "secret of race")
    bar = ax.figure.axes[1]
    assert bar.get_ylabel() == "loss (nats), at most the budget of 1"


def test_of_many_secrets_those_with_the_largest_losses_are_drawn():
    pairs = [pair(a, b, 0.0, float(max(a, b))) for a in range(40) for b in range(40) if a != b]
    display = LossDisplay.from_noiser(a_certificate(*pairs), most=3)
    ax = display.plot(ax=axes()).ax_
    # the last one is a part of all the largest losses, and the first of those that are alike stay
    assert len(ax.get_yticklabels()) == 3
    assert ax.get_ylabel() == "secret of race (3 of 40)"
    assert display.upper.shape == (40, 40)


def test_losses_under_a_delta_are_deltas():
    certificate = a_certificate(pair("a", "b", 0.0, 1e-6), delta=1e-5)
    display = LossDisplay.from_noiser(certificate)
    assert (display.unit, display.budget) == ("delta", 1e-5)


def test_infinite_losses_are_drawn():
    pairs = pair("a", "b", np.inf, np.inf), pair("b", "a", 0.0, 0.0)
    for more in ((), [pair("c", "a", 0.0, 0.1)]):
        ax = LossDisplay.from_noiser(a_certificate(*pairs, *more), ax=axes()).ax_
        assert ax.texts[0].get_text() == "inf\nover budget"
        ax.figure.canvas.draw()


def test_losses_of_two_secrets_stand_in_their_squares_and_what_is_not_protected_is_crossed_out():
    certificate = a_certificate(pair("a$", "b", 0.25, 0.5))
    ax = LossDisplay.from_noiser(certificate, ax=axes()).ax_
    assert [t.get_text() for t in ax.texts] == ["0.25 to\n0.5"]
    assert [t.get_text() for t in ax.get_yticklabels()] == [r"a\$", "b"]
    assert len(ax.lines) == 3
    ax.figure.canvas.draw()


def test_a_column_of_secrets_must_be_chosen_among_several():
    certificate = a_certificate(
        pair("a", "b", 0.0, 0.1), pair("no", "yes", 0.2, 0.3, sensitive="loan")
    )
    assert LossDisplay.from_noiser(certificate, sensitive="loan").upper[0, 1] == 0.3
    with pytest.raises(ValueError, match=r"sensitive must be one of 'race', 'loan'"):
        LossDisplay.from_noiser(certificate)
    with pytest.raises(ValueError, match="lists no pair"):
        LossDisplay.from_noiser(a_certificate())
    with pytest.raises(TypeError, match="call fit first"):
        LossDisplay.from_noiser(PufferfishNoiser(sensitive="loan"))


@pytest.fixture
def noiser():
    options = {"sensitive": "loan", "public": ["cars"], "releases": 4}
    return PufferfishNoiser(1.0, **options).fit(TABLE)


def test_names_are_no_formulas_and_stay_on_one_line():
    assert displays.label("$\\frac$") == r"\$\\frac\$"
    assert displays.label("x" * 50) == "x" * 23 + "…"
    assert displays.label("_a") == "\N{NO-BREAK SPACE}_a"


def grey(colour):
    return float(np.dot(to_rgb(colour), [0.2126, 0.7152, 0.0722]))


def test_the_map_differs_in_grey_along_its_way():
    from matplotlib import colormaps

    steps = [grey(colormaps[displays.MAP](x)[:3]) for x in np.linspace(0.0, 1.0, 11)]
    assert (np.diff(steps) > 0.02).all()


def test_what_makes_a_display_draws_it_as_plot_does(noiser):
    ax = axes()
    display = LossDisplay.from_noiser(noiser, ax=ax, alpha=0.5)
    assert (display.ax_, display.figure_) == (ax, ax.figure)
    again = display.plot(ax=axes(), alpha=0.5)
    assert again is display
    drawn, anew = ([ax.lines, ax.images, ax.texts] for ax in (ax, again.ax_))
    assert [*map(len, drawn)] == [*map(len, anew)]
    assert ax.images[0].get_alpha() == 0.5


def test_without_matplotlib_the_way_to_it_is_named_before_anything_is_computed(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "sklearn-puffer\[plot\]"'):
        LossDisplay.from_noiser(None)


def test_axes_that_are_none_are_refused_before_anything_is_computed():
    with pytest.raises(TypeError, match="ax must be one Axes of matplotlib"):
        LossDisplay.from_noiser(None, ax=np.array([1, 2]))


def test_without_axes_a_figure_is_made_and_settings_stay_as_they_are(noiser):
    from matplotlib import pyplot, rcParams

    pyplot.switch_backend("agg")
    before = dict(rcParams)
    display = LossDisplay.from_noiser(noiser)
    assert display.ax_ in display.figure_.axes
    assert dict(rcParams) == before
    pyplot.close(display.figure_)
