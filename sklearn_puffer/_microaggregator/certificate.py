"""The certificate of typical rows: what is guaranteed to each of two readers, and figures.

Figures stand beside the proof: whole tables, utility. A reader of a whole
released table, who holds the list of the fitted rows, counts how often each prototype is released,
and so knows more than the channel. He scales the expected flows between prototypes until they sum
to the fitted and the released counts (iterative proportional fitting, the most probable flows), and
computes the odds at each released prototype from them. How far these go is simulated on drawn
tables: a figure, not a proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, ClassVar, NoReturn

import numpy as np
from scipy.sparse import csr_array

from sklearn_puffer._base import Array, FloatArray, IntArray
from sklearn_puffer._certificates import (
    Certificate,
    ColumnUtility,
    PairLoss,
    changes_of,
    measured_utility,
    utility_section,
)
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._codes import Secret
from sklearn_puffer._documents import Section, jsonable
from sklearn_puffer._microaggregator.coordinates import NumberAxis, Sample
from sklearn_puffer._microaggregator.program import SecretCounts
from sklearn_puffer._noise import WHOLE, IntegerRows, seeded_entropy
from sklearn_puffer._release import Terms
from sklearn_puffer._rows import CountedTable
from sklearn_puffer._tables import Name, Values
from sklearn_puffer._words import brief, listed, shown, times

MOST_TABLES = 60
_MOST_ROWS = 2_000_000  # drawn in all tables together
_LEAST_TABLES = 5
_MOST_FLOWS = 1 << 21  # in memory at a time
_MOST_STEPS = 1_000
_CLOSE = 1e-6


@dataclass(frozen=True)
class PrototypeUtility(ColumnUtility):
    """How much a column changes, by typical rows and by the channel.

    Attributes
    ----------
    grouping, moving : float
        The change if every row became its own typical row, and what the channel adds to it, in
        standard deviations (1 for a change of category). They sum to ``change_sd``.
    """

    grouping: float
    moving: float


@dataclass(frozen=True)
class StrataFacts:
    """The strata of known columns, and what they tell by themselves.

    Attributes
    ----------
    known : tuple of str
    n_strata : int
    constant : float
        The share of people in strata whose channel is hardly better than a constant.
    one_secret, alone, below_ten : float
        The share of people in strata with one secret, with one person, with fewer than ten.
    """

    known: tuple[str, ...]
    n_strata: int
    constant: float
    one_secret: float
    alone: float
    below_ten: float


@dataclass(frozen=True)
class PrototypeFacts:
    """Facts about typical rows and channel in a certificate.

    Attributes
    ----------
    n_prototypes, smallest : int
        The number of prototypes, and the fewest fitted rows of one.
    level : float or None
        Confidence level of the set of masses over which the budget is kept; None: as counted.
    grouping, moving : float
        The mean change of a column, in standard deviations: by typical rows, and by the channel.
    counted, table : float
        The loss as counted, and that to readers of a whole table (simulated).
    joint : float or None
        The loss over bounds on the joint masses of secrets and prototypes, whose shares may then
        differ in new rows; None without a level.
    chance : float or None
        The loss that all but a share of 1 - level of tables keep which are drawn from the counted
        one; None without a level, and in certificates of earlier versions.
    values : {"typical", "drawn"}
    drawn, drawn_row : float or None
        Bounds on the extra loss of one drawn column of a fitted row, and of all together.
    joined : tuple of str
        Columns that readers may join later, which the budget covers.
    labels : bool
        Whether a y chose the prototypes.
    tried : tuple of tuple
        Numbers of prototypes that were tried, and the mean change of a column with each.
    strata : StrataFacts or None
        With known columns; all figures are then about the odds within a stratum.
    """

    RETIRED: ClassVar[tuple[str, ...]] = ("further", "beyond")

    n_prototypes: int
    smallest: int
    level: float | None
    grouping: float
    moving: float
    counted: float
    joint: float | None
    table: float
    values: str
    drawn: float | None
    drawn_row: float | None
    joined: tuple[str, ...]
    labels: bool
    tried: tuple[tuple[int, float], ...]
    strata: StrataFacts | None = None
    chance: float | None = None


@dataclass(frozen=True)
class PrototypeCertificate(Certificate):
    """The certificate of typical rows: see `Certificate`.

    Attributes
    ----------
    prototypes : PrototypeFacts

    Notes
    -----
    *Formal guarantees.* Where ``holds`` is True: let the shares of secrets in prototypes lie within
    the simultaneous bounds around their counts, which has the probability of the level if rows are
    independent given their public columns, and let prototypes be as frequent as in `fit`. Then a
    reader who knows all that, the channel and the fitted rows with their secrets, and sees one
    released row of somebody who was not fitted, shifts the odds between two secrets of a listed
    pair by a factor of at most e^epsilon. So does a reader who holds the list of fitted rows, but
    does not know whose they are, and sees one released row of them.
    """

    prototypes: PrototypeFacts | None = None
    utility: tuple[PrototypeUtility, ...] = ()

    @property
    def facts(self) -> PrototypeFacts:
        """The facts about typical rows and channel."""
        assert self.prototypes is not None
        return self.prototypes

    def promise(self) -> str:
        """Return the two guarantees."""
        return " ".join(self._promises())

    def _promises(self) -> list[str]:
        if not self.holds:
            return [super().promise()]
        shift, level = self._shift(), self.facts.level
        if self.facts.strata is not None:
            shift += f" given the known {listed(list(self.facts.strata.known), 5)}"
        if self.facts.joined:
            shift += f", with or without knowing {listed(list(self.facts.joined), 5)}"
        error = "" if level is None else f", within sampling error ({level:.0%}),"
        return [
            "A row that was not fitted: whoever knows the distribution, how typical rows are "
            "drawn, the fitted table with its secrets and everything about all other people, and "
            f"sees the released row, can {shift}, if secrets are as frequent among similar rows as "
            f"counted{error} and typical rows as frequent as in the fitted table.",
            "A fitted row, of the table that typical rows were learnt from: whoever holds the list "
            "of these rows, with or without secrets, but not which person each row belongs to, and "
            f"sees one released row, can {shift}.",
        ]

    def _kept(self) -> str:
        verdict, level = "holds" if self.holds else "DOES NOT HOLD", self.facts.level
        alone = say.about_one_secret(self.facts.strata.one_secret) if self.facts.strata else ""
        if level is None:
            return f"{verdict} for shares of secrets as counted{alone}"
        error = f"with sampling error of shares of secrets allowed for ({level:.0%})"
        return f"{verdict}, {error}{alone}"

    def check(self, table: Any, *, verbose: int = 0) -> NoReturn:
        """Refuse: a certificate of typical rows holds no distribution of the fitted rows.

        Raises
        ------
        ValueError
            Always, saying what to compare instead.
        """
        raise ValueError(
            "a certificate of typical rows holds no distribution of the fitted rows; compare how "
            "often typical rows occur: numpy.bincount(rows.assign(table)) with the sums of "
            "rows.counts_ of a fitted PufferfishMicroaggregator."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain Python values, for JSON."""
        facts = jsonable(asdict(self.facts))
        if self.facts.strata is None:
            del facts["strata"]
        return {**super().to_dict(), "prototypes": facts}

    def _dangers(self) -> list[str]:
        more = self.facts.table > self.epsilon  # simulated
        return ["BUT A WHOLE FILE TELLS MORE TO WHO HOLDS THE LIST OF PEOPLE"] * more

    def _decisions(self, ids: Sequence[Name]) -> list[str]:
        """Return that it counts which rows go out, and what helps where a file tells more."""
        told = (
            "Rows: which go out: all fitted ones, a part, or others? Who holds the list of the "
            "people in the file is covered for one row of all fitted ones, for NONE of a part or "
            "of others."
        )
        way_out = " A smaller epsilon, fewer columns, or a swap, may tell less of a whole file."
        return [told + way_out * bool(self._dangers())]

    def _figures(self) -> list[list[str]]:
        """Return how many typical rows there are, and what the whole file told by simulation."""
        facts = self.facts
        known = "; beside known columns" if facts.strata is not None else ""
        number = f"at most, each typical of {facts.smallest} fitted rows or more{known}"
        whole = f"if all {self.n_rows:,} fitted rows, to who holds their list; simulated"
        whole += "; MORE THAN OF ONE ROW" * bool(self._dangers())
        rows = ["Different rows", f"{facts.n_prototypes}", number]
        told = [["Whole file", times(facts.table), whole]]
        if facts.level is not None and facts.joint is not None:
            odds, beside = facts.joint, "at most, as chance has typical rows more or less frequent"
            if facts.chance is not None:
                odds = facts.chance
                beside = f"in {facts.level:.0%} of simulated tables; proven for fixed groups: "
                beside += times(facts.joint)
            told.append(["People not in the table", times(odds), beside])
        # columns that are drawn one by one make more rows
        return [rows] * (facts.drawn is None) + told

    def _risks(self) -> list[str]:
        """Return the greatest risks: a second release, and further knowledge of readers."""
        facts = self.facts
        joined = listed(list(facts.joined))
        other = f" other than {joined}, or a coarser form of it," if joined else ""
        return [
            "a second independent release of a row tells far more, and another fit draws anew; "
            "release each row once, or by one fit with row_id= and a key.",
            f"readers who join a label{other} to a row are not covered (name its column in "
            "joined=), nor those who know the rows of all other fitted people and look for the "
            "last one's.",
        ]

    def _told_below(self) -> list[str]:
        facts, strata = self.facts, self.facts.strata
        some = "any of " * (len(facts.joined) > 1) + listed(list(facts.joined))
        labels = f", with {some} or without," if facts.joined else ""
        told = [
            f"{facts.n_prototypes} typical rows, each of at least {facts.smallest} fitted rows; a "
            f"column changes by {facts.grouping + facts.moving:.3g} standard deviations on "
            f"average, {facts.moving:.3g} of it as rows become typical of other groups.",
            f"As counted, odds shift by at most {times(facts.counted)}.",
            f"Whole file: who holds the list of all fitted people{labels} and reads the rows of "
            f"all of them moved odds up to about {times(facts.table)} in simulated releases, which "
            "proves nothing.",
        ]
        if facts.joint is not None:
            told[1] += (
                " If typical rows are more or less frequent among people who are not in the table, "
                f"as chance has it, they may shift {times(facts.joint)}: a bound, proven for fixed "
                "groups."
            )
        if facts.level is not None and facts.chance is not None:
            few = f"{facts.level:.0%} of simulated tables"
            told[1] += f" In {few} they stay within {times(facts.chance)}."
        if strata is not None:
            told.append(
                f"Known values part the people into {strata.n_strata} strata, and what they tell "
                f"by themselves is not protected: {strata.one_secret:.1%} of the people are in "
                f"strata of one secret, {strata.alone:.1%} alone in theirs, {strata.below_ten:.1%} "
                f"in strata below 10; {strata.constant:.1%} are released as hardly more than a "
                "constant."
            )
        return told

    def _sections(self) -> list[Section]:
        return [
            utility_section(self.utility),
            self._pairs_section(
                "lower is the loss as counted, upper the proven one over all masses in the set"
            ),
            Section("Assumptions", sentences=self.assumptions),
        ]


def not_covered(facts: PrototypeFacts) -> list[str]:
    """Return what the guarantee does not cover, a line each."""
    labels = "further facts about this person, and labels that are joined later"
    if facts.joined:
        labels += f", but for {listed(list(facts.joined))}"
    if facts.labels:
        labels += ", y among them"
    several = len(facts.tried) > 1
    told = [
        "Not covered: readers who know the rows of all other fitted people and how typical rows "
        "are drawn, the counts or the figures of this certificate, which show the last one's "
        "secret (keep the estimator and saved files where the table is, and give recipients the "
        "report).",
        "Not covered: readers who hold the list of the rows of the people in a released file, be "
        "they fitted or not; who holds the list of all fitted rows is covered for one released "
        "row, not for all rows together.",
        f"Not covered: {labels}; name their columns in joined=.",
        *_coarser(facts, "; name a column of it in joined=, too"),
        "Not covered: a second release of the same row, so several rows of one person, and that "
        "by another fit, whatever its key: release each row once, or by one fit with row_id= and a "
        "key.",
        f"Not covered: the typical rows themselves, each of at least {facts.smallest} rows: "
        "medians of the numbers that half of these have, and most frequent categories, be they "
        "of one person" + "; how many there are was chosen by their total change" * several + ".",
    ]
    if facts.level is None:
        told.append(
            "Shares of secrets are taken as counted: sampling error may move the odds of new rows "
            "further. Not covered: who knows whose a fitted row is, if only the own one; of few "
            "others with his secret he may be certain. Take level=0.95 for readers who are in the "
            "list."
        )
    if facts.drawn is not None and facts.drawn_row is not None:
        row = f"{facts.drawn_row:.3g}" if isfinite(facts.drawn_row) else "more than can be bounded"
        told.append(
            "Columns are drawn from bins of fitted rows: for a reader who does not know these, one "
            f"column of a fitted row may lose {facts.drawn:.3g} besides, and all together {row}; "
            "the fitted row's guarantee is for readers who hold the list."
        )
    if facts.labels:
        told.append(
            "y had a part in the choice of typical rows, so rows are taken to be independent given "
            "their public columns and y, and y to be as frequent in new rows as in fit."
        )
    return told


def _coarser(facts: PrototypeFacts, way_out: str = "") -> list[str]:
    """Return that labels are covered as they are: their mixtures may tell more than each."""
    joined = listed(list(facts.joined), len(facts.joined))
    told = (
        f"a coarser form of {joined}, such as a band of its values, or that it is not one of them"
    )
    return [f"Not covered: who joins {told}{way_out}."] if joined else []


def missing_warnings(secrets: Sequence[Secret], rows: CountedTable) -> list[str]:
    """Return the warning about missing secrets, which are one of their own."""
    for secret in (each for each in secrets if "missing" in each.labels):
        gone = secret.codes(rows.n_rows) == secret.labels.index("missing")
        number = int(gone.sum() if rows.weights is None else rows.weights[gone].sum())
        return [
            f"{number:,} row(s) have no {brief(secret.name)}, which is protected as a secret of "
            "its own, 'missing'; leave these rows out where it is only unknown."
        ]
    return []


def about_missing(pairs: Sequence[PairLoss]) -> list[str]:
    """Return that missing values are a secret, if they are one of a protected pair."""
    labels = {(pair.sensitive, label) for pair in pairs for label in (pair.secret, pair.against)}
    names = {
        name
        for name, label in labels
        if "missing" in (label if isinstance(label, tuple) else (label,))
    }
    return [
        f"Missing values of {shown(name)} are a secret of their own, 'missing'."
        for name in sorted(names, key=str)
    ]


def terms_of(facts: PrototypeFacts, known: Sequence[Name], coarse: Sequence[Name]) -> Terms:
    """Return the terms of a release for a report: of all facts it reads settings alone."""
    labels = "labels that are joined later"
    if facts.joined:
        labels += f" (other than {listed(list(facts.joined))})"
    left_out = [
        "Of a person who was fitted (not of others): readers who know the rows of all other fitted "
        "people and how typical rows are drawn, the counts or the figures of the certificate are "
        "not covered. Nothing is proven against who knows which fitted row is his own.",
        "Readers who hold the list of the rows of the people in a released file, be they fitted or "
        "not, are not covered, but for one released row where it is the list of ALL fitted rows.",
        f"Further facts of a person, and {labels}, are not covered unless they were named as known "
        "or joined.",
        *_coarser(facts),
        "A second independent release of a row, as by another fit, tells far more.",
        "The typical rows themselves are not protected: a median, or a most frequent category, may "
        "be one person's.",
    ]
    if facts.labels:
        left_out.append(
            "A label chose typical rows: rows are taken as independent given the label, and labels "
            "to be as frequent in new rows as in the fitted ones."
        )
    how, beyond = "as the values of a typical row", ""
    about = "a row becomes the typical row of a group of similar ones, which is drawn"
    if facts.values == "drawn":
        how, about = "as a value drawn from those of a group", f"{about}; its values are drawn anew"
        left_out.append(
            "Values are drawn from those of fitted rows: to a reader who does not hold the list of "
            "these, more may be told of a fitted row than the budget."
        )
    if facts.level is None:
        beyond = ", nor for people of the list who know which rows are theirs"
        left_out.append(
            "Shares of secrets are taken as counted, without their sampling error. Who knows which "
            "fitted row is his own is not covered: of few others with his secret he may be certain."
        )
    return Terms(
        name="typical rows",
        how=how,
        about=about,
        granted=(
            "The reader knows what is named above, and nothing else about a row.",
            "New rows follow the distribution of the fitted ones (if typical rows are more or less "
            "frequent, odds shift further). Rows are independent of each other: what one person's "
            "row tells about another is not covered.",
            "Each row is released once, or each time as an identical copy (by an id and a key).",
        ),
        left_out=left_out,
        whole="Whole file, no list: people who were not fitted are covered, if people are "
        "independent; of fitted people one row is proven, not a file. Who holds the list of ALL "
        "fitted rows and gets all of them: not proven, and odds may shift further. Who holds that "
        "of any other file, such as a part of these: not covered, not even for one row.",
        again="one row a person, once or as identical copies",
        beyond=f", but of fitted people for one row alone, NOT for a whole file{beyond}"
        + say.BY_THEMSELVES * bool(known),
        known=known,
        joined=facts.joined,
        coarse=coarse,
        limit="; of one row, not of a file",
    )


# ----------------------------------------------------------------------------------- the figures


def as_matrix(rows: IntegerRows) -> Any:
    """Return a channel as a sparse matrix of probabilities, whose rows sum to 1."""
    shape = (rows.n_cells, rows.n_cells)
    return csr_array((rows.shares / WHOLE, rows.targets.copy(), rows.starts.copy()), shape=shape)


def odds_of(counts: FloatArray, flows: FloatArray, pairs: Array) -> FloatArray:
    """Return the largest log odds of any pair at each released prototype.

    Parameters
    ----------
    counts : ndarray of shape (n_prototypes, n_secrets)
        Rows of each secret.
    flows : ndarray of shape (..., n_prototypes, n_prototypes)
        The share of the rows of a that are released as b.
    pairs : ndarray of shape (n_pairs, 2)
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        released = np.log((counts / counts.sum(axis=0)).T @ flows)
        apart = np.abs(released[..., pairs[:, 0], :] - released[..., pairs[:, 1], :])
    return np.asarray(np.nan_to_num(apart, nan=0.0, posinf=np.inf).max(axis=-2))


def table_loss(
    rows: IntegerRows, sizes: IntArray, groups: Sequence[SecretCounts], most: int = MOST_TABLES
) -> float:
    """Return the largest log odds at a prototype for readers of whole tables, simulated.

    At most ``most`` tables are drawn, and at least five. Of very many rows a part is drawn: a
    smaller table tells more.

    Examples
    --------
    >>> rows = IntegerRows([0, 2, 4], [0, 1, 0, 1], [3, 1, 1, 3] * np.array(WHOLE // 4))
    >>> counts = np.array([[300, 100], [100, 300]])
    >>> group = SecretCounts(counts, counts.sum(axis=1), np.array([[0, 1]]))
    >>> 0.5 < table_loss(rows, group.sizes, [group]) < 0.8  # a single row: .511
    True
    """
    sizes = np.maximum(sizes // -(-sizes.sum() // _MOST_ROWS), 1)
    wanted = _MOST_ROWS // sizes.sum(), _MOST_FLOWS // len(sizes) ** 2, most
    channel, cells = as_matrix(rows).toarray(), np.repeat(np.arange(len(sizes)), sizes)
    seen = np.stack(
        [
            np.bincount(rows.sampler(seeded_entropy(0, k)).draw(cells), minlength=len(sizes))
            for k in range(int(max(min(wanted), _LEAST_TABLES)))
        ]
    )
    flows = fitted_flows(sizes[:, None] * channel, sizes, seen) / sizes[:, None]
    odds = [odds_of(group.counts.astype(float), flows, group.pairs) for group in groups]
    return max((float(each[seen > 0].max()) for each in odds), default=0.0)


def fitted_flows(flows: FloatArray, rows: IntArray, columns: Array) -> FloatArray:
    """Return flows scaled until they sum to given rows and columns, of one or more tables.

    Parameters
    ----------
    flows : ndarray of shape (n, n)
    rows : ndarray of shape (n,)
    columns : ndarray of shape (..., n)

    Examples
    --------
    >>> expected = np.array([[3.0, 1.0], [1.0, 3.0]])
    >>> fitted_flows(expected, np.array([4, 4]), np.array([5, 3])).round(3)
    array([[3.419, 0.581],
           [1.581, 2.419]])
    """
    by_row, by_column = np.ones(columns.shape), np.ones(columns.shape)
    for _ in range(_MOST_STEPS):
        sums = by_row @ flows
        by_column = np.divide(columns, sums, out=np.zeros(sums.shape), where=sums > 0.0)
        before, by_row = by_row, rows / (by_column @ flows.T)
        if np.abs(by_row / before - 1.0).max() < _CLOSE:
            break
    return np.asarray(by_row[..., :, None] * flows * by_column[..., None, :])


# --------------------------------------------------------------------------------------- utility


def utilities(sample: Sample, best: Any, mechanism: Any) -> list[PrototypeUtility]:
    """Return the utility of each column.

    The change of typical rows is the expected one. That of drawn columns, and medians of changes,
    are measured on one simulated release of the sampled rows.

    Parameters
    ----------
    sample : Sample
    best : SolvedCandidate
    mechanism : TypicalRows
    """
    axes, weights = best.prototypes.coordinates.axes, sample.weights
    changes, flows, shares = best.changes, best.flows, best.shares
    released = _released(sample, best, mechanism, moves=True)
    grouped = _released(sample, best, mechanism, moves=False)
    found = []
    for axis in axes:
        name, unit = axis.name, axis.scale if isinstance(axis, NumberAxis) else 1.0
        fitted = axis.fitted(sample.columns[name])
        moved = changes_of(fitted, released[name], unit)
        figures = asdict(measured_utility(name, unit, moved, weights, fitted, weights))
        if mechanism.drawn is None:
            apart = changes.by_column[name]
            typical, change = float(shares @ np.diag(apart)), float((flows * apart).sum())
            same = float((flows * changes.unchanged[name]).sum())
            figures |= {"change": change * unit, "change_sd": change, "unchanged": same}
        else:
            moved = changes_of(fitted, grouped[name], unit)
            typical = float(np.average(moved, weights=weights)) / unit
        moving = figures["change_sd"] - typical
        found.append(PrototypeUtility(**figures, grouping=typical, moving=moving))
    return found


def _released(sample: Sample, best: Any, mechanism: Any, *, moves: bool) -> dict[Name, Values]:
    """Return the columns of one simulated release of the sampled rows, from a public seed."""
    codes = best.sample_codes
    if moves:
        cells = mechanism.cells(sample.strata, codes)
        codes = mechanism.channel.sampler(seeded_entropy(0, 1)).draw(cells)
    if mechanism.drawn is None:
        return {name: values.taken(codes) for name, values in best.prototypes.rows.items()}
    bins = mechanism.drawn.draw(codes, seeded_entropy(0, 2))
    return {name: mechanism.drawn.values[name].taken(which) for name, which in bins.items()}
