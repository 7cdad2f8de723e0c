"""What a channel promises: its certificate, with the four things that it takes for granted.

What it shares with that of a swap: both are about whole rows, and hold on conditions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from sklearn_puffer._base import Section, listed, short_number, shown
from sklearn_puffer._releases.certificate import (
    Certificate,
    PairLoss,
    made_line,
    pair_cells,
    plain_record,
)
from sklearn_puffer._releases.sentences import KEYED
from sklearn_puffer._releases.survival import survival, utility_section
from sklearn_puffer._tables import Name, records_frame

KEY_MATERIAL = (
    "The channel, the saved noiser and the list of fitted rows are key material: who holds one of "
    "them can tell of some released rows that they were not moved."
)
_TOLD = (
    "rows that occur once were most likely not moved, and their secret is told as if nothing had "
    "been done"
)
WHOLE_TABLE = (
    f"Who reads the whole released table counts copies: {_TOLD}. The promise is for a reader of "
    "ONE row, who knows neither the released table nor the fitted rows."
)
_NOT_FOR_READERS = "; NOT for who reads the whole released table"
_NOT_AROUND = "; NOT for priors within sampling error of it"


@dataclass(frozen=True)
class ChannelLoss(PairLoss):
    """The loss of one secret against another: see `PairLoss`.

    Attributes
    ----------
    known : str
        Empty: the adversary knows nothing else about a row.
    """

    known: str = ""


@dataclass(frozen=True)
class Kept:
    """The share of the rows with one secret that stay: in their cell, or with their owners."""

    sensitive: Name
    secret: Any
    share: float


@dataclass(frozen=True)
class ChannelFacts:
    """What a channel does to the rows of `fit`, computed from the channel as it is drawn from.

    Attributes
    ----------
    n_cells : int
        Distinct rows, before and after.
    unchanged : float
        The share of the rows that stay in their cell.
    kept : tuple of Kept
        The same for each secret.
    expected_change : float
        The expected cost of a release, in units of change.
    balance : {"rows", "secrets"}
        What counts alike in the expected cost.
    floor : float or None
        The most that one more draw tells, recomputed.
    known : tuple of str
        None: columns that the adversary may know are for swaps and noise.
    """

    n_cells: int
    unchanged: float
    kept: tuple[Kept, ...]
    expected_change: float
    balance: str
    floor: float | None
    known: tuple[str, ...] = ()


class RowsCertificate(Certificate):
    """A certificate of whole rows, which holds on four conditions."""

    _recomputed: ClassVar[str]
    _further: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def conditions(self, *, figures: bool = True) -> list[str]:
        """Return what the promise takes for granted; without figures nothing is made of rows."""

    @abstractmethod
    def _about_rows(self) -> Section:
        """Return what is done to the rows of `fit`."""

    def _taken_for_granted(self) -> list[str]:
        return [f"The conditions: {self._conditions()}."] if self.holds else []

    def _conditions(self) -> str:
        letters = zip("abcd", self.conditions(), strict=True)
        return "; ".join(f"({letter}) {told}" for letter, told in letters)

    def _sections(self) -> list[Section]:
        return [
            self._about_rows(),
            utility_section(self.utility),
            Section(
                f"Worst pairs of secrets (of {len(self.pairs)})",
                f"the exact loss lies between lower and upper, recomputed from {self._recomputed}",
                pair_cells(self._worst(), *self._further),
            ),
            Section("Conditions", sentences=[f"{c[0].upper()}{c[1:]}." for c in self.conditions()]),
            Section("Assumptions", sentences=self.assumptions),
        ]


def facts_record(facts: Any) -> dict[str, Any]:
    """Return facts about rows, some of which are kept, as plain values for JSON."""
    kept = [plain_record(asdict(each)) for each in facts.kept]
    return {**plain_record({**asdict(facts), "kept": None}), "kept": kept}


@dataclass(frozen=True)
class ChannelCertificate(RowsCertificate):
    """The certificate of releases from a channel: see `Certificate`.

    Attributes
    ----------
    channel : ChannelFacts
    sampled : bool
        Whether the prior was counted from the rows, whose sampling error a channel does not cover.
    """

    _recomputed = "the whole numbers that are drawn from; known: what the adversary knows besides"
    _further = ("known",)

    channel: ChannelFacts | None = None
    sampled: bool = True

    @property
    def facts(self) -> ChannelFacts:
        """What the channel does to the rows of `fit`."""
        assert self.channel is not None
        return self.channel

    @property
    def table(self) -> Any:
        """The pairs as a DataFrame: a row for each ordered pair, and for what may be known."""
        names = list(ChannelLoss.__dataclass_fields__)
        records = [tuple(getattr(pair, name) for name in names) for pair in self.pairs]
        return records_frame(records, names)

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain Python values, for JSON; the channel is no part of it."""
        told = {**super().to_dict(), "channel": facts_record(self.facts)}
        told["conditions"] = self.conditions()
        told |= {"key_material": KEY_MATERIAL, "sampled": self.sampled}
        return {**told, "second_draw": self._again()}

    def _beyond(self) -> str:
        """Return what the promise takes for granted, for the end of the verdict."""
        return self._with(
            f", if {self._conditions()}", f"{_NOT_FOR_READERS} and counts copies: {_TOLD}"
        )

    def _verdict(self) -> str:
        return f"{self._kept()}{self._with(', on four conditions', _NOT_FOR_READERS)}"

    def _with(self, taken: str, readers: str) -> str:
        """Return what is taken for granted, who is left out, and what is not covered."""
        if not self.holds:
            return ""
        return f"{taken}{readers}{_NOT_AROUND * self.sampled}"

    def _to_recipients(self) -> str:
        """Return the same words where nothing may be a function of the rows."""
        return self._with(", on four conditions", _NOT_FOR_READERS)

    def _seen(self) -> str:
        return f"{super()._seen()} and not the table"

    def _lines(self) -> list[str]:
        return [
            f"Budget: {self.notion.budget_name()}; proven loss {short_number(self.loss)}.",
            self.promise(),
            WHOLE_TABLE,
            KEY_MATERIAL,
            f"{_unchanged(self.facts)}, and a guess that a row was not moved is right so often.",
            *([self._again()] if self.holds else []),
            survival(self.utility),
            *self._glossary(),
            f"Strategy {self.strategy}, {self.noise} in the place of noise, dependence "
            f"{self.dependence}.",
            made_line(self.version, self.date, f"{self.n_rows} rows", self.n_columns),
        ]

    def _again(self) -> str:
        """Return what a further draw from the channel tells."""
        if self.facts.floor is None:
            return (
                "A second draw of the same rows may tell everything (there is no floor): the "
                "promise is for one, and a ledger allows one."
            )
        return (
            f"One more draw of the same rows tells {short_number(self.facts.floor)} at most; the "
            f"promise is for {self.releases} of them together, and a ledger allows so many."
        )

    def _about_rows(self) -> Section:
        return Section("The channel", _about_channel(self.facts), _kept_cells(self.facts))

    def conditions(self, *, figures: bool = True) -> list[str]:
        """Return the four things that the promise takes for granted: no figure is among them."""
        return [
            "the reader sees ONE released row and not the released table, and holds neither the "
            "channel nor the saved noiser nor the list of fitted rows (key material)",
            "the reader knows nothing else about a row, not even one of its public values",
            "the rows released follow the law of those fitted",
            "that prior is true, for the promise is as good as the model behind it",
        ]


def _unchanged(facts: ChannelFacts) -> str:
    """Return the share of rows that stay, overall and for each secret."""
    by_secret = ", ".join(f"{shown(k.secret)} {k.share:.1%}" for k in facts.kept[:20])
    more = f" and {len(facts.kept) - 20} more" if len(facts.kept) > 20 else ""
    return f"{facts.unchanged:.1%} of the rows stay in their cells ({by_secret}{more})"


def _about_channel(facts: ChannelFacts) -> str:
    what = "secret" if facts.balance == "secrets" else "row"
    return (
        f"{facts.n_cells} distinct rows; the expected change of a {what} is "
        f"{facts.expected_change:.6g} in units of change"
    )


def _kept_cells(facts: ChannelFacts) -> list[list[str]]:
    head, every = ["sensitive", "secret", "unchanged"], ["", "all rows", f"{facts.unchanged:.1%}"]
    rows = [[shown(k.sensitive), shown(k.secret), f"{k.share:.1%}"] for k in facts.kept]
    return [head, every, *rows]


def channel_assumptions(
    *,
    about_prior: str,
    sensitive: Sequence[Name],
    released: Sequence[Name],
    binned: Sequence[Name],
    passed: Sequence[Name],
    releases: int,
    floor: float | None,
    delta: float,
    seed: int | None,
) -> list[str]:
    """Return under which conditions a channel's promise holds, and what it does not cover."""

    def every(names: Sequence[Name]) -> str:
        return listed(names, len(names))

    said = [
        about_prior,
        WHOLE_TABLE,
        f"{KEY_MATERIAL} Fitting on other rows than those released (prior= and adversaries= from "
        "elsewhere), or on binned ones, weakens what such a reader learns.",
        "Who knows a public value of a row besides learns more than the promise says; "
        'noise="swap" with known= covers that.',
        'A row that fit has not seen is refused, or (unknown="nearest") released as its nearest '
        "cell (by its other columns, if a category is new); where such rows follow another law "
        "than those of fit, they may tell more.",
        "Rows are independent of each other: what one person's row tells about another person is "
        "not covered.",
        "The released row as a whole is protected, all its columns together.",
        f"Each protected secret is one value of one sensitive column ({every(sensitive)}); "
        "combinations of several sensitive columns are not secrets.",
        f"The promise is for {releases} release(s) of the same rows"
        + (
            "; a second one may tell everything."
            if floor is None
            else f" together; each further one tells {floor:.6g} at most."
        ),
        *([KEYED] if seed is None else []),
        f"Only column(s) {every(released)} are protected, and only as released by this noiser "
        "without a random_state; the number of rows, their order, their index and the types of "
        "the columns are handed through.",
        "Refusals and warnings that depend on the rows are not covered: transform refuses values "
        "and rows that fit has not seen, missing ones without a place and numbers that are not "
        'finite, and with unknown="nearest" a warning counts the rows that were moved; another one '
        "(on_drift=) names columns whose values are distributed otherwise than in fit, and how "
        "far. Whether fit succeeds, and its warnings and certificate, depend on its rows likewise.",
    ]
    if binned:
        said.append(
            f"{every(binned)} are released as representatives of bins; the promise is about these."
        )
    if passed:
        said.append(
            f"{every(passed)} are passed through and NOT protected: whatever they tell about a "
            "secret is told."
        )
    if delta > 0.0:
        said.append(
            f"delta = {delta:g} is what the probability of any set of rows may exceed e^epsilon "
            "times its probability under the other secret by; it should be far below one over "
            "the number of rows."
        )
    if seed is not None:
        said.append(
            f"random_state={seed} makes the draws reproducible, so whoever knows the seed can "
            "undo them: NOTHING is promised outside tests."
        )
    return said


def moved_rows_sentence(n_rows: int, n_moved: int, mean_move: float) -> str:
    """Return the warning about rows that were released as their nearest cells."""
    return (
        f'unknown="nearest" moved {n_moved} of {n_rows} rows, which fit has not seen, to their '
        f"nearest cells before the release ({(n_rows - n_moved) / n_rows:.1%} were seen; the mean "
        f"move is {mean_move:.3g} in units of change); the certificate is about rows that follow "
        "the fitted law, and certificate_.check(X) compares these with it."
    )


def nothing_changes_sentence(n_rows: int, in_bins: bool) -> str:
    """Return the warning where the prior is within the budget as it is."""
    kept = "stays in its bins" if in_bins else "is released as it is"
    return (
        f"no row needs to change under this prior, and every one {kept}; that trust rests on the "
        f"prior alone (fitted on {n_rows} rows)."
    )
