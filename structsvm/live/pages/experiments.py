"""The list of experiments, and the page of one: the verdict, how it came about, guardrails and health."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from structsvm import report
from structsvm.common.escaping import escape
from structsvm.live.pages.band import band_over_time
from structsvm.live.pages.layout import address, ago, badge, count, facts, moment, page, percent, share_of

MOST_CHARTS = 6
"""Pairs with a chart of their own; the table has all."""


_SET_UP = {
    "key", "revision", "state", "rankers", "production", "kind", "method", "length", "share", "window_s"
}  # fmt: skip


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


def experiment_page(one: Mapping[str, Any], *, now_ms: float, refresh: int | None = 10) -> str:
    """Return the page ``/e/{key}``."""
    experiment = one["experiment"]
    figures = [("impressions counted", count(one["n_impressions"]))]
    if not one.get("bandit"):
        figures.append(("with clicks", count(one.get("n_clicked"))))
    figures += [("pending", count(one["pending"])), ("counted up to", ago(one["as_of"], now_ms))]
    pieces = [state_badges(one), facts(figures)]
    if one.get("bandit"):
        pieces += [*bandit_sections(one["bandit"]), *_notes(one)]
    else:
        pieces += [
            report.section("Difference over time", *bands(one)),
            report.section("In figures", _pairs(one), *_notes(one)),
        ]
    pieces += [
        report.section("Guardrails", _guardrails(one["guardrails"])),
        report.section("Health", _health(one, now_ms)),
        report.section("Set-up", _set_up(experiment)),
    ]
    return page(
        experiment["key"], *pieces, lead=one["verdict"]["sentence"], here=address(experiment["key"]),
        refresh=refresh,
    )  # fmt: skip


def bands(one: Mapping[str, Any], most: int = MOST_CHARTS, *, explained: bool = True) -> list[str]:
    """Return the chart of each pair of rankers, those with the smallest p first where there are many."""
    pairs, series = one["pairs"], one["series"]
    if not pairs or not series:
        window = f"its window of {one['experiment']['window_s']:g} s for clicks"
        return [report.paragraph(f"Nothing is closed yet. An impression counts once {window} is over.")]
    p_values = [pair["always_valid_p_value"] for pair in pairs]
    order = sorted(range(len(pairs)), key=lambda k: math.inf if p_values[k] is None else p_values[k])[:most]
    charts = []
    for k in sorted(order):
        known = [(one["n"], one["pairs"][k]) for one in series if len(one["pairs"]) > k]
        points = [(n, pair["mean"], pair["lower"], pair["upper"]) for n, pair in known]
        charts.append(band_over_time(points, pairs[k]["a"], pairs[k]["b"], explained=explained))
    if len(pairs) > most and explained:
        charts.append(report.paragraph(f"The {most} clearest of {len(pairs)} pairs.", small=True))
    return [report.side_by_side(*charts)] if len(charts) > 1 else charts


def bandit_sections(bandit: Mapping[str, Any]) -> list[str]:
    """Return who is still in play, the shares of the next duels, and who won against whom."""
    rankers = bandit["rankers"]
    playing = [r["name"] for r in rankers if r["in_play"]]
    best = bandit["best"]
    said = f"{count(bandit['n_duels'])} duels by {bandit['policy']}. "
    if len(playing) == 1:
        said += f"Only {playing[0]} is still in play."
    else:
        said += f"Still in play: {report.listed(playing)}." if playing else "No ranker is in play."
    columns = [
        report.Column("Ranker"), report.Column("In play"),
        *(report.Column(name, True) for name in ("Next duels", "Duels", "Wins", "Losses", "Ties", "Won")),
    ]  # fmt: skip
    rows = [
        [
            r["name"], "yes" if r["in_play"] else "no", percent(r["share"]), count(r["duels"]), count(r["wins"]),
            count(r["losses"]), count(r["ties"]), share_of(r["wins"] + r["ties"] / 2, r["duels"]),
        ]
        for r in rankers
    ]  # fmt: skip
    names = [r["name"] for r in rankers]
    leading = [i for i, name in enumerate(names) if name == best]
    sections = [
        report.section(
            "Who is in play",
            report.paragraph(said),
            report.table(columns, rows, caption="Rankers; the best so far in bold", highlight=leading),
        ),
        report.section(
            "Shares of the next duels",
            report.bar_list(names, [r["share"] or 0.0 for r in rankers], caption="1: part of every duel"),
        ),
    ]
    if len(names) <= 20:
        columns = [report.Column("Won by"), *(report.Column(f"against {name}", True) for name in names)]
        rows = [
            [name, *("" if i == j else count(n) for j, n in enumerate(bandit["wins"][i]))]
            for i, name in enumerate(names)
        ]
        caption = "Duels won by the ranker of the row; a tie is half a win for both"
        sections.append(report.section("Who won against whom", report.table(columns, rows, caption=caption)))
    return sections


def _pairs(one: Mapping[str, Any]) -> str:
    columns = [report.Column("Pair")] + [
        report.Column(name, True)
        for name in ("Wins", "Losses", "Ties", "Difference", "Always-valid interval", "p", "Needed in all")
    ]
    rows = []
    for pair in one["pairs"]:
        low, high = pair["always_valid_lower"], pair["always_valid_upper"]
        between = "–" if low is None or high is None else f"{low:+.3g} to {high:+.3g}".replace("-", "−")
        p = pair["always_valid_p_value"]
        needed = pair["always_valid_queries_needed"]
        rows.append(
            [
                f"{pair['a']} against {pair['b']}", count(pair["wins"]), count(pair["losses"]), count(pair["ties"]),
                f"{pair['mean']:+.3g}".replace("-", "−"), between, "–" if p is None else report.p_value(p),
                count(None if needed is None else math.ceil(needed)),
            ]
        )  # fmt: skip
    if not rows:
        return report.paragraph("Nothing is closed yet.")
    alpha = one["experiment"]["alpha"]
    caption = (
        f"Always-valid figures hold at any look; decided at p ≤ {alpha:g}. Needed: impressions after which a "
        "difference like this is expected to be decided."
    )
    return report.table(columns, rows, caption=caption)


def _notes(one: Mapping[str, Any]) -> list[str]:
    caution = one.get("caution")
    notes = [*one.get("notes", ()), *(() if caution is None else (caution,))]
    return [report.paragraph(text, small=True) for text in notes]


def _guardrails(found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return report.paragraph("None is set.")
    items = [
        f"<li>{_alarm(g)}<strong>{escape(g['name'])}</strong>: {escape(g['text'])}{escape(_measured(g))}</li>"
        for g in sorted(found, key=lambda g: not g["alarm"])
    ]
    return f'<ul class="guards">{"".join(items)}</ul>'


def _alarm(guard: Mapping[str, Any]) -> str:
    if guard["alarm"]:
        return badge("ALARM", "bad")
    return badge("fine", "good") if guard["n"] else badge("no data")


def _measured(guard: Mapping[str, Any]) -> str:
    if not guard["n"]:
        return ""
    limit = f", limit {_figure(guard['limit'])}" if guard["limit"] else ""
    return f" ({_figure(guard['value'])}{limit}, of {count(guard['n'])})"


def _health(one: Mapping[str, Any], now_ms: float) -> str:
    missed = one["not_compared"]
    why = ", ".join(f"{n:,} {reason}" for reason, n in sorted(missed["why"].items(), key=lambda i: -i[1])[:8])
    figures = [
        ("closing is behind by", f"{one['lag_s']:.1f} s"),
        ("late clicks", count(one["late"])),
        ("rankers agreed", count(one["same"])),
        ("not compared", count(missed["n"])),
        ("production alone (control)", count(one["control"])),
    ]
    said = "No list is counted yet. "
    if one["as_of"] is not None:
        said = f"Counted up to the list shown at {moment(one['as_of'])} ({ago(one['as_of'], now_ms)}). "
    said += f"Not compared, as the challenger failed: {why}." if why else "No challenger failed."
    return facts(figures) + report.paragraph(said, small=True)


def _set_up(experiment: Mapping[str, Any]) -> str:
    rows = [
        (name, report.listed(value) if isinstance(value, list) else str(value))
        for name, value in experiment.items()
        if name in _SET_UP
    ]
    rows += [("created", moment(experiment.get("created_at")))]
    columns = [report.Column("Setting"), report.Column("Value")]
    table = report.table(columns, rows, caption="A change of meaning starts a revision")
    return report.details("Configuration", table)


def _figure(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.3g}".replace("-", "−")
