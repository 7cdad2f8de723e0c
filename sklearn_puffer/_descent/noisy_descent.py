"""One noisy descent as an estimator: what linear and logistic models share.

What a step does, and why it is a contraction, is in `_descent.descent`; what is promised for the
released weights, and why, in `_descent.promise`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from sklearn_puffer._base import (
    FloatArray,
    PufferfishWarning,
    check_choice,
    check_count,
    check_positive,
    check_seed,
    check_verbose,
    digest,
    listed,
    listening,
    quoted,
    task,
)
from sklearn_puffer._descent.arguments import (
    check_bound,
    check_bound_or,
    check_correlation,
    check_flag,
    check_penalty,
    check_records,
    off_diagonal,
    which_secrets,
)
from sklearn_puffer._descent.descent import Descent, Logistic, Squares, random_order, scale_rows
from sklearn_puffer._descent.promise import Dependence, Iteration, calibrate_descent
from sklearn_puffer._noise import (
    Entropy,
    release,
    sampler,
    seeded_entropy,
    system_entropy,
    to_steps,
)
from sklearn_puffer._releases import CertifiedEstimator
from sklearn_puffer._releases import sentences as say
from sklearn_puffer._tables import known, known_column
from sklearn_puffer.noise import Gaussian
from sklearn_puffer.notions import MOST_ALPHA, RenyiPufferfish

_LEAST_EPSILON = 1e-8
_LEAST_ORDER = 1.01
_SMALLEST_BATCH = 4  # of those chosen here: one that is smaller takes longer for little
_GLANCE = 1000  # records looked at for bounds that do not fit
_FLOATS = (np.float64, np.float32)


class NoisyDescent(CertifiedEstimator):
    """What both estimators share; a subclass knows its loss and its targets."""

    def fit(self, X: Any, y: Any) -> Self:
        """Calibrate the noise, and descend once over the records.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_records, n_features)
            A record a row, in the order in which they are used, unless they are shuffled.
        y : array-like of shape (n_records,)
            The targets, or labels of two classes. There are no sample weights: a weight would
            multiply what a record can do to the weights, so that all noise would be that of the
            largest one.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError, ValueError
            Naming the argument, its value and the way out; the estimator is left as it was.
        """
        before = dict(self.__dict__)
        try:
            with listening(check_verbose(self.verbose), "fit"):
                self._fit(X, y)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(self, X: Any, y: Any) -> None:
        notion = self._notion()
        seed = check_seed(self.random_state)
        rows, targets = self._read(known(X), known_column(y, "y"))
        n_records, n_features = rows.shape
        descent = self._descent(n_records, n_features)
        dependence = self._dependence(descent, n_records)
        at_every_step = self._at_every_step(dependence)
        iteration = descent.iteration(n_records, n_features, at_every_step=at_every_step)
        certificate = calibrate_descent(
            iteration, dependence, notion, self._sentences(dependence), n_features + 1
        )
        self._warn_of_bounds(rows, targets, descent)
        if seed is not None:
            warnings.warn(say.seed_sentence(seed), PufferfishWarning, stacklevel=3)
        weights = self._released(
            rows, targets, descent, dependence.shuffled, iteration, certificate.sigma, seed
        )
        self.n_iter_ = 1
        self.n_steps_ = iteration.n_steps
        if descent.fit_intercept:
            weights[-1] *= descent.intercept_scaling
        self._store(weights, descent.loss)
        self.certificate_ = replace(certificate, fingerprint=self._fingerprint(certificate))
        self._note_parameters()

    def _fingerprint(self, certificate: Any) -> str:
        told = [each.name for each in fields(certificate) if each.compare]
        numbers = [getattr(certificate, name) for name in told]
        return digest("sklearn_puffer.sgd/1", self.coef_, self.intercept_, numbers)

    def _margins(self, X: Any) -> FloatArray:
        self._check_as_certified()
        rows = self._validated(known(X), reset=False)
        margins: FloatArray = rows @ np.ravel(self.coef_) + self.intercept_[0]
        return margins

    def _validated(self, *arrays: Any, **options: Any) -> Any:
        """Return arrays as scikit-learn reads them, which drops imaginary parts of columns."""
        dtypes: Any = getattr(arrays[0], "dtypes", None)
        kinds = dtypes.items() if hasattr(dtypes, "items") else ()
        strange = [name for name, dtype in kinds if getattr(dtype, "kind", "") == "c"]
        if strange:
            raise TypeError(f"column(s) {listed(strange)} of X hold complex numbers; split them.")
        try:
            return validate_data(self, *arrays, dtype=_FLOATS, **options)
        except OverflowError:
            raise ValueError(
                "X or y holds a whole number beyond all floats; choose another unit for it."
            ) from None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    # ------------------------------------------------------------------------------ the parameters

    def _notion(self) -> RenyiPufferfish:
        way_out = "choose a budget in nats, such as 1.0"
        if check_positive(self.epsilon, "epsilon", way_out) < _LEAST_EPSILON:
            raise ValueError(
                f"epsilon must be at least {_LEAST_EPSILON:g}, got {self.epsilon!r}; {way_out}."
            )
        alpha = check_positive(self.alpha, "alpha", "choose a Renyi order above 1, such as 2.0")
        if alpha > MOST_ALPHA:
            raise ValueError(f"alpha must be at most {MOST_ALPHA:g}, got {quoted(self.alpha)}.")
        if alpha < _LEAST_ORDER:  # divergences never fall with their order
            warnings.warn(
                f"alpha={self.alpha!r} is a Renyi order and no penalty (which is l2); orders up to "
                f"{_LEAST_ORDER:g} are kept by keeping order {_LEAST_ORDER:g}.",
                PufferfishWarning,
                stacklevel=4,
            )
        return RenyiPufferfish(self.epsilon, max(alpha, _LEAST_ORDER))

    def _descent(self, n_records: int, n_features: int) -> Descent:
        """Return the descent that the parameters describe."""
        loss = self._loss()
        data_norm = check_bound(self.data_norm, "data_norm")
        rough = Descent(
            loss=loss,
            data_norm=data_norm,
            fit_intercept=check_flag(self.fit_intercept, "fit_intercept"),
            radius=check_bound_or(
                self.radius, "radius", self._usual_margin(loss, n_records) / data_norm
            ),
            l2=check_penalty(self.l2),
            batch_size=self._batch_size(n_records),
            step=0.0,
            intercept_scaling=check_bound_or(
                self.intercept_scaling, "intercept_scaling", data_norm / 2.0
            ),
        )
        paced = self._paced(self._with_step(rough), n_records, n_features)
        return self._averaged(paced, n_records)

    def _usual_margin(self, loss: Squares | Logistic, n_records: int) -> float:
        """Return the margin that the default radius allows, half of it for correlated records.

        How much a gradient reacts to a correlated record grows with the radius.
        """
        correlated = np.any(off_diagonal(check_correlation(self.correlation, n_records)))
        return loss.largest_margin / 2.0 if correlated else loss.largest_margin

    def _with_step(self, descent: Descent) -> Descent:
        """Return the descent with the learning rate that is given, or half the largest."""
        largest = descent.largest_step
        if self.learning_rate is None:
            return replace(descent, step=largest / 2.0)
        step = check_positive(self.learning_rate, "learning_rate")
        if step > largest:
            raise ValueError(
                f"learning_rate must be at most {largest:.6g} for a step to be a contraction, got "
                f"{self.learning_rate!r}; take learning_rate=None, or a smaller data_norm or l2."
            )
        return replace(descent, step=step)

    def _paced(self, descent: Descent, n_records: int, n_features: int) -> Descent:
        """Return the descent with a learning rate and batches that go far enough, if left open."""
        if self.learning_rate is not None and self.batch_size is not None:
            return descent
        dependence = self._dependence(descent, n_records)
        far = self._averaged(descent, n_records).best_time(
            n_records,
            n_features,
            dependence,
            RenyiPufferfish(self.epsilon, max(self.alpha, _LEAST_ORDER)),
            at_every_step=self._at_every_step(dependence),
        )
        batch_size = descent.batch_size
        if self.batch_size is None:
            wanted = math.ceil(min(descent.step * n_records / far, n_records))
            batch_size = min(max(wanted, _SMALLEST_BATCH), n_records)
        step = descent.step
        if self.learning_rate is None:
            step = min(step, far * batch_size / n_records)
        return replace(descent, step=step, batch_size=batch_size)

    def _averaged(self, descent: Descent, n_records: int) -> Descent:
        """Return the descent with the mean of its last steps, where that is asked for."""
        correlation = check_correlation(self.correlation, n_records)
        at_every_step = self._where_noise_is(correlation)
        if isinstance(self.average, str):
            check_choice(self.average, "average", ["auto"])
            wanted = not at_every_step and np.ndim(correlation) == 0
        else:
            wanted = check_flag(self.average, "average")
        if wanted and at_every_step:
            raise ValueError(
                f"average=True needs noise_at='end', got {self.noise_at!r}: noise at each step "
                "hides only the last weights; take average='auto'."
            )
        n_steps = -(-n_records // descent.batch_size)
        return replace(descent, n_averaged=max(n_steps // 8, 1) if wanted else 1)

    def _batch_size(self, n_records: int) -> int:
        """Return the number of records a step, or one to begin with."""
        if self.batch_size is None:
            return math.isqrt(n_records - 1) + 1
        batch_size = check_count(self.batch_size, "batch_size")
        if batch_size > n_records:
            raise ValueError(
                f"batch_size must be at most the number of records, {n_records}, got "
                f"{self.batch_size!r}; take fewer, or batch_size=None."
            )
        return batch_size

    def _dependence(self, descent: Descent, n_records: int) -> Dependence:
        """Return the declared dependence of the records."""
        correlation = check_correlation(self.correlation, n_records)
        shuffled = check_flag(self.shuffle, "shuffle")
        if shuffled and np.ndim(correlation):
            raise ValueError(
                "shuffle=True needs records that are all alike, so one number as correlation, got "
                f"an array of shape {np.shape(correlation)}; take shuffle=False."
            )
        sensitivity, distance = self._reaction(descent)
        return Dependence(
            correlation=correlation,
            sensitivity=sensitivity,
            distance=distance,
            records=check_records(self.secrets, n_records),
            shuffled=shuffled,
        )

    def _at_every_step(self, dependence: Dependence) -> bool:
        return self._where_noise_is(dependence.correlation)

    def _where_noise_is(self, correlation: Any) -> bool:
        """Return whether noise is added at every step."""
        choice = check_choice(self.noise_at, "noise_at", ["auto", "end", "steps"])
        if choice == "auto":
            return bool(np.any(off_diagonal(correlation)))
        return bool(choice == "steps")

    def _sentences(self, dependence: Dependence) -> list[str]:
        """Return the assumptions of the promise."""
        order = (
            "The order in which records are used is a uniform permutation that nobody knows."
            if dependence.shuffled
            else "Records are used in the order given, which may be known."
        )
        return [
            "A secret is the value of one whole record, its features and its target together; "
            + which_secrets(dependence.records),
            self._sentence_on_dependence(dependence),
            order,
            "The number of records, all parameters of the estimator (bounds, learning rate, batch "
            "size, scaling of the intercept) and the names of the columns are public: none may be "
            "chosen by looking at these records.",
            *self._further_sentences(),
            "What is released is coef_ and intercept_ of one fit, and nothing between the steps; "
            "what several fits on the same records tell together is not covered.",
            "Refusals and warnings that depend on the records are not covered: fit refuses values "
            "that are not finite numbers, and warns where most of the first records lie beyond the "
            "declared bounds. A refusal tells that there are such values, a model that there are "
            "none.",
        ]

    def _sentence_on_dependence(self, dependence: Dependence) -> str:
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
            f"most |rho_ij| times {dependence.distance:.6g}{self._other_targets()}."
        )

    def _warn_of_bounds(self, X: NDArray[Any], targets: NDArray[Any], descent: Descent) -> None:
        """Warn of bounds that most of the first records exceed: the model may then be useless."""
        first = np.array(X[:_GLANCE], dtype=np.float64)
        scaled = first.copy()
        scale_rows(scaled, descent.data_norm)
        bound = descent.loss.target_bound
        exceeded = [
            (np.any(first != scaled, axis=1).mean(), "data_norm", "rows of X are longer than"),
            ((np.abs(targets[:_GLANCE]) > bound).mean(), "target_bound", "targets lie beyond"),
        ]
        for share, name, what in exceeded:
            if share > 0.5:
                warnings.warn(
                    f"most {what} {name}={getattr(self, name)!r}, and are brought back to it; "
                    "rescale them, or declare a larger bound from what is known without these "
                    "records.",
                    PufferfishWarning,
                    stacklevel=4,
                )

    # ------------------------------------------------------------------------------------- release

    def _released(
        self,
        X: NDArray[Any],
        targets: NDArray[Any],
        descent: Descent,
        shuffled: bool,
        iteration: Iteration,
        sigma: float,
        seed: int | None,
    ) -> FloatArray:
        """Return the last weights, or their mean, with noise on a grid, within the ball."""
        grid = iteration.grid(sigma)
        noise = sampler(Gaussian(sigma), grid, _entropy(seed, 0), nearest=True)
        order = random_order(X.shape[0], _entropy(seed, 1)) if shuffled else None
        between = noise if iteration.at_every_step else None
        with task("steps", iteration.n_steps) as done:
            before = descent.run(X, targets, order, between, done)
        weights = np.empty(before.size)
        release(to_steps(before, grid), noise, weights)
        descent.project(weights)
        return weights


def _entropy(seed: int | None, stream: int) -> Entropy:
    return system_entropy() if seed is None else seeded_entropy(seed, stream)
