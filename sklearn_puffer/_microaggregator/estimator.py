"""`PufferfishMicroaggregator`: a row is released as the typical row of similar ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_puffer._base import (
    Array,
    check_choice,
    check_count,
    check_jobs,
    check_positive,
    check_seed,
    fitting,
)
from sklearn_puffer._engines import is_lazy
from sklearn_puffer._microaggregator.fit import learn
from sklearn_puffer._microaggregator.reading import Settings
from sklearn_puffer._microaggregator.release import forget
from sklearn_puffer._release import LearntMechanism, TableRelease
from sklearn_puffer._rows import Columns, FitRows, Guarantee, check_units, next_table
from sklearn_puffer._tables import beside as columns_beside
from sklearn_puffer._tables import readable, readable_column


class PufferfishMicroaggregator(TableRelease):
    r"""Release typical rows, moved so that none of them tells much about sensitive columns.

    `fit` groups similar rows, counts the secrets of each group, and finds the channel K between
    groups that changes rows least and satisfies

    .. math:: \frac{P(b \mid s)}{P(b \mid t)} =
              \frac{\sum_a m_s(a) K(b|a) / \sum_a m_s(a)}{\sum_a m_t(a) K(b|a) / \sum_a m_t(a)}
              \le e^{\varepsilon}

    for every typical row b and protected pair (s, t), over **all** masses m within a simultaneous
    confidence set around the counts. `transform` finds the group a of each row, draws b from
    K(.|a), independently, and releases the typical row of b. It needs nobody's secret, takes single
    rows, and refuses no row that can be read.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget in nats: what a released row may add to or take from the log odds.
    sensitive : str, int, list of these and of tuples, or {column: bins or None}, default=None
        The sensitive columns of X, which are never released. Each is protected by itself, and a
        tuple in the list as a combination: ``[("race", "sex"), "income"]``. Without them, pass
        ``sensitive_features`` to `fit`.
    public : str, int, list of these, or None, default=None
        The columns that are released; by default all others. Dates must be named here.
    known : str, int, list of these, or {column: bins or None}, default=None
        The columns that readers know of a row, all of them together. They are there at `transform`
        and are released as they are, or as the median of one of so many quantile bins. Each
        combination of their values, a stratum, has a channel of its own, and the budget is for what
        a released row adds to them; who knows a value more finely than its bin is not covered. At
        most 1,000 strata.
    joined : str, int or list of these, default=None
        Columns of X that readers may join to a released row later: the budget holds for readers who
        know any of them, too, as it is: not for who knows a coarser form, such as a band of its
        values, unless a column of that form is named as well. They are not released. At most 30
        values, and combinations of those of several columns.
    secret_pairs : "all", list of pairs, or {column: list of pairs}, default="all"
        The protected pairs of secrets; those of a combination are tuples.
    n_prototypes : "auto" or int, default="auto"
        How many typical rows there are at most. "auto" tries 8, 30, 60 and 100 until the change
        rises, and takes the number that changes least.
    min_size : int, default=30
        The fewest fitted rows that a typical row stands for.
    level : float or None, default=0.95
        Confidence that the set holds the true masses. None takes the masses as counted.
    values : {"typical", "drawn"}, default="typical"
        "drawn" draws each column of a released row from the rows of its group, in bins of at least
        ``min_size`` fitted rows: the spread of columns is kept, their dependence within a group is
        not.
    label_weight : float, default=2.0
        Weight of the predicted y of `fit` in the distance between rows; 0 leaves y out.
    weights : dict, default=None
        The unit of distance of columns; by default the standard deviation, and 1 for a change of
        category.
    remainder : {"drop", "passthrough"}, default="drop"
        What is done with columns that are neither sensitive, public, known nor joined. Neither
        passed columns are protected, nor what they reveal together with a typical row.
    random_state : int or None, default=None
        None draws fresh cryptographic bits at each call. An integer is for tests, and warns.
    n_jobs : int or None, default=None
        Processes that solve the programs of strata; None is one. The result is the same. Processes
        take seconds to start, so small programs gain nothing. A fit without ``known`` solves one
        program at a time.
    verbose : int, default=0
        1 shows progress on standard error after two seconds.

    Attributes
    ----------
    certificate_ : Certificate
        What is guaranteed to which two readers, and what is not covered.
    utility_ : pandas.DataFrame of shape (n_public, 10)
        How much each column changes: as for `PufferfishNoiser`, with ``change_sd`` split into
        ``grouping`` and ``moving``.
    prototypes_ : pandas.DataFrame of shape (n_prototypes, n_public)
        The typical rows.
    counts_ : pandas.DataFrame of shape (n_prototypes, n_secrets)
        Fitted rows of each protected secret. With known columns these are in the index, before the
        prototype. Keep it, and ``channel_``, where the table is.
    channel_ : scipy.sparse.csr_array of shape (n_prototypes, n_prototypes), or dict of these
        K, whose rows sum to 1; with known columns by stratum, its value or the tuple of its values.
    labels_ : ndarray of shape (n_rows,)
        The typical row nearest to each fitted row with a positive weight. As they are personal
        data, copies and saved files do not hold them; ``assign`` computes them again.
    secret_pairs_ : dict
        The protected pairs by sensitive column.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where `fit` saw string column names.

    Raises
    ------
    UncertifiedError
        By `transform`, if the certificate does not hold.

    See Also
    --------
    PufferfishNoiser : For few columns.

    Notes
    -----
    *Formal guarantees.* For a row that was not fitted: a reader who knows the distribution, K, the
    fitted table with its secrets and everything about all other people, and sees the released row,
    shifts the odds between two secrets by a factor of at most e^epsilon, if the masses lie in the
    set and prototypes are as frequent as in `fit`. For a fitted row: so does a reader who holds the
    list of fitted rows, with or without secrets, but does not know whose they are, and sees one
    released row. A reader who knows the rows of all other fitted people finds the last by
    subtraction, and is not covered. The loss is computed exactly, in whole numbers, by code that
    shares nothing with the linear program. A second independent release of a row is not covered:
    with ``row_id`` and a key a row is released alike each time.

    References
    ----------
    Defays and Nanopoulos 1993, Domingo-Ferrer and Mateo-Sanz 2002 (microaggregation); Hoeffding
    1956 (bounds for unequal chances).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishMicroaggregator
    >>> rng = np.random.default_rng(0)
    >>> ill = rng.random(2000) < 0.3
    >>> table = pd.DataFrame({"ill": ill, "age": 40 + 9 * ill + rng.integers(0, 20, 2000)})
    >>> rows = PufferfishMicroaggregator(epsilon=1.0, sensitive="ill").fit(table)
    >>> rows.certificate_.holds, bool(0.9 < rows.certificate_.loss <= 1.0)
    (True, True)
    >>> released = rows.transform(pd.DataFrame({"age": [41, 67, 200]}))
    >>> bool(released["age"].isin(rows.prototypes_["age"]).all())
    True

    Readers may know the ward of a row; each has a channel of its own:

    >>> table["ward"] = rng.choice(["A", "B"], 2000)
    >>> rows = PufferfishMicroaggregator(sensitive="ill", known="ward", n_prototypes=8).fit(table)
    >>> list(rows.transform(table).columns), list(rows.channel_)
    (['age', 'ward'], ['A', 'B'])
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        sensitive: Any = None,
        public: Any = None,
        known: Any = None,
        joined: Any = None,
        secret_pairs: Any = "all",
        n_prototypes: Any = "auto",
        min_size: int = 30,
        level: float | None = 0.95,
        values: str = "typical",
        label_weight: float = 2.0,
        weights: Any = None,
        remainder: str = "drop",
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.sensitive = sensitive
        self.public = public
        self.known = known
        self.joined = joined
        self.secret_pairs = secret_pairs
        self.n_prototypes = n_prototypes
        self.min_size = min_size
        self.level = level
        self.values = values
        self.label_weight = label_weight
        self.weights = weights
        self.remainder = remainder
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn typical rows and the channel between them.

        Parameters
        ----------
        X : DataFrame, lazy table or array-like of shape (n_rows, n_features)
            The rows to group and count. The rows of a lazy table are counted by its engine, and
            have no order: there are no ``labels_`` and no ``sample_weight``, and
            ``sensitive_features`` are names of columns.
        y : array-like of shape (n_rows,), default=None
            What a model of the released rows is to predict: groups then separate what it needs. It
            is never released. The certificate says that it was used. A y that determines a
            sensitive column, or is determined by it, is refused.
        sensitive_features : Series, DataFrame or array-like of n_rows, default=None
            The secrets, where they are not columns of X; aligned by position.
        sample_weight : array-like of shape (n_rows,), default=None
            Non-negative whole numbers: how many people each row stands for, towards ``min_size``
            and the set, too. The weights of a survey are no such counts.

        Returns
        -------
        self
            The fitted estimator.
        """
        with fitting(self):
            self._fit(X, y, sensitive_features, sample_weight)
        return self

    def assign(self, X: Any) -> Array:
        """Return the index of the typical row that is nearest to each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_rows, n_features)
            As `transform` takes it.

        Returns
        -------
        ndarray of int of shape (n_rows,)
            Rows of ``prototypes_``. They are not protected: keep them where the table is.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_puffer import PufferfishMicroaggregator
        >>> X = np.repeat([[0.0], [1.0]], 50, axis=0)
        >>> secrets = np.tile([0, 1], 50)
        >>> rows = PufferfishMicroaggregator().fit(X, sensitive_features=secrets)
        >>> rows.assign([[0.1], [0.9], [7.0]]).tolist()
        [0, 1, 1]
        """
        check_is_fitted(self)
        mechanism: Any = self._fitted.mechanism
        prototypes = mechanism.prototypes
        return np.asarray(prototypes.assign(prototypes.coordinates.read(next_table(self, X))))

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "labels_"}

    def _checked_parameters(self) -> Settings:
        params = self.get_params(deep=False)
        guarantee = Guarantee.of(params)
        n_prototypes = self.n_prototypes
        if not (isinstance(n_prototypes, str) and n_prototypes == "auto"):
            way_out = '; leave it at "auto" to choose by total change'
            check_count(n_prototypes, "n_prototypes", way_out=way_out)
        level, way_out = self.level, "take 0.95, or None for masses as counted"
        if level is not None and check_positive(level, "level", way_out) >= 1.0:
            raise ValueError(f"level must lie in (0, 1), got {level!r}; {way_out}.")
        label_weight = self.label_weight
        if label_weight != 0:
            check_positive(label_weight, "label_weight", "take 2.0, or 0 to leave y out")
        return Settings(
            guarantee=guarantee,
            columns=Columns.of(params),
            joined=self.joined,
            n_prototypes=None if n_prototypes == "auto" else int(n_prototypes),
            min_size=check_count(self.min_size, "min_size", minimum=2),
            level=None if level is None else float(level),
            values=check_choice(self.values, "values", ["typical", "drawn"]),
            label_weight=float(label_weight),
            weights=check_units(self.weights),
            seed=check_seed(self.random_state),
            n_jobs=check_jobs(self.n_jobs),
        )

    def _rows_to_fit(self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> FitRows:
        rows = super()._rows_to_fit(X, y, sensitive_features, sample_weight)
        if y is None or self.label_weight == 0.0 or is_lazy(X):
            return replace(rows, y=None if self.label_weight == 0.0 else y)
        columns = columns_beside(readable_column(y, "y"), rows.table.n_rows, readable(X), "y")
        if len(columns) != 1:
            raise ValueError(f"y has {len(columns)} columns, and one is used; pass one of them.")
        return replace(rows, y=next(iter(columns.values())))

    def _learnt(self, parameters: Settings, rows: FitRows) -> LearntMechanism:
        return learn(parameters, rows).mechanism()

    def _taken(self, learnt: LearntMechanism) -> None:
        forget(self)
