"""The pages of the demo: search, the verdict beside it, and training from clicks."""

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import ChoiceLoader, FileSystemLoader
from markupsafe import Markup
from matplotlib.image import imsave
from session import Session
from world import EUCLIDEAN, LEARNED, N_NOISY

from structsvm.live.web.pages import formats
from structsvm.live.web.pages.experiments import bands
from structsvm.plots import pages

_STAGES = {
    "pair": ("Two rankers", "Plain distance (euclidean) against a ranker trained on labels (learned)."),
    "twins": (
        "A/A",
        "The same ranker twice, with a little noise: neither is better, and nothing should ever win.",
    ),
    "contenders": ("Contenders", "A bandit chooses which two of all rankers make each list."),
}


def picture(pixels: Any, *, alt: str, size: int = 32) -> Markup:
    """Return a greyscale image of numbers from 0 to 1 (larger is darker); ``alt`` describes it to screen readers."""
    buffer = io.BytesIO()
    imsave(buffer, np.clip(np.asarray(pixels, dtype=np.float64), 0, 1), cmap="gray_r", vmin=0, vmax=1)
    data = base64.b64encode(buffer.getvalue()).decode()
    element = '<img src="data:image/png;base64,{}" alt="{}" width="{}" height="{}">'
    return Markup(element).format(data, alt, size, size)


def _render(template: str, **values: Any) -> str:
    """Fill a template of this folder, which may extend those of the package."""
    package = pages._environment()
    assert package.loader is not None
    environment = package.overlay(
        loader=ChoiceLoader([FileSystemLoader(Path(__file__).parent), package.loader])
    )
    defaults = {"lead": "", "above": "", "style": "", "refresh": None, "frames": False, "picture": picture}
    return environment.get_template(template).render({**defaults, **values})


def waiting_page(problem: str | None) -> str:
    """Return the page shown while the world is built."""
    lead = (
        "Reading images and training the first ranker: a few seconds, and up to a minute the first time, while code is "
        "compiled."
        if problem is None
        else f"The demo cannot start: {problem}"
    )
    return _render(
        "base.html",
        title="Find the same digit",
        here="/demo",
        lead=lead,
        body="",
        refresh=1 if problem is None else None,
    )


def search_page(session: Session, page: Mapping[str, Any]) -> str:
    """Return the page on which a visitor searches."""
    lead = f"{N_NOISY} of the 64 pixels of every image are noise to the rankers. Which ranker do visitors prefer?"
    return _render(
        "search.html",
        title="Find the same digit",
        here="/demo",
        lead=lead,
        frames=True,
        session=session,
        world=session.world,
        query=page["query"],
        token=page["token"] or "",
        stages=_STAGES,
        images=[int(name[1:]) for name in page["documents"]],
    )


def verdict_panel(session: Session, found: Mapping[str, Any]) -> str:
    """Return the content of the frame beside the search: the current verdict."""
    playing: list[str] = []
    if found.get("bandit"):
        rankers = found["bandit"]["rankers"]
        playing = [r["name"] for r in rankers if r["in_play"]]
        picture = pages.bar_list(
            [r["name"] for r in rankers],
            [r["duels"] / max(found["bandit"]["n_duels"], 1) for r in rankers],
            caption="part of the duels so far in which each ranker took part",
        )
    else:
        picture = bands(found, most=1, explained=False)
    return _render(
        "verdict.html",
        title=found["verdict"]["sentence"],
        refresh=2,
        session=session,
        found=found,
        playing=playing,
        picture=Markup(picture),
        say=formats,
        listed=pages.listed,
    )


def train_page(session: Session, *, waiting: int, problem: str = "") -> str:
    """Return the page on which a ranker is trained from clicks."""
    world, trainings = session.world, session.trainings[-3:]
    assert world is not None
    names = [EUCLIDEAN, LEARNED, *(one.name for one in trainings)]
    return _render(
        "train.html",
        title="Train from clicks",
        here="/demo/train",
        waiting=waiting,
        problem=problem,
        trainings=trainings,
        world=world,
        learned=[name for name in names if name in world.weights],
        columns=[pages.Column("Ranker"), pages.Column("right among the first ten", True)],
        rows=[[name, formats.percent(world.precision(name))] for name in names],
    )
