"""The page about the papers: what it names exists, and is tested."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import sklearn_puffer
from sklearn_puffer.bounds import Relaxed
from sklearn_puffer.calibration import calibrate
from sklearn_puffer.couplings import optimal_plan
from sklearn_puffer.datasets import table4_contingencies
from sklearn_puffer.notions import Pufferfish

PAGE = Path(__file__).parents[1] / "docs" / "papers.md"
STATUS = ("works", "corrected", "subsumed")


def items():
    """Return the cells of each line: item, what it is, names, test, status."""
    rows = [row for row in PAGE.read_text(encoding="utf-8").splitlines() if row.startswith("| ")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [each for each in cells if each[0] != "item" and set(each[0]) != {"-"}]


def test_every_item_has_a_name_here_a_test_and_a_status():
    assert len(items()) > 70
    for item, what, names, test, status in items():
        assert what
        assert re.fullmatch(r"`\w+`", test), item
        kind, _, reason = status.partition(":")
        assert kind.startswith(STATUS), item
        assert kind.startswith("works") or reason, f"{item}: why"
        for name in re.findall(r"`([\w.]+)`", names):
            module, _, last = name.rpartition(".")
            home = importlib.import_module(f"sklearn_puffer.{module}") if module else sklearn_puffer
            assert last in home.__all__, (item, name)


def test_every_test_that_is_named_exists():
    written = "\n".join(
        path.read_text(encoding="utf-8") for path in PAGE.parents[1].glob("tests/test_*.py")
    )
    defined = set(re.findall(r"^def (test_\w+)", written, re.MULTILINE))
    assert {test.strip("`") for _, _, _, test, _ in items()} <= defined


@pytest.mark.parametrize("title", sorted(table4_contingencies()))
@pytest.mark.parametrize("strategy", ["wasserstein", Relaxed("eq11")])
def test_the_terms_of_figure_1_add_up_to_nothing_too_much_in_every_column(title, strategy):
    pair, notion = table4_contingencies()[title].pair(), Pufferfish(1.0)
    plan = optimal_plan(*pair)
    theta = calibrate([pair], notion, strategy=strategy).scale
    moved = np.abs(plan.x - plan.y)
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = np.where(moved > 0.0, np.exp(moved / theta), 1.0)
    terms = (grown - np.e) * plan.probability  # I(x, x'; theta)
    sums = [[terms[side == value].sum() for value in np.unique(side)] for side in (plan.x, plan.y)]
    if strategy == "wasserstein":  # every bar is below 0
        assert terms.max() <= 1e-9
    else:  # some bars are above 0, and no sum of one of the two sides
        assert min(map(max, sums)) <= 1e-9
