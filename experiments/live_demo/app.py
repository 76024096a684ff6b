"""The demo: a separate service on this machine, in which you are the user."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import views
from session import STAGES, Session
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from structsvm.live.contract.calls import Refused
from structsvm.live.contract.settings import Settings
from structsvm.live.experiment.service import Service
from structsvm.live.web.app import create_app
from structsvm.live.web.endpoints import STATUSES, endpoint
from structsvm.live.web.pages import plain

__all__ = ["create_demo"]

STATUSES["not_ready"] = 503

# the verdict is in a frame of the search page
_FRAMED = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'"
)


def create_demo(settings: Settings, random_state: int = 0, **options: Any) -> Starlette:
    """Return the application of the demo: the service, with a separate store and further pages under ``/demo``.

    ``options`` are passed to ``Session``.
    """
    service = Service(settings)
    app = create_app(settings, service)
    session = Session(service, random_state, **options)
    app.router.routes.extend(_routes(session))
    app.state.demo = session
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(application: Starlette) -> AsyncIterator[Any]:
        async with inner(application) as state:
            await session.start()
            try:
                yield state
            finally:
                await session.stop()

    app.router.lifespan_context = lifespan
    return app


def _routes(session: Session) -> list[Route]:
    async def search(request: Request) -> Response:
        return HTMLResponse(views.search_page(session, await session.page()))

    async def verdict(request: Request) -> Response:
        found = plain(await session.service.report(session.experiment))
        text = await asyncio.to_thread(views.verdict_panel, session, found)
        return HTMLResponse(text, headers={"Content-Security-Policy": _FRAMED})

    async def clicks(request: Request) -> Response:
        form = await _form(request)
        places = [int(place) for place in form.get("place", []) if place in _PLACES]
        token = form.get("token", [""])[0]
        if token and places:
            await session.click(token, places)
        return _back("/demo")

    async def switch(request: Request) -> Response:
        form = await _form(request)
        if "visitors" in form:
            session.visitors = form["visitors"][0] == "on"
        stage = form.get("stage", [""])[0]
        if stage in session.stages():
            session.stage = stage
        return _back("/demo")

    async def training(request: Request) -> Response:
        problem = ""
        if request.method == "POST":
            try:
                await session.train()
                return _back("/demo/train")
            except Refused as error:
                problem = error.message
        found = await session.service.report(STAGES["pair"])
        return HTMLResponse(views.train_page(session, waiting=found.n_impressions, problem=problem))

    def once_ready(page: Any) -> Any:
        async def answer(request: Request) -> Response:
            if not session.ready:
                return HTMLResponse(views.waiting_page(session.problem))
            return await page(request)

        return answer

    # the scope also keeps pages of other sites from sending forms
    return [
        Route("/demo", endpoint(once_ready(search), scope=None)),
        Route("/demo/verdict", endpoint(once_ready(verdict), scope=None)),
        Route("/demo/clicks", endpoint(clicks, scope="show"), methods=["POST"]),
        Route("/demo/switch", endpoint(switch, scope="show"), methods=["POST"]),
        Route("/demo/train", endpoint(once_ready(training), scope="show"), methods=["GET", "POST"]),
    ]


_PLACES = {str(place) for place in range(1, 11)}


async def _form(request: Request) -> dict[str, list[str]]:
    """Return the fields of a form."""
    try:
        return parse_qs((await request.body()).decode("ascii"), max_num_fields=50)
    except ValueError:
        raise Refused("bad_form", "expected the fields of a form") from None


def _back(target: str) -> Response:
    return RedirectResponse(target, status_code=303)
