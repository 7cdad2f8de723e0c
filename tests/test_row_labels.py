"""Arguments that are aligned with rows by position: an index that says otherwise is refused."""

import importlib
import inspect

import numpy as np
import pandas as pd
import pytest

import sklearn_puffer
from sklearn_puffer import (
    PufferfishMicroaggregator,
    PufferfishNoiser,
    PufferfishSGDClassifier,
    PufferfishSGDRegressor,
    audit,
)
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.closed_forms import gaussian_users
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_puffer.PufferfishWarning")

N = 60
TABLE = pd.DataFrame(
    {
        "secret": ["a", "b"] * (N // 2),
        "cars": np.arange(N) % 3,
        "dogs": np.arange(N) // 2 % 2,
        "label": np.arange(N) % 4 // 2,
    }
)
ROWS, SECRETS, NUMBERS = TABLE[["cars", "dogs"]], TABLE["secret"], TABLE["cars"] + 1
IDS = pd.Series(np.arange(N), name="id")


def fitted(**params):
    return PufferfishNoiser(8.0, sensitive="secret", public=["cars", "dogs"], **params).fit(TABLE)


def grouped():
    return PufferfishMicroaggregator(sensitive="secret", public=["cars", "dogs"])


def beside_secrets():
    return PufferfishNoiser(8.0).fit(ROWS, sensitive_features=SECRETS)


# (function or method, argument, what it is called in errors): how it is called with such a column
ALIGNED = {
    ("PufferfishNoiser.fit", "sensitive_features"): (
        SECRETS,
        lambda x: PufferfishNoiser().fit(ROWS, sensitive_features=x),
    ),
    ("PufferfishNoiser.fit", "sample_weight"): (
        NUMBERS,
        lambda x: PufferfishNoiser(sensitive="secret").fit(TABLE, sample_weight=x),
    ),
    ("PufferfishNoiser.transform", "row_id"): (
        IDS,
        lambda x: fitted().transform(TABLE, row_id=x, key=b"blake2b:" + bytes(32)),
    ),
    ("PufferfishMicroaggregator.fit", "y"): (
        TABLE["label"],
        lambda x: grouped().fit(TABLE, x),
    ),
    ("PufferfishMicroaggregator.fit", "sensitive_features"): (
        SECRETS,
        lambda x: PufferfishMicroaggregator().fit(ROWS, sensitive_features=x),
    ),
    ("PufferfishMicroaggregator.fit", "sample_weight"): (
        NUMBERS,
        lambda x: grouped().fit(TABLE, sample_weight=x),
    ),
    ("PufferfishMicroaggregator.transform", "row_id"): (
        IDS,
        lambda x: grouped().fit(TABLE).transform(TABLE, row_id=x, key=b"blake2b:" + bytes(32)),
    ),
    ("audit", "sensitive_features"): (
        SECRETS,
        lambda x: audit(beside_secrets(), ROWS, sensitive_features=x),
    ),
    ("PufferfishSGDClassifier.fit", "y"): (
        TABLE["label"],
        lambda x: PufferfishSGDClassifier().fit(ROWS, x),
    ),
    ("PufferfishSGDRegressor.fit", "y"): (
        TABLE["label"] / 4,
        lambda x: PufferfishSGDRegressor().fit(ROWS, x),
    ),
    ("priors.Discrete", "probabilities"): (
        NUMBERS / NUMBERS.sum(),
        lambda x: Discrete(NUMBERS, x),
    ),
    ("priors.Discrete.from_counts", "counts"): (
        NUMBERS,
        lambda x: Discrete.from_counts(NUMBERS, x),
    ),
    ("priors.GaussianMixture", "means"): (
        NUMBERS[:2],
        lambda x: GaussianMixture(pd.Series([0.5, 0.5]), x, [1.0, 1.0]),
    ),
    ("priors.GaussianMixture", "scales"): (
        NUMBERS[:2],
        lambda x: GaussianMixture(pd.Series([0.5, 0.5]), [0.0, 1.0], x),
    ),
}
ALIGNED |= {
    ("closed_forms.gaussian_users", argument): (
        NUMBERS,
        lambda x, argument=argument: gaussian_users(
            NUMBERS, notion=Pufferfish(1.0, 0.1), **{"sds": NUMBERS.to_numpy(), argument: x}
        ),
    )
    for argument in ("sds", "counts")
}
CASES = [pytest.param(*case, id="-".join(names)) for names, case in ALIGNED.items()]


@pytest.mark.parametrize(("column", "call"), CASES)
def test_a_column_in_another_order_than_the_rows_is_refused(column, call):
    with pytest.raises(ValueError, match=r"has an index that differs from \w+'s; .*set_axis"):
        call(column[::-1])


@pytest.mark.parametrize(("column", "call"), CASES)
def test_a_column_with_other_row_labels_than_the_rows_is_refused(column, call):
    with pytest.raises(ValueError, match=r"has an index that differs from \w+'s; .*set_axis"):
        call(column.set_axis(column.index + 5))


# parameters with such a name that are no columns beside rows, or go to one that is in the list
_OTHERS = {
    *(
        (f"Pufferfish{x}", "y") for x in ("Noiser.fit", "Noiser.fit_transform", "Sum.fit")
    ),  # ignored
    # names of columns
    *(("PufferfishNoiser", "groups"), ("audit", "groups"), ("plan", "task"), ("audit", "task")),
    *((name, "row_id") for name in ("PufferfishRelease.transform", "PersonLedger.transform")),
    ("PufferfishRelease.transform", "sensitive_features"),
    *(("PufferfishRelease.fit", x) for x in ("y", "sensitive_features", "sample_weight")),
    *(("Plan", "task"), ("Certificate", "groups")),  # fields of results
    *(("couplings.Plan", "y"), ("datasets.Contingency", "counts")),
    # by arrays alone, without an index, and by secrets
    *((f"fits.{x}", "counts") for x in ("GaussianFit.fit", "MixtureFit.fit", "bootstrap")),
    *((f"fits.{x}.fit_all", "groups") for x in ("GaussianFit", "MixtureFit")),
}
# its fit and transform have tests of their own
_OTHERS |= {
    (f"PufferfishSwap.{method}", argument)
    for method in ("fit", "transform", "fit_transform")
    for argument in ("y", "sensitive_features", "row_id")
}
_OTHERS |= {("PufferfishSwap", "groups")}
_NAMES = {"sensitive_features", "sample_weight", "y", "row_id", "groups", "task"}
_NAMES |= {"counts", "weights_of_rows", "labels", "row_ids", "sample_weights"}


def _public():
    """Yield all public functions and methods, by their dotted names."""
    names = [(name, getattr(sklearn_puffer, name)) for name in sklearn_puffer.__all__]
    for module in sorted(sklearn_puffer._MODULES - {"displays"}):
        found = importlib.import_module(f"sklearn_puffer.{module}")
        names += [(f"{module}.{name}", getattr(found, name)) for name in found.__all__]
    for name, thing in names:
        if inspect.isclass(thing):
            yield name, thing
            for method, function in inspect.getmembers(thing, callable):
                own = (getattr(function, "__module__", "") or "").startswith("sklearn_puffer")
                if own and not method.startswith("_"):
                    yield f"{name}.{method}", function
        elif callable(thing):
            yield name, thing


def test_every_argument_that_is_named_like_a_column_beside_rows_is_in_the_list():
    found = set()
    for name, function in _public():
        try:
            parameters = inspect.signature(function).parameters
        except ValueError:
            continue
        found |= {(name, parameter) for parameter in parameters if parameter in _NAMES}
    assert found - ALIGNED.keys() - _OTHERS == set()
    assert ALIGNED.keys() - found <= {
        ("closed_forms.gaussian_users", "sds"),
        ("Certificate.check", "sensitive"),
        ("priors.Discrete", "probabilities"),
        ("priors.GaussianMixture", "means"),
        ("priors.GaussianMixture", "scales"),
    }


def test_weights_in_another_order_would_certify_a_release_that_keeps_nothing():
    values = [0, 1] * 100 + [0] * 150 + [1] * 50
    table = pd.DataFrame({"secret": ["a"] * 200 + ["b"] * 200, "value": values})
    weights = pd.Series(np.where((table.secret == "b") & (table.value == 0), 9, 1))
    noiser = PufferfishNoiser(0.5, sensitive="secret").fit(table, sample_weight=weights)
    assert noiser.theta_["value"] == pytest.approx(1.1056, abs=1e-4)

    ordered = weights.sort_values(kind="stable")
    by_position = PufferfishNoiser(0.5, sensitive="secret").fit(
        table, sample_weight=ordered.to_numpy()
    )
    truth = [
        Discrete.from_counts([0, 1], weights.groupby(table.value[table.secret == s]).sum())
        for s in "ab"
    ]
    scale = by_position.theta_["value"]
    assert scale < 1.1056
    if scale:
        loss = privacy_loss(*truth, Laplace(scale), Pufferfish(0.5))
        assert loss.lower > 0.5

    with pytest.raises(ValueError, match="sample_weight has an index that differs from X's"):
        PufferfishNoiser(0.5, sensitive="secret").fit(table, sample_weight=ordered)


@pytest.mark.parametrize(
    "weights", [NUMBERS, NUMBERS.set_axis([f"r{k}" for k in range(N)])], ids=["plain", "named"]
)
def test_rows_without_labels_take_any_column_by_position(weights):
    rows = ROWS.to_numpy()
    of_series = PufferfishNoiser().fit(rows, sensitive_features=SECRETS, sample_weight=weights)
    of_array = PufferfishNoiser().fit(
        rows, sensitive_features=SECRETS.to_numpy(), sample_weight=NUMBERS.to_numpy()
    )
    assert of_series.theta_.tolist() == of_array.theta_.tolist()


def test_the_same_labels_in_another_type_are_the_same():
    table = TABLE.set_axis(np.arange(N, dtype=float))
    PufferfishNoiser(sensitive="secret").fit(table, sample_weight=NUMBERS)
