"""Rows people can use, and what attackers learn
=============================================

Draw what rows are still worth after a release, and what an attacker still learns from them::

    python examples/plot_rows_people_can_use.py [--data FOLDER] [--output FOLDER] [--quick]
                                                [--budgets EPSILON ...] [--rows N]
                                                [--seconds S] [--anjana PYTHON]

The diabetes study of scikit-learn (secret: sex; task: whether the disease progresses faster than in
the median patient) needs no download. Where the folder has them, there are Adult (secret: sex, then
race; task: income) and Bank Marketing (secret: marital status; task: whether a deposit is taken).

The rows of a table are cut in two. On one part a boosted classifier learns what can be known of the
secret: that is the adversary, but where a row says "counted" or "confidence". The other part is
released; fresh attackers and fresh models of the task are trained on released rows and tested on
other released rows. AUC .5 is a guess. The line is the highest AUC that a budget allows between two
secrets, or between one and the others, under the adversary's law, 1 - 1 / (1 + e^epsilon); against
the true labels of a sample it is a guide and no theorem. Above it are attackers who know more than
the adversary did, and releases that promise less. Far below .5 are samples balanced so well that
what is left of a secret in one fold is missing in the others.

Noise is added to numbers in 4 bins, which keeps the grid of whole rows small enough for the exact
loss of Laplace noise; Cauchy and Gaussian noise have one on two numbers, so they get two columns.
Where the reader knows a column, it is in these bins as well. The confidence set takes two columns
in 3 bins: sampling error grows with the cells. A row is unchanged if all its values are as they
were, in these bins. Channels stop where no other is more than 1 % cheaper, or after the time that
--seconds gives: what they change then depends on the machine, what they promise does not.

Peers: fairlearn's CorrelationRemover, which promises nothing; randomised response of each value, an
equal share of epsilon for each column, which promises more; and delta-disclosure privacy with delta
= epsilon (the odds between two secrets move by up to 2 epsilon), where values are generalised and
at most 20 % of the rows are left out, as anjana 1.2.3 does it. anjana asks for numpy 2.0.2 and
pandas 2.3.3: `pip install "sklearn-puffer[plot,anjana]"` in an environment of its own, or name
another interpreter that has it. It looks at the secrets that occur in a class of equal rows, and
not at those that do not: a class of husbands, all of them men, passes.
"""

import argparse
import importlib.util
import io
import math
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from _shared import save, tables_folder
from pandas.api.types import is_numeric_dtype as is_number
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.fits import ClassifierFit
from sklearn_puffer.noise import OptimalChannel

BINS, FEW_BINS = 4, 3
SUPPRESSED = 20  # per cent of the rows that generalisation may leave out
PEERS, NOISES, CHANNELS = "0.35", "#d55e00", "#0072b2"  # colours; within one, the marker tells
LOOKS = {
    "no release": ("*", "black"),
    "fairlearn CorrelationRemover": ("X", PEERS),
    "randomised response of values": ("p", PEERS),
    "delta-disclosure (anjana)": ("h", PEERS),
    "laplace noise": ("o", NOISES),
    "laplace noise, remapped": ("^", NOISES),
    "cauchy noise, 2 columns": ("s", NOISES),
    "gaussian noise, 2 columns": ("D", NOISES),
    "channel, counted law": ("v", CHANNELS),
    "channel, confidence set, 2 columns": ("<", CHANNELS),
    "channel": (">", CHANNELS),
    "channel, one column known": ("P", CHANNELS),
    "channel, balanced": ("d", CHANNELS),
}


@dataclass(frozen=True)
class Study:
    """A table, its secret, what is released of it, and a task that is not."""

    name: str
    frame: pd.DataFrame
    secret: str
    public: tuple[str, ...]
    known: str
    few: tuple[str, ...]
    task: pd.Series


@dataclass(frozen=True)
class Release:
    """A release of this package: what of the table it is about, and the settings of the noiser."""

    name: str
    columns: tuple[str, ...]
    bins: int | None = None
    settings: dict = field(default_factory=dict)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=tables_folder(), help="folder of the tables")
    parser.add_argument("--output", type=Path, default=Path(), help="folder for the figure")
    parser.add_argument("--budgets", type=float, nargs="+", help="by default .5, 1 and 2")
    parser.add_argument("--rows", type=int, default=1000, help="most rows that are released")
    parser.add_argument("--seconds", type=float, default=30.0, help="most time for one channel")
    parser.add_argument("--anjana", default=anjana_here(), help="interpreter that has anjana")
    parser.add_argument("--quick", action="store_true", help="no download, and epsilon 1 alone")
    arguments = parser.parse_args()
    arguments.budgets = arguments.budgets or ([1.0] if arguments.quick else [0.5, 1.0, 2.0])
    warnings.simplefilter("ignore", UserWarning)  # worthless releases are among what is shown

    results = {}
    for study in studies(arguments.data, arguments.quick):
        table = measured(study, arguments)
        results[study.name] = table
        print(f"{study.name}: {', '.join(study.public)}\n\n{table.round(3).to_string()}\n")
    if arguments.anjana is None:
        print("Left out: delta-disclosure; see --anjana and the first lines of this example.")
    save(arguments.output, [("rows", (14, 3.6 * len(results) + 1.4), lambda f: draw(f, results))])


def anjana_here():
    """Return this interpreter, if it has anjana."""
    found = importlib.util.find_spec("anjana")
    return sys.executable if found is not None and found.origin else None


# -------------------------------------------------------------------------------------- the tables


def studies(folder, quick):
    """Yield the study that needs no download, and those whose tables are in the folder."""
    bunch = load_diabetes(as_frame=True, scaled=False)
    sex = bunch.data["sex"].map({1.0: "one", 2.0: "two"})
    slow = bunch.target > bunch.target.median()
    public = ("age", "bmi", "bp", "s3", "s5")
    patients = bunch.data.assign(sex=sex)
    yield Study("Diabetes, sex", patients, "sex", public, "age", ("bmi", "s5"), slow)
    if quick:
        return
    for name, read in {"adult": adult_studies, "bank-full": bank_studies}.items():
        path = folder / f"{name}.csv"
        if path.exists():
            yield from read(pd.read_csv(path))
        else:
            print(f"Skipped {name}: {path.name} is not in {folder}.\n")


def adult_studies(adult):
    """Yield the two secrets of Adult; the first columns that say what people are."""
    income = adult["income"] == ">50K"
    words = ("marital-status", "occupation", "relationship")
    public = ("age", "workclass", "education-num", *words)
    few = ("age", "education-num")
    yield Study("Adult, sex", adult, "sex", public, "age", few, income)
    yield Study("Adult, race", adult, "race", public, "age", few, income)


def bank_studies(bank):
    """Yield the study of Bank Marketing."""
    public = ("age", "job", "education", "balance", "housing", "loan")
    deposit = bank["y"] == "yes"
    yield Study("Bank, marital", bank, "marital", public, "housing", ("age", "balance"), deposit)


def cut(study, most_rows):
    """Return rows to learn from, and rows to release, which are others."""
    size = min(most_rows, len(study.frame) // 2)
    secret = study.frame[study.secret]
    return train_test_split(study.frame, test_size=size, random_state=0, stratify=secret)


def binned(table, columns, bins):
    """Return columns of a table, numbers as the medians of bins of about as many rows each."""
    chosen = table[list(columns)]
    if bins is None:
        return chosen
    return chosen.apply(lambda c: binned_values(c, bins) if is_number(c) else c)


def binned_values(numbers, bins):
    """Return the median of each number's bin."""
    places = pd.qcut(numbers, bins, duplicates="drop")
    return numbers.groupby(places, observed=True).transform("median")


def measured(study, arguments):
    """Return a table with a row for each release: attack, task and rows unchanged."""
    others, own = cut(study, arguments.rows)
    task, own = study.task.loc[own.index].to_numpy(), own.reset_index(drop=True)
    secret, rows = own[study.secret], own[list(study.public)]

    def told(name, epsilon, before, after):
        return {"release": name, "epsilon": epsilon} | facts(before, after, secret, task)

    found = [told("no release", math.nan, rows, rows)]
    remover = decorrelated(rows, secret)
    if remover is not None:
        found.append(told("fairlearn CorrelationRemover", math.nan, rows, remover))
    models = adversaries(others, study)
    for epsilon in arguments.budgets:
        for name, released in peers(rows, secret, epsilon, arguments.anjana):
            found.append(told(name, epsilon, rows, released))
        for release in releases(study, models, arguments.seconds):
            before = binned(own, release.columns, release.bins)
            after = released_rows(release, epsilon, before, secret)
            if after is not None:
                found.append(told(release.name, epsilon, before, after))
    return pd.DataFrame(found).set_index(["release", "epsilon"])


# ------------------------------------------------------------------------------------ the releases


def adversaries(others, study):
    """Return the priors of those who learnt from other rows: of all columns, in bins, of few."""
    cases = {"all": (study.public, None), "binned": (study.public, BINS), "few": (study.few, BINS)}
    secret = others[study.secret]
    rows = {case: as_model_input(binned(others, *what)) for case, what in cases.items()}
    fitted = {case: boosted().fit(known, secret) for case, known in rows.items()}
    return {case: {"prior": ClassifierFit(model, cv="prefit")} for case, model in fitted.items()}


def releases(study, models, seconds):
    """Return the releases of this package."""
    solver, whole, few = {"gap": 0.01, "time_limit": seconds}, study.public, study.few
    channel = {"noise": OptimalChannel(**solver)}
    balanced = {"noise": OptimalChannel(balance="secrets", **solver)}
    cauchy, gaussian = {"noise": "cauchy"}, {"noise": "gaussian", "delta": 1e-3}
    remapped, confident = {"output": "remapped"}, {"adversaries": "confidence"}
    known = {"known": [study.known]}
    return [
        Release("laplace noise", whole, BINS, models["binned"]),
        Release("laplace noise, remapped", whole, BINS, models["binned"] | remapped),
        Release("cauchy noise, 2 columns", few, BINS, models["few"] | cauchy),
        Release("gaussian noise, 2 columns", few, BINS, models["few"] | gaussian),
        Release("channel, counted law", whole, None, channel),
        Release("channel, confidence set, 2 columns", few, FEW_BINS, channel | confident),
        Release("channel", whole, None, models["all"] | channel),
        Release("channel, one column known", whole, BINS, models["binned"] | channel | known),
        Release("channel, balanced", whole, None, models["all"] | balanced),
    ]


def released_rows(release, epsilon, rows, secret):
    """Return the released rows, or None where a release is refused by name."""
    noiser = PufferfishNoiser(epsilon=epsilon, **release.settings)
    try:
        return noiser.fit(rows, sensitive_features=secret).transform(rows)
    except (ValueError, NotImplementedError) as error:
        print(f"{release.name}, epsilon {epsilon:g}, refused: {error}\n")
        return None


# --------------------------------------------------------------------------------------- the peers


def peers(rows, secret, epsilon, anjana):
    """Yield what other methods release at a budget."""
    yield "randomised response of values", responded(rows, epsilon / rows.shape[1])
    if anjana is not None:
        yield "delta-disclosure (anjana)", disclosed(rows, secret, epsilon, anjana)


def responded(rows, epsilon):
    """Return rows of which every value is kept with odds of at most e^epsilon to any other."""
    generator = np.random.default_rng(0)
    return rows.apply(responded_values, epsilon=epsilon, generator=generator)


def responded_values(column, epsilon, generator):
    """Return a column of which a value is kept with some chance, and else any value is taken."""
    values = column.unique()
    kept = math.expm1(epsilon) / (math.expm1(epsilon) + len(values))
    drawn = pd.Series(generator.choice(values, len(column)), index=column.index)
    return column.where(generator.random(len(column)) < kept, drawn)


def disclosed(rows, secret, delta, anjana):
    """Return the generalised rows that are left under delta-disclosure privacy."""
    program = str(Path(__file__).with_name("_delta_disclosure.py"))
    command = [anjana, program, "secret", str(delta), str(SUPPRESSED)]
    table = rows.assign(secret=secret).to_csv()
    done = subprocess.run(command, input=table, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"delta-disclosure by {anjana} failed: {done.stderr}")
    return pd.read_csv(io.StringIO(done.stdout), index_col=0, keep_default_na=False)


def decorrelated(rows, secret):
    """Return the numbers of rows without what a linear model knows of the secret, or None."""
    try:
        from fairlearn.preprocessing import CorrelationRemover
    except ImportError:
        print('No CorrelationRemover: fairlearn is not installed (pip install "fairlearn").\n')
        return None
    codes = pd.get_dummies(secret).iloc[:, 1:].to_numpy(float)
    numbers = rows.apply(lambda c: c if is_number(c) else pd.factorize(c)[0])
    table = np.column_stack([codes, numbers.to_numpy(float)])
    remover = CorrelationRemover(sensitive_feature_ids=list(range(codes.shape[1])))
    return pd.DataFrame(remover.fit_transform(table), columns=rows.columns)


# ------------------------------------------------------------------------------------ what is left


def facts(before, after, secret, task):
    """Return what an attacker and a model make of released rows, and how many are as they were."""
    left = after.index  # generalisation leaves rows out
    same = (before.loc[left].astype(object) == after.astype(object)).all(axis=1)
    same = same.reindex(before.index, fill_value=False)
    shares = same.groupby(secret.to_numpy()).mean()
    return {
        "attack AUC": auc(after, secret.loc[left]),
        "task AUC": auc(after, pd.Series(task).loc[left]),
        "unchanged": same.mean(),
    } | {f"of {name}": share for name, share in shares.items()}


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
    return HistGradientBoostingClassifier(
        max_iter=50, categorical_features="from_dtype", random_state=0
    )


def as_model_input(rows):
    """Return rows whose words are categories, as boosted trees take them."""
    return rows.apply(lambda c: c if is_number(c) else c.astype(str).astype("category"))


# ------------------------------------------------------------------------------------- the figure


def draw(figure, results):
    """Draw a row of axes for each table, one for each budget."""
    epsilons = sorted({e for table in results.values() for _, e in table.index if e == e})
    grid = figure.subplots(len(results), len(epsilons), squeeze=False, sharey="row", sharex="row")
    for line, (name, table) in zip(grid, results.items(), strict=True):
        for axes, epsilon in zip(line, epsilons, strict=True):
            draw_budget(axes, table, epsilon)
            axes.set_title(f"{name}, epsilon {epsilon:g}", fontsize=10)
        line[0].set_ylabel("AUC of the attack\n(lower: less is learnt)")
    for axes in grid[-1]:
        axes.set_xlabel("AUC of the task (further right: worth more)")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)


def draw_budget(axes, table, epsilon):
    """Draw what is released at a budget, what has none, and the most that the budget allows."""
    budgets = table.index.get_level_values("epsilon")
    shown = table[(budgets == epsilon) | budgets.isna()].droplevel("epsilon")
    for name, (marker, colour) in LOOKS.items():
        row = shown.loc[name] if name in shown.index else {"task AUC": [], "attack AUC": []}
        hollow = {"markerfacecolor": "none", "markeredgewidth": 1.6}  # which tells without colour
        filled = {"markeredgecolor": "white", "markeredgewidth": 0.6}
        style = {"ms": 9, "label": name, "color": colour}
        style |= hollow if colour == CHANNELS else filled
        axes.plot(row["task AUC"], row["attack AUC"], marker, **style)
    limit = 1 - 1 / (1 + math.exp(epsilon))
    axes.axhline(
        limit, color="black", ls="--", lw=1, label="most the budget allows, under the prior"
    )
    axes.axhline(0.5, color="0.6", ls=":", lw=1, label="a guess")
    axes.axvline(0.5, color="0.6", ls=":", lw=1)


if __name__ == "__main__":
    main()
