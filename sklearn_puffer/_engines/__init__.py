"""Tables whose rows are elsewhere: lazy tables of engines, their plans and ids, files."""

from sklearn_puffer._engines import plans, row_ids
from sklearn_puffer._engines.engine import is_lazy
from sklearn_puffer._engines.lazy import CHANGED, LazyTable, lazy_table
