"""`PufferfishNoiser`: the transformer that learns a prior, calibrates the noise and releases."""

from __future__ import annotations

import copy
import itertools
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_puffer._base import (
    PufferfishWarning,
    check_choice,
    check_jobs,
    check_positive,
    check_seed,
    check_verbose,
    digest,
    listening,
)
from sklearn_puffer._noise import Entropy, seeded_entropy, system_entropy
from sklearn_puffer._noiser.channel_fit import learn_channel
from sklearn_puffer._noiser.channel_problem import check_channel
from sklearn_puffer._noiser.channel_release import ChannelRelease, Moved
from sklearn_puffer._noiser.channel_result import LearntChannel
from sklearn_puffer._noiser.fit_table import learn
from sklearn_puffer._noiser.formed import form_of, state_of
from sklearn_puffer._noiser.input_table import first_table, next_table, refuse_lazy
from sklearn_puffer._noiser.keyed_rows import KeyedRows, Keying, Noted, Noting, check_keying
from sklearn_puffer._noiser.lazy_release import check_lazily, plan_release
from sklearn_puffer._noiser.lazy_rows import check_beside, with_sensitive
from sklearn_puffer._noiser.lazy_swap import find_lazily, plan_swap
from sklearn_puffer._noiser.margins import Margin, Watch, check_on_drift, drift_found, watch_of
from sklearn_puffer._noiser.one_release import column_releases, drawn
from sklearn_puffer._noiser.release import (
    ColumnRelease,
    as_certified,
    finer_steps,
    fingerprint,
    noisier,
    scale_of,
)
from sklearn_puffer._noiser.result import Learnt, with_noise
from sklearn_puffer._noiser.settings import Settings, check_unknown
from sklearn_puffer._noiser.streams import StreamRelease, keying_of_stream
from sklearn_puffer._noiser.swap_fit import find_swap, read_rows
from sklearn_puffer._noiser.swap_release import SwapRelease
from sklearn_puffer._noiser.swap_reserve import (
    NO_RESERVE,
    Service,
    check_keyless,
    gives_donors,
    refuse_lazy_donors,
    refuse_share,
    with_reserve,
)
from sklearn_puffer._noiser.swap_result import LearntSwap
from sklearn_puffer._noiser.swap_tables import (
    beside_labels,
    check_swappable,
    label_codes,
    refuse_stream,
    swapped,
)
from sklearn_puffer._noiser.written_release import as_text, from_text
from sklearn_puffer._releases import (
    CertifiedEstimator,
    OverspentError,
    UncertifiedError,
    UtilityWarning,
    moved_rows_sentence,
    utility_frame,
    write_new,
)
from sklearn_puffer._releases import sentences as say
from sklearn_puffer._tables import (
    LazyTable,
    Name,
    Source,
    Table,
    as_pandas,
    is_lazy,
    known,
    reader_of,
    secret_columns,
    series,
    stream_of,
)
from sklearn_puffer.noise import record_swap

# how often each seeded noiser has transformed: beside the estimator, so that it is never saved
_calls: WeakKeyDictionary[PufferfishNoiser, Iterator[int]] = WeakKeyDictionary()
# what is left to release rows one by one: in no copy, so that nothing of it is given twice
_services: WeakKeyDictionary[PufferfishNoiser, Service] = WeakKeyDictionary()
# What clones of one noiser have warned of: which of them first, and of what share of the rows.
_Family = dict[str, tuple[object, float]]
_families: WeakKeyDictionary[PufferfishNoiser, _Family] = WeakKeyDictionary()
_clones: WeakKeyDictionary[PufferfishNoiser, tuple[_Family, object]] = WeakKeyDictionary()


class PufferfishNoiser(TransformerMixin, CertifiedEstimator):
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
        equal, and ``stayed_by_secret`` and ``unchanged_by_secret``; ``floor``, the most that a
        further draw tells, if there is one.
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

    _channel: ChannelRelease | None = None  # in the place of noise
    _swap: SwapRelease | None = None  # the same
    _releases: list[ColumnRelease]
    _least: list[Any]
    _laws: list[Any]
    _margins: Sequence[Margin] = ()  # of a noiser that was saved before there were any

    _later = frozenset({"unknown", "on_uncertified", "random_state", "n_jobs", "verbose"})

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
            (2^22 values at most; of numbers with ``n_bins`` any number of them, in some five
            queries), and one for all columns and bins together, or, if their rows may be too many,
            one for each sensitive column and group of columns (2^23 rows at most). What is learnt
            is what is learnt of the same rows in memory.
            Channels and classifiers are fitted on all distinct rows of the sensitive and public
            columns, before they are binned, which is one scan. A swap learns from at most 131,072
            different ones, chosen by digests of their public values, and has the engine count the
            secrets of all rows in their cells.
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
        # a form that was read has no parameters
        if record_swap(getattr(self, "noise", None)) is None:
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

    def transform(
        self,
        X: Any,
        *,
        row_id: Any = None,
        key: Any = None,
        dataset: str = "",
        release: int = 0,
        on_drift: str = "warn",
    ) -> Any:
        r"""Release the public columns of X, each call with fresh noise, or with keyed noise.

        Keyed noise, of ``row_id=``, is a function of the key, what is drawn, the data set, the
        release number, the row's id and all its public values as they are drawn from (their bins,
        their grid). So an unchanged row comes out the same every time, under any order and
        partition of the rows, beside any other columns, on any machine, and nothing is gained by
        asking again.

        Parameters
        ----------
        X : DataFrame, lazy table or array-like of shape (n_rows, n_features)
            In a DataFrame the columns are found by name: in any order, beside any others, and only
            those that are released need be there. An array has those of `fit` in their order. A
            lazy table (a polars LazyFrame, a DuckDB relation, a Dask or Spark DataFrame, an Ibis
            table on DuckDB) needs ``row_id``.
        row_id : str, int or array-like of n_rows, default=None
            Asks for keyed noise: the column of X, or the column beside it, that holds an id of each
            row, present and unique in the whole table (of which X may be a part): whole numbers,
            strings, UUIDs, bytes, dates or times, each the same id in every type that holds it. It
            is not released unless it is passed or public.
        key : bytes, Path or "env:NAME", default=None
            At least 16 random bytes (``secrets.token_bytes(32)``), a file that holds them, or the
            environment variable; kept nowhere. None draws one that is forgotten after the call.
            The plan of a lazy table holds it, but for a variable, of which it holds the name.
            Bits are those of AES, from the extra ``keyed``; of a key that begins with
            ``b"blake2b:"`` those of blake2b, which needs no extra.
        dataset : str, default=""
            Name of the table: other names have independent noise.
        release : int, default=0
            Number of the release: another one is drawn anew, and is one more release. Below
            ``releases``, which the certificate is for; a `PersonLedger` counts by itself.
        on_drift : {"warn", "raise", "ignore"}, default="warn"
            What is done where the values of some column are distributed otherwise than in `fit`,
            so that the certificate is about other rows than these: a test of all columns together,
            which rows of the fitted law fail once in a hundred calls at most, whatever that law is.
            Of 262,144 rows or more it counts 131,072 at least, spread evenly and chosen by their
            places alone; missing and unseen values are counted in all. Of fewer than 30 rows
            nothing is said, and nothing of a lazy table, of which "raise" is refused. It looks at
            each column by itself;
            ``certificate_.check(X)`` has the figures.

        Returns
        -------
        table of the type of X, of shape (n_rows, n_public)
            With the index and types of X, and the released (and passed) columns in the order of
            `fit`; of a pyarrow RecordBatch, a Table. Of a lazy table a lazy one of its engine, of
            which nothing is computed yet but that all ids are there and differ.

        Raises
        ------
        UncertifiedError
            If the certificate does not hold.
        OverspentError
            If ``release`` is beyond what the certificate counts.
        TypeError, ValueError
            If X does not fit, ids are missing or not unique, or the key is none; of a key without
            ``row_id``, or of ``row_id`` with ``random_state``; under ``on_drift="raise"`` if rows
            do not look like those of `fit`.
        ModuleNotFoundError
            If the key asks for AES, and the package `cryptography` is not installed.

        Notes
        -----
        *Formal guarantees.* Under a key that stays secret, a release of distinct ids has the law of
        one fresh release, up to what a computer can do to tell AES-256 (or keyed blake2b) from a
        random function. Fitting anew, `noisier`, another ``dataset`` or ``release`` give bits that
        are independent in the same sense. A row whose public values changed is drawn anew, as a
        whole: that it changed, and that it changed back, is seen, and not protected, and each
        different row of an id is one more release of that person, also of the columns that stayed
        as they were. They add up as releases of one row do (``releases=``) if the changes tell
        nothing about the secret and the first row, and can tell twice as much otherwise; an optimal
        channel without a floor promises nothing for a second one. No call sees earlier ones, but a
        `PersonLedger` does. Who has the key takes all noise away. Fit once, and save the noiser:
        what is fitted anew, on another processor or with other versions of numpy and scipy, need
        not be the same to the last bit, and its keyed noise is then another release.

        *Swaps.* Rows are exchanged among those of X: its cells are counted, flows are solved for
        it, and held to the budget before anything is released. Their secrets are taken to be as
        frequent in each cell as in `fit`; `fit_transform` takes them as they are. One release is
        all that is promised: under a key the same table is the same release.

        With ``RecordSwap(donors=)`` each row is released by itself, by the counts of `fit`: it
        stays as it is or becomes a donor, which is given once; more rows than the donors are for
        raise an ``OverspentError``.

        *Lazy tables.* Each part of a lazy table is released where it is, by the code and the bits
        of a release in memory: a plan that is computed again, in other parts or after a failure is
        the same release. Whoever reads the plan reads the key. Ids are counted when the plan is
        made: X must not change before it is computed. A value that has no place fails the task
        that meets it, with an error that names its column and not the value, and nobody is warned
        of values that were moved. DuckDB prints such an error, and raises one that points to it.
        A swap of a lazy table is drawn when the plan is made, from some 40 bytes of each row and
        the public values of those that leave their cell; the plan holds these, and who got whose.
        A table whose rows have changed since fails.

        Examples
        --------
        >>> import pandas as pd
        >>> from sklearn_puffer import PufferfishNoiser
        >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
        >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars, "client": range(30)})
        >>> noiser = PufferfishNoiser(sensitive="loan", public=["cars"]).fit(table)
        >>> key = b"blake2b:" + bytes(32)  # secrets.token_bytes(32), for noise that is secret
        >>> monday = noiser.transform(table, row_id="client", key=key, dataset="clients")
        >>> tuesday = noiser.transform(table[::-1], row_id="client", key=key, dataset="clients")
        >>> tuesday[::-1].equals(monday)
        True
        """
        keying = check_keying(row_id, key, dataset, release, self.random_state)
        check_on_drift(on_drift, self._margins)
        loud = check_verbose(self.verbose)
        self._check_as_certified()
        self._check_certified()
        self._check_planned(keying)
        container = getattr(self, "_container", None) or get_config()["transform_output"]
        if is_lazy(X) and keying is not None:
            check_lazily(container, on_drift)
            with listening(loud, "release"):
                if self._swap is not None:
                    check_keyless(keying if gives_donors(self.noise) else None)
                    return plan_swap(self, X, keying, self._fingerprint(self.certificate_))
                return plan_release(self, X, keying, self._context(keying))
        if self._swap is not None:
            with listening(loud, "release"):
                one_by_one = gives_donors(self.noise)
                whole = self._served(X, keying) if one_by_one else self._swapped(X, keying)
            return as_pandas(whole) if container == "pandas" else whole
        with listening(loud, "release"):
            table = next_table(self, X)
            keyed = None if keying is None else keying.rows(table, X, self._context(keying))
            watch = watch_of(self._margins, on_drift, table.n_rows)
            whole, moved = self._drawn(table, keyed, self._entropies()(), watch)
            drift = drift_found(watch, on_drift)
        if drift:
            warnings.warn(drift, PufferfishWarning, stacklevel=3)
        if moved:
            sentence, share = _moved_sentence(moved), _moved_share(moved, table.n_rows)
            self._warn([sentence], "moved", share=share, stacklevel=3)
        return as_pandas(whole) if container == "pandas" else whole

    def transform_batches(
        self,
        batches: Any,
        *,
        row_id: Any = None,
        key: Any = None,
        dataset: str = "",
        release: int = 0,
    ) -> Any:
        """Release a stream of rows, few of them in memory at a time, as one release of a table.

        Parameters
        ----------
        batches : pyarrow Dataset, RecordBatchReader or Table, DataFrame, or iterable
            The rows, in pieces of one type: batches, tables or DataFrames. Whatever hands on an
            Arrow stream (a DuckDB relation) is one. Columns are found by name, and only those that
            are released, and the ids, are read.
        row_id : str or int, default=None
            The column of ids, as in `transform`. They are unique in the whole stream: a Dataset, a
            table or a list is read once more for them, before anything is drawn; those of a stream
            that can be read once are held against all earlier ones as they come, and rows with an
            id that was there before are never released.
        key : bytes, Path or "env:NAME", default=None
            As in `transform`; None draws one key for the whole stream.
        dataset : str, default=""
            Name of the table, as in `transform`.
        release : int, default=0
            Number of the release, as in `transform`.

        Returns
        -------
        pyarrow.RecordBatchReader
            The released rows in their order: an iterator of batches whose ``schema`` is known from
            the start. Rows are drawn as it is read, once: it is one release, from the first row
            on, also where the rest is never read, or a later row is refused.

        Raises
        ------
        UncertifiedError, OverspentError
            As in `transform`.
        TypeError, ValueError
            As in `transform`; and of a later piece that does not fit, when it is read.
        ImportError
            If pyarrow is not installed.

        Notes
        -----
        Rows are drawn independently of each other, so that the law is that of `transform` on the
        whole table, and under a key so is every bit. Beside 65,536 rows there are 16 bytes for
        each id in memory, and beyond some millions of ids in an unnamed file. With a
        ``random_state`` each piece has noise of its own. What `transform` warns of is warned of
        once, when the last row was read; of an optimal channel's estimates, the largest is told.

        Examples
        --------
        >>> import pandas as pd
        >>> import pyarrow as pa
        >>> from sklearn_puffer import PufferfishNoiser
        >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
        >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
        >>> noiser = PufferfishNoiser(sensitive="loan").fit(table)
        >>> pieces = (pa.table({"cars": [day, day + 4]}) for day in (1, 5))
        >>> released = noiser.transform_batches(pieces)
        >>> released.schema.names, [batch.num_rows for batch in released]
        (['cars'], [2, 2])
        """
        keying = check_keying(row_id, key, dataset, release, self.random_state)
        loud = check_verbose(self.verbose)
        self._check_as_certified()
        self._check_certified()
        self._check_planned(keying)
        refuse_stream(self)
        stream = stream_of(batches)
        own = StreamRelease(self, stream, keying_of_stream(keying, stream), verbose=loud)
        with listening(loud, "release"):
            own.check_ids()
        return reader_of(own.schema, own.batches(self._entropies(), verbose=loud))

    def _release_noted(
        self, X: Any, row_id: Any, key: bytes, *, marks: Any, whole: bool, **about: Any
    ) -> tuple[Any, Noted]:
        """Return a keyed release, and what a ledger of persons keeps of its rows."""
        units = [1]
        if self._channel is None and self._swap is None:
            pairs = zip(self._releases, self._least, strict=True)
            units = [finer_steps(release, grid) for release, (_, grid, _) in pairs]
        noting = Noting(row_id, marks, whole, units)
        released = self.transform(X, row_id=noting, key=key, **about)
        assert noting.noted is not None
        return released, noting.noted

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
        if self._channel is not None or self._swap is not None:
            raise ValueError(
                f"factor={factor!r} asks for more noise, and there is none here; fit with a "
                "smaller epsilon, or with noise='laplace'."
            )
        if not check_positive(factor, "factor") >= 1.0:
            raise ValueError(
                f"factor must be at least 1, got {factor!r}; for less noise fit with a larger "
                "epsilon."
            )
        other = copy.copy(self)
        other._releases = [noisier(release, float(factor)) for release in self._releases]
        other.certificate_ = with_noise(
            self.certificate_, other._releases, float(factor), self._laws
        )
        _calls[other] = _calls.setdefault(self, itertools.count())  # a seed never draws twice alike
        return other

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return what `transform` needs as JSON, without the priors, and write it to a file.

        `PufferfishRelease.from_json` makes a read-only transformer of it, in any process and beside
        other versions of Python, pandas and scikit-learn.

        Parameters
        ----------
        path : str or Path, default=None
            A file that does not exist yet; it appears whole or not at all.

        Returns
        -------
        str
            The form: names and rules, and of each public column its values (or the ends and medians
            of its bins, or its categories), noise and scale; the certificate; and what tells it
            from all others. It holds no law of a secret. But it still tells
            which values occur, and in how many thousandths of all rows (of fewer than a thousand
            rows, in how many), so that rows can be seen to differ from them; of categories without
            an order also their exact shares, from which they are drawn anew; and what the
            certificate tells. With an optimal channel it
            holds the distinct rows and the channel, and is key material, as it says at its top.

        Raises
        ------
        UncertifiedError
            If the certificate does not hold.
        ValueError
            If there is a ``random_state``, a family of noise, a cost or a type of category of your
            own, or if the noiser was changed after `fit`.
        FileExistsError
            If there is such a file.

        Notes
        -----
        The whole noiser is saved by joblib or pickle, and holds the priors: keep it where you keep
        the table. `skops` saves what this form makes, but no noiser, whose priors lie under tuples
        of columns.

        Examples
        --------
        >>> import pandas as pd
        >>> from sklearn_puffer import PufferfishNoiser
        >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
        >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
        >>> PufferfishNoiser(epsilon=0.5, sensitive="loan").fit(table).to_json()[:37]
        '{"schema":"sklearn_puffer.release/2",'
        """
        self._check_as_certified()
        if not self.certificate_.holds:
            raise UncertifiedError(
                "the certificate does not hold, so there is no release to hand on; print it to see "
                "the remedy."
            )
        if self._swap is not None:
            raise ValueError(
                "a swap is made of a classifier, which JSON does not hold; save the noiser with "
                "joblib, and keep it where you keep the table."
            )
        form = form_of(self)
        text = as_text(form)
        other = copy.copy(self)  # what is read back must be what was certified
        other.__dict__.update(state_of(from_text(text)))
        other._check_as_certified()
        if path is not None:
            write_new(path, text.encode(), private=bool(form.key_material))
        return text

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the kind of table that `transform` returns.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            "default" is the kind of X; None leaves the choice as it is.

        Returns
        -------
        self
            The noiser itself.
        """
        super().set_output(transform=transform)
        if transform is not None:
            self._container = transform
        return self

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        family = _clones[self][0] if self in _clones else _families.setdefault(self, {})
        _clones[clone] = family, object()
        if hasattr(self, "_container"):
            clone._container = self._container
        return clone

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the released columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of X, where it was an array.

        Returns
        -------
        ndarray of str objects
            In the order of `transform`.
        """
        check_is_fitted(self)
        own = getattr(self, "feature_names_in_", None)
        names = [f"x{k}" for k in range(self.n_features_in_)] if own is None else list(own)
        if input_features is not None:
            asked = list(input_features)
            if own is not None and asked != names:
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(asked) != len(names):
                raise ValueError(
                    f"input_features should have length equal to number of features "
                    f"({len(names)}), got {len(asked)}"
                )
            names = asked
        return np.array([names[self._names.index(name)] for name in self._order], dtype=object)

    @property
    def theta_(self) -> Any:
        """The noise scale of each public column: a Series, by name or position."""
        check_is_fitted(self)
        if self._swap is not None:
            raise AttributeError(
                "theta_ is the scale of noise, and this noiser swaps rows; look at swap_ and "
                "utility_."
            )
        if self._channel is not None:
            raise AttributeError(
                "theta_ is the scale of noise, and this noiser has a channel in its place; look at "
                "channel_ and utility_."
            )
        return series({each.column.name: scale_of(each) for each in self._releases}, "theta")

    @property
    def utility_(self) -> Any:
        """How much of each public column survives: a DataFrame, by name or position."""
        check_is_fitted(self)
        return utility_frame(self.certificate_.utility)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        swap = record_swap(getattr(self, "noise", None)) is not None  # a form has none
        tags.input_tags.allow_nan = self.missing in ("category", "propagate") or swap
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _fit(self, X: Any, sensitive_features: Any, sample_weight: Any) -> None:
        settings = Settings.of(self.get_params(deep=False))
        check_channel(settings)
        if self.sensitive is None and sensitive_features is None:
            raise ValueError(say.no_secret_message(get_config()["enable_metadata_routing"]))
        if self.sensitive is not None and sensitive_features is not None:
            raise ValueError(
                f"sensitive={self.sensitive!r} and sensitive_features are both given; "
                "name the secrets in one of the two ways."
            )
        if is_lazy(X):
            check_beside(X, sensitive_features, sample_weight)
            settings = with_sensitive(settings, sensitive_features)
            table, sample_weight = first_table(self, X, sample_weight), None
        else:
            X = known(X)
            table = first_table(self, X)
        given = None
        if sensitive_features is not None and not is_lazy(X):
            given = secret_columns(sensitive_features, table.n_rows, X)
        if settings.swap is not None and settings.swap.donors is not None:
            refuse_lazy_donors(table)
            entropy = system_entropy() if settings.seed is None else seeded_entropy(settings.seed)
            found, service = with_reserve(settings, table, given, sample_weight, entropy)
            self._take(LearntSwap(found), table)
            _services[self] = service
        elif settings.swap is not None and isinstance(table, LazyTable):
            self._take(LearntSwap(find_lazily(settings, table)), table)
        elif settings.swap is not None:
            self._take(
                LearntSwap(find_swap(read_rows(settings, table, given, sample_weight))), table
            )
        elif settings.channel is None:
            self._take(learn(settings, table, given, sample_weight), table)
        else:
            self._take(learn_channel(settings, table, given, sample_weight), table)

    def _take(self, learnt: Learnt | LearntChannel | LearntSwap, table: Source) -> None:
        public = learnt.public
        self._names = table.names
        self._sensitive_names = learnt.hidden
        self._passed = learnt.passed
        self._order = [n for n in table.names if n in public or n in learnt.passed]
        self._missing = learnt.settings.missing
        self._margins = learnt.margins
        self._patterns = learnt.patterns()
        _services.pop(self, None)  # the donors of an earlier fit
        for name in ("channel_", "_channel", "swap_", "_swap"):
            self.__dict__.pop(name, None)
        self._releases, self._least, self._laws = [], [], []
        if isinstance(learnt, Learnt):
            self._take_noise(learnt)
        elif isinstance(learnt, LearntSwap):
            self._swap, self.swap_ = learnt.release(), learnt.swap()
            self._releases = learnt.columns()
        else:
            self._take_channel(learnt)
        self.secret_pairs_ = learnt.pairs
        self.priors_ = learnt.named_priors()
        certificate = learnt.certificate()
        self.certificate_ = replace(certificate, fingerprint=self._fingerprint(certificate))
        self._note_parameters()
        _calls[self] = itertools.count()
        self._warn(learnt.warnings(), "fit", stacklevel=4)
        useless = [say.alike_sentence(learnt.always_alike)] if learnt.always_alike else []
        if any(column.worse for column in learnt.utility):
            channel = not isinstance(learnt, Learnt)
            useless = [say.worthless_sentence(learnt.utility, channel=channel), *useless]
        self._warn(useless, "utility", UtilityWarning, stacklevel=4)

    def _warn(
        self,
        sentences: Sequence[str],
        about: str,
        kind: type[Warning] = PufferfishWarning,
        *,
        share: float = 0.0,
        stacklevel: int,
    ) -> None:
        """Warn in one warning, if at all: of clones once, or where twice the share is concerned."""
        if not sentences:
            return
        if self in _clones:
            family, own = _clones[self]
            first, told = family.setdefault(about, (own, share))
            if first is not own and share <= 2.0 * told:
                return
            family[about] = first, max(told, share)
            sentences = [*sentences, say.ONCE]
        warnings.warn(" ".join(sentences), kind, stacklevel=stacklevel + 1)

    def _take_noise(self, learnt: Learnt) -> None:
        self._releases = learnt.releases
        self._least = [(scale_of(r), r.grid, r.remapping) for r in self._releases]
        self._laws = learnt.kept_laws()

    def _take_channel(self, learnt: LearntChannel) -> None:
        self._channel = learnt.release()
        self.channel_ = learnt.channel()

    def _context(self, keying: Keying) -> str:
        """Return what tells keyed noise that is drawn now from all other: what is really drawn.

        The fingerprint alone would be that of `noisier` copies, too, and the same bits at two
        scales undo the noise.
        """
        drawn = (self._fingerprint(self.certificate_), self._releases)
        return digest("sklearn_puffer.keyed/1", drawn, keying.dataset, keying.release)

    def _swapped(self, X: Any, keying: Keying | None) -> Any:
        """Return X with its public rows exchanged among their owners."""
        assert self._swap is not None
        table = next_table(self, X)
        # no name of a data set, under another one of which the same people would be swapped again
        context = self._fingerprint(self.certificate_)
        entropy = self._entropies()()(0)
        return swapped(self._swap, table, X, self._passed, self._order, entropy, keying, context)

    def _served(self, X: Any, keying: Keying | None) -> Any:
        """Return X with each row released by itself."""
        assert self._swap is not None
        check_keyless(keying)
        if self not in _services:
            raise ValueError(NO_RESERVE)
        table, entropy = next_table(self, X), self._entropies()()(0)
        return _services[self].served(self._swap, table, self._passed, self._order, entropy)

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
        assert self._swap is not None
        self._check_certified()
        table = next_table(self, X)
        secrets = None if given is None else secret_columns(given, table.n_rows, X)
        read = read_rows(Settings.of(self.get_params(deep=False)), table, secrets, None)
        release, places = beside_labels(self._swap, read, label_codes(y, table.n_rows, X))
        entropy = self._entropies()()(0)
        return swapped(release, table, X, self._passed, self._order, entropy, places=places)

    def _drawn(
        self,
        table: Table,
        keyed: KeyedRows | None,
        entropy: Callable[[int], Entropy],
        watch: Watch | None,
    ) -> tuple[Any, dict[Name, int] | Moved | None]:
        """Return the released table, and which values or rows were moved, if any."""
        check_unknown(self.unknown)
        n_jobs = check_jobs(self.n_jobs)
        return drawn(self, table, entropy, n_jobs=n_jobs, keyed=keyed, watch=watch)

    def _columns(self) -> Sequence[ColumnRelease]:
        """Return how each column is released, by noise or by a channel."""
        return column_releases(self)

    def _fingerprint(self, certificate: Any) -> str:
        about = (
            certificate.notion,
            certificate.releases,
            (certificate.rule, certificate.loss),
            (self._names, self._sensitive_names, self._passed, self._order),
            (self._missing, self._patterns),
        )
        if self._swap is not None:
            return self._swap.fingerprint(*about)
        if self._channel is not None:
            return self._channel.fingerprint(*about)
        drawn = [
            (release.column.name, scale_of(release), release.whole, release.grid)
            for release in self._releases
        ]
        told = [(each.name, each.theta, each.whole, each.grid) for each in certificate.columns]
        if drawn != told:
            return ""
        pairs = zip(self._releases, self._least, strict=True)
        return fingerprint(
            [as_certified(release, *least) for release, least in pairs],
            *about,
        )

    def _check_certified(self) -> None:
        way = check_choice(self.on_uncertified, "on_uncertified", ["raise", "warn"])
        if self.certificate_.holds:
            return
        certificate = self.certificate_
        message = (
            f"the certificate does not hold: the proven loss {certificate.loss:.6g} exceeds the "
            f"budget {certificate.notion.budget_name()}; "
            f'{certificate.remedy or "use another strategy."} Or pass on_uncertified="warn" to '
            "release all the same, without a guarantee."
        )
        if way == "raise":
            raise UncertifiedError(message)
        warnings.warn(message, PufferfishWarning, stacklevel=4)

    def _check_planned(self, keying: Keying | None) -> None:
        """Refuse a further draw that the certificate does not count, but where a ledger does."""
        certificate = self.certificate_
        ledger = keying is not None and keying.noting is not None
        if keying is None or ledger or keying.release < certificate.releases:
            return
        way = "fit with more releases=, or let a PersonLedger count them for each person."
        raise OverspentError(
            f"release={keying.release} is beyond the releases={certificate.releases} that the "
            f"certificate is for, numbered from 0: {getattr(certificate.rule, 'reason', way)}"
        )

    def _entropies(self) -> Callable[[], Callable[[int], Entropy]]:
        """Return what gives the random bits of each further table, by the place of a column."""
        seed = check_seed(self.random_state)
        if seed is None:
            return lambda: lambda column: system_entropy()
        self._warn([say.seed_sentence(seed)], "seed", stacklevel=4)
        calls = _calls.setdefault(self, itertools.count())

        def of_next() -> Callable[[int], Entropy]:
            call = next(calls)  # no two tables are drawn alike
            return lambda column: seeded_entropy(seed, column, call)

        return of_next


def _moved_sentence(moved: dict[Name, int] | Moved) -> str:
    return moved_rows_sentence(*moved) if isinstance(moved, Moved) else say.moved_sentence(moved)


def _moved_share(moved: dict[Name, int] | Moved, n_rows: int) -> float:
    """Return which share of the rows was moved, of single values that of the worst column."""
    return (moved.n_moved if isinstance(moved, Moved) else max(moved.values())) / n_rows
