"""The settings that a plan compares: a list that is made from what the columns are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sklearn_puffer._base import listed, quoted
from sklearn_puffer._signoff.columns import ColumnFacts
from sklearn_puffer._signoff.promises import CHANNEL_TRUSTS, promise_of, trusts_of
from sklearn_puffer._tables import Name
from sklearn_puffer.accounting import MAX_CELLS
from sklearn_puffer.noise import OPTIMAL, optimal_channel

FEWEST, COARSE, FINE = 3, 5, 10
_FEW_VALUES = 200  # of a number: with more of them, tables as they are get no candidate
_WORDS = {
    "laplace": "Laplace noise",
    "gaussian": "Gaussian noise",
    "cauchy": "Cauchy noise",
    OPTIMAL: "optimal channel",
}


@dataclass(frozen=True)
class Candidate:
    """One setting that is tried.

    Attributes
    ----------
    epsilon : float
    label : str
        What is tried, in words; the same for every budget.
    promise : str
        What is promised: settings are compared with those that promise the same.
    params : mapping
        Of `PufferfishNoiser`, but ``epsilon``.
    left_out : tuple of names
        Proposed columns that are not released, each of which counts as a constant.
    merged : mapping
        {sensitive column: {value: what it becomes}}.
    cost : int
        What comes first is cheaper.
    """

    epsilon: float
    label: str
    promise: str
    params: Mapping[str, Any]
    left_out: tuple[Name, ...] = ()
    merged: Mapping[Name, Mapping[Any, str]] = field(default_factory=dict)
    cost: int = 0

    @property
    def is_channel(self) -> bool:
        """Whether a channel is in the place of noise."""
        return _is_channel(self.params)

    @property
    def trusts(self) -> str:
        """What the promise rests on besides, in sentences; empty for the plain one."""
        return " ".join([*trusts_of(self.promise), *[CHANNEL_TRUSTS] * self.is_channel])


@dataclass(frozen=True)
class Scope:
    """What all candidates have in common.

    Attributes
    ----------
    sensitive : tuple of names
    columns : tuple of ColumnFacts
        Those that are proposed for the release.
    epsilons : tuple of float
    fixed : mapping
        Settings that the caller gave.
    secrets : mapping
        {sensitive column: its values, the most frequent one first}.
    n_rows : int
        Rows that settings are fitted to.
    gaps_in_secrets : bool, default=False
        Whether a sensitive column has missing values.
    """

    sensitive: tuple[Name, ...]
    columns: tuple[ColumnFacts, ...]
    epsilons: tuple[float, ...]
    fixed: Mapping[str, Any]
    secrets: Mapping[Name, Sequence[Any]]
    n_rows: int
    gaps_in_secrets: bool = False

    @property
    def names(self) -> tuple[Name, ...]:
        """The proposed columns."""
        return tuple(column.name for column in self.columns)

    def cells(self, bins: int | None) -> float:
        """Return how many cells the columns span together, with so many bins for numbers."""
        return math.prod(float(cells_of(column, bins)) for column in self.columns)

    @property
    def promise(self) -> str:
        """What is promised where nothing but the caller's own settings changes it."""
        return promise_of(self.fixed, fewer_pairs=False, merged=False)

    @property
    def wide(self) -> bool:
        """Whether that is more than the exact loss is computed on, with few bins."""
        return self.cells(COARSE) > MAX_CELLS


def cells_of(column: ColumnFacts, bins: int | None) -> int:
    """Return how many values of a column are told apart."""
    return min(column.distinct, bins) if bins and column.numeric else max(column.distinct, 1)


def candidates_of(scope: Scope) -> list[Candidate]:
    """Return what is tried, the cheap first, none twice, and none against what the caller fixed."""
    found: dict[tuple[float, str, str], Candidate] = {}
    for setting in _settings(scope):
        if _is_settled(scope.fixed, setting.params):
            continue
        for epsilon in scope.epsilons:
            own = _candidate(scope, epsilon, setting)
            found.setdefault((epsilon, own.label, own.promise), own)
    return sorted(found.values(), key=lambda each: each.cost)


def without(scope: Scope, column: Name) -> list[Candidate]:
    """Return what is tried where a column that asks for most of the noise is left out."""
    grouped = not isinstance(scope.fixed.get("dependence", ""), str)
    if len(scope.columns) < 2 or "known" in scope.fixed or grouped:
        return []
    settings = [_Setting(5, f"{_noise_word(scope)}", {}, _bins(scope)[0], (column,))]
    if "noise" not in scope.fixed:
        settings.append(
            _Setting(5, _WORDS[OPTIMAL], {"noise": OPTIMAL}, _bins(scope)[0], (column,))
        )
    return [_candidate(scope, epsilon, each) for each in settings for epsilon in scope.epsilons]


@dataclass(frozen=True)
class _Setting:
    """What is tried, before the budget and what the caller fixed."""

    cost: int
    label: str
    params: Mapping[str, Any]
    bins: Any = None
    left_out: tuple[Name, ...] = ()
    merged: Mapping[Name, Mapping[Any, str]] = field(default_factory=dict)


def _settings(scope: Scope) -> Iterator[_Setting]:
    """Yield what is tried; a lower cost comes first."""
    noise, channel = _noise_word(scope), _WORDS[OPTIMAL]
    first, *other = _bins(scope)
    late = 4 if scope.wide else 1  # noise on rows of many columns rests on bounds, and is slow
    if len(scope.columns) > 1:
        yield _Setting(0, f"{noise}, each column apart", {"dependence": "independent"}, first)
    yield _Setting(late, noise, {}, first)
    yield _Setting(2, channel, {"noise": OPTIMAL}, first)
    yield _Setting(late + 2, f"{noise}, remapped", {"output": "remapped"}, first)
    for bins in other if not scope.wide else ():
        yield _Setting(3, noise, {}, bins)
        yield _Setting(4, f"{noise}, remapped", {"output": "remapped"}, bins)
    for bins in other:
        yield _Setting(4, channel, {"noise": OPTIMAL}, bins)
    yield _Setting(4, f"{noise}, confidence set", {"adversaries": "confidence"}, first)
    yield from _channels_in_few_bins(scope, channel, first)
    yield from _fewer_columns_together(scope, noise, first)
    yield from _fewer_secrets(scope, channel, first)
    for name in ("cauchy", "gaussian"):
        yield _Setting(7, _WORDS[name], {"noise": name}, first)
    for name in ("relaxed", "wasserstein", "sensitivity"):
        yield _Setting(8, f"{noise}, strategy {name}", {"strategy": name}, first)


def _channels_in_few_bins(scope: Scope, channel: str, bins: Any) -> Iterator[_Setting]:
    """Yield channels that move fewer rows since there are fewer cells."""
    if bins == COARSE and "n_bins" not in scope.fixed:
        yield _Setting(3, channel, {"noise": OPTIMAL}, FEWEST)


def _fewer_columns_together(scope: Scope, noise: str, bins: Any) -> Iterator[_Setting]:
    """Yield groups of columns, each of which the exact loss is computed on."""
    groups: list[list[ColumnFacts]] = [[]]
    for column in scope.columns:
        together = math.prod(cells_of(each, COARSE) for each in [*groups[-1], column])
        if together > MAX_CELLS and groups[-1]:
            groups.append([])
        groups[-1].append(column)
    if len(groups) > 1:
        named = [[column.name for column in group] for group in groups]
        label = f"{noise}, {len(groups)} column groups"
        yield _Setting(4, label, {"dependence": named}, bins)


def _fewer_secrets(scope: Scope, channel: str, bins: Any) -> Iterator[_Setting]:
    """Yield the most frequent value against each other one, and against all others as one."""
    if all(len(values) < 3 for values in scope.secrets.values()) or "secret_pairs" in scope.fixed:
        return
    pairs = {n: [(values[0], other) for other in values[1:]] for n, values in scope.secrets.items()}
    merged = {n: _merged(values) for n, values in scope.secrets.items() if len(values) > 2}
    params = {"noise": OPTIMAL}
    most = " and ".join(quoted(values[0]) for n, values in scope.secrets.items() if n in merged)
    label = f"{channel}, {most} against each"
    yield _Setting(5, label, {**params, "secret_pairs": pairs}, bins)
    if not scope.gaps_in_secrets:  # which would stay missing, and a secret of their own
        yield _Setting(5, f"{channel}, {most} against the rest", params, bins, merged=merged)


def _merged(values: Sequence[Any]) -> dict[Any, str]:
    """Return what all values but the first become: one that is none of them."""
    rest, taken = f"not {values[0]}", {str(value) for value in values}
    while rest in taken:
        rest = f"not {rest}"
    return dict.fromkeys(values[1:], rest)


def _candidate(scope: Scope, epsilon: float, setting: _Setting) -> Candidate:
    """Return a setting with the budget, and what the caller fixed."""
    own = {**setting.params, **scope.fixed}
    own.setdefault("n_bins", setting.bins)
    label, left_out = setting.label, setting.left_out
    gaps = _gaps(scope) if _is_channel(own) and own.get("missing") == "propagate" else ()
    if gaps and len({*gaps, *left_out}) < len(scope.columns):  # a channel releases whole rows
        own["missing"], left_out = "category", (*left_out, *(n for n in gaps if n not in left_out))
    kept = [name for name in scope.names if name not in left_out]
    own = _trimmed(own, left_out) | {"sensitive": list(scope.sensitive), "public": kept}
    label += _in_words(own["n_bins"])
    label += f", without {listed(left_out, 3)}" if left_out else ""
    pairs = setting.params.get("secret_pairs")
    promise = promise_of(own, fewer_pairs=pairs is not None, merged=bool(setting.merged))
    return Candidate(epsilon, label, promise, own, left_out, setting.merged, setting.cost)


def _trimmed(params: dict[str, Any], left_out: Sequence[Name]) -> dict[str, Any]:
    """Return the settings without those of columns that are not released."""
    return {
        key: {n: v for n, v in value.items() if n not in left_out}
        if isinstance(value, Mapping) and key in ("n_bins", "categories", "unknown", "weights")
        else value
        for key, value in params.items()
    }


def _gaps(scope: Scope) -> tuple[Name, ...]:
    """Return the numbers that are missing here and there, which no channel leaves so."""
    return tuple(column.name for column in scope.columns if column.numeric and column.missing)


def _bins(scope: Scope) -> list[Any]:
    """Return which bins are worth a try, what is cheap first."""
    if "n_bins" in scope.fixed:
        return [scope.fixed["n_bins"]]
    most = max((column.distinct for column in scope.columns if column.numeric), default=0)
    bins: list[Any] = [n_bins for n_bins in (COARSE, FINE) if most > n_bins]
    few = most <= _FEW_VALUES and not any(column.hardly_repeats for column in scope.columns)
    return [*bins, None] if few or not bins else bins


def _in_words(bins: Any) -> str:
    if bins is None:
        return ""
    return f", {bins} bins" if isinstance(bins, int) else ", bins as given"


def _noise_word(scope: Scope) -> str:
    noise = scope.fixed.get("noise", "laplace")
    if optimal_channel(noise) is not None:
        return _WORDS[OPTIMAL]
    return _WORDS.get(noise, quoted(noise)) if isinstance(noise, str) else quoted(noise)


def _is_channel(params: Mapping[str, Any]) -> bool:
    return optimal_channel(params.get("noise")) is not None


def _is_settled(fixed: Mapping[str, Any], tried: Mapping[str, Any]) -> bool:
    """Return whether a setting is against what the caller fixed, or is a plain one by it."""
    noise = "noise" in fixed and "noise" in tried and _differs(fixed["noise"], tried["noise"])
    return noise or any(key in fixed for key in tried if key != "noise")


def _differs(fixed: Any, tried: Any) -> bool:
    """Return whether a setting is not the one that the caller fixed; odd objects always differ."""
    if None not in (optimal_channel(fixed), optimal_channel(tried)):
        return False
    return fixed is not tried and not (isinstance(fixed, str | int | float) and fixed == tried)
