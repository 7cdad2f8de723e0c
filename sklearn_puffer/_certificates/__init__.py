"""What is guaranteed and proven of a release, how releases add up, and who releases by it."""

from sklearn_puffer._certificates import sentences
from sklearn_puffer._certificates.certificate import (
    NO_PRIOR,
    READ_SCHEMAS,
    Certificate,
    Guaranteed,
    Made,
    Method,
    OtherPriors,
    Proof,
)
from sklearn_puffer._certificates.certificate_figures import (
    KEYED,
    ColumnNoise,
    ColumnUtility,
    CountedLoss,
    ModelFacts,
    PairLoss,
    SetLoss,
    changes_of,
    lower_median,
    measured_utility,
    summary,
    utility_frame,
    utility_section,
)
from sklearn_puffer._certificates.certified import (
    CertifiedEstimator,
    OverspentError,
    UncertifiedError,
    UtilityWarning,
)
from sklearn_puffer._certificates.composition import (
    WHOLE,
    Axis,
    Precisions,
    Refused,
    Rule,
    check_scale,
    composition_rule,
    factor_below,
    mixing_scale,
    rule_from_dict,
    scale_for_releases,
)
