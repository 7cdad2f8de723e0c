"""Fitting priors: Gaussians and mixtures from the rows of a secret, classifiers from all rows.

Use this module to give ``prior=`` an object with settings, such as ``ClassifierFit(model, cv=10)``,
where its names ("gaussian", "gmm") or a classifier are not enough.

A fit sees rows with counts, and their order does not matter. The prior is an estimate: the
certificate holds for an adversary who believes it. `bootstrap` shows how much the prior varies
between samples of this size.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sklearn_puffer._base import (
    FloatArray,
    check_choice,
    check_count,
    check_delta,
    check_positive,
    once_warned,
    real_numbers,
)
from sklearn_puffer._fits import name_of
from sklearn_puffer._samples import (
    Sample,
    check_any_varies,
    check_varies,
    checked_sample,
    floored,
    gaussian_of,
    mixture_of,
    pooled_covariance,
)
from sklearn_puffer._words import brief, on_one_line, quoted
from sklearn_puffer.priors import GaussianMixture

if TYPE_CHECKING:
    from sklearn.mixture import GaussianMixture as EMFit

__all__ = ["ClassifierFit", "GaussianFit", "MixtureFit", "bootstrap"]

_COVARIANCES = ["separate", "common"]


@dataclass(frozen=True)
class GaussianFit:
    r"""A Gaussian prior by maximum likelihood: the mean and the covariance of the rows.

    .. math:: \hat\mu = \frac1n \sum x, \qquad
              \hat\Sigma = \frac1n \sum (x - \hat\mu)(x - \hat\mu)^T

    Parameters
    ----------
    covariance : {"separate", "common"}, default="separate"
        ``"common"``: all secrets share the mean of their covariances, weighted by their rows. Their
        priors then are translations of each other (004, Prop. F.1), for which every strategy and
        noise has a bound.
    floor : float, default=1e-3
        Smallest standard deviation, as a fraction of the column's spread over all secrets. Smaller
        ones are raised to it; for rows in every direction, in units of the columns' spreads.

    Raises
    ------
    TypeError, ValueError
        If ``floor`` is not positive, or ``covariance`` none of the two.

    Examples
    --------
    >>> from sklearn_puffer.fits import GaussianFit
    >>> prior = GaussianFit().fit([[1.0], [2.0], [3.0]], [1, 2, 1], [1.0])
    >>> prior.means.tolist(), prior.scales.round(6).tolist()
    ([2.0], [0.707107])
    """

    covariance: str = "separate"
    floor: float = 1e-3

    def __post_init__(self) -> None:
        check_choice(self.covariance, "covariance", _COVARIANCES)
        object.__setattr__(self, "floor", check_positive(self.floor, "floor"))

    def fit(self, rows: Any, counts: Any, spread: Any, secret: Any = None) -> GaussianMixture:
        """Return the prior of one secret.

        Parameters
        ----------
        rows : array-like of shape (n, d)
            In the columns' own units, in any order.
        counts : array-like of shape (n,)
            How often each row occurs.
        spread : array-like of shape (d,)
            Standard deviation of each column over all secrets.
        secret : object, optional
            Its name, for messages.

        Returns
        -------
        GaussianMixture
            Of one component.

        Raises
        ------
        TypeError, ValueError
            If shapes disagree, a value is no number, not finite or beyond 1e75, or a column does
            not vary.
        """
        sample, scale = checked_sample(rows, counts, spread)
        check_varies(sample, secret)
        return gaussian_of(sample.mean, floored(sample.covariance, scale, self.floor))

    def fit_all(
        self, groups: Mapping[Any, tuple[Any, Any]], spread: Any
    ) -> dict[Any, GaussianMixture]:
        """Return the prior of each secret.

        Parameters
        ----------
        groups : mapping of secret to (rows, counts)
            As in `fit`. With a common covariance a secret may be constant, if not all are.
        spread : array-like of shape (d,)
            As in `fit`.

        Returns
        -------
        dict of secret to GaussianMixture
            In the order of the groups.

        Examples
        --------
        >>> from sklearn_puffer.fits import GaussianFit
        >>> groups = {"a": ([[0.0], [2.0]], [1, 1]), "b": ([[5.0], [9.0]], [1, 1])}
        >>> priors = GaussianFit("common").fit_all(groups, [1.0])
        >>> [float(prior.scales[0].round(6)) for prior in priors.values()]
        [1.581139, 1.581139]
        """
        if self.covariance == "separate":
            return {name: self.fit(*group, spread, name) for name, group in groups.items()}
        samples = {name: checked_sample(*group, spread)[0] for name, group in groups.items()}
        check_any_varies(samples)
        pooled = pooled_covariance([(s.total, s.covariance) for s in samples.values()])
        shared = floored(pooled, np.asarray(spread, dtype=float), self.floor)
        return {name: gaussian_of(sample.mean, shared) for name, sample in samples.items()}


@dataclass(frozen=True)
class MixtureFit:
    """A mixture of Gaussians by scikit-learn's EM; BIC chooses the number of components.

    Parameters
    ----------
    n_components : int, optional
        Number of components; given none, the one of 1 to ``max_components`` with the least BIC.
    max_components : int, default=5
        Most components that BIC is asked about.
    floor : float, default=1e-3
        Smallest standard deviation of a component, as a fraction of the column's spread over all
        secrets: its square is added to every variance in each step of EM. Without it, a component
        settles on any value that is repeated, its scale falls to zero, and the likelihood has no
        maximum. With it, repeated values still get components of about that scale: raise it where
        the prior should be smooth.
    n_init, max_iter, tol, random_state : int, int, float, int
        As in `sklearn.mixture.GaussianMixture`. ``random_state`` is an integer, so that the same
        rows give the same prior.
    covariance : {"separate", "common"}, default="separate"
        ``"common"``: components share one covariance, within each secret in EM, and over the
        secrets by the mean weighted by their rows. Components then are translations of each other.

    Raises
    ------
    TypeError, ValueError
        If a number is not positive, or ``covariance`` none of the two.

    Warns
    -----
    PufferfishWarning
        If EM did not converge, with the remedy.

    Notes
    -----
    Of more than 8,192 rows that many quantiles are fitted, which in one column moves no
    probability by more than 1/8192 (rows of several columns: 32,768 of them in order, which is a
    subsample); BIC counts all rows.

    Examples
    --------
    >>> from sklearn_puffer.fits import MixtureFit
    >>> rows = [[0.0], [0.1], [0.2], [9.0], [9.1], [9.3]]
    >>> prior = MixtureFit(max_components=2).fit(rows, [20, 40, 20, 20, 40, 20], [4.5])
    >>> prior.n_components, sorted(prior.means.round(3).tolist())
    (2, [0.1, 9.125])
    """

    n_components: int | None = None
    max_components: int = 5
    floor: float = 1e-3
    n_init: int = 3
    max_iter: int = 500
    tol: float = 1e-4
    random_state: int = 0
    covariance: str = "separate"

    def __post_init__(self) -> None:
        if self.n_components is not None:
            check_count(self.n_components, "n_components")
        for name in ("max_components", "n_init", "max_iter"):
            check_count(getattr(self, name), name)
        check_count(self.random_state, "random_state", minimum=0)
        for name in ("floor", "tol"):
            object.__setattr__(self, name, check_positive(getattr(self, name), name))
        check_choice(self.covariance, "covariance", _COVARIANCES)

    def fit(self, rows: Any, counts: Any, spread: Any, secret: Any = None) -> GaussianMixture:
        """Return the prior of one secret.

        Parameters
        ----------
        rows, counts : array-like of shape (n, d), (n,)
            As in `GaussianFit.fit`, and with the same errors.
        spread : array-like of shape (d,)
            Standard deviation of each column over all secrets.
        secret : object, optional
            Its name, for messages.

        Returns
        -------
        GaussianMixture
            Its components sorted by their means.
        """
        sample, scale = checked_sample(rows, counts, spread)
        check_varies(sample, secret)
        with once_warned():
            return self._fitted(sample, scale, secret)

    def fit_all(
        self, groups: Mapping[Any, tuple[Any, Any]], spread: Any
    ) -> dict[Any, GaussianMixture]:
        """Return the prior of each secret.

        Parameters
        ----------
        groups : mapping of secret to (rows, counts)
            As in `fit`.
        spread : array-like of shape (d,)
            As in `fit`.

        Returns
        -------
        dict of secret to GaussianMixture
            In the order of the groups.
        """
        with once_warned():
            priors = {name: self.fit(*group, spread, name) for name, group in groups.items()}
        if self.covariance == "separate":
            return priors
        totals = [float(np.sum(counts)) for _, counts in groups.values()]
        covariances = [prior.covariances[0] for prior in priors.values()]
        shared = pooled_covariance(list(zip(totals, covariances, strict=True)))
        return {
            name: mixture_of(
                prior.weights, prior.rows, np.broadcast_to(shared, prior.covariances.shape)
            )
            for name, prior in priors.items()
        }

    def _fitted(self, sample: Sample, scale: FloatArray, secret: Any) -> GaussianMixture:
        unit, rows = sample.scaled(scale), sample.scaled(scale).expanded()
        wanted = [self.n_components] if self.n_components else range(1, self.max_components + 1)
        # never more components than there are distinct rows
        sizes = [size for size in wanted if size <= len(unit.rows)] or [len(unit.rows)]
        models = [self._model(rows, size, secret) for size in sizes]
        best = models[int(np.argmin([self._bic(model, rows, unit) for model in models]))]
        d = rows.shape[1]
        covariances = np.broadcast_to(
            best.covariances_.reshape(-1, d, d), (len(best.weights_), d, d)
        )
        return mixture_of(
            best.weights_,
            sample.mean + best.means_ * scale,
            np.array([floored(c, np.ones(d), self.floor) for c in covariances])
            * np.outer(scale, scale),
        )

    def _model(self, rows: FloatArray, size: int, secret: Any) -> EMFit:
        from sklearn.mixture import GaussianMixture as EMFit  # heavy, and few fit mixtures

        model = EMFit(
            size,
            covariance_type="tied" if self.covariance == "common" else "full",
            tol=self.tol,
            reg_covar=self.floor**2,
            max_iter=self.max_iter,
            n_init=self.n_init if size > 1 else 1,
            random_state=self.random_state,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(rows)
        if not model.converged_:
            given = "" if secret is None else f" given secret {brief(secret)}"
            with once_warned() as said:
                said.append(
                    f"the mixture of {size} components{given} has not converged after "
                    f"max_iter={self.max_iter} steps; raise max_iter or tol, or take fewer "
                    "components."
                )
        return model

    def _bic(self, model: EMFit, rows: FloatArray, sample: Sample) -> float:
        """Return -2 log likelihood + (number of parameters) log n, of all n rows."""
        k, d = model.means_.shape
        matrices = 1 if self.covariance == "common" else k
        n_parameters = k - 1 + k * d + matrices * d * (d + 1) // 2
        fit: float = -2.0 * sample.total * float(model.score(rows))
        return fit + float(n_parameters) * math.log(sample.total)


@dataclass(frozen=True)
class ClassifierFit:
    r"""A prior from a classifier that predicts the secret from the public columns.

    With :math:`\pi_s(x)` the probability that it gives secret s for a row x, the distribution of
    the released cells z given s is Bayes' rule on the rows that there are:

    .. math:: p_s(z) = \sum_{i: x_i \in z} w_i \pi_s(x_i) / \sum_i w_i \pi_s(x_i)

    Parameters
    ----------
    estimator : classifier
        Of scikit-learn's kind, with ``predict_proba``. A clone is fitted, and random states of
        None become 0 in it; the object itself stays as it is.
    cv : int, splitter or "prefit", default=5
        The probabilities for a row come from a model that did not see it. An int: so many folds,
        over which the rows of each secret are dealt in turn, by a digest of what they hold and
        not by their order. Equal rows are dealt out as well, so that each model learns from some
        of them: their distribution is the mean of what all models say of their own copies. An
        object with ``split`` (of the kind of `sklearn.model_selection.KFold`, and
        `sklearn.model_selection.PredefinedSplit` where persons occur repeatedly) is given the rows
        as they stand in the table, and tests each once. ``"prefit"``: the estimator was fitted
        elsewhere, to other rows, and is asked.
    smoothing : float, default=0.0
        The share of the base rate, that is of each secret among the rows, that is mixed into all
        probabilities. Probabilities of 0 are claims of certainty, and it takes them away.

    Raises
    ------
    TypeError, ValueError
        If the estimator has no ``predict_proba``, is a class, or was not fitted under
        ``"prefit"``; if ``cv`` is none of the three, or ``smoothing`` no number in [0, 1).

    Notes
    -----
    The estimator is given a pandas DataFrame of the public columns in their own types, strings and
    categories as ``category`` columns, missing values as missing; and rows that count k times, k
    times (more than 2^21 rows: once, with a ``sample_weight`` of k).

    *Formal guarantees.* The guarantee for this prior covers adversaries who know as much as the
    classifier, and not more. Probabilities become multiples of 2^-32, positive ones never 0, and
    the guarantee is about the distribution of these. Under cross-fitting the adversary consists of
    several models, each of which predicts the rows that it was not fitted to.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_puffer import PufferfishNoiser
    >>> from sklearn_puffer.fits import ClassifierFit
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0, 7, 2] * 9
    >>> loan = ["no", "yes", "yes", "no", "yes", "yes", "no", "yes", "no", "no", "yes", "no"] * 9
    >>> known = ClassifierFit(LogisticRegression(C=10.0), cv=3)
    >>> noiser = PufferfishNoiser(5.0, sensitive="loan", prior=known)
    >>> table = pd.DataFrame({"loan": loan, "cars": cars})
    >>> noiser.fit(table).certificate_.models[0].model
    'LogisticRegression'
    """

    estimator: Any
    cv: Any = field(default=5, kw_only=True)
    smoothing: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        _check_classifier(self.estimator)
        object.__setattr__(self, "cv", _checked_cv(self.cv))
        remedy = "choose 0 for the probabilities as they are, or a small share such as 0.01"
        object.__setattr__(self, "smoothing", check_delta(self.smoothing, "smoothing", remedy))
        if self.is_prefit and not hasattr(self.estimator, "classes_"):
            raise NotFittedError(
                f'cv="prefit" needs a fitted classifier, and {self.name} has no classes_; call its '
                "fit, or pass a number of folds, cv=5."
            )
        if not self.is_prefit and not hasattr(self.estimator, "get_params"):
            raise TypeError(
                f"{self.name} cannot be cloned, as it has no get_params; derive it from "
                'sklearn.base.BaseEstimator, or fit it elsewhere (cv="prefit").'
            )

    @property
    def is_prefit(self) -> bool:
        """Whether the estimator was fitted elsewhere."""
        return isinstance(self.cv, str)

    @property
    def name(self) -> str:
        """The name of the estimator: its type, or those of the steps of a pipeline."""
        return name_of(self.estimator)

    @property
    def way(self) -> str:
        """How the probabilities are found, in words."""
        if self.is_prefit:
            return "fitted elsewhere"
        if isinstance(self.cv, int):
            return f"cross-fitted in {self.cv} folds"
        return f"cross-fitted by {type(self.cv).__name__}"


def _check_classifier(estimator: Any) -> None:
    if isinstance(estimator, type):
        raise TypeError(
            f"a classifier is wanted, and {estimator.__name__} is the class; call it, "
            f"{estimator.__name__}()."
        )
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            f"{on_one_line(estimator)} has no predict_proba, which a classifier prior asks for "
            "probabilities; take a classifier that has, or wrap it in "
            "sklearn.calibration.CalibratedClassifierCV."
        )


def _checked_cv(cv: Any) -> Any:
    if isinstance(cv, str) and cv == "prefit":
        return cv
    if not isinstance(cv, str) and hasattr(cv, "split"):
        return cv
    if isinstance(cv, str) or not isinstance(cv, Integral):
        raise TypeError(
            'cv must be a number of folds, a splitter with the method split, or "prefit", got '
            f"{quoted(cv)}."
        )
    return int(check_count(cv, "cv", minimum=2))


def bootstrap(
    fit: GaussianFit | MixtureFit,
    rows: Any,
    counts: Any,
    n_draws: int = 100,
    seed: int = 0,
    *,
    spread: Any = None,
) -> list[GaussianMixture]:
    r"""Return priors drawn around the fit to one secret: an estimate of its error, no bound.

    Gaussian: draws from the posterior under the reference prior, with S the scatter matrix,

    .. math:: \Sigma^{-1} \sim \text{Wishart}(n - 1, S^{-1}), \qquad
              \mu \mid \Sigma \sim N(\hat\mu, \Sigma/n);

    in one column :math:`(n-1) s^2/\sigma^2 \sim \chi^2_{n-1}`. Mixtures: the rows are drawn again
    with replacement, and fitted once with as many components.

    Parameters
    ----------
    fit : GaussianFit or MixtureFit
        With separate covariances.
    rows, counts : array-like of shape (n, d), (n,)
        As in `GaussianFit.fit`.
    n_draws : int, default=100
        How many priors are drawn.
    seed : int, default=0
        The draws are a function of it, and of the rows in any order, with one version of numpy.
    spread : array-like of shape (d,), optional
        As in `GaussianFit.fit`; that of the rows themselves if not given.

    Returns
    -------
    list of GaussianMixture
        One for each draw.

    Raises
    ------
    TypeError, ValueError
        If ``fit`` is neither, a number is not a positive integer, a column does not vary, or there
        are no more rows than columns.

    Examples
    --------
    >>> from sklearn_puffer.fits import GaussianFit, bootstrap
    >>> draws = bootstrap(GaussianFit(), [[0.0], [1.0]], [500, 500], n_draws=200)
    >>> means = [float(draw.means[0]) for draw in draws]
    >>> 0.4 < min(means) < 0.5 < max(means) < 0.6  # each within some 0.5 / sqrt(1000) of 0.5
    True
    """
    if not isinstance(fit, GaussianFit | MixtureFit):
        raise TypeError(f"fit must be a GaussianFit or a MixtureFit, got {fit!r}.")
    check_count(n_draws, "n_draws")
    generator = np.random.default_rng(check_count(seed, "seed", minimum=0))
    if spread is None:
        shape = np.shape(real_numbers(rows, "rows"))
        sample, _ = checked_sample(rows, counts, np.ones(shape[1:]))
        check_varies(sample, None)
        spread = np.sqrt(np.diag(sample.covariance))
    sample, scale = checked_sample(rows, counts, spread)
    check_varies(sample, None)
    if isinstance(fit, GaussianFit):
        return [_posterior_draw(sample, scale, fit.floor, generator) for _ in range(n_draws)]
    size = fit._fitted(sample, scale, None).n_components
    again = replace(fit, n_components=size, n_init=1)
    return [again._fitted(_redrawn(sample, generator), scale, None) for _ in range(n_draws)]


def _posterior_draw(
    sample: Sample, scale: FloatArray, floor: float, generator: np.random.Generator
) -> GaussianMixture:
    from scipy.stats import invwishart  # heavy, and few draw priors

    n, d = sample.total, len(scale)
    if n <= d:
        raise ValueError(
            f"rows must be more than the {d} columns for a posterior, got {int(n)}; merge secrets."
        )
    ones = np.ones(d)
    scatter = floored(sample.scaled(scale).covariance, ones, floor) * n
    drawn = np.reshape(invwishart.rvs(n - 1.0, scatter, random_state=generator), (d, d))
    moved = generator.multivariate_normal(np.zeros(d), drawn / n)
    return gaussian_of(
        sample.mean + moved * scale, floored(drawn, ones, floor) * np.outer(scale, scale)
    )


def _redrawn(sample: Sample, generator: np.random.Generator) -> Sample:
    counts = generator.multinomial(sample.n_kept, sample.counts / sample.total)
    return Sample(sample.rows[counts > 0], counts[counts > 0].astype(float))
