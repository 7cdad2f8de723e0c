"""Releasing again, and the ledger
===============================

Release the same rows again and again: what all releases tell together, and what stops them::

    python examples/releases.py [--output FOLDER]

Whoever averages k releases of the same rows averages the noise away. First, what k releases lose
together, exactly, beside "epsilon / k for each", which does not add up to epsilon. Then guessers
who see k releases of the diabetes data that scikit-learn carries, and the noise that a plan with
``releases=k`` asks for. Last, a ledger: it is kept in a file beside the saved noiser, and stops the
release that would be one too many. Run it again in the same folder: the ledger remembers.
"""

import argparse
import textwrap
import warnings
from contextlib import contextmanager
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
from scipy.special import logsumexp
from sklearn.datasets import load_diabetes

from sklearn_puffer import Ledger, OverspentError, PufferfishNoiser, UtilityWarning
from sklearn_puffer.accounting import privacy_loss
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.noise import Laplace
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete

PUBLIC = ["age", "bmi", "bp"]
FIRST, SECOND = "first clinic", "second clinic"
REPETITIONS = 10

FOOTNOTES = """\
The budget is 1 throughout. "same scale": that of one release, k times. "epsilon/k": the scale at
which a release alone loses 1/k; k of them lose more than 1. "planned": k times the scale of one
release. Precisions 1/theta add up, so k releases lose exactly what one loses at theta/k.
right %: by the best guess from all k outputs and the prior; 53 % without any output. beyond %: of
patients whose odds moved by more than a factor of e, which the guarantee rules out. mean off by:
how far the mean of k outputs is off the bmi, the median, in standard deviations of the bmi.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder for noiser and ledger")
    folder = parser.parse_args().output
    # several releases at a small budget: what they cost is what is shown here
    warnings.simplefilter("ignore", UtilityWarning)
    # so are more of them than a certificate counts, of which a noiser warns
    warnings.filterwarnings("ignore", ".* rows were released before")

    table = load_diabetes(as_frame=True, scaled=False).data[["sex", *PUBLIC]]
    sections = {
        "User 4 of 001, Table 3, in the sum or not: what k releases lose together": losses(),
        "Guessing the sex of a patient from k releases of age, bmi and bp": guesses(table),
        "A plan: the scales of PufferfishNoiser(epsilon=1, releases=k)": plans(table),
    }
    for title, section in sections.items():
        print(f"{title}\n\n{section.to_string(float_format='{:.4g}'.format)}\n")
    print(FOOTNOTES)
    folder.mkdir(parents=True, exist_ok=True)
    keep_a_ledger(folder, table)


# What k releases lose together


def losses(epsilon=1.0):
    """Return a row for each number of releases: scales, and exact losses of all k together."""
    pair = Discrete.from_counts([1, 2, 4, 5], [4, 1, 1, 4]), Discrete([0.0], [1.0])
    once = smallest_scale(pair, epsilon)
    rows = {}
    for k in range(1, 11):
        share = smallest_scale(pair, epsilon / k)
        rows[k] = {
            "same scale": once,
            "they lose": joint_loss(pair, once, k),
            "epsilon/k": share,
            "lose": joint_loss(pair, share, k),
            "planned": k * once,
            "lose ": joint_loss(pair, k * once, k),
        }
    return pd.DataFrame(rows).T.rename_axis("k")


def smallest_scale(pair, epsilon):
    return calibrate([pair], Pufferfish(epsilon)).scale


def joint_loss(pair, scale, k):
    """Return the exact loss of k releases: that of one, of k times the precision."""
    return privacy_loss(*pair, Laplace(scale / k), Pufferfish(1.0)).upper


# What a guesser makes of them


def guesses(table, epsilon=1.0):
    """Return a row for each number of releases: what is found out, without a plan and with one."""
    once = fit(table, epsilon)
    unplanned = [releases(once, table, 10) for _ in range(REPETITIONS)]
    rows = {}
    for k in (1, 2, 5, 10):
        plan = fit(table, epsilon, releases=k)
        planned = [releases(plan, table, k) for _ in range(REPETITIONS)]
        seen = what_is_found_out(once, table, [outputs[:k] for outputs in unplanned], epsilon)
        told = what_is_found_out(plan, table, planned, epsilon)
        rows[k] = seen | {f"planned: {name}": figure for name, figure in told.items()}
    return pd.DataFrame(rows).T.rename_axis("k")


def what_is_found_out(noiser, table, seen, epsilon):
    """Return what guessers make of the outputs ``seen``, an array of `releases` a repetition."""
    is_1 = (table["sex"] == 1.0).to_numpy()
    base = np.log(is_1.mean() / (~is_1).mean())
    moved = np.stack([log_ratios(noiser, outputs) for outputs in seen])
    mean_bmi = np.stack([outputs[:, :, PUBLIC.index("bmi")].mean(axis=0) for outputs in seen])
    off = np.median(np.abs(mean_bmi - table["bmi"].to_numpy())) / table["bmi"].std()
    return {
        "right %": round(100 * float(np.mean((base + moved > 0.0) == is_1))),
        "beyond %": round(100 * float(np.mean(np.abs(moved) > epsilon + 1e-6))),
        "mean off by": round(float(off), 1),
    }


def fit(table, epsilon=1.0, releases=1):
    noiser = PufferfishNoiser(
        epsilon, sensitive="sex", public=PUBLIC, n_bins=5, releases=releases, output="noisy"
    )
    return noiser.fit(table)


def releases(noiser, table, k):
    """Return k releases of the table, of shape (k, n_rows, n_public)."""
    return np.stack([noiser.transform(table).to_numpy() for _ in range(k)])


def log_ratios(noiser, seen):
    """Return log p(outputs | 1) / p(outputs | 2) of each row, for outputs (k, n_rows, n_public)."""
    distributions, theta = noiser.priors_["sex"], noiser.theta_.to_numpy()
    logs = []
    for secret in (1.0, 2.0):
        (distribution,) = distributions[secret].values()
        apart = np.abs(seen[:, :, None, :] - distribution.rows) / theta
        with np.errstate(divide="ignore"):  # some values are never seen with one secret
            logs.append(
                logsumexp(np.log(distribution.probabilities) - apart.sum(axis=(0, 3)), axis=1)
            )
    return logs[0] - logs[1]


def plans(table):
    """Return the scales for each number of releases, and what they lose together."""
    noisers = {k: fit(table, releases=k) for k in (1, 2, 5, 10)}
    rows = {k: {**noiser.theta_, "loss": noiser.certificate_.loss} for k, noiser in noisers.items()}
    return pd.DataFrame(rows).T.rename_axis("k")


# The ledger


def keep_a_ledger(folder, table):
    """Release through a ledger until it refuses."""
    noiser, ledger = saved(folder, table)
    first, second = table.iloc[:221], table.iloc[221:]
    scales = {name: round(theta, 2) for name, theta in noiser.theta_.items()}
    print(f"A noiser for two releases of the same rows, at the scales {scales}.\n")
    for note in ("for the press", "for the archive", "for a friend"):
        with told(f"{FIRST}, {note}", ledger, FIRST):
            ledger.transform(noiser, first, dataset=FIRST, note=note)

    print("\nOther patients, independent of these, have a budget of their own.\n")
    if SECOND not in ledger.datasets:
        ledger.add(SECOND)
    with told(SECOND, ledger, SECOND):
        ledger.transform(noiser, second, dataset=SECOND)
    with told(f"{SECOND}, by another program", ledger, SECOND):
        ledger.spend(dataset=SECOND, note="by another program")

    print("\nOn record:\n")
    for entry in ledger.history():
        print(f"- {entry.dataset}: {entry.releases} time(s) {entry.note}".rstrip())
    print(f"\nWritten to {folder.resolve()}: noiser.joblib, noiser.ledger")


def saved(folder, table):
    """Return the noiser and the ledger of an earlier run, or new ones."""
    noiser_path, ledger_path = folder / "noiser.joblib", folder / "noiser.ledger"
    if ledger_path.exists():
        print("Found the noiser and the ledger of an earlier run.")
        noiser = joblib.load(noiser_path)
        return noiser, Ledger.open(ledger_path, noiser)
    noiser = fit(table, releases=2)
    joblib.dump(noiser, noiser_path)
    return noiser, Ledger.create(ledger_path, noiser, datasets=[FIRST])


@contextmanager
def told(what, ledger, dataset):
    """Print what is left after a release, or why there was none."""
    try:
        yield
    except OverspentError as refusal:
        print(textwrap.fill(f"- {what}: REFUSED. {refusal}", 100, subsequent_indent="  "))
    else:
        print(f"- {what}: done; left are {ledger.left(dataset).releases}.")


if __name__ == "__main__":
    main()
