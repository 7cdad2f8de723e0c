"""Readers of a release: what each of them knows, and what he claims of each row.

They know more and more: released rows of others; the list of rows with their secrets, with what the
mechanism publishes of itself; raw rows of others, of which a model is learnt; a label of each
person; or they are in the table themselves and find their own row with somebody else.

The attackers that learn from rows come first.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer
from sklearn.utils import shuffle
from threadpoolctl import threadpool_limits

from sklearn_puffer._base import Array, FloatArray, check_count, counted
from sklearn_puffer._codes import SecretRule, in_intervals_of, resolve
from sklearn_puffer._engines import is_lazy
from sklearn_puffer._fits import learnable
from sklearn_puffer._review.exact_tests import Budget, Judge, Reader, RowSplit, Secrets
from sklearn_puffer._rows import group_codes
from sklearn_puffer._tables import (
    Features,
    Name,
    Table,
    as_pandas,
    beside,
    first_values,
    frame_table,
    is_frame,
    readable,
    row_digests,
)
from sklearn_puffer._words import listed, quoted, shown


def in_memory(table: Any, who: str) -> Any:
    """Return a table as a pandas DataFrame; ``who``, such as "a plan", is named in refusals."""
    kind, table = type(table).__name__, table if is_lazy(table) else readable(table, "table")
    if is_lazy(table) or not is_frame(table):
        raise TypeError(
            f"table must be a DataFrame in memory, as {who} looks at rows many times, got {kind}; "
            "collect some thousand rows of a lazy one, and give columns of an array names, such as "
            "pandas.DataFrame(table, columns=[...])."
        )
    frame = as_pandas(table)
    if not len(frame):
        raise ValueError(f"table has 0 rows, and {who} measures some; give some hundred.")
    return frame


def is_words(column: Any) -> bool:
    """Return whether a column holds categories, and no numbers."""
    return str(column.dtype) == "category"


def with_copies(rows: Any) -> Any:
    """Return rows with a column of how often each occurs among them, if that differs."""
    alike = equal_rows(rows)
    copies = np.bincount(alike)[alike]
    same = (copies == copies[:1]).all()
    return rows if same else with_column(rows, "copies in the release", copies)


def with_column(rows: Any, name: str, values: Array) -> Any:
    """Return rows with one more column, which hides no other."""
    return rows.assign(**{name + "'" * sum(name in other for other in rows): values})


MOST_LEVELS = 250
"""Categories of a column that a boosted classifier takes; of more it is given ranks."""
_QUANTILES = 200
_NEIGHBOURS = 25
_LEAST = 1e-12


def seen(rows: Any, columns: Sequence[Name]) -> Any:
    """Return rows as attackers are given them."""
    source = frame_table(rows)
    features = Features.of({name: first_values(source, name).in_days() for name in columns})
    return features.without_many_levels(MOST_LEVELS).frame


def attackers() -> dict[str, Any]:
    """Return the classifiers by which fresh models attack."""
    from sklearn.linear_model import LogisticRegression  # heavy, and few ask for it
    from sklearn.neighbors import KNeighborsClassifier

    return {
        "boosted": boosted(60),
        "neighbours": KNeighborsClassifier(_NEIGHBOURS),
        "linear": LogisticRegression(max_iter=300),
    }


def boosted(max_iter: int, *, regressor: bool = False) -> Any:
    """Return boosted trees that take columns as they are, words as ``category``."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingRegressor if regressor else HistGradientBoostingClassifier
    modest = {"max_iter": max_iter, "max_leaf_nodes": 15, "early_stopping": False}
    return Pipeline([("model", kind(categorical_features="from_dtype", **modest))])


_FEW_ROWS = 5_000


def threads_for(table: Any) -> Any:
    """Limit models within a block to one thread, where a table has few rows.

    Threads gain nothing there, and wait for each other in loops: beside other work on all cores, a
    plan of 178 rows took five times as long.
    """
    n_rows, *_ = getattr(table, "shape", (math.inf,))
    return threadpool_limits(1 if n_rows <= _FEW_ROWS else None, user_api="openmp")


def trained(attacker: Any, rows: Any, labels: Array) -> Any:
    """Return a fitted copy; a pipeline is given the rows as they are, and others numbers."""
    model, rows = clone(attacker), learnable(rows)
    if not isinstance(model, Pipeline):
        if getattr(model, "n_neighbors", 0) > len(rows):
            model.set_params(n_neighbors=len(rows))
        model = make_pipeline(encoder(rows), model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # which is an attack all the same
        return model.fit(rows, labels)


def encoder(rows: Any) -> Any:
    """Return a transformer of numbers to ranks (noise has heavy tails) and of words to 0 and 1."""
    words = [name for name, kind in rows.dtypes.items() if str(kind) == "category"]
    others = [name for name in rows.columns if name not in words]
    ranks = QuantileTransformer(n_quantiles=min(_QUANTILES, len(rows)), subsample=None)
    gaps = SimpleImputer(strategy="constant", fill_value=0.5, add_indicator=True)
    one_hot = OneHotEncoder(handle_unknown="ignore", max_categories=MOST_LEVELS)
    steps = [("ranks", make_pipeline(ranks, gaps), others), ("is", one_hot, words)]
    return ColumnTransformer(steps)


_MOST_LABELS, _BINS = 4, 4

LIST = "holds the list"
FIT = "knows the fit"
MODEL = "better model"
INSIDER = "insider"
JOINS = "joins "


@dataclass(eq=False)
class Release:
    """Rows before and after a release, and what is public of it.

    ``estimator`` is as it was when the tested rows were released, and ``parts`` say which rows
    train, choose and test. A reader may join the target of ``task``. ``before`` and ``after`` are
    the rows as attackers are given them. The released columns ``known`` are taken as known;
    ``exchanged`` are rows of a whole table, of which the tested rows are one. ``budget`` is what is
    guaranteed, also to who joins a label that is ``covered``, and ``insiders`` that to an insider,
    None for nothing.
    """

    estimator: Any
    raw: Any
    released: Any
    parts: RowSplit
    secrets: Sequence[Secrets]
    task: Any

    def __post_init__(self) -> None:
        certificate, mechanism = self.estimator.certificate_, self.estimator._fitted.mechanism
        columns = [name for name in self.released if name in self.estimator.utility_.index]
        self.before, self.after = (seen(each, columns) for each in (self.raw, self.released))
        self.exchanged = not mechanism.by_row
        self.budget = Budget.of(certificate.epsilon, certificate.delta, certificate.alpha)
        facts, known = getattr(certificate, "facts", None), mechanism.terms(self.estimator).known
        strata = getattr(facts, "strata", None)  # noise counts what known columns tell
        self.known = [name for name in self.released if strata and name in known]
        self.covered = {*map(str, self.known), *getattr(facts, "joined", ())}
        insiders = getattr(facts, "insiders", None)
        self.insiders = None if insiders is None else Budget(insiders)

    def judge(self) -> Judge:
        """Return the judge of what readers claim."""
        certificate, budget = self.estimator.certificate_, self.budget
        pairs = sorted(certificate.pairs, key=lambda pair: pair.upper)  # the last one counts
        losses = {(each.sensitive, each.secret, each.against): each.upper for each in pairs}
        # what known columns say of each row; the tested rows of an exchange are apart
        strata = equal_rows(self.released[self.known])
        if self.exchanged:
            strata = 2 * strata + np.isin(np.arange(len(strata)), self.parts.test)
        epsilon = budget.epsilon if certificate.holds and not budget.delta else math.inf
        return Judge(self.parts, losses, strata, self.exchanged, epsilon)


def readers_of(release: Release, secrets: Secrets) -> Iterator[Reader]:
    """Yield all readers of a release."""
    raw, after, budget = release.before, release.after, release.budget
    yield fresh(release, secrets, after)
    cells, model = equal_rows(after), None
    if all(is_words(raw[name]) == is_words(after[name]) for name in after):  # no codes of words
        model = learnt(boosted(60), raw, after, release.parts, secrets)
    if release.exchanged:
        yield from _of_exchanged(release, secrets, model)
    else:
        if hasattr(release.estimator, "channel_"):
            knows = "how rows are drawn, the fitted table with its secrets; looks up nobody in it"
            claims = {"Bayes": _by_channel_and_counts(release, secrets)}
            yield Reader(FIT, knows, secrets, claims, budget, cells)
        if model is not None:
            knows = "raw rows of other people with their secrets, and what a model learns of them"
            yield Reader(MODEL, knows, secrets, {"boosted": model}, budget, cells)
    yield from joining(release, secrets)


def fresh(release: Release, secrets: Secrets, seen: Any, name: str = "fresh models") -> Reader:
    """Return the reader who learns from rows, released or raw, of people whose secrets he knows."""
    own = with_copies(seen)
    claims = {
        way: learnt(attacker, own, own, release.parts, secrets)
        for way, attacker in counted(list(attackers().items()), "attackers")
    }
    knows = "released rows of people whose secrets are known, and how often rows occur"
    return Reader(name, knows, secrets, claims, release.budget, equal_rows(seen))


def learnt(attacker: Any, rows: Any, seen: Any, parts: RowSplit, secrets: Secrets) -> FloatArray:
    """Return the log chances of each secret by which a model that learnt from rows reads others.

    In a small table each fold is read by a model of the other folds. Their scores are mapped to
    those of the first model, quantile by quantile of the tested rows, so that they compare.
    """
    codes, test = secrets.codes, parts.test
    claims = np.full((len(seen), len(secrets.labels)), np.nan)
    for learnt_from, read in parts.rounds:
        train, every = learnt_from[codes[learnt_from] >= 0], np.union1d(read, test)
        if len(np.unique(codes[train])) < 2:
            continue
        model = trained(attacker, rows.iloc[train], codes[train])
        told = np.full_like(claims, np.nan)
        chances = np.asarray(model.predict_proba(seen.iloc[every]), dtype=float)
        told[np.ix_(every, model.classes_)] = np.log(np.maximum(chances, _LEAST))
        if learnt_from is parts.train:  # the first model, of all that train
            claims = told
            continue
        for code, (own, others) in enumerate(zip(told[test].T, claims[test].T, strict=True)):
            claims[read, code] = np.interp(told[read, code], np.sort(own), np.sort(others))
    return claims


def equal_rows(rows: Any) -> Array:
    """Return a number of each row, the same for equal ones."""
    by = list(rows.columns) or np.zeros(len(rows))
    return np.asarray(rows.groupby(by, dropna=False, observed=True, sort=False).ngroup())


# ------------------------------------------------------------------- what the mechanism publishes


def _of_exchanged(release: Release, secrets: Secrets, model: Any) -> Iterator[Reader]:
    """Yield the readers of rows that people have exchanged.

    The first has the list of rows with their secrets: he looks each released row up, and knows of
    what secret its owner is. The second has a model instead. The third is in the table.
    """
    codes, n = secrets.codes, len(secrets.labels)
    before, after = (
        row_digests({name: first_values(table, name) for name in release.after})
        for table in map(frame_table, (release.raw, release.released))
    )
    tested = np.isin(np.arange(len(codes)), release.parts.test)  # a table of their own
    alike = np.unique(np.append(before, after), return_inverse=True)[1].ravel()
    listed, seen = np.split(2 * alike + np.tile(tested, 2), 2)
    counts = np.zeros((2 * len(alike), n))
    np.add.at(counts, listed, codes[:, None] == np.arange(n))
    total = counts.sum(axis=1)
    # the shares of secrets among the people of the list with each released row
    owners = (counts / np.maximum(total, 1.0)[:, None])[seen]
    # the chance of each secret of a holder, by that of the row's owner: (owner, holder)
    flows, shares = np.eye(n), getattr(release.estimator, "flows_", None)
    sizes = np.bincount(codes[codes >= 0], minlength=n)
    if shares is not None and len(shares) == n and sizes.all():
        people = np.asarray(shares, dtype=float) * sizes[:, None]  # (holder, owner)
        flows = (people / np.maximum(people.sum(axis=0), _LEAST)).T
    cells = np.where(owners.max(axis=1) == 1.0, owners.argmax(axis=1), -1)
    ways = {"average exchanges": np.log(owners @ flows + _LEAST)}
    ways |= {} if model is None else {"flows and a model": model}
    knows = "every row with its secret, not its person; how many rows are exchanged on average"
    yield Reader(LIST, knows, secrets, ways, release.budget, cells)
    if model is not None:
        ways = {"boosted, and flows": np.log(np.nan_to_num(np.exp(model)) @ flows + _LEAST)}
        knows = "a model of raw rows of other people; how many rows are exchanged on average"
        yield Reader(MODEL, knows, secrets, ways, release.budget, equal_rows(release.after))
    among = (total[seen] == 1.0) & (before != after)  # one person alone, and somebody else
    knows = "his own row, found with somebody else, and the shares of secrets"
    ways = {"own row": np.log(owners + _LEAST)}
    yield Reader(INSIDER, knows, secrets, ways, release.insiders, cells, among, cells)


def _by_channel_and_counts(release: Release, secrets: Secrets) -> FloatArray:
    """Return the log chance of each released typical row by secret."""
    estimator, rows = release.estimator, release.released
    channels, counts = estimator.channel_, estimator.counts_
    counts = counts[secrets.name] if counts.columns.nlevels > 1 else counts
    flows, stratum = [channels], np.zeros(len(rows), dtype=np.intp)
    if isinstance(channels, dict):
        known = counts.index.droplevel(-1).unique()  # the last one is the typical row
        flows, stratum = [*channels.values()], known.get_indexer(rows.set_index(known.names).index)
    counts = counts.reindex(columns=secrets.labels).to_numpy(dtype=float)
    masses = zip(flows, np.split(counts, len(flows)), strict=True)
    with np.errstate(invalid="ignore"):  # of secrets that are not there
        told = [np.log(flow.T @ mass / mass.sum(axis=0) + _LEAST) for flow, mass in masses]
    claims = np.array(told)[stratum, estimator.assign(rows)]
    return np.where(stratum[:, None] < 0, np.nan, claims)


# ------------------------------------------------------------------------------- further readers


def joining(release: Release, secrets: Secrets) -> Iterator[Reader]:
    """Yield the readers who know a label: one for each of its most frequent values."""
    if release.task is None:
        return
    name, rows, cells = release.task.name, release.after, equal_rows(release.after)
    budget, values = release.budget if str(name) in release.covered else None, release.raw[name]
    kinds = label_kinds(values)
    seen = with_column(rows, f"{name} as it is", kinds)
    claims = {"boosted": learnt(boosted(40), seen, seen, release.parts, secrets)}
    often = np.argsort(-np.bincount(kinds[kinds >= 0]), kind="stable")
    knows = f"the {shown(name)} of each person, and released rows of others with theirs"
    for kind in often[:_MOST_LABELS]:
        among = kinds == kind
        first = values[among].iloc[0]
        which = shown(first) if values[among].nunique() == 1 else f"near {first:.4g}"
        yield Reader(f"{JOINS}{shown(name)}: {which}", knows, secrets, claims, budget, cells, among)


def known_rows(values: Array) -> Array:
    """Return the places of values that are not missing."""
    return np.flatnonzero([value == value and value is not None for value in values])  # no NaN


def label_kinds(values: Any) -> Array:
    """Return codes of a label, -1 of missing values, of numbers of many values their quarters."""
    if getattr(values.dtype, "kind", "") in "iuf" and values.nunique() > _BINS**2:
        values = np.ceil(values.rank(pct=True) * _BINS)
    return np.asarray(values.astype("category").cat.codes, dtype=np.intp)


# ------------------------------------------------------------------------------ what is audited


def secrets_in(estimator: Any, source: Table, given: Any, frame: Any) -> list[Secrets]:
    """Return the secrets of the rows, by sensitive column, or by combinations of several.

    The protected pairs are in both directions, one after the other.
    """
    columns = {} if given is None else beside(given, source.n_rows, frame, "sensitive_features")
    rules, rule = estimator._fitted.rules, getattr(estimator._fitted.mechanism, "secret", None)
    edges, merged = getattr(rule, "edges", {}), getattr(rule, "merged", {})  # of a swap
    protected, secrets = dict[Name, list[tuple[Any, Any]]](), []
    for loss in estimator.certificate_.pairs:
        protected.setdefault(loss.sensitive, []).append((loss.secret, loss.against))
    for name, pairs in protected.items():
        labels, names = list(dict.fromkeys(label for pair in pairs for label in pair)), [name]
        if isinstance(labels[0], tuple):
            several = permutations(rules.sensitive or columns, len(labels[0]))
            names = next(list(each) for each in several if " and ".join(map(str, each)) == name)
        own = {}
        for k, each in enumerate(names):
            if each not in {*columns, *source.names}:
                raise ValueError(
                    f"table lacks the sensitive column {quoted(each)}, which attackers are to "
                    "tell; give it, or sensitive_features as in fit."
                )
            values = columns[each] if each in columns else source.values(each)
            ends = dict.fromkeys(label[k] for label in labels) if len(names) > 1 else labels
            own[each] = values if each in edges else in_intervals_of(ends, values)
        secret = SecretRule(tuple(names), edges, rules.missing, merged=merged).read(own)
        if len({*labels} & {*secret.labels}) < 2:
            raise ValueError(
                f"estimator and table do not fit together: column {quoted(name)} has the values "
                f"{listed(list(secret.labels), 5)} in table, and estimator protects "
                f"{listed(sorted(labels, key=str), 5)}; give rows with values as in fit."
            )
        every_label = list(dict.fromkeys([*secret.labels, *labels]))  # some without a row
        both = dict.fromkeys(each for a, b in pairs for each in ((a, b), (b, a)))
        coded = [(every_label.index(a), every_label.index(b)) for a, b in both]
        secrets.append(Secrets(name, every_label, secret.codes(source.n_rows), coded))
    return secrets


def chosen_rows(estimator: Any, source: Table, max_rows: Any, seed: int) -> Array:
    """Return the rows to audit, one of each group."""
    most = source.n_rows if max_rows is None else check_count(max_rows, "max_rows")
    groups = estimator._fitted.rules.groups
    if groups is not None:
        [name] = resolve(groups.column, source.names, "groups")
        if len(np.unique(group_codes(source, name))) < source.n_rows:
            raise ValueError(
                f"table has several rows of a group of {quoted(name)}, and an audit reads one row "
                f"of each; give one, such as table.drop_duplicates({name!r})."
            )
    return np.sort(shuffle(np.arange(source.n_rows), random_state=seed)[:most])
