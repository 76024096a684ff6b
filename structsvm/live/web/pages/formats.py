"""Format addresses, figures and times for pages."""

import math
from datetime import UTC, datetime
from urllib.parse import quote


def address(key: str) -> str:
    """Return the address of an experiment's page."""
    return f"/e/{quote(key, safe='')}"


def count(n: float | None) -> str:
    """Return a number with thousands separators, or a dash for None."""
    if n is None or not math.isfinite(n):
        return "–"
    return f"{n:,.0f}" if float(n).is_integer() else f"{n:,.3g}"


def percent(share: float | None) -> str:
    """Return a share as a percentage."""
    if share is None or not math.isfinite(share):
        return "–"
    return f"{100 * share:.2g} %" if abs(share) < 0.1 else f"{100 * share:.0f} %"


def share_of(part: float, whole: float) -> str:
    """Return a part as a percentage of a whole, or a dash if the whole is zero."""
    return percent(part / whole) if whole else "–"


def ago(then_ms: float | None, now_ms: float) -> str:
    """Return the time since an event in words."""
    if then_ms is None:
        return "never"
    seconds = max(0.0, (now_ms - then_ms) / 1000)
    if seconds < 60:
        return f"{seconds:.0f} s ago"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min ago"
    return f"{seconds / 3600:.0f} h ago" if seconds < 172_800 else f"{seconds / 86_400:.0f} days ago"


def moment(ms: float | None) -> str:
    """Return a time of the server's clock, in UTC."""
    return "–" if ms is None else f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def figure(value: float | None) -> str:
    """Return a number of a guardrail."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.3g}".replace("-", "−")
