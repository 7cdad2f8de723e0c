"""What a channel promises to somebody whose prior is not the fitted one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, counted, quoted
from sklearn_puffer._losses import repeated_losses
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._noiser.channel_cells import Cells, masses_over
from sklearn_puffer._noiser.other_priors import Against, FittedRelease, LossUnder
from sklearn_puffer._tables import Name
from sklearn_puffer.notions import Notion
from sklearn_puffer.priors import Discrete


@dataclass(frozen=True, eq=False)
class FittedChannel(FittedRelease):
    """The channel of a fitted release, and whom and what it protects: all but the priors.

    Attributes
    ----------
    cells : Cells
    rows : IntegerRows
    notion : Notion
    releases : int
        How often the same rows are released.
    """

    cells: Cells
    rows: IntegerRows
    notion: Notion
    releases: int = 1

    def against(self, prior: Mapping[Any, Any]) -> Against:
        """Return what is still promised to somebody with another prior: see `FittedNoise`."""
        further = self._checked(prior)
        found: list[LossUnder] = []
        for name, of_secrets in counted(list(further.items()), "laws held against the channel"):
            laws = [(label, law) for label, of in of_secrets.items() for law in of.values()]
            masses = np.stack([self._masses(law, label) for label, law in laws])
            found += self._losses(name, [label for label, _ in laws], masses)
        return Against(
            notion=self.notion,
            loss=max(pair.upper for pair in found),
            lower=max(pair.lower for pair in found),
            pairs=tuple(found),
        )

    def is_new(self, codes: Array) -> Array:
        """Return which rows of codes are no cells."""
        new: Array = self.cells.find(codes) < 0
        return new

    def _losses(self, name: Name, labels: list[Any], masses: Array) -> list[LossUnder]:
        places = {label: place for place, label in enumerate(labels)}
        pairs = np.array([[places[a], places[b]] for a, b in self.pairs[name]], dtype=np.intp)
        ends = repeated_losses(self.rows, masses, None, pairs, self.notion, self.releases)
        return [
            LossUnder(name, labels[s], labels[t], float(low), float(high), "recomputed")
            for (a, b), of_pair in zip(pairs.tolist(), ends, strict=True)
            for (s, t), (low, high) in zip(((a, b), (b, a)), of_pair, strict=True)
        ]

    def _masses(self, law: Discrete, label: Any) -> Array:
        try:
            return masses_over(self.cells, law, self.columns)
        except LookupError as fault:
            raise ValueError(
                f"prior gives mass to the row {fault} for {quoted(label)}, which was not seen in "
                "fit, so that such rows are refused, or moved; give it mass zero, or name this "
                "prior in adversaries= and fit again."
            ) from None
