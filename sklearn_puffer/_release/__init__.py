"""What every release of a table has: base, certificate, artifact, and the ledgers of releases."""

from sklearn_puffer._release import sentences
from sklearn_puffer._release.artifact import read_column, written_column
from sklearn_puffer._release.certificate import (
    Certificate,
    Guaranteed,
    Made,
    Method,
    OtherPriors,
    Proof,
)
from sklearn_puffer._release.certificate_figures import (
    KEYED,
    MODEST,
    ColumnNoise,
    ColumnUtility,
    CountedLoss,
    ModelFacts,
    PairLoss,
    RowsTogether,
    SetLoss,
    UncertifiedError,
    UtilityWarning,
    changes_of,
    measured_utility,
    utility_section,
)
from sklearn_puffer._release.certified import CertifiedEstimator
from sklearn_puffer._release.composition import (
    Precisions,
    Refused,
    Rule,
    composition_rule,
    factor_below,
    mixing_scale,
    scale_for_releases,
)
from sklearn_puffer._release.drift import Margin
from sklearn_puffer._release.keyed_rows import KeyedRows, Keying, check_keying
from sklearn_puffer._release.ledger import Ledger
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
    certificate_from_dict,
    left_open,
    not_promised,
)
from sklearn_puffer._release.out_of_memory import (
    KeyedPart,
    check_ids,
    check_stream,
    keyed_mark,
    read_lazily,
    rows_of_stream,
    types_of,
)
from sklearn_puffer._release.parameters import (
    MOST_RELEASES,
    Columns,
    ColumnSpec,
    Guarantee,
    Output,
    RowGroups,
    about_bins,
    check_one_secret,
    check_releases,
    check_units,
    column_of,
    group_codes,
    refuse_twice,
)
from sklearn_puffer._release.person_ledger import PersonLedger
from sklearn_puffer._release.read_release import PufferfishRelease
from sklearn_puffer._release.rows import (
    UNCOVERED,
    CountedTable,
    FitRows,
    LazyRows,
    RowOrder,
    check_size,
    distinct_rows,
    next_table,
    order_of_table,
    order_told,
    refuse_lazy,
    rows_of,
)
from sklearn_puffer._release.store import LedgerError, OverspentError
from sklearn_puffer._release.table_release import TableRelease
