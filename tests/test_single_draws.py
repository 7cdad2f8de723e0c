"""Values that are drawn by themselves: their law, exactly, and what their time may depend on."""

import collections
import functools

import numpy as np
import pytest
from logistic import Logistic
from mpmath import mp, mpf
from sampling_oracle import Padded, Single, beyond, decay, geometry, probability, with_long_words
from scipy import stats

from sklearn_puffer._noise import cauchy, gaussian, grid_step, laplace, sampler, seeded_entropy
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace

UNIT = 2.0**-53
FALSE_ALARM = 1e-6
ASKED = 129  # words
POWERS = [None, 2.0, 1.1, 1.5, 2.5, 3.0, 4.0, 50.0]  # None is the normal law
KINDS = ["laplace", None, 2.0, 1.1, 1.5, 4.0]
STEPS = [(None, False), (0.25, False), (1.0, True)]


def noise_of(k, scale=1.3):
    if k == "laplace":
        return Laplace(scale)
    if k is None:
        return Gaussian(scale)
    return Cauchy(scale) if k == 2.0 else GeneralizedCauchy(scale, k)


def source_of(k, step=None, nearest=False, entropy=None, scale=1.3):
    return sampler(noise_of(k, scale), step or grid_step(scale), entropy, nearest=nearest)


# --------------------------------------------------------------------------------- what bits become


def some_words(size, seed=3):
    words = np.random.default_rng(seed).integers(0, 2**64, size, dtype=np.uint64)
    words[:4] = [0, 2**64 - 1, 2**63, 2**63 - 1]
    return words


@pytest.mark.parametrize(("step", "nearest"), STEPS)
@pytest.mark.parametrize("k", KINDS)
def test_a_word_becomes_the_same_draw_of_the_cells_as_in_a_batch(k, step, nearest):
    words = some_words(2_000)
    halves = words.view(np.uint32).tolist()
    source = with_long_words(source_of(k, step, nearest))
    # a batch reads its first halves off one part of its bits, its second ones off another
    bits = np.array(halves[::2] + halves[1::2], dtype=np.uint32).view(np.uint64)
    source._entropy = Padded(bits.tolist())
    out = np.empty(words.size, dtype=np.int64)
    rest = np.isin(np.arange(words.size), source._many_rounded(out))
    found = [source._single_of_cells(word) for word in words.tolist()]
    assert rest.any()
    assert [is_rest for _, is_rest in found] == rest.tolist()
    assert np.array([drawn for drawn, _ in found])[~rest].tolist() == out[~rest].tolist()


@pytest.mark.parametrize(("step", "nearest"), STEPS)
def test_a_laplace_proposal_is_that_of_a_batch(step, nearest):
    position, chance = some_words(2_000), some_words(2_000, seed=4)
    source = source_of("laplace", step, nearest)
    cells, signed, accepted = source._tested(np.concatenate([position, chance]), np.expm1)
    wanted = source._rounded((cells << source._law.cell_bits) ^ signed)
    inside = cells < source._law.last
    found = [source._single_proposed(*pair) for pair in zip(*_lists(position, chance), strict=True)]
    assert [is_accepted for _, is_accepted in found] == accepted.tolist()
    drawn = np.array([drawn for drawn, _ in found])
    assert drawn[inside].tolist() == wanted[inside].tolist()


@pytest.mark.parametrize(("step", "nearest"), [*STEPS, (2.0**30, False), (2.0**50, True)])
@pytest.mark.parametrize("k", KINDS[1:])
def test_a_proposal_off_tables_is_that_of_a_batch(k, step, nearest):
    source = source_of(k, step, nearest)
    words = [some_words(300, seed) for seed in range(6)]
    words[2][::3] >>= np.uint64(40)  # many halvings, but never a word of noughts
    words[2] |= np.uint64(1 << 11)
    for position, chance, coin, shell, place, coins in zip(*_lists(*words), strict=True):
        further = [coin, shell, place] if source._law.tail.shell_bits else [coin, place]
        source._entropy = Padded([position, chance, *further, chance, coins])
        [drawn], [accepted] = source._proposed(source._entropy, 1, source._law)
        found = source._single_proposed(position, chance, coin, shell, place, coins)
        assert found == (drawn, accepted)


def _lists(*words):
    return [part.tolist() for part in words]


@pytest.mark.parametrize("heads", [0, 1, 52, 53, 54, 200])
def test_a_coin_is_tossed_until_it_falls_tails(heads):
    source = source_of(2.0)
    passes, zeros = divmod(heads, 53)
    first, *later = [0] * passes + [1 << (63 - zeros)]
    unused = [0] * (ASKED - 1)
    source._entropy = Padded([word for one in later for word in (one, *unused)])
    assert source._single_halvings(first) == heads


@pytest.mark.parametrize("tossed", [0, 1, 63, 64, 65, 130])
def test_so_many_heads_are_wanted_and_no_more(tossed):
    source = source_of(2.0)
    heads = [0] * (tossed // 64) + [2 ** (64 - tossed % 64) - 1]
    unused = [0] * (ASKED - 1)
    spread = [word for one in heads[1:] for word in (one, *unused)]
    source._entropy = Padded(list(spread))
    assert source._single_heads(heads[0], tossed)
    if tossed:
        last = (tossed - 1) // 64
        heads[last] = 1 << (63 - (tossed - 1) % 64)
        source._entropy = Padded([word for one in heads[1:] for word in (one, *unused)])
        assert not source._single_heads(heads[0], tossed)


# --------------------------------------------------------------------------------------- every atom


@functools.lru_cache
def table_of(k, scale):
    return Single(source_of(k, scale=scale), scale, k)


def atoms(table):
    """Return magnitudes in the cells, at their edges, and in shells beyond as far as is claimed."""
    length, cells, start = table.length, table.cells, 1 << table.start_bits
    inside = [
        cell * length + at for cell in (0, 40, cells // 2, cells - 1) for at in (0, length - 1)
    ]
    outside = [table.reach + 1, 3 * start + 5, *(start * 2**d + 7 * 2**d for d in (3, 7, 14))]
    heavy = table.k is not None and table.k < 3
    claimed = [m for m in outside if heavy or decay(table.k, m * table.rate) <= 225]
    return inside + [m for m in claimed if m >= table.reach]


@pytest.mark.parametrize("scale", [1.0, 1.3, 1e-300])
@pytest.mark.parametrize("k", POWERS)
def test_every_atom_has_its_exact_probability(k, scale):
    table = table_of(k, scale)
    for magnitude in atoms(table):
        error = abs(table.probability(magnitude) / table.wanted(magnitude) - 1)
        # less than the proven bound, as in a batch
        assert error <= (200 + 4 * min(decay(k, magnitude * table.rate), 225)) * UNIT


def test_the_oracle_of_atoms_notices_a_scale_that_is_wrong_by_a_part_in_1e11():
    table = Single(source_of(2.0), 1.3 * (1 + 1e-11), 2.0)
    errors = [abs(table.probability(m) / table.wanted(m) - 1) for m in atoms(table)]
    assert max(errors) > 1e-12


@pytest.mark.parametrize("scale", [1.0, 1.3, 1e-300])
def test_every_laplace_atom_has_its_exact_probability(scale, monkeypatch):
    source = source_of("laplace", scale=scale)

    def accepted(proposals):
        drawn, happens = source._single_proposed(*source._entropy.words(2 * proposals).tolist())
        return np.array([drawn][: int(happens)])

    monkeypatch.setattr(source, "_accepted", accepted)
    rate = mpf(source.step) / mpf(scale) / 2**source._shift
    _, length, last = geometry(source)
    for magnitude in (0, 63 * length - 1, 300 * length + 7, last * length - 1):
        wanted = -mp.expm1(-rate) * mp.exp(-rate * magnitude)
        assert abs(probability(source, magnitude) / wanted - 1) <= 110 * UNIT


# ------------------------------------------------------------------------------------ many of them


@pytest.mark.parametrize(("step", "nearest"), [STEPS[0], STEPS[2]])
@pytest.mark.parametrize("k", KINDS)
def test_draws_by_themselves_follow_the_law(k, step, nearest):
    source = source_of(k, step, nearest, seeded_entropy(5))
    drawn = np.array([source.draw(1)[0] for _ in range(4_000)])
    assert _p_of_the_law(drawn, source.step, k, 1.3, step, nearest) > FALSE_ALARM


def test_the_test_of_the_law_notices_a_scale_that_is_wrong_by_a_third():
    source = source_of(2.0, entropy=seeded_entropy(5))
    drawn = np.array([source.draw(1)[0] for _ in range(4_000)])
    assert _p_of_the_law(drawn, source.step, 2.0, 1.3 * 4 / 3, None, False) < FALSE_ALARM


def _p_of_the_law(drawn, unit, k, scale, step, nearest):
    """Return the p-value of chi-square over the atoms, or over intervals of fine ones."""
    edges = np.arange(-40, 41) / 8.0
    if step is not None:
        edges = np.unique(np.floor(edges / step) * step)
    edges = edges - 0.5 * nearest * unit  # between atoms
    low = (drawn + 0.5 * (not nearest)) * unit
    masses = np.diff(np.concatenate([[0.0], law_of(k).cdf(edges / scale), [1.0]]))
    counts = np.bincount(np.searchsorted(edges, low, side="right"), minlength=edges.size + 1)
    often = masses * drawn.size > 10.0
    found, wanted = (np.append(x[often], x[~often].sum()) for x in (counts, masses * drawn.size))
    found, wanted = found + 1.0, wanted + 1.0  # where the rest is hardly expected at all
    return stats.chisquare(found, wanted * (found.sum() / wanted.sum())).pvalue


def law_of(k):
    """Return the law in units of the scale, by other means."""
    if k == "laplace":
        return stats.laplace()
    return stats.norm() if k is None else stats.t(k - 1.0, scale=1.0 / np.sqrt(k - 1.0))


@pytest.mark.parametrize("k", [2.0, 1.5, 4.0])
def test_draws_by_themselves_fall_beyond_the_tables_as_often_and_as_far_as_the_law_says(k):
    source = source_of(k, entropy=seeded_entropy(6))
    table, wide = table_of(k, 1.3), []
    for _ in range(3_000):
        drawn = source._single_of_rest(source._single_words(48))
        wide.append(abs(drawn + 0.5))
    wide = np.array(wide) * float(table.rate)
    far = float(table.reach * table.rate)
    share = float(beyond(k, far) / table.rest)
    assert stats.binomtest(int((wide >= far).sum()), wide.size, share).pvalue > FALSE_ALARM
    law = law_of(k)
    ranks = law.sf(wide[wide >= far]) / law.sf(far)
    assert stats.kstest(ranks, stats.uniform.cdf).pvalue > FALSE_ALARM


def test_a_laplace_draw_by_itself_beyond_the_cells_goes_on_from_their_end():
    source = source_of("laplace", entropy=seeded_entropy(2))
    law = source._law
    chunk = int(np.flatnonzero(law.rest_cell == law.last)[0])
    drawn = np.array([source._single_proposed(chunk, 0)[0] for _ in range(2_000)])
    magnitude = np.where(drawn < 0, -1 - drawn, drawn) * source.step / 1.3
    end = float((int(law.last) << int(law.cell_bits)) * -law.rate)
    assert magnitude.min() >= end - 1e-9
    assert stats.kstest(magnitude - end, stats.expon.cdf).pvalue > FALSE_ALARM
    assert stats.binomtest(int((drawn < 0).sum()), drawn.size).pvalue > FALSE_ALARM


# ----------------------------------------------------------------------------------------- its time


class Counted:
    """A source that knows for how many words it was asked."""

    def __init__(self, source):
        self.source, self.requests = source, []

    def words(self, count):
        self.requests.append(count)
        return self.source.words(count)


class Called:
    """Counts the calls of some methods of a sampler, and notes what was proposed."""

    def __init__(self, source, names):
        self.counts, self.proposed = collections.Counter(), []
        for name in names:
            setattr(source, name, self._counted(name, getattr(source, name)))

    def _counted(self, name, method):
        def counting(*given):
            self.counts[name] += 1
            made = method(*given)
            if name == "_single_proposed":
                self.proposed.append(made)
            return made

        return counting


PARTS = ["_single_inside", "_single_beyond", "_single_halvings", "_single_heads", "_single_placed"]


@pytest.mark.parametrize("k", KINDS)
def test_a_draw_by_itself_takes_cells_and_rest_whichever_is_needed(k):
    entropy = Counted(seeded_entropy(11))
    source = source_of(k, entropy=entropy)
    parts = ["_single_of_cells", "_single_proposed", *(PARTS if k != "laplace" else [])]
    called, proposals = Called(source, parts), []
    for _ in range(500):
        called.counts.clear()
        source.draw(1)
        proposals.append(called.counts["_single_proposed"])
        assert called.counts["_single_of_cells"] == 1
        # the parts of a proposal are worked out for each, wherever it lies
        assert {called.counts[part] for part in parts[1:]} == {proposals[-1]}
    assert min(proposals) == 1
    # a batch goes on beyond the cells of Laplace noise, one draw in 3,000
    assert set(entropy.requests) <= {ASKED, 2 if k == "laplace" else ASKED}
    assert len(entropy.requests) <= 500 + (50 if k == 1.1 else 10)


@pytest.mark.parametrize("k", [2.0, 1.5, 4.0])
def test_how_often_the_rest_proposes_tells_nothing_of_what_it_takes(k):
    source = source_of(k, entropy=seeded_entropy(12))
    called, seen = Called(source, ["_single_proposed"]), []
    for _ in range(2_000):
        called.proposed.clear()
        drawn = source._single_of_rest(source._single_words(48))
        seen.append((len(called.proposed), abs(drawn + 0.5)))
    tries, wide = np.array(seen).T
    cut = np.quantile(wide, [0.25, 0.5, 0.75])
    table = np.zeros((4, 4))
    np.add.at(table, (np.searchsorted(cut, wide), np.minimum(tries, 4).astype(int) - 1), 1)
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM
    assert tries.max() > 1


@pytest.mark.parametrize("refused", [0, 1, 7, 8, 20])
@pytest.mark.parametrize("k", KINDS)
def test_a_draw_by_itself_takes_the_first_proposal_that_is_accepted(k, refused):
    source = source_of(k, entropy=seeded_entropy(13, refused))
    proposals, made = source._single_proposed, []

    def proposed(*words):
        assert len(words) == source._words_tried
        made.append(words)
        return proposals(*words)[0], len(made) > refused

    source._single_proposed = proposed
    source._single_of_cells = lambda word: (5, True)
    [drawn] = source.draw(1).tolist()
    if k != "laplace":
        assert drawn == proposals(*made[-1])[0]
    assert len(made) == refused + 1
    used = [word for words in made for word in words]
    assert len(set(used)) == len(used)


# --------------------------------------------------------------------------------- where it is used


@pytest.mark.parametrize(("function", "k"), [(laplace, "laplace"), (gaussian, None), (cauchy, 2.0)])
def test_a_single_value_in_floats_is_the_draw_in_steps(function, k):
    for call in range(50):
        [value] = function(1, 1.3, entropy=seeded_entropy(call))
        source = source_of(k, entropy=seeded_entropy(call))
        assert value == source.draw(1)[0] * source.step
    assert function(1, 1.3).dtype == np.float64


@pytest.mark.parametrize("k", KINDS)
def test_a_single_draw_of_a_broken_source_is_refused(k):
    class Stuck:
        def words(self, count):
            return np.full(count, 7, dtype=np.uint64)

    class Lopsided:
        def words(self, count):
            return seeded_entropy(1).words(count) & np.uint64(0xFF00FF00FF00FF00)

    for broken in (Stuck(), Lopsided()):
        with pytest.raises(RuntimeError, match="the source of random bits is broken"):
            source_of(k, entropy=broken).draw(1)


@pytest.mark.parametrize("k", ["laplace", None, 2.0, 4.0])
def test_single_draws_and_batches_of_one_sampler_share_no_words(k):
    source = source_of(k, entropy=seeded_entropy(3))
    drawn = [int(x) for size in (1, 2, 1, 1, 50, 1) for x in source.draw(size)]
    drawn += [source.single() for _ in range(50)]
    assert len(set(drawn)) == len(drawn)


def test_noise_of_a_family_with_a_shape_of_its_own_is_drawn_by_itself():
    source = sampler(Logistic(1.3), grid_step(1.3), seeded_entropy(4))
    drawn = np.array([source.draw(1)[0] for _ in range(2_000)]) * source.step
    assert stats.kstest(drawn, stats.logistic(scale=1.3).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(drawn, stats.logistic(scale=1.3 * 4 / 3).cdf).pvalue < FALSE_ALARM
