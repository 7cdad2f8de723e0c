"""Groups of values before and after a release, and the shares of what was released."""

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._noiser.utility import (
    ValueGroups,
    _edges,
    column_moves,
    groups_of,
    release_of,
    released_shares,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning")


@pytest.mark.parametrize("seed", range(40))
def test_whole_numbers_are_in_groups_of_one_width_between_halves(seed):
    rng = np.random.default_rng(seed)
    low, high = np.sort(rng.uniform(-30, 30, 2)) if seed % 4 else np.repeat(rng.integers(9), 2)
    most = int(rng.integers(1, 20))
    edges = _edges(float(low), float(high), True, most)
    first, last = np.floor(low), np.ceil(high)
    [width] = {*np.diff(edges)}
    assert edges[0] == first - 0.5
    assert edges[-1] >= last + 0.5 > edges[-2]
    assert len(edges) - 1 <= most
    assert width == 1 or (last - first + 1) / (width - 1) > most
    assert width % 1 == 0


def test_fractions_are_in_equal_intervals_of_which_the_last_holds_the_largest():
    edges = _edges(2.0, 5.0, False, 3)
    assert edges[:3].tolist() == [2.0, 3.0, 4.0]
    assert edges[3] == np.nextafter(5.0, np.inf)
    assert _edges(2.0, 2.0, False, 3).tolist() == [1.5, 2.5]


def test_values_beyond_the_intervals_have_groups_of_their_own_after_the_release_alone():
    groups = ValueGroups(edges=np.array([0.0, 1.0, 2.0, 3.0]))
    values = np.array([-1.0, 0.0, 0.5, 2.9, 3.0, 9.0])
    assert groups.after(values).tolist() == [0, 1, 1, 3, 4, 4]
    assert groups.before(values).tolist() == [0, 0, 0, 2, 2, 2]
    assert (groups.size, groups.n_released) == (3, 5)
    names = ValueGroups(labels=["a", "b", None])
    assert (
        names.after(np.arange(3.0)).tolist() == names.before(np.arange(3.0)).tolist() == [0, 1, 2]
    )
    assert (names.size, names.n_released) == (3, 3)


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
    assert moves.name == name
    assert moves.joint.sum() == pytest.approx(1.0)
    assert (moves.joint >= 0.0).all()
    assert moves.left_out == pytest.approx(TABLE[name].isna().mean())
    assert moves.joint.shape == (moves.groups.size, moves.groups.n_released)
    assert (moves.groups.labels is None) == (name in ("age", "pay"))
    unseen = {"job": "nurse", "age": 99, "pay": 0.3, "vip": True}[name]
    new = TABLE.assign(**{name: TABLE[name].where(np.arange(300) > 29, unseen)})
    rest = column_moves(noiser, new, name, 4)
    gone = (np.arange(300) < 30) if name != "vip" else np.zeros(300, dtype=bool)
    assert rest.left_out == pytest.approx((gone | new[name].isna().to_numpy()).mean())


def test_released_values_are_counted_in_the_same_groups(noiser):
    moves = column_moves(noiser, TABLE, "pay", 4)
    out = np.array([moves.groups.edges[0] - 1, np.nan, np.inf, moves.groups.edges[0], 99.0])
    shares = released_shares(noiser, moves, pd.DataFrame({"pay": out}))
    assert shares[[0, 1, -1]].tolist() == [1 / 3] * 3
    assert shares.sum() == pytest.approx(1.0)
    gaps = pd.DataFrame({"pay": pd.array([None, float(moves.groups.edges[0])], dtype="Float64")})
    assert released_shares(noiser, moves, gaps)[1] == 1.0
    job = column_moves(noiser, TABLE, "job", 4)
    words = pd.DataFrame({"job": ["clerk", "cook", "cook", "nurse"]})
    assert released_shares(noiser, job, words).tolist() == [1 / 3, 2 / 3]
    with pytest.raises(TypeError, match="released must be the DataFrame"):
        released_shares(noiser, moves, out[:, None])
    with pytest.raises(ValueError, match="released lacks column 'pay'; it has 'job'"):
        released_shares(noiser, moves, words)
    with pytest.raises(TypeError, match="'pay' of released holds names"):
        released_shares(noiser, moves, words.rename(columns={"job": "pay"}))


def test_one_released_column_is_shown_and_it_has_values(noiser):
    assert release_of(noiser, "job").column.name == "job"
    alone = PufferfishNoiser(1.0, sensitive="ill", public="age").fit(TABLE)
    assert release_of(alone, None).column.name == "age"
    for name in (None, "ill"):
        with pytest.raises(ValueError, match="column must be one of 'age', 'pay'"):
            release_of(noiser, name)
    with pytest.raises(ValueError, match="'pay' has no value in these rows"):
        column_moves(noiser, TABLE.assign(pay=np.nan), "pay", 4)
    with pytest.raises(TypeError, match="must be a fitted PufferfishNoiser, got 'a noiser'"):
        column_moves("a noiser", TABLE, "pay", 4)


def test_booleans_and_names_are_groups_of_themselves_and_numbers_reach_as_far_as_their_noise(
    noiser,
):
    assert groups_of(release_of(noiser, "vip"), np.array([0.0, 1.0]), 4).labels == [False, True]
    assert groups_of(release_of(noiser, "job"), np.array([0.0]), 4).labels == ["clerk", "cook"]
    release = release_of(noiser, "age")
    pad = 0.0
    while float(release.noise.mass(pad, np.inf)) > 0.01:
        pad += 0.01
    edges = groups_of(release, np.array([-200.0, 200.0]), 10_000).edges
    assert -200 - 1.25 * pad - 1.5 <= edges[0] <= -200 - pad + 0.5
    near = groups_of(release, np.array([0.0, 1.0]), 10_000).edges  # no further than their range
    assert near[0] == -1.5
    assert near[-1] == 2.5
