"""The form of a release without priors: what it holds, what it releases, and what it refuses."""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import itertools
import json
import pickle
import pickletools
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from claims import altered
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_puffer import (
    Ledger,
    PufferfishNoiser,
    PufferfishRelease,
    PufferfishSum,
    UncertifiedError,
)
from sklearn_puffer._noise import seeded_entropy
from sklearn_puffer._release import table_release
from sklearn_puffer._release.mechanism import certificate_from_dict
from sklearn_puffer.noise import GeneralizedCauchy, Laplace
from sklearn_puffer.priors import GaussianMixture


def table_of(n_rows=120):
    """Return a table with a column of every kind, deterministic and full of ties."""
    row = np.arange(n_rows)
    ill = (row % 3 == 0) | (row % 7 == 0)
    return pd.DataFrame(
        {
            "ill": np.where(ill, "yes", "no"),
            "age": 20 + (row * 7 % 5) + 2 * ill,
            "pay": (row * 11 % 9) / 4.0 + ill,
            "job": np.array(["cook", "clerk", "smith"])[(row * 5 % 7 + ill) % 3],
            "vip": (row % 4 == 0) ^ ill,
        }
    )


def gaps():
    """Return that table with missing values in two of its columns."""
    table = table_of()
    table["vip"] = table["vip"].astype("boolean").mask(np.arange(len(table)) % 10 == 0)
    table["job"] = table["job"].mask(np.arange(len(table)) % 8 == 0)
    return table


def strangers():
    """Return rows that fit has not seen, below those that it has."""
    new = table_of()[-3:].assign(age=99, pay=[9.75, -3.5, 2.0])
    return pd.concat([table_of(), new], ignore_index=True)


def array_of():
    """Return numbers alone, as an array."""
    return table_of()[["age", "pay"]].to_numpy(dtype=float)


def numbered():
    """Return columns of the table under positions."""
    return table_of()[["ill", "age", "job"]].set_axis(range(3), axis=1)


def noiser_of(X=None, **parameters):
    """Return a noiser fitted to that table, or another one."""
    parameters = {"epsilon": 1.0, "sensitive": "ill", "n_bins": {"pay": 3}} | parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PufferfishNoiser(**parameters).fit(table_of() if X is None else X)


def array_noiser():
    """Return a noiser fitted to an array, with secrets beside it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        secrets = table_of()["ill"]
        return PufferfishNoiser(n_bins=3).fit(array_of(), sensitive_features=secrets)


def priors():
    """Return a Gaussian for each secret."""
    pairs = {"no": 1.0, "yes": 2.0}.items()
    return {name: GaussianMixture([1.0], [mean], [1.0]) for name, mean in pairs}


TWO = {"public": ["age", "pay"]}
FREE = {"public": ["pay"], "n_bins": None}
QUARTERS = [k / 4 for k in range(13)]
JOBS = ["clerk", "cook", "smith", b"x"]
CASES = {
    "laplace": (noiser_of, table_of),
    "gaussian": (lambda: noiser_of(noise="gaussian", delta=1e-3, public="pay"), table_of),
    "cauchy": (lambda: noiser_of(noise="cauchy", public="pay"), table_of),
    "a power": (lambda: noiser_of(noise=GeneralizedCauchy(k=4.0), public=["pay"]), table_of),
    "no bins": (lambda: noiser_of(n_bins=None, **TWO), table_of),
    "raw": (lambda: noiser_of(output="noisy"), table_of),
    "several": (lambda: noiser_of(releases=3, **TWO), table_of),
    "groups": (lambda: noiser_of(dependence=[["age", "pay"], ["job", "vip"]]), table_of),
    "known": (
        lambda: noiser_of(known=["job"], public=["age", "job"], n_bins=None, epsilon=3.0),
        table_of,
    ),
    "ordered": (
        lambda: noiser_of(n_bins=None, public=["age", "job"], categories={"job": JOBS[:3]}),
        table_of,
    ),
    "floats as categories": (
        lambda: noiser_of(public=["pay"], n_bins=None, categories={"pay": QUARTERS}),
        table_of,
    ),
    "passed": (lambda: noiser_of(n_bins=None, public=["age"], remainder="passthrough"), table_of),
    "gaps as values": (
        lambda: noiser_of(gaps(), missing="category", n_bins=None, public=["job", "vip"]),
        gaps,
    ),
    "gaps left": (
        lambda: noiser_of(gaps(), missing="propagate", n_bins=None, public=["age", "job", "vip"]),
        gaps,
    ),
    "nearest": (lambda: noiser_of(n_bins=None, unknown="nearest", **TWO), strangers),
    "other": (
        lambda: noiser_of(n_bins=None, public=["job"]).set_params(unknown={"job": "clerk"}),
        lambda: table_of().replace({"job": {"smith": "nurse"}}),
    ),
    "any number": (lambda: noiser_of(**FREE, prior=priors(), delta=1e-3), strangers),
    "array": (array_noiser, array_of),
    "positions": (lambda: noiser_of(numbered(), sensitive=[0], n_bins=None), numbered),
}


@functools.cache
def fitted(case):
    return CASES[case][0]()


@functools.cache
def text_of(case):
    return fitted(case).to_json()


def read(case):
    return PufferfishRelease.from_json(text_of(case))


def released(noiser, X, monkeypatch):
    """Return a release with bits that are the same each time, and what was warned of."""
    calls = itertools.count()
    with monkeypatch.context() as patched, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        patched.setattr(table_release, "system_entropy", lambda: seeded_entropy(7, next(calls), 0))
        return noiser.transform(X), [str(each.message) for each in told]


def assert_same(one, other):
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
    else:
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


# ----------------------------------------------------------------------------------- saved noisers


@pytest.mark.parametrize("case", ["laplace", "groups", "any number"])
def test_the_pickle_of_a_noiser_holds_no_object_of_pandas(case):
    saved = pickle.dumps(fitted(case))
    named = [str(argument) for _, argument, _ in pickletools.genops(saved)]
    assert "sklearn_puffer._noiser.estimator" in named  # the scan sees names of modules
    assert not any("pandas" in each for each in named)


def test_the_pickle_of_a_sum_holds_no_object_of_pandas_either():
    table = table_of().assign(age=table_of()["age"] % 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        query = PufferfishSum(value="age", by="ill").fit(table)
    saved = pickle.dumps(query)
    named = [str(argument) for _, argument, _ in pickletools.genops(saved)]
    assert not any("pandas" in each for each in named)
    pd.testing.assert_series_equal(pickle.loads(saved).scales_, query.scales_)


def test_scales_and_utility_are_those_of_the_fit_after_saving_too():
    noiser = fitted("laplace")
    again = pickle.loads(pickle.dumps(noiser))
    pd.testing.assert_series_equal(again.theta_, noiser.theta_)
    pd.testing.assert_frame_equal(again.utility_, noiser.utility_)
    assert list(noiser.theta_.index) == ["age", "pay", "job", "vip"]
    assert not hasattr(PufferfishNoiser(), "theta_")


# --------------------------------------------------------------------------------- what is released


@pytest.mark.parametrize("case", CASES)
def test_the_form_releases_what_the_noiser_does(case, monkeypatch):
    noiser, release, X = fitted(case), read(case), CASES[case][1]()
    expected, told = released(noiser, X, monkeypatch)
    found, told_too = released(release, X, monkeypatch)
    assert_same(found, expected)
    assert [each[:40] for each in told_too] == [each[:40] for each in told]
    assert list(release.get_feature_names_out()) == list(noiser.get_feature_names_out())
    assert release.n_features_in_ == noiser.n_features_in_
    assert hasattr(release, "feature_names_in_") == hasattr(noiser, "feature_names_in_")


@pytest.mark.parametrize("case", CASES)
def test_the_form_tells_what_the_noiser_does_but_for_other_priors(case):
    noiser, release = fitted(case), read(case)
    assert release.certificate_ == noiser.certificate_
    assert release.certificate_.details() == noiser.certificate_.details()
    assert release.certificate_.to_dict() == noiser.certificate_.to_dict()
    pd.testing.assert_frame_equal(release.utility_, noiser.utility_)
    assert hasattr(release, "theta_") == hasattr(noiser, "theta_")
    if hasattr(noiser, "theta_"):
        pd.testing.assert_series_equal(release.theta_, noiser.theta_)
    assert release.to_json() == text_of(case)
    with pytest.raises(ValueError, match="knows no other prior"):
        release.certificate_.against({})


def test_two_releases_of_a_form_share_no_noise():
    release = read("raw")
    one, two = (release.transform(table_of())["pay"].to_numpy() for _ in range(2))
    assert not np.isin(one, two).any()


def test_a_loss_over_a_set_that_was_not_computed_is_none_in_a_saved_release():
    waiting = json.loads(text_of("several"))
    waiting["certificate"]["over_set"], waiting["awaited"] = None, True
    other = PufferfishRelease.from_json(signed(waiting))
    assert "may learn more; that is not computed here" in other.certificate_.details()
    assert other.certificate_.over_set is None


# -------------------------------------------------------------------------- what it is, and is not


def test_a_form_is_a_fitted_transformer_that_is_not_fitted_again():
    release = read("laplace")
    assert clone(release) is release
    assert release.get_params()["unknown"] == "auto"
    assert repr(release) == "PufferfishRelease(4 columns, epsilon = 1, laplace)"
    for call in (release.fit, release.fit_transform):
        with pytest.raises(TypeError, match=r"is fitted already.* FrozenEstimator\(release\)"):
            call(table_of())
    with pytest.raises(TypeError, match="is read and not made"):
        PufferfishRelease()
    assert not hasattr(release, "priors_")


def test_a_form_takes_the_parameters_that_a_release_reads_and_no_other():
    form = PufferfishRelease.from_json(noiser_of().to_json())
    assert form.set_params(unknown="nearest", verbose=0) is form
    assert form.unknown == "nearest"
    with pytest.raises(ValueError, match=r"Invalid parameter 'epsilon'.*'n_jobs'"):
        form.set_params(epsilon=9.0, n_jobs=2)
    assert form.n_jobs is None


def test_a_pipeline_is_fitted_around_a_frozen_form():
    table = table_of()
    model = make_pipeline(FrozenEstimator(read("no bins")), LogisticRegression())
    assert set(model.fit(table, table["vip"]).predict(table)) <= {True, False}
    assert set(clone(model).fit(table, table["vip"]).predict(table)) <= {True, False}


def test_a_form_gives_the_kind_of_table_that_is_asked_for():
    release = read("array").set_output(transform="pandas")
    assert list(release.transform(array_of()).columns) == ["x0", "x1"]
    assert type(read("array").transform(array_of())) is np.ndarray


def test_a_ledger_counts_the_releases_of_a_form_as_those_of_its_noiser(tmp_path):
    ledger = Ledger.create(tmp_path / "x.ledger", fitted("several"))
    Ledger.open(tmp_path / "x.ledger", read("several")).transform(read("several"), table_of())
    assert ledger.left().releases == 2


def test_a_form_whose_parts_were_changed_releases_nothing():
    release = read("laplace")
    release._fitted.mechanism.columns[0].column.atoms[0] += 1.0
    with pytest.raises(ValueError, match="is not what its certificate_ is about"):
        release.transform(table_of())


def test_a_form_is_pickled_to_workers():
    again = pickle.loads(pickle.dumps(read("raw")))
    assert again.certificate_ == fitted("raw").certificate_
    assert again.transform(table_of()).shape == (120, 4)


# -------------------------------------------------------------------------- what it holds, and not


def numbers_in(value):
    """Yield all numbers of a JSON value, those in hexadecimal and shares of 2^62 included."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(each)
    elif isinstance(value, int | float):
        yield from (float(value), value / 2**62)
    elif isinstance(value, str) and re.fullmatch(r"-?0x[0-9a-f.]+p[+-]\d+", value):
        yield float.fromhex(value)


def without_shares(case):
    """Return a form without the shares in all rows that it has to tell, or that a certificate does.

    By chance they are numbers of a prior.
    """
    record = json.loads(text_of(case))
    del record["certificate"]["utility"]
    for column in record["columns"]:
        column.pop("shares", None)
    return record


@pytest.mark.parametrize("case", ["laplace", "raw", "groups", "known", "gaps left", "array"])
def test_no_number_of_a_prior_is_in_the_form(case):
    by_columns = [of for of_secret in fitted(case).priors_.values() for of in of_secret.values()]
    distributions = [distribution for of in by_columns for distribution in of.values()]
    chances = {float(p) for distribution in distributions for p in distribution.probabilities} - {
        0.0,
        0.5,
        1.0,
    }
    assert len(chances) > 1
    assert chances & set(numbers_in(without_shares(case))) == set()


def test_a_form_is_small():
    bare = json.loads(text_of("no bins"))
    del bare["certificate"]
    assert len(json.dumps(bare)) < 2_000 < len(text_of("no bins")) < 8_000


READING = """
import sys
import sklearn.base, pandas
before = set(sys.modules)
from sklearn_puffer import PufferfishRelease
release = PufferfishRelease.from_json(sys.argv[1])
out = release.transform(pandas.DataFrame({"age": [20, 22], "pay": [0.5, 1.0]}))
array = PufferfishRelease.from_json(sys.argv[2]).transform([[20.0, 0.5], [22.0, 1.0]])
print(list(out.columns), out.shape, array.shape, release.certificate_.fingerprint)
print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.slow
def test_another_process_reads_a_form_with_a_light_import(tmp_path):
    paths = [tmp_path / "release.json", tmp_path / "array.json"]
    fitted("no bins").to_json(paths[0])
    fitted("array").to_json(paths[1])
    run = subprocess.run(
        [sys.executable, "-c", READING, *paths], capture_output=True, text=True, check=True
    )
    told, modules = run.stdout.splitlines()
    mark = fitted("no bins").certificate_.fingerprint
    assert told == f"['age', 'pay'] (2, 2) (2, 2) {mark}"
    heavy = ("sklearn.ensemble", "sklearn.mixture", "sklearn.linear_model", "scipy.signal")
    heavy += ("sklearn.model_selection", "sklearn_puffer._sums", "sklearn_puffer._descent")
    assert [name for name in modules.split() if name.startswith(heavy)] == []


# ---------------------------------------------------------------------------------- what it refuses


def test_a_file_appears_whole_and_replaces_none(tmp_path):
    path = tmp_path / "release.json"
    assert fitted("laplace").to_json(path) == path.read_text() == text_of("laplace")
    with pytest.raises(
        FileExistsError, match=r"there is a file .* already; choose another name, or delete"
    ):
        fitted("groups").to_json(path)
    assert path.read_text() == text_of("laplace")
    assert [each.name for each in tmp_path.iterdir()] == ["release.json"]
    with pytest.raises(FileNotFoundError, match="cannot be written, and there is none now"):
        fitted("laplace").to_json(tmp_path / "none" / "release.json")


class Own(Laplace):
    """A family of somebody's own."""


REFUSED = {
    "random_state=3 ": lambda: noiser_of(random_state=3, **TWO),
    "is a family of your own": lambda: noiser_of(noise=Own(1.0), **TWO),
    "the value b'x' of type bytes": lambda: noiser_of(
        n_bins=None, public=["job"], categories={"job": JOBS}
    ),
}


@pytest.mark.parametrize("told", REFUSED)
def test_what_no_form_holds_is_refused_by_name(told, tmp_path):
    with pytest.raises(ValueError, match=told):
        REFUSED[told]().to_json(tmp_path / "release.json")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_certified_has_no_form():
    noiser = copy.copy(fitted("laplace"))
    less = altered(noiser.certificate_, loss=9.0)
    mark = noiser._fingerprint(less)  # as if that were what was proven
    noiser.certificate_ = dataclasses.replace(less, fingerprint=mark)
    with pytest.raises(UncertifiedError, match="no release to hand on"):
        noiser.to_json()
    with pytest.raises(ValueError, match="not fitted"):
        PufferfishNoiser().to_json()


def signed(record):
    """Return a form with the checksum that belongs to it, as a forger would make it."""
    bare = {key: value for key, value in record.items() if key != "checksum"}
    text = json.dumps(bare, separators=(",", ":"), sort_keys=True)
    return json.dumps(bare | {"checksum": hashlib.sha256(text.encode()).hexdigest()})


def is_one_sentence(fault):
    told = str(fault)
    return "\n" not in told and len(told) < 700 and told.endswith(".")


def test_the_checksum_is_that_of_all_other_fields_however_they_are_laid_out():
    record = json.loads(text_of("laplace"))
    assert json.loads(signed(record)) == record
    wide = json.dumps(record, indent=3, sort_keys=True)
    assert PufferfishRelease.from_json(wide).to_json() == text_of("laplace")


HOSTILE = {
    "nested lists": '{"a":' + "[" * 200_000,
    "nested objects": '{"a":' * 50_000,
    "not a number": '{"schema":NaN}',
    "an infinity": '{"schema":-Infinity}',
    "a huge float": '{"schema":1e999}',
    "a huge integer": '{"schema":' + "9" * 6000 + "}",
    "a large integer": '{"schema":' + "9" * 4000 + "}",
    "a key twice": '{"schema":1,"schema":2}',
    "half of it": '{"schema":',
    "nothing": "{}",
    "another schema": '{"schema":"sklearn_puffer.release/9","version":"9.9"}',
    "no checksum": '{"schema":"sklearn_puffer.release/1"}',
    "a surrogate": '{"schema":"\\ud800"}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_json_gets_one_sentence(name):
    with pytest.raises(ValueError, match="is no whole release artifact") as fault:
        PufferfishRelease.from_json(HOSTILE[name])
    assert is_one_sentence(fault.value)


def test_a_form_of_another_schema_names_the_version_that_wrote_it():
    with pytest.raises(ValueError, match=r"release/9', written by version '9\.9' of the library"):
        PufferfishRelease.from_json(HOSTILE["another schema"])


@pytest.mark.parametrize("path", ["missing.json", ".", 3, None, b"{}", "a" * 5000, "x\0y"])
def test_what_is_neither_a_text_nor_a_file_is_refused(path):
    with pytest.raises((TypeError, ValueError, OSError)):
        PufferfishRelease.from_json(path)


def test_a_file_that_is_not_there_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(
        FileNotFoundError, match="the release artifact cannot be read; take the JSON that to_json"
    ):
        PufferfishRelease.from_json(tmp_path / "release.json")


def test_a_file_that_is_no_text_is_refused_by_name(tmp_path):
    (tmp_path / "noiser.joblib").write_bytes(pickle.dumps(np.arange(3)))
    with pytest.raises(ValueError, match=r"noiser\.joblib' is no whole release artifact"):
        PufferfishRelease.from_json(tmp_path / "noiser.joblib")


def leaves(value, path=()):
    """Yield the places of all values in a JSON value, objects and lists included."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, (*path, key))


def changed(record, path, value):
    """Return a copy with another value in a place, or without it."""
    whole = copy.deepcopy(record)
    inner = functools.reduce(lambda held, key: held[key], path[:-1], whole)
    if value is None and isinstance(inner, dict):
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return whole


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.just(10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "x", "nearest", "0x1.0p+3", "infinity", "laplace", "category", "age"]),
    st.lists(st.integers(0, 2), max_size=3),
    st.just({}),
)


def read_or_refused(text):
    try:
        return PufferfishRelease.from_json(text)
    except ValueError as fault:
        return fault


@pytest.mark.parametrize("case", ["laplace", "gaps left", "raw"])
@settings(max_examples=30)
@given(data=st.data())
def test_every_field_that_is_changed_is_refused_or_harmless(case, data):
    record = json.loads(text_of(case))
    path = data.draw(st.sampled_from([*leaves(record)]))
    other = changed(record, path, data.draw(VALUES))
    if json.dumps(other) == json.dumps(record):
        return
    with pytest.raises(ValueError, match="is no whole release artifact") as fault:
        PufferfishRelease.from_json(json.dumps(other))
    assert is_one_sentence(fault.value)
    release = read_or_refused(signed(other))  # a forger's, who knows of the checksum alone
    if isinstance(release, ValueError):
        assert is_one_sentence(release)
        return
    noiser, X = fitted(case), CASES[case][1]()
    with pytest.MonkeyPatch.context() as patch:
        assert_same(released(release, X, patch)[0], released(noiser, X, patch)[0])


def test_every_byte_that_is_changed_is_refused_or_harmless():
    text = text_of("other")
    whole = json.loads(text)
    for place in range(1, len(text), 11):
        other = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
        try:
            PufferfishRelease.from_json(other)
        except ValueError:
            continue
        assert json.loads(other) == whole


FOLDER = Path(__file__).parent / "forms"
GONE = {  # written by earlier versions, in `forms`
    "remapped": "output='remapped' is gone: use output='native', or PufferfishMicroaggregator",
    "channel": "noise='optimal' is gone: PufferfishMicroaggregator releases rows of many columns",
}
DATES = FOLDER / "dates.json"
FORMS = sorted(path for path in FOLDER.glob("*.json") if path.stem not in GONE)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_that_were_written_once_are_read_for_ever(path):
    release = PufferfishRelease.from_json(path)
    assert release.certificate_.fingerprint == json.loads(path.read_text())["fingerprint"]
    days = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.arange(3), "D")
    X = pd.DataFrame({"since": days}) if path == DATES else table_of()
    names = ["since"] if path == DATES else fitted(path.stem).get_feature_names_out()
    assert list(release.transform(X)) == list(names)
    assert len(FORMS) == 3


@pytest.mark.parametrize("form", GONE)
def test_a_form_of_what_there_is_no_more_is_refused_with_what_took_its_place(form):
    with pytest.raises(ValueError, match=GONE[form]) as refused:
        PufferfishRelease.from_json(FOLDER / f"{form}.json")
    assert is_one_sentence(refused.value)
    assert "file" in str(refused.value)


def test_a_form_with_more_noise_than_was_certified_is_refused_with_the_way_out():
    record = json.loads(text_of("laplace"))
    drawn = record["columns"][0]
    drawn["certified"] = {"scale": drawn["scale"], "grid": drawn["grid"]}
    with pytest.raises(ValueError, match=r"noisier is gone: fit again, with releases=") as refused:
        PufferfishRelease.from_json(signed(record))
    assert is_one_sentence(refused.value)


def test_a_certificate_of_a_channel_is_refused_with_what_took_its_place():
    record = json.loads((FOLDER / "channel.json").read_text())["certificate"]
    with pytest.raises(ValueError, match=GONE["channel"]):
        certificate_from_dict(record)


EARLIER = {"prior": "the fitted prior", "n_columns": None, "models": (), "version": ""}


@pytest.mark.parametrize("key", EARLIER)
def test_a_certificate_written_before_a_field_was_is_read_with_its_default(key):
    record = json.loads(text_of("laplace"))
    del record["certificate"][key]
    assert getattr(PufferfishRelease.from_json(signed(record)).certificate_, key) == EARLIER[key]


def test_certificates_with_figures_of_earlier_versions_are_read():
    record = json.loads(json.dumps(noiser_of().certificate_.to_dict()))
    record |= {"least": 0.5, "counted": [{"columns": ["x"], "loss": 1.5, "beyond": 0.1}]}
    read = certificate_from_dict(record)
    assert [each.loss for each in read.counted] == [1.5]
    assert read.holds
