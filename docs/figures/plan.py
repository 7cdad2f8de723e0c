"""Hold what plans say of attacks and tasks against fresh code, on rows that no plan has seen.

    python docs/figures/plan.py            # the picture: one split of some tables
    python docs/figures/plan.py --full     # four splits of each table, as figures

A plan is made of seven tenths of the rows, and its settings release the rest. There random forests
and a regression, written here, attack the worst pair of the first setting's release, and learn the
task from the release of each setting that is not struck out: what the first one loses to the best.
"""

import os
import sys
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from _drawing import DARK, LIGHT, WARM, canvas, write, written
from scipy.special import ndtr
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_puffer import plan

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
FOLDER = Path(os.environ.get("SKLEARN_PUFFER_TABLES", BESIDE))
TABLES = {
    "adult": ("adult.csv", "sex", "income", ["fnlwgt", "education"]),
    "bank": ("bank-full.csv", "marital", "y", []),
    "student": ("student-por.csv", "sex", "G3", ["G1", "G2"]),
}
ROWS = 4_000
DRAWN = 400


def tables():
    """Yield name, rows, sensitive column and task of each table there is."""
    yield "diabetes", load_diabetes(as_frame=True, scaled=False).frame, "sex", "target"
    hearts = sorted(FOLDER.glob("heart-*.csv"))
    if hearts:
        heart = pd.concat([pd.read_csv(each) for each in hearts], ignore_index=True)
        heart["disease"] = heart["num"] > 0
        yield "heart", heart.drop(columns="num"), "sex", "disease"
    for name, (file, sensitive, task, left) in TABLES.items():
        if (FOLDER / file).is_file():
            yield name, pd.read_csv(FOLDER / file).drop(columns=left), sensitive, task


def compared(table, sensitive, task, seed):
    """Return what a plan says, and what fresh code finds on the other rows."""
    order = np.random.default_rng(seed).permutation(len(table))[:ROWS]
    rows = table.iloc[order].set_axis([f"person {k}" for k in range(len(order))])
    known, rest = rows[: int(0.7 * len(rows))], rows[int(0.7 * len(rows)) :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = plan(known, sensitive, task=task, random_state=seed)
        released = {
            row.setting: found.estimator(k).transform(rest)
            for k, row in enumerate(found.trials)
            if row.verdict == "holds"
        }
    row = found.trials[0]
    fresh, spread = attack(released[row.setting], rest[sensitive], seed)
    tasks = {label: learnt(each, rest, task, seed) for label, each in released.items()}
    return {
        "plan": row.attack,
        "fresh": fresh,
        "plan_error": (row.high - row.low) / 3.92,
        "error": spread,
        "allowed": row.allowed,
        "task": row.task,
        "fresh_task": tasks[row.setting],
        "lost": max(tasks.values()) - tasks[row.setting],
        "lost_at_random": max(tasks.values()) - np.mean(list(tasks.values())),
        "lost_by": {label: max(tasks.values()) - each for label, each in tasks.items()},
    }


def coded(rows):
    """Return words as indicators."""
    return pd.get_dummies(rows).astype(float).fillna(-1.0).to_numpy()


def halves(n_rows, seed):
    order = np.random.default_rng(seed).permutation(n_rows)
    first, second = order[: n_rows // 2], order[n_rows // 2 :]
    return (first, second), (second, first)


def attack(released, secrets, seed):
    """Return the AUC of the worst pair, chosen on a third, judged on another, and its error.

    The error is that of rows drawn anew with their scores (bootstrap).
    """
    rows, secrets = coded(released), secrets.to_numpy()
    labels = [label for label in np.unique(secrets) if (secrets == label).sum() >= 30]
    order = np.random.default_rng(seed).permutation(len(rows))
    learn, choose, judge = np.array_split(order, 3)
    tried = {name: model.fit(rows[learn], secrets[learn]) for name, model in models(seed)}

    def told(name, pair, part):
        part = part[np.isin(secrets[part], pair)]
        said = np.log(tried[name].predict_proba(rows[part]) + 1e-9)
        first, second = (list(tried[name].classes_).index(label) for label in pair)
        return secrets[part] == pair[0], said[:, first] - said[:, second]

    asked = [(name, pair) for name in tried for pair in combinations(labels, 2)]
    best = max(asked, key=lambda each: roc_auc_score(*told(*each, choose)))
    judged, rng = told(*best, judge), np.random.default_rng(seed)
    drawn = [roc_auc_score(*again(rng, judged)) for _ in range(DRAWN)]
    return float(roc_auc_score(*judged)), float(np.std(drawn))


def again(rng, scored):
    truth, told = scored
    parts = [rng.choice(np.flatnonzero(truth == own), (truth == own).sum()) for own in (0, 1)]
    rows = np.concatenate(parts)
    return truth[rows], told[rows]


def models(seed):
    yield "forest", RandomForestClassifier(150, min_samples_leaf=5, random_state=seed)
    yield "regression", make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))


def learnt(released, true, task, seed):
    """Return the score on true rows of a forest that learnt on released ones."""
    every = coded(pd.concat([released, true[released.columns]]))
    noisy, rows = every[: len(true)], every[len(true) :]
    target, scores = true[task].to_numpy(), []
    for test, train in halves(len(rows), seed):
        if target.dtype.kind in "if" and len(np.unique(target)) > 20:
            model = RandomForestRegressor(150, min_samples_leaf=5, random_state=seed)
            scores.append(
                r2_score(target[test], model.fit(noisy[train], target[train]).predict(rows[test]))
            )
            continue
        model = RandomForestClassifier(150, min_samples_leaf=5, random_state=seed)
        chances = model.fit(noisy[train], target[train]).predict_proba(rows[test])
        scores += [
            roc_auc_score(target[test] == label, chance)
            for label, chance in zip(model.classes_, chances.T, strict=True)
            if 0 < (target[test] == label).sum() < len(test)
        ]
    return float(np.mean(scores))


def splits(number):
    """Return a DataFrame of splits of all tables."""
    return pd.DataFrame(
        {"table": name, **compared(table, *asked, seed)}
        for name, table, *asked in tables()
        for seed in range(number)
    )


def summed(plans):
    """Return for each table how often fresh code agrees with plans."""
    plans = plans.assign(
        agrees=(plans["plan"] - plans["fresh"]).abs()
        <= 1.96 * np.hypot(plans["plan_error"], plans["error"]),
        p=1.0 - ndtr((plans["fresh"] - plans["allowed"]) / plans["error"]),
    )
    ranked = plans["p"].sort_values()
    steps = ranked.to_numpy() * (len(ranked) - np.arange(len(ranked)))
    beyond = int(np.cumprod(steps <= 0.01).sum())
    table = plans.groupby("table").agg(
        splits=("plan", "size"),
        plan=("plan", "mean"),
        fresh=("fresh", "mean"),
        allowed=("allowed", "first"),
        agrees=("agrees", "sum"),
        task=("task", "mean"),
        fresh_task=("fresh_task", "mean"),
        lost=("lost", "mean"),
        at_random=("lost_at_random", "mean"),
    )
    return table.round(3), beyond


def fixed(plans):
    """Return what each setting loses to the best where it holds, and what more than the first one.

    The error is that of the mean of the differences, over the splits in which the setting holds.
    """
    lost = pd.DataFrame(list(plans["lost_by"]))
    more = lost.sub(plans["lost"], axis=0)
    columns = {"lost": lost.mean(), "more": more.mean(), "error": more.sem(), "holds": lost.count()}
    return pd.DataFrame(columns).round(3)


def draw(path):
    """Draw one split of each table."""
    found = splits(1)
    figure, (axis,) = canvas(1, height=3.0)
    for place, row in enumerate(found.itertuples()):
        axis.bar(place, row.allowed - 0.5, 0.5, bottom=0.5, color=LIGHT, zorder=0)
        told = (-0.06, row.plan, row.plan_error, DARK), (0.06, row.fresh, row.error, WARM)
        for shift, value, error, colour in told:
            axis.errorbar(place + shift, value, 1.96 * error, fmt="o", color=colour)
    axis.plot([], [], "o", color=DARK, label="the plan")
    axis.plot([], [], "o", color=WARM, label="fresh code, other rows")
    axis.plot([], [], color=LIGHT, linewidth=8, label="allowed at epsilon 1")
    axis.set_xticks(range(len(found)), found["table"])
    axis.set(ylabel="AUC of the best attack", ylim=(0.25, 0.85), xlim=(-0.5, len(found) - 0.5))
    axis.legend(loc="upper center", ncols=3, frameon=False)
    write(figure, path)


if __name__ == "__main__":
    if "--full" in sys.argv:
        found = splits(4)
        told, beyond = summed(found)
        sys.stdout.write(f"{told.to_string()}\n\n{fixed(found).to_string()}\n")
        sys.stdout.write(f"{beyond} splits tell more than is allowed (1 %, Holm)\n")
    else:
        written(draw, "plan")
