"""The certificate: what is promised, for which pairs of secrets, and what was checked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, Literal

from sklearn_puffer._validation import plain
from sklearn_puffer.frame import Name, records_frame
from sklearn_puffer.notions import Notion, Pufferfish, RenyiPufferfish
from sklearn_puffer.spending import Averages, Rule

Source = Literal["recomputed", "theorem"]

SCHEMA = "sklearn_puffer.certificate/2"
_SHOWN_PAIRS = 5


class UncertifiedError(ValueError):
    """Raised where a release would carry a certificate that does not hold."""


@dataclass(frozen=True)
class PairLoss:
    """The privacy loss of one secret against another, in this direction.

    In nats for pure and Renyi privacy; under a delta it is the delta that goes with epsilon.

    Attributes
    ----------
    sensitive : str or int
        The sensitive column.
    secret, against
        The two secrets: the loss is that of p(y | secret) against p(y | against).
    adversary : int
        0 for the fitted prior, k for the k-th further prior.
    bound : float
        What the strategy promised at the chosen scale.
    lower, upper : float
        Ends of the interval that holds the exact loss.
    source : {"recomputed", "theorem"}
        Whether ``upper`` was recomputed without the strategy, or is the strategy's theorem.
    """

    sensitive: Name
    secret: Any
    against: Any
    adversary: int
    bound: float
    lower: float
    upper: float
    source: Source


@dataclass(frozen=True)
class ColumnNoise:
    """The noise of one public column.

    Attributes
    ----------
    name : str or int
    theta : float
        Scale in the column's own units (in codes for a categorical column); 0 for none.
    spread : float
        Standard deviation of the column, same units (of the values before binning).
    whole : bool
        Whether noise is rounded to whole numbers.
    grid : float
        Distance between neighbouring released values; 0 where nothing is added.
    """

    name: Name
    theta: float
    spread: float
    whole: bool
    grid: float

    @property
    def relative(self) -> float:
        """The scale theta, in standard deviations of the column."""
        return self.theta / self.spread if self.spread > 0 else 0.0


@dataclass(frozen=True)
class SetLoss:
    """What is lost to adversaries whose prior lies around the fitted one.

    Attributes
    ----------
    level : float
        Confidence with which the set holds the true laws.
    loss : float
        Of the worst pair under the worst prior of the set, in the unit of the budget; a proven
        bound unless ``estimate``.
    exact : bool
        Whether some prior of the set loses as much; otherwise ``loss`` is only a bound.
    estimate : bool
        Whether the set is one of draws (Gaussian and mixture priors), about which nothing is
        proven.
    share : float
        The part of theta that the fitted prior alone needs; the rest is for sampling error.
    decided : tuple
        Secrets with so few rows that the set decides everything about them.
    """

    level: float
    loss: float
    exact: bool
    estimate: bool
    share: float
    decided: tuple[Any, ...]


@dataclass(frozen=True)
class Certificate:
    """What a fitted noiser promises, and the evidence.

    Attributes
    ----------
    epsilon : float
        Budget in nats.
    loss : float
        Proven upper end of the loss of the worst pair, in nats; under a delta (and no alpha) it is
        the proven delta. Infinite where nothing is proven.
    pairs : tuple of PairLoss
        Both directions of every secret pair.
    columns : tuple of ColumnNoise
    assumptions : list of str
        Under which conditions the promise holds, in sentences.
    strategy, noise, dependence : str
        How the scale was chosen.
    n_rows : int
        Rows the prior was learnt from.
    delta : float
        What the promise adds to the probability of any event; with alpha, the probability of the
        events left out.
    alpha : float or None
        Renyi order, where the promise is about that divergence.
    over_set : SetLoss or None
        The loss over a set of priors around the fitted ones, where it is computable.
    remedy : str or None
        Where the certificate does not hold: the sound strategy and the scale it needs.
    releases : int
        How many releases of the same rows the promise is for, all of them together.
    rule : Precisions, Averages, Refused or None
        How releases of the same rows add up, for a ledger.
    fingerprint : str
        Tells this fitted representation (columns, values, bins, grids, scales) from all others.
    adversaries : Adversaries or None
        The fitted laws and the noise, for `against`; not part of ``to_dict``.

    Notes
    -----
    *Formal guarantees.* Where ``holds`` is True, then under ``assumptions`` nobody who sees a
    released row, in all of its ``releases``, can move their odds between the two secrets of any
    listed pair by more than a factor e^epsilon; with alpha, in the mean of that order. With delta,
    no set of rows is more than e^epsilon times as probable under one of them as under the other,
    plus delta.

    Examples
    --------
    >>> pair = PairLoss("sex", "f", "m", 0, 0.9, 0.89, 0.9, "recomputed")
    >>> noise = ColumnNoise("age", 2.0, 4.0, True, 1.0)
    >>> certificate = Certificate(1.0, 0.9, (pair,), (noise,), [], "exact", "laplace", "joint", 99)
    >>> certificate.holds
    True
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
    over_set: SetLoss | None = None
    remedy: str | None = None
    releases: int = 1
    rule: Rule | None = None
    fingerprint: str = ""
    adversaries: Any = field(default=None, compare=False, repr=False)

    @property
    def notion(self) -> Notion:
        """The notion of privacy that is promised."""
        if self.alpha is None:
            return Pufferfish(self.epsilon, self.delta)
        return RenyiPufferfish(self.epsilon, self.alpha, self.delta)

    @property
    def holds(self) -> bool:
        """Whether the proven loss is within the budget."""
        return self.loss <= self.notion.budget

    @property
    def table(self) -> Any:
        """The pairs as a DataFrame, a row for each ordered pair of secrets."""
        names = list(PairLoss.__dataclass_fields__)
        return records_frame([asdict(pair) for pair in self.pairs], names)

    def against(self, prior: Any) -> Any:
        """Return what is still promised to somebody whose prior is another one.

        Parameters
        ----------
        prior : mapping
            As one entry of the noiser's ``adversaries``: {secret: prior object}, or
            {column: {secret: prior object}} for several sensitive columns.

        Returns
        -------
        Against
            ``loss`` is the proven upper end of the exact loss under that prior, ``holds`` whether
            it is within the budget, and ``bounds`` has what 004, Thm A.3 to A.5 and Cor. A.1 say.

        Raises
        ------
        TypeError, ValueError
            If it is no such prior, or has values that no row of `fit` had.
        """
        if self.adversaries is None:
            raise ValueError(
                "this certificate does not hold the fitted laws, so it knows no other prior; take "
                "that of a fitted PufferfishNoiser, or fit again."
            )
        return self.adversaries.against(prior)

    def promise(self) -> str:
        """Return the promise in one sentence."""
        sensitive = sorted({str(pair.sensitive) for pair in self.pairs})
        if not self.holds:
            return (
                f"NOTHING IS PROMISED: the proven loss {short_number(self.loss)} is above the "
                f"budget {self._budget()}."
            )
        told = self.notion.promise().replace("secrets", f"secrets of {' or of '.join(sensitive)}")
        seen = "a released row"
        if self.releases > 1:
            seen = f"{self.releases} releases of the same rows together"
        return f"Whoever sees {seen}, and knows the prior, can {told}."

    def _budget(self) -> str:
        return self.notion.budget_name()

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain Python values, for JSON."""
        return {
            "schema": SCHEMA,
            "promise": self.promise(),
            "holds": self.holds,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "alpha": self.alpha,
            "loss": jsonable(self.loss),
            "strategy": self.strategy,
            "noise": self.noise,
            "dependence": self.dependence,
            "n_rows": self.n_rows,
            "over_set": None if self.over_set is None else plain_record(asdict(self.over_set)),
            "remedy": self.remedy,
            "releases": self.releases,
            "rule": self._rule_record(),
            "fingerprint": self.fingerprint,
            "columns": [plain_record(asdict(column)) for column in self.columns],
            "pairs": [plain_record(asdict(pair)) for pair in self.pairs],
            "assumptions": list(self.assumptions),
        }

    def _rule_record(self) -> dict[str, Any] | None:
        """Return the rule as plain values, without the plans: those may be large."""
        record = None if self.rule is None else self.rule.to_dict()
        if isinstance(self.rule, Averages) and record is not None:
            del record["plans"]
        return record

    def to_json(self, indent: int | None = 2) -> str:
        """Return the certificate as JSON; an infinite loss is the string "infinity"."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        lines = [
            f"Certificate ({verdict}): {self._budget()}, proven loss {short_number(self.loss)}",
            self.promise(),
            *([self.remedy] if self.remedy else []),
            f"Strategy {self.strategy}, {self.noise} noise, dependence {self.dependence}, "
            f"{self.n_rows} rows.",
            "",
            "Noise by column (theta, in the column's units, and in its standard deviations):",
            *(f"  {line}" for line in _aligned(_column_cells(self.columns))),
            "",
            f"Worst pairs of secrets (of {len(self.pairs)}; lower and upper end of the loss):",
            *(f"  {line}" for line in _aligned(_pair_cells(self._worst()))),
            "",
            "Assumptions:",
            *(f"  - {sentence}" for sentence in self.assumptions),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.assumptions)
        verdict = "holds" if self.holds else "does not hold"
        return (
            f"<h4>Certificate ({verdict}): {escape(self._budget())}, "
            f"proven loss {short_number(self.loss)}</h4><p>{escape(self.promise())}</p>"
            f"{columns_html(self.columns)}{_html_table(_pair_cells(self._worst()))}"
            f"<ul>{sentences}</ul>"
        )

    def _worst(self) -> list[PairLoss]:
        return sorted(self.pairs, key=lambda pair: -pair.upper)[:_SHOWN_PAIRS]


def columns_html(columns: Sequence[ColumnNoise]) -> str:
    """Return the noise of every column as an HTML table."""
    return _html_table(_column_cells(columns))


def _column_cells(columns: Sequence[ColumnNoise]) -> list[list[str]]:
    head = ["column", "theta", "std", "theta/std", "grid"]
    return [head] + [
        [str(c.name), f"{c.theta:.6g}", f"{c.spread:.6g}", f"{c.relative:.3f}", f"{c.grid:.3g}"]
        for c in columns
    ]


def _pair_cells(pairs: Sequence[PairLoss]) -> list[list[str]]:
    head = ["sensitive", "secret", "against", "lower", "upper", "source"]
    return [head] + [
        [
            str(pair.sensitive),
            str(pair.secret),
            str(pair.against),
            short_number(pair.lower),
            short_number(pair.upper),
            pair.source,
        ]
        for pair in pairs
    ]


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
    return [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells
    ]


def _html_table(cells: Sequence[Sequence[str]]) -> str:
    def row(tag: str, values: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(v)}</{tag}>" for v in values) + "</tr>"

    body = "".join(row("td", values) for values in cells[1:])
    return f"<table><thead>{row('th', cells[0])}</thead><tbody>{body}</tbody></table>"


def short_number(value: float) -> str:
    """Return a loss for people: to six digits, or in words."""
    if 0.0 < value < 1e-300:  # as good as nothing, rounded outwards
        return "below 1e-300"
    return "infinite" if math.isinf(value) else f"{value:.6g}"


def plain_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with plain Python values, for JSON."""
    return {key: jsonable(value) for key, value in record.items()}


def jsonable(value: Any) -> Any:
    """Return a plain Python value for JSON, which knows no infinity."""
    value = plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinity"
    if isinstance(value, tuple):
        return [jsonable(each) for each in value]
    return value if isinstance(value, bool | int | float | str | None) else str(value)
