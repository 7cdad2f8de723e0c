"""What is promised: the certificate, how releases add up, and the ledger that counts them."""

from sklearn_puffer._releases import sentences
from sklearn_puffer._releases.certificate import (
    NO_PRIOR,
    Awaited,
    Certificate,
    ColumnNoise,
    PairLoss,
    RowsTogether,
    SetLoss,
    Source,
    UncertifiedError,
    jsonable,
    made_line,
    plain_record,
)
from sklearn_puffer._releases.certified import CertifiedEstimator
from sklearn_puffer._releases.channel_certificate import (
    KEY_MATERIAL,
    WHOLE_TABLE,
    ChannelCertificate,
    ChannelFacts,
    ChannelLoss,
    Kept,
    channel_assumptions,
    moved_rows_sentence,
    nothing_changes_sentence,
)
from sklearn_puffer._releases.composition import (
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
    scale_for_releases,
)
from sklearn_puffer._releases.drift import LEAST_ROWS, ColumnDrift, Drift, SecretDrift, counted_loss
from sklearn_puffer._releases.ledger import Ledger
from sklearn_puffer._releases.ledger_state import (
    Entry,
    OverspentError,
    certificate_from_dict,
    rule_from_dict,
)
from sklearn_puffer._releases.models import CountedLoss, ModelFacts, weak_sentence
from sklearn_puffer._releases.person_ledger import PersonLedger
from sklearn_puffer._releases.person_spend import Call
from sklearn_puffer._releases.sentences import OF_A_SAMPLE
from sklearn_puffer._releases.store import (
    LedgerError,
    check_free,
    explained,
    growing_file,
    located,
    write_new,
)
from sklearn_puffer._releases.survival import ColumnUtility, UtilityWarning, utility_frame
from sklearn_puffer._releases.swap_certificate import (
    ReserveFacts,
    SwapCertificate,
    SwapFacts,
    swap_assumptions,
)
