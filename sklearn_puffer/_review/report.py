"""A report as a page, in HTML, Markdown, text and JSON; and the one for recipients.

The report for recipients is listed here, and nothing of it is made of raw rows. It is built from
parameters and names, one by one, and never from a page of the certificate with parts left out: what
is added to a certificate later does not reach recipients.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sklearn_puffer._base import (
    Bar,
    Bars,
    Document,
    Page,
    Section,
    __version__,
    check_choice,
    markdown,
    quoted,
    render,
    shown,
    utc_now,
)
from sklearn_puffer._noiser import PufferfishNoiser
from sklearn_puffer._release import (
    OF_A_SAMPLE,
    Ledger,
    PersonLedger,
    RowsTogether,
    TableRelease,
    UncertifiedError,
    write_new,
)
from sklearn_puffer._review.findings import INTERNAL as OF_THE_AUDIT
from sklearn_puffer._review.findings import Audit
from sklearn_puffer._review.plan import INTERNAL as OF_THE_PLAN
from sklearn_puffer._review.plan import Plan
from sklearn_puffer.noise import FAMILIES
from sklearn_puffer.notions import Notion
from sklearn_puffer.priors import ConfidenceSet

SCHEMA = "sklearn_puffer.report/1"
_FIELDS = ("Release, or not", "Name", "Role", "Place and date", "Signature")
SIGNATURE = Section("Signature", cells=[_FIELDS, [""] * len(_FIELDS)])
_WHOM = {"internal": "For the person who signs", "external": "For recipients"}


@dataclass(frozen=True)
class Report(Document):
    """What a release guarantees and costs, for the person who signs it.

    Made by `report`; as text it is the same page as ``html`` and ``markdown``.

    Parameters
    ----------
    kind : {"internal", "external"}
    holds : bool
        Whether the certificate holds.
    verdict : str
        That of the certificate, and for whom it holds.
    lines : tuple of str
        What stands right below it.
    front : tuple of Section
        What is looked at first: the figures, then the conditions.
    sections : tuple of Section
        What stands in the appendix.
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

    See Also
    --------
    report : Makes one.

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

    @property
    def markdown(self) -> str:
        """The report as Markdown, without pictures."""
        return markdown(self._page())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a new file.

        Parameters
        ----------
        path : str or Path
            Ends in .html, .md, .json or .txt, and that is what is written.

        Raises
        ------
        FileExistsError
            If there is such a file: a report is never replaced.
        TypeError, ValueError, OSError
            If that is no path, it ends otherwise, or the file cannot be written.
        ModuleNotFoundError
            If it is to be HTML, and Jinja2 is not installed.
        """
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"path must be the name of a file to write, got {quoted(path)}.")
        suffix = Path(os.fsdecode(path)).suffix.lower()
        if suffix not in WAYS:
            raise ValueError(f"path must end in {', '.join(WAYS)}, got {quoted(str(path))}.")
        write_new(path, WAYS[suffix](self).encode("utf-8", "backslashreplace"))

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
            "sections": [_section_record(section) for section in page.sections],
        }

    @property
    def whom(self) -> str:
        """For whom it is, when it was made, and who made it."""
        return f"{_WHOM[self.kind]} · {self.date}{f' · by {shown(self.by)}' if self.by else ''}"

    def _page(self) -> Page:
        """Return the page: what is looked at first, room to sign, and the rest as appendix."""
        sign = [SIGNATURE] if self.kind == "internal" else []
        parts = [*self.front, *sign, *self.sections, self._about_section()]
        return Page(self._headline(), self.lines, parts)

    def _headline(self) -> str:
        of = f" of {shown(self.name)}" if self.name else ""
        whom = ", for recipients" if self.kind == "external" else ""
        return f"Report{of}{whom}: {self.verdict}"

    def _about_section(self) -> Section:
        facts = {"data set": shown(self.name) if self.name else "not named"}
        facts |= {"report made": self.date, "by": shown(self.by) if self.by else "not told"}
        about = {**facts, **self.about}
        mark = [f"Fingerprint: {about.pop('fingerprint')}."] if "fingerprint" in about else []
        return Section("About this report", cells=[[*about], [*about.values()]], sentences=mark)


def _section_record(section: Section) -> dict[str, Any]:
    table = None
    if section.cells:
        head, *rows = (list(row) for row in section.cells)
        table = {"columns": head, "rows": rows}
    return {
        "title": section.title,
        "note": section.note,
        "table": table,
        "sentences": list(section.sentences),
    }


def _html(document: Any) -> str:
    """Return a file of HTML: a report has its own, which leaves room for a signature."""
    if isinstance(document, Report):
        return document.html
    return render("document.html", page=document._page())


WAYS: dict[str, Callable[[Any], str]] = {
    ".html": _html,
    ".md": lambda document: markdown(document._page()),
    ".json": lambda document: str(document.to_json()),
    ".txt": lambda document: f"{document}\n",
}
"""How a document is written to a file, by what its name ends in."""


_ONE_ROW = (
    "Rows are taken as independent of each other: what one person's row tells about another "
    "person, as within a family, is not covered."
)
_GROUPS = (
    "Groups of rows are taken as independent: what one group tells about another is not covered."
)
_OTHER_READERS = (
    "Readers with other knowledge than that named above are not covered: who knows another "
    "distribution of the columns, or more about a row, may learn more."
)
_COMBINATIONS = (
    "Combinations of several sensitive columns are not secrets; each is protected by itself."
)
_COUNTED = (
    "Further releases of the same rows tell more, unless the guarantee or a ledger counts them."
)
_NOT_PROMISED = (
    "What the released columns tell of the population is not covered: that people who work long "
    "hours are often of one department can still be learnt.",
    "Other columns are not covered, nor whether a person is in the table at all.",
    _OTHER_READERS,
    _COMBINATIONS,
    _COUNTED,
    "The number of rows, their order, their index and the types of columns are released unchanged. "
    "Refusals and warnings may depend on the rows.",
)


def not_promised(certificate: Any) -> tuple[str, ...]:
    """Return what no settings guarantee, about rows or about groups of them."""
    grouped = getattr(certificate, "groups", None) is not None
    about = f"The guarantee is about one {'group of rows' if grouped else 'row'}."
    left_out: tuple[str, ...] = (about, *_NOT_PROMISED, _GROUPS if grouped else _ONE_ROW)
    mechanism = certificate.noise
    own = _NOT_COVERED.get(mechanism, ())
    if mechanism in _HOW:  # which say it of their own readers
        others = (_OTHER_READERS, _COUNTED, *([_ONE_ROW] if mechanism == _EXCHANGED else []))
        left_out = tuple(said for said in left_out if said not in others)
    if any(isinstance(pair.secret, tuple) for pair in certificate.pairs):
        left_out = tuple(said for said in left_out if said != _COMBINATIONS)
    return *own, *left_out


def best_guess(notion: Notion) -> float:
    r"""Return how often a guess between two secrets of even chance is right at most.

    Of distributions :math:`P, Q` it is :math:`(1 + TV)/2`. Under (epsilon, delta),
    :math:`TV \le (e^\epsilon - 1 + 2 \delta)/(e^\epsilon + 1)`; a divergence of an order above 1 is
    no less than that of Kullback and Leibler, so that Pinsker's bound :math:`\sqrt{\epsilon/2}` and
    that of Bretagnolle and Huber, :math:`\sqrt{1 - e^{-\epsilon}}`, hold; what is left out with a
    chance of delta under either distribution adds 2 delta to TV.
    """
    epsilon, delta, alpha = _numbers(notion)
    if alpha is None:
        distance = math.tanh(epsilon / 2.0) + 2.0 * delta / (1.0 + math.exp(min(epsilon, 700.0)))
    else:
        distance = min(math.sqrt(epsilon / 2.0), math.sqrt(-math.expm1(-epsilon))) + 2.0 * delta
    return min((1.0 + distance) / 2.0, 1.0)


def _numbers(notion: Notion) -> tuple[float, float, float | None]:
    numbers = notion.to_dict()
    return numbers["epsilon"], numbers["delta"], numbers["alpha"]


def percent_at_most(share: float) -> str:
    """Return a share as a percentage, rounded up: a bound stays one.

    >>> percent_at_most(0.7310586), percent_at_most(1.0)
    ('73.2 %', '100.0 %')
    """
    return f"{min(math.ceil(share * 1000.0) / 10.0, 100.0):.1f} %"


def example(notion: Notion) -> str:
    """Return what the guarantee means for a reader to whom two secrets are equally probable."""
    most = percent_at_most(best_guess(notion))
    _, delta, alpha = _numbers(notion)
    if delta == 0.0 and alpha is None:
        return (
            "For example: if two secrets were equally probable to a reader before, an even chance "
            f"becomes at most {most}, whatever is released."
        )
    return (
        "For example: if two secrets are equally probable to a reader before the release, a guess "
        f"afterwards is right at most {most} of the time. Single releases may tell more, but "
        "seldom."
    )


def promise_picture(notion: Notion) -> Bars:
    """Return how well a reader may guess which of two secrets it is, before and after."""
    most = best_guess(notion)
    rows = [
        Bar("before the release", 0.5, percent_at_most(0.5)),
        Bar("after it, at most", most, percent_at_most(most)),
    ]
    return Bars("Chance of naming one of two equally probable secrets rightly", rows)


_PRIORS = {
    "the counted prior": "the distribution of the released columns that is counted from the rows",
    "the given prior": "a distribution of the released columns that was given beforehand",
    "the prior of": "what a classifier learns about the secrets from the released columns",
    "the fitted Gaussian prior": "normal distributions fitted to the rows",
}
_ABOUT_NOISE = (
    "noise is added as the guarantee needs it, which may be none; values without an order are "
    "drawn anew with some chance"
)
_LEFT_OUT = (
    "Functions of the raw rows are left out: the size of the noise, shares that move, exact "
    "losses, how much survives, distributions, numbers of rows, values of columns (and pairs of "
    "secrets that were not declared), the classifiers' figures, the fingerprint, the plan, the "
    "audit and the ledger. They stand in the internal report.",
    "This report exists only if the fit succeeded and its certificate holds, which depends on the "
    "rows.",
)


_TYPICAL, _EXCHANGED = "microaggregation", "exchange"
_HOW = {_TYPICAL: "as the values of a typical row", _EXCHANGED: "exchanged with its row"}
_ABOUT = {
    _TYPICAL: "a row becomes the typical row of a group of similar ones, which is drawn",
    _EXCHANGED: "people exchange whole rows; every row of the table is released with somebody",
}
_GRANTED = {
    _TYPICAL: (
        "new rows follow the distribution of the fitted ones, and rows are independent of each "
        "other",
        "each row is released once, or alike each time by row_id= and a key",
    ),
    _EXCHANGED: (
        "ids, order and index say nothing of a row",
        "a person is one row, or one group of rows in groups=",
        "the table is exchanged once: two swaps of the same people undo each other",
    ),
}
_NOT_COVERED = {
    _TYPICAL: (
        "Readers who know the rows of all other fitted people and the channel or the counts, and "
        "readers who know the list of the rows of one call, are not covered.",
        "Further facts of a person, and labels that are joined later, are not covered unless "
        "known= or joined= names them.",
        "A second independent release of a row tells far more.",
    ),
    _EXCHANGED: (
        "What a person in the table infers about third parties is not covered.",
        "Labels and other facts of a person that known= does not name are not covered.",
    ),
}


def _insiders(certificate: Any) -> list[str]:
    """Return what people in a table that is exchanged may learn, by the budget alone."""
    if certificate.noise != _EXCHANGED:
        return []
    budget = certificate.facts.insiders
    if budget is None:
        return [
            "People in the table who find their own row with somebody are NOT covered: they may "
            "learn his secret."
        ]
    return [
        "People in the table who find their own row with somebody, and know nothing else, shift "
        f"the odds about him by at most e^{budget:g}, unless fewer than three have his secret."
    ]


def external(noiser: Any, *, name: str, by: str, date: str) -> Report:
    """Return the report for recipients.

    Raises
    ------
    UncertifiedError, ValueError
        If nothing is guaranteed that they could be told of.
    """
    _check_promised(noiser)
    certificate = noiser.certificate_
    return Report(
        kind="external",
        holds=True,
        verdict="the guarantee holds",
        lines=(_promise(noiser, certificate.notion), *_reader(noiser)),
        front=(
            _glance(noiser),
            Section("What the guarantee takes for granted", sentences=granted(noiser)),
        ),
        sections=tuple(_sections(noiser)),
        about={"fitted": certificate.date, "version": f"sklearn_puffer {certificate.version}"},
        record=_record(noiser),
        name=name,
        by=by,
        date=date,
    )


def _check_promised(noiser: Any) -> None:
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


def seeded(certificate: Any) -> bool:
    """Return whether the certificate is of a noiser that was fitted with a seed."""
    # certificates of earlier versions say promised for guaranteed
    words = ("NOTHING is guaranteed outside tests", "NOTHING is promised outside tests")
    return any(word in said for word in words for said in certificate.assumptions)


def _promise(noiser: Any, notion: Notion) -> str:
    if noiser.certificate_.noise in _HOW:
        return str(noiser.certificate_.promise())
    sensitive = " or of ".join(map(shown, noiser._fitted.rules.sensitive))
    shift = notion.promise().replace("secrets", f"secrets of {sensitive}")
    seen = noiser.certificate_._seen()
    return f"Whoever sees {seen}, and has the knowledge named below, can {shift}."


def _reader(noiser: Any) -> list[str]:
    if noiser.certificate_.noise in _HOW:
        return _insiders(noiser.certificate_)
    prior = noiser.certificate_.prior
    words = [text for kind, text in _PRIORS.items() if prior.startswith(kind)]
    knowledge = words[0] if words else "a distribution that was fitted to the rows"
    because = ", for instance because the rows are a sample,"
    if _has_set(noiser):
        knowledge += ", and every distribution within sampling error of it (a confidence set)"
        because = ""
    if isinstance(getattr(noiser, "adversaries", None), list):
        knowledge += "; the further ones that the noiser was given are covered as well"
    sample = (
        " The distributions were learnt from a sample of the rows, chosen by the values of "
        "released columns, and the guarantee is about rows with such values alone."
    )
    return [
        f"The reader's knowledge is {knowledge}. Who knows another distribution{because} may learn "
        f"more.{sample * (OF_A_SAMPLE in prior)}"
    ]


def _has_set(noiser: Any) -> bool:
    """Return whether the guarantee holds for all distributions around the counted one."""
    adversaries, certificate = getattr(noiser, "adversaries", None), noiser.certificate_
    every = adversaries if isinstance(adversaries, list) else [adversaries]
    has_set = any(isinstance(each, ConfidenceSet) or each == "confidence" for each in every)
    over = certificate.known_over_set
    proven = over is None or (not over.estimate and over.loss <= certificate.notion.budget)
    return has_set and proven and certificate.prior.startswith("the counted prior")


def granted(noiser: Any) -> list[str]:
    """Return what the guarantee takes for granted; nothing of it is made of the rows."""
    certificate = noiser.certificate_
    times = "once" if certificate.releases == 1 else f"{certificate.releases} times"
    conditions = [
        "the reader has the knowledge named above, and knows nothing else about a row",
        "what the row of one person tells about another is not covered",
        f"the same rows are released {times} in all",
    ]
    if certificate.groups is not None:
        conditions[1:2] = _about_groups(certificate.groups)
    if certificate.noise in _GRANTED:
        conditions = ["the reader knows what is named above, and nothing else about a row"]
        conditions += _GRANTED[certificate.noise]
    if _has_distances(noiser):
        conditions.append("epsilon is the budget at distance 1; pairs have it times their distance")
    return [f"{condition[0].upper()}{condition[1:]}." for condition in conditions]


def _about_groups(groups: RowsTogether) -> list[str]:
    within = "in any way" if groups.within_group == "any" else "not at all, given it"
    return [
        f"rows with the same {shown(groups.column)} share their secret, and depend on each other "
        f"{within}; what one group tells about another is not covered",
        f"at most {groups.max_group} rows of a group are released in all, and which and how many "
        "they are tells nothing about the secret",
    ]


def _sections(noiser: Any) -> list[Section]:
    settings = ", ".join(f"{key}: {shown(value)}" for key, value in settings_of(noiser).items())
    left_out = [*caveats(noiser), *not_promised(noiser.certificate_)]
    return [
        Section("What is not guaranteed", sentences=left_out),
        _columns(noiser),
        _secrets(noiser),
        Section("Settings", sentences=[f"{settings}."]),
        Section("What this report leaves out", sentences=_LEFT_OUT),
    ]


def _glance(noiser: Any) -> Section:
    """Return the figures of the budget, which are all there are without the rows."""
    notion = noiser.certificate_.notion
    pair = ", for secrets at distance 1" if _has_distances(noiser) else ""
    most = percent_at_most(best_guess(notion))
    cells = [
        ["figure", "value", "beside it"],
        ["Epsilon", f"{notion.to_dict()['epsilon']:g}", f"the budget: {notion.budget_name()}"],
        ["Best guess at a secret", most, f"at most, where it was 50.0 % before{pair}"],
    ]
    return Section("At a glance", cells=cells, picture=promise_picture(notion))


def _has_distances(noiser: Any) -> bool:
    """Return whether each pair of secrets has a budget of its own: epsilon times their distance."""
    return getattr(noiser, "metric", None) is not None


def released(noiser: Any) -> list[Any]:
    """Return the names of the columns that are protected."""
    return [column.name for column in noiser._fitted.mechanism.released_columns]


def _columns(noiser: Any) -> Section:
    how = _how(noiser)
    known, kept = _known(noiser), "as it is, since a reader may know it"
    ways: dict[str, list[str]] = {}
    for name in released(noiser):
        ways.setdefault(kept if name in known else how, []).append(shown(name))
    passed = [shown(name) for name in noiser._fitted.rules.passed]
    stays = "as it is, with its person, and NOT protected"
    if noiser.certificate_.noise not in _HOW:
        stays = "as it is, and NOT protected"
    ways |= {stays: passed} if passed else {}
    cells = [["columns", "how each is released"], *([", ".join(e), way] for way, e in ways.items())]
    about = _ABOUT.get(noiser.certificate_.noise, _ABOUT_NOISE)
    return Section("Released columns", about, cells)


def _known(noiser: Any) -> list[Any]:
    """Return the columns declared as side information; an artifact does not name them."""
    known = getattr(noiser, "known", None)
    flat = known if isinstance(known, list) else [] if known is None else [known]
    return [name for names in flat for name in (names if isinstance(names, tuple) else [names])]


def _how(noiser: Any) -> str:
    noise = noiser.certificate_.noise
    if noise in _HOW:
        return _HOW[noise]
    named = f"{noise} noise" if noise in FAMILIES else "noise of a family of its own"
    return f"with {named}"


def _secrets(noiser: Any) -> Section:
    """Return what is protected: labels only where somebody declared them."""
    declared = getattr(noiser, "secret_pairs", None)
    sensitive = [shown(name) for name in noiser._fitted.rules.sensitive]
    if not isinstance(declared, list | tuple | Mapping):
        which = "the certificate lists the pairs of them that are protected"
        if declared is not None:
            which = "every one is protected against every other of its column"
        one = f"one value of {' or of '.join(sensitive)}"
        if any(isinstance(pair.secret, tuple) for pair in noiser.certificate_.pairs):
            one = f"a value or a combination of values of {', '.join(sensitive)}"
        said = f"Each secret is {one}; {which}."
        return Section("Protected secrets", sentences=[said])
    head = ["sensitive", "secret", "against"]
    return Section("Protected secrets", cells=[head, *_declared(declared, sensitive)])


def _declared(declared: Any, sensitive: Sequence[str]) -> list[list[str]]:
    if not isinstance(declared, Mapping):
        return [[" and ".join(sensitive), shown(one), shown(two)] for one, two in declared]
    return [
        [shown(name), shown(one), shown(two)]
        for name, pairs in declared.items()
        for one, two in pairs
    ]


def caveats(noiser: Any) -> list[str]:
    """Return what is not guaranteed by these settings in particular."""
    certificate, rules = noiser.certificate_, noiser._fitted.rules
    passed = ", ".join(map(shown, rules.passed))
    staying = "passed through and NOT protected; all that they tell about a secret is released."
    if certificate.noise in _HOW:
        staying = (
            "released as they are, with their people; what they tell by themselves is not hidden."
        )
    applies = {
        f"{passed}: {staying}": bool(rules.passed),
        "Columns, or groups of them, are taken as independent given the secret. If they are not, "
        "the row as a whole may tell more.": certificate.dependence != "joint",
        "Which values are missing is released, and NOT protected.": rules.missing == "propagate",
        "With a delta (or an order alpha) single releases may tell more than a factor of "
        "e^epsilon, with a small chance.": certificate.delta > 0.0 or certificate.alpha is not None,
    }
    return [sentence for sentence, true in applies.items() if true]


def settings_of(noiser: Any) -> dict[str, Any]:
    """Return the settings that are numbers and words, and so no function of rows."""
    certificate = noiser.certificate_
    names = ("epsilon", "delta", "alpha", "releases", "noise", "dependence")
    settings = {name: getattr(certificate, name) for name in names}
    settings |= {"missing": noiser._fitted.rules.missing, "output": certificate.output}
    return settings


def _record(noiser: Any) -> dict[str, Any]:
    certificate = noiser.certificate_
    return {
        "version": __version__,
        "fitted": {"date": certificate.date, "version": certificate.version},
        "promise": _promise(noiser, certificate.notion),
        "settings": settings_of(noiser),
        "sensitive": [str(name) for name in noiser._fitted.rules.sensitive],
        "released": [str(name) for name in released(noiser)],
        "passed": [str(name) for name in noiser._fitted.rules.passed],
    }


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
    ['At a glance', 'Conditions', 'What you must decide']
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
            "noiser must be a fitted PufferfishNoiser, PufferfishMicroaggregator, PufferfishSwap "
            f"or PufferfishRelease, got {quoted(noiser)}."
        )
    noiser._check_as_certified()


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


OF_RAW_ROWS = (
    "It is computed from the raw rows, without noise: keep it where you keep the table; "
    'kind="external" is for others.'
)
_TESTS_ONLY = (
    "random_state is set, which makes the noise reproducible: NOTHING IS PROMISED outside tests"
)
_MOST_OF_A_TABLE = 8  # rows of a table of an audit or a plan
_BEST_FIELDS = ("secret", "against", "auc", "auc_low", "auc_high")
_ATTACK = ("attacker", *_BEST_FIELDS, "auc_allowed", "log_odds", "p_all")
_READERS = ("reader", "knows", "log_odds", "low", "high", "allowed", "findable", "p_all")
_PEER = ("view", *_BEST_FIELDS, "log_odds")
_COST = ("verdict", "change", "unchanged", "attack", "allowed", "task")
_SETTINGS = ("row", "epsilon", "setting", "promise", *_COST)
_OF_A_COLUMN = ("unchanged share", "median", "standard deviation", "share of ")
_ELSEWHERE = ("Noise by column", "How much of the data survives", "Conditions", "Assumptions")


def _internal(
    noiser: Any, audit: Any, plan: Any, ledger: Any, *, name: str, by: str, date: str
) -> Report:
    """Return the report for the person who signs."""
    certificate = replace(noiser.certificate_, name="")
    distances = _has_distances(noiser)
    at_once, alarms = _at_once(certificate, audit)
    return Report(
        kind="internal",
        holds=certificate.holds,
        verdict=_verdict(noiser, certificate, audit),
        lines=(
            *([] if audit is None else [audit._page().headline]),  # above what is only guaranteed
            certificate.promise(),
            *([example(certificate.notion)] if certificate.holds and not distances else []),
            OF_RAW_ROWS,
        ),
        front=(at_once, *_conditions(noiser, certificate)),
        sections=(
            _column_by_column(noiser, certificate),
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


def _verdict(noiser: Any, certificate: Any, audit: Any) -> str:
    test = noiser.random_state is not None or seeded(certificate)
    told, found = certificate._verdict(), "" if audit is None else _found(audit)
    if certificate.utility and all(c.unchanged >= 1.0 for c in certificate.utility):
        told = told if told.startswith("nothing was changed") else f"nothing was changed; {told}"
    return f"{f'{_TESTS_ONLY}; ' if test else ''}{found}the certificate {told}"


def _found(audit: Any) -> str:
    """Return what an audit takes from the verdict, if anything."""
    if not audit.findings:
        return ""
    return "AN AUDIT FOUND MORE THAN WAS GUARANTEED; "


def _decide(noiser: Any, certificate: Any) -> Section:
    """Return what nobody but who answers for the data can decide, a line each."""
    known = [shown(name) for name in _known(noiser)]
    joined = getattr(noiser, "joined", None)
    ids = getattr(noiser, "ids", None)
    beside = "; ".join(
        [
            f"known= names {', '.join(known)}" if known else "known= names none",
            *([f"joined= names {quoted(joined)}"] if joined is not None else []),
        ]
    )
    again = "each person's rows once, or alike each time by row_id= and a key"
    if certificate.noise not in _HOW:
        times = "once" if certificate.releases == 1 else f"{certificate.releases} times"
        again = f"the same rows {times} in all"
    if certificate.noise == _EXCHANGED:
        again = "these people once: keep this table, and do not exchange them again"
    sentences = [
        f"Known columns and labels: whether readers know, or may later join, further facts of a "
        f"person ({beside}).",
        f"Second releases: release {again}.",
    ]
    if ids is not None:
        names = ", ".join(map(shown, ids if isinstance(ids, list | tuple) else [ids]))
        sentences.insert(
            1, f"Ids: whether {names} say something of a person, as numbers given by date do."
        )
    return Section("What you must decide", sentences=sentences)


def _conditions(noiser: Any, certificate: Any) -> list[Section]:
    """Return what the guarantee takes for granted, and what it leaves open, a line each."""
    if not certificate.holds:
        budget = certificate.notion.budget_name()
        sentence = (
            f"Nothing is guaranteed by these settings, and {budget} was asked for. Fit again."
        )
        return [Section("Conditions", sentences=[sentence])]
    taken = Section("Conditions", sentences=[*granted(noiser), *_insiders(certificate)])
    left = caveats(noiser)
    open_ones = [Section("What these settings leave open", sentences=left)] if left else []
    return [taken, *open_ones, _decide(noiser, certificate)]


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


def _column_by_column(noiser: Any, certificate: Any) -> Section:
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
        return _HOW.get(family, "as it was")
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
        *_table("Audit: readers", audit.readers, _READERS),
        *_table("Audit: peers, which guarantee no such thing", _best(frame[peer]), _PEER),
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
        [_cell(value) for value in row]
        for row in frame[heads].head(_MOST_OF_A_TABLE).itertuples(index=False, name=None)
    ]
    cells = [[name.replace("_", " ") for name in heads], *rows]
    return [Section(title, note, cells)] if len(frame) else []


def _cell(value: Any) -> str:
    """Return a value as a table shows it; what does not apply is a dash."""
    if not isinstance(value, float):
        return shown(value)
    return "-" if math.isnan(value) else f"{value:.3g}"


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


def _at_once(certificate: Any, audit: Any) -> tuple[Section, tuple[str, ...]]:
    """Return the figures, with their picture, and the names of those that ask for attention."""
    attack = None
    if audit is not None:  # the surest finding, else the attack that tells two secrets apart best
        best = max(audit.attacks, key=lambda attack: attack.low, default=None)
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
        told_best = max(audit.attacks, key=lambda each: each.auc)
        picture = _attack_picture(audit, attack if audit.findings else told_best)
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
    power = ""
    if math.isfinite(attack.findable):
        power = f"; {attack.findable:.2f} would have been found"
    beside = f"{attack.view}, proven shift of odds; allowed: {attack.allowed:g}{power}"
    return [_FIGURE, f"{max(attack.low, 0.0):.2f}", beside]


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
    told = f"How well attackers tell {shown(attack.secret)} from {shown(attack.against)}"
    if math.isnan(attack.auc_allowed):  # known columns tell by themselves
        return Bars(f"{told}: area under the ROC curve", [Bar(n, x, f"{x:.3f}") for n, x in rows])
    title = (
        f"{told}: area under the ROC curve; the line is what the guarantee allows, "
        f"{attack.auc_allowed:.3f}"
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
