r"""What a noisy gradient descent guarantees: the loss of its released weights, with its proof.

The weights follow :math:`W_t = \psi_t(W_{t-1}) + N_t` with maps that are c-contractions. For two
values of one record the maps differ by at most s_t, in one joint coupling of all records. Given the
records, only the noise is random. So 004, Thm 5.2 bounds the loss of every coupled pair of tables,
and the loss of their mixture is no larger (D_alpha is jointly quasi-convex).

*The ball.* Each map begins with a projection onto a ball of radius r. After it two runs are at most
2 r apart, whatever came before. So for any step k the shifts before k can be replaced by 0, and
s_k by :math:`2 r c + s_k`. The smallest loss over several k is a bound.

*Noise at the end only.* The two runs are :math:`z_T` apart before the noise, with
:math:`z_t = c \min(z_{t-1}, 2 r) + s_t`: the loss is that of a Gaussian shift. Let
:math:`V = \sum c^{2(T-t)} \sigma_t^2` be the variance at the end of noise at every step. By Cauchy
and Schwarz the bound of Thm 5.2 (without the ball) is at least :math:`\alpha z_T^2 / (2 V)`, the
loss of noise of variance V at the end only.

*The mean of the last m steps,* with noise at the end only. The two runs are :math:`z_t` apart after
step t. So their means over the last m steps are at most the mean of these :math:`z_t` apart: a
Gaussian shift again. Let every other record move a step by s, and the secret one move step k by
:math:`\delta` more. Neither projection nor map brings two points further apart. So from step k on
:math:`z_t` is at most :math:`c^{t-k} \delta` larger than if the secret record moved a step by s,
too. The sum of :math:`c^{t-k}` over the last m steps with t >= k is at most m, and largest where k
is the first of them.

*Rounding.* A computed step differs from the exact map by at most e_t (floating-point arithmetic,
noise rounded to its grid). Under the same noise, computed and exact weights stay within
:math:`E = \sum e_t` before the last noise, and so do their means. If P' is within z of P and
:math:`D(P' \| Q)` is small, apply to P' and Q the kernel that turns Q into the computed Q: the
divergence does not grow, so that the computed distributions are a shift of z + 2 E apart. The
square root of the loss is a norm of the shifts, hence subadditive, which gives
:math:`(\sqrt{D} + \sqrt{\alpha/2}\, 2 E / \sigma)^2`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sklearn_puffer._base import FloatArray
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._documents import FoldedDocument, Page, Section, __version__, utc_now
from sklearn_puffer._noise import FINEST, coarse_enough, grid_step, sampler_loss
from sklearn_puffer._numerics import smallest_within
from sklearn_puffer._words import shown
from sklearn_puffer.iteration import iteration_loss, worst_shifts
from sklearn_puffer.notions import RenyiPufferfish

_OUTWARDS = 1.0 + 1e-12  # more than the rounding of the few operations it stands for
_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Dependence:
    """The declared dependence of the records on each other.

    Attributes
    ----------
    correlation : float or ndarray of shape (n_lags,) or (n_records, n_records)
        rho, between any two records, by the distance of their positions, or pair by pair.
    sensitivity : float
        C, the Lipschitz constant of the gradient in the record; infinite where a correlated record
        may change completely.
    distance : float
        Between two values of a record within the declared bounds.
    """

    correlation: Any = 0.0
    sensitivity: float = math.inf
    distance: float = 1.0


@dataclass(frozen=True)
class Iteration:
    """The numbers that determine the loss of a descent for given noise; none depends on the data.

    Attributes
    ----------
    n_records, batch_size : int
    n_weights : int
        Their number D, the intercept included.
    step : float
        The learning rate eta.
    factor : float
        The contraction c of each map.
    gradient_bound : float
        L: no gradient of a record is longer.
    diameter : float
        Of the ball that the weights are projected onto.
    reach : float
        Bound on the norm of the weights before noise is added.
    rounding : float
        Bound on the error of a computed step, in the norm of the weights.
    at_every_step : bool
        Whether noise is added at every step, or at the end alone.
    n_averaged : int
        The mean of this many last steps is released; 1 with noise at every step.
    """

    n_records: int
    batch_size: int
    n_weights: int
    step: float
    factor: float
    gradient_bound: float
    diameter: float
    reach: float
    rounding: float
    at_every_step: bool
    n_averaged: int = 1

    @property
    def n_steps(self) -> int:
        """T; each record is used once."""
        return -(-self.n_records // self.batch_size)

    @property
    def n_draws(self) -> int:
        """The number of draws of noise."""
        return self.n_weights * (self.n_steps if self.at_every_step else 1)

    def error(self, sigma: float) -> float:
        """Return 2 E, the shift of the last step that rounding adds on the grid for sigma."""
        noisy = self.n_steps if self.at_every_step else 1
        grid = max(FINEST * sigma, math.ldexp(self.reach, -60))
        off_the_grid = noisy * math.sqrt(self.n_weights) * grid / 2.0
        return 2.0 * (self.n_steps * self.rounding + off_the_grid) * _OUTWARDS

    def grid(self, sigma: float) -> float:
        """Return the step of the grid on which noise is drawn and weights are released.

        Raises
        ------
        ValueError
            If sigma is too small for the weights, in 64 bits.
        """
        try:
            return coarse_enough(grid_step(sigma), sigma, self.reach)
        except ValueError:
            raise ValueError(
                f"the noise, {sigma:.3g}, is too small against weights of up to {self.reach:.3g} "
                "to be drawn safely in 64 bits; lower epsilon, or the radius."
            ) from None

    # -------------------------------------------------------------------------- losses at sigma = 1

    def unit_loss(self, dependence: Dependence, alpha: float) -> float:
        """Return the loss of the worst record at sigma = 1, without rounding."""
        if self.n_averaged > 1 and np.ndim(dependence.correlation) == 0:
            apart = self._distance_of_means(dependence)
            return alpha * apart**2 / 2.0 * _OUTWARDS
        # no record has larger sums of shifts to the end (see (2) in `iteration`), also where the
        # ball's diameter replaces the first shifts
        worst = self._shifts(dependence, self.n_records, self.batch_size)
        return self._unit_loss(worst * _OUTWARDS, alpha)

    def loss(self, unit_loss: float, sigma: float, alpha: float) -> float:
        """Return the loss for this unit loss, rounding included, rounded up."""
        if unit_loss == 0.0:
            return 0.0
        extra = math.sqrt(alpha / 2.0) * self.error(sigma)
        return float(np.square((math.sqrt(unit_loss) + extra) / sigma) * _OUTWARDS)

    def smallest_sigma(self, unit_loss: float, alpha: float, epsilon: float) -> float:
        """Return the smallest sigma whose loss is within epsilon; the loss is evaluated there."""
        start = math.sqrt(unit_loss / epsilon)
        if start == 0.0:
            return 0.0
        return smallest_within(
            lambda sigma: self.loss(unit_loss, sigma, alpha), epsilon, start, _TOLERANCE
        )

    # ------------------------------------------------------------------------------ shifts of steps

    def _shifts(
        self, dependence: Dependence, n_records: int, batch_size: int, **options: Any
    ) -> FloatArray:
        """Return how far each step moves with the record that loses most."""
        return worst_shifts(
            dependence.correlation,
            n_records,
            dependence.distance,
            batch_size=batch_size,
            lipschitz=self.gradient_bound,
            sensitivity=dependence.sensitivity,
            step=self.step,
            **options,
        )

    def _unit_loss(self, s: FloatArray, alpha: float) -> float:
        if not self.at_every_step:
            if self.n_averaged == 1:
                apart = float(self._distances(s)[-1])  # two runs at the end, without noise
            else:
                # z_t at every step is at most the sum of the shifts, which `worst_shifts` bounds
                # for every record. It is also at most the ball's diameter, at most which two runs
                # are apart before a step, plus the most that all records move a step.
                summed = float(s.sum()) * (1.0 + 4e-16 * s.size)
                held = self.factor * self.diameter + 2.0 * self.step * self.gradient_bound
                apart = min(summed, held) * _OUTWARDS
            return alpha * apart**2 / 2.0 * _OUTWARDS
        return min(
            float(iteration_loss(shifts, 1.0, alpha, contractions=self.factor))
            for shifts in self._restarted_shifts(s)
        )

    def _distances(self, s: FloatArray) -> FloatArray:
        """Return the distances z_t (T,) of two runs without noise, rounded up."""
        z = [0.0]
        for shift in s.tolist():
            z.append(self.factor * min(z[-1], self.diameter) + shift)
        return np.array(z[1:]) * (1.0 + 4e-16 * s.size) * _OUTWARDS

    def _distance_of_means(self, dependence: Dependence) -> float:
        """Return the largest distance of the means of the last steps, of records alike in pairs.

        It is that of records that all move alike, plus what the secret one moves more in the first
        of these steps; see the module.
        """
        secret, other = self._shifts(dependence, 2, 1, records=[0]).tolist()
        alike, m = 0.0, self.n_averaged
        room = 1.0 + 4e-16 * m
        if other > 0.0:
            sizes = np.full(self.n_steps, self.batch_size)
            sizes[-1] = self.n_records - self.batch_size * (self.n_steps - 1)
            last = self._distances(other * (sizes / self.batch_size) * _OUTWARDS)[-m:]
            alike = float(np.mean(last)) * room
        more = max(secret - other, 0.0) / self.batch_size
        share = min(float(np.power(self.factor, np.arange(m)).mean()) * room * _OUTWARDS, 1.0)
        return float((alike + more * share) * _OUTWARDS)

    def _restarted_shifts(self, s: FloatArray) -> list[FloatArray]:
        """Return sequences of shifts of the last steps, each of which gives a bound.

        The ball's diameter replaces all shifts before them, unless those are 0.
        """
        restarts = [s[np.flatnonzero(s)[0] :]]
        before = np.cumsum(s)
        for length in [2**k for k in range((s.size - 1).bit_length())]:
            if before[-1 - length] > self.diameter:
                last = s[-length:].copy()
                last[0] = (last[0] + self.diameter * self.factor) * _OUTWARDS
                restarts.append(last)
        return restarts


# ---------------------------------------------------------------------------------- the calibration


def calibrate_descent(
    iteration: Iteration,
    dependence: Dependence,
    notion: RenyiPufferfish,
    sentences: Sequence[str],
    n_columns: int | None = None,
) -> SGDCertificate:
    """Return the certificate of the smallest noise for a budget."""
    extra = float(notion.of_samples(np.zeros(()), sampler_loss(iteration.n_draws)))
    if not 2.0 * extra < notion.epsilon:
        raise ValueError(
            f"epsilon={notion.epsilon!r} must be more than twice the {extra:.3g} that drawing "
            f"{iteration.n_draws} values of noise on their grid may lose; raise epsilon, or take "
            "fewer steps with a larger batch_size."
        )
    cases = {
        "this": dependence,
        "uncorrelated": replace(dependence, correlation=0.0),
        "group privacy": replace(dependence, correlation=1.0, sensitivity=math.inf),
    }
    units = {name: iteration.unit_loss(case, notion.alpha) for name, case in cases.items()}
    sigmas = {
        name: iteration.smallest_sigma(unit, notion.alpha, (notion.epsilon - extra) / _OUTWARDS)
        for name, unit in units.items()
    }
    sigma = sigmas["this"]
    iteration.grid(sigma)  # raises before any work where there is none
    losses = {
        name: math.nextafter(iteration.loss(unit, sigma, notion.alpha) + extra, math.inf)
        for name, unit in units.items()
    }
    return SGDCertificate(
        epsilon=notion.epsilon,
        alpha=notion.alpha,
        loss=losses["this"],
        sigma=sigma,
        noise_at="steps" if iteration.at_every_step else "end",
        n_records=iteration.n_records,
        n_steps=iteration.n_steps,
        batch_size=iteration.batch_size,
        n_averaged=iteration.n_averaged,
        learning_rate=iteration.step,
        contraction=iteration.factor,
        gradient_bound=iteration.gradient_bound,
        sensitivity=dependence.sensitivity,
        correlation=correlation_text(dependence.correlation),
        comparisons=losses,
        sigmas=sigmas,
        assumptions=list(sentences),
        n_columns=n_columns,
        version=__version__,
        date=utc_now(),
    )


def assumptions(dependence: Dependence, other_targets: str, further: Sequence[str]) -> list[str]:
    """Return the assumptions of the guarantee.

    ``other_targets`` ends the sentence on how other records move; ``further`` are the sentences of
    one estimator.
    """
    return [
        "A secret is the value of one whole record, its features and its target together; any two "
        "values of any record are protected against each other.",
        _about_dependence(dependence, other_targets),
        "Records are used in the order given, which may be known.",
        "The number of records, all parameters of the estimator (bounds, learning rate, batch "
        "size, scaling of the intercept) and the names of the columns are public: none may be "
        "chosen by looking at these records.",
        *further,
        "What is released is coef_ and intercept_ of one fit, and nothing between the steps; "
        "what several fits on the same records tell together is not covered.",
        "Refusals and warnings that depend on the records are not covered: fit refuses values "
        "that are not finite numbers, and warns where most of the first records lie beyond the "
        "declared bounds. A refusal tells that there are such values, a model that there are "
        "none.",
    ]


def _about_dependence(dependence: Dependence, other_targets: str) -> str:
    if not np.any(off_diagonal(dependence.correlation)):
        return "The records are independent of each other."
    if math.isinf(dependence.sensitivity):
        return (
            "Records with a correlation other than 0 are taken to change completely when the "
            "secret one does; all others are independent of it."
        )
    return (
        "For any two values of a secret record i within the declared bounds (others are not "
        "covered) there is one coupling of all other records under which record j moves by at "
        f"most |rho_ij| times {dependence.distance:.6g}{other_targets}."
    )


def correlation_text(correlation: Any) -> str:
    """Return a correlation in words."""
    if np.ndim(correlation) == 0:
        return f"{float(correlation):g}"
    kind = "by distance in the order" if np.ndim(correlation) == 1 else "given pair by pair"
    return f"{kind}, up to {np.abs(off_diagonal(correlation)).max(initial=0.0):g}"


def off_diagonal(correlation: Any) -> Any:
    """Return the correlations of different records."""
    if np.ndim(correlation) == 2:
        return correlation - np.diag(np.diag(correlation))
    return correlation[1:] if np.ndim(correlation) == 1 else correlation


SCHEMA = "sklearn_puffer.sgd_certificate/2"


@dataclass(frozen=True)
class SGDCertificate(FoldedDocument):
    r"""The guarantee of the released weights of a noisy gradient descent, and its figures.

    Attributes
    ----------
    epsilon, alpha : float
        The budget in nats, and the Renyi order.
    loss : float
        Proven bound on the Renyi divergence of the released weights, in nats, with the rounding of
        numbers and noise.
    sigma : float
        Standard deviation of the noise of each weight, in the units of the weights; that of the
        intercept is ``intercept_scaling`` times as large.
    noise_at : {"end", "steps"}
        Where it was added.
    n_records, n_steps, batch_size : int
    n_averaged : int
        The mean of this many last steps is released.
    learning_rate, contraction : float
        eta, and the contraction of a step.
    gradient_bound, sensitivity : float
        L, a bound on the length of a record's gradient; C, the Lipschitz constant of the gradient
        in its record.
    correlation : str
        Between records, as declared.
    comparisons : dict of str to float
        The loss at this sigma, in nats: under the declared dependence ("this"), if records were
        independent ("uncorrelated"), and if all records changed at once ("group privacy").
    sigmas : dict of str to float
        The sigma that would keep the budget in each of the three cases.
    assumptions : list of str
        The conditions of the guarantee, in sentences.
    n_columns : int or None
        Columns of the table that was fitted, the target included.
    version, date, name, fingerprint : str
        Version of the library, time of the fit (UTC), the table's name by `named`, and a digest of
        the certificate and the weights. Certificates are compared without date, name and
        fingerprint.

    Notes
    -----
    *Formal guarantees.* If ``holds`` is True, then under ``assumptions`` the distributions of the
    released weights under two values of a secret record have a Renyi divergence of order alpha of
    at most ``loss``, in both directions (004, Def. 2.2 and Thm 5.2).

    Examples
    --------
    >>> from sklearn_puffer import PufferfishSGDRegressor
    >>> model = PufferfishSGDRegressor(epsilon=0.5).fit([[0.1], [0.5], [0.9]], [0.2, 0.4, 0.8])
    >>> model.certificate_.holds
    True
    """

    epsilon: float
    alpha: float
    loss: float
    sigma: float
    noise_at: str
    n_records: int
    n_steps: int
    batch_size: int
    n_averaged: int
    learning_rate: float
    contraction: float
    gradient_bound: float
    sensitivity: float
    correlation: str
    comparisons: Mapping[str, float]
    sigmas: Mapping[str, float]
    assumptions: Sequence[str]
    n_columns: int | None = None
    version: str = ""
    date: str = field(default="", compare=False)
    fingerprint: str = field(default="", compare=False)
    name: str = field(default="", compare=False)

    @property
    def notion(self) -> RenyiPufferfish:
        """The notion of privacy that is guaranteed."""
        return RenyiPufferfish(self.epsilon, self.alpha)

    @property
    def holds(self) -> bool:
        """Whether the proven loss is within the budget."""
        return self.loss <= self.epsilon

    def promise(self) -> str:
        """Return the guarantee in one sentence."""
        claim = self.notion.promise().replace("secrets", "values of a secret record")
        return f"Whoever sees the released weights, and knows the prior, can {claim}."

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain Python values, for JSON."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if math.isinf(self.sensitivity):
            values["sensitivity"] = "infinity"
        values["comparisons"], values["sigmas"] = dict(self.comparisons), dict(self.sigmas)
        values["assumptions"] = list(self.assumptions)
        return {"schema": SCHEMA, "promise": self.promise(), "holds": self.holds, **values}

    def _headline(self) -> str:
        of = f" of {shown(self.name)}" if self.name else ""
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return (
            f"Certificate{of}: {verdict} for records of the declared correlation "
            f"({self.correlation})"
        )

    def _first_screen(self) -> Page:
        budget, promise, _, noise, made = self._lines()
        risks = [
            *say.marked_risks(self.assumptions),
            "the correlation is the one that was declared; records that depend on each other more "
            "tell more.",
            "a second model of the same records tells more; release one, or share the budget.",
        ]
        more = f"More: certificate_.details() has losses and {len(self.assumptions)} assumptions."
        lines = [promise, noise, *(f"Risk: {risk}" for risk in risks[:2]), budget, made, more]
        return Page(self._headline(), lines, [])

    def _page(self) -> Page:
        cells = [["records", "loss", "sigma"]] + [
            [name, f"{self.comparisons[name]:.6g}", f"{self.sigmas[name]:.6g}"]
            for name in self.comparisons
        ]
        note = (
            "loss: a proven bound on the Renyi divergence at the noise above, in nats; sigma: the "
            "standard deviation of the noise that the budget needs; this: as declared; "
            "uncorrelated: records are independent; group privacy: all records change at once"
        )
        comparison = Section("Loss and noise by how records depend on each other", note, cells)
        assumed = Section("Assumptions", sentences=self.assumptions)
        return Page(self._headline(), self._lines(), [comparison, assumed])

    def _lines(self) -> list[str]:
        where = "the last step alone" if self.noise_at == "end" else "every step"
        if self.n_averaged > 1:
            where = f"the mean of the last {self.n_averaged} steps"
        rows = f"{self.n_records} records"
        return [
            f"Budget: {self.notion.budget_name()}; proven loss {self.loss:.6g}.",
            self.promise(),
            "The prior is what an adversary may know before the release: the distribution of all "
            "records, how probable their values are and how they depend on each other.",
            f"Gaussian noise of standard deviation {self.sigma:.6g} at {where}; "
            f"{self.n_steps} steps of {self.batch_size} records; learning rate "
            f"{self.learning_rate:.6g}.",
            say.made_line(self.version, self.date, rows, self.n_columns),
        ]
