"""How noise is drawn: shifts in units of the scale, samplers on a grid, and their bits."""

from sklearn_puffer._noise import sampling, table_sampler
from sklearn_puffer._noise.family import (
    LOG_ROUNDING,
    QUADRATURE_MARGIN,
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
from sklearn_puffer._noise.keyed import (
    ByRow,
    KeyedBits,
    PersonMarks,
    RowWords,
    ShippedKey,
    fresh_key,
    fresh_salt,
    integer_ids,
    read_key,
    shipped_key,
)
from sklearn_puffer._noise.mixing import (
    WHOLE,
    IntegerRows,
    MixedNoise,
    Mixing,
    Noise,
    Unchanged,
    kept_numerator,
    without_mixings,
)
from sklearn_puffer._noise.sampler import (
    BATCH,
    FINEST,
    GRID_BITS,
    MAX_STEPS,
    RELATIVE_ERROR,
    SPARE,
    CheckedEntropy,
    Choices,
    Entropy,
    Grid,
    NotCopied,
    Sampler,
    Stream,
    coarse_enough,
    grid_step,
    sampler_loss,
    single_scale,
    to_steps,
)
from sklearn_puffer._noise.sampling import (
    LaplaceSampler,
    Source,
    noisy_steps,
    release,
    sampler,
    seeded_entropy,
    system_entropy,
)
from sklearn_puffer._noise.table_sampler import Bell, HeavyPower, Shape, Steep, TableSampler, power
