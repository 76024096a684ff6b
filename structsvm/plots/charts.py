"""Figures as SVG: axes with round ends, lines with their bands and markers, bars, and small images.

Colours come from the style sheet of the pages, by the classes that :func:`line_style` names.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from structsvm.common.escaping import escape
from structsvm.plots.colours import line_style
from structsvm.plots.figures import Differences, Lines, Series

WIDTH, HEIGHT = 360, 230
"""Size of every chart in its own units, narrow enough that text keeps its size on a phone."""

MARGIN = (66, 24, 14, 42)
"""Margins: left, right, top, bottom."""


class Axis:
    """A range with round ends; on a log axis powers of ten, on one of whole numbers its own ends."""

    def __init__(self, low: float, high: float, *, log: bool, whole: bool = False) -> None:
        self.log, self.whole = log, whole
        if log:
            self.low, self.high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
            if self.low == self.high:
                self.high *= 10
        else:
            if low == high:
                low, high = low - 0.5, high + 0.5
            self.step = _round_step((high - low) / 4)
            if whole:
                self.step = max(1.0, self.step)
                self.low, self.high = low, high
                return
            self.low = math.floor(low / self.step + 1e-9) * self.step
            self.high = math.ceil(high / self.step - 1e-9) * self.step

    def share(self, value: float) -> float:
        """Return the position of ``value``, from 0 at the low end to 1 at the high one."""
        if self.log:
            low = math.log(self.low)  # differences of logarithms, as a quotient may overflow
            return (math.log(value) - low) / (math.log(self.high) - low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Return the values to write at the axis."""
        if self.log:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            return [10.0**k for k in range(first, last + 1, max(1, math.ceil((last - first) / 5)))]
        if self.whole:
            first, step = math.ceil(self.low), int(self.step)
            later = range(first - first % step + step, math.floor(self.high) + 1, step)
            return [first, *(k for k in later if k - first >= step / 2)]
        return [self.low + i * self.step for i in range(round((self.high - self.low) / self.step) + 1)]


class Frame(NamedTuple):
    """The area that two axes span inside the margins."""

    x: Axis
    y: Axis

    def at(self, a: float, b: float) -> tuple[float, float]:
        """Return the position of a point, moved to the end of the y axis if it is beyond."""
        left, right, top, bottom = MARGIN
        inside = min(max(b, self.y.low), self.y.high)
        return (
            round(left + self.x.share(a) * (WIDTH - left - right), 1),
            round(HEIGHT - bottom - self.y.share(inside) * (HEIGHT - top - bottom), 1),
        )

    def levels(self) -> str:
        """Draw the ticks of the y axis and a line from each."""
        (left, _), (right, _) = self.at(self.x.low, self.y.low), self.at(self.x.high, self.y.low)
        levels = [(tick, self.at(self.x.low, tick)[1]) for tick in self.y.ticks()]
        return "".join(
            f'<path class="grid" d="M{left} {level}H{right}"/>'
            f'<text x="{left - 5}" y="{level + 4}" text-anchor="end">{number(tick)}</text>'
            for tick, level in levels
        )

    def grid(self, x: str, y: str) -> str:
        """Draw lines, ticks and the names of both axes."""
        (left, bottom), (right, top) = self.at(self.x.low, self.y.low), self.at(self.x.high, self.y.high)
        parts = [self.levels()]
        for tick in self.x.ticks():
            across, _ = self.at(tick, self.y.low)
            parts.append(f'<text x="{across}" y="{bottom + 18}" text-anchor="middle">{number(tick)}</text>')
        parts.append(f'<path class="axis" d="M{left} {top}V{bottom}H{right}"/>')
        parts.append(
            f'<text x="{(left + right) / 2}" y="{bottom + 34}" text-anchor="middle">{escape(x)}</text>'
        )
        parts.append(upright(y, top, bottom))
        return "".join(parts)


def upright(text: str, top: float, bottom: float) -> str:
    """Draw the name of a y axis."""
    middle = (top + bottom) / 2
    return f'<text transform="translate(13 {middle}) rotate(-90)" text-anchor="middle">{escape(text)}</text>'


def marker(shape: str, x: float, y: float) -> str:
    """Draw a point of a line."""
    if shape == "circle":
        return f'<circle cx="{x}" cy="{y}" r="3.2"/>'
    if shape == "square":
        return f'<rect x="{x - 3}" y="{y - 3}" width="6" height="6"/>'
    if shape == "diamond":
        return f'<path class="dot" d="M{x} {y - 4.4}l4.4 4.4-4.4 4.4-4.4-4.4z"/>'
    return f'<path class="dot" d="M{x} {y - 4}l4 7h-8z"/>'


def lines(figure: Lines) -> tuple[str, list[str]]:
    """Draw lines; return the image, empty if there is nothing to show, and the names of the lines in it."""
    shown = [kept for s in figure.series if (kept := _drawable(s, figure)).x]
    if not shown:
        return "", []
    xs = [v for s in shown for v in s.x]
    ys = [v for s in shown for side in (s.y, s.low, s.high) for v in side or () if v > 0 or not figure.log_y]
    ys += [v for v in (figure.mark, *(figure.y_range or ())) if v is not None]
    first = min(xs) if figure.log_x or figure.whole_x or min(xs) < 0 else 0.0
    frame = Frame(
        Axis(first, max(xs), log=figure.log_x, whole=figure.whole_x), Axis(min(ys), max(ys), log=figure.log_y)
    )
    parts = [frame.grid(figure.x, figure.y)]
    if figure.mark is not None:
        (left, level), (right, _) = frame.at(frame.x.low, figure.mark), frame.at(frame.x.high, figure.mark)
        parts.append(f'<path class="mark" d="M{left} {level}H{right}"/>')
    parts += [_line(i, s, frame, markers=figure.markers) for i, s in enumerate(shown)]
    ends = "; ".join(f"{s.name} ends at {s.y[-1]:.3g}".lstrip() for s in shown)
    image = svg(WIDTH, HEIGHT, f"{figure.y} against {figure.x}: {ends}", "".join(parts))
    return image, [s.name for s in shown]


def _drawable(series: Series, figure: Lines) -> Series:
    """Leave out points that are not finite, or not positive on a log axis."""
    low, high = (series.y if side is None else side for side in (series.low, series.high))
    points = np.array([series.x, series.y, low, high], dtype=np.float64)
    kept = np.isfinite(points).all(axis=0)
    for axis, log in enumerate((figure.log_x, figure.log_y)):
        kept &= (points[axis] > 0) | (not log)
    x, y, low, high = points[:, kept].tolist()
    ends = (None, None) if low == high == y else (low, high)
    return series._replace(x=x, y=y, low=ends[0], high=ends[1])


def _line(i: int, series: Series, frame: Frame, *, markers: bool) -> str:
    """Draw one line: its band below it, a dozen markers at most, and the ring around the point chosen."""
    colour, dash, shape = line_style(i)
    points = [frame.at(a, b) for a, b in zip(series.x, series.y, strict=True)]
    drawn = ""
    if series.low is not None and series.high is not None:
        edge = [*zip(series.x, series.high, strict=True), *zip(series.x[::-1], series.low[::-1], strict=True)]
        drawn = f'<path class="band" d="M{_path([frame.at(a, b) for a, b in edge])}Z"/>'
    drawn += f'<path class="line" stroke-dasharray="{dash}" d="M{_path(points)}"/>'
    if markers:
        chosen = {*range(0, len(points), max(1, len(points) // 12)), len(points) - 1}
        drawn += "".join(marker(shape, *points[k]) for k in sorted(chosen))
    if series.ring is not None and series.ring in series.x:
        across, up = points[list(series.x).index(series.ring)]
        drawn += f'<circle class="ring" cx="{across}" cy="{up}" r="7.5"/>'
    return f'<g class="{colour}">{drawn}</g>'


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{x} {y}" for x, y in points)


def line_sample(i: int, *, markers: bool = True) -> str:
    """Draw the key of a legend; it is decoration, as the name stands beside it."""
    colour, dash, shape = line_style(i)
    return (
        f'<svg class="key" viewBox="0 0 34 12" aria-hidden="true"><g class="{colour}">'
        f'<path class="line" stroke-dasharray="{dash}" d="M1 6H33"/>{marker(shape, 17, 6) if markers else ""}</g></svg>'
    )


def bars(figure: Differences) -> str:
    """Draw bars from 0 upwards and downwards, on a scale that is the same on both sides."""
    extent = max((abs(v) for v in figure.values), default=0.0) or 1.0
    frame = Frame(
        Axis(0.0, max(1, len(figure.values)), log=False, whole=True), Axis(-extent, extent, log=False)
    )
    (left, zero), (right, _) = frame.at(frame.x.low, 0.0), frame.at(frame.x.high, 0.0)
    bottom = frame.at(0.0, frame.y.low)[1]
    parts = [frame.levels()]
    for i, v in enumerate(figure.values):
        (x, level), (beside, _) = frame.at(i, v), frame.at(i + 1, v)
        parts.append(
            f'<rect class="{"pos" if v > 0 else "neg"}" x="{x}" y="{min(zero, level)}" '
            f'width="{max(0.4, 0.85 * (beside - x)):.2f}" height="{abs(zero - level):.1f}"/>'
        )
    parts.append(f'<path class="axis" d="M{left} {zero}H{right}"/>')
    below = f"{figure.unit}, best gain first"
    parts.append(
        f'<text x="{(left + right) / 2}" y="{bottom + 18}" text-anchor="middle">{escape(below)}</text>'
    )
    parts.append(upright(figure.y, MARGIN[2], bottom))
    title = "{}: {} {unit} better, {} worse, {} equal".format(figure.y, *figure.counts, unit=figure.unit)
    return svg(WIDTH, HEIGHT, title, "".join(parts))


def histogram(counts: Sequence[float], edges: Sequence[float], *, x: str, y: str) -> str:
    """Draw how many values lie between each two ``edges``."""
    frame = Frame(Axis(edges[0], edges[-1], log=False), Axis(0.0, max(counts), log=False))
    parts = [frame.grid(x, y)]
    for n, low, high in zip(counts, edges, edges[1:], strict=False):
        (left, bottom), (right, level) = frame.at(low, 0.0), frame.at(high, n)
        parts.append(
            f'<rect x="{left + 1}" y="{level}" width="{max(0.0, right - left - 2):.1f}" height="{bottom - level:.1f}"/>'
        )
    title = f"{y} by {x}: " + ", ".join(f"{n:g}" for n in counts)
    return svg(WIDTH, HEIGHT, title, f'<g class="s0">{"".join(parts[1:])}</g>{parts[0]}')


def svg(width: float, height: float, title: str, content: str) -> str:
    """Return an image with a title for screen readers."""
    text = escape(title)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text}"><title>{text}</title>{content}</svg>'


def png(rows: Sequence[bytes]) -> bytes:
    """Return an 8-bit greyscale PNG (W3C, Portable Network Graphics, third edition)."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        )

    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def number(value: float) -> str:
    """Format a number as an axis shows it."""
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        mantissa, exponent = f"{value:.0e}".split("e")
        power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"10{power}" if mantissa == "1" else f"{mantissa}·10{power}".replace("-", "−")
    return f"{round(value, 10):g}".replace("-", "−")


def _round_step(rough: float) -> float:
    unit = 10.0 ** math.floor(math.log10(rough))
    return next(m * unit for m in (1, 2, 5, 10) if m * unit >= rough * 0.999)
