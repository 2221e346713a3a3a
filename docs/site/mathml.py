"""Formulas as MathML, which browsers draw by themselves: no script, no font, no network."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def _visit(translator: Any, node: nodes.Element, display: str) -> None:
    made = convert(node.astext().replace("'", "′"), display=display)  # at its own height
    translator.body.append(f'<div class="math">{made}</div>' if display == "block" else made)
    raise nodes.SkipNode


def _inline(translator: Any, node: nodes.math) -> None:
    _visit(translator, node, "inline")


def _block(translator: Any, node: nodes.math_block) -> None:
    _visit(translator, node, "block")


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
