"""Why a problem has no bound, about which secrets and columns, and what was tried and would do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sklearn_puffer._base import listed, quoted
from sklearn_puffer._noiser.conditional_priors import Group, Part
from sklearn_puffer._noiser.problems import Bounds, Problem, known
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
from sklearn_puffer.calibration import strategy_changes


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
