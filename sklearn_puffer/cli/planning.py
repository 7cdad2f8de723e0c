"""`puffer plan`: settings compared on a table, before anything is released."""

from __future__ import annotations

from typing import Any

import sklearn_puffer
from sklearn_puffer._tables import TableFile
from sklearn_puffer.cli.common import layout_of
from sklearn_puffer.cli.reporting import check_out, show
from sklearn_puffer.cli.settings import PREFIX, merged, plan_parameters, read_settings, unlisted


def plan(asked: Any) -> int:
    """Compare settings; those of the noiser in a settings file hold for all of them."""
    check_out(asked)
    settings = read_settings(asked.settings)
    how = unlisted(merged(settings["noiser"], asked, plan_parameters(), PREFIX))
    if "sensitive" not in how:
        raise ValueError("plan needs --sensitive NAME, the column whose values are protected.")
    file = TableFile(asked.table, layout_of(settings["table"], asked))
    show(sklearn_puffer.plan(file.stream(file.found_types()).whole(), **how), asked)
    return 0
