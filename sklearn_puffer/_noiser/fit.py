"""How `PufferfishNoiser.fit` calibrates noise: from a table to priors, scales and their proof.

Certificate, releases and warnings follow from these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray
from sklearn_puffer._certificates import (
    Certificate,
    ColumnNoise,
    ColumnUtility,
    CountedLoss,
    Guaranteed,
    Made,
    Method,
    OtherPriors,
    Proof,
    Refused,
    Rule,
    SetLoss,
    composition_rule,
)
from sklearn_puffer._certificates import sentences as told
from sklearn_puffer._codes import Column
from sklearn_puffer._noise import MixedNoise, Unchanged, grid_step, sampler
from sklearn_puffer._noiser import remarks as say
from sklearn_puffer._noiser.adversaries import TablePriors, about_rows, table_priors
from sklearn_puffer._noiser.against import (
    DEFAULT_LEVEL,
    CountedSets,
    DeferredLoss,
    FittedNoise,
    loss_over,
    pair_losses,
    too_large,
)
from sklearn_puffer._noiser.artifact import NoiseOfColumns
from sklearn_puffer._noiser.assumptions import about_quiet, assumptions_of, prior_of
from sklearn_puffer._noiser.priors import (
    Adversary,
    Group,
    Members,
    make_groups,
    named_distributions,
)
from sklearn_puffer._noiser.problem import Problem, cells_of, exact_bins, too_wide
from sklearn_puffer._noiser.read_table import TableRead, read_table
from sklearn_puffer._noiser.release import ColumnRelease, scale_of
from sklearn_puffer._noiser.scales import Calibrated, find_scales, weighted
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.side_information import check_kept, who_know_values
from sklearn_puffer._noiser.utility import utilities
from sklearn_puffer._release import LearntMechanism, Patterns
from sklearn_puffer._rows import FitRows
from sklearn_puffer._tables import Name
from sklearn_puffer._words import briefly
from sklearn_puffer.bounds import sensitivity
from sklearn_puffer.calibration import exact

MOST_JOINT_POINTS = 1 << 23
"""Largest number of joint rows, over all secret pairs, that a coupling is built for."""
_REMEDY = 'strategy="exact" keeps the guarantee, or says why no noise does.'
_FEW_ROWS = 5  # of a secret, of which a confidence set says next to nothing
_MOST_CELLS = 1 << 14  # of a pair of columns, if the loss is attained at a vertex of the grid
_MOST_ALONE = 1 << 9  # of a single column otherwise
_MOST_PAIRS = 64  # of secrets, if the loss of each is computed on its own


@dataclass(frozen=True, eq=False)
class Learnt:
    """The priors, scales and proof of a table, with the certificate and releases built on them."""

    read: TableRead
    priors: TablePriors
    problem: Problem
    calibrated: Calibrated
    # the loss over the confidence sets around the fitted priors
    over_set: SetLoss | DeferredLoss | None
    no_sets: str | None  # why there are none, where they were asked for

    @property
    def settings(self) -> Settings:
        """The settings."""
        return self.read.settings

    @property
    def columns(self) -> list[Column]:
        """The columns that are released."""
        return self.read.bare_columns

    @cached_property
    def _members(self) -> list[Members]:
        """The sets of columns over which the fitted adversary has distributions."""
        distributions = [
            of for of_secret in self.priors.adversaries[0].values() for of in of_secret.values()
        ]
        return sorted({members for of in distributions for members in of})

    def patterns(self) -> Patterns:
        """Return which columns of each group occurred together, where others may be missing."""
        if not self.read.propagated:
            return {}
        names = self.read.public
        return {
            tuple(names[k] for k in group): {
                tuple(names[k] for k in members)
                for members in self._members
                if set(members) <= set(group)
            }
            for group in self.read.groups
        }

    @cached_property
    def releases(self) -> list[ColumnRelease]:
        """How every public column is released."""
        calibrated, releases = self.calibrated, []
        found = zip(calibrated.theta.tolist(), calibrated.grids.tolist(), strict=True)
        for column, mixing, (theta, grid) in zip(
            self.columns, self.priors.mixings, found, strict=True
        ):
            noise = self.settings.noise.with_scale(theta) if theta else None
            if noise is not None and mixing is not None:
                noise = MixedNoise(noise, (mixing,))
            releases.append(ColumnRelease(column, noise, grid, self.settings.columns.output))
        return releases

    def certificate(self) -> Certificate:
        """Return the certificate, with both directions of every pair, and no fingerprint yet."""
        settings, read, problem = self.settings, self.read, self.problem
        guarantee, knowledge = settings.guarantee, settings.knowledge
        # a confidence set was asked for, and the loss over it is not computable
        fallen_back = problem.strategy is not knowledge.strategy
        by_groups = not isinstance(knowledge.dependence, str)
        fitted, models = self.fitted_noise(), self.priors.facts
        found = self.calibrated
        loss = float(found.upper.max())
        sound = loss <= problem.notion.budget or problem.strategy is exact
        return Certificate(
            Guaranteed(
                guarantee.notion,
                prior_of(read, self.priors),
                guarantee.releases,
                read.grouped,
            ),
            Proof(
                loss,
                pair_losses(
                    problem.secret_pairs, found.recomputed, found.bound, found.lower, found.upper
                ),
                _rule(problem, self.calibrated),
                None if sound else _REMEDY,
            ),
            Method(
                "sensitivity" if fallen_back else knowledge.strategy_name,
                settings.noise_name,
                "groups" if by_groups else knowledge.dependence,
                settings.columns.output,
                self._column_noise,
            ),
            Made.now(read.rows.total, read.n_columns),
            assumptions_of(read, self.priors, self.calibrated, self._column_noise),
            self.utility,
            OtherPriors(
                self.over_set, fitted, models, seen_by_counting(fitted, read) if models else ()
            ),
        )

    def fitted_noise(self) -> FittedNoise:
        """Return the noise and what it protects, without priors."""
        problem = replace(
            self.problem,
            groups=(),
            n_pairs=0,
            weights=self.calibrated.together,
            strategy=exact,
            sets=(),
            secret_pairs=(),
        )
        return FittedNoise(
            problem=problem,
            grids=self.calibrated.grids,
            columns=self.columns,
            groups=self.read.groups,
            members=self._members,
            secrets=self.read.labels,
            pairs=self.read.pairs,
            margins=self.priors.margins,
            known=self.read.known,
        )

    @cached_property
    def utility(self) -> tuple[ColumnUtility, ...]:
        """How much of each column survives."""
        return utilities(self.releases, self.priors.raw, self.priors.spreads.tolist())

    def mechanism(self) -> NoiseOfColumns:
        """Return how rows are released."""
        return NoiseOfColumns(
            columns=self.releases,
            least=[(scale_of(r), r.grid) for r in self.releases],
            distributions=[
                distribution.kept(c)
                for distribution, c in zip(self.priors.raw, self.columns, strict=True)
            ],
        )

    def warnings(self) -> list[str]:
        """Return the warnings of a fit."""
        said = [*self.read.remarks(), *about_rows(self.read, self.priors)]
        said += [] if self.no_sets is None else [say.no_set_sentence(self.no_sets)]
        said += [
            *self._wide_remarks(),
            *about_quiet(self.read, self._column_noise, briefly),
        ]
        confidence, fewest = self.settings.knowledge.confidence, self.read.fewest_rows
        if confidence is not None and self.no_sets is None and fewest < _FEW_ROWS:
            said.append(say.few_rows_sentence(confidence.level, fewest))
        return said

    @cached_property
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
                self.releases, self.calibrated.theta, self.priors.spreads, strict=True
            )
        )

    def plain(self) -> LearntMechanism:
        """Return what a fitted estimator is made of."""
        adversary, read = self.priors.adversaries[0], self.read
        return LearntMechanism(
            hidden=read.hidden,
            public=read.public,
            passed=read.passed,
            pairs=read.pairs,
            mechanism=self.mechanism(),
            certificate=self.certificate(),
            missing=self.settings.columns.missing,
            order=read.order,
            grouped=read.grouped,
            margins=self.priors.margins,
            patterns=self.patterns(),
            warnings=self.warnings(),
            useless=told.worthless(self.utility),
            attributes={"priors_": named_distributions(adversary, read.public)},
        )

    def _wide_remarks(self) -> list[str]:
        """Return the warnings where strategy="exact" falls back on a theorem.

        Rows that depend on each other have a bound of their own, and no warning.
        """
        settings, remarks = self.settings, []
        if settings.knowledge.strategy is not exact or settings.columns.rows_dependent:
            return []
        if self.calibrated.recomputed.all():
            return []
        grouped = [[self.columns[k] for k in group] for group in self.read.groups]
        if self.problem.strategy is exact and not any(map(too_wide, grouped)):
            remarks.append(say.theorem_sentence(counted=settings.knowledge.fit is None))
        wide = [k for k, columns in enumerate(grouped) if too_wide(columns)]
        if wide:
            widest = max(wide, key=lambda k: cells_of(grouped[k]))
            noise = [self._column_noise[k] for k in self.read.groups[widest]]
            worst = max(noise, key=lambda c: (not c.unordered, c.relative))
            names = [column.name for column in grouped[widest]]
            n_bins = exact_bins(grouped[widest], settings.noise, settings.guarantee.notion)
            remarks.append(say.wide_sentence(names, cells_of(grouped[widest]), worst, n_bins))
        return remarks


def learn(settings: Settings, rows: FitRows) -> Learnt:
    """Learn the priors of the rows of a fit, calibrate the noise and prove the result."""
    # a family that cannot be drawn is refused here, and not in transform
    sampler(settings.noise.with_scale(1.0), grid_step(1.0))
    read = read_table(settings, rows)
    _check_size(read)
    priors = table_priors(read)
    sets, no_sets = _sets_around(read, priors)
    served = sets if settings.knowledge.confidence is not None else None
    problem = _problem(read, priors, [] if served is None else served.parts(), no_sets)
    if read.known:
        check_kept(read, problem)
    problem = weighted(problem, settings.weights, priors.spreads)
    calibrated = find_scales(problem)
    over_set = None if sets is None else loss_over(sets, problem, calibrated)
    return Learnt(read, priors, problem, calibrated, over_set, no_sets)


def _sets_around(read: TableRead, priors: TablePriors) -> tuple[CountedSets | None, str | None]:
    """Return the sets of priors around the counted ones, and why there are none if they are asked.

    The atoms of the columns are the declared alphabet: cells without rows have a place in the sets.
    """
    knowledge, asked = read.settings.knowledge, read.settings.columns
    if asked.grouped is not None or asked.known is not None or knowledge.fit is not None:
        return None, None
    level = DEFAULT_LEVEL if knowledge.confidence is None else knowledge.confidence.level
    sets = CountedSets(level, priors.counted, read.pairs, read.bare_columns, read.groups)
    if knowledge.prior is not None:
        reason = "the prior is given, not learnt from the rows"
    elif knowledge.model is not None:
        reason = "the prior is that of a classifier, around which no set is known"
    else:
        reason = too_large(sets, read.settings, priors.mixings)
    if not reason:
        return sets, None
    return None, reason if knowledge.confidence is not None else None


def _problem(
    read: TableRead, priors: TablePriors, sets: Sequence[Group], no_sets: str | None
) -> Problem:
    """Return the problem to calibrate; without computable sets the noise serves any prior."""
    settings, columns, spreads = read.settings, read.bare_columns, priors.spreads
    knowing = who_know_values(priors.adversaries, read) if read.known else []
    secret_pairs, parts = make_groups([*priors.adversaries, *knowing], read.pairs, read.groups)
    ranges = np.array([column.atoms[-1] - column.atoms[0] for column in columns])
    # a column that never varies under the fitted prior may vary under a further one
    weights = np.where(spreads > 0.0, spreads, np.where(ranges > 0.0, ranges, 1.0))
    weights = np.where([c.unordered for c in columns], mixing_weights(columns), weights)
    kept = [isinstance(mixing, Unchanged) for mixing in priors.mixings]
    return Problem(
        groups=parts,
        n_pairs=len(secret_pairs),
        secret_pairs=secret_pairs,
        weights=np.where(kept, 0.0, weights),
        whole=np.array(
            [column.whole and settings.columns.output == "native" for column in columns]
        ),
        names=read.public,
        notion=settings.guarantee.notion,
        strategy=settings.knowledge.strategy if no_sets is None else sensitivity,
        noise=settings.noise,
        sets=sets,
        reach=np.array([0.0 if c.free else np.abs(c.atoms).max() for c in columns]),
        n_jobs=settings.n_jobs,
        releases=settings.guarantee.releases,
        mixings=priors.mixings if any(priors.mixings) else (),
        row_groups=read.grouped,
    )


def mixing_weights(columns: Sequence[Column]) -> FloatArray:
    r"""Return the weights of unordered columns, in the place of standard deviations.

    Let the alphabet have n values, and take one with a share of 1/n. At a factor of 1 its change
    loses half a nat, as a move by half a standard deviation does under Laplace noise:

    .. math:: e^{1/2} = 1 + \frac{1 - \rho}{\rho / n} \iff
              -\log(1 - \rho) = \log\left(1 + \frac{n}{e^{1/2} - 1}\right)
    """
    sizes = np.array([len(column.atoms) for column in columns], dtype=np.float64)
    weights: FloatArray = np.log1p(sizes / np.expm1(0.5))
    return weights


def _rule(problem: Problem, calibrated: Calibrated) -> Rule:
    """Return the composition rule of releases at these scales."""
    scales = dict(zip(problem.names, calibrated.together.tolist(), strict=True))
    if calibrated.upper.max() > problem.notion.budget:
        return Refused("The certificate does not hold, so that nothing may be released.")
    return composition_rule(problem.noise, scales, problem.draws, problem.mixings)


def _check_size(read: TableRead) -> None:
    """Refuse a joint group whose coupling needs too much memory, before it is allocated."""
    for group in read.groups:
        members = [read.columns[k] for k in group]
        cells = cells_of(members)
        if not too_wide(members):  # continuous priors are never coupled row by row
            continue
        points = 0
        for secret in read.secrets:
            tallies = read.rows.numbers(secret)
            if read.settings.knowledge.models:  # every row has some mass for every secret
                tallies = np.full_like(tallies, read.rows.n_rows)
            sizes = np.minimum(tallies, min(cells, 2**62))
            points += sum(
                int(sizes[secret.find(label)]) for pair in read.pairs[secret.name] for label in pair
            )
        if points > MOST_JOINT_POINTS:
            names = [column.name for column in members]
            bins = exact_bins(members, read.settings.noise, read.settings.guarantee.notion)
            raise ValueError(say.too_large_sentence(names, points, MOST_JOINT_POINTS, bins))


def seen_by_counting(fitted: FittedNoise, read: TableRead) -> tuple[CountedLoss, ...]:
    """Return the losses against readers who counted one or two columns and see these alone.

    Columns whose loss takes long are left out.
    """
    groups = [list(members) for members in _views(fitted)]
    counted, losses = read.counted(groups), []
    for members in map(tuple, groups):
        distributions = _distributions_over(members, counted)
        if distributions is not None:
            names = tuple(fitted.columns[k].name for k in members)
            loss = fitted.restricted(members).against(distributions).loss
            losses.append(CountedLoss(names, loss))
    return tuple(losses)


def _views(fitted: FittedNoise) -> Iterator[Members]:
    """Yield the columns, and the pairs of columns, whose loss takes little time."""
    grid = fitted.problem.noise.is_exponential and fitted.problem.notion.is_pure
    few = sum(map(len, fitted.pairs.values())) <= _MOST_PAIRS
    sizes = [len(column.atoms) for column in fitted.columns]
    for size in (1, 2):
        for members in combinations(range(len(sizes)), size):
            cells = prod(sizes[k] for k in members)
            if cells <= _MOST_CELLS if grid else size == 1 and cells <= _MOST_ALONE and few:
                yield members


def _distributions_over(members: Members, counted: Adversary) -> dict[Name, dict[Any, Any]] | None:
    """Return the priors of rows in which all these columns are present, if all secrets have one.

    >>> _distributions_over((0,), {"loan": {"no": {(0,): "a distribution"}, "yes": {}}}) is None
    True
    """
    if not all(members in of for of_secrets in counted.values() for of in of_secrets.values()):
        return None
    return {
        name: {label: of[members] for label, of in of_secrets.items()}
        for name, of_secrets in counted.items()
    }
