"""Every warning is one sentence of at most 200 characters, and a call has one of a kind."""

import re
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.tree import DecisionTreeClassifier

from sklearn_puffer import PufferfishNoiser, PufferfishSGDClassifier, PufferfishWarning
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._certificates.certificate_figures import ModelFacts
from sklearn_puffer._noiser import adversaries, assumptions, fit, read_table
from sklearn_puffer._release import Moved
from sklearn_puffer._release.drift import ColumnDrift, Drift
from sklearn_puffer._words import briefly
from sklearn_puffer.fits import MixtureFit
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import GaussianMixture

LONG = "the answer to question number {} of the second part of the survey of households"
ROWS = 240
LARGE = 10**9  # rows


def said_by(work):
    """Return what a call warns of, whatever was warned of before."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    told = [(each.category, str(each.message)) for each in caught]
    assert all(issubclass(category, PufferfishWarning) for category, _ in told)
    return [message for _, message in told]


def kind_of(message):
    """Return a message without its names and numbers."""
    return re.sub(r"'[^']*'|[\d.,%]+", "", message)


def check_one_sentence(message):
    assert len(message) <= 200, (len(message), message)
    assert message.endswith(".")
    assert re.search(r"[.!?]\s+[A-Z]", message) is None
    assert "\n" not in message
    assert "; " in message or ", so " in message  # what to do


def wide(n_columns=12, seed=0):
    """Rows of a secret of a long name, and of many columns that depend on it."""
    rng = np.random.default_rng(seed)
    s = np.arange(ROWS) % 2
    columns = {LONG.format(k): rng.normal(size=ROWS) + s for k in range(n_columns)}
    return pd.DataFrame({LONG.format("zero"): np.where(s, LONG, "no"), **columns})


def flat(n_columns=6):
    """Columns that do not depend on the secret, and share a value in most rows."""
    values = np.resize([1, 2, 3] + [7] * 27, ROWS // 2).repeat(2)
    return wide(0).assign(**{LONG.format(k): values for k in range(n_columns)})


def rare(n_columns=3):
    table = flat(n_columns)
    table.loc[table.index[:12], LONG.format("zero")] = np.resize([LONG * 2, LONG * 3], 12)
    return table


def noiser(**options):
    return PufferfishNoiser(**{"sensitive": LONG.format("zero"), "n_jobs": 2} | options)


def unseen(**options):
    """Release values that no fitted row has, with a seed and without a guarantee."""
    table = flat()
    fitted = noiser(unknown="nearest", random_state=3, **options).fit(table)
    fitted.transform(table.assign(**{LONG.format(k): 100 for k in range(6)}))


def scarce():
    """Few rows, most of which have a secret of their own."""
    few = wide(3).head(60)
    return few.assign(**{LONG.format(k): np.arange(60) % 45 for k in range(2)})


def unlike():
    """Return priors for which Monge's strategy is no guarantee."""
    names = ["no", LONG]
    near, far = (GaussianMixture([0.9, 0.1], [0.0, m], [1.0, 1.0]) for m in (20.0, 30.0))
    return dict(zip(names, (near, far), strict=True))


CALLS = {
    "many fine columns": lambda: noiser().fit(wide()),
    "columns by themselves": lambda: noiser(dependence="independent").fit(wide()),
    "groups of columns": lambda: noiser(
        dependence=[[LONG.format(k) for k in range(6)], [LONG.format(k) for k in range(6, 12)]]
    ).fit(wide()),
    "bins": lambda: noiser(n_bins=5).fit(wide()),
    "bins that collapse": lambda: noiser(n_bins=3).fit(flat()),
    "rare secrets": lambda: noiser(adversaries="confidence").fit(rare()),
    "no set": lambda: noiser(adversaries="confidence").fit(wide(8)),
    "continuous secrets": lambda: PufferfishNoiser(
        sensitive=[LONG.format(k) for k in range(2)], public=LONG.format(2), n_bins=2
    ).fit(scarce()),
    "a theorem": lambda: noiser(prior="gaussian").fit(wide(3)),
    "mixtures": lambda: noiser(
        prior=MixtureFit(max_iter=1, tol=1e-9), dependence="independent"
    ).fit(wide(2)),
    "a weak classifier": lambda: noiser(prior=DummyClassifier(), n_bins=2).fit(wide(3)),
    "a classifier that is too sure": lambda: noiser(prior=DecisionTreeClassifier(), n_bins=2).fit(
        wide(3)
    ),
    "weak classifiers": lambda: noiser(
        n_bins=2, adversaries=[DummyClassifier(), DecisionTreeClassifier(max_depth=1)]
    ).fit(wide(3)),
    "values not seen": unseen,
    "no guarantee": lambda: noiser(
        strategy="monge", on_uncertified="warn", prior=unlike()
    ).fit_transform(wide(1)),
    "a model": lambda: PufferfishSGDClassifier(
        epsilon=1.0, alpha=1.0 + 1e-12, data_norm=1e-3, random_state=0
    ).fit(np.random.default_rng(0).normal(size=(60, 3)), [0, 1] * 30),
}


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_a_call_warns_in_short_sentences_one_of_a_kind(call):
    told = said_by(CALLS[call])
    for message in told:
        check_one_sentence(message)
    kinds = [kind_of(message) for message in told]
    assert len(set(kinds)) == len(kinds), told
    assert told


UTILITY = [
    SimpleNamespace(
        name=LONG, change_sd=1234.5678, constant_sd=0.123456, median_change=1.0, worse=True
    )
] * 99
NOISE = SimpleNamespace(name=LONG, relative=123456.789, unordered=False, theta=1.0)
CERTIFICATE = SimpleNamespace(loss=12345.6789, notion=Pufferfish(0.123456789, 1.23456e-7))
MODEL = {
    "argument": "adversaries[10]",
    "model": "ClassifierWithAVeryLongNameAsPipelinesHave",
    "sensitive": LONG,
    "log_loss": 0.123456,
    "counting_log_loss": 0.123456,
    "boosted_log_loss": 0.123456,
}
DRIFT = Drift(
    n_rows=LARGE,
    n_fitted=LARGE,
    columns=tuple(ColumnDrift(LONG, 0.5, 0.5, 0.123456, 0.0) for _ in range(9)),
)
SENTENCES = {
    "quiet": lambda: assumptions.quiet_sentence(
        briefly([LONG] * 9), "without it (bins as their median)", LARGE, LARGE
    ),
    "useless": lambda: say.worthless(UTILITY)[0],
    "useless alone": lambda: say.worthless(UTILITY[:1])[0],
    "fine": lambda: read_table.too_fine_sentence([(LONG, LARGE)] * 9, LARGE),
    "once": lambda: adversaries.single_rows_sentence([LONG] * 99, 1.0, 19_999),
    "collapsed": lambda: read_table.collapsed_sentence([(LONG, 100, [-1.23456e-7])] * 9),
    "many secrets": lambda: read_table.many_secrets_sentence([(LONG, LARGE)] * 9, LARGE),
    "wide": lambda: fit.wide_sentence([LONG] * 99, 10**999, NOISE, 0),
    "seed": lambda: say.seed_sentence(2**64),
    "moved": lambda: Moved({LONG + str(k): LARGE for k in range(9)}, LARGE).sentence(),
    "uncertified": lambda: say.uncertified_sentence(CERTIFICATE),
    "drift": DRIFT.warning,
    **{
        f"a classifier that is {weak}": lambda weak=weak: ModelFacts.warning(
            SimpleNamespace(**MODEL, weak=weak)
        )
        for weak in ("constant", "overconfident", "counting", "boosting")
    },
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_is_short_whatever_the_names_and_numbers(sentence):
    check_one_sentence(SENTENCES[sentence]())
