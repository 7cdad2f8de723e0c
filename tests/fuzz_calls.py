"""Random calls of every estimator and ledger, sensible and not, and what each must leave behind.

A call may succeed, warn the user, or raise `TypeError` or `ValueError` from this package (or from
scikit-learn's own checks) in one line of text. Anything else is foreign. A call that raises leaves
the object, its arguments and the ledger's file as they were.
"""

import contextlib
import copy
import pickle
import traceback
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning

import sklearn_puffer
from sklearn_puffer import (
    Ledger,
    PufferfishNoiser,
    PufferfishSGDClassifier,
    PufferfishSGDRegressor,
    PufferfishSum,
)
from sklearn_puffer.bounds import Relaxed
from sklearn_puffer.noise import GeneralizedCauchy, Laplace
from sklearn_puffer.priors import ConfidenceSet, Discrete, GaussianMixture
from sklearn_puffer.users import User

HERE = Path(sklearn_puffer.__file__).parent
CHECKS = ("sklearn", "utils")  # where scikit-learn reads what every estimator is given
LONGEST = 2000  # characters of a message

ODD = [
    None,
    True,
    -1,
    0,
    0.5,
    2,
    7,
    np.nan,
    np.inf,
    -np.inf,
    1e308,
    1e-308,
    10**400,
    "",
    "all",
    "x",
]
ODD += [(), [], {}, [None], {"a": None}, {"a": 10**400}, b"7", 1 + 1j, np.array([1.0, 2.0])]
ODD += [object(), np.float32(0.5), np.int8(3), pd.NA, pd.NaT, range(3), {"a", "b"}, int]


def no_strategy(*rest):
    """Return no bound at all; it can be pickled."""


class ForeignError(AssertionError):
    """A call that did what no call may do."""


def attempt(name, call, *kept):
    """Return what a call returns, or None where it was refused; ``kept`` must survive a refusal."""
    before = [state(each) for each in kept]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("ignore", DataConversionWarning)
            return call()
    except (TypeError, ValueError) as error:
        check_refusal(name, error)
    except OSError as error:  # of a ledger's path, with its own words
        check_refusal(name, error)
    except BaseException as error:
        raise ForeignError(f"{name}: {type(error).__name__}: {error}") from error
    for each, was in zip(kept, before, strict=True):
        if state(each) != was:
            raise ForeignError(f"{name}: half done, {type(each).__name__} changed")
    return None


def check_refusal(name, error):
    frames = traceback.extract_tb(error.__traceback__)
    frame = frames[-1]
    own = HERE in Path(frame.filename).parents
    checks = any(Path(each.filename).parts[-3:-1] == CHECKS for each in frames)
    if not own and not checks:
        raise ForeignError(f"{name}: from {frame.filename}:{frame.lineno}: {error!r}") from error
    text = str(error)
    lines = text.split("\n") if " faults were found " in text else [text]
    if own and not (0 < len(text) < LONGEST and all(map(str.isprintable, lines))):
        raise ForeignError(f"{name}: no message for people: {text[:300]!r}") from error


def state(value):
    """Return what must not change: content of data, identity of an estimator's attributes."""
    if isinstance(value, Path):
        return value.read_bytes() if value.is_file() else None
    if isinstance(value, pd.DataFrame | pd.Series):
        frame = value.reset_index()
        return repr(frame.dtypes.to_dict()), repr(frame.to_numpy(dtype=object).tolist())
    if isinstance(value, np.ndarray):
        return pickle.dumps(np.asarray(value)), pickle.dumps(np.ma.getmaskarray(value))
    if isinstance(value, pl.DataFrame | pa.Table):
        return str(value), value.shape
    if hasattr(value, "get_params"):
        return {key: id(attribute) for key, attribute in vars(value).items()}
    return None


class Fuzz:
    """One seed's calls."""

    def __init__(self, seed, folder):
        self.rng = np.random.default_rng(seed)
        self.folder = folder
        self.calls = 0
        self.answered = 0

    def run(self, calls):
        """Make that many calls."""
        kinds = [self.noiser, self.noiser, self.query, self.descent]
        while self.calls < calls:
            self.pick(kinds)()
        return self

    def attempt(self, name, call, *kept):
        self.calls += 1
        found = attempt(name, call, *kept)
        self.answered += found is not None
        return found

    def pick(self, options):
        return options[self.rng.integers(len(options))]

    def chance(self, share):
        return self.rng.random() < share

    # ------------------------------------------------------------------------------- tables

    def column(self, n):
        rng = self.rng
        makers = [
            lambda: rng.integers(0, 4, n),
            lambda: rng.integers(0, 4, n).astype(np.int8),
            lambda: rng.integers(0, 3, n) / 2,
            lambda: (rng.integers(0, 3, n) / 2).astype(np.float32),
            lambda: rng.random(n) < 0.5,
            lambda: rng.choice(["a", "b", "c\n\x1b"], n),
            lambda: pd.Categorical(rng.choice(["lo", "hi"], n), ["lo", "hi"], ordered=True),
            lambda: np.full(n, 3),
        ]
        strange = [
            lambda: rng.normal(size=n),
            lambda: np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 3, n)),
            lambda: pd.array(rng.integers(0, 3, n), dtype="Int64"),
            lambda: pd.array(np.where(rng.random(n) < 0.2, None, "z"), dtype="string"),
            lambda: np.array([self.pick(ODD[:14]) for _ in range(n)] + [None], dtype=object)[:n],
            lambda: np.full(n, np.datetime64("2026-01-01")),
            lambda: rng.integers(0, 3, n) * 1e300,
            lambda: rng.integers(0, 3, n) * 1e-310,
            lambda: rng.integers(0, 3, n) + 2**53,
            lambda: rng.integers(0, 3, n).astype(complex),
            lambda: rng.integers(0, 3, n).astype(np.float16),
            lambda: rng.integers(0, 3, n).astype(np.longdouble),
            lambda: np.array([f"id{k}" for k in range(n)] + [""])[:n],
            lambda: np.arange(n),
            lambda: pd.Series([[1]] * n, dtype=object),
        ]
        return self.pick(strange if self.chance(0.15) else makers)()

    def frame(self, n=None):
        n = self.pick([24, 40, 60, 0, 1]) if n is None and self.chance(0.3) else n or 40
        frame = pd.DataFrame({name: self.column(n) for name in "sab"[: self.rng.integers(2, 4)]})
        if not self.chance(0.2):
            frame["s"] = self.pick([self.rng.integers(0, 2, n), self.rng.choice(list("xyz"), n)])
        return frame

    def shaped(self, frame):
        """Return a frame as users may hold it: other kinds of table, other columns, no table."""
        if self.chance(0.6):
            return frame
        shapes = [
            lambda: pl.from_pandas(frame),
            lambda: pa.Table.from_pandas(frame, preserve_index=False),
            lambda: frame.to_numpy(),
            lambda: frame[frame.columns[::-1]],
            lambda: frame.assign(extra=1),
            lambda: frame.drop(columns=frame.columns[-1]),
            lambda: frame.set_axis(["a"] * frame.shape[1], axis=1),
            lambda: frame.set_axis(range(frame.shape[1]), axis=1),
            lambda: frame.set_axis(pd.MultiIndex.from_product([["m"], frame.columns]), axis=1),
            lambda: frame.iloc[:0],
            lambda: frame.sample(frac=1.0, random_state=0),
            lambda: np.ma.masked_array(frame.to_numpy(dtype=object)),
            lambda: pl.from_pandas(frame).lazy(),
            lambda: pa.RecordBatch.from_pandas(frame, preserve_index=False),
            lambda: frame.to_dict("list"),
            lambda: frame["s"],
            lambda: self.pick(ODD),
        ]
        with contextlib.suppress(Exception):  # not every frame has every shape
            return self.pick(shapes)()
        return frame

    # ------------------------------------------------------------------------------- the noiser

    def noiser_options(self):
        rng = self.rng
        distribution = Discrete([0, 1, 2], [0.5, 0.25, 0.25])
        pools = {
            "epsilon": [0.1, 1.0, 5, 1e-8, 1e3],
            "delta": [0.0, 0.0, 1e-5, 0.1],
            "alpha": [None, None, 2.0, 30],
            "releases": [1, 1, 2, 5],
            "sensitive": ["s", "s", "s", ["s"], 0, ["s", "a"], None],
            "public": [None, "a", ["a", "b"], [1], ["a", "s"], "gone"],
            "secret_pairs": ["all", "all", [(0, 1)], {"s": [(0, 1)]}, [("x", "y")], [(0, 0)]],
            "prior": [
                "empirical",
                "empirical",
                "gaussian",
                {0: distribution, 1: distribution},
                {"x": distribution},
            ],
            "strategy": [
                *["exact", "relaxed", "wasserstein", "sensitivity", "approximate"],
                *["distribution_aware", "monge", Relaxed("eq11"), no_strategy],
            ],
            "noise": [
                "laplace",
                "laplace",
                "gaussian",
                "cauchy",
                GeneralizedCauchy(1.0, 4),
                Laplace(1),
                "optimal",
            ],
            "dependence": ["joint", "independent", [["a"], ["b"]], [["a", "b"]], [["a"]]],
            "adversaries": [
                None,
                None,
                "confidence",
                ConfidenceSet(0.9),
                [{0: distribution, 1: distribution}],
                [7],
            ],
            "weights": ["spread", {"a": 1.0, "b": 2.0}, {"a": 1e-300}, {"c": 1}],
            "categories": [
                None,
                {"a": ["a", "b", "c"]},
                {"a": [3, 2, 1, 0]},
                {"a": []},
                {"z": [1]},
            ],
            "n_bins": [None, 2, 3, {"a": 2}, {"z": 2}, 1],
            "missing": ["error", "category", "propagate"],
            "unknown": ["error", "nearest"],
            "output": ["native", "noisy"],
            "remainder": ["drop", "passthrough"],
            "known": [None, None, "a", ["a", "b"], ("a", "b"), 7],
            "on_uncertified": ["raise", "warn"],
            "random_state": [None, None, 0, np.random.default_rng(0)],
            "n_jobs": [None, 1, 2, 0],
        }
        names = rng.choice(list(pools), rng.integers(0, 5), replace=False)
        options = {"sensitive": "s"} | {name: self.pick(pools[name]) for name in names}
        if self.chance(0.15):
            options[str(rng.choice(list(pools)))] = self.pick(ODD)
        return options

    def noiser(self):
        frame = self.frame()
        table = self.shaped(frame)
        noiser = PufferfishNoiser(**self.noiser_options())
        extra = {}
        if self.chance(0.15):
            extra["sensitive_features"] = self.pick([frame["s"], frame[["s"]], *ODD])
        if self.chance(0.15):
            extra["sample_weight"] = self.pick([np.ones(len(frame)), np.arange(len(frame)), *ODD])
        if self.attempt(f"fit {noiser}", lambda: noiser.fit(table, **extra), noiser, table) is None:
            self.attempt("transform unfitted", lambda: noiser.transform(table), noiser)
            return
        self.attempt("str", lambda: str(noiser.certificate_))
        self.attempt("html", lambda: noiser.certificate_._repr_html_() + noiser._repr_html_())
        self.attempt("json", lambda: noiser.certificate_.to_json())
        self.attempt("table", lambda: noiser.certificate_.table)
        self.attempt("utility", lambda: getattr(noiser, "utility_", 0))
        self.attempt("names", lambda: noiser.get_feature_names_out())
        self.attempt("over set", lambda: noiser.certificate_.over_set)
        self.attempt("against", lambda: noiser.certificate_.against(self.pick(ODD)), noiser)
        saved = self.attempt("pickle", lambda: pickle.loads(pickle.dumps(noiser)))
        self.attempt("clone", lambda: clone(noiser))
        for each in (noiser, saved):
            later = self.shaped(frame if self.chance(0.5) else self.frame())
            if each is not None:
                self.attempt("transform", lambda e=each, t=later: e.transform(t), each, later)
        self.ledger(noiser, table)
        name = self.pick(list(noiser.get_params()))
        changed = copy.copy(noiser)
        if self.attempt("set_params", lambda: changed.set_params(**{name: self.pick(ODD)})):
            self.attempt(
                f"transform after {name}", lambda: changed.transform(table), changed, table
            )
            self.attempt(f"fit after {name}", lambda: changed.fit(table), changed, table)

    # ------------------------------------------------------------------------------- the ledger

    def ledger(self, owner, table):
        path = self.folder / f"{self.calls}.ledger"
        datasets = self.pick([None, None, ["u", "v"], *ODD])
        ledger = self.attempt("create", lambda: Ledger.create(path, owner, datasets=datasets), path)
        if ledger is None:
            return
        for _ in range(3):
            asked = {
                "releases": self.pick([1, 1, 2, *ODD]),
                "dataset": self.pick([None, "u", *ODD]),
            }
            asked = {key: value for key, value in asked.items() if self.chance(0.4)}
            note = self.pick(["", "n", *ODD]) if self.chance(0.2) else ""
            self.attempt("spend", lambda a=asked, n=note: ledger.spend(note=n, **a), path)
        self.attempt("left", lambda: ledger.left())
        if isinstance(owner, PufferfishSum):
            self.attempt("ledger release", lambda: ledger.release(owner, table), path)
        else:
            self.attempt("ledger transform", lambda: ledger.transform(owner, table), path, table)
        self.attempt("open", lambda: Ledger.open(self.pick([path, path, *ODD]), owner), path)
        self.attempt("history", lambda: str(ledger.history()) + str(ledger))

    # ------------------------------------------------------------------------------- sums

    def distribution(self):
        rng = self.rng
        n = rng.integers(1, 4)
        if self.chance(0.1):
            return GaussianMixture([1.0], [0.0], [1.0])
        if self.chance(0.1):
            return self.pick(ODD)
        return Discrete(rng.choice(6, n, replace=False), np.full(n, 1.0 / n))

    def query(self):
        pools = {
            "epsilon": [0.1, 1.0, 5, 1e-8],
            "delta": [0.0, 0.0, 1e-5],
            "secrets": ["value", "value-absence", "distribution-absence", "distribution"],
            "query": ["sum", "mean", "count"],
            "strategy": ["exact", "worst_case", "published"],
            "value": ["a", None, "gone"],
            "by": ["s", None],
            "unit": ["row", "class"],
            "step": [None, 1, 0.5],
            "presence": [None, 0.5, 1.0],
            "releases": [1, 2],
            "random_state": [None, 0],
        }
        names = self.rng.choice(list(pools), self.rng.integers(0, 4), replace=False)
        options = {name: self.pick(pools[name]) for name in names}
        if self.chance(0.15):
            options[str(self.rng.choice(list(pools)))] = self.pick(ODD)
        query = PufferfishSum(**options)
        if self.chance(0.4) or "value" in options:
            crowd = self.shaped(self.frame())
        else:
            crowd = []
            for _ in range(self.rng.integers(1, 4)):
                more = {"presence": self.pick([1.0, 0.5, *ODD])} if self.chance(0.3) else {}
                count = self.pick([1, 2, 5, *ODD]) if self.chance(0.3) else 1
                user = self.attempt(
                    "user", lambda c=count, m=more: User(self.distribution(), count=c, **m)
                )
                crowd += [user] if user is not None else []
        if self.attempt(f"fit {query}", lambda: query.fit(crowd), query, crowd) is None:
            self.attempt("release unfitted", lambda: query.release([0]), query)
            return
        self.attempt("str", lambda: str(getattr(query, "certificate_", "")))
        self.attempt("pickle", lambda: pickle.loads(pickle.dumps(query)))
        n = sum(user.count for user in crowd) if isinstance(crowd, list) else len(crowd)
        reports = self.pick([self.rng.integers(0, 6, n), np.zeros(n), [np.nan] * n, crowd, *ODD])
        for _ in range(2):
            answer = self.attempt("release", lambda: query.release(reports), query, reports)
            if answer is not None:
                self.attempt("answer", lambda a=answer: f"{a} {a.half_width} {a.certificate}")
        self.ledger(query, reports)

    # ------------------------------------------------------------------------------- descents

    def descent(self):
        pools = {
            "epsilon": [0.1, 1.0, 5, 1e-8],
            "alpha": [2.0, 1.01, 30],
            "correlation": [0.0, 0.3, [0.5, 0.2], np.eye(3)],
            "data_norm": [1.0, 2],
            "l2": [0.0, 0.1],
            "clip": [None, 0.5],
            "learning_rate": [None, 0.1],
            "radius": [None, 1.0],
            "batch_size": [None, 5],
            "average": ["auto", True, False],
            "noise_at": ["auto", "end", "steps"],
            "fit_intercept": [True, False],
            "random_state": [None, 0],
        }
        names = self.rng.choice(list(pools), self.rng.integers(0, 4), replace=False)
        options = {name: self.pick(pools[name]) for name in names}
        if self.chance(0.2):
            options[str(self.rng.choice(list(pools)))] = self.pick(ODD)
        kind = self.pick([PufferfishSGDRegressor, PufferfishSGDClassifier])
        model = kind(**options)
        n = self.pick([40, 40, 3, 1, 0])
        X, y = self.rng.random((n, 2)), self.rng.integers(0, 2, n)
        if self.chance(0.3):
            X = self.shaped(self.frame(n))
        if self.chance(0.15):
            y = self.pick([self.rng.choice(["u", "v"], n), self.rng.normal(size=n), *ODD])
        if self.attempt(f"fit {model}", lambda: model.fit(X, y), model, X, y) is None:
            self.attempt("predict unfitted", lambda: model.predict(X), model)
            return
        self.attempt("str", lambda: str(model.certificate_))
        self.attempt("pickle", lambda: pickle.loads(pickle.dumps(model)))
        other = self.pick([X, X, self.frame(), *ODD])
        self.attempt("predict", lambda: model.predict(other), model, other)
        self.attempt("score", lambda: model.score(X, y), model)
