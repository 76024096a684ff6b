"""The report of an arena for readers: lines for a terminal, and an HTML page."""

from __future__ import annotations

import math

from structsvm.online.arena.verdict import Arena


def summary(result: Arena, *, elo: float | None = None) -> list[str]:
    """Return the report as lines for a terminal: the votes, the verdict, what remains to be asked, the leaderboard."""
    questions = "" if result.n_questions is None else f", {result.n_questions:,} questions"
    lines = [
        f"{result.n_votes:,} votes, {len(result.models)} models{questions}; {result.n_ties / result.n_votes:.0%} ties",
        result.verdict + _surely(result),
        _order(result),
        "",
    ]
    header = ["", f"strength, 95 % at one look{'' if elo is None else ', Elo'}", "rank", "won"]
    rows = [header]
    for part in sorted({row["part"] for row in result.rows()}):
        for row in (row for row in result.rows() if row["part"] == part):
            rows.append(
                [
                    row["model"],
                    strength_text(row, elo),
                    rank_text(row),
                    f"{row['win_rate']:.0%} of {row['votes']:,}",
                ]
            )
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    lines += [
        "  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)).rstrip()
        for row in rows
    ]
    return lines + [f"note: {text}" for text in notes(result)]


def notes(result: Arena) -> list[str]:
    """Return what to know of the votes, with the test of the Bradley-Terry model where it speaks against it."""
    out = list(result.notes)
    if result.fit_p_value is not None and result.fit_p_value <= 0.05:
        out.append(
            f"the votes are not those of one strength per model (p {result.fit_p_value:.2f}): trust the table of pairs"
        )
    return out


def strength_text(row: dict[str, float], elo: float | None = None) -> str:
    """Return a strength with its interval, and the Elo rating beside it where a base is given."""
    ends = [f"{row[end]:+.2f}" if math.isfinite(row[end]) else "?" for end in ("lower", "upper")]
    text = f"{row['strength']:+.2f} [{', '.join(ends)}]"
    return text if elo is None else f"{text}, {elo + 400 / math.log(10) * row['strength']:.0f}"


def rank_text(row: dict[str, int]) -> str:
    """Return the ranks that a model may have."""
    best, worst = row["best_rank"], row["worst_rank"]
    return f"{best}" if best == worst else f"{best}-{worst}"


def _surely(result: Arena) -> str:
    if result.decided:
        look = (
            "at this look" if any("one look" in text for text in result.notes) else "however often you look"
        )
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
    odds = (
        ""
        if math.isnan(effect.order_error)
        else f" (log-odds {effect.order:+.2f} ± {effect.order_error:.2f})"
    )
    return f"first shown wins {result.first_shown:.0%}{odds}; {used}"


def page(name: str, result: Arena, *, elo: float | None = None) -> str:
    raise NotImplementedError
