"""How noise is drawn: shifts in units of the scale, samplers on a grid, and their bits."""

from sklearn_puffer._noise import table_sampler
from sklearn_puffer._noise.entropy import (
    CheckedEntropy,
    Choices,
    Entropy,
    Stream,
    seeded_entropy,
    system_entropy,
)
from sklearn_puffer._noise.family import (
    LOG_ROUNDING,
    ROUNDING,
    ProductNoise,
    cauchy_hockey_stick,
    cauchy_mass,
    cauchy_renyi,
    density_at_zero,
    gaussian_hockey_stick,
    gaussian_mass,
    laplace_renyi,
    log1p_square,
    norm,
    student_mass,
)
from sklearn_puffer._noise.grid import (
    FINEST,
    GRID_BITS,
    MAX_STEPS,
    Grid,
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
from sklearn_puffer._noise.mixing import (
    MixedNoise,
    Mixing,
    Noise,
    Unchanged,
    kept_numerator,
    without_mixings,
)
from sklearn_puffer._noise.sampler import (
    SPARE,
    NoiseSource,
    Sampler,
    release,
    sampler,
    sampler_loss,
    single_scale,
)
from sklearn_puffer._noise.shapes import Bell, Shape, Steep, power
from sklearn_puffer._noise.table_sampler import LaplaceSampler
