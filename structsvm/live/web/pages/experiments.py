"""The list of experiments, and the page of one experiment: verdict, history, guardrails and health."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from structsvm.live.web.pages import formats
from structsvm.live.web.pages.band import band_over_time
from structsvm.live.web.pages.formats import address, count, moment, percent, share_of
from structsvm.plots import pages

MOST_CHARTS = 6
"""Number of pairs with their own chart; the table lists all pairs."""


_SET_UP = {
    "key",
    "revision",
    "state",
    "rankers",
    "production",
    "kind",
    "method",
    "length",
    "share",
    "window_s",
}


def overview_page(reports: Sequence[Mapping[str, Any]], *, now_ms: float, refresh: int | None = 10) -> str:
    """Return the overview of all experiments, the page ``/``."""
    failed = [one["experiment"]["key"] for one in reports if "verdict" not in one]
    reports = [one for one in reports if "verdict" in one]
    running = sum(one["experiment"]["state"] == "running" for one in reports)
    decided = sum(one["verdict"]["winner"] is not None for one in reports)
    alarms = sum(any(g["alarm"] for g in one["guardrails"]) for one in reports)
    lead = f"{running:,} of {len(reports):,} running, {decided:,} decided"
    lead += f", {alarms:,} with a guardrail alarm." if alarms else "."
    if not reports and not failed:
        lead = "No experiment yet. Create one: PUT /v1/experiments/{key}, or structsvm live create FILE.toml"
    return pages.render(
        "live/web/pages/overview.html",
        title="Experiments",
        here="/",
        lead=lead,
        refresh=refresh,
        reports=reports,
        failed=failed,
        now_ms=now_ms,
        say=formats,
        listed=pages.listed,
    )


def experiment_page(one: Mapping[str, Any], *, now_ms: float, refresh: int | None = 10) -> str:
    """Return the page of an experiment, ``/e/{key}``."""
    experiment, caution = one["experiment"], one.get("caution")
    kind = _bandit(one["bandit"]) if one.get("bandit") else {"pairs": _pairs(one), "bands": bands(one)}
    set_up = [
        (name, pages.listed(value) if isinstance(value, list) else str(value))
        for name, value in experiment.items()
        if name in _SET_UP
    ]
    return pages.render(
        "live/web/pages/experiment.html",
        title=experiment["key"],
        here=address(experiment["key"]),
        lead=one["verdict"]["sentence"],
        refresh=refresh,
        one=one,
        now_ms=now_ms,
        say=formats,
        listed=pages.listed,
        columns=_columns,
        notes=[*one.get("notes", ()), *(() if caution is None else (caution,))],
        set_up=[*set_up, ("created", moment(experiment.get("created_at")))],
        **kind,
    )


def bands(one: Mapping[str, Any], most: int = MOST_CHARTS, *, explained: bool = True) -> Markup:
    """Return the charts of the pairs of rankers; if there are many, those with the smallest p."""
    pairs, series = one["pairs"], one["series"]
    if not pairs or not series:
        window = f"its window of {one['experiment']['window_s']:g} s for clicks"
        return Markup(pages.paragraph(f"No impression is closed yet. Each counts when {window} is over."))
    order = sorted(range(len(pairs)), key=lambda k: pairs[k]["always_valid_p_value"])[:most]
    charts = []
    for k in sorted(order):
        known = [(one["n"], one["pairs"][k]) for one in series if len(one["pairs"]) > k]
        points = [(n, pair["mean"], pair["lower"], pair["upper"]) for n, pair in known]
        charts.append(band_over_time(points, pairs[k]["a"], pairs[k]["b"], explained=explained))
    if len(pairs) > most and explained:
        charts.append(pages.paragraph(f"Pairs with the smallest p: {most} of {len(pairs)}.", small=True))
    return Markup(pages.side_by_side(*charts) if len(charts) > 1 else charts[0])


def _columns(texts: Sequence[str], numbers: Sequence[str]) -> list[pages.Column]:
    return [*map(pages.Column, texts), *(pages.Column(name, True) for name in numbers)]


def _bandit(bandit: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a bandit's page: rankers in play, shares of the next duels, wins of each pair."""
    rankers = bandit["rankers"]
    names = [r["name"] for r in rankers]
    rows = [
        [
            r["name"],
            "yes" if r["in_play"] else "no",
            percent(r["share"]),
            count(r["duels"]),
            count(r["wins"]),
            count(r["losses"]),
            count(r["ties"]),
            share_of(r["wins"] + r["ties"] / 2, r["duels"]),
        ]
        for r in rankers
    ]
    met = [
        [name, *("" if i == j else count(n) for j, n in enumerate(bandit["wins"][i]))]
        for i, name in enumerate(names)
    ]
    return {
        "playing": [r["name"] for r in rankers if r["in_play"]],
        "rankers": rows,
        "shares": Markup(
            pages.bar_list(names, [r["share"] or 0.0 for r in rankers], caption="1: chosen for every duel")
        ),
        "against": [f"against {name}" for name in names],
        "met": met,
    }


def _pairs(one: Mapping[str, Any]) -> list[list[str]]:
    """Return the rows of the table of pairs."""
    rows = []
    for pair in one["pairs"]:
        between = f"{pair['always_valid_lower']:+.3g} to {pair['always_valid_upper']:+.3g}".replace("-", "−")
        needed = pair["always_valid_queries_needed"]
        rows.append(
            [
                f"{pair['a']} against {pair['b']}",
                count(pair["wins"]),
                count(pair["losses"]),
                count(pair["ties"]),
                f"{pair['mean']:+.3g}".replace("-", "−"),
                between,
                pages.p_value(pair["always_valid_p_value"]),
                count(None if needed is None else math.ceil(needed)),
            ]
        )
    return rows
