"""Do the tests bite? Change one thing in the code, and see whether a test that concerns it fails.

``python tests/mutate.py`` draws some mutants of each module below, by Cosmic Ray and with a seed,
and prints the diffs of those that no test noticed, and then a table. ``python tests/mutate.py
_losses.line --sample 50`` takes more of one module. It works on a copy: the checkout stays as it
is.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB, use_db

CHECKOUT = Path(__file__).parents[1]
PYTEST = f"{sys.executable} -m pytest -q -x -p no:xdist -p no:cacheprovider -m 'not tables'"
TIMEOUT = 300.0  # seconds; a loop without end counts as noticed

# The tests that concern each module, the quickest first: the first that fails ends the run.
LOSSES = "line_pairs quadrature composition exact_losses"
TESTS = {
    "_losses.divergences": f"ends_in_order {LOSSES} boxes category_kernel",
    "_losses.line": f"ends_in_order {LOSSES} mixture_distributions",
    "_losses.quadrature": f"ends_in_order mixture_distributions {LOSSES}",
    "_losses.laplace_pair": f"convolutions ends_in_order {LOSSES} known_values category_kernel",
    "_losses.mixtures": "ends_in_order new_family mixture_distributions exact_losses",
    "_losses.gaussian_mixtures": "ends_in_order mixture_distributions exact_losses",
    "_losses.loss_table": (
        "calibration accounting exact_losses known_values category_kernel progress"
    ),
    "_losses.discrete_distributions": f"{LOSSES} calibration known_values",
    "_losses.convolution": (
        f"convolutions known_values accounting {LOSSES} category_sets category_kernel"
    ),
    "_losses.boxes": "box_bounds boxes weaker_guarantees exact_losses",
    "_losses.pair_losses": (
        "calibration category_kernel known_values exact_losses gaussian_rows weaker_guarantees"
    ),
    "_losses.swap_odds": "swap_flows swap_theorem",
    "_losses.prototype_losses": "prototype_losses least_change",
    "_strategies.transport": "transport float_masses calibration strategies category_kernel",
    "_strategies.coupling_bounds": (
        "guesses calibration bounds category_kernel strategies mixture_bounds known_values"
    ),
    "_strategies.mixture_bounds": "guesses mixture_bounds paper_003 known_values",
    "_sets.worst_case": "confidence category_sets category_kernel known_values robustness evidence",
    "_sets.laminar": "category_lines confidence category_sets category_kernel",
    "calibration": "calibration strategies known_values bounds category_kernel",
    "_microaggregator.program": "settings secret_counts least_change strata microaggregator",
    "_microaggregator.prototypes": (
        "prototype_labels prototypes drawn_rows microaggregation_readers plan"
    ),
    "_microaggregator.coordinates": "prototype_labels prototypes strata microaggregator",
    "_microaggregator.release": "strata microaggregation_calls",
    "_swap.exchange": "swap_flows swap_estimator",
    "_swap.rows": "swap_estimator swap_engines",
    "_swap.release": "swap_estimator swap_engines same_values",
    "_fits": "classifier_priors fits",
    "_certificates.composition": "spending category_kernel ledger releases",
    "_rows.parameters": "settings groups bad_input swap_estimator",
    "_noiser.problem": "settings weighting against groups parts calibration releases",
    "_noiser.scales": "lower_ends weighting robustness calibration settings against guarantee",
    "_noiser.against": "robustness against releases",
    "_noiser.release": "lower_ends lookup estimator keyed drift",
    "_noiser.utility": "utility",
    "_ledgers.ledger": "ledger ledger_faults person_ledger",
    "_release.keyed_rows": "person_ledger keyed ledger_faults lazy_release",
    "_sums.losses": "sums paper_001 queries",
    "_sums.gaussian": "gaussian_pairs queries_gaussian closed_forms users",
    "_descent.guarantee": "descent_losses sgd certified certificate_text",
    "iteration": "iteration sgd",
    "_displacements": "iteration sgd",
    "closed_forms": "closed_forms",
    "_ledgers.persons": "person_ledger ledger_faults",
    "_ledgers.person_ledger": "person_ledger ledger_faults",
    "_ledgers.store": "ledger ledger_faults person_ledger",
    "_noise.keyed": "keyed person_ledger single_draws",
    "_noise.sampler": "sampling samplers single_draws keyed known_values",
    "_noise.shapes": "samplers sampling noise new_family",
    "_noise.table_sampler": "samplers sampling single_draws keyed",
    "_noise.mixing": "integer_rows prototype_losses microaggregation_readers category_kernel",
    "_tables.alike": "same_values times",
    "_tables.frame": "frames missing_and_unknown same_values",
    "_tables.values": "column_values frames missing_and_unknown same_values",
    "_tables.times": "time_units times secret_bins",
    "_codes.columns": "column_codes lookup missing_and_unknown drift binning frames",
    "_codes.selection": (
        "binning column_codes missing_and_unknown secret_bins bad_input groups frames"
    ),
    "_codes.secrets": "merged_secrets secret_bins swap_estimator",
    "_engines.lazy": "lazy_counts engines same_values lazy_release",
    "_release.drift": "drift groups missing_and_unknown frames",
    "_review.exact_tests": "audit audit_readers",
    "_review.measured": "measured plan audit",
    "_review.audit": "audit_words audit report",
}


def main():
    """Mutate every module that is asked for, and print what survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", default=list(TESTS), help="such as _losses.line")
    parser.add_argument("--sample", type=int, default=10, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        ignored = shutil.ignore_patterns(".*", "__pycache__", "build")  # tests read pages, too
        shutil.copytree(CHECKOUT, scratch, ignore=ignored, dirs_exist_ok=True)
        os.chdir(scratch)
        os.environ["PYTHONPATH"] = scratch
        rows = [(name, _outcomes(name, options)) for name in options.modules]
    for name, outcomes in [*rows, ("all", sum((row for _, row in rows), Counter()))]:
        print(f"{name:30}", *(f"{outcomes[key]:4} {key}" for key in KEYS))


KEYS = ("killed", "timeout", "survived", "incompetent")


def _outcomes(name, options):
    path = Path("sklearn_puffer", *name.split(".")).with_suffix(".py")
    command = " ".join([PYTEST, *(f"tests/test_{test}.py" for test in TESTS[name].split())])
    subprocess.run(
        command, shell=True, check=True, stdout=subprocess.DEVNULL
    )  # else all are killed
    outcomes = Counter()
    for place, specs in _drawn(_mutants(path), random.Random(options.seed), options.sample):
        result = mutate_and_test(specs, command, TIMEOUT)
        outcome = "timeout" if result.output == "timeout" else result.test_outcome.value
        outcomes[outcome] += 1
        print(f"{name}:{place[0]}: {outcome}", flush=True)
        if outcome == "survived":
            print(result.diff, flush=True)
    return outcomes


def _mutants(path):
    """Return the mutants of a module by their place, without those that change nothing."""
    Path("mutation.toml").write_text(
        f'[cosmic-ray]\nmodule-path = "{path}"\ntimeout = {TIMEOUT}\ntest-command = ""\n'
        'excluded-modules = []\n[cosmic-ray.distributor]\nname = "local"\n'
    )
    Path("mutation.sqlite").unlink(missing_ok=True)
    subprocess.run(["cosmic-ray", "init", "mutation.toml", "mutation.sqlite"], check=True)
    with use_db("mutation.sqlite", WorkDB.Mode.open) as session:
        items = [item.mutations for item in session.work_items]
    idle = _idle(ast.parse(path.read_text(encoding="utf-8")))
    places = {}
    for specs in sorted(items, key=lambda s: (s[0].operator_name, s[0].occurrence)):
        place = specs[0].start_pos
        if not any(start <= place < end for start, end in idle):
            places.setdefault(place, []).append(specs)
    return places


def _idle(tree):
    """Return where stands what has no effect: annotations, ``strict=True``, and stubs.

    Stubs are methods with a docstring alone, of protocols and abstract classes.
    """
    idle = []
    for node in ast.walk(tree):
        parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        parts += getattr(node, "decorator_list", [])
        if isinstance(node, ast.keyword) and node.arg == "strict":
            parts.append(node.value)
        idle += [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in parts if n]
        if isinstance(node, ast.FunctionDef) and len(node.body) == 1 and ast.get_docstring(node):
            first = min(n.lineno for n in [node, *node.decorator_list])
            idle.append(((first, 0), (node.end_lineno, node.end_col_offset)))
    return idle


def _drawn(places, draw, size):
    """Return one mutant at each of some places, so that no line has them all."""
    chosen = draw.sample(sorted(places), min(size, len(places)))
    return [(place, draw.choice(places[place])) for place in chosen]


if __name__ == "__main__":
    main()
