"""A release beside other ways
===========================

Attack a release, and what other ways make of the same rows, and draw attack against utility::

    python examples/peers_of_a_release.py [--output FOLDER] [--anonymeter PYTHON]

Made-up patients: sex is protected, and the rows are used to learn who gets worse. Laplace noise is
audited beside randomised response and fairlearn's CorrelationRemover
(`pip install "sklearn-puffer[plot,peers]"`). The same attackers learn from each, on the same rows;
only the first promises what stands in the column "allowed". Without what is linear in the secret,
whole numbers lie on one lattice for each secret: a tree tells them apart.

anonymeter asks for numpy before 1.27, and so for an environment of its own: --anonymeter names its
interpreter. Its attacks ask whether *persons* are found again in what is released, not what is
learnt of a secret, and they compare with rows that were not released: another question, for which
there is no promise here, and which is asked of the noisy rows, and of the rows as they are.
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
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from sklearn_puffer import PufferfishNoiser, TradeoffDisplay, audit

PUBLIC = ["muscle", "salt", "decade"]
FEW = 400  # rows that anonymeter attacks
PEERS = ["randomised response", "correlation remover"]
ATTACKERS = {"linear": LogisticRegression(), "tree": DecisionTreeClassifier(min_samples_leaf=20)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder for the figure")
    parser.add_argument("--anonymeter", help="interpreter of an environment that has anonymeter")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)

    fitted, held = people()
    noiser = fit(fitted)
    audits = {"noise": audit(noiser, held, ATTACKERS, task="worse", peers=PEERS)}
    found = pd.DataFrame(lines(audits)).round(3)
    print(found.to_string(index=False, na_rep="none"))
    draw = TradeoffDisplay.from_audits
    save(arguments.output, [("tradeoff", (7, 5), lambda f: draw(audits, ax=f.subplots()))])
    if arguments.anonymeter:
        few, others = held[:FEW], fitted[:FEW]
        for name, rows in {"noise": noiser.transform(few), "no release": few}.items():
            print(f"\nanonymeter, {name}:")
            print(risks(arguments.anonymeter, few, rows[PUBLIC], others).to_string(index=False))


def people(n=2_000):
    """Return made-up patients to fit to, and as many that are released."""
    bits = np.random.default_rng(0)
    sex = bits.random(2 * n) < 0.5
    muscle = np.round(bits.normal(10 + 3 * sex, 2.0))
    salt = np.round(bits.normal(6 + sex, 1.5))
    decade = bits.integers(2, 9, 2 * n)
    worse = bits.normal(0.8 * decade + salt - 0.3 * muscle, 1.0) > 7.0
    words = np.where(sex, "one", "two")
    table = {"sex": words, "muscle": muscle, "salt": salt, "decade": decade, "worse": worse}
    rows = pd.DataFrame(table)
    return rows[:n], rows[n:].reset_index(drop=True)


def fit(rows):
    """Return Laplace noise whose values are mapped to those of the column."""
    settings = {"public": PUBLIC, "n_bins": 6, "output": "remapped"}
    return PufferfishNoiser(1.0, sensitive="sex", **settings).fit(rows)


def lines(audits):
    """Yield for each way the attack that reached most, and what the rows are good for."""
    for name, found in audits.items():
        yield line(name, found.attacks, found.survived)
        for peer in found.peers:
            yield {**line(f"{peer.name} (peer)", peer.attacks, peer.survived), "allowed": None}


def line(way, attacks, survived):
    best = max(attacks, key=lambda attack: attack.advantage)
    score = next(figure.after for figure in survived if figure.what.startswith("AUC"))
    ends = f"{best.advantage_low:.2f} to {best.advantage_high:.2f}"
    reached = {"advantage": best.advantage, "interval": ends, "allowed": best.advantage_allowed}
    return {"way": way, "AUC of task": score, "attacker": best.attacker, **reached}


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
