"""HTML page about a click log: propensities with intervals, click models, omissions, and influential queries."""

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from structsvm.clicks.cells import ClickCells, size_of_log
from structsvm.clicks.evaluation import CounterfactualEstimate
from structsvm.clicks.judging import METHODS, ClickJudgments
from structsvm.clicks.propensities import Propensities
from structsvm.clicks.quality import ModelQuality
from structsvm.clicks.svm import ClickSVMCV
from structsvm.plots import pages
from structsvm.plots.figures import Lines

_MOST_POSITIONS = 50  # number of rows in the table of positions
_MOST_DOCUMENTS = 20


def clicks_page(
    name: str,
    cells: ClickCells,
    *,
    lead: str | None = None,
    propensities: Propensities | None = None,
    qualities: Sequence[tuple[str, ModelQuality]] = (),
    estimate: CounterfactualEstimate | None = None,
    weights: Sequence[tuple[str, str]] = (),
    search: ClickSVMCV | None = None,
    judged: ClickJudgments | None = None,
    levels: Sequence[float] | None = None,
) -> str:
    """Return a self-contained HTML page about the log ``name``.

    ``lead`` is a sentence below the title, by default the size of the log; ``weights`` contains the figures of a
    training run, ``search`` is the model of a run that chose C, and ``levels`` contains the values at which the grades
    of ``judged`` begin.
    """
    values = _positions(cells, propensities)
    if estimate is not None:
        values |= _estimate(estimate)
    if search is not None:
        tried = pages.Series(
            "by held-out clicks", search.Cs_.tolist(), search.scores_.tolist(), ring=search.C_
        )
        values["tried"] = Lines([tried], x="C", y="share of the best value", log_x=True)
    if judged is not None:
        values |= _judgments(judged, levels)
    if qualities:
        values |= _models(qualities)
    return pages.render(
        "clicks/page.html",
        title=f"Clicks: {name}",
        lead=size_of_log(cells) if lead is None else lead,
        columns=_columns,
        propensities=propensities,
        qualities=qualities,
        estimate=estimate,
        weights=weights,
        search=search,
        judged=judged,
        most_positions=_MOST_POSITIONS,
        dropped=[(reason, f"{count:,}") for reason, count in cells.dropped.items()],
        **values,
    )


def _words(name: str) -> str:
    """Return a class name such as ``ClickChainModel`` as words, so that a narrow table can break it."""
    words = re.findall(r"[A-Z][a-z]*|[^A-Z]+", name)
    return " ".join([words[0], *(word.lower() if word != "Bayesian" else word for word in words[1:])])


def _columns(*names: str, text: int = 1) -> list[pages.Column]:
    """Return the columns of a table, of which the first ``text`` contain text, and the others numbers."""
    return [pages.Column(name, index >= text) for index, name in enumerate(names)]


def _positions(cells: ClickCells, propensities: Propensities | None) -> dict[str, Any]:
    """Return charts of the click-through by position, and of the propensities if there are any."""
    shows, clicks, rate = cells.per_position()
    positions = list(range(1, shows.shape[0] + 1))
    rows = [
        [str(k), f"{n:,}", f"{c:,}", f"{r:.4f}"]
        for k, n, c, r in zip(positions, shows, clicks, rate, strict=True)
    ]
    names = ["Position", "Impressions", "Clicks", "Clicks per impression"]
    if propensities is None:
        lines = [pages.Series("click-through", positions, rate.tolist())]
        chart = Lines(lines, x="position", y="clicks per impression", whole_x=True)
        return {"by_position": chart, "names": names, "positions": rows}
    theta = propensities.theta.tolist()
    known = bool(propensities.covariance.any())
    low, high = (ends.tolist() for ends in propensities.interval())
    label = "propensity, with its 95% interval" if known else "propensity, as given"
    relative = (rate / (rate[0] if rate[0] > 0 else 1)).tolist()
    lines = [
        pages.Series(label, list(range(1, len(theta) + 1)), theta, *((low, high) if known else ())),
        pages.Series("click-through, relative to position 1", positions, relative),
    ]
    names[1:1] = ["Propensity", "95% interval"]
    for i, row in enumerate(rows):
        row[1:1] = ["", ""]
        if i < len(theta):
            row[1:3] = f"{theta[i]:.4f}", f"{low[i]:.4f} to {high[i]:.4f}" if known else ""
    chart = Lines(lines, x="position", y="relative to position 1", whole_x=True)
    return {
        "by_position": chart,
        "names": names,
        "positions": rows,
        "known": known,
        "errors": propensities.errors if known else "",
    }


def _models(qualities: Sequence[tuple[str, ModelQuality]]) -> dict[str, Any]:
    # the curves of models lie close together, so plot their distance from the best at each position
    curves = [q.perplexity_by_position.tolist() for _, q in qualities]
    lowest = [min(filter(None, column)) for column in zip_longest(*curves)]
    rows = [(_words(label), f"{q.log_likelihood:.4f}", f"{q.perplexity:.4f}") for label, q in qualities]
    lines = [
        pages.Series(name, list(range(1, len(curve) + 1)), np.subtract(curve, lowest[: len(curve)]).tolist())
        for (name, *_), curve in zip(rows, curves, strict=True)
    ]
    return {
        "models": rows,
        "curves": Lines(lines, x="position", y="perplexity above the lowest", whole_x=True),
    }


def _estimate(estimate: CounterfactualEstimate) -> dict[str, Any]:
    named = {
        f"DCG@{estimate.k} of the new ranker": estimate.dcg,
        f"DCG@{estimate.k} of the lists as shown": estimate.logged_dcg,
        "Difference": estimate.difference,
        "Discount of an attractive document": estimate.discount,
    }
    return {
        "estimates": [
            (label, f"{i.value:.4f}", f"{i.lower:.4f} to {i.upper:.4f}") for label, i in named.items()
        ],
        "drivers": [(str(query), f"{share:+.4f}") for query, share in estimate.drivers],
    }


def _judgments(judged: ClickJudgments, levels: Sequence[float] | None) -> dict[str, Any]:
    limits = METHODS[judged.method].levels if levels is None else levels
    grades = judged.grades(levels)
    rows = []
    for grade in range(len(limits), -1, -1):
        chosen = (grades == grade) & judged.known
        reached = f"from {limits[grade - 1]:g}" if grade else f"below {limits[0]:g}"
        sums = (chosen.sum(), judged.shows[chosen].sum(), judged.clicks[chosen].sum())
        rows.append((str(grade), reached, *(f"{int(n):,}" for n in sums)))
    top = np.argsort(-judged.shows, kind="stable")[:_MOST_DOCUMENTS]
    most = [
        (str(query), str(document), f"{value:.3g}", f"{low:.3g} to {high:.3g}", f"{shows:,}", f"{clicks:,}")
        for query, document, value, low, high, shows, clicks in zip(
            *(column[top] for column in judged._columns()), strict=True
        )
    ]
    return {"meaning": METHODS[judged.method].meaning, "grades": rows, "most_shown": most}
