"""Linear and logistic models with a bound on what their released weights tell of any record.

Both are one noisy descent. `_descent.descent` has its steps, with the proof that they are
contractions; `_descent.guarantee` has the guarantee for the released weights, with its proof.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import validate_data

from sklearn_puffer._base import (
    FloatArray,
    PufferfishWarning,
    check_choice,
    check_count,
    check_positive,
    check_same_index,
    check_seed,
    fitting,
    task,
)
from sklearn_puffer._certificates import CertifiedEstimator
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._descent.descent import (
    OUTWARDS,
    Descent,
    Logistic,
    Squares,
    check_bound,
    check_correlation,
    check_flag,
    check_penalty,
    scale_rows,
)
from sklearn_puffer._descent.guarantee import (
    Dependence,
    assumptions,
    calibrate_descent,
    off_diagonal,
)
from sklearn_puffer._documents import digest
from sklearn_puffer._noise import (
    Entropy,
    release,
    sampler,
    seeded_entropy,
    system_entropy,
    to_indices,
)
from sklearn_puffer._tables import readable, readable_column
from sklearn_puffer._words import listed, quoted
from sklearn_puffer.noise import Gaussian
from sklearn_puffer.notions import MOST_ALPHA, RenyiPufferfish

# ----------------------------------------------------------------------- what both estimators share


_LEAST_EPSILON = 1e-8
_LEAST_ORDER = 1.01
_SMALLEST_BATCH = 4  # unless the caller gives one: a smaller batch takes longer for little
_CHECKED_RECORDS = 1000  # records that are compared with the declared bounds
_FLOATS = (np.float64, np.float32)


@dataclass(eq=False, repr=False)
class NoisyDescent(CertifiedEstimator):
    """What both estimators share; a subclass has its loss and its targets."""

    epsilon: float = 1.0
    _: KW_ONLY
    alpha: float = 2.0
    correlation: Any = 0.0
    data_norm: float = 1.0
    clip: float | None = None
    l2: float = 0.0
    learning_rate: float | None = None
    radius: float | None = None
    batch_size: int | None = None
    average: str | bool = "auto"
    noise_at: str = "auto"
    fit_intercept: bool = True
    intercept_scaling: float | None = None
    verbose: int = 0
    random_state: int | None = None

    _coef_shape: ClassVar[tuple[int, ...]]
    _other_targets: ClassVar[str]  # ends the sentence on how other records move
    _further_sentences: ClassVar[Sequence[str]] = ()

    def fit(self, X: Any, y: Any) -> Self:
        """Calibrate the noise, and descend once over the records.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_records, n_features)
            One record in each row, in the order of their use.
        y : array-like of shape (n_records,)
            The targets, or labels of two classes. There are no sample weights: the noise would have
            to hide the record with the largest one.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError, ValueError
            Naming the argument, its value and the way out; the estimator is left as it was.
        """
        with fitting(self):
            self._fit(X, y)
        return self

    def _fit(self, X: Any, y: Any) -> None:
        notion = self._notion()
        seed = check_seed(self.random_state)
        check_same_index(y, "y", X)
        rows, targets = self._read(readable(X), readable_column(y, "y"))
        n_records, n_features = rows.shape
        descent = self._descent(n_records, n_features)
        dependence = self._dependence(descent, n_records)
        at_every_step = self._at_every_step(dependence.correlation)
        iteration = descent.iteration(n_records, n_features, at_every_step=at_every_step)
        sentences = assumptions(dependence, self._other_targets, self._further_sentences)
        if seed is not None:
            sentences.append(say.about_seed(seed, "noise", "remove it"))
        certificate = calibrate_descent(iteration, dependence, notion, sentences, n_features + 1)
        self._warn_of_bounds(rows, targets, descent)
        if seed is not None:
            warnings.warn(say.seed_sentence(seed), PufferfishWarning, stacklevel=3)
        noise = sampler(
            Gaussian(certificate.sigma),
            iteration.grid(certificate.sigma),
            _entropy(seed),
            nearest=True,
        )
        with task("steps", iteration.n_steps) as done:
            before = descent.run(rows, targets, noise if at_every_step else None, done)
        weights = np.empty(before.size)
        release(to_indices(before, noise.step), noise, weights)
        descent.project(weights)
        self.n_iter_ = 1
        self.n_steps_ = iteration.n_steps
        if descent.fit_intercept:
            weights[-1] *= descent.intercept_scaling
        self.coef_ = weights[:n_features].reshape(self._coef_shape)
        self.intercept_ = weights[n_features:] if descent.fit_intercept else np.zeros(1)
        self._fitted_clip = descent.loss.clip
        self.certificate_ = replace(certificate, fingerprint=self._fingerprint(certificate))
        self._note_parameters()

    def _fingerprint(self, certificate: Any) -> str:
        numbers = [getattr(certificate, x.name) for x in fields(certificate) if x.compare]
        return digest("sklearn_puffer.sgd/1", self.coef_, self.intercept_, numbers)

    def _margins(self, X: Any) -> FloatArray:
        self._check_as_certified()
        rows = self._validated(readable(X), reset=False)
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
                f"alpha={self.alpha!r} is a Renyi order and no penalty (which is l2); orders below "
                f"{_LEAST_ORDER:g} are raised to {_LEAST_ORDER:g}, which guarantees more.",
                PufferfishWarning,
                stacklevel=4,
            )
        return RenyiPufferfish(self.epsilon, max(alpha, _LEAST_ORDER))

    def _descent(self, n_records: int, n_features: int) -> Descent:
        """Return the descent that the parameters describe."""
        loss, data_norm = self._loss(), check_bound(self.data_norm, "data_norm")
        correlated = np.any(off_diagonal(check_correlation(self.correlation, n_records)))
        # the gradient of a correlated record moves the more, the larger the radius
        margin = loss.largest_margin / 2.0 if correlated else loss.largest_margin
        rough = Descent(
            loss=loss,
            data_norm=data_norm,
            fit_intercept=check_flag(self.fit_intercept, "fit_intercept"),
            radius=check_bound(self.radius, "radius", margin / data_norm),
            l2=check_penalty(self.l2),
            batch_size=self._batch_size(n_records),
            step=0.0,
            intercept_scaling=check_bound(
                self.intercept_scaling, "intercept_scaling", data_norm / 2.0
            ),
        )
        paced = self._with_pace(self._with_step(rough), n_records, n_features)
        return self._with_average(paced, n_records)

    def _with_step(self, descent: Descent) -> Descent:
        """Return the descent with the caller's learning rate, or half the largest."""
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

    def _with_pace(self, descent: Descent, n_records: int, n_features: int) -> Descent:
        """Return the descent with the learning rate and batch size that the caller left open."""
        if self.learning_rate is not None and self.batch_size is not None:
            return descent
        dependence = self._dependence(descent, n_records)
        far = self._with_average(descent, n_records).best_duration(
            n_records,
            n_features,
            dependence,
            RenyiPufferfish(self.epsilon, max(self.alpha, _LEAST_ORDER)),
            at_every_step=self._at_every_step(dependence.correlation),
        )
        batch_size = descent.batch_size
        if self.batch_size is None:
            wanted = math.ceil(min(descent.step * n_records / far, n_records))
            batch_size = min(max(wanted, _SMALLEST_BATCH), n_records)
        step = descent.step
        if self.learning_rate is None:
            step = min(step, far * batch_size / n_records)
        return replace(descent, step=step, batch_size=batch_size)

    def _with_average(self, descent: Descent, n_records: int) -> Descent:
        """Return the descent with the mean of its last steps if `average` says so."""
        correlation = check_correlation(self.correlation, n_records)
        at_every_step = self._at_every_step(correlation)
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
        """Return the batch size, or a first guess of it."""
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
        sensitivity, distance = self._sensitivity(descent)
        return Dependence(correlation, sensitivity, distance)

    def _at_every_step(self, correlation: Any) -> bool:
        """Return whether noise is added at every step."""
        choice = check_choice(self.noise_at, "noise_at", ["auto", "end", "steps"])
        if choice == "auto":
            return bool(np.any(off_diagonal(correlation)))
        return bool(choice == "steps")

    def _warn_of_bounds(self, X: NDArray[Any], targets: NDArray[Any], descent: Descent) -> None:
        """Warn of bounds that most of the first records exceed: the model may then be useless."""
        first = np.array(X[:_CHECKED_RECORDS], dtype=np.float64)
        scaled = first.copy()
        scale_rows(scaled, descent.data_norm)
        bound = descent.loss.target_bound
        exceeded = [
            (np.any(first != scaled, axis=1).mean(), "data_norm", "rows of X are longer than"),
            (
                (np.abs(targets[:_CHECKED_RECORDS]) > bound).mean(),
                "target_bound",
                "targets lie beyond",
            ),
        ]
        for share, name, what in exceeded:
            if share > 0.5:
                warnings.warn(
                    f"most {what} {name}={getattr(self, name)!r}, and are brought back to it; "
                    "rescale them, or declare a larger bound, but not one from these records.",
                    PufferfishWarning,
                    stacklevel=4,
                )


def _entropy(seed: int | None) -> Entropy:
    return system_entropy() if seed is None else seeded_entropy(seed, 0)


# ----------------------------------------------------------------------------------- the estimators


@dataclass(eq=False, repr=False)
class PufferfishSGDRegressor(RegressorMixin, NoisyDescent):
    r"""Linear regression whose weights tell little about any record.

    One pass of projected gradient descent, with Gaussian noise such that the released weights W
    satisfy, for any two values a and b of a secret record X_i,

    .. math:: D_\alpha(P_{W \mid X_i = a} \,\|\, P_{W \mid X_i = b}) \le \varepsilon

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget in nats.
    alpha : float, default=2.0
        Renyi order (and no penalty, which is ``l2``). Orders below 1.01 are raised to 1.01, which
        guarantees more, with a warning.
    correlation : float or array-like, default=0.0
        How far the other records move with a secret one: a number rho for all pairs, an array by
        the distance of their positions (1 first, 0 beyond its end), or a matrix of shape
        (n_records, n_records). 0 is differential privacy of each record, 1 is group privacy.
    data_norm : float, default=1.0
        Longer rows of X are scaled to this Euclidean norm. Declare it; do not learn it.
    clip : float or None, default=None
        Residuals count as at most this (Huber's loss); None for half of target_bound. The noise is
        proportional to it.
    l2 : float, default=0.0
        Factor lambda of the penalty :math:`\lambda \|w\|^2/2` (intercept included), by which each
        step partly forgets the steps before it.
    learning_rate : float or None, default=None
        eta. None minimizes the sum of two bounds for weights that predict about target_bound: on
        the loss that is not learnt yet, and on the cost of noise. It is at most half of the largest
        rate at which a step is a contraction.
    radius : float or None, default=None
        Weights and intercept (over ``intercept_scaling``) together stay within this Euclidean norm.
        None for 10 target_bound / data_norm, or half of that for correlated records: a gradient
        reacts more to them with a larger radius.
    batch_size : int or None, default=None
        Records in each step. None for the size that goes with the learning rate, at least 4. The
        noise depends only on the learning rate over the batch size: at the same rate, larger
        batches need less noise and go less far.
    average : "auto" or bool, default="auto"
        Whether to release the mean of the last eighth of the steps instead of the last weights. The
        mean depends less on which records came last, for no more noise, and needs noise at the end.
        "auto" takes the mean for independent records, and for records that are all correlated
        alike.
    noise_at : {"auto", "end", "steps"}, default="auto"
        Whether noise is added once, after the last step, or after every step. "auto" is the end for
        independent records: for the same proven loss, noise at every step adds up to more. It is
        every step for correlated records: the noise of a step then hides the displacement of that
        step, and later steps shrink it where the loss is curved.
    fit_intercept : bool, default=True
        Whether there is a constant feature.
    intercept_scaling : float or None, default=None
        The constant feature of the intercept. A smaller one needs less noise, and the intercept is
        learnt more slowly. None for data_norm / 2.
    verbose : int, default=0
        1 shows progress and the time left on standard error after two seconds.
    random_state : int or None, default=None
        None draws cryptographic bits. An integer is for tests, and warns.
    target_bound : float, default=1.0
        Targets are clipped to [-target_bound, target_bound]. Declare it; do not learn it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : ndarray of shape (1,)
    certificate_ : SGDCertificate
        The guarantee and its figures.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names.
    n_iter_ : int
        Passes over the records: 1.
    n_steps_ : int

    Notes
    -----
    *Formal guarantees.* As `SGDCertificate`, whose loss includes all rounding: the weights are
    released on a grid, projected onto the ball. A record is a row of X with its y. The scores of
    `score` are not protected.

    References
    ----------
    004, sections 5 and 6.4, with the shifts in one joint coupling.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_puffer import PufferfishSGDRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (2000, 2))
    >>> model = PufferfishSGDRegressor(epsilon=1.0).fit(X, X @ [1.0, -1.0])
    >>> model.coef_.shape, model.certificate_.holds
    ((2,), True)
    """

    target_bound: float = field(default=1.0, kw_only=True)

    _coef_shape = (-1,)
    _other_targets = (
        ", features and target together, before scaling and clipping. Jointly Gaussian records "
        "whose covariances are rho_ij times a common matrix have one"
    )

    def predict(self, X: Any) -> FloatArray:
        """Return the predicted targets.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, n_features)
            Rows with the columns of `fit`.

        Returns
        -------
        ndarray of shape (n,)
            Weights times features, plus the intercept.
        """
        return self._margins(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def _loss(self) -> Squares:
        bound = check_bound(self.target_bound, "target_bound")
        return Squares(check_bound(self.clip, "clip", bound / 2.0), bound)

    def _read(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        rows, targets = self._validated(X, y, y_numeric=True)
        if targets.dtype.kind not in "fiub":
            raise ValueError(f"y must hold numbers, got values of type {targets.dtype}; encode it.")
        return rows, targets

    def _sensitivity(self, descent: Descent) -> tuple[float, float]:
        distance = 2.0 * math.hypot(descent.data_norm, descent.loss.target_bound) * OUTWARDS
        return descent.sensitivity(with_target=True), distance


@dataclass(eq=False, repr=False)
class PufferfishSGDClassifier(ClassifierMixin, NoisyDescent):
    r"""Logistic regression with two classes, whose weights tell little about any record.

    One pass of projected gradient descent, with Gaussian noise such that the released weights W
    satisfy, for any two values a and b of a secret record X_i,

    .. math:: D_\alpha(P_{W \mid X_i = a} \,\|\, P_{W \mid X_i = b}) \le \varepsilon

    Parameters
    ----------
    epsilon, alpha : float, default=1.0 and 2.0
        Budget in nats, and Renyi order, as for `PufferfishSGDRegressor`.
    correlation : float or array-like, default=0.0
        As for `PufferfishSGDRegressor`.
    data_norm : float, default=1.0
        Longer rows of X are scaled to this Euclidean norm. Declare it; do not learn it.
    clip : float or None, default=None
        The slope of the loss, a probability minus 0 or 1, counts as at most this. None for 0.5: the
        loss is linear on the wrong side and logistic on the right one, and half the noise is
        enough. 1 clips nothing. `predict_proba` allows for the clip.
    l2 : float, default=0.0
        As for `PufferfishSGDRegressor`.
    learning_rate : float or None, default=None
        As for `PufferfishSGDRegressor`, with weights that give margins of about 15.
    radius : float or None, default=None
        As for `PufferfishSGDRegressor`; None for 20 / data_norm, or half of that.
    batch_size : int or None, default=None
        As for `PufferfishSGDRegressor`.
    average : "auto" or bool, default="auto"
        As for `PufferfishSGDRegressor`.
    noise_at : {"auto", "end", "steps"}, default="auto"
        As for `PufferfishSGDRegressor`.
    fit_intercept : bool, default=True
        As for `PufferfishSGDRegressor`.
    intercept_scaling : float or None, default=None
        As for `PufferfishSGDRegressor`.
    verbose : int, default=0
        As for `PufferfishSGDRegressor`.
    random_state : int or None, default=None
        None draws cryptographic bits. An integer is for tests, and warns.
    correlated_labels : bool, default=True
        Whether the labels of other records may depend on a secret one. True: every record with a
        correlation other than 0 may change completely. False: the labels of other records do not
        depend on the secret, and their features move as the correlation says.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
    classes_ : ndarray of shape (2,)
        The labels in order, which are taken to be public.
    certificate_ : SGDCertificate
        The guarantee and its figures.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names.
    n_iter_ : int
        Passes over the records: 1.
    n_steps_ : int

    Notes
    -----
    *Formal guarantees.* As `PufferfishSGDRegressor`. More than two classes are refused: every
    further class is another release. `sklearn.multiclass.OneVsRestClassifier` fits k classifiers
    with a certificate each; none of these covers all of them together (for independent records, k
    times epsilon).

    References
    ----------
    004, sections 5 and 6.4, with the shifts in one joint coupling.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_puffer import PufferfishSGDClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (2000, 2))
    >>> model = PufferfishSGDClassifier(epsilon=1.0).fit(X, X[:, 0] > 0.0)
    >>> model.coef_.shape, model.certificate_.holds
    ((1, 2), True)
    """

    correlated_labels: bool = field(default=True, kw_only=True)

    _coef_shape = (1, -1)
    _other_targets = (
        " in its features, before scaling, and its label stays. Labels that do not depend on "
        "the secret, and features that are jointly Gaussian around a mean of their class, with "
        "covariances of rho_ij times a common matrix, have one where the distance includes "
        "that of the means"
    )
    _further_sentences = (
        "The names of the two classes are public, and so is that both occur and no other: "
        "labels of one class only, or of a third, are refused, which is not covered.",
    )

    def decision_function(self, X: Any) -> FloatArray:
        """Return the margins.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, n_features)
            Rows with the columns of `fit`.

        Returns
        -------
        ndarray of shape (n,)
            Positive for the second class; with clip=1 they are log-odds.
        """
        return self._margins(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of both classes.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, n_features)
            Rows with the columns of `fit`.

        Returns
        -------
        ndarray of shape (n, 2)
            In the order of ``classes_``.
        """
        margins = self._margins(X)  # refuses an estimator that is not fitted
        return Logistic(self._fitted_clip).probabilities(margins)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the more probable class of each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, n_features)
            Rows with the columns of `fit`.

        Returns
        -------
        ndarray of shape (n,)
            Labels as those of `fit`.
        """
        positive = self._margins(X) > 0.0
        return np.asarray(self.classes_[positive.astype(np.intp)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags

    def _loss(self) -> Logistic:
        return Logistic(min(check_bound(self.clip, "clip", 0.5), 1.0))

    def _read(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        rows, labels = self._validated(X, y)
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
        if classes.size < 2:
            raise ValueError(
                f"y has one class only, {quoted(classes[0])}; two classes are needed to tell them "
                "apart."
            )
        if classes.size > 2:
            kind = type_of_target(labels, input_name="y")
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{kind}, with {classes.size} classes; wrap the estimator in OneVsRestClassifier, "
                "where every class is a release with its own budget."
            )
        self.classes_ = classes
        return rows, codes

    def _sensitivity(self, descent: Descent) -> tuple[float, float]:
        distance = 2.0 * descent.data_norm * OUTWARDS
        if check_flag(self.correlated_labels, "correlated_labels"):
            return math.inf, distance
        # the label of the secret record may change too, and with it all of its gradient
        whole = 2.0 * descent.gradient_bound / distance * OUTWARDS
        return max(descent.sensitivity(with_target=False), whole), distance
