"""What a channel promises to somebody whose prior is not the fitted one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, quoted
from sklearn_puffer._channels import Family
from sklearn_puffer._noise import IntegerRows
from sklearn_puffer._noiser.channel_cells import Cells, masses_over
from sklearn_puffer._noiser.channel_problem import Asked, with_known_cells
from sklearn_puffer._noiser.channel_proof import told_by
from sklearn_puffer._noiser.conditional_priors import Laws
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
        asked = [
            each
            for name, of_secrets in further.items()
            for each in with_known_cells(
                self._asked(name, of_secrets), self.known, self.columns, self.cells.codes
            )
        ]
        worst: dict[Any, LossUnder] = {}
        for told in told_by(self.rows, asked, self.notion, self.releases):
            key = told.sensitive, told.secret, told.against
            lower, upper = told.lower, told.upper
            if key in worst:
                lower, upper = max(lower, worst[key].lower), max(upper, worst[key].upper)
            worst[key] = LossUnder(*key, lower, upper, "recomputed")
        return Against(
            notion=self.notion,
            loss=max(pair.upper for pair in worst.values()),
            lower=max(pair.lower for pair in worst.values()),
            pairs=tuple(worst.values()),
        )

    def is_new(self, codes: Array) -> Array:
        """Return which rows of codes are no cells."""
        new: Array = self.cells.find(codes) < 0
        return new

    def _asked(self, name: Name, of_secrets: Mapping[Any, Laws]) -> Asked:
        """Return the laws of the secrets of one column, over the cells."""
        laws = [(label, law) for label, of in of_secrets.items() for law in of.values()]
        masses = np.stack([self._masses(law, label) for label, law in laws])
        labels = [label for label, _ in laws]
        pairs = [[labels.index(label) for label in pair] for pair in self.pairs[name]]
        return Asked(Family(masses, None, np.array(pairs, dtype=np.intp)), 0, name, labels)

    def _masses(self, law: Discrete, label: Any) -> Array:
        try:
            return masses_over(self.cells, law, self.columns)
        except LookupError as fault:
            raise ValueError(
                f"prior gives mass to the row {fault} for {quoted(label)}, which was not seen in "
                "fit, so that such rows are refused, or moved; give it mass zero, or name this "
                "prior in adversaries= and fit again."
            ) from None
