"""Lists of names of other projects, fetched once, where there is a network."""

import tempfile
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
    except OSError:  # no network, no such host, refused, too late
        return None
    if not content.startswith(HEAD):  # the page of somebody in between
        return None
    file.write_bytes(content)
    return file
