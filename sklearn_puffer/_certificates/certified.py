"""The base of estimators that release by a certificate, and notice changes after the fit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_puffer._base import PufferfishWarning
from sklearn_puffer._documents import __version__, digest
from sklearn_puffer._words import quoted

_VERSION_KEY = "_sklearn_puffer_version"
_LONGEST = 60


class UncertifiedError(ValueError):
    """Raised where a release would carry a certificate that does not hold.

    Examples
    --------
    A published mechanism that breaks its guarantee is caught, and nothing is released:

    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser, UncertifiedError
    >>> from sklearn_puffer.priors import GaussianMixture
    >>> table = pd.DataFrame({"ill": ["no", "yes"] * 2, "pulse": [0.0, 20.0, 30.0, 0.0]})
    >>> near, far = (GaussianMixture([0.9, 0.1], [0.0, m], [1.0, 1.0]) for m in (20.0, 30.0))
    >>> prior = {"no": near, "yes": far}
    >>> noiser = PufferfishNoiser(sensitive="ill", prior=prior, strategy="monge").fit(table)
    >>> try:
    ...     noiser.transform(table)
    ... except UncertifiedError as error:
    ...     print(str(error).partition("; ")[0])
    the certificate does not hold: the proven loss 10 exceeds the budget epsilon = 1
    >>> sound = PufferfishNoiser(sensitive="ill", prior=prior).fit(table)
    >>> sound.certificate_.holds, round(float(sound.theta_["pulse"] / noiser.theta_["pulse"]), 3)
    (True, 7.501)
    """


class UtilityWarning(PufferfishWarning):
    """Warns that a release changes a column more than a constant in its place would.

    It can be filtered apart from warnings about the guarantee.

    Examples
    --------
    At a tenth of the budget the noise is larger than the column's spread; the median in its place
    would change it less:

    >>> import warnings
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> for epsilon in (1.0, 0.1):
    ...     with warnings.catch_warnings(record=True) as caught:
    ...         warnings.simplefilter("always")
    ...         noiser = PufferfishNoiser(epsilon, sensitive="loan").fit(table)
    ...     change, constant = noiser.utility_.loc["cars", ["change", "constant"]]
    ...     print(f"{change:.1f} {constant:.1f}", [each.category.__name__ for each in caught])
    0.9 2.6 []
    5.0 2.6 ['UtilityWarning']
    """


class OverspentError(ValueError):
    """Raised where a release would overspend; nothing is spent.

    Examples
    --------
    The second of two releases, where one was planned:

    >>> import tempfile
    >>> import pandas as pd
    >>> from sklearn_puffer import Ledger, OverspentError, PufferfishNoiser
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> noiser = PufferfishNoiser(epsilon=0.5, sensitive="loan").fit(table)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger.create(f"{folder}/cars.ledger", noiser)
    ...     released = ledger.transform(noiser, table)
    ...     try:
    ...         ledger.transform(noiser, table)
    ...     except OverspentError as error:
    ...         print(str(error).partition(";")[0])
    1 more release(s) of 'data' would overspend the ledger, and nothing was \
spent
    """

    __module__ = "sklearn_puffer"


class CertifiedEstimator(BaseEstimator):
    """An estimator whose `certificate_` is tied to its parameters and to what it draws.

    Notes
    -----
    Every release is held against ``certificate_.fingerprint`` before anything is drawn, and saved
    states carry the version of the library that wrote them. That finds accidents (attributes that
    were replaced, parameters that were set after `fit`, states of other versions), not somebody
    who computes the fingerprint anew.
    """

    #: Parameters that may change after fit: a release reads them, or does not depend on them.
    _later: ClassVar[frozenset[str]] = frozenset({"verbose"})

    @abstractmethod
    def _fingerprint(self, certificate: Any) -> str:
        """Return the digest of what a release draws; "" if the certificate is about another."""

    def __getattr__(self, name: str) -> Any:
        if name == "certificate_":
            check_is_fitted(self)  # raises an AttributeError that names the way out
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _note_parameters(self) -> None:
        """Remember the parameters that were fitted with."""
        params = self.get_params(deep=False)
        self._parameters = {k: _noted(params[k]) for k in params if k not in self._later}

    def _check_as_certified(self) -> None:
        """Refuse a release that ``certificate_`` is not about: something was changed after fit."""
        check_is_fitted(self)
        noted = getattr(self, "_parameters", {})
        changed = [k for k, then in noted.items() if not _same(getattr(self, k), then)]
        if changed:
            now = ", ".join(f"{k}={_brief(getattr(self, k))}" for k in changed)
            raise ValueError(
                f"{now} was set after fit, and the certificate is about other parameters; call fit "
                "again, or set back what was there in fit."
            )
        mark = self._fingerprint(self.certificate_)
        if not mark or mark != self.certificate_.fingerprint:
            raise ValueError(
                f"what this {type(self).__name__} would release is not what its certificate_ is "
                "about: a fitted attribute was changed after fit; call fit again."
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), _VERSION_KEY: __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept_state = dict(state)
        version = kept_state.pop(_VERSION_KEY, None)
        if version != __version__:
            by = "an unknown version" if version is None else f"version {quoted(version)}"
            raise ValueError(
                f"this {type(self).__name__} was saved by {by} of sklearn_puffer, and version "
                f"{__version__!r} cannot vouch for its certificate; load it with the version that "
                "saved it, or fit again."
            )
        super().__setstate__(kept_state)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._verdict_html()
        return bundle

    @property
    def _repr_html_(self) -> Any:
        drawn = super()._repr_html_
        return lambda: drawn() + self._verdict_html()

    def _verdict_html(self) -> str:
        certificate = getattr(self, "certificate_", None)
        return "" if certificate is None else str(certificate._page().brief().notebook())


def _brief(value: Any) -> str:
    text = quoted(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _noted(value: Any) -> Any:
    """Return a copy of a parameter, whose lists and mappings may be changed in place."""
    if isinstance(value, dict):
        return {key: _noted(item) for key, item in value.items()}
    return [_noted(item) for item in value] if isinstance(value, list) else value


def _same(now: Any, then: Any) -> bool:
    """Return whether a parameter is unchanged, as far as that is known."""
    if now is then:
        return True
    if isinstance(now, Mapping) and isinstance(then, Mapping):
        return now.keys() == then.keys() and all(_same(now[key], then[key]) for key in now)
    if isinstance(now, list | tuple) and isinstance(then, list | tuple):
        return len(now) == len(then) and all(map(_same, now, then))
    if type(now) is not type(then) and not isinstance(now, Real):
        return False
    try:
        return bool(now == then)
    except (TypeError, ValueError):  # arrays
        return digest(now) == digest(then)
