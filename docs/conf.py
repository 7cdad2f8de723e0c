"""Settings of the documentation: `sphinx-build -W -b html docs build/site` makes it."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [
    str(each) for each in (ROOT, HERE / "_build_steps", HERE / "figures", ROOT / "examples")
]

import docstrings  # noqa: E402
import inventories  # noqa: E402
import pages  # noqa: E402
import scraped  # noqa: E402
from _shared import tables_folder  # noqa: E402

from sklearn_puffer import __version__ as release  # noqa: E402

project = "sklearn_puffer"
author = "the sklearn_puffer developers"
project_copyright = author
version = ".".join(release.split(".")[:2])

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "formulas",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
suppress_warnings = ["config.cache"]  # the settings of the gallery hold functions
templates_path = ["_templates"]
exclude_patterns = ["_drawn", "_build_steps", "figures", "images/README.md"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
nitpicky = True
default_role = "autolink"  # `name` in a docstring: a link where there is one, else emphasis

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"

# What is public is what `__all__` says, in the order that it has there.
autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings say them in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_validation_checks = set()  # the tests validate

# Names of other projects are links where their lists of names could be fetched, and text elsewhere.
intersphinx_timeout = 10
intersphinx_mapping = inventories.reachable(
    {
        "python": "https://docs.python.org/3/",
        "numpy": "https://numpy.org/doc/stable/",
        "scipy": "https://docs.scipy.org/doc/scipy/",
        "sklearn": "https://scikit-learn.org/stable/",
        "pandas": "https://pandas.pydata.org/docs/",
    }
)
nitpick_ignore_regex = [
    ("py:obj", ".*"),  # what `autolink` made of a word in a docstring
    ("py:.*", r"(numpy|scipy|sklearn|pandas|collections|typing)\..*"),
    ("py:class", r"sklearn_puffer\._noise\.family\.MixedNoise"),  # one of the two that Noise is
]

# These take seconds; the others are shown as they are, since they take minutes or ask for tables.
RUN = [
    "audit_after",
    "case_study",
    "close_priors",
    "first_release",
    "known_distances",
    "own_noise",
    "plot_attributes",
    "plot_confidence",
    "plot_displays",
    "plot_iteration",
    "plot_one_column",
    "plot_table4",
    "plot_users",
    "production",
    "release_diabetes",
    "releases",
    "swap_customers",
    "swap_panel",
]
if (tables_folder() / "student-mat.csv").is_file():
    RUN += ["repeated_visits"]
if asked := os.environ.get("PUFFER_GALLERY"):  # these alone, where tests run every example
    RUN = asked.split()
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": rf"/({'|'.join(RUN)})\.py$",
    "ignore_pattern": r"(^|/)_\w+\.py$",
    "reset_argv": scraped.arguments,
    "image_scrapers": ("matplotlib", scraped.written_pictures, scraped.written_pages),
    "default_thumb_file": str(HERE / "_static" / "thumbnail.png"),
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 3600,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "sklearn_puffer"
html_static_path = ["_static"]
html_extra_path = [str(scraped.PAGES.parent)]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {page: [] for page in ("index", "getting_started", "concepts", "choosing")}
html_theme_options = {
    "logo": {"text": "sklearn_puffer"},
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def setup(app):
    """Draw the pictures, and read the pages of the checkout's root as pages of the site."""
    app.connect("autodoc-process-docstring", docstrings.escape)
    app.connect("builder-inited", pages.draw)
    app.connect("source-read", pages.read)
