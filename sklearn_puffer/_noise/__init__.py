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
from sklearn_puffer._noise.family import ProductNoise
from sklearn_puffer._noise.grid import (
    FINEST,
    MAX_STEPS,
    coarse_enough,
    grid_step,
    to_indices,
)
from sklearn_puffer._noise.integer_rows import WHOLE, IntegerRows
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
from sklearn_puffer._noise.mixed import MixedNoise, Noise, without_mixings
from sklearn_puffer._noise.mixing import Mixing, Unchanged, kept_numerator
from sklearn_puffer._noise.sampler import (
    SPARE,
    NoiseSource,
    Sampler,
    release,
    sampler,
    sampler_loss,
)
from sklearn_puffer._noise.shapes import Steep
