"""Channels for priors of next to no mass somewhere: whole numbers of any size, unrounded."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from channel_oracle import channel, distributions_released, exact

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._losses import channel_losses, repeated_losses
from sklearn_puffer.noise import OptimalChannel
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete

TABLE = pd.DataFrame({"x": [0, 1, 2, 3] * 6, "s": ["a", "b"] * 12})
MANY = pd.concat([TABLE] * 2000, ignore_index=True)  # cells of many rows, as a channel asks for


def priors(a, b):
    return {"a": Discrete([0, 1, 2, 3], a), "b": Discrete([0, 1, 2, 3], b)}


def released(noiser, distributions):
    """Return what is released of each prior, in fractions, by the whole numbers of the channel."""
    whole = noiser.channel_.numerators.toarray().astype(object)
    found = {}
    for label, distribution in distributions.items():
        chances = dict(
            zip(distribution.rows[:, 0].tolist(), distribution.counts.tolist(), strict=True)
        )
        masses = [
            Fraction(int(chances[x]), int(distribution.total)) for x in noiser.channel_.cells["x"]
        ]
        found[label] = [
            sum(p * int(whole[i, j]) for i, p in enumerate(masses)) / 2**62 for j in range(4)
        ]
    return found


def exact_loss(noiser, distributions, notion=Pufferfish(1.0)):  # noqa: B008  # immutable
    found = released(noiser, distributions)
    return float(max(exact(found[s], found[t], notion) for s, t in permutations("ab")))


@pytest.mark.parametrize("tiny", [1e-12, 3e-17, 1e-20, 7e-25, 1e-28])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_a_channel_keeps_the_budget_for_given_distributions_of_next_to_no_mass(tiny, delta):
    distributions = priors([tiny, 0.3 - tiny, 0.4, 0.3], [1e-3, tiny, 0.4, 0.599 - tiny])
    noiser = PufferfishNoiser(1.0, sensitive="s", prior=distributions, noise="optimal", delta=delta)
    certificate = noiser.fit(MANY).certificate_
    loss = exact_loss(noiser, distributions, Pufferfish(1.0, delta))
    assert certificate.holds
    worst = max(pair.upper for pair in certificate.pairs) if delta else certificate.loss
    assert worst == pytest.approx(loss, rel=1e-9, abs=1e-12)
    assert loss <= worst <= (delta or 1.0)


@pytest.mark.filterwarnings("ignore:no row needs to change")
@pytest.mark.parametrize("b", [[0.1, 0.2, 0.4, 0.3], [0.3, 0.2, 0.2, 0.3]])
def test_another_prior_of_next_to_no_mass_is_told_the_exact_loss(b):
    distributions = priors([0.1, 0.2, 0.4, 0.3], b)
    noiser = PufferfishNoiser(0.3, sensitive="s", prior=distributions, noise="optimal").fit(MANY)
    for tiny in (1e-17, 1e-20):
        other = priors([tiny, 0.3 - tiny, 0.4, 0.3], [1e-3, 1e-3, 0.398, 0.6])
        loss = exact_loss(noiser, other)
        found = noiser.certificate_.against(other).loss
        assert loss <= found == pytest.approx(loss, rel=1e-12)


def test_counts_of_any_size_are_those_of_the_certificate():
    rng = np.random.default_rng(0)
    for bits in (10, 53, 61, 70, 140):
        rows = channel(rng.integers(0, 5, (5, 5)) + np.eye(5, dtype=int))
        masses = np.array(
            [[1 + int(rng.integers(0, 2**10)) * 2 ** (bits - 10) for _ in range(5)] for _ in "abc"],
            dtype=np.int64 if bits < 60 else object,
        )
        masses[0, 0], masses[1, 1] = 1, 1
        for notion in (Pufferfish(1.0), Pufferfish(0.1, 1e-3)):
            pairs = np.array([[0, 1], [1, 2]])
            losses = channel_losses(rows, masses, pairs, notion)
            twice = repeated_losses(rows, masses, pairs, notion, 2)
            for n_draws, ends in ((1, losses), (2, twice)):
                distributions = distributions_released(rows, masses, n_draws)
                for (s, t), both in zip(pairs.tolist(), ends.tolist(), strict=True):
                    for (a, b), (low, high) in zip(((s, t), (t, s)), both, strict=True):
                        loss = exact(distributions[a], distributions[b], notion)
                        assert low <= loss <= high
                        assert high == math.inf or high - low <= 1e-12 * (1.0 + high)


def test_mass_that_the_proof_cannot_tell_from_none_is_refused():
    distributions = priors([1e-40, 0.3, 0.4, 0.3], [0.1, 0.2, 0.4, 0.3])
    for noise in ("optimal", OptimalChannel(floor=0.1)):
        with pytest.raises(ValueError, match=r"probability 1e-40, which is too small .* 5e-29"):
            PufferfishNoiser(sensitive="s", prior=distributions, noise=noise).fit(TABLE)
