"""What is asked of a channel: whom it protects, what changes cost, and which columns stay.

What an optimal channel does not go with, refused by name and before any work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray, IntArray, listed, quoted
from sklearn_puffer._channels import ChannelProblem, CostFunction, Costs, Family
from sklearn_puffer._noiser.adversaries import Known
from sklearn_puffer._noiser.channel_cells import CountedCells, masses_over
from sklearn_puffer._noiser.conditional_priors import Adversary, given_priors
from sklearn_puffer._noiser.known_values import known_columns, told_value, too_telling
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._noiser.settings import COUNTED, Settings, is_model
from sklearn_puffer._tables import Column, Name, Secret
from sklearn_puffer.calibration import exact
from sklearn_puffer.priors import GaussianMixture

_MOST_EPSILON = 500.0  # what is beyond has no exponential
_CLOSE = 1e-9  # of the budget: what no rounding could do with


@dataclass(frozen=True, eq=False)
class Asked:
    """A family of laws, and what it is called.

    Attributes
    ----------
    family : Family
    adversary : int
        0 for the fitted prior, k for the k-th further one.
    sensitive : str or int
    labels : list
        The secret of each law.
    known : tuple of names
        Columns whose values the adversary knows; none for who knows nothing.
    values : tuple
        Their values.
    """

    family: Family
    adversary: int
    sensitive: Name
    labels: list[Any]
    known: tuple[Name, ...] = ()
    values: tuple[Any, ...] = ()

    @property
    def pairs(self) -> Array:
        """The protected pairs, as positions among the laws."""
        assert self.family.pairs is not None
        return self.family.pairs


@dataclass(frozen=True, eq=False)
class GivenCosts:
    """The caller's own cost of changes, looked at before it is trusted."""

    values: FloatArray
    cost: Any

    def between(self, xs: Array, ys: Array) -> FloatArray:
        """Return c(x, y) for all of both, shape (len(xs), len(ys))."""
        found = self.cost.between(self.values[xs], self.values[ys])
        return checked_costs(found, (len(xs), len(ys)), "between")

    def along(self, xs: Array, ys: Array) -> FloatArray:
        """Return c(x, y) for each x and the y beside it, shape (len(xs),)."""
        found = self.cost.along(self.values[xs], self.values[ys])
        return checked_costs(found, (len(xs),), "along")


def checked_costs(found: Any, shape: tuple[int, ...], method: str) -> FloatArray:
    """Return what a cost of the caller's own came back with, or refuse it."""
    costs = np.asarray(found, dtype=float)
    if costs.shape != shape or not (np.isfinite(costs) & (costs >= 0.0)).all():
        raise ValueError(
            f"cost.{method} must return finite costs that are not negative, of shape {shape}, got "
            f"shape {costs.shape} and {costs.min(initial=0.0):g} to {costs.max(initial=0.0):g}; "
            "correct it, or leave cost out for distances in units of change."
        )
    return costs


def channel_problem(
    read: TableRead, known: Known, counted: CountedCells, asked: Sequence[Asked]
) -> ChannelProblem:
    """Return the problem of the channel that a table needs.

    Raises
    ------
    ValueError
        If columns that stay as they are tell more than the budget by themselves.
    """
    settings = read.settings
    assert settings.channel is not None
    places = _places(read, counted)
    problem = ChannelProblem(
        families=[each.family for each in asked],
        weights=_weights(read, counted, asked),
        costs=costs_of(read, known.spreads, counted.cells.values(read.columns)),
        epsilon=min(epsilon_of_one(settings), _MOST_EPSILON),
        delta=settings.notion.delta,
        floor=settings.channel.floor,
        places=places,
    )
    if places is not None:
        _check_places(read, counted, asked, problem)
    return problem


def all_asked(read: TableRead, known: Known, counted: CountedCells) -> list[Asked]:
    """Return every family of laws that must not be told apart."""
    return [
        each
        for k, adversary in enumerate(known.adversaries)
        for whole in asked_of(read, counted, adversary, k)
        for each in with_known_cells(whole, known_columns(read), read.columns, counted.cells.codes)
    ]


def asked_of(
    read: TableRead, counted: CountedCells, adversary: Adversary, number: int
) -> Iterator[Asked]:
    """Yield the laws of an adversary who knows nothing else about a row."""
    for secret in read.secrets:
        [laws] = zip(*(law.values() for law in adversary[secret.name].values()), strict=True)
        masses = np.stack([masses_over(counted.cells, law, read.columns) for law in laws])
        family = _family(masses, secret_pairs(read, secret))
        yield Asked(family, number, secret.name, [*secret.labels])


def _family(masses: IntArray, pairs: Array, cells: Array | None = None) -> Family:
    return Family(masses, cells, pairs)


def secret_pairs(read: TableRead, secret: Secret) -> Array:
    """Return the protected pairs of a sensitive column as positions among its values."""
    named = [[secret.find(label) for label in pair] for pair in read.pairs[secret.name]]
    return np.array(named, dtype=np.intp)


def with_known_cells(
    whole: Asked, known: Sequence[Sequence[int]], columns: Sequence[Column], codes: Array
) -> Iterator[Asked]:
    """Yield laws of cells, and the laws given each value of what may be known."""
    yield whole
    for members in known:
        values, groups = np.unique(codes[:, members], axis=0, return_inverse=True)
        order = np.argsort(groups.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(groups.ravel(), minlength=len(values)))
        for code, cells in zip(values, np.split(order, ends[:-1]), strict=True):
            own = [columns[k] for k in members]
            names, told = tuple(column.name for column in own), tuple(map(told_value, own, code))
            given = _conditional(whole, cells)
            if given is not None:
                yield Asked(*given, names, told)


def _conditional(whole: Asked, cells: Array) -> tuple[Family, int, Name, list[Any]] | None:
    """Return the laws over some cells of the secrets that occur there, if two of a pair do."""
    masses = whole.family.masses[:, cells]
    some = np.flatnonzero(masses.sum(axis=1) > 0)
    places = np.full(len(masses), -1)
    places[some] = np.arange(len(some))
    pairs = places[whole.pairs]
    pairs = pairs[(pairs >= 0).all(axis=1)]
    if not len(pairs) or len(cells) == 1:
        return None
    labels = [whole.labels[k] for k in some]
    return _family(masses[some], pairs, cells), whole.adversary, whole.sensitive, labels


def _places(read: TableRead, counted: CountedCells) -> Array | None:
    """Return the place of each cell: the values of all columns that may be known."""
    members = sorted({k for each in known_columns(read) for k in each})
    if not members:
        return None
    codes = counted.cells.codes[:, members]
    places: Array = np.unique(codes, axis=0, return_inverse=True)[1].ravel()
    return places


def _weights(read: TableRead, counted: CountedCells, asked: Sequence[Asked]) -> FloatArray:
    """Return the law of rows that the cost is averaged over.

    Rows that a prior knows and `fit` has not seen must not be moved as if they cost nothing: they
    have the weight of the priors, for a half.
    """
    whole = [each for each in asked if not each.known]
    mean = np.mean([each.family.laws.mean(axis=0) for each in whole], axis=0)
    own = [each for each in whole if each.adversary == 0]
    rows: FloatArray = counted.rows / counted.rows.sum()
    if read.settings.channel is not None and read.settings.channel.balance == "secrets":
        rows = np.mean([each.family.laws.mean(axis=0) for each in own], axis=0)
    weights: FloatArray = rows.copy() if rows.all() else 0.5 * (rows + mean)
    weights /= weights.sum()
    return weights


def costs_of(read: TableRead, spreads: FloatArray, values: FloatArray) -> CostFunction:
    """Return what changes between cells cost."""
    settings = read.settings
    if settings.channel is not None and settings.channel.cost is not None:
        return GivenCosts(values, settings.channel.cost)
    return Costs(values, read.unordered, units_of_change(read, spreads))


def units_of_change(read: TableRead, spreads: FloatArray) -> FloatArray:
    """Return the unit of change of each column: a large one makes its changes cheap."""
    given = read.settings.weights if isinstance(read.settings.weights, dict) else {}
    strange = [name for name in given if name not in read.public]
    if strange:
        raise ValueError(
            f"weights names {strange[0]!r}, which is not public; the public columns are "
            f"{listed(read.public, 10)}."
        )
    units = []
    for column, spread in zip(read.columns, spreads.tolist(), strict=True):
        usual = 1.0 if column.unordered or not spread > 0.0 else spread
        units.append(float(given.get(column.name, usual)))
    return np.array(units)


def _check_places(
    read: TableRead, counted: CountedCells, asked: Sequence[Asked], problem: ChannelProblem
) -> None:
    """Refuse where columns that stay unchanged tell more than the budget by themselves."""
    assert problem.places is not None
    told = max((_lost_between(each, problem.places, problem) for each in asked), default=0.0)
    budget = problem.delta if problem.delta > 0.0 else problem.epsilon
    if told <= budget * (1.0 - _CLOSE):
        return
    alone = [(_lost_alone(counted, asked, problem, each), each) for each in known_columns(read)]
    lost, members = max(alone)
    if lost <= budget * (1.0 - _CLOSE):
        lost, members = told, sorted({k for each in known_columns(read) for k in each})
    raise ValueError(too_telling(read, [read.public[k] for k in members], lost))


def _lost_alone(
    counted: CountedCells, asked: Sequence[Asked], problem: ChannelProblem, members: list[int]
) -> float:
    """Return what some columns tell by themselves to who knows nothing else."""
    codes = counted.cells.codes[:, members]
    places = np.unique(codes, axis=0, return_inverse=True)[1].ravel()
    return max(_lost_between(each, places, problem) for each in asked if not each.known)


def _lost_between(asked: Asked, places: Array, problem: ChannelProblem) -> float:
    """Return what the place of a row tells the adversary of a family, at worst."""
    own = places if asked.family.cells is None else places[asked.family.cells]
    here = np.unique(own, return_inverse=True)[1].ravel()
    laws = np.stack([np.bincount(here, law) for law in asked.family.laws])
    p, q = laws[asked.family.ordered_pairs].transpose(1, 0, 2)
    if problem.delta > 0.0:
        return float(np.maximum(p - np.exp(problem.epsilon) * q, 0.0).sum(axis=1).max())
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(p > 0.0, np.log(p) - np.log(q), 0.0)))


_SPARE = 1.0 + 1e-6  # for the floor as it is recomputed


def check_channel(settings: Settings) -> None:
    """Refuse what a channel does not go with, and what known columns do not go with.

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
        if settings.known is not None and (has_mixtures(settings) or settings.confidence):
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
    if has_mixtures(settings):
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
        yield (
            "exchanges rows together, so a bound for one row says nothing about a group of "
            f"groups={quoted(settings.grouped.column)}; use "
            'noise="laplace", or leave groups out'
        )
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


def has_mixtures(settings: Settings) -> bool:
    """Return whether some prior is a law of all numbers."""
    return settings.fit is not None or any(
        isinstance(prior, GaussianMixture)
        for given in (settings.prior, *settings.adversaries)
        for prior in given_priors(given)
    )
