"""A table in memory: columns, values and names in, frames out; no other folder knows pandas."""

from sklearn_puffer._tables.alike import alike
from sklearn_puffer._tables.digests import LARGEST_DIGEST, row_digests, row_hashes
from sklearn_puffer._tables.features import Features
from sklearn_puffer._tables.frame import (
    AnyTable,
    Finished,
    Table,
    array_table,
    as_pandas,
    beside,
    first_values,
    frame_table,
    has_row_labels,
    id_values,
    is_frame,
    label_ranks,
    readable,
    readable_column,
    taken_rows,
    values_of,
)
from sklearn_puffer._tables.results import (
    counts_frame,
    named_frame,
    records_frame,
    series,
    values_frame,
)
from sklearn_puffer._tables.times import UNITS, date_columns, in_whole_days
from sklearn_puffer._tables.values import (
    LABEL_TYPES,
    Faults,
    Kind,
    Missing,
    Name,
    Values,
    check_finite,
    check_objects,
    check_type,
    check_unique,
    fetched_values,
    without_na,
)
