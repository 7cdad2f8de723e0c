"""Tables as they arrive and leave, as columns, codes and counts: no other knows DataFrames."""

from sklearn_puffer._tables.alphabets import (
    hardly_repeats,
    is_once,
    learn_column,
    looks_like_key,
    quantile_bins,
    standard_deviation,
)
from sklearn_puffer._tables.columns import Column, Placed, Reader, column_reader, placed_in
from sklearn_puffer._tables.counting import (
    BLOCK_ROWS,
    Cells,
    CodeArray,
    Coded,
    FeatureForm,
    Features,
    NoCodes,
    count,
    distinct,
    ranks_of,
    tally,
)
from sklearn_puffer._tables.engine import CHANGED, LazyTable, lazy_table
from sklearn_puffer._tables.files import (
    Layout,
    Stream,
    TableFile,
    TableWriter,
    arrow,
    kind_of,
    reader_of,
    stream_of,
    type_of,
)
from sklearn_puffer._tables.frame import (
    Finished,
    Source,
    Table,
    alike,
    array_table,
    as_pandas,
    beside,
    cells_frame,
    frame_table,
    is_frame,
    known,
    known_column,
    named_frame,
    no_rows,
    records_frame,
    secret_columns,
    series,
    taken_rows,
)
from sklearn_puffer._tables.lookup import NEAREST, Unknown, nearest, rule_of
from sklearn_puffer._tables.opening import is_lazy, opened, way_to_rows
from sklearn_puffer._tables.selection import (
    Pair,
    Secret,
    column_groups,
    learn_secret,
    public_columns,
    read_secret,
    resolve,
    secret_pairs_of,
)
from sklearn_puffer._tables.values import (
    LARGEST_DIGEST,
    Faults,
    Kind,
    Missing,
    Name,
    Values,
    as_levels,
    check_finite,
    check_integers,
    check_whole,
    date_columns,
    of_kind,
    present,
    recoded,
    row_digests,
    row_marks,
    smallest,
    without_na,
    without_unused,
)
