"""Tables whose rows are elsewhere: lazy tables of engines, their plans and ids, files, streams."""

from sklearn_puffer._engines import plans, row_ids
from sklearn_puffer._engines.engine import is_lazy, way_to_rows
from sklearn_puffer._engines.files import (
    CsvLayout,
    TableFile,
    TableStream,
    TableWriter,
    arrow,
    kind_of,
    stream_of,
    type_of,
)
from sklearn_puffer._engines.lazy import CHANGED, LazyTable, lazy_table, opened
