"""Pages that people look at: experiments, one experiment, and the files that browsers and clients ask for.

Rendered on the server from the same reports as the API; no script, no font, nothing from elsewhere.
"""

from __future__ import annotations

import time
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from structsvm.live.app import endpoint
from structsvm.live.pages.experiment import experiment_page
from structsvm.live.pages.overview import overview_page
from structsvm.live.service import Service

__all__ = ["routes"]

REFRESH_S = 10
_FILES = {
    "client.js": ("text/javascript", "public, max-age=3600"), "openapi.json": ("application/json", "no-cache"),
}  # fmt: skip


def routes(service: Service) -> list[Route]:
    """Return the routes of the pages."""

    async def overview(request: Request) -> Response:
        known = await service.experiments()
        reports = [await service.report(one["key"]) for one in known]
        return _html(overview_page(reports, now_ms=1000 * time.time(), refresh=_refresh(request)))

    async def experiment(request: Request) -> Response:
        found = await service.report(request.path_params["key"])
        return _html(experiment_page(found, now_ms=1000 * time.time(), refresh=_refresh(request)))

    def file(name: str) -> Route:
        kind, keep = _FILES[name]
        content = (Path(__file__).parent.parent / name).read_bytes()

        async def serve(request: Request) -> Response:
            return Response(content, 200, {"Cache-Control": keep}, kind)

        return Route(f"/{name}", endpoint(serve, scope=None))

    return [
        Route("/", endpoint(overview, scope="read")),
        Route("/e/{key:path}", endpoint(experiment, scope="read")),
        *(file(name) for name in _FILES),
    ]


def _html(text: str) -> Response:
    return HTMLResponse(text, headers={"Cache-Control": "no-store"})


def _refresh(request: Request) -> int | None:
    """Return after how many seconds a browser loads the page again; None for ``?refresh=0``."""
    asked = request.query_params.get("refresh", "")
    if not (asked.isascii() and asked.isdigit() and len(asked) < 5):
        return REFRESH_S
    return int(asked) or None
