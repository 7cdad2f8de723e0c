"""Formulas as MathML, which browsers draw by themselves: no script, and nothing from elsewhere."""

from html import escape

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def setup(app):
    """Let `html_math_renderer = "mathml"` be known."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))


def _inline(self, node):
    self.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _block(self, node):
    self.body.append(f'<div class="formula">{_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _mathml(node, *, as_block):
    text = node.astext()
    try:
        return latex2mathml.tex2mathml(text, as_block=as_block)
    except Exception as error:  # what docutils does not know is told, and fails the build
        logger.warning("the formula %s is not read: %s", text, error, location=node)
        return escape(text)
