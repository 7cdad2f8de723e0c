"""Draw what rows are still worth after a release, and what an attacker still learns from them.

    python examples/plot_rows_people_can_use.py [--data FOLDER] [--output FOLDER]
                                                [--budgets EPSILON ...] [--rows N] [--quick]

The diabetes study of scikit-learn (secret: sex; task: whether the disease progresses faster than in
the median patient) needs no download. Where the folder has them, there are Adult (secret: sex, then
race; task: income) and Bank Marketing (secret: marital status; task: whether a deposit is taken).

The rows of a table are cut in two. On one part a boosted classifier learns what can be known of the
secret: that is the adversary. The other part is released; fresh attackers and fresh models of the
task are trained on released rows and tested on other released rows. AUC .5 is a guess. The line is
the highest AUC that a budget allows between two secrets under the adversary's law,
1 - 1 / (1 + e^epsilon); against the true labels of a sample it is a guide and no theorem.

Peers: fairlearn's CorrelationRemover, and randomised response, where a whole row stays or is drawn
anew from all rows.
"""

import argparse
import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from _shared import save, tables_folder
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.fits import ClassifierFit
from sklearn_puffer.noise import OptimalChannel

MARKERS = "os^v<>DPX*ph+x1234"
BINS = 4  # of numbers, where noise is additive, so that whole rows have an exact loss


@dataclass(frozen=True)
class Study:
    """A table, its secret, what is released of it, and a task that is not."""

    name: str
    frame: pd.DataFrame
    secret: str
    public: tuple[str, ...]
    known: str
    task: pd.Series


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=tables_folder(), help="folder of the tables")
    parser.add_argument("--output", type=Path, default=Path(), help="folder for the figure")
    parser.add_argument("--budgets", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--rows", type=int, default=4000, help="most rows that are released")
    parser.add_argument("--quick", action="store_true", help="the table without download alone")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # worthless releases are among what is shown

    results = {}
    for study in studies(arguments.data, arguments.quick):
        table = measured(study, arguments.budgets, arguments.rows)
        results[study.name] = table
        print(f"{study.name}: {', '.join(study.public)}\n\n{table.round(3).to_string()}\n")
    save(arguments.output, [("rows", (12, 4 * len(results)), lambda f: draw(f, results))])


# -------------------------------------------------------------------------------------- the tables


def studies(folder, quick):
    """Yield the study that needs no download, and those whose tables are in the folder."""
    bunch = load_diabetes(as_frame=True, scaled=False)
    sex = bunch.data["sex"].map({1.0: "one", 2.0: "two"})
    slow = bunch.target > bunch.target.median()
    public = ("age", "bmi", "bp", "s3", "s5")
    yield Study("Diabetes, sex", bunch.data.assign(sex=sex), "sex", public, "age", slow)
    if quick or not (folder / "adult.csv").exists():
        return
    adult = pd.read_csv(folder / "adult.csv")
    income = adult["income"] == ">50K"
    public = (
        "age",
        "workclass",
        "education-num",
        "marital-status",
        "occupation",
        "relationship",
        "hours-per-week",
    )
    yield Study("Adult, sex", adult, "sex", public, "age", income)
    yield Study("Adult, race", adult, "race", public[:6], "age", income)
    bank = pd.read_csv(folder / "bank-full.csv")
    public = ("age", "job", "education", "balance", "housing", "loan")
    yield Study("Bank Marketing, marital", bank, "marital", public, "age", bank["y"] == "yes")


def measured(study, budgets, most_rows):
    """Return a table with a row for each release: attack, task and rows unchanged."""
    size = min(most_rows, len(study.frame) // 2)
    others, own = train_test_split(
        study.frame, test_size=size, random_state=0, stratify=study.frame[study.secret]
    )
    own = own.reset_index()
    task = study.task.loc[own.pop("index")].to_numpy()
    secret, rows = own[study.secret], own[list(study.public)]
    found = [facts("no release", math.nan, rows, rows, secret, task)]
    found += [facts(name, math.nan, rows, r, secret, task) for name, r in peers(rows, secret)]
    for epsilon in budgets:
        for name, settings in releases(study, others, epsilon):
            released = released_rows(name, settings, study, own)
            if released is not None:
                found.append(facts(name, epsilon, rows, released, secret, task))
    return pd.DataFrame(found).set_index(["release", "epsilon"])


# ------------------------------------------------------------------------------------ the releases


def releases(study, others, epsilon):
    """Yield the name and the settings of each release of this package."""
    binned = {"epsilon": epsilon, "n_bins": BINS}
    for noise in ("laplace", "cauchy"):
        yield f"{noise} noise", {**binned, "noise": noise}
    yield "gaussian noise, delta 1e-3", {**binned, "noise": "gaussian", "delta": 1e-3}
    yield "laplace noise, remapped", {**binned, "output": "remapped"}
    own = {"epsilon": epsilon, "noise": "optimal"}
    yield "channel, counted law", own
    fitted = boosted().fit(as_model_input(others[list(study.public)]), others[study.secret])
    model = ClassifierFit(fitted, cv="prefit")
    own["prior"] = model
    yield "channel, classifier", own
    yield f"channel, classifier, {study.known} known", {**own, "known": [study.known]}
    yield "channel, balanced", {**own, "noise": OptimalChannel(balance="secrets")}


def released_rows(name, settings, study, own):
    """Return the released rows, or None where a release is refused by name."""
    table = own[[study.secret, *study.public]]
    noiser = PufferfishNoiser(sensitive=study.secret, **settings)
    try:
        return noiser.fit(table).transform(table)
    except ValueError as error:
        print(f"{name}, refused: {error}\n")
        return None


def peers(rows, secret):
    """Yield what other libraries and methods release, none of which promises as much."""
    codes = pd.get_dummies(secret).iloc[:, 1:].to_numpy(float)
    yield "randomised response, 30 % stay", responded(rows, 0.3)
    remover = decorrelated(rows, codes)
    if remover is not None:
        yield "fairlearn CorrelationRemover", remover


def responded(rows, stay):
    """Return rows of which each stays with a chance, and is else drawn from all rows."""
    generator = np.random.default_rng(0)
    drawn = rows.iloc[generator.integers(len(rows), size=len(rows))].reset_index(drop=True)
    kept = pd.Series(generator.random(len(rows)) < stay)
    return rows.where(kept, drawn, axis=0)


def decorrelated(rows, codes):
    """Return the numbers of rows without what a linear model knows of the secret, or None."""
    try:
        from fairlearn.preprocessing import CorrelationRemover
    except ImportError:
        return None
    numbers = rows.apply(lambda c: c if pd.api.types.is_numeric_dtype(c) else pd.factorize(c)[0])
    table = np.column_stack([codes, numbers.to_numpy(float)])
    remover = CorrelationRemover(sensitive_feature_ids=list(range(codes.shape[1])))
    return pd.DataFrame(remover.fit_transform(table), columns=rows.columns)


# ------------------------------------------------------------------------------------ what is left


def facts(name, epsilon, rows, released, secret, task):
    """Return what an attacker and a model make of released rows, and how many are as they were."""
    same = (rows.astype(object) == released.astype(object)).all(axis=1)
    shares = same.groupby(secret.to_numpy()).mean()
    return {
        "release": name,
        "epsilon": epsilon,
        "attack AUC": auc(released, secret),
        "task AUC": auc(released, pd.Series(task)),
        "unchanged": same.mean(),
        "least unchanged secret": shares.min(),
    }


def auc(rows, target):
    """Return the AUC of fresh models, each asked about the released rows it was not fitted to."""
    folds = StratifiedKFold(3, shuffle=True, random_state=1)
    chances = cross_val_predict(
        boosted(), as_model_input(rows), target, cv=folds, method="predict_proba"
    )
    if chances.shape[1] == 2:
        return roc_auc_score(target, chances[:, 1])
    return roc_auc_score(target, chances, multi_class="ovr", average="macro")


def boosted():
    """Return the classifier that plays every attacker, and learns every task."""
    return HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)


def as_model_input(rows):
    """Return rows whose words are categories, of at most 200 kinds, as boosted trees take them."""
    return rows.apply(
        lambda c: c if pd.api.types.is_numeric_dtype(c) else c.astype(str).astype("category")
    )


# ------------------------------------------------------------------------------------- the figure


def draw(figure, results):
    """Draw a row of axes for each table, one for each budget."""
    for line, (name, table) in enumerate(results.items()):
        epsilons = sorted(e for e in table.index.get_level_values("epsilon").unique() if e == e)
        for k, epsilon in enumerate(epsilons):
            axes = figure.add_subplot(len(results), len(epsilons), line * len(epsilons) + k + 1)
            shown = table.xs(epsilon, level="epsilon")
            bare = table[table.index.get_level_values("epsilon").isna()].droplevel("epsilon")
            places = [*bare.iterrows(), *shown.iterrows()]
            for marker, (release, row) in zip(MARKERS, places, strict=False):
                axes.plot(row["task AUC"], row["attack AUC"], marker, ms=8, label=release)
            axes.axhline(1 - 1 / (1 + math.exp(epsilon)), color="0.5", ls="--", lw=1)
            axes.axhline(0.5, color="0.8", lw=1)
            axes.set(
                title=f"{name}, epsilon {epsilon:g}",
                xlabel="AUC of the task (right is better)",
                ylabel="AUC of the attack (low is better)",
            )
            if line == k == 0:
                figure.legend(
                    *axes.get_legend_handles_labels(), loc="outside lower center", ncols=3
                )


if __name__ == "__main__":
    main()
