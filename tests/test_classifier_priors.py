"""Priors that are what a classifier says of the rows: masses, proof and facts."""

from __future__ import annotations

import math
import pickle
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, ShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from sklearn_puffer import PufferfishNoiser, _fits
from sklearn_puffer._fits import cell_masses, whole_masses
from sklearn_puffer._noiser import adversaries
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.fits import ClassifierFit
from sklearn_puffer.noise import Cauchy, Gaussian
from sklearn_puffer.notions import Pufferfish

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*has log loss"),
    pytest.mark.filterwarnings("ignore:.*need no noise"),
    pytest.mark.filterwarnings("ignore:.*who reads the whole released table counts copies"),
]
UNIT = 2**32
QUICK = ClassifierFit(LogisticRegression(), cv=2)


@pytest.fixture(autouse=True)
def _not_compared(request, monkeypatch):
    """Ask the boosted default only where a test is about that: it takes the longest."""
    if "boosted" not in request.node.name:
        monkeypatch.setattr(adversaries, "_MOST_COMPARED", 0)


class Told(ClassifierMixin, BaseEstimator):
    """Says of a row what stands in a table for its first column, whatever it was fitted to."""

    def __init__(self, says=None, classes=("no", "yes")):
        self.says = says
        self.classes = classes

    def fit(self, X, y):
        self.classes_ = np.array(self.classes)
        return self

    def predict_proba(self, X):
        return np.array([self.says[value] for value in X.iloc[:, 0]])


class Recording(ClassifierMixin, BaseEstimator):
    """Remembers what each clone of it was given; knows the shares of what it was fitted to."""

    seen: list[tuple[str, pd.DataFrame, object]] = []  # noqa: RUF012  # clones share it

    def fit(self, X, y, sample_weight=None):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares_ = counts / counts.sum()
        self.asked_ = []
        self.seen.append((X, np.array(y), sample_weight, self.asked_))
        return self

    def predict_proba(self, X):
        self.asked_.append(X)
        return np.tile(self.shares_, (len(X), 1))


@pytest.fixture
def recording():
    Recording.seen = []
    return Recording()


def told(says, classes=("no", "yes"), **options):
    model = Told(says, classes).fit(None, None)
    return ClassifierFit(model, cv="prefit", **options)


SAYS = {0: [0.9, 0.1], 1: [0.5, 0.5], 2: [0.25, 0.75]}
TABLE = pd.DataFrame(
    {
        "a": [0, 0, 1, 1, 1, 2, 2, 0, 1, 2],
        "b": [0, 1, 0, 0, 1, 1, 1, 0, 1, 0],
        "loan": ["no", "yes"] * 5,
    }
)


def distributions_by_hand(rows, says, weights=None):
    """Return the masses of the rows for each place in ``says``, by definition, in fractions."""
    weights = [1] * len(rows) if weights is None else weights
    found = []
    for s in range(len(next(iter(says.values())))):
        masses = defaultdict(Fraction)
        for row, weight in zip(rows, weights, strict=True):
            units = round(says[row[0]][s] * UNIT)
            masses[row] += weight * (max(units, 1) if says[row[0]][s] > 0 else 0)
        total = sum(masses.values())
        found.append({row: mass / total for row, mass in masses.items() if mass})
    return found


def distribution_of(prior):
    return {
        tuple(row): Fraction(int(count), int(prior.total))
        for row, count in zip(prior.rows.tolist(), prior.counts.tolist(), strict=True)
        if count
    }


def of_column(noiser, name, columns):
    return {
        label: distribution_of(distributions[columns])
        for label, distributions in noiser.priors_[name].items()
    }


# --------------------------------------------------------------------------------------------
# distributions


def test_the_distribution_is_bayes_rule_on_the_rows_that_there_are():
    noiser = PufferfishNoiser(sensitive="loan", prior=told(SAYS)).fit(TABLE)
    no, yes = distributions_by_hand(list(zip(TABLE.a, TABLE.b, strict=True)), SAYS)
    assert of_column(noiser, "loan", ("a", "b")) == {"no": no, "yes": yes}


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=2, max_size=12),
    st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3),
)
@settings(max_examples=10)
def test_the_distribution_is_that_of_any_probabilities_and_weights(rows, shares):
    says = {value: [share, 1.0 - share] for value, share in enumerate(shares)}
    counts = [weight for _, weight in rows]
    loans = ["no" if k % 2 else "yes" for k in range(len(rows))]
    table = pd.DataFrame({"a": [a for a, _ in rows], "loan": loans})
    kept = [k for k, weight in enumerate(counts) if weight]
    if len(set(table.loan[kept])) < 2:
        return
    mass = [sum(counts[k] * (says[rows[k][0]][s] > 0) for k in kept) for s in range(2)]
    if min(mass) == 0:
        return
    noiser = PufferfishNoiser(sensitive="loan", prior=told(says))
    noiser.fit(table, sample_weight=counts)
    no, yes = distributions_by_hand([(a,) for a, _ in rows], says, counts)
    assert of_column(noiser, "loan", ("a",)) == {"no": no, "yes": yes}


def test_a_positive_probability_is_never_rounded_to_0_and_0_stays_0():
    says = {0: [1.0, 0.0], 1: [0.5, 0.5], 2: [1.0 - 1e-30, 1e-30]}
    noiser = PufferfishNoiser(sensitive="loan", prior=told(says)).fit(TABLE[["a", "loan"]])
    distribution = of_column(noiser, "loan", ("a",))["yes"]
    half = 4 * UNIT // 2
    assert distribution == {(1.0,): Fraction(half, half + 3), (2.0,): Fraction(3, half + 3)}


def test_masses_of_cells_are_sums_of_the_masses_of_their_rows():
    probabilities = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
    masses = whole_masses(probabilities, np.array([1, 2, 3]))
    assert masses.dtype == np.int64
    quarter = UNIT // 4
    assert masses.tolist() == [[quarter, UNIT, 3 * UNIT], [3 * quarter, UNIT, 0]]
    cells = cell_masses(masses, np.array([1, 1, 0]), 3)
    assert cells.tolist() == [[3 * UNIT, quarter + UNIT, 0], [0, 3 * quarter + UNIT, 0]]


def test_bins_are_cells_and_the_model_sees_the_values_before_them():
    table = TABLE.assign(a=[0, 10, 1, 11, 1, 12, 2, 10, 2, 12])
    says = {value: [0.1 + value / 20, 0.9 - value / 20] for value in range(13)}
    noiser = PufferfishNoiser(sensitive="loan", public="a", n_bins=2, prior=told(says)).fit(table)
    medians = {value: 1.0 if value < 5 else 11.0 for value in table.a}
    masses = [defaultdict(int), defaultdict(int)]
    for value in table.a:
        for s in range(2):
            masses[s][(medians[value],)] += round(says[value][s] * UNIT)
    distributions = of_column(noiser, "loan", ("a",))
    for mass, label in zip(masses, ("no", "yes"), strict=True):
        assert distributions[label] == {k: Fraction(v, sum(mass.values())) for k, v in mass.items()}


@pytest.mark.parametrize("classes", [(1, 0), ("1", "0"), (1.0, 0.0), (True, False)])
def test_classes_are_aligned_whatever_their_order_and_type(classes):
    table = TABLE.assign(loan=[0, 1] * 5)
    turned = {value: says[::-1] for value, says in SAYS.items()}
    straight = PufferfishNoiser(sensitive="loan", prior=told(SAYS, (0, 1))).fit(table)
    other = PufferfishNoiser(sensitive="loan", prior=told(turned, classes)).fit(table)
    assert straight.priors_ == other.priors_
    assert straight.certificate_ == other.certificate_


def test_what_a_model_knows_of_further_secrets_is_left_out():
    says = {value: [0.2, 0.8 * no, 0.8 * yes] for value, (no, yes) in SAYS.items()}
    wide = PufferfishNoiser(sensitive="loan", prior=told(says, ("maybe", "no", "yes"))).fit(TABLE)
    rows = list(zip(TABLE.a, TABLE.b, strict=True))
    _, no, yes = distributions_by_hand(rows, says)
    assert of_column(wide, "loan", ("a", "b")) == {"no": no, "yes": yes}


def test_smoothing_mixes_in_the_share_of_each_secret():
    table = TABLE.assign(loan=["no"] * 8 + ["yes"] * 2)
    noiser = PufferfishNoiser(sensitive="loan", prior=told(SAYS, smoothing=0.5)).fit(table)
    mixed = {v: [0.5 * no + 0.4, 0.5 * yes + 0.1] for v, (no, yes) in SAYS.items()}
    no, yes = distributions_by_hand(list(zip(TABLE.a, TABLE.b, strict=True)), mixed)
    found = of_column(noiser, "loan", ("a", "b"))
    for row in no:
        assert float(found["no"][row]) == pytest.approx(float(no[row]), rel=1e-9)
        assert float(found["yes"][row]) == pytest.approx(float(yes[row]), rel=1e-9)


# ---------------------------------------------------------------------------------- cross-fitting


def random_table(n, seed=0, n_secrets=2):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 12, n)
    y = rng.integers(0, 5, n)
    secret = (x + rng.integers(0, 12, n)) * n_secrets // 24
    return pd.DataFrame({"x": x, "y": y, "s": np.array(list("abcdefgh"))[secret]})


def copies_by_fold(recording, table, k):
    """Return how often each (x, y, s) was left to each of k models, of which none saw them."""
    whole = Counter(table[["x", "y", "s"]].itertuples(index=False, name=None))
    seen = [Counter(zip(X.x, X.y, y, strict=True)) for X, y, _, _ in recording.seen]
    assert len(seen) == k
    return [whole - each for each in seen]


def test_every_copy_of_a_row_is_left_to_one_model_which_did_not_see_it(recording):
    table = random_table(300)[lambda t: t.y < 2]
    PufferfishNoiser(sensitive="s", prior=recording).fit(table)
    left = copies_by_fold(recording, table, 5)
    whole = Counter(table[["x", "y", "s"]].itertuples(index=False, name=None))
    assert sum(left, Counter()) == whole
    for row, count in whole.items():
        dealt = [each[row] for each in left]
        assert max(dealt) - min(dealt) <= 1  # each model sees its share of them
        assert sum(dealt) == count
    for each, (_, _, _, [test]) in zip(left, recording.seen, strict=True):
        asked = list(test.itertuples(index=False, name=None))
        assert sorted(asked) == sorted({row[:2] for row in each})


@pytest.mark.parametrize("n_rows", [31, 300])
def test_every_secret_is_in_as_many_folds_as_can_be(recording, n_rows):
    table = random_table(n_rows, n_secrets=3)
    PufferfishNoiser(sensitive="s", prior=ClassifierFit(recording, cv=4)).fit(table)
    for label, count in table.s.value_counts().items():
        left = [sum(n for row, n in each.items() if row[2] == label)
                for each in copies_by_fold(recording, table, 4)]  # fmt: skip
        assert sorted(set(left)) in ([count // 4], [count // 4, count // 4 + 1])


def test_the_distribution_of_equal_rows_is_the_mean_over_the_copies_dealt_to_each_model(recording):
    table = random_table(120)[lambda t: t.y < 2]
    noiser = PufferfishNoiser(sensitive="s", prior=recording).fit(table)
    left = copies_by_fold(recording, table, 5)
    for place, label in enumerate("ab"):
        masses = defaultdict(int)
        for each, (_, y, _, _) in zip(left, recording.seen, strict=True):
            share = np.unique(y, return_counts=True)[1][place] / len(y)
            for row, count in each.items():
                masses[tuple(float(v) for v in row[:2])] += count * round(share * UNIT)
        total = sum(masses.values())
        distribution = {row: Fraction(mass, total) for row, mass in masses.items()}
        assert of_column(noiser, "s", ("x", "y"))[label] == distribution


def narrow_table():
    rng = np.random.default_rng(0)
    word = rng.integers(0, 2, 500)
    secret = np.where(rng.random(500) < 0.9, word, 1 - word)
    return pd.DataFrame({"word": np.array(["u", "v"])[word], "s": secret})


BOOSTED, TREE = HistGradientBoostingClassifier(), DecisionTreeClassifier()


@pytest.mark.parametrize("prior", [BOOSTED, make_pipeline(OrdinalEncoder(), TREE)])
def test_in_a_narrow_table_the_distributions_are_near_the_counted_ones(prior):
    table = narrow_table()
    noiser = PufferfishNoiser(sensitive="s", prior=prior).fit(table)
    counts = table.value_counts(["s", "word"])
    distributions = of_column(noiser, "s", ("word",))
    for secret in (0, 1):
        [share] = (
            float(distribution)
            for (word,), distribution in distributions[secret].items()
            if word == 0
        )
        assert share == pytest.approx(counts[secret, "u"] / counts[secret].sum(), abs=0.03)
    [facts] = noiser.certificate_.models
    assert (facts.weak, facts.counting_log_loss) == ("", pytest.approx(facts.log_loss, rel=0.02))
    assert noiser.theta_["word"] > 0.0


@given(st.randoms(use_true_random=False), st.integers(2, 6))
@settings(max_examples=3)
def test_folds_have_nothing_to_do_with_the_order_of_rows_or_how_copies_are_given(random, cv):
    rows = [(random.randrange(4), random.randrange(2), random.choice("ab")) for _ in range(40)]
    rows += [(9, 9, "a"), (9, 9, "b")] * cv
    table = pd.DataFrame(rows, columns=["x", "y", "s"])
    shuffled = table.sample(frac=1.0, random_state=random.randrange(100)).reset_index(drop=True)
    counted = table.value_counts().rename("n").reset_index()
    prior = ClassifierFit(make_pipeline(KNeighborsClassifier(3)), cv=cv)
    first = PufferfishNoiser(sensitive="s", prior=prior).fit(table)
    again = PufferfishNoiser(sensitive="s", prior=prior).fit(shuffled)
    weighted = PufferfishNoiser(sensitive="s", prior=prior).fit(
        counted.drop(columns="n"), sample_weight=counted.n
    )
    assert first.priors_ == again.priors_ == weighted.priors_
    assert first.certificate_ == again.certificate_ == weighted.certificate_


def test_a_rare_secret_is_in_as_many_folds_as_can_be(recording):
    table = random_table(200).drop_duplicates(["x", "y"], ignore_index=True)
    table["s"] = ["rare"] * 5 + ["often"] * (len(table) - 5)
    PufferfishNoiser(sensitive="s", prior=recording).fit(table)
    assert [(y == "rare").sum() for _, y, _, _ in recording.seen] == [4] * 5


def test_models_are_given_their_rows_in_the_order_of_values(recording):
    PufferfishNoiser(sensitive="s", prior=recording).fit(random_table(60))
    for X, y, _, [test] in recording.seen:
        rows = list(zip(X.x, X.y, y, strict=True))
        assert rows == sorted(rows)
        assert X.index.tolist() == list(range(len(X)))
        asked = list(test.itertuples(index=False))
        assert asked == sorted(asked)


def test_nothing_is_learnt_from_the_order_of_rows():
    table = random_table(150).assign(word=lambda t: t.x.map("w{}".format))
    prior = HistGradientBoostingClassifier(max_iter=3)
    fits = []
    for order in (np.arange(150), np.random.default_rng(1).permutation(150)):
        given = table.iloc[order].reset_index(drop=True)
        fits.append(PufferfishNoiser(sensitive="s", prior=prior, public=["x", "word"]).fit(given))
    assert fits[0].priors_ == fits[1].priors_
    assert fits[0].certificate_ == fits[1].certificate_


def test_random_states_of_none_become_0_in_the_clone_alone():
    table = random_table(300)
    prior = HistGradientBoostingClassifier(max_iter=3, early_stopping=True)
    first = PufferfishNoiser(sensitive="s", prior=prior).fit(table)
    again = PufferfishNoiser(sensitive="s", prior=prior).fit(table)
    assert first.priors_ == again.priors_
    assert prior.random_state is None
    assert not hasattr(prior, "classes_")


def test_weights_are_as_repeated_rows():
    table = random_table(80)
    weights = np.random.default_rng(3).integers(0, 4, 80)
    prior = QUICK
    weighted = PufferfishNoiser(sensitive="s", prior=prior).fit(table, sample_weight=weights)
    repeated = PufferfishNoiser(sensitive="s", prior=prior).fit(
        table.loc[np.repeat(table.index, weights)].reset_index(drop=True)
    )
    assert weighted.priors_ == repeated.priors_
    assert weighted.certificate_ == repeated.certificate_


def test_many_rows_are_given_once_with_their_weight(recording, monkeypatch):
    monkeypatch.setattr(_fits, "MOST_ROWS", 50)
    table = random_table(90)
    PufferfishNoiser(sensitive="s", prior=recording).fit(table)
    whole = Counter(table[["x", "y", "s"]].itertuples(index=False, name=None))
    for X, y, weights, _ in recording.seen:
        rows = list(zip(X.x, X.y, y, strict=True))
        assert len(set(rows)) == len(rows)
        given = Counter(dict(zip(rows, weights.tolist(), strict=True)))
        assert (whole - given).total() == 18  # what is left to the model
        assert given - whole == Counter()
    with pytest.raises(ValueError, match="KNeighborsClassifier takes no sample_weight"):
        PufferfishNoiser(sensitive="s", prior=KNeighborsClassifier()).fit(table)


def test_a_splitter_keeps_the_rows_of_a_person_together(recording):
    table = random_table(60).drop_duplicates(["x", "y"], ignore_index=True)
    person = np.arange(len(table)) // 3
    fit = ClassifierFit(recording, cv=PredefinedSplit(person % 4))
    PufferfishNoiser(sensitive="s", prior=fit).fit(table)
    assert len(recording.seen) == 4
    for k, (_, _, _, [test]) in enumerate(recording.seen):
        assert sorted(test.x) == sorted(table.x[person % 4 == k])


def test_a_row_may_be_equal_to_one_in_another_fold_where_a_splitter_says_so():
    table = random_table(90)
    fit = ClassifierFit(LogisticRegression(), cv=KFold(3, shuffle=True, random_state=0))
    noiser = PufferfishNoiser(sensitive="s", prior=fit).fit(table)
    X, y, masses = table[["x", "y"]], table.s, defaultdict(int)
    for train, test in fit.cv.split(X, y):
        order = train[np.lexsort((y.iloc[train], X.y.iloc[train], X.x.iloc[train]))]
        model = LogisticRegression().fit(X.iloc[order], y.iloc[order])
        for row, says in zip(X.iloc[test].values, model.predict_proba(X.iloc[test]), strict=True):
            masses[tuple(row)] += says[0]
    total = sum(masses.values())
    distribution = of_column(noiser, "s", ("x", "y"))["a"]
    for row, mass in masses.items():
        assert float(distribution[row]) == pytest.approx(mass / total, rel=1e-6)


# ---------------------------------------------------------------------------- what models are given


MIXED = pd.DataFrame(
    {
        "age": [30, 41, 30, 52, 41, 30, 52, 30],
        "pay": [1.5, np.nan, 2.5, 1.5, 2.5, 1.5, np.nan, 2.5],
        "job": ["a", "b", None, "a", "b", "a", "b", "a"],
        "own": [True, False, True, True, False, False, True, False],
        "s": ["x", "y"] * 4,
    }
)


def test_models_are_given_columns_in_their_own_types(recording):
    fit = ClassifierFit(recording, cv=2)
    noiser = PufferfishNoiser(sensitive="s", prior=fit, missing="propagate")
    noiser.set_params(dependence="independent").fit(MIXED)
    for X, *_ in recording.seen:
        assert isinstance(X, pd.DataFrame)
        assert list(X.columns) == ["age", "pay", "job", "own"]
        assert X.age.dtype.kind == "i"
        assert X.pay.dtype == float
        assert list(X.job.cat.categories) == ["a", "b"]
        assert X.own.dtype == bool
    whole = pd.concat([X for X, *_ in recording.seen])
    assert whole.pay.isna().sum() == 2
    assert whole.job.isna().sum() == 1


def test_missing_values_have_distributions_of_their_own():
    says = {30: [0.9, 0.1], 41: [0.2, 0.8], 52: [0.5, 0.5]}
    table = MIXED[["age", "pay", "s"]]
    noiser = PufferfishNoiser(sensitive="s", prior=told(says, ("x", "y")), missing="propagate").fit(
        table
    )
    gone = [(age,) for age, pay in zip(table.age, table.pay, strict=True) if math.isnan(pay)]
    kept = [row for row in zip(table.age, table.pay, strict=True) if not math.isnan(row[1])]
    for columns, rows in ((("age",), gone), (("age", "pay"), kept)):
        x, y = distributions_by_hand(rows, says)
        assert of_column(noiser, "s", columns) == {"x": x, "y": y}


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "categorical", "nullable"])
def test_tables_of_every_kind_have_the_same_distributions(kind):
    table = random_table(100).assign(w=lambda t: t.y.map("w{}".format))
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    prior = ClassifierFit(make_pipeline(encoder, LogisticRegression()), cv=2)
    given = {
        "polars": lambda: pl.from_pandas(table),
        "pyarrow": lambda: pl.from_pandas(table).to_arrow(),
        "categorical": lambda: table.astype({"w": "category"}),
        "nullable": lambda: table.convert_dtypes(),
    }[kind]()
    one = PufferfishNoiser(sensitive="s", prior=prior).fit(table)
    other = PufferfishNoiser(sensitive="s", prior=prior).fit(given)
    assert one.priors_ == other.priors_
    np.testing.assert_array_equal(one.theta_, other.theta_)


def test_arrays_have_the_distributions_of_frames():
    table = random_table(100).assign(s=lambda t: (t.s == "b").astype(int))
    one = PufferfishNoiser(sensitive="s", prior=QUICK).fit(table)
    other = PufferfishNoiser(sensitive=2, prior=QUICK).fit(table.to_numpy())
    assert list(one.priors_["s"][0].values()) == list(other.priors_[2][0].values())
    np.testing.assert_array_equal(one.theta_, other.theta_)


def test_a_model_fitted_to_an_array_or_to_columns_in_another_order_is_asked_the_same():
    table = random_table(100)
    X, y = table[["x", "y"]], table.s
    models = [
        LogisticRegression().fit(X, y),
        LogisticRegression(tol=1e-10).fit(X[["y", "x"]], y),
        LogisticRegression().fit(X.to_numpy(), y),
    ]
    fits = [
        PufferfishNoiser(sensitive="s", prior=ClassifierFit(model, cv="prefit")).fit(table)
        for model in models
    ]
    assert fits[0].priors_ == fits[2].priors_
    np.testing.assert_allclose(fits[0].theta_, fits[1].theta_, rtol=1e-3)


def test_secrets_that_are_not_in_the_table_are_learnt_as_well():
    table = random_table(100)
    one = PufferfishNoiser(sensitive="s", prior=QUICK).fit(table)
    other = PufferfishNoiser(prior=QUICK)
    other.fit(table[["x", "y"]], sensitive_features=table.s)
    assert one.priors_ == other.priors_


# ----------------------------------------------------------------------- several sensitive columns


def test_every_sensitive_column_has_its_classifier():
    table = TABLE.assign(sex=["f", "m", "m", "f", "f"] * 2)
    of_sex = {0: [0.3, 0.7], 1: [0.6, 0.4], 2: [0.5, 0.5]}
    prior = {"loan": told(SAYS), "sex": told(of_sex, ("f", "m"))}
    noiser = PufferfishNoiser(sensitive=["loan", "sex"], prior=prior).fit(table)
    rows = list(zip(table.a, table.b, strict=True))
    for name, labels, says in (("loan", ("no", "yes"), SAYS), ("sex", ("f", "m"), of_sex)):
        distributions = distributions_by_hand(rows, says)
        assert of_column(noiser, name, ("a", "b")) == dict(zip(labels, distributions, strict=True))
    assert [facts.sensitive for facts in noiser.certificate_.models] == ["loan", "sex"]
    assert noiser.certificate_.holds


def test_one_classifier_is_fitted_anew_for_every_sensitive_column(recording):
    table = random_table(60).assign(t=lambda t: np.where(t.y > 2, "p", "q"))
    PufferfishNoiser(sensitive=["s", "t"], public="x", prior=ClassifierFit(recording, cv=2)).fit(
        table
    )
    assert [sorted(set(y)) for _, y, _, _ in recording.seen] == [["a", "b"]] * 2 + [["p", "q"]] * 2


# ------------------------------------------------------------------------------------- the
# guarantee


def laplace_loss(p, q, theta, n=9):
    """Return the largest log ratio of two priors under Laplace noise over many released rows."""
    axes = [sorted({row[k] for row in p}) for k in range(len(theta))]
    lines = [np.linspace(axis[0] - 3, axis[-1] + 3, 8 * n + 1) for axis in axes]
    grid = np.stack(np.meshgrid(*[np.union1d(a, b) for a, b in zip(axes, lines, strict=True)]), -1)

    def density(distribution):
        rows = np.array(list(distribution))
        masses = np.array([float(mass) for mass in distribution.values()])
        away = np.abs(grid[..., None, :] - rows) / np.array(theta)
        return (masses * np.exp(-away.sum(axis=-1))).sum(axis=-1)

    return np.abs(np.log(density(p) / density(q))).max()


def test_released_rows_keep_the_budget_for_who_knows_what_the_classifier_knows():
    noiser = PufferfishNoiser(0.4, sensitive="loan", prior=told(SAYS)).fit(TABLE)
    no, yes = distributions_by_hand(list(zip(TABLE.a, TABLE.b, strict=True)), SAYS)
    theta = noiser.theta_.tolist()
    assert laplace_loss(no, yes, theta) == pytest.approx(0.4, abs=1e-6)
    assert laplace_loss(no, yes, [0.99 * t for t in theta]) > 0.4
    assert noiser.certificate_.holds
    assert noiser.certificate_.loss == pytest.approx(0.4, abs=1e-6)


def test_unordered_columns_are_drawn_anew_within_the_budget():
    table = TABLE.assign(b=TABLE.b.map({0: "u", 1: "v"}))
    noiser = PufferfishNoiser(0.3, sensitive="loan", prior=told(SAYS)).fit(table)
    share = (table.b.value_counts() + 1) / (len(table) + 2)  # each value counts once more
    stays, theta = math.exp(-noiser.theta_["b"]), noiser.theta_["a"]
    lines = np.linspace(-3.0, 5.0, 801)

    def density(distribution):
        return [
            sum(
                float(mass)
                * (stays * (b == z) + (1.0 - stays) * share[label])
                * np.exp(-abs(lines - a) / theta)
                for (a, b), mass in distribution.items()
            )
            for z, label in enumerate("uv")
        ]

    no, yes = distributions_by_hand(list(zip(TABLE.a, TABLE.b, strict=True)), SAYS)
    loss = abs(np.log(np.array(density(no)) / np.array(density(yes)))).max()
    assert loss == pytest.approx(0.3, abs=1e-6)
    assert noiser.certificate_.holds


@pytest.mark.parametrize("noise", [Gaussian(1.0), Cauchy(1.0)])
def test_other_noise_serves_classifiers_as_well(noise):
    table = TABLE[["a", "loan"]]
    noiser = PufferfishNoiser(0.3, sensitive="loan", prior=told(SAYS), noise=noise, delta=0.01)
    noiser.fit(table)
    distributions = noiser.priors_["loan"]
    scaled = noise.with_scale(float(noiser.theta_["a"]))
    loss = privacy_loss(
        distributions["no"][("a",)], distributions["yes"][("a",)], scaled, Pufferfish(0.3, 0.01)
    )
    assert loss.upper <= 0.01 * (1.0 + 1e-6)
    assert noiser.certificate_.holds


def test_groups_of_columns_have_the_margins_of_the_distribution():
    noiser = PufferfishNoiser(sensitive="loan", prior=told(SAYS), dependence="independent")
    noiser.fit(TABLE)
    joint = PufferfishNoiser(sensitive="loan", prior=told(SAYS)).fit(TABLE)
    for label in ("no", "yes"):
        whole = joint.priors_["loan"][label][("a", "b")]
        for axis, name in enumerate("ab"):
            margin = distribution_of(whole.marginal([axis]))
            assert distribution_of(noiser.priors_["loan"][label][(name,)]) == margin


def test_a_list_of_adversaries_is_kept_to_against_each():
    noiser = PufferfishNoiser(
        0.4, sensitive="loan", prior=told(SAYS), adversaries=["empirical", LogisticRegression()]
    ).set_params(adversaries=["empirical", ClassifierFit(LogisticRegression(), cv=2)])
    noiser.fit(TABLE)
    counted = PufferfishNoiser(0.4, sensitive="loan").fit(TABLE)
    certificate = noiser.certificate_
    assert sorted(set(certificate.table["adversary"])) == [0, 1, 2]
    assert certificate.holds
    theta = noiser.theta_.tolist()
    found = {
        label: distribution_of(distributions[("a", "b")])
        for label, distributions in counted.priors_["loan"].items()
    }
    assert laplace_loss(found["no"], found["yes"], theta) <= 0.4 + 1e-9
    for further in (counted.priors_, noiser.priors_):
        prior = {
            label: distributions[("a", "b")] for label, distributions in further["loan"].items()
        }
        assert certificate.against(prior).holds
    assert [facts.argument for facts in certificate.models] == ["prior", "adversaries[1]"]


def test_a_classifier_may_stand_beside_the_counted_distribution():
    alone = PufferfishNoiser(0.4, sensitive="loan").fit(TABLE)
    beside = PufferfishNoiser(0.4, sensitive="loan", adversaries=[told(SAYS)]).fit(TABLE)
    assert (beside.theta_ >= alone.theta_ * (1 - 1e-9)).all()
    assert beside.certificate_.holds
    assert beside.priors_ == alone.priors_
    assert "further" in beside.certificate_.prior


@pytest.mark.parametrize("prior", [QUICK, told(SAYS)])
def test_around_a_classifier_the_noise_serves_every_prior(prior):
    options = {"sensitive": "loan", "adversaries": "confidence"}
    known = PufferfishNoiser(strategy="sensitivity", **options).fit(TABLE)
    with pytest.warns(UserWarning, match="classifier, around which no set is known"):
        noiser = PufferfishNoiser(prior=prior, **options).fit(TABLE)
    np.testing.assert_allclose(noiser.theta_, known.theta_, rtol=1e-6)


def test_only_distributions_are_saved():
    noiser = PufferfishNoiser(sensitive="s", prior=QUICK).fit(random_table(60))
    again = pickle.loads(pickle.dumps(noiser))
    assert again.priors_ == noiser.priors_
    again.transform(random_table(60))
    noiser.prior = "empirical"
    noiser._parameters["prior"] = "empirical"
    fitted = noiser._fitted  # whose certificate names the classifier
    own = {k: v for k, v in vars(noiser).items() if k != "_fitted"}
    assert b"LogisticRegression" not in pickle.dumps((own, fitted.rules, fitted.mechanism))


def test_a_clone_of_a_noiser_keeps_a_model_that_was_fitted_elsewhere():
    noiser = clone(PufferfishNoiser(sensitive="loan", prior=told(SAYS)))
    assert noiser.fit(TABLE).certificate_.holds


# ------------------------------------------------------------------------------------------- facts


def test_the_facts_are_those_of_scikit_learn():
    table = random_table(150, n_secrets=3)
    known = LogisticRegression().fit(table[["x", "y"]], table.s)
    noiser = PufferfishNoiser(sensitive="s", prior=ClassifierFit(known, cv="prefit")).fit(table)
    [facts] = noiser.certificate_.models
    found = known.predict_proba(table[["x", "y"]])
    shares = table.s.value_counts(normalize=True).sort_index().to_numpy()
    assert facts.log_loss == pytest.approx(log_loss(table.s, found))
    assert facts.constant_log_loss == pytest.approx(log_loss(table.s, np.tile(shares, (150, 1))))
    assert facts.auc == pytest.approx(roc_auc_score(table.s, found, multi_class="ovr"))
    assert (facts.model, facts.way, facts.n_models) == ("LogisticRegression", "fitted elsewhere", 1)
    counts = table.value_counts(["x", "y", "s"])
    cells = table.value_counts(["x", "y"])
    share = dict(zip(sorted(set(table.s)), shares, strict=True))
    counting = [
        -math.log((counts[x, y, s] - 1 + share[s]) / cells[x, y])
        for x, y, s in table.itertuples(index=False)
    ]
    assert facts.counting_log_loss == pytest.approx(np.mean(counting))
    assert facts.n_cells == len(cells)
    assert facts.n_certain == 0


def test_certainties_are_counted_and_said():
    says = {0: [1.0, 0.0], 1: [0.5, 0.5], 2: [0.0, 1.0]}
    noiser = PufferfishNoiser(sensitive="loan", prior=told(says)).fit(TABLE)
    [facts] = noiser.certificate_.models
    assert (facts.n_cells, facts.n_certain) == (6, 4)
    said = noiser.certificate_.details()
    assert "claims certainty (a probability of 0 or 1) about 4 of 6 distinct rows" in said
    smooth = PufferfishNoiser(sensitive="loan", prior=told(says, smoothing=0.1)).fit(TABLE)
    assert smooth.certificate_.models[0].n_certain == 0


def test_the_same_release_is_held_against_counted_columns_and_pairs():
    noiser = PufferfishNoiser(0.4, sensitive="loan", prior=told(SAYS)).fit(TABLE)
    counted = PufferfishNoiser(0.4, sensitive="loan").fit(TABLE).priors_["loan"]
    theta = dict(noiser.theta_)
    found = {each.columns: each.loss for each in noiser.certificate_.counted}
    assert set(found) == {("a",), ("b",), ("a", "b")}
    for columns, loss in found.items():
        axes = ["ab".index(name) for name in columns]
        no, yes = (
            distribution_of(counted[label][("a", "b")].marginal(axes)) for label in ("no", "yes")
        )
        by_hand = laplace_loss(no, yes, [theta[name] for name in columns])
        assert loss == pytest.approx(by_hand, abs=1e-6)


def test_the_certificate_says_whose_knowledge_it_is_about():
    prior = ClassifierFit(LogisticRegression(), cv=3)
    noiser = PufferfishNoiser(sensitive="s", prior=prior).fit(random_table(90))
    certificate = noiser.certificate_
    [facts] = certificate.models
    headline, *lines = certificate.details().splitlines()
    assert f"LogisticRegression for s (log loss {facts.log_loss:.4g} beside" in headline
    assert f"AUC {facts.auc:.3f} beside 0.5" in headline
    text = "\n".join(lines)
    assert "knows as much as a classifier, and no more" in text
    assert "cross-fitted in 3 folds" in text
    assert "counted a single pair of columns" in text
    assert "is a patchwork of 3 models" in text
    told_in_json = certificate.to_dict()
    assert told_in_json["models"][0]["log_loss"] == facts.log_loss
    assert {tuple(each["columns"]) for each in told_in_json["counted"]} == {
        ("x",),
        ("y",),
        ("x", "y"),
    }


def test_columns_without_distributions_of_all_secrets_and_wide_ones_are_passed_over():
    table = MIXED[["age", "pay", "s"]].assign(pay=[1.5, np.nan] * 4)
    says = {30: [0.9, 0.1], 41: [0.2, 0.8], 52: [0.5, 0.5]}
    noiser = PufferfishNoiser(
        sensitive="s", prior=told(says, ("x", "y")), missing="propagate", dependence="independent"
    ).fit(table)
    assert [each.columns for each in noiser.certificate_.counted] == [("age",)]


# ----------------------------------------------------------------------------------------- warnings


def test_a_dummy_never_passes_in_silence_boosted():
    table = random_table(400)
    with pytest.warns(UserWarning, match=r"DummyClassifier .* HistGradientBoostingClassifier\(\)"):
        noiser = PufferfishNoiser(sensitive="s", prior=DummyClassifier()).fit(table)
    [facts] = noiser.certificate_.models
    assert facts.weak == "boosting"
    assert facts.boosted_log_loss < facts.log_loss
    assert "WARNING" in noiser.certificate_.details()
    [x] = [each for each in noiser.certificate_.counted if each.columns == ("x",)]
    assert x.loss == math.inf


@pytest.mark.slow
def test_a_dummy_is_caught_where_a_column_has_many_levels_boosted():
    rng = np.random.default_rng(0)
    word = rng.integers(0, 280, 900)
    table = pd.DataFrame({"x": rng.integers(0, 9, 900), "word": [f"w{k:03}" for k in word]})
    table["s"] = (word + rng.integers(0, 140, 900)) // 210
    noiser = PufferfishNoiser(sensitive="s", public=["x", "word"], prior=DummyClassifier())
    assert noiser.fit(table).certificate_.models[0].weak == "boosting"


def test_the_boosted_default_is_not_held_against_itself():
    table = random_table(400)
    noiser = PufferfishNoiser(sensitive="s", prior=HistGradientBoostingClassifier()).fit(table)
    [facts] = noiser.certificate_.models
    assert facts.boosted_log_loss == facts.log_loss
    assert facts.weak in ("", "counting")


@pytest.mark.parametrize("n_rows", [12, 60])
def test_a_dummy_never_passes_where_little_can_be_learnt(n_rows):
    table = random_table(n_rows)
    with pytest.warns(UserWarning, match="no better than the shares of the secrets|counts"):
        PufferfishNoiser(sensitive="s", prior=ClassifierFit(DummyClassifier(), cv=2)).fit(table)


def test_counting_knows_more_than_a_model_that_learns_too_little():
    table = narrow_table()
    prior = ClassifierFit(HistGradientBoostingClassifier(max_iter=5), cv=2)
    with pytest.warns(UserWarning, match=r"adversaries=\[\"empirical\"\]"):
        noiser = PufferfishNoiser(sensitive="s", prior=prior).fit(table)
    assert noiser.certificate_.models[0].weak == "counting"
    safe = PufferfishNoiser(sensitive="s", prior=prior, adversaries=["empirical"]).fit(table)
    assert safe.theta_["word"] > 0.0
    assert safe.certificate_.models[0].weak == ""


@pytest.mark.slow
def test_a_model_that_is_surer_than_its_rows_allow_is_told_to_learn_less():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(600, 4)).round(1), columns=list("wxyz"))
    table["s"] = rng.random(600) < 1 / (1 + np.exp(-0.8 * table.w))
    options = {"sensitive": "s", "n_bins": 4}
    with pytest.warns(UserWarning, match=r"so sure of itself.*max_iter=30, max_leaf_nodes=7"):
        sure = PufferfishNoiser(prior=HistGradientBoostingClassifier(), **options).fit(table)
    assert sure.certificate_.models[0].weak == "overconfident"
    less = HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=7)
    modest = PufferfishNoiser(prior=less, **options).fit(table)  # warnings are errors
    assert modest.certificate_.models[0].weak == ""
    assert modest.theta_.mean() < sure.theta_.mean()


def test_rows_that_occur_once_are_the_table_and_not_the_population():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 12, (300, 3)), columns=list("xyz"))
    table["s"] = rng.integers(0, 2, 300)
    with pytest.warns(UserWarning, match="occur once.*or take PufferfishMicroaggregator"):
        PufferfishNoiser(sensitive="s").fit(table)
    for way in ({"prior": LogisticRegression()}, {"public": "x"}, {"n_bins": 2}):
        PufferfishNoiser(sensitive="s", **way).fit(table)  # warnings are errors


# -------------------------------------------------------------------------------------- bad input


def fails(message, *, kind=ValueError, table=TABLE, **options):
    with pytest.raises(kind, match=message) as caught:
        PufferfishNoiser(**{"sensitive": "loan", **options}).fit(table)
    assert "\n" not in str(caught.value)


def test_what_is_no_classifier_is_refused_by_name():
    fails("prior: LinearSVC.* has no predict_proba", kind=TypeError, prior=LinearSVC())
    fails("is the class; call it", kind=TypeError, prior=LogisticRegression)
    fails(
        r"adversaries\[1\]: .* has no predict_proba",
        kind=TypeError,
        adversaries=["empirical", LinearSVC()],
    )
    mixed = {"loan": LogisticRegression(), "sex": 3}
    fails("and not some of both; got 3", kind=TypeError, prior=mixed)
    fails("must be one of .*a classifier", kind=TypeError, prior=3)
    with pytest.raises(TypeError, match="has no get_params"):
        ClassifierFit(type("Bare", (), {"predict_proba": None, "fit": None})())


@pytest.mark.parametrize("estimator", [LogisticRegression(), make_pipeline(LogisticRegression())])
def test_prefit_wants_a_fitted_classifier(estimator):
    with pytest.raises(ValueError, match='cv="prefit" needs a fitted classifier'):
        ClassifierFit(estimator, cv="prefit")


@pytest.mark.parametrize("cv", [1, 0, True, 2.5, "often", None])
def test_cv_is_a_number_of_folds_a_splitter_or_prefit(cv):
    with pytest.raises((TypeError, ValueError), match="cv must be"):
        ClassifierFit(LogisticRegression(), cv=cv)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, math.nan, "much"])
def test_smoothing_is_a_share(smoothing):
    with pytest.raises((TypeError, ValueError), match=r"smoothing must(?!.*pure)"):
        ClassifierFit(LogisticRegression(), smoothing=smoothing)


def test_a_secret_rarer_than_the_folds_is_named():
    table = TABLE.assign(loan=["no"] * 7 + ["yes"] * 3)
    fails(r"prior: secret 'yes' of column 'loan' has 3 row\(s\), fewer than the cv=5",
          table=table, prior=LogisticRegression())  # fmt: skip
    by_loan = ClassifierFit(LogisticRegression(), cv=PredefinedSplit([0] * 7 + [1] * 3))
    fails("'no' .* is not among the rows that one", table=table, prior=by_loan)


def test_equal_rows_of_a_secret_and_constant_columns_are_learnt_from():
    alike = pd.DataFrame({"a": [0] * 6 + [1, 2, 3, 4], "loan": ["yes"] * 6 + ["no"] * 4})
    constant = pd.DataFrame({"a": [0] * 10, "loan": ["yes", "no"] * 5})
    for table in (alike, constant):
        noiser = PufferfishNoiser(sensitive="loan", prior=QUICK).fit(table)
        assert noiser.certificate_.holds
    assert noiser.certificate_.loss == 0.0


def test_a_secret_that_a_model_does_not_know_is_named():
    fails("Told does not know secret 'yes' of column 'loan'", prior=told(SAYS, ("no", "maybe")))


def test_a_secret_with_probability_zero_everywhere_is_named():
    says = {value: [1.0, 0.0] for value in range(3)}
    fails("gives secret 'yes' .* probability zero for every row", prior=told(says))
    PufferfishNoiser(sensitive="loan", prior=told(says, smoothing=0.1)).fit(TABLE)


@pytest.mark.parametrize("says", [[0.5, 0.6], [1.5, -0.5], [math.nan, 1.0], [1.0]])
def test_what_are_no_probabilities_is_refused(says):
    fails("predict_proba of Told", prior=told(dict.fromkeys(range(3), says)))


def test_columns_and_classifiers_belong_together():
    table = TABLE.assign(sex=["f", "m"] * 5)
    both = {"sensitive": ["loan", "sex"], "table": table}
    fails("prior is one fitted classifier, and several", prior=told(SAYS), **both)
    fails("prior has no classifier for column 'sex'", prior={"loan": LogisticRegression()}, **both)
    fails("names column 'race', which is not sensitive", prior={"race": LogisticRegression()})
    elsewhere = LogisticRegression().fit(TABLE[["a", "b"]], TABLE.loan)
    fit = ClassifierFit(elsewhere, cv="prefit")
    fails("was fitted with column 'b', which is not public", public="a", prior=fit)


def test_splitters_test_every_row_once():
    for cv in (ShuffleSplit(3, random_state=0), PredefinedSplit([0, 1, -1] * 3 + [0])):
        fails("must put each of the 10 rows to the test once",
              prior=ClassifierFit(LogisticRegression(), cv=cv))  # fmt: skip
    fails("PredefinedSplit", prior=ClassifierFit(LogisticRegression(), cv=GroupKFold(2)))


def test_what_a_model_cannot_read_is_said_with_the_way_out():
    table = TABLE.assign(a=TABLE.a.map("w{}".format))
    fails("could not be fitted .* put an encoder before it", table=table,
          prior=ClassifierFit(LogisticRegression(), cv=2))  # fmt: skip


def test_more_rows_than_64_bits_hold_are_refused():
    with pytest.raises(ValueError, match="more than the 536870912 for which classifier priors"):
        PufferfishNoiser(sensitive="loan", prior=told(SAYS)).fit(TABLE, sample_weight=2**28)


def test_classifiers_and_mixtures_do_not_mix():
    table = random_table(60)
    noiser = PufferfishNoiser(sensitive="s", public="x", prior="gaussian", noise="gaussian")
    with pytest.raises(ValueError, match="must be of one family"):
        noiser.set_params(delta=0.01, adversaries=[LogisticRegression()]).fit(table)
