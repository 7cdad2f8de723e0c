"""A promise in plain words, and what is not promised: nothing here is a function of rows."""

from __future__ import annotations

import math

from sklearn_puffer._base import Bar, Bars, Notion

NOT_PROMISED = (
    "Nothing is promised about what the released columns tell of the population: that whoever "
    "works long hours is often of one department can still be learnt. The promise is about one "
    "row.",
    "Nothing is promised about any other column, or about whether a person is in the table at all.",
    "Nothing is promised to hold against a reader whose knowledge is not that named above: who "
    "knows another law of the columns, or more about a row, may learn more.",
    "Rows are taken as independent of each other: what the row of one person tells about another, "
    "as within a family, is not covered.",
    "Combinations of several sensitive columns are not secrets; each is protected by itself.",
    "Further releases of the same rows tell more than the promise says, unless they are counted in "
    "it or by a ledger.",
    "The number of rows, their order, their index and the types of columns are released as they "
    "are, and whether a release is refused, and its warnings, may depend on the rows.",
)


def best_guess(notion: Notion) -> float:
    r"""Return how often a guess between two secrets of even chance is right at most.

    Of laws :math:`P, Q` it is :math:`(1 + TV)/2`. Under (epsilon, delta),
    :math:`TV \le (e^\epsilon - 1 + 2 \delta)/(e^\epsilon + 1)`; a divergence of an order above 1 is
    no less than that of Kullback and Leibler, so that Pinsker's bound :math:`\sqrt{\epsilon/2}` and
    that of Bretagnolle and Huber, :math:`\sqrt{1 - e^{-\epsilon}}`, hold; what is left out with a
    chance of delta under either law adds 2 delta to TV.
    """
    epsilon, delta, alpha = _numbers(notion)
    if alpha is None:
        distance = math.tanh(epsilon / 2.0) + 2.0 * delta / (1.0 + math.exp(min(epsilon, 700.0)))
    else:
        distance = min(math.sqrt(epsilon / 2.0), math.sqrt(-math.expm1(-epsilon))) + 2.0 * delta
    return min((1.0 + distance) / 2.0, 1.0)


def _numbers(notion: Notion) -> tuple[float, float, float | None]:
    numbers = notion.to_dict()
    return numbers["epsilon"], numbers["delta"], numbers["alpha"]


def _is_pure(notion: Notion) -> bool:
    _, delta, alpha = _numbers(notion)
    return delta == 0.0 and alpha is None


def percent_at_most(share: float) -> str:
    """Return a share as a percentage, rounded up: a bound stays one.

    >>> percent_at_most(0.7310586), percent_at_most(1.0)
    ('73.2 %', '100.0 %')
    """
    return f"{min(math.ceil(share * 1000.0) / 10.0, 100.0):.1f} %"


def example(notion: Notion) -> str:
    """Return what the promise comes to for who cannot tell two secrets apart beforehand."""
    most = percent_at_most(best_guess(notion))
    if _is_pure(notion):
        return (
            "For example: to somebody for whom two secrets were equally probable before, an even "
            f"chance becomes at most {most}, whatever is released."
        )
    return (
        "For example: who holds two secrets for equally probable before, an even chance, and "
        f"guesses after seeing the release which it is, is right at most {most} of the time. "
        "Single releases may tell more than that, but seldom."
    )


def promise_picture(notion: Notion) -> Bars:
    """Return what a promise leaves of not knowing which of two secrets it is."""
    most = best_guess(notion)
    rows = [
        Bar("before the release", 0.5, percent_at_most(0.5)),
        Bar("after it, at most", most, percent_at_most(most)),
    ]
    return Bars("Chance of naming one of two equally probable secrets rightly", rows)
