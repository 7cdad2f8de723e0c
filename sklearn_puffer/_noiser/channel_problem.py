"""What is asked of a channel: whom it protects, what changes cost, and which columns stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_puffer._base import Array, FloatArray, listed
from sklearn_puffer._channels import ChannelProblem, CostFunction, Costs, Family
from sklearn_puffer._noiser.adversaries import Known
from sklearn_puffer._noiser.channel_cells import CountedCells, checked_costs, masses_over
from sklearn_puffer._noiser.conditional_priors import Adversary
from sklearn_puffer._noiser.known_values import told_value, too_telling
from sklearn_puffer._noiser.read_table import TableRead
from sklearn_puffer._noiser.settings import epsilon_of_one
from sklearn_puffer._tables import Column, Name, Secret

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
        costs=_costs_of(read, known.spreads, counted.cells.values(read.columns)),
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
        for whole in _asked_of(read, counted, adversary, k)
        for each in with_known_cells(whole, read.known, read.columns, counted.cells.codes)
    ]


def _asked_of(
    read: TableRead, counted: CountedCells, adversary: Adversary, number: int
) -> Iterator[Asked]:
    """Yield the laws of an adversary who knows nothing else about a row."""
    for secret in read.secrets:
        [laws] = zip(*(law.values() for law in adversary[secret.name].values()), strict=True)
        masses = np.stack([masses_over(counted.cells, law, read.columns) for law in laws])
        family = Family(masses, pairs=_secret_pairs(read, secret))
        yield Asked(family, number, secret.name, [*secret.labels])


def _secret_pairs(read: TableRead, secret: Secret) -> Array:
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
    return Family(masses[some], cells, pairs), whole.adversary, whole.sensitive, labels


def _places(read: TableRead, counted: CountedCells) -> Array | None:
    """Return the place of each cell: the values of all columns that may be known."""
    members = sorted({k for each in read.known for k in each})
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


def _costs_of(read: TableRead, spreads: FloatArray, values: FloatArray) -> CostFunction:
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
    alone = [(_lost_alone(counted, asked, problem, each), each) for each in read.known]
    lost, members = max(alone)
    if lost <= budget * (1.0 - _CLOSE):
        lost, members = told, sorted({k for each in read.known for k in each})
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
