"""From codes to priors: the distributions of the fitted adversary, and of further ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from sklearn_puffer._base import Array, FloatArray
from sklearn_puffer._codes import CodeArray, Coded, Column, CountedRows, Pair, Reader, Secret, count
from sklearn_puffer._noise import to_indices
from sklearn_puffer._tables import Name
from sklearn_puffer._words import listed, quoted
from sklearn_puffer.priors import Discrete, GaussianMixture, Prior, PriorPair, distinct

Members = tuple[int, ...]
Distributions = dict[Members, Any]  # columns that are present -> their joint distribution, a Prior
_MOST_PROPAGATED = 16

Adversary = dict[Name, dict[Any, Distributions]]  # sensitive column -> secret -> distributions
RowValues = Mapping[int, float | None]  # known column -> value, None where it is missing
_Choices = tuple[Adversary, list[list[RowValues]]]


@dataclass(frozen=True, eq=False)
class Part:
    """Columns that are present together, and the pairs of priors, or of confidence sets, over them.

    Attributes
    ----------
    members : tuple of int
        Positions of the public columns.
    pairs : list of PriorPair
        Priors over those columns, or confidence sets.
    owners : ndarray of int of shape (len(pairs),)
        The secret pair each of them belongs to.
    """

    members: Members
    pairs: list[PriorPair]
    owners: Array

    @cached_property
    def is_free(self) -> bool:
        """Whether any number may occur: the priors are continuous."""
        return any(isinstance(prior, GaussianMixture) for prior in self.priors)

    @cached_property
    def priors(self) -> list[Any]:
        """The distinct priors, or sets: many fewer than the pairs they make."""
        return distinct(self.pairs)

    def mapped(self, change: Callable[[Any], Any], members: Members) -> Part:
        """Return the part with each distinct prior changed once."""
        new = {id(prior): change(prior) for prior in self.priors}
        if members == self.members and all(new[id(prior)] is prior for prior in self.priors):
            return self
        pairs = [PriorPair(new[id(p)], new[id(q)]) for p, q in self.pairs]
        return Part(members, pairs, self.owners)

    def rounded(self, grids: FloatArray) -> Part:
        """Return the part with the rows of its discrete priors, or of its sets, on the grid."""
        if self.is_free:
            return self
        steps = grids[list(self.members)]
        return self.mapped(lambda prior: _rounded(prior, steps), self.members)

    def marginal(self, axis: int) -> Part:
        """Return the part of one column alone."""
        return self.mapped(lambda prior: prior.marginal([axis]), (self.members[axis],))


Group = list[Part]  # of columns that are independent of all other groups


def _rounded(prior: Any, steps: FloatArray) -> Any:
    """Return a discrete prior, or a set, on the grid; itself where it lies there."""
    if isinstance(prior, Discrete):
        rows = on_steps(prior.rows, steps)
        return prior if np.array_equal(rows, prior.rows) else prior.moved(rows)
    pairs = zip(prior.axes, steps, strict=True)
    axes = tuple(on_steps(axis[:, None], step[None])[:, 0] for axis, step in pairs)
    return prior if all(map(np.array_equal, axes, prior.axes)) else replace(prior, axes=axes)


def on_steps(rows: FloatArray, steps: FloatArray) -> FloatArray:
    """Round each column of ``rows`` to multiples of its step, halves up; a step of 0 keeps it."""
    columns = zip(rows.T, steps, strict=True)
    rounded = [to_indices(column, step) * step if step else column for column, step in columns]
    return np.stack(rounded, axis=1)


class SecretPair(NamedTuple):
    """Two values of a sensitive column, as one adversary sees them."""

    adversary: int
    sensitive: Name
    secret: Any
    against: Any


def empirical_adversary(
    secrets: Sequence[Secret],
    columns: Sequence[Column],
    readers: Sequence[Reader],
    groups: Sequence[Sequence[int]],
    n_rows: int,
    weights: Array | None,
) -> Adversary:
    """Return the distributions counted from the rows, one for each pattern of missing values."""
    coded = [Coded(r, len(c.atoms)) for r, c in zip(readers, columns, strict=True)]
    patterns = [_Patterns(group, columns, readers) for group in groups]
    axes = [[*group, len(coded) + g] for g, group in enumerate(groups)]
    sources = [*coded, *(Coded(pattern, 1 << len(pattern.propagated)) for pattern in patterns)]
    counts = count([secret.coded for secret in secrets], sources, axes, n_rows, weights)
    adversary: Adversary = {}
    for secret, of_groups in zip(secrets, counts, strict=True):
        distributions: dict[Any, Distributions] = {label: {} for label in secret.labels}
        adversary[secret.name] = distributions
        for pattern, of_secrets in zip(patterns, of_groups, strict=True):
            for label, cells in zip(secret.labels, of_secrets, strict=True):
                distributions[label].update(pattern.distributions(cells))
    return adversary


def weighed_adversary(
    secrets: Sequence[Secret],
    columns: Sequence[Column],
    readers: Sequence[Reader],
    groups: Sequence[Sequence[int]],
    masses: Mapping[Name, Array],
) -> Adversary:
    """Return the distributions in which each row has a mass for every secret.

    ``masses[sensitive]`` has shape (n_secrets, n_rows). Cells without mass are left out.
    """
    adversary: Adversary = {}
    for secret in secrets:
        adversary[secret.name] = {}
        for label, of_rows in zip(secret.labels, masses[secret.name], strict=True):
            everyone = CodeArray(np.zeros(len(of_rows), dtype=np.int8))
            one = [Secret(secret.name, (label,), everyone)]
            of_one = empirical_adversary(one, columns, readers, groups, len(of_rows), of_rows)
            adversary[secret.name] |= of_one[secret.name]
    return adversary


def fitted_adversary(
    counted: Adversary, fit: Any, spreads: Array, columns: Sequence[Column]
) -> Adversary:
    """Return the continuous distributions that ``fit`` learns from the counted ones.

    They are learnt from counts of sorted rows: the order of rows has no influence.
    """
    fitted: Adversary = {}
    for name, of_secrets in counted.items():
        fitted[name] = {label: {} for label in of_secrets}
        for members in sorted({m for distributions in of_secrets.values() for m in distributions}):
            still = [columns[k].name for k in members if not spreads[k] > 0.0]
            if still:
                raise ValueError(
                    f"column {still[0]!r} has a single value, and a Gaussian has no scale for it; "
                    'leave it out of public=, or use prior="empirical".'
                )
            samples = {}
            for label, of in of_secrets.items():
                if members in of:
                    held = of[members].counts > 0
                    samples[label] = of[members].rows[held], of[members].counts[held]
            try:
                priors = fit.fit_all(samples, spreads[list(members)])
            except ValueError as error:
                names = listed([columns[k].name for k in members])
                raise ValueError(f"columns {names}: {error}") from None
            for label, prior in priors.items():
                fitted[name][label][members] = prior
    return fitted


def given_adversary(
    mapping: Any,
    argument: str,
    secrets: Mapping[Name, Sequence[Any]],
    groups: Sequence[Sequence[int]],
    columns: Sequence[Column],
    gaps: Collection[int],
) -> Adversary:
    """Return the priors of a mapping, {secret: prior} or {column: {secret: prior}}.

    In a binned column a prior's value becomes that of its bin, to which the noise is added.
    ``gaps`` are the columns in which values may be missing.

    Raises
    ------
    TypeError, ValueError
        If it is no such mapping, a secret has no prior, a prior's axes are not the columns, or rows
        may be incomplete, for which it has none.
    """
    gone = [columns[k].name for group in groups for k in group if k in gaps and len(group) > 1]
    if gone:
        raise ValueError(
            f"{argument} gives no distribution for rows in which {gone[0]!r} is missing; fit with "
            "its missing values filled, or with the column as a group of its own in dependence=."
        )
    if not isinstance(mapping, Mapping):
        raise TypeError(
            f"{argument} must map every secret to a prior object, got {quoted(mapping)}."
        )
    nested = all(isinstance(value, Mapping) for value in mapping.values())
    by_column = mapping if nested else {next(iter(secrets)): mapping}
    if not nested and len(secrets) > 1:
        raise ValueError(
            f"{argument} must be a mapping {{column: {{secret: prior}}}} when several columns are "
            f"sensitive ({listed(list(secrets))})."
        )
    adversary: Adversary = {}
    for name, labels in secrets.items():
        priors = by_column.get(name, {})
        absent = [label for label in labels if label not in priors]
        if absent:
            raise ValueError(
                f"{argument} has no prior for {quoted(absent[0])} of column {name!r}; "
                f"give one for each of {listed(labels)}."
            )
        adversary[name] = {}
        for label in labels:
            prior = _placed(priors[label], label, argument, columns)
            adversary[name][label] = {
                tuple(group): prior if len(group) == prior.n_axes else prior.marginal(group)
                for group in groups
            }
    return adversary


def given_priors(mapping: Any) -> list[Prior]:
    """Return all prior objects of a mapping, or of a mapping of mappings."""
    values = list(mapping.values()) if isinstance(mapping, Mapping) else []
    nested = [v for value in values if isinstance(value, Mapping) for v in value.values()]
    return [p for p in [*values, *nested] if isinstance(p, Discrete | GaussianMixture)]


def changed(
    adversary: Adversary, change: Callable[[Distributions], Any]
) -> dict[Name, dict[Any, Any]]:
    """Return an adversary with the distributions of each secret changed."""
    return {
        sensitive: {label: change(distributions) for label, distributions in of_secrets.items()}
        for sensitive, of_secrets in adversary.items()
    }


def make_groups(
    adversaries: Sequence[Adversary],
    pairs: Mapping[Name, Sequence[Pair]],
    groups: Sequence[Sequence[int]],
) -> tuple[list[SecretPair], list[Group]]:
    """Return every secret pair of every adversary, and for each group of columns its parts."""
    secret_pairs = [
        SecretPair(k, name, a, b)
        for k in range(len(adversaries))
        for name, of_column in pairs.items()
        for a, b in of_column
    ]
    return secret_pairs, [parts_of(adversaries, secret_pairs, set(group)) for group in groups]


def parts_of(
    adversaries: Sequence[Adversary],
    secret_pairs: Sequence[tuple[int, Name, Any, Any]],
    group: set[int],
) -> Group:
    """Return the parts of a group of columns: the pairs of priors over each set of its columns."""
    by_members: dict[Members, tuple[list[PriorPair], list[int]]] = {}
    within = [
        changed(adversary, lambda of: {m: of[m] for m in of if group.issuperset(m)})
        for adversary in adversaries
    ]
    for owner, (adversary, sensitive, secret, against) in enumerate(secret_pairs):
        distributions = within[adversary][sensitive]
        p, q = distributions[secret], distributions[against]
        for members in p:
            if members in q:
                priors, owners = by_members.setdefault(members, ([], []))
                priors.append(PriorPair(p[members], q[members]))
                owners.append(owner)
    return [Part(m, priors, np.array(owners)) for m, (priors, owners) in sorted(by_members.items())]


def choices_of(
    adversaries: Sequence[Adversary],
    known: Sequence[Sequence[int]],
    groups: Sequence[Sequence[int]],
) -> list[_Choices]:
    """Return the values that each adversary may know of each set of known columns, by group."""
    choices = []
    for members in known:
        inside = [([k for k in members if k in group], group) for group in groups]
        for adversary in adversaries:
            values_of = [_values(adversary, columns, group) for columns, group in inside if columns]
            choices.append((adversary, values_of))
    return choices


def who_know(choices: Sequence[_Choices], groups: Sequence[Sequence[int]]) -> list[Adversary]:
    """Return the adversaries with side information, one for each combination of its values.

    A secret that does not occur with a value has no distribution there: the guarantee is about
    possible secrets. Of columns known together some may be missing; that they are is then known.
    Values in groups that are taken as independent occur in all combinations.
    """
    known_by = [
        (adversary, {k: v for of_group in values for k, v in of_group.items()})
        for adversary, values_of in choices
        for values in product(*values_of)
    ]
    return [
        changed(adversary, partial(_conditional, known=known, groups=groups))
        for adversary, known in known_by
        if any(value is not None for value in known.values())
    ]


def _values(adversary: Adversary, members: Sequence[int], group: Sequence[int]) -> list[RowValues]:
    """Return the values of some columns of a group that have mass under any distribution."""
    rows: set[tuple[float | None, ...]] = set()
    every = [of for of_secrets in adversary.values() for of in of_secrets.values()]
    for axes, distribution in (pair for of in every for pair in of.items()):
        if set(axes) <= set(group):
            held = distribution.rows[np.asarray(distribution.counts > 0, dtype=bool)]
            gaps = [None] * len(held)
            values_of = [held[:, axes.index(k)].tolist() if k in axes else gaps for k in members]
            rows |= set(zip(*values_of, strict=True))
    in_order = sorted(rows, key=lambda row: [(v is None, 0.0 if v is None else v) for v in row])
    return [dict(zip(members, values, strict=True)) for values in in_order]


def _conditional(
    distributions: Distributions, known: RowValues, groups: Sequence[Sequence[int]]
) -> Distributions:
    """Return the priors given these values; a group without any of them keeps its own."""
    conditional: Distributions = {}
    for members, distribution in distributions.items():
        group = next(group for group in groups if members[0] in group)
        matching = np.asarray(distribution.counts > 0, dtype=bool)
        for column in (k for k in group if k in known):
            value = known[column]
            if column in members and value is not None:
                matching &= distribution.rows[:, members.index(column)] == value
            elif column in members or value is not None:  # known to be missing, or reversed
                matching[:] = False
        if matching.any():
            conditional[members] = Discrete.from_counts(
                distribution.atoms[matching], distribution.counts[matching]
            )
    return conditional


class _Patterns:
    """The pattern of missing values of each row in a group of columns, as a coded column."""

    def __init__(
        self, group: Sequence[int], columns: Sequence[Column], readers: Sequence[Reader]
    ) -> None:
        self.group = tuple(group)
        self.columns = columns
        self.readers = readers
        self.propagated = [k for k in group if readers[k].propagates]
        if len(self.propagated) > _MOST_PROPAGATED:
            raise ValueError(
                'missing="propagate" treats each pattern of missing values on its own, and '
                f"{len(self.propagated)} columns of one group have missing values; fill some of "
                "them, or split the group with dependence=."
            )

    def codes(self, rows: slice, out: Array) -> None:
        out[:] = 0
        for bit, k in enumerate(self.propagated):
            gone = self.readers[k].missing(rows)
            if gone is not None:
                out += gone.astype(np.intp) << bit

    def distributions(self, cells: CountedRows) -> Distributions:
        """Return the distribution of each pattern's present columns, from one secret's cells."""
        distributions: Distributions = {}
        for pattern in np.unique(cells.codes[:, -1]):
            of_pattern = cells.codes[:, -1] == pattern
            gone = {k for bit, k in enumerate(self.propagated) if pattern >> bit & 1}
            axes = [axis for axis, k in enumerate(self.group) if k not in gone]
            if axes:
                members = tuple(self.group[axis] for axis in axes)
                codes, counts = cells.codes[of_pattern][:, axes], cells.counts[of_pattern]
                distributions[members] = self._distribution(members, codes, counts)
        return distributions

    def _distribution(self, members: Members, codes: Array, counts: Array) -> Discrete:
        """Return the distribution over the whole alphabet: cells without rows have mass zero."""
        alphabets = [self.columns[k].atoms for k in members]
        if len(members) == 1:
            full = np.zeros(len(alphabets[0]), dtype=np.int64)
            full[codes[:, 0]] = counts
            return Discrete.from_counts(alphabets[0], full)
        rows = np.stack([atoms[c] for atoms, c in zip(alphabets, codes.T, strict=True)], axis=1)
        # two corners without mass span the alphabet that `sensitivity` looks at
        corners = np.array([[atoms[0] for atoms in alphabets], [atoms[-1] for atoms in alphabets]])
        return Discrete.from_counts(np.concatenate([rows, corners]), np.append(counts, [0, 0]))


def _placed(prior: Any, label: Any, argument: str, columns: Sequence[Column]) -> Prior:
    """Return a prior that was given, checked, with the values of the columns' atoms."""
    if not isinstance(prior, Discrete | GaussianMixture):
        raise TypeError(
            f"{argument} must hold priors.Discrete or priors.GaussianMixture, got {quoted(prior)} "
            f"for {quoted(label)}."
        )
    n_public = len(columns)
    if prior.n_axes != n_public:
        raise ValueError(
            f"{argument} holds a prior over {prior.n_axes} column(s) for {quoted(label)}, and "
            f"{n_public} are public; give atoms, or means, of shape (n, {n_public})."
        )
    if isinstance(prior, GaussianMixture):
        return prior
    axes = zip(columns, prior.rows.T, strict=True)
    rows = np.stack([column.placed(axis) for column, axis in axes], axis=1)
    return prior if np.array_equal(rows, prior.rows) else prior.moved(rows)
