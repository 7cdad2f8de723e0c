"""A mechanism that is not the package's: all that a release of a table needs is inherited."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_puffer import Certificate, PufferfishRelease, PufferfishWarning
from sklearn_puffer._base import fitting
from sklearn_puffer._certificates import Guaranteed, Made, Method, Proof
from sklearn_puffer._codes import public_columns, resolve
from sklearn_puffer._documents import digest
from sklearn_puffer._release import (
    LearntMechanism,
    Mechanism,
    Moved,
    TableRelease,
    read_column,
    written_column,
)
from sklearn_puffer._rows import column_of
from sklearn_puffer._tables import Finished
from sklearn_puffer.notions import Pufferfish

INCOME = [1.5, 2.5, 3.5, 9.5]
TABLE = pd.DataFrame({"age": [20, 30, 40, 50], "income": INCOME, "loan": list("nyny")})
KEY = b"blake2b:" + bytes(32)


@dataclass(frozen=True, eq=False)
class Coins(Mechanism):
    """Every number becomes the smaller or the larger of two, by a fair coin of its row."""

    kind = "coins"
    is_key_material = True

    ends: dict
    columns: tuple

    @property
    def released_columns(self):
        return self.columns

    def released(self, table, rules, draw):
        if draw.keyed is None:
            heads = draw.entropy(0).words(table.n_rows) >> np.uint64(63)
        else:
            codes = [np.zeros(table.n_rows, dtype=np.int64)]
            heads = draw.keyed.columns(slice(None), codes)[0].words(table.n_rows) >> np.uint64(63)
        numbers = {name: np.array(ends)[heads.astype(int)] for name, ends in self.ends.items()}
        read = {name: table.values(name).data for name in self.ends}
        unseen = {name: int((x > self.ends[name][1]).sum()) for name, x in read.items()}
        written = {name: Finished(table.original(name), passed=True) for name in rules.passed}
        written |= {n: Finished(x.astype(read[n].dtype)) for n, x in numbers.items()}
        built = table.build({name: written[name] for name in rules.order})
        return built, Moved(unseen, table.n_rows)

    def fingerprint(self, certificate, *about):
        return digest("coins", self.ends, *about) if certificate.noise == "coins" else ""

    def to_record(self):
        columns = [written_column(column) for column in self.columns]
        return {"columns": columns, "ends": list(map(list, self.ends.values()))}

    @classmethod
    def from_record(cls, record, columns):
        read = tuple(map(read_column, columns))
        ends = record.read("ends", tuple[tuple[float, float], ...])
        return cls(dict(zip([column.name for column in read], ends, strict=True)), read)


def learnt_coins(hidden, public, coins, n_rows):
    certificate = Certificate(
        Guaranteed(Pufferfish(1.0)),
        Proof(0.0, ()),
        Method("exact", "coins"),
        Made(n_rows),
        ["A coin knows no secret."],
    )
    told = ["coins are no good release; use another mechanism"]
    return LearntMechanism(
        hidden, public, [], {}, coins, certificate, warnings=told, attributes={"ends_": coins.ends}
    )


class CoinRelease(TableRelease):
    def __init__(self, sensitive=None, random_state=None, n_jobs=None, verbose=0):
        self.sensitive = sensitive
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        with fitting(self):
            self._fit(X, y, sensitive_features, sample_weight)
        return self

    def _checked_parameters(self):
        return None

    def _learnt(self, parameters, rows):
        table, hidden = rows.table, []
        if rows.sensitive is not None:
            hidden = resolve(rows.sensitive, table.names, "sensitive")
        public = public_columns(None, table.names, hidden, [])
        values = {name: table.values(name) for name in public}
        ends = {name: (float(x.data.min()), float(x.data.max())) for name, x in values.items()}
        columns = tuple(column_of(name, x) for name, x in values.items())
        return learnt_coins(hidden, public, Coins(ends, columns), table.n_rows)


def fitted(table=TABLE):
    with pytest.warns(PufferfishWarning, match="coins are no good release"):
        return CoinRelease("loan").fit(table)


def test_a_table_goes_out_in_its_own_type_without_its_secret():
    released = fitted().transform(TABLE)
    assert released.dtypes.equals(TABLE[["age", "income"]].dtypes)
    assert set(released["age"]) <= {20, 50}
    assert set(released["income"]) <= {1.5, 9.5}
    assert released.index.equals(TABLE.index)


def test_it_has_the_names_attributes_and_tags_of_every_release():
    coins = fitted()
    assert list(coins.get_feature_names_out()) == ["age", "income"]
    assert list(coins.feature_names_in_) == list(TABLE)
    assert coins.n_features_in_ == 3
    assert coins.ends_["age"] == (20, 50)
    assert coins.certificate_.holds
    assert coins.__sklearn_tags__().non_deterministic


def test_it_is_cloned_and_stands_in_a_pipeline():
    y = np.array([0, 1, 0, 1])
    model = make_pipeline(clone(fitted()).set_output(transform="pandas"), LogisticRegression())
    with pytest.warns(PufferfishWarning, match="coins are no good release"):
        assert model.fit(TABLE, y).predict(TABLE).shape == (4,)


def test_an_id_has_the_same_release_alone_and_in_another_order():
    coins, rows = fitted(), TABLE.assign(client=range(10, 14))
    whole = coins.transform(rows, row_id="client", key=KEY)
    alone = coins.transform(rows.iloc[[2]], row_id="client", key=KEY)
    assert alone.equals(whole.iloc[[2]])
    assert coins.transform(rows[::-1], row_id="client", key=KEY)[::-1].equals(whole)


def test_a_lazy_table_is_released_as_the_same_rows_in_memory():
    pl = pytest.importorskip("polars")
    coins, rows = fitted(), TABLE.assign(client=range(10, 14))
    lazy = coins.transform(pl.LazyFrame(rows), row_id="client", key=KEY).collect()
    assert lazy.to_pandas().equals(coins.transform(rows, row_id="client", key=KEY))


def test_its_artifact_is_read_by_the_class_that_reads_all():
    coins, rows = fitted(), TABLE.assign(client=range(10, 14))
    text = coins.to_json()
    assert json.loads(text)["mechanism"] == "coins"
    assert text.startswith('{"key_material"')
    release = PufferfishRelease.from_json(text)
    again = release.transform(rows, row_id="client", key=KEY)
    assert again.equals(coins.transform(rows, row_id="client", key=KEY))
    assert not hasattr(release, "theta_")


def test_a_fit_that_was_changed_afterwards_releases_nothing():
    coins = fitted()
    other = replace(coins._fitted.mechanism, ends={"age": (20, 51), "income": (1.5, 9.5)})
    coins._fitted = replace(coins._fitted, mechanism=other)
    with pytest.raises(ValueError, match="a fitted attribute was changed after fit"):
        coins.transform(TABLE)


def test_values_that_fit_has_not_seen_are_counted_in_one_warning():
    with pytest.warns(PufferfishWarning, match="'age'") as told:
        fitted().transform(TABLE.assign(age=[20, 30, 77, 88]))
    assert len(told) == 1


def test_an_artifact_of_an_unknown_mechanism_is_refused_by_its_name(monkeypatch):
    text = fitted().to_json()
    monkeypatch.delitem(Mechanism.kinds, "coins")
    with pytest.raises(ValueError, match="field mechanism is 'coins'"):
        PufferfishRelease.from_json(text)
