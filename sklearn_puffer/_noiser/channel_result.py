"""What the fit of a channel found out, and what follows: certificate, `channel_` and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray, __version__, quoted, shown, utc_now
from sklearn_puffer._channels import ChannelProblem, Family
from sklearn_puffer._noise import WHOLE, IntegerRows
from sklearn_puffer._noiser.channel_cells import CellDistance, Cells, CountedCells, masses_over
from sklearn_puffer._noiser.channel_problem import Asked, with_known_cells
from sklearn_puffer._noiser.channel_proof import Proof, told_by
from sklearn_puffer._noiser.channel_release import Channel, ChannelRelease, as_matrix
from sklearn_puffer._noiser.conditional_priors import Adversary, Laws, named_laws
from sklearn_puffer._noiser.margins import Conditional, Margin
from sklearn_puffer._noiser.other_priors import Against, FittedRelease, LossUnder
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._noiser.release import ColumnRelease
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._releases import (
    ChannelCertificate,
    ChannelFacts,
    ColumnUtility,
    Draws,
    Kept,
    Refused,
    Rule,
    channel_assumptions,
    nothing_changes_sentence,
)
from sklearn_puffer._releases import sentences as say
from sklearn_puffer._tables import Column, Name
from sklearn_puffer.notions import Notion
from sklearn_puffer.priors import Discrete, Prior

_NOTHING = 1e-6  # of the rows


@dataclass(frozen=True, eq=False)
class LearntChannel:
    """Everything that was found out, and what follows from it."""

    read: TableRead
    columns: list[Column]
    counted: CountedCells
    equal: list[Any]
    adversaries: list[Adversary]
    asked: list[Asked]
    problem: ChannelProblem
    rows: IntegerRows
    proof: Proof
    utility: tuple[ColumnUtility, ...]
    distance: CellDistance
    margins: list[Margin]
    conditional: Conditional
    known: list[tuple[Name, ...]]
    remarks: list[str]

    @property
    def settings(self) -> Settings:
        """The parameters."""
        return self.read.settings

    def named_priors(self) -> dict[Name, dict[Any, dict[tuple[Name, ...], Prior]]]:
        """Return the fitted adversary's laws under the names of the columns."""
        return named_laws(self.adversaries[0], self.read.public)

    def mechanism(self) -> ChannelRelease:
        """Return how rows are released."""
        own = [ColumnRelease(column, None, 0.0, "native") for column in self.columns]
        return ChannelRelease(own, self.counted.cells, self.rows, self.distance)

    def channel(self) -> Channel:
        """Return the channel as users look at it."""
        by_secret: dict[Name, dict[Any, float]] = {}
        stayed: dict[Name, dict[Any, float]] = {}
        for kept in self.kept:
            by_secret.setdefault(kept.sensitive, {})[kept.secret] = kept.share
            stayed.setdefault(kept.sensitive, {})[kept.secret] = kept.stayed or 0.0
        return Channel(
            _columns=tuple(self.columns),
            _codes=np.array(self.counted.cells.codes),
            matrix=as_matrix(self.rows),
            numerators=as_matrix(self.rows, whole=True),
            expected_change=self.expected_change,
            unchanged=self.unchanged,
            unchanged_by_secret=by_secret,
            floor=self.proof.floor,
            stayed=self.stayed,
            stayed_by_secret=stayed,
        )

    def certificate(self) -> ChannelCertificate:
        """Return the certificate, with both directions of every pair, and no fingerprint yet."""
        settings = self.settings
        return ChannelCertificate(
            **settings.notion.to_dict(),
            loss=self.proof.loss,
            pairs=self.proof.pairs,
            columns=(),
            assumptions=self._assumptions(),
            strategy="exact",
            noise=settings.noise_name,
            dependence="joint",
            n_rows=self.read.rows.total,
            remedy=None if self._keeps_budget else say.CHANNEL_REMEDY,
            releases=settings.releases,
            rule=self._rule(),
            fitted=self._fitted(),
            prior=say.prior_of(
                settings.prior is not None,
                None,
                len(self.adversaries) - 1,
            ),
            n_columns=self.read.n_columns,
            version=__version__,
            date=utc_now(),
            utility=self.utility,
            channel=self._facts(),
            sampled=settings.is_counted,
        )

    def warnings(self) -> list[str]:
        """Return what the user should be warned of."""
        said = [*self.remarks]
        if self.stayed > 1.0 - _NOTHING:
            in_bins = any(column.merged for column in self.columns)
            said.append(nothing_changes_sentence(self.read.rows.total, in_bins))
        return said

    @cached_property
    def always_alike(self) -> list[Name]:
        """Columns that vary in the table, and are released as one and the same value."""
        released = self.counted.cells.codes[np.unique(self.rows.targets)]
        cells = self.counted.cells.codes
        varies = (cells != cells[0]).any(axis=0)
        same = (released == released[0]).all(axis=0)
        return [c.name for c, is_same in zip(self.columns, same & varies, strict=True) if is_same]

    @cached_property
    def stay(self) -> FloatArray:
        """W(x|x) of each cell."""
        owners = np.repeat(np.arange(self.rows.n_cells), np.diff(self.rows.starts))
        same = owners == self.rows.targets
        stay: FloatArray = np.zeros(self.rows.n_cells)
        stay[owners[same]] = self.rows.shares[same] / WHOLE
        return stay

    @property
    def stayed(self) -> float:
        """The share of the rows of `fit` that are released as their own cell."""
        return float(self.counted.rows @ self.stay / self.counted.rows.sum())

    @property
    def unchanged(self) -> float:
        """The share of them that come out equal."""
        return float(self.equal[0].sum(axis=0) @ self.stay / self.counted.rows.sum())

    @cached_property
    def kept(self) -> tuple[Kept, ...]:
        """The same of the rows with each secret, and the share that is not moved."""

        def share(own: Any, counts: Any) -> float:
            return float(own @ self.stay / counts.sum())

        tables = zip(self.read.secrets, self.equal, self.counted.counts, strict=True)
        return tuple(
            Kept(secret.name, label, share(own, counts), share(counts, counts))
            for secret, equal, table in tables
            for label, own, counts in zip(secret.labels, equal, table, strict=True)
        )

    @cached_property
    def expected_change(self) -> float:
        """The expected cost of a release, under the law that the problem weighs rows by."""
        owners = np.repeat(np.arange(self.rows.n_cells), np.diff(self.rows.starts))
        costs = self.problem.costs.along(owners, self.rows.targets)
        return float((self.problem.weights[owners] * costs) @ (self.rows.shares / WHOLE))

    def _facts(self) -> ChannelFacts:
        assert self.settings.channel is not None
        return ChannelFacts(
            n_cells=len(self.counted.cells),
            unchanged=self.unchanged,
            kept=self.kept,
            expected_change=self.expected_change,
            balance=self.settings.channel.balance,
            floor=self.proof.floor,
            known=self._known_names(),
            stayed=self.stayed,
        )

    def _known_names(self) -> tuple[str, ...]:
        return tuple(" and ".join(shown(name) for name in each) for each in self.known)

    @property
    def _keeps_budget(self) -> bool:
        """Whether all that is proven is within the budget."""
        return self.proof.loss <= self.settings.notion.budget

    def _rule(self) -> Rule:
        if not self._keeps_budget:
            return Refused("The certificate does not hold, so that nothing may be released.")
        if self.proof.floor is None:
            return Draws(
                1,
                "A second draw from a channel without a floor may tell everything; "
                "fit with OptimalChannel(floor=...) and releases= for more.",
            )
        return Draws(
            self.settings.releases,
            f"Each further draw tells up to {self.proof.floor:.6g}; fit with more releases.",
        )

    def _fitted(self) -> FittedChannel:
        first = next(iter(self.adversaries[0].values()))
        return FittedChannel(
            {name: list(of_secret) for name, of_secret in self.adversaries[0].items()},
            sorted({members for laws in first.values() for members in laws}),
            self.read.pairs,
            self.read.groups,
            self.columns,
            self.counted.cells,
            self.rows,
            self.settings.notion,
            self.settings.releases,
            margins=self.margins,
            conditional=self.conditional,
            known=self.read.known,
        )

    @property
    def _n_further(self) -> int:
        return len(self.adversaries) - 1

    def _assumptions(self) -> list[str]:
        settings = self.settings
        return channel_assumptions(
            about_prior=self._about_prior(),
            sensitive=[secret.name for secret in self.read.secrets],
            released=[column.name for column in self.columns],
            binned=[column.name for column in self.columns if column.merged],
            passed=self.read.passed,
            known=self._known_names(),
            releases=settings.releases,
            floor=self.proof.floor,
            delta=settings.notion.delta,
            seed=settings.seed,
        )

    def _about_prior(self) -> str:
        return say.about_prior(
            given=self.settings.prior is not None,
            model=None,
            n_further=self._n_further,
            n_rows=self.read.rows.total,
            fewest_rows=self.read.fewest_rows(),
            models=(),
            covered=False,
        )


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
