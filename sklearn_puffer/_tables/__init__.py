"""Tables as they arrive and leave, as columns, codes and counts: no other knows DataFrames."""

from sklearn_puffer._tables.alphabets import hardly_repeats, learn_column, looks_like_key
from sklearn_puffer._tables.batches import Stream, arrow, reader_of, stream_of
from sklearn_puffer._tables.binning import is_once, quantile_bins, standard_deviation
from sklearn_puffer._tables.columns import Column, Placed, placed_in
from sklearn_puffer._tables.counting import Cells, CodeArray, Coded, NoCodes, count, tally
from sklearn_puffer._tables.digests import row_digests, smallest
from sklearn_puffer._tables.distinct import BLOCK_ROWS, distinct
from sklearn_puffer._tables.engine import CHANGED, LazyTable, lazy_table
from sklearn_puffer._tables.faults import Faults
from sklearn_puffer._tables.features import FeatureForm, Features, ranks_of
from sklearn_puffer._tables.files import Layout, TableFile, TableWriter, kind_of, type_of
from sklearn_puffer._tables.frame import (
    Finished,
    Source,
    Table,
    array_table,
    as_pandas,
    beside,
    cells_frame,
    frame_table,
    is_frame,
    known,
    known_column,
    named_frame,
    no_rows,
    records_frame,
    secret_columns,
    series,
    taken_rows,
)
from sklearn_puffer._tables.kinds import (
    Missing,
    as_levels,
    check_finite,
    check_integers,
    check_whole,
    of_kind,
    present,
    without_unused,
)
from sklearn_puffer._tables.lookup import nearest
from sklearn_puffer._tables.opening import is_lazy, way_to_rows
from sklearn_puffer._tables.plans import check_lazy_kinds, lazy_names, planned
from sklearn_puffer._tables.readers import Reader, column_reader
from sklearn_puffer._tables.recoding import date_columns, recoded
from sklearn_puffer._tables.row_ids import Text, canonical_id, check_id_type, count_ids, read_ids
from sklearn_puffer._tables.sampling import canonical_rows
from sklearn_puffer._tables.selection import (
    Pair,
    Secret,
    column_groups,
    learn_secret,
    public_columns,
    read_secret,
    resolve,
    secret_pairs_of,
)
from sklearn_puffer._tables.thinning import sample_rows
from sklearn_puffer._tables.unseen import NEAREST, Unknown, rule_of
from sklearn_puffer._tables.values import Kind, Name, Values, without_na

__all__ = [
    "BLOCK_ROWS",
    "CHANGED",
    "NEAREST",
    "Cells",
    "CodeArray",
    "Coded",
    "Column",
    "Faults",
    "FeatureForm",
    "Features",
    "Finished",
    "Kind",
    "Layout",
    "LazyTable",
    "Missing",
    "Name",
    "NoCodes",
    "Pair",
    "Placed",
    "Reader",
    "Secret",
    "Source",
    "Stream",
    "Table",
    "TableFile",
    "TableWriter",
    "Text",
    "Unknown",
    "Values",
    "array_table",
    "arrow",
    "as_levels",
    "as_pandas",
    "beside",
    "canonical_id",
    "canonical_rows",
    "cells_frame",
    "check_finite",
    "check_id_type",
    "check_integers",
    "check_lazy_kinds",
    "check_whole",
    "column_groups",
    "column_reader",
    "count",
    "count_ids",
    "date_columns",
    "distinct",
    "frame_table",
    "hardly_repeats",
    "is_frame",
    "is_lazy",
    "is_once",
    "kind_of",
    "known",
    "known_column",
    "lazy_names",
    "lazy_table",
    "learn_column",
    "learn_secret",
    "looks_like_key",
    "named_frame",
    "nearest",
    "no_rows",
    "of_kind",
    "placed_in",
    "planned",
    "present",
    "public_columns",
    "quantile_bins",
    "ranks_of",
    "read_ids",
    "read_secret",
    "reader_of",
    "recoded",
    "records_frame",
    "resolve",
    "row_digests",
    "rule_of",
    "sample_rows",
    "secret_columns",
    "secret_pairs_of",
    "series",
    "smallest",
    "standard_deviation",
    "stream_of",
    "taken_rows",
    "tally",
    "type_of",
    "way_to_rows",
    "without_na",
    "without_unused",
]
