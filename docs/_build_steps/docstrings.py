"""Docstrings as they are written, read as text: bars and trailing underscores mean nothing there.

In reStructuredText ``|x|`` is a substitution and ``theta_`` a link; here they are an absolute value
and an attribute.
"""

import re

LITERAL = re.compile(r"(``.*?``|`[^`]*`_?|\\.)")
MARKS = re.compile(r"\||(?<=\w)_(?!\w)")


def escape(app, what, name, obj, options, lines):
    """Escape these marks in the lines of a docstring, but for formulas, examples and literals."""
    verbatim = None  # the indentation of the directive, or of the example, that holds the lines
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if verbatim is not None and line.strip() and indent <= verbatim:
            verbatim = None
        if line.lstrip().startswith((".. math::", ".. code", ">>>")) or line.rstrip().endswith(
            "::"
        ):
            verbatim = indent - line.lstrip().startswith(">>>")
        if verbatim is None:
            lines[number] = _escaped(line)
        elif not line.strip() and lines[number - 1].strip() and _is_example(lines, number):
            verbatim = None


def _is_example(lines, number):
    """Return whether the paragraph that ends before this line began with a prompt."""
    first = number - 1
    while first > 0 and lines[first - 1].strip():
        first -= 1
    return lines[first].lstrip().startswith(">>>")


def _escaped(line):
    parts = LITERAL.split(line)
    return "".join(
        part if place % 2 else MARKS.sub(r"\\\g<0>", part) for place, part in enumerate(parts)
    )
