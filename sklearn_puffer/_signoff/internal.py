"""The report for the person who signs: all that is known of a release, computed from raw rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sklearn_puffer._base import Section, __version__, quoted, shown
from sklearn_puffer._noiser import PufferfishNoiser
from sklearn_puffer._releases import Ledger
from sklearn_puffer._signoff.audit import INTERNAL as OF_THE_AUDIT
from sklearn_puffer._signoff.corrections import corrections_section
from sklearn_puffer._signoff.external import caveats, granted, seeded, settings_of
from sklearn_puffer._signoff.glance import glance
from sklearn_puffer._signoff.plain_words import NOT_PROMISED, example
from sklearn_puffer._signoff.plan import INTERNAL as OF_THE_PLAN
from sklearn_puffer._signoff.report import Report

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
_SAID = ("Noise by column", "How much of the data survives", "Conditions", "Assumptions")


def internal(
    noiser: Any, audit: Any, plan: Any, ledger: Any, *, name: str, by: str, date: str
) -> Report:
    """Return the report for the person who signs."""
    certificate = replace(noiser.certificate_, name="")
    at_once, alarms = glance(certificate, audit)
    ledgers = [] if ledger is None else _ledger_sections(ledger, certificate)
    return Report(
        kind="internal",
        holds=certificate.holds,
        verdict=_verdict(noiser, certificate),
        lines=(*_found(audit), certificate.promise(), *_example(certificate), INTERNAL),
        front=(at_once, *_conditions(noiser, certificate)),
        sections=(
            _columns_section(noiser, certificate),
            *_certificate_sections(certificate),
            *_audit_sections(audit),
            *_plan_sections(plan),
            *(ledgers or [_absent("Ledger", "is counted in none that this report was given")]),
            Section("What is not promised", sentences=NOT_PROMISED),
            Section("Assumptions", sentences=certificate.assumptions),
            corrections_section(certificate),
            _settings_section(noiser),
        ),
        alarms=alarms,
        about=_about(certificate),
        record=_record(noiser, audit, plan),
        name=name,
        by=by,
        date=date,
    )


def _verdict(noiser: Any, certificate: Any) -> str:
    test = noiser.random_state is not None or seeded(certificate)
    return f"{f'{_TESTS_ONLY}; ' if test else ''}the certificate {certificate._verdict()}"


def _found(audit: Any) -> list[str]:
    """Return what the audit came to, which stands above all that is only promised."""
    return [] if audit is None else [audit._page().headline]


def _example(certificate: Any) -> list[str]:
    return [example(certificate.notion)] if certificate.holds else []


def _conditions(noiser: Any, certificate: Any) -> list[Section]:
    """Return what the promise takes for granted, and what it leaves open, a line each."""
    if not certificate.holds:
        asked = certificate.notion.budget_name()
        told = (
            f"Nothing is promised by these settings; what was asked for is {asked}. Fit again, and "
            "make this report anew."
        )
        return [Section("Conditions", sentences=[told])]
    taken = Section("Conditions", sentences=granted(noiser, figures=True))
    left = caveats(noiser)
    return [taken, *([Section("What these settings leave open", sentences=left)] if left else [])]


def _settings_section(noiser: Any) -> Section:
    """Return the settings, those that nobody changed in one sentence."""
    usual = PufferfishNoiser().get_params(deep=False)
    own = {**noiser.get_params(deep=False), **settings_of(noiser)}
    set_by = {k: v for k, v in own.items() if k not in usual or quoted(v) != quoted(usual[k])}
    rest = ", ".join(f"{key}={_brief(own[key])}" for key in own if key not in set_by)
    cells = [[shown(key), _brief(value)] for key, value in set_by.items()]
    return Section(
        "Settings", cells=[["setting", "value"], *cells], sentences=[f"As usual: {rest}."]
    )


def _brief(value: Any) -> str:
    text = quoted(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


def _columns_section(noiser: Any, certificate: Any) -> Section:
    """Return what each column was, what it becomes, and how much of it survives."""
    noises = {each.name: each for each in certificate.columns}
    columns = {each.column.name: each.column for each in noiser._fitted.columns}
    head = ["column", "it was", "it is", "unchanged", "change", "a constant"]
    cells = [
        [
            shown(each.name),
            _was(columns[each.name]),
            _is(noises.get(each.name), certificate.noise, columns[each.name]),
            f"{each.unchanged:.1%}",
            f"{each.change_sd:.3f}",
            f"{each.constant_sd:.3f}",
        ]
        for each in certificate.utility
    ]
    note = (
        "unchanged is the share of rows whose value comes out as it was; the mean change is in "
        "standard deviations of the column, beside that of the best constant in its place: a "
        "column that changes more tells less than the constant"
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
        swap = family == "record swap"
        return "exchanged with its row" if swap else "drawn with its row, by the channel"
    if noise.theta == 0.0:
        return "as it was, but for bins" if column.edges is not None else "as it was, without noise"
    if noise.unordered:
        return f"drawn anew with a chance of {-math.expm1(-noise.theta):.1%}"
    return f"with {family} noise of scale {noise.theta:.4g} ({noise.relative:.3f} sd)"


def _certificate_sections(certificate: Any) -> list[Section]:
    """Return what the certificate says that does not stand elsewhere in the report."""
    promise = certificate.promise()
    lines = [line for line in certificate._lines() if line != promise]
    parts = [each for each in certificate._sections() if each.title not in _SAID]
    return [Section("The certificate", sentences=lines), *parts]


def _audit_sections(audit: Any) -> list[Section]:
    """Return an audit, with the figures that a decision needs; its own page has all of them."""
    if audit is None:
        return [_absent("Audit", "was not attacked")]
    page, frame, kept = audit._page(), audit.table, audit.utility
    said = [line for line in page.lines if line not in (OF_THE_AUDIT, f"Promised: {audit.promise}")]
    peer = frame["view"].astype(str).str.startswith("peer:")
    note = f"the smallest p of {len(audit.attacks)}; p is that of the promise, over all tests"
    of_several = ~kept["what"].astype(str).str.startswith(_OF_A_COLUMN)
    return [
        Section("Audit", sentences=[page.headline, *map(str, audit.findings), *said]),
        *_table("Audit: attacks", frame[~peer].sort_values("p"), _ATTACK, note),
        *_table("Audit: readers whom the promise does not cover", _best(audit.readers), _READER),
        *_table("Audit: peers, which promise no such thing", _best(frame[peer]), _READER),
        *_table("Audit: what survives", kept[of_several], list(kept.columns)),
        *([Section("Audit: too few rows", sentences=audit.untested)] if audit.untested else []),
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
    rows = frame[heads].head(_MOST).itertuples(index=False, name=None)
    cells = [[name.replace("_", " ") for name in heads], *([*map(_figure, row)] for row in rows)]
    return [Section(title, note, cells)] if len(frame) else []


def _figure(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else shown(value)


def _absent(what: str, told: str) -> Section:
    return Section(what, sentences=[f"None was given: the release {told}."])


def _ledger_sections(ledger: Any, certificate: Any) -> list[Section]:
    """Return what is on record, once the ledger has said that it is of this noiser."""
    if not isinstance(ledger, Ledger):
        ledger._read(lambda book: ledger._check_noiser(certificate, book.about))
        page = ledger._page()
        own = [replace(each, title=f"Ledger: {each.title}") for each in page.sections]
        return [Section("Ledger", sentences=[page.headline, *page.lines]), *own]
    ledger._check_noiser(certificate)
    entries = [
        [shown(each.dataset), str(each.releases), shown(each.note) if each.note else ""]
        for each in ledger.history()
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


def _record(noiser: Any, audit: Any, plan: Any) -> dict[str, Any]:
    told: Sequence[tuple[str, Any]] = (("audit", audit), ("plan", plan))
    return {
        "version": __version__,
        "certificate": noiser.certificate_.to_dict(),
        **{name: None if each is None else each.to_dict() for name, each in told},
    }
