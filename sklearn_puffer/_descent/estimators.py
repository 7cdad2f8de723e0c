"""Linear and logistic models whose released weights tell little about any record.

How both descend is in `_descent.noisy_descent`; what is promised for the released weights, and
why, in `_descent.promise`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from sklearn_puffer._base import FloatArray, quoted
from sklearn_puffer._descent.arguments import check_bound, check_bound_or, check_flag
from sklearn_puffer._descent.descent import OUTWARDS, Descent, Logistic, Squares
from sklearn_puffer._descent.noisy_descent import NoisyDescent

_FLOATS = (np.float64, np.float32)


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
        Residuals count as at most this (Huber's loss); None for half of target_bound. The noise is
        proportional to it.
    l2 : float, default=0.0
        Factor lambda of the penalty :math:`\lambda \|w\|^2/2` (intercept included), which makes
        each step forget some of what came before.
    learning_rate : float or None, default=None
        eta. None for what makes the sum of two bounds smallest, one on what is not learnt yet and
        one on what noise costs, with weights that predict about target_bound: but no more than half
        of the largest at which a step is a contraction.
    radius : float or None, default=None
        Weights and intercept (over ``intercept_scaling``) together stay within this Euclidean norm;
        None for 10 target_bound / data_norm, or half of that for correlated records: the larger it
        is, the more a gradient reacts to them.
    batch_size : int or None, default=None
        Records a step; None for what goes with the learning rate, at least 4. Noise depends on the
        learning rate over the batch size alone: larger batches at the same rate need less noise,
        and go less far.
    average : "auto" or bool, default="auto"
        Whether to release the mean of the last eighth of the steps instead of the last: it depends
        less on which records came last, for no more noise. Noise at the end only. "auto" does so
        for independent records, or all correlated alike.
    noise_at : {"auto", "end", "steps"}, default="auto"
        Where noise is added: once, after the last step, or after each. "auto" is the end for
        independent records: for the same proven loss, steps add up to more. It is each step for
        correlated ones: each then hides what moved at it, and later steps wear the noise down
        where the loss is curved.
    shuffle : bool, default=False
        Whether records are used in an order that nobody knows, which hides how much noise followed
        (noise_at="steps"), how much was forgotten (l2 > 0) or how many steps of a mean came after
        the secret record's step.
    fit_intercept : bool, default=True
        Whether there is a constant feature.
    intercept_scaling : float or None, default=None
        The feature that goes with the intercept, a constant. Less of it means less noise, and an
        intercept that is learnt more slowly. None for data_norm / 2.
    verbose : int, default=0
        1 shows on standard error after two seconds how many steps are done, and what else takes
        long, with the time left.
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
    >>> import numpy as np
    >>> from sklearn_puffer import PufferfishSGDRegressor
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
        radius: float | None = None,
        batch_size: int | None = None,
        average: str | bool = "auto",
        noise_at: str = "auto",
        shuffle: bool = False,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
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
        self.average = average
        self.noise_at = noise_at
        self.shuffle = shuffle
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.verbose = verbose
        self.random_state = random_state

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
        return Squares(check_bound_or(self.clip, "clip", bound / 2.0), bound)

    def _read(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        rows, targets = self._validated(X, y, y_numeric=True)
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

    def _store(self, weights: FloatArray, loss: Squares) -> None:
        self.coef_ = weights[: self.n_features_in_]
        self.intercept_ = weights[self.n_features_in_ :] if self.fit_intercept else np.zeros(1)


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
    correlated_labels : bool, default=True
        Whether the labels of other records may depend on a secret one. True: every record with a
        correlation other than 0 is taken to change completely. False: the labels of the others do
        not depend on the secret, and their features move as the correlation says.
    secrets : "all" or list of int, default="all"
        As for `PufferfishSGDRegressor`.
    data_norm : float, default=1.0
        Longer rows of X are scaled to this Euclidean norm. To be declared, not learnt.
    clip : float or None, default=None
        The slope of the loss, a probability minus 0 or 1, counts as at most this. None for 0.5: the
        loss is linear on the wrong side, logistic on the right one, and half the noise is enough. 1
        clips nothing. Probabilities are right all the same.
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
    shuffle, fit_intercept : bool, default=False and True
        As for `PufferfishSGDRegressor`.
    intercept_scaling : float or None, default=None
        As for `PufferfishSGDRegressor`.
    verbose : int, default=0
        As for `PufferfishSGDRegressor`.
    random_state : int or None, default=None
        None draws cryptographic bits. An integer is for tests, and warns.

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
    >>> import numpy as np
    >>> from sklearn_puffer import PufferfishSGDClassifier
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
        radius: float | None = None,
        batch_size: int | None = None,
        average: str | bool = "auto",
        noise_at: str = "auto",
        shuffle: bool = False,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
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
        self.average = average
        self.noise_at = noise_at
        self.shuffle = shuffle
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.verbose = verbose
        self.random_state = random_state

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
        margins = self._margins(X)
        return self._fitted_loss.probabilities(margins)

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
        return Logistic(min(check_bound_or(self.clip, "clip", 0.5), 1.0))

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
                "where each class is a release of its own, with a budget of its own."
            )
        self.classes_ = classes
        return rows, codes

    def _reaction(self, descent: Descent) -> tuple[float, float]:
        distance = 2.0 * descent.data_norm * OUTWARDS
        if check_flag(self.correlated_labels, "correlated_labels"):
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
        return [
            "The names of the two classes are public, and so is that both occur and no other: "
            "labels of one class only, or of a third, are refused, which is not covered."
        ]

    def _store(self, weights: FloatArray, loss: Logistic) -> None:
        self._fitted_loss = loss
        self.coef_ = weights[np.newaxis, : self.n_features_in_]
        self.intercept_ = weights[self.n_features_in_ :] if self.fit_intercept else np.zeros(1)
