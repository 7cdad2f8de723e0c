"""How noise is drawn: shifts in units of the scale, samplers on a grid, and their bits."""

from sklearn_puffer._noise import laplace_sampler, sampling, table_sampler
from sklearn_puffer._noise.choices import Choices, Stream
from sklearn_puffer._noise.entropy import CheckedEntropy, Entropy, NotCopied
from sklearn_puffer._noise.family import LOG_ROUNDING, ROUNDING, ProductNoise
from sklearn_puffer._noise.grid import (
    FINEST,
    GRID_BITS,
    MAX_STEPS,
    Grid,
    coarse_enough,
    grid_step,
    to_steps,
)
from sklearn_puffer._noise.integer_rows import WHOLE, IntegerRows, RowSampler
from sklearn_puffer._noise.keyed import ByRow, KeyedBits, RowWords
from sklearn_puffer._noise.keys import ShippedKey, fresh_key, read_key, shipped_key
from sklearn_puffer._noise.laplace_sampler import LaplaceSampler
from sklearn_puffer._noise.marks import PersonMarks, fresh_salt, integer_ids
from sklearn_puffer._noise.mixed_noise import MixedNoise, without_mixings
from sklearn_puffer._noise.mixing import Mixing, MixingSampler, Unchanged, kept_numerator
from sklearn_puffer._noise.protocol import Noise
from sklearn_puffer._noise.sampler import (
    BATCH,
    RELATIVE_ERROR,
    SPARE,
    Sampler,
    sampler_loss,
    single_scale,
)
from sklearn_puffer._noise.sampling import (
    Source,
    cauchy,
    gaussian,
    laplace,
    noisy_steps,
    release,
    sampler,
    seeded_entropy,
    system_entropy,
)
from sklearn_puffer._noise.shapes import Bell, HeavyPower, Shape, Steep, power
from sklearn_puffer._noise.shifts import (
    QUADRATURE_MARGIN,
    cauchy_hockey_stick,
    cauchy_mass,
    cauchy_renyi,
    density_at_zero,
    gaussian_hockey_stick,
    gaussian_mass,
    laplace_renyi,
    log1p_square,
    norm,
    rows_hockey_stick,
    student_mass,
)
from sklearn_puffer._noise.table_sampler import TableSampler

__all__ = [
    "BATCH",
    "FINEST",
    "GRID_BITS",
    "LOG_ROUNDING",
    "MAX_STEPS",
    "QUADRATURE_MARGIN",
    "RELATIVE_ERROR",
    "ROUNDING",
    "SPARE",
    "WHOLE",
    "Bell",
    "ByRow",
    "CheckedEntropy",
    "Choices",
    "Entropy",
    "Grid",
    "HeavyPower",
    "IntegerRows",
    "KeyedBits",
    "LaplaceSampler",
    "MixedNoise",
    "Mixing",
    "MixingSampler",
    "Noise",
    "NotCopied",
    "PersonMarks",
    "ProductNoise",
    "RowSampler",
    "RowWords",
    "Sampler",
    "Shape",
    "ShippedKey",
    "Source",
    "Steep",
    "Stream",
    "TableSampler",
    "Unchanged",
    "cauchy",
    "cauchy_hockey_stick",
    "cauchy_mass",
    "cauchy_renyi",
    "coarse_enough",
    "density_at_zero",
    "fresh_key",
    "fresh_salt",
    "gaussian",
    "gaussian_hockey_stick",
    "gaussian_mass",
    "grid_step",
    "integer_ids",
    "kept_numerator",
    "laplace",
    "laplace_renyi",
    "laplace_sampler",
    "log1p_square",
    "noisy_steps",
    "norm",
    "power",
    "read_key",
    "release",
    "rows_hockey_stick",
    "sampler",
    "sampler_loss",
    "sampling",
    "seeded_entropy",
    "shipped_key",
    "single_scale",
    "student_mass",
    "system_entropy",
    "table_sampler",
    "to_steps",
    "without_mixings",
]
