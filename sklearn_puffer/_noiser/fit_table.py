"""What `PufferfishNoiser.fit` does: from a table to priors, scales and their proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray, as_array, listed, plain, quoted, real_numbers
from sklearn_puffer._noise import grid_step, sampler
from sklearn_puffer._noiser.conditional_priors import (
    Adversary,
    Group,
    SecretPair,
    empirical_adversary,
    fitted_adversary,
    given_adversary,
    given_priors,
    make_groups,
)
from sklearn_puffer._noiser.over_set import priors_around
from sklearn_puffer._noiser.problems import Problem
from sklearn_puffer._noiser.result import Learnt
from sklearn_puffer._noiser.scales import Calibrated, find_scales
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.utility import RawLaw
from sklearn_puffer._noiser.weights import weighted
from sklearn_puffer._noiser.wide import cells_of, rows_have_exact_loss, too_wide, ways_to_exact
from sklearn_puffer._releases import Refused, Rule, composition_rule
from sklearn_puffer._releases import sentences as say
from sklearn_puffer._tables import (
    Coded,
    Column,
    Faults,
    Name,
    Pair,
    Reader,
    Secret,
    Table,
    Values,
    column_groups,
    hardly_repeats,
    learn_column,
    learn_secret,
    looks_like_key,
    public_columns,
    resolve,
    rule_of,
    secret_pairs_of,
    standard_deviation,
    tally,
    without_unused,
)
from sklearn_puffer.calibration import exact
from sklearn_puffer.priors import Discrete, GaussianMixture

MOST_JOINT_POINTS = 1 << 23
"""Largest number of joint rows, over all secret pairs, that a coupling is built for."""

_MOST_ROWS = 2.0**53  # up to here floats count exactly


def learn(
    settings: Settings,
    table: Table,
    given_secrets: Mapping[Name, Values] | None,
    sample_weight: Any,
) -> Learnt:
    """Learn the priors of a table, calibrate the noise and prove the result.

    Parameters
    ----------
    settings : Settings
    table : Table
    given_secrets : mapping of Values, or None
        The sensitive columns, where they are not columns of the table.
    sample_weight : array-like of shape (n_rows,) or None
    """
    # a family that cannot be drawn is refused here, and not in transform
    sampler(settings.noise.with_scale(1.0), grid_step(1.0))
    rows = _Rows(table, _checked_weights(sample_weight, table.n_rows))
    sensitive = _sensitive(settings, table, given_secrets)
    public = public_columns(settings.public, table.names, sensitive)
    groups = column_groups(settings.dependence, public, table.names)
    _check_named(settings, public)
    settings.check_fitted_rows(max(map(len, groups)))
    continuous = _is_continuous(settings)
    faults = Faults()
    secrets = faults.of(
        lambda name: _learn_secret(settings, rows, given_secrets, name),
        list(given_secrets) if given_secrets is not None else sensitive,
    )
    learnt = faults.of(
        lambda k: _learn_column(settings, rows, public[k], k, continuous=continuous),
        range(len(public)),
    )
    faults.refuse()
    columns, readers = [column for column, _ in learnt], [reader for _, reader in learnt]
    n_adversaries = 1 + len(settings.adversaries)
    alone = not settings.at_once
    pairs = secret_pairs_of(settings.secret_pairs, secrets, n_adversaries, alone=alone)
    _check_size(settings, columns, groups, secrets, pairs, rows.n_rows)
    counted, adversaries, spreads, raw = _adversaries(
        settings, rows, secrets, columns, readers, groups
    )
    columns = [replace(column, raw=None) for column in columns]
    asked, parts = make_groups(adversaries, pairs, groups)
    around = priors_around(settings, counted, pairs, columns, groups)
    problem = _problem(settings, columns, spreads, parts, asked)
    problem = weighted(around.within(problem), settings.weights, spreads)
    calibrated = find_scales(problem)
    used = {*sensitive, *public}
    return Learnt(
        settings=settings,
        # where a confidence set was asked for and cannot be looked through
        strategy_name="sensitivity"
        if problem.strategy is not settings.strategy
        else settings.strategy_name,
        sensitive=[secret.name for secret in secrets],
        hidden=sensitive,
        passed=[n for n in table.names if n not in used and settings.remainder == "passthrough"],
        columns=columns,
        groups=groups,
        pairs=pairs,
        adversaries=adversaries,
        asked=asked,
        calibrated=calibrated,
        spreads=spreads,
        raw=raw,
        propagated=public if settings.missing == "propagate" else [],
        n_rows=rows.total,
        n_columns=len({*table.names, *(given_secrets or ())}),
        fewest_rows=min(int(rows.tally(secret.coded).min()) for secret in secrets),
        around=around.loss(problem, calibrated),
        rule=_rule(problem, calibrated),
        remedy=_remedy(problem, calibrated),
        remarks=[*_remarks(settings, columns, secrets, rows), *around.remarks],
    )


class _Rows:
    """The rows that count, and how often."""

    def __init__(self, table: Table, weights: Array | None) -> None:
        self.table = table
        some = weights is not None and not weights.all()
        self.mask = weights > 0 if weights is not None and some else None
        self.weights = weights[self.mask] if weights is not None and some else weights
        self.n_rows = table.n_rows if self.mask is None else int(self.mask.sum())
        self.total = self.n_rows if self.weights is None else int(self.weights.sum())

    def kept(self, values: Values) -> Values:
        """Return the values of the rows that count."""
        if self.mask is None:
            return values
        missing = None if values.missing is None else values.missing[self.mask]
        some = missing is not None and missing.any()
        kept = replace(values, data=values.data[self.mask], missing=missing if some else None)
        return without_unused(kept)

    def values(self, name: Name) -> Values:
        """Return a column's values of the rows that count."""
        return self.kept(self.table.values(name))

    def tally(self, coded: Coded) -> Array:
        """Return how often each code counts."""
        return tally(coded, self.n_rows, self.weights)


def _sensitive(settings: Settings, table: Table, given: Mapping[Name, Values] | None) -> list[Name]:
    """Return the columns of X that are sensitive, those named as in sensitive_features included."""
    if settings.sensitive is not None:
        return resolve(settings.sensitive, table.names, "sensitive")
    return [name for name in given or () if isinstance(name, str) and name in table.names]


def _learn_secret(
    settings: Settings, rows: _Rows, given: Mapping[Name, Values] | None, name: Name
) -> Secret:
    values = rows.values(name) if given is None else rows.kept(given[name])
    return learn_secret(name, values, settings.missing)


def _learn_column(
    settings: Settings, rows: _Rows, name: Name, position: int, *, continuous: bool
) -> tuple[Column, Reader]:
    values = rows.values(name)
    categories = settings.categories.get(name)
    unknown = rule_of(settings.unknown, name, values.kind if categories is None else "category")
    column = learn_column(
        name,
        values,
        n_bins=settings.bins_of(name),
        categories=categories,
        missing=settings.missing,
        unknown=unknown,
        weights=rows.weights,
    )
    if isinstance(settings.n_bins, Mapping) and name in settings.n_bins and column.edges is None:
        raise ValueError(
            f"n_bins names column {name!r}, which is not numeric ({column.kind}); "
            "remove it from n_bins."
        )
    column = column.with_any_number() if continuous else column
    column = _with_given_atoms(column, settings, position)
    if settings.public is None and _looks_like_identifier(settings, column, values, rows.total):
        numeric = column.kind != "category"
        raise ValueError(
            say.identifier_sentence(name, len(column.atoms), rows.total, numeric=numeric)
        )
    return column, column.reader(values, unknown, settings.missing)


def _looks_like_identifier(settings: Settings, column: Column, values: Values, n_rows: int) -> bool:
    n_atoms = len(column.atoms)
    if column.kind == "category":
        return not values.declared and hardly_repeats(n_atoms, n_rows)
    counted = settings.prior is None and not column.free and column.edges is None
    return counted and looks_like_key(column.atoms, n_rows)


def _with_given_atoms(column: Column, settings: Settings, position: int) -> Column:
    """Return the column over the alphabet of all given priors: what they know can be released.

    A value that no prior knows is refused or moved, and then the loss is not that of the priors.
    """
    own = _given_atoms(column, settings.prior, position)
    strange = np.setdiff1d(column.atoms[column.known], own)
    if own.size and strange.size:
        shown = repr(float(strange[0]))
        if column.levels is not None:
            shown = f"{quoted(column.levels[int(strange[0])])} (code {int(strange[0])})"
        raise ValueError(
            f"column {column.name!r} contains {shown}, to which no prior in prior= gives an "
            "atom; add it to the atoms, with probability zero if it is impossible."
        )
    further = [_given_atoms(column, prior, position) for prior in settings.adversaries]
    return column.extended(np.concatenate([own, *further]))


def _given_atoms(column: Column, prior: Any, position: int) -> FloatArray:
    """Return what is released, before the noise, for the values that a given prior knows."""
    discrete = [p for p in given_priors(prior) if isinstance(p, Discrete)]
    axes = [p.rows[:, position] for p in discrete if position < p.n_axes]
    return column.placed(np.concatenate(axes)) if axes else np.empty(0)


def _is_continuous(settings: Settings) -> bool:
    """Return whether the priors are laws of all numbers; they must not be of both kinds."""
    learnt = [settings.fit is not None] if settings.prior is None else []
    given = [p for prior in (settings.prior, *settings.adversaries) for p in given_priors(prior)]
    kinds = {*learnt, *(isinstance(p, GaussianMixture) for p in given)}
    if len(kinds) > 1:
        raise ValueError(
            "prior and adversaries must be of one family, got Discrete and GaussianMixture priors; "
            "give a mixture for each, or discrete laws for each."
        )
    return kinds == {True}


def _adversaries(
    settings: Settings,
    rows: _Rows,
    secrets: Sequence[Secret],
    columns: Sequence[Column],
    readers: Sequence[Reader],
    groups: Sequence[Sequence[int]],
) -> tuple[Adversary, list[Adversary], FloatArray, list[RawLaw]]:
    """Return the counted laws, all adversaries, and each column's spread and law of values."""
    given = {f"adversaries[{k}]": prior for k, prior in enumerate(settings.adversaries)}
    given = given if settings.prior is None else {"prior": settings.prior, **given}
    adversaries: list[Adversary] = []
    for name, prior in given.items():
        _check_complete(readers, groups, name)
        adversaries.append(given_adversary(prior, name, secrets, groups, columns))
    # the spread of a column is that of its rows, whatever the prior
    counted_groups = groups if settings.prior is None else [[k] for k in range(len(columns))]
    counted = empirical_adversary(
        secrets, columns, readers, counted_groups, rows.n_rows, rows.weights
    )
    laws = counted[secrets[0].name]
    seen = [_values_seen(column, k, laws) for k, column in enumerate(columns)]
    spreads = np.array([_spread(c, *of) for c, of in zip(columns, seen, strict=True)])
    raw = [
        RawLaw.of(*of, rows.total, reader.values) for of, reader in zip(seen, readers, strict=True)
    ]
    if settings.prior is None:
        fit = settings.fit
        own = counted if fit is None else fitted_adversary(counted, fit, spreads, columns)
        adversaries = [own, *adversaries]
    return counted, adversaries, spreads, raw


def _check_complete(
    readers: Sequence[Reader], groups: Sequence[Sequence[int]], argument: str
) -> None:
    """Refuse a given prior where a row may be incomplete: it says nothing about such rows."""
    for group in groups:
        gone = [readers[k].column.name for k in group if readers[k].propagates]
        if gone and len(group) > 1:
            raise ValueError(
                f"{argument} gives no law for rows in which {gone[0]!r} is missing; fill its "
                "missing values, or name it as a group of its own in dependence=."
            )


def _values_seen(
    column: Column, position: int, laws_of: Mapping[Any, Any]
) -> tuple[FloatArray, Array]:
    """Return the values of a column before binning, in any order, and how often each counts."""
    if column.raw is not None:
        return column.raw
    laws = [
        law.marginal([members.index(position)])
        for laws in laws_of.values()
        for members, law in laws.items()
        if position in members
    ]
    return np.concatenate([law.atoms for law in laws]), np.concatenate([law.counts for law in laws])


def _spread(column: Column, values: FloatArray, counts: Array) -> float:
    """Return the standard deviation of a column over all rows, whatever their order."""
    return standard_deviation(values, counts) if column.spread is None else column.spread


def _problem(
    settings: Settings,
    columns: Sequence[Column],
    spreads: FloatArray,
    parts: Sequence[Group],
    asked: Sequence[SecretPair],
) -> Problem:
    ranges = np.array([column.atoms[-1] - column.atoms[0] for column in columns])
    # a column that never varies under the fitted prior may vary under a further one
    weights = np.where(spreads > 0.0, spreads, np.where(ranges > 0.0, ranges, 1.0))
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
    )


def _rule(problem: Problem, calibrated: Calibrated) -> Rule:
    """Return how releases of the same rows add up at the scales."""
    scales = dict(zip(problem.names, calibrated.together.tolist(), strict=True))
    if calibrated.upper.max() > problem.notion.budget:
        return Refused("The certificate does not hold, so that nothing may be released.")
    return composition_rule(problem.noise, scales, problem.draws)


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


def _check_size(
    settings: Settings,
    columns: Sequence[Column],
    groups: Sequence[Sequence[int]],
    secrets: Sequence[Secret],
    pairs: Mapping[Name, Sequence[Pair]],
    n_rows: int,
) -> None:
    """Refuse a joint group whose coupling could not be held, before anything is allocated."""
    for group in groups:
        members = [columns[k] for k in group]
        cells = cells_of(members)
        if not too_wide(members):  # continuous priors are never coupled row by row
            continue
        points = 0
        for secret in secrets:
            sizes = np.minimum(tally(secret.coded, n_rows), min(cells, 2**62))
            points += sum(
                int(sizes[secret.find(label)]) for pair in pairs[secret.name] for label in pair
            )
        if points > MOST_JOINT_POINTS:
            names = [column.name for column in members]
            exactly = rows_have_exact_loss(settings.noise, settings.notion)
            ways = ways_to_exact(members) if exactly else ""
            raise ValueError(say.too_large_sentence(names, points, MOST_JOINT_POINTS, ways))


def _remarks(
    settings: Settings, columns: Sequence[Column], secrets: Sequence[Secret], rows: _Rows
) -> list[str]:
    fine = [
        say.too_fine_sentence(column.name, len(column.atoms), rows.total)
        for column in columns
        if settings.prior is None
        and not column.free
        and column.kind in ("float", "integer")
        and column.edges is None
        and hardly_repeats(len(column.atoms), rows.total)
    ]
    collapsed = [
        say.collapsed_sentence(column.name, asked, column.atoms.tolist())
        for column in columns
        if column.merged and len(column.atoms) < (asked := settings.bins_of(column.name) or 0)
    ]
    many = [
        say.many_secrets_sentence(secret.name, len(secret.labels), rows.total)
        for secret in secrets
        if hardly_repeats(len(secret.labels), rows.total)
    ]
    return fine + collapsed + many


def _check_named(settings: Settings, public: Sequence[Name]) -> None:
    mappings = {"categories": settings.categories}
    mappings |= {
        name: given
        for name, given in (("n_bins", settings.n_bins), ("unknown", settings.unknown))
        if isinstance(given, Mapping)
    }
    for argument, mapping in mappings.items():
        strange = [name for name in mapping if name not in public]
        if strange:
            raise ValueError(
                f"{argument} names column {strange[0]!r}, which is not public; "
                f"the public columns are {listed(list(public), 10)}."
            )


def _checked_weights(sample_weight: Any, n_rows: int) -> Array | None:
    if sample_weight is None:
        return None
    weights = as_array(sample_weight, "sample_weight")
    numbers = real_numbers(weights, "sample_weight")
    if weights.ndim == 0:
        numbers = np.full(n_rows, numbers)
    if numbers.ndim != 1:
        raise ValueError(f"sample_weight must be 1D array or scalar, got shape {weights.shape}.")
    if len(numbers) != n_rows:
        raise ValueError(
            f"sample_weight has {len(numbers)} entries and X {n_rows} rows; give one a row."
        )
    whole = np.isfinite(numbers) & (numbers >= 0) & (np.floor(numbers) == numbers)
    if not whole.all():
        raise ValueError(
            "sample_weight must hold non-negative whole numbers, as it counts rows; got "
            f"{float(numbers[~whole][0])!r}."
        )
    if not numbers.any():
        raise ValueError("sample_weight is zero for every row; give some row a positive count.")
    with np.errstate(over="ignore"):
        total = numbers.sum()
    if total >= _MOST_ROWS:
        raise ValueError(
            f"sample_weight counts {total:.4g} rows, more than {_MOST_ROWS:.4g}; divide "
            "the counts by a common factor."
        )
    return numbers.astype(np.int64)
