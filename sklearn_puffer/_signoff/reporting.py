"""`report`: what is checked before a report is made, and of which kind it becomes."""

from __future__ import annotations

from typing import Any

from sklearn_puffer._base import check_choice, quoted, utc_now
from sklearn_puffer._noiser import ReleaseTransformer
from sklearn_puffer._releases import Ledger, PersonLedger
from sklearn_puffer._signoff.audit import Audit
from sklearn_puffer._signoff.external import external
from sklearn_puffer._signoff.internal import internal
from sklearn_puffer._signoff.plan import Plan
from sklearn_puffer._signoff.report import Report


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

    The internal form says all there is to know of a release, and is computed from the raw rows:
    keep it where you keep the table. The external form is for whoever gets the release: it is made
    of the settings and of names alone.

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
    _check_text(named, "name")
    _check_text(by, "by")
    _check_documents(audit, plan, ledger)
    about = {"name": named, "by": by, "date": utc_now()}
    if kind == "external":
        return external(noiser, **about)
    _check_alike(noiser, audit, plan)
    return internal(noiser, audit, plan, ledger, **about)


def _check_noiser(noiser: Any) -> None:
    if not isinstance(noiser, ReleaseTransformer):
        raise TypeError(
            f"noiser must be a fitted PufferfishNoiser or PufferfishRelease, got {quoted(noiser)}."
        )
    noiser._check_as_certified()


def _check_text(value: Any, argument: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be a string, got {quoted(value)}.")


def _check_documents(audit: Any, plan: Any, ledger: Any) -> None:
    if audit is not None and not isinstance(audit, Audit):
        raise TypeError(f"audit must be an Audit, as audit() returns it, got {_kind_of(audit)}.")
    if plan is not None and not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan, as plan() returns it, got {_kind_of(plan)}.")
    if ledger is not None and not isinstance(ledger, Ledger | PersonLedger):
        raise TypeError(f"ledger must be a Ledger or a PersonLedger, got {_kind_of(ledger)}.")


def _kind_of(value: Any) -> str:
    return f"a {type(value).__name__}"


def _check_alike(noiser: Any, audit: Any, plan: Any) -> None:
    """Refuse what is about another noiser."""
    promise = noiser.certificate_.promise()
    if audit is not None and audit.promise != promise:
        raise ValueError(
            f"audit is of a noiser with another promise, {audit.promise!r}, and that of this one "
            f"is {promise!r}; audit this one, or leave it out."
        )
    if plan is None:
        return
    planned, own = set(plan.sensitive), set(noiser._fitted.rules.sensitive)
    if planned != own:
        raise ValueError(
            f"plan protects {quoted(sorted(map(str, planned)))} and this noiser "
            f"{quoted(sorted(map(str, own)))}; pass the plan of this release, or leave it out."
        )
