"""What the gallery hands to the examples, and the pictures that they write."""

import shutil
import tempfile
from pathlib import Path

from sphinx_gallery.scrapers import figure_rst

FOLDER = Path(tempfile.mkdtemp(prefix="examples-"))
#: What examples write as HTML, in a folder whose contents lie at the root of the site.
PAGES = Path(tempfile.mkdtemp(prefix="pages-")) / "written"
PAGES.mkdir()


def arguments(gallery_conf, script_vars):
    """Return the command line of an example: what it writes goes to a folder of its own."""
    source = Path(script_vars["src_file"])
    takes_a_folder = "--output" in source.read_text(encoding="utf-8")
    return ["--output", str(FOLDER / source.stem)] if takes_a_folder else []


def written_pictures(block, block_vars, gallery_conf):
    """Move the pictures that an example wrote among those of the site, and show them."""
    shown = ""
    for picture in sorted((FOLDER / Path(block_vars["src_file"]).stem).glob("*.png")):
        target = next(block_vars["image_path_iterator"])
        shutil.move(picture, target)
        words = picture.stem.replace("_", " ")  # for who cannot see it
        shown += figure_rst([target], gallery_conf["src_dir"], fig_titles=words)
    return shown


def written_pages(block, block_vars, gallery_conf):
    """Move the pages that an example wrote to those of the site, and link to them."""
    source = Path(block_vars["src_file"])
    links = [_link(page, source.stem) for page in sorted((FOLDER / source.stem).glob("*.html"))]
    return f".. raw:: html\n\n    <p>Written: {', '.join(links)}</p>\n\n" if links else ""


def _link(page, example):
    name = f"{example}-{page.name}"
    shutil.move(page, PAGES / name)
    return f'<a href="../{PAGES.name}/{name}">{page.name}</a>'
