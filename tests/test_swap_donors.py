"""Rows that a swap releases one by one: what is given, and what is never done twice."""

import copy
import io
import os
import pickle
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import cache
from itertools import product

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom, chisquare
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from small_trees import SMALL_TREES
from swap_tree import outcomes
from test_swap_noiser import people

from sklearn_puffer import OverspentError, PufferfishNoiser, UtilityWarning, audit, report
from sklearn_puffer._noise import Choices, system_entropy
from sklearn_puffer._swaps import Pool, UsedUpError, exchange, most_rows
from sklearn_puffer.noise import RecordSwap

pytestmark = [
    pytest.mark.filterwarnings("ignore:within the .* cells a fresh model still finds"),
    pytest.mark.filterwarnings("ignore:random_state=.* is for tests only"),
]

# ------------------------------------------------------------------- the distribution, by
# enumeration

# two contents a cell, cell 2 is thin and counts with cell 1; what a cell's rows hold, and how often
LAWS = {
    0: {0: Fraction(1, 3), 3: Fraction(2, 3)},
    1: {1: Fraction(1, 2), 5: Fraction(1, 2)},
    2: {2: Fraction(1, 4), 4: Fraction(3, 4)},
}
HOMES, CELLS = np.array([0, 1, 1]), np.array([0, 1])
FLOWS = np.array([[3, 1], [2, 2]])


def released_one_by_one(cells, kind=Pool, n_senders=1, n_donors=2):
    """Return the chances of what is released for people of some cells, as fractions.

    Rows of people and of the reserve are drawn from the distributions of their cells,
    independently.
    """
    n = len(cells)
    at = [*cells, *(c for c in LAWS for _ in range(n_senders)), *(c for c in (0, 1) * n_donors)]
    places = list(range(n, len(at)))
    sends = [[places.pop(0) for _ in range(n_senders)] for _ in LAWS]
    gives = [places[::2], places[1::2]]
    needed = {*cells}
    distribution = defaultdict(Fraction)
    # contents that nobody looks at may be anything
    options = [list(LAWS[c].items()) for c in at]
    unused = {p for c in LAWS if c not in needed for p in sends[c]}
    options = [own[:1] if p in unused else own for p, own in enumerate(options)]
    for drawn in product(*options):
        contents = np.array([content for content, _ in drawn])
        chance = np.prod([p for k, (_, p) in enumerate(drawn) if k not in unused])

        def run(draws, contents=contents):
            pool = kind(HOMES, CELLS, FLOWS, [[*own] for own in sends], [[*own] for own in gives])
            held = []
            for row, cell in enumerate(cells):
                got = pool.released(
                    row, cell, lambda a, b: abs(contents[a][:, None] - contents[b]), draws
                )
                held.append(int(contents[row if got is None else got]))
            return tuple(held)

        for share, held in outcomes(run):
            distribution[held] += chance * share
    return dict(distribution)


def promised(cells):
    """Return the distribution that the certificate takes: a cell by K, and a row of that cell."""
    distribution = defaultdict(Fraction)
    for to in product([0, 1], repeat=len(cells)):
        chance = np.prod(
            [
                Fraction(int(FLOWS[HOMES[a], b]), int(FLOWS[HOMES[a]].sum()))
                for a, b in zip(cells, to, strict=True)
            ]
        )
        for drawn in product(*(LAWS[b].items() for b in to)):
            held = tuple(content for content, _ in drawn)
            distribution[held] += chance * np.prod([p for _, p in drawn])
    return {held: p for held, p in distribution.items() if p}


class SendersAgain(Pool):
    """Senders are not used up."""

    def _match(self, row, cell, *about):
        senders = list(self.senders[cell])
        found = super()._match(row, cell, *about)
        self.senders[cell] = senders
        return found


class DonorsAgain(Pool):
    """A donor is given again."""

    def _match(self, row, cell, to, *about):
        donors = list(self.donors[to])
        found = super()._match(row, cell, to, *about)
        self.donors[to] = donors
        return found


class Nearest(Pool):
    """A row takes the donor that is nearest, without any senders."""

    def _match(self, row, cell, to, costs, draws):
        donors = self.donors[to]
        found = donors[int(costs(np.array([row]), np.array(donors))[0].argmin())]
        donors.remove(found)
        return found


class ThinStay(Pool):
    """A row of a cell without donors stays where it would go to the cell that it counts with."""

    def released(self, row, cell, costs, draws):
        own = set(self.donors[self.homes[cell]])
        found = super().released(row, cell, costs, draws)
        return None if cell == 2 and found in own else found


@pytest.mark.parametrize("cells", [(0,), (1,), (2,), (0, 0), (0, 1), (2, 0), (2, 2)])
def test_what_is_released_is_a_row_of_the_cell_that_was_drawn_whatever_the_own_row_was(
    monkeypatch, cells
):
    monkeypatch.setattr(exchange, "MATCHED", 2)
    assert released_one_by_one(cells) == promised(cells)


@pytest.mark.slow
@pytest.mark.parametrize("cells", [(0,), (2,)])
def test_more_senders_and_donors_change_nothing(cells):
    assert released_one_by_one(cells, n_senders=2, n_donors=3) == promised(cells)


@pytest.mark.parametrize(
    ("broken", "cells", "n_donors"),
    [
        pytest.param(SendersAgain, (0, 0), 3, marks=pytest.mark.slow),
        (DonorsAgain, (0, 0), 2),
        (Nearest, (0,), 2),
        (ThinStay, (2,), 2),
    ],
)
def test_broken_variants_fail_the_comparison(monkeypatch, broken, cells, n_donors):
    monkeypatch.setattr(exchange, "MATCHED", 2)
    found = released_one_by_one(cells, kind=broken, n_donors=n_donors)
    assert sum(found.values()) == 1
    assert found != promised(cells)


def pool_of(flows, senders, donors):
    """Return a pool of two cells, of which the first sends and the second gives."""
    return Pool(np.array([0, 1]), np.array([0, 1]), np.array(flows), [senders, []], [[], donors])


def between(own, others):
    return abs(own[:, None] - others)


def test_a_sender_is_used_up_and_a_donor_is_given_once():
    pool = pool_of([[0, 4], [4, 0]], list(range(10, 13)), list(range(20, 29)))
    choices = Choices(system_entropy())
    given = [pool.released(0, 0, between, choices) for _ in range(9)]
    assert sorted(given) == list(range(20, 29))
    assert pool.senders == [[], []]
    with pytest.raises(UsedUpError):
        pool.released(0, 0, between, choices)


def test_the_real_sampler_draws_cells_by_flows_and_donors_alike_for_rows_that_are_like_senders():
    choices, rng, drawn = Choices(system_entropy()), np.random.default_rng(0), Counter()
    for _ in range(3000):
        senders = rng.permutation(4)  # the row itself is any of them, as likely
        pool = pool_of([[5, 3], [3, 5]], senders[1:].tolist(), [1, 6, 7, 8, 9])
        drawn[pool.released(senders[0], 0, between, choices)] += 1
    assert chisquare([drawn[None], 3000 - drawn[None]], [1875, 1125]).pvalue > 1e-6
    assert chisquare([drawn[donor] for donor in (1, 6, 7, 8, 9)]).pvalue > 1e-6


@pytest.mark.parametrize(
    ("rates", "donors", "chance"), [([0.5], [1], 0.25), ([0.1, 0.3], [3, 9], 1e-3)]
)
def test_the_limit_is_the_largest_that_keeps_the_chance(rates, donors, chance):
    n = most_rows(np.array(rates), np.array(donors), chance)

    def runs_out(n):
        pairs = zip(rates, donors, strict=True)
        return sum(1 - sum(binom.pmf(k, n, r) for k in range(d + 1)) for r, d in pairs)

    assert runs_out(n) <= chance + 1e-12 < runs_out(n + 1)


# ------------------------------------------------------------------------------ the noiser


def noiser(donors=0.4, cells=4, **options):
    noise = RecordSwap(cells=cells, donors=donors)
    asked = {"epsilon": 1.0, "sensitive": "ill", "noise": noise, "prior": SMALL_TREES}
    return PufferfishNoiser(**asked | options)


TABLE, NEW = people(3000), people(200, seed=1).drop(columns="ill")


@cache
def fitted():
    return noiser(prior="empirical").fit(TABLE)  # by the default classifier


def tuples(table):
    return set(table.itertuples(index=False, name=None))


@pytest.mark.slow
def test_a_row_comes_out_as_it_is_or_as_a_row_of_the_reserve_which_is_given_once():
    own = noiser().fit(TABLE)
    before = own.donors_left_
    parts = [own.transform(NEW.iloc[k : k + 5]) for k in range(0, len(NEW), 5)]
    released = pd.concat(parts)
    assert released.index.equals(NEW.index)
    assert (released.dtypes == NEW.dtypes).all()
    moved = (released != NEW).any(axis=1)
    assert 0 < moved.sum() < len(NEW) / 2
    assert tuples(released[moved]) <= tuples(TABLE.drop(columns="ill"))
    assert len(tuples(released[moved])) == moved.sum()
    after = own.donors_left_
    assert before["donors"].sum() - after["donors"].sum() == moved.sum()
    assert before["senders"].sum() - after["senders"].sum() == 3 * moved.sum()
    assert (before["rows_left"] - after["rows_left"] == len(NEW)).all()


@pytest.mark.parametrize(
    "convert",
    [
        pl.from_pandas,
        lambda own: (
            own[["age", "pay", "ill"]]
            .replace({"ill": {"no": 0.0, "yes": 1.0}})
            .to_numpy(dtype=float)
        ),
    ],
)
def test_other_tables_are_released_in_their_own_type(convert):
    sensitive = "ill" if convert is pl.from_pandas else 2
    own = noiser(sensitive=sensitive).fit(convert(TABLE))
    new = convert(people(200, seed=2))
    released = own.transform(new)
    assert type(released) is type(new)
    public = new.drop("ill").rows() if isinstance(new, pl.DataFrame) else new[:, :2].tolist()
    held = released.rows() if isinstance(new, pl.DataFrame) else released.tolist()
    assert 0 < sum(a != b for a, b in zip(public, held, strict=True)) < 100


def test_refusal_depends_on_the_number_of_rows_alone():
    own = noiser().fit(TABLE)
    most = own.certificate_.reserve.rows[0]
    many = pd.concat([NEW] * (most // len(NEW) + 1), ignore_index=True)
    before = own.donors_left_
    with pytest.raises(OverspentError, match=f"for {most} rows"):
        own.transform(many[: most + 1])
    assert own.donors_left_.equals(before)
    own.transform(many[:most])
    with pytest.raises(OverspentError, match="1 more"):
        own.transform(NEW[:1])


def test_the_certificate_is_that_of_counts_and_flows_and_names_who_is_not_covered():
    swap, certificate = fitted().swap_, fitted().certificate_
    distributions = (swap.counts["ill"] / swap.counts["ill"].sum(axis=0)).T
    chances = swap.flows / swap.flows.sum(axis=1, keepdims=True)
    masses = distributions @ chances
    assert certificate.loss == pytest.approx(abs(np.log(masses[0] / masses[1])).max(), abs=1e-8)
    assert certificate.holds
    assert certificate.loss < 1.0 < certificate.over_set.loss
    assert '(95%); fit with adversaries="confidence".' in str(certificate)
    said = certificate.details()
    for sentence in (
        "holds neither the donors' rows nor the list of those that came in",
        "NOT covered is who holds donors' rows",
        "erase it when it is done with",
        f"It is for {certificate.reserve.rows[0]} rows, and then refuses",
    ):
        assert sentence in said
    assert certificate.to_dict()["reserve"]["n_donors"] == 600
    assert "counted anew" not in said


def test_a_confidence_set_is_kept_over_distributions_of_cells():
    own = noiser(adversaries="confidence").fit(TABLE)
    assert own.certificate_.over_set.loss <= 1.0
    counts = own.swap_.counts["ill"].T
    chances = own.swap_.flows / own.swap_.flows.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    drawn = np.array([[rng.dirichlet(c + 1) for c in counts] for _ in range(300)])
    masses = drawn @ chances
    assert abs(np.log(masses[:, 0] / masses[:, 1])).max() <= own.certificate_.over_set.loss


def test_known_columns_are_strata_with_limits_of_their_own():
    own = noiser(known="job", cells=3).fit(people(6000))
    released = own.transform(NEW)
    assert (released["job"] == NEW["job"]).all()
    assert not released.equals(NEW)
    assert len(own.certificate_.reserve.rows) == 3
    assert own.donors_left_["stratum"].nunique() == 3


@pytest.mark.slow
def test_rows_of_cells_with_few_donors_always_become_rows_of_the_nearest_cell():
    own = noiser(donors=0.05, cells=20).fit(TABLE)
    left, swap = own.donors_left_, own.swap_
    thin = np.setdiff1d(np.arange(len(swap.costs)), left["cell"])
    assert thin.size
    assert not swap.flows[thin].any()
    assert not swap.flows[:, thin].any()
    assert own.certificate_.holds
    assert swap.unchanged < np.trace(swap.flows) - 0.01


@pytest.mark.slow
def test_a_pipeline_learns_from_a_swapped_table_and_predicts_single_rows():
    donors, rest = TABLE[:1200], TABLE[1200:]
    y = (rest["pay"] > 0).to_numpy()
    model = make_pipeline(
        noiser(donors=donors, public=["age", "pay"]), HistGradientBoostingClassifier(max_iter=5)
    )
    model.fit(rest, y)
    told = [model.predict(NEW.iloc[[k]])[0] for k in range(40)]
    assert np.mean(told == (NEW["pay"][:40] > 0)) > 0.7


def test_fit_transform_swaps_the_table_and_gives_no_donor():
    donors, rest = TABLE[:1200], TABLE[1200:]
    own = noiser(donors=donors)
    released = own.fit_transform(rest)
    assert Counter(released.itertuples(index=False)) == Counter(
        rest.drop(columns="ill").itertuples(index=False)
    )
    assert own.donors_left_["donors"].sum() == 600


# ------------------------------------------------------------------------------ refusals


def test_no_copy_of_a_noiser_has_its_donors():
    saved = io.BytesIO()
    joblib.dump(fitted(), saved)
    saved.seek(0)
    for other in (
        pickle.loads(pickle.dumps(fitted())),
        joblib.load(saved),
        copy.copy(fitted()),
        copy.deepcopy(fitted()),
    ):
        with pytest.raises(ValueError, match="no donors here"):
            other.transform(NEW[:1])
        with pytest.raises(ValueError, match="no donors here"):
            _ = other.donors_left_
    assert not hasattr(clone(fitted()), "certificate_")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_no_donors():
    own = fitted()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            own.transform(NEW[:1])
            os.write(writing, b"released")
        except ValueError:
            os.write(writing, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 20) == b"refused"


@pytest.mark.slow
def test_threads_get_different_donors():
    own = noiser().fit(TABLE)
    with ThreadPoolExecutor(4) as threads:
        parts = list(threads.map(lambda k: own.transform(NEW.iloc[[k]]), range(100)))
    released = pd.concat(parts)
    moved = (released != NEW[:100]).any(axis=1)
    assert len(tuples(released[moved])) == moved.sum()
    assert (own.certificate_.reserve.rows[0] - own.donors_left_["rows_left"] == 100).all()


def test_an_audit_is_refused_before_it_uses_donors_and_a_report_tells_who_is_not_covered():
    before = fitted().donors_left_
    with pytest.raises(ValueError, match="would use up its donors"):
        audit(fitted(), people(300, seed=9))
    assert fitted().donors_left_.equals(before)
    assert "is not covered" in str(report(fitted(), kind="external"))


@pytest.mark.slow
def test_a_further_fit_without_donors_forgets_those_of_the_first():
    own = noiser().fit(TABLE[:1000])
    own.set_params(noise=RecordSwap(cells=4)).fit(TABLE[:1000])
    assert len(own.transform(NEW)) == len(NEW)
    with pytest.raises(AttributeError, match="donors_left_"):
        _ = own.donors_left_


@pytest.mark.slow
def test_what_does_not_go_with_donors_is_refused_by_name():
    with pytest.raises(ValueError, match=r"donors=0\.4 sets rows of X aside"):
        noiser().fit_transform(TABLE)
    ids = NEW.assign(client=range(len(NEW)))
    with pytest.raises(ValueError, match="row_id asks for a release that can be repeated"):
        fitted().transform(ids, row_id="client", key=b"blake2b:" + bytes(32))
    with pytest.raises(ValueError, match="sample_weight counts rows several times"):
        noiser().fit(TABLE, sample_weight=np.ones(len(TABLE)))
    with pytest.raises(TypeError, match="table of another type"):
        fitted().transform(pl.from_pandas(NEW))
    with pytest.raises(ValueError, match=r"donors lack column\(s\) 'pay'; give a table"):
        noiser(donors=TABLE.drop(columns="pay")).fit(TABLE)
    with pytest.raises(ValueError, match=r"donors leave .* rows at most"):
        noiser(donors=0.002).fit(TABLE)
    with pytest.raises(AttributeError, match="donors_left_"):
        _ = noiser(donors=None).fit(TABLE).donors_left_


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"donors": 1.0}, r"donors must be a share in \(0, 1\)"),
        ({"donors": 0}, r"donors must be a share in \(0, 1\)"),
        ({"donors": np.float32(1.5)}, r"donors must be a share in \(0, 1\)"),
        ({"donors": True}, "donors must be a share or a table .*, got bool; 0.3 sets 30 %"),
        ({"donors": "half"}, "donors must be a share or a table .*, got str; 0.3 sets 30 %"),
        ({"donors": np.array(0.3)}, "donors must be a share or a table .*, got ndarray; 0.3"),
        ({"donors": 0.3, "within": "shuffle"}, "donors does not go with within"),
    ],
)
def test_settings_out_of_range_are_refused(settings, error):
    with pytest.raises((ValueError, TypeError), match=error):
        RecordSwap(**settings)


def test_donors_that_are_unlike_fitted_rows_of_their_cell_are_refused():
    older = people(1500, seed=3).assign(age=lambda own: own["age"] + 15)
    with pytest.raises(ValueError, match="donors have other values of column 'age'"):
        noiser(donors=older).fit(TABLE)
    assert "age" not in repr(RecordSwap(donors=older))


@pytest.mark.parametrize("number", [np.float16, np.float32, np.float64])
def test_a_share_may_be_a_float_of_numpy(number):
    own = noiser(donors=number(0.4)).fit(TABLE)
    assert len(own.transform(NEW[:5])) == 5
    assert own.certificate_.n_rows == len(TABLE) - int(float(number(0.4)) * len(TABLE))
    with pytest.raises(ValueError, match="sets rows of X aside"):
        own.fit_transform(TABLE)


def test_donors_of_another_type_than_x_are_refused_as_such():
    numbers = TABLE[["age", "pay"]].assign(ill=(TABLE["ill"] == "yes") * 1.0)
    with pytest.raises(TypeError, match="donors are a ndarray of numpy, and X is a table of an"):
        noiser(donors=numbers.to_numpy()).fit(numbers)
    with pytest.raises(TypeError, match="donors are a DataFrame of pandas, and X is a table of"):
        noiser(donors=numbers, sensitive=2).fit(numbers.to_numpy())
    with pytest.raises(TypeError, match="donors are a DataFrame of polars, and X is a table of"):
        noiser(donors=pl.from_pandas(TABLE)).fit(TABLE)


def test_swaps_are_compared_hashed_and_shown_without_a_look_at_donors():
    donors = people(300, seed=3)
    one, same, other = (RecordSwap(donors=own) for own in (donors, donors, donors.copy()))
    assert one == same
    assert one != other
    assert hash(one) == hash(same)
    assert RecordSwap(donors=0.5) == RecordSwap(donors=np.float32(0.5)) != RecordSwap()
    assert RecordSwap() != "swap"
    assert repr(one) == (
        "RecordSwap(cells='auto', balance='rows', within='stay', cost=None, "
        "donors=<DataFrame of 300 rows>)"
    )
    assert repr(RecordSwap(donors=0.3)).endswith("donors=0.3)")
    assert repr(RecordSwap(4)).endswith("donors=None)")


def test_few_rows_to_be_served_are_warned_of():
    with pytest.warns(UtilityWarning, match=r"the donors are for \d+ rows, and then .* refuses"):
        few = noiser(donors=0.03).fit(TABLE)
    assert few.donors_left_["rows_left"].min() < 100


def test_a_stream_is_refused_with_the_way_that_there_is():
    with pytest.raises(ValueError, match=r"donors are given by transform, .* with each batch"):
        fitted().transform_batches([NEW])


@pytest.mark.parametrize("donors", [None, 0.4])
def test_a_check_of_drift_is_refused_for_what_a_swap_is(donors):
    own = fitted() if donors else noiser(donors=None).fit(TABLE)
    with pytest.raises(ValueError, match=r"rows are swapped as they are.* certificate_\.check"):
        own.transform(NEW, on_drift="raise")


def test_a_lazy_table_is_refused_beside_donors():
    lazy = pl.from_pandas(TABLE).lazy()
    noiser = PufferfishNoiser(sensitive="ill", noise=RecordSwap(donors=0.3))
    with pytest.raises(ValueError, match="donors are kept in memory, and X is a lazy table"):
        noiser.fit(lazy)


OTHER_FORMS = {
    "shorter floats": lambda rows: rows.astype({"pay": "float32"}),
    "objects for numbers": lambda rows: rows.astype({"pay": object}),
    "whole numbers": lambda rows: rows.assign(pay=rows["pay"].round().astype(int)),
    "another marker of what is missing": lambda rows: rows.assign(
        job=rows["job"].astype(object).where(rows.index % 7 > 0, None)
    ),
}


def with_jobs(rows):
    gone = np.arange(len(rows)) % 5 == 0
    return rows.assign(job=rows["job"].astype(object).where(~gone, np.nan))


@cache
def fitted_with_jobs():
    return noiser(donors=0.4).fit(with_jobs(TABLE))


@pytest.mark.parametrize("form", OTHER_FORMS)
@pytest.mark.parametrize("batch", [1, 20])
def test_the_form_of_a_value_does_not_tell_who_stayed(form, batch):
    own = fitted_with_jobs()
    rows, left = OTHER_FORMS[form](with_jobs(people(30, seed=4))), own.donors_left_
    if form == "shorter floats":
        with pytest.raises(TypeError, match="column 'pay' is float32, and float64 in the donors"):
            own.transform(rows[:batch])
        pd.testing.assert_frame_equal(own.donors_left_, left)
        return
    released = pd.concat([own.transform(rows[k : k + batch]) for k in range(0, 30, batch)])
    assert released["pay"].dtype == float
    assert {type(cell) for cell in released["job"].tolist()} == {str, type(None)}


def test_objects_that_are_no_strings_are_refused_beside_donors():
    with pytest.raises(TypeError, match="column 'age' holds objects that are no strings"):
        noiser(donors=0.4).fit(TABLE.astype({"age": object}))


def test_donors_that_are_the_fitted_rows_are_refused():
    with pytest.raises(ValueError, match="donors are rows of X"):
        noiser(donors=TABLE).fit(TABLE)
