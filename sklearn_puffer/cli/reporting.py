"""`puffer report`: the certificate, as text, a page or JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sklearn_puffer._releases import growing_file
from sklearn_puffer.cli.common import fitted
from sklearn_puffer.cli.run import FINE, NO_PROMISE
from sklearn_puffer.cli.speech import say, tell

_WAYS: dict[str, Callable[[Any], str]] = {
    ".txt": lambda certificate: f"{certificate}\n",
    ".html": lambda certificate: _page(certificate),
    ".json": lambda certificate: certificate.to_json(),
}


def report(asked: Any) -> int:
    """Show a certificate, or write it; the status says whether it holds."""
    certificate = fitted(asked.form).certificate_
    status = FINE if certificate.holds else NO_PROMISE
    if asked.out is None:
        say(str(certificate))
        return status
    suffix = Path(asked.out).suffix.lower()
    if suffix not in _WAYS:
        raise ValueError(f"--out is {asked.out!r}, and must end in .txt, .html or .json.")
    with growing_file(asked.out, force=asked.force) as out:
        out.write(_WAYS[suffix](certificate).encode())
    tell(f"wrote {asked.out!r}")
    return status


def _page(certificate: Any) -> str:
    body = certificate._repr_html_()
    return f'<!doctype html>\n<meta charset="utf-8">\n<title>Certificate</title>\n{body}\n'
