"""How `PufferfishNoiser.fit` finds a channel: count cells, solve a program, prove the loss.

From the proof follow the certificate, `channel_`, warnings, and the loss under other priors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import coo_array

from sklearn_puffer._base import (
    Array,
    FloatArray,
    IntArray,
    __version__,
    counted,
    listed,
    quoted,
    utc_now,
)
from sklearn_puffer._channels import ChannelProblem, Family, find_channel, most_cells, whole_rows
from sklearn_puffer._losses import Readers, channel_floor, moved_by_copies, repeated_losses
from sklearn_puffer._noise import WHOLE, IntegerRows
from sklearn_puffer._noiser.adversaries import TablePriors, conditional_margins, table_priors
from sklearn_puffer._noiser.channel_release import (
    CellDistance,
    Channel,
    ChannelRelease,
    DistinctRows,
    as_matrix,
)
from sklearn_puffer._noiser.conditional_priors import Distributions, named_distributions
from sklearn_puffer._noiser.read_table import TableRead, read_table
from sklearn_puffer._noiser.release import ColumnRelease
from sklearn_puffer._noiser.settings import Settings, epsilon_of_one
from sklearn_puffer._noiser.utility import changes_of, utility_of, utility_without_order
from sklearn_puffer._noiser.worst_case_loss import Against, FittedRelease, LossUnder
from sklearn_puffer._release import (
    ChannelCertificate,
    ChannelFacts,
    ChannelLoss,
    ColumnUtility,
    Draws,
    Kept,
    Margin,
    Patterns,
    Refused,
    Rule,
    channel_assumptions,
    nothing_changes_sentence,
)
from sklearn_puffer._release import sentences as say
from sklearn_puffer._tables import AnyTable, Coded, Column, Name, Values, count, nearest, row_blocks
from sklearn_puffer.notions import Notion
from sklearn_puffer.priors import Discrete

_MOST_EPSILON = 500.0  # what is beyond has no exponential
_FURTHER, _MOST_BEYOND = 1.1, 0.01  # times epsilon, and the share of the rows that may be beyond it
_NOTHING = 1e-6  # of the rows

_LARGEST, _LEAST = 1 << 149, 1 << 55
"""Sums of counts beyond the first are scaled down to it; none may then be below the second.

So products of shares with the shares of 14 draws, each 2^-62 or more, are no subnormal floats.
"""


@dataclass(frozen=True, eq=False, kw_only=True)
class SecretDistributions(Family):
    """The distributions of cells given the secrets of one column, as one adversary has them.

    Attributes
    ----------
    adversary : int
        0 for the fitted prior, k for the k-th further one.
    sensitive : str or int
    labels : list
        The secret of each distribution.
    """

    pairs: Array
    adversary: int
    sensitive: Name
    labels: list[Any]


def learn_channel(
    settings: Settings,
    table: AnyTable,
    given_secrets: Mapping[Name, Values] | None,
    sample_weight: Any,
) -> LearntChannel:
    """Learn the priors of a table, find the channel and prove its loss.

    Parameters
    ----------
    settings : Settings
    table : AnyTable
    given_secrets : mapping of Values, or None
        The sensitive columns, where they are not columns of the table.
    sample_weight : array-like of shape (n_rows,) or None
    """
    read = read_table(settings, table, given_secrets, sample_weight)
    units_of_change(read, np.zeros(len(read.columns)))  # refused before anything is counted
    priors = table_priors(read)
    cells, counts = count_cells(read, priors)
    families = list(_secret_distributions(read, priors, cells))
    assert settings.channel is not None
    units = units_of_change(read, priors.spreads)
    values = cells.values(read.columns)
    distance = CellDistance(values, read.unordered, units, settings.channel.cost)
    problem = ChannelProblem(
        families=families,
        weights=_weights(read, counts, families),
        costs=distance.between_cells(),
        epsilon=min(epsilon_of_one(settings), _MOST_EPSILON),
        delta=settings.notion.delta,
        floor=settings.channel.floor,
    )
    rows = whole_rows(problem, find_channel(problem))
    check_copies(read, counts, families, rows, problem.epsilon)
    return LearntChannel(read, priors, cells, counts, families, distance, problem, rows)


# ------------------------------------------------------------------------ cells and distributions


def count_cells(read: TableRead, priors: TablePriors) -> tuple[DistinctRows, list[IntArray]]:
    """Return the cells of a table, and how often each occurs with each secret.

    Cells are the distinct rows of the table, and of the further priors. The counts have shape
    (n_secrets, n), one array for each sensitive column.

    Raises
    ------
    ValueError
        If there are too many cells for the program, before distributions are allocated.
    """
    secrets = [secret.coded for secret in read.secrets]
    columns = [Coded(reader, len(reader.column.atoms)) for reader in read.readers]
    rows = read.rows
    counted_rows = count(secrets, columns, [[*range(len(columns))]], rows.n_rows, rows.weights)
    of_columns = [of_secrets for [of_secrets] in counted_rows]
    seen = [of_secret.codes for of_secret in of_columns[0]]
    further = [
        _codes(distribution, read.columns) for distribution in _further_distributions(read, priors)
    ]
    sizes = [len(column.atoms) for column in read.columns]
    cells = DistinctRows.of(np.concatenate([*seen, *further]), sizes)
    _check_size(read, len(cells))
    counts = []
    for of_secrets in of_columns:
        table = np.zeros((len(of_secrets), len(cells)), dtype=np.int64)
        for row, of_secret in zip(table, of_secrets, strict=True):
            row[cells.find(of_secret.codes)] = of_secret.counts
        counts.append(table)
    return cells, counts


def _check_size(read: TableRead, n_cells: int) -> None:
    settings, n_adversaries = read.settings, 1 + len(read.settings.adversaries)
    assert settings.channel is not None
    n_rows = n_adversaries * sum(len(secret.labels) for secret in read.secrets)
    if settings.notion.delta > 0.0:  # a row for each ordered pair, and not for each distribution
        n_rows = max(n_rows, 2 * n_adversaries * sum(map(len, read.pairs.values())))
    most = most_cells(n_rows, floor=settings.channel.floor is not None)
    if n_cells > most:
        raise ValueError(
            f"the released columns have {n_cells:,} distinct rows, more than the {most:,} that "
            'noise="optimal" is found for with such secrets, adversaries and budget; use bins '
            '(n_bins) or fewer columns, or noise="swap", which takes wide tables.'
        )


def _further_distributions(read: TableRead, priors: TablePriors) -> list[Discrete]:
    """Return the distributions that may give mass to rows that `fit` has not seen."""
    n_counted = 1 if read.settings.prior is None else 0
    return [
        distribution
        for adversary in priors.adversaries[n_counted:]
        for of_secrets in adversary.values()
        for distributions in of_secrets.values()
        for distribution in distributions.values()
    ]


def _codes(distribution: Discrete, columns: Sequence[Column]) -> Array:
    """Return the atoms of a distribution that have mass, as rows of codes."""
    rows = distribution.rows[np.asarray(distribution.counts > 0, dtype=bool)]
    axes = zip(columns, rows.T, strict=True)
    return np.stack([np.searchsorted(column.atoms, axis) for column, axis in axes], axis=1)


def masses_over(cells: DistinctRows, distribution: Discrete, columns: Sequence[Column]) -> IntArray:
    """Return the masses of the cells as whole numbers: of Python beyond a sum of 2^62.

    They are exact, or off by less than 2^-54 of themselves, which `repeated_losses` allows for.

    Raises
    ------
    LookupError
        If it has mass where there is no cell.
    ValueError
        If it has less mass somewhere than the proof of a channel can tell from none.
    """
    positive = np.asarray(distribution.counts > 0, dtype=bool)
    masses = np.zeros(len(cells), dtype=np.int64 if distribution.total < 2**62 else object)
    counts = _whole_counts(distribution, positive)
    indices = cells.find(_codes(distribution, columns))
    if (indices < 0).any():
        raise LookupError(str(distribution.rows[positive][indices < 0][0].tolist()))
    masses[indices] = counts
    return masses


def _whole_counts(distribution: Discrete, positive: Array) -> list[int]:
    """Return positive counts, each of which over the sum is a float, and not tiny."""
    counts = [int(count) for count in distribution.counts[positive].tolist()]
    if distribution.total < _LARGEST:
        return counts
    scaled = [count * _LARGEST // distribution.total for count in counts]
    least = int(np.argmin(scaled))
    if scaled[least] < _LEAST:
        raise ValueError(
            f"a prior gives the row {distribution.rows[positive][least].tolist()} the probability "
            f"{counts[least] / distribution.total:.3g}, which is too small for the proof of a "
            f"channel; give it 0, or {_LEAST / _LARGEST:.1g} at least."
        )
    return scaled


def _secret_distributions(
    read: TableRead, priors: TablePriors, cells: DistinctRows
) -> Iterator[SecretDistributions]:
    """Yield the distributions of each adversary and sensitive column."""
    for number, adversary in enumerate(priors.adversaries):
        for secret in read.secrets:
            masses = [
                masses_over(cells, distribution, read.columns)
                for distributions in adversary[secret.name].values()
                for [distribution] in [distributions.values()]  # one: rows are whole
            ]
            pairs = [[secret.find(label) for label in pair] for pair in read.pairs[secret.name]]
            yield SecretDistributions(
                masses=np.stack(masses),
                pairs=np.array(pairs, dtype=np.intp),
                adversary=number,
                sensitive=secret.name,
                labels=[*secret.labels],
            )


# ------------------------------------------------------------------------------------ the problem


def _weights(
    read: TableRead, counts: Sequence[IntArray], families: Sequence[SecretDistributions]
) -> FloatArray:
    """Return the distribution of rows that the cost is averaged over.

    Rows that a prior knows and `fit` has not seen must cost something, too: then half of the
    weight is that of the priors.
    """
    means = [family.distributions.mean(axis=0) for family in families]
    assert read.settings.channel is not None
    if read.settings.channel.balance == "secrets":
        rows: FloatArray = np.mean(means[: len(read.secrets)], axis=0)  # of the fitted prior
    else:
        total = counts[0].sum(axis=0)
        rows = total / total.sum()
    weights: FloatArray = rows.copy() if rows.all() else 0.5 * (rows + np.mean(means, axis=0))
    weights /= weights.sum()
    return weights


def units_of_change(read: TableRead, spreads: FloatArray) -> FloatArray:
    """Return the unit of change of each column: the larger it is, the cheaper its changes."""
    weights = read.settings.weights if isinstance(read.settings.weights, dict) else {}
    strange = [name for name in weights if name not in read.public]
    if strange:
        raise ValueError(
            f"weights names {strange[0]!r}, which is not public; the public columns are "
            f"{listed(read.public, 10)}."
        )
    units = []
    for column, spread in zip(read.columns, spreads.tolist(), strict=True):
        usual = 1.0 if column.unordered or not spread > 0.0 else spread
        units.append(float(weights.get(column.name, usual)))
    return np.array(units)


# ------------------------------------------------------------------------------------- the proof


def channel_losses(
    rows: IntegerRows, families: Sequence[SecretDistributions], notion: Notion, n_draws: int
) -> tuple[ChannelLoss, ...]:
    """Return the loss of each pair both ways, for all releases together."""
    losses = []
    for family in counted(families, "distributions held against the channel"):
        ends = repeated_losses(rows, family.masses, family.pairs, notion, n_draws)
        for pair, both_ways in zip(family.pairs.tolist(), ends.tolist(), strict=True):
            for way, (lower, upper) in zip([pair, pair[::-1]], both_ways, strict=True):
                secret, against = (family.labels[k] for k in way)
                about = (family.sensitive, secret, against, family.adversary, notion.budget)
                losses.append(ChannelLoss(*about, lower, upper, "recomputed"))
    return tuple(losses)


def check_copies(
    read: TableRead,
    counts: Sequence[IntArray],
    families: Sequence[SecretDistributions],
    rows: IntegerRows,
    epsilon: float,
) -> None:
    """Refuse a channel whose released values tell too much to a reader who counts copies.

    The reader has the list of rows, without owners, and the channel: see `moved_by_copies`.

    Raises
    ------
    ValueError
        If more than 1 % of the released rows are expected to lose more than 1.1 epsilon.
    """
    tables = zip(read.secrets, counts, strict=True)
    n_of_secrets = {secret.name: table.sum(axis=1) for secret, table in tables}
    n_rows = counts[0].sum(axis=0)
    moved = []
    for family in counted(families, "distributions held against the counts of copies"):
        readers = Readers(family.distributions, n_of_secrets[family.sensitive], family.pairs)
        moved.append(moved_by_copies(rows, n_rows, readers, _FURTHER * epsilon))
    share = max(moved) / float(n_rows.sum())
    if share > _MOST_BEYOND:
        raise ValueError(
            f'noise="optimal" needs cells of many rows, and {read.rows.total:,} rows lie in '
            f"{rows.n_cells:,}: who has the list of rows, and counts the copies of a released "
            f"value, would shift his odds by more than {_FURTHER:g} epsilon at {share:.0%} of the "
            f'released rows ({_MOST_BEYOND:.0%} is allowed); use noise="swap", or cells of more '
            "rows (n_bins, fewer columns, more rows)."
        )


# ------------------------------------------------------------------------------------ what follows


@dataclass(frozen=True, eq=False)
class LearntChannel:
    """The channel of a table, its distributions, and what follows from them."""

    read: TableRead
    priors: TablePriors
    cells: DistinctRows
    counts: list[IntArray]  # (n_secrets, n_cells), of each sensitive column
    distributions: list[SecretDistributions]
    distance: CellDistance
    problem: ChannelProblem
    rows: IntegerRows

    moves_rows: ClassVar[bool] = True
    grouped: ClassVar[None] = None

    @property
    def margins(self) -> list[Margin]:
        """The distribution of each column, to notice drift."""
        return self.priors.margins

    def patterns(self) -> Patterns:
        """Return nothing: a missing value is a value of its own."""
        return {}

    @property
    def columns(self) -> list[Column]:
        """The columns without the numbers that bins are made of."""
        return self.read.bare_columns

    @cached_property
    def pairs(self) -> tuple[ChannelLoss, ...]:
        """The loss of each pair both ways, for all releases together."""
        settings = self.read.settings
        return channel_losses(self.rows, self.distributions, settings.notion, settings.releases)

    @cached_property
    def floor(self) -> float | None:
        """The most that one more draw tells; None without a floor."""
        return None if self.problem.floor is None else channel_floor(self.rows)

    def mechanism(self) -> ChannelRelease:
        """Return how rows are released."""
        releases = [ColumnRelease(column, None, 0.0, "native") for column in self.columns]
        return ChannelRelease(releases, self.cells, self.rows, self.distance)

    def attributes(self) -> dict[str, Any]:
        """Return the priors, and the channel as users look at it."""
        adversary = self.priors.adversaries[0]
        priors = named_distributions(adversary, self.read.public)
        return {"priors_": priors, "channel_": self._channel()}

    def _channel(self) -> Channel:
        by_secret: dict[Name, dict[Any, float]] = {}
        for kept in self.kept:
            by_secret.setdefault(kept.sensitive, {})[kept.secret] = kept.share
        return Channel(
            _columns=tuple(self.columns),
            _codes=np.array(self.cells.codes),
            matrix=as_matrix(self.rows),
            numerators=as_matrix(self.rows, whole=True),
            expected_change=self.expected_change,
            unchanged=self.unchanged,
            unchanged_by_secret=by_secret,
            floor=self.floor,
        )

    def certificate(self) -> ChannelCertificate:
        """Return the certificate, with both directions of every pair, and no fingerprint yet."""
        settings, read = self.read.settings, self.read
        n_further = len(self.priors.adversaries) - 1
        loss = max(pair.upper for pair in self.pairs)
        holds = loss <= settings.notion.budget
        return ChannelCertificate(
            **settings.notion.to_dict(),
            loss=loss,
            pairs=self.pairs,
            columns=(),
            assumptions=self._assumptions(n_further),
            strategy="exact",
            noise=settings.noise_name,
            dependence="joint",
            n_rows=read.rows.total,
            remedy=None if holds else say.CHANNEL_REMEDY,
            releases=settings.releases,
            rule=self._rule(holds=holds),
            fitted=self._fitted(),
            prior=say.prior_of(settings.prior is not None, None, n_further),
            n_columns=read.n_columns,
            version=__version__,
            date=utc_now(),
            utility=self.utility,
            channel=self._facts(),
            sampled=settings.is_counted,
        )

    def warnings(self) -> list[str]:
        """Return what the user should be warned of."""
        said = self.read.remarks(fine=False)
        if self.unchanged > 1.0 - _NOTHING:
            in_bins = any(column.merged for column in self.columns)
            said.append(nothing_changes_sentence(self.read.rows.total, in_bins))
        return said

    @cached_property
    def always_alike(self) -> list[Name]:
        """Columns that vary in the table, and are released as one and the same value."""
        cells = self.cells.codes
        released = cells[np.unique(self.rows.targets)]
        varies = (cells != cells[0]).any(axis=0)
        same = (released == released[0]).all(axis=0)
        return [c.name for c, is_same in zip(self.columns, same & varies, strict=True) if is_same]

    @cached_property
    def _stay(self) -> FloatArray:
        """W(x|x) of each cell."""
        return np.asarray(as_matrix(self.rows).diagonal())

    @property
    def unchanged(self) -> float:
        """The share of the rows of `fit` that are released as their own cell."""
        rows = self.counts[0].sum(axis=0)
        return float(rows @ self._stay / rows.sum())

    @cached_property
    def kept(self) -> tuple[Kept, ...]:
        """The same of the rows with each secret."""
        return tuple(
            Kept(secret.name, label, float(cells @ self._stay / cells.sum()))
            for secret, counts_of_secrets in zip(self.read.secrets, self.counts, strict=True)
            for label, cells in zip(secret.labels, counts_of_secrets, strict=True)
        )

    @cached_property
    def expected_change(self) -> float:
        """The expected cost of a release, with rows weighted as the problem weighs them."""
        owners = np.repeat(np.arange(self.rows.n_cells), np.diff(self.rows.starts))
        costs = self.problem.weights[owners] * self.problem.costs[owners, self.rows.targets]
        return float(costs @ (self.rows.shares / WHOLE))

    def _facts(self) -> ChannelFacts:
        assert self.read.settings.channel is not None
        return ChannelFacts(
            n_cells=len(self.cells),
            unchanged=self.unchanged,
            kept=self.kept,
            expected_change=self.expected_change,
            balance=self.read.settings.channel.balance,
            floor=self.floor,
        )

    def _rule(self, *, holds: bool) -> Rule:
        if not holds:
            return Refused("The certificate does not hold, so that nothing may be released.")
        if self.floor is None:
            return Draws(
                1,
                "A second draw from a channel without a floor may tell everything; "
                "fit with OptimalChannel(floor=...) and releases= for more.",
            )
        return Draws(
            self.read.settings.releases,
            f"Each further draw tells up to {self.floor:.6g}; fit with more releases.",
        )

    def _fitted(self) -> FittedChannel:
        fitted, read = self.priors.adversaries[0], self.read
        first = next(iter(fitted.values()))
        return FittedChannel(
            {name: list(of_secret) for name, of_secret in fitted.items()},
            sorted({members for distributions in first.values() for members in distributions}),
            read.pairs,
            read.groups,
            self.columns,
            self.cells,
            self.rows,
            read.settings.notion,
            read.settings.releases,
            margins=self.priors.margins,
            conditional=conditional_margins(read, self.priors),
        )

    def _assumptions(self, n_further: int) -> list[str]:
        settings = self.read.settings
        return channel_assumptions(
            about_prior=say.about_prior(
                given=settings.prior is not None,
                n_further=n_further,
                n_rows=self.read.rows.total,
                fewest_rows=self.read.fewest_rows(),
            ),
            sensitive=[secret.name for secret in self.read.secrets],
            released=[column.name for column in self.columns],
            binned=[column.name for column in self.columns if column.merged],
            passed=self.read.passed,
            releases=settings.releases,
            floor=self.floor,
            delta=settings.notion.delta,
            seed=settings.seed,
        )

    @cached_property
    def utility(self) -> tuple[ColumnUtility, ...]:
        """What survives of each column."""
        return tuple(self._utility(k) for k in range(len(self.columns)))

    def _utility(self, k: int) -> ColumnUtility:
        column, codes = self.read.columns[k], self.cells.codes[:, k]
        n_cells, n_atoms = len(codes), len(column.atoms)
        every, ones = np.arange(n_cells), np.ones(n_cells)
        onto = coo_array((ones, (every, codes)), shape=(n_cells, n_atoms)).tocsr()
        becomes = as_matrix(self.rows) @ onto
        if column.raw is None:
            raw, rows = column.atoms, self.counts[0].sum(axis=0).astype(float)
            stood = coo_array((rows, (every, codes)), shape=(n_cells, n_atoms))
        else:
            raw, stood = column.raw[0], self._raw_counts(k, column.raw[0])
        joint = (stood.tocsr().T @ becomes).tocoo()  # how often each value is released as each
        before, after = joint.coords
        shares = joint.data / self.read.rows.total
        if column.unordered:
            same = float(shares[before == after].sum())
            return utility_without_order(column.name, self.priors.raw[k], same)
        changes = changes_of(np.abs(column.atoms[after] - raw[before]), shares)
        return utility_of(column.name, self.priors.raw[k], float(self.priors.spreads[k]), *changes)

    def _raw_counts(self, k: int, numbers: FloatArray) -> Any:
        """Return how often each number of a binned column stood in each cell."""
        read = self.read
        row_weights = read.rows.weights
        owners, columns, weights = [], [], []
        for rows in row_blocks(read.rows.n_rows):
            codes = np.empty((len(read.readers), rows.stop - rows.start), dtype=np.intp)
            for reader, out in zip(read.readers, codes, strict=True):
                reader.codes(rows, out)
            owners.append(self.cells.find(codes.T))
            columns.append(nearest(numbers, read.readers[k].data(rows)))
            once = np.ones(codes.shape[1])
            weights.append(once if row_weights is None else row_weights[rows].astype(float))
        where = (np.concatenate(owners), np.concatenate(columns))
        return coo_array((np.concatenate(weights), where), shape=(len(self.cells), len(numbers)))


@dataclass(frozen=True, eq=False)
class FittedChannel(FittedRelease):
    """The channel of a fitted release, and whom and what it protects: all but the priors.

    Attributes
    ----------
    cells : DistinctRows
    rows : IntegerRows
    notion : Notion
    releases : int
        How often the same rows are released.
    """

    cells: DistinctRows
    rows: IntegerRows
    notion: Notion
    releases: int = 1

    def against(self, prior: Mapping[Any, Any]) -> Against:
        """Return the guarantee against another prior: see `FittedNoise`."""
        families = [self._distributions(*of_column) for of_column in self._checked(prior).items()]
        pairs = tuple(
            LossUnder(
                pair.sensitive, pair.secret, pair.against, pair.lower, pair.upper, "recomputed"
            )
            for pair in channel_losses(self.rows, families, self.notion, self.releases)
        )
        return Against(
            notion=self.notion,
            loss=max(pair.upper for pair in pairs),
            lower=max(pair.lower for pair in pairs),
            pairs=pairs,
        )

    def is_new(self, codes: Array) -> Array:
        """Return which rows of codes are no cells."""
        new: Array = self.cells.find(codes) < 0
        return new

    def _distributions(
        self, name: Name, of_secrets: Mapping[Any, Distributions]
    ) -> SecretDistributions:
        """Return the distributions of the secrets of one column, over the cells."""
        distributions = [
            (label, distribution)
            for label, of in of_secrets.items()
            for distribution in of.values()
        ]
        labels = [label for label, _ in distributions]
        pairs = [[labels.index(label) for label in pair] for pair in self.pairs[name]]
        return SecretDistributions(
            masses=np.stack([self._masses(*labelled) for labelled in distributions]),
            pairs=np.array(pairs, dtype=np.intp),
            adversary=0,
            sensitive=name,
            labels=labels,
        )

    def _masses(self, label: Any, distribution: Discrete) -> Array:
        try:
            return masses_over(self.cells, distribution, self.columns)
        except LookupError as fault:
            raise ValueError(
                f"prior gives mass to the row {fault} for {quoted(label)}, which was not seen in "
                "fit, so that such rows are refused, or moved; give it mass zero, or name this "
                "prior in adversaries= and fit again."
            ) from None
