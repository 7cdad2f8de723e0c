"""How noise is drawn: shifts in units of the scale, samplers on a grid, and their bits."""

from sklearn_puffer._noise import shapes
from sklearn_puffer._noise.entropy import (
    CheckedEntropy,
    Choices,
    Entropy,
    Stream,
    seeded_entropy,
    system_entropy,
)
from sklearn_puffer._noise.family import MixedNoise, Noise, ProductNoise, without_mixings
from sklearn_puffer._noise.keyed import (
    ByRow,
    KeyedBits,
    PersonPseudonyms,
    RowWords,
    ShippedKey,
    fresh_key,
    fresh_salt,
    integer_ids,
    read_key,
    shipped_key,
)
from sklearn_puffer._noise.mixing import WHOLE, IntegerRows, Mixing, Unchanged, kept_numerator
from sklearn_puffer._noise.sampler import (
    FINEST,
    MAX_STEPS,
    SPARE,
    NoiseSource,
    Sampler,
    coarse_enough,
    grid_step,
    release,
    sampler,
    sampler_loss,
    to_indices,
)
from sklearn_puffer._noise.shapes import Steep
