"""What parameters ask for, and the rows of a table that is fitted or released."""

from sklearn_puffer._rows.parameters import (
    IN_BINS,
    MOST_RELEASES,
    Columns,
    ColumnSpec,
    Guarantee,
    Output,
    RowGroups,
    about_bins,
    check_one_secret,
    check_units,
    check_unknown,
    column_of,
    group_codes,
    refuse_twice,
)
from sklearn_puffer._rows.rows import (
    UNCOVERED,
    CountedTable,
    FitRows,
    LazyRows,
    RowOrder,
    check_beside,
    check_named,
    check_size,
    distinct_rows,
    first_table,
    next_table,
    order_told,
    refuse_lazy,
    rows_of,
)
