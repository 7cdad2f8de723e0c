"""What asks for most of the noise, or ends what can be proven: sentences about one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sklearn_puffer._base import listed, quoted
from sklearn_puffer._releases import sentences
from sklearn_puffer._signoff.candidates import COARSE, Scope
from sklearn_puffer._signoff.columns import ColumnFacts
from sklearn_puffer._signoff.trials import Trial
from sklearn_puffer._tables import Name
from sklearn_puffer.accounting import MAX_CELLS
from sklearn_puffer.calibration import rows_needed

_MOST = 0.5  # of what all columns ask for by themselves
_SPARED = 1 / 3  # of the noise of the others
_CELLS = 2  # of the smallest alphabet there is


def costly_column(columns: Sequence[ColumnFacts]) -> ColumnFacts | None:
    """Return the column that asks for most of the noise, if one does."""
    noisy = [column for column in columns if column.share > _MOST]
    return noisy[0] if noisy and len(columns) > 1 else None


def cliffs_of(
    scope: Scope,
    columns: Sequence[ColumnFacts],
    counts: Mapping[Name, Mapping[Any, int]],
    trials: Sequence[Trial],
    middle: float,
) -> list[str]:
    """Return what there is to know before a release, in sentences.

    Parameters
    ----------
    scope : Scope
    columns : sequence of ColumnFacts
        The proposed ones, with what each asks for.
    counts : mapping
        {sensitive column: {value: its rows in the whole table}}.
    trials : sequence of Trial
    middle : float
        The budget at which columns were looked at by themselves.
    """
    return [
        *_single_value(counts),
        *_noise(columns, trials, middle),
        *_cells(scope),
        *_few_rows(counts, min(scope.epsilons)),
        *_single_rows(trials),
        *_worthless(scope, trials),
    ]


def _single_value(counts: Mapping[Name, Mapping[Any, int]]) -> Iterator[str]:
    for name, values in counts.items():
        if len(values) == 1:
            yield f"sensitive column {quoted(name)} has one value only: there is nothing to protect"


def _noise(columns: Sequence[ColumnFacts], trials: Sequence[Trial], middle: float) -> Iterator[str]:
    """Yield which column asks for most of the noise, if the others need less without it."""
    column = costly_column(columns)
    if column is None:
        return
    with_it, without_it = _noises(trials, column.name)
    if not with_it:
        yield (
            f"{quoted(column.name)} alone asks for {column.share:.0%} of the noise: of all that "
            f"{len(columns)} columns ask for, each by itself, under Laplace noise in {COARSE} bins "
            f"at epsilon {middle:g}"
        )
    elif without_it < (1.0 - _SPARED) * with_it:
        yield (
            f"{quoted(column.name)} alone asks for {1.0 - without_it / with_it:.0%} of the noise: "
            f"without it the other columns get {without_it:.3g} standard deviations instead of "
            f"{with_it:.3g} (by itself it asks for {column.noise:.3g})"
        )


def _noises(trials: Sequence[Trial], name: Name) -> tuple[float, float]:
    """Return the noise of two settings that differ in a column that is left out; 0 if unknown."""
    fitted = [trial for trial in trials if trial.fitted and trial.noise > 0.0]
    for other in fitted:
        if other.candidate.left_out == (name,):
            own = other.candidate
            label = own.label.removesuffix(f", without {quoted(name)}")
            for trial in fitted:
                if (trial.candidate.epsilon, trial.candidate.label) == (own.epsilon, label):
                    return trial.noise, other.noise
    return 0.0, 0.0


def _cells(scope: Scope) -> Iterator[str]:
    if not scope.wide:
        return
    yield (
        f"{len(scope.columns)} columns span {scope.cells(COARSE):.2g} cells even with {COARSE} "
        f"bins, and losses of rows are exact up to {MAX_CELLS:,}: noise on the row as a whole "
        'rests on a proven bound, which asks for more of it; noise="swap" does not, and neither '
        "do fewer columns"
    )


def _few_rows(counts: Mapping[Name, Mapping[Any, int]], epsilon: float) -> Iterator[str]:
    needed = rows_needed(_CELLS, epsilon=epsilon)
    for name, values in counts.items():
        few = {value: count for value, count in values.items() if count < needed * _CELLS}
        if few:
            rows = ", ".join(f"{quoted(value)} ({count})" for value, count in few.items())
            yield (
                f"values of {quoted(name)} with few rows: {rows}; with fewer than {needed} in each "
                f"of {_CELLS} cells, sampling error alone takes more than epsilon {epsilon:g}: "
                "what is counted of them is not known, so merge them or ask for a confidence set"
            )


def _single_rows(trials: Sequence[Trial]) -> Iterator[str]:
    thin = [t for t in trials if any(sentences.OCCUR_ONCE in said for said in t.warnings)]
    labels = list(dict.fromkeys(trial.candidate.label for trial in thin))
    if labels:
        yield (
            f"most rows occur once in {len(labels)} settings ({'; '.join(labels[:3])}): the law "
            "counted from them is this table and not the population, and a promise against it says "
            'little about what can be learnt; take fewer bins or columns, or noise="swap"'
        )


def _worthless(scope: Scope, trials: Sequence[Trial]) -> Iterator[str]:
    noises = {epsilon: _plain_noises(trials, epsilon, scope.promise) for epsilon in scope.epsilons}
    budgets = [f"{epsilon:g}" for epsilon, own in noises.items() if _all_worse(own, scope)]
    if budgets:
        yield (
            f"at epsilon {', '.join(budgets)} every noise tried on the row as a whole changes "
            "every column more than a constant in its place, unless it is remapped: "
            f"{listed(list(scope.names), 3)}"
        )


def _all_worse(trials: Sequence[Trial], scope: Scope) -> bool:
    return bool(trials) and all(trial.worse == len(scope.columns) for trial in trials)


def _plain_noises(trials: Sequence[Trial], epsilon: float, promise: str) -> list[Trial]:
    """Return what came of noise on all proposed columns together, as it is."""
    noises = [t for t in trials if t.fitted and not t.candidate.is_channel]
    whole = [t for t in noises if t.candidate.promise == promise and not t.candidate.left_out]
    native = [t for t in whole if t.candidate.params.get("output", "native") != "remapped"]
    return [trial for trial in native if trial.candidate.epsilon == epsilon]
