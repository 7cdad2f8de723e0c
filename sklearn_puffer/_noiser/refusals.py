"""What is refused: settings that do not go together, and problems that have no bound, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sklearn_puffer._base import listed, quoted
from sklearn_puffer._noiser.conditional_priors import Group, Part, given_priors
from sklearn_puffer._noiser.problems import Bounds, Problem, known
from sklearn_puffer._noiser.settings import COUNTED, Settings, is_model
from sklearn_puffer._releases import adds_up
from sklearn_puffer._strategies import (
    Change,
    has_pure_loss,
    noise_changes,
    notion_changes,
    reason_of,
    refusal,
    ways_out,
)
from sklearn_puffer.calibration import exact, strategy_changes
from sklearn_puffer.priors import GaussianMixture

_SPARE = 1.0 + 1e-6  # for the floor as it is recomputed


def refusal_of(problem: Problem) -> str:
    """Return which secrets have no bound in which columns, why, and what was tried and would do."""
    for part, place, reason in _refused(problem):
        columns = listed([problem.names[k] for k in part.members], len(part.members))
        owner, secrets = int(part.owners[place]), f"secret pair {part.owners[place]}"
        if owner < len(problem.asked):
            pair = problem.asked[owner]
            values = f"{quoted(pair.secret)} and {quoted(pair.against)}"
            secrets = f"secrets {values} of {quoted(pair.sensitive)}"
        where = f"{secrets} in column(s) {columns}"
        return refusal(reason, ways_out(_changes(problem), _tried(problem)), where)
    [reason, *_] = filter(None, map(reason_of, Bounds(problem, problem.notion).whole()))
    return refusal(reason, ways_out(_changes(problem), _tried(problem)))


def _refused(problem: Problem) -> Iterator[tuple[Part, int, str]]:
    """Yield the pairs that have no bound, each asked about alone, and why."""
    notion = problem.notion
    bounds = Bounds(problem, notion)
    own = notion if notion.adds_up else notion.shared(problem.n_blocks)
    for part in (part for group in problem.groups for part in group):
        for place, pair in enumerate(part.pairs):
            alone = Part(part.members, [pair], part.owners[place : place + 1])
            reason = reason_of(bounds._of_part(alone, own))
            if reason:
                yield part, place, reason


def _changes(problem: Problem) -> list[Change]:
    """Return what may be changed, in the order of preference."""
    changes: list[Change] = []
    if problem.together is not None and problem.hangs_together:
        apart = replace(problem.together, within="independent")
        changes.append(("within_group='independent'", {"together": apart}))
    changes += [
        *noise_changes(problem.noise),
        *notion_changes(problem.notion),
        *strategy_changes(problem.strategy),
    ]
    if any(len(part.members) > 1 for group in problem.groups for part in group):
        alone = {k: _of_column(problem.groups, k) for k in range(len(problem.names))}
        changes.append(("dependence='independent'", {"groups": list(alone.values())}))
    return changes


def _of_column(groups: Sequence[Group], column: int) -> Group:
    return [
        part.marginal(part.members.index(column))
        for group in groups
        for part in group
        if column in part.members
    ]


def _tried(problem: Problem) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that tells whether the problem has a bound with other arguments."""
    free = any(part.is_free for group in problem.groups for part in group)

    def works(new: Mapping[str, Any]) -> bool:
        other = replace(problem, **new)
        if other.releases > 1 and not adds_up(other.noise):
            return False
        parts = [part for group in other.groups for part in group]
        rows = max(len(part.members) for part in parts)
        if free and rows > 1 and other.notion.is_pure and not has_pure_loss(other.noise, rows):
            return False  # there is a loss, and it is infinite
        # sets around continuous priors are draws, which are held against their exact losses
        if free and problem.sets and not all(known(other, p, other.notion) for p in parts):
            return False
        return not any(map(reason_of, Bounds(other, other.notion).whole()))

    return works


def check_mechanism(settings: Settings) -> None:
    """Refuse what a channel, a swap or known columns do not go with, before any work.

    Raises
    ------
    ValueError
        Naming the parameter, its value and the way out.
    """
    if settings.swap is not None:
        for reason in _reasons_against_swap(settings):
            raise ValueError(f'noise="swap" {reason}.')
        return
    if settings.channel is None:
        if settings.known is not None and (_has_mixtures(settings) or settings.confidence):
            raise ValueError(
                f"known={quoted(settings.known)} needs laws of rows that are counted, given or a "
                'classifier\'s, and no Gaussian priors or confidence sets; use prior="empirical" '
                "with adversaries=None, or leave known out."
            )
        return
    for reason in _reasons(settings):
        raise ValueError(f'noise="optimal" {reason}.')
    epsilon_of_one(settings)


def epsilon_of_one(settings: Settings) -> float:
    r"""Return the budget of one draw, where all ``releases`` together have the whole one.

    .. math:: \varepsilon_1 = \varepsilon - (j - 1) \lambda

    Raises
    ------
    ValueError
        If releases are planned without a floor, or the floor leaves nothing.
    """
    epsilon, releases = settings.notion.epsilon, settings.releases
    if releases == 1:
        return epsilon
    floor = settings.channel.floor if settings.channel is not None else None
    if floor is None:
        raise ValueError(
            f'releases={releases} needs a floor with noise="optimal", for a second draw from a '
            "channel without one may tell everything; pass "
            f"noise=OptimalChannel(floor={epsilon / (2 * releases):.3g}), or releases=1."
        )
    left = epsilon - (releases - 1) * floor * _SPARE
    if left <= 0.0:
        raise ValueError(
            f"floor={floor:g} leaves nothing of epsilon={epsilon:g} for the first of "
            f"releases={releases}: epsilon - (releases - 1) floor is {left:.3g}; choose a floor "
            f"below {epsilon / (releases - 1):.3g}, or fewer releases."
        )
    return left


def _reasons(settings: Settings) -> Iterator[str]:
    """Yield what does not go with a channel, each with the way out."""
    alpha = settings.notion.to_dict().get("alpha")
    if alpha is not None:
        yield (
            f"has no Renyi promise, got alpha={alpha:g}; leave alpha out (delta= "
            'is possible), or use noise="laplace" or "gaussian"'
        )
    if _has_mixtures(settings):
        yield (
            "releases rows that fit saw, and Gaussian and mixture priors are laws of all numbers; "
            'use prior="empirical" with n_bins, or noise="laplace"'
        )
    if settings.strategy is not exact:
        yield (
            f"is found for the exact loss, got strategy={quoted(settings.strategy_name)}; leave "
            'strategy out, or use noise="laplace" for the published strategies'
        )
    if settings.weights == "optimal":
        yield (
            'weighs changes in units that you set, got weights="optimal"; leave weights out for '
            "standard deviations, or pass {column: unit of change}"
        )
    if settings.dependence != "joint":
        yield (
            "protects the released row as a whole, got "
            f"dependence={quoted(settings.dependence)}; leave dependence out, or use "
            'noise="laplace"'
        )
    if settings.output != "native":
        yield (
            f"releases rows and no noise, got output={quoted(settings.output)}; leave output out, "
            'or use noise="laplace"'
        )
    if settings.missing == "propagate":
        yield (
            'releases whole rows, got missing="propagate"; fill missing values, or pass '
            'missing="category", which makes them a value of categories and booleans'
        )
    if settings.confidence is not None:
        yield (
            f"is found for one law of each secret, got adversaries={quoted(settings.confidence)}; "
            'use noise="swap", whose certificate covers sampling error, or leave it out'
        )
    if settings.grouped is not None:
        yield (
            "is for readers of one row, and "
            f"groups={quoted(settings.grouped.column)} is about all rows of a group; use "
            'noise="laplace", or leave groups out'
        )
    for argument in settings.models:
        yield (
            "is found for laws that are counted or given, and "
            f'{argument} is a classifier, which knows wide rows; use noise="swap", or leave '
            f"{argument} out"
        )


def _reasons_against_swap(settings: Settings) -> Iterator[str]:
    """Yield what does not go with a swap, each with the way out."""
    if settings.notion.to_dict().get("alpha") is not None:
        yield "has no Renyi promise; leave alpha out (delta= is possible)"
    if settings.releases != 1:
        yield (
            f"releases rows once, got releases={settings.releases}: two swaps of the same people "
            'can tell everything; release once, or use noise="laplace"'
        )
    if settings.grouped is not None:
        yield from _reasons_against_groups(settings)
    values = settings.swap is not None and settings.swap.cells == "values"
    given = [settings.prior, settings.fit, *settings.adversaries]
    if any(each is not None and not is_model(each) for each in given if each != COUNTED):
        yield (
            "counts what cells of rows tell, and a classifier or the default cuts rows into cells; "
            "pass a classifier as prior= and in adversaries=, or leave them out"
        )
    if values and settings.models:
        yield 'with cells="values" has no classifier; leave prior and adversaries out'
    if values and settings.swap is not None and settings.swap.within == "shuffle":
        yield 'with cells="values" has nothing to shuffle within cells; leave within out'
    for name, usual, way in (
        ("n_bins", None, "it releases the rows as they are"),
        ("output", "native", "it releases the rows as they are"),
        ("strategy", "exact", "its loss is exact"),
        ("dependence", "joint", "it protects the row as a whole"),
    ):
        own = settings.strategy_name if name == "strategy" else getattr(settings, name)
        if own != usual:
            yield f"does not go with {name}={quoted(own)}: {way}; leave {name} out"
    if settings.weights == "optimal":
        yield 'weighs changes in units that you set, got weights="optimal"; leave weights out'


def _reasons_against_groups(settings: Settings) -> Iterator[str]:
    """Yield what does not go with a swap of whole groups."""
    assert settings.swap is not None
    if settings.swap.donors is not None:
        yield (
            "with donors releases rows one by one, and a bound for one row says nothing about a "
            "group; leave donors out, or groups"
        )
    if settings.swap.cost is not None:
        yield "with cost= is asked about single rows, and groups= are wider; leave cost out"


def _has_mixtures(settings: Settings) -> bool:
    """Return whether some prior is a law of all numbers."""
    return settings.fit is not None or any(
        isinstance(prior, GaussianMixture)
        for given in (settings.prior, *settings.adversaries)
        for prior in given_priors(given)
    )
