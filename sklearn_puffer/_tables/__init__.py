"""A table in memory: columns, values and names in, frames out; no other folder knows pandas."""

from sklearn_puffer._tables.alike import LARGEST_DIGEST, alike, row_digests, row_hashes
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
    put_together,
    readable,
    readable_column,
    taken_rows,
    values_of,
)
from sklearn_puffer._tables.times import UNITS, in_whole_days
from sklearn_puffer._tables.values import (
    LABEL_TYPES,
    Faults,
    Features,
    Kind,
    Missing,
    Name,
    Values,
    check_finite,
    check_objects,
    check_type,
    check_unique,
    counts_frame,
    fetched_values,
    named_frame,
    records_frame,
    series,
    values_frame,
)
