"""`puffer audit`: what attackers find out from rows that were held out of fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sklearn_puffer
from sklearn_puffer._noiser import types_of
from sklearn_puffer._tables import Layout, TableFile
from sklearn_puffer.cli.common import check_holds, fitted, layout_of
from sklearn_puffer.cli.reporting import check_out, show
from sklearn_puffer.cli.run import FINE, NO_PROMISE
from sklearn_puffer.cli.settings import PREFIX, audit_parameters, merged, read_settings, unlisted


def audit(asked: Any) -> int:
    """Show what attackers found; the status says whether it is more than was promised."""
    check_out(asked)
    settings = read_settings(asked.settings)
    how = unlisted(merged({}, asked, audit_parameters(), PREFIX))
    noiser = fitted(asked.form)
    check_holds(noiser)
    layout = layout_of(settings["table"], asked)
    named = _named(asked.peers or [])
    peers = {name: _rows(path, layout, noiser) for name, path in named.items()}
    table = _rows(asked.table, layout, noiser)
    found = sklearn_puffer.audit(noiser, table, peers=peers, verbose=not asked.quiet, **how)
    show(found, asked)
    return NO_PROMISE if found.findings else FINE


def _named(texts: Sequence[str]) -> dict[str, str]:
    """Return the file of each peer."""
    found: dict[str, str] = {}
    for text in texts:
        name, _, path = text.partition("=")
        if not (name and path):
            raise ValueError(f"--peer {text!r} is not NAME=FILE; write it as remover=removed.csv.")
        if name in found:
            raise ValueError(f"--peer gives {name!r} twice; name each peer otherwise.")
        found[name] = path
    return found


def _rows(path: str, layout: Layout, noiser: Any) -> Any:
    """Return the rows of a file, whose released columns have the types that were fitted."""
    file = TableFile(path, layout)
    return file.stream({**file.found_types(), **types_of(noiser)}).whole()
