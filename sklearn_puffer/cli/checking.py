"""`puffer check`: whether rows still look like those of fit."""

from __future__ import annotations

from typing import Any

from sklearn_puffer import PufferfishRelease
from sklearn_puffer._noiser import types_of
from sklearn_puffer._tables import TableFile
from sklearn_puffer.cli.common import fitted, layout_of
from sklearn_puffer.cli.reporting import check_out, show
from sklearn_puffer.cli.run import FINE, NO_PROMISE
from sklearn_puffer.cli.settings import read_settings


def check(asked: Any) -> int:
    """Show what there is to tell of the rows; the status says whether they differ."""
    check_out(asked)
    settings = read_settings(asked.settings)
    noiser = fitted(asked.form)
    if asked.sensitive and isinstance(noiser, PufferfishRelease):
        raise ValueError(
            f"{asked.form!r} is a form, which holds no laws of secrets to compare with; leave "
            "--sensitive out, or give the noiser that `puffer fit --noiser FILE` saved."
        )
    file = TableFile(asked.table, layout_of(settings["table"], asked))
    types = {**(file.found_types() if asked.sensitive else {}), **types_of(noiser)}
    found = noiser.certificate_.check(file.stream(types).whole(), asked.sensitive)
    show(found, asked)
    return NO_PROMISE if found.drifted else FINE
