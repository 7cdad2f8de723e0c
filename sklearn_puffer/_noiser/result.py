"""What `PufferfishNoiser.fit` found out, and what follows: certificate, releases and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray, __version__, utc_now
from sklearn_puffer._noise import MixedNoise, Mixing
from sklearn_puffer._noiser.conditional_priors import Adversary, SecretPair
from sklearn_puffer._noiser.groups import RowGroups
from sklearn_puffer._noiser.margins import Conditional, Margin
from sklearn_puffer._noiser.mechanism import NoiseOfColumns
from sklearn_puffer._noiser.other_priors import FittedNoise
from sklearn_puffer._noiser.problems import cells_of, rows_have_exact_loss, too_wide, ways_to_exact
from sklearn_puffer._noiser.release import ColumnRelease, Patterns, remapped, scale_of
from sklearn_puffer._noiser.scales import Calibrated
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.utility import RawLaw, utilities
from sklearn_puffer._releases import (
    Awaited,
    Certificate,
    ColumnNoise,
    ColumnUtility,
    CountedLoss,
    ModelFacts,
    PairLoss,
    Rule,
    SetLoss,
    Source,
)
from sklearn_puffer._releases import sentences as say
from sklearn_puffer._tables import Column, Name, Pair
from sklearn_puffer.accounting import MAX_CELLS
from sklearn_puffer.calibration import exact
from sklearn_puffer.fits import GaussianFit, MixtureFit
from sklearn_puffer.noise import Noise
from sklearn_puffer.priors import Prior

_MODELS: dict[Any, str] = {GaussianFit: "a Gaussian", MixtureFit: "a Gaussian mixture"}
_ZERO, _ONE = np.zeros(1), np.ones(1, dtype=bool)


@dataclass(frozen=True, eq=False)
class Learnt:
    """Everything that was found out, and what follows from it.

    ``sensitive`` names all secrets, and ``hidden`` those that are columns of the table.
    """

    settings: Settings
    strategy_name: str
    sensitive: list[Name]
    hidden: list[Name]
    passed: list[Name]
    columns: list[Column]
    groups: list[list[int]]
    pairs: dict[Name, list[Pair]]
    adversaries: list[Adversary]
    asked: list[SecretPair]
    calibrated: Calibrated
    spreads: FloatArray
    raw: list[RawLaw]
    propagated: list[Name]
    n_rows: int
    n_columns: int
    fewest_rows: int
    around: SetLoss | Awaited | None
    rule: Rule
    remedy: str | None
    remarks: list[str]
    mixings: tuple[Mixing | None, ...]
    margins: list[Margin]
    conditional: Conditional
    models: tuple[ModelFacts, ...] = ()
    counted: tuple[CountedLoss, ...] = ()
    known: Sequence[tuple[Name, ...]] = ()
    grouped: RowGroups | None = None

    @property
    def public(self) -> list[Name]:
        """The columns that are released."""
        return [column.name for column in self.columns]

    def named_priors(self) -> dict[Name, dict[Any, dict[tuple[Name, ...], Prior]]]:
        """Return the fitted adversary's laws under the names of the columns."""
        return {
            sensitive: {
                secret: {tuple(self.columns[k].name for k in m): law for m, law in laws.items()}
                for secret, laws in of_secret.items()
            }
            for sensitive, of_secret in self.adversaries[0].items()
        }

    def patterns(self) -> Patterns:
        """Return which columns of each group occurred together, where others may be missing."""
        if not self.propagated:
            return {}
        laws = [of for of_secret in self.adversaries[0].values() for of in of_secret.values()]
        known = {members for of in laws for members in of}
        return {
            tuple(self.columns[k].name for k in group): {
                tuple(self.columns[k].name for k in members)
                for members in known
                if set(members) <= set(group)
            }
            for group in self.groups
        }

    @cached_property
    def releases(self) -> list[ColumnRelease]:
        """How every public column is released.

        Of a column that takes any number, the numbers seen in `fit` are not kept.
        """
        noisy = [
            ColumnRelease(
                replace(column, atoms=_ZERO, known=_ONE) if column.free else column,
                self._noise_of(float(theta), mixing),
                float(grid),
                self.settings.output,
            )
            for column, theta, grid, mixing in zip(
                self.columns,
                self.calibrated.theta,
                self.calibrated.grids,
                self.mixings,
                strict=True,
            )
        ]
        if self.settings.output != "remapped":
            return noisy
        laws = zip(noisy, self.raw, strict=True)
        return [remapped(release, law.placed(release.column)) for release, law in laws]

    def _noise_of(self, theta: float, mixing: Mixing | None) -> Noise | None:
        """Return the noise of a column, or its kernel."""
        if theta == 0.0:
            return None
        if mixing is None:
            return self.settings.noise.with_scale(theta)
        return MixedNoise(self.settings.noise.with_scale(theta), (mixing,))

    def certificate(self) -> Certificate:
        """Return the certificate, with both directions of every pair, and no fingerprint yet."""
        dependence, notion = self.settings.dependence, self.settings.notion
        return Certificate(
            **notion.to_dict(),
            loss=float(self.calibrated.upper.max()),
            pairs=self._both_ways(),
            columns=self._column_noise(),
            assumptions=say.assumptions_of(self._facts()),
            strategy=self.strategy_name,
            noise=self.settings.noise_name,
            dependence=dependence if isinstance(dependence, str) else "groups",
            n_rows=self.n_rows,
            remedy=self.remedy,
            releases=self.settings.releases,
            rule=self.rule,
            fitted=self.fitted_noise(),
            prior=say.prior_of(
                self.settings.prior is not None,
                _MODELS.get(type(self.settings.fit)),
                len(self.adversaries) - 1,
                self.models,
                self.known,
            ),
            models=self.models,
            counted=self.counted,
            n_columns=self.n_columns,
            version=__version__,
            date=utc_now(),
            utility=self.utility,
            around=self.around,
            least=self.calibrated.least,
            output=self.settings.output,
            groups=None if self.grouped is None else self.grouped.told(),
        )

    def fitted_noise(self) -> FittedNoise:
        """Return the noise and what it protects, without the laws."""
        settings, calibrated = self.settings, self.calibrated
        native = settings.output == "native"
        places = {column.name: k for k, column in enumerate(self.columns)}
        laws = [of for of_secret in self.adversaries[0].values() for of in of_secret.values()]
        return FittedNoise(
            {name: list(of_secret) for name, of_secret in self.adversaries[0].items()},
            sorted({members for of in laws for members in of}),
            self.pairs,
            self.groups,
            self.columns,
            calibrated.together,
            calibrated.grids,
            np.array([column.whole and native for column in self.columns]),
            settings.noise,
            settings.notion,
            settings.releases,
            self.mixings,
            margins=self.margins,
            conditional=self.conditional,
            known=[[places[name] for name in each] for each in self.known],
            together=self.grouped,
        )

    @cached_property
    def utility(self) -> tuple[ColumnUtility, ...]:
        """How much of each column survives."""
        return utilities(self.releases, self.raw, self.spreads.tolist())

    def mechanism(self) -> NoiseOfColumns:
        """Return how rows are released."""
        return NoiseOfColumns(
            columns=self.releases,
            least=[(scale_of(each), each.grid, each.remapping) for each in self.releases],
            laws=[law.kept(c) for law, c in zip(self.raw, self.columns, strict=True)],
        )

    def warnings(self) -> list[str]:
        """Return what the user should be warned of."""
        facts = self._facts()
        said = [*self.remarks, *self._wide_remarks()]
        said += say.quiet_sentences(facts)
        over_set = self._over_set
        if self.settings.confidence is not None and over_set and over_set.decided:
            said.append(say.decided_sentence(over_set.decided, over_set.level))
        return said

    @property
    def _over_set(self) -> SetLoss | None:
        """The loss over the sets, where it was worth computing unasked."""
        return self.around if isinstance(self.around, SetLoss) else None

    def _both_ways(self) -> tuple[PairLoss, ...]:
        """Return two rows a pair, forward and backward."""
        calibrated = self.calibrated
        # whole arrays at once: single numbers out of them take longer than all the rest
        ends = np.stack([calibrated.bound, calibrated.lower, calibrated.upper], axis=2).tolist()
        found: list[PairLoss] = []
        for pair, ways, known in zip(self.asked, ends, calibrated.recomputed.tolist(), strict=True):
            adversary, sensitive, secret, against = pair
            source: Source = "recomputed" if known else "theorem"
            for (a, b), (bound, low, high) in zip(
                ((secret, against), (against, secret)), ways, strict=True
            ):
                found.append(PairLoss(sensitive, a, b, adversary, bound, low, high, source))
        return tuple(found)

    def _column_noise(self) -> tuple[ColumnNoise, ...]:
        return tuple(
            ColumnNoise(
                release.column.name,
                float(theta),
                float(spread),
                release.whole,
                release.grid,
                release.column.unordered,
            )
            for release, theta, spread in zip(
                self.releases, self.calibrated.theta, self.spreads, strict=True
            )
        )

    def _facts(self) -> say.Facts:
        columns = self._column_noise()
        kept = {name for names in self.known for name in names}
        noiseless = [c.name for c in columns if c.theta == 0.0 and c.spread > 0.0]
        quiet = [name for name in noiseless if name not in kept]
        binned = [c.name for c in self.columns if c.merged]
        return say.Facts(
            sensitive=self.sensitive,
            groups=[[self.columns[k].name for k in group] for group in self.groups],
            columns=columns,
            unchanged=[name for name in quiet if name not in binned],
            quiet_bins=[name for name in quiet if name in binned],
            binned=[name for name in binned if name not in quiet and name not in kept],
            kept_bins=[name for name in binned if name in kept],
            passed=self.passed,
            propagated=self.propagated,
            n_rows=self.n_rows,
            fewest_rows=self.fewest_rows,
            releases=self.settings.releases,
            given_prior=self.settings.prior is not None,
            model=_MODELS.get(type(self.settings.fit)),
            n_adversaries=len(self.adversaries),
            theorem=not self.calibrated.recomputed.all(),
            least=self.calibrated.least,
            noise=self.settings.noise_name,
            notion=self.settings.notion,
            seed=self.settings.seed,
            remapped=self.settings.output == "remapped",
            models=self.models,
            known=self.known,
            over_set=self.settings.confidence is not None,
            rows=None if self.grouped is None else self.grouped.told(),
        )

    @property
    def always_alike(self) -> list[Name]:
        """Columns that vary in the table, and are mapped to one and the same value."""
        mapped = [(r.column.name, r.remapping, len(r.column.atoms)) for r in self.releases]
        return [name for name, how, size in mapped if how and how.constant and size > 1]

    def _wide_remarks(self) -> list[str]:
        """Return a warning for each group too wide for the exact loss that was asked for."""
        if self.settings.strategy is not exact or self.calibrated.recomputed.all():
            return []
        if self.settings.hangs_together:  # a bound was asked for
            return []
        noise = self._column_noise()
        remarks = []
        if self.calibrated.least is not None and not any(map(too_wide, self._grouped())):
            remarks.append(say.theorem_sentence(self._facts()))
        for group in self.groups:
            columns = [self.columns[k] for k in group]
            if too_wide(columns):
                worst = max((noise[k] for k in group), key=lambda c: (not c.unordered, c.relative))
                names = [column.name for column in columns]
                remarks.append(
                    say.wide_sentence(
                        names, cells_of(columns), MAX_CELLS, worst, self._ways(columns)
                    )
                )
        return remarks

    def _grouped(self) -> list[list[Column]]:
        return [[self.columns[k] for k in group] for group in self.groups]

    def _ways(self, columns: Sequence[Column]) -> str:
        exactly = rows_have_exact_loss(self.settings.noise, self.settings.notion)
        return ways_to_exact(columns) if exactly else ""
