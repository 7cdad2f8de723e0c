"""A report to sign, and one for recipients: what a release guarantees and costs, on a page.

Nothing in the report for recipients is made of raw rows. It is built from parameters and names, one
by one, and never from a page of the certificate with parts left out: what is added to a certificate
later does not reach recipients. What is said of a mechanism are its own `Terms`.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sklearn_puffer._base import check_choice
from sklearn_puffer._certificates import UncertifiedError, utility_section
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._documents import Document, Page, Section, __version__, render, utc_now
from sklearn_puffer._release import TableRelease, about_file, fitted_shares, left_open, not_promised
from sklearn_puffer._review.audit import BLUNT, NOT_BY_FIT, NOT_BY_LIST, Audit
from sklearn_puffer._review.exact_tests import Attack
from sklearn_puffer._review.readers import INSIDER, JOINS
from sklearn_puffer._rows import UNCOVERED
from sklearn_puffer._words import listed, on_one_line, plain, quoted, shown, times

SCHEMA = "sklearn_puffer.report/2"
_FIELDS = ("Release, or not", "Name", "Role", "Place and date", "Signature")
SIGNATURE = Section("Signature", cells=[_FIELDS, [""] * len(_FIELDS)])
_NO_AUDIT = Audit((), (), "", {})


@dataclass(frozen=True)
class Report(Document):
    """What a release guarantees and costs, made by `report`: one page, as text or HTML.

    Parameters
    ----------
    kind : {"internal", "external"}
    holds : bool
        Whether the certificate holds.
    page : Page
        The verdict, and for whom it holds; what stands right below it; and the parts.
    n_front : int
        How many parts are looked at first: the figures, then the conditions.
    record : mapping
        What the JSON has besides the page: what was released, when and by which version.
    name, by : str
        The data set, and who made the report, where that is told.
    sound : bool
        Whether the certificate holds and the verdict names no danger beside it.
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
    >>> print(str(told).splitlines()[0])
    Report of loans, for recipients: the guarantee holds for readers named below, but NOT for \
readers who know the population better
    >>> told.to_dict()["schema"], told.holds
    ('sklearn_puffer.report/2', True)
    """

    kind: str
    holds: bool
    page: Page
    n_front: int
    record: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    by: str = ""
    sound: bool = True
    date: str = field(default_factory=utc_now, compare=False)

    @property
    def html(self) -> str:
        """The report as one HTML file, without scripts and without anything from elsewhere.

        Jinja2 makes it, of the extra ``report``; without it this is a ModuleNotFoundError.
        """
        return render("report.html", report=self, page=self.page, alarms=_ALARMS)

    def _html(self) -> str:
        return self.html

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain Python values, for JSON.

        Returns
        -------
        dict
            With a ``schema``, which changes with its keys: ``headline``, ``lines`` and
            ``sections`` (each ``title``, ``note``, ``table`` of ``columns`` and ``rows``, or None,
            and ``sentences``) are the page; the other keys are facts for machines.
        """
        return {
            "schema": SCHEMA,
            "version": __version__,
            "headline": self.page.headline,
            **{key: getattr(self, key) for key in ("kind", "holds", "name", "by", "date")},
            **self.record,
            "lines": list(self.page.lines),
            "sections": [section.record() for section in self.page.sections],
        }

    def _page(self) -> Page:
        return self.page


def report(
    noiser: TableRelease,
    audit: Audit | None = None,
    *,
    kind: str = "internal",
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
    kind : {"internal", "external"}, default="internal"
        An external report takes no ``audit``, which is for who signs.
    name : str, default=None
        Of the data set; that of the certificate (`Certificate.named`) where it is left out.
    by : str, default=""
        Who makes the report.

    Returns
    -------
    Report
        ``html`` (of the extra ``report``), ``str()`` and ``to_json()`` are the same page, and
        ``save(path)`` writes one. Where the certificate does not hold the first line says so.

    Raises
    ------
    NotFittedError, TypeError, ValueError
        If there was no fit, or a change since, or an argument is not what it should be.
    UncertifiedError
        If an external report is asked for of a certificate that does not hold.

    Notes
    -----
    *Formal guarantees.* An external report is a function of parameters of the estimator, names of
    columns, the version, dates, ``name`` and ``by``: of two tables with the same columns whose
    certificates hold it is the same, to the byte, but for the dates, and for what tests of the
    order of rows, ids and index found: recipients see that order. That there is one tells that the
    fit succeeded and its certificate holds. Pairs of secrets are in it where ``secret_pairs`` lists
    them.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser, report
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> noiser = PufferfishNoiser(epsilon=0.5, sensitive="loan").fit(table)
    >>> told = report(noiser, name="loans", by="A. Clerk")
    >>> [section["title"] for section in told.to_dict()["sections"]][:3]
    ['At a glance', 'Conditions, and what is left open', 'What you must decide']
    >>> told.html.startswith("<!doctype html>"), told.holds
    (True, True)
    """
    check_choice(kind, "kind", ["internal", "external"])
    if not isinstance(noiser, TableRelease):
        raise TypeError(
            "noiser must be a fitted PufferfishNoiser, PufferfishMicroaggregator, PufferfishSwap "
            f"or PufferfishRelease, got a {type(noiser).__name__}."
        )
    noiser._check_as_certified()
    name = noiser.certificate_.name if name is None else name
    for argument, text in {"name": name, "by": by}.items():
        if not isinstance(text, str):
            raise TypeError(f"{argument} must be a string, got a {type(text).__name__}.")
    if not isinstance(audit, Audit | None):
        raise TypeError(f"audit must be what audit() returns, got a {type(audit).__name__}.")
    own = noiser.certificate_.fingerprint
    if audit is not None and audit.fingerprint != own:
        raise ValueError(
            f"audit is of a release of fingerprint {audit.fingerprint[:12]!r}, and that of this "
            f"one is {own[:12]!r}; audit this one, or leave it out."
        )
    if kind == "internal":
        return _Rows(noiser, audit or _NO_AUDIT).report(name, by)
    if audit is not None:
        raise ValueError(
            "audit is for who signs, and this report is for recipients; leave it out, or take "
            'kind="internal".'
        )
    return _Settings(noiser).report(name, by)


_HEAD = ["figure", "value", "beside it"]
# figures, or values of figures, that ask for attention
_ALARMS = _BEYOND, _UNTRIED, _UNFOUND, _FEW = (
    "Beyond the limit",
    "none tried",
    "none could be found",
    "too few rows to tell",
)
_ORDER_TELLS = "BUT THE ORDER OF ROWS OR IDS, OR THE INDEX, TELLS A SECRET"
_USELESS = "BUT OF LITTLE USE: A CONSTANT IN THEIR PLACE WOULD CHANGE VALUES NO MORE"
_IN_BINS = "in bins or merged, since a reader may know it"


class _Settings:
    """What is said of a release by its settings and names alone: all that recipients get."""

    def __init__(self, noiser: Any, audit: Audit = _NO_AUDIT) -> None:
        self.noiser, self.certificate, self.audit = noiser, noiser.certificate_, audit
        self.rules, self.mechanism = noiser._fitted.rules, noiser._fitted.mechanism
        self.terms = self.mechanism.terms(noiser)
        # no odds shift further, not with a small chance or in a mean alone
        self.bounds_odds = self.certificate.delta == 0.0 and self.certificate.alpha is None
        # certificates of earlier versions say that nothing is promised, and not guaranteed
        said = any("outside tests" in each for each in self.certificate.assumptions)
        self.seeded = said or noiser.random_state is not None
        # what the order of the fitted rows tells
        self.of_order = [said for said in self.certificate.assumptions if UNCOVERED in said]
        self.nearest = _BEYOND if audit.findings else "Nearest to the limit"

    def report(self, name: str, by: str) -> Report:
        """Return the report for recipients."""
        certificate = self.certificate
        if self.seeded or not certificate.holds:
            seed = f"random_state={quoted(self.noiser.random_state)} (or in fit) is a seed"
            why = seed if self.seeded else "the certificate does not hold"
            raise UncertifiedError(
                f'{why}, so there is no report for recipients; fit again, or use kind="internal".'
            )
        if not isinstance(getattr(self.noiser, "max_group", None), int) and certificate.groups:
            # the largest group was counted, or an artifact does not say whether it was
            groups = replace(certificate.groups, max_group=0)
            guaranteed = replace(certificate.guaranteed, groups=groups)
            self.certificate = replace(certificate, guaranteed=guaranteed)
        verdict = f"the guarantee holds for readers named below{self.terms.beyond}"
        order = f"; {_ORDER_TELLS}" * bool(self.of_order)
        # of their order without the way out, which is the sender's
        opened = [re.sub(f"({UNCOVERED}):.*", r"\1.", said) for said in left_open(self.noiser)]
        left_out = [*opened, *not_promised(self.noiser)]
        parts = [
            Section("At a glance", cells=[_HEAD, self.limit()]),
            Section("What the guarantee takes for granted", sentences=self.terms.granted),
            Section("What is not guaranteed", sentences=left_out),
            self.columns(),
            self.secrets(),
            self.about(name, by),
        ]
        lines = [*about_file(self.noiser), *self.guarantee()]
        page = Page(f"{_of(name)}, for recipients: {verdict}{order}", lines, parts)
        return Report("external", True, page, 2, name=name, by=by, sound=not self.of_order)

    def about(self, name: str, by: str) -> Section:
        """Return what was released how, and when and by what the page was made."""
        told = {
            "data set": shown(name) if name else "not named",
            "released as": self.terms.name,
            "report made": utc_now(),
            "made by": shown(by) if by else "not told",
            "fitted": f"{self.certificate.date}, by sklearn_puffer {self.certificate.version}",
        }
        return Section("About this report", cells=[[*told], [*told.values()]])

    def guarantee(self, shares: Mapping[str, float] | None = None) -> list[str]:
        """Return the guarantee, an example, and whether it is of a whole file."""
        certificate, terms = self.certificate, self.terms
        example = [] if terms.apart else [certificate.notion.example(shares)]
        told = [*example, terms.whole] if certificate.holds else []
        return [*certificate._promises(), *told]

    def limit(self) -> list[str]:
        """Return how far odds shift at most, as a figure."""
        budget = self.certificate.notion.budget_name()
        if not (self.bounds_odds and self.certificate.holds):
            return ["Odds of a secret", "no fixed limit", f"{budget}: some releases may tell more"]
        beside = f"at most, by the budget {budget}{self.terms.limit}"
        return ["Shift of odds", times(self.certificate.epsilon), beside]

    def columns(self) -> Section:
        """Return how each column is released."""
        terms, ways = self.terms, dict[str, list[str]]()
        told = {column.name: terms.how for column in self.mechanism.released_columns}
        told |= dict.fromkeys(told.keys() & terms.known, "as it is, since a reader may know it")
        told |= dict.fromkeys(self.rules.passed, "as it is, and NOT protected")
        told |= dict.fromkeys(told.keys() & terms.coarse, _IN_BINS)
        for name, way in told.items():
            ways.setdefault(way, []).append(shown(name))
        cells = [[", ".join(names), way] for way, names in ways.items()]
        head = ["columns", "how each is released"]
        return Section("Released columns", terms.about, [head, *cells])

    def secrets(self) -> Section:
        """Return what is protected: labels only where somebody declared them."""
        kinds = {pair.sensitive: type(pair.secret) for pair in self.certificate.pairs}
        declared = getattr(self.noiser, "secret_pairs", "all")
        if not isinstance(declared, Mapping):  # of the one column, or combination
            declared = dict.fromkeys(kinds, declared)
        listed = {
            " and ".join(map(str, name)) if isinstance(name, tuple) else name: pairs
            for name, pairs in declared.items()
            if not isinstance(pairs, str)
        }
        cells = [[*map(shown, (name, *pair))] for name, own in listed.items() for pair in own]
        cells = [["sensitive", "secret", "against"], *cells] if listed else []
        kind = "a combination of values of {}", "one value of {}"
        rest = [
            kind[of is not tuple].format(shown(n)) for n, of in kinds.items() if n not in listed
        ]
        if any(each.startswith(say.COARSE_SECRETS) for each in self.certificate.assumptions):
            rest += ["all values in one interval or merged into one secret"] * bool(rest)
        which = "every one is protected against every other of its column or combination"
        if say.ONLY_LISTED in self.certificate.assumptions and not listed:  # of an artifact
            which = "only some pairs of them are protected: ask who released the table which"
        sentences = [f"Each secret is {' or '.join(rest)}; {which}."] if rest else []
        return Section("Protected secrets", cells=cells, sentences=sentences)


_TESTS_ONLY = "a seed (random_state) was set: NOTHING IS PROMISED outside tests"


class _Rows(_Settings):
    """What is said to who signs: besides, what the certificate and others found of the rows."""

    def report(self, name: str, by: str) -> Report:
        """Return the report to sign."""
        certificate, audit, verdict = self.certificate, self.audit, self._verdict()
        given = audit is not _NO_AUDIT
        which = "be these released or others" if self.mechanism.by_row else "and these are released"
        lines = [
            *about_file(self.noiser, self.rules.names),
            *([audit._page().headline] if given else []),
            *self.of_order,
            *self.guarantee(fitted_shares(self.noiser)),
            *self._beside(),
            f"This page is computed from the {certificate.n_rows:,} fitted rows, {which}: keep it "
            "with the table; others get the report for recipients.",
        ]
        mark = f"Fingerprint of the fit, and not of a file: {certificate.fingerprint}"
        front = [self._figures(), *self._conditions()]
        rest = [
            SIGNATURE,
            self.columns(),
            utility_section(certificate.utility),
            Section("Found in the fitted rows", sentences=[*self._of_rows(lines)]),
            self._audited(lines),
            Section("What is not guaranteed", sentences=not_promised(self.noiser)),
            Section("Settings", "others are the defaults", sentences=[self._set()]),
            replace(self.about(name, by), sentences=[mark]),
        ]
        found = audit.to_dict() if given else None
        parts = [*front, *(part for part in rest if part.sentences or len(part.cells) > 1)]
        return Report(
            "internal",
            certificate.holds,
            Page(f"{_of(name)}: {'; '.join(verdict)}", lines, parts),
            len(front),
            record={"certificate": certificate.to_dict(), "audit": found},
            name=name,
            by=by,
            sound=certificate.holds and len(verdict) == 1,
        )

    def _set(self) -> str:
        """Return the settings as Python writes them, but for defaults."""
        defaults = inspect.signature(type(self.noiser)).parameters
        own = {key: getattr(self.certificate, key) for key in ("epsilon", "delta")}
        if self.certificate.releases > 1:
            own["releases"] = self.certificate.releases
        params = self.noiser.get_params(deep=False)
        own |= {key: e for key, e in params.items() if repr(e) != repr(defaults[key].default)}
        own.pop("fitted", None)  # of a release that was read: all of it
        return on_one_line(", ".join(f"{key}={plain(value)!r}" for key, value in own.items()))

    def _verdict(self) -> list[str]:
        """Return what the certificate says, between the dangers that stand beside it."""
        certificate = self.certificate
        # where the certificate says itself for whom it does not hold, of priors, this may be less
        milder = certificate.holds and not certificate._beyond()
        kept = f"the certificate {certificate._verdict()}{self.terms.beyond * milder}"
        applies = {
            _TESTS_ONLY: self.seeded,
            "AN AUDIT FOUND MORE THAN WAS GUARANTEED": self.audit.findings,
            kept: True,
            **dict.fromkeys(certificate._dangers(), True),
            _ORDER_TELLS: self.of_order,
            _USELESS: _is_useless(certificate.utility),
        }
        return [said for said, true in applies.items() if true]

    def _beside(self) -> Iterator[str]:
        """Yield what was not attacked, or keeps next to nothing."""
        yield from (said for said in self.audit.notes if said in (NOT_BY_LIST, NOT_BY_FIT))
        if self.audit.untested:
            yield f"Not attacked, as too few rows have them: {'; '.join(self.audit.untested)}."
        utility = self.certificate.utility  # of little use as a whole says the first line
        if any(column.worse for column in utility) and not _is_useless(utility):
            yield from self.certificate._what_changes()

    def _of_rows(self, above: Sequence[str]) -> Iterator[str]:
        """Yield what the certificate found in the rows, and no settings say."""
        told = " ".join([*above, *self.terms.left_out, *self.certificate._glossary()])
        yield from (said for said in self.certificate._told_below() if said not in told)
        yield from say.found_in_rows(self.certificate.assumptions)

    def _conditions(self) -> list[Section]:
        """Return what the guarantee takes for granted, and what it leaves open, a line each."""
        if not self.certificate.holds:
            return [Section("Conditions", sentences=["Nothing is guaranteed: fit again."])]
        left = [said for said in left_open(self.noiser) if UNCOVERED not in said]  # stands above
        return [
            Section("Conditions, and what is left open", sentences=[*left, *self.terms.granted]),
            Section("What you must decide", sentences=self._decisions()),
        ]

    def _decisions(self) -> list[str]:
        """Return what nobody but who answers for the data can decide."""
        terms = self.terms
        beside = f"taken as known: {', '.join(map(shown, terms.known)) or 'none'}"
        beside += f"; as joined later: {listed(terms.joined)}" if terms.joined else ""
        attacks = "whether to sign what nobody attacked; an audit would."
        if self.audit.attacks:
            attacks = "whether those tried are enough, by what they would have found."
        if self.audit.findings:
            attacks = "one tells more than was guaranteed; release nothing before it is explained."
        joins = [own for own in self.audit.others if own.view.startswith(JOINS)]
        joins = [own for own in joins if own.log_odds > self.certificate.epsilon]
        for most in sorted(joins, key=lambda own: -own.low)[:1]:
            beside += f"; NOT covered: who {most.view}: {most.shift()} ({most.ends()})"
        return [
            *self.certificate._decisions(terms.ids),
            f"Known facts: which others readers know, or may join later ({beside}).",
            f"Second releases: release {terms.again}.",
            "Order: whether rows were sorted by what tells a secret; in doubt, shuffle.",
            f"Attacks: {attacks}",
            "Use: whether what is left serves its purpose.",
        ]

    def _figures(self) -> Section:
        """Return the figures that are looked at first: of readers, then of use."""
        change, constant, stay = _means(self.certificate.utility)
        task = ["Task", "not measured", "a plan or an audit with a task measures it"]
        for figure in self.audit.survived:
            scored = figure.what in ("AUC on true rows", "R2 on true rows")
            if scored and not math.isnan(figure.after):
                own = f"{figure.after:.3f} {figure.what.split()[0]}"
                chance = "0.5" if figure.what.startswith("AUC") else "0"
                beside = (
                    f"{shown(figure.column)}; of true rows {figure.before:.3f}, by chance {chance}"
                )
                task = ["Task", own, beside]
        alike = f"of constants {constant:.2f} sd; {stay:.1%} of values stay equal"
        cells = [
            _HEAD,
            self.limit(),
            *self._attacks(),
            *self.certificate._figures(),
            ["Mean change", f"{change:.2f} sd", f"standard deviations; {alike}"],
            task,
        ]
        return Section("At a glance", cells=cells)

    def _attacks(self) -> Iterator[list[str]]:
        """Yield how far readers shifted odds: the best, insiders, and of rows as they are."""
        audit, attack = self.audit, self.audit._surest()
        if attack is None:
            yield [self.nearest, _UNTRIED, "an audit measures it"]
        elif audit._sees() or audit.findings:
            yield [self.nearest, *self._reached(attack)]
        else:
            yield [self.nearest, _UNFOUND, "attackers are weak, or rows too few"]
        for own in audit._by_reader():
            if own.view == INSIDER != getattr(attack, "view", None):
                yield ["Insiders", *self._reached(own)]
        if raw := audit._as_they_are():
            beside = f"odds shifted ({raw.ends()}, by this test alone), if released unchanged"
            yield ["Rows as they are", raw.shift().partition(",")[0], beside]

    def _reached(self, attack: Attack) -> tuple[str, str]:
        """Return how far a reader shifted odds, and what is allowed."""
        allowed = f"allowed: {self.certificate.notion.budget_name()}"
        if math.isnan(attack.allowed):
            allowed = "no limit is guaranteed"
        elif self.bounds_odds:
            allowed = f"{times(attack.allowed)} allowed"
        value, _, chance = attack.shift().partition(", ")
        beside = f"{attack.view}: odds shifted ({attack.ends()}, the 95 % interval); {allowed}"
        if chance:
            beside = f"{attack.view}: {value} ({attack.ends()}), as chance has it; {allowed}"
            few = attack.high > attack.allowed + BLUNT
            value = _FEW if few else "no breach found"
        return value, beside

    def _audited(self, above: Sequence[str]) -> Section:
        """Return what each reader of the audit reached, and what was not tried."""
        if self.audit is _NO_AUDIT:
            return Section("Audit", sentences=["None was given: the release was not attacked."])
        page = self.audit._page()
        [readers] = [part for part in page.sections if part.title == "Readers"]
        told = [*map(str, self.audit.findings), *page.lines[1:]]  # but for the promise
        beside = [said for said in told if said not in above]
        return replace(readers, title="Audit: what each reader reached", sentences=beside)


def _of(name: str) -> str:
    return f"Report of {shown(name)}" if name else "Report"


def _means(utility: Sequence[Any]) -> list[float]:
    """Return the mean change of a column, that of constants, and the share of equal values."""
    names, n = ("change_sd", "constant_sd", "unchanged"), max(len(utility), 1)
    return [math.fsum(getattr(column, name) for column in utility) / n for name in names]


def _is_useless(utility: Sequence[Any]) -> bool:
    """Return whether constants would change values no more, on the mean over columns."""
    change, constant, _ = _means(utility)
    if math.isinf(change):  # then by medians
        return all(column.worse for column in utility)
    return 0.0 < constant * (1.0 - 1e-9) <= change
