"""`PufferfishSwap`: people of different secrets exchange whole rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from sklearn_puffer._base import check_choice, check_jobs, check_positive, fitting
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._codes import (
    Coarse,
    Secret,
    SecretRule,
    bins_of,
    check_no_identifier,
    distances_of,
    merges_of,
    public_columns,
    resolve,
    secret_pairs_of,
)
from sklearn_puffer._engines import LazyTable, is_lazy
from sklearn_puffer._release import LearntMechanism, TableRelease
from sklearn_puffer._rows import (
    Columns,
    FitRows,
    Guarantee,
    RowOrder,
    check_units,
    column_of,
    refuse_twice,
)
from sklearn_puffer._swap.certificate import certified
from sklearn_puffer._swap.exchange import Budget
from sklearn_puffer._swap.release import MOST_COMBINATIONS, RowExchange
from sklearn_puffer._swap.rows import EngineRows, Units
from sklearn_puffer._tables import Faults, Name, Values, first_values, has_row_labels


class PufferfishSwap(TableRelease):
    r"""Exchange whole rows between people of different secrets, so that no row tells whose it is.

    Of the :math:`n_s` people of each secret s, F(s, b) receive a row of secret b, on average, with

    .. math:: \frac{F(s, b) / n_s}{F(t, b) / n_t} \le e^{\varepsilon}

    for every b and protected pair (s, t), such that rows change least. Which people leave, and
    which places they receive, is uniformly random; then near rows are matched. The released table
    has exactly the rows of the original one in the exchanged columns, so all statistics of these
    are kept. Columns in ``ids`` and ``known``, and passed ones, stay with their people.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget in nats: what a row may add to or take from the log odds about its holder.
    delta : float, default=0.0
        Probability by which an event may exceed e^epsilon times that under the other secret.
    sensitive : str, int, list of these, or {column: bins, edges or None}, default=None
        The sensitive columns of X; of several their combinations are protected. Without them, pass
        ``sensitive_features``.
    public : str, int, list of these, or None, default=None
        The columns that are exchanged; by default all without another role. A sensitive column that
        is named here moves with its row, and is released. Dates must be named here.
    ids : str, int or list of these, default=None
        Columns that stay with people and say nothing of them, such as a customer number. Together
        they identify a person. In memory they are of any type; of a lazy table, not dates.
    known : str, int, list of these, or {column: bins, mapping or None}, default=None
        Columns that stay with people and that readers may know, such as an age or a label. Rows are
        exchanged among people of equal values, and the guarantee is against the shares there. A
        number of quantile bins releases the median of each, ``{value: other}`` the other value; who
        knows a value more finely is not covered.
    secret_pairs : "all", list of pairs, or {column: list of pairs}, default="all"
        The protected pairs of secrets; of several columns they are pairs of tuples.
    insiders : "double", float or None, default="double"
        The budget against people in the table who find their own row with somebody, and use nothing
        else: twice epsilon, or a number. The row that they receive themselves is not considered; it
        reveals more if few people have a secret. None leaves insiders out.
    matching : {"nearest", "parts", "random"}, default="nearest"
        "nearest" matches at the least total distance, in parts of at most 500 near rows. "parts"
        cuts the rows of each secret at their medians, along principal axes, into parts of about 50
        rows (at least ten of each secret), and matches at random within them; it changes more than
        "nearest", and reveals only counts about third parties to people in the table. So does
        "random", which changes most.
    secret_groups : {name: list of values}, or {column: {name: list of values}}, default=None
        Values of a sensitive column that are one secret: only which of these secrets people have
        is protected, and rows stay within them.
    metric : "steps", callable or None, default=None
        The budget of a pair of secrets is epsilon times their distance: how many bins lie from one
        to the other (``sensitive={"income": 10}``), or a function of two secrets, symmetric and
        positive. Within a bin rows stay: exact numbers are not protected from each other.
    missing : {"error", "category"}, default="error"
        "category" takes missing secrets for a secret of their own.
    groups : str or int, default=None
        The column of ids of rows that are exchanged together, such as those of a household, which
        have one secret. Whole groups are exchanged among groups of as many rows with equal
        ``known`` values, and their rows are dealt at random among members of equal ones.
    max_group : int, default=None
        The most rows of a group: larger ones are refused. None takes the largest group of `fit`.
    weights : dict, default=None
        The unit of distance of columns; by default the standard deviation, and 1 for a change of
        category.
    remainder : {"drop", "passthrough"}, default="drop"
        What is done with other columns. Passed ones are treated as ``known``.
    random_state : int or None, default=None
        None draws fresh cryptographic bits at each call. An integer is for tests, and warns.
    n_jobs : int or None, default=None
        Not used: a million rows of ten columns take a third of a minute on one core.
    verbose : int, default=0
        1 shows progress on standard error after two seconds.

    Attributes
    ----------
    certificate_ : Certificate
        What is guaranteed to which reader, and what is not covered, for the rows that were fitted
        or released last.
    flows_ : pandas.DataFrame of shape (n_secrets, n_secrets)
        The mean share of people of a secret (row) who receive rows of a secret (column). Realised
        flows are not disclosed.
    stays_ : pandas.Series of shape (n_secrets,)
        The mean share of people of each secret who keep their own row.
    utility_ : pandas.DataFrame of shape (n_public, 8)
        How much each column changes for its people, estimated from samples.
    secret_pairs_ : dict
        The protected pairs.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where `fit` saw string column names.

    Raises
    ------
    UncertifiedError
        By `fit` and `transform`, if even flows that reveal nothing exceed the budget by rounding.

    See Also
    --------
    PufferfishMicroaggregator : If secrets are not known at release.
    PufferfishNoiser : For few columns.

    Notes
    -----
    *Formal guarantees.* Let people be exchangeable within their stratum (of equal ``known`` values)
    given the list of all rows with their secrets. To a reader who has this list, F and this
    procedure, and sees the whole released table, the holder of a row of secret b has secret s with
    probability F(s, b) / n_b: owners are uniform given the list, leavers and places are uniform,
    and the matching sees neither ids nor the order of the table. So for every row the log odds of
    the holder's secret differ by at most epsilon from those in the stratum, whatever model of the
    rows the reader has. F is checked in whole numbers, by code that shares nothing with the linear
    program. A second swap of the same people is not covered, and refused if this object made the
    first.

    References
    ----------
    Dalenius and Reiss 1982 (swapping); Warner 1965 (randomised response).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishSwap
    >>> rng = np.random.default_rng(0)
    >>> ill = rng.random(500) < 0.3
    >>> pulse = 60 + 9 * ill + rng.integers(0, 20, 500)
    >>> table = pd.DataFrame({"client": range(500), "ill": ill, "pulse": pulse})
    >>> swap = PufferfishSwap(epsilon=1.0, sensitive="ill", ids="client")
    >>> released = swap.fit_transform(table)
    >>> swap.certificate_.holds, bool(0.99 < swap.certificate_.loss <= 1.0)
    (True, True)
    >>> sorted(released["pulse"]) == sorted(pulse), released["client"].equals(table["client"])
    (True, True)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 0.0,
        sensitive: Any = None,
        public: Any = None,
        ids: Any = None,
        known: Any = None,
        secret_pairs: Any = "all",
        insiders: Any = "double",
        matching: str = "nearest",
        secret_groups: Any = None,
        metric: Any = None,
        missing: str = "error",
        groups: Any = None,
        max_group: Any = None,
        weights: Any = None,
        remainder: str = "drop",
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.sensitive = sensitive
        self.public = public
        self.ids = ids
        self.known = known
        self.secret_pairs = secret_pairs
        self.insiders = insiders
        self.matching = matching
        self.secret_groups = secret_groups
        self.metric = metric
        self.missing = missing
        self.groups = groups
        self.max_group = max_group
        self.weights = weights
        self.remainder = remainder
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Learn the secrets and the units of distance, and solve the flows of these rows.

        Parameters
        ----------
        X : DataFrame, lazy table or array-like of shape (n_rows, n_features)
            The people of the table, a row each, with their secrets. The rows of a lazy table are
            counted and solved by its engine, as in `PufferfishNoiser`.
        y : object, default=None
            Not used. Name a label that stays with people in ``known``.
        sensitive_features : Series, DataFrame or array-like of n_rows, default=None
            The secrets, where they are not columns of X; aligned by position.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError, ValueError
            Naming the parameter or column, and the way out.
        """
        with fitting(self):
            self._fit(X, None, sensitive_features, None)
        return self

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        row_id: Any = None,
        key: Any = None,
        dataset: str = "",
        release: int = 0,
    ) -> Any:
        """Fit, and exchange the rows of the same table.

        Parameters
        ----------
        X : DataFrame, lazy table or array-like of shape (n_rows, n_features)
            The people of the table, a row each, with their secrets. A lazy table needs ``row_id``.
        y : object, default=None
            Not used.
        sensitive_features : Series, DataFrame or array-like of n_rows, default=None
            As in `fit`.
        row_id : str, int or array-like of n_rows, default=None
            As in `transform`.
        key : bytes, Path or "env:NAME", default=None
            As in `transform`.
        dataset : str, default=""
            As in `transform`.
        release : int, default=0
            As in `transform`.

        Returns
        -------
        DataFrame or ndarray
            As `transform` returns it.
        """
        self.fit(X, y, sensitive_features=sensitive_features)
        beside = None if is_lazy(X) else sensitive_features
        return self.transform(
            X, sensitive_features=beside, row_id=row_id, key=key, dataset=dataset, release=release
        )

    def transform(
        self,
        X: Any,
        *,
        sensitive_features: Any = None,
        row_id: Any = None,
        key: Any = None,
        dataset: str = "",
        release: int = 0,
        on_drift: str = "warn",
    ) -> Any:
        """Exchange the rows of a table, and update ``certificate_``, ``flows_`` and ``stays_``.

        Parameters
        ----------
        X : DataFrame, lazy table or array-like of shape (n_rows, n_features)
            Found by name, as in `fit`; with its sensitive columns. A lazy table needs ``row_id``.
        sensitive_features : Series, DataFrame or array-like of n_rows, default=None
            The secrets, where they are not columns of X.
        row_id : str, int or array-like of n_rows, default=None
            Asks for keyed choices: a column of X, or a further one, with an id of each row, present
            and unique. The same table and key give the same release, in any order of the rows.
        key : bytes, Path or "env:NAME", default=None
            As in `PufferfishNoiser`. Who has it can undo the swap.
        dataset : str, default=""
            Name of the table. It has no effect: it must not make a second swap of the same people.
        release : int, default=0
            Number of the release: only 0, as there is one release.
        on_drift : {"warn", "ignore"}, default="warn"
            As in `PufferfishNoiser`; drift is not tested, and "raise" is refused.

        Returns
        -------
        DataFrame, lazy table or ndarray
            The released columns, with the index, order and types of X. Of a lazy table a lazy one
            of its engine, in a random order: the release in memory of the same rows.

        Raises
        ------
        UncertifiedError
            If even flows that reveal nothing exceed the budget by rounding.
        OverspentError
            If this object has exchanged some of these people before, except for the same table and
            key. Without ``ids`` it does so for half of the rows, recognised by their values.
        TypeError, ValueError
            If secrets are absent or were not seen in `fit`, or the table does not fit.
        """
        return self._transformed(X, (row_id, key, dataset, release), on_drift, sensitive_features)

    def _checked_parameters(self) -> tuple[Guarantee, Columns, Budget]:
        params = self.get_params(deep=False)
        params["within_group"] = "independent" if self.groups is None else "any"
        if self.groups is not None and self.max_group is None:
            params["max_group"] = "count"
        check_choice(self.missing, "missing", ["error", "category"])
        check_jobs(self.n_jobs)
        guarantee = Guarantee.of(params)
        epsilon, delta = float(guarantee.notion.epsilon), float(guarantee.notion.delta)
        insiders, way_out = self.insiders, 'or take insiders="double", or None to leave them out'
        if isinstance(insiders, str) and insiders == "double":
            insiders = 2.0 * epsilon
        elif insiders is not None:
            insiders = check_positive(insiders, "insiders", way_out)
        check_choice(self.matching, "matching", ["nearest", "parts", "random"])
        check_units(self.weights)
        return guarantee, Columns.of(params), Budget(epsilon, delta, insiders)

    def _learnt(
        self, parameters: tuple[Guarantee, Columns, Budget], rows: FitRows
    ) -> LearntMechanism:
        """Learn secrets and units of distance, and solve the flows of the rows."""
        table: Any = rows.table
        guarantee, columns, budget = parameters
        hidden, public, named, ids, strata = _roles_of(self, columns, rows)
        rule, secret = _secret_of(self, columns, rows)
        pairs = secret_pairs_of(guarantee.pairs, [secret])
        faults, asked = Faults(), columns.grouped
        values = faults.of(lambda name: _moving(table, name, self.public is not None), public)
        faults.refuse()
        moving = dict(zip(public, values, strict=True))
        group = grouped = None
        if asked is not None:
            group = asked.name_in(table, hidden)
            grouped = asked.fitted(table, group, {secret.name: secret.codes(table.n_rows)})
        known = {name: first_values(table, name) for name in strata}
        mechanism = RowExchange(
            columns=[column_of(name, values) for name, values in moving.items()],
            ids=tuple(ids),
            strata=tuple(strata),
            coarse=Coarse.learnt(columns.known, known),
            secret=rule,
            group=group,
            pairs=tuple((secret.find(s), secret.find(t)) for s, t in pairs[secret.name]),
            distances=distances_of(self.metric, rule, pairs[secret.name]),
            measure=Units.learnt(moving, check_units(self.weights, public), table),
            budget=budget,
            matching=self.matching,
            people=() if group is None else tuple(named),
        )
        if isinstance(table, LazyTable):
            on_engine = EngineRows(mechanism, None, table.native)
            figures, told, order = on_engine.figures(), on_engine.told(), RowOrder()
        else:
            found = mechanism.whole(table, rows.secrets)
            figures, told = mechanism.told(found, mechanism.solved(found)), []
            order = mechanism.order(table, found)
        about = len({*table.names, *rule.names}), told, grouped
        certificate, shown = certified(mechanism, *about, *figures)
        said = not (ids or strata or has_row_labels(table))
        one_secret = certificate.exchange.one_secret if strata else 0.0
        alone = say.one_secret_warnings(one_secret, strata, certificate.who)
        return LearntMechanism(
            hidden=hidden,
            public=public,
            passed=[*ids, *strata],
            pairs=pairs,
            mechanism=mechanism,
            certificate=certificate,
            missing=rule.missing,
            order=order,
            grouped=grouped,
            warnings=[_NOBODYS.format(repr(str(secret.name)[:40]))] if said else alone,
            attributes=shown,
        )


_NOBODYS = (
    "nothing here says whose row is whose: leaving {} out and shuffling is the same release; name "
    "ids= or known=, or take PufferfishMicroaggregator."
)


def _secret_of(swap: PufferfishSwap, asked: Columns, given: FitRows) -> tuple[SecretRule, Secret]:
    table: Any = given.table
    names = list(given.secrets or resolve(given.sensitive, table.names, "sensitive"))
    columns = given.secrets or {name: table.values(name) for name in names}
    if isinstance(table, LazyTable):
        given.refuse_bins()
        table.count(names)
        columns = table.rows(names)[0]
    bins, merged = bins_of(given.sensitive, table.names), merges_of(swap.secret_groups, names)
    rule, secret = SecretRule.learnt(columns, bins, asked.missing, merged)
    if len(secret.labels) > MOST_COMBINATIONS:
        raise ValueError(
            f"sensitive {secret.name!r} has {len(secret.labels)} secrets, and rows are exchanged "
            f"between at most {MOST_COMBINATIONS}; merge values, or read numbers in bins "
            "(sensitive={column: 5})."
        )
    return rule, secret


def _roles_of(swap: PufferfishSwap, columns: Columns, given: FitRows) -> list[list[Name]]:
    """Return the sensitive, exchanged and named id columns, all id columns, and known ones."""
    names, hidden = given.table.names, given.hidden()
    asked = {"ids": swap.ids, "known": columns.known, "public": columns.public}
    named, known, public = (
        [] if each is None else resolve(each, names, argument) for argument, each in asked.items()
    )
    ids = [*dict.fromkeys([*named, *columns.grouping(given.table, hidden)])]
    for argument, those in (("public", public), ("sensitive", hidden)):
        refuse_twice({argument: those, "ids": ids, "known": known})
    staying = {*hidden, *ids, *known}
    moving = public or public_columns(None, names, [*staying])
    strata = [*known, *columns.passed(names, {*staying, *moving})]
    return [hidden, [name for name in names if name in moving], named, ids, strata]


def _moving(table: Any, name: Name, named: bool) -> Values:
    """Return a column that is exchanged, and refuse it where it looks like an identifier."""
    if isinstance(table, LazyTable):
        table.check_type(name)
        if table.types[str(name)].is_float():  # measured numbers are no identifiers
            return Values("float", np.zeros(0))
    values = first_values(table, name)
    check_no_identifier(name, values, named=named, ids=True)
    return values
