"""`TableRelease`: the base of every estimator that releases the rows of tables.

It reads, checks and writes tables, keeps the certificate beside what it is about, and knows
a `Mechanism` by its protocol alone.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sklearn_puffer._base import (
    PufferfishWarning,
    UnseenValuesWarning,
    check_choice,
    check_jobs,
    check_same_index,
    check_seed,
    check_verbose,
    listening,
)
from sklearn_puffer._certificates import (
    CertifiedEstimator,
    OverspentError,
    UncertifiedError,
    UtilityWarning,
    utility_frame,
)
from sklearn_puffer._certificates import sentences as say
from sklearn_puffer._documents import write_new
from sklearn_puffer._engines import is_lazy
from sklearn_puffer._noise import Entropy, seeded_entropy, system_entropy
from sklearn_puffer._release.artifact import artifact_text, read_artifact
from sklearn_puffer._release.drift import LEAST_ROWS, Watch, check_on_drift
from sklearn_puffer._release.keyed_rows import Keying, Noted, check_keying
from sklearn_puffer._release.mechanism import Draw, FittedMechanism, LearntMechanism
from sklearn_puffer._release.out_of_memory import plan_release
from sklearn_puffer._rows import (
    IN_BINS,
    FitRows,
    about_bins,
    check_beside,
    check_unknown,
    first_table,
    next_table,
)
from sklearn_puffer._tables import Name, Table, Values, as_pandas, beside, readable
from sklearn_puffer._words import listed, quoted

# how often each seeded noiser has transformed: beside the estimator, so that it is never saved
_calls: WeakKeyDictionary[TableRelease, Iterator[int]] = WeakKeyDictionary()
# What clones of one noiser have warned of: which of them first, and of what share of the rows.
_Family = dict[str, tuple[object, float]]
_families: WeakKeyDictionary[TableRelease, _Family] = WeakKeyDictionary()
_clones: WeakKeyDictionary[TableRelease, tuple[_Family, object]] = WeakKeyDictionary()


_GROUPED = (
    'on_drift="raise" tests rows that are drawn one by one, and those of groups= depend on each '
    'other; look at certificate_.check(X), and pass on_drift="ignore".'
)


class TableRelease(TransformerMixin, CertifiedEstimator):
    """A transformer that learns a mechanism of a table, and releases tables by it.

    An estimator stores its parameters, and says in `_checked_parameters` what they are, and in
    `_learnt` what is learnt of the rows; everything else is here. ``unknown`` and
    ``on_uncertified`` may be parameters, too.
    """

    _later = frozenset({"unknown", "on_uncertified", "random_state", "n_jobs", "verbose"})

    _fitted: FittedMechanism
    sensitive: Any
    secret_pairs: Any = "all"
    unknown: Any = "nearest"
    on_uncertified: str = "raise"
    random_state: int | None
    n_jobs: int | None
    verbose: int
    n_features_in_: int
    _takes_missing: bool = True

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def _checked_parameters(self) -> Any:
        """Return the parameters, checked as far as that needs no data."""
        raise NotImplementedError

    def _learnt(self, parameters: Any, rows: FitRows) -> LearntMechanism:
        """Return what is learnt of the rows, given the checked parameters."""
        raise NotImplementedError

    def _told_of_settings(self) -> list[str]:
        """Return the assumptions that are about settings, and hold for any rows."""
        certificate, seed = self.certificate_, self.random_state
        settings = (IN_BINS, say.ONLY_LISTED, say.COARSE_SECRETS)
        large = say.about_large(certificate.epsilon)
        said = certificate.assumptions
        told = [each for each in said if each.startswith(settings) or each in large]
        return told if seed is None else [*told, say.about_seed(seed, "release", "undo it")]

    def _recertified(self, certificate: Any, attributes: Mapping[str, Any]) -> None:
        """Take the certificate of a table that was released, by a mechanism that proves each."""
        self._fitted = replace(self._fitted, certificate=certificate).signed()
        self.__dict__.update(attributes)

    def _taken(self, learnt: LearntMechanism) -> None:
        """Do what is due when a fit has succeeded, which a failed one cannot undo: nothing here."""

    def _fit(self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> None:
        """Fit, called by `fit` with ``fitting(self)`` around it."""
        parameters = self._checked_parameters()
        rows = self._rows_to_fit(X, y, sensitive_features, sample_weight)
        learnt = self._learnt(parameters, rows)
        told = [*about_bins(rows.sensitive), *say.about_listed(self.secret_pairs)]
        told += say.about_coarse(rows.sensitive, getattr(self, "secret_groups", None))
        told += [*say.about_large(learnt.certificate.epsilon), *learnt.order.sentences()]
        named = hasattr(self, "feature_names_in_")
        self._fitted = learnt.fitted(rows.table.names, named=named, told=told)
        for name in getattr(self, "_shown", ()):
            self.__dict__.pop(name, None)
        for name, value in learnt.attributes.items():
            setattr(self, name, value)
        self._shown = tuple(learnt.attributes)
        self.secret_pairs_ = learnt.pairs
        self._note_parameters()
        _calls[self] = itertools.count()
        self._warn(learnt.warnings, "fit", stacklevel=3)
        self._warn(learnt.order.warnings(), "order", stacklevel=3)
        self._warn(learnt.useless, "utility", UtilityWarning, stacklevel=3)
        self._taken(learnt)

    def _rows_to_fit(self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> FitRows:
        """Return the rows of a fit, and note the columns of X."""
        if self.sensitive is None and sensitive_features is None:
            if get_config()["enable_metadata_routing"]:
                raise ValueError(
                    "nothing is sensitive: name the columns of X in sensitive=, or pass "
                    "sensitive_features to fit after set_fit_request(sensitive_features=True)."
                )
            raise ValueError(
                "nothing is sensitive: name columns of X, "
                f'{type(self).__name__}(sensitive="race"), or pass them to fit, '
                "fit(X, sensitive_features=race); in a Pipeline without metadata routing that is "
                "pipeline.fit(X, y, step__sensitive_features=race), "
                "with the name of the step in front."
            )
        if self.sensitive is not None and sensitive_features is not None:
            raise ValueError(
                f"sensitive={quoted(self.sensitive)} and sensitive_features are both given; "
                "name the secrets in one of the two ways."
            )
        if is_lazy(X):
            check_beside(X, sensitive_features, sample_weight)
            sensitive = self.sensitive if sensitive_features is None else sensitive_features
            return FitRows(first_table(self, X), None, None, sensitive, y)
        X = readable(X)
        check_same_index(sample_weight, "sample_weight", X)
        table, secrets = first_table(self, X), None
        if sensitive_features is not None:
            secrets = beside(sensitive_features, table.n_rows, X, "sensitive_features")
        return FitRows(table, secrets, sample_weight, self.sensitive, y)

    def transform(
        self,
        X: Any,
        *,
        row_id: Any = None,
        key: Any = None,
        dataset: str = "",
        release: int = 0,
        on_drift: str = "warn",
    ) -> Any:
        r"""Release the public columns of X, by draws that are new at each call, or keyed.

        Keyed noise, of ``row_id=``, is a function of the key, what is drawn, the data set, the
        release number, the row's id and all its public values as they are drawn from (their bins,
        their grid; of a typical row which it is). So an unchanged row comes out the same every
        time, under any order and partition of the rows, beside any other columns, on any machine,
        and nothing is gained by asking again.

        Parameters
        ----------
        X : DataFrame, lazy table or array-like of shape (n_rows, n_features)
            In a DataFrame the columns are found by name: in any order, beside any others, and only
            those that are released need be there. An array has all columns of `fit` in their
            order, or the released ones alone where a release has them in that order, too. A lazy
            table (a polars LazyFrame, a DuckDB relation, a Dask or Spark DataFrame, an Ibis table
            on DuckDB) needs ``row_id``.
        row_id : str, int or array-like of n_rows, default=None
            Asks for keyed noise: the column of X, or the column beside it, that holds an id of each
            row, present and unique in the whole table (of which X may be a part): whole numbers,
            strings, UUIDs, bytes, dates or times, each the same id in every type that holds it.
            Text is taken letter by letter: a UUID in capitals, or without hyphens, is another id.
            It is not released unless it is passed or public.
        key : bytes, Path or "env:NAME", default=None
            At least 16 random bytes (``secrets.token_bytes(32)``), or the file or environment
            variable that holds a text of them (``secrets.token_hex(32)``); kept nowhere. None
            draws one that is forgotten after the call: the next call draws anew. The plan of a lazy
            table holds it, but for a variable, of which it holds the name. Bits are those of AES,
            from the extra ``keyed``; of a key that begins with ``b"blake2b:"`` those of blake2b,
            which needs no extra.
        dataset : str, default=""
            Name of the table: other names have independent noise.
        release : int, default=0
            Number of the release: another one is drawn anew, and is one more release. Below
            ``releases``, which the certificate is for; a `PersonLedger` counts by itself.
        on_drift : {"warn", "raise", "ignore"}, default="warn"
            What is done where the values of some column are distributed otherwise than in `fit`,
            so that the certificate is about other rows than these: a test of all columns together,
            which rows of the fitted distribution fail once in a hundred calls at most, whatever
            that distribution is. Of 32,768 rows or more it counts 16,384 at least, spread evenly
            and chosen by their places alone. Of fewer than 30 rows nothing is said, and nothing of
            a lazy table or of rows in ``groups``, of which "raise" is refused. It looks at each
            column by itself; ``certificate_.check(X)`` has the figures, of all rows.

        Returns
        -------
        table of the type of X, of shape (n_rows, n_public)
            With the index and types of X, and the released (and passed) columns in the order of
            `fit`; of a pyarrow RecordBatch, a Table. Of a lazy table a lazy one of its engine, of
            which nothing is computed yet but that all ids are there and differ.

        Raises
        ------
        UncertifiedError
            If the certificate does not hold.
        OverspentError
            If ``release`` is beyond what the certificate counts.
        TypeError, ValueError
            If X does not fit, ids are missing or not unique, or the key is none; of a key without
            ``row_id``, or of ``row_id`` with ``random_state``; under ``on_drift="raise"`` if rows
            do not look like those of `fit`.
        ModuleNotFoundError
            If the key asks for AES, and the package `cryptography` is not installed.

        Notes
        -----
        *Formal guarantees.* Under a key that stays secret, a release of distinct ids has the
        distribution of one fresh release, up to what a computer can do to tell AES-256 (or keyed
        blake2b) from a random function. Fitting anew, another ``dataset`` or ``release``
        give bits that are independent in the same sense. A row whose public values changed is drawn
        anew, as a whole: that it changed, and that it changed back, is seen, and not protected, and
        each different row of an id is one more release of that person, also of the columns that
        stayed as they were. They add up as releases of one row do (``releases=``) if the changes
        tell nothing about the secret and the first row, and can tell twice as much otherwise. No
        call sees earlier ones, but a `PersonLedger` does. Who has the key takes all noise away. Fit
        once, and save the noiser: what is fitted anew, on another processor or with other versions
        of numpy and scipy, need not be the same to the last bit, and its keyed noise is then
        another release.

        *Lazy tables.* Each part of a lazy table is released where it is, by the code and the bits
        of a release in memory: a plan that is computed again, in other parts or after a failure is
        the same release. Whoever reads the plan reads the key. Ids are counted when the plan is
        made: X must not change before it is computed. A value that has no place fails the task
        that meets it, with an error that names its column and not the value, and nobody is warned
        of values that were moved. DuckDB prints such an error, and raises one that points to it.

        Examples
        --------
        >>> import pandas as pd
        >>> from sklearn_puffer import PufferfishNoiser
        >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
        >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars, "client": range(30)})
        >>> noiser = PufferfishNoiser(sensitive="loan", public=["cars"]).fit(table)
        >>> key = b"blake2b:" + bytes(32)  # secrets.token_bytes(32), for noise that is secret
        >>> monday = noiser.transform(table, row_id="client", key=key, dataset="clients")
        >>> tuesday = noiser.transform(table[::-1], row_id="client", key=key, dataset="clients")
        >>> tuesday[::-1].equals(monday)
        True
        """
        return self._transformed(X, (row_id, key, dataset, release), on_drift)

    def _release_noted(
        self, X: Any, row_id: Any, key: bytes, *, marks: Any, whole: bool, **about: Any
    ) -> tuple[Any, Noted]:
        """Return a keyed release, and what a ledger of persons keeps of its rows."""
        noted = Noted(row_id, marks, whole)
        return self.transform(X, row_id=noted, key=key, **about), noted

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return what `transform` needs as JSON, without priors or counts, and write it to a file.

        `PufferfishRelease.from_json` makes a read-only transformer of it, in any process and beside
        other versions of Python, pandas and scikit-learn.

        Parameters
        ----------
        path : str or Path, default=None
            A file that does not exist yet; it appears whole or not at all.

        Returns
        -------
        str
            The release artifact: names and rules, what rows are released by (typical rows and the
            channel between them; or of each public column its values, or the ends and medians of
            its bins, or its categories, noise and scale); the certificate; and its fingerprint. It
            holds no distribution of a secret. But it still tells which values
            occur, and in how many thousandths of all rows (of fewer than a thousand rows, in how
            many), so that drift can be detected; the exact shares of categories without an order,
            from which they are drawn anew; and what the certificate tells.

        Raises
        ------
        UncertifiedError
            If the certificate does not hold.
        ValueError
            If there is a ``random_state``, a family of noise, a cost or a type of category of your
            own, or if the noiser was changed after `fit`.
        FileExistsError
            If there is such a file.

        Notes
        -----
        The whole estimator is saved by joblib or pickle, and holds what it learnt of secrets
        (priors or counts): keep it, and an artifact of typical rows, where you keep the table.
        `skops` saves a `PufferfishRelease`, but no noiser, whose priors lie under tuples of
        columns.

        Examples
        --------
        >>> import pandas as pd
        >>> from sklearn_puffer import PufferfishNoiser
        >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
        >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
        >>> PufferfishNoiser(epsilon=0.5, sensitive="loan").fit(table).to_json()[:37]
        '{"schema":"sklearn_puffer.release/3",'
        """
        self._check_as_certified()
        if not self.certificate_.holds:
            raise UncertifiedError(
                "the certificate does not hold, so there is no release to hand on; print it to see "
                "the remedy."
            )
        if self.random_state is not None:
            raise ValueError(
                f"random_state={self.random_state!r} makes releases that whoever knows it can "
                "undo, and a release artifact holds no seed; fit with random_state=None."
            )
        text = artifact_text(self._fitted, self.unknown)
        if read_artifact(text)[0].fingerprint() != self.certificate_.fingerprint:
            raise ValueError(
                f"what is read back of this {type(self).__name__} is not what its certificate_ is "
                "about; save the noiser with joblib."
            )
        if path is not None:
            write_new(path, text.encode(), private=self._fitted.mechanism.is_key_material)
        return text

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the kind of table that `transform` returns.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            "default" is the kind of X; None leaves the choice as it is.

        Returns
        -------
        self
            The noiser itself.
        """
        super().set_output(transform=transform)
        if transform is not None:
            self._container = transform
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the released columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of X, where it was an array.

        Returns
        -------
        ndarray of str objects
            In the order of `transform`.
        """
        check_is_fitted(self)
        seen, rules = getattr(self, "feature_names_in_", None), self._fitted.rules
        names = [f"x{k}" for k in range(self.n_features_in_)] if seen is None else list(seen)
        if input_features is not None:
            features = list(input_features)
            if seen is not None and features != names:
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(features) != len(names):
                raise ValueError(
                    f"input_features should have length equal to number of features "
                    f"({len(names)}), got {len(features)}"
                )
            names = features
        return np.array([names[rules.names.index(name)] for name in rules.order], dtype=object)

    @property
    def certificate_(self) -> Any:
        """What is proven about a release: a `Certificate`, or that of a swap."""
        check_is_fitted(self)
        return self._fitted.certificate

    @certificate_.setter
    def certificate_(self, value: Any) -> None:
        self._fitted = replace(self._fitted, certificate=value)

    @property
    def utility_(self) -> Any:
        """How much of each public column survives: a DataFrame, by name or position."""
        check_is_fitted(self)
        return utility_frame(self.certificate_.utility)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = self._takes_missing
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        family = _clones[self][0] if self in _clones else _families.setdefault(self, {})
        _clones[clone] = family, object()
        if hasattr(self, "_container"):
            clone._container = self._container
        return clone

    def _warn(
        self,
        sentences: Sequence[str],
        about: str,
        kind: type[Warning] = PufferfishWarning,
        *,
        share: float = 0.0,
        stacklevel: int,
    ) -> None:
        """Give one warning, if any; for clones only once, or again when the share has doubled."""
        if not sentences:
            return
        if self in _clones:
            family, mine = _clones[self]
            first, largest = family.setdefault(about, (mine, share))
            if first is not mine and share <= 2.0 * largest:
                return
            family[about] = first, max(largest, share)
        for sentence in sentences:
            warnings.warn(sentence, kind, stacklevel=stacklevel + 1)

    def _transformed(
        self,
        X: Any,
        asked: tuple[Any, Any, str, int],
        on_drift: str,
        sensitive_features: Any = None,
    ) -> Any:
        """Release X, called by `transform`; the secrets may stand beside it.

        ``asked`` has the row_id, key, data set and number of the release.
        """
        keying = check_keying(*asked, self.random_state)
        self._check_ready(keying)
        loud = check_verbose(self.verbose)
        fitted, groups = self._fitted, self._fitted.rules.groups
        margins = [] if groups is not None else fitted.rules.margins
        check_on_drift(on_drift, margins, _GROUPED if groups else fitted.mechanism.untested)
        container = getattr(self, "_container", None) or get_config()["transform_output"]
        if is_lazy(X) and keying is not None:
            self._check_lazily(X, sensitive_features, container, on_drift)
            with listening(loud, "release"):
                if not fitted.mechanism.by_row:
                    return fitted.mechanism.planned(self, fitted, X, keying)
                return plan_release(fitted, self.unknown, X, keying)
        with listening(loud, "release"):
            table = next_table(self, X)
            if groups is not None:
                groups.check(table)
            few = table.n_rows < LEAST_ROWS
            watch = None if few or not margins or on_drift == "ignore" else Watch(margins)
            secrets = self._secrets_of(table, X, sensitive_features)
            check_unknown(self.unknown)
            draw = Draw(
                self._entropy(),
                self.unknown,
                None if keying is None else keying.rows(table, X, fitted.context(keying)),
                watch,
                secrets,
                by=self,
                repeatable=keying is not None and keying.given is not None,
                n_jobs=check_jobs(self.n_jobs),
            )
            whole, moved = fitted.mechanism.released(table, fitted.rules, draw)
        drift = None if watch is None else watch.drift
        if drift is not None and drift.drifted:
            if on_drift == "raise":
                raise ValueError(drift.warning())
            warnings.warn(drift.warning(), PufferfishWarning, stacklevel=4)
        if moved:
            self._warn(
                [moved.sentence()], "moved", UnseenValuesWarning, share=moved.share(), stacklevel=4
            )
        return as_pandas(whole) if container == "pandas" else whole

    def _check_lazily(self, X: Any, sensitive_features: Any, container: str, on_drift: str) -> None:
        """Refuse secrets of a lazy table but those of `fit`, and what needs its rows in memory."""
        check_beside(X, sensitive_features, None)
        one = isinstance(sensitive_features, str)
        names = [sensitive_features] if one else [*(sensitive_features or [])]
        if names and names != [*self._fitted.rules.sensitive]:
            raise ValueError(
                f"sensitive_features names {listed(names)}, and the secrets of fit are in "
                f"{listed(list(self._fitted.rules.sensitive))}; leave it out, or fit with it."
            )
        groups = self._fitted.rules.groups
        if groups is not None:  # a group may be in several parts
            raise ValueError(
                "X is lazy, and each of its parts is released where it is, and "
                f"groups={quoted(groups.column)} counts the rows of each group in all of X before "
                "any is released; read X into memory, and call transform."
            )
        if on_drift == "raise":
            raise ValueError(
                'on_drift="raise" looks at all rows before any is given away, and X is a lazy '
                'table; pass on_drift="ignore", and look at a sample of X by '
                "certificate_.check(sample)."
            )
        if container != "default":
            raise ValueError(
                f"set_output(transform={container!r}) asks for a table in memory, and X is a lazy "
                'one, whose release is lazy too; call set_output(transform="default").'
            )

    def _secrets_of(
        self, table: Table, X: Any, sensitive_features: Any
    ) -> Mapping[Name, Values] | None:
        """Return the sensitive columns that stand beside a table, if any do."""
        if sensitive_features is None:
            return None
        if not self._fitted.mechanism.takes_secrets:
            raise ValueError(
                "sensitive_features= are the secrets of rows that are swapped, and this release "
                "needs none; leave it out."
            )
        return beside(sensitive_features, table.n_rows, readable(X), "sensitive_features")

    def _fingerprint(self, certificate: Any) -> str:
        return replace(self._fitted, certificate=certificate).fingerprint()

    def _check_ready(self, keying: Keying | None) -> None:
        """Refuse a release that is not fitted, was changed, or is not proven or not counted."""
        self._check_as_certified()
        way = check_choice(self.on_uncertified, "on_uncertified", ["raise", "warn"])
        certificate = self.certificate_
        if not certificate.holds:
            message = (
                f"the certificate does not hold: the proven loss {certificate.loss:.6g} exceeds "
                f"the budget {certificate.notion.budget_name()}; "
                f'{certificate.remedy or "use another strategy."} Or pass on_uncertified="warn" to '
                "release all the same, without a guarantee."
            )
            if way == "raise":
                raise UncertifiedError(message)
            warnings.warn(say.uncertified_sentence(certificate), PufferfishWarning, stacklevel=5)
        # neither the certificate nor a ledger would count a further draw
        ledger = keying is not None and keying.noted is not None
        if keying is None or ledger or keying.release < certificate.releases:
            return
        way_out = "fit with more releases=, or let a PersonLedger count them for each person."
        raise OverspentError(
            f"release={keying.release} is beyond the releases={certificate.releases} that the "
            f"certificate is for, numbered from 0: {getattr(certificate.rule, 'reason', way_out)}"
        )

    def _entropy(self) -> Callable[[int], Entropy]:
        """Return the source of random bits of the next table, by the index of a column."""
        seed = check_seed(self.random_state)
        if seed is None:
            return lambda column: system_entropy()
        self._warn([say.seed_sentence(seed)], "seed", stacklevel=5)
        call = next(_calls.setdefault(self, itertools.count()))  # no two tables are drawn alike
        return lambda column: seeded_entropy(seed, column, call)
