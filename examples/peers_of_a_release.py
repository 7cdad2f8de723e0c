"""A release beside other ways
===========================

Attack a release and other treatments of the same rows, and draw attack against utility::

    python examples/peers_of_a_release.py [--output FOLDER] [--anonymeter PYTHON]

Made-up patients: sex is protected, and the rows are used to learn who gets worse. Laplace noise is
shown beside typical rows, a swap of whole rows, and other methods
(`pip install "sklearn-puffer[plot]" fairlearn`):

- *random swapping*, in pairs of people of the same decade, as sdcMicro's recordSwap draws donors
  who agree in some columns: as many rows change hands as in the swap;
- *randomised response*: each value stays, or becomes any other of its column, with epsilon split
  over the columns;
- the *correlation remover* of fairlearn, which removes what is linear in the secret;
- *repair by optimal transport*: within each sex the values of each column are moved to those of the
  same rank in the barycentre of both sexes (M. Feldman et al., 2015; P. Gordaliza et al., 2019).

The same three models learn the secret from half of each, and are judged on the other half. Noise,
typical rows and the swap guarantee the column "allowed"; randomised response guarantees more. The
correlation remover leaves whole numbers on one lattice for each secret, which trees tell apart. A
repair of single columns leaves what two of them tell together.

anonymeter needs numpy before 1.27, and so another environment: --anonymeter names its interpreter.
Its attacks look for *persons* in the released rows, and compare with rows that were not released.
Nothing here guarantees against that. They attack the noisy rows, and the rows as they are.
"""

import argparse
import io
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _shared import save
from fairlearn.preprocessing import CorrelationRemover
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_puffer import PufferfishMicroaggregator, PufferfishNoiser, PufferfishSwap

PUBLIC = ["muscle", "salt", "decade"]
EPSILON = 1.0
FEW = 400  # rows that anonymeter attacks
OURS = ("noise", "swap", "typical rows")
MODELS = [
    HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15),
    make_pipeline(StandardScaler(), KNeighborsClassifier(25)),
    make_pipeline(StandardScaler(), LogisticRegression()),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder for the figure")
    parser.add_argument("--anonymeter", help="interpreter of an environment that has anonymeter")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)

    fitted, held = people()
    settings = {"epsilon": EPSILON, "sensitive": "sex", "public": PUBLIC}
    noiser = PufferfishNoiser(**settings, unknown="nearest", n_bins=6).fit(fitted)
    noise, own = noiser.transform(held), ours(settings, fitted, held)
    others = {**own, **peers(held, moved=1.0 - stayed(held, own["swap"]))}
    allowed = noiser.certificate_.notion.best_guess()  # the largest area that is left
    ways = {"as they are": held[PUBLIC], "noise": noise, **others}
    found = pd.DataFrame([line(way, rows, held, allowed) for way, rows in ways.items()])
    print(found.to_string(index=False))
    save(arguments.output, [("tradeoff", (7, 5), lambda f: draw(found, allowed, f.subplots()))])
    if arguments.anonymeter:
        few, apart = held[:FEW], fitted[:FEW]
        for name, rows in {"noise": noise[:FEW], "no release": few}.items():
            print(f"\nanonymeter, {name}:")
            print(risks(arguments.anonymeter, few, rows[PUBLIC], apart).to_string(index=False))


def people(n=5_000):
    """Return made-up patients to fit to, and as many that are released."""
    bits = np.random.default_rng(0)
    sex = bits.random(2 * n) < 0.5
    decade = bits.integers(2, 9, 2 * n)
    muscle = np.round(bits.normal(10 + 3 * sex - 0.8 * sex * (decade - 5), 2.0))
    salt = np.round(bits.normal(6 + sex, 1.5))
    worse = bits.normal(0.8 * decade + salt - 0.3 * muscle, 1.0) > 7.0
    words = np.where(sex, "one", "two")
    table = {"sex": words, "muscle": muscle, "salt": salt, "decade": decade, "worse": worse}
    rows = pd.DataFrame(table)
    return rows[:n], rows[n:].reset_index(drop=True)


def ours(settings, rows, held):
    """Return the rows that are held out as typical rows, and with other owners."""
    typical = PufferfishMicroaggregator(**settings).fit(rows)
    return {
        "swap": PufferfishSwap(**settings).fit_transform(held)[PUBLIC],
        "typical rows": typical.transform(held)[PUBLIC],
    }


# ------------------------------------------------------------------------------------- other ways


def peers(table, moved):
    """Return the public columns of a table as other ways release them."""
    bits = np.random.default_rng(1)
    rows, secret = table[PUBLIC], (table["sex"] == "one").astype(int)
    remover = CorrelationRemover(sensitive_feature_ids=["sex"])
    plain = remover.fit_transform(rows.assign(sex=secret))
    return {
        "random swapping": swapped_at_random(rows, moved, "decade", bits),
        "randomised response": responded(rows, EPSILON / len(PUBLIC), bits),
        "correlation remover": pd.DataFrame(plain, columns=PUBLIC),
        "repair by transport": repaired(rows, secret, bits),
    }


def swapped_at_random(rows, moved, alike, bits):
    """Return rows of which so many change hands, in pairs that agree in a column."""
    owners = np.arange(len(rows))
    for _, same in rows.groupby(alike):
        pairs = round(moved * len(same) / 2)
        first, second = bits.permutation(same.index)[: 2 * pairs].reshape(2, pairs)
        owners[first], owners[second] = second, first
    return rows.iloc[owners].reset_index(drop=True)


def responded(rows, epsilon, bits):
    """Return each value as it is, or any other one: a column tells epsilon at most."""
    found = rows.copy()
    for name in found:
        values, at = np.unique(found[name], return_inverse=True)
        keeps = bits.random(len(at)) < np.exp(epsilon) / (np.exp(epsilon) + len(values) - 1)
        other = (at + bits.integers(1, len(values), len(at))) % len(values)
        found[name] = values[np.where(keeps, at, other)]
    return found


def repaired(rows, secret, bits):
    """Return each column with the distribution of both secrets' barycentre, whichever a row has."""
    found = rows.astype(float)
    parts = [np.flatnonzero(secret == own) for own in (0, 1)]
    for name in found:
        values = rows[name].to_numpy()
        for part in parts:
            order = np.lexsort([bits.random(len(part)), values[part]])  # ties by lot
            places = (np.argsort(order) + 0.5) / len(part)
            distributions = [
                np.quantile(values[own], places, method="inverted_cdf") for own in parts
            ]
            weights = [len(own) / len(rows) for own in parts]
            found.loc[part, name] = np.average(distributions, axis=0, weights=weights)
    return found


# ----------------------------------------------------------------------------------------- figures


def stayed(table, released):
    return (table[PUBLIC] == released).all(axis=1).mean()


def line(way, rows, table, allowed):
    change = ((rows - table[PUBLIC]).abs().mean() / table[PUBLIC].std()).mean()
    return {
        "way": way,
        "rows that stay": f"{stayed(table, rows):.0%}",
        "change (sd)": f"{change:.2f}",
        "attack (AUC)": f"{max(told(model, rows, rows, table['sex']) for model in MODELS):.2f}",
        "allowed": f"{allowed:.2f}" if way in OURS else "none",
        "task (AUC)": f"{told(MODELS[0], rows, table[PUBLIC], table['worse']):.2f}",
    }


def told(model, learnt, judged, target):
    """Return the area under the ROC curve of a model that learnt from the first half of rows."""
    half, last = len(target) // 2, target.max()
    scores = model.fit(learnt[:half], target[:half]).predict_proba(judged[half:])[:, 1]
    return roc_auc_score(target[half:] == last, scores)


def draw(found, allowed, ax):
    """Draw attack against task: better releases are to the right and below."""
    for way, *_, attack, _, score in found.itertuples(index=False):
        ax.plot(float(score), float(attack), "o" if way in OURS else "^", label=way)
    ax.axhline(allowed, color="0.4", linestyle="--", label="allowed at most")
    ax.set(xlabel="task: area under the ROC curve", ylabel="attack: area under the ROC curve")
    ax.legend(fontsize="small")


def risks(python, rows, released, others):
    """Return what anonymeter finds in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        tables = {"rows": rows, "released": released.assign(sex=rows["sex"]), "others": others}
        paths = [Path(folder) / f"{name}.csv" for name in tables]
        for path, table in zip(paths, tables.values(), strict=True):
            table.drop(columns="worse", errors="ignore").to_csv(path, index=False)
        program = Path(__file__).with_name("_anonymeter.py")
        command = [python, str(program), *map(str, paths), "sex"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return pd.read_csv(io.StringIO(done.stdout)).round(3)


if __name__ == "__main__":
    main()
