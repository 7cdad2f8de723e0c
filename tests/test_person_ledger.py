"""The ledger of persons: what each has spent, what is refused, and what its file tells."""

import contextlib
import copy
import math
import os
import pickle
import signal
import sqlite3
from decimal import Decimal
from fractions import Fraction
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pytest
from children import processes
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sklearn_puffer import (
    Ledger,
    LedgerError,
    OverspentError,
    PersonLedger,
    PufferfishNoiser,
    PufferfishRelease,
)
from sklearn_puffer._ledgers import person_ledger, persons
from sklearn_puffer._ledgers.persons import PERSON, PersonRecords
from sklearn_puffer._noise import KeyedBits, PersonPseudonyms
from sklearn_puffer._release.keyed_rows import Noted

KEY = b"blake2b:" + bytes(range(32))
N = 12


def make_table(n=60):
    cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * (n // 10)
    loan = ["no", "yes"] * (n // 2)
    return pd.DataFrame({"loan": loan, "cars": cars, "client": range(1000, 1000 + n)})


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module")
def noiser(table):
    return fitted(table)


def fitted(table, **options):
    own = {"epsilon": 1.0, "sensitive": "loan", "public": ["cars"], "releases": 2}
    return PufferfishNoiser(**own | options).fit(table)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "clients.sqlite"


@pytest.fixture
def ledger(path, noiser):
    return PersonLedger.create(path, noiser, key=KEY)


@pytest.fixture
def counting(tmp_path, noiser):
    return PersonLedger.create(tmp_path / "counting.sqlite", noiser, key=KEY, changes="count")


def changed(table, rows, by=1):
    """Return a table in which some rows have another value that occurs."""
    values = sorted(set(table["cars"]))
    other = [values[(values.index(v) + by) % len(values)] for v in table["cars"]]
    return table.assign(cars=np.where(np.isin(range(len(table)), rows), other, table["cars"]))


# ------------------------------------------------------------------------- what a person spends


def test_the_same_rows_again_come_out_the_same_and_spend_nothing(ledger, noiser, table):
    first = ledger.transform(noiser, table, row_id="client")
    plain = noiser.transform(table, row_id="client", key=KEY)
    pd.testing.assert_frame_equal(first, plain)
    again = ledger.transform(noiser, table[::-1], row_id="client")
    pd.testing.assert_frame_equal(again[::-1], first)
    assert {ledger.left(client).releases for client in table["client"]} == {1}
    assert [(call.new, call.repeated) for call in ledger.history()] == [(60, 0), (0, 60)]


def test_other_releases_and_data_sets_spend_on_their_persons_alone(ledger, noiser, table):
    ledger.transform(noiser, table[:4], row_id="client")
    ledger.transform(noiser, table[2:6], row_id="client", dataset="other")
    ledger.transform(noiser, table[5:7], row_id="client", release=1)
    left = [ledger.left(client).releases for client in table["client"][:9]]
    assert left == [1, 1, 0, 0, 1, 0, 1, 2, 2]
    assert [ledger.left(client).released for client in (1000, 1002, 1008)] == [1, 2, 0]
    assert ledger.n_persons == 7


def test_a_form_of_a_release_serves_the_ledger_of_its_noiser(ledger, noiser, table):
    form = PufferfishRelease.from_json(noiser.to_json())
    first = ledger.transform(noiser, table, row_id="client")
    pd.testing.assert_frame_equal(ledger.transform(form, table, row_id="client"), first)
    assert ledger.history()[-1].new == 0


@pytest.mark.parametrize("kind", ["polars", "array", "text ids"])
def test_tables_of_any_kind_are_released_and_withheld_by_rows(
    ledger, noiser, table, kind, tmp_path
):
    ids, small = table["client"].to_numpy(), table[["loan", "cars"]]
    X = {"polars": pl.from_pandas(small), "array": small, "text ids": small}[kind]
    ids = ids.astype(str) if kind == "text ids" else ids
    first = ledger.transform(noiser, X[:20], row_id=ids[:20])
    ledger.transform(noiser, X[:10], row_id=ids[:10], release=1)
    rest = ledger.transform(noiser, X[:20], row_id=ids[:20], release=2, exhausted="withhold")
    assert type(rest) is type(first)
    assert len(rest) == 10
    with pytest.raises(OverspentError, match="release=2 is beyond the releases=2"):
        noiser.transform(X[10:20], row_id=ids[10:20], key=KEY, release=2)
    other = PersonLedger.create(tmp_path / "other.persons", noiser, key=KEY)
    expected = other.transform(noiser, X[10:20], row_id=ids[10:20], release=2)
    assert expected.equals(rest)
    assert ledger.left(str(ids[0]) if kind == "text ids" else int(ids[0])).releases == 0


calls = st.lists(
    st.tuples(
        st.lists(st.integers(0, N - 1), min_size=1, max_size=N, unique=True),  # persons
        st.lists(st.integers(0, N - 1), max_size=3),  # whose value is another one
        st.sampled_from(["", "b"]),
        st.integers(0, 2),
        st.sampled_from(["raise", "withhold"]),
    ),
    max_size=8,
)


class Oracle:
    """All that every person was released, in plain lists, and sums of precisions by hand."""

    def __init__(self, noiser, changes):
        self.scale = Fraction(float(noiser.theta_["cars"]))
        self.room = 2 / self.scale
        self.had, self.changes = {}, changes

    def fits(self, person):
        return (len(self.had.get(person, {})) + 1) / self.scale <= self.room

    def judge(self, person, value, call):
        """Return "repeated", "withheld" or "new" for the value of a person in a call."""
        had = self.had.get(person, {})
        if (*call, value) in had:
            return "repeated"
        values = set(had.values())
        if self.changes == "refuse" and values - {value}:
            return "withheld"
        return "new" if self.fits(person) else "withheld"

    def spend(self, person, value, call):
        own = self.had.setdefault(person, {})
        own[(*call, value)] = value


@pytest.mark.parametrize("most", [1024, 2])
@pytest.mark.parametrize("changes", ["refuse", "count"])
@given(plan=calls)
@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_every_spend_is_that_of_an_oracle_with_a_list_for_every_person(
    tmp_path_factory, noiser, table, changes, most, plan
):
    with mock.patch.object(persons, "_MOST", most):  # persons in a part
        follow_an_oracle(tmp_path_factory, noiser, table, changes, plan)


def follow_an_oracle(tmp_path_factory, noiser, table, changes, plan):
    path = tmp_path_factory.mktemp("oracle") / "clients.sqlite"
    ledger, oracle = (
        PersonLedger.create(path, noiser, key=KEY, changes=changes),
        Oracle(noiser, changes),
    )
    for some, others, dataset, release, exhausted in plan:
        X = changed(table, others).iloc[some]
        call = dataset, release
        told = [
            oracle.judge(p, v, call) for p, v in zip(X["client"], X["cars"].tolist(), strict=True)
        ]
        options = {"dataset": dataset, "release": release}
        if exhausted == "raise" and "withheld" in told:
            with pytest.raises(OverspentError):
                ledger.transform(noiser, X, row_id="client", **options)
            continue
        found = ledger.transform(noiser, X, row_id="client", exhausted=exhausted, **options)
        assert list(found.index) == [
            i for i, t in zip(X.index, told, strict=True) if t != "withheld"
        ]
        last = ledger.history()[-1]
        assert (last.new, last.repeated, last.withheld) == tuple(
            told.count(name) for name in ("new", "repeated", "withheld")
        )
        for p, v, t in zip(X["client"], X["cars"].tolist(), told, strict=True):
            if t == "new":
                oracle.spend(p, v, call)
    for person in table["client"][:N].tolist():
        left = ledger.left(person)
        assert left.released == len(oracle.had.get(person, {}))
        assert (left.releases >= 1) == oracle.fits(person)


@given(
    known=st.sets(st.tuples(*[st.integers(0, 3)] * 2), max_size=12),
    asked=st.sets(st.tuples(*[st.integers(0, 3)] * 2), min_size=1, max_size=12),
)
def test_marks_that_share_a_half_are_told_apart(known, asked):
    rows, wanted = sorted(known), list(asked)
    persons = np.zeros(len(rows), dtype=PERSON)
    persons["pseudonym"] = np.array(rows, dtype=np.uint64).reshape(-1, 2)
    places = PersonRecords(persons, np.zeros(0, np.uint64)).places(
        np.array(wanted, dtype=np.uint64)
    )
    assert [rows[k] if k >= 0 else None for k in places] == [
        each if each in known else None for each in wanted
    ]


def test_few_persons_are_found_among_many_and_many_among_few(ledger, noiser, table):
    ledger.transform(noiser, table, row_id="client")
    for size in (1, 5, 60):
        ledger.transform(noiser, table[:size], row_id="client")
        assert ledger.history()[-1].repeated == size
    more = pd.concat([table, table.assign(client=table["client"] + 500)])
    ledger.transform(noiser, more, row_id="client")
    assert (ledger.history()[-1].new, ledger.history()[-1].repeated) == (60, 60)


def test_persons_are_found_in_however_many_parts_they_come_to_be(
    ledger, noiser, table, monkeypatch
):
    monkeypatch.setattr(persons, "_MOST", 4)
    n_parts = []
    for size in (1, 3, 9, 40, 60):
        ledger.transform(noiser, table[:size], row_id="client")
        n_parts.append(ledger._read(lambda sheet: sheet.n_parts))
    assert n_parts == sorted(n_parts)
    assert (n_parts[0], n_parts[-1]) == (1, 16)
    ledger.transform(noiser, table[20:30], row_id="client", release=1)
    left = [ledger.left(client).releases for client in table["client"]]
    assert left == [1] * 20 + [0] * 10 + [1] * 30
    assert ledger.n_persons == 60
    assert [call.new for call in ledger.history()] == [1, 2, 6, 31, 20, 10]


# ------------------------------------------------------------------------------ rows that changed


def test_a_row_that_changed_is_refused_and_comes_back_with_its_old_value(ledger, noiser, table):
    first = ledger.transform(noiser, table, row_id="client")
    other = changed(table, [3, 5])
    with pytest.raises(OverspentError, match="of 60 rows, 2 changed since their last release"):
        ledger.transform(noiser, other, row_id="client")
    rest = ledger.transform(noiser, other, row_id="client", exhausted="withhold")
    assert list(rest.index) == [k for k in range(60) if k not in (3, 5)]
    pd.testing.assert_frame_equal(ledger.transform(noiser, table, row_id="client"), first)
    assert ledger.left(1003).releases == 1


@pytest.mark.parametrize("n_persons", [1, 2])
def test_each_of_few_persons_is_known_to_have_changed(ledger, noiser, table, n_persons):
    few = table[:n_persons]
    ledger.transform(noiser, few, row_id="client")
    for row in range(n_persons):
        with pytest.raises(OverspentError, match=f"of {n_persons} row.*, 1 changed since"):
            ledger.transform(noiser, changed(table, [row])[:n_persons], row_id="client")


def test_a_changed_row_is_one_more_release_and_changed_back_the_same(counting, noiser, table):
    first = counting.transform(noiser, table, row_id="client")
    counting.transform(noiser, changed(table, [3]), row_id="client")
    assert [counting.left(client).releases for client in (1003, 1004)] == [0, 1]
    pd.testing.assert_frame_equal(counting.transform(noiser, table, row_id="client"), first)
    with pytest.raises(OverspentError, match="of 60 rows, 1 have no release left"):
        counting.transform(noiser, changed(table, [3], by=2), row_id="client")


@pytest.mark.filterwarnings("ignore::sklearn_puffer.UtilityWarning")
def test_values_of_one_bin_and_passed_columns_are_no_change(tmp_path, table):
    loan = np.where((table["cars"] > 2) ^ (table["client"] % 7 == 0), "yes", "no")
    wide = table.assign(day=1, income=10.0 + table["cars"], loan=loan)
    options = {"epsilon": 0.5, "public": ["income"], "n_bins": 3, "remainder": "passthrough"}
    noiser = fitted(wide, **options)
    ledger = PersonLedger.create(tmp_path / "a.sqlite", noiser, key=KEY)
    ledger.transform(noiser, wide, row_id="client")
    ledger.transform(
        noiser, wide.assign(day=2, income=wide["income"].clip(upper=18.0)), row_id="client"
    )
    assert ledger.history()[-1].repeated == 60


def test_what_a_refusal_says_is_the_same_whatever_the_values_are(tmp_path, noiser, table):
    """Two tables that share no value, with the same pattern of changes and repeats."""
    outcomes = []
    for by in (1, 2):
        ledger = PersonLedger.create(tmp_path / f"{by}.sqlite", noiser, key=KEY, changes="count")
        start = changed(table, range(60), by=by)
        told = []
        for rows, release in (([], 0), ([1, 2], 0), ([1, 2, 3], 1), ([], 2)):
            X = changed(start, rows, by=by)
            try:
                ledger.transform(noiser, X, row_id="client", release=release)
            except OverspentError as error:
                told.append(str(error))
            kept = ledger.transform(
                noiser, X, row_id="client", release=release, exhausted="withhold"
            )
            told.append(list(kept.index))
        told.append(ledger.history())
        outcomes.append(told)
    assert outcomes[0] == outcomes[1]


def test_precisions_do_not_bound_rows_that_are_independent_given_the_secret():
    """Why changed rows are refused unless the changes are taken to tell nothing."""
    likely, scale, width = {"a": 0.25, "b": 0.75}, 0.05, 1.0

    def density(y, share, theta):
        weights = ((0.0, 1 - share), (width, share))
        return sum(w * math.exp(-abs(y - x) / theta) / (2 * theta) for x, w in weights)

    def loss(theta):  # of one row, at the points where it is largest
        ratios = [density(y, likely["b"], theta) / density(y, likely["a"], theta) for y in (-1, 2)]
        return max(abs(math.log(ratio)) for ratio in ratios)

    assert loss(scale) == pytest.approx(math.log(3))
    assert 2 * loss(2 * scale) > 1.99 * loss(scale)  # half the precision each, and twice the loss


def test_rows_that_change_by_what_tells_nothing_add_up_as_one_row():
    distributions = {"a": (0.7, 0.3), "b": (0.4, 0.6)}
    y = np.linspace(-6.0, 8.0, 281)  # with the points 0 and 1, where losses are largest

    def density(x, theta):
        return np.exp(-np.abs(y - x) / theta)

    def loss(of_rows):
        ratio = np.log(of_rows(distributions["a"])) - np.log(of_rows(distributions["b"]))
        return np.abs(ratio).max()

    one = loss(lambda distribution: sum(p * density(x, 1.0) for x, p in enumerate(distribution)))
    for change in (0.0, 1.0, 3.5):
        two = loss(
            lambda distribution, change=change: sum(
                p * np.multiply.outer(density(x, 2.0), density(x + change, 2.0))
                for x, p in enumerate(distribution)
            )
        )
        assert two <= one + 1e-9


def test_columns_without_an_order_have_no_changes_that_could_count(path, table):
    town = table.assign(town=["Aix", "Bonn", "Cork", "Aix", "Bonn"] * 12)
    noiser = fitted(town, public=["cars", "town"], dependence="independent", epsilon=3.0)
    with pytest.raises(ValueError, match=r'without an order .* categories=, or leave changes="ref'):
        PersonLedger.create(path, noiser, key=KEY, changes="count")
    ledger = PersonLedger.create(path, noiser, key=KEY)
    ledger.transform(noiser, town, row_id="client")
    with pytest.raises(OverspentError, match="1 changed"):
        ledger.transform(noiser, town.assign(town=["Bonn", *town["town"][1:]]), row_id="client")


def test_missing_values_that_stay_missing_are_seen_and_their_pattern_may_not_change(
    tmp_path, table
):
    gaps = table.assign(cars=[None if k % 7 == 0 else float(v) for k, v in enumerate(table.cars)])
    noiser = fitted(gaps, missing="propagate")
    ledger = PersonLedger.create(tmp_path / "a.sqlite", noiser, key=KEY, changes="count")
    ledger.transform(noiser, gaps, row_id="client")
    with pytest.raises(OverspentError, match="2 lack other values"):
        ledger.transform(noiser, gaps.assign(cars=[3.0, None, *gaps.cars[2:]]), row_id="client")


def test_a_value_that_is_missing_is_no_zero_on_any_grid():
    forms = []
    for step, gone in ((0, 0), (-(2**63), 1)):
        ids = np.array([[1, 0]], dtype=np.uint64)
        bits = KeyedBits(KEY, "context").columns(ids, [np.array([step])])
        noted = Noted("client", PersonPseudonyms(KEY, "salt"), True)
        noted.begin(ids, is_text=False)
        noted.take(slice(None), [np.array([step])], [np.array([gone])], bits[0])
        forms.append(int(noted.forms[0]))
    assert forms[0] != forms[1]


# ------------------------------------------------------------------------------ what its file tells


@pytest.mark.filterwarnings("ignore::sklearn_puffer.UtilityWarning")
def test_a_stolen_file_holds_no_id_value_or_key(tmp_path, table):
    pay = np.where(table["cars"] > 0, 71234.5, 81234.5)
    secret = table.assign(pay=pay, client=[f"Ada Lovelace {k}" for k in range(60)])
    noiser = fitted(secret, public=["pay"], epsilon=0.3)
    ledger = PersonLedger.create(tmp_path / "a.sqlite", noiser, key=KEY)
    ledger.transform(noiser, secret, row_id="client")
    data = ledger.path.read_bytes()
    values = [np.float64(71234.5).tobytes(), np.float64(71234.5).tobytes()[::-1], b"71234"]
    for token in (b"Lovelace", KEY, KEY[8:], KEY.hex().encode(), *values):
        assert token not in data


def test_a_stolen_file_tells_nothing_of_equal_values_or_of_other_files(tmp_path, noiser, table):
    same = table.assign(cars=5)
    made = []
    for name in "ab":
        ledger = PersonLedger.create(tmp_path / name, noiser, key=KEY)
        ledger.transform(noiser, same, row_id="client")
        with contextlib.closing(sqlite3.connect(ledger.path)) as connection:
            [(data, more)] = connection.execute("SELECT data, more FROM parts").fetchall()
        columns = [
            *np.frombuffer(data, dtype="<u8").reshape(60, 4).T[:3],
            np.frombuffer(more, "<u8"),
        ]
        assert [len(set(column.tolist())) for column in columns] == [60] * 4
        made += [token for column in columns for token in column.tolist()]
    assert len(set(made)) == len(made)


def test_the_key_is_in_no_repr_pickle_copy_or_error(ledger, noiser, table):
    ledger.transform(noiser, table, row_id="client")
    for text in (repr(ledger), str(ledger), ledger._repr_html_(), repr(vars(ledger))):
        assert repr(KEY)[2:-1] not in text
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="given as bytes cannot be pickled"):
            make(ledger)


def test_a_ledger_whose_key_is_in_a_file_is_pickled_without_it(path, noiser, table, tmp_path):
    place = tmp_path / "key"
    place.write_bytes(KEY)
    ledger = PersonLedger.create(path, noiser, key=place)
    data = pickle.dumps(ledger)
    assert KEY not in data
    pickle.loads(data).transform(noiser, table, row_id="client")
    assert PersonLedger.open(path, noiser, key=KEY).left(1000).releases == 1


def test_it_shows_what_persons_have_had(ledger, noiser, table):
    ledger.transform(noiser, table, row_id="client", note="<b>monday</b>")
    ledger.transform(noiser, table[:10], row_id="client", release=1)
    text = str(ledger)
    assert "60 person(s) on record have had 70 release(s), in 2 call(s) of 70 row(s)." in text
    assert "A row that changed is not released again." in text
    assert "&lt;b&gt;monday" in ledger._repr_html_()
    shown = [" ".join(line.split()) for line in text.splitlines()]
    persons = shown.index("persons releases had releases left")
    assert shown[persons + 1 : persons + 3] == ["50 1 1", "10 2 0"]
    assert [line for line in shown if line.startswith("'' ")] == [
        "'' 0 60 60 0 0 <b>monday</b>",
        "'' 1 10 10 0 0 ''",
    ]


def test_it_shows_the_last_ten_calls(ledger, noiser, table):
    for number in range(12):
        ledger.transform(noiser, table[: number + 1], row_id="client", note=f"n{number}")
    shown = [" ".join(line.split()) for line in str(ledger).splitlines()]
    calls = [line for line in shown if line.startswith("'' ")]
    assert calls == [f"'' 0 {n + 1} 1 {n} 0 n{n}" for n in range(2, 12)]


def test_a_refusal_counts_who_has_no_release_left_and_who_changed(ledger, noiser, table):
    for release in (0, 1):
        ledger.transform(noiser, table[:3], row_id="client", release=release)
    ledger.transform(noiser, table[3:5], row_id="client")
    with pytest.raises(OverspentError) as caught:
        ledger.transform(noiser, changed(table, [1, 4])[:9], row_id="client", release=2)
    assert str(caught.value) == (
        "of 9 rows, 3 have no release left and 1 changed since their last release, and nothing was "
        'spent or released; pass exhausted="withhold" to leave them out, or plan more releases of '
        "each row (releases=) in the fit before the first one."
    )


# ------------------------------------------------------------------------------- what is refused


def test_a_refused_call_spends_nothing(ledger, noiser, table):
    ledger.transform(noiser, table, row_id="client")
    ledger.transform(noiser, table[:1], row_id="client", release=1)
    before = ledger.path.read_bytes()
    with pytest.raises(
        OverspentError, match="1 have no release left, and nothing was spent or rel"
    ):
        ledger.transform(noiser, table, row_id="client", release=2)
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"row_id": None}, ValueError, "row_id is None, and persons are known by it"),
        ({"row_id": "who"}, ValueError, "row_id"),
        ({"exhausted": "skip"}, ValueError, "exhausted must be"),
        ({"release": -1}, ValueError, "release must be at least 0"),
        ({"release": 1.0}, TypeError, "release must be an integer"),
        ({"dataset": 7}, TypeError, "dataset must be a str"),
        ({"note": b""}, TypeError, "note must be a string"),
        ({"row_id": "loan"}, ValueError, "2 distinct ids"),
    ],
)
def test_bad_arguments_are_refused_by_name(ledger, noiser, table, options, error, message):
    before = ledger.path.read_bytes()
    with pytest.raises(error, match=message):
        ledger.transform(noiser, table, **{"row_id": "client", **options})
    assert ledger.path.read_bytes() == before


def test_a_lazy_table_is_refused_by_name(ledger, noiser, table):
    with pytest.raises(TypeError, match=r"lazy table \(LazyFrame\), and who is in it"):
        ledger.transform(noiser, pl.from_pandas(table).lazy(), row_id="client")


def test_a_person_is_the_same_in_every_type_that_holds_the_id(ledger, noiser, table):
    ids = [Decimal(number) for number in table["client"]]
    ledger.transform(noiser, table, row_id=ids)
    spent = ledger.left(int(ids[0]))
    assert spent.released == 1
    assert ledger.left(ids[0]) == spent
    released = ledger.transform(noiser, table, row_id="client")
    assert released.equals(ledger.transform(noiser, table, row_id=ids))
    assert ledger.left(int(ids[0])) == spent


def test_ids_of_another_kind_would_be_other_persons(ledger, noiser, table):
    ledger.transform(noiser, table, row_id="client")
    with pytest.raises(TypeError, match=r"row_id is none of the ids .* are whole numbers"):
        ledger.transform(noiser, table, row_id=table["client"].astype(str))
    with pytest.raises(TypeError, match="person '1000' is none of the ids"):
        ledger.left("1000")
    with pytest.raises(TypeError, match="person b'1000' is none of the ids"):
        ledger.left(b"1000")
    for wrong in (1.0, True, None, [1000]):
        with pytest.raises(TypeError, match="person must be"):
            ledger.left(wrong)
    assert ledger.left(np.int16(1000)).releases == 1
    assert ledger.left(2**64 - 1).releases == ledger.left(-1).releases == 2


def test_another_key_would_know_nobody_and_is_refused(ledger, noiser):
    with pytest.raises(LedgerError, match="knows persons by another key"):
        PersonLedger.open(ledger.path, noiser, key=KEY + b"!")
    with pytest.raises(ValueError, match="shorter than 16 bytes"):
        PersonLedger.open(ledger.path, noiser, key=b"short")
    with pytest.raises(TypeError, match="key is a NoneType"):
        PersonLedger.create(ledger.path, noiser, key=None)


def test_the_ledger_of_another_noiser_is_refused(ledger, table):
    other = fitted(table, epsilon=2.0)
    with pytest.raises(LedgerError, match="another noiser"):
        PersonLedger.open(ledger.path, other, key=KEY)
    with pytest.raises(LedgerError, match="another noiser"):
        ledger.transform(other, table, row_id="client")


def test_what_has_no_rows_is_refused(ledger, noiser, table):
    with pytest.raises(TypeError, match="has no rows of persons"):
        ledger.transform(noiser.certificate_, table, row_id="client")


def test_each_kind_of_ledger_names_the_other(ledger, noiser, tmp_path):
    with pytest.raises(LedgerError, match=r"persons/2', and Ledger reads"):
        Ledger.open(ledger.path, noiser)
    Ledger.create(tmp_path / "whole.ledger", noiser)
    with pytest.raises(LedgerError, match=r"'sklearn_puffer\.ledger/2', and PersonLedger reads"):
        PersonLedger.open(tmp_path / "whole.ledger", noiser, key=KEY)


# -------------------------------------------------------------------------- processes and threads


# What follows is run in processes of its own.


def die_in(name, path, noiser, table):
    """Release a table, and die where the given step of its spend begins."""
    place = person_ledger if name == "taken_rows" else persons.Book
    setattr(place, name, lambda *args: os.kill(os.getpid(), signal.SIGKILL))
    ledger = PersonLedger.open(path, noiser, key=KEY)
    ledger.transform(noiser, table[:30], row_id="client")
    ledger.transform(noiser, table, row_id="client", release=1, exhausted="withhold")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "spent"), [("put", 0), ("write", 0), ("taken_rows", 1)])
def test_a_process_that_is_killed_has_spent_all_or_nothing(ledger, noiser, table, name, spent):
    ledger.transform(noiser, table, row_id="client", dataset="before")
    ledger.transform(noiser, table[:10], row_id="client", release=1)
    process = processes().Process(target=die_in, args=(name, ledger.path, noiser, table[10:]))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    left = [ledger.left(client).releases for client in table["client"][10:40]]
    assert left == [1 - spent] * 30
    again = ledger.transform(noiser, table[10:40], row_id="client")
    assert ledger.history()[-1].repeated == 30 * spent
    expected = noiser.transform(table[10:40], row_id="client", key=KEY)
    pd.testing.assert_frame_equal(again, expected)
