"""HTML page of a bandit simulation: regret and accuracy over time, and the number of comparisons of each pair."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput
from structsvm.common.portable.elementary import log1p
from structsvm.online.simulation.play import Simulation
from structsvm.plots import figures, pages

_DEPTH = 12
"""Largest number of pairs in the table under a heat map."""

_NAMED = 8
"""Largest number of arm names listed under a heat map; with more arms, only the first names and the last are listed."""


def duel_map(
    duels: ArrayLike, order: ArrayLike, *, title: str, names: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the map of ``Simulation.duels`` (pairs above the diagonal, single arms on it), with arms in ``order``.

    ``shares`` is an image of the counts from 0 (none) to 1 on a log scale; ``arms`` are the names of its rows and
    columns, with many arms only the first names and the last; ``pairs`` are the most frequent pairs.
    """
    counts = np.asarray(duels, dtype=np.int64)
    n = len(counts)
    # make the counts symmetric, so that the image does not depend on the numbering of the arms
    both = counts + np.triu(counts, 1).T
    arms = np.asarray(order)
    shown = both[np.ix_(arms, arms)]
    most = int(shown.max())
    called = [str(k) if names is None else names[k] for k in arms]
    # sort pairs in descending order of frequency, and equally frequent pairs by the ranks of their arms
    first, second = np.triu_indices(n)
    frequent = np.lexsort((second, first, -shown[first, second]))[:_DEPTH]
    total = max(1, int(counts.sum()))
    pairs = []
    for i, j in zip(first[frequent].tolist(), second[frequent].tolist(), strict=True):
        if times := int(shown[i, j]):
            pair = f"{called[i]} alone" if i == j else f"{called[i]} and {called[j]}"
            pairs.append([pair, f"{times:,}", f"{100 * times / total:.1f}%"])
    return {
        "title": title,
        "shares": log1p(shown) / log1p(most) if most else np.zeros(shown.shape),
        "arms": called if n <= _NAMED else [*called[: _NAMED - 1], "…", called[-1]],
        "most": most,
        "n_pairs": n * (n - 1) // 2,
        "n_never": int((np.triu(shown, 1) == 0).sum() - n * (n + 1) // 2),
        "pairs": pairs,
    }


def leaders(results: Mapping[str, Simulation]) -> list[str]:
    """Return the bandit with the smallest mean regret, and all bandits that do not differ significantly from it.

    The latter are the bandits whose 95% intervals at the horizon overlap its interval. With one run, intervals are
    infinite and all bandits are returned.
    """
    ends = {name: [float(edge[-1]) for edge in run.interval()] for name, run in results.items()}
    order = sorted(results, key=lambda name: float(results[name].mean()[-1]))
    return [name for name in order if ends[name][0] <= ends[order[0]][1]]


def headline(results: Mapping[str, Simulation]) -> str:
    """Return the result as a sentence: the best bandit if its interval is below all others, else the tied bandits."""
    ends = {name: _figure(run.mean()[-1]) for name, run in results.items()}
    first, *others = leaders(results)
    any_run = results[first]
    n, horizon = len(any_run.regret), int(any_run.times[-1])
    runs = f"{n} runs each" if n > 1 else "one run each"
    if len(results) == 1:
        return f"{first} has regret {ends[first]} after {horizon:,} comparisons ({runs})."
    if not others:
        return f"{first} has the least regret: {ends[first]} after {horizon:,} comparisons ({runs})."
    if n == 1:
        return (
            f"{first} has the least regret, {ends[first]} after {horizon:,} comparisons, but one run per bandit "
            "shows no significant difference."
        )
    tied = [f"{name} ({ends[name]})" for name in (first, *others)]
    return (
        f"No bandit clearly has the least regret after {horizon:,} comparisons ({runs}): "
        f"{', '.join(tied[:-1])} and {tied[-1]} tie, since their 95% intervals overlap."
    )


def results_table(
    results: Mapping[str, Simulation],
) -> tuple[list[pages.Column], list[list[str]], int | None]:
    """Return columns, formatted rows, and the row index of the bandit with the least regret (None if several tie).

    The page and the terminal show this table.
    """
    columns = [pages.Column("bandit")] + [
        pages.Column(name, True) for name in ("regret", "95% interval", "right answers", "last tenth's share")
    ]
    rows = []
    for name, run in results.items():
        mean = run.mean()
        low, high = (edge[-1] for edge in run.interval())
        between = f"{_figure(max(low, 0.0))} to {_figure(high)}" if np.isfinite(low) else "one run"
        # share of the regret in the last tenth of the run, which is small if the bandit has decided
        early = np.interp(0.9 * run.times[-1], run.times, mean)
        late = (mean[-1] - early) / mean[-1] if mean[-1] > 0 else 0.0
        right = f"{int(run.correct[:, -1].sum())} of {len(run.regret)}"
        rows.append([name, _figure(mean[-1]), between, right, f"{100 * late:.1f}%"])
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
    """Return a self-contained HTML page on simulations in one world."""
    if not results:
        raise BadInput("results", "expected at least one simulation, got none")
    columns, rows, best = results_table(results)
    order = np.argsort(np.asarray(gaps), kind="stable")
    return pages.render(
        "online/simulation/page.html",
        title=f"Dueling bandits in {world}",
        lead=headline(results),
        world=world,
        horizon=int(next(iter(results.values())).times[-1]),
        columns=columns,
        rows=rows,
        best=best,
        definition=_DEFINITIONS[regret],
        regret=figures.regret(results, kind=regret),
        right_answers=figures.right_answers(results),
        maps=[duel_map(run.duels, order, title=name, names=names) for name, run in results.items()],
        facts=[list(fact) for fact in facts],
        Column=pages.Column,
    )


_DEFINITIONS = {"average": "mean gap of its arms", "sum": "sum of both gaps", "weak": "the smaller gap"}


def _figure(value: Any) -> str:
    """Format a number with at least three digits, and all digits before the decimal point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
