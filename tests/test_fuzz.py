"""A thousand random calls: no foreign exception, nothing half done."""

import pytest
from fuzz_calls import ForeignError, Fuzz, attempt


@pytest.mark.parametrize("seed", range(2))
def test_random_calls_answer_or_refuse_in_a_sentence_and_leave_nothing_half_done(seed, tmp_path):
    fuzz = Fuzz(seed, tmp_path).run(100)
    assert fuzz.answered > fuzz.calls / 4  # most of it is no mere refusal


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_thousand_random_calls_answer_or_refuse_in_a_sentence(seed, tmp_path):
    Fuzz(seed, tmp_path).run(100)


def half_done(values):
    values.append(1)
    raise ValueError("refused")


CAUGHT = {
    "another library's": lambda: [1, 2].remove(3),
    "another kind": lambda: {}["a"],
    "an interrupt": lambda: (_ for _ in ()).throw(KeyboardInterrupt()),
}


@pytest.mark.parametrize("name", CAUGHT)
def test_the_fuzz_would_see_a_foreign_exception(name):
    with pytest.raises(ForeignError):
        attempt(name, CAUGHT[name])
