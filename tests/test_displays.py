"""Displays: the data that are drawn, held against hand-made numbers, and what is on the axes."""

import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import sklearn_puffer
from sklearn_puffer import (
    Audit,
    Certificate,
    PufferfishNoiser,
    displays,
    plan,
)
from sklearn_puffer._certificates import Guaranteed, Made, Method, PairLoss, Proof
from sklearn_puffer._review.exact_tests import Attack
from sklearn_puffer.displays import (
    AuditDisplay,
    LossDisplay,
    UtilityDisplay,
    noisers,
)
from sklearn_puffer.notions import promised

pytestmark = pytest.mark.usefixtures("quick_attackers")

CARS = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
TABLE = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": CARS, "client": range(30)})
DISPLAYS = displays.__all__


def axes():
    return Figure(layout="constrained").subplots()


@pytest.fixture(scope="module")
def planned(quick_attackers):
    rows = TABLE.loc[list(range(30)) * 8].reset_index(drop=True)
    return plan(rows, "loan", public=["cars"], n_prototypes=4, n_bins=3)


def test_displays_are_found_at_the_front_door_too_where_they_once_stood():
    for name in DISPLAYS:
        assert getattr(sklearn_puffer, name) is getattr(displays, name)
        assert name not in sklearn_puffer.__all__


@pytest.mark.slow
def test_utility_is_the_curve_of_the_proposed_setting(planned):
    display = UtilityDisplay.from_plan(planned)
    curve = planned.curve()
    assert display.epsilons.tolist() == curve["epsilon"].tolist() == [0.1, 0.25, 0.5, 1.0, 2.0, 4.0]
    assert list(display.lines) == [planned.trials[0].label]
    assert display.lines[planned.trials[0].label].tolist() == curve["change"].tolist()
    assert display.constant == planned.bare.change


@pytest.mark.slow
def test_an_attack_is_drawn_beside_what_is_allowed_and_told_by_name(planned):
    ax = axes()
    display = UtilityDisplay.from_plan(planned, figure="attack", ax=ax, linewidth=3.0)
    assert (display.ax_, display.figure_) == (ax, ax.figure)
    assert ax.get_xlabel() == "epsilon (nats)"
    assert "ROC curve" in ax.get_ylabel()
    told = [text.get_text() for text in ax.get_legend().get_texts()]
    assert told == [planned.trials[0].label, "allowed", "a constant instead"]
    found, allowed, constant = ax.lines
    assert (found.get_linewidth(), allowed.get_linewidth()) == (3.0, 3.0)
    assert allowed.get_ydata() == pytest.approx(1.0 / (1.0 + np.exp(-display.epsilons)))
    assert set(constant.get_ydata()) == {0.5}


@pytest.mark.slow
def test_what_is_no_plan_or_has_nothing_to_draw_is_refused(planned):
    with pytest.raises(TypeError, match="plan must be a Plan, got 3"):
        UtilityDisplay.from_plan(3)
    with pytest.raises(ValueError, match="figure must be"):
        UtilityDisplay.from_plan(planned, figure="loss")
    with pytest.raises(ValueError, match="needs a plan with a task"):
        UtilityDisplay.from_plan(planned, figure="task")
    with pytest.raises(IndexError, match="is no row of this plan"):
        UtilityDisplay.from_plan(planned, k=9)


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


def an_attack(attacker, auc, view="released", secret="no"):
    figures = dict.fromkeys(Attack.__dataclass_fields__, 0.0)
    own = {"view": view, "attacker": attacker, "sensitive": "loan", "secret": secret}
    ends = {"auc": auc, "auc_low": auc - 0.1, "auc_high": auc + 0.05, "auc_allowed": 0.7}
    return Attack(**{**figures, **own, "against": "yes", **ends})


def test_an_audit_is_drawn_beside_what_is_allowed_and_the_control():
    attacks = (an_attack("trees", 0.55), an_attack("$linear", 0.6), an_attack("near", 0.5))
    control = (an_attack("trees", 0.9, "control"),)
    found = Audit(attacks, control, "a guarantee", 9, 9, 3, 3, 3)
    display = AuditDisplay.from_audit(found, most=2)
    assert display.auc.tolist() == [0.6, 0.55]
    assert (display.low + 0.1).tolist() == pytest.approx([0.6, 0.55])
    assert display.allowed.tolist() == [0.7, 0.7]
    np.testing.assert_array_equal(display.control, [np.nan, 0.9])
    assert display.n_left_out == 1
    ax = display.plot(ax=axes()).ax_
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["\\$linear:\nloan no against yes", "trees:\nloan no against yes"]
    told = {text.get_text() for text in ax.get_legend().get_texts()}
    assert told == {"on the release", "on rows without noise", "allowed at most"}
    ax.figure.canvas.draw()
    with pytest.raises(TypeError, match="audit must be an Audit, got 1"):
        AuditDisplay.from_audit(1)


def test_names_are_no_formulas_and_stay_on_one_line():
    assert noisers.label("$\\frac$") == r"\$\\frac\$"
    assert noisers.label("x" * 50) == "x" * 23 + "…"
    assert noisers.label("_a") == "\N{NO-BREAK SPACE}_a"


def test_seven_lines_differ_without_their_colours():
    styles = [noisers.style(k) for k in range(7)]
    assert len({each["marker"] for each in styles}) == 7
    assert len({(each["linestyle"], each["marker"]) for each in styles}) == 7


def grey(colour):
    return float(np.dot(to_rgb(colour), [0.2126, 0.7152, 0.0722]))


def test_dark_and_light_differ_in_grey_and_so_does_the_map_along_its_way():
    assert grey(noisers.WARM) - grey(noisers.DARK) > 0.2
    from matplotlib import colormaps

    steps = [grey(colormaps[noisers.MAP](x)[:3]) for x in np.linspace(0.0, 1.0, 11)]
    assert (np.diff(steps) > 0.02).all()


MAKERS = {
    UtilityDisplay: ("from_plan", 1),
    LossDisplay: ("from_noiser", 1),
    AuditDisplay: ("from_audit", 1),
}


@pytest.mark.slow
def test_what_makes_a_display_draws_it_as_plot_does(noiser, planned):
    found = Audit((an_attack("trees", 0.6),), (an_attack("trees", 0.95),), "kept", 9, 9, 3, 3, 3)
    given = [planned], [noiser], [found]
    assert set(MAKERS) == {getattr(displays, n) for n in DISPLAYS}
    for (kind, (maker, _)), own in zip(MAKERS.items(), given, strict=True):
        ax, style = axes(), {"alpha": 0.5}
        display = getattr(kind, maker)(*own, ax=ax, **style)
        assert isinstance(display, kind)
        assert (display.ax_, display.figure_) == (ax, ax.figure)
        again = display.plot(ax=axes(), **style)
        assert again is display
        drawn = [ax.lines, ax.patches, ax.collections, ax.images, ax.texts]
        assert [*map(len, drawn)] == [
            *map(len, (again.ax_.lines, again.ax_.patches, again.ax_.collections)),
            *map(len, (again.ax_.images, again.ax_.texts)),
        ]
        assert any(each.get_alpha() == 0.5 for part in drawn[:4] for each in part)
        if maker != "from_plan":  # which measures anew, and is drawn without axes above
            assert getattr(kind, maker)(*own).figure_ is not ax.figure  # a figure of its own


@pytest.mark.parametrize("kind", MAKERS)
def test_without_matplotlib_the_way_to_it_is_named_before_anything_is_computed(kind, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    maker, n_given = MAKERS[kind]
    with pytest.raises(ModuleNotFoundError, match=r'pip install "sklearn-puffer\[plot\]"'):
        getattr(kind, maker)(*[None] * n_given)


@pytest.mark.parametrize("kind", MAKERS)
def test_axes_that_are_none_are_refused_before_anything_is_computed(kind):
    maker, n_given = MAKERS[kind]
    with pytest.raises(TypeError, match="ax must be one Axes of matplotlib"):
        getattr(kind, maker)(*[None] * n_given, ax=np.array([1, 2]))


@pytest.mark.slow
def test_without_axes_a_figure_is_made_and_settings_stay_as_they_are(planned):
    from matplotlib import pyplot, rcParams

    pyplot.switch_backend("agg")
    before = dict(rcParams)
    display = UtilityDisplay.from_plan(planned)
    assert display.figure_.axes == [display.ax_]
    assert dict(rcParams) == before
    pyplot.close(display.figure_)
