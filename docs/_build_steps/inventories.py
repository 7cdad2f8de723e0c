"""Lists of names of other projects, fetched once, where there is a network."""

import tempfile
import zlib
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen

TIMEOUT = 5  # seconds
HEAD = b"# Sphinx inventory"


def reachable(projects):
    """Return intersphinx's mapping of the projects whose inventory comes, without a warning."""
    folder = Path(tempfile.mkdtemp(prefix="inventories-"))
    found = {name: _fetched(url, folder / name) for name, url in projects.items()}
    return {name: (projects[name], str(file)) for name, file in found.items() if file}


def _fetched(url, file):
    request = Request(url + "objects.inv", headers={"User-Agent": "sphinx"})
    try:
        with urlopen(request, timeout=TIMEOUT) as answer:
            content = answer.read()
    except (OSError, HTTPException):  # no network, no such host, refused, too late, cut off
        return None
    if not _is_whole(content):  # the page of somebody in between, or a part
        return None
    file.write_bytes(content)
    return file


def _is_whole(content):
    """Return whether four lines of text and a compressed list have come."""
    lines = content.split(b"\n", 4)
    if not content.startswith(HEAD) or len(lines) < 5:
        return False
    try:
        return bool(zlib.decompress(lines[4]))
    except zlib.error:
        return False
