"""What a swap of whole rows guarantees, on which conditions, one line each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any, ClassVar

from sklearn_puffer._base import Section, listed, short_number, shown
from sklearn_puffer._release.certificate import Certificate, printed
from sklearn_puffer._release.evidence import (
    jsonable,
    pair_cells,
    plain_record,
    survival,
    utility_section,
)
from sklearn_puffer._release.sentences import (
    about_delta,
    about_secrets,
    about_seed,
)
from sklearn_puffer._tables import Name

NOT_BETTER = "; NOT for readers with a better model of the rows or the list of secrets"
SWAP_WARNING = (
    'noise="swap" bounds what readers learn who know of a row only its cell, not readers with a '
    "better model of the rows or the list of secrets; take PufferfishSwap, which bounds those."
)
"""The warning of every fit of a swap."""
SWAP_READERS = (
    "The bound is for readers who know of a row only its cell. Readers with a better model of the "
    "rows, or with the list of rows and their secrets, are NOT covered: they may shift the odds of "
    "many rows further."
)


@dataclass(frozen=True)
class Kept:
    """The share of the rows with one secret that stay: in their cell, or with their owners."""

    sensitive: Name
    secret: Any
    share: float


class RowsCertificate(Certificate):
    """A certificate of whole rows, which holds on four conditions."""

    _recomputed: ClassVar[str]

    @abstractmethod
    def conditions(self, *, figures: bool = True) -> list[str]:
        """Return what the guarantee takes for granted; without figures nothing is made of rows."""

    @abstractmethod
    def _about_rows(self) -> Section:
        """Return what is done to the rows of `fit`."""

    def _conditions(self) -> str:
        letters = zip("abcd", self.conditions(), strict=True)
        return "; ".join(f"({letter}) {condition}" for letter, condition in letters)

    def _sections(self) -> list[Section]:
        return [
            self._about_rows(),
            utility_section(self.utility),
            Section(
                f"Worst pairs of secrets (of {len(self.pairs)})",
                f"the exact loss lies between lower and upper, recomputed from {self._recomputed}",
                pair_cells(self._worst()),
            ),
            Section("Conditions", sentences=[f"{_sentence(c)}." for c in self.conditions()]),
            Section("Assumptions", sentences=printed(self.assumptions)),
        ]


def facts_record(facts: Any) -> dict[str, Any]:
    """Return facts about rows, some of which are kept, as plain values for JSON."""
    kept = [plain_record(asdict(share)) for share in facts.kept]
    return {**plain_record({**asdict(facts), "kept": None}), "kept": kept}


def _kept_cells(facts: SwapFacts, stays: str, all_of_them: str) -> list[list[str]]:
    """Return the shares that stay as a table: of all, and for each secret."""
    rows = [[shown(k.sensitive), shown(k.secret), f"{k.share:.1%}"] for k in facts.kept]
    return [["sensitive", "secret", stays], ["", all_of_them, f"{facts.unchanged:.1%}"], *rows]


def _kept_shares(facts: SwapFacts) -> str:
    """Return the same in brackets, of twenty secrets at most."""
    by_secret = ", ".join(f"{shown(k.secret)} {k.share:.1%}" for k in facts.kept[:20])
    more = f" and {len(facts.kept) - 20} more" if len(facts.kept) > 20 else ""
    return f"({by_secret}{more})"


def _every(names: Sequence[Name]) -> str:
    return listed(names, len(names))


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


@dataclass(frozen=True)
class SwapFacts:
    """What a swap does to the rows of `fit`, computed from mean flows in whole numbers.

    Attributes
    ----------
    n_cells : int
    tried : tuple of int
        Numbers of cells that were tried.
    model : str
        What rows are told apart by.
    strata : tuple of str
        Columns within whose values rows are exchanged.
    n_strata : int
    n_values : int
        Combinations of their values in `fit`; where they are more than the strata, small ones were
        joined.
    unchanged : float
        The share of rows that stay with their owners, on average.
    kept : tuple of Kept
        The same for each secret.
    learnt : int
        From how many of the rows cells, costs and what follows were learnt; secrets are counted in
        all of them.
    expected_change : float
        The expected cost of a row, in units of change.
    within : tuple of float or None
        What a fresh model finds of the secret within cells, in nats a row: the ends of its 95 %
        interval around it; None where rows of a cell are equal.
    moved_loss : float
        How far people who find their row with somebody else shift the odds about the holder.
    strata_loss : float
        How far a reader who learns the strata from the release shifts the odds.
    balance : {"rows", "secrets"}
    shuffle : bool
        Whether rows are exchanged within cells, too.
    groups : str or None
        The column of ids of groups, where these are exchanged as a whole: then what is said of rows
        here is said of groups.
    """

    n_cells: int
    tried: tuple[int, ...]
    model: str
    strata: tuple[str, ...]
    n_strata: int
    n_values: int
    unchanged: float
    kept: tuple[Kept, ...]
    learnt: int
    expected_change: float
    within: tuple[float, float, float] | None
    moved_loss: float
    strata_loss: float
    balance: str
    shuffle: bool
    groups: str | None = None

    @property
    def what(self) -> str:
        """What is exchanged."""
        return "row" if self.groups is None else "group"


@dataclass(frozen=True)
class ReserveFacts:
    """What a swap that releases rows one by one has set aside.

    Attributes
    ----------
    n_donors : int
    rows : tuple of int
        How many rows of each stratum are released, and no more.
    chance : float
        With which donors of a cell run out before that, where rows come as in `fit`.
    moved_loss : float
        How far odds move for who finds that the holder of a row was moved.
    unchanged : float
        The share of fitted rows that would stay as they are, on average.
    """

    n_donors: int
    rows: tuple[int, ...]
    chance: float
    moved_loss: float
    unchanged: float


@dataclass(frozen=True)
class SwapCertificate(RowsCertificate):
    """The certificate of a table whose rows are swapped: see `Certificate`.

    Attributes
    ----------
    swap : SwapFacts
    asked_of_set : bool
        Whether the budget is to be kept over the confidence set, too.
    reserve : ReserveFacts or None
        Where rows are released one by one: then this is about such rows.

    Notes
    -----
    *Formal guarantees.* Where ``holds`` is True: let people be exchangeable given the list of their
    rows, so that order, index and ids tell nothing, and let a row tell of the secret what its cell
    tells, and no more. Let a reader see the whole released table, and know of each row only its
    cell, this procedure, its mean flows and the posteriors of the cells. Nothing is guaranteed
    against readers with a better model of the rows, or with the list of secrets. Then for the
    holder of any row, the reader's odds of the secret move from those in the stratum by no more
    than the budget. `fit_transform` releases the fitted table by its own counts: the posteriors are
    those counts, and nothing is estimated. For rows to come they are estimated by the counts, and
    ``over_set`` is the loss over all posteriors within sampling error.

    With a ``reserve``, let rows of each cell, to come or in the reserve, be exchangeable, and let
    rows to come and their secrets lie in cells as those of `fit` did. Let a reader see any number
    of released rows, and have neither the rows of the reserve nor the list of those that came in.
    Then the odds of the secret of the holder of any released row move by no more than the budget;
    ``over_set`` is the loss over all distributions of cells within sampling error.
    """

    _recomputed = "mean flows and counts, both whole numbers, without the solver"

    swap: SwapFacts | None = None
    asked_of_set: bool = False
    reserve: ReserveFacts | None = None

    @property
    def facts(self) -> SwapFacts:
        """What the swap does to the rows of `fit`."""
        assert self.swap is not None
        return self.swap

    @property
    def holds(self) -> bool:
        """Whether the proven loss is within the budget; over the set, too, where that was asked."""
        over = self.known_over_set
        proven = not self.asked_of_set or over is None or over.loss <= self.notion.budget
        return proven and super().holds

    def promise(self) -> str:
        """Return the guarantee in one sentence."""
        if not self.holds:
            return super().promise()
        return self._promised()

    def _promised(self, *, figures: bool = True) -> str:
        """Return what is guaranteed; without figures it is made of settings and names alone."""
        sensitive = sorted({shown(pair.sensitive) for pair in self.pairs})
        whose = f"secrets of {' or of '.join(sensitive)}"
        if self.facts.groups is not None:
            whose += f" that all rows of a group of {self.facts.groups} share"
        shift = self.notion.promise().replace("secrets", whose)
        knows = f"knows of a {self.facts.what} only its cell"
        if self.facts.strata:
            knows += f", and {_stratum(self.facts, figures)} of each person"
        if self.reserve is not None:
            return (
                f"Whoever sees released rows, {knows}, and holds neither the donors' rows nor the "
                f"list of those that came in, can {shift}."
            )
        return f"Whoever sees the whole released table, and {knows}, can {shift}."

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain Python values, for JSON."""
        record = {**super().to_dict(), "swap": facts_record(self.facts)}
        record["conditions"] = self.conditions()
        record["reserve"] = None if self.reserve is None else plain_record(asdict(self.reserve))
        return {**record, "asked_of_set": jsonable(self.asked_of_set)}

    def _kept(self) -> str:
        """Return whether the budget is kept, and of which rows."""
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        if self.reserve is not None:
            return f"{verdict} for rows released one by one that come as {self.prior} did"
        return f"{verdict} for {self.prior}, released by fit_transform as one table"

    def _beyond(self) -> str:
        return f"{self._to_come()}, if {self._conditions()}" if self.holds else ""

    def _to_come(self) -> str:
        """Return what is guaranteed for rows to come."""
        over = self.known_over_set
        if over is None:
            return ""
        kept = over.loss <= self.notion.budget
        whose = "for rows to come, over all posteriors"
        if self.reserve is not None:
            whose = "over all distributions of their cells"
        return (
            f"{'; and' if kept else '; but NOT'} {whose} within "
            f"sampling error ({over.level:.0%}): {short_number(over.loss)}"
        )

    def _what_changes(self) -> list[str]:
        stay = f"{self.facts.unchanged:.1%} of the {self.facts.what}s stay with their owners."
        return [stay, *super()._what_changes()]

    def _risks(self) -> list[str]:
        again = (
            "a second swap of the same people can tell everything; keep this one, and hand out "
            "nothing else."
        )
        over, to_come = self.known_over_set, []
        if over is not None and over.loss > self.notion.budget:
            alone = "release the fitted table alone, or " if self.reserve is None else ""
            to_come = [
                f"rows to come (transform) may reach a loss of {over.loss:.3g} within sampling "
                f'error ({over.level:.0%}); {alone}fit with adversaries="confidence".'
            ]
        return [SWAP_READERS, *to_come, again]

    def _screen_verdict(self) -> str:
        return f"{self._kept()}, on four conditions{NOT_BETTER if self.holds else ''}"

    def _verdict(self) -> str:
        if not self.holds:
            return f"{self._kept()}, on four conditions"
        return f"{self._kept()}{self._to_come()}, on four conditions{NOT_BETTER}"

    def _told_below(self) -> list[str]:
        facts, strata = self.facts, [_about_strata(self.facts)] if self.facts.strata else []
        if self.reserve is not None:
            about = _about_reserve(self.reserve, facts)
            return [SWAP_READERS, *about, *strata, survival(self.utility)]
        return [
            SWAP_READERS,
            f"{_stay(facts)}; the released table has exactly the rows of the original one.",
            *strata,
            "People who find their row with somebody else know that this holder was moved, and "
            f"shift the odds about the holder by up to e^{short_number(facts.moved_loss)}.",
            *([_about_sample(facts, self.n_rows)] if facts.learnt < self.n_rows else []),
            survival(self.utility),
            "This certificate is about the fitted rows. transform(table) counts the rows of its "
            "table, and proves its flows before anything is released.",
        ]

    def _about_rows(self) -> Section:
        about = _about_swap(self.facts, one_by_one=self.reserve is not None)
        return Section(
            "The swap", about, _kept_cells(self.facts, "stay", f"all {self.facts.what}s")
        )

    def conditions(self, *, figures: bool = True) -> list[str]:
        """Return the four things that the guarantee takes for granted, in plain words."""
        facts = self.facts
        nothing = "no fact of a person besides"
        if facts.strata:
            nothing = f"no fact of a person but {_stratum(facts, figures)}"
        others = ", nor whose another row was"
        if self.reserve is not None:
            others = ", and holds neither the donors' rows nor those that came in"
        return [
            _about_cells(facts, figures),
            "the order, the index and the ids of the rows tell nothing",
            f"the reader knows {nothing}{others}",
            "these people are swapped once, and columns joined to their rows later tell nothing "
            "more",
        ]


def _stratum(facts: SwapFacts, figures: bool = True) -> str:
    """Return what is known of a person: values, or classes of values where small ones joined."""
    names = listed(facts.strata, len(facts.strata))
    if not figures:
        return f"the class of {names} (of values, or of several that were joined; no finer)"
    if facts.n_strata == facts.n_values:
        return names
    return f"the class of {names} (one of {facts.n_strata}, of {facts.n_values} values; no finer)"


def _about_cells(facts: SwapFacts, figures: bool) -> str:
    what = facts.what
    if facts.shuffle:
        return f"{what}s of a cell are shuffled, so that a released {what} tells its cell alone"
    claim = f"within its cell a {what} tells no more of the secret"
    if not figures:
        return claim
    if facts.within is None:
        return f"{what}s of a cell are equal, so that one tells what its cell tells"
    low, gain, high = facts.within
    if isnan(gain):
        return f"{claim} (NOT MEASURED: too few {what}s of a secret)"
    return f"{claim} (a fresh model finds {gain:.3f} nats a {what} there, {low:.3f} to {high:.3f})"


def _about_reserve(reserve: ReserveFacts, facts: SwapFacts) -> list[str]:
    """Return what must be known before rows are released one by one."""
    return [
        f"{_stay(facts)}; the others become one of {reserve.n_donors} donors, each given once by "
        "this fit.",
        "NOT covered is who holds donors' rows, or the list of the rows that came in: such a "
        "reader sees that the holder of a donor's row was moved, and shifts the odds about the "
        f"holder by up to e^{short_number(reserve.moved_loss)}. So do donors who find their row.",
        "Donors' rows are published under the names of others. Release no person of the reserve by "
        "this noiser, nor the reserve in another way; erase it when it is done with.",
        f"{_limits(reserve)}, whatever was drawn. If rows come as in fit, donors run out earlier "
        f"with a chance of {reserve.chance:g} at most; then a refusal tells something of cells.",
    ]


def _limits(reserve: ReserveFacts) -> str:
    if len(reserve.rows) == 1:
        return f"It is for {reserve.rows[0]} rows, and then refuses"
    least, most = min(reserve.rows), max(reserve.rows)
    return f"It is for {least} to {most} rows of a class, and then refuses more of it"


def _stay(facts: SwapFacts) -> str:
    what = facts.what
    return f"{facts.unchanged:.1%} of the {what}s stay with their owners {_kept_shares(facts)}"


def _about_strata(facts: SwapFacts) -> str:
    return (
        f"{facts.what.capitalize()}s are exchanged within {facts.n_strata} classes of "
        f"{listed(facts.strata, len(facts.strata))}, which the guarantee takes as known before. "
        "Who learns them from the release shifts odds by up to "
        f"e^{short_number(facts.strata_loss)} in all."
    )


def _about_sample(facts: SwapFacts, n_rows: int) -> str:
    return (
        "Cells, costs, what a fresh model finds and what survives were learnt from "
        f"{facts.learnt} of these rows, those whose public values have the smallest digests. "
        f"Secrets were counted in the cells of all {n_rows}."
    )


def _about_swap(facts: SwapFacts, *, one_by_one: bool) -> str:
    what = "secret" if facts.balance == "secrets" else facts.what
    tried = ""
    if len(facts.tried) > 1:
        tried = f", chosen from {', '.join(map(str, facts.tried))}"
    how = "by matches of some rows of each two cells"
    if one_by_one:
        what, how = "row", "in a trial"
    return (
        f"{facts.n_cells} cells{tried}, told apart by {facts.model}; the expected change of a "
        f"{what} is {facts.expected_change:.6g} in units of change, {how}; what columns lose was "
        "measured in one swap, drawn for this and kept nowhere"
    )


_IN_TABLES = (
    "Rows to come (transform) are taken to have each secret as often as the fitted rows of their "
    "cell; over_set says what sampling error may add. Their cells are counted anew, so nothing is "
    "assumed of how often they come.",
    "A second swap of the same people can tell everything, and only a ledger guards against it. "
    "With row_id= and the same key the same table is the same release.",
)
_ONE_BY_ONE = (
    "Rows to come, given their secret, are taken to lie in each cell as often as fitted ones; "
    "over_set says what sampling error may add. Rows of the reserve are taken to be like rows to "
    "come of their cell; only the fitted rows and a test of each column speak for that.",
    "A second release of the same person can tell everything, and nothing guards against it: keep "
    "the first. A further fit with the same donors gives them again.",
    "How long a release takes may tell whether the row was moved: answer after a fixed time.",
    "fit_transform, with a table of donors, swaps the fitted rows as one table, of which all rows "
    "are then known; its flows are proven, too, before anything is released.",
)


def swap_assumptions(
    *,
    sensitive: Sequence[Name],
    released: Sequence[Name],
    passed: Sequence[Name],
    missing: Sequence[Name],
    delta: float,
    seed: int | None,
    one_by_one: bool = False,
    groups: Name | None = None,
) -> list[str]:
    """Return under which conditions a swap's guarantee holds, and what it does not cover."""
    said = [
        SWAP_READERS,
        "People are exchangeable given the list of their rows: who they are, their order and their "
        "ids tell nothing of their rows.",
        "The rows themselves, without their owners, are published unchanged. Where a person is "
        "known by a row that nobody else has, the table tells whose row it was, though not who "
        "holds it: name columns by which people are found in known=, or do not swap.",
        "Who knows other people's rows or secrets learns more, above all in small tables: where "
        "the owner of a row is known, its holder is seen to have been moved.",
        *(_ONE_BY_ONE if one_by_one else _IN_TABLES),
        "The classifier decides what it makes of missing values and of values that fit has not "
        "seen; nothing is refused for them.",
        about_secrets(sensitive),
        f"Only column(s) {_every(released)} are exchanged; the number of rows, their order, their "
        "index and the types of the columns are released unchanged.",
        "The fitted noiser holds counts of secrets and models learnt from them: keep it where you "
        "keep the table. Realised flows are kept nowhere.",
    ]
    if groups is not None:
        said.append(
            f"The rows of a group of {shown(groups)} are exchanged as a whole, in their order, "
            "among groups of as many rows. The number of rows, which is taken as known, their ids "
            "and their positions in the table stay with the owners. There is no release by row_id=."
        )
    if missing:
        said.append(f"{_every(missing)} have missing values, which are exchanged like others.")
    if passed:
        said.append(
            f"{_every(passed)} are passed through, and stay with their owners: rows are exchanged "
            "within their values alone. A column joined later by owner is not covered."
        )
    if delta > 0.0:
        said.append(f"{_sentence(about_delta(delta, 'cells'))}.")
    if seed is not None:
        said.append(about_seed(seed, "swap", "undo it"))
    return said
