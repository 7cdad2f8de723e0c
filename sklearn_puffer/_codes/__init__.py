"""Columns as codes: alphabets, bins, intervals, secrets, and how often their codes occur."""

from sklearn_puffer._codes.columns import (
    Column,
    Placed,
    Reader,
    placed_in,
    row_blocks,
    rule_of,
)
from sklearn_puffer._codes.counting import (
    CodeArray,
    Coded,
    CountedRows,
    check_no_identifier,
    count,
    distinct,
    hardly_repeats,
    identifier_kind,
    tally,
    way_of_text,
)
from sklearn_puffer._codes.secrets import (
    NO_SECRETS,
    Coarse,
    SecretRule,
    bins_of,
    check_known_bins,
    distances_of,
    edges_of,
    in_intervals_of,
    merges_of,
)
from sklearn_puffer._codes.selection import (
    LARGEST_SINGLE,
    Pair,
    Secret,
    combined,
    learn_column,
    public_columns,
    read_secret,
    refuse_values,
    resolve,
    secret_pairs_of,
    standard_deviation,
)
