"""`plan`: settings of the three estimators, tried on rows that nobody fitted."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_puffer._base import check_count, check_positive, check_verbose, counted, listening
from sklearn_puffer._codes import (
    Secret,
    SecretRule,
    bins_of,
    identifier_kind,
    refuse_values,
    resolve,
    secret_pairs_of,
    way_of_text,
)
from sklearn_puffer._microaggregator import PufferfishMicroaggregator
from sklearn_puffer._noiser import PufferfishNoiser
from sklearn_puffer._review.exact_tests import Secrets
from sklearn_puffer._review.measured import WIDEST, Measurer, attacked, constants
from sklearn_puffer._review.plan import NEARLY, UNOWNED, Candidate, ColumnFacts, Plan, flat, ranked
from sklearn_puffer._review.readers import boosted, in_memory, seen, threads_for
from sklearn_puffer._rows import order_told, refuse_twice, rows_of
from sklearn_puffer._swap import PufferfishSwap
from sklearn_puffer._tables import Name, Table, first_values, frame_table, has_row_labels
from sklearn_puffer._words import listed, meant, quoted, shown
from sklearn_puffer.accounting import MAX_CELLS

_KINDS = {"boolean": "yes or no", "integer": "whole number", "float": "number"}
_NUMBERS = ("number", "whole number", "date", "identifier")  # kinds that bins are possible of
_DATES = "name it in public= if dates are to be released"
_INFINITE = "it contains infinity; drop or replace such values"
_IDS = "name it in ids= if it says whose row is whose, or in public= to release it"
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
    alike = f"{n} different values in {len(data)} rows look like an identifier"
    kinds = [
        ("date", values.unit is not None or (what == "date" and len(data) > 0), _DATES),
        ("nothing", not len(data), "every value is missing"),
        ("unreadable", values.kind == "float" and not np.isfinite(data).all(), _INFINITE),
        ("text", what == "text", f"{alike}; {way_of_text(values)}"),
        ("identifier", what == "number" and not ordered, f"{alike}; {_IDS}"),
        ("order", ordered or values.ordered, ""),
        (_KINDS.get(values.kind, "category"), True, ""),
    ]
    kind, remark = next((kind, remark) for kind, true, remark in kinds if true)
    if use or (named and kind in _IF_NAMED):
        remark = ""
    use = use or ("leave out" if remark else "release")
    return ColumnFacts(name, use, kind, n, values.n_missing, remark)


def _secrets_of(
    table: Table, sensitive: Any, protected: Any
) -> tuple[list[Secrets], Any, list[str]]:
    """Return the secrets of each protected column, or combination of columns, and of each row.

    Then the columns as an estimator takes them, with edges where secrets are read in bins, and what
    the order of the rows and their index tell of the secrets. ``protected`` are pairs, as in
    ``secret_pairs=``.
    """
    if sensitive is None:
        raise ValueError(
            'sensitive is missing; name the columns to protect, such as sensitive="race".'
        )
    refuse_values(sensitive, table.names, "sensitive")
    bins, edges = bins_of(sensitive, table.names), dict[Name, Any]()
    units, read = list[Any](), list[Secret]()
    for each in sensitive if isinstance(sensitive, list | tuple) else [sensitive]:
        names = resolve(each, table.names, "sensitive")
        units += [tuple(names)] if isinstance(each, tuple) else names
    for unit in units:
        columns = {name: table.values(name) for name in flat([unit])}
        own = {name: bins[name] for name in columns if name in bins}
        rule, secret = SecretRule.learnt(columns, own, "category", {})
        edges |= rule.edges
        read.append(secret)
    order = order_told(rows_of(table, None), read)
    pairs, secrets = secret_pairs_of(protected, read), []
    for unit, secret in zip(units, read, strict=True):
        coded = [(secret.find(a), secret.find(b)) for a, b in pairs[secret.name]]
        secrets.append(Secrets(unit, secret.labels, secret.codes(table.n_rows), coded))
    told = {name: list(edges.get(name, [])) or None for name in units} if edges else units
    return secrets, told, [*order.sentences()] if order.told else []


def _roles_of(
    table: Table, asked: Mapping[str, Any], orders: Mapping[Any, Any]
) -> tuple[dict[str, list[Name]], tuple[ColumnFacts, ...]]:
    """Return the columns by role, as ``asked`` names them, and what each is.

    Those that are "public" are to be released. ``orders`` are the declared values of some columns,
    as in ``categories=``.
    """
    named, roles = asked["public"] is not None, dict[str, list[Name]]()
    for role, names in asked.items():
        roles[role] = [] if names is None else resolve(names, table.names, role)
    alone = [name for name in roles["task"] if name not in roles["known"]]  # readers may know it
    refuse_twice({**roles, "task": alone})
    uses = dict.fromkeys(table.names, "not asked for" if named else "")
    uses |= dict.fromkeys(roles["public"], "") | dict.fromkeys(roles["task"], "not asked for")
    uses |= dict.fromkeys([*roles["known"], *roles["ids"]], "stays with people")
    uses |= dict.fromkeys(roles["sensitive"], "sensitive")
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
_NOT_OF_A_PLAN = {"groups", "max_group", "within_group"}  # typical rows have none
_NOT_OF_A_PLAN |= {"on_uncertified", "remainder"}  # which are of a call
_PRIORS = {"noise", "prior", "strategy", "dependence"}  # with one of these losses may need no cells
_ONE_BUDGET = "choose one budget in nats; Plan.curve has others"

TYPICAL = (
    "who holds the list of fitted rows with their secrets, not their persons, and sees one "
    "released row"
)
EXCHANGED = "who holds the list of all rows with their secrets, and sees the whole released table"
NOISY = "who knows the prior, and sees one released row"


def candidates_of(
    params: Mapping[str, Any],
    facts: Sequence[ColumnFacts],
    *,
    owned: bool = False,
    task: Name | None = None,
) -> list[Candidate]:
    """Return the settings to try: ``params`` are not varied, and each estimator takes its own.

    ``owned`` says whether ids, an index or known columns say whose row is whose.
    """
    known = params.get("known") or []
    columns = [each for each in facts if each.name in {*params["public"], *known}]
    gaps = any(each.missing for each in facts if each.use == "sensitive")
    swap: dict[str, Any] = {"missing": "category" if gaps else "error", **params}
    if isinstance(params.get("sensitive"), list):
        swap["sensitive"] = flat(params["sensitive"])  # it protects their combinations
    gaps |= any(each.missing for each in columns)
    noise: dict[str, Any] = {"missing": "category" if gaps else "error", "unknown": "nearest"}
    if any(each.missing and each.kind in _NUMBERS for each in columns):
        noise["missing"] = "propagate"  # numbers have no other place for them
    noise |= params
    if known:
        noise |= {"public": [*params["public"], *known], "known": tuple(known)}  # known together
    family = params.get("noise", "laplace")
    name = family if isinstance(family, str) else type(family).__name__
    label, free = f"{name.capitalize()} noise", bool(_PRIORS & {*params})
    few = all(each.distinct <= _FEW for each in columns) and _cells(columns, math.inf) <= MAX_CELLS
    ways: list[tuple[bool, str, str, Any, Mapping[str, Any]]] = [
        (True, "typical rows", TYPICAL, PufferfishMicroaggregator, params),
        (owned, "swap", EXCHANGED, PufferfishSwap, swap),
    ]
    if "n_bins" in params:
        named = f"{label}, n_bins={quoted(params['n_bins'])}"
        ways.append((True, named, NOISY, PufferfishNoiser, noise))
    else:  # with bins and without, where cells are few enough
        binned, with_bins = free or _cells(columns, BINS) <= MAX_CELLS, {**noise, "n_bins": BINS}
        ways.append((binned, f"{label}, {BINS} bins", NOISY, PufferfishNoiser, with_bins))
        ways.append((free or few, label, NOISY, PufferfishNoiser, noise))
    tried = []
    for true, setting, promise, kind, asked in ways:
        has = inspect.signature(kind).parameters
        if true:
            own = {key: value for key, value in asked.items() if key in has}
            tried.append(Candidate(setting, promise, kind, own))
    if task is not None and params.get("label_weight") != 0:
        grouped = f"{tried[0].setting}, grouped for {shown(task)}"
        tried.insert(1, replace(tried[0], setting=grouped, label_column=task))
    return tried


def _cells(columns: Sequence[ColumnFacts], bins: float) -> float:
    """Return how many combinations of values there may be, with numbers in so many bins."""
    most = [bins if each.kind in _NUMBERS else math.inf for each in columns]
    sizes = [min(each.distinct, n) for each, n in zip(columns, most, strict=True)]
    return math.prod(float(max(size, 1)) for size in sizes)


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
    fixed = sorted(has - {*inspect.signature(plan).parameters} - _NOT_OF_A_PLAN)
    for name in settings:
        if name not in fixed:
            raise TypeError(
                f"plan has no setting {quoted(name)}{meant(name, fixed)}; those that can be fixed "
                f"are {listed(fixed, len(fixed))}."
            )
    params |= settings
    seed = check_count(random_state, "random_state", minimum=0)
    if max_rows is not None:
        check_count(max_rows, "max_rows", minimum=2)
    frame = in_memory(table, "a plan")
    source, protected = frame_table(frame, "table"), settings.get("secret_pairs", "all")
    secrets, params["sensitive"], notes = _secrets_of(source, sensitive, protected)
    asked = {"ids": ids, "known": known, "task": task, "public": public}
    asked = {"sensitive": flat(params["sensitive"]), **asked}
    roles, facts = _roles_of(source, asked, settings.get("categories") or {})
    params |= {role: roles[role] for role in ("public", "ids", "known") if roles[role]}
    owned = bool(roles["ids"] or roles["known"] or has_row_labels(source))
    tried = candidates_of(params, facts, owned=owned, task=next(iter(roles["task"]), None))
    with listening(check_verbose(verbose), "plan"), threads_for(frame):
        measurer = Measurer(frame.reset_index(drop=True), roles, secrets, max_rows, seed)
        return _planned(measurer, facts, tried, notes)


def _planned(
    measurer: Measurer, facts: Sequence[ColumnFacts], tried: list[Candidate], notes: list[str]
) -> Plan:
    held, task = measurer.held, measurer.task
    raw = measurer.measured(Candidate("the rows as they are", verdict=""), held)
    blank = constants(held, measurer.roles["public"])
    bare = measurer.measured(Candidate("nothing but constants", verdict=""), blank)
    done = [measurer.tried(each) for each in counted(tried, "settings")]
    notes = [*notes, *_notes(measurer, facts, [raw, *done])]
    if not any(row.is_useful(bare, NEARLY) for row in done):
        notes += _most_telling(measurer)
    elif all(row.kind is not PufferfishSwap for row in done):
        notes.append(UNOWNED)
    return Plan(
        sensitive=tuple(measurer.roles["sensitive"]),
        facts=tuple(facts),
        raw=raw,
        bare=bare,
        trials=tuple(ranked(done, bare, measurer.within)),
        notes=tuple(notes),
        epsilon=tried[0].params["epsilon"],
        task=None if task is None else task.name,
        score="AUC" if task is None else task.measure,
        within=measurer.within,
        n_rows=measurer.n_rows,
        n_fitted=len(measurer.fitted),
        n_held=len(held),
        seed=measurer.seed,
        measurer=measurer,
    )


def _notes(
    measurer: Measurer, facts: Sequence[ColumnFacts], rows: Sequence[Candidate]
) -> Iterator[str]:
    """Yield notes on secrets, where few rows are measured, on ids, known columns and the task."""
    for secret in measurer.secrets:
        attacked = {code for pair in secret.pairs for code in pair}
        few = [label for code, label in enumerate(secret.labels) if code not in attacked]
        if few:
            yield (
                f"values of {quoted(secret.name)} with too few rows to be attacked: "
                f"{listed(few, 5)}; merge them, or give more rows."
            )
    # by the attack of which least is known
    width = np.fmax.reduce([row.high - row.low for row in rows])
    if not width <= WIDEST or measurer.folds:
        told = f"which makes 95 % intervals of attacks up to {width:.2f} wide"
        told = "too few to judge an attack" if math.isnan(width) else told
        yield f"{len(measurer.held)} rows are measured, {told}: plan on more if you can."
    ids, known, task = (measurer.roles[role] for role in ("ids", "known", "task"))
    if known:
        yield (
            f"readers know {listed(known, 5)} anyway: guarantees are against the shares of secrets "
            "among people of equal values, and attacks see these values."
        )
    if task and task[0] not in known:
        yield (
            f"{quoted(task[0])} is not released, and guarantees are for readers who do not know "
            "it; name it in known=, too, to release it as it is, or where readers have it."
        )
    if ids and measurer.held[ids].duplicated().any():  # by all ids together
        yield (
            f"some people have several rows, by {listed(ids)}, and guarantees are about one "
            "row of each; make one row of them, or fit a swap or noise with groups."
        )
    for fact in facts:
        if fact.use == "leave out":
            yield f"{quoted(fact.name)} is left out: {fact.remark}."


def _most_telling(measurer: Measurer) -> Iterator[str]:
    """Yield which column tells most by itself, as few trees find."""
    raw, few = seen(measurer.held, measurer.roles["public"]), {"boosted": boosted(20)}
    told = dict[Name, float]()
    for name in counted(list(raw), "columns"):
        found = attacked(raw[[name]], measurer.secrets, measurer.split, few)
        told |= {name: found["attack"]} if found else {}
    if len(told) > 1:
        most = max(told, key=lambda name: told[name])
        yield (
            f"by itself {quoted(most)} tells most (AUC {told[most]:.2f}): leave it out first, "
            "where fewer columns are to keep more."
        )
