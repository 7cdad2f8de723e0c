"""What a release of typical rows guarantees, in a sentence for each of two readers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, NoReturn

from sklearn_puffer._base import Section, listed, short_number, shown
from sklearn_puffer._release import (
    Certificate,
    ColumnUtility,
    Terms,
    made_line,
    pair_cells,
    plain_record,
    utility_section,
)


@dataclass(frozen=True)
class PrototypeUtility(ColumnUtility):
    """How much of a column survives; its change by becoming typical, and by being moved.

    Attributes
    ----------
    grouping, moving : float
        In standard deviations (without an order a change counts 1): the change if every row became
        its own typical row, and what the channel adds to it. They sum to ``change_sd``.
    """

    grouping: float
    moving: float


@dataclass(frozen=True)
class StrataFacts:
    """What known columns part people into, and tell by themselves.

    Attributes
    ----------
    known : tuple of str
    n_strata : int
    constant : float
        The share of people in strata whose channel leaves hardly more than a constant.
    one_secret, alone, below_ten : float
        Of people in strata of one secret, of one person, of fewer than ten.
    """

    known: tuple[str, ...]
    n_strata: int
    constant: float
    one_secret: float
    alone: float
    below_ten: float


@dataclass(frozen=True)
class PrototypeFacts:
    """What typical rows and the channel between them are, as far as a certificate says it.

    Attributes
    ----------
    n_prototypes, smallest : int
        How many there are, and the fewest fitted rows that became one of them.
    tried : tuple of tuple
        Numbers of prototypes that were tried, and the change a column with each.
    level : float or None
        Of the set of masses of secrets over which the budget is kept; None: as counted.
    grouping, moving : float
        Of the change a column, in standard deviations: by typical rows, and by the channel.
    counted, table, further : float
        The loss as counted, at whole tables (simulated), and what ever more releases of a row come
        up to.
    joint : float or None
        The loss over bounds on joint masses, which holds for new rows whose prototypes are drawn as
        well; None as counted.
    values : {"typical", "drawn"}
    drawn, drawn_row : float or None
        What one drawn column of a fitted row, and all of them together, may lose besides.
    joined : tuple of str
        Columns that readers may join later, which the budget covers.
    labels : bool
        Whether a y chose the prototypes.
    beyond : float or None
        The share of people beyond the budget for who knows their label, as counted.
    strata : StrataFacts or None
        With known columns; all figures are then about the odds within a stratum.
    """

    n_prototypes: int
    smallest: int
    tried: tuple[tuple[int, float], ...]
    level: float | None
    grouping: float
    moving: float
    counted: float
    joint: float | None
    table: float
    further: float
    values: str
    drawn: float | None
    drawn_row: float | None
    joined: tuple[str, ...]
    labels: bool
    beyond: float | None
    strata: StrataFacts | None = None


@dataclass(frozen=True)
class PrototypeCertificate(Certificate):
    """The certificate of rows that become typical rows: see `Certificate`.

    Attributes
    ----------
    prototypes : PrototypeFacts

    Notes
    -----
    *Formal guarantees.* Where ``holds`` is True: let the shares of secrets in prototypes lie within
    the simultaneous bounds around their counts, which they do with the level of the set where rows
    are independent given their public columns, and let prototypes occur as in `fit`. Then nobody
    who knows all that, the channel and the fitted rows with their secrets, and sees one released
    row of somebody who was not fitted, moves the odds between two secrets of a listed pair by more
    than e^epsilon; nor does who holds the list of fitted rows, but not whose is which, and sees one
    released row of them.
    """

    prototypes: PrototypeFacts | None = None
    utility: tuple[PrototypeUtility, ...] = ()

    @property
    def facts(self) -> PrototypeFacts:
        """What typical rows and the channel are."""
        assert self.prototypes is not None
        return self.prototypes

    def promise(self) -> str:
        """Return the two guarantees, for their two readers."""
        if not self.holds:
            return super().promise()
        sensitive = sorted({shown(pair.sensitive) for pair in self.pairs})
        shift = self.notion.promise().replace("secrets", f"secrets of {' or of '.join(sensitive)}")
        if self.facts.strata is not None:
            shift += f" given the known {listed(list(self.facts.strata.known), 5)}"
        return f"{_new_row(self.facts, shift)} {_fitted_row(shift)}"

    def check(self, table: Any, *, verbose: int = 0) -> NoReturn:
        """Refuse: a certificate of typical rows holds no distribution of the fitted rows.

        Raises
        ------
        ValueError
            Always, with what to compare.
        """
        raise ValueError(
            "a certificate of typical rows holds no distribution of the fitted rows; compare how "
            "often typical rows occur: numpy.bincount(rows.assign(table)) with the sums of "
            "rows.counts_ of a fitted PufferfishMicroaggregator."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain Python values, for JSON."""
        facts = asdict(self.facts)
        tried, strata = [list(each) for each in facts.pop("tried")], facts.pop("strata")
        record = {**plain_record(facts), "tried": tried}
        if strata is not None:
            record["strata"] = plain_record(strata)
        return {**super().to_dict(), "prototypes": record}

    def _risks(self) -> list[str]:
        """Return what endangers people most: a second release, and what readers know besides."""
        facts = self.facts
        beyond = (
            "readers who join a label to a row are not covered, nor those who know the rows of all "
            "other fitted people and look for the last one's"
        )
        if facts.beyond:
            beyond = (
                f"who knows their label moves the odds of {facts.beyond:.1%} of the people beyond "
                "the budget; name its column in joined="
            )
        return [
            "a second independent release of a row tells far more; release each row once, or with "
            "row_id= and a key.",
            f"{beyond}.",
        ]

    def _told_below(self) -> list[str]:
        facts = self.facts
        return [
            f"{facts.n_prototypes} typical rows, each of at least {facts.smallest} fitted rows; a "
            f"column changes by {facts.grouping + facts.moving:.3g} standard deviations on "
            f"average, {facts.moving:.3g} of it by the channel.",
            f"Loss as counted {short_number(facts.counted)}{_joint(facts)}; at whole released "
            f"tables up to {short_number(facts.table)} (simulated, not proven).",
            _further(facts),
            *([] if facts.strata is None else [_about_strata(facts.strata)]),
        ]

    def _sections(self) -> list[Section]:
        return [
            utility_section(self.utility),
            Section(
                f"Worst pairs of secrets (of {len(self.pairs)})",
                "lower is the loss as counted, upper the proven one over all masses in the set",
                pair_cells(self._worst()),
            ),
            Section("Assumptions", sentences=self.assumptions),
        ]

    def _lines(self) -> list[str]:
        lines = super()._lines()
        lines[-1] = made_line(self.version, self.date, f"{self.n_rows} rows", self.n_columns)
        return lines


def _new_row(facts: PrototypeFacts, shift: str) -> str:
    given = "as counted" if facts.level is None else f"in the {facts.level:.0%} set"
    return (
        "A row that was not fitted: whoever knows the distribution, the channel, the fitted table "
        "with its secrets and everything about all other people, and sees the released row, can "
        f"{shift}, if the shares of secrets are {given} and prototypes occur as in fit."
    )


def _fitted_row(shift: str) -> str:
    return (
        "A fitted row: whoever holds the list of fitted rows, with or without secrets, but not who "
        f"owns what, and sees one released row, can {shift}."
    )


def _about_strata(strata: StrataFacts) -> str:
    """Return what known values tell by themselves."""
    return (
        f"Known values part the people into {strata.n_strata} strata, and what they tell by "
        f"themselves is not protected: {strata.one_secret:.1%} of the people are in strata of one "
        f"secret, {strata.alone:.1%} alone in theirs, {strata.below_ten:.1%} in strata below 10; "
        f"{strata.constant:.1%} are released as hardly more than a constant."
    )


def _joint(facts: PrototypeFacts) -> str:
    if facts.joint is None:
        return ""
    return f"; with prototypes' shares drawn as well {short_number(facts.joint)}"


def _further(facts: PrototypeFacts) -> str:
    most = "without bound" if not isfinite(facts.further) else f"up to {facts.further:.3g}"
    return (
        f"Further independent releases of the same row move log odds {most}: release each row "
        "once, or with row_id= and a key."
    )


def not_covered(facts: PrototypeFacts) -> list[str]:
    """Return what the guarantee does not cover, a line each."""
    labels = "further facts about this person, and labels that are joined later"
    if facts.joined:
        labels += f", but for {listed(list(facts.joined))}"
    return [
        "Not covered: readers who know the rows of all other fitted people and the channel or the "
        "counts (keep counts_, channel_ and saved files where the table is).",
        "Not covered: the list of the rows of one call.",
        f"Not covered: {labels}.",
        *(
            []
            if facts.beyond is None
            else [
                f"Who knows their label moves the odds of {facts.beyond:.1%} of the people beyond "
                "the budget, as counted; name its column in joined= to bound it."
            ]
        ),
        "Not covered: a second release of the same row, so several rows of one person.",
        "Not covered: the typical rows themselves, medians of at least "
        f"{facts.smallest} rows; the number of prototypes was chosen by their total change.",
        *([] if facts.level is not None else [_AS_COUNTED]),
        *([] if facts.drawn is None else [_about_drawn(facts)]),
        *([_BY_LABELS] if facts.labels else []),
    ]


TERMS = Terms(
    how="as the values of a typical row",
    about="a row becomes the typical row of a group of similar ones, which is drawn",
    granted=(
        "The reader knows what is named above, and nothing else about a row.",
        "New rows follow the distribution of the fitted ones, and rows are independent of each "
        "other: what one person's row tells about another is not covered.",
        "Each row is released once, or alike each time by row_id= and a key.",
    ),
    left_out=(
        "Readers who know the rows of all other fitted people and the channel or the counts, and "
        "readers who know the list of the rows of one call, are not covered.",
        "Further facts of a person, and labels that are joined later, are not covered unless "
        "known= or joined= names them.",
        "A second independent release of a row tells far more.",
    ),
    again="each person's rows once, or alike each time by row_id= and a key",
)
"""What a report says of every release of typical rows."""

_AS_COUNTED = (
    "Shares of secrets are taken as counted: sampling error may move the odds of new rows further."
)


_BY_LABELS = (
    "y had a part in the choice of typical rows, so rows are taken to be independent given their "
    "public columns and y, and y to be as frequent in new rows as in fit."
)


def _about_drawn(facts: PrototypeFacts) -> str:
    assert facts.drawn is not None
    assert facts.drawn_row is not None
    row = "more than can be bounded"
    if isfinite(facts.drawn_row):
        row = f"{facts.drawn_row:.3g}"
    return (
        "Columns are drawn from bins of fitted rows: for a reader who does not know these, one "
        f"column of a fitted row may lose {facts.drawn:.3g} besides, and all together {row}; the "
        "fitted row's guarantee is for readers who hold the list."
    )
