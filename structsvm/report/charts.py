"""Common parts of the SVG charts of all pages: axes with round ends, frames, markers, legends and images.

Colours come from the style sheet of ``structsvm.report.html``, by the classes that :func:`line_style` names.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from structsvm.common.escaping import escape

__all__ = [
    "HEIGHT", "MARGIN", "WIDTH", "Axis", "Frame", "legend", "line_style", "marker", "number", "png", "svg", "upright",
]  # fmt: skip

WIDTH, HEIGHT = 360, 230
"""Size of every chart in its own units, narrow enough that text keeps its size on a phone."""

MARGIN = (66, 24, 14, 42)
"""Margins: left, right, top, bottom."""

_STYLES = (("", "circle"), ("7 4", "square"), ("2 3", "diamond"), ("9 3 2 3", "triangle"))


class Axis:
    """A range with round ends.

    Parameters
    ----------
    low, high : float
        Range that must be inside; positive on a log axis.
    log : bool
        Whether the scale is logarithmic, with powers of ten as ends.
    whole : bool, default=False
        Values are whole numbers, such as positions: the axis ends at ``low`` and ``high`` themselves, and no tick is
        between two of them.

    Examples
    --------
    >>> Axis(0.02, 0.7, log=False).ticks()
    [0.0, 0.2, 0.4, 0.6000000000000001, 0.8]
    >>> Axis(1, 10, log=False, whole=True).ticks()
    [1, 5, 10]
    """

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

    def grid(self, x: str, y: str) -> str:
        """Draw lines, ticks and the names of both axes."""
        parts = []
        (left, bottom), (right, top) = self.at(self.x.low, self.y.low), self.at(self.x.high, self.y.high)
        for tick in self.y.ticks():
            _, level = self.at(self.x.low, tick)
            parts.append(f'<path class="grid" d="M{left} {level}H{right}"/>')
            parts.append(f'<text x="{left - 5}" y="{level + 4}" text-anchor="end">{number(tick)}</text>')
        for tick in self.x.ticks():
            across, _ = self.at(tick, self.y.low)
            parts.append(f'<text x="{across}" y="{bottom + 18}" text-anchor="middle">{number(tick)}</text>')
        parts.append(f'<path class="axis" d="M{left} {top}V{bottom}H{right}"/>')
        parts.append(
            f'<text x="{(left + right) / 2}" y="{bottom + 34}" text-anchor="middle">{escape(x)}</text>'
        )
        parts.append(upright(y, top, bottom))
        return "".join(parts)


def line_style(i: int) -> tuple[str, str, str]:
    """Return colour class, dashes and marker of the ``i``-th line; sixteen lines differ."""
    # the pairing of colours with dashes changes after every four lines
    return f"s{i % 4}", *_STYLES[(i + i // 4) % 4]


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


def legend(names: Sequence[str]) -> str:
    """Return a list of the lines with a sample of each."""
    items = []
    for i, name in enumerate(names):
        colour, dash, shape = line_style(i)
        sample = (
            f'<svg class="key" viewBox="0 0 34 12" aria-hidden="true"><g class="{colour}">'
            f'<path class="line" stroke-dasharray="{dash}" d="M1 6H33"/>{marker(shape, 17, 6)}</g></svg>'
        )
        items.append(f"<li>{sample}{escape(name)}</li>")
    return f'<ul class="legend">{"".join(items)}</ul>'


def svg(width: float, height: float, title: str, content: str) -> str:
    """Return an image with a title for screen readers."""
    text = escape(title)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text}"><title>{text}</title>{content}</svg>'


def png(rows: Sequence[bytes]) -> bytes:
    """Return an 8-bit greyscale PNG (W3C, Portable Network Graphics, third edition)."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def number(value: float) -> str:
    """Format a number as an axis shows it.

    Examples
    --------
    >>> number(0.25), number(1e-4), number(-3e6)
    ('0.25', '10⁻⁴', '−3·10⁶')
    """
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        mantissa, exponent = f"{value:.0e}".split("e")
        power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"10{power}" if mantissa == "1" else f"{mantissa}·10{power}".replace("-", "−")
    return f"{round(value, 10):g}".replace("-", "−")


def _round_step(rough: float) -> float:
    unit = 10.0 ** math.floor(math.log10(rough))
    return next(m * unit for m in (1, 2, 5, 10) if m * unit >= rough * 0.999)
