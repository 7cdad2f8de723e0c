"""What fit learns: counts, pairs, adversaries, groups of columns, and the noise that follows."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from oracle import directed_losses

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._codes import CodeArray, Coded, count, tally
from sklearn_puffer.accounting import LossTable
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import ConfidenceSet, Discrete, PriorPair

N_ROWS = 400
RNG = np.random.default_rng(7)
LOAN = RNG.integers(0, 2, N_ROWS)
REGION = RNG.choice(["east", "north", "west"], N_ROWS)
FRAME = pd.DataFrame(
    {
        "loan": LOAN,
        "region": REGION,
        "x": RNG.integers(0, 3, N_ROWS) + LOAN,
        "y": RNG.integers(0, 3, N_ROWS) + 2 * (REGION == "west"),
    }
)
CLOSE = 1e-9


def noiser(epsilon=0.5, **options):
    return PufferfishNoiser(epsilon, **{"sensitive": "loan", "public": ["x", "y"]} | options)


def distribution(column, mask):
    """The empirical prior of a column of FRAME over the rows of a mask, over all its values."""
    atoms = np.unique(FRAME[column])
    return Discrete.from_counts(atoms, [int(((FRAME[column] == a) & mask).sum()) for a in atoms])


def distributions(column, sensitive):
    return {s: distribution(column, FRAME[sensitive] == s) for s in sorted(set(FRAME[sensitive]))}


# ----------------------------------------------------------------------------------------- counting


def test_counts_agree_with_a_crosstab():
    fitted = noiser(sensitive="region", dependence="independent").fit(FRAME)
    table = pd.crosstab(FRAME["region"], FRAME["x"])
    for secret, of_secret in fitted.priors_["region"].items():
        assert of_secret["x",].atoms.tolist() == table.columns.tolist()
        assert of_secret["x",].counts.tolist() == table.loc[secret].tolist()


def test_joint_counts_agree_with_a_crosstab():
    fitted = noiser(sensitive="region").fit(FRAME)
    table = FRAME.groupby(["region", "x", "y"]).size()
    for secret, of_secret in fitted.priors_["region"].items():
        distribution = of_secret["x", "y"]
        seen = Discrete.from_counts(
            distribution.atoms[distribution.counts > 0],
            distribution.counts[distribution.counts > 0],
        )
        found = dict(zip(map(tuple, seen.atoms.tolist()), seen.counts.tolist(), strict=True))
        assert found == table.loc[secret].to_dict()


@pytest.mark.parametrize("unseen", [10**4, 0], ids=["sorted", "dense"])
@pytest.mark.parametrize("weighted", [False, True])
def test_both_ways_of_counting_agree_with_a_group_by(unseen, weighted):
    rng = np.random.default_rng(1)
    n = 50_000
    # cells beyond all memory are counted by sorting
    sizes = (3, 2, 5 + unseen, 4 + unseen, 1, 5)
    codes = [rng.integers(0, size, n) for size in (3, 2, 5, 4, 1, 5)]
    weights = rng.integers(0, 3, n) if weighted else None
    coded = [Coded(CodeArray(c), size) for c, size in zip(codes, sizes, strict=True)]
    groups = [[0], [1, 0], [3, 2], [2], [0, 3], [2, 3]]
    counts = count(coded[:2], coded[2:], groups, n, weights)
    ones = np.ones(n, dtype=int) if weights is None else weights
    table = pd.DataFrame(dict(zip("abcdef", codes, strict=True)) | {"n": ones})
    assert tally(coded[0], n, weights).tolist() == table.groupby("a")["n"].sum().tolist()
    for secret, of_secret in zip("ab", counts, strict=True):
        for group, cells in zip(groups, of_secret, strict=True):
            columns = ["cdef"[k] for k in group]
            expected = table.groupby([secret, *columns])["n"].sum()
            expected = expected[expected > 0]
            for label, found in enumerate(cells):
                assert (
                    found.codes.tolist()
                    == np.atleast_2d(expected.loc[label].index.to_frame().to_numpy()).tolist()
                )
                assert found.counts.tolist() == expected.loc[label].tolist()


# ---------------------------------------------------------------- sensitive columns and their pairs


def test_every_sensitive_column_is_protected_with_its_own_pairs():
    both = noiser(sensitive=["loan", "region"], public="x").fit(FRAME)
    assert both.secret_pairs_ == {
        "loan": [(0, 1)],
        "region": [("east", "north"), ("east", "west"), ("north", "west")],
    }
    assert len(both.certificate_.table) == 2 * 4
    pairs = [
        (of_column[a], of_column[b])
        for of_column in (distributions("x", "loan"), distributions("x", "region"))
        for a, b in combinations(of_column, 2)
    ]
    expected = calibrate(pairs, Pufferfish(0.5)).scale
    assert both.theta_["x"] == pytest.approx(expected, rel=CLOSE)
    assert "region" not in both.transform(FRAME).columns


def test_pairs_may_be_a_list():
    fitted = noiser(sensitive="region", public="y", secret_pairs=[("west", "east")]).fit(FRAME)
    assert fitted.secret_pairs_ == {"region": [("west", "east")]}
    expected = calibrate(
        [(distributions("y", "region")["west"], distributions("y", "region")["east"])],
        Pufferfish(0.5),
    )
    assert fitted.theta_["y"] == pytest.approx(expected.scale, rel=CLOSE)
    assert [(r.secret, r.against) for r in fitted.certificate_.table.itertuples()] == [
        ("west", "east"),
        ("east", "west"),
    ]


def test_pairs_may_be_a_mapping_and_columns_left_out_keep_all_pairs():
    fitted = noiser(sensitive=["loan", "region"], secret_pairs={"region": [("west", "east")]}).fit(
        FRAME
    )
    assert fitted.secret_pairs_ == {"loan": [(0, 1)], "region": [("west", "east")]}


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        ([True, False], (False, True)),
        ([2.5, -1.0], (-1.0, 2.5)),
        (["b", "a"], ("a", "b")),
        (pd.Categorical(["lo", "hi"], ["lo", "mid", "hi"], ordered=True), ("lo", "hi")),
        (pd.Categorical(["lo", "hi"], ["lo", "mid", "hi"]), ("hi", "lo")),
        (np.array([300, 2], dtype=np.int16), (2, 300)),
    ],
)
def test_labels_are_the_values_of_the_column_in_ascending_order(column, labels):
    frame = pd.DataFrame({"s": pd.Series(column).repeat(10), "x": [0] * 9 + [1] * 11})
    [pair] = PufferfishNoiser(0.5, sensitive="s").fit(frame).secret_pairs_["s"]
    assert pair == labels
    assert [type(label) for label in pair] == [type(label) for label in labels]


# --------------------------------------------------------------------------- priors and adversaries

KNOWN = {
    0: Discrete([0, 1, 2, 3], [0.4, 0.3, 0.2, 0.1]),
    1: Discrete([0, 1, 2, 3], [0.1, 0.2, 0.3, 0.4]),
}


def test_a_given_prior_replaces_the_counted_one():
    fitted = noiser(public="x", prior=KNOWN).fit(FRAME)
    expected = calibrate([(KNOWN[0], KNOWN[1])], Pufferfish(0.5)).scale
    assert fitted.theta_["x"] == pytest.approx(expected, rel=CLOSE)
    assert fitted.priors_["loan"][0]["x",] == KNOWN[0]
    assert "The adversary's prior is the one given in prior=." in fitted.certificate_.assumptions
    assert fitted.certificate_.columns[0].spread == pytest.approx(FRAME["x"].std(ddof=0))


def test_further_adversaries_are_protected_against_as_well():
    fitted = noiser(public="x", adversaries=[KNOWN]).fit(FRAME)
    counted = distributions("x", "loan")
    pairs = [(counted[0], counted[1]), (KNOWN[0], KNOWN[1])]
    assert fitted.theta_["x"] == pytest.approx(calibrate(pairs, Pufferfish(0.5)).scale, rel=CLOSE)
    assert fitted.certificate_.table["adversary"].tolist() == [0, 0, 1, 1]
    alone = noiser(public="x").fit(FRAME).theta_["x"]
    assert fitted.theta_["x"] >= alone


def test_priors_of_several_sensitive_columns_are_given_by_column():
    nested = {"loan": KNOWN, "region": {r: KNOWN[r == "west"] for r in ("east", "north", "west")}}
    fitted = noiser(sensitive=["loan", "region"], public="x", prior=nested).fit(FRAME)
    expected = calibrate([(KNOWN[0], KNOWN[1])], Pufferfish(0.5)).scale
    assert fitted.theta_["x"] == pytest.approx(expected, rel=CLOSE)


JOINT_ROWS = [[x, y] for x in range(4) for y in range(5)]


def known_jointly(multiples):
    """KNOWN beside an independent uniform y, with its counts multiplied by a number a secret."""
    return {
        s: Discrete.from_counts(JOINT_ROWS, np.repeat(KNOWN[s].counts, 5) * multiple)
        for s, multiple in zip(KNOWN, multiples, strict=True)
    }


def test_a_given_prior_over_two_columns_is_split_into_its_groups():
    fitted = noiser(prior=known_jointly([1, 1]), dependence="independent").fit(FRAME)
    assert fitted.priors_["loan"][1]["x",] == KNOWN[1]
    assert fitted.certificate_.loss == pytest.approx(0.5, abs=1e-8)


def test_the_proportions_of_a_given_prior_are_those_of_the_rows():
    small, large = (noiser(prior=known_jointly(m)).fit(FRAME) for m in ([1, 1], [1, 1000]))
    pd.testing.assert_series_equal(small.theta_, large.theta_, check_exact=True)
    spreads = FRAME[["x", "y"]].std(ddof=0)
    assert np.ptp(small.theta_ / spreads) == pytest.approx(0.0, abs=1e-12)


# -------------------------------------------------------------------------------- groups of columns


def joint_frame(seed, columns=3, rows=60):
    rng = np.random.default_rng(seed)
    secret = rng.integers(0, 2, rows)
    values = {f"c{k}": rng.integers(0, 2 + k, rows) + secret * (k % 2) for k in range(columns)}
    return pd.DataFrame({"s": secret} | values)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "dependence",
    ["joint", "independent", [["c0", "c2"], ["c1"]], [["c2", "c1"], ["c0"]]],
    ids=["joint", "independent", "02-1", "12-0"],
)
def test_losses_add_over_groups_direction_by_direction_and_the_maximum_comes_last(seed, dependence):
    frame = joint_frame(seed)
    fitted = PufferfishNoiser(0.8, sensitive="s", dependence=dependence).fit(frame)
    groups = {
        "joint": [["c0", "c1", "c2"]],
        "independent": [["c0"], ["c1"], ["c2"]],
    }.get(str(dependence)) or [sorted(group) for group in dependence]
    forward, backward = 0.0, 0.0
    for group in groups:
        priors = [
            Discrete.from_counts(
                part[group].to_numpy() if len(group) > 1 else part[group[0]],
                np.ones(len(part), int),
            )
            for _, part in frame.groupby("s")
        ]
        there, back = directed_losses(*priors, fitted.theta_[group].tolist())
        forward, backward = forward + float(there), backward + float(back)
    table = fitted.certificate_.table
    assert table["upper"].tolist() == pytest.approx([forward, backward], abs=1e-9)
    assert max(forward, backward) == pytest.approx(0.8, abs=1e-9)
    assert fitted.certificate_.loss <= 0.8


def test_losses_of_independent_columns_are_those_of_the_loss_table():
    frame = joint_frame(5)
    fitted = PufferfishNoiser(0.8, sensitive="s", dependence="independent").fit(frame)
    total = np.zeros(2)
    for name in ("c0", "c1", "c2"):
        [p], [q] = (
            list(of.values()) for of in ({name: fitted.priors_["s"][s][name,]} for s in (0, 1))
        )
        total += LossTable([PriorPair(p, q)]).intervals(Laplace(fitted.theta_[name]))[1][0]
    assert fitted.certificate_.table["upper"].tolist() == pytest.approx(total.tolist(), abs=1e-9)


def xor_frame():
    bits = np.array([[0, 0], [1, 1], [0, 1], [1, 0]] * 25)
    secret = np.array(["same", "same", "other", "other"] * 25)
    return pd.DataFrame({"s": secret, "a": bits[:, 0], "b": bits[:, 1]})


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_columns_that_are_harmless_alone_are_not_harmless_together(epsilon):
    """X2 = X1 under one secret and 1 - X1 under the other, fair bits: loss log cosh(1/theta)."""
    fitted = PufferfishNoiser(epsilon, sensitive="s").fit(xor_frame())
    expected = 1.0 / math.acosh(math.exp(epsilon))
    assert fitted.theta_.tolist() == pytest.approx([expected, expected], rel=CLOSE)
    assert fitted.certificate_.loss == pytest.approx(epsilon, abs=1e-9)


def test_independence_overlooks_it_and_says_what_it_trusts():
    with pytest.warns(
        UserWarning, match="'a', 'b' need no noise .* released unchanged; .* 100 rows"
    ):
        fitted = PufferfishNoiser(1.0, sensitive="s", dependence="independent").fit(xor_frame())
    assert fitted.theta_.tolist() == [0.0, 0.0]
    assert fitted.certificate_.loss == 0.0
    assert any("the row as a whole may reveal more" in s for s in fitted.certificate_.assumptions)
    released = fitted.transform(xor_frame())
    pd.testing.assert_frame_equal(released, xor_frame()[["a", "b"]])


def test_the_scales_keep_the_proportions_of_the_spreads():
    frame = FRAME.assign(x=FRAME["x"] * 1000.0)
    for dependence in ("joint", "independent"):
        fitted = noiser(dependence=dependence).fit(frame)
        spreads = frame[["x", "y"]].std(ddof=0)
        assert np.ptp(fitted.theta_ / spreads) == pytest.approx(0.0, abs=1e-9)
        assert [c.spread for c in fitted.certificate_.columns] == pytest.approx(spreads.tolist())


def test_a_change_of_units_changes_the_scale_in_the_same_proportion():
    for factor in (2.0**40, 2.0**-300):
        here = noiser(public="x", output="noisy").fit(FRAME).theta_["x"]
        there = noiser(public="x", output="noisy").fit(FRAME.assign(x=FRAME["x"] * factor))
        assert there.theta_["x"] == pytest.approx(here * factor, rel=CLOSE)


def test_a_constant_column_needs_no_noise_and_no_warning():
    fitted = noiser(public=["x", "c"]).fit(FRAME.assign(c=7))
    assert fitted.theta_["c"] == 0.0
    assert fitted.theta_["x"] == pytest.approx(noiser(public="x").fit(FRAME).theta_["x"], rel=CLOSE)
    assert set(fitted.transform(FRAME.assign(c=7))["c"]) == {7}


def test_both_directions_of_every_pair_stand_in_the_table():
    table = noiser(sensitive="region").fit(FRAME).certificate_.table
    ordered = set(zip(table["secret"], table["against"], strict=True))
    assert ordered == {(b, a) for a, b in ordered}
    assert len(ordered) == 6
    assert (table["lower"] <= table["upper"]).all()
    assert (table["source"] == "recomputed").all()


@pytest.mark.parametrize("strategy", ["sensitivity", "wasserstein", "relaxed", "exact"])
@pytest.mark.parametrize("dependence", ["joint", "independent"])
def test_every_strategy_holds_and_exact_needs_the_least(strategy, dependence):
    fitted = noiser(strategy=strategy, dependence=dependence).fit(FRAME)
    assert fitted.certificate_.holds
    least = noiser(dependence=dependence).fit(FRAME)
    assert (fitted.theta_ >= least.theta_ * (1 - CLOSE)).all()
    table = fitted.certificate_.table
    assert (table["bound"] >= table["lower"] - 1e-12).all()


# ------------------------------------------------------------------------------- continuous priors


def test_a_gaussian_prior_has_the_moments_of_the_rows_and_ignores_their_order():
    options = {"prior": "gaussian", "public": "x", "delta": 0.01, "strategy": "approximate"}
    fitted = noiser(**options).fit(FRAME)
    shuffled = noiser(**options).fit(FRAME.sample(frac=1.0, random_state=3))
    assert shuffled.certificate_ == fitted.certificate_
    for secret, rows in FRAME.groupby("loan"):
        prior = fitted.priors_["loan"][secret]["x",]
        assert prior.means.tolist() == pytest.approx([rows["x"].mean()])
        assert prior.scales.tolist() == pytest.approx([rows["x"].std(ddof=0)])


def test_a_weight_counts_as_repeated_rows_under_a_gaussian_prior():
    options = {"prior": "gaussian", "public": "x", "delta": 0.01, "strategy": "approximate"}
    weights = np.arange(N_ROWS) % 3
    weighted = noiser(**options).fit(FRAME, sample_weight=weights)
    repeated = noiser(**options).fit(FRAME.loc[FRAME.index.repeat(weights)])
    assert weighted.certificate_ == repeated.certificate_


def test_a_mapping_of_weights_gives_the_proportions_of_the_scales():
    fitted = noiser(weights={"x": 1.0, "y": 3.0}).fit(FRAME)
    assert fitted.theta_["y"] == pytest.approx(3.0 * fitted.theta_["x"], rel=CLOSE)
    assert fitted.certificate_.holds


def test_further_priors_and_a_confidence_set_are_protected_against_together():
    fitted = noiser(public="x", adversaries=[KNOWN, ConfidenceSet(0.9)]).fit(FRAME)
    alone = [noiser(public="x", adversaries=a).fit(FRAME) for a in ([KNOWN], ConfidenceSet(0.9))]
    assert fitted.theta_["x"] >= max(each.theta_["x"] for each in alone) * (1.0 - CLOSE)
    assert fitted.certificate_.over_set.level == 0.9
    assert fitted.certificate_.over_set.loss <= 0.5
    assert fitted.certificate_.table["adversary"].tolist() == [0, 0, 1, 1]
