"""From a table to a plan: split, fit few settings on one part, measure them on the other."""

from __future__ import annotations

import copy
import inspect
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from numbers import Real
from time import monotonic
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.utils import shuffle

from sklearn_puffer._base import (
    Array,
    __version__,
    check_choice,
    check_count,
    check_positive,
    check_same_index,
    check_verbose,
    counted,
    listed,
    listening,
    meant,
    on_one_line,
    quoted,
    utc_now,
)
from sklearn_puffer._noiser import PufferfishNoiser
from sklearn_puffer._review import measured
from sklearn_puffer._review.attack import Groups, attackers_of, boosted, seen
from sklearn_puffer._review.exact_tests import Budget
from sklearn_puffer._review.measured import (
    Attacked,
    Secrets,
    Task,
    about_secrets,
    in_memory,
    known_rows,
    rare_secrets,
    rows_without,
    secrets_of,
    task_of,
    with_intervals,
)
from sklearn_puffer._review.plan import (
    Candidate,
    ColumnFacts,
    Plan,
    Row,
    candidates_of,
    ranked,
    read_columns,
    without_odd_gaps,
)
from sklearn_puffer._tables import (
    Name,
    Table,
    check_few,
    date_columns,
    frame_table,
    public_columns,
    recoded,
    resolve,
)

_FITTED, _MEASURED = 12_000, 8_000  # rows that settings are fitted to, and measured on
_OWN = ("epsilon", "sensitive", "public", "verbose", "random_state", "on_uncertified", "max_rows")
_WEIGHT = re.compile(r"(^|[_\W])w(t|gt|eight)s?($|[_\W\d])|fnlwgt|weight", re.IGNORECASE)
_ALIKE = 0.01  # scores of a task that differ by less are alike
_DRIFT = 0.55  # an AUC between table and hold-out, above which they are told apart


@dataclass(frozen=True, eq=False)
class Measurer:
    """The rows that settings are fitted to and measured on, and what is measured.

    Rows of a group lie in one half. Where the guarantee is for ``whole`` groups, these are
    attacked. ``lone`` has one row of each group, of the fitted rows and of those held out.
    """

    fitted: Any
    held: Any
    columns: Sequence[Name]
    sensitive: Sequence[Name]
    secrets: Sequence[Secrets]
    halves: tuple[Array, Array]
    task: Task | None
    allowed: float
    seed: int
    lone: tuple[Array, Array]
    groups: Groups | None = None
    whole: bool = False

    def fit(self, candidate: Candidate) -> Any:
        """Return the fitted noiser of a candidate."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return PufferfishNoiser(candidate.epsilon, **candidate.params).fit(self.fitted)

    def released(self, noiser: Any) -> Any:
        """Return the rows that were held out as they would be released, the same each time."""
        noiser_copy = copy.copy(noiser)
        noiser_copy.random_state, noiser_copy.on_uncertified = self.seed, "raise"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return noiser_copy.transform(self.held)

    def measure(
        self, label: str, released: Any, *, copies: bool = True, blind: bool = False
    ) -> Row:
        """Return the figures of released rows; ``blind`` where there is nothing to attack."""
        change, equal = measured.changes(self.held, released, self.columns)
        part, rows = np.sort(np.concatenate(self.halves)), equal.all(axis=1)
        after, before = (seen(f.iloc[part], self.columns) for f in (released, self.held))
        local, attack, score = replace(self.local(part), held=before), None, math.nan
        if not blind:
            attack = local.attacked(after, attackers_of(None), copies=copies)
        if local.task is not None:
            score = measured.task_score(local.task, before, after, local.halves)
        return Row(
            label=label,
            change=change,
            equal=float(equal.mean()),
            rows_equal=float(rows.mean()),
            attack=attack,
            allowed=self.allowed,
            task=score,
            payer=self._payer(rows),
            groups=measured.groups(released, self.columns),
        )

    def attacked(self, seen: Any, attackers: Mapping[str, Any], *, copies: bool) -> Attacked:
        """Return the best attack on released rows, or on groups of them, as `seen` has."""
        groups = self.groups
        if groups is None or not self.whole:
            codes = None if groups is None else groups.codes
            return measured.attacked(
                seen, self.secrets, self.halves, attackers, copies=copies, groups=codes
            )
        secrets = _of_rows(self.secrets, groups.wide.first)
        halves = groups.among(self.halves[0]), groups.among(self.halves[1])
        more = groups.attackers(attackers, list(seen.columns))
        return measured.attacked(groups.seen(seen), secrets, halves, more, copies=copies)

    def local(self, part: Array) -> Measurer:
        """Return the same with rows numbered within the part that is measured."""
        return replace(
            self,
            secrets=_of_rows(self.secrets, part),
            halves=(np.searchsorted(part, self.halves[0]), np.searchsorted(part, self.halves[1])),
            task=None if self.task is None else self.task.of(part),
            groups=None if self.groups is None else self.groups.of_rows(part),
        )

    def _payer(self, equal: Array) -> tuple[Name, Any, float]:
        """Return the secret whose rows stay least often, and how often they do."""
        shares = [
            (float(equal[secret.codes == code].mean()), secret.name, secret.labels[code])
            for secret in self.secrets
            for code in np.unique(secret.codes[secret.codes >= 0])
        ]
        share, name, label = min(shares, key=lambda share_of: share_of[0])
        return name, label, share

    def tried(self, candidate: Candidate) -> Row:
        """Return what comes of a candidate; an error of its fit is a result, too."""
        began = monotonic()
        try:
            noiser = self.fit(candidate)
            released = self.released(noiser)
        except (TypeError, ValueError, ArithmeticError, RuntimeError, ModuleNotFoundError) as error:
            reason = on_one_line(error)
            return Row(candidate.label, candidate, "refused", reason, seconds=monotonic() - began)
        seconds = monotonic() - began
        trial = self.measure(candidate.label, released)
        certificate = noiser.certificate_
        row = replace(
            trial, candidate=candidate, noiser=noiser, loss=certificate.loss, seconds=seconds
        )
        return row.judged(holds=certificate.holds)


def plan(
    table: Any,
    sensitive: Any = None,
    *,
    public: Any = None,
    epsilon: float = 1.0,
    task: Any = None,
    holdout: Any = 0.4,
    groups: Any = None,
    max_group: int | str | None = None,
    lookup: Any = None,
    dates: str | None = None,
    max_rows: int | None = _FITTED,
    random_state: int = 0,
    verbose: int = 0,
    **settings: Any,
) -> Plan:
    r"""Fit few settings on one part of a table, and measure them on rows that nobody fitted.

    Every setting is fitted for real and releases the rows that were held out. Attackers learn on
    one half of these, and are judged on the other. Their figure is the area under the ROC curve
    (AUC) between the two secrets of the worst pair, beside what a guarantee allows:

    .. math:: \mathrm{AUC} \le 1 - \frac{(1 - \delta)^2}{1 + e^\varepsilon}.

    Nothing is released, and nothing is spent. All figures but the proven loss are estimates.

    Parameters
    ----------
    table : DataFrame
        In memory, of pandas, polars or pyarrow.
    sensitive : str, int, list of these, or {column: bins, edges or None}
        The sensitive columns, as in `PufferfishNoiser`. Rows of values that fewer than 20 rows
        have are left out, and named in the notes.
    public : str, int or list of these, default=None
        The columns to release. None proposes all others but the task's and those that hold dates,
        cannot be read, or look like identifiers; text that does is left out even if it is named.
    epsilon : float, default=1.0
        The budget; `Plan.curve` has others.
    task : str or int, default=None
        A column that is to be predicted from released rows: neither sensitive nor released.
    holdout : float or DataFrame, default=0.4
        The share of the rows that are held out, by ``random_state``, or a table of such rows.
    groups : str, int or array-like of shape (n_rows,), default=None
        Rows of one group are all fitted or all held out, and learnt from or judged: visits of a
        patient, say.
    max_group : int or "count", default=None
        As in `PufferfishNoiser`: then settings guarantee, and attackers see, whole groups, of which
        ``groups`` names the column, and not single rows.
    lookup : str, int or list of these, default=None
        Columns by which people can be found: settings are also tried with all of them known.
    dates : "days" or None, default=None
        "days" reads dates as whole days since 1970-01-01, and durations as whole days.
    max_rows : int or None, default=12000
        Most rows that settings are fitted to, drawn by ``random_state``; None fits all. At most
        some 8,000 are attacked.
    random_state : int, default=0
        The seed of the split, of the halves, and of the releases that are measured. The same seed
        gives the same figures.
    verbose : int, default=0
        1 prints to standard error how far it has come. Ctrl-C keeps the settings that are done.
    **settings : dict
        Parameters of `PufferfishNoiser` that hold for every setting, such as ``noise=``,
        ``known=`` or ``n_bins=``; what they fix is not varied.

    Returns
    -------
    Plan
        ``table`` compares the settings; `Plan.noiser` is the noiser of a row, as it was measured.
        It is a function of the raw rows: keep it as you keep the table.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, its value and the way out, before anything is fitted. What a setting
        is refused for is told in its row.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_puffer import plan
    >>> table = load_diabetes(as_frame=True, scaled=False).data
    >>> found = plan(table, "sex", public=["bmi", "bp"], n_bins=5)
    >>> found.noiser(0).certificate_.holds
    True
    >>> found.table["setting"].tolist()[:2]
    ['the rows as they are', 'nothing but constants']
    """
    fixed = _checked(settings) | ({} if max_group is None else {"max_group": max_group})
    _check_whole(fixed, groups, holdout)
    epsilon = check_positive(epsilon, "epsilon", "choose one budget in nats; Plan.curve has others")
    if dates is not None:
        check_choice(dates, "dates", ["days"])
    seed = check_count(random_state, "random_state", minimum=0)
    check_same_index(groups, "groups", table, "table")
    frame = in_memory(table, "a plan")
    frame_table(frame, "table")  # which checks its labels
    held = None if isinstance(holdout, Real) else in_memory(holdout, "a plan")
    days = tuple(date_columns(frame)) if dates else ()
    frame = recoded(frame, days=days)
    held = held if held is None else recoded(held, days=days)
    source = frame_table(frame)
    hidden, asked = _named(source, sensitive, public)
    frame, held = with_intervals(frame, held, sensitive)
    if "secret_pairs" not in fixed:
        for name in hidden:
            check_few(name, len(secrets_of(frame, name).labels))
    rare = rare_secrets(frame, hidden)
    kept = rows_without(frame, rare)
    if groups is not None and not _is_name(groups) and not kept.all():
        groups = _groups(frame, groups)[kept]
    frame, held = frame[kept], held if held is None else held[rows_without(held, rare)]
    source = frame_table(frame)
    aim = _task_name(source, task, hidden, asked)
    timed = [name for name in date_columns(frame) if name not in days]
    orders = fixed.get("categories") or {}
    facts = without_odd_gaps(read_columns(source, hidden, asked, timed, days, orders))
    grouping = resolve(groups, source.names, "groups") if _is_name(groups) else []
    for each in (*grouping, *([] if aim is None else [aim])):
        facts = [replace(e, use="not asked for") if e.name == each else e for e in facts]
    names = [each.name for each in facts if each.use == "release"]
    if not names:
        raise ValueError(
            "no column is proposed for the release: each is sensitive, a task, or looks like an "
            "identifier or a date; name those to release in public=."
        )
    looked = [] if lookup is None else resolve(lookup, source.names, "lookup")
    if strange := [name for name in looked if name not in names]:
        raise ValueError(
            f"lookup names column {quoted(strange[0])}, which is not released; the released "
            f"columns are {listed(names, 10)}."
        )
    fixed.setdefault("missing", _missing(facts))
    fixed.setdefault("unknown", "nearest")
    with listening(check_verbose(verbose), "plan"):
        frames, codes = _split(frame, held, holdout, groups, seed)
        fixed |= {"sensitive": hidden, "public": names}
        fixed |= {"groups": grouping[0]} if "max_group" in fixed else {}
        measurer = _measurer(frames, codes, hidden, names, aim, fixed, epsilon, max_rows, seed)
        facts = _with_constants(facts, frames[1])
        found = _plan(measurer, facts, fixed, epsilon, looked, days, frames, holdout)
        return replace(found, notes=(*about_secrets(sensitive, source, rare), *found.notes))


def _plan(
    measurer: Measurer,
    facts: Sequence[ColumnFacts],
    fixed: Mapping[str, Any],
    epsilon: float,
    looked: Sequence[Name],
    days: tuple[Name, ...],
    frames: tuple[Any, Any],
    holdout: Any,
) -> Plan:
    proposed = [each for each in facts if each.use == "release"]
    raw = measurer.measure("the rows as they are", measurer.held[list(measurer.columns)])
    blank = measured.constants(measurer.held, measurer.columns)
    bare = measurer.measure("nothing but constants", blank, blind=True)
    rows = _tried(measurer, candidates_of(epsilon, fixed, proposed, looked))
    rows = ranked(rows, bare, max(_ALIKE, 1.0 / math.sqrt(sum(map(len, measurer.halves)))))
    kept = [row for row in rows if row.verdict == "holds"]
    useful = any(row.change <= bare.change for row in kept)
    return Plan(
        sensitive=tuple(measurer.sensitive),
        facts=tuple(facts),
        raw=raw,
        bare=bare,
        trials=tuple(rows),
        out=() if useful else tuple(_ways_out(measurer, rows, bare)),
        notes=tuple(_notes(measurer, proposed, frames, holdout, kept)),
        epsilon=epsilon,
        task=None if measurer.task is None else measurer.task.name,
        score="R2" if measurer.task is not None and is_regressor(measurer.task.model) else "AUC",
        base=_base(measurer.task),
        n_rows=len(frames[0]) + len(frames[1]) * isinstance(holdout, Real),
        n_fitted=len(measurer.fitted),
        n_held=len(measurer.held),
        seed=measurer.seed,
        days=days,
        measurer=measurer,
        version=__version__,
        date=utc_now(),
    )


def _tried(measurer: Measurer, candidates: Sequence[Candidate]) -> list[Row]:
    """Return what comes of candidates; Ctrl-C leaves the rest as not tried."""
    rows: list[Row] = []
    try:
        rows.extend(measurer.tried(each) for each in counted(candidates, "settings"))
    except KeyboardInterrupt:
        rows += [Row(e.label, e, "not tried", "interrupted") for e in candidates[len(rows) :]]
    return rows


def _ways_out(measurer: Measurer, rows: Sequence[Row], bare: Row) -> list[str]:
    """Return what keeps both, measured: more epsilon, or a column less."""
    first = next((row.candidate for row in rows if row.noiser is not None), None)
    if first is None:
        return []
    more = 2.0 * first.epsilon
    allowed = _promised(more, first.params).auc()
    tried = [(f"take epsilon {more:g}", replace(measurer, allowed=allowed), more)]
    if len(measurer.columns) > 1:
        name = _most_telling(measurer)
        left = [column for column in measurer.columns if column != name]
        tried.append(
            (f"give up column {quoted(name)}", replace(measurer, columns=left), first.epsilon)
        )
    ways = []
    for advice, reduced, epsilon in tried:
        params = {**first.params, "public": list(reduced.columns)}
        row = reduced.tried(replace(first, epsilon=epsilon, params=params))
        if row.verdict == "holds" and row.change <= bare.change:
            ways.append(
                f"{advice} ({first.label}: estimated AUC {row.ends[0]:.3f} where {row.allowed:.3f} "
                f"is allowed, change {row.change:.3g})"
            )
    return ways


def _most_telling(measurer: Measurer) -> Name:
    """Return the column that tells most of a secret by itself."""
    part = np.sort(np.concatenate(measurer.halves))
    local = measurer.local(part)
    rows = seen(measurer.held.iloc[part], measurer.columns)
    alone = {
        name: local.attacked(rows[[name]], {"boosted": boosted(60)}, copies=False).auc
        for name in counted(list(measurer.columns), "columns")
    }
    return max(alone, key=lambda name: alone[name])


# -------------------------------------------------------------------------------------- the rows


_Codes = tuple[Array | None, Array | None]


def _split(
    frame: Any, held: Any, holdout: Any, groups: Any, seed: int
) -> tuple[tuple[Any, Any], _Codes]:
    """Return the rows to fit and those that are held out, and the groups of either, if any."""
    of = None if groups is None else _groups(frame, groups)
    if held is not None:
        absent = [name for name in frame.columns if name not in held.columns]
        if absent:
            raise ValueError(
                f"holdout lacks column {quoted(absent[0])} of table; give rows with the same "
                "columns, or the share of the rows to hold out."
            )
        return (frame, held), (of, None if of is None else _groups(held, groups))
    if isinstance(holdout, bool) or not 0.0 < float(holdout) < 1.0:
        raise ValueError(
            f"holdout={quoted(holdout)} is no share of the rows between 0 and 1; give one such as "
            "0.4, or a table."
        )
    kinds, group_of = np.unique(np.arange(len(frame)) if of is None else of, return_inverse=True)
    chosen = shuffle(np.arange(len(kinds)), random_state=seed)
    chosen = chosen[: round(float(holdout) * len(kinds))]
    out = np.isin(group_of, chosen)
    return (frame[~out], frame[out]), (None, None) if of is None else (of[~out], of[out])


def _is_name(groups: Any) -> bool:
    return groups is not None and np.ndim(groups) == 0


def _check_whole(fixed: Mapping[str, Any], groups: Any, holdout: Any) -> None:
    """Refuse groups that are to be guaranteed or held out and have no name."""
    if "max_group" in fixed and not _is_name(groups):
        raise ValueError(
            f"max_group={quoted(fixed['max_group'])} asks for a guarantee about whole groups, "
            "whose column groups= must name; name it, or leave max_group out."
        )
    if groups is not None and not _is_name(groups) and not isinstance(holdout, Real):
        raise ValueError(
            "groups holds those of the rows of table, and holdout has rows of its own; name a "
            "column of both."
        )


def _groups(frame: Any, groups: Any) -> Array:
    codes = np.asarray(
        groups if np.ndim(groups) else frame[resolve(groups, frame.columns, "groups")[0]]
    )
    if codes.shape != (len(frame),):
        raise ValueError(
            f"groups has shape {codes.shape} beside {len(frame)} rows; give the group of each row, "
            "or the name of a column."
        )
    return codes.astype(str)


def _measurer(
    frames: tuple[Any, Any],
    codes: _Codes,
    hidden: Sequence[Name],
    names: Sequence[Name],
    aim: Name | None,
    fixed: Mapping[str, Any],
    epsilon: float,
    max_rows: int | None,
    seed: int,
) -> Measurer:
    (fitted, held), of_fitted = frames, codes[0]
    if max_rows is not None and len(fitted) > check_count(max_rows, "max_rows", minimum=2):
        units = _of_table(len(fitted), of_fitted)  # of groups all rows or none
        order = shuffle(np.arange(len(units)), random_state=seed)
        few = int((np.cumsum(units.wide.sizes[order]) <= max_rows).sum())
        drawn = units.rows(order[: max(few, 1)])
        fitted, of_fitted = fitted.iloc[drawn], None if of_fitted is None else of_fitted[drawn]
    kept = [name for name in frames[0].columns if name in {*hidden, *names, fixed.get("groups")}]
    held = held.reset_index(drop=True)
    task = None if aim is None else task_of(aim, frame_table(held))
    groups = _of_table(len(held), codes[1])
    whole = "groups" in fixed
    secrets = [secrets_of(held, name) for name in hidden]
    chosen = _some(shuffle(np.arange(len(groups)), random_state=seed), secrets, groups)
    sides = np.sort(chosen[::2]), np.sort(chosen[1::2])
    halves = groups.rows(sides[0]), groups.rows(sides[1])
    judged = _of_rows(secrets, groups.wide.first) if whole else secrets
    pairs = [measured.pairs_to_attack(e, sides if whole else halves) for e in judged]
    _check_attackable([replace(e, pairs=p) for e, p in zip(judged, pairs, strict=True)])
    secrets = [replace(e, pairs=p) for e, p in zip(secrets, pairs, strict=True)]
    return Measurer(
        fitted[kept],
        held,
        names,
        hidden,
        secrets,
        halves,
        task,
        _promised(epsilon, fixed).auc(),
        seed,
        (_of_table(len(fitted), of_fitted).wide.first, groups.wide.first),
        None if codes[1] is None else groups,
        whole,
    )


def _of_rows(secrets: Sequence[Secrets], rows: Array) -> list[Secrets]:
    return [replace(secret, codes=secret.codes[rows]) for secret in secrets]


def _promised(epsilon: float, params: Mapping[str, Any]) -> Budget:
    return Budget(epsilon, params.get("delta", 0.0), params.get("alpha"))


def _of_table(n_rows: int, codes: Array | None) -> Groups:
    """Return the groups of so many rows, each by itself where there are none."""
    return Groups.of(np.arange(n_rows) if codes is None else codes)


def _some(order: Array, secrets: Sequence[Secrets], groups: Groups) -> Array:
    """Return groups of rows to measure: those of some thousand rows, and more of rare secrets."""
    chosen = order[: _MEASURED * len(order) // int(groups.wide.sizes.sum())]
    for secret in secrets:
        codes = secret.codes[groups.wide.first]
        for code in range(len(secret.labels)):
            rare = order[codes[order] == code][:400]
            chosen = np.concatenate([chosen, np.setdiff1d(rare, chosen)])
    return chosen


def _check_attackable(secrets: Sequence[Secrets]) -> None:
    """Refuse a hold-out in which no pair of secrets has rows enough."""
    for secret in secrets:
        counts = np.bincount(secret.codes[secret.codes >= 0], minlength=len(secret.labels))
        if len(secret.labels) < 2:
            raise ValueError(
                f"sensitive column {quoted(secret.name)} has one value only among the rows held "
                "out: there is nothing to protect, or other values are rare; give a larger holdout."
            )
        wide = [measured.half_width(int(counts[i]), int(counts[j])) for i, j in secret.pairs]
        if not wide or min(wide) > measured.WIDEST:
            few, most = np.sort(counts)[-2], np.sort(counts)[-1]
            needed = next(
                n for n in range(1, 10**6) if measured.half_width(n, n) <= measured.WIDEST
            )
            raise ValueError(
                f"holdout has {few} and {most} rows of the most frequent values of "
                f"{quoted(secret.name)}, too few to attack: about {needed} of each make an AUC "
                f"known to {measured.WIDEST:g}; give more rows, a larger holdout=, or merge rare "
                "values."
            )


# ------------------------------------------------------------------------------- what is asked for


def _named(source: Table, sensitive: Any, public: Any) -> tuple[list[Name], list[Name] | None]:
    """Return the sensitive columns, and the public ones where they are asked for."""
    if sensitive is None:
        raise ValueError(
            'sensitive is missing; name the columns to protect, such as sensitive="race".'
        )
    hidden = resolve(sensitive, source.names, "sensitive")
    released = public_columns(public, source.names, hidden)
    return hidden, None if public is None else released


def _task_name(
    source: Table, task: Any, hidden: Sequence[Name], released: Sequence[Name] | None
) -> Name | None:
    if task is None:
        return None
    (name,) = resolve([task], source.names, "task")
    for what, names in (("sensitive", hidden), ("released", released or ())):
        if name in names:
            raise ValueError(
                f"task={quoted(name)} is also {what}, so that its score would say nothing of the "
                f"other columns; name another column, or take it out of the {what} ones."
            )
    return name


def _missing(facts: Sequence[ColumnFacts]) -> str:
    """Return what is done about missing values: numbers have no other place for them."""
    gaps = [fact for fact in facts if fact.missing and fact.use in ("sensitive", "release")]
    if not gaps:
        return "error"
    numbers = any(fact.numeric for fact in gaps if fact.use == "release")
    return "propagate" if numbers else "category"


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that hold for all candidates, after a check of their names."""
    if "time_limit" in settings:
        raise TypeError(
            "time_limit is gone: no figure of a plan depends on the clock; max_rows= says how many "
            "rows are fitted, and Ctrl-C keeps the settings that are done."
        )
    known = [n for n in inspect.signature(PufferfishNoiser).parameters if n not in _OWN]
    for name in settings:
        if name not in known:
            raise TypeError(
                f"plan has no setting {quoted(name)}{meant(name, known)}; those that can be fixed "
                f"are {listed(known, len(known))}."
            )
    return dict(settings)


# --------------------------------------------------------------------------- what stewards ask for


def _base(task: Task | None) -> float:
    """Return the share of the most frequent class; 0, the R^2 of a constant, of a number."""
    if task is None or is_regressor(task.model):
        return 0.0
    known = task.target[known_rows(task.target)]
    return float(np.unique(known, return_counts=True)[1].max() / len(known))


def _with_constants(facts: Sequence[ColumnFacts], held: Any) -> list[ColumnFacts]:
    """Return the columns with what a constant in their place changes."""
    names = [fact.name for fact in facts if fact.use == "release"]
    blank = measured.constants(held, names)
    change = {name: measured.changes(held, blank, [name])[0] for name in names}
    return [replace(fact, constant=change.get(fact.name, fact.constant)) for fact in facts]


def _notes(
    measurer: Measurer,
    columns: Sequence[ColumnFacts],
    frames: tuple[Any, Any],
    holdout: Any,
    kept: Sequence[Row],
) -> list[str]:
    """Return what there is to know of the rows, in sentences."""
    return [
        *_rare(measurer),
        *_of_groups(measurer),
        *([] if isinstance(holdout, Real) else _drift(measurer)),
        *_odd_columns(measurer.held, columns),
    ]


def _of_groups(measurer: Measurer) -> list[str]:
    if measurer.groups is None:
        return []
    if measurer.whole:
        return [
            "guarantees and attacks are about all rows of a group together, and changes about "
            "single rows; attackers see how many rows a group has, which no setting hides."
        ]
    return [
        "groups= keeps the rows of a group on one side, but figures and guarantees are those of "
        "single rows; max_group= makes guarantees about all rows of a group together."
    ]


def _rare(measurer: Measurer) -> list[str]:
    said = []
    for secret in measurer.secrets:
        attacked = {code for pair in secret.pairs for code in pair}
        few = [label for code, label in enumerate(secret.labels) if code not in attacked]
        if few:
            said.append(
                f"values of {quoted(secret.name)} with too few rows held out to be attacked: "
                f"{listed(few, 5)}; merge them, or give more rows."
            )
    return said


def _drift(measurer: Measurer) -> list[str]:
    """Name a hold-out that a model tells from the table, and the column by which it does best."""
    few = min(*map(len, measurer.lone), _MEASURED // 2)
    both = []
    for frame, rows in zip((measurer.fitted, measurer.held), measurer.lone, strict=True):
        half = rows[measured.halves_of(len(rows), measurer.seed)[0]]
        both.append(frame[list(measurer.columns)].iloc[half[:few]])
    codes = np.repeat([0, 1], [len(frame) for frame in both])
    rows = seen(measured.stacked(both), measurer.columns)
    which = Secrets("table", ["fitted", "held out"], codes, [(0, 1)])
    halves = measured.halves_of(len(codes), measurer.seed)
    trees = {"boosted": boosted(60)}
    attack = measured.attacked(rows, [which], halves, trees, copies=False)
    if attack.low <= _DRIFT:
        return []
    alone = {
        name: measured.attacked(rows[[name]], [which], halves, trees, copies=False).auc
        for name in counted(list(measurer.columns), "columns")
    }
    worst = max(alone, key=lambda name: alone[name])
    return [
        "holdout follows another distribution than table: a model tells them apart (AUC "
        f"{attack.auc:.2f}), best by {quoted(worst)} ({alone[worst]:.2f}); figures are about "
        "holdout, and the guarantee about rows like those of table."
    ]


def _odd_columns(held: Any, columns: Sequence[ColumnFacts]) -> list[str]:
    """Name columns that are weights, and those that say what others say."""
    said = [
        f"{quoted(fact.name)} looks like a weight of rows, which says how they were drawn: leave "
        "it out unless it is needed."
        for fact in columns
        if fact.numeric and isinstance(fact.name, str) and _WEIGHT.search(fact.name)
    ]
    few = [fact.name for fact in columns if 1 < fact.distinct <= len(held) // 10]
    values = {name: held.groupby(name, dropna=False, observed=True).ngroup() for name in few}
    counts = {name: int(codes.nunique()) for name, codes in values.items()}
    for a, b in combinations(few, 2):
        if counts[a] == counts[b]:
            pairs = len(np.unique(values[a].to_numpy() * (counts[b] + 1) + values[b].to_numpy()))
            if pairs == counts[a]:
                said.append(f"{quoted(a)} says what {quoted(b)} says: release one of them.")
    return said
