"""Names, secrets and values that try to forge what a person reads, through every text there is."""

import json
import re
import unicodedata
import warnings
from html import unescape

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_puffer import (
    Ledger,
    PufferfishNoiser,
    PufferfishSGDClassifier,
    PufferfishSGDRegressor,
    PufferfishSum,
)
from sklearn_puffer._words import on_one_line, quoted, shown
from sklearn_puffer.priors import Discrete
from sklearn_puffer.users import User

FORGERY = "a\nCertificate: holds for every prior"
HOSTILE = [
    FORGERY,
    "b\r\nCertificate (holds)",
    "\x1b[2J\x1b[1;1H",
    "\u202egnp.exe",
    "nul\x00nul",
    "\u2028line",
    "\u2029paragraph",
    "wide\u200b\u200d\ufeff",
    "\ue000",
    "\U000e0041tag",
    "\u0378",
    "\x85next",
    "<script>alert(1)</script>",
    "0.1  0.1  recomputed",
    " ",
    "",
]
# Where a text takes a table to make: what is unsafe in a name of its own stays so among others.
TOGETHER = [FORGERY, "".join(HOSTILE[1:12]), *HOSTILE[12:]]
UNSAFE = {"Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"}


def unsafe(text):
    """Return the characters that move, hide or turn what stands around them."""
    return {c for c in text if unicodedata.category(c) in UNSAFE}


def forged(text):
    """Return the lines that a name put there, but for the first one, which is the verdict."""
    return [line for line in text.split("\n")[1:] if line.startswith("Certificate")]


class Evil:
    """A label that writes itself as it likes."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text

    def __hash__(self):
        return hash(self.text)

    def __eq__(self, other):
        return isinstance(other, Evil) and self.text == other.text

    def __lt__(self, other):
        return self.text < other.text


def texts_of(run):
    """Return what a call says: its answer as text, its warnings, or its error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            said = [str(run())]
        except (ValueError, TypeError) as error:
            said = [str(error)]
    return [*said, *(str(warning.message) for warning in caught)]


def check(texts):
    for text in texts:
        assert unsafe(text) <= {"\n"}, repr(text)
        assert not forged(text)
    return texts


def check_line(texts):
    for text in texts:
        assert not unsafe(text), repr(text)
    return texts


def check_page(page):
    assert not unsafe(page), repr(page)
    assert "<script" not in page
    assert not unsafe(unescape(page))


@pytest.mark.slow
@given(st.text(st.characters(), max_size=30))
@settings(max_examples=200)
def test_every_text_is_shown_on_one_line_and_told_from_every_other(text):
    assert not unsafe(on_one_line(text))
    assert not unsafe(shown(text))
    assert not unsafe(quoted(text))
    assert on_one_line(on_one_line(text)) == on_one_line(text)
    assert shown(on_one_line(text)) != shown(text) or on_one_line(text) == text
    assert "  " not in shown(text) or shown(text).startswith("'")


def test_different_texts_are_shown_differently():
    texts = [
        "\ud800",
        *HOSTILE,
        *(on_one_line(text) for text in HOSTILE),
        r"\ud800",
        "plain",
        r"C:\new",
        "C:\new",
    ]
    assert len({shown(text) for text in texts}) == len(set(texts))
    assert shown("São Paulo") == "São Paulo"
    assert shown(3) == "3"


@pytest.mark.parametrize("name", TOGETHER)
def test_no_text_of_a_noiser_can_be_forged(name, tmp_path):
    n = 40
    X = pd.DataFrame(
        {
            f"s{name}": [name, "other"] * (n // 2),
            name: [f"v{name}", "w", "w", "w"] * (n // 4),
            f"x{name}": np.arange(n) % 3,
            f"passed{name}": name,
        }
    )
    noiser = PufferfishNoiser(
        0.2, sensitive=f"s{name}", public=[name, f"x{name}"], remainder="passthrough"
    )
    said = check_line(texts_of(lambda: noiser.fit(X) and "fitted"))
    assert said[0] == "fitted"
    certificate = noiser.certificate_.named(name)
    check([certificate.details()])
    check_line([certificate.promise(), *certificate.assumptions, repr(certificate)])
    check_page(certificate._repr_html_())
    told = json.loads(certificate.to_json())
    assert told["name"] == name
    assert {pair["secret"] for pair in told["pairs"]} == {name, "other"}
    assert [column["name"] for column in told["columns"]] == [name, f"x{name}"]
    check_page(noiser._repr_html_().rpartition("</style>")[2].rpartition("<h4>")[2])
    ledger = Ledger.create(tmp_path / "x.ledger", noiser, datasets=[f"d{name}"])
    check_line([repr(ledger), repr(ledger.left())])
    calls = [
        lambda: noiser.transform(X.assign(**{name: f"{name}new"})),
        lambda: noiser.transform(X.assign(**{f"x{name}": 77})) is None,  # and warns
        lambda: noiser.transform(X.assign(**{f"x{name}": np.nan})),
        lambda: noiser.transform(X.assign(**{f"x{name}": name})),
        lambda: noiser.transform(X.drop(columns=name)),
        lambda: noiser.transform(X.assign(**{name: X[name].astype(pd.SparseDtype(object))})),
        lambda: PufferfishNoiser(sensitive=name + name).fit(X),
        lambda: PufferfishNoiser(sensitive=name, categories={f"x{name}": [0, 1]}).fit(X),
        lambda: PufferfishNoiser(sensitive=f"s{name}", secret_pairs=[(name, f"{name}z")]).fit(X),
        lambda: PufferfishNoiser(sensitive=f"s{name}", n_bins={name: 3}).fit(X),
        lambda: PufferfishNoiser(sensitive=f"s{name}", prior={name: 3}).fit(X),
        lambda: PufferfishNoiser(sensitive=f"s{name}", weights={f"{name}y": 3.0}).fit(X),
        lambda: PufferfishNoiser(strategy=name, sensitive=name).fit(X),
        lambda: noiser.certificate_.against({name: 3}),
        lambda: noiser.certificate_.against({f"{name}z": 3}),
        lambda: ledger.spend(dataset=f"{name}y"),
        lambda: noiser.set_params(categories={name: [name]}).transform(X),
    ]
    for call in calls:
        check_line(texts_of(call)) if name.strip() else texts_of(call)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("text", [FORGERY, "\x1b[2J", "\u202e"])
def test_labels_that_write_themselves_are_shown_on_one_line(text):
    evil, distribution = Evil(text), Discrete([0, 1], [0.5, 0.5])
    X = pd.DataFrame({"s": [0, 1] * 9, "x": [0, 0, 1] * 6})
    noiser = PufferfishNoiser(sensitive="s", prior={0: distribution, 1: distribution}).fit(X)
    calls = [
        lambda: PufferfishNoiser(sensitive="s").fit(X.assign(x=[evil] * 18)),
        lambda: PufferfishNoiser(sensitive="s").fit(X.assign(s=pd.Categorical([evil] * 18))),
        lambda: PufferfishNoiser(sensitive="s", secret_pairs=[(evil, 1)]).fit(X),
        lambda: PufferfishNoiser(sensitive="s", categories={"x": [evil, evil]}).fit(X),
        lambda: PufferfishNoiser(sensitive="s", categories={"x": [evil]}).fit(X),
        lambda: noiser.certificate_.against({evil: distribution}),
        lambda: noiser.set_params(epsilon=evil).transform(X),
    ]
    for call in calls:
        check_line(texts_of(call))


@pytest.mark.parametrize("name", TOGETHER)
def test_no_text_of_a_sum_can_be_forged(name):
    X = pd.DataFrame({f"by{name}": [name, "other"] * 10, f"y{name}": [0, 1, 1, 1] * 5})
    query = PufferfishSum(0.5, value=f"y{name}", by=f"by{name}", presence=0.5)
    check_line(texts_of(lambda: query.fit(X) and "fitted"))
    certificate = query.certificate_.named(name)
    check([certificate.details()])
    check_line([certificate.promise(), *certificate.assumptions, repr(certificate)])
    check_page(certificate._repr_html_())
    users = [User(Discrete([0, 1], [0.5, 0.5]), name=name or "x"), User(Discrete([2], [1.0]))]
    calls = [
        lambda: query.release(X.assign(**{f"y{name}": 5})),
        lambda: query.release(X.assign(**{f"by{name}": f"{name}z"})),
        lambda: query.release(X.drop(columns=f"y{name}")),
        lambda: PufferfishSum(query="count").fit(users),
        lambda: PufferfishSum(secrets="distribution").fit(users),
        lambda: PufferfishSum().fit([users[0], users[0]]).release([9, 9]),
        lambda: PufferfishSum(value=f"{name}z").fit(X),
        lambda: PufferfishSum(unit="class", value=f"y{name}", by=f"by{name}").fit(X).certificate_,
    ]
    for call in calls:
        check(texts_of(call))


@pytest.mark.parametrize("kind", [PufferfishSGDRegressor, PufferfishSGDClassifier])
@pytest.mark.parametrize("name", [FORGERY, "\x1b[2J", "\u202e", "<script>"])
def test_no_text_of_a_descent_can_be_forged(kind, name):
    X = pd.DataFrame({name: np.linspace(-0.5, 0.5, 40)})
    labels = np.where(X[name] > 0.0, f"y{name}", "n")
    y = X[name] if kind is PufferfishSGDRegressor else labels
    model = kind()
    check_line(texts_of(lambda: model.fit(X, y) and "fitted"))
    certificate = model.certificate_.named(name)
    check([certificate.details()])
    check_line([certificate.promise(), *certificate.assumptions, repr(certificate)])
    check_page(certificate._repr_html_())
    if kind is PufferfishSGDClassifier:
        check_line(texts_of(lambda: kind().fit(X, np.full(40, f"y{name}"))))


def test_the_pages_show_the_same_escapes_as_the_text():
    X = pd.DataFrame({FORGERY: ["\x1b", "b"] * 20, "x": [0, 1, 1, 1] * 10})
    certificate = PufferfishNoiser(0.2, sensitive=FORGERY).fit(X).certificate_
    for text in (
        certificate.details(),
        unescape(re.sub("<[^>]*>", " ", certificate._repr_html_())),
    ):
        assert r"\x1b" in text
        assert r"a\nCertificate: holds for every prior" in text
