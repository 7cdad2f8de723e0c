"""The contingency counts behind Table 4 of paper 000, and the figures the paper prints."""

from sklearn_puffer.datasets._contingency import (
    Contingency,
    load_bank,
    load_census,
    load_simulation_2b,
    load_simulation_3b,
    load_student,
    table4_contingencies,
)
from sklearn_puffer.datasets._published import published_table4

__all__ = [
    "Contingency",
    "load_bank",
    "load_census",
    "load_simulation_2b",
    "load_simulation_3b",
    "load_student",
    "published_table4",
    "table4_contingencies",
]
