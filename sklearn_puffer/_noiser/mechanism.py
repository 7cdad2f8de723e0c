"""The result of `fit`: how tables are read, the mechanism that releases them, the certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sklearn_puffer._base import digest
from sklearn_puffer._noiser.release import (
    ColumnRelease,
    as_certified,
    finer_steps,
    fingerprint,
    noisier,
    release_table,
    scale_of,
)
from sklearn_puffer._noiser.swap_release import SwapRelease
from sklearn_puffer._noiser.utility import RawDistribution, utilities
from sklearn_puffer._release import Certificate, Draw, Keying, TableRules, stand_ins
from sklearn_puffer._tables import Name, Table

if TYPE_CHECKING:
    from sklearn_puffer._noiser.read_table import TableRead
    from sklearn_puffer._noiser.swap_fit import SwapRead
    from sklearn_puffer._release import ColumnUtility, Margin, Patterns, RowGroups

Least = tuple[float, float]
Released = tuple[Any, dict[Name, int] | None]


class LearntMechanism(Protocol):
    """What `fit` learns of a table for one kind of mechanism, which a fitted noiser is made of."""

    @property
    def read(self) -> TableRead | SwapRead:
        """The names, secrets, secret pairs and settings of the table."""

    @property
    def grouped(self) -> RowGroups | None:
        """The groups of rows that are released together, if there are any."""

    @property
    def margins(self) -> list[Margin]:
        """The distribution of each column, to notice drift; empty where it is not tested."""

    @property
    def utility(self) -> Sequence[ColumnUtility]:
        """What becomes of each column."""

    def patterns(self) -> Patterns:
        """Return which columns occurred together, where others may be missing."""

    def mechanism(self) -> Mechanism:
        """Return what releases rows."""

    def certificate(self) -> Certificate:
        """Return the certificate, without a fingerprint yet."""

    def warnings(self) -> list[str]:
        """Return what the user should be warned of."""

    def attributes(self) -> dict[str, Any]:
        """Return the attributes that a fitted noiser has of this mechanism: `priors_` and more."""


class Mechanism(Protocol):
    """Releases the rows of a table: noise or a swap."""

    @property
    def columns(self) -> Sequence[ColumnRelease]:
        """How the values of each public column are written."""

    def fingerprint(self, *about: Any) -> str:
        """Return the digest of this mechanism, and of what else counts."""

    def released(self, table: Table, rules: TableRules, draw: Draw) -> Released:
        """Return a table released in the caller's own type, and what was moved, if anything."""


@dataclass(frozen=True, eq=False)
class NoiseOfColumns:
    """Noise, or a kernel, for each column by itself.

    Attributes
    ----------
    columns : list of ColumnRelease
    least : list of tuple
        The certified scale and grid of each column; the noise that is drawn may be larger.
    distributions : list of RawDistribution
        Of the values, for copies with more noise; empty in a release read from JSON.
    """

    columns: list[ColumnRelease]
    least: list[Least]
    distributions: Sequence[RawDistribution] = ()

    def fingerprint(self, *about: Any) -> str:
        """Return the digest of this noise, and of what else counts."""
        pairs = zip(self.columns, self.least, strict=True)
        return fingerprint([as_certified(release, *least) for release, least in pairs], *about)

    def released(self, table: Table, rules: TableRules, draw: Draw) -> Released:
        """Return a table released in the caller's own type, and how many values were moved."""
        if draw.unknown == "nearest":
            columns = [release.column for release in self.columns]
            draw = replace(draw, unknown=stand_ins(rules.margins, columns))
        return release_table(table, self.columns, rules, draw)

    def agrees(self, certificate: Any) -> bool:
        """Return whether a certificate states the noise that is drawn."""
        drawn = [(r.column.name, scale_of(r), r.whole, r.grid) for r in self.columns]
        return drawn == [(c.name, c.theta, c.whole, c.grid) for c in certificate.columns]

    def units(self) -> list[int]:
        """Return how many certified grid steps of each column make one step of the drawn noise."""
        pairs = zip(self.columns, self.least, strict=True)
        return [finer_steps(release, grid) for release, (_, grid) in pairs]


@dataclass(frozen=True, eq=False, repr=False)
class FittedMechanism:
    """A fitted release: it reads a table, releases it, and has its certificate.

    Attributes
    ----------
    rules : TableRules
    mechanism : NoiseOfColumns or SwapRelease
    certificate : Certificate or SwapCertificate
    """

    rules: TableRules
    mechanism: Mechanism
    certificate: Any

    def __repr__(self) -> str:
        return f"FittedMechanism({type(self.mechanism).__name__}, {self.certificate.noise})"

    @property
    def columns(self) -> Sequence[ColumnRelease]:
        """How the values of each public column are written."""
        return self.mechanism.columns

    @property
    def noise(self) -> NoiseOfColumns | None:
        """The mechanism, where it is noise."""
        return self.mechanism if isinstance(self.mechanism, NoiseOfColumns) else None

    @property
    def swap(self) -> SwapRelease | None:
        """The mechanism, where it is a swap."""
        return self.mechanism if isinstance(self.mechanism, SwapRelease) else None

    def fingerprint(self) -> str:
        """Return the digest of this release; "" if the certificate is about other noise.

        It does not depend on the fingerprint in the certificate.
        """
        certificate, rules = self.certificate, self.rules
        if self.noise is not None and not self.noise.agrees(certificate):
            return ""
        return self.mechanism.fingerprint(
            certificate.notion,
            certificate.releases,
            (certificate.rule, certificate.loss),
            (rules.names, rules.sensitive, rules.passed, rules.order),
            (rules.missing, rules.patterns),
            *([] if rules.groups is None else [rules.groups]),
        )

    def context(self, keying: Keying) -> str:
        """Return the digest of all that shapes keyed bits: of the noise that is really drawn.

        The fingerprint alone is also that of `noisier` copies, and the same bits at two scales undo
        the noise. For a swap the name of the data set does not count: under another name the same
        people would be swapped anew.
        """
        if self.swap is not None:
            return self.fingerprint()
        drawn = (self.fingerprint(), [] if self.noise is None else self.noise.columns)
        return digest("sklearn_puffer.keyed/1", drawn, keying.dataset, keying.release)

    def released(self, table: Table, draw: Draw) -> Released:
        """Return a table released in the caller's own type, and what was moved, if anything."""
        return self.mechanism.released(table, self.rules, draw)

    def noisier(self, factor: float) -> FittedMechanism:
        """Return the same values with ``factor`` times the noise.

        Raises
        ------
        ValueError
            If the values of a column do not lie on the grid of noise that large, or there is no
            noise.
        """
        if self.noise is None:
            raise ValueError(
                f"factor={factor!r} asks for more noise, and there is none here; fit with a "
                "smaller epsilon, or with noise='laplace'."
            )
        columns = [noisier(release, factor) for release in self.noise.columns]
        return replace(
            self,
            mechanism=replace(self.noise, columns=columns),
            certificate=_with_noise(self.certificate, columns, factor, self.noise.distributions),
        )


def _with_noise(
    certificate: Certificate,
    releases: Sequence[ColumnRelease],
    factor: float,
    distributions: Sequence[RawDistribution],
) -> Certificate:
    """Return the certificate of the same release under more noise, which only lowers the losses."""
    columns = tuple(
        replace(column, theta=scale_of(release), grid=release.grid)
        for column, release in zip(certificate.columns, releases, strict=True)
    )
    grids = np.array([column.grid for column in columns])
    fitted = certificate.fitted
    told = f"The noise is {factor:g} times what was certified; the losses are those of less noise."
    # drawn scales are rounded up, so that this one is never larger
    theta = fitted and np.nextafter(fitted.theta * factor, 0.0)
    return replace(
        certificate,
        columns=columns,
        pairs=tuple(replace(pair, lower=0.0, source="theorem") for pair in certificate.pairs),
        assumptions=[*certificate.assumptions, told],
        fitted=fitted and replace(fitted, theta=theta, grids=grids),
        utility=tuple(
            fitted.changed(changes)
            for changes, fitted in zip(
                utilities(releases, distributions, [column.spread for column in columns]),
                certificate.utility,
                strict=True,
            )
        ),
    )
