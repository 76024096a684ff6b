"""Pieces of a self-contained HTML page: functions return pieces as strings, and :func:`page` puts them together.

A page has no script, font or address: it opens from a file, on a phone, in light and dark mode, and its content policy
forbids it to load anything. Every text argument is escaped. Charts are inline SVG with the colours of the style sheet;
nothing is shown by colour alone, and each chart has a title for screen readers.

>>> chart = line_chart([Series("SVM-map", [1, 2, 3], [0.5, 0.1, 0.001])], x="passes", y="gap", log_y=True)
>>> text = page("A <b>title", section("Convergence", chart))
>>> "A &lt;b&gt;title" in text, "<svg" in text, "http://" in text
(True, True, False)
"""

from __future__ import annotations

import base64
import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from structsvm.common.escaping import escape
from structsvm.report.charts import (
    HEIGHT,
    MARGIN,
    WIDTH,
    Axis,
    Frame,
    legend,
    line_style,
    marker,
    number,
    png,
    svg,
    upright,
)

__all__ = [
    "Column", "Series", "Shelf", "bar_list", "details", "difference_chart", "line_chart", "listed", "p_said",
    "p_value", "page", "paragraph", "picture", "rankings", "section", "side_by_side", "step_chart", "table",
    "weight_image",
]  # fmt: skip


class Column(NamedTuple):
    """A column of a table; numbers are right-aligned, digit under digit."""

    name: str
    numeric: bool = False


class Series(NamedTuple):
    """One line of a chart; ``low`` and ``high`` are the ends of a band around it, such as an interval."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


def p_value(p: float) -> str:
    """Format a p-value as tables show it: four decimals, or a bound.

    Examples
    --------
    >>> p_value(0.01234), p_value(3e-9)
    ('0.0123', '<0.0001')
    """
    return "<0.0001" if p < 1e-4 else f"{p:.4f}"


def p_said(p: float) -> str:
    """Format a p-value for a sentence: ``p = 0.0123`` or ``p < 0.0001``."""
    return f"p < {p_value(p)[1:]}" if p < 1e-4 else f"p = {p_value(p)}"


def listed(names: Sequence[str]) -> str:
    """Join names in a sentence.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def page(
    title: str,
    *pieces: str,
    lead: str = "",
    above: str = "",
    style: str = "",
    refresh: int | None = None,
    frames: bool = False,
) -> str:
    """Return a complete HTML document.

    Parameters
    ----------
    title : str
        Title of the page; escaped here, as is ``lead``.
    *pieces : str
        HTML from the other functions.
    lead : str
        The result in a sentence or two, under the title.
    above : str
        HTML before the title, such as links to other pages.
    style : str
        Rules of the pieces' own, besides those of all pages.
    refresh : int, optional
        Seconds after which a browser loads the page again.
    frames : bool
        Whether pages of the same origin may stand in it.
    """
    again = "" if refresh is None else f'<meta http-equiv="refresh" content="{refresh:d}">\n'
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'" + "; frame-src 'self'" * frames
    heading = f"<h1>{escape(title)}</h1>" + (f'<p class="lead">{escape(lead)}</p>' if lead else "")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="color-scheme" content="light dark">\n{again}'
        f"<title>{escape(title)}</title>\n<style>{_CSS}{style}</style>\n</head>\n<body>\n<main>\n{above}{heading}\n"
        + "\n".join(pieces)
        + "\n</main>\n</body>\n</html>\n"
    )


def section(title: str, *pieces: str) -> str:
    """Return a part of the page with a heading."""
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(pieces) + "\n</section>"


def paragraph(text: str, *, small: bool = False) -> str:
    """Return a paragraph of escaped text."""
    return f"<p{' class=note' if small else ''}>{escape(text)}</p>"


def side_by_side(*pieces: str) -> str:
    """Put pieces in a row if the screen is wide enough, else below each other."""
    return '<div class="row">' + "".join(f"<div>{piece}</div>" for piece in pieces) + "</div>"


def details(summary: str, *pieces: str) -> str:
    """Return pieces that are shown on demand."""
    return f"<details><summary>{escape(summary)}</summary>{''.join(pieces)}</details>"


def table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[str]],
    *,
    caption: str,
    highlight: int | Collection[int] | None = None,
) -> str:
    """Return a table that scrolls inside its own box if it is wider than the screen; the first column stays visible.

    Parameters
    ----------
    columns : sequence of Column
    rows : iterable of sequences of str
        Formatted cells; the first of each row is its heading.
    caption : str
    highlight : int or collection of int, optional
        Rows that are set in bold; several if they are equal.
    """
    kind = [' class="n"' if column.numeric else "" for column in columns]
    head = "".join(f'<th scope="col"{k}>{escape(c.name)}</th>' for k, c in zip(kind, columns, strict=True))
    bold = () if highlight is None else (highlight,) if isinstance(highlight, int) else highlight
    body = []
    for i, row in enumerate(rows):
        cells = [f'<th scope="row">{escape(row[0])}</th>']
        # sentences are broken into lines, names and figures are not
        cells += [
            f"<td{' class=t' if not k and len(cell) > _LONG else k}>{escape(cell)}</td>"
            for k, cell in zip(kind[1:], row[1:], strict=True)
        ]
        body.append(f"<tr{' class=best' if i in bold else ''}>{''.join(cells)}</tr>")
    label = f'aria-label="{escape(caption)}"'
    # the caption is outside of the scrolling box, in which it would be cut off with the table
    return (
        f'<figure><figcaption>{escape(caption)}</figcaption><div class="scroll" tabindex="0" role="region" {label}>'
        f"<table {label}><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div></figure>"
    )


def line_chart(
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
    whole_x: bool = False,
    mark: float | None = None,
    rings: Sequence[float | None] = (),
    y_range: tuple[float, float] | None = None,
) -> str:
    """Draw lines over a common axis, distinguished by colour, dash and marker.

    Parameters
    ----------
    series : sequence of Series
        Lines to draw. On a log axis points that are not positive are left out.
    x, y : str
        Titles of the axes.
    log_x, log_y : bool
    whole_x : bool
        The axis of x, of whole numbers, begins at the first of them and not at 0.
    mark : float, optional
        A value of y that a dashed line marks, such as the tolerance.
    rings : sequence of float or None
        For each series the x of the point to ring, such as the C chosen; None for no ring.
    y_range : tuple of float, optional
        Values that the axis of y covers in any case, so that charts side by side have the same.

    Examples
    --------
    >>> line_chart([Series("a", [1, 2], [1.0, 2.0])], x="pass", y="value").count("<circle")
    3
    """
    lines = [
        Series(s.name, *zip(*kept, strict=True))
        for s in series
        if (
            kept := [
                (a, b, low, high)
                for a, b, low, high in zip(s.x, s.y, s.low or s.y, s.high or s.y, strict=True)
                if math.isfinite(b) and (b > 0 or not log_y) and (a > 0 or not log_x)
            ]
        )
    ]
    if not lines:
        return paragraph(f"{y}: nothing to show", small=True)
    xs = [v for s in lines for v in s.x]
    ys = [v for s in lines for values in (s.y, s.low, s.high) for v in values or () if v > 0 or not log_y]
    ys += ([] if mark is None else [mark]) + list(y_range or ())
    first = min(xs) if log_x or whole_x else min(0.0, *xs)
    frame = Frame(Axis(first, max(xs), log=log_x, whole=whole_x), Axis(min(ys), max(ys), log=log_y))
    ringed = dict(zip((s.name for s in series), rings, strict=False))
    parts = [frame.grid(x, y)]
    if mark is not None:
        (x0, y0), (x1, _) = frame.at(frame.x.low, mark), frame.at(frame.x.high, mark)
        parts.append(f'<path class="mark" d="M{x0} {y0}H{x1}"/>')
    for i, s in enumerate(lines):
        colour, dash, shape = line_style(i)
        points = [frame.at(a, b) for a, b in zip(s.x, s.y, strict=True)]
        path = "L".join(f"{px} {py}" for px, py in points)
        band = ""
        if s.low is not None and s.high is not None and (s.low != s.y or s.high != s.y):
            edge = [*zip(s.x, s.high, strict=True), *zip(s.x[::-1], s.low[::-1], strict=True)]
            band = f'<path class="band" d="M{"L".join("{} {}".format(*frame.at(a, b)) for a, b in edge)}Z"/>'
        stride = max(1, len(points) // 12)  # keeps markers apart
        chosen = {*range(0, len(points), stride), len(points) - 1}
        marks = "".join(marker(shape, *points[k]) for k in sorted(chosen))
        if (place := ringed.get(s.name)) is not None and place in s.x:
            cx, cy = points[list(s.x).index(place)]
            marks += f'<circle class="ring" cx="{cx}" cy="{cy}" r="7.5"/>'
        parts.append(
            f'<g class="{colour}">{band}<path class="line" stroke-dasharray="{dash}" d="M{path}"/>{marks}</g>'
        )
    title = f"{y} against {x}: " + "; ".join(f"{s.name} ends at {s.y[-1]:.3g}" for s in lines)
    return f"<figure>{svg(WIDTH, HEIGHT, title, ''.join(parts))}{legend([s.name for s in lines])}</figure>"


def step_chart(
    name: str, outline: tuple[Sequence[float], Sequence[float]], *, y_range: tuple[float, float]
) -> str:
    """Draw what the score of a base function contributes, with its name above.

    Charts of one ``y_range`` can be compared.

    Parameters
    ----------
    name : str
    outline : (sequence of float, sequence of float)
        Corners of the line, as :meth:`StepFunction.outline <structsvm.features.binning.StepFunction.outline>` gives
        them.
    y_range : (float, float)
    """
    x, y = outline
    frame = Frame(Axis(min(x), max(x), log=False), Axis(*y_range, log=False))
    path = "L".join("{} {}".format(*frame.at(a, b)) for a, b in zip(x, y, strict=True))
    (x0, y0), (x1, _) = frame.at(frame.x.low, 0.0), frame.at(frame.x.high, 0.0)
    drawn = f'{frame.grid("score", "adds")}<path class="mark" d="M{x0} {y0}H{x1}"/>'
    drawn += f'<g class="s0"><path class="line" d="M{path}"/></g>'
    title = f"{name}: adds {y[0]:.3g} at its lowest scores, {y[-1]:.3g} at its highest"
    return f"<figure><figcaption>{escape(name)}</figcaption>{svg(WIDTH, HEIGHT, title, drawn)}</figure>"


def difference_chart(values: Sequence[float], *, y: str, title: str, unit: str = "queries") -> str:
    """Draw one bar per query, sorted from gain to loss: up is a gain, down a loss."""
    ordered = sorted((float(v) for v in values), reverse=True)
    extent = max((abs(v) for v in ordered), default=0.0) or 1.0
    axis = Axis(-extent, extent, log=False)
    width, height = WIDTH, HEIGHT
    left, right, top, _ = MARGIN
    bottom = 26

    def level(v: float) -> float:
        return round(height - bottom - axis.share(v) * (height - top - bottom), 1)

    step = (width - left - right) / max(1, len(ordered))
    zero = level(0.0)
    parts = []
    for tick in axis.ticks():
        parts.append(f'<path class="grid" d="M{left} {level(tick)}H{width - right}"/>')
        parts.append(f'<text x="{left - 5}" y="{level(tick) + 4}" text-anchor="end">{number(tick)}</text>')
    for i, v in enumerate(ordered):
        a, b = min(zero, level(v)), max(zero, level(v))
        x0 = left + i * step
        kind = "pos" if v > 0 else "neg"
        parts.append(
            f'<rect class="{kind}" x="{x0:.2f}" y="{a}" width="{max(0.4, step * 0.85):.2f}" height="{b - a:.1f}"/>'
        )
    parts.append(f'<path class="axis" d="M{left} {zero}H{width - right}"/>')
    middle = (left + width - right) / 2
    parts.append(
        f'<text x="{middle}" y="{height - 8}" text-anchor="middle">{escape(unit)}, best gain first</text>'
    )
    parts.append(upright(y, top, height - bottom))
    return f"<figure>{svg(width, height, title, ''.join(parts))}</figure>"


def bar_list(names: Sequence[str], values: Sequence[float], *, caption: str) -> str:
    """Draw values by name: positive bars to the right, negative ones to the left, each with its number.

    If none is negative, there is no sign, and bars start at the left.
    """
    extent = max((abs(v) for v in values), default=0.0) or 1.0
    signed = any(v < 0 for v in values)
    middle = 50 if signed else 0
    rows = []
    for name, value in zip(names, values, strict=True):
        share = abs(value) / extent * (100 - middle)
        side = f"left:{middle}%" if value >= 0 else f"right:{middle}%"
        kind = "pos" if value >= 0 else "neg"
        rows.append(
            f'<li><span class="name">{escape(name)}</span><span class="track{"" if signed else " plain"}">'
            f'<span class="bar {kind}" style="{side};width:{share:.1f}%"></span></span>'
            f'<span class="n">{_signed(value) if signed else _signed(value)[1:]}</span></li>'
        )
    return f'<figure><ul class="bars">{"".join(rows)}</ul><figcaption>{escape(caption)}</figcaption></figure>'


def weight_image(values: Any, *, title: str, caption: str) -> str:
    """Draw a matrix of signed numbers as an image with the sign in each cell, and a table of the numbers below.

    Parameters
    ----------
    values : array-like of float, shape (rows, columns)
    title : str
        Title of the image for screen readers.
    caption : str
    """
    matrix = [[float(v) for v in row] for row in values]
    extent = max((abs(v) for row in matrix for v in row), default=0.0) or 1.0
    size = 20
    cells = []
    for i, row in enumerate(matrix):
        for j, v in enumerate(row):
            share = abs(v) / extent
            kind = "pos" if v > 0 else "neg"
            cells.append(
                f'<rect class="{kind}" x="{j * size}" y="{i * size}" width="{size}" height="{size}" '
                f'fill-opacity="{share:.2f}"><title>{_signed(v)}</title></rect>'
            )
            if share >= 0.05:
                cells.append(
                    f'<text class="sign" x="{(j + 0.5) * size}" y="{(i + 0.5) * size + 4}" text-anchor="middle">'
                    f"{'+' if v > 0 else '−'}</text>"
                )
    width, height = size * len(matrix[0]), size * len(matrix)
    frame = f'<rect class="frame" x="0" y="0" width="{width}" height="{height}"/>'
    numbers = table(
        [Column("row"), *(Column(str(j + 1), numeric=True) for j in range(len(matrix[0])))],
        [[str(i + 1), *(_signed(v) for v in row)] for i, row in enumerate(matrix)],
        caption=f"{title}: the numbers",
    )
    return (
        f'<figure class="weights">{svg(width, height, title, "".join(cells) + frame)}'
        f"<figcaption>{escape(caption)}</figcaption>{details('The numbers', numbers)}</figure>"
    )


def picture(pixels: Any, *, alt: str) -> str:
    """Draw a small greyscale image, larger values darker.

    Parameters
    ----------
    pixels : array-like of float in [0, 1], shape (rows, columns)
    alt : str
        Description of the image for screen readers.
    """
    rows = [bytes(round(255 * (1 - min(1.0, max(0.0, float(v))))) for v in row) for row in pixels]
    data = base64.b64encode(png(rows)).decode()
    return f'<img src="data:image/png;base64,{data}" alt="{escape(alt)}" width="32" height="32">'


class Shelf(NamedTuple):
    """One ranking to look at: ``items`` are (HTML of the document, whether it is relevant)."""

    name: str
    value: str
    items: Sequence[tuple[str, bool]]


def rankings(query: str, title: str, shelves: Sequence[Shelf]) -> str:
    """Return the first results of several systems for one query; hits have a tick and a full frame, others a cross."""
    rows = []
    for shelf in shelves:
        items = "".join(
            f'<li class="{"hit" if hit else "miss"}">{item}<span>{"✓" if hit else "✗"}</span></li>'
            for item, hit in shelf.items
        )
        rows.append(f'<p class="shelf"><strong>{escape(shelf.name)}</strong> {escape(shelf.value)}</p>')
        rows.append(f'<ol class="shelf">{items}</ol>')
    shown = f'<span class="query">{query}</span> ' if query else ""
    return f"<article><h3>{shown}{escape(title)}</h3>{''.join(rows)}</article>"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−") if abs(value) < 100 else f"{value:+.3g}".replace("-", "−")


_LONG = 40
"""Characters from which a cell without figures is broken into lines."""

_CSS = """
:root{color-scheme:light dark;--back:#fbfaf7;--card:#fff;--ink:#1d2430;--soft:#5b6472;--rule:#dcdad3;
--pos:#b45309;--neg:#1d4ed8;--s0:#1d4ed8;--s1:#b45309;--s2:#0f766e;--s3:#9d174d;--hit:#15803d;--miss:#8a8f98;
--shade:#1d243040}
@media (prefers-color-scheme:dark){:root{--back:#12161d;--card:#1a2029;--ink:#e7e9ee;--soft:#a4adbb;--rule:#323b48;
--pos:#f59e0b;--neg:#7aa2ff;--s0:#7aa2ff;--s1:#f59e0b;--s2:#2dd4bf;--s3:#f472b6;--hit:#4ade80;--miss:#8a93a1;
--shade:#c3cbd850}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif;-webkit-text-size-adjust:100%;overflow-wrap:anywhere}
main{max-width:60rem;margin:0 auto;padding:1.25rem 1rem 3rem}
h1{font-size:clamp(1.4rem,5vw,2rem);line-height:1.2;margin:.5rem 0 .75rem;text-wrap:balance}
h2{font-size:1.2rem;margin:0 0 .5rem}h3{font-size:1rem;margin:0 0 .5rem;display:flex;align-items:center;gap:.6rem}
p{margin:.4rem 0 .8rem;max-width:46rem}.lead{font-size:1.1rem}
.note,figcaption{color:var(--soft);font-size:.9rem}
section{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:1rem;margin:1rem 0}
.row{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,19rem),1fr));gap:1rem}
.row>div{min-width:0}
/* a shadow on the side where there is more to scroll to: the card-coloured covers move with the content */
.scroll{overflow-x:auto;max-width:100%;background:linear-gradient(90deg,var(--card) 40%,transparent) 0/3rem 100%
no-repeat local,linear-gradient(270deg,var(--card) 40%,transparent) 100%/3rem 100% no-repeat local,
linear-gradient(90deg,var(--shade),transparent) 0/1rem 100% no-repeat scroll,
linear-gradient(270deg,var(--shade),transparent) 100%/1rem 100% no-repeat scroll}
.scroll:focus-visible{outline:2px solid var(--soft);outline-offset:2px}
table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{padding:.35rem .6rem;border-bottom:1px solid var(--rule);text-align:left;white-space:nowrap;font-weight:400}
th:first-child{position:sticky;left:0;background:var(--card);padding-left:0}
@media(max-width:30rem){tbody th{white-space:normal;min-width:6.5rem}}
td.t{white-space:normal;min-width:11rem;max-width:46rem}
thead th{color:var(--soft);border-bottom-width:2px}.n{text-align:right;font-variant-numeric:tabular-nums}
.best th,.best td{font-weight:700}
figure{margin:.5rem 0}figure>svg{display:block;width:100%;max-width:32rem;height:auto}
figure.weights>svg{max-width:15rem}
svg text{fill:var(--soft);font-size:11px;font-family:inherit}svg text.sign{fill:var(--ink);font-size:12px}
.grid{stroke:var(--rule);fill:none}.axis,.frame{stroke:var(--soft);fill:none}
.mark{stroke:var(--soft);stroke-dasharray:4 4;fill:none}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
@media(max-width:30rem){main{padding:.9rem .6rem 2rem}section{padding:.8rem .7rem}svg text{font-size:13px}}
.s0{stroke:var(--s0)}.s1{stroke:var(--s1)}.s2{stroke:var(--s2)}.s3{stroke:var(--s3)}
.s0>:not(.line){fill:var(--s0)}.s1>:not(.line){fill:var(--s1)}.s2>:not(.line){fill:var(--s2)}
.s3>:not(.line){fill:var(--s3)}
g>.ring.ring{fill:none;stroke-width:2}
g>.band{opacity:.22;stroke:none}
.pos{fill:var(--pos);background:var(--pos)}.neg{fill:var(--neg);background:var(--neg)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1.1rem;padding:0;margin:.3rem 0;font-size:.9rem}
.legend li{display:flex;align-items:center;gap:.4rem}.key{width:34px;height:12px}
.bars{list-style:none;padding:0;margin:0;font-size:.9rem;max-width:40rem}
.bars li{display:grid;grid-template-columns:minmax(4rem,9rem) 1fr 3.6rem;gap:.6rem;align-items:center;padding:.1rem 0}
.track{position:relative;height:.8rem;background:linear-gradient(var(--soft),var(--soft)) center/1px 100% no-repeat}
.track.plain{background-position:left}
.bar{position:absolute;top:.1rem;bottom:.1rem}
details{font-size:.9rem}summary{cursor:pointer;color:var(--soft);padding:.3rem 0}
article{border-top:1px solid var(--rule);padding:.8rem 0 .3rem}article:first-of-type{border-top:0}
img{image-rendering:pixelated;border-radius:3px;display:block}
.query img{width:44px;height:44px;outline:2px solid var(--ink)}
p.shelf{margin:.3rem 0 .2rem;font-size:.9rem}
ol.shelf{list-style:none;display:flex;flex-wrap:wrap;gap:.35rem;padding:0;margin:0 0 .5rem}
ol.shelf li{padding:2px;border:2px solid var(--hit);border-radius:5px;text-align:center;font-size:.75rem;line-height:1}
ol.shelf li span{display:block;padding-top:2px;color:var(--hit);font-weight:700}
ol.shelf li.miss{border:2px dashed var(--miss)}ol.shelf li.miss span{color:var(--miss)}
"""
