"""`PufferfishNoiser`: the transformer that learns a prior, calibrates the noise and releases."""

from __future__ import annotations

from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from sklearn_puffer._base import fitting, once_warned
from sklearn_puffer._noiser.fit import learn
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._release import LearntMechanism, TableRelease
from sklearn_puffer._rows import FitRows, refuse_lazy


class PufferfishNoiser(TableRelease):
    r"""Release public columns so that they tell little about sensitive ones.

    `fit` counts how the public columns depend on every secret and finds the smallest noise scale
    theta for which, whatever row y is released,

    .. math:: \left|\log \frac{P(Y = y \mid S = s_i)}{P(Y = y \mid S = s_j)}\right| \le \varepsilon

    for every protected pair (s_i, s_j); `transform` adds that noise. The page "Parameters" says
    more of each setting.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget in nats: odds between two secrets move by at most a factor e^epsilon.
    delta : float, default=0.0
        With delta > 0 the guarantee is (epsilon, delta)-Pufferfish privacy; not with alpha.
    alpha : float or None, default=None
        With alpha > 1 the guarantee bounds the Renyi divergence of that order by epsilon.
    releases : int, default=1
        How often the same rows may be released: the guarantee is about all these releases together.
    sensitive : str, int, list of these, or {column: bins, edges or None}, default=None
        The sensitive columns of X, by name or position. They are never released. Numbers are read
        in quantile bins, ``{"score": 5}``, or between edges, ``{"score": [30, 40]}``: the secrets
        are then intervals, and "(30, 40]" holds its upper end. Without them, pass
        ``sensitive_features`` to `fit`.
    public : str, int or list of these, default=None
        The columns to release; None for every column that is not sensitive. Text most of whose
        values differ looks like an identifier and is refused; so are dates, and whole numbers that
        nearly all differ, unless they are named here (or, numbers, binned).
    secret_pairs : "all", list of pairs, or {column: list of pairs}, default="all"
        The pairs (s_i, s_j) to protect, always in both directions; "all" is for 50 values at most.
    prior : "empirical", "gaussian", "gmm", fit, classifier or mapping, default="empirical"
        What the adversary knows: distributions counted from the rows, fitted to them (`fits`),
        given as {secret: prior object}, or learnt by a classifier.
    strategy : name or strategy object, default="exact"
        How the scale is found. "exact" needs the least noise; the others are published mechanisms.
    noise : "laplace", "gaussian", "cauchy" or an object, default="laplace"
        A family of noise.
    dependence : "joint", "independent" or list of column groups, default="joint"
        "joint" protects the row as a whole. The others trust that columns, or groups of them, are
        independent given the secret.
    adversaries : list, "confidence" or ConfidenceSet, default=None
        Further priors that the guarantee holds against; "confidence" stands for all priors that the
        number of rows leaves possible.
    weights : "spread" or mapping, default="spread"
        Proportions of the columns' scales: standard deviations, or {column: positive number}.
    categories : {column: list}, default=None
        The values of a column in their order; its noise is then in codes, as that of ordered
        categorical types is.
    n_bins : int or {column: int}, default=None
        Quantile bins for numeric columns, each of which is released as its median, plus noise.
    missing : {"error", "category", "propagate"}, default="error"
        Missing values are refused, a value of their own (of booleans and categories), or left
        missing, which is then not protected.
    unknown : {"auto", "error", "nearest"}, default="auto"
        What `transform` does with values not seen in `fit`: move numbers to the nearest one and
        refuse categories, refuse both, or move both (categories to the commonest one).
    output : {"native", "noisy"}, default="native"
        Columns in their own type, or raw value plus noise as float64.
    remainder : {"drop", "passthrough"}, default="drop"
        What becomes of columns neither sensitive nor public. Passed columns are not protected.
    on_uncertified : {"raise", "warn"}, default="raise"
        What `transform` does where the certificate does not hold.
    known : str, int, tuple of these, or list of either, default=None
        Side information: public columns that a reader may know, each by itself, or the columns of
        a tuple together. They stay as they are, and the budget holds given each of their values
        (of a column in bins each bin: who knows the value more finely is not covered).
    groups : str or int, default=None
        The column of ids of groups of rows, such as households, that share their secret: the
        guarantee is then about all released rows of a group together. It is passed through.
    max_group : int or "count", default=None
        The most rows of a group, needed with ``groups``; "count" takes that of the table of `fit`,
        where sizes are public.
    within_group : {"independent", "any"}, default="independent"
        How rows of a group depend on each other given its secret: not at all, or in any way.
    random_state : int or None, default=None
        None draws from the operating system's generator. An integer is for tests: it warns.
    n_jobs : int or None, default=None
        Threads for couplings and columns.
    verbose : int, default=0
        1 shows progress on standard error after two seconds.

    Attributes
    ----------
    certificate_ : Certificate
        What is guaranteed and what was checked.
    utility_ : pandas.DataFrame of shape (n_public, 8)
        How much of each public column survives, beside what the best constant in its place does.
    theta_ : pandas.Series of shape (n_public,)
        Noise scale of each public column in its own units; 0 where no noise is needed. Of a column
        without an order it is -log(1 - rho).
    priors_ : dict
        ``priors_[sensitive][secret][columns]``: the distribution of the columns given the secret.
    secret_pairs_ : dict
        The protected pairs of each sensitive column.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where X has string column names.

    Raises
    ------
    TypeError, ValueError
        In `fit` and `transform`, naming the argument or column, its value and the way out.
    UncertifiedError
        In `transform`, where the certificate does not hold.

    See Also
    --------
    PufferfishRelease : A fitted release without its priors.
    plan : Which settings to take, measured on rows that nobody fitted.

    Notes
    -----
    *Formal guarantees.* All of ``releases`` calls of `transform` together, on the same rows, drawn
    independently from a prior named in ``certificate_.assumptions``, are Pufferfish private (000,
    Definition 2.1; with delta 003, Definition 1; with alpha 004, Definition 2.2) for all
    pairs of ``secret_pairs_``, the error of the sampler included. The proof is recomputed by
    `accounting` without the strategy. Noise is drawn on a grid from cryptographic bits, and none of
    its state is kept.

    ``Pipeline(memory=...)`` caches a fitted release: it hands back the same noise for the same
    input, which reveals nothing more, but is not a fresh release.

    References
    ----------
    000: Noise reduction for Pufferfish privacy (Prop. 3.2, 3.3; Eq. 11, 12, 26). 003: Gaussian
    priors (Thm 1, 2). 004: Renyi Pufferfish privacy (Thm 3.3, 4.3, 4.5).

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> noiser = PufferfishNoiser(epsilon=0.5, sensitive="loan", output="noisy")
    >>> released = noiser.fit(table).transform(table.drop(columns="loan"))
    >>> list(released.columns), noiser.certificate_.holds
    (['cars'], True)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 0.0,
        alpha: float | None = None,
        releases: int = 1,
        sensitive: Any = None,
        public: Any = None,
        secret_pairs: Any = "all",
        prior: Any = "empirical",
        strategy: Any = "exact",
        noise: Any = "laplace",
        dependence: Any = "joint",
        adversaries: Any = None,
        weights: Any = "spread",
        categories: Any = None,
        n_bins: Any = None,
        missing: str = "error",
        unknown: Any = "auto",
        output: str = "native",
        remainder: str = "drop",
        on_uncertified: str = "raise",
        known: Any = None,
        groups: Any = None,
        max_group: Any = None,
        within_group: str = "independent",
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.releases = releases
        self.sensitive = sensitive
        self.public = public
        self.secret_pairs = secret_pairs
        self.prior = prior
        self.strategy = strategy
        self.noise = noise
        self.dependence = dependence
        self.adversaries = adversaries
        self.weights = weights
        self.categories = categories
        self.n_bins = n_bins
        self.missing = missing
        self.unknown = unknown
        self.output = output
        self.remainder = remainder
        self.on_uncertified = on_uncertified
        self.known = known
        self.groups = groups
        self.max_group = max_group
        self.within_group = within_group
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn the priors and calibrate the noise.

        Parameters
        ----------
        X : DataFrame, lazy table or array-like of shape (n_rows, n_features)
            The rows that the priors are counted from. The rows of a polars LazyFrame, a DuckDB
            relation, a Dask or Spark DataFrame or an Ibis table stay in their engine. `fit` fetches
            counts of distinct values and rows, at most 2^23 of them in each query, and learns the
            same as from the same rows in memory. Columns that are protected together and have no
            bins take one query, a scan of the table. Otherwise there is one for each column that
            may be binned, and one for each sensitive column and group of columns.
            Classifiers are fitted on all distinct rows of the sensitive and public
            columns before binning, in one scan.
        y : ignored
            Never taken for a secret.
        sensitive_features : Series, DataFrame or array-like of n_rows, default=None
            The secrets, where they are not columns of X; aligned by position, so that an index
            other than X's is refused. Of a lazy table the names of its columns that are secrets.
        sample_weight : array-like of shape (n_rows,), default=None
            Non-negative whole numbers: how often each row counts; aligned as the secrets. A lazy
            table takes none: a table of counts fits in memory.

        Returns
        -------
        self
            The fitted noiser, also where its certificate does not hold.
        """
        with fitting(self):
            self._fit(X, y, sensitive_features, sample_weight)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit on a table, and release its public columns.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_rows, n_features)
            In memory: a lazy table is fitted on, and released by `transform` with ``row_id``.
        y : ignored
            Never taken for a secret.
        **fit_params : dict
            What `fit` takes besides.

        Returns
        -------
        table of the type of X, of shape (n_rows, n_public)
            As `transform` returns it.
        """
        refuse_lazy(X)
        return super().fit_transform(X, y, **fit_params)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing in ("category", "propagate")
        return tags

    def _checked_parameters(self) -> Settings:
        return Settings.of(self.get_params(deep=False))

    def _learnt(self, parameters: Settings, rows: FitRows) -> LearntMechanism:
        with once_warned():
            return learn(parameters, rows)

    @property
    def theta_(self) -> Any:
        """The noise scale of each public column: a Series, by name or position."""
        check_is_fitted(self)
        return self._fitted.mechanism.attributes()["theta_"]
