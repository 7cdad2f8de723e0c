"""Pages that lie elsewhere in the checkout, links to them, and pictures that are drawn anew."""

import os
import re
import runpy
from pathlib import Path

from sphinx.errors import ExtensionError

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
#: What a page of the site is read from, where that is a file outside this folder.
ELSEWHERE = {
    "benchmark_results": "benchmarks/RESULTS.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "corrections": "CORRECTIONS.md",
    "security": "SECURITY.md",
}
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def draw(app):
    """Draw what the pages show, from the package as it is, in the size that the checkout keeps."""
    drawn = DOCS / "_drawn"
    drawn.mkdir(exist_ok=True)
    for script in sorted((DOCS / "figures").glob("[!_]*.py")):
        name = f"{script.stem}.png"
        runpy.run_path(str(script))["draw"](drawn / name)
        if _size(drawn / name) != _size(DOCS / "images" / name):
            raise ExtensionError(f"docs/images/{name} has another size now: draw it anew")


def _size(picture):
    """Return the width and the height of a PNG file, as its header has them."""
    return picture.read_bytes()[16:24]


def read(app, docname, source):
    """Put the text of a file in the place of a page that stands for it, and mend the links."""
    if (DOCS / f"{docname}.md").is_file():
        file = ROOT / ELSEWHERE[docname] if docname in ELSEWHERE else DOCS / f"{docname}.md"
        text = file.read_text(encoding="utf-8") if docname in ELSEWHERE else source[0]
        source[0] = LINK.sub(lambda found: _link(found, file.parent, docname), text)


def _link(found, folder, docname):
    """Return a link of a file in ``folder`` as it is on the site."""
    target = _on_the_site((folder / found[1]).resolve())
    here = (DOCS / docname).parent
    return f"]({os.path.relpath(target, here)}{found[2] or ''})"


def _on_the_site(file):
    if file.parent == DOCS / "images":
        return DOCS / "_drawn" / file.name
    if file.suffix == ".py" and file.parent == ROOT / "examples":
        return DOCS / "auto_examples" / f"{file.stem}.rst"
    if file == ROOT / "examples":
        return DOCS / "auto_examples" / "index.rst"
    names = {ROOT / path: DOCS / f"{name}.md" for name, path in ELSEWHERE.items()}
    return names.get(file, file)
