"""The certificate: what a release guarantees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from operator import attrgetter
from typing import Any

from sklearn_puffer._base import check_count, check_verbose, listening, task
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._certificates.certificate_figures import (
    KEYED,
    AboutCount,
    ColumnNoise,
    ColumnUtility,
    CountedLoss,
    ModelFacts,
    PairLoss,
    SetLoss,
    changes,
    model_lines,
    utility_section,
)
from sklearn_puffer._certificates.composition import Rule
from sklearn_puffer._documents import (
    FoldedDocument,
    Page,
    Section,
    __version__,
    jsonable,
    utc_now,
)
from sklearn_puffer._numerics import rounded_up
from sklearn_puffer._rows import RowGroups
from sklearn_puffer._tables import Name, records_frame
from sklearn_puffer._words import quoted, short_number, shown, times
from sklearn_puffer.noise import FAMILIES
from sklearn_puffer.notions import Notion, promised

SCHEMA = "sklearn_puffer.certificate/6"
# 5 told a part of the noise that may be needed, 4 had no groups of rows
READ_SCHEMAS = (SCHEMA, "sklearn_puffer.certificate/5", "sklearn_puffer.certificate/4")
NO_PRIOR = (
    "this certificate does not hold its noise, so it knows no other prior; take that of a fitted "
    "PufferfishNoiser, or fit again."
)
"""The error of a certificate that was read without its noiser."""
_SHOWN_PAIRS = 5


@dataclass(frozen=True)
class Guaranteed:
    """What is guaranteed, whom against, how often, and of which rows together."""

    notion: Notion
    # whose knowledge the guarantee is about, such as "the counted prior"
    prior: str = "the fitted prior"
    # how many releases of the same rows the guarantee is for, all of them together
    releases: int = 1
    # which rows count together, where losses are those of a whole group
    groups: RowGroups | None = None


@dataclass(frozen=True)
class Proof:
    """What was proven; ledgers use it."""

    # upper end of the loss of the worst pair, in nats; under a delta (and no alpha) it is the
    # proven delta. Infinite where nothing is proven.
    loss: float
    pairs: tuple[PairLoss, ...]  # both directions of every secret pair
    rule: Rule | None = None  # how releases of the same rows add up
    # where the certificate does not hold: the sound strategy and the scale it needs
    remedy: str | None = None


@dataclass(frozen=True)
class Method:
    """How rows are released."""

    # how the scale was chosen
    strategy: str
    noise: str
    dependence: str = "joint"
    # what noisy values become: values of their column's type ("native"), or numbers ("noisy")
    output: str = "native"
    columns: tuple[ColumnNoise, ...] = ()  # the noise of each released column


@dataclass(frozen=True)
class Made:
    """The version, the time and the size of the data of a fit."""

    n_rows: int
    n_columns: int | None = None  # of the table, the sensitive ones included
    version: str = ""
    date: str = field(default="", compare=False)

    @classmethod
    def now(cls, n_rows: int, n_columns: int | None = None) -> Made:
        """Return it for a fit that ends now."""
        return cls(n_rows, n_columns, __version__, utc_now())

    def line(self) -> str:
        """Return it in a sentence."""
        return say.made_line(self.version, self.date, f"{self.n_rows} rows", self.n_columns)


@dataclass(frozen=True)
class OtherPriors:
    """What readers with other priors may learn."""

    # the loss over a set of priors, or what computes it when it is first asked for
    around: Any = field(default=None, compare=False, repr=False)
    # the noise and what it protects, for `against`; not part of ``to_dict``
    fitted: Any = field(default=None, compare=False, repr=False)
    # how well classifiers that are adversaries predict, compared with a constant, gradient boosting
    # and counting
    models: tuple[ModelFacts, ...] = ()
    # the loss of the same release to readers who counted single columns and pairs of them; only
    # where a classifier is an adversary
    counted: tuple[CountedLoss, ...] = ()

    @property
    def known(self) -> SetLoss | None:
        """The loss over the set, where it is known without computing it now."""
        known: SetLoss | None = getattr(self.around, "known", self.around)
        return known

    @property
    def awaited(self) -> bool:
        """Whether that loss is still to be computed."""
        return self.around is not None and self.known is None

    def over_set(self) -> SetLoss | None:
        """Return the loss over the set, which is computed where it is not known yet."""
        over: SetLoss | None = self.around.value() if self.awaited else self.known
        return over


def _of(path: str, about: str) -> Any:
    """Return a property that reads a name of one of the values."""
    return property(attrgetter(path), doc=about)


@dataclass(frozen=True)
class Certificate(FoldedDocument):
    """What a fitted estimator guarantees, and its proof.

    Parameters
    ----------
    guaranteed : Guaranteed
        What is guaranteed, whom against, and how often.
    proof : Proof
        What was proven.
    method : Method
        How rows are released.
    made : Made
        When, by what and on how much data it was fitted.
    assumptions : list of str
        Under which conditions the guarantee holds, in sentences.
    utility : tuple of ColumnUtility
        How much of each column survives.
    other_priors : OtherPriors
        What readers with other priors may learn.
    fingerprint : str
        Identifies this fitted representation (columns, values, bins, grids, scales).
    name : str
        Of the table, where `named` gave one; no part of the fingerprint, nor of what makes two
        certificates equal.

    Attributes
    ----------
    epsilon, delta, alpha, prior, releases, groups
        Of ``guaranteed``: the budget in nats, what the guarantee adds to the probability of any
        event, the Renyi order or None, whose knowledge it is about, how many releases of the same
        rows it is for, and which rows count together.
    loss, pairs, rule, remedy
        Of ``proof``.
    strategy, noise, dependence, output, columns
        Of ``method``.
    n_rows, n_columns, version, date
        Of ``made``.
    models, counted, around, fitted
        Of ``other_priors``.

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

    guaranteed: Guaranteed
    proof: Proof
    method: Method
    made: Made
    assumptions: list[str]
    utility: tuple[ColumnUtility, ...] = ()
    other_priors: OtherPriors = OtherPriors()
    fingerprint: str = ""
    name: str = field(default="", compare=False)

    epsilon = _of("notion.epsilon", "Budget in nats.")
    delta = _of("notion.delta", "What the guarantee adds to the probability of any event.")
    prior = _of("guaranteed.prior", "Whose knowledge the guarantee is about.")
    releases = _of("guaranteed.releases", "How many releases of the same rows it is for.")
    groups = _of("guaranteed.groups", "Which rows count together; None if each counts by itself.")
    loss = _of("proof.loss", "Proven upper end of the loss of the worst pair.")
    pairs = _of("proof.pairs", "Both directions of every secret pair.")
    rule = _of("proof.rule", "How releases of the same rows add up, for a ledger.")
    remedy = _of("proof.remedy", "What keeps the guarantee, where the certificate does not hold.")
    strategy = _of("method.strategy", "How the scale was chosen.")
    noise = _of("method.noise", "The family of noise, or what stands in its place.")
    released_by = _of("method.noise", "What releases rows, in a word.")
    dependence = _of("method.dependence", "How columns depend on each other given the secret.")
    output = _of("method.output", "What noisy values become.")
    columns = _of("method.columns", "The noise of each released column.")
    n_rows = _of("made.n_rows", "Rows the prior was learnt from.")
    n_columns = _of("made.n_columns", "Columns of the table that was fitted.")
    version = _of("made.version", "Version of the library that fitted.")
    date = _of("made.date", "Time of the fit (UTC, ISO 8601).")
    models = _of("other_priors.models", "How much the classifiers know that are adversaries.")
    counted = _of("other_priors.counted", "What is lost to who counted a column or two.")
    fitted = _of("other_priors.fitted", "The noise and what it protects, for `against`; or None.")
    around = _of("other_priors.around", "What ``over_set`` returns, or computes.")
    known_over_set = _of(
        "other_priors.known", "``over_set`` where it is known without computing it; None elsewhere."
    )

    @property
    def notion(self) -> Notion:
        """The notion of privacy that is guaranteed."""
        return self.guaranteed.notion

    @property
    def alpha(self) -> float | None:
        """The Renyi order, where the guarantee is about that divergence."""
        alpha: float | None = self.notion.to_dict()["alpha"]
        return alpha

    @property
    def holds(self) -> bool:
        """Whether the proven loss is within the budget."""
        return self.proof.loss <= self.notion.budget

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
        return self.other_priors.over_set()

    def against(self, prior: Any, *, verbose: int = 0) -> Any:
        """Return what is guaranteed against readers with another prior.

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
        *Formal guarantees.* Rows that are exchangeable with those of `fit`, such as further draws
        of the same distribution, are called drifted with a probability of at most 1 %, whatever the
        distribution is. (Rows of groups are not exchangeable: only their distances are reported.)
        Every value, and about a hundred ranks of columns with an order, are tested by a bound on
        the tail of a hypergeometric distribution (Fisher's exact test), each at an equal share of
        this level (Bonferroni). A difference below about :math:`4.5 \sqrt{1/n + 1/m}/2` of the rows
        passes: 7 points of 1,000 new rows against very many. Secrets are not tested: where those of
        new rows are known, another `fit` counts them, and its certificate says what they need.

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
            drift = self.fitted.compared(table)
        return drift if self.groups is None else replace(drift, together=True)

    def about_count(self, m: int) -> AboutCount:
        r"""Return the guarantee about how many rows have a sensitive value.

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
        """Return by how much readers can shift the odds of secrets of the sensitive columns."""
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
            "over_set": None if over_set is None else jsonable(asdict(over_set)),
            "remedy": self.remedy,
            "models": [jsonable(asdict(model)) for model in self.models],
            "counted": [jsonable(asdict(loss)) for loss in self.counted],
            "groups": None if self.groups is None else jsonable(asdict(self.groups)),
            "releases": self.releases,
            "rule": None if self.rule is None else self.rule.to_dict(),
            "fingerprint": self.fingerprint,
            "columns": [jsonable(asdict(column)) for column in self.columns],
            "utility": [jsonable(asdict(column)) for column in self.utility],
            "pairs": [jsonable(vars(pair)) for pair in self.pairs],
            "assumptions": list(self.assumptions),
        }

    def _first_screen(self) -> Page:
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
            self.made.line(),
            f"certificate_.details() has all losses and {len(self.assumptions)} assumptions.",
        ]
        return Page(self._headline(), lines, [])

    def _what_changes(self) -> list[str]:
        return [changes(self.utility)] if self.utility else []

    def _dangers(self) -> list[str]:
        """Return what the first line of a report says besides the verdict."""
        return []

    def _decisions(self, ids: Sequence[Name]) -> list[str]:
        """Return what else who signs must decide, of released ids and what was found in rows."""
        return []

    def _figures(self) -> list[list[str]]:
        """Return further figures of a report that are looked at first: what, how much, and of what.

        They are about what is particular to a mechanism.
        """
        over, bounded = self.known_over_set, self.delta == 0.0 and self.alpha is None
        if over is None or over.loss <= self.notion.budget or not bounded:
            return []
        whom = f"shift of odds at most, within sampling error of the prior ({over.level:.0%})"
        return [["Who knows the population better", times(over.loss), whom]]

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
        awaited = self.other_priors.awaited
        if awaited or (self.other_priors.around is None and self.strategy != "sensitivity"):
            taken.append(
                "readers whose prior differs from this one may learn more; certificate_."
                f"{'over_set' if awaited else 'against(prior)'} says how much."
            )
        if self.dependence not in ("joint", "independent users"):
            taken.append(
                "columns (or groups of them) are taken as independent given the secret; where they "
                "are not, a row tells more."
            )
        further = (
            "a further release" if self.releases == 1 else f"more than {self.releases} releases"
        )
        return [
            *taken,
            f"{further} of the same rows tells more; hand out this one, or fit with releases=.",
            "what one person's row tells about another's, as in a household, is not covered; "
            "groups= does that.",
        ]

    def _page(self) -> Page:
        return Page(self._headline(), self._lines(), self._sections())

    def _headline(self) -> str:
        """Return the verdict: under which prior the guarantee holds, and for which others."""
        of = f" of {shown(self.name)}" if self.name else ""
        return f"Certificate{of}: {self._verdict()}"

    def _verdict(self) -> str:
        """Return the verdict without a name, after the words that nothing was changed."""
        same = bool(self.utility) and all(column.unchanged >= 1.0 for column in self.utility)
        return f"{'nothing was changed; ' * same}{self._kept()}{self._beyond()}"

    def _kept(self) -> str:
        """Return whether the budget is kept, by which proof, and under which prior."""
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return f"{verdict}{self._by()} for {self.prior}"

    def _by(self) -> str:
        """Return the words that a theorem replaces the exact loss, if one does."""
        replaced = self.strategy == "exact" and "theorem" in {pair.source for pair in self.pairs}
        return " by a theorem (less noise may do)" if self.holds and replaced else ""

    def _beyond(self) -> str:
        """Return the end of the verdict, about the set of priors around the fitted one."""
        over = self.known_over_set
        if not self.holds or self.other_priors.around is None:
            return ""
        if over is None:
            return ", but NOT proven for readers who know the population better"
        if over.loss > self.notion.budget:
            return ", but NOT for readers who know the population better"
        return f", and for every prior within sampling error ({over.level:.0%})"

    def _lines(self) -> list[str]:
        """Return the lines below the verdict."""
        return [
            f"Budget: {self.notion.budget_name()}; proven loss {short_number(self.loss)}.",
            *self._promises(),
            *self._told_below(),
            self.made.line(),
        ]

    def _told_below(self) -> list[str]:
        """Return what stands below the guarantee."""
        return [
            *([self.remedy] if self.remedy else []),
            *self._what_changes(),
            *model_lines(self.models, self.counted),
            *self._glossary(),
        ]

    def _glossary(self) -> list[str]:
        """Return what the words above mean, and how the scales were found."""
        return [
            "The prior is what somebody may know before the release: the distribution of the "
            "released columns given each secret. Odds are those between two secrets, before and "
            "after the release.",
            f"Strategy {self.strategy}, {self.noise} noise, dependence {self.dependence}.",
        ]

    def _pairs_section(self, about: str, *columns: str) -> Section:
        """Return the worst pairs, with further text fields."""
        cells = [
            [
                *(shown(name) for name in (pair.sensitive, pair.secret, pair.against)),
                *(short_number(end) for end in (pair.lower, pair.upper)),
                *(getattr(pair, name, "") for name in columns),
            ]
            for pair in self._worst()
        ]
        unit = "delta" if self.notion.is_chance else "nats"
        head = ["sensitive", "secret", "against", f"lower ({unit})", f"upper ({unit})", *columns]
        return Section(f"Worst pairs of secrets (of {len(self.pairs)})", about, [head, *cells])

    def _sections(self) -> list[Section]:
        # not every release is keyed
        printed = [said for said in self.assumptions if said != KEYED]
        noise = [
            [shown(c.name), f"{c.theta:.6g}", f"{c.spread:.6g}", f"{c.relative:.3f}"]
            for c in self.columns
        ]
        head = ["column", "theta", "std", "theta/std"]
        return [
            Section("Noise by column", self._about_noise(), [head, *noise]),
            *([utility_section(self.utility)] if self.utility else []),
            self._pairs_section(
                f"the exact loss, in {'delta' if self.notion.is_chance else 'nats'}, lies between "
                "lower and upper; recomputed: both were found without the strategy; theorem: upper "
                "is what a theorem guarantees, and may be far above",
                "source",
            ),
            *self._further_sections(),
            Section("Assumptions", sentences=printed),
        ]

    def _about_noise(self) -> str:
        meaning = f": {FAMILIES[self.noise].scale_means}" if self.noise in FAMILIES else ""
        about = (
            f"theta is the scale of the noise in the column's unit{meaning}; std is the column's "
            "standard deviation"
        )
        if any(column.unordered and column.theta > 0.0 for column in self.columns):
            about += (
                "; of an unordered column theta is -log(1 - rho): with a chance of rho = 1 - "
                "e^-theta a value is drawn anew, whatever it was, from the shares that all rows "
                "together have"
            )
        return about

    def _further_sections(self) -> list[Section]:
        over = self.known_over_set
        sentence = (
            say.AWAITED if self.other_priors.awaited else say.over_set_sentence(over, self.notion)
        )
        return [Section("Other priors", sentences=[sentence])]

    def _worst(self) -> list[PairLoss]:
        return sorted(self.pairs, key=lambda pair: -pair.upper)[:_SHOWN_PAIRS]
