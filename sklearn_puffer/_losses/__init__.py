"""Exact privacy losses of released columns and rows, as proven intervals."""

from sklearn_puffer._losses.boxes import MOST_VALUES
from sklearn_puffer._losses.composed import compose
from sklearn_puffer._losses.convolution import PriorGrid
from sklearn_puffer._losses.divergences import Panels
from sklearn_puffer._losses.gaussian_rows import row_interval
from sklearn_puffer._losses.joint_grids import (
    MAX_CELLS,
    all_computable,
    grid_cells,
    is_computable,
    kept_axes,
    layer_count,
    on_others,
    pairs_given_kept,
    plane_cells,
)
from sklearn_puffer._losses.loss_table import LossTable
from sklearn_puffer._losses.pair_losses import bare_losses, bare_panels
from sklearn_puffer._losses.prototype_losses import MassBoxes, prototype_losses
from sklearn_puffer._losses.swap_odds import (
    Exchange,
    insider_loss,
    outsider_delta,
    outsider_loss,
    together,
)
