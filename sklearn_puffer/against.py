"""What a fitted release promises to somebody whose prior is not the fitted one.

The loss under a further prior is computed as that under the fitted one, at the scales that were
fitted. Beside it stand what theorems make of the distance between the two priors
(`_fitting.close_priors`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from sklearn_puffer._base.types import Array, FloatArray
from sklearn_puffer._fitting.close_priors import Release, distance_bounds
from sklearn_puffer._fitting.columns import Column
from sklearn_puffer._fitting.counting import CodeArray
from sklearn_puffer._fitting.learning import Adversary, SecretPair, given_adversary, make_groups
from sklearn_puffer._fitting.selection import Pair, Secret
from sklearn_puffer._validation import listed, meant, quoted
from sklearn_puffer.certificate import jsonable, plain_record, short_number
from sklearn_puffer.frame import Name, records_frame
from sklearn_puffer.noise import Noise
from sklearn_puffer.notions import Notion
from sklearn_puffer.priors import Discrete, GaussianMixture, Prior


@dataclass(frozen=True)
class LossUnder:
    """The privacy loss of one secret against another under the further prior, in this direction.

    Attributes
    ----------
    sensitive : str or int
        The sensitive column.
    secret, against
        The two secrets: the loss is that of p(y | secret) against p(y | against).
    lower, upper : float
        Ends of the interval that holds the exact loss, in the unit of the notion.
    source : {"recomputed", "theorem"}
        Whether ``upper`` is the exact loss, recomputed, or a bound in its place.
    """

    sensitive: Name
    secret: Any
    against: Any
    lower: float
    upper: float
    source: Literal["recomputed", "theorem"]


@dataclass(frozen=True)
class Against:
    """What is promised to somebody who holds one further prior, and nobody else.

    Attributes
    ----------
    notion : Notion
        What the release promises under the fitted prior.
    loss : float
        Proven upper end of the loss of the worst pair under this prior, in the unit of the
        notion's budget, the error of the sampler included.
    lower : float
        Lower end of that loss.
    pairs : tuple of LossUnder
        Both directions of every secret pair.
    bounds : dict of str to float
        What theorems say of the same loss from the distance between the priors alone; infinite
        where they say nothing. There is none under alpha and delta together.

    Notes
    -----
    *Formal guarantees.* If the values of a row follow this prior, given each secret, nobody moves
    their odds further than ``loss`` says; every entry of ``bounds`` is at least the true loss.
    """

    notion: Notion
    loss: float
    lower: float
    pairs: tuple[LossUnder, ...]
    bounds: dict[str, float]

    @property
    def holds(self) -> bool:
        """Whether the loss under this prior is within the budget all the same."""
        return self.loss <= self.notion.budget

    @property
    def table(self) -> Any:
        """The pairs as a DataFrame, a row for each ordered pair of secrets."""
        names = list(LossUnder.__dataclass_fields__)
        return records_frame([*map(attrgetter(*names), self.pairs)], names)

    def promise(self) -> str:
        """Return in a sentence what somebody with this prior can learn from a released row."""
        who = "Whoever holds exactly this prior, and sees a released row,"
        budget = self.notion.budget_name()
        if self.loss == 0.0 and not self._in_delta:
            return f"{who} learns nothing about the secrets: within the budget {budget}."
        if not math.isfinite(self.loss) or (self._in_delta and self.loss >= 1.0):
            return f"NOTHING IS PROMISED to whoever holds this prior: no loss below the {budget}."
        told = self.notion.allowing(self.loss).promise()
        if self.holds:
            return f"{who} can {told}: within the budget {budget}."
        return f"{who} can {told}: that is MORE THAN the budget {budget}."

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain Python values, for JSON; an infinite number is "infinity"."""
        return {
            "promise": self.promise(),
            "holds": self.holds,
            **self.notion.to_dict(),
            "loss": jsonable(self.loss),
            "lower": jsonable(self.lower),
            "bounds": {name: jsonable(bound) for name, bound in self.bounds.items()},
            "pairs": [plain_record(vars(pair)) for pair in self.pairs],
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Return it as JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        budget, loss = self.notion.budget_name(), short_number(self.loss)
        lines = [
            f"Against this prior ({verdict}): {budget}, proven loss {loss}",
            self.promise(),
            "That is about this one prior; another one has a loss of its own.",
        ]
        if any(pair.source == "theorem" for pair in self.pairs):
            lines.append("The exact loss is out of reach here; a proven bound stands in its place.")
        if self.bounds:
            lines.append("What the distance to the fitted prior alone would have promised:")
            lines.extend(f"  {name}: {short_number(bound)}" for name, bound in self.bounds.items())
        return "\n".join(lines)

    @property
    def _in_delta(self) -> bool:
        return self.notion.is_chance


@dataclass(frozen=True, eq=False)
class Adversaries:
    """A fitted release and the priors it was made for: what it takes to ask about another one.

    It holds laws and columns, and no rows, so it is small, and can be pickled.

    Attributes
    ----------
    fitted : sequence of dict
        The laws of the fitted prior, and those of further ones named in ``adversaries=``.
    pairs : dict of list
        The protected pairs of each sensitive column.
    groups : sequence of sequence of int
        Positions of the columns that are released jointly.
    columns : sequence of Column
    theta, grids : ndarray of shape (n_columns,)
        Scale and grid step of each column; 0 where the column is released unchanged.
    whole : ndarray of bool of shape (n_columns,)
        Columns that are released on whole numbers.
    noise : Noise
        Of any scale; that of all releases together.
    notion : Notion
    releases : int
        How often the same rows are released; ``theta`` is that of all releases together.
    """

    fitted: Sequence[Adversary]
    pairs: Mapping[Name, Sequence[Pair]]
    groups: Sequence[Sequence[int]]
    columns: Sequence[Column]
    theta: FloatArray
    grids: FloatArray
    whole: Array
    noise: Noise
    notion: Notion
    releases: int = 1

    def __post_init__(self) -> None:
        """Keep no numbers seen in `fit` of columns that take any number."""
        nothing, known = np.zeros(1), np.ones(1, dtype=bool)
        columns = [replace(c, atoms=nothing, known=known) if c.free else c for c in self.columns]
        object.__setattr__(self, "columns", columns)

    @property
    def _release(self) -> Release:
        return Release(
            tuple(column.name for column in self.columns),
            tuple(column.free for column in self.columns),
            self.theta,
            self.grids,
            self.whole,
            self.noise,
            self.notion,
            self.releases,
        )

    def against(self, prior: Mapping[Any, Any]) -> Against:
        """Return what is still promised to somebody with another prior.

        Parameters
        ----------
        prior : dict
            {secret: prior object}, or {sensitive column: {secret: prior object}}, over all public
            columns: what an entry of ``adversaries=`` is.

        Returns
        -------
        Against

        Raises
        ------
        TypeError, ValueError
            If it is no such mapping, names a secret or column that the fitted table did not have,
            is of another kind than the fitted priors, or gives mass to a value that no released
            row can have.

        References
        ----------
        004, Thm A.3, A.4 (with one prior for all terms), A.5, Cor. A.1.

        Examples
        --------
        >>> from sklearn_puffer.noise import Laplace
        >>> fair, biased = Discrete([0, 1], [0.5, 0.5]), Discrete([0, 1], [0.25, 0.75])
        >>> cars = Column("cars", "float", np.array([0.0, 1.0]), np.ones(2, dtype=bool))
        >>> release = Adversaries(
        ...     [{"loan": {"no": {(0,): fair}, "yes": {(0,): biased}}}], {"loan": [("no", "yes")]},
        ...     [[0]], [cars], np.ones(1), np.full(1, 2.0**-40), np.zeros(1, dtype=bool),
        ...     Laplace(), Pufferfish(0.5),
        ... )
        >>> told = release.against({"no": Discrete([0], [1.0]), "yes": biased})
        >>> round(told.loss, 6), told.holds
        (0.827989, False)
        """
        release = self._release
        further = release.on_grid(self._checked(prior))
        asked, groups = make_groups([further], self.pairs, self.groups)
        lower, upper, recomputed = release.drawn(groups, len(asked))
        fitted = [release.on_grid(known) for known in self.fitted]
        bounds = distance_bounds(release, self.pairs, self.groups, further, fitted)
        # where the loss itself is not computed, each of these is a bound as good as any
        least = min(bounds.values(), default=math.inf)
        upper = np.where(recomputed[:, None], upper, np.minimum(upper, least))
        lower = np.minimum(lower, upper)
        return Against(
            notion=self.notion,
            loss=float(upper.max()),
            lower=float(lower.max()),
            pairs=tuple(_losses_under(asked, lower, upper, recomputed)),
            bounds=bounds,
        )

    def _checked(self, prior: Any) -> Adversary:
        """Return the laws of a prior, by the rules of ``adversaries=``."""
        self._check_names(prior)
        further = given_adversary(prior, "prior", self._secrets(), self.groups, self.columns)
        self._check_complete()
        for of_secrets in further.values():
            for label, laws in of_secrets.items():
                for members, law in laws.items():
                    laws[members] = self._checked_law(law, members, label)
        return further

    def _check_names(self, prior: Any) -> None:
        """Refuse priors of secrets that there are not: they would change nothing."""
        if not isinstance(prior, Mapping):
            return
        nested = bool(prior) and all(isinstance(value, Mapping) for value in prior.values())
        if not nested and len(self.fitted[0]) > 1:
            return
        if nested:
            _check_keys(prior, list(self.fitted[0]), "sensitive column")
        by_column = prior if nested else {next(iter(self.fitted[0])): prior}
        for name, own in by_column.items():
            _check_keys(own, list(self.fitted[0][name]), f"value of column {quoted(name)}")

    def _secrets(self) -> list[Secret]:
        nowhere = CodeArray(np.zeros(0, dtype=np.intp))
        return [Secret(name, tuple(laws), nowhere) for name, laws in self.fitted[0].items()]

    def _check_complete(self) -> None:
        """Refuse where a row may be incomplete: a given prior says nothing about such rows."""
        known = {m for of in self.fitted[0].values() for laws in of.values() for m in laws}
        for group in self.groups:
            parts = [m for m in known if set(m) < set(group)]
            if parts:
                gone = next(k for k in group if k not in parts[0])
                raise ValueError(
                    f"prior gives no law for rows in which {self.columns[gone].name!r} is missing; "
                    "fit with its missing values filled, or with the column as a group of its own "
                    "in dependence=."
                )

    def _checked_law(self, law: Prior, members: tuple[int, ...], label: Any) -> Prior:
        """Return the law without atoms of mass zero, all of whose values can be released."""
        columns = [self.columns[k] for k in members]
        if isinstance(law, GaussianMixture) != columns[0].free:
            kind = "GaussianMixture" if columns[0].free else "Discrete"
            raise ValueError(
                f"prior holds {law!r} for {quoted(label)}, and the noiser was fitted with "
                f"{kind} priors; give {kind} priors."
            )
        if isinstance(law, GaussianMixture):
            return law
        some = law.counts > 0
        for column, values in zip(columns, law.rows[some].T, strict=True):
            _check_known(column, values, label)
        return Discrete.from_counts(law.atoms[some], law.counts[some])


def _check_keys(given: Mapping[Any, Any], known: Sequence[Any], what: str) -> None:
    for name in given:
        if name not in known:
            raise ValueError(
                f"prior names {quoted(name)}, which is no {what} that was seen in fit"
                f"{meant(name, known)}; those are {listed(known, 10)}."
            )


def _losses_under(
    asked: Sequence[SecretPair], lower: FloatArray, upper: FloatArray, recomputed: Array
) -> Iterator[LossUnder]:
    for k, pair in enumerate(asked):
        source: Literal["recomputed", "theorem"] = "recomputed" if recomputed[k] else "theorem"
        both = [(pair.secret, pair.against), (pair.against, pair.secret)]
        for way, (secret, against) in enumerate(both):
            low, high = float(lower[k, way]), float(upper[k, way])
            yield LossUnder(pair.sensitive, secret, against, low, high, source)


def _check_known(column: Column, values: FloatArray, label: Any) -> None:
    """Refuse values that a released row cannot have."""
    if column.free:
        return
    strange = np.setdiff1d(values, column.atoms[column.known])
    if strange.size:
        shown = repr(float(strange[0]))
        if column.levels is not None and float(strange[0]).is_integer():
            code = int(strange[0])
            shown = (
                f"{quoted(column.levels[code])} (code {code})"
                if code < len(column.levels)
                else shown
            )
        raise ValueError(
            f"prior gives mass to {shown} in column {column.name!r} for {quoted(label)}, which "
            "was not seen in fit, so that such rows are refused, or moved; give it mass zero, or "
            "name this prior in adversaries= and fit again."
        )
