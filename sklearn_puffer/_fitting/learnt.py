"""What `PufferfishNoiser.fit` found out, and what follows: certificate, releases and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_puffer._fitting import sentences as say
from sklearn_puffer._fitting.columns import Column
from sklearn_puffer._fitting.learning import Adversary, SecretPair
from sklearn_puffer._fitting.planning import Plan
from sklearn_puffer._fitting.release import ColumnRelease, Patterns, scale_of
from sklearn_puffer._fitting.selection import Pair
from sklearn_puffer._fitting.settings import Settings
from sklearn_puffer._releases.repeats import fingerprint, together
from sklearn_puffer.accounting import MAX_CELLS
from sklearn_puffer.against import Adversaries
from sklearn_puffer.calibration import exact
from sklearn_puffer.certificate import Certificate, ColumnNoise, PairLoss, SetLoss, Source
from sklearn_puffer.fits import GaussianFit, MixtureFit
from sklearn_puffer.frame import Name
from sklearn_puffer.priors import Prior
from sklearn_puffer.spending import Rule

FloatArray = NDArray[np.float64]

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
    plan: Plan
    spreads: FloatArray
    propagated: list[Name]
    n_rows: int
    fewest_rows: int
    over_set: SetLoss | None
    rule: Rule
    remedy: str | None
    remarks: list[str]

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

    def releases(self) -> list[ColumnRelease]:
        """Return how every public column is released.

        Of a column that takes any number, the numbers seen in `fit` are not kept.
        """
        return [
            ColumnRelease(
                replace(column, atoms=_ZERO, known=_ONE) if column.free else column,
                self.settings.noise.with_scale(float(theta)) if theta > 0.0 else None,
                float(grid),
                self.settings.output,
            )
            for column, theta, grid in zip(
                self.columns, self.plan.theta, self.plan.grids, strict=True
            )
        ]

    def certificate(self) -> Certificate:
        """Return the certificate, with both directions of every pair."""
        dependence, notion = self.settings.dependence, self.settings.notion
        return Certificate(
            epsilon=notion.epsilon,
            loss=float(self.plan.upper.max()),
            pairs=tuple(row for k in range(len(self.asked)) for row in self._both_ways(k)),
            columns=self._column_noise(),
            assumptions=say.assumptions_of(self._facts()),
            strategy=self.strategy_name,
            noise=self.settings.noise_name,
            dependence=dependence if isinstance(dependence, str) else "groups",
            n_rows=self.n_rows,
            delta=notion.delta,
            alpha=getattr(notion, "alpha", None),
            over_set=self.over_set,
            remedy=self.remedy,
            releases=self.settings.releases,
            rule=self.rule,
            fingerprint=fingerprint(self.releases(), notion, self.settings.releases),
            adversaries=self._known_adversaries(),
        )

    def _known_adversaries(self) -> Adversaries:
        settings, plan = self.settings, self.plan
        native = settings.output == "native"
        return Adversaries(
            self.adversaries,
            self.pairs,
            self.groups,
            self.columns,
            plan.together,
            plan.grids,
            np.array([column.whole and native for column in self.columns]),
            together(settings.noise, settings.releases),
            settings.notion,
            settings.releases,
        )

    def warnings(self) -> list[str]:
        """Return what the user should be warned of."""
        facts = self._facts()
        said = [*self.remarks, *self._wide_remarks()]
        if facts.unchanged:
            said.append(say.unchanged_sentence(facts))
        if self.settings.confidence is not None and self.over_set and self.over_set.decided:
            said.append(say.decided_sentence(self.over_set.decided, self.over_set.level))
        return said

    def _both_ways(self, k: int) -> list[PairLoss]:
        pair, plan = self.asked[k], self.plan
        source: Source = "recomputed" if plan.recomputed[k] else "theorem"
        return [
            PairLoss(
                pair.sensitive,
                secret,
                against,
                pair.adversary,
                float(plan.bound[k, way]),
                float(plan.lower[k, way]),
                float(plan.upper[k, way]),
                source,
            )
            for way, (secret, against) in enumerate(
                [(pair.secret, pair.against), (pair.against, pair.secret)]
            )
        ]

    def _column_noise(self) -> tuple[ColumnNoise, ...]:
        return tuple(
            ColumnNoise(
                release.column.name,
                float(theta),
                float(spread),
                release.whole,
                release.grid,
            )
            for release, theta, spread in zip(
                self.releases(), self.plan.theta, self.spreads, strict=True
            )
        )

    def _facts(self) -> say.Facts:
        columns = self._column_noise()
        return say.Facts(
            sensitive=self.sensitive,
            groups=[[self.columns[k].name for k in group] for group in self.groups],
            columns=columns,
            unchanged=[c.name for c in columns if c.theta == 0.0 and c.spread > 0.0],
            binned=[c.name for c in self.columns if c.edges is not None],
            passed=self.passed,
            propagated=self.propagated,
            n_rows=self.n_rows,
            fewest_rows=self.fewest_rows,
            releases=self.settings.releases,
            given_prior=self.settings.prior is not None,
            model=_MODELS.get(type(self.settings.fit)),
            n_adversaries=len(self.adversaries),
            theorem=not self.plan.recomputed.all(),
            noise=self.settings.noise_name,
            notion=self.settings.notion,
            over_set=self.over_set,
            seed=self.settings.seed,
        )

    def _wide_remarks(self) -> list[str]:
        """Return a warning for each group too wide for the exact loss that was asked for."""
        if self.settings.strategy is not exact or self.plan.recomputed.all():
            return []
        columns = self._column_noise()
        remarks = []
        for group in self.groups:
            cells = cells_of([self.columns[k] for k in group])
            if len(group) > 1 and cells > MAX_CELLS and not self.columns[group[0]].free:
                worst = max((columns[k] for k in group), key=lambda column: column.relative)
                names = [self.columns[k].name for k in group]
                bins = _exact_bins([self.columns[k] for k in group])
                remarks.append(say.wide_sentence(names, cells, MAX_CELLS, bins, worst))
        return remarks


def with_noise(
    certificate: Certificate, releases: Sequence[ColumnRelease], factor: float
) -> Certificate:
    """Return the certificate of the same release under more noise, which only lowers the losses."""
    columns = tuple(
        replace(column, theta=scale_of(release), grid=release.grid)
        for column, release in zip(certificate.columns, releases, strict=True)
    )
    grids = np.array([column.grid for column in columns])
    known = certificate.adversaries
    told = f"The noise is {factor:g} times what was certified; the losses are those of less noise."
    # what is drawn is rounded up, so that this is never more
    theta = known and np.nextafter(known.theta * factor, 0.0)
    return replace(
        certificate,
        columns=columns,
        pairs=tuple(replace(pair, lower=0.0, source="theorem") for pair in certificate.pairs),
        assumptions=[*certificate.assumptions, told],
        adversaries=known and replace(known, theta=theta, grids=grids),
    )


def _exact_bins(columns: Sequence[Column]) -> int:
    """Return the largest number of bins of the numeric columns for which the loss is exact."""
    numeric = [column.kind in ("float", "integer") for column in columns]
    others = cells_of([c for c, is_number in zip(columns, numeric, strict=True) if not is_number])
    bins = 0
    while any(numeric) and others * (bins + 1) ** sum(numeric) <= MAX_CELLS:
        bins += 1
    return bins


def cells_of(columns: Sequence[Column]) -> int:
    """Return how many cells the joint grid of columns has."""
    cells = 1
    for column in columns:
        cells *= len(column.atoms)
    return cells
