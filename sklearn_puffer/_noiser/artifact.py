"""The result of `fit`: how tables are read, the mechanism that releases them, the certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from sklearn_puffer._base import RetiredError, gone
from sklearn_puffer._codes import Column
from sklearn_puffer._documents import FieldError, Fields, all_written, stated, written
from sklearn_puffer._noise import MixedNoise, Mixing, without_mixings
from sklearn_puffer._noiser.assumptions import ROBUST, side_information
from sklearn_puffer._noiser.release import (
    ColumnRelease,
    fingerprint,
    release_table,
    scale_of,
)
from sklearn_puffer._release import (
    Draw,
    Margin,
    Mechanism,
    Released,
    TableRules,
    Terms,
    read_column,
    written_column,
)
from sklearn_puffer._rows import Output
from sklearn_puffer._tables import Name, Table, series
from sklearn_puffer._words import shown
from sklearn_puffer.noise import FAMILIES, Noise, family_of, written_family


@dataclass(frozen=True, eq=False)
class NoiseOfColumns(Mechanism):
    """Noise, or a kernel, for each column by itself."""

    columns: list[ColumnRelease]

    kind: ClassVar[str] = ""  # artifacts of noise name no mechanism
    way_out: ClassVar[str] = (
        'give them one: by unknown="nearest", or fitting again by missing=, n_bins or categories'
    )

    @property
    def released_columns(self) -> list[Column]:
        """The columns that it releases."""
        return [release.column for release in self.columns]

    def fingerprint(self, certificate: Any, *about: Any) -> str:
        """Return the digest of the certified noise; "" if the certificate is about other noise."""
        drawn = [(r.column.name, scale_of(r), r.whole, r.grid) for r in self.columns]
        if drawn != [(c.name, c.theta, c.whole, c.grid) for c in certificate.columns]:
            return ""
        return fingerprint(self.columns, *about)

    def really_drawn(self) -> Any:
        """Return the columns with their noise: the same bits at two scales would undo it."""
        return self.columns

    def attributes(self) -> dict[str, Any]:
        """Return the noise scale of each public column."""
        return {"theta_": series({r.column.name: scale_of(r) for r in self.columns}, "theta")}

    def to_record(self) -> dict[str, Any]:
        """Return the fields of a release artifact."""
        records = [_written_release(release) for release in self.columns]
        noises = [release.noise for release in self.columns if release.noise is not None]
        fields = {"output": self.columns[0].output, "columns": records}
        return fields | ({"noise": _written_family(noises[0])} if noises else {})

    @classmethod
    def from_record(cls, record: Fields, columns: Sequence[Fields]) -> Mechanism:
        """Return the noise that was written."""
        output, noise, family = record.read("output", Output), None, record.inner("noise")
        if family is not None:
            parameters = {"k": family.number("k")} if family.has("k") else {}
            noise = family_of(family.read("family", str), parameters)
        return cls([_read_release(column, noise, output) for column in columns])

    def released(self, table: Table, rules: TableRules, draw: Draw) -> Released:
        """Return a table released in the caller's own type, and how many values were moved."""
        if draw.unknown == "nearest":
            columns = [release.column for release in self.columns]
            draw = replace(draw, unknown=stand_ins(rules.margins, columns))
        return release_table(table, self.columns, rules, draw)

    def terms(self, release: Any) -> Terms:
        """Return what a report says of noise, and of the prior that readers have."""
        certificate = release.certificate_
        times = "once" if certificate.releases == 1 else f"{certificate.releases} times"
        dependent, each = [_ROW], "row"
        if certificate.groups is not None:
            column = shown(certificate.groups.column)
            alike = certificate.groups.within_group == "any"
            within, each = "in any way" if alike else "not at all, given it", "group"
            dependent = [
                f"Rows with the same {column} share their secret, and depend on each other "
                f"{within}; what one group tells about another is not covered.",
                "No more rows of a group are released in all than was fixed at the fit, and which "
                "and how many they are tells nothing about the secret.",
            ]
        family = certificate.noise
        name = f"{family.capitalize()} noise" if family in FAMILIES else "noise of its own family"
        cut = [column for column in self.released_columns if column.edges is not None]
        binned = ", ".join(shown(column.name) for column in cut)
        bins = f"{binned} in bins, each value as the middle one of its bin; "
        prior, robust = _prior(release)
        by_list = _BY_LIST if _is_counted(release) else _BY_NO_LIST
        known = side_information(certificate.assumptions)
        unknown = [shown(c.name) for c in cut if c.name not in known]
        finer = [f"Who knows {', '.join(unknown)} more finely than in bins may learn more."]
        return Terms(
            name=name,
            how=f"with {name}",
            about=f"{bins * bool(cut)}noise is added as the guarantee needs it, which may be "
            "none; values without an order are drawn anew with some chance",
            granted=[
                prior,
                *dependent,
                f"The same rows are released {times} in all.",
            ],
            left_out=[
                "Readers with other knowledge than that named above are not covered: who knows "
                "another distribution of the columns, or more about a row, may learn more.",
                "Further releases of the same rows tell more, unless the guarantee counts them, or "
                "an account of all releases is kept.",
                "The noise is as large as the fitted rows ask for: what its size, or the figures "
                "of the certificate, tell of them is not covered.",
                "A row with a value that no fitted row had may tell more.",
                *(finer if unknown else []),
                *([_ALONE] if known else []),
            ],
            whole=f"Who gets the whole file is covered if {each}s are independent of each other: "
            f"each {each} has noise of its own. {by_list}",
            again=f"the same rows {times} in all",
            known=known,
            coarse=[column.name for column in cut if column.name in known],
            beyond="" if robust else ", but NOT for readers who know the population better",
        )


_BY_LIST = (
    "Who holds the list of the fitted rows, those that the noise was learnt from, with or without "
    "secrets, but not which person each row belongs to, is covered for one released row of them, "
    "NOT for the whole file, and not with a list of other rows."
)
_BY_NO_LIST = (
    "Who holds a list of the rows, with or without secrets, knows more than the prior, and is NOT "
    "covered."
)


_ALONE = "Known columns are covered by themselves, not with other facts or another prior."


def _is_counted(release: Any) -> bool:
    """Return whether all that is known of one row by the list of fitted rows is the prior."""
    certificate, rules = release.certificate_, release._fitted.rules
    counted = certificate.prior.startswith("the counted prior")
    alone = certificate.groups is None and certificate.dependence == "joint"
    whole = not rules.passed and rules.missing != "propagate"
    return counted and alone and whole


_ROW = "What the row of one person tells about another is not covered."
_PRIORS = {
    "the counted prior": "the distribution of the released columns that is counted from the rows",
    "the given prior": "a distribution of the released columns that was given beforehand",
    "the prior of": "what a classifier learns about the secrets from the released columns",
    "the fitted Gaussian prior": "normal distributions fitted to the rows",
}


def _prior(release: Any) -> tuple[str, bool]:
    """Return what a reader is assumed to know, as far as the parameters say it.

    Then whether that is every prior within sampling error.
    """
    certificate = release.certificate_
    prior, over = certificate.prior, certificate.known_over_set
    words = [text for kind, text in _PRIORS.items() if prior.startswith(kind)]
    knows = words[0] if words else "a distribution that was fitted to the rows"
    because = ", for instance because the rows are a sample,"
    proven = over is None or over.loss <= certificate.notion.budget
    robust = proven and any(ROBUST in said for said in certificate.assumptions)
    if robust:
        knows += ", and every distribution within sampling error of it (a confidence set)"
        because = ""
    if "further prior" in prior:
        knows += "; the further ones that the noiser was given are covered as well"
    told = (
        f"The prior is {knows}; the reader knows nothing else of a row. Who knows another "
        f"distribution{because} may learn more."
    )
    return told, robust


def stand_ins(margins: Sequence[Margin], columns: Sequence[Column]) -> dict[Name, Any]:
    """Return the rule of each column under ``unknown="nearest"``, for noise.

    A number becomes the nearest one. A category becomes the commonest one of `fit`, by margins in
    thousandths (the first of several, or without a margin). The rule is the same for all rows.
    """
    parts = {margin.name: margin.parts for margin in margins}
    rules: dict[Name, Any] = dict.fromkeys((column.name for column in columns), "nearest")
    for column in columns:
        if column.levels is not None:
            held = np.where(column.known, parts.get(column.name, 0), -1)
            if column.missing_code is not None:
                held[column.missing_code] = -1
            rules[column.name] = column.levels[int(held.argmax())]
    return rules


def _written_family(noise: Noise) -> dict[str, Any]:
    noise = without_mixings(noise)
    if (family := written_family(noise)) is None:
        raise ValueError(
            f"noise={noise.name} is a family of your own, which a release artifact does not hold: "
            "its reader may lack it; use one of sklearn_puffer.noise, or save the noiser with "
            "joblib."
        )
    name, parameters = family
    return {"family": name} | {key: written(value) for key, value in parameters.items()}


def _written_release(release: ColumnRelease) -> dict[str, Any]:
    mixing = release.mixing
    return written_column(release.column) | stated(
        {
            "scale": None if release.noise is None else written(scale_of(release)),
            "grid": written(release.grid) or None,
            "drawn": None if mixing is None else all_written(np.array(mixing.values)),
            "shares": None if mixing is None else mixing.shares,
        }
    )


def _read_release(record: Fields, family: Noise | None, output: Output) -> ColumnRelease:
    if record.has("certified"):
        raise RetiredError(gone("noisier"))
    column, noise = read_column(record), None
    grid = record.number("grid") if record.has("grid") else 0.0
    mixed = record.has("shares")
    if record.has("scale"):
        if family is None:
            raise FieldError("field noise is missing")
        noise = family.with_scale(record.number("scale"))
        record.check(grid > 0.0 or mixed, "grid")
        record.check(mixed or not column.unordered, "shares")
    if mixed and noise is not None:
        values, shares = record.numbers("drawn"), record.read("shares", tuple[int, ...])
        record.check(len(values) == len(shares) == len(column.atoms), "drawn")
        noise = MixedNoise(noise, (Mixing(tuple(values.tolist()), shares),))
    return ColumnRelease(column, noise, grid, output)
