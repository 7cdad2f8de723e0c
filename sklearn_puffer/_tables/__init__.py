"""Tables as they arrive and leave, as columns, codes and counts: no other knows DataFrames."""

from sklearn_puffer._tables.alike import alike
from sklearn_puffer._tables.columns import (
    Column,
    Placed,
    Reader,
    TimeColumn,
    Unknown,
    column_reader,
    placed_in,
    row_blocks,
    rule_of,
    unit_of,
)
from sklearn_puffer._tables.counting import (
    CodeArray,
    Coded,
    CountedRows,
    Features,
    count,
    distinct,
    ranks_of,
    tally,
)
from sklearn_puffer._tables.engine import is_lazy, way_to_rows
from sklearn_puffer._tables.files import (
    CsvLayout,
    TableFile,
    TableStream,
    TableWriter,
    arrow,
    kind_of,
    stream_of,
    type_of,
)
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
    secret_columns,
    taken_rows,
    values_in,
    values_of,
)
from sklearn_puffer._tables.identifiers import (
    check_no_identifier,
    hardly_repeats,
    identifier_kind,
    way_of_text,
)
from sklearn_puffer._tables.intervals import (
    NO_SECRETS,
    Coarse,
    SecretRule,
    bins_of,
    check_merged,
    distances_of,
    edges_of,
    in_intervals,
    in_intervals_of,
    merges_of,
)
from sklearn_puffer._tables.lazy import CHANGED, LazyTable, lazy_table, opened
from sklearn_puffer._tables.lookup import nearest
from sklearn_puffer._tables.results import (
    cells_frame,
    counts_frame,
    named_frame,
    no_rows,
    records_frame,
    series,
    values_frame,
)
from sklearn_puffer._tables.selection import (
    LARGEST_SINGLE,
    MOST_SECRETS,
    Pair,
    Secret,
    check_few,
    column_groups,
    combined,
    is_once,
    learn_column,
    learn_secret,
    public_columns,
    read_secret,
    resolve,
    secret_pairs_of,
    standard_deviation,
    with_two,
)
from sklearn_puffer._tables.times import UNITS, in_days
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
    row_hashes,
    strata_of,
    value_codes,
    without_na,
    without_unused,
)
