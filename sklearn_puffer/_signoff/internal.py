"""The report for the person who signs: all that is known of a release, computed from raw rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sklearn_puffer._base import Section, __version__, quoted, shown
from sklearn_puffer._releases import Ledger
from sklearn_puffer._signoff.corrections import corrections_section
from sklearn_puffer._signoff.external import caveats, seeded, settings_of
from sklearn_puffer._signoff.pictures import bars
from sklearn_puffer._signoff.plain_words import not_promised, promise_section
from sklearn_puffer._signoff.report import Report
from sklearn_puffer._signoff.report_pictures import (
    attacks_picture,
    changes_picture,
    losses_picture,
    settings_picture,
    spent_picture,
)

INTERNAL = (
    "This form is computed from the raw rows and is not noisy: keep it where you keep the table, "
    'and give others report(noiser, kind="external").'
)
_TESTS_ONLY = (
    "random_state is set, which makes the noise reproducible: NOTHING IS PROMISED outside tests"
)


def internal(
    noiser: Any, audit: Any, plan: Any, ledger: Any, *, name: str, by: str, date: str
) -> Report:
    """Return the report for the person who signs."""
    certificate = replace(noiser.certificate_, name="")
    ledgers = [] if ledger is None else _ledger_sections(ledger, certificate)
    return Report(
        kind="internal",
        holds=certificate.holds,
        verdict=_verdict(noiser, certificate),
        lines=(*_found(audit), *_lines(certificate), INTERNAL),
        sections=(
            *_promises(noiser, certificate),
            _columns_section(noiser, certificate),
            *_certificate_sections(certificate),
            *_audit_sections(audit),
            *_plan_sections(plan),
            *(ledgers or [_absent("Ledger", "what was released until now is not in this report")]),
            corrections_section(certificate),
        ),
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


def _lines(certificate: Any) -> list[str]:
    """Return the lines of the certificate, the promise first."""
    promise = certificate.promise()
    others = (line for line in certificate._lines() if line != promise)
    return [promise, *certificate._taken_for_granted(), *others]


def _promises(noiser: Any, certificate: Any) -> list[Section]:
    passed = not_promised(caveats(noiser))
    settings = _settings_section(noiser)
    if certificate.holds:
        return [promise_section(certificate.notion), passed, settings]
    told = (
        "Nothing is promised by these settings; what was asked for is "
        f"{certificate.notion.budget_name()}. Fit again, and make this report anew."
    )
    return [Section("The promise in plain words", sentences=[told]), passed, settings]


def _settings_section(noiser: Any) -> Section:
    own = {**noiser.get_params(deep=False), **settings_of(noiser)}
    cells = [[shown(key), _brief(value)] for key, value in own.items()]
    return Section("Settings", cells=[["setting", "value"], *cells])


def _brief(value: Any) -> str:
    text = quoted(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


def _columns_section(noiser: Any, certificate: Any) -> Section:
    """Return what each column was, what it becomes, and how much of it survives."""
    noises = {each.name: each for each in certificate.columns}
    columns = {each.column.name: each.column for each in noiser._columns()}
    head = ["column", "it was", "it is", "unchanged", "mean change (sd)", "a constant (sd)"]
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
    rows = [(shown(e.name), e.unchanged, f"{e.unchanged:.1%}") for e in certificate.utility]
    picture = bars("Share of values that come out as they were", rows)
    picture += changes_picture(certificate.utility)
    return Section("Column by column", note, [head, *cells], figure=picture)


def _was(column: Any) -> str:
    bins = " in bins" if column.edges is not None else ""
    what = "whole numbers" if column.whole else "numbers"
    if column.unordered or column.levels is not None:
        what = "values without an order" if column.unordered else "categories in order"
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
    """Return the parts of the certificate, with a picture of the losses beside its pairs."""
    return [
        replace(each, figure=losses_picture(certificate))
        if each.title.startswith("Worst pairs")
        else each
        for each in certificate._sections()
    ]


def _audit_sections(audit: Any) -> list[Section]:
    if audit is None:
        return [_absent("Audit", "the release was not attacked before this report")]
    return _document_sections("Audit", audit, attacks_picture(audit))


def _plan_sections(plan: Any) -> list[Section]:
    if plan is None:
        return [_absent("Plan", "what other settings cost is not in this report")]
    return _document_sections("Plan", plan, settings_picture(plan))


def _document_sections(what: str, document: Any, picture: str = "") -> list[Section]:
    page = document._page()
    own = [replace(each, title=f"{what}: {each.title}") for each in page.sections]
    return [Section(what, sentences=[page.headline, *page.lines], figure=picture), *own]


def _absent(what: str, told: str) -> Section:
    return Section(what, sentences=[f"None was given: {told}."])


def _ledger_sections(ledger: Any, certificate: Any) -> list[Section]:
    """Return what is on record, once the ledger has said that it is of this noiser."""
    if not isinstance(ledger, Ledger):
        ledger._read(lambda book: ledger._check_noiser(certificate, book.about))
        return _document_sections("Ledger", ledger)
    ledger._check_noiser(certificate)
    entries = [
        [shown(each.dataset), str(each.releases), shown(each.note) if each.note else ""]
        for each in ledger.history()
    ]
    left = [[shown(name), f"{ledger.left(name).releases:g}"] for name in ledger.datasets]
    return [
        Section(
            "Ledger",
            cells=[["data set", "releases", "note"], *entries],
            figure=spent_picture(ledger),
        ),
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
