"""The counts, priors and printed figures behind the examples of papers 000, 001, 003 and 004."""

from sklearn_puffer.datasets._contingency import (
    Contingency,
    load_bank,
    load_census,
    load_simulation_2b,
    load_simulation_3b,
    load_student,
    table4_contingencies,
)
from sklearn_puffer.datasets._published import (
    fitted_gaussians,
    fitted_mixtures,
    published_table1,
    published_table4,
    table1_priors,
)
from sklearn_puffer.datasets._users import removed_classes, replaced_classes

__all__ = [
    "Contingency",
    "fitted_gaussians",
    "fitted_mixtures",
    "load_bank",
    "load_census",
    "load_simulation_2b",
    "load_simulation_3b",
    "load_student",
    "published_table1",
    "published_table4",
    "removed_classes",
    "replaced_classes",
    "table1_priors",
    "table4_contingencies",
]
