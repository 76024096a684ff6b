"""The page of a bandit simulation: regret and accuracy over time, and which pairs were compared how often.

Its parts are strings of HTML, put together by ``structsvm.report.html``.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from structsvm import report
from structsvm.checks import BadInput
from structsvm.common.escaping import escape
from structsvm.online.simulation.play import Simulation
from structsvm.protocols import Float
from structsvm.report import charts

__all__ = ["Band", "band_chart", "duel_map", "headline", "leaders", "results_table", "simulation_page"]

_DECADES = 4
"""Powers of ten of time that charts show: earlier steps would squeeze the rest."""

_DEPTH = 12
"""Most pairs in the table under a heat map, so that it stays readable."""

_NAMED = 8
"""Most arms named under a heat map, the best and the last."""


class Band(NamedTuple):
    """A line of :func:`band_chart`; ``low`` and ``high`` may be None."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: ArrayLike | None = None
    high: ArrayLike | None = None


def band_chart(bands: Sequence[Band], *, x: str, y: str, log_y: bool = True) -> str:
    """Return a chart of lines over a logarithmic axis, each with its interval and its own colour, dash and marker.

    Parameters
    ----------
    bands : sequence of Band
        Lines to draw. The last four decades of x are shown; with ``log_y`` points whose y is not positive are left out.
    x, y : str
        Titles of the axes.
    log_y : bool, default=True

    Examples
    --------
    >>> chart = band_chart([Band("a", [1, 10], [1.0, 2.0], [0.5, 1.5], [2.0, 3.0])], x="steps", y="regret")
    >>> chart.count("<circle"), chart.count("fill-opacity")
    (3, 1)
    """
    # the first steps are uninformative and would take half of the chart
    start = max((float(np.max(band.x, initial=0)) for band in bands), default=0) / 10**_DECADES
    lines: list[tuple[str, Float, Float, Float | None, Float | None]] = []
    for band in bands:
        across, up = np.asarray(band.x, dtype=np.float64), np.asarray(band.y, dtype=np.float64)
        keep = np.isfinite(up) & (across > 0) & (across >= start) & ((up > 0) | (not log_y))
        if keep.any():
            low, high = (None if edge is None else np.asarray(edge)[keep] for edge in (band.low, band.high))
            lines.append((band.name, across[keep], up[keep], low, high))
    if not lines:
        return report.paragraph(f"{y}: nothing to show", small=True)
    every = np.concatenate([line[2] for line in lines])
    across = np.concatenate([line[1] for line in lines])
    # a share is shown over its whole range, regret over the range of the data
    span = (float(every.min()), float(every.max())) if log_y else (0.0, 1.0)
    frame = charts.Frame(
        charts.Axis(float(across.min()), float(across.max()), log=True),
        charts.Axis(*span, log=log_y),
    )

    def path(values: Float, heights: Float) -> str:
        return "L".join(
            "{} {}".format(*frame.at(float(a), float(b))) for a, b in zip(values, heights, strict=True)
        )

    parts = [frame.grid(x, y)]
    for i, (_, a, b, low, high) in enumerate(lines):
        colour, dash, shape = charts.line_style(i)
        if low is not None and high is not None and np.isfinite(low).all() and np.isfinite(high).all():
            outline = path(a, high) + "L" + path(a[::-1], low[::-1])
            parts.append(
                f'<g class="{colour}"><path d="M{outline}Z" style="stroke:none" fill-opacity=".14"/></g>'
            )
        marks = "".join(
            charts.marker(shape, *frame.at(float(a[k]), float(b[k])))
            for k in sorted({*range(0, len(a), max(1, len(a) // 10)), len(a) - 1})
        )
        parts.append(
            f'<g class="{colour}"><path class="line" stroke-dasharray="{dash}" d="M{path(a, b)}"/>{marks}</g>'
        )
    ends = "; ".join(f"{line[0]} ends at {line[2][-1]:.3g}" for line in lines)
    picture = charts.svg(charts.WIDTH, charts.HEIGHT, f"{y} against {x}: {ends}", "".join(parts))
    return f"<figure>{picture}{charts.legend([line[0] for line in lines])}</figure>"


def duel_map(duels: ArrayLike, order: ArrayLike, *, title: str, names: Sequence[str] | None = None) -> str:
    """Return a heat map of how often each pair was compared (log scale), and a table of the most frequent pairs.

    Parameters
    ----------
    duels : array-like of int, shape (K, K)
        As in ``Simulation.duels``: upper triangle, diagonal for an arm alone.
    order : array-like of int, shape (K,)
        Order of the rows and columns, such as best first.
    title : str
    names : sequence of str, optional
        Names of the arms; their numbers from 0 by default.

    Examples
    --------
    >>> "1 and 0" in duel_map([[5, 2], [0, 0]], [1, 0], title="RUCB")
    True
    """
    counts = np.asarray(duels, dtype=np.int64)
    both = counts + np.triu(counts, 1).T
    arms = np.asarray(order)
    called = [str(k) for k in range(len(both))] if names is None else list(names)
    shown = both[np.ix_(arms, arms)]
    most = int(shown.max())
    share = np.log1p(shown) / np.log1p(most) if most else np.zeros(shown.shape)
    rows = [bytes(round(255 * (1 - float(v))) for v in row) for row in share]
    data = base64.b64encode(charts.png(rows)).decode()
    total = max(1, int(counts.sum()))
    first, second = np.triu_indices(len(both))
    rank = np.argsort(arms)
    ranked = sorted(
        zip(both[first, second].tolist(), first.tolist(), second.tolist(), strict=True),
        key=lambda item: (-item[0], rank[item[1]], rank[item[2]]),
    )
    cells = []
    for n, i, j in ranked[:_DEPTH]:
        if n == 0:
            break
        i, j = (i, j) if rank[i] <= rank[j] else (j, i)
        pair = f"{called[i]} alone" if i == j else f"{called[i]} and {called[j]}"
        cells.append([pair, f"{n:,}", f"{100 * n / total:.1f}%"])
    never = int((both[first, second] == 0).sum() - (np.diag(both) == 0).sum())
    pairs = len(both) * (len(both) - 1) // 2
    named = [called[k] for k in arms.tolist()]
    if len(named) > _NAMED:
        named = [*named[: _NAMED - 1], "…", named[-1]]
    caption = (
        f"Rows from top to bottom and columns from left to right: the {len(both)} arms, best first "
        f"({', '.join(named)}). White: never compared; black: {most:,} times; grey on a log scale. "
        f"{never:,} of {pairs:,} pairs were never compared."
    )
    alt = f"{title}: how often each pair was compared"
    columns = [report.Column("pair"), report.Column("times", True), report.Column("share", True)]
    return (
        f"<figure><h3>{escape(title)}</h3>"
        f'<img src="data:image/png;base64,{data}" alt="{escape(alt)}" '
        'style="width:100%;max-width:18rem;border:1px solid var(--soft)">'
        f"<figcaption>{escape(caption)}</figcaption><details><summary>The leading pairs</summary>"
        f"{report.table(columns, cells, caption=f'{title}: most frequent comparisons')}</details></figure>"
    )


def leaders(results: Mapping[str, Simulation]) -> list[str]:
    """Return the bandits that the runs do not distinguish from the one with the least mean regret, that one first.

    Their 95% intervals at the horizon overlap its interval. With one run there is no interval, and all are returned.

    Examples
    --------
    >>> from structsvm.online import simulate
    >>> P = [[0.5, 0.9, 0.9], [0.1, 0.5, 0.5], [0.1, 0.5, 0.5]]
    >>> results = {name: simulate(name, P, horizon=2000, n_runs=20) for name in ("random", "mdb", "rucb")}
    >>> leaders(results)
    ['mdb']
    """
    ends = {name: [float(edge[-1]) for edge in run.interval()] for name, run in results.items()}
    order = sorted(results, key=lambda name: float(results[name].mean()[-1]))
    return [name for name in order if ends[name][0] <= ends[order[0]][1]]


def headline(results: Mapping[str, Simulation]) -> str:
    """Return the outcome in a sentence: one bandit if its interval is below all others, else the ones that tie.

    Examples
    --------
    >>> from structsvm.online import simulate
    >>> headline({"rucb": simulate("rucb", [[0.5, 0.8], [0.2, 0.5]], horizon=50)})
    'rucb loses 5.25 in 50 comparisons (one run each).'
    """
    ends = {name: _figure(run.mean()[-1]) for name, run in results.items()}
    first, *others = leaders(results)
    any_run = results[first]
    n, horizon = len(any_run.regret), int(any_run.times[-1])
    runs = f"{n} runs each" if n > 1 else "one run each"
    if len(results) == 1:
        return f"{first} loses {ends[first]} in {horizon:,} comparisons ({runs})."
    if not others:
        return f"{first} loses least: {ends[first]} after {horizon:,} comparisons ({runs})."
    if n == 1:
        return (
            f"{first} has the least regret, {ends[first]} after {horizon:,} comparisons, but one run of each cannot "
            "tell them apart."
        )
    tied = [f"{name} ({ends[name]})" for name in (first, *others)]
    return (
        f"No bandit loses least for sure after {horizon:,} comparisons ({runs}): "
        f"{', '.join(tied[:-1])} and {tied[-1]} tie, as the 95% intervals overlap."
    )


def results_table(
    results: Mapping[str, Simulation],
) -> tuple[list[report.Column], list[list[str]], int | None]:
    """Return columns, formatted rows and the row of the bandit of least regret (None if several tie).

    Pages and the terminal show the same table.
    """
    columns = [report.Column("bandit")] + [
        report.Column(name, True)
        for name in ("regret", "95% interval", "right answers", "last tenth's share")
    ]
    rows = []
    for name, run in results.items():
        mean = run.mean()
        low, high = (edge[-1] for edge in run.interval())
        between = f"{_figure(max(low, 0.0))} to {_figure(high)}" if np.isfinite(low) else "one run"
        n = len(run.regret)
        late = (
            (mean[-1] - np.interp(0.9 * run.times[-1], run.times, mean)) / mean[-1] if mean[-1] > 0 else 0.0
        )
        rows.append(
            [
                name,
                _figure(mean[-1]),
                between,
                f"{int(run.correct[:, -1].sum())} of {n}",
                f"{100 * late:.1f}%",
            ]
        )
    least = leaders(results)
    return columns, rows, list(results).index(least[0]) if len(least) == 1 else None


def simulation_page(
    results: Mapping[str, Simulation],
    *,
    world: str,
    gaps: ArrayLike,
    regret: str = "average",
    facts: Sequence[tuple[str, str]] = (),
    names: Sequence[str] | None = None,
) -> str:
    """Return a self-contained HTML page about simulations in one world.

    Parameters
    ----------
    results : mapping of str to Simulation
        Results by the name of the bandit.
    world : str
        Name of the world on the page.
    gaps : array-like, shape (K,)
        Gaps of the world; the arms of the heat maps are sorted by them.
    regret : str, default="average"
        Definition of regret, as given to ``simulate``.
    facts : sequence of (str, str)
        Further names and values that describe the world.
    names : sequence of str, optional
        Of the arms.

    Returns
    -------
    str

    Examples
    --------
    >>> from structsvm.online import simulate
    >>> P = [[0.5, 0.8], [0.2, 0.5]]
    >>> page = simulation_page({"rucb": simulate("rucb", P, horizon=50, n_runs=2)}, world="a pair", gaps=[0, 0.3])
    >>> "a pair" in page, "<svg" in page
    (True, True)
    """
    if not results:
        raise BadInput("results", "expected at least one simulation, got none")
    columns, rows, best = results_table(results)
    any_run = next(iter(results.values()))
    n, horizon = len(any_run.regret), int(any_run.times[-1])
    curves, answers = [], []
    for name, run in results.items():
        low, high = run.interval() if n > 1 else (None, None)
        curves.append(Band(name, run.times.tolist(), run.mean().tolist(), low, high))
        answers.append(Band(name, run.times.tolist(), run.accuracy.tolist()))
    order = np.argsort(np.asarray(gaps), kind="stable")
    maps = [duel_map(run.duels, order, title=name, names=names) for name, run in results.items()]
    pieces = [
        report.section(
            "Results",
            report.table(columns, rows, caption=f"After {horizon:,} comparisons", highlight=best),
            report.paragraph(_DEFINITIONS[regret] + _COLUMNS, small=True),
        ),
        report.section(
            "Over time",
            report.side_by_side(
                band_chart(curves, x="comparisons", y=f"cumulative regret ({regret})"),
                band_chart(answers, x="comparisons", y="share of right answers", log_y=False),
            ),
            report.paragraph(
                "Lines: mean over the runs; bands: its 95% confidence interval (Student's t). Right answers: share of "
                "the runs that would name a best arm if asked at that time.",
                small=True,
            ),
        ),
        report.section(
            "Who was compared",
            report.paragraph(
                "All runs together. A bandit that has found the best arm compares it with itself: the corner "
                "at the top left. A dark first row and column is the price of making sure; dark elsewhere is "
                "time spent on others."
            ),
            report.side_by_side(*maps),
        ),
    ]
    if facts:
        known = [[key, value] for key, value in facts]
        table = report.table([report.Column("property"), report.Column("value")], known, caption=world)
        pieces.append(report.section("The world", table))
    return report.page(f"Dueling bandits in {world}", *pieces, lead=headline(results))


_DEFINITIONS = {
    "average": "Regret of a comparison: mean of the gaps of those compared.",
    "sum": "Regret of a comparison: sum of both gaps.",
    "weak": "Regret of a comparison: the smaller gap.",
}
_COLUMNS = (
    " The gap of an arm says how much worse it is than the best one. Regret: sum over all comparisons, mean over the "
    "runs, with its 95% confidence interval. Right answers: runs that name a best arm at the end. Last tenth's share: "
    "part of the regret that fell in the last tenth of the comparisons; 10% would mean that nothing was learned."
)


def _figure(value: Any) -> str:
    """Format with at least three digits, all of those before the point included."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
