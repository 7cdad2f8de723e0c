"""A report as a page, in HTML, Markdown, text and JSON; and the one for recipients.

The templates beside this module make pages of HTML, and only this module imports Jinja2. A page is
one file without scripts, fonts or pictures from elsewhere. It tells browsers to fetch nothing
(Content-Security-Policy), so that a name cannot make them. Every value is escaped, and stays on one
line.

The report for recipients is listed here, and nothing of it is made of raw rows. It is built from
parameters and names, one by one, and never from a page of the certificate with parts left out: what
is added to a certificate later does not reach recipients.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sklearn_puffer._base import (
    Bar,
    Bars,
    Document,
    Page,
    Section,
    __version__,
    markdown,
    on_one_line,
    quoted,
    shown,
)
from sklearn_puffer._release import (
    OF_A_SAMPLE,
    RowsTogether,
    UncertifiedError,
    write_new,
)
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


def render(template: str, **values: Any) -> str:
    """Return a page as an HTML file, from its document type to its end.

    Raises
    ------
    ModuleNotFoundError
        If Jinja2 is not installed.
    """
    return str(_templates().get_template(template).render(values))


def check_renders() -> None:
    """Refuse pages of HTML, before any work is done, where Jinja2 is not installed."""
    _templates()


@cache
def _templates() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise ModuleNotFoundError(
            "pages of HTML are made with Jinja2, which is not installed; "
            'pip install "sklearn-puffer[report]", or take .md, .txt or .json.'
        ) from error
    return jinja2.Environment(
        loader=jinja2.PackageLoader("sklearn_puffer._review"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _inert(value: Any) -> Any:
    """Return a text on one line; what a template made of such is whole already."""
    return value if hasattr(value, "__html__") else on_one_line(str(value))


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
_NOT_PROMISED = (
    "What the released columns tell of the population is not covered: that people who work long "
    "hours are often of one department can still be learnt.",
    "Other columns are not covered, nor whether a person is in the table at all.",
    _OTHER_READERS,
    "Combinations of several sensitive columns are not secrets; each is protected by itself.",
    "Further releases of the same rows tell more, unless the guarantee or a ledger counts them.",
    "The number of rows, their order, their index and the types of columns are released unchanged. "
    "Refusals and warnings may depend on the rows.",
)


def not_promised(certificate: Any) -> tuple[str, ...]:
    """Return what no settings guarantee, about rows or about groups of them."""
    grouped = getattr(certificate, "groups", None) is not None
    about = f"The guarantee is about one {'group of rows' if grouped else 'row'}."
    return about, *_NOT_PROMISED, _GROUPS if grouped else _ONE_ROW


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
    "Functions of the raw rows are left out: the size of the noise and its grid, exact losses, how "
    "much survives, distributions, numbers of rows, values of columns (and pairs of secrets that "
    "were not declared), the classifiers' figures, the fingerprint, the plan, the audit and the "
    "ledger. They stand in the internal report.",
    "This report exists only if the fit succeeded and its certificate holds, which depends on the "
    "rows.",
)


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
        lines=(_promise(noiser, certificate.notion), _reader(noiser)),
        front=(
            _glance(certificate.notion),
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
    sensitive = " or of ".join(map(shown, noiser._fitted.rules.sensitive))
    shift = notion.promise().replace("secrets", f"secrets of {sensitive}")
    seen = noiser.certificate_._seen()
    return f"Whoever sees {seen}, and has the knowledge named below, can {shift}."


def _reader(noiser: Any) -> str:
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
    return (
        f"The reader's knowledge is {knowledge}. Who knows another distribution{because} may learn "
        f"more.{sample * (OF_A_SAMPLE in prior)}"
    )


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


def _glance(notion: Notion) -> Section:
    """Return the figures of the budget, which are all there are without the rows."""
    most = percent_at_most(best_guess(notion))
    cells = [
        ["figure", "value", "beside it"],
        ["Epsilon", f"{notion.to_dict()['epsilon']:g}", f"the budget: {notion.budget_name()}"],
        ["Best guess at a secret", most, "at most, where it was 50.0 % before"],
    ]
    return Section("At a glance", cells=cells, picture=promise_picture(notion))


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
    ways |= {"as it is, and NOT protected": passed} if passed else {}
    cells = [["columns", "how each is released"], *([", ".join(e), way] for way, e in ways.items())]
    return Section("Released columns", _ABOUT_NOISE, cells)


def _known(noiser: Any) -> list[Any]:
    """Return the columns declared as side information; an artifact does not name them."""
    known = getattr(noiser, "known", None)
    flat = known if isinstance(known, list) else [] if known is None else [known]
    return [name for names in flat for name in (names if isinstance(names, tuple) else [names])]


def _how(noiser: Any) -> str:
    noise = noiser.certificate_.noise
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
        said = f"Each secret is one value of {' or of '.join(sensitive)}; {which}."
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
    applies = {
        f"{', '.join(map(shown, rules.passed))}: passed through and NOT protected; all that they "
        "tell about a secret is released.": bool(rules.passed),
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
