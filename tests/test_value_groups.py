"""Groups of values before and after a release, and their shares."""

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._codes import Column
from sklearn_puffer._noiser import ColumnRelease, column_moves
from sklearn_puffer._noiser.utility import _edges, _labels

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning")


def edges_of(low, high, whole, n_bins):
    """Return the edges of a column of two numbers that is released without noise."""
    kind, ends = "integer" if whole else "float", np.unique([low, high])
    column = Column("x", kind, ends, np.ones(len(ends), dtype=bool))
    return _edges(ColumnRelease(column, None, 0.0, "native"), ends, n_bins)


@pytest.mark.parametrize("seed", range(40))
def test_whole_numbers_are_in_groups_of_one_width_between_halves(seed):
    rng = np.random.default_rng(seed)
    low, high = np.sort(rng.uniform(-30, 30, 2)) if seed % 4 else np.repeat(rng.integers(9), 2)
    most = int(rng.integers(1, 20))
    edges = edges_of(float(low), float(high), True, most)
    first, last = np.floor(low), np.ceil(high)
    [width] = {*np.diff(edges)}
    assert edges[0] == first - 0.5
    assert edges[-1] >= last + 0.5 > edges[-2]
    assert len(edges) - 1 <= most
    assert width == 1 or (last - first + 1) / (width - 1) > most
    assert width % 1 == 0


def test_fractions_are_in_equal_intervals_of_which_the_last_holds_the_largest():
    edges = edges_of(2.0, 5.0, False, 3)
    assert edges[:3].tolist() == [2.0, 3.0, 4.0]
    assert edges[3] == np.nextafter(5.0, np.inf)
    assert edges_of(2.0, 2.0, False, 3).tolist() == [1.5, 2.5]


RNG = np.random.default_rng(3)
ILL = RNG.integers(0, 2, 300)
TABLE = pd.DataFrame(
    {
        "ill": ILL,
        "age": RNG.integers(0, 5, 300) + ILL,
        "pay": np.where(np.arange(300) % 10 == 0, np.nan, RNG.integers(0, 4, 300) * 0.5 + ILL),
        "job": RNG.choice(["cook", "clerk"], 300),
        "vip": RNG.random(300) < 0.3 + 0.4 * ILL,
    }
)


@pytest.fixture(scope="module")
def noiser():
    return PufferfishNoiser(
        1.0, sensitive="ill", dependence="independent", missing="propagate"
    ).fit(TABLE)


@pytest.mark.parametrize("name", ["age", "pay", "job", "vip"])
def test_moves_are_shares_of_the_rows_that_have_a_value(noiser, name):
    moves = column_moves(noiser, TABLE, name, 4)
    assert moves["name"] == name
    assert (moves["labels"] is None) == ("stayed" not in moves) == (name in ("age", "pay"))
    assert moves["before"].sum() == pytest.approx(1.0)
    assert moves["after"].sum() + moves.get("beyond", 0.0) == pytest.approx(1.0)
    assert (moves["after"] >= moves.get("stayed", 0.0)).all()
    assert moves["left_out"] == pytest.approx(TABLE[name].isna().mean())
    unseen = {"job": "nurse", "age": 99, "pay": 0.3, "vip": True}[name]
    new = TABLE.assign(**{name: TABLE[name].where(np.arange(300) > 29, unseen)})
    rest = column_moves(noiser, new, name, 4)
    gone = (np.arange(300) < 30) if name != "vip" else np.zeros(300, dtype=bool)
    assert rest["left_out"] == pytest.approx((gone | new[name].isna().to_numpy()).mean())


def test_one_released_column_is_shown_and_it_has_values(noiser):
    alone = PufferfishNoiser(1.0, sensitive="ill", public="age").fit(TABLE)
    assert column_moves(alone, TABLE, None, 4)["name"] == "age"
    for name in (None, "ill"):
        with pytest.raises(ValueError, match="column must be one of 'age', 'pay'"):
            column_moves(noiser, TABLE, name, 4)
    with pytest.raises(ValueError, match="'pay' has no value in these rows"):
        column_moves(noiser, TABLE.assign(pay=np.nan), "pay", 4)
    with pytest.raises(TypeError, match="must be a fitted PufferfishNoiser, got 'a noiser'"):
        column_moves("a noiser", TABLE, "pay", 4)


def test_booleans_and_names_are_groups_of_themselves_and_numbers_reach_as_far_as_their_noise(
    noiser,
):
    age, _, job, vip = noiser._fitted.mechanism.columns
    assert (_labels(vip), _labels(job)) == ([False, True], ["clerk", "cook"])
    pad = 0.0
    while float(age.noise.mass(pad, np.inf)) > 0.01:
        pad += 0.01
    edges = _edges(age, np.array([-200.0, 200.0]), 10_000)
    assert -200 - 1.25 * pad - 1.5 <= edges[0] <= -200 - pad + 0.5
    near = _edges(age, np.array([0.0, 1.0]), 10_000)  # no further than their range
    assert near[0] == -1.5
    assert near[-1] == 2.5
