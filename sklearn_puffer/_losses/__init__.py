"""Exact privacy losses of released columns and rows, as proven intervals."""

from sklearn_puffer._losses import pair_losses, quadrature
from sklearn_puffer._losses.boxes import MOST_CELLS, box_panels, boxes_computable
from sklearn_puffer._losses.convolution import Grid, Wide
from sklearn_puffer._losses.copies import Readers, copies_law, moved_by_copies
from sklearn_puffer._losses.discrete_laws import DiscretePair
from sklearn_puffer._losses.divergences import ROUGHLY, Panels, divergence_interval, gaps
from sklearn_puffer._losses.gaussian_rows import corner_losses, row_interval, rows_computable
from sklearn_puffer._losses.heavy_profiles import profile
from sklearn_puffer._losses.independent_columns import compose
from sklearn_puffer._losses.joint_grids import (
    MAX_CELLS,
    all_computable,
    grid_cells,
    is_computable,
    layer_count,
    plane_cells,
)
from sklearn_puffer._losses.law_pair import LawPair
from sklearn_puffer._losses.line import loss_interval
from sklearn_puffer._losses.loss_table import LossTable
from sklearn_puffer._losses.lumps import lumped_lower
from sklearn_puffer._losses.mixture_laws import computable, law_of
from sklearn_puffer._losses.pair_losses import DiscreteBoxes, DiscreteLine, PairLoss, bare_ratios
from sklearn_puffer._losses.places import kept_axes, on_others, pairs_at_places
from sklearn_puffer._losses.repeated_losses import channel_floor, channel_losses, repeated_losses
from sklearn_puffer._losses.swap_losses import SwapLaws, swap_losses
