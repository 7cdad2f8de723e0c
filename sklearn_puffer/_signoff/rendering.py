"""Pages as HTML, by the templates beside it: the only module that imports Jinja2.

A page is one file without scripts, fonts or pictures from elsewhere, and tells browsers to fetch
nothing (Content-Security-Policy), so that what stands in a name cannot. Whatever is filled in is
escaped, and stays on one line.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sklearn_puffer._base import on_one_line


def render(template: str, **values: Any) -> str:
    """Return a page as an HTML file, from its document type to its end.

    Raises
    ------
    ModuleNotFoundError
        If Jinja2 is not installed.
    """
    return str(_templates().get_template(template).render(values))


def check_renders() -> None:
    """Refuse pages of HTML, before any work is done, where Jinja2 is not installed."""
    _templates()


@cache
def _templates() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise ModuleNotFoundError(
            "pages of HTML are made with Jinja2, which is not installed; "
            'pip install "sklearn-puffer[report]", or take .md, .txt or .json.'
        ) from error
    return jinja2.Environment(
        loader=jinja2.PackageLoader("sklearn_puffer._signoff"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _inert(value: Any) -> Any:
    """Return a text on one line; what a template made of such is whole already."""
    return value if hasattr(value, "__html__") else on_one_line(str(value))
