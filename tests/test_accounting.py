"""The exact loss against brute force in 50 digits, closed forms, and its own distributions."""

import json
import math
from functools import cache
from pathlib import Path

import mpmath
import numpy as np
import oracle
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sklearn_puffer._losses import grid_cells, loss_table
from sklearn_puffer._losses.convolution import PriorGrid
from sklearn_puffer.accounting import MAX_CELLS, Loss, LossTable, is_computable, privacy_loss
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, PriorPair

GOLDEN = json.loads(Path(__file__).with_name("golden_000.json").read_text(encoding="utf-8"))
NOTION = Pufferfish(epsilon=1.0)


def loss(p, q, theta):
    return privacy_loss(p, q, Laplace(theta), NOTION)


def best(p, q, theta):
    lower, upper = ends(p, q, theta)
    return 0.5 * lower + 0.5 * upper


def ends(p, q, theta):
    lower, upper = LossTable([PriorPair(p, q)]).intervals(Laplace(theta))
    return lower[0], upper[0]


def random_prior(rng, n_axes):
    """A prior of few atoms: lattice or irregular, many magnitudes, masses from 1e-12 and zero."""
    size = int(rng.integers(1, (0, 9, 6, 5)[n_axes]))
    if rng.random() < 0.5:
        atoms = rng.choice([1.0, 1e-3, 1e6]) * rng.integers(0, 6, (size, n_axes))
    else:
        atoms = rng.standard_cauchy((size, n_axes)) * 10.0 ** rng.uniform(-6, 6, (size, 1))
    counts = rng.integers(0, 4, size) * 10 ** rng.integers(0, 12, size)
    counts[rng.integers(size)] += 1
    return Discrete.from_counts(atoms if n_axes > 1 else atoms[:, 0], counts)


def random_scale(rng, n_axes):
    if rng.random() < 0.5:
        return float(10.0 ** rng.uniform(-4, 4))
    return tuple(float(scale) for scale in 10.0 ** rng.uniform(-6, 6, n_axes))


def assert_agrees(p, q, theta, width=4e-13):
    truth = oracle.directed_losses(p, q, theta)
    lower, upper = ends(p, q, theta)
    for k in (0, 1):
        assert lower[k] <= truth[k] <= upper[k]
        assert upper[k] - lower[k] <= width * (1 + truth[k])


@pytest.mark.slow
@pytest.mark.parametrize(("n_axes", "instances"), [(1, 100), (2, 20), (3, 10)])
def test_random_pairs_agree_with_brute_force_in_both_directions(n_axes, instances):
    rng = np.random.default_rng(n_axes)
    for _ in range(instances):
        p, q = random_prior(rng, n_axes), random_prior(rng, n_axes)
        # logs of sums a million scales away are right to a share of themselves
        assert_agrees(p, q, random_scale(rng, n_axes), width=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("n_axes", "instances"), [(1, 100), (2, 25), (3, 8)])
def test_many_more_random_pairs_agree_with_brute_force(n_axes, instances):
    rng = np.random.default_rng(100 + n_axes)
    for _ in range(instances):
        p, q = random_prior(rng, n_axes), random_prior(rng, n_axes)
        # logs of sums a million scales away are right to a share of themselves
        assert_agrees(p, q, random_scale(rng, n_axes), width=1e-6)


@pytest.mark.parametrize("theta", [1e-12, 1e-3, 0.7, 40.0, 1e12])
def test_the_same_pair_agrees_at_every_scale(theta):
    p = Discrete.from_counts([0.0, 0.5, 3.0, 3.25, 90.0], [3, 0, 10**12, 1, 7])
    q = Discrete.from_counts([0.0, 0.75, 3.0, 90.0, 91.5], [1, 1, 10**11, 0, 9])
    assert_agrees(p, q, theta)


def test_masses_down_to_1e_300_keep_their_relative_weight():
    p = Discrete([0.0, 1.0, 800.0], [1.0 - 1e-12, 1e-12, 1e-300])
    q = Discrete([0.0, 1.0, 800.0], [1.0, 1e-200, 1e-250])
    for theta in (0.1, 1.0, 50.0):
        assert_agrees(p, q, theta)


def test_masses_below_the_range_of_floats_are_held_exactly():
    p = Discrete.from_counts([0, 1], [1, 10**400])
    q = Discrete.from_counts([0, 1], [10, 10**400])
    assert_agrees(p, q, 1e-4, width=1e-11)
    assert best(p, q, 1e-4)[1] == pytest.approx(math.log(10.0), rel=1e-11)


def test_far_atoms_of_equal_distance_do_not_cancel_the_loss_away():
    # Seen from between, both priors are 1e9 scales away; the loss is that of their nearby ratio.
    p = Discrete.from_counts([[0.0, 0.0], [1e9, 1e9]], [3, 1])
    q = Discrete.from_counts([[0.0, 0.0], [1e9, 1e9]], [2, 2])
    assert_agrees(p, q, 1.0)
    assert_agrees(p, q, (0.3, 7.0))


def test_equal_priors_lose_nothing_but_rounding():
    p = Discrete.from_counts(np.arange(1000.0) ** 2, np.arange(1, 1001))
    q = Discrete.from_counts(np.arange(1000.0) ** 2, 3 * np.arange(1, 1001))
    for theta in (1e-3, 1.0, 1e5):
        assert ends(p, q, theta)[0].tolist() == [0.0, 0.0]
        assert loss(p, q, theta).upper < 4e-13


def test_one_atom_each_loses_the_distance_over_the_scale():
    p, q = Discrete.from_counts([2.0], [5]), Discrete.from_counts([-1.0], [3])
    assert best(p, q, 1.5).tolist() == [2.0, 2.0]
    assert_agrees(p, q, 1e-7)


def test_priors_of_disjoint_support_agree_with_brute_force():
    p = Discrete.from_counts([0, 2, 4, 6], [1, 2, 3, 4])
    q = Discrete.from_counts([1, 3, 5, 1000], [4, 3, 2, 1])
    for theta in (1e-3, 0.5, 30.0):
        assert_agrees(p, q, theta)


def test_a_scale_finer_than_floats_resolve_still_has_a_sound_interval():
    p, q = Discrete.from_counts([0.0, 1.0], [1, 2]), Discrete.from_counts([0.0, 1.0], [1, 1])
    lower, upper = ends(p, q, 1e-40)
    truth = [math.log(4 / 3), math.log(3 / 2)]
    assert np.all(lower <= truth)
    assert np.all(truth <= upper)
    apart = ends(p, Discrete.from_counts([0.5], [1]), 1e-40)
    assert np.all(apart[1] >= 0.5 / 1e-40)


def test_the_interval_never_excludes_zero_loss_from_below():
    p = Discrete.from_counts([0.0, 1.0], [1, 1])
    assert ends(p, Discrete.from_counts([0.0, 1.0], [2, 2]), 1.0)[0].tolist() == [0.0, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize("theta", [0.3, 20.0, 1e4])
def test_a_thousand_atoms_agree_with_a_dense_matrix(theta):
    rng = np.random.default_rng(5)
    atoms = np.cumsum(rng.exponential(1.0, 1500))
    p = Discrete.from_counts(atoms[:1200], rng.integers(0, 9, 1200))
    q = Discrete.from_counts(atoms[300:], rng.integers(0, 9, 1200))
    np.testing.assert_allclose(best(p, q, theta), oracle.dense_losses(p, q, theta), rtol=1e-12)


def test_floats_and_logs_give_the_same_sums():
    rng = np.random.default_rng(6)
    for axes in ([700], [40, 3, 17], [300, 2], [2, 300], [3] * 5, [5, 1, 130], [200, 90]):
        masses = rng.dirichlet(np.ones(math.prod(axes)), size=3)
        grid = PriorGrid([np.cumsum(rng.exponential(1.0, n)) for n in axes], masses)
        theta = rng.uniform(3.0, 9.0, len(axes))
        np.testing.assert_allclose(grid.sums(theta), np.exp(grid.log_sums(theta)), rtol=1e-13)


def wild_pair(rng, size):
    """Gaps from 1e-12 to 1e12 in any order about zero, masses of many sizes, half of them zero."""
    positive = np.unique(np.cumsum(10.0 ** rng.uniform(-12, 12, size)))
    atoms = np.concatenate((-positive[::-3], positive))
    counts = rng.integers(0, 2, (2, len(atoms))) * 10 ** rng.integers(0, 15, (2, len(atoms)))
    counts[:, 0] = 1
    return Discrete.from_counts(atoms, counts[0]), Discrete.from_counts(atoms, counts[1])


def test_gaps_of_all_sizes_mixed_agree_with_brute_force():
    rng = np.random.default_rng(8)
    for size in (5, 12, 25):
        assert_agrees(*wild_pair(rng, size), 1.0)


@pytest.mark.slow
def test_many_atoms_at_wild_spacing_agree_with_brute_force_where_it_is_attained():
    rng = np.random.default_rng(9)
    p, q = wild_pair(rng, 3000)
    found = best(p, q, 1.0)
    points = p.atoms[rng.choice(len(p.atoms), 20)]
    for point in points:
        ratio = oracle.log_ratio(p, q, (point,), 1.0)
        assert -found[1] * (1 + 1e-12) - 1e-12 <= ratio <= found[0] * (1 + 1e-12) + 1e-12


@pytest.mark.slow
def test_thirty_thousand_atoms_agree_with_50_digits_where_the_loss_is_attained():
    rng = np.random.default_rng(10)
    size = 30_000
    atoms = np.sort(rng.uniform(0.0, 1e5, size))
    counts = rng.integers(1, 100, (2, size))
    p, q = (Discrete.from_counts(atoms, row) for row in counts)
    sums = PriorGrid([atoms], counts / counts.sum(axis=1, keepdims=True)).sums(np.array([30.0]))
    at = int(np.argmax(sums[0] / sums[1]))
    truth = oracle.log_ratio(p, q, (atoms[at],), 30.0)
    assert abs(best(p, q, 30.0)[0] - truth) <= 1e-13
    assert loss(p, q, 30.0).upper - loss(p, q, 30.0).lower <= 2e-11  # rounding grows with atoms


def test_no_point_off_the_atoms_loses_more():
    rng = np.random.default_rng(11)
    for _ in range(12):
        p, q = random_prior(rng, 1), random_prior(rng, 1)
        theta = float(np.ptp(np.union1d(p.atoms, q.atoms)) * 10.0 ** rng.uniform(-1, 1)) or 1.0
        upper = ends(p, q, theta)[1]
        low, high = min(p.atoms[0], q.atoms[0]), max(p.atoms[-1], q.atoms[-1])
        for point in np.linspace(low - theta, high + theta, 60):
            ratio = oracle.log_ratio(p, q, (point,), theta)
            assert -upper[1] <= ratio <= upper[0]


def test_no_point_off_the_grid_of_two_columns_loses_more():
    rng = np.random.default_rng(12)
    p, q = (Discrete.from_counts(rng.uniform(0, 3, (4, 2)), [1, 5, 2, 1]) for _ in range(2))
    upper = ends(p, q, (0.7, 1.9))[1]
    for point in rng.uniform(-1, 4, (300, 2)):
        assert -upper[1] <= oracle.log_ratio(p, q, tuple(point), (0.7, 1.9)) <= upper[0]


@st.composite
def discrete(draw, max_size=6):
    atoms = draw(st.lists(st.integers(-20, 20), min_size=1, max_size=max_size, unique=True))
    counts = draw(st.lists(st.integers(0, 50), min_size=len(atoms), max_size=len(atoms)))
    assume(any(counts))
    return Discrete.from_counts(np.array(atoms) / 4.0, counts)


SCALES = st.floats(1e-3, 1e3)


@given(discrete(), discrete(), SCALES, st.floats(1.0, 100.0))
def test_more_noise_never_loses_more(p, q, theta, factor):
    assert np.all(ends(p, q, theta * factor)[0] <= ends(p, q, theta)[1])


@given(discrete(), discrete(), SCALES)
def test_swapping_the_priors_swaps_the_directions(p, q, theta):
    np.testing.assert_allclose(best(q, p, theta), best(p, q, theta)[::-1], rtol=1e-13, atol=1e-14)


@given(discrete(), discrete(), SCALES, st.integers(-3, 3), st.integers(-40, 40))
def test_units_and_origin_of_a_column_do_not_matter(p, q, theta, power, shift):
    unit = 2.0**power
    moved = [Discrete.from_counts((r.atoms + shift) * unit, r.counts) for r in (p, q)]
    np.testing.assert_allclose(
        best(*moved, theta * unit), best(p, q, theta), rtol=1e-13, atol=1e-14
    )


@given(discrete(), discrete(), discrete(), SCALES)
def test_a_detour_over_a_third_prior_never_loses_less(p, q, r, theta):
    assert ends(p, q, theta)[0][0] <= ends(p, r, theta)[1][0] + ends(r, q, theta)[1][0]


@pytest.mark.slow
@given(discrete(), discrete(), SCALES, st.fractions(0, 1, max_denominator=9))
def test_mixing_the_first_prior_with_the_second_never_loses_more(p, q, theta, share):
    a, b = share.numerator, share.denominator
    atoms = np.concatenate((p.atoms, q.atoms))
    mixed = Discrete.from_counts(
        atoms, np.concatenate((p.counts * (b - a) * q.total, q.counts * a * p.total))
    )
    assert ends(mixed, q, theta)[0][0] <= ends(p, q, theta)[1][0]


@given(discrete(), discrete(), SCALES, SCALES)
def test_a_release_of_one_column_loses_no_more_than_the_release_of_both(p, q, first, second):
    both = [
        Discrete.from_counts(np.column_stack((r.atoms, np.abs(r.atoms))), r.counts) for r in (p, q)
    ]
    assert np.all(ends(p, q, first)[0] <= ends(*both, (first, second))[1])


@given(discrete(), discrete())
def test_the_limit_without_noise_is_the_loss_at_a_vanishing_scale(p, q):
    limit = LossTable([PriorPair(p, q)]).without_noise()[0]
    found = best(p, q, 1e-3)
    finite = np.isfinite(limit)
    np.testing.assert_allclose(found[finite], limit[finite], rtol=1e-13, atol=1e-14)
    assert np.all(found[~finite] > 200.0)


def test_the_limit_without_noise_is_the_largest_log_ratio_of_masses():
    p = Discrete.from_counts([[0, 0], [1, 1], [2, 0]], [1, 3, 0])
    q = Discrete.from_counts([[0, 0], [1, 1], [2, 0]], [2, 1, 1])
    limit = LossTable([PriorPair(p, q)]).without_noise()[0]
    assert limit.tolist() == [pytest.approx(math.log(3.0), rel=1e-15), math.inf]


@pytest.mark.parametrize("theta", [0.01, 0.5, 3.0])
def test_two_columns_that_tell_nothing_apart_tell_log_cosh_together(theta):
    p = Discrete.from_counts([[0, 0], [1, 1]], [1, 1])
    q = Discrete.from_counts([[0, 1], [1, 0]], [1, 1])
    expected = float(mpmath.log(mpmath.cosh(1 / mpmath.mpf(theta))))
    assert best(p, q, theta).tolist() == pytest.approx([expected, expected], rel=1e-14)
    for column in (0, 1):
        alone = [Discrete.from_counts(r.atoms[:, column], r.counts) for r in (p, q)]
        assert ends(*alone, theta)[1].max() < 1e-14


def test_columns_independent_given_the_secret_add_their_directed_losses():
    rng = np.random.default_rng(13)
    columns = [[rng.integers(1, 9, 3) for _ in "pq"] for _ in "xy"]
    pairs = [[Discrete.from_counts([0, 1, 3], c) for c in column] for column in columns]
    rows = np.array([(a, b) for a in (0, 1, 3) for b in (0, 1, 3)])
    joint = [
        Discrete.from_counts(rows, np.outer(columns[0][k], columns[1][k]).ravel()) for k in (0, 1)
    ]
    total = best(*pairs[0], 0.8) + best(*pairs[1], 1.7)
    assert best(*joint, (0.8, 1.7)) == pytest.approx(total, rel=1e-13)


def test_irregular_gaps_of_paper_001_lose_what_the_golden_file_says():
    instance = GOLDEN["counterexamples"]["001-Lemma3-irregular"]["instance"]
    p, q = (Discrete(instance["x"], instance[name]) for name in "PQ")
    assert loss(p, q, 1.0).upper == pytest.approx(8.78376105473, abs=1e-9)


def test_two_releases_lose_what_one_does_at_half_the_scale():
    known = GOLDEN["joint_k2_equals_single_at_theta_over_2"]
    p, q = (Discrete(np.arange(4), known[name]) for name in "pq")
    twice = [Discrete.from_counts(np.column_stack((r.atoms, r.atoms)), r.counts) for r in (p, q)]
    assert loss(*twice, known["theta"]).upper == pytest.approx(known["joint_eps"], abs=1e-9)
    single = loss(p, q, known["theta"] / 2.0).upper
    assert single == pytest.approx(known["single_eps_at_theta_over_2"], abs=1e-9)
    assert loss(*twice, known["theta"]).upper == pytest.approx(single, rel=1e-12)


def table4_pair(name):
    entry = GOLDEN["table4"][name]
    if "counts" in entry:
        return entry, [Discrete.from_counts(entry["x"], counts) for counts in entry["counts"]]
    return entry, [Discrete(entry["x"], entry[side]) for side in "pq"]


@pytest.mark.parametrize("name", sorted(GOLDEN["table4"]))
def test_table_4_loses_the_golden_figures_at_the_relaxed_scales(name):
    entry, pair = table4_pair(name)
    known = zip(entry["relaxed_min"], entry["eps_at_relaxed_min"], strict=True)
    for theta, epsilon in known:
        assert loss(*pair, theta).upper == pytest.approx(epsilon, abs=1e-9)


@pytest.mark.parametrize("name", sorted(GOLDEN["table4"]))
def test_table_4_loses_exactly_epsilon_at_the_exact_scales(name):
    entry, pair = table4_pair(name)
    limit = LossTable([PriorPair(*pair)]).without_noise().max()
    assert limit == pytest.approx(entry["eps_at_zero_noise"] or math.inf, abs=1e-9)
    for theta, epsilon in zip(entry["exact"], GOLDEN["eps_grid"], strict=True):
        if theta > 0.0:
            assert loss(*pair, theta).upper == pytest.approx(epsilon, abs=1e-9)
        else:
            assert limit <= epsilon
    directed = zip(entry["exact_fwd_only"], entry["exact_rev_only"], strict=True)
    for thetas, epsilon in zip(directed, GOLDEN["eps_grid"], strict=True):
        for side, theta in enumerate(thetas):
            if theta > 0.0:
                assert best(*pair, theta)[side] == pytest.approx(epsilon, abs=1e-9)


def test_a_table_of_many_pairs_says_what_each_pair_says_alone():
    rng = np.random.default_rng(14)
    shared = [random_prior(rng, 1) for _ in range(5)]
    others = [random_prior(rng, 1) for _ in range(3)]
    pairs = [PriorPair(a, b) for a in shared for b in shared if a is not b]
    pairs += [PriorPair(others[0], others[1]), PriorPair(others[1], others[2])]
    pairs = [pairs[k] for k in rng.permutation(len(pairs))]
    table = LossTable(pairs)
    together = table.without_noise(), *table.intervals(Laplace(2.0))
    for k, pair in enumerate(pairs):
        alone = LossTable([pair])
        single = alone.without_noise(), *alone.intervals(Laplace(2.0))
        for one, all_of_them in zip(single, together, strict=True):
            # other atoms are a million scales away
            np.testing.assert_allclose(one[0], all_of_them[k], rtol=1e-6, atol=5e-13)


def test_pairs_too_many_for_a_common_grid_are_treated_one_by_one(monkeypatch):
    rng = np.random.default_rng(15)
    priors = [random_prior(rng, 2) for _ in range(6)]
    pairs = [PriorPair(p, q) for p in priors for q in priors if p is not q]
    whole = LossTable(pairs)
    monkeypatch.setattr(loss_table, "_MAX_TABLE", 10)
    single = LossTable(pairs)
    for noise in (Laplace(0.5), Laplace((3.0, 1e5))):
        for one, other in zip(single.intervals(noise), whole.intervals(noise), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=5e-13)
    assert np.array_equal(single.without_noise(), whole.without_noise())


def test_a_table_without_pairs_is_empty():
    table = LossTable([])
    assert table.without_noise().shape == (0, 2)
    assert [end.shape for end in table.intervals(Laplace(1.0))] == [(0, 2), (0, 2)]


def test_atoms_without_mass_change_no_loss():
    p = Discrete.from_counts([0.0, 1.0], [1, 2])
    q = Discrete.from_counts([0.0, 1.0], [2, 1])
    wider = Discrete.from_counts([-1e6, 0.0, 0.5, 1.0], [0, 1, 0, 2])
    assert best(wider, q, 0.3).tolist() == best(p, q, 0.3).tolist()
    assert grid_cells([wider, q]) == 2


def test_a_column_vector_is_the_column_itself():
    p, q = Discrete.from_counts([0, 3], [1, 2]), Discrete.from_counts([1, 3], [1, 2])
    flat = best(p, q, 0.3).tolist()
    as_rows = [Discrete.from_counts(prior.rows, prior.counts) for prior in (p, q)]
    assert best(*as_rows, (0.3,)).tolist() == flat


def test_the_order_of_rows_plays_no_part():
    rng = np.random.default_rng(16)
    rows, counts = rng.integers(0, 3, (20, 2)), rng.integers(0, 9, (2, 20))
    order = rng.permutation(20)
    p, q = (Discrete.from_counts(rows, c) for c in counts)
    shuffled = [Discrete.from_counts(rows[order], c[order]) for c in counts]
    assert best(p, q, 0.4).tolist() == best(*shuffled, 0.4).tolist()


def diagonal(size, n_axes=2):
    return Discrete.from_counts(
        np.repeat(np.arange(size)[:, None], n_axes, axis=1), np.ones(size, int)
    )


def test_cells_are_counted_without_overflow():
    assert grid_cells([diagonal(1000, n_axes=9)]) == 1000**9
    assert grid_cells([diagonal(3), Discrete.from_counts([[7, 0]], [1])]) == 4 * 3


def test_a_grid_past_the_limit_is_refused_before_it_is_allocated():
    p, q = diagonal(1000, n_axes=9), diagonal(1001, n_axes=9)
    assert not is_computable([p, q])
    with pytest.raises(ValueError, match=rf"{1001**9:,} cells.*{MAX_CELLS:,}.*fewer bins.*groups"):
        LossTable([PriorPair(p, q)])


def test_a_grid_at_the_limit_and_a_line_of_any_length_are_computed():
    side = math.isqrt(MAX_CELLS)
    assert is_computable([diagonal(side)])
    assert not is_computable([diagonal(side + 1)])
    line = np.column_stack((np.arange(MAX_CELLS + 1), np.zeros(MAX_CELLS + 1)))
    p = Discrete.from_counts(line, np.ones(len(line), int))
    q = Discrete.from_counts(line, np.arange(len(line)) + 10**6)
    assert is_computable([p, q])
    alone = [Discrete.from_counts(r.atoms[:, 0], r.counts) for r in (p, q)]
    assert best(p, q, (5.0, 1.0)).tolist() == best(*alone, 5.0).tolist()


class OtherNoise:
    scale = 1.0


def test_what_has_no_exact_loss_is_refused_by_name():
    p = Discrete.from_counts([0, 1], [1, 1])
    with pytest.raises(TypeError, match=r"noise must be Laplace.*OtherNoise"):
        privacy_loss(p, p, OtherNoise(), NOTION)
    with pytest.raises(TypeError, match=r"notion must be a Pufferfish.*1\.0"):
        privacy_loss(p, p, Laplace(1.0), 1.0)
    with pytest.raises(TypeError, match=r"Discrete priors, got \[0\.5, 0\.5\]"):
        LossTable([(p, [0.5, 0.5])])


def test_priors_of_different_columns_are_refused():
    with pytest.raises(ValueError, match="same columns"):
        LossTable([PriorPair(Discrete.from_counts([0, 1], [1, 1]), diagonal(2))])


def test_scales_of_another_number_of_columns_are_refused():
    with pytest.raises(ValueError, match="3 entries and the prior 2 columns"):
        best(diagonal(2), diagonal(3), (1.0, 1.0, 1.0))


def test_atoms_too_far_apart_for_floats_are_refused():
    far = Discrete.from_counts([-1.7e308, 1.7e308], [1, 1])
    with pytest.raises(ValueError, match="too far apart"):
        LossTable([PriorPair(far, far)])


@cache
def ulps(function):
    """The largest error of exp or log against 50 digits, in units of 2^-53 of the result."""
    rng = np.random.default_rng(17)
    arguments = -rng.exponential(30.0, 4000) if function == "exp" else rng.uniform(0.0, 1.0, 4000)
    found = getattr(np, function)(arguments)
    with mpmath.workdps(50):
        exact = [getattr(mpmath, function)(mpmath.mpf(x)) for x in arguments.tolist()]
        return max(abs(f / e - 1) for f, e in zip(found.tolist(), exact, strict=True)) * 2**53


@pytest.mark.parametrize("function", ["exp", "log"])
def test_elementary_functions_are_as_accurate_as_the_proof_assumes(function):
    assert ulps(function) <= 4.0


def test_a_loss_is_a_frozen_pair_of_ends():
    interval = Loss(0.5, 0.75)
    assert (interval.lower, interval.upper) == (0.5, 0.75)
    with pytest.raises(AttributeError):
        interval.lower = 0.0
