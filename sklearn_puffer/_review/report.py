"""A report to sign, and one for recipients: what a release guarantees and costs, on a page.

Nothing in the report for recipients is made of raw rows. It is built from parameters and names, one
by one, and never from a page of the certificate with parts left out: what is added to a certificate
later does not reach recipients. What is said of a mechanism are its own `Terms`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sklearn_puffer._base import check_choice
from sklearn_puffer._certificates import UncertifiedError
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._documents import (
    Document,
    Page,
    Section,
    __version__,
    render,
    utc_now,
)
from sklearn_puffer._release import TableRelease, left_open, not_promised
from sklearn_puffer._review.audit import INTERNAL as OF_THE_AUDIT
from sklearn_puffer._review.audit import NOT_BY_LIST, Audit, ends, shift, within_chance
from sklearn_puffer._review.readers import INSIDER
from sklearn_puffer._rows import UNCOVERED
from sklearn_puffer._words import listed, on_one_line, percent_at_most, plain, quoted, shown, times

SCHEMA = "sklearn_puffer.report/2"
_FIELDS = ("Release, or not", "Name", "Role", "Place and date", "Signature")
SIGNATURE = Section("Signature", cells=[_FIELDS, [""] * len(_FIELDS)])
_WHOM = {"internal": "For the person who signs", "external": "For recipients"}


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
    alarm : str
        Name of the figure that asks for attention.
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
    alarm: str = ""
    sound: bool = True
    date: str = field(default_factory=utc_now, compare=False)

    @property
    def html(self) -> str:
        """The report as one HTML file, without scripts and without anything from elsewhere.

        Jinja2 makes it, of the extra ``report``; without it this is a ModuleNotFoundError.
        """
        return render("report.html", report=self, page=self.page)

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

    @property
    def whom(self) -> str:
        """For whom it is, when it was made, and who made it."""
        return f"{_WHOM[self.kind]} · {self.date}{f' · by {shown(self.by)}' if self.by else ''}"

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
    ['At a glance', 'Conditions', 'What you must decide']
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
    if audit is not None and not isinstance(audit, Audit):
        raise TypeError(
            f"audit must be an Audit, as audit() returns it, got a {type(audit).__name__}."
        )
    if kind == "internal":
        return _Rows(noiser, audit).report(name, by)
    if audit is not None:
        raise ValueError(
            "audit is for who signs, and this report is for recipients; leave it out, or take "
            'kind="internal".'
        )
    return _Settings(noiser).report(name, by)


_HEAD = ["figure", "value", "beside it"]
_ORDER_TELLS = "BUT THE ORDER OF ROWS OR IDS, OR THE INDEX, TELLS A SECRET"
_USELESS = "BUT OF LITTLE USE: A CONSTANT IN THEIR PLACE WOULD CHANGE VALUES NO MORE"
_IN_BINS = "in bins or merged, since a reader may know it"
_LEFT_OUT = (
    "All that is computed from the raw rows (how much changes and survives, exact losses, numbers "
    "of rows, values that were not declared, the fingerprint, an audit) stands in the internal "
    "report. This one exists only where the certificate of the fit holds.",
)


class _Settings:
    """What is said of a release by its settings and names alone: all that recipients get."""

    def __init__(self, noiser: Any) -> None:
        self.noiser, self.certificate = noiser, noiser.certificate_
        self.rules, mechanism = noiser._fitted.rules, noiser._fitted.mechanism
        self.terms = mechanism.terms(noiser)
        self.released = [column.name for column in mechanism.released_columns]
        self.apart = self.terms.apart
        # no odds shift further, not with a small chance or in a mean alone
        self.bounds_odds = self.certificate.delta == 0.0 and self.certificate.alpha is None
        # certificates of earlier versions say that nothing is promised, and not guaranteed
        said = any("outside tests" in each for each in self.certificate.assumptions)
        self.seeded = said or noiser.random_state is not None
        names = ["epsilon", "delta", "alpha", "releases", "noise"]
        names += ["dependence", "output"] * bool(self.certificate.columns)  # of noise alone
        # numbers and words, and so no function of rows
        self.settings = {key: getattr(self.certificate, key) for key in names}
        if self.certificate.columns:
            self.settings["missing"] = self.rules.missing
        self.known = self.terms.known
        # what the order of the fitted rows tells
        self.of_order = [said for said in self.certificate.assumptions if UNCOVERED in said]

    def report(self, name: str, by: str) -> Report:
        """Return the report for recipients."""
        certificate = self.certificate
        if not certificate.holds:
            raise UncertifiedError(
                "the certificate does not hold, so there is no report for recipients; use "
                'kind="internal", which says so, and fit again.'
            )
        if self.seeded:
            raise ValueError(
                f"random_state={quoted(self.noiser.random_state)}, or the one in fit, makes the "
                "noise reproducible, and nothing is guaranteed outside tests; fit again without "
                "one."
            )
        if not isinstance(getattr(self.noiser, "max_group", None), int) and certificate.groups:
            # the largest group was counted, or an artifact does not say whether it was
            groups = replace(certificate.groups, max_group=0)
            guaranteed = replace(certificate.guaranteed, groups=groups)
            self.certificate = replace(certificate, guaranteed=guaranteed)
        settings = {"mechanism" if key == "noise" else key: e for key, e in self.settings.items()}
        told = [f"{key}: {shown(each)}" for key, each in settings.items() if each is not None]
        left_out = [*left_open(self.noiser), *not_promised(self.noiser)]
        parts = [
            self._budget(),
            Section("What the guarantee takes for granted", sentences=self.granted()),
            Section("What is not guaranteed", sentences=left_out),
            self.columns(),
            self._secrets(),
            Section("Settings", sentences=[f"{', '.join(told)}."]),
            Section("What this report leaves out", sentences=_LEFT_OUT),
            self.about(name, by),
        ]
        verdict = f"the guarantee holds for readers named below{self.terms.beyond}"
        order = f"; {_ORDER_TELLS}" * bool(self.of_order)
        headline = f"Report{_of(name)}, for recipients: {verdict}{order}"
        return Report(
            kind="external",
            holds=True,
            page=Page(headline, self.guarantee(), parts),
            n_front=2,
            name=name,
            by=by,
            sound=not self.of_order,
        )

    def about(self, name: str, by: str, **more: str) -> Section:
        """Return when and by what it was made."""
        told = {
            "data set": shown(name) if name else "not named",
            "report made": utc_now(),
            "by": shown(by) if by else "not told",
            "fitted": self.certificate.date,
            "version": f"sklearn_puffer {self.certificate.version}",
            **more,
        }
        return Section("About this report", cells=[[*told], [*told.values()]])

    def guarantee(self) -> list[str]:
        """Return the guarantee, whether it is of a whole file, and an example."""
        certificate = self.certificate
        whole = [self.terms.whole] if certificate.holds else []
        example = [certificate.notion.example()] if certificate.holds and not self.apart else []
        return [*certificate._promises(), *example, *whole]

    def granted(self) -> list[str]:
        """Return what the guarantee takes for granted."""
        apart = "Epsilon is the budget at distance 1; pairs have it times their distance."
        return [*self.terms.granted, *([apart] if self.apart else [])]

    def columns(self) -> Section:
        """Return how each column is released."""
        ways, coarse = dict[str, list[str]](), self.terms.coarse
        for name in self.released:
            known = name in self.known
            way = "as it is, since a reader may know it" if known else self.terms.how
            ways.setdefault(_IN_BINS if name in coarse else way, []).append(shown(name))
        for name in self.rules.passed:
            way = _IN_BINS if name in coarse else "as it is, and NOT protected"
            ways.setdefault(way, []).append(shown(name))
        cells = [[", ".join(names), way] for way, names in ways.items()]
        head = ["columns", "how each is released"]
        return Section("Released columns", self.terms.about, [head, *cells])

    def _secrets(self) -> Section:
        """Return what is protected: labels only where somebody declared them."""
        declared, said = getattr(self.noiser, "secret_pairs", {}), self.certificate.assumptions
        kinds = {pair.sensitive: type(pair.secret) for pair in self.certificate.pairs}
        if isinstance(declared, list | tuple):  # of the one column, or combination
            declared = dict.fromkeys(kinds, declared)
        listed = {
            " and ".join(map(str, name)) if isinstance(name, tuple) else name: pairs
            for name, pairs in ({} if isinstance(declared, str) else declared).items()
            if not isinstance(pairs, str)
        }
        told = [[name, *pair] for name, pairs in listed.items() for pair in pairs]
        cells = [["sensitive", "secret", "against"], *([*map(shown, row)] for row in told)]
        kind = "a combination of values of {}", "one value of {}"
        rest = [
            kind[of is not tuple].format(shown(n)) for n, of in kinds.items() if n not in listed
        ]
        one = " or ".join(rest)
        if any(each.startswith(say.COARSE_SECRETS) for each in said):
            one += ", or all values in one interval or merged into one secret"
        which = "every one is protected against every other of its column or combination"
        if say.ONLY_LISTED in said and not listed:  # an artifact does not name them
            which = "only some pairs of them are protected: ask who released the table which"
        sentences = [f"Each secret is {one}; {which}."] if rest else []
        return Section("Protected secrets", cells=cells if listed else (), sentences=sentences)

    def _budget(self) -> Section:
        """Return the figures of the budget, which are all there are without the rows."""
        notion, pair = self.certificate.notion, ", for secrets at distance 1" * self.apart
        budget, most = notion.budget_name(), percent_at_most(notion.best_guess())
        shift = ["Odds of a secret", "no fixed limit", f"{budget}: some releases may tell more"]
        if self.bounds_odds:
            factor = times(self.certificate.epsilon)
            of_one = "; of one row, no limit is proven of a file" * self.terms.of_one_row
            shift = ["Shift of odds", factor, f"at most, by the budget {budget}{pair}{of_one}"]
        beside = f"at most for {self.terms.reader}, where it was 50.0 % before{pair}"
        guess = ["Best guess at a secret", most, beside]
        return Section("At a glance", cells=[_HEAD, shift, guess])


_TESTS_ONLY = (
    "random_state is set, which makes the noise reproducible: NOTHING IS PROMISED outside tests"
)
_FIGURE = "Surest attack"
_MEANS = "change_sd", "constant_sd", "unchanged"


class _Rows(_Settings):
    """What is said to who signs: besides, what the certificate and others found of the rows."""

    def __init__(self, noiser: Any, audit: Any) -> None:
        """Refuse an audit of another release."""
        super().__init__(noiser)
        self.audit, own = audit, self.certificate.fingerprint
        if audit is not None and audit.fingerprint != own:
            raise ValueError(
                f"audit is of a release of fingerprint {audit.fingerprint[:12]!r}, and that of "
                f"this one is {own[:12]!r}; audit this one, or leave it out."
            )

    def report(self, name: str, by: str) -> Report:
        """Return the report to sign."""
        certificate, audit = self.certificate, self.audit
        defaults = inspect.signature(type(self.noiser)).parameters
        params = self.noiser.get_params(deep=False)
        own = {key: e for key, e in params.items() if repr(e) != repr(defaults[key].default)}
        own.pop("fitted", None)  # of a release that was read: all of it
        own = {key: e for key, e in self.settings.items() if e is not None} | own
        settings = ", ".join(f"{key}={plain(value)!r}" for key, value in own.items())
        found = [] if audit is None else [audit._page().headline]
        calm = audit is not None and audit.caught and not audit.findings
        promises, verdict = certificate._promises(), self._verdict()
        above = {*promises, *self.granted(), *self.terms.left_out}
        told = [said for said in certificate._lines() if said not in above]
        front = [self._figures(), *self._conditions()]
        by_row = self.noiser._fitted.mechanism.by_row
        which = "be these released or others" if by_row else "and these are released"
        internal = (
            f"This page is computed from the {certificate.n_rows:,} fitted rows, {which}: keep it "
            "where you keep the table; others get the report for recipients."
        )
        lines = [*found, *self.of_order, *self.guarantee(), *self._of_use(), internal]
        size = {"rows": str(certificate.n_rows), "columns": str(certificate.n_columns or "")}
        mark = [
            f"Fingerprint: {certificate.fingerprint}. It is of the fit and its settings, and not "
            "of a released file: sign a digest of the file besides."
        ]
        rest = [
            SIGNATURE,
            self.columns(),
            Section("The certificate", sentences=told),
            *certificate._sections(),
            *_page_of(audit, lines),
            Section("What is not guaranteed", sentences=not_promised(self.noiser)),
            Section("Settings", "others are the defaults", sentences=[on_one_line(settings)]),
            replace(self.about(name, by, **size), sentences=mark),
        ]
        return Report(
            kind="internal",
            holds=certificate.holds,
            page=Page(f"Report{_of(name)}: {'; '.join(verdict)}", lines, [*front, *rest]),
            n_front=len(front),
            record={
                "certificate": certificate.to_dict(),
                "audit": None if audit is None else audit.to_dict(),
            },
            name=name,
            by=by,
            alarm="" if calm else _FIGURE,
            sound=certificate.holds and len(verdict) == 1,
        )

    def _verdict(self) -> list[str]:
        """Return what the certificate says, between the dangers that stand beside it."""
        certificate, told = self.certificate, self.certificate._verdict()
        same = certificate.utility and all(c.unchanged >= 1.0 for c in certificate.utility)
        if same and not told.startswith("nothing was changed"):
            told = f"nothing was changed; {told}"
        applies = {
            _TESTS_ONLY: self.seeded,
            "AN AUDIT FOUND MORE THAN WAS GUARANTEED": self.audit and self.audit.findings,
            f"the certificate {told}": True,
            **dict.fromkeys(certificate._dangers(), True),
            _ORDER_TELLS: self.of_order,
            _USELESS: _is_useless(certificate.utility),
        }
        return [said for said, true in applies.items() if true]

    def _of_use(self) -> Iterator[str]:
        """Yield what insiders reached, what is left out, untested, or keeps next to nothing."""
        for own in () if self.audit is None else self.audit._by_reader():
            if own.view == INSIDER:
                free = math.isnan(own.allowed)
                allowed = "no limit is guaranteed" if free else f"{times(own.allowed)} allowed"
                yield (
                    "Insiders, who find their own row with somebody else, shifted odds "
                    f"{shift(own)} ({ends(own)}); {allowed}{within_chance(own)}."
                )
        out = [name for name in self.rules.names if name not in self.rules.order]
        if out := [shown(name) for name in out if name not in self.rules.sensitive]:
            yield f"Left out of the release, besides what is sensitive: {', '.join(out)}."
        if self.audit is not None and NOT_BY_LIST in self.audit.notes:
            yield NOT_BY_LIST
        if self.audit is not None and self.audit.untested:
            yield f"Not attacked, as too few rows have them: {'; '.join(self.audit.untested)}."
        utility = self.certificate.utility  # of little use as a whole says the first line
        if any(column.worse for column in utility) and not _is_useless(utility):
            yield from self.certificate._what_changes()

    def _conditions(self) -> list[Section]:
        """Return what the guarantee takes for granted, and what it leaves open, a line each."""
        if not self.certificate.holds:
            budget = self.certificate.notion.budget_name()
            told = f"Nothing is guaranteed by these settings: {budget} was asked for. Fit again."
            return [Section("Conditions", sentences=[told])]
        left = [said for said in left_open(self.noiser) if UNCOVERED not in said]  # stands above
        parts = {
            "Conditions": self.granted(),
            "What these settings leave open": left,
            "What you must decide": [*self._decisions()],
        }
        return [Section(title, sentences=told) for title, told in parts.items() if told]

    def _decisions(self) -> Iterator[str]:
        """Yield what nobody but who answers for the data can decide."""
        joined, known = getattr(self.noiser, "joined", None), self.known
        beside = f"taken as known: {', '.join(map(shown, known)) or 'none'}"
        if joined is not None:
            columns = [joined] if isinstance(joined, str | int) else list(joined)
            beside += f"; as joined later: {listed(columns)}"
        yield (
            "Known columns and labels: whether readers know, or may later join, further facts of a "
            f"person ({beside})."
        )
        if self.terms.ids:
            yield (
                f"Ids: whether {', '.join(map(shown, self.terms.ids))} may go out, beside rows "
                "that are often the person's own, and say nothing of a person (as dates do)."
            )
        yield f"Second releases: release {self.terms.again}."
        yield (
            "Order: whether rows were sorted by what tells a secret; in doubt, shuffle them first."
        )
        attacks = "whether to sign what nobody attacked; an audit would."
        if self.audit is not None and self.audit.findings:
            attacks = (
                "one tells more than was guaranteed; release nothing before that is explained."
            )
        elif self.audit is not None and self.audit.attacks:
            attacks = "whether those that were tried are enough, by what they would have found."
        yield f"Attacks: {attacks}"
        yield "Use: whether what is left serves its purpose."

    def _figures(self) -> Section:
        """Return the figures that are looked at first."""
        utility, audit = self.certificate.utility, self.audit
        change, constant, stay = (
            math.fsum(getattr(column, name) for column in utility) / max(len(utility), 1)
            for name in _MEANS
        )
        beside = f"sd: standard deviations; a constant in each place: {constant:.2f} sd"
        cells = [
            _HEAD,
            ["Mean change", f"{change:.2f} sd", beside],
            ["Values that stay equal", f"{stay:.1%}", "of all values, on average"],
            *self.certificate._figures(),
            [_FIGURE, *self._attack()],
            ["Task", "not measured", "a plan or an audit with a task measures it"],
        ]
        for figure in () if audit is None else audit.survived:
            if figure.what in ("AUC on true rows", "R2 on true rows"):
                own = f"{figure.after:.3f} {figure.what.split()[0]}"
                beside = f"{shown(figure.column)}; learnt from true rows: {figure.before:.3f}"
                cells[-1] = ["Task", own, beside]
        return Section("At a glance", cells=cells)

    def _attack(self) -> tuple[str, str]:
        """Return how far the best reader shifted odds, and what stands beside it."""
        audit, attack = self.audit, None if self.audit is None else self.audit._surest()
        if attack is None:
            return "none tried", "an audit measures it"
        if not (audit._sees() or audit.findings):
            return "none could be found", "by attackers as weak, or rows as few; audit more rows"
        allowed = f"{times(attack.allowed)} allowed"
        if not self.bounds_odds:
            allowed = f"allowed: {self.certificate.notion.budget_name()}"
        beside = f"{attack.view}: shift of odds ({ends(attack)}, the 95 % interval); {allowed}"
        return shift(attack), f"{beside}{within_chance(attack)}"


def _of(name: str) -> str:
    return f" of {shown(name)}" if name else ""


def _is_useless(utility: Sequence[Any]) -> bool:
    """Return whether constants would change values no more, on the mean over columns."""
    change, constant = (math.fsum(getattr(c, name) for c in utility) for name in _MEANS[:2])
    if math.isinf(change):  # then by medians
        return all(column.worse for column in utility)
    return 0.0 < constant * (1.0 - 1e-9) <= change


def _page_of(audit: Audit | None, front: Sequence[str]) -> list[Section]:
    """Return the page of an audit without what stands in front or on its own page alone."""
    if audit is None:
        return [Section("Audit", sentences=["None was given: the release was not attacked."])]
    page, above = audit._page(), {f"Promised: {audit.promise}", OF_THE_AUDIT, *front}
    said = [line for line in (page.headline, *page.lines) if line not in above]
    kept = [part for part in page.sections if part.title != "What survives"]
    parts = [replace(part, title=f"Audit: {part.title.lower()}") for part in kept]
    return [Section("Audit", sentences=said), *parts]
