"""Reports of an arena: text for a terminal, and an HTML page."""

import math
from typing import Any

from structsvm.common.text_tables import aligned
from structsvm.online.arena.verdict import ONE_LOOK, Arena
from structsvm.plots import pages
from structsvm.plots.figures import Intervals, Lines, Series

_ELO = 173.71779276130073  # 400 / ln 10
_MOST_DRAWN = 30
"""Largest number of models in a figure, and in the table of pairs."""

_JUDGES = ("judge", "votes", "kappa with others, 95 % at one look", "same winner in both orders")

_LEFT = [False] * 4
"""Both tables for the terminal have four columns of text."""

_MOST_RIVALS = 8
"""Largest number of lines in the figure of the evidence, so that they can be distinguished."""

_MOST_PARTS = 4
"""Largest number of connected components for which figures are drawn."""


def summary(result: Arena, *, elo: float | None = None) -> list[str]:
    """Return the report as lines for a terminal: votes, verdict, further votes needed, and leaderboard."""
    questions = "" if result.n_questions is None else f", {result.n_questions:,} questions"
    lines = [
        f"{result.n_votes:,} votes, {len(result.models)} models{questions}; {result.n_ties / result.n_votes:.0%} ties",
        result.verdict + _surely(result),
        _order(result),
        "",
    ]
    rows = [["", f"strength, 95 % at one look{'' if elo is None else ', Elo'}", "rank", "won"]]
    for row in result.rows():
        won = f"{row['win_rate']:.0%} of {row['votes']:,}"
        rows.append([row["model"], strength_text(row, elo), rank_text(row), won])
    lines += aligned(rows, _LEFT)
    if result.judges:
        lines += ["", *aligned([_JUDGES, *_judges(result)], _LEFT)]
    return lines + [f"note: {text}" for text in notes(result)]


def _judges(result: Arena) -> list[list[str]]:
    """Return the table of the judges."""
    return [
        [
            one.judge,
            f"{one.n_votes:,}",
            "" if math.isnan(one.kappa) else _with_ends(one.kappa, one.lower, one.upper),
            "" if math.isnan(one.consistency) else f"{one.consistency:.0%}",
        ]
        for one in result.judges
    ]


def notes(result: Arena) -> list[str]:
    """Return what was left out, the remarks on the votes, and the test of the Bradley-Terry model if it rejects it."""
    left_out = result.votes.dropped.said()
    out = [*([left_out] if left_out else []), *result.notes]
    if result.fit_p_value is not None and result.fit_p_value <= 0.05:
        out.append(
            f"one strength per model does not fit the votes (p {result.fit_p_value:.2f}): trust the table of pairs"
        )
    return out


def strength_text(row: dict[str, Any], elo: float | None = None) -> str:
    """Return a strength with its interval and, with the base ``elo``, the Elo rating."""
    text = _with_ends(row["strength"], row["lower"], row["upper"])
    return text if elo is None else f"{text}, {elo + _ELO * row['strength']:.0f}"


def _with_ends(value: float, *ends: float) -> str:
    """Return a number with the ends of its interval, ``?`` if they are unknown or infinite."""
    return f"{value:+z.2f} [{', '.join(f'{end:+z.2f}' if math.isfinite(end) else '?' for end in ends)}]"


def rank_text(row: dict[str, Any]) -> str:
    """Return the range of ranks of a model as text."""
    best, worst = row["best_rank"], row["worst_rank"]
    return f"{best}" if best == worst else f"{best}-{worst}"


def _surely(result: Arena) -> str:
    if result.decided:
        look = "at this look" if ONE_LOOK in result.notes else "however often you look"
        return f" (error at most {result.alpha:.0%}, {look})"
    if result.more is None:
        return ""
    low, high = result.more
    return f"; about {(low + high) // 2:,} more votes ({low:,} to {high:,})"


def _order(result: Arena) -> str:
    used = {
        "matched": "votes in either order count in equal numbers",
        "random": "order random, votes used as they are",
        "unknown": "order unknown, votes used as they are",
    }[result.order]
    effect = result.strengths[0]
    log_odds = f" (log-odds {effect.order:+.2f} ± {effect.order_error:.2f})"
    odds = "" if math.isnan(effect.order_error) else log_odds
    return f"first shown wins {result.first_shown:.0%}{odds}; {used}"


def page(name: str, result: Arena, *, elo: float | None = None) -> str:
    """Return the report as an HTML page: verdict, forest plot, win matrix, and evidence for the leader over time."""
    rows = result.rows()
    titles = ["model", f"strength{'' if elo is None else ', Elo'}", "rank", "won", "votes"]
    cells = [
        [row["model"], strength_text(row, elo), rank_text(row), f"{row['win_rate']:.0%}", f"{row['votes']:,}"]
        for row in rows
    ]
    board = pages.table(
        [pages.Column(title, numeric=k > 0) for k, title in enumerate(titles)],
        cells,
        caption="Strength: log-odds with a 95 % interval for one look",
        highlight=[k for k, row in enumerate(rows) if row["model"] in result.best],
    )
    pieces = []
    for part in range(1, min(len(result.strengths), _MOST_PARTS) + 1):
        group = [row for row in rows if row["part"] == part][:_MOST_DRAWN]
        names, strengths, low, high = (
            [row[key] for row in group] for key in ("model", "strength", "lower", "upper")
        )
        ranks = [f"rank {rank_text(row)}" for row in group]
        pieces.append(pages.draw(Intervals(names, strengths, low, high, "strength (log-odds)", ranks)))
    text = (
        "Strengths are those of a Bradley-Terry model, relative to the mean; ranks are compatible with simultaneous "
        "95 % intervals of all differences. The verdict does not depend on the model."
    )
    # in large arenas, figures show only the first models and rivals, and the table of pairs is omitted
    sections = [pages.section("Leaderboard", board, *pieces, pages.paragraph(text, small=True))]
    if len(rows) <= _MOST_DRAWN:
        sections.append(pages.section("Pairs", _matrix(result)))
    if result.paths:
        drawn = [rival for rival in result.models if rival in result.paths][:_MOST_RIVALS]
        lines = [Series(rival, *(values.tolist() for values in result.paths[rival])) for rival in drawn]
        chart = Lines(
            lines, "votes", "log of the evidence", mark=result.threshold, mark_name="shown", markers=False
        )
        rivals = "each rival" if len(drawn) == len(result.paths) else f"its {len(drawn)} strongest rivals"
        text = (
            f"Evidence that {result.leader} beats {rivals}, by number of votes. A win is shown, at any look, once "
            "its line reaches the mark."
        )
        sections.append(pages.section("Evidence", pages.draw(chart), pages.paragraph(text, small=True)))
    if result.judges:
        columns = [pages.Column(title, numeric=k > 0) for k, title in enumerate(_JUDGES)]
        caption = (
            "Cohen's kappa with a 95 % interval for one look: 0 for agreement by chance, 1 for equal votes"
        )
        sections.append(pages.section("Judges", pages.table(columns, _judges(result), caption=caption)))
    votes, verdict, order = summary(result, elo=elo)[:3]
    lead = f"{verdict}. {votes}. {order[0].upper()}{order[1:]}."
    return pages.page(
        f"Arena: {name}", *sections, *[pages.paragraph(text, small=True) for text in notes(result)], lead=lead
    )


def _matrix(result: Arena) -> str:
    """Return the table of pairs: the share of votes won by the model in the row, with a tick if its win is shown."""
    cells = {}
    for pair in result.pairs:
        for one, other, share, evidence in (
            (pair.first, pair.second, pair.share, pair.log_evidence),
            (pair.second, pair.first, 1 - pair.share, pair.log_evidence_against),
        ):
            shown = " \u2713" if evidence >= result.threshold else ""
            cells[one, other] = f"{share:.0%} of {pair.n_votes:,}{shown}"
    return pages.table(
        [pages.Column("won against"), *(pages.Column(model, numeric=True) for model in result.models)],
        [[one, *(cells.get((one, other), "") for other in result.models)] for one in result.models],
        caption="Share of the votes that the row's model won; \u2713: shown to beat the column's model",
    )
