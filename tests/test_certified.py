"""An estimator releases only what its certificate is about, whatever was changed since `fit`."""

import copy
import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest
from claims import altered
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_puffer import (
    Ledger,
    PufferfishNoiser,
    PufferfishSGDClassifier,
    PufferfishSGDRegressor,
    PufferfishSum,
    __version__,
)
from sklearn_puffer._certificates import Precisions
from sklearn_puffer._documents import digest
from sklearn_puffer.noise import Gaussian, Laplace
from sklearn_puffer.priors import Discrete
from sklearn_puffer.users import User

CHANGED = "is not what its certificate_ is about"


def table_of(n=240):
    s = np.arange(n) % 2
    k = np.arange(n) // 2
    return pd.DataFrame(
        {
            "s": s,
            "x": k % 3 + s * (k % 4 > 0),
            "y": np.array(list("abca"))[k % 4 - s * (k % 3 > 1)],
            "z": (k * 7 % 11) / 4 + s,
        }
    )


@pytest.fixture(scope="module")
def fitted():
    return PufferfishNoiser(0.3, sensitive="s", n_bins={"z": 3}, dependence="independent").fit(
        table_of()
    )


@pytest.fixture
def noiser(fitted):
    return copy.deepcopy(fitted)


def with_column(noiser, position, **changes):
    release = noiser._fitted.mechanism.columns[position]
    noiser._fitted.mechanism.columns[position] = dataclasses.replace(
        release, column=dataclasses.replace(release.column, **changes)
    )


def with_release(noiser, position, **changes):
    noiser._fitted.mechanism.columns[position] = dataclasses.replace(
        noiser._fitted.mechanism.columns[position], **changes
    )


def with_certificate(noiser, **changes):
    noiser.certificate_ = altered(noiser.certificate_, **changes)


def less_noise(noiser, factor=1e-6):
    for k, release in enumerate(noiser._fitted.mechanism.columns):
        scale = float(release.noise.axis_scales(1)[0])
        with_release(noiser, k, noise=release.noise.with_scale(scale * factor))


def in_place(noiser):
    noiser._fitted.mechanism.columns[0].column.atoms[0] += 1.0


def with_rules(noiser, **changes):
    fitted = noiser._fitted
    rules = dataclasses.replace(fitted.rules, **changes)
    noiser._fitted = dataclasses.replace(fitted, rules=rules)


def columns_too(noiser):
    less_noise(noiser)
    told = [dataclasses.replace(each, theta=each.theta * 1e-6) for each in _told(noiser)]
    with_certificate(noiser, columns=tuple(told))


def _told(noiser):
    return noiser.certificate_.columns


DAMAGES = {
    "tiny scales": less_noise,
    "tiny scales, told": columns_too,
    "larger scales": lambda n: less_noise(n, 2.0),
    "no noise": lambda n: with_release(n, 0, noise=None),
    "another family": lambda n: with_release(n, 0, noise=Gaussian(_told(n)[0].theta)),
    "a finer grid": lambda n: with_release(n, 0, grid=n._fitted.mechanism.columns[0].grid / 2.0),
    "raw values": lambda n: with_release(n, 0, output="noisy"),
    "another name": lambda n: with_column(n, 0, name="s"),
    "an atom moved in place": in_place,
    "levels in another order": lambda n: with_column(n, 1, levels=("b", "a", "c")),
    "another edge": lambda n: with_column(
        n, 2, edges=n._fitted.mechanism.columns[2].column.edges + 0.25
    ),
    "values that were not known": lambda n: with_column(
        n, 0, known=~n._fitted.mechanism.columns[0].column.known
    ),
    "one column less": lambda n: n._fitted.mechanism.columns.pop(),
    "a column passed through": lambda n: n._fitted.rules.passed.append("s"),
    "another order": lambda n: n._fitted.rules.order.reverse(),
    "other names": lambda n: with_rules(n, names=n._fitted.rules.names[::-1]),
    "another secret": lambda n: with_rules(n, sensitive=["x"]),
    "missing values let through": lambda n: with_rules(n, missing="propagate"),
    "a larger budget": lambda n: with_certificate(n, epsilon=3.0),
    "a delta": lambda n: with_certificate(n, delta=0.1),
    "more releases": lambda n: with_certificate(n, releases=9),
    "a smaller loss": lambda n: with_certificate(n, loss=0.01),
    "another rule": lambda n: with_certificate(n, rule=Precisions.of_scales(1, {"x": 1e-9})),
    "another scale told": lambda n: with_certificate(
        n, columns=(dataclasses.replace(_told(n)[0], theta=1e9), *_told(n)[1:])
    ),
    "no fingerprint": lambda n: with_certificate(n, fingerprint="", columns=()),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_noiser_whose_fitted_parts_were_changed_releases_nothing(noiser, damage, tmp_path):
    ledger = Ledger.create(tmp_path / "x.ledger", noiser)
    noiser.transform(table_of())
    DAMAGES[damage](noiser)
    for call in (
        lambda: noiser.transform(table_of()),
        lambda: pickle.loads(pickle.dumps(noiser)).transform(table_of()),
        lambda: ledger.transform(noiser, table_of()),
        lambda: Ledger.create(tmp_path / "y.ledger", noiser),
        lambda: Ledger.open(tmp_path / "x.ledger", noiser),
    ):
        with pytest.raises(ValueError, match=CHANGED):
            call()
    assert ledger.history() == ()


def test_the_certificate_of_another_fit_does_not_do(noiser):
    other = PufferfishNoiser(3.0, sensitive="s", n_bins={"z": 3}, dependence="independent")
    noiser.certificate_ = other.fit(table_of()).certificate_
    with pytest.raises(ValueError, match=CHANGED):
        noiser.transform(table_of())


def test_a_name_for_the_table_leaves_the_noiser_as_it_is(noiser):
    noiser.certificate_ = noiser.certificate_.named("survey")
    assert len(noiser.transform(table_of())) == len(table_of())


def test_saving_copying_and_cloning_leave_a_noiser_as_it_is(noiser):
    for same in (pickle.loads(pickle.dumps(noiser)), copy.copy(noiser), clone(noiser)):
        if not hasattr(same, "certificate_"):
            same.fit(table_of())
        assert same.certificate_ == noiser.certificate_
        assert len(same.transform(table_of())) == len(table_of())


# ------------------------------------------------------------------------ parameters set after fit


NOISER_CHANGES = {
    "epsilon": 9.0,
    "delta": 0.1,
    "alpha": 2.0,
    "releases": 2,
    "sensitive": "x",
    "public": ["x"],
    "secret_pairs": [(0, 1)],
    "prior": "gaussian",
    "strategy": "relaxed",
    "noise": Laplace(2.0),
    "dependence": "joint",
    "adversaries": "confidence",
    "weights": {"x": 2.0},
    "categories": {"y": ["c", "b", "a"]},
    "n_bins": {"z": 2},
    "missing": "propagate",
    "output": "noisy",
    "remainder": "passthrough",
    "known": ["x"],
    "groups": "s",
    "max_group": 3,
    "within_group": "any",
}
NOISER_LATER = {"unknown": "nearest", "on_uncertified": "warn", "n_jobs": 2, "random_state": None}


@pytest.mark.parametrize("name", NOISER_CHANGES)
def test_a_parameter_of_fit_that_was_set_since_asks_for_a_new_fit(noiser, name):
    before = getattr(noiser, name)
    noiser.set_params(**{name: NOISER_CHANGES[name]})
    with pytest.raises(ValueError, match=rf"^{name}=.* was set after fit.*call fit again"):
        noiser.transform(table_of())
    noiser.set_params(**{name: before}).transform(table_of())


def test_all_parameters_set_since_are_named_at_once(noiser):
    noiser.set_params(epsilon=2.0, missing="category")
    with pytest.raises(ValueError, match=r"^epsilon=2\.0, missing='category' was set after fit"):
        noiser.transform(table_of())
    assert noiser.set_params(missing="error").fit(table_of()).certificate_.epsilon == 2.0
    noiser.transform(table_of())


@pytest.mark.parametrize("name", NOISER_LATER)
def test_a_parameter_of_transform_may_be_set_at_any_time(noiser, name):
    noiser.set_params(**{name: NOISER_LATER[name]}).transform(table_of())


def test_every_parameter_of_the_noiser_belongs_to_fit_or_to_transform():
    later = set(NOISER_LATER) | {"verbose"}
    assert set(PufferfishNoiser().get_params()) - later == set(NOISER_CHANGES)


def test_a_list_that_grew_since_fit_is_a_parameter_that_was_set():
    noiser = PufferfishNoiser(0.3, sensitive="s", public=["x"]).fit(table_of())
    noiser.public.append("y")
    with pytest.raises(ValueError, match=r"public=.* was set after fit"):
        noiser.transform(table_of())


@pytest.mark.filterwarnings("ignore:Column.s. 'x' need no noise:UserWarning")
def test_equal_parameters_are_the_same_ones():
    distribution = {0: Discrete([0, 1], [0.5, 0.5]), 1: Discrete([0, 1], [0.4, 0.6])}
    noiser = PufferfishNoiser(1, sensitive="s", public=["x"], prior=distribution)
    noiser.fit(pd.DataFrame({"s": [0, 1, 1], "x": [0, 1, 1]}))
    again = {0: Discrete([0, 1], [0.5, 0.5]), 1: Discrete([0, 1], [0.4, 0.6])}
    noiser.set_params(epsilon=1.0, prior=again, public=("x",))
    assert len(pickle.loads(pickle.dumps(noiser)).transform(pd.DataFrame({"x": [0, 1]}))) == 2
    noiser.prior[0] = Discrete([0, 1], [0.9, 0.1])
    with pytest.raises(ValueError, match=r"prior=.* was set after fit"):
        noiser.transform(pd.DataFrame({"x": [0, 1]}))


@pytest.mark.filterwarnings("ignore:Column.s. 'x' need no noise:UserWarning")
def test_a_search_over_epsilon_fits_anew_each_time():
    X = table_of()[["x"]]
    pipeline = make_pipeline(PufferfishNoiser(), PufferfishSGDClassifier(data_norm=9.0))
    search = GridSearchCV(pipeline, {"pufferfishnoiser__epsilon": [0.5, 5.0]}, cv=2)
    secret = table_of()["s"]
    search.fit(X, secret, pufferfishnoiser__sensitive_features=secret)
    assert len(search.predict(X)) == len(X)


# ------------------------------------------------------------------------------- sums and descents


def query_of():
    users = [
        User(Discrete([0, 1, 2], [0.7, 0.2, 0.1]), count=9),
        User(Discrete([0, 1], [0.5, 0.5])),
    ]
    return PufferfishSum(0.5).fit(users)


QUERY_DAMAGES = {
    "_scale": 1e-9,
    "_grid": 1.0,
    "_unit": 2.0,
    "_joint_scale": 9.0,
    "_reporters": PufferfishSum(0.5).fit([User(Discrete([0, 1], [0.5, 0.5]), count=10)])._reporters,
}


@pytest.mark.parametrize("name", QUERY_DAMAGES)
def test_a_query_whose_fitted_parts_were_changed_answers_nothing(name, tmp_path):
    query, reports = query_of(), [1] * 10
    ledger = Ledger.create(tmp_path / "x.ledger", query)
    query.release(reports)
    setattr(query, name, QUERY_DAMAGES[name])
    for call in (
        lambda: query.release(reports),
        lambda: ledger.release(query, reports),
        lambda: Ledger.open(tmp_path / "x.ledger", query),
    ):
        with pytest.raises(ValueError, match=CHANGED):
            call()
    assert ledger.history() == ()


@pytest.mark.parametrize(
    "change",
    [{"epsilon": 5.0}, {"loss": 0.1}, {"worst": 0.1}, {"releases": 3}, {"columns": ()}],
    ids=lambda change: next(iter(change)),
)
def test_a_query_does_not_answer_under_a_certificate_that_was_changed(change):
    query = query_of()
    query.certificate_ = altered(query.certificate_, **change)
    with pytest.raises(ValueError, match=CHANGED):
        query.release([1] * 10)


def test_parameters_of_a_query_set_since_fit_ask_for_a_new_fit():
    query = query_of().set_params(verbose=1)
    query.release([1] * 10)
    with pytest.raises(ValueError, match=r"^epsilon=5\.0, query='mean' was set after fit"):
        query.set_params(epsilon=5.0, query="mean").release([1] * 10)


def descent_of(kind):
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 2))
    return kind(1.0).fit(X, X[:, 0] > 0.0), X


@pytest.mark.parametrize("kind", [PufferfishSGDRegressor, PufferfishSGDClassifier])
def test_weights_that_were_not_released_predict_nothing(kind):
    for name in ("coef_", "intercept_"):
        model, X = descent_of(kind)
        model.predict(X)
        setattr(model, name, getattr(model, name) * 1.5 + 1.0)
        with pytest.raises(ValueError, match=CHANGED):
            model.predict(X)
    model, X = descent_of(kind)
    model.coef_[...] += 1.0
    with pytest.raises(ValueError, match=CHANGED):
        model.predict(X)
    model, X = descent_of(kind)
    model.certificate_ = dataclasses.replace(model.certificate_, loss=0.1)
    with pytest.raises(ValueError, match=CHANGED):
        model.predict(X)


@pytest.mark.parametrize("kind", [PufferfishSGDRegressor, PufferfishSGDClassifier])
def test_parameters_of_a_descent_set_since_fit_ask_for_a_new_fit(kind):
    model, X = descent_of(kind)
    model.set_params(verbose=1).predict(X)
    pickle.loads(pickle.dumps(model)).predict(X)
    with pytest.raises(ValueError, match=r"^correlation=0\.5 was set after fit"):
        model.set_params(correlation=0.5).predict(X)


# ---------------------------------------------------------------------------------------- versions


ESTIMATORS = [
    PufferfishNoiser,
    PufferfishSum,
    PufferfishSGDRegressor,
    PufferfishSGDClassifier,
]


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("version", [None, "0.0.9", "99.0", "0.1.0\nby hand", 1])
def test_a_state_of_another_version_is_refused(kind, version):
    state = kind().__getstate__()
    [key] = [key for key, value in state.items() if value == __version__]
    state.pop(key) if version is None else state.update({key: version})
    by = "an unknown version" if version is None else "version "
    with pytest.raises(ValueError, match=rf"saved by {by}.*fit again\.$"):
        object.__new__(kind).__setstate__(state)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_saved_state_is_left_as_it_was(kind):
    state = kind().__getstate__()
    before = dict(state)
    object.__new__(kind).__setstate__(state)
    assert state == before


# --------------------------------------------------------------------------------------- the digest


@dataclasses.dataclass
class Pair:
    one: object
    two: object


@dataclasses.dataclass
class Other:
    one: object
    two: object


VALUES = [
    None,
    0,
    0.0,
    False,
    "",
    "0",
    b"0",
    [],
    [[]],
    [0],
    [0, 0],
    [[0], 0],
    [0, [0]],
    ("list", [0]),
    {},
    {0: 1},
    {"0": 1},
    {0, 1},
    {(0, 1)},
    np.zeros(0),
    np.zeros(1),
    np.zeros(2),
    np.zeros((1, 2)),
    np.zeros(2, dtype=np.float32),
    np.zeros(2, dtype=np.int64),
    np.array([0.0, 1.0]),
    np.array([0, 1], dtype=object),
    Pair(0, 1),
    Pair(1, 0),
    Other(0, 1),
    "\ud800",
    "\\ud800",
    "a\nb",
    "a\\nb",
]


def test_different_values_have_different_digests():
    marks = [digest(value) for value in VALUES]
    assert len(set(marks)) == len(VALUES)
    assert digest(0, 0) != digest([0, 0]) != digest([0], [0])


def test_equal_values_have_equal_digests():
    numbers = np.arange(10.0)
    assert digest(numbers[::2]) == digest(numbers[::2].copy())
    assert digest(numbers.astype(">f8")) == digest(numbers)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"b", "a"}) == digest({"a", "b"})
    assert digest(np.float64(0.5), np.str_("x")) == digest(0.5, "x")
    assert digest([object()]) == digest([object()])
