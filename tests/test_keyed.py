"""Keyed noise: the same row comes out the same, and nothing else shares its bits."""

import copy
import hashlib
import logging
import os
import pickle
import re
import struct
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from own_noise import Logistic
from release_cases import ID_KINDS, N_ROWS, UUIDS
from scipy import stats

from sklearn_puffer import OverspentError, PufferfishNoiser, PufferfishRelease
from sklearn_puffer._noise import (
    WHOLE,
    IntegerRows,
    KeyedBits,
    Mixing,
    grid_step,
    portable,
    sampler,
)
from sklearn_puffer._noise import keyed as keyed_noise
from sklearn_puffer._noise.sampler import first_of
from sklearn_puffer._noiser import release as releasing
from sklearn_puffer.noise import Cauchy, Gaussian, GeneralizedCauchy, Laplace

KEY = bytes(range(32))
BLAKE = b"blake2b:" + KEY
FALSE_ALARM = 1e-6
FAMILIES = [
    Laplace(1.3),
    Gaussian(1.3),
    Cauchy(1.3),
    GeneralizedCauchy(1.3, 1.5),
    GeneralizedCauchy(1.3, 4.0),
]

GOLDEN_FUNCTIONS = "ac4d48aa4436be035e31aad12dedf33153a69c8e5101810d43ed4a762c5decc4"
GOLDEN_BITS = {
    KEY: [
        ["0x7c2f73e063cb6498", "0x38d951d49669e605", "0x5528d86763e22abb", "0x4a5846ac55160476"],
        ["0x4a7d75571f5cccd5", "0x639ce49d54e12711", "0x75ae1fa2d42ef6ce", "0x3b9644e7164c6b59"],
        ["0xad7c33867b97cf48", "0x502c30af250a6249", "0xbaa3a5affa681f61", "0x32d213ef103909f"],
    ],
    BLAKE: [
        ["0x3e85ed157a291c9f", "0xe9e31d9e734e43a2", "0x580906ec73e8af27", "0x8e6b4eccc2097a81"],
        ["0xaf96e602f9060edf", "0xdcb5d63b7cbefff4", "0x1379692af4e034a", "0xb82f6ece517576a4"],
        ["0x7255a3ad54957fed", "0xc665eddb40755c51", "0x81db6ce837928fd7", "0xce89e922b4cc31d7"],
    ],
}
GOLDEN_DRAWS = {
    "laplace": "2b1261c7eff7a06ffd50f4ffd88f7c4ed235dc5c5649118e540c3fa4f7e92ea0",
    "gaussian": "f39d10b6948c8949dc2798c6d9dffc72f5e174cb99d6130e66bc6216d234d13c",
    "cauchy": "2f82058486d6cdb19bc194d93289cfb4cc3e7aecd873089487a82136330bf6f4",
    "generalizedcauchy(k=1.5)": "39c31184e8850ba1f9b63556ddf3c60cd1d90903b274cffba8061a88d1ac32d4",
    "generalizedcauchy(k=4)": "3099006761b2bf1b0545248918d5cfeb22fc31302cf957befe39f6720feca0c6",
}


def make_table(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    secret = rng.integers(0, 2, n_rows)
    return pd.DataFrame(
        {
            "client": rng.permutation(10 * n_rows)[:n_rows],
            "secret": np.where(secret, "yes", "no"),
            "age": rng.integers(20, 40, n_rows) + 2 * secret,
            "income": rng.normal(10.0, 2.0, n_rows) + secret,
            "town": rng.choice(["Aix", "Bonn", "Cork"], n_rows),
        }
    )


PUBLIC = ["age", "income", "town"]


def fitted(table, **options):
    names = options.pop("public", PUBLIC)
    noiser = PufferfishNoiser(
        epsilon=0.3,
        sensitive="secret",
        public=names,
        n_bins={"income": 4} if "income" in names else None,
        dependence="independent",
        **options,
    )
    return noiser.fit(table)


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module")
def noiser(table):
    return fitted(table)


def keyed(noiser, table, **options):
    return noiser.transform(table, **{"row_id": "client", "key": KEY, **options})


# ----------------------------------------------------------------------------------- the same again


@pytest.mark.parametrize("key", [KEY, BLAKE])
def test_a_row_comes_out_the_same_whatever_is_around_it(noiser, table, key):
    whole = keyed(noiser, table, key=key)
    order = np.random.default_rng(2).permutation(len(table))
    mixed = keyed(noiser, table.iloc[order], key=key)
    pd.testing.assert_frame_equal(mixed.loc[whole.index], whole)
    parts = [keyed(noiser, table[a : a + 150], key=key) for a in range(0, len(table), 150)]
    pd.testing.assert_frame_equal(pd.concat(parts), whole)
    alone = [keyed(noiser, table[k : k + 1], key=key) for k in range(5)]
    pd.testing.assert_frame_equal(pd.concat(alone), whole[:5])


def test_a_row_comes_out_the_same_in_any_type_order_and_company_of_columns(noiser, table):
    whole = keyed(noiser, table)
    other = table[table.columns[::-1]].assign(day=pd.Timestamp(2026, 1, 1)).drop(columns="secret")
    other = other.astype({"client": "Int64", "age": "int8", "town": "category"})
    again = keyed(noiser, other)[PUBLIC].astype(whole.dtypes)
    pd.testing.assert_frame_equal(again, whole)
    frame = keyed(noiser, pl.from_pandas(table))
    assert frame["age"].to_list() == whole["age"].to_list()
    assert frame["income"].to_list() == whole["income"].to_list()
    ids = keyed(noiser, table.drop(columns="client"), row_id=table["client"].to_numpy())
    pd.testing.assert_frame_equal(ids, whole)


def test_values_of_one_bin_are_the_same_row(noiser, table):
    low = table["income"].quantile(0.1)  # of the lowest of four bins
    nearby = table.assign(income=table["income"].clip(lower=low))
    pd.testing.assert_frame_equal(keyed(noiser, nearby), keyed(noiser, table))


def test_rows_come_out_the_same_over_many_blocks(noiser, table):
    many = pd.concat([table] * 200, ignore_index=True).assign(client=range(200 * len(table)))
    whole = keyed(noiser, many)
    pd.testing.assert_frame_equal(keyed(noiser, many[40_000:41_000]), whole[40_000:41_000])


def test_noisy_output_is_keyed_too(table):
    other = fitted(table, output="noisy")
    pd.testing.assert_frame_equal(keyed(other, table[::-1])[::-1], keyed(other, table))


@pytest.mark.slow
def test_columns_of_any_number_are_keyed_by_their_steps(table):
    options = {"sensitive": "secret", "public": ["income"], "prior": "gaussian"}
    other = PufferfishNoiser(epsilon=1.0, **options).fit(table)
    whole = keyed(other, table)
    pd.testing.assert_frame_equal(keyed(other, table[::-1])[::-1], whole)
    moved = keyed(other, table.assign(income=table["income"] + 0.25))
    assert not np.isclose(moved["income"] - whole["income"], 0.25).any()


def test_columns_without_noise_come_out_as_they_are(table):
    flat = table.assign(flat=np.arange(len(table)) % 2, secret=["no", "no", "yes", "yes"] * 100)
    with pytest.warns(UserWarning, match="flat"):
        other = fitted(flat, public=["flat"])
    assert other.theta_["flat"] == 0.0
    assert keyed(other, flat)["flat"].equals(flat["flat"])


def test_a_saved_noiser_draws_the_same(noiser, table):
    loaded = pickle.loads(pickle.dumps(noiser))
    pd.testing.assert_frame_equal(keyed(loaded, table), keyed(noiser, table))


def draws_of(noiser, table):
    """All ways to a keyed release, as functions of its number."""
    form = PufferfishRelease.from_json(noiser.to_json())
    how = {"row_id": "client", "key": KEY}
    return [
        lambda k: noiser.transform(table, **how, release=k),
        lambda k: noiser.transform(table[:1], **how, release=k),
        lambda k: noiser.transform(table, row_id="client", release=k),
        lambda k: noiser.transform(pl.from_pandas(table).lazy(), **how, release=k).collect(),
        lambda k: form.transform(table, **how, release=k),
    ]


def test_no_more_draws_than_the_certificate_counts(table):
    options = {"sensitive": "secret", "public": ["age"], "releases": 2}
    noiser = PufferfishNoiser(epsilon=0.3, **options).fit(table)
    for draw in draws_of(noiser, table):
        assert len(draw(1)) > 0
        with pytest.raises(OverspentError, match=r"release=2 is beyond .*fit with more releases"):
            draw(2)


def test_ids_are_the_same_in_every_type_and_strings_are_other_ids(noiser, table):
    whole = keyed(noiser, table)
    for dtype in ("int16", "uint64", "Int32"):
        pd.testing.assert_frame_equal(keyed(noiser, table.astype({"client": dtype})), whole)
    texts = table.assign(client=table["client"].astype(str))
    named = keyed(noiser, texts)
    assert not named["age"].equals(whole["age"])
    categories = texts.astype({"client": "category"})[::-1]
    pd.testing.assert_frame_equal(keyed(noiser, categories)[::-1], named)
    far = table.assign(client=table["client"].astype("uint64") + 2**63)
    near = table.assign(client=table["client"] + np.int64(-(2**63)))
    assert not keyed(noiser, far)["age"].equals(keyed(noiser, near)["age"])


def _in_objects(arrow):
    return arrow.to_pandas(), pd.Series(arrow.to_pylist(), dtype=object)


def _in_types(arrow):
    yield from _in_objects(arrow)
    yield pd.Series(arrow.to_pylist(), dtype="category")
    yield arrow.to_pylist()
    if arrow.type != pa.uuid():
        yield arrow.to_pandas(types_mapper=pd.ArrowDtype)
        yield pl.from_arrow(arrow)


@pytest.mark.parametrize("kind", ID_KINDS)
def test_an_id_is_the_same_in_every_type_that_holds_it(noiser, table, kind):
    table = table[:N_ROWS]
    alike = [ids for column in ID_KINDS[kind].values() for ids in _in_types(column)]
    whole, *others = [noiser.transform(table, row_id=ids, key=KEY) for ids in alike]
    for other in others:
        pd.testing.assert_frame_equal(other, whole)


def test_times_a_nanosecond_apart_are_two_ids_in_every_library(noiser, table):
    moments = pd.Series(pd.Timestamp("2020-01-01").value + np.arange(N_ROWS)).astype("M8[ns]")
    table = table[:N_ROWS]
    whole = noiser.transform(table, row_id=moments, key=KEY)
    for other in (pl.from_pandas(moments), moments.to_numpy(), list(moments)):
        pd.testing.assert_frame_equal(noiser.transform(table, row_id=other, key=KEY), whole)


def test_ids_of_other_kinds_are_other_ids(noiser, table):
    table = table[:N_ROWS]
    ids = [next(iter(columns.values())).to_pandas() for columns in ID_KINDS.values()]
    drawn = {tuple(noiser.transform(table, row_id=each, key=KEY)["age"]) for each in ids}
    assert len(drawn) == len(ids)


def test_ids_of_two_types_that_are_the_same_are_refused(noiser, table):
    mixed = pd.Series([UUIDS[0], UUIDS[0].bytes, *UUIDS[1 : len(table) - 1]], dtype=object)
    table = table[: len(mixed)]
    with pytest.raises(ValueError, match=f"{len(mixed) - 1} distinct ids in {len(mixed)} rows"):
        noiser.transform(table, row_id=mixed, key=KEY)
    with pytest.raises(TypeError, match=r"holds no ids, .* \(UUID, str\)"):
        noiser.transform(table[:2], row_id=pd.Series([UUIDS[0], str(UUIDS[1])]), key=KEY)


# ----------------------------------------------------------------------------- what is not the same


def noise_of(released, table):
    return (released["age"] - table["age"]).to_numpy(dtype=float)


def look_independent(first, second):
    """Return whether the ranks of two draws are uncorrelated, and hardly any two are equal."""
    correlation = stats.spearmanr(first, second).statistic
    limit = stats.norm.isf(FALSE_ALARM / 2) / np.sqrt(len(first) - 1)
    return abs(correlation) < limit and (first == second).mean() < 0.1


def variants(noiser, table):
    yield "dataset", noiser, {"dataset": "other"}
    yield "release", noiser, {"release": 1}
    yield "key", noiser, {"key": KEY[::-1]}
    yield "backend", noiser, {"key": BLAKE}
    yield "none", noiser, {"key": None}
    yield "refit", fitted(table[:-1], public=["age", "town"]), {}


@pytest.fixture(scope="module")
def whole_noiser(table):
    """Return a noiser of which there are copies with more noise: its numbers are whole."""
    return fitted(table, public=["age", "town"], releases=2)


def test_other_contexts_have_independent_noise(whole_noiser, table):
    noiser = whole_noiser
    own = noise_of(keyed(noiser, table), table)
    for what, other, options in variants(noiser, table):
        assert look_independent(own, noise_of(keyed(other, table, **options), table)), what


@pytest.mark.parametrize("column", ["client", "income", "town"])
def test_another_id_or_value_draws_the_whole_row_anew(noiser, table, column):
    values = table[column].unique()
    changed = dict(zip(values, np.roll(values, 1), strict=True))
    if column == "income":
        middle = table["income"].median()  # to the other half: another one of four bins
        ends = table["income"].min(), table["income"].max()
        other = table.assign(income=np.where(table["income"] > middle, *ends))
    else:
        other = table.assign(**{column: table[column].map(changed)})
    assert look_independent(
        noise_of(keyed(noiser, table), table), noise_of(keyed(noiser, other), other)
    )


def exact_differences(noiser, table):
    """Return the share of rows whose change shows exactly when their age changes by one."""
    age = table["age"].clip(upper=38)
    before, after = (keyed(noiser, table.assign(age=age + step)) for step in (0, 1))
    return (after["age"] - before["age"] == 1).mean()


def test_a_change_does_not_show_exactly(noiser, table):
    assert exact_differences(noiser, table) < 0.1


def test_bits_of_the_id_alone_would_show_a_change_exactly(noiser, table, monkeypatch):
    monkeypatch.setattr(
        releasing._Worker, "entries", lambda self, rows, indices: np.zeros_like(indices)
    )
    assert exact_differences(noiser, table) == 1.0


def test_columns_and_rows_share_no_bits():
    bits = KeyedBits(KEY, "context")
    ids = np.stack([np.arange(500), np.zeros(500)], axis=1).astype(np.uint64)
    columns = [np.zeros(500, dtype=np.int64)] * 3
    drawn = [source.words(1000) for source in bits.columns(ids, columns)]
    more = [source.words(1000) for source in bits.columns(ids, columns[:2])]
    words = np.concatenate(drawn + more)
    assert np.unique(words).size == words.size


def test_missing_values_are_told_from_those_they_are_read_as(table):
    holes = table.assign(age=table["age"].astype("Int64").mask(table.index < 50))
    noiser = fitted(holes, missing="propagate", public=["age", "income"])
    filled = holes.assign(age=holes["age"].fillna(int(holes["age"].min())))
    some = table.index < 50
    first, second = (keyed(noiser, each)["income"][some] for each in (holes, filled))
    assert (first != second).mean() > 0.9
    assert keyed(noiser, holes)["age"][some].isna().all()


# ------------------------------------------------------------------------------------------ the
# distribution


def bits_of(size, columns=1, key=KEY):
    ids = np.stack([np.arange(size), np.zeros(size)], axis=1).astype(np.uint64)
    return KeyedBits(key, "law").columns(ids, [np.zeros(size, dtype=np.int64)] * columns)


def distribution_of(noise):
    if isinstance(noise, Laplace):
        return stats.laplace(scale=noise.scale)
    if isinstance(noise, Gaussian):
        return stats.norm(scale=noise.scale)
    k = 2.0 if isinstance(noise, Cauchy) else noise.k
    return stats.t(k - 1.0, scale=noise.scale / np.sqrt(k - 1.0))


@pytest.mark.parametrize("noise", FAMILIES, ids=lambda noise: noise.name)
def test_keyed_draws_follow_the_distribution(noise):
    source = sampler(noise, grid_step(noise.scale))
    drawn = np.concatenate([source.by_row(words) for words in bits_of(2**14, 8)])
    values = (drawn + 0.5) * source.step
    assert stats.kstest(values, distribution_of(noise).cdf, method="asymp").pvalue > FALSE_ALARM
    wrong = distribution_of(noise.scaled(1.08)).cdf
    assert stats.kstest(values, wrong, method="asymp").pvalue < FALSE_ALARM


@pytest.mark.parametrize("noise", FAMILIES, ids=lambda noise: noise.name)
def test_keyed_draws_of_the_rest_follow_its_distribution(noise):
    """The rest, by row, is distributed as that of fresh draws, beyond the table too."""
    source = sampler(noise, grid_step(noise.scale))
    words = bits_of(2**14)[0]
    words.words(words.size)
    own = source._rest_by_row(words)
    fresh = source._of_rest(2**14)
    assert stats.ks_2samp(own, fresh).pvalue > FALSE_ALARM
    far = [(np.abs(each) * source.step > 10 * noise.scale).mean() for each in (own, fresh)]
    assert abs(far[0] - far[1]) < 6 * np.sqrt((far[1] + 1e-3) / 2**13)


@pytest.mark.parametrize("key", [KEY, BLAKE])
def test_keyed_categories_follow_their_kernel(key):
    mixing = Mixing.of_counts([0.0, 1.0, 2.0], [10, 20, 30])
    places = np.zeros(20_000, dtype=np.int64)
    mixing.sampler(0.7, None).release_from(places, bits_of(20_000, key=key)[0])
    wanted = (1 - np.exp(-0.7)) * mixing.probabilities + [np.exp(-0.7), 0, 0]
    assert stats.chisquare(np.bincount(places), wanted * places.size).pvalue > FALSE_ALARM


def test_keyed_cells_follow_their_row():
    rows = IntegerRows([0, 2, 3], [0, 1, 1], [WHOLE // 4, 3 * WHOLE // 4, WHOLE])
    words = bits_of(20_000)[0].words(20_000)
    drawn = rows.sampler().draw(np.zeros(20_000, dtype=np.int64), words)
    assert stats.binomtest(int(drawn.sum()), 20_000, 0.75).pvalue > FALSE_ALARM


def test_noise_that_may_differ_between_machines_is_refused_by_name():
    source = sampler(Logistic(1.0), 2.0**-40)
    with pytest.raises(TypeError, match=r"TableSampler cannot be drawn with a key.*take Laplace"):
        source.by_row(bits_of(10)[0])


# -------------------------------------------------------------------------- the same on any machine

# Whole numbers times powers of two, exactly: numpy's own powers differ from processor to processor.
POINTS = np.concatenate(
    [
        np.arange(-4000, 4001) * 703687441777 * 2.0**-46,
        np.ldexp(np.arange(1025, 2048, 41), np.arange(-50, -2)[:, None]).ravel(),
    ]
)


@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("exp", POINTS),
        ("exp", -np.geomspace(1e-9, 700.0, 500)),
        ("expm1", np.linspace(-1 / 64, 1 / 64, 2001)),
        ("expm1", -np.geomspace(1e-12, 1 / 64, 500)),
        ("exp2", np.linspace(-1.0, 1.0, 1001)),
        ("log", np.geomspace(1e-200, 1e200, 3001)),
        ("log", np.linspace(0.5, 2.0, 3001)),
        ("log1p", np.geomspace(1e-30, 1e200, 3001)),
        ("log1p", np.linspace(0.0, 3.0, 1001)),
    ],
)
def test_portable_functions_are_right_to_eight_units(name, x):
    exact = {"exp2": lambda v: mpf(2) ** v}.get(name) or getattr(mp, name)
    for value, found in zip(x[::7].tolist(), getattr(portable, name)(x)[::7].tolist(), strict=True):
        wanted = exact(mpf(value))
        assert abs(mpf(found) - wanted) <= 8 * 2.0**-53 * abs(wanted)


def test_portable_functions_have_the_same_bits_on_every_machine():
    taken, positive = hashlib.sha256(), np.abs(POINTS) + 2.0**-30
    for name, x in [("exp", POINTS), ("log", positive), ("log1p", np.abs(POINTS))]:
        taken.update(getattr(portable, name)(x).astype("<f8").tobytes())
    assert taken.hexdigest() == GOLDEN_FUNCTIONS


@pytest.mark.parametrize("key", [KEY, BLAKE])
def test_bits_are_those_of_every_machine_and_version(key):
    ids, columns = np.array([[7, 0], [2**64 - 1, 5]], dtype=np.uint64), [np.array([3, -4])] * 3
    words = KeyedBits(key, "golden").columns(ids, columns)
    found = [[hex(word) for word in source.words(4).tolist()] for source in words]
    assert found == GOLDEN_BITS[key]


@pytest.mark.parametrize("noise", FAMILIES, ids=lambda noise: noise.name)
def test_draws_are_those_of_every_machine_and_version(noise):
    drawn = sampler(noise, grid_step(noise.scale)).by_row(bits_of(2**15)[0])
    assert hashlib.sha256(drawn.astype("<i8").tobytes()).hexdigest() == GOLDEN_DRAWS[noise.name]


def test_aes_is_that_of_the_standard():
    """FIPS 197, appendix C.3, and SP 800-38A, F.1.5."""
    plain = bytes.fromhex("00112233445566778899aabbccddeeff")
    made = keyed_noise._aes(KEY)(keyed_noise._words(plain, 2)).astype("<u8").tobytes()
    assert made == bytes.fromhex("8ea2b7ca516745bfeafc49904b496089")
    key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"
    plain = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    found = keyed_noise._aes(bytes.fromhex(key))(keyed_noise._words(bytes.fromhex(plain), 2))
    wanted = "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870"
    assert found.astype("<u8").tobytes() == bytes.fromhex(wanted)


def test_tags_by_aes_are_a_cbc_mac():
    made = keyed_noise.AesPrf(KEY, "context")
    ids, columns = np.array([[7, 1]], dtype=np.uint64), [np.array([k]) for k in (3, -4, 5)]
    message = np.array([7, 1, 3, -4, 5, 0], dtype="<i8").tobytes()
    chained = Cipher(algorithms.AES(made._tags), modes.CBC(bytes(16))).encryptor().update(message)
    assert made.rows(ids, columns)[0].astype("<u8").tobytes() == chained[-16:]


def test_blake2b_is_that_of_its_authors():
    """The first keyed one of the test vectors that come with BLAKE2."""
    wanted = (
        "10ebb67700b1868efb4417987acf4690ae9d972fb7a590c2f02871799aaa4786"
        "b5e996e8f0f4eb981fc214b005f42d2ff4233499391653df7aefcbc13fc51568"
    )
    assert hashlib.blake2b(b"", key=bytes(range(64))).hexdigest() == wanted


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3), min_size=2))
def test_tags_by_blake2b_are_those_of_each_row(rows):
    made = keyed_noise.BlakePrf(BLAKE, "context")
    numbers = np.array(rows, dtype=np.int64)
    ids = np.zeros((len(rows), 2), dtype=np.uint64)
    tags, shared = made.rows(ids, list(numbers.T))
    alone = made.rows(ids[1:2], list(numbers[1:2].T))
    assert tags[1].tolist() == alone[0][0].tolist()
    places = range(40)
    assert [shared.at(place)[1] for place in places] == [alone[1].at(place)[0] for place in places]


def test_one_digest_of_blake2b_holds_the_tag_and_33_bits_of_eleven_columns(monkeypatch):
    made = KeyedBits(BLAKE, "context")
    ids, columns = np.array([[7, 1]], dtype=np.uint64), [np.array([k - 5]) for k in range(11)]
    message = np.array([7, 1, *range(-5, 6)], dtype="<i8").tobytes()
    digest = hashlib.blake2b(message, key=made._prf._tags).digest()
    monkeypatch.setattr(keyed_noise.BlakePrf, "expand", None)  # nothing else is asked for
    sources = made.columns(ids, columns)
    assert {source.tags.astype("<u8").tobytes() for source in sources} == {digest[:16]}
    signs, *uppers = struct.unpack("<12I", digest[16:])
    found = [source.halves(short=True) for source in sources]
    assert [int(upper[0]) for upper, _ in found] == uppers
    assert [int(lower[0]) >> 31 for _, lower in found] == [signs >> k & 1 for k in range(11)]


@pytest.mark.parametrize("kind", [keyed_noise.AesPrf, keyed_noise.BlakePrf])
def test_words_of_a_tag_are_those_of_its_label_and_counter(kind):
    made, tags = kind(KEY, "context"), np.array([[3, 4], [5, 6]], dtype=np.uint64)
    counters = np.array([0, 2])
    found = made.expand(tags, 9, counters)
    for tag, counter, words in zip(tags.tolist(), counters.tolist(), found, strict=True):
        if kind is keyed_noise.BlakePrf:
            message = struct.pack("<4Q", *tag, 9, counter)
            wanted = hashlib.blake2b(message, key=made._bits).digest()
        else:
            blocks = [(tag[0] ^ 9, tag[1] ^ 4 * counter + k) for k in range(4)]
            message = b"".join(struct.pack("<2Q", *block) for block in blocks)
            wanted = Cipher(algorithms.AES(made._bits), modes.ECB()).encryptor().update(message)
        assert words.astype("<u8").tobytes() == wanted


class OneBit:
    """Numbers of which a single bit is set; the j-th row has the j-th bit."""

    def __init__(self, place):
        self.place = place

    def at(self, place):
        return np.uint32(place == self.place) << np.arange(32, dtype=np.uint32)


def bits_read(n_columns, shorts):
    """Return how many columns read each bit of the numbers that a row's columns share."""
    read = np.zeros((3 * n_columns + 2, 32), dtype=int)
    for place in range(len(read)):
        for k, short in enumerate(shorts):
            upper, lower = keyed_noise._First(OneBit(place), k, n_columns).halves(short)
            read[place] += (upper != 0).astype(int) + ((lower >> 31 if short else lower) != 0)
    return read


@pytest.mark.parametrize("n_columns", [1, 5, 10, 11, 32, 33, 70])
def test_no_two_columns_read_the_same_bit(n_columns):
    for shorts in ([True] * n_columns, [False] * n_columns, [k % 3 > 0 for k in range(n_columns)]):
        read = bits_read(n_columns, shorts)
        assert read.max() == 1
        assert read.sum() == sum(33 if short else 64 for short in shorts)


def test_the_first_proposal_that_is_accepted_is_taken():
    lanes = np.array([[0, 0, 1, 0], [1, 0, 1, 0], [0, 1, 1, 0]], dtype=bool)
    assert first_of(lanes.ravel(), 4).tolist() == [4, 9, 2, 11]


def test_ids_of_any_text_have_bits_of_their_own():
    texts = ["", "a", "A", "\ud800", "\ud801", "?", "1"]
    found = KeyedBits(KEY, "ids").ids_of(texts)
    assert len(np.unique(found, axis=0)) == len(texts)


def test_a_selection_of_rows_goes_on_where_the_others_are():
    one, all_rows = bits_of(5)[0], bits_of(5)[0]
    first = one.words(5)
    some = np.array([1, 3])
    twice = [one.take(some).words(4), one.take(some).take(np.array([1])).words(1)]
    assert all_rows.words(5).tolist() == first.tolist()
    rounds = [all_rows.words(10) for _ in range(2)]
    assert twice[0].tolist() == rounds[0].reshape(2, 5)[:, some].ravel().tolist()
    assert twice[1].tolist() == [rounds[1][3]]


# ------------------------------------------------------------------------------------------ the key


def test_keys_come_from_bytes_files_and_the_environment(noiser, table, tmp_path, monkeypatch):
    text = b"sixteen bytes or more"
    path = tmp_path / "key"
    path.write_bytes(text + b"\n")
    monkeypatch.setenv("PUFFER_TEST_KEY", text.decode())
    whole = keyed(noiser, table, key=text)
    pd.testing.assert_frame_equal(keyed(noiser, table, key=path), whole)
    pd.testing.assert_frame_equal(keyed(noiser, table, key="env:PUFFER_TEST_KEY"), whole)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n", b"\r"])
@pytest.mark.parametrize("start", [b"", b"blake2b:"])
def test_one_key_is_one_key_wherever_it_comes_from_or_is_refused(tmp_path, monkeypatch, start, end):
    line, raw = start + b"a line of text as \xc3\xa9cho leaves it", start + bytes(range(128, 160))
    path = tmp_path / "key"
    monkeypatch.setenv("PUFFER_TEST_KEY", os.fsdecode(line + end))
    path.write_bytes(line + end)
    assert (
        keyed_noise.read_key(path)
        == keyed_noise.read_key("env:PUFFER_TEST_KEY")
        == keyed_noise.read_key(line)
    )
    assert keyed_noise.read_key(raw + end) == raw + end
    with pytest.raises(ValueError, match=r"earlier versions drew with it.* take another key"):
        keyed_noise.read_key(line + end)  # as a file it is read without
    path.write_bytes(raw + end)
    with pytest.raises(ValueError, match=r"key in '.*' ends in .*left it out.* as it was, or"):
        keyed_noise.read_key(path)  # as bytes it is kept
    path.write_bytes(raw)
    assert keyed_noise.read_key(path) == raw


SECRET = b"this is a secret key of some bytes"


@pytest.mark.parametrize("key", [SECRET, b"blake2b:" + SECRET])
def test_the_key_is_nowhere(noiser, table, key, caplog):
    own = copy.deepcopy(noiser)
    before = set(vars(own))
    with caplog.at_level(logging.DEBUG):
        keyed(own, table, key=key)
    assert set(vars(own)) == before
    assert SECRET not in pickle.dumps(own)
    texts = [repr(own), own.certificate_.details(), own.certificate_.to_json(), caplog.text]
    assert not any(SECRET.decode() in text for text in texts)


def test_the_record_of_a_call_does_not_show_its_key():
    from sklearn_puffer._release.keyed_rows import check_keying

    assert SECRET.decode() not in repr(check_keying("client", SECRET, "", 0, None))


@pytest.mark.parametrize(
    "key", [SECRET.decode(), SECRET[:15], b"blake2b:" + SECRET[:15], bytearray(SECRET), 5, "env:"]
)
def test_what_is_no_key_is_refused_without_showing_it(noiser, table, key):
    with pytest.raises((TypeError, ValueError), match=r"^key ") as error:
        keyed(noiser, table, key=key)
    assert "this is" not in str(error.value)


def test_a_key_file_that_is_not_there_is_named(noiser, table, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"key is '.*none.key', and there is no such file"):
        keyed(noiser, table, key=tmp_path / "none.key")


def test_a_machine_without_aes_refuses_its_keys_and_takes_those_of_blake2b(
    noiser, table, monkeypatch
):
    with_aes = keyed(noiser, table, key=BLAKE)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'sklearn-puffer\[keyed\]'"):
        keyed(noiser, table, key=KEY)
    pd.testing.assert_frame_equal(keyed(noiser, table, key=BLAKE), with_aes)
    first, second = (keyed(noiser, table, key=None) for _ in range(2))
    assert not first["age"].equals(second["age"])


# ---------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        ({}, {"row_id": None}, ValueError, "key is given without row_id.*name the column of ids"),
        ({}, {"row_id": None, "key": None, "dataset": "a"}, ValueError, "dataset is given without"),
        ({}, {"row_id": None, "key": None, "release": 1}, ValueError, "release is given without"),
        ({}, {"dataset": 5}, TypeError, "dataset must be a str, got 5"),
        ({}, {"release": -1}, ValueError, "release must be at least 0, got -1"),
        ({}, {"release": True}, TypeError, "release must be an integer"),
        ({}, {"row_id": "clients"}, ValueError, "row_id names column 'clients'"),
        ({}, {"row_id": [1, 2, 3]}, ValueError, "row_id has 3 rows and X has 400"),
        ({"client": 1}, {}, ValueError, "1 distinct ids in 400 rows.*an id of its own"),
        ({"client": "a"}, {}, ValueError, "1 distinct ids in 400 rows"),
        ({"client": None}, {}, ValueError, "missing in 400 of 400 rows"),
        ({"client": 0.5}, {}, TypeError, "holds no ids, which are whole numbers, strings"),
        ({"client": True}, {}, TypeError, "holds no ids, which are whole numbers, strings"),
    ],
)
def test_what_cannot_be_keyed_is_refused(noiser, table, change, options, error, message):
    with pytest.raises(error, match=message):
        keyed(noiser, table.assign(**change), **options)


def test_a_seed_is_refused_beside_ids(table):
    with pytest.raises(ValueError, match="random_state=0 and row_id= are both given"):
        keyed(fitted(table, random_state=0), table)


def test_ids_are_never_released(noiser, table):
    assert list(keyed(noiser, table).columns) == PUBLIC


def test_every_certificate_says_what_keyed_noise_takes_for_granted(noiser, table):
    [said] = [each for each in noiser.certificate_.assumptions if "row_id=" in each]
    assert re.search(r"key is secret.*AES-256.*random function.*further release", said)
    seeded = fitted(table, public=["age"], random_state=0).certificate_
    assert not any("row_id=" in each for each in seeded.assumptions)


def test_another_version_of_the_sampler_draws_anew(whole_noiser, table, monkeypatch):
    own = noise_of(keyed(whole_noiser, table), table)
    monkeypatch.setattr(keyed_noise, "SAMPLER_VERSION", 3)
    assert look_independent(own, noise_of(keyed(whole_noiser, table), table))
