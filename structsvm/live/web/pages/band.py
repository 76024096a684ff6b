"""Chart of a difference and its always-valid interval against the number of closed impressions."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from structsvm.common.escaping import escape
from structsvm.plots import figures, pages

_DECADES = 3
"""Powers of ten of impressions that the chart spans: earlier intervals are uninformative."""


def band_over_time(
    series: Sequence[tuple[int, float, float | None, float | None]],
    first: str,
    second: str,
    *,
    explained: bool = True,
) -> str:
    """Return a chart of impressions, means and their lower and upper bounds.

    Values above 0 favour ``first``, below 0 ``second``; the comparison is decided once the band excludes 0.
    """
    least = max((n for n, *_ in series), default=0) / 10**_DECADES
    points = tuple(
        (float(n), float(mean), float(low), float(high))
        for n, mean, low, high in series
        if low is not None and high is not None and n > 0 and n >= least and math.isfinite(low + high + mean)
    )
    if not points:
        return pages.paragraph("No impression is closed yet; the first window is still open.", small=True)
    n_last, mean_last, low_last, high_last = points[-1]
    alt = (
        f"{first} against {second} after {n_last:,.0f} impressions: {mean_last:+.3g}, "
        f"between {low_last:+.3g} and {high_last:+.3g}"
    )
    note = f"Values above 0 favour {first}, below 0 {second}."
    if explained:
        note += (
            " The band contains the true difference at all times simultaneously, "
            "so it is valid at any look; the comparison is decided once it excludes 0."
        )
    return f"{_chart(points, alt)}<p class=note>{escape(note)}</p>"


@lru_cache(maxsize=64)  # pages reload every few seconds, and a figure takes a tenth of a second
def _chart(points: tuple[tuple[float, ...], ...], alt: str) -> str:
    n, mean, low, high = np.transpose(points)
    # the first points have the widest band, which would flatten the rest: they are cut at the edge
    tail = len(points) // 3
    ends = min(0.0, low[tail:].min()), max(0.0, high[tail:].max())
    line = figures.Series("", n.tolist(), mean.tolist(), low.tolist(), high.tolist())
    return pages.draw(
        figures.Lines([line], "impressions", "difference", log_x=True, mark=0.0, markers=False, y_range=ends),
        alt=alt,
    )
