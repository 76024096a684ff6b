"""HTML page about a click log: propensities with intervals, click models, what was left out, queries that decide."""

from __future__ import annotations

import re
from collections.abc import Sequence

from structsvm import report
from structsvm.clicks.cells import ClickCells
from structsvm.clicks.evaluation import CounterfactualEstimate
from structsvm.clicks.propensities import Propensities
from structsvm.clicks.quality import ModelQuality

__all__ = ["clicks_page"]


def clicks_page(
    name: str,
    cells: ClickCells,
    *,
    lead: str = "",
    propensities: Propensities | None = None,
    qualities: Sequence[tuple[str, ModelQuality]] = (),
    estimate: CounterfactualEstimate | None = None,
    weights: Sequence[tuple[str, str]] = (),
) -> str:
    """Return an HTML page about a click log, in one file.

    Parameters
    ----------
    name : str
        Of the log.
    cells : ClickCells
    lead : str
        One sentence below the title.
    propensities : Propensities, optional
    qualities : sequence of (str, ModelQuality)
        Of click models, by name.
    estimate : CounterfactualEstimate, optional
    weights : sequence of (str, str)
        Figures of a training.

    Examples
    --------
    >>> cells = ClickCells.from_arrays([1, 1], [5, 6], [1, 2], [1, 0])
    >>> "Left out" in clicks_page("log", cells)
    True
    """
    sections = []
    shows, clicks = cells.per_position()
    rate = [c / n if n else 0.0 for c, n in zip(clicks.tolist(), shows.tolist(), strict=True)]
    if propensities is not None:
        sections.append(_propensities(propensities, rate))
    else:
        places = list(range(1, len(rate) + 1))
        sections.append(
            report.section(
                "Click-through by position",
                report.line_chart(
                    [report.Series("click-through rate", places, rate)], x="position", y="rate"
                ),
            )
        )
    if estimate is not None:
        sections.append(_estimate(estimate))
    if weights:
        sections.append(
            report.section(
                "Training",
                report.table(
                    [report.Column("Figure"), report.Column("Value")], weights, caption="In figures"
                ),
            )
        )
    if qualities:
        # the curves of models lie close together: their distance from the best at each position is what differs
        longest = max(len(q.perplexity_by_position) for _, q in qualities)
        lowest = [
            min(q.perplexity_by_position[k] for _, q in qualities if k < len(q.perplexity_by_position))
            for k in range(longest)
        ]
        rows = [(_words(label), f"{q.log_likelihood:.4f}", f"{q.perplexity:.4f}") for label, q in qualities]
        columns = [
            report.Column("Model"),
            report.Column("Log-likelihood", True),
            report.Column("Perplexity", True),
        ]
        lines = [
            report.Series(
                _words(label),
                list(range(1, len(q.perplexity_by_position) + 1)),
                [float(p - low) for p, low in zip(q.perplexity_by_position, lowest, strict=False)],
            )
            for label, q in qualities
        ]
        sections.append(
            report.section(
                "Click models",
                report.table(
                    columns,
                    rows,
                    caption="On held-out lists; a higher likelihood and a lower perplexity are better",
                ),
                report.line_chart(lines, x="position", y="perplexity above the lowest"),
            )
        )
    dropped = [(reason, f"{count:,}") for reason, count in cells.dropped.items()]
    content = (
        report.table(
            [report.Column("Reason"), report.Column("Count", True)], dropped, caption="What was not counted"
        )
        if dropped
        else report.paragraph("Nothing.")
    )
    sections.append(report.section("Left out", content))
    return report.page(f"Clicks: {name}", *sections, lead=lead)


def _words(name: str) -> str:
    """Return ``ClickChainModel`` as words, which a narrow table can break."""
    words = re.findall(r"[A-Z][a-z]*|[^A-Z]+", name)
    return " ".join([words[0], *(word.lower() if word != "Bayesian" else word for word in words[1:])])


def _propensities(propensities: Propensities, rate: Sequence[float]) -> str:
    low, high = propensities.interval()
    places = list(range(1, propensities.theta.shape[0] + 1))
    first = rate[0] or 1.0
    lines = [
        report.Series("propensity", places, propensities.theta.tolist()),
        report.Series("lower end of its 95% interval", places, low.tolist()),
        report.Series("upper end of its 95% interval", places, high.tolist()),
        report.Series(
            "click-through rate, relative to position 1", places, [r / first for r in rate[: len(places)]]
        ),
    ]
    link = propensities.weakest_link
    weakest = (
        f" The ends move together: the weakest link is between positions {link.first} and {link.second} (standard "
        f"error {link.error:.2g} of the log of their ratio), and every position behind it depends on it."
    )
    return report.section(
        "Propensities",
        report.line_chart(lines, x="position", y="relative to position 1"),
        report.paragraph(
            "How often users look at a position, estimated from documents that stood at several."
            f"{weakest if link.second > link.first else ''} Click-through also depends on the quality of what "
            "stands at a position.",
            small=True,
        ),
    )


def _estimate(estimate: CounterfactualEstimate) -> str:
    named = (
        ("DCG of the new ranker", estimate.dcg),
        ("DCG of the lists as shown", estimate.logged_dcg),
        ("difference", estimate.difference),
        ("discount of an attractive document", estimate.discount),
    )
    rows = [(label, f"{i.value:.4f}", f"{i.lower:.4f} to {i.upper:.4f}") for label, i in named]
    columns = [report.Column("Figure"), report.Column("Estimate", True), report.Column("95% interval", True)]
    drivers = [(str(query), f"{share:+.4f}") for query, share in estimate.drivers]
    return report.section(
        "New ranker",
        report.table(columns, rows, caption=f"From {estimate.n_sessions:,} lists"),
        report.paragraph(
            f"{estimate.unseen:.1%} of the new discounts are on documents that were never shown: the DCG lies between "
            f"{estimate.bounds[0]:.4f} and {estimate.bounds[1]:.4f} if they were never, or always, attractive.",
            small=True,
        ),
        report.table(
            [report.Column("Query"), report.Column("Share of the difference", True)], drivers,
            caption="Queries that drive the difference",
        ),
    )  # fmt: skip
