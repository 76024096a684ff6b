"""Functions that return pieces of self-contained HTML pages as strings, which :func:`page` joins.

A page contains no scripts, fonts or links, and its content security policy forbids it to load any. It has a light and a
dark mode, and fits the screen of a phone. Text arguments are escaped. Figures are inline SVG with the colours of the
style sheet; colour is never the only cue, and each figure has a title for screen readers.

Longer pages are jinja2 templates in the folder of the code that fills them, rendered by :func:`render`; they extend
``plots/templates/page.html`` and call the functions of this module.

>>> chart = line_chart([Series("SVM-map", [1, 2, 3], [0.5, 0.1, 0.001])], x="passes", y="gap", log_y=True)
>>> text = page("A <b>title", section("Convergence", chart))
>>> "A &lt;b&gt;title" in text, "<svg" in text, "http://" in text
(True, True, False)
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from structsvm.common.escaping import printable
from structsvm.plots import drawing
from structsvm.plots.colours import COLOURS
from structsvm.plots.figures import Bars, Figure, Lines, Matrix, Series as Series


class Column(NamedTuple):
    """A column of a table; numeric columns are right-aligned."""

    name: str
    numeric: bool = False


def columns(*texts: str, numbers: Iterable[str] = ()) -> list[Column]:
    """Return text columns with the names ``texts``, followed by numeric columns with the names ``numbers``."""
    return [*map(Column, texts), *(Column(name, True) for name in numbers)]


Rows = Iterable[Sequence[str]]


def p_value(p: float) -> str:
    """Format a p-value for a table, with four decimals or as ``<0.0001``."""
    return "<0.0001" if p < 1e-4 else f"{p:.4f}"


def measure_name(measure: str) -> str:
    """Return the name of a measure as it is written in papers, such as ``NDCG@10``."""
    return measure.replace("map", "MAP").replace("mrr", "MRR").replace("ndcg", "NDCG")


def p_said(p: float) -> str:
    """Format a p-value for a sentence: ``p = 0.0123`` or ``p < 0.0001``."""
    return f"p < {p_value(p)[1:]}" if p < 1e-4 else f"p = {p_value(p)}"


def listed(names: Sequence[str]) -> str:
    """Join names with commas and "and"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def page(title: str, *pieces: str, lead: str = "") -> str:
    """Return a complete HTML document with the given pieces; ``lead`` is a paragraph below the title."""
    return render("plots/templates/page.html", title=title, lead=lead, body=_joined(pieces))


def render(template: str, **values: Any) -> str:
    """Return a rendered template, given by its path inside the package."""
    defaults = {"lead": "", "above": "", "style": "", "refresh": None, "frames": False}
    return _environment().get_template(template).render({**defaults, **values})


def section(title: str, *pieces: str) -> str:
    """Return a section of a page, with a heading and the given pieces."""
    return _piece("section", title, _joined(pieces))


def paragraph(text: str, *, small: bool = False) -> str:
    """Return a paragraph of text, in a small font if ``small``."""
    return _piece("paragraph", text, small)


def side_by_side(*pieces: str) -> str:
    """Return the pieces side by side, or below each other on narrow screens."""
    return _piece("side_by_side", [Markup(piece) for piece in pieces])


def table(columns: Sequence[Column], rows: Rows, *, caption: str, highlight: Any = None) -> str:
    """Return a table; if it is wider than the screen, it scrolls in a box in which the first column remains visible.

    The first cell of a row is its heading; the row or rows with index in ``highlight`` are bold.
    """
    if isinstance(highlight, int):
        highlight = (highlight,)
    return _piece("table", columns, rows, caption, () if highlight is None else highlight)


def draw(figure: Figure, *, alt: str = "") -> str:
    """Return a figure as SVG, or bars as an HTML list, whose names and numbers are text.

    ``alt`` is the description for screen readers; by default it contains the ends of the lines, or the counts.
    """
    if isinstance(figure, Bars):
        return bar_list(figure.names, figure.values, caption=figure.label)
    if isinstance(figure, Lines) and not any(len(s.x) for s in figure.series):
        return paragraph(f"{figure.y}: nothing to show", small=True)
    return f"<figure>{drawing.svg(figure, alt)}</figure>"


def in_row(figures: Iterable[Figure]) -> str:
    """Return several figures side by side."""
    return side_by_side(*map(draw, figures))


def line_chart(series: Sequence[Series], **options: Any) -> str:
    """Return a line chart; ``options`` are fields of :class:`~structsvm.plots.figures.Lines`."""
    return draw(Lines(series, **options))


def bar_list(names: Sequence[str], values: Sequence[float], *, caption: str) -> str:
    """Return a list of names, each with a bar and its value; bars of negative values point to the left."""
    # bars start in the middle if any value is negative, otherwise at the left edge, and use the whole width
    extent = max((abs(v) for v in values), default=0.0) or 1.0
    signed = any(v < 0 for v in values)
    rows = [
        (name, v, abs(v) / extent * (50 if signed else 100), _signed(v) if signed else _signed(v)[1:])
        for name, v in zip(names, values, strict=True)
    ]
    return _piece("bar_list", rows, signed, caption)


def style_in(name: str) -> str:
    """Return the style sheet for a box of class ``name`` inside another page, such as a notebook.

    Its rules apply only inside the box, and its colours are legible on light and dark backgrounds.
    """
    return _piece("style_in", name)


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−") if abs(value) < 100 else f"{value:+.3g}".replace("-", "−")


def _joined(pieces: Iterable[str]) -> Markup:
    return Markup("\n".join(pieces))


def _piece(name: str, *values: object) -> str:
    """Return the output of a macro of ``pieces.html``."""
    return str(getattr(_pieces(), name)(*values)).strip()


@cache
def _pieces() -> Any:
    return _environment().get_template("plots/templates/pieces.html").module


@cache
def _environment() -> Environment:
    """Return the jinja2 environment of the package's templates, which escapes text and control characters."""
    # text is escaped unless it is Markup, such as the results of this module; a missing variable is an error
    environment = Environment(
        loader=FunctionLoader(lambda name: files("structsvm").joinpath(name).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.globals |= {"COLOURS": COLOURS, "Matrix": Matrix}
    for function in (globals()[name] for name in _IN_TEMPLATES):
        environment.globals[function.__name__] = _as_markup(function)
    return environment


_IN_TEMPLATES = ("draw", "in_row", "table")
"""Functions available in templates, which write headings and paragraphs as HTML."""


def _as_markup(function: Callable[..., str]) -> Callable[..., Markup]:
    return lambda *values, **options: Markup(function(*values, **options))
