"""Values that are drawn one at a time, as the first of a batch."""

import numpy as np
import pytest
from own_noise import Logistic
from scipy import stats

from sklearn_puffer._noise import grid_step, sampler, seeded_entropy
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace

FALSE_ALARM = 1e-6
KINDS = ["laplace", None, 2.0, 1.1, 1.5, 4.0]


def noise_of(k, scale=1.3):
    if k == "laplace":
        return Laplace(scale)
    if k is None:
        return Gaussian(scale)
    return Cauchy(scale) if k == 2.0 else GeneralizedCauchy(scale, k)


def source_of(k, step=None, nearest=False, entropy=None, scale=1.3):
    return sampler(noise_of(k, scale), step or grid_step(scale), entropy, nearest=nearest)


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
    assert len(set(drawn)) == len(drawn)


def test_noise_of_a_family_with_a_shape_of_its_own_is_drawn_by_itself():
    source = sampler(Logistic(1.3), grid_step(1.3), seeded_entropy(4))
    drawn = np.array([source.draw(1)[0] for _ in range(2_000)]) * source.step
    assert stats.kstest(drawn, stats.logistic(scale=1.3).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(drawn, stats.logistic(scale=1.3 * 4 / 3).cdf).pvalue < FALSE_ALARM
