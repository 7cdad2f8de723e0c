"""What every release of a table has: its base, mechanism, keyed rows, drift and artifact."""

from sklearn_puffer._release.artifact import NONSENSE, read_column, written_column
from sklearn_puffer._release.drift import Drift, Margin, compared_rows
from sklearn_puffer._release.keyed_rows import KeyedRows, Keying, Pseudonyms
from sklearn_puffer._release.mechanism import (
    Draw,
    FittedMechanism,
    LearntMechanism,
    Mechanism,
    Moved,
    Patterns,
    Released,
    TableRules,
    Terms,
    about_file,
    certificate_from_dict,
    fitted_shares,
    left_open,
    not_promised,
)
from sklearn_puffer._release.out_of_memory import (
    KeyedPart,
    check_ids,
    keyed_mark,
    read_lazily,
    types_of,
)
from sklearn_puffer._release.read_release import PufferfishRelease
from sklearn_puffer._release.table_release import TableRelease
