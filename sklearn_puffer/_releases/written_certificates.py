"""Certificates, as `to_dict` writes them, read again: without the noise and laws behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, NoReturn, get_type_hints

from sklearn_puffer._base import FieldError, quoted, read_as
from sklearn_puffer._releases.certificate import SCHEMA, Certificate, SetLoss
from sklearn_puffer._releases.channel_certificate import ChannelCertificate, ChannelLoss
from sklearn_puffer._releases.written_rules import rule_from_dict

_APART = {"rule", "around", "fitted"}
_GONE = {"lower_bound", "n_blocks"}  # of the facts of a channel


@dataclass(frozen=True)
class Elsewhere:
    """A loss over a set of priors that the noiser computes, and this certificate has not."""

    @property
    def known(self) -> SetLoss | None:
        """None: it was not computed when the certificate was written."""
        return None

    def value(self) -> NoReturn:
        """Refuse."""
        raise ValueError(
            "over_set is computed from the priors, which this certificate was written without; ask "
            "the noiser for certificate_.over_set before it is written."
        )


def certificate_from_dict(record: Mapping[str, Any], *, awaited: bool = False) -> Certificate:
    """Return the certificate that ``to_dict`` wrote; it knows no other priors.

    Parameters
    ----------
    record : dict
    awaited : bool, default=False
        Whether the loss over a set of priors was still to be computed.

    Raises
    ------
    ValueError
        If the record is none of a certificate, naming the field.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser
    >>> cars = [0, 5, 5, 1, 9, 8, 3, 3, 0, 0] * 3
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 15, "cars": cars})
    >>> certificate = PufferfishNoiser(sensitive="loan").fit(table).certificate_
    >>> certificate_from_dict(certificate.to_dict()) == certificate
    True
    """
    if record.get("schema") != SCHEMA:
        raise FieldError(
            f"field schema must be {SCHEMA!r}, got {quoted(record.get('schema'))}, of version "
            f"{quoted(record.get('version'))} of the library"
        )
    kind = ChannelCertificate if "channel" in record else Certificate
    if kind is ChannelCertificate:
        record = _of_channel(record)
    own = {
        name: read_as(hint, _given(record, name), name)
        for name, (hint, is_needed) in _told(kind).items()
        if is_needed or name in record  # what later versions added has a default
    }
    around: Any = read_as(SetLoss | None, _given(record, "over_set"), "over_set")
    if awaited and around is None:
        around = Elsewhere()
    rule = _given(record, "rule")
    return kind(**own, around=around, rule=None if rule is None else rule_from_dict(rule))


def _of_channel(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record of a channel without what earlier versions wrote besides."""
    for name, what in (("over_set", "a confidence set"), ("models", "a classifier")):
        if record.get(name):
            raise FieldError(
                f"field {name} is about {what}, for which this version knows no channels; release "
                'with the version that wrote it, or fit again with noise="swap"'
            )
    facts = record["channel"]
    if not isinstance(facts, Mapping):
        return record
    return {**record, "channel": {k: v for k, v in facts.items() if k not in _GONE}}


@cache
def _told(kind: type[Certificate]) -> dict[str, tuple[Any, bool]]:
    """Return the types of the fields that are written under their own names, and which must be."""
    hints = get_type_hints(kind)
    if kind is ChannelCertificate:
        hints["pairs"] = tuple[ChannelLoss, ...]
    return {
        each.name: (hints[each.name], each.default is MISSING)
        for each in fields(kind)
        if each.name not in _APART
    }


def _given(record: Mapping[str, Any], name: str) -> Any:
    if name not in record:
        raise FieldError(f"field {name} is missing")
    return record[name]
