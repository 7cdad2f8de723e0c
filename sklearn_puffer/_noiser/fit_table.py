"""What `PufferfishNoiser.fit` does: from a table to priors, scales and their proof.

What is lost to whoever fitted the prior's classifier to other rows of the same population.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray, plain
from sklearn_puffer._noise import Unchanged, grid_step, sampler
from sklearn_puffer._noiser.adversaries import Known, conditional_margins, known_to_adversaries
from sklearn_puffer._noiser.classifier_priors import refitted_laws
from sklearn_puffer._noiser.conditional_priors import Adversary, Group, SecretPair, make_groups
from sklearn_puffer._noiser.counted_views import about_rows, seen_by_counting
from sklearn_puffer._noiser.drawn_priors import N_DRAWS, draws_of
from sklearn_puffer._noiser.groups import RowGroups
from sklearn_puffer._noiser.kept_columns import check_kept, with_kept
from sklearn_puffer._noiser.known_values import known_columns, who_know_values
from sklearn_puffer._noiser.over_set import Around, Unknown, priors_around
from sklearn_puffer._noiser.problems import (
    Problem,
    cells_of,
    rows_have_exact_loss,
    too_wide,
    ways_to_exact,
)
from sklearn_puffer._noiser.read_table import TableRead, read_table
from sklearn_puffer._noiser.remapping import check_remappable
from sklearn_puffer._noiser.result import Learnt
from sklearn_puffer._noiser.scales import Calibrated, find_scales
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.weights import weighted
from sklearn_puffer._releases import Refused, Rule, composition_rule
from sklearn_puffer._releases import sentences as say
from sklearn_puffer._tables import Column, Name, Source, Values
from sklearn_puffer.calibration import exact

MOST_JOINT_POINTS = 1 << 23
"""Largest number of joint rows, over all secret pairs, that a coupling is built for."""


def learn(
    settings: Settings,
    table: Source,
    given_secrets: Mapping[Name, Values] | None,
    sample_weight: Any,
) -> Learnt:
    """Learn the priors of a table, calibrate the noise and prove the result.

    Parameters
    ----------
    settings : Settings
    table : Source
    given_secrets : mapping of Values, or None
        The sensitive columns, where they are not columns of the table.
    sample_weight : array-like of shape (n_rows,) or None
    """
    # a family that cannot be drawn is refused here, and not in transform
    sampler(settings.noise.with_scale(1.0), grid_step(1.0))
    read = read_table(settings, table, given_secrets, sample_weight)
    settings = read.settings
    if settings.output == "remapped":
        check_remappable(read.columns, settings.noise)
    _check_size(read)
    known = known_to_adversaries(read)
    columns, groups = [replace(column, raw=None) for column in read.columns], read.groups
    knowing = who_know_values(known.adversaries, read)
    asked, parts = make_groups([*known.adversaries, *knowing], read.pairs, groups)
    around = (
        priors_around(settings, known.counted, read.pairs, columns, groups, known.mixings)
        if settings.model is None
        else refits_around(read, known.adversaries[0])
    )
    known = replace(known, mixings=with_kept(read, known.mixings))
    problem = _problem(settings, columns, known, parts, asked, read.grouped)
    check_kept(read, problem, len(known.adversaries))
    problem = weighted(around.within(problem), settings.weights, known.spreads)
    calibrated = find_scales(problem)
    learnt = Learnt(
        settings=settings,
        # where a confidence set was asked for and cannot be looked through
        strategy_name="sensitivity"
        if problem.strategy is not settings.strategy
        else settings.strategy_name,
        sensitive=[secret.name for secret in read.secrets],
        hidden=read.hidden,
        passed=read.passed,
        columns=columns,
        groups=groups,
        pairs=read.pairs,
        adversaries=known.adversaries,
        asked=asked,
        calibrated=calibrated,
        spreads=known.spreads,
        raw=known.raw,
        propagated=read.public if settings.missing == "propagate" else [],
        n_rows=read.rows.total,
        n_columns=read.n_columns,
        fewest_rows=read.fewest_rows(),
        around=around.loss(problem, calibrated),
        rule=_rule(problem, calibrated),
        remedy=_remedy(problem, calibrated),
        remarks=[*read.remarks(), *about_rows(read, known), *around.remarks],
        models=tuple(facts for model in known.models for facts in model.facts),
        mixings=known.mixings,
        margins=known.margins,
        conditional=conditional_margins(read, known),
        known=tuple(tuple(read.public[k] for k in each) for each in known_columns(read)),
        grouped=read.grouped,
    )
    if not learnt.models:
        return learnt
    return replace(learnt, counted=seen_by_counting(learnt.fitted_noise(), read))


def _problem(
    settings: Settings,
    columns: Sequence[Column],
    known: Known,
    parts: Sequence[Group],
    asked: Sequence[SecretPair],
    together: RowGroups | None,
) -> Problem:
    spreads, unordered = known.spreads, np.array([column.unordered for column in columns])
    ranges = np.array([column.atoms[-1] - column.atoms[0] for column in columns])
    # a column that never varies under the fitted prior may vary under a further one
    weights = np.where(spreads > 0.0, spreads, np.where(ranges > 0.0, ranges, 1.0))
    weights = np.where(unordered, mixing_weights(columns), weights)
    kept = [isinstance(mixing, Unchanged) for mixing in known.mixings]
    weights = np.where(kept, 0.0, weights)
    whole = np.array([column.whole and settings.output == "native" for column in columns])
    return Problem(
        groups=parts,
        n_pairs=len(asked),
        asked=asked,
        weights=weights,
        whole=whole,
        names=[column.name for column in columns],
        notion=settings.notion,
        strategy=settings.strategy,
        noise=settings.noise,
        reach=np.array([0.0 if c.free else np.abs(c.atoms).max() for c in columns]),
        n_jobs=settings.n_jobs,
        releases=settings.releases,
        mixings=known.mixings if any(known.mixings) else (),
        together=together,
    )


def mixing_weights(columns: Sequence[Column]) -> FloatArray:
    r"""Return what unordered columns have in the place of a standard deviation.

    At a factor of 1 a move away from a value that one of n rows has, n the size of the alphabet,
    loses half a nat, as a move by half a standard deviation does under Laplace noise:

    .. math:: e^{1/2} = 1 + \frac{1 - \rho}{\rho / n} \iff
              -\log(1 - \rho) = \log\left(1 + \frac{n}{e^{1/2} - 1}\right)
    """
    sizes = np.array([len(column.atoms) for column in columns], dtype=np.float64)
    weights: FloatArray = np.log1p(sizes / np.expm1(0.5))
    return weights


def _rule(problem: Problem, calibrated: Calibrated) -> Rule:
    """Return how releases of the same rows add up at the scales."""
    scales = dict(zip(problem.names, calibrated.together.tolist(), strict=True))
    if calibrated.upper.max() > problem.notion.budget:
        return Refused("The certificate does not hold, so that nothing may be released.")
    return composition_rule(problem.noise, scales, problem.draws, problem.mixings)


def _remedy(problem: Problem, calibrated: Calibrated) -> str | None:
    """Return which sound strategy would do, and its scales, where the promise is broken."""
    if calibrated.upper.max() <= problem.notion.budget:
        return None
    try:
        sound = find_scales(replace(problem, strategy=exact))
    except ValueError as error:
        return f'strategy="exact" does not help here: {error}'
    if sound.upper.max() > problem.notion.budget:
        return None
    scales = {
        plain(name): float(f"{theta:.6g}")
        for name, theta in zip(problem.names, sound.theta, strict=True)
    }
    return f'strategy="exact" keeps the promise, with theta = {scales}.'


def _check_size(read: TableRead) -> None:
    """Refuse a joint group whose coupling could not be held, before anything is allocated."""
    for group in read.groups:
        members = [read.columns[k] for k in group]
        cells = cells_of(members)
        if not too_wide(members):  # continuous priors are never coupled row by row
            continue
        points = 0
        for secret in read.secrets:
            tallies = read.rows.numbers(secret)
            if read.settings.models:  # every row has some mass for every secret
                tallies = np.full_like(tallies, read.rows.n_rows)
            sizes = np.minimum(tallies, min(cells, 2**62))
            points += sum(
                int(sizes[secret.find(label)]) for pair in read.pairs[secret.name] for label in pair
            )
        if points > MOST_JOINT_POINTS:
            names = [column.name for column in members]
            exactly = rows_have_exact_loss(read.settings.noise, read.settings.notion)
            ways = ways_to_exact(members) if exactly else ""
            raise ValueError(say.too_large_sentence(names, points, MOST_JOINT_POINTS, ways))


_MOST_DRAWN = 1 << 24  # rows: 128 MB of random bits


def refits_around(read: TableRead, own: Adversary) -> Around:
    """Return what the prior's classifier knows when it is fitted anew, if that was asked for.

    Parameters
    ----------
    read : TableRead
    own : Adversary
        The laws of the classifier as it is.
    """
    settings = read.settings
    if settings.confidence is None:
        return Unknown()
    level, models = settings.confidence.level, settings.model
    fits = models.values() if isinstance(models, Mapping) else [models]
    if any(fit.is_prefit for fit in fits if fit is not None):
        return Unknown("the prior is that of a classifier which was fitted elsewhere")
    if read.rows.total > _MOST_DRAWN:
        return Unknown(f"more than {_MOST_DRAWN} rows are not drawn again")
    alone = draws_of([own], read.pairs, read.groups, level)
    if not alone.computable(settings.noise, settings.notion):
        return Unknown("the exact loss of such rows is not computed")
    drawn = [laws.adversary(read) for laws in refitted_laws(read, N_DRAWS)]
    return draws_of(drawn, read.pairs, read.groups, level)
