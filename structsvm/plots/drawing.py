"""Draw figures with matplotlib, on given axes or as SVG with the colours of a style sheet."""

import io
import re
import threading
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from structsvm.common.escaping import escape, printable
from structsvm.plots.colours import COLOURS, line_style
from structsvm.plots.figures import Bars, Differences, Figure, Histogram, Intervals, Lines, Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST_NAME = 32
"""Maximum length of a name beside a bar or in a legend; longer names are shortened in the middle."""

_COLOURS = {name: colours[0] for name, colours in COLOURS.items()}
_SOFT, _RULE = "#5b6472", "#dcdad3"
_VARIABLES = {colour: name for name, colour in _COLOURS.items()} | {_SOFT: "soft", _RULE: "rule"}
"""Variables of the style sheet, keyed by the colour that stands for each in the output of matplotlib."""

_RC = {
    "svg.fonttype": "none",
    "svg.hashsalt": "structsvm",
    "font.size": 11.5,
    "axes.grid": True,
    "grid.color": _RULE,
    "axes.edgecolor": _SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "axes.titlesize": "medium",
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), _SOFT),
}
_LOCK = threading.Lock()  # matplotlib's settings are global


def draw_on(figure: Figure, ax: "Axes") -> None:
    """Draw a figure on matplotlib axes."""
    if isinstance(figure, Lines):
        _lines(figure, ax)
    elif isinstance(figure, Bars):
        at = np.arange(len(figure.values))
        ax.barh(at, figure.values, color=_signs(figure.values))
        ax.set_yticks(at, [_text(name, _LONGEST_NAME) for name in figure.names])
        ax.locator_params(axis="x", nbins=5)  # few ticks, since signed numbers are wide
        ax.invert_yaxis()
        ax.axvline(0, color=_SOFT, lw=0.8)
        ax.set_xlabel(_text(figure.label))
    elif isinstance(figure, Intervals):
        _intervals(figure, ax)
    elif isinstance(figure, Differences):
        n = len(figure.values)
        ax.bar(np.arange(n) + 0.5, figure.values, width=0.9, color=_signs(figure.values))
        ax.axhline(0, color=_SOFT, lw=0.8)
        ax.set_title("{} better, {} worse, {} equal".format(*figure.counts))
        ax.set_xlim(0, max(1, n))
        ax.set_xlabel(_text(f"{figure.unit}, best gain first"))
        ax.set_ylabel(_text(figure.y))
    elif isinstance(figure, Histogram):
        ax.stairs(figure.counts, figure.edges, fill=True, color=_COLOURS["s0"])
        ax.set_xlabel(_text(figure.x))
        ax.set_ylabel(_text(figure.y))
    else:
        _matrix(figure, ax)


def svg(figure: Figure, alt: str = "") -> str:
    """Return a figure as an SVG element with the colours of the page's style sheet; ``alt`` is its description."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    buffer = io.StringIO()
    # ignore missing glyphs: text remains text in the SVG, and the browser has other fonts
    with _LOCK, matplotlib.rc_context(_RC), warnings.catch_warnings():  # type: ignore[arg-type]
        warnings.filterwarnings("ignore", message=".*[Gg]lyph")
        height = max(3.2, 0.8 + 0.27 * len(figure.names)) if isinstance(figure, Intervals) else 3.2
        canvas = Canvas(figsize=(5, height), layout="constrained")
        ax = canvas.subplots()
        draw_on(figure, ax)
        if (legend := ax.get_legend()) is not None:  # move it below the axes, where it covers no line
            names = [text.get_text() for text in legend.get_texts()]
            legend.remove()
            columns = 2 if max(map(len, names)) <= 20 else 1
            canvas.set_figheight(3.2 + 0.2 * -(-len(names) // columns))
            canvas.legend(*ax.get_legend_handles_labels(), loc="outside lower left", ncols=columns)
        elif isinstance(figure, Lines) and len(figure.series) == 1:
            ax.set_title(_text(figure.series[0].name, 40))
        canvas.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    title = escape(alt or _described(figure))
    # remove the prologue and the definitions, whose ids would clash if a page has several figures, and all line breaks
    body = re.sub(r".*?</defs>", "", buffer.getvalue(), count=1, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"', "<g", re.sub(r"\s*\n\s*", " ", body)).replace("xlink:href", "href")
    body = re.sub("|".join(_VARIABLES), lambda colour: f"var(--{_VARIABLES[colour[0]]})", body)
    view = " ".join(f"{72 * length:g}" for length in canvas.get_size_inches())
    return f'<svg viewBox="0 0 {view}" role="img" aria-label="{title}"><title>{title}</title>{body.strip()}'


def _text(text: str, longest: int = 56) -> str:
    """Return a text shortened in the middle, with the characters escaped that matplotlib interprets."""
    cut = text if len(text) <= longest else f"{text[: longest - 14]}…{text[-12:]}"
    return printable(cut).replace("$", r"\$")


def _signs(values: Sequence[float]) -> list[str]:
    return [_COLOURS["pos" if v > 0 else "neg"] for v in values]


def _lines(figure: Lines, ax: Any) -> None:
    # new lines have styles that differ from those of the lines already on the axes
    for i, s in enumerate(figure.series, len(ax.lines)):
        colour, dashes, marker = line_style(i)
        options: dict[str, Any] = {
            "color": _COLOURS[colour],
            "ls": dashes,
            "label": _text(s.name, _LONGEST_NAME),
        }
        if figure.markers:
            options |= {"marker": marker, "ms": 4, "markevery": max(1, len(s.x) // 12)}
        ax.plot(s.x, s.y, **options)
        if s.low is not None and s.high is not None:
            ax.fill_between(s.x, s.low, s.high, color=_COLOURS[colour], alpha=0.15, lw=0)
        if s.ring is not None:
            up = s.y[list(s.x).index(s.ring)]
            ring = {"s": 120, "fc": "none", "ec": _COLOURS[colour], "lw": 1.8, "zorder": 3}
            ax.scatter([s.ring], [up], label=_text(s.ring_name), **ring)
    if figure.mark is not None:
        ax.axhline(figure.mark, color=_SOFT, lw=0.8, ls="--", label=figure.mark_name or None)
    if figure.log_x:
        ax.set_xscale("log", nonpositive="mask")
    elif figure.whole_x:
        ax.xaxis.get_major_locator().set_params(integer=True)
    if figure.log_y:
        ax.set_yscale("log", nonpositive="mask")
    if figure.y_range is not None:
        low, high = figure.y_range
        margin = 0.04 * (high - low)  # margin, so that a line at the edge is not cut off
        ax.set_ylim(low - margin, high + margin if margin else None)
    ax.set_xlabel(_text(figure.x))
    ax.set_ylabel(_text(figure.y))
    if len(ax.get_legend_handles_labels()[1]) > 1:
        ax.legend()


def _intervals(figure: Intervals, ax: Any) -> None:
    at, values = np.arange(len(figure.values)), np.asarray(figure.values, dtype=np.float64)
    # the axis ends slightly beyond the largest finite number, where the arrows of open intervals are drawn
    ends = np.array([figure.low, figure.high], dtype=np.float64)
    edge = 1.1 * np.abs(np.concatenate([values, ends[np.isfinite(ends)]])).max() or 1.0
    for row, (low, high) in enumerate(ends.T):
        if not np.isnan(low + high):
            ax.plot(np.clip([low, high], -edge, edge), [row, row], color=_COLOURS["s0"], lw=1.5)
            for end, marker in ((low, "<"), (high, ">")):
                if np.isinf(end):  # the interval is open on this side: draw an arrow
                    ax.plot([np.clip(end, -edge, edge)], [row], marker=marker, color=_COLOURS["s0"])
    ax.plot(values, at, "o", color=_COLOURS["s0"])
    names = [_text(name, _LONGEST_NAME) for name in figure.names]
    notes = figure.notes or [""] * len(names)
    ax.set_yticks(at, [f"{name}  {note}".rstrip() for name, note in zip(names, notes, strict=True)])
    ax.set_ylim(len(at) - 0.5, -0.5)
    ax.axvline(0, color=_SOFT, lw=0.8)
    ax.set_xlabel(_text(figure.label))


def _matrix(figure: Matrix, ax: Any) -> None:
    """Draw numbers as coloured cells, with signs if any number is negative, so that colour is not the only cue."""
    values = np.asarray(figure.values, dtype=np.float64)
    # the colour shows the sign, and its opacity the absolute value relative to the largest
    share = np.abs(values) / (np.abs(values).max() or 1.0)
    cells = np.empty((*values.shape, 4))
    for sign, name in ((values > 0, "pos"), (values <= 0, "neg")):
        cells[sign, :3] = [int(_COLOURS[name][k : k + 2], 16) / 255 for k in (1, 3, 5)]
    cells[..., 3] = share
    ax.imshow(cells, interpolation="nearest")
    ax.grid(visible=False)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(_text(figure.title, 48))
    if (values < 0).any():
        for i, j in np.argwhere(share >= 0.05):
            ax.text(j, i, "+" if values[i, j] > 0 else "−", ha="center", va="center")


def _described(figure: Figure) -> str:
    """Return the description of a figure for screen readers."""
    if isinstance(figure, Lines):
        ends = "; ".join(f"{s.name} ends at {s.y[-1]:.3g}".lstrip() for s in figure.series if len(s.y))
        return f"{figure.y} against {figure.x}: {ends}"
    if isinstance(figure, Differences):
        return "{}: {} {unit} better, {} worse, {} equal".format(figure.y, *figure.counts, unit=figure.unit)
    if isinstance(figure, Histogram):
        return f"{figure.y} by {figure.x}: " + ", ".join(f"{n:g}" for n in figure.counts)
    if isinstance(figure, Intervals):
        rows = zip(figure.names, figure.values, figure.low, figure.high, strict=True)
        return f"{figure.label}: " + "; ".join(f"{n} {v:.3g} [{a:.3g}, {b:.3g}]" for n, v, a, b in rows)
    return figure.label if isinstance(figure, Bars) else figure.title
