"""Swaps that keep groups together: the theorem by enumeration, tables, and what is refused."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB
from small_trees import SMALL_TREES
from swap_tree import ByCells, Table, gaps, joint_distribution
from test_swap_exact import exchanged

from sklearn_puffer import PufferfishNoiser, audit
from sklearn_puffer._losses import SwapDistributions, swap_losses
from sklearn_puffer._noiser.release import ColumnRelease
from sklearn_puffer._noiser.swap_release import Counted, Solved, SwapRelease
from sklearn_puffer._noiser.swap_rows import ONE_STRATUM, Distance, RowByRow, WideForm, WideRows
from sklearn_puffer._release.parameters import column_of
from sklearn_puffer._review.attack import SIZE, Groups
from sklearn_puffer._swaps import ROW, SwapProblem, whole_rows
from sklearn_puffer._tables import Values, frame_table
from sklearn_puffer.noise import RecordSwap
from sklearn_puffer.notions import Pufferfish

pytestmark = [
    pytest.mark.filterwarnings("ignore:within the .* cells a fresh model still finds"),
    pytest.mark.filterwarnings("ignore:what a row tells within its cell was not measured"),
]

PAIR = np.array([[0, 1]])
HOMES = [0, 1, 0, 2, 1, 2]  # whose each row of six is: nobody's stand together


def quarters(*rows):
    return np.array(rows, dtype=np.int64) * (ROW // 4)


# ------------------------------------------------------------------------------- the theorem


class Cells:
    """Cells of wide rows that are written down."""

    def __init__(self, cell_of, count):
        self.cell_of, self.count = cell_of, count

    def of(self, columns, public):
        rows = zip(*(columns[name].data.tolist() for name in public), strict=True)
        return np.array([self.cell_of[row] for row in rows])


def package_swap(wide_rows, homes, cells, flows):
    """Return the package's own way from rows to rows, of those of each group a wide one."""
    width = max(map(len, wide_rows))
    form = WideForm("home", width, ["value"], [])
    names = form.names(["value"])
    distributions = SwapDistributions(np.ones((2, len(flows)), dtype=np.int64), PAIR)
    counted = [Counted("ill", (0, 1), distributions.counts, PAIR, np.zeros((2, 2, len(flows))))]
    value = ColumnRelease(column_of("value", Values("integer", np.zeros(1))), None, 0.0, "native")
    release = SwapRelease(
        columns=[value],
        seen=[*names, "home (size)"],
        strata=ONE_STRATUM,
        cells=cells,
        distance=Distance(dict.fromkeys(names, 1.0)),
        counted=counted,
        costs=np.zeros(flows.shape),
        notion=Pufferfish(1.0),
        over_boxes=False,
        by_secret=False,
        shuffle=False,
        form=form,
    )

    def released(owned, draws):
        own = [iter(wide_rows[content]) for content in owned]
        rows = pd.DataFrame({"home": homes, "value": [next(own[home]) for home in homes]})
        wide, columns = release.read(frame_table(rows))
        places = release.assigned(columns)
        sizes = np.bincount(places[1], minlength=len(flows))
        problem = SwapProblem(
            sizes, [distributions], release.costs, np.ones(len(sizes)), release.notion
        )
        solved = [Solved(0, np.arange(len(flows)), flows, problem)]
        points = release.distance.points({name: columns[name] for name in names})
        choices = ByCells(draws, places[1])
        gets = release.permutation(places, points.taken, choices, solved)
        return tuple(rows["value"].to_numpy()[wide.row_by_row(gets)].tolist())

    return released


def test_each_row_takes_its_value_from_the_group_that_its_own_gets():
    wide = WideRows.of(np.array([0, 1, 2, 2, 1, 0]))
    assert wide.row_by_row(np.array([1, 2, 0])).tolist() == [1, 2, 0, 5, 3, 4]


def held(wide_rows, homes, view):
    """Return which wide row each group of a released table holds."""
    rows = {row: content for content, row in enumerate(wide_rows)}
    own = pd.Series(view).groupby(homes).agg(tuple)
    return [rows[each] for each in own]


@pytest.mark.parametrize(
    ("wide_rows", "table", "flows"),
    [
        # the two rows of a home, the cell of the home, and how many homes have which secret
        (
            [(1, 2), (2, 1), (5, 5)],
            Table((0, 1, 2), {0: 0, 1: 0, 2: 1}, [(1, 1), (0, 1)]),
            quarters([6, 2], [2, 2]),
        ),
        (
            [(1, 2), (7, 2), (5, 9)],
            Table((0, 1, 2), {0: 0, 1: 1, 2: 1}, [(1, 0), (1, 1)]),
            quarters([1, 3], [3, 5]),
        ),
        (
            [(4, 4), (5, 6)],
            Table((0, 0, 1), {0: 0, 1: 1}, [(1, 1), (0, 1)]),
            quarters([7, 1], [1, 3]),
        ),
    ],
)
def test_who_sees_the_whole_table_learns_of_a_group_what_the_flows_say(wide_rows, table, flows):
    cells = Cells({row: table.cell_of[k] for k, row in enumerate(wide_rows)}, len(flows))
    distribution = joint_distribution(table, package_swap(wide_rows, HOMES, cells, flows))
    assert sum(own[0] for own in distribution.values()) == 1
    apart, loss = gaps(table, flows, distribution, holds=lambda view: held(wide_rows, HOMES, view))
    assert apart == 0
    distributions = SwapDistributions(np.array(table.counts, dtype=np.int64).T, PAIR)
    told = swap_losses(flows, table.sizes, distributions, Pufferfish(1.0))[0]
    assert told[:, 0].max() <= loss <= told[:, 1].max()
    assert math.isinf(loss) or told[:, 1].max() - loss < 1e-12


def test_rows_that_are_swapped_singly_tell_more_of_a_group_than_is_guaranteed_of_a_row():
    """Households kept together by their ids alone: the reader combines their rows."""
    wide_rows = [(0, 0), (1, 1), (2, 3)]
    table = Table((0, 1, 2), {0: 0, 1: 0, 2: 1}, [(2, 0), (0, 1)])
    of_row, flows = np.array([0, 0, 1, 1]), quarters([13, 3], [3, 5])

    def released(owned, draws):
        own = [iter(wide_rows[content]) for content in owned]
        rows = np.array([next(own[home]) for home in HOMES])
        cells = of_row[rows]
        choices = ByCells(draws, cells)

        def costs(a, b):
            return abs(rows[a][:, None] - rows[b]).astype(float)

        gets = exchanged(cells, whole_rows(flows, choices), costs, choices)
        return tuple(rows[gets].tolist())

    distribution = joint_distribution(table, released)
    distributions = SwapDistributions(np.array([[4, 0], [0, 2]]), PAIR)
    promised = {Fraction(int(flows[1, b]), 4 * (ROW // 4)) / size for b, size in enumerate([4, 2])}
    apart = max(
        min(abs(own[1 + home] / own[0] - each) for each in promised)
        for own in distribution.values()
        for home in range(3)
    )
    assert apart > 0.1
    told = swap_losses(flows, np.array([4, 2]), distributions, Pufferfish(1.0))[0].max()
    posteriors = {own[1 + home] / own[0] for own in distribution.values() for home in range(3)}
    inside = [float(each) for each in posteriors if each not in (0, 1)]  # others tell all
    loss = (
        math.inf
        if len(inside) < len(posteriors)
        else max(abs(math.log(p / (1 - p) * 2)) for p in inside)
    )
    assert loss > told + 0.5


# ------------------------------------------------------------------------------- tables


def homes(n_homes=400, seed=0, *, sizes=(1, 2, 3)):
    """Rows of people of some homes, in any order, whose secret is that of their home."""
    rng = np.random.default_rng(seed)
    home = np.repeat(np.arange(n_homes), np.resize(sizes, n_homes))
    ill = rng.integers(0, 2, n_homes)[home]
    job = np.minimum(rng.integers(0, 3, len(home)) + (rng.random(len(home)) < 0.4) * ill, 2)
    table = pd.DataFrame(
        {
            "home": home,
            "ill": np.where(ill, "yes", "no"),
            "age": rng.integers(20, 60, len(home)) + 8 * ill,
            "job": np.array(["baker", "clerk", "miner"])[job],
        }
    )
    return table.sample(frac=1.0, random_state=seed).reset_index(drop=True)


def swap(cells=4, **options):
    params = {
        "sensitive": "ill",
        "groups": "home",
        "max_group": 3,
        "noise": RecordSwap(cells=cells),
    }
    return PufferfishNoiser(1.0, **params | options)


def of_homes(table, names=("age", "job")):
    """Return how often each home's rows occur, in their order; None for what is missing."""
    clean = table[list(names)].astype(object).where(table[list(names)].notna(), None)
    rows = clean.apply(tuple, axis=1)
    return Counter(rows.groupby(table["home"]).agg(tuple).tolist())


TABLE = homes()


def quick(**options):
    """Return a swap of few small trees."""
    return swap(**{"prior": SMALL_TREES} | options)


@pytest.fixture(scope="module")
def noiser():
    return swap().fit(TABLE)


@pytest.mark.parametrize("within", ["stay", "shuffle"])
def test_homes_get_all_rows_of_a_home_of_their_size_in_the_order_they_had(within):
    noiser = quick(noise=RecordSwap(cells=4, within=within))
    released = noiser.fit_transform(TABLE)
    assert released["home"].equals(TABLE["home"])
    assert of_homes(released) == of_homes(TABLE)
    assert not released.equals(TABLE[["home", "age", "job"]])
    assert noiser.certificate_.holds


@pytest.mark.slow
def test_rows_to_come_and_rows_with_gaps_are_exchanged_by_whole_homes(noiser):
    later = homes(200, seed=1)
    later["age"] = later["age"].where(later["age"] > 30)
    released = noiser.transform(later.drop(columns="ill"))
    assert of_homes(released) == of_homes(later)
    table = TABLE.assign(age=TABLE["age"].where(TABLE["age"] > 25))
    assert of_homes(quick().fit_transform(table)) == of_homes(table)


@pytest.mark.slow
def test_polars_tables_and_arrays_are_exchanged_by_whole_homes():
    released = quick().fit_transform(pl.from_pandas(TABLE))
    assert isinstance(released, pl.DataFrame)
    assert of_homes(released.to_pandas()) == of_homes(TABLE)
    array = TABLE[["home", "age"]].assign(odd=TABLE["age"] % 7).to_numpy(dtype=float)
    noiser = quick(sensitive=None, groups=0)
    found = noiser.fit_transform(array, sensitive_features=TABLE["ill"])
    frames = [pd.DataFrame(each, columns=["home", "age", "odd"]) for each in (array, found)]
    assert of_homes(frames[0], ["age", "odd"]) == of_homes(frames[1], ["age", "odd"])
    assert not np.array_equal(array, found)


@pytest.mark.slow
def test_known_and_passed_columns_stay_row_by_row():
    known = quick(known="job").fit(homes(1200, sizes=(1, 2)))
    table = homes(900, seed=2, sizes=(1, 2))
    released = known.transform(table)
    assert released["job"].equals(table["job"])
    assert of_homes(released) == of_homes(table)
    assert "'job', 'home (size)' of each person" in known.certificate_.promise()
    table = homes(900, seed=2, sizes=(1, 2)).assign(label=lambda t: t.index % 2)
    noiser = quick(public=["age", "job"], remainder="passthrough")
    released = noiser.fit_transform(table)
    assert released["label"].equals(table["label"])
    assert of_homes(released, ["age", "job", "label"]) == of_homes(table, ["age", "job", "label"])


@pytest.mark.slow
def test_labels_beside_the_table_stay_row_by_row():
    table = homes(900, seed=3, sizes=(1, 2))
    y = (table.index % 2).to_numpy()
    released = quick().fit_transform(table, y)
    own = [each.assign(y=y) for each in (table, released)]
    assert of_homes(own[0], ["age", "job", "y"]) == of_homes(own[1], ["age", "job", "y"])
    rare = np.where(table.index < 3, "a", "b")
    with pytest.raises(ValueError, match=r"y has a label with . group\(s\), and groups are"):
        quick().fit_transform(table, rare)


@pytest.mark.slow
def test_the_certificate_speaks_of_groups(noiser):
    told = noiser.certificate_.details()
    assert "secrets of ill that all rows of a group of home share" in noiser.certificate_.promise()
    assert "holds for the 400 groups fitted" in told
    assert "of the groups stay with their owners" in told
    assert "on 799 rows and 4 columns" in told
    assert "a group tells no more of the secret" in told
    assert noiser.utility_.index.tolist() == ["age", "job"]
    drift = noiser.certificate_.check(homes(400, seed=5), "ill")
    assert 0.0 < drift.loss < 3.0


@pytest.mark.slow
def test_what_a_whole_home_tells_is_bounded_where_rows_that_are_swapped_singly_tell_more():
    rng = np.random.default_rng(4)
    home = np.repeat(np.arange(3000), 4)
    ill = rng.integers(0, 2, 3000)
    value = (rng.normal(0, 1, len(home)) + 0.8 * ill[home]).round(2)
    table = pd.DataFrame({"home": home, "ill": ill[home], "value": value})
    own = {"sensitive": "ill", "noise": RecordSwap(cells=8)}
    whole = PufferfishNoiser(0.5, groups="home", max_group=4, **own).fit_transform(table)
    singly = PufferfishNoiser(0.5, public=["value"], **own).fit_transform(table)
    areas = []
    for released in (whole, singly):
        rows = released["value"].to_numpy().reshape(-1, 4)
        said = cross_val_predict(GaussianNB(), rows, ill, cv=5, method="predict_proba")[:, 1]
        areas.append(roc_auc_score(ill, said))
    allowed = 1.0 - 1.0 / (1.0 + math.exp(0.5))
    assert areas[0] < allowed + 0.03
    assert areas[1] > allowed + 0.07


# ------------------------------------------------------------------------------- refusals


class Apart:
    """A cost of the caller's own."""

    def between(self, x, y):
        return np.ones((len(x), len(y)))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"max_group": 2}, "max_group=2"),
        ({"noise": RecordSwap(donors=0.3)}, "with donors releases rows one by one"),
        ({"noise": RecordSwap(cost=Apart())}, "with cost= is asked about single rows"),
        ({"groups": "ill"}, "'ill', which is sensitive"),
    ],
)
def test_what_no_whole_groups_are_exchanged_with_is_refused(how, message):
    with pytest.raises(ValueError, match=message):
        swap(**how).fit(TABLE)


def test_homes_of_two_secrets_are_refused():
    torn = TABLE.assign(ill=np.where(TABLE.index % 2, "yes", "no"))
    with pytest.raises(ValueError, match="different 'ill'"):
        swap().fit(torn)


def test_sizes_that_few_groups_have_are_refused_with_the_way_out():
    few = pd.concat(
        [homes(400, sizes=(1, 2)), homes(20, sizes=(3,)).assign(home=lambda t: -t["home"] - 1)]
    )
    with pytest.raises(ValueError, match=r"fewer than 30 groups \(those of 3 rows\); leave rows"):
        swap().fit(few.reset_index(drop=True))


def test_groups_of_rows_to_come_that_fit_has_no_like_of_are_refused():
    noiser = quick().fit(homes(400, sizes=(1, 3)))
    with pytest.raises(ValueError, match="max_group=3 rows"):
        noiser.transform(homes(200, sizes=(1, 4)))
    with pytest.raises(ValueError, match="'home \\(size\\)' that no row of fit had"):
        noiser.transform(homes(200, sizes=(1, 2)))
    with pytest.raises(ValueError, match="has 40 group"):
        noiser.transform(homes(40, sizes=(1, 3)))
    with pytest.raises(ValueError, match="missing id"):
        noiser.transform(homes(200).assign(home=lambda t: t["home"].where(t["home"] > 3)))


@pytest.mark.slow
def test_a_key_and_counted_rows_are_refused(noiser):
    with pytest.raises(ValueError, match="row_id= makes a swap the same however rows come"):
        noiser.transform(TABLE, row_id=np.arange(len(TABLE)), key=b"blake2b:" + bytes(32))
    with pytest.raises(ValueError, match="sample_weight counts a row"):
        swap().fit(TABLE, sample_weight=np.ones(len(TABLE)))
    with pytest.raises(ValueError, match="lazy"):
        swap().fit(pl.from_pandas(TABLE).lazy())


# ------------------------------------------------------------------------------- audits


@pytest.fixture(scope="module")
def told_apart():
    """People of three visits each, whose rows together tell much more than one of them."""
    rng = np.random.default_rng(5)
    person = np.repeat(np.arange(4000), 3)
    ill = rng.integers(0, 2, 4000)[person]
    score = (rng.normal(0, 1, len(person)) + ill).round(1)
    return pd.DataFrame({"person": person, "ill": ill, "score": score})


@pytest.mark.slow
def test_an_audit_attacks_whole_groups_of_a_noiser_that_has_groups(told_apart):
    fitted, held = told_apart[:6_000], told_apart[6_000:]
    noiser = swap(groups="person", public="score", cells=8).fit(fitted)
    found = audit(noiser, held, max_rows=5_000, repeats=1, knows=[])
    assert found.findings == ()
    assert "Attackers saw all released rows of a group, and had 1,666 groups" in str(found)
    assert {each.attacker for each in found.attacks} >= {"row by row", "boosted"}
    own = [each for each in found.attacks if each.secret == 1]
    control = [each for each in found.control if each.secret == 1]
    assert all(each.n + each.n_against == 667 for each in own)
    assert max(each.auc for each in control) > 0.85  # what three rows tell: a single one tells .76
    assert max(each.auc for each in own) < own[0].auc_allowed + 0.04


@pytest.mark.slow
def test_an_audit_of_single_rows_takes_one_row_of_each_group(told_apart):
    noiser = quick(groups=None, max_group=None, public="score", cells=8)
    fitted, held = told_apart[:6_000], told_apart[6_000:]
    found = audit(noiser.fit(fitted), held, groups="person", repeats=1, knows=[])
    assert found.n_rows == 2_000
    assert "One row of each of 2,000 groups of 'person' was audited" in str(found)
    assert max(each.auc for each in found.control) < 0.82


def test_an_audit_of_groups_refuses_others_and_torn_ones(told_apart):
    held = told_apart[:3_000].assign(other=lambda t: t["person"])
    noiser = quick(groups="person", public="score").fit(held)
    with pytest.raises(ValueError, match="noiser guarantees groups of 'person'"):
        audit(noiser, held, groups="other")
    with pytest.raises(ValueError, match="different 'ill'"):
        audit(noiser, held.assign(ill=held.index % 2))


def test_single_rows_that_are_added_up_tell_what_bayes_tells_of_independent_rows():
    rng = np.random.default_rng(6)
    sizes = rng.integers(1, 4, 3000)
    codes = np.repeat(np.arange(3000), sizes)
    ill = rng.integers(0, 2, 3000)
    value = (rng.random(len(codes)) < np.where(ill[codes], 0.8, 0.4)).astype(float)
    groups = Groups.of(codes)
    seen = groups.seen(pd.DataFrame({"value": value}))
    model = RowByRow(LogisticRegression(C=1e6), ["value"], SIZE)
    said = model.fit(seen, ill).predict_proba(seen)[:, 1]
    ones = np.bincount(codes, value)
    odds = 2.0**ones * (0.2 / 0.6) ** (sizes - ones)
    np.testing.assert_allclose(said, odds / (1 + odds), atol=0.06)
