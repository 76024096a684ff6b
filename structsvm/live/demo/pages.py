"""The pages of the demo: search, the verdict beside it, and training from clicks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from structsvm import report
from structsvm.common.escaping import escape
from structsvm.live.demo.session import Session
from structsvm.live.demo.world import EUCLIDEAN, LEARNED, N_NOISY, World
from structsvm.live.pages.experiments import bands
from structsvm.live.pages.layout import STYLE, badge, count, facts, navigation, percent

_STYLE = (
    STYLE
    + """
.beside{display:grid;grid-template-columns:minmax(0,1fr);gap:1rem}
@media(min-width:56rem){main{max-width:76rem}.beside{grid-template-columns:minmax(0,3fr) minmax(0,2fr)}}
.beside>section{margin:1rem 0 0}
iframe{border:0;width:100%;height:37rem;display:block;color-scheme:light dark}
.asked{display:flex;gap:1rem;flex-wrap:wrap;align-items:end;margin:.2rem 0 .8rem}
.asked figure{margin:0}.asked img{width:96px;height:96px}.asked .small img{width:48px;height:48px}
.tiles{display:grid;grid-template-columns:repeat(5,minmax(0,1fr));gap:.5rem;max-width:30rem}
.tile{display:block;cursor:pointer;position:relative}
.tile img{width:100%;height:auto;aspect-ratio:1;border:3px solid var(--rule);border-radius:6px}
.tile input{position:absolute;opacity:0;width:100%;height:100%;margin:0;cursor:pointer}
.tile input:checked+img{border-color:var(--hit);box-shadow:0 0 0 3px var(--hit)}
.tile input:focus-visible+img{outline:3px solid var(--s0);outline-offset:3px}
.tile span{position:absolute;right:2px;top:0;font-weight:700;color:var(--hit);background:var(--card);
border-radius:50%;width:1.3rem;line-height:1.3rem;text-align:center;visibility:hidden}
.tile input:checked~span{visibility:visible}
button{font:inherit;font-weight:600;padding:.45rem 1rem;border-radius:8px;border:1.5px solid var(--s0);
background:var(--card);color:var(--s0);cursor:pointer;margin:.2rem .3rem .2rem 0}
button[aria-pressed=true],button.main{background:var(--s0);color:var(--card)}
button[disabled]{opacity:.5;cursor:default}form{margin:0}.switches{display:flex;flex-wrap:wrap;gap:.2rem .8rem}
"""
)
_PANEL_STYLE = (
    STYLE + "main{padding:0;max-width:none}h1{font-size:1.15rem;margin:0 0 .4rem;text-wrap:wrap}"
    ".facts{grid-template-columns:repeat(3,minmax(0,1fr))}figure{margin:.3rem 0}body{background:var(--card)}"
)

_STAGES = {
    "pair": ("Two rankers", "Plain distance (euclidean) against a ranker trained on labels (learned)."),
    "twins": (
        "A/A",
        "The same ranker twice, with a little noise: neither is better, and nothing should ever win.",
    ),
    "contenders": ("Contenders", "A bandit chooses which two of all rankers make each list."),
}


def waiting_page(problem: str | None) -> str:
    """Return the page while the world is made."""
    lead = (
        "Reading images and training the first ranker: a few seconds, and up to a minute the first time, while code is "
        "compiled."
        if problem is None
        else f"The demo cannot start: {problem}"
    )
    return _page("Find the same digit", "/demo", lead=lead, refresh=1 if problem is None else None)


def search_page(session: Session, page: Mapping[str, Any]) -> str:
    """Return the page on which a visitor searches."""
    world = session.world
    assert world is not None
    query = page["query"]
    tiles = "".join(
        f'<label class="tile"><input type="checkbox" name="place" value="{place}" '
        f'aria-label="result {place}, a {world.digits[int(name[1:])]}">'
        f'{_image(world.clean[int(name[1:])], "")}<span aria-hidden="true">✓</span></label>'
        for place, name in enumerate(page["documents"], 1)
    )
    asked = (
        f"<figure>{_image(world.clean[query], f'the digit {world.digits[query]}')}"
        "<figcaption>find this digit</figcaption></figure>"
        f'<figure class="small">{_image(world.seen[query], "the same image with noise")}'
        "<figcaption>as the rankers see it</figcaption></figure>"
    )
    form = (
        '<form method="post" action="/demo/clicks">'
        f'<input type="hidden" name="token" value="{escape(page["token"] or "")}">'
        f'<div class="tiles">{tiles}</div>'
        '<p><button class="main">Next</button></p></form>'
    )
    left = report.section(
        "Which of these show the same digit?",
        report.paragraph(
            "The list is drafted from two rankers. Mark what you would click on, then go on; you cannot see which "
            "ranker found what."
        ),
        f'<div class="asked">{asked}</div>{form}',
    )
    right = report.section(
        "The verdict", '<iframe src="/demo/verdict" title="the verdict so far" loading="lazy"></iframe>'
    )
    return _page(
        "Find the same digit",
        "/demo",
        f'<div class="beside">{left}{right}</div>',
        _switches(session),
        lead=f"{N_NOISY} of the 64 pixels of every image are noise to the rankers. Which ranker do visitors prefer?",
        frames=True,
    )


def verdict_panel(session: Session, found: Mapping[str, Any]) -> str:
    """Return what stands in the frame beside the search: the verdict as it forms."""
    verdict = found["verdict"]
    winner = verdict["winner"]
    pieces = [f"<p>{badge('not decided') if winner is None else badge(f'decided: {winner}', 'good')}</p>"]
    figures = [
        ("counted", count(found["n_impressions"])), ("pending", count(found["pending"])),
        ("simulated", count(session.visits)),
    ]  # fmt: skip
    pieces.append(facts(figures))
    if found.get("bandit"):
        rankers = found["bandit"]["rankers"]
        playing = [r["name"] for r in rankers if r["in_play"]]
        pieces.append(report.paragraph(f"Still in play: {report.listed(playing)}." if playing else ""))
        pieces.append(
            report.bar_list(
                [r["name"] for r in rankers],
                [r["duels"] / max(found["bandit"]["n_duels"], 1) for r in rankers],
                caption="part of the duels so far in which each ranker took part",
            )
        )
    else:
        pieces += bands(found, most=1, explained=False)
    pieces.append(
        report.paragraph(
            f"A list counts {session.window_s:g} s after it was shown, when its clicks are in; until then it is "
            "pending. Counting clicks as they come would favour the ranker whose users click sooner.",
            small=True,
        )
    )
    return report.page(verdict["sentence"], *pieces, style=_PANEL_STYLE, refresh=2)


def train_page(session: Session, *, waiting: int, problem: str = "") -> str:
    """Return the page on which a ranker is trained from clicks."""
    world = session.world
    assert world is not None
    button = (
        '<form method="post" action="/demo/train"><button class="main"'
        f"{'' if waiting else ' disabled'}>Train a ranker from {waiting:,} lists and their clicks</button></form>"
    )
    told = report.paragraph(problem) if problem else ""
    first = report.section(
        "From clicks to a ranker",
        report.paragraph(
            "The log of the experiment holds lists and clicks, no labels. ClickSVM learns from it: each click says "
            "that its document should stand above the others, weighted by how seldom users look at its position."
        ),
        told,
        button,
        *(report.paragraph(_said(one), small=True) for one in session.trainings[-3:]),
    )
    names = [EUCLIDEAN, LEARNED, *(one.name for one in session.trainings[-3:])]
    table = report.table(
        [report.Column("Ranker"), report.Column("right among the first ten", True)],
        [[name, percent(world.precision(name))] for name in names],
        caption="By the true digits, which the click-trained rankers never saw",
    )
    mask = report.weight_image(
        world.noisy.reshape(8, 8).astype(float),
        title="noisy pixels",
        caption="the pixels that are noise (filled)",
    )
    pictures = report.side_by_side(mask, *(_weights(world, name) for name in names if name in world.weights))
    second = report.section("What was learned", table, pictures)
    next_step = ""
    if session.trainings:
        next_step = report.section(
            "Into the competition",
            "<p>The new ranker competes with the others: a bandit chooses who meets whom, and drops those that lose. "
            '<a href="/e/contenders">The contenders</a>; <a href="/demo">go on searching</a>.</p>',
        )
    return _page("Train from clicks", "/demo/train", first, next_step, second)


def _said(one: Any) -> str:
    looks = " ".join(f"{look:.2f}" for look in one.looks)
    how = f"estimated looks at positions 1 to {len(one.looks)}: {looks}" if one.estimated else (
        "too few clicks to estimate how often users look at a position: all count alike"
    )  # fmt: skip
    return f"{one.name}: {one.n_clicks:,} clicks on {one.n_impressions:,} lists; {how}."


def _switches(session: Session) -> str:
    on = session.visitors
    speed = f"{session.visits_per_s:g} per second"
    visitors = _switch("visitors", "off" if on else "on", f"Simulated visitors: {'on' if on else 'off'}", on)
    stages = "".join(
        _switch("stage", stage, _STAGES[stage][0], stage == session.stage) for stage in session.stages()
    )
    return report.section(
        "Switches",
        f'<div class="switches">{visitors}</div>',
        report.paragraph(
            f"They click on what shows the same digit, with a few mistakes, {speed}.", small=True
        ),
        f'<div class="switches">{stages}</div>',
        report.paragraph(_STAGES[session.stage][1], small=True),
    )


def _switch(name: str, value: str, text: str, pressed: bool) -> str:
    return (
        f'<form method="post" action="/demo/switch"><button name="{name}" value="{value}" '
        f'aria-pressed="{"true" if pressed else "false"}">{escape(text)}</button></form>'
    )


def _page(
    title: str, here: str, *pieces: str, lead: str = "", refresh: int | None = None, frames: bool = False
) -> str:
    links = [("/demo", "Search"), ("/e/digits", "Experiment"), ("/demo/train", "Train from clicks"),
             ("/", "All experiments")]  # fmt: skip
    return report.page(
        title, *pieces, lead=lead, above=navigation(links, here), style=_STYLE, refresh=refresh, frames=frames
    )


def _image(pixels: Any, alt: str) -> str:
    return report.picture(np.asarray(pixels).reshape(8, 8), alt=alt)


def _weights(world: World, name: str) -> str:
    # closer is better, so weights of differences are negative: shown is how much a pixel counts
    return report.weight_image(
        -world.weights[name].reshape(8, 8), title=f"what counts for {name}",
        caption=f"{name}: how much a difference at each pixel counts",
    )  # fmt: skip
