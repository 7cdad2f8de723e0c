"""A report to sign, and one for recipients: what a release guarantees and costs, on a page.

Nothing in the report for recipients is made of raw rows. It is built from parameters and names, one
by one, and never from a page of the certificate with parts left out: what is added to a certificate
later does not reach recipients. What is said of a mechanism are its own `Terms`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scipy.special import expit, logit

from sklearn_puffer._base import check_choice
from sklearn_puffer._documents import (
    Bar,
    Bars,
    Document,
    Page,
    Section,
    __version__,
    markdown,
    render,
    utc_now,
)
from sklearn_puffer._release import (
    UNCOVERED,
    Certificate,
    Ledger,
    PersonLedger,
    TableRelease,
    Terms,
    UncertifiedError,
    left_open,
    not_promised,
)
from sklearn_puffer._review.findings import INTERNAL as OF_THE_AUDIT
from sklearn_puffer._review.findings import Audit
from sklearn_puffer._review.plan import INTERNAL as OF_THE_PLAN
from sklearn_puffer._review.plan import Plan
from sklearn_puffer._words import listed, percent_at_most, quoted, shown, times
from sklearn_puffer.notions import Notion

SCHEMA = "sklearn_puffer.report/1"
_FIELDS = ("Release, or not", "Name", "Role", "Place and date", "Signature")
SIGNATURE = Section("Signature", cells=[_FIELDS, [""] * len(_FIELDS)])
_WHOM = {"internal": "For the person who signs", "external": "For recipients"}


@dataclass(frozen=True)
class Report(Document):
    """What a release guarantees and costs, made by `report`: one page, as text, HTML or Markdown.

    Parameters
    ----------
    kind : {"internal", "external"}
    holds : bool
        Whether the certificate holds.
    verdict : str
        That of the certificate, and for whom it holds.
    lines : tuple of str
        What stands right below it.
    front, sections : tuple of Section
        What is looked at first, the figures and then the conditions; and the appendix.
    about : mapping
        What was released, when and by which version.
    record : mapping
        What the JSON has besides the page.
    name, by : str
        The data set, and who made the report, where that is told.
    alarms : tuple of str
        Names of figures that ask for attention.
    date : str
        When it was made (UTC, ISO 8601).

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser, report
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> noiser = PufferfishNoiser(epsilon=0.5, sensitive="loan").fit(table)
    >>> told = report(noiser, kind="external", name="loans")
    >>> print(told.markdown.splitlines()[0])
    # Report of loans, for recipients: the guarantee holds
    >>> told.to_dict()["schema"], told.holds
    ('sklearn_puffer.report/1', True)
    """

    kind: str
    holds: bool
    verdict: str
    lines: tuple[str, ...]
    front: tuple[Section, ...]
    sections: tuple[Section, ...]
    about: Mapping[str, str]
    record: Mapping[str, Any]
    name: str = ""
    by: str = ""
    alarms: tuple[str, ...] = ()
    date: str = field(default="", compare=False)

    @property
    def html(self) -> str:
        """The report as one HTML file, without scripts and without anything from elsewhere.

        Jinja2 makes it, of the extra ``report``; without it this is a ModuleNotFoundError.
        """
        return render("report.html", report=self, page=self._page())

    def _html(self) -> str:
        return self.html

    @property
    def markdown(self) -> str:
        """The report as Markdown, without pictures."""
        return markdown(self._page())

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain Python values, for JSON.

        Returns
        -------
        dict
            With a ``schema``, which changes with its keys: ``headline``, ``lines`` and
            ``sections`` (each ``title``, ``note``, ``table`` of ``columns`` and ``rows``, or None,
            and ``sentences``) are the page; the other keys are facts for machines.
        """
        page = self._page()
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            "headline": page.headline,
            "holds": self.holds,
            "name": self.name,
            "by": self.by,
            "date": self.date,
            **self.record,
            "lines": list(page.lines),
            "sections": [section.record() for section in page.sections],
        }

    @property
    def whom(self) -> str:
        """For whom it is, when it was made, and who made it."""
        return f"{_WHOM[self.kind]} · {self.date}{f' · by {shown(self.by)}' if self.by else ''}"

    def _page(self) -> Page:
        """Return the page: what is looked at first, room to sign, and the rest as appendix."""
        of = f" of {shown(self.name)}" if self.name else ""
        whom = ", for recipients" if self.kind == "external" else ""
        sign = [SIGNATURE] if self.kind == "internal" else []
        parts = [*self.front, *sign, *self.sections, self._about_section()]
        return Page(f"Report{of}{whom}: {self.verdict}", self.lines, parts)

    def _about_section(self) -> Section:
        about = {
            "data set": shown(self.name) if self.name else "not named",
            "report made": self.date,
            "by": shown(self.by) if self.by else "not told",
            **self.about,
        }
        mark = [f"Fingerprint: {about.pop('fingerprint')}."] if "fingerprint" in about else []
        return Section("About this report", cells=[[*about], [*about.values()]], sentences=mark)


def report(
    noiser: TableRelease,
    audit: Audit | None = None,
    plan: Plan | None = None,
    kind: str = "internal",
    *,
    ledger: Ledger | PersonLedger | None = None,
    name: str | None = None,
    by: str = "",
) -> Report:
    """Return a report of a release, for the person who signs it.

    The internal report says all there is to know of a release, and is computed from the raw rows:
    keep it where you keep the table. The external report is for recipients: it is made of settings
    and names alone.

    Parameters
    ----------
    noiser : PufferfishNoiser, PufferfishMicroaggregator, PufferfishSwap or PufferfishRelease
        Fitted. Nothing is released, and nothing is spent.
    audit : Audit, default=None
        What `audit` found, of this release.
    plan : Plan, default=None
        What `plan` found before the fit.
    kind : {"internal", "external"}, default="internal"
        An external report leaves ``audit``, ``plan`` and ``ledger`` out.
    ledger : Ledger or PersonLedger, default=None
        Of this release: what was released until now.
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
        If there was no fit, or a change since, or an argument is not what it should be.
    UncertifiedError
        If an external report is asked for of a certificate that does not hold.
    LedgerError
        If the ledger is that of another release.

    Notes
    -----
    *Formal guarantees.* An external report is a function of parameters of the estimator, names of
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
    ['At a glance', 'Conditions', 'What you must decide']
    >>> told.html.startswith("<!doctype html>"), told.holds
    (True, True)
    """
    check_choice(kind, "kind", ["internal", "external"])
    if not isinstance(noiser, TableRelease):
        raise TypeError(
            "noiser must be a fitted PufferfishNoiser, PufferfishMicroaggregator, PufferfishSwap "
            f"or PufferfishRelease, got {quoted(noiser)}."
        )
    noiser._check_as_certified()
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
    made = _external(noiser) if kind == "external" else _internal(noiser, audit, plan, ledger)
    return replace(made, name=named, by=by, date=utc_now())


def _check_alike(noiser: TableRelease, audit: Audit | None, plan: Plan | None) -> None:
    """Refuse what is about another noiser."""
    promise, protected = noiser.certificate_.promise(), set(noiser._fitted.rules.sensitive)
    if audit is not None and audit.promise != promise:
        raise ValueError(
            f"audit is of a noiser with another guarantee, {audit.promise!r}, and that of this one "
            f"is {promise!r}; audit this one, or leave it out."
        )
    if plan is not None and set(plan.sensitive) != protected:
        raise ValueError(
            f"plan protects {quoted(sorted(map(str, plan.sensitive)))} and this noiser "
            f"{quoted(sorted(map(str, protected)))}; pass the plan of this release, or leave it "
            "out."
        )


_LEFT_OUT = (
    "Functions of the raw rows are left out: the size of the noise, shares that move, exact "
    "losses, how much survives, distributions, numbers of rows, values of columns (and pairs of "
    "secrets that were not declared), the classifiers' figures, the fingerprint, the plan, the "
    "audit and the ledger. They stand in the internal report.",
    "This report exists only if the fit succeeded and its certificate holds, which depends on the "
    "rows.",
)


def _external(noiser: TableRelease) -> Report:
    _check_promised(noiser)
    certificate, rules = noiser.certificate_, noiser._fitted.rules
    terms, settings = noiser._fitted.mechanism.terms(noiser), _settings(noiser)
    told = ", ".join(f"{key}: {shown(v)}" for key, v in settings.items() if v is not None)
    left_out = [*left_open(noiser), *not_promised(noiser)]
    return Report(
        kind="external",
        holds=True,
        verdict="the guarantee holds",
        lines=(*certificate._promises(), terms.whole, *_examples(noiser)),
        front=(
            _budget(noiser),
            Section("What the guarantee takes for granted", sentences=_granted(noiser, terms)),
        ),
        sections=(
            Section("What is not guaranteed", sentences=left_out),
            _columns(noiser, terms),
            _secrets(noiser),
            Section("Settings", sentences=[f"{told}."]),
            Section("What this report leaves out", sentences=_LEFT_OUT),
        ),
        about={"fitted": certificate.date, "version": f"sklearn_puffer {certificate.version}"},
        record={
            "version": __version__,
            "fitted": {"date": certificate.date, "version": certificate.version},
            "promise": certificate.promise(),
            "settings": settings,
            "sensitive": list(map(str, rules.sensitive)),
            "released": [str(c.name) for c in noiser._fitted.mechanism.released_columns],
            "passed": list(map(str, rules.passed)),
        },
    )


def _check_promised(noiser: TableRelease) -> None:
    certificate = noiser.certificate_
    if not certificate.holds:
        raise UncertifiedError(
            "the certificate does not hold, so there is no report for recipients; use "
            'kind="internal", which says so, and fit again.'
        )
    if noiser.random_state is not None or seeded(certificate):
        raise ValueError(
            f"random_state={quoted(noiser.random_state)}, or the one in fit, makes the noise "
            "reproducible, and nothing is guaranteed outside tests; fit again without one."
        )


def seeded(certificate: Certificate) -> bool:
    """Return whether the certificate is of a noiser that was fitted with a seed."""
    # certificates of earlier versions say promised for guaranteed
    words = "NOTHING is (guaranteed|promised) outside tests"
    return any(re.search(words, said) for said in certificate.assumptions)


def _settings(noiser: TableRelease) -> dict[str, Any]:
    """Return the settings that are numbers and words, and so no function of rows."""
    certificate = noiser.certificate_
    names = ("epsilon", "delta", "alpha", "releases", "noise", "dependence")
    settings = {name: getattr(certificate, name) for name in names}
    return settings | {"missing": noiser._fitted.rules.missing, "output": certificate.output}


def _granted(noiser: TableRelease, terms: Terms) -> list[str]:
    """Return what the guarantee takes for granted."""
    apart = "Epsilon is the budget at distance 1; pairs have it times their distance."
    return [*terms.granted, *([apart] if _has_distances(noiser) else [])]


def _has_distances(noiser: TableRelease) -> bool:
    """Return whether each pair of secrets has a budget of its own: epsilon times their distance."""
    return getattr(noiser, "metric", None) is not None


def _columns(noiser: TableRelease, terms: Terms) -> Section:
    known, ways = _known(noiser, terms) or [], dict[str, list[str]]()
    for name in (column.name for column in noiser._fitted.mechanism.released_columns):
        way = "as it is, since a reader may know it" if name in known else terms.how
        ways.setdefault(way, []).append(shown(name))
    if passed := [shown(name) for name in noiser._fitted.rules.passed]:
        ways["as it is, and NOT protected"] = passed
    cells = [["columns", "how each is released"], *([", ".join(e), way] for way, e in ways.items())]
    return Section("Released columns", terms.about, cells)


def _known(noiser: TableRelease, terms: Terms) -> list[Any] | None:
    """Return the columns declared as side information; None where no artifact names them."""
    if terms.known is not None:
        return list(terms.known)
    if not hasattr(noiser, "known"):
        return None
    known = noiser.known
    flat = known if isinstance(known, list | dict) else [] if known is None else [known]
    return [name for names in flat for name in (names if isinstance(names, tuple) else [names])]


def _secrets(noiser: TableRelease) -> Section:
    """Return what is protected: labels only where somebody declared them."""
    declared = getattr(noiser, "secret_pairs", None)
    sensitive = [shown(name) for name in noiser._fitted.rules.sensitive]
    if isinstance(declared, list | tuple):
        declared = {" and ".join(sensitive): declared}
    if isinstance(declared, Mapping):
        head = ["sensitive", "secret", "against"]
        pairs = [(name, *pair) for name, of_column in declared.items() for pair in of_column]
        return Section("Protected secrets", cells=[head, *(list(map(shown, p)) for p in pairs)])
    which = "every one is protected against every other of its column"
    if declared is None:
        which = "the certificate lists the pairs of them that are protected"
    one = f"one value of {' or of '.join(sensitive)}"
    if any(isinstance(pair.secret, tuple) for pair in noiser.certificate_.pairs):
        one = f"a value or a combination of values of {', '.join(sensitive)}"
    return Section("Protected secrets", sentences=[f"Each secret is {one}; {which}."])


def _budget(noiser: TableRelease) -> Section:
    """Return the figures of the budget, which are all there are without the rows."""
    certificate, notion = noiser.certificate_, noiser.certificate_.notion
    budget, most = notion.budget_name(), percent_at_most(notion.best_guess())
    pair = ", for secrets at distance 1" if _has_distances(noiser) else ""
    shift = ["Odds of a secret", "no fixed limit", f"{budget}: some releases may tell more"]
    if bounds_odds(certificate):
        most_odds = times(certificate.epsilon)
        shift = ["Shift of odds", most_odds, f"at most, by the budget {budget}{pair}"]
    guess = ["Best guess at a secret", most, f"at most, where it was 50.0 % before{pair}"]
    return Section("At a glance", cells=[_HEAD, shift, guess], picture=promise_picture(notion))


def _examples(noiser: TableRelease, audit: Audit | None = None) -> list[str]:
    """Return what the guarantee makes of an even chance, and of that of the rarest secret."""
    certificate = noiser.certificate_
    if not certificate.holds or _has_distances(noiser):
        return []
    return [certificate.notion.example(), *_rarest(noiser, () if audit is None else audit.control)]


def _rarest(noiser: TableRelease, attacks: Sequence[Any]) -> list[str]:
    """Return what becomes of the share of the rarest secret; not where readers know a part."""
    certificate, terms = noiser.certificate_, noiser._fitted.mechanism.terms(noiser)
    joined = getattr(getattr(certificate, "prototypes", None), "joined", ())
    apart = _known(noiser, terms) != [] or joined or certificate.groups is not None
    if not attacks or apart or not bounds_odds(certificate):
        return []
    rare = min(attacks, key=lambda attack: attack.n / (attack.n + attack.n_against))
    share = rare.n / (rare.n + rare.n_against)
    most = percent_at_most(float(expit(logit(share) + certificate.epsilon)))
    return [
        f"In this table {100.0 * share:.2g} % of those with {shown(rare.sensitive)} "
        f"{shown(rare.secret)} or {shown(rare.against)} have {shown(rare.secret)} (as audited): "
        f"that chance becomes at most {most}."
    ]


OF_RAW_ROWS = (
    "This page is computed from the raw rows: keep it where you keep the table; others get the "
    'report for recipients (kind="external").'
)
_TESTS_ONLY = (
    "random_state is set, which makes the noise reproducible: NOTHING IS PROMISED outside tests"
)
_HEAD = ["figure", "value", "beside it"]
_TWICE = ("Column", "Control", "Attacks", "What else")  # on their own pages alone
_MOST = 9  # lines of a table, its head among them


def _internal(noiser: TableRelease, audit: Any, plan: Any, ledger: Any) -> Report:
    _check_alike(noiser, audit, plan)
    certificate = replace(noiser.certificate_, name="")
    if ledger is not None:
        ledger._check_noiser(certificate)
    at_once, alarms = first_figures(certificate, audit)
    found = [] if audit is None else [audit._page().headline]  # above what is only guaranteed
    terms, promises = noiser._fitted.mechanism.terms(noiser), certificate._promises()
    params = {**noiser.get_params(deep=False), **_settings(noiser)}
    params.pop("fitted", None)  # of a release that was read: all of it
    settings = ", ".join(f"{key}={quoted(value)[:200]}" for key, value in params.items())
    order, told = _of_order(certificate, plan), certificate._lines()
    return Report(
        kind="internal",
        holds=certificate.holds,
        verdict=_verdict(noiser, certificate, audit),
        lines=(
            *found,
            *order,
            *promises,
            *([terms.whole] if certificate.holds else []),
            *_examples(noiser, audit),
            *_of_use(certificate),
            OF_RAW_ROWS,
        ),
        front=(at_once, *_conditions(noiser, certificate, audit)),
        sections=(
            _columns(noiser, terms),
            Section("The certificate", sentences=[e for e in told if e not in promises]),
            *certificate._sections(),
            *_page_of("Audit", audit, "the release was not attacked"),
            *_page_of("Plan", plan, "no other settings were tried"),
            *_page_of("Ledger", ledger, "no release is counted here"),
            Section("What is not guaranteed", sentences=not_promised(noiser)),
            Section("Settings", sentences=[f"{settings}."]),
        ),
        alarms=alarms,
        about={
            "fitted": certificate.date,
            "version": f"sklearn_puffer {certificate.version}",
            "rows": str(certificate.n_rows),
            "columns of the table": str(certificate.n_columns or ""),
            "fingerprint": certificate.fingerprint,
        },
        record={
            "version": __version__,
            "certificate": noiser.certificate_.to_dict(),
            "audit": None if audit is None else audit.to_dict(),
            "plan": None if plan is None else plan.to_dict(),
        },
    )


def _of_order(certificate: Certificate, plan: Plan | None = None) -> list[str]:
    """Return what the order of the fitted rows tells, or of those that were planned on."""
    own, others = (
        [said for said in told if UNCOVERED in said]
        for told in (certificate.assumptions, () if plan is None else plan.notes)
    )
    return own or [f"In the table of the plan: {said}" for said in others]


def _verdict(noiser: TableRelease, certificate: Certificate, audit: Audit | None) -> str:
    test = noiser.random_state is not None or seeded(certificate)
    told = certificate._verdict()
    found = audit is not None and audit.findings
    if certificate.utility and all(c.unchanged >= 1.0 for c in certificate.utility):
        told = told if told.startswith("nothing was changed") else f"nothing was changed; {told}"
    return (
        f"{f'{_TESTS_ONLY}; ' if test else ''}"
        f"{'AN AUDIT FOUND MORE THAN WAS GUARANTEED; ' if found else ''}the certificate {told}"
        f"{'; BUT THE ORDER OR INDEX OF THE ROWS TELLS A SECRET' if _of_order(certificate) else ''}"
    )


def _of_use(certificate: Certificate) -> list[str]:
    """Return where single rows keep no more than constants would: in the mean, or in columns."""
    utility = certificate.utility
    worse = [column for column in utility if column.worse]
    change, constant = means(utility, "change_sd", "constant_sd")
    if utility and (len(worse) == len(utility) or constant < change < math.inf):
        return [
            "A ROW KEEPS NO MORE THAN CONSTANTS WOULD: its values change by "
            f"{change:.2f} standard deviations on average, by {constant:.2f} with a constant in "
            "each place."
        ]
    names = listed([column.name for column in worse], 5)
    told = f"Single values of {names} keep no more than a constant in their place would."
    return [told] if worse else []


def _conditions(
    noiser: TableRelease, certificate: Certificate, audit: Audit | None
) -> list[Section]:
    """Return what the guarantee takes for granted, and what it leaves open, a line each."""
    if not certificate.holds:
        budget = certificate.notion.budget_name()
        sentence = (
            f"Nothing is guaranteed by these settings, and {budget} was asked for. Fit again."
        )
        return [Section("Conditions", sentences=[sentence])]
    terms = noiser._fitted.mechanism.terms(noiser)
    taken = Section("Conditions", sentences=_granted(noiser, terms))
    left = [said for said in left_open(noiser) if UNCOVERED not in said]  # which stands above
    open_ones = [Section("What these settings leave open", sentences=left)] if left else []
    return [taken, *open_ones, _decide(noiser, terms, audit)]


def _decide(noiser: TableRelease, terms: Terms, audit: Audit | None) -> Section:
    """Return what nobody but who answers for the data can decide, a line each."""
    joined, known = getattr(noiser, "joined", None), _known(noiser, terms)
    beside = "known= of this artifact is named nowhere"
    if known is not None:
        beside = f"taken as known: {', '.join(map(shown, known)) or 'none'}"
    if joined is not None:
        beside += f"; joined= names {quoted(joined)}"
    about_ids = (
        f"Ids: whether values of {', '.join(map(shown, terms.ids))} say something of a person, as "
        "numbers given by date do."
    )
    tried = "whether to sign what nobody attacked; an audit (audit=) does."
    if audit is not None and audit.attacks:
        tried = f"whether those that were tried are enough: {audit._findable()}."
    sentences = [
        "Known columns and labels: whether readers know, or may later join, further facts of a "
        f"person ({beside}).",
        *([about_ids] if terms.ids else []),
        f"Second releases: release {terms.again}.",
        "Order: whether rows were sorted by what tells a secret; in doubt, shuffle them first.",
        f"Attacks: {tried}",
        "Use: whether what is left serves its purpose, by the changes and the task above.",
    ]
    return Section("What you must decide", sentences=sentences)


def _page_of(what: str, document: Any, why: str) -> list[Section]:
    """Return the page of a document, but for what is long: its own page has all of it."""
    if document is None:
        return [Section(what, sentences=[f"None was given: {why}."])]
    page = document._page()
    above = f"Promised: {getattr(document, 'promise', '')}", OF_THE_AUDIT, OF_THE_PLAN
    said = [line for line in page.lines if line not in above]
    parts = [part for part in page.sections if not part.title.startswith(_TWICE)]
    return [Section(what, sentences=[page.headline, *said]), *(_brief(what, p) for p in parts)]


def _brief(what: str, part: Section) -> Section:
    """Return a part of a page, with a table of few lines that says how many there are."""
    note, lines = part.note, len(part.cells) - 1
    if lines >= _MOST:
        more = f"the first {_MOST - 1} of {lines} lines"
        note = f"{note}; {more}" if note else more
    return replace(part, title=f"{what}: {part.title.lower()}", note=note, cells=part.cells[:_MOST])


def bounds_odds(certificate: Certificate) -> bool:
    """Return whether no odds shift further, not with a small chance or in a mean alone."""
    return certificate.delta == 0.0 and certificate.alpha is None


def promise_picture(notion: Notion) -> Bars:
    """Return how well a reader may guess which of two secrets it is, before and after."""
    most = notion.best_guess()
    rows = [
        Bar("before the release", 0.5, percent_at_most(0.5)),
        Bar("after it, at most", most, percent_at_most(most)),
    ]
    return Bars("Chance of naming one of two equally probable secrets rightly", rows)


_FIGURE = "Best attack found"
_SCORES = ("AUC on true rows", "R2 on true rows")


def first_figures(certificate: Certificate, audit: Audit | None) -> tuple[Section, tuple[str, ...]]:
    """Return the figures, with their picture, and the names of those that ask for attention."""
    change, constant, stay = means(certificate.utility, "change_sd", "constant_sd", "unchanged")
    beside = f"sd: standard deviations; a constant in each place: {constant:.2f} sd"
    cells = [
        _HEAD,
        ["Mean change", f"{change:.2f} sd", beside],
        ["Values that stay equal", f"{stay:.1%}", "of all values, on average"],
        *_typical(certificate),
        _attack(audit, certificate),
        _task(audit),
    ]
    calm = audit is not None and audit.attacks and audit.caught and not audit.findings
    picture = promise_picture(certificate.notion) if certificate.holds else None
    if audit is not None and audit.attacks:
        picture = audit._picture()
    section = Section("At a glance", cells=cells, picture=picture)
    return section, () if calm else (_FIGURE,)


def means(utility: Sequence[Any], *names: str) -> tuple[float, ...]:
    return tuple(
        math.fsum(getattr(column, name) for column in utility) / max(len(utility), 1)
        for name in names
    )


def _typical(certificate: Any) -> list[list[str]]:
    """Return how many typical rows there are, and what the whole file told who holds the list."""
    facts = getattr(certificate, "prototypes", None)
    if facts is None:
        return []
    known = "; beside known columns" if facts.strata is not None else ""
    number = f"at most, each typical of {facts.smallest} fitted rows or more{known}"
    whole = "simulated, not proven: shift of odds for who holds the list of the fitted people"
    if facts.table > certificate.epsilon:
        whole += "; MORE THAN OF ONE ROW: keep it from such readers"
    rows = ["Different rows", f"{facts.n_prototypes}", number]
    file = ["Whole file", times(facts.table), whole]
    return [file] if facts.drawn is not None else [rows, file]  # columns drawn one by one


def _attack(audit: Audit | None, certificate: Certificate) -> list[str]:
    attack = None if audit is None else audit._surest()
    if audit is None or attack is None:
        return [_FIGURE, "none tried", "an audit (audit=) measures it"]
    allowed = f"{audit._limit(attack)} allowed"
    if not bounds_odds(certificate):
        allowed = f"allowed: {certificate.notion.budget_name()}"
    chance = ", beyond it within chance" * (attack.low > attack.allowed and not audit.findings)
    beside = f"{attack.view}: surely shifted odds; {allowed}{chance}; {audit._findable()}"
    return [
        _FIGURE,
        times(attack.low, at_least=True) if attack.low > 0.0 else "no sure shift",
        beside,
    ]


def _task(audit: Audit | None) -> list[str]:
    """Return how well a model does that learns from released rows, beside one from true rows."""
    for figure in () if audit is None else audit.survived:
        if figure.what in _SCORES:
            beside = f"{shown(figure.column)}; learnt from true rows: {figure.before:.3f}"
            return ["Task", f"{figure.after:.3f} {figure.what.split()[0]}", beside]
    return ["Task", "not measured", "an audit with task= measures one"]
