"""`PufferfishNoiser`: the transformer that learns a prior, calibrates the noise and releases."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Self
from weakref import WeakKeyDictionary

from sklearn import get_config
from sklearn.utils.validation import check_is_fitted

from sklearn_puffer._base import check_positive, check_verbose, listening
from sklearn_puffer._noise import seeded_entropy, system_entropy
from sklearn_puffer._noiser.channel_fit import learn_channel
from sklearn_puffer._noiser.channel_result import LearntChannel
from sklearn_puffer._noiser.fit_table import learn
from sklearn_puffer._noiser.groups import refuse_weights
from sklearn_puffer._noiser.input_table import check_beside, first_table, next_table, refuse_lazy
from sklearn_puffer._noiser.keyed_rows import Keying
from sklearn_puffer._noiser.lazy_swap import find_lazily
from sklearn_puffer._noiser.margins import Watch
from sklearn_puffer._noiser.mechanism import FittedMechanism, Released
from sklearn_puffer._noiser.refusals import check_mechanism
from sklearn_puffer._noiser.release import Draw, TableRules
from sklearn_puffer._noiser.result import Learnt
from sklearn_puffer._noiser.settings import Settings
from sklearn_puffer._noiser.swap_fit import find_swap, read_rows
from sklearn_puffer._noiser.swap_reserve import (
    NO_RESERVE,
    Service,
    check_keyless,
    few_served,
    gives_donors,
    refuse_lazy_donors,
    refuse_share,
    with_reserve,
)
from sklearn_puffer._noiser.swap_result import LearntSwap
from sklearn_puffer._noiser.swap_tables import beside_labels, check_swappable, label_codes
from sklearn_puffer._noiser.transformer import ReleaseTransformer
from sklearn_puffer._releases import UtilityWarning
from sklearn_puffer._releases import sentences as say
from sklearn_puffer._tables import LazyTable, Source, Table, is_lazy, known, secret_columns
from sklearn_puffer.noise import record_swap

# what is left to release rows one by one: in no copy, so that nothing of it is given twice
_services: WeakKeyDictionary[PufferfishNoiser, Service] = WeakKeyDictionary()


class PufferfishNoiser(ReleaseTransformer):
    r"""Release public columns so that they tell little about sensitive ones.

    `fit` counts how the public columns depend on every secret and finds the smallest noise scale
    theta for which, whatever row y is released,

    .. math:: \left|\log \frac{P(Y = y \mid S = s_i)}{P(Y = y \mid S = s_j)}\right| \le \varepsilon

    for every protected pair (s_i, s_j); `transform` adds that noise. With ``noise="optimal"`` there
    is no noise: every row is released as a row that `fit` saw, drawn from the law that changes
    least on average among all that keep the promise.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget in nats: odds between two secrets move by at most a factor e^epsilon.
    delta : float, default=0.0
        With delta > 0 the promise is (epsilon, delta)-Pufferfish privacy.
    alpha : float or None, default=None
        With alpha > 1 the promise bounds the Renyi divergence of that order by epsilon; with a
        delta besides, given events of probability 1 - delta (strategies "approximate",
        "wasserstein" and "sensitivity").
    releases : int, default=1
        How often the same rows may be released: the promise is about all of these releases
        together. k of them need k times the noise (Gaussian noise: sqrt(k) times; columns
        without an order what `Ledger` counts for them); Cauchy noise may be released once.
    sensitive : str, int or list of these, default=None
        The sensitive columns of X; an int is a position, a str a name. They are never released.
        Without them, pass ``sensitive_features`` to `fit`.
    public : str, int or list of these, default=None
        The columns to release; None for every column that is not sensitive.
    secret_pairs : "all", list of pairs, or {column: list of pairs}, default="all"
        The pairs (s_i, s_j) to protect, always in both directions; a column may have "all", and
        one that is not named has. At most 262,144 of them, as "all" makes of 724 values; and at
        most 1,275, of 51 values, under other than Laplace noise, a delta, an alpha or Gaussian
        priors, where the loss of each is computed on its own.
    prior : "empirical", "gaussian", "gmm", fit, classifier or mapping, default="empirical"
        What the adversary knows: the laws counted from the rows, a Gaussian or a Gaussian mixture
        fitted to them (`fits.GaussianFit`, `fits.MixtureFit` have the settings), or
        {secret: prior object} ({column: {secret: prior object}} for several sensitive columns),
        over all public columns in X's order. Under Gaussian and mixture priors any number can be
        released, seen in `fit` or not. A classifier with ``predict_proba`` (or {column:
        classifier} for several sensitive columns, or `fits.ClassifierFit` for its settings) stands
        for what can be learnt of the secret from the public columns, where wide rows occur once;
        a weak one certifies anything, so the certificate says how much it knows.
    strategy : name or strategy object, default="exact"
        How the scale is found. "exact" needs the least noise; "relaxed", "distribution_aware",
        "approximate", "wasserstein" and "sensitivity" are the published mechanisms, and "monge"
        is one that the certificate catches where it is wrong.
    noise : "laplace", "gaussian", "cauchy", "swap", "optimal" or an object, default="laplace"
        A family object, such as ``noise.GeneralizedCauchy(1.0, k=4)``, gives the shape; its scale
        is not used. "swap", or a `noise.RecordSwap` with its settings, adds nothing: people
        exchange their rows, so that the released table has exactly those of X, and whose they are
        is known within the budget, also to who reads the whole table. There ``prior`` is a
        classifier (by default boosted trees), ``known`` and passed columns say who swaps with whom,
        and ``n_bins``, ``output``, ``strategy`` and ``dependence`` are left alone.
        "optimal", or a `noise.OptimalChannel` with its settings, changes least of all:
        rows become rows of `fit`, under pure and (epsilon, delta) promises. Its certificate says
        what that takes for granted: above all that the reader sees one released row and not the
        released table, and knows neither the fitted rows nor anything else about a row. It is for
        narrow tables whose cells hold many rows: others are refused.
    dependence : "joint", "independent" or list of column groups, default="joint"
        "joint" protects the row as a whole; its loss is exact up to `accounting.MAX_CELLS` cells
        of the grid that the columns' atoms span, and a proven bound beyond. "independent" trusts
        that the columns are independent given the secret; a list of groups trusts that of the
        groups.
    adversaries : list, "confidence" or ConfidenceSet, default=None
        Further priors, each a mapping or a classifier as in ``prior``, or "empirical" for the
        counted one; the promise then holds against every one of them.
        Their atoms belong to the columns' values from then on, and fall into bins as rows do.
        `priors.ConfidenceSet(level)` (also within the list; "confidence" for 0.95) stands for all
        priors in a simultaneous confidence set around the counted ones, which are not the true
        laws. It pays where few cells hold many rows, and takes very much noise elsewhere. For
        Gaussian and mixture priors and classifiers it stands for draws and refits, and what is said
        of them is an estimate. An optimal channel has neither sets nor classifiers.
    weights : "spread", "optimal" or mapping, default="spread"
        Proportions of the columns' scales: their standard deviations, those that make the expected
        error per standard deviation small, or {column: positive number}. Of columns without an
        order they are those of -log(1 - rho), by default log(1 + n / (e^(1/2) - 1)) of one with n
        values: then a move away from one of n even shares loses what half a standard deviation
        does.
        With an optimal channel they are the units in which changes are counted, each 1 by default
        where values have no order; a large one makes changes of its column cheap.
    categories : {column: list}, default=None
        The values of a column in the order of their codes 0..n-1; its noise is in codes, as that of
        ordered categorical types is. Booleans and other categories have no order, and get no noise:
        a value stays with the chance 1 - rho, or else is drawn anew, whatever it was, from the
        shares of the column in all rows, to which every declared value adds one more row.
    n_bins : int or {column: int}, default=None
        Quantile bins for numeric columns. The released value is then the bin's representative,
        its median (the lower one for integers), plus noise; any later value falls into a bin. A
        column of no more distinct values than bins keeps its values, each a bin of its own; one
        that falls into fewer bins, because many rows share a value, is named in a warning.
    missing : {"error", "category", "propagate"}, default="error"
        Missing values are refused, a value of their own (in boolean and categorical columns), or
        left missing. Left missing, which values are missing is not protected, and rows are refused
        that lack other values of a joint group of columns than any row of `fit` did.
    unknown : "error", "nearest" or {column: value}, default="error"
        What `transform` does with values not seen in `fit`: refuse them, or move them before the
        noise, with a warning that counts them: a number to the nearest one seen, a category, which
        none is near, to the commonest one. Or name the category that new ones become:
        ``unknown={"job": "other"}`` makes "other" a category of "job", whether `fit` sees it or
        not; where ``categories`` lists those of "job", what it does not list becomes "other" in
        `fit`, too. A column of numbers takes "error" or "nearest" there. With an optimal channel
        it is rows that must have been seen: "nearest" moves new ones to their nearest row of
        `fit`, by the other columns where a category is new. ``set_params(unknown="nearest")``
        needs no new `fit`.
    output : {"native", "remapped", "noisy"}, default="native"
        Columns in their own type (whole numbers stay whole), or raw value plus noise as float64;
        of a column without an order the code of the released value, so that a table is all numbers.
        "remapped" releases values of the column alone: each noisy value becomes the median of what
        it may have come from (of values without an order, the most probable one), by the shares of
        the rows of `fit`, and so no other map of it changes a value (of a binned column, its
        representative) less on average. The promise and the noise
        are those of "native". Released values are biased towards the middle of the column: they
        serve single rows, and not sums or means.
    remainder : {"drop", "passthrough"}, default="drop"
        What becomes of columns neither sensitive nor public. Passed columns are not protected.
    on_uncertified : {"raise", "warn"}, default="raise"
        What `transform` does where the certificate does not hold.
    known : str, int, tuple of these, or list of either, default=None
        Public columns whose values the adversary may know besides, each by itself; those in a tuple
        he knows together. They stay as they are (binned ones as the representative of their bin,
        which is then what is known), and the budget holds given each of their values, too. What
        they tell by themselves must be within it.
    groups : str or int, default=None
        The column of ids of groups of rows, such as households, whose rows share their secret: the
        promise is then about all released rows of a group together. Ids are neither sensitive nor
        public: they are handed through, and are needed by `transform`, too. Without groups nothing
        is promised about a household.
    max_group : int or "count", default=None
        The most rows of a group, needed with ``groups``: tables with a larger one are refused.
        "count" takes that of the table given to `fit`, where the sizes of groups are public.
    within_group : {"independent", "any"}, default="independent"
        How rows of a group hang together given its secret: independently, or in any way at all. A
        swap exchanges whole groups of as many rows, and its promise holds for any way.
    random_state : int or None, default=None
        None draws from the operating system's generator. An integer is for tests: it warns.
    n_jobs : int or None, default=None
        Threads for couplings and columns; keyed noise is drawn in one. Inside
        `joblib.parallel_config` blocks go to the workers of its backend (loky, Dask, Ray), and the
        laws of the table with them.
    verbose : int, default=0
        1 shows what `fit`, `transform` and `transform_batches` are doing after two seconds: what
        is done, how much of it and, where that can be known, the time left, on standard error. In
        a terminal or a notebook that is a bar of tqdm, where that is installed, and
        elsewhere a line every two seconds. It holds counts, and nothing protected.

    Attributes
    ----------
    swap_ : Swap
        With a swap only: by sensitive column ``posteriors``, the share of each secret in each cell,
        and the ``counts`` they are of; ``costs`` between cells, and mean ``flows`` as shares of
        the rows; ``unchanged``, the share of rows that stay with their owners, and
        ``unchanged_by_secret``.
    theta_ : pandas.Series of shape (n_public,)
        Noise scale of each public column in its own units; 0 where no noise is needed, and of
        columns that may be known. Of a column
        without an order it is -log(1 - rho).
        Not there with an optimal channel.
    channel_ : Channel
        With an optimal channel only: ``cells``, the distinct rows of `fit`; ``matrix``, row x of
        which is the law of what is released for cell x, and ``numerators``, the same in whole
        numbers of 2^-62; ``expected_change`` in units of change; ``stayed``, the share of rows that
        are not moved (binned ones stay in their bins), ``unchanged``, that of rows that come out
        equal, and ``stayed_by_secret`` and ``unchanged_by_secret``.
        It is key material: keep it where you keep the table.
    certificate_ : Certificate
        What is promised and what was checked.
    utility_ : pandas.DataFrame of shape (n_public, 8)
        How much of each public column survives one release, computed from the laws of the rows of
        `fit` (their weights included) and of the noise: ``change``, the expected distance between
        the released value and the original one as it stood in the table, before binning, in the
        column's unit (of categories with an order, their codes'; without one a change counts 1);
        ``change_sd``, in its standard deviations; ``median_change``, which speaks where the mean
        is infinite, as under Cauchy noise; ``unchanged``, the probability that the released value
        is the original one (a value left missing is unchanged, and does not count in the changes).
        ``constant``, ``constant_sd``, ``constant_median`` and ``constant_unchanged`` are the same
        for the best constant in its place, the column's median, or its most frequent category.
        `fit` warns (`UtilityWarning`) of columns that change more than the constant does.
    priors_ : dict
        ``priors_[sensitive][secret][columns]``: the law of the columns given the secret.
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

    Notes
    -----
    *Formal guarantees.* All of ``releases`` calls of `transform` together, on the same rows, drawn
    independently from a prior named in ``certificate_.assumptions``, are Pufferfish private (000,
    Definition 2.1; with delta 003, Definition 1; with alpha 004, Definitions 2.2 and 4.1) for all
    pairs of ``secret_pairs_``, the error of the sampler included. The proof is recomputed by
    `accounting` without the strategy; that of an optimal channel from the whole numbers that are
    drawn from, without the solver. Noise is drawn on a grid from cryptographic bits, and none of
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
        unknown: Any = "error",
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
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Learn the priors and calibrate the noise.

        Parameters
        ----------
        X : DataFrame, lazy table, path or array-like of shape (n_rows, n_features)
            The rows that the adversary's knowledge is counted from. Those of a polars LazyFrame, a
            DuckDB relation, a Dask or Spark DataFrame or an Ibis table stay in their engine, those
            of a pyarrow Dataset are read by DuckDB, and those of Parquet and CSV files by polars
            (a path, a folder of Parquet, or a pattern such as ``"rows/*.parquet"``). What is
            fetched are counts of distinct values and rows, in one query, a scan of the table, where
            the columns are protected together and have no bins; elsewhere in one for each column
            that may be binned, and one for each sensitive column and group of columns (2^23
            distinct values or rows at most, each time). What is learnt is what is learnt of the
            same rows in memory.
            Channels and classifiers are fitted on all distinct rows of the sensitive and public
            columns, before they are binned, which is one scan. So is a swap, whose classifiers and
            cells are learnt from at most 131,072 of them, chosen by digests of their public values.
        y : ignored
            Never taken for a secret.
        sensitive_features : Series, DataFrame or array-like of n_rows, default=None
            The secrets, where they are not columns of X; aligned by position. Of a lazy table the
            names of its columns that are secrets.
        sample_weight : array-like of shape (n_rows,), default=None
            Non-negative whole numbers: how often each row counts. Of a lazy table the name of the
            column that holds them, which is then no other column; one more scan looks through it.

        Returns
        -------
        self
            The fitted noiser, also where its certificate does not hold.
        """
        before = dict(self.__dict__)
        try:
            with listening(check_verbose(self.verbose), "fit"):
                self._fit(X, sensitive_features, sample_weight)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit on a table, and release its public columns.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_rows, n_features)
            In memory: a lazy table is fitted on, and released by `transform` with ``row_id``.
        y : array-like of n_rows, default=None
            Never taken for a secret. Of a swap, labels of up to 20 values, which stay with their
            owners: rows are exchanged among equal ones, and the promise holds for who sees them,
            by the counts of the fitted rows.
        **fit_params : dict
            What `fit` takes besides.

        Returns
        -------
        table of the type of X, of shape (n_rows, n_public)
            As `transform` returns it.

        Notes
        -----
        A swap is made here by the fitted rows' own counts, and nothing is estimated;
        ``fit(X).transform(X)`` takes the same rows for rows to come.
        """
        refuse_lazy(X)
        if record_swap(self.noise) is None:
            return super().fit_transform(X, y, **fit_params)
        if fit_params.get("sample_weight") is not None:
            raise ValueError(
                'sample_weight counts rows of which X has one each, and noise="swap" exchanges the '
                "rows of X; give each row as often as it counts, or call fit and transform."
            )
        check_swappable(known(X))
        donors = refuse_share(self.noise)
        self.fit(X, y, **fit_params)
        if y is None and donors is None:
            return self.transform(X)
        return self._swapped_beside(X, y, fit_params.get("sensitive_features"))

    def noisier(self, factor: float) -> Self:
        """Return a copy of this fitted noiser that adds ``factor`` times the noise.

        Its releases are of the same values, so that those of both add up in one `Ledger`, whose
        ``transform(noiser, X, factor=...)`` makes them.

        Parameters
        ----------
        factor : float
            At least 1.

        Returns
        -------
        PufferfishNoiser
            Its certificate states the loss of the original, which more noise only lowers.

        Raises
        ------
        ValueError
            If ``factor`` is below 1, or the values of a column do not lie on the grid of noise
            that large, as whole numbers, categories and booleans do; of an optimal channel, which
            has no noise.

        Examples
        --------
        >>> import pandas as pd
        >>> from sklearn_puffer import PufferfishNoiser
        >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
        >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
        >>> noiser = PufferfishNoiser(epsilon=0.5, sensitive="loan").fit(table)
        >>> bool(noiser.noisier(3).theta_["cars"] >= 3 * noiser.theta_["cars"])
        True
        """
        self._check_as_certified()
        if not check_positive(factor, "factor") >= 1.0:
            raise ValueError(
                f"factor must be at least 1, got {factor!r}; for less noise fit with a larger "
                "epsilon."
            )
        other = copy.copy(self)
        other._fitted = self._fitted.noisier(float(factor))
        other._go_on_counting(self)
        return other

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        swap = record_swap(self.noise) is not None
        tags.input_tags.allow_nan = self.missing in ("category", "propagate") or swap
        return tags

    def _fit(self, X: Any, sensitive_features: Any, sample_weight: Any) -> None:
        settings = Settings.of(self.get_params(deep=False))
        check_mechanism(settings)
        refuse_weights(settings.grouped, sample_weight)
        if self.sensitive is None and sensitive_features is None:
            raise ValueError(say.no_secret_message(get_config()["enable_metadata_routing"]))
        if self.sensitive is not None and sensitive_features is not None:
            raise ValueError(
                f"sensitive={self.sensitive!r} and sensitive_features are both given; "
                "name the secrets in one of the two ways."
            )
        if is_lazy(X):
            check_beside(X, sensitive_features, sample_weight)
            if sensitive_features is not None:
                settings = replace(settings, sensitive=sensitive_features)
            table, sample_weight = first_table(self, X, sample_weight), None
        else:
            X = known(X)
            table = first_table(self, X)
        given = None
        if sensitive_features is not None and not is_lazy(X):
            given = secret_columns(sensitive_features, table.n_rows, X)
        service = None
        if settings.swap is not None and settings.swap.donors is not None:
            refuse_lazy_donors(table)
            entropy = system_entropy() if settings.seed is None else seeded_entropy(settings.seed)
            found, service = with_reserve(settings, table, given, sample_weight, entropy)
            self._take(LearntSwap(found), table)
        elif settings.swap is not None and isinstance(table, LazyTable):
            self._take(LearntSwap(find_lazily(settings, table)), table)
        elif settings.swap is not None:
            read = read_rows(settings, table, given, sample_weight)
            self._take(LearntSwap(find_swap(read)), table)
        elif settings.channel is None:
            self._take(learn(settings, table, given, sample_weight), table)
        else:
            self._take(learn_channel(settings, table, given, sample_weight), table)
        _services.pop(self, None)  # the donors of an earlier fit
        if service is not None:
            _services[self] = service
            self._warn(few_served(found), "reserve", UtilityWarning, stacklevel=3)

    def _take(self, learnt: Learnt | LearntChannel | LearntSwap, table: Source) -> None:
        read = learnt if isinstance(learnt, Learnt) else learnt.read
        grouped = None if isinstance(learnt, LearntChannel) else learnt.grouped
        ids = [] if grouped is None else [grouped.column]
        passed = [*read.passed, *(name for name in ids if name not in read.passed)]
        rules = TableRules(
            names=table.names,
            named=hasattr(self, "feature_names_in_"),
            sensitive=read.hidden,
            passed=passed,
            order=[n for n in table.names if n in read.public or n in passed],
            missing=read.settings.missing,
            patterns=learnt.patterns() if isinstance(learnt, Learnt) else {},
            margins=[] if isinstance(learnt, LearntSwap) else learnt.margins,
            groups=grouped,
        )
        fitted = FittedMechanism(rules, learnt.mechanism(), learnt.certificate())
        self._fitted = fitted.sealed()
        for name in ("channel_", "swap_"):
            self.__dict__.pop(name, None)
        if isinstance(learnt, LearntSwap):
            self.swap_ = learnt.swap()
        elif isinstance(learnt, LearntChannel):
            self.channel_ = learnt.channel()
        self.secret_pairs_ = read.pairs
        self.priors_ = {} if isinstance(learnt, LearntSwap) else learnt.named_priors()
        self._note_parameters()
        self._go_on_counting()
        self._warn(learnt.warnings(), "fit", stacklevel=4)
        useless = [say.alike_sentence(learnt.always_alike)] if learnt.always_alike else []
        if any(column.worse for column in learnt.utility):
            channel = not isinstance(learnt, Learnt)
            useless = [say.worthless_sentence(learnt.utility, channel=channel), *useless]
        self._warn(useless, "utility", UtilityWarning, stacklevel=4)

    @property
    def donors_left_(self) -> Any:
        """What is left to release rows one by one: a DataFrame by stratum and cell.

        ``donors`` and ``senders`` are rows of the reserve, and ``rows_left`` says how many rows of
        the stratum will be released. It tells from and to which cells rows went: show it to nobody.
        """
        check_is_fitted(self)
        if not gives_donors(self.noise):
            raise AttributeError("donors_left_ is there with noise=RecordSwap(donors=...) only.")
        if self not in _services:
            raise ValueError(NO_RESERVE)
        return _services[self].left()

    def _swapped_beside(self, X: Any, y: Any, given: Any) -> Any:
        """Return the fitted rows, exchanged among those whose labels are equal."""
        swap = self._fitted.swap
        assert swap is not None
        self._check_certified()
        table = next_table(self, X)
        secrets = None if given is None else secret_columns(given, table.n_rows, X)
        read = read_rows(Settings.of(self.get_params(deep=False)), table, secrets, None)
        wide = None if read.groups is None else read.groups.wide
        labels = label_codes(y, table.n_rows, X, wide)
        release, places = beside_labels(swap, read, labels)
        draw = Draw(self._entropies()())
        return release.released(table, self._fitted.rules, draw, places)[0]

    def _released(
        self, table: Table, X: Any, keying: Keying | None, watch: Watch | None
    ) -> Released:
        if not gives_donors(self.noise):
            return super()._released(table, X, keying, watch)
        check_keyless(keying)
        if self not in _services:
            raise ValueError(NO_RESERVE)
        fitted, entropy = self._fitted, self._entropies()()(0)
        assert fitted.swap is not None
        rules = fitted.rules
        served = _services[self].served(fitted.swap, table, rules.passed, rules.order, entropy)
        return served, None

    def _check_streamed(self) -> None:
        if gives_donors(self.noise):
            raise ValueError(
                "donors are given by transform, to the rows of tables of any size; call it with "
                "each batch, in the type of the table that was fitted."
            )
        super()._check_streamed()

    def _planned(self, X: Any, keying: Keying) -> Any:
        if gives_donors(self.noise):
            check_keyless(keying)
        return super()._planned(X, keying)
