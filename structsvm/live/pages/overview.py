"""The list of experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from structsvm import report
from structsvm.common.escaping import escape
from structsvm.live.pages.layout import address, ago, badge, count, facts, page, percent


def overview_page(reports: Sequence[Mapping[str, Any]], *, now_ms: float, refresh: int | None = 10) -> str:
    """Return the page ``/``."""
    failed = [one["experiment"]["key"] for one in reports if "verdict" not in one]
    reports = [one for one in reports if "verdict" in one]
    cards = [_card(one, now_ms) for one in reports]
    cards += [
        f"<section><h2>{escape(key)}</h2>{report.paragraph('Its report failed; the log says why.')}</section>"
        for key in failed
    ]
    running = sum(one["experiment"]["state"] == "running" for one in reports)
    decided = sum(one["verdict"]["winner"] is not None for one in reports)
    alarms = sum(any(g["alarm"] for g in one["guardrails"]) for one in reports)
    lead = f"{running:,} of {len(reports):,} running, {decided:,} decided"
    lead += f", {alarms:,} with a guardrail alarm." if alarms else "."
    if not reports and not failed:
        lead = "No experiment yet. Create one by PUT /v1/experiments/{key}, or by: structsvm live create FILE.toml"
    return page("Experiments", *cards, lead=lead, here="/", refresh=refresh)


def state_badges(one: Mapping[str, Any]) -> str:
    """Return state, decision and alarms of an experiment as words in frames."""
    state = one["experiment"]["state"]
    words = [badge(state, {"running": "good", "killed": "bad"}.get(state, ""))]
    winner = one["verdict"]["winner"]
    words.append(badge("not decided") if winner is None else badge(f"decided: {winner:.60}", "good"))
    n = sum(bool(g["alarm"]) for g in one["guardrails"])
    if n:
        words.append(badge(f"{n} guardrail alarm{'s' if n > 1 else ''}", "bad"))
    return f"<p>{''.join(words)}</p>"


def _card(one: Mapping[str, Any], now_ms: float) -> str:
    experiment = one["experiment"]
    what = "Bandit over" if experiment["kind"] == "bandit" else "Interleaving of"
    names = report.listed(experiment["rankers"][:6])
    more = f" and {len(experiment['rankers']) - 6} more" if len(experiment["rankers"]) > 6 else ""
    figures = [
        ("impressions counted", count(one["n_impressions"])), ("pending", count(one["pending"])),
        ("share", percent(experiment["share"])), ("counted up to", ago(one["as_of"], now_ms)),
    ]  # fmt: skip
    return (
        f'<section><h2><a href="{escape(address(experiment["key"]))}">{escape(experiment["key"])}</a></h2>'
        + state_badges(one)
        + report.paragraph(one["verdict"]["sentence"])
        + report.paragraph(f"{what} {names}{more}, revision {experiment['revision']}.", small=True)
        + facts(figures)
        + "</section>"
    )
