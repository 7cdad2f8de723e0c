"""What `PufferfishNoiser.fit` does: from a table to priors, scales and their proof.

And what follows from them: certificate, releases and warnings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sklearn_puffer._base import FloatArray, __version__, plain, utc_now
from sklearn_puffer._noise import MixedNoise, Mixing, Unchanged, grid_step, sampler
from sklearn_puffer._noiser.adversaries import (
    Known,
    about_rows,
    conditional_margins,
    known_to_adversaries,
    refitted_laws,
    seen_by_counting,
)
from sklearn_puffer._noiser.conditional_priors import Adversary, Group, SecretPair, make_groups
from sklearn_puffer._noiser.drawn_priors import N_DRAWS, draws_of
from sklearn_puffer._noiser.groups import RowGroups
from sklearn_puffer._noiser.kept_columns import check_kept, with_kept
from sklearn_puffer._noiser.known_values import known_columns, who_know_values
from sklearn_puffer._noiser.margins import Conditional, Margin
from sklearn_puffer._noiser.mechanism import NoiseOfColumns
from sklearn_puffer._noiser.other_priors import FittedNoise
from sklearn_puffer._noiser.over_set import Around, Unknown, priors_around
from sklearn_puffer._noiser.problems import (
    Problem,
    cells_of,
    rows_have_exact_loss,
    too_wide,
    ways_to_exact,
)
from sklearn_puffer._noiser.read_table import TableRead, read_table
from sklearn_puffer._noiser.release import ColumnRelease, Patterns, remapped, scale_of
from sklearn_puffer._noiser.remapping import check_remappable
from sklearn_puffer._noiser.scales import Calibrated, find_scales, weighted
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.utility import RawLaw, utilities
from sklearn_puffer._releases import (
    Awaited,
    Certificate,
    ColumnNoise,
    ColumnUtility,
    CountedLoss,
    ModelFacts,
    PairLoss,
    Refused,
    Rule,
    SetLoss,
    composition_rule,
)
from sklearn_puffer._releases import sentences as say
from sklearn_puffer._tables import Column, Name, Pair, Source, Values
from sklearn_puffer.accounting import MAX_CELLS
from sklearn_puffer.calibration import exact
from sklearn_puffer.fits import GaussianFit, MixtureFit
from sklearn_puffer.noise import Noise
from sklearn_puffer.priors import Prior

_MODELS: dict[Any, str] = {GaussianFit: "a Gaussian", MixtureFit: "a Gaussian mixture"}
_ZERO, _ONE = np.zeros(1), np.ones(1, dtype=bool)
MOST_JOINT_POINTS = 1 << 23
"""Largest number of joint rows, over all secret pairs, that a coupling is built for."""
_MOST_DRAWN = 1 << 24  # rows: 128 MB of random bits


@dataclass(frozen=True, eq=False)
class Learnt:
    """Everything that was found out, and what follows from it.

    ``sensitive`` names all secrets, and ``hidden`` those that are columns of the table.
    """

    settings: Settings
    strategy_name: str
    sensitive: list[Name]
    hidden: list[Name]
    passed: list[Name]
    columns: list[Column]
    groups: list[list[int]]
    pairs: dict[Name, list[Pair]]
    adversaries: list[Adversary]
    asked: list[SecretPair]
    calibrated: Calibrated
    spreads: FloatArray
    raw: list[RawLaw]
    propagated: list[Name]
    n_rows: int
    n_columns: int
    fewest_rows: int
    around: SetLoss | Awaited | None
    rule: Rule
    remedy: str | None
    remarks: list[str]
    mixings: tuple[Mixing | None, ...]
    margins: list[Margin]
    conditional: Conditional
    models: tuple[ModelFacts, ...] = ()
    counted: tuple[CountedLoss, ...] = ()
    known: Sequence[tuple[Name, ...]] = ()
    grouped: RowGroups | None = None

    @property
    def public(self) -> list[Name]:
        """The columns that are released."""
        return [column.name for column in self.columns]

    def named_priors(self) -> dict[Name, dict[Any, dict[tuple[Name, ...], Prior]]]:
        """Return the fitted adversary's laws under the names of the columns."""
        return {
            sensitive: {
                secret: {tuple(self.columns[k].name for k in m): law for m, law in laws.items()}
                for secret, laws in of_secret.items()
            }
            for sensitive, of_secret in self.adversaries[0].items()
        }

    def patterns(self) -> Patterns:
        """Return which columns of each group occurred together, where others may be missing."""
        if not self.propagated:
            return {}
        laws = [of for of_secret in self.adversaries[0].values() for of in of_secret.values()]
        known = {members for of in laws for members in of}
        return {
            tuple(self.columns[k].name for k in group): {
                tuple(self.columns[k].name for k in members)
                for members in known
                if set(members) <= set(group)
            }
            for group in self.groups
        }

    @cached_property
    def releases(self) -> list[ColumnRelease]:
        """How every public column is released.

        Of a column that takes any number, the numbers seen in `fit` are not kept.
        """
        noisy = [
            ColumnRelease(
                replace(column, atoms=_ZERO, known=_ONE) if column.free else column,
                self._noise_of(float(theta), mixing),
                float(grid),
                self.settings.output,
            )
            for column, theta, grid, mixing in zip(
                self.columns,
                self.calibrated.theta,
                self.calibrated.grids,
                self.mixings,
                strict=True,
            )
        ]
        if self.settings.output != "remapped":
            return noisy
        laws = zip(noisy, self.raw, strict=True)
        return [remapped(release, law.placed(release.column)) for release, law in laws]

    def _noise_of(self, theta: float, mixing: Mixing | None) -> Noise | None:
        """Return the noise of a column, or its kernel."""
        if theta == 0.0:
            return None
        if mixing is None:
            return self.settings.noise.with_scale(theta)
        return MixedNoise(self.settings.noise.with_scale(theta), (mixing,))

    def certificate(self) -> Certificate:
        """Return the certificate, with both directions of every pair, and no fingerprint yet."""
        dependence, notion = self.settings.dependence, self.settings.notion
        return Certificate(
            **notion.to_dict(),
            loss=float(self.calibrated.upper.max()),
            pairs=self._both_ways(),
            columns=self._column_noise(),
            assumptions=say.assumptions_of(self._facts()),
            strategy=self.strategy_name,
            noise=self.settings.noise_name,
            dependence=dependence if isinstance(dependence, str) else "groups",
            n_rows=self.n_rows,
            remedy=self.remedy,
            releases=self.settings.releases,
            rule=self.rule,
            fitted=self.fitted_noise(),
            prior=say.prior_of(
                self.settings.prior is not None,
                _MODELS.get(type(self.settings.fit)),
                len(self.adversaries) - 1,
                self.models,
                self.known,
            ),
            models=self.models,
            counted=self.counted,
            n_columns=self.n_columns,
            version=__version__,
            date=utc_now(),
            utility=self.utility,
            around=self.around,
            least=self.calibrated.least,
            output=self.settings.output,
            groups=None if self.grouped is None else self.grouped.told(),
        )

    def fitted_noise(self) -> FittedNoise:
        """Return the noise and what it protects, without the laws."""
        settings, calibrated = self.settings, self.calibrated
        native = settings.output == "native"
        places = {column.name: k for k, column in enumerate(self.columns)}
        laws = [of for of_secret in self.adversaries[0].values() for of in of_secret.values()]
        return FittedNoise(
            {name: list(of_secret) for name, of_secret in self.adversaries[0].items()},
            sorted({members for of in laws for members in of}),
            self.pairs,
            self.groups,
            self.columns,
            calibrated.together,
            calibrated.grids,
            np.array([column.whole and native for column in self.columns]),
            settings.noise,
            settings.notion,
            settings.releases,
            self.mixings,
            margins=self.margins,
            conditional=self.conditional,
            known=[[places[name] for name in each] for each in self.known],
            together=self.grouped,
        )

    @cached_property
    def utility(self) -> tuple[ColumnUtility, ...]:
        """How much of each column survives."""
        return utilities(self.releases, self.raw, self.spreads.tolist())

    def mechanism(self) -> NoiseOfColumns:
        """Return how rows are released."""
        return NoiseOfColumns(
            columns=self.releases,
            least=[(scale_of(each), each.grid, each.remapping) for each in self.releases],
            laws=[law.kept(c) for law, c in zip(self.raw, self.columns, strict=True)],
        )

    def warnings(self) -> list[str]:
        """Return what the user should be warned of."""
        facts = self._facts()
        said = [*self.remarks, *self._wide_remarks()]
        said += say.quiet_sentences(facts)
        over_set = self._over_set
        if self.settings.confidence is not None and over_set and over_set.decided:
            said.append(say.decided_sentence(over_set.decided, over_set.level))
        return said

    @property
    def _over_set(self) -> SetLoss | None:
        """The loss over the sets, where it was worth computing unasked."""
        return self.around if isinstance(self.around, SetLoss) else None

    def _both_ways(self) -> tuple[PairLoss, ...]:
        """Return two rows a pair, forward and backward."""
        calibrated = self.calibrated
        # whole arrays at once: single numbers out of them take longer than all the rest
        ends = np.stack([calibrated.bound, calibrated.lower, calibrated.upper], axis=2).tolist()
        found: list[PairLoss] = []
        for pair, ways, known in zip(self.asked, ends, calibrated.recomputed.tolist(), strict=True):
            adversary, sensitive, secret, against = pair
            source: Literal["recomputed", "theorem"] = "recomputed" if known else "theorem"
            for (a, b), (bound, low, high) in zip(
                ((secret, against), (against, secret)), ways, strict=True
            ):
                found.append(PairLoss(sensitive, a, b, adversary, bound, low, high, source))
        return tuple(found)

    def _column_noise(self) -> tuple[ColumnNoise, ...]:
        return tuple(
            ColumnNoise(
                release.column.name,
                float(theta),
                float(spread),
                release.whole,
                release.grid,
                release.column.unordered,
            )
            for release, theta, spread in zip(
                self.releases, self.calibrated.theta, self.spreads, strict=True
            )
        )

    def _facts(self) -> say.Facts:
        columns = self._column_noise()
        kept = {name for names in self.known for name in names}
        noiseless = [c.name for c in columns if c.theta == 0.0 and c.spread > 0.0]
        quiet = [name for name in noiseless if name not in kept]
        binned = [c.name for c in self.columns if c.merged]
        return say.Facts(
            sensitive=self.sensitive,
            groups=[[self.columns[k].name for k in group] for group in self.groups],
            columns=columns,
            unchanged=[name for name in quiet if name not in binned],
            quiet_bins=[name for name in quiet if name in binned],
            binned=[name for name in binned if name not in quiet and name not in kept],
            kept_bins=[name for name in binned if name in kept],
            passed=self.passed,
            propagated=self.propagated,
            n_rows=self.n_rows,
            fewest_rows=self.fewest_rows,
            releases=self.settings.releases,
            given_prior=self.settings.prior is not None,
            model=_MODELS.get(type(self.settings.fit)),
            n_adversaries=len(self.adversaries),
            theorem=not self.calibrated.recomputed.all(),
            least=self.calibrated.least,
            noise=self.settings.noise_name,
            notion=self.settings.notion,
            seed=self.settings.seed,
            remapped=self.settings.output == "remapped",
            models=self.models,
            known=self.known,
            over_set=self.settings.confidence is not None,
            rows=None if self.grouped is None else self.grouped.told(),
        )

    @property
    def always_alike(self) -> list[Name]:
        """Columns that vary in the table, and are mapped to one and the same value."""
        mapped = [(r.column.name, r.remapping, len(r.column.atoms)) for r in self.releases]
        return [name for name, how, size in mapped if how and how.constant and size > 1]

    def _wide_remarks(self) -> list[str]:
        """Return a warning for each group too wide for the exact loss that was asked for."""
        if self.settings.strategy is not exact or self.calibrated.recomputed.all():
            return []
        if self.settings.hangs_together:  # a bound was asked for
            return []
        noise = self._column_noise()
        remarks = []
        if self.calibrated.least is not None and not any(map(too_wide, self._grouped())):
            remarks.append(say.theorem_sentence(self._facts()))
        for group in self.groups:
            columns = [self.columns[k] for k in group]
            if too_wide(columns):
                worst = max((noise[k] for k in group), key=lambda c: (not c.unordered, c.relative))
                names = [column.name for column in columns]
                remarks.append(
                    say.wide_sentence(
                        names, cells_of(columns), MAX_CELLS, worst, self._ways(columns)
                    )
                )
        return remarks

    def _grouped(self) -> list[list[Column]]:
        return [[self.columns[k] for k in group] for group in self.groups]

    def _ways(self, columns: Sequence[Column]) -> str:
        exactly = rows_have_exact_loss(self.settings.noise, self.settings.notion)
        return ways_to_exact(columns) if exactly else ""


def learn(
    settings: Settings,
    table: Source,
    given_secrets: Mapping[Name, Values] | None,
    sample_weight: Any,
) -> Learnt:
    """Learn the priors of a table, calibrate the noise and prove the result.

    Parameters
    ----------
    settings : Settings
    table : Source
    given_secrets : mapping of Values, or None
        The sensitive columns, where they are not columns of the table.
    sample_weight : array-like of shape (n_rows,) or None
    """
    # a family that cannot be drawn is refused here, and not in transform
    sampler(settings.noise.with_scale(1.0), grid_step(1.0))
    read = read_table(settings, table, given_secrets, sample_weight)
    settings = read.settings
    if settings.output == "remapped":
        check_remappable(read.columns, settings.noise)
    _check_size(read)
    known = known_to_adversaries(read)
    columns, groups = [replace(column, raw=None) for column in read.columns], read.groups
    knowing = who_know_values(known.adversaries, read)
    asked, parts = make_groups([*known.adversaries, *knowing], read.pairs, groups)
    around = (
        priors_around(settings, known.counted, read.pairs, columns, groups, known.mixings)
        if settings.model is None
        else refits_around(read, known.adversaries[0])
    )
    known = replace(known, mixings=with_kept(read, known.mixings))
    problem = _problem(settings, columns, known, parts, asked, read.grouped)
    check_kept(read, problem, len(known.adversaries))
    problem = weighted(around.within(problem), settings.weights, known.spreads)
    calibrated = find_scales(problem)
    learnt = Learnt(
        settings=settings,
        # where a confidence set was asked for and cannot be looked through
        strategy_name="sensitivity"
        if problem.strategy is not settings.strategy
        else settings.strategy_name,
        sensitive=[secret.name for secret in read.secrets],
        hidden=read.hidden,
        passed=read.passed,
        columns=columns,
        groups=groups,
        pairs=read.pairs,
        adversaries=known.adversaries,
        asked=asked,
        calibrated=calibrated,
        spreads=known.spreads,
        raw=known.raw,
        propagated=read.public if settings.missing == "propagate" else [],
        n_rows=read.rows.total,
        n_columns=read.n_columns,
        fewest_rows=read.fewest_rows(),
        around=around.loss(problem, calibrated),
        rule=_rule(problem, calibrated),
        remedy=_remedy(problem, calibrated),
        remarks=[*read.remarks(), *about_rows(read, known), *around.remarks],
        models=tuple(facts for model in known.models for facts in model.facts),
        mixings=known.mixings,
        margins=known.margins,
        conditional=conditional_margins(read, known),
        known=tuple(tuple(read.public[k] for k in each) for each in known_columns(read)),
        grouped=read.grouped,
    )
    if not learnt.models:
        return learnt
    return replace(learnt, counted=seen_by_counting(learnt.fitted_noise(), read))


def _problem(
    settings: Settings,
    columns: Sequence[Column],
    known: Known,
    parts: Sequence[Group],
    asked: Sequence[SecretPair],
    together: RowGroups | None,
) -> Problem:
    spreads, unordered = known.spreads, np.array([column.unordered for column in columns])
    ranges = np.array([column.atoms[-1] - column.atoms[0] for column in columns])
    # a column that never varies under the fitted prior may vary under a further one
    weights = np.where(spreads > 0.0, spreads, np.where(ranges > 0.0, ranges, 1.0))
    weights = np.where(unordered, mixing_weights(columns), weights)
    kept = [isinstance(mixing, Unchanged) for mixing in known.mixings]
    weights = np.where(kept, 0.0, weights)
    whole = np.array([column.whole and settings.output == "native" for column in columns])
    return Problem(
        groups=parts,
        n_pairs=len(asked),
        asked=asked,
        weights=weights,
        whole=whole,
        names=[column.name for column in columns],
        notion=settings.notion,
        strategy=settings.strategy,
        noise=settings.noise,
        reach=np.array([0.0 if c.free else np.abs(c.atoms).max() for c in columns]),
        n_jobs=settings.n_jobs,
        releases=settings.releases,
        mixings=known.mixings if any(known.mixings) else (),
        together=together,
    )


def mixing_weights(columns: Sequence[Column]) -> FloatArray:
    r"""Return what unordered columns have in the place of a standard deviation.

    At a factor of 1 a move away from a value that one of n rows has, n the size of the alphabet,
    loses half a nat, as a move by half a standard deviation does under Laplace noise:

    .. math:: e^{1/2} = 1 + \frac{1 - \rho}{\rho / n} \iff
              -\log(1 - \rho) = \log\left(1 + \frac{n}{e^{1/2} - 1}\right)
    """
    sizes = np.array([len(column.atoms) for column in columns], dtype=np.float64)
    weights: FloatArray = np.log1p(sizes / np.expm1(0.5))
    return weights


def _rule(problem: Problem, calibrated: Calibrated) -> Rule:
    """Return how releases of the same rows add up at the scales."""
    scales = dict(zip(problem.names, calibrated.together.tolist(), strict=True))
    if calibrated.upper.max() > problem.notion.budget:
        return Refused("The certificate does not hold, so that nothing may be released.")
    return composition_rule(problem.noise, scales, problem.draws, problem.mixings)


def _remedy(problem: Problem, calibrated: Calibrated) -> str | None:
    """Return which sound strategy would do, and its scales, where the promise is broken."""
    if calibrated.upper.max() <= problem.notion.budget:
        return None
    try:
        sound = find_scales(replace(problem, strategy=exact))
    except ValueError as error:
        return f'strategy="exact" does not help here: {error}'
    if sound.upper.max() > problem.notion.budget:
        return None
    scales = {
        plain(name): float(f"{theta:.6g}")
        for name, theta in zip(problem.names, sound.theta, strict=True)
    }
    return f'strategy="exact" keeps the promise, with theta = {scales}.'


def _check_size(read: TableRead) -> None:
    """Refuse a joint group whose coupling could not be held, before anything is allocated."""
    for group in read.groups:
        members = [read.columns[k] for k in group]
        cells = cells_of(members)
        if not too_wide(members):  # continuous priors are never coupled row by row
            continue
        points = 0
        for secret in read.secrets:
            tallies = read.rows.numbers(secret)
            if read.settings.models:  # every row has some mass for every secret
                tallies = np.full_like(tallies, read.rows.n_rows)
            sizes = np.minimum(tallies, min(cells, 2**62))
            points += sum(
                int(sizes[secret.find(label)]) for pair in read.pairs[secret.name] for label in pair
            )
        if points > MOST_JOINT_POINTS:
            names = [column.name for column in members]
            exactly = rows_have_exact_loss(read.settings.noise, read.settings.notion)
            ways = ways_to_exact(members) if exactly else ""
            raise ValueError(say.too_large_sentence(names, points, MOST_JOINT_POINTS, ways))


def refits_around(read: TableRead, own: Adversary) -> Around:
    """Return what the prior's classifier knows when it is fitted anew, if that was asked for.

    Parameters
    ----------
    read : TableRead
    own : Adversary
        The laws of the classifier as it is.
    """
    settings = read.settings
    if settings.confidence is None:
        return Unknown()
    level, models = settings.confidence.level, settings.model
    fits = models.values() if isinstance(models, Mapping) else [models]
    if any(fit.is_prefit for fit in fits if fit is not None):
        return Unknown("the prior is that of a classifier which was fitted elsewhere")
    if read.rows.total > _MOST_DRAWN:
        return Unknown(f"more than {_MOST_DRAWN} rows are not drawn again")
    alone = draws_of([own], read.pairs, read.groups, level)
    if not alone.computable(settings.noise, settings.notion):
        return Unknown("the exact loss of such rows is not computed")
    drawn = [laws.adversary(read) for laws in refitted_laws(read, N_DRAWS)]
    return draws_of(drawn, read.pairs, read.groups, level)
