"""Linear and logistic models whose released weights tell little about any record.

What a step does, and why it is a contraction, is in `_descent`; what is promised for the released
weights, and why, in `sgd_certificate`.
"""

from __future__ import annotations

import math
import sys
import warnings
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_puffer import sentences as say
from sklearn_puffer._descent import OUTWARDS, Descent, Logistic, Squares, random_order, scale_rows
from sklearn_puffer._validation import check_choice, check_count, check_positive, plain
from sklearn_puffer.noise import Gaussian
from sklearn_puffer.notions import RenyiPufferfish
from sklearn_puffer.sampling import (
    Entropy,
    release,
    sampler,
    seeded_entropy,
    system_entropy,
    to_steps,
)
from sklearn_puffer.settings import check_seed
from sklearn_puffer.sgd_certificate import Dependence, Iteration, calibrate_descent

FloatArray = NDArray[np.float64]

_LEAST, _MOST = 1e-50, 1e50  # of declared bounds: their squares and products stay finite
_LEAST_EPSILON = 1e-8
_LEAST_ORDER = 1.01
_GLANCE = 1000  # records looked at for bounds that do not fit
_FLOATS = (np.float64, np.float32)


# ----------------------------------------------------------------------------------- the estimators


class _PufferfishSGD(BaseEstimator):
    """What both estimators share; a subclass knows its loss and its targets."""

    def fit(self, X: Any, y: Any) -> Self:
        """Calibrate the noise, and descend once over the records.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_records, n_features)
        y : array-like of shape (n_records,)
            There are no sample weights: a weight would multiply what a record can do to the
            weights, so that all noise would be that of the largest one.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            Naming the argument, its value and the way out; the estimator is left as it was.
        """
        before = dict(self.__dict__)
        try:
            self._fit(X, y)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(self, X: Any, y: Any) -> None:
        notion = self._notion()
        seed = check_seed(self.random_state)
        rows, targets = self._read(X, y)
        n_records, n_features = rows.shape
        descent = self._descent(n_records)
        dependence = self._dependence(descent, n_records)
        at_every_step = self._at_every_step(dependence)
        iteration = descent.iteration(n_records, n_features, at_every_step=at_every_step)
        certificate = calibrate_descent(iteration, dependence, notion, self._sentences(dependence))
        self._warn_of_bounds(rows, targets, descent)
        if seed is not None:
            warnings.warn(say.seed_sentence(seed), UserWarning, stacklevel=3)
        weights = self._released(
            rows, targets, descent, dependence.shuffled, iteration, certificate.sigma, seed
        )
        self.certificate_ = certificate
        self.n_iter_ = 1
        self.n_steps_ = iteration.n_steps
        self._store(weights)

    def _margins(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=_FLOATS)
        margins: FloatArray = rows @ np.ravel(self.coef_) + self.intercept_[0]
        return margins

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        if tags.regressor_tags is not None:
            tags.regressor_tags.poor_score = True
        if tags.classifier_tags is not None:
            tags.classifier_tags.poor_score = True
        return tags

    # ------------------------------------------------------------------------------ the parameters

    def _notion(self) -> RenyiPufferfish:
        way_out = "choose a budget in nats, such as 1.0"
        if check_positive(self.epsilon, "epsilon", way_out) < _LEAST_EPSILON:
            raise ValueError(
                f"epsilon must be at least {_LEAST_EPSILON:g}, got {self.epsilon!r}; {way_out}."
            )
        alpha = check_positive(self.alpha, "alpha", "choose a Renyi order above 1, such as 2.0")
        if alpha < _LEAST_ORDER:  # divergences never fall with their order
            warnings.warn(
                f"alpha={self.alpha!r} is a Renyi order and no penalty (which is l2); orders up to "
                f"{_LEAST_ORDER:g} are kept by keeping order {_LEAST_ORDER:g}.",
                UserWarning,
                stacklevel=4,
            )
        return RenyiPufferfish(self.epsilon, max(alpha, _LEAST_ORDER))

    def _descent(self, n_records: int) -> Descent:
        """Return the descent that the parameters describe."""
        batch_size = self._batch_size(n_records)
        common = {
            "loss": self._loss(),
            "data_norm": _bound(self.data_norm, "data_norm"),
            "fit_intercept": _flag(self.fit_intercept, "fit_intercept"),
            "radius": _bound(self.radius, "radius"),
            "l2": _penalty(self.l2),
            "batch_size": batch_size,
        }
        largest = Descent(**common, step=0.0).largest_step
        if self.learning_rate is None:
            return Descent(**common, step=largest / 2.0)
        step = check_positive(self.learning_rate, "learning_rate")
        if step > largest:
            raise ValueError(
                f"learning_rate must be at most {largest:.6g} for a step to be a contraction, got "
                f"{self.learning_rate!r}; take learning_rate=None, or a smaller data_norm or l2."
            )
        return Descent(**common, step=step)

    def _batch_size(self, n_records: int) -> int:
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
        correlation = _correlation(self.correlation, n_records)
        shuffled = _flag(self.shuffle, "shuffle")
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
            records=_records(self.secrets, n_records),
            shuffled=shuffled,
        )

    def _at_every_step(self, dependence: Dependence) -> bool:
        choice = check_choice(self.noise_at, "noise_at", ["auto", "end", "steps"])
        if choice == "auto":
            return bool(np.any(_off_diagonal(dependence.correlation)))
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
            + _which(dependence.records),
            self._sentence_on_dependence(dependence),
            order,
            "The number of records, all parameters of the estimator (bounds, learning rate, batch "
            "size) and the names of the columns are public: none may be chosen by looking at these "
            "records.",
            *self._further_sentences(),
            "What is released is coef_ and intercept_ of one fit, and nothing between the steps; "
            "what several fits on the same records tell together is not covered.",
        ]

    def _sentence_on_dependence(self, dependence: Dependence) -> str:
        if not np.any(_off_diagonal(dependence.correlation)):
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
                    UserWarning,
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
        """Return the last weights, with noise on a grid, projected onto the ball."""
        grid = iteration.grid(sigma)
        noise = sampler(Gaussian(sigma), grid, _entropy(seed, 0), nearest=True)
        order = random_order(X.shape[0], _entropy(seed, 1)) if shuffled else None
        report = _Progress(iteration.n_steps, self.verbose)
        between = noise if iteration.at_every_step else None
        before = descent.run(X, targets, order, between, report)
        weights = np.empty(before.size)
        release(to_steps(before, grid), noise, weights)
        descent.project(weights)
        return weights


class _Progress:
    """Prints a line at each tenth of the steps: their number only, which is public."""

    def __init__(self, n_steps: int, verbose: Any) -> None:
        self.n_steps = n_steps
        self.next = 1 if verbose else 11

    def __call__(self, done: int) -> None:
        tenths = 10 * done // self.n_steps
        if tenths >= self.next:
            sys.stdout.write(f"step {done} of {self.n_steps}\n")
            self.next = tenths + 1


def _entropy(seed: int | None, stream: int) -> Entropy:
    return system_entropy() if seed is None else seeded_entropy(seed, stream)


def _bound(value: Any, name: str) -> float:
    bound = check_positive(value, name, "it must be declared without looking at the records")
    if not _LEAST <= bound <= _MOST:
        raise ValueError(
            f"{name} must lie between {_LEAST:g} and {_MOST:g}, got {value!r}; rescale the data."
        )
    return bound


def _penalty(value: Any) -> float:
    if isinstance(value, Real) and not isinstance(value, bool) and value == 0:
        return 0.0
    return _bound(value, "l2")


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def _correlation(value: Any, n_records: int) -> Any:
    """Return the correlation as a float or as an array of floats."""
    if isinstance(value, Real) and not isinstance(value, bool):
        least = -1.0 / max(n_records - 1, 1)
        if not least - 1e-9 <= float(value) <= 1.0:
            raise ValueError(
                f"correlation must lie between {least:.6g} and 1 for {n_records} records that are "
                f"all alike, got {value!r}."
            )
        return float(value)
    try:
        if isinstance(value, bool):
            raise TypeError
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            "correlation must be a number, an array by distance in the order, or a matrix of "
            f"shape {(n_records, n_records)}, got {value!r}."
        ) from None


def _off_diagonal(correlation: Any) -> Any:
    if np.ndim(correlation) == 2:
        return correlation - np.diag(np.diag(correlation))
    return correlation[1:] if np.ndim(correlation) == 1 else correlation


def _records(secrets: Any, n_records: int) -> tuple[int, ...] | None:
    """Return the positions of the secret records, or None for all."""
    if isinstance(secrets, str):
        check_choice(secrets, "secrets", ["all"])
        return None
    positions = np.asarray(secrets)
    if positions.ndim != 1 or positions.size == 0 or positions.dtype.kind not in "iu":
        raise TypeError(
            f'secrets must be "all" or a list of positions of records, got {secrets!r}.'
        )
    if positions.min() < 0 or positions.max() >= n_records:
        raise ValueError(
            f"secrets must hold positions from 0 to {n_records - 1}, got "
            f"{plain(positions.min())} to {plain(positions.max())}."
        )
    return tuple(np.unique(positions).tolist())


def _which(records: tuple[int, ...] | None) -> str:
    if records is None:
        return "any two values of any record are protected against each other."
    return f"any two values of each of {len(records)} chosen records are protected."


class PufferfishSGDRegressor(RegressorMixin, _PufferfishSGD):
    r"""Linear regression whose weights tell little about any record.

    One pass of projected gradient descent, with Gaussian noise such that the released weights W
    satisfy, for any two values a and b of a secret record X_i,

    .. math:: D_\alpha(P_{W \mid X_i = a} \,\|\, P_{W \mid X_i = b}) \le \varepsilon

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget in nats.
    alpha : float, default=2.0
        Renyi order (and no penalty, which is ``l2``). Orders below 1.01 are kept by keeping order
        1.01, which is more, with a warning.
    correlation : float or array-like, default=0.0
        How far the other records move with a secret one: a number rho for all pairs, an array by
        the distance of their positions (1 first, 0 beyond its end), or a matrix of shape
        (n_records, n_records). 0 is differential privacy of each record, 1 is group privacy.
    secrets : "all" or list of int, default="all"
        The positions of the records that are secret.
    data_norm : float, default=1.0
        Longer rows of X are scaled to this Euclidean norm. To be declared, not learnt.
    target_bound : float, default=1.0
        Targets are clipped to [-target_bound, target_bound]. To be declared, not learnt.
    clip : float or None, default=None
        Residuals count as at most this (Huber's loss); None for target_bound.
    l2 : float, default=0.0
        Factor lambda of the penalty :math:`\lambda \|w\|^2/2` (intercept included), which makes
        each step forget some of what came before.
    learning_rate : float or None, default=None
        eta; None for half the largest at which a step is a contraction.
    radius : float, default=10.0
        Weights and intercept together stay within this Euclidean norm.
    batch_size : int or None, default=None
        Records a step; None for the square root of their number, rounded up. Larger batches need
        less noise and make fewer steps.
    noise_at : {"auto", "end", "steps"}, default="auto"
        Where noise is added: once, after the last step, or after each. "auto" is the end for
        independent records: for the same proven loss, steps add up to more. It is each step for
        correlated ones: each then hides what moved at it, and later steps wear the noise down
        where the loss is curved.
    shuffle : bool, default=False
        Whether records are used in an order that nobody knows, which hides how much noise followed
        (noise_at="steps") or how much was forgotten (l2 > 0) after the secret record's step.
    fit_intercept : bool, default=True
    verbose : int, default=0
        Whether to print the number of steps done, ten times.
    random_state : int or None, default=None
        None draws cryptographic bits. An integer is for tests, and warns.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : ndarray of shape (1,)
    certificate_ : SGDCertificate
        What is promised, and why.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names.
    n_iter_ : int
        Passes over the records: 1.
    n_steps_ : int

    Notes
    -----
    *Formal guarantees.* Those of `SGDCertificate`, whose loss includes all rounding: the weights
    are released on a grid, projected onto the ball. X and y are both part of a record; the scores
    of `score` are not protected.

    References
    ----------
    004, sections 5 and 6.4, with the shifts in one joint coupling.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (2000, 2))
    >>> model = PufferfishSGDRegressor(epsilon=1.0).fit(X, X @ [1.0, -1.0])
    >>> model.coef_.shape, model.certificate_.holds
    ((2,), True)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        alpha: float = 2.0,
        correlation: Any = 0.0,
        secrets: Any = "all",
        data_norm: float = 1.0,
        target_bound: float = 1.0,
        clip: float | None = None,
        l2: float = 0.0,
        learning_rate: float | None = None,
        radius: float = 10.0,
        batch_size: int | None = None,
        noise_at: str = "auto",
        shuffle: bool = False,
        fit_intercept: bool = True,
        verbose: int = 0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.alpha = alpha
        self.correlation = correlation
        self.secrets = secrets
        self.data_norm = data_norm
        self.target_bound = target_bound
        self.clip = clip
        self.l2 = l2
        self.learning_rate = learning_rate
        self.radius = radius
        self.batch_size = batch_size
        self.noise_at = noise_at
        self.shuffle = shuffle
        self.fit_intercept = fit_intercept
        self.verbose = verbose
        self.random_state = random_state

    def predict(self, X: Any) -> FloatArray:
        """Return the predicted targets, of shape (n,).

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, n_features)
        """
        return self._margins(X)

    def _loss(self) -> Squares:
        bound = _bound(self.target_bound, "target_bound")
        return Squares(bound if self.clip is None else _bound(self.clip, "clip"), bound)

    def _read(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        rows, targets = validate_data(self, X, y, dtype=_FLOATS, y_numeric=True)
        if targets.dtype.kind not in "fiub":
            raise ValueError(f"y must hold numbers, got values of type {targets.dtype}; encode it.")
        return rows, targets

    def _reaction(self, descent: Descent) -> tuple[float, float]:
        distance = 2.0 * math.hypot(descent.data_norm, descent.loss.target_bound) * OUTWARDS
        return descent.sensitivity(with_target=True), distance

    def _other_targets(self) -> str:
        return (
            ", features and target together, before scaling and clipping. Jointly Gaussian records "
            "whose covariances are rho_ij times a common matrix have one"
        )

    def _further_sentences(self) -> list[str]:
        return []

    def _store(self, weights: FloatArray) -> None:
        self.coef_ = weights[: self.n_features_in_]
        self.intercept_ = weights[self.n_features_in_ :] if self.fit_intercept else np.zeros(1)


class PufferfishSGDClassifier(ClassifierMixin, _PufferfishSGD):
    r"""Logistic regression with two classes, whose weights tell little about any record.

    One pass of projected gradient descent, with Gaussian noise such that the released weights W
    satisfy, for any two values a and b of a secret record X_i,

    .. math:: D_\alpha(P_{W \mid X_i = a} \,\|\, P_{W \mid X_i = b}) \le \varepsilon

    Parameters
    ----------
    epsilon, alpha, correlation, secrets, data_norm, l2, learning_rate, radius, batch_size
        As for `PufferfishSGDRegressor`.
    correlated_labels : bool, default=True
        Whether the labels of other records may depend on a secret one. True: every record with a
        correlation other than 0 is taken to change completely. False: the labels of the others do
        not depend on the secret, and their features move as the correlation says.
    clip : float or None, default=None
        The slope of the loss, a probability minus 0 or 1, counts as at most this; None for 1, where
        nothing is clipped.
    noise_at, shuffle, fit_intercept, verbose, random_state
        As for `PufferfishSGDRegressor`.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
    classes_ : ndarray of shape (2,)
        The labels in order, which are taken to be public.
    certificate_ : SGDCertificate
        What is promised, and why.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names.
    n_iter_ : int
        Passes over the records: 1.
    n_steps_ : int

    Notes
    -----
    *Formal guarantees.* As `PufferfishSGDRegressor`. More than two classes are refused: each
    further class is a release of its own, and with `sklearn.multiclass.OneVsRestClassifier` each
    of k classifiers has its own certificate, none of which is about all of them together (for
    independent records, k times epsilon).

    References
    ----------
    004, sections 5 and 6.4, with the shifts in one joint coupling.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (2000, 2))
    >>> model = PufferfishSGDClassifier(epsilon=1.0).fit(X, X[:, 0] > 0.0)
    >>> model.coef_.shape, model.certificate_.holds
    ((1, 2), True)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        alpha: float = 2.0,
        correlation: Any = 0.0,
        correlated_labels: bool = True,
        secrets: Any = "all",
        data_norm: float = 1.0,
        clip: float | None = None,
        l2: float = 0.0,
        learning_rate: float | None = None,
        radius: float = 10.0,
        batch_size: int | None = None,
        noise_at: str = "auto",
        shuffle: bool = False,
        fit_intercept: bool = True,
        verbose: int = 0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.alpha = alpha
        self.correlation = correlation
        self.correlated_labels = correlated_labels
        self.secrets = secrets
        self.data_norm = data_norm
        self.clip = clip
        self.l2 = l2
        self.learning_rate = learning_rate
        self.radius = radius
        self.batch_size = batch_size
        self.noise_at = noise_at
        self.shuffle = shuffle
        self.fit_intercept = fit_intercept
        self.verbose = verbose
        self.random_state = random_state

    def decision_function(self, X: Any) -> FloatArray:
        """Return the log-odds of the second class, of shape (n,).

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, n_features)
        """
        return self._margins(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of both classes, of shape (n, 2).

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, n_features)
        """
        margins = self._margins(X)
        return np.column_stack((expit(-margins), expit(margins)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the more probable class of each row, of shape (n,).

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, n_features)
        """
        positive = self._margins(X) > 0.0
        return np.asarray(self.classes_[positive.astype(np.intp)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _loss(self) -> Logistic:
        return Logistic(1.0 if self.clip is None else min(_bound(self.clip, "clip"), 1.0))

    def _read(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        rows, labels = validate_data(self, X, y, dtype=_FLOATS)
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
        if classes.size < 2:
            raise ValueError(
                f"y has one class only, {plain(classes[0])!r}; two classes are needed to tell them "
                "apart."
            )
        if classes.size > 2:
            kind = type_of_target(labels, input_name="y")
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{kind}, with {classes.size} classes; wrap the estimator in OneVsRestClassifier, "
                "where each class is a release of its own, with a budget of its own."
            )
        self.classes_ = classes
        return rows, codes

    def _reaction(self, descent: Descent) -> tuple[float, float]:
        distance = 2.0 * descent.data_norm * OUTWARDS
        if _flag(self.correlated_labels, "correlated_labels"):
            return math.inf, distance
        # of the secret record the label may change as well, and with it all of the gradient
        whole = 2.0 * descent.gradient_bound / distance * OUTWARDS
        return max(descent.sensitivity(with_target=False), whole), distance

    def _other_targets(self) -> str:
        return (
            " in its features, before scaling, and its label stays. Labels that do not depend on "
            "the secret, and features that are jointly Gaussian around a mean of their class, with "
            "covariances of rho_ij times a common matrix, have one where the distance includes "
            "that of the means"
        )

    def _further_sentences(self) -> list[str]:
        return ["The names of the two classes are public, and so is that both occur."]

    def _store(self, weights: FloatArray) -> None:
        self.coef_ = weights[np.newaxis, : self.n_features_in_]
        self.intercept_ = weights[self.n_features_in_ :] if self.fit_intercept else np.zeros(1)
