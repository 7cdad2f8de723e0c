"""Rows some of whose columns stay as they are: the laws of the other columns at each place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._noise import MixedNoise, Mixing, Unchanged, without_mixings
from sklearn_puffer.noise import Noise
from sklearn_puffer.priors import Discrete, PriorPair

_NOTHING = Discrete([0.0], [1.0])  # the law where no other column is left


class Place(NamedTuple):
    """Values of the columns that stay: what each prior has there, and its law of the others.

    Attributes
    ----------
    shares : tuple of float
        One a prior, each right to one ulp.
    laws : tuple of Discrete or None
        None where a prior has no mass.
    """

    shares: tuple[float, ...]
    laws: tuple[Discrete | None, ...]


def kept_axes(mixings: Sequence[Mixing | None]) -> list[int]:
    """Return the axes that are released as they are."""
    return [k for k, mixing in enumerate(mixings) if isinstance(mixing, Unchanged)]


def on_others(noise: Noise, n_axes: int) -> Noise:
    """Return the noise of the axes that do not stay."""
    rest = _others(n_axes, kept_axes(noise.mixings))
    bare = without_mixings(noise)
    if not rest:
        return bare.with_scale(1.0)
    bare = bare.with_scale(tuple(bare.axis_scales(n_axes)[rest].tolist()))
    mixings = tuple(noise.mixings[k] for k in rest)
    return MixedNoise(bare, mixings) if any(mixings) else bare


def places_of(priors: Sequence[Discrete], axes: Sequence[int]) -> list[Place]:
    """Return every place where a prior has mass, in the order of the values."""
    some = [np.asarray(prior.counts > 0, dtype=bool) for prior in priors]
    values = [prior.rows[own][:, axes] for prior, own in zip(priors, some, strict=True)]
    distinct, owners = np.unique(np.concatenate(values), axis=0, return_inverse=True)
    owned = np.split(owners.ravel(), np.cumsum([len(own) for own in values])[:-1])
    found = [
        _split(prior, own, at, axes, len(distinct))
        for prior, own, at in zip(priors, some, owned, strict=True)
    ]
    return [Place(*zip(*of_place, strict=True)) for of_place in zip(*found, strict=True)]


def pairs_at_places(
    pairs: Sequence[tuple[Discrete, Discrete]], axes: Sequence[int]
) -> list[PriorPair]:
    """Return the laws of the other axes at every place that both priors of a pair have."""
    return [
        PriorPair(*place.laws)
        for pair in pairs
        for place in places_of(pair, axes)
        if None not in place.laws
    ]


def _split(
    prior: Discrete, some: Array, places: Array, axes: Sequence[int], n_places: int
) -> list[tuple[float, Discrete | None]]:
    """Return the share of a prior at each place, and its law of the other axes there."""
    order = np.argsort(places, kind="stable")
    ends = np.cumsum(np.bincount(places, minlength=n_places))[:-1]
    rows, counts = prior.rows[some], prior.counts[some]
    return [_law(prior, rows[own], counts[own], axes) for own in np.split(order, ends)]


def _law(
    prior: Discrete, rows: FloatArray, counts: Array, axes: Sequence[int]
) -> tuple[float, Discrete | None]:
    if not len(rows):
        return 0.0, None
    rest = _others(prior.n_axes, axes)
    share = sum(map(int, counts)) / prior.total
    return share, Discrete.from_counts(rows[:, rest], counts) if rest else _NOTHING


def _others(n_axes: int, axes: Sequence[int]) -> list[int]:
    return [k for k in range(n_axes) if k not in axes]
