"""The counts behind Table 4 of paper 000: against its probabilities, and against the tables."""

import numpy as np
import pandas as pd
import pytest

from sklearn_puffer import datasets
from sklearn_puffer.datasets import published_table4, table4_contingencies

LOADERS = {
    "Simulation (Figure 2b)": datasets.load_simulation_2b,
    "Simulation (Figure 3b)": datasets.load_simulation_3b,
    "Student Performance": datasets.load_student,
    "Census Income": datasets.load_census,
    "Bank Marketing": datasets.load_bank,
}

PRIORS = {
    "Simulation (Figure 2b)": ([0.52, 0.48], [0.5, 0.5]),
    "Simulation (Figure 3b)": ([0.50001, 0, 1e-05, 0.49998], [0.49996, 1e-05, 0, 0.50003]),
    "Student Performance": ([0.648275862069, 0.351724137931], [0.492753623188, 0.507246376812]),
    "Census Income": (
        [
            0.0406441717791,
            0.0391743353783,
            0.782400306748,
            0.0235173824131,
            0.0509969325153,
            0.0489519427403,
            0.0134841513292,
            0.000383435582822,
            0.000447341513292,
        ],
        [
            0.0402933719667,
            0.115628395509,
            0.655242665701,
            0.0326421586382,
            0.0695400217313,
            0.0287939152481,
            0.057225642883,
            0.000588554871423,
            4.5273451648e-05,
        ],
    ),
    "Bank Marketing": (
        [0.643290999448, 0.22956929873, 0.127139701822],
        [0.594042194537, 0.29307029789, 0.112887507572],
    ),
}


@pytest.fixture(params=list(LOADERS))
def title(request):
    return request.param


def test_the_priors_of_a_contingency_are_those_of_the_paper(title):
    pair = table4_contingencies()[title].pair()
    for prior, expected in zip(pair, PRIORS[title], strict=True):
        np.testing.assert_allclose(prior.probabilities, expected, rtol=1e-11, atol=0)
        assert prior.atoms.tolist() == list(range(len(expected)))


def test_the_rows_of_a_table_are_its_counts_expanded(title):
    contingency = table4_contingencies()[title]
    counted = LOADERS[title](as_counts=True)
    rows = LOADERS[title]()
    assert len(rows) == sum(map(sum, contingency.counts)) == counted["count"].sum()
    _assert_counts_of(contingency, rows)


def test_a_table_of_counts_has_no_empty_and_no_repeated_row(title):
    counted = LOADERS[title](as_counts=True)
    assert (counted["count"] > 0).all()
    assert not counted.drop(columns="count").duplicated().any()


def test_categories_stand_in_the_order_of_the_codes_of_the_paper():
    census = datasets.load_census()
    assert census["workclass"].cat.categories[[0, 5, 8]].tolist() == [
        "State-gov",
        "?",
        "Never-worked",
    ]
    assert datasets.load_bank()["marital"].cat.categories.tolist() == [
        "married",
        "single",
        "divorced",
    ]
    assert datasets.load_student()["romantic"].cat.categories.tolist() == ["no", "yes"]
    for load in (datasets.load_census, datasets.load_bank, datasets.load_student):
        assert all(load()[name].cat.ordered for name in load())


def test_the_published_table_holds_150_figures_that_fall_with_epsilon():
    printed = published_table4()
    assert printed.shape == (15, 10)
    assert printed.notna().all(axis=None)
    assert (printed.diff(axis=1).iloc[:, 1:] < 0).all(axis=None)
    assert set(printed.index.get_level_values("dataset")) == set(LOADERS)


def test_the_published_sensitivities_are_the_width_of_the_codes_over_epsilon(title):
    printed = published_table4().loc[(title, "sensitivity")]
    width = len(PRIORS[title][0]) - 1
    assert printed.tolist() == [round(width / epsilon, 2) for epsilon in printed.index]


@pytest.mark.tables
@pytest.mark.parametrize(
    ("title", "file"), [("Student Performance", "student-por"), ("Bank Marketing", "bank-full")]
)
def test_the_counts_are_those_of_the_public_table(table, title, file):
    _assert_counts_of(table4_contingencies()[title], table(file))


@pytest.mark.tables
def test_the_census_counts_leave_out_the_test_rows_of_unknown_work_class(table):
    adult = table("adult", keep_default_na=False)
    is_test = np.arange(len(adult)) >= 32_561
    kept = adult[~(is_test & (adult["workclass"] == "?"))]
    assert len(kept) == 47_879
    _assert_counts_of(table4_contingencies()["Census Income"], kept)


def _assert_counts_of(contingency, rows):
    found = pd.crosstab(rows[contingency.sensitive], rows[contingency.public])
    counts = found.reindex(index=contingency.secrets, columns=contingency.values, fill_value=0)
    assert counts.to_numpy().tolist() == [list(row) for row in contingency.counts]


def test_invented_people_have_what_real_tables_have_and_say_that_they_are_invented():
    people = datasets.make_people(2000, random_state=3)
    assert people.attrs["note"].startswith("Invented people")
    assert people["client"].is_unique
    assert people["mail"].is_unique
    assert people["since"].dtype.kind == "M"
    assert 0.05 < people["pulse"].isna().mean() < 0.15
    assert 0.02 < people["smoker"].isna().mean() < 0.1
    assert not people[["client", "age", "visits", "weight", "ill", "renewed"]].isna().any().any()


def test_the_same_number_draws_the_same_people():
    pd.testing.assert_frame_equal(datasets.make_people(50, 1), datasets.make_people(50, 1))
    assert not datasets.make_people(50, 1).equals(datasets.make_people(50, 2))


def test_columns_of_invented_people_give_their_secret_away():
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    people = datasets.make_people(1500, 0)
    public = people[["age", "visits", "weight", "pulse"]]
    model = HistGradientBoostingClassifier(max_iter=30).fit(public[:1000], people["ill"][:1000])
    chances = model.predict_proba(public[1000:])[:, 1]
    assert roc_auc_score(people["ill"][1000:], chances) > 0.75


@pytest.mark.parametrize("n", [0, -3, 2.5, True, "many"])
def test_a_table_of_no_people_is_refused_by_name(n):
    with pytest.raises((TypeError, ValueError), match="n"):
        datasets.make_people(n)
