"""`plan`: settings of the three estimators, tried on rows that nobody fitted."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import shuffle

from sklearn_puffer._base import check_count, check_positive, check_verbose, counted, listening
from sklearn_puffer._codes import (
    WAY_OF_TEXT,
    SecretRule,
    bins_of,
    edges_of,
    identifier_kind,
    public_columns,
    refuse_values,
    resolve,
    secret_pairs_of,
)
from sklearn_puffer._documents import __version__, utc_now
from sklearn_puffer._microaggregator import PufferfishMicroaggregator
from sklearn_puffer._noiser import PufferfishNoiser
from sklearn_puffer._review import measured
from sklearn_puffer._review.exact_tests import RowSplit, Secrets
from sklearn_puffer._review.measured import MEASURED, Measurer, Parts, task_of
from sklearn_puffer._review.plan import NEARLY, Attacked, Candidate, ColumnFacts, Plan, flat, ranked
from sklearn_puffer._review.readers import boosted, in_memory, seen, threads_for
from sklearn_puffer._rows import order_told, refuse_twice, rows_of
from sklearn_puffer._swap import PufferfishSwap
from sklearn_puffer._tables import (
    Name,
    Table,
    first_values,
    frame_table,
    has_row_labels,
)
from sklearn_puffer._words import listed, meant, quoted, shown
from sklearn_puffer.accounting import MAX_CELLS

_ROLES = {
    "public": "",
    "task": "not asked for",
    "known": "stays with people",
    "ids": "stays with people",
    "sensitive": "sensitive",
}
"""The use of columns by the argument that names them; of public ones their values decide."""

_KINDS = {"boolean": "yes or no", "integer": "whole number", "float": "number"}
_REMARKS = {
    "date": "name it in public= if dates are to be released",
    "nothing": "every value is missing",
    "unreadable": "it contains infinity; drop or replace such values",
    "text": "{n} different values in {rows} rows look like an identifier; {way}",
    "identifier": "{n} different values in {rows} rows look like an identifier; name it in public= "
    "if it is to be released",
}
_IF_NAMED = ("date", "identifier")  # are released; the others of these never


def _fact(table: Table, name: Name, use: str, *, named: bool, ordered: bool) -> ColumnFacts:
    """Return what a column is; text that identifies people is never released.

    ``use`` is empty where it may be released.
    """
    try:
        values = first_values(table, name)
        data = values.present
        n = len(np.unique(data))
        what = identifier_kind(values)
    except (TypeError, ValueError) as error:
        return ColumnFacts(name, use or "leave out", "unreadable", remark=str(error))
    applies = {
        "date": values.unit is not None or (what == "date" and len(data) > 0),
        "nothing": not len(data),
        "unreadable": values.kind == "float" and not np.isfinite(data).all(),
        "text": what == "text",
        "identifier": what == "number" and not ordered,
        "order": ordered or values.ordered,
        _KINDS.get(values.kind, "category"): True,
    }
    kind = next(each for each, true in applies.items() if true)
    suits = kind not in _REMARKS or (named and kind in _IF_NAMED)
    remark = "" if use or suits else _REMARKS[kind]
    remark = remark.format(n=n, rows=len(data), way=WAY_OF_TEXT)
    use = use or ("release" if suits else "leave out")
    return ColumnFacts(name, use, kind, n, values.n_missing, remark)


class Given:
    """What a plan is given: rows, and the roles of columns, which ``asked`` names.

    ``told`` are the secrets of each protected column, or combination of columns, and ``sensitive``
    names them as an estimator takes them. ``labelled`` says whether an index tells whose row is
    whose, and ``order`` what it and the order of the rows tell of the secrets.
    """

    def __init__(self, table: Any, sensitive: Any, asked: Mapping[str, Any], settings: Any) -> None:
        if sensitive is None:
            raise ValueError(
                'sensitive is missing; name the columns to protect, such as sensitive="race".'
            )
        frame = in_memory(table, "a plan")
        source = frame_table(frame, "table")
        refuse_values(sensitive, source.names, "sensitive")
        units: list[Any] = []
        for each in sensitive if isinstance(sensitive, list | tuple) else [sensitive]:
            names = resolve(each, source.names, "sensitive")
            units += [tuple(names)] if isinstance(each, tuple) else names
        bins = bins_of(sensitive, source.names)
        edges = {name: edges_of(name, source.values(name), bins[name], None) for name in bins}
        columns = {name: source.values(name) for name in flat(units)}
        read = {
            unit: SecretRule(tuple(flat([unit])), edges, "category").read(columns) for unit in units
        }
        self.order = order_told(rows_of(source, None), [*read.values()])
        self.labelled, self.told = has_row_labels(source), list[Secrets]()
        for secret in read.values():
            secret.check_two()
        pairs = secret_pairs_of(settings.get("secret_pairs", "all"), [*read.values()])
        for unit, secret in read.items():
            coded = [(secret.find(a), secret.find(b)) for a, b in pairs[secret.name]]
            self.told.append(Secrets(unit, secret.labels, secret.codes(source.n_rows), coded))
        self.frame, orders = frame.reset_index(drop=True), settings.get("categories") or {}
        self.roles, self.facts = _read(self.frame, flat(units), asked, orders)
        self.sensitive: Any = units
        if edges:
            self.sensitive = {name: list(edges.get(name, [])) or None for name in units}


def _read(
    frame: Any, hidden: list[Name], asked: Mapping[str, Any], orders: Mapping[Any, Any]
) -> tuple[dict[str, list[Name]], tuple[ColumnFacts, ...]]:
    """Return the columns by role, those to release last, and what each is.

    ``orders`` are the declared values of some columns, as in ``categories=``.
    """
    table, named = frame_table(frame), asked["public"] is not None
    roles = {"sensitive": hidden}
    for role in ("ids", "known", "task"):
        roles[role] = [] if asked[role] is None else resolve(asked[role], table.names, role)
    public = public_columns(asked["public"], table.names, hidden)
    roles["public"] = public if named else []
    alone = [name for name in roles["task"] if name not in roles["known"]]  # readers may know it
    refuse_twice({**roles, "task": alone})
    uses = dict.fromkeys(table.names, "not asked for" if named else "")
    for role, use in _ROLES.items():
        uses |= dict.fromkeys(roles[role], use)
    facts = tuple(
        _fact(table, name, use, named=named, ordered=name in orders) for name, use in uses.items()
    )
    roles["public"] = [fact.name for fact in facts if fact.use == "release"]
    if not roles["public"]:
        raise ValueError(
            "no column is proposed for the release: each is sensitive, a task, stays with "
            "people, or looks like an identifier or a date; name those to release in public=."
        )
    return roles, facts


BINS = 5
_FEW = 200  # values of a number, up to which noise is tried without bins
_OF_THE_PLAN = {"epsilon", "sensitive", "public", "ids", "known"}
_OF_THE_PLAN |= {"groups", "max_group", "within_group"}  # typical rows have none
_OF_THE_PLAN |= {"verbose", "random_state", "on_uncertified", "remainder"}  # of a call
_PRIORS = {"noise", "prior", "strategy", "dependence"}  # with one of these losses may need no cells
_ALIKE = 0.01  # scores of a task that differ by less are alike
_ONE_BUDGET = "choose one budget in nats; Plan.curve has others"

TYPICAL = (
    "who holds the list of fitted rows with their secrets, not their persons, and sees one "
    "released row"
)
EXCHANGED = "who holds the list of all rows with their secrets, and sees the whole released table"
NOISY = "who knows the prior, and sees one released row"


def candidates_of(
    params: Mapping[str, Any],
    columns: Sequence[ColumnFacts],
    *,
    gaps: bool = False,
    owned: bool = False,
    task: Name | None = None,
) -> list[Candidate]:
    """Return the settings to try: ``params`` are not varied, and each estimator takes its own.

    ``columns`` are the released and the known ones, ``gaps`` says whether secrets are missing, and
    ``owned`` whether ids, an index or known columns say whose row is whose.
    """
    gappy = any(each.missing for each in columns)
    swap: dict[str, Any] = {"missing": "category" if gaps else "error", **params}
    noise: dict[str, Any] = {"missing": "category" if gaps or gappy else "error"}
    noise["unknown"] = "nearest"
    if any(each.missing and each.numeric for each in columns):
        noise["missing"] = "propagate"  # numbers have no other place for them
    noise |= params
    if isinstance(swap.get("sensitive"), list):
        swap["sensitive"] = flat(swap["sensitive"])  # it protects their combinations
    if noise.get("known") is not None:
        noise["public"] = [*noise["public"], *noise["known"]]
        noise["known"] = tuple(noise["known"])  # which are known together
    family = params.get("noise", "laplace")
    name = family if isinstance(family, str) else type(family).__name__
    label, free = f"{name.capitalize()} noise", bool(_PRIORS & set(params))
    few = all(each.distinct <= _FEW for each in columns) and _cells(columns, math.inf) <= MAX_CELLS
    ways: list[tuple[bool, str, str, Any, Mapping[str, Any]]] = [
        (True, "typical rows", TYPICAL, PufferfishMicroaggregator, params),
        (owned, "swap", EXCHANGED, PufferfishSwap, swap),
    ]
    if "n_bins" in params:
        named = f"{label}, n_bins={quoted(params['n_bins'])}"
        ways.append((True, named, NOISY, PufferfishNoiser, noise))
    else:  # with bins and without, where cells are few enough
        binned = free or _cells(columns, BINS) <= MAX_CELLS
        with_bins = {**noise, "n_bins": BINS}
        ways.append((binned, f"{label}, {BINS} bins", NOISY, PufferfishNoiser, with_bins))
        ways.append((free or few, label, NOISY, PufferfishNoiser, noise))
    tried = []
    for true, label, promise, kind, asked in ways:
        has = inspect.signature(kind).parameters
        if true:
            own = {key: value for key, value in asked.items() if key in has}
            tried.append(Candidate(label, promise, kind, own))
    if task is not None and params.get("label_weight") != 0:
        parted = f"{tried[0].label}, parted for {shown(task)}"
        tried.insert(1, replace(tried[0], label=parted, label_column=task))
    return tried


def _cells(columns: Sequence[ColumnFacts], bins: float) -> float:
    """Return how many combinations of values there may be, with numbers in so many bins."""
    numbers = [max(min(each.distinct, bins), 1) for each in columns if each.numeric]
    others = [max(each.distinct, 1) for each in columns if not each.numeric]
    return math.prod(map(float, [*numbers, *others]))


def plan(
    table: Any,
    sensitive: Any = None,
    *,
    public: Any = None,
    epsilon: float = 1.0,
    task: Any = None,
    ids: Any = None,
    known: Any = None,
    max_rows: int | None = 12_000,
    random_state: int = 0,
    verbose: int = 0,
    **settings: Any,
) -> Plan:
    r"""Compare the three estimators on a table, measured on rows that nobody fitted.

    Typical rows (`PufferfishMicroaggregator`) are always tried; a swap (`PufferfishSwap`) where
    something says whose row is whose; noise (`PufferfishNoiser`) where columns are few. Each is
    fitted for real and releases rows that were held out, which are attacked and learnt from: two
    fifths of the rows; below 1,000 rows all of them, a fifth at a time by a fit of the others.
    Settings whose guarantee holds are ranked by the task and the change. Attacks are estimates;
    one that is for certain beyond

    .. math:: \mathrm{AUC} \le 1 - \frac{(1 - \delta)^2}{1 + e^\varepsilon},

    which follows from the guarantee, strikes its setting out. Nothing is released or spent.

    Parameters
    ----------
    table : DataFrame
        In memory, of pandas, polars or pyarrow: one row of each person, as guarantees are about
        single rows here.
    sensitive : str, int, list of these, or {column: bins, edges or None}
        The sensitive columns, as in `PufferfishMicroaggregator`: a tuple in a list protects the
        combinations of its columns. Values with too few rows to be attacked are named in the notes.
    public : str, int or list of these, default=None
        The columns to release. None proposes all others but the task's, those that stay with
        people, and those that hold dates, cannot be read, or look like identifiers; text that does
        is left out even if it is named.
    epsilon : float, default=1.0
        The budget; `Plan.curve` has others.
    task : str or int, default=None
        A column that is to be predicted from released rows: neither sensitive nor released, unless
        ``known`` names it as well. Typical rows are also tried with it as their y.
    ids : str, int or list of these, default=None
        Columns that stay with people and say nothing of them, as in `PufferfishSwap`, which is then
        tried; also where the index of a table says whose row is whose.
    known : str, int or list of these, default=None
        Columns that readers know, together, and that stay with people. The guarantee is then among
        people of equal values.
    max_rows : int or None, default=12000
        Most rows that settings are fitted to, drawn by ``random_state``; None fits all. At most
        some 8,000 are attacked.
    random_state : int, default=0
        The seed of the split, of the parts, and of the releases that are measured. The same seed
        gives the same figures.
    verbose : int, default=0
        1 prints to standard error how far it has come.
    **settings : dict
        Parameters of the estimators, such as ``n_prototypes=60``, ``n_bins=`` or ``delta=``: each
        takes those that it has, and what they fix is not varied.

    Returns
    -------
    Plan
        ``table`` compares the settings; `Plan.estimator` is the fitted estimator of a row.
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
    >>> found = plan(table, "sex", public=["bmi", "bp"], n_prototypes=8, n_bins=4)
    >>> found.estimator(0).certificate_.holds
    True
    >>> found.table["setting"].tolist()[:2]
    ['the rows as they are', 'nothing but constants']
    """
    params: dict[str, Any] = {"epsilon": check_positive(epsilon, "epsilon", _ONE_BUDGET)}
    kinds = (PufferfishMicroaggregator, PufferfishSwap, PufferfishNoiser)
    has = {name for kind in kinds for name in inspect.signature(kind).parameters}
    fixed = sorted(has - _OF_THE_PLAN)
    for name in settings:
        if name not in fixed:
            raise TypeError(
                f"plan has no setting {quoted(name)}{meant(name, fixed)}; those that can be fixed "
                f"are {listed(fixed, len(fixed))}."
            )
    params |= settings
    seed = check_count(random_state, "random_state", minimum=0)
    loud = check_verbose(verbose)
    if max_rows is not None:
        check_count(max_rows, "max_rows", minimum=2)
    asked = {"public": public, "task": task, "ids": ids, "known": known}
    given = Given(table, sensitive, asked, params)
    roles = given.roles
    params |= {"sensitive": given.sensitive, "public": roles["public"]}
    params |= {role: roles[role] for role in ("ids", "known") if roles[role]}
    with listening(loud, "plan"), threads_for(given.frame):
        parts = Parts.of(given.frame, max_rows, seed)
        return _planned(given, params, parts, seed)


def _planned(given: Given, params: Mapping[str, Any], parts: Parts, seed: int) -> Plan:
    secrets = [each.of(np.asarray(parts.held.index)) for each in given.told]
    parts = replace(parts, held=parts.held.reset_index(drop=True))
    target = next(iter(given.roles["task"]), None)
    task = task_of(target, frame_table(parts.held))
    names = given.roles["public"], given.roles["known"]
    # some thousands of the rows are measured
    chosen = shuffle(np.arange(len(parts.held)), random_state=seed)[:MEASURED]
    parts_of = vars(RowSplit.of(len(chosen), seed))
    split = RowSplit(**{name: np.sort(chosen[part]) for name, part in parts_of.items()})
    secrets = [replace(each, pairs=measured.pairs_to_attack(each, split)) for each in secrets]
    measurer = Measurer(parts, *names, secrets, split, task, seed)
    raw = measurer.measured(Candidate("the rows as they are"), parts.held)
    blank = measured.constants(parts.held, names[0])
    bare = measurer.measured(Candidate("nothing but constants"), blank)
    gaps = any(fact.missing for fact in given.facts if fact.use == "sensitive")
    owned = bool(given.roles["ids"] or given.roles["known"] or given.labelled)
    read = [fact for fact in given.facts if fact.name in {*names[0], *names[1]}]
    tried = candidates_of(params, read, gaps=gaps, owned=owned, task=target)
    within = 0.0 if task is None else max(_ALIKE, task.chance(chosen))
    done = [measurer.tried(each) for each in counted(tried, "settings")]
    rows = ranked(done, bare, within)
    notes = [
        *_of_rows(given, measurer, [row.attack for row in (raw, *done)]),
        *_of_people(given, measurer, owned=owned),
    ]
    if not any(row.is_useful(bare, NEARLY) for row in rows):
        notes += _most_telling(measurer)
    return Plan(
        sensitive=tuple(given.roles["sensitive"]),
        facts=given.facts,
        raw=raw,
        bare=bare,
        trials=tuple(rows),
        notes=tuple(notes),
        epsilon=params["epsilon"],
        task=target,
        score="AUC" if task is None else task.measure,
        within=within,
        n_rows=len(given.frame),
        n_fitted=len(parts.fitted),
        n_held=len(parts.held),
        seed=seed,
        measurer=measurer,
        version=__version__,
        date=utc_now(),
    )


def _of_rows(given: Given, measurer: Measurer, attacks: Sequence[Attacked | None]) -> Iterator[str]:
    """Yield notes on the order of the rows, on secrets, and where few rows are measured."""
    if given.order.told:
        yield from given.order.sentences()
    for secret in measurer.secrets:
        attacked = {code for pair in secret.pairs for code in pair}
        few = [label for code, label in enumerate(secret.labels) if code not in attacked]
        if few:
            yield (
                f"values of {quoted(secret.name)} with too few rows to be attacked: "
                f"{listed(few, 5)}; merge them, or give more rows."
            )
    # by the attack of which least is known
    width = max((each.high - each.low for each in attacks if each is not None), default=math.inf)
    if width > measured.WIDEST or measurer.parts.folds:
        told = f"which makes 95 % intervals of attacks up to {width:.2f} wide"
        told = told if width < math.inf else "too few to judge an attack"
        yield f"{len(measurer.parts.held)} rows are measured, {told}: plan on more if you can."


def _most_telling(measurer: Measurer) -> Iterator[str]:
    """Yield which column tells most by itself, as few trees find."""
    raw, few = seen(measurer.parts.held, measurer.columns), {"boosted": boosted(20)}
    told = dict[Name, float]()
    for name in counted(list(measurer.columns), "columns"):
        attack = measured.attacked(raw[[name]], measurer.secrets, measurer.split, few)
        told |= {} if attack is None else {name: attack.auc}
    if len(told) > 1:
        most = max(told, key=lambda name: told[name])
        yield (
            f"by itself {quoted(most)} tells most (AUC {told[most]:.2f}): leave it out first, "
            "where fewer columns are to keep more."
        )


def _of_people(given: Given, measurer: Measurer, *, owned: bool) -> Iterator[str]:
    """Yield notes on ids, known columns and the task."""
    ids, known, task = (given.roles[role] for role in ("ids", "known", "task"))
    if known:
        yield (
            f"readers know {listed(known, 5)} anyway: guarantees are against the shares of secrets "
            "among people of equal values, and attacks see these values."
        )
    if task and task[0] not in known:
        yield (
            f"who learns {quoted(task[0])} on released rows has it beside them, and guarantees "
            "are for readers who do not know it; name it as known, too, where they do."
        )
    if not owned:
        alike = [quoted(f.name) for f in given.facts if f.kind in ("identifier", "text")]
        yield (
            "a swap was not tried, as nothing says whose row is whose; name "
            f"{alike[0] if alike else 'columns'} as ids where rows go out as somebody's."
        )
    if ids and measurer.parts.held[ids].duplicated().any():  # by all ids together
        yield (
            f"some people have several rows, by {listed(ids)}, and guarantees are about one "
            "row of each; make one row of them, or fit a swap or noise with groups."
        )
