"""How `PufferfishNoiser.fit` calibrates noise: from a table to priors, scales and their proof.

Certificate, releases and warnings follow from these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations
from operator import methodcaller
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray, check_pairs
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
from sklearn_puffer._losses import LossTable
from sklearn_puffer._noise import MixedNoise, Unchanged, grid_step, sampler
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
    Distributions,
    Group,
    Members,
    changed,
    choices_of,
    make_groups,
    who_know,
)
from sklearn_puffer._noiser.problem import Problem, cells_of, exact_bins, has_exact_loss, too_wide
from sklearn_puffer._noiser.read_table import TableRead, read_table
from sklearn_puffer._noiser.release import ColumnRelease
from sklearn_puffer._noiser.scales import Calibrated, find_scales, weighted
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.utility import utilities
from sklearn_puffer._release import LearntMechanism, Patterns
from sklearn_puffer._rows import FitRows
from sklearn_puffer._tables import Name
from sklearn_puffer._words import brief, briefly, listed, quoted
from sklearn_puffer.bounds import sensitivity
from sklearn_puffer.calibration import exact

MOST_JOINT_POINTS = 1 << 23
"""Largest number of joint rows, over all secret pairs, that a coupling is built for."""
_REMEDY = 'strategy="exact" keeps the guarantee, or says why no noise does.'
_CLOSE = 1e-9  # share of the budget that known columns must leave for the noise
_FEW_ROWS = 5  # of a secret, of which a confidence set says next to nothing
_MOST_CELLS = 1 << 14  # of a pair of columns, if the loss is attained at a vertex of the grid
_MOST_ALONE = 1 << 9  # of a single column otherwise
_LONG, _FLOAT = 10**7, 10**300  # numbers written in full; numbers within the range of floats
_MOST_PAIRS = 64  # of secrets, if the loss of each is computed on its own


@dataclass(frozen=True, eq=False)
class _Learnt:
    """The priors, scales and proof of a table, with the certificate and releases built on them."""

    read: TableRead
    priors: TablePriors
    problem: Problem
    calibrated: Calibrated
    # the loss over the confidence sets around the fitted priors
    over_set: SetLoss | DeferredLoss | None
    no_sets: str | None  # why there are none, where they were asked for

    @cached_property
    def members(self) -> list[Members]:
        """The sets of columns over which the fitted adversary has distributions."""
        distributions = [
            of for of_secret in self.priors.adversaries[0].values() for of in of_secret.values()
        ]
        return sorted({members for of in distributions for members in of})

    @cached_property
    def releases(self) -> list[ColumnRelease]:
        """How every public column is released."""
        settings, found, releases = self.read.settings, self.calibrated, []
        theta, grids = found.theta.tolist(), found.grids.tolist()
        columns, mixings = self.read.bare_columns, self.priors.mixings
        for column, mixing, scale, grid in zip(columns, mixings, theta, grids, strict=True):
            noise = settings.noise.with_scale(scale) if scale else None
            if noise is not None and mixing is not None:
                noise = MixedNoise(noise, (mixing,))
            releases.append(ColumnRelease(column, noise, grid, settings.columns.output))
        return releases

    def certificate(self) -> Certificate:
        """Return the certificate, with both directions of every pair, and no fingerprint yet."""
        read, problem, settings = self.read, self.problem, self.read.settings
        guarantee, knowledge = settings.guarantee, settings.knowledge
        # a confidence set was asked for, and the loss over it is not computable
        fallen_back = problem.strategy is not knowledge.strategy
        by_groups = not isinstance(knowledge.dependence, str)
        fitted, models, found = self.fitted_noise(), self.priors.facts, self.calibrated
        scales = dict(zip(problem.names, found.together.tolist(), strict=True))
        loss, holds = float(found.upper.max()), found.upper.max() <= problem.notion.budget
        rule: Rule = Refused("The certificate does not hold, so that nothing may be released.")
        if holds:
            rule = composition_rule(problem.noise, scales, problem.draws, problem.mixings)
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
                rule,
                None if holds or problem.strategy is exact else _REMEDY,
            ),
            Method(
                "sensitivity" if fallen_back else knowledge.strategy_name,
                settings.noise_name,
                "groups" if by_groups else knowledge.dependence,
                settings.columns.output,
                self.column_noise,
            ),
            Made.now(read.rows.total, read.n_columns),
            assumptions_of(read, self.priors, self.calibrated, self.column_noise),
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
            columns=self.read.bare_columns,
            groups=self.read.groups,
            members=self.members,
            secrets=self.read.labels,
            pairs=self.read.pairs,
            margins=self.priors.margins,
            known=self.read.known,
        )

    @cached_property
    def utility(self) -> tuple[ColumnUtility, ...]:
        """How much of each column survives."""
        return utilities(self.releases, self.priors.raw, self.priors.spreads.tolist())

    def warnings(self) -> list[str]:
        """Return the warnings of a fit."""
        said = [*self.read.remarks(), *about_rows(self.read, self.priors)]
        if self.no_sets is not None:
            said.append(
                f"the loss over the confidence set is not computable here ({self.no_sets}), so "
                'that the noise is that of strategy="sensitivity"; use fewer columns or bins.'
            )
        said += [*self.wide_remarks(), *about_quiet(self.read, self.column_noise, briefly)]
        confidence, fewest = self.read.settings.knowledge.confidence, self.read.fewest_rows
        if confidence is not None and self.no_sets is None and fewest < _FEW_ROWS:
            said.append(
                f"the rarest secret has {fewest} row(s), of which the {confidence.level:.0%} "
                "confidence set says next to nothing, so that the noise is large; group rare "
                "secrets."
            )
        return said

    @cached_property
    def column_noise(self) -> tuple[ColumnNoise, ...]:
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
        priors, read, releases = self.priors, self.read, self.releases
        names = read.public

        def named(of: Distributions) -> dict[tuple[Name, ...], Any]:
            return {tuple(names[k] for k in members): of[members] for members in of}

        patterns: Patterns = {
            tuple(names[k] for k in group): {
                tuple(names[k] for k in members)
                for members in self.members
                if set(members) <= set(group)
            }
            for group in read.groups
            if read.propagated
        }
        return LearntMechanism(
            hidden=read.hidden,
            public=names,
            passed=read.passed,
            pairs=read.pairs,
            mechanism=NoiseOfColumns(releases),
            certificate=self.certificate(),
            missing=self.read.settings.columns.missing,
            order=read.order,
            grouped=read.grouped,
            margins=priors.margins,
            patterns=patterns,
            warnings=self.warnings(),
            useless=told.worthless(self.utility),
            attributes={
                "priors_": changed(priors.adversaries[0], named),
                "_secret_rows": {
                    (secret.name, label): float(n)
                    for secret in read.secrets
                    for label, n in zip(secret.labels, read.rows.tally(secret), strict=True)
                },
            },
        )

    def wide_remarks(self) -> list[str]:
        """Return the warnings where strategy="exact" falls back on a theorem.

        Rows that depend on each other have a bound of their own, and no warning.
        """
        settings, remarks = self.read.settings, []
        if settings.knowledge.strategy is not exact or settings.columns.rows_dependent:
            return []
        if self.calibrated.recomputed.all():
            return []
        columns = self.read.bare_columns
        grouped = [[columns[k] for k in group] for group in self.read.groups]
        if self.problem.strategy is exact and not any(map(too_wide, grouped)):
            way = "prior='empirical' with n_bins= is exact"
            if settings.knowledge.fit is None:
                way = "two columns of fewer secrets or bins (n_bins=) are exact, and more"
            way += " under Laplace noise without delta and alpha"
            if max(map(len, grouped)) == 1:  # of one column it is exact but for mixtures
                way = "use noise='laplace', which is exact for Gaussian and mixture priors"
            remarks.append(
                "strategy='exact' uses the best theorem, which may ask for more noise than is "
                f"needed; {way}."
            )
        wide = [k for k, members in enumerate(grouped) if too_wide(members)]
        if wide:
            widest = max(wide, key=lambda k: cells_of(grouped[k]))
            noise = [self.column_noise[k] for k in self.read.groups[widest]]
            worst = max(noise, key=lambda c: (not c.unordered, c.relative))
            names = [column.name for column in grouped[widest]]
            n_bins = exact_bins(grouped[widest], settings.noise, settings.guarantee.notion)
            remarks.append(wide_sentence(names, cells_of(grouped[widest]), worst, n_bins))
        return remarks


def wide_sentence(names: Sequence[Name], cells: int, worst: ColumnNoise, n_bins: int) -> str:
    """Return the warning about a group of columns too wide for the exact loss.

    ``n_bins`` is the number of bins that would be exact, or 0.
    """
    way = f"take n_bins={n_bins}" if n_bins else "release fewer columns"
    amount = f"{worst.relative:.3g} standard deviations of noise in"
    if worst.unordered:
        amount = f"{-math.expm1(-worst.theta):.0%} of the values drawn anew in"
    size = cells if cells < _LONG else f"{float(cells):.0e}" if cells < _FLOAT else "over 1e300"
    return (
        f"columns {briefly(names)} span {size} cells jointly, beyond exact losses, and get "
        f"{amount} {brief(worst.name)}; {way}."
    )


def learn(settings: Settings, rows: FitRows) -> LearntMechanism:
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
        _check_kept(read, problem)
    problem = weighted(problem, settings.weights)
    calibrated = find_scales(problem)
    over_set = None if sets is None else loss_over(sets, problem, calibrated)
    return _Learnt(read, priors, problem, calibrated, over_set, no_sets).plain()


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
    knowing = _who_know_values(priors.adversaries, read) if read.known else []
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


def _who_know_values(adversaries: Sequence[Adversary], read: TableRead) -> list[Adversary]:
    """Return the adversaries with side information; refuse more than there is time for."""
    choices = choices_of(adversaries, read.known, read.groups)
    n_adversaries = sum(math.prod(map(len, values)) for _, values in choices)
    check_pairs(
        n_adversaries * sum(map(len, read.pairs.values())),
        f"the pairs of {listed(list(read.pairs))}, given each value of what may be known,",
        "bin those columns (n_bins), or list fewer in known=",
        alone=not read.settings.at_once,
    )
    return who_know(choices, read.groups)


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
            n_bins = exact_bins(members, read.settings.noise, read.settings.guarantee.notion)
            bins = f"n_bins={n_bins}" if n_bins else "fewer bins (n_bins)"
            raise ValueError(
                f"columns {listed(names)} have up to {points} distinct joint rows to couple, more "
                f"than the {MOST_JOINT_POINTS} that fit in memory; use {bins}, column groups "
                '(dependence=[[...], [...]]) or dependence="independent".'
            )


def seen_by_counting(fitted: FittedNoise, read: TableRead) -> tuple[CountedLoss, ...]:
    """Return the losses against readers who counted one or two columns and see these alone.

    Columns whose loss takes long are left out, and those that no row of some secret has.
    """
    grid = fitted.problem.noise.is_exponential and fitted.problem.notion.is_pure
    few = sum(map(len, fitted.pairs.values())) <= _MOST_PAIRS
    views, losses = [], []
    for members in chain(*(combinations(range(len(fitted.columns)), size) for size in (1, 2))):
        cells = cells_of([fitted.columns[k] for k in members])
        if cells <= _MOST_CELLS if grid else len(members) == 1 and cells <= _MOST_ALONE and few:
            views.append(members)
    counted = read.counted(views)
    for members in views:
        if all(members in of for of_secrets in counted.values() for of in of_secrets.values()):
            names = tuple(fitted.columns[k].name for k in members)
            losses.append(CountedLoss(names, fitted.counted_loss(counted, members)))
    return tuple(losses)


def _check_kept(read: TableRead, problem: Problem) -> None:
    r"""Refuse side information that reveals too much by itself, or has no computable loss.

    Known columns are released unchanged. With the value v of such a column and the noisy values y
    of the others, the loss at a row (v, y) is

    .. math:: \log \frac{p_s(v)}{p_{s'}(v)} + \log \frac{p_s(y \mid v)}{p_{s'}(y \mid v)},

    whose first part does not depend on the noise on the other columns.
    """
    known, kept = f"known={quoted(read.settings.columns.known)}", problem.kept
    _check_bare_loss(read, problem, known, kept)
    for part in (part for group in problem.groups for part in group):
        axes = [axis for axis, k in enumerate(part.members) if k in kept]
        rows = np.concatenate([distribution.rows[:, axes] for distribution in part.priors])
        if not axes or not np.ptp(rows, axis=0).any():
            continue
        if problem.strategy is not exact:
            raise ValueError(
                f"{known} keeps columns unchanged, for which there is the exact loss and no other "
                f"bound, got strategy={read.settings.knowledge.strategy_name!r}; leave it out, or "
                "leave out known."
            )
        if not has_exact_loss(problem, part, problem.notion):
            raise ValueError(
                f"{known} keeps columns unchanged, which needs the exact loss of rows of "
                f"{listed([read.public[k] for k in part.members], 10)}, and under "
                f"{read.settings.noise_name} noise and this guarantee it is not computed for so "
                "many columns, values or secrets; use fewer of them, bins (n_bins), Laplace noise "
                "without delta and alpha, or PufferfishMicroaggregator(known=)."
            )


def _check_bare_loss(read: TableRead, problem: Problem, known: str, kept: list[int]) -> None:
    """Refuse known columns that reveal more than the budget by themselves."""
    notion, groups = problem.notion, [np.zeros((problem.n_pairs, 2))]
    for group in problem.groups:
        of_group = np.zeros((problem.n_pairs, 2))
        for part in group:
            axes = [axis for axis, k in enumerate(part.members) if k in kept]
            if axes:
                seen = part.mapped(methodcaller("marginal", axes), ())
                losses = LossTable(seen.pairs, notion).without_noise()
                np.maximum.at(of_group, part.owners, losses)
        groups.append(of_group)
    lost = float((np.sum if notion.adds_up else np.max)(groups, axis=0).max(initial=0.0))
    if lost <= notion.budget * (1.0 - _CLOSE):
        return
    names = [read.public[k] for k in kept]
    how = "by itself that already tells" if len(names) == 1 else "together they already tell"
    if any(len(group) > 1 for group in problem.groups):  # a part for each set of columns
        how = "with the pattern of missing values that already tells"
    last = "choose a larger epsilon"
    if math.isinf(lost):
        last = "allow a delta, for some value rules a secret out"
    raise ValueError(
        f"{known} leaves {listed(names, len(names))} unchanged, and {how} {lost:.3g} "
        f"({'delta' if notion.is_chance else 'nats'}) about {listed(read.sensitive)}, more than "
        f"{notion.budget_name()} allows; leave columns out of known=, bin or merge them more "
        f"coarsely (n_bins, categories), or {last}."
    )
