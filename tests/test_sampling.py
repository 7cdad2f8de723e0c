import bisect
import copy
import math
import multiprocessing
import pickle
import ssl
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from sampling_oracle import (
    CHUNKS,
    MOST,
    REST_CHUNKS,
    ROUND,
    Script,
    cells_of_chunks,
    geometry,
    probability,
    probability_of_a_pass,
    scripted,
    with_long_words,
    word,
    words_for,
)
from scipy import stats

from sklearn_puffer import PufferfishNoiser, PufferfishSGDRegressor, PufferfishSum
from sklearn_puffer._noise import (
    FINEST,
    MAX_STEPS,
    CheckedEntropy,
    Choices,
    coarse_enough,
    grid_step,
    release,
    sampler,
    seeded_entropy,
    system_entropy,
    table_sampler,
    to_indices,
)
from sklearn_puffer._noise.sampler import RELATIVE_ERROR
from sklearn_puffer.noise import Cauchy, Gaussian, Laplace
from sklearn_puffer.priors import Discrete
from sklearn_puffer.users import User

SCALES = [1.0, 1.3, 0.7, 1.9999999999999998, 1e-12, 1e12, 3e-300, 1e300]
scales = st.floats(1e-12, 1e12) | st.sampled_from(SCALES)
UNIT = 2.0**-53


def fine_sampler(scale=1.3, entropy=None):
    return sampler(Laplace(scale), grid_step(scale), entropy)


def draw(source, size):
    out = np.empty(size, dtype=np.int64)
    source.fill(out)
    return out


def laplace(size, scale, entropy):
    return draw(fine_sampler(scale, entropy), size) * grid_step(scale)


def rate(source, scale):
    """Return t, to 50 digits."""
    return mpf(source.step) / mpf(scale)


# ------------------------------------------------------------------------------------------ the
# distribution


def atoms(source):
    """Return magnitudes in the body and up to 12 scales out: edges of cells and inner points."""
    low_bits, cell_steps, last = geometry(source)
    cells = [0, 1, 63, 64, 300, 500, last - 2, last - 1]
    offsets = [0, 1, (1 << low_bits) - 1, 1 << low_bits, cell_steps // 3, cell_steps - 1]
    return [cell * cell_steps + offset for cell in cells for offset in offsets]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("every", [6, pytest.param(2, marks=pytest.mark.slow)])
def test_every_atom_of_the_body_has_its_exact_probability(scale, every):
    source = fine_sampler(scale)
    t = rate(source, scale)
    for magnitude in atoms(source)[::every]:
        wanted = -mp.expm1(-t) * mp.exp(-t * magnitude)
        assert abs(probability(source, magnitude) / wanted - 1) <= 110 * UNIT


@pytest.mark.parametrize("scale", SCALES)
def test_what_passes_all_cells_has_exactly_the_mass_beyond_them(scale):
    source = fine_sampler(scale)
    _, cell_steps, last = geometry(source)
    wanted = mp.exp(-rate(source, scale) * last * cell_steps)
    assert abs(probability_of_a_pass(source) / wanted - 1) <= 110 * UNIT
    assert 12 <= -mp.log(wanted) <= 12 + 1 / 64


def test_a_pass_adds_all_cells_and_starts_again_so_that_there_is_no_last_atom():
    _, cell_steps, last = geometry(fine_sampler())
    for j in (5, -6):
        for passes in (1, 2, 40):
            far = passes * last * cell_steps
            target = j + far if j >= 0 else j - far
            source = scripted(fine_sampler(), words_for(fine_sampler(), target))
            assert draw(source, 1).tolist() == [target]
            assert source._entropy.left == []


@pytest.mark.parametrize("scale", SCALES)
def test_the_chunks_of_each_cell_are_as_many_as_the_tables_say(scale):
    source = fine_sampler(scale)
    distribution, (_, _, last) = source._distribution, geometry(source)
    counts = np.bincount(cells_of_chunks(source), minlength=last)
    assert counts.tolist() == distribution.body.tolist()
    assert distribution.rest_cell.size == REST_CHUNKS
    assert np.bincount(distribution.rest_cell).min() >= 1
    assert distribution.rest_cell.max() == last


@given(st.floats(0.5, 1.0, exclude_max=True), st.integers(40, 42))
def test_the_tables_have_the_shares_that_the_stated_error_takes_for_granted(mantissa, exponent):
    distribution = table_sampler._laplace_tables.__wrapped__(mantissa, exponent)
    assert 0.011 < 1 - distribution.body.sum() / CHUNKS < 0.013
    assert distribution.intercept.min() >= 2.0**64 / 150
    # a proposal is accepted with at most probability 1, even where the rest is largest
    assert distribution.intercept.max() <= 2.0**64
    # and, since it never falls below what the body takes, with at least 0
    least = distribution.intercept + distribution.slope * math.expm1(-(2.0**-7) / mantissa)
    assert least.min() >= -1e-12 * distribution.slope.max()


@given(st.floats(0.5, 1.0, exclude_max=True), st.integers(40, 42))
def test_the_tables_add_up_to_the_share_of_the_rest(mantissa, exponent):
    mass, body, above = table_sampler._body_and_rest(mantissa, exponent)
    t = 1 / (mpf(mantissa) * 2**exponent)
    length = 2 ** (exponent - 7)
    mean = mp.expm1(-t * length) / mp.expm1(-t) / length - 1
    rest = mp.fsum(above.tolist()) + mean * mp.fsum(mass.tolist())
    assert abs(rest / (CHUNKS - int(body.sum())) - 1) <= 14 * UNIT


@pytest.mark.parametrize("scale", SCALES)
def test_more_than_half_of_the_proposals_for_the_rest_are_accepted(scale):
    source, size = fine_sampler(scale, seeded_entropy(9)), 2**15
    assert 0.55 * size < source._accepted(size).size < 0.8 * size


@given(st.integers(0, CHUNKS - 1), st.integers(0, CHUNKS - 1), st.integers(0, 2**32 - 1), scales)
def test_bits_become_cell_position_and_sign(chunk, v, second, scale):
    source = fine_sampler(scale)
    low_bits, _, _ = geometry(source)
    cells = cells_of_chunks(source)
    chunk %= cells.size
    scripted(source, [word(chunk << 16 | v, bits) for bits in (second, ~second % 2**32)])
    j = draw(source, 1)[0]
    assert max(j, -1 - j) >> low_bits == int(cells[chunk]) << 16 | v
    assert (j < 0) == (second >= 2**31)
    assert draw(source, 1)[0] == -1 - j


@given(st.integers(0, CHUNKS - 1), scales)
def test_the_low_bits_run_through_every_position_once(v, scale):
    low_bits, _, _ = geometry(fine_sampler(scale))
    surplus = 31 - low_bits
    lows = range(0, 1 << low_bits, 1 << (low_bits - 8))
    source = scripted(fine_sampler(scale), [word(v, low << surplus) for low in lows])
    drawn = np.array([draw(source, 1)[0] for _ in lows])
    assert np.array_equal(drawn & ((1 << low_bits) - 1), lows)


@pytest.mark.parametrize("scale", SCALES)
def test_the_rest_starts_with_the_first_chunk_that_belongs_to_no_cell(scale):
    source = fine_sampler(scale)
    first_of_rest = int(source._distribution.body.sum()) << 16
    for first, left in ((first_of_rest - 1, 2 * ROUND), (first_of_rest, 0), (2**32 - 1, 0)):
        scripted(source, [word(first, 0)] + [0] * (2 * ROUND))
        draw(source, 1)
        assert len(source._entropy.left) == left


def test_the_rest_is_proposed_anew_until_there_is_enough_of_it():
    source = fine_sampler()
    unlucky = [0] * ROUND + [MOST] * ROUND
    scripted(source, [*unlucky, *unlucky, *words_for(source, -7)[1:], *[0] * (2 * ROUND)])
    assert source._unrounded_rest(1).size >= 1


# ------------------------------------------------------------------------------------------ privacy


@given(st.integers(-(2**47), 2**47), st.integers(1, 2**44), st.sampled_from(SCALES))
def test_whatever_is_released_can_come_from_every_neighbour(output, shift, scale):
    for x in (0, shift, -shift):
        source = scripted(fine_sampler(scale), words_for(fine_sampler(scale), output - x))
        assert x + draw(source, 1)[0] == output


def test_the_low_bits_tell_neighbours_apart_for_textbook_noise_and_never_for_ours():
    textbook = 1.0 * np.random.default_rng(7).laplace(size=300)
    assert all(_textbook_can_draw(y, 0.0) for y in textbook)
    # Of outputs over an input of 0, this share shows by itself that the input was not 1.
    assert np.mean([not _textbook_can_draw(y, 1.0) for y in textbook]) > 0.15
    assert np.mean([not _ours_can_draw(y, 2**40) for y in draw(fine_sampler(1.0), 300)]) == 0.0


def _textbook_can_draw(y, x):
    """Whether numpy's formula gives y for an input x and some uniform of 53 bits near F(y - x)."""
    z = y - x
    middle = round(2**53 * (0.5 * math.exp(z) if z < 0 else 1.0 - 0.5 * math.exp(-z)))
    uniforms = [k / 2**53 for k in range(max(middle - 40, 1), min(middle + 41, 2**53))]
    return any(
        y == (x - math.log(2.0 - u - u) if u >= 0.5 else x + math.log(u + u)) for u in uniforms
    )


def _ours_can_draw(y, x):
    source = scripted(fine_sampler(1.0), words_for(fine_sampler(1.0), int(y) - x))
    return x + draw(source, 1)[0] == y


@pytest.mark.parametrize("scale", [1.0, 1.3, 1e12])
@pytest.mark.parametrize("shift", [1, 2**20 + 1, 2**38])
@pytest.mark.parametrize("every", [23, pytest.param(5, marks=pytest.mark.slow)])
def test_the_loss_of_a_shift_stays_below_shift_over_scale(scale, shift, every):
    source = fine_sampler(scale)
    allowed = shift * rate(source, scale)
    spare = mp.log((1 + mpf(RELATIVE_ERROR)) / (1 - mpf(RELATIVE_ERROR)))
    _, cell_steps, last = geometry(source)
    inside = [m for m in atoms(source)[::every] if m + shift < last * cell_steps]
    assert inside
    for magnitude in inside:
        loss = mp.log(probability(source, magnitude) / probability(source, magnitude + shift))
        assert abs(loss) <= allowed + spare


def test_the_stated_error_covers_900_scales():
    passes = 900 / table_sampler._REACH
    assert 110 * (1 + passes) * UNIT <= RELATIVE_ERROR <= 1e-11
    assert 900 / math.log(10) > 390


@pytest.mark.parametrize(
    "make", [system_entropy, lambda: seeded_entropy(0), lambda: fine_sampler()]
)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_nothing_that_draws_can_be_pickled_or_copied(make, duplicate):
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        duplicate(make())


def test_two_samplers_and_two_calls_share_no_noise():
    source = fine_sampler()
    drawn = [draw(source, 100), draw(source, 100), draw(fine_sampler(), 100)]
    assert np.unique(np.concatenate(drawn)).size == 300


def _send_noise(source, pipe):
    pipe.send(np.append(draw(source, 100), source._next_of_rest(10)))


def test_a_forked_process_shares_no_noise_with_its_parent():
    source = fine_sampler()
    draw(source, 2**17)
    assert source._spare.size > 10
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    children = [context.Process(target=_send_noise, args=(source, there)) for _ in range(2)]
    for child in children:
        child.start()
    drawn = [here.recv() for _ in children]
    drawn += [draw(source, 100), source._next_of_rest(10)]
    for child in children:
        child.join()
    assert np.unique(np.concatenate(drawn)).size == 330


class Source:
    """A source of bits that is not fair, or none."""

    def __init__(self, bytes_of):
        self.bytes_of = bytes_of

    def words(self, count):
        return np.frombuffer(self.bytes_of(8 * count), np.uint64)


def lopsided(size):
    """Return bytes of which one in thirty is 7 beyond its share, and the first of all is."""
    draw = np.random.default_rng(0)
    drawn = draw.integers(0, 256, size, dtype=np.uint8)
    drawn[draw.random(size) < 1 / 30] = 7
    drawn[:1] = 7
    return drawn.tobytes()


BROKEN = {
    "ones": lambda size: b"\xff" * size,
    "noughts": lambda size: b"\0" * size,
    "one byte": lambda size: b"\x5a" * size,
    "one word": lambda size: b"\x12\x34\x56\x78\x9a\xbc\xde\xf0" * (size // 8),
    "two words in turn": lambda size: (bytes(range(8)) + bytes(range(1, 9))) * (size // 16),
    "stuck at its end": lambda size: np.random.default_rng(1).bytes(size - 16) + b"\1" * 16,
    "lopsided": lopsided,
}


@pytest.mark.parametrize("bytes_of", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("noise", [Laplace(1.3), Gaussian(1.3), Cauchy(1.3)])
@pytest.mark.parametrize("size", [1, 3, 5000])
def test_a_broken_source_of_bits_draws_nothing(bytes_of, noise, size):
    source = sampler(noise, grid_step(1.3), Source(bytes_of))
    with pytest.raises(RuntimeError, match=r"the source of random bits is broken: .* nothing was"):
        source.draw(size)


@pytest.mark.parametrize("bytes_of", [BROKEN["ones"], BROKEN["noughts"]])
def test_a_source_that_breaks_on_the_way_is_found_at_its_next_request(bytes_of):
    good = iter([np.random.default_rng(2).bytes])
    source = fine_sampler(entropy=Source(lambda size: next(good, bytes_of)(size)))
    with pytest.raises(RuntimeError, match="the same 64 bits twice in a row"):
        source.draw(2**15)


@pytest.mark.parametrize("bytes_of", [BROKEN["ones"], BROKEN["noughts"]])
def test_nothing_is_released_where_the_systems_generator_is_broken(monkeypatch, bytes_of):
    table = np.array([[0, 0], [0, 1], [1, 1], [1, 0], [1, 1], [0, 0]] * 20)
    noiser = PufferfishNoiser(epsilon=0.1, sensitive=0).fit(table)
    query = PufferfishSum(epsilon=0.5).fit([User(Discrete([0, 1, 2], [0.7, 0.2, 0.1]), count=9)])
    descent = PufferfishSGDRegressor(epsilon=1.0, correlation=0.0, data_norm=1.0, target_bound=1.0)
    monkeypatch.setattr(ssl, "RAND_bytes", bytes_of)
    for use in (
        lambda: noiser.transform(table),
        lambda: query.release([0, 1, 0, 0, 2, 0, 0, 1, 0]),
        lambda: descent.fit(table / 2, table[:, 1] / 2),
        lambda: Choices(system_entropy()).shuffled(5),
    ):
        with pytest.raises(RuntimeError, match="the source of random bits is broken"):
            use()


def test_fair_bits_pass_the_health_check_whatever_is_asked_for():
    for entropy in (system_entropy(), seeded_entropy(0)):
        checked = CheckedEntropy(entropy)
        for count in (*range(40), 511, 512, 513, 2**16):
            assert checked.words(count).shape == (count,)


def passes(trials, repeats):
    """Whether bytes are taken for fair of which so many are the first one again."""
    rest = np.concatenate([np.zeros(repeats), 1 + np.arange(trials - repeats) % 255])
    given = np.concatenate([[0], np.random.default_rng(0).permutation(rest)]).astype(np.uint8)
    with suppress(RuntimeError):
        CheckedEntropy(Script(given.view(np.uint64).tolist())).words((trials + 1) // 8)
        return True
    return False


@pytest.mark.parametrize("trials", [15, 511, 4095])
def test_fair_bytes_repeat_as_often_as_the_check_allows_with_a_chance_below_two_to_the_64(trials):
    # the more repeats the worse: the last ones that pass are found by halving
    refused = bisect.bisect_left(range(trials), True, key=lambda n: not passes(trials, n))
    allowed = refused - 1
    assert passes(trials, allowed)
    assert not passes(trials, refused)
    assert stats.binom.sf(allowed, trials, 1 / 256) <= 2.0**-64


def test_seeds_and_keys_give_reproducible_and_different_streams():
    keys = [(0,), (0, 0), (0, 1), (0, 1, 0), (1,), (1, 0), (2**70,)]
    drawn = [draw(fine_sampler(entropy=seeded_entropy(*key)), 50) for key in keys]
    again = [draw(fine_sampler(entropy=seeded_entropy(*key)), 50) for key in keys]
    assert np.array_equal(drawn, again)
    assert np.unique(drawn).size == 50 * len(keys)


# --------------------------------------------------------------------------------------- statistics

FALSE_ALARM = 1e-6
SIZE = 400_000


def _test_of_fit(values, scale):
    """Return the p-value of chi-square over 1,000 equally likely cells of Laplace draws."""
    cells = np.floor(1000 * stats.laplace.cdf(values, scale=scale)).astype(int)
    return stats.chisquare(np.bincount(np.minimum(cells, 999), minlength=1000)).pvalue


@pytest.mark.parametrize("scale", [1.0, 1.3, 1e-12, 1e12])
def test_the_drawn_values_follow_the_distribution(scale):
    values = laplace(SIZE, scale, seeded_entropy(1))
    assert _test_of_fit(values, scale) > FALSE_ALARM
    assert stats.kstest(values, stats.laplace(scale=scale).cdf).pvalue > FALSE_ALARM


@pytest.mark.slow
def test_the_tests_of_the_distribution_notice_a_scale_that_is_wrong_by_three_per_cent():
    values = laplace(SIZE, 1.03, seeded_entropy(1))
    assert _test_of_fit(values, 1.0) < FALSE_ALARM
    assert stats.kstest(values, stats.laplace(scale=1.0).cdf).pvalue < FALSE_ALARM


def test_the_low_bits_are_uniform_and_those_of_noise_in_single_precision_are_not():
    ours = draw(fine_sampler(1.0, seeded_entropy(2)), SIZE) & 0xFF
    assert stats.chisquare(np.bincount(ours, minlength=256)).pvalue > FALSE_ALARM
    textbook = np.random.default_rng(0).laplace(size=SIZE).astype(np.float32)
    theirs = np.floor(textbook.astype(float) * 2.0**40).astype(np.int64) & 0xFF
    assert stats.chisquare(np.bincount(theirs, minlength=256)).pvalue < FALSE_ALARM


def test_neighbouring_draws_are_independent():
    values = laplace(SIZE, 1.0, seeded_entropy(3))
    for lag in (1, 2, 32, 2**15):
        signs = np.sign(values[lag:] * values[:-lag])
        assert abs(signs.mean()) * math.sqrt(signs.size) < 5.0
        sizes = np.minimum(abs(values), 8.0)
        assert abs(np.corrcoef(sizes[lag:], sizes[:-lag])[0, 1]) * math.sqrt(signs.size) < 5.0


# ------------------------------------------------------------------------------------ whole numbers


@pytest.mark.parametrize("scale", [0.05, 0.4, 1.0, 7.3])
def test_whole_noise_has_the_mass_of_the_nearest_integer(scale):
    drawn = draw(sampler(Laplace(scale), 1.0, seeded_entropy(4), nearest=True), SIZE)
    edges = np.arange(-30, 30) + 0.5
    mass = np.diff(stats.laplace.cdf(edges, scale=scale), prepend=0.0, append=1.0)
    counts = np.bincount(np.searchsorted(edges, drawn), minlength=mass.size)
    often = mass * SIZE > 5.0
    table = np.append(counts[often], counts[~often].sum() + 1.0)
    wanted = np.append(mass[often], mass[~often].sum() + 1.0 / SIZE) * SIZE
    assert stats.chisquare(table, wanted * table.sum() / wanted.sum()).pvalue > FALSE_ALARM


@given(st.integers(-(2**45), 2**45), st.sampled_from([1e-12, 1e-6, 0.3, 1.0, 1e6, 1e12]))
def test_whole_noise_is_the_nearest_integer_and_symmetric(j, scale):
    source = sampler(Laplace(scale), 1.0, nearest=True)
    fine = Fraction(1, 2**source._shift)
    assert fine <= Fraction(1, 2)
    for value, sign in ((j, 1), (-1 - j, -1)):
        scripted(source, words_for(source, value))
        nearest = math.floor(j * fine + Fraction(1, 2))
        assert draw(source, 1)[0] == sign * nearest


def test_whole_noise_of_the_smallest_scale_is_nought_and_of_the_largest_is_not():
    assert not draw(sampler(Laplace(1e-12), 1.0, nearest=True), 10_000).any()
    assert draw(sampler(Laplace(1e12), 1.0, nearest=True), 10_000).all()


def test_coarser_steps_are_exact_floors_of_finer_noise():
    fine = draw(fine_sampler(1.0, seeded_entropy(5)), 1000)
    for shift in (1, 17, 40, 70):
        source = sampler(Laplace(1.0), 2.0 ** (shift - 40), seeded_entropy(5))
        coarse = draw(with_long_words(source), 1000)
        assert coarse.tolist() == (fine >> min(shift, 62)).tolist()


# ---------------------------------------------------------------------------------------- the grid


@given(st.floats(1e-300, 1e300))
def test_the_step_is_the_smallest_power_of_two_at_or_above_its_share_of_the_scale(scale):
    step = grid_step(scale)
    assert math.frexp(step)[0] == 0.5
    assert Fraction(step) / 2 < Fraction(scale) / 2**40 <= Fraction(step)
    assert Fraction(step) <= Fraction(FINEST) * Fraction(scale)  # what losses of rounding rest on
    assert grid_step(scale, integer=True) == max(step, 1.0)


def test_a_scale_whose_step_is_no_float_is_refused():
    with pytest.raises(ValueError, match="scale must be at least"):
        grid_step(1e-320)
    with pytest.raises(ValueError, match="scale must be positive"):
        grid_step(math.nan)


STEPS = [1.0, 2.0**-40, 2.0**20, 2.0**-1000]
values = st.floats(-(2.0**60), 2.0**60) | st.sampled_from(
    [0.49999999999999994, -0.49999999999999994, 0.5, -0.5, 1.5, 2.5, 2.0**52 + 1, 2.0**52 - 0.5]
)


@given(values, st.sampled_from(STEPS))
def test_steps_are_the_exact_floor_of_half_a_step_more(value, step):
    x = value * step
    exact = math.floor(Fraction(x) / Fraction(step) + Fraction(1, 2))
    assert to_indices(np.array([x]), step).tolist() == [exact]


@given(st.integers(-(2**62), 2**62), st.sampled_from([1.0, 2.0**7, 2.0**61, 2.0**80]))
def test_integers_become_steps_without_passing_through_floats(x, step):
    exact = math.floor(Fraction(x) / Fraction(step) + Fraction(1, 2))
    assert to_indices(np.array([x]), step).tolist() == [exact]


def test_integers_and_booleans_of_any_width_become_steps():
    assert to_indices(np.array([True, False]), 0.25).tolist() == [4, 0]
    assert to_indices(np.array([200], dtype=np.uint8), 2.0**-50).tolist() == [200 * 2**50]
    assert to_indices(np.array([2**62], dtype=np.uint64), 4.0).tolist() == [2**60]
    assert to_indices(np.array([], dtype=np.int32), 1.0).tolist() == []
    assert to_indices(np.array([0]), 2.0**-1000).tolist() == [0]


@pytest.mark.parametrize(
    "x", [math.nan, math.inf, -math.inf, 2.0**62 * 1.0001, 2**62 + 1, np.uint64(2**63)]
)
def test_values_too_far_for_64_bits_are_refused(x):
    with pytest.raises(ValueError, match=r"x must be finite and within 2\*\*62 steps"):
        to_indices(np.array([x]), 1.0)


@pytest.mark.parametrize("step", [0.0, -1.0, 3.0, math.nan, math.inf])
def test_a_step_that_is_no_power_of_two_is_refused(step):
    for call in (
        lambda: to_indices([1.0], step),
        lambda: sampler(Laplace(1.0), step),
        lambda: coarse_enough(step, 1.0, 1.0),
    ):
        with pytest.raises(ValueError, match="step must be a positive power of two"):
            call()


@given(st.floats(0.0, 1e15), st.floats(1e-3, 1e6))
def test_a_step_is_coarsened_as_little_as_the_range_needs_or_refused(reach, scale):
    step = grid_step(scale)
    most = Fraction(2**61)
    if Fraction(reach) > most * Fraction(scale) / 2**10:
        with pytest.raises(ValueError, match="is too small for values of up to"):
            coarse_enough(step, scale, reach)
        return
    try:
        chosen = coarse_enough(step, scale, reach)
    except ValueError:
        # no power of two lies between what the range needs and what the scale allows
        assert Fraction(reach) > most * Fraction(scale) / 2**11
    else:
        assert Fraction(reach) <= most * Fraction(chosen)
        assert chosen == step or Fraction(reach) > most * Fraction(chosen) / 2
        assert chosen <= scale / 2**10


@pytest.mark.parametrize("reach", [-1.0, math.nan, math.inf])
def test_a_reach_that_bounds_nothing_is_refused(reach):
    with pytest.raises(ValueError, match="reach must be finite"):
        coarse_enough(1.0, 1.0, reach)


# -------------------------------------------------------------------------------------- the release


class Fixed:
    """A sampler whose noise is given."""

    saturated = False

    def __init__(self, step, noise):
        self.step, self.noise = step, np.asarray(noise, dtype=np.int64)

    def draw(self, size):
        taken, self.noise = self.noise[:size], self.noise[size:]
        return taken.copy()


@given(
    st.lists(
        st.tuples(st.integers(-MAX_STEPS, MAX_STEPS), st.integers(-(2**61), 2**61)), max_size=5
    )
)
def test_the_sum_saturates_and_never_overflows(pairs):
    steps, noise = (np.array([p[k] for p in pairs], dtype=np.int64) for k in (0, 1))
    out, whole = np.empty(len(pairs)), np.empty(len(pairs), dtype=np.int64)
    release(steps, Fixed(0.5, noise), out)
    assert out.tolist() == [float(x + n) / 2 for x, n in pairs]
    release(steps, Fixed(1.0, noise), whole)
    assert whole.tolist() == [max(min(x + n, MAX_STEPS), -MAX_STEPS) for x, n in pairs]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("step", [1.0, 4.0, 2.0**40])
def test_integers_saturate_at_the_range_of_their_type(dtype, step):
    noise = [0, 1, -1, 100, -100, 2**60, -(2**60)]
    out = np.empty(len(noise), dtype=dtype)
    release(np.full(len(noise), 3), Fixed(step, noise), out)
    info, whole = np.iinfo(dtype), int(step)
    low, high = -(-info.min // whole) * whole, info.max // whole * whole
    assert out.tolist() == [max(min((3 + n) * whole, high), low) for n in noise]


def test_a_release_is_value_plus_noise_over_many_blocks_and_into_strided_columns():
    size = 100_000
    steps = np.arange(size)
    table = np.empty((size, 3), dtype=np.float32)
    release(steps, sampler(Laplace(8.0), 1.0, seeded_entropy(6)), table[:, 1])
    noise = draw(sampler(Laplace(8.0), 1.0, seeded_entropy(6)), size)
    assert np.array_equal(table[:, 1], (steps + noise).astype(np.float32))


@pytest.mark.parametrize("dtype", ["int64", "int8", "float64", "float32"])
@pytest.mark.parametrize("noise", [Laplace(8.0), Laplace(2.0**50), Cauchy(8.0)])
def test_a_reach_that_is_known_changes_no_release(noise, dtype):
    steps, columns = np.array([-(2**61), -5, 0, 2**61]), []
    for reach in (2**61, MAX_STEPS):
        out = np.empty(4, dtype=dtype)
        source = sampler(noise, 1024.0, seeded_entropy(8), nearest=True)
        if dtype.startswith("int"):
            source = sampler(noise, max(1.0, grid_step(noise.scale)), seeded_entropy(8))
        release(steps, source, out, reach=reach)
        columns.append(out)
    assert np.array_equal(*columns)


def test_a_release_that_cannot_be_is_refused_before_any_noise_is_drawn():
    steps, source = np.zeros(2, dtype=np.int64), Fixed(0.5, [])
    with pytest.raises(ValueError, match="step must be at least 1 for int64"):
        release(steps, source, np.empty(2, dtype=np.int64))
    with pytest.raises(TypeError, match="out must hold floats or integers"):
        release(steps, source, np.empty(2, dtype=object))


@pytest.mark.parametrize(
    ("noise", "step", "error", "message"),
    [
        (object(), 1.0, TypeError, "noise must be of a noise family"),
        (Laplace((1.0, 2.0)), 1.0, TypeError, "noise must have a single scale"),
        (Laplace(1.0), 2.0**-41, ValueError, "step must be at least grid_step"),
    ],
)
def test_noise_that_cannot_be_drawn_is_refused(noise, step, error, message):
    with pytest.raises(error, match=message):
        sampler(noise, step)


@pytest.mark.parametrize("key", [(-1,), (0, -1), (0, 2**32), (0.5,), (0, True)])
def test_seeds_and_keys_that_are_no_counts_are_refused(key):
    with pytest.raises((TypeError, ValueError), match=r"seed|key"):
        seeded_entropy(*key)
