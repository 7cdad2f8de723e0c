"""The protocol of a mechanism, and what is between a fit and a release.

`LearntMechanism` is what `fit` learns and proves. It holds a `Mechanism`, which releases rows, and
is written and read. The base of all estimators, `TableRelease`, knows no more of either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, ClassVar, get_type_hints

from sklearn_puffer._base import RetiredError, gone, way_to_table
from sklearn_puffer._certificates import (
    READ_SCHEMAS,
    Certificate,
    Guaranteed,
    Made,
    Method,
    OtherPriors,
    Proof,
    SetLoss,
    rule_from_dict,
)
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._codes import Column, Pair
from sklearn_puffer._documents import FieldError, Fields, digest
from sklearn_puffer._noise import Entropy
from sklearn_puffer._release.drift import Margin, Watch
from sklearn_puffer._release.keyed_rows import KeyedRows, Keying
from sklearn_puffer._rows import UNCOVERED, RowGroups, RowOrder, check_named
from sklearn_puffer._tables import Missing, Name, Table, Values
from sklearn_puffer._words import brief, listed, quoted, shown
from sklearn_puffer.notions import promised

Patterns = Mapping[tuple[Name, ...], Set[tuple[Name, ...]]]


@dataclass(frozen=True, eq=False)
class TableRules:
    """How a table is read, and what its release has."""

    names: Sequence[Name]  # the columns of the X of `fit`
    named: bool  # whether these are names, and not positions
    sensitive: Sequence[Name]  # those that are secrets
    passed: Sequence[Name]  # those handed through untouched
    order: Sequence[Name]  # all columns of a release, in their order
    missing: Missing
    patterns: Patterns  # of each group of columns, which may be present without the others
    margins: Sequence[Margin] = ()  # the distribution of each column, where that is known
    groups: RowGroups | None = None  # and how large a group the guarantee covers

    def check_columns(self, names: Sequence[Name]) -> None:
        """Refuse a table in which a column that is released cannot be found by its name."""
        plain = all(isinstance(name, int) for name in names)
        if not self.named and not (plain and len(names) <= len(self.names) and self._told(names)):
            raise ValueError(
                f"fit saw {len(self.names)} columns without names, and X has "
                f"{listed(list(names))}, which may stand for others; fit on a DataFrame, or pass "
                "an array (X.to_numpy()) with the columns of fit in their order."
            )
        check_named("X", names, self.order)

    def _told(self, names: Sequence[Name]) -> bool:
        """Whether positions are those of `fit`: a DataFrame counts its own where some are gone."""
        counted = list(names) == list(range(len(names)))
        return not counted or len(names) == len(self.names) or list(names) == list(self.order)


@dataclass(frozen=True)
class Draw:
    """How one table is drawn."""

    entropy: Callable[[int], Entropy]  # gives the random bits of the k-th column
    unknown: Any = "error"
    keyed: KeyedRows | None = None  # gives the bits of each row, in the place of these
    watch: Watch | None = None  # counts the values
    secrets: Mapping[Name, Values] | None = None  # where they stand beside the table
    by: Any = None  # what releases, where a mechanism remembers with it what it released
    repeatable: bool = False  # whether the caller has the key, and can make the release again
    n_jobs: int | None = None


@dataclass(frozen=True)
class Moved:
    """Values of a table that `fit` has not seen, and that were released as others."""

    counts: Mapping[Name, int]  # how many of each column
    n_rows: int  # of the table

    def __bool__(self) -> bool:
        return any(self.counts.values())

    def sentence(self) -> str:
        """Return the warning."""
        total = sum(self.counts.values())
        worst = max(self.counts, key=lambda name: self.counts[name])
        others = f"{total:,}, of these " if len(self.counts) > 1 else ""
        return (
            f"unknown= moved values that were not seen in fit to values that were: {others}"
            f"{self.counts[worst]:,} in {brief(worst)}; fit on more rows, or with bins (n_bins=)."
        )

    def share(self) -> float:
        """Return the share of the values that were moved, in the worst column."""
        return max(self.counts.values()) / self.n_rows


@dataclass(frozen=True)
class Terms:
    """What a report says of a mechanism: functions of its settings, never of rows."""

    name: str = "a mechanism of its own"  # what rows are released as
    how: str = "by a mechanism of its own"  # a column is released, in a few words
    about: str = ""  # the same in a sentence
    granted: Sequence[str] = ()  # what the guarantee takes for granted
    left_out: Sequence[str] = ()  # what it does not cover
    # whether it covers that
    whole: str = "Nothing is said of who gets the whole file, and not one row."
    again: str = "the same rows once"  # how often: ends "release ..."
    beyond: str = ""  # for whom it does not hold: ends the headline for recipients
    known: Sequence[Name] = ()  # columns that readers are taken to know
    joined: Sequence[Name] = ()  # labels that readers may join later, and that are covered
    coarse: Sequence[Name] = ()  # those of the known ones that are released in bins or merged
    ids: Sequence[Name] = ()  # columns that stay with people, and are taken to say nothing of them
    apart: bool = False  # whether each pair of secrets has a budget: epsilon times their distance
    limit: str = ""  # what else to say of the limit, of which row or secrets it is


Released = tuple[Any, Moved | None]
"""A table in the caller's own type, and what was moved, if anything."""


class Mechanism(ABC):
    """What releases the rows of a table: a frozen value, without the rows that it was learnt from.

    A mechanism that hands out artifacts names itself by ``kind``: importing its module is enough
    for `PufferfishRelease.from_json` to read them.
    """

    #: Its name in release artifacts.
    kind: ClassVar[str | None] = None
    #: Whether a row is released by itself, so that parts of a table can be.
    by_row: ClassVar[bool] = True
    #: Whether it needs the secrets of the rows that it releases.
    takes_secrets: ClassVar[bool] = False
    #: The type of its certificate.
    certificate: ClassVar[type[Certificate]] = Certificate
    #: Whether its artifact is for the steward alone.
    is_key_material: ClassVar[bool] = False
    #: Why drift is not tested, as the error of ``on_drift="raise"``; "" of noise, where it is.
    untested: ClassVar[str] = ""
    #: What to do about values that have no place in a task of a lazy table.
    way_out: ClassVar[str] = "fit again, on rows that have such values"

    kinds: ClassVar[dict[str, type[Mechanism]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.kind is not None:
            Mechanism.kinds[cls.kind] = cls

    @property
    @abstractmethod
    def released_columns(self) -> Sequence[Column]:
        """The columns that it releases, in the order of the table that was fitted.

        Of one in which any value may occur, `column_of` returns it.
        """

    @property
    def known_columns(self) -> Sequence[Column]:
        """The columns that come out as they are, and that the release of the others depends on."""
        return ()

    @abstractmethod
    def released(self, table: Table, rules: TableRules, draw: Draw) -> Released:
        """Return a table released in the caller's own type, and what was moved, if anything."""

    @abstractmethod
    def fingerprint(self, certificate: Any, *about: Any) -> str:
        """Return the digest of what is drawn, and of what else counts.

        "" if the certificate is about something else: it may not depend on its fingerprint.
        """

    @abstractmethod
    def to_record(self) -> dict[str, Any]:
        """Return the fields of a release artifact, a record of each column in "columns"."""

    @classmethod
    @abstractmethod
    def from_record(cls, record: Fields, columns: Sequence[Fields]) -> Mechanism:
        """Return the mechanism whose fields, and records of columns, were written."""

    def terms(self, release: Any) -> Terms:
        """Return what a report of this fitted estimator, or artifact, says of it."""
        return Terms()

    def attributes(self) -> dict[str, Any]:
        """Return what a release read from JSON shows of it, such as `theta_`."""
        return {}

    def really_drawn(self) -> Any:
        """Return what is really drawn, where the fingerprint does not say it."""
        return []

    def context(self, fingerprint: str, keying: Keying) -> str:
        """Return the digest of all that shapes keyed bits: what is drawn, for which release."""
        drawn = fingerprint, self.really_drawn()
        return digest("sklearn_puffer.keyed/1", drawn, keying.dataset, keying.release)

    def planned(self, by: Any, fitted: FittedMechanism, X: Any, keying: Keying) -> Any:
        """Return the release of a lazy table, where rows are not released one by one."""
        raise TypeError(
            f"X is a lazy table ({type(X).__name__}), and rows are exchanged with all of a "
            f"table in memory; pass {way_to_table(X, 'X')}."
        )


@dataclass(frozen=True, eq=False, repr=False)
class FittedMechanism:
    """A fitted release: it reads a table, releases it, and has its certificate."""

    rules: TableRules
    mechanism: Mechanism
    certificate: Any

    def __repr__(self) -> str:
        return f"FittedMechanism({type(self.mechanism).__name__}, {self.certificate.released_by})"

    def fingerprint(self) -> str:
        """Return the digest of this release; "" if the certificate is about another one.

        It does not depend on the fingerprint in the certificate.
        """
        certificate, rules = self.certificate, self.rules
        return self.mechanism.fingerprint(
            certificate,
            certificate.notion,
            certificate.releases,
            (certificate.rule, certificate.loss),
            (rules.names, rules.sensitive, rules.passed, rules.order),
            (rules.missing, rules.patterns),
            *([] if rules.groups is None else [rules.groups]),
        )

    def signed(self) -> FittedMechanism:
        """Return the same, with its fingerprint in the certificate."""
        return replace(self, certificate=replace(self.certificate, fingerprint=self.fingerprint()))

    def context(self, keying: Keying) -> str:
        """Return the digest of all that shapes keyed bits."""
        return self.mechanism.context(self.fingerprint(), keying)


@dataclass(frozen=True, eq=False)
class LearntMechanism:
    """What `fit` learns of a table: of its rows no more stays in a fitted estimator."""

    hidden: Sequence[Name]  # the sensitive columns of the table
    public: Sequence[Name]
    passed: Sequence[Name]
    pairs: Mapping[Name, Sequence[Pair]]  # the protected secrets, by sensitive column
    mechanism: Mechanism
    certificate: Any  # with `utility`, and without a fingerprint yet
    missing: Missing = "category"
    order: RowOrder = field(default_factory=RowOrder)
    grouped: RowGroups | None = None
    margins: Sequence[Margin] = ()  # to notice drift; empty where it is not tested
    patterns: Patterns = field(default_factory=dict)
    columns: Sequence[Name] | None = None  # of a release, in an order that is not the table's
    warnings: Sequence[str] = ()
    useless: Sequence[str] = ()  # what a `UtilityWarning` says
    attributes: Mapping[str, Any] = field(default_factory=dict)  # of the estimator: its own alone

    def fitted(
        self, names: Sequence[Name], *, named: bool, told: Sequence[str] = ()
    ) -> FittedMechanism:
        """Return the fitted release, whose certificate has its fingerprint and is told more."""
        groups = [self.grouped.column] if self.grouped else []
        chosen = {*self.public, *self.passed, *groups}
        rules = TableRules(
            names=names,
            named=named,
            sensitive=self.hidden,
            passed=list(dict.fromkeys([*self.passed, *groups])),
            order=self.columns or [name for name in names if name in chosen],
            missing=self.missing,
            patterns=self.patterns,
            margins=self.margins,
            groups=self.grouped,
        )
        assumptions = [*self.certificate.assumptions, *told]
        certificate = replace(self.certificate, assumptions=assumptions)
        return FittedMechanism(rules, self.mechanism, certificate).signed()


def about_file(release: Any, others: Sequence[Name] = ()) -> list[str]:
    """Return what is protected in the released file, and which columns go out as they are.

    It says of the sensitive columns, and of ``others``, which are left out.
    """
    rules, coarse = release._fitted.rules, release._fitted.mechanism.terms(release).coarse
    secrets = dict.fromkeys(pair.sensitive for pair in release.certificate_.pairs)
    columns = dict.fromkeys([*(rules.sensitive or secrets), *others])
    out = [shown(name) for name in columns if name not in rules.order]
    as_they_are = [shown(name) for name in rules.passed if name not in coarse]
    protected = " and ".join(map(shown, secrets))
    told = (
        f"Only {protected} {'is' if len(secrets) == 1 else 'are'} protected. The file is not "
        "anonymous: other columns, and who is in the table, are not protected. Left out of the "
        f"file: {', '.join(out) or 'nothing'}."
    )
    beside = f"Goes out as it is, and is NOT protected: {', '.join(as_they_are)}."
    return [told, *[beside] * bool(as_they_are)]


def fitted_shares(release: Any) -> dict[str, float]:
    """Return the shares of the rarest and the commonest secret in the fitted rows: all of two.

    Only where readers start from them, and each secret is protected against all others; none of an
    artifact, which does not have them.
    """
    certificate, every = release.certificate_, getattr(release, "_secret_rows", {})
    name, known = certificate.pairs[0].sensitive, release._fitted.mechanism.terms(release).known
    rows = sorted((n, shown(label)) for (of, label), n in every.items() if of == name and n)
    some = say.ONLY_LISTED in certificate.assumptions or certificate.groups is not None
    if len(rows) < 2 or some or known:
        return {}
    total = sum(n for n, _ in rows)
    return {f"{shown(name)} = {label}": n / total for n, label in (rows[0], rows[-1])}


def left_open(release: Any) -> list[str]:
    """Return what is not guaranteed by these settings in particular."""
    certificate, rules = release.certificate_, release._fitted.rules
    passed = ", ".join(map(shown, rules.passed))
    applies = {
        f"{passed}: passed through and NOT protected; what such a value tells about a secret by "
        "itself is not hidden.": bool(rules.passed),
        "Columns, or groups of them, are taken as independent given the secret. If they are not, "
        "the row as a whole may tell more.": certificate.dependence != "joint",
        "Which values are missing is released, and NOT protected.": rules.missing == "propagate",
        "With a delta (or an order alpha) single releases may tell more than a factor of "
        "e^epsilon, with a small chance.": certificate.delta > 0.0 or certificate.alpha is not None,
    }
    marks = UNCOVERED, say.ONLY_LISTED, say.COARSE_SECRETS  # of their order, and of secrets
    told = [said for said in certificate.assumptions if any(mark in said for mark in marks)]
    told += say.about_finer(release._fitted.mechanism.terms(release).coarse)
    return [*(sentence for sentence, true in applies.items() if true), *told]


def not_promised(release: Any) -> list[str]:
    """Return what no settings guarantee, first of the mechanism."""
    certificate = release.certificate_
    grouped = getattr(certificate, "groups", None) is not None
    protected = "row" if release._fitted.mechanism.by_row else "person"
    return [
        *release._fitted.mechanism.terms(release).left_out,
        f"The guarantee is about one {'group of rows' if grouped else protected}.",
        "What the released columns tell of the population is not covered: that people who work "
        "long hours are often of one department can still be learnt.",
        *say.about_apart(certificate.pairs),
        "The number of rows, their order, their index and the types of columns are released "
        "unchanged. Refusals and warnings may depend on the rows.",
    ]


def certificate_from_dict(record: Mapping[str, Any], kind: type[Certificate] = Certificate) -> Any:
    """Return the certificate that ``to_dict`` wrote, without priors; name a field that is none.

    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> certificate = PufferfishNoiser(sensitive="loan").fit(table).certificate_
    >>> certificate_from_dict(certificate.to_dict()) == certificate
    True
    """
    if record.get("schema") not in READ_SCHEMAS:
        raise FieldError(
            f"field schema must be {READ_SCHEMAS[0]!r}, got {quoted(record.get('schema'))}, of "
            f"version {quoted(record.get('version'))} of the library"
        )
    for key, name in (("channel", "noise='optimal'"), ("swap", "noise='swap'")):
        if key in record:
            raise RetiredError(gone(name))
    reader = Fields(record)
    epsilon, delta = reader.read("epsilon", float), reader.read("delta", float, 0.0)
    notion = promised(epsilon, delta, reader.read("alpha", float | None, None))
    around: Any = reader.read("over_set", SetLoss | None)
    if around is not None and around.estimate:  # of an earlier version, and no bound
        around = None
    rule = reader.read("rule", dict | None)
    return _read(
        kind,
        reader,
        guaranteed=_read(Guaranteed, reader, notion=notion),
        proof=_read(Proof, reader, rule=None if rule is None else rule_from_dict(rule)),
        method=_read(Method, reader),
        made=_read(Made, reader),
        other_priors=_read(OtherPriors, reader, around=around, fitted=None),
    )


def _read(kind: type[Any], reader: Fields, **given: Any) -> Any:
    """Return a value whose other fields stand in a record, or have a default, as later ones do."""
    hints = get_type_hints(kind)
    for entry in fields(kind):
        if entry.name not in given:
            default = [] if entry.default is MISSING else [entry.default]
            given[entry.name] = reader.read(entry.name, hints[entry.name], *default)
    return kind(**given)
