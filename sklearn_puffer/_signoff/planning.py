"""From a table to a plan: read, sample, look at columns, try settings, sum up."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from sklearn_puffer._base import (
    __version__,
    check_choice,
    check_count,
    check_positive,
    check_verbose,
    counted,
    listed,
    listening,
    meant,
    plain,
    quoted,
    utc_now,
)
from sklearn_puffer._noiser import PufferfishNoiser
from sklearn_puffer._signoff.alone import with_shares
from sklearn_puffer._signoff.candidates import Scope, candidates_of, without
from sklearn_puffer._signoff.cliffs import cliffs_of, costly_column
from sklearn_puffer._signoff.columns import ColumnFacts, read_columns, without_odd_gaps
from sklearn_puffer._signoff.plan import Plan
from sklearn_puffer._signoff.rows import in_memory
from sklearn_puffer._signoff.trials import Clock, Trial, tried
from sklearn_puffer._tables import (
    Name,
    Table,
    canonical_rows,
    date_columns,
    frame_table,
    present,
    public_columns,
    recoded,
    resolve,
)

_WORK = 500_000  # rows times columns squared that a fit takes about a second for
_LEAST_ROWS = 1_000
_OWN = ("epsilon", "sensitive", "public", "verbose", "random_state", "on_uncertified", "max_rows")


def plan(
    table: Any,
    sensitive: Any = None,
    *,
    public: Any = None,
    epsilon: Any = (0.5, 1.0, 2.0),
    dates: str | None = None,
    max_rows: int | str | None = "auto",
    time_limit: float | None = 60.0,
    verbose: int = 0,
    **settings: Any,
) -> Plan:
    """Compare settings on a table before anything is released: a dry run, which spends nothing.

    Every setting is fitted for real, and its certificate and expected changes are computed from
    the laws: no noise is drawn, and no row released. Settings are noises and the optimal channel,
    bins, strategies, column groups, fewer or merged secrets and confidence sets.

    Parameters
    ----------
    table : DataFrame
        In memory, of pandas, polars or pyarrow.
    sensitive : str, int or list of these
        The sensitive columns, as in `PufferfishNoiser`.
    public : str, int or list of these, default=None
        The columns to release, whatever they look like. None proposes all others but those that
        look like identifiers, hold dates, or cannot be read; the plan says which and why.
    epsilon : float or list of float, default=(0.5, 1.0, 2.0)
        The budgets to compare.
    dates : "days" or None, default=None
        "days" reads dates as whole days since 1970-01-01, and durations as whole days.
    max_rows : int, "auto" or None, default="auto"
        Most rows that settings are fitted to; of more, that many are chosen by what they hold,
        never by their order, each value of the sensitive columns with its share. "auto" takes as
        many as keep rows times columns squared within 500,000, and at least 1,000. None takes all.
    time_limit : float or None, default=60.0
        Seconds after which no setting is begun, and fits end at their next report; what was found
        until then is returned, and the others are listed as not tried. None for no limit.
    verbose : int, default=0
        1 prints to standard error how far it has come.
    **settings : dict
        Parameters of `PufferfishNoiser` that hold for every setting, such as ``delta=1e-5``,
        ``categories=``, ``known=`` or ``n_bins=``; what they fix is not varied.

    Returns
    -------
    Plan
        ``table`` compares the settings, ``columns`` says what each column is, ``cliffs`` what to
        know before; `Plan.noiser` is the estimator of a row, and `Plan.why` says what it does.
        It is a function of the raw rows: keep it as you keep the table.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, its value and the way out, before anything is fitted. What a setting
        is refused for is told in its row.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import plan
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 300
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 1500, "cars": cars, "id": range(3000)})
    >>> found = plan(table, sensitive="loan", epsilon=[0.5, 1.0], time_limit=None)
    >>> found.columns["use"].to_dict()
    {'loan': 'sensitive', 'cars': 'release', 'id': 'leave out'}
    >>> found.table.loc[found.table["best"], ["epsilon", "setting", "unchanged"]].round(3).head(2)
       epsilon          setting  unchanged
    0      1.0  optimal channel      0.879
    2      0.5  optimal channel      0.824
    >>> print(found.why(0).partition(";")[0])
    At epsilon 1, optimal channel (whole row) changes a value by 0.0387 standard deviations on \
average and leaves 88% of the values as they are
    """
    budgets = _budgets(epsilon)
    limit = _time_limit(time_limit)
    fixed = _checked(settings)
    if dates is not None:
        check_choice(dates, "dates", ["days"])
    frame = _frame(table)
    with listening(check_verbose(verbose), "plan"):
        return _plan(frame, sensitive, public, budgets, dates, max_rows, Clock(limit), fixed)


def _plan(
    frame: Any,
    sensitive: Any,
    public: Any,
    budgets: tuple[float, ...],
    dates: str | None,
    max_rows: Any,
    clock: Clock,
    fixed: dict[str, Any],
) -> Plan:
    frame_table(frame, "table")  # which checks its labels
    timed = date_columns(frame)
    days = tuple(timed) if dates else ()
    frame = recoded(frame, days=days)
    source = frame_table(frame)
    hidden, asked = _named(source, sensitive, public)
    orders = fixed.get("categories") or {}
    left = [name for name in timed if name not in days]
    facts = without_odd_gaps(read_columns(source, hidden, asked, left, days, orders))
    proposed = [each for each in facts if each.use == "release"]
    fixed.setdefault("missing", _missing(facts))
    counts = {name: _tally(source, name) for name in hidden}
    part = _part(source, frame, hidden, proposed, max_rows)
    middle = sorted(budgets)[(len(budgets) - 1) // 2]
    proposed = with_shares(proposed, hidden, middle, fixed, part, clock)
    gaps = any(each.missing for each in facts if each.use == "sensitive")
    scope = _scope(hidden, proposed, budgets, fixed, counts, len(part))
    scope = replace(scope, gaps_in_secrets=gaps)
    trials = _trials(scope, part, clock)
    shared = {each.name: each for each in proposed}
    return Plan(
        sensitive=tuple(hidden),
        facts=tuple(shared.get(each.name, each) for each in facts),
        trials=tuple(sorted(trials, key=lambda trial: trial.order)),
        promise=scope.promise,
        cliffs=tuple(cliffs_of(scope, proposed, counts, trials, middle)),
        n_rows=source.n_rows,
        n_tried=len(part),
        days=tuple(name for name in days if name in shared or name in hidden),
        time_limit=clock.limit,
        version=__version__,
        date=utc_now(),
    )


def _trials(scope: Scope, frame: Any, clock: Clock) -> list[Trial]:
    """Return what came of all candidates, the cheap first."""
    if not scope.columns:
        return []
    costly = costly_column(scope.columns)
    candidates = candidates_of(scope) + (without(scope, costly.name) if costly else [])
    candidates.sort(key=lambda each: each.cost)
    return [tried(each, frame, scope.columns, clock) for each in counted(candidates, "settings")]


def _scope(
    hidden: Sequence[Name],
    proposed: Sequence[ColumnFacts],
    budgets: tuple[float, ...],
    fixed: Mapping[str, Any],
    counts: Mapping[Name, Mapping[Any, int]],
    n_rows: int,
) -> Scope:
    return Scope(
        sensitive=tuple(hidden),
        columns=tuple(proposed),
        epsilons=budgets,
        fixed=fixed,
        secrets={name: list(values) for name, values in counts.items()},
        n_rows=n_rows,
    )


def _frame(table: Any) -> Any:
    """Return the table as a pandas DataFrame, in memory."""
    frame = in_memory(table, "a plan")
    if len(frame) < 2:
        raise ValueError(
            f"table has {len(frame)} row(s) and a minimum of 2 is required; give more rows."
        )
    return frame


def _named(source: Table, sensitive: Any, public: Any) -> tuple[list[Name], list[Name] | None]:
    """Return the sensitive columns, and the public ones where they are asked for."""
    if sensitive is None:
        raise ValueError(
            'sensitive is missing; name the columns to protect, such as sensitive="race".'
        )
    hidden = resolve(sensitive, source.names, "sensitive")
    asked = public_columns(public, source.names, hidden)
    return hidden, None if public is None else asked


def _part(
    source: Table,
    frame: Any,
    hidden: Sequence[Name],
    proposed: Sequence[ColumnFacts],
    max_rows: Any,
) -> Any:
    """Return the rows that settings are fitted to, with the columns that they take."""
    names = [each.name for each in proposed]
    frame = frame[[name for name in source.names if name in {*hidden, *names}]]
    most = _most_rows(max_rows, len(names), source.n_rows)
    if most >= source.n_rows:
        return frame
    columns = [source.values(name) for name in names]
    rows = canonical_rows(columns, [source.values(name) for name in hidden], most)
    return frame.iloc[rows]


def _most_rows(max_rows: Any, n_columns: int, n_rows: int) -> int:
    if max_rows is None:
        return n_rows
    if isinstance(max_rows, str):
        check_choice(max_rows, "max_rows", ["auto"])
        return max(_LEAST_ROWS, _WORK // max(n_columns, 1) ** 2)
    return check_count(max_rows, "max_rows", minimum=2)


def _tally(source: Table, name: Name) -> dict[Any, int]:
    """Return how many rows each value of a sensitive column has, the most frequent first."""
    values = source.values(name)
    codes, counts = np.unique(present(values), return_counts=True)
    levels = values.levels
    labels = codes.tolist() if levels is None else [plain(levels[int(c)]) for c in codes]
    ranked = sorted(
        zip(counts.tolist(), range(len(labels)), strict=True), key=lambda x: (-x[0], x[1])
    )
    tally = {labels[k]: count for count, k in ranked}
    return tally | ({"missing": values.n_missing} if values.missing is not None else {})


def _missing(facts: Sequence[ColumnFacts]) -> str:
    """Return what is done about missing values: numbers have no other place for them."""
    gaps = [each for each in facts if each.missing and each.use in ("sensitive", "release")]
    if not gaps:
        return "error"
    if any(each.numeric for each in gaps if each.use == "release"):
        return "propagate"
    return "category"


def _budgets(epsilon: Any) -> tuple[float, ...]:
    given = [epsilon] if isinstance(epsilon, Real) else epsilon
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(
            f"epsilon must be a number or a list of numbers, got {quoted(epsilon)}; such as "
            "[0.5, 1.0, 2.0]."
        )
    budgets = tuple(check_positive(each, "epsilon", "choose a budget in nats") for each in given)
    if not budgets:
        raise ValueError("epsilon is empty; give at least one budget, such as 1.0.")
    return tuple(sorted(set(budgets)))


def _time_limit(limit: Any) -> float | None:
    if limit is None or (isinstance(limit, Real) and limit == 0 and not isinstance(limit, bool)):
        return None if limit is None else 0.0
    return check_positive(limit, "time_limit", "give seconds, or None for no limit")


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that hold for all candidates, after a check of their names."""
    known = [n for n in inspect.signature(PufferfishNoiser).parameters if n not in _OWN]
    for name in settings:
        if name not in known:
            raise TypeError(
                f"plan has no setting {quoted(name)}{meant(name, known)}; those that can be fixed "
                f"are {listed(known, len(known))}."
            )
    return dict(settings)
