"""HTML page about a click log: propensities with intervals, click models, what was left out, queries that decide."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from structsvm import report
from structsvm.clicks.cells import ClickCells
from structsvm.clicks.evaluation import CounterfactualEstimate
from structsvm.clicks.judging import METHODS, ClickJudgments
from structsvm.clicks.propensities import Propensities
from structsvm.clicks.quality import ModelQuality

_MOST_POSITIONS = 50  # in a table
_MOST_DOCUMENTS = 20


class Search(NamedTuple):
    """How C was chosen: the values tried, the share of the best possible held-out value of each, and the best."""

    Cs: Sequence[float]
    scores: Sequence[float]
    chosen: float


def clicks_page(
    name: str,
    cells: ClickCells,
    *,
    lead: str | None = None,
    propensities: Propensities | None = None,
    qualities: Sequence[tuple[str, ModelQuality]] = (),
    estimate: CounterfactualEstimate | None = None,
    weights: Sequence[tuple[str, str]] = (),
    search: Search | None = None,
    judged: ClickJudgments | None = None,
    levels: Sequence[float] | None = None,
) -> str:
    """Return an HTML page about the log ``name``, in one file.

    ``lead`` is a sentence below the title, by default the size of the log; ``weights`` are figures of a training,
    ``search`` how its C was chosen, and ``levels`` those of the grades ``judged``.
    """
    sections = []
    if estimate is not None:
        sections.append(_estimate(estimate))
    if weights:
        sections.append(_training(weights, search))
    if judged is not None:
        sections.append(_judgments(judged, levels))
    sections.append(_positions(cells, propensities))
    if qualities:
        sections.append(_models(qualities))
    sections.append(_left_out(cells))
    return report.page(f"Clicks: {name}", *sections, lead=size_of_log(cells) if lead is None else lead)


def size_of_log(cells: ClickCells) -> str:
    """Return the size of a log as a sentence."""
    parts = [(cells.n_queries, "query", "queries"), (cells.n_shows, "impression", "impressions")]
    if cells.sessions is not None:
        parts.insert(1, (cells.sessions.n_sessions, "list", "lists"))
    parts.append((cells.n_clicks, "click", "clicks"))
    return ", ".join(f"{n:,} {one if n == 1 else many}" for n, one, many in parts) + "."


def errors_of(found: Propensities) -> str:
    """Return what the errors of harvested propensities rest on, as a sentence."""
    text = f"errors from {found.n_clusters:,} {'query' if found.n_clusters == 1 else 'queries'}"
    if found.freedom is None:
        return f"{text}, whose clicks are taken as independent"
    return (
        f"{text}, by their clicks worth {found.effective_clusters:,.1f} of equal size; intervals with "
        f"{found.freedom[1:].min():,.3g} to {found.freedom[1:].max():,.3g} degrees of freedom"
    )


def _words(name: str) -> str:
    """Return ``ClickChainModel`` as words, which a narrow table can break."""
    words = re.findall(r"[A-Z][a-z]*|[^A-Z]+", name)
    return " ".join([words[0], *(word.lower() if word != "Bayesian" else word for word in words[1:])])


def _columns(*names: str, text: int = 1) -> list[report.Column]:
    """Return the columns of a table, of which the first ``text`` hold no numbers."""
    return [report.Column(name, index >= text) for index, name in enumerate(names)]


def _positions(cells: ClickCells, propensities: Propensities | None) -> str:
    """Return the click-through by position, and the propensities beside it if there are some."""
    shows, clicks = cells.per_position()
    rate = np.divide(clicks, shows, out=np.zeros(shows.shape[0]), where=shows > 0)
    positions = list(range(1, shows.shape[0] + 1))
    rows = [
        [str(k), f"{n:,}", f"{c:,}", f"{r:.4f}"]
        for k, n, c, r in zip(positions, shows, clicks, rate, strict=True)
    ]
    names = ["Position", "Impressions", "Clicks", "Clicks per impression"]
    if propensities is None:
        lines = [report.Series("click-through", positions, rate.tolist())]
        chart = report.line_chart(lines, x="position", y="clicks per impression", whole_x=True)
        return report.section("Click-through by position", chart, _table_of_positions(names, rows))
    theta = propensities.theta.tolist()
    known = propensities.covariance.any()
    low, high = (ends.tolist() for ends in propensities.interval())
    label = "propensity, with its 95% interval" if known else "propensity, as given"
    relative = (rate / (rate[0] if rate[0] > 0 else 1)).tolist()
    lines = [
        report.Series(label, list(range(1, len(theta) + 1)), theta, low, high),
        report.Series("click-through, relative to position 1", positions, relative),
    ]
    names[1:1] = ["Propensity", "95% interval"]
    for i, row in enumerate(rows):
        row[1:1] = ["", ""]
        if i < len(theta):
            row[1:3] = f"{theta[i]:.4f}", f"{low[i]:.4f} to {high[i]:.4f}" if known else ""
    how = "How often users look at a position, relative to the first"
    how += ", estimated from documents that stood at several positions." if known else ", as given."
    if known and propensities.n_clusters:
        how += f" {errors_of(propensities).capitalize()}."
    link = propensities.weakest_link
    if known and link.second > link.first:
        how += (
            f" Errors move together: the weakest link is between positions {link.first} and {link.second} (standard "
            f"error {link.error:.2g} of the log of their ratio), and every position behind it depends on it."
        )
    how += " Click-through also depends on the quality of what stands at a position."
    return report.section(
        "Propensities",
        report.line_chart(lines, x="position", y="relative to position 1", whole_x=True),
        report.paragraph(how, small=True),
        _table_of_positions(names, rows),
    )


def _table_of_positions(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    more = len(rows) - _MOST_POSITIONS
    caption = "By position" + (f", the first {_MOST_POSITIONS} of {len(rows)}" if more > 0 else "")
    return report.details(
        "In numbers", report.table(_columns(*names), rows[:_MOST_POSITIONS], caption=caption)
    )


def _models(qualities: Sequence[tuple[str, ModelQuality]]) -> str:
    # the curves of models lie close together: their distance from the best at each position is what differs
    curves = [q.perplexity_by_position.tolist() for _, q in qualities]
    lowest = [min(filter(None, column)) for column in zip_longest(*curves)]
    rows = [(_words(label), f"{q.log_likelihood:.4f}", f"{q.perplexity:.4f}") for label, q in qualities]
    lines = [
        report.Series(
            _words(label),
            list(range(1, len(curve) + 1)),
            [p - low for p, low in zip(curve, lowest, strict=False)],
        )
        for (label, _), curve in zip(qualities, curves, strict=True)
    ]
    caption = (
        "Fitted to a random three quarters of the lists, judged on the other quarter, per shown document (natural "
        "logarithm); a higher likelihood and a lower perplexity are better, a perplexity of 1 is perfect"
    )
    return report.section(
        "Click models",
        report.table(_columns("Model", "Log-likelihood", "Perplexity"), rows, caption=caption),
        report.line_chart(lines, x="position", y="perplexity above the lowest", whole_x=True),
    )


def _training(weights: Sequence[tuple[str, str]], search: Search | None) -> str:
    pieces = [report.table(_columns("Figure", "Value"), weights, caption="The ranker")]
    if search is not None:
        tried = report.Series("by held-out clicks", list(search.Cs), list(search.scores), ring=search.chosen)
        pieces.append(report.line_chart([tried], x="C", y="share of the best possible", log_x=True))
        edge = search.chosen in (search.Cs[0], search.Cs[-1]) and len(search.Cs) > 1
        text = (
            "How well rankers place the clicks of queries that they were not trained on, by C; the ring is the C "
            f"chosen{', at the end of what was tried: a value beyond may be better' if edge else ''}."
        )
        pieces.append(report.paragraph(text, small=True))
    return report.section("Training", *pieces)


def _estimate(estimate: CounterfactualEstimate) -> str:
    dcg = f"DCG@{estimate.k}"
    named = {
        f"{dcg} of the new ranker": estimate.dcg,
        f"{dcg} of the lists as shown": estimate.logged_dcg,
        "Difference": estimate.difference,
        "Discount of an attractive document": estimate.discount,
    }
    rows = [(label, f"{i.value:.4f}", f"{i.lower:.4f} to {i.upper:.4f}") for label, i in named.items()]
    text = f"The log has shown every document that the new ranker has among the first {estimate.k}."
    if estimate.unseen:
        text = (
            f"{estimate.unseen:.1%} of the new discounts are on documents that were never shown: the {dcg} lies "
            f"between {estimate.bounds[0]:.4f} and {estimate.bounds[1]:.4f} if they were never, or always, attractive."
        )
    text += (
        " The clicks, weighted by inverse propensities, tell as much as "
        f"{estimate.effective_sample_size:,.0f} of equal weight; the largest weight of a click is "
        f"{estimate.largest_weight:,.4g}."
    )
    drivers = [(str(query), f"{share:+.4f}") for query, share in estimate.drivers]
    driven = f"Queries that drive the difference of {estimate.difference.value:+.4f}"
    caption = f"From {estimate.n_sessions:,} lists, intervals of {estimate.level:.0%}"
    return report.section(
        "New ranker",
        report.table(_columns("Figure", "Estimate", "Interval"), rows, caption=caption),
        report.paragraph(text, small=True),
        report.table(_columns("Query", "Adds to the difference"), drivers, caption=driven),
        *(report.paragraph(f"{note[:1].upper()}{note[1:]}.", small=True) for note in estimate.notes),
    )


def _judgments(judged: ClickJudgments, levels: Sequence[float] | None) -> str:
    limits = METHODS[judged.method].levels if levels is None else levels
    grades = judged.grades(levels)
    rows = []
    for grade in range(len(limits), -1, -1):
        chosen = grades == grade
        reached = f"from {limits[grade - 1]:g}" if grade else f"below {limits[0]:g}"
        sums = (chosen.sum(), judged.shows[chosen].sum(), judged.clicks[chosen].sum())
        rows.append((str(grade), reached, *(f"{int(n):,}" for n in sums)))
    counts = ("Documents", "Impressions", "Clicks")
    columns = (
        judged.query,
        judged.document,
        judged.value,
        judged.lower,
        judged.upper,
        judged.shows,
        judged.clicks,
    )
    top = np.argsort(-judged.shows, kind="stable")[:_MOST_DOCUMENTS]
    most = [
        (str(query), str(document), f"{value:.3g}", f"{low:.3g} to {high:.3g}", f"{shows:,}", f"{clicks:,}")
        for query, document, value, low, high, shows, clicks in zip(*(c[top] for c in columns), strict=True)
    ]
    return report.section(
        "Judgments",
        report.paragraph(f"A value is {METHODS[judged.method].meaning}.", small=True),
        report.table(_columns("Grade", "Value", *counts, text=2), rows, caption="Grades"),
        report.table(
            _columns("Query", "Document", "Value", "95% interval", *counts[1:], text=2),
            most,
            caption="The documents with most impressions",
        ),
    )


def _left_out(cells: ClickCells) -> str:
    dropped = [(reason, f"{count:,}") for reason, count in cells.dropped.items()]
    piece = report.paragraph("Nothing.")
    if dropped:
        caption = "What was not counted, or counted in part"
        piece = report.table(_columns("Reason", "Count"), dropped, caption=caption)
    return report.section("Left out", piece)
