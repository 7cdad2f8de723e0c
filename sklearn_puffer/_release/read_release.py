"""`PufferfishRelease`: the fitted release that is read of a release artifact."""

from __future__ import annotations

import os
from typing import Any, NoReturn, Self

import numpy as np

from sklearn_puffer._base import RetiredError, check_verbose
from sklearn_puffer._documents import FieldError, explained, located
from sklearn_puffer._release.artifact import MOST_CHARACTERS, NONSENSE, read_artifact
from sklearn_puffer._release.mechanism import FittedMechanism
from sklearn_puffer._release.table_release import TableRelease

_MOST_BYTES = 4 * MOST_CHARACTERS
_AGAIN = (
    "take the JSON that to_json() of a fitted estimator wrote: check its name, or ask who fitted "
    "it for a new one"
)


class PufferfishRelease(TableRelease):
    r"""A fitted release without its priors, as `PufferfishNoiser.to_json` writes it.

    It does what the fitted noiser does in `transform`, by the same code and under the same
    certificate, and stands where a fitted noiser can: in a fitted Pipeline, and with a `Ledger`.
    It is not fitted again, and `clone` returns the object itself; ``FrozenEstimator(release)``, of
    `sklearn.frozen`, is a step around which a Pipeline can be fitted.

    Parameters
    ----------
    fitted : FittedMechanism
        What `from_json` has read.
    unknown : {"auto", "error", "nearest"}, default="error"
        As in `PufferfishNoiser`; what is read has that of the noiser, in files of before also
        {column: the value that unseen ones become}.
    on_uncertified : {"raise", "warn"}, default="raise"
        As in `PufferfishNoiser`.
    random_state : int or None, default=None
        As in `PufferfishNoiser`.
    n_jobs : int or None, default=None
        As in `PufferfishNoiser`.
    verbose : int, default=0
        As in `PufferfishNoiser`.

    Attributes
    ----------
    certificate_ : Certificate
        That of the noiser, or of the table that a swap has released last; it knows no priors, so
        that ``against``, and ``check`` with secrets, ask for the noiser.
    theta_ : pandas.Series of shape (n_public,)
        As in `PufferfishNoiser`.
    utility_ : pandas.DataFrame of shape (n_public, 8)
        As in `PufferfishNoiser`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where `fit` saw string column names.

    See Also
    --------
    PufferfishNoiser.to_json : Writes the release artifact, and says what it still tells.

    Notes
    -----
    *Formal guarantees.* Those of the noiser: what is read is compared with the fingerprint of its
    certificate before it is returned, and at every release. That and the checksum of the text
    detect accidents, but no forger, who can compute both anew.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser, PufferfishRelease
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> text = PufferfishNoiser(epsilon=0.5, sensitive="loan").fit(table).to_json()
    >>> release = PufferfishRelease.from_json(text)
    >>> list(release.transform(pd.DataFrame({"cars": [1, 9]}))), release.certificate_.holds
    (['cars'], True)
    """

    _takes_missing = False

    def __init__(
        self,
        fitted: FittedMechanism | None = None,
        *,
        unknown: Any = "error",
        on_uncertified: str = "raise",
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        if not isinstance(fitted, FittedMechanism):
            raise TypeError(
                "a PufferfishRelease is read and not made; use PufferfishRelease.from_json(path), "
                "with what a fitted PufferfishNoiser wrote by to_json(path)."
            )
        self._fitted = fitted
        self.unknown = unknown
        self.on_uncertified = on_uncertified
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def from_json(cls, path_or_text: str | os.PathLike[str], *, verbose: int = 0) -> Self:
        """Read what `PufferfishNoiser.to_json` wrote.

        Parameters
        ----------
        path_or_text : str or Path
            The name of the file, or the text itself, which begins with a brace.
        verbose : int, default=0
            As in `PufferfishNoiser`, of its releases; ``release.verbose`` changes it.

        Returns
        -------
        PufferfishRelease
            As a fitted transformer.

        Raises
        ------
        TypeError
            If it is neither.
        ValueError
            If the text is of another schema, was changed or damaged, or is no release artifact.
        OSError
            If there is no such file.
        """
        check_verbose(verbose)
        where, text = _text_of(path_or_text)
        try:
            release = cls._read(text)
        except RetiredError as fault:
            raise RetiredError(f"{where} is no use any more: {fault}") from fault
        except NONSENSE as fault:
            why = str(fault).rstrip(".")
            raise ValueError(f"{where} is no whole release artifact: {why}; {_AGAIN}.") from fault
        release.verbose = verbose
        return release

    @classmethod
    def _read(cls, text: str) -> Self:
        fitted, unknown = read_artifact(text)
        if fitted.fingerprint() != fitted.certificate.fingerprint:
            raise FieldError(
                "it was changed or damaged: what it would release is not what its fingerprint is of"
            )
        release, rules = cls(fitted, unknown=unknown), fitted.rules
        release.n_features_in_ = len(rules.names)
        if rules.named:
            release.feature_names_in_ = np.array(rules.names, dtype=object)
        return release

    @property
    def fitted(self) -> FittedMechanism:
        """What was read."""
        return self._fitted

    @fitted.setter
    def fitted(self, value: FittedMechanism) -> None:
        self._fitted = value

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> NoReturn:
        """Refuse: a release is fitted already.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight : ignored
            As in `PufferfishNoiser`.

        Raises
        ------
        TypeError
            Always.
        """
        raise TypeError(
            "a PufferfishRelease is fitted already, and holds nothing to fit with; call transform, "
            "in a Pipeline put FrozenEstimator(release) of sklearn.frozen, or fit a "
            "PufferfishNoiser."
        )

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):
            shown = self._fitted.mechanism.attributes()
            if name in shown:
                return shown[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def transform(
        self,
        X: Any,
        *,
        row_id: Any = None,
        key: Any = None,
        dataset: str = "",
        release: int = 0,
        on_drift: str = "warn",
        sensitive_features: Any = None,
    ) -> Any:
        """Release the public columns of X as the fitted estimator does.

        Parameters
        ----------
        X : DataFrame, lazy table or array-like of shape (n_rows, n_features)
            As in `PufferfishNoiser`, or in the estimator that wrote the release artifact.
        row_id : str, int or array-like of n_rows, default=None
            As there.
        key : bytes, Path or "env:NAME", default=None
            As there.
        dataset : str, default=""
            As there.
        release : int, default=0
            As there.
        on_drift : {"warn", "raise", "ignore"}, default="warn"
            As there.
        sensitive_features : Series, DataFrame or array-like of n_rows, default=None
            Of a `PufferfishSwap` alone: the secrets, where they are not columns of X. Flows are
            solved and proven for X anew, and ``certificate_``, ``flows_`` and ``stays_`` are those
            of X.

        Returns
        -------
        table of the type of X
            As there.
        """
        return self._transformed(X, (row_id, key, dataset, release), on_drift, sensitive_features)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        certificate, n_columns = self.certificate_, len(self.fitted.rules.order)
        verdict = certificate.notion.budget_name()
        return f"PufferfishRelease({n_columns} columns, {verdict}, {certificate.released_by})"

    def __sklearn_clone__(self) -> Self:
        return self


def _text_of(path_or_text: Any) -> tuple[str, str]:
    """Return the name of a release artifact in errors, and its text."""
    if isinstance(path_or_text, str) and path_or_text.lstrip().startswith("{"):
        return "the text", path_or_text
    file = located(path_or_text)
    with explained(file, f"the release artifact cannot be read; {_AGAIN}"), open(file, "rb") as f:
        data = f.read(_MOST_BYTES + 1)
    where = f"the file {str(file)!r}"
    try:
        return where, data.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise ValueError(
            f"{where} is no whole release artifact: it is no text; {_AGAIN}."
        ) from fault
