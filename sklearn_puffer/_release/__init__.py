"""What is guaranteed: the certificate, how releases add up, and the ledger that counts them."""

from sklearn_puffer._release import sentences
from sklearn_puffer._release.certificate import (
    NO_PRIOR,
    READ_SCHEMAS,
    Awaited,
    Certificate,
    CertifiedEstimator,
    UncertifiedError,
    made_line,
)
from sklearn_puffer._release.composition import (
    MOST_RELEASES,
    Draws,
    Precisions,
    Refused,
    Rule,
    adds_up,
    check_releases,
    composition_rule,
    drawn_scales,
    factor_below,
    rule_from_dict,
    scale_for_releases,
)
from sklearn_puffer._release.drift import (
    PARTS,
    ConditionalMargins,
    Drift,
    Margin,
    SecretDrift,
    Seen,
    Watch,
    check_on_drift,
    counted_loss,
    drift_warning,
    margin_of,
    margin_over,
    n_cells,
    stand_ins,
    watch_of,
)
from sklearn_puffer._release.evidence import (
    ColumnNoise,
    ColumnUtility,
    CountedLoss,
    ModelFacts,
    PairLoss,
    RowsTogether,
    SetLoss,
    UtilityWarning,
    jsonable,
    plain_record,
    utility_frame,
    weak_warning,
)
from sklearn_puffer._release.keyed_rows import (
    KeyedRows,
    Keying,
    Noted,
    Noting,
    check_keying,
    check_present,
    check_unlike,
    keyed_rows,
)
from sklearn_puffer._release.ledger import Entry, Ledger, OverspentError
from sklearn_puffer._release.mechanism import Draw, Patterns, TableRules
from sklearn_puffer._release.person_ledger import Call, PersonLedger
from sklearn_puffer._release.row_certificates import (
    NOT_BETTER,
    SWAP_READERS,
    SWAP_WARNING,
    Kept,
    ReserveFacts,
    SwapCertificate,
    SwapFacts,
    swap_assumptions,
)
from sklearn_puffer._release.row_groups import (
    RowGroups,
    check_groups,
    check_one_column,
    check_one_secret,
    check_sizes,
    fitted_groups,
    group_codes,
    group_names,
    refuse_parts,
    refuse_weights,
    row_groups,
)
from sklearn_puffer._release.rows import (
    CountedTable,
    LazyRows,
    RowOrder,
    check_beside,
    check_rows,
    check_size,
    distinct_rows,
    first_table,
    next_table,
    order_told,
    refuse_lazy,
    rows_of,
)
from sklearn_puffer._release.sentences import OF_A_SAMPLE
from sklearn_puffer._release.store import (
    LedgerError,
    check_free,
    explained,
    growing_file,
    located,
    write_new,
)
