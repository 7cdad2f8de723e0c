"""What all other folders stand on: checks of arguments, arrays, the safe search, rounding."""

from sklearn_puffer._base import arguments, progress
from sklearn_puffer._base.arguments import (
    MOST_PAIRS,
    as_float,
    check_above,
    check_choice,
    check_count,
    check_delta,
    check_jobs,
    check_pairs,
    check_positive,
    check_seed,
    check_verbose,
    listed,
    meant,
    on_one_line,
    plain,
    quoted,
    shown,
)
from sklearn_puffer._base.arrays import (
    LARGEST_INTEGER,
    as_array,
    floats,
    inexact,
    real_numbers,
    refuse_masked,
    refuse_tables,
    way_to_table,
)
from sklearn_puffer._base.digest import digest
from sklearn_puffer._base.highs import Calls, aside, solved
from sklearn_puffer._base.notion import Divergence, HockeyStick, Notion, PowerMean, Supremum
from sklearn_puffer._base.page import Bar, Bars, Document, Page, Section, markdown, short_number
from sklearn_puffer._base.progress import (
    Report,
    counted,
    heading,
    is_listening,
    listening,
    noted,
    reporting,
    say,
    stopping,
    task,
)
from sklearn_puffer._base.records import FieldError, __version__, json_record, read_as, utc_now
from sklearn_puffer._base.rounding import (
    LN2,
    ULP,
    UNIT,
    coarse_up,
    log_sum,
    quotient_rounded_up,
    rounded_down,
    rounded_up,
    sum_by_halves,
)
from sklearn_puffer._base.search import LARGEST, SMALLEST, smallest_for_all, smallest_within
from sklearn_puffer._base.types import (
    Array,
    BoolArray,
    FloatArray,
    IntArray,
    Integers,
    PufferfishWarning,
)
