"""Formulas as MathML, which browsers render without scripts, fonts or a network."""

from typing import Any

from docutils.utils.math.latex2mathml import tex2mathml


def _inline(self: Any, node: Any) -> None:
    self.body.append(tex2mathml(node.astext(), as_block=False))
    raise _skip()


def _block(self: Any, node: Any) -> None:
    self.body.append(self.starttag(node, "div", CLASS="formula"))
    self.body.append(tex2mathml(node.astext(), as_block=True))
    self.body.append("</div>")
    raise _skip()


def _skip() -> Exception:
    from docutils import nodes

    return nodes.SkipNode()


def setup(app: Any) -> dict[str, Any]:
    """Register the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
