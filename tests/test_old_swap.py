"""What was wrong with the swap of 0.2: a reader with a better model is right beyond the budget."""

import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from old_swap import least_change, loss, swap
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from sklearn_puffer import PufferfishNoiser, PufferfishSwap
from sklearn_puffer._release import certificate_from_dict
from sklearn_puffer.cli import main

EPSILON = 1.0


@pytest.fixture(scope="module")
def people():
    """Return rows of numbers, secrets, and the true chance of each secret.

    One column tells a little, and two others tell much together, and nothing apart.
    """
    rng = np.random.default_rng(0)
    score, one, two = rng.normal(size=6_000).round(2), *rng.integers(0, 3, (2, 6_000))
    told = np.where((one == 0) | (two == 0), 0.0, np.where(one == two, 2.5, -2.5))
    chances = expit(1.2 * score + told)
    secret = (rng.random(6_000) < chances).astype(int)
    return np.column_stack([score, one, two]), secret, chances


@pytest.fixture(scope="module")
def old(people):
    rows, secret, _ = people
    return swap(rows, secret, LogisticRegression(), EPSILON, 12, np.random.default_rng(1))


def held_by(old, secret):
    """Return the secret of whoever holds each row."""
    held = np.empty_like(secret)
    held[old.gets] = secret
    return held


def shift(secrets, base):
    """Return how far the odds of some people are from the base odds, and the standard error."""
    share = secrets.mean()
    error = 1.0 / np.sqrt(len(secrets) * share * (1.0 - share))
    return abs(logit(share) - logit(base)), error


def picked(claims, base):
    """Return the rows of whose holders a reader claims to know most, without any secret."""
    claimed = np.abs(logit(np.clip(claims, 1e-6, 1 - 1e-6)) - logit(base))
    signs = claims > base
    far = claimed > 1.25 * EPSILON
    return [far & signs, far & ~signs]


def test_the_swap_of_0_2_exchanged_rows_within_a_bound_on_means_over_cells(people, old):
    rows, secret, _ = people
    assert old.loss == pytest.approx(EPSILON, abs=1e-6)
    assert sorted(old.gets) == list(range(len(rows)))
    moved = old.gets != np.arange(len(rows))
    assert 0.02 < moved.mean() < 0.5
    went = pd.crosstab(old.cells, old.cells[old.gets]).to_numpy()
    np.testing.assert_allclose(went, old.flows, atol=1.0)
    held, base = held_by(old, secret), secret.mean()
    for cell in range(len(old.shares)):  # on average over a cell it was right
        own, error = shift(held[old.cells == cell], base)
        assert own < EPSILON + 4.0 * error


def test_a_reader_with_a_better_model_was_right_beyond_the_budget_of_the_swap_of_0_2(people, old):
    _, secret, chances = people
    held, base = held_by(old, secret), secret.mean()
    for rows_picked in picked(old.told(chances), base):
        found, error = shift(held[rows_picked], base)
        assert rows_picked.mean() > 0.1
        assert found - 4.0 * error > 1.4 * EPSILON


@pytest.mark.slow
def test_the_same_reader_and_one_with_the_secrets_are_within_the_budget_of_pufferfish_swap(people):
    rows, secret, chances = people
    table = pd.DataFrame(rows, columns=["score", "one", "two"]).assign(
        ill=secret, client=np.arange(len(rows))
    )
    new = PufferfishSwap(
        EPSILON, sensitive="ill", public=["score", "one", "two", "ill"], ids="client"
    )
    released = new.fit_transform(table)
    base, kept = secret.mean(), released["ill"].to_numpy()
    flows = new.flows_.to_numpy() / new.flows_.to_numpy().sum(axis=0)  # who holds rows of a secret
    # people stand in their order, each with the row that was released with him
    own = pd.Series(chances, index=pd.MultiIndex.from_frame(table[["score", "one", "two"]]))
    chance = own.groupby(level=[0, 1, 2]).first()
    better = chance[pd.MultiIndex.from_frame(released[["score", "one", "two"]])].to_numpy()
    claims = better * flows[1, 1] + (1.0 - better) * flows[1, 0]
    most = np.abs(logit(claims) - logit(base)) > 0.75 * EPSILON
    readers = [most & (claims > base), most & (claims < base), kept == 1, kept == 0]
    for rows_picked in readers:
        found, error = shift(secret[rows_picked], base)
        assert rows_picked.mean() > 0.1
        assert found < EPSILON + 3.0 * error


# ------------------------------------------------------------------------- what is left is refused


SENTENCE = r"is gone: .* PufferfishSwap .* PufferfishMicroaggregator"


def test_the_swap_of_0_2_is_refused_with_what_keeps_its_promise():
    table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": range(30)})
    with pytest.raises(ValueError, match="noise='swap' " + SENTENCE):
        PufferfishNoiser(sensitive="loan", noise="swap").fit(table)
    with pytest.raises(ImportError, match="noise.RecordSwap " + SENTENCE):
        from sklearn_puffer.noise import RecordSwap  # noqa: F401


def test_its_saved_noisers_and_certificates_are_refused_alike():
    # how pickle names the class of such a noiser
    saved = b"csklearn_puffer._noiser.swap_release\nSwapRelease\n."
    with pytest.raises(ImportError, match="noise='swap' " + SENTENCE):
        pickle.loads(saved)
    table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": [0, 5, 5, 1, 9, 8] * 5})
    certificate = PufferfishNoiser(sensitive="loan").fit(table).certificate_.to_dict()
    with pytest.raises(ValueError, match="noise='swap' " + SENTENCE):
        certificate_from_dict(certificate | {"swap": {"n_cells": 4}})


def test_the_command_line_refuses_it_alike(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": range(30)}).to_csv("in.csv", index=False)
    assert main(["fit", "in.csv", "out.json", "--sensitive", "loan", "--noise", "swap"]) != 0
    said = "--noise swap is gone: .* --mechanism swap .* --mechanism typical-rows"
    assert re.search(said, capsys.readouterr().err)
    assert not (tmp_path / "out.json").exists()


def test_the_smallest_instance_of_the_corrections_is_as_it_says():
    text = (Path(__file__).parents[1] / "CORRECTIONS.md").read_text(encoding="utf-8")
    own = text.partition("## Our own")[2]
    # ten people with x = 1, of whom nine have the secret, and ten with x = 2, of whom one has it
    sizes, shares = np.array([20]), np.array([0.5])  # one cell: a model that scores them alike
    flows = least_change(sizes, shares, EPSILON)
    assert flows.tolist() == [[20.0]]
    assert loss(flows, shares) == 0.0
    true = logit(0.9) - logit(0.5)
    assert f"{true:.3f} where 1 is claimed" in own
