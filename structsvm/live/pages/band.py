"""The chart of a difference and its always-valid interval as impressions were closed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from structsvm.common.escaping import escape
from structsvm.plots import charts, pages

_DECADES = 3
"""Powers of ten of impressions that are shown: the first ones say nothing."""


def band_over_time(
    series: Sequence[tuple[int, float, float | None, float | None]],
    first: str,
    second: str,
    *,
    explained: bool = True,
) -> str:
    """Return a chart of impressions, means and their lower and upper bounds.

    Above 0 speaks for ``first``, below for ``second``; it is decided where 0 is outside of the band.
    """
    least = max((n for n, *_ in series), default=0) / 10**_DECADES
    points = [
        (float(n), float(mean), float(low), float(high))
        for n, mean, low, high in series
        if low is not None and high is not None and n > 0 and n >= least and math.isfinite(low + high + mean)
    ]
    if not points:
        return pages.paragraph("Nothing is closed yet: the chart begins after the first window.", small=True)
    # the first points have the widest band, which would flatten the rest: they are cut at the edge
    tail = points[len(points) // 3 :]
    low, high = min(0.0, *(p[2] for p in tail)), max(0.0, *(p[3] for p in tail))
    frame = charts.Frame(
        charts.Axis(points[0][0], points[-1][0], log=True), charts.Axis(low, high, log=False)
    )
    # a log axis ends at powers of ten, which would leave most of a short one empty
    frame.x.low, frame.x.high = points[0][0], max(points[-1][0], points[0][0] * 1.5)
    (left, top), (right, bottom) = frame.at(frame.x.low, frame.y.high), frame.at(frame.x.high, frame.y.low)

    def path(which: int, ordered: Sequence[tuple[float, ...]]) -> str:
        return "L".join("{} {}".format(*frame.at(p[0], p[which])) for p in ordered)

    plot = pages.render(
        "live/pages/band.html", left=left, top=top, right=right, bottom=bottom, zero=frame.at(frame.x.low, 0.0)[1],
        levels=Markup(frame.levels()), name=Markup(charts.upright("difference", top, bottom)),
        ticks=[(frame.at(n, 0.0)[0], f"{n:,.0f}") for n in _round_numbers(frame.x.low, frame.x.high)],
        high=path(3, points), low=path(2, points[::-1]), mean=path(1, points),
        end=Markup(charts.marker("circle", *frame.at(points[-1][0], points[-1][1]))),
    )  # fmt: skip
    n_last, mean_last, low_last, high_last = points[-1]
    title = (
        f"{first} against {second} after {n_last:,.0f} impressions: {mean_last:+.3g}, "
        f"between {low_last:+.3g} and {high_last:+.3g}"
    )
    note = f"Above 0 speaks for {first}, below for {second}."
    if explained:
        note += (
            " The band holds the true difference at every time at once, "
            "so it may be looked at any time; it is decided once 0 is outside."
        )
    picture = charts.svg(charts.WIDTH, charts.HEIGHT, title, plot)
    return f"<figure>{picture}<figcaption>{escape(note)}</figcaption></figure>"


def _round_numbers(low: float, high: float) -> list[float]:
    """Return at most five of 1, 2, 5, 10, 20, ... in a range, or its ends."""
    first = math.floor(math.log10(low))
    steps = ((1, 2, 5), (1, 3), (1,)) if high / low < 100 else ((1, 3), (1,))
    found: list[float] = []
    for step in steps:
        found = [
            m * 10.0**k
            for k in range(first, math.ceil(math.log10(high)) + 1)
            for m in step
            if low <= m * 10.0**k <= high
        ]
        if len(found) <= 5:
            break
    return found if len(found) > 1 else sorted({math.ceil(low), math.floor(high)})
