"""The samplers of Gaussian, Cauchy and generalised Cauchy noise."""

import copy
import functools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from sampling_oracle import (
    CHUNKS,
    REST_CHUNKS,
    Script,
    Table,
    beyond,
    cells_of_chunks,
    decay,
    density_at_zero,
    scripted,
    with_long_words,
)
from scipy import stats

from sklearn_puffer._noise import (
    MAX_STEPS,
    grid_step,
    release,
    sampler,
    seeded_entropy,
    table_sampler,
)
from sklearn_puffer._noise.sampler import RELATIVE_ERROR
from sklearn_puffer._noise.shapes import Bell, HeavyPower, power
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace

UNIT = 2.0**-53
FALSE_ALARM = 1e-6
SIZE = 200_000

POWERS = [None, 2.0, 1.1, 3.0, 50.0]  # None is the normal distribution
SCALES = [1.0, 1.0 - 2.0**-53, 1.3, 0.5000001, 1e-300, 1e300, 2.0**-1030]
FAMILIES = [
    (k, scale) for k in POWERS for scale in (SCALES if k in (None, 2.0) else [1.0, 1.3, 1.99])
]
LIMITS = [1.0 + 2.0**-10, 1.01, 1.25, 1.75, 2.5, 2.999, 4.0, 15.99, 16.0, 1e3, 2.0**20]
powers = st.sampled_from(POWERS + LIMITS)
steep_powers = st.sampled_from([k for k in POWERS + LIMITS if k is None or k >= 3])
mantissas = st.floats(0.5, 1.0, exclude_max=True)


def noise_of(k, scale):
    if k is None:
        return Gaussian(scale)
    return Cauchy(scale) if k == 2.0 else GeneralizedCauchy(scale, k)


def distribution_of(k):
    """Return the distribution in units of the scale, by other means."""
    return stats.norm() if k is None else stats.t(k - 1.0, scale=1.0 / math.sqrt(k - 1.0))


def fine_sampler(k, scale=1.3, entropy=None):
    return sampler(noise_of(k, scale), grid_step(scale), entropy)


@functools.lru_cache
def table_of(k, scale=1.3):
    return Table(fine_sampler(k, scale), scale, k)


def tables(k, mantissa):
    shape = Bell() if k is None else power(k)
    return table_sampler._distribution.__wrapped__(shape, mantissa, 40 + (mantissa == 0.5))


def draw(source, size):
    out = np.empty(size, dtype=np.int64)
    source.fill(out)
    return out


# -------------------------------------------------------------------------------------- every atom


def atoms(table):
    """Return magnitudes in the cells, at their edges, and in shells beyond as far as is claimed."""
    length, cells, start = table.length, table.cells, 1 << table.start_bits
    filled = int(np.count_nonzero(table.distribution.body))
    inside = [
        cell * length + offset
        for cell in (0, 1, 40, filled - 1, min(filled, cells - 1), cells // 2, cells - 1)
        for offset in (0, 1, length // 3, length - 1)
    ]
    outside = [table.reach, table.reach + 1, 2 * start - 1, 2 * start, 3 * start + 5]
    outside += [start * 2**d + 7 * 2**d for d in (3, 7, 14)]
    return inside + [m for m in outside if m >= table.reach and _claimed(table, m)]


def _claimed(table, magnitude):
    heavy = table.k is not None and table.k < 3
    return heavy or decay(table.k, magnitude * table.rate) <= 225


@pytest.mark.parametrize(("k", "scale"), FAMILIES)
@pytest.mark.parametrize("every", [6, pytest.param(2, marks=pytest.mark.slow)])
def test_every_atom_has_its_exact_probability(k, scale, every):
    table = table_of(k, scale)
    for magnitude in atoms(table)[::every]:
        found, wanted = table.probability(magnitude), table.wanted(magnitude)
        error = abs(found / wanted - 1)
        assert error <= RELATIVE_ERROR
        # far less than is proven, which adds up the worst of every rounding
        assert error <= (200 + 4 * min(decay(k, magnitude * table.rate), 225)) * UNIT


def test_the_oracle_of_atoms_notices_a_scale_that_is_wrong_by_a_part_in_1e11():
    table = Table(fine_sampler(None, 1.3), 1.3 * (1 + 1e-11), None)
    errors = [abs(table.probability(m) / table.wanted(m) - 1) for m in atoms(table)]
    assert max(errors) > RELATIVE_ERROR


@given(powers, mantissas)
def test_the_tables_have_the_shares_that_the_stated_error_takes_for_granted(k, mantissa):
    distribution = tables(k, mantissa)
    cells = int(distribution.last)
    assert 1 - distribution.body.sum() / CHUNKS > 0.0068
    assert int(distribution.limit) == int(distribution.body.sum()) << 16
    assert np.bincount(distribution.rest_cell, minlength=cells + 1).min() >= 1
    assert distribution.rest_cell.size == REST_CHUNKS
    # chances of 64 bits are fine enough, and none is above 1
    near, far = (_threshold(distribution, k, np.arange(cells) + edge, mantissa) for edge in (0, 1))
    assert near.max() <= 2.0**64 * (1 + 1e-14)
    assert far.min() >= -1e-12 * distribution.slope.max()
    assert far[distribution.body == 0].min(initial=math.inf) >= 2.0**52
    assert 2.0**61 <= distribution.tail_gain <= 2.0**64
    assert distribution.trials < 5


def _threshold(distribution, k, cells, mantissa):
    shape = distribution.shape
    x = cells * math.ldexp(1.0 / mantissa, shape.cell_exponent)
    return distribution.slope[:-1] * shape.falloff(x) - distribution.intercept[:-1]


@given(powers, mantissas)
def test_the_sum_of_all_roundings_is_what_the_stated_error_says(k, mantissa):
    distribution = tables(k, mantissa)
    x = (np.arange(int(distribution.last)) + 0.5) * math.ldexp(
        1.0 / mantissa, distribution.shape.cell_exponent
    )
    falls = -np.log(distribution.shape.falloff(x))
    heavy = isinstance(distribution.shape, HeavyPower)
    roundings = 21 + 10 * falls if heavy else 12 + 15 * falls
    mass = distribution.slope[0] / distribution.gain[0] / CHUNKS * np.exp(-falls)
    outside = max(1.0 - mass.sum(), 0.0) * (110 if heavy else 700)
    share = 1 - distribution.body.sum() / CHUNKS
    assert ((mass * roundings).sum() + outside) / share <= 2900
    assert falls.max() <= 16
    assert RELATIVE_ERROR / UNIT >= 3500 + 24 * 225


@given(powers, mantissas)
def test_the_chunks_of_each_cell_are_as_many_as_the_tables_say(k, mantissa):
    source = fine_sampler(k, mantissa)
    distribution = source._distribution
    counts = np.bincount(cells_of_chunks(source), minlength=int(distribution.last))
    assert counts.tolist() == distribution.body.tolist()


@given(steep_powers, mantissas)
def test_steep_densities_have_their_reach_where_x_squared_p_falls(k, mantissa):
    distribution = tables(k, mantissa)
    reach = int(distribution.last) * math.ldexp(1.0 / mantissa, distribution.shape.cell_exponent)
    assert reach**2 >= (2 if k is None else 2 / (k - 2))


@pytest.mark.parametrize("k", [k for k in POWERS + LIMITS if k])
def test_the_density_at_zero_has_thirty_digits(k):
    assert abs(mpf(str(power(k).at_zero())) / density_at_zero(k) - 1) < mpf(10) ** -30
    assert abs(mpf(str(Bell().at_zero())) / density_at_zero(None) - 1) < mpf(10) ** -30


# ----------------------------------------------------------------------------------------- the tail


@given(powers, mantissas, st.integers(0, 40), st.floats(1.0, 2.0))
def test_the_chance_in_a_shell_is_the_density_over_its_top_and_at_most_one(k, mantissa, shell, y):
    distribution = tables(k, mantissa)
    start = mpf(distribution.tail.start)
    x = start * mpf(y) * 2**shell
    reach = mpf(int(distribution.first)) / 2**62 * start
    halvings = shell >> distribution.tail.shell_bits
    v, c = distribution.tail.chance(np.array([y]), np.array([shell]), np.array([halvings]))
    assume(x >= reach)
    falls = decay(k, x)
    wanted = mp.exp(-falls) * mpf(2) ** (shell + halvings) / mpf(distribution.tail.top)
    assert wanted <= 1 + 1e-12
    assert 2.0**-8 <= v[0] <= 1 + 1e-12
    if falls <= 225 or (k is not None and k < 3):
        error = abs(mpf(float(v[0])) / mpf(2) ** int(c[0]) / wanted - 1)
        assert error <= (400 + 24 * min(falls, 225)) * UNIT


@pytest.mark.parametrize("k", [None, 4.0, 4.4, 5.0, 6.0, 16.0])
def test_the_top_of_a_steep_tail_is_that_of_its_first_or_its_second_shell(k):
    for mantissa in np.linspace(0.5, 0.999, 60).tolist():
        distribution = tables(k, mantissa)
        reach = float(distribution.first) * 2.0**-62 * distribution.tail.start
        ends = [(reach, 0)] + [(distribution.tail.start * 2.0**d, 2 * d) for d in range(1, 5)]
        found = max(mp.exp(-decay(k, x)) * 2**power for x, power in ends)
        assert abs(found / mpf(distribution.tail.top) - 1) <= 1e-12


@pytest.mark.parametrize("k", [None, 8.0, 50.0])
def test_positions_of_the_first_shell_that_lie_in_the_cells_are_refused(k):
    table = table_of(k)
    assert table.reach > 1 << table.start_bits
    shift = 62 - table.start_bits
    for mantissa, taken in (
        (2**62, False),
        ((table.reach << shift) - 1, False),
        (table.reach << shift, True),
    ):
        words, _ = table.tail_words(mantissa, 0)
        accepted = table.scripted([*words, 0], lambda: table.beyond(1)[1][0])
        assert accepted == taken


@given(powers, mantissas, st.integers(0, 2000))
def test_chances_far_out_stay_numbers_and_never_grow(k, mantissa, shell):
    distribution = tables(k, mantissa)
    y, bits = np.array([1.0, 1.9]), distribution.tail.shell_bits
    shells = np.array([shell, shell])
    v, c = distribution.tail.chance(y, shells, shells >> bits)
    assert np.all(np.isfinite(v) & np.isfinite(c))
    if shell:
        assert np.all(np.log2(v) - c <= 1e-12)


@given(st.integers(0, 200))
def test_a_coin_is_tossed_until_it_falls_tails(heads):
    passes, zeros = divmod(heads, 53)
    script = Script([0] * passes + [1 << (63 - zeros)])
    assert table_sampler._halvings(script, 1).tolist() == [heads]
    assert script.left == []


@given(st.floats(2.0**-8, 1.0), st.integers(0, 200), st.data())
def test_a_small_chance_is_a_uniform_and_as_many_coins(v, coins, data):
    full, left = divmod(coins, 64)
    heads = [0] * full + [2 ** (64 - left) - 1] * (left > 0)
    limit = round(v * 2**64)

    def happens(*words):
        chance, tossed = np.array([v * 2.0**64]), np.array([float(coins)])
        return bool(table_sampler._happens(Script(words), chance, tossed)[0])

    assert happens(max(limit - 2**12, 0), *heads)
    assert limit + 2**11 >= 2**64 or not happens(limit + 2**11)
    if coins:
        # a single tail among them, anywhere, and it does not happen
        place = data.draw(st.integers(0, coins - 1))
        tails = heads.copy()
        tails[place // 64] |= 1 << (63 - place % 64)
        assert not happens(0, *tails)


@given(
    st.integers(2**62, 2**63 - 1),
    st.integers(0, 2500),
    st.integers(0, 2100),
    st.booleans(),
    st.booleans(),
)
def test_positions_beyond_become_the_exact_floor_or_nearest_or_two_to_the_62(
    mantissa, shell, shift, nearest, negative
):
    step = math.ldexp(1.0, -1030)
    source = sampler(Cauchy(2.0**-990), step)
    source._true_shift, source._nearest = shift, nearest
    signed = ~mantissa if negative else mantissa
    exact = Fraction(signed) * Fraction(2) ** (shell - source._distribution.drop - shift)
    wanted = math.floor(exact + Fraction(nearest, 2))
    placed = source._placed(np.array([signed]), np.array([shell]))[0]
    if abs(exact) < MAX_STEPS:
        assert placed == wanted
    else:
        assert placed == (-MAX_STEPS if negative else MAX_STEPS)


@pytest.mark.parametrize(("k", "d"), [(2.0, 30), (1.5, 40), (1.1, 70), (3.0, 21), (2.5, 500)])
def test_a_draw_of_any_size_can_be_drawn_and_is_saturated_where_64_bits_end(k, d):
    table = table_of(k)
    for magnitude in (2**d * table.reach, 2**d * table.reach + 2**d * (table.length + 3)):
        for j in (magnitude, -1 - magnitude):
            words = table.words_for(j)
            found = table.scripted(words, lambda: draw(table.source, 1)[0])
            assert found == max(-MAX_STEPS, min(j, MAX_STEPS))


def test_the_mass_that_is_saturated_is_that_of_the_distribution():
    for k, scale in ((1.1, 1.3), (1.25, 1.0), (1.01, 1.9)):
        drawn = draw(fine_sampler(k, scale, seeded_entropy(11)), SIZE)
        share = float(beyond(k, mpf(2) ** 62 * mpf(grid_step(scale)) / mpf(scale)))
        often = int((np.abs(drawn) == MAX_STEPS).sum())
        assert stats.binomtest(often, SIZE, share).pvalue > FALSE_ALARM


# ------------------------------------------------------------------------------------------ privacy


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(-(2**45), 2**45), st.integers(1, 2**43), powers, st.sampled_from([1.0, 1.3]))
def test_whatever_is_released_can_come_from_every_neighbour(output, shift, k, scale):
    # beyond some scales steep densities need more fair bits than a test can write down
    limit = 2**40 if k is not None and k > 100 else 2**45
    table = table_of(k, scale)
    for x in (0, shift % limit, -(shift % limit)):
        words = table.words_for(output % limit - x)
        found = table.scripted(words, lambda: draw(table.source, 1)[0])
        assert x + found == output % limit


@pytest.mark.parametrize("k", POWERS)
@pytest.mark.parametrize(
    "shift",
    [
        pytest.param(1, marks=pytest.mark.slow),
        2**20 + 1,
        pytest.param(2**38, marks=pytest.mark.slow),
    ],
)
def test_the_loss_of_a_shift_is_that_of_the_continuous_distribution(k, shift):
    table = table_of(k)
    spare = mp.log((1 + mpf(RELATIVE_ERROR)) / (1 - mpf(RELATIVE_ERROR)))
    claimed = [m for m in atoms(table)[:40:6] if _claimed(table, m + shift)]
    assert claimed
    for magnitude in claimed:
        loss = mp.log(table.probability(magnitude) / table.probability(magnitude + shift))
        wanted = mp.log(table.wanted(magnitude) / table.wanted(magnitude + shift))
        assert abs(loss - wanted) <= spare


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("k", [None, 2.0, 4.0])
def test_a_sampler_cannot_be_pickled_or_copied(duplicate, k):
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        duplicate(fine_sampler(k))


@pytest.mark.parametrize("k", POWERS)
def test_two_samplers_and_two_calls_share_no_noise_but_a_seed_repeats_it(k):
    source = fine_sampler(k)
    drawn = np.concatenate([draw(source, 100), draw(source, 100), draw(fine_sampler(k), 100)])
    drawn = drawn[np.abs(drawn) < MAX_STEPS]
    assert np.unique(drawn).size == drawn.size
    first, again, other = (draw(fine_sampler(k, 1.3, seeded_entropy(*s)), 70_000) for s in _SEEDS)
    assert np.array_equal(first, again)
    assert np.mean(first == other) < 1e-3 or k == 1.1


_SEEDS = [(5, 1), (5, 1), (5, 2)]


# --------------------------------------------------------------------------------------- statistics


def _test_of_fit(values, distribution):
    """Return the p-value of chi-square over 1,000 equally likely cells; saturated ones are one."""
    first = 1 + math.floor(1000 * distribution.cdf(-(2.0**21)))
    cells = np.floor(1000 * distribution.cdf(values)).astype(int)
    cells[(cells < first) | (cells >= 1000 - first)] = 0
    wanted = np.full(1000 - 2 * first + 1, values.size / 1000)
    wanted[0] *= 2 * first
    counts = np.bincount(np.where(cells > 0, cells - first + 1, 0), minlength=wanted.size)
    return stats.chisquare(counts, wanted).pvalue


@pytest.mark.parametrize(("k", "scale"), FAMILIES)
def test_the_drawn_values_follow_the_distribution(k, scale):
    drawn = draw(fine_sampler(k, scale, seeded_entropy(1)), SIZE)
    values = drawn * (grid_step(scale) / scale)
    assert _test_of_fit(values, distribution_of(k)) > FALSE_ALARM
    # the two fifths nearest to 0, finely: the cells of the tables are about this wide
    inner = distribution_of(k).cdf(values)
    inner = inner[(inner > 0.3) & (inner < 0.7)]
    fine = stats.chisquare(np.histogram(inner, bins=400, range=(0.3, 0.7))[0])
    assert fine.pvalue > FALSE_ALARM


@pytest.mark.parametrize("k", [None, 2.0, 1.5, 3.0, 50.0])
def test_the_tail_follows_the_distribution(k):
    distribution, size = distribution_of(k), 10 * SIZE
    values = np.abs(draw(fine_sampler(k, 1.3, seeded_entropy(2)), size)) * (grid_step(1.3) / 1.3)
    edges = distribution.isf(np.array([0.005, 0.002, 1e-3, 5e-4, 2e-4, 1e-4, 5e-5, 2e-5, 1e-5]))
    edges = edges[edges < 2.0**21]  # further out noise is saturated
    counts = np.histogram(values, bins=np.append(edges, math.inf))[0]
    mass = -np.diff(np.append(2 * distribution.sf(edges), 0.0)) * size
    wanted = mass * counts.sum() / mass.sum()
    assert stats.chisquare(counts, wanted).pvalue > FALSE_ALARM
    assert stats.binomtest(int(counts.sum()), size, 0.01).pvalue > FALSE_ALARM


def test_the_tests_of_the_distribution_notice_a_scale_that_is_wrong_by_ten_per_cent():
    for k in (None, 2.0):
        drawn = draw(fine_sampler(k, 1.0, seeded_entropy(1)), SIZE) * grid_step(1.0)
        assert _test_of_fit(1.1 * drawn, distribution_of(k)) < FALSE_ALARM


@pytest.mark.parametrize("k", POWERS)
def test_the_low_bits_are_uniform(k):
    drawn = draw(fine_sampler(k, 1.0, seeded_entropy(3)), SIZE)
    drawn = drawn[np.abs(drawn) < MAX_STEPS]
    for lowest in (0, 8, 16):
        bits = drawn >> lowest & 0xFF
        if k == 50.0 and lowest == 16:
            continue
        assert stats.chisquare(np.bincount(bits, minlength=256)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("k", POWERS)
def test_neighbouring_draws_are_independent(k):
    drawn = draw(fine_sampler(k, 1.0, seeded_entropy(4)), SIZE)
    sizes = stats.rankdata(np.abs(drawn))
    for lag in (1, 2, 32, 2**15):
        signs = np.sign(drawn[lag:].astype(float) * drawn[:-lag])
        assert abs(signs.mean()) * math.sqrt(signs.size) < 5.0
        assert abs(np.corrcoef(sizes[lag:], sizes[:-lag])[0, 1]) * math.sqrt(signs.size) < 5.0


# ------------------------------------------------------------------------------------ whole numbers


@pytest.mark.parametrize("k", POWERS)
@pytest.mark.parametrize("scale", [0.01, 0.4, 7.3])
def test_whole_noise_has_the_mass_of_the_nearest_integer(k, scale):
    drawn = draw(sampler(noise_of(k, scale), 1.0, seeded_entropy(5), nearest=True), SIZE)
    edges = np.arange(-30, 30) + 0.5
    mass = np.diff(distribution_of(k).cdf(edges / scale), prepend=0.0, append=1.0)
    counts = np.bincount(np.searchsorted(edges, drawn), minlength=mass.size)
    often = mass * SIZE > 5.0
    table = np.append(counts[often], counts[~often].sum() + 1.0)
    wanted = np.append(mass[often], mass[~often].sum() + 1.0 / SIZE) * SIZE
    assert stats.chisquare(table, wanted * table.sum() / wanted.sum()).pvalue > FALSE_ALARM


@given(
    st.integers(-(2**45), 2**45),
    st.sampled_from([None, 2.0, 1.5, 4.0]),
    st.sampled_from([1e-9, 1e-6, 0.3, 1.0, 1e6, 1e12]),
)
def test_whole_noise_is_the_nearest_integer_and_symmetric(j, k, scale):
    source = sampler(noise_of(k, scale), 1.0, nearest=True)
    table = Table(source, scale, k)
    fine = Fraction(1, 2**source._true_shift)
    nearest = math.floor(j * fine + Fraction(1, 2))
    for value, wanted in ((j, nearest), (-1 - j, -nearest)):
        assert table.scripted(table.words_for(value), lambda: draw(source, 1)[0]) == wanted


@pytest.mark.parametrize("nearest", [False, True])
@pytest.mark.parametrize("k", ["laplace", None, 2.0, 1.5, 4.0])
def test_coarse_steps_are_rounded_in_32_bits_as_in_64(k, nearest):
    taken = set()
    for scale in (1e-7, 1e-3, 0.3, 1.0, 1.99, 56.7, 1e3, 1e6, 1e9):
        for step in (2.0**-10, 0.25, 1.0, 2.0, 1024.0):
            noise = Laplace(scale) if k == "laplace" else noise_of(k, scale)
            if step < grid_step(scale):
                continue
            short, long = (
                sampler(noise, step, seeded_entropy(3), nearest=nearest) for _ in range(2)
            )
            taken.add(short._is_coarse)
            long._is_coarse = long._is_short = short._is_short = False
            assert (draw(short, 3_000) == draw(long, 3_000)).all(), (scale, step)
    assert taken == {False, True}


@pytest.mark.slow
@pytest.mark.parametrize("k", ["laplace", None, 2.0, 4.0])
@pytest.mark.parametrize(
    ("scale", "step", "nearest", "short"),
    [
        (56.7, 1.0, True, True),
        (56.7, 1.0, False, True),
        (2.0**19, 1.0, True, True),
        (2.0**21, 1.0, True, None),  # at the border, for one distribution or the other
        (2.0**21, 1.0, False, None),
        (1e9, 1.0, True, False),
    ],
)
def test_half_a_word_has_the_distribution_of_a_word_and_a_sign(k, scale, step, nearest, short):
    """All 2^16 halves that start with a chunk, and of long words with either sign, are counted."""
    noise = Laplace(scale) if k == "laplace" else noise_of(k, scale)
    source = sampler(noise, step, nearest=nearest)
    assert short is None or source._is_short == short
    if not source._is_short:
        return
    for chunk in (0, 1, (int(source._distribution.limit) >> 16) - 1):
        half = (chunk << 16) + np.arange(2**16, dtype=np.uint32)
        own, long = np.empty(2**16, dtype=np.int64), np.empty((2, 2**16), dtype=np.int64)
        source._read_short(own, half)
        for sign, out in zip((0, 2**32 - 1), long, strict=True):
            source._read_coarse(out, half, np.full(2**16, sign, dtype=np.uint32))
        assert np.array_equal(np.sort(np.repeat(own, 2)), np.sort(long, axis=None))


@pytest.mark.parametrize("nearest", [False, True])
@pytest.mark.parametrize("k", ["laplace", None, 2.0])
def test_half_a_word_is_taken_only_where_its_last_bit_is_rounded_off(k, nearest):
    found = set()
    for exponent in range(40):
        noise = Laplace(2.0**exponent) if k == "laplace" else noise_of(k, 2.0**exponent)
        source = sampler(noise, 1.0, nearest=nearest)
        found.add(source._is_short)
        if source._is_short:
            m = np.arange(2**12, dtype=np.int64)
            pairs = ((m + int(source._carry)) >> int(source._coarse)).reshape(-1, 2)
            assert (pairs[:, 0] == pairs[:, 1]).all()
    assert found == {False, True}


@pytest.mark.parametrize("k", ["laplace", None, 2.0])
def test_draws_of_the_rest_that_were_made_before_have_its_distribution_and_come_once(k):
    noise = Laplace(1.3) if k == "laplace" else noise_of(k, 1.3)
    source = sampler(noise, grid_step(1.3))
    parts = [source._next_of_rest(size).copy() for size in [1, 700, 3, 50, 9_000] * 3]
    own, fresh = np.concatenate(parts), source._of_rest(2**15)
    assert stats.ks_2samp(own, fresh).pvalue > FALSE_ALARM
    assert np.unique(own[np.abs(own) < MAX_STEPS]).size > 0.999 * own.size - 1


@pytest.mark.parametrize("k", ["laplace", None])
def test_a_long_column_has_as_much_of_the_rest_in_every_block(k):
    noise = Laplace(56.7) if k == "laplace" else noise_of(k, 56.7)
    source, sizes = sampler(noise, 1.0, nearest=True), []
    read = source._next_of_rest
    source._next_of_rest = lambda size: sizes.append(size) or read(size)
    drawn = np.concatenate([source.draw(2**15).copy() for _ in range(20)])
    assert (
        stats.binomtest(sum(sizes), drawn.size, 1 - int(source._distribution.limit) / 2**32).pvalue
        > 1e-9
    )
    parts = [np.bincount(np.clip(part + 200, 0, 400), minlength=401) for part in np.split(drawn, 2)]
    kept = np.sum(parts, axis=0) > 50
    assert stats.chi2_contingency(np.array(parts)[:, kept]).pvalue > FALSE_ALARM


def test_whole_noise_far_below_one_is_nought_unless_its_tails_are_heavy():
    assert not draw(sampler(Gaussian(1e-12), 1.0, nearest=True), 10_000).any()
    assert not draw(sampler(Cauchy(1e-300), 1.0, nearest=True), 10_000).any()
    light = draw(sampler(GeneralizedCauchy(1e-6, 1.1), 1.0, seeded_entropy(6), nearest=True), SIZE)
    share = float(beyond(1.1, mpf(5e5)))
    assert stats.binomtest(int(np.count_nonzero(light)), SIZE, share).pvalue > FALSE_ALARM


@pytest.mark.parametrize("k", [None, 2.0, 1.5])
def test_coarser_steps_are_exact_floors_of_finer_noise(k):
    fine = draw(fine_sampler(k, 1.0, seeded_entropy(7)), 30_000)
    kept = np.abs(fine) < MAX_STEPS
    for shift in (1, 17, 40, 70):
        source = sampler(noise_of(k, 1.0), 2.0 ** (shift - 40), seeded_entropy(7))
        source = with_long_words(source)
        assert np.array_equal(draw(source, 30_000)[kept], fine[kept] >> min(shift, 62))


# -------------------------------------------------------------------------------------- the release


class Fixed:
    """A saturated sampler whose true noise is given."""

    saturated = True

    def __init__(self, step, noise):
        self.step, self.noise = step, list(noise)

    def draw(self, size):
        taken, self.noise = self.noise[:size], self.noise[size:]
        return np.array([max(-MAX_STEPS, min(n, MAX_STEPS)) for n in taken], dtype=np.int64)


steps = st.integers(-(2**61), 2**61)


@given(steps, steps, st.integers(-(2**80), 2**80), st.booleans())
def test_a_release_of_heavy_noise_is_a_function_of_the_exact_sum(x, other, noise, whole):
    # the same sum from two values, though the noise of one may be saturated
    outs = [np.empty(1, dtype=np.int64 if whole else np.float64) for _ in range(2)]
    for value, out in zip((x, other), outs, strict=True):
        release(np.array([value]), Fixed(1.0, [x + noise - value]), out)
    exact = max(-(2**61), min(x + noise, 2**61))
    assert outs[0][0] == outs[1][0] == outs[0].dtype.type(exact)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float64])
@pytest.mark.parametrize("j", [2**70, -(2**70), 2**63, -(2**63), 2**62, -(2**62) - 1])
def test_a_cauchy_draw_of_any_size_saturates_a_column_and_never_wraps(dtype, j):
    source = sampler(Cauchy(2.0**42), 4.0)
    table = Table(source, 2.0**42, 2.0)
    steps = np.array([1 if np.dtype(dtype).kind == "u" else -1])
    out = np.empty(1, dtype=dtype)
    table.scripted(table.words_for(j), lambda: release(steps, source, out))
    end = 2**61 * 4
    if out.dtype.kind == "f":
        assert out[0] == math.copysign(end, j)
        return
    info = np.iinfo(dtype)
    low, high = max(-(-info.min // 4) * 4, -end), min(info.max // 4 * 4, end)
    assert int(out[0]) == (low if j < 0 else high)


def test_values_too_far_to_hide_heavy_noise_are_refused_before_any_is_drawn():
    out = np.empty(1)
    for x in (2**61 + 1, -(2**61) - 1):
        with pytest.raises(ValueError, match=r"indices must lie within 2\*\*61 steps"):
            release(np.array([x]), scripted(sampler(Cauchy(1.0), 1.0), []), out)


@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e34), (np.float64, 1e306)])
def test_noise_beyond_the_range_of_floats_is_infinite_without_a_warning(dtype, scale):
    out = np.empty(100, dtype=dtype)
    source = sampler(GeneralizedCauchy(scale, 1.01), grid_step(scale), seeded_entropy(9))
    release(np.zeros(100, dtype=np.int64), source, out)
    assert np.isinf(out).any()
    assert not np.isnan(out).any()


@pytest.mark.parametrize("noise", [Laplace(1.0), Gaussian(1.0), Cauchy(1.0)])
def test_an_empty_release_is_empty_and_takes_no_random_bits(noise):
    bits = seeded_entropy(1)
    source, out = sampler(noise, 1.0, bits), np.empty(0)
    release(np.array([], dtype=np.int64), source, out)
    assert out.shape == (0,)
    assert np.array_equal(bits.words(8), seeded_entropy(1).words(8))


@pytest.mark.parametrize(
    ("noise", "step", "error", "message"),
    [
        (Gaussian((1.0, 2.0)), 1.0, TypeError, "noise must have a single scale"),
        (Cauchy(1.0), 2.0**-41, ValueError, "step must be at least grid_step"),
        (GeneralizedCauchy(1.0, 1.0005), 1.0, ValueError, "k must lie between"),
        (GeneralizedCauchy(1.0, 2.0**21), 1.0, ValueError, "take Gaussian noise"),
    ],
)
def test_noise_that_cannot_be_drawn_is_refused(noise, step, error, message):
    with pytest.raises(error, match=message):
        sampler(noise, step)
