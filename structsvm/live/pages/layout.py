"""What all pages of the service share: links above the title, and how figures and times are said."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from urllib.parse import quote

from structsvm import report
from structsvm.common.escaping import escape

STYLE = """
nav{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;font-size:.95rem}a{color:var(--s0);text-underline-offset:.2em}
nav a[aria-current]{color:var(--ink);font-weight:700;text-decoration:none}
h2 a{color:inherit}
.badge{display:inline-block;border:1.5px solid currentColor;border-radius:1rem;padding:0 .55rem;font-size:.82rem;
font-weight:600;margin:0 .45rem .3rem 0;max-width:100%;color:var(--soft)}
.badge.good{color:var(--hit)}.badge.bad{color:var(--alarm)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.7rem 1rem;margin:.6rem 0 0;padding:0}
.facts div{min-width:0}.facts dt{color:var(--soft);font-size:.85rem}
.guards{list-style:none;padding:0;margin:0;font-size:.95rem}.guards li{margin:.55rem 0}
.facts dd{margin:0;font-size:1.25rem;font-variant-numeric:tabular-nums}
"""


def page(title: str, *pieces: str, lead: str = "", here: str = "", refresh: int | None = None) -> str:
    """Return a document with links to the pages of the service above its title."""
    links = [("/", "Experiments")]
    if here and here != "/":
        links.append((here, title))
    return report.page(title, *pieces, lead=lead, above=navigation(links, here), style=STYLE, refresh=refresh)


def navigation(links: list[tuple[str, str]], here: str) -> str:
    """Return links, the current one marked."""
    items = "".join(
        f'<a href="{escape(target)}"{" aria-current=page" if target == here else ""}>{escape(name)}</a>'
        for target, name in links
    )
    return f"<nav>{items}</nav>"


def address(key: str) -> str:
    """Return the address of an experiment's page."""
    return f"/e/{quote(key, safe='')}"


def badge(text: str, kind: str = "") -> str:
    """Return a word in a frame; ``kind`` is ``"good"``, ``"bad"`` or nothing."""
    return f'<span class="badge {kind}">{escape(text)}</span>'


def facts(pairs: list[tuple[str, str]]) -> str:
    """Return figures with their names, in a grid."""
    return (
        '<dl class="facts">'
        + "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
        + "</dl>"
    )


def count(n: float | None) -> str:
    """Return a number of things."""
    if n is None or not math.isfinite(n):
        return "–"
    return f"{n:,.0f}" if float(n).is_integer() else f"{n:,.3g}"


def percent(share: float | None) -> str:
    """Return a share as percent."""
    if share is None or not math.isfinite(share):
        return "–"
    return f"{100 * share:.2g} %" if abs(share) < 0.1 else f"{100 * share:.0f} %"


def share_of(part: float, whole: float) -> str:
    """Return a part as percent of a whole, a dash where there is nothing."""
    return percent(part / whole) if whole else "–"


def ago(then_ms: float | None, now_ms: float) -> str:
    """Return how long ago something was."""
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
