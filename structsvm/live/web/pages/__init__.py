"""HTML pages: the list of experiments, one experiment, and the files that browsers and clients request.

The pages are rendered on the server from the reports of the API, without scripts, fonts or external resources.
"""

import asyncio
import json
import logging
import time
from importlib.resources import files
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from structsvm.live.contract.bodies import Report
from structsvm.live.experiment.service import Service
from structsvm.live.web.endpoints import endpoint
from structsvm.live.web.openapi import document
from structsvm.live.web.pages.experiments import experiment_page, overview_page

__all__ = ["routes"]

log = logging.getLogger("structsvm.live")

REFRESH_S = 10


def routes(service: Service) -> list[Route]:
    """Return the routes of the pages."""

    async def overview(request: Request) -> Response:
        reports = []
        for one in (await service.experiments())["experiments"]:
            try:
                reports.append(plain(await service.report(one["key"])))
            except Exception:  # a failing experiment does not hide the others
                log.exception("structsvm live: no report of %s", one["key"])
                reports.append({"experiment": one})
        return HTMLResponse(overview_page(reports, now_ms=1000 * time.time(), refresh=_refresh(request)))

    async def experiment(request: Request) -> Response:
        found = plain(await service.report(request.path_params["key"]))
        # in a thread, as drawing a figure for the first time would delay other requests
        text = await asyncio.to_thread(
            experiment_page, found, now_ms=1000 * time.time(), refresh=_refresh(request)
        )
        return HTMLResponse(text)

    def file(name: str, content: bytes, kind: str, keep: str) -> Route:
        async def serve(request: Request) -> Response:
            return Response(content, 200, {"Cache-Control": keep}, kind)

        return Route(f"/{name}", endpoint(serve, scope=None))

    script = files("structsvm.live").joinpath("client.js").read_bytes()
    return [
        Route("/", endpoint(overview, scope="read")),
        Route("/e/{key:path}", endpoint(experiment, scope="read")),
        file("client.js", script, "text/javascript", "public, max-age=3600"),
        file("openapi.json", json.dumps(document()).encode(), "application/json", "no-cache"),
        file("favicon.ico", _ICON, "image/svg+xml", "public, max-age=86400"),
    ]


_ICON = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2 2"><circle cx="1" cy="1" r="1"/></svg>'


def plain(report: Report) -> dict[str, Any]:
    """Return a report as plain values, as clients of the API get it."""
    return dict(msgspec.to_builtins(report))


def _refresh(request: Request) -> int | None:
    """Return the number of seconds after which a browser reloads the page; None for ``?refresh=0``."""
    asked = request.query_params.get("refresh", "")
    if not (asked.isascii() and asked.isdigit() and len(asked) < 5):
        return REFRESH_S
    return int(asked) or None
