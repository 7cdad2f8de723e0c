"""The certificate: what a release guarantees, and the estimators that release by it alone."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from numbers import Real
from operator import attrgetter
from typing import Any, ClassVar, Protocol

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_puffer._base import check_count, check_verbose, listening, task
from sklearn_puffer._documents import (
    FoldedDocument,
    Page,
    Section,
    __version__,
    digest,
    jsonable,
    plain_record,
)
from sklearn_puffer._numerics import rounded_up
from sklearn_puffer._release import sentences as say
from sklearn_puffer._release.certificate_figures import (
    AboutCount,
    ColumnNoise,
    ColumnUtility,
    CountedLoss,
    ModelFacts,
    PairLoss,
    RowsTogether,
    SetLoss,
    changes,
    column_cells,
    model_lines,
    model_section,
    pair_cells,
    utility_section,
)
from sklearn_puffer._release.composition import Rule
from sklearn_puffer._release.drift import compared_rows
from sklearn_puffer._tables import records_frame
from sklearn_puffer._words import quoted, short_number, shown
from sklearn_puffer.notions import Notion, promised

SCHEMA = "sklearn_puffer.certificate/5"
READ_SCHEMAS = (SCHEMA, "sklearn_puffer.certificate/4")  # which had no groups of rows
NO_PRIOR = (
    "this certificate does not hold its noise, so it knows no other prior; take that of a fitted "
    "PufferfishNoiser, or fit again."
)
"""The error of a certificate that was read without its noiser."""
_SHOWN_PAIRS = 5


class Awaited(Protocol):
    """A loss over a set that is computed when it is first asked for, and remembered."""

    @property
    def known(self) -> SetLoss | None:
        """The loss, if it has been asked for already."""

    def value(self) -> SetLoss:
        """Return the loss; the first time may take minutes."""


@dataclass(frozen=True)
class Certificate(FoldedDocument):
    """What a fitted noiser guarantees, and the evidence.

    Parameters
    ----------
    epsilon : float
        Budget in nats.
    loss : float
        Proven upper end of the loss of the worst pair, in nats; under a delta (and no alpha) it is
        the proven delta. Infinite where nothing is proven.
    pairs : tuple of PairLoss
        Both directions of every secret pair.
    columns : tuple of ColumnNoise
        The noise of each released column.
    assumptions : list of str
        Under which conditions the guarantee holds, in sentences.
    strategy, noise, dependence : str
        How the scale was chosen.
    n_rows : int
        Rows the prior was learnt from.
    delta : float
        What the guarantee adds to the probability of any event; with alpha, the probability of the
        events left out.
    alpha : float or None
        Renyi order, where the guarantee is about that divergence.
    remedy : str or None
        Where the certificate does not hold: the sound strategy and the scale it needs.
    releases : int
        How many releases of the same rows the guarantee is for, all of them together.
    rule : Precisions, Refused or None
        How releases of the same rows add up, for a ledger.
    fingerprint : str
        Tells this fitted representation (columns, values, bins, grids, scales) from all others.
    fitted : FittedNoise or None
        The noise and what it protects, for `against`; not part of ``to_dict``.
    prior : str
        Whose knowledge the guarantee is about, such as "the counted prior".
    n_columns : int or None
        Columns of the table that was fitted, the sensitive ones included.
    version, date : str
        Version of the library, and the time of the fit (UTC, ISO 8601); the date is no part of the
        fingerprint, nor of what makes two certificates equal.
    name : str
        Of the table, where `named` gave one; no part of that either.
    utility : tuple of ColumnUtility
        How much of each column survives.
    around : SetLoss, Awaited or None
        What ``over_set`` returns, or computes when it is first asked for.
    least : float or None
        Where the exact loss was asked for and a theorem stands in for it: the smallest sufficient
        scale lies between ``least`` times theta and theta.
    output : str
        What noisy values become: values of their column's type ("native"), or numbers ("noisy").
    models : tuple of ModelFacts
        How much the classifiers know that are taken for adversaries, beside a constant, gradient
        boosting and counting.
    counted : tuple of CountedLoss
        What the same release loses to readers who counted single columns and pairs of them; only
        where a classifier is an adversary.
    groups : RowsTogether or None
        Which rows count together, where the guarantee is about groups of them: losses are those of
        a whole group.

    Notes
    -----
    *Formal guarantees.* Where ``holds`` is True, then under ``assumptions`` nobody who sees a
    released row (with ``groups``, all rows of a group), in all of its ``releases``, can move their
    odds between the two secrets of any listed pair by more than a factor e^epsilon; with alpha, in
    the mean of that order. With delta, no set of rows is more than e^epsilon times as probable
    under one of them as under the other, plus delta.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> certificate = PufferfishNoiser(epsilon=0.5, sensitive="loan").fit(table).certificate_
    >>> certificate.holds, round(certificate.loss, 9)
    (True, 0.5)
    >>> print(certificate.promise())
    Whoever sees a released row, and knows the prior, can shift their odds between two secrets of \
loan by at most a factor of e^0.5 = 1.649.
    >>> certificate.table[["secret", "against", "upper", "source"]].round(6)
      secret against     upper      source
    0     no     yes  0.500000  recomputed
    1    yes      no  0.456435  recomputed
    """

    epsilon: float
    loss: float
    pairs: tuple[PairLoss, ...]
    columns: tuple[ColumnNoise, ...]
    assumptions: list[str]
    strategy: str
    noise: str
    dependence: str
    n_rows: int
    delta: float = 0.0
    alpha: float | None = None
    remedy: str | None = None
    releases: int = 1
    rule: Rule | None = None
    fingerprint: str = ""
    fitted: Any = field(default=None, compare=False, repr=False)
    prior: str = "the fitted prior"
    n_columns: int | None = None
    version: str = ""
    date: str = field(default="", compare=False)
    name: str = field(default="", compare=False)
    utility: tuple[ColumnUtility, ...] = ()
    around: SetLoss | Awaited | None = field(default=None, compare=False, repr=False)
    least: float | None = None
    output: str = "native"
    models: tuple[ModelFacts, ...] = ()
    counted: tuple[CountedLoss, ...] = ()
    groups: RowsTogether | None = None

    @property
    def notion(self) -> Notion:
        """The notion of privacy that is guaranteed."""
        return promised(self.epsilon, self.delta, self.alpha)

    @property
    def released_by(self) -> str:
        """What releases rows, in a word: a noise, or what stands in its place."""
        return self.noise

    @property
    def holds(self) -> bool:
        """Whether the proven loss is within the budget."""
        return self.loss <= self.notion.budget

    @property
    def table(self) -> Any:
        """The pairs as a DataFrame, a row for each ordered pair of secrets."""
        names = list(PairLoss.__dataclass_fields__)
        return records_frame([*map(attrgetter(*names), self.pairs)], names)

    @property
    def over_set(self) -> SetLoss | None:
        """The loss over a set of priors around the fitted ones, where it is computable.

        It stands in the text and in `to_dict` where it was needed or is cheap. Elsewhere it is
        computed when it is first asked for, which may take a minute, and remembered; of a noiser
        with ``verbose=1`` it shows how far that is.
        """
        if self.around is None or isinstance(self.around, SetLoss):
            return self.around
        return self.around.value()

    @property
    def known_over_set(self) -> SetLoss | None:
        """``over_set`` where it is known without computing it now; None elsewhere."""
        if self.around is None or isinstance(self.around, SetLoss):
            return self.around
        return self.around.known

    def against(self, prior: Any, *, verbose: int = 0) -> Any:
        """Return what is still guaranteed to somebody whose prior is another one.

        Parameters
        ----------
        prior : mapping
            As one entry of the noiser's ``adversaries``: {secret: prior object}, or
            {column: {secret: prior object}} for several sensitive columns.
        verbose : int, default=0
            1 shows after two seconds on standard error what is done, and how much is left.

        Returns
        -------
        Against
            ``loss`` is the proven upper end of the exact loss under that prior, and ``holds``
            whether it is within the budget.

        Raises
        ------
        TypeError, ValueError
            If it is no such prior, or has values that no row of `fit` had.
        """
        if self.fitted is None:
            raise ValueError(NO_PRIOR)
        with (
            listening(check_verbose(verbose), "against"),
            task("losses under the prior", heads=True),
        ):
            return self.fitted.against(prior)

    def check(self, table: Any, *, verbose: int = 0) -> Any:
        r"""Return whether other rows still look like those of `fit`, which the guarantee is about.

        Parameters
        ----------
        table : DataFrame, lazy table or array-like of shape (n_rows, n_features)
            The rows, with the columns that are released, found by name. Nothing is refused for
            its values: those that `fit` has not seen are counted.
        verbose : int, default=0
            1 shows after two seconds on standard error what is done, and how much is left.

        Returns
        -------
        Drift
            ``drifted``, and in ``table`` for each column the share of values that `fit` has not
            seen, the distance of the two distributions and its p-value.

        Raises
        ------
        TypeError, ValueError
            If the certificate was read from JSON, or the table lacks columns.

        Notes
        -----
        *Formal guarantees.* Rows that are exchangeable with those of `fit`, as further draws of
        the same distribution are (and rows of groups are not: of these distances alone are told),
        are called drifted with a chance of 1 % at most, whatever the distribution is. Every value,
        and of columns with an order about a hundred ranks, have a bound on the tail of a
        hypergeometric distribution, Fisher's exact test, at an equal part of that (Bonferroni). A
        difference below about :math:`4.5 \sqrt{1/n + 1/m}/2` of the rows passes: 7 points of 1,000
        new rows against very many. Secrets are not looked at: where those of new rows are known,
        another `fit` counts them, and its certificate says what they need.

        Examples
        --------
        >>> import pandas as pd
        >>> from sklearn_puffer import PufferfishNoiser
        >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
        >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
        >>> certificate = PufferfishNoiser(epsilon=0.5, sensitive="loan").fit(table).certificate_
        >>> certificate.check(table).drifted, certificate.check(table.assign(cars=9)).drifted
        (False, True)
        """
        if self.fitted is None:
            raise ValueError(
                "this certificate does not hold its noise, so it knows no fitted rows; take that "
                "of a fitted PufferfishNoiser, or fit again."
            )
        with listening(check_verbose(verbose), "check"):
            drift = compared_rows(self.fitted, table)
        return drift if self.groups is None else replace(drift, together=True)

    def about_count(self, m: int) -> AboutCount:
        r"""Return what follows about how many rows have a sensitive value.

        .. math:: \varepsilon_m = m \varepsilon, \qquad \delta_m = m \delta

        Parameters
        ----------
        m : int
            By how much two counts differ: of rows, or of groups where rows count together.

        Returns
        -------
        AboutCount
            With the sentence in ``promise()``.

        Raises
        ------
        TypeError, ValueError
            If m is no whole number of at least 1, m times delta is 1 or more, the certificate does
            not hold, or is not one of noise.

        References
        ----------
        004, Definition F.1.

        Examples
        --------
        >>> import pandas as pd
        >>> from sklearn_puffer import PufferfishNoiser
        >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
        >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
        >>> certificate = PufferfishNoiser(epsilon=0.5, sensitive="loan").fit(table).certificate_
        >>> certificate.about_count(3).notion
        Pufferfish(epsilon=1.5, delta=0.0)
        """
        times = check_count(m, "m")
        if type(self) is not Certificate or not self.holds:
            raise ValueError(
                "about_count needs a certificate that holds, of noise that each row gets by "
                "itself; fit with noise='laplace' or 'gaussian'."
            )
        epsilon, delta = (rounded_up(times * Fraction(rate)) for rate in (self.epsilon, self.delta))
        if delta >= 1.0:
            raise ValueError(
                f"m={quoted(m)} times delta = {self.delta:g} is 1 or more, which guarantees "
                "nothing; ask for a smaller m."
            )
        unit = "rows" if self.groups is None else "groups"
        return AboutCount(times, promised(epsilon, delta, self.alpha), unit)

    def promise(self) -> str:
        """Return the guarantee in one sentence.

        Returns
        -------
        str
            It says so where nothing is guaranteed.
        """
        if not self.holds:
            return (
                f"NOTHING IS PROMISED: the proven loss {short_number(self.loss)} is above the "
                f"budget {self.notion.budget_name()}."
            )
        known = "the prior" if self.groups is None else self.groups.known()
        return f"Whoever sees {self._seen()}, and knows {known}, can {self._shift()}."

    def _promises(self) -> list[str]:
        """Return the guarantee, a line for each reader."""
        return [self.promise()]

    def _shift(self, whose: str = "") -> str:
        """Return what readers can do to the odds of secrets, of the sensitive columns."""
        names = {pair.sensitive for pair in self.pairs}  # few, of many pairs
        sensitive = " or of ".join(sorted(map(shown, names)))
        of = "of a listed pair of" if say.ONLY_LISTED in self.assumptions else "of"
        return self.notion.promise().replace("secrets", f"secrets {of} {sensitive}{whose}")

    def _seen(self) -> str:
        if self.groups is not None:
            times = f", in {self.releases} releases together" if self.releases > 1 else ""
            return f"{self.groups.seen()}{times}"
        if self.releases > 1:
            return f"{self.releases} releases of the same rows together"
        return "a released row"

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain Python values, for JSON.

        Returns
        -------
        dict
            With a ``schema``, which changes with its keys.
        """
        over_set = self.known_over_set
        facts = ("strategy", "noise", "dependence", "output", "n_rows", "n_columns")
        return {
            "schema": SCHEMA,
            **{key: getattr(self, key) for key in ("name", "version", "date", "prior")},
            "promise": self.promise(),
            **{key: getattr(self, key) for key in ("holds", "epsilon", "delta", "alpha")},
            "loss": jsonable(self.loss),
            **{key: getattr(self, key) for key in facts},
            "over_set": None if over_set is None else plain_record(asdict(over_set)),
            **{key: getattr(self, key) for key in ("remedy", "least")},
            "models": [plain_record(asdict(model)) for model in self.models],
            "counted": [plain_record(asdict(loss)) for loss in self.counted],
            "groups": None if self.groups is None else plain_record(asdict(self.groups)),
            "releases": self.releases,
            "rule": None if self.rule is None else self.rule.to_dict(),
            "fingerprint": self.fingerprint,
            "columns": [plain_record(asdict(column)) for column in self.columns],
            "utility": [plain_record(asdict(column)) for column in self.utility],
            "pairs": [plain_record(vars(pair)) for pair in self.pairs],
            "assumptions": list(self.assumptions),
        }

    def _first_screen(self) -> Page:
        rows = f"{self.n_rows} rows"
        lines = [
            *self._promises(),
            *([say.PRIOR] if "knows the prior" in self.promise() else []),
            *([self.remedy] if self.remedy and not self.holds else []),
            *self._what_changes(),
            *(
                f"Risk: {risk}"
                for risk in [*say.marked_risks(self.assumptions), *self._risks()][:2]
            ),
            f"Budget: {self.notion.budget_name()}; proven loss {short_number(self.loss)}.",
            say.made_line(self.version, self.date, rows, self.n_columns),
            f"certificate_.details() has all losses and {len(self.assumptions)} assumptions.",
        ]
        return Page(self._headline(), lines, [])

    def _what_changes(self) -> list[str]:
        return [changes(self.utility)] if self.utility else []

    def _risks(self) -> list[str]:
        """Return what may go wrong, the largest first."""
        over, taken = self.known_over_set, []
        if self.holds and over is not None and over.loss > self.notion.budget:
            taken.append(
                f"readers who know the population better than these {self.n_rows} rows may reach "
                f"a loss of {over.loss:.3g}, at worst within sampling error ({over.level:.0%}); if "
                'yours may, fit with adversaries="confidence".'
            )
        taken += [model.warning() for model in self.models if model.weak]
        if over is None and self.around is not None:
            taken.append(
                "readers who know the population better than these rows may learn more; "
                "certificate_.over_set says how much."
            )
        if self.around is None and self.strategy != "sensitivity":
            taken.append(
                "readers whose prior differs from this one may learn more; "
                "certificate_.against(prior) says how much."
            )
        if self.dependence not in ("joint", "independent users"):
            taken.append(
                "columns (or groups of them) are taken as independent given the secret; where they "
                "are not, a row tells more."
            )
        return [*taken, *self._general_risks()]

    def _general_risks(self) -> list[str]:
        further = (
            "a further release" if self.releases == 1 else f"more than {self.releases} releases"
        )
        return [
            f"{further} of the same rows tells more; hand out this one, or fit with releases=.",
            "what one person's row tells about another's, as in a household, is not covered; "
            "groups= does that.",
        ]

    def _page(self) -> Page:
        return Page(self._headline(), self._lines(), self._sections())

    def _headline(self) -> str:
        """Return the one verdict: under which prior the guarantee holds, and how far beyond it."""
        of = f" of {shown(self.name)}" if self.name else ""
        return f"Certificate{of}: {self._verdict()}"

    def _verdict(self) -> str:
        """Return the same for a title, below which stands what it takes for granted."""
        return f"{self._kept()}{self._beyond()}"

    def _kept(self) -> str:
        """Return whether the budget is kept, by what, and under which prior."""
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return f"{verdict}{self._by()} for {self.prior}"

    def _by(self) -> str:
        """Return by what the guarantee holds, where that is not the exact loss asked for."""
        if self.least is None or not self.holds:
            return ""
        share = math.floor(100.0 * self.least)
        if share == 0:
            return " by a theorem (far less noise may do: how much is needed is not known)"
        return f" by a theorem (between {share}% and 100% of this noise is needed)"

    def _beyond(self) -> str:
        """Return what the set of priors around the fitted one says, for the end of the verdict."""
        over = self.known_over_set
        if not self.holds or self.around is None:
            return ""
        if over is None:
            return "; not computed for priors within sampling error"
        if over.loss > self.notion.budget:
            return ", but NOT for readers who know the population better"
        whom = f"every prior within sampling error ({over.level:.0%})"
        if over.estimate:
            whom = f"{over.level:.0%} of the priors within sampling error, by an estimate"
        return f", and for {whom}: {short_number(over.loss)}"

    def _lines(self) -> list[str]:
        """Return the lines below the verdict."""
        return [
            f"Budget: {self.notion.budget_name()}; proven loss {short_number(self.loss)}.",
            *self._promises(),
            *self._told_below(),
            say.made_line(self.version, self.date, f"{self.n_rows} rows", self.n_columns),
        ]

    def _told_below(self) -> list[str]:
        """Return what stands below the guarantee."""
        return [
            *([self.remedy] if self.remedy else []),
            *self._what_changes(),
            *model_lines(self.models, self.counted),
            *self._glossary(),
            f"Strategy {self.strategy}, {self.noise} noise, dependence {self.dependence}.",
        ]

    def _glossary(self) -> list[str]:
        """Return what the words above mean."""
        return [
            "The prior is what somebody may know before the release: the distribution of the "
            "released columns given each secret. Odds are those between two secrets, before and "
            "after the release."
        ]

    def _pairs_section(self, about: str, *columns: str) -> Section:
        cells = pair_cells(self._worst(), *columns)
        return Section(f"Worst pairs of secrets (of {len(self.pairs)})", about, cells)

    def _sections(self) -> list[Section]:
        return [
            Section("Noise by column", self._about_noise(), column_cells(self.columns)),
            *([utility_section(self.utility)] if self.utility else []),
            self._pairs_section(say.about_pairs(self.notion), "source"),
            *model_section(self.models, self.counted),
            *self._further_sections(),
            Section("Assumptions", sentences=say.printed(self.assumptions)),
        ]

    def _about_noise(self) -> str:
        mixes = any(column.unordered and column.theta > 0.0 for column in self.columns)
        return say.about_theta(self.noise) + say.ABOUT_MIXING * mixes

    def _further_sections(self) -> list[Section]:
        over = self.known_over_set
        awaited = self.around is not None and over is None
        sentence = say.AWAITED if awaited else say.over_set_sentence(over, self.notion)
        return [Section("Other priors", sentences=[sentence])]

    def _worst(self) -> list[PairLoss]:
        return sorted(self.pairs, key=lambda pair: -pair.upper)[:_SHOWN_PAIRS]


_VERSION_KEY = "_sklearn_puffer_version"
_LONGEST = 60


class CertifiedEstimator(BaseEstimator):
    """An estimator whose `certificate_` is tied to its parameters and to what it draws.

    Notes
    -----
    Every release is held against ``certificate_.fingerprint`` before anything is drawn, and saved
    states carry the version of the library that wrote them. That finds accidents (attributes that
    were replaced, parameters that were set after `fit`, states of other versions), not somebody
    who computes the fingerprint anew.
    """

    #: Parameters that are read anew at each release, or change nothing about it.
    _later: ClassVar[frozenset[str]] = frozenset({"verbose"})

    @abstractmethod
    def _fingerprint(self, certificate: Any) -> str:
        """Return the digest of what will be drawn, or nothing where a certificate denies it."""

    def _note_parameters(self) -> None:
        """Remember the parameters that were fitted with."""
        params = self.get_params(deep=False)
        self._parameters = {k: _noted(params[k]) for k in params if k not in self._later}

    def _check_as_certified(self) -> None:
        """Refuse to release what ``certificate_`` is not about: something was changed after fit."""
        check_is_fitted(self)
        self._check_parameters()
        mark = self._fingerprint(self.certificate_)
        if not mark or mark != self.certificate_.fingerprint:
            raise ValueError(
                f"what this {type(self).__name__} would release is not what its certificate_ is "
                "about: a fitted attribute was changed after fit; call fit again."
            )

    def _check_parameters(self) -> None:
        noted = getattr(self, "_parameters", {})
        changed = [k for k, then in noted.items() if not _same(getattr(self, k), then)]
        if changed:
            now = ", ".join(f"{k}={_brief(getattr(self, k))}" for k in changed)
            raise ValueError(
                f"{now} was set after fit, and the certificate is about other parameters; call fit "
                "again, or set back what was there in fit."
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), _VERSION_KEY: __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept_state = dict(state)
        version = kept_state.pop(_VERSION_KEY, None)
        if version != __version__:
            by = "an unknown version" if version is None else f"version {quoted(version)}"
            raise ValueError(
                f"this {type(self).__name__} was saved by {by} of sklearn_puffer, and version "
                f"{__version__!r} cannot vouch for its certificate; load it with the version that "
                "saved it, or fit again."
            )
        super().__setstate__(kept_state)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._verdict_html()
        return bundle

    @property
    def _repr_html_(self) -> Any:
        drawn = super()._repr_html_
        return lambda: drawn() + self._verdict_html()

    def _verdict_html(self) -> str:
        certificate = getattr(self, "certificate_", None)
        return "" if certificate is None else str(certificate._page().brief().notebook())


def _brief(value: Any) -> str:
    text = quoted(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _noted(value: Any) -> Any:
    """Return a parameter as it is now: lists and mappings may be changed in place."""
    if isinstance(value, dict):
        return {key: _noted(item) for key, item in value.items()}
    return [_noted(item) for item in value] if isinstance(value, list) else value


def _same(now: Any, then: Any) -> bool:
    """Return whether a parameter is what it was; where that is not known, it is not."""
    if now is then:
        return True
    if isinstance(now, Mapping) and isinstance(then, Mapping):
        return now.keys() == then.keys() and all(_same(now[key], then[key]) for key in now)
    if isinstance(now, list | tuple) and isinstance(then, list | tuple):
        return len(now) == len(then) and all(map(_same, now, then))
    if type(now) is not type(then) and not isinstance(now, Real):
        return False
    try:
        return bool(now == then)
    except (TypeError, ValueError):  # arrays
        return digest(now) == digest(then)
