"""Candidates are fitted for real, one after the other, until the time is over."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Literal

from sklearn_puffer._base import OutOfTimeError, on_one_line, until
from sklearn_puffer._noiser import PufferfishNoiser
from sklearn_puffer._signoff.candidates import Candidate
from sklearn_puffer._signoff.columns import ColumnFacts
from sklearn_puffer._tables import recoded

_TOO_WEAK = "the classifier knows too little to be an adversary"

Verdict = Literal["holds", "does not hold", "refused", "failed", "not tried"]


@dataclass(frozen=True)
class Trial:
    """What came of one candidate.

    Attributes
    ----------
    candidate : Candidate
    verdict : {"holds", "does not hold", "refused", "failed", "not tried"}
    reason : str
        Why it was refused or not tried, or what it failed with.
    change, unchanged : float
        The expected change of a value in standard deviations, and the share of values that come
        out as they were, averaged over the proposed columns; one left out counts as a constant.
    worse : int
        In how many columns a constant would change less.
    loss : float
        As the certificate has it.
    proven : str
        "exact", or "bound" where a theorem stands in for the exact loss.
    weak : bool
        Whether a classifier that is an adversary knows too little to be one.
    noise : float
        The noise of every column in its unit, its standard deviation; NaN of a channel.
    seconds : float
    warnings : tuple of str
        What `fit` warned of.
    """

    candidate: Candidate
    verdict: Verdict
    reason: str = ""
    change: float = math.nan
    unchanged: float = math.nan
    worse: int = 0
    loss: float = math.nan
    proven: str = ""
    weak: bool = False
    noise: float = math.nan
    seconds: float = field(default=0.0, compare=False)
    warnings: tuple[str, ...] = ()

    @property
    def fitted(self) -> bool:
        """Whether there are figures."""
        return self.verdict in ("holds", "does not hold")

    @property
    def order(self) -> tuple[Any, ...]:
        """What trials are sorted by: those that hold first, then by change, unchanged, budget."""
        last = {"holds": 0, "does not hold": 1, "refused": 3, "failed": 4, "not tried": 5}
        own = self.candidate
        weak = last["does not hold"] if self.weak else last[self.verdict]
        by = (self.change, -self.unchanged) if self.fitted else (0.0, 0.0)
        return weak, *by, own.epsilon, own.cost, own.label, own.promise


class Clock:
    """How much of the time is left, and how long a fit of one kind takes."""

    def __init__(self, limit: float | None) -> None:
        self.began = monotonic()
        self.limit = limit
        self._took: dict[tuple[str, str], float] = {}

    @property
    def ends(self) -> float:
        """When the time is over."""
        return math.inf if self.limit is None else self.began + self.limit

    @property
    def left(self) -> float:
        """The seconds left."""
        return self.ends - monotonic()

    def why_not(self, candidate: Candidate) -> str:
        """Return why there is no time for a candidate; nothing where there is."""
        if self.left <= 0.0:
            return f"the time limit of {self.limit:g} s was over"
        needed = self._took.get((candidate.label, candidate.promise), 0.0)
        if needed <= self.left:
            return ""
        return (
            f"it would take about {needed:.0f} s, as with another budget, and "
            f"{max(self.left, 1.0):.0f} s were left"
        )

    def note(self, candidate: Candidate, seconds: float) -> None:
        """Remember how long a candidate took."""
        self._took[candidate.label, candidate.promise] = seconds


def tried(candidate: Candidate, frame: Any, columns: Sequence[ColumnFacts], clock: Clock) -> Trial:
    """Return what comes of a candidate on a table; whatever a fit raises is a result.

    Nothing is released, and no noise drawn.
    """
    reason = clock.why_not(candidate)
    if reason:
        return Trial(candidate, "not tried", reason)
    began = monotonic()
    try:
        noiser, warned = fitted(candidate, frame, clock.ends)
    except OutOfTimeError:
        seconds = monotonic() - began
        clock.note(candidate, seconds)
        reason = f"the time limit of {clock.limit:g} s came after {seconds:.0f} s of its fit"
        return Trial(candidate, "not tried", reason, seconds=seconds)
    except (TypeError, ValueError, ModuleNotFoundError) as error:
        reason = on_one_line(error)
        return Trial(candidate, "refused", reason, seconds=monotonic() - began)
    except Exception as error:
        reason = on_one_line(f"{type(error).__name__}: {error}")
        return Trial(candidate, "failed", reason, seconds=monotonic() - began)
    seconds = monotonic() - began
    clock.note(candidate, seconds)
    return _with_figures(
        Trial(candidate, "holds", seconds=seconds, warnings=warned), noiser, columns
    )


def fitted(candidate: Candidate, frame: Any, ends: float) -> tuple[Any, tuple[str, ...]]:
    """Return the fitted noiser, and what it warned of."""
    noiser = PufferfishNoiser(candidate.epsilon, **candidate.params)
    with until(ends), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        noiser.fit(recoded(frame, merged=candidate.merged))
    return noiser, tuple(dict.fromkeys(str(each.message) for each in caught))


def _with_figures(trial: Trial, noiser: Any, columns: Sequence[ColumnFacts]) -> Trial:
    certificate = noiser.certificate_
    kept = {each.name: each for each in certificate.utility}
    varying = [column for column in columns if column.distinct > 1 or column.missing]
    changes = [_change(kept.get(column.name), column) for column in varying or columns]
    weak = any(facts.weak for facts in certificate.models)
    sources = {pair.source for pair in certificate.pairs}
    return Trial(
        trial.candidate,
        "holds" if certificate.holds else "does not hold",
        reason=_TOO_WEAK * weak if certificate.holds else certificate.remedy or "",
        change=_mean([change for change, _ in changes]),
        unchanged=_mean([unchanged for _, unchanged in changes]),
        worse=sum(each.worse for each in certificate.utility),
        loss=certificate.loss,
        proven="bound" if "theorem" in sources else "exact",
        weak=weak,
        noise=noise_of(certificate.columns, columns),
        seconds=trial.seconds,
        warnings=trial.warnings,
    )


def _change(kept: Any, column: ColumnFacts) -> tuple[float, float]:
    """Return by how much a column changes, and how much of it does not."""
    if kept is None:
        return column.constant, column.constant_unchanged
    return kept.change_sd, kept.unchanged


def noise_of(noises: Sequence[Any], columns: Sequence[ColumnFacts]) -> float:
    """Return the largest noise of columns in their units; NaN of none, as a channel has."""
    distinct = {column.name: column.distinct for column in columns}
    return max((_in_units(each, distinct[each.name]) for each in noises), default=math.nan)


def _in_units(noise: Any, distinct: int) -> float:
    """Return a scale in standard deviations, or in what stands for one of names without order."""
    return float(
        noise.relative / (math.log1p(distinct / math.expm1(0.5)) if noise.unordered else 1.0)
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def best_of(trials: Sequence[Trial]) -> Mapping[tuple[float, str], Trial]:
    """Return the best of each budget and promise, of sorted trials; no weak adversary counts."""
    best: dict[tuple[float, str], Trial] = {}
    for trial in trials:
        if trial.verdict == "holds" and not trial.weak:
            best.setdefault((trial.candidate.epsilon, trial.candidate.promise), trial)
    return best
