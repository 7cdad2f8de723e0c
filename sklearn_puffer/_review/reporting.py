"""`report`, and the internal report for the person who signs, which is a function of raw rows.

First the checks before a report is made, then the internal report (`external` makes the other). Its
first screen has four figures and a picture. `CORRECTIONS.md` has the proofs of the corrections that
it lists.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sklearn_puffer._base import (
    Bar,
    Bars,
    Section,
    __version__,
    check_choice,
    quoted,
    shown,
    utc_now,
)
from sklearn_puffer._noiser import PufferfishNoiser
from sklearn_puffer._release import Ledger, PersonLedger, TableRelease
from sklearn_puffer._review.audit import INTERNAL as OF_THE_AUDIT
from sklearn_puffer._review.audit import Audit, check_told_of
from sklearn_puffer._review.plan import INTERNAL as OF_THE_PLAN
from sklearn_puffer._review.plan import Plan
from sklearn_puffer._review.report import (
    Report,
    caveats,
    example,
    external,
    granted,
    not_promised,
    promise_picture,
    seeded,
    settings_of,
)


def report(
    noiser: Any,
    audit: Any = None,
    plan: Any = None,
    kind: str = "internal",
    *,
    ledger: Any = None,
    name: str | None = None,
    by: str = "",
) -> Report:
    """Return a report of a release, for the person who signs it.

    The internal report says all there is to know of a release, and is computed from the raw rows:
    keep it where you keep the table. The external report is for recipients: it is made of settings
    and names alone.

    Parameters
    ----------
    noiser : PufferfishNoiser or PufferfishRelease
        Fitted. Nothing is released, and nothing is spent.
    audit : Audit, default=None
        What `audit` found, of this noiser.
    plan : Plan, default=None
        What `plan` found before the fit.
    kind : {"internal", "external"}, default="internal"
        An external report leaves ``audit``, ``plan`` and ``ledger`` out.
    ledger : Ledger or PersonLedger, default=None
        Of this noiser: what was released until now.
    name : str, default=None
        Of the data set; that of the certificate (`Certificate.named`) where it is left out.
    by : str, default=""
        Who makes the report.

    Returns
    -------
    Report
        ``html`` (of the extra ``report``), ``markdown`` and ``to_json()`` are the same page, and
        ``save(path)`` writes one. Where the certificate does not hold the first line says so.

    Raises
    ------
    NotFittedError, TypeError, ValueError
        If the noiser is not fitted, or was changed since, or an argument is not what it should be.
    UncertifiedError
        If an external report is asked for of a certificate that does not hold.
    LedgerError
        If the ledger is that of another noiser.

    Notes
    -----
    *Formal guarantees.* An external report is a function of parameters of the noiser, names of
    columns, the version, dates, ``name`` and ``by``: of two tables with the same columns whose
    certificates hold it is the same, to the byte, but for the dates. That there is one tells that
    the fit succeeded and its certificate holds. Pairs of secrets are in it where ``secret_pairs``
    lists them.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser, report
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> noiser = PufferfishNoiser(epsilon=0.5, sensitive="loan").fit(table)
    >>> told = report(noiser, name="loans", by="A. Clerk")
    >>> [section["title"] for section in told.to_dict()["sections"]][:3]
    ['At a glance', 'Conditions', 'Signature']
    >>> told.html.startswith("<!doctype html>"), told.holds
    (True, True)
    """
    check_choice(kind, "kind", ["internal", "external"])
    _check_noiser(noiser)
    certificate = noiser.certificate_
    named = certificate.name if name is None else name
    for text, argument in ((named, "name"), (by, "by")):
        if not isinstance(text, str):
            raise TypeError(f"{argument} must be a string, got {quoted(text)}.")
    for value, kinds, message in (
        (audit, Audit, "audit must be an Audit, as audit() returns it"),
        (plan, Plan, "plan must be a Plan, as plan() returns it"),
        (ledger, Ledger | PersonLedger, "ledger must be a Ledger or a PersonLedger"),
    ):
        if value is not None and not isinstance(value, kinds):
            raise TypeError(f"{message}, got a {type(value).__name__}.")
    about = {"name": named, "by": by, "date": utc_now()}
    if kind == "external":
        return external(noiser, **about)
    _check_alike(noiser, audit, plan)
    return _internal(noiser, audit, plan, ledger, **about)


def _check_noiser(noiser: Any) -> None:
    if not isinstance(noiser, TableRelease):
        raise TypeError(
            f"noiser must be a fitted PufferfishNoiser or PufferfishRelease, got {quoted(noiser)}."
        )
    noiser._check_as_certified()
    check_told_of(noiser, "report")


def _check_alike(noiser: Any, audit: Any, plan: Any) -> None:
    """Refuse what is about another noiser."""
    promise = noiser.certificate_.promise()
    if audit is not None and audit.promise != promise:
        raise ValueError(
            f"audit is of a noiser with another guarantee, {audit.promise!r}, and that of this one "
            f"is {promise!r}; audit this one, or leave it out."
        )
    if plan is None:
        return
    planned, protected = set(plan.sensitive), set(noiser._fitted.rules.sensitive)
    if planned != protected:
        raise ValueError(
            f"plan protects {quoted(sorted(map(str, planned)))} and this noiser "
            f"{quoted(sorted(map(str, protected)))}; pass the plan of this release, or leave it "
            "out."
        )


INTERNAL = (
    "It is computed from the raw rows, without noise: keep it where you keep the table; "
    'kind="external" is for others.'
)
_TESTS_ONLY = (
    "random_state is set, which makes the noise reproducible: NOTHING IS PROMISED outside tests"
)
_MOST = 8  # rows of a table of an audit or a plan
_BEST = ("secret", "against", "auc", "auc_low", "auc_high")
_ATTACK = ("attacker", *_BEST, "auc_allowed", "log_odds", "p_all")
_READER = ("view", *_BEST, "log_odds")
_COST = ("verdict", "change", "unchanged", "attack", "allowed", "task")
_SETTINGS = ("row", "epsilon", "setting", "promise", *_COST)
_OF_A_COLUMN = ("unchanged share", "median", "standard deviation", "share of ")
_ELSEWHERE = ("Noise by column", "How much of the data survives", "Conditions", "Assumptions")


def _internal(
    noiser: Any, audit: Any, plan: Any, ledger: Any, *, name: str, by: str, date: str
) -> Report:
    """Return the report for the person who signs."""
    certificate = replace(noiser.certificate_, name="")
    at_once, alarms = _glance(certificate, audit)
    return Report(
        kind="internal",
        holds=certificate.holds,
        verdict=_verdict(noiser, certificate),
        lines=(
            *([] if audit is None else [audit._page().headline]),  # above what is only guaranteed
            certificate.promise(),
            *([example(certificate.notion)] if certificate.holds else []),
            INTERNAL,
        ),
        front=(at_once, *_conditions(noiser, certificate)),
        sections=(
            _columns_section(noiser, certificate),
            *_certificate_sections(certificate),
            *_audit_sections(audit),
            *_plan_sections(plan),
            *_ledger_sections(ledger, certificate),
            Section("What is not guaranteed", sentences=not_promised(certificate)),
            Section("Assumptions", sentences=certificate.assumptions),
            _corrections_section(certificate),
            _settings_section(noiser),
        ),
        alarms=alarms,
        about=_about(certificate),
        record={
            "version": __version__,
            "certificate": noiser.certificate_.to_dict(),
            "audit": None if audit is None else audit.to_dict(),
            "plan": None if plan is None else plan.to_dict(),
        },
        name=name,
        by=by,
        date=date,
    )


def _verdict(noiser: Any, certificate: Any) -> str:
    test = noiser.random_state is not None or seeded(certificate)
    return f"{f'{_TESTS_ONLY}; ' if test else ''}the certificate {certificate._verdict()}"


def _conditions(noiser: Any, certificate: Any) -> list[Section]:
    """Return what the guarantee takes for granted, and what it leaves open, a line each."""
    if not certificate.holds:
        budget = certificate.notion.budget_name()
        sentence = (
            f"Nothing is guaranteed by these settings, and {budget} was asked for. Fit again."
        )
        return [Section("Conditions", sentences=[sentence])]
    taken = Section("Conditions", sentences=granted(noiser))
    left = caveats(noiser)
    return [taken, *([Section("What these settings leave open", sentences=left)] if left else [])]


def _settings_section(noiser: Any) -> Section:
    """Return the settings, those that nobody changed in one sentence."""
    usual = PufferfishNoiser().get_params(deep=False)
    settings = {**noiser.get_params(deep=False), **settings_of(noiser)}
    settings.pop("fitted", None)  # of a release that was read: all of it
    set_by = {k: v for k, v in settings.items() if k not in usual or quoted(v) != quoted(usual[k])}
    rest = ", ".join(f"{key}={_brief(settings[key])}" for key in settings if key not in set_by)
    cells = [[shown(key), _brief(value)] for key, value in set_by.items()]
    return Section(
        "Settings", cells=[["setting", "value"], *cells], sentences=[f"As usual: {rest}."]
    )


def _brief(value: Any) -> str:
    text = quoted(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


def _columns_section(noiser: Any, certificate: Any) -> Section:
    """Return what each column was, what it becomes, and how much of it survives."""
    noises = {noise.name: noise for noise in certificate.columns}
    columns = {column.name: column for column in noiser._fitted.mechanism.released_columns}
    head = ["column", "it was", "it is", "unchanged", "change", "a constant"]
    cells = [
        [
            shown(utility.name),
            _was(columns[utility.name]),
            _is(noises.get(utility.name), certificate.noise, columns[utility.name]),
            f"{utility.unchanged:.1%}",
            f"{utility.change_sd:.3f}",
            f"{utility.constant_sd:.3f}",
        ]
        for utility in certificate.utility
    ]
    note = (
        "unchanged is the share of rows whose value comes out as it was; the mean change is in "
        "standard deviations of the column, beside that of the best constant in its place: a "
        "column that changes more is further from the truth than the constant"
    )
    return Section("Column by column", note, [head, *cells])


def _was(column: Any) -> str:
    bins = " in bins" if column.edges is not None else ""
    what = "whole numbers" if column.whole else "numbers"
    if column.unordered or column.levels is not None:
        what = "categories" if column.unordered else "ordered categories"
    spread = "" if column.spread is None or column.unordered else f", sd {column.spread:.4g}"
    distinct = "" if column.free else f", {len(column.atoms)} distinct"
    return f"{what}{distinct}{bins}{spread}"


def _is(noise: Any, family: str, column: Any) -> str:
    if noise is None:
        return "exchanged with its row"
    if noise.theta == 0.0:
        return "as it was, but for bins" if column.edges is not None else "as it was, without noise"
    if noise.unordered:
        return f"drawn anew with a chance of {-math.expm1(-noise.theta):.1%}"
    return f"with {family} noise of scale {noise.theta:.4g} ({noise.relative:.3f} sd)"


def _certificate_sections(certificate: Any) -> list[Section]:
    """Return what the certificate says that does not stand elsewhere in the report."""
    promise = certificate.promise()
    lines = [line for line in certificate._lines() if line != promise]
    parts = [section for section in certificate._sections() if section.title not in _ELSEWHERE]
    return [Section("The certificate", sentences=lines), *parts]


def _audit_sections(audit: Any) -> list[Section]:
    """Return an audit, with the figures that a decision needs; its own page has all of them."""
    if audit is None:
        return [_absent("Audit", "was not attacked")]
    page, frame, kept = audit._page(), audit.table, audit.utility
    said = [line for line in page.lines if line not in (OF_THE_AUDIT, f"Promised: {audit.promise}")]
    peer = frame["view"].astype(str).str.startswith("peer:")
    note = f"the smallest p of {len(audit.attacks)}; p is that of the guarantee, over all tests"
    of_several = ~kept["what"].astype(str).str.startswith(_OF_A_COLUMN)
    return [
        Section("Audit", sentences=[page.headline, *map(str, audit.findings), *said]),
        *_table("Audit: attacks", frame[~peer].sort_values("p"), _ATTACK, note),
        *_table("Audit: readers whom the guarantee does not cover", _best(audit.readers), _READER),
        *_table("Audit: peers, which guarantee no such thing", _best(frame[peer]), _READER),
        *_table("Audit: what survives", kept[of_several], list(kept.columns)),
        *[Section("Audit: too few rows", sentences=audit.untested)] * bool(audit.untested),
    ]


def _best(frame: Any) -> Any:
    """Return of each view the attack that tells two secrets apart best."""
    return frame.sort_values("auc", ascending=False).drop_duplicates("view")


def _plan_sections(plan: Any) -> list[Section]:
    if plan is None:
        return [_absent("Plan", "was not held against other settings")]
    page = plan._page()
    said = [page.headline, *(line for line in page.lines if line != OF_THE_PLAN)]
    frame = plan.table.assign(row=plan.table.index)
    note = f"the first of {len(frame)}; row is what plan.noiser takes"
    return [Section("Plan", sentences=said), *_table("Plan: settings", frame, _SETTINGS, note)]


def _table(title: str, frame: Any, names: Sequence[str], note: str = "") -> list[Section]:
    """Return the first rows of a table, by those of its columns that it has."""
    heads = [name for name in names if name in frame.columns]
    rows = [
        [f"{value:.3g}" if isinstance(value, float) else shown(value) for value in row]
        for row in frame[heads].head(_MOST).itertuples(index=False, name=None)
    ]
    cells = [[name.replace("_", " ") for name in heads], *rows]
    return [Section(title, note, cells)] if len(frame) else []


def _absent(what: str, why: str) -> Section:
    return Section(what, sentences=[f"None was given: the release {why}."])


def _ledger_sections(ledger: Any, certificate: Any) -> list[Section]:
    """Return what is on record, once the ledger has said that it is of this noiser."""
    if ledger is None:
        return [_absent("Ledger", "is counted in none that this report was given")]
    ledger._check_noiser(certificate)
    if not isinstance(ledger, Ledger):
        page = ledger._page()
        sections = [replace(part, title=f"Ledger: {part.title}") for part in page.sections]
        return [Section("Ledger", sentences=[page.headline, *page.lines]), *sections]
    entries = [
        [shown(entry.dataset), str(entry.releases), shown(entry.note) if entry.note else ""]
        for entry in ledger.history()
    ]
    left = [[shown(name), f"{ledger.left(name).releases:g}"] for name in ledger.datasets]
    return [
        Section("Ledger", cells=[["data set", "releases", "note"], *entries]),
        Section("Ledger: what is left", cells=[["data set", "further releases"], *left]),
    ]


def _about(certificate: Any) -> dict[str, str]:
    columns = "" if certificate.n_columns is None else str(certificate.n_columns)
    return {
        "fitted": certificate.date,
        "version": f"sklearn_puffer {certificate.version}",
        "rows": str(certificate.n_rows),
        "columns of the table": columns,
        "fingerprint": certificate.fingerprint,
    }


_FIGURE = "Best attack found"
_SCORES = ("AUC on true rows", "R2 on true rows")


def _glance(certificate: Any, audit: Any) -> tuple[Section, tuple[str, ...]]:
    """Return the figures, with their picture, and the names of those that ask for attention."""
    attack = None
    if audit is not None:  # the surest finding, else the attack that tells two secrets apart best
        best = max(audit.attacks, key=lambda attack: attack.auc, default=None)
        attack = audit.findings[0].attack if audit.findings else best
    cells = [
        ["figure", "value", "beside it"],
        _change(certificate.utility),
        _stays(certificate),
        _attack(attack),
        _task(audit),
    ]
    picture = promise_picture(certificate.notion) if certificate.holds else None
    if attack is not None:
        picture = _attack_picture(audit, attack)
    alarms = (_FIGURE,) if attack is None or audit.findings or not audit.caught else ()
    return Section("At a glance", cells=cells, picture=picture), alarms


def _change(utility: Sequence[Any]) -> list[str]:
    if not utility:
        return ["Mean change", "not known", "of these columns"]
    mean, constant = (
        math.fsum(getattr(column, name) for column in utility) / len(utility)
        for name in ("change_sd", "constant_sd")
    )
    return ["Mean change", f"{mean:.2f} sd", f"a constant in each place: {constant:.2f} sd"]


def _stays(certificate: Any) -> list[str]:
    """Return how many values stay."""
    shares = [column.unchanged for column in certificate.utility]
    share = f"{math.fsum(shares) / len(shares):.1%}" if shares else "not known"
    return ["Values that stay equal", share, "of all values, on average"]


def _attack(attack: Any) -> list[str]:
    if attack is None:
        return [_FIGURE, "none tried", "pass audit= to measure it"]
    interval = f"{attack.auc_low:.2f} to {attack.auc_high:.2f}"
    return [_FIGURE, f"{attack.auc:.3f} AUC", f"({interval}); allowed: {attack.auc_allowed:.3f}"]


def _task(audit: Any) -> list[str]:
    """Return how well a model does that learns from released rows, beside one from true rows."""
    survived = () if audit is None else audit.survived
    for figure in survived:
        if figure.what in _SCORES:
            score = figure.what.split()[0]
            beside = f"{shown(figure.column)}; learnt from true rows: {figure.before:.3f}"
            return ["Task", f"{figure.after:.3f} {score}", beside]
    return ["Task", "not measured", "audit(..., task=) measures one"]


def _attack_picture(audit: Any, attack: Any) -> Bars:
    """Return what an attack reaches, beside a guess and the rows as they are."""
    pair = (attack.secret, attack.against)
    same = [other.auc for other in audit.control if (other.secret, other.against) == pair]
    rows = [("a guess", 0.5), ("the best attack on the release", attack.auc)]
    rows += [("the best attack on the rows as they are", max(same))] if same else []
    title = (
        f"How well attackers tell {shown(attack.secret)} from {shown(attack.against)}: area under "
        f"the ROC curve; the line is what the guarantee allows, {attack.auc_allowed:.3f}"
    )
    bars = [Bar(label, share, f"{share:.3f}") for label, share in rows]
    return Bars(title, bars, attack.auc_allowed)


Applies = Callable[[Any], bool]

_USED: tuple[tuple[Applies, str], ...] = (
    (
        lambda c: c.strategy == "relaxed",
        "000, Eq. (11) and (12): either alone is sound in both directions, so the one that needs "
        "less noise is taken.",
    ),
    (
        lambda c: bool(c.columns),
        "000, Algorithm 1: the scale is the upper end of a bracketed search, which is within the "
        "budget; the published search need not be.",
    ),
    (
        lambda c: c.strategy in ("wasserstein", "distribution_aware"),
        "001, Lemma 3: the Wasserstein distance is taken from differences of quantiles over the "
        "merged breakpoints; the lemma holds on unit grids alone.",
    ),
    (
        lambda c: c.strategy == "monge",
        "003, Thm 2 and Cor. 2, as printed, are wrong for mixtures: the certificate recomputes the "
        "loss, and does not hold where they fail.",
    ),
    (
        lambda c: c.strategy == "approximate" and c.alpha is not None,
        "004, Thm 4.3: the max-divergence of the shift is taken, not that of order alpha.",
    ),
    (
        lambda c: c.noise == "cauchy" and len(c.columns) > 1,
        "004, Cauchy noise in several columns: the loss of the product noise is taken, since l1 "
        "costs are unsound.",
    ),
    (
        lambda c: c.delta > 0.0 and c.alpha is None,
        "004, Def. 2.1: (epsilon, delta) is guaranteed by sets of outcomes, and not outcome by "
        "outcome.",
    ),
    (
        lambda c: len(c.utility) > 1 and c.dependence == "joint",
        "Common practice: columns that are released apart, each within epsilon, may tell more "
        "together; the joint loss of the row is what counts here.",
    ),
    (
        lambda c: any(each.whole and each.theta > 0.0 for each in c.columns),
        "Common practice: noisy values are rounded half up and never redrawn until they are in "
        "range; both can cost the guarantee otherwise.",
    ),
    (
        lambda c: c.releases > 1 and bool(c.columns),
        "Common practice: k releases within epsilon/k each need not be within epsilon together; "
        "their precisions are added up instead.",
    ),
)


def _corrections_section(certificate: Any) -> Section:
    """Return the corrections that the settings of a certificate make use of."""
    said = [text for applies, text in _USED if applies(certificate)]
    none = "None of the statements that had to be corrected is used by these settings."
    note = "what the papers print, and what holds instead; CORRECTIONS.md has the counterexamples"
    return Section("Corrections used", note, sentences=said or [none])
